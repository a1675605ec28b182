//! Rules of growth: tiers and devices with late discards grow, and their map or journal recognizes them if the power fails meanwhile.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::collections::BTreeSet;

use ioweir_serve::backend::late::DataFiles;
use ioweir_serve::backend::late::journal::Journal;
use ioweir_serve::backend::{Backend, Cached, Late, Ledger, Memory, Placed};
use ioweir_serve::spec::Faults;

use crate::powered::{Grid, Powered};

const BEFORE: u64 = 48 << 10;
const BETWEEN: u64 = 64 << 10;
const AFTER: u64 = 80 << 10;

/// A disk that has room to grow, a faster one, and one for a map or a journal.
fn grid(seed: u64) -> Grid {
    let grid = Grid::new(&[AFTER, 24 << 10, 4 << 20], seed);
    grid.set_length(0, BEFORE);
    grid
}

type Open = fn(&Grid) -> Result<Box<dyn Backend>, String>;

fn disk(grid: &Grid, at: usize) -> Box<dyn Backend> {
    Box::new(Powered::new(grid, at, Faults::default()))
}

fn open_tiers(grid: &Grid) -> Result<Box<dyn Backend>, String> {
    let placed = Placed::open(disk(grid, 0), disk(grid, 1), Ledger::opened_by(grid.opener(2))?, 4)?;
    Ok(Box::new(placed))
}

fn open_late(grid: &Grid) -> Result<Box<dyn Backend>, String> {
    Ok(Box::new(Late::open(disk(grid, 0), Journal::opened_by(grid.opener(2))?, DataFiles::default())?))
}

#[test]
fn a_power_failure_during_growth_keeps_either_length() {
    let (mut before, mut after) = (0, 0);
    for open in [open_tiers as Open, open_late] {
        for cut in 1..40 {
            let grid = grid(cut);
            let mut device = open(&grid).unwrap();
            grid.cut_after(cut);
            let has_grown = device.grow(AFTER).is_ok();
            drop(device);
            grid.cut();
            grid.restore();
            let mut device = open(&grid).unwrap_or_else(|problem| panic!("cut {cut}: {problem}"));
            let found = device.size_bytes();
            assert!(found == AFTER || (found == BEFORE && !has_grown), "cut {cut}: {found}");
            (before, after) = (before + u32::from(found == BEFORE), after + u32::from(found == AFTER));
            device.grow(AFTER).unwrap();
            drop(device);
            assert_eq!(open(&grid).unwrap().size_bytes(), AFTER, "cut {cut}");
        }
    }
    assert!(before > 4 && after > 4, "{before} {after}");
}

/// The power fails while a device grows, and returns before its server has noticed: the server continues, and opens its map or journal
/// again.
#[test]
fn interrupted_growth_does_not_stop_the_next_attempt() {
    let mut found_all = BTreeSet::new();
    for open in [open_tiers as Open, open_late] {
        for first in 1..24 {
            for second in 1..40 {
                let grid = grid(first * 40 + second);
                let mut device = open(&grid).unwrap();
                grid.cut_after(first);
                // This growth is interrupted by the power failure.
                let _ = device.grow(BETWEEN);
                let (is_cut, between) = (!grid.media(2).has_power(), device.size_bytes());
                grid.restore();
                if second > 9 && (!is_cut || between == BEFORE) {
                    // Only if the end was not noted is the map or journal opened again, which takes a while.
                    break;
                }
                grid.cut_after(second);
                let has_grown = device.grow(AFTER).is_ok();
                drop(device);
                grid.cut();
                grid.restore();
                let device = open(&grid).unwrap_or_else(|problem| panic!("cuts {first} and {second}: {problem}"));
                let found = device.size_bytes();
                assert!(found == AFTER || (found == between && !has_grown), "cuts {first} and {second}: {found}");
                found_all.insert((between, found));
            }
        }
    }
    assert_eq!(found_all.len(), 4, "{found_all:?}");
}

#[test]
fn devices_whose_length_changed_elsewhere_are_refused() {
    for (open, problem) in
        [(open_tiers as Open, "was made for tiers of 49152"), (open_late, "belongs to another device")]
    {
        let grid = grid(1);
        drop(open(&grid).unwrap());
        grid.set_length(0, AFTER);
        let refused = open(&grid).err().unwrap();
        assert!(refused.contains(problem), "{refused}");
    }
}

#[test]
fn tiers_with_a_partial_last_block_cannot_grow() {
    let memory = |bytes| Box::new(Memory::new(bytes));
    let placed = Placed::open(memory(10_000), memory(8192), Ledger::in_memory().unwrap(), 4).unwrap();
    let cached = Cached::open(memory(10_000), memory(8192)).unwrap();
    for mut tiers in [Box::new(placed) as Box<dyn Backend>, Box::new(cached)] {
        let refused = tiers.grow(20_480).unwrap_err();
        assert!(refused.contains("its last block is shorter than 4096"), "{refused}");
    }
}
