//! What one fuzzing input means, for the target and for the test that replays the corpus on stable.

use ioweir_trace::{self as trace, Event, Input, ReadOptions};

/// What the numbers of formats mean. Append only: the corpus depends on the places.
pub(crate) const FORMATS: &[&str] = &[
    "",
    "blktrace",
    "blkparse",
    "hadoop-csv",
    "msr-csv",
    "vscsi",
    "fio-iolog",
    "parquet",
    "systor-csv",
    "alibaba-csv",
    "spc",
    "tencent-csv",
    "tencent-csv-bytes",
    "fiu",
    "etw-csv",
    "wpa-csv",
    "thesios-csv",
    "ftrace",
    "blkreplay",
    "disksim",
    "mqsim",
    "ucare",
    "flashnet-csv",
    "disksim-measured",
    "biotracer-s",
    "biotracer-us",
    "biotracer-ns",
    "biosnoop",
    "oracle-general",
    "oracle-general-opns",
    "lcs",
    "btrecord",
    "hp-srt",
    "octf",
];

/// The bits of the first byte that choose the event; all of them set: a second byte holds the format.
const EVENT_BITS: u8 = 0x30;
const FORMAT_BITS: u8 = 7;

/// What a seed of that format begins with.
// The target has no use for it, the test that writes seeds has.
#[allow(dead_code)]
pub(crate) fn selector(format: &str) -> Option<Vec<u8>> {
    let place = u8::try_from(FORMATS.iter().position(|known| *known == format)?).ok()?;
    Some(if place <= FORMAT_BITS { vec![place] } else { vec![EVENT_BITS, place] })
}

/// First byte: format in the low three bits (0: by content), then lenient, then the event, then two files of one trace,
/// then latencies and a device of 1 TiB. Where the event's bits are both set, the event is the first and a second byte is the
/// format.
/// The rest is the file. Reads it to its end; whatever comes out must hold what a reader promises.
pub(crate) fn drive(data: &[u8]) {
    let Some((&selector, mut bytes)) = data.split_first() else { return };
    let mut place = usize::from(selector & FORMAT_BITS);
    if selector & EVENT_BITS == EVENT_BITS {
        let Some((&second, rest)) = bytes.split_first() else { return };
        (place, bytes) = (usize::from(second), rest);
    }
    let Some(name) = FORMATS.get(place) else { return };
    let options = ReadOptions {
        format: trace::format(name),
        lenient: selector & 8 != 0,
        event: Event::ALL[usize::from(selector >> 4 & 3) % 3],
        latency: selector & 128 != 0,
        volume: None,
        end_bytes_max: (selector & 128 != 0).then_some(1 << 40),
    };
    let inputs = if selector & 64 != 0 {
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
