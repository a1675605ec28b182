//! The paper on reward scheduling (Elnably, Wang, Gulati, Varman: Efficient QoS for Multi-Tiered Storage Systems, HotStorage
//! 2012), run here: its worked example, Tables 1 and 2, figures 2 and 3, and its open question.

mod figures;
mod golden;
mod measured;
mod table;

use super::{Claim, Provenance, Reproduction, Table};
use crate::experiment::{self, Experiment, ExperimentReport, METRICS, Summary};
use crate::report::Figure;
use crate::run::{Origin, Progress, RunError, Silent};

/// The scheduler of every experiment: Algorithm 1 with response times over 32 requests, charged when a request is
/// dispatched.
const REWARD: &str = "reward:estimator=response-ahead";
/// Algorithm 1 to the letter: charged when a request completes.
const LETTER: &str = "reward";
/// Requests that the array holds at once, in every experiment whose depth the paper does not give.
const DEPTH: u32 = 16;

/// What is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only what the claims need: one seed, shorter runs, no tables of sensitivity.
    pub quick: bool,
}

/// Runs experiments and remembers them.
struct Lab<'a> {
    options: &'a Options,
    origin: &'a Origin,
    progress: &'a dyn Progress,
    /// Titles and files of what was run.
    specs: Vec<(String, String)>,
}

/// Runs the experiments of one part.
type Experiments = fn(&mut Lab<'_>) -> Result<Part, RunError>;

/// What a part of the reproduction yields.
#[derive(Default)]
struct Part {
    claims: Vec<Claim>,
    tables: Vec<Table>,
    figures: Vec<Figure>,
}

impl Lab<'_> {
    /// Runs an experiment file. Progress counts parts of the reproduction, not their runs.
    fn run(&mut self, text: &str) -> Result<ExperimentReport, RunError> {
        let experiment = Experiment::parse("reward.toml", text)?;
        let report = experiment::run(&experiment, self.origin, &Silent, None)?;
        let requests =
            report.summaries.iter().flat_map(|summary| &summary.cells).map(|cell| cell.requests_simulated).sum();
        self.progress.read(requests);
        self.specs.push((experiment.title.clone(), text.to_owned()));
        Ok(report)
    }

    fn seeds(&self) -> &'static str {
        if self.options.quick { "[1]" } else { "[1, 2, 3, 4, 5]" }
    }
}

/// A figure of a class, the mean over the seeds.
fn figure(summary: &Summary, metric: &str, class: &str) -> Option<f64> {
    let metric = METRICS.iter().find(|known| known.name == metric)?;
    summary.figure(metric, Some(class)).map(|figure| figure.mean)
}

/// IOPS of a class in the steps of a stretch of time, the mean over the seeds.
fn rate_between(report: &ExperimentReport, summary: &Summary, class: &str, from: f64, to: f64) -> Option<f64> {
    let step = report.experiment.interval.nanos().as_seconds();
    let mut rates = Vec::new();
    for cell in &summary.cells {
        let class = cell.class(class)?;
        let inside = |at: usize| at as f64 * step >= from - 1e-9 && (at + 1) as f64 * step <= to + 1e-9;
        let steps: Vec<u64> =
            class.steps.iter().enumerate().filter(|(at, _)| inside(*at)).map(|(_, step)| step.requests).collect();
        let span = steps.len() as f64 * step;
        rates.push(steps.iter().sum::<u64>() as f64 / span);
    }
    experiment::Figure::of(&rates).map(|figure| figure.mean)
}

/// An array of the two tiers of the paper.
const ARRAY: &str = "[device.tiered]\ncapacity = \"1TB\"\nplacement = { hit_ratio = 1.0 }\nfast = { read = \"exponential 200us\" }\n\
                     slow = { read = \"exponential 10ms\" }\n";

/// Runs the paper's experiments.
///
/// # Errors
/// [`RunError`] where an experiment cannot be run, which is a defect.
pub fn reproduce(options: &Options, origin: &Origin, progress: &dyn Progress) -> Result<Reproduction, RunError> {
    let mut lab = Lab { options, origin, progress, specs: Vec::new() };
    let parts: [Experiments; 6] =
        [golden::examples, table::table_2, figures::figure_2, figures::figure_3, figures::undiluted, measured::real_io];
    progress.started(parts.len());
    let mut all = Part::default();
    for part in parts {
        let part = part(&mut lab)?;
        all.claims.extend(part.claims);
        all.tables.extend(part.tables);
        all.figures.extend(part.figures);
        progress.finished("reward");
    }
    Ok(Reproduction {
        name: "reward",
        paper: "Efficient QoS for Multi-Tiered Storage Systems (Elnably, Wang, Gulati, Varman, HotStorage 2012)",
        method: method(),
        meta: Provenance::new(origin, Vec::new(), lab.specs),
        claims: all.claims,
        tables: all.tables,
        figures: all.figures,
    })
}

fn method() -> Vec<String> {
    vec![
        format!(
            "One set of parameters for all: `{REWARD}`, which is Algorithm 1 with the mean of the last 32 response times, and {DEPTH} \
             requests at the array where the paper does not say how many. Reads of the SSD and of the HDD take exponentially \
             distributed times with means of 200 us and 10 ms; the tiers are served side by side, one request at a time each. Each \
             client keeps 100 requests outstanding."
        ),
        "The paper gives neither the number of requests at the array nor the length of the mean. Its numbers imply the former: with \
         Little's law, tags that move by response time over weight make the number of requests that each client has at the array \
         proportional to its weight, so that B has half of them at equal weights and a third at 2:1. B's idle share of the HDD (2 to \
         7 % at equal weights, 7 to 19 % at 2:1) then needs some 12 to 16 requests at the array; fewer leave the HDD idle more often, \
         more do not let it idle. The table of sensitivity shows the largest deviation for other choices."
            .into(),
        "Algorithm 1 to the letter charges a request when it completes. Until then its client's tag stands still, so that one client \
         takes all free places in turn, and B's requests arrive at the HDD in bunches: B gets less than in the paper. Charged at \
         dispatch, by the mean so far, every figure of Table 2 comes within its tolerance. Both are shown."
            .into(),
        "The paper measured CFQ on a machine with two drives and says that it tries to equalise the I/Os. Here one scheduler stands \
         before both tiers. Rounds of as many requests of each client (`cfq-paper`) show what the paper shows; the slices of time of \
         the kernel's CFQ (`cfq`) do not: they reward who needs less time. Figure 2 has both, and the claim on the latter fails."
            .into(),
        "Table 1 and figure 2 (b) are the paper's measurements on a machine. Here they were measured on the block server: fio reads \
         over NBD from the same two tiers, emulated, and its hit ratio is where it reads. `experiments/reward/real-io/run` does that \
         again; what it found is stored, and judged here. Phases of figure 2 are a quarter as long as in the paper."
            .into(),
        "In Table 2 of the paper the SSD does 4948 requests a second where both clients only use it, 1 % less than its mean service \
         time allows; here it does 5000."
            .into(),
        "The paper does not say how long writes of the SSD take; here 600 us on average, three times a read. Figure 3 is the mean of \
         many seconds, with the change at half of the time."
            .into(),
    ]
}
