//! Forecasts, and how good they would have been, as documents.

use serde::Serialize;

use super::{Calendar, Forecast, Scores};
use ioweir_config::date::{format_moment, format_offset};
use ioweir_lab::document::{
    Axis, Cell, Chart, Column, Document, DocumentError, Figure, Format, Mark, Series, Table, records_of,
};

const COMMAND: &str = "ioweir forecast";

/// A forecast of a series by a method.
#[derive(Debug, Serialize)]
pub struct Predicted<'a> {
    /// Name of the series.
    pub series: &'a str,
    /// Name of the forecaster with its settings.
    pub forecaster: String,
    /// When the first bin begins.
    pub start_unix_seconds: i64,
    /// Length of a bin.
    pub bin_seconds: u32,
    /// The weights of the combined methods.
    pub weights: Vec<(&'static str, f64)>,
    /// The number of values that were left out as outliers.
    pub masked_values: u64,
    /// The forecast itself.
    #[serde(flatten)]
    pub forecast: Forecast,
}

/// How good the forecasts of a series by a method would have been.
#[derive(Debug, Serialize)]
pub struct Scored<'a> {
    /// Name of the series.
    pub series: &'a str,
    /// Name of the forecaster with its settings.
    pub forecaster: String,
    /// How far ahead, in hours; 24: each day at its midnight.
    pub lead_hours: u32,
    /// The number of days that were forecast.
    pub test_days: usize,
    /// The quantiles whose coverage was counted.
    pub quantiles: [f64; 3],
    /// The scores of the forecasts.
    pub scores: Scores,
}

/// The coming days, hour by hour; the records contain every bin.
///
/// # Errors
/// [`DocumentError`], which would be a defect of the program.
pub fn predictions(predicted: &[Predicted<'_>], calendar: &Calendar) -> Result<Document, DocumentError> {
    let mut document = Document::new(COMMAND, "Forecast", &predicted)?;
    let mut names: Vec<&str> = predicted.iter().map(|one| one.series).collect();
    names.dedup();
    document.headline = format!("The coming time of {}, by the hour.", names.join(", "));
    document.records = bins(predicted);
    let offsets = predicted.first().map(|one| calendar.offset_seconds(one.start_unix_seconds));
    if let Some(offset) = offsets.filter(|offset| *offset != 0) {
        document.text(format!("Local time is UTC{}.", format_offset(offset)));
    }
    for one in predicted {
        document.heading(format!("{}, {}", one.series, one.forecaster));
        for reason in &one.forecast.degraded {
            document.text(format!("beware: {reason}"));
        }
        document.push(hours(one, calendar));
        document.push(course(one, calendar));
    }
    Ok(document)
}

/// When a bin begins on the local clock, in seconds.
fn local_start(predicted: &Predicted<'_>, calendar: &Calendar) -> i64 {
    calendar.local_seconds(predicted.start_unix_seconds)
}

fn level_name(level: f64) -> String {
    format!("P{}", level * 100.0)
}

/// Medians and means, averaged over each hour; of a quantile, the highest value in the hour, which a plan must withstand.
fn hours(predicted: &Predicted<'_>, calendar: &Calendar) -> Table {
    let forecast = &predicted.forecast;
    let number = |name: &str| Column::text(name).format(Format::Own);
    let mut columns = vec![Column::text("local time"), number("mean of medians"), number("mean")];
    columns.extend(forecast.quantiles.iter().map(|(level, _)| number(&format!("highest {}", level_name(*level)))));
    let mut table = Table::new("", columns)
        .caption("By the hour: the mean of its bins' medians and means, and its highest quantiles.");
    let step = (3600 / predicted.bin_seconds.max(1)).max(1) as usize;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    for from in (0..forecast.median.len()).step_by(step) {
        let to = (from + step).min(forecast.median.len());
        let time = predicted.start_unix_seconds + from as i64 * i64::from(predicted.bin_seconds);
        let mut cells: Vec<Cell> = vec![format_moment(calendar.local_seconds(time)).into()];
        cells.extend([mean(&forecast.median[from..to]), mean(&forecast.mean[from..to])].map(Cell::from));
        let highest = |values: &[f64]| Cell::from(values[from..to].iter().copied().fold(0.0, f64::max));
        cells.extend(forecast.quantiles.iter().map(|(_, values)| highest(values)));
        table.row(cells);
    }
    table
}

fn course(predicted: &Predicted<'_>, calendar: &Calendar) -> Figure {
    let forecast = &predicted.forecast;
    let at = |bin: usize| bin as f64 * f64::from(predicted.bin_seconds);
    let line = |name: &str, values: &[f64]| {
        Series::new(name, Mark::Line, values.iter().enumerate().map(|(bin, value)| (at(bin), *value)).collect())
    };
    let mut series = vec![line("median", &forecast.median), line("mean", &forecast.mean)];
    series.extend(forecast.quantiles.iter().map(|(level, values)| line(&level_name(*level), values)));
    let chart = Chart {
        title: predicted.series.to_owned(),
        across: Axis::days("day, local time", local_start(predicted, calendar), at(forecast.median.len())),
        upward: Axis::from_zero(predicted.series),
        series,
    };
    Figure::new("Forecast", "", vec![chart])
}

/// One row for each bin.
fn bins(predicted: &[Predicted<'_>]) -> Table {
    let levels = predicted.first().map_or(&[][..], |one| &one.forecast.quantiles[..]);
    let mut names: Vec<String> =
        ["series", "forecaster", "start_unix_seconds", "median", "mean"].map(String::from).into();
    names.extend(levels.iter().map(|(level, _)| format!("p{}", level * 100.0)));
    let mut table = Table::new("", names.into_iter().map(Column::text));
    for one in predicted {
        for bin in 0..one.forecast.median.len() {
            let start = one.start_unix_seconds + bin as i64 * i64::from(one.bin_seconds);
            let mut cells: Vec<Cell> = vec![one.series.into(), (&one.forecaster).into(), start.into()];
            let quantiles = one.forecast.quantiles.iter().map(|(_, values)| values);
            let values = [&one.forecast.median, &one.forecast.mean].into_iter().chain(quantiles);
            cells.extend(values.map(|values| Cell::from(values.get(bin).copied())));
            table.row(cells);
        }
    }
    table
}

/// The scores, one row for each series and method.
///
/// # Errors
/// [`DocumentError`], which would be a defect of the program.
pub fn scores(scored: &[Scored<'_>]) -> Result<Document, DocumentError> {
    let mut document = Document::new(COMMAND, "Scores of forecasts", &scored)?;
    // Errors of different series cannot be compared.
    let is_one_series = scored.windows(2).all(|two| two[0].series == two[1].series);
    let day_ahead = scored.iter().filter(|one| one.lead_hours == 24);
    let scores = day_ahead.filter_map(|one| Some((one.scores.smape_percent?, one)));
    if let Some((smape, best)) = scores.min_by(|left, right| left.0.total_cmp(&right.0)).filter(|_| is_one_series) {
        document.headline = format!("{} has the least error: SMAPE {smape:.2} %.", best.forecaster);
    }
    document.records = records_of(scored, &["series", "forecaster", "lead_hours", "test_days"]);
    let mut table = Table::new(
        "",
        [
            Column::text("series"),
            Column::text("forecaster"),
            Column::count("ahead").unit("h"),
            Column::count("days"),
            Column::digits("SMAPE", 2).unit("%"),
            Column::digits("MASE", 3),
            Column::digits("sum", 1).unit("%"),
            Column::digits("P90", 1).unit("%"),
            Column::digits("P95", 1).unit("%"),
            Column::digits("P99", 1).unit("%"),
        ],
    )
    .caption("Ahead 24: a day as forecast at its midnight; otherwise the last hour of a forecast of so many. SMAPE and MASE are errors of single bins, sum that of all; P90 is the share of bins at or below the quantile.");
    for one in scored {
        let Scores { smape_percent, mase, cumulative_error_percent, coverage_percent, .. } = one.scores;
        let mut cells: Vec<Cell> = vec![one.series.into(), (&one.forecaster).into()];
        cells.extend([one.lead_hours as usize, one.test_days].map(Cell::from));
        cells.extend([smape_percent, mase, cumulative_error_percent].map(Cell::from));
        cells.extend(coverage_percent.map(Cell::from));
        table.row(cells);
    }
    document.push(table);
    Ok(document)
}
