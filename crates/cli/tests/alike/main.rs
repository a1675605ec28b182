//! The simulator and the server decide alike: a rule of two crates, tested where both are at hand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../serve/tests/rules/bench/mod.rs"]
mod bench;
mod capture;
#[path = "../../../serve/tests/rules/client/mod.rs"]
mod client;
mod real;
mod replay;
