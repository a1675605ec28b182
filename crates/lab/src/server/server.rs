//! A server made of a platform, a workload and costs, and its runs.

use ioweir_core::Nanos;
use ioweir_core::cores::{Cores, CoresLimits};

use super::engine::Engine;
use super::model::{Model, log_bytes};
use super::{CostSpec, Oracle, Part, PlatformSpec, ServerError, ServerOutcome, WorkloadSpec};
use ioweir_config::{Complaint, ScheduleChoice, Size, SpecError};

/// The most requests in the server. A backlog of this size means that the server cannot keep up: at 90,000 requests per
/// second it is about a third of a second of arrivals.
pub const BACKLOG_MAX: u32 = 1 << 15;

/// The name of the scheduler that knows the work of each request.
pub const ORACLE: &str = "oracle";

/// The scheduler of a server's workers.
#[derive(Clone, Copy, Debug)]
pub enum Scheduling {
    /// A schedule of the table.
    Schedule(ScheduleChoice),
    /// A scheduler that knows how much work each request has.
    Oracle,
}

impl std::str::FromStr for Scheduling {
    type Err = ioweir_config::ChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == ORACLE { Ok(Self::Oracle) } else { text.parse().map(Self::Schedule) }
    }
}

/// The load of a run, and its length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerLoad {
    /// Mean client requests per second.
    pub requests_per_second: f64,
    /// Warm-up before the measurement.
    pub warm_up: Nanos,
    /// Length of the measurement.
    pub measured: Nanos,
    /// The number of equal parts of the measurement whose means are kept.
    pub batches: u32,
    /// Seed of everything random.
    pub seed: u64,
}

/// A validated server.
#[derive(Clone, Debug)]
pub struct Server {
    platform: PlatformSpec,
    workload: WorkloadSpec,
    costs: CostSpec,
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

    #[must_use]
    pub fn platform(&self) -> &PlatformSpec {
        &self.platform
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
        Model::new(&self.platform, &self.workload, &self.costs, 1.0, 1).capacity()
    }

    /// Runs the server. If it cannot keep up, it runs until its backlog is [`BACKLOG_MAX`].
    ///
    /// # Errors
    /// [`ServerError`] if the load or the schedule is invalid, or the run breaks a law.
    pub fn run(&self, scheduling: &Scheduling, load: &ServerLoad) -> Result<ServerOutcome, ServerError> {
        self.check(load)?;
        let Self { platform, workload, costs } = self;
        let requests = BACKLOG_MAX + 2 * costs.flush.operations;
        let model = Model::new(platform, workload, costs, load.requests_per_second, requests);
        let workers = model.workers;
        let end = load.warm_up.0 + load.measured.0;
        match scheduling {
            Scheduling::Oracle => Ok(Engine::new(&model, Oracle::new(requests, workers), load.seed).run(
                load.warm_up.0,
                end,
                load.batches,
            )?),
            Scheduling::Schedule(choice) => {
                let limits = CoresLimits { requests, workers, cores: platform.cores, seed: load.seed };
                let cores = Cores::new(choice.row.schedule(&choice.settings), limits)?;
                Ok(Engine::new(&model, cores, load.seed).run(load.warm_up.0, end, load.batches)?)
            }
        }
    }

    /// Checks that the load can run.
    fn check(&self, load: &ServerLoad) -> Result<(), SpecError> {
        let wrong =
            |key: &str, problem: String, hint: &str| Err(Complaint::new(key, problem, hint).in_file("load", None));
        let rate = load.requests_per_second;
        if !(1.0..=1e8).contains(&rate) {
            return wrong("requests_per_second", format!("{rate} is out of range"), "from 1 to 100 million");
        }
        if load.measured == Nanos::ZERO {
            return wrong("measured", "nothing is measured".into(), "a time above 0, such as \"10s\"");
        }
        let hour = Nanos::from_seconds(3600);
        if load.measured > hour || load.warm_up > hour {
            return wrong(
                "measured",
                "longer than an hour".into(),
                "an hour of simulated time at most, and as much before it",
            );
        }
        Ok(())
    }
}
