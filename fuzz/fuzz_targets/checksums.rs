//! No file of kept checksums makes their reader panic, or take what it would not have written.
//!
//! `cargo +nightly fuzz run checksums`; a failure goes into `corpus/checksums` under a name that says what it was.

#![no_main]

#[path = "../drive_checksums.rs"]
mod drive_checksums;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_checksums::drive(data));
