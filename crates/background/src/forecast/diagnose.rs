//! The diagnosis of a series: how its bins depend on earlier ones, and its trend, seasons and rest.

use serde::Serialize;
use stlrs::Mstl;

use super::past::{Past, filled, median};
use super::{Calendar, ForecastError, whole_days};
use crate::series::Series;
use ioweir_lab::document::{
    Axis, Block, Cell, Chart, Column, Document, DocumentError, Figure, Mark, Series as Drawn, Table,
};

const DAY_SECONDS: u32 = 86_400;
/// Shorter bins are taken together, as forecasters do.
const BIN_SECONDS_MIN: u32 = 300;
/// The longest lag, in days: a week and a day.
const LAG_DAYS: usize = 8;
/// The most days whose names fit below a chart.
const DAYS_NAMED: usize = 14;
/// Lags of the table, in hours.
const LAG_HOURS: [u32; 7] = [1, 3, 6, 12, 24, 48, 168];

/// The structure of a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The name of the series.
    pub series: String,
    /// When the first whole day begins.
    pub start_unix_seconds: i64,
    /// The length of a bin.
    pub bin_seconds: u32,
    /// The whole days.
    pub days: usize,
    /// The percentage of these days' bins that are gaps; they are filled with the usual value of their time.
    pub gaps_percent: f64,
    /// The correlation of a bin with the one so many bins before it, from lag 0 on.
    pub autocorrelation: Vec<f64>,
    /// The correlation of a bin with the one so many bins before it that the bins between do not explain.
    pub partial_autocorrelation: Vec<f64>,
    /// Correlations that are nearer to zero than this are no more than chance would give (95 %).
    pub chance: f64,
    /// The share of variance beside the other parts that the daily season explains: 1 is all of it.
    pub daily_strength: f64,
    /// The share of variance that the weekly season explains, where two weeks or more are known.
    pub weekly_strength: Option<f64>,
    /// The share of variance that the trend explains.
    pub trend_strength: f64,
    /// The parts, whose sum is the series.
    #[serde(skip)]
    parts: Parts,
    #[serde(skip)]
    values: Vec<f64>,
    #[serde(skip)]
    start_local_seconds: i64,
}

/// An additive decomposition.
#[derive(Clone, Debug, Default, PartialEq)]
struct Parts {
    trend: Vec<f64>,
    daily: Vec<f64>,
    weekly: Option<Vec<f64>>,
    rest: Vec<f64>,
}

/// Looks at the whole days of a series.
///
/// # Errors
/// [`ForecastError`] if fewer than two whole days are known.
pub fn diagnose(series: &Series, calendar: &Calendar) -> Result<Diagnosis, ForecastError> {
    let (first, end) = whole_days(series, calendar);
    let days = usize::try_from(end - first).unwrap_or(0);
    let bin = series.bin_seconds.max(1);
    let together = if bin < BIN_SECONDS_MIN { (BIN_SECONDS_MIN / bin) as usize } else { 1 };
    let bin_seconds = bin * together as u32;
    let slots = (DAY_SECONDS / bin_seconds) as usize;
    let start_unix_seconds = calendar.midnight(first);
    let from = ((start_unix_seconds - series.start_unix_seconds).max(0) / i64::from(bin)) as usize;
    let known: Vec<Option<f64>> = series.values.iter().skip(from).copied().collect();
    let known: Vec<Option<f64>> = known.chunks(together).map(mean_of).take(days * slots).collect();
    if days < 2 || known.len() < days * slots || known.iter().flatten().count() < slots {
        return Err(ForecastError {
            problem: format!("{}: {:.1} days are too few to see what repeats", series.name, series.days()),
            expected: "two whole days at least".into(),
        });
    }
    let past = Past { slots, first_day: first, values: &known, calendar };
    let raw: Vec<f64> = known.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
    let mut held: Vec<f64> = known.iter().flatten().copied().collect();
    let values = filled(&past, &raw, median(&mut held).unwrap_or(0.0));
    let lags = (LAG_DAYS * slots).min(values.len() / 2);
    let autocorrelation = autocorrelation(&values, lags);
    let parts = decomposed(&values, slots);
    let strength = |part: &[f64]| {
        let both: Vec<f64> = part.iter().zip(&parts.rest).map(|(part, rest)| part + rest).collect();
        let all = variance(&both);
        if all > 0.0 { (1.0 - variance(&parts.rest) / all).max(0.0) } else { 0.0 }
    };
    Ok(Diagnosis {
        series: series.name.clone(),
        start_unix_seconds,
        bin_seconds,
        days,
        gaps_percent: 100.0 * known.iter().filter(|value| value.is_none()).count() as f64 / known.len() as f64,
        partial_autocorrelation: partial(&autocorrelation),
        autocorrelation,
        chance: 1.96 / (values.len() as f64).sqrt(),
        daily_strength: strength(&parts.daily),
        weekly_strength: parts.weekly.as_deref().map(strength),
        trend_strength: strength(&parts.trend),
        parts,
        values,
        start_local_seconds: calendar.local_seconds(start_unix_seconds),
    })
}

impl Diagnosis {
    /// The points of its charts, by name: correlations over lags in days, values over those of the day before, and the parts over days.
    #[must_use]
    pub fn points(&self) -> [(&'static str, Vec<(f64, f64)>); 6] {
        let slots = f64::from(DAY_SECONDS / self.bin_seconds);
        let over_days =
            |values: &[f64]| values.iter().enumerate().map(|(at, value)| (at as f64 / slots, *value)).collect();
        let day_later = self.values.iter().skip(slots as usize);
        [
            ("autocorrelation", over_days(&self.autocorrelation)),
            ("partial_autocorrelation", over_days(&self.partial_autocorrelation)),
            ("day_before", self.values.iter().copied().zip(day_later.copied()).collect()),
            ("trend", over_days(&self.parts.trend)),
            ("season", over_days(&self.parts.daily)),
            ("rest", over_days(&self.parts.rest)),
        ]
    }
}

/// The mean of bins that are taken together, where half of them are known.
fn mean_of(bins: &[Option<f64>]) -> Option<f64> {
    let (sum, count) = bins.iter().flatten().fold((0.0, 0_usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0 && 2 * count >= bins.len()).then(|| sum / count as f64)
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len().max(1) as f64
}

/// The correlation with the series itself, later by 0 to `lags` bins. A constant has none.
fn autocorrelation(values: &[f64], lags: usize) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let all: f64 = centred.iter().map(|value| value * value).sum();
    let at = |lag: usize| centred.iter().zip(&centred[lag..]).map(|(early, late)| early * late).sum::<f64>();
    (0..=lags).map(|lag| if all > 0.0 { at(lag) / all } else { f64::from(u8::from(lag == 0)) }).collect()
}

/// Partial autocorrelations, by the recursion of Durbin and Levinson.
fn partial(correlations: &[f64]) -> Vec<f64> {
    let mut out = vec![1.0];
    let (mut weights, mut unexplained) = (Vec::<f64>::new(), 1.0_f64);
    for lag in 1..correlations.len() {
        let told: f64 = weights.iter().enumerate().map(|(at, weight)| weight * correlations[lag - 1 - at]).sum();
        // Below this nothing is left to explain: the series is a sum of its own past.
        let own = if unexplained > 1e-12 { (correlations[lag] - told) / unexplained } else { 0.0 };
        let turned: Vec<f64> =
            weights.iter().zip(weights.iter().rev()).map(|(weight, other)| weight - own * other).collect();
        weights = turned;
        weights.push(own);
        unexplained *= (1.0 - own * own).max(0.0);
        out.push(own);
    }
    out
}

fn decomposed(values: &[f64], slots: usize) -> Parts {
    let periods: Vec<usize> =
        [slots, 7 * slots].into_iter().filter(|period| *period > 1 && values.len() >= 2 * period).collect();
    let Ok(found) = Mstl::params().fit(values, &periods) else {
        let nothing = vec![0.0; values.len()];
        return Parts { trend: nothing.clone(), daily: nothing, weekly: None, rest: values.to_vec() };
    };
    let season =
        |period: usize| periods.iter().position(|known| *known == period).map(|at| found.seasonal()[at].to_vec());
    Parts {
        trend: found.trend().to_vec(),
        daily: season(slots).unwrap_or_else(|| vec![0.0; values.len()]),
        weekly: season(7 * slots),
        rest: found.remainder().to_vec(),
    }
}

impl Diagnosis {
    fn slots(&self) -> usize {
        (DAY_SECONDS / self.bin_seconds) as usize
    }

    fn hours(&self, lag: usize) -> f64 {
        lag as f64 * f64::from(self.bin_seconds) / 3600.0
    }

    /// The lag of half a day or more with the highest correlation, in bins.
    fn strongest_lag(&self) -> usize {
        let lags = self.autocorrelation.iter().enumerate().skip(self.slots() / 2);
        // The shortest of equal ones.
        let best =
            lags.fold((0, f64::NEG_INFINITY), |best, (lag, value)| if *value > best.1 { (lag, *value) } else { best });
        best.0
    }

    fn sentence(&self) -> String {
        let lag = self.strongest_lag();
        format!(
            "{} repeats most after {} hours: the correlation is {:.2}; its daily season explains {:.0} % of what is left beside \
             the other parts.",
            self.series,
            self.hours(lag),
            self.autocorrelation.get(lag).copied().unwrap_or(0.0),
            100.0 * self.daily_strength
        )
    }

    fn correlations(&self) -> Figure {
        let points = |values: &[f64]| -> Vec<(f64, f64)> {
            values.iter().enumerate().skip(1).map(|(lag, value)| (self.hours(lag), *value)).collect()
        };
        let chart = |title: &str, values: &[f64]| {
            let points = points(values);
            let (first, last) = (points.first(), points.last());
            let [first, last] = [first, last].map(|point| point.map_or(0.0, |point| point.0));
            let bound = |value: f64| [(first, value), (last, value)];
            // A point that is not finite breaks the line.
            let chance = [bound(self.chance), [(last, f64::NAN); 2], bound(-self.chance)].concat();
            Chart {
                title: format!("{title} of {}", self.series),
                across: Axis::new("lag, hours")
                    .words((0..=LAG_DAYS).map(|day| (24.0 * day as f64, format!("{} h", 24 * day)))),
                upward: Axis::new("correlation").showing([-0.2, 1.0]),
                series: vec![
                    Drawn::new("chance, 95 %", Mark::Line, chance).colour(6),
                    Drawn::new(title, Mark::Line, points),
                ],
            }
        };
        let charts = vec![
            chart("autocorrelation", &self.autocorrelation),
            chart("partial autocorrelation", &self.partial_autocorrelation),
        ];
        let text = "How alike a bin is to the bin so long before it; partial: beyond what the bins between tell.";
        Figure::new("Correlation by lag", text, charts)
    }

    fn lag_plots(&self) -> Figure {
        let chart = |days: usize| {
            let lag = days * self.slots();
            let points = self.values.iter().copied().zip(self.values.iter().skip(lag).copied()).collect();
            let before = if days == 1 { "a day before".to_owned() } else { format!("{days} days before") };
            Chart {
                title: format!("{}, and {before}", self.series),
                across: Axis::new(before),
                upward: Axis::new(self.series.clone()),
                series: vec![Drawn::new("bins", Mark::Dots, points)],
            }
        };
        let charts = [1, 7].into_iter().filter(|days| self.days > *days).map(chart).collect();
        Figure::new(
            "Lag plots",
            "A dot is a bin. The nearer they are to a rising line, the more the earlier bin tells.",
            charts,
        )
    }

    fn decomposition(&self) -> Figure {
        let seconds = self.values.len() as f64 * f64::from(self.bin_seconds);
        let day = |day: usize| ((day * DAY_SECONDS as usize) as f64, day.to_string());
        let across = if self.days <= DAYS_NAMED {
            Axis::days("day, local time", self.start_local_seconds, seconds)
        } else {
            Axis::new("days from the first midnight").words((0..self.days).step_by(7).map(day))
        };
        let chart = |title: &str, values: &[f64]| {
            let at = |(bin, value): (usize, &f64)| (bin as f64 * f64::from(self.bin_seconds), *value);
            Chart {
                title: title.to_owned(),
                across: across.clone(),
                upward: Axis::new(self.series.clone()),
                series: vec![Drawn::new(title, Mark::Line, values.iter().enumerate().map(at).collect())],
            }
        };
        let mut charts = vec![chart("as it is", &self.values), chart("trend", &self.parts.trend)];
        charts.push(chart("daily season", &self.parts.daily));
        charts.extend(self.parts.weekly.as_deref().map(|weekly| chart("weekly season", weekly)));
        charts.push(chart("rest", &self.parts.rest));
        Figure::new("Decomposition", "Seasons by local regression (MSTL); the parts add up to the series.", charts)
    }

    fn table(&self) -> Table {
        let columns = [
            Column::count("lag").unit("h"),
            Column::digits("autocorrelation", 3),
            Column::digits("partial autocorrelation", 3),
        ];
        let mut table = Table::new("", columns).caption("Correlation with the bin so long before.");
        for hours in LAG_HOURS {
            let lag = (u64::from(hours) * 3600 / u64::from(self.bin_seconds)) as usize;
            let value = |values: &[f64]| Cell::from(values.get(lag).copied());
            if lag > 0 && lag < self.autocorrelation.len() {
                table.row([
                    Cell::from(hours as usize),
                    value(&self.autocorrelation),
                    value(&self.partial_autocorrelation),
                ]);
            }
        }
        table
    }
}

/// The page of diagnoses. The records have every lag.
///
/// # Errors
/// [`DocumentError`], which would be a defect of the program.
pub(super) fn document(found: &[Diagnosis]) -> Result<Document, DocumentError> {
    let mut document = Document::new("ioweir forecast", "Diagnosis", &found)?;
    document.headline = found.first().map(Diagnosis::sentence).unwrap_or_default();
    let names = ["series", "lag_seconds", "autocorrelation", "partial_autocorrelation"];
    document.records = Table::new("", names.map(Column::text));
    for one in found {
        for (lag, (value, partial)) in one.autocorrelation.iter().zip(&one.partial_autocorrelation).enumerate() {
            let seconds = lag * one.bin_seconds as usize;
            document.records.row([
                Cell::from(one.series.as_str()),
                seconds.into(),
                Cell::from(*value),
                Cell::from(*partial),
            ]);
        }
        document.heading(one.series.clone());
        document.text(one.sentence());
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let mut facts = vec![
            ("whole days".into(), one.days.to_string()),
            ("gaps".into(), format!("{:.1} %", one.gaps_percent)),
            ("strength of the trend".into(), percent(one.trend_strength)),
            ("strength of the daily season".into(), percent(one.daily_strength)),
        ];
        facts.extend(one.weekly_strength.map(|share| ("strength of the weekly season".into(), percent(share))));
        document.push(Block::Facts(facts));
        document.push(one.table());
        document.push(one.correlations());
        document.push(one.lag_plots());
        document.push(one.decomposition());
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recursion against the equations that it solves, for a process whose partials are known.
    #[test]
    fn partial_autocorrelations_end_with_the_order() {
        // x(t) = 0.5 x(t-1) + 0.3 x(t-2): the correlations follow from its own equations.
        let mut correlations = vec![1.0, 0.5 / (1.0 - 0.3)];
        for lag in 2..10 {
            correlations.push(0.5 * correlations[lag - 1] + 0.3 * correlations[lag - 2]);
        }
        let found = partial(&correlations);
        assert!((found[1] - 0.5 / 0.7).abs() < 1e-12 && (found[2] - 0.3).abs() < 1e-12, "{found:?}");
        assert!(found[3..].iter().all(|value| value.abs() < 1e-9), "{found:?}");
    }

    #[test]
    fn a_constant_correlates_with_nothing() {
        assert_eq!(autocorrelation(&[3.0; 5], 2), [1.0, 0.0, 0.0]);
        assert_eq!(partial(&[1.0, 1.0, 1.0]), [1.0, 1.0, 0.0]);
    }
}
