//! Doubts about the units of a trace: figures that no device has.

use ioweir_core::{Nanos, Operation, SECTOR_BYTES};

use crate::Record;

/// Fewer requests show nothing.
const REQUESTS_MIN: u64 = 8;
/// Shorter requests than this are hardly ever most of a trace if they are no whole sectors.
const SMALL_BYTES: u64 = 4096;
/// Half of the requests of a trace are never longer.
const LONG_BYTES: u64 = 256 << 20;
/// No volume is larger: 64 PiB.
const VOLUME_BYTES: u64 = 1 << 56;
/// An offset past 99 % of the others by this factor, and past this byte, is damage.
const FAR_FACTOR: u64 = 1000;
const FAR_BYTES: u64 = 64 << 40;
/// No host sends requests in shorter steps for long.
const STEP_NANOS: f64 = 100.0;
/// No storage moves more.
const RATE_BYTES: f64 = 1e13;
/// In a trace of many requests they do not lie further apart in the mean.
const APART_SECONDS: f64 = 6.0 * 3600.0;
const MANY: u64 = 100;
/// A pause that is looked at: a day.
const PAUSE_SECONDS: f64 = 86_400.0;

/// Counts over the requests of a trace from which doubts arise. Every command that reads a trace counts them, so there are no
/// histograms among them.
#[derive(Clone)]
pub(crate) struct Seen {
    requests: u64,
    last: Nanos,
    /// The longest time between two requests, and the time of the second.
    pause: (Nanos, Nanos),
    /// Reads and writes with data, and their bytes.
    data: u64,
    bytes: u128,
    /// Reads and writes whose length is no whole number of sectors.
    uneven: u64,
    /// Reads and writes of whole sectors that begin within one.
    shifted: u64,
    /// Reads and writes shorter than [`SMALL_BYTES`].
    small: u64,
    /// Reads and writes longer than [`LONG_BYTES`].
    long: u64,
    /// Reads and writes by the number of binary digits of their offset.
    by_offset: [u64; 65],
    offset_max: u64,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            requests: 0,
            last: Nanos::ZERO,
            pause: (Nanos::ZERO, Nanos::ZERO),
            data: 0,
            bytes: 0,
            uneven: 0,
            shifted: 0,
            small: 0,
            long: 0,
            by_offset: [0; 65],
            offset_max: 0,
        }
    }
}

impl Seen {
    #[inline]
    pub(crate) fn add(&mut self, record: &Record) {
        let pause = record.time.since(self.last);
        if pause > self.pause.0 && self.requests > 0 {
            self.pause = (pause, record.time);
        }
        self.requests += 1;
        self.last = record.time;
        let (offset, length) = (record.offset_bytes, record.length_bytes);
        if matches!(record.operation, Operation::Read | Operation::Write) && length > 0 {
            self.data += 1;
            self.bytes += u128::from(length);
            let is_whole = length.is_multiple_of(SECTOR_BYTES);
            self.uneven += u64::from(!is_whole);
            self.shifted += u64::from(is_whole && !offset.is_multiple_of(SECTOR_BYTES));
            self.small += u64::from(length < SMALL_BYTES);
            self.long += u64::from(length > LONG_BYTES);
            self.by_offset[(u64::BITS - offset.leading_zeros()) as usize] += 1;
            self.offset_max = self.offset_max.max(offset);
        }
    }

    /// The byte before which 99 of 100 reads and writes begin: the next power of two.
    fn offset_p99(&self) -> u64 {
        let mut begin = 0;
        let digits = self.by_offset.iter().position(|count| {
            begin += count;
            begin * 100 >= self.data * 99
        });
        1_u64.checked_shl(digits.unwrap_or(0) as u32).unwrap_or(u64::MAX)
    }

    /// A sentence for each doubt, with the likely unit and the flag for it.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let mut doubts = of_extents(self);
        doubts.extend(of_times(self));
        doubts
    }
}

fn of_extents(seen: &Seen) -> Vec<String> {
    let Seen { data, uneven, offset_max, .. } = *seen;
    let offset_p99 = seen.offset_p99();
    let mut doubts = Vec::new();
    if data >= REQUESTS_MIN && uneven * 2 > data && seen.small * 2 >= data {
        doubts.push(format!(
            "{uneven} of {data} requests are no whole sectors, and half of them are shorter than {SMALL_BYTES} bytes: the lengths are likely sectors \
             of 512 bytes; name a format that has them so, as `--format disksim` instead of `ucare`, or `size:sectors` in --columns"
        ));
    }
    if data >= REQUESTS_MIN && seen.long * 2 > data {
        doubts.push(format!(
            "half of the requests are longer than {LONG_BYTES} bytes: the lengths are likely bytes, not sectors; name a format that has them so, \
             or `size:bytes` in --columns"
        ));
    }
    if data >= REQUESTS_MIN && seen.shifted * 2 > data {
        doubts.push(format!(
            "{} of {data} requests have whole sectors and begin within one: the offsets are likely sectors of 512 bytes; name a format that \
             has them so, or `offset:sectors` in --columns",
            seen.shifted
        ));
    }
    if data >= REQUESTS_MIN && offset_p99 > VOLUME_BYTES {
        doubts.push(format!(
            "offsets reach byte {offset_max}, past any volume: they are likely bytes, not sectors; name a format that has them so, or \
             `offset:bytes` in --columns"
        ));
    } else if data >= REQUESTS_MIN && offset_max > FAR_BYTES && offset_max / FAR_FACTOR > offset_p99 {
        doubts.push(format!(
            "byte {offset_max} is touched, while 99 of 100 requests begin before byte {offset_p99}: a line is likely damaged; \
             `ioweir trace cut --offset-to` leaves it out"
        ));
    }
    doubts
}

fn of_times(seen: &Seen) -> Vec<String> {
    let mut doubts = Vec::new();
    let span_seconds = seen.last.as_seconds();
    let step_nanos = span_seconds * 1e9 / (seen.requests as f64 - 1.0).max(1.0);
    let bytes = seen.bytes as f64;
    let too_fast = seen.requests >= MANY && span_seconds > 0.0;
    if too_fast && (step_nanos < STEP_NANOS || bytes / span_seconds > RATE_BYTES) {
        let unit = if step_nanos < 1.0 { "milliseconds or seconds" } else { "microseconds or milliseconds" };
        doubts.push(format!(
            "requests come every {step_nanos:.1} ns and ask for {:.3e} bytes a second: no device does that, and the times are likely {unit}; \
             name a format that has them so, or `time:us` or `time:ms` in --columns",
            bytes / span_seconds
        ));
    }
    let (pause, at) = seen.pause;
    let rest = seen.last.0 - pause.0;
    // Without its longest pause the trace is short: two captures, or a clock that was set.
    if seen.requests >= REQUESTS_MIN && pause.as_seconds() > PAUSE_SECONDS && pause.0 / FAR_FACTOR > rest {
        doubts.push(format!(
            "the times jump by {:.0} s before {:.6} s, and all other requests together last {:.3} s: two clocks or two captures are \
             likely in one file; `ioweir trace cut` takes one of them, with --to or --from",
            pause.as_seconds(),
            at.as_seconds(),
            Nanos(rest).as_seconds()
        ));
    } else if seen.requests >= MANY && step_nanos > APART_SECONDS * 1e9 {
        doubts.push(format!(
            "requests lie {:.0} hours apart in the mean: the times are likely in a smaller unit; name a format that has it, or `time:us` or \
             `time:ns` in --columns",
            step_nanos / 3600e9
        ));
    }
    doubts
}
