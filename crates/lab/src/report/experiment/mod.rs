//! How does a finished experiment read: on a terminal, as data, in a document, as a page?
//!
//! Terminal, Markdown and page show the same tables; JSON and CSV have every figure by its name in the table of metrics.

mod data;
mod page;

use std::fmt::Write as _;

use super::terminal::push_rows;
use super::{Form, ReportError};
use crate::experiment::{ExperimentReport, Figure, METRICS, Metric, Summary};
use crate::reproduce::Table;
use crate::sim::Outcome;
use ioweir_config::{format_count, format_decimals, shown};
use ioweir_core::Reason;

/// Renders an experiment in `form`.
///
/// # Errors
/// [`ReportError`] where it cannot be written, which is a defect of the program.
pub fn render_experiment(report: &ExperimentReport, form: Form) -> Result<String, ReportError> {
    match form {
        Form::Json => data::json(report),
        Form::Csv => Ok(data::csv(report)),
        Form::Markdown => Ok(markdown(report)),
        Form::Html => page::page(report),
    }
}

/// Renders the tables for a terminal; the last line ends in a newline too.
#[must_use]
pub fn render_experiment_terminal(report: &ExperimentReport, colour: bool) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(out, "{}", shown(&title(report)));
    for table in tables(report) {
        let _ = writeln!(out, "\n{}\n", shown(&table.title));
        let columns = std::iter::once(String::new()).chain(table.columns).collect();
        let rows = table.rows.into_iter().map(|(name, cells)| std::iter::once(shown(&name)).chain(cells).collect());
        push_rows(&mut out, columns, rows, colour);
    }
    out
}

fn title(report: &ExperimentReport) -> String {
    let experiment = &report.experiment;
    let name = if experiment.title.is_empty() { "Experiment" } else { &experiment.title };
    let seeds = match experiment.seeds.len() {
        1 => "one seed".to_owned(),
        seeds => format!("means of {seeds} seeds with 95 % intervals"),
    };
    format!("{name}: {} after {} of warm-up, {seeds}", experiment.duration, experiment.warm_up)
}

fn markdown(report: &ExperimentReport) -> String {
    let mut out = format!("# {}\n", escaped(&title(report)));
    for table in tables(report) {
        let _ = writeln!(out, "\n## {}\n\n{}\n", escaped(&table.title), escaped(&table.text));
        let _ = writeln!(out, "| | {} |", table.columns.join(" | "));
        let _ = writeln!(out, "|---|{}", "---:|".repeat(table.columns.len()));
        for (name, cells) in &table.rows {
            let _ = writeln!(out, "| {} | {} |", escaped(name), cells.join(" | "));
        }
    }
    let meta = &report.meta;
    let _ = writeln!(
        out,
        "\nioweir {} ({}), experiment {}\n\n    {}",
        meta.version,
        meta.commit,
        meta.spec_sha256,
        shown(&meta.command)
    );
    out
}

fn escaped(text: &str) -> String {
    super::markdown::escaped(text)
}

/// What is shown, wherever there are tables.
fn tables(report: &ExperimentReport) -> Vec<Table> {
    let mut tables = vec![classes(report)];
    tables.extend(ratios(report));
    tables.push(runs(report));
    tables.extend(waits(report));
    tables.extend(expectations(report));
    tables
}

/// Scheduler and point, as far as they differ within the report.
fn name(report: &ExperimentReport, summary: &Summary) -> String {
    let mut words = Vec::new();
    if report.experiment.schedulers.len() > 1 || summary.point.is_empty() {
        words.push(summary.scheduler.clone());
    }
    words.extend(summary.point.iter().map(|(key, value)| format!("{key} = {value}")));
    words.join(", ")
}

fn show(figure: Option<Figure>, is_time: bool) -> String {
    let Some(Figure { mean, half_width, .. }) = figure else { return "-".into() };
    let scale = if is_time { 1e3 } else { 1.0 };
    let number = |value: f64| {
        let value = value * scale;
        let decimals = match value.abs() {
            size if size >= 1000.0 => 0,
            size if size >= 10.0 => 1,
            _ => 3,
        };
        format_decimals(value, decimals)
    };
    match half_width {
        Some(half_width) => format!("{} ± {}", number(mean), number(half_width)),
        None => number(mean),
    }
}

fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// Columns of the table of classes: head, metric.
const CLASS_COLUMNS: [(&str, &str); 7] = [
    ("IOPS", "iops"),
    ("mean (ms)", "latency_mean"),
    ("p50 (ms)", "latency_p50"),
    ("p99 (ms)", "latency_p99"),
    ("p99.9 (ms)", "latency_p999"),
    ("in device (ms)", "device_mean"),
    ("fast share", "fast_share"),
];

fn classes(report: &ExperimentReport) -> Table {
    let refuses = report.summaries.iter().flat_map(|summary| &summary.cells);
    let refuses = refuses.flat_map(|cell| &cell.classes).any(|class| class.refused > 0);
    let mut columns = CLASS_COLUMNS.to_vec();
    if refuses {
        columns.push(("refused/s", "refused_per_second"));
    }
    let mut rows = Vec::new();
    for summary in &report.summaries {
        for class in summary.classes() {
            let count: u64 = summary
                .cells
                .iter()
                .flat_map(|cell| &cell.classes)
                .filter(|result| result.name == class)
                .map(|result| result.requests)
                .sum();
            let figure = |name: &str| {
                metric(name)
                    .map_or_else(String::new, |metric| show(summary.figure(metric, Some(class)), metric.is_time))
            };
            let mut cells = vec![format_count(count)];
            cells.extend(columns.iter().map(|(_, name)| figure(name)));
            rows.push((format!("{}: {class}", name(report, summary)), cells));
        }
    }
    let mut heads = vec!["requests".to_owned()];
    heads.extend(columns.iter().map(|(head, _)| (*head).to_owned()));
    Table {
        title: "Classes".into(),
        text: "Requests done after the warm-up, of all seeds; latency from arrival to completion.".into(),
        columns: heads,
        rows,
    }
}

/// IOPS of each class by those of the last.
fn ratios(report: &ExperimentReport) -> Option<Table> {
    let iops = metric("iops")?;
    let classes: Vec<&str> = report.summaries.first()?.classes().collect();
    let (last, others) = classes.split_last()?;
    if others.is_empty() {
        return None;
    }
    let row = |summary: &Summary| {
        let ratio = |class: &&str| {
            let each = summary.cells.iter().filter_map(|cell| {
                let ratio = iops.of(cell, Some(class))? / iops.of(cell, Some(last))?;
                ratio.is_finite().then_some(ratio)
            });
            show(Figure::of(&each.collect::<Vec<f64>>()), false)
        };
        (name(report, summary), others.iter().map(ratio).collect())
    };
    Some(Table {
        title: format!("IOPS by those of {last}"),
        text: "Ratios, not differences; the mean of each seed's ratio.".into(),
        columns: others.iter().map(|class| (*class).to_owned()).collect(),
        rows: report.summaries.iter().map(row).collect(),
    })
}

/// Columns of the table of runs.
const RUN_COLUMNS: [(&str, &str); 5] = [
    ("IOPS", "iops"),
    ("Jain's index", "jain"),
    ("work conservation", "work_conservation"),
    ("fast tier busy", "fast_busy"),
    ("slow tier busy", "slow_busy"),
];

fn runs(report: &ExperimentReport) -> Table {
    let row = |summary: &Summary| {
        let figure = |(_, name): &(&str, &str)| {
            metric(name).map_or_else(String::new, |metric| show(summary.figure(metric, None), metric.is_time))
        };
        (name(report, summary), RUN_COLUMNS.iter().map(figure).collect())
    };
    Table {
        title: "All together".into(),
        text: "Jain's index is of what each client got for its weight. Work is conserved while the device holds all that it \
               may whenever anything waits. A device without tiers counts as the slow one."
            .into(),
        columns: RUN_COLUMNS.iter().map(|(head, _)| (*head).to_owned()).collect(),
        rows: report.summaries.iter().map(row).collect(),
    }
}

/// How many requests waited on average, by reason.
fn waits(report: &ExperimentReport) -> Option<Table> {
    let cells = || report.summaries.iter().flat_map(|summary| &summary.cells);
    let met = |reason: &Reason| cells().any(|cell| cell.wait_nanos[*reason as usize] > 0);
    let reasons: Vec<Reason> = Reason::ALL.into_iter().filter(met).collect();
    let row = |summary: &Summary| {
        let mean = |reason: &Reason| {
            let share = |cell: &Outcome| cell.wait_nanos[*reason as usize] as f64 / cell.span.0 as f64;
            let each = summary.cells.iter().map(share);
            show(Figure::of(&each.collect::<Vec<f64>>()), false)
        };
        (name(report, summary), reasons.iter().map(mean).collect())
    };
    (!reasons.is_empty()).then(|| Table {
        title: "Requests waiting, by reason".into(),
        text:
            "How many waited before the device at a time, on average; `ioweir doc reason` says what the reasons mean."
                .into(),
        columns: reasons.iter().map(|reason| reason.name().to_owned()).collect(),
        rows: report.summaries.iter().map(row).collect(),
    })
}

fn expectations(report: &ExperimentReport) -> Option<Table> {
    let row = |verdict: &crate::experiment::Verdict| {
        let word = if verdict.met { "met" } else { "NOT MET" };
        (verdict.words(), vec![word.to_owned()])
    };
    (!report.verdicts.is_empty()).then(|| Table {
        title: "Expectations".into(),
        text: "Means over the seeds.".into(),
        columns: vec!["verdict".into()],
        rows: report.verdicts.iter().map(row).collect(),
    })
}
