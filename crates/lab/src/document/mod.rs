//! Documents: the content of a finished run, independent of the form in which it is written.
//!
//! The code that makes a result (a comparison, a plan, a reproduction) fills a [`Document`] with sentences, tables and
//! figures. A form ([`FORMS`]) writes any document: a new kind of result is a function that returns a document, and a new
//! form is one file and one row of the table. Forms decide how a value looks, never what it says, and the same document
//! gives the same bytes.
//!
//! ```
//! use ioweir_lab::document::{Column, Document, FORMS, Table};
//!
//! let mut table = Table::new("Results", [Column::text("scheduler"), Column::number("completion", "s")]);
//! table.row(["noop".into(), 0.624.into()]);
//! table.row(["bid-hdd".into(), 0.491.into()]);
//! let data = serde_json::json!({ "noop": 0.624, "bid-hdd": 0.491 });
//! let mut document = Document::new("ioweir compare", "grep on hdd", &data)?;
//! document.headline = "bid-hdd finishes first.".into();
//! document.records = table.clone();
//! document.push(table);
//! let text = document.to_terminal(false);
//! assert!(text.contains("bid-hdd finishes first.") && text.contains("0.491"), "{text}");
//! for form in FORMS {
//!     assert!(!form.render(&document)?.is_empty());
//! }
//! # Ok::<(), ioweir_lab::document::DocumentError>(())
//! ```

mod csv;
mod draw;
mod figure;
mod html;
mod json;
mod markdown;
mod markup;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod provenance;
mod records;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod words;

pub use figure::{Axis, Chart, Figure, Mark, Series, weekday};
pub use html::HTML_BYTES_MAX;
pub use json::{SCHEMA_VERSION, list as json_list};
pub use provenance::{Origin, Provenance, TraceMeta, hexadecimal, quoted};
pub use records::records_of;
pub use table::{Better, Cell, Column, Emphasis, Format, Kind, SAME_SHARE, Table, Value, format_seconds};
pub use terminal::Screen;
pub use words::{and_list, percent};

use serde::Serialize;

/// The content that a run reports.
#[derive(Clone, Debug)]
pub struct Document {
    /// The command that makes such documents: `ioweir compare`.
    pub command: &'static str,
    /// A few words.
    pub title: String,
    /// The result, in a sentence or two.
    pub headline: String,
    /// The result in a few short lines, each with a name. A terminal shows them in place of the headline, and the tables before all
    /// paragraphs.
    pub summary: Vec<(String, String)>,
    /// The content to read, in order.
    pub blocks: Vec<Block>,
    /// How many of the blocks come first as a summary, where the rest is too long for a terminal.
    pub short: Option<usize>,
    /// The results as one table, one row for each, for spreadsheets and data frames.
    pub records: Table,
    /// How to get this document again.
    pub provenance: Option<Provenance>,
    /// The results as JSON text, indented.
    data: String,
}

/// A piece of a document.
#[derive(Clone, Debug)]
pub enum Block {
    /// The title of the blocks up to the next heading.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// Names, each with a statement.
    Facts(Vec<(String, String)>),
    Table(Table),
    /// Charts. Forms without pictures leave them out.
    Figure(Figure),
}

impl From<Table> for Block {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl From<Figure> for Block {
    fn from(figure: Figure) -> Self {
        Self::Figure(figure)
    }
}

/// A sentence that ends with a command, as in "Set it with: echo bfq > FILE", without the command, and the command.
pub(crate) fn split_command(text: &str) -> Option<(&str, &str)> {
    let at = ["ioweir ", "echo "].into_iter().filter_map(|program| text.rfind(&format!(": {program}"))).max()?;
    // A sentence that goes on after the command is left whole.
    Some((&text[..=at], &text[at + 2..])).filter(|(_, command)| !command.contains(", "))
}

/// Why a document cannot be written, which is a defect of the program.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// JSON cannot hold a result.
    #[error("the results cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Parquet cannot hold the records.
    #[error("the results cannot be written as Parquet: {0}")]
    Parquet(String),
}

impl Document {
    /// A document without blocks, for results whose JSON form is `data`.
    ///
    /// # Errors
    /// [`DocumentError::Json`] if `data` cannot be written as JSON.
    pub fn new(command: &'static str, title: impl Into<String>, data: &impl Serialize) -> Result<Self, DocumentError> {
        Ok(Self {
            command,
            title: title.into(),
            headline: String::new(),
            summary: Vec::new(),
            blocks: Vec::new(),
            short: None,
            records: Table::default(),
            provenance: None,
            data: json::text(data)?,
        })
    }

    /// Adds a table or a figure.
    pub fn push(&mut self, block: impl Into<Block>) {
        self.blocks.push(block.into());
    }

    /// Adds the title of a section.
    pub fn heading(&mut self, title: impl Into<String>) {
        self.blocks.push(Block::Heading(title.into()));
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// The document for a terminal, in bold type if `bold` is set: its summary, where it has one.
    #[must_use]
    pub fn to_terminal(&self, bold: bool) -> String {
        self.to_screen(Screen { bold, width: None })
    }

    /// As [`Document::to_terminal`], on a screen that may be narrow.
    #[must_use]
    pub fn to_screen(&self, screen: Screen) -> String {
        let Some(shown) = self.short else { return terminal::render(self, &self.blocks, screen) };
        let mut text = terminal::render(self, &self.blocks[..shown.min(self.blocks.len())], screen);
        text += "\n--export FILE.html, .md or .txt has each in full.\n";
        text
    }
}

/// A form that any document can be written in.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The suffix of its files, without the dot.
    pub suffix: &'static str,
    /// One line of description.
    pub summary: &'static str,
    write: fn(&Document) -> Result<Vec<u8>, DocumentError>,
}

/// Every form that a document can be exported to.
pub const FORMS: &[Form] = &[
    json::FORM,
    csv::FORM,
    markdown::FORM,
    html::FORM,
    #[cfg(feature = "parquet")]
    parquet::FORM,
    terminal::FORM,
];

impl Form {
    /// The form for the suffix of a file name, in upper or lower case.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<&'static Self> {
        let (_, suffix) = name.rsplit_once('.')?;
        FORMS.iter().find(|form| form.suffix.eq_ignore_ascii_case(suffix))
    }

    /// Writes `document` in this form.
    ///
    /// # Errors
    /// [`DocumentError`], which would be a defect of the program.
    pub fn render(&self, document: &Document) -> Result<Vec<u8>, DocumentError> {
        (self.write)(document)
    }
}
