//! The laboratory: traces, device models, simulator, statistics, reports.
//!
//! The rule of this crate: the same input and seed give the same bytes. No clock, no sockets, no threads inside one run.
//!
//! The feature `servers` adds the model of a storage server, and `parquet` sweeps: builds that are to be quick leave them out.

pub mod compare;
pub mod document;
pub mod experiment;
pub mod gate;
pub mod run;
#[cfg(feature = "servers")]
pub mod server;
pub mod sim;
pub mod spec;
#[cfg(feature = "parquet")]
pub mod sweep;
pub mod trace_info;
pub mod workload;
