//! No page of a kernel's trace buffer, and no description of one, makes their reader panic or keep what it was not given.
//!
//! `cargo +nightly fuzz run tracefs`; a failure goes into `corpus/tracefs` under a name that says what it was.

#![no_main]

#[path = "../drive_tracefs.rs"]
mod drive_tracefs;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_tracefs::drive(data));
