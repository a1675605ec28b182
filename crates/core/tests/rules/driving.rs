//! The driver by itself, against a model that keeps everything: every request ends exactly once, over exactly its extent;
//! who is held back goes first come first served; and the account of waiting adds up.

use std::collections::{BTreeMap, VecDeque};

use ioweir_core::driver::{Caller, Capacity, ClassState, ClientRequest, Driver, Finished, NoRoom};
use ioweir_core::policy::{self, Policy};
use ioweir_core::tenant::Share;
use ioweir_core::{
    CancelError, Dispatch, Flags, Nanos, Operation, QueueLimits, Reason, RefusedCause, Request, Scheduler, Step,
    StreamId, Tag,
};
use proptest::prelude::*;

const CLASSES: u32 = 3;
const SECTORS_MAX: u32 = 16;
const POLICIES: [&str; 8] = ["noop", "deadline", "cfq", "bid-hdd", "bid-hybrid", "sfq", "token-bucket", "mclock"];

/// A request of the model.
#[derive(Clone, Copy)]
struct Whole {
    request: ClientRequest,
    /// The sector up to which sub-requests have been submitted, refused or withdrawn.
    until: u64,
    ended: u32,
}

/// A sub-request that waits, or is in flight.
#[derive(Clone, Copy)]
struct Sub {
    number: usize,
    class: u32,
    since: Nanos,
}

/// The knowledge of the driver's caller, and the model beside it.
#[derive(Default)]
struct World {
    now: Nanos,
    wholes: Vec<Whole>,
    /// The number of the request in each slot of the driver.
    number_of: BTreeMap<u32, usize>,
    queued: BTreeMap<usize, Sub>,
    /// By tag's slot, with the tag.
    tags: BTreeMap<usize, Tag>,
    in_flight: BTreeMap<usize, Sub>,
    /// Sub-requests that have not reached the scheduler yet, by request: since when each waits, in order.
    outside: BTreeMap<usize, VecDeque<Nanos>>,
    /// The request and the sector that went in last, by direction, and by class where each has room of its own.
    last_in: BTreeMap<(usize, u32), (usize, u64)>,
    is_by_class: bool,
    /// Waiting by class as the model sees it: sub-requests times time.
    waited: [u64; CLASSES as usize],
}

impl World {
    fn end(&mut self, finished: Finished) {
        let number = self.number_of[&finished.request];
        assert_eq!(finished.handle, number as u32 % 1000, "a handle is what it was given");
        if finished.is_last {
            self.wholes[number].ended += 1;
            assert_eq!(self.wholes[number].ended, 1, "a request ends once");
            self.number_of.remove(&finished.request);
        }
    }

    /// The next sub-request of a request leaves the outside.
    fn pass(&mut self, number: usize, sub_request: &Request) -> Nanos {
        let class = if self.is_by_class { sub_request.stream.0 } else { 0 };
        let key = (number, sub_request.sector);
        let last = self.last_in.insert((sub_request.operation.direction() as usize, class), key);
        assert!(last.is_none_or(|last| last < key), "first come, first served");
        let whole = &mut self.wholes[number];
        assert_eq!(sub_request.sector, whole.until, "sub-requests follow one another");
        whole.until += u64::from(sub_request.sectors);
        let outside = self.outside.get_mut(&number).unwrap();
        outside.pop_front().unwrap()
    }

    fn class_state(&self, class: u32) -> ClassState {
        let count = |subs: &BTreeMap<usize, Sub>| subs.values().filter(|sub| sub.class == class).count() as u32;
        let outside = self.outside.iter().filter(|(number, _)| self.wholes[**number].request.stream.0 == class);
        let held = outside.map(|(_, waiting)| waiting.len() as u32).sum();
        ClassState { in_flight: count(&self.in_flight), queued: count(&self.queued), held }
    }
}

impl Caller for World {
    fn submitted(&mut self, request: u32, _handle: u32, tag: Tag, sub_request: &Request) {
        let number = self.number_of[&request];
        assert!(sub_request.operation == Operation::Discard || sub_request.sectors <= SECTORS_MAX);
        let since = self.pass(number, sub_request);
        let sub = Sub { number, class: sub_request.stream.0, since };
        assert!(self.queued.insert(tag.index(), sub).is_none(), "a tag is given once");
        self.tags.insert(tag.index(), tag);
    }

    fn split(&mut self, request: u32, handle: u32, _rest: &Request) -> u32 {
        // The first piece has waited since it arrived, the rest since now.
        self.outside.get_mut(&self.number_of[&request]).unwrap().insert(1, self.now);
        handle
    }

    fn refused(&mut self, finished: Finished, sub_request: &Request, cause: RefusedCause) {
        assert!(matches!(cause, RefusedCause::AtLimit(_)), "{cause:?} is the driver's own business");
        let number = self.number_of[&finished.request];
        let since = self.pass(number, sub_request);
        self.waited[sub_request.stream.0 as usize] += self.now.since(since).0;
        self.end(finished);
    }
}

struct Run {
    driver: Driver<Policy>,
    world: World,
    flights: VecDeque<Dispatch>,
    /// The waits that the driver should count, integrated over time.
    waits: [u64; Reason::COUNT],
    grown: u32,
}

impl Run {
    fn new(name: &str) -> Self {
        let row = policy::find(name).unwrap();
        let limits = QueueLimits {
            requests_per_direction: 3,
            members: 9,
            request_sectors_max: SECTORS_MAX,
            depth: 2,
            fast_depth: 1,
            fast_sectors: if row.places { 96 } else { 0 },
            fast_block_sectors: 8,
            ..QueueLimits::DEFAULT
        };
        let mut scheduler = row.build(limits, &row.defaults());
        scheduler.place(40, 72);
        if let Some(control) = scheduler.tenants_mut() {
            let refusing = Share { limit_per_second: 400, refuses_at_limit: true, ..Share::DEFAULT };
            control.configure(Nanos::ZERO, StreamId(0), refusing).unwrap();
            let limited = Share { limit_per_second: 900, ..Share::DEFAULT };
            control.configure(Nanos::ZERO, StreamId(1), limited).unwrap();
        }
        let is_by_class = scheduler.tenants().is_some();
        Self {
            driver: Driver::new(scheduler, &limits, Capacity { held: 2, classes: CLASSES }),
            world: World { is_by_class, ..World::default() },
            flights: VecDeque::new(),
            waits: [0; Reason::COUNT],
            grown: 0,
        }
    }

    fn step_to(&mut self, now: Nanos) {
        let span = now.since(self.world.now).0;
        for (sum, count) in self.waits.iter_mut().zip(self.driver.waiting().0) {
            *sum += span * u64::from(count);
        }
        self.world.now = now;
    }

    fn arrive(&mut self, request: ClientRequest) {
        let slot = loop {
            match self.driver.open() {
                Some(slot) => break slot,
                None => self.driver.grow(),
            }
        };
        let number = self.world.wholes.len();
        self.world.wholes.push(Whole { request, until: request.sector, ended: 0 });
        assert!(self.world.number_of.insert(slot, number).is_none(), "a slot is given once");
        let most = if request.operation == Operation::Discard { u32::MAX } else { SECTORS_MAX };
        let count = request.sectors.div_ceil(u64::from(most)).max(1);
        self.world.outside.insert(number, (0..count).map(|_| self.world.now).collect());
        let handle = number as u32 % 1000;
        loop {
            match self.driver.submit(self.world.now, slot, handle, request, &mut self.world) {
                Ok(answer) => {
                    assert_eq!(u64::from(answer), count);
                    return;
                }
                Err(NoRoom) => {
                    self.grown += 1;
                    self.driver.grow();
                }
            }
        }
    }

    fn complete(&mut self) {
        let Some(dispatch) = self.flights.pop_front() else { return };
        let members: Vec<usize> = self.driver.members(&dispatch).map(|(tag, _)| tag.index()).collect();
        assert_eq!(members.len(), dispatch.members as usize);
        for member in members {
            self.world.in_flight.remove(&member).unwrap();
        }
        let world = &mut self.world;
        self.driver.complete(world.now, &dispatch, |finished| world.end(finished));
    }

    /// Takes back all that a class has queued or held back.
    fn abandon(&mut self, class: u32) {
        loop {
            let (numbers, wholes) = (&self.world.number_of, &self.world.wholes);
            let is_its = |request: u32, _| wholes[numbers[&request]].request.stream.0 == class;
            let Some(finished) = self.driver.withdraw(self.world.now, is_its) else { break };
            let number = self.world.number_of[&finished.request];
            let whole = &mut self.world.wholes[number];
            whole.until = whole.request.sector + whole.request.sectors;
            for since in self.world.outside.insert(number, VecDeque::new()).unwrap() {
                self.world.waited[class as usize] += self.world.now.since(since).0;
            }
            self.world.end(finished);
        }
        let its: Vec<usize> =
            self.world.queued.iter().filter(|(_, sub)| sub.class == class).map(|(at, _)| *at).collect();
        for at in its {
            match self.driver.cancel(self.world.now, self.world.tags[&at]) {
                Ok(finished) => {
                    let sub = self.world.queued.remove(&at).unwrap();
                    assert_eq!(self.world.number_of[&finished.request], sub.number);
                    self.world.waited[class as usize] += self.world.now.since(sub.since).0;
                    self.world.end(finished);
                }
                Err(error) => assert_eq!(error, CancelError::Merged),
            }
        }
    }

    /// Tries again, dispatches, settles; answers when the scheduler wants to be asked again.
    fn settle(&mut self) -> Nanos {
        let now = self.world.now;
        self.driver.retry(now, &mut self.world);
        let timer = loop {
            match self.driver.poll(now) {
                Step::Dispatch(dispatch) => {
                    for (tag, member) in self.driver.members(&dispatch) {
                        let sub = self.world.queued.remove(&tag.index()).unwrap();
                        assert_eq!(self.world.number_of[&member.request], sub.number);
                        self.world.waited[sub.class as usize] += now.since(sub.since).0;
                        self.world.in_flight.insert(tag.index(), sub);
                    }
                    self.flights.push_back(dispatch);
                }
                Step::WaitUntil(time, _) => break time,
                Step::Idle => break Nanos::NEVER,
            }
        };
        self.driver.settle(now);
        for class in 0..CLASSES {
            assert_eq!(self.driver.class(StreamId(class)), self.world.class_state(class), "class {class}");
        }
        let waiting: u32 = self.driver.waiting().0.iter().sum();
        assert_eq!(waiting, self.driver.waiting_count());
        timer
    }

    fn finish(mut self, is_tenant: bool) {
        let mut turns = 0;
        loop {
            let timer = self.settle();
            if self.flights.is_empty() && timer == Nanos::NEVER {
                break;
            }
            let next = if self.flights.is_empty() { timer } else { self.world.now.after(Nanos(1_000_000)) };
            self.step_to(next);
            self.complete();
            turns += 1;
            assert!(turns < 10_000, "it comes to an end");
        }
        assert_eq!((self.driver.waiting_count(), self.driver.requests()), (0, 0));
        for whole in &self.world.wholes {
            assert_eq!(whole.ended, 1, "every request ends");
            assert_eq!(whole.until, whole.request.sector + whole.request.sectors, "over its whole extent");
        }
        self.driver.settle_all(self.world.now);
        let mut by_reason = [0; Reason::COUNT];
        for class in 0..CLASSES {
            let waits = self.driver.take_wait_nanos(StreamId(class));
            assert_eq!(waits.iter().sum::<u64>(), self.world.waited[class as usize], "the waiting of class {class}");
            by_reason.iter_mut().zip(waits).for_each(|(sum, wait)| *sum += wait);
        }
        assert_eq!(
            self.waits.iter().sum::<u64>(),
            self.world.waited.iter().sum::<u64>(),
            "waiting adds up to latency less service"
        );
        assert_eq!(self.waits[Reason::QueueFull as usize], by_reason[Reason::QueueFull as usize]);
        if is_tenant {
            assert_eq!(self.waits, by_reason, "a tenant policy gives each class its reason");
        }
    }
}

fn requests() -> impl Strategy<Value = Vec<(u8, u64, u8, u32, u64, u64)>> {
    prop::collection::vec((0_u8..16, 0_u64..3_000_000, 0_u8..8, 0..CLASSES, 0_u64..12, 1_u64..90), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn driver_agrees_with_its_model(steps in requests(), policy in 0..POLICIES.len()) {
        let name = POLICIES[policy];
        let mut run = Run::new(name);
        for (step, span, kind, class, block, sectors) in steps {
            run.step_to(run.world.now.after(Nanos(span)));
            match step {
                0..3 => run.complete(),
                3 => run.abandon(class),
                _ => {
                    let operation = [
                        Operation::Read, Operation::Read, Operation::Read, Operation::Write, Operation::Write,
                        Operation::Write, Operation::Discard, Operation::Flush,
                    ][usize::from(kind)];
                    let sectors = if operation == Operation::Flush { 0 } else { sectors };
                    let (flags, stream) = (Flags::NONE, StreamId(class));
                    run.arrive(ClientRequest { operation, flags, stream, sector: block * 8, sectors });
                }
            }
            run.settle();
        }
        let is_tenant = run.driver.scheduler().tenants().is_some();
        run.finish(is_tenant);
    }
}

#[test]
fn refused_request_changes_nothing_in_the_driver() {
    let mut run = Run::new("noop");
    let request = |sector| ClientRequest {
        operation: Operation::Write,
        flags: Flags::NONE,
        stream: StreamId(2),
        sector,
        sectors: 100,
    };
    for sector in 0..40 {
        run.arrive(request(sector * 1000));
    }
    assert!(run.grown > 0, "two ranges are held back before it has to grow");
    let held = run.driver.held();
    assert_eq!(held + run.driver.scheduler().queued(), 40 * 7);
    run.settle();
    run.finish(false);
}
