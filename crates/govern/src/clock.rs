//! The time of the governor: steady between two looks, and that of the wall clock from day to day.

use ioweir_core::Nanos;

use ioweir_block::executor::{Clock as _, MachineClock};

/// A moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Since an origin of its own; it never goes back or jumps. Slices, leases and rates are measured on it.
    pub steady: Nanos,
    /// Since 1970-01-01 (UTC), as the machine's wall clock says. Bins begin on it.
    pub wall: Nanos,
}

/// How far both clocks may be apart before the wall clock has jumped.
const DRIFT_MAX: Nanos = Nanos::from_seconds(2);
/// A wall clock that was put back by more than this is believed at once; measurements since that earlier time are not.
const BACK_MAX: Nanos = Nanos::from_seconds(3600);

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    steady: MachineClock,
}

impl Clocks {
    /// Clocks whose steady origin is now.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a default that differs with every call misleads")]
    pub fn new() -> Self {
        Self { steady: MachineClock::new() }
    }

    #[must_use]
    pub fn now(&self) -> Moment {
        Moment { steady: self.steady.now(), wall: MachineClock::wall() }
    }
}

/// The change of the wall clock since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// The clock went on at its usual pace.
    On,
    /// The clock was put on by this much: the machine slept, or the time was wrong.
    Ahead(Nanos),
    /// The clock was put back a little. The governor's time stands still until the wall clock has caught up.
    Back(Nanos),
    /// The clock was put back by so much that it is believed: the governor goes on at that time.
    FarBack(Nanos),
}

/// The governor's time: that of the wall clock, but it never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    last: Moment,
    now: Nanos,
}

impl Timeline {
    /// A timeline that begins at this moment.
    #[must_use]
    pub const fn new(moment: Moment) -> Self {
        Self { last: moment, now: moment.wall }
    }

    /// The time at the last look, since 1970-01-01 (UTC).
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Goes on to a moment, and returns the change of the wall clock.
    pub fn advance(&mut self, moment: Moment) -> Course {
        let expected = self.last.wall.after(moment.steady.since(self.last.steady));
        self.last = moment;
        if self.now.since(moment.wall) > BACK_MAX {
            self.now = moment.wall;
            return Course::FarBack(expected.since(moment.wall));
        }
        self.now = self.now.max(moment.wall);
        if moment.wall > expected.after(DRIFT_MAX) {
            Course::Ahead(moment.wall.since(expected))
        } else if expected > moment.wall.after(DRIFT_MAX) {
            Course::Back(expected.since(moment.wall))
        } else {
            Course::On
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(steady: u64, wall: u64) -> Moment {
        Moment { steady: Nanos::from_seconds(steady), wall: Nanos::from_seconds(wall) }
    }

    #[test]
    fn governors_time_follows_wall_clock_monotonically() {
        let mut timeline = Timeline::new(at(0, 1000));
        assert_eq!((timeline.advance(at(1, 1001)), timeline.now()), (Course::On, Nanos::from_seconds(1001)));
        let slept = Course::Ahead(Nanos::from_seconds(500));
        assert_eq!((timeline.advance(at(2, 1502)), timeline.now()), (slept, Nanos::from_seconds(1502)));
        let back = Course::Back(Nanos::from_seconds(60));
        assert_eq!((timeline.advance(at(3, 1443)), timeline.now()), (back, Nanos::from_seconds(1502)));
        assert_eq!((timeline.advance(at(4, 1444)), timeline.now()), (Course::On, Nanos::from_seconds(1502)));
        assert_eq!((timeline.advance(at(70, 1510)), timeline.now()), (Course::On, Nanos::from_seconds(1510)));
    }

    #[test]
    fn clock_put_back_by_hours_is_believed() {
        let mut timeline = Timeline::new(at(0, 100_000));
        let far = Course::FarBack(Nanos::from_seconds(90_001));
        assert_eq!((timeline.advance(at(1, 10_000)), timeline.now()), (far, Nanos::from_seconds(10_000)));
    }
}
