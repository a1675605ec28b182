//! Other people's traces as the readers read them, against the table of the samples' README.

use ioweir_trace::{self as trace, Info, Input, ReadOptions};

use crate::support::shared;

/// A row of the table. Bytes are in units of 10^9, spans in seconds, both as exact as the table has them.
struct Row {
    file: &'static str,
    /// Empty where the content tells it.
    named: &'static str,
    format: &'static str,
    /// Requests with data, and those among them that read.
    requests: u64,
    read_share: f64,
    read_gigabytes: f64,
    written_gigabytes: f64,
    /// And how exact the table has it.
    span_seconds: (f64, f64),
    p50_bytes: u64,
    max_bytes: u64,
    /// Zero where the table has none.
    peak: u64,
    /// Half and 99 of 100 of the latencies, in microseconds.
    latency_micros: Option<(f64, f64)>,
}

const ROW: Row = Row {
    file: "",
    named: "",
    format: "",
    requests: 0,
    read_share: 0.0,
    read_gigabytes: 0.0,
    written_gigabytes: 0.0,
    span_seconds: (0.0, 0.0),
    p50_bytes: 0,
    max_bytes: 0,
    peak: 0,
    latency_micros: None,
};

const ROWS: &[Row] = &[
    Row {
        file: "msr-ucare-cuts/msr.cut.per_10k.rw_20_80.105.trace.gz",
        named: "ucare",
        format: "ucare",
        requests: 10_000,
        read_share: 0.202,
        read_gigabytes: 0.004,
        written_gigabytes: 0.051,
        span_seconds: (243.0, 0.5),
        p50_bytes: 4096,
        max_bytes: 65_536,
        peak: 1398,
        ..ROW
    },
    Row {
        file: "msr-ucare-cuts/msr.cut.per_10k.most_thpt_rand_iops.1006.trace.gz",
        named: "ucare",
        format: "ucare",
        requests: 10_000,
        read_share: 0.832,
        read_gigabytes: 0.036,
        written_gigabytes: 0.095,
        span_seconds: (1.02, 0.005),
        p50_bytes: 4096,
        max_bytes: 65_536,
        peak: 9903,
        ..ROW
    },
    Row {
        file: "tencent-ucare-replayed/tencent.cut.per_50k.rw_60_40.490.trace.gz",
        format: "flashnet-csv",
        requests: 50_000,
        read_share: 0.600,
        read_gigabytes: 0.357,
        written_gigabytes: 0.245,
        span_seconds: (147.0, 0.5),
        p50_bytes: 4096,
        max_bytes: 524_288,
        peak: 1415,
        latency_micros: Some((1003.0, 4762.0)),
        ..ROW
    },
    Row {
        file: "tencent-ucare-replayed/tencent.cut.per_50k.most_size_thpt.222.trace.gz",
        format: "flashnet-csv",
        requests: 50_000,
        read_share: 0.833,
        read_gigabytes: 1.231,
        written_gigabytes: 0.047,
        span_seconds: (77.0, 0.5),
        p50_bytes: 12_288,
        max_bytes: 524_288,
        peak: 2360,
        latency_micros: Some((1639.0, 7265.0)),
        ..ROW
    },
    Row {
        file: "tencent-ucare-replayed/tencent.cut.per_50k.rw_75_25.379.trace.gz",
        format: "flashnet-csv",
        requests: 50_000,
        read_share: 0.758,
        read_gigabytes: 0.499,
        written_gigabytes: 0.141,
        span_seconds: (87.0, 0.5),
        p50_bytes: 4096,
        max_bytes: 524_288,
        peak: 1588,
        latency_micros: Some((1197.0, 5433.0)),
        ..ROW
    },
    Row {
        file: "blkreplay-1und1/linux-mysql.load.gz",
        format: "blkreplay",
        requests: 80_794,
        read_share: 0.089,
        read_gigabytes: 0.083,
        written_gigabytes: 1.101,
        span_seconds: (3600.0, 3.0),
        p50_bytes: 4096,
        max_bytes: 249_856,
        peak: 489,
        ..ROW
    },
    Row {
        file: "blkreplay-1und1/windows-mssql.load.gz",
        format: "blkreplay",
        requests: 42_976,
        read_share: 0.059,
        read_gigabytes: 0.053,
        written_gigabytes: 1.004,
        span_seconds: (3060.0, 3.0),
        p50_bytes: 32_768,
        max_bytes: 32_768,
        peak: 3112,
        ..ROW
    },
    Row {
        file: "windows-wpa/Disk_Usage_Counts_by_IO_Type_Priority.csv.bz2",
        format: "wpa-csv",
        requests: 172_630 - 343,
        read_share: 0.906,
        read_gigabytes: 3.997,
        written_gigabytes: 0.322,
        span_seconds: (51.2, 0.05),
        p50_bytes: 4096,
        max_bytes: 44_167_680,
        peak: 15_276,
        latency_micros: Some((104.0, 5763.0)),
        ..ROW
    },
    Row {
        file: "disksim/ascii.trace.gz",
        named: "disksim",
        format: "disksim",
        requests: 100_000,
        read_share: 0.796,
        read_gigabytes: 0.413,
        written_gigabytes: 0.108,
        span_seconds: (1530.0, 3.0),
        p50_bytes: 3584,
        max_bytes: 32_768,
        peak: 141,
        ..ROW
    },
    Row {
        file: "hp-srt/ajw.1week.srt.gz",
        format: "hp-srt",
        requests: 44_519,
        read_share: 0.293,
        read_gigabytes: 0.062,
        written_gigabytes: 0.202,
        span_seconds: (603_064.588_892, 1e-6),
        p50_bytes: 8192,
        max_bytes: 262_144,
        peak: 106,
        latency_micros: Some((32_143.0, 1_039_029.0)),
        ..ROW
    },
    Row {
        file: "disksim-measured/cheetah9LP.trace.gz",
        format: "disksim-measured",
        requests: 10_000,
        read_share: 0.659,
        read_gigabytes: 0.021,
        written_gigabytes: 0.011,
        span_seconds: (497.607_519, 1e-5),
        p50_bytes: 2048,
        max_bytes: 20_480,
        peak: 24,
        latency_micros: Some((1895.0, 14_239.0)),
        ..ROW
    },
    Row {
        file: "disksim-measured/barracuda.trace.gz",
        format: "disksim-measured",
        requests: 10_000,
        read_share: 0.651,
        read_gigabytes: 0.021,
        written_gigabytes: 0.011,
        span_seconds: (500.570_013, 1e-5),
        p50_bytes: 2048,
        max_bytes: 22_528,
        peak: 25,
        latency_micros: Some((2196.0, 21_937.0)),
        ..ROW
    },
    Row {
        file: "disksim-measured/atlas10k.trace.gz",
        format: "disksim-measured",
        requests: 10_000,
        read_share: 0.657,
        read_gigabytes: 0.021,
        written_gigabytes: 0.011,
        span_seconds: (500.770_864, 1e-5),
        p50_bytes: 2048,
        max_bytes: 20_480,
        peak: 25,
        latency_micros: Some((1112.0, 14_025.0)),
        ..ROW
    },
    Row {
        file: "disksim-measured/hp_c3323a.trace.gz",
        format: "disksim-measured",
        requests: 9_074,
        read_share: 0.674,
        read_gigabytes: 0.051,
        written_gigabytes: 0.026,
        span_seconds: (269.212_925, 1e-5),
        p50_bytes: 6144,
        max_bytes: 95_744,
        peak: 42,
        latency_micros: Some((16_000.0, 37_112.0)),
        ..ROW
    },
    Row {
        file: "mqsim/tpcc-small.trace.gz",
        named: "mqsim",
        format: "mqsim",
        requests: 6_999,
        read_share: 0.626,
        read_gigabytes: 0.036,
        written_gigabytes: 0.023,
        span_seconds: (0.136, 0.0005),
        p50_bytes: 8192,
        max_bytes: 61_440,
        peak: 6999,
        ..ROW
    },
    Row {
        file: "ssdsim/example.ascii.gz",
        named: "mqsim",
        format: "mqsim",
        requests: 10_000,
        read_share: 0.408,
        read_gigabytes: 0.025,
        written_gigabytes: 0.030,
        span_seconds: (260.0, 0.5),
        p50_bytes: 3072,
        max_bytes: 49_152,
        peak: 156,
        ..ROW
    },
    Row {
        file: "octf/sample_trace.tar.xz",
        format: "octf",
        // The table counts 231 discards among its 64,420 requests.
        requests: 64_420 - 231,
        read_share: 0.000,
        read_gigabytes: 0.000,
        written_gigabytes: 8.37,
        span_seconds: (24.7, 0.05),
        p50_bytes: 131_072,
        max_bytes: 131_072,
        ..ROW
    },
];

fn info(file: &str, options: &ReadOptions) -> Option<(Info, &'static str)> {
    let path = shared(&format!("block/{file}"))?;
    let paths = [path.clone()];
    let format = trace::recognise(&paths, options).unwrap_or_else(|error| panic!("{error}")).name;
    let mut source = trace::open_inputs(vec![Input::from_path(&path)], options).unwrap();
    let info = trace::info(&mut *source).unwrap_or_else(|error| panic!("{error}"));
    Some((info, format))
}

fn close(found: f64, expected: f64, by: f64) -> bool {
    (found - expected).abs() <= by
}

#[test]
fn every_sample_has_the_figures_of_its_row() {
    for row in ROWS {
        let options = ReadOptions { format: trace::format(row.named), latency: true, ..ReadOptions::default() };
        let Some((info, format)) = info(row.file, &options) else { continue };
        let file = row.file;
        assert_eq!(format, row.format, "{file}");
        let requests = info.read_requests + info.write_requests;
        assert_eq!(requests, row.requests, "{file}");
        assert!(close(info.read_requests as f64 / requests as f64, row.read_share, 0.000_51), "{file}");
        assert!(close(info.read_bytes as f64 / 1e9, row.read_gigabytes, 0.000_51), "{file}");
        let by = if row.format == "octf" { 0.005 } else { 0.000_51 };
        assert!(close(info.write_bytes as f64 / 1e9, row.written_gigabytes, by), "{file}: {}", info.write_bytes);
        assert!(close(info.span_seconds, row.span_seconds.0, row.span_seconds.1), "{file}: {}", info.span_seconds);
        assert_eq!((info.size.p50_bytes, info.size.max_bytes), (row.p50_bytes, row.max_bytes), "{file}");
        assert!(row.peak == 0 || info.peak_requests_per_second == row.peak, "{file}");
        assert_eq!(info.latency.is_some(), row.latency_micros.is_some() || row.format == "octf", "{file}");
        if let (Some(latency), Some((p50, p99))) = (&info.latency, row.latency_micros) {
            // Quantiles are exact to three digits, and the table may have taken the neighbour.
            assert!(close(latency.p50_seconds * 1e6, p50, p50 / 200.0), "{file}: {}", latency.p50_seconds);
            assert!(close(latency.p99_seconds * 1e6, p99, p99 / 200.0), "{file}: {}", latency.p99_seconds);
        }
    }
}

#[test]
fn ftrace_capture_has_its_rows_counts() {
    for (event, requests) in [("queue", 27_490), ("insert", 10_086), ("issue", 10_086)] {
        let event = trace::Event::ALL.into_iter().find(|known| known.name() == event).unwrap();
        let options = ReadOptions { event, latency: true, ..ReadOptions::default() };
        let Some((info, format)) = info("ftrace-local/mail.ftrace.txt.gz", &options) else { continue };
        assert_eq!(format, "ftrace");
        let data = info.read_requests + info.write_requests + info.discard_requests;
        println!(
            "{}: {data} of {}, {} latencies",
            event.name(),
            info.requests,
            info.latency.as_ref().map_or(0, |latency| latency.count)
        );
        assert_eq!(data, requests, "{}", event.name());
        if event == trace::Event::Queue {
            assert!(close(info.read_requests as f64 / data as f64, 0.129, 0.000_51));
            assert!(close(info.read_bytes as f64 / 1e9, 0.325, 0.000_51));
            assert!(close(info.write_bytes as f64 / 1e9, 0.388, 0.000_51));
            assert_eq!(
                (info.size.p50_bytes, info.size.max_bytes, info.peak_requests_per_second),
                (4096, 8_388_608, 951)
            );
            assert!(close(info.span_seconds, 50.0, 0.5));
        }
    }
}

#[test]
fn trace_objects_are_requests_without_operations() {
    let named = |name| ReadOptions { format: trace::format(name), ..ReadOptions::default() };
    let folder = "cloudphysics/cloudPhysicsIO";
    let Some((objects, _)) = info(&format!("{folder}.oracleGeneral.bin.gz"), &named("oracle-general")) else { return };
    let Some((requests, _)) = info(&format!("{folder}.vscsi.gz"), &ReadOptions::default()) else { return };
    assert_eq!(objects.requests, 113_872);
    assert_eq!(objects.read_bytes / 1_000_000, 4_368);
    assert_eq!((objects.requests, objects.read_requests), (requests.requests, requests.requests));
    assert!(close(objects.span_seconds, requests.span_seconds, 1.0));
}

#[test]
fn the_rows_of_thesios_are_read() {
    let Some((info, format)) = info("thesios/thesios_sample_data.csv", &ReadOptions::default()) else { return };
    assert_eq!((format, info.requests, info.read_requests), ("thesios-csv", 8, 3));
    assert_eq!(info.read_bytes, 1_050_624 + 1_048_576 + 1_050_624);
    assert_eq!(info.epoch_unix_nanos.as_deref(), Some("1705305600015989780"));
    assert_eq!(info.volumes, 5);
}

#[test]
fn disk_of_2008_ran_in_closed_loop() {
    let Some((info, _)) = info("disksim-measured/cheetah15k5.trace.gz", &ReadOptions::default()) else { return };
    assert_eq!((info.requests, info.read_requests), (10_000, 6_680));
    let latency = info.latency.unwrap();
    for (found, expected) in [(latency.p50_seconds, 0.006_04), (latency.p99_seconds, 0.011_06)] {
        assert!(close(found, expected, 0.000_02), "{found}");
    }
}
