//! A plan as a document: days, windows, balance, findings, and the expected course over time.

use ioweir_config::{format_bytes, format_decimals};
use serde::Serialize;

use super::bound::Bound;
use super::lint::Severity;
use super::made::{Plan, PlanBin, Sheet};
use super::replay::Replayed;
use super::system::Demand;
use crate::forecast::Calendar;
use ioweir_config::date::{format_day, format_moment};
use ioweir_lab::document::{
    Axis, Cell, Chart, Column, Document, DocumentError, Figure, Format, Mark, Provenance, Series, Table, records_of,
    weekday,
};

const DAY_SECONDS: i64 = 86_400;
/// The number of a service's windows that the tables show; all of them are in the JSON.
const WINDOWS_SHOWN: usize = 7;

/// A moment on the local clock: `Wed 2016-02-24 07:00`.
pub(super) fn moment(unix_seconds: i64, calendar: &Calendar) -> String {
    let local = calendar.local_seconds(unix_seconds);
    format!("{} {}", weekday(local.div_euclid(DAY_SECONDS)), format_moment(local))
}

fn date(local_seconds: i64) -> String {
    let day = local_seconds.div_euclid(DAY_SECONDS);
    format!("{} {}", weekday(day), format_day(day))
}

fn short_moment(plan: &Plan, unix_seconds: i64) -> String {
    let text = moment(unix_seconds, &plan.calendar);
    // A week is short enough to omit the date; a longer plan shows month and day.
    let within_week = (unix_seconds - plan.start_unix_seconds).abs() < 7 * DAY_SECONDS;
    if within_week { format!("{} {}", &text[..3], &text[15..]) } else { format!("{} {}", &text[..3], &text[9..]) }
}

impl Plan {
    pub(super) fn bytes(&self, blocks: u64) -> String {
        format_bytes(blocks.saturating_mul(self.block_bytes))
    }

    /// A sentence on what is planned, and how certain it is.
    #[must_use]
    pub fn headline(&self) -> String {
        let days = self.bins.len() as f64 * self.bin_seconds as f64 / DAY_SECONDS as f64;
        let is_violation = |finding: &&super::lint::Finding| finding.severity <= Severity::Violation;
        let violations: Vec<&str> =
            self.findings.iter().filter(is_violation).map(|finding| finding.message.as_str()).collect();
        let kept = match violations.split_first() {
            None => "It holds if no more comes than".to_owned(),
            Some((first, [])) => format!("It does not hold: {first}. It was made for"),
            Some((first, others)) => {
                format!("It does not hold: {first}; Findings has {} more. It was made for", others.len())
            }
        };
        format!(
            "Plan from {} for {} days: {} cores, pool {}, floor {}. {kept} the {} % quantile of a forecast from {} days of history.",
            moment(self.start_unix_seconds, &self.calendar),
            format_decimals(days, 1).trim_end_matches(".0"),
            self.cores,
            self.bytes(self.pool_blocks),
            self.bytes(self.floor_blocks),
            format_decimals(self.quantile * 100.0, 1).trim_end_matches(".0"),
            self.history_days,
        )
    }

    /// The findings, one or two lines for each.
    fn finding_lines(&self) -> Vec<String> {
        let line = |finding: &super::lint::Finding| {
            let severity = format!("{:?}", finding.severity).to_lowercase();
            let at = finding.at_unix_seconds.map(|at| format!(", from {}", moment(at, &self.calendar)));
            let hint = if finding.hint.is_empty() { String::new() } else { format!("\n  hint: {}", finding.hint) };
            format!("{severity}: {}{} [{}]{hint}", finding.message, at.unwrap_or_default(), finding.code)
        };
        self.findings.iter().map(line).collect()
    }
}

/// The recorded load, and how the plan dealt with it.
#[derive(Clone, Copy, Debug)]
pub struct Actual<'a> {
    /// The recorded foreground load.
    pub demand: &'a [Demand],
    /// The outcome of replaying that load.
    pub replayed: &'a Replayed,
    /// The outcome of the fixed watermark of 40 to 50 % instead.
    pub fixed: &'a Replayed,
    /// The least of any schedule that holds floor and deadlines.
    pub bound: Bound,
}

#[derive(Serialize)]
struct Json<'a> {
    meta: &'a Provenance,
    notes: &'a [String],
    plan: &'a Plan,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<Replay>,
}

#[derive(Serialize)]
struct Replay {
    violated_time_percent_min: f64,
    delayed_requests_percent_min: f64,
    #[serde(flatten)]
    plan: Outcome,
    fixed_watermark: Outcome,
}

#[derive(Serialize)]
struct Outcome {
    bins: usize,
    violated_time_percent: f64,
    delayed_requests_percent: f64,
    free_blocks_min: u64,
    below_floor_bins: usize,
    overrun_bins: usize,
    late_bins: usize,
}

impl Outcome {
    fn new(replayed: &Replayed) -> Self {
        Self {
            bins: replayed.course.len(),
            violated_time_percent: replayed.violated_percent(),
            delayed_requests_percent: replayed.delayed_percent(),
            free_blocks_min: replayed.free_blocks_min,
            below_floor_bins: replayed.below_floor_bins,
            overrun_bins: replayed.overrun_bins,
            late_bins: replayed.late_bins,
        }
    }
}

impl Replay {
    fn new(Actual { replayed, fixed, bound, .. }: Actual<'_>) -> Self {
        let (violated_time_percent_min, delayed_requests_percent_min) = bound.percent_of(replayed);
        let (plan, fixed_watermark) = (Outcome::new(replayed), Outcome::new(fixed));
        Self { violated_time_percent_min, delayed_requests_percent_min, plan, fixed_watermark }
    }
}

/// The plan, with its outcome if that is known.
///
/// # Errors
/// [`DocumentError`], which would be a defect of the program.
pub fn document(
    plan: &Plan,
    actual: Option<Actual<'_>>,
    notes: &[String],
    meta: Provenance,
) -> Result<Document, DocumentError> {
    let replay = actual.map(Replay::new);
    let mut document = Document::new("ioweir plan", "Background work", &Json { meta: &meta, notes, plan, replay })?;
    document.headline = plan.headline();
    document.records = records_of(&plan.bins, &["start_unix_seconds"]);
    for note in notes {
        document.text(format!("note: {note}"));
    }
    document.push(days(plan));
    document.text(format!(
        "A request of the foreground meets {} background cores on average; it would meet {} if all work were done as soon as \
         there are cores for it.",
        format_decimals(plan.cores_met, 1),
        format_decimals(plan.cores_met_at_once, 1),
    ));
    document.push(windows(plan));
    let mut times = times(plan);
    times.charts.iter_mut().for_each(|chart| mark_busy_hours(plan, chart));
    document.push(times);
    document.push(balance(plan));
    for mut figure in
        [foreground(plan, actual), cores(plan, actual), room(plan, actual), paid(plan), waiting(plan, actual)]
    {
        figure.charts.iter_mut().for_each(|chart| mark_busy_hours(plan, chart));
        document.push(figure);
    }
    if let Some(actual) = actual {
        document.push(course(plan, actual));
    }
    document.heading("Findings");
    let findings = plan.finding_lines();
    for line in if findings.is_empty() { vec!["Nothing is wrong with it.".to_owned()] } else { findings } {
        document.text(line);
    }
    document.provenance = Some(meta);
    Ok(document)
}

/// A number of bins in hours.
fn hours(plan: &Plan, bins: usize) -> String {
    format!("{} h", format_decimals(bins as f64 * plan.bin_seconds as f64 / 3600.0, 1))
}

fn days(plan: &Plan) -> Table {
    let columns = [
        Column::text("day"),
        Column::count("mean IOPS"),
        Column::count("peak cores wanted"),
        Column::count("background core hours"),
        Column::bytes("debt paid"),
        Column::bytes("least free"),
        Column::bytes("at the quantile"),
        Column::text("foreground cut").format(Format::Own),
    ];
    let mut table = Table::new("The days", columns)
        .caption("What is expected, and the least free space if as much comes as the quantile allows.");
    let day_of = |bin: &PlanBin| plan.calendar.day(bin.start_unix_seconds);
    let bytes = |blocks: u64| Cell::from(blocks.saturating_mul(plan.block_bytes));
    for bins in plan.bins.chunk_by(|left, right| day_of(left) == day_of(right)) {
        let iops: u64 = bins.iter().map(|bin| bin.foreground_iops.expected).sum();
        let least = |value: fn(&PlanBin) -> u64| bytes(bins.iter().map(value).min().unwrap_or(0));
        let core_hours = bins.iter().map(|bin| f64::from(bin.background_cores)).sum::<f64>();
        let paid = bins.iter().flat_map(|bin| &bin.paid_blocks).map(|(_, blocks)| blocks).sum();
        let cut = bins.iter().filter(|bin| bin.capacity_forecast_factor < 1.0).count();
        table.row([
            date(day_of(&bins[0]) * DAY_SECONDS).into(),
            (iops / bins.len() as u64).into(),
            bins.iter().map(|bin| bin.foreground_cores_wanted).max().into(),
            (core_hours * plan.bin_seconds as f64 / 3600.0).into(),
            bytes(paid),
            least(|bin| bin.free_blocks.expected),
            least(|bin| bin.free_blocks.low),
            if cut == 0 { "no".into() } else { Cell::from(hours(plan, cut)).fails_if(true) },
        ]);
    }
    table
}

fn windows(plan: &Plan) -> Table {
    let words = |name: &str| Column::text(name).format(Format::Own);
    let columns = [Column::text("service"), words("from"), words("to"), Column::bytes("how much"), words("at most")];
    let mut table =
        Table::new("When to run what", columns).caption("The largest windows of each service, and the most at a time.");
    for sheet in &plan.balance {
        let mut windows: Vec<_> = plan.windows.iter().filter(|window| window.service == sheet.service).collect();
        let left_out = windows.len().saturating_sub(WINDOWS_SHOWN);
        // The largest windows, ordered by time.
        windows.sort_by_key(|window| std::cmp::Reverse(window.blocks));
        windows.truncate(WINDOWS_SHOWN);
        windows.sort_by_key(|window| window.start_unix_seconds);
        let last = windows.len();
        for (index, window) in windows.into_iter().enumerate() {
            let is_cut = left_out > 0 && index + 1 == last;
            let more = if is_cut { format!("; {left_out} more") } else { String::new() };
            table.row([
                window.service.into(),
                short_moment(plan, window.start_unix_seconds).into(),
                short_moment(plan, window.end_unix_seconds).into(),
                window.blocks.saturating_mul(plan.block_bytes).into(),
                format!("{}/s{more}", plan.bytes(window.blocks_per_second_max)).into(),
            ]);
        }
    }
    table
}

/// The windows of each service over time, a row for each.
fn times(plan: &Plan) -> Figure {
    let names: Vec<&str> = plan.balance.iter().map(|sheet| sheet.service).collect();
    let row = |at: usize| (names.len() - at) as f64;
    let series = names.iter().enumerate().map(|(at, name)| {
        let mut series = Series::new(*name, Mark::Dots, Vec::new()).colour(at);
        let of_service = plan.windows.iter().filter(|window| window.service == *name);
        series.band = of_service
            .flat_map(|window| {
                let [from, to] = [window.start_unix_seconds, window.end_unix_seconds]
                    .map(|at| (at - plan.start_unix_seconds) as f64);
                [(from, 0.0), (from, 0.4), (to, 0.4), (to, 0.0)]
            })
            .map(|(time, half)| (time, row(at) - half, row(at) + half))
            .collect();
        series
    });
    let series = series.collect();
    let words = names.iter().enumerate().map(|(at, name)| (row(at), (*name).to_owned()));
    let upward = Axis::new("").showing([0.0, names.len() as f64 + 0.5]).words(words);
    let chart = Chart { title: "Windows".into(), across: time(plan), upward, series };
    Figure::new(
        "When each service runs",
        "If what is expected comes; thin lines join the windows of a service.",
        vec![chart],
    )
}

fn balance(plan: &Plan) -> Table {
    let names = ["owed at start", "incurred", "paid", "owed at end", "bucket", "room back"];
    let mut columns = vec![Column::text("service")];
    columns.extend(names.map(Column::bytes));
    columns.extend([Column::digits("core hours", 1), Column::text("deadline").format(Format::Own)]);
    let mut table = Table::new("Balance sheet", columns)
        .caption("If what is expected comes. The bucket is the most that a service owes at the end of a bin.");
    for sheet in &plan.balance {
        let deadline = match sheet.deadline_kept {
            None => "none",
            Some(true) => "kept",
            Some(false) if sheet.deadline_late_seconds.is_some() => "LATER",
            Some(false) => "MISSED",
        };
        let blocks = [
            sheet.opening_blocks,
            sheet.incurred_blocks,
            sheet.paid_blocks,
            sheet.closing_blocks,
            sheet.bucket_blocks,
            sheet.reclaimed_blocks,
        ];
        let mut cells = vec![Cell::from(sheet.service)];
        cells.extend(blocks.map(|blocks| Cell::from(blocks.saturating_mul(plan.block_bytes))));
        let is_missed = sheet.deadline_kept == Some(false);
        cells.extend([sheet.core_hours.into(), Cell::from(deadline).fails_if(is_missed)]);
        table.row(cells);
    }
    table
}

/// The outcome of a plan, beside that of the fixed watermark and the least of any schedule.
fn course(plan: &Plan, Actual { replayed, fixed, bound, .. }: Actual<'_>) -> Table {
    let words = |name: &str| Column::text(name).format(Format::Own);
    let columns = [words(""), words("this plan"), words("fixed 40-50 %"), words("at least")];
    let mut table = Table::new("What came of it", columns).caption(
        "The plan made anew in each bin, and done slice by slice beside what really came; a fixed watermark, which pays from 40 % of \
         the pool on; and the least that any schedule takes from the foreground which holds floor and deadlines as far as any can.",
    );
    let (violated, delayed) = bound.percent_of(replayed);
    let percent = |value: f64| format!("{} %", format_decimals(value, 1));
    type Fact<'a> = (&'a str, &'a dyn Fn(&Replayed) -> String, Option<f64>);
    let facts: [Fact<'_>; 6] = [
        ("time with requests that waited", &|of| percent(of.violated_percent()), Some(violated)),
        ("requests that waited", &|of| percent(of.delayed_percent()), Some(delayed)),
        ("least free", &|of| plan.bytes(of.free_blocks_min), None),
        ("below the floor", &|of| hours(plan, of.below_floor_bins), None),
        ("pool overrun", &|of| hours(plan, of.overrun_bins), None),
        ("debt past its deadline", &|of| hours(plan, of.late_bins), None),
    ];
    for (name, value, least) in facts {
        let least = least.map_or_else(String::new, percent);
        table.row([Cell::from(name), value(replayed).into(), value(fixed).into(), least.into()]);
    }
    table
}

/// An axis of days since the first midnight, with their names.
fn time(plan: &Plan) -> Axis {
    let seconds = plan.bins.len() as f64 * plan.bin_seconds as f64;
    Axis::days("day, local time", plan.start_unix_seconds + plan.utc_offset_seconds, seconds)
}

fn over_time(plan: &Plan, value: impl Fn(&PlanBin) -> f64) -> Vec<(f64, f64)> {
    plan.bins.iter().map(|bin| ((bin.start_unix_seconds - plan.start_unix_seconds) as f64, value(bin))).collect()
}

fn band(plan: &Plan, value: impl Fn(&PlanBin) -> (f64, f64)) -> Vec<(f64, f64, f64)> {
    let at = |bin: &PlanBin| {
        let (low, high) = value(bin);
        ((bin.start_unix_seconds - plan.start_unix_seconds) as f64, low, high)
    };
    plan.bins.iter().map(at).collect()
}

fn actual_line(plan: &Plan, values: impl Iterator<Item = f64>) -> Series {
    let points = values.enumerate().map(|(bin, value)| ((bin as u64 * plan.bin_seconds) as f64, value));
    Series::new("actual", Mark::Line, points.collect())
}

/// Shades the busy hours in the background of a chart: those with more expected load than the mean of the plan.
fn mark_busy_hours(plan: &Plan, chart: &mut Chart) {
    let all: u64 = plan.bins.iter().map(|bin| bin.foreground_iops.expected).sum();
    let mean = all as f64 / plan.bins.len().max(1) as f64;
    let bands = chart.series.iter().flat_map(|series| &series.band).map(|band| band.2);
    let values = chart.series.iter().flat_map(|series| &series.points).map(|point| point.1);
    let top = values.chain(bands).filter(|value| value.is_finite()).fold(0.0, f64::max);
    if mean == 0.0 {
        return;
    }
    // A chart in which nothing happens has hours, too.
    let top = if top == 0.0 { 1.0 } else { top };
    let is_busy = |bin: &PlanBin| bin.foreground_iops.expected as f64 > mean;
    let level = over_time(plan, |bin| if is_busy(bin) { top } else { 0.0 });
    // The other series keep the colours that they would have without this one.
    for (number, series) in chart.series.iter_mut().enumerate() {
        series.colour.get_or_insert(number);
    }
    chart.series.insert(0, Series::new("busy hours", Mark::Area, level).colour(BUSY_COLOUR));
}

/// Grey.
const BUSY_COLOUR: usize = 6;

fn foreground(plan: &Plan, actual: Option<Actual<'_>>) -> Figure {
    let mut expected = Series::new("expected", Mark::Line, over_time(plan, |bin| bin.foreground_iops.expected as f64));
    expected.band = band(plan, |bin| (bin.foreground_iops.low as f64, bin.foreground_iops.high as f64));
    let mut series = vec![expected];
    if let Some(actual) = actual {
        let rate = |demand: &Demand| demand.requests as f64 / plan.bin_seconds as f64;
        series.push(actual_line(plan, actual.demand.iter().map(rate)));
    }
    let upward = Axis::from_zero("foreground requests a second");
    let chart = Chart { title: "Foreground".into(), across: time(plan), upward, series };
    Figure::new(
        "What is expected of the foreground",
        "The band goes from the low to the high quantile, bin by bin. In each chart the busy hours are shaded: more than the \
         mean of the plan is expected then.",
        vec![chart],
    )
}

fn cores(plan: &Plan, actual: Option<Actual<'_>>) -> Figure {
    let wanted = over_time(plan, |bin| bin.foreground_cores_wanted as f64);
    let mut series = vec![
        Series::new("foreground wants", Mark::Line, wanted),
        Series::new("background works on", Mark::Steps, over_time(plan, |bin| f64::from(bin.background_cores))),
        Series::new("promised to background", Mark::Steps, over_time(plan, |bin| f64::from(bin.reserved_cores))),
    ];
    if let Some(actual) = actual {
        let worked = actual.replayed.course.iter().map(|course| f64::from(course.background_cores));
        series.push(Series { name: "background worked on, actual".into(), ..actual_line(plan, worked) });
    }
    let chart = Chart { title: "Cores".into(), across: time(plan), upward: Axis::from_zero("cores"), series };
    Figure::new(
        "Who gets the cores",
        "Background work takes what the foreground leaves in the quietest hours that room and deadlines allow, and at least \
         what it was promised.",
        vec![chart],
    )
}

fn room(plan: &Plan, actual: Option<Actual<'_>>) -> Figure {
    let tebi = |blocks: u64| blocks as f64 * plan.block_bytes as f64 / (1_u64 << 30) as f64;
    let mut expected = Series::new("expected", Mark::Line, over_time(plan, |bin| tebi(bin.free_blocks.expected)));
    expected.band = band(plan, |bin| (tebi(bin.free_blocks.low), tebi(bin.free_blocks.high)));
    let level = |name: &str, blocks: u64| Series::new(name, Mark::Line, over_time(plan, |_| tebi(blocks)));
    let mut series = vec![expected, level("floor", plan.floor_blocks), level("alarm", plan.alarm_blocks)];
    if let Some(actual) = actual {
        let free =
            actual.replayed.course.iter().map(|course| tebi(plan.pool_blocks.saturating_sub(course.used_blocks)));
        series.push(actual_line(plan, free));
    }
    let chart = Chart { title: "Free space".into(), across: time(plan), upward: Axis::from_zero("GiB free"), series };
    Figure::new(
        "What stays free",
        "The band's lower edge is at the high quantile of the load: the plan keeps it above the floor if any plan does.",
        vec![chart],
    )
}

fn paid(plan: &Plan) -> Figure {
    let mebi = |blocks: u64| blocks as f64 * plan.block_bytes as f64 / (1_u64 << 20) as f64 / plan.bin_seconds as f64;
    let chart = |sheet: &Sheet| {
        let of = |bin: &PlanBin| {
            let found = bin.paid_blocks.iter().find(|(service, _)| *service == sheet.service);
            mebi(found.map_or(0, |(_, blocks)| *blocks))
        };
        let series = vec![Series::new("planned", Mark::Steps, over_time(plan, of))];
        Chart {
            title: sheet.service.into(),
            across: time(plan),
            upward: Axis::from_zero("MiB of debt a second"),
            series,
        }
    };
    let charts = plan.balance.iter().filter(|sheet| sheet.paid_blocks > 0).map(chart).collect();
    Figure::new("When which debt is paid", "If what is expected comes.", charts)
}

fn waiting(plan: &Plan, actual: Option<Actual<'_>>) -> Figure {
    let mut series = vec![
        Series::new("at the high quantile", Mark::Steps, over_time(plan, |bin| bin.queued_requests.high as f64)),
        Series::new("expected", Mark::Steps, over_time(plan, |bin| bin.queued_requests.expected as f64)),
    ];
    if let Some(actual) = actual {
        let queued = actual.replayed.course.iter().map(|course| course.queued_requests as f64);
        series.push(actual_line(plan, queued));
    }
    let chart = Chart {
        title: "Requests that wait".into(),
        across: time(plan),
        upward: Axis::from_zero("requests waiting at a bin's end"),
        series,
    };
    Figure::new("Violations", "Requests that could not be served in the bin in which they came.", vec![chart])
}
