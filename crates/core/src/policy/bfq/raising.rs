//! Weight raising: some queues get more weight for a while, because a person or a player probably waits for them.
//!
//! Interactive: a queue that is new, or asks again after two seconds of silence, gets 30 times its weight for as long as the
//! start of an application should take, or until it got 60 MB. Soft real-time: a queue that asks at a steady, modest rate,
//! so that no request comes before the time at which it would exceed that rate, gets 3000 times its weight for 300 ms.
//! Queues that are created in a burst are neither: many at the same time are a boot or a build, and raising all of them
//! would raise none.

use crate::Nanos;

/// A queue that was silent for this long counts as new.
const SILENCE: Nanos = Nanos::from_seconds(2);
/// The most sectors that an interactive queue gets in one period.
const INTERACTIVE_SECTORS_MAX: u64 = 120_000;
const REAL_TIME: Nanos = Nanos::from_millis(300);
/// The highest rate of a soft real-time queue, in sectors a second.
const REAL_TIME_SECTORS_PER_SECOND: u64 = 7_000;
/// A soft real-time queue is silent, after its service, for the idle time plus this.
const REAL_TIME_PAUSE: Nanos = Nanos::from_millis(4);
/// Queues made within this time of one another are one burst; a burst of this many queues is large.
const BURST_GAP: Nanos = Nanos::from_millis(180);
const BURST_LARGE: u32 = 8;
/// A queue of a large burst no longer counts as such after a silence of this length.
const BURST_FORGOTTEN: Nanos = Nanos::from_seconds(10);

/// The way in which a queue is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raise {
    None,
    Interactive,
    RealTime,
}

impl Raise {
    pub(super) const COUNT: usize = 3;

    pub(super) const fn weight(self) -> u64 {
        match self {
            Self::None => 1,
            Self::Interactive => 30,
            Self::RealTime => 3_000,
        }
    }
}

/// How a queue may be raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    /// The queue is never raised, because its process has set a weight of its own.
    Never,
    Interactive,
    Both,
}

/// Queues that were made shortly after one another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    number: u32,
    newest: Nanos,
    size: u32,
}

impl Burst {
    pub(super) const NONE: Self = Self { number: 0, newest: Nanos::ZERO, size: 0 };

    /// Adds a new queue to a burst; returns the number of the burst.
    pub(super) fn join(&mut self, now: Nanos) -> u32 {
        if now.since(self.newest) > BURST_GAP {
            self.number = self.number.wrapping_add(1);
            self.size = 0;
        }
        self.newest = now;
        self.size = self.size.saturating_add(1);
        self.number
    }

    fn is_large(&self, number: u32) -> bool {
        number == self.number && self.size >= BURST_LARGE
    }
}

/// The state that a queue's weight depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raising {
    raise: Raise,
    start: Nanos,
    /// How long the interactive period lasts, as was known when it began.
    interactive: Nanos,
    /// When the interactive period began, if soft real-time has replaced it.
    interactive_start: Option<Nanos>,
    /// The sectors served while the queue was interactive.
    sectors: u64,
    /// Since when it has had no request, neither queued nor in the device; `None` before its first request.
    idle_since: Option<Nanos>,
    /// A request before this time would be too fast for soft real-time.
    real_time_from: Nanos,
    /// Whether that time is not known yet; it is set when the device has completed all requests of the queue.
    is_real_time_open: bool,
    busy_since: Nanos,
    /// The sectors served since `busy_since`.
    busy_sectors: u64,
    burst: u32,
    in_large_burst: bool,
}

impl Raising {
    pub(super) const fn new(burst: u32) -> Self {
        Self {
            raise: Raise::None,
            start: Nanos::ZERO,
            interactive: Nanos::ZERO,
            interactive_start: None,
            sectors: 0,
            idle_since: None,
            real_time_from: Nanos::NEVER,
            is_real_time_open: false,
            busy_since: Nanos::ZERO,
            busy_sectors: 0,
            burst,
            in_large_burst: false,
        }
    }

    pub(super) const fn raise(&self) -> Raise {
        self.raise
    }

    fn silent_for(&self, span: Nanos, now: Nanos, in_flight: u32) -> bool {
        in_flight == 0 && self.idle_since.is_none_or(|since| now > since.after(span))
    }

    /// The queue becomes busy; returns whether it is, or should be, raised. `interactive` is how long that would last.
    pub(super) fn busy(&mut self, burst: &Burst, now: Nanos, in_flight: u32, may: May, interactive: Nanos) -> bool {
        if self.idle_since.is_some() && self.silent_for(BURST_FORGOTTEN, now, in_flight) {
            self.in_large_burst = false;
            self.burst = burst.number.wrapping_sub(1);
        }
        self.in_large_burst |= burst.is_large(self.burst);
        let may_be_raised = may != May::Never && !self.in_large_burst;
        let is_interactive = may_be_raised && self.silent_for(SILENCE, now, in_flight);
        let real_time = may_be_raised && may == May::Both && in_flight == 0 && now > self.real_time_from;
        match self.raise {
            _ if is_interactive => {
                self.start(Raise::Interactive, now);
                self.interactive = interactive;
                self.sectors = 0;
            }
            Raise::None if real_time => {
                self.interactive_start = None;
                self.start(Raise::RealTime, now);
            }
            Raise::Interactive if real_time => {
                self.interactive_start = Some(self.start);
                self.start(Raise::RealTime, now);
            }
            Raise::RealTime if real_time => self.start = now,
            Raise::Interactive | Raise::RealTime if self.in_large_burst => self.raise = Raise::None,
            _ => {}
        }
        self.busy_since = now;
        self.busy_sectors = 0;
        self.is_real_time_open = false;
        self.raise != Raise::None
    }

    /// Stops raising a queue that is merged into another one; returns how it was raised.
    pub(super) const fn give_up(&mut self) -> Self {
        let before = *self;
        self.raise = Raise::None;
        before
    }

    /// Takes over the raise of a queue that is merged into this one.
    pub(super) fn inherit(&mut self, other: Self) {
        if self.raise == Raise::None {
            let Self { raise, start, interactive, interactive_start, sectors, .. } = other;
            *self = Self { raise, start, interactive, interactive_start, sectors, ..*self };
        }
    }

    fn start(&mut self, raise: Raise, now: Nanos) {
        self.raise = raise;
        self.start = now;
    }

    /// A request has been dispatched, which may end a raise.
    pub(super) fn served(&mut self, sectors: u64, burst: &Burst, interactive: Nanos, now: Nanos) {
        self.busy_sectors += sectors;
        self.in_large_burst |= burst.is_large(self.burst);
        match self.raise {
            Raise::None => {}
            // The queue was raised before the burst became large.
            _ if self.in_large_burst => self.raise = Raise::None,
            Raise::Interactive => {
                self.sectors += sectors;
                if now > self.start.after(self.interactive) || self.sectors > INTERACTIVE_SECTORS_MAX {
                    self.raise = Raise::None;
                }
            }
            Raise::RealTime if now > self.start.after(REAL_TIME) => {
                // The rest of an interactive period resumes.
                let left = self.interactive_start.take().filter(|start| now <= start.after(interactive));
                match left {
                    Some(start) => {
                        self.start(Raise::Interactive, start);
                        self.interactive = interactive;
                    }
                    None => self.raise = Raise::None,
                }
            }
            Raise::RealTime => {}
        }
    }

    /// The queue has no queued requests left; the device may still have some of its requests.
    pub(super) fn ran_dry(&mut self, now: Nanos, in_flight: u32, idle: Nanos) {
        if in_flight == 0 {
            self.silent(now, idle);
        } else {
            self.is_real_time_open = true;
        }
    }

    /// The device has completed all requests of a queue that has none queued.
    pub(super) fn drained(&mut self, now: Nanos, idle: Nanos) {
        if self.is_real_time_open && self.raise != Raise::Interactive {
            self.silent(now, idle);
        } else {
            self.idle_since = Some(now);
        }
        self.is_real_time_open = false;
    }

    fn silent(&mut self, now: Nanos, idle: Nanos) {
        self.idle_since = Some(now);
        let span = self.busy_sectors.saturating_mul(1_000_000_000) / REAL_TIME_SECTORS_PER_SECOND;
        let by_rate = self.busy_since.after(Nanos(span));
        let known = if self.real_time_from == Nanos::NEVER { Nanos::ZERO } else { self.real_time_from };
        self.real_time_from = known.max(by_rate).max(now.after(idle).after(REAL_TIME_PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Nanos = Nanos::from_millis(8);

    /// How a queue is raised when it asks for the tenth time: each time for `sectors`, and `pause` after its service.
    fn after_ten_requests(sectors: u64, pause: Nanos, interactive: Nanos) -> Raise {
        let mut burst = Burst::NONE;
        let mut raising = Raising::new(burst.join(Nanos::ZERO));
        let mut now = Nanos::ZERO;
        for _ in 0..10 {
            raising.busy(&burst, now, 0, May::Both, interactive);
            raising.served(sectors, &burst, interactive, now.after(Nanos(1)));
            now = now.after(Nanos::from_millis(5));
            raising.ran_dry(now, 0, IDLE);
            now = now.after(pause);
        }
        raising.busy(&burst, now, 0, May::Both, interactive);
        raising.raise()
    }

    #[test]
    fn player_is_real_time_copier_is_not() {
        let none = Nanos::ZERO;
        assert_eq!(after_ten_requests(64, Nanos::from_millis(40), none), Raise::RealTime);
        assert_eq!(after_ten_requests(64, Nanos::from_millis(10), none), Raise::None, "it asks too soon after service");
        assert_eq!(after_ten_requests(1_024, Nanos::from_millis(40), none), Raise::None, "25 600 sectors a second");
    }

    #[test]
    fn silent_for_two_seconds_makes_interactive() {
        let burst = Burst::NONE;
        let long = Nanos::from_seconds(7);
        let mut raising = Raising::new(burst.number.wrapping_sub(1));
        assert!(raising.busy(&burst, Nanos::ZERO, 0, May::Interactive, long), "a new queue");
        raising.served(8, &burst, long, Nanos::from_seconds(7));
        assert_eq!(raising.raise(), Raise::Interactive);
        raising.served(8, &burst, long, Nanos::from_millis(7_001));
        assert_eq!(raising.raise(), Raise::None);
        raising.ran_dry(Nanos::from_seconds(8), 0, IDLE);
        assert!(
            !raising.busy(&burst, Nanos::from_seconds(10), 0, May::Interactive, long),
            "two seconds are not more than two seconds"
        );
        raising.ran_dry(Nanos::from_seconds(11), 0, IDLE);
        assert!(raising.busy(&burst, Nanos::from_millis(13_001), 0, May::Interactive, long));
    }

    #[test]
    fn queue_that_reads_much_stops_being_interactive() {
        let burst = Burst::NONE;
        let long = Nanos::from_seconds(7);
        let mut raising = Raising::new(burst.number.wrapping_sub(1));
        raising.busy(&burst, Nanos::ZERO, 0, May::Interactive, long);
        raising.served(120_001, &burst, long, Nanos::from_millis(900));
        assert_eq!(raising.raise(), Raise::None);
    }
}
