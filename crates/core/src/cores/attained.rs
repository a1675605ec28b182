//! Orders requests by arrival, plus a delay in proportion to the CPU time that they need or have had.
//!
//! The size of a request is the CPU time that it has used and is expected to need still; the largest value in its life counts, so
//! that a request never gains by being preempted. Its delay is a small multiple of the size ([`NEAR`]), which orders short requests
//! before long ones. A request that is longer than a threshold has a large multiple ([`FAR`]): it is served when there is nothing
//! else, or after a time in proportion to its own length.
//!
//! The threshold is learnt. Serving the longest share p of the requests after all others leaves the others a share f of the load.
//! Where waits decay exponentially, p99 of all requests is then in proportion to ln(100 p) / (1 - f), instead of ln(100) with nothing
//! delayed: it becomes shorter exactly if p < 0.01^f. So the threshold is the smallest size for which that is so, with a margin. If
//! there is none, as where service times are much alike, no request is delayed far.

use crate::Nanos;

/// The multiples of the size by which requests are delayed, below the threshold and above it.
const NEAR: u64 = 2;
const FAR: u64 = 200;
/// The longest delay.
pub(super) const DELAY_MAX: Nanos = Nanos::from_seconds(10);

/// Sizes are counted in half octaves of about a microsecond.
const SIZES: usize = 48;
const MICRO_LOG: u32 = 10;
/// Requests after which the threshold is computed. What was counted before then counts half.
const FINISHED: u32 = 512;
/// How far p must be below 0.01^f: by a factor of three halves.
const MARGIN: (u64, u64) = (3, 2);

/// `0.01^f` in 65,536ths, for f in 64ths.
#[rustfmt::skip]
const POWERS: [u64; 65] = [
    65536, 60986, 56752, 52812, 49145, 45733, 42558, 39603, 36854, 34295, 31914, 29698, 27636, 25718, 23932, 22270,
    20724, 19285, 17947, 16701, 15541, 14462, 13458, 12524, 11654, 10845, 10092, 9391, 8739, 8133, 7568, 7043,
    6554, 6099, 5675, 5281, 4915, 4573, 4256, 3960, 3685, 3429, 3191, 2970, 2764, 2572, 2393, 2227,
    2072, 1929, 1795, 1670, 1554, 1446, 1346, 1252, 1165, 1085, 1009, 939, 874, 813, 757, 704,
    655,
];

/// How long requests are, and which are delayed far.
#[derive(Clone, Debug)]
pub(super) struct Attained {
    /// Requests that have finished, by their size.
    finished: [u32; SIZES],
    /// CPU time that requests have used while they were of this size, in nanoseconds.
    used: [u64; SIZES],
    /// Requests that have finished since the threshold was computed.
    since: u32,
    /// The first of the sizes that are delayed far.
    threshold: usize,
}

impl Attained {
    pub(super) const fn new() -> Self {
        Self { finished: [0; SIZES], used: [0; SIZES], since: 0, threshold: SIZES }
    }

    /// The delay of a request of this size.
    pub(super) fn delay(&self, size_nanos: u64) -> Nanos {
        let times = if index(size_nanos) >= self.threshold { FAR } else { NEAR };
        Nanos(size_nanos.saturating_mul(times)).min(DELAY_MAX)
    }

    /// A request of this size has used CPU time.
    pub(super) fn used(&mut self, size_nanos: u64, used: Nanos) {
        self.used[index(size_nanos)] += used.0;
    }

    /// A request of this size has finished.
    pub(super) fn finished(&mut self, size_nanos: u64) {
        self.finished[index(size_nanos)] += 1;
        self.since += 1;
        if self.since >= FINISHED {
            self.since = 0;
            self.threshold = self.sought();
            self.finished.iter_mut().for_each(|count| *count /= 2);
            self.used.iter_mut().for_each(|used| *used /= 2);
        }
    }

    fn sought(&self) -> usize {
        let all: u64 = self.finished.iter().map(|count| u64::from(*count)).sum();
        let used: u64 = self.used.iter().sum();
        let (mut longer, mut before) = (all, 0);
        for at in 1..SIZES {
            longer -= u64::from(self.finished[at - 1]);
            before += self.used[at - 1];
            let share = (u128::from(before) * 64 / u128::from(used.max(1))) as usize;
            if longer > 0 && longer * MARGIN.0 * POWERS[0] < POWERS[share.min(64)] * all * MARGIN.1 {
                return at;
            }
        }
        SIZES
    }
}

/// The half octave of a size.
fn index(size_nanos: u64) -> usize {
    let units = size_nanos >> MICRO_LOG;
    match units.checked_ilog2() {
        None => 0,
        Some(log) => {
            // Whether the size is above the square root of two times the power below it: 181 is 128 times that root.
            let upper = (units << 7 >> log) >= 181;
            (1 + 2 * log as usize + usize::from(upper)).min(SIZES - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;

    const MICRO: u64 = 1_000;

    /// Has seen requests of which one in `of` is long. Each of them runs in one go.
    fn learnt(of: u32, short_nanos: u64, long_nanos: u64) -> Attained {
        let mut attained = Attained::new();
        for number in 0..4 * FINISHED {
            let size = if number % of == 0 { long_nanos } else { short_nanos };
            attained.used(size, Nanos(size));
            attained.finished(size);
        }
        attained
    }

    #[test]
    fn the_table_is_the_formula() {
        for (at, power) in POWERS.iter().enumerate() {
            assert_eq!(*power, (65_536.0 * 0.01_f64.powf(at as f64 / 64.0)).round() as u64, "{at}");
        }
    }

    #[test]
    fn few_long_requests_are_delayed_far() {
        let attained = learnt(100, 30 * MICRO, 7_000 * MICRO);
        assert_eq!(attained.delay(30 * MICRO), Nanos(60 * MICRO));
        assert_eq!(attained.delay(7_000 * MICRO), Nanos(1_400_000 * MICRO));
        assert_eq!(attained.delay(u64::MAX), DELAY_MAX);
    }

    #[test]
    fn requests_much_alike_are_delayed_near() {
        for attained in [Attained::new(), learnt(2, 30 * MICRO, 60 * MICRO), learnt(5, 30 * MICRO, 300 * MICRO)] {
            assert_eq!(attained.delay(300 * MICRO), Nanos(600 * MICRO));
        }
    }

    #[test]
    fn what_was_long_is_forgotten() {
        let mut attained = learnt(100, 30 * MICRO, 7_000 * MICRO);
        for _ in 0..64 * FINISHED {
            attained.used(30 * MICRO, Nanos(30 * MICRO));
            attained.finished(30 * MICRO);
        }
        assert_eq!(attained.delay(7_000 * MICRO), Nanos(14_000 * MICRO));
    }

    proptest! {
        #[test]
        fn sizes_are_counted_in_half_octaves(size in 0u64..1 << 34) {
            let exact = 1.0 + 2.0 * ((size >> MICRO_LOG) as f64).log2();
            let exact = if size >> MICRO_LOG == 0 { 0.0 } else { exact.min(SIZES as f64 - 1.0) };
            // The root of two is taken as 181 / 128, so that a size at the very border may be counted above it.
            let at = index(size) as f64;
            prop_assert!(at <= exact + 0.01 && at > exact - 1.0, "{at} of {exact}");
        }

        #[test]
        fn a_longer_request_is_never_delayed_less(one in 0u64..1 << 34, other in 0u64..1 << 34, of in 2u32..300) {
            let attained = learnt(of, 30 * MICRO, 5_000 * MICRO);
            prop_assert!(attained.delay(one.min(other)) <= attained.delay(one.max(other)));
        }
    }
}
