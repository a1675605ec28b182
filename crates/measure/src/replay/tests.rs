use ioweir_core::Operation;
use ioweir_trace::{Input, ReadOptions, open_inputs};

use super::*;
use ioweir_lab::document::{FORMS, Origin, Provenance};
use ioweir_lab::run::Folded;

const TRACE: &str = "\
time_s,pid,comm,op,lba,sectors
0.1,1,a,R,0,8
0.2,1,a,W,16,8
0.3,2,b,R,4000,3
0.4,2,b,FWS,0,0
";

fn trace() -> Box<dyn TraceSource> {
    open_inputs(vec![Input::from_bytes("t", TRACE.into())], &ReadOptions::default()).expect("a trace")
}

fn fit() -> Fit {
    Fit { size_bytes: 4 << 20, alignment_bytes: 512, may_write: true, ..Fit::default() }
}

fn all(fit: Fit) -> (Vec<Record>, Left) {
    let mut fitted = Fitted::new(trace(), "t", fit);
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        fitted.read_batch(&mut batch).expect("it suits");
        if batch.is_empty() {
            return (records, fitted.left().clone());
        }
        records.append(&mut batch);
    }
}

fn refused(fit: Fit) -> String {
    Fitted::new(trace(), "t", fit).check().expect_err("it does not suit").to_string()
}

#[test]
fn unpermitted_write_is_refused_or_left_out() {
    let fit = Fit { may_write: false, ..fit() };
    let error = refused(fit.clone());
    assert!(error.contains("request 2: the trace has a write") && error.contains("--reads-only"), "{error}");
    let (records, left) = all(Fit { reads_only: true, ..fit });
    assert!(records.iter().all(|record| record.operation == Operation::Read));
    assert_eq!((left.requests, left.writes_left_out, left.others_left_out), (2, 1, 1));
}

#[test]
fn parts_are_replayed_with_doubts_of_the_whole() {
    let line = |number: u64| format!("{}.0,1,a,R,0,8\n", if number == 9 { 1_266_874_889 } else { number });
    let text = format!("time_s,pid,comm,op,lba,sectors\n{}", (0..10).map(line).collect::<String>());
    let source = open_inputs(vec![Input::from_bytes("t", text.into())], &ReadOptions::default()).expect("a trace");
    let fit = Fit { requests: Some(2), ..fit() };
    let mut fitted = Fitted::new(Box::new(ioweir_trace::Doubted::new(source)), "t", fit);
    assert_eq!(fitted.check().expect("it suits").requests, 2);
    assert!(fitted.remarks()[0].contains("the times jump by"), "{:?}", fitted.remarks());
}

#[test]
fn request_past_end_is_refused_or_folded() {
    let fit = Fit { size_bytes: 1 << 20, ..fit() };
    let error = refused(fit.clone());
    assert!(error.contains("request 3: ends at byte 2049536") && error.contains("--fold"), "{error}");
    let (records, left) = all(Fit { fold: true, ..fit });
    assert_eq!((records[2].offset_bytes, left.folded, left.end_bytes), (2048000 % (1 << 20), 1, 2049536));
    assert!(records.iter().all(|record| record.offset_bytes + record.length_bytes <= 1 << 20));
}

#[test]
fn replay_folds_addresses_as_other_verbs() {
    // Addresses begin anew at a whole number of MiB, so that a device with a ragged end keeps what was aligned.
    for size_bytes in [(1 << 20) + 512, 3 << 19, 1 << 20] {
        let (records, left) = all(Fit { fold: true, size_bytes, ..fit() });
        let mut others = Folded::new(trace(), size_bytes);
        let mut batch = Vec::new();
        others.read_batch(&mut batch).expect("it is read");
        let places = |records: &[Record]| -> Vec<_> { records.iter().map(|record| record.offset_bytes).collect() };
        assert_eq!(places(&records), places(&batch), "{size_bytes}");
        assert_eq!(left.folded, others.folded());
    }
}

#[test]
fn requests_are_widened_to_sectors() {
    let (records, left) = all(Fit { alignment_bytes: 4096, ..fit() });
    assert_eq!((records[2].offset_bytes, records[2].length_bytes, left.widened), (2048000, 4096, 1));
    assert_eq!((records[1].offset_bytes, records[1].length_bytes), (8192, 4096));
    assert_eq!(all(fit()).1.widened, 0);
}

#[test]
fn bounds_end_a_replay() {
    assert_eq!(all(Fit { requests: Some(2), ..fit() }).1.requests, 2);
    // Times count from the first request.
    assert_eq!(all(Fit { until: Some(Nanos::from_millis(150)), ..fit() }).1.requests, 2);
}

#[test]
fn a_replay_of_nothing_is_an_error() {
    let error = refused(Fit { requests: Some(0), ..fit() });
    assert!(error.contains("nothing of it is replayed"), "{error}");
}

fn measured(scheduler: &str, repetition: u32, millis: u64) -> Measured {
    let mut run = Measured { scheduler: scheduler.into(), repetition, in_flight_max: 3, ..Measured::default() };
    run.by_class = sums(millis);
    for (number, record) in all(fit()).0.iter().enumerate() {
        let arrival = Nanos(number as u64);
        let record = Record { time: arrival, ..*record };
        run.count(&record, arrival, arrival.after(Nanos::from_millis(millis)), true);
    }
    run.completion = Nanos::from_millis(millis * 4);
    run
}

/// All requests of the trace, each answered after so long, the last first.
fn sums(millis: u64) -> ClassSums {
    let (records, mut by_class) = (all(fit()).0, ByClass::new(4 << 20));
    (0..).zip(&records).for_each(|(number, record)| by_class.arrived(number, record, Nanos(number)));
    let answer = |number| by_class.answered(number, Some(Nanos(number).after(Nanos::from_millis(millis))));
    (0..records.len() as u64).rev().for_each(answer);
    *by_class.sums()
}

fn predicted(scheduler: &str, millis: u64) -> Predicted {
    let mut outcome = Outcome { completion: Nanos::from_millis(millis * 4), ..Outcome::default() };
    outcome.all = Class { requests: 1, latency_sum_nanos: u128::from(millis) * 1_000_000, ..Class::default() };
    Predicted { scheduler: scheduler.into(), outcome, by_class: sums(millis) }
}

fn page() -> Page {
    let runs = [("none", 10), ("bfq", 20), ("kyber", 40), ("none", 12), ("bfq", 21), ("kyber", 41)];
    let runs = runs.iter().enumerate().map(|(at, (name, millis))| measured(name, at as u32 / 3 + 1, *millis));
    Page {
        trace: "t".into(),
        device: "sda".into(),
        load: "closed:1".into(),
        measured: runs.collect(),
        predicted: vec![predicted("none", 10), predicted("bfq", 45), predicted("kyber", 40)],
        model: Some(("hdd".into(), 32)),
        depth: Some(128),
        ..Page::default()
    }
}

fn provenance() -> Provenance {
    let origin = Origin { version: "1".into(), commit: "unknown".into(), command: "ioweir replay".into() };
    Provenance::new(&origin, Vec::new(), Vec::new())
}

#[test]
fn page_shows_error_and_order_of_pairs() {
    let document = document(&page(), provenance()).expect("it is JSON");
    assert_eq!(
        document.headline,
        "none has the lowest mean latency, 11.0 ms. The model is off by up to +119.5 % in it, and has 2 of 3 pairs of \
         schedulers in the right order."
    );
    let text = document.to_terminal(false);
    assert!(text.contains("the scheduler never held one"), "{text}");
    insta::assert_snapshot!(text);
    for form in FORMS {
        assert!(!form.render(&document).expect("it renders").is_empty(), "{}", form.suffix);
    }
}

#[test]
fn late_replay_says_so_first() {
    let late = |is_open, millis: u64| {
        let mut page = Page { is_open, ..page() };
        page.measured.iter_mut().for_each(|run| {
            run.lateness.record(millis * 1_000_000);
        });
        document(&page, provenance()).expect("it is JSON").headline.contains("But the replay was late")
    };
    assert!(late(true, 8) && !late(true, 2), "half of 11 ms");
    assert!(!late(false, 8), "a closed loop has no times to keep");
}

#[test]
fn request_class_follows_its_streams_previous_request() {
    let any = all(fit()).0[0];
    let record = |stream: u32, sector: u64, operation| Record {
        stream: ioweir_core::StreamId(stream),
        offset_bytes: sector * 512,
        operation,
        ..any
    };
    let mut by_class = ByClass::new(1 << 30);
    let (read, write) = (Operation::Read, Operation::Write);
    let requests = [(1, 0, read), (2, 90_000, write), (1, 8, read), (2, 90_100, write), (1, 1_000_000, read)];
    for (number, (stream, sector, operation)) in (0..).zip(requests) {
        by_class.arrived(number, &record(stream, sector, operation), Nanos(number));
    }
    // A request that failed has no latency, and an answer to an unknown request counts for nothing.
    by_class.answered(1, None);
    by_class.answered(7, Some(Nanos(9)));
    [4, 0, 3, 2].iter().for_each(|number| by_class.answered(*number, Some(Nanos(number + 100))));
    let some =
        ioweir_device::validate::Classes::NAMES.into_iter().zip(by_class.sums()).filter(|(_, sum)| sum.requests > 0);
    let some: Vec<_> = some.map(|(name, sum)| (name, sum.requests, sum.latency_sum_nanos)).collect();
    assert_eq!(some, [("read sequential, small", 1, 100), ("read far, small", 2, 200), ("write near, small", 1, 100)]);
}

#[test]
fn pairs_whose_repetitions_overlap_are_not_judged() {
    let mut page = page();
    page.measured[4] = measured("bfq", 2, 11);
    let said = document(&page, provenance()).expect("it is JSON").headline;
    assert!(said.ends_with("1 of 2 pairs of schedulers in the right order; 1 more are too close to tell."), "{said}");
    assert!(said.starts_with("none has the lowest mean latency, 11.0 ms. It is not told apart from bfq."), "{said}");
    page.measured.truncate(2);
    let said = document(&page, provenance()).expect("it is JSON").headline;
    assert!(said.contains("10.0 ms. Each was measured once, which says nothing of chance: --repeat 5."), "{said}");
}

#[test]
fn what_failed_is_counted_apart_and_said() {
    let mut page = page();
    let record = all(fit()).0[2];
    page.measured[0].count(&record, record.time, record.time, false);
    let text = document(&page, provenance()).expect("it is JSON").to_terminal(false);
    assert!(text.contains("The device failed 1 requests, the first at byte 2048000."), "{text}");
}

#[test]
fn prediction_equals_comparison_of_same_requests() {
    let spec = DeviceSpec::load("hdd").expect("a preset");
    let model = Model { name: "hdd".into(), spec, depth: Some(4), queue_requests: None, request_bytes_max: None };
    let scheduler: SchedulerChoice = "mq-deadline".parse().expect("a scheduler");
    let load = "x5".parse().expect("a load");
    let mix = ioweir_lab::workload::mix("grep").expect("a mix");
    let source = Box::new(ioweir_lab::workload::JobGenerator::new(mix, mix.requests, None, 0));
    let mut by_class = ByClass::new(1 << 40);
    let outcome = model.predict(&scheduler, load, source, &mut by_class).expect("it runs");
    let comparison = ioweir_lab::compare::Comparison {
        traces: vec!["mix:grep".into()],
        schedulers: vec![scheduler],
        loads: vec![load],
        depths: 4.into(),
        ..ioweir_lab::compare::Comparison::default()
    };
    let same = ioweir_lab::compare::run_observed(&comparison, &mut ioweir_lab::sim::Unobserved).expect("it runs");
    assert_eq!((outcome.completion, &outcome.all), (same.completion, &same.all));
    let sums = by_class.sums().iter();
    let sums = sums.fold((0, 0), |all, sum| (all.0 + sum.requests, all.1 + sum.latency_sum_nanos));
    assert_eq!(sums, (same.all.requests, same.all.latency_sum_nanos), "the classes are all requests");
}
