//! Reproductions of papers: runs their experiments, and compares each claim with the result.
//!
//! A paper is data, in `papers/NAME` of the repository: `experiment.toml` says what is run; `claims.toml` what the paper
//! claims, how our value is computed and by which rule a claim holds; `page.toml` what the page shows; and `README.md` what
//! differs. Every run fills one table of results (`results`), from which claims, tables and charts select by expressions
//! (`expression`).

mod cells;
mod claims;
mod document;
mod expression;
mod page;
mod papers;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;

pub use claims::{Agreement, Claim, Class, Counts, ResultCounts, Verdict};
pub use papers::{PAPERS, Paper};
pub use runs::{GOAL_FLAG, TRACE_FLAG, TRACES_FLAG};

use claims::ClaimsFile;
use expression::Scope;
use ioweir_config::{Complaint, SpecError};
use ioweir_lab::compare::Goal;
pub use ioweir_lab::document::Provenance;
use ioweir_lab::document::{Figure, Origin, Table};
use ioweir_lab::run::{Progress, RunError};
use runs::{Conditions, Results};
use serde::de::DeserializeOwned;

/// Why a paper could not be reproduced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReproduceError {
    /// A file of the paper cannot be read.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A comparison or an experiment stopped.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A value that is invalid.
    #[error("{0}")]
    Value(String),
}

/// A file of a paper: its name in the repository, and its text.
#[derive(Clone, Copy, Debug)]
struct SourceFile<'a> {
    file: &'a str,
    text: &'a str,
}

impl SourceFile<'_> {
    fn read<T: DeserializeOwned>(self) -> Result<T, SpecError> {
        let parsed = toml::from_str(self.text);
        parsed.map_err(|error| Complaint::of_toml(&error, &[]).in_file(self.file, Some(self.text)))
    }

    /// The error for a problem at the position of these words in the file.
    fn complain(self, words: &str, problem: &str) -> SpecError {
        let at = self.text.find(words).unwrap_or(0);
        Complaint::at(at..at, problem).in_file(self.file, Some(self.text))
    }
}

/// The problem of a table whose position is known otherwise.
fn in_words(error: &toml::de::Error) -> String {
    error.message().trim_end().replace('\n', "; ")
}

/// Options of a reproduction.
#[derive(Clone, Debug)]
pub struct Options {
    /// Run only the parts that claims need, and fewer of them.
    pub quick: bool,
    /// The folder of block traces; if absent, that of a checkout, or else generated traffic.
    pub traces: Option<String>,
    /// Files that replace a generated load.
    pub trace_files: Vec<PathBuf>,
    /// The time that claims compare.
    pub goal: Goal,
}

impl Default for Options {
    /// Full runs, by the papers' own measure: the time that the device works.
    fn default() -> Self {
        Self { quick: false, traces: None, trace_files: Vec::new(), goal: Goal::Busy }
    }
}

/// A finished reproduction.
#[derive(Clone, Debug)]
pub struct Reproduction {
    pub name: String,
    pub paper: String,
    /// Whether less was run than the whole.
    pub is_quick: bool,
    /// The condition that was inferred, by axis; empty if the paper states its own.
    pub condition: Vec<(String, String)>,
    /// The findings, in sentences.
    pub found: Vec<String>,
    /// How the experiments were run and what differs, in paragraphs.
    pub method: Vec<String>,
    /// How to get this result again.
    pub meta: Provenance,
    pub claims: Vec<Claim>,
    /// The numbers that the figures show, and further results.
    pub tables: Vec<Table>,
    /// Charts.
    pub figures: Vec<Figure>,
}

impl Paper {
    /// Runs the experiments of the paper and judges its claims.
    ///
    /// # Errors
    /// [`ReproduceError`] if a trace is missing, or a run stops.
    pub fn reproduce(
        &self,
        options: &Options,
        origin: &Origin,
        progress: &dyn Progress,
    ) -> Result<Reproduction, ReproduceError> {
        let Parsed { runs, needed, file, page } = self.parse()?;
        let mut all = runs::Ran::default();
        for run in runs.iter().filter(|run| !options.quick || needed.contains(&run.name)) {
            all.extend(run.run(runs::Context { options, origin, progress })?);
        }
        all.notes.retain(|note| !note.is_empty());
        all.notes.dedup();
        all.inputs.dedup();
        let mut condition = Conditions::default();
        for run in &runs {
            if let Some(spec) = run.conditions() {
                condition = spec.infer(run, &runs, &all.cells, (&file, self.claims))?;
                all.cells.append(&mut condition.cells);
            }
        }
        let mut results = Results::new(&runs, all.cells);
        let has_own_input = options.traces.is_some() || !options.trace_files.is_empty();
        results.are_whole = !options.quick && !has_own_input && !all.is_generated;
        let mut scope = Scope::new(&results, &file);
        scope.row = condition.row;
        let (mut tables, mut figures) = (Vec::new(), Vec::new());
        for spec in &page.table {
            tables.extend(spec.draw(&scope).map_err(|problem| self.page.complain(&spec.title, &problem))?);
        }
        for spec in &page.figure {
            figures.extend(spec.draw(&scope).map_err(|problem| self.page.complain(&spec.title, &problem))?);
        }
        let found =
            page.found.iter().map(|text| scope.sentence(text).map_err(|problem| self.page.complain(text, &problem)));
        let found: Vec<Option<String>> = found.collect::<Result<_, _>>()?;
        Ok(Reproduction {
            is_quick: options.quick,
            condition: condition.inferred,
            found: found.into_iter().flatten().collect(),
            method: all.notes.into_iter().chain(document::paragraphs(self.readme)).collect(),
            meta: Provenance::new(origin, all.inputs, all.specs),
            claims: file.judge(self.claims, &scope)?,
            tables,
            figures,
            name: file.name,
            paper: file.paper,
        })
    }

    /// The flags that replace the traffic of its runs, or the time that is compared.
    ///
    /// # Errors
    /// [`ReproduceError`] if a file of the paper cannot be read.
    pub fn flags(&self) -> Result<BTreeSet<&'static str>, ReproduceError> {
        Ok(self.parse()?.runs.iter().flat_map(|run| run.flags()).copied().collect())
    }

    /// Reads the paper's files, and checks that its claims refer to existing runs.
    fn parse(&self) -> Result<Parsed, SpecError> {
        let runs = runs::parse(self.experiment, self.files)?;
        let file = ClaimsFile::parse(self.claims)?;
        let page = self.page.read()?;
        let asked = Results::new(&runs, Vec::new());
        let mut scope = Scope::new(&asked, &file);
        for run in &runs {
            if let Some(spec) = run.conditions() {
                scope.row = spec.unknown();
                let place = format!("name = \"{}\"", run.name);
                spec.check(&scope).map_err(|problem| self.experiment.complain(&place, &problem))?;
            }
        }
        file.judge(self.claims, &scope)?;
        let needed = asked.used.into_inner();
        Ok(Parsed { runs, needed, file, page })
    }
}

/// A paper whose files have been read.
struct Parsed {
    runs: Vec<runs::Run>,
    /// The names of the runs that claims refer to.
    needed: BTreeSet<String>,
    file: ClaimsFile,
    page: page::PageFile,
}

impl Reproduction {
    /// The number of claims that hold.
    #[must_use]
    pub fn holding(&self) -> usize {
        self.claims.iter().filter(|claim| claim.holds()).count()
    }

    /// The numbers of claims by the kind of their agreement.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts::of(&self.claims)
    }
}
