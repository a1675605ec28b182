//! Does memory stay flat however long a trace is? `cargo bench -p ioweir-lab --bench long [-- POLICY]`.
//!
//! Generates a hundred million requests (`IOWEIR_BENCH_REQUESTS` sets another number), simulates them as they come, and
//! prints the rate, generation included, and the largest memory that the process ever had.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::Instant;

use ioweir_core::{Nanos, QueueLimits, policy};
use ioweir_device::DeviceSpec;
use ioweir_lab::sim::{Load, Simulation, Unobserved, simulate};
use ioweir_lab::workload::{Generator, Mix};

fn main() {
    let requests = std::env::var("IOWEIR_BENCH_REQUESTS").ok().and_then(|text| text.parse().ok());
    let mix = Mix {
        requests: requests.unwrap_or(100_000_000),
        streams: 64,
        sectors: 480_000_000,
        request_sectors: 64,
        sequential_per_mille: 950,
        read_per_mille: 670,
        interval: Nanos::from_micros(700),
        seed: 1,
    };
    let name = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or("bid-hdd".into());
    let row = policy::find(&name).expect("a policy of the table");
    let limits = QueueLimits::DEFAULT;
    let mut device = DeviceSpec::load("hdd").and_then(|spec| spec.build(0)).expect("a preset");
    let scheduler = row.build(limits, &row.defaults());
    let simulation =
        Simulation { scheduler, limits, device: &mut *device, fast: None, lenient: false, until: Nanos::NEVER };
    let start = Instant::now();
    let outcome = simulate(simulation, Box::new(Generator::new(mix)), Load::RECORDED, &mut Unobserved)
        .expect("generated records fit");
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map_or("unknown", str::trim);
    let served = outcome.all.requests;
    println!(
        "{name}: {served} requests in {seconds:.1} s, {:.2} M/s, peak memory {peak}",
        served as f64 / seconds / 1e6
    );
}
