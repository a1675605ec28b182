//! The parameters of a drive's buffer, and their check.

use serde::{Deserialize, Serialize};

use super::super::check::{fail, times};
use super::spec::Overhead;
use ioweir_config::{Complaint, Duration, Ratio, Size, keys};

const SECTOR_BYTES: u64 = ioweir_core::SECTOR_BYTES;
const SEGMENTS_MAX: u32 = 4096;
const SEGMENT_BYTES_MAX: u64 = 1 << 36;

keys! {
    /// A drive's buffer: segments of one size, each of which holds one range of sectors. The least recently used segment is
    /// replaced first.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CacheSpec {
        /// the number of segments
        segments: u32 = required,
        /// the size of a segment
        segment_size: Size = required,
        /// how far the head reads ahead after a read, until another command needs it
        read_ahead: ReadAhead = (ReadAhead::default()),
        /// after how many reads that each continue the one before the drive begins to read ahead. Zero: after every read
        read_ahead_begins_after: u32 = (0),
        /// the most read ahead after a request; if absent, the size of a segment
        read_ahead_most: Option<Size> = absent,
        /// the least read ahead after a request, even if another command needs the head
        read_ahead_least: Size = (Size::default()),
        /// whether requested data stays in the segment, instead of making room for the read-ahead
        keep_requested: bool = (false),
        /// whether a read that is answered from the buffer makes an idle head read ahead after its segment
        read_ahead_after_hit: bool = (false),
        /// whether sectors that pass before the first requested one, on its track, are kept, too
        read_before: bool = (false),
        /// which writes complete when their data is in the buffer
        write: WriteCache = (WriteCache::default()),
        /// the most segments that hold written data
        write_segments: u32 = (0),
        /// whether written data answers reads until its segment is replaced
        read_written: bool = (false),
        /// whether a read-ahead is completed before buffered data is written
        read_ahead_before_write: bool = (false),
        /// whether a read may begin at any sector of its extent, if that lies on one track
        zero_latency_reads: bool = (false),
        /// whether a write may begin at any sector of its extent
        zero_latency_writes: bool = (false),
        /// whether data crosses the interface only when all of it is in the buffer, instead of as it arrives
        store_and_forward: bool = (false),
        /// the share of a read that has to be in the buffer before any of it crosses the interface (DiskSim's high water mark).
        /// Zero: it crosses as it arrives
        read_water_mark: Ratio = (Ratio::ZERO),
        /// the share of a segment, full of written data, that may still wait for the head when more data crosses the interface
        /// (DiskSim's low water mark). One: more crosses as soon as it has room
        write_water_mark: Ratio = (Ratio::ONE),
        /// the overhead of commands answered from the buffer: hits, and writes that complete in it
        hit_overhead: Overhead = (Overhead::default()),
        /// the overhead of every read after its data has crossed the interface
        read_completion: Duration = (Duration::default()),
    }
}

/// How far a drive reads ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAhead {
    /// The head does not read ahead.
    #[default]
    None,
    /// The head reads to the end of the track.
    Track,
    /// The head reads to the end of the next track.
    NextTrack,
    /// The head reads to the end of the track with the next sector, and to the end of one more if the segment began before that track:
    /// scheme 4 of DiskSim.
    TrackOrNext,
    /// The head reads until the segment is full.
    Segment,
}

/// Which writes complete in the buffer. Forced writes (FUA, PREFLUSH) never do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteCache {
    /// No write completes in the buffer.
    #[default]
    None,
    /// Writes that continue a write that the head has not finished.
    Contiguous,
    /// All writes that fit a segment.
    All,
}

impl CacheSpec {
    /// The number of sectors in a segment.
    pub(super) fn segment_sectors(&self) -> u64 {
        self.segment_size.0 / SECTOR_BYTES
    }

    /// The most sectors read ahead.
    pub(super) fn read_ahead_most_sectors(&self) -> u64 {
        self.read_ahead_most.unwrap_or(self.segment_size).0 / SECTOR_BYTES
    }

    /// The fewest sectors read ahead.
    pub(super) fn read_ahead_least_sectors(&self) -> u64 {
        self.read_ahead_least.0 / SECTOR_BYTES
    }

    /// The share of a read that has to be in the buffer before any of it crosses the interface, in millionths.
    pub(super) fn read_mark_millionths(&self) -> u64 {
        let mark = if self.store_and_forward { Ratio::ONE } else { self.read_water_mark };
        u64::from(mark.millionths())
    }

    /// The most sectors of a full segment that may wait for the head when more data crosses the interface.
    pub(super) fn write_mark_sectors(&self) -> u64 {
        let part = u128::from(self.segment_sectors()) * u128::from(self.write_water_mark.millionths());
        u64::try_from(part / u128::from(Ratio::ONE_MILLIONTHS)).unwrap_or(u64::MAX)
    }

    /// The cache with all defaults filled in.
    pub(super) fn resolved(&self) -> Self {
        Self { read_ahead_most: Some(self.read_ahead_most.unwrap_or(self.segment_size)), ..self.clone() }
    }

    pub(super) fn check(&self) -> Result<(), Complaint> {
        let complain = |key: &str, problem: String, hint: &str| fail(format!("hdd.cache.{key}"), problem, hint);
        if !(1..=SEGMENTS_MAX).contains(&self.segments) {
            return complain("segments", format!("is {}", self.segments), "give 1 to 4096 segments");
        }
        if !(SECTOR_BYTES..=SEGMENT_BYTES_MAX).contains(&self.segment_size.0) {
            return complain("segment_size", format!("is {}", self.segment_size), "give 512B to 64GiB");
        }
        if self.write_segments > self.segments {
            let problem = format!("is {} of {} segments", self.write_segments, self.segments);
            return complain("write_segments", problem, "give at most as many as there are segments");
        }
        if self.write != WriteCache::None && self.write_segments == 0 {
            let problem = "is 0, but writes complete in the buffer".to_owned();
            return complain("write_segments", problem, "give at least 1, or write = \"none\"");
        }
        for (key, bytes) in
            [("read_ahead_most", self.read_ahead_most.unwrap_or_default()), ("read_ahead_least", self.read_ahead_least)]
        {
            if bytes.0 > self.segment_size.0 {
                return complain(key, format!("{bytes} do not fit a segment"), "give at most segment_size");
            }
        }
        if self.store_and_forward && self.read_water_mark != Ratio::ZERO {
            let problem = "is set beside store_and_forward, which means 1.0".to_owned();
            return complain("read_water_mark", problem, "leave one of the two out");
        }
        times("hdd.cache.hit_overhead", &self.hit_overhead.times())?;
        times("hdd.cache", &[("read_completion", self.read_completion)])
    }
}
