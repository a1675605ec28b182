//! A scorecard as a document: the advice, a line for each scheduler, the tests one by one, and protection against throughput as curves.

use std::sync::Arc;

use ioweir_config::format_count;
use serde::Serialize;
use serde_json::json;

use super::advice::Advice;
use super::figures::{Score, Tests, USUAL};
use super::loads::{Loads, Strength};
use super::measured::Measured;
use super::qos::Searched;
use super::spec::ScorecardSpec;
use ioweir_device::DeviceSpec;
use ioweir_lab::compare::percent;
use ioweir_lab::document::{
    Axis, Better, Block, Cell, Chart, Column, Document, DocumentError, Emphasis, Figure as Drawing, Format, Mark,
    Origin, Provenance, Series, Table, Value, format_seconds,
};
use ioweir_lab::experiment::Figure;

/// Scores of the tests as a server was measured under them.
pub(super) struct OnServer {
    pub(super) measured: Arc<Measured>,
    /// In the order of the simulated ones.
    pub(super) scores: Vec<Score>,
    pub(super) advice: Advice,
}

/// A row of the tables: its name, and the figures.
type Shown<'a> = (String, &'a Score);

/// Makes the document.
pub(super) fn document(
    spec: &ScorecardSpec,
    origin: &Origin,
    device: &DeviceSpec,
    (loads, searched, on_server): (&Loads, &[Searched], Option<&OnServer>),
    (scores, tests): (&[Score], Tests),
    advice: &Advice,
) -> Result<Document, DocumentError> {
    let mut data = json!({
        "meta": {
            "version": origin.version,
            "commit": origin.commit,
            "command": origin.command,
            "device": spec.device,
            "depth": loads.depth,
            "seeds": spec.seeds,
            "span_seconds": loads.span_seconds(),
            "reads_per_second": loads.capacity(),
            "p99_alone_seconds": loads.p99_alone.as_seconds(),
            "slowdown_max": spec.slowdown,
        },
        "advice": serde_json::to_value(advice)?,
        "schedulers": serde_json::to_value(scores)?,
        "tests": tests.iter().map(|(_, toml)| toml).collect::<Vec<_>>(),
    });
    if let Some(of) = on_server {
        data["measured"] = json!({
            "machine": of.measured.machine,
            "versions": of.measured.versions,
            "advice": serde_json::to_value(&of.advice)?,
            "schedulers": serde_json::to_value(&of.scores)?,
            "agreement": serde_json::to_value(agreement(scores, &of.scores))?,
        });
    }
    let mut document = Document::new("ioweir advise scorecard", format!("Isolation on {}", spec.device), &data)?;
    document.headline = advice.text.clone();
    let care = advice.judgement.text();
    if advice.judgement.recommends() && !care.is_empty() {
        document.text(care);
    }
    if let Some(of) = on_server {
        document.text(format!("Measured on a server: {}", of.advice.text));
    }
    let measured = on_server.map_or(&[][..], |of| &of.scores);
    let shown: Vec<Shown<'_>> = (0..scores.len()).flat_map(|at| of_both(scores, measured, at)).collect();
    document.records = records(scores, measured);
    document.push(overview(&shown));
    if on_server.is_some() {
        document.push(agreement_table(&agreement(scores, measured)));
    }
    document.push(by_protection(&shown));
    document.push(by_fairness(&shown));
    document.push(trade_off(scores, measured, spec.slowdown));
    let mut facts = facts(spec, loads, searched);
    facts.extend(on_server.map(|of| ("measured".into(), measured_with(&of.measured))));
    let shortened = scores.iter().filter(|score| score.label != score.scheduler);
    facts.extend(shortened.map(|score| (score.label.clone(), score.scheduler.clone())));
    document.push(Block::Facts(facts));
    let mut specs = vec![("The spec as TOML, with every default".to_owned(), spec.to_toml())];
    specs.push(("The device".into(), device.to_toml()));
    // Each test runs by itself under `ioweir simulate`.
    specs.extend(tests);
    document.provenance = Some(Provenance::new(origin, Vec::new(), specs));
    Ok(document)
}

/// A simulated score, and the measured one if there is any.
fn of_both<'a>(scores: &'a [Score], measured: &'a [Score], at: usize) -> impl Iterator<Item = Shown<'a>> {
    let label = &scores[at].label;
    let other = measured.get(at).map(|score| (format!("{label}, measured"), score));
    std::iter::once((label.clone(), &scores[at])).chain(other)
}

fn measured_with(measured: &Measured) -> String {
    let versions: Vec<String> = measured.versions.values().cloned().collect();
    let [before, after] =
        [&measured.load_average_before, &measured.load_average_after].map(|load| load.first().copied().unwrap_or(0.0));
    format!(
        "{}; {}; load average {before} before and {after} after; {}",
        measured.machine,
        versions.join(", "),
        measured.shared
    )
}

/// A figure with its interval, in a unit.
fn value(figure: Figure, scale: f64) -> Cell {
    match figure.half_width {
        Some(half_width) => Value::Interval(figure.mean * scale, half_width * scale).into(),
        None => Value::Number(figure.mean * scale).into(),
    }
}

fn column(name: &str, unit: &str) -> Column {
    Column::text(name).unit(unit).format(Format::Own)
}

fn overview(shown: &[Shown<'_>]) -> Table {
    let columns = [
        Column::text("scheduler"),
        column("throughput alone", "%"),
        column("latency alone", "x"),
        column("least fair", "Jain").better(Better::Higher),
        column("p99 beside 4", "x"),
        column("given up", "%"),
        column("to its share", "ms"),
        column("cost of that", "ms"),
        column("conserved", "%"),
        column("longest wait", "ms"),
    ];
    let mut table = Table::new("Scores", columns).caption(
        "Alone: one tenant, by the same under no scheduler. Least fair: the lowest Jain index of the tests below. p99 beside 4 busy tenants, \
         by that alone, with the settings that protect for the least throughput, or else those of the lowest p99; throughput given up for it. \
         The time until a tenant that wakes up has its share, and how far that puts the other behind, in time of the device. Conserved: \
         throughput of a busy tenant beside a preferred one that is silent. Longest wait of anyone, beside preferred tenants that are busy.",
    );
    for (label, score) in shown {
        let shown = score.protects().or_else(|| score.lowest());
        let ratio = shown.and_then(|of| of.p99_ratio).map_or(Cell::from(Value::Absent), |ratio| value(ratio, 1.0));
        let served = |cell: Cell| if score.starvation.all_served { cell } else { cell.emphasis(Emphasis::Fails) };
        table.row([
            label.as_str().into(),
            value(score.throughput_alone, 100.0),
            value(score.latency_alone, 1.0),
            score.least_fair().map_or(Cell::from(Value::Absent), |least| value(least.jain, 1.0)),
            ratio.fails_if(score.protects().is_none()),
            shown.map_or(Cell::from(Value::Absent), |of| value(of.given_up, 100.0)),
            score.wake.to_share_seconds.map_or(Cell::from("never").fails_if(true), |time| value(time, 1e3)),
            value(score.wake.cost_seconds, 1e3),
            value(score.work_conservation, 100.0),
            served(value(score.starvation.longest_seconds, 1e3)),
        ]);
    }
    table
}

fn by_protection(shown: &[Shown<'_>]) -> Table {
    let columns = [
        Column::text("scheduler"),
        Column::count("busy tenants"),
        Column::text("settings"),
        column("p99", "x"),
        column("given up", "%"),
        Column::text("protected"),
    ];
    let mut table = Table::new("Protection", columns).caption(
        "The p99 of a latency-sensitive tenant that asks for 5 % of the device, by that alone; the throughput of all that is given up for \
         it, by that under no scheduler.",
    );
    for (label, score) in shown {
        for of in &score.protection {
            table.row([
                label.as_str().into(),
                of.neighbours.into(),
                of.settings.name().into(),
                of.p99_ratio.map_or(Cell::from("not served"), |ratio| value(ratio, 1.0)).fails_if(!of.is_protected),
                value(of.given_up, 100.0),
                of.is_protected.into(),
            ]);
        }
    }
    table
}

fn by_fairness(shown: &[Shown<'_>]) -> Table {
    let tests = shown.first().map_or(&[][..], |(_, score)| &score.fairness);
    let names = tests.iter().map(|fairness| column(fairness.test, "").better(Better::Higher));
    let mut table = Table::new("Fairness by weight", std::iter::once(Column::text("scheduler")).chain(names)).caption(
        "Jain's index of the rate of each busy tenant, by its weight and by the rate that its kind of requests has alone: 1 where all are \
         equal, 1/n where one of n has everything.",
    );
    for (label, score) in shown {
        let jain = score.fairness.iter().map(|fairness| value(fairness.jain, 1.0));
        table.row(std::iter::once(label.as_str().into()).chain(jain));
    }
    table
}

/// Protection against throughput: a line for each scheduler over the settings.
fn trade_off(scores: &[Score], measured: &[Score], slowdown: u32) -> Drawing {
    let chart = |title: String, scores: &[Score]| {
        let series = scores.iter().map(|score| {
            let points = score.usual().filter_map(|of| Some((of.given_up.mean * 100.0, of.p99_ratio?.mean)));
            let points: Vec<(f64, f64)> = points.collect();
            let mark = if points.windows(2).all(|pair| pair[0] == pair[1]) { Mark::Dots } else { Mark::Line };
            Series::new(&score.label, mark, points)
        });
        Chart {
            title,
            across: Axis::from_zero("throughput given up (%)"),
            upward: Axis::logarithmic("p99 by that alone").showing([1.0, f64::from(slowdown)]),
            series: series.collect(),
        }
    };
    let text = "Down and to the left is better. Each line goes from weak over medium to strong settings.";
    let mut charts = vec![chart(format!("Beside {USUAL} busy tenants"), scores)];
    if !measured.is_empty() {
        charts.push(chart("The same, measured on a server".into(), measured));
    }
    Drawing::new("Protection against throughput", text, charts)
}

fn facts(spec: &ScorecardSpec, loads: &Loads, searched: &[Searched]) -> Vec<(String, String)> {
    let settings = |strength: Strength| {
        let [first, others] = strength.priorities();
        format!(
            "weight {} beside 1; latency {} times the p99 alone; the others limited to {} together; priorities {first} and {others}",
            strength.weight(),
            strength.target(),
            percent(strength.limit())
        )
    };
    let mut facts = vec![
        ("no scheduler".to_owned(), "stands for fifo: requests in the order of arrival".to_owned()),
        (
            "device".into(),
            format!(
                "{} random reads of 4 KiB a second, {} at once; a tenant that asks for 5 % of that has a p99 of {} alone",
                format_count(loads.capacity().round() as u64),
                loads.depth,
                format_seconds(loads.p99_alone.as_seconds())
            ),
        ),
        ("busy".into(), "32 random reads of 4 KiB outstanding, or writes, or 8 reads of 256 KiB".into()),
        ("protected".into(), format!("a p99 of at most {} times that alone, in every run", spec.slowdown)),
        (
            "runs".into(),
            format!("{:.1} s each after a third of that as warm-up, {} seeds", loads.span_seconds(), spec.seeds.len()),
        ),
    ];
    facts.extend(Strength::ALL.map(|strength| (format!("{} settings", strength.name()), settings(strength))));
    facts.push((
        "limits in tests of fairness".into(),
        "io-max limits each tenant to its share of what its requests have alone".into(),
    ));
    facts.extend(searched.iter().map(|searched| ("io-cost's qos".into(), searched.text.clone())));
    facts
}

/// A figure of a scorecard: its test, its name, and its value.
type Named = (String, &'static str, Option<Figure>);

/// Every figure of a scheduler.
fn figures(score: &Score) -> Vec<Named> {
    let mut all: Vec<Named> = vec![
        ("alone".into(), "throughput_share", Some(score.throughput_alone)),
        ("alone".into(), "latency_ratio", Some(score.latency_alone)),
        ("8, 1 to 8".into(), "throughput_share", Some(score.throughput_shared)),
    ];
    all.extend(score.fairness.iter().map(|fairness| (fairness.test.into(), "jain", Some(fairness.jain))));
    for of in &score.protection {
        let test = format!("beside {}, {}", of.neighbours, of.settings.name());
        all.extend([(test.clone(), "p99_ratio", of.p99_ratio), (test, "given_up_share", Some(of.given_up))]);
    }
    all.extend([
        ("wake".into(), "to_share_seconds", score.wake.to_share_seconds),
        ("wake".into(), "cost_seconds", Some(score.wake.cost_seconds)),
        ("silent".into(), "work_conservation", Some(score.work_conservation)),
        ("starvation".into(), "longest_wait_seconds", Some(score.starvation.longest_seconds)),
    ]);
    all
}

/// One row for each scheduler and figure.
fn records(scores: &[Score], measured: &[Score]) -> Table {
    let columns = ["scheduler", "by", "test", "figure", "mean", "half_width"].map(Column::text);
    let mut table = Table::new("", columns);
    let all = scores.iter().map(|score| ("simulation", score)).chain(measured.iter().map(|score| ("server", score)));
    for (by, score) in all {
        for (test, name, figure) in figures(score) {
            table.row([
                score.scheduler.as_str().into(),
                by.into(),
                test.into(),
                name.into(),
                figure.map(|figure| figure.mean).into(),
                figure.and_then(|figure| figure.half_width).into(),
            ]);
        }
    }
    table
}

/// How far a measured share or index may be from the simulated one, and another figure as a part of it.
const SHARE_APART: f64 = 0.05;
const PART_APART: f64 = 0.2;

/// How many measured figures of a kind are near the simulated ones, and which differs most.
#[derive(Serialize)]
struct Agreement {
    figure: &'static str,
    near: usize,
    of: usize,
    scheduler: String,
    test: String,
    simulated: Option<Figure>,
    measured: Option<Figure>,
}

/// How far a measured figure is from the simulated one, in multiples of what is near.
fn apart(name: &str, own: Option<Figure>, other: Option<Figure>) -> f64 {
    match (own, other) {
        (Some(own), Some(other)) if name.ends_with("share") || ["jain", "work_conservation"].contains(&name) => {
            (own.mean - other.mean).abs() / SHARE_APART
        }
        // Two zeros, whose quotient is no number, are equal.
        (Some(own), Some(other)) => ((other.mean / own.mean - 1.0).abs() / PART_APART).max(0.0),
        (None, None) => 0.0,
        _ => f64::INFINITY,
    }
}

fn agreement(scores: &[Score], measured: &[Score]) -> Vec<Agreement> {
    let mut kinds: Vec<(Agreement, f64)> = Vec::new();
    for (score, other) in scores.iter().zip(measured) {
        for ((test, figure, simulated), (.., measured)) in figures(score).into_iter().zip(figures(other)) {
            let apart = apart(figure, simulated, measured);
            let known = kinds.iter().position(|(kind, _)| kind.figure == figure);
            let (near, of) = known.map_or((0, 0), |at| (kinds[at].0.near, kinds[at].0.of));
            let (near, of) = (near + usize::from(apart <= 1.0), of + 1);
            let scheduler = score.label.clone();
            let own = (Agreement { figure, near, of, scheduler, test, simulated, measured }, apart);
            match known {
                None => kinds.push(own),
                Some(at) if apart > kinds[at].1 => kinds[at] = own,
                Some(at) => (kinds[at].0.near, kinds[at].0.of) = (near, of),
            }
        }
    }
    kinds.into_iter().map(|(kind, _)| kind).collect()
}

fn agreement_table(agreement: &[Agreement]) -> Table {
    let columns = [
        Column::text("figure"),
        Column::count("near"),
        Column::count("of"),
        Column::text("furthest"),
        column("simulated", ""),
        column("measured", ""),
    ];
    let mut table = Table::new("Simulated and measured", columns).caption(
        "Near: shares and Jain indices within 0.05, other figures within 20 %, or both absent. Furthest: the scheduler and the test \
         in which a figure of that kind differs most.",
    );
    let cell = |figure: Option<Figure>| figure.map_or(Cell::from(Value::Absent), |figure| value(figure, 1.0));
    for of in agreement {
        table.row([
            of.figure.replace('_', " ").into(),
            of.near.into(),
            of.of.into(),
            format!("{}, {}", of.scheduler, of.test).into(),
            cell(of.simulated),
            cell(of.measured),
        ]);
    }
    table
}
