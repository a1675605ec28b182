//! How does a plan look? One page: forecast bands, planned and actual work, free space, violations, the tables.

use serde::Serialize;

use super::made::{Plan, PlanBin};
use super::replay::Replayed;
use super::system::Demand;
use super::text::{replay_table, weekday};
use crate::report::figure::{DrawnFigure, render_page as render};
use crate::report::{Axis, Chart, Figure, Mark, ReportError, Series};
use crate::reproduce::{Provenance, Table};

const TEMPLATE: &str = include_str!("../../assets/plan.html");

#[derive(Serialize)]
struct View<'a> {
    headline: String,
    notes: &'a [String],
    findings: Vec<String>,
    figures: Vec<DrawnFigure<'a>>,
    tables: Vec<Table>,
    meta: &'a Provenance,
}

/// What really came, and what was made of it.
#[derive(Clone, Copy, Debug)]
pub struct Actual<'a> {
    /// The foreground.
    pub demand: &'a [Demand],
    /// The course.
    pub replayed: &'a Replayed,
}

/// The plan as a page that needs nothing else.
///
/// # Errors
/// [`ReportError`] where the template cannot be filled in.
pub fn render_page(
    plan: &Plan,
    actual: Option<Actual<'_>>,
    notes: &[String],
    meta: &Provenance,
) -> Result<String, ReportError> {
    let figures =
        [foreground(plan, actual), cores(plan, actual), room(plan, actual), paid(plan), waiting(plan, actual)];
    let mut tables = plan.tables();
    tables.extend(actual.map(|actual| replay_table(plan, actual.replayed)));
    let view = View {
        headline: plan.headline(),
        notes,
        findings: plan.finding_lines(),
        figures: figures.iter().map(Figure::draw).collect(),
        tables,
        meta,
    };
    render("plan.html", TEMPLATE, &view)
}

/// Days since the first midnight, named.
fn time(plan: &Plan) -> Axis {
    const DAY: i64 = 86_400;
    let (Some(first), Some(last)) = (plan.bins.first(), plan.bins.last()) else { return Axis::new("day") };
    let local = |bin: &PlanBin| bin.start_unix_seconds + plan.utc_offset_seconds;
    let start = local(first);
    let days = start.div_euclid(DAY)..=local(last).div_euclid(DAY);
    let words = days.filter(|day| day * DAY >= start).map(|day| ((day * DAY - start) as f64, weekday(day).to_owned()));
    Axis { words: words.collect(), ..Axis::new("day, local time") }
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

fn figure(title: &str, text: &str, charts: Vec<Chart>) -> Figure {
    Figure { title: title.into(), text: text.into(), charts }
}

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
    figure(
        "What is expected of the foreground",
        "The band goes from the low to the high quantile, bin by bin.",
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
    figure(
        "Who gets the cores",
        "Background work takes what the foreground leaves, and at least what it was promised.",
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
    figure(
        "What stays free",
        "The band's lower edge is at the high quantile of the load: the plan keeps it above the floor if any plan does.",
        vec![chart],
    )
}

fn paid(plan: &Plan) -> Figure {
    let mebi = |blocks: u64| blocks as f64 * plan.block_bytes as f64 / (1_u64 << 20) as f64 / plan.bin_seconds as f64;
    let chart = |sheet: &super::made::Sheet| {
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
    figure("When which debt is paid", "If what is expected comes.", charts)
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
    figure("Violations", "Requests that could not be served in the bin in which they came.", vec![chart])
}
