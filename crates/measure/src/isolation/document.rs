//! A scorecard as a document: the advice, a line for each scheduler, the tests one by one, and protection against throughput as curves.

use ioweir_config::{SchedulerChoice, format_count};
use serde_json::json;

use super::advice::Advice;
use super::figures::{Score, Tests, USUAL};
use super::loads::{Loads, Strength};
use super::spec::ScorecardSpec;
use ioweir_device::DeviceSpec;
use ioweir_lab::compare::percent;
use ioweir_lab::document::{
    Axis, Better, Block, Cell, Chart, Column, Document, DocumentError, Emphasis, Figure as Drawing, Format, Mark,
    Origin, Provenance, Series, Table, Value, format_seconds,
};
use ioweir_lab::experiment::Figure;

/// Makes the document.
pub(super) fn document(
    spec: &ScorecardSpec,
    origin: &Origin,
    device: &DeviceSpec,
    loads: &Loads,
    (scores, tests): (&[Score], Tests),
    advice: &Advice,
) -> Result<Document, DocumentError> {
    let data = json!({
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
    });
    let mut document = Document::new("ioweir scorecard", format!("Isolation on {}", spec.device), &data)?;
    document.headline = advice.text.clone();
    let care = advice.judgement.text();
    if advice.judgement.recommends() && !care.is_empty() {
        document.text(care);
    }
    document.records = records(scores);
    document.push(overview(scores));
    document.push(by_protection(scores));
    document.push(by_fairness(scores));
    document.push(trade_off(scores, spec.slowdown));
    let mut facts = facts(spec, loads);
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

fn overview(scores: &[Score]) -> Table {
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
    for score in scores {
        let shown = score.protects().or_else(|| score.lowest());
        let ratio = shown.and_then(|of| of.p99_ratio).map_or(Cell::from(Value::Absent), |ratio| value(ratio, 1.0));
        let served = |cell: Cell| if score.starvation.all_served { cell } else { cell.emphasis(Emphasis::Fails) };
        table.row([
            score.label.as_str().into(),
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

fn by_protection(scores: &[Score]) -> Table {
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
    for score in scores {
        for of in &score.protection {
            table.row([
                score.label.as_str().into(),
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

fn by_fairness(scores: &[Score]) -> Table {
    let tests = scores.first().map_or(&[][..], |score| &score.fairness);
    let names = tests.iter().map(|fairness| column(fairness.test, "").better(Better::Higher));
    let mut table = Table::new("Fairness by weight", std::iter::once(Column::text("scheduler")).chain(names)).caption(
        "Jain's index of the rate of each busy tenant, by its weight and by the rate that its kind of requests has alone: 1 where all are \
         equal, 1/n where one of n has everything.",
    );
    for score in scores {
        let jain = score.fairness.iter().map(|fairness| value(fairness.jain, 1.0));
        table.row(std::iter::once(score.label.as_str().into()).chain(jain));
    }
    table
}

/// Protection against throughput: a line for each scheduler over the settings.
fn trade_off(scores: &[Score], slowdown: u32) -> Drawing {
    let series = scores.iter().map(|score| {
        let points = score.usual().filter_map(|of| Some((of.given_up.mean * 100.0, of.p99_ratio?.mean)));
        let points: Vec<(f64, f64)> = points.collect();
        let mark = if points.windows(2).all(|pair| pair[0] == pair[1]) { Mark::Dots } else { Mark::Line };
        Series::new(&score.label, mark, points)
    });
    let chart = Chart {
        title: format!("Beside {USUAL} busy tenants"),
        across: Axis::from_zero("throughput given up (%)"),
        upward: Axis::logarithmic("p99 by that alone").showing([1.0, f64::from(slowdown)]),
        series: series.collect(),
    };
    let text = "Down and to the left is better. Each line goes from weak over medium to strong settings.";
    Drawing::new("Protection against throughput", text, vec![chart])
}

/// Whether a scheduler is io-cost without latencies that slow the device, or a cap.
fn has_no_qos(choice: &SchedulerChoice) -> bool {
    let is_default =
        |name: &str| choice.row.get(&choice.settings, name) == choice.row.get(&choice.row.defaults(), name);
    choice.row.name == "io-cost" && ["rpct", "wpct", "max"].into_iter().all(is_default)
}

fn facts(spec: &ScorecardSpec, loads: &Loads) -> Vec<(String, String)> {
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
    if spec.schedulers.iter().any(has_no_qos) {
        let text = format!(
            "not searched for this device, so that weights may not hold: `ioweir qos {} --p99 TIME` does that",
            spec.device
        );
        facts.push(("io-cost's qos".into(), text));
    }
    facts
}

/// One row for each scheduler and figure.
fn records(scores: &[Score]) -> Table {
    let columns = ["scheduler", "test", "figure", "mean", "half_width"].map(Column::text);
    let mut table = Table::new("", columns);
    for score in scores {
        let mut row = |test: &str, name: &str, figure: Option<Figure>| {
            table.row([
                score.scheduler.as_str().into(),
                test.into(),
                name.into(),
                figure.map(|figure| figure.mean).into(),
                figure.and_then(|figure| figure.half_width).into(),
            ]);
        };
        row("alone", "throughput_share", Some(score.throughput_alone));
        row("alone", "latency_ratio", Some(score.latency_alone));
        row("8, 1 to 8", "throughput_share", Some(score.throughput_shared));
        score.fairness.iter().for_each(|fairness| row(fairness.test, "jain", Some(fairness.jain)));
        for of in &score.protection {
            let test = format!("beside {}, {}", of.neighbours, of.settings.name());
            row(&test, "p99_ratio", of.p99_ratio);
            row(&test, "given_up_share", Some(of.given_up));
        }
        row("wake", "to_share_seconds", score.wake.to_share_seconds);
        row("wake", "cost_seconds", Some(score.wake.cost_seconds));
        row("silent", "work_conservation", Some(score.work_conservation));
        row("starvation", "longest_wait_seconds", Some(score.starvation.longest_seconds));
    }
    table
}
