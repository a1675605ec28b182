//! A comparison on a terminal.
//!
//! For each trace and load: one table of results, one of where the time went, one or two sentences. The best value of a
//! column carries a `*`, so that it reads the same without colour; where colour is allowed it is bold as well.

use std::fmt::Write as _;

use comfy_table::{Attribute, Cell as TableCell, CellAlignment, ContentArrangement, Table};
use ioweir_core::Reason;

use super::columns::{COLUMNS, Cell, Column, column_texts};
use super::headline::{advice, headline, overall};
use super::numbers as n;
use super::{ReportError, Section, View, sections};
use crate::compare::Report;
use crate::experiment::{Figure, Summary};
use crate::sim::Outcome;
use ioweir_config::{format_count, format_decimals, shown};

/// Renders the tables of `report`; the lines end in newlines, the last one too.
///
/// # Errors
/// [`ReportError::UnknownReference`] where the view's reference is not among the results.
pub fn render_terminal(report: &Report, view: &View) -> Result<String, ReportError> {
    let mut out = String::new();
    let sections = sections(report, view)?;
    let over_seeds = report.over_seeds();
    if !over_seeds.is_empty() {
        push_over_seeds(&mut out, &over_seeds, view.colour);
        return Ok(out);
    }
    for (index, section) in sections.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        push_section(&mut out, section, view.colour);
    }
    if sections.len() > 1 {
        let _ = writeln!(out, "\n{}", shown(&overall(&sections)));
    }
    Ok(out)
}

/// Streams of a scheduler that are shown.
const STREAMS_SHOWN: usize = 10;

/// The streams whose requests waited longest.
fn push_streams(out: &mut String, section: &Section<'_>, colour: bool) {
    let millis = |nanos: u64| format_decimals(nanos as f64 / 1e6, 3);
    let mut rows = Vec::new();
    for outcome in &section.outcomes {
        for stream in outcome.streams.iter().take(STREAMS_SHOWN) {
            rows.push(vec![
                shown(&format!("{}: {}", outcome.scheduler, stream.name)),
                format_count(stream.requests),
                millis(stream.latency_sum_nanos / stream.requests.max(1)),
                millis(stream.latency_p50_nanos),
                millis(stream.latency_p99_nanos),
                millis(stream.latency_max_nanos),
            ]);
        }
        let others = outcome.streams.len().saturating_sub(STREAMS_SHOWN);
        if others > 0 {
            let name = format!("{}: {} others", outcome.scheduler, format_count(others as u64));
            rows.push(std::iter::once(shown(&name)).chain(vec!["-".into(); 5]).collect());
        }
    }
    if !rows.is_empty() {
        out.push('\n');
        let heads = ["\nstream", "requests\n", "latency mean\nms", "p50\nms", "p99\nms", "max\nms"];
        push_rows(out, heads.map(String::from).to_vec(), rows, colour);
    }
}

/// A table for each trace, device, depth and load: means over the seeds with their intervals.
fn push_over_seeds(out: &mut String, summaries: &[Summary], colour: bool) {
    let title = |outcome: &Outcome| {
        let volume = if outcome.volume.is_empty() { String::new() } else { format!(", volume {}", outcome.volume) };
        format!("{}{volume} on {}, depth {}, load {}", outcome.trace, outcome.device, outcome.depth, outcome.load)
    };
    for block in summaries.chunk_by(|left, right| title(&left.cells[0]) == title(&right.cells[0])) {
        if !out.is_empty() {
            out.push('\n');
        }
        let first = &block[0];
        let kind = if first.are_samples() { "samples of the trace" } else { "seeds" };
        let _ =
            writeln!(out, "{}\n{} {kind}; mean and 95 % interval\n", shown(&title(&first.cells[0])), first.cells.len());
        let row = |summary: &Summary| {
            let cell = |column: &Column| {
                let values: Vec<f64> = summary.cells.iter().filter_map(|outcome| column.of(outcome)).collect();
                let figure = if summary.are_samples() { Figure::of_samples(&values) } else { Figure::of(&values) };
                figure.map_or("-".into(), |figure| {
                    let half = figure.half_width.unwrap_or_default();
                    format!("{} ± {}", format_decimals(figure.mean, 3), format_decimals(half, 3))
                })
            };
            std::iter::once(shown(&summary.scheduler)).chain(OVER_SEEDS.iter().map(|at| cell(&COLUMNS[*at]))).collect()
        };
        let heads = OVER_SEEDS.iter().map(|at| COLUMNS[*at].title());
        let heads = std::iter::once("scheduler".to_owned()).chain(heads).collect();
        push_rows(out, heads, block.iter().map(row).collect::<Vec<Vec<String>>>(), colour);
    }
}

/// The columns of the table over seeds: completion, busy, mean, p99 and max.
const OVER_SEEDS: [usize; 5] = [0, 1, 3, 5, 6];

fn push_section(out: &mut String, section: &Section<'_>, colour: bool) {
    let reference = section.reference();
    let (trace, device, load) = (shown(section.trace), shown(section.device), shown(section.load));
    let title = format!("{trace} on {device}, load {load}{}", shown(&section.setting.words()));
    // Writing to a string does not fail.
    let _ = writeln!(out, "{title}");
    let _ = writeln!(
        out,
        "{} requests; relative to {}; * best\n",
        format_count(reference.all.requests),
        shown(&reference.scheduler)
    );
    push_table(out, &results_table(section, colour));
    out.push('\n');
    push_table(out, &time_table(section, colour));
    push_streams(out, section, colour);
    let _ = writeln!(out, "\n{}", shown(&headline(section)));
    if let Some(advice) = advice(section) {
        let _ = writeln!(out, "{}", shown(&advice));
    }
    for outcome in section.outcomes.iter().filter(|outcome| outcome.skipped > 0) {
        let _ = writeln!(out, "{}: records skipped: {}", shown(&outcome.scheduler), format_count(outcome.skipped));
    }
}

fn results_table(section: &Section<'_>, colour: bool) -> Table {
    let mut table = new_table(colour);
    let mut header = vec!["\nscheduler".to_string()];
    for (index, column) in COLUMNS.iter().enumerate() {
        // The first of the four latency columns says what they are: the table has to fit into a terminal.
        let name = if column.name == "mean" { column.long_name() } else { column.name.to_string() };
        header.push(format!("{name}\n{}", column.unit));
        if index == 0 {
            header.push("relative\n".into());
        }
    }
    table.set_header(header);
    let columns: Vec<Vec<Cell>> = COLUMNS.iter().map(|column| column.cells(section)).collect();
    for (row, outcome) in section.outcomes.iter().enumerate() {
        let mut cells = vec![TableCell::new(shown(&outcome.scheduler))];
        for (index, column) in columns.iter().enumerate() {
            cells.push(marked(&column[row], colour));
            if index == 0 {
                cells.push(TableCell::new(relative(section, row)));
            }
        }
        table.add_row(cells);
    }
    align_right(&mut table);
    table
}

/// Completion relative to the reference, as `x0.71`.
pub(super) fn relative(section: &Section<'_>, row: usize) -> String {
    n::relative_completion(section.outcomes[row], section.reference())
        .map_or_else(|| "-".into(), |value| format!("x{value:.2}"))
}

/// Where the time went: waiting by reason, and the device's work by part.
fn time_table(section: &Section<'_>, colour: bool) -> Table {
    let mut table = new_table(colour);
    let reasons = reasons_met(section);
    let mut header = vec!["\nscheduler".to_string(), "mean wait\nms".into()];
    header.extend(reasons.iter().map(|reason| format!("{}\n%", reason.name())));
    header.push("device busy\ns".into());
    let most = n::service_parts_shown(&section.outcomes);
    let names = ["overhead\n%", "seek\n%", "rotation\n%", "transfer\n%", "queue\n%"];
    header.extend(names.into_iter().take(most).map(String::from));
    table.set_header(header);
    let waits: Vec<_> = section.outcomes.iter().map(|o| n::wait_mean(o).map(|wait| wait * 1e3)).collect();
    let waits = column_texts(&waits, None);
    let busy: Vec<_> = section.outcomes.iter().map(|outcome| Some(outcome.busy.as_seconds())).collect();
    let busy = column_texts(&busy, None);
    for (row, outcome) in section.outcomes.iter().enumerate() {
        let mut cells = vec![shown(&outcome.scheduler), waits[row].clone()];
        let wait_total = n::wait_nanos(outcome);
        cells.extend(reasons.iter().map(|reason| share(outcome.wait_nanos[*reason as usize], wait_total)));
        cells.push(busy[row].clone());
        let parts = n::service_parts(outcome);
        let total = parts.iter().map(|part| part.1).sum();
        cells.extend(parts.iter().take(most).map(|part| share(part.1, total)));
        table.add_row(cells);
    }
    align_right(&mut table);
    table
}

/// The reasons that any scheduler of the section made anybody wait for.
pub(super) fn reasons_met(section: &Section<'_>) -> Vec<Reason> {
    let met = |reason: &Reason| section.outcomes.iter().any(|outcome| outcome.wait_nanos[*reason as usize] > 0);
    Reason::ALL.into_iter().filter(met).collect()
}

/// A part of a total in percent.
pub(super) fn share(part: u128, total: u128) -> String {
    if total == 0 { "-".into() } else { format!("{:.1}", part as f64 / total as f64 * 100.0) }
}

fn marked(cell: &Cell, colour: bool) -> TableCell {
    if !cell.best {
        return TableCell::new(&cell.text);
    }
    let marked = TableCell::new(format!("*{}", cell.text));
    if colour { marked.add_attribute(Attribute::Bold) } else { marked }
}

/// A table of columns two blanks apart, with a rule under the header, as wide as it needs.
pub(crate) fn new_table(colour: bool) -> Table {
    let mut table = Table::new();
    table.load_preset("     --            ");
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.force_no_tty();
    if colour {
        table.enforce_styling();
    }
    table
}

pub(crate) fn align_right(table: &mut Table) {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index > 0 { 2 } else { 0 }, 0));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Writes a table whose rows begin with a name; what follows it stands to the right.
pub fn push_rows(out: &mut String, columns: Vec<String>, rows: impl IntoIterator<Item = Vec<String>>, colour: bool) {
    let mut table = new_table(colour);
    table.set_header(columns);
    table.add_rows(rows);
    align_right(&mut table);
    push_table(out, &table);
}

/// Writes the table's lines without the blanks at their ends.
pub(crate) fn push_table(out: &mut String, table: &Table) {
    for line in table.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
