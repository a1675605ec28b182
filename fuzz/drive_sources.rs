//! Runs one fuzzing input through the governor's readers of other programs' output, for the target and for the test that replays the corpus
//! on stable.

use ioweir_block::real::Stat;
use ioweir_govern::source::{read_instant, read_range};
use ioweir_govern::spec::WorkerKeys;
use ioweir_govern::worker::Patterns;

/// A worker that reads all that can be read.
const KEYS: &str = "
progress = [\"p\"]
pattern = '(?<done>[0-9.]+[KMGT]?)(?: / (?<total>\\S+))?|(?<percent>[0-9.]+)%'
pattern_unit = \"512B\"
size = \"1GiB\"
finished = 'finished'
failed = 'failed'
";

/// Takes the bytes for an answer of Prometheus, for `/proc/diskstats`, and for what a command printed. Whatever is read makes sense.
pub(crate) fn drive(data: &[u8]) {
    let makes_sense = |value: &Option<f64>| value.is_none_or(|value| value.is_finite() && value >= 0.0);
    if let Ok(instant) = read_instant(data, 1e9) {
        assert!(makes_sense(&instant));
    }
    if let Ok(range) = read_range(data, 600, 60, 10) {
        assert!(range.len() == 10 && range.iter().all(makes_sense));
    }
    let text = String::from_utf8_lossy(data);
    if let Some(stat) = Stat::parse(&text, "sda") {
        assert_eq!(stat.since(&stat), Some(Stat::default()));
    }
    let keys: WorkerKeys = toml::from_str(KEYS).unwrap_or_else(|error| unreachable!("the keys are right: {error}"));
    let patterns = Patterns::new(&keys).unwrap_or_else(|error| unreachable!("the patterns are right: {error}"));
    // The result is free: the text may say that the work has failed, or anything else.
    let _ = patterns.read(&text);
}
