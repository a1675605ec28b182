//! Makes tables of what dstat, diskspd and consoles of clouds write: their values stand below lines about the recording.

use ioweir_config::date::{DateOrder, moment};
use ioweir_trace::{Input, Position, TraceError};

use super::SeriesError;
use super::layout::{Cell, DELIMITERS, cells};
use super::report::{Report, quoted, whole};

fn texts(line: &str, delimiter: u8) -> Vec<String> {
    let text = |cell: &Cell<'_>| String::from_utf8_lossy(&cell.text).into_owned();
    cells(line.as_bytes(), delimiter).iter().map(text).collect()
}

/// The table of what `dstat --output` writes: `"Dstat 0.7.3 CSV output"`, lines about the recording, a line with the groups of columns,
/// one with their names, and rows. The first row of dstat, unlike that of pcp-dstat, counts from the start of the machine.
pub(super) fn of_dstat(input: &Input, head: &[u8]) -> Result<Option<Report>, SeriesError> {
    let is_first = |line: &str| line.to_ascii_lowercase().trim_end().ends_with("csv output\"");
    let text = String::from_utf8_lossy(head);
    if !text.lines().next().is_some_and(is_first) {
        return Ok(None);
    }
    let mut dstat = Dstat::default();
    for (number, line) in (1..).zip(whole(input, head)?.lines()) {
        let line = line.trim();
        if is_first(line) {
            dstat = Dstat {
                table: dstat.table,
                heading: dstat.heading,
                passed_over: dstat.passed_over,
                ..Dstat::default()
            };
            dstat.counts_from_start = !line.starts_with("\"pcp");
        } else if !line.is_empty() {
            dstat.line(&texts(line, b',')).map_err(|(problem, hint)| {
                let position = Position::Text { line: number, column: 1 };
                TraceError::new(input.name(), position, problem).expected("a row of dstat").hint(hint)
            })?;
        }
    }
    Ok(Some(Report::new(input, dstat.table, dstat.passed_over)))
}

/// A file of dstat that is being read.
#[derive(Default)]
struct Dstat {
    table: String,
    heading: Vec<String>,
    /// The groups of columns, when their names come next.
    groups: Option<Vec<String>>,
    time: usize,
    /// The year of the last row, which rows leave out, and its month.
    year: Option<i64>,
    month: u32,
    counts_from_start: bool,
    passed_over: u64,
}

impl Dstat {
    fn line(&mut self, words: &[String]) -> Result<(), (String, &'static str)> {
        if words[0].ends_with(':') {
            let date = words.iter().skip_while(|word| *word != "Date:").nth(1);
            self.year = date.and_then(|date| date.split_whitespace().nth(2)?.parse().ok()).or(self.year);
            return Ok(());
        }
        let is_row = words.iter().any(|word| word.parse::<f64>().is_ok());
        match (self.groups.take(), is_row) {
            (None, false) => self.groups = Some(words.to_vec()),
            (Some(groups), false) => return self.begin(&groups, words),
            _ => return self.row(words),
        }
        Ok(())
    }

    fn begin(&mut self, groups: &[String], names: &[String]) -> Result<(), (String, &'static str)> {
        let mut group = "";
        let heading: Vec<String> = (0..names.len())
            .map(|place| {
                group = groups.get(place).map(String::as_str).filter(|group| !group.is_empty()).unwrap_or(group);
                if group == names[place] { group.to_owned() } else { format!("{group} {}", names[place]) }
            })
            .collect();
        let time = names.iter().position(|name| name == "time" || name == "epoch");
        self.time = time.ok_or_else(|| {
            ("dstat was told to print no times".to_owned(), "record with `dstat -tdr --output FILE 60`")
        })?;
        if self.heading.is_empty() {
            let columns = heading.iter().enumerate().filter(|(place, _)| *place != self.time);
            let columns: Vec<String> = columns.map(|(_, name)| quoted(name)).collect();
            self.table = format!("time;{}\n", columns.join(";"));
            self.heading = heading;
        } else if self.heading != heading {
            let problem = "the columns are others than those of the recording before".to_owned();
            return Err((problem, "take a part of the file with the same columns"));
        }
        Ok(())
    }

    fn row(&mut self, words: &[String]) -> Result<(), (String, &'static str)> {
        if std::mem::take(&mut self.counts_from_start) {
            self.passed_over += 1;
            return Ok(());
        }
        if words.len() != self.heading.len() {
            let problem = format!("the line has {} cells, and the heading {}", words.len(), self.heading.len());
            return Err((problem, "is the end of the file cut off?"));
        }
        let time = self.moment(&words[self.time]).ok_or_else(|| {
            let problem = format!("`{}` is no time", words[self.time].escape_debug());
            (problem, "times are day-month and a clock, with the year in the line of `Date:`, or seconds since 1970")
        })?;
        let values = words.iter().enumerate().filter(|(place, _)| *place != self.time);
        let values: Vec<&str> = values.map(|(_, value)| value.as_str()).collect();
        self.table += &format!("{time};{}\n", values.join(";"));
        Ok(())
    }

    /// A time such as `03-12 14:10:38`, of the third of December, with its year.
    fn moment(&mut self, text: &str) -> Option<String> {
        if text.parse::<f64>().is_ok() {
            return Some(text.to_owned());
        }
        let (date, clock) = text.split_once(' ')?;
        let (day, month) = date.split_once('-')?;
        let (day, month): (u32, u32) = (day.parse().ok()?, month.parse().ok()?);
        let year = self.year? + i64::from(month < self.month);
        (self.year, self.month) = (Some(year), month);
        Some(format!("{year:04}-{month:02}-{day:02} {clock}"))
    }
}

/// The rates over time of what `diskspd -Rxml -D1000` prints, of all its threads together.
pub(super) fn of_diskspd(input: &Input, head: &[u8]) -> Result<Option<Report>, SeriesError> {
    const COLUMNS: [&str; 5] = ["Read", "Write", "Total", "ReadAvgLatencyMilliseconds", "WriteAvgLatencyMilliseconds"];
    let wrong = |problem: &str| {
        SeriesError::new(input.name(), Position::File, problem)
            .expected("rates over time")
            .hint("diskspd writes them with `-Rxml -D1000`: a rate for each second")
    };
    let text = String::from_utf8_lossy(head);
    if text.contains("\nResults for timespan ")
        || text.starts_with("\nCommand Line: diskspd")
        || text.starts_with("Command Line: diskspd")
    {
        return Err(wrong("is a report of diskspd, which holds totals of a run"));
    }
    let is_xml = text.trim_start_matches('\u{feff}').trim_start().starts_with("<Results>");
    if !is_xml || !(text.contains("<TimeSpan>") || text.contains("<Profile>") || text.contains("<System>")) {
        return Ok(None);
    }
    let attribute = |line: &str, name: &str| -> Option<String> {
        let (_, rest) = line.split_once(&format!(" {name}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let mut table = format!("time;{}\n", COLUMNS.join(";"));
    let (mut start, mut before, mut last, mut is_of_thread, mut rows) = (0, 0, 0, false, 0_u64);
    for line in whole(input, head)?.lines().map(str::trim) {
        if let Some(time) = line.strip_prefix("<RunTime>").and_then(|rest| rest.split_once("</")) {
            start = moment(time.0, DateOrder::MonthFirst).map_or(0, |moment| moment.unix_seconds());
        }
        match line {
            "<Thread>" => is_of_thread = true,
            "</Thread>" => is_of_thread = false,
            "</TimeSpan>" => before = last,
            _ => {}
        }
        if is_of_thread || !line.starts_with("<Bucket SampleMillisecond=") {
            continue;
        }
        let end: i64 = attribute(line, "SampleMillisecond").and_then(|end| end.parse().ok()).unwrap_or(0);
        last = before + end;
        // The time of a sample is its end; the second that it is about ends there.
        let at = start * 1000 + last - 1;
        let cells = COLUMNS.map(|name| attribute(line, name).unwrap_or_default());
        table += &format!("{}.{:03};{}\n", at / 1000, at % 1000, cells.join(";"));
        rows += 1;
    }
    if rows == 0 {
        return Err(wrong("is a report of diskspd, which holds totals of a run"));
    }
    Ok(Some(Report::new(input, table, 0)))
}

/// A table below lines about it, as CloudWatch and other consoles export: `Label,...`, `Statistic,...`, `Period,...`, and then rows that
/// begin with a date.
pub(super) fn below_preamble(input: &Input, head: &[u8]) -> Result<Option<Report>, SeriesError> {
    const LINES_MAX: usize = 40;
    const FIRST: [&str; 6] = ["timestamp", "time", "date", "datetime", "full label", "label"];
    let text = String::from_utf8_lossy(head);
    let lines: Vec<&str> = text.trim_start_matches('\u{feff}').lines().take(LINES_MAX).collect();
    let is_date = |text: &str| text.parse::<f64>().is_err() && moment(text, DateOrder::Assumed).is_some();
    let is_row = |row: &Vec<String>| row.len() > 1 && is_date(&row[0]);
    let found = DELIMITERS.into_iter().find_map(|delimiter| {
        let rows: Vec<Vec<String>> = lines.iter().map(|line| texts(line, delimiter)).collect();
        rows.iter().position(is_row).map(|first| (rows, first))
    });
    let Some((rows, first)) = found else { return Ok(None) };
    let above: Vec<usize> = (0..first).filter(|place| !lines[*place].trim().is_empty()).collect();
    if above.len() < 2 || lines[..first].iter().any(|line| line.starts_with('#') || line.starts_with("sep=")) {
        return Ok(None);
    }
    let fits = |place: &&usize| rows[**place].len() == rows[first].len();
    let named = FIRST
        .iter()
        .find_map(|name| above.iter().rev().filter(fits).find(|place| rows[**place][0].eq_ignore_ascii_case(name)));
    let has_names = |place: &&usize| {
        fits(place) && rows[**place][1..].iter().any(|cell| !cell.is_empty() && cell.parse::<f64>().is_err())
    };
    let heading = named.or_else(|| above.iter().rev().find(has_names)).ok_or_else(|| {
        let position = Position::Text { line: first as u64 + 1, column: 1 };
        SeriesError::new(input.name(), position, "no line above the first row names its columns")
            .expected(format!("a line with {} names", rows[first].len()))
    })?;
    let all = whole(input, head)?;
    let mut table = format!("{}\n", lines[*heading]);
    let rest = all.lines().skip(first);
    rest.for_each(|line| table.extend([line, "\n"]));
    Ok(Some(Report::new(input, table, above.len() as u64 - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Make = fn(&Input, &[u8]) -> Result<Option<Report>, SeriesError>;

    fn read(make: Make, text: &str) -> String {
        match make(&Input::from_bytes("file", text.into()), text.as_bytes()) {
            Ok(Some(report)) => {
                let table = String::from_utf8(report.input.head().unwrap()).unwrap();
                format!("{table}{} passed over", report.passed_over)
            }
            Ok(None) => "none".into(),
            Err(error) => error.to_string(),
        }
    }

    const DSTAT: &str = "\"Dstat 0.7.3 CSV output\"\n\"Author:\",\"a\",,,,\"URL:\",\"u\"\n\"Host:\",\"h\",,,,\"User:\",\"root\"\n\"Cmdline:\",\"dstat -td\",,,,\"Date:\",\"31 Dec 2020 23:59:58 CET\"\n\n\"system\",\"dsk/total\",,\"dsk/sda\",\n\"time\",\"read\",\"writ\",\"read\",\"writ\"\n";

    #[test]
    fn dstat_counts_years_without_its_first_row() {
        let rows = "31-12 23:59:58,9.0,9.0,9.0,9.0\n31-12 23:59:59,1.0,2.0,3.0,4.0\n01-01 00:00:00,5.0,6.0,7.0,8.0\n";
        let expected = "time;\"dsk/total read\";\"dsk/total writ\";\"dsk/sda read\";\"dsk/sda writ\"\n2020-12-31 23:59:59;1.0;2.0;3.0;4.0\n2021-01-01 00:00:00;5.0;6.0;7.0;8.0\n1 passed over";
        assert_eq!(read(of_dstat, &format!("{DSTAT}{rows}")), expected);
        let twice = format!("{DSTAT}{rows}{DSTAT}{rows}");
        assert!(read(of_dstat, &twice).ends_with("2 passed over"));
        let pcp = format!("{DSTAT}{rows}").replace("\"Dstat 0.7.3 CSV output\"", "\"pcp-dstat 5.2 CSV Output\"");
        assert!(read(of_dstat, &pcp).ends_with("0 passed over"));
        let epochs = format!("{DSTAT}1.0,9,9,9,9\n2.0,1,2,3,4\n").replace("\"time\"", "\"epoch\"");
        assert!(read(of_dstat, &epochs).contains("\n2.0;1;2;3;4\n"));
        let without = DSTAT.replace("\"time\"", "\"usr\"");
        assert!(read(of_dstat, &without).contains("dstat -tdr --output"));
        assert_eq!(read(of_dstat, "time,read\n1,2\n"), "none");
    }

    #[test]
    fn diskspd_gives_the_rates_of_all_threads() {
        let bucket = |end: u32, read: u32| {
            format!(
                "<Bucket SampleMillisecond=\"{end}\" Read=\"{read}\" Write=\"2\" Total=\"{}\" ReadAvgLatencyMilliseconds=\"0.500\" WriteAvgLatencyMilliseconds=\"0.700\"/>\n",
                read + 2
            )
        };
        let span = format!(
            "<TimeSpan>\n<Thread>\n{}</Thread>\n<Iops>\n{}{}</Iops>\n</TimeSpan>\n",
            bucket(1000, 99),
            bucket(1000, 1),
            bucket(2000, 3)
        );
        let text = format!("<Results>\n<System>\n<RunTime>2026/03/02 10:00:00 UTC</RunTime>\n</System>\n{span}{span}");
        let read_as = read(of_diskspd, &text);
        let rows: Vec<&str> = read_as.lines().skip(1).collect();
        let times: Vec<&str> = rows.iter().filter_map(|row| row.split_once(';')).map(|(time, _)| time).collect();
        assert_eq!(times, ["1772445600.999", "1772445601.999", "1772445602.999", "1772445603.999"]);
        assert!(rows[1].ends_with(";3;2;5;0.500;0.700"), "{read_as}");
        for totals in ["<Results>\n<System>\n</System>\n", "\nCommand Line: diskspd -b4K\n\nResults for timespan 1:\n"]
        {
            assert!(read(of_diskspd, totals).contains("-Rxml -D1000"), "{totals}");
        }
        assert_eq!(read(of_diskspd, "<html>"), "none");
    }

    #[test]
    fn lines_about_a_table_are_left_out() {
        let cloud = "Full label,\"AWS/EBS reads, vol-1\",writes\nID,m1,m2\nStatistic,Sum,Sum\nPeriod,300,300\n,,\n2026/03/02 10:00:00,1,2\n2026/03/02 10:05:00,3,4\n";
        let expected = "Full label,\"AWS/EBS reads, vol-1\",writes\n2026/03/02 10:00:00,1,2\n2026/03/02 10:05:00,3,4\n4 passed over";
        assert_eq!(read(below_preamble, cloud), expected);
        let other = "\"Name\",\"disk\"\n\"Range\",\"a day\"\n\n\"Clock\",\"IOPS\"\n\"2026-03-02T10:00:00Z\",\"1\"\n";
        assert!(read(below_preamble, other).starts_with("\"Clock\",\"IOPS\"\n\"2026"));
        let nameless = "a\nb\n2026-03-02 10:00:00,1\n";
        assert!(read(below_preamble, nameless).contains("names its columns"));
        for table in ["time,reads\n2026-03-02 10:00:00,1\n", "2026-03-02 10:00:00,1\n", "a,b\nc,d\n1,2\n"] {
            assert_eq!(read(below_preamble, table), "none", "{table}");
        }
    }
}
