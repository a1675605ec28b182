//! A server made of a platform, a workload and costs, and its runs.

use ioweir_config::{Complaint, ScheduleChoice, Size, SpecError};
use ioweir_core::Nanos;

use super::translate::{log_bytes, machine, parts};
use super::{CostSpec, Part, PlatformSpec, ServerOutcome, WorkloadSpec};
use crate::experiment::{Experiment, jobs};
use crate::run::{Progress, RunError, only};
use crate::sim::Unobserved;

/// The load of a run, and its length in swings of the load, so that each run covers the heavy and the light part equally.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerLoad {
    /// Mean client requests per second.
    pub requests_per_second: f64,
    /// The number of swings before the measurement.
    pub warm_up: u32,
    /// The number of measured swings.
    pub measured: u32,
    /// Seed of everything random.
    pub seed: u64,
}

/// A validated server.
#[derive(Clone, Debug)]
pub struct Server {
    pub(super) platform: PlatformSpec,
    pub(super) workload: WorkloadSpec,
    pub(super) costs: CostSpec,
}

impl Server {
    /// Assembles a server.
    ///
    /// # Errors
    /// [`SpecError`] if a part is invalid.
    pub fn new(platform: PlatformSpec, workload: WorkloadSpec, costs: CostSpec) -> Result<Self, SpecError> {
        let complaints =
            [("platform", platform.complaint()), ("workload", workload.complaint()), ("costs", costs.complaint())];
        for (part, complaint) in complaints {
            if let Some(complaint) = complaint {
                return Err(complaint.in_file(part, None));
            }
        }
        let sizes = workload.operations.iter().flat_map(|operation| &operation.sizes);
        let largest = sizes.map(|(size, _)| size.0).max().unwrap_or(0).saturating_add(costs.flush.log_record.0);
        let log = Size(log_bytes(&platform, &costs));
        if largest > log.0 / 2 {
            let problem = format!("half of {log} does not hold a request of {largest} bytes");
            let complaint = Complaint::new("nvram", problem, "a larger log, or smaller requests in the workload");
            return Err(complaint.in_file("platform", None));
        }
        Ok(Self { platform, workload, costs })
    }

    /// The longest mean response time, in seconds, at which a load is acceptable.
    #[must_use]
    pub fn limit_seconds(&self) -> f64 {
        self.platform.response_max.nanos().0 as f64 / 1e9
    }

    /// The period in which the load swings.
    #[must_use]
    pub fn swing(&self) -> Nanos {
        self.costs.swing.period.nanos()
    }

    /// The load, in requests per second, at which requests alone take all worker time, without turns: an upper bound for any
    /// schedule.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        let nanos: f64 = parts(&self.workload).iter().map(|part| part.mean_nanos(&self.costs)).sum();
        let serial = |serial: crate::sim::SerialSpec| serial.length.nanos().0 as f64 / serial.window.nanos().0 as f64;
        let concurrent = 1.0 - self.costs.serial.map_or(0.0, serial);
        f64::from(self.platform.workers()) * concurrent * 1e9 / nanos.max(1.0)
    }

    /// Runs the machine of the server.
    ///
    /// # Errors
    /// [`RunError`] if the load or the schedule is invalid, or the run was stopped.
    pub fn run(
        &self,
        schedule: &ScheduleChoice,
        load: &ServerLoad,
        progress: &dyn Progress,
    ) -> Result<ServerOutcome, RunError> {
        let experiment = Experiment::parse("server", &machine(self, schedule, load)).map_err(RunError::Spec)?;
        let jobs = jobs(&experiment)?;
        let mut job = only(&jobs)?.clone();
        job.window.keeps_latencies = true;
        let (outcome, ended) = job.run(false, progress, &mut Unobserved)?;
        Ok(ServerOutcome::new(self, load, &outcome, ended.unfinished))
    }
}
