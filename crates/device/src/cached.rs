//! How long does a drive with a buffer of its own take, and what does it go on with afterwards?
//!
//! Two things run at once, and both are closed forms: the *media*, which seeks, waits and transfers as in `mechanics`, and
//! the *interface*, which passes a sector as soon as it is in the buffer (or all of them, once the last one is).
//!
//! - A read whose sectors are in the buffer costs the command and the interface. If the head is on its way to them, reading
//!   ahead, it costs what is left of that. If only the first sectors are there, they pass while the head goes for the rest.
//! - After a read from the media the head reads on. How far it has come is not stepped through: sector x is in the buffer
//!   at a time that is its stream position plus a constant, and the constant is known when the reading begins.
//! - A write that the buffer takes completes when its data has passed the interface. The head writes it from then on at the
//!   earliest, and what needs the head next waits for that. Forced writes (FUA, PREFLUSH) and flushes wait as well.

mod ahead;

use ahead::Ahead;
use ioweir_core::{Direction, Dispatch, Flags, Nanos, Operation};

use super::cache::{CacheSpec, WriteCache};
use super::mechanics::{Extent, Interface, Mechanics, overhead_nanos};
use super::queue::CommandOrder;
use super::segments::Segments;
use super::spec::HddSpec;
use super::{Device, Service};
use ioweir_config::Complaint;

/// A disk drive with a segmented buffer.
#[derive(Clone, Debug)]
pub struct CachedHdd {
    mechanics: Mechanics,
    interface: Interface,
    spec: CacheSpec,
    /// By this operation's direction, then by that of the one before.
    miss_overhead_nanos: [[u64; 2]; 2],
    hit_overhead_nanos: [[u64; 2]; 2],
    read_completion_nanos: u64,
    order: CommandOrder,
    /// The least time in which the head passes a sector, anywhere.
    sector_nanos_min: u64,
    segments: Segments,
    ahead: Option<Ahead>,
    /// From when on the head is not needed for what is asked or written any more. It may read ahead.
    media_free_nanos: u64,
    /// When the last command was done.
    free_nanos: u64,
    before: Direction,
    /// The sector after the last one that was asked for, in the direction of `before`.
    request_end: u64,
    /// The sector after the one that the head transferred last.
    media_end: u64,
}

/// What the media does for a request.
struct Access {
    seek_nanos: u64,
    rotation_nanos: u64,
    /// The first sector begins to pass.
    begin_nanos: u64,
    /// All sectors have passed.
    end_nanos: u64,
    /// When the head is at the end of the last sector: later than the end where it began within the extent.
    at_nanos: u64,
    /// Sectors in front of the first one that have passed on its track.
    passed_before: u64,
}

impl CachedHdd {
    /// The drive that `spec` describes; its platters stand at time zero as `seed` says.
    pub(super) fn new(spec: &HddSpec, seed: u64) -> Result<Self, Complaint> {
        let missing = || Complaint::new("hdd.cache", "is missing", "");
        let cache = spec.cache.clone().ok_or_else(missing)?;
        let mechanics = Mechanics::new(spec, seed)?;
        Ok(Self {
            sector_nanos_min: mechanics.sector_nanos_min(spec),
            mechanics,
            interface: Interface::new(spec),
            miss_overhead_nanos: overhead_nanos(&spec.overhead),
            hit_overhead_nanos: overhead_nanos(&cache.hit_overhead),
            read_completion_nanos: cache.read_completion.nanos().0,
            order: spec.command_order,
            segments: Segments::new(cache.segments, cache.segment_sectors()),
            ahead: None,
            media_free_nanos: 0,
            free_nanos: 0,
            before: Direction::Read,
            request_end: u64::MAX,
            media_end: u64::MAX,
            spec: cache,
        })
    }

    /// Seek, wait, transfer, for a head that is free.
    fn access(&self, time_nanos: u64, ready_nanos: u64, direction: Direction, extent: &Extent) -> Access {
        let seek_nanos = self.mechanics.seek_nanos(direction, &extent.first);
        let arrival_nanos = time_nanos.saturating_add(seek_nanos).max(ready_nanos);
        let stream_nanos = extent.first.stream_nanos();
        let mut rotation_nanos = self.mechanics.rotation_nanos(arrival_nanos, stream_nanos);
        let transfer_nanos = extent.last.stream_end_nanos() - stream_nanos;
        let at_nanos = arrival_nanos.saturating_add(rotation_nanos + transfer_nanos);
        let mut end_nanos = at_nanos;
        let mut passed_before = rotation_nanos;
        let revolution_nanos = self.mechanics.revolution_nanos();
        let zero_latency = match direction {
            Direction::Read => self.spec.zero_latency_reads,
            Direction::Write => self.spec.zero_latency_writes,
        };
        if zero_latency
            && rotation_nanos + transfer_nanos > revolution_nanos
            && extent.first.track() == extent.last.track()
        {
            end_nanos = arrival_nanos.saturating_add(revolution_nanos);
            rotation_nanos = 0;
            passed_before = revolution_nanos;
        }
        Access {
            seek_nanos: arrival_nanos - time_nanos,
            rotation_nanos,
            begin_nanos: arrival_nanos.saturating_add(rotation_nanos),
            end_nanos,
            at_nanos,
            passed_before: if self.spec.read_before { extent.first.sectors_before(passed_before) } else { 0 },
        }
    }

    /// When `extent` has passed the interface, given when its first and last sectors are in the buffer.
    fn passed_nanos(&self, first_nanos: u64, last_nanos: u64, sectors: u64) -> u64 {
        if self.spec.store_and_forward {
            return first_nanos.max(last_nanos).saturating_add(self.interface.nanos(sectors));
        }
        let all_nanos = first_nanos.saturating_add(self.interface.nanos(sectors));
        all_nanos.max(last_nanos.saturating_add(self.interface.nanos(1)))
    }

    /// Whether a request at `sector` continues the one before.
    fn continues(&self, direction: Direction, sector: u64) -> bool {
        direction == self.before && sector == self.request_end
    }

    fn read(&mut self, start_nanos: u64, extent: &Extent) -> Service {
        self.settle(start_nanos);
        let hit_nanos = self.hit_overhead_nanos[0][self.before as usize];
        if let Some(ahead) = self.ahead
            && let held = *self.segments.get(ahead.segment)
            && held.first <= extent.sector
            && extent.sector < ahead.limit
            && extent.end > held.end
            && ahead.time_nanos(extent.first.stream_nanos()) <= start_nanos
        {
            return self.read_along(start_nanos, hit_nanos, &ahead, extent);
        }
        let found = self.segments.find(extent.sector, self.spec.read_written);
        if let Some(number) = found
            && extent.end <= self.segments.get(number).end
        {
            return self.read_hit(start_nanos, hit_nanos, number, extent);
        }
        self.read_media(start_nanos, found, extent)
    }

    /// A segment answers a read of `sector` and what follows.
    fn use_for_read(&mut self, number: usize, sector: u64) {
        self.segments.touch(number);
        if !self.spec.keep_requested && !self.segments.get(number).written {
            self.segments.pass(number, sector);
        }
    }

    /// All of it is in the buffer.
    fn read_hit(&mut self, start_nanos: u64, overhead_nanos: u64, number: usize, extent: &Extent) -> Service {
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        let finish_nanos = self.passed_nanos(command_nanos, command_nanos, extent.sectors());
        self.use_for_read(number, extent.sector);
        match self.ahead {
            Some(ahead) if ahead.segment == number => self.go_on(&ahead, extent),
            None if self.spec.read_ahead_after_hit && self.media_free_nanos <= start_nanos => {
                self.read_behind(number, command_nanos);
            }
            _ => {}
        }
        hit(start_nanos, overhead_nanos, finish_nanos, self.mechanics.last.cylinder)
    }

    /// The head is reading it, or has read some of it, ahead of being asked.
    fn read_along(&mut self, start_nanos: u64, overhead_nanos: u64, ahead: &Ahead, extent: &Extent) -> Service {
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        let media_nanos = ahead.time_nanos(extent.last.stream_end_nanos());
        let finish_nanos = self.passed_nanos(command_nanos, media_nanos, extent.sectors());
        self.use_for_read(ahead.segment, extent.sector);
        self.segments.extend(ahead.segment, extent.end);
        self.mechanics.last = extent.last;
        self.media_end = extent.end;
        self.media_free_nanos = self.media_free_nanos.max(media_nanos);
        self.ahead = None;
        self.read_ahead(ahead.segment, extent, media_nanos);
        hit(start_nanos, overhead_nanos, finish_nanos, extent.first.cylinder)
    }

    /// Some of it must come from the media: all, or what is behind the end of the segment that was found.
    fn read_media(&mut self, start_nanos: u64, found: Option<usize>, extent: &Extent) -> Service {
        self.stop_ahead(start_nanos);
        let overhead_nanos = self.miss_overhead_nanos[0][self.before as usize];
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        if let Some(number) = found.filter(|&number| self.segments.get(number).end >= extent.end) {
            // The head has to bring so much in before it stops that this is among it.
            let finish_nanos = self.passed_nanos(command_nanos, self.media_free_nanos, extent.sectors());
            self.use_for_read(number, extent.sector);
            return hit(start_nanos, overhead_nanos, finish_nanos, self.mechanics.last.cylinder);
        }
        let (number, ready_nanos) = match found {
            Some(number) => (number, command_nanos),
            None => self.segments.victim(command_nanos, false, self.spec.write_segments),
        };
        let mut rest = Extent { ..*extent };
        if found.is_some() {
            rest.sector = self.segments.get(number).end;
            rest.first = self.mechanics.geometry.locate(rest.sector);
        }
        let free_nanos = ready_nanos.max(self.media_free_nanos);
        let access = self.access(free_nanos, 0, Direction::Read, &rest);
        let first_nanos = if found.is_some() { command_nanos } else { access.begin_nanos };
        let finish_nanos = self.passed_nanos(first_nanos, access.end_nanos, extent.sectors());
        if found.is_some() {
            self.use_for_read(number, extent.sector);
            self.segments.extend(number, extent.end);
        } else {
            self.segments.fill(number, extent.sector - access.passed_before, extent.end, false);
        }
        self.media_free_nanos = access.end_nanos;
        self.media_end = extent.end;
        let mut service = Service {
            finish: Nanos(finish_nanos),
            overhead_nanos,
            seek_nanos: access.seek_nanos,
            queue_nanos: free_nanos - command_nanos,
            rotation_nanos: access.rotation_nanos,
            transfer_nanos: finish_nanos.saturating_sub(access.begin_nanos),
            ..Service::default()
        };
        self.mechanics.account(&rest, &mut service);
        self.read_ahead(number, extent, access.at_nanos);
        service
    }

    fn write(&mut self, start_nanos: u64, extent: &Extent, forced: bool) -> Service {
        let contiguous = self.continues(Direction::Write, extent.sector);
        let fits = extent.sectors() <= self.spec.segment_sectors();
        let buffered = fits
            && !forced
            && match self.spec.write {
                WriteCache::None => false,
                WriteCache::Contiguous => contiguous && self.media_free_nanos > start_nanos,
                WriteCache::All => true,
            };
        match self.ahead {
            Some(ahead) if buffered && self.spec.read_ahead_before_write => {
                let last = self.mechanics.geometry.locate(ahead.limit - 1);
                self.media_free_nanos = self.media_free_nanos.max(ahead.time_nanos(last.stream_end_nanos()));
                self.ahead_reached(&ahead, ahead.limit, last);
            }
            _ => self.stop_ahead(start_nanos),
        }
        if buffered {
            self.write_buffered(start_nanos, contiguous, extent)
        } else {
            self.write_through(start_nanos, extent)
        }
    }

    /// The segment that takes what is written, and when it can.
    fn write_segment(&mut self, time_nanos: u64, contiguous: bool, extent: &Extent) -> (usize, u64) {
        let before = if contiguous { self.segments.find_written_before(extent.sector) } else { None };
        self.segments.forget(extent.sector, extent.end);
        if let Some(number) = before {
            let time_nanos = self.room_nanos(number, time_nanos, extent);
            self.segments.extend(number, extent.end);
            self.segments.touch(number);
            return (number, time_nanos);
        }
        let (number, ready_nanos) = self.segments.victim(time_nanos, true, self.spec.write_segments);
        self.segments.fill(number, extent.sector, extent.end, true);
        (number, ready_nanos)
    }

    /// From when on the segment has room for `extent` behind what it holds: when so much of that is on the platters.
    fn room_nanos(&self, number: usize, time_nanos: u64, extent: &Extent) -> u64 {
        let needed = extent.end.saturating_sub(self.spec.segment_sectors());
        if needed <= self.segments.get(number).first || self.media_end != extent.sector {
            return time_nanos;
        }
        // The head writes it in one go, and will be at its end when it is free.
        let end_nanos = self.mechanics.last.stream_end_nanos();
        let behind_nanos = end_nanos.saturating_sub(self.mechanics.geometry.locate(needed).stream_nanos());
        self.media_free_nanos.saturating_sub(behind_nanos).max(time_nanos)
    }

    /// Into the buffer; the head follows.
    fn write_buffered(&mut self, start_nanos: u64, contiguous: bool, extent: &Extent) -> Service {
        let overhead_nanos = self.hit_overhead_nanos[1][self.before as usize];
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        let (number, ready_nanos) = self.write_segment(command_nanos, contiguous, extent);
        let finish_nanos = ready_nanos.saturating_add(self.interface.nanos(extent.sectors()));
        let streams = self.media_end == extent.sector && self.media_free_nanos >= ready_nanos;
        let media_nanos = if streams {
            let along_nanos = extent.last.stream_end_nanos() - self.mechanics.last.stream_end_nanos();
            self.media_free_nanos.saturating_add(along_nanos)
        } else {
            let free_nanos = ready_nanos.max(self.media_free_nanos);
            self.access(free_nanos, 0, Direction::Write, extent).end_nanos
        };
        self.media_free_nanos = media_nanos.max(finish_nanos);
        self.media_end = extent.end;
        self.segments.dirty(number, self.media_free_nanos);
        let mut service = Service {
            finish: Nanos(finish_nanos),
            overhead_nanos,
            queue_nanos: ready_nanos - command_nanos,
            transfer_nanos: finish_nanos - ready_nanos,
            ..Service::default()
        };
        self.mechanics.account(extent, &mut service);
        service
    }

    /// Onto the platters before it completes.
    fn write_through(&mut self, start_nanos: u64, extent: &Extent) -> Service {
        let overhead_nanos = self.miss_overhead_nanos[1][self.before as usize];
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        let free_nanos = command_nanos.max(self.media_free_nanos);
        let sectors = extent.sectors();
        // The head may begin when what it writes is there, or will be in time.
        let transfer_nanos = extent.last.stream_end_nanos() - extent.first.stream_nanos();
        let early_nanos = if self.spec.store_and_forward { 0 } else { transfer_nanos };
        let passed_nanos = self.interface.nanos(sectors).saturating_sub(early_nanos).max(self.interface.nanos(1));
        let access = self.access(free_nanos, command_nanos.saturating_add(passed_nanos), Direction::Write, extent);
        if self.spec.read_written && self.spec.write_segments > 0 {
            self.write_segment(command_nanos, false, extent);
        } else {
            self.segments.forget(extent.sector, extent.end);
        }
        self.media_free_nanos = access.end_nanos;
        self.media_end = extent.end;
        let mut service = Service {
            finish: Nanos(access.end_nanos),
            overhead_nanos,
            seek_nanos: access.seek_nanos,
            queue_nanos: free_nanos - command_nanos,
            rotation_nanos: access.rotation_nanos,
            transfer_nanos: access.end_nanos.saturating_sub(access.begin_nanos),
            ..Service::default()
        };
        self.mechanics.account(extent, &mut service);
        service
    }

    /// A command that moves no data; a flush waits until what is buffered is on the platters.
    fn command(&self, start_nanos: u64, dispatch: &Dispatch) -> Service {
        let overhead_nanos = self.miss_overhead_nanos[dispatch.operation.direction() as usize][self.before as usize];
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        let flushes = dispatch.operation == Operation::Flush || dispatch.flags.has(Flags::PREFLUSH);
        let finish_nanos = if flushes { command_nanos.max(self.media_free_nanos) } else { command_nanos };
        let track = self.mechanics.last.cylinder;
        let queue_nanos = finish_nanos - command_nanos;
        Service { finish: Nanos(finish_nanos), overhead_nanos, queue_nanos, track, ..Service::default() }
    }
}

/// A request that needs no movement of the head.
fn hit(start_nanos: u64, overhead_nanos: u64, finish_nanos: u64, track: u32) -> Service {
    let transfer_nanos = finish_nanos.saturating_sub(start_nanos.saturating_add(overhead_nanos));
    Service { finish: Nanos(finish_nanos), overhead_nanos, transfer_nanos, track, ..Service::default() }
}

impl Device for CachedHdd {
    fn serve(&mut self, now: Nanos, dispatch: &Dispatch) -> Service {
        let start_nanos = now.0.max(self.free_nanos);
        let extent = match dispatch.operation {
            Operation::Read | Operation::Write => {
                self.mechanics.extent(dispatch.sector, dispatch.sectors, self.media_end)
            }
            Operation::Discard | Operation::Flush => None,
        };
        let Some(extent) = extent else {
            let service = self.command(start_nanos, dispatch);
            self.free_nanos = service.finish.0;
            return service;
        };
        let forced = dispatch.flags.has(Flags::FUA.with(Flags::PREFLUSH));
        let service = match dispatch.operation.direction() {
            Direction::Read => {
                let service = self.read(start_nanos, &extent);
                let finish = Nanos(service.finish.0.saturating_add(self.read_completion_nanos));
                Service { finish, overhead_nanos: service.overhead_nanos + self.read_completion_nanos, ..service }
            }
            Direction::Write => self.write(start_nanos, &extent, forced),
        };
        self.before = dispatch.operation.direction();
        self.request_end = extent.end;
        self.free_nanos = service.finish.0;
        service
    }

    fn positioning_nanos(&self, now: Nanos, dispatch: &Dispatch) -> u64 {
        let start_nanos = now.0.max(self.free_nanos);
        let direction = dispatch.operation.direction();
        let before = self.before as usize;
        let moves_data = matches!(dispatch.operation, Operation::Read | Operation::Write) && dispatch.sectors > 0;
        if !moves_data || dispatch.sector >= self.mechanics.geometry.sectors() {
            return self.miss_overhead_nanos[direction as usize][before];
        }
        let buffered = match direction {
            Direction::Read => self.segments.find(dispatch.sector, self.spec.read_written).is_some(),
            Direction::Write => {
                self.spec.write == WriteCache::All && !dispatch.flags.has(Flags::FUA.with(Flags::PREFLUSH))
            }
        };
        if buffered {
            return self.hit_overhead_nanos[direction as usize][before];
        }
        let overhead_nanos = self.miss_overhead_nanos[direction as usize][before];
        let free_nanos = start_nanos.saturating_add(overhead_nanos).max(self.media_free_nanos);
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
