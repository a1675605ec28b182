//! JSON: the results as one value, for programs. Keys include the unit.

use super::{Document, DocumentError, Form};

pub(super) const FORM: Form =
    Form { suffix: "json", summary: "one object, for programs; keys carry the unit", write: render };

fn render(document: &Document) -> Result<Vec<u8>, DocumentError> {
    Ok((document.data.clone() + "\n").into_bytes())
}

/// Several documents as a JSON list, or a single one by itself.
#[must_use]
pub fn list(documents: &[Document]) -> String {
    if let [only] = documents {
        return only.data.clone() + "\n";
    }
    // No text in JSON spans lines, so indenting every line gives the same as writing all at once.
    let indented = |document: &Document| format!("  {}", document.data.replace('\n', "\n  "));
    format!("[\n{}\n]\n", documents.iter().map(indented).collect::<Vec<_>>().join(",\n"))
}
