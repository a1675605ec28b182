//! The laboratory: traces, device models, simulator, statistics, reports.
//!
//! The rule of this crate: the same input and seed give the same bytes. No clock, no sockets, no threads inside one run.

pub mod advise;
pub mod calibration;
pub mod compare;
pub mod document;
pub mod experiment;
pub mod forecast;
pub mod govern;
pub mod plan;
pub mod replay;
pub mod reproduce;
pub mod run;
pub mod series;
pub mod server;
pub mod sim;
pub mod spec;
#[cfg(feature = "parquet")]
pub mod sweep;
pub mod trace_info;
pub mod validation;
pub mod workload;
