//! The figures of a trace.

use ioweir_trace::{self as trace, Input, ReadOptions};

use crate::support::*;

fn info(inputs: Vec<Input>) -> trace::Info {
    let mut source = trace::open_inputs(inputs, &ReadOptions::default()).unwrap();
    trace::info(&mut *source).unwrap()
}

fn of(text: &str) -> trace::Info {
    info(vec![Input::from_bytes("trace", text.into())])
}

#[test]
fn figures_of_small_trace_equal_hand_counts() {
    let info = of("\
time_s,pid,comm,op,lba,sectors
0.5,1,a,R,0,8
1.5,2,b,R,8,8
1.6,1,a,R,8,8
1.7,2,b,WS,4096,16
1.8,2,b,WS,4112,16
2.5,1,a,DS,0,2048
2.5,1,a,FWS,0,0
");
    assert_eq!((info.requests, info.read_requests, info.write_requests), (7, 3, 2));
    assert_eq!((info.discard_requests, info.flush_requests), (1, 1));
    assert_eq!((info.read_bytes, info.write_bytes, info.discard_bytes), (12_288, 16_384, 1 << 20));
    assert!((info.span_seconds - 2.0).abs() < 1e-9);
    assert_eq!((info.size.p50_bytes, info.size.max_bytes, info.read_size.p99_bytes), (4096, 8192, 4096));
    // In the trace: the second read and the last write. In the streams: the second read of a, and the last write of b.
    assert_eq!(info.sequential_in_trace_ratio, Some(2.0 / 5.0));
    assert_eq!(info.sequential_in_stream_ratio, Some(2.0 / 5.0));
    assert_eq!(info.read_sequential_in_trace_ratio, Some(1.0 / 3.0));
    assert_eq!(info.read_sequential_in_stream_ratio, Some(1.0 / 3.0));
    // Seconds count from the first request: 0.0, then 1.0 to 1.3, then 2.0.
    assert_eq!(info.peak_requests_per_second, 4);
    assert_eq!((info.footprint_bytes, info.footprint_granularity_bytes), (2 << 20, 1 << 20));
    assert_eq!(info.highest_offset_bytes, 4128 * 512);
    assert_eq!((info.streams, info.volumes), (2, 1));
    assert_eq!(info.busiest_streams[0].name, "2 b");
    assert_eq!(info.busiest_streams[0].sequential_ratio, Some(1.0 / 3.0));
    assert_eq!(info.latency, None);
    assert!((info.interarrival.max_seconds - 1.0).abs() < 1e-9);
}

#[test]
fn latencies_and_wall_clock_are_reported() {
    let info = of(MSR);
    let latency = info.latency.unwrap();
    assert_eq!(latency.count, 3);
    assert!((latency.max_seconds - 118.9e-6).abs() < 1e-12);
    assert_eq!(info.epoch_unix_nanos.as_deref(), Some("1172167431806099900"));
}

#[test]
fn keys_of_the_figures_carry_their_units() {
    let value = serde_json::to_value(of(HADOOP)).unwrap();
    for key in [
        "requests",
        "span_seconds",
        "read_requests",
        "write_requests",
        "discard_requests",
        "flush_requests",
        "read_bytes",
        "write_bytes",
        "streams",
        "volumes",
        "footprint_bytes",
        "footprint_granularity_bytes",
        "sequential_in_trace_ratio",
        "peak_requests_per_second",
        "highest_offset_bytes",
    ] {
        assert!(value.get(key).is_some(), "{key}");
    }
}

#[test]
fn hadoop_reads_are_as_sequential_as_tabled() {
    // Job, then percent in the trace and in the pid.
    for (job, in_trace, in_stream) in [
        ("loop-ssd/grep", 62.0, 95.0),
        ("loop-ssd/wordcount", 39.0, 95.0),
        ("loop-ssd/sort", 40.0, 56.0),
        ("hdd-emul/grep", 71.0, 95.0),
        ("hdd-emul/wordstandarddeviation", 24.0, 94.0),
        ("hdd-emul/terasort", 71.0, 91.0),
    ] {
        let Some(path) = shared(&format!("hadoop/{job}.csv.zst")) else { continue };
        let info = info(vec![Input::from_path(&path)]);
        let percent = |ratio: Option<f64>| (ratio.unwrap() * 100.0).round();
        println!("{job} {:?} {:?}", info.read_sequential_in_trace_ratio, info.read_sequential_in_stream_ratio);
        assert_eq!(
            (percent(info.read_sequential_in_trace_ratio), percent(info.read_sequential_in_stream_ratio)),
            (in_trace, in_stream),
            "{job}"
        );
    }
}

#[test]
fn units_that_no_device_has_are_doubted() {
    let doubts = |list: &str, line: &dyn Fn(u64) -> String| {
        let format = trace::named(&format!("columns:{list}")).unwrap();
        let text: String = (0..200).map(line).collect();
        let options = trace::ReadOptions { format: Some(format), ..trace::ReadOptions::default() };
        let mut source =
            trace::open_inputs(vec![trace::Input::from_bytes("trace", text.into_bytes())], &options).unwrap();
        trace::info(&mut *source).unwrap().implausible.join(" ")
    };
    let sectors = |n: u64| format!("{n},R,{},{}\n", n * 8, 8 + n % 4 * 16);
    assert_eq!(doubts("time:ms,op,sector,sectors", &sectors), "");
    assert!(doubts("time:ms,op,sector,size:bytes", &sectors).contains("the lengths are likely sectors"));
    assert!(doubts("time:ns,op,sector,sectors", &sectors).contains("the times are likely"));
    let bytes = |n: u64| format!("{n},R,{},{}\n", n * 4096, 1 << 20);
    assert!(doubts("time:ms,op,offset:bytes,sectors", &bytes).contains("the lengths are likely bytes"));
    assert!(
        doubts("time:s,op,offset:bytes,size:bytes", &|n| format!("{},R,0,512\n", n * 100_000)).contains("hours apart")
    );
    let eights = |n: u64| format!("{n},R,{},4096\n", n * 8);
    assert!(doubts("time:ms,op,offset:bytes,size:bytes", &eights).contains("`offset:sectors`"));
    assert_eq!(doubts("time:ms,op,offset:sectors,size:bytes", &eights), "");
    let scattered = |n: u64| format!("{n},R,{},4096\n", n << 50);
    assert!(doubts("time:ms,op,sector,size:bytes", &|n| scattered(n % 8)).contains("past any volume"));
    let far = |n: u64| format!("{n},R,{},512\n", if n == 7 { 1_u64 << 60 } else { n * 512 });
    assert!(doubts("time:ms,op,offset:bytes,size:bytes", &far).contains("a line is likely damaged"));
}
