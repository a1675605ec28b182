//! How long does a disk drive take?
//!
//! A request that follows nothing costs
//!
//! ```text
//! overhead + max(seek + write settle, head switch) + wait for the sector + transfer
//! ```
//!
//! where the overhead depends on this operation and the one before, the transfer is the distance between two stream
//! positions (see `geometry`), and all is whole nanoseconds: the angle of the platters is the time modulo one revolution.
//!
//! A read that continues the read before is served from the drive's read-ahead. The head has gone on along the stream and
//! filled the buffer, at most `read_ahead` beyond what was asked; the read ends when the interface has passed its data on
//! or when the head has read its last sector, whichever is later. Where the buffer was full the head has stopped, and
//! finds its place again on its own time. A write that continues the write before streams on without a wait where the
//! write cache is on: the drive has its data in time. Forced (FUA) and flushing writes never do, nor a write after a flush.
//! Flushes, discards and requests without sectors cost command overhead only, and neither arm nor read-ahead notices them.
//! What else a drive's cache does (early completion of writes, hits on old data, several streams at once) is not modelled.

use ioweir_core::{Direction, Dispatch, Flags, Nanos, Operation, SECTOR_BYTES};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::divider::Divider;
use super::error::Complaint;
use super::geometry::{Geometry, Place};
use super::seek::SeekTable;
use super::spec::HddSpec;
use super::{Device, Service};

/// Bits of the fraction in the time that the interface needs for a sector.
const FRACTION_BITS: u32 = 20;

/// A disk drive.
#[derive(Clone, Debug)]
pub struct Hdd {
    geometry: Geometry,
    seek: SeekTable,
    revolution: Divider,
    /// Where the platters stand at time zero.
    phase_nanos: u64,
    /// By this operation's direction, then by that of the one before.
    overhead_nanos: [[u64; 2]; 2],
    head_switch_nanos: u64,
    /// By direction.
    settle_nanos: [u64; 2],
    interface_nanos_fixed: u64,
    /// The least time in which the head passes a sector, anywhere.
    sector_nanos_min: u64,
    read_ahead_sectors: u64,
    write_cache: bool,
    free_nanos: u64,
    before: Direction,
    /// Whether there was a transfer yet: the way to the first is no movement between two.
    moved: bool,
    /// The last sector transferred.
    last: Place,
    stream: Stream,
}

/// What a following request can continue.
#[derive(Clone, Copy, Debug)]
struct Stream {
    direction: Direction,
    /// The sector after the last one asked for; beyond the end of the disk where there is nothing to continue.
    next: u64,
    /// The head was at the end of the sector before this one ...
    media: u64,
    /// ... at this time ...
    media_nanos: u64,
    /// ... which is this stream position.
    media_stream_nanos: u64,
}

/// A request's extent, cut to the disk, with the places of its ends.
struct Extent {
    sector: u64,
    end: u64,
    first: Place,
    last: Place,
}

impl Hdd {
    /// The drive that `spec` describes; its platters stand at time zero as `seed` says.
    pub(super) fn new(spec: &HddSpec, seed: u64) -> Result<Self, Complaint> {
        let (geometry, seek) = spec.lay_out()?;
        let revolution = Divider::new(spec.revolution_nanos());
        let phase_nanos = revolution.divide(Pcg64Mcg::seed_from_u64(seed).next_u64()).1;
        let last = geometry.locate(0);
        let overhead = &spec.overhead;
        let most_sectors = spec.zones.iter().map(|zone| u64::from(zone.sectors_per_track)).max().unwrap_or(1);
        Ok(Self {
            seek,
            revolution,
            phase_nanos,
            overhead_nanos: [
                [overhead.read_after_read.nanos(), overhead.read_after_write.nanos()],
                [overhead.write_after_read.nanos(), overhead.write_after_write.nanos()],
            ],
            head_switch_nanos: spec.head_switch.nanos(),
            settle_nanos: [0, spec.write_settle.nanos()],
            interface_nanos_fixed: ((SECTOR_BYTES * 1_000_000_000) << FRACTION_BITS) / spec.interface_rate.0.0.max(1),
            sector_nanos_min: revolution.divisor() / most_sectors,
            read_ahead_sectors: spec.read_ahead.0 / SECTOR_BYTES,
            write_cache: spec.write_cache,
            free_nanos: 0,
            before: Direction::Read,
            moved: false,
            last,
            stream: Stream {
                direction: Direction::Read,
                next: u64::MAX,
                media: 0,
                media_nanos: 0,
                media_stream_nanos: 0,
            },
            geometry,
        })
    }

    /// Time for `sectors` to pass the interface.
    fn interface_nanos(&self, sectors: u64) -> u64 {
        sectors.saturating_mul(self.interface_nanos_fixed) >> FRACTION_BITS
    }

    /// How long after `time_nanos` the platters stand at `stream_nanos`.
    fn rotation_nanos(&self, time_nanos: u64, stream_nanos: u64) -> u64 {
        let angle = self.revolution.divide(stream_nanos).1;
        let head = self.revolution.divide(time_nanos.saturating_add(self.phase_nanos)).1;
        if angle >= head { angle - head } else { angle + self.revolution.divisor() - head }
    }

    #[inline(always)]
    fn extent(&self, sector: u64, sectors: u32) -> Option<Extent> {
        let total = self.geometry.sectors();
        let end = sector.saturating_add(u64::from(sectors));
        debug_assert!(sectors == 0 || end <= total, "the simulator refuses requests past the end");
        let end = end.min(total);
        if sector >= end {
            return None;
        }
        // A sequential request begins on the track where the last one ended, nine times out of ten.
        let follows = if sector == self.stream.next { self.last.along_track(1) } else { None };
        let first = follows.unwrap_or_else(|| self.geometry.locate(sector));
        let last = first.along_track(end - 1 - sector).unwrap_or_else(|| self.geometry.locate(end - 1));
        Some(Extent { sector, end, first, last })
    }

    /// Seek, wait, transfer.
    #[inline(always)]
    fn access(&mut self, start_nanos: u64, direction: Direction, extent: &Extent) -> Service {
        let overhead_nanos = self.overhead_nanos[direction as usize][self.before as usize];
        let distance = extent.first.cylinder.abs_diff(self.last.cylinder);
        let other_head = extent.first.head != self.last.head;
        // Selected rather than branched: heads and directions come as good as at random.
        let moves = distance > 0 || other_head;
        let settle_nanos = if moves { self.settle_nanos[direction as usize] } else { 0 };
        let switch_nanos = if other_head { self.head_switch_nanos } else { 0 };
        let seek_nanos = (self.seek.nanos(distance) + settle_nanos).max(switch_nanos);
        let stream_nanos = extent.first.stream_nanos();
        let arrival_nanos = start_nanos.saturating_add(overhead_nanos + seek_nanos);
        let rotation_nanos = self.rotation_nanos(arrival_nanos, stream_nanos);
        let stream_end_nanos = extent.last.stream_end_nanos();
        let transfer_nanos = stream_end_nanos - stream_nanos;
        let finish_nanos = arrival_nanos.saturating_add(rotation_nanos + transfer_nanos);
        self.stream = Stream {
            direction,
            next: extent.end,
            media: extent.end,
            media_nanos: finish_nanos,
            media_stream_nanos: stream_end_nanos,
        };
        Service {
            finish: Nanos(finish_nanos),
            overhead_nanos,
            seek_nanos,
            rotation_nanos,
            transfer_nanos,
            ..Service::default()
        }
    }

    /// A read from the read-ahead.
    #[inline(always)]
    fn read_on(&mut self, start_nanos: u64, extent: &Extent) -> Service {
        let overhead_nanos = self.overhead_nanos[0][self.before as usize];
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        let ready_nanos = command_nanos.saturating_add(self.interface_nanos(extent.end - extent.sector));
        let mut rotation_nanos = 0;
        let limit = self.stream.next.saturating_add(self.read_ahead_sectors).min(self.geometry.sectors());
        if self.stopped_at(limit, start_nanos) {
            self.stream.media = limit;
            if limit < self.geometry.sectors() {
                // There is room again: back to where it stopped, on the drive's own time.
                let stream_nanos = self.geometry.locate(limit).stream_nanos();
                let wait_nanos = self.rotation_nanos(command_nanos, stream_nanos);
                self.stream.media_nanos = command_nanos.saturating_add(wait_nanos);
                self.stream.media_stream_nanos = stream_nanos;
                if extent.end > limit {
                    rotation_nanos = wait_nanos;
                }
            }
        }
        let mut finish_nanos = ready_nanos;
        if extent.end > self.stream.media {
            let stream_end_nanos = extent.last.stream_end_nanos();
            let along_nanos = stream_end_nanos.saturating_sub(self.stream.media_stream_nanos);
            let media_nanos = self.stream.media_nanos.saturating_add(along_nanos);
            finish_nanos = finish_nanos.max(media_nanos);
            self.stream.media = extent.end;
            self.stream.media_nanos = media_nanos;
            self.stream.media_stream_nanos = stream_end_nanos;
        }
        self.stream.next = extent.end;
        let transfer_nanos = finish_nanos.saturating_sub(command_nanos.saturating_add(rotation_nanos));
        Service { finish: Nanos(finish_nanos), overhead_nanos, rotation_nanos, transfer_nanos, ..Service::default() }
    }

    /// Whether the head had filled the buffer up to `limit` and stopped there before `time_nanos`.
    fn stopped_at(&self, limit: u64, time_nanos: u64) -> bool {
        if limit <= self.stream.media {
            return true;
        }
        // Mostly the time does not even suffice for the sectors alone; only otherwise look closer.
        let least_nanos = (limit - self.stream.media).saturating_mul(self.sector_nanos_min);
        if self.stream.media_nanos.saturating_add(least_nanos) > time_nanos {
            return false;
        }
        let end_nanos = self.geometry.locate(limit - 1).stream_end_nanos();
        let along_nanos = end_nanos.saturating_sub(self.stream.media_stream_nanos);
        self.stream.media_nanos.saturating_add(along_nanos) <= time_nanos
    }

    /// A write that the cache lets stream on.
    #[inline(always)]
    fn write_on(&mut self, start_nanos: u64, extent: &Extent) -> Service {
        let overhead_nanos = self.overhead_nanos[1][self.before as usize];
        let ready_nanos = start_nanos.saturating_add(overhead_nanos + self.interface_nanos(extent.end - extent.sector));
        let stream_end_nanos = extent.last.stream_end_nanos();
        let along_nanos = stream_end_nanos.saturating_sub(self.stream.media_stream_nanos);
        let media_nanos = self.stream.media_nanos.max(start_nanos).saturating_add(along_nanos);
        let finish_nanos = ready_nanos.max(media_nanos);
        self.stream.next = extent.end;
        self.stream.media = extent.end;
        self.stream.media_nanos = media_nanos;
        self.stream.media_stream_nanos = stream_end_nanos;
        let transfer_nanos = finish_nanos.saturating_sub(start_nanos.saturating_add(overhead_nanos));
        Service { finish: Nanos(finish_nanos), overhead_nanos, transfer_nanos, ..Service::default() }
    }

    /// Adds where the head went, and leaves it at the end of the extent.
    #[inline(always)]
    fn account(&mut self, extent: &Extent, service: &mut Service) {
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

    /// A command that moves no data.
    fn command(&mut self, start_nanos: u64, dispatch: &Dispatch) -> Service {
        let direction = dispatch.operation.direction();
        let overhead_nanos = self.overhead_nanos[direction as usize][self.before as usize];
        let flushes = dispatch.operation == Operation::Flush || dispatch.flags.has(Flags::PREFLUSH);
        if flushes && self.stream.direction == Direction::Write {
            self.stream.next = u64::MAX;
        }
        let finish = Nanos(start_nanos.saturating_add(overhead_nanos));
        Service { finish, overhead_nanos, track: self.last.cylinder, ..Service::default() }
    }
}

impl Device for Hdd {
    fn serve(&mut self, now: Nanos, dispatch: &Dispatch) -> Service {
        let start_nanos = now.0.max(self.free_nanos);
        let direction = dispatch.operation.direction();
        let extent = match dispatch.operation {
            Operation::Read | Operation::Write => self.extent(dispatch.sector, dispatch.sectors),
            Operation::Discard | Operation::Flush => None,
        };
        let Some(extent) = extent else {
            let service = self.command(start_nanos, dispatch);
            self.free_nanos = service.finish.0;
            return service;
        };
        let continues = extent.sector == self.stream.next && direction == self.stream.direction;
        let mut service = match direction {
            Direction::Read if continues && self.read_ahead_sectors > 0 => self.read_on(start_nanos, &extent),
            Direction::Write
                if continues && self.write_cache && !dispatch.flags.has(Flags::FUA.with(Flags::PREFLUSH)) =>
            {
                self.write_on(start_nanos, &extent)
            }
            _ => self.access(start_nanos, direction, &extent),
        };
        self.account(&extent, &mut service);
        self.before = direction;
        self.free_nanos = service.finish.0;
        service
    }

    fn sectors(&self) -> u64 {
        self.geometry.sectors()
    }

    fn tracks(&self) -> u64 {
        u64::from(self.geometry.cylinders())
    }
}
