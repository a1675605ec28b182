//! Reproductions of papers: their experiments are run, and each claim stands beside what came out.
//!
//! A paper is data, in `papers/NAME` of the repository: `experiment.toml` says what is run, `claims.toml` what the paper
//! claims, how ours is computed and by which rule a claim holds, `page.toml` what the page shows, `README.md` what differs.
//! Every run fills one table of results (`results`) from which claims, tables and charts select by expressions
//! (`expression`).

mod claims;
mod document;
mod expression;
mod papers;
mod results;
mod runs;
mod template;
#[cfg(test)]
mod tests;
mod views;

use std::collections::BTreeSet;
use std::path::PathBuf;

pub use claims::{Claim, Class};
pub use papers::{PAPERS, Paper};
pub use runs::{TRACE_FLAG, TRACES_FLAG};

pub use crate::document::Provenance;
use crate::document::{Figure, Origin, Table};
use crate::run::{Progress, RunError};
use crate::server::ServerError;
use ioweir_config::SpecError;

/// Why a paper could not be reproduced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReproduceError {
    /// A file of the paper cannot be read.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A comparison or an experiment stopped.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The model of the server broke a law.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A value that cannot be.
    #[error("{0}")]
    Value(String),
}

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only what claims need, and less of it.
    pub quick: bool,
    /// Folder of block traces; where absent, that of a checkout, or generated traffic where there is none.
    pub traces: Option<String>,
    /// Files that take the place of a generated load.
    pub trace_files: Vec<PathBuf>,
}

/// A finished reproduction.
#[derive(Clone, Debug)]
pub struct Reproduction {
    /// What it is called.
    pub name: String,
    /// The paper.
    pub paper: String,
    /// How the experiments were run and what differs, a paragraph each.
    pub method: Vec<String>,
    /// How to get this again.
    pub meta: Provenance,
    /// The claims.
    pub claims: Vec<Claim>,
    /// What the figures show, and what lies beyond them.
    pub tables: Vec<Table>,
    /// Charts.
    pub figures: Vec<Figure>,
}

impl Paper {
    /// Runs the experiments of the paper and judges its claims.
    ///
    /// # Errors
    /// [`ReproduceError`] where a trace is missing, or a run stops.
    pub fn reproduce(
        &self,
        options: &Options,
        origin: &Origin,
        progress: &dyn Progress,
    ) -> Result<Reproduction, ReproduceError> {
        self.parse()?.reproduce(options, origin, progress)
    }

    /// The flags that give its runs other traffic than their own.
    ///
    /// # Errors
    /// [`ReproduceError`] where a file of the paper cannot be read.
    pub fn flags(&self) -> Result<BTreeSet<&'static str>, ReproduceError> {
        Ok(self.parse()?.runs.iter().filter_map(runs::Run::flag).collect())
    }

    fn source<'a>(&'a self, file: &'a str, text: &'a str) -> claims::Source<'a> {
        claims::Source { file, text }
    }

    /// Reads and checks its files.
    fn parse(&self) -> Result<Parsed<'_>, SpecError> {
        let runs = runs::parse(self.source(self.experiment.0, self.experiment.1), self.files)?;
        let (file, parsed) = claims::parse(self.source(self.claims.0, self.claims.1), &runs)?;
        let page = views::parse(self.source(self.page.0, self.page.1))?;
        Ok(Parsed { paper: self, runs, file, claims: parsed, page })
    }
}

/// A paper whose files have been read.
struct Parsed<'a> {
    paper: &'a Paper,
    runs: Vec<runs::Run>,
    file: claims::ClaimsFile,
    claims: Vec<claims::Parsed>,
    page: views::PageFile,
}

impl Parsed<'_> {
    fn reproduce(
        &self,
        options: &Options,
        origin: &Origin,
        progress: &dyn Progress,
    ) -> Result<Reproduction, ReproduceError> {
        let paper = self.paper;
        let needed: BTreeSet<String> = self.claims.iter().flat_map(claims::Parsed::runs).collect();
        let mut all = runs::Ran::default();
        for run in self.runs.iter().filter(|run| !options.quick || needed.contains(&run.name)) {
            let ran = run.run(runs::Context { options, origin, progress })?;
            all.cells.extend(ran.cells);
            all.notes.extend(ran.notes.into_iter().filter(|note| !note.is_empty()));
            all.inputs.extend(ran.inputs);
            all.specs.extend(ran.specs);
        }
        all.notes.dedup();
        all.inputs.dedup();
        let results = results::Results { cells: all.cells };
        let source = paper.source(paper.claims.0, paper.claims.1);
        let judged: Result<Vec<_>, SpecError> =
            self.claims.iter().map(|claim| claim.judge(source, &results, &self.file.labels)).collect();
        let drawing =
            views::Drawing { source: paper.source(paper.page.0, paper.page.1), claims: &self.file, results: &results };
        let (tables, figures) = (drawing.tables(&self.page)?, drawing.figures(&self.page)?);
        let mut method = all.notes;
        method.extend(document::paragraphs(paper.readme));
        Ok(Reproduction {
            name: self.file.name.clone(),
            paper: self.file.paper.clone(),
            method,
            meta: Provenance::new(origin, all.inputs, all.specs),
            claims: judged?.into_iter().flatten().collect(),
            tables,
            figures,
        })
    }
}

impl Reproduction {
    /// How many claims hold.
    #[must_use]
    pub fn holding(&self) -> usize {
        self.claims.iter().filter(|claim| claim.holds).count()
    }

    /// How many claims hold, and how many of these are about numbers that the model was set by.
    #[must_use]
    pub fn summary(&self) -> String {
        let counted = |class: Class| self.claims.iter().filter(move |claim| claim.class == class);
        let mut text = format!("{} of {} claims hold", self.holding(), self.claims.len());
        let calibrated = counted(Class::Calibrated).count();
        if calibrated > 0 {
            let free = |claim: &&Claim| claim.class != Class::Calibrated;
            let holding = self.claims.iter().filter(free).filter(|claim| claim.holds).count();
            text += &format!(
                "; without the {calibrated} that the model was calibrated by, {holding} of {}",
                self.claims.len() - calibrated
            );
        }
        text
    }
}
