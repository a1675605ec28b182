//! Disk drives, made of mechanics, an interface and a buffer.
//!
//! A request that continues no other costs
//!
//! ```text
//! overhead + max(seek + write settle, head switch) + rotation + transfer
//! ```
//!
//! where the overhead depends on this operation and the one before, and the transfer is the distance between two stream
//! positions (see `geometry`). All times are whole nanoseconds; the angle of the platters is the time modulo one revolution.
//! Flushes, discards and requests without sectors cost command overhead; a flush also waits for buffered writes.
//!
//! There are two kinds of buffers: [`Stream`] continues one sequential stream, and is what a drive without `[hdd.cache]`
//! has; [`Segmented`] is a drive's complete buffer.

mod ahead;
pub(super) mod cache;
pub(super) mod datasheet;
pub(crate) mod geometry;
mod mechanics;
pub(crate) mod seek;
mod segmented;
mod segments;
pub(super) mod spec;
mod stream;

use ioweir_config::Complaint;
use ioweir_core::{Direction, Dispatch, Flags, Nanos, Operation};

use super::queue::CommandOrder;
use super::{Device, Model, Service};
use mechanics::{Extent, Interface, Mechanics, overhead_nanos};
use segmented::Segmented;
use spec::HddSpec;
use stream::Stream;

impl Model for HddSpec {
    fn check(&self) -> Result<(), Complaint> {
        self.with_zones()?.lay_out().map(drop)
    }

    fn resolved(&self) -> Self {
        self.resolved()
    }

    fn with_command_order(&self, command_order: CommandOrder) -> Self {
        Self { command_order, ..self.clone() }
    }

    fn rotates(&self) -> bool {
        true
    }

    /// A drive that serves commands in the order of arrival gains nothing from a second one.
    fn queue_depth(&self) -> u32 {
        match self.command_order {
            CommandOrder::Fifo => 1,
            CommandOrder::Sptf => 32,
        }
    }

    fn switched_on(&self) -> Vec<String> {
        let (reads_ahead, caches_writes) = match &self.cache {
            None => (self.read_ahead.0 > 0, self.write_cache),
            Some(cache) => (cache.read_ahead != cache::ReadAhead::None, cache.write != cache::WriteCache::None),
        };
        let reorders = self.command_order != CommandOrder::Fifo;
        let words = [(reads_ahead, "read-ahead"), (caches_writes, "write cache"), (reorders, "command queue")];
        words.into_iter().filter(|(is_on, _)| *is_on).map(|(_, word)| word.to_owned()).collect()
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Device>, Complaint> {
        let spec = &self.with_zones()?;
        Ok(match &spec.cache {
            Some(cache) => Box::new(Disk::new(spec, seed, Segmented::new(cache))?),
            None => Box::new(Disk::new(spec, seed, Stream::new(spec))?),
        })
    }
}

/// A disk drive with one kind of buffer.
#[derive(Clone, Debug)]
struct Disk<B> {
    mechanics: Mechanics,
    interface: Interface,
    /// Overhead of commands that the buffer does not answer, by the direction of this operation, then of the one before.
    overhead_nanos: [[u64; 2]; 2],
    /// The shortest time, anywhere on the disk, in which a sector passes the head.
    sector_nanos_min: u64,
    order: CommandOrder,
    /// When the last command completed.
    free_nanos: u64,
    /// The direction of the last command that moved data.
    before: Direction,
    buffer: B,
}

/// The functions in which the two buffers differ.
trait Buffered {
    /// Serves a read or a write from `start_nanos`.
    fn transfer(&mut self, start_nanos: u64, direction: Direction, is_forced: bool, extent: &Extent) -> Service;

    /// Completes a flush at `command_nanos` or later; returns the time.
    fn flush(&mut self, command_nanos: u64) -> u64;

    /// The sector after the last one transferred.
    fn next_sector(&self) -> u64;

    /// The overhead of a command that needs no access to the media; `None` if this command needs one.
    fn answered_nanos(&self, direction: Direction, dispatch: &Dispatch) -> Option<u64>;

    /// When the head has finished all reads and writes so far.
    fn media_free_nanos(&self) -> u64;
}

/// An access to the media.
struct Access {
    seek_nanos: u64,
    /// When the head arrives on the track.
    arrival_nanos: u64,
    rotation_nanos: u64,
    transfer_nanos: u64,
    end_nanos: u64,
}

impl<B> Disk<B> {
    fn new(spec: &HddSpec, seed: u64, buffer: B) -> Result<Self, Complaint> {
        let mechanics = Mechanics::new(spec, seed)?;
        Ok(Self {
            interface: Interface::new(spec),
            overhead_nanos: overhead_nanos(&spec.overhead),
            sector_nanos_min: mechanics.sector_nanos_min(spec),
            order: spec.command_order,
            free_nanos: 0,
            before: Direction::Read,
            mechanics,
            buffer,
        })
    }

    /// Seek, rotation and transfer of a head that is free at `time_nanos` and may not begin before `ready_nanos`.
    #[inline(always)]
    fn access(&self, time_nanos: u64, ready_nanos: u64, direction: Direction, extent: &Extent) -> Access {
        let seek_nanos = self.mechanics.seek_nanos(direction, &extent.first);
        let stream_nanos = extent.first.stream_nanos();
        let arrival_nanos = time_nanos.saturating_add(seek_nanos).max(ready_nanos);
        let rotation_nanos = self.mechanics.rotation_nanos(arrival_nanos, stream_nanos);
        let transfer_nanos = extent.last.stream_end_nanos() - stream_nanos;
        let end_nanos = arrival_nanos.saturating_add(rotation_nanos + transfer_nanos);
        Access { seek_nanos, arrival_nanos, rotation_nanos, transfer_nanos, end_nanos }
    }
}

impl<B: Send> Disk<B>
where
    Self: Buffered,
{
    /// Serves a command that moves no data.
    fn command(&mut self, start_nanos: u64, dispatch: &Dispatch) -> Service {
        let overhead_nanos = self.overhead_nanos[dispatch.operation.direction() as usize][self.before as usize];
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        let flushes = dispatch.operation == Operation::Flush || dispatch.flags.has(Flags::PREFLUSH);
        let finish_nanos = if flushes { self.flush(command_nanos) } else { command_nanos };
        Service {
            finish: Nanos(finish_nanos),
            overhead_nanos,
            queue_nanos: finish_nanos - command_nanos,
            track: self.mechanics.last.cylinder,
            ..Service::default()
        }
    }
}

/// Whether a write must be on the media before it completes.
fn is_forced(dispatch: &Dispatch) -> bool {
    dispatch.flags.has(Flags::FUA.with(Flags::PREFLUSH))
}

impl<B: Send> Device for Disk<B>
where
    Self: Buffered,
{
    fn serve(&mut self, now: Nanos, dispatch: &Dispatch) -> Service {
        let start_nanos = now.0.max(self.free_nanos);
        let direction = dispatch.operation.direction();
        let extent = match dispatch.operation {
            Operation::Read | Operation::Write => {
                self.mechanics.extent(dispatch.sector, dispatch.sectors, self.next_sector())
            }
            Operation::Discard | Operation::Flush => None,
        };
        let Some(extent) = extent else {
            let service = self.command(start_nanos, dispatch);
            self.free_nanos = service.finish.0;
            return service;
        };
        let service = self.transfer(start_nanos, direction, is_forced(dispatch), &extent);
        self.before = direction;
        self.free_nanos = service.finish.0;
        service
    }

    fn positioning_nanos(&self, now: Nanos, dispatch: &Dispatch) -> u64 {
        let start_nanos = now.0.max(self.free_nanos);
        let direction = dispatch.operation.direction();
        let overhead_nanos = self.overhead_nanos[direction as usize][self.before as usize];
        let moves_data = matches!(dispatch.operation, Operation::Read | Operation::Write) && dispatch.sectors > 0;
        if !moves_data || dispatch.sector >= self.mechanics.geometry.sectors() {
            return overhead_nanos;
        }
        if let Some(nanos) = self.answered_nanos(direction, dispatch) {
            return nanos;
        }
        let free_nanos = start_nanos.saturating_add(overhead_nanos).max(self.media_free_nanos());
        let place = self.mechanics.geometry.locate(dispatch.sector);
        free_nanos - start_nanos + self.mechanics.positioning_nanos(free_nanos, direction, &place)
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
