//! The segmented buffer of a disk drive.
//!
//! Two activities overlap, and both are closed forms: the *media* seeks, rotates and transfers as in `mechanics`, and the
//! *interface* transfers each sector as soon as it is in the buffer (or all of them once the last one is).
//!
//! - A read whose sectors are in the buffer costs the command and the interface. If the head is reading ahead towards them,
//!   it also waits until the head has read them. If only the first sectors are in the buffer, they cross the interface while
//!   the head fetches the rest.
//! - After a read from the media the head reads ahead. Its progress is not simulated step by step: sector x is in the buffer
//!   at its stream position plus a constant, which is known when the read-ahead begins.
//! - A buffered write completes when its data has crossed the interface. The head begins to write it then or later, and the
//!   next access to the media waits for that. Forced writes (FUA, PREFLUSH) and flushes wait as well.

use ioweir_config::Ratio;
use ioweir_core::{Direction, Dispatch, Nanos};

use super::super::Service;
use super::ahead::Ahead;
use super::cache::{CacheSpec, WriteCache};
use super::mechanics::{Extent, overhead_nanos};
use super::segments::Segments;
use super::{Buffered, Disk, is_forced};

/// A drive's buffer of several segments.
#[derive(Clone, Debug)]
pub(super) struct Segmented {
    pub(super) spec: CacheSpec,
    /// The overhead of commands that the buffer answers.
    hit_overhead_nanos: [[u64; 2]; 2],
    read_completion_nanos: u64,
    read_mark_millionths: u64,
    write_mark_sectors: u64,
    pub(super) segments: Segments,
    pub(super) ahead: Option<Ahead>,
    /// When the head has finished all requested reads and writes. It may still read ahead.
    pub(super) media_free_nanos: u64,
    /// How many reads in a row have continued the one before.
    sequential_reads: u32,
    /// The sector after the last request, in the direction of the disk's `before`.
    request_end: u64,
    /// The sector after the last one that the head transferred.
    pub(super) media_end: u64,
}

impl Segmented {
    pub(super) fn new(spec: &CacheSpec) -> Self {
        Self {
            hit_overhead_nanos: overhead_nanos(&spec.hit_overhead),
            read_completion_nanos: spec.read_completion.nanos().0,
            read_mark_millionths: spec.read_mark_millionths(),
            write_mark_sectors: spec.write_mark_sectors(),
            segments: Segments::new(spec.segments, spec.segment_sectors()),
            ahead: None,
            media_free_nanos: 0,
            sequential_reads: 0,
            request_end: u64::MAX,
            media_end: u64::MAX,
            spec: spec.clone(),
        }
    }
}

/// An access to the media, with the details that the buffer needs.
struct Access {
    seek_nanos: u64,
    rotation_nanos: u64,
    /// When the first sector begins to pass the head.
    begin_nanos: u64,
    /// When all sectors have passed the head.
    end_nanos: u64,
    /// When the head is at the end of the last sector; after `end_nanos` if it began within the extent.
    at_nanos: u64,
    /// How many sectors before the first one have passed on its track.
    passed_before: u64,
}

impl Disk<Segmented> {
    /// An access that may begin anywhere in the extent, if the drive can do that.
    fn access_media(&self, time_nanos: u64, ready_nanos: u64, direction: Direction, extent: &Extent) -> Access {
        let access = self.access(time_nanos, ready_nanos, direction, extent);
        let revolution_nanos = self.mechanics.revolution_nanos();
        let may_begin_within = match direction {
            Direction::Read => self.buffer.spec.zero_latency_reads,
            Direction::Write => self.buffer.spec.zero_latency_writes,
        };
        let begins_within = may_begin_within
            && access.rotation_nanos + access.transfer_nanos > revolution_nanos
            && extent.first.track() == extent.last.track();
        let (rotation_nanos, passed_nanos, end_nanos) = if begins_within {
            (0, revolution_nanos, access.arrival_nanos.saturating_add(revolution_nanos))
        } else {
            (access.rotation_nanos, access.rotation_nanos, access.end_nanos)
        };
        Access {
            seek_nanos: access.arrival_nanos - time_nanos,
            rotation_nanos,
            begin_nanos: access.arrival_nanos.saturating_add(rotation_nanos),
            end_nanos,
            at_nanos: access.end_nanos,
            passed_before: if self.buffer.spec.read_before { extent.first.sectors_before(passed_nanos) } else { 0 },
        }
    }

    /// When `sectors` have crossed the interface, given when the first and the last of them are in the buffer.
    fn read_passed_nanos(&self, first_nanos: u64, last_nanos: u64, sectors: u64) -> u64 {
        // The sectors arrive evenly; those that were in the buffer before count as the first.
        let arriving =
            u128::from(last_nanos.saturating_sub(first_nanos)) * u128::from(self.buffer.read_mark_millionths);
        let wait_nanos = u64::try_from(arriving / u128::from(Ratio::ONE_MILLIONTHS)).unwrap_or(u64::MAX);
        let all_nanos =
            first_nanos.saturating_add(wait_nanos).saturating_add(self.interface.nanos(Direction::Read, sectors));
        all_nanos.max(last_nanos.saturating_add(self.interface.nanos(Direction::Read, 1)))
    }

    /// When the data of a write is in the buffer, or near enough for a head that takes it `early_nanos` later.
    fn interface_write_nanos(&self, sectors: u64, early_nanos: u64) -> u64 {
        let nanos = |sectors: u64| self.interface.nanos(Direction::Write, sectors);
        nanos(sectors).saturating_sub(early_nanos).max(nanos(1))
    }

    /// Whether a request at `sector` continues the previous one.
    fn continues(&self, direction: Direction, sector: u64) -> bool {
        direction == self.before && sector == self.buffer.request_end
    }

    fn read(&mut self, start_nanos: u64, extent: &Extent) -> Service {
        self.settle(start_nanos);
        let continues = self.continues(Direction::Read, extent.sector);
        self.buffer.sequential_reads = if continues { self.buffer.sequential_reads.saturating_add(1) } else { 0 };
        let hit_nanos = self.buffer.hit_overhead_nanos[0][self.before as usize];
        if let Some(ahead) = self.buffer.ahead
            && let held = *self.buffer.segments.get(ahead.segment)
            && held.first <= extent.sector
            && extent.sector < ahead.limit
            && extent.end > held.end
            && ahead.time_nanos(extent.first.stream_nanos()) <= start_nanos
        {
            return self.read_along(start_nanos, hit_nanos, &ahead, extent);
        }
        let found = self.buffer.segments.find(extent.sector, self.buffer.spec.read_written);
        if let Some(number) = found
            && extent.end <= self.buffer.segments.get(number).end
        {
            return self.read_hit(start_nanos, hit_nanos, number, extent);
        }
        self.read_media(start_nanos, found, extent)
    }

    /// Prepares a segment for a read of `sector` and those after it.
    fn use_for_read(&mut self, number: usize, sector: u64) {
        self.buffer.segments.touch(number);
        if !self.buffer.spec.keep_requested && !self.buffer.segments.get(number).written {
            self.buffer.segments.pass(number, sector);
        }
    }

    /// Serves a read that is entirely in the buffer.
    fn read_hit(&mut self, start_nanos: u64, overhead_nanos: u64, number: usize, extent: &Extent) -> Service {
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        let finish_nanos = self.read_passed_nanos(command_nanos, command_nanos, extent.sectors());
        self.use_for_read(number, extent.sector);
        match self.buffer.ahead {
            Some(ahead) if ahead.segment == number => self.extend_ahead(&ahead, extent),
            None if self.buffer.spec.read_ahead_after_hit && self.buffer.media_free_nanos <= start_nanos => {
                self.read_ahead_after(number, command_nanos);
            }
            _ => {}
        }
        hit(start_nanos, overhead_nanos, finish_nanos, self.mechanics.last.cylinder)
    }

    /// Serves a read that the head is reading ahead, or has read in part.
    fn read_along(&mut self, start_nanos: u64, overhead_nanos: u64, ahead: &Ahead, extent: &Extent) -> Service {
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        let media_nanos = ahead.time_nanos(extent.last.stream_end_nanos());
        let finish_nanos = self.read_passed_nanos(command_nanos, media_nanos, extent.sectors());
        self.use_for_read(ahead.segment, extent.sector);
        self.buffer.segments.extend(ahead.segment, extent.end);
        self.mechanics.last = extent.last;
        self.buffer.media_end = extent.end;
        self.buffer.media_free_nanos = self.buffer.media_free_nanos.max(media_nanos);
        self.buffer.ahead = None;
        self.read_ahead(ahead.segment, extent, media_nanos);
        hit(start_nanos, overhead_nanos, finish_nanos, extent.first.cylinder)
    }

    /// Serves a read from the media: the whole read, or its part after the end of the segment found.
    fn read_media(&mut self, start_nanos: u64, found: Option<usize>, extent: &Extent) -> Service {
        self.stop_ahead(start_nanos);
        let overhead_nanos = self.overhead_nanos[0][self.before as usize];
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        if let Some(number) = found.filter(|&number| self.buffer.segments.get(number).end >= extent.end) {
            // The head must read up to here before it stops.
            let finish_nanos = self.read_passed_nanos(command_nanos, self.buffer.media_free_nanos, extent.sectors());
            self.use_for_read(number, extent.sector);
            return hit(start_nanos, overhead_nanos, finish_nanos, self.mechanics.last.cylinder);
        }
        let (number, ready_nanos) = match found {
            Some(number) => (number, command_nanos),
            None => self.buffer.segments.victim(command_nanos, false, self.buffer.spec.write_segments),
        };
        let mut rest = Extent { ..*extent };
        if found.is_some() {
            rest.sector = self.buffer.segments.get(number).end;
            rest.first = self.mechanics.geometry.locate(rest.sector);
        }
        let free_nanos = ready_nanos.max(self.buffer.media_free_nanos);
        let access = self.access_media(free_nanos, 0, Direction::Read, &rest);
        let first_nanos = if found.is_some() { command_nanos } else { access.begin_nanos };
        let finish_nanos = self.read_passed_nanos(first_nanos, access.end_nanos, extent.sectors());
        if found.is_some() {
            self.use_for_read(number, extent.sector);
            self.buffer.segments.extend(number, extent.end);
        } else {
            self.buffer.segments.fill(number, extent.sector - access.passed_before, extent.end, false);
        }
        self.buffer.media_free_nanos = access.end_nanos;
        self.buffer.media_end = extent.end;
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
        if self.buffer.sequential_reads >= self.buffer.spec.read_ahead_begins_after {
            self.read_ahead(number, extent, access.at_nanos);
        }
        service
    }

    fn write(&mut self, start_nanos: u64, extent: &Extent, forced: bool) -> Service {
        let contiguous = self.continues(Direction::Write, extent.sector);
        let fits = extent.sectors() <= self.buffer.spec.segment_sectors();
        let buffered = fits
            && !forced
            && match self.buffer.spec.write {
                WriteCache::None => false,
                WriteCache::Contiguous => contiguous && self.buffer.media_free_nanos > start_nanos,
                WriteCache::All => true,
            };
        match self.buffer.ahead {
            Some(ahead) if buffered && self.buffer.spec.read_ahead_before_write => {
                let last = self.mechanics.geometry.locate(ahead.limit - 1);
                self.buffer.media_free_nanos =
                    self.buffer.media_free_nanos.max(ahead.time_nanos(last.stream_end_nanos()));
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

    /// The segment for written data, and the time when it has room.
    fn write_segment(&mut self, time_nanos: u64, contiguous: bool, extent: &Extent) -> (usize, u64) {
        let before = if contiguous { self.buffer.segments.find_written_before(extent.sector) } else { None };
        self.buffer.segments.forget(extent.sector, extent.end);
        if let Some(number) = before {
            let time_nanos = self.room_nanos(number, time_nanos, extent);
            self.buffer.segments.extend(number, extent.end);
            self.buffer.segments.touch(number);
            return (number, time_nanos);
        }
        let (number, ready_nanos) = self.buffer.segments.victim(time_nanos, true, self.buffer.spec.write_segments);
        self.buffer.segments.fill(number, extent.sector, extent.end, true);
        (number, ready_nanos)
    }

    /// When the segment has room for `extent` after its present data, that is, when enough of that is on the media.
    fn room_nanos(&self, number: usize, time_nanos: u64, extent: &Extent) -> u64 {
        let needed = extent.end.saturating_sub(self.buffer.spec.segment_sectors());
        if needed <= self.buffer.segments.get(number).first || self.buffer.media_end != extent.sector {
            return time_nanos;
        }
        // The head writes this data in one piece, and is at its end when it becomes free.
        let end_nanos = self.mechanics.last.stream_end_nanos();
        let passed_nanos = |sector: u64| {
            let after_nanos = end_nanos.saturating_sub(self.mechanics.geometry.locate(sector).stream_nanos());
            self.buffer.media_free_nanos.saturating_sub(after_nanos).max(time_nanos)
        };
        match passed_nanos(needed) {
            room_nanos if room_nanos > time_nanos => {
                passed_nanos(needed.max(extent.sector.saturating_sub(self.buffer.write_mark_sectors)))
            }
            room_nanos => room_nanos,
        }
    }

    /// Writes into the buffer; the head writes the data to the media later.
    fn write_buffered(&mut self, start_nanos: u64, contiguous: bool, extent: &Extent) -> Service {
        let overhead_nanos = self.buffer.hit_overhead_nanos[1][self.before as usize];
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        let (number, ready_nanos) = self.write_segment(command_nanos, contiguous, extent);
        let finish_nanos = ready_nanos.saturating_add(self.interface.nanos(Direction::Write, extent.sectors()));
        let streams = self.buffer.media_end == extent.sector && self.buffer.media_free_nanos >= ready_nanos;
        let media_nanos = if streams {
            let along_nanos = extent.last.stream_end_nanos() - self.mechanics.last.stream_end_nanos();
            self.buffer.media_free_nanos.saturating_add(along_nanos)
        } else {
            let free_nanos = ready_nanos.max(self.buffer.media_free_nanos);
            self.access_media(free_nanos, 0, Direction::Write, extent).end_nanos
        };
        self.buffer.media_free_nanos = media_nanos.max(finish_nanos);
        self.buffer.media_end = extent.end;
        self.buffer.segments.dirty(number, self.buffer.media_free_nanos);
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

    /// Writes to the media.
    fn write_through(&mut self, start_nanos: u64, extent: &Extent) -> Service {
        let overhead_nanos = self.overhead_nanos[1][self.before as usize];
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        let free_nanos = command_nanos.max(self.buffer.media_free_nanos);
        let sectors = extent.sectors();
        // The head may begin when the data is in the buffer, or will be there in time.
        let transfer_nanos = extent.last.stream_end_nanos() - extent.first.stream_nanos();
        let early_nanos = if self.buffer.spec.store_and_forward { 0 } else { transfer_nanos };
        let passed_nanos = self.interface_write_nanos(sectors, early_nanos);
        let access =
            self.access_media(free_nanos, command_nanos.saturating_add(passed_nanos), Direction::Write, extent);
        if self.buffer.spec.read_written && self.buffer.spec.write_segments > 0 {
            self.write_segment(command_nanos, false, extent);
        } else {
            self.buffer.segments.forget(extent.sector, extent.end);
        }
        self.buffer.media_free_nanos = access.end_nanos;
        self.buffer.media_end = extent.end;
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
}

/// The service of a request that needs no head movement.
fn hit(start_nanos: u64, overhead_nanos: u64, finish_nanos: u64, track: u32) -> Service {
    let transfer_nanos = finish_nanos.saturating_sub(start_nanos.saturating_add(overhead_nanos));
    Service { finish: Nanos(finish_nanos), overhead_nanos, transfer_nanos, track, ..Service::default() }
}

impl Buffered for Disk<Segmented> {
    fn transfer(&mut self, start_nanos: u64, direction: Direction, is_forced: bool, extent: &Extent) -> Service {
        let service = match direction {
            Direction::Read => {
                let service = self.read(start_nanos, extent);
                let completion_nanos = self.buffer.read_completion_nanos;
                let finish = Nanos(service.finish.0.saturating_add(completion_nanos));
                Service { finish, overhead_nanos: service.overhead_nanos + completion_nanos, ..service }
            }
            Direction::Write => self.write(start_nanos, extent, is_forced),
        };
        self.buffer.request_end = extent.end;
        service
    }

    fn flush(&mut self, command_nanos: u64) -> u64 {
        command_nanos.max(self.buffer.media_free_nanos)
    }

    fn next_sector(&self) -> u64 {
        self.buffer.media_end
    }

    fn answered_nanos(&self, direction: Direction, dispatch: &Dispatch) -> Option<u64> {
        let is_answered = match direction {
            Direction::Read => self.buffer.segments.find(dispatch.sector, self.buffer.spec.read_written).is_some(),
            Direction::Write => self.buffer.spec.write == WriteCache::All && !is_forced(dispatch),
        };
        is_answered.then(|| self.buffer.hit_overhead_nanos[direction as usize][self.before as usize])
    }

    fn media_free_nanos(&self) -> u64 {
        self.buffer.media_free_nanos
    }
}
