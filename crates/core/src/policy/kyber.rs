//! Kyber limits the reads and writes in flight with tokens, so that both meet their latency targets.
//!
//! Bound: between two batches of a domain, each other domain has at most one batch: 16 reads, 8 writes, 1 discard. With k
//! older requests in a domain with batch b, a request is dispatched within k / b + 1 rounds as long as a token is free. A
//! domain without tokens has at least one request in flight, and waits for one to complete.
//!
//! Example: the read target is 2 ms, and 500 reads took 3 ms in the device: congested. The 500 writes took 4 ms from
//! submission to completion, with a target of 10 ms: that is the second quarter, so writes go down from 128 tokens to 128 x
//! 2 / 4 = 64.

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::settings::MILLI;
use crate::structure::{Links, List};
use crate::{Nanos, Operation, Reason, Waiting};

const DOMAINS: usize = 3;
/// Requests that a domain dispatches before the next domain's turn.
const BATCH: [u32; DOMAINS] = [16, 8, 1];
/// Tokens of a domain at the start, which is also the most it has.
const TOKENS_MAX: [u32; DOMAINS] = [256, 128, 64];
/// The latency target of discards, which cannot be set.
const DISCARD_LATENCY: Nanos = Nanos::from_seconds(5);
/// A bucket is a quarter of the target, so the first four are within it.
const BUCKETS_GOOD: u64 = 4;
const BUCKETS: usize = 2 * BUCKETS_GOOD as usize;
/// The time from the first completion to the next evaluation of the histograms.
const INTERVAL: Nanos = Nanos::from_millis(100);
/// A histogram is used once it has this many samples, or this long after its first evaluation.
const SAMPLES_ENOUGH: u64 = 500;
const SAMPLES_WAIT: Nanos = Nanos::from_seconds(1);

pub(crate) static ROW: Row<()> = Row {
    name: "kyber",
    summary: "no sorting; limits the reads and the writes in flight by their latency",
    source: "Linux block/kyber-iosched.c (4.12 on, latency buckets as of 4.20), Documentation/block/kyber-iosched.rst",
    doc: include_str!("kyber.md"),
    bound: Bound {
        doc: "between two batches of a domain each other domain has at most one batch, of 16 reads, 8 writes or 1 discard; with k older \
requests in a domain of batch b, a request is dispatched within k / b + 1 rounds in which a token is free",
        wait: Wait::Dispatches(|backlog, _| (backlog.older + 2).saturating_mul(16 + 8 + 1)),
    },
    reads: Reads::NOTHING,
    linux: Some("kyber"),
    parameters: &[
        Parameter::duration("read-latency", 2 * MILLI, 1_000, 60_000 * MILLI, "latency target for reads")
            .tried(MILLI / 4, 64 * MILLI)
            .on_linux("read_lat_nsec", 1),
        Parameter::duration("write-latency", 10 * MILLI, 1_000, 60_000 * MILLI, "the same for writes")
            .tried(MILLI, 256 * MILLI)
            .on_linux("write_lat_nsec", 1),
    ],
    form: (),
};

/// Latencies in quarters of the target; the last bucket has all longer ones.
#[derive(Clone, Copy, Debug)]
struct Histogram {
    buckets: [u64; BUCKETS],
    samples: u64,
    /// When it is used with any number of samples; `None` before its first evaluation.
    patience_end: Option<Nanos>,
}

impl Histogram {
    const EMPTY: Self = Self { buckets: [0; BUCKETS], samples: 0, patience_end: None };

    fn add(&mut self, latency: Nanos, target: Nanos) {
        let quarter = (target.0 / BUCKETS_GOOD).max(1);
        let bucket = (latency.0.saturating_sub(1) / quarter).min(BUCKETS as u64 - 1);
        self.buckets[bucket as usize] += 1;
        self.samples += 1;
    }

    /// The bucket of a percentile, if there are enough samples; empties the histogram.
    fn take_percentile(&mut self, percent: u64, now: Nanos) -> Option<u64> {
        if self.samples == 0 {
            return None;
        }
        let patience_end = *self.patience_end.get_or_insert(now.after(SAMPLES_WAIT));
        if self.samples < SAMPLES_ENOUGH && now < patience_end {
            return None;
        }
        let mut left = (self.samples * percent).div_ceil(100);
        let bucket = self.buckets.iter().position(|&count| {
            let is_here = left <= count;
            left = left.saturating_sub(count);
            is_here
        });
        *self = Self::EMPTY;
        bucket.map(|bucket| bucket as u64)
    }
}

#[derive(Clone, Copy, Debug)]
struct Domain {
    fifo: List,
    /// Submitted requests in the domain, merged ones counted.
    requests: u32,
    in_flight: u32,
    tokens: u32,
    target: Nanos,
    in_device: Histogram,
    in_all: Histogram,
    /// The 99th percentile of an evaluation without congestion, for the next evaluation with congestion.
    last_percentile: Option<u64>,
}

impl Domain {
    const fn is_throttled(&self) -> bool {
        self.in_flight >= self.tokens
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Kyber {
    links: Links,
    dispatched_at: Box<[Nanos]>,
    domains: Box<[Domain; DOMAINS]>,
    /// The domain that has its turn, and its dispatches in this turn.
    turn: usize,
    batched: u32,
    /// When the histograms are evaluated.
    evaluation: Nanos,
}

const fn domain_of(operation: Operation) -> usize {
    match operation {
        Operation::Read => 0,
        Operation::Write | Operation::Flush => 1,
        Operation::Discard => 2,
    }
}

impl Kyber {
    pub(crate) fn new(limits: &QueueLimits, (): (), settings: &Settings) -> Self {
        let slots = limits.slots();
        let [read_latency, write_latency] = settings.values();
        let targets = [Nanos(read_latency), Nanos(write_latency), DISCARD_LATENCY];
        let domain = |number: usize| Domain {
            fifo: List::EMPTY,
            requests: 0,
            in_flight: 0,
            tokens: TOKENS_MAX[number],
            target: targets[number],
            in_device: Histogram::EMPTY,
            in_all: Histogram::EMPTY,
            last_percentile: None,
        };
        Self {
            links: Links::new(slots),
            dispatched_at: vec![Nanos::ZERO; slots as usize].into_boxed_slice(),
            domains: Box::new(core::array::from_fn(domain)),
            turn: 0,
            batched: 0,
            evaluation: Nanos::NEVER,
        }
    }

    /// Evaluates the histograms if they are due before `end`.
    fn evaluate_before(&mut self, end: Nanos) {
        if self.evaluation >= end {
            return;
        }
        let now = core::mem::replace(&mut self.evaluation, Nanos::NEVER);
        let mut is_congested = false;
        for domain in self.domains.iter_mut() {
            is_congested |= domain.in_device.take_percentile(90, now).is_some_and(|bucket| bucket >= BUCKETS_GOOD);
        }
        for (domain, tokens_max) in self.domains.iter_mut().zip(TOKENS_MAX) {
            let percentile = domain.in_all.take_percentile(99, now);
            // Domains do not all have enough samples in the same interval: a percentile is kept until there is congestion,
            // and used once.
            let percentile = if is_congested {
                percentile.or(domain.last_percentile.take())
            } else {
                domain.last_percentile = percentile.or(domain.last_percentile);
                percentile
            };
            let Some(bucket) = percentile else { continue };
            if is_congested || bucket >= BUCKETS_GOOD {
                let scaled = u64::from(domain.tokens) * (bucket + 1) / BUCKETS_GOOD;
                domain.tokens = scaled.clamp(1, u64::from(tokens_max)) as u32; // at most `tokens_max`
            }
        }
    }

    /// The oldest request of the present domain, if it has a token.
    fn take(&mut self, queue: &RequestQueue, now: Nanos) -> Option<u32> {
        let domain = &mut self.domains[self.turn];
        if domain.is_throttled() {
            return None;
        }
        let slot = self.links.pop_front(&mut domain.fifo)?;
        domain.requests -= queue.entry(slot).members;
        domain.in_flight += 1;
        self.batched += 1;
        self.dispatched_at[slot as usize] = now;
        Some(slot)
    }
}

impl Elevator for Kyber {
    fn advance(&mut self, _queue: &RequestQueue, now: Nanos) {
        self.evaluate_before(now);
    }

    fn insert(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32) {
        let domain = &mut self.domains[domain_of(queue.entry(slot).operation)];
        self.links.push_back(&mut domain.fifo, slot);
        domain.requests += 1;
    }

    fn request_merged(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, _edge: Edge) {
        self.domains[domain_of(queue.entry(slot).operation)].requests += 1;
    }

    fn requests_merged(&mut self, queue: &RequestQueue, slot: u32, members: u32) {
        self.domains[domain_of(queue.entry(slot).operation)].requests += members;
    }

    fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        let entry = queue.entry(slot);
        let domain = &mut self.domains[domain_of(entry.operation)];
        self.links.remove(&mut domain.fifo, slot);
        domain.requests -= entry.members;
    }

    fn next(&mut self, queue: &RequestQueue, now: Nanos) -> Next {
        self.evaluate_before(Nanos(now.0.saturating_add(1)));
        if self.batched < BATCH[self.turn]
            && let Some(slot) = self.take(queue, now)
        {
            return Next::Take(slot);
        }
        self.batched = 0;
        for _ in 0..DOMAINS {
            self.turn = (self.turn + 1) % DOMAINS;
            if let Some(slot) = self.take(queue, now) {
                return Next::Take(slot);
            }
        }
        // No queued request has a token; a completion brings one, and the next evaluation may.
        Next::WaitUntil(self.evaluation, Reason::Throttled)
    }

    fn completed(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
        let domain = &mut self.domains[domain_of(entry.operation)];
        domain.in_flight -= 1;
        domain.in_device.add(now.since(self.dispatched_at[slot as usize]), domain.target);
        domain.in_all.add(now.since(entry.submitted), domain.target);
        self.evaluation = self.evaluation.min(now.after(INTERVAL));
    }

    /// The requests of a domain without tokens are throttled; of the other domains, one has its turn.
    fn waiting(&self, queued: u32) -> Waiting {
        let mut waiting = Waiting::default();
        let mut counted = 0;
        for (number, domain) in self.domains.iter().enumerate() {
            let reason = match (domain.is_throttled(), number == self.turn) {
                (true, _) => Reason::Throttled,
                (false, true) => Reason::DeviceFull,
                (false, false) => Reason::Ordering,
            };
            waiting.0[reason as usize] += domain.requests;
            counted += domain.requests;
        }
        debug_assert_eq!(counted, queued, "every request is in a domain");
        waiting
    }
}
