//! The range of requests in which a device was seen, and whether others lie within it.

use std::collections::BTreeMap;

use ioweir_config::{Rate, Ratio, Size, format_count};
use ioweir_core::Operation;
use serde::{Deserialize, Serialize};

/// The span of time, and the number of requests, over which a rate and a share are taken.
const BLOCK_REQUESTS: u64 = 256;
/// The most different lengths that are told apart; longer ones are rounded.
const LENGTHS_MAX: usize = 1 << 16;

/// The least and the most of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[T; 2]", into = "[T; 2]")]
pub struct Span<T: Copy> {
    /// The least.
    pub low: T,
    /// The most.
    pub high: T,
}

impl<T: Copy> From<[T; 2]> for Span<T> {
    fn from([low, high]: [T; 2]) -> Self {
        Self { low, high }
    }
}

impl<T: Copy> From<Span<T>> for [T; 2] {
    fn from(span: Span<T>) -> Self {
        [span.low, span.high]
    }
}

/// The range of requests that a device was seen with. A field is absent where no such requests were seen, or nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Lengths of reads: all but the shortest and the longest hundredth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_size: Option<Span<Size>>,
    /// Lengths of writes, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_size: Option<Span<Size>>,
    /// The most requests in the device at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_max: Option<u32>,
    /// The share of requests that continue the one before, over 256 requests at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential: Option<Span<Ratio>>,
    /// Requests a second, over 256 requests at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Span<Rate>>,
}

impl Range {
    /// The parts of `other` that lie outside of this range, in words that follow "the trace has"; empty if there are none.
    #[must_use]
    pub fn outside(&self, other: &Self) -> Vec<String> {
        let mut outside = Vec::new();
        for (what, seen, given) in
            [("reads", self.read_size, other.read_size), ("writes", self.write_size, other.write_size)]
        {
            match (seen, given) {
                (None, Some(_)) => outside.push(format!("{what}, of which none were seen")),
                (Some(seen), Some(given)) if given.low < seen.low || given.high > seen.high => outside.push(format!(
                    "{what} of {} to {}, seen were {} to {}",
                    given.low, given.high, seen.low, seen.high
                )),
                _ => {}
            }
        }
        if let (Some(seen), Some(given)) = (self.depth_max, other.depth_max)
            && given > seen
        {
            outside.push(format!(
                "{} requests at once, seen were {}",
                format_count(given.into()),
                format_count(seen.into())
            ));
        }
        if let (Some(seen), Some(given)) = (self.sequential, other.sequential)
            && (given.low < seen.low || given.high > seen.high)
        {
            let percent = |share: Ratio| format!("{:.0}", share.value() * 100.0);
            outside.push(format!(
                "{} to {} % sequential requests, seen were {} to {} %",
                percent(given.low),
                percent(given.high),
                percent(seen.low),
                percent(seen.high)
            ));
        }
        // Fewer requests a second than were seen tell a model nothing new.
        if let (Some(seen), Some(given)) = (self.rate, other.rate)
            && given.high > seen.high
        {
            outside.push(format!("up to {}, seen were up to {}", given.high, seen.high));
        }
        outside
    }
}

/// Requests being looked at for their [`Range`]; each is added in the order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Counts by length, of reads and of writes.
    lengths: [BTreeMap<u64, u64>; 2],
    next_byte: Option<u64>,
    block_requests: u64,
    block_sequential: u64,
    block_began_nanos: u64,
    sequential: Option<Span<Ratio>>,
    rate: Option<Span<Rate>>,
}

impl Observed {
    /// Adds a request. Requests that move no data are passed over.
    pub fn add(&mut self, time_nanos: u64, operation: Operation, offset_bytes: u64, length_bytes: u64) {
        let lengths = match operation {
            Operation::Read => &mut self.lengths[0],
            Operation::Write => &mut self.lengths[1],
            Operation::Discard | Operation::Flush => return,
        };
        if let Some(count) = lengths.get_mut(&length_bytes) {
            *count += 1;
        } else if lengths.len() < LENGTHS_MAX {
            lengths.insert(length_bytes, 1);
        } else {
            let above = lengths.range(length_bytes..).next().or_else(|| lengths.iter().next_back());
            let near = above.map_or(length_bytes, |(key, _)| *key);
            *lengths.entry(near).or_insert(0) += 1;
        }
        if self.block_requests == 0 {
            self.block_began_nanos = time_nanos;
        }
        self.block_sequential += u64::from(self.next_byte == Some(offset_bytes));
        self.block_requests += 1;
        self.next_byte = Some(offset_bytes.saturating_add(length_bytes));
        if self.block_requests == BLOCK_REQUESTS {
            self.end_block(time_nanos);
        }
    }

    fn end_block(&mut self, time_nanos: u64) {
        if let Some(share) = Ratio::new(self.block_sequential as f64 / self.block_requests as f64) {
            let span = self.sequential.get_or_insert(Span { low: share, high: share });
            *span = Span { low: span.low.min(share), high: span.high.max(share) };
        }
        let nanos = u128::from(time_nanos.saturating_sub(self.block_began_nanos));
        let intervals = u128::from(self.block_requests - 1) * 1_000_000_000;
        if let Some(rate) = intervals.checked_div(nanos) {
            let rate = Rate(u64::try_from(rate).unwrap_or(u64::MAX));
            let span = self.rate.get_or_insert(Span { low: rate, high: rate });
            *span = Span { low: span.low.min(rate), high: span.high.max(rate) };
        }
        (self.block_requests, self.block_sequential) = (0, 0);
    }

    /// The range of all requests so far; the depth is not known.
    #[must_use]
    pub fn range(&self) -> Range {
        let size = |lengths: &BTreeMap<u64, u64>| {
            let total: u64 = lengths.values().sum();
            let at = |rank: u64| {
                let mut before = 0;
                let found = lengths.iter().find(|(_, count)| {
                    before += **count;
                    before > rank
                });
                found.map(|(length, _)| Size(*length))
            };
            let cut = total / 100;
            Some(Span { low: at(cut)?, high: at(total.checked_sub(1 + cut)?)? })
        };
        Range {
            read_size: size(&self.lengths[0]),
            write_size: size(&self.lengths[1]),
            depth_max: None,
            sequential: self.sequential,
            rate: self.rate,
        }
    }
}
