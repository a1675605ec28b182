//! Output of Prometheus, the kernel or a command never makes the governor panic, or see what cannot be.
//!
//! `cargo +nightly fuzz run sources`; a failure goes into `corpus/sources` under a name that says what it was.

#![no_main]

#[path = "../drive_sources.rs"]
mod drive_sources;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_sources::drive(data));
