//! Advice as a document: the answer in a sentence, its evidence, the commands to type, and what would change it.

use ioweir_config::{format_count, format_nanos};
use sha2::{Digest, Sha256};

use super::confirm::{Change, Verdict};
use super::data::{Advice, Lowest, Row};
use super::host::Step;
use super::own_error::ClassError;
use super::pauses::Paused;
use super::report::Report;
use ioweir_lab::compare::{and_list, percent};
use ioweir_lab::document::{
    Axis, Better, Block, Cell, Chart, Column, Document, DocumentError, Emphasis, Figure, Format, Mark, Origin,
    Provenance, SAME_SHARE, Series, Table, Value, format_seconds, hexadecimal, records_of,
};

/// The most traces that the title names one by one.
const NAMED_MAX: usize = 4;

/// Makes the document.
pub(super) fn document(report: &Report<'_>, origin: &Origin) -> Result<Document, DocumentError> {
    let data = Advice::new(report);
    let rows = data.candidates.clone();
    let title = format!("What to set for {} on {}", traffic(report), report.spec.device);
    let mut document = Document::new("ioweir advise", title, &data)?;
    document.headline = headline(report, &rows);
    document.records = records_of(&rows, &["candidate", "verdict"]);
    document.text(format!("The device {} is {}.", report.spec.device, report.standing.words()));
    let care = report.judgement.text();
    if report.judgement.recommends() && !care.is_empty() {
        document.text(care);
    }
    document.text(certainty(report));
    if let Some(reason) = &report.reason {
        document.text(format!("Why: {reason}."));
    }
    if let Some(of) = &report.of {
        document.text(format!("The goal is that of {of}. --of says whose count."));
    }
    document.text(by_load(report, &rows));
    if !report.steps.is_empty() {
        document.push(steps("What to type", &report.steps));
    }
    if report.spec.cgroups {
        document.push(protection(report, &rows));
        if report.spec.bound.is_none() {
            document.text(
                "The lowest goal is taken, whatever it costs the others; with --bound, the cheapest that keeps it.",
            );
        }
    }
    if let Some((at, lines)) = &report.beside {
        let whose = if report.rounds.candidates[*at].only_served() { "the server's way" } else { "the kernel's way" };
        let (row, goal) = (&rows[*at], report.noun(report.spec.goal));
        let less = percent(-row.both.mean);
        document.text(format!("Instead, {whose}: {}, {goal} {less} less, {}.", row.label, cost(report, *at)));
        document.push(steps(&format!("Instead, {whose}"), lines));
    }
    document.push(judged(report, &rows));
    rows.iter().filter(|row| row.label != row.candidate).for_each(|row| {
        document.text(format!("{} is {}.", row.label, row.candidate));
    });
    document.push(would_change(report, &data.changes));
    document.text(changes_text(report, &data.changes));
    document.push(think_times(report));
    document.text(think_text(report));
    push_front(&mut document, report);
    document.push(settings(report));
    document.push(own_error(report));
    document.push(Block::Facts(facts(report)));
    document.provenance = Some(provenance(report, origin));
    Ok(document)
}

fn traffic(report: &Report<'_>) -> String {
    if report.is_generated {
        return "generated mixes".into();
    }
    let names: Vec<&str> = report.traces.iter().map(|trace| last(&trace.name)).collect();
    if names.len() > NAMED_MAX { format!("{} traces", names.len()) } else { and_list(&names) }
}

fn last(name: &str) -> &str {
    name.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(name)
}

/// A range of savings: "9.8 % to 14 %".
fn savings(change: Change) -> String {
    let share = |value: f64| percent((-value).max(0.0));
    format!("{} to {}", share(change.high), share(change.low))
}

fn headline(report: &Report<'_>, rows: &[Row]) -> String {
    let goal = report.spec.goal;
    let leave = &rows[0].candidate;
    let others = rows.len() - 1;
    if !report.judgement.recommends() {
        return report.judgement.text();
    }
    if report.choice > 0 {
        let row = &rows[report.choice];
        let cost = match report.rounds.candidates[report.choice].cgroups {
            Some(_) => format!(", {}", cost(report, report.choice)),
            None => String::new(),
        };
        return format!(
            "Set {}: {} is {} less than with {leave} ({}){cost}, best in {} of {} rounds on requests that the search did not see.",
            row.candidate,
            report.noun(goal),
            percent(-row.both.mean),
            savings(row.both),
            row.best_rounds,
            report.rounds.count()
        );
    }
    let differs = |verdict: Verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let mut parts = Vec::new();
    for verdict in [Verdict::NotShown, Verdict::Worse, Verdict::OverBound] {
        if differs(verdict) > 0 {
            parts.push(format!("{} {}", differs(verdict), verdict.counted(differs(verdict) == 1)));
        }
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    format!(
        "Leave it ({leave}): nothing else is shown to be better by {} on requests that the search did not see. Of {others} judged, {}.",
        report.noun(goal),
        and_list(&parts)
    )
}

/// How far the model can be trusted, and the samples of the rounds.
fn certainty(report: &Report<'_>) -> String {
    let class = |error: &ClassError| {
        let (traced, simulated) = (error.traced_mean_seconds, error.simulated_mean_seconds);
        format!(
            "{} take {} in the trace and {} in the model",
            error.class,
            format_seconds(traced),
            format_seconds(simulated)
        )
    };
    let classes: Vec<String> = report.error.iter().map(class).collect();
    let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
    let under = &report.rounds.candidates[0];
    let mut text = match classes.len() {
        0 => "The trace has no latencies, so the model's own error on it is not known.".to_owned(),
        _ => format!("The model's own error first: under {under}, {} on average.", and_list(&classes)),
    };
    if report.is_generated {
        text = "No trace was given: this is advice for generated traffic, not for yours.".into();
    }
    text += if report.is_calibrated {
        " Each round draws one of the devices that explain its calibration nearly as well."
    } else {
        " The device has no calibration, so how far its parameters are known is not in the intervals."
    };
    text
}

/// A sentence on whether the loads agree, and why there are two.
fn by_load(report: &Report<'_>, rows: &[Row]) -> String {
    let goal = report.spec.goal;
    let lowest = [0, 1].map(|load| report.rounds.lowest(goal, load));
    let [recorded, closed] = report.loads.map(|load| load.to_string());
    let say = |at: usize, change: Change| {
        let shown = if at == 0 {
            "nothing else is lower".to_owned()
        } else if change.is_less() {
            format!("{} less than now", percent(-change.mean))
        } else {
            "no difference shown".to_owned()
        };
        format!("{} ({shown})", rows[at].label)
    };
    let verdict = if lowest[0] == lowest[1] { "The winner is the same" } else { "The winner differs" };
    let bias = match (report.is_generated, &report.spec.recorded_under) {
        (true, _) => String::new(),
        (false, Some(name)) => format!(
            " The trace was recorded under {name}: processes waited for that scheduler, so that recorded times favour it. Both \
             loads count the same."
        ),
        (false, None) => {
            " Under which scheduler the trace was recorded is not known (--recorded-under says it); its times \
                          favour that one. Both loads count the same."
                .into()
        }
    };
    format!(
        "{verdict}: under load {recorded} {}, under {closed} {}.{bias}",
        say(lowest[0], rows[lowest[0]].recorded),
        say(lowest[1], rows[lowest[1]].closed)
    )
}

/// The words for the throughput that a candidate takes in the closed loop.
fn cost(report: &Report<'_>, at: usize) -> String {
    let throughput = report.rounds.throughput_share(at).map_or(0.0, |share| 1.0 - share);
    if throughput.abs() < SAME_SHARE {
        "at no cost of throughput".into()
    } else if throughput > 0.0 {
        format!("at the cost of {} of the throughput", percent(throughput))
    } else {
        format!("with {} more throughput", percent(-throughput))
    }
}

/// The ways to protect those that count, with what they cost the others.
fn protection(report: &Report<'_>, rows: &[Row]) -> Table {
    let goal = report.spec.goal;
    let columns = [
        Column::text("way"),
        Column::seconds(format!("{}, {}", goal.name(), report.loads[0])).better(Better::Lower),
        Column::digits("both loads", 1).unit("%"),
        Column::digits("throughput, closed", 1).unit("%").better(Better::Higher),
        Column::text("verdict").format(Format::Fitted),
    ];
    let of = report.of.as_deref().unwrap_or_default();
    let mut table = Table::new(format!("Ways to protect {of}"), columns).caption(
        "Each with the best of a weak, a medium and a strong setting, found on the other half. Throughput is that of all in the closed loop, by \
         that of leaving it.",
    );
    for (at, row) in rows.iter().enumerate() {
        if at > 0 && report.rounds.candidates[at].cgroups.is_none() {
            continue;
        }
        let name = Cell::from(row.label.as_str());
        table.row([
            if at == report.choice { name.emphasis(Emphasis::Best) } else { name },
            row.recorded_seconds.into(),
            if at == 0 { Cell::from(Value::Absent) } else { interval(row.both) },
            report.rounds.throughput_share(at).map(|share| share * 100.0).into(),
            row.verdict.words().into(),
        ]);
    }
    table
}

fn steps(title: &str, steps: &[Step]) -> Table {
    let mut table = Table::new(title, [Column::text("step"), Column::text("line")])
        .caption("As root. Parameters are lost with the scheduler, so that setting it back undoes them.");
    for step in steps {
        table.row([step.step.into(), step.line.as_str().into()]);
    }
    table
}

/// The change in percent with half the width of its interval.
fn interval(change: Change) -> Cell {
    Value::Interval(change.mean * 100.0, (change.high - change.low) / 2.0 * 100.0).into()
}

fn judged(report: &Report<'_>, rows: &[Row]) -> Table {
    let goal = report.spec.goal;
    let [recorded, closed] = report.loads.map(|load| load.to_string());
    let percent = |name: String| Column::digits(name, 1).unit("%");
    let seconds = |name: &String| Column::seconds(format!("{}, {name}", goal.name())).better(Better::Lower);
    let mut columns = vec![
        Column::text("candidate"),
        seconds(&recorded),
        percent("change".into()),
        seconds(&closed),
        percent("change".into()),
        percent("both".into()),
        Column::count("best in"),
        Column::text("verdict").format(Format::Fitted),
    ];
    let is_tiered = rows.iter().any(|row| row.fast_share.is_some());
    if is_tiered {
        columns.push(Column::digits("fast tier", 1).unit("%"));
    }
    let mut table = Table::new("On the half that the search did not see", columns).caption(format!(
        "Changes are relative to leaving it, paired over {} block-bootstrap samples; the intervals of a column hold together in \
         95 of 100 cases. Both is the geometric mean over the loads.",
        report.rounds.count()
    ));
    for (at, row) in rows.iter().enumerate() {
        let change = |change: Change| if at == 0 { Cell::from(Value::Absent) } else { interval(change) };
        let name = Cell::from(row.label.as_str());
        let mut cells = vec![
            if at == report.choice { name.emphasis(Emphasis::Best) } else { name },
            row.recorded_seconds.into(),
            change(row.recorded),
            row.closed_seconds.into(),
            change(row.closed),
            change(row.both),
            row.best_rounds.into(),
            row.verdict.words().into(),
        ];
        if is_tiered {
            cells.push(row.fast_share.map(|share| share * 100.0).into());
        }
        table.row(cells);
    }
    table
}

fn would_change(report: &Report<'_>, lowest: &[Lowest]) -> Table {
    let columns = [
        Column::text("goal"),
        Column::text("load"),
        Column::text("lowest"),
        Column::digits("change", 1).unit("%"),
        Column::text("shown").format(Format::Fitted),
    ];
    let mut table = Table::new("What would change the advice", columns)
        .caption("The same rounds, by every goal and under each load by itself, relative to leaving it.");
    let leave = report.rounds.candidates[0].to_string();
    for row in lowest {
        let is_leave = row.candidate == leave;
        let shown = match row.change.is_less() {
            _ if is_leave => "leave it",
            true => "less",
            false => "no difference shown",
        };
        let change = if is_leave { Cell::from(Value::Absent) } else { interval(row.change) };
        table.row([row.goal.name().into(), row.load.as_str().into(), row.label.as_str().into(), change, shown.into()]);
    }
    table
}

/// Which goals, loads and devices would lead to other advice.
fn changes_text(report: &Report<'_>, lowest: &[Lowest]) -> String {
    let chosen = report.rounds.candidates[report.choice].to_string();
    let other = |row: &&Lowest| row.change.is_less() && row.candidate != chosen;
    let others: Vec<String> = lowest
        .iter()
        .filter(other)
        .map(|row| format!("{} by {} under {}", row.label, report.noun(row.goal), row.load))
        .collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let mut text = match others.len() {
        0 => "No other goal and neither load by itself shows anything else to be better.".to_owned(),
        _ => format!("Something else is lowest by other goals or under one load alone: {}.", and_list(&others)),
    };
    if report.choice > 0 {
        let losses = report.rounds.losses(report.choice, report.spec.goal);
        let drawn = if report.is_calibrated { "drawn devices and samples" } else { "samples" };
        text += &format!(" In {losses} of {} {drawn} the advice is not better than leaving it.", report.rounds.count());
    }
    text
}

/// The closed loop with other think times.
fn think_times(report: &Report<'_>) -> Table {
    let columns = [
        Column::seconds("think time"),
        Column::text("lowest"),
        Column::digits("change", 1).unit("%"),
        Column::digits("the advice", 1).unit("%"),
    ];
    let mut table = Table::new("With other think times", columns).caption(format!(
        "By {} in the closed loop, relative to leaving it, if a stream takes so long from what was done to its next request.",
        report.noun(report.spec.goal)
    ));
    for paused in &report.pauses {
        let change = |change: Change| if change.mean == 0.0 { Cell::from(Value::Absent) } else { interval(change) };
        table.row([
            paused.think_seconds.into(),
            paused.lowest.as_str().into(),
            change(paused.change),
            change(paused.advised),
        ]);
    }
    table
}

/// Whether the advice depends on the think time, and whether that is known.
fn think_text(report: &Report<'_>) -> String {
    let time = |paused: &Paused| format_seconds(paused.think_seconds);
    let known = match report.think {
        Some(think) => format!("The trace shows a think time of {}.", format_nanos(think)),
        None => "The trace does not show how long its streams think, so the closed loop has no pauses.".into(),
    };
    let worse: Vec<String> = report.pauses.iter().filter(|paused| paused.advised.is_more()).map(time).collect();
    let better: Vec<String> = report
        .pauses
        .iter()
        .filter(|paused| report.choice == 0 && paused.change.is_less())
        .map(|paused| format!("{} with {}", paused.lowest, time(paused)))
        .collect();
    let list = |items: &[String]| and_list(&items.iter().map(String::as_str).collect::<Vec<_>>());
    let depends = match (worse.is_empty(), better.is_empty()) {
        (true, true) => "No think time that was tried contradicts the advice.".to_owned(),
        (false, _) => {
            format!("The advice is worse than leaving it in a closed loop with a think time of {}.", list(&worse))
        }
        (_, false) => format!("In the closed loop alone something is lower than leaving it: {}.", list(&better)),
    };
    format!("{known} {depends}")
}

fn push_front(document: &mut Document, report: &Report<'_>) {
    if report.front.is_empty() {
        return;
    }
    let closed = report.loads[1];
    let columns = [
        Column::text("candidate"),
        Column::number("throughput", "MB/s").better(Better::Higher),
        Column::seconds("p99 of reads").better(Better::Lower),
    ];
    let mut table = Table::new("The front", columns).caption(format!(
        "Under {closed}, on the half that the search did not see: nothing that was tried has more throughput at no longer a p99 \
         of reads."
    ));
    for point in report.front.iter().filter(|point| point.is_front) {
        let cells =
            [point.candidate.to_string().into(), (point.throughput / 1e6).into(), point.read_p99_seconds.into()];
        table.row(cells);
    }
    document.push(table);
    let points = |is_front: bool| {
        let points = report.front.iter().filter(|point| point.is_front || !is_front);
        points.map(|point| (point.read_p99_seconds * 1e3, point.throughput / 1e6)).collect::<Vec<_>>()
    };
    let mut series = vec![
        Series::new("front", Mark::Line, points(true)).colour(0),
        Series::new("tried", Mark::Dots, points(false)).colour(2),
    ];
    let marked = [("leave it", 0), ("advice", report.choice)];
    for (colour, (name, at)) in marked.into_iter().enumerate() {
        let candidate = &report.rounds.candidates[at];
        let own = report.front.iter().filter(|point| point.candidate == *candidate);
        let own = own.map(|point| (point.read_p99_seconds * 1e3, point.throughput / 1e6)).collect();
        series.push(Series::new(name, Mark::Dots, own).colour(3 + colour));
    }
    if report.choice == 0 {
        series.pop();
    }
    let chart = Chart {
        title: format!("Load {closed}"),
        across: Axis::from_zero("p99 of reads (ms)"),
        upward: Axis::from_zero("MB/s"),
        series,
    };
    let text = "Up and to the left is better. The line joins what nothing else beats in both.";
    document.push(Figure::new("Throughput against the p99 of reads", text, vec![chart]));
}

fn settings(report: &Report<'_>) -> Table {
    let columns = [
        Column::text("scheduler"),
        Column::text("setting"),
        Column::text("tried"),
        Column::digits("explains", 1).unit("%"),
        Column::count("samples"),
    ];
    let mut table = Table::new("Which settings matter", columns).caption(
        "The share of the variance between the search's samples that a setting explains by itself (epsilon squared), among the \
         samples of its scheduler; the first row is the choice of the scheduler among all.",
    );
    for share in &report.shares {
        let family = if share.family.is_empty() { "all" } else { &share.family };
        table.row([
            family.into(),
            share.setting.as_str().into(),
            share.tried.as_str().into(),
            (share.share * 100.0).into(),
            share.samples.into(),
        ]);
    }
    table
}

fn own_error(report: &Report<'_>) -> Table {
    let time = |name: &str| Column::seconds(name);
    let columns = [
        Column::text("class"),
        Column::count("requests"),
        time("traced mean"),
        time("simulated mean"),
        time("traced p99"),
        time("simulated p99"),
        time("demerit"),
        Column::digits("of mean", 0).unit("%"),
    ];
    let mut table = Table::new("The model's own error on this trace", columns).caption(
        "The scheduler of the trace, simulated at the recorded times, beside the latencies of the trace. The demerit is the root \
         mean square distance of the two distributions.",
    );
    for error in &report.error {
        let times = [
            error.traced_mean_seconds,
            error.simulated_mean_seconds,
            error.traced_p99_seconds,
            error.simulated_p99_seconds,
            error.demerit_seconds,
        ];
        let mut cells = vec![Cell::from(error.class), error.requests.into()];
        cells.extend(times.map(Cell::from));
        cells.push(error.demerit_share.map(|share| share * 100.0).into());
        table.row(cells);
    }
    table
}

fn facts(report: &Report<'_>) -> Vec<(String, String)> {
    let pieces = &report.pieces;
    let requests = match pieces.read == pieces.kept {
        true => format_count(pieces.read),
        false => format!("{} of {}, in blocks spread evenly", format_count(pieces.kept), format_count(pieces.read)),
    };
    let leave = match (report.is_generated, &report.spec.recorded_under) {
        (false, Some(name)) => format!("{name}, under which the trace was recorded"),
        _ => format!("{}, which current Linux chooses for such a device", report.rounds.candidates[0]),
    };
    let pause = match report.think {
        Some(think) => format!(
            "{}, the median in the trace from the completion of what a stream asked for to its next request",
            format_nanos(think)
        ),
        None => "none: too few requests have latencies that would show one".into(),
    };
    let mut facts = vec![
        ("requests", requests),
        ("streams", format_count(pieces.streams)),
        ("halves", "every second of 16 pieces for the search, the others to judge".into()),
        ("leave it", leave),
        ("pause of the closed loop", pause),
        ("requests in the device at once", report.base.limits.depth.to_string()),
        (
            "runs",
            format!(
                "{} to search, {} rounds of {} candidates under both loads to judge",
                format_count(report.searched.runs as u64),
                report.rounds.count(),
                report.rounds.candidates.len()
            ),
        ),
    ];
    if let Some(bound) = report.spec.bound {
        facts.push(("bound at the recorded load", bound.to_string()));
    }
    if pieces.folded > 0 {
        facts.push((
            "folded",
            format!(
                "{} requests past the end of the device: seeks are not those of the trace",
                format_count(pieces.folded)
            ),
        ));
    }
    if pieces.skipped > 0 {
        facts.push(("skipped", format!("{} that could not be read", format_count(pieces.skipped))));
    }
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn provenance(report: &Report<'_>, origin: &Origin) -> Provenance {
    let spec = report.spec.to_toml();
    let Origin { version, commit, command } = origin.clone();
    Provenance {
        version,
        commit,
        command,
        spec_sha256: hexadecimal(&Sha256::digest(&spec)),
        inputs: report.traces.clone(),
        specs: vec![
            ("The spec as TOML, with every default".into(), spec),
            ("The device".into(), report.base.device.to_toml()),
        ],
    }
}
