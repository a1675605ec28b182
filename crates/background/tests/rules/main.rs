//! Rules of series, forecasts, plans and the governor.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod forecast;
mod govern;
mod plan;
mod plan_example;
mod plan_load;
mod plan_made;
mod plan_policy;
mod plan_rest;
mod plan_series;
mod plan_timers;
mod series;
mod specs;
