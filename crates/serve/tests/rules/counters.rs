//! Rules of counters: they agree with a model that sees only the calls of the scheduler, also when changes of shares are made or rejected
//! while requests are queued.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use crate::bench::{Bench, Peer, TIMEOUTS, device};
use crate::client::*;
use ioweir_core::tenant::{GroupId, Share};
use ioweir_core::{
    CancelError, Nanos, Operation, QueueLimits, Reason, Request, SECTOR_BYTES, Scheduler as _, Step, StreamId, Tag,
};
use ioweir_serve::engine::{Call, Change, Command, Observer, Question, Report, WaitCause};
use ioweir_serve::nbd::NbdError;
use ioweir_serve::spec::Holder;
use proptest::prelude::*;

const CLASSES: usize = 3;

/// The calls of the scheduler, with its answers.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<(Nanos, Call)>>>);

impl Observer for Journal {
    fn called(&mut self, now: Nanos, call: &Call) {
        self.0.lock().unwrap().push((now, *call));
    }
}

fn report(bench: &mut Bench) -> Report {
    let (send, hear) = channel();
    let reply = Box::new(move |report| send.send(report).unwrap());
    bench.engine.handle().send(Command::Report(Question { counters: Box::default(), reply }));
    bench.turn();
    hear.recv().unwrap()
}

/// Proposes a change to an engine, and gives the verdict of all engines; returns the engine's own answer.
fn change(bench: &mut Bench, shares: &[(Holder, Share)], is_agreed: bool) -> bool {
    let ((prepared, hear), (verdict, wait)) = (channel(), channel());
    if is_agreed {
        verdict.send(()).unwrap();
    }
    drop(verdict);
    let change = Change {
        shares: shares.to_vec(),
        priorities: Vec::new(),
        timeouts: TIMEOUTS,
        services: Vec::new(),
        exports: None,
        prepared,
        verdict: wait,
    };
    bench.engine.handle().send(Command::Change(Box::new(change)));
    bench.turn();
    hear.recv().unwrap().is_ok()
}

#[test]
fn an_engine_serves_while_a_change_waits() {
    let turns = |changes: bool| {
        let mut bench = Bench::new("backend = \"memory\"\nsize = \"1MiB\"\nscheduler = \"sfq\"");
        let journal = Journal::default();
        bench.engine.observe(Box::new(journal.clone()));
        let mut peer = bench.connect(0, true);
        let ((prepared, hear), (verdict, wait)) = (channel(), channel());
        let share = Share::weighted(7);
        let shares = vec![(class(0), share)];
        let change = Change {
            shares,
            priorities: Vec::new(),
            timeouts: TIMEOUTS,
            services: Vec::new(),
            exports: None,
            prepared,
            verdict: wait,
        };
        if changes {
            bench.engine.handle().send(Command::Change(Box::new(change)));
            bench.turn();
            assert!(hear.try_recv().unwrap().is_ok());
        }
        peer.send(&request(READ, 0, 1, 0, 4096));
        let mut turns = 0;
        while peer.answers().is_empty() {
            bench.turn();
            turns += 1;
            assert!(turns < 100, "the read is not served");
        }
        let is_made = || {
            let calls = journal.0.lock().unwrap();
            calls.iter().any(|(_, call)| matches!(call, Call::Configure(_, share) if share.weight == 7))
        };
        assert!(!is_made(), "others have not agreed yet");
        if changes {
            verdict.send(()).unwrap();
            bench.engine.handle().send(Command::Verdict);
            bench.turn();
            assert!(is_made());
        }
        turns
    };
    assert_eq!(turns(true), turns(false));
}

fn class(number: u32) -> Holder {
    Holder::Class(StreamId(number))
}

/// A model that derives the counters from the calls of the scheduler.
#[derive(Default)]
struct Model {
    queued: Vec<(Tag, Request, Nanos)>,
    served: Vec<(Tag, Request, Nanos, Nanos)>,
    waits: [[u64; Reason::COUNT]; CLASSES],
    requests: [[u64; 4]; CLASSES],
    queue_nanos: [u64; CLASSES],
    service_nanos: [u64; CLASSES],
}

impl Model {
    fn follow(calls: &[(Nanos, Call)], keys: &str) -> Self {
        let device = device(keys);
        let limits = QueueLimits {
            members: device.queue_requests * 2,
            request_sectors_max: (device.request_bytes_max.0 / SECTOR_BYTES) as u32,
            depth: device.depth,
            merge: device.merge,
            ..QueueLimits::with_requests(device.queue_requests)
        };
        let choice = device.scheduler;
        let mut scheduler = choice.build(limits);
        let (mut model, mut now) = (Self::default(), Nanos::ZERO);
        for &(time, call) in calls {
            let span = time.since(now).0;
            for (tag, request, _) in model.queued.iter().filter(|_| span > 0) {
                let told = scheduler.tenants().map(|tenants| tenants.explain(now, *tag).unwrap().reason);
                let counted =
                    || Reason::ALL.into_iter().max_by_key(|&reason| scheduler.waiting().count(reason)).unwrap();
                model.waits[request.stream.0 as usize][told.unwrap_or_else(counted) as usize] += span;
            }
            now = time;
            model.replay(&mut scheduler, now, call);
        }
        assert!(model.queued.is_empty() && model.served.is_empty(), "everything is done in the end");
        model
    }

    fn replay(&mut self, scheduler: &mut ioweir_core::policy::Policy, now: Nanos, call: Call) {
        match call {
            Call::Submit(request, tag) => {
                assert_eq!(scheduler.submit(now, request), Ok(tag));
                self.queued.push((tag, request, now));
            }
            Call::Poll(step) => {
                assert_eq!(scheduler.poll(now), step);
                let Step::Dispatch(dispatch) = step else { return };
                let at = self.queued.iter().position(|(tag, ..)| *tag == dispatch.tag).unwrap();
                let (tag, request, since) = self.queued.remove(at);
                self.queue_nanos[request.stream.0 as usize] += now.since(since).0;
                self.served.push((tag, request, since, now));
            }
            Call::Complete(done) => {
                scheduler.complete(now, done);
                let at = self.served.iter().position(|(tag, ..)| *tag == done).unwrap();
                let (_, request, _, since) = self.served.remove(at);
                self.service_nanos[request.stream.0 as usize] += now.since(since).0;
                self.requests[request.stream.0 as usize][request.operation as usize] += 1;
            }
            Call::Cancel(tag, answer) => {
                assert_eq!(scheduler.cancel(now, tag).map(drop), answer);
                assert_ne!(answer, Err(CancelError::Merged));
                self.queued.retain(|(queued, ..)| *queued != tag);
            }
            Call::Configure(holder, share) => {
                holder.configure(scheduler.tenants_mut().unwrap(), now, share).unwrap();
            }
            Call::Elsewhere(client, elsewhere) => {
                assert!(scheduler.tenants_mut().unwrap().served_elsewhere(now, client, elsewhere));
            }
        }
    }
}

/// A request: the time since the one before, its client, its command and its block.
type Asked = (u64, usize, u16, u64);

fn asked() -> impl Strategy<Value = Vec<Asked>> {
    let command = prop::sample::select(vec![READ, READ, WRITE, WRITE, TRIM, FLUSH]);
    prop::collection::vec((0_u64..3_000_000, 0..2_usize, command, 0_u64..200), 1..80)
}

fn send(peer: &mut Peer, cookie: u64, command: u16, page: u64) {
    let length = if command == FLUSH { 0 } else { 4096 };
    let mut message = request(command, 0, cookie, if command == FLUSH { 0 } else { page * 8192 }, length);
    if command == WRITE {
        message.extend([1; 4096]);
    }
    peer.send(&message);
}

/// Serves the requests at their times; half way through, shares change.
fn serve(keys: &str, asked: &[Asked], shares: [&[(Holder, Share)]; 2]) -> (Bench, Journal) {
    let mut bench = Bench::new(keys);
    let journal = Journal::default();
    bench.engine.observe(Box::new(journal.clone()));
    let mut peers = [bench.connect(0, true), bench.connect(1, true)];
    let mut due = Nanos::NEVER;
    for (cookie, &(gap, who, command, page)) in (0..).zip(asked) {
        if cookie == 0 || cookie == asked.len() as u64 / 2 {
            let shares = shares[usize::from(cookie > 0)];
            assert!(shares.is_empty() || change(&mut bench, shares, true));
            due = bench.turn();
        }
        let arrival = bench.now.after(Nanos(gap));
        while due < arrival {
            bench.now = bench.now.max(due);
            due = bench.turn();
        }
        bench.now = bench.now.max(arrival);
        send(&mut peers[who], cookie, command, page);
        due = bench.turn();
        peers.iter_mut().for_each(|peer| drop(peer.answers()));
    }
    bench.settle();
    (bench, journal)
}

fn check(keys: &str, asked: &[Asked], shares: [&[(Holder, Share)]; 2], knows_reasons: bool) {
    let (mut bench, journal) = serve(keys, asked, shares);
    let report = report(&mut bench);
    let model = Model::follow(&journal.0.lock().unwrap(), keys);
    for number in 0..2 {
        let tally = report.counters.get(number).unwrap();
        let requests = Operation::ALL.map(|operation| tally.counts.operations[operation as usize].requests);
        assert_eq!(requests, model.requests[number]);
        let bytes: u64 = tally.counts.operations.iter().map(|of| of.bytes).sum();
        assert_eq!(bytes, 4096 * requests[..3].iter().sum::<u64>(), "a flush has no bytes");
        let sum = |of: fn(&ioweir_serve::engine::OperationCounters) -> u64| {
            tally.counts.operations.iter().map(of).sum::<u64>()
        };
        let (request, queue, service) =
            (sum(|of| of.request.sum_nanos), sum(|of| of.queue.sum_nanos), sum(|of| of.service.sum_nanos));
        assert_eq!((queue, service), (model.queue_nanos[number], model.service_nanos[number]));
        // No waiting is unexplained.
        assert_eq!(tally.counts.wait_nanos.iter().sum::<u64>(), queue);
        assert_eq!(queue + service, request);
        assert_eq!(tally.counts.layer_nanos(), [0, queue, service], "without checksums no time goes to cores");
        if knows_reasons {
            assert_eq!(tally.counts.wait_nanos, model.waits[number]);
        }
        assert_eq!(tally.latency.len(), requests.iter().sum::<u64>());
        let standing = report.classes[number];
        assert_eq!((standing.queued, standing.inflight, standing.queued_bytes, standing.oldest), (0, 0, 0, None));
    }
    assert_eq!(report.device.inflight, 0);
}

fn keys(scheduler: &str) -> String {
    format!("backend = \"emulated\"\nmodel = \"tiny\"\nscheduler = \"{scheduler}\"\nmerge = false")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn waits_and_service_add_up_to_the_latency(asked in asked(), policy in 0..4_usize) {
        let policy = ["sfq:groups=1", "mclock:groups=1", "parda:groups=1", "drr:groups=1"][policy];
        let limited = Share { limit_per_second: 200, burst: 2, ..Share::weighted(3) };
        let grouped = Share { group: Some(GroupId(0)), ..Share::weighted(5) };
        let group = (Holder::Group(GroupId(0)), Share { limit_per_second: 300, ..Share::weighted(7) });
        let first = [group, (class(0), limited), (class(1), grouped)];
        check(&keys(policy), &asked, [&first, &[(class(0), grouped), (class(1), Share::weighted(2))]], true);
    }

    #[test]
    fn a_block_policys_waits_are_divided_among_classes(asked in asked(), policy in 0..4_usize) {
        let policy = ["noop", "deadline", "bid-hdd", "bfq"][policy];
        check(&keys(policy), &asked, [&[], &[]], policy == "noop");
    }
}

#[test]
fn requests_outside_a_full_queue_wait_for_it() {
    let mut bench = Bench::new(&format!("{}\nqueue_requests = 1", keys("sfq")));
    let mut peer = bench.connect(0, true);
    for cookie in 0..4 {
        send(&mut peer, cookie, READ, cookie);
    }
    bench.turn();
    let early = report(&mut bench);
    // One request is with the disk; the scheduler keeps its slot until it is completed.
    assert_eq!((early.classes[0].inflight, early.classes[0].queued, early.classes[0].queued_bytes), (1, 3, 3 * 4096));
    assert_eq!(early.classes[0].oldest.unwrap().1, WaitCause::Counted(Reason::QueueFull));
    bench.settle();
    let late = report(&mut bench);
    let sum = |of: fn(&ioweir_serve::engine::ClassCounters) -> u64| -> u64 {
        [&early, &late].iter().map(|report| of(report.counters.get(0).unwrap())).sum()
    };
    assert!(sum(|tally| tally.counts.wait_nanos[Reason::QueueFull as usize]) > 0);
    assert_eq!(
        sum(|tally| tally.counts.wait_nanos.iter().sum()),
        sum(|tally| tally.counts.operations[0].queue.sum_nanos)
    );
    assert_eq!(sum(|tally| tally.counts.operations[0].requests), 4);
}

#[test]
fn refusals_and_failures_are_counted_apart() {
    let mut bench = Bench::new("backend = \"faulty\"\nsize = \"1MiB\"\nfaults = { errors_per_million = 1000000 }");
    let mut peer = bench.connect(2, true);
    send(&mut peer, 1, WRITE, 0);
    peer.send(&request(READ, 0, 2, 1 << 40, 4096));
    peer.send(&request(BLOCK_STATUS, 0, 3, 0, 4096));
    send(&mut peer, 4, READ, 0);
    bench.settle();
    let report = report(&mut bench);
    let tally = report.counters.get(2).unwrap();
    let refused = |error| tally.counts.refused[NbdError::ALL.iter().position(|other| *other == error).unwrap()];
    assert_eq!((refused(NbdError::NotPermitted), refused(NbdError::Invalid)), (1, 1));
    let read = &tally.counts.operations[Operation::Read as usize];
    // A request for block status counts as any other.
    assert_eq!((read.requests, read.errors(), read.bytes), (2, 2, 0));
    let failed: Vec<_> = NbdError::ALL.into_iter().zip(read.failed).filter(|(_, count)| *count > 0).collect();
    assert_eq!(failed, [(NbdError::InputOutput, 2)]);
    assert_eq!(tally.counts.operations[Operation::Write as usize].requests, 0);
}

#[test]
fn requests_of_a_client_that_leaves_are_uncounted() {
    let mut bench = Bench::new(&keys("sfq"));
    let mut peer = bench.connect(0, true);
    for cookie in 0..20 {
        send(&mut peer, cookie, WRITE, cookie);
    }
    bench.turn();
    let before = report(&mut bench).classes[0];
    assert_eq!((before.connections, before.inflight, before.queued), (1, 1, 19));
    let (_, because) = before.oldest.unwrap();
    assert!(matches!(because, WaitCause::Explained(_)), "{because:?}");
    drop(peer);
    bench.settle();
    bench.turn();
    let after = report(&mut bench).classes[0];
    assert_eq!((after.connections, after.inflight, after.queued, after.queued_bytes), (0, 0, 0, 0));
}

#[test]
fn changes_are_made_or_undone_on_every_engine() {
    let mut bench = Bench::new(&keys("mclock"));
    let mut peer = bench.connect(0, true);
    for cookie in 0..5 {
        send(&mut peer, cookie, READ, cookie);
    }
    bench.turn();
    let limited = Share { limit_per_second: 1, ..Share::weighted(7) };
    // Another engine cannot make the change, so nothing changes here, and nothing is lost.
    assert!(change(&mut bench, &[(class(0), limited)], false));
    let began = bench.now;
    bench.settle();
    assert_eq!(peer.answers().len(), 5);
    assert!(bench.now.since(began) < Nanos::from_seconds(1), "it is not limited");
    // The second of two shares is not feasible, so the first is restored.
    let wrong = Share { reservation_per_second: 5, limit_per_second: 1, ..Share::weighted(1) };
    assert!(!change(&mut bench, &[(class(0), limited), (class(1), wrong)], true));
    for cookie in 0..5 {
        send(&mut peer, cookie, READ, cookie);
    }
    let began = bench.now;
    bench.settle();
    assert!(bench.now.since(began) < Nanos::from_seconds(1), "it is still not limited");
    // A change that all engines can make takes effect at once.
    for cookie in 0..4 {
        send(&mut peer, cookie, READ, cookie);
    }
    assert!(change(&mut bench, &[(class(0), limited)], true));
    let began = bench.now;
    bench.settle();
    assert!(bench.now.since(began) >= Nanos::from_seconds(2), "{} for four at one a second", bench.now.since(began));
}

#[test]
fn only_reservations_that_break_are_reported() {
    for (rate, is_kept) in [(100, true), (10_000, false)] {
        let mut bench = Bench::new("backend = \"emulated\"\nmodel = \"tiny\"\nscheduler = \"mclock\"\nmerge = false");
        bench.entitle(StreamId(0), Share { reservation_per_second: rate, ..Share::weighted(1) });
        let mut peer = bench.connect(0, true);
        for cookie in 0..200 {
            peer.send(&request(READ, 0, cookie, cookie * 8192, 4096));
        }
        bench.settle();
        let behind = report(&mut bench).device.reservations_behind;
        assert_eq!(behind == Nanos::ZERO, is_kept, "{rate} a second: {behind} behind");
    }
}
