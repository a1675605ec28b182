//! How long do clients of a storage server wait, under one way to schedule its workers or another?
//!
//! A server has workers, one a core, that run what its clients ask and what it has to do for itself; the schedules of
//! [`ioweir_core::cores`] say which worker runs what, for how long. Requests need processor time in one or more phases, and
//! between them wait for a disk, a lock, memory or room in the write log. Taking up a turn costs a worker time. Writes are
//! answered once they are in the log, which consistency points empty.
//!
//! Four things happen in simulated time: a request arrives, a worker is done with what it was doing, a disk has data, a
//! consistency point is due. Everything random about a request comes from its own seed, so that every schedule sees the same
//! requests. The laws of queueing ([`Violation`]) are checked in every run.

mod check;
mod disks;
mod engine;
mod error;
mod laws;
mod locks;
mod log;
mod model;
mod oracle;
mod outcome;
mod presets;
mod random;
#[expect(clippy::module_inception, reason = "the server itself, put together")]
mod server;
mod spec;
mod sweep;
#[cfg(test)]
mod tests;

pub use engine::Discipline;
pub use error::ServerError;
pub use laws::Violation;
pub use oracle::Oracle;
pub use outcome::{Responses, Returns, ServerOutcome};
pub use presets::{COSTS, PLATFORMS, Part, ServerPreset, WORKLOADS};
pub use server::{BACKLOG_MAX, ORACLE, Scheduling, Server, ServerLoad, ServerSpec};
pub use spec::{
    CostSpec, DeadlineSpec, DiskSpec, FlashCacheSpec, FlushSpec, OperationKind, OperationSpec, PlatformSpec,
    PrefetchSpec, SwingSpec, WorkCost, WorkloadSpec,
};
pub use sweep::{RunLength, peak, repeated};
