//! The status of a governor, for people and tools.

use ioweir_core::Nanos;
use ioweir_core::background::{Service, time_to_clear};
use serde::{Deserialize, Serialize};

use super::governor::Governor;

/// A governor's status. Everything in it is counted from when its state began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// The time.
    pub now_unix_seconds: i64,
    /// When the last sample came, if one did.
    pub sampled_unix_seconds: Option<i64>,
    /// Whether samples are missing, so that the foreground is taken to want everything.
    pub is_stale: bool,
    /// The share of a device's time, or of the cores, in thousandths, that background work may use now.
    pub granted_per_mille: u32,
    /// The share that background work holds: its slices, but for those that were told to end, and the units that make up for slices which
    /// took too much.
    pub running_per_mille: u32,
    /// The share of idle units that the objective lets background work use: 1000 is all of them.
    pub open_per_mille: u32,
    /// The last latency that was measured, at the objective's quantile.
    pub latency_seconds: Option<f64>,
    /// The objective.
    pub latency_max_seconds: Option<f64>,
    /// The number of samples with a latency. `samples_above` counts those above the objective, and `samples_above_beside_background` those
    /// of them while background work ran, which it may have caused.
    pub samples: u64,
    /// Samples above the objective.
    pub samples_above: u64,
    /// Samples above the objective while background work ran.
    pub samples_above_beside_background: u64,
    pub forecast: ForecastStatus,
    pub services: Vec<ServiceStatus>,
    /// Limits and promises that cannot be kept, and the reasons why the forecast is trusted less than usual.
    pub notes: Vec<String>,
}

/// How good the forecast is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ForecastStatus {
    /// Bins of the last day that were measured and forecast.
    pub bins: usize,
    /// The mean error of the expected load in them, in percent of the load.
    pub error_percent: Option<f64>,
    /// The share of them that were not above the high quantile, in percent.
    pub covered_percent: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceStatus {
    /// The name of the service.
    pub service: &'static str,
    /// The bytes that the service owes, with those being paid.
    pub owed_bytes: u64,
    /// When the first of that is due.
    pub due_unix_seconds: Option<i64>,
    /// How much later than necessary it could begin with half of the device, or of the cores: below zero, it is in danger.
    pub slack_seconds: Option<i64>,
    /// Whether a slice runs.
    pub is_running: bool,
    /// The reason why the debt waits.
    pub waits: Option<&'static str>,
    /// Bytes of its debt that a second of the device's time, or of a core, pays, as learnt.
    pub bytes_per_device_second: u64,
    #[serde(flatten)]
    pub count: ServiceCount,
}

/// The counters of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceCount {
    /// Bytes of debt that were paid.
    pub paid_bytes: u64,
    /// Device or core time that the payments took.
    pub device_nanos: u64,
    /// Bytes that were paid after they were due.
    pub late_bytes: u64,
    /// Slices that had to be ended.
    pub overruns: u64,
    /// When the service last owed nothing.
    pub finished_unix_seconds: Option<i64>,
    /// When new debt arises, for a service with a period.
    pub next_unix_nanos: Option<u64>,
    /// Bytes paid that make no whole block yet.
    pub rest_bytes: u64,
}

/// A bin that is over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BinRecord {
    /// When it began.
    pub start_unix_seconds: i64,
    /// The foreground's load in thousandths of the device, or of the cores; `None` if less than half of the bin was measured.
    pub actual_per_mille: Option<u32>,
    /// The forecast of that load: the low quantile, the expected load, the high quantile.
    pub forecast_per_mille: Option<[u32; 3]>,
    /// Bytes of debt paid in the bin, by service.
    pub paid_bytes: Vec<(String, u64)>,
    /// The bytes owed at the end of the bin, by service.
    pub owed_bytes: Vec<(String, u64)>,
    /// Samples above the objective.
    pub above: u64,
}

/// A bin of the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedBin {
    /// When it begins.
    pub start_unix_seconds: i64,
    /// The low quantile, the expected load, the high quantile: in thousandths of the device, or of the cores.
    pub forecast_per_mille: [u32; 3],
    /// The share that is reserved for background work.
    pub reserve_per_mille: u32,
    /// The most that background work may use.
    pub limit_per_mille: u32,
    /// Bytes of debt that are paid if as much comes as the high quantile says, by service.
    pub pay_bytes: Vec<(String, u64)>,
}

impl Governor {
    /// The status at a time.
    #[must_use]
    pub fn status(&self, now: Nanos) -> Status {
        let units = u64::from(self.spec.resource().units());
        let of_units = |count: u32| (u64::from(count) * 1000 / units) as u32;
        let nanos = |nanos: u64| (nanos / 1_000_000_000) as i64;
        let held = self.spec.resource().units().saturating_sub(self.executor.foreground_units());
        Status {
            now_unix_seconds: nanos(now.0),
            sampled_unix_seconds: self.known.sampled_nanos.map(nanos),
            is_stale: self.is_stale(now),
            granted_per_mille: of_units(self.executor.granted_units()),
            running_per_mille: of_units(held),
            open_per_mille: self.executor.open_per_mille(),
            latency_seconds: self.known.latency_nanos.map(|latency| Nanos(latency).as_seconds()),
            latency_max_seconds: self.spec.objective.as_ref().map(|most| most.latency_max.nanos().as_seconds()),
            samples: self.known.samples,
            samples_above: self.known.above,
            samples_above_beside_background: self.known.above_beside,
            forecast: self.forecast_status(),
            services: self.spec.services().map(|(service, _)| self.service_status(service, now)).collect(),
            notes: self.known.notes.clone(),
        }
    }

    fn forecast_status(&self) -> ForecastStatus {
        let bins_a_day = (86_400_000_000_000 / self.spec.bin().0) as usize;
        let known = |bin: &BinRecord| Some((f64::from(bin.actual_per_mille?), bin.forecast_per_mille?));
        let bins: Vec<_> = self.known.past.iter().rev().take(bins_a_day).filter_map(known).collect();
        let load: f64 = bins.iter().map(|(actual, _)| actual).sum();
        let error: f64 = bins.iter().map(|(actual, forecast)| (actual - f64::from(forecast[1])).abs()).sum();
        let covered = bins.iter().filter(|(actual, forecast)| *actual <= f64::from(forecast[2])).count();
        ForecastStatus {
            bins: bins.len(),
            error_percent: (load > 0.0).then(|| 100.0 * error / load),
            covered_percent: (!bins.is_empty()).then(|| 100.0 * covered as f64 / bins.len() as f64),
        }
    }

    fn service_status(&self, service: Service, now: Nanos) -> ServiceStatus {
        let settings = self.executor.service(service);
        let operation = self.spec.settings().operation;
        let half = self.spec.resource().units().div_ceil(2);
        let block = self.spec.block_bytes();
        let running: Vec<_> = self.executor.running().filter(|slice| slice.service == service).collect();
        let mut blocks: u64 = running.iter().map(|slice| slice.blocks).sum();
        let mut due = running.iter().map(|slice| slice.due_at).min().unwrap_or(Nanos::NEVER);
        let mut slack: Option<i64> = None;
        for batch in self.executor.queues()[service as usize].batches().filter(|batch| batch.due_at != Nanos::NEVER) {
            blocks = blocks.saturating_add(batch.blocks);
            due = due.min(batch.due_at);
            let needs = time_to_clear(settings.work(blocks), operation, half).max(settings.pace(blocks));
            let spare = i128::from(batch.due_at.0) - i128::from(now.0) - i128::from(needs.0);
            let spare = (spare / 1_000_000_000) as i64;
            slack = Some(slack.map_or(spare, |least| least.min(spare)));
        }
        // A millisecond of the device, or of a core, is an operation.
        let rate = u128::from(block) * 1_000_000 / u128::from(settings.cost_per_mille.max(1));
        ServiceStatus {
            service: service.name(),
            owed_bytes: self.executor.debt_blocks(service).saturating_mul(block),
            due_unix_seconds: (due != Nanos::NEVER).then_some((due.0 / 1_000_000_000) as i64),
            slack_seconds: slack,
            is_running: !running.is_empty(),
            waits: self.executor.waits(service).map(ioweir_core::background::Hold::name),
            bytes_per_device_second: u64::try_from(rate).unwrap_or(u64::MAX),
            count: self.known.counts.get(service.name()).copied().unwrap_or_default(),
        }
    }
}
