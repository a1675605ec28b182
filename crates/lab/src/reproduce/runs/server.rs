//! Runs of the model of a storage server: its platforms and workloads under schedules, at shares of its peak load.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Deserialize;

use super::{Context, Ran};
use crate::reproduce::ReproduceError;
use crate::reproduce::results::Cell;
use crate::server::{
    COSTS, CostSpec, PLATFORMS, Part, PlatformSpec, RunLength, Scheduling, Server, ServerError, ServerOutcome,
    WORKLOADS, WorkloadSpec, peak, repeated,
};

pub(super) const METRICS: &str = "peak rate share response_mean response_p99 restarted_0 restarted_1 restarted_2 restarted_3 turn_share log_fill saturated";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    /// Loads, as shares of the peak of the first schedule in `peaks`.
    loads: Vec<f64>,
    /// The number of swings of the load before a run is measured, and during the measurement.
    warm_up: u32,
    measured: u32,
    /// The number of swings that are measured in the search for a peak.
    search_measured: u32,
    /// The most runs of each load, with different seeds.
    runs_max: u64,
    /// The schedules whose peak is searched for.
    peaks: Vec<String>,
    /// Lists of schedules.
    schedules: BTreeMap<String, Vec<String>>,
    server: Vec<ServerRow>,
}

/// A server under a workload, and the name of its list of schedules.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerRow {
    platform: String,
    workload: String,
    schedules: String,
}

impl Spec {
    fn schedules(&self, row: &ServerRow) -> &[String] {
        self.schedules.get(&row.schedules).map_or(&[], Vec::as_slice)
    }
}

fn measured(cell: Cell, outcomes: &[ServerOutcome]) -> Cell {
    outcomes.iter().fold(cell, |cell, outcome| {
        let cell = cell
            .metric("response_mean", outcome.mean_seconds().unwrap_or(f64::NAN))
            .metric("response_p99", outcome.all.quantile_seconds(0.99).unwrap_or(f64::NAN))
            .metric("turn_share", outcome.turn_share)
            .metric("log_fill", outcome.log_fill_max)
            .metric("saturated", f64::from(u8::from(outcome.saturated)));
        let restarted = outcome.restart_percent().into_iter().enumerate();
        restarted.fold(cell, |cell, (count, percent)| cell.metric(&format!("restarted_{count}"), percent))
    })
}

pub(super) fn run(name: &str, spec: &Spec, context: Context<'_>) -> Result<Ran, ReproduceError> {
    let progress = context.progress;
    let costs = CostSpec::usual()?;
    let server = |row: &ServerRow| {
        let workload = WorkloadSpec::load(&row.workload)?;
        Ok(Server::new(PlatformSpec::load(&row.platform)?, workload, costs.clone())?)
    };
    let servers: Vec<Server> = spec.server.iter().map(server).collect::<Result<_, ServerError>>()?;
    let tasks: Vec<(usize, &str, f64)> = spec
        .server
        .iter()
        .enumerate()
        .flat_map(|(at, row)| spec.schedules(row).iter().map(move |schedule| (at, schedule.as_str())))
        .flat_map(|(at, schedule)| spec.loads.iter().map(move |load| (at, schedule, *load)))
        .collect();
    let searches: Vec<(usize, &str)> =
        (0..servers.len()).flat_map(|at| spec.peaks.iter().map(move |schedule| (at, schedule.as_str()))).collect();
    progress.started(searches.len() + tasks.len());
    let search = RunLength { warm_up: spec.warm_up, measured: spec.search_measured };
    let found = searches.par_iter().map(|(at, schedule)| {
        let found = peak(&servers[*at], &schedule.parse()?, search, 0);
        progress.finished(schedule);
        found
    });
    let found: Vec<f64> = found.collect::<Result<_, ServerError>>()?;
    let place = |at: usize, schedule: &str| {
        let ServerRow { platform, workload, .. } = &spec.server[at];
        Cell::new(name).at("platform", platform).at("workload", workload).at("schedule", schedule)
    };
    let length = RunLength { warm_up: spec.warm_up, measured: spec.measured };
    let runs = tasks.par_iter().map(|&(at, schedule, load)| {
        let scheduling: Scheduling = schedule.parse()?;
        let rate = found[at * spec.peaks.len()] * load;
        let outcomes = repeated(&servers[at], &scheduling, length, rate, spec.runs_max)?;
        progress.read(outcomes.iter().map(|outcome| outcome.simulated).sum());
        progress.finished(schedule);
        let cell = place(at, schedule).at("load", load).metric("rate", rate).metric("share", load);
        Ok(measured(cell, &outcomes))
    });
    let mut cells: Vec<Cell> = runs.collect::<Result<_, ServerError>>()?;
    cells.extend(searches.iter().zip(&found).map(|((at, schedule), peak)| place(*at, schedule).metric("peak", *peak)));
    let mut specs = vec![("Costs: one set for all figures".to_string(), COSTS.to_string())];
    for (what, presets) in [("Platform", PLATFORMS), ("Workload", WORKLOADS)] {
        specs.extend(presets.iter().map(|preset| (format!("{what} {}", preset.name), preset.parameters.to_string())));
    }
    Ok(Ran { cells, notes: vec![note(spec)], specs, ..Ran::default() })
}

fn note(spec: &Spec) -> String {
    let loads: Vec<String> = spec.loads.iter().map(|load| format!("{:.1}", load * 100.0)).collect();
    format!(
        "Loads are {} % of the baseline's peak. Runs measure {} swings of the load after {} of warm-up, at most {} times with other \
         seeds.",
        loads.join(", "),
        spec.measured,
        spec.warm_up,
        spec.runs_max
    )
}
