//! The write buffer: how much of it is taken, and when programs that end free parts of it.

use std::collections::VecDeque;

/// The buffer of a drive: the memory in which writes wait for their programs.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// The buffer's size in units; zero without a buffer.
    units: u32,
    taken_units: u32,
    /// When each program ends, and how many units it frees; the first to end comes first.
    releases: VecDeque<(u64, u32)>,
    /// Room is given first come, first served: none before this time.
    room_nanos: u64,
}

impl Buffer {
    pub(super) fn new(units: u32) -> Self {
        Self { units, taken_units: 0, releases: VecDeque::new(), room_nanos: 0 }
    }

    /// Whether the drive has a buffer.
    #[inline]
    pub(super) fn is_there(&self) -> bool {
        self.units > 0
    }

    /// Frees the room of programs that have ended.
    #[inline]
    pub(super) fn make_room(&mut self, now_nanos: u64) {
        while let Some((_, units)) = self.releases.pop_front_if(|(end_nanos, _)| *end_nanos <= now_nanos) {
            self.taken_units -= units;
        }
    }

    /// When there is room for `units` more; takes that room.
    #[inline]
    pub(super) fn claim(&mut self, units: u32) -> u64 {
        if self.taken_units.saturating_add(units) <= self.units {
            self.taken_units += units;
            return self.room_nanos;
        }
        self.claim_freed(units)
    }

    /// As [`Self::claim`], when some of the room is yet to be freed.
    fn claim_freed(&mut self, units: u32) -> u64 {
        let mut left = units;
        loop {
            let here = left.min(self.units.saturating_sub(self.taken_units));
            self.taken_units += here;
            left -= here;
            if left == 0 {
                return self.room_nanos;
            }
            // Each program that ends frees room, which goes to the write that waits longest.
            let Some((end_nanos, freed)) = self.releases.pop_front() else {
                self.taken_units += left;
                return self.room_nanos;
            };
            self.taken_units = self.taken_units - freed + 1;
            left -= 1;
            self.room_nanos = self.room_nanos.max(end_nanos);
        }
    }

    /// A program will end then, and free so many units.
    #[inline]
    pub(super) fn free_at(&mut self, end_nanos: u64, units: u32) {
        let release = (end_nanos, units);
        // Most programs end after all that were sent before them.
        if self.releases.back().is_none_or(|last| *last <= release) {
            self.releases.push_back(release);
        } else {
            let place = self.releases.partition_point(|other| *other <= release);
            self.releases.insert(place, release);
        }
    }

    /// Discards units in the buffer for which no program was sent.
    pub(super) fn forget(&mut self, units: u32) {
        self.taken_units = self.taken_units.saturating_sub(units);
    }

    /// The memory that it takes, in bytes.
    pub(super) fn state_bytes(&self) -> usize {
        self.releases.capacity() * size_of::<(u64, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn room_frees_in_order_of_program_ends(
            steps in prop::collection::vec((1_u32..9, 0_u64..300, 0_u64..60), 1..200),
        ) {
            let mut buffer = Buffer::new(32);
            let (mut now, mut last, mut ends) = (0, 0, Vec::new());
            for (units, takes, pause) in steps {
                now += pause;
                buffer.make_room(now);
                ends.retain(|&(end, _): &(u64, u32)| end > now);
                let taken: u32 = ends.iter().map(|(_, units)| units).sum();
                // The earliest moment at which enough of the taken units have been freed.
                let mut moments: Vec<u64> = ends.iter().map(|(end, _)| *end).collect();
                moments.sort_unstable();
                let fits = |moment: u64| {
                    let freed: u32 = ends.iter().filter(|(end, _)| *end <= moment).map(|(_, units)| units).sum();
                    taken - freed + units <= 32
                };
                let expected = [0].into_iter().chain(moments).find(|&moment| fits(moment)).expect("8 of 32 fit");
                let room = buffer.claim(units);
                prop_assert_eq!(room, expected.max(last), "first come, first served");
                last = room;
                let begin = room.max(now);
                buffer.free_at(begin + takes, units);
                ends.retain(|&(end, _)| end > room);
                ends.push((begin + takes, units));
            }
        }
    }
}
