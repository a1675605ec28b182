//! No text makes a reader of specs panic, and a spec that is written reads back as itself.
//!
//! `cargo +nightly fuzz run specs`; a failure goes into `corpus/specs` under a name that says what it was.

#![no_main]

#[path = "../drive_specs.rs"]
mod drive_specs;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    drive_specs::drive(data);
});
