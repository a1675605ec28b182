//! Turns the reports that iostat and sar print into a table: a row for each time and device.
//!
//! Their numbers are averages since the report before, so the first report of iostat, which counts from the start of the
//! machine, is left out.

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
        lines.line(line.trim_end()).map_err(|(problem, expected, hint)| {
            let position = Position::Text { line: number, column: 1 };
            TraceError::new(input.name(), position, problem).expected(expected).hint(hint)
        })?;
    }
    let (passed_over, is_month_first) = (lines.passed_over, order == DateOrder::Assumed);
    let input = Input::from_bytes(input.name(), lines.table.into_bytes());
    Ok(Some(Report { input, passed_over, is_month_first }))
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

/// The heading of iostat's table of devices.
fn is_of_devices(line: &str) -> bool {
    let mut words = line.split_whitespace();
    matches!(words.next(), Some("Device" | "Device:")) && words.any(|word| word == "tps" || word == "r/s")
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
    table: String,
    /// The heading of the table, once it is known.
    heading: Option<String>,
    /// Whether the lines that follow are of the table: other tables stand beside it.
    is_inside: bool,
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
        let Some(first) = words.first() else {
            self.is_inside = false;
            return Ok(());
        };
        if date_in(first, self.order).is_some() {
            self.time = moment(line, self.order).map(|_| line.trim().to_owned());
            self.is_inside = false;
            return Ok(());
        }
        if is_of_devices(line) {
            self.reports += 1;
            if self.time.is_none() {
                let problem = "iostat was told to print no times".to_owned();
                return Err((problem, "a line with the time before each report", "record with `iostat -dxt 60`"));
            }
            return self.begin(&words[1..]);
        }
        if !self.is_inside {
            return Ok(());
        }
        if self.reports == 1 {
            self.passed_over += 1;
            return Ok(());
        }
        self.row(&words[..1], &words[1..])
    }

    fn of_sar(&mut self, line: &str) -> Result<(), Wrong> {
        if line.starts_with("Average") || line.contains("LINUX RESTART") {
            self.passed_over += u64::from(!line.is_empty());
            self.is_inside &= !line.starts_with("Average");
            return Ok(());
        }
        let Some((clock, words)) = timed(line) else { return Ok(()) };
        if clock < self.clock {
            // Past midnight, or the next table of the same day.
            self.day = self.day.map(|day| if is_heading(&words) { day } else { day + DAY_SECONDS });
        }
        self.clock = clock;
        if words.iter().all(|word| word.parse::<f64>().is_err()) {
            self.is_inside = is_heading(&words);
            return if self.is_inside {
                self.begin(if words[0] == "DEV" { &words[1..] } else { &words })
            } else {
                Ok(())
            };
        }
        if !self.is_inside {
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
        self.time = Some((day + clock).to_string());
        let has_device = words[0].parse::<f64>().is_err();
        self.row(&words[..usize::from(has_device)], &words[usize::from(has_device)..])
    }

    fn begin(&mut self, columns: &[&str]) -> Result<(), Wrong> {
        let heading = columns.join(";");
        self.is_inside = true;
        match &self.heading {
            None => {
                self.table = format!("time;device;{heading}\n");
                self.heading = Some(heading);
                Ok(())
            }
            Some(known) if *known == heading => Ok(()),
            Some(_) => Err((
                "the columns are others than those of the report before".to_owned(),
                "one table of devices",
                "take a part of the file with one kind of table",
            )),
        }
    }

    fn row(&mut self, device: &[&str], values: &[&str]) -> Result<(), Wrong> {
        let columns = self.heading.as_ref().map_or(0, |heading| heading.split(';').count());
        if values.len() != columns {
            let problem = format!("the line has {} numbers, and the heading {columns}", values.len());
            return Err((problem, "a device and its numbers", "is the end of the file cut off?"));
        }
        let (time, device) = (self.time.as_deref().unwrap_or_default(), device.first().copied().unwrap_or("all"));
        self.table += &format!("{time};{device};{}\n", values.join(";"));
        Ok(())
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
    fn iostat_without_times_is_an_error_with_a_command() {
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
    fn dates_without_a_clue_are_said_to_be_assumed() {
        let text = "Linux 6.8.0 (host) 03/02/26 _x86_64_ (4 CPU)\n\n00:00:01 tps rtps\n00:10:01 1.0 2.0\n";
        assert!(read(text).unwrap().expect("a report").is_month_first);
        assert!(read("time,tps\n1,2\n").unwrap().is_none());
    }
}
