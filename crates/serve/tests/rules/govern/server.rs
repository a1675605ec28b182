//! Rules of a block server as a source of load and as a worker, over its control socket.

use std::io::{Read as _, Write as _};

use ioweir_govern::hand::{Order, Report};
use ioweir_govern::overseer::{Actions, Overseer};
use ioweir_govern::source::{Server, Source};
use ioweir_govern::worker::{Position, Progress, Task, Worker, WorkerError, open};
use ioweir_serve::control::Command;

use super::overseer::{Simple, scrub};
use super::{at, source_keys, worker_keys};
use crate::client::*;
use crate::operators::Served;
use crate::process::Process;

const SPEC: &str = r#"
[[device]]
name = "d"
backend = "file"
path = "FOLDER/disk"
size = "64MiB"
scheduler = "sfq"
[[export]]
name = "export"
device = "d"
[service.nightly]
kind = "scrub"
device = "d"
every = "100ms"
"#;

const TASK: Task =
    Task { bytes: 1 << 20, bytes_per_second_max: Some(0), reservation_bytes_per_second: None, is_behind: false };

/// A server, and a megabyte that was written to it.
fn served(folder: &tempfile::TempDir) -> Served {
    let served = Served::of("", &SPEC.replace("FOLDER", &folder.path().display().to_string()));
    write(&served);
    served
}

fn write(served: &Served) {
    let mut client = served.client("export");
    client.write_all(&[request(WRITE, FUA, 1, 0, 1 << 20), vec![1; 1 << 20]].concat()).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
}

fn control(served: &Served) -> String {
    format!("control = \"unix:{}/control\"\n", served.folder.path().display())
}

#[test]
fn services_obey_their_worker_and_are_finally_released() {
    let folder = tempfile::tempdir().unwrap();
    let served = served(&folder);
    let keys = format!("kind = \"server\"\n{}service = \"nightly\"\nlease = \"1h\"", control(&served));
    let mut worker = open("scrub", &worker_keys(&keys), Position::default()).unwrap();
    worker.pause().unwrap();
    while worker.progress().unwrap().owed_bytes == Some(0) {}
    worker.run(&Task { bytes_per_second_max: Some(500_000_000), ..TASK }).unwrap();
    while worker.progress().unwrap().done_bytes < Some(1 << 20) {}
    // The server refuses a rate of zero.
    worker.run(&TASK).unwrap();
    worker.release().unwrap();
    let state = || served.ask(&Command::State {}).unwrap()["services"][0].clone();
    while !state()["lease_left_seconds"].is_null() {}
    let keys = format!("kind = \"server\"\n{}", control(&served));
    let mut unknown = open("daily", &worker_keys(&keys), Position::default()).unwrap();
    assert!(unknown.run(&TASK).unwrap_err().to_string().contains("unknown service `daily`"));
    served.stop();
    assert!(unknown.pause().unwrap_err().to_string().contains("no server listens there"));
}

#[test]
fn refused_reservations_are_reported_and_the_service_runs() {
    let folder = tempfile::tempdir().unwrap();
    for (scheduler, refused) in [("sfq", Some("scheduler sfq keeps no reservations")), ("mclock", None)] {
        let text = SPEC.replace("FOLDER", &folder.path().display().to_string()).replace("sfq", scheduler);
        let served = Served::of("", &text);
        let keys = format!("kind = \"server\"\n{}service = \"nightly\"\nlease = \"1h\"", control(&served));
        let mut worker = open("scrub", &worker_keys(&keys), Position::default()).unwrap();
        let rate = Some(50 << 20);
        worker.run(&Task { bytes_per_second_max: rate, reservation_bytes_per_second: rate, ..TASK }).unwrap();
        let why = worker.progress().unwrap().unreserved;
        assert_eq!(why.is_some(), refused.is_some(), "{why:?}");
        assert!(why.is_none_or(|why| refused.is_some_and(|part| why.contains(part))));
        while served.ask(&Command::State {}).unwrap()["services"][0]["lease_left_seconds"].is_null() {}
        worker.run(&Task { bytes_per_second_max: rate, ..TASK }).unwrap();
        assert_eq!(worker.progress().unwrap().unreserved, None);
        served.stop();
    }
}

#[test]
fn new_blocks_are_known_where_checksums_are() {
    let folder = tempfile::tempdir().unwrap();
    for (keys, wanted) in [("checksums = true\n", Some([1.0, 0.0])), ("", None)] {
        let text = SPEC.replace("FOLDER", &folder.path().join(keys.len().to_string()).display().to_string());
        std::fs::create_dir(folder.path().join(keys.len().to_string())).unwrap();
        let served = Served::of("", &text.replace("scheduler", &format!("{keys}scheduler")));
        let mut source =
            Server::new(&source_keys(&format!("kind = \"server\"\n{}device = \"d\"", control(&served)))).unwrap();
        assert!(source.read(at(0)).is_err(), "there is nothing to compare with");
        let mut second = 1;
        for wanted in wanted.map_or([None; 2], |wanted| wanted.map(Some)) {
            write(&served);
            // A state is at most a tenth of a second old.
            let seen = loop {
                let seen = source.read(at(second)).unwrap();
                second += 1;
                if seen.written_bytes != Some(0.0) {
                    break seen;
                }
                assert_eq!(seen.unique, None, "nothing was written");
            };
            assert_eq!(seen.unique, wanted);
        }
        served.stop();
    }
}

#[test]
fn clients_are_load_and_services_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let served = served(&folder);
    let mut source =
        Server::new(&source_keys(&format!("kind = \"server\"\n{}device = \"d\"", control(&served)))).unwrap();
    assert!(source.read(at(0)).is_err(), "there is nothing to compare with");
    let keys = format!("kind = \"server\"\n{}service = \"nightly\"", control(&served));
    let mut worker = open("scrub", &worker_keys(&keys), Position::default()).unwrap();
    let before = worker.progress().unwrap().done_bytes;
    worker.run(&Task { bytes_per_second_max: None, ..TASK }).unwrap();
    while worker.progress().unwrap().done_bytes == before {}
    let quiet = source.read(at(1)).unwrap();
    assert_eq!((quiet.requests, quiet.written_bytes), (Some(0.0), Some(0.0)));
    assert!(quiet.busy >= quiet.background_busy && quiet.background_busy > Some(0.0), "{quiet:?}");
    write(&served);
    // A state is at most a tenth of a second old.
    let loud = (2..).map(|second| source.read(at(second)).unwrap()).find(|seen| seen.requests != Some(0.0)).unwrap();
    assert!(loud.written_bytes > Some(0.0), "{loud:?}");
    served.stop();
    let mut elsewhere =
        Server::new(&source_keys(&format!("kind = \"server\"\ncontrol = \"unix:{}/none\"", folder.path().display())))
            .unwrap();
    assert!(elsewhere.read(at(0)).unwrap_err().to_string().contains("no server listens there"));
}

/// A worker that an overseer governs, second by second of a time that the test makes.
struct Governed {
    overseer: Overseer,
    governor: Simple,
    worker: Box<dyn Worker>,
    second: u64,
    /// The orders to run that the worker took.
    runs: u32,
    events: Vec<String>,
}

impl Governed {
    /// Carries out the orders of the next second, and tells how far the work is.
    fn go_on(&mut self) -> Result<Progress, WorkerError> {
        self.second += 1;
        let (moment, mut actions) = (at(self.second), Actions::default());
        self.overseer.turn(moment, moment.wall, &mut self.governor, &mut actions);
        let mut answers: Vec<_> = Vec::new();
        for (_, serial, order) in actions.orders.drain(..) {
            let answer = match order {
                Order::Run(task) => self.worker.run(&task).inspect(|()| self.runs += 1),
                Order::Pause => self.worker.pause(),
                Order::End => self.worker.end(),
            };
            answers.push(Some((serial, answer)));
        }
        let progress = self.worker.progress();
        for answer in answers.into_iter().chain([None]) {
            let report = Report { worker: 0, answer, progress: progress.clone(), position: Position::default() };
            self.overseer.hear(moment, moment.wall, report, &mut self.governor, &mut actions);
        }
        self.events.append(&mut actions.events);
        progress
    }
}

#[test]
fn governed_work_goes_on_after_kills() {
    const BYTES: usize = 8 << 20;
    const SLOW: &str = "every = \"100ms\"\nlimit_bytes = \"64KiB/s\"";
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let start = |keys: &str| {
        let device = format!(
            "backend = \"file\"\npath = \"{at}/disk\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\nchecksums = true\n[[export]]\n\
             [service.nightly]\nkind = \"scrub\"\ndevice = \"d\"\n{keys}"
        );
        let mut server = Process::start(folder.path(), &format!("control = \"unix:{at}/control\""), &device);
        let mut client = server.connect();
        agree(&mut client);
        (server, client)
    };
    let (mut server, mut client) = start("every = \"1h\"");
    client.write_all(&[request(WRITE, FUA, 1, 0, BYTES as u32), vec![7; BYTES]].concat()).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    let keys = format!("kind = \"server\"\ncontrol = \"unix:{at}/control\"\nservice = \"nightly\"\nlease = \"1h\"");
    let mut governed = Governed {
        overseer: Overseer::new(vec![(scrub(None, false), Position::default())]),
        governor: Simple::new(super::at(0).wall, 1 << 40),
        worker: open("scrub", &worker_keys(&keys), Position::default()).unwrap(),
        second: 0,
        runs: 0,
        events: Vec::new(),
    };
    // At the limit a pass takes minutes, so that each kill but the first is in the midst of one. The last pass ends, and the next one is an
    // hour away.
    for keys in [SLOW, SLOW, SLOW, "every = \"1h\""] {
        server.kill();
        governed.events.clear();
        while !governed.events.iter().any(|event| event.contains("no server listens there")) {
            governed.go_on().unwrap_err();
        }
        (server, client) = start(keys);
        // A service that owes nothing yet would have finished.
        governed.worker.pause().unwrap();
        while governed.worker.progress().unwrap().owed_bytes == Some(0) {}
        let runs = governed.runs;
        while governed.runs == runs {
            governed.go_on().unwrap();
        }
        while governed.worker.progress().unwrap().done_bytes == Some(0) {}
    }
    // The rate of the last order may be low.
    governed.worker.run(&Task { bytes_per_second_max: None, ..TASK }).unwrap();
    while governed.worker.progress().unwrap().owed_bytes > Some(0) {}
    let completed = governed.governor.completed.len();
    while governed.governor.completed.len() == completed {
        governed.go_on().unwrap();
    }
    client.write_all(&request(READ, 0, 2, 0, BYTES as u32)).unwrap();
    let mut read = vec![0; 16 + BYTES];
    client.read_exact(&mut read).unwrap();
    assert!(read[16..].iter().all(|byte| *byte == 7), "what was acknowledged is there");
    server.kill();
}
