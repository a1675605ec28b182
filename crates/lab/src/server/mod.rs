//! How long do clients of a storage server wait, under one way to schedule its workers or another?

mod disks;
mod engine;
mod laws;
mod locks;
mod log;
mod model;
mod outcome;
mod random;
mod spec;

pub use engine::Discipline;
pub use laws::Violation;
pub use outcome::{Responses, Returns, ServerOutcome};
pub use spec::*;

use model::Model;

/// Temporary.
///
/// # Errors
/// Never.
pub fn run<S: Discipline>(
    platform: &PlatformSpec,
    workload: &WorkloadSpec,
    costs: &CostSpec,
    rate: f64,
    requests: u32,
    scheduler: S,
    seed: u64,
    (warm_up, end): (u64, u64),
) -> Result<ServerOutcome, Violation> {
    let model = Model::new(platform, workload, costs, rate, requests);
    engine::Engine::new(&model, scheduler, seed).run(warm_up, end)
}
