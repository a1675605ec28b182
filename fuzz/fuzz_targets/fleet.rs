//! Messages from etcd, another server or anybody who writes there never make a server of a fleet panic, or give away more than there is.
//!
//! `cargo +nightly fuzz run fleet`; a failure goes into `corpus/fleet` under a name that says what it was.

#![no_main]

#[path = "../drive_fleet.rs"]
mod drive_fleet;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive_fleet::drive(data));
