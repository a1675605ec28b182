//! The page map: the location of each unit on flash, and the blocks that are worth collecting.
//!
//! It maps units to locations and back, in 32 bits each; what is written together is written into both in one step. Both take
//! memory only for units that were written or discarded: the map as in `sparse`, the reverse in one leaf for each block. Data from
//! before the first request is computed ([`Fill`]). The map knows no time: the drive calls it step by step and charges the cost of
//! each step.
//!
//! Every die has its own free blocks, a block for the host's units, and a block for copies of garbage collection. Which closed block is
//! worth collecting most is known ([`Victims`]).

mod collect;

use std::collections::VecDeque;

use super::super::divider::Divider;
use super::fill::Fill;
use super::sparse::{Sparse, after};
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
/// The units of a discard that are looked up together.
const DISCARD_UNITS: u32 = 4096;

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
    /// How much it is worth collecting, if it is closed.
    key: u64,
    /// The number of invalid units: locations that were written and hold nothing of value.
    lost: u32,
    /// The leaf of the reverse map; none in a block that the fill has written.
    leaf: u32,
    /// The block's group of victims.
    group: u32,
    die: u16,
    role: Role,
}

impl Block {
    /// The block after an erase.
    const fn erased(self) -> Self {
        Self { key: 0, lost: 0, leaf: NONE, role: Role::Free, ..self }
    }
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
    /// The number of the first unit, as in the map.
    number: u32,
    pub(super) units: u32,
}

impl Run {
    /// The location of the first unit.
    #[inline]
    pub(super) fn place(self) -> Option<u32> {
        self.number.checked_sub(2)
    }

    /// Moves the begin of the run forward by `units` units.
    #[inline]
    pub(super) fn pass(&mut self, units: u32) {
        *self = Self { number: after(self.number, units), units: self.units - units };
    }
}

/// Adds a run, or extends the last one if `number` continues it, as `next` tells.
#[inline]
fn add_run(runs: &mut Vec<Run>, next: &mut u32, number: u32, units: u32) {
    match runs.last_mut() {
        Some(last) if number == *next => last.units += units,
        _ => runs.push(Run { number, units }),
    }
    *next = after(number, units);
}

/// One step of garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A unit was copied from one location to another.
    Copied { unit: u32, from: u32, to: u32 },
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
    /// The units of blocks: one more than the first of each run that was written, at its slot, and zero at the others.
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
            places: Sparse::new(),
            blocks: Vec::with_capacity(shape.blocks() as usize),
            victims: Victims::new(shape.dies, shape.die_blocks),
            block_leaves: Vec::new(),
            spare_leaves: Vec::new(),
            pools: vec![pool; shape.dies as usize],
            by_block: Divider::new(u64::from(shape.block_units)),
            by_die: Divider::new(u64::from(shape.dies)),
            held_most: (share + (usable - share) / 2).max(share + shape.program_units),
            fill,
        };
        for row in 0..shape.die_blocks {
            map.blocks.extend((0..shape.dies).map(|die| {
                // A drive has at most 4096 dies.
                let (group, die) = (map.victims.group(die, row), die as u16);
                Block { key: 0, lost: 0, leaf: NONE, group, die, role: Role::Free }
            }));
        }
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

    /// The runs of the units from `first` to before `end`.
    pub(super) fn runs(&self, first: u32, end: u32, runs: &mut Vec<Run>) {
        self.places.runs(first, end, self.collector(first, runs));
    }

    /// Collects runs as [`Map::runs`] does, where the leaves are known that hold the units.
    pub(super) fn runs_of(&self, leaves: &[u32], first: u32, end: u32, runs: &mut Vec<Run>) {
        self.places.runs_of(leaves, first, end, self.collector(first, runs));
    }

    /// Where the map has the units from `first` to before `end`, which are going to be written.
    pub(super) fn make(&mut self, first: u32, end: u32, leaves: &mut Vec<u32>) {
        self.places.make(first, end, leaves);
    }

    /// Makes runs, in place of those that were there, of numbers in the map.
    #[inline]
    fn collector(&self, first: u32, runs: &mut Vec<Run>) -> impl FnMut(u32, u32) {
        runs.clear();
        let (mut unit, mut next) = (first, UNTOUCHED);
        move |number, units| {
            if number == UNTOUCHED {
                self.runs_of_fill(unit, unit + units, &mut next, runs);
            } else {
                add_run(runs, &mut next, number, units);
            }
            unit += units;
        }
    }

    /// The runs of units that are where the fill has put them.
    #[inline(never)]
    fn runs_of_fill(&self, mut unit: u32, end: u32, next: &mut u32, runs: &mut Vec<Run>) {
        while unit < end {
            let units = self.fill.run(unit).min(end - unit);
            add_run(runs, next, self.fill.place(unit).map_or(NOWHERE, |place| place + 2), units);
            unit += units;
        }
    }

    /// Touches the data that losing these runs will change, all at once, so that the processor waits for memory once.
    pub(super) fn look_ahead(&self, runs: &[Run]) {
        let key = |place| self.blocks[split(&self.by_block, place).0 as usize].key;
        let seen = runs.iter().filter_map(|run| run.place()).fold(0, |seen, place| seen | key(place));
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

    /// The location of the next unit of the host on this die.
    #[inline]
    pub(super) fn host_place(&self, die: u32) -> u32 {
        let Frontier { block, slot } = self.pools[die as usize].host;
        block * self.shape.block_units + slot
    }

    /// Writes units to the host's block, which has room for them; the units from `first` on lie in these leaves of the map. Their old
    /// locations must have been given up before.
    #[inline]
    pub(super) fn write(&mut self, die: u32, (leaves, first): (&[u32], u32), unit: u32, units: u32) {
        let frontier = self.pools[die as usize].host;
        let place = self.put(frontier, unit);
        self.places.set_run_of(leaves, first, unit, units, place + 2);
        let pool = &mut self.pools[die as usize];
        pool.held += units;
        pool.host.slot += units;
        if pool.host.slot == self.shape.block_units {
            self.close(frontier.block);
        }
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
        let (mut runs, mut unit) = (Vec::new(), first);
        while unit < end {
            // A discard may be as large as the drive.
            self.runs(unit, end.min(unit.saturating_add(DISCARD_UNITS)), &mut runs);
            for mut run in runs.iter().copied() {
                while run.units > 0 {
                    let units = run.place().map_or(run.units, |place| self.lose(place, run.units));
                    if run.place().is_some() {
                        self.places.set_run(unit, units, NOWHERE);
                    }
                    unit += units;
                    run.pass(units);
                }
            }
        }
    }

    /// Whether no unit has ever had a location.
    pub(super) fn is_blank(&self) -> bool {
        matches!(self.fill, Fill::Fresh) && self.places.is_blank()
    }

    /// Notes the first of the units that are written there; returns its location.
    #[inline]
    fn put(&mut self, frontier: Frontier, unit: u32) -> u32 {
        let leaf = self.blocks[frontier.block as usize].leaf;
        self.block_leaves[leaf as usize][frontier.slot as usize] = unit + 1;
        frontier.block * self.shape.block_units + frontier.slot
    }

    /// Invalidates locations that follow one another, as far as they are in one block; returns their number. The caller
    /// updates the map.
    #[inline]
    pub(super) fn lose(&mut self, place: u32, units: u32) -> u32 {
        let (number, slot) = split(&self.by_block, place);
        let units = units.min(self.shape.block_units - slot);
        let block = &mut self.blocks[number as usize];
        self.pools[block.die as usize].held -= units;
        block.lost += units;
        if block.role == Role::Closed {
            block.key = self.victims.lost(block.group, block.lost);
        }
        units
    }

    fn close(&mut self, number: u32) {
        let block = &mut self.blocks[number as usize];
        block.role = Role::Closed;
        block.key = self.victims.lost(block.group, block.lost);
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
            self.block_leaves.push(vec![0; self.shape.block_units as usize].into());
            u32::try_from(self.block_leaves.len() - 1).unwrap_or(NONE)
        });
        let taken = &mut self.blocks[block as usize];
        *taken = Block { leaf, role: Role::Open, ..taken.erased() };
        block
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

    /// The unit at a location.
    fn unit_at(&self, block: u32, slot: u32) -> Option<u32> {
        let leaf = self.blocks[block as usize].leaf;
        if leaf != NONE {
            // The leaf keeps units that have moved on: the map says where they are.
            let location = block * self.shape.block_units + slot + 2;
            return self.unit_written(leaf, slot).filter(|&unit| self.places.get(unit) == location);
        }
        let unit = self.fill.unit(block, slot)?;
        (self.places.get(unit) == UNTOUCHED).then_some(unit)
    }
}
