//! The conditions of an experiment that a paper does not state, inferred from its side observations.
//!
//! A run is done under every combination of values of some axes. Each combination gets a score, an expression of numbers that the paper
//! reports without a claim. The lowest score gives the inferred condition, under which claims are judged. All others are the map: metrics
//! of each, and how many claims would hold there.

use std::collections::BTreeMap;

use ioweir_config::SpecError;
use serde::Deserialize;
use toml::{Table, Value};

use super::Run;
use super::results::Results;
use crate::SourceFile;
use crate::cells::Cell;
use crate::claims::{ClaimsFile, Counts};
use crate::expression::Scope;

/// The numbers that each condition has besides those of its spec.
pub(crate) const METRICS: &str = "score hold sign_only";
/// The axes that each condition has besides those of its spec: its place among all conditions by their scores, from 1.
pub(crate) const AXES: &str = "rank";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    /// The run that was done under all conditions.
    pub(crate) of: String,
    /// The axes of a condition.
    axes: Vec<String>,
    /// The axes among these whose other values claims may select.
    #[serde(default)]
    free: Vec<String>,
    /// The expression that is smallest where the paper's side observations agree best; it may use the metrics by their names.
    score: String,
    /// Further expressions that the map shows for each condition.
    #[serde(default)]
    metrics: BTreeMap<String, String>,
}

/// The conditions of a run, and the one that is inferred.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) cells: Vec<Cell>,
    /// The inferred condition, by axis.
    pub(crate) inferred: Vec<(String, String)>,
    /// Names that claims and pages may use: `condition` and `where` as terms with and without the run, and every axis.
    pub(crate) row: Table,
}

impl Spec {
    fn place(&self, cell: &Cell) -> Option<Vec<(String, String)>> {
        let value = |axis: &String| cell.place(axis).map(|value| (axis.clone(), value.to_owned()));
        self.axes.iter().map(value).collect()
    }

    /// The names for a condition; for none, those that stand for any.
    fn row(&self, place: &[(String, String)]) -> Table {
        let terms: Vec<String> = place.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        let run = std::iter::once(format!("run={}", self.of));
        let mut row = Table::new();
        row.insert("condition".into(), run.chain(terms.iter().cloned()).collect::<Vec<_>>().join(", ").into());
        row.insert("where".into(), terms.join(", ").into());
        row.extend(place.iter().map(|(axis, value)| (axis.clone(), Value::from(value.clone()))));
        row
    }

    /// The names that claims use, before anything is run.
    pub(crate) fn unknown(&self) -> Table {
        self.row(&[])
    }

    /// The cells that claims under a condition may select.
    fn known_at(&self, place: &[(String, String)], cells: &[Cell]) -> Vec<Cell> {
        let fixed = || place.iter().filter(|(axis, _)| !self.free.contains(axis));
        let is_known = |cell: &&Cell| fixed().all(|(axis, value)| cell.place(axis).is_none_or(|own| own == value));
        cells.iter().filter(is_known).cloned().collect()
    }

    /// Computes the score, the metrics and the verdicts of one condition.
    fn judge(&self, name: &str, place: &[(String, String)], scope: &Scope<'_>) -> Result<Cell, String> {
        let mut inner = scope.on(&self.row(place), "{condition}")?;
        inner.lets.clone_from(&self.metrics);
        let mut cell = Cell::new(name);
        cell.at.extend(place.iter().cloned());
        let expressions = self.metrics.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        for (metric, text) in expressions.chain([("score", self.score.as_str())]) {
            cell = cell.metric(metric, inner.number(text).map_err(|problem| format!("{metric}: {problem}"))?);
        }
        for (axis, value) in place {
            if let Ok(number) = value.parse::<f64>() {
                cell = cell.metric(axis, number);
            }
        }
        Ok(cell)
    }

    /// Checks the expressions against the runs.
    pub(crate) fn check(&self, scope: &Scope<'_>) -> Result<(), String> {
        self.judge("", &[], scope).map(drop)
    }

    /// Infers the condition from the results.
    pub(crate) fn infer(
        &self,
        run: &Run,
        runs: &[Run],
        cells: &[Cell],
        (file, source): (&ClaimsFile, SourceFile<'_>),
    ) -> Result<Conditions, SpecError> {
        let mut places: Vec<Vec<(String, String)>> = Vec::new();
        for cell in cells.iter().filter(|cell| cell.place("run") == Some(&self.of)) {
            if let Some(place) = self.place(cell).filter(|place| !places.contains(place)) {
                places.push(place);
            }
        }
        let mut judged: Vec<(f64, Cell)> = Vec::new();
        for place in places {
            let known = Results::new(runs, self.known_at(&place, cells));
            let mut scope = Scope::new(&known, file);
            scope.row = self.row(&place);
            let cell = self.judge(&run.name, &place, &scope);
            let cell = cell.map_err(|problem| source.complain("", &format!("run {}: {problem}", run.name)))?;
            let counts = Counts::of(&file.judge(source, &scope)?).results;
            let verdicts = [("hold", counts.hold), ("sign_only", counts.sign_only)];
            let cell = verdicts.iter().fold(cell, |cell, (name, count)| cell.metric(name, *count as f64));
            let score = cell.metrics.get("score").and_then(|score| score.first()).copied();
            judged.push((score.unwrap_or(f64::INFINITY), cell));
        }
        // The sort is stable: conditions of equal score stay in their order.
        judged.sort_by(|left, right| left.0.total_cmp(&right.0));
        let best = judged.first().filter(|(score, _)| score.is_finite()).and_then(|(_, cell)| self.place(cell));
        let inferred = best.unwrap_or_default();
        let cells = judged.into_iter().enumerate().map(|(at, (_, cell))| cell.at("rank", at + 1)).collect();
        Ok(Conditions { cells, row: self.row(&inferred), inferred })
    }
}
