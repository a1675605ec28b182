//! Does a published result come out here? Runs a paper's experiments and sets its claims beside what was computed.
//!
//! A claim holds or fails by a rule that is written down with it; nothing is typed in but what the paper says.

pub mod background;
pub mod bid;
mod page;
pub mod reward;
pub mod wafl;

use serde::Serialize;

pub use crate::document::Provenance;
use crate::report::{Figure, ReportError};

/// One sentence or figure of a paper, and what came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Name within the reproduction.
    pub id: String,
    /// Figure or table of the paper.
    pub figure: &'static str,
    /// What is claimed.
    pub claim: String,
    /// The paper's value.
    pub paper: String,
    /// The value computed here.
    pub ours: Option<f64>,
    /// Unit of both.
    pub unit: &'static str,
    /// Whether ours is within what the rule in `note` allows.
    pub holds: bool,
    /// The rule, and what differs.
    pub note: String,
}

impl Claim {
    /// A claim that holds where `ours` is at least `low` and at most `high`.
    fn within(id: String, figure: &'static str, claim: String, ours: Option<f64>, low: f64, high: f64) -> Self {
        let holds = ours.is_some_and(|ours| ours >= low && ours <= high);
        Self { id, figure, claim, paper: String::new(), ours, unit: "", holds, note: String::new() }
    }

    fn paper(self, paper: impl Into<String>, unit: &'static str) -> Self {
        Self { paper: paper.into(), unit, ..self }
    }

    fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }
}

/// A table of the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub text: String,
    /// Head of each column.
    pub columns: Vec<String>,
    /// Name and cells of each row.
    pub rows: Vec<(String, Vec<String>)>,
}

/// A finished reproduction.
#[derive(Clone, Debug)]
pub struct Reproduction {
    /// Name on the command line.
    pub name: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// How the experiments were run and what differs, a paragraph each.
    pub method: Vec<String>,
    /// How to get this again.
    pub meta: Provenance,
    /// The claims.
    pub claims: Vec<Claim>,
    /// What the figures show, and what lies beyond them.
    pub tables: Vec<Table>,
    /// What is better looked at.
    pub figures: Vec<Figure>,
}

#[derive(Serialize)]
struct Json<'a> {
    meta: &'a Provenance,
    claims: &'a [Claim],
}

impl Reproduction {
    /// How many claims hold.
    #[must_use]
    pub fn holding(&self) -> usize {
        self.claims.iter().filter(|claim| claim.holds).count()
    }

    /// Everything on one page that needs nothing else.
    ///
    /// # Errors
    /// [`ReportError`] where the template cannot be filled in.
    pub fn to_html(&self) -> Result<String, ReportError> {
        page::render(self)
    }

    /// The claims for a terminal.
    #[must_use]
    pub fn to_text(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        let _ = writeln!(text, "{}\n", self.paper);
        for claim in &self.claims {
            let verdict = if claim.holds { "holds" } else { "FAILS" };
            let ours = claim.ours.map_or("none".into(), |ours| format!("{ours:.2}"));
            let Claim { id, claim, paper, unit, .. } = claim;
            let _ = writeln!(text, "{verdict}  {id:28} {claim}: paper {paper}, ours {ours} {unit}");
        }
        let _ = writeln!(text, "\n{} of {} claims hold", self.holding(), self.claims.len());
        text
    }
}

/// The claims as JSON: an object for one reproduction, a list for several.
///
/// # Errors
/// [`ReportError`] where a number cannot be written.
pub fn to_json(reproductions: &[Reproduction]) -> Result<String, ReportError> {
    let objects: Vec<Json<'_>> =
        reproductions.iter().map(|one| Json { meta: &one.meta, claims: &one.claims }).collect();
    let mut text = match &objects[..] {
        [one] => serde_json::to_string_pretty(one)?,
        several => serde_json::to_string_pretty(several)?,
    };
    text.push('\n');
    Ok(text)
}
