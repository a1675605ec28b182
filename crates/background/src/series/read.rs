//! Reads tables of values (CSV) as series.
//!
//! The delimiter (comma, semicolon, tab, bar), the header, the time column and label columns are recognised from the first
//! 64 KiB. The file is read as a stream; only bins are kept.

use std::collections::BTreeMap;

use ioweir_config::date::DateOrder;
use memchr::memchr;

use super::bins::Binner;
use super::fio::KINDS;
use super::layout::{Layout, cells, is_blank, is_mark, without_mark};
use super::report::as_table;
use super::value::{is_missing, number_and_unit};
use super::{Losses, Series, SeriesError, SeriesOptions};
use ioweir_trace::{Chunks, Input, Position, no_pointer, unreadable};

/// The longest line of a table.
const LINE_BYTES_MAX: usize = 1 << 16;
/// The bin length for a table of one row.
const STEP_USUAL: u32 = 600;
/// The most bins of all series together.
const BINS_MAX: usize = 1 << 24;
/// The most series.
const SERIES_MAX: usize = 1 << 12;

/// Reads files that follow one another in time and have the same columns, compressed or not: one series for each column of numbers, and
/// for each label if rows have one. Logs of several jobs of fio ran side by side: the name of its file is a label of each.
///
/// # Errors
/// [`SeriesError`] at the first line that cannot be parsed.
pub fn read_inputs(inputs: &[Input], options: &SeriesOptions) -> Result<Vec<Series>, SeriesError> {
    inputs.iter().try_for_each(no_pointer)?;
    let (mut tables, mut passed_over, mut month_first) = (Vec::new(), 0, false);
    for input in inputs {
        tables.push(match as_table(input)? {
            Some(report) => {
                passed_over += report.passed_over;
                month_first |= report.is_month_first;
                let job = (report.is_of_job && inputs.len() > 1).then(|| job_of(input));
                (report.input, job.unwrap_or_default())
            }
            None => (input.clone(), String::new()),
        });
    }
    let Some((first, _)) = tables.first() else { return Ok(Vec::new()) };
    let layout = Layout::of(first)?;
    let mut table = Table::new(&layout, options, first.name())?;
    (table.passed_over, table.dates_month_first) = (passed_over, month_first || layout.order == DateOrder::Assumed);
    for (input, job) in &tables {
        let layout = if input.name() == first.name() { layout.clone() } else { Layout::of(input)? };
        table.read(input, &layout, job)?;
    }
    table.finish(first.name())
}

/// The name of a job of fio, from that of its log: `load_bw.3.log` is of `load.3`.
fn job_of(input: &Input) -> String {
    let name = input.volume_name();
    let name = name.strip_suffix(".log").unwrap_or(&name);
    KINDS.iter().fold(name.to_owned(), |name, (kind, _)| name.replace(&format!("{kind}."), "."))
}

/// The table being read: rows become series.
struct Table<'a> {
    options: &'a SeriesOptions,
    bin_seconds: u32,
    step_seconds: f64,
    /// The columns that are read, by name.
    columns: Vec<String>,
    /// For each column whose heading states a unit, the factor of its values and its name afterwards.
    units: Vec<Option<(f64, String)>>,
    series: BTreeMap<(usize, Vec<u8>), Binner>,
    bins: usize,
    rows: u64,
    utc_offset_seconds: Option<i32>,
    /// Rows that are marks of the tool, or headings again.
    passed_over: u64,
    dates_month_first: bool,
}

impl<'a> Table<'a> {
    fn new(layout: &Layout, options: &'a SeriesOptions, file: &str) -> Result<Self, SeriesError> {
        let columns: Vec<String> = if options.columns.is_empty() {
            layout.numeric.iter().map(|place| layout.names[*place].clone()).collect()
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
            passed_over: 0,
            units: Vec::new(),
            dates_month_first: false,
        })
    }

    /// Reads a file; `job` is the first label of all its rows, if it has one.
    fn read(&mut self, input: &Input, layout: &Layout, job: &str) -> Result<(), SeriesError> {
        let file = input.name();
        let mut places = Vec::with_capacity(self.columns.len());
        for name in &self.columns {
            let place = layout.names.iter().position(|known| known.eq_ignore_ascii_case(name.trim()));
            places.push(place.filter(|place| *place != layout.time).ok_or_else(|| {
                SeriesError::new(file, Position::File, format!("has no column `{}`", ioweir_config::shown(name)))
                    .expected(format!("one of {}", layout.names.join(", ")))
            })?);
        }
        if self.units.is_empty() {
            self.units = places.iter().map(|place| layout.units[*place].clone()).collect();
        }
        let mut chunks = input.open()?;
        let mut at = Reached { line: 0, header: layout.has_header };
        let position = |line: u64, column: u64| Position::Text { line, column };
        loop {
            self.lines(&mut chunks, false, &mut at, |table, line| table.row(line, layout, &places, job))
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
        self.lines(&mut chunks, true, &mut at, |table, line| table.row(line, layout, &places, job))
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
            if !is_blank(line.trim_ascii()) && !std::mem::take(&mut at.header) {
                row(self, line).map_err(|fault| (at.line, fault))?;
            }
        }
        chunks.consume(used);
        Ok(())
    }

    fn row(&mut self, line: &[u8], layout: &Layout, places: &[usize], job: &str) -> Result<(), Fault> {
        let cells = cells(without_mark(line), layout.delimiter);
        if cells.len() < layout.names.len() && is_mark(&cells) || layout.is_heading(&cells) {
            self.passed_over += 1;
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
        let (time, offset_seconds) = layout.moment(&when.text).ok_or_else(|| Fault {
            at: when.at,
            problem: format!("`{}` is no time", when.text.escape_ascii()),
            expected: "a Unix time or a date such as 2016-02-24 07:00:00".into(),
            hint: String::new(),
        })?;
        self.utc_offset_seconds = offset_seconds.or(self.utc_offset_seconds);
        let mut label = job.as_bytes().to_vec();
        for place in &layout.labels {
            let text = &cell(*place, &layout.names[*place])?.text;
            if !label.is_empty() {
                label.push(b' ');
            }
            label.extend_from_slice(text);
        }
        for (number_of_column, place) in places.iter().enumerate() {
            let held = cell(*place, &self.columns[number_of_column])?;
            let found = if is_missing(&held.text) { None } else { number_and_unit(&held.text, layout.marks) };
            let factor = self.units[number_of_column].as_ref().map_or(1.0, |(factor, _)| *factor);
            let value = found.map(|(value, has_unit)| if has_unit { value } else { value * factor });
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
                .expected("at least two rows, or the length of a bin")
                .hint("--bin 1h, or bin = \"1h\" in a spec, gives the length"));
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
            let unit = self.units.get(column).and_then(Option::as_ref);
            let shown = unit.map_or(&self.columns[column], |(_, name)| name);
            let name = if labelled && !self.options.total {
                format!("{} {shown}", String::from_utf8_lossy(&label))
            } else {
                shown.clone()
            };
            let losses = Losses {
                looks_like_counter,
                unit_factor: unit.map(|(factor, _)| *factor),
                rows_passed_over: self.passed_over,
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
