//! The arm, heads and platters: the time until a head is over a sector.

use ioweir_core::{Direction, SECTOR_BYTES};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::geometry::{Geometry, Place};
use super::seek::SeekTable;
use super::spec::{HddSpec, Overhead};
use crate::Service;
use crate::divider::Divider;
use ioweir_config::Complaint;

/// The number of fraction bits of the interface's time per sector.
const FRACTION_BITS: u32 = 20;

/// The moving parts and their state.
#[derive(Clone, Debug)]
pub(super) struct Mechanics {
    pub(super) geometry: Geometry,
    seek: SeekTable,
    revolution: Divider,
    /// The angle of the platters at time zero, in nanoseconds.
    phase_nanos: u64,
    head_switch_nanos: u64,
    reposition_nanos: u64,
    /// Settling times by direction, beyond those in the seek curve.
    settle_nanos: [i64; 2],
    /// Whether there was a transfer before: the seek to the first one is not a movement between two.
    moved: bool,
    /// The last sector transferred, which is where the head is.
    pub(super) last: Place,
}

/// The part of a request that lies on the disk, with the locations of its ends.
pub(super) struct Extent {
    pub(super) sector: u64,
    pub(super) end: u64,
    pub(super) first: Place,
    pub(super) last: Place,
}

impl Extent {
    pub(super) fn sectors(&self) -> u64 {
        self.end - self.sector
    }
}

/// Command overhead by the direction of this operation, then of the one before.
pub(super) fn overhead_nanos(overhead: &Overhead) -> [[u64; 2]; 2] {
    [
        [overhead.read_after_read.nanos().0, overhead.read_after_write.nanos().0],
        [overhead.write_after_read.nanos().0, overhead.write_after_write.nanos().0],
    ]
}

/// The speed of the interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    /// By direction.
    sector_nanos_fixed: [u64; 2],
}

impl Interface {
    pub(super) fn new(spec: &HddSpec) -> Self {
        let fixed = |rate: u64| ((SECTOR_BYTES * 1_000_000_000) << FRACTION_BITS) / rate.max(1);
        let write_rate = spec.interface_write_rate.unwrap_or(spec.interface_rate);
        Self { sector_nanos_fixed: [fixed(spec.interface_rate.0), fixed(write_rate.0)] }
    }

    /// The time in which `sectors` cross the interface.
    pub(super) fn nanos(&self, direction: Direction, sectors: u64) -> u64 {
        sectors.saturating_mul(self.sector_nanos_fixed[direction as usize]) >> FRACTION_BITS
    }
}

impl Mechanics {
    /// Makes the mechanics of `spec`; `seed` sets the angle of the platters at time zero.
    pub(super) fn new(spec: &HddSpec, seed: u64) -> Result<Self, Complaint> {
        let (geometry, seek) = spec.lay_out()?;
        let revolution = Divider::new(spec.revolution_nanos());
        let phase_nanos = revolution.divide(Pcg64Mcg::seed_from_u64(seed).next_u64()).1;
        let last = geometry.locate(0);
        Ok(Self {
            seek,
            revolution,
            phase_nanos,
            head_switch_nanos: spec.head_switch.nanos().0,
            reposition_nanos: spec.reposition.nanos().0,
            settle_nanos: [0, spec.write_settle.nanos],
            moved: false,
            last,
            geometry,
        })
    }

    pub(super) fn revolution_nanos(&self) -> u64 {
        self.revolution.divisor()
    }

    /// The shortest time in which a sector passes the head, anywhere on the disk of `spec`.
    pub(super) fn sector_nanos_min(&self, spec: &HddSpec) -> u64 {
        let most = spec.zones.iter().map(|zone| u64::from(zone.sectors_per_track)).max().unwrap_or(1);
        self.revolution_nanos() / most.max(1)
    }

    /// The time from `time_nanos` until `stream_nanos` is under the head.
    #[inline(always)]
    pub(super) fn rotation_nanos(&self, time_nanos: u64, stream_nanos: u64) -> u64 {
        let angle = self.revolution.divide(stream_nanos).1;
        let head = self.revolution.divide(time_nanos.saturating_add(self.phase_nanos)).1;
        if angle >= head { angle - head } else { angle + self.revolution.divisor() - head }
    }

    /// The time to move the arm, or to change heads, from the position of the head to `place`.
    #[inline(always)]
    pub(super) fn seek_nanos(&self, direction: Direction, place: &Place) -> u64 {
        let distance = place.cylinder.abs_diff(self.last.cylinder);
        let other_head = place.head != self.last.head;
        // A selection instead of a branch: the processor could not predict heads and directions.
        let moves = distance > 0 || other_head;
        let settle_nanos = if moves { self.settle_nanos[direction as usize] } else { 0 };
        let switch_nanos = if other_head { self.head_switch_nanos } else { 0 };
        self.seek.nanos(distance).saturating_add_signed(settle_nanos).max(switch_nanos).max(self.reposition_nanos)
    }

    /// Seek and rotation together, from `time_nanos`.
    #[inline]
    pub(super) fn positioning_nanos(&self, time_nanos: u64, direction: Direction, place: &Place) -> u64 {
        let seek_nanos = self.seek_nanos(direction, place);
        seek_nanos + self.rotation_nanos(time_nanos.saturating_add(seek_nanos), place.stream_nanos())
    }

    /// Cuts a request to the disk; `next` is the sector after the last one transferred. `None` if nothing of it lies on the
    /// disk.
    #[inline(always)]
    pub(super) fn extent(&self, sector: u64, sectors: u32, next: u64) -> Option<Extent> {
        let total = self.geometry.sectors();
        let end = sector.saturating_add(u64::from(sectors));
        debug_assert!(sectors == 0 || end <= total, "the simulator refuses requests past the end");
        let end = end.min(total);
        if sector >= end {
            return None;
        }
        // Nine times out of ten, a sequential request begins on the track where the last one ended.
        let follows = if sector == next { self.last.along_track(1) } else { None };
        let first = follows.unwrap_or_else(|| self.geometry.locate(sector));
        let last = first.along_track(end - 1 - sector).unwrap_or_else(|| self.geometry.locate(end - 1));
        Some(Extent { sector, end, first, last })
    }

    /// Counts the movements of the head, and leaves it at the end of the extent.
    #[inline(always)]
    pub(super) fn account(&mut self, extent: &Extent, service: &mut Service) {
        service.track = extent.first.cylinder;
        let distance = u64::from(extent.first.cylinder.abs_diff(self.last.cylinder));
        if self.moved && distance > 0 {
            service.movements = 1;
            service.movement_tracks = distance;
            service.movement_squares = distance * distance;
        }
        if extent.first.track() != extent.last.track() {
            let travel = self.geometry.travel(extent.last.track()).minus(self.geometry.travel(extent.first.track()));
            service.movements = service.movements.saturating_add(u32::try_from(travel.movements).unwrap_or(u32::MAX));
            service.movement_tracks += travel.tracks;
            service.movement_squares = service.movement_squares.saturating_add(travel.squares);
        }
        self.moved = true;
        self.last = extent.last;
    }
}
