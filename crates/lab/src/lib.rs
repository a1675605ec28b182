//! The laboratory: traces, device models, simulator, statistics, reports.
//!
//! The rule of this crate: the same input and seed give the same bytes. No clock, no sockets, no threads inside one run.

pub mod choice;
pub mod compare;
pub mod device;
pub mod experiment;
pub mod forecast;
pub mod plan;
pub mod random;
pub mod report;
pub mod reproduce;
pub mod series;
pub mod server;
pub mod sim;
pub mod spec;
pub mod trace;
pub mod units;
pub mod workload;
