//! Table 2: IOPS of two clients over weights and hit ratios.

use super::{ARRAY, DEPTH, LETTER, Lab, Part, REWARD, figure};
use crate::experiment::ExperimentReport;
use crate::reproduce::{Claim, Table};
use crate::run::RunError;

/// Weights of A and B, and for each hit ratio of B the IOPS of A and B.
type Cells = (u32, u32, [(f64, f64); 4]);

/// What the paper has.
const PAPER: [Cells; 3] = [
    (1, 1, [(4923.0, 122.0), (4841.0, 193.0), (4612.0, 373.0), (2474.0, 2474.0)]),
    (1, 2, [(4917.0, 124.0), (4836.0, 198.0), (4538.0, 400.0), (1599.0, 3350.0)]),
    (2, 1, [(4931.0, 116.0), (4862.0, 173.0), (4704.0, 326.0), (3350.0, 1599.0)]),
];
const HIT_RATIOS: [&str; 4] = ["0.2", "0.5", "0.75", "1.0"];
const IOPS_TOLERANCE: f64 = 0.05;
const RATIO_TOLERANCE: f64 = 0.10;

/// One row of the table.
struct Row {
    weights: (u32, u32),
    hit_ratio: &'static str,
    paper: (f64, f64),
    ours: Option<(f64, f64)>,
}

impl Row {
    /// How far A's and B's IOPS, and their ratio, are from the paper's.
    fn deviations(&self) -> Option<[f64; 3]> {
        let (a, b) = self.ours?;
        let (paper_a, paper_b) = self.paper;
        Some([a / paper_a - 1.0, b / paper_b - 1.0, (a / b) / (paper_a / paper_b) - 1.0])
    }
}

/// The experiment for one pair of weights.
fn spec(lab: &Lab<'_>, title: &str, scheduler: &str, depth: u32, weights: (u32, u32)) -> String {
    let duration = if lab.options.quick { "150s" } else { "300s" };
    let (a, b) = weights;
    format!(
        "title = \"{title}, weights {a}:{b}\"\nduration = \"{duration}\"\nwarm_up = \"10s\"\ninterval = \"10s\"\nschedulers = \
         [\"{scheduler}\"]\nseeds = {seeds}\ndepth = {depth}\n{ARRAY}[[class]]\nname = \"a\"\nbacklog = 100\nweight = {a}\nhit_ratio = \
         1.0\n[[class]]\nname = \"b\"\nbacklog = 100\nweight = {b}\nhit_ratio = 0.2\n[sweep]\n\"class.b.hit_ratio\" = [{hits}]\n",
        seeds = lab.seeds(),
        hits = HIT_RATIOS.join(", ")
    )
}

fn rows(lab: &mut Lab<'_>, title: &str, scheduler: &str, depth: u32) -> Result<Vec<Row>, RunError> {
    let mut rows = Vec::new();
    for (a, b, cells) in PAPER {
        let text = spec(lab, title, scheduler, depth, (a, b));
        let report: ExperimentReport = lab.run(&text)?;
        for ((hit_ratio, paper), summary) in HIT_RATIOS.iter().zip(cells).zip(&report.summaries) {
            let ours = figure(summary, "iops", "a").zip(figure(summary, "iops", "b"));
            rows.push(Row { weights: (a, b), hit_ratio, paper, ours });
        }
    }
    Ok(rows)
}

/// The largest deviation of any IOPS, and of any ratio.
fn worst(rows: &[Row]) -> Option<(f64, f64)> {
    let all: Option<Vec<[f64; 3]>> = rows.iter().map(Row::deviations).collect();
    let fold = |places: &[usize]| {
        let values = all.iter().flatten().flat_map(|row| places.iter().map(|place| row[*place].abs()));
        values.fold(0.0, f64::max)
    };
    all.as_ref().map(|_| (fold(&[0, 1]), fold(&[2])))
}

pub(super) fn table_2(lab: &mut Lab<'_>) -> Result<Part, RunError> {
    let main = rows(lab, "Table 2", REWARD, DEPTH)?;
    let letter = rows(lab, "Table 2, Algorithm 1 to the letter", LETTER, DEPTH)?;
    let mut part = Part { claims: main.iter().flat_map(claims).collect(), ..Part::default() };
    part.tables.push(table(
        "Table 2: IOPS in simulation",
        format!(
            "Charged at dispatch, {DEPTH} requests at the array: paper, ours, and how far ours is from the paper's."
        ),
        &main,
    ));
    part.tables.push(table(
        "Table 2 with Algorithm 1 to the letter",
        format!("Charged at completion, {DEPTH} requests at the array. Not what the claims are judged by."),
        &letter,
    ));
    if !lab.options.quick {
        part.tables.push(sensitivity(lab)?);
    }
    Ok(part)
}

fn claims(row: &Row) -> Vec<Claim> {
    let (a, b) = row.weights;
    let point = format!("weights {a}:{b}, hit ratio of B {}", row.hit_ratio);
    let id = |what: &str| format!("table-2-{a}-{b}-{}-{what}", row.hit_ratio);
    let claim = |what: &str, words: &str, ours: Option<f64>, paper: f64, tolerance: f64, digits: usize, unit| {
        Claim::within(
            id(what),
            "Table 2",
            format!("{words}, {point}"),
            ours,
            paper * (1.0 - tolerance),
            paper * (1.0 + tolerance),
        )
        .paper(format!("{paper:.digits$}"), unit)
        .note(format!("within {:.0} % of the paper's", tolerance * 100.0))
    };
    let (paper_a, paper_b) = row.paper;
    let ours = |pick: fn((f64, f64)) -> f64| row.ours.map(pick);
    vec![
        claim("a", "IOPS of A", ours(|iops| iops.0), paper_a, IOPS_TOLERANCE, 0, "IOPS"),
        claim("b", "IOPS of B", ours(|iops| iops.1), paper_b, IOPS_TOLERANCE, 0, "IOPS"),
        claim(
            "ratio",
            "IOPS of A by those of B",
            ours(|iops| iops.0 / iops.1),
            paper_a / paper_b,
            RATIO_TOLERANCE,
            2,
            "",
        ),
    ]
}

fn table(title: &str, text: String, rows: &[Row]) -> Table {
    let percent = |deviation: f64| format!("{:+.1} %", deviation * 100.0);
    let row = |row: &Row| {
        let (paper_a, paper_b) = row.paper;
        let mut cells = vec![format!("{paper_a:.0}"), format!("{paper_b:.0}"), format!("{:.2}", paper_a / paper_b)];
        match (row.ours, row.deviations()) {
            (Some((a, b)), Some([of_a, of_b, of_ratio])) => {
                cells.extend([format!("{a:.0}"), format!("{b:.0}"), format!("{:.2}", a / b)]);
                cells.extend([percent(of_a), percent(of_b), percent(of_ratio)]);
            }
            _ => cells.extend(std::iter::repeat_n("-".to_owned(), 6)),
        }
        (format!("{}:{}, 1 : {}", row.weights.0, row.weights.1, row.hit_ratio), cells)
    };
    let columns = ["paper A", "paper B", "paper A/B", "ours A", "ours B", "ours A/B", "A off", "B off", "A/B off"];
    Table {
        title: title.into(),
        text,
        columns: columns.map(String::from).to_vec(),
        rows: rows.iter().map(row).collect(),
    }
}

/// What other numbers of requests at the array, means and ways to charge would have given.
fn sensitivity(lab: &mut Lab<'_>) -> Result<Table, RunError> {
    const WINDOWS: [u32; 4] = [8, 32, 100, 400];
    let mut table_rows = Vec::new();
    for (words, estimator) in [("at dispatch", "response-ahead"), ("at completion", "response")] {
        for depth in [4, 8, 16, 32, 64, 100] {
            let mut cells = Vec::new();
            for window in WINDOWS {
                let scheduler = format!("reward:window={window}:estimator={estimator}");
                let rows = quiet(lab, &scheduler, depth)?;
                let cell = worst(&rows);
                cells.push(
                    cell.map_or("-".into(), |(iops, ratio)| format!("{:.1} / {:.1}", iops * 100.0, ratio * 100.0)),
                );
            }
            table_rows.push((format!("charged {words}, {depth} at the array"), cells));
        }
    }
    Ok(Table {
        title: "Table 2: sensitivity".into(),
        text: "The largest deviation of any IOPS and of any ratio from the paper's, in percent, with one seed and 150 s; the mean is \
               over so many requests."
            .into(),
        columns: WINDOWS.iter().map(|window| format!("mean of {window}")).collect(),
        rows: table_rows,
    })
}

/// As [`rows`], with one seed and without being listed among what was run.
fn quiet(lab: &mut Lab<'_>, scheduler: &str, depth: u32) -> Result<Vec<Row>, RunError> {
    let options = super::Options { quick: true };
    let mut inner = Lab { options: &options, origin: lab.origin, progress: lab.progress, specs: Vec::new() };
    rows(&mut inner, "Table 2, sensitivity", scheduler, depth)
}
