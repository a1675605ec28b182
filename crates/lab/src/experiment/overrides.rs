//! Values that the caller of an experiment puts in the place of its keys, and the command that says so.

use ioweir_config::{ChoiceError, SpecError};

use super::Experiment;
use crate::document::quoted;
use crate::run::RunError;
use crate::sim::Goal;

/// Values that replace an experiment's own, as the flags of `ioweir simulate` name them; empty values change nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Schedulers in the form `name[:parameter=value...]`.
    pub schedulers: Vec<String>,
    pub seeds: Vec<u64>,
    /// The goal, and the class that counts for it.
    pub goal: Option<Goal>,
    pub of: Option<String>,
    /// Whether figures by stream are kept, whatever the experiment says.
    pub by_stream: bool,
    /// Whether requests past the end of a device are folded onto it, whatever the experiment says.
    pub fold: bool,
}

impl Overrides {
    /// Applies these values, which are checked as those of a file.
    ///
    /// # Errors
    /// [`RunError`] if a value is invalid.
    pub fn apply(&self, mut experiment: Experiment) -> Result<Experiment, RunError> {
        if !self.schedulers.is_empty() {
            experiment.schedulers =
                self.schedulers.iter().map(|scheduler| scheduler.parse()).collect::<Result<_, ChoiceError>>()?;
        }
        if !self.seeds.is_empty() {
            experiment.seeds.clone_from(&self.seeds);
        }
        experiment.goal = self.goal.or(experiment.goal);
        experiment.of = self.of.clone().or(experiment.of);
        if *self != (Self { by_stream: self.by_stream, fold: self.fold, ..Self::default() }) {
            // Errors in flags have no place in a file.
            experiment = Experiment::parse("the flags", &experiment.to_toml())
                .map_err(|error| SpecError { position: None, ..error })?;
        }
        if self.by_stream {
            experiment.by_stream = Some(true);
        }
        if self.fold {
            experiment.fold = Some(true);
        }
        Ok(experiment)
    }

    /// The command that runs the experiment of the file `spec` with these values again.
    #[must_use]
    pub fn command(&self, spec: &str) -> String {
        let mut words = vec!["ioweir simulate".to_owned(), quoted(spec)];
        if !self.schedulers.is_empty() {
            words.push(format!("--scheduler {}", quoted(&self.schedulers.join(","))));
        }
        if !self.seeds.is_empty() {
            let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
            words.push(format!("--seeds {}", seeds.join(",")));
        }
        words.extend(self.goal.map(|goal| format!("--goal {goal}")));
        words.extend(self.of.as_ref().map(|of| format!("--of {}", quoted(of))));
        if self.by_stream {
            words.push("--by stream".into());
        }
        if self.fold {
            words.push("--fold".into());
        }
        words.join(" ")
    }
}
