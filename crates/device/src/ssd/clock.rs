//! Calendars of dies, channels and the interface, which know when each of them is free.
//!
//! Requests are served in closed form on arrival, so their resources are reserved ahead of time: a read reserves its channel
//! for the moment when the die will have sensed the page. With only a time "free from", later requests would wait for that
//! moment although the channel idles until then. A [`Calendar`] therefore also knows the gaps before it.

/// The reservations of a resource that serves one request at a time.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    /// The time from which on nothing is reserved.
    free_nanos: u64,
    /// Beginning and end of the free times before that, in order.
    gaps: Vec<(u64, u64)>,
    /// Gaps shorter than this are not kept.
    gap_nanos_min: u64,
    /// The most gaps; when there are more, the earliest is forgotten.
    gaps_max: usize,
}

impl Calendar {
    pub(super) fn new(gap_nanos_min: u64, gaps_max: usize) -> Self {
        Self { free_nanos: 0, gaps: Vec::with_capacity(gaps_max), gap_nanos_min: gap_nanos_min.max(1), gaps_max }
    }

    /// The time from which nothing is reserved.
    pub(super) fn free_nanos(&self) -> u64 {
        self.free_nanos
    }

    /// Reserves the first uninterrupted time of `nanos` that begins at `ready_nanos` or later; returns when it begins. No
    /// later call is for a time before `now_nanos`.
    #[inline(always)]
    pub(super) fn reserve(&mut self, now_nanos: u64, ready_nanos: u64, nanos: u64) -> u64 {
        if nanos == 0 {
            return ready_nanos;
        }
        let mut start = self.free_nanos;
        if ready_nanos >= start {
            let begin = start.max(now_nanos);
            if ready_nanos.saturating_sub(begin) >= self.gap_nanos_min {
                self.remember(now_nanos, (begin, ready_nanos));
            }
            start = ready_nanos;
        } else if self.gaps.last().is_some_and(|gap| gap.1 > ready_nanos)
            && let Some(start) = self.reserve_gap(ready_nanos, nanos)
        {
            return start;
        }
        self.free_nanos = start.saturating_add(nanos);
        start
    }

    /// Reserves a time within a gap, if one is long enough.
    fn reserve_gap(&mut self, ready_nanos: u64, nanos: u64) -> Option<u64> {
        let first = self.gaps.partition_point(|gap| gap.1 <= ready_nanos);
        for index in first..self.gaps.len() {
            let (begin, end) = self.gaps[index];
            let start = begin.max(ready_nanos);
            if end - start >= nanos {
                self.take(index, start, start + nanos);
                return Some(start);
            }
        }
        None
    }

    /// Moves all later reservations, because an interrupted operation ends later.
    pub(super) fn delay(&mut self, nanos: u64) {
        self.free_nanos = self.free_nanos.saturating_add(nanos);
    }

    /// Notes a time that stays free.
    #[inline(always)]
    fn remember(&mut self, now_nanos: u64, gap: (u64, u64)) {
        if self.gaps.last().is_some_and(|last| last.1 <= now_nanos) {
            self.gaps.truncate(1);
            self.gaps[0] = gap;
        } else {
            self.remember_another(now_nanos, gap);
        }
    }

    /// Notes a free time beside earlier gaps that may yet be used.
    #[inline(never)]
    fn remember_another(&mut self, now_nanos: u64, gap: (u64, u64)) {
        if self.gaps.len() >= self.gaps_max {
            let past = self.gaps.partition_point(|gap| gap.1 <= now_nanos);
            self.gaps.drain(..past.max(1));
        }
        self.gaps.push(gap);
    }

    /// Reserves a part of a gap.
    fn take(&mut self, index: usize, start: u64, stop: u64) {
        let (begin, end) = self.gaps[index];
        let before = (start - begin >= self.gap_nanos_min).then_some((begin, start));
        let after = (end - stop >= self.gap_nanos_min).then_some((stop, end));
        match (before, after) {
            (None, None) => drop(self.gaps.remove(index)),
            (Some(gap), None) | (None, Some(gap)) => self.gaps[index] = gap,
            (Some(before), Some(after)) if self.gaps.len() < self.gaps_max => {
                self.gaps[index] = before;
                self.gaps.insert(index + 1, after);
            }
            (Some(_), Some(after)) => self.gaps[index] = after,
        }
    }
}

/// A fixed rate, as the time for bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Nanoseconds a byte, with this many bits of fraction.
    nanos_fixed: u64,
}

const FRACTION_BITS: u32 = 20;

impl Pace {
    /// Without a rate, data takes no time.
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        let nanos_fixed = bytes_per_second.map_or(0, |rate| (1_000_000_000 << FRACTION_BITS) / rate.max(1));
        Self { nanos_fixed }
    }

    #[inline]
    pub(super) fn nanos(self, bytes: u64) -> u64 {
        let fixed = u128::from(bytes) * u128::from(self.nanos_fixed);
        u64::try_from((fixed + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gap_before_a_reservation_is_used() {
        let mut calendar = Calendar::new(1, 8);
        assert_eq!(calendar.reserve(0, 100, 10), 100);
        assert_eq!(calendar.reserve(0, 20, 30), 20, "fits before");
        assert_eq!(calendar.reserve(0, 0, 25), 50, "the piece of 20 is too short, that of 50 is not");
        assert_eq!(calendar.reserve(0, 0, 20), 0);
        assert_eq!(calendar.reserve(0, 0, 26), 110, "25 are left before 100");
        assert_eq!(calendar.reserve(0, 0, 25), 75);
        assert_eq!(calendar.free_nanos(), 136);
    }

    proptest! {
        #[test]
        fn nothing_is_reserved_twice_nor_too_early(
            steps in prop::collection::vec((0_u64..50, 0_u64..200, 1_u64..40), 1..200),
            gaps_max in 1_usize..20,
            gap_nanos_min in 1_u64..20,
        ) {
            let mut calendar = Calendar::new(gap_nanos_min, gaps_max);
            let (mut now, mut taken) = (0, Vec::new());
            for (pause, ahead, nanos) in steps {
                now += pause;
                let start = calendar.reserve(now, now + ahead, nanos);
                prop_assert!(start >= now + ahead);
                prop_assert!(calendar.gaps.len() <= gaps_max);
                prop_assert!(calendar.gaps.is_sorted());
                taken.push((start, start + nanos));
            }
            taken.sort_unstable();
            prop_assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            prop_assert!(calendar.free_nanos() >= taken[taken.len() - 1].1);
        }
    }
}
