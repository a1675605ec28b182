//! Tests of the claims in the head comments and rows of tenant policies.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broken;
mod changes;
mod failures;
mod fairness;
mod golden;
mod latency;
mod limits;
mod many;
mod models;
mod rewards;
mod room;
mod starvation;
mod times;
pub(crate) mod world;
