//! How does a finished comparison read: on a terminal, as data, in a document, as a page?
//!
//! One file a form. All of them take their numbers from `numbers` and their order from the report; the same report gives
//! the same bytes.

pub(crate) mod chart;
mod columns;
mod csv;
mod experiment;
pub(crate) mod figure;
mod headline;
mod html;
mod html_parts;
mod json;
mod markdown;
mod numbers;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;

pub use csv::render_csv;
pub use experiment::{render_experiment, render_experiment_terminal};
pub use figure::{Axis, Chart, Figure, Mark, Series};
pub use html::{HTML_BYTES_MAX, render_html};
pub use json::{SCHEMA_VERSION, render_json};
pub use markdown::render_markdown;
pub use terminal::{push_rows, render_terminal};

use crate::compare::Report;
use crate::sim::Outcome;

/// A form that a report can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One object, for programs.
    Json,
    /// One row a result, for spreadsheets.
    Csv,
    /// Tables, for documents and issue threads.
    Markdown,
    /// One self-contained page with charts.
    Html,
}

/// A form as the command line and the reference page show it.
#[derive(Clone, Copy, Debug)]
pub struct FormInfo {
    /// The form.
    pub form: Form,
    /// The suffix of the files that hold it, without the dot.
    pub suffix: &'static str,
    /// One line of description.
    pub summary: &'static str,
}

/// Every form that a report can be exported to.
pub const FORMS: [FormInfo; 4] = [
    FormInfo { form: Form::Json, suffix: "json", summary: "one object, for programs; keys carry the unit" },
    FormInfo { form: Form::Csv, suffix: "csv", summary: "one row a result, the names of the JSON keys flattened" },
    FormInfo { form: Form::Markdown, suffix: "md", summary: "tables, for documents and issue threads" },
    FormInfo { form: Form::Html, suffix: "html", summary: "one self-contained page with charts, readable offline" },
];

impl Form {
    /// The form that a file name's suffix stands for, in either case.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        let (_, suffix) = name.rsplit_once('.')?;
        FORMS.iter().find(|info| info.suffix.eq_ignore_ascii_case(suffix)).map(|info| info.form)
    }
}

/// How to show a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Scheduler that the others are measured by; the first of the report where absent.
    pub reference: Option<String>,
    /// Whether the terminal form may use bold type.
    pub colour: bool,
}

/// Why a report cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The reference is not among the results.
    #[error("reference scheduler `{name}` is not compared\n  expected: one of {known}")]
    UnknownReference {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The page's template and its data do not fit: a defect of the program.
    #[error("the report page cannot be rendered: {0}")]
    Template(#[from] minijinja::Error),
    /// The results cannot be written as JSON: a defect of the program.
    #[error("the report cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Renders `report` in `form`.
///
/// # Errors
/// [`ReportError`] where the view's reference is not among the results.
pub fn render(report: &Report, form: Form, view: &View) -> Result<String, ReportError> {
    match form {
        Form::Json => render_json(report),
        Form::Csv => Ok(render_csv(report)),
        Form::Markdown => render_markdown(report, view),
        Form::Html => render_html(report, view),
    }
}

/// The outcomes of one trace under one load: what can be compared with each other.
pub(crate) struct Section<'a> {
    pub(crate) trace: &'a str,
    pub(crate) load: &'a str,
    pub(crate) device: &'a str,
    pub(crate) outcomes: Vec<&'a Outcome>,
    /// Index of the outcome that the others are measured by.
    pub(crate) reference: usize,
}

impl Section<'_> {
    pub(crate) fn reference(&self) -> &Outcome {
        self.outcomes[self.reference]
    }
}

/// The sections of a report, in its order.
pub(crate) fn sections<'a>(report: &'a Report, view: &View) -> Result<Vec<Section<'a>>, ReportError> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    for outcome in &report.outcomes {
        let same = |section: &&mut Section<'_>| {
            section.trace == outcome.trace && section.load == outcome.load && section.device == outcome.device
        };
        if let Some(section) = sections.iter_mut().find(same) {
            section.outcomes.push(outcome);
        } else {
            sections.push(Section {
                trace: &outcome.trace,
                load: &outcome.load,
                device: &outcome.device,
                outcomes: vec![outcome],
                reference: 0,
            });
        }
    }
    if let Some(name) = &view.reference {
        for section in &mut sections {
            section.reference = find_reference(section, name)?;
        }
    }
    Ok(sections)
}

/// The reference may be written with its parameters or, where that is unambiguous, without.
fn find_reference(section: &Section<'_>, name: &str) -> Result<usize, ReportError> {
    let exact = |outcome: &&Outcome| outcome.scheduler == name;
    let by_name = |outcome: &&Outcome| outcome.scheduler.split(':').next() == Some(name);
    let position = |found: &dyn Fn(&&Outcome) -> bool| section.outcomes.iter().position(found);
    position(&exact).or_else(|| position(&by_name)).ok_or_else(|| ReportError::UnknownReference {
        name: name.to_string(),
        known: section.outcomes.iter().map(|outcome| outcome.scheduler.as_str()).collect::<Vec<_>>().join(", "),
    })
}
