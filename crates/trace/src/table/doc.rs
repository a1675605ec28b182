//! Writes the documentation of a table from its columns.

use std::fmt::Write as _;

use ioweir_core::Operation;

use super::{Column, Heading, Role, Separator, Table, Value, Zero};
use crate::table::reader::TableReader;

/// The width of the widest line of a page.
const WIDTH: usize = 125;

impl Table {
    /// Columns, units and what to know before use, as Markdown.
    pub(crate) fn doc(&self) -> String {
        let reader = TableReader::new(self);
        let heading = match self.heading {
            Heading::None | Heading::Guessed => "No heading. ",
            Heading::Optional => "The heading, the names of the columns, may be missing. ",
            Heading::Required => "A heading with the names of the columns, then one request a line. ",
            Heading::Names(_) => "A heading names the columns, in any order and among others. ",
        };
        let between = if self.separator == Separator::Blanks { ", between blanks" } else { "" };
        let line = match self.heading {
            Heading::Names(_) => "These are read:".to_owned(),
            Heading::Required => format!("The columns{between}: `{}`.", reader.expected()),
            _ => format!("One request a line{between}: `{}`.", reader.expected()),
        };
        let mut out = String::new();
        paragraph(&mut out, &[self.about, heading.trim_end(), &line]);
        out += "\n| column | unit | meaning |\n|---|---|---|\n";
        for column in self.columns {
            // Writing to a string does not fail.
            let _ = writeln!(out, "| {} | {} | {} |", column.name, self.unit(column), meaning(column));
        }
        out.push('\n');
        let window = match self.window_records {
            0 => String::new(),
            window => format!("Requests may be out of order by up to {window} records."),
        };
        paragraph(&mut out, &[self.notes, self.names(), &window]);
        out.trim_end().to_owned()
    }

    fn unit(&self, column: &Column) -> String {
        let unit = match column.value {
            Value::Time(unit) => unit.name().to_owned(),
            Value::Seconds | Value::Ticks(1_000_000_000) => "seconds".to_owned(),
            Value::Ticks(1_000_000) => "milliseconds".to_owned(),
            Value::Ticks(1_000) => "microseconds".to_owned(),
            Value::Ticks(1) => "nanoseconds".to_owned(),
            Value::Ticks(nanos) => format!("{nanos} ns"),
            Value::Size(1) => "bytes".to_owned(),
            Value::Size(512) => "sectors of 512 bytes".to_owned(),
            Value::Size(bytes) => format!("{bytes} bytes"),
            Value::Hexadecimal => "bytes, hexadecimal".to_owned(),
            Value::ReadBit => "hexadecimal".to_owned(),
            _ => return String::new(),
        };
        match (column.role, self.clock) {
            (Role::Time | Role::Completion, Zero::Unix) => format!("{unit} since 1970-01-01 UTC"),
            (Role::Time | Role::Completion, Zero::FileTime) => format!("{unit} since 1601-01-01 UTC"),
            _ => unit,
        }
    }

    /// Where streams and volumes come from if no column names them.
    fn names(&self) -> &'static str {
        let has = |role: Role| self.columns.iter().any(|column| column.role == role);
        match (has(Role::Volume), has(Role::Stream) || has(Role::Pid)) {
            (true, true) => "",
            (true, false) => "Each volume is one stream.",
            (false, true) => "The file is one volume.",
            (false, false) => "The file is one volume and one stream.",
        }
    }
}

/// The role of a column, and its row's remarks.
fn meaning(column: &Column) -> String {
    let role = match column.role {
        Role::Time => "arrival".to_owned(),
        Role::Completion => "completion".to_owned(),
        Role::Gap => "from this arrival to the next".to_owned(),
        Role::Think => "think time, from this completion to the next arrival".to_owned(),
        Role::Latency => "latency".to_owned(),
        Role::Offset => "offset".to_owned(),
        Role::Length => "length".to_owned(),
        Role::Moved => "bytes that were moved; fewer than the length are an error".to_owned(),
        Role::Operation => operations(column),
        Role::Volume => "volume".to_owned(),
        Role::Stream | Role::Pid | Role::Command => "stream".to_owned(),
        Role::Ignored => "not kept".to_owned(),
        Role::Event => "event".to_owned(),
    };
    let empty = if column.empty == Some("") { "; may be empty" } else { "" };
    let note = if column.note.is_empty() { String::new() } else { format!(": {}", column.note) };
    format!("{role}{note}{empty}")
}

/// The words for operations: `R` read, `W` write.
fn operations(column: &Column) -> String {
    let list = |words: &[(&str, Operation)], prefix: &str| {
        let words = words.iter().map(|(word, operation)| format!("{prefix}`{word}` {}", operation.name()));
        words.collect::<Vec<_>>().join(", ")
    };
    match column.value {
        Value::Words(words) => list(words, ""),
        Value::Beginnings(words) => list(words, "begins with "),
        Value::ReadBit => "the lowest bit is set for a read, the others are not kept".to_owned(),
        Value::Letters => "operation and flags, in the letters of the block layer".to_owned(),
        _ => "operation".to_owned(),
    }
}

/// Sentences as a paragraph of lines.
fn paragraph(out: &mut String, sentences: &[&str]) {
    let mut column = 0;
    for word in sentences.iter().flat_map(|sentence| sentence.split_whitespace()) {
        let length = word.chars().count();
        let space = match column {
            0 => "",
            _ if column + 1 + length > WIDTH => {
                column = 0;
                "\n"
            }
            _ => " ",
        };
        out.push_str(space);
        out.push_str(word);
        column += length + usize::from(space == " ");
    }
    out.push('\n');
}
