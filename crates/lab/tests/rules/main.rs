//! Rules of runs, experiments, models and reports.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod cfq_kernel;
mod every_run;
mod experiment;
mod external;
mod generate;
mod log;
mod machine;
mod memory;
mod one_run;
#[path = "../shared/sample.rs"]
mod sample;
mod specs;
mod tiers;
mod work;
