//! What one fuzzing input means, for the target and for the test that replays the corpus on stable.

use ioweir_lab::trace::{self, Event, Input, ReadOptions};

/// The meaning of the first byte. Append only: the corpus depends on the places.
pub(crate) const FORMATS: [&str; 8] =
    ["", "blktrace", "blkparse", "hadoop-csv", "msr-csv", "vscsi", "fio-iolog", "parquet"];

/// First byte: format in the low three bits (0: by content), then lenient, then the event, then two files of one trace,
/// then latencies and a device of 1 TiB.
/// The rest is the file. Reads it to its end; whatever comes out must hold what a reader promises.
pub(crate) fn drive(data: &[u8]) {
    let Some((&selector, bytes)) = data.split_first() else { return };
    let options = ReadOptions {
        format: trace::format(FORMATS[usize::from(selector & 7)]),
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
