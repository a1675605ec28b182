//! A governor as a document: the debts and why they wait, the coming day, and the payments of the past.

use ioweir_config::{format_bytes, format_decimals};
use serde::Serialize;

use super::governor::{Governor, seconds};
use super::status::{BinRecord, PlannedBin, ServiceStatus, Status};
use ioweir_config::date::{format_day, format_moment};
use ioweir_core::Nanos;
use ioweir_lab::document::{
    Axis, Block, Cell, Chart, Column, Document, DocumentError, Figure, Format, Mark, Series, Table, format_seconds,
    records_of, weekday,
};

const DAY_SECONDS: i64 = 86_400;
/// The length of the past that is shown: a day.
const PAST_SECONDS: i64 = DAY_SECONDS;

#[derive(Serialize)]
struct Json<'a> {
    status: &'a Status,
    plan: &'a [PlannedBin],
    past: &'a [BinRecord],
}

/// A sentence on what the governor is doing now.
#[must_use]
pub fn headline(status: &Status) -> String {
    let owed: u64 = status.services.iter().map(|service| service.owed_bytes).sum();
    let running: Vec<&str> =
        status.services.iter().filter(|service| service.is_running).map(|service| service.service).collect();
    let doing = match &running[..] {
        [] if owed == 0 => "nothing is owed".to_owned(),
        [] => format!("{} are owed, and wait", format_bytes(owed)),
        names => format!("{} are owed; {} runs", format_bytes(owed), names.join(" and ")),
    };
    let unseen =
        if status.is_stale { "; too little is seen of the foreground, so that nothing runs that need not" } else { "" };
    format!("{doing}{unseen}.")
}

/// The governor as a document: a page, or the answer to `--dry-run`.
///
/// # Errors
/// [`DocumentError`], which would be a defect of the program.
pub fn document(governor: &Governor, now: Nanos) -> Result<Document, DocumentError> {
    let status = governor.status(now);
    let json = Json { status: &status, plan: governor.ahead(), past: governor.past() };
    let mut document = Document::new("ioweir govern", "Background work", &json)?;
    document.headline = headline(&status);
    document.records = records_of(governor.ahead(), &["start_unix_seconds"]);
    document.push(Block::Facts(facts(governor, &status)));
    for note in &status.notes {
        document.text(format!("note: {note}"));
    }
    if governor.spec().is_idle_class() {
        document.text(beside_idle_class(governor));
    }
    document.push(services(governor, &status));
    document.push(hours(governor));
    let from = status.now_unix_seconds - PAST_SECONDS;
    document.push(load(governor, from));
    document.push(paid(governor, from));
    Ok(document)
}

/// A sentence on what the governor adds to an idle class.
fn beside_idle_class(governor: &Governor) -> String {
    let now = match governor.waits_for_quieter_hours() {
        true => "The governor lets them wait for quieter hours, which suffice",
        false => {
            "Nothing waits now, so that a plain idle class does as well: no quieter hours suffice, or none are known yet"
        }
    };
    format!(
        "note: the workers are an idle class: they start a request only while the foreground has none, as a service of a block server does \
         without a governor, with `default = \"run\"` and `idle_depth = 0`. {now}."
    )
}

fn facts(governor: &Governor, status: &Status) -> Vec<(String, String)> {
    let percent = |value: f64| format!("{} %", format_decimals(value, 1));
    let per_mille = |value: u32| percent(f64::from(value) / 10.0);
    let what = if governor.spec().cores.is_some() { "of the cores" } else { "of the device's time" };
    let unknown = || "not known yet".to_owned();
    let latency = match (status.latency_seconds, status.latency_max_seconds) {
        (Some(seen), Some(most)) => format!("{}, objective {}", format_seconds(seen), format_seconds(most)),
        (Some(seen), None) => format_seconds(seen),
        (None, Some(most)) => format!("not known, objective {}", format_seconds(most)),
        (None, None) => "not judged".to_owned(),
    };
    let felt = format!(
        "{} of {} samples above the objective, {} of them beside background work",
        status.samples_above, status.samples, status.samples_above_beside_background
    );
    let local = governor.calendar.local_seconds(status.now_unix_seconds);
    [
        ("at", format!("{}, local time", format_moment(local))),
        ("background work may use", format!("{} {what}", per_mille(status.granted_per_mille))),
        ("the objective leaves open", per_mille(status.open_per_mille)),
        ("latency of the foreground", latency),
        ("what was felt", felt),
        ("error of the forecast, last day", status.forecast.error_percent.map_or_else(unknown, percent)),
        ("bins not above its high quantile", status.forecast.covered_percent.map_or_else(unknown, percent)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn services(governor: &Governor, status: &Status) -> Table {
    let words = |name: &str| Column::text(name).format(Format::Own);
    let columns = [
        Column::text("service"),
        Column::bytes("owed"),
        words("due"),
        words("slack"),
        words("now"),
        Column::bytes("paid"),
        Column::bytes("paid late"),
        words("a second of the device"),
    ];
    let mut table = Table::new("Services", columns)
        .caption("Slack is how much later than necessary a service could begin; below zero its deadline is in danger.");
    for service in &status.services {
        table.row([
            service.service.into(),
            service.owed_bytes.into(),
            service.due_unix_seconds.map_or_else(|| "any time".to_owned(), |due| moment(governor, due)).into(),
            service.slack_seconds.map_or_else(|| Cell::from("any"), slack),
            doing(service).into(),
            service.count.paid_bytes.into(),
            service.count.late_bytes.into(),
            format_bytes(service.bytes_per_device_second).into(),
        ]);
    }
    table
}

fn slack(seconds: i64) -> Cell {
    let size = format_seconds(seconds.unsigned_abs() as f64);
    Cell::from(if seconds < 0 { format!("-{size}") } else { size }).fails_if(seconds < 0)
}

/// The state of a service: running, idle, or why it waits.
fn doing(service: &ServiceStatus) -> String {
    match (service.is_running, service.waits) {
        (true, _) => "runs".into(),
        (false, None) => "owes nothing".into(),
        (false, Some(why)) => format!("waits: {why}"),
    }
}

/// `Wed 07:00` on the local clock, with the date where there is a nearer Wednesday.
fn moment(governor: &Governor, unix_seconds: i64) -> String {
    let now = seconds(governor.known.now_nanos);
    let [local, now] = [unix_seconds, now].map(|at| governor.calendar.local_seconds(at));
    let [day, today] = [local, now].map(|at| at.div_euclid(DAY_SECONDS));
    let date = if (day - today).abs() < 7 { String::new() } else { format!("{} ", format_day(day)) };
    let time = local.rem_euclid(DAY_SECONDS);
    format!("{} {date}{:02}:{:02}", weekday(day), time / 3600, time % 3600 / 60)
}

/// The plan of the coming day, hour by hour.
fn hours(governor: &Governor) -> Table {
    let columns = [
        Column::text("from"),
        Column::digits("foreground, %", 1),
        Column::digits("at the quantile, %", 1),
        Column::digits("at most, %", 1),
        Column::digits("reserved, %", 1),
        Column::bytes("paid"),
        Column::text("services").format(Format::Own),
    ];
    let mut table = Table::new("The coming day", columns).caption(
        "Shares of the device's time, or of the cores: what the foreground is expected to take, what it takes if as much comes \
         as the quantile says, what background work may use, and what is reserved for it.",
    );
    let end = governor.ahead().first().map_or(0, |bin| bin.start_unix_seconds + DAY_SECONDS);
    let day: Vec<&PlannedBin> = governor.ahead().iter().filter(|bin| bin.start_unix_seconds < end).collect();
    let hour = |bin: &PlannedBin| governor.calendar.local_seconds(bin.start_unix_seconds).div_euclid(3600);
    for bins in day.chunk_by(|left, right| hour(left) == hour(right)) {
        let mean = |of: fn(&PlannedBin) -> u32| {
            bins.iter().map(|bin| f64::from(of(bin))).sum::<f64>() / bins.len() as f64 / 10.0
        };
        let most = |of: fn(&PlannedBin) -> u32| f64::from(bins.iter().map(|bin| of(bin)).max().unwrap_or(0)) / 10.0;
        let paid = || bins.iter().flat_map(|bin| &bin.pay_bytes);
        let mut names: Vec<&str> = paid().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        table.row([
            moment(governor, bins[0].start_unix_seconds).into(),
            mean(|bin| bin.forecast_per_mille[1]).into(),
            most(|bin| bin.forecast_per_mille[2]).into(),
            most(|bin| bin.limit_per_mille.min(1000)).into(),
            most(|bin| bin.reserve_per_mille).into(),
            paid().map(|(_, bytes)| *bytes).sum::<u64>().into(),
            names.join(", ").into(),
        ]);
    }
    table
}

/// An axis of time from a moment to the end of the plan.
fn time(governor: &Governor, from: i64) -> Axis {
    let end = governor.ahead().last().map_or(from, |bin| bin.start_unix_seconds);
    Axis::days("day, local time", governor.calendar.local_seconds(from), (end - from) as f64)
}

fn recent(governor: &Governor, from: i64) -> impl Iterator<Item = &BinRecord> {
    governor.past().iter().filter(move |bin| bin.start_unix_seconds >= from)
}

fn load(governor: &Governor, from: i64) -> Figure {
    let at = |seconds: i64| (seconds - from) as f64;
    let percent = |per_mille: u32| f64::from(per_mille) / 10.0;
    let was = recent(governor, from).filter_map(|bin| Some((bin.start_unix_seconds, bin.forecast_per_mille?)));
    let will = governor.ahead().iter().map(|bin| (bin.start_unix_seconds, bin.forecast_per_mille));
    let all: Vec<(i64, [u32; 3])> = was.chain(will).collect();
    let points = all.iter().map(|(time, [_, expected, _])| (at(*time), percent(*expected))).collect();
    let mut forecast = Series::new("forecast", Mark::Line, points);
    forecast.band = all.iter().map(|(time, [low, _, high])| (at(*time), percent(*low), percent(*high))).collect();
    let actual = recent(governor, from).map(|bin| {
        let value = bin.actual_per_mille.map_or(f64::NAN, percent);
        (at(bin.start_unix_seconds), value)
    });
    let limit = governor.ahead().iter().map(|bin| (at(bin.start_unix_seconds), percent(bin.limit_per_mille.min(1000))));
    let series = vec![
        Series::new("background may use", Mark::Steps, limit.collect()),
        forecast,
        Series::new("measured", Mark::Line, actual.collect()),
    ];
    let upward = Axis::from_zero("share, %");
    let chart = Chart { title: "Foreground".into(), across: time(governor, from), upward, series };
    let text = "The band is from the low to the high quantile of the forecast; a gap in what was measured is a gap.";
    Figure::new("Forecast and load", text, vec![chart])
}

fn paid(governor: &Governor, from: i64) -> Figure {
    let names: Vec<&str> = governor.spec().services().map(|(service, _)| service.name()).collect();
    let of = |all: &[(String, u64)], name: &str| {
        all.iter().find(|(other, _)| other == name).map_or(0.0, |(_, bytes)| *bytes as f64 / 1e9)
    };
    let at = |seconds: i64| (seconds - from) as f64;
    let series = |of_past: &dyn Fn(&BinRecord, &str) -> f64, of_plan: &dyn Fn(&PlannedBin, &str) -> f64| {
        let one = |name: &&str| {
            let was = recent(governor, from).map(|bin| (at(bin.start_unix_seconds), of_past(bin, name)));
            let will = governor.ahead().iter().map(|bin| (at(bin.start_unix_seconds), of_plan(bin, name)));
            Series::new(*name, Mark::Steps, was.chain(will).collect())
        };
        names.iter().map(one).collect::<Vec<_>>()
    };
    let chart = |title: &str, series| Chart {
        title: title.into(),
        across: time(governor, from),
        upward: Axis::from_zero("GB in a bin"),
        series,
    };
    let done = series(&|bin, name| of(&bin.paid_bytes, name), &|bin, name| of(&bin.pay_bytes, name));
    let owed = series(&|bin, name| of(&bin.owed_bytes, name), &|_, _| f64::NAN);
    let owed = Chart { upward: Axis::from_zero("GB"), ..chart("Owed", owed) };
    let text = "What was paid until now, and what is planned from now on if as much comes as the quantile says.";
    Figure::new("What is paid when, and what is owed", text, vec![chart("Paid", done), owed])
}
