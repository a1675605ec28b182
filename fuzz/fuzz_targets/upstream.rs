//! No byte sequence of a server makes the client's side of NBD panic, take data that was not asked for, or come out otherwise
//! when it is cut otherwise.
//!
//! `cargo +nightly fuzz run upstream`; a failure goes into `corpus/upstream` under a name that says what it was.

#![no_main]

#[path = "../drive_upstream.rs"]
mod drive_upstream;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_upstream::drive(data));
