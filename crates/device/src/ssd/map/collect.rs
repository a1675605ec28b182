//! Garbage collection as the map sees it: which block is emptied, what of it is kept, and where that goes.

use super::{Block, Frontier, Map, NONE, Role, Step, UNTOUCHED, Victim};

impl Map {
    /// The valid and invalid units of a die's victim when it was chosen. Without a victim, chooses the block with the most
    /// invalid units; `None` if collecting would reclaim nothing.
    pub(in super::super) fn victim(&mut self, die: u32) -> Option<(u32, u32)> {
        let pool = &mut self.pools[die as usize];
        if let Some(victim) = pool.victim {
            return Some((victim.kept, victim.lost));
        }
        let (blocks, dies) = (&self.blocks, self.shape.dies);
        let keys =
            |from: u32| blocks.iter().skip((from * dies + die) as usize).step_by(dies as usize).map(|block| block.key);
        let (row, lost) = self.victims.take(die, keys)?;
        let (number, kept) = (row * dies + die, self.shape.block_units - lost);
        pool.victim = Some(Victim { block: number, slot: 0, kept, lost });
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
        let to = self.put(frontier, unit, 1);
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
        let units = &self.block_leaves[leaf as usize];
        let mut slot = slot;
        while let Some(&unit) = units.get(slot as usize) {
            // Units that were written together are looked up together.
            let numbers = self.places.leaf(unit).unwrap_or_default();
            let alike = units[slot as usize..].iter().zip(numbers).zip(0..);
            let alike = alike.take_while(|((other, _), distance)| **other == unit.wrapping_add(*distance));
            let (mut passed, first) = (1, block * self.shape.block_units + slot + 2);
            for ((unit, number), distance) in alike {
                if *number == first + distance {
                    return Some((slot + distance, *unit));
                }
                passed = distance + 1;
            }
            slot += passed;
        }
        None
    }

    /// The same in a block that the fill has written, of which no unit that has moved on is still untouched.
    fn next_of_fill(&self, block: u32, mut slot: u32) -> Option<(u32, u32)> {
        // The fill leaves the end of a block empty.
        let end = self.fill.units(block);
        while slot < end {
            let unit = self.fill.unit(block, slot)?;
            let units = self.fill.run(unit).min(end - slot);
            let Ok(numbers) = self.places.leaf(unit) else { return Some((slot, unit)) };
            let alike = numbers.iter().zip(0..units);
            if let Some((_, distance)) = alike.clone().find(|(number, _)| **number == UNTOUCHED) {
                return Some((slot + distance, unit + distance));
            }
            slot += u32::try_from(alike.len()).unwrap_or(1);
        }
        None
    }

    fn erase(&mut self, die: u32, block: u32) {
        let Block { leaf, .. } = std::mem::replace(&mut self.blocks[block as usize], Block::FREE);
        if leaf != NONE {
            self.spare_leaves.push(leaf);
        }
        let pool = &mut self.pools[die as usize];
        pool.victim = None;
        pool.erased.push_back(block);
    }
}
