//! Captures of a server are given to the simulator, which has to decide as the server did.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use crate::bench::{Bench, device};
use crate::client::*;
use ioweir_core::policy::Policy;
use ioweir_core::tenant::Share;
use ioweir_core::{
    Dispatch, Nanos, Operation, Priority, PriorityClass, QueueLimits, SECTOR_BYTES, Scheduler as _, Step, StreamId,
    Tag, Tier,
};
use ioweir_device::{Device, DeviceSpec, Service};
use ioweir_lab::sim::{self, Clients, Load, Simulation, Stay, Waits};
use ioweir_serve::capture::Capture;
use ioweir_serve::engine::{Call, Observer, Stage};
use ioweir_trace::{self as trace, Input, Names, ReadOptions, Record, RunNames, Served, Target, TraceError, TraceSink};
use proptest::prelude::*;

const POLICIES: [&str; 17] = [
    "noop",
    "deadline",
    "cfq",
    "bid-hdd",
    "bfq",
    "sfq",
    "sfq+deadline:window=4",
    "mclock+cfq:window=32",
    "mq-deadline",
    "sfq:cost=device-time+mq-deadline:window=8",
    "mclock+bid-hdd:window=16",
    "wfq+bfq:window=16",
    "token-bucket+deadline:window=2",
    "io-max",
    "io-latency",
    "io-cost+mq-deadline:window=8",
    "bid-hybrid:packing-threshold=24KiB",
];
/// The number of blocks on the fast tier.
const SLOTS: u64 = 64;

/// The model of a fast device that takes the same time for everything: where a block lies there is the server's business.
static FAST: LazyLock<(tempfile::TempDir, String)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fast.toml");
    std::fs::write(&path, "[null]\ncapacity = \"1MiB\"\nservice = \"100us\"\n").unwrap();
    (folder, path.to_str().unwrap().into())
});

/// The I/O priorities that classes give to their requests.
fn priorities() -> [Priority; 3] {
    let priority = |class, level| Priority::new(class, level).unwrap();
    [priority(PriorityClass::Realtime, 2), priority(PriorityClass::BestEffort, 6), Priority::NONE]
}

/// The shares of classes, where the scheduler knows shares.
fn shares() -> [(StreamId, Share); 2] {
    let limited = Share { limit_per_second: 400, burst: 3, reads_per_second: 400, ..Share::weighted(1) };
    let limited = Share { latency: Nanos::from_millis(2), ..limited };
    [(StreamId(0), Share::weighted(3)), (StreamId(1), limited)]
}

fn scheduler(policy: &str) -> Policy {
    let mut scheduler = device(&keys(policy)).scheduler.build(limits(policy));
    if let Some(tenants) = scheduler.tenants_mut() {
        shares()
            .into_iter()
            .for_each(|(stream, share)| tenants.configure(Nanos::ZERO, stream, tenants.kept(share)).unwrap());
    }
    scheduler
}

/// Requests, each with its outcome.
type Rows = Vec<(Record, Option<Served>)>;

/// A sink that keeps captured rows in memory, beside the file.
struct Tee(Box<dyn TraceSink>, Arc<Mutex<Rows>>);

impl TraceSink for Tee {
    fn begin_run(&mut self, run: RunNames) {
        self.0.begin_run(run);
    }

    fn write_batch(&mut self, _batch: &[Record], _names: &Names) -> Result<(), TraceError> {
        unreachable!("captures write how requests were served")
    }

    fn write_served(&mut self, record: &Record, served: Option<Served>, names: &Names) -> Result<(), TraceError> {
        self.1.lock().unwrap().push((*record, served));
        self.0.write_served(record, served, names)
    }

    fn finish(self: Box<Self>, names: &Names, epoch_unix_nanos: Option<i128>) -> Result<(), TraceError> {
        self.0.finish(names, epoch_unix_nanos)
    }
}

/// The calls of the scheduler, with its answers.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<(Nanos, Call)>>>);

impl Observer for Journal {
    fn called(&mut self, now: Nanos, call: &Call) {
        self.0.lock().unwrap().push((now, *call));
    }
}

/// Both at once.
struct Both(Journal, Capture);

impl Observer for Both {
    fn called(&mut self, now: Nanos, call: &Call) {
        self.0.called(now, call);
        self.1.called(now, call);
    }

    fn reached(&mut self, now: Nanos, number: u64, stage: Stage) {
        self.1.reached(now, number, stage);
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        self.1.settled(now, scheduler);
    }
}

/// When a client asks for how much, and where. No two at one moment: the simulator takes those together before it polls, and
/// a server as they come.
fn requests() -> impl Strategy<Value = Vec<(u64, bool, bool, u64, u64)>> {
    let request = (1_u64..2_000_000, any::<bool>(), any::<bool>(), 0_u64..400, 1_u64..16);
    prop::collection::vec(request, 1..60)
}

fn keys(policy: &str) -> String {
    let common = format!("scheduler = \"{policy}\"\nqueue_requests = 128\nbackend =");
    let slow = "\"emulated\"\nmodel = \"tiny\"";
    if !policy.starts_with("bid-hybrid") {
        return format!("{common} {slow}");
    }
    let fast = format!("backend = \"emulated\"\nmodel = {:?}\nsize = \"{}KiB\"", FAST.1, SLOTS * 4);
    format!("{common} \"tiered\"\n[device.slow]\nbackend = {slow}\n[device.fast]\n{fast}")
}

/// The record of a served load: the calls of the scheduler, the captured trace, and its rows.
struct Captured {
    calls: Vec<(Nanos, Call)>,
    bytes: Vec<u8>,
    rows: Rows,
}

/// Serves the requests at their times.
fn serve(policy: &str, requests: &[(u64, bool, bool, u64, u64)]) -> Captured {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture.parquet");
    let target = Target::new("capture", Box::new(std::fs::File::create(&path).unwrap()));
    let names = Names { streams: vec!["a".into(), "b".into()], volumes: vec!["d".into()] };
    let writer = trace::format("parquet").unwrap().write.unwrap();
    let rows: Arc<Mutex<Rows>> = Arc::default();
    let kept = Arc::clone(&rows);
    let open = move || Ok(Box::new(Tee((writer.open)(target)?, kept)) as Box<dyn TraceSink>);
    let (capture, written) = Capture::begin(open, names, &device(&keys(policy))).unwrap();
    let journal = Journal::default();
    let mut bench = Bench::with_priorities(&keys(policy), priorities());
    if let Some(tenants) = scheduler(policy).tenants() {
        shares().into_iter().for_each(|(class, share)| bench.entitle(class, tenants.kept(share)));
    }
    bench.engine.observe(Box::new(Both(journal.clone(), capture)));
    let mut peers = [bench.connect(0, true), bench.connect(1, true)];
    // Time begins with the first request, as it does in the trace and for the disk.
    let (mut arrival, mut due) = (Nanos::ZERO, Nanos::NEVER);
    let turn = |bench: &mut Bench, now: Nanos| {
        bench.engine.wait(Nanos::ZERO).unwrap();
        match bench.engine.turn(now).unwrap() {
            ioweir_serve::engine::Turn::WaitUntil(until) => until,
            ioweir_serve::engine::Turn::Stopped | ioweir_serve::engine::Turn::Hung => Nanos::NEVER,
        }
    };
    for (cookie, &(gap, second, writes, page, pages)) in (1..).zip(requests) {
        if cookie > 1 {
            arrival = arrival.after(Nanos(gap));
        }
        while due < arrival {
            due = turn(&mut bench, due);
        }
        let (offset, length) = (page * 4096, (pages * 4096) as u32);
        let command = if writes { WRITE } else { READ };
        let mut message = request(command, 0, cookie, offset, length);
        if writes {
            message.extend(vec![1; length as usize]);
        }
        peers[usize::from(second)].send(&message);
        due = turn(&mut bench, arrival);
        peers.iter_mut().for_each(|peer| drop(peer.answers()));
    }
    while bench.engine.requests() > 0 {
        due = turn(&mut bench, due);
        peers.iter_mut().for_each(|peer| drop(peer.answers()));
    }
    drop(bench);
    assert!(written.wait().unwrap() >= requests.len() as u64, "what crosses a boundary is captured in parts");
    let (calls, rows) = (journal.0.lock().unwrap().clone(), std::mem::take(&mut *rows.lock().unwrap()));
    Captured { calls, bytes: std::fs::read(path).unwrap(), rows }
}

/// The simulator's dispatches, and the outcome of each request there.
struct Seen(Vec<(Nanos, u64, u32, Tier)>, Waits);

impl sim::Observer<Policy> for Seen {
    fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        self.1.arrived(number, record, arrival);
    }

    fn submitted(&mut self, number: u64, tag: Tag, sector: u64, sectors: u32) {
        self.1.submitted(number, tag, sector, sectors);
    }

    fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, members: &[Tag]) {
        self.0.push((now, dispatch.sector, dispatch.sectors, dispatch.tier));
        self.1.dispatched(now, dispatch, members);
    }

    fn started(&mut self, now: Nanos, dispatch: &Dispatch, service: &Service) {
        self.1.started(now, dispatch, service);
    }

    fn completed(&mut self, now: Nanos, dispatch: &Dispatch) {
        self.1.completed(now, dispatch);
    }

    fn finished(&mut self, number: u64, now: Nanos) {
        self.1.finished(number, now);
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        self.1.settled(now, scheduler);
    }
}

/// Runs a capture in the simulator, on these devices.
fn simulate(policy: &str, bytes: Vec<u8>, disk: &mut dyn Device, fast: &mut (dyn Device + 'static)) -> Seen {
    let source =
        trace::open_inputs(vec![Input::from_bytes("capture.parquet", bytes)], &ReadOptions::default()).unwrap();
    let row = device(&keys(policy)).scheduler.row;
    let simulation = Simulation {
        scheduler: scheduler(policy),
        limits: limits(policy),
        device: disk,
        fast: row.places.then_some(fast),
        lenient: false,
        until: Nanos::NEVER,
    };
    let mut seen = Seen(Vec::new(), Waits::new(Clients::of_trace(String::new()), row.knows_shares));
    sim::simulate(simulation, source, Load::RECORDED, &mut seen).unwrap();
    seen
}

/// A device that takes as long for each dispatch as the server's did, which the capture says.
struct AsCaptured(Vec<(Record, Served)>, u64);

impl Device for AsCaptured {
    fn serve(&mut self, now: Nanos, dispatch: &Dispatch) -> Service {
        let its = |record: &Record, served: &Served| {
            let sector = record.offset_bytes / SECTOR_BYTES;
            let is_within = sector >= dispatch.sector && sector < dispatch.sector + u64::from(dispatch.sectors);
            served.dispatched == now && served.tier == dispatch.tier && is_within
        };
        let finish = self.0.iter().filter(|(record, served)| its(record, served)).map(|(_, served)| served.completed);
        Service { finish: finish.max().expect("the server did not dispatch this"), ..Service::default() }
    }

    fn sectors(&self) -> u64 {
        self.1
    }

    fn tracks(&self) -> u64 {
        0
    }
}

fn limits(policy: &str) -> QueueLimits {
    let device = device(&keys(policy));
    QueueLimits {
        members: device.queue_requests * 2,
        request_sectors_max: (device.request_bytes_max.0 / SECTOR_BYTES) as u32,
        depth: device.depth,
        fast_depth: 1,
        // The first slot is not for data.
        fast_sectors: if device.scheduler.row.places { (SLOTS - 1) * 8 } else { 0 },
        fast_block_sectors: 8,
        ..QueueLimits::with_requests(device.queue_requests)
    }
}

/// The server's dispatches, and how many of them the simulator has to agree with. From the first of two kinds of operations on, server and
/// simulator take different times. The first kind is a request that was staged before its blocks moved to the other tier: the server serves
/// it from where the blocks lie, or when they are there, and the simulator from where the policy sent it. The second is a request whose
/// blocks lie in slots that do not follow one another: it is several operations in the server.
fn dispatches(calls: &[(Nanos, Call)]) -> (Vec<(Nanos, u64, u32, Tier)>, usize) {
    let (mut dispatched, mut agreeing) = (Vec::new(), None);
    let (mut slots, mut flying): (BTreeMap<u64, usize>, Vec<Dispatch>) = Default::default();
    for (now, call) in calls {
        match call {
            Call::Poll(Step::Dispatch(dispatch)) => {
                let Dispatch { sector, sectors, tier, operation, .. } = *dispatch;
                let end = sector + u64::from(sectors);
                let blocks = sector / 8..end.div_ceil(8);
                for block in blocks.clone().filter(|_| tier == Tier::Fast && operation == Operation::Write) {
                    let unused = slots.len();
                    slots.entry(block).or_insert(unused);
                }
                let places: Vec<Option<usize>> = blocks.map(|block| slots.get(&block).copied()).collect();
                let lies_alike = match tier {
                    Tier::Base => places.iter().all(Option::is_none),
                    Tier::Fast => {
                        places[0].is_some() && places.windows(2).all(|pair| pair[1] == pair[0].map(|slot| slot + 1))
                    }
                };
                let meets = |other: &Dispatch| {
                    other.tier != tier && other.sector < end && sector < other.sector + u64::from(other.sectors)
                };
                if !lies_alike || flying.iter().any(meets) {
                    agreeing.get_or_insert(dispatched.len() + 1);
                }
                dispatched.push((*now, sector, sectors, tier));
                flying.push(*dispatch);
            }
            Call::Complete(tag) => flying.retain(|other| other.tag != *tag),
            _ => {}
        }
    }
    let agreeing = agreeing.unwrap_or(dispatched.len());
    (dispatched, agreeing)
}

/// A request of the simulator as a row.
fn row(stay: &Stay) -> (Record, Option<Served>) {
    let served = Served {
        class: stay.record.stream.0,
        submitted: stay.submitted,
        dispatched: stay.dispatched,
        completed: stay.completed,
        wait_nanos: stay.wait_nanos,
        cores_nanos: 0,
        tier: stay.tier,
    };
    // A trace that is read has the latencies of its own device.
    (Record { latency: Some(stay.completed.since(stay.arrival)), ..stay.record }, Some(served))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn captures_are_decided_alike_in_the_simulator(requests in requests(), policy in 0..POLICIES.len()) {
        let policy = POLICIES[policy];
        let captured = serve(policy, &requests);
        let (dispatched, agreeing) = dispatches(&captured.calls);
        let mut disk = DeviceSpec::load("tiny").unwrap().build(0).unwrap();
        let mut fast = DeviceSpec::load(&FAST.1).unwrap().build(0).unwrap();
        let mut seen = simulate(policy, captured.bytes, disk.as_mut(), fast.as_mut());
        prop_assert_eq!(&seen.0[..agreeing], &dispatched[..agreeing], "{}", policy);
        if policy.starts_with("bid-hybrid") {
            return Ok(());
        }
        prop_assert_eq!(seen.0.len(), agreeing);
        // The capture says the same of each request as `--requests` does in the simulator.
        seen.1.done.sort_by_key(|(number, _)| *number);
        let simulated: Rows = seen.1.done.iter().map(|(_, stay)| row(stay)).collect();
        prop_assert_eq!(captured.rows, simulated, "{}", policy);
    }

    #[test]
    fn captures_with_own_times_are_decided_alike(requests in requests(), policy in 0..POLICIES.len()) {
        // Half of the cases are of the one policy for which a model of the devices is not enough.
        let policy = POLICIES[if requests.len() % 2 == 0 { POLICIES.len() - 1 } else { policy }];
        let captured = serve(policy, &requests);
        let served: Vec<_> = captured.rows.iter().filter_map(|(record, served)| Some((*record, (*served)?))).collect();
        prop_assert_eq!(served.len(), captured.rows.len(), "all were answered");
        let sectors = DeviceSpec::load("tiny").unwrap().build(0).unwrap().sectors();
        let [mut disk, mut fast] = [0, 1].map(|_| AsCaptured(served.clone(), sectors));
        let seen = simulate(policy, captured.bytes, &mut disk, &mut fast);
        prop_assert_eq!(seen.0, dispatches(&captured.calls).0, "{}", policy);
    }

    #[test]
    fn the_same_calls_give_the_same_answers(requests in requests(), policy in 0..POLICIES.len()) {
        let captured = serve(POLICIES[policy], &requests);
        let mut scheduler = scheduler(POLICIES[policy]);
        for (now, call) in captured.calls {
            match call {
                Call::Submit(request, tag) => prop_assert_eq!(scheduler.submit(now, request), Ok(tag)),
                Call::Poll(step) => prop_assert_eq!(scheduler.poll(now), step),
                Call::Configure(..) | Call::Elsewhere(..) => unreachable!("nobody changes anything here"),
                Call::Complete(tag) => scheduler.complete(now, tag),
                Call::Cancel(tag, answer) => prop_assert_eq!(scheduler.cancel(now, tag).map(drop), answer),
            }
        }
    }
}
