//! The verb `forecast`: turns flags into the spec of a forecast, runs it, and writes the report.

use std::path::Path;

use ioweir_background::forecast::ForecastSpec;
use ioweir_background::series::{Series, lines_of_losses, to_csv};
use ioweir_config::{read_spec, shown};
use ioweir_lab::run::RunError;

use crate::arguments::ForecastArguments;
use crate::engine::{self, set_list};
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
    set_list(&mut spec.series.0, &arguments.series);
    for text in &arguments.holiday {
        let (date, weekday) = text.split_once('=').ok_or_else(|| {
            let problem = format!("`{}` is no holiday", shown(text));
            Failure::input(problem, "DATE=WEEKDAY, such as 2026-12-25=sunday", "")
        })?;
        spec.holidays.insert(date.into(), weekday.into());
    }
    let spec = arguments.keys.set(spec)?;
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

/// Reports the problems that reading found in the series.
fn tell_losses(series: &[Series]) {
    lines_of_losses(series).iter().for_each(|line| output::notice(line));
}
