//! Reads tables of values (CSV) as series.
//!
//! The delimiter (comma, semicolon, tab, bar), the header, the time column and label columns are recognised from the first
//! 64 KiB. The file is read as a stream; only bins are kept.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use memchr::{memchr, memmem};

use super::bins::Binner;
use super::sysstat::rewritten;
use super::time::{moment, offset_of};
use super::value::{Marks, is_missing, number};
use super::{Losses, Series, SeriesError, SeriesOptions};
use ioweir_trace::{Chunks, HEAD_BYTES, Input, Position, no_pointer, unreadable};

/// The longest line of a table.
const LINE_BYTES_MAX: usize = 1 << 16;
/// The bin length for a table of one row.
const STEP_USUAL: u32 = 600;
/// The most bins of all series together.
const BINS_MAX: usize = 1 << 24;
/// The most series.
const SERIES_MAX: usize = 1 << 12;
/// How sadf marks a restart of the machine, in the place of values.
const RESTART: &[u8] = b"LINUX-RESTART";
const DELIMITERS: [u8; 4] = [b';', b'\t', b'|', b','];
const TIME_NAMES: [&str; 7] = ["timestamp", "time", "ts", "date", "datetime", "epoch", "unix"];

/// Reads a file, compressed or not: one series for each column of numbers, and for each label if rows have one.
///
/// # Errors
/// [`SeriesError`] at the first line that cannot be parsed.
pub fn read_series(path: &Path, options: &SeriesOptions) -> Result<Vec<Series>, SeriesError> {
    read_inputs(&[Input::from_path(path)], options)
}

/// As [`read_series`], from files that follow one another in time and have the same columns, or from memory.
///
/// # Errors
/// As [`read_series`].
pub fn read_inputs(inputs: &[Input], options: &SeriesOptions) -> Result<Vec<Series>, SeriesError> {
    inputs.iter().try_for_each(no_pointer)?;
    let (mut tables, mut passed_over, mut month_first) = (Vec::new(), 0, false);
    for input in inputs {
        tables.push(match rewritten(input)? {
            Some(report) => {
                passed_over += report.passed_over;
                month_first |= report.is_month_first;
                report.input
            }
            None => input.clone(),
        });
    }
    let Some(first) = tables.first() else { return Ok(Vec::new()) };
    let layout = Layout::of(first)?;
    let mut table = Table::new(&layout, options, first.name())?;
    (table.marks, table.dates_month_first) = (passed_over, month_first);
    for input in &tables {
        let layout = if input.name() == first.name() { layout.clone() } else { Layout::of(input)? };
        table.read(input, &layout)?;
    }
    table.finish(first.name())
}

/// The layout of a file, from its first lines.
#[derive(Clone, Debug)]
struct Layout {
    delimiter: u8,
    has_header: bool,
    names: Vec<String>,
    time: usize,
    labels: Vec<usize>,
    step_seconds: f64,
    marks: Marks,
    /// Whether times say how far their clock is from UTC.
    has_offsets: bool,
}

impl Layout {
    fn of(input: &Input) -> Result<Self, SeriesError> {
        let head = input.head()?;
        let mut lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').map(trimmed).collect();
        if head.len() == HEAD_BYTES {
            // The last line may be incomplete.
            lines.pop();
        }
        if let Some(first) = lines.first_mut() {
            *first = without_mark(first);
        }
        let named = lines.iter().find_map(|line| separator_line(line));
        let comments: Vec<&[u8]> = lines.iter().filter_map(|line| line.strip_prefix(b"#")).map(trimmed).collect();
        lines.retain(|line| !is_blank(line) && memmem::find(line, RESTART).is_none());
        let Some(top) = lines.first() else {
            return Err(SeriesError::new(input.name(), Position::File, "the file is empty")
                .expected("a table with a column of times and columns of numbers"));
        };
        // Quoted text is a name, whatever it holds: {device="sda",job="node"}.
        let unquoted: Vec<u8> = top.split(|byte| *byte == b'"').step_by(2).flatten().copied().collect();
        let count = |delimiter: u8| unquoted.iter().filter(|byte| **byte == delimiter).count();
        // The first of the most frequent: a semicolon wins over decimal commas only if there are more semicolons.
        let usual = DELIMITERS.into_iter().rev().max_by_key(|delimiter| count(*delimiter)).unwrap_or(b',');
        let delimiter = named.unwrap_or(usual);
        let rows: Vec<Vec<Cell<'_>>> = lines.iter().map(|line| cells(line, delimiter)).collect();
        let has_header = rows[0].iter().all(|cell| moment(&cell.text).is_none());
        let data = &rows[usize::from(has_header)..];
        if data.is_empty() {
            return Err(SeriesError::new(input.name(), Position::File, "holds a header and no rows")
                .expected("rows of times and numbers below it"));
        }
        let names = names_of(&rows[0], has_header, &comments, delimiter);
        let is_time = |place: usize| {
            let known: Vec<_> = data.iter().filter_map(|row| row.get(place)).take(100).collect();
            known.iter().filter(|cell| moment(&cell.text).is_some()).count() * 2 > known.len()
        };
        let named = |place: &usize| {
            let name = names[*place].to_lowercase();
            TIME_NAMES.iter().any(|known| name.split(|c: char| !c.is_ascii_alphanumeric()).next() == Some(*known))
        };
        let time = (0..names.len()).find(|place| named(place) && is_time(*place));
        let numeric = data.iter().flat_map(|row| row.iter().enumerate());
        let marks = Marks::of(numeric.filter(|(place, _)| Some(*place) != time).map(|(_, cell)| &*cell.text));
        if marks == Marks::Unclear {
            return Err(SeriesError::new(input.name(), Position::File, unclear(data))
                .expected("numbers with a point before their decimals, or without marks between thousands")
                .hint("export them without a thousands separator"));
        }
        // A small number may or may not be a time; a date always is.
        let is_date = |place: usize| {
            let is_number =
                |row: &&Vec<Cell<'_>>| row.get(place).is_some_and(|cell| number(&cell.text, marks).is_some());
            is_time(place) && !data.iter().take(100).any(|row| is_number(&row))
        };
        let time = time.or_else(|| (0..names.len()).find(|place| is_date(*place)));
        let Some(time) = time.or_else(|| (0..names.len()).find(|place| is_time(*place))) else {
            let line = 1 + u64::from(has_header);
            return Err(SeriesError::new(input.name(), Position::Text { line, column: 1 }, "no column holds times")
                .expected("a column of Unix times (s, ms, us, ns) or dates such as 2016-02-24 07:00:00"));
        };
        let is_label = |place: usize| {
            let known: Vec<_> =
                data.iter().filter_map(|row| row.get(place)).filter(|cell| !is_missing(&cell.text)).take(100).collect();
            !known.is_empty() && known.iter().all(|cell| number(&cell.text, marks).is_none())
        };
        let labels = (0..names.len()).filter(|place| *place != time && is_label(*place)).collect::<Vec<_>>();
        let step_seconds = step(data, time, &labels);
        let has_offsets = data.iter().filter_map(|row| row.get(time)).any(|cell| offset_of(&cell.text).is_some());
        Ok(Self { delimiter, has_header, names, time, labels, step_seconds, marks, has_offsets })
    }
}

/// The names of the columns: from the header, or from the comments after `#` that sadf and others write.
fn names_of(first: &[Cell<'_>], has_header: bool, comments: &[&[u8]], delimiter: u8) -> Vec<String> {
    let commented = comments.iter().map(|line| cells(line, delimiter)).rfind(|names| {
        names.len() == first.len() && names.len() > 1 && names.iter().all(|cell| moment(&cell.text).is_none())
    });
    let heading = if has_header { Some(first) } else { commented.as_deref() };
    (0..first.len())
        .map(|place| match heading.and_then(|heading| heading.get(place)) {
            Some(cell) if !cell.text.is_empty() => String::from_utf8_lossy(&cell.text).into_owned(),
            _ => format!("column {}", place + 1),
        })
        .collect()
}

/// The median distance between a row and the next one with the same labels.
fn step(rows: &[Vec<Cell<'_>>], time: usize, labels: &[usize]) -> f64 {
    let mut last: BTreeMap<Vec<&[u8]>, i64> = BTreeMap::new();
    let mut steps: Vec<u64> = Vec::new();
    for row in rows {
        let Some(now) = row.get(time).and_then(|cell| moment(&cell.text)) else { continue };
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
struct Cell<'a> {
    text: Cow<'a, [u8]>,
    at: usize,
}

fn cells(line: &[u8], delimiter: u8) -> Vec<Cell<'_>> {
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
        let plain = || Cow::Borrowed(trimmed(&rest[lead..end.unwrap_or(rest.len()).max(lead)]));
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

fn trimmed(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

fn is_blank(line: &[u8]) -> bool {
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
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Whether a row is a mark of sadf in the place of values: a restart of the machine, or a comment.
fn is_mark(cells: &[Cell<'_>]) -> bool {
    let text = cells.last().map_or(&[][..], |cell| &cell.text);
    cells.len() == 4 && (text.starts_with(RESTART) || text.starts_with(b"COM "))
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

/// The table being read: rows become series.
struct Table<'a> {
    options: &'a SeriesOptions,
    bin_seconds: u32,
    step_seconds: f64,
    /// The columns that are read, by name.
    columns: Vec<String>,
    series: BTreeMap<(usize, Vec<u8>), Binner>,
    bins: usize,
    rows: u64,
    utc_offset_seconds: Option<i32>,
    /// Rows that are marks of the tool.
    marks: u64,
    dates_month_first: bool,
}

impl<'a> Table<'a> {
    fn new(layout: &Layout, options: &'a SeriesOptions, file: &str) -> Result<Self, SeriesError> {
        let is_of_sadf = layout.names.first().is_some_and(|name| name == "hostname");
        let numeric = |place: &usize| {
            let is_interval = is_of_sadf && layout.names[*place] == "interval";
            *place != layout.time && !layout.labels.contains(place) && !is_interval
        };
        let columns: Vec<String> = if options.columns.is_empty() {
            (0..layout.names.len()).filter(numeric).map(|place| layout.names[place].clone()).collect()
        } else {
            options.columns.clone()
        };
        if columns.is_empty() {
            return Err(SeriesError::new(file, Position::File, "no column holds numbers").expected("one at least"));
        }
        let near = || if layout.step_seconds > 0.0 { divisor_near(layout.step_seconds) } else { STEP_USUAL };
        let bin_seconds = options.bin_seconds.unwrap_or_else(near).max(1);
        Ok(Self {
            options,
            bin_seconds,
            step_seconds: layout.step_seconds,
            columns,
            series: BTreeMap::new(),
            bins: 0,
            rows: 0,
            utc_offset_seconds: None,
            marks: 0,
            dates_month_first: false,
        })
    }

    fn read(&mut self, input: &Input, layout: &Layout) -> Result<(), SeriesError> {
        let file = input.name();
        let mut places = Vec::with_capacity(self.columns.len());
        for name in &self.columns {
            let place = layout.names.iter().position(|known| known.eq_ignore_ascii_case(name.trim()));
            places.push(place.filter(|place| *place != layout.time).ok_or_else(|| {
                SeriesError::new(file, Position::File, format!("has no column `{}`", ioweir_config::shown(name)))
                    .expected(format!("one of {}", layout.names.join(", ")))
            })?);
        }
        let mut chunks = input.open()?;
        let mut at = Reached { line: 0, header: layout.has_header };
        let position = |line: u64, column: u64| Position::Text { line, column };
        loop {
            self.lines(&mut chunks, false, &mut at, |table, line| table.row(line, layout, &places))
                .map_err(|(line, fault)| fault.placed(file, line))?;
            if chunks.available().len() > LINE_BYTES_MAX {
                let position = position(at.line + 1, LINE_BYTES_MAX as u64 + 1);
                return Err(SeriesError::new(
                    file,
                    position,
                    format!("the line is longer than {LINE_BYTES_MAX} bytes"),
                ));
            }
            match chunks.more() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Err(unreadable(file, position(at.line + 1, 1), &error)),
            }
        }
        self.lines(&mut chunks, true, &mut at, |table, line| table.row(line, layout, &places))
            .map_err(|(line, fault)| fault.placed(file, line))
    }

    /// Reads the available lines: complete ones, and at the end of the file also the last.
    fn lines(
        &mut self,
        chunks: &mut Chunks,
        at_end: bool,
        at: &mut Reached,
        row: impl Fn(&mut Self, &[u8]) -> Result<(), Fault>,
    ) -> Result<(), (u64, Fault)> {
        let mut used = 0;
        let available = chunks.available();
        while used < available.len() {
            let (line, next) = match memchr(b'\n', &available[used..]) {
                Some(length) => (&available[used..used + length], used + length + 1),
                None if at_end => (&available[used..], available.len()),
                None => break,
            };
            used = next;
            at.line += 1;
            if !is_blank(trimmed(line)) && !std::mem::take(&mut at.header) {
                row(self, line).map_err(|fault| (at.line, fault))?;
            }
        }
        chunks.consume(used);
        Ok(())
    }

    fn row(&mut self, line: &[u8], layout: &Layout, places: &[usize]) -> Result<(), Fault> {
        let cells = cells(without_mark(line), layout.delimiter);
        if cells.len() < layout.names.len() && is_mark(&cells) {
            self.marks += 1;
            return Ok(());
        }
        self.rows += 1;
        let cell = |place: usize, what: &str| {
            cells.get(place).ok_or_else(|| Fault {
                at: line.len(),
                problem: format!("the line ends before its column `{what}`"),
                expected: format!("{} columns", layout.names.len()),
                hint: String::new(),
            })
        };
        let when = cell(layout.time, &layout.names[layout.time])?;
        let time = moment(&when.text).ok_or_else(|| Fault {
            at: when.at,
            problem: format!("`{}` is no time", when.text.escape_ascii()),
            expected: "a Unix time or a date such as 2016-02-24 07:00:00".into(),
            hint: String::new(),
        })?;
        if layout.has_offsets {
            self.utc_offset_seconds = offset_of(&when.text).or(self.utc_offset_seconds);
        }
        let mut label = Vec::new();
        for place in &layout.labels {
            let text = &cell(*place, &layout.names[*place])?.text;
            if !label.is_empty() {
                label.push(b' ');
            }
            label.extend_from_slice(text);
        }
        for (number_of_column, place) in places.iter().enumerate() {
            let held = cell(*place, &self.columns[number_of_column])?;
            let value = if is_missing(&held.text) { None } else { number(&held.text, layout.marks) };
            if value.is_none() && !is_missing(&held.text) {
                return Err(Fault {
                    at: held.at,
                    problem: format!("`{}` is not a number", held.text.escape_ascii()),
                    expected: format!(
                        "a number in column `{}`, or nothing where it is not known",
                        self.columns[number_of_column]
                    ),
                    hint: "choose the columns to read by name".into(),
                });
            }
            self.put(number_of_column, &label, time, value).map_err(|problem| Fault {
                at: when.at,
                problem,
                expected: format!("at most {BINS_MAX} bins of {} s in at most {SERIES_MAX} series", self.bin_seconds),
                hint: "is a time damaged? else take longer bins".into(),
            })?;
        }
        Ok(())
    }

    fn put(&mut self, column: usize, label: &[u8], time: i64, value: Option<f64>) -> Result<(), String> {
        let key = (column, label.to_vec());
        if !self.series.contains_key(&key) && self.series.len() >= SERIES_MAX {
            return Err(format!("there are more than {SERIES_MAX} series"));
        }
        let binner = self.series.entry(key).or_insert_with(|| Binner::new(self.options, self.bin_seconds));
        let before = binner.bins();
        let room = BINS_MAX - self.bins.min(BINS_MAX) + before;
        binner.add(time, value, room).map_err(|bins| format!("this time makes {bins} bins of the series"))?;
        self.bins += binner.bins() - before;
        Ok(())
    }

    fn finish(self, file: &str) -> Result<Vec<Series>, SeriesError> {
        if self.rows == 1 && self.options.bin_seconds.is_none() {
            return Err(SeriesError::new(file, Position::File, "holds one row: the step between rows is not known")
                .expected("at least two rows, or the length of a bin"));
        }
        let (rows, utc_offset_seconds) = (self.rows, self.utc_offset_seconds.filter(|offset| *offset != 0));
        let labelled = self.series.keys().any(|(_, label)| !label.is_empty());
        let mut out: Vec<Series> = Vec::new();
        let mut columns_of: Vec<usize> = Vec::new();
        for ((column, label), binner) in self.series {
            if binner.is_empty() {
                continue;
            }
            let looks_like_counter = binner.looks_like_counter(&self.columns[column]);
            let (start_unix_seconds, values, losses) = binner.finish(self.step_seconds);
            if values.iter().all(Option::is_none) {
                continue;
            }
            let name = if labelled && !self.options.total {
                format!("{} {}", String::from_utf8_lossy(&label), self.columns[column])
            } else {
                self.columns[column].clone()
            };
            let losses = Losses {
                looks_like_counter,
                rows_passed_over: self.marks,
                utc_offset_seconds,
                dates_month_first: self.dates_month_first,
                ..losses
            };
            columns_of.push(column);
            out.push(Series { name, start_unix_seconds, bin_seconds: self.bin_seconds, values, losses });
        }
        if self.options.total {
            out = totals(out, &columns_of).map_err(|bins| {
                let problem = format!("the times of its labels lie so far apart that their total has {bins} bins");
                SeriesError::new(file, Position::File, problem)
                    .expected(format!("at most {BINS_MAX} bins of {} s", self.bin_seconds))
                    .hint("is a time damaged? else take longer bins")
            })?;
            // Labels that never occur together have no total.
            out.retain(|series| series.values.iter().any(Option::is_some));
        }
        if out.is_empty() {
            let problem = format!("holds no values: in none of its {rows} rows is there a number that can be one");
            return Err(SeriesError::new(file, Position::File, problem).expected("rows of times and numbers"));
        }
        Ok(out)
    }
}

/// The reading position in a file.
struct Reached {
    line: u64,
    /// Whether the header has yet to come.
    header: bool,
}

/// An error in a line, before its position is known.
struct Fault {
    at: usize,
    problem: String,
    expected: String,
    hint: String,
}

impl Fault {
    fn placed(self, file: &str, line: u64) -> SeriesError {
        let position = Position::Text { line, column: self.at as u64 + 1 };
        SeriesError::new(file, position, self.problem).expected(self.expected).hint(self.hint)
    }
}

/// The divisor of a day that is nearest to `step_seconds`.
fn divisor_near(step_seconds: f64) -> u32 {
    let distance = |bin: u32| (f64::from(bin).ln() - step_seconds.max(1.0).ln()).abs();
    let divisors = (1..=86_400_u32).filter(|bin| 86_400 % bin == 0);
    divisors.min_by(|left, right| distance(*left).total_cmp(&distance(*right))).unwrap_or(600)
}

/// The sum of all series of each column; a gap if any of them has one. The error is how many bins there would be: labels that are
/// short by themselves can lie far apart.
fn totals(series: Vec<Series>, columns: &[usize]) -> Result<Vec<Series>, i64> {
    let mut out: Vec<(usize, Series)> = Vec::new();
    for (series, column) in series.into_iter().zip(columns) {
        let all: usize = out.iter().map(|(_, total)| total.values.len()).sum();
        let Some((_, total)) = out.iter_mut().find(|(known, _)| known == column) else {
            out.push((*column, series));
            continue;
        };
        let bin = i64::from(total.bin_seconds);
        let end = |series: &Series| series.start_unix_seconds / bin + series.values.len() as i64;
        let first = (total.start_unix_seconds / bin).min(series.start_unix_seconds / bin);
        let last = end(total).max(end(&series));
        let bins = (all - total.values.len()) as i64 + last - first;
        if bins > BINS_MAX as i64 {
            return Err(bins);
        }
        let at = |series: &Series, place: i64| {
            let place = usize::try_from(place - series.start_unix_seconds / bin).ok()?;
            series.values.get(place).copied().flatten()
        };
        let values = (first..last).map(|place| Some(at(total, place)? + at(&series, place)?)).collect();
        let (left, right) = (total.losses, series.losses);
        total.losses = left.and(right);
        total.start_unix_seconds = first * bin;
        total.values = values;
    }
    Ok(out.into_iter().map(|(_, series)| series).collect())
}
