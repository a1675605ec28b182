//! The figures of traces as a document.

use ioweir_config::date::format_moment;
use ioweir_config::format_decimals;
use ioweir_trace::{Info, Sizes, Times};
use serde::Serialize;

use crate::document::{Block, Cell, Column, Document, DocumentError, Table, Value, records_of};

/// The figures of a trace under its name.
#[derive(Clone, Debug, Serialize)]
pub struct NamedInfo {
    /// Name of the trace.
    pub trace: String,
    /// The format that it was read as.
    pub format: &'static str,
    /// Where and how it was recorded, if it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<serde_json::Value>,
    /// The figures.
    #[serde(flatten)]
    pub info: Info,
}

/// The figures of one or several traces; as JSON an object or a list.
///
/// # Errors
/// [`DocumentError`], which is a defect of the program.
pub fn document(infos: &[NamedInfo]) -> Result<Document, DocumentError> {
    const COMMAND: &str = "ioweir trace info";
    let name = |named: &NamedInfo| format!("{} ({})", named.trace, named.format);
    let mut document = match infos {
        [only] => Document::new(COMMAND, name(only), only)?,
        all => Document::new(COMMAND, format!("{} traces", all.len()), &all)?,
    };
    document.records = records_of(infos, &["trace", "format", "requests"]);
    for named in infos {
        if infos.len() > 1 {
            document.heading(name(named));
        }
        document.push(Block::Facts(facts(&named.info)));
        for warning in named.info.completeness.warnings().iter().chain(&named.info.implausible) {
            document.text(format!("Warning: {warning}."));
        }
        let said = named.about.as_ref().map(|about| said(about, "")).unwrap_or_default();
        if !said.is_empty() {
            document.push(Block::Facts(said));
        }
        for table in [operations(&named.info), times(&named.info), streams(&named.info)] {
            document.push(table);
        }
    }
    Ok(document)
}

fn facts(info: &Info) -> Vec<(String, String)> {
    let mut facts = vec![
        ("requests", info.requests.to_string()),
        ("span", format!("{:.3} s", info.span_seconds)),
        ("busiest second", format!("{} requests", info.peak_requests_per_second)),
        ("streams", info.streams.to_string()),
        ("volumes", volumes(info)),
        (
            "footprint",
            format!(
                "{} of reads and writes, in granules of {}",
                size(info.footprint_bytes),
                size(info.footprint_granularity_bytes)
            ),
        ),
        ("highest offset", size(info.highest_offset_bytes)),
        ("sequential in trace", share(info.sequential_in_trace_ratio, info.read_sequential_in_trace_ratio)),
        ("sequential in stream", share(info.sequential_in_stream_ratio, info.read_sequential_in_stream_ratio)),
    ];
    if let Some(epoch) = &info.epoch_unix_nanos {
        let moment = epoch.parse::<i128>().ok().and_then(|nanos| i64::try_from(nanos.div_euclid(1_000_000_000)).ok());
        let date = moment.map_or_else(String::new, |seconds| format!("{} UTC, ", format_moment(seconds)));
        facts.push(("first request", format!("{date}{epoch} ns since 1970-01-01 UTC")));
    }
    if let Some(latencies) = latencies(info) {
        facts.push(("latencies", latencies));
    }
    if info.completeness.lines_passed_over > 0 {
        facts.push(("passed over", format!("{} lines that hold no request", info.completeness.lines_passed_over)));
    }
    if info.skipped_records > 0 {
        facts.push(("skipped", format!("{} that could not be read", info.skipped_records)));
    }
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// How many requests have a latency, and why others have none.
fn latencies(info: &Info) -> Option<String> {
    let completeness = &info.completeness;
    let known = info.latency.as_ref().map_or(0, |latency| latency.count);
    let unmatched = completeness.completions_unmatched;
    let elsewhere = completeness.completions_elsewhere;
    if completeness.latencies_withheld {
        return Some("not given".to_owned());
    }
    if known == 0 && unmatched == 0 && elsewhere == 0 {
        return None;
    }
    let reasons = [
        (info.requests_without_latency, "requests have none"),
        (completeness.requests_in_holes, "of them because events are lost"),
        (completeness.requests_superseded, "of them because a newer request for the same bytes came first"),
        (completeness.requests_outlasting, "of them because 65536 more came before their completion"),
        (completeness.requests_unfinished, "of them because the trace ends first"),
        (unmatched, "completions have no request"),
        (elsewhere, "completions are of devices without one"),
    ];
    let reasons = reasons.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("; {count} {what}"));
    Some(format!("of {known} requests{}", reasons.collect::<String>()))
}

/// The values of an object, a fact for each; names within others are joined.
fn said(about: &serde_json::Value, within: &str) -> Vec<(String, String)> {
    use serde_json::Value;
    let Value::Object(object) = about else { return Vec::new() };
    let mut facts = Vec::new();
    for (key, value) in object {
        let name = format!("{within}{}", key.replace('_', " "));
        match value {
            Value::Null => {}
            Value::Object(_) => facts.extend(said(value, &format!("{name}: "))),
            Value::String(text) => facts.push((name, text.clone())),
            Value::Array(list) if list.iter().any(Value::is_object) => {
                let objects = list.iter().filter_map(Value::as_object).take(OBJECTS_SHOWN);
                facts.extend(objects.map(|object| (name.clone(), in_short(object))));
            }
            Value::Array(list) => {
                let words: Vec<String> =
                    list.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
                facts.push((name, words.join(", ")));
            }
            Value::Number(number) if number.is_f64() => {
                facts.push((name, format_decimals(number.as_f64().unwrap_or_default(), 3)));
            }
            other => facts.push((name, other.to_string())),
        }
    }
    facts
}

/// The most objects of a list that are shown.
const OBJECTS_SHOWN: usize = 8;

/// The plain values of an object in one line.
fn in_short(object: &serde_json::Map<String, serde_json::Value>) -> String {
    let plain = object.iter().filter(|(_, value)| value.is_string() || value.is_number() || value.is_boolean());
    let words = plain.map(|(key, value)| match value.as_str() {
        Some(text) => text.to_owned(),
        None => format!("{} {value}", key.replace('_', " ")),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn volumes(info: &Info) -> String {
    const SHOWN: usize = 8;
    let names: Vec<&str> = info.volume_names.iter().take(SHOWN).map(String::as_str).collect();
    let more = if info.volume_names.len() > SHOWN { ", ..." } else { "" };
    format!("{} ({}{more})", info.volumes, names.join(", "))
}

fn share(all: Option<f64>, reads: Option<f64>) -> String {
    format!("{} of reads and writes, {} of reads", percent(all), percent(reads))
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0))
}

fn operations(info: &Info) -> Table {
    let bytes = |name: &str| Column::count(name).unit("bytes");
    let columns = [
        Column::text("operation"),
        Column::count("requests"),
        Column::digits("moved", 1).unit("MB"),
        bytes("p50"),
        bytes("p99"),
        bytes("max"),
    ];
    let mut table = Table::new("", columns);
    let mut row = |name: &str, requests: u64, bytes: u64, sizes: Option<&Sizes>| {
        let sizes = sizes.filter(|sizes| sizes.requests > 0);
        let of = |pick: fn(&Sizes) -> u64| Cell::from(sizes.map(pick));
        table.row([
            name.into(),
            requests.into(),
            (bytes as f64 / 1e6).into(),
            of(|sizes| sizes.p50_bytes),
            of(|sizes| sizes.p99_bytes),
            of(|sizes| sizes.max_bytes),
        ]);
    };
    row("read", info.read_requests, info.read_bytes, Some(&info.read_size));
    row("write", info.write_requests, info.write_bytes, Some(&info.write_size));
    row("discard", info.discard_requests, info.discard_bytes, None);
    row("flush", info.flush_requests, 0, None);
    table
}

fn times(info: &Info) -> Table {
    let time = |name: &str| Column::digits(name, 3).unit("ms");
    let columns = [Column::text("time"), Column::count("count"), time("p50"), time("p90"), time("p99"), time("max")];
    let mut table = Table::new("", columns);
    let mut row = |name: &str, times: &Times| {
        let quantiles = [times.p50_seconds, times.p90_seconds, times.p99_seconds, times.max_seconds];
        let mut cells = vec![name.into(), times.count.into()];
        cells.extend(quantiles.map(|seconds| Cell::from(seconds * 1e3)));
        table.row(cells);
    };
    row("to the next", &info.interarrival);
    if let Some(latency) = &info.latency {
        row("latency", latency);
    }
    table
}

fn streams(info: &Info) -> Table {
    let megabytes = |name: &str| Column::digits(name, 1).unit("MB");
    let columns = [
        Column::text("busiest streams"),
        Column::count("requests"),
        megabytes("read"),
        megabytes("written"),
        Column::digits("sequential", 1).unit("%"),
    ];
    let mut table = Table::new("", columns);
    for stream in &info.busiest_streams {
        table.row([
            (&stream.name).into(),
            stream.requests.into(),
            (stream.read_bytes as f64 / 1e6).into(),
            (stream.write_bytes as f64 / 1e6).into(),
            Value::from(stream.sequential_ratio.map(|ratio| ratio * 100.0)).into(),
        ]);
    }
    table
}

/// Bytes in the largest unit that leaves at least one, with the exact number where that is not exact.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = (bytes.max(1).ilog2() / 10) as usize;
    let unit = 1_u64 << (10 * step);
    if bytes.is_multiple_of(unit) {
        format!("{} {}", bytes / unit, UNITS[step])
    } else {
        format!("{:.1} {} ({bytes} bytes)", bytes as f64 / unit as f64, UNITS[step])
    }
}

#[cfg(test)]
mod tests {
    use ioweir_trace::{Input, ReadOptions, info, open_inputs};

    use super::*;

    const TRACE: &str = "\
time_s,pid,comm,op,lba,sectors
2.806149,11452,DataXceiver for,RM,16843016,8
2.806634,11452,DataXceiver for,RA,16843024,256
2.9,10,a,b,FWFSM,8,8
3,10,(null),FWS,0,0
3.000000001,10,x,DS,4096,262144
";

    #[test]
    fn terminal_figures_are_aligned_with_units() {
        let input = Input::from_bytes("trace", TRACE.into());
        let mut source = open_inputs(vec![input], &ReadOptions::default()).expect("a trace");
        let info = info(&mut *source).expect("a trace");
        let named = NamedInfo { trace: "trace".into(), format: "hadoop-csv", about: None, info };
        insta::assert_snapshot!(document(&[named]).expect("it is JSON").to_terminal(false));
    }
}
