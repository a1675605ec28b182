//! How does a comparison read in a document or an issue thread?

use std::fmt::Write as _;

use super::columns::{COLUMNS, Column};
use super::headline::headline;
use super::numbers as n;
use super::terminal::{reasons_met, relative, share};
use super::{ReportError, Section, View, sections};
use crate::compare::{Meta, Report};
use ioweir_config::shown;

/// Renders the tables of `report` as Markdown with pipes.
///
/// # Errors
/// [`ReportError::UnknownReference`] where the view's reference is not among the results.
pub fn render_markdown(report: &Report, view: &View) -> Result<String, ReportError> {
    let mut out = String::from("# Scheduler comparison\n");
    for section in &sections(report, view)? {
        push_section(&mut out, section);
    }
    push_meta(&mut out, &report.meta);
    Ok(out)
}

fn push_section(out: &mut String, section: &Section<'_>) {
    let (trace, device, load) = (
        escaped(section.trace),
        escaped(section.device),
        escaped(&format!("{}{}", section.load, section.setting.words())),
    );
    // Writing to a string does not fail.
    let _ = writeln!(out, "\n## {trace} on {device}, load {load}\n\n{}\n", escaped(&headline(section)));
    let mut header = vec!["scheduler".to_string(), COLUMNS[0].title(), "relative".into()];
    header.extend(COLUMNS[1..].iter().map(Column::title));
    push_header(out, &header);
    let columns: Vec<_> = COLUMNS.iter().map(|column| column.cells(section)).collect();
    for (row, outcome) in section.outcomes.iter().enumerate() {
        let cell = |column: usize| {
            let cell = &columns[column][row];
            if cell.best { format!("**{}**", cell.text) } else { cell.text.clone() }
        };
        let mut cells = vec![escaped(&outcome.scheduler), cell(0), relative(section, row)];
        cells.extend((1..COLUMNS.len()).map(cell));
        push_row(out, &cells);
    }
    let reference = escaped(&section.reference().scheduler);
    let _ = writeln!(out, "\nBold is best; relative is completion measured by {reference}.\n");
    push_time(out, section);
}

fn push_time(out: &mut String, section: &Section<'_>) {
    let reasons = reasons_met(section);
    let mut header = vec!["scheduler".to_string(), "mean wait (ms)".into()];
    header.extend(reasons.iter().map(|reason| format!("{} (% of waiting)", reason.name().replace('_', " "))));
    let shown = n::service_parts_shown(&section.outcomes);
    let names = ["overhead", "seek", "rotation", "transfer", "queue"].into_iter().take(shown);
    header.extend(names.map(|part| format!("{part} (% of service)")));
    push_header(out, &header);
    for outcome in &section.outcomes {
        let wait = n::wait_mean(outcome).map_or_else(|| "-".into(), |wait| format!("{:.3}", wait * 1e3));
        let mut cells = vec![escaped(&outcome.scheduler), wait];
        let wait_total = n::wait_nanos(outcome);
        cells.extend(reasons.iter().map(|reason| share(outcome.wait_nanos[*reason as usize], wait_total)));
        let parts = n::service_parts(outcome);
        let total = parts.iter().map(|part| part.1).sum();
        cells.extend(parts.iter().take(shown).map(|part| share(part.1, total)));
        push_row(out, &cells);
    }
}

fn push_meta(out: &mut String, meta: &Meta) {
    let _ = writeln!(out, "\n## How to get this again\n");
    let _ = writeln!(out, "- ioweir {} ({})", escaped(&meta.version), escaped(&meta.commit));
    let seeds = meta.spec.seeds.0.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let _ = writeln!(out, "- spec SHA-256 {}, seed {}", escaped(&meta.spec_sha256), seeds);
    for trace in &meta.traces {
        for (file, sha256) in &trace.files {
            let _ = writeln!(out, "- {} ({}) SHA-256 {}", escaped(file), escaped(&trace.format), escaped(sha256));
        }
    }
    let _ = writeln!(out, "\n{}", indented(&meta.command));
}

/// Text as an indented block of code: nothing inside it has a meaning.
fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {}", shown(line))).collect::<Vec<_>>().join("\n")
}

fn push_header(out: &mut String, cells: &[String]) {
    push_row(out, cells);
    let rules: Vec<_> = (0..cells.len()).map(|index| if index == 0 { "---".into() } else { "---:".into() }).collect();
    push_row(out, &rules);
}

fn push_row(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

/// Text from outside as text: what Markdown or HTML would take for markup is escaped.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in shown(text).chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => out.extend(['\\', character]),
            _ => out.push(character),
        }
    }
    out
}
