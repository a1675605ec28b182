//! How many requests a second does the simulator of a storage server do, on one core?
//!
//! `cargo bench -p ioweir-lab --bench server [-- SCHEDULE...]` prints a line for each schedule and server: the median of five
//! runs at 95 % of what the cores could do. `IOWEIR_BENCH_REQUESTS` and `IOWEIR_BENCH_RUNS` set other numbers.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::Instant;

use ioweir_core::Nanos;
use ioweir_lab::server::{CostSpec, ORACLE, Part, PlatformSpec, Scheduling, Server, ServerLoad, WorkloadSpec};

/// The usual schedules, and the servers.
const SCHEDULES: [&str; 5] = ["baseline", "sord", "combo", "adaptive", ORACLE];
const SERVERS: [(&str, &str); 3] = [("mid-range", "spc-1"), ("all-flash", "spc-1"), ("mid-range", "swbuild")];

/// A number from the environment.
fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// `scripts/instructions` counts the instructions of this function.
#[inline(never)]
fn measured(server: &Server, scheduling: &Scheduling, load: &ServerLoad) -> u64 {
    server.run(scheduling, load).expect("no law is broken").simulated
}

pub(crate) fn main() {
    let requests = number("IOWEIR_BENCH_REQUESTS", 2_000_000);
    let runs = number("IOWEIR_BENCH_RUNS", 5).max(1);
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut simulated = 0;
    for (platform, workload) in SERVERS {
        let platform_spec = PlatformSpec::load(platform).expect("a preset");
        let workload_spec = WorkloadSpec::load(workload).expect("a preset");
        let costs = CostSpec::usual().expect("they make sense");
        let server = Server::new(platform_spec, workload_spec, costs).expect("presets make sense");
        let requests_per_second = server.capacity() * 0.95;
        let measured_nanos = (requests as f64 / requests_per_second * 1e9) as u64;
        let (warm_up, measured_time) = (Nanos::ZERO, Nanos(measured_nanos));
        let load = ServerLoad { requests_per_second, warm_up, measured: measured_time, batches: 1, seed: 0 };
        for schedule in SCHEDULES.iter().filter(|name| chosen.is_empty() || chosen.iter().any(|chosen| chosen == *name))
        {
            let scheduling: Scheduling = schedule.parse().expect("a schedule");
            let mut rates = Vec::new();
            for _ in 0..runs {
                let start = Instant::now();
                let count = measured(&server, &scheduling, &load);
                rates.push(count as f64 / start.elapsed().as_secs_f64() / 1e6);
                simulated += count;
            }
            rates.sort_unstable_by(f64::total_cmp);
            let [low, median, high] = [rates[0], rates[runs / 2], rates[runs - 1]];
            println!("{schedule:10} {platform:10} {workload:10} {median:7.2} M requests/s  ({low:.2} to {high:.2})");
        }
    }
    println!("measured: {simulated}");
}
