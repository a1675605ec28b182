//! Several clients at once against a model: every block behaves as if its reads and writes happened one after the other.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};

use ioweir_core::Nanos;
use proptest::prelude::*;

use crate::bench::{Bench, Peer};
use crate::client::*;

/// The size of a block, whose bytes change all at one moment.
pub(crate) const BLOCK: u64 = 512;
pub(crate) const BLOCKS: u64 = 96;

#[derive(Clone, Debug)]
pub(crate) enum Move {
    Ask {
        client: usize,
        command: u16,
        flags: u16,
        block: u64,
        blocks: u64,
    },
    /// The engine runs a turn after this time.
    Turn(u64),
    Hear(usize),
}

pub(crate) fn moves() -> impl Strategy<Value = Vec<Move>> {
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

/// A request, with the steps at which it was sent and answered.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    command: u16,
    flags: u16,
    block: u64,
    blocks: u64,
    from: u64,
    /// The step of the answer; `None` if there was none, so that it happened at any time later, or never.
    pub(crate) until: Option<u64>,
    pub(crate) failed: bool,
    /// The values that were read, block by block.
    read: Vec<u32>,
}

pub(crate) struct Run {
    pub(crate) bench: Bench,
    peers: Vec<Peer>,
    pub(crate) asked: BTreeMap<u64, Asked>,
    step: u64,
}

impl Run {
    pub(crate) fn new(mut bench: Bench) -> Self {
        let peers = vec![bench.connect(0, true), bench.connect(1, true), bench.connect(0, false)];
        Self { bench, peers, asked: BTreeMap::new(), step: 0 }
    }

    /// Sends a request. A write's value is its cookie, so that all writes differ; zero is the value before all writes.
    pub(crate) fn ask(&mut self, client: usize, command: u16, flags: u16, block: u64, blocks: u64) {
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

    pub(crate) fn hear(&mut self, client: usize) {
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

    pub(crate) fn play(&mut self, moves: &[Move]) {
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

    pub(crate) fn settle(&mut self) {
        self.bench.turn();
        self.bench.settle();
        (0..3).for_each(|client| self.hear(client));
    }
}

/// The value that a new client reads in every block.
pub(crate) fn read_all(bench: &mut Bench) -> Vec<u32> {
    let mut peer = bench.connect(0, true);
    peer.expect(1, (BLOCKS * BLOCK) as usize);
    peer.send(&request(READ, 0, 1, 0, (BLOCKS * BLOCK) as u32));
    bench.settle();
    let answers = peer.answers();
    assert_eq!(answers[0].error, 0);
    answers[0].bytes().chunks(BLOCK as usize).map(value_of).collect()
}

/// The value of a block, all of which must have the same one.
pub(crate) fn value_of(block: &[u8]) -> u32 {
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

/// An event of one block: a write of a value, or a read that saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) from: u64,
    pub(crate) until: Option<u64>,
    pub(crate) value: u32,
    pub(crate) writes: bool,
}

/// Whether there is an order of the events that keeps to their times and explains every read. Events that were never
/// answered may be left out.
pub(crate) fn is_linearisable(events: &[Event]) -> bool {
    fn explains(events: &[Event], done: u64, value: u32, seen: &mut BTreeSet<(u64, u32)>) -> bool {
        let is_left = |place: &usize| done >> place & 1 == 0;
        let left: Vec<usize> = (0..events.len()).filter(is_left).collect();
        if left.iter().all(|&place| events[place].until.is_none()) {
            return true;
        }
        if !seen.insert((done, value)) {
            return false;
        }
        // The next event is one that began before any other remaining one was answered.
        let first_end = left.iter().filter_map(|&place| events[place].until).min().unwrap_or(u64::MAX);
        left.iter().any(|&place| {
            let event = events[place];
            let fits = event.from < first_end && (event.writes || event.value == value);
            fits && explains(events, done | 1 << place, if event.writes { event.value } else { value }, seen)
        })
    }
    explains(events, 0, 0, &mut BTreeSet::new())
}

pub(crate) fn events_of(asked: &BTreeMap<u64, Asked>, block: u64) -> Vec<Event> {
    let of_block = asked.iter().filter(|(_, asked)| asked.covers(block) && !(asked.failed && asked.command == READ));
    of_block
        .filter_map(|(&cookie, asked)| {
            let value = match asked.command {
                READ => *asked.read.get((block - asked.block) as usize)?,
                WRITE => cookie as u32,
                _ => 0,
            };
            // A failed operation may have happened in part, at any time.
            let until = if asked.failed { None } else { asked.until };
            Some(Event { from: asked.from, until, value, writes: asked.changes() })
        })
        .take(60)
        .collect()
}

pub(crate) fn check(run: &Run) {
    for block in 0..BLOCKS {
        let events = events_of(&run.asked, block);
        assert!(is_linearisable(&events), "block {block} cannot be explained: {events:?}");
    }
}

/// Checks as [`check`] does, where discards are carried out at any time, or never, but not after a later write.
pub(crate) fn check_with_late_discards(run: &Run) {
    for block in 0..BLOCKS {
        let covering: Vec<&Asked> = run.asked.values().filter(|asked| asked.covers(block)).collect();
        let discards = covering.iter().filter(|asked| asked.command == TRIM);
        let is_overwritten = |discard: &Asked, read: &Event| {
            let writes = covering.iter().filter(|asked| matches!(asked.command, WRITE | WRITE_ZEROES) && !asked.failed);
            let mut between = writes.filter(|write| write.until.is_some_and(|until| until < read.from));
            discard.until.is_some_and(|until| between.any(|write| write.from > until))
        };
        let is_discarded = |read: &Event| {
            !read.writes
                && read.value == 0
                && discards.clone().any(|discard| {
                    read.until.is_none_or(|until| discard.from < until) && !is_overwritten(discard, read)
                })
        };
        let others = run.asked.iter().filter(|(_, asked)| asked.command != TRIM);
        let others = others.map(|(&cookie, asked)| (cookie, asked.clone())).collect();
        let mut events = events_of(&others, block);
        events.retain(|event| !is_discarded(event));
        assert!(is_linearisable(&events), "block {block} cannot be explained: {events:?}");
    }
}

/// Checks the value of a block after a power failure: it must not be older than the last write that was made durable.
pub(crate) fn check_durable(asked: &BTreeMap<u64, Asked>, block: u64, found: u32) {
    check_durable_where(asked, block, found, &|_| true);
}

/// Checks as [`check_durable`] does, but lets discards be undone even if they were flushed.
pub(crate) fn check_durable_with_late_discards(asked: &BTreeMap<u64, Asked>, block: u64, found: u32) {
    check_durable_where(asked, block, found, &|write| write.command != TRIM);
}

fn check_durable_where(asked: &BTreeMap<u64, Asked>, block: u64, found: u32, lasts: &dyn Fn(&Asked) -> bool) {
    let writes = asked.iter().filter(|(_, asked)| asked.covers(block) && asked.changes());
    let writes: Vec<_> =
        writes.map(|(&cookie, asked)| (if asked.command == WRITE { cookie as u32 } else { 0 }, asked)).collect();
    let answered = |asked: &Asked| asked.until.filter(|_| !asked.failed);
    let is_durable = |write: &Asked| {
        let Some(end) = answered(write).filter(|_| lasts(write)) else { return false };
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
            // The write itself, or one that is concurrent or later.
            Some(write) => {
                std::ptr::eq(*durable, write) || is_newer(write, durable) || write.from > durable.until.unwrap_or(0)
            }
        }) && found == value
    };
    let fits = allowed(0, None) || writes.iter().any(|(value, write)| allowed(*value, Some(write)));
    assert!(fits, "block {block} holds {found}, which is older than what was made durable: {writes:?}");
}

pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 2_000, ..ProptestConfig::default() }
}
