//! The verb `forecast`: forecasts of the coming days, and backtests.

use std::fmt::Write as _;
use std::path::Path;

use ioweir_config::{Duration, UnitError, shown};
use ioweir_lab::document::Document;
use ioweir_lab::forecast::{
    Backtest, Calendar, Forecaster as _, ForecasterChoice, LEVELS, Predicted, Scored, backtest, find, predictions,
    scores,
};
use ioweir_lab::series::{Kind, Series, SeriesOptions, VDI_PREFIX, day_of, open_series};
use ioweir_trace::ReadOptions;

use crate::arguments::{ForecastArguments, SeriesArguments};
use crate::engine;
use crate::failure::Failure;
use crate::output::{self, Outputs};

/// The most bins that are forecast at once.
const HORIZON_BINS_MAX: u64 = 1 << 20;

/// Forecasts every series with every method, or scores them.
pub(crate) fn act(arguments: &ForecastArguments) -> Result<(), Failure> {
    let choices: Vec<ForecasterChoice> = match arguments.method.as_slice() {
        [] => find("hedge").map(ForecasterChoice::of).into_iter().collect(),
        names => names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?,
    };
    if let Some(level) = arguments.quantile.iter().find(|level| !(0.0..=1.0).contains(*level)) {
        return Err(Failure::input(format!("quantile {level} is out of range"), "0 to 1, such as 0.95", ""));
    }
    let binned_to: Vec<&str> = arguments.binned.iter().map(String::as_str).collect();
    let files: Vec<&Path> = arguments.reading.series.iter().map(Path::new).collect();
    let outputs = Outputs::new(&arguments.output, &binned_to, &files)?;
    let calendar = calendar(&arguments.reading)?;
    let series = read(&arguments.reading)?;
    if let Some(target) = &arguments.binned {
        output::put(target, binned(&series).as_bytes())?;
    }
    let document = match arguments.backtest {
        Some(days) => score(&series, &choices, &calendar, days.max(1))?,
        None => predict(arguments, &series, &choices, &calendar)?,
    };
    outputs.write(&document)
}

/// The series that the flags name; what was found wrong with them is told.
pub(crate) fn read(arguments: &SeriesArguments) -> Result<Vec<Series>, Failure> {
    let bin = arguments.bin.as_deref().map(duration).transpose()?;
    let bin_seconds = match bin.map(|bin| (bin.0 / 1_000_000_000, bin.0 % 1_000_000_000)) {
        None => None,
        Some((seconds @ 1..=86_400, 0)) if 86_400 % seconds == 0 => u32::try_from(seconds).ok(),
        Some(_) => {
            let bin = arguments.bin.as_deref().unwrap_or_default();
            let problem = format!("a day is no whole number of bins of {}", shown(bin));
            return Err(Failure::input(problem, "a bin that divides a day, such as 5m, 10m or 1h", ""));
        }
    };
    let kind = match arguments.kind.as_str() {
        "sum" => Kind::Sum,
        "counter" => Kind::Counter,
        _ => Kind::Mean,
    };
    let options = SeriesOptions { bin_seconds, columns: arguments.column.clone(), kind, total: arguments.total };
    for name in arguments.series.iter().filter(|name| !name.starts_with(VDI_PREFIX) && *name != "-") {
        std::fs::metadata(name).map_err(|error| Failure::unreadable(name, &error))?;
    }
    let reading = ReadOptions { latency: false, ..engine::read_options(&arguments.trace)? };
    let series = open_series(&arguments.series, &options, &reading)?;
    for series in &series {
        for line in series.losses.lines() {
            let _ =
                std::io::Write::write_fmt(&mut anstream::stderr(), format_args!("{}: {line}\n", shown(&series.name)));
        }
    }
    Ok(series)
}

/// When days begin, and which of them behave like which.
pub(crate) fn calendar(arguments: &SeriesArguments) -> Result<Calendar, Failure> {
    const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let mut calendar = Calendar::default();
    if let Some(text) = &arguments.utc_offset {
        let wrong = || Failure::input(format!("`{}` is no offset", shown(text)), "hours from UTC: +01:00, -5", "");
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
        let number = |text: &str| text.parse::<u8>().map_err(|_| wrong());
        let (hours, minutes) = (i32::from(number(hours)?), i32::from(number(minutes)?));
        if hours > 18 || minutes > 59 {
            return Err(wrong());
        }
        calendar.utc_offset_seconds = sign * (hours * 3600 + minutes * 60);
    }
    for text in &arguments.holiday {
        let parts = text.split_once('=');
        let day = parts.and_then(|(date, _)| day_of(date));
        let place = parts.and_then(|(_, name)| WEEKDAYS.iter().position(|known| *known == name.to_lowercase()));
        match (day, place) {
            (Some(day), Some(place)) => calendar.acts_like.insert(day, place as u8),
            _ => {
                let problem = format!("`{}` is no holiday", shown(text));
                return Err(Failure::input(problem, "DATE=WEEKDAY, such as 2026-12-25=sunday", ""));
            }
        };
    }
    Ok(calendar)
}

/// The series side by side, one row a time; a gap is an empty cell.
fn binned(series: &[Series]) -> String {
    let mut out = String::from("unix_seconds");
    for series in series {
        out += &format!(",\"{}\"", series.name.replace('"', "'"));
    }
    out.push('\n');
    let bin = series.first().map_or(1, |series| i64::from(series.bin_seconds));
    let end = |series: &Series| series.start_unix_seconds + series.values.len() as i64 * bin;
    let first = series.iter().map(|series| series.start_unix_seconds).min().unwrap_or(0);
    let last = series.iter().map(end).max().unwrap_or(0);
    for time in (first..last).step_by(usize::try_from(bin).unwrap_or(1)) {
        let _ = write!(out, "{time}");
        for series in series {
            let place = usize::try_from((time - series.start_unix_seconds).div_euclid(bin)).ok();
            match place.and_then(|place| series.values.get(place).copied().flatten()) {
                Some(value) => {
                    let _ = write!(out, ",{value}");
                }
                None => out.push(','),
            }
        }
        out.push('\n');
    }
    out
}

fn predict(
    arguments: &ForecastArguments,
    series: &[Series],
    choices: &[ForecasterChoice],
    calendar: &Calendar,
) -> Result<Document, Failure> {
    let horizon = duration(&arguments.horizon)?;
    let mut predicted = Vec::new();
    for series in series {
        let bins = (horizon.0 / 1_000_000_000).div_ceil(u64::from(series.bin_seconds.max(1)));
        if bins > HORIZON_BINS_MAX {
            let problem = format!("{} are {bins} bins", shown(&arguments.horizon));
            return Err(Failure::input(problem, &format!("at most {HORIZON_BINS_MAX} bins"), "take longer bins"));
        }
        for choice in choices {
            let mut forecaster = choice.build(series.start_unix_seconds, series.bin_seconds, calendar)?;
            forecaster.update(&series.values);
            forecaster.refit();
            let end = series.start_unix_seconds + series.values.len() as i64 * i64::from(series.bin_seconds);
            predicted.push(Predicted {
                series: &series.name,
                forecaster: choice.to_string(),
                start_unix_seconds: end,
                bin_seconds: series.bin_seconds,
                weights: forecaster.weights(),
                masked_values: forecaster.masked_values(),
                forecast: forecaster.predict(bins as usize, &arguments.quantile),
            });
        }
    }
    Ok(predictions(&predicted, calendar)?)
}

fn score(
    series: &[Series],
    choices: &[ForecasterChoice],
    calendar: &Calendar,
    test_days: usize,
) -> Result<Document, Failure> {
    let test = Backtest { test_days, history_days: None, horizon_days: 1 };
    let mut scored = Vec::new();
    for series in series {
        for choice in choices {
            let tested = backtest(series, choice, calendar, &test)?;
            if tested.origins.is_empty() {
                let problem = format!("{}: {:.1} days are too few to forecast any", shown(&series.name), series.days());
                return Err(Failure::input(problem, "two whole days at least", ""));
            }
            let (test_days, scores) = (tested.origins.len(), tested.scores());
            let (series, forecaster) = (&*series.name, choice.to_string());
            scored.push(Scored { series, forecaster, test_days, quantiles: LEVELS, scores });
        }
    }
    Ok(scores(&scored)?)
}

pub(crate) fn duration(text: &str) -> Result<ioweir_core::Nanos, UnitError> {
    text.parse().map(Duration::nanos)
}
