//! Does a published result come out here? Runs a paper's experiments and sets its claims beside what was computed.
//!
//! A claim holds or fails by a rule that is written down with it; nothing is typed in but what the paper says.

pub mod bid;
mod page;

use serde::Serialize;

use crate::compare::Meta;
use crate::report::ReportError;

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

/// Where the head was, for one scheduler.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Track {
    /// The scheduler.
    pub name: String,
    /// Path of the whole run, in a box of the page's charts.
    pub whole: String,
    /// Path of a short stretch.
    pub magnified: String,
}

/// A scatter of schedulers: who finishes early against who keeps readers waiting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// What is plotted.
    pub title: String,
    /// Name of each point, and where it stands in percent from the left and from the top.
    pub points: Vec<(String, f64, f64)>,
    /// Lowest and highest value to the right, as text.
    pub across: (String, String),
    /// Lowest and highest value upward, as text.
    pub upward: (String, String),
}

impl Plot {
    /// Spreads named pairs of values over the plot; none where there are none.
    fn new(title: String, values: &[(String, f64, f64)]) -> Option<Self> {
        let range = |value: fn(&(String, f64, f64)) -> f64| {
            let all = || values.iter().map(value);
            Some((all().min_by(f64::total_cmp)?, all().max_by(f64::total_cmp)?))
        };
        let (across, upward) = (range(|point| point.1)?, range(|point| point.2)?);
        // Ten percent of room on each side; a single value stands in the middle.
        let place = |value: f64, (low, high): (f64, f64)| {
            if high > low { 10.0 + 80.0 * (value - low) / (high - low) } else { 50.0 }
        };
        let points = values.iter().map(|(name, x, y)| (name.clone(), place(*x, across), 100.0 - place(*y, upward)));
        let text = |(low, high): (f64, f64)| (format!("{low:.2}"), format!("{high:.2}"));
        Some(Self { title, points: points.collect(), across: text(across), upward: text(upward) })
    }
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
    pub meta: Meta,
    /// The claims.
    pub claims: Vec<Claim>,
    /// What the figures show, and what lies beyond them.
    pub tables: Vec<Table>,
    /// The figures of head positions.
    pub tracks: Vec<Track>,
    /// Trade-offs.
    pub plots: Vec<Plot>,
}

#[derive(Serialize)]
struct Json<'a> {
    meta: &'a Meta,
    claims: &'a [Claim],
}

impl Reproduction {
    /// How many claims hold.
    #[must_use]
    pub fn holding(&self) -> usize {
        self.claims.iter().filter(|claim| claim.holds).count()
    }

    /// The claims as JSON.
    ///
    /// # Errors
    /// [`ReportError`] where a number cannot be written.
    pub fn to_json(&self) -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(&Json { meta: &self.meta, claims: &self.claims })?;
        text.push('\n');
        Ok(text)
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
