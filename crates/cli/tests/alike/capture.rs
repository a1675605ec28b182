//! What the server saw, given to the simulator, is decided in the same way there.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use crate::bench::{Bench, device};
use crate::client::*;
use ioweir_core::{Dispatch, Nanos, Operation, QueueLimits, SECTOR_BYTES, Scheduler as _, Step, Tag, Tier};
use ioweir_device::DeviceSpec;
use ioweir_lab::sim::{self, Load, Simulation};
use ioweir_serve::capture::Capture;
use ioweir_serve::engine::{Call, Observer};
use ioweir_trace::{self as trace, Input, ReadOptions, Target};
use proptest::prelude::*;

const POLICIES: [&str; 9] = [
    "noop",
    "deadline",
    "cfq",
    "bid-hdd",
    "bfq",
    "sfq",
    "sfq+deadline:window=4",
    "mclock+cfq:window=32",
    "bid-hybrid:packing-threshold=24KiB",
];
/// Of the fast tier.
const SLOTS: u64 = 64;

/// The model of a fast device that takes the same time for everything: where a block lies there is the server's business.
static FAST: LazyLock<(tempfile::TempDir, String)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fast.toml");
    std::fs::write(&path, "[null]\ncapacity = \"1MiB\"\nservice = \"100us\"\n").unwrap();
    (folder, path.to_str().unwrap().into())
});

/// Everything that the scheduler was called with, and what it answered.
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
}

/// When a client asks for how much, and where.
fn requests() -> impl Strategy<Value = Vec<(u64, bool, bool, u64, u64)>> {
    let request = (0_u64..2_000_000, any::<bool>(), any::<bool>(), 0_u64..400, 1_u64..16);
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

/// Serves the requests at their times, and gives what the scheduler did and the trace that was captured.
fn serve(policy: &str, requests: &[(u64, bool, bool, u64, u64)]) -> (Vec<(Nanos, Call)>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture.parquet");
    let target = Target::new("capture", Box::new(std::fs::File::create(&path).unwrap()));
    let names = trace::Names { streams: vec!["a".into(), "b".into()], volumes: vec!["d".into()] };
    let writer = trace::format("parquet").unwrap().write.unwrap();
    let (capture, written) = Capture::begin(target, writer, names).unwrap();
    let journal = Journal::default();
    let mut bench = Bench::new(&keys(policy));
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
    let calls = journal.0.lock().unwrap().clone();
    (calls, std::fs::read(path).unwrap())
}

#[derive(Default)]
struct Dispatches(Vec<(Nanos, u64, u32, Tier)>);

impl<S> sim::Observer<S> for Dispatches {
    fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, _members: &[Tag]) {
        self.0.push((now, dispatch.sector, dispatch.sectors, dispatch.tier));
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

/// What was dispatched, and until where the simulator has to agree. A request may have been staged before its blocks moved
/// to the other tier: then the server serves it from where they lie, or when they are there, and the simulator from where
/// the policy sent it. And what lies in slots that do not follow one another is several operations in the server. From
/// there on they take different times.
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_capture_is_decided_in_the_simulator_as_it_was_in_the_server(requests in requests(), policy in 0..POLICIES.len()) {
        let policy = POLICIES[policy];
        let (calls, bytes) = serve(policy, &requests);
        let (dispatched, agreeing) = dispatches(&calls);

        let source = trace::open_inputs(vec![Input::from_bytes("capture.parquet", bytes)], &ReadOptions::default()).unwrap();
        let mut disk = DeviceSpec::load("tiny").unwrap().build(0).unwrap();
        let mut fast = DeviceSpec::load(&FAST.1).unwrap().build(0).unwrap();
        let choice = device(&keys(policy)).scheduler;
        let simulation = Simulation {
            scheduler: choice.build(limits(policy)),
            limits: limits(policy),
            device: disk.as_mut(),
            fast: choice.row.places.then_some(fast.as_mut()),
            lenient: false,
            until: Nanos::NEVER,
        };
        let mut seen = Dispatches::default();
        sim::simulate(simulation, source, Load::RECORDED, &mut seen).unwrap();
        prop_assert_eq!(&seen.0[..agreeing], &dispatched[..agreeing], "{}", policy);
        prop_assert!(policy.starts_with("bid-hybrid") || seen.0.len() == agreeing);
    }

    #[test]
    fn the_same_calls_give_the_same_answers(requests in requests(), policy in 0..POLICIES.len()) {
        let (calls, _) = serve(POLICIES[policy], &requests);
        let choice = device(&keys(POLICIES[policy])).scheduler;
        let mut scheduler = choice.build(limits(POLICIES[policy]));
        for (now, call) in calls {
            match call {
                Call::Submit(request, tag) => prop_assert_eq!(scheduler.submit(now, request), Ok(tag)),
                Call::Poll(step) => prop_assert_eq!(scheduler.poll(now), step),
                Call::Configure(..) => unreachable!("nobody changes anything here"),
                Call::Complete(tag) => scheduler.complete(now, tag),
                Call::Cancel(tag, answer) => prop_assert_eq!(scheduler.cancel(now, tag).map(drop), answer),
            }
        }
    }
}
