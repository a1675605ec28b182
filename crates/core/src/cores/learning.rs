//! Learns the CPU time that requests need, by class.
//!
//! Requests of one class are alike in kind, size, source, number of returns and whether they are sequential. For each class
//! a moving average of the remaining CPU time is kept. When a request is suspended or preempted, its class learns the time
//! that it has used plus the expectation of the class in which it continues. So a request needs to remember only its class.
//!
//! What the expectations are for is the schedule's: the order of HQ, or which requests are long. How much of all CPU time
//! requests that are not long take is counted, too, because workers may be reserved for them.

use alloc::boxed::Box;
use alloc::vec;

use super::dispatch::Returns;
use super::work::{Kind, Source, Work};

/// Sizes by powers of four from 4 KiB: no data, up to 4 KiB, up to 16 KiB and so on; the last is above 1 MiB.
const SIZES: usize = 7;
/// New; restarted once, twice, or more often; preempted.
const STAGES: usize = 5;
const CLASSES: usize = Kind::ALL.len() * SIZES * 2 * 3 * STAGES;
/// From the 64th sample on, each sample has a weight of one 64th.
const MEMORY: u32 = 64;

/// A request that needs more than this many times the mean is long.
const LONG: u64 = 2;
/// The CPU time over which the demand of short requests is counted before it is used.
const DEMAND_NANOS: u64 = 100_000_000;

/// A class of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(u16);

impl Class {
    pub(super) fn of(work: &Work, returns: Returns) -> Self {
        let size = match work.bytes {
            0 => 0,
            bytes => (1 + bytes.div_ceil(4096).next_power_of_two().ilog2().div_ceil(2) as usize).min(SIZES - 1),
        };
        let stage = if returns.preemptions > 0 { STAGES - 1 } else { returns.restarts.min(STAGES as u32 - 2) as usize };
        let source = match work.source {
            Source::Client => 0,
            Source::Background => 1,
            Source::Critical => 2,
        };
        let index = ((work.kind as usize * SIZES + size) * 2 + usize::from(work.sequential)) * 3 + source;
        Self((index * STAGES + stage) as u16)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    nanos: u64,
    samples: u32,
}

impl Estimate {
    fn learn(&mut self, nanos: u64) {
        self.samples = (self.samples + 1).min(MEMORY);
        let weight = u64::from(self.samples);
        self.nanos = (self.nanos * (weight - 1) + nanos) / weight;
    }
}

/// The averages of all classes.
#[derive(Clone, Debug)]
pub(super) struct Learning {
    classes: Box<[Estimate]>,
    /// The mean over requests of all classes.
    mean: Estimate,
    /// CPU time of short requests and of all, since the share was computed.
    short_nanos: u64,
    all_nanos: u64,
    /// The share of short requests, in thousandths.
    short_per_mille: u64,
}

impl Learning {
    pub(super) fn new() -> Self {
        Self {
            classes: vec![Estimate::default(); CLASSES].into_boxed_slice(),
            mean: Estimate::default(),
            short_nanos: 0,
            all_nanos: 0,
            short_per_mille: 1000,
        }
    }

    /// The remaining CPU time of a request of this class; zero before the first sample.
    fn expected_nanos(&self, class: Class) -> u64 {
        self.classes[class.0 as usize].nanos
    }

    /// The CPU time that a request still needs.
    pub(super) fn needed_nanos(&self, work: &Work, returns: Returns) -> u64 {
        self.expected_nanos(Class::of(work, returns))
    }

    /// Whether a request needs much more than the mean.
    pub(super) fn is_long(&self, work: &Work, returns: Returns) -> bool {
        self.needed_nanos(work, returns) > LONG * self.mean.nanos
    }

    /// The workers of so many that requests take that are not long: at least one, and not all if others take any.
    pub(super) fn short_workers(&self, workers: u32) -> u32 {
        if self.short_per_mille == 1000 || workers < 2 {
            return workers;
        }
        let rounded = (u64::from(workers) * self.short_per_mille + 500) / 1000;
        (rounded as u32).clamp(1, workers - 1)
    }

    /// Learns that a request with `returns` has used `used_nanos`; if it continues, `then` are its returns from now on.
    pub(super) fn learn(&mut self, work: &Work, returns: Returns, used_nanos: u64, then: Option<Returns>) {
        let class = Class::of(work, returns);
        let rest = then.map_or(0, |then| self.expected_nanos(Class::of(work, then)));
        let nanos = used_nanos.saturating_add(rest).min(u64::from(u32::MAX));
        self.classes[class.0 as usize].learn(nanos);
        if work.source == Source::Critical {
            return;
        }
        self.mean.learn(nanos);
        self.all_nanos += used_nanos;
        if self.expected_nanos(class) <= LONG * self.mean.nanos {
            self.short_nanos += used_nanos;
        }
        if self.all_nanos >= DEMAND_NANOS {
            self.short_per_mille = self.short_nanos * 1000 / self.all_nanos;
            (self.short_nanos, self.all_nanos) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Work = Work { kind: Kind::Read, source: Source::Client, bytes: 4096, ..Work::NOTHING };
    const NEW: Returns = Returns { restarts: 0, preemptions: 0 };

    #[test]
    fn sizes_are_distinguished_by_powers_of_four() {
        let class = |bytes| Class::of(&Work { bytes, ..READ }, NEW);
        let bounds = [0, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
        for bytes in bounds {
            assert_ne!(class(bytes), class(bytes + 1), "{bytes}");
        }
        for pair in bounds.windows(2) {
            assert_eq!(class(pair[0] + 1), class(pair[1]), "{pair:?}");
        }
        assert_eq!(class((1 << 20) + 1), class(u32::MAX));
    }

    #[test]
    fn no_two_kinds_of_request_share_a_class() {
        let mut seen = [false; CLASSES];
        for kind in Kind::ALL {
            for source in [Source::Client, Source::Background, Source::Critical] {
                for (size, sequential) in (0..2 * SIZES).map(|at| (at / 2, at % 2 == 1)) {
                    for (restarts, preemptions) in [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1)] {
                        let bytes = [0, 1, 5 << 10, 17 << 10, 65 << 10, 257 << 10, 2 << 20][size];
                        let work = Work { kind, source, bytes, sequential, deadline: None };
                        let Class(at) = Class::of(&work, Returns { restarts, preemptions });
                        assert!(!core::mem::replace(&mut seen[at as usize], true), "{work:?}");
                    }
                }
            }
        }
        assert!(seen.into_iter().all(|seen| seen));
    }

    #[test]
    fn need_includes_expected_time_after_a_return() {
        let mut learning = Learning::new();
        assert_eq!(learning.needed_nanos(&READ, NEW), 0, "an unknown kind counts as short");
        learning.learn(&READ, NEW.restarted(), 300, None);
        learning.learn(&READ, NEW, 100, Some(NEW.restarted()));
        assert_eq!(learning.needed_nanos(&READ, NEW), 400);
        learning.learn(&READ, NEW, 100, None);
        assert_eq!(learning.needed_nanos(&READ, NEW), 250, "half of them come back");
    }

    #[test]
    fn an_average_forgets() {
        let mut estimate = Estimate::default();
        (0..200).for_each(|_| estimate.learn(64_000));
        assert_eq!(estimate.nanos, 64_000);
        estimate.learn(0);
        assert_eq!(estimate.nanos, 63_000, "a sample is a 64th");
    }

    #[test]
    fn more_than_twice_the_mean_is_long() {
        let scan = Work { bytes: 1 << 20, ..READ };
        for (needed, is_long) in [(415, false), (425, true)] {
            let mut learning = Learning::new();
            // The mean of all is a twelfth of what the scan needs, and 174.
            (0..11).for_each(|_| learning.learn(&READ, NEW, 190, None));
            learning.learn(&scan, NEW, needed, None);
            assert_eq!(learning.is_long(&scan, NEW), is_long, "{needed}, mean {}", learning.mean.nanos);
        }
    }

    #[test]
    fn short_requests_get_their_share_of_workers() {
        let scan = Work { bytes: 1 << 20, ..READ };
        let mut learning = Learning::new();
        assert_eq!(learning.short_workers(8), 8, "nothing is known");
        for _ in 0..40 {
            (0..9).for_each(|_| learning.learn(&READ, NEW, 1_000_000, None));
            learning.learn(&scan, NEW, 27_000_000, None);
        }
        // A quarter of the time is short.
        assert_eq!([1, 2, 4, 8].map(|workers| learning.short_workers(workers)), [1, 1, 1, 2]);
    }
}
