//! Doubts about the units of a trace: figures that no device has.

use super::Info;

/// Fewer requests show nothing.
const REQUESTS_MIN: u64 = 8;
/// Shorter requests than this are hardly ever most of a trace if they are no whole sectors.
const SMALL_BYTES: u64 = 4096;
/// Half of the requests of a trace are never longer.
const LONG_BYTES: u64 = 256 << 20;
/// No volume is larger: 4 EiB.
const VOLUME_BYTES: u64 = 1 << 62;
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

/// A sentence for each doubt, with the likely unit and the flag for it.
pub(super) fn doubts(info: &Info, uneven: u64, offset_p99: u64, offset_max: u64) -> Vec<String> {
    let mut doubts = Vec::new();
    let data = info.size.requests;
    let median = info.size.p50_bytes;
    if data >= REQUESTS_MIN && uneven * 2 > data && median < SMALL_BYTES {
        doubts.push(format!(
            "{uneven} of {data} requests are no whole sectors, and half of them have at most {median} bytes: the lengths are likely sectors \
             of 512 bytes; name a format that has them so, as `--format disksim` instead of `ucare`, or `size:sectors` in --columns"
        ));
    }
    if data >= REQUESTS_MIN && median > LONG_BYTES {
        doubts.push(format!(
            "half of the requests are longer than {median} bytes: the lengths are likely bytes, not sectors; name a format that has them so, \
             or `size:bytes` in --columns"
        ));
    }
    if data >= REQUESTS_MIN && offset_p99 > VOLUME_BYTES {
        doubts.push(format!(
            "offsets reach byte {offset_p99}, past any volume: they are likely bytes, not sectors; name a format that has them so, or \
             `offset:bytes` in --columns"
        ));
    } else if data >= REQUESTS_MIN && offset_max > FAR_BYTES && offset_max / FAR_FACTOR > offset_p99 {
        doubts.push(format!(
            "byte {offset_max} is touched, while 99 of 100 requests begin at or before byte {offset_p99}: a line is likely damaged; \
             `ioweir trace cut --offset-to` leaves it out"
        ));
    }
    let requests = info.requests as f64;
    let step_nanos = info.span_seconds * 1e9 / (requests - 1.0).max(1.0);
    let bytes = (info.read_bytes as f64) + (info.write_bytes as f64);
    let too_fast = info.requests >= MANY && info.span_seconds > 0.0;
    if too_fast && (step_nanos < STEP_NANOS || bytes / info.span_seconds > RATE_BYTES) {
        let unit = if step_nanos < 1.0 { "milliseconds or seconds" } else { "microseconds or milliseconds" };
        doubts.push(format!(
            "requests come every {step_nanos:.1} ns and ask for {:.3e} bytes a second: no device does that, and the times are likely {unit}; \
             name a format that has them so, or `time:us` or `time:ms` in --columns",
            bytes / info.span_seconds
        ));
    }
    if info.requests >= MANY && step_nanos > APART_SECONDS * 1e9 {
        doubts.push(format!(
            "requests lie {:.0} hours apart in the mean: the times are likely in a smaller unit; name a format that has it, or `time:us` or \
             `time:ns` in --columns",
            step_nanos / 3600e9
        ));
    }
    doubts
}
