//! A part of a trace is a trace.

use ioweir_config::date::When;
use ioweir_core::Nanos;
use ioweir_trace::{self as trace, Cut, Record, TraceError};

use crate::support::*;

fn cut_of(source: &Read, cut: Cut) -> Result<Read, TraceError> {
    let mut replay = Replay { read: source, next: 0 };
    let mut part = trace::cut(&mut replay, cut);
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        trace::TraceSource::read_batch(&mut part, &mut batch)?;
        if batch.is_empty() {
            break;
        }
        records.extend_from_slice(&batch);
    }
    let names = trace::TraceSource::names(&part).clone();
    Ok(Read { records, names, epoch: trace::TraceSource::epoch_unix_nanos(&part), skipped: 0 })
}

#[test]
fn all_of_a_trace_is_the_trace() {
    for text in [HADOOP, MSR] {
        let whole = read(text.as_bytes()).unwrap();
        assert_eq!(cut_of(&whole, Cut::default()).unwrap(), whole);
    }
}

#[test]
fn times_begin_at_zero_with_clock() {
    let whole = read(MSR.as_bytes()).unwrap();
    let part = cut_of(&whole, Cut { from: When::After(Nanos(1)), ..Cut::default() }).unwrap();
    assert_eq!(part.records.len(), 1);
    assert_eq!(part.records[0].time, Nanos::ZERO);
    assert_eq!(part.epoch, whole.epoch.map(|epoch| epoch + 2_700));
    assert_eq!(part.names.volumes, ["hm_0"]);
    let before = cut_of(&whole, Cut { to: Some(When::After(Nanos(2_700))), ..Cut::default() }).unwrap();
    assert_eq!(before.records, whole.records[..2]);
    let slow = cut_of(&whole, Cut { speed_thousandths: 500, ..Cut::default() }).unwrap();
    assert_eq!(slow.records[2].time, Nanos(5_400));
}

#[test]
fn streams_are_named_whole_or_by_their_command() {
    let whole = read(HADOOP.as_bytes()).unwrap();
    let of = |names: &[&str]| {
        let streams = names.iter().map(|name| (*name).to_owned()).collect();
        cut_of(&whole, Cut { streams, ..Cut::default() })
    };
    assert_eq!(of(&["DataXceiver for"]).unwrap().records.len(), 2);
    assert_eq!(of(&["10 a,b"]).unwrap().records.len(), 2);
    let both = of(&["10 x", "a,b"]).unwrap();
    assert_eq!(both.names.streams, ["10 a,b", "10 x"]);
    assert_eq!(
        of(&["nobody"]).unwrap_err().to_string(),
        "cut: nothing is left of the trace: it has no stream `nobody`\n  \
         expected: 11452 DataXceiver for, 10 a,b, 10 x"
    );
}

#[test]
fn places_are_where_requests_start_and_flushes_stay() {
    let whole = read(HADOOP.as_bytes()).unwrap();
    let cut = Cut { offset_from_bytes: 4096, offset_to_bytes: Some(4096 * 512), ..Cut::default() };
    let part = cut_of(&whole, cut).unwrap();
    let places: Vec<u64> = part.records.iter().map(|record: &Record| record.offset_bytes).collect();
    assert_eq!(places, [4096, 0]);
    let error = cut_of(&whole, Cut { from: When::After(Nanos::from_seconds(99)), ..Cut::default() }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cut: nothing is left of the trace\n\nhint: `ioweir trace info` shows its times, streams and offsets"
    );
}

#[test]
fn cuts_of_long_trace_join_to_whole() {
    let mut text = String::from("time_s,pid,comm,op,lba,sectors\n");
    for number in 0..20_000_u64 {
        text.push_str(&format!("{}.{:06},{},worker,R,{},8\n", number / 1000, number % 1000, number % 7, number * 8));
    }
    let whole = read(text.as_bytes()).unwrap();
    let part = |from, to: Option<Nanos>| {
        cut_of(&whole, Cut { from: When::After(Nanos::from_seconds(from)), to: to.map(When::After), ..Cut::default() })
            .unwrap()
            .records
            .len()
    };
    let ends = [0, 3, 7, 11];
    let counts: Vec<usize> = ends
        .iter()
        .enumerate()
        .map(|(place, from)| part(*from, ends.get(place + 1).map(|to| Nanos::from_seconds(*to))))
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), 20_000);
    assert_eq!(counts[0], 3_000);
}

#[test]
fn dates_cut_where_the_wall_clock_says() {
    let whole = read(MSR.as_bytes()).unwrap();
    let second = ioweir_config::date::format_moment(whole.epoch.map_or(0, |epoch| (epoch / 1_000_000_000) as i64) + 60);
    let at = |text: &str| text.parse::<When>().unwrap();
    let later = cut_of(&whole, Cut { from: at(&second), ..Cut::default() }).unwrap_err();
    assert!(later.to_string().contains("nothing is left"), "{later}");
    let before = cut_of(&whole, Cut { to: Some(at(&second)), ..Cut::default() }).unwrap();
    assert_eq!(before.records, whole.records);
    let early = cut_of(&whole, Cut { from: at("1999-01-01"), ..Cut::default() }).unwrap();
    assert_eq!(early.records, whole.records);
    let none = cut_of(&read(HADOOP.as_bytes()).unwrap(), Cut { from: at("1999-01-01"), ..Cut::default() }).unwrap_err();
    assert!(none.to_string().contains("no wall clock"), "{none}");
}

#[test]
fn cuts_by_volume_join_to_whole() {
    let whole = read(MSR.as_bytes()).unwrap();
    assert_eq!(whole.names.volumes.len(), 2);
    let of =
        |name: &String| cut_of(&whole, Cut { volumes: vec![name.clone()], ..Cut::default() }).unwrap().records.len();
    assert_eq!(whole.names.volumes.iter().map(of).sum::<usize>(), whole.records.len());
}
