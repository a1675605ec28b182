//! Rules of services: their work, when they may do it, and the effect of a restart, damage and a loss of power.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::bench::{Bench, EPOCH, Peer, device};
use crate::client::*;
use crate::operators::Served;
use ioweir_core::Nanos;
use ioweir_serve::backend::checked::sidecar::Begun;
use ioweir_serve::backend::checked::{WorkerPool, Workers};
use ioweir_serve::backend::{Action, Backend, Checked, Done, Faulty, Io, Media, Memory};
use ioweir_serve::buffer::{Buffer, Buffers};
use ioweir_serve::control::Command;
use ioweir_serve::engine::{Rates, ServiceOrder, ServiceReport, ServiceWait};
use ioweir_serve::log::EventKind;
use ioweir_serve::spec::{Faults, Service, Spec};

const MIB: u64 = 1 << 20;

/// The service of a spec with these keys.
pub(crate) fn service(keys: &str) -> Service {
    let text = format!(
        "[[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\n[[export]]\nname = \"a\"\ndevice = \"d\"\n\
         [service.nightly]\ndevice = \"d\"\n{keys}\n"
    );
    let mut spec = Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
    spec.service.remove("nightly").unwrap()
}

/// The ranges that were read.
type Reads = Arc<Mutex<Vec<(u64, u64)>>>;

/// A device that notes the ranges that are read.
struct Noted<B>(B, Reads, BTreeMap<u32, (u64, u64)>);

impl<B: Backend> Noted<B> {
    fn new(inner: B, reads: &Reads) -> Self {
        Self(inner, Arc::clone(reads), BTreeMap::new())
    }
}

impl<B: Backend> Backend for Noted<B> {
    fn start(&mut self, now: Nanos, io: Io) {
        if io.action == Action::Read {
            self.2.insert(io.id, (io.offset, io.length));
        }
        self.0.start(now, io);
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> std::io::Result<()> {
        let before = done.len();
        self.0.collect(now, done)?;
        let read = done[before..].iter().filter_map(|done| self.2.remove(&done.id));
        self.1.lock().unwrap().extend(read);
        Ok(())
    }

    fn due(&self) -> Nanos {
        self.0.due()
    }

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// Writes to a device before it is served.
pub(crate) fn fill<B: Backend>(mut backend: B, ranges: &[(u64, u64)]) -> B {
    for &(offset, length) in ranges {
        let mut buffer = Buffer::with_capacity(length as usize);
        buffer.bytes_mut().fill(7);
        let (action, durable, dispatch, buffers) = (Action::Write, false, None, Buffers::One(buffer));
        backend.start(Nanos::ZERO, Io { id: 0, action, offset, length, durable, dispatch, buffers });
        backend.collect(Nanos::ZERO, &mut Vec::new()).unwrap();
    }
    backend
}

/// A bench over memory of this size with a scrub, and the ranges that the device reads. Data is written to `ranges` before.
fn scrubbed(size: &str, keys: &str, state: Option<&Path>, ranges: &[(u64, u64)]) -> (Bench, Reads) {
    let device = device(&format!("backend = \"memory\"\nsize = \"{size}\"\nscheduler = \"sfq\""));
    let reads = Reads::default();
    let bytes = size.parse::<ioweir_config::Size>().unwrap().0;
    let backend = Noted::new(fill(Memory::new(bytes), ranges), &reads);
    let spec = service(&format!("kind = \"scrub\"\n{keys}"));
    (Bench::with_services(device, Box::new(backend), [(spec, state.map(Into::into))]), reads)
}

fn write(bench: &mut Bench, offset: u64, length: u32) {
    let mut peer = bench.connect(0, true);
    let mut message = request(WRITE, 0, 1, offset, length);
    message.extend(vec![7; length as usize]);
    let mut rest = &message[..];
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(64 << 10));
        peer.send_long(now, || {
            bench.turn();
        });
        rest = later;
    }
    bench.settle();
    assert_eq!(peer.answers()[0].error, 0);
}

fn at_most(rate: u64) -> Rates {
    Rates { most: Some(rate), ..Rates::default() }
}

fn only(bench: &mut Bench) -> ServiceReport {
    bench.services().remove(0)
}

fn run_to_the_end(bench: &mut Bench) {
    bench.turn_until(20_000, |bench| only(bench).last_finished.is_some());
}

#[test]
fn a_scrub_reads_exactly_the_written_data_once() {
    let ranges = [(3 * MIB, 300 << 10), (40 * MIB + 4096, 4096)];
    let (mut bench, reads) = scrubbed("64MiB", "default = \"run\"", None, &ranges);
    run_to_the_end(&mut bench);
    let mut read = reads.lock().unwrap().clone();
    read.sort_unstable();
    // Memory is allocated in chunks of 64 KiB.
    assert_eq!(read, [(3 * MIB, 256 << 10), (3 * MIB + (256 << 10), 64 << 10), (40 * MIB, 64 << 10)]);
    let report = only(&mut bench);
    assert_eq!((report.owed_bytes, report.done_bytes), (0, 384 << 10));
    assert_eq!((report.running, report.wait), (false, ServiceWait::NothingOwed));
    assert_eq!(bench.count(EventKind::ServiceFinished), 1);
}

#[test]
fn services_run_with_a_lease_and_rest_without() {
    let (mut bench, reads) = scrubbed("64MiB", "", None, &[(0, 2 << 20)]);
    for _ in 0..10 {
        bench.turn();
    }
    let report = only(&mut bench);
    assert_eq!((report.wait, report.owed_bytes, report.running), (ServiceWait::Rests, 2 * MIB, false));
    assert!(reads.lock().unwrap().is_empty());
    // 256 KiB a second, for two seconds and a bit: three requests.
    bench.order(3, ServiceOrder::Run(Nanos::from_millis(2100), at_most(256 << 10)));
    let report = only(&mut bench);
    assert_eq!((report.wait, report.running), (ServiceWait::Rate, true));
    assert!(report.lease_left_seconds.is_some_and(|left| left > 2.0));
    bench.turn_until(1000, |bench| only(bench).lease_left_seconds.is_none());
    let report = only(&mut bench);
    assert_eq!((report.wait, report.done_bytes), (ServiceWait::Rests, 3 * (256 << 10)));
    assert_eq!(report.owed_bytes, 2 * MIB - report.done_bytes);
    bench.order(3, ServiceOrder::Pause(Nanos::from_seconds(1)));
    assert_eq!(only(&mut bench).wait, ServiceWait::Paused);
    bench.order(3, ServiceOrder::Run(Nanos::from_seconds(1000), Rates::default()));
    bench.order(3, ServiceOrder::Release);
    assert_eq!(only(&mut bench).wait, ServiceWait::Rests);
}

#[test]
fn faster_rates_count_from_the_last_request() {
    let (mut bench, _) = scrubbed("64MiB", "", None, &[(0, 2 << 20)]);
    let hour = Nanos::from_seconds(3600);
    // At a byte a second, the first 256 KiB keep the rest waiting for three days.
    bench.order(3, ServiceOrder::Run(hour, at_most(1)));
    bench.turn_until(1000, |bench| only(bench).done_bytes == 256 << 10);
    assert_eq!(only(&mut bench).wait, ServiceWait::Rate);
    let begin = bench.now;
    bench.order(3, ServiceOrder::Run(hour, at_most(256 << 10)));
    bench.turn_until(1000, |bench| only(bench).done_bytes == 2 * MIB);
    let took = bench.now.since(begin);
    assert!((6.9..8.1).contains(&took.as_seconds()), "seven more, one a second: {took}");
}

#[test]
fn clients_get_turns_beside_services_on_instant_devices() {
    let (mut bench, _) = scrubbed("64MiB", "default = \"run\"\ndepth = 2", None, &[(0, 64 << 20)]);
    let mut peer = bench.connect(1, true);
    // The pass is long; each turn does a part of it, and answers the client, too.
    for cookie in 0..20 {
        let before = only(&mut bench).done_bytes;
        peer.expect(cookie, 4096);
        peer.send(&request(READ, 0, cookie, 0, 4096));
        bench.turn();
        assert_eq!(peer.answers().len(), 1);
        assert!(only(&mut bench).done_bytes - before <= 4 * (256 << 10));
    }
}

/// The slice of a scrub: what a restart may repeat.
const SLICE_BYTES: u64 = 32 * MIB;

#[test]
fn restarted_scrubs_skip_nothing_and_repeat_one_slice() {
    const SIZE: u64 = 96 * MIB;
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("progress");
    let media = Media::new(SIZE);
    let mut read = vec![0_u32; (SIZE / MIB) as usize];
    let mut is_over = false;
    // Some requests take long, and others overtake them.
    let stall = ioweir_config::Duration::new(Nanos::from_seconds(1));
    for (seed, turns) in (1..).zip([40, 7, 90, 1, 300, 5000]) {
        let device = device("backend = \"memory\"\nsize = \"96MiB\"\nrequest_bytes_max = \"1MiB\"");
        let reads = Reads::default();
        let faults = Faults { seed, stalls_per_million: 100_000, stall, ..Faults::default() };
        let backend = Noted::new(Faulty::new(media.clone(), faults), &reads);
        let spec = service("kind = \"scrub\"\ndefault = \"run\"\ndepth = 8");
        let mut bench = Bench::with_services(device, Box::new(backend), [(spec, Some(state.clone()))]);
        for turn in 1..=turns {
            let due = bench.turn();
            // Saving progress takes time on a thread of its own.
            bench.engine.wait(Nanos::from_millis(1)).unwrap();
            if turn % 16 == 0 && due < bench.now.after(Nanos::from_seconds(20)) {
                bench.now = bench.now.max(due);
            }
        }
        is_over = only(&mut bench).last_finished.is_some();
        // The engine dies here, as if killed: it is not asked to end.
        drop(bench);
        let mut repeated = 0;
        for (offset, length) in reads.lock().unwrap().iter().copied() {
            assert_eq!((offset % MIB, length), (0, MIB));
            let times = &mut read[(offset / MIB) as usize];
            repeated += if *times > 0 { MIB } else { 0 };
            *times += 1;
        }
        assert!(repeated <= SLICE_BYTES, "{repeated} bytes were read again");
    }
    assert!(is_over && read.iter().all(|&times| times > 0), "nothing is skipped: {read:?}");
    // The pass is not due again, which a new start reads from the file.
    let text = std::fs::read_to_string(&state).unwrap();
    assert!(text.contains("\"position_bytes\":null"), "{text}");
}

#[test]
fn state_files_of_other_devices_are_only_reported() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("progress");
    std::fs::write(
        &state,
        "{\"version\":1,\"device_bytes\":7,\"due_nanos\":0,\"position_bytes\":3,\"finished_nanos\":null}",
    )
    .unwrap();
    let (mut bench, _) = scrubbed("1MiB", "default = \"run\"", Some(&state), &[]);
    bench.turn();
    assert_eq!(bench.count(EventKind::DeviceRemark), 1);
    run_to_the_end(&mut bench);
}

#[test]
fn passes_become_due_once_and_late_after_deadlines() {
    let (mut bench, reads) = scrubbed("1MiB", "every = \"1h\"\ndeadline = \"10m\"", None, &[(0, 4096)]);
    for _ in 0..5 {
        bench.turn();
    }
    let hour = Nanos::from_seconds(3600);
    bench.now = Nanos::from_seconds(660);
    let report = only(&mut bench);
    assert_eq!((report.due_since, report.owed_bytes), (Some(EPOCH.as_seconds()), 64 << 10));
    assert!(report.late_seconds >= 60.0, "{report:?}");
    assert_eq!(bench.count(EventKind::ServiceLate), 1);
    bench.order(3, ServiceOrder::Run(hour, Rates::default()));
    run_to_the_end(&mut bench);
    assert_eq!(reads.lock().unwrap().len(), 1);
    let report = only(&mut bench);
    assert_eq!((report.owed_bytes, report.late_seconds, report.due_since), (0, 0.0, None));
    // Two hours later one pass is due, not two.
    bench.now = hour.after(hour).after(Nanos::from_seconds(1));
    bench.turn();
    bench.order(3, ServiceOrder::Run(hour, Rates::default()));
    bench.turn_until(1000, |bench| only(bench).owed_bytes == 0);
    assert_eq!(reads.lock().unwrap().len(), 2);
    assert_eq!(bench.count(EventKind::ServiceFinished), 2);
}

#[test]
fn a_clock_put_back_postpones_no_pass() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("progress");
    let years_ahead = EPOCH.0 + 300_000_000 * 1_000_000_000;
    let text = format!(
        "{{\"version\":1,\"device_bytes\":{MIB},\"due_nanos\":{years_ahead},\"position_bytes\":null,\"finished_nanos\":null}}"
    );
    std::fs::write(&state, text).unwrap();
    let (mut bench, _) = scrubbed("1MiB", "every = \"1h\"", Some(&state), &[(0, 4096)]);
    bench.turn();
    assert_eq!(only(&mut bench).owed_bytes, 0);
    bench.now = Nanos::from_seconds(3601);
    (0..5).for_each(|_| {
        bench.turn();
    });
    assert_eq!(only(&mut bench).owed_bytes, 64 << 10);
}

#[test]
fn pausing_services_withdraw_queued_requests_and_repeat_them() {
    let device = device(
        "backend = \"emulated\"\nmodel = \"tiny\"\nsize = \"4MiB\"\nscheduler = \"deadline\"\nmerge = false\n\
         request_bytes_max = \"64KiB\"",
    );
    let reads = Reads::default();
    let backend = ioweir_serve::backend::Emulated::open("tiny", Some(4 * MIB), 0).unwrap();
    let spec = service("kind = \"scrub\"\ndepth = 8");
    let backend = Noted::new(fill(backend, &[(0, 4 << 20)]), &reads);
    let mut bench = Bench::with_services(device, Box::new(backend), [(spec, None)]);
    let day = Nanos::from_seconds(86_400);
    for _ in 0..6 {
        bench.order(3, ServiceOrder::Run(day, Rates::default()));
        bench.turn();
        bench.order(3, ServiceOrder::Pause(day));
        let before = reads.lock().unwrap().len();
        // A paused service lets the operation on the device end, and begins no other.
        for _ in 0..20 {
            bench.now = bench.now.after(Nanos::from_millis(100));
            bench.turn();
        }
        assert!(reads.lock().unwrap().len() <= before + 1, "the device holds one at a time");
    }
    bench.order(3, ServiceOrder::Run(day, Rates::default()));
    run_to_the_end(&mut bench);
    let mut read = reads.lock().unwrap().clone();
    read.sort_unstable();
    let once: Vec<_> = (0..64).map(|at| (at * (64 << 10), 64 << 10)).collect();
    assert_eq!(read, once, "each piece was read once");
    assert!(only(&mut bench).device_seconds > 0.001);
}

fn checked(inner: Box<dyn Backend>) -> Box<dyn Backend> {
    let row = ioweir_core::cores::find("mq").or_else(|| ioweir_core::cores::SCHEDULES.first()).unwrap();
    let workers = Workers {
        schedule: row.schedule(&row.defaults()),
        count: 1,
        cores: 1,
        items: 8,
        inline_bytes_max: 1 << 30,
        append: crc32c::crc32c_append,
    };
    let begun = Begun::anew(inner.size_bytes());
    Box::new(Checked::new(inner, begun, WorkerPool::start(workers).unwrap(), 8).unwrap())
}

#[test]
fn a_scrub_finds_damage_and_says_so() {
    let media = Media::new(MIB);
    let device = device("backend = \"memory\"\nsize = \"1MiB\"");
    let backend = checked(Box::new(Faulty::new(media.clone(), Faults::default())));
    let mut bench = Bench::with_services(device, backend, [(service("kind = \"scrub\""), None)]);
    write(&mut bench, 0, 256 << 10);
    for (at, bit) in [(5 * 4096 + 17, 3), (7 * 4096 + 1, 0), (9 * 4096, 7)] {
        media.flip(at, bit);
    }
    bench.order(3, ServiceOrder::Run(Nanos::from_seconds(1000), Rates::default()));
    run_to_the_end(&mut bench);
    let report = only(&mut bench);
    assert_eq!((report.found.damaged_bytes, report.found.failed_bytes), (3 * 4096, 0));
    assert_eq!(bench.count(EventKind::ServiceDamage), 1, "one request found all of it");
}

#[test]
fn data_that_became_a_hole_is_damage() {
    // The device reports only holes, but the checksums know of written blocks.
    let device = device("backend = \"memory\"\nsize = \"1MiB\"");
    let mut bench = Bench::with_services(
        device,
        checked(Box::new(Memory::null(MIB))),
        [(service("kind = \"scrub\"\ndefault = \"run\""), None)],
    );
    write(&mut bench, 8192, 8192);
    run_to_the_end(&mut bench);
    bench.now = Nanos::from_seconds(8 * 24 * 3600);
    bench.turn_until(1000, |bench| only(bench).found.damaged_bytes > 0);
    assert_eq!(only(&mut bench).found.damaged_bytes, 8192);
}

#[test]
fn unreadable_ranges_are_counted_and_the_pass_continues() {
    let device = device("backend = \"memory\"\nsize = \"4MiB\"");
    let faults = Faults { seed: 3, errors_per_million: 300_000, ..Faults::default() };
    let backend = Faulty::new(Media::new(4 * MIB), faults);
    let spec = service("kind = \"scrub\"\ndefault = \"run\"");
    let mut bench = Bench::with_services(device, Box::new(backend), [(spec, None)]);
    run_to_the_end(&mut bench);
    let report = only(&mut bench);
    assert!(report.found.failed_bytes > 0 && report.found.failed_bytes < 4 * MIB, "{report:?}");
    assert_eq!(report.done_bytes, 4 * MIB);
}

#[test]
fn a_server_ends_while_a_service_works() {
    let (mut bench, _) = scrubbed("64MiB", "default = \"run\"", None, &[(0, 32 << 20)]);
    let handle = bench.engine.handle();
    handle.send(ioweir_serve::engine::Command::Stop(None));
    bench.turn_until(100, |bench| bench.stopped);
}

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
weight = 10
every = "1d"
"#;

fn parsed(text: &str) -> Result<Spec, String> {
    Spec::parse("s.toml", text.trim_start()).map_err(|error| error.to_string())
}

#[test]
fn errors_in_services_are_reported_with_their_place() {
    let spec = parsed(SPEC).unwrap();
    assert_eq!(parsed(&spec.to_toml()).unwrap(), Spec { file: "s.toml".into(), ..spec.clone() });
    let classes: Vec<_> = spec.classes().iter().map(|class| (class.name.clone(), class.kind.name())).collect();
    assert_eq!(classes, [("export".into(), "export"), ("nightly".into(), "service")]);
    assert_eq!(spec.share_of(1).unwrap().weight, Some(10));
    for (from, to, beginning) in [
        ("\"scrub\"", "\"scrap\"", "s.toml:11:8: unknown variant `scrap`"),
        (
            "[service.nightly]\nkind = \"scrub\"\ndevice = \"d\"",
            "[service.nightly]\nkind = \"scrub\"\ndevice = \"e\"",
            "s.toml:12:10: unknown device `e`",
        ),
        ("weight = 10", "weight = 0", "s.toml:13:10: weight: 0 is out of range"),
        ("weight = 10", "depth = 65", "s.toml:13:9: depth: 65 is out of range"),
        ("weight = 10", "group = \"g\"", "s.toml:13:9: unknown group of device d `g`"),
        ("\"1d\"", "\"0s\"", "s.toml:14:9: every: must be longer than nothing"),
        ("[service.nightly]", "[service.export]", "s.toml:10:1: service name `export` is taken"),
        (
            "[service.nightly]",
            "[service.\"a b\"]",
            "s.toml:10:1: service name `a b` is taken, or has other than letters",
        ),
        ("FOLDER/disk", "/dev/sdz", "s.toml:12:10: state: it must know something after a restart"),
        ("weight = 10", "state = \"FOLDER/disk\"", "s.toml:13:9: file FOLDER/disk is used already"),
        (
            "every = \"1d\"",
            "[service.other]\nkind = \"scrub\"\ndevice = \"d\"",
            "s.toml:15:8: kind: device d has a service of kind scrub already",
        ),
    ] {
        let error = parsed(&SPEC.replacen(from, to, 1)).unwrap_err();
        assert!(error.starts_with(beginning), "{beginning}\n--- is not the beginning of ---\n{error}");
    }
}

#[test]
fn services_are_commanded_changed_and_shown_as_classes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    // With a period of 100 ms, a new pass is due soon after each write.
    let served = Served::of("", &SPEC.replace("FOLDER", &path).replace("1d", "100ms"));
    let mut client = served.client("export");
    client.write_all(&[request(WRITE, FUA, 1, 0, 1 << 20), vec![1; 1 << 20]].concat()).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    let ask = |text: &str| served.ask(&Command::parse(text.as_bytes()).unwrap());
    let state = || ask("{\"state\":{}}").unwrap()["services"][0].clone();
    let said = |text: &str| ask(text).unwrap()["changes"][0].as_str().unwrap().to_string();

    let told = state();
    assert_eq!(
        (told["name"].as_str(), told["kind"].as_str(), told["device"].as_str()),
        (Some("nightly"), Some("scrub"), Some("d"))
    );
    assert_eq!(
        (told["running"].as_bool(), told["waits_because"].as_str()),
        (Some(false), Some(ServiceWait::Rests.words()))
    );
    let order = "{\"service\":{\"name\":\"nightly\",\"run\":{\"lease\":\"1h\",\"bytes_per_second_max\":500000000}}}";
    assert_eq!(said(order), "service nightly: runs for 1h, at most 477 MiB/s");
    loop {
        let told = state();
        if told["done_bytes"].as_u64().unwrap() >= 1 << 20 && told["last_finished"].as_f64().is_some() {
            assert!(told["lease_left_seconds"].as_f64().is_some_and(|left| left > 1.0 && left <= 3600.0));
            break;
        }
    }
    let order =
        "{\"service\":{\"name\":\"nightly\",\"run\":{\"lease\":\"1h\",\"request_bytes_max\":65536,\"idle_depth\":0}}}";
    assert_eq!(
        said(order),
        "service nightly: runs for 1h, in requests of at most 64 KiB, while clients have no requests"
    );
    assert_eq!(said("{\"service\":{\"name\":\"nightly\",\"release\":{}}}"), "service nightly: does its default again");
    // A state is at most a tenth of a second old.
    while !state()["lease_left_seconds"].is_null() {}

    // The service's requests belong to a class, with a share that can be changed.
    let told = ask("{\"state\":{}}").unwrap();
    let class = told["classes"].as_array().unwrap().iter().find(|class| class["name"] == "nightly").unwrap().clone();
    assert_eq!((class["kind"].as_str(), class["share"]["weight"].as_u64()), (Some("service"), Some(10)));
    assert!(class["totals"]["read"]["bytes"].as_u64().unwrap() >= 1 << 20);
    assert_eq!(said("{\"set\":[\"service.nightly.weight=20\"]}"), "service.nightly.weight 10 -> 20");
    assert_eq!(said("{\"set\":[\"service.nightly.default=run\"]}"), "service.nightly.default rest -> run");
    let refused = ask("{\"set\":[\"service.nightly.kind=scrub\"]}").unwrap_err().to_string();
    assert!(refused.contains("unknown key `kind`"), "{refused}");
    let saved = ask("{\"save\":{}}").unwrap()["spec"].as_str().unwrap().to_string();
    assert!(saved.contains("[service.nightly]") && saved.contains("weight = 20"), "{saved}");

    for (wrong, what) in [
        ("{\"name\":\"nightly\"}", "takes one of run, pause and release"),
        ("{\"name\":\"nightly\",\"run\":{\"lease\":\"0s\"}}", "lease: must be longer than nothing"),
        ("{\"name\":\"nightly\",\"run\":{\"lease\":\"1s\",\"bytes_per_second_max\":0}}", "bytes_per_second_max: 0"),
        ("{\"name\":\"nightly\",\"release\":{},\"pause\":{\"lease\":\"1s\"}}", "takes one of"),
        ("{\"name\":\"nightly\",\"run\":{\"lease\":\"1s\",\"request_bytes_max\":1000}}", "whole number of blocks"),
        ("{\"name\":\"daily\",\"release\":{}}", "unknown service `daily`"),
    ] {
        let error = ask(&format!("{{\"service\":{wrong}}}")).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    drop(client);
    served.stop();
}

/// The reports of a scrub in requests of 64 KiB, as clients begin to ask, after ten seconds in which they always have a request, and four
/// seconds later. Each operation of the device takes a second.
fn beside_clients(keys: &str, rates: Option<Rates>) -> [ServiceReport; 3] {
    let stall = ioweir_config::Duration::new(Nanos::from_seconds(1));
    let faults = Faults { seed: 1, stalls_per_million: 1_000_000, stall, ..Faults::default() };
    let backend = Faulty::new(Media::new(64 * MIB), faults);
    let spec = service(&format!("kind = \"scrub\"\ndefault = \"run\"\nrequest_bytes_max = \"64KiB\"\n{keys}"));
    let device = device("backend = \"memory\"\nsize = \"64MiB\"\nscheduler = \"mclock\"");
    let mut bench = Bench::with_services(device, Box::new(backend), [(spec, None)]);
    if let Some(rates) = rates {
        bench.order(3, ServiceOrder::Run(Nanos::from_seconds(86_400), rates));
    }
    let mut peer = bench.connect(0, true);
    let step = |bench: &mut Bench| {
        bench.now = bench.now.after(Nanos::from_millis(100));
        for _ in 0..3 {
            bench.turn();
        }
    };
    while only(&mut bench).done_bytes == 0 {
        step(&mut bench);
    }
    let before = only(&mut bench);
    let mut cookie = 0;
    let mut ask = |peer: &mut Peer| {
        cookie += 1;
        peer.expect(cookie, 4096);
        peer.send(&request(READ, 0, cookie, cookie * 4096, 4096));
    };
    ask(&mut peer);
    for turn in 1..100 {
        step(&mut bench);
        if turn % 5 == 0 {
            ask(&mut peer);
        }
    }
    let beside = only(&mut bench);
    for _ in 0..40 {
        step(&mut bench);
    }
    [before, beside, only(&mut bench)]
}

#[test]
fn idle_class_starts_nothing_beside_clients() {
    let leased = Rates { idle_depth: Some(0), ..Rates::default() };
    // With a limit, a request waits in the scheduler when the client comes.
    for (keys, rates) in
        [("idle_depth = 0", None), ("idle_depth = 0\nlimit = \"2/s\"\nburst = 1", None), ("", Some(leased))]
    {
        let [before, beside, after] = beside_clients(keys, rates).map(|report| (report.done_bytes, report.wait));
        assert!(beside.0 - before.0 <= 64 << 10, "{keys}: only the one that had begun, {}", beside.0 - before.0);
        assert_eq!(beside.1, ServiceWait::Clients, "{keys}");
        assert!(
            after.0 - beside.0 >= 128 << 10,
            "{keys}: it goes on once the client is silent: {}",
            after.0 - beside.0
        );
    }
}

#[test]
fn stated_depths_and_reservations_run_beside_clients() {
    let reserved = Rates { reserved: Some(1 << 20), ..Rates::default() };
    for (keys, rates) in [("idle_depth = 4", None), ("idle_depth = 0", Some(reserved))] {
        let [before, beside, _] = beside_clients(keys, rates).map(|report| report.done_bytes);
        assert!(beside - before >= 4 * (64 << 10), "{keys}: {}", beside - before);
    }
}

#[test]
fn leases_set_the_length_of_requests() {
    let (mut bench, reads) = scrubbed("8MiB", "request_bytes_max = \"256KiB\"", None, &[(0, 8 << 20)]);
    let day = Nanos::from_seconds(86_400);
    bench.order(3, ServiceOrder::Run(day, Rates { request: Some(64 << 10), ..Rates::default() }));
    run_to_the_end(&mut bench);
    assert!(reads.lock().unwrap().iter().all(|(_, length)| *length == 64 << 10));
}
