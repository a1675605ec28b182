//! How many requests a second does the simulator do, statistics included, on one core?
//!
//! `cargo bench -p ioweir-lab --bench simulate [-- POLICY...]` prints a line for each policy, device and workload: the
//! median of
//! five runs over the same records in memory. `IOWEIR_BENCH_REQUESTS` and `IOWEIR_BENCH_RUNS` set other numbers,
//! `IOWEIR_BENCH_WORKLOAD` chooses one workload by its place.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::Instant;

use ioweir_core::policy::{self, POLICIES, Policy};
use ioweir_core::{Nanos, QueueLimits};
use ioweir_device::DeviceSpec;
use ioweir_lab::sim::{Load, Simulation, Unobserved, simulate};
use ioweir_lab::workload::{Generator, Mix, Replay};
use ioweir_trace::{Record, TraceSource};

/// A number from the environment.
fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The workloads that the simulator is measured on: name, mix and load.
fn workloads(requests: u64) -> Vec<(&'static str, &'static str, Mix, Load)> {
    let random = Mix {
        requests,
        streams: 16,
        sectors: 480_000_000,
        request_sectors: 8,
        sequential_per_mille: 0,
        read_per_mille: 670,
        interval: Nanos::from_millis(20),
        seed: 1,
    };
    let streams = Mix { sequential_per_mille: 950, request_sectors: 64, interval: Nanos::from_millis(2), ..random };
    vec![
        ("random 4k, open, light", "hdd", random, Load::RECORDED),
        ("random 4k, closed 8 a stream", "hdd", random, Load::Closed { outstanding: 8, pause: Nanos::ZERO }),
        ("16 streams 32k 95% sequential, open", "hdd", streams, Load::RECORDED),
        (
            "16 streams 32k 95% sequential, closed 8",
            "hdd",
            streams,
            Load::Closed { outstanding: 8, pause: Nanos::ZERO },
        ),
        ("random 4k, closed 8 a stream", "ssd-970pro", random, Load::Closed { outstanding: 8, pause: Nanos::ZERO }),
        (
            "16 streams 32k 95% sequential, closed 8",
            "ssd-970pro",
            streams,
            Load::Closed { outstanding: 8, pause: Nanos::ZERO },
        ),
    ]
}

fn records(mix: Mix) -> Vec<Record> {
    let mut source = Generator::new(mix);
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    loop {
        source.read_batch(&mut batch).expect("a generator does not fail");
        if batch.is_empty() {
            return all;
        }
        all.extend_from_slice(&batch);
    }
}

fn run(name: &str, device: &str, records: &[Record], load: Load) -> f64 {
    let row = policy::find(name).expect("a policy of the table");
    let depth = if device == "hdd" { 1 } else { 32 };
    let limits = QueueLimits { depth, ..QueueLimits::DEFAULT };
    let mut device = DeviceSpec::load(device).and_then(|spec| spec.build(0)).expect("a preset");
    let simulation = Simulation {
        scheduler: row.build(limits, &row.defaults()),
        limits,
        device: &mut *device,
        fast: None,
        lenient: false,
        until: Nanos::NEVER,
    };
    let start = Instant::now();
    let requests = measured(simulation, records, load);
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(requests, records.len() as u64);
    requests as f64 / seconds
}

/// `scripts/instructions` counts the instructions of this function.
#[inline(never)]
fn measured(simulation: Simulation<'_, Policy>, records: &[Record], load: Load) -> u64 {
    let outcome =
        simulate(simulation, Box::new(Replay::new(records)), load, &mut Unobserved).expect("generated records fit");
    outcome.all.requests
}

pub(crate) fn main() {
    let requests = number("IOWEIR_BENCH_REQUESTS", 2_000_000) as u64;
    let runs = number("IOWEIR_BENCH_RUNS", 5).max(1);
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut simulated = 0;
    let place = std::env::var("IOWEIR_BENCH_WORKLOAD").ok().and_then(|text| text.parse().ok());
    let workloads = workloads(requests).into_iter().enumerate();
    for (_, (workload, device, mix, load)) in workloads.filter(|(at, _)| place.is_none_or(|place: usize| place == *at))
    {
        let records = records(mix);
        for row in POLICIES.iter().filter(|row| chosen.is_empty() || chosen.iter().any(|name| name == row.name)) {
            let mut rates: Vec<f64> = (0..runs).map(|_| run(row.name, device, &records, load)).collect();
            rates.sort_unstable_by(f64::total_cmp);
            let [low, median, high] = [rates[0], rates[runs / 2], rates[runs - 1]].map(|rate| rate / 1e6);
            println!("{:14} {device:10} {workload:40} {median:7.2} M requests/s  ({low:.2} to {high:.2})", row.name);
            simulated += requests * runs as u64;
        }
    }
    println!("measured: {simulated}");
}
