//! The figures of a trace as text for a terminal.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use ioweir_trace::{Info, Sizes, Times};

/// The figures as aligned text: one fact a line, then one table each for operations, times and the busiest streams.
#[must_use]
pub fn render_trace_info(info: &Info) -> String {
    let mut out = facts(info);
    for table in [operations(info), times(info), streams(info)] {
        // Writing to a string does not fail.
        let _ = write!(out, "\n{}\n", trimmed(&table));
    }
    out
}

fn trimmed(table: &Table) -> String {
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn facts(info: &Info) -> String {
    let mut lines = vec![
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
        lines.push(("first request", format!("{epoch} ns since 1970-01-01 UTC")));
    }
    if info.skipped_records > 0 {
        lines.push(("skipped", format!("{} that could not be read", info.skipped_records)));
    }
    lines.into_iter().fold(String::new(), |mut out, (name, value)| {
        let _ = writeln!(out, "{name:<21} {value}");
        out
    })
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

fn table(header: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn operations(info: &Info) -> Table {
    let row = |name: &str, requests: u64, bytes: u64, sizes: Option<&Sizes>| {
        let of = |pick: fn(&Sizes) -> u64| {
            sizes.filter(|sizes| sizes.requests > 0).map_or_else(|| "-".to_owned(), |sizes| pick(sizes).to_string())
        };
        let megabytes = format!("{:.1}", bytes as f64 / 1e6);
        let quantiles = [of(|sizes| sizes.p50_bytes), of(|sizes| sizes.p99_bytes), of(|sizes| sizes.max_bytes)];
        [vec![name.to_owned(), requests.to_string(), megabytes], quantiles.into()].concat()
    };
    let rows = vec![
        row("read", info.read_requests, info.read_bytes, Some(&info.read_size)),
        row("write", info.write_requests, info.write_bytes, Some(&info.write_size)),
        row("discard", info.discard_requests, info.discard_bytes, None),
        row("flush", info.flush_requests, 0, None),
    ];
    table(&["operation", "requests", "MB", "p50 bytes", "p99 bytes", "max bytes"], rows)
}

fn times(info: &Info) -> Table {
    let row = |name: &str, times: &Times| {
        let milliseconds = |seconds: f64| format!("{:.3}", seconds * 1e3);
        let quantiles = [times.p50_seconds, times.p90_seconds, times.p99_seconds, times.max_seconds];
        let mut row = vec![name.to_owned(), times.count.to_string()];
        row.extend(quantiles.map(milliseconds));
        row
    };
    let mut rows = vec![row("to the next", &info.interarrival)];
    rows.extend(info.latency.as_ref().map(|latency| row("latency", latency)));
    table(&["time", "count", "p50 ms", "p90 ms", "p99 ms", "max ms"], rows)
}

fn streams(info: &Info) -> Table {
    let rows = info.busiest_streams.iter().map(|stream| {
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        vec![
            stream.name.clone(),
            stream.requests.to_string(),
            megabytes(stream.read_bytes),
            megabytes(stream.write_bytes),
            percent(stream.sequential_ratio),
        ]
    });
    table(&["busiest streams", "requests", "read MB", "written MB", "sequential"], rows.collect())
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
    fn figures_on_a_terminal_are_aligned_and_carry_units() {
        let input = Input::from_bytes("trace", TRACE.into());
        let mut source = open_inputs(vec![input], &ReadOptions::default()).expect("a trace");
        insta::assert_snapshot!(render_trace_info(&info(&mut *source).expect("a trace")));
    }
}
