//! Rules of runs, experiments, forecasts, plans and reports.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod calibration;
mod cfq_kernel;
mod every_run;
mod experiment;
mod external;
mod forecast;
mod generate;
mod govern;
mod machine;
mod one_run;
mod plan;
mod plan_example;
mod plan_load;
mod plan_made;
mod plan_policy;
mod plan_rest;
mod plan_series;
mod plan_timers;
mod reproduce;
mod series;
mod specs;
mod tiers;
mod validation;
