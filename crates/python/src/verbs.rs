//! The verbs: a spec in, a result out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use ioweir_background::forecast::ForecastSpec;
use ioweir_background::plan::PlanSpec;
use ioweir_background::series::lines_of_losses;
use ioweir_device::Verdict;
use ioweir_lab::compare::{Comparison, document as comparison_document};
use ioweir_lab::document::{DocumentError, quoted};
use ioweir_lab::experiment::{self, Experiment, Overrides, Which};
use ioweir_lab::run::{Progress, Requests, RunError as LabError};
use ioweir_lab::server::ServerExperiment;
use ioweir_measure::advise::AdviseSpec;
use ioweir_measure::calibration::CalibrationSpec;
use ioweir_measure::isolation::{QosSpec, ScorecardSpec};
use ioweir_measure::validation::DeviceValidation;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrow::Collecting;
use crate::result::{self, Result};
use crate::spec::Spec;
use crate::trace::Trace;
use crate::watch::watched;
use crate::{InputError, RunError};

/// An error of the lab as an exception.
pub(crate) struct Raised(PyErr);

impl From<Raised> for PyErr {
    fn from(Raised(error): Raised) -> Self {
        error
    }
}

impl From<LabError> for Raised {
    fn from(error: LabError) -> Self {
        Self(match error {
            LabError::Stopped => PyKeyboardInterrupt::new_err(()),
            LabError::Store(_) => RunError::new_err(error.to_string()),
            _ => InputError::new_err(error.to_string()),
        })
    }
}

impl From<DocumentError> for Raised {
    fn from(error: DocumentError) -> Self {
        Self(RunError::new_err(error.to_string()))
    }
}

/// Anything that is wrong with an input.
#[allow(clippy::needless_pass_by_value, reason = "the argument of map_err")]
pub(crate) fn wrong(error: impl ToString) -> PyErr {
    InputError::new_err(error.to_string())
}

/// Runs something whose requests are kept where `requests` says so.
fn recorded<T: Send + 'static>(
    py: Python<'_>,
    requests: bool,
    progress: Option<&Py<PyAny>>,
    run: impl FnOnce(&dyn Progress, Option<&mut Requests>) -> std::result::Result<T, LabError> + Send + 'static,
) -> PyResult<(T, Option<Py<result::Requests>>)> {
    let (done, collected) = channel();
    let value = watched(py, progress, move |progress| -> std::result::Result<T, Raised> {
        if !requests {
            return Ok(run(progress, None)?);
        }
        let mut sink = Requests::new(Box::new(Collecting::new(done)));
        let value = run(progress, Some(&mut sink))?;
        sink.finish().map_err(|error| Raised(RunError::new_err(error.to_string())))?;
        Ok(value)
    })?;
    let kept = collected.try_recv().ok().map(|batches| Py::new(py, result::Requests::new(batches))).transpose()?;
    Ok((value, kept))
}

/// Replays traces under several schedulers.
#[pyfunction]
#[pyo3(signature = (spec=None, /, *, requests=false, progress=None, reference=None, keys=None))]
pub(crate) fn compare(
    py: Python<'_>,
    spec: Option<&Bound<'_, PyAny>>,
    requests: bool,
    progress: Option<Py<PyAny>>,
    reference: Option<&str>,
    keys: Option<&Bound<'_, PyDict>>,
) -> PyResult<Result> {
    let Spec { name, text } = Spec::of(spec, keys)?;
    let comparison = Comparison::parse(&name, &text).map_err(wrong)?;
    let plan = py.detach(|| comparison.plan()).map_err(Raised::from)?;
    let line = |error: &ioweir_trace::TraceError| error.to_string().lines().next().unwrap_or_default().to_owned();
    let notices = plan.left_out().iter().map(|error| format!("left out: {}", line(error))).collect();
    let origin = ioweir::origin(&comparison.command());
    let (report, kept) =
        recorded(py, requests, progress.as_ref(), move |progress, sink| plan.run(&origin, progress, sink))?;
    let document = py.detach(|| comparison_document(&report, reference)).map_err(Raised::from)?;
    Ok(Result::new(document, kept, notices))
}

/// Makes functions that run a spec to its document, which names the command that would do the same.
macro_rules! documented {
    ($($(#[doc = $about:literal])+ $verb:ident($spec:ty);)+) => {$(
        $(#[doc = $about])+
        #[pyfunction]
        #[pyo3(signature = (spec=None, /, *, progress=None, keys=None))]
        pub(crate) fn $verb(
            py: Python<'_>,
            spec: Option<&Bound<'_, PyAny>>,
            progress: Option<Py<PyAny>>,
            keys: Option<&Bound<'_, PyDict>>,
        ) -> PyResult<Result> {
            let Spec { name, text } = Spec::of(spec, keys)?;
            let spec = <$spec>::parse(&name, &text).map_err(wrong)?;
            let origin = ioweir::origin(&spec.command());
            let run = move |progress: &dyn Progress| spec.run(&origin, progress).map_err(Raised::from);
            Ok(Result::new(watched(py, progress.as_ref(), run)?, None, Vec::new()))
        }
    )+};
}

documented! {
    /// Searches what to set for a device and a load.
    advise(AdviseSpec);
    /// Scores schedulers by how they isolate tenants that share a device.
    scorecard(ScorecardSpec);
    /// Searches settings of `io.cost.qos` with which a tenant keeps its p99.
    qos(QosSpec);
    /// Plans deferred work.
    plan(PlanSpec);
}

/// Compares a device model with the latencies of a trace.
#[pyfunction]
#[pyo3(signature = (device, trace, /, *, fold=false))]
pub(crate) fn validate(py: Python<'_>, device: &str, trace: &Trace, fold: bool) -> PyResult<Result> {
    let named = |file: &PathBuf| format!(" --validate {}", quoted(&file.display().to_string()));
    let names: Vec<String> = trace.files().iter().map(named).collect();
    let flag = if fold { " --fold" } else { "" };
    let origin = ioweir::origin(&format!("ioweir calibrate {}{flag}{}", quoted(device), names.concat()));
    let (files, options) = (trace.files(), trace.options());
    let validated = py.detach(|| DeviceValidation::run(device, &files, options, (None, fold), None, &origin));
    let validated = validated.map_err(Raised::from)?;
    let document = validated.document().map_err(Raised::from)?;
    Ok(Result::new(document, None, validated.doubts().to_vec()))
}

/// Fits a device model to a trace with latencies; the second value is the device file.
#[pyfunction]
#[pyo3(signature = (spec=None, /, *, progress=None, keys=None))]
pub(crate) fn calibrate(
    py: Python<'_>,
    spec: Option<&Bound<'_, PyAny>>,
    progress: Option<Py<PyAny>>,
    keys: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Result, String, bool)> {
    let Spec { name, text } = Spec::of(spec, keys)?;
    let spec = CalibrationSpec::parse(&name, &text).map_err(wrong)?;
    let origin = ioweir::origin(&spec.command());
    let fitted = watched(py, progress.as_ref(), move |progress| spec.run(&origin, progress).map_err(Raised::from))?;
    let document = py.detach(|| fitted.document()).map_err(Raised::from)?;
    let is_outside = fitted.verdict().0 == Verdict::Outside;
    Ok((Result::new(document, None, Vec::new()), fitted.file.to_toml(), is_outside))
}

/// Runs an experiment.
#[pyfunction]
#[pyo3(signature = (spec, /, *, requests=false, progress=None, keys=None))]
pub(crate) fn simulate(
    py: Python<'_>,
    spec: &Bound<'_, PyAny>,
    requests: bool,
    progress: Option<Py<PyAny>>,
    keys: Option<&Bound<'_, PyDict>>,
) -> PyResult<Result> {
    let Spec { name, text } = Spec::of(Some(spec), keys)?;
    let origin = ioweir::origin(&overrides(keys)?.command(&name));
    if ServerExperiment::is_described_by(&text) {
        if requests {
            return Err(InputError::new_err(
                "servers keep no requests\n  expected: requests=False, since the spec has [[server]] tables",
            ));
        }
        let experiment = ServerExperiment::parse(&name, &text).map_err(wrong)?;
        let report =
            watched(py, progress.as_ref(), move |progress| experiment.run(&origin, progress).map_err(Raised::from))?;
        return Ok(Result::new(report.document().map_err(Raised::from)?, None, Vec::new()));
    }
    let experiment = Experiment::parse(&name, &text).map_err(wrong)?;
    let (report, kept) = recorded(py, requests, progress.as_ref(), move |progress, sink| match sink {
        Some(sink) => experiment::record(&experiment, &origin, progress, sink),
        None => experiment::run(&experiment, &origin, progress),
    })?;
    let missed = report.verdicts.iter().filter(|verdict| !verdict.met);
    let notices = missed.map(|verdict| format!("not met: {}", verdict.words())).collect();
    let document = py.detach(|| experiment::document(&report)).map_err(Raised::from)?;
    Ok(Result::new(document, kept, notices))
}

/// The part of the keys that the command line has flags for.
fn overrides(keys: Option<&Bound<'_, PyDict>>) -> PyResult<Overrides> {
    let mut overrides = Overrides::default();
    let Some(keys) = keys else { return Ok(overrides) };
    if let Some(schedulers) = keys.get_item("schedulers")? {
        overrides.schedulers = schedulers.extract()?;
    }
    if let Some(seeds) = keys.get_item("seeds")? {
        overrides.seeds = seeds.extract()?;
    }
    if let Some(goal) = keys.get_item("goal")? {
        overrides.goal = Some(goal.extract::<String>()?.parse().map_err(wrong)?);
    }
    overrides.of = keys.get_item("of")?.map(|of| of.extract()).transpose()?;
    let is_on = |name: &str| keys.get_item(name).map(|flag| flag.is_some_and(|flag| flag.is_truthy().unwrap_or(false)));
    (overrides.by_stream, overrides.fold) = (is_on("by_stream")?, is_on("fold")?);
    Ok(overrides)
}

/// Forecasts series, or scores forecasts against the past.
#[pyfunction]
#[pyo3(signature = (spec=None, /, *, progress=None, keys=None))]
pub(crate) fn forecast(
    py: Python<'_>,
    spec: Option<&Bound<'_, PyAny>>,
    progress: Option<Py<PyAny>>,
    keys: Option<&Bound<'_, PyDict>>,
) -> PyResult<Result> {
    let Spec { name, text } = Spec::of(spec, keys)?;
    let spec = ForecastSpec::parse(&name, &text).map_err(wrong)?;
    let (document, series) = watched(py, progress.as_ref(), move |progress| spec.run(progress).map_err(Raised::from))?;
    Ok(Result::new(document, None, lines_of_losses(&series)))
}

/// Says in words why a request of an experiment waited.
#[pyfunction]
#[pyo3(signature = (spec, /, *, slowest=None, request=None, keys=None))]
pub(crate) fn explain(
    py: Python<'_>,
    spec: &Bound<'_, PyAny>,
    slowest: Option<String>,
    request: Option<u64>,
    keys: Option<&Bound<'_, PyDict>>,
) -> PyResult<String> {
    let Spec { name, text } = Spec::of(Some(spec), keys)?;
    let experiment = Experiment::parse(&name, &text).map_err(wrong)?;
    let which = match (request, slowest) {
        (Some(number), _) => Which::Request(number),
        (None, Some(class)) => Which::Slowest(class),
        (None, None) => Which::SlowestOfAll,
    };
    watched(py, None, move |_| experiment::explain(&experiment, &which).map_err(Raised::from))
}

/// The command line: runs it with these arguments, the first of which is its own name, and returns the exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| ioweir::run(arguments))
}

/// The name of a file, without folder and suffix.
pub(crate) fn stem(path: &str) -> String {
    Path::new(path).file_stem().map_or_else(|| path.to_owned(), |stem| stem.to_string_lossy().into_owned())
}
