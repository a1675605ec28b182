//! The cells of all runs, and what an expression may select of them.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::Run;
use crate::cells::{Cell, Term};

/// The results of all runs; before they are done, the values that may be selected.
#[derive(Debug)]
pub(crate) struct Results<'a> {
    runs: &'a [Run],
    pub(crate) cells: Vec<Cell>,
    /// Whether all runs were done in full, so that a number that is absent for want of cells is a mistake.
    pub(crate) are_whole: bool,
    /// The last selection that found no cell.
    pub(crate) missed: RefCell<Option<String>>,
    /// The runs of which something was selected.
    pub(crate) used: RefCell<BTreeSet<String>>,
}

impl<'a> Results<'a> {
    pub(crate) fn new(runs: &'a [Run], cells: Vec<Cell>) -> Self {
        Self { runs, cells, are_whole: false, missed: RefCell::default(), used: RefCell::default() }
    }

    /// Whether something was selected of which no cell exists, since this was last asked. `has_number` says whether there was a number
    /// all the same.
    ///
    /// # Errors
    /// The selection, if there was no number and all runs were done in full.
    pub(crate) fn is_left_out(&self, has_number: bool) -> Result<bool, String> {
        match self.missed.take().filter(|_| !has_number) {
            Some(selection) if self.are_whole => {
                Err(format!("`{selection}` selects nothing, although every run was done in full"))
            }
            missed => Ok(missed.is_some()),
        }
    }

    /// The cells that fulfil all terms, with their number.
    pub(crate) fn select<'t>(&self, terms: &'t [Term]) -> impl Iterator<Item = (usize, &Cell)> + use<'_, 't> {
        self.cells.iter().enumerate().filter(|(_, cell)| terms.iter().all(|term| term.holds(cell)))
    }

    /// The values of an axis among the cells that fulfil all terms, in the order of the cells.
    pub(crate) fn values(&self, axis: &str, terms: &[Term]) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for value in self.select(terms).filter_map(|(_, cell)| cell.place(axis)) {
            if !found.iter().any(|known| known == value) {
                found.push(value.into());
            }
        }
        found
    }

    /// Checks that a selection names a run, and only metrics and terms that this run may have.
    pub(crate) fn check(&self, metric: &str, terms: &[Term]) -> Result<(), String> {
        let names = |run: &Run| {
            let name = |term: &Term| {
                term.name().is_some_and(|(axis, name)| axis.is_none_or(|axis| axis == "run") && name == run.name)
            };
            terms.iter().any(name)
        };
        let run = self.runs.iter().find(|run| names(run)).ok_or_else(|| {
            let runs: Vec<&str> = self.runs.iter().map(|run| run.name.as_str()).collect();
            format!("`{metric}` of which run?\n  expected: one of {}", runs.join(", "))
        })?;
        self.used.borrow_mut().insert(run.name.clone());
        run.check_metric(metric)?;
        // A run may give a cell the canonical form of the name in its table.
        let of = run.conditions().and_then(|spec| self.runs.iter().find(|run| run.name == spec.of));
        let is_known = |name: &str| {
            run.knows(name) || of.is_some_and(|of| of.knows(name)) || self.select(&[Term::named(name)]).next().is_some()
        };
        for term in terms {
            if let Some(axis) = term.axis.as_deref().filter(|axis| !run.has_axis(axis)) {
                return Err(format!("run `{}` has no axis `{axis}`", run.name));
            }
            if let Some((_, name)) = term.name().filter(|(_, name)| !is_known(name)) {
                return Err(format!("nothing in run `{}` is called `{name}`", run.name));
            }
        }
        Ok(())
    }
}
