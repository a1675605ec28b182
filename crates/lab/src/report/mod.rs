//! Pages of reproductions, until they are documents.

pub(crate) mod chart;
pub(crate) mod figure;

pub use figure::{Axis, Chart, Figure, Mark, Series};

/// Why a report cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The page's template and its data do not fit: a defect of the program.
    #[error("the report page cannot be rendered: {0}")]
    Template(#[from] minijinja::Error),
    /// The results cannot be written as JSON: a defect of the program.
    #[error("the report cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}
