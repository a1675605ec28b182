//! How near do the estimators of `reward` come to the right allocation? Simulates clients with a backlog above arrays of one
//! to three tiers, and prints one JSON object for each case: the right rates, and those under each estimator.
//!
//! `cargo run --release -p ioweir-core --example estimator -- SET [FAMILY]`
//!
//! SET is tune, report or judge: cases drawn with another seed each, so that what was tuned on one is judged on another.
//! Families are those of `cases::FAMILIES`. The right rates are weighted proportional fairness: those that maximise the sum of
//! weight times log rate, of all that the servers of each tier and the slots of the array can do.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints what it found")]

mod cases;
mod right;
mod world;

use cases::{Case, FAMILIES};

/// Cases of a family in a set.
const CASES: u64 = 24;
const SETS: [(&str, u64); 3] = [("tune", 1), ("report", 2), ("judge", 3)];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seed = words.first().and_then(|set| SETS.iter().find(|(name, _)| name == set)).map(|&(_, seed)| seed);
    let Some(seed) = seed else {
        eprintln!("usage: estimator tune|report|judge [FAMILY]");
        std::process::exit(2);
    };
    let only = words.get(1).map_or("", String::as_str);
    for (place, family) in (0..).zip(FAMILIES).filter(|(_, family)| only.is_empty() || only == **family) {
        for number in 0..CASES {
            print_case(family, number, &Case::draw(family, seed * 1_000_000 + place * 1_000 + number));
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
