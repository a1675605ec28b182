//! Rules of captures: what a row holds of each request, and when it has no result.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use crate::bench::{Bench, device};
use crate::client::*;
use ioweir_core::{Flags, Nanos, Operation, Request, StreamId, Tier};
use ioweir_serve::capture::{Capture, CaptureWriter};
use ioweir_serve::engine::{Command, Observer as _, Question, Report, Stage};
use ioweir_trace::{Names, Record, Served, TraceError, TraceSink};

pub(crate) type Rows = Arc<Mutex<Vec<(Record, Option<Served>)>>>;

/// Keeps the captured rows.
struct Kept(Rows);

impl TraceSink for Kept {
    fn write_batch(&mut self, _batch: &[Record], _names: &Names) -> Result<(), TraceError> {
        unreachable!("captures write how requests were served")
    }

    fn write_served(&mut self, record: &Record, served: Option<Served>, _names: &Names) -> Result<(), TraceError> {
        self.0.lock().unwrap().push((*record, served));
        Ok(())
    }

    fn finish(self: Box<Self>, _names: &Names, _epoch_unix_nanos: Option<i128>) -> Result<(), TraceError> {
        Ok(())
    }
}

/// An engine with a capture, and the writer that has its rows when the engine has ended.
pub(crate) fn captured(keys: &str) -> (Bench, CaptureWriter, Rows) {
    let rows = Rows::default();
    let names = Names { streams: ["a", "b", "c"].map(String::from).into(), volumes: vec!["d".into()] };
    let kept = Kept(Arc::clone(&rows));
    let (capture, written) = Capture::begin(move || Ok(Box::new(kept)), names, &device(keys)).unwrap();
    let mut bench = Bench::new(keys);
    bench.engine.observe(Box::new(capture));
    (bench, written, rows)
}

#[test]
fn withdrawn_requests_have_rows_without_times() {
    let (mut bench, written, rows) =
        captured("backend = \"emulated\"\nmodel = \"tiny\"\nscheduler = \"sfq\"\ndepth = 1\nmerge = false");
    let (mut gone, mut stays) = (bench.connect(0, true), bench.connect(1, true));
    for cookie in 0..3 {
        gone.send(&request(READ, 0, cookie, cookie * 65_536, 4096));
    }
    stays.send(&request(READ, 0, 9, 1 << 20, 4096));
    bench.turn();
    drop(gone);
    bench.settle();
    assert_eq!(stays.answers().len(), 1);
    // A request that is not answered before the engine ends.
    stays.send(&request(READ, 0, 10, 0, 4096));
    bench.turn();
    drop(bench);
    assert_eq!(written.wait().unwrap(), 5);
    let rows = rows.lock().unwrap();
    let seen: Vec<_> =
        rows.iter().map(|(record, served)| (record.stream.0, record.offset_bytes, served.is_some())).collect();
    let expected = [(0, 0, true), (0, 65_536, false), (0, 131_072, false), (1, 1 << 20, true), (1, 0, false)];
    assert_eq!(seen, expected);
    for (record, served) in rows.iter() {
        assert_eq!(record.latency.is_some(), served.is_some());
        let Some(served) = served else { continue };
        assert_eq!(
            record.time.0 + served.wait_nanos.iter().sum::<u64>(),
            served.dispatched.0,
            "waits end with the dispatch"
        );
        assert_eq!((record.latency, served.class), (Some(served.completed.since(record.time)), record.stream.0));
    }
}

#[test]
fn captures_do_not_wait_forever_for_long_requests() {
    let rows = Rows::default();
    let (kept, names) = (Kept(Arc::clone(&rows)), Names { streams: vec!["a".into()], volumes: vec!["d".into()] });
    let device = device("backend = \"memory\"\nsize = \"1MiB\"\nscheduler = \"sfq\"");
    let (mut capture, written) = Capture::begin(move || Ok(Box::new(kept)), names, &device).unwrap();
    let (operation, flags, stream) = (Operation::Read, Flags::NONE, StreamId(0));
    let request = Request { operation, flags, stream, sector: 0, sectors: 8 };
    const MOST: u64 = 1 << 16;
    for number in 1..=MOST + 1 {
        capture.reached(Nanos(number), number, Stage::Arrived);
        capture.reached(Nanos(number), number, Stage::Submitted(request));
        for stage in [Stage::Dispatched(Tier::Base), Stage::Completed(Nanos::ZERO)] {
            // The first request is served after so many others that its row was written without a result.
            if number > 1 {
                capture.reached(Nanos(number), number, stage);
            }
        }
    }
    capture.reached(Nanos(1 << 20), 1, Stage::Dispatched(Tier::Base));
    capture.reached(Nanos(1 << 20), 1, Stage::Completed(Nanos::ZERO));
    drop(capture);
    assert_eq!(written.wait().unwrap(), MOST + 1);
    let rows = rows.lock().unwrap();
    assert!(rows.is_sorted_by_key(|(record, _)| record.time));
    let without: Vec<_> = rows.iter().filter(|(_, served)| served.is_none()).map(|(record, _)| record.time).collect();
    assert_eq!(without, [Nanos::ZERO], "all but the first say what became of them");
}

#[test]
fn captured_worker_times_agree_with_the_counters() {
    let keys = "backend = \"memory\"\nsize = \"1MiB\"\nchecksums = true\ncores = { workers = 1, inline_max = \"0B\" }";
    let (mut bench, written, rows) = captured(keys);
    let mut peer = bench.connect(0, true);
    for cookie in 0..8 {
        peer.send(&[request(WRITE, 0, cookie, cookie * 65_536, 65_536), vec![7; 65_536]].concat());
        bench.settle();
    }
    assert_eq!(peer.answers().len(), 8);
    let (send, hear) = channel();
    let reply = Box::new(move |report: Report| send.send(report).unwrap());
    bench.engine.handle().send(Command::Report(Question { counters: Box::default(), reply }));
    bench.turn();
    let [cores, scheduler, device] = hear.recv().unwrap().counters.get(0).unwrap().counts.layer_nanos();
    drop(bench);
    assert_eq!(written.wait().unwrap(), 8);
    let sum = |of: fn(&Record, &Served) -> u64| -> u64 {
        rows.lock().unwrap().iter().map(|(record, served)| of(record, &served.unwrap())).sum()
    };
    assert_eq!(sum(|_, served| served.cores_nanos), cores);
    assert_eq!(sum(|record, served| served.dispatched.since(record.time).0), scheduler);
    assert_eq!(sum(|_, served| served.completed.since(served.dispatched).0 - served.cores_nanos), device);
}
