//! Tests of pairs: the decisions under windows of one, of any size and without an end, and the bounds that hold for them.

use std::collections::BTreeMap;

use ioweir_core::policy::{self, Below, PAIR, POLICIES, PairError, Policy, PolicyRow};
use ioweir_core::tenant::{GroupId, Rule, Share};
use ioweir_core::{
    CancelError, Dispatch, Flags, Nanos, Operation, QueueLimits, Reason, Request, Scheduler, Step, StreamId, Tag,
};
use proptest::prelude::*;

use crate::tenants::world::{MILLI, Random, SECOND, World, build, control, limits, near, weights};

/// A window larger than any queue here.
const UNBOUNDED: u64 = 1 << 10;

pub(crate) fn pair(upper: &str, lower: &str, window: u64, limits: QueueLimits) -> Policy {
    pair_of(upper, &[], lower, window, limits)
}

/// A pair whose order has these parameters.
pub(crate) fn pair_of(
    upper: &str,
    parameters: &[(&str, u64)],
    lower: &str,
    window: u64,
    limits: QueueLimits,
) -> Policy {
    let (order, elevator) = (policy::find(upper).unwrap(), policy::find(lower).unwrap());
    order.goes_above(elevator).unwrap();
    let mut settings = order.defaults();
    for &(name, value) in parameters {
        order.set(&mut settings, name, value).unwrap();
    }
    let mut pair = PAIR.defaults();
    PAIR.set(&mut pair, "window", window).unwrap();
    order.build_above(limits, &settings, &Below { row: elevator, settings: elevator.defaults(), pair })
}

pub(crate) fn orders() -> impl Iterator<Item = &'static PolicyRow> {
    POLICIES.iter().filter(|row| row.knows_shares)
}

pub(crate) fn elevators() -> impl Iterator<Item = &'static PolicyRow> {
    POLICIES.iter().filter(|row| !row.knows_shares && !row.places)
}

fn read(client: u32, sector: u64) -> Request {
    Request { operation: Operation::Read, flags: Flags::NONE, stream: StreamId(client), sector, sectors: 8 }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Submit { client: u32, sector: u64, write: bool, flags: Flags },
    Cancel(usize),
    Complete(usize),
    Wait(u64),
    Share { client: u32, weight: u32, limit: u64, reservation: u64, group: bool },
    Poll,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let flags = prop_oneof![8 => Just(Flags::NONE), 1 => Just(Flags::SYNC), 1 => Just(Flags::FUA)];
    let submit = (0u32..4, 0u64..40, any::<bool>(), flags);
    let share = (0u32..4, 1u32..9, 0u64..3, 0u64..3, any::<bool>());
    let call = prop_oneof![
        8 => submit.prop_map(|(client, place, write, flags)| Call::Submit { client, sector: place * 8, write, flags }),
        2 => (0usize..64).prop_map(Call::Cancel),
        5 => (0usize..64).prop_map(Call::Complete),
        2 => prop_oneof![0u64..300_000, 0u64..20 * MILLI, 0u64..SECOND].prop_map(Call::Wait),
        1 => share.prop_map(|(client, weight, limit, reservation, group)| Call::Share {
            client, weight, limit: limit * 50, reservation: reservation * 40, group,
        }),
        6 => Just(Call::Poll),
    ];
    prop::collection::vec(call, 1..150)
}

/// Two schedulers that get the same calls. Their tags differ; requests go by number.
struct Both {
    schedulers: [Policy; 2],
    now: Nanos,
    tags: Vec<[Tag; 2]>,
    numbers: [BTreeMap<usize, usize>; 2],
    /// The requests that can be cancelled.
    alive: Vec<usize>,
    flights: Vec<[Tag; 2]>,
    shares: bool,
    has_window: bool,
}

impl Both {
    fn new(schedulers: [Policy; 2], shares: bool) -> Self {
        let numbers = [BTreeMap::new(), BTreeMap::new()];
        Self {
            schedulers,
            now: Nanos::ZERO,
            tags: vec![],
            numbers,
            alive: vec![],
            flights: vec![],
            shares,
            has_window: false,
        }
    }

    fn configure(&mut self, client: u32, share: Share, group: Option<GroupId>) {
        for scheduler in &mut self.schedulers {
            let control = scheduler.tenants_mut().unwrap();
            control.configure_group(self.now, GroupId(0), Share { weight: share.weight, ..Share::DEFAULT }).unwrap();
            let share = control.kept(Share { group, ..share });
            let _ = control.configure(self.now, StreamId(client), share);
        }
    }

    /// The members of a dispatch, by number.
    fn members(&self, which: usize, dispatch: &Dispatch) -> Vec<usize> {
        let next = |tag: &Tag| self.schedulers[which].next_member(*tag);
        let tags = std::iter::successors(Some(dispatch.tag), next);
        let members: Vec<usize> = tags.map(|tag| self.numbers[which][&tag.index()]).collect();
        assert_eq!(members.len(), dispatch.members as usize);
        members
    }

    fn poll(&mut self) {
        loop {
            match [0, 1].map(|which| self.schedulers[which].poll(self.now)) {
                [Step::Dispatch(one), Step::Dispatch(other)] => {
                    let members = [self.members(0, &one), self.members(1, &other)];
                    assert_eq!(members[0], members[1], "at {}", self.now);
                    assert_eq!(one, Dispatch { tag: one.tag, ..other });
                    self.alive.retain(|number| !members[0].contains(number));
                    self.flights.push([one.tag, other.tag]);
                }
                [one, other] => {
                    assert_eq!(one, other, "at {}", self.now);
                    break;
                }
            }
        }
        assert_eq!(self.schedulers[0].queued(), self.schedulers[1].queued());
        let [one, other] = [0, 1].map(|which| self.schedulers[which].waiting());
        // Requests that an order's own window holds back wait for that window in a pair; without a pair they wait for the device, if that
        // is full.
        assert!(one == other || self.has_window, "at {}: {one:?} {other:?}", self.now);
    }

    fn call(&mut self, call: Call) {
        match call {
            Call::Submit { client, sector, write, flags } => {
                let operation = if write { Operation::Write } else { Operation::Read };
                let request = Request { operation, flags, ..read(client, sector) };
                let [one, other] = [0, 1].map(|which| self.schedulers[which].submit(self.now, request));
                assert_eq!(one.is_ok(), other.is_ok(), "{one:?} {other:?}");
                let (Ok(one), Ok(other)) = (one, other) else { return };
                self.alive.push(self.tags.len());
                for (numbers, tag) in self.numbers.iter_mut().zip([one, other]) {
                    numbers.insert(tag.index(), self.tags.len());
                }
                self.tags.push([one, other]);
            }
            Call::Cancel(which) if !self.alive.is_empty() => {
                let at = which % self.alive.len();
                let tags = self.tags[self.alive[at]];
                let answers = [0, 1].map(|which| self.schedulers[which].cancel(self.now, tags[which]));
                assert_eq!(answers[0], answers[1]);
                if answers[0].is_ok() {
                    self.alive.remove(at);
                }
            }
            Call::Complete(which) if !self.flights.is_empty() => {
                let tags = self.flights.swap_remove(which % self.flights.len());
                for (scheduler, tag) in self.schedulers.iter_mut().zip(tags) {
                    scheduler.complete(self.now, tag);
                }
            }
            Call::Wait(nanos) => self.now = self.now.after(Nanos(nanos)),
            Call::Share { client, weight, limit, reservation, group } if self.shares => {
                let share = Share {
                    weight,
                    limit_per_second: limit,
                    reservation_per_second: reservation,
                    burst: 2,
                    reads_per_second: limit,
                    write_bytes_per_second: limit * 8_192,
                    latency: if weight > 5 { Nanos(MILLI) } else { Nanos::NEVER },
                    ..Share::DEFAULT
                };
                self.configure(client, share, group.then_some(GroupId(0)));
            }
            Call::Poll => self.poll(),
            _ => {}
        }
    }
}

fn with_groups(name: &str, below: Option<(&'static PolicyRow, u64)>, limits: QueueLimits) -> Policy {
    with_cost(name, 0, below, limits)
}

/// With a group; costs are the last of the first `cost` + 1 that the policy knows.
fn with_cost(name: &str, cost: u64, below: Option<(&'static PolicyRow, u64)>, limits: QueueLimits) -> Policy {
    let row = policy::find(name).unwrap();
    let mut settings = row.defaults();
    row.set(&mut settings, "groups", 1).unwrap();
    for cost in 0..=cost {
        let _ = row.set(&mut settings, "cost", cost);
    }
    let Some((elevator, window)) = below else { return row.build(limits, &settings) };
    let mut pair = PAIR.defaults();
    PAIR.set(&mut pair, "window", window).unwrap();
    row.build_above(limits, &settings, &Below { row: elevator, settings: elevator.defaults(), pair })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn window_of_one_decides_as_order_alone(calls in calls(), depth in 1u32..4, elevator in 0usize..32) {
        let elevators: Vec<_> = elevators().collect();
        let elevator = elevators[elevator % elevators.len()];
        for row in orders() {
            let limits = QueueLimits { depth, ..QueueLimits::with_requests(30) };
            let alone = with_groups(row.name, None, limits);
            let mut both = Both::new([alone, with_groups(row.name, Some((elevator, 1)), limits)], true);
            both.has_window = row.name == "parda";
            calls.iter().for_each(|&call| both.call(call));
            both.poll();
        }
    }

    #[test]
    fn endless_window_decides_as_elevator_alone(calls in calls(), depth in 1u32..4, order in 0usize..32) {
        let orders: Vec<_> = orders().collect();
        let order = orders[order % orders.len()];
        for row in elevators() {
            let limits = QueueLimits { depth, ..QueueLimits::with_requests(200) };
            let alone = row.build(limits, &row.defaults());
            let mut both = Both::new([alone, pair(order.name, row.name, UNBOUNDED, limits)], false);
            calls.iter().for_each(|&call| both.call(call));
            both.poll();
        }
    }

    /// With the usual window, while that holds all that is queued: `fifo` has no order of its own.
    #[test]
    fn fifo_above_decides_as_elevator_alone(calls in calls(), depth in 1u32..4) {
        let window = PAIR.get(&PAIR.defaults(), "window").unwrap();
        for row in elevators() {
            let limits = QueueLimits { depth, ..QueueLimits::with_requests(200) };
            let alone = row.build(limits, &row.defaults());
            let mut both = Both::new([alone, pair("fifo", row.name, window, limits)], false);
            for &call in &calls {
                // The last request of the window would come when the device has room.
                let has_room = u64::from(both.schedulers[0].queued()) < window - 1;
                if has_room || !matches!(call, Call::Submit { .. }) {
                    both.call(call);
                }
            }
            both.poll();
        }
    }

    /// Every wait is counted, a request leaves once, and a cancelled request comes back as it was.
    #[test]
    fn a_pair_keeps_the_contract_at_every_window(
        calls in calls(), depth in 1u32..4, window in 0u64..9, order in 0usize..32, elevator in 0usize..32, cost in 0u64..3,
    ) {
        let (orders, elevators): (Vec<_>, Vec<_>) = (orders().collect(), elevators().collect());
        let (order, elevator) = (orders[order % orders.len()], elevators[elevator % elevators.len()]);
        let limits = QueueLimits { depth, ..QueueLimits::with_requests(30) };
        let build = || with_cost(order.name, cost, Some((elevator, window)), limits);
        // Equal calls give equal answers, and a copy goes on as the original.
        let mut both = Both::new([build(), build()], true);
        for (at, &call) in calls.iter().enumerate() {
            both.call(call);
            if at == calls.len() / 2 {
                both.schedulers[1] = both.schedulers[0].clone();
            }
        }
        // All leave.
        for step in 0.. {
            both.poll();
            if both.schedulers[0].queued() == 0 && both.flights.is_empty() {
                break;
            }
            prop_assert!(step < 10_000, "{}+{}: some are left", order.name, elevator.name);
            both.call(Call::Complete(0));
            both.call(Call::Wait(SECOND));
        }
    }
}

#[test]
fn released_request_waits_at_most_two_windows() {
    for row in elevators() {
        for window in [2u64, 3, 8, 32] {
            let mut policy = pair("fifo", row.name, window, limits(1));
            let mut random = Random(window);
            let (mut now, mut submitted, mut far) = (Nanos::ZERO, 0u64, 0);
            let mut waiting: Vec<(Tag, u64)> = vec![];
            for step in 0..20_000 {
                while waiting.len() < 100 {
                    // Most lie close together; the elevator that likes them best lets the others wait without an end.
                    let sector = if random.below(16) == 0 { 1 << 30 } else { random.below(1000) } * 800;
                    let tag = policy.submit(now, read(random.below(3) as u32, sector)).unwrap();
                    waiting.push((tag, submitted));
                    submitted += 1;
                }
                let step = match policy.poll_weighed(now, &|request| request.sector) {
                    Step::Dispatch(dispatch) => dispatch,
                    Step::WaitUntil(time, _) => {
                        assert!(time > now && time < Nanos::NEVER, "{} {window}: step {step}", row.name);
                        now = time;
                        continue;
                    }
                    Step::Idle => panic!("there are some"),
                };
                assert_eq!(step.members, 1);
                let at = waiting.iter().position(|of| of.0 == step.tag).unwrap();
                let (_, number) = waiting.remove(at);
                // Requests are released in the order of arrival: later ones that have gone already have passed this one.
                let before = waiting.iter().filter(|of| of.1 < number).count() as u64;
                let left_after = waiting.iter().filter(|of| of.1 > number).count() as u64;
                let passed = submitted - 1 - number - left_after;
                assert!(before < window, "{} {window}: it passes {before} at once", row.name);
                assert!(passed <= 2 * (window - 1), "{} {window}: passed by {passed}", row.name);
                far = far.max(passed);
                now = now.after(Nanos(MILLI));
                policy.complete(now, step.tag);
            }
            assert!(
                window < 8 || far > 0 || ["noop", "none", "kyber"].contains(&row.name),
                "{} sorts nothing",
                row.name
            );
        }
    }
}

/// Two that always ask, and one that comes and goes: a million calls of each pair.
#[test]
fn shares_hold_within_what_the_window_adds() {
    for (upper, lower) in
        [("sfq", "deadline"), ("wfq", "clook"), ("mclock", "bid-hdd"), ("drr", "cfq"), ("sfq", "sptf")]
    {
        for window in [1u64, 4, 16] {
            let mut policy = pair(upper, lower, window, limits(1));
            weights(&mut policy, &[1, 3, 2]);
            let mut random = Random(7);
            let (mut now, mut outstanding, mut served) = (Nanos::ZERO, [0u32; 3], [0u64; 3]);
            let mut of_tag: BTreeMap<usize, usize> = BTreeMap::new();
            let (mut calls, mut is_on) = (0u32, true);
            // Clients 0 and 1 are active throughout.
            let mut lead = (i64::MAX, i64::MIN);
            while calls < 1_000_000 / 3 {
                is_on ^= random.below(500) == 0;
                for (client, outstanding) in outstanding.iter_mut().enumerate() {
                    while *outstanding < 40 && (client < 2 || is_on) {
                        let sector = (client as u64 * 100_000 + random.below(10_000)) * 16;
                        let tag = policy.submit(now, read(client as u32, sector)).unwrap();
                        of_tag.insert(tag.index(), client);
                        *outstanding += 1;
                        calls += 1;
                    }
                }
                calls += 2;
                match policy.poll(now) {
                    Step::Dispatch(dispatch) => {
                        let client = of_tag[&dispatch.tag.index()];
                        assert_eq!(dispatch.members, 1, "nothing is adjacent");
                        now = now.after(Nanos(MILLI));
                        policy.complete(now, dispatch.tag);
                        (outstanding[client], served[client]) = (outstanding[client] - 1, served[client] + 1);
                    }
                    Step::WaitUntil(time, _) => now = time,
                    Step::Idle => unreachable!("two ask always"),
                }
                // In thirds of a request of the lighter one.
                let ahead = 3 * served[0] as i64 - served[1] as i64;
                // The first few were released before all had asked.
                if served[0] > 100 {
                    lead = (lead.0.min(ahead), lead.1.max(ahead));
                }
            }
            // The bound is twofold: a charge of each client to either side (a turn, for drr), and the requests of one client that the
            // elevator may hold.
            let allowed = 2 * (3 + if upper == "drr" { 3 } else { 1 }) + (3 + 1) * (window as i64 - 1);
            assert!(lead.1 - lead.0 <= allowed, "{upper}+{lower}:{window}: {lead:?} of {allowed}");
            assert!(served[2] > 1000, "{served:?}");
        }
    }
}

/// Clients of equal weight with as many outstanding as the adaptive window holds, above elevators that like one best.
#[test]
fn adaptive_window_keeps_shares_under_any_elevator() {
    for upper in ["sfq", "wfq", "mclock", "parda", "reward"] {
        for lower in ["clook", "sptf", "deadline", "bid-hdd", "anticipatory"] {
            let mut policy = pair(upper, lower, 0, limits(1));
            weights(&mut policy, &[2, 2, 1]);
            let (mut now, mut random, mut outstanding) = (Nanos::ZERO, Random(3), [0u32; 3]);
            let (mut of_tag, mut head, mut next) = (BTreeMap::new(), 0u64, 0u64);
            let mut served = [0f64; 3];
            for step in 0..20_000 {
                for (client, outstanding) in outstanding.iter_mut().enumerate() {
                    while *outstanding < 16 {
                        // The first client reads sequentially, the others at random.
                        let sector = if client == 0 { next % 100_000 } else { random.below(10_000_000) };
                        next += u64::from(client == 0);
                        // No two requests are adjacent, so that none merge.
                        let request = read(client as u32, sector * 16);
                        of_tag.insert(policy.submit(now, request).unwrap().index(), client);
                        *outstanding += 1;
                    }
                }
                match policy.poll_weighed(now, &|request| request.sector.abs_diff(head)) {
                    Step::Dispatch(dispatch) => {
                        let client = of_tag[&dispatch.tag.index()];
                        head = dispatch.sector + 8;
                        now = now.after(Nanos(MILLI));
                        policy.complete(now, dispatch.tag);
                        outstanding[client] -= 1;
                        served[client] += f64::from(step > 1_000);
                    }
                    Step::WaitUntil(time, _) => {
                        assert!(time < Nanos::NEVER, "{upper}+{lower} waits for nothing");
                        now = time;
                    }
                    Step::Idle => unreachable!("three ask always"),
                }
            }
            assert!(near(served[0], served[1], 0.05), "{upper}+{lower}: {served:?}");
            assert!(near(served[1], 2.0 * served[2], 0.05), "{upper}+{lower}: {served:?}");
        }
    }
}

#[test]
fn limits_and_reservations_hold_at_release() {
    for lower in ["deadline", "bfq", "bid-hdd"] {
        let mut policy = pair("mclock", lower, 8, limits(1));
        let share = Share { reservation_per_second: 500, ..Share::DEFAULT };
        control(&mut policy).configure(Nanos::ZERO, StreamId(0), share).unwrap();
        let share = Share { limit_per_second: 100, burst: 10, ..Share::weighted(100) };
        control(&mut policy).configure(Nanos::ZERO, StreamId(1), share).unwrap();
        control(&mut policy).configure(Nanos::ZERO, StreamId(2), Share::weighted(100)).unwrap();
        let mut world = World::new(policy, &[20, 20, 20], 1, Box::new(|_, _| MILLI));
        let rates = world.rates_until(20 * SECOND);
        assert!(near(rates[0], 500.0, 0.02) && near(rates[1], 100.0, 0.02), "{lower}: {rates:?}");
        let limited: Vec<u64> = world.dispatches.iter().filter(|of| of.1 == 1).map(|of| of.0.0).collect();
        // The bound: the burst and the rate of the limit, and the requests that the window had released before.
        for (at, start) in limited.iter().enumerate() {
            let within = limited[at..].iter().take_while(|time| **time < start + SECOND).count();
            assert!(within <= 10 + 100 + 8, "{lower}: {within}");
        }
    }
}

#[test]
fn cancelled_after_release_pays_nothing() {
    for row in orders() {
        let share = Share { reservation_per_second: 3, limit_per_second: 7, burst: 2, ..Share::weighted(3) };
        let share = Share { reads_per_second: 40, read_bytes_per_second: 1 << 20, latency: Nanos(MILLI), ..share };
        let run = |cancels: bool| {
            let mut policy = pair(row.name, "noop", 4, limits(1));
            for client in 0..2 {
                let control = control(&mut policy);
                control.configure(Nanos::ZERO, StreamId(client), control.kept(share)).unwrap();
            }
            // The device is busy with another's.
            policy.submit(Nanos::ZERO, read(9, 0)).unwrap();
            let Step::Dispatch(first) = policy.poll(Nanos::ZERO) else { panic!("it has room") };
            if cancels {
                // Released at once, since the elevator holds less than the window.
                let tags = [1, 2].map(|at| policy.submit(Nanos::ZERO, read(0, at * 800)).unwrap());
                for tag in tags {
                    let told = control(&mut policy).explain(Nanos::ZERO, tag).unwrap();
                    assert_eq!(told.rule, Rule::Elevator, "{}", row.name);
                    assert_eq!(policy.cancel(Nanos::ZERO, tag).unwrap().stream, StreamId(0));
                    assert_eq!(policy.cancel(Nanos::ZERO, tag), Err(CancelError::Unknown));
                }
            }
            for at in 1..9 {
                policy.submit(Nanos::ZERO, read(0, at * 800)).unwrap();
                policy.submit(Nanos::ZERO, read(1, at * 800)).unwrap();
            }
            policy.complete(Nanos(MILLI), first.tag);
            let (mut now, mut order) = (Nanos(MILLI), vec![]);
            while policy.queued() > 0 {
                match policy.poll(now) {
                    Step::Dispatch(dispatch) => {
                        order.push((now, dispatch.stream.0, dispatch.sector));
                        now = now.after(Nanos(MILLI));
                        policy.complete(now, dispatch.tag);
                    }
                    Step::WaitUntil(time, _) => now = time,
                    Step::Idle => break,
                }
            }
            order
        };
        assert_eq!(run(true), run(false), "{}", row.name);
    }
}

#[test]
fn merged_requests_count_each_for_its_tenant() {
    let mut policy = pair("sfq", "noop", 16, limits(1));
    for client in 0..2 {
        let share = Share { limit_per_second: 1, burst: 3, ..Share::DEFAULT };
        control(&mut policy).configure(Nanos::ZERO, StreamId(client), share).unwrap();
    }
    // Two tenants read one file side by side, so that their requests are adjacent.
    for at in 0..4 {
        policy.submit(Nanos::ZERO, read(at % 2, u64::from(at) * 8)).unwrap();
    }
    let Step::Dispatch(merged) = policy.poll(Nanos::ZERO) else { panic!("the device has room") };
    assert_eq!((merged.members, merged.sectors), (4, 32));
    let streams: Vec<Tag> = std::iter::successors(Some(merged.tag), |&tag| policy.next_member(tag)).collect();
    assert_eq!(streams.len(), 4);
    policy.complete(Nanos(MILLI), merged.tag);
    // Each has paid for two of the three that its limit lets go.
    for at in 0..4 {
        policy.submit(Nanos(MILLI), read(at % 2, 10_000 + u64::from(at) * 80)).unwrap();
    }
    assert_eq!(policy.waiting().count(Reason::Throttled), 2);
    assert_eq!((policy.queued(), policy.waiting().0.iter().sum::<u32>()), (4, 4));
}

#[test]
fn idling_elevator_keeps_a_place_for_stream() {
    for lower in ["anticipatory", "cfq"] {
        let mut policy = pair("sfq", lower, 4, limits(1));
        // One reads on and on, the other has many requests elsewhere.
        let mut now = Nanos(SECOND);
        policy.submit(now, read(0, 8_000)).unwrap();
        let Step::Dispatch(first) = policy.poll(now) else { panic!("it has room") };
        for at in 0..8 {
            policy.submit(now, read(1, 9_000_000 + at * 8_000)).unwrap();
        }
        now = now.after(Nanos(MILLI));
        policy.complete(now, first.tag);
        let Step::WaitUntil(until, Reason::Anticipating) = policy.poll(now) else { panic!("{lower} idles") };
        assert!(until > now);
        now = now.after(Nanos(MILLI / 10));
        policy.submit(now, read(0, 8_008)).unwrap();
        let Step::Dispatch(second) = policy.poll(now) else { panic!("{lower}: what it idled for is here") };
        assert_eq!(second.stream, StreamId(0), "{lower}");
    }
}

#[test]
fn elevator_without_further_requests_does_not_gather() {
    let mut policy = pair("fifo", "bid-hdd", 3, limits(1));
    for client in 0..2 {
        policy.submit(Nanos::ZERO, read(client, u64::from(client) * 8_000)).unwrap();
    }
    assert!(matches!(policy.poll(Nanos::ZERO), Step::WaitUntil(_, Reason::Staging)), "a third could come");
    policy.submit(Nanos::ZERO, read(2, 900)).unwrap();
    assert!(matches!(policy.poll(Nanos::ZERO), Step::Dispatch(_)), "nothing more can come");
}

#[test]
fn only_an_order_goes_above_an_elevator() {
    let above = |upper: &str, lower: &str| policy::find(upper).unwrap().goes_above(policy::find(lower).unwrap());
    assert_eq!(above("sfq", "deadline"), Ok(()));
    assert_eq!(above("deadline", "sfq"), Err(PairError::NoElevator));
    assert_eq!(above("sfq", "mclock"), Err(PairError::NoElevator));
    assert_eq!(above("noop", "deadline"), Err(PairError::NoOrder));
    assert_eq!(above("sfq", "bid-hybrid"), Err(PairError::Places));
    assert!(build("sfq", &[], limits(1)).tenants().is_some());
}

#[test]
fn adaptive_window_is_largest_that_keeps_latency() {
    // Sorting makes a request cheaper; with more than some of them to choose from the last waits too long.
    let longest = |latency: u64| {
        let mut policy = pair("fifo", "clook", 0, limits(1));
        let share = Share { latency: Nanos(latency), ..Share::DEFAULT };
        control(&mut policy).configure(Nanos::ZERO, StreamId(0), share).unwrap();
        let (mut now, mut random, mut late, mut done) = (Nanos::ZERO, Random(4), 0u64, 0u64);
        let (mut submitted, mut waiting, mut most) = (BTreeMap::new(), 0u32, 0);
        for step in 0..200_000 {
            // The load is open: 40 requests wait at all times, whatever the window releases.
            while waiting < 40 {
                let tag = policy.submit(now, read(0, random.below(1_000_000) * 800)).unwrap();
                submitted.insert(tag.index(), now);
                waiting += 1;
            }
            let Step::Dispatch(dispatch) = policy.poll(now) else { panic!("there are some") };
            now = now.after(Nanos(MILLI));
            policy.complete(now, dispatch.tag);
            waiting -= 1;
            let took = now.since(submitted[&dispatch.tag.index()]).0;
            if step > 100_000 {
                (late, done, most) = (late + u64::from(took > latency), done + 1, most.max(took));
            }
        }
        (late as f64 / done as f64, most)
    };
    // With 40 waiting requests of a millisecond each, a request in order waits for 40 ms; the window adds the rest.
    let (late, most) = longest(60 * MILLI);
    assert!(late < 0.03, "{late}");
    assert!((45 * MILLI..120 * MILLI).contains(&most), "it grows as far as it may: {most}");
    let (_, strict) = longest(41 * MILLI);
    assert!(strict < most, "{strict} {most}");
}
