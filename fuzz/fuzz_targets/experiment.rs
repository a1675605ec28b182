//! No text makes the reader of experiment files panic, and what it takes reads back as itself.
//!
//! `cargo +nightly fuzz run experiment`; a failure goes into `corpus/experiment` under a name that says what it was.

#![no_main]

#[path = "../drive_experiment.rs"]
mod drive_experiment;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_experiment::drive(data));
