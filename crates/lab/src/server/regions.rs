//! Regions of the server's objects that its own operations work on, and the writes that wait for a late operation.

/// Regions, and the operations in them.
pub(super) struct Regions {
    /// The number of operations that are not done, and when the region's writes begin to wait for them.
    pending: Box<[(u32, u64)]>,
    waiting: Box<[Vec<u32>]>,
    within: u64,
}

impl Regions {
    /// Regions whose operations are late `within` nanoseconds after they were queued.
    pub(super) fn new(count: u32, within: u64) -> Self {
        Self { pending: vec![(0, 0); count as usize].into(), waiting: vec![Vec::new(); count as usize].into(), within }
    }

    pub(super) fn of(&self, object: u32) -> Option<u32> {
        u32::try_from(self.pending.len()).ok().filter(|count| *count > 0).map(|count| object % count)
    }

    /// Queues an operation.
    pub(super) fn begin(&mut self, region: u32, now: u64) {
        let (count, late) = &mut self.pending[region as usize];
        if *count == 0 {
            *late = now + self.within;
        }
        *count += 1;
    }

    /// Makes a write wait if an operation of its region is late, and returns whether it does.
    pub(super) fn waits(&mut self, region: u32, slot: u32, now: u64) -> bool {
        let (count, late) = self.pending[region as usize];
        let waits = count > 0 && now >= late;
        if waits {
            self.waiting[region as usize].push(slot);
        }
        waits
    }

    /// Ends an operation. After the last one of its region, the writes that waited go on, in their order.
    pub(super) fn end(&mut self, region: u32) -> Vec<u32> {
        let (count, _) = &mut self.pending[region as usize];
        *count -= 1;
        if *count > 0 { Vec::new() } else { std::mem::take(&mut self.waiting[region as usize]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_wait_for_late_operations_only() {
        let mut regions = Regions::new(4, 100);
        assert_eq!((regions.of(7), Regions::new(0, 0).of(7)), (Some(3), None));
        regions.begin(3, 1_000);
        regions.begin(3, 1_050);
        assert!(!regions.waits(3, 1, 1_099), "it is not late yet");
        assert!(!regions.waits(2, 1, 2_000), "nothing is done there");
        assert!(regions.waits(3, 1, 1_100) && regions.waits(3, 2, 1_200));
        assert_eq!((regions.end(3), regions.end(3)), (vec![], vec![1, 2]));
        assert!(!regions.waits(3, 3, 9_000));
    }
}
