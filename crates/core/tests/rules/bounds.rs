//! One adversary against the bound on waiting that each policy's row states, and against those of all pairs.

use ioweir_core::external::{ElevatorFactory, ExternalElevator, Maker, Next};
use ioweir_core::policy::{self, Backlog, Below, Bound, PAIR, POLICIES, Policy, PolicyRow, Settings, Wait};
use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Request, Scheduler};

use crate::driver::Disk;
use crate::tenants::world::Random;

const DEVICE_SECTORS: u64 = 4_096;
const REQUEST_SECTORS: u64 = 8;
const STREAMS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const VICTIM: &str = "v";
const LIMITS: QueueLimits = QueueLimits { merge: false, ..QueueLimits::with_requests(16) };

/// How the adversary chooses its requests.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// Right ahead of the head, in both directions.
    Ahead,
    /// Anywhere.
    Anywhere,
    /// One block again and again.
    OneBlock,
    /// Each stream reads on in order, and a last one writes anywhere.
    Sequential,
    /// Two streams read close to one another, each after a thought, so that the disk idles for both.
    Close,
    /// Streams that come for a few requests and go.
    Newcomers,
}

const ATTACKS: [Attack; 6] =
    [Attack::Ahead, Attack::Anywhere, Attack::OneBlock, Attack::Sequential, Attack::Close, Attack::Newcomers];

struct Adversary {
    attack: Attack,
    random: Random,
    turn: u64,
    ends: [u64; STREAMS.len()],
}

impl Adversary {
    fn new(attack: Attack, seed: u64) -> Self {
        Self { attack, random: Random(seed), turn: 0, ends: [0; STREAMS.len()] }
    }

    fn anywhere(&mut self) -> u64 {
        self.random.below(DEVICE_SECTORS / 2)
    }

    /// Sends requests while the queue has room.
    fn act(&mut self, disk: &mut Disk) {
        self.turn += 1;
        let head = if disk.sector < DEVICE_SECTORS / 2 { disk.sector } else { 0 };
        if let Attack::Close = self.attack {
            disk.pass(Nanos::from_millis(1));
            let stream = (self.turn % 2) as usize;
            disk.read(STREAMS[stream], (head + REQUEST_SECTORS) % (DEVICE_SECTORS / 2));
            return;
        }
        let (mut reads, mut writes) = (true, true);
        for count in 0_u64.. {
            if !reads && !writes {
                return;
            }
            let stream = match self.attack {
                Attack::Newcomers => (self.turn / 7 + count % 2) as usize % STREAMS.len(),
                _ => self.random.below(STREAMS.len() as u64) as usize,
            };
            let sector = match self.attack {
                Attack::Ahead => (head + 1 + self.random.below(16)) % (DEVICE_SECTORS / 2),
                Attack::OneBlock => 64,
                Attack::Sequential => {
                    self.ends[stream] = (self.ends[stream] + REQUEST_SECTORS) % (DEVICE_SECTORS / 2);
                    self.ends[stream]
                }
                _ => self.anywhere(),
            };
            reads = reads && disk.read(STREAMS[stream], sector);
            let sector = self.anywhere();
            writes = writes && disk.write(STREAMS[stream], sector);
        }
    }
}

/// The backlog that the victim's request met, and how long the request waited.
struct Waited {
    backlog: Backlog,
    dispatches: u64,
    time: Nanos,
}

/// Lets the adversary act against a request until that is served, or has waited for longer than the bound.
fn attack(build: &dyn Fn() -> Policy, kind: Attack, seed: u64, is_over: &dyn Fn(&Waited) -> bool) -> Waited {
    let mut disk = Disk::of(build(), LIMITS);
    let mut adversary = Adversary::new(kind, seed);
    for _ in 0..20 + 30 * (seed % 5) {
        adversary.act(&mut disk);
        disk.serve();
    }
    let operation = [Operation::Read, Operation::Write][(seed % 2) as usize];
    let sector = [DEVICE_SECTORS - REQUEST_SECTORS, 0][(seed / 2 % 2) as usize];
    while !disk.submit(VICTIM, operation, Flags::NONE, sector, REQUEST_SECTORS as u32) {
        disk.serve();
    }
    let backlog = Backlog {
        older: u64::from(disk.scheduler.queued()) - 1,
        room: u64::from(2 * LIMITS.requests_per_direction),
        streams: STREAMS.len() as u64,
        sectors: DEVICE_SECTORS,
        request_sectors: REQUEST_SECTORS,
        service: disk.service,
    };
    let (start, mut waited) = (disk.now, Waited { backlog, dispatches: 0, time: Nanos::ZERO });
    while !is_over(&waited) {
        adversary.act(&mut disk);
        waited.time = disk.now.since(start);
        if disk.serve() == VICTIM {
            break;
        }
        waited.dispatches += 1;
    }
    waited
}

fn is_beyond(wait: Wait, settings: &Settings, waited: &Waited) -> bool {
    match wait {
        Wait::Dispatches(most) => waited.dispatches > most(&waited.backlog, settings),
        Wait::Within(longest) => waited.time > longest(&waited.backlog, settings),
        Wait::Unbounded => waited.dispatches > 20_000,
    }
}

/// The attacks that make a request wait beyond the bound.
fn attacks(build: &dyn Fn() -> Policy, wait: Wait, settings: &Settings) -> Vec<String> {
    let cases = ATTACKS.into_iter().flat_map(|kind| (0..20).map(move |seed| (kind, seed)));
    let succeed = cases.filter_map(|(kind, seed)| {
        let is_beyond = |waited: &Waited| is_beyond(wait, settings, waited);
        let waited = attack(build, kind, seed, &is_beyond);
        is_beyond(&waited).then(|| format!("{kind:?}, seed {seed}: {} dispatches, {}", waited.dispatches, waited.time))
    });
    succeed.collect()
}

fn attacks_on(row: &PolicyRow) -> Vec<String> {
    let settings = row.defaults();
    attacks(&|| row.build(LIMITS, &settings), row.bound.wait, &settings)
}

#[test]
fn no_request_waits_beyond_its_row_s_bound() {
    for row in POLICIES.iter().filter(|row| !matches!(row.bound.wait, Wait::Unbounded)) {
        let broken = attacks_on(row);
        assert!(broken.is_empty(), "{}: {} attacks of 120 succeed: {}", row.name, broken.len(), broken[0]);
    }
}

/// Shortest seek first, which starves requests far from the head.
#[derive(Clone, Debug, Default)]
struct Nearest {
    queued: Vec<(u64, u32)>,
    head: u64,
}

impl ExternalElevator for Nearest {
    fn submit(&mut self, _now: Nanos, slot: u32, request: &Request) {
        self.queued.push((request.sector, slot));
    }

    fn remove(&mut self, slot: u32) {
        self.queued.retain(|&(_, queued)| queued != slot);
    }

    fn poll(&mut self, _now: Nanos) -> Next {
        let nearest = self.queued.iter().enumerate().min_by_key(|(_, (sector, _))| sector.abs_diff(self.head));
        let at = nearest.expect("one is queued").0;
        let (sector, slot) = self.queued.swap_remove(at);
        self.head = sector;
        Next::Take(slot)
    }

    fn boxed(&self) -> Box<dyn ExternalElevator> {
        Box::new(self.clone())
    }
}

#[derive(Debug)]
struct Factory;

impl ElevatorFactory for Factory {
    fn make(&self, _limits: &QueueLimits, _settings: &Settings) -> Box<dyn ExternalElevator> {
        Box::new(Nearest::default())
    }
}

#[test]
fn an_elevator_that_starves_breaks_any_bound() {
    let mut row = PolicyRow::external("nearest", "", Maker::Elevator(&Factory));
    for claimed in ["noop", "clook", "mq-deadline", "bid-hdd"] {
        // The bounds of the table are in terms of its parameters, which this row has not.
        let honest = policy::find(claimed).unwrap();
        row.bound = Bound { doc: "", wait: honest.bound.wait };
        let settings = honest.defaults();
        let broken = attacks(&|| row.build(LIMITS, &row.defaults()), row.bound.wait, &settings);
        assert!(!broken.is_empty(), "the adversary does not find that the bound of {claimed} is broken");
    }
}

#[test]
fn a_row_without_a_bound_can_starve() {
    let without = POLICIES.iter().filter(|row| matches!(row.bound.wait, Wait::Unbounded));
    let without: Vec<_> = without.map(|row| (row.name, attacks_on(row).len())).collect();
    // A driver that knows the times of its device is what lets sptf starve; here it is first come, first served.
    let [("cfq", starved), ("sptf", 0)] = without[..] else { panic!("{without:?}") };
    assert!(starved > 0, "the adversary does not find how cfq starves");
}

#[test]
fn window_adds_three_of_its_lengths() {
    // One window for the requests that the elevator held when the request came, and two for those that pass it once it is released.
    // Reward charges at completion, so that requests of each client within the window are released before they are charged.
    let orders = POLICIES.iter().filter(|row| row.knows_shares);
    for order in orders {
        let Wait::Dispatches(most) = order.bound.wait else { continue };
        for elevator in POLICIES.iter().filter(|row| order.goes_above(row).is_ok()) {
            for window in [1, 4] {
                let mut pair = PAIR.defaults();
                PAIR.set(&mut pair, "window", window).unwrap();
                let below = Below { row: elevator, settings: elevator.defaults(), pair };
                let settings = order.defaults();
                let build = || order.build_above(LIMITS, &settings, &below);
                for kind in ATTACKS {
                    for seed in 0..4 {
                        let lengths = if order.name == "reward" { 3 + STREAMS.len() as u64 } else { 3 };
                        let bound = |waited: &Waited| most(&waited.backlog, &settings) + lengths * (window - 1);
                        let waited = attack(&build, kind, seed, &|waited| waited.dispatches > bound(waited));
                        let (name, elevator) = (order.name, elevator.name);
                        let (found, bound) = (waited.dispatches, bound(&waited));
                        assert!(found <= bound, "{name}+{elevator}:window={window}, {kind:?}: {found} of {bound}");
                    }
                }
            }
        }
    }
}
