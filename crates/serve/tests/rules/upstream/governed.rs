//! Rules of captures of an upstream, and of background work on it.

use std::io::{Read as _, Write as _};

use ioweir_core::Nanos;
use ioweir_govern::source::{Server, Source};
use ioweir_govern::worker::{Position, Task, open};
use ioweir_serve::control::Command;
use ioweir_trace::Served as ServedRow;

use super::sham::{SIZE, Sham};
use crate::captures::captured;
use crate::client::*;
use crate::govern::{at, source_keys, worker_keys};
use crate::operators::Served;

#[test]
fn captures_of_upstreams_add_up_to_the_latency() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    let (mut bench, written, rows) =
        captured(&sham.keys("scheduler = \"sfq+mq-deadline\"\ndepth = 2\nconnections = 1"));
    let mut peer = bench.connect(0, true);
    for cookie in 0..4 {
        peer.send(&[request(WRITE, 0, cookie, cookie << 16, 4096), vec![7; 4096]].concat());
        peer.send(&request(READ, 0, 8 + cookie, cookie << 16, 4096));
    }
    // The upstream dies while it has requests; a request that is sent again still counts as one of the client.
    sham.set(|manner| manner.held = vec![READ]);
    let mut answers = 0;
    let mut turns = 0;
    while answers < 8 {
        bench.now = bench.now.after(Nanos::from_millis(1));
        bench.turn();
        bench.engine.wait(Nanos::from_millis(1)).unwrap();
        answers += peer.answers().iter().filter(|answer| answer.error == 0).count();
        if turns == 100 {
            sham.die(false);
            sham.set(|manner| manner.held.clear());
            sham.revive();
        }
        turns += 1;
        assert!(turns < 20_000, "{answers} of 8 are answered");
    }
    drop(bench);
    assert_eq!(written.wait().unwrap(), 8);
    let rows = rows.lock().unwrap();
    for (record, served) in rows.iter() {
        let served = served.expect("each was served");
        let waits: u64 = served.wait_nanos.iter().sum();
        assert_eq!(record.time.0 + waits, served.dispatched.0, "waits end with the dispatch");
        assert_eq!(record.latency, Some(served.completed.since(record.time)));
    }
    // Time in which the upstream held a request back, or died and was asked again, counts as the device's.
    let took = |(_, served): &(_, Option<ServedRow>)| served.map(|served| served.completed.since(served.dispatched));
    assert!(rows.iter().filter_map(took).max() >= Some(Nanos::from_millis(90)));
}

#[test]
fn upstream_services_obey_the_governor_without_client_load() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    let device = format!("[[device]]\nname = \"d\"\n{}scheduler = \"sfq\"\n", sham.keys(""));
    let service = "[service.nightly]\nkind = \"scrub\"\ndevice = \"d\"\nevery = \"1d\"\ndefault = \"rest\"\n";
    let served = Served::of("", &format!("{device}[[export]]\nname = \"export\"\ndevice = \"d\"\n{service}"));
    let control = format!("kind = \"server\"\ncontrol = \"unix:{}/control\"\n", served.folder.path().display());
    let mut source = Server::new(&source_keys(&format!("{control}device = \"d\""))).unwrap();
    assert!(source.read(at(0)).is_err(), "there is nothing to compare with");
    let keys = format!("{control}service = \"nightly\"\nlease = \"1h\"");
    let mut worker = open("scrub", &worker_keys(&keys), Position::default()).unwrap();
    // An upstream that does not report extents is read as a whole.
    while worker.progress().unwrap().owed_bytes != Some(SIZE) {}
    assert_eq!(worker.progress().unwrap().done_bytes, Some(0), "it rests until it is told to run");
    sham.set(|manner| {
        manner.held = vec![READ];
        manner.asked.clear();
    });
    worker.run(&Task { bytes: SIZE, bytes_per_second_max: Some(1), ..Task::default() }).unwrap();
    while sham.manner().asked.is_empty() {}
    // A read that is answered in the turn that sent it takes no time of the device: the server's clock goes by turns.
    let in_flight = || served.ask(&Command::State {}).unwrap()["devices"][0]["inflight_requests"].as_u64();
    while in_flight() != Some(1) {}
    sham.set(|manner| manner.held.clear());
    while worker.progress().unwrap().done_bytes == Some(0) {}
    // The first reading may be from before the worker's order.
    let mut seen = (1..).map(|second| source.read(at(second)).unwrap());
    let quiet = seen.find(|seen| seen.background_busy > Some(0.0)).unwrap();
    assert_eq!((quiet.requests, quiet.written_bytes), (Some(0.0), Some(0.0)));
    assert!(quiet.busy >= quiet.background_busy, "{quiet:?}");
    let mut client = served.client("export");
    client.write_all(&[request(WRITE, 0, 1, 0, 1 << 20), vec![1; 1 << 20]].concat()).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    let loud = seen.find(|seen| seen.requests != Some(0.0)).unwrap();
    assert!(loud.written_bytes > Some(0.0), "{loud:?}");
    // The worker's rate is used up, until it gets another.
    let before = worker.progress().unwrap();
    assert!(before.done_bytes < Some(SIZE) && before.device > Some(Nanos::ZERO), "{before:?}");
    worker.run(&Task { bytes: SIZE, bytes_per_second_max: None, ..Task::default() }).unwrap();
    worker.pause().unwrap();
    worker.run(&Task { bytes: SIZE, bytes_per_second_max: None, ..Task::default() }).unwrap();
    while !worker.progress().unwrap().is_finished {}
    assert_eq!(worker.progress().unwrap().done_bytes, Some(SIZE));
    worker.release().unwrap();
    served.stop();
}
