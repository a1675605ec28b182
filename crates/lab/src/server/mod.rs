//! A model of a storage server, which computes the response times of its clients under a schedule of its workers.
//!
//! A server has workers, one for each core, that run client requests and the server's own work; the schedules of
//! [`ioweir_core::cores`] decide which worker runs what, and for how long. A request needs processor time in one or more
//! phases, and between them waits for a disk, a lock, memory or room in the write log. Taking up a turn costs a worker time.
//! A write is answered once it is in the log, which consistency points empty.
//!
//! Four kinds of events drive simulated time: a request arrives, a worker finishes a step, a disk returns data, or a
//! consistency point is due. All random properties of a request come from its own seed, so that every schedule sees the same
//! requests. Every run checks the laws of queueing ([`Violation`]).

mod check;
mod completions;
mod document;
mod engine;
mod error;
mod experiment;
mod laws;
mod locks;
mod model;
mod oracle;
mod outcome;
mod presets;
mod random;
mod regions;
#[expect(clippy::module_inception, reason = "the server itself, put together")]
mod server;
mod spec;
mod sweep;
#[cfg(test)]
mod tests;

pub use error::ServerError;
pub use experiment::{Peak, ServerCell, ServerExperiment, ServerReport, ServerRow, key_tables};
pub use laws::Violation;
pub use oracle::Oracle;
pub use outcome::{Responses, Returns, ServerOutcome};
pub use presets::{COST_SETS, COSTS, PLATFORMS, Part, ServerPreset, WORKLOADS};
pub use server::{BACKLOG_MAX, ORACLE, Scheduling, Server, ServerLoad};
pub use spec::{
    BackEndSpec, CostSpec, DeadlineSpec, DiskSpec, FlashCacheSpec, FlushSpec, OperationKind, OperationSpec,
    PlatformSpec, PrefetchSpec, SwingSpec, TailSpec, WorkCost, WorkloadSpec,
};
pub use sweep::{RunLength, Stationarity, peak, repeated, stationarity};
