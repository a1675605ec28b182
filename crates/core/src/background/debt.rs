//! The debt that foreground work leaves, and the queue that holds it until it is paid.

use alloc::boxed::Box;

use crate::Nanos;

/// Blocks left dead by overwrites: (1 - u) x writes, where u is the share of written blocks that are new, in thousandths.
#[must_use]
pub const fn overwrite_debt(written_blocks: u64, unique_per_mille: u32) -> u64 {
    let unique = if unique_per_mille > 1000 { 1000 } else { unique_per_mille };
    written_blocks - (written_blocks as u128 * unique as u128 / 1000) as u64
}

/// The time that `cores` need for `work` thousandths of an operation (c x debt), rounded up. One core takes `operation` for
/// one operation.
#[must_use]
pub const fn time_to_clear(work: u64, operation: Nanos, cores: u32) -> Nanos {
    if work == 0 {
        return Nanos::ZERO;
    }
    if cores == 0 {
        return Nanos::NEVER;
    }
    let nanos = (work as u128 * operation.0 as u128).div_ceil(1000 * cores as u128);
    Nanos(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 })
}

/// Debt incurred at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The debt must not be paid before this time: a snapshot is kept for its retention.
    pub payable_at: Nanos,
    /// The debt should be paid by this time; [`Nanos::NEVER`] if it can wait.
    pub due_at: Nanos,
    /// The amount of debt.
    pub blocks: u64,
}

/// The debt of one service, oldest first, in a fixed number of batches.
///
/// When all batches are in use, new debt joins the newest batch. The joint batch becomes payable at the later of the two
/// times, and due at the earlier. Blocks are never lost, up to `u64`.
#[derive(Clone, Debug)]
pub struct DebtQueue {
    ring: Box<[Batch]>,
    head: usize,
    length: usize,
    total: u64,
}

impl DebtQueue {
    const NONE: Batch = Batch { payable_at: Nanos::ZERO, due_at: Nanos::NEVER, blocks: 0 };

    /// A queue of at least one batch.
    #[must_use]
    pub fn new(batches_max: usize) -> Self {
        let ring = alloc::vec![Self::NONE; batches_max.max(1)].into_boxed_slice();
        Self { ring, head: 0, length: 0, total: 0 }
    }

    /// All blocks, payable or not.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.total
    }

    /// Adds debt. Later debt is never payable before earlier debt.
    pub fn incur(&mut self, batch: Batch) {
        let blocks = batch.blocks.min(u64::MAX - self.total);
        if blocks == 0 {
            return;
        }
        self.total += blocks;
        let newest = self.length.checked_sub(1).map(|last| (self.head + last) % self.ring.len());
        let mut batch = Batch { blocks, ..batch };
        let is_full = self.length == self.ring.len();
        if let Some(newest) = newest {
            let newest = &mut self.ring[newest];
            batch.payable_at = batch.payable_at.max(newest.payable_at);
            let same = newest.payable_at == batch.payable_at && newest.due_at == batch.due_at;
            if same || is_full {
                newest.payable_at = batch.payable_at;
                newest.due_at = newest.due_at.min(batch.due_at);
                newest.blocks += blocks;
                return;
            }
        }
        let end = (self.head + self.length) % self.ring.len();
        self.ring[end] = batch;
        self.length += 1;
    }

    /// Takes back blocks that were not paid after all: they are the oldest again.
    pub fn put_back(&mut self, batch: Batch) {
        let blocks = batch.blocks.min(u64::MAX - self.total);
        if blocks == 0 {
            return;
        }
        self.total += blocks;
        let is_full = self.length == self.ring.len();
        if self.length > 0 && (is_full || self.ring[self.head].due_at == batch.due_at) {
            let oldest = &mut self.ring[self.head];
            oldest.payable_at = oldest.payable_at.min(batch.payable_at);
            oldest.due_at = oldest.due_at.min(batch.due_at);
            oldest.blocks += blocks;
            return;
        }
        self.head = (self.head + self.ring.len() - 1) % self.ring.len();
        self.ring[self.head] = Batch { blocks, ..batch };
        self.length += 1;
    }

    /// The oldest batch.
    #[must_use]
    pub fn oldest(&self) -> Option<&Batch> {
        (self.length > 0).then(|| &self.ring[self.head])
    }

    /// All batches, oldest first.
    pub fn batches(&self) -> impl Iterator<Item = &Batch> {
        (0..self.length).map(|at| &self.ring[(self.head + at) % self.ring.len()])
    }

    /// Blocks that may be paid now.
    #[must_use]
    pub fn payable(&self, now: Nanos) -> u64 {
        self.batches().take_while(|batch| batch.payable_at <= now).map(|batch| batch.blocks).sum()
    }

    /// Pays up to `blocks` of the oldest batch, if it is payable now; returns the number paid and their due time.
    pub fn pay(&mut self, now: Nanos, blocks: u64) -> (u64, Nanos) {
        if self.oldest().is_none_or(|batch| batch.payable_at > now) {
            return (0, Nanos::NEVER);
        }
        let oldest = &mut self.ring[self.head];
        let (paid, due_at) = (oldest.blocks.min(blocks), oldest.due_at);
        oldest.blocks -= paid;
        self.total -= paid;
        if oldest.blocks == 0 {
            self.head = (self.head + 1) % self.ring.len();
            self.length -= 1;
        }
        (paid, due_at)
    }

    pub(super) fn times_mut(&mut self) -> impl Iterator<Item = &mut Nanos> {
        // Batches that are free have times of the past or none.
        self.ring.iter_mut().flat_map(|batch| [&mut batch.payable_at, &mut batch.due_at])
    }

    pub(super) fn words(&mut self, exchange: &mut impl FnMut(u64) -> u64) -> Option<()> {
        let length = usize::try_from(exchange(self.length as u64)).ok().filter(|length| *length <= self.ring.len())?;
        (self.length, self.total) = (length, 0);
        for place in 0..length {
            let at = (self.head + place) % self.ring.len();
            let batch = &mut self.ring[at];
            batch.payable_at.0 = exchange(batch.payable_at.0);
            batch.due_at.0 = exchange(batch.due_at.0);
            batch.blocks = exchange(batch.blocks);
            self.total = self.total.checked_add(batch.blocks)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_volumes_with_snapshots_owe_ten_times_more() {
        // Six bins of ten minutes.
        let writes = [120_u64, 80, 0, 400, 37, 363];
        let debt = writes.iter().sum::<u64>() * 10;
        assert_eq!(debt, 10 * 1000);
        // c = 1/20 s a block on one core; four cores are four times as fast.
        let operation = Nanos::from_millis(50);
        assert_eq!(time_to_clear(debt * 1000, operation, 1), Nanos::from_seconds(500));
        assert_eq!(time_to_clear(debt * 1000, operation, 4), Nanos::from_seconds(125));
        assert_eq!(time_to_clear(debt * 1000, operation, 0), Nanos::NEVER);
        assert_eq!(time_to_clear(0, operation, 0), Nanos::ZERO);
    }

    #[test]
    fn overwrites_owe_what_is_not_new() {
        assert_eq!(overwrite_debt(1000, 0), 1000);
        assert_eq!(overwrite_debt(1000, 250), 750);
        assert_eq!(overwrite_debt(7, 500), 4);
        assert_eq!(overwrite_debt(1000, 1000), 0);
        assert_eq!(overwrite_debt(1000, 5000), 0);
        assert_eq!(overwrite_debt(u64::MAX, 0), u64::MAX);
    }

    #[test]
    fn debt_is_paid_when_payable_oldest_first() {
        let mut queue = DebtQueue::new(4);
        queue.incur(Batch { payable_at: Nanos(100), due_at: Nanos(500), blocks: 10 });
        queue.incur(Batch { payable_at: Nanos(200), due_at: Nanos(600), blocks: 5 });
        assert_eq!((queue.blocks(), queue.payable(Nanos(99)), queue.payable(Nanos(100))), (15, 0, 10));
        assert_eq!(queue.pay(Nanos(99), 100), (0, Nanos::NEVER));
        assert_eq!(queue.pay(Nanos(150), 4), (4, Nanos(500)));
        assert_eq!(queue.pay(Nanos(150), 100), (6, Nanos(500)));
        assert_eq!(queue.pay(Nanos(150), 100), (0, Nanos::NEVER));
        assert_eq!(queue.pay(Nanos(200), 100), (5, Nanos(600)));
        assert_eq!(queue.blocks(), 0);
    }

    #[test]
    fn full_queue_keeps_blocks_and_earliest_deadline() {
        let mut queue = DebtQueue::new(1);
        for step in 1..=100_u64 {
            queue.incur(Batch { payable_at: Nanos(step), due_at: Nanos(1000 - step), blocks: step });
        }
        assert_eq!(queue.blocks(), 5050);
        assert_eq!(queue.oldest(), Some(&Batch { payable_at: Nanos(100), due_at: Nanos(900), blocks: 5050 }));
        queue.incur(Batch { payable_at: Nanos(0), due_at: Nanos::NEVER, blocks: u64::MAX });
        assert_eq!(queue.blocks(), u64::MAX);
    }
}
