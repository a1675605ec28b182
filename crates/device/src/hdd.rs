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
//! What else a drive's buffer does (early completion of writes, hits on old data, several streams at once) is in `cached`,
//! for drives that are described so far.

use ioweir_core::{Direction, Dispatch, Flags, Nanos, Operation, SECTOR_BYTES};

use super::mechanics::{Extent, Interface, Mechanics, overhead_nanos};
use super::queue::CommandOrder;
use super::spec::HddSpec;
use super::{Device, Service};
use ioweir_config::Complaint;

/// A disk drive without a cache of its own, or with one that serves a sequential stream and nothing else.
#[derive(Clone, Debug)]
pub struct Hdd {
    mechanics: Mechanics,
    /// By this operation's direction, then by that of the one before.
    overhead_nanos: [[u64; 2]; 2],
    interface: Interface,
    /// The least time in which the head passes a sector, anywhere.
    sector_nanos_min: u64,
    read_ahead_sectors: u64,
    write_cache: bool,
    order: CommandOrder,
    free_nanos: u64,
    before: Direction,
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

impl Hdd {
    /// The drive that `spec` describes; its platters stand at time zero as `seed` says.
    pub(super) fn new(spec: &HddSpec, seed: u64) -> Result<Self, Complaint> {
        let mechanics = Mechanics::new(spec, seed)?;
        Ok(Self {
            overhead_nanos: overhead_nanos(&spec.overhead),
            interface: Interface::new(spec),
            sector_nanos_min: mechanics.sector_nanos_min(spec),
            read_ahead_sectors: spec.read_ahead.0 / SECTOR_BYTES,
            write_cache: spec.write_cache,
            order: spec.command_order,
            free_nanos: 0,
            before: Direction::Read,
            stream: Stream {
                direction: Direction::Read,
                next: u64::MAX,
                media: 0,
                media_nanos: 0,
                media_stream_nanos: 0,
            },
            mechanics,
        })
    }

    /// Seek, wait, transfer.
    #[inline(always)]
    fn access(&mut self, start_nanos: u64, direction: Direction, extent: &Extent) -> Service {
        let overhead_nanos = self.overhead_nanos[direction as usize][self.before as usize];
        let seek_nanos = self.mechanics.seek_nanos(direction, &extent.first);
        let stream_nanos = extent.first.stream_nanos();
        let arrival_nanos = start_nanos.saturating_add(overhead_nanos + seek_nanos);
        let rotation_nanos = self.mechanics.rotation_nanos(arrival_nanos, stream_nanos);
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
        let ready_nanos = command_nanos.saturating_add(self.interface.nanos(extent.sectors()));
        let mut rotation_nanos = 0;
        let limit = self.stream.next.saturating_add(self.read_ahead_sectors).min(self.mechanics.geometry.sectors());
        if self.stopped_at(limit, start_nanos) {
            self.stream.media = limit;
            if limit < self.mechanics.geometry.sectors() {
                // There is room again: back to where it stopped, on the drive's own time.
                let stream_nanos = self.mechanics.geometry.locate(limit).stream_nanos();
                let wait_nanos = self.mechanics.rotation_nanos(command_nanos, stream_nanos);
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
        let end_nanos = self.mechanics.geometry.locate(limit - 1).stream_end_nanos();
        let along_nanos = end_nanos.saturating_sub(self.stream.media_stream_nanos);
        self.stream.media_nanos.saturating_add(along_nanos) <= time_nanos
    }

    /// A write that the cache lets stream on.
    #[inline(always)]
    fn write_on(&mut self, start_nanos: u64, extent: &Extent) -> Service {
        let overhead_nanos = self.overhead_nanos[1][self.before as usize];
        let ready_nanos = start_nanos.saturating_add(overhead_nanos + self.interface.nanos(extent.sectors()));
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

    /// A command that moves no data.
    fn command(&mut self, start_nanos: u64, dispatch: &Dispatch) -> Service {
        let direction = dispatch.operation.direction();
        let overhead_nanos = self.overhead_nanos[direction as usize][self.before as usize];
        let flushes = dispatch.operation == Operation::Flush || dispatch.flags.has(Flags::PREFLUSH);
        if flushes && self.stream.direction == Direction::Write {
            self.stream.next = u64::MAX;
        }
        let finish = Nanos(start_nanos.saturating_add(overhead_nanos));
        Service { finish, overhead_nanos, track: self.mechanics.last.cylinder, ..Service::default() }
    }
}

impl Device for Hdd {
    fn serve(&mut self, now: Nanos, dispatch: &Dispatch) -> Service {
        let start_nanos = now.0.max(self.free_nanos);
        let direction = dispatch.operation.direction();
        let extent = match dispatch.operation {
            Operation::Read | Operation::Write => {
                self.mechanics.extent(dispatch.sector, dispatch.sectors, self.stream.next)
            }
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
        self.mechanics.account(&extent, &mut service);
        self.before = direction;
        self.free_nanos = service.finish.0;
        service
    }

    fn positioning_nanos(&self, now: Nanos, dispatch: &Dispatch) -> u64 {
        let start_nanos = now.0.max(self.free_nanos);
        let direction = dispatch.operation.direction();
        let overhead_nanos = self.overhead_nanos[direction as usize][self.before as usize];
        let moves_data = matches!(dispatch.operation, Operation::Read | Operation::Write) && dispatch.sectors > 0;
        let continues = dispatch.sector == self.stream.next && direction == self.stream.direction;
        let streams = match direction {
            Direction::Read => self.read_ahead_sectors > 0,
            Direction::Write => self.write_cache && !dispatch.flags.has(Flags::FUA.with(Flags::PREFLUSH)),
        };
        if !moves_data || (continues && streams) || dispatch.sector >= self.mechanics.geometry.sectors() {
            return overhead_nanos;
        }
        let place = self.mechanics.geometry.locate(dispatch.sector);
        overhead_nanos + self.mechanics.positioning_nanos(start_nanos.saturating_add(overhead_nanos), direction, &place)
    }

    fn command_order(&self) -> CommandOrder {
        self.order
    }

    fn sectors(&self) -> u64 {
        self.mechanics.geometry.sectors()
    }

    fn tracks(&self) -> u64 {
        u64::from(self.mechanics.geometry.cylinders())
    }
}
