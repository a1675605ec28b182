//! Several clients at once against a model: every block behaves as if its reads and writes happened one after the other,
//! whatever the scheduler, the splitting and the backend do; and what was said to be durable is there after the power failed.

mod bench;
mod client;

use std::collections::{BTreeMap, BTreeSet};

use bench::{Bench, Peer, device};
use client::*;
use ioweir_core::Nanos;
use ioweir_core::cores::SCHEDULES;
use ioweir_serve::backend::{Action, Backend, Done, Faulty, Io, Memory, Platter};
use ioweir_serve::buffer::Pool;
use ioweir_serve::spec::{Faults, Span};
use proptest::prelude::*;

/// What the tests take for a block: it changes at one moment.
const BLOCK: u64 = 512;
const BLOCKS: u64 = 96;

#[derive(Clone, Debug)]
enum Move {
    Ask {
        client: usize,
        command: u16,
        flags: u16,
        block: u64,
        blocks: u64,
    },
    /// A turn of the engine, and time that passes before it.
    Turn(u64),
    Hear(usize),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let command =
        prop_oneof![4 => Just(READ), 5 => Just(WRITE), 1 => Just(TRIM), 1 => Just(WRITE_ZEROES), 1 => Just(FLUSH)];
    let ask =
        (0_usize..3, command, any::<bool>(), 0..BLOCKS, 1_u64..20).prop_map(|(client, command, fua, block, blocks)| {
            let flags = if fua && command != READ && command != FLUSH { FUA } else { 0 };
            Move::Ask { client, command, flags, block, blocks: blocks.min(BLOCKS - block) }
        });
    let other = prop_oneof![
        3 => (0_u64..3_000_000).prop_map(Move::Turn),
        1 => (0_usize..3).prop_map(Move::Hear),
    ];
    prop::collection::vec(prop_oneof![3 => ask, 2 => other], 1..60)
}

/// Something asked, and when it was and was answered, counted in steps.
#[derive(Clone, Debug)]
struct Asked {
    command: u16,
    flags: u16,
    block: u64,
    blocks: u64,
    from: u64,
    /// None: never answered, so that it happened at any time later, or never.
    until: Option<u64>,
    failed: bool,
    /// What was read, block by block.
    read: Vec<u32>,
}

struct Run {
    bench: Bench,
    peers: Vec<Peer>,
    asked: BTreeMap<u64, Asked>,
    step: u64,
}

impl Run {
    fn new(mut bench: Bench) -> Self {
        let peers = vec![bench.connect(0, true), bench.connect(1, true), bench.connect(0, false)];
        Self { bench, peers, asked: BTreeMap::new(), step: 0 }
    }

    /// A write's value is its cookie, so that no two are the same; zero is what was there before.
    fn ask(&mut self, client: usize, command: u16, flags: u16, block: u64, blocks: u64) {
        self.step += 1;
        let cookie = self.step;
        let (offset, length) = if command == FLUSH { (0, 0) } else { (block * BLOCK, blocks * BLOCK) };
        let mut message = request(command, flags, cookie, offset, length as u32);
        if command == WRITE {
            message.extend((cookie as u32).to_be_bytes().repeat(length as usize / 4));
        }
        let peer = &mut self.peers[client];
        if command == READ {
            peer.expect(cookie, length as usize);
        }
        peer.send(&message);
        let asked =
            Asked { command, flags, block, blocks, from: self.step, until: None, failed: false, read: Vec::new() };
        self.asked.insert(cookie, asked);
    }

    fn hear(&mut self, client: usize) {
        self.step += 1;
        for answer in self.peers[client].answers() {
            let asked = self.asked.get_mut(&answer.cookie).expect("nothing is answered that was not asked");
            assert_eq!(asked.until, None, "nothing is answered twice");
            asked.until = Some(self.step);
            asked.failed = answer.error != 0;
            if asked.command == READ && !asked.failed {
                let bytes = answer.bytes();
                assert_eq!(bytes.len() as u64, asked.blocks * BLOCK);
                asked.read = bytes.chunks(BLOCK as usize).map(value_of).collect();
            }
        }
    }

    fn play(&mut self, moves: &[Move]) {
        for step in moves {
            match *step {
                Move::Ask { client, command, flags, block, blocks } => self.ask(client, command, flags, block, blocks),
                Move::Turn(nanos) => {
                    self.bench.now = self.bench.now.after(Nanos(nanos));
                    self.bench.turn();
                }
                Move::Hear(client) => self.hear(client),
            }
        }
    }

    fn settle(&mut self) {
        self.bench.turn();
        self.bench.settle();
        (0..3).for_each(|client| self.hear(client));
    }
}

/// A block holds one value all over, or it was torn.
fn value_of(block: &[u8]) -> u32 {
    assert!(block.chunks(4).all(|word| word == &block[..4]), "a block was torn");
    u32::from_be_bytes(block[..4].try_into().expect("four bytes"))
}

impl Asked {
    fn covers(&self, block: u64) -> bool {
        self.command != FLUSH && (self.block..self.block + self.blocks).contains(&block)
    }

    fn changes(&self) -> bool {
        matches!(self.command, WRITE | TRIM | WRITE_ZEROES)
    }
}

/// What happened to one block: a write of a value, or a read that saw it.
#[derive(Clone, Copy, Debug)]
struct Event {
    from: u64,
    until: Option<u64>,
    value: u32,
    writes: bool,
}

/// Whether there is an order of the events that keeps to their times and explains every read. Events that were never
/// answered may be left out.
fn is_linearisable(events: &[Event]) -> bool {
    fn explains(events: &[Event], done: u64, value: u32, seen: &mut BTreeSet<(u64, u32)>) -> bool {
        let is_left = |place: &usize| done >> place & 1 == 0;
        let left: Vec<usize> = (0..events.len()).filter(is_left).collect();
        if left.iter().all(|&place| events[place].until.is_none()) {
            return true;
        }
        if !seen.insert((done, value)) {
            return false;
        }
        // Next is something that began before anything that is left was answered.
        let first_end = left.iter().filter_map(|&place| events[place].until).min().unwrap_or(u64::MAX);
        left.iter().any(|&place| {
            let event = events[place];
            let fits = event.from < first_end && (event.writes || event.value == value);
            fits && explains(events, done | 1 << place, if event.writes { event.value } else { value }, seen)
        })
    }
    explains(events, 0, 0, &mut BTreeSet::new())
}

fn events_of(asked: &BTreeMap<u64, Asked>, block: u64) -> Vec<Event> {
    let of_block = asked.iter().filter(|(_, asked)| asked.covers(block) && !(asked.failed && asked.command == READ));
    of_block
        .filter_map(|(&cookie, asked)| {
            let value = match asked.command {
                READ => *asked.read.get((block - asked.block) as usize)?,
                WRITE => cookie as u32,
                _ => 0,
            };
            // What failed may have happened in part, at any time.
            let until = if asked.failed { None } else { asked.until };
            Some(Event { from: asked.from, until, value, writes: asked.changes() })
        })
        .take(60)
        .collect()
}

fn check(run: &Run) {
    for block in 0..BLOCKS {
        let events = events_of(&run.asked, block);
        assert!(is_linearisable(&events), "block {block} cannot be explained: {events:?}");
    }
}

#[test]
fn the_model_tells_what_can_be_explained_from_what_cannot() {
    let event = |from, until, value, writes| Event { from, until: Some(until), value, writes };
    assert!(is_linearisable(&[event(1, 4, 7, true), event(2, 3, 0, false), event(5, 6, 7, false)]));
    assert!(!is_linearisable(&[event(1, 2, 7, true), event(3, 4, 0, false)]));
    // Two reads, one after the other, that see a write come and go again.
    assert!(!is_linearisable(&[event(1, 9, 7, true), event(2, 3, 7, false), event(4, 5, 0, false)]));
    assert!(is_linearisable(&[Event { from: 1, until: None, value: 7, writes: true }, event(2, 3, 0, false)]));
}

const POLICIES: [&str; 5] = ["noop", "deadline", "cfq", "bid-hdd", "bfq"];

fn run_on(backend: &str, policy: &str, merge: bool, moves: &[Move]) {
    let keys = format!(
        "{backend}\nscheduler = \"{policy}\"\nmerge = {merge}\nqueue_requests = 16\nrequest_bytes_max = \"4KiB\""
    );
    let mut run = Run::new(Bench::new(&keys));
    run.play(moves);
    run.settle();
    // In the end everything can be read.
    run.ask(0, READ, 0, 0, BLOCKS);
    run.settle();
    assert!(run.asked.values().all(|asked| asked.until.is_some()), "everything is answered");
    assert_eq!(run.bench.engine.buffered_bytes(), 0);
    check(&run);
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 2_000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn memory_is_linearisable(moves in moves(), policy in 0..POLICIES.len(), merge in any::<bool>()) {
        run_on("backend = \"memory\"\nsize = \"48KiB\"\ndepth = 3", POLICIES[policy], merge, &moves);
    }

    #[test]
    fn an_emulated_disk_is_linearisable(moves in moves(), policy in 0..POLICIES.len(), depth in 1..5) {
        let backend = format!("backend = \"emulated\"\nmodel = \"tiny\"\nsize = \"48KiB\"\ndepth = {depth}");
        run_on(&backend, POLICIES[policy], true, &moves);
    }

    #[test]
    fn a_device_that_stalls_and_fails_is_linearisable(moves in moves(), policy in 0..POLICIES.len(), seed in any::<u64>()) {
        let faults = format!("[device.faults]\nseed = {}\nerrors_per_million = 30000\nstalls_per_million = 300000\nstall = \"1ms\"", seed >> 1);
        let keys = format!("backend = \"faulty\"\nsize = \"48KiB\"\nscheduler = \"{}\"\nqueue_requests = 16\n{faults}", POLICIES[policy]);
        let mut run = Run::new(Bench::new(&keys));
        run.play(&moves);
        run.settle();
        check(&run);
    }
}

proptest! {
    #![proptest_config(config(25))]

    #[test]
    fn files_are_linearisable(moves in moves(), policy in 0..POLICIES.len(), threads in any::<bool>(), direct in any::<bool>()) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let io = if threads { "threads" } else { "auto" };
        let backend = format!("backend = \"file\"\npath = {path:?}\nsize = \"48KiB\"\nio = \"{io}\"\ndirect = {direct}\ndepth = 4");
        run_on(&backend, POLICIES[policy], true, &moves);
    }
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn a_device_with_checksums_is_linearisable_and_raises_no_alarm(
        moves in moves(), policy in 0..POLICIES.len(), schedule in 0..SCHEDULES.len(), emulated in any::<bool>(),
    ) {
        let (policy, schedule) = (POLICIES[policy], SCHEDULES[schedule].name);
        let backend = if emulated { "backend = \"emulated\"\nmodel = \"tiny\"" } else { "backend = \"memory\"" };
        let keys = format!("{backend}\nsize = \"48KiB\"\ndepth = 4\nscheduler = \"{policy}\"\nqueue_requests = 16\n\
            checksums = true\ncores = {{ schedule = \"{schedule}\", workers = 1 }}");
        let mut run = Run::new(Bench::new(&keys));
        run.play(&moves);
        run.settle();
        run.ask(0, READ, 0, 0, BLOCKS);
        run.settle();
        assert!(run.asked.values().all(|asked| asked.until.is_some() && !asked.failed), "everything is answered");
        check(&run);
    }

    #[test]
    fn a_device_with_checksums_that_stalls_and_fails_is_linearisable(
        moves in moves(), schedule in 0..SCHEDULES.len(), seed in any::<u64>(),
    ) {
        let keys = format!("backend = \"faulty\"\nsize = \"48KiB\"\nqueue_requests = 16\nchecksums = true\n\
            cores = {{ schedule = \"{}\", workers = 1 }}\n[device.faults]\nseed = {}\n\
            errors_per_million = 30000\nstalls_per_million = 300000\nstall = \"1ms\"", SCHEDULES[schedule].name, seed >> 1);
        let mut run = Run::new(Bench::new(&keys));
        run.play(&moves);
        run.settle();
        check(&run);
        prop_assert_eq!(run.bench.engine.checksums().map(|counts| counts.blocks_damaged), Some(0));
    }
}

/// Memory that answers in any order, and looks whether what it holds overlaps.
struct Watchful {
    memory: Memory,
    held: Vec<(u64, u64, bool, Io)>,
    random: u64,
}

impl Backend for Watchful {
    fn start(&mut self, _now: Nanos, io: Io) {
        let changes = matches!(io.action, Action::Write | Action::Trim | Action::Zero { .. });
        let (from, until) = (io.offset, io.offset + io.length);
        for (other_from, other_until, other_changes, _) in &self.held {
            let overlaps = from < *other_until && *other_from < until;
            assert!(!(overlaps && (changes || *other_changes)), "two that overlap are with the backend at once");
        }
        self.held.push((from, until, changes, io));
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> std::io::Result<()> {
        self.random = self.random.rotate_left(11).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        if !self.held.is_empty() && !self.random.is_multiple_of(3) {
            let (.., io) = self.held.swap_remove((self.random >> 7) as usize % self.held.len());
            self.memory.start(now, io);
        }
        self.memory.collect(now, done)
    }

    fn due(&self) -> Nanos {
        if self.held.is_empty() { Nanos::NEVER } else { Nanos::ZERO }
    }

    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn describe(&self) -> String {
        self.memory.describe()
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn what_overlaps_never_meets(moves in moves(), policy in 0..POLICIES.len(), random in any::<u64>(), depth in 1_u32..9) {
        let keys = format!("backend = \"memory\"\nsize = \"48KiB\"\nscheduler = \"{}\"\nqueue_requests = 64\ndepth = {depth}", POLICIES[policy]);
        let backend = Box::new(Watchful { memory: Memory::new(BLOCKS * BLOCK), held: Vec::new(), random });
        let mut run = Run::new(Bench::over(device(&keys), backend, Pool::new(256 << 10)));
        run.play(&moves);
        run.settle();
        check(&run);
    }
}

/// What may be in a block after the power failed: nothing older than the last write that was made durable.
fn check_durable(asked: &BTreeMap<u64, Asked>, block: u64, found: u32) {
    let writes = asked.iter().filter(|(_, asked)| asked.covers(block) && asked.changes());
    let writes: Vec<_> =
        writes.map(|(&cookie, asked)| (if asked.command == WRITE { cookie as u32 } else { 0 }, asked)).collect();
    let answered = |asked: &Asked| asked.until.filter(|_| !asked.failed);
    let is_durable = |write: &Asked| {
        let Some(end) = answered(write) else { return false };
        let flushed =
            asked.values().any(|flush| flush.command == FLUSH && flush.from > end && answered(flush).is_some());
        write.flags & FUA != 0 || flushed
    };
    let durable: Vec<_> = writes.iter().filter(|(_, asked)| is_durable(asked)).collect();
    let is_newer = |write: &Asked, than: &Asked| {
        than.until.is_none_or(|end| write.from < end) && write.until.is_none_or(|end| end > than.from)
    };
    let allowed = |value: u32, write: Option<&Asked>| {
        durable.iter().all(|(_, durable)| match write {
            None => false,
            // Itself, or at the same time, or later.
            Some(write) => {
                std::ptr::eq(*durable, write) || is_newer(write, durable) || write.from > durable.until.unwrap_or(0)
            }
        }) && found == value
    };
    let fits = allowed(0, None) || writes.iter().any(|(value, write)| allowed(*value, Some(write)));
    assert!(fits, "block {block} holds {found}, which is older than what was made durable: {writes:?}");
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn what_was_said_to_be_durable_survives_the_loss_of_power(
        moves in moves(), policy in 0..POLICIES.len(), seed in any::<u64>(), at in 1_u64..80, depth in 1_u32..6,
    ) {
        let platter = Platter::new(BLOCKS * BLOCK);
        let faults = Faults { seed, stalls_per_million: 200_000, stall: Span(Nanos::from_millis(1)), power_cut_at: at, ..Faults::default() };
        let keys = format!("backend = \"faulty\"\nsize = \"48KiB\"\nscheduler = \"{}\"\nqueue_requests = 16\ndepth = {depth}", POLICIES[policy]);
        let backend = Box::new(Faulty::new(platter.clone(), faults));
        let mut run = Run::new(Bench::over(device(&keys), backend, Pool::new(256 << 10)));
        run.play(&moves);
        run.settle();
        if platter.has_power() {
            // It came to its end before the power failed: now it does.
            let mut random = seed;
            platter.cut(|| { random = random.rotate_left(9).wrapping_mul(5); random >> 63 == 1 });
        }
        for (block, bytes) in (0..).zip(platter.contents().chunks(BLOCK as usize)) {
            check_durable(&run.asked, block, value_of(bytes));
        }
    }
}
