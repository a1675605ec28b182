//! Tables and charts of a paper's page, read from `page.toml` and drawn from the results.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table as Toml, Value};

use super::claims::{Claim, Rows};
use super::expression::Scope;
use ioweir_lab::document::{Axis, Cell, Chart, Column, Figure, Format, Mark, Series, Table};

/// `page.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageFile {
    /// The findings, which are the first paragraph: sentences with numbers. A sentence whose numbers do not exist is left out.
    #[serde(default)]
    pub(super) found: Vec<String>,
    #[serde(default)]
    pub(super) table: Vec<TableSpec>,
    #[serde(default)]
    pub(super) figure: Vec<FigureSpec>,
}

/// The source of rows, columns, charts or series: the rows of a list, or the values of an axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dimension {
    #[serde(rename = "for")]
    rows: Option<Rows>,
    axis: Option<String>,
    /// Terms that each row's selections have in addition to the others; they may use names of the row.
    at: Option<String>,
    /// The name of each row; if absent, that of the axis.
    name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableSpec {
    pub(super) title: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    at: String,
    each: Option<Dimension>,
    rows: Dimension,
    columns: Columns,
    #[serde(default, rename = "let")]
    lets: BTreeMap<String, String>,
    #[serde(default)]
    cell: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Columns {
    /// The heading and the cell of each.
    Written(Vec<[String; 2]>),
    Alike(Dimension),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureSpec {
    pub(super) title: String,
    #[serde(default)]
    text: String,
    chart: Vec<ChartSpec>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChartSpec {
    title: String,
    #[serde(default)]
    at: String,
    each: Option<Dimension>,
    across: String,
    upward: String,
    /// The axes that begin at zero.
    #[serde(default)]
    from_zero: Vec<String>,
    #[serde(default)]
    logarithmic: bool,
    series: Vec<SeriesSpec>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesSpec {
    each: Option<Dimension>,
    name: String,
    mark: MarkSpec,
    /// A course over time.
    course: Option<String>,
    /// Alternatively, numbers over numbers.
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MarkSpec {
    Line,
    Steps,
    Dots,
}

/// A cell whose number does not exist.
const ABSENT: &str = "-";

/// A sentence as it is shown when one of its numbers may not exist.
fn shown(text: &str, scope: &Scope<'_>) -> Result<String, String> {
    Ok(scope.sentence(text)?.unwrap_or_else(|| ABSENT.into()))
}

impl Dimension {
    /// The name of each row, column, chart or series, and the scope in which its expressions are computed.
    fn of<'a>(&self, scope: &Scope<'a>) -> Result<Vec<(String, Scope<'a>)>, String> {
        let rows = match (&self.rows, &self.axis) {
            (Some(rows), _) => rows.of(scope.file)?,
            (None, Some(axis)) => {
                let row = |value| Toml::from_iter([(axis.clone(), Value::String(value))]);
                scope.results.values(axis, &scope.at).into_iter().map(row).collect()
            }
            (None, None) => return Err("has neither `for` nor `axis`".into()),
        };
        let axis = self.axis.as_deref().unwrap_or_default();
        let own = if axis.is_empty() { String::new() } else { format!("{axis}={{{axis}}}") };
        let (at, label) = (self.at.as_ref().unwrap_or(&own), format!("{{{axis}:label}}"));
        let each = |row: &Toml| {
            let inner = scope.on(row, "")?.on(row, at)?;
            Ok((shown(self.name.as_ref().unwrap_or(&label), &inner)?, inner))
        };
        rows.iter().map(each).collect()
    }

    /// The scopes of a dimension, or a single scope without one.
    fn each<'a>(each: Option<&Self>, scope: &Scope<'a>) -> Result<Vec<(String, Scope<'a>)>, String> {
        each.map_or_else(|| Ok(vec![(String::new(), scope.clone())]), |each| each.of(scope))
    }
}

impl TableSpec {
    /// The tables that have a row.
    pub(super) fn draw(&self, scope: &Scope<'_>) -> Result<Vec<Table>, String> {
        let mut scope = scope.on(&Toml::new(), &self.at)?;
        scope.lets.clone_from(&self.lets);
        let each = Dimension::each(self.each.as_ref(), &scope)?;
        each.iter().filter_map(|(_, scope)| self.one(scope).transpose()).collect()
    }

    /// The table, without rows that have no number because a quick run leaves out what they are about. `None` if there is no row.
    fn one(&self, scope: &Scope<'_>) -> Result<Option<Table>, String> {
        let heads = match &self.columns {
            Columns::Written(columns) => columns.iter().map(|[head, _]| head.clone()).collect::<Vec<_>>(),
            Columns::Alike(dimension) => dimension.of(scope)?.into_iter().map(|(name, _)| name).collect(),
        };
        let numbers = heads.into_iter().map(|head| Column::text(head).format(Format::Own));
        let columns = std::iter::once(Column::text("")).chain(numbers);
        let mut table = Table::new(shown(&self.title, scope)?, columns).caption(&self.text).detail();
        let mut has_row = false;
        for (name, scope) in self.rows.of(scope)? {
            scope.results.missed.take();
            let cells: Result<Vec<String>, String> = match &self.columns {
                Columns::Written(columns) => columns.iter().map(|[_, cell]| shown(cell, &scope)).collect(),
                Columns::Alike(dimension) => {
                    dimension.of(&scope)?.iter().map(|(_, scope)| shown(&self.cell, scope)).collect()
                }
            };
            let cells = cells?;
            let has_number = cells.iter().any(|cell| cell != ABSENT);
            if !scope.results.is_left_out(has_number)? {
                has_row = true;
                table.row(std::iter::once(name).chain(cells).map(Cell::from));
            }
        }
        Ok(has_row.then_some(table))
    }
}

impl FigureSpec {
    /// The figure; `None` if none of its runs was done.
    pub(super) fn draw(&self, scope: &Scope<'_>) -> Result<Option<Figure>, String> {
        let mut charts = Vec::new();
        for spec in &self.chart {
            let scope = scope.on(&Toml::new(), &spec.at)?;
            for (_, scope) in Dimension::each(spec.each.as_ref(), &scope)? {
                charts.push(spec.draw(&scope)?);
            }
        }
        charts.retain(|chart| chart.series.iter().any(|series| !series.points.is_empty()));
        Ok((!charts.is_empty()).then(|| Figure::new(&self.title, &self.text, charts)))
    }
}

impl ChartSpec {
    fn draw(&self, scope: &Scope<'_>) -> Result<Chart, String> {
        let axis = |label: &str, name: &str| {
            let from_zero = self.from_zero.iter().any(|known| known == name);
            if from_zero { Axis::from_zero(label) } else { Axis::new(label) }
        };
        let mut series = Vec::new();
        for spec in &self.series {
            for (_, scope) in Dimension::each(spec.each.as_ref(), scope)? {
                let mark = match spec.mark {
                    MarkSpec::Line => Mark::Line,
                    MarkSpec::Steps => Mark::Steps,
                    MarkSpec::Dots => Mark::Dots,
                };
                series.push(Series::new(shown(&spec.name, &scope)?, mark, spec.points(&scope)?));
            }
        }
        Ok(Chart {
            title: shown(&self.title, scope)?,
            across: axis(&self.across, "across"),
            upward: Axis { is_logarithmic: self.logarithmic, ..axis(&self.upward, "upward") },
            series,
        })
    }
}

impl SeriesSpec {
    fn points(&self, scope: &Scope<'_>) -> Result<Vec<(f64, f64)>, String> {
        let Some(course) = &self.course else {
            let (x, y) = (scope.value(&self.x)?.means(), scope.value(&self.y)?.means());
            return Ok(x.into_iter().zip(y).collect());
        };
        let values = scope.value(course)?;
        Ok(values.0.first().and_then(|entry| entry.course).map_or_else(Vec::new, super::cells::Course::points))
    }
}

/// A claim with the range of the paper's value.
type Beside<'a> = (&'a Claim, (f64, f64));

/// The paper's values beside ours: a chart for each unit of a figure's claims for which the paper has more than one number.
pub(super) fn beside(claims: &[&Claim]) -> Vec<Chart> {
    let mut units: Vec<&str> = Vec::new();
    for claim in claims.iter().filter(|claim| claim.paper_range.is_some()) {
        if !units.contains(&claim.unit.as_str()) {
            units.push(&claim.unit);
        }
    }
    let chart = |unit: &str| {
        let shown: Vec<Beside<'_>> = claims
            .iter()
            .filter(|claim| claim.unit == unit)
            .filter_map(|claim| Some((*claim, claim.paper_range?)))
            .collect();
        let bars = |name: &str, value: fn(&Beside<'_>) -> f64| {
            let points = shown.iter().enumerate().map(|(at, row)| (at as f64, value(row))).collect::<Vec<_>>();
            Series::new(name, Mark::Bars, points)
        };
        let ours = bars("ours", |row| row.0.ours.unwrap_or(f64::NAN));
        let has_range = shown.iter().any(|(_, (low, high))| low != high);
        let series = if has_range {
            vec![bars("paper, from", |row| row.1.0), bars("paper, to", |row| row.1.1), ours]
        } else {
            vec![bars("paper", |row| row.1.0), ours]
        };
        let names = shown.iter().map(|(claim, _)| claim.id.clone());
        (shown.len() > 1).then(|| Chart {
            title: "The paper and ours".into(),
            across: Axis::categories("claim", names),
            upward: Axis::from_zero(unit),
            series,
        })
    };
    units.into_iter().filter_map(chart).collect()
}
