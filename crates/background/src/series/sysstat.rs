//! Turns the reports that iostat and sar print into a table: a row for each time and device.
//!
//! Their numbers are averages since the report before, so the first report of iostat, which counts from the start of the
//! machine, is left out. A report may hold several tables of the same devices, which become columns of one row.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ioweir_config::date::{DateOrder, clock_nanos, moment};
use ioweir_trace::{Input, Position, TraceError};

use super::SeriesError;
use super::report::{Report, whole};

const DAY_SECONDS: i64 = 86_400;

/// The table of a report; `None` if the file is none.
pub(super) fn table(input: &Input, head: &[u8]) -> Result<Option<Report>, SeriesError> {
    let Some(tool) = tool(head) else { return Ok(None) };
    let text = whole(input, head)?;
    let dates = text.lines().filter(|line| line.starts_with("Linux ") || date_in(line, DateOrder::Assumed).is_some());
    let order = DateOrder::of(dates);
    let mut lines = Lines { tool, order, ..Lines::default() };
    for (number, line) in (1..).zip(text.lines()) {
        lines.line(without_colours(line).trim_end()).map_err(|(problem, expected, hint)| {
            let position = Position::Text { line: number, column: 1 };
            TraceError::new(input.name(), position, problem).expected(expected).hint(hint)
        })?;
    }
    let report = Report::new(input, lines.table(), lines.passed_over);
    Ok(Some(Report { is_month_first: order == DateOrder::Assumed, ..report }))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tool {
    #[default]
    Iostat,
    Sar,
}

/// Which tool a file begins like: with its heading of columns within the first lines.
fn tool(head: &[u8]) -> Option<Tool> {
    const LINES_MAX: usize = 64;
    let head = String::from_utf8_lossy(head);
    head.lines().take(LINES_MAX).find_map(|line| {
        if is_of_devices(line) {
            return Some(Tool::Iostat);
        }
        let words: Vec<&str> = timed(line)?.1;
        is_heading(&words).then_some(Tool::Sar)
    })
}

/// The heading of one of iostat's tables of devices, which begins or, with -h, ends with `Device`.
fn is_of_devices(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let has_device = [words.first(), words.last()].into_iter().flatten().any(|word| is_device_heading(word));
    has_device && words.iter().any(|word| FIRST_COLUMNS.contains(word))
}

/// The first columns of iostat's tables.
const FIRST_COLUMNS: [&str; 5] = ["tps", "r/s", "w/s", "d/s", "f/s"];

fn is_device_heading(word: &str) -> bool {
    matches!(word, "Device" | "Device:")
}

/// A line without the marks of colours that a terminal gets.
fn without_colours(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return line.into();
    }
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest));
    std::iter::once(first).chain(rest).collect::<String>().into()
}

/// A number as iostat prints it with -h or --human, such as `3.5M` or `12.5%`, in the unit of its column; any other as it is.
fn plain<'a>(text: &'a str, column: &str) -> Cow<'a, str> {
    /// The units of sizes with how many kB each is.
    const UNITS: [(char, f64); 7] = [
        ('s', 0.5),
        ('B', 1.0 / 1024.0),
        ('k', 1.0),
        ('M', 1024.0),
        ('G', 1_048_576.0),
        ('T', 1_073_741_824.0),
        ('P', 1_099_511_627_776.0),
    ];
    if let Some(number) = text.strip_suffix('%') {
        return number.into();
    }
    let unit = UNITS.iter().find_map(|(unit, kilobytes)| Some((text.strip_suffix(*unit)?, kilobytes)));
    let Some((number, kilobytes)) = unit else { return text.into() };
    let Ok(number) = number.parse::<f64>() else { return text.into() };
    let of_column = match column {
        column if column.contains("MB") => 1024.0,
        column if column.contains("GB") => 1_048_576.0,
        column if column.contains("sec") || column.contains("Blk") => 0.5,
        _ => 1.0,
    };
    (number * kilobytes / of_column).to_string().into()
}

/// The heading of a table of sar that is about disks.
fn is_heading(words: &[&str]) -> bool {
    words.len() > 1 && (words[0] == "DEV" || words[0] == "tps")
}

/// A line of sar: the seconds since midnight, and the words behind the time.
fn timed(line: &str) -> Option<(i64, Vec<&str>)> {
    let mut words = line.split_whitespace();
    let clock = words.next()?;
    let mut rest: Vec<&str> = words.collect();
    let half = rest.first().copied().filter(|word| matches!(*word, "AM" | "PM"));
    if half.is_some() {
        rest.remove(0);
    }
    Some((clock_seconds(clock, half)?, rest))
}

fn clock_seconds(clock: &str, half: Option<&str>) -> Option<i64> {
    let seconds = clock_nanos(clock).filter(|_| clock.len() == 8)? / 1_000_000_000;
    let noon = DAY_SECONDS / 2;
    Some(match half {
        Some("AM") => seconds % noon,
        Some(_) => seconds % noon + noon,
        None => seconds,
    })
}

/// The day, in seconds since 1970-01-01, that a line names: the line with the machine's name, or one that is a time.
fn date_in(line: &str, order: DateOrder) -> Option<i64> {
    let is_first = line.starts_with("Linux ");
    let mut words = line.split_whitespace().take(if is_first { usize::MAX } else { 1 });
    let seconds = words.find_map(|word| moment(word, order))?.unix_seconds();
    Some(seconds.div_euclid(DAY_SECONDS) * DAY_SECONDS)
}

/// A report that is being read.
#[derive(Default)]
struct Lines {
    tool: Tool,
    order: DateOrder,
    /// The columns of all tables.
    columns: Vec<String>,
    /// The time, the device and the values of each row, by column.
    rows: Vec<(String, String, Vec<String>)>,
    /// The rows of the last time, by device.
    of_time: BTreeMap<String, usize>,
    /// The columns of the table that is being read, as places in `columns`; empty outside of a table of devices.
    inside: Vec<usize>,
    /// Whether that table has its devices at the end of each line.
    has_device_last: bool,
    /// A device that stands on a line of its own before its numbers, as with -h of older versions.
    device: Option<String>,
    /// The day of the report, in seconds since 1970-01-01.
    day: Option<i64>,
    /// The last time, as it is written into the table.
    time: Option<String>,
    clock: i64,
    reports: u64,
    passed_over: u64,
}

/// A problem, what was expected, and a hint.
type Wrong = (String, &'static str, &'static str);

impl Lines {
    fn line(&mut self, line: &str) -> Result<(), Wrong> {
        if line.starts_with("Linux ") {
            self.day = date_in(line, self.order).or(self.day);
            return Ok(());
        }
        match self.tool {
            Tool::Iostat => self.of_iostat(line),
            Tool::Sar => self.of_sar(line),
        }
    }

    fn of_iostat(&mut self, line: &str) -> Result<(), Wrong> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(first), Some(last)) = (words.first(), words.last()) else {
            self.inside.clear();
            return Ok(());
        };
        if date_in(first, self.order).is_some() {
            self.begin_time(moment(line, self.order).map(|_| line.trim().to_owned()));
            self.reports += 1;
            return Ok(());
        }
        if is_of_devices(line) {
            if self.time.is_none() {
                let problem = "iostat was told to print no times".to_owned();
                return Err((problem, "a line with the time before each report", "record with `iostat -dxt 60`"));
            }
            self.has_device_last = is_device_heading(last) && !is_device_heading(first);
            let columns: Vec<&str> = words.iter().copied().filter(|word| !is_device_heading(word)).collect();
            self.begin(&columns);
            return Ok(());
        }
        if self.inside.is_empty() {
            return Ok(());
        }
        if self.reports == 1 {
            self.passed_over += 1;
            return Ok(());
        }
        if let [device] = words[..] {
            self.device = Some(device.to_owned());
            return Ok(());
        }
        match self.device.take() {
            Some(device) => self.row(&device, &words),
            None if self.has_device_last => self.row(last, &words[..words.len() - 1]),
            None => self.row(first, &words[1..]),
        }
    }

    fn of_sar(&mut self, line: &str) -> Result<(), Wrong> {
        if line.starts_with("Average") || line.contains("LINUX RESTART") {
            self.passed_over += u64::from(!line.is_empty());
            if line.starts_with("Average") {
                self.inside.clear();
            }
            return Ok(());
        }
        let Some((clock, words)) = timed(line) else { return Ok(()) };
        if clock < self.clock {
            // Past midnight, or the next table of the same day.
            self.day = self.day.map(|day| if is_heading(&words) { day } else { day + DAY_SECONDS });
        }
        self.clock = clock;
        if words.iter().all(|word| word.parse::<f64>().is_err()) {
            self.inside.clear();
            if is_heading(&words) {
                self.begin(if words[0] == "DEV" { &words[1..] } else { &words });
            }
            return Ok(());
        }
        if self.inside.is_empty() {
            self.passed_over += 1;
            return Ok(());
        }
        let Some(day) = self.day else {
            let problem = "the report does not say its day".to_owned();
            return Err((
                problem,
                "the first line that sar prints, with the date",
                "record with `sar -d`, or export with `sadf -d`",
            ));
        };
        let time = Some((day + clock).to_string());
        if self.time != time {
            self.begin_time(time);
        }
        match words[0].parse::<f64>() {
            Ok(_) => self.row("all", &words),
            Err(_) => self.row(words[0], &words[1..]),
        }
    }

    fn begin_time(&mut self, time: Option<String>) {
        self.time = time;
        self.of_time.clear();
    }

    fn begin(&mut self, columns: &[&str]) {
        self.inside.clear();
        self.device = None;
        for name in columns {
            let known = self.columns.iter().position(|known| known == name);
            self.inside.push(known.unwrap_or(self.columns.len()));
            if known.is_none() {
                self.columns.push((*name).to_owned());
            }
        }
    }

    fn row(&mut self, device: &str, values: &[&str]) -> Result<(), Wrong> {
        if values.len() != self.inside.len() {
            let problem = format!("the line has {} numbers, and the heading {}", values.len(), self.inside.len());
            return Err((problem, "a device and its numbers", "is the end of the file cut off?"));
        }
        let place = *self.of_time.entry(device.to_owned()).or_insert(self.rows.len());
        if place == self.rows.len() {
            self.rows.push((self.time.clone().unwrap_or_default(), device.to_owned(), Vec::new()));
        }
        let held = &mut self.rows[place].2;
        held.resize(self.columns.len(), String::new());
        for (column, value) in self.inside.iter().zip(values) {
            held[*column] = plain(value, &self.columns[*column]).into_owned();
        }
        Ok(())
    }

    fn table(&self) -> String {
        let mut table = format!("time;device;{}\n", self.columns.join(";"));
        for (time, device, values) in &self.rows {
            let cells = (0..self.columns.len()).map(|place| values.get(place).map_or("", String::as_str));
            table += &format!("{time};{device};{}\n", cells.collect::<Vec<_>>().join(";"));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Report>, SeriesError> {
        super::table(&Input::from_bytes("report", text.into()), text.as_bytes())
    }

    fn table(text: &str) -> (String, u64) {
        let report = read(text).unwrap().expect("a report");
        (String::from_utf8(report.input.head().unwrap()).unwrap(), report.passed_over)
    }

    #[test]
    fn the_first_report_of_iostat_is_left_out() {
        let head = "Linux 6.8.0 (host) \t03/02/2026 \t_x86_64_\t(4 CPU)\n\n";
        let report = |time: &str, reads: &str| {
            format!("03/02/2026 {time}\navg-cpu:  %user\n  1.00\n\nDevice  r/s  rkB/s\nsda  {reads}  8.00\n\n")
        };
        let text = format!("{head}{}{}", report("11:59:00 PM", "9.00"), report("12:00:00 AM", "2.50"));
        let expected = "time;device;r/s;rkB/s\n03/02/2026 12:00:00 AM;sda;2.50;8.00\n";
        assert_eq!(table(&text), (expected.to_owned(), 1));
    }

    #[test]
    fn iostat_without_times_names_a_command() {
        let error = read("Device tps kB_read/s\nsda 1.0 2.0\n");
        assert!(error.err().expect("an error").to_string().contains("iostat -dxt 60"));
    }

    #[test]
    fn a_report_of_sar_goes_on_past_midnight() {
        let text = "Linux 6.8.0 (host) 28.02.2026 _x86_64_ (4 CPU)\n\n23:50:01 DEV tps rkB/s\n23:55:01 sda 1.0 2.0\n00:00:01 sda 3.0 4.0\nAverage: sda 2.0 3.0\n";
        let midnight = 1_772_323_200;
        let expected = format!("time;device;tps;rkB/s\n{};sda;1.0;2.0\n{};sda;3.0;4.0\n", midnight - 299, midnight + 1);
        assert_eq!(table(text), (expected, 1));
    }

    #[test]
    fn tables_and_units_of_human_reports_become_columns() {
        let report = |time: &str, rows: &str| {
            format!(
                "03/02/2026 {time}\n     r/s     rkB/s  %rrqm Device\n{rows}\n\n    w/s     wkB/s Device\n   5.00    512.0B sda\n\n"
            )
        };
        let rows = "    9.00      3.5M  12.5% sda\n    1.00      0.0k   0.0% sdb";
        let text = format!("{}{}", report("10:00:00 AM", rows), report("10:01:00 AM", rows));
        let expected = "time;device;r/s;rkB/s;%rrqm;w/s;wkB/s\n03/02/2026 10:01:00 AM;sda;9.00;3584;12.5;5.00;0.5\n03/02/2026 10:01:00 AM;sdb;1.00;0;0.0;;\n";
        assert_eq!(table(&text), (expected.to_owned(), 3));
        let coloured = text.replace("sda", "\u{1b}[32;22msda\u{1b}[0m");
        assert_eq!(table(&coloured), (expected.to_owned(), 3));
    }

    #[test]
    fn a_device_may_stand_above_its_numbers() {
        let report = |time: &str| format!("03/02/2026 {time}\nDevice:  tps  kB_read/s\nsda\n         1.00  2.00\n\n");
        let text = format!("{}{}", report("10:00:00 AM"), report("10:01:00 AM"));
        assert_eq!(table(&text).0, "time;device;tps;kB_read/s\n03/02/2026 10:01:00 AM;sda;1.00;2.00\n");
    }

    #[test]
    fn both_tables_of_disks_of_sar_are_read() {
        let text = "Linux 6.8.0 (host) 28.02.2026 _x86_64_ (4 CPU)\n\n10:00:01 tps rtps\n10:10:01 5.0 3.0\n\n10:00:01 DEV tps rkB/s\n10:10:01 sda 1.0 2.0\n";
        let at = 1_772_273_401;
        assert_eq!(table(text).0, format!("time;device;tps;rtps;rkB/s\n{at};all;5.0;3.0;\n{at};sda;1.0;;2.0\n"));
    }

    #[test]
    fn dates_without_a_clue_are_called_assumed() {
        let text = "Linux 6.8.0 (host) 03/02/26 _x86_64_ (4 CPU)\n\n00:00:01 tps rtps\n00:10:01 1.0 2.0\n";
        assert!(read(text).unwrap().expect("a report").is_month_first);
        assert!(read("time,tps\n1,2\n").unwrap().is_none());
    }
}
