//! The bounds of every schedule: the work, the room and the waiting that are possible and necessary by the end of each bin.

use ioweir_core::background::Service;

use super::horizon::Horizon;
use super::owing::{Owing, denser_first};
use super::schedule::Schedule;

/// Background work that is possible and necessary by the end of each bin, cumulative, in thousandths of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Envelope {
    /// The payable work.
    pub(super) payable: Vec<u64>,
    /// The work that deadlines and patience require.
    pub(super) needed: Vec<u64>,
}

/// Work that can be done and must be done by the end of each bin, cumulative, in thousandths of an operation, so that floor and
/// deadlines hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Necessary {
    /// The work that is payable, of debt that holds room or has a deadline.
    pub(super) payable: Vec<u128>,
    /// The needed work; it exceeds the payable work where no plan holds the floor.
    pub(super) needed: Vec<u128>,
}

impl Horizon<'_> {
    /// The work of some services that is payable, and the work that a schedule must have paid: because of deadlines, and for debt without
    /// one, because it has been payable for `patience_bins`.
    pub(super) fn envelope(&self, schedule: &Schedule, services: &[Service], patience_bins: usize) -> Envelope {
        let bins = self.bins();
        let mut envelope = Envelope { payable: vec![0; bins], needed: vec![0; bins] };
        for owing in self.owing_of(services) {
            let (mut blocks, mut possible) = (0_u64, 0_u64);
            for (bin, payable) in owing.payable.iter().enumerate() {
                blocks = blocks.saturating_add(*payable);
                possible = possible.saturating_add(owing.blocks_max[bin]).min(blocks);
                let sum = possible.saturating_mul(owing.cost);
                envelope.payable[bin] = envelope.payable[bin].saturating_add(sum);
                if !owing.is_heeded(schedule)
                    && let Some(needed) =
                        (bin + patience_bins).checked_sub(1).and_then(|by| envelope.needed.get_mut(by))
                {
                    *needed = needed.saturating_add(sum);
                }
            }
            if owing.is_heeded(schedule) {
                for (bin, needed) in envelope.needed.iter_mut().enumerate() {
                    let later = if bin + 1 == bins { owing.due_later } else { 0 };
                    let due = owing.due_by(schedule, bin).saturating_add(later);
                    *needed = needed.saturating_add(due.saturating_mul(owing.cost));
                }
            }
        }
        envelope
    }

    /// The work that floor and deadlines need, if all debt that holds room frees as much for its work as the densest.
    pub(super) fn necessary(&self) -> Necessary {
        let bins = self.bins();
        let pool = &self.ledger.pool;
        let is_dense = |owing: &&Owing| owing.tied_per_mille > 0;
        let densest = self.owing.iter().filter(is_dense).min_by(|left, right| denser_first(left, right));
        let work_of = |milliblocks: u128| match densest {
            Some(dense) => (milliblocks * u128::from(dense.cost)).div_ceil(u128::from(dense.tied_per_mille)),
            None if milliblocks > 0 => u128::MAX / 4,
            None => 0,
        };
        let mut necessary = Necessary { payable: vec![0; bins], needed: vec![0; bins] };
        let (mut room, mut with_deadline, mut used) = (0_u128, 0_u128, u128::from(pool.used_blocks));
        for bin in 0..bins {
            let mut due = 0_u128;
            for owing in &self.owing {
                room += u128::from(owing.payable[bin]) * u128::from(owing.tied_per_mille);
                if owing.has_deadline {
                    with_deadline += u128::from(owing.payable[bin]) * u128::from(owing.cost);
                    due += u128::from(owing.due[bin]) * u128::from(owing.cost);
                }
            }
            used += u128::from(self.taken[bin]);
            let most = u128::from(pool.blocks.saturating_sub(pool.floor_blocks));
            necessary.payable[bin] = work_of(room) + with_deadline;
            necessary.needed[bin] = work_of(used.saturating_sub(most) * 1000) + due;
        }
        necessary
    }

    /// The most work that may wait at the end of each bin so that it holds no more than `spare` blocks of the pool, whichever
    /// debts it consists of, if none waits for longer than `patience_bins`.
    pub(super) fn may_wait(&self, patience_bins: usize, spare: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut dense: Vec<&Owing> = self.owing.iter().filter(|owing| owing.tied_per_mille > 0).collect();
        dense.sort_by(|left, right| denser_first(left, right));
        let mut waiting = vec![0_u64; dense.len()];
        let mut most = Vec::with_capacity(self.bins());
        for bin in 0..self.bins() {
            let (mut spare, mut work) = (u128::from(spare(bin)) * 1000, 0_u128);
            let mut is_all = true;
            for (owing, waiting) in dense.iter().zip(&mut waiting) {
                *waiting = waiting.saturating_add(owing.payable[bin]);
                let paid = bin.checked_sub(patience_bins).map_or(0, |bin| owing.payable[bin]);
                *waiting = waiting.saturating_sub(paid);
                if !is_all {
                    continue;
                }
                let blocks = u128::from(*waiting).min(spare / u128::from(owing.tied_per_mille));
                is_all = blocks == u128::from(*waiting);
                spare -= blocks * u128::from(owing.tied_per_mille);
                work += blocks * u128::from(owing.cost);
            }
            most.push(if is_all { u64::MAX } else { u64::try_from(work).unwrap_or(u64::MAX) });
        }
        most
    }
}
