//! A mirror on disks that lose their power, together or one by one, without an engine.

use std::collections::BTreeMap;

use ioweir_config::Duration;
use ioweir_core::Nanos;
use ioweir_serve::backend::{Action, Backend, Io, LegState, Media, Mirror, MirrorPlan, Outcome, Task};
use ioweir_serve::buffer::{Buffer, Buffers};
use ioweir_serve::nbd::NbdError;
use ioweir_serve::spec::Faults;

use crate::powered::{Grid, Powered};

pub(super) const SECTOR: u64 = 512;
pub(super) const REGION: u64 = 8192;
/// Of data: four regions.
pub(super) const SECTORS: u64 = 64;
/// Of a leg: its head, and a page of the map, before the data.
pub(super) const LEG_BYTES: u64 = 2 * 4096 + SECTORS * SECTOR;

/// What an operation has come to.
pub(super) type Ended = (Result<Outcome, NbdError>, Vec<u8>);

/// An operation to start.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) action: Action,
    pub(super) sector: u64,
    pub(super) sectors: u64,
    pub(super) durable: bool,
    /// What every word of a write is.
    pub(super) value: u32,
}

impl Asked {
    pub(super) const fn new(action: Action, sector: u64, sectors: u64) -> Self {
        Self { action, sector, sectors, durable: false, value: 0 }
    }

    pub(super) fn write(sector: u64, sectors: u64, value: u32) -> Self {
        Self { value, ..Self::new(Action::Write, sector, sectors) }
    }

    pub(super) const fn durably(self) -> Self {
        Self { durable: true, ..self }
    }
}

pub(super) struct Rig {
    pub(super) grid: Grid,
    legs: usize,
    seed: u64,
    mirror: Option<Mirror>,
    pub(super) now: Nanos,
}

/// Opens a mirror of these legs of a grid; others are not there.
pub(super) fn open(grid: &Grid, legs: usize, there: &[usize], force: Option<u64>, seed: u64) -> Result<Mirror, String> {
    let (grid, there) = (grid.clone(), there.to_vec());
    let open = move |leg: usize| {
        let stall = Duration::new(Nanos::from_millis(1));
        let faults = Faults { seed: seed ^ leg as u64, stalls_per_million: 200_000, stall, ..Faults::default() };
        if !there.contains(&leg) {
            return Err("it is not there".into());
        }
        Ok(Box::new(Powered::new(&grid, leg, faults)) as Box<dyn Backend>)
    };
    Mirror::open(MirrorPlan { legs, region_bytes: REGION, force, read_only: false }, Box::new(open))
}

/// Disks with the contents of others, which go their own way.
pub(super) fn copy_of(grid: &Grid, legs: usize) -> Grid {
    let copy = Grid::new(&vec![LEG_BYTES; legs], 1);
    for leg in 0..legs {
        copy.media(leg).write(0, &grid.contents(leg)).unwrap();
        copy.media(leg).flush().unwrap();
    }
    copy
}

impl Rig {
    pub(super) fn new(legs: usize, seed: u64) -> Self {
        let grid = Grid::new(&vec![LEG_BYTES; legs], seed);
        let mut rig = Self { grid, legs, seed, mirror: None, now: Nanos::ZERO };
        rig.start().unwrap();
        rig
    }

    /// One of two legs that have room to grow, where they hold what nobody has written: each something else.
    pub(super) fn with_room(seed: u64, more_sectors: u64) -> Self {
        let more = (more_sectors * SECTOR) as usize;
        let grid = Grid::new(&[LEG_BYTES + more as u64; 2], seed);
        for leg in 0..2 {
            grid.set_length(leg, LEG_BYTES);
            grid.media(leg).write(LEG_BYTES, &vec![leg as u8 + 1; more]).unwrap();
            grid.media(leg).flush().unwrap();
        }
        let mut rig = Self { grid, legs: 2, seed, mirror: None, now: Nanos::ZERO };
        rig.start().unwrap();
        rig
    }

    pub(super) fn mirror(&mut self) -> &mut Mirror {
        self.mirror.as_mut().unwrap()
    }

    pub(super) fn media(&self, leg: usize) -> Media {
        self.grid.media(leg)
    }

    pub(super) fn state(&mut self, leg: usize) -> LegState {
        self.mirror().mirror().unwrap().legs[leg].state.clone()
    }

    pub(super) fn is_in_sync(&mut self, leg: usize) -> bool {
        self.state(leg) == LegState::InSync
    }

    /// What has power can be opened.
    pub(super) fn start(&mut self) -> Result<(), String> {
        let all: Vec<usize> = (0..self.legs).collect();
        self.start_with(&all, None)
    }

    pub(super) fn start_with(&mut self, there: &[usize], force: Option<u64>) -> Result<(), String> {
        self.mirror = None;
        self.mirror = Some(open(&self.grid, self.legs, there, force, self.seed)?);
        Ok(())
    }

    /// The server is killed.
    pub(super) fn kill(&mut self) {
        self.mirror = None;
    }

    /// The server ends well.
    pub(super) fn finish(&mut self) {
        self.mirror().finish();
        self.mirror = None;
    }

    /// Starts operations together, and ends all of them.
    pub(super) fn run(&mut self, asked: &[Asked]) -> Vec<Ended> {
        for (id, asked) in (0..).zip(asked) {
            let Asked { action, sector, sectors, durable, value } = *asked;
            let (offset, length) = (sector * SECTOR, sectors * SECTOR);
            let mut buffers = Buffers::None;
            if action == Action::Write || action.reads() {
                let mut buffer = Buffer::with_capacity(length as usize);
                buffer.bytes_mut().chunks_mut(4).for_each(|word| word.copy_from_slice(&value.to_be_bytes()));
                buffers = Buffers::One(buffer);
            }
            let now = self.now;
            self.mirror().start(now, Io { id, action, offset, length, durable, dispatch: None, buffers });
        }
        let mut ended = BTreeMap::new();
        for _ in 0..10_000 {
            self.turn(&mut ended);
            if ended.len() == asked.len() {
                return ended.into_values().collect();
            }
            let (now, due) = (self.now, self.mirror().due());
            assert!(due <= now.after(Nanos::from_seconds(60)), "{asked:?} waits for nothing");
            self.now = now.max(due);
        }
        panic!("{asked:?} does not end");
    }

    fn turn(&mut self, ended: &mut BTreeMap<u32, Ended>) {
        self.now = self.now.after(Nanos(1));
        let (now, mut done) = (self.now, Vec::new());
        self.mirror().submit().unwrap();
        self.mirror().collect(now, &mut done).unwrap();
        for done in done {
            let bytes = done.buffers.as_slice().iter().flat_map(|buffer| buffer.bytes().to_vec()).collect();
            let bytes = if done.result == Ok(Outcome::Hole) { vec![0; Vec::len(&bytes)] } else { bytes };
            assert!(ended.insert(done.id, (done.result, bytes)).is_none(), "nothing ends twice");
        }
    }

    pub(super) fn run_one(&mut self, asked: Asked) -> Ended {
        self.run(&[asked]).remove(0)
    }

    /// Runs one that has to go well.
    pub(super) fn ok(&mut self, asked: Asked) -> Vec<u8> {
        let (result, bytes) = self.run_one(asked.clone());
        assert!(result.is_ok(), "{asked:?}: {result:?}");
        bytes
    }

    pub(super) fn flush(&mut self) {
        self.ok(Asked::new(Action::Flush, 0, 0));
    }

    /// The value of every sector of a range.
    pub(super) fn read(&mut self, sector: u64, sectors: u64) -> Vec<u32> {
        values(&self.ok(Asked::new(Action::Read, sector, sectors)))
    }

    /// Lets time pass, and what is due happen.
    pub(super) fn pass(&mut self, span: Nanos) {
        let until = self.now.after(span);
        for _ in 0..10_000 {
            self.turn(&mut BTreeMap::new());
            let due = self.mirror().due();
            if due > until {
                break;
            }
            self.now = self.now.max(due);
        }
        self.now = until;
        for _ in 0..20 {
            self.turn(&mut BTreeMap::new());
            self.now = self.now.after(Nanos::from_millis(2));
        }
    }

    /// Copies what is owed, at most so many pieces; returns whether nothing more is.
    pub(super) fn resync(&mut self, pieces: usize) -> bool {
        for _ in 0..pieces {
            let Some(range) = self.mirror().next_owed(Task::Resync, 0, 4096) else { return true };
            // The pieces of the first region, so that each is complete some time.
            let end = (range.start / REGION + 1) * REGION;
            for offset in (range.start..end).step_by(4096) {
                let asked = Asked::new(Action::Serve(Task::Resync), offset / SECTOR, 4096 / SECTOR);
                if self.run_one(asked).0.is_err() {
                    return false;
                }
            }
        }
        self.mirror().owed_bytes(Task::Resync) == 0
    }

    /// The data of a leg.
    pub(super) fn data(&self, leg: usize) -> Vec<u32> {
        values(&self.grid.contents(leg)[8192..])
    }
}

/// What each sector holds, all over.
pub(super) fn values(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks(SECTOR as usize)
        .map(|sector| {
            assert!(sector.chunks(4).all(|word| word == &sector[..4]), "a sector is torn");
            u32::from_be_bytes(sector[..4].try_into().unwrap())
        })
        .collect()
}
