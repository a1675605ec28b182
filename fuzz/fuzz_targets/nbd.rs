//! No byte sequence makes the NBD codec panic, or come out otherwise when it is cut otherwise.
//!
//! `cargo +nightly fuzz run nbd`; a failure goes into `corpus/nbd` under a name that says what it was.

#![no_main]

#[path = "../drive_nbd.rs"]
mod drive_nbd;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_nbd::drive(data));
