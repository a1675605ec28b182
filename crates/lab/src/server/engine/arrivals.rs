//! Arriving requests: those of clients, and the server's own operations.

use ioweir_core::Nanos;
use ioweir_core::Tag;
use ioweir_core::cores::{Kind, Source, Work};

use super::super::model::Phase;
use super::super::random::Stream;
use super::{Inside, Live, NOWHERE};
use crate::sim::pool::{Discipline, WorkerPool};

impl Inside<'_> {
    pub(super) fn plan_arrival(&mut self) {
        let mean = self.model.gap(self.now);
        let gap = self.exponential.draw(self.arrivals.next(), mean) >> 8;
        self.next_arrival = self.now + gap.max(1);
    }

    pub(super) fn arrive(&mut self, pool: &mut WorkerPool<impl Discipline>) {
        let model = self.model;
        let mut stream = Stream::nth(self.seed, self.numbers);
        self.plan_arrival();
        let number = model.operation(&mut stream);
        let operation = &model.operations[usize::from(number)];
        let bytes = operation.bytes(&mut stream);
        let misses = operation.misses(&mut stream);
        let is_single_block = misses > 0 && operation.is_single_block(bytes, &mut stream);
        let deadline = operation.deadline(&mut stream).map(|within| Nanos(self.now + within));
        let phase = Phase::First { kind: operation.kind, slow: misses > 0 };
        let left = model.cost(phase, bytes, &mut stream);
        let object = if operation.locks { stream.below(model.objects) } else { 0 };
        let live = Live {
            arrival: self.now,
            stream,
            left,
            bytes,
            object,
            kind: operation.kind,
            source: Source::Client,
            locks: operation.locks,
            has_lock: false,
            is_logged: false,
            has_buffers: false,
            is_single_block,
            region: NOWHERE,
            misses,
            returns: 0,
            operation: number,
        };
        let work =
            Work { kind: operation.kind, source: Source::Client, bytes, sequential: operation.sequential, deadline };
        if !self.admit(pool, work, live) {
            return;
        }
        self.arrived += 1;
        self.in_clients += 1;
        self.laws.arrived(self.now);
        if operation.sequential && operation.kind == Kind::Read {
            self.read_ahead(pool, bytes);
        }
    }

    /// Counts a sequential read; when enough for one prefetch has been read, the next prefetch is due.
    fn read_ahead(&mut self, pool: &mut WorkerPool<impl Discipline>, bytes: u32) {
        let model = self.model;
        self.sequential_bytes += u64::from(bytes);
        if self.sequential_bytes < u64::from(model.prefetch_bytes) {
            return;
        }
        self.sequential_bytes -= u64::from(model.prefetch_bytes);
        let work = Work {
            kind: Kind::Read,
            source: Source::Background,
            bytes: model.prefetch_bytes,
            sequential: true,
            deadline: None,
        };
        self.own_work(pool, work, Phase::Prefetch);
    }

    /// Submits internal work.
    pub(super) fn own_work(&mut self, pool: &mut WorkerPool<impl Discipline>, work: Work, phase: Phase) {
        let mut stream = Stream::nth(!self.seed, self.numbers);
        let region = match (phase, &self.model.back_end) {
            (Phase::BackEndFirst, Some(own)) => stream.below(own.regions),
            _ => NOWHERE,
        };
        if region != NOWHERE {
            self.regions.begin(region, self.now);
        }
        let left = self.model.cost(phase, work.bytes, &mut stream);
        let live = Live {
            arrival: self.now,
            stream,
            left,
            bytes: work.bytes,
            object: 0,
            kind: work.kind,
            source: work.source,
            locks: false,
            has_lock: false,
            is_logged: true,
            has_buffers: false,
            is_single_block: false,
            region,
            misses: u8::from(region != NOWHERE),
            returns: 0,
            operation: 0,
        };
        self.admit(pool, work, live);
    }

    /// Submits a request. If there is no room, the server is saturated and the run ends.
    fn admit(&mut self, pool: &mut WorkerPool<impl Discipline>, work: Work, live: Live) -> bool {
        self.numbers += 1;
        pool.scheduler.foresee(self.remaining(&live));
        match pool.scheduler.submit(Nanos(self.now), work) {
            Ok(tag) => {
                self.place(tag, live);
                pool.wake(self);
                true
            }
            Err(_) => {
                self.is_full = true;
                false
            }
        }
    }

    /// Takes a free slot; unused slots come in order.
    fn place(&mut self, tag: Tag, live: Live) {
        if tag.index() == self.live.len() {
            self.live.push(live);
            self.tags.push(tag);
        } else {
            (self.live[tag.index()], self.tags[tag.index()]) = (live, tag);
        }
    }

    /// The remaining work of a request, with means for phases not drawn yet.
    pub(super) fn remaining(&self, live: &Live) -> Nanos {
        let waits = if live.is_single_block { 0 } else { live.misses };
        let later = u64::from(waits) * self.model.restart_mean(live.bytes);
        Nanos(u64::from(live.left) + later)
    }
}
