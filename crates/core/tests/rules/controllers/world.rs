//! A device of eight servers, first come, first served, and tenants in closed and open loops before a policy.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ioweir_core::policy::{self, Policy};
use ioweir_core::tenant::{Rule, Share};
use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Request, Scheduler, Step, StreamId, Tag};

pub(super) const SECOND: u64 = 1_000_000_000;
const SERVERS: usize = 8;
/// The virtual time of `io-cost` in a second at a rate of one.
const CLOCK_SECOND: f64 = (1_u64 << 37) as f64;

/// A tenant in a closed loop, or open at a rate.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) bytes: u64,
    pub(super) outstanding: u32,
    /// Arrivals a second of an open load, and the requests that come at each.
    pub(super) rate: f64,
    pub(super) burst: u32,
    pub(super) from: u64,
    pub(super) to: u64,
}

pub(super) const fn closed(outstanding: u32) -> Load {
    Load { bytes: 4096, outstanding, rate: 0.0, burst: 1, from: 0, to: u64::MAX }
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
pub(super) enum Event {
    Done(u64),
    Arrives(usize),
    /// The first tenant has this weight from now on.
    Weighs(u32),
    Polls,
}

/// A request's end: when, whose, and how long it took.
pub(super) type Served = (u64, usize, u64);

pub(super) struct World {
    pub(super) policy: Policy,
    loads: Vec<Load>,
    /// How many times slower than the reference the device is.
    pub(super) slowdown: u64,
    /// The time of every request; that of the reference if there is none.
    pub(super) constant: Option<Nanos>,
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
    pub(super) served: Vec<Served>,
    /// Times, and the virtual time of `io-cost` then, as requests of the first tenant that wait there know it.
    clocks: Vec<(u64, u64)>,
}

impl World {
    pub(super) fn new(name: &str, parameters: &[(&str, u64)], tags: u32, shares: &[Share], loads: &[Load]) -> Self {
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
            constant: None,
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
            clocks: Vec::new(),
        }
    }

    pub(super) fn at(&mut self, time: u64, event: Event) {
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
        let explained = self.policy.tenants_mut().and_then(|tenants| tenants.explain(Nanos(now), tag));
        if let Some(its) = explained.filter(|its| tenant == 0 && its.rule == Rule::VirtualTime) {
            self.clocks.push((now / self.slowdown, its.clock));
        }
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
            let usual = |jitter: f64| (400_000.0 + 16.0 * bytes as f64) * self.slowdown as f64 * jitter;
            let took = self.constant.map_or_else(|| usual(self.random.jitter()), |constant| constant.0 as f64);
            self.number += 1;
            self.inside.insert(self.number, tag);
            let event = Event::Done(self.number);
            self.at(now + took as u64, event);
        }
    }

    pub(super) fn run(mut self, seconds: f64) -> Vec<Served> {
        self.play(seconds);
        self.served
    }

    pub(super) fn play(&mut self, seconds: f64) {
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
                    (0..self.loads[tenant].burst).for_each(|_| self.submit(now, tenant));
                    if self.loads[tenant].rate > 0.0 {
                        // Bursts come at equal distances, single requests at random.
                        let gaps = if self.loads[tenant].burst > 1 { 1.0 } else { -self.random.unit().ln() };
                        let gap = gaps / self.loads[tenant].rate;
                        self.at(now + (gap * SECOND as f64) as u64, Event::Arrives(tenant));
                    }
                }
                Event::Weighs(weight) => {
                    let tenants = self.policy.tenants_mut().unwrap();
                    tenants.configure(Nanos(now), StreamId(0), Share::weighted(weight)).unwrap();
                    assert_eq!(tenants.share(StreamId(0)).weight, weight);
                }
                Event::Polls => {}
            }
            self.poll(now);
        }
    }

    /// The rate of the virtual time of `io-cost` between two times, which are those of the reference.
    pub(super) fn clock_rate(&self, from: f64, to: f64) -> f64 {
        let within = |at: u64| (from..to).contains(&(at as f64 / SECOND as f64));
        let mut known = self.clocks.iter().filter(|(at, _)| within(*at));
        let (first, last) = (known.next().unwrap(), known.next_back().unwrap());
        let span = (last.0 - first.0) as f64 / SECOND as f64 * self.slowdown as f64;
        last.1.wrapping_sub(first.1) as f64 / CLOCK_SECOND / span
    }

    /// The number of the first tenant's requests that waited for its virtual time between two times.
    pub(super) fn waits(&self, from: f64, to: f64) -> usize {
        self.clocks.iter().filter(|(at, _)| (from..to).contains(&(*at as f64 / SECOND as f64))).count()
    }

    /// The most requests of a tenant that the policy had at the device at once, between two times.
    pub(super) fn depth(&self, tenant: usize, from: f64, to: f64) -> i64 {
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
