//! The numbers behind the claims: tables and charts.

use super::cells::{BASELINE, Done, Figure as Read};
use super::claims::{MEAN, P99};
use crate::report::{Axis, Chart, Figure, Mark, Series};
use crate::reproduce::{Claim, Table};
use ioweir_config::format_decimals;

/// Everything that was run, cell by cell.
pub(super) fn tables(done: &[Done]) -> Vec<Table> {
    let mut tables: Vec<Table> = done.iter().map(responses).collect();
    tables.push(left_to_win(done));
    tables.push(peaks(done));
    tables
}

fn title(done: &Done) -> String {
    format!("{} under {}", done.cell.platform, done.cell.workload)
}

fn columns(done: &Done) -> Vec<String> {
    let rate = |share: &f64| format!("{} a second ({:.1} %)", format_decimals(done.peaks[0] * share, 0), share * 100.0);
    done.loads.iter().map(rate).collect()
}

/// A schedule's row: mean response times and changes, with their intervals.
fn responses(done: &Done) -> Table {
    let cell = |schedule: &str, load: usize| {
        let Some(seconds) = done.value(schedule, load, MEAN) else { return "-".into() };
        let saturated = if done.runs(schedule, load).iter().any(|run| run.saturated) { ", saturated" } else { "" };
        let mean = format!("{:.3} ms", seconds * 1e3);
        if schedule == BASELINE {
            let turn = done.value(schedule, load, |run| run.turn_share).unwrap_or(0.0);
            let log = done.value(schedule, load, |run| run.log_fill).unwrap_or(0.0);
            return format!("{mean} (turns {:.1} %, log {:.0} %{saturated})", turn * 100.0, log * 100.0);
        }
        let Some(ratio) = done.ratio(schedule, BASELINE, load, MEAN) else { return mean };
        let interval = ratio.half_width.map_or(String::new(), |half| format!(" ± {:.1}", half * 100.0));
        format!("{:+.1} %{interval} ({mean}{saturated})", ratio.percent())
    };
    let row = |schedule: &&str| {
        let cells = (0..done.loads.len()).map(|load| cell(schedule, load)).collect();
        ((*schedule).to_string(), cells)
    };
    Table {
        title: format!("{}: mean response time", title(done)),
        text: "Change against the baseline at the same load, with its interval over seeds (95 %), and the time itself. Of the \
baseline also the share of the workers' time that turns take, and the most that was in the log."
            .into(),
        columns: columns(done),
        rows: done.cell.schedules.iter().map(row).collect(),
    }
}

/// What adaptive gains, and what the oracle shows to be left.
fn left_to_win(done: &[Done]) -> Table {
    let change = |done: &Done, schedule: &str, read: Read| {
        let changes = done.changes(schedule, BASELINE, read, super::cells::HEAVY);
        let count = changes.len().max(1) as f64;
        format!("{:+.1} %", changes.iter().sum::<f64>() / count)
    };
    let schedules = ["sord", "qats", "combo", "adaptive", "oracle"];
    let columns = schedules.iter().flat_map(|name| [format!("{name}, mean"), format!("{name}, p99")]).collect();
    let row = |done: &Done| {
        let cells = schedules.iter().flat_map(|name| [change(done, name, MEAN), change(done, name, P99)]).collect();
        (title(done), cells)
    };
    Table {
        title: "Beyond the paper: what is left to win".into(),
        text: "Change against the baseline, mean over the loads from 86 % of the peak on. The oracle knows what each request still \
needs of a processor and takes the shortest first; it also lets prefetches wait for ever, as they are long and no client's."
            .into(),
        columns,
        rows: done.iter().map(row).collect(),
    }
}

fn peaks(done: &[Done]) -> Table {
    let row = |done: &Done| {
        let [baseline, combo] = done.peaks;
        let cells = vec![
            format_decimals(baseline, 0),
            format_decimals(combo, 0),
            format!("{:+.2} %", (combo / baseline - 1.0) * 100.0),
        ];
        (title(done), cells)
    };
    Table {
        title: "Peaks: the highest load within the response limit, requests a second".into(),
        text: "30 ms, on all-flash 10 ms. Found by bisection, to a thousandth of what the cores could do.".into(),
        columns: ["baseline", "combo", "change"].map(String::from).to_vec(),
        rows: done.iter().map(row).collect(),
    }
}

/// Response times over load, and the paper's numbers beside ours.
pub(super) fn figures(done: &[Done], claims: &[(Claim, Option<f64>)]) -> Vec<Figure> {
    let charts = done.iter().map(|done| {
        let series = done.cell.schedules.iter().filter(|name| !name.contains(':')).map(|schedule| {
            let points = (0..done.loads.len()).filter_map(|load| {
                Some((done.peaks[0] * done.loads[load] / 1e3, done.value(schedule, load, MEAN)? * 1e3))
            });
            Series::new(*schedule, Mark::Line, points.collect())
        });
        Chart {
            title: title(done),
            across: Axis::new("thousand requests a second"),
            upward: Axis { logarithmic: true, ..Axis::new("mean response time, ms") },
            series: series.collect(),
        }
    });
    let load = Figure {
        title: "Mean response time over load".into(),
        text: "Loads are shares of the baseline's peak.".into(),
        charts: charts.collect(),
    };
    let bars = ["4", "5", "6", "7", "8"].map(|figure| bars(figure, claims));
    let sides = Figure {
        title: "The paper and ours".into(),
        text: "Change of the mean response time (of peaks: of requests a second) in percent, claim by claim.".into(),
        charts: bars.into_iter().collect(),
    };
    vec![load, sides]
}

/// The claims of a figure that are numbers.
fn bars(figure: &str, claims: &[(Claim, Option<f64>)]) -> Chart {
    let shown: Vec<(&Claim, f64)> = claims
        .iter()
        .filter(|(claim, _)| claim.figure.starts_with(figure))
        .filter_map(|(claim, paper)| Some((claim, (*paper)?)))
        .collect();
    let points = |value: &dyn Fn(&(&Claim, f64)) -> f64| -> Vec<(f64, f64)> {
        shown.iter().enumerate().map(|(at, row)| (at as f64, value(row))).collect()
    };
    Chart {
        title: format!("Figure {figure}"),
        across: Axis::categories(
            "claim",
            shown.iter().map(|(claim, _)| claim.id.trim_start_matches("fig").to_string()),
        ),
        upward: Axis::from_zero("%"),
        series: vec![
            Series::new("paper", Mark::Bars, points(&|row| row.1)),
            Series::new("ours", Mark::Bars, points(&|row| row.0.ours.unwrap_or(f64::NAN))),
        ],
    }
}
