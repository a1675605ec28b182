//! Linux's I/O controllers end to end, on a device of eight servers: golden cases that an independent simulator of the kernel gave.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ioweir_core::policy::{self, Policy};
use ioweir_core::tenant::{GroupId, Share};
use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Request, Scheduler, Step, StreamId, Tag};

const SECOND: u64 = 1_000_000_000;
const SERVERS: usize = 8;
/// Requests of 4 KiB that the device serves a second.
const CAPACITY: f64 = 17_184.0;

/// A tenant in a closed loop, or open at a rate.
#[derive(Clone, Copy)]
struct Load {
    bytes: u64,
    outstanding: u32,
    rate: f64,
    from: u64,
    to: u64,
}

const fn closed(outstanding: u32) -> Load {
    Load { bytes: 4096, outstanding, rate: 0.0, from: 0, to: u64::MAX }
}

struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 1.0) / (1_u64 << 53) as f64
    }

    /// With a mean of one, and a deviation of its logarithm of a quarter.
    fn jitter(&mut self) -> f64 {
        let normal = (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
        (0.25 * normal - 0.25_f64.powi(2) / 2.0).exp()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Done(u64),
    Arrives(usize),
    /// The first tenant has this weight from now on.
    Weighs(u32),
    Polls,
}

/// A request's end: when, whose, and how long it took.
type Served = (u64, usize, u64);

struct World {
    policy: Policy,
    loads: Vec<Load>,
    /// How many times slower than the reference the device is.
    slowdown: u64,
    random: Random,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    queue: VecDeque<(Tag, u64)>,
    busy: usize,
    /// Requests in the device: their tag.
    inside: std::collections::HashMap<u64, Tag>,
    /// The next time at which the policy is polled without another reason.
    polls: u64,
    /// By slot: whose, and since when.
    sent: Vec<(usize, u64)>,
    /// Dispatches to the device: when, and whose.
    dispatched: Vec<(u64, usize)>,
    served: Vec<Served>,
}

impl World {
    fn new(name: &str, parameters: &[(&str, u64)], tags: u32, shares: &[Share], loads: &[Load]) -> Self {
        let row = policy::find(name).unwrap();
        let mut settings = row.defaults();
        parameters.iter().for_each(|(name, value)| row.set(&mut settings, name, *value).unwrap());
        let mut policy = row.build(QueueLimits { depth: tags, ..QueueLimits::with_requests(2_048) }, &settings);
        let tenants = policy.tenants_mut().unwrap();
        for (stream, share) in (0..).zip(shares) {
            tenants.configure(Nanos::ZERO, StreamId(stream), *share).unwrap();
        }
        let slots = policy.slots() as usize;
        Self {
            policy,
            loads: loads.to_vec(),
            slowdown: 1,
            random: Random(7),
            events: BinaryHeap::new(),
            number: 0,
            queue: VecDeque::new(),
            busy: 0,
            inside: std::collections::HashMap::new(),
            polls: 0,
            sent: vec![(0, 0); slots],
            dispatched: Vec::new(),
            served: Vec::new(),
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    fn submit(&mut self, now: u64, tenant: usize) {
        let sectors = self.loads[tenant].bytes / 512;
        let sector = (self.random.unit() * 1e9) as u64 * sectors;
        let (operation, flags, stream) = (Operation::Read, Flags::NONE, StreamId(tenant as u32));
        let request = Request { operation, flags, stream, sector, sectors: sectors as u32 };
        let tag = self.policy.submit(Nanos(now), request).unwrap();
        self.sent[tag.index()] = (tenant, now);
    }

    fn poll(&mut self, now: u64) {
        loop {
            match self.policy.poll(Nanos(now)) {
                Step::Dispatch(dispatch) => {
                    self.dispatched.push((now, self.sent[dispatch.tag.index()].0));
                    self.queue.push_back((dispatch.tag, u64::from(dispatch.sectors) * 512));
                }
                Step::WaitUntil(time, _) if time != Nanos::NEVER => {
                    assert!(time.0 > now, "a wait that is over");
                    if self.polls <= now || time.0 < self.polls {
                        self.polls = time.0;
                        self.at(time.0, Event::Polls);
                    }
                    break;
                }
                _ => break,
            }
        }
        while self.busy < SERVERS
            && let Some((tag, bytes)) = self.queue.pop_front()
        {
            self.busy += 1;
            let took = (400_000.0 + 16.0 * bytes as f64) * self.slowdown as f64 * self.random.jitter();
            self.number += 1;
            self.inside.insert(self.number, tag);
            let event = Event::Done(self.number);
            self.at(now + took as u64, event);
        }
    }

    fn run(mut self, seconds: f64) -> Vec<Served> {
        self.play(seconds);
        self.served
    }

    fn play(&mut self, seconds: f64) {
        let end = (seconds * SECOND as f64) as u64;
        for tenant in 0..self.loads.len() {
            for _ in 0..self.loads[tenant].outstanding.max(1) {
                self.at(self.loads[tenant].from, Event::Arrives(tenant));
            }
        }
        while let Some(Reverse((now, _, event))) = self.events.pop()
            && now < end
        {
            match event {
                Event::Done(number) => {
                    let tag = self.inside.remove(&number).unwrap();
                    let (tenant, since) = self.sent[tag.index()];
                    self.busy -= 1;
                    self.policy.complete(Nanos(now), tag);
                    self.served.push((now, tenant, now - since));
                    if self.loads[tenant].outstanding > 0 && now < self.loads[tenant].to {
                        self.submit(now, tenant);
                    }
                }
                Event::Arrives(tenant) => {
                    self.submit(now, tenant);
                    if self.loads[tenant].rate > 0.0 {
                        let gap = -self.random.unit().ln() / self.loads[tenant].rate;
                        self.at(now + (gap * SECOND as f64) as u64, Event::Arrives(tenant));
                    }
                }
                Event::Weighs(weight) => {
                    let tenants = self.policy.tenants_mut().unwrap();
                    tenants.configure(Nanos(now), StreamId(0), weighted(weight)).unwrap();
                    assert_eq!(tenants.share(StreamId(0)).weight, weight);
                }
                Event::Polls => {}
            }
            self.poll(now);
        }
    }

    /// The most requests of a tenant that the policy had at the device at once, between two times.
    fn depth(&self, tenant: usize, from: f64, to: f64) -> i64 {
        let changes = self.dispatched.iter().filter(|of| of.1 == tenant).map(|of| (of.0, 1));
        let ends = self.served.iter().filter(|of| of.1 == tenant).map(|of| (of.0, -1));
        let mut changes: Vec<(u64, i64)> = changes.chain(ends).collect();
        changes.sort_unstable();
        let mut depth = 0;
        let depths = changes.into_iter().map(|(at, change)| {
            depth += change;
            (at as f64 / SECOND as f64, depth)
        });
        depths.filter(|(at, _)| (from..to).contains(at)).map(|(_, depth)| depth).max().unwrap_or(0)
    }
}

/// A quantile of latencies, in milliseconds.
fn quantile(mut nanos: Vec<u64>, percent: usize) -> f64 {
    nanos.sort_unstable();
    nanos[(nanos.len() * percent / 100).min(nanos.len() - 1)] as f64 / 1e6
}

/// Requests a second of each tenant between two times.
fn rates(served: &[Served], tenants: usize, from: f64, to: f64) -> Vec<f64> {
    let within = |at: u64| (at as f64) >= from * SECOND as f64 && (at as f64) < to * SECOND as f64;
    (0..tenants)
        .map(|tenant| served.iter().filter(|(at, its, _)| *its == tenant && within(*at)).count() as f64 / (to - from))
        .collect()
}

fn part(rates: &[f64], tenant: usize) -> f64 {
    100.0 * rates[tenant] / rates.iter().sum::<f64>()
}

#[track_caller]
fn between(name: &str, value: f64, least: f64, most: f64) {
    assert!(least <= value && value <= most, "{name}: {value} is not from {least} to {most}");
}

const fn weighted(weight: u32) -> Share {
    Share::weighted(weight)
}

/// The device's own coefficients, times a factor in percent, a clock of 1,000 ticks, and parameters.
fn model(percent: u64, more: &[(&'static str, u64)]) -> Vec<(&'static str, u64)> {
    let requests = 17_184 * percent / 100;
    let mut all = vec![("rbps", 500_000_000 * percent / 100), ("rseqiops", requests), ("rrandiops", requests)];
    all.push(("hz", 2));
    all.extend(more);
    all
}

/// The golden numbers of the cases with a latency fit periods of 2.4 ms without jiffies; 1,000 jiffies a second make them 4 ms, and the
/// rate swings twice as far. Slowed down this many times, a period is 48 ms, and the jiffy adds 2 %.
const SLOWDOWN: u64 = 20;

/// 95 % within 1.2 ms, slowed down, for both directions: the longer of the two latencies decides how long a period is.
const P95: &[(&str, u64)] =
    &[("rpct", 95), ("rlat", 1_200_000 * SLOWDOWN), ("wpct", 95), ("wlat", 1_200_000 * SLOWDOWN)];

/// Requests of a device and tenants slowed down, with the times that the reference would have.
fn slowed(tags: u32, percent: u64, shares: &[Share], loads: &[Load]) -> Vec<Served> {
    let mut parameters = model(percent, P95);
    parameters[..3].iter_mut().for_each(|(_, rate)| *rate /= SLOWDOWN);
    let mut world = World::new("io-cost", &parameters, tags, shares, loads);
    world.slowdown = SLOWDOWN;
    let served = world.run(8.0 * SLOWDOWN as f64);
    served.iter().map(|(at, tenant, took)| (at / SLOWDOWN, *tenant, took / SLOWDOWN)).collect()
}

fn slowed_pair(percent: u64) -> Vec<f64> {
    rates(&slowed(256, percent, &[weighted(100), weighted(300)], &[closed(32), closed(32)]), 2, 3.0, 8.0)
}

fn pair(tags: u32, parameters: &[(&str, u64)]) -> Vec<f64> {
    let world = World::new("io-cost", parameters, tags, &[weighted(100), weighted(300)], &[closed(32), closed(32)]);
    rates(&world.run(8.0), 2, 3.0, 8.0)
}

#[test]
fn io_cost_e1_holds_weights_under_pressure_only() {
    let capped = pair(256, &model(100, &[("max", 90)]));
    between("E1a", part(&capped, 0), 24.5, 25.5);
    between("E1a, of the device", capped.iter().sum::<f64>() / CAPACITY, 0.89, 0.91);
    between("E1b", part(&pair(256, &model(100, &[])), 0), 48.0, 52.0);
    let tags = pair(16, &model(100, &[]));
    between("E1c", part(&tags, 0), 24.0, 26.0);
    between("E1c, of the device", tags.iter().sum::<f64>() / CAPACITY, 0.9, 1.1);
    let latency = slowed_pair(100);
    between("E1d", part(&latency, 0), 23.0, 27.0);
    between("E1d, of the device", latency.iter().sum::<f64>() / CAPACITY, 0.85, 1.05);
}

#[test]
fn io_cost_e2_serves_who_asks_for_little() {
    for (rate, mean) in [(0.05, 0.51), (0.20, 0.55)] {
        let open = Load { rate: rate * CAPACITY, outstanding: 0, ..closed(0) };
        let loads = [open, closed(32), closed(32)];
        let served = World::new("io-cost", &model(100, &[("max", 90)]), 256, &[weighted(100); 3], &loads).run(8.0);
        let rates = rates(&served, 3, 3.0, 8.0);
        between("E2: all of its own", rates[0] / (rate * CAPACITY), 0.98, 1.02);
        between("E2: the others", part(&rates[1..], 0), 49.5, 50.5);
        between("E2, of the device", rates.iter().sum::<f64>() / CAPACITY, 0.88, 0.91);
        let own: Vec<f64> =
            served.iter().filter(|of| of.1 == 0 && of.0 > 3 * SECOND).map(|of| of.2 as f64 / 1e6).collect();
        between("E2: mean", own.iter().sum::<f64>() / own.len() as f64, mean - 0.05, mean + 0.05);
    }
}

#[test]
fn io_cost_e3_divides_the_device_s_time() {
    let loads = [closed(32), Load { bytes: 256 << 10, ..closed(8) }];
    let served = World::new("io-cost", &model(100, &[("max", 90)]), 256, &[weighted(100); 2], &loads).run(8.0);
    let rates = rates(&served, 2, 3.0, 8.0);
    let time = [rates[0] * (400.0 + 65.5), rates[1] * (400.0 + 4_194.0)];
    between("E3", part(&time, 0), 49.0, 51.0);
    between("E3: 4 KiB", rates[0], 7_733.0 * 0.98, 7_733.0 * 1.02);
    between("E3: 256 KiB", rates[1], 784.0 * 0.98, 784.0 * 1.02);
}

#[test]
fn io_cost_e4_corrects_a_wrong_model() {
    let pairs = [200, 100, 50].map(slowed_pair);
    let totals = pairs.each_ref().map(|rates| rates.iter().sum::<f64>() / CAPACITY);
    for (rates, total) in pairs.iter().zip(totals) {
        between("E4", part(rates, 0), 24.0, 26.0);
        between("E4, of the device", total, 0.90, 1.0);
        between("E4, against the right model", total / totals[1], 0.98, 1.02);
    }
}

#[test]
fn io_latency_e5_cuts_the_neighbour() {
    let protected = Share { latency: Nanos(2_000_000), ..weighted(1) };
    let world = |target| {
        let shares = if target { [protected, weighted(1)] } else { [weighted(1); 2] };
        let loads = [closed(4), closed(64)];
        World::new("io-latency", &[("nr-requests", 64)], 256, &shares, &loads).run(8.0)
    };
    let mean = |served: &[Served]| {
        let own: Vec<f64> =
            served.iter().filter(|of| of.1 == 0 && of.0 > 3 * SECOND).map(|of| of.2 as f64 / 1e6).collect();
        own.iter().sum::<f64>() / own.len() as f64
    };
    let (without, with) = (world(false), world(true));
    between("E5: mean without", mean(&without), 3.8, 4.1);
    between("E5: mean with", mean(&with), 1.3, 1.6);
    let neighbour = |served: &[Served]| rates(served, 2, 3.0, 8.0)[1];
    between("E5: neighbour", neighbour(&with) / neighbour(&without), 0.80, 0.95);
}

#[test]
fn io_latency_e5_steps_between_depths() {
    let protected = Share { latency: Nanos(2_000_000), ..weighted(1) };
    let shares = [protected, weighted(1)];
    let mut world = World::new("io-latency", &[("nr-requests", 64)], 256, &shares, &[closed(4), closed(64)]);
    world.play(8.0);
    let mut depths: Vec<i64> =
        (0..80).map(|tenth| f64::from(tenth) / 10.0).map(|at| world.depth(1, at, at + 0.1)).collect();
    depths.dedup();
    assert!(depths.ends_with(&[32, 16, 20, 24, 28, 14, 18, 22, 26, 30, 15, 19, 23, 27, 13, 17]), "{depths:?}");
    let late = world.served.iter().filter(|of| of.1 == 0 && of.0 > 3 * SECOND).map(|of| of.2);
    between("E5: p95", quantile(late.collect(), 95), 1.8, 2.2);
    let window = |half: u64| {
        let within = |at: u64| at * 2 / SECOND == half;
        quantile(world.served.iter().filter(|of| of.1 == 0 && within(of.0)).map(|of| of.2).collect(), 90)
    };
    let kept = (2..16).filter(|&half| window(half) <= 2.0).count();
    assert!(kept >= 8, "E5: the p90 is kept in {kept} of 14 windows");
}

#[test]
fn io_cost_e7_nests_weights() {
    let row = policy::find("io-cost").unwrap();
    let mut settings = row.defaults();
    let parameters = model(100, &[("max", 90), ("groups", 1)]);
    parameters.iter().for_each(|(name, value)| row.set(&mut settings, name, *value).unwrap());
    let loads = [closed(32), closed(32), Load { to: 5 * SECOND, ..closed(32) }];
    let mut world = World::new("io-cost", &parameters, 256, &[], &loads);
    let tenants = world.policy.tenants_mut().unwrap();
    tenants.configure_group(Nanos::ZERO, GroupId(0), weighted(100)).unwrap();
    for (stream, share) in [(0, weighted(100)), (1, weighted(100))] {
        tenants.configure(Nanos::ZERO, StreamId(stream), Share { group: Some(GroupId(0)), ..share }).unwrap();
    }
    tenants.configure(Nanos::ZERO, StreamId(2), weighted(300)).unwrap();
    let served = world.run(8.0);
    let (first, then) = (rates(&served, 3, 2.0, 5.0), rates(&served, 3, 6.0, 8.0));
    between("E7: A0", part(&first, 0), 12.0, 13.0);
    between("E7: A1", part(&first, 1), 12.0, 13.0);
    between("E7: B", part(&first, 2), 74.5, 75.5);
    between("E7: A0 alone with A1", part(&then, 0), 49.5, 50.5);
    between("E7: both", then[0] + then[1], 15_465.0 * 0.99, 15_465.0 * 1.01);
}

#[test]
fn io_cost_e8_credits_who_wakes_up() {
    let loads = [closed(32), Load { from: 3 * SECOND, ..closed(32) }];
    let served =
        World::new("io-cost", &model(100, &[("max", 90)]), 256, &[weighted(100), weighted(300)], &loads).run(5.0);
    between("E8: the first 20 ms", part(&rates(&served, 2, 3.0, 3.02), 1), 75.0, 90.0);
    between("E8: later", part(&rates(&served, 2, 3.5, 5.0), 1), 74.0, 76.0);
}

#[test]
fn io_cost_e9_protects_the_heavy() {
    for (busy, mean, p99) in [(0, 0.47, 0.8), (1, 0.76, 2.1), (4, 0.79, 3.6), (16, 0.88, 1.5)] {
        let mut shares = vec![weighted(500)];
        let mut loads = vec![closed(1)];
        shares.extend(std::iter::repeat_n(weighted(100), busy));
        loads.extend(std::iter::repeat_n(closed(32), busy));
        let served = slowed(1_024, 100, &shares, &loads);
        let own: Vec<f64> =
            served.iter().filter(|of| of.1 == 0 && of.0 > 3 * SECOND).map(|of| of.2 as f64 / 1e6).collect();
        between(&format!("E9: beside {busy}"), own.iter().sum::<f64>() / own.len() as f64, mean - 0.05, mean + 0.05);
        let latencies = served.iter().filter(|of| of.1 == 0 && of.0 > 3 * SECOND).map(|of| of.2).collect();
        between(&format!("E9: p99 beside {busy}"), quantile(latencies, 99), p99 * 0.75, p99 * 1.25);
        if busy > 0 {
            let rates = rates(&served, busy + 1, 3.0, 8.0);
            between(&format!("E9, of the device beside {busy}"), rates.iter().sum::<f64>() / CAPACITY, 0.93, 0.97);
        }
    }
}

/// Requests a second of bfq's cgroups: `x` and `y` of 100 each in one of 100, beside one of 300 that leaves after five seconds.
fn bfq_nested(parameters: &[(&str, u64)], closed: Load) -> [Vec<f64>; 2] {
    let loads = [closed, closed, Load { to: 5 * SECOND, ..closed }];
    let parameters = [parameters, &[("low-latency", 0), ("groups", 1)]].concat();
    let mut world = World::new("bfq-groups", &parameters, 64, &[], &loads);
    let tenants = world.policy.tenants_mut().unwrap();
    tenants.configure_group(Nanos::ZERO, GroupId(0), weighted(100)).unwrap();
    for (stream, share) in [(0, weighted(100)), (1, weighted(100))] {
        tenants.configure(Nanos::ZERO, StreamId(stream), Share { group: Some(GroupId(0)), ..share }).unwrap();
    }
    tenants.configure(Nanos::ZERO, StreamId(2), weighted(300)).unwrap();
    let served = world.run(8.0);
    [rates(&served, 3, 2.0, 5.0), rates(&served, 3, 6.0, 8.0)]
}

#[test]
fn bfq_divides_sectors_by_weights_of_groups() {
    for (weights, parts) in [([100, 300], 25.0), ([300, 100], 75.0), ([100, 100], 50.0), ([1_000, 100], 1_000.0 / 11.0)]
    {
        let shares = weights.map(weighted);
        let parameters = [("low-latency", 0)];
        let served = World::new("bfq-groups", &parameters, 64, &shares, &[closed(32), closed(32)]).run(8.0);
        between("of two", part(&rates(&served, 2, 2.0, 8.0), 0), parts - 1.5, parts + 1.5);
        // Sectors are divided, not requests.
        let large = Load { bytes: 64 << 10, ..closed(32) };
        let served = World::new("bfq-groups", &parameters, 64, &shares, &[closed(32), large]).run(8.0);
        let rates = rates(&served, 2, 2.0, 8.0);
        between("of sectors", part(&[rates[0], 16.0 * rates[1]], 0), parts - 3.0, parts + 3.0);
    }
}

#[test]
fn bfq_nests_weights() {
    let [all, without] = bfq_nested(&[], closed(32));
    for (tenant, expected) in [(0, 12.5), (1, 12.5), (2, 75.0)] {
        between("nested", part(&all, tenant), expected - 1.5, expected + 1.5);
    }
    between("the rest takes all", part(&without, 0), 46.0, 54.0);
    between("and the whole device", without.iter().sum::<f64>() / CAPACITY, 0.85, 1.01);
}

#[test]
fn bfq_weights_change_while_queues_are_busy() {
    let mut world = World::new("bfq-groups", &[("low-latency", 0)], 64, &[weighted(100); 2], &[closed(32); 2]);
    for (at, weight) in [(3, 400), (6, 25)] {
        world.at(at * SECOND, Event::Weighs(weight));
    }
    let served = world.run(9.0);
    // A turn lasts for an eighth of a second, and sixteen fit between two changes.
    for (from, expected) in [(1.0, 50.0), (4.0, 80.0), (7.0, 20.0)] {
        between("after a change", part(&rates(&served, 2, from, from + 2.0), 0), expected - 4.0, expected + 4.0);
    }
}

#[test]
fn bfq_refuses_what_it_does_not_keep() {
    let mut world = World::new("bfq-groups", &[], 64, &[weighted(100)], &[closed(1)]);
    let tenants = world.policy.tenants_mut().unwrap();
    let limited = Share { reads_per_second: 5, ..weighted(100) };
    assert!(tenants.configure(Nanos::ZERO, StreamId(0), limited).is_err());
    let grouped = Share { group: Some(GroupId(0)), ..weighted(100) };
    assert!(tenants.configure(Nanos::ZERO, StreamId(0), grouped).is_err(), "there are no groups");
    assert_eq!(tenants.share(StreamId(0)), weighted(100));
    tenants.remove(Nanos::ZERO, StreamId(0)).unwrap();
    assert!(tenants.remove(Nanos::ZERO, StreamId(0)).is_err(), "it has no share any more");
}
