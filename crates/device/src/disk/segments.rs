//! The contents of a drive's buffer.

/// A segment of the buffer: one range of sectors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) first: u64,
    /// The sector after the last one in the segment.
    pub(super) end: u64,
    /// Whether it holds written data.
    pub(super) written: bool,
    /// The segment holds data that is not on the media until this time.
    pub(super) dirty_until_nanos: u64,
    used: u64,
}

impl Segment {
    /// Whether the segment holds this sector.
    pub(super) fn holds(&self, sector: u64) -> bool {
        (self.first <= sector) & (sector < self.end)
    }
}

/// The number of bits for a segment's number.
const NUMBER_BITS: u32 = 12;

/// All segments, of one size; at most 4096.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    list: Vec<Segment>,
    sectors: u64,
    clock: u64,
}

impl Segments {
    pub(super) fn new(count: u32, sectors: u64) -> Self {
        Self { list: vec![Segment::default(); count.max(1) as usize], sectors, clock: 0 }
    }

    pub(super) fn get(&self, number: usize) -> &Segment {
        &self.list[number]
    }

    /// The segment that holds `sector`, if it may answer reads.
    pub(super) fn find(&self, sector: u64, read_written: bool) -> Option<usize> {
        self.list.iter().position(|segment| segment.holds(sector) && (read_written || !segment.written))
    }

    /// The written segment that ends where `sector` begins.
    pub(super) fn find_written_before(&self, sector: u64) -> Option<usize> {
        self.list.iter().position(|segment| segment.written && segment.end == sector && segment.first < sector)
    }

    /// Marks the segment as the most recently used.
    pub(super) fn touch(&mut self, number: usize) {
        self.clock += 1;
        self.list[number].used = self.clock;
    }

    /// Drops the part of the segment before `sector`.
    pub(super) fn pass(&mut self, number: usize, sector: u64) {
        let segment = &mut self.list[number];
        segment.first = segment.first.max(sector);
    }

    /// Extends the segment up to `end`, and drops its beginning if it holds more than fits.
    pub(super) fn extend(&mut self, number: usize, end: u64) {
        let segment = &mut self.list[number];
        segment.end = segment.end.max(end);
        segment.first = segment.first.max(segment.end.saturating_sub(self.sectors));
    }

    /// Replaces the content of the segment.
    pub(super) fn fill(&mut self, number: usize, first: u64, end: u64, written: bool) {
        self.clock += 1;
        let first = first.max(end.saturating_sub(self.sectors));
        self.list[number] = Segment { first, end, written, dirty_until_nanos: 0, used: self.clock };
    }

    /// Notes that the content of the segment is on the media from this time on.
    pub(super) fn dirty(&mut self, number: usize, until_nanos: u64) {
        self.list[number].dirty_until_nanos = until_nanos;
    }

    /// Drops everything that overlaps `first..end`, which is about to be written.
    pub(super) fn forget(&mut self, first: u64, end: u64) {
        for segment in &mut self.list {
            if (segment.first >= end) | (segment.end <= first) {
                continue;
            }
            if segment.first < first {
                segment.end = first;
            } else {
                segment.first = end.min(segment.end);
            }
        }
    }

    /// The segment to replace, and the time: a segment with data that is not on the media is replaced only once it is.
    pub(super) fn victim(&self, now_nanos: u64, written: bool, written_max: u32) -> (usize, u64) {
        let holds_written = |segment: &Segment| segment.written & (segment.first < segment.end);
        let count = || self.list.iter().filter(|segment| holds_written(segment)).count();
        let only_written = written && count() >= written_max as usize;
        // Time, last use and number are packed into one word and compared without a branch, which the processor could not
        // predict.
        let mut least = u128::MAX;
        for (number, segment) in self.list.iter().enumerate() {
            let ready_nanos = u128::from(segment.dirty_until_nanos.max(now_nanos));
            let barred = u128::from(only_written & !holds_written(segment)) << 127;
            let rank = u128::from(segment.used << NUMBER_BITS | number as u64);
            least = least.min((ready_nanos << 64 | rank) | barred);
        }
        let number = usize::try_from(least & ((1 << NUMBER_BITS) - 1)).unwrap_or(0);
        (number, self.list[number].dirty_until_nanos.max(now_nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_segment_goes_unless_unwritten() {
        let mut segments = Segments::new(3, 100);
        for (number, first) in [0, 1000, 2000].into_iter().enumerate() {
            segments.fill(number, first, first + 10, number == 1);
        }
        assert_eq!(segments.victim(5, false, 1), (0, 5));
        assert_eq!(segments.victim(5, true, 1), (1, 5), "there may be one written segment");
        segments.touch(0);
        segments.dirty(1, 9);
        assert_eq!(segments.victim(5, false, 1), (2, 5));
        assert_eq!(segments.victim(5, true, 1), (1, 9));
    }

    #[test]
    fn a_segment_slides_and_forgets() {
        let mut segments = Segments::new(1, 100);
        segments.fill(0, 50, 60, false);
        segments.extend(0, 170);
        assert_eq!((segments.get(0).first, segments.get(0).end), (70, 170));
        segments.forget(160, 200);
        segments.forget(0, 80);
        segments.forget(500, 600);
        assert_eq!((segments.get(0).first, segments.get(0).end), (80, 160));
        assert_eq!((segments.find(80, false), segments.find(160, false)), (Some(0), None));
        segments.forget(0, 1000);
        assert_eq!(segments.find(100, true), None);
    }
}
