//! No policy file and no load make the planner panic, run on, or give out what there is not.
//!
//! `cargo +nightly fuzz run policy`; a failure goes into `corpus/policy` under a name that says what it was.

#![no_main]

#[path = "../drive_policy.rs"]
mod drive_policy;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_policy::drive(data));
