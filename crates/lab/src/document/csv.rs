//! CSV: the records, one row for each result, below a row of names.

use super::{Document, DocumentError, Form};

pub(super) const FORM: Form =
    Form { suffix: "csv", summary: "one row a result, the names of the JSON keys flattened", write: render };

#[expect(clippy::unnecessary_wraps, reason = "a form may fail")]
fn render(document: &Document) -> Result<Vec<u8>, DocumentError> {
    let mut out = String::new();
    push_row(&mut out, document.records.columns.iter().map(|column| column.name.clone()));
    for row in &document.records.rows {
        push_row(&mut out, row.iter().map(|cell| cell.value.field().unwrap_or_default()));
    }
    Ok(out.into_bytes())
}

/// Lines end in a newline alone; a field that contains a separator is quoted.
fn push_row(out: &mut String, fields: impl Iterator<Item = String>) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.push(',');
        }
        if field.contains([',', '"', '\n', '\r']) {
            out.extend(["\"", &field.replace('"', "\"\""), "\""]);
        } else {
            out.push_str(&field);
        }
    }
    out.push('\n');
}
