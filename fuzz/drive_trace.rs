//! The meaning of a fuzzing input, for the target and for the test that replays the corpus on stable.

use ioweir_trace::{self as trace, Event, FORMATS, Input, ReadOptions};

/// Bits of the first byte.
const LENIENT: u8 = 1;
/// Of two bits.
const EVENT_SHIFT: u8 = 1;
/// Two files of one trace.
const TWO_FILES: u8 = 8;
/// Latencies, and a device of 1 TiB.
const LATENCY: u8 = 16;
/// The columns of the format of one's own.
const OWN_COLUMNS: &str = "columns:time:s,op,offset:bytes,size:bytes,volume,pid,command";

/// The beginning of a seed of that format.
// The test that writes seeds calls it; the target has no use for it.
#[allow(dead_code)]
pub(crate) fn selector(format: &str) -> Vec<u8> {
    [b"\0", format.as_bytes(), b"\n"].concat()
}

/// A byte of options, the name of a format and a line feed, then the file; it is recognised by its content where there is no
/// name. Reads it to its end; whatever comes out must hold what a reader promises.
pub(crate) fn drive(data: &[u8]) {
    let Some((&options, rest)) = data.split_first() else { return };
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return };
    let (name, bytes) = (&rest[..end], &rest[end + 1..]);
    let format = match name {
        b"" => None,
        b"columns" => trace::named(OWN_COLUMNS).ok(),
        name => match FORMATS.iter().find(|format| format.name.as_bytes() == name) {
            Some(format) => Some(format),
            None => return,
        },
    };
    let options = ReadOptions {
        format,
        lenient: options & LENIENT != 0,
        event: Event::ALL[usize::from(options >> EVENT_SHIFT & 3)],
        latency: options & LATENCY != 0,
        volume: None,
        end_bytes_max: (options & LATENCY != 0).then_some(1 << 40),
        ..ReadOptions::default()
    };
    let inputs = if data[0] & TWO_FILES != 0 {
        let (one, other) = bytes.split_at(bytes.len() / 96 * 48);
        vec![Input::from_bytes("one", one.to_vec()), Input::from_bytes("other", other.to_vec())]
    } else {
        vec![Input::from_bytes("trace", bytes.to_vec())]
    };
    let Ok(mut source) = trace::open_inputs(inputs, &options) else { return };
    let mut batch = Vec::new();
    let mut last = None;
    while source.read_batch(&mut batch).is_ok() && !batch.is_empty() {
        assert!(batch.len() <= trace::BATCH_RECORDS);
        for record in &batch {
            assert!(last.is_some() || record.time.0 == 0, "the first record is at time zero");
            assert!(last <= Some(record.time), "times do not run backwards");
            assert!(record.offset_bytes.checked_add(record.length_bytes).is_some());
            assert!((record.stream.0 as usize) < source.names().streams.len());
            assert!((record.volume as usize) < source.names().volumes.len());
            last = Some(record.time);
        }
    }
    assert!(options.lenient || source.skipped() == 0);
    let _ = source.epoch_unix_nanos();
}
