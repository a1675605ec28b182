//! No spec, no kept state and nothing that happens makes the governor panic, run on, or give out what there is not.
//!
//! `cargo +nightly fuzz run govern`; a failure goes into `corpus/govern` under a name that says what it was.

#![no_main]

#[path = "../drive_govern.rs"]
mod drive_govern;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_govern::drive(data));
