//! Reads the logs of a job of fio as series: bandwidth, IOPS and latencies over time.
//!
//! A line is `milliseconds, value, direction, size[, offset[, priority]]`. The name of the file says what the value is.

use ioweir_trace::{Input, Position, TraceError};

use super::SeriesError;
use super::report::{Report, whole};

/// The kinds of logs: the part of the file's name that fio gives them, and the column with its unit.
const KINDS: [(&str, &str); 5] =
    [("_bw", "bw (KiB/s)"), ("_iops", "iops"), ("_clat", "clat (ns)"), ("_slat", "slat (ns)"), ("_lat", "lat (ns)")];
const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];
/// Times of a smaller number are those of a job, and of a larger one those of a clock in milliseconds: between them lie the
/// seconds of a clock, which other tools write.
const JOB_MILLISECONDS_MAX: u64 = 1_000_000_000;
const CLOCK_MILLISECONDS_MIN: u64 = 100_000_000_000;

/// A line of a log: milliseconds, value, and direction.
fn line_of(line: &str) -> Option<(u64, &str, usize)> {
    let mut cells = line.split(", ");
    let time: u64 = cells.next()?.trim().parse().ok()?;
    let value = cells.next().filter(|value| value.parse::<u64>().is_ok())?;
    let direction: usize = cells.next()?.parse().ok()?;
    let others = cells.clone().count();
    let are_numbers =
        cells.all(|cell| cell.strip_prefix("0x").unwrap_or(cell).bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_time = !(JOB_MILLISECONDS_MAX..CLOCK_MILLISECONDS_MIN).contains(&time);
    let is_log = is_time && are_numbers && (1..=4).contains(&others) && direction < DIRECTIONS.len();
    is_log.then_some((time, value, direction))
}

/// The table of a log; `None` if the file is none.
pub(super) fn table(input: &Input, head: &[u8]) -> Result<Option<Report>, SeriesError> {
    const LINES_MIN: usize = 20;
    let text = String::from_utf8_lossy(head);
    let mut first = text.lines().take(LINES_MIN).peekable();
    let are_lines = first.peek().is_some() && first.all(|line| line_of(line).is_some());
    let name = input.volume_name();
    let kind =
        KINDS.iter().find(|(part, _)| name.contains(&format!("{part}.")) || name == format!("{}.log", &part[1..]));
    let begins_as_log = text.lines().next().is_some_and(|line| line_of(line).is_some());
    let is_log = are_lines || kind.is_some() && begins_as_log;
    if !is_log {
        return Ok(None);
    }
    let mut table = format!("time;direction;{}\n", kind.map_or("value", |(_, column)| column));
    for (number, line) in (1..).zip(whole(input, head)?.lines()) {
        let (time, value, direction) = line_of(line).ok_or_else(|| {
            let position = Position::Text { line: number, column: 1 };
            TraceError::new(input.name(), position, format!("not a line of a log of fio: `{}`", line.escape_debug()))
                .expected("milliseconds, value, direction 0 to 2, size")
                .hint("is the end of the file cut off?")
        })?;
        table += &format!("{}.{:03};{};{value}\n", time / 1000, time % 1000, DIRECTIONS[direction]);
    }
    let input = Input::from_bytes(input.name(), table.into_bytes());
    Ok(Some(Report { input, passed_over: 0, is_month_first: false }))
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
    fn other_tables_are_no_logs() {
        for text in
            ["time, reads, busy\n1, 2, 0\n", "1772409600, 5, 1, 0\n", "500,512,0,0\n", "1, 2, 3, 4\n", "", "1, 2\n"]
        {
            assert_eq!(read("table.csv", text), None, "{text}");
        }
    }
}
