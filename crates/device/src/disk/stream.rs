//! The buffer of one sequential stream: read-ahead, and writes that stream on.
//!
//! A read that continues the previous read is served from the read-ahead. The head has continued along the stream and filled
//! the buffer, at most `read_ahead` beyond the request. The read ends when the interface has transferred its data or when
//! the head has read its last sector, whichever is later. If the buffer was full, the head has stopped, and finds its
//! position again in the drive's own time. If the write cache is on, a write that continues the previous write streams on
//! without a wait, because the drive has its data in time. Forced (FUA) and flushing writes never do, nor does a write after
//! a flush.

use ioweir_core::{Direction, Dispatch, Nanos, SECTOR_BYTES};

use super::super::Service;
use super::mechanics::Extent;
use super::spec::HddSpec;
use super::{Buffered, Disk, is_forced};

/// The stream that a request can continue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    read_ahead_sectors: u64,
    write_cache: bool,
    direction: Direction,
    /// The sector after the last request; beyond the end of the disk if there is nothing to continue.
    next: u64,
    /// The head was at the end of the sector before this one ...
    media: u64,
    /// ... at this time ...
    media_nanos: u64,
    /// ... which is this stream position.
    media_stream_nanos: u64,
}

impl Stream {
    pub(super) fn new(spec: &HddSpec) -> Self {
        Self {
            read_ahead_sectors: spec.read_ahead.0 / SECTOR_BYTES,
            write_cache: spec.write_cache,
            direction: Direction::Read,
            next: u64::MAX,
            media: 0,
            media_nanos: 0,
            media_stream_nanos: 0,
        }
    }

    /// Records that the head is at the end of `end` at this time and stream position.
    fn reach(&mut self, end: u64, media_nanos: u64, media_stream_nanos: u64) {
        (self.media, self.media_nanos, self.media_stream_nanos) = (end, media_nanos, media_stream_nanos);
    }

    /// When the head, moving along the stream, reaches a stream position.
    fn time_nanos(&self, stream_nanos: u64) -> u64 {
        self.media_nanos.saturating_add(stream_nanos.saturating_sub(self.media_stream_nanos))
    }

    /// Whether a request that continues the stream in this direction needs no new access.
    fn streams(&self, direction: Direction, is_forced: bool) -> bool {
        match direction {
            Direction::Read => self.read_ahead_sectors > 0,
            Direction::Write => self.write_cache && !is_forced,
        }
    }
}

impl Disk<Stream> {
    /// Serves a request by seek, rotation and transfer.
    #[inline(always)]
    fn access_media(&mut self, start_nanos: u64, direction: Direction, extent: &Extent) -> Service {
        let overhead_nanos = self.overhead_nanos[direction as usize][self.before as usize];
        let access = self.access(start_nanos.saturating_add(overhead_nanos), 0, direction, extent);
        self.buffer.direction = direction;
        self.buffer.next = extent.end;
        self.buffer.reach(extent.end, access.end_nanos, extent.last.stream_end_nanos());
        Service {
            finish: Nanos(access.end_nanos),
            overhead_nanos,
            seek_nanos: access.seek_nanos,
            rotation_nanos: access.rotation_nanos,
            transfer_nanos: access.transfer_nanos,
            ..Service::default()
        }
    }

    /// Serves a read from the read-ahead.
    #[inline(always)]
    fn read_on(&mut self, start_nanos: u64, extent: &Extent) -> Service {
        let overhead_nanos = self.overhead_nanos[0][self.before as usize];
        let command_nanos = start_nanos.saturating_add(overhead_nanos);
        let ready_nanos = command_nanos.saturating_add(self.interface.nanos(Direction::Read, extent.sectors()));
        let mut rotation_nanos = 0;
        let limit =
            self.buffer.next.saturating_add(self.buffer.read_ahead_sectors).min(self.mechanics.geometry.sectors());
        if self.stopped_at(limit, start_nanos) {
            self.buffer.media = limit;
            if limit < self.mechanics.geometry.sectors() {
                // The segment has room again, so the head returns to where it stopped, in the drive's own time.
                let stream_nanos = self.mechanics.geometry.locate(limit).stream_nanos();
                let wait_nanos = self.mechanics.rotation_nanos(command_nanos, stream_nanos);
                self.buffer.reach(limit, command_nanos.saturating_add(wait_nanos), stream_nanos);
                if extent.end > limit {
                    rotation_nanos = wait_nanos;
                }
            }
        }
        let mut finish_nanos = ready_nanos;
        if extent.end > self.buffer.media {
            let stream_end_nanos = extent.last.stream_end_nanos();
            let media_nanos = self.buffer.time_nanos(stream_end_nanos);
            finish_nanos = finish_nanos.max(media_nanos);
            self.buffer.reach(extent.end, media_nanos, stream_end_nanos);
        }
        self.buffer.next = extent.end;
        let transfer_nanos = finish_nanos.saturating_sub(command_nanos.saturating_add(rotation_nanos));
        Service { finish: Nanos(finish_nanos), overhead_nanos, rotation_nanos, transfer_nanos, ..Service::default() }
    }

    /// Whether the head had filled the buffer up to `limit` and stopped there before `time_nanos`.
    fn stopped_at(&self, limit: u64, time_nanos: u64) -> bool {
        if limit <= self.buffer.media {
            return true;
        }
        // Usually the time is too short even for the sectors alone; only otherwise is the exact position computed.
        let least_nanos = (limit - self.buffer.media).saturating_mul(self.sector_nanos_min);
        if self.buffer.media_nanos.saturating_add(least_nanos) > time_nanos {
            return false;
        }
        let end_nanos = self.mechanics.geometry.locate(limit - 1).stream_end_nanos();
        self.buffer.time_nanos(end_nanos) <= time_nanos
    }

    /// Serves a write that the cache lets stream on.
    #[inline(always)]
    fn write_on(&mut self, start_nanos: u64, extent: &Extent) -> Service {
        let overhead_nanos = self.overhead_nanos[1][self.before as usize];
        let ready_nanos =
            start_nanos.saturating_add(overhead_nanos + self.interface.nanos(Direction::Write, extent.sectors()));
        let stream_end_nanos = extent.last.stream_end_nanos();
        let along_nanos = stream_end_nanos.saturating_sub(self.buffer.media_stream_nanos);
        let media_nanos = self.buffer.media_nanos.max(start_nanos).saturating_add(along_nanos);
        let finish_nanos = ready_nanos.max(media_nanos);
        self.buffer.next = extent.end;
        self.buffer.reach(extent.end, media_nanos, stream_end_nanos);
        let transfer_nanos = finish_nanos.saturating_sub(start_nanos.saturating_add(overhead_nanos));
        Service { finish: Nanos(finish_nanos), overhead_nanos, transfer_nanos, ..Service::default() }
    }
}

impl Buffered for Disk<Stream> {
    #[inline(always)]
    fn transfer(&mut self, start_nanos: u64, direction: Direction, is_forced: bool, extent: &Extent) -> Service {
        let continues = extent.sector == self.buffer.next && direction == self.buffer.direction;
        let mut service = if !continues || !self.buffer.streams(direction, is_forced) {
            self.access_media(start_nanos, direction, extent)
        } else if direction == Direction::Read {
            self.read_on(start_nanos, extent)
        } else {
            self.write_on(start_nanos, extent)
        };
        self.mechanics.account(extent, &mut service);
        service
    }

    fn flush(&mut self, command_nanos: u64) -> u64 {
        if self.buffer.direction == Direction::Write {
            self.buffer.next = u64::MAX;
        }
        command_nanos
    }

    #[inline(always)]
    fn next_sector(&self) -> u64 {
        self.buffer.next
    }

    fn answered_nanos(&self, direction: Direction, dispatch: &Dispatch) -> Option<u64> {
        let continues = dispatch.sector == self.buffer.next && direction == self.buffer.direction;
        let streams = self.buffer.streams(direction, is_forced(dispatch));
        (continues && streams).then(|| self.overhead_nanos[direction as usize][self.before as usize])
    }

    fn media_free_nanos(&self) -> u64 {
        0
    }
}
