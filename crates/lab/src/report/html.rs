//! How does a comparison read as one page that needs neither a network nor JavaScript?
//!
//! The numbers stand in tables and the charts are drawn here as inline SVG; the script of the page only magnifies what is
//! already there. What comes from outside (names of traces, specs) reaches the page through the template's escaping
//! alone.

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use serde::Serialize;

use super::columns::{COLUMNS, Cell};
use super::headline::{format_seconds, headline, overall};
use super::html_parts::{Detail, Latency, OverTime, Stack, latency, over_time, service_stack, wait_stack};
use super::terminal::relative;
use super::{ReportError, Section, View, sections};
use crate::compare::Report;
use ioweir_config::{format_count, shown};

/// The page is kept below this size by thinning the points of its charts.
pub const HTML_BYTES_MAX: usize = 1_000_000;

/// Colours that schedulers are drawn in; beyond that they repeat, and the labels tell them apart.
const COLOURS: usize = 8;

const TEMPLATE: &str = include_str!("../../assets/report.html");
const STYLE: &str = include_str!("../../assets/document.css");
const SCRIPT: &str = include_str!("../../assets/report.js");

/// Renders `report` as a page of less than [`HTML_BYTES_MAX`] bytes, unless its tables alone are longer.
///
/// # Errors
/// [`ReportError::UnknownReference`] where the view's reference is not among the results.
pub fn render_html(report: &Report, view: &View) -> Result<String, ReportError> {
    let sections = sections(report, view)?;
    let mut environment = Environment::new();
    // Names that end in .html are escaped as HTML.
    environment.add_template("report.html", TEMPLATE)?;
    let template = environment.get_template("report.html")?;
    let mut detail = Some(Detail::for_results(report.outcomes.len()));
    loop {
        let page = Page::new(report, &sections, detail);
        let text = template.render(context! { page => Value::from(Serde(&page)), style => STYLE, script => SCRIPT })?;
        let Some(tried) = detail.filter(|_| text.len() > HTML_BYTES_MAX) else { return Ok(text) };
        detail = tried.coarser();
    }
}

/// What the template shows.
#[derive(Serialize)]
struct Page {
    title: String,
    headline: String,
    /// Completion relative to the reference for each section; empty where there is only one section.
    overview: Option<Overview>,
    /// Whether there was room for charts.
    has_charts: bool,
    sections: Vec<PageSection>,
    meta: PageMeta,
}

#[derive(Serialize)]
struct Overview {
    schedulers: Vec<Named>,
    rows: Vec<OverviewRow>,
}

#[derive(Serialize)]
struct OverviewRow {
    id: String,
    name: String,
    cells: Vec<PageCell>,
}

/// A scheduler and the class that gives it its colour.
#[derive(Clone, Serialize)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) class: String,
}

#[derive(Clone, Serialize)]
struct PageCell {
    text: String,
    best: bool,
}

#[derive(Serialize)]
struct PageSection {
    id: String,
    name: String,
    trace: String,
    load: String,
    device: String,
    headline: String,
    reference: String,
    requests: String,
    /// What the reader left out, for each scheduler that met such records.
    skipped: Vec<String>,
    titles: Vec<ColumnTitle>,
    rows: Vec<ResultRow>,
    completion: Vec<Bar>,
    latency: Vec<Latency>,
    over_time: Option<OverTime>,
    waiting: Stack,
    service: Stack,
}

#[derive(Serialize)]
struct ColumnTitle {
    name: String,
    unit: &'static str,
}

#[derive(Serialize)]
struct ResultRow {
    scheduler: Named,
    cells: Vec<PageCell>,
}

#[derive(Serialize)]
struct Bar {
    scheduler: Named,
    width: String,
    value: String,
    relative: String,
    best: bool,
}

#[derive(Serialize)]
struct PageMeta {
    version: String,
    commit: String,
    spec_sha256: String,
    seed: u64,
    command: String,
    spec_toml: String,
    device_toml: String,
    traces: Vec<PageTrace>,
}

#[derive(Serialize)]
struct PageTrace {
    name: String,
    format: String,
    files: Vec<(String, String)>,
}

/// The colours of a report: each scheduler keeps its own through all sections, in the order of the results.
pub(super) struct Palette<'a> {
    order: Vec<&'a str>,
}

impl<'a> Palette<'a> {
    fn new(report: &'a Report) -> Self {
        let mut order: Vec<&str> = Vec::new();
        for outcome in &report.outcomes {
            if !order.contains(&outcome.scheduler.as_str()) {
                order.push(&outcome.scheduler);
            }
        }
        Self { order }
    }

    pub(super) fn named(&self, scheduler: &str) -> Named {
        let index = self.order.iter().position(|name| *name == scheduler).unwrap_or(0);
        Named { name: shown(scheduler), class: format!("c{}", index % COLOURS) }
    }
}

impl Page {
    fn new(report: &Report, sections: &[Section<'_>], detail: Option<Detail>) -> Self {
        let palette = Palette::new(report);
        let title = match sections {
            [only] => format!("{} on {}", shown(short_name(only, sections)), shown(only.device)),
            _ => format!("{} comparisons of {} schedulers", sections.len(), palette.order.len()),
        };
        let page_sections = sections
            .iter()
            .enumerate()
            .map(|(index, section)| PageSection::new((index, section), sections, &palette, detail))
            .collect();
        Self {
            title,
            headline: prose(&overall(sections)),
            overview: (sections.len() > 1).then(|| overview(sections, &palette)),
            has_charts: detail.is_some(),
            sections: page_sections,
            meta: PageMeta::new(report),
        }
    }
}

fn overview(sections: &[Section<'_>], palette: &Palette<'_>) -> Overview {
    let row = |(index, section): (usize, &Section<'_>)| {
        let completion = COLUMNS[0].cells(section);
        let cell = |name: &&str| {
            let row = section.outcomes.iter().position(|outcome| outcome.scheduler == **name);
            row.map_or(PageCell { text: "-".into(), best: false }, |row| PageCell {
                text: relative(section, row),
                best: completion[row].best,
            })
        };
        OverviewRow {
            id: section_id(index),
            name: format!(
                "{}, load {}",
                shown(short_name(section, sections)),
                shown(&format!("{}{}", section.load, section.setting.words()))
            ),
            cells: palette.order.iter().map(cell).collect(),
        }
    };
    Overview {
        schedulers: palette.order.iter().map(|name| palette.named(name)).collect(),
        rows: sections.iter().enumerate().map(row).collect(),
    }
}

/// The trace's file name without its folders, where that still tells it from the other traces.
fn short_name<'a>(section: &Section<'a>, sections: &[Section<'_>]) -> &'a str {
    fn last(name: &str) -> &str {
        name.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(name)
    }
    let same = |other: &Section<'_>| other.trace != section.trace && last(other.trace) == last(section.trace);
    if sections.iter().any(same) { section.trace } else { last(section.trace) }
}

fn section_id(index: usize) -> String {
    format!("comparison-{}", index + 1)
}

impl PageSection {
    fn new(
        (index, section): (usize, &Section<'_>),
        sections: &[Section<'_>],
        palette: &Palette<'_>,
        detail: Option<Detail>,
    ) -> Self {
        let skipped = section.outcomes.iter().filter(|outcome| outcome.skipped > 0);
        Self {
            id: section_id(index),
            name: shown(short_name(section, sections)),
            trace: shown(section.trace),
            load: shown(&format!("{}{}", section.load, section.setting.words())),
            device: shown(section.device),
            headline: prose(&headline(section)),
            reference: shown(&section.reference().scheduler),
            requests: format_count(section.reference().all.requests),
            skipped: skipped.map(|o| format!("{}: {}", shown(&o.scheduler), format_count(o.skipped))).collect(),
            titles: COLUMNS.iter().map(|column| ColumnTitle { name: column.long_name(), unit: column.unit }).collect(),
            rows: result_rows(section, palette),
            completion: completion_bars(section, palette),
            latency: detail.map_or_else(Vec::new, |detail| latency(section, palette, detail)),
            over_time: detail.and_then(|detail| over_time(section, palette, detail)),
            waiting: wait_stack(section, palette),
            service: service_stack(section, palette),
        }
    }
}

fn result_rows(section: &Section<'_>, palette: &Palette<'_>) -> Vec<ResultRow> {
    let columns: Vec<Vec<Cell>> = COLUMNS.iter().map(|column| column.cells(section)).collect();
    let row = |(row, outcome): (usize, &&crate::sim::Outcome)| ResultRow {
        scheduler: palette.named(&outcome.scheduler),
        cells: columns.iter().map(|cells| PageCell { text: cells[row].text.clone(), best: cells[row].best }).collect(),
    };
    section.outcomes.iter().enumerate().map(row).collect()
}

fn completion_bars(section: &Section<'_>, palette: &Palette<'_>) -> Vec<Bar> {
    let longest = section.outcomes.iter().map(|outcome| outcome.completion.0).max().unwrap_or(0).max(1);
    let cells = COLUMNS[0].cells(section);
    let bar = |(row, outcome): (usize, &&crate::sim::Outcome)| Bar {
        scheduler: palette.named(&outcome.scheduler),
        width: percent(outcome.completion.0 as f64 / longest as f64),
        value: format_seconds(outcome.completion.as_seconds()),
        relative: relative(section, row),
        best: cells[row].best,
    };
    section.outcomes.iter().enumerate().map(bar).collect()
}

/// A sentence whose numbers keep their percent signs beside them.
fn prose(sentence: &str) -> String {
    shown(sentence).replace(" %", "\u{a0}%")
}

/// A share as SVG and CSS take it.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

impl PageMeta {
    fn new(report: &Report) -> Self {
        let meta = &report.meta;
        Self {
            version: meta.version.clone(),
            commit: meta.commit.clone(),
            spec_sha256: meta.spec_sha256.clone(),
            seed: meta.spec.seeds.0.first().copied().unwrap_or(0),
            command: meta.command.clone(),
            spec_toml: meta.spec.to_toml(),
            device_toml: meta.device_toml.clone(),
            traces: meta
                .traces
                .iter()
                .map(|trace| PageTrace {
                    name: shown(&trace.name),
                    format: trace.format.clone(),
                    files: trace.files.clone(),
                })
                .collect(),
        }
    }
}
