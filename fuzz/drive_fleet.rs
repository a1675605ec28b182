//! Runs one fuzzing input through what a server reads of its fleet, for the target and for the test that replays the corpus on stable.

use std::sync::LazyLock;

use ioweir_core::fleet::{WHOLE_MAX, apportion, report, weigh};
use ioweir_serve::fleet::{assignments, read_exchange, read_snapshot};
use ioweir_serve::spec::Spec;

/// A server whose tenants others may speak of. Its spec is read once, which takes longer than an input.
static SPEC: LazyLock<Spec> = LazyLock::new(|| Spec::parse("s.toml", TEXT).expect("the spec is right"));

const TEXT: &str = "
[[device]]
name = \"d\"
backend = \"memory\"
size = \"1MiB\"
scheduler = \"mclock\"
[[export]]
name = \"gold\"
device = \"d\"
";

/// Takes the bytes for a report, for what etcd answers, and for what is said of tenants. Whatever is read, parts add up.
pub(crate) fn drive(data: &[u8]) {
    if let Ok(entries) = report::read(data) {
        let demands: Vec<u64> = entries.map(|entry| entry.demand).take(1_000).collect();
        assert!(demands.iter().all(|demand| *demand <= WHOLE_MAX));
        let mut parts = vec![0; demands.len()];
        for whole in [1, 10_000, WHOLE_MAX] {
            apportion(whole, 1, &demands, &mut parts);
            let all = if demands.is_empty() { 0 } else { whole.max(demands.len() as u64) };
            assert_eq!(parts.iter().sum::<u64>(), all);
        }
        assert!((0..=demands.len()).all(|own| (1..=300).contains(&weigh(300, &demands, own))));
    }
    for begins in [false, true] {
        if let Ok(answer) = read_exchange(data, begins) {
            assert!(answer.round >= 0 && answer.revision >= 0);
        }
    }
    if let Ok(snapshot) = read_snapshot(data, "/ioweir/f/") {
        for heard in snapshot.reports.iter().chain(&snapshot.records) {
            let _ = report::read(&heard.report).map(Iterator::count);
        }
    }
    if let Ok(made) = assignments(data, &SPEC) {
        // The running server changes, or says why not.
        let _ = ioweir_serve::control::assign(&SPEC, &made);
    }
}
