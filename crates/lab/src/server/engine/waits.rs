//! Waits of requests for something other than a worker: disks, memory, or room in the log.

use ioweir_core::Nanos;
use ioweir_core::cores::{Kind, Source, Work};

use super::super::model::{BLOCK_BYTES, Phase};
use super::super::random::Stream;
use super::{BACK_END, FLUSH, Inside, Live, NEVER, NOWHERE, REPLY};
use crate::sim::pool::{Discipline, WorkerPool};

impl Inside<'_> {
    /// Makes a suspended request wait for data, or for memory to hold it.
    pub(super) fn read(&mut self, slot: u32) {
        let live = &mut self.live[slot as usize];
        if !live.has_buffers {
            if u64::from(live.bytes) > self.buffers_free {
                self.returns.memory += 1;
                live.misses += 1;
                self.buffers_waiting.push_back(slot);
                return;
            }
            self.buffers_free -= u64::from(live.bytes);
            live.has_buffers = true;
        }
        self.returns.disk += 1;
        let done = self.data_time(slot);
        self.disk_events.push(done, slot);
    }

    /// The time at which the data of a request will be in memory.
    fn data_time(&mut self, slot: u32) -> u64 {
        let Live { bytes, mut stream, .. } = self.live[slot as usize];
        let cached = self.model.flash.as_ref().filter(|flash| stream.happens(flash.hits));
        let done = match cached {
            Some(flash) => self.now + flash.access + flash.kib * u64::from(bytes >> 10),
            None => self.disk_read(bytes, &mut stream),
        };
        self.live[slot as usize].stream = stream;
        done
    }

    /// Reads from a random disk; returns when that is done.
    pub(super) fn disk_read(&mut self, bytes: u32, stream: &mut Stream) -> u64 {
        let random_nanos = self.exponential.draw(stream.next(), self.model.disks.access_random.nanos().0);
        let disk = stream.below(self.disks.disks());
        self.disks.read(Nanos(self.now), u64::from(bytes), disk, random_nanos).end.0
    }

    /// Leaves a read of one block to the block layer, which answers the client itself. What it owes is bounded as the queues
    /// are.
    pub(super) fn read_block(&mut self, slot: u32) {
        let reply = self.live[slot as usize].reply();
        let done = self.data_time(slot);
        let at = match self.replies_free.pop() {
            Some(at) => {
                self.replies[at as usize] = reply;
                at
            }
            None => {
                self.is_full |= self.replies.len() >= self.model.requests as usize;
                self.replies.push(reply);
                u32::try_from(self.replies.len() - 1).unwrap_or(REPLY - 1)
            }
        };
        self.disk_events.push(done, REPLY | at);
    }

    /// The server's next own operation.
    fn own_operation(&mut self, pool: &mut WorkerPool<impl Discipline>) {
        let Some(own) = self.model.back_end else { return };
        self.disk_events.push(self.now + own.gap, BACK_END);
        let work = Work {
            kind: Kind::Other,
            source: Source::Background,
            bytes: BLOCK_BYTES,
            sequential: false,
            deadline: None,
        };
        self.own_work(pool, work, Phase::BackEndFirst);
    }

    pub(super) fn free_buffers(&mut self, pool: &mut WorkerPool<impl Discipline>, bytes: u32) {
        self.buffers_free += u64::from(bytes);
        while let Some(&slot) = self.buffers_waiting.front()
            && u64::from(self.live[slot as usize].bytes) <= self.buffers_free
        {
            self.buffers_waiting.pop_front();
            let live = &mut self.live[slot as usize];
            live.has_buffers = true;
            self.buffers_free -= u64::from(live.bytes);
            self.restart(pool, slot, Phase::Resumed);
        }
    }

    pub(super) fn disk_event(&mut self, pool: &mut WorkerPool<impl Discipline>) {
        let Some(slot) = self.disk_events.pop() else { return };
        match slot {
            FLUSH => {
                if self.log.operation_done() {
                    self.point_over(pool);
                }
            }
            BACK_END => self.own_operation(pool),
            reply if reply & REPLY != 0 => {
                self.replies_free.push(reply ^ REPLY);
                self.answer(self.replies[(reply ^ REPLY) as usize]);
            }
            slot if self.live[slot as usize].region != NOWHERE => self.restart(pool, slot, Phase::BackEnd),
            slot => self.restart(pool, slot, Phase::Restart),
        }
    }

    /// Puts a write into the log, and begins a consistency point if the half is full.
    pub(super) fn logs(&mut self, pool: &mut WorkerPool<impl Discipline>, bytes: u32) -> bool {
        let size = u64::from(bytes) + self.model.log_record;
        if self.log.append(size) {
            return true;
        }
        if self.log.is_flushing() {
            return false;
        }
        self.begin_point(pool);
        self.log.append(size)
    }

    pub(super) fn point_due(&mut self, pool: &mut WorkerPool<impl Discipline>) {
        if self.log.is_flushing() {
            // The running one is late; the next one begins when it completes.
            self.next_point = NEVER;
        } else {
            self.begin_point(pool);
        }
    }

    fn begin_point(&mut self, pool: &mut WorkerPool<impl Discipline>) {
        let operations = self.model.flush_operations;
        self.point_bytes = self.log.begin(operations);
        self.next_point = self.now + self.model.flush_interval;
        let bytes = u32::try_from(self.point_bytes / u64::from(operations)).unwrap_or(u32::MAX);
        let work = Work { kind: Kind::Write, source: Source::Critical, bytes, sequential: true, deadline: None };
        for _ in 0..operations {
            self.own_work(pool, work, Phase::Flush);
        }
    }

    /// Completes a consistency point: the freed half takes waiting writes.
    fn point_over(&mut self, pool: &mut WorkerPool<impl Discipline>) {
        if self.next_point == NEVER || !self.log_waiting.is_empty() {
            self.begin_point(pool);
        }
        for _ in 0..self.log_waiting.len() {
            if let Some(slot) = self.log_waiting.pop_front() {
                self.restart(pool, slot, Phase::Resumed);
            }
        }
    }
}
