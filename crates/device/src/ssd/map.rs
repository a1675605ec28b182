//! The page map: the location of each unit on flash, and the blocks that are worth collecting.
//!
//! It maps units to locations and back, in 32 bits each. Both directions take memory only for units that were written or
//! discarded: the map as in `sparse`, the reverse in one leaf for each block. Data from before the first request is computed
//! ([`Fill`]). The map knows no time: the drive calls it step by step and charges the cost of each step.
//!
//! Every die has its own free blocks, a block for the host's units, and a block for copies of garbage collection. Which closed block is
//! worth collecting most is known ([`Victims`]).

use std::collections::VecDeque;

use super::super::divider::Divider;
use super::fill::Fill;
use super::sparse::Sparse;
use super::spec::Shape;
use super::victims::Victims;
#[cfg(test)]
use super::victims::lost_of;

/// No unit, block or leaf.
const NONE: u32 = u32::MAX;
/// In the map: the location is as the fill says.
const UNTOUCHED: u32 = 0;
/// In the map: the unit has no location. Every other value is a location plus two.
const NOWHERE: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Full, and a possible victim unless it has no invalid units.
    Closed,
    /// Being written or collected.
    Open,
    Free,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    /// The number of invalid units: locations that were written and hold nothing of value.
    lost: u32,
    /// The leaf of the reverse map; none in a block that the fill has written.
    leaf: u32,
    role: Role,
    /// How much it is worth collecting, if it is closed.
    key: u64,
}

impl Block {
    const FREE: Self = Self { lost: 0, leaf: NONE, role: Role::Free, key: 0 };
}

/// A block being written.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    block: u32,
    slot: u32,
}

/// A block being collected.
#[derive(Clone, Copy, Debug)]
struct Victim {
    block: u32,
    slot: u32,
    /// The valid and invalid units that it had when it was chosen.
    kept: u32,
    lost: u32,
}

#[derive(Clone, Debug)]
struct Pool {
    /// Erased blocks, the longest erased first.
    erased: VecDeque<u32>,
    /// Blocks of the die from here on have never been used.
    unused: u32,
    host: Frontier,
    copies: Frontier,
    victim: Option<Victim>,
    /// The number of valid units on the die.
    held: u32,
}

/// Units whose locations follow one another, or that have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) place: Option<u32>,
    pub(super) units: u32,
}

impl Run {
    /// What is left of it after so many units.
    pub(super) fn after(self, units: u32) -> Self {
        Self { place: self.place.map(|place| place + units), units: self.units - units }
    }
}

/// One step of garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A unit was copied from one location to another.
    Copied { from: u32, to: u32 },
    /// The victim was erased.
    Erased,
    /// No block is worth collecting.
    Nothing,
}

/// The page map with its blocks.
#[derive(Clone, Debug)]
pub(super) struct Map {
    shape: Shape,
    fill: Fill,
    places: Sparse,
    blocks: Vec<Block>,
    victims: Victims,
    block_leaves: Vec<Box<[u32]>>,
    spare_leaves: Vec<u32>,
    pools: Vec<Pool>,
    by_block: Divider,
    by_die: Divider,
    /// The most units on a die; beyond that the host's units go to another one.
    held_most: u32,
}

#[allow(clippy::cast_possible_truncation)] // Quotients and remainders of 32-bit numbers.
#[inline]
pub(super) fn split(divider: &Divider, value: u32) -> (u32, u32) {
    let (quotient, remainder) = divider.divide(u64::from(value));
    (quotient as u32, remainder as u32)
}

impl Map {
    pub(super) fn new(shape: &Shape, fill: Fill) -> Self {
        let nowhere = Frontier { block: NONE, slot: shape.block_units };
        let pool = Pool {
            erased: VecDeque::new(),
            unused: fill.blocks() / shape.dies,
            host: nowhere,
            copies: nowhere,
            victim: None,
            held: 0,
        };
        let share = shape.units.div_ceil(shape.dies);
        let usable = (shape.die_blocks - 3) * shape.block_units;
        let mut map = Self {
            shape: *shape,
            places: Sparse::default(),
            blocks: vec![Block::FREE; shape.blocks() as usize],
            victims: Victims::new(shape.dies, shape.die_blocks),
            block_leaves: Vec::new(),
            spare_leaves: Vec::new(),
            pools: vec![pool; shape.dies as usize],
            by_block: Divider::new(u64::from(shape.block_units)),
            by_die: Divider::new(u64::from(shape.dies)),
            held_most: (share + (usable - share) / 2).max(share + shape.program_units),
            fill,
        };
        for block in 0..map.fill.blocks() {
            let held = map.fill.units(block);
            map.pools[(block % shape.dies) as usize].held += held;
            map.blocks[block as usize].lost = shape.block_units - held;
            map.close(block);
        }
        map
    }

    /// The location of a unit.
    #[inline]
    pub(super) fn place(&self, unit: u32) -> Option<u32> {
        match self.places.get(unit) {
            UNTOUCHED => self.fill.place(unit),
            NOWHERE => None,
            place => Some(place - 2),
        }
    }

    /// The location of a unit, and how many units from this one on, at most `most`, have locations that follow one another, or
    /// none.
    #[inline]
    pub(super) fn run(&self, unit: u32, most: u32) -> (Option<u32>, u32) {
        if most == 1 {
            return (self.place(unit), 1);
        }
        let (place, mut units) = self.run_in_leaf(unit, most);
        while units < most {
            let (next, more) = self.run_in_leaf(unit + units, most - units);
            if next != place.map(|place| place + units) {
                break;
            }
            units += more;
        }
        (place, units)
    }

    /// As [`Map::run`], but not always to the end of the run.
    #[inline]
    fn run_in_leaf(&self, unit: u32, most: u32) -> (Option<u32>, u32) {
        let numbers = match self.places.leaf(unit) {
            Ok(numbers) => numbers,
            Err(left) => return (self.fill.place(unit), left.min(self.fill.run(unit)).min(most)),
        };
        let numbers = &numbers[..numbers.len().min(most as usize)];
        let first = numbers[0];
        let step = u32::from(first > NOWHERE);
        let is_alike = |(number, distance): (&u32, u32)| *number == first + distance * step;
        // All of them, nearly always: that is known without a branch for each.
        let units = if numbers.iter().zip(0..).fold(true, |alike, one| alike & is_alike(one)) {
            numbers.len()
        } else {
            numbers.iter().zip(0..).take_while(|one| is_alike(*one)).count()
        };
        let units = u32::try_from(units).unwrap_or(1);
        match first {
            UNTOUCHED => (self.fill.place(unit), units.min(self.fill.run(unit))),
            NOWHERE => (None, units),
            _ => (Some(first - 2), units),
        }
    }

    /// The runs of the units from `first` to before `end`. All of them are looked for before any of them is used, and so is what their
    /// loss will change: the processor waits for memory once, and not once for each.
    pub(super) fn runs(&self, first: u32, end: u32, runs: &mut Vec<Run>) {
        runs.clear();
        let (mut unit, mut seen) = (first, 0);
        while unit < end {
            // Most runs are as long as a program: that is known at once.
            let (place, units) = self.run_in_leaf(unit, (end - unit).min(self.shape.program_units));
            unit += units;
            if let Some(last) = runs.last_mut()
                && last.place.map(|place| place + last.units) == place
            {
                last.units += units;
                continue;
            }
            if let Some(place) = place {
                seen |= self.blocks[split(&self.by_block, place).0 as usize].key;
            }
            runs.push(Run { place, units });
        }
        std::hint::black_box(seen);
    }

    /// The die of a location, and the slot in its block.
    #[inline]
    pub(super) fn die_and_slot(&self, place: u32) -> (u32, u32) {
        let (block, slot) = split(&self.by_block, place);
        (split(&self.by_die, block).1, slot)
    }

    /// Whether the host's next program may go to this die.
    pub(super) fn has_room(&self, die: u32) -> bool {
        self.pools[die as usize].held + self.shape.program_units <= self.held_most
    }

    /// The number of free blocks of a die.
    pub(super) fn free_blocks(&self, die: u32) -> u32 {
        let pool = &self.pools[die as usize];
        self.shape.die_blocks - pool.unused + u32::try_from(pool.erased.len()).unwrap_or(u32::MAX)
    }

    /// Whether the host's block on this die is full, or there is none.
    pub(super) fn host_full(&self, die: u32) -> bool {
        self.pools[die as usize].host.slot == self.shape.block_units
    }

    /// Gives the host another block on this die.
    pub(super) fn open_host(&mut self, die: u32) {
        let block = self.take_free(die);
        self.pools[die as usize].host = Frontier { block, slot: 0 };
    }

    /// Writes units to the host's block, which has room for them; their old locations, which follow one another from `old` on
    /// in one block, become invalid. Returns the first new one.
    pub(super) fn write(&mut self, die: u32, unit: u32, units: u32, old: Option<u32>) -> u32 {
        self.lose(old, units);
        let frontier = self.pools[die as usize].host;
        let place = self.put(frontier, unit, units);
        let pool = &mut self.pools[die as usize];
        pool.held += units;
        pool.host.slot += units;
        if pool.host.slot == self.shape.block_units {
            self.close(frontier.block);
        }
        place
    }

    /// Leaves a number of locations in the host's block empty.
    pub(super) fn pad(&mut self, die: u32, units: u32) {
        let pool = &mut self.pools[die as usize];
        let Frontier { block, slot } = pool.host;
        let units = units.min(self.shape.block_units - slot);
        pool.host.slot += units;
        let is_full = pool.host.slot == self.shape.block_units;
        if units == 0 {
            return;
        }
        self.blocks[block as usize].lost += units;
        if is_full {
            self.close(block);
        }
    }

    /// Removes the units from `first` to before `end`.
    pub(super) fn discard(&mut self, first: u32, end: u32) {
        let mut unit = first;
        while unit < end {
            let (old, units) = self.run(unit, end - unit);
            let units = old.map_or(units, |place| units.min(self.left_in_block(place)));
            if old.is_some() {
                self.lose(old, units);
                self.places.set_run(unit, units, |_| NOWHERE);
            }
            unit += units;
        }
    }

    /// The number of locations from this one to the end of its block.
    fn left_in_block(&self, place: u32) -> u32 {
        self.shape.block_units - split(&self.by_block, place).1
    }

    /// Whether no unit has ever had a location.
    pub(super) fn is_blank(&self) -> bool {
        matches!(self.fill, Fill::Fresh) && self.places.is_blank()
    }

    fn put(&mut self, frontier: Frontier, unit: u32, units: u32) -> u32 {
        let leaf = self.blocks[frontier.block as usize].leaf;
        let slots = frontier.slot as usize..(frontier.slot + units) as usize;
        for (unit, slot) in (unit..).zip(&mut self.block_leaves[leaf as usize][slots]) {
            *slot = unit;
        }
        let place = frontier.block * self.shape.block_units + frontier.slot;
        self.places.set_run(unit, units, |distance| place + 2 + distance);
        place
    }

    /// Invalidates locations that follow one another in a block; the caller updates the map.
    fn lose(&mut self, place: Option<u32>, units: u32) {
        let Some(place) = place else { return };
        let number = split(&self.by_block, place).0;
        let (row, die) = split(&self.by_die, number);
        self.pools[die as usize].held -= units;
        let block = &mut self.blocks[number as usize];
        block.lost += units;
        if block.role == Role::Closed {
            block.key = self.victims.lost(die, row, block.lost, block.key);
        }
    }

    fn close(&mut self, number: u32) {
        let (row, die) = split(&self.by_die, number);
        let block = &mut self.blocks[number as usize];
        block.role = Role::Closed;
        block.key = self.victims.lost(die, row, block.lost, block.key);
    }

    /// Takes a free block, which is then open and has room for its reverse map.
    fn take_free(&mut self, die: u32) -> u32 {
        let pool = &mut self.pools[die as usize];
        let block = if pool.unused < self.shape.die_blocks {
            pool.unused += 1;
            (pool.unused - 1) * self.shape.dies + die
        } else {
            let erased = pool.erased.pop_front();
            // The drive collects before it takes, and the limit of units on a die leaves something to collect.
            erased.expect("a die has a free block when one is taken")
        };
        let leaf = self.spare_leaves.pop().unwrap_or_else(|| {
            self.block_leaves.push(vec![NONE; self.shape.block_units as usize].into());
            u32::try_from(self.block_leaves.len() - 1).unwrap_or(NONE)
        });
        self.blocks[block as usize] = Block { leaf, role: Role::Open, ..Block::FREE };
        block
    }

    /// The valid and invalid units of a die's victim when it was chosen. Without a victim, chooses the block with the most
    /// invalid units; `None` if collecting would reclaim nothing.
    pub(super) fn victim(&mut self, die: u32) -> Option<(u32, u32)> {
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
    pub(super) fn collect(&mut self, die: u32) -> Step {
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
        Step::Copied { from: block * self.shape.block_units + slot, to }
    }

    /// The first location of a block from `slot` on that holds something, and its unit.
    fn next_kept(&self, block: u32, slot: u32) -> Option<(u32, u32)> {
        let Block { leaf, lost, .. } = self.blocks[block as usize];
        if lost == self.shape.block_units {
            return None;
        }
        if leaf == NONE {
            // The fill leaves the end of a block empty.
            return (slot..self.fill.units(block)).find_map(|slot| Some((slot, self.unit_at(block, slot)?)));
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

    /// The unit at a location.
    fn unit_at(&self, block: u32, slot: u32) -> Option<u32> {
        let leaf = self.blocks[block as usize].leaf;
        if leaf != NONE {
            // The leaf keeps units that have moved on: the map says where they are.
            let location = block * self.shape.block_units + slot + 2;
            return Some(self.block_leaves[leaf as usize][slot as usize])
                .filter(|&unit| self.places.get(unit) == location);
        }
        let unit = self.fill.unit(block, slot)?;
        (self.places.get(unit) == UNTOUCHED).then_some(unit)
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

    /// The memory that it takes, in bytes.
    pub(super) fn state_bytes(&self) -> usize {
        let places = self.places.state_bytes();
        let back =
            self.block_leaves.len() * (2 * size_of::<usize>() + self.shape.block_units as usize * size_of::<u32>());
        let erased: usize = self.pools.iter().map(|pool| pool.erased.capacity() * size_of::<u32>()).sum();
        let spare = self.spare_leaves.capacity() * size_of::<u32>();
        places
            + back
            + self.victims.state_bytes()
            + erased
            + spare
            + self.blocks.len() * size_of::<Block>()
            + self.fill.state_bytes()
    }
}

#[cfg(test)]
impl Map {
    /// Panics if the two directions, the counts or what may be collected do not agree. Checks every location.
    pub(super) fn check(&self) {
        let mut held = vec![0_u32; self.shape.dies as usize];
        let mut there = std::collections::BTreeMap::new();
        for unit in 0..self.shape.units {
            let Some(place) = self.place(unit) else { continue };
            assert!(there.insert(place, unit).is_none(), "two units at place {place}");
            let (block, slot) = split(&self.by_block, place);
            assert_eq!(self.unit_at(block, slot), Some(unit), "the way back");
            assert_ne!(self.blocks[block as usize].role, Role::Free, "a free block holds nothing");
            held[(block % self.shape.dies) as usize] += 1;
        }
        for (number, block) in (0..).zip(&self.blocks) {
            let pool = &self.pools[(number % self.shape.dies) as usize];
            let mut frontiers = [pool.host, pool.copies].into_iter();
            let written = frontiers.find(|frontier| frontier.block == number && block.role == Role::Open);
            let written = written.map_or(self.shape.block_units, |frontier| frontier.slot);
            let kept = (0..self.shape.block_units).filter(|&slot| self.unit_at(number, slot).is_some()).count();
            if block.role != Role::Free && !(block.leaf == NONE && number >= self.fill.blocks()) {
                assert_eq!(kept as u32 + block.lost, written, "block {number} {block:?}");
            }
        }
        for (die, pool) in (0..).zip(&self.pools) {
            assert_eq!(pool.held, held[die as usize], "die {die}");
        }
        for block in &self.blocks {
            let lost = if block.role == Role::Closed { block.lost } else { 0 };
            assert_eq!(lost_of(block.key), lost, "every closed block that has lost something may be collected");
        }
    }
}
