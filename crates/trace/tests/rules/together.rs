//! Traces that are merged, and traces that are repeated.

use ioweir_core::Nanos;
use ioweir_trace::{Alignment, Input, Merged, ReadOptions, Repeat, Repeated, TraceError, TraceSource, open_inputs};

const ONE: &str = "time_s,pid,comm,op,lba,sectors\n0.0,7,db,R,0,8\n0.4,8,log,W,8,8\n";
const OTHER: &str = "time_s,pid,comm,op,lba,sectors\n0.0,7,db,R,64,8\n0.1,9,x,R,72,8\n";

fn open(name: &str, text: &str) -> Result<Box<dyn TraceSource>, TraceError> {
    open_inputs(vec![Input::from_bytes(name, text.into())], &ReadOptions::default())
}

/// Milliseconds, stream and volume of each record.
fn told(source: &mut dyn TraceSource) -> Vec<String> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.read_batch(&mut batch).unwrap();
        if batch.is_empty() {
            return all;
        }
        let names = source.names();
        all.extend(batch.iter().map(|record| {
            let stream = &names.streams[record.stream.0 as usize];
            format!("{} {stream} {}", record.time.0 / 1_000_000, names.volumes[record.volume as usize])
        }));
    }
}

fn merged(keeps_apart: bool) -> Merged {
    let traces = vec![("a".to_owned(), open("disk", ONE).unwrap()), ("b".to_owned(), open("disk", OTHER).unwrap())];
    let offsets = [Nanos(200_000_000), Nanos(300_000_000)];
    Merged::new(traces, Alignment::Starts, &offsets, keeps_apart).unwrap()
}

#[test]
fn merged_traces_are_in_the_order_of_time() {
    assert_eq!(told(&mut merged(false)), ["0 7 db disk", "100 7 db disk", "200 9 x disk", "400 8 log disk"]);
}

#[test]
fn equal_names_are_kept_apart_if_asked() {
    assert_eq!(told(&mut merged(true))[..2], ["0 a: 7 db a: disk", "100 b: 7 db b: disk"]);
}

#[test]
fn clocks_align_only_traces_that_have_them() {
    let msr = |ticks: u64| format!("{ticks},hm,0,Read,0,4096,10\n");
    let of = |texts: [String; 2]| {
        let traces = texts.iter().map(|text| ("t".to_owned(), open("t", text).unwrap())).collect();
        Merged::new(traces, Alignment::Clocks, &[], false)
    };
    let mut both = of([msr(128_166_372_003_061_629), msr(128_166_372_002_061_629)]).unwrap();
    assert_eq!(told(&mut both), ["0 hm_0 hm_0", "100 hm_0 hm_0"]);
    assert!(of([msr(128_166_372_003_061_629), ONE.to_owned()]).is_err());
}

fn repeated(repeat: Repeat) -> Result<Vec<String>, TraceError> {
    Ok(told(&mut Repeated::new(|| open("disk", ONE), repeat)?))
}

#[test]
fn a_repetition_begins_a_mean_step_later() {
    let twice = ["0 7 db disk", "400 8 log disk", "800 7 db disk", "1200 8 log disk"];
    assert_eq!(repeated(Repeat::Times(2)).unwrap(), twice);
    assert_eq!(repeated(Repeat::Until(Nanos(1_000_000_000))).unwrap(), twice[..3]);
}

#[test]
fn a_trace_of_one_moment_has_no_duration() {
    let text = "time_s,pid,comm,op,lba,sectors\n0.0,7,db,R,0,8\n";
    let mut source = Repeated::new(|| open("disk", text), Repeat::Until(Nanos(1))).unwrap();
    let mut batch = Vec::new();
    source.read_batch(&mut batch).unwrap();
    assert_eq!(batch.len(), 1);
    let mut source = Repeated::new(|| open("disk", text), Repeat::Until(Nanos(10))).unwrap();
    source.read_batch(&mut batch).unwrap();
    assert!(source.read_batch(&mut batch).is_err());
}
