//! Reads the logs of a job of fio as series: bandwidth, IOPS and latencies over time.
//!
//! A line is `milliseconds, value[, largest value], direction, size[, offset], priority[, time of issue]`. The name of the file says
//! what the value is. Each job has a file of its own, and all begin at the same time.

use ioweir_trace::{Input, Position, TraceError};

use super::SeriesError;
use super::report::{Report, whole};

/// The kinds of logs: the part of the file's name that fio gives them, and the column with its unit.
pub(super) const KINDS: [(&str, &str); 5] =
    [("_bw", "bw (KiB/s)"), ("_iops", "iops"), ("_clat", "clat (ns)"), ("_slat", "slat (ns)"), ("_lat", "lat (ns)")];
const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];
/// Times of a smaller number are those of a job, and of a larger one those of a clock in milliseconds: between them lie the
/// seconds of a clock, which other tools write.
const JOB_MILLISECONDS_MAX: u64 = 1_000_000_000;
const CLOCK_MILLISECONDS_MIN: u64 = 100_000_000_000;

/// A line of a log.
struct Line<'a> {
    milliseconds: u64,
    value: &'a str,
    /// The largest value, with `log_window_value=both`.
    largest: Option<&'a str>,
    direction: usize,
}

impl<'a> Line<'a> {
    fn of(line: &'a str, has_largest: bool) -> Option<Self> {
        let mut cells = line.split(", ");
        let milliseconds: u64 = cells.next()?.trim().parse().ok()?;
        let is_number = |cell: &&str| cell.parse::<u64>().is_ok();
        let value = cells.next().filter(is_number)?;
        let largest = if has_largest { Some(cells.next().filter(is_number)?) } else { None };
        let direction: usize = cells.next()?.parse().ok()?;
        let others = cells.clone().count();
        let are_numbers =
            cells.all(|cell| cell.strip_prefix("0x").unwrap_or(cell).bytes().all(|byte| byte.is_ascii_hexdigit()));
        let is_time = !(JOB_MILLISECONDS_MAX..CLOCK_MILLISECONDS_MIN).contains(&milliseconds);
        let is_log = is_time && are_numbers && (1..=4).contains(&others) && direction < DIRECTIONS.len();
        is_log.then_some(Self { milliseconds, value, largest, direction })
    }
}

/// The table of a log; `None` if the file is none.
pub(super) fn table(input: &Input, head: &[u8]) -> Result<Option<Report>, SeriesError> {
    const LINES_MIN: usize = 20;
    let text = String::from_utf8_lossy(head);
    let first: Vec<&str> = text.lines().take(LINES_MIN).collect();
    let are_lines =
        |has_largest: bool| !first.is_empty() && first.iter().all(|line| Line::of(line, has_largest).is_some());
    let has_largest = !are_lines(false) && are_lines(true);
    let name = input.volume_name();
    let is_named = |part: &str| name.contains(&format!("{part}.")) || name == format!("{}.log", &part[1..]);
    let kind = KINDS.iter().find(|(part, _)| is_named(part));
    let begins_as_log = text.lines().next().is_some_and(|line| Line::of(line, has_largest).is_some());
    if is_named("_clat_hist") && !begins_as_log {
        return Err(SeriesError::new(input.name(), Position::File, "is a log of histograms of fio")
            .expected("a log of one value for each time")
            .hint("record with write_lat_log, write_bw_log or write_iops_log"));
    }
    let is_log = are_lines(false) || has_largest || kind.is_some() && begins_as_log;
    if !is_log {
        return Ok(None);
    }
    let column = kind.map_or("value", |(_, column)| column);
    let of_largest = if has_largest { format!(";largest {column}") } else { String::new() };
    let mut table = format!("time;direction;{column}{of_largest}\n");
    for (number, line) in (1..).zip(whole(input, head)?.lines()) {
        let Line { milliseconds, value, largest, direction } = Line::of(line, has_largest).ok_or_else(|| {
            let position = Position::Text { line: number, column: 1 };
            TraceError::new(input.name(), position, format!("not a line of a log of fio: `{}`", line.escape_debug()))
                .expected("milliseconds, value, direction 0 to 2, size")
                .hint("is the end of the file cut off?")
        })?;
        let direction = DIRECTIONS[direction];
        table += &format!("{}.{:03};{direction};{value}", milliseconds / 1000, milliseconds % 1000);
        table.extend(largest.into_iter().flat_map(|largest| [";", largest]));
        table.push('\n');
    }
    Ok(Some(Report { is_of_job: true, ..Report::new(input, table, 0) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Option<String> {
        let report = table(&Input::from_bytes(name, text.into()), text.as_bytes()).unwrap();
        report.map(|report| String::from_utf8(report.input.head().unwrap()).unwrap())
    }

    #[test]
    fn name_of_a_log_tells_what_it_holds() {
        let text = "500, 512, 0, 0\n500, 256, 1, 0, 0\n1000, 1024, 0, 0, 0, 0x4004\n";
        let rows = "0.500;read;512\n0.500;write;256\n1.000;read;1024\n";
        for (name, column) in [
            ("job_bw.1.log", "bw (KiB/s)"),
            ("/tmp/job_iops.1.log.gz", "iops"),
            ("job_clat.2.log", "clat (ns)"),
            ("bw.log", "bw (KiB/s)"),
            ("numbers", "value"),
        ] {
            assert_eq!(read(name, text), Some(format!("time;direction;{column}\n{rows}")), "{name}");
        }
    }

    #[test]
    fn means_and_largest_values_are_two_columns() {
        let text = "500, 2, 9, 0, 0, 0, 0\n1000, 3, 3, 1, 0, 0, 0, 12345\n";
        let expected = "time;direction;iops;largest iops\n0.500;read;2;9\n1.000;write;3;3\n";
        assert_eq!(read("job_iops.1.log", text), Some(expected.to_owned()));
    }

    #[test]
    fn logs_of_histograms_are_named_as_such() {
        let text = "1000, 0, 4096, 0, 0, 0, 0, 0, 0, 5, 0\n";
        let error = table(&Input::from_bytes("job_clat_hist.1.log", text.into()), text.as_bytes());
        assert!(error.err().expect("an error").to_string().contains("write_lat_log"));
    }

    #[test]
    fn other_tables_are_no_logs() {
        for text in
            ["time, reads, busy\n1, 2, 0\n", "1772409600, 5, 1, 0\n", "500,512,0,0\n", "1, 2, 3, 4\n", "", "1, 2\n"]
        {
            assert_eq!(read("table.csv", text), None, "{text}");
        }
    }
}
