//! How many requests a second does an experiment of many clients simulate on one core, figures by class and second included?
//!
//! `cargo bench -p ioweir-lab --bench experiment [-- POLICY CLIENTS]` (mclock, 10000) prints the median of five runs. All
//! clients keep four requests outstanding on an array that does a million a second, and a tenth of them have reserved, where
//! the policy keeps reservations, as in `examples/ten-thousand-clients.toml`. `IOWEIR_BENCH_REQUESTS` (ten million) and
//! `IOWEIR_BENCH_RUNS` set other numbers.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::Instant;

use ioweir_core::policy::POLICIES;
use ioweir_lab::experiment::{Experiment, run_observed};
use ioweir_lab::sim::Unobserved;

/// A number from the environment.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn spec(policy: &str, clients: u64, requests: u64) -> String {
    let reserved = (clients / 10).max(1);
    let others = (clients - reserved).max(1);
    let keeps_reservations = POLICIES.iter().any(|row| row.name == policy && row.reads.reservation);
    let reservation = format!("reservation = \"{}/s\"\n", 200_000 / reserved);
    let reservation = if keeps_reservations { reservation } else { String::new() };
    // At a million a second, a request is a microsecond.
    format!(
        "duration = \"{requests}us\"\ninterval = \"{requests}us\"\nschedulers = [\"{policy}\"]\ndepth = 32\n[device.tiered]\ncapacity = \
         \"100TB\"\nplacement = {{ hit_ratio = 1.0 }}\nfast = {{ depth = 32, read = \"exponential 32us\" }}\nslow = {{ read = \"exponential \
         10ms\" }}\n[[class]]\nname = \"reserved\"\nclients = {reserved}\nbacklog = 4\nweight = \
         2\n{reservation}[[class]]\nname = \"others\"\nclients = {others}\nbacklog = 4\n"
    )
}

/// `scripts/instructions` counts the instructions of this function: a run with its preparation.
#[inline(never)]
fn measured(experiment: &Experiment) -> u64 {
    run_observed(experiment, &mut Unobserved).expect("an experiment that runs").0.requests_simulated
}

pub(crate) fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let policy = arguments.next().unwrap_or("mclock".into());
    let clients = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let requests = number("IOWEIR_BENCH_REQUESTS", 10_000_000);
    let runs = number("IOWEIR_BENCH_RUNS", 5).max(1) as usize;
    let experiment = Experiment::parse("bench", &spec(&policy, clients, requests)).expect("an experiment");
    let mut simulated = 0;
    let mut rates = Vec::new();
    for _ in 0..runs {
        let start = Instant::now();
        let done = measured(&experiment);
        rates.push(done as f64 / start.elapsed().as_secs_f64());
        simulated += done;
    }
    rates.sort_unstable_by(f64::total_cmp);
    let [low, median, high] = [rates[0], rates[runs / 2], rates[runs - 1]].map(|rate| rate / 1e6);
    println!("{policy:14} {clients:6} clients {median:7.2} M requests/s  ({low:.2} to {high:.2})");
    println!("measured: {simulated}");
}
