//! No line on the control socket makes the server panic, or its spec anything but a spec.
//!
//! `cargo +nightly fuzz run control`; a failure goes into `corpus/control` under a name that says what it was.

#![no_main]

#[path = "../drive_control.rs"]
mod drive_control;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_control::drive(data));
