//! Tables and charts of a paper's page: read from `page.toml`, drawn from the results.

use std::collections::BTreeMap;

use ioweir_config::SpecError;
use serde::Deserialize;
use toml::{Spanned, Table as Toml, Value};

use super::claims::{Claim, ClaimsFile, Rows, Source};
use super::expression::{Expression, Scope, terms};
use super::results::{Results, Term};
use super::template::Template;
use crate::document::{Axis, Cell, Chart, Column, Figure, Format, Mark, Series, Table};

type Words = Spanned<String>;

/// `page.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageFile {
    #[serde(default)]
    table: Vec<TableSpec>,
    #[serde(default)]
    figure: Vec<FigureSpec>,
}

/// What rows, columns, charts or series there are: those of a list, or one for each value of an axis.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Dimension {
    #[serde(rename = "for")]
    rows: Option<Rows>,
    axis: Option<String>,
    /// Terms that the selections of each have beside the others: of a row of a list.
    at: Option<String>,
    /// What each is called: that of the axis where absent.
    name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableSpec {
    title: Words,
    #[serde(default)]
    text: String,
    #[serde(default)]
    at: String,
    /// One table for each.
    #[serde(default)]
    each: Option<Dimension>,
    rows: Dimension,
    columns: Columns,
    #[serde(default, rename = "let")]
    lets: BTreeMap<String, Words>,
    #[serde(default)]
    cell: Option<Words>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Columns {
    /// Head and cell of each.
    Written(Vec<[String; 2]>),
    Alike(Dimension),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureSpec {
    title: String,
    #[serde(default)]
    text: String,
    chart: Vec<ChartSpec>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChartSpec {
    title: Words,
    #[serde(default)]
    at: String,
    #[serde(default)]
    each: Option<Dimension>,
    across: String,
    upward: String,
    /// Axes that begin at zero.
    #[serde(default)]
    from_zero: Vec<String>,
    #[serde(default)]
    logarithmic: bool,
    series: Vec<SeriesSpec>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesSpec {
    #[serde(default)]
    each: Option<Dimension>,
    name: Words,
    mark: MarkSpec,
    /// A course over time.
    course: Option<Words>,
    /// Or numbers against numbers.
    x: Option<Words>,
    y: Option<Words>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MarkSpec {
    Line,
    Steps,
    Dots,
}

/// Draws from one set of results.
pub(super) struct Drawing<'a> {
    pub(super) source: Source<'a>,
    pub(super) claims: &'a ClaimsFile,
    pub(super) results: &'a Results,
}

/// Where something is drawn: the terms of all selections, and what names mean.
#[derive(Clone, Default)]
struct Place {
    at: Vec<Term>,
    variables: Toml,
    lets: BTreeMap<String, Expression>,
}

impl Place {
    /// The same on a row of a list, or at a value of an axis.
    fn on(&self, row: &Toml, axis: Option<&str>) -> Self {
        let mut place = self.clone();
        place.variables.extend(row.clone());
        let value = axis.and_then(|axis| row.get(axis)?.as_str());
        place.at.extend(axis.zip(value).map(|(axis, value)| Term::Is(axis.into(), value.into())));
        place
    }
}

/// Reads `page.toml`.
pub(super) fn parse(source: Source<'_>) -> Result<PageFile, SpecError> {
    toml::from_str(source.text).map_err(|error| source.toml(&error))
}

impl Drawing<'_> {
    fn scope(&self, place: &Place) -> Scope<'_> {
        Scope {
            results: self.results,
            labels: &self.claims.labels,
            at: place.at.clone(),
            variables: place.variables.clone(),
            lets: place.lets.clone(),
        }
    }

    fn wrong(&self, words: &Words, problem: impl Into<String>) -> SpecError {
        self.source.complain(words.span().start, problem)
    }

    fn sentence(&self, words: &Words, place: &Place) -> Result<String, SpecError> {
        let template = self.source.template(words)?;
        let rendered = template.render(&self.scope(place)).map_err(|problem| self.wrong(words, problem))?;
        Ok(rendered.unwrap_or_else(|| "-".into()))
    }

    fn expression(&self, words: &Words) -> Result<Expression, SpecError> {
        self.source.expression(words)
    }

    /// The place and name of each row, column, chart or series.
    fn dimension(&self, dimension: &Dimension, place: &Place, near: &Words) -> Result<Vec<(String, Place)>, SpecError> {
        let rows = match (&dimension.rows, &dimension.axis) {
            (Some(rows), _) => rows.of(&self.claims.list).map_err(|problem| self.wrong(near, problem))?,
            (None, Some(axis)) => {
                let values = self.results.values(axis, &place.at).into_iter();
                values.map(|value| Toml::from_iter([(axis.clone(), Value::String(value))])).collect()
            }
            (None, None) => return Err(self.wrong(near, "has neither `for` nor `axis`")),
        };
        let name = |row: &Toml| {
            let mut inner = place.on(row, dimension.axis.as_deref());
            if let Some(at) = &dimension.at {
                inner.at.extend(terms(at, &inner.variables).map_err(|problem| self.wrong(near, problem))?);
            }
            let name = match (&dimension.name, &dimension.axis) {
                (Some(name), _) => self.sentence(&Spanned::new(near.span(), name.clone()), &inner)?,
                (None, axis) => {
                    let value = axis.as_ref().and_then(|axis| row.get(axis)?.as_str()).unwrap_or_default();
                    self.scope(&inner).label(value)
                }
            };
            Ok((name, inner))
        };
        rows.iter().map(name).collect()
    }

    /// One place where nothing is repeated.
    fn each(&self, each: Option<&Dimension>, place: &Place, near: &Words) -> Result<Vec<(String, Place)>, SpecError> {
        match each {
            None => Ok(vec![(String::new(), place.clone())]),
            Some(dimension) => self.dimension(dimension, place, near),
        }
    }

    fn place(&self, at: &str, near: &Words) -> Result<Place, SpecError> {
        let at = terms(at, &Toml::new()).map_err(|problem| self.wrong(near, problem))?;
        Ok(Place { at, ..Place::default() })
    }

    /// All tables of which something was run.
    pub(super) fn tables(&self, page: &PageFile) -> Result<Vec<Table>, SpecError> {
        let mut tables = Vec::new();
        for spec in &page.table {
            let mut place = self.place(&spec.at, &spec.title)?;
            for (name, words) in &spec.lets {
                place.lets.insert(name.clone(), self.expression(words)?);
            }
            if self.results.select(&place.at).next().is_none() {
                continue;
            }
            for (_, place) in self.each(spec.each.as_ref(), &place, &spec.title)? {
                tables.push(self.table(spec, &place)?);
            }
        }
        Ok(tables)
    }

    fn table(&self, spec: &TableSpec, place: &Place) -> Result<Table, SpecError> {
        let near = &spec.title;
        let rows = self.dimension(&spec.rows, place, near)?;
        let (mut heads, mut filled) = (Vec::new(), vec![Vec::new(); rows.len()]);
        match &spec.columns {
            Columns::Written(columns) => {
                for [head, cell] in columns {
                    heads.push(head.clone());
                    let template = Template::parse(cell, 0).map_err(|(_, problem)| self.wrong(near, problem))?;
                    for ((_, place), cells) in rows.iter().zip(&mut filled) {
                        let cell = template.render(&self.scope(place)).map_err(|problem| self.wrong(near, problem))?;
                        cells.push(cell.unwrap_or_else(|| "-".into()));
                    }
                }
            }
            Columns::Alike(dimension) => {
                let cell = spec.cell.as_ref().ok_or_else(|| self.wrong(near, "the table has no `cell`"))?;
                heads.extend(self.dimension(dimension, place, near)?.into_iter().map(|(name, _)| name));
                for ((_, place), cells) in rows.iter().zip(&mut filled) {
                    for (_, inner) in self.dimension(dimension, place, near)? {
                        cells.push(self.sentence(cell, &inner)?);
                    }
                }
            }
        }
        let numbers = heads.into_iter().map(|head| Column::text(head).format(Format::Own));
        let columns = std::iter::once(Column::text("")).chain(numbers);
        let mut table = Table::new(self.sentence(near, place)?, columns).caption(&spec.text).detail();
        for ((name, _), cells) in rows.into_iter().zip(filled) {
            table.row(std::iter::once(name).chain(cells).map(Cell::from));
        }
        Ok(table)
    }

    /// All figures of which something was run.
    pub(super) fn figures(&self, page: &PageFile) -> Result<Vec<Figure>, SpecError> {
        let mut figures = Vec::new();
        for spec in &page.figure {
            let mut charts = Vec::new();
            for chart in &spec.chart {
                let place = self.place(&chart.at, &chart.title)?;
                for (_, place) in self.each(chart.each.as_ref(), &place, &chart.title)? {
                    charts.push(self.chart(chart, &place)?);
                }
            }
            charts.retain(|chart| chart.series.iter().any(|series| !series.points.is_empty()));
            if !charts.is_empty() {
                figures.push(Figure::new(&spec.title, &spec.text, charts));
            }
        }
        Ok(figures)
    }

    fn chart(&self, spec: &ChartSpec, place: &Place) -> Result<Chart, SpecError> {
        let axis = |label: &str, name: &str| {
            let from_zero = spec.from_zero.iter().any(|known| known == name);
            if from_zero { Axis::from_zero(label) } else { Axis::new(label) }
        };
        let mut series = Vec::new();
        for one in &spec.series {
            for (_, place) in self.each(one.each.as_ref(), place, &one.name)? {
                let mark = match one.mark {
                    MarkSpec::Line => Mark::Line,
                    MarkSpec::Steps => Mark::Steps,
                    MarkSpec::Dots => Mark::Dots,
                };
                series.push(Series::new(self.sentence(&one.name, &place)?, mark, self.points(one, &place)?));
            }
        }
        Ok(Chart {
            title: self.sentence(&spec.title, place)?,
            across: axis(&spec.across, "across"),
            upward: Axis { is_logarithmic: spec.logarithmic, ..axis(&spec.upward, "upward") },
            series,
        })
    }

    fn points(&self, spec: &SeriesSpec, place: &Place) -> Result<Vec<(f64, f64)>, SpecError> {
        let scope = self.scope(place);
        if let Some(words) = &spec.course {
            let Expression::Select(selection) = self.expression(words)? else {
                return Err(self.wrong(words, "is not a course: `name[terms]`"));
            };
            let courses = scope.courses(&selection).map_err(|problem| self.wrong(words, problem))?;
            return Ok(courses.first().map_or_else(Vec::new, |(_, course)| course.points()));
        }
        let numbers = |words: &Option<Words>| {
            let words = words.as_ref().ok_or_else(|| self.wrong(&spec.name, "has neither `course` nor `x` and `y`"))?;
            let values = scope.value(&self.expression(words)?).map_err(|problem| self.wrong(words, problem))?;
            Ok::<_, SpecError>(values.means())
        };
        Ok(numbers(&spec.x)?.into_iter().zip(numbers(&spec.y)?).collect())
    }
}

/// A claim with the range of the paper's value.
type Beside<'a> = (&'a Claim, (f64, f64));

/// The paper's values beside ours: a chart for each unit of a figure's claims that has more than one number of the paper.
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
