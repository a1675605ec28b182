//! How many requests a device should have at once, learnt from how many it completes.
//!
//! A device that serves n requests at a time completes more with each one that it has, up to n; beyond n, requests only wait
//! there instead of in the scheduler, where the policy could act. [`LearntDepth`] finds n by trying. An *epoch* is a number of
//! completions while the device was full, that is, while it had as many requests as it may; only time in which it was full
//! counts, so that clients who ask for little teach nothing of the device.
//!
//! - At first the depth doubles for as long as that brings at least half as much more.
//! - Then a quarter more and a quarter less are tried in turn, each between two epochs at the present depth. The trial's depth is
//!   taken if it completes at least what lies halfway between nothing gained and gained in proportion: a quarter more has to bring
//!   an eighth more, a quarter less may cost an eighth. By Little's law that is as much as to say how latency may change: if nothing
//!   is gained, it rises in proportion to the depth.
//! - If the two epochs around a trial differ by more than an eighth, the trial is repeated. If they differ by less than a half,
//!   times differ so much that an epoch says little, and epochs become twice as long, up to sixteen times; if by more, the device
//!   itself has become slow or fast, and they become short.
//! - After two trials in a row that changed nothing it rests, for one epoch and then for up to sixteen.
//! - A depth that is not used for the length of an epoch is given back: it becomes the most that was used, and a quarter less at least,
//!   or half where it has just doubled, since at times clients may ask for all of it; but not less than at the start. Otherwise nothing would be tried any more, and a device that does less at a time than clients ask for would keep it all.
//!   After the next trial of more that is taken, it doubles as at first.
//!
//! **Bound.** Before a device that serves n at a time, and clients that ask for more, the depth ends between n / 2 and 2 n, and at
//! the most that it may be if that is less (`tests/rules/depth.rs`).

use ioweir_core::Nanos;

/// The depth at the start.
const START: u32 = 4;
/// An epoch's completions: so many, and so many for each request of the depth.
const EPOCH: u32 = 256;
const EPOCH_OF_EACH: u32 = 8;
/// An epoch is this much longer at most, as a power of two, where times differ much.
const LONGER_MAX: u32 = 4;
/// A trial changes the depth by one in so many.
const TRIAL: u32 = 4;
/// Two epochs at one depth differ by less than one in so many, if the device has not changed.
const STEADY: u64 = 8;
/// The longest rest, in epochs.
const REST_MAX: u32 = 16;

/// The number of completions, and the time in which they happened.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    completions: u64,
    nanos: u64,
}

impl Rate {
    /// Whether this is at least `times` / `over` of another rate.
    fn is_at_least(self, other: Self, times: u64, over: u64) -> bool {
        let product =
            |one: Self, by: Self, factor: u64| u128::from(one.completions) * u128::from(by.nanos) * u128::from(factor);
        product(self, other, over) >= product(other, self, times)
    }

    /// Whether this rate, at the depth `tried`, is more than halfway between that at `depth` and one that is in proportion.
    fn has_gained(self, of_depth: Self, depth: u32, tried: u32) -> bool {
        let (depth, tried) = (u64::from(depth), u64::from(tried));
        self.is_at_least(of_depth, depth + tried, 2 * depth)
    }

    const fn and(self, other: Self) -> Self {
        Self { completions: self.completions + other.completions, nanos: self.nanos + other.nanos }
    }
}

/// The purpose of the present epoch.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The depth was raised, from this one with this rate; none if it is the first.
    Doubling(Option<(u32, Rate)>),
    /// Measures the rate at the present depth, for comparison with a trial.
    Before,
    /// Another depth, after this rate.
    Trial(Rate),
    /// The depth again, after these rates of before and of the trial.
    After(Rate, Rate),
    /// Tries nothing for this many epochs.
    Rest(u32),
}

/// A depth that is learnt.
#[derive(Clone, Debug)]
pub struct LearntDepth {
    most: u32,
    depth: u32,
    stage: Stage,
    /// Whether the next trial, or the present one, is of more.
    tries_more: bool,
    /// Whether some of the depth was given back since it last doubled.
    gave_back: bool,
    /// Trials in a row that changed nothing, and the rest that follows the second.
    failures: u32,
    rest: u32,
    /// How much longer epochs are, as a power of two.
    longer: u32,
    epoch: Rate,
    /// Completions since the epoch began while the device was not full, and the most requests that it had.
    unused: u32,
    peak: u32,
    /// Completions that say nothing of the present epoch, since they began under another depth.
    stale: u32,
    /// When the device was last seen full, and the completions since; `None` if it was not full at the last look.
    full_since: Option<Nanos>,
    completed: u32,
}

impl LearntDepth {
    /// Begins to learn a depth of at most this.
    #[must_use]
    pub const fn new(most: u32) -> Self {
        let most = if most == 0 { 1 } else { most };
        Self {
            most,
            depth: if most < START { most } else { START },
            stage: Stage::Doubling(None),
            tries_more: true,
            gave_back: false,
            failures: 0,
            rest: 1,
            longer: 0,
            epoch: Rate { completions: 0, nanos: 0 },
            unused: 0,
            peak: 0,
            stale: 0,
            full_since: None,
            completed: 0,
        }
    }

    /// The most requests that the device may have now.
    #[inline]
    #[must_use]
    pub const fn limit(&self) -> u32 {
        match self.stage {
            Stage::Trial(_) => self.tried(),
            _ => self.depth,
        }
    }

    /// The depth of a trial, which may be the present one where there is no other.
    const fn tried(&self) -> u32 {
        let by = if self.depth < TRIAL { 1 } else { self.depth / TRIAL };
        if !self.tries_more {
            let less = self.depth - by;
            return if less == 0 { 1 } else { less };
        }
        let more = self.depth.saturating_add(by);
        if more > self.most { self.most } else { more }
    }

    /// The device has completed a request.
    #[inline]
    pub const fn completed(&mut self) {
        self.completed = self.completed.saturating_add(1);
    }

    /// Settles the calls of this moment: the device has `in_flight` requests now.
    #[inline]
    pub fn settled(&mut self, now: Nanos, in_flight: u32) {
        let completed = std::mem::take(&mut self.completed);
        if completed > 0 {
            self.count(completed, self.full_since.map(|since| now.since(since)));
        }
        self.peak = self.peak.max(in_flight);
        // The time until the next completion is that of one epoch, even if it is looked at meanwhile.
        if completed > 0 || self.full_since.is_none() || in_flight < self.limit() {
            self.full_since = (in_flight >= self.limit()).then_some(now);
        }
    }

    /// Counts completions, and the time since those before, if the device was full in it.
    fn count(&mut self, completed: u32, full: Option<Nanos>) {
        if self.stale > 0 {
            self.stale = self.stale.saturating_sub(completed);
            return;
        }
        match full {
            Some(span) => {
                self.epoch.completions += u64::from(completed);
                self.epoch.nanos = self.epoch.nanos.saturating_add(span.0);
            }
            None => self.unused = self.unused.saturating_add(completed),
        }
        let limit = self.limit();
        let whole = EPOCH.saturating_add(EPOCH_OF_EACH.saturating_mul(limit));
        let (rate, peak) = (self.epoch, self.peak);
        if rate.completions >= u64::from(whole) << self.longer {
            self.ended(rate);
        } else if self.unused >= whole {
            self.went_unused(peak);
        } else {
            return;
        }
        (self.epoch, self.unused, self.peak) = (Rate::default(), 0, 0);
        if self.limit() != limit {
            self.stale = limit.max(self.limit());
        }
    }

    /// An epoch has ended.
    fn ended(&mut self, rate: Rate) {
        match self.stage {
            Stage::Doubling(before) => self.doubled(before, rate),
            Stage::Before => self.next_trial(rate),
            Stage::Trial(before) => self.stage = Stage::After(before, rate),
            Stage::After(before, trial) => self.judge(before, trial, rate),
            Stage::Rest(left) if left > 1 => self.stage = Stage::Rest(left - 1),
            Stage::Rest(_) => self.next_trial(rate),
        }
    }

    /// Clients did not ask for as many requests as the device may have, but for so many at most.
    fn went_unused(&mut self, peak: u32) {
        if matches!(self.stage, Stage::Trial(_)) {
            self.failed(None);
        }
        let less = match self.stage {
            Stage::Doubling(Some((before, _))) => before,
            _ => self.depth - self.depth / TRIAL,
        };
        let used = peak.min(less).max(START.min(self.most));
        if used < self.depth {
            self.depth = used;
            self.stage = Stage::Before;
            self.tries_more = false;
            self.gave_back = true;
        }
    }

    fn doubled(&mut self, before: Option<(u32, Rate)>, rate: Rate) {
        if let Some((depth, slower)) = before
            && !rate.has_gained(slower, depth, self.depth)
        {
            self.depth = depth;
        } else if self.depth < self.most {
            self.stage = Stage::Doubling(Some((self.depth, rate)));
            self.depth = self.depth.saturating_mul(2).min(self.most);
            return;
        }
        self.stage = Stage::Before;
    }

    fn judge(&mut self, before: Rate, trial: Rate, after: Rate) {
        let is_within =
            |times: u64, over: u64| before.is_at_least(after, times, over) && after.is_at_least(before, times, over);
        if !is_within(STEADY - 1, STEADY) {
            self.longer = if is_within(1, 2) { (self.longer + 1).min(LONGER_MAX) } else { 0 };
            self.stage = Stage::Trial(after);
            return;
        }
        self.longer = self.longer.saturating_sub(1);
        if !trial.has_gained(before.and(after), self.depth, self.tried()) {
            return self.failed(Some(after));
        }
        self.depth = self.tried();
        (self.failures, self.rest) = (0, 1);
        let doubles = self.tries_more && std::mem::take(&mut self.gave_back);
        self.stage = if doubles { Stage::Doubling(None) } else { Stage::Before };
    }

    /// A trial has changed nothing: the next is of the other direction, after this rate at the present depth, or it rests.
    fn failed(&mut self, rate: Option<Rate>) {
        self.tries_more = !self.tries_more;
        self.failures += 1;
        match rate {
            _ if self.failures == 2 => {
                self.stage = Stage::Rest(self.rest);
                (self.failures, self.rest) = (0, (self.rest * 2).min(REST_MAX));
            }
            Some(rate) => self.next_trial(rate),
            None => self.stage = Stage::Before,
        }
    }

    /// Tries another depth, after an epoch at the present one; the other direction if there is none in this.
    fn next_trial(&mut self, rate: Rate) {
        self.stage = Stage::Trial(rate);
        if self.tried() == self.depth {
            self.tries_more = !self.tries_more;
        }
        if self.tried() == self.depth {
            // The range of depths has only one value.
            self.stage = Stage::Rest(REST_MAX);
        }
    }
}
