//! The time that a device takes to come from one request to the next, learnt from its completions.
//!
//! A sample is the time from one completion to the next, less the time of the transfer. It belongs to a way: the directions
//! of both requests, and the distance from the end of the one to the start of the other, upwards or downwards, in powers of
//! two. So it knows what a device never says: that the sector after the last one costs a revolution on a drive without a
//! cache, that a change from writes to reads settles, how far a seek is. Time of transfer for a sector is the least that was
//! seen lately in long requests.
//!
//! What was never seen between two directions is taken from all of them, and what was never seen at all is assumed.

use alloc::boxed::Box;
use alloc::vec;

use crate::settings::MILLI;
use crate::{Direction, Nanos};

/// Ways upwards or downwards: none, and one for each power of two.
const LENGTHS: usize = 48;
/// Both ends' directions; the last table is of all of them.
const TABLES: usize = 5;
const ALL: usize = 4;
/// The weight of a new sample once there were this many: its reciprocal.
const SAMPLES_MAX: u64 = 32;
/// A longer sample counts as this: the device did something else.
const SAMPLE_NANOS_MAX: u64 = 100 * MILLI;
/// Requests of as many sectors tell the time of a transfer.
const LONG_SECTORS: u64 = 64;

#[derive(Clone, Copy, Debug)]
struct Way {
    samples: u64,
    nanos: u64,
}

impl Way {
    const UNKNOWN: Self = Self { samples: 0, nanos: 0 };

    fn learn(&mut self, nanos: u64) {
        self.samples = (self.samples + 1).min(SAMPLES_MAX);
        let (before, samples) = (self.nanos, self.samples);
        self.nanos =
            if nanos >= before { before + (nanos - before) / samples } else { before - (before - nanos) / samples };
    }
}

/// A request as far as its service depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) direction: Direction,
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
}

impl Extent {
    pub(crate) fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Positioning {
    ways: Box<[Way]>,
    /// The time of 1024 sectors, by direction.
    transfer_nanos: [u64; 2],
}

impl Positioning {
    pub(crate) fn new() -> Self {
        // 100 MB a second until something else is seen.
        let transfer_nanos = [5 * MILLI; 2];
        Self { ways: vec![Way::UNKNOWN; TABLES * 2 * LENGTHS].into_boxed_slice(), transfer_nanos }
    }

    fn table(from: Direction, to: Direction) -> usize {
        2 * from as usize + to as usize
    }

    /// The number of the way from `end` to `start`, within a table.
    fn way(end: u64, start: u64) -> usize {
        let length = |distance: u64| (u64::BITS - distance.leading_zeros()).min(LENGTHS as u32 - 1) as usize;
        if start >= end { length(start - end) } else { LENGTHS + length(end - start) }
    }

    /// Learns that `to` took so long after `from` had been completed.
    pub(crate) fn learn(&mut self, from: &Extent, to: &Extent, nanos: Nanos) {
        let nanos = nanos.0.min(SAMPLE_NANOS_MAX);
        let sectors = u64::from(to.sectors);
        let transfer = &mut self.transfer_nanos[to.direction as usize];
        if sectors >= LONG_SECTORS {
            // The least that was seen, which fades.
            *transfer = (*transfer + *transfer / 256).min(nanos * 1024 / sectors);
        }
        let sample = nanos.saturating_sub(*transfer * sectors / 1024);
        let way = Self::way(from.end(), to.sector);
        for table in [Self::table(from.direction, to.direction), ALL] {
            self.ways[table * 2 * LENGTHS + way].learn(sample);
        }
    }

    /// The time to come from `from` to `to`.
    pub(crate) fn nanos(&self, from: &Extent, to: &Extent) -> u64 {
        let way = Self::way(from.end(), to.sector);
        let known = [Self::table(from.direction, to.direction), ALL].map(|table| self.ways[table * 2 * LENGTHS + way]);
        let known = known.into_iter().find(|way| way.samples > 0);
        known.map_or_else(|| Self::assumed(way), |way| way.nanos)
    }

    /// The assumed cost of a way that was never measured: that of a disk.
    fn assumed(way: usize) -> u64 {
        match (way % LENGTHS) as u64 {
            0 => MILLI / 4,
            length => 3 * MILLI + length * MILLI / 4,
        }
    }
}
