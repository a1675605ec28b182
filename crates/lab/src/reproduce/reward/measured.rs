//! Table 1 and figure 2 (b), which only real I/O can show: what `experiments/reward/real-io/run` measured on the block server,
//! stored with the machine and the versions, beside the paper's.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::figures::{COLUMNS, SETTLED};
use super::{Lab, Part, REWARD};
use crate::report::{Axis, Chart, Figure, Mark, Series};
use crate::reproduce::{Claim, Table};
use crate::run::RunError;

const STORED: &str = include_str!("../../../../../experiments/reward/real-io/results.json");

const SOURCE: &str = "stored result of experiments/reward/real-io/run";
/// Seconds of a phase in the paper.
const PHASE: f64 = 200.0;
/// How far A's IOPS by B's may be from the paper's simulation of the same tiers.
const RATIO_TOLERANCE: f64 = 0.10;
/// How far a level may be from another that is to be the same.
const LEVEL_TOLERANCE: f64 = 0.05;

/// Weights, hit ratio of B, and IOPS of A and B: on the paper's machine, and in its simulation.
type Cell = (&'static str, &'static str, (f64, f64), (f64, f64));

const PAPER: [Cell; 12] = [
    ("1:1", "0.2", (3106.0, 75.0), (4923.0, 122.0)),
    ("1:1", "0.5", (3055.0, 129.0), (4841.0, 193.0)),
    ("1:1", "0.75", (2816.0, 295.0), (4612.0, 373.0)),
    ("1:1", "1.0", (2000.0, 2033.0), (2474.0, 2474.0)),
    ("1:2", "0.2", (2501.0, 80.0), (4917.0, 124.0)),
    ("1:2", "0.5", (2459.0, 139.0), (4836.0, 198.0)),
    ("1:2", "0.75", (2257.0, 311.0), (4538.0, 400.0)),
    ("1:2", "1.0", (1358.0, 2682.0), (1599.0, 3350.0)),
    ("2:1", "0.2", (3359.0, 72.0), (4931.0, 116.0)),
    ("2:1", "0.5", (3251.0, 125.0), (4862.0, 173.0)),
    ("2:1", "0.75", (3047.0, 277.0), (4704.0, 326.0)),
    ("2:1", "1.0", (2689.0, 1347.0), (3350.0, 1599.0)),
];

/// The stored result.
#[derive(Deserialize)]
struct Stored {
    machine: String,
    shared: String,
    versions: BTreeMap<String, String>,
    load_average_before: Vec<f64>,
    load_average_after: Vec<f64>,
    parameters: Parameters,
    table_1: Vec<Run>,
    figure_2: Vec<Course>,
}

#[derive(Deserialize)]
struct Parameters {
    scheduler: String,
    depth: u32,
    backlog: u32,
    seconds: u32,
    repetitions: u32,
    shorter: f64,
    array: String,
}

/// A cell of Table 1, once.
#[derive(Deserialize)]
struct Run {
    weights: String,
    hit_ratio: String,
    a: Client,
    b: Client,
}

#[derive(Deserialize)]
struct Client {
    iops: f64,
}

/// Figure 2, once.
#[derive(Deserialize)]
struct Course {
    scheduler: String,
    phase_seconds: usize,
    /// Each client's requests, second by second.
    iops: BTreeMap<String, Vec<f64>>,
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { (values[middle - 1] + upper) / 2.0 })
}

/// Both clients' IOPS, the median of the repetitions.
fn iops(stored: &Stored, weights: &str, hit_ratio: &str) -> Option<(f64, f64)> {
    let its = || stored.table_1.iter().filter(|run| run.weights == weights && run.hit_ratio == hit_ratio);
    median(its().map(|run| run.a.iops).collect()).zip(median(its().map(|run| run.b.iops).collect()))
}

fn table_1(stored: &Stored) -> Part {
    let mut part = Part::default();
    let mut rows = Vec::new();
    let mut before: Option<(&str, Option<(f64, f64)>)> = None;
    for (weights, hit_ratio, paper, simulated) in PAPER {
        let ours = iops(stored, weights, hit_ratio);
        let same = before.filter(|(of, _)| *of == weights).and_then(|(_, iops)| iops);
        let follows = same.is_none_or(|(a, b)| ours.is_some_and(|ours| ours.0 < a && ours.1 > b));
        let wanted = simulated.0 / simulated.1;
        let ratio = ours.map(|(a, b)| a / b);
        let (low, high) = (wanted * (1.0 - RATIO_TOLERANCE), wanted * (1.0 + RATIO_TOLERANCE));
        let point = format!("weights {weights}, hit ratio of B {hit_ratio}");
        let claim = Claim::within(
            format!("table-1-{}-{hit_ratio}", weights.replace(':', "-")),
            "Table 1",
            format!("on real I/O, IOPS of A by those of B, {point}"),
            ratio,
            low,
            high,
        );
        let words = ours.map_or(String::new(), |(a, b)| {
            format!("; {a:.0} / {b:.0} IOPS, the paper's machine {} / {}", paper.0, paper.1)
        });
        part.claims.push(Claim { holds: claim.holds && follows, ..claim }.paper(format!("{:.2}", paper.0 / paper.1), "").note(format!(
            "same shape: within {:.0} % of {wanted:.2}, the paper's simulation of these tiers (Table 2), and, where B hits more \
             often, less for A and more for B than in the row before{words}; {SOURCE}",
            RATIO_TOLERANCE * 100.0
        )));
        let off = |from: (f64, f64)| {
            ratio.map_or("-".into(), |ratio| format!("{:+.1} %", (ratio / (from.0 / from.1) - 1.0) * 100.0))
        };
        let both = |(a, b): (f64, f64)| [format!("{a:.0}"), format!("{b:.0}"), format!("{:.2}", a / b)];
        let measured = ours.map_or_else(|| ["-"; 3].map(String::from), both);
        let cells = both(paper).into_iter().chain(measured).chain([off(paper), off(simulated)]);
        rows.push((format!("{weights}, 1 : {hit_ratio}"), cells.collect()));
        before = Some((weights, ours));
    }
    let columns =
        ["paper A", "paper B", "paper A/B", "ours A", "ours B", "ours A/B", "A/B off Table 1", "A/B off Table 2"];
    part.tables.push(Table {
        title: "Table 1: IOPS on real I/O".into(),
        text: "The medians of the repetitions. The drives of the paper's machine were others than those of its simulation, which are \
               the ones emulated here: Table 2 is what these can come to."
            .into(),
        columns: columns.map(String::from).to_vec(),
        rows,
    });
    part
}

/// A client's rate in a phase, after `SETTLED` seconds on the paper's scale: the mean of the repetitions.
fn level(courses: &[&Course], client: &str, phase: usize) -> Option<f64> {
    let mut means = Vec::new();
    for course in courses {
        let settled = (SETTLED / PHASE * course.phase_seconds as f64) as usize;
        let seconds = course.iops.get(client)?;
        let inside = seconds.get(phase * course.phase_seconds + settled..(phase + 1) * course.phase_seconds)?;
        means.push(inside.iter().sum::<f64>() / inside.len() as f64);
    }
    (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
}

/// Requests of each client, second by second: the mean of the repetitions.
fn chart(courses: &[&Course], title: &str) -> Chart {
    let series = ["1", "2"].map(|client| {
        let all: Vec<&Vec<f64>> = courses.iter().filter_map(|course| course.iops.get(client)).collect();
        let length = all.iter().map(|seconds| seconds.len()).min().unwrap_or(0);
        let mean = |at: usize| all.iter().map(|seconds| seconds[at]).sum::<f64>() / all.len() as f64;
        Series::new(format!("client {client}"), Mark::Steps, (0..length).map(|at| (at as f64, mean(at))).collect())
    });
    Chart {
        title: title.into(),
        across: Axis::from_zero("time (s)"),
        upward: Axis::from_zero("IOPS"),
        series: series.into(),
    }
}

fn figure_2(stored: &Stored) -> Part {
    let of = |name: &str| stored.figure_2.iter().filter(|course| course.scheduler == name).collect::<Vec<_>>();
    let (reward, rounds) = (of(REWARD), of("cfq-paper"));
    let gain = |courses: &[&Course], client| Some(level(courses, client, 1)? / level(courses, client, 0)?);
    let total = |courses: &[&Course]| Some(level(courses, "1", 1)? + level(courses, "2", 1)?);
    let shorter = stored.parameters.shorter;
    let claim = |id: &str, figure, words: &str, ours: Option<f64>, low: f64, high: f64| {
        let note = format!(
            "{}; levels from {:.0} s after the change on, of phases {shorter:.0} times shorter than the paper's; {SOURCE}",
            if high.is_infinite() { format!("at least {low}") } else { format!("{low} to {high}") },
            SETTLED / shorter,
        );
        Claim::within(format!("figure-{id}"), figure, format!("on real I/O, {words}"), ours, low, high).note(note)
    };
    let (b, c) = ("Figure 2 (b)", "Figure 2 (c)");
    let same = (1.0 - LEVEL_TOLERANCE, 1.0 + LEVEL_TOLERANCE);
    let back = level(&reward, "1", 2).zip(level(&reward, "1", 0)).map(|(after, before)| after / before);
    let less = total(&rounds).zip(total(&reward)).map(|(rounds, reward)| rounds / reward);
    let claims = vec![
        claim("2b-1", b, "reward: client 1 rises while its hit ratio is 0.9", gain(&reward, "1"), 1.5, f64::INFINITY)
            .paper("much higher", "x"),
        claim("2b-2", b, "reward: client 2 keeps its level", gain(&reward, "2"), same.0, same.1)
            .paper("no appreciable change", "x"),
        claim("2b-back", b, "reward: client 1 comes back to its level", back, same.0, same.1).paper("comes back", "x"),
        claim("2c-1", c, "rounds of requests: client 1 rises", gain(&rounds, "1"), 1.02, f64::INFINITY)
            .paper("more", "x"),
        claim("2c-2", c, "rounds of requests: client 2 rises as well", gain(&rounds, "2"), 1.02, f64::INFINITY)
            .paper("more", "x"),
        claim("2c-total", c, "rounds of requests do less in all than reward", less, 0.0, 0.98).paper("lower", "x"),
    ];
    let rows = [("reward", &reward), ("cfq-paper: rounds of requests", &rounds)].map(|(name, courses)| {
        let cells = ["1", "2"].iter().flat_map(|client| [0, 1, 2].map(|phase| level(courses, client, phase)));
        (name.to_owned(), cells.map(|rate| rate.map_or("-".into(), |rate| format!("{rate:.1}"))).collect())
    });
    Part {
        claims,
        tables: vec![Table {
            title: "Figure 2 on real I/O: levels".into(),
            text: "Requests a second, the mean of the repetitions. Client 2's hit ratio does not change.".into(),
            columns: COLUMNS.map(String::from).to_vec(),
            rows: rows.into(),
        }],
        figures: vec![Figure {
            title: "Figure 2 on real I/O: client 1 hits the SSD more often in the second phase".into(),
            text: format!("The {SOURCE}. The paper gives no numbers for its own."),
            charts: vec![chart(&reward, "(b) reward"), chart(&rounds, "(c) CFQ as rounds of requests")],
        }],
    }
}

impl Stored {
    /// Where the numbers come from, in words.
    fn provenance(&self) -> String {
        let versions: Vec<String> = self.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let Parameters { scheduler, depth, backlog, seconds, repetitions, array, .. } = &self.parameters;
        let (before, after) = (&self.load_average_before, &self.load_average_after);
        format!(
            "{}\n{}; load averages before {before:?}, after {after:?}\n{}\n{scheduler}, {depth} at the array, {backlog} outstanding a \
             client; {repetitions} repetitions, {seconds} s a cell of Table 1\n\n{array}",
            self.machine,
            self.shared,
            versions.join(", ")
        )
    }
}

/// What is stored, judged.
pub(super) fn real_io(lab: &mut Lab<'_>) -> Result<Part, RunError> {
    let stored: Stored = serde_json::from_str(STORED)
        .map_err(|error| RunError::Value(format!("stored measurement of real I/O: {error}")))?;
    lab.specs.push(("Table 1 and figure 2 (b), measured on the block server".into(), stored.provenance()));
    let (mut part, figure) = (table_1(&stored), figure_2(&stored));
    part.claims.extend(figure.claims);
    part.tables.extend(figure.tables);
    part.figures.extend(figure.figures);
    Ok(part)
}
