//! No memory of a guest makes the reading of its requests panic, or gives one that lies elsewhere.
//!
//! `cargo +nightly fuzz run vhost`; a failure goes into `corpus/vhost` under a name that says what it was.

#![no_main]

#[path = "../drive_vhost.rs"]
mod drive_vhost;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_vhost::drive(data));
