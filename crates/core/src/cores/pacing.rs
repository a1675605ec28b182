//! Paces a consistency point: it is done just before the log is full, and until then takes as little as it can from clients.
//!
//! Let R be the processor time that the point still needs, T the time until the log is full, and I the workers that MQ gets
//! unasked, because no client has work for them. The point must get R / T workers and will get I; so MQ is owed the difference, at
//! most a twentieth of the workers, which is integrated, and paid in turns that go before all clients. Otherwise MQ runs when nothing else does.
//!
//! - R is the time of the last point, in proportion to the bytes, less what this one has used; and at least what is queued.
//! - T is the room over the rate at which the log fills, less a margin, and less the time that the last point took after its
//!   last processor work, for the disks.
//! - Rates are averaged over the time from the begin of one point to the next, so that swings within it even out.

use super::Log;
use crate::Nanos;

/// The most that MQ is owed for each worker.
const OWED_MAX: Nanos = Nanos::from_micros(500);
/// MQ is owed at most one part in this of all workers. If the log still fills up, only writes wait; if MQ had more, all would.
const FORCED: u64 = 20;
/// How often rates are computed.
const TICK: u64 = 1_000_000;
/// The time over which rates are averaged before anything is known of points, and its bounds.
const MEMORY: Nanos = Nanos::from_millis(100);
const MEMORY_MIN: Nanos = Nanos::from_millis(10);
const MEMORY_MAX: Nanos = Nanos::from_seconds(10);
/// The part of the time left that a point may take.
const MARGIN_PERCENT: u128 = 97;
const SECOND: u64 = 1_000_000_000;

/// A moving rate for each second.
#[derive(Clone, Copy, Debug, Default)]
struct Rate(u64);

impl Rate {
    /// Learns that there were `amount` in `span`, which is not zero. A span as long as the memory replaces all before.
    fn learn(&mut self, amount: u64, span: u64, memory: Nanos) {
        let Nanos(memory) = memory;
        let sample = scaled(amount, SECOND, span);
        let weight = span.min(memory);
        let mixed = u128::from(self.0) * u128::from(memory - weight) + u128::from(sample) * u128::from(weight);
        self.0 = narrow(mixed / u128::from(memory));
    }
}

/// The state of pacing flushes: how much CPU time consistency points need to finish before the log is full, and how much they get.
#[derive(Clone, Debug)]
pub(super) struct Pacing {
    /// The log as it was seen last, and as it was when rates were computed.
    log: Log,
    log_then: Log,
    computed: Nanos,
    /// Bytes that are logged.
    fill: Rate,
    /// Processor time of turns of MQ that were not forced, in nanoseconds, and since rates were computed.
    unasked: Rate,
    unasked_nanos: u64,
    /// Processor time of this point, and of the last one with its bytes.
    used_nanos: u64,
    last: (u64, u64),
    /// When processor work of this point ended last, and how long the last one took after that.
    worked: Nanos,
    tail: Nanos,
    /// Processor time that MQ is owed in each second, and is owed in all.
    force: u64,
    owed_nanos: i64,
    advanced: Nanos,
    /// When this point began, and the time over which rates are averaged.
    began: Nanos,
    memory: Nanos,
    workers: u32,
}

impl Pacing {
    pub(super) const fn new(workers: u32) -> Self {
        const NOTHING: Log = Log { logged_bytes: 0, room_bytes: 0, flushing_bytes: 0, points: 0 };
        Self {
            log: NOTHING,
            log_then: NOTHING,
            computed: Nanos::ZERO,
            fill: Rate(0),
            unasked: Rate(0),
            unasked_nanos: 0,
            used_nanos: 0,
            last: (0, 0),
            worked: Nanos::ZERO,
            tail: Nanos::ZERO,
            force: 0,
            owed_nanos: 0,
            advanced: Nanos::ZERO,
            began: Nanos::ZERO,
            memory: MEMORY,
            workers,
        }
    }

    /// Whether a point is running.
    pub(super) const fn is_running(&self) -> bool {
        self.log.flushing_bytes > 0
    }

    /// Looks at the log; `queued_nanos` is the processor time that is expected of the requests in MQ.
    pub(super) fn observe(&mut self, now: Nanos, log: Log, queued_nanos: u64) {
        let is_other = log.points != self.log.points || log.flushing_bytes == 0;
        if self.is_running() && is_other {
            self.end(now);
        }
        if log.flushing_bytes > 0 && log.points != self.log.points {
            (self.used_nanos, self.worked) = (0, now);
            (self.owed_nanos, self.advanced) = (0, now);
            self.memory = now.since(self.began).clamp(MEMORY_MIN, MEMORY_MAX);
            self.began = now;
        }
        let begins = is_other && log.flushing_bytes > 0;
        self.log = log;
        let span = now.since(self.computed).0;
        if span >= TICK || begins && span > 0 {
            self.compute(now, span, queued_nanos);
        }
    }

    /// Ends a point, and learns from it for the next.
    fn end(&mut self, now: Nanos) {
        self.last = (self.used_nanos, self.log.flushing_bytes);
        self.tail = now.since(self.worked);
        (self.force, self.owed_nanos) = (0, 0);
    }

    /// Computes the rates at which the log fills, MQ is served, and must be served.
    fn compute(&mut self, now: Nanos, span: u64, queued_nanos: u64) {
        self.is_due(now);
        self.fill.learn(self.log.logged_bytes.saturating_sub(self.log_then.logged_bytes), span, self.memory);
        if self.is_running() && queued_nanos > 0 {
            self.unasked.learn(self.unasked_nanos, span, self.memory);
        }
        (self.computed, self.log_then, self.unasked_nanos) = (now, self.log, 0);
        if self.is_running() {
            let (used, bytes) = self.last;
            let whole = scaled(used, self.log.flushing_bytes, bytes);
            let left = whole.saturating_sub(self.used_nanos).max(queued_nanos);
            let time = u128::from(scaled(self.log.room_bytes, SECOND, self.fill.0)) * MARGIN_PERCENT / 100;
            let time = narrow(time).saturating_sub(self.tail.0).max(TICK);
            let needed = scaled(left, SECOND, time);
            let forced_max = u64::from(self.workers) * SECOND / FORCED;
            self.force = needed.saturating_sub(self.unasked.0).min(forced_max);
        }
    }

    /// Whether MQ is owed a turn.
    pub(super) fn is_due(&mut self, now: Nanos) -> bool {
        let most = (u64::from(self.workers) * OWED_MAX.0) as i64;
        let owed = scaled(self.force, now.since(self.advanced).0, SECOND);
        self.advanced = now;
        self.owed_nanos = self.owed_nanos.saturating_add_unsigned(owed).min(most);
        self.is_running() && self.owed_nanos > 0
    }

    /// MQ gets a turn of this length before all clients.
    pub(super) const fn forced(&mut self, turn: Nanos) {
        self.owed_nanos -= turn.0 as i64;
    }

    /// A request of MQ has used processor time, in a turn that was forced or not.
    pub(super) const fn used(&mut self, now: Nanos, used: Nanos, was_forced: bool) {
        self.used_nanos += used.0;
        self.worked = now;
        if !was_forced {
            self.unasked_nanos += used.0;
        }
    }
}

/// `value * times / over`, and the most there is where nothing is divided by.
fn scaled(value: u64, times: u64, over: u64) -> u64 {
    match (value, over) {
        (0, _) => 0,
        (_, 0) => u64::MAX,
        _ => narrow(u128::from(value) * u128::from(times) / u128::from(over)),
    }
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
