//! JSON: the results as one value, for programs. Keys include the unit; the first says which version of the layout it is.

use std::io::{Result, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::{Document, DocumentError, Form};

/// The version of the layout, which increases when a key changes its meaning or disappears, not when one is added.
pub const SCHEMA_VERSION: u32 = 1;

/// The key of the version, in the object of the results, or in each of a list of them.
const VERSION_KEY: &str = "schema_version";

pub(super) const FORM: Form =
    Form { suffix: "json", summary: "one object, for programs; keys carry the unit", write: render };

fn render(document: &Document) -> std::result::Result<Vec<u8>, DocumentError> {
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

/// Data as JSON text, indented, with the version of its layout.
pub(super) fn text(data: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    data.serialize(&mut Serializer::with_formatter(&mut bytes, Versioned::default()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Indents as `to_string_pretty`, and begins the object of the results, or each of a list of them, with the version.
#[derive(Default)]
struct Versioned {
    inner: PrettyFormatter<'static>,
    /// Objects and lists that are open.
    open: usize,
    /// Whether the results are a list.
    is_list: bool,
    /// Whether the version has just been written, so that the next key is not the first.
    has_key: bool,
}

impl Versioned {
    fn write_version<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.inner.begin_object_key(writer, true)?;
        write!(writer, "\"{VERSION_KEY}\"")?;
        self.inner.end_object_key(writer)?;
        self.inner.begin_object_value(writer)?;
        write!(writer, "{SCHEMA_VERSION}")?;
        self.inner.end_object_value(writer)
    }
}

impl Formatter for Versioned {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.is_list |= self.open == 0;
        self.open += 1;
        self.inner.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.open -= 1;
        self.inner.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> Result<()> {
        self.inner.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.inner.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.inner.begin_object(writer)?;
        self.has_key = self.open == usize::from(self.is_list);
        if self.has_key {
            self.write_version(writer)?;
        }
        self.open += 1;
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.open -= 1;
        self.has_key = false;
        self.inner.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> Result<()> {
        let is_first = first && !std::mem::take(&mut self.has_key);
        self.inner.begin_object_key(writer, is_first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.inner.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.inner.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_begin_with_their_version() {
        let inner = json!({ "list": [{ "a": 1 }, {}], "map": { "b": [] } });
        for (data, versioned) in [
            (inner.clone(), json!({ "schema_version": 1, "list": [{ "a": 1 }, {}], "map": { "b": [] } })),
            (
                json!([inner.clone(), {}]),
                json!([{ "schema_version": 1, "list": inner["list"], "map": inner["map"] }, { "schema_version": 1 }]),
            ),
            (json!({}), json!({ "schema_version": 1 })),
            (json!(null), json!(null)),
            (json!([[{ "a": 1 }]]), json!([[{ "a": 1 }]])),
        ] {
            let written = text(&data).unwrap_or_default();
            assert_eq!(serde_json::from_str::<serde_json::Value>(&written).ok(), Some(versioned), "{written}");
            let without: Vec<&str> = written.lines().filter(|line| !line.contains(VERSION_KEY)).collect();
            let plain = serde_json::to_string_pretty(&data).unwrap_or_default();
            assert!(plain.contains("{}") || without == plain.lines().collect::<Vec<_>>(), "{written}");
        }
        assert!(text(&inner).is_ok_and(|text| text.starts_with("{\n  \"schema_version\": 1,\n  \"list\"")));
    }
}
