//! Devices that hold the same: what one leg loses, the others have, and no leg is taken for more than it is.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

#[path = "../../../../../fuzz/drive_mirror.rs"]
mod drive_mirror;
mod growth;
mod model;
mod rig;
mod rot;
mod rules;
mod service;
mod spec;
