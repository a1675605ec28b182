//! Garbage collection as the map sees it: which block is emptied, what of it is kept, and where that goes.

use super::{Block, Frontier, Map, NONE, Role, Step, UNTOUCHED, Victim};

impl Map {
    /// The valid and invalid units of a die's victim when it was chosen. Without a victim, chooses the block with the most
    /// invalid units; `None` if collecting would reclaim nothing.
    #[inline]
    pub(in super::super) fn victim(&mut self, die: u32) -> Option<(u32, u32)> {
        match self.pools[die as usize].victim {
            Some(victim) => Some((victim.kept, victim.lost)),
            None => self.choose(die),
        }
    }

    #[inline(never)]
    fn choose(&mut self, die: u32) -> Option<(u32, u32)> {
        let (blocks, dies) = (&self.blocks, self.shape.dies);
        let keys =
            |from: u32| blocks.iter().skip((from * dies + die) as usize).step_by(dies as usize).map(|block| block.key);
        let (row, lost) = self.victims.take(die, keys)?;
        let (number, kept) = (row * dies + die, self.shape.block_units - lost);
        self.pools[die as usize].victim = Some(Victim { block: number, slot: 0, kept, lost });
        let block = &mut self.blocks[number as usize];
        (block.role, block.key) = (Role::Open, 0);
        Some((kept, lost))
    }

    /// Copies the next valid unit of the victim, or erases the victim when there is none left.
    pub(in super::super) fn collect(&mut self, die: u32) -> Step {
        if self.victim(die).is_none() {
            return Step::Nothing;
        }
        let Some(Victim { block, slot, kept, lost }) = self.pools[die as usize].victim else { return Step::Nothing };
        let Some((slot, unit)) = self.next_kept(block, slot) else {
            self.erase(die, block);
            return Step::Erased;
        };
        self.pools[die as usize].victim = Some(Victim { block, slot: slot + 1, kept, lost });
        if self.pools[die as usize].copies.slot == self.shape.block_units {
            let block = self.take_free(die);
            self.pools[die as usize].copies = Frontier { block, slot: 0 };
        }
        self.blocks[block as usize].lost += 1;
        let frontier = self.pools[die as usize].copies;
        let to = self.put(frontier, unit);
        self.places.set_run(unit, 1, to + 2);
        self.pools[die as usize].copies.slot += 1;
        if frontier.slot + 1 == self.shape.block_units {
            self.close(frontier.block);
        }
        Step::Copied { unit, from: block * self.shape.block_units + slot, to }
    }

    /// The first location of a block from `slot` on that holds something, and its unit.
    fn next_kept(&self, block: u32, slot: u32) -> Option<(u32, u32)> {
        let Block { leaf, lost, .. } = self.blocks[block as usize];
        if lost == self.shape.block_units {
            return None;
        }
        if leaf == NONE {
            return self.next_of_fill(block, slot);
        }
        let (mut slot, mut unit) = (slot, self.unit_written(leaf, slot)?);
        let units = &self.block_leaves[leaf as usize];
        loop {
            let (number, alike) = self.places.run(unit);
            if number == block * self.shape.block_units + slot + 2 {
                return Some((slot, unit));
            }
            // All units that were written together and still lie together have moved on.
            let others = units[slot as usize + 1..].iter().zip(1..alike);
            let passed = others.take_while(|(other, _)| **other == 0).count() as u32 + 1;
            slot += passed;
            unit = match *units.get(slot as usize)? {
                0 => unit.wrapping_add(passed),
                first => first - 1,
            };
        }
    }

    /// The unit that was written to a slot of a block with this leaf; past the end of the written slots, no existing one.
    pub(super) fn unit_written(&self, leaf: u32, slot: u32) -> Option<u32> {
        let units = self.block_leaves[leaf as usize].get(..=slot as usize)?;
        let start = units.iter().rposition(|&unit| unit > 0)?;
        Some((units[start] - 1).wrapping_add(slot - start as u32))
    }

    /// The next valid unit in a block that the fill has written, of which no unit that has moved on is still untouched.
    fn next_of_fill(&self, block: u32, mut slot: u32) -> Option<(u32, u32)> {
        // The fill leaves the end of a block empty.
        let end = self.fill.units(block);
        while slot < end {
            let unit = self.fill.unit(block, slot)?;
            let units = self.fill.run(unit).min(end - slot);
            let (number, alike) = self.places.run(unit);
            if number == UNTOUCHED {
                return Some((slot, unit));
            }
            slot += units.min(alike);
        }
        None
    }

    fn erase(&mut self, die: u32, block: u32) {
        let erased = &mut self.blocks[block as usize];
        let leaf = erased.leaf;
        *erased = erased.erased();
        if leaf != NONE {
            self.block_leaves[leaf as usize].fill(0);
            self.spare_leaves.push(leaf);
        }
        let pool = &mut self.pools[die as usize];
        pool.victim = None;
        pool.erased.push_back(block);
    }
}
