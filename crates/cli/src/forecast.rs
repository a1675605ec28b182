//! The verb `forecast`: turns flags into the spec of a forecast, runs it, and writes the report.

use std::path::Path;

use ioweir_background::forecast::{ForecastSpec, ForecasterChoice};
use ioweir_background::series::{Kind, Series, lines_of_losses, to_csv};
use ioweir_config::{Duration, read_spec, shown};
use ioweir_lab::run::RunError;

use crate::arguments::ForecastArguments;
use crate::engine::{self, set, set_list};
use crate::failure::Failure;
use crate::output::{self, Outputs};

/// Forecasts every series with every method, or scores them.
pub(crate) fn act(arguments: &ForecastArguments) -> Result<(), Failure> {
    let spec = resolve(arguments)?;
    let binned_to: Vec<&str> = arguments.binned.iter().map(String::as_str).collect();
    let files = spec.series.0.iter().map(Path::new).chain(arguments.spec.as_deref());
    let outputs = Outputs::new(&arguments.output, &binned_to, &files.collect::<Vec<_>>())?;
    let series = engine::watched(arguments.quiet, |progress| spec.read(progress))?;
    tell_losses(&series);
    if let Some(target) = &arguments.binned {
        output::put(target, to_csv(&series).as_bytes())?;
    }
    outputs.write(&engine::watched(arguments.quiet, |progress| spec.document(&series, progress))?)
}

/// The forecast that the spec file and the flags describe.
pub(crate) fn resolve(arguments: &ForecastArguments) -> Result<ForecastSpec, Failure> {
    let mut spec = match &arguments.spec {
        Some(path) => read(&path.display().to_string())?,
        None => ForecastSpec::default(),
    };
    let reading = &arguments.reading;
    let methods = arguments.method.iter().map(|name| name.parse()).collect::<Result<Vec<ForecasterChoice>, _>>()?;
    set_list(&mut spec.methods.0, &methods);
    set_list(&mut spec.quantiles.0, &arguments.quantile);
    set_list(&mut spec.series.0, &reading.series);
    set_list(&mut spec.columns.0, &reading.column);
    spec.backtest_days = arguments.backtest.or(spec.backtest_days);
    let leads = arguments.lead.iter().map(|lead| engine::span("--lead", lead)).collect::<Result<Vec<Duration>, _>>()?;
    set_list(&mut spec.leads.0, &leads);
    spec.diagnose |= arguments.diagnose;
    spec.total |= reading.total;
    if let Some(bin) = &reading.bin {
        spec.bin = Some(engine::span("--bin", bin)?);
    }
    if let Some(horizon) = &arguments.horizon {
        spec.horizon = engine::span("--horizon", horizon)?;
    }
    set(&mut spec.kind, reading.kind.as_deref().map(kind).as_ref());
    if let Some(offset) = &reading.utc_offset {
        spec.utc_offset = offset.parse()?;
    }
    spec.time_zone = reading.time_zone.clone().or(spec.time_zone);
    for text in &reading.holiday {
        let (date, weekday) = text.split_once('=').ok_or_else(|| {
            let problem = format!("`{}` is no holiday", shown(text));
            Failure::input(problem, "DATE=WEEKDAY, such as 2026-12-25=sunday", "")
        })?;
        spec.holidays.insert(date.into(), weekday.into());
    }
    let ForecastSpec { format, volume, event, lenient, alone, .. } = &mut spec;
    engine::set_reading(&reading.trace, (format, volume, event, lenient, alone))?;
    spec.check().map_err(RunError::from)?;
    Ok(spec)
}

/// The spec in a file with every default, as TOML.
pub(crate) fn to_toml(name: &str) -> Result<String, Failure> {
    Ok(read(name)?.to_toml())
}

/// Reads the spec of a forecast.
fn read(name: &str) -> Result<ForecastSpec, Failure> {
    Ok(ForecastSpec::parse(&shown(name), &read_spec(name)?)?)
}

/// The meaning of a value of that name, of which the flags know only these.
fn kind(name: &str) -> Kind {
    match name {
        "sum" => Kind::Sum,
        "counter" => Kind::Counter,
        _ => Kind::Mean,
    }
}

/// Reports the problems that reading found in the series.
fn tell_losses(series: &[Series]) {
    lines_of_losses(series).iter().for_each(|line| output::notice(line));
}
