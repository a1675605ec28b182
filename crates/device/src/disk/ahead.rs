//! Read-ahead of a segmented buffer: how far the head has read, and what happens when a command needs the head.

use ioweir_core::Direction;

use super::Disk;
use super::cache::ReadAhead;
use super::geometry::Place;
use super::mechanics::Extent;
use super::segmented::Segmented;

/// A read-ahead in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    pub(super) segment: usize,
    /// A stream position that the head passes, in the past or the future.
    stream_nanos: u64,
    /// The time when the head passes it.
    at_nanos: u64,
    /// The sector before which reading ahead stops.
    pub(super) limit: u64,
}

impl Ahead {
    /// When the head is at this stream position, which must not be before the beginning of the read-ahead.
    pub(super) fn time_nanos(&self, stream_nanos: u64) -> u64 {
        self.at_nanos.saturating_add(stream_nanos.saturating_sub(self.stream_nanos))
    }
}

impl Disk<Segmented> {
    /// Ends a read-ahead that has finished by `now_nanos`.
    pub(super) fn settle(&mut self, now_nanos: u64) {
        let Some(ahead) = self.buffer.ahead else { return };
        // Usually the time is too short even for the sectors alone; only otherwise is the exact position computed.
        let sectors = ahead.limit.saturating_sub(self.buffer.segments.get(ahead.segment).end);
        let least_nanos = sectors.saturating_mul(self.sector_nanos_min);
        if ahead.at_nanos.saturating_add(least_nanos) <= now_nanos {
            let last = self.mechanics.geometry.locate(ahead.limit - 1);
            if ahead.time_nanos(last.stream_end_nanos()) <= now_nanos {
                self.ahead_reached(&ahead, ahead.limit, last);
            }
        }
    }

    /// Stops the read-ahead, because a command at `now_nanos` needs the head.
    pub(super) fn stop_ahead(&mut self, now_nanos: u64) {
        self.settle(now_nanos);
        let Some(ahead) = self.buffer.ahead else { return };
        let begin = self.buffer.segments.get(ahead.segment).end;
        let least_sectors = self.buffer.spec.read_ahead_least_sectors();
        let mut stream_nanos = ahead.stream_nanos + now_nanos.saturating_sub(ahead.at_nanos);
        if least_sectors > 0 {
            let least = (begin + least_sectors).min(ahead.limit);
            let least_nanos = self.mechanics.geometry.locate(least - 1).stream_end_nanos();
            if least_nanos > stream_nanos {
                stream_nanos = least_nanos;
                self.buffer.media_free_nanos = self.buffer.media_free_nanos.max(ahead.time_nanos(least_nanos));
            }
        }
        let on_track =
            if self.buffer.media_end == begin { self.mechanics.last.sectors_passed(stream_nanos) } else { None };
        let end = match on_track {
            Some(sectors) => begin + sectors,
            None => self.mechanics.geometry.sectors_until(stream_nanos),
        };
        let end = end.min(ahead.limit);
        if end > begin {
            let along = if on_track.is_some() { self.mechanics.last.along_track(end - begin) } else { None };
            let last = along.unwrap_or_else(|| self.mechanics.geometry.locate(end - 1));
            self.ahead_reached(&ahead, end, last);
        }
        self.buffer.ahead = None;
    }

    pub(super) fn ahead_reached(&mut self, ahead: &Ahead, end: u64, last: Place) {
        self.buffer.segments.extend(ahead.segment, end);
        self.mechanics.last = last;
        self.buffer.media_end = end;
        self.buffer.ahead = None;
    }

    /// Starts a read-ahead after `extent`, whose end the head reaches at `at_nanos`.
    pub(super) fn read_ahead(&mut self, segment: usize, extent: &Extent, at_nanos: u64) {
        let limit = self.ahead_limit(segment, extent);
        if limit > extent.end {
            self.buffer.ahead = Some(Ahead { segment, stream_nanos: extent.last.stream_end_nanos(), at_nanos, limit });
        }
    }

    /// The sector before which a read-ahead after `extent` stops.
    pub(super) fn ahead_limit(&self, segment: usize, extent: &Extent) -> u64 {
        let capacity = self.buffer.spec.segment_sectors();
        let track_end = extent.end + extent.last.sectors_after();
        let limit = match self.buffer.spec.read_ahead {
            ReadAhead::None => extent.end,
            ReadAhead::Track => track_end,
            ReadAhead::NextTrack => track_end + extent.last.sectors_per_track(),
            ReadAhead::TrackOrNext => self.track_or_next(segment, extent),
            ReadAhead::Segment => extent.end + capacity,
        };
        let room = if self.buffer.spec.keep_requested {
            extent.sector.max(self.buffer.segments.get(segment).first)
        } else {
            extent.end
        };
        limit
            .min(extent.end + self.buffer.spec.read_ahead_most_sectors())
            .min(room + capacity)
            .min(self.mechanics.geometry.sectors())
    }

    /// The end of the track with the sector after `extent`, or of the track after that if the segment began on an earlier one.
    fn track_or_next(&self, segment: usize, extent: &Extent) -> u64 {
        let (rest, track) = (extent.last.sectors_after(), extent.last.sectors_per_track());
        let (begin, end) = match rest {
            0 => (extent.end, extent.end + track),
            _ => ((extent.end + rest).saturating_sub(track), extent.end + rest),
        };
        if self.buffer.segments.get(segment).first < begin { end + track } else { end }
    }

    /// Extends the read-ahead after a request for `extent`.
    pub(super) fn extend_ahead(&mut self, ahead: &Ahead, extent: &Extent) {
        let limit = self.ahead_limit(ahead.segment, extent).max(ahead.limit);
        self.buffer.ahead = Some(Ahead { limit, ..*ahead });
    }

    /// Sends an idle head to the end of a segment to read ahead there.
    pub(super) fn read_ahead_after(&mut self, number: usize, time_nanos: u64) {
        let segment = *self.buffer.segments.get(number);
        if segment.written || segment.end >= self.mechanics.geometry.sectors() {
            return;
        }
        let place = self.mechanics.geometry.locate(segment.end);
        let wait_nanos = self.mechanics.positioning_nanos(time_nanos, Direction::Read, &place);
        let last = self.mechanics.geometry.locate(segment.end - 1);
        let extent = Extent { sector: segment.end - 1, end: segment.end, first: last, last };
        let limit = self.ahead_limit(number, &extent);
        if limit > segment.end {
            let at_nanos = time_nanos.saturating_add(wait_nanos);
            self.buffer.ahead = Some(Ahead { segment: number, stream_nanos: place.stream_nanos(), at_nanos, limit });
        }
    }
}
