//! How long does a plan take: a week in 10-minute bins, all twelve services?
//!
//! `cargo bench -p ioweir-background --bench plan [-- roomy|tight]` prints a line for each pool: one with room, and one in which
//! the planner has to search. `IOWEIR_BENCH_RUNS` sets another number of runs than five.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::Instant;

use ioweir_background::forecast::Calendar;
use ioweir_background::plan::{Ledger, Load, LoadForecaster, Outlook, Plan, Policy, Rates, Setting, System, plan};
use ioweir_background::series::Vdi;

const POLICY: &str = r#"
[pool]
size = "SIZE"
used = "2800GiB"
[cores]
count = 64
foreground_iops = 100
background_operations = 100
[service.snapshot-delete]
every = "1h"
retention = "1d"
[service.volume-delete]
owed = "200GiB"
owed_at = "2d"
[service.unmap]
[service.defragmentation]
share_percent = 20
[service.deep-compression]
share_percent = 20
[service.offline-dedup]
share_percent = 20
[service.rebuild]
owed = "1TiB"
deadline = "36h"
[service.relocation]
owed = "100GiB"
[service.flush]
[service.replication]
[service.scrub]
every = "7d"
[service.analytics]
owed = "100GiB"
"#;

/// `scripts/instructions` counts the instructions of this function.
#[inline(never)]
fn measured(system: &System, ledger: &Ledger, outlook: &Outlook, setting: Setting<'_>) -> Plan {
    plan(system, ledger, outlook, setting)
}

pub(crate) fn main() {
    let runs: usize = std::env::var("IOWEIR_BENCH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(5).max(1);
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut planned = 0;
    for (name, size) in [("roomy", "8TiB"), ("tight", "3300GiB")] {
        if !chosen.is_empty() && !chosen.iter().any(|chosen| chosen == name) {
            continue;
        }
        let policy = Policy::parse("bench", &POLICY.replace("SIZE", size)).expect("a policy");
        let series = Vdi::default().generate().series;
        let load = Load {
            utc_offset_seconds: None,
            start_unix_seconds: series.start_unix_seconds,
            bin_seconds: series.bin_seconds,
            requests: series.values,
            written: Rates::Share(0.3),
            unmapped: Rates::Share(0.01),
            unique: Rates::Share(policy.load.unique_percent / 100.0),
            notes: Vec::new(),
        };
        let choice = policy.forecast.forecaster().expect("a forecaster");
        let mut forecaster = LoadForecaster::new(&load, &choice, 0.95, &Calendar::default()).expect("10-minute bins");
        forecaster.update(&load, 0..load.requests.len());
        forecaster.refit();
        let outlook = forecaster.outlook(policy.bins());
        let calendar = Calendar::default();
        let system = policy.system();
        let ledger = Ledger::new(policy.pool());
        let setting = Setting {
            start_unix_seconds: load.end_unix_seconds(),
            block_bytes: policy.pool.block.0,
            quantile: 0.95,
            calendar: &calendar,
        };
        let mut seconds: Vec<f64> = (0..runs)
            .map(|_| {
                let start = Instant::now();
                let made = measured(&system, &ledger, &outlook, setting);
                assert_eq!(made.bins.len(), 1008);
                planned = planned.max(made.plays);
                start.elapsed().as_secs_f64()
            })
            .collect();
        seconds.sort_unstable_by(f64::total_cmp);
        println!("{name:8} {:8.2} ms a plan, the horizon played at most {planned} times", seconds[runs / 2] * 1e3);
    }
    println!("measured: {runs}");
}
