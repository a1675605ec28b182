//! Rules of the log: every problem is written with its device, class and client, and counted; nothing else is written.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::io;
use std::panic::{set_hook, take_hook};
use std::sync::{Mutex, Once};
use std::thread::Builder;

use crate::bench::Bench;
use crate::client::*;
use ioweir_core::Nanos;
use ioweir_serve::log::{EventKind, write_panic};
use serde_json::{Value, json};

static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A writer that keeps the lines.
struct Lines;

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut *WRITTEN.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps the events of all tests from now on.
pub(crate) fn listen() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| tracing_subscriber::fmt().json().flatten_event(true).with_writer(|| Lines).init());
}

/// The events of a device, whose name no other test uses.
pub(crate) fn events(device: &str) -> Vec<Value> {
    events_of("device", device)
}

/// The events with this value of a key.
pub(crate) fn events_of(key: &str, value: &str) -> Vec<Value> {
    let written = WRITTEN.lock().unwrap().clone();
    let lines = String::from_utf8(written).unwrap();
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event[key] == value).collect()
}

/// An engine whose events are kept.
fn heard(keys: &str) -> Bench {
    listen();
    Bench::new(keys)
}

const FAILING: &str = "backend = \"faulty\"\nsize = \"1MiB\"\n[device.faults]\nerrors_per_million = 1000000";

#[test]
fn failed_operations_are_logged_with_class_and_client() {
    let mut bench = heard(FAILING);
    let mut peer = bench.connect(1, false);
    peer.send(&[request(WRITE, 0, 1, 4096, 512), vec![1; 512]].concat());
    bench.settle();
    assert_eq!(peer.answers()[0].error, 5);
    let event = &events(&bench.name)[0];
    let expected = [
        ("level", json!("WARN")),
        ("event", json!("operation_failed")),
        ("class", json!("b")),
        ("peer", json!("unknown")),
        ("errno", json!(5)),
        ("error", json!("input_output")),
        ("message", json!("write of 512 bytes at 4096 failed")),
    ];
    expected.iter().for_each(|(key, value)| assert_eq!(event[key], *value, "{key}"));
    peer.send(&request(FLUSH, 0, 2, 0, 0));
    bench.settle();
    let failed = events(&bench.name).into_iter().find(|event| event["event"] == "device_failed").unwrap();
    assert_eq!((&failed["level"], &failed["class"]), (&json!("ERROR"), &Value::Null));
}

#[test]
fn many_failures_are_counted_and_few_are_written() {
    let mut bench = heard(FAILING);
    let mut peer = bench.connect(0, false);
    for cookie in 0..50 {
        peer.send(&request(READ, 0, cookie, 0, 512));
    }
    bench.settle();
    assert_eq!(bench.count(EventKind::OperationFailed), 50);
    assert_eq!(events(&bench.name).len(), 10);
    bench.now = bench.now.after(Nanos::from_seconds(2));
    peer.send(&request(READ, 0, 51, 0, 512));
    bench.settle();
    assert_eq!(events(&bench.name)[10]["left_out"], 40);
}

#[test]
fn cutting_off_a_client_is_logged_with_reason() {
    let mut bench = heard("backend = \"memory\"\nsize = \"1MiB\"");
    let mut peer = bench.connect(0, false);
    peer.send(&[b'x'; 100]);
    bench.turn();
    let mut slow = bench.connect(0, false);
    slow.send(&request(WRITE, 0, 1, 0, 512));
    bench.turn();
    bench.now = bench.now.after(Nanos::from_seconds(31));
    bench.turn();
    let written = events(&bench.name);
    let kinds: Vec<_> = written.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["protocol_error", "client_stalled"]);
    assert!(written.iter().all(|event| event["class"] == "a"));
}

#[test]
fn successes_and_refused_requests_are_not_logged() {
    let mut bench = heard("backend = \"memory\"\nsize = \"1MiB\"");
    let mut peer = bench.connect(0, true);
    peer.send(&request(READ, 0, 1, 0, 4096));
    peer.send(&request(READ, 0, 2, 1 << 40, 4096));
    peer.send(&request(DISCONNECT, 0, 3, 0, 0));
    bench.settle();
    assert_eq!(events(&bench.name), [Value::Null; 0]);
}

#[test]
fn a_panic_is_one_event_and_no_backtrace() {
    listen();
    let before = take_hook();
    set_hook(Box::new(write_panic));
    let thread = Builder::new().name("panicking".into()).spawn(|| panic!("seven is none of them\nand more"));
    assert!(thread.unwrap().join().is_err());
    set_hook(before);
    let panics: Vec<Value> = events_of("event", "panicked");
    let its: Vec<&str> = panics.iter().filter_map(|event| event["message"].as_str()).collect();
    let its: Vec<&str> = its.into_iter().filter(|message| message.contains("seven is none")).collect();
    assert!(its.len() == 1 && its[0].starts_with("thread panicking: ") && its[0].ends_with("none of them"), "{its:?}");
}
