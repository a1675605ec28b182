//! The table of a whole sweep: the rows of all parts, in the order of the cells.

use rayon::prelude::*;

use super::folder::{Folder, State, Status};
use super::rows::{COUNTED, RUN, column};
use crate::compare::Goal;
use crate::document::{Cell, Column, Table, Value};
use crate::run::RunError;

/// The parts of a sweep as one table.
#[derive(Clone, Debug)]
pub struct Merged {
    /// A row for each cell and class, a column for each key that is swept and for each number.
    pub table: Table,
    /// How far the sweep is.
    pub status: Status,
}

impl Folder {
    /// Puts all parts together. The columns are those of all parts; a row without a value has a gap.
    ///
    /// # Errors
    /// [`RunError::Value`] where cells are missing, unless a `partial` table will do.
    pub fn merge(&self, partial: bool) -> Result<Merged, RunError> {
        let status = self.status()?;
        if status.done < status.cells && !partial {
            let Status { cells, done, failed_count, .. } = status;
            let problem = format!("{} of {cells} cells are missing and {failed_count} failed", status.missing());
            let hint = "run the sweep again to complete it, or use --partial for a table of the cells that are done";
            return Err(RunError::Value(format!(
                "{problem}\n  expected: a part for each cell, not {done}\n\nhint: {hint}"
            )));
        }
        let tables: Vec<Option<Table>> = self
            .about
            .cells
            .par_iter()
            .map(|name| if let State::Done(table) = self.state(name) { Some(table) } else { None })
            .collect();
        let tables: Vec<Table> = tables.into_iter().flatten().collect();
        Ok(Merged { table: self.united(tables), status })
    }

    /// All rows under the columns of all tables: the columns of a run, the swept keys, and numbers in the order of their first occurrence.
    fn united(&self, tables: Vec<Table>) -> Table {
        let mut names: Vec<String> = RUN.map(String::from).to_vec();
        names.extend(self.about.keys.iter().filter(|key| !RUN.contains(&key.as_str())).cloned());
        let mut last: &[Column] = &[];
        for table in &tables {
            // Nearly all parts have the columns of the one before.
            if table.columns == last {
                continue;
            }
            last = &table.columns;
            for column in last.iter().filter(|column| !names.contains(&column.name)).collect::<Vec<_>>() {
                names.push(column.name.clone());
            }
        }
        let has = |name: &String| tables.iter().flat_map(|table| &table.columns).any(|column| column.name == *name);
        names.retain(has);
        let mut united = Table::new("", names.iter().map(Column::text));
        for table in tables {
            let places: Vec<Option<usize>> =
                names.iter().map(|name| table.columns.iter().position(|column| column.name == *name)).collect();
            for mut row in table.rows {
                let absent = || Cell::from(Value::Absent);
                united.row(places.iter().map(|place| {
                    place.and_then(|at| row.get_mut(at)).map_or_else(absent, |cell| std::mem::replace(cell, absent()))
                }));
            }
        }
        united
    }
}

/// The column of a goal. Cells of a comparison may have one of the requests that count; classes of an experiment end together, so
/// that their p99 stands for the goals of a whole run.
pub(super) fn default_metric(table: &Table, goal: Goal, is_counted: bool) -> String {
    let is_there = |name: &str| table.columns.iter().any(|column| column.name == name);
    let counted = format!("{COUNTED}{}", column(goal));
    match goal {
        Goal::Completion | Goal::Busy if is_there("class") => "latency_p99_seconds".into(),
        _ if is_counted && is_there(&counted) => counted,
        _ => column(goal).into(),
    }
}
