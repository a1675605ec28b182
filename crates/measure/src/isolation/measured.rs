//! Results of the same tests on a real server, as `experiments/serve/scorecard/run` writes them: the figures of a scorecard are computed
//! from them by the same code as from simulations.

use std::collections::BTreeMap;

use ioweir_config::SchedulerChoice;
use ioweir_core::Nanos;
use ioweir_lab::experiment::Summary;
use ioweir_lab::run::RunError;
use ioweir_lab::sim::{ClassOutcome, Outcome, Step};
use serde::Deserialize;

/// A file of measurements.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Measured {
    #[serde(skip)]
    file: String,
    pub(super) machine: String,
    pub(super) shared: String,
    pub(super) versions: BTreeMap<String, String>,
    pub(super) load_average_before: Vec<f64>,
    pub(super) load_average_after: Vec<f64>,
    /// The measured tests: their titles, and the files of the experiments.
    tests: BTreeMap<String, String>,
    rows: Vec<Row>,
}

/// One test under one scheduler, once.
#[derive(Clone, Debug, Deserialize)]
struct Row {
    test: String,
    scheduler: String,
    /// Jain's index of the requests of each client by its weight.
    jain: f64,
    classes: BTreeMap<String, Class>,
}

#[derive(Clone, Debug, Deserialize)]
struct Class {
    requests: u64,
    latency_sum_nanos: u64,
    latency_p99_nanos: u64,
    /// The longest latency, or the wait of a request that was not done in time, if that is longer.
    latency_max_nanos: u64,
    /// Requests in each step; only of a tenant that wakes up and its neighbour.
    #[serde(default)]
    steps: Vec<u64>,
}

impl Measured {
    /// Reads a file of measurements.
    pub(super) fn load(file: &str) -> Result<Self, RunError> {
        let wrong = |problem: String| {
            let hint = "hint: experiments/serve/scorecard/run --json FILE measures, and writes one";
            RunError::Value(format!("{file}{problem}\n  expected: measurements of a scorecard's tests\n\n{hint}"))
        };
        let text = std::fs::read_to_string(file).map_err(|error| wrong(format!(": {error}")))?;
        let measured: Self = serde_json::from_str(&text)
            .map_err(|error| wrong(format!(":{}:{}: {error}", error.line(), error.column())))?;
        Ok(Self { file: file.to_owned(), ..measured })
    }

    /// The results of a test under each scheduler; the test has to be the very same.
    pub(super) fn summaries(
        &self,
        title: &str,
        toml: &str,
        schedulers: &[SchedulerChoice],
    ) -> Result<Vec<Summary>, RunError> {
        if self.tests.get(title).is_none_or(|measured| measured != toml) {
            return Err(self.lacks(&format!("test `{title}`, as this spec has it,")));
        }
        let summary = |choice: &SchedulerChoice| {
            let scheduler = choice.to_string();
            let rows = self.rows.iter().filter(|row| row.test == title && row.scheduler == scheduler);
            let cells: Vec<Outcome> = rows.map(Row::outcome).collect();
            match cells.is_empty() {
                true => Err(self.lacks(&format!("test `{title}` under {scheduler}"))),
                false => Ok(Summary { scheduler, point: Vec::new(), cells }),
            }
        };
        schedulers.iter().map(summary).collect()
    }

    fn lacks(&self, what: &str) -> RunError {
        RunError::Value(format!(
            "{}: {what} was not measured\n  expected: measurements of the same device, schedulers, span and seeds, by the same version\n\n\
             hint: experiments/serve/scorecard/run --spec FILE --json FILE measures a spec",
            self.file
        ))
    }
}

impl Row {
    /// The outcome that a simulation of the test would have; its span is left at zero, since no wait is missing in the latencies.
    fn outcome(&self) -> Outcome {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index from 0 to 1")]
        let jain_millionths = (self.jain * 1e6).round() as u32;
        let class = |(name, class): (&String, &Class)| ClassOutcome {
            name: name.clone(),
            requests: class.requests,
            latency_sum_nanos: class.latency_sum_nanos,
            latency_p99_nanos: class.latency_p99_nanos,
            latency_max_nanos: class.latency_max_nanos,
            steps: class.steps.iter().map(|&requests| Step { requests, ..Step::default() }).collect(),
            ..ClassOutcome::default()
        };
        Outcome {
            span: Nanos::ZERO,
            jain_millionths,
            classes: self.classes.iter().map(class).collect(),
            ..Outcome::default()
        }
    }
}
