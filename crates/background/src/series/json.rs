//! Reads series from JSON: the answers of Prometheus, and the reports of iostat and sadf. What promtool prints of such an
//! answer is read too.

use ioweir_trace::{Input, Position, TraceError};
use serde_json::{Map, Value};

use super::SeriesError;
use super::report::{Report, quoted, whole};

/// The table of a report in JSON; `None` if the file is none.
pub(super) fn table(input: &Input, head: &[u8]) -> Result<Option<Report>, SeriesError> {
    if !head.trim_ascii_start().starts_with(b"{") {
        return Ok(None);
    }
    let text = whole(input, head)?;
    let wrong = |problem: &str, hint: &str| {
        TraceError::new(input.name(), Position::File, problem)
            .expected("an answer of Prometheus (query_range), or a report of `iostat -o JSON -t` or `sadf -j`")
            .hint(hint)
    };
    let root: Value = serde_json::from_str(&text).map_err(|error| {
        let position = Position::Text { line: error.line() as u64, column: error.column() as u64 };
        TraceError::new(input.name(), position, "not JSON")
            .expected("one whole JSON value")
            .hint("is the end of the file cut off?")
    })?;
    let table = if let Some(result) = root.pointer("/data/result").and_then(Value::as_array) {
        let series: Option<Vec<Labelled>> = result.iter().map(labelled).collect();
        let series =
            series.ok_or_else(|| wrong("holds one moment, not a range", "ask for a range with `query_range`"))?;
        (of_metrics(&series), 0)
    } else if let Some(hosts) = root.pointer("/sysstat/hosts").and_then(Value::as_array) {
        of_sysstat(hosts).map_err(|(problem, hint)| wrong(problem, hint))?
    } else {
        return Err(wrong("is JSON of a kind that is not read as series", "export it as CSV"));
    };
    Ok(Some(Report::new(input, table.0, table.1)))
}

/// A series: its metric, its labels, and its times and values as they are written.
struct Labelled {
    metric: String,
    labels: String,
    samples: Vec<(String, String)>,
}

/// A series of Prometheus; `None` if it has no samples over time.
fn labelled(one: &Value) -> Option<Labelled> {
    let empty = Map::new();
    let metric = one.get("metric").and_then(Value::as_object).unwrap_or(&empty);
    let name = metric.get("__name__").and_then(Value::as_str).unwrap_or("value");
    let labels = metric.iter().filter(|(key, _)| *key != "__name__");
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={}", word(value))).collect();
    let pairs = one.get("values")?.as_array()?;
    let samples = pairs.iter().filter_map(|pair| Some((word(pair.get(0)?), word(pair.get(1)?)))).collect();
    Some(Labelled { metric: name.to_owned(), labels: labels.join(","), samples })
}

/// A number or a text without its quotes.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A column for each metric, and a row for each sample.
fn of_metrics(series: &[Labelled]) -> String {
    let mut metrics: Vec<&str> = series.iter().map(|one| one.metric.as_str()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let has_labels = series.iter().any(|one| !one.labels.is_empty());
    let heading: Vec<String> = metrics.iter().map(|metric| quoted(metric)).collect();
    let mut table = format!("time;{}{}\n", if has_labels { "labels;" } else { "" }, heading.join(";"));
    for one in series {
        let labels = if has_labels { format!("{};", quoted(&one.labels)) } else { String::new() };
        for (time, value) in &one.samples {
            let cells = metrics.iter().map(|metric| if *metric == one.metric { value.as_str() } else { "" });
            table += &format!("{time};{labels}{}\n", cells.collect::<Vec<_>>().join(";"));
        }
    }
    table
}

/// A problem, and a hint.
type Wrong = (&'static str, &'static str);

/// A row for each time and device, and the number of reports that were left out: the first of iostat counts from the start of the
/// machine.
fn of_sysstat(hosts: &[Value]) -> Result<(String, u64), Wrong> {
    let (mut table, mut columns, mut passed_over) = (String::new(), Vec::new(), 0);
    for host in hosts {
        let reports = host.get("statistics").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (number, report) in reports.iter().enumerate() {
            let Some(devices) = report.get("disk").and_then(Value::as_array) else { continue };
            let is_iostat = devices.iter().any(|device| device.get("disk_device").is_some());
            if is_iostat && number == 0 {
                passed_over += 1;
                continue;
            }
            let time = time_of(report.get("timestamp"))
                .ok_or(("its reports have no times", "record with `iostat -dxt -o JSON 60`"))?;
            for device in devices.iter().filter_map(Value::as_object) {
                if columns.is_empty() {
                    columns =
                        device.iter().filter(|(_, value)| value.is_number()).map(|(key, _)| key.clone()).collect();
                    table = format!("time;device;{}\n", columns.join(";"));
                }
                let name = ["disk_device", "disk-device"]
                    .iter()
                    .find_map(|key| device.get(*key))
                    .map_or_else(String::new, word);
                let cells: Vec<String> =
                    columns.iter().map(|key| device.get(key).map_or_else(String::new, word)).collect();
                table += &format!("{time};{};{}\n", quoted(&name), cells.join(";"));
            }
        }
    }
    if columns.is_empty() {
        return Err((
            "holds no reports of disks",
            "record with `iostat -dxt -o JSON 60` or export with `sadf -j -- -d`",
        ));
    }
    Ok((table, passed_over))
}

/// The time of a report: a text in iostat, and a date, a time of day and perhaps a mark of UTC in sadf.
fn time_of(stamp: Option<&Value>) -> Option<String> {
    let stamp = stamp?;
    if let Some(text) = stamp.as_str() {
        return Some(text.to_owned());
    }
    let part = |key: &str| stamp.get(key).and_then(Value::as_str);
    let zone = if stamp.get("utc").and_then(Value::as_i64) == Some(1) { " UTC" } else { "" };
    Some(format!("{} {}{zone}", part("date")?, part("time")?))
}

/// The table of what promtool prints: `name{labels} =>`, and a line `value @[time]` for each sample.
pub(super) fn of_promtool(input: &Input, head: &[u8]) -> Result<Option<Report>, SeriesError> {
    let heading = |line: &str| line.trim_end().strip_suffix(" =>").map(str::to_owned);
    let text = String::from_utf8_lossy(head);
    if text.lines().next().and_then(heading).is_none() {
        return Ok(None);
    }
    let mut series: Vec<Labelled> = Vec::new();
    for (number, line) in (1..).zip(whole(input, head)?.lines()) {
        if let Some(name) = heading(line) {
            let (metric, labels) = name.split_once('{').unwrap_or((&name, ""));
            let labels = labels.trim_end_matches('}').replace('"', "");
            series.push(Labelled { metric: metric.to_owned(), labels, samples: Vec::new() });
            continue;
        }
        let sample = line.strip_suffix(']').and_then(|line| line.split_once(" @["));
        match (sample, series.last_mut()) {
            (Some((value, time)), Some(one)) => one.samples.push((time.to_owned(), value.to_owned())),
            _ if line.trim().is_empty() => {}
            _ => {
                let position = Position::Text { line: number, column: 1 };
                let problem = format!("not a sample: `{}`", line.escape_debug());
                return Err(TraceError::new(input.name(), position, problem).expected("value @[time]"));
            }
        }
    }
    Ok(Some(Report::new(input, of_metrics(&series), 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let input = Input::from_bytes("file", text.into());
        let report = table(&input, text.as_bytes()).and_then(|found| match found {
            None => of_promtool(&input, text.as_bytes()),
            found => Ok(found),
        });
        match report {
            Ok(report) => String::from_utf8(report.expect("a report").input.head().unwrap()).unwrap(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn answers_of_prometheus_are_tables() {
        let one = |values: &str| {
            format!(
                "{{\"data\":{{\"result\":[{{\"metric\":{{\"__name__\":\"ios\",\"device\":\"sd\\\"a\"}},{values}}}]}}}}"
            )
        };
        let expected = "time;labels;\"ios\"\n1.5;\"device=sd\"\"a\";2\n3;\"device=sd\"\"a\";NaN\n";
        assert_eq!(read(&one("\"values\":[[1.5,\"2\"],[3,\"NaN\"]]")), expected);
        assert!(read(&one("\"value\":[1.5,\"2\"]")).contains("query_range"));
        let printed = "ios{device=\"sda\"} =>\n2 @[1.5]\n\nios{device=\"sdb\"} =>\n4 @[1.5]\n";
        assert_eq!(read(printed), "time;labels;\"ios\"\n1.5;\"device=sda\";2\n1.5;\"device=sdb\";4\n");
    }

    #[test]
    fn json_of_sysstat_is_its_table() {
        let all = |reports: &str| format!("{{\"sysstat\":{{\"hosts\":[{{\"statistics\":[{reports}]}}]}}}}");
        let iostat =
            |time: &str| format!("{{\"timestamp\":\"{time}\",\"disk\":[{{\"disk_device\":\"sda\",\"r/s\":2.5}}]}}");
        let text = all(&format!("{},{}", iostat("03/02/2026 12:00:00 AM"), iostat("03/02/2026 12:01:00 AM")));
        assert_eq!(read(&text), "time;device;r/s\n03/02/2026 12:01:00 AM;\"sda\";2.5\n");
        let sadf = "{\"timestamp\":{\"date\":\"2026-03-02\",\"time\":\"00:10:01\",\"utc\":1},\"disk\":[{\"disk-device\":\"sda\",\"tps\":1.0}]}";
        assert_eq!(read(&all(sadf)), "time;device;tps\n2026-03-02 00:10:01 UTC;\"sda\";1.0\n");
        assert!(read(&all("")).contains("no reports of disks"));
        assert!(read("{\"a\":1}").contains("export it as CSV"));
        assert!(read("{\"a\":").contains("not JSON"));
    }
}
