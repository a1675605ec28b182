//! The laboratory: traces, device models, simulator, statistics, reports.
//!
//! The rule of this crate: the same input and seed give the same bytes. No clock, no sockets, no threads inside one run.
//!
//! Features leave out whole subjects, for builds that are to be quick: `advise` and `servers` with what only they use.
#![cfg_attr(
    not(all(feature = "advise", feature = "servers")),
    allow(dead_code, unused_imports, reason = "what several subjects share is there although some are left out")
)]

#[cfg(feature = "advise")]
pub mod advise;
#[cfg(feature = "advise")]
pub mod calibration;
pub mod compare;
pub mod document;
pub mod experiment;
pub mod gate;
#[cfg(feature = "advise")]
pub mod replay;
pub mod run;
#[cfg(feature = "servers")]
pub mod server;
pub mod sim;
pub mod spec;
#[cfg(feature = "parquet")]
pub mod sweep;
pub mod trace_info;
#[cfg(feature = "advise")]
pub mod validation;
pub mod workload;
