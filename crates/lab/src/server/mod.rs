//! A model of a storage server, which computes the response times of its clients under a schedule of its workers.
//!
//! A server is a platform under a workload, with a set of costs; a load is a share of the highest that it can take. Each is written as a
//! machine ([`crate::sim`]) with its cores, log, locks and disks, and run as any other: what is here is how a file says it, the search for the
//! highest load, and the report.

mod check;
mod document;
mod experiment;
mod outcome;
mod presets;
#[expect(clippy::module_inception, reason = "the server itself, put together")]
mod server;
mod spec;
mod sweep;
#[cfg(test)]
mod tests;
mod translate;

pub use experiment::{Peak, ServerCell, ServerExperiment, ServerReport, ServerRow, key_tables};
pub use outcome::{BACKLOG_MAX, Responses, ServerOutcome};
pub use presets::{COST_SETS, COSTS, PLATFORMS, Part, ServerPreset, WORKLOADS};
pub use server::{Server, ServerLoad};
pub use spec::{
    BackEndSpec, CostSpec, DiskSpec, FlashCacheSpec, FlushSpec, OperationKind, OperationSpec, PlatformSpec,
    PrefetchSpec, SwingSpec, TailSpec, WorkCost, WorkloadSpec,
};
pub use sweep::{RunLength, Stationarity, peak, repeated, stationarity};
