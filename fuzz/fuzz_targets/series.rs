//! No byte sequence makes the series reader or a forecaster panic, loop for ever, or say what is not finite.
//!
//! `cargo +nightly fuzz run series`; a failure goes into `corpus/series` under a name that says what it was.

#![no_main]

#[path = "../drive_series.rs"]
mod drive_series;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_series::drive(data));
