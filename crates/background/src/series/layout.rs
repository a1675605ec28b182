//! Finds out what the columns of a table are, from its first lines.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ioweir_config::date::DateOrder;
use memchr::{memchr, memmem};

use super::SeriesError;
use super::time::moment;
use super::value::{Marks, is_missing, number, unit_of_heading};
use ioweir_trace::{HEAD_BYTES, Input, Position};

/// How sadf marks a restart of the machine, in the place of values.
const RESTART: &[u8] = b"LINUX-RESTART";
pub(super) const DELIMITERS: [u8; 4] = [b';', b'\t', b'|', b','];
const TIME_NAMES: [&str; 7] = ["timestamp", "time", "ts", "date", "datetime", "epoch", "unix"];
/// The columns of `sadf -p`, which prints no names.
const SADF_COLUMNS: [&str; 6] = ["hostname", "interval", "timestamp", "device", "field", "value"];

/// The layout of a file, from its first lines.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) delimiter: u8,
    pub(super) has_header: bool,
    pub(super) names: Vec<String>,
    pub(super) time: usize,
    pub(super) labels: Vec<usize>,
    /// The columns that are read where none is named.
    pub(super) numeric: Vec<usize>,
    /// Of each column whose heading states a unit: how many of one the unit is, and the heading with that one for it.
    pub(super) units: Vec<Option<(f64, String)>>,
    pub(super) step_seconds: f64,
    pub(super) marks: Marks,
    pub(super) order: DateOrder,
    /// By how much the clock of all times is ahead of UTC, if the heading says so.
    offset_seconds: Option<i32>,
}

impl Layout {
    pub(super) fn of(input: &Input) -> Result<Self, SeriesError> {
        let head = input.head()?;
        let mut lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).collect();
        if head.len() == HEAD_BYTES {
            // The last line may be incomplete.
            lines.pop();
        }
        if let Some(first) = lines.first_mut() {
            *first = without_mark(first);
        }
        let named = lines.iter().find_map(|line| separator_line(line));
        let comments: Vec<&[u8]> =
            lines.iter().filter_map(|line| line.strip_prefix(b"#")).map(<[u8]>::trim_ascii).collect();
        lines.retain(|line| !is_blank(line) && memmem::find(line, RESTART).is_none());
        let Some(top) = lines.first() else {
            return Err(SeriesError::new(input.name(), Position::File, "the file is empty")
                .expected("a table with a column of times and columns of numbers"));
        };
        let delimiter = named.unwrap_or_else(|| delimiter_of(top));
        let rows: Vec<Vec<Cell<'_>>> = lines.iter().map(|line| cells(line, delimiter)).collect();
        let offset_seconds = windows_counters(&rows[0]);
        let order = order_of(rows.iter().flatten(), offset_seconds);
        let has_header = rows[0].iter().all(|cell| moment(&cell.text, order).is_none());
        let data = &rows[usize::from(has_header)..];
        if data.is_empty() {
            return Err(SeriesError::new(input.name(), Position::File, "holds a header and no rows")
                .expected("rows of times and numbers below it"));
        }
        let names = names_of(&rows[0], has_header, &comments, delimiter, order);
        let named = named_time(data, &names, order);
        let values = data.iter().flat_map(|row| row.iter().enumerate()).filter(|(place, _)| Some(*place) != named);
        let marks = Marks::of(values.map(|(_, cell)| &*cell.text));
        if marks == Marks::Unclear {
            return Err(SeriesError::new(input.name(), Position::File, unclear(data))
                .expected("numbers with a point before their decimals, or without marks between thousands")
                .hint("export them without a thousands separator"));
        }
        let Some(time) = time_column(data, &names, marks, order) else {
            let line = 1 + u64::from(has_header);
            return Err(SeriesError::new(input.name(), Position::Text { line, column: 1 }, "no column holds times")
                .expected("a column of Unix times (s, ms, us, ns) or dates such as 2016-02-24 07:00:00"));
        };
        let order = order_of(column(data, time), offset_seconds);
        // Another column of dates neither names a series nor is one, and neither do the columns that a tool adds for itself.
        let of_tool = tool_columns(&names, &comments);
        let others: Vec<usize> = (0..names.len())
            .filter(|place| *place != time && !of_tool.contains(&names[*place].as_str()))
            .filter(|place| !is_date(data, *place, marks, order))
            .collect();
        let (labels, numeric): (Vec<usize>, Vec<usize>) =
            others.into_iter().partition(|place| is_label(data, *place, marks));
        let step_seconds = step(data, time, &labels, order);
        let units = names.iter().map(|name| unit_of_heading(name)).collect();
        Ok(Self {
            delimiter,
            has_header,
            names,
            time,
            labels,
            numeric,
            units,
            step_seconds,
            marks,
            order,
            offset_seconds,
        })
    }

    /// The time in a cell, in seconds since 1970-01-01, and by how much its clock is ahead of UTC.
    pub(super) fn moment(&self, cell: &[u8]) -> Option<(i64, Option<i32>)> {
        let (seconds, offset) = moment(cell, self.order)?;
        match (offset, self.offset_seconds) {
            (None, Some(ahead)) => Some((seconds - i64::from(ahead), Some(ahead))),
            (offset, _) => Some((seconds, offset)),
        }
    }

    /// Whether a row is the heading again, as where several exports stand in one file.
    pub(super) fn is_heading(&self, cells: &[Cell<'_>]) -> bool {
        self.has_header
            && cells.len() == self.names.len()
            && cells.iter().zip(&self.names).all(|(cell, name)| cell.text.is_empty() || *cell.text == *name.as_bytes())
    }
}

/// The number of rows by which the meaning of a column is told.
const SAMPLE_ROWS: usize = 100;

fn column<'a>(rows: &'a [Vec<Cell<'a>>], place: usize) -> impl Iterator<Item = &'a Cell<'a>> {
    rows.iter().filter_map(move |row| row.get(place))
}

fn is_time(rows: &[Vec<Cell<'_>>], place: usize, order: DateOrder) -> bool {
    let (mut all, mut times) = (0, 0);
    for cell in column(rows, place).take(SAMPLE_ROWS) {
        all += 1;
        times += usize::from(moment(&cell.text, order).is_some());
    }
    times * 2 > all
}

/// Whether a column holds dates: a small number may or may not be a time, but a date always is.
fn is_date(rows: &[Vec<Cell<'_>>], place: usize, marks: Marks, order: DateOrder) -> bool {
    is_time(rows, place, order)
        && !column(rows, place).take(SAMPLE_ROWS).any(|cell| number(&cell.text, marks).is_some())
}

/// The order of the dates in cells; Windows writes the month first.
fn order_of<'a>(cells: impl Iterator<Item = &'a Cell<'a>>, windows: Option<i32>) -> DateOrder {
    match windows {
        Some(_) => DateOrder::MonthFirst,
        None => DateOrder::of(cells.filter_map(|cell| std::str::from_utf8(&cell.text).ok())),
    }
}

/// Whether no cell of a column is a number: it names series then.
fn is_label(rows: &[Vec<Cell<'_>>], place: usize, marks: Marks) -> bool {
    let mut known = column(rows, place).filter(|cell| !is_missing(&cell.text)).take(SAMPLE_ROWS).peekable();
    known.peek().is_some() && known.all(|cell| number(&cell.text, marks).is_none())
}

/// The character that divides the columns of a heading or row.
fn delimiter_of(line: &[u8]) -> u8 {
    // Quoted text is a name, whatever it holds: {device="sda",job="node"}.
    let unquoted: Vec<u8> = line.split(|byte| *byte == b'"').step_by(2).flatten().copied().collect();
    let count = |delimiter: u8| unquoted.iter().filter(|byte| **byte == delimiter).count();
    // The first of the most frequent: a semicolon wins over decimal commas only if there are more semicolons.
    DELIMITERS.into_iter().rev().max_by_key(|delimiter| count(*delimiter)).unwrap_or(b',')
}

/// The column that is named as one of times and holds them.
fn named_time(rows: &[Vec<Cell<'_>>], names: &[String], order: DateOrder) -> Option<usize> {
    let is_named = |name: &str| {
        let name = name.trim_start_matches('_').to_lowercase();
        TIME_NAMES.iter().any(|known| name.split(|c: char| !c.is_ascii_alphanumeric()).next() == Some(*known))
    };
    (0..names.len()).find(|place| is_named(&names[*place]) && is_time(rows, *place, order))
}

/// The column of times: the one that is named so, or else the first of dates, or else the first of numbers that can be times.
fn time_column(rows: &[Vec<Cell<'_>>], names: &[String], marks: Marks, order: DateOrder) -> Option<usize> {
    named_time(rows, names, order)
        .or_else(|| (0..names.len()).find(|place| is_date(rows, *place, marks, order)))
        .or_else(|| (0..names.len()).find(|place| is_time(rows, *place, order)))
}

/// By how much the clock of a table of Windows' performance counters is ahead of UTC, which its first heading says:
/// `(PDH-CSV 4.0) (W. Europe Standard Time)(-60)`.
fn windows_counters(heading: &[Cell<'_>]) -> Option<i32> {
    let text = std::str::from_utf8(&heading.first()?.text).ok()?.strip_prefix("(PDH-")?;
    let minutes: i32 = text.strip_suffix(')')?.rsplit_once('(')?.1.parse().ok()?;
    (minutes.abs() <= 18 * 60).then_some(-60 * minutes)
}

/// The columns that a tool adds for itself: the seconds between two rows of sadf, and the numbers of tables of InfluxDB.
fn tool_columns(names: &[String], comments: &[&[u8]]) -> &'static [&'static str] {
    if names.first().is_some_and(|name| name == "hostname") {
        &["interval"]
    } else if comments.iter().any(|comment| comment.starts_with(b"datatype")) {
        &["result", "table"]
    } else {
        &[]
    }
}

/// The names of the columns: from the header, or from the comments after `#` that sadf and others write.
fn names_of(first: &[Cell<'_>], has_header: bool, comments: &[&[u8]], delimiter: u8, order: DateOrder) -> Vec<String> {
    let is_time = |cell: &Cell<'_>| moment(&cell.text, order).is_some();
    if !has_header && delimiter == b'\t' && first.len() == SADF_COLUMNS.len() && first.get(2).is_some_and(is_time) {
        // A line of `sadf -p` is one value.
        return SADF_COLUMNS.map(str::to_owned).into();
    }
    let commented = comments
        .iter()
        .map(|line| cells(line, delimiter))
        .rfind(|names| names.len() == first.len() && names.len() > 1 && !names.iter().any(is_time));
    let heading = if has_header { Some(first) } else { commented.as_deref() };
    let mut names: Vec<String> = Vec::with_capacity(first.len());
    for place in 0..first.len() {
        let name = match heading.and_then(|heading| heading.get(place)) {
            Some(cell) if !cell.text.is_empty() => String::from_utf8_lossy(&cell.text).into_owned(),
            _ => format!("column {}", place + 1),
        };
        let is_taken = names.iter().any(|known| known.eq_ignore_ascii_case(&name));
        names.push(if is_taken { format!("{name} (column {})", place + 1) } else { name });
    }
    names
}

/// The median distance between a row and the next one with the same labels.
fn step(rows: &[Vec<Cell<'_>>], time: usize, labels: &[usize], order: DateOrder) -> f64 {
    let mut last: BTreeMap<Vec<&[u8]>, i64> = BTreeMap::new();
    let mut steps: Vec<u64> = Vec::new();
    for row in rows {
        let Some((now, _)) = row.get(time).and_then(|cell| moment(&cell.text, order)) else { continue };
        let label: Vec<&[u8]> = labels.iter().filter_map(|place| row.get(*place)).map(|cell| &*cell.text).collect();
        if let Some(before) = last.insert(label, now)
            && now != before
        {
            steps.push(now.abs_diff(before));
        }
    }
    steps.sort_unstable();
    steps.get(steps.len().saturating_sub(1) / 2).map_or(0.0, |step| *step as f64)
}

/// A cell without its quotes, and its offset in the line.
#[derive(Clone, Debug)]
pub(super) struct Cell<'a> {
    pub(super) text: Cow<'a, [u8]>,
    pub(super) at: usize,
}

pub(super) fn cells(line: &[u8], delimiter: u8) -> Vec<Cell<'_>> {
    let mut out = Vec::new();
    let mut start = 0;
    loop {
        let rest = &line[start..];
        let lead = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t') && **byte != delimiter).count();
        let body = &rest[lead..];
        let quoted = if body.first() == Some(&b'"') { quoted(&body[1..]) } else { None };
        let (text, from) = match quoted {
            Some((text, length)) => (text, lead + length + 2),
            None => (Cow::Borrowed(body), 0),
        };
        let end = memchr(delimiter, &rest[from..]).map(|found| from + found);
        let plain = || Cow::Borrowed(rest[lead..end.unwrap_or(rest.len()).max(lead)].trim_ascii());
        out.push(Cell { text: if from > 0 { text } else { plain() }, at: start + lead });
        match end {
            Some(end) => start += end + 1,
            None => return out,
        }
    }
}

/// The text up to the closing quote, and its length in the line; two quotes in a row are one that belongs to the text.
fn quoted(body: &[u8]) -> Option<(Cow<'_, [u8]>, usize)> {
    let mut end = memchr(b'"', body)?;
    let mut text = Cow::Borrowed(&body[..end]);
    while body.get(end + 1) == Some(&b'"') {
        let more = memchr(b'"', &body[end + 2..])?;
        text.to_mut().extend_from_slice(&body[end + 1..end + 2 + more]);
        end += 2 + more;
    }
    Some((text, end))
}

pub(super) fn is_blank(line: &[u8]) -> bool {
    line.is_empty() || line[0] == b'#' || separator_line(line).is_some()
}

/// The separator in a line `sep=;`, which spreadsheets put first.
fn separator_line(line: &[u8]) -> Option<u8> {
    match line {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', separator] => Some(*separator),
        _ => None,
    }
}

/// A line without the byte order mark, which some exporters put first.
pub(super) fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Whether a row is a mark in the place of values: a restart of the machine or a comment of sadf, or the last words of typeperf.
pub(super) fn is_mark(cells: &[Cell<'_>]) -> bool {
    const LAST_WORDS: [&[u8]; 2] = [b"The command completed successfully", b"Exiting, please wait"];
    let text = cells.last().map_or(&[][..], |cell| &cell.text);
    match cells.len() {
        4 => text.starts_with(RESTART) || text.starts_with(b"COM "),
        1 => LAST_WORDS.iter().any(|words| text.starts_with(words)),
        _ => false,
    }
}

/// Why numbers such as `1,523` cannot be read.
fn unclear(rows: &[Vec<Cell<'_>>]) -> String {
    let cell = rows
        .iter()
        .flatten()
        .find(|cell| cell.text.contains(&b',') && cell.text.first().is_some_and(u8::is_ascii_digit));
    let shown = cell.map_or_else(String::new, |cell| cell.text.escape_ascii().to_string());
    format!("`{shown}` may have a comma between thousands or before decimals, and no number in the file tells which")
}
