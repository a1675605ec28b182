//! Figures 2 and 3, and what the paper leaves open: an estimate of the service time that a queue in the device does not
//! dilute.

use super::{ARRAY, DEPTH, Lab, Part, REWARD, rate_between};
use crate::experiment::{ExperimentReport, Summary};
use crate::report::{Axis, Chart, Figure, Mark, Series};
use crate::reproduce::{Claim, Table};
use crate::run::RunError;

const KERNEL: &str = "by at least 2 %. The kernel's CFQ gives each process slices of the device's time; where one scheduler stands before \
                      both tiers, that is a reward by itself: who needs less time for a request gets more requests into its slice. The \
                      paper ran CFQ on a machine, one for each drive, and says of it that it equalises the I/Os; rounds of requests do that";

/// Levels are compared after so long in a phase.
pub(super) const SETTLED: f64 = 20.0;
/// Columns of a table of levels.
pub(super) const COLUMNS: [&str; 6] =
    ["client 1 at 0.6", "at 0.9", "at 0.6 again", "client 2 at 0.4", "then", "and then"];
/// The estimator that goes beyond the paper.
const SERVICE: &str = "reward:estimator=service";

/// CFQ as a round of the same number of requests from each process.
const ROUNDS: &str = "cfq-paper";

/// Requests a second of each class, step by step, the mean over the seeds.
fn chart(report: &ExperimentReport, summary: &Summary, title: &str) -> Chart {
    let step = report.experiment.interval.nanos().as_seconds();
    let steps = summary.cells.first().and_then(|cell| cell.classes.first()).map_or(0, |class| class.steps.len());
    let series = summary.classes().map(|class| {
        let at = |step_number: usize| step_number as f64 * step;
        let point = |number: usize| {
            let rate = rate_between(report, summary, class, at(number), at(number + 1));
            (at(number), rate.unwrap_or(f64::NAN))
        };
        Series::new(format!("client {class}"), Mark::Steps, (0..steps).map(point).collect())
    });
    Chart {
        title: title.into(),
        across: Axis::from_zero("time (s)"),
        upward: Axis::from_zero("IOPS"),
        series: series.collect(),
    }
}

pub(super) fn figure_2(lab: &mut Lab<'_>) -> Result<Part, RunError> {
    let text = format!(
        "title = \"Figure 2\"\nduration = \"600s\"\ninterval = \"10s\"\nschedulers = [\"{REWARD}\", \"{ROUNDS}\", \"cfq\", \"wfq\"]\nseeds = \
         {seeds}\ndepth = {DEPTH}\n{ARRAY}[[class]]\nname = \"1\"\nbacklog = 100\nhit_ratio = 0.6\n[[class.phase]]\nat = \
         \"200s\"\nhit_ratio = 0.9\n[[class.phase]]\nat = \"400s\"\nhit_ratio = 0.6\n[[class]]\nname = \"2\"\nbacklog = \
         100\nhit_ratio = 0.4\n",
        seeds = if lab.options.quick { "[1, 2, 3]" } else { "[1, 2, 3, 4, 5]" }
    );
    let report = lab.run(&text)?;
    let [reward, cfq, kernel, wfq] = &report.summaries[..] else { return Ok(Part::default()) };
    let level = |summary: &Summary, class: &str, phase: f64| {
        rate_between(&report, summary, class, phase * 200.0 + SETTLED, (phase + 1.0) * 200.0)
    };
    let gain = |summary: &Summary, class: &str| Some(level(summary, class, 1.0)? / level(summary, class, 0.0)?);
    let total = |summary: &Summary| Some(level(summary, "1", 1.0)? + level(summary, "2", 1.0)?);
    let claim = |id: &str, words: &str, ours: Option<f64>, low: f64, high: f64, note: &str| {
        Claim::within(format!("figure-2-{id}"), "Figure 2", words.into(), ours, low, high).note(note)
    };
    let from = format!("levels from {SETTLED:.0} s after the change on");
    let claims = vec![
        claim(
            "reward-1",
            "reward: client 1 rises while its hit ratio is 0.9",
            gain(reward, "1"),
            1.5,
            f64::INFINITY,
            &format!("at least half as much again; {from}"),
        )
        .paper("much higher", "x"),
        claim(
            "reward-2",
            "reward: client 2 keeps its level",
            gain(reward, "2"),
            0.95,
            1.05,
            &format!("within 5 %; {from}"),
        )
        .paper("no appreciable change", "x"),
        claim(
            "reward-back",
            "reward: client 1 comes back to its level after 400 s",
            level(reward, "1", 2.0).zip(level(reward, "1", 0.0)).map(|(after, before)| after / before),
            0.95,
            1.05,
            "within 5 %",
        )
        .paper("comes back", "x"),
        claim(
            "cfq-1",
            "CFQ (rounds of requests): client 1 rises",
            gain(cfq, "1"),
            1.02,
            f64::INFINITY,
            "by at least 2 %",
        )
        .paper("more", "x"),
        claim(
            "cfq-2",
            "CFQ (rounds of requests): client 2 rises as well",
            gain(cfq, "2"),
            1.02,
            f64::INFINITY,
            "by at least 2 %",
        )
        .paper("more", "x"),
        claim(
            "cfq-total",
            "while the hit ratio is 0.9, CFQ (rounds of requests) does less in all than reward",
            total(cfq).zip(total(reward)).map(|(cfq, reward)| cfq / reward),
            0.0,
            0.98,
            "by at least 2 %",
        )
        .paper("lower", "x"),
        claim(
            "cfq-1-total",
            "and client 1 gets less with CFQ than with reward",
            level(cfq, "1", 1.0).zip(level(reward, "1", 1.0)).map(|(cfq, reward)| cfq / reward),
            0.0,
            0.98,
            "by at least 2 %",
        )
        .paper("lower", "x"),
        claim(
            "cfq-kernel",
            "CFQ as in the kernel: client 2 rises as well",
            gain(kernel, "2"),
            1.02,
            f64::INFINITY,
            KERNEL,
        )
        .paper("more", "x"),
    ];
    let rows = [
        ("reward", reward),
        ("cfq-paper: rounds of requests", cfq),
        ("cfq: the kernel's slices of time", kernel),
        ("wfq (beyond the paper)", wfq),
    ]
    .map(|(name, summary)| {
        let cell =
            |class: &str, phase: f64| level(summary, class, phase).map_or("-".into(), |rate| format!("{rate:.1}"));
        let cells = ["1", "2"].iter().flat_map(|class| [0.0, 1.0, 2.0].map(|phase| cell(class, phase)));
        (name.to_owned(), cells.collect())
    });
    Ok(Part {
        claims,
        tables: vec![Table {
            title: "Figure 2: levels".into(),
            text: format!("Requests a second; {from}. Client 2's hit ratio does not change."),
            columns: COLUMNS.map(String::from).to_vec(),
            rows: rows.into(),
        }],
        figures: vec![Figure {
            title: "Figure 2: client 1 hits the SSD more often from 200 s to 400 s".into(),
            text: "(a) is the paper's simulation, (c) its measurement of CFQ; (b), reward on real I/O, has a figure of its own. \
                   The paper gives no numbers for it."
                .into(),
            charts: vec![
                chart(&report, reward, "(a) reward"),
                chart(&report, cfq, "(c) CFQ as rounds of requests"),
                chart(&report, kernel, "CFQ as in the kernel: slices of time"),
                chart(&report, wfq, "wfq, beyond the paper"),
            ],
        }],
    })
}

/// Reads and writes of two clients on an SSD; the first turns to reading alone at half of the time.
fn mix(lab: &Lab<'_>, title: &str, scheduler: &str, depth: u32) -> String {
    let half = if lab.options.quick { 20 } else { 50 };
    format!(
        "title = \"{title}\"\nduration = \"{end}s\"\ninterval = \"1s\"\nschedulers = [\"{scheduler}\"]\nseeds = {seeds}\ndepth = \
         {depth}\n[device.tiered]\ncapacity = \"1TB\"\nplacement = {{ hit_ratio = 1.0 }}\nfast = {{ read = \"exponential 200us\", write = \
         \"exponential 600us\" }}\nslow = {{ read = \"exponential 10ms\" }}\n[[class]]\nname = \"1\"\nbacklog = 100\nread_ratio = \
         0.5\n[[class.phase]]\nat = \"{half}s\"\nread_ratio = 1.0\n[[class]]\nname = \"2\"\nbacklog = 100\nread_ratio = 0.5\n",
        end = 2 * half,
        seeds = if lab.options.quick { "[1, 2, 3]" } else { "[1, 2, 3, 4, 5]" }
    )
}

/// What came of the change.
struct Gain {
    before: (f64, f64),
    after: (f64, f64),
    chart: Chart,
}

impl Gain {
    /// Client 1's part of what both gained.
    fn share(&self) -> f64 {
        let (one, two) = (self.after.0 - self.before.0, self.after.1 - self.before.1);
        one / (one + two)
    }

    fn cells(&self) -> Vec<String> {
        let rates = [self.before.0, self.before.1, self.after.0, self.after.1].map(|rate| format!("{rate:.0}"));
        rates.into_iter().chain([format!("{:.1} %", self.share() * 100.0)]).collect()
    }
}

fn gain(lab: &mut Lab<'_>, scheduler: &str, depth: u32, title: &str) -> Result<Option<Gain>, RunError> {
    let text = mix(lab, title, scheduler, depth);
    let report = lab.run(&text)?;
    let Some(summary) = report.summaries.first() else { return Ok(None) };
    let end = report.experiment.duration.nanos().as_seconds();
    let both = |from: f64, to: f64| {
        rate_between(&report, summary, "1", from, to).zip(rate_between(&report, summary, "2", from, to))
    };
    let levels = both(2.0, end / 2.0).zip(both(end / 2.0 + 2.0, end));
    Ok(levels.map(|(before, after)| Gain { before, after, chart: chart(&report, summary, title) }))
}

const GAIN_COLUMNS: [&str; 5] = ["1 before", "2 before", "1 after", "2 after", "part of 1 in the gain"];

pub(super) fn figure_3(lab: &mut Lab<'_>) -> Result<Part, RunError> {
    let shallow = gain(lab, REWARD, 1, "Figure 3 (a): one request in the SSD")?;
    let deep = gain(lab, REWARD, 8, "Figure 3 (b): eight requests in the SSD")?;
    let (Some(shallow), Some(deep)) = (shallow, deep) else { return Ok(Part::default()) };
    let claim = |id: &str, words: &str, ours: f64, low: f64, high: f64, note: &str| {
        Claim::within(format!("figure-3-{id}"), "Figure 3", words.into(), Some(ours), low, high).note(note)
    };
    let claims = vec![
        claim(
            "a",
            "one request in the SSD: client 1, reading only, takes the gain",
            shallow.share(),
            0.9,
            1.1,
            "its part of what both gain; at least nine tenths",
        )
        .paper("all of it", ""),
        claim(
            "b",
            "eight in the SSD: client 2 gets some of the gain",
            deep.share(),
            0.0,
            shallow.share() - 0.1,
            "client 1's part is at least a tenth smaller than with one",
        )
        .paper("less than all", ""),
    ];
    let rows = [(1, &shallow), (8, &deep)].map(|(depth, gain)| (format!("{depth} in the SSD"), gain.cells()));
    Ok(Part {
        claims,
        tables: vec![Table {
            title: "Figure 3: levels".into(),
            text: "Requests a second before and after client 1 turns from half reads to reads alone.".into(),
            columns: GAIN_COLUMNS.map(String::from).to_vec(),
            rows: rows.into(),
        }],
        figures: vec![Figure {
            title: "Figure 3: client 1 turns to reading alone".into(),
            text: "An SSD alone. With eight requests in it, response times are mostly those of other requests, and the two clients' \
                   are nearly the same. The paper gives no numbers for it."
                .into(),
            charts: vec![shallow.chart, deep.chart],
        }],
    })
}

/// Beyond the paper: the estimator that a queue in the device does not dilute.
pub(super) fn undiluted(lab: &mut Lab<'_>) -> Result<Part, RunError> {
    let mut gains = Vec::new();
    for depth in [1, 8, 32] {
        let title = format!("Beyond figure 3: the service time, {depth} in the SSD");
        gains.extend(gain(lab, SERVICE, depth, &title)?.map(|gain| (depth, gain)));
    }
    let Some((_, first)) = gains.first() else { return Ok(Part::default()) };
    let alone = first.share();
    let claim = |(depth, gain): &(u32, Gain)| {
        Claim::within(
            format!("undiluted-{depth}"),
            "beyond figure 3",
            format!(
                "estimating the service time, client 1 takes as much of the gain with {depth} in the SSD as with one"
            ),
            Some(gain.share() / alone),
            0.9,
            1.1,
        )
        .paper("open question", "x")
        .note("its part of the gain within 10 % of that with one request in the SSD")
    };
    let claims = gains[1..].iter().map(claim).collect();
    let rows = gains.iter().map(|(depth, gain)| (format!("{depth} in the SSD"), gain.cells())).collect();
    Ok(Part {
        claims,
        tables: vec![Table {
            title: "Beyond figure 3: the estimate of the service time".into(),
            text: format!("As figure 3, under {SERVICE}."),
            columns: GAIN_COLUMNS.map(String::from).to_vec(),
            rows,
        }],
        figures: vec![Figure {
            title: "Beyond figure 3: client 1 turns to reading alone".into(),
            text:
                "What a request costs is taken from when requests come back, not from how long they were in the device."
                    .into(),
            charts: gains.into_iter().map(|(_, gain)| gain.chart).collect(),
        }],
    })
}
