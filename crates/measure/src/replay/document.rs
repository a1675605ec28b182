//! The page of a replay: measured, predicted, and how far the two are apart.

use serde::Serialize;
use serde_json::{Value as Json, json};

use ioweir_device::validate::Classes;

use super::{ClassSum, Measured, Page, Predicted, Spread};
use ioweir_lab::compare::numbers::{fast_share, latency_mean, quantile};
use ioweir_lab::document::{
    Better, Block, Cell, Column, Document, DocumentError, Emphasis, Provenance, SAME_SHARE, Table, Value,
};
use ioweir_lab::gate::{Evidence, Judgement, Pair, judge};
use ioweir_lab::sim::Class;

/// The part of the lowest mean latency by which a replay may be late before its first line says so.
const LATE: f64 = 0.5;

/// A figure of a run, in seconds.
struct Figure {
    key: &'static str,
    name: &'static str,
    /// Whether the order of schedulers by this number is judged.
    is_ranked: bool,
    of: fn(&Run<'_>) -> Option<f64>,
}

/// A run, measured or simulated.
struct Run<'a> {
    completion_seconds: f64,
    all: &'a Class,
    reads: &'a Class,
    writes: &'a Class,
}

const FIGURES: [Figure; 8] = [
    Figure { key: "completion_seconds", name: "completion", is_ranked: true, of: |run| Some(run.completion_seconds) },
    Figure { key: "mean_seconds", name: "mean latency", is_ranked: true, of: |run| latency_mean(run.all) },
    Figure { key: "read_mean_seconds", name: "read mean", is_ranked: false, of: |run| latency_mean(run.reads) },
    Figure { key: "read_p50_seconds", name: "read p50", is_ranked: false, of: |run| quantile(&run.reads.latency, 0.5) },
    Figure { key: "read_p99_seconds", name: "read p99", is_ranked: true, of: |run| quantile(&run.reads.latency, 0.99) },
    Figure { key: "write_mean_seconds", name: "write mean", is_ranked: false, of: |run| latency_mean(run.writes) },
    Figure {
        key: "write_p50_seconds",
        name: "write p50",
        is_ranked: false,
        of: |run| quantile(&run.writes.latency, 0.5),
    },
    Figure {
        key: "write_p99_seconds",
        name: "write p99",
        is_ranked: false,
        of: |run| quantile(&run.writes.latency, 0.99),
    },
];

impl<'a> Run<'a> {
    fn measured(measured: &'a Measured) -> Self {
        let [reads, writes] = &measured.by_direction;
        Self { completion_seconds: measured.completion.as_seconds(), all: &measured.all, reads, writes }
    }

    fn predicted(predicted: &'a Predicted) -> Self {
        let outcome = &predicted.outcome;
        let [reads, writes, ..] = &outcome.by_operation;
        Self { completion_seconds: outcome.completion.as_seconds(), all: &outcome.all, reads, writes }
    }
}

/// A scheduler with all its figures, in the order of [`FIGURES`].
struct Row<'a> {
    scheduler: &'a str,
    repetitions: usize,
    measured: Vec<Option<Spread>>,
    predicted: Vec<Option<f64>>,
    classes: Vec<ClassRow>,
}

/// The mean latencies of a class under a scheduler, over all repetitions.
struct ClassRow {
    name: &'static str,
    requests: u64,
    measured: f64,
    predicted: Option<f64>,
}

impl ClassRow {
    fn error(&self) -> Option<f64> {
        Some(self.predicted? / self.measured - 1.0).filter(|error| error.is_finite())
    }
}

/// The classes that were measured under a scheduler.
fn class_rows(page: &Page, scheduler: &str) -> Vec<ClassRow> {
    let predicted = page.predicted.iter().find(|predicted| predicted.scheduler == scheduler);
    let mean = |sum: ClassSum| (sum.requests > 0).then(|| sum.latency_sum_nanos as f64 / 1e9 / sum.requests as f64);
    let row = |(at, name): (usize, &'static str)| {
        let mut all = ClassSum::default();
        for run in page.measured.iter().filter(|run| run.scheduler == scheduler) {
            let ClassSum { requests, latency_sum_nanos } = run.by_class[at];
            all.requests += requests;
            all.latency_sum_nanos += latency_sum_nanos;
        }
        let predicted = predicted.and_then(|predicted| mean(predicted.by_class[at]));
        Some(ClassRow { name, requests: all.requests, measured: mean(all)?, predicted })
    };
    Classes::NAMES.into_iter().enumerate().filter_map(row).collect()
}

impl Row<'_> {
    fn error(&self, figure: usize) -> Option<f64> {
        let measured = self.measured.get(figure).copied().flatten()?.mean;
        let predicted = self.predicted.get(figure).copied().flatten()?;
        (measured > 0.0).then(|| predicted / measured - 1.0)
    }
}

fn rows(page: &Page) -> Vec<Row<'_>> {
    let mut names: Vec<&str> = Vec::new();
    for measured in &page.measured {
        if !names.contains(&&*measured.scheduler) {
            names.push(&measured.scheduler);
        }
    }
    let row = |scheduler| {
        let runs: Vec<Run<'_>> =
            page.measured.iter().filter(|run| run.scheduler == scheduler).map(Run::measured).collect();
        let predicted = page.predicted.iter().find(|predicted| predicted.scheduler == scheduler).map(Run::predicted);
        let of = |figure: &Figure| Spread::of(&runs.iter().filter_map(figure.of).collect::<Vec<_>>());
        Row {
            scheduler,
            repetitions: runs.len(),
            measured: FIGURES.iter().map(of).collect(),
            predicted: FIGURES.iter().map(|figure| predicted.as_ref().and_then(figure.of)).collect(),
            classes: class_rows(page, scheduler),
        }
    };
    names.into_iter().map(row).collect()
}

/// How the order of schedulers was predicted, by one figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Ranking {
    /// Pairs of schedulers in the order of the measurement.
    pub(super) right: u32,
    /// Pairs in the other order.
    pub(super) wrong: u32,
    /// Pairs that the measurement does not tell apart: their repetitions overlap, or differ by less than 1 %.
    pub(super) undecided: u32,
}

fn ranking(rows: &[Row<'_>], figure: usize) -> Ranking {
    let mut ranking = Ranking::default();
    let value = |row: &Row<'_>| Some((row.measured.get(figure).copied()??, row.predicted.get(figure).copied()??));
    let values: Vec<(Spread, f64)> = rows.iter().filter_map(value).collect();
    for (at, left) in values.iter().enumerate() {
        for right in values.iter().skip(at + 1) {
            let (low, high) = if left.0.mean <= right.0.mean { (left, right) } else { (right, left) };
            if !are_apart(&low.0, &high.0) {
                ranking.undecided += 1;
            } else if low.1 < high.1 {
                ranking.right += 1;
            } else {
                ranking.wrong += 1;
            }
        }
    }
    ranking
}

/// Whether repetitions tell a lower figure from a higher one.
fn are_apart(low: &Spread, high: &Spread) -> bool {
    low.max < high.min && low.mean < high.mean * (1.0 - SAME_SHARE)
}

fn percent(value: f64) -> String {
    format!("{:+.1} %", value * 100.0)
}

fn data(page: &Page, rows: &[Row<'_>]) -> Json {
    let row = |row: &Row<'_>| {
        let mut figures = serde_json::Map::new();
        for (at, figure) in FIGURES.iter().enumerate() {
            let measured = row.measured.get(at).copied().flatten();
            let predicted = row.predicted.get(at).copied().flatten();
            if measured.is_some() || predicted.is_some() {
                let said = json!({ "measured": measured, "predicted": predicted, "error_ratio": row.error(at) });
                figures.insert(figure.key.into(), said);
            }
        }
        let class = |class: &ClassRow| {
            let ClassRow { name, requests, measured, predicted } = class;
            json!({ "name": name, "requests": requests, "measured_mean_seconds": measured,
                    "predicted_mean_seconds": predicted, "error_ratio": class.error() })
        };
        let classes: Vec<Json> = row.classes.iter().map(class).collect();
        json!({ "scheduler": row.scheduler, "repetitions": row.repetitions, "figures": figures, "classes": classes })
    };
    let replay = |run: &Measured| {
        json!({
            "scheduler": run.scheduler,
            "repetition": run.repetition,
            "completion_seconds": run.completion.as_seconds(),
            "requests": run.all.requests,
            "failed_requests": run.failed,
            "failed_at_byte": run.failed_at,
            "in_flight_max": run.in_flight_max,
            "lateness_p50_seconds": quantile(&run.lateness, 0.5),
            "lateness_p99_seconds": quantile(&run.lateness, 0.99),
        })
    };
    let ranked = FIGURES.iter().enumerate().filter(|(_, figure)| figure.is_ranked);
    let orders: serde_json::Map<String, Json> =
        ranked.map(|(at, figure)| (figure.key.to_owned(), json!(ranking(rows, at)))).collect();
    json!({
        "trace": page.trace,
        "device": page.device,
        "load": page.load,
        "requests": page.left,
        "device_depth": page.depth,
        "schedulers": rows.iter().map(row).collect::<Vec<_>>(),
        "replays": page.measured.iter().map(replay).collect::<Vec<_>>(),
        "model": page.model.as_ref().map(|(name, depth)| json!({ "device": name, "depth": depth })),
        "standing": page.standing,
        "decision": judgement(page, rows).map(|judgement| judgement.decision),
        "order": page.model.as_ref().map(|_| orders),
        "remarks": remarks(page),
    })
}

/// How late replays were that had times to keep, in seconds.
fn lateness(page: &Page) -> f64 {
    let late = page.measured.iter().filter_map(|run| quantile(&run.lateness, 0.99));
    if page.is_open { late.fold(0.0, f64::max) } else { 0.0 }
}

/// Remarks to read before the numbers are trusted.
fn remarks(page: &Page) -> Vec<String> {
    let mut remarks = Vec::new();
    let in_flight = page.measured.iter().map(|run| run.in_flight_max).max().unwrap_or(0);
    if let Some(depth) = page.depth.filter(|&depth| in_flight <= depth) {
        remarks.push(format!(
            "At most {in_flight} requests were in flight and the device takes {depth} at once: the scheduler never held one, so \
             it could order nothing."
        ));
    }
    let late = lateness(page);
    if late > 0.001 {
        remarks.push(format!(
            "The replay was late: the 99 % quantile of the time from a request's arrival to its submission is {:.1} ms. Latencies \
             include it.",
            late * 1e3
        ));
    }
    let failed: u64 = page.measured.iter().map(|run| run.failed).sum();
    if failed > 0 {
        let at = page.measured.iter().find_map(|run| run.failed_at).unwrap_or(0);
        remarks
            .push(format!("The device failed {failed} requests, the first at byte {at}. They are not in the figures."));
    }
    remarks.extend(page.remarks.iter().cloned());
    remarks
}

fn facts(page: &Page) -> Vec<(String, String)> {
    let left = &page.left;
    let count = ioweir_config::format_count;
    let mut facts = vec![
        ("trace".to_owned(), page.trace.clone()),
        ("device".to_owned(), page.device.clone()),
        ("load".to_owned(), page.load.clone()),
        (
            "requests".to_owned(),
            format!("{} of {} in all", count(left.requests), ioweir_config::format_bytes(left.bytes)),
        ),
    ];
    for (number, what) in [
        (left.writes_left_out, "writes were left out"),
        (left.others_left_out, "flushes and discards were left out"),
        (left.empty_left_out, "requests without length were left out"),
        (left.folded, "requests past the end were folded"),
        (left.widened, "requests were widened to whole sectors of the device"),
    ] {
        if number > 0 {
            facts.push(("changed".to_owned(), format!("{} {what}", count(number))));
        }
    }
    facts
}

fn spread(row: &Row<'_>, at: usize) -> Cell {
    match row.measured.get(at).copied().flatten() {
        None => Value::Absent.into(),
        Some(spread) if row.repetitions < 2 => spread.mean.into(),
        Some(Spread { mean, min, max }) => Value::Interval(mean, (max - mean).max(mean - min)).into(),
    }
}

fn measured_table(rows: &[Row<'_>]) -> Table {
    let used: Vec<usize> = (0..FIGURES.len())
        .filter(|&at| rows.iter().any(|row| row.measured.get(at).is_some_and(Option::is_some)))
        .collect();
    let column = |&at: &usize| Column::seconds(FIGURES[at].name).better(Better::Lower);
    let columns = std::iter::once(Column::text("scheduler")).chain(used.iter().map(column));
    let mut table = Table::new("Measured", columns).caption(
        "The mean over the repetitions, ± the distance to the one that differs most. Latencies run from the arrival of \
                  a request to its completion.",
    );
    for row in rows {
        let cells = used.iter().map(|&at| spread(row, at));
        table.row(std::iter::once(Cell::from(row.scheduler)).chain(cells));
    }
    table
}

fn predicted_table(rows: &[Row<'_>], model: &str) -> Table {
    let columns = [
        Column::text("scheduler"),
        Column::text("figure"),
        Column::seconds("measured"),
        Column::seconds("predicted"),
        Column::text("error"),
    ];
    let mut table = Table::new(format!("Predicted by {model}"), columns).caption(
        "What `ioweir compare` says of the same requests under the same load. The error is that of the prediction.",
    );
    for row in rows {
        for (at, figure) in FIGURES.iter().enumerate() {
            let Some(error) = row.error(at) else { continue };
            let predicted: Cell = row.predicted.get(at).copied().flatten().into();
            let emphasis = if error.abs() > 0.1 { Emphasis::Fails } else { Emphasis::None };
            let error = Cell { emphasis, ..percent(error).into() };
            table.row([row.scheduler.into(), figure.name.into(), spread(row, at), predicted, error]);
        }
    }
    table
}

/// How far the mean latency of each class is off.
fn class_table(rows: &[Row<'_>]) -> Table {
    let names = Classes::NAMES
        .into_iter()
        .filter(|name| rows.iter().any(|row| row.classes.iter().any(|class| class.name == *name)));
    let columns = [Column::text("class"), Column::count("requests")];
    let columns = columns.into_iter().chain(rows.iter().map(|row| Column::text(row.scheduler)));
    let mut table = Table::new("Error by class", columns).caption(
        "Of the mean latency. Sequential, near and far are told from the end of the request before in the same stream; small is \
         up to 8 KiB. Requests are those of all repetitions.",
    );
    for name in names {
        let of = |row: &Row<'_>| row.classes.iter().position(|class| class.name == name);
        let requests = rows.iter().filter_map(|row| Some(row.classes.get(of(row)?)?.requests)).max();
        let cells = rows.iter().map(|row| {
            let error = of(row).and_then(|at| row.classes.get(at)?.error());
            let Some(error) = error else { return Value::Absent.into() };
            let emphasis = if error.abs() > 0.1 { Emphasis::Fails } else { Emphasis::None };
            Cell { emphasis, ..percent(error).into() }
        });
        table.row([name.into(), requests.into()].into_iter().chain(cells));
    }
    table
}

/// Which scheduler has the lowest mean latency, and from which others that cannot be told.
fn lowest(rows: &[Row<'_>]) -> Option<String> {
    let values = || rows.iter().filter_map(|row| Some((row.scheduler, row.measured.get(1).copied()??)));
    let (best, spread) = values().min_by(|left, right| left.1.mean.total_cmp(&right.1.mean))?;
    let seconds = ioweir_lab::document::format_seconds(spread.mean);
    if rows.len() == 1 {
        return Some(format!("{best}: mean latency {seconds}."));
    }
    let is_near = |(name, other): &(&str, Spread)| *name != best && !are_apart(&spread, other);
    let near: Vec<&str> = values().filter(is_near).map(|(name, _)| name).collect();
    let chance = match &near[..] {
        [] if rows.iter().all(|row| row.repetitions == 1) => {
            " Each was measured once, which says nothing of chance: --repeat 5.".into()
        }
        [] => String::new(),
        near => format!(" It is not told apart from {}.", near.join(", ")),
    };
    Some(format!("{best} has the lowest mean latency, {seconds}.{chance}"))
}

/// Whether the model's predictions may be used for a recommendation; they stand beside the measurements.
fn judgement(page: &Page, rows: &[Row<'_>]) -> Option<Judgement> {
    let standing = page.standing.as_ref()?;
    let pair = |row: &Row<'_>| {
        let measured_seconds = row.measured.get(1).copied().flatten()?.mean;
        let modelled_seconds = row.predicted.get(1).copied().flatten()?;
        let error_share = (modelled_seconds / measured_seconds.max(1e-9) - 1.0).abs();
        let requests = page.measured.iter().find(|run| run.scheduler == row.scheduler)?.all.requests;
        Some(Pair { class: "requests".into(), requests, measured_seconds, modelled_seconds, error_share })
    };
    let pairs: Vec<Pair> = rows.iter().filter_map(pair).collect();
    let requests = pairs.iter().map(|pair| pair.requests).max().unwrap_or(0);
    Some(judge(standing, &Evidence { requests, pairs, ..Evidence::default() }))
}

fn headline(page: &Page, rows: &[Row<'_>]) -> String {
    let Some(mut said) = lowest(rows) else { return "Nothing was measured.".into() };
    if page.model.is_some() {
        let errors: Vec<f64> = rows.iter().filter_map(|row| row.error(1)).collect();
        let Ranking { right, wrong, undecided } = ranking(rows, 1);
        if let Some(worst) = errors.iter().copied().max_by(|left, right| left.abs().total_cmp(&right.abs())) {
            said += &format!(" The model is off by up to {} in it", percent(worst));
            said += &match (right + wrong, undecided) {
                (0, 0) => ".".to_owned(),
                (0, undecided) => {
                    format!("; the measurement does not tell apart any of {undecided} pairs of schedulers.")
                }
                (pairs, 0) => format!(", and has {right} of {pairs} pairs of schedulers in the right order."),
                (pairs, undecided) => format!(
                    ", and has {right} of {pairs} pairs of schedulers in the right order; {undecided} more are too close to tell."
                ),
            };
        }
    }
    let least = rows
        .iter()
        .filter_map(|row| row.measured.get(1).copied()?)
        .map(|spread| spread.mean)
        .fold(f64::INFINITY, f64::min);
    if lateness(page) > least * LATE {
        said += " But the replay was late, so this is not what the device takes.";
    }
    said
}

/// The document of a replay.
///
/// # Errors
/// [`DocumentError`], which is a defect of the program.
pub fn document(page: &Page, provenance: Provenance) -> Result<Document, DocumentError> {
    let rows = rows(page);
    let mut document =
        Document::new("ioweir replay", format!("{} on {}", page.trace, page.device), &data(page, &rows))?;
    document.headline = headline(page, &rows);
    document.push(Block::Facts(facts(page)));
    for remark in remarks(page) {
        document.text(remark);
    }
    document.push(measured_table(&rows));
    if let Some((model, depth)) = &page.model {
        if let (Some(standing), Some(judgement)) = (&page.standing, judgement(page, &rows)) {
            document.text(format!("The model {model} is {}.", standing.words()));
            document.text(match judgement.recommends() {
                true => judgement.text(),
                false => format!("Of its predictions: {}", judgement.text()),
            });
        }
        document.push(predicted_table(&rows, &format!("{model} at depth {depth}")));
        document.push(class_table(&rows));
        for predicted in &page.predicted {
            if let Some(share) = fast_share(&predicted.outcome) {
                let (scheduler, percent) = (&predicted.scheduler, share * 100.0);
                document.text(format!(
                    "Under {scheduler} the fast tier of the model serves {percent:.1} % of the requests."
                ));
            }
        }
    }
    document.records = records(page);
    document.provenance = Some(provenance);
    Ok(document)
}

/// A row for each replay and each prediction.
fn records(page: &Page) -> Table {
    let numbers = FIGURES.iter().map(|figure| Column::number(figure.key, ""));
    let columns =
        ["scheduler", "kind"].into_iter().map(Column::text).chain([Column::count("repetition")]).chain(numbers);
    let mut table = Table::new("", columns);
    let mut row = |scheduler: &str, kind: &str, repetition: Option<u64>, run: &Run<'_>| {
        let cells = FIGURES.iter().map(|figure| Cell::from((figure.of)(run)));
        table.row([scheduler.into(), kind.into(), repetition.into()].into_iter().chain(cells));
    };
    for run in &page.measured {
        row(&run.scheduler, "measured", Some(run.repetition.into()), &Run::measured(run));
    }
    for run in &page.predicted {
        row(&run.scheduler, "predicted", None, &Run::predicted(run));
    }
    table
}
