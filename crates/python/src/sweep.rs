//! Sweeps: cells of a plan, run into a folder, here or on other machines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ioweir_lab::sweep::{self, By, Cells, Folder, Made, Missing, Place, Plan, Running, Shard, Sweep, on_threads};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::result::Result;
use crate::spec::{Spec, path};
use crate::verbs::{Raised, stem, wrong};
use crate::watch::watched;

/// A cell as Python hands it on: its point, its run at the point, and its name.
type Cell = (usize, usize, String);
/// Traces by name, and the hashes of their files.
type Traces = BTreeMap<String, Vec<(String, String)>>;

fn places(cells: Vec<Cell>) -> PyResult<Vec<Place>> {
    let place =
        |(point, run, name): Cell| Ok(Place { point, run, name: name.parse().map_err(|error: String| wrong(error))? });
    cells.into_iter().map(place).collect()
}

fn cells_of(places: Vec<Place>) -> Vec<Cell> {
    places.into_iter().map(|Place { point, run, name }| (point, run, name.to_string())).collect()
}

fn traces(cells: &Cells) -> Traces {
    cells.traces().into_iter().map(|trace| (trace.name, trace.files)).collect()
}

fn shard(text: Option<&str>) -> PyResult<Shard> {
    text.map_or(Ok(Shard::WHOLE), str::parse).map_err(|error: String| wrong(error))
}

/// A sweep with every cell resolved and named.
#[pyclass(frozen, module = "ioweir")]
#[derive(Debug)]
pub(crate) struct SweepPlan {
    plan: Arc<Plan>,
    name: String,
}

#[pymethods]
impl SweepPlan {
    #[new]
    #[pyo3(signature = (spec, /, *, keys=None))]
    fn new(py: Python<'_>, spec: &Bound<'_, PyAny>, keys: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let Spec { name, text } = Spec::of(Some(spec), keys)?;
        let sweep = Sweep::parse(&name, &text).map_err(wrong)?;
        let origin = ioweir::origin(&format!("ioweir sweep {name}"));
        let plan = Arc::new(py.detach(|| Plan::new(sweep, &origin)).map_err(Raised::from)?);
        Ok(Self { plan, name })
    }

    /// The name of the folder where none is given.
    #[getter]
    fn folder(&self) -> String {
        stem(&self.name)
    }

    /// Remarks for the user before the sweep runs, a line each.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.plan.resolved().notices()
    }

    /// The whole sweep as TOML, from which another process makes the same cells.
    #[getter]
    fn spec(&self) -> String {
        self.plan.resolved().to_toml()
    }

    /// The traces by name, each with its files and their hashes.
    #[getter]
    fn traces(&self) -> Traces {
        traces(self.plan.resolved())
    }

    fn __len__(&self) -> usize {
        self.plan.cells()
    }

    /// The folder for the parts, which is made where it is missing.
    fn create(&self, py: Python<'_>, folder: &Bound<'_, PyAny>) -> PyResult<SweepFolder> {
        let folder = PathBuf::from(path(folder)?);
        let folder = py.detach(|| Folder::create(&folder, &self.plan)).map_err(Raised::from)?;
        Ok(SweepFolder { plan: Arc::clone(&self.plan), folder: Arc::new(folder) })
    }
}

/// The folder of a sweep that is run.
#[pyclass(frozen, module = "ioweir")]
#[derive(Debug)]
pub(crate) struct SweepFolder {
    plan: Arc<Plan>,
    folder: Arc<Folder>,
}

#[pymethods]
impl SweepFolder {
    /// Runs the cells that have no part yet, on `threads`, or of one shard of them. Returns those that failed, and why.
    #[pyo3(signature = (*, shard=None, threads=None, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        shard: Option<&str>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<(String, String)>> {
        let running = Running { shard: self::shard(shard)?, threads };
        let (folder, plan) = (Arc::clone(&self.folder), Arc::clone(&self.plan));
        let ran =
            watched(py, progress.as_ref(), move |progress| folder.run(&plan, running, progress).map_err(Raised::from))?;
        Ok(ran.failed.into_iter().map(|failed| (failed.name, failed.problem)).collect())
    }

    /// How many cells a shard has, and those that have no part yet.
    #[pyo3(signature = (shard=None))]
    fn missing(&self, py: Python<'_>, shard: Option<&str>) -> PyResult<(usize, Vec<Cell>)> {
        let shard = self::shard(shard)?;
        let Missing { cells, places } = py.detach(|| self.folder.missing(&self.plan, shard));
        Ok((cells, cells_of(places)))
    }

    /// Keeps what another process made of cells: the name of each with its part, or as text why it failed.
    fn take(&self, py: Python<'_>, made: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<()> {
        let made = made.into_iter().map(|(name, part)| {
            let part =
                part.extract::<String>().map_or_else(|_| part.extract::<Vec<u8>>().map(Ok), |text| Ok(Err(text)))?;
            Ok(Made { name: name.parse().map_err(|error: String| wrong(error))?, part })
        });
        let made = made.collect::<PyResult<Vec<Made>>>()?;
        Ok(py.detach(|| self.folder.take(&made)).map_err(Raised::from)?)
    }
}

/// The cells of a sweep on the machine that runs some of them, made from the spec of a plan.
#[pyclass(frozen, module = "ioweir")]
#[derive(Debug)]
pub(crate) struct SweepCells {
    cells: Arc<Cells>,
}

#[pymethods]
impl SweepCells {
    #[new]
    fn new(spec: &str) -> PyResult<Self> {
        let sweep = Sweep::parse("spec", spec).map_err(wrong)?;
        Ok(Self { cells: Arc::new(Cells::new(sweep, &ioweir::origin("ioweir sweep"))) })
    }

    /// The traces that were read so far, by name, each with its files and their hashes.
    #[getter]
    fn traces(&self) -> Traces {
        traces(&self.cells)
    }

    /// Whether these cells have the same names here, which are hashes of all that they depend on.
    fn are_same(&self, py: Python<'_>, cells: Vec<Cell>) -> PyResult<bool> {
        let places = places(cells)?;
        Ok(py.detach(|| self.cells.first_other(&places)).map_err(Raised::from)?.is_none())
    }

    /// Runs cells. Returns the name of each with its part, or with the text of why it failed.
    #[pyo3(signature = (cells, /, *, threads=None, progress=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        cells: Vec<Cell>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        let places = places(cells)?;
        let resolved = Arc::clone(&self.cells);
        let made = watched(py, progress.as_ref(), move |progress| {
            progress.started(places.len());
            let made = Mutex::new(Vec::with_capacity(places.len()));
            let keep = |one: Made| {
                made.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                Ok(())
            };
            on_threads(threads, || resolved.run(&places, progress, &keep)).map_err(Raised::from)?;
            Ok::<_, Raised>(made.into_inner().unwrap_or_else(PoisonError::into_inner))
        })?;
        let part = |one: Made| match one.part {
            Ok(part) => (one.name.to_string(), PyBytes::new(py, &part).into_any()),
            Err(problem) => (one.name.to_string(), PyString::new(py, &problem).into_any()),
        };
        Ok(made.into_iter().map(part).collect())
    }
}

/// How far the sweep in a folder is.
#[pyfunction]
pub(crate) fn sweep_status<'py>(py: Python<'py>, folder: &Bound<'_, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let folder = PathBuf::from(path(folder)?);
    let status = py.detach(|| Folder::open(&folder)?.status()).map_err(Raised::from)?;
    let about = PyDict::new(py);
    about.set_item("cells", status.cells)?;
    about.set_item("done", status.done)?;
    about.set_item("missing", status.missing())?;
    about.set_item("failed", status.failed_count)?;
    about.set_item("uncounted", status.uncounted_count)?;
    Ok(about)
}

/// The parts of a sweep as one result.
#[pyfunction]
#[pyo3(signature = (folder, /, *, partial=false, metric=None, goal=None, of=None))]
pub(crate) fn merge_sweep(
    py: Python<'_>,
    folder: &Bound<'_, PyAny>,
    partial: bool,
    metric: Option<&str>,
    goal: Option<&str>,
    of: Option<&str>,
) -> PyResult<Result> {
    let by = By { metric, goal: goal.map(str::parse).transpose().map_err(wrong)?, of };
    let folder = PathBuf::from(path(folder)?);
    let (document, notices) = py
        .detach(|| {
            let folder = Folder::open(&folder)?;
            let merged = folder.merge(partial)?;
            let uncounted = merged.status.uncounted.iter();
            let notices = uncounted.map(|one| format!("not counted: {}: {}", one.name, one.problem)).collect();
            sweep::document(&folder, merged, by).map(|document| (document, notices))
        })
        .map_err(Raised::from)?;
    Ok(Result::new(document, None, notices))
}
