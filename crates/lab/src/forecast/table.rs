//! Which forecasters are there, what can be set, and how is one made?

use super::learned::{Learned, Method};
use super::{Calendar, ForecastError};
use crate::choice::{ChoiceError, unknown};

/// Something that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name on the command line.
    pub name: &'static str,
    /// The value where none is given.
    pub default: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// What it does.
    pub help: &'static str,
}

/// A row of the table of forecasters.
#[derive(Clone, Copy, Debug)]
pub struct ForecasterRow {
    /// The name on the command line.
    pub name: &'static str,
    /// One line: what it does.
    pub summary: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// How it works here, and where that differs from the source.
    pub doc: &'static str,
    /// What can be set.
    pub settings: &'static [Setting],
    method: fn(&[f64]) -> Method,
}

/// All forecasters.
pub const FORECASTERS: &[ForecasterRow] = &[
    ForecasterRow {
        name: "naive-day",
        summary: "each bin as it was a day before",
        source: "folklore; the floor that a forecaster must be above",
        doc: "Where the bin a day before is a gap, the day before that, and so on.",
        settings: &[],
        method: |_| Method::NaiveDay,
    },
    ForecasterRow {
        name: "naive-week",
        summary: "each bin as it was a week before",
        source: "folklore; the floor that a forecaster must be above",
        doc: "Where the bin a week before is a gap or was not seen, the last day that acted like this day of the week, and else the day before.",
        settings: &[],
        method: |_| Method::NaiveWeek,
    },
];

/// The row of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ForecasterRow> {
    FORECASTERS.iter().find(|row| row.name == name)
}

/// A forecaster with its settings: `naive-week`, `paper:trend=0.8`.
#[derive(Clone, Debug)]
pub struct ForecasterChoice {
    /// The row of the table.
    pub row: &'static ForecasterRow,
    /// Values in the order of the row's settings.
    pub values: Vec<f64>,
}

impl ForecasterChoice {
    /// A row with every setting at its default.
    #[must_use]
    pub fn of(row: &'static ForecasterRow) -> Self {
        Self { row, values: row.settings.iter().map(|setting| setting.default).collect() }
    }

    /// Makes a forecaster of a series whose first bin begins at `start_unix_seconds`.
    ///
    /// # Errors
    /// [`ForecastError`] where days are no whole number of bins.
    pub fn build(
        &self,
        start_unix_seconds: i64,
        bin_seconds: u32,
        calendar: &Calendar,
    ) -> Result<Learned, ForecastError> {
        Learned::new((self.row.method)(&self.values), start_unix_seconds, bin_seconds, calendar.clone())
    }
}

impl std::str::FromStr for ForecasterChoice {
    type Err = ChoiceError;

    /// Reads `name[:setting=value...]`.
    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let name = text.split(':').next().unwrap_or_default();
        let names: Vec<_> = FORECASTERS.iter().map(|row| row.name).collect();
        let row =
            find(name).ok_or_else(|| unknown("forecaster", name, &names, "`ioweir doc forecaster` lists them"))?;
        Ok(Self::of(row))
    }
}
