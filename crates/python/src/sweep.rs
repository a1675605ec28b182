//! Sweeps: cells of a plan, run into a folder, here or on other machines.

use std::path::PathBuf;
use std::sync::Arc;

use ioweir_lab::sweep::{self, Folder, Plan, Running, Shard, Sweep};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::result::Result;
use crate::spec::{Spec, path};
use crate::verbs::{Raised, stem, wrong};
use crate::watch::watched;

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
        let plan = py.detach(|| Plan::new(sweep, &origin)).map_err(Raised::from)?;
        Ok(Self { plan: Arc::new(plan), name })
    }

    /// The name of the folder where none is given.
    #[getter]
    fn folder(&self) -> String {
        stem(&self.name)
    }

    /// What the user should know before it runs, a line each.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.plan.notices()
    }

    fn __len__(&self) -> usize {
        self.plan.cells()
    }

    /// Runs the cells that have no part in `folder` yet, on `threads`, or of one shard of them. Returns counts and failures.
    #[pyo3(signature = (folder, /, *, shard=None, threads=None, progress=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        folder: &Bound<'_, PyAny>,
        shard: Option<&str>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let shard: Shard = shard.map_or(Ok(Shard::WHOLE), str::parse).map_err(|error: String| wrong(error))?;
        let folder = Folder::create(&PathBuf::from(path(folder)?), &self.plan).map_err(Raised::from)?;
        let running = Running { shard, threads };
        let plan = Arc::clone(&self.plan);
        let ran =
            watched(py, progress.as_ref(), move |progress| folder.run(&plan, running, progress).map_err(Raised::from))?;
        let about = PyDict::new(py);
        about.set_item("cells", ran.cells)?;
        about.set_item("there", ran.there)?;
        let failed: Vec<(String, String)> =
            ran.failed.into_iter().map(|failed| (failed.name, failed.problem)).collect();
        about.set_item("failed", failed)?;
        about.set_item("failed_count", ran.failed_count)?;
        Ok(about)
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
#[pyo3(signature = (folder, /, *, partial=false, metric=None))]
pub(crate) fn merge_sweep(
    py: Python<'_>,
    folder: &Bound<'_, PyAny>,
    partial: bool,
    metric: Option<&str>,
) -> PyResult<Result> {
    let folder = PathBuf::from(path(folder)?);
    let (document, notices) = py
        .detach(|| {
            let folder = Folder::open(&folder)?;
            let merged = folder.merge(partial)?;
            let uncounted = merged.status.uncounted.iter();
            let notices = uncounted.map(|one| format!("not counted: {}: {}", one.name, one.problem)).collect();
            sweep::document(&folder, merged, metric).map(|document| (document, notices))
        })
        .map_err(Raised::from)?;
    Ok(Result::new(document, None, notices))
}
