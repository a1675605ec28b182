//! Series counted from a block trace: requests and bytes of each kind, and the share of writes to new blocks.

use std::collections::BTreeSet;

use ioweir_core::Operation;

use super::{Losses, Series};
use ioweir_lab::run::{Progress, tell};
use ioweir_trace::{Position, TraceError, TraceSource};

/// The most bins of a trace.
const BINS_MAX: usize = 1 << 22;
/// The block size for detecting overwrites.
const BLOCK_BYTES: u64 = 4096;
/// The most blocks kept; beyond that only every second, fourth, ... block is sampled.
const BLOCKS_MAX: usize = 1 << 20;

/// The counts of a bin.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    requests: [u64; 3],
    bytes: [u64; 3],
    blocks_written: u64,
    blocks_new: u64,
}

/// The series of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Requests a second: read, write, unmap.
    pub requests: [Series; 3],
    /// Bytes a second: read, write, unmap.
    pub bytes: [Series; 3],
    /// The share of written blocks that the trace had not written before; a gap if nothing was written.
    pub unique_ratio: Series,
}

/// Counts a trace in bins of `bin_seconds`. A bin without requests is idle, not a gap, because a trace is complete. The last
/// bin, which the trace may not fill, is left out unless it is the only one.
///
/// # Errors
/// [`TraceError`] if the trace cannot be read or has too many bins, or the work is stopped.
pub fn series_of_trace(
    source: &mut dyn TraceSource,
    bin_seconds: u32,
    file: &str,
    progress: &dyn Progress,
) -> Result<Counted, TraceError> {
    let bin_seconds = bin_seconds.max(1);
    let mut start = None;
    let mut bins: Vec<Bin> = Vec::new();
    let mut seen = Sample::default();
    let mut batch = Vec::new();
    loop {
        source.read_batch(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        progress.read(batch.len() as u64);
        if progress.is_stopped() {
            return Err(TraceError::new(file, Position::File, "is not read on: the work is stopped"));
        }
        let epoch = source.epoch_unix_nanos().map_or(0, |nanos| (nanos / 1_000_000_000) as i64);
        let start = *start.get_or_insert(epoch.div_euclid(i64::from(bin_seconds)) * i64::from(bin_seconds));
        for record in &batch {
            let seconds = epoch - start + (record.time.0 / 1_000_000_000) as i64;
            let place = usize::try_from(seconds / i64::from(bin_seconds)).unwrap_or(0);
            if place >= BINS_MAX {
                return Err(TraceError::new(
                    file,
                    Position::File,
                    format!("spans more than {BINS_MAX} bins of {bin_seconds} s"),
                )
                .hint("take longer bins"));
            }
            if place >= bins.len() {
                bins.resize(place + 1, Bin::default());
            }
            let kind = match record.operation {
                Operation::Read => 0,
                Operation::Write => 1,
                Operation::Discard => 2,
                Operation::Flush => continue,
            };
            let bin = &mut bins[place];
            bin.requests[kind] += 1;
            bin.bytes[kind] += record.length_bytes;
            if kind == 1 {
                seen.write(record.volume, record.offset_bytes, record.length_bytes, bin);
            }
        }
    }
    tell(source, file, progress);
    if bins.len() > 1 {
        bins.pop();
    }
    let series = |name: &str, value: &dyn Fn(&Bin) -> Option<f64>| Series {
        name: name.into(),
        start_unix_seconds: start.unwrap_or(0),
        bin_seconds,
        values: bins.iter().map(value).collect(),
        losses: Losses::default(),
    };
    let rate = |count: u64| Some(count as f64 / f64::from(bin_seconds));
    let kinds = ["read", "write", "unmap"];
    let requests =
        [0, 1, 2].map(|kind| series(&format!("{} requests/s", kinds[kind]), &|bin| rate(bin.requests[kind])));
    let bytes = [0, 1, 2].map(|kind| series(&format!("{} bytes/s", kinds[kind]), &|bin| rate(bin.bytes[kind])));
    let unique_ratio = series("unique ratio of written blocks", &|bin| {
        (bin.blocks_written > 0).then(|| bin.blocks_new as f64 / bin.blocks_written as f64)
    });
    Ok(Counted { requests, bytes, unique_ratio })
}

/// A bounded sample of written blocks.
#[derive(Default)]
struct Sample {
    blocks: BTreeSet<(u32, u64)>,
    shift: u32,
}

impl Sample {
    fn write(&mut self, volume: u32, offset_bytes: u64, length_bytes: u64, bin: &mut Bin) {
        if length_bytes == 0 {
            return;
        }
        let last = offset_bytes.saturating_add(length_bytes - 1) / BLOCK_BYTES;
        // One request of the size of a disk must not take hours: its first blocks represent all.
        let first = offset_bytes / BLOCK_BYTES;
        for block in first..=last.min(first.saturating_add(1 << 16)) {
            if !self.is_sampled(block) {
                continue;
            }
            bin.blocks_written += 1;
            bin.blocks_new += u64::from(self.blocks.insert((volume, block)));
        }
        while self.blocks.len() > BLOCKS_MAX {
            self.shift += 1;
            let kept =
                std::mem::take(&mut self.blocks).into_iter().filter(|(_, block)| self.is_sampled(*block)).collect();
            self.blocks = kept;
        }
    }

    /// Whether a block is sampled, decided by a hash, so that strides in the addresses do not matter.
    fn is_sampled(&self, block: u64) -> bool {
        let hash = block.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash.trailing_zeros() >= self.shift || self.shift == 0
    }
}
