//! bid-adaptive reaches its goal: the completion of the best scheduler, the latencies of the best Linux one.
//!
//! The fast form of `experiments/bid/adaptive-cells`: the load of the figures. The other loads and queues are in the test
//! that is marked as slow.

use std::path::PathBuf;

use ioweir_core::Operation;
use ioweir_lab::compare::{Comparison, run};
use ioweir_lab::run::{Origin, Silent};
use ioweir_lab::sim::Outcome;

const LINUX: [&str; 7] = ["noop", "deadline", "mq-deadline", "kyber", "bfq", "cfq", "anticipatory"];
const OTHERS: [&str; 4] = ["clook", "cfq-paper", "deadline-paper", "bid-hdd"];
const JOBS: [&str; 6] = ["grep", "randomtextwriter", "sort", "terasort", "wordcount", "wordstandarddeviation"];

/// Hundredths of the best: what is asked for.
const COMPLETION_MAX: u128 = 102;
const LATENCY_MAX: u128 = 105;

fn outcomes(disk: &str, job: &str, load: &str, queue_requests: u32) -> Vec<Outcome> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/hadoop").join(disk);
    let comparison = Comparison {
        traces: vec![root.join(format!("{job}.insert.csv.zst")).display().to_string()],
        schedulers: LINUX.iter().chain(&OTHERS).chain(&["bid-adaptive"]).map(|name| name.parse().unwrap()).collect(),
        loads: vec![load.parse().unwrap()],
        queue_requests,
        ..Comparison::default()
    };
    let origin = Origin { version: "test".into(), commit: "test".into(), command: "test".into() };
    run(&comparison, &origin, &Silent).expect("the sample traces run").outcomes
}

fn check(disk: &str, job: &str, load: &str, queue_requests: u32, checks_latency: bool) {
    let outcomes = outcomes(disk, job, load, queue_requests);
    let (adaptive, others) = outcomes.split_last().expect("twelve schedulers");
    let is_within = |most: u128, of: &dyn Fn(&Outcome) -> u128, others: &[Outcome]| {
        others.iter().all(|other| of(adaptive) * 100 <= of(other) * most)
    };
    let place = format!("{disk} {job} {load} {queue_requests}");
    assert!(is_within(COMPLETION_MAX, &|run| run.completion.0.into(), others), "{place}: completion");
    for operation in [Operation::Read, Operation::Write] {
        // Every run serves the same requests: sums compare as means do.
        let latency = |run: &Outcome| run.by_operation[operation as usize].latency_sum_nanos;
        let holds = is_within(LATENCY_MAX, &latency, &others[..LINUX.len()]);
        assert!(!checks_latency || holds, "{place}: latency of {operation:?}");
    }
}

#[test]
fn at_the_load_of_the_figures_it_completes_with_the_best_and_nobody_waits_longer() {
    for job in JOBS {
        check("hdd-emul", job, "x50", 128, true);
    }
}

#[test]
#[ignore = "several seconds: experiments/bid/adaptive-cells prints the same as a table"]
fn at_every_load_it_completes_with_the_best() {
    for disk in ["hdd-emul", "loop-ssd"] {
        for job in JOBS {
            for queue_requests in [128, 256] {
                for load in ["x10", "x50", "closed:2", "closed:32"] {
                    check(disk, job, load, queue_requests, load == "x50");
                }
            }
        }
    }
}
