//! Runs of the model of a storage server: its platforms and workloads under schedules, at shares of its peak load.

use super::{Context, Ran};
use crate::ReproduceError;
use crate::cells::Cell;
use ioweir_lab::server::{COSTS, PLATFORMS, ServerCell, ServerExperiment, WORKLOADS};

pub(super) const METRICS: &str = "peak rate share response_mean response_p99 restarted_0 restarted_1 restarted_2 restarted_3 busy turn_share log_fill log_waits gate_waits preempted steady growth";

/// The numbers of a cell. Where there is no steady state, response times have no mean: they grow as long as the load lasts.
fn measured(cell: Cell, result: &ServerCell) -> Cell {
    let steady = result.stationarity;
    let cell = cell.metric("steady", f64::from(u8::from(steady.is_steady))).metric("growth", steady.growth_seconds);
    result.runs.iter().fold(cell, |cell, outcome| {
        let answered = outcome.all.answered().max(1) as f64;
        let percent = |count: u64| count as f64 * 100.0 / answered;
        let p99 = outcome.all.quantile_seconds(0.99).unwrap_or(f64::NAN);
        let cell = if steady.is_steady {
            let swings = outcome.swings.iter();
            swings.fold(cell, |cell, mean| cell.metric("response_mean", *mean)).metric("response_p99", p99)
        } else {
            cell.metric("response_mean", f64::INFINITY).metric("response_p99", f64::INFINITY)
        };
        let cell = cell
            .metric("busy", outcome.utilisation)
            .metric("turn_share", outcome.turn_share)
            .metric("log_fill", outcome.log_fill_max)
            .metric("log_waits", percent(outcome.returns.log))
            .metric("gate_waits", percent(outcome.returns.own_work))
            .metric("preempted", percent(outcome.returns.preempted));
        let restarted = outcome.restart_percent().into_iter().enumerate();
        restarted.fold(cell, |cell, (count, percent)| cell.metric(&format!("restarted_{count}"), percent))
    })
}

pub(super) fn run(name: &str, experiment: &ServerExperiment, context: Context<'_>) -> Result<Ran, ReproduceError> {
    let report = experiment.run(context.origin, context.progress)?;
    let place = |server: usize, schedule: &str| {
        let row = &experiment.servers[server];
        Cell::new(name).at("platform", &row.platform).at("workload", &row.workload).at("schedule", schedule)
    };
    let runs = report.cells.iter().map(|cell| {
        let place = place(cell.server, &cell.schedule).at("load", cell.load);
        measured(place.metric("rate", cell.requests_per_second).metric("share", cell.load), cell)
    });
    let peaks =
        report.peaks.iter().map(|peak| place(peak.server, &peak.schedule).metric("peak", peak.requests_per_second));
    let mut specs = vec![("Costs: one set for all figures".to_string(), COSTS.to_string())];
    for (what, presets) in [("Platform", PLATFORMS), ("Workload", WORKLOADS)] {
        specs.extend(presets.iter().map(|preset| (format!("{what} {}", preset.name), preset.parameters.to_string())));
    }
    Ok(Ran { cells: runs.chain(peaks).collect(), notes: vec![note(experiment)], specs, ..Ran::default() })
}

fn note(experiment: &ServerExperiment) -> String {
    let loads: Vec<String> = experiment.loads.iter().map(|load| format!("{:.1}", load * 100.0)).collect();
    format!(
        "Loads are {} % of the baseline's peak. Runs measure {} swings of the load after {} of warm-up, at most {} times with other \
         seeds.",
        loads.join(", "),
        experiment.measured,
        experiment.warm_up,
        experiment.runs_max
    )
}
