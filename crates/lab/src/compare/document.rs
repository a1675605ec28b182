//! A comparison as a document: for each trace and load, a table of results, a table of where the time went, and figures.

use ioweir_config::format_count;
use ioweir_core::Reason;

use super::Goal;
use super::advice::advice;
use super::data::JsonReport;
use super::figures::{self, service_parts_shown};
use super::headline::{IDLE_SHARE, headline, overall, summary};
use super::section::{Row, Section, sections};
use super::{Meta, Report};
use crate::document::{
    Better, Cell, Column, Document, DocumentError, Emphasis, Format, Provenance, SAME_SHARE, Table, Value, records_of,
};
use crate::run::streams;
use crate::sim::numbers as n;
use crate::sim::{Load, Outcome};

/// The first columns of the records; the others follow, sorted by name.
const LEADING: [&str; 14] = [
    "trace",
    "load",
    "scheduler",
    "device",
    "requests",
    "merged_requests",
    "bytes",
    "completion_seconds",
    "busy_seconds",
    "throughput_bytes_per_second",
    "latency_mean_seconds",
    "latency_p50_seconds",
    "latency_p99_seconds",
    "latency_max_seconds",
];

/// Above this share of busy time, the device cannot keep up with the trace.
const SATURATED_SHARE: f64 = 0.99;

/// The most sections that a terminal shows in full; of more it shows a row each.
const SECTIONS_SHOWN: usize = 6;

/// Makes the document. Times are relative to those of the scheduler `reference`, or else the first one.
///
/// # Errors
/// [`DocumentError`], which would be a defect of the program.
pub fn document(report: &Report, reference: Option<&str>) -> Result<Document, DocumentError> {
    let sections = sections(report, reference);
    let data = JsonReport::new(report, &sections)?;
    let title = match &sections[..] {
        [only] => name(only, &sections),
        all => format!("{} comparisons", all.len()),
    };
    let mut document = Document::new("ioweir compare", title, &data)?;
    document.headline = overall(&sections);
    if let [only] = &sections[..] {
        document.summary = summary(only);
    }
    document.records = records_of(&data.results, &LEADING);
    standings(&sections).into_iter().for_each(|sentence| document.text(sentence));
    load_sentences(&sections).into_iter().for_each(|sentence| document.text(sentence));
    if sections.len() > 1 {
        document.push(overview(report, &sections));
    }
    if sections.len() > SECTIONS_SHOWN {
        document.short = Some(document.blocks.len());
    }
    let measures = ordered(&sections);
    for section in &sections {
        if sections.len() > 1 {
            document.heading(name(section, &sections));
            document.text(headline(section));
        }
        push_section(&mut document, section, &measures);
    }
    document.provenance = Some(provenance(&report.meta));
    Ok(document)
}

fn provenance(meta: &Meta) -> Provenance {
    let mut specs = vec![("The comparison as TOML, with every default".to_owned(), meta.spec.to_toml())];
    if meta.devices.is_empty() {
        specs.push(("The device".to_owned(), meta.device_toml.clone()));
    }
    specs.extend(meta.devices.iter().map(|device| (format!("The device {}", device.name), device.toml.clone())));
    specs.extend(meta.fast_device_toml.clone().map(|toml| ("The fast device".to_owned(), toml)));
    Provenance {
        version: meta.version.clone(),
        commit: meta.commit.clone(),
        command: meta.command.clone(),
        spec_sha256: meta.spec_sha256.clone(),
        inputs: meta.traces.clone(),
        specs,
    }
}

/// Trace, device and load, with volume and depth if these differ between sections.
fn name(section: &Section<'_>, sections: &[Section<'_>]) -> String {
    let mut name = format!("{} on {}, load {}", short_name(section, sections), section.device, section.load);
    if sections.iter().any(|other| other.volume != section.volume) {
        name += &format!(", volume {}", section.volume);
    }
    if sections.iter().any(|other| other.depth != section.depth) {
        name += &format!(", depth {}", section.depth);
    }
    name
}

/// The trace's file name without its folders, if no other trace has the same.
fn short_name<'a>(section: &Section<'a>, sections: &[Section<'_>]) -> &'a str {
    fn last(name: &str) -> &str {
        name.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(name)
    }
    let same = |other: &Section<'_>| other.trace != section.trace && last(other.trace) == last(section.trace);
    if sections.iter().any(same) { section.trace } else { last(section.trace) }
}

/// The goal's value relative to the reference's, one row for each section.
fn overview(report: &Report, sections: &[Section<'_>]) -> Table {
    let noun = match report.meta.spec.goal {
        Goal::Completion => "Completion time".to_owned(),
        goal => format!("By {},", goal.noun()),
    };
    let mut schedulers: Vec<&str> = Vec::new();
    for outcome in &report.outcomes {
        if !schedulers.contains(&outcome.scheduler.as_str()) {
            schedulers.push(&outcome.scheduler);
        }
    }
    let factor = |name: &&str| Column::text(*name).format(Format::Factor);
    let columns = std::iter::once(Column::text("comparison")).chain(schedulers.iter().map(factor));
    let mut table = Table::new("All comparisons", columns).caption(format!(
        "{noun} relative to the reference scheduler; less is better, the best of each row is starred."
    ));
    for section in sections {
        let ranked = section.ranked();
        let saved = |first: &&Row<'_>| ranked.last().map_or(0.0, |last| section.saved_share(first, last));
        let best = ranked.first().filter(|first| saved(first) > SAME_SHARE).and_then(|first| section.value(first));
        let cell = |scheduler: &&str| {
            let Some(row) = section.rows.iter().find(|row| row.scheduler == scheduler) else {
                return Cell::from(Value::Absent);
            };
            let is_best = best.is_some() && best == section.value(row);
            let cell = Cell::from(section.relative(row, section.reference()));
            if is_best { cell.emphasis(Emphasis::Best) } else { cell }
        };
        table.row(std::iter::once(name(section, sections).into()).chain(schedulers.iter().map(cell)));
    }
    let mean = |scheduler: &&str| Cell::from(geometric_mean(sections, scheduler));
    table.row(std::iter::once("all: geometric mean".into()).chain(schedulers.iter().map(mean)));
    table
}

/// The geometric mean of a scheduler's values relative to the reference's; `None` if a section lacks it.
fn geometric_mean(sections: &[Section<'_>], scheduler: &str) -> Option<f64> {
    let logarithm = |section: &Section<'_>| {
        let row = section.rows.iter().find(|row| row.scheduler == scheduler)?;
        section.relative(row, section.reference()).filter(|relative| *relative > 0.0).map(f64::ln)
    };
    let sum: Option<f64> = sections.iter().map(logarithm).sum();
    sum.map(|sum| (sum / sections.len() as f64).exp())
}

fn push_section(document: &mut Document, section: &Section<'_>, measures: &[Measure]) {
    if let Some(advice) = advice(section) {
        document.text(advice.text);
        if !advice.care.is_empty() {
            document.text(advice.care);
        }
    }
    if section.rows.len() < 2 {
        section.contradiction().into_iter().for_each(|said| document.text(said));
    }
    if let Some(of) = section.of {
        document.text(format!("The goal is that of {of}; the tables are of all requests. --of says whose count."));
    }
    document.push(by_stream(section));
    let reference = section.reference();
    let seeds = match reference.seeds() {
        1 => String::new(),
        seeds if reference.are_samples() => format!("; means of {seeds} samples of the trace with 95 % intervals"),
        seeds => format!("; means of {seeds} seeds with 95 % intervals"),
    };
    document.text(format!(
        "{} requests; {} in the device at once{}; relative to {}; * best{seeds}",
        format_count(reference.run().all.requests),
        section.depth,
        outstanding(section),
        reference.scheduler
    ));
    document.push(results(section, measures));
    figures::push_results(document, section);
    document.push(times(section));
    figures::push_times(document, section);
    document.push(streams(section.runs().map(|run| (run.scheduler.clone(), run))));
    for row in section.rows.iter().filter(|row| row.skipped() > 0) {
        document.text(format!("{}: records skipped: {}", row.scheduler, format_count(row.skipped())));
    }
    if reference.run().folded > 0 {
        document.text(folded(reference.run()));
    }
}

/// How many requests are not where the trace had them.
pub(crate) fn folded(run: &Outcome) -> String {
    let (folded, all) = (format_count(run.folded), format_count(run.all.requests));
    format!(
        "{folded} of {all} requests lie past the end of the device and were folded onto it: seeks are not those of the trace."
    )
}

/// The meaning of a closed loop here: the number of streams, and how many requests each keeps outstanding.
fn outstanding(section: &Section<'_>) -> String {
    let Ok(Load::Closed { outstanding, .. }) = section.load.parse() else { return String::new() };
    let streams = section.reference().run().stream_names.len() as u64;
    let all = format_count(u64::from(outstanding) * streams);
    match streams {
        0 => String::new(),
        1 => format!("; 1 stream keeps {outstanding} outstanding"),
        _ => format!("; {} streams keep {outstanding} outstanding each, {all} in all", format_count(streams)),
    }
}

/// The standing of each device model, a sentence each.
fn standings(sections: &[Section<'_>]) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for section in sections {
        let sentence = section.standing().map(|words| format!("The device {} is {words}.", section.device));
        sentences.extend(sentence.filter(|sentence| !sentences.contains(sentence)));
    }
    sentences
}

/// The best scheduler for each stream that has figures of its own.
fn by_stream(section: &Section<'_>) -> Table {
    let columns = [Column::text("stream"), Column::text("best"), Column::seconds(section.goal.name())];
    let more = [Column::text("next"), Column::seconds("its value"), Column::text("advice").format(Format::Own)];
    let mut table = Table::new("The best for each stream", columns.into_iter().chain(more))
        .caption("The goal of each stream by itself. Schedulers tie where the difference is within a hundredth, or within the noise.");
    for own in section.by_stream() {
        let ranked = own.ranked();
        let [best, next, ..] = ranked[..] else { continue };
        let says = match advice(&own) {
            Some(advice) => advice.short(),
            None => "",
        };
        table.row([
            own.of.unwrap_or_default().into(),
            best.scheduler.into(),
            own.goal_value(best).into(),
            next.scheduler.into(),
            own.goal_value(next).into(),
            says.into(),
        ]);
    }
    table
}

/// The number of a run that a column shows.
type Number = fn(&Outcome) -> Option<f64>;

/// A column of the results.
#[derive(Clone)]
enum Measure {
    /// A number of each run.
    Of(Column, Number),
    /// The completion time as a multiple of the reference's.
    Relative,
    /// The goal of the requests that count, if not all do.
    Goal,
}

impl Measure {
    fn column(&self) -> Column {
        match self {
            Self::Of(column, _) => column.clone(),
            Self::Relative => Column::text("relative").format(Format::Factor),
            Self::Goal => Column::number("goal", "ms").better(Better::Lower),
        }
    }

    /// Whether the rows of a section differ in it.
    fn differs(&self, section: &Section<'_>) -> bool {
        let number: Number = match self {
            Self::Of(_, number) => *number,
            Self::Relative => |run| Some(run.completion.as_seconds()),
            Self::Goal => return true,
        };
        let values = || section.rows.iter().filter_map(|row| row.mean(number));
        let (least, most) = values().fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
        most - least >= most * SAME_SHARE && most > 0.0
    }
}

/// The columns of the results, including the goal.
fn measures(goal: Goal) -> Vec<Measure> {
    let lower = |name: &str, unit: &str| Column::number(name, unit).better(Better::Lower);
    let rate = Column::number("throughput", "MB/s").better(Better::Higher);
    let mut measures = vec![
        Measure::Of(lower("completion", "s"), |run| Some(run.completion.as_seconds())),
        Measure::Relative,
        Measure::Of(Column::digits("busy", 1).unit("%"), |run| n::busy_share(run).map(|share| share * 100.0)),
        Measure::Of(rate, |run| n::throughput(run).map(|rate| rate / 1e6)),
        Measure::Of(lower("latency mean", "ms"), |run| n::latency_mean(&run.all).map(millis)),
        Measure::Of(lower("p50", "ms"), |run| n::quantile(&run.all.latency, 0.5).map(millis)),
        Measure::Of(lower("p99", "ms"), |run| n::quantile(&run.all.latency, 0.99).map(millis)),
        Measure::Of(lower("max", "ms"), |run| n::maximum(&run.all.latency).map(millis)),
        Measure::Of(Column::count("seeks").better(Better::Lower), |run| Some(run.seeks as f64)),
        Measure::Of(lower("sweeps", ""), n::sweeps),
        Measure::Of(Column::count("merged"), |run| Some(run.merged_requests as f64)),
    ];
    let reads = |run: &Outcome| Goal::ReadP99.of_run(run).map(millis);
    match goal {
        Goal::ReadP99 => measures.insert(5, Measure::Of(lower("p99 of reads", "ms"), reads)),
        Goal::Busy => measures.insert(2, Measure::Of(lower("working", "s"), |run| Goal::Busy.of_run(run))),
        Goal::Completion | Goal::Mean => {}
    }
    measures
}

/// The columns for all sections: first those in which schedulers differ in any of them.
fn ordered(sections: &[Section<'_>]) -> Vec<Measure> {
    let goal = sections.first().map_or(Goal::Completion, |section| section.goal);
    let mut measures = measures(goal);
    if sections.iter().any(|section| section.of.is_some()) {
        measures.insert(0, Measure::Goal);
    }
    let has_rivals = sections.iter().any(|section| section.rows.len() > 1);
    // The sort is stable: otherwise columns keep their order.
    measures.sort_by_key(|measure| has_rivals && !sections.iter().any(|section| measure.differs(section)));
    measures
}

/// Which loads were taken, and what their figures can say, a sentence each.
fn load_sentences(sections: &[Section<'_>]) -> Vec<String> {
    let mut loads: Vec<&str> = Vec::new();
    for section in sections.iter().filter(|section| section.reference().run().all.requests > 0) {
        if !loads.contains(&section.load) {
            loads.push(section.load);
        }
    }
    let sentence = |load: &str| {
        let runs = || sections.iter().filter(|section| section.load == load).flat_map(Section::runs);
        let busy = || runs().filter_map(n::busy_share);
        let (least, most) = (busy().fold(f64::INFINITY, f64::min), busy().fold(0.0, f64::max));
        let says = match load.parse() {
            Ok(Load::Closed { .. }) => {
                "streams send their next request when one completes, whatever the trace's times: completion compares \
                 schedulers, latency is that of full queues"
            }
            _ if most < IDLE_SHARE => {
                "requests arrive at the trace's times, which leave the device idle: compare latency and busy time, or \
                 raise the load (x10, closed:32)"
            }
            _ if least > SATURATED_SHARE => {
                "requests arrive at the trace's times faster than the device serves them: completion compares \
                 schedulers, latency grows with the length of the trace"
            }
            _ => "requests arrive at the trace's times, whether or not earlier ones have completed",
        };
        format!("Load {load}: {says}.")
    };
    loads.into_iter().map(sentence).collect()
}

fn millis(seconds: f64) -> f64 {
    seconds * 1e3
}

fn results(section: &Section<'_>, measures: &[Measure]) -> Table {
    let mut measures = measures.to_vec();
    if section.runs().any(|run| n::fast_share(run).is_some()) {
        let column = Column::digits("fast tier", 1).unit("%").better(Better::Higher);
        measures.push(Measure::Of(column, |run| n::fast_share(run).map(|share| share * 100.0)));
    }
    let columns = std::iter::once(Column::text("scheduler")).chain(measures.iter().map(Measure::column));
    let mut table = Table::new("", columns)
        .caption("The best value of a column is marked. A run with the same inputs and seed gives the same numbers.");
    for row in &section.rows {
        let cell = |measure: &Measure| match measure {
            Measure::Of(_, number) => Cell::from(row.value(*number)),
            Measure::Relative => row.relative_to(section.reference()).into(),
            Measure::Goal => section.goal_millis(row).into(),
        };
        table.row(std::iter::once(row.scheduler.into()).chain(measures.iter().map(cell)));
    }
    table
}

/// The reasons for which requests waited, under any scheduler of the section.
pub(super) fn reasons_met(section: &Section<'_>) -> Vec<Reason> {
    let met = |reason: &Reason| section.runs().any(|run| run.wait_nanos[*reason as usize] > 0);
    Reason::ALL.into_iter().filter(met).collect()
}

/// A part of a total, in percent.
fn share(part: u128, total: u128) -> Option<f64> {
    (total > 0).then(|| part as f64 / total as f64 * 100.0)
}

/// Where the time went: waiting by reason, and the device's work by part.
fn times(section: &Section<'_>) -> Table {
    let reasons = reasons_met(section);
    let percent = |name: &str| Column::digits(name, 1).unit("%");
    let mut columns = vec![Column::text("scheduler"), Column::number("mean wait", "ms")];
    columns.extend(reasons.iter().map(|reason| percent(reason.name())));
    columns.push(Column::number("device busy", "s"));
    let parts = service_parts_shown(section);
    columns.extend(parts.iter().map(|name| percent(name)));
    let mut table = Table::new("", columns)
        .caption("Where the time went: waiting by reason, and the device's work by part, in percent of each.");
    for row in &section.rows {
        let wait = |reason: Reason| row.value(|run| share(run.wait_nanos[reason as usize], n::wait_nanos(run)));
        let part = |at: usize| row.value(|run| share(n::service_parts(run)[at].1, n::service_nanos(run)));
        let mut cells = vec![row.scheduler.into(), row.value(|run| n::wait_mean(run).map(millis)).into()];
        cells.extend(reasons.iter().map(|reason| Cell::from(wait(*reason))));
        cells.push(row.value(|run| Some(run.busy.as_seconds())).into());
        cells.extend((0..parts.len()).map(|at| Cell::from(part(at))));
        table.row(cells);
    }
    table
}

/// The table of latencies of reads or writes.
pub(super) fn latencies<'a>(name: &str, rows: impl Iterator<Item = (&'a Row<'a>, &'a crate::sim::Class)>) -> Table {
    let mut columns = vec![Column::text("scheduler"), Column::count("requests")];
    columns.extend(["mean", "p50", "p90", "p99", "p99.9", "max"].map(Column::seconds));
    let mut table = Table::new(format!("Latency of {name}"), columns)
        .caption("Quantiles are within 0.1 %. A question mark: there are too few requests for more than the maximum.")
        .detail();
    for (row, class) in rows {
        let quantile = |quantile: f64| {
            let cell = Cell::from(n::quantile(&class.latency, quantile));
            let is_thin = (class.latency.len() as f64) < 1.0 / (1.0 - quantile);
            if is_thin { cell.emphasis(Emphasis::Doubtful) } else { cell }
        };
        let mut cells = vec![row.scheduler.into(), class.latency.len().into(), n::latency_mean(class).into()];
        cells.extend([0.5, 0.9, 0.99, 0.999].map(quantile));
        cells.push(n::maximum(&class.latency).into());
        table.row(cells);
    }
    table
}
