//! Results: a document with its records, tables and requests.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use ioweir_lab::document::{Block, Document, FORMS, Form, json_list};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::{RequestBatches, batch_of, capsule};
use crate::{InputError, RunError};

/// The result of a run, to be read, written or taken into a data frame. As Arrow it is its records: one row for each result.
#[pyclass(frozen, module = "ioweir")]
#[derive(Debug)]
pub(crate) struct Result {
    document: Document,
    requests: Option<Py<Requests>>,
    notices: Vec<String>,
}

impl Result {
    pub(crate) fn new(document: Document, requests: Option<Py<Requests>>, notices: Vec<String>) -> Self {
        Self { document, requests, notices }
    }

    fn render(&self, form: &Form) -> PyResult<Vec<u8>> {
        form.render(&self.document).map_err(|error| RunError::new_err(error.to_string()))
    }

    fn rendered(&self, suffix: &str) -> PyResult<String> {
        let form = Form::from_file_name(suffix).ok_or_else(|| RunError::new_err(format!("no form {suffix}")))?;
        Ok(String::from_utf8_lossy(&self.render(form)?).into_owned())
    }
}

#[pymethods]
impl Result {
    /// A few words: what was run.
    #[getter]
    fn title(&self) -> &str {
        &self.document.title
    }

    /// The finding, in a sentence or two.
    #[getter]
    fn headline(&self) -> &str {
        &self.document.headline
    }

    /// Remarks for the user about the run, a line each: traces that were left out, for example.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.notices.clone()
    }

    /// The tables of the report, in order.
    #[getter]
    fn tables(&self) -> Vec<Table> {
        let tables = self.document.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => Some(Table(table.clone())),
            _ => None,
        });
        tables.collect()
    }

    /// One row for each request, if they were asked for.
    #[getter]
    fn requests(&self, py: Python<'_>) -> Option<Py<Requests>> {
        self.requests.as_ref().map(|requests| requests.clone_ref(py))
    }

    /// The results as JSON text: what `--json` of the command line writes.
    fn json(&self) -> String {
        json_list(std::slice::from_ref(&self.document))
    }

    /// The report as HTML page, complete in itself.
    fn html(&self) -> PyResult<String> {
        self.rendered(".html")
    }

    /// The report in Markdown.
    fn markdown(&self) -> PyResult<String> {
        self.rendered(".md")
    }

    /// The records as CSV.
    fn csv(&self) -> PyResult<String> {
        self.rendered(".csv")
    }

    /// The report as on a terminal.
    fn text(&self) -> String {
        self.document.to_terminal(false)
    }

    /// Writes the report to a file; the suffix selects the form: .html, .md, .csv, .parquet, .json or .txt.
    fn save(&self, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let path = crate::spec::path(path)?;
        let form = Form::from_file_name(&path).ok_or_else(|| {
            let suffixes: Vec<String> = FORMS.iter().map(|form| format!(".{}", form.suffix)).collect();
            InputError::new_err(format!("{path}: the suffix names no form\n  expected: one of {}", suffixes.join(", ")))
        })?;
        std::fs::write(&path, self.render(form)?)
            .map_err(|error| RunError::new_err(format!("{path}: cannot be written: {error}")))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        stream(py, batch_of(&self.document.records), requested_schema)
    }

    fn __repr__(&self) -> String {
        format!("<{}: {}. {}>", self.document.command, self.document.title, self.document.headline)
    }

    fn __str__(&self) -> String {
        self.text()
    }

    fn _repr_html_(&self) -> PyResult<String> {
        // A page has styles of its own, so it is shown in a frame.
        let page = self.html()?.replace('&', "&amp;").replace('"', "&quot;");
        Ok(format!(
            "<iframe srcdoc=\"{page}\" style=\"width:100%;height:40em;border:0\" title=\"{}\"></iframe>",
            self.document.title.replace('&', "&amp;").replace('"', "&quot;")
        ))
    }
}

/// A table of a report.
#[pyclass(frozen, module = "ioweir")]
#[derive(Debug)]
pub(crate) struct Table(ioweir_lab::document::Table);

#[pymethods]
impl Table {
    /// The title.
    #[getter]
    fn title(&self) -> &str {
        &self.0.title
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.columns.iter().map(|column| column.name.clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.rows.len()
    }

    fn __repr__(&self) -> String {
        format!("<table {:?}: {} rows of {}>", self.0.title, self.0.rows.len(), self.columns().join(", "))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        stream(py, batch_of(&self.0), requested_schema)
    }
}

/// Requests of the runs, one row each: the columns that `ioweir doc requests` lists.
#[pyclass(frozen, module = "ioweir")]
#[derive(Debug)]
pub(crate) struct Requests(RequestBatches);

impl Requests {
    pub(crate) fn new(batches: RequestBatches) -> Self {
        Self(batches)
    }
}

#[pymethods]
impl Requests {
    fn __len__(&self) -> usize {
        self.0.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __repr__(&self) -> String {
        format!("<{} requests>", self.__len__())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        capsule(py, &self.0.schema, self.0.batches.clone().into_iter().map(Ok), requested_schema)
    }
}

fn stream<'py>(
    py: Python<'py>,
    batch: std::result::Result<RecordBatch, ArrowError>,
    requested: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let batch = batch.map_err(|error| RunError::new_err(error.to_string()))?;
    let schema = Arc::clone(batch.schema_ref());
    capsule(py, &schema, std::iter::once(Ok(batch)), requested)
}
