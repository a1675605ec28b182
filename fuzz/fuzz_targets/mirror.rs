//! No first block of a leg makes the opening of a mirror panic, or take more than it holds.
//!
//! `cargo +nightly fuzz run mirror`; a failure goes into `corpus/mirror` under a name that says what it was.

#![no_main]

#[path = "../drive_mirror.rs"]
mod drive_mirror;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_mirror::drive(data));
