//! How near do the estimators of `reward` come to the right allocation? Simulates clients with a backlog above arrays of one
//! to three tiers, and prints one JSON object for each case: the right rates, and those under each estimator.
//!
//! `cargo run --release -p ioweir-core --example estimator -- SET [FAMILY]`
//!
//! SET is tune, report or judge: cases drawn with another seed each, so that what was tuned on one is judged on another.
//! Families are those of `cases::FAMILIES`. The right rates are weighted proportional fairness: those that maximise the sum of
//! weight times log rate, of all that the servers of each tier and the slots of the array can do.
//!
//! SET windows-tune or windows-judge: the same of windows that keep a latency, one for all clients and one for each.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints what it found")]

mod cases;
mod right;
mod windows;
mod world;

use cases::{Case, FAMILIES};
use windows::{Kind, Windows};

/// Cases of a family in a set.
const CASES: u64 = 24;
const SETS: [(&str, u64); 5] = [("tune", 1), ("report", 2), ("judge", 3), ("windows-tune", 4), ("windows-judge", 6)];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seed = words.first().and_then(|set| SETS.iter().find(|(name, _)| name == set)).map(|&(_, seed)| seed);
    let Some(seed) = seed else {
        eprintln!("usage: estimator tune|report|judge|windows-tune|windows-judge [FAMILY]");
        std::process::exit(2);
    };
    let only = words.get(1).map_or("", String::as_str);
    for (place, family) in (0..).zip(FAMILIES).filter(|(_, family)| only.is_empty() || only == **family) {
        for number in 0..CASES {
            let case = Case::draw(family, seed * 1_000_000 + place * 1_000 + number);
            if words[0].starts_with("windows") {
                print_windows(family, number, case);
            } else {
                print_case(family, number, &case);
            }
        }
    }
}

fn print_case(family: &str, number: u64, case: &Case) {
    let right = right::rates(case);
    let [response, service] = [0, 1].map(|estimator| world::rates(case, estimator, &right));
    println!(
        "{{\"family\": \"{family}\", \"number\": {number}, \"case\": \"{case}\", \"right\": {right:.4?}, \"response\": {response:.4?}, \
         \"service\": {service:.4?}}}"
    );
}

/// Multiples of the mean service time that the latency targets are, and the growths of windows, in requests.
const TARGETS: [f64; 3] = [1.5, 3.0, 6.0];
const GROWTHS: [u64; 2] = [1, 4];

fn print_windows(family: &str, number: u64, mut case: Case) {
    case.depth = windows::DEPTH;
    let right = right::rates(&case);
    let busy: f64 = case.clients.iter().zip(&right).map(|(client, rate)| rate * right::service(&case, client)).sum();
    let target = TARGETS[(number % 3) as usize] * busy / right.iter().sum::<f64>() * 1e9;
    let mut line = format!(
        "{{\"family\": \"{family}\", \"number\": {number}, \"case\": \"{case}\", \"right\": {right:.4?}, \"target_nanos\": {target:.0}"
    );
    let mut add = |name: String, policy: &str, parameters: &[(&str, u64)], windows: Windows| {
        let (rates, latency) = world::run(&case, policy, parameters, windows, &right);
        line += &format!(", \"{name}\": {{\"rates\": {rates:.4?}, \"latency_nanos\": {latency:.0}}}");
    };
    for growth in GROWTHS {
        let windows = |kind| Windows::new(kind, &case.clients, target, growth as f64);
        add(format!("shared {growth}"), "reward", &[], windows(Kind::Shared));
        let parameters = [("latency", target as u64), ("growth", growth)];
        add(format!("parda {growth}"), "parda", &parameters, Windows::none());
        add(format!("own {growth}"), "fifo", &[], windows(Kind::Own));
        add(format!("common {growth}"), "fifo", &[], windows(Kind::Common));
    }
    add("static".into(), "fifo", &[], Windows::new(Kind::Static, &case.clients, target, 0.0));
    println!("{line}}}");
}
