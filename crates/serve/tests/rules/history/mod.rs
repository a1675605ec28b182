//! Several clients at once against a model: every block behaves as if its reads and writes happened one after the other.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;

use ioweir_core::Nanos;
use ioweir_world::history::{History, Kind};
use ioweir_world::{Promise, Verdict};
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

/// A request that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    command: u16,
    flags: u16,
    from: u64,
    pub(crate) is_answered: bool,
    pub(crate) failed: bool,
}

/// The history of all blocks, and what is wrong with it.
#[derive(Clone)]
pub(crate) struct Past {
    history: History,
    verdict: Verdict,
    step: u64,
}

impl Past {
    /// Checks that reads and writes happened one after the other.
    pub(crate) fn check(mut self) {
        self.history.crash(self.step + 1, false, &mut self.verdict);
        assert_eq!(self.verdict.broken, None);
    }

    /// Checks the values of all blocks after a power failure: none is older than the last write that was made durable.
    pub(crate) fn check_after_power_loss(mut self, found: impl IntoIterator<Item = u32>) {
        self.history.crash(self.step + 1, true, &mut self.verdict);
        for (block, value) in (0..).zip(found) {
            self.history.found(self.step + 2, block, value, (Promise::Durable, true), &mut self.verdict);
        }
        assert_eq!(self.verdict.broken, None);
    }
}

pub(crate) struct Run {
    pub(crate) bench: Bench,
    peers: Vec<Peer>,
    pub(crate) asked: BTreeMap<u64, Asked>,
    past: Past,
    /// Whether discards are carried out at any time, or never, but not after a later write.
    discards_late: bool,
}

impl Run {
    pub(crate) fn new(mut bench: Bench) -> Self {
        let peers = vec![bench.connect(0, true), bench.connect(1, true), bench.connect(0, false)];
        let past = Past { history: History::new(BLOCKS), verdict: Verdict::default(), step: 0 };
        Self { bench, peers, asked: BTreeMap::new(), past, discards_late: false }
    }

    pub(crate) fn with_late_discards(bench: Bench) -> Self {
        Self { discards_late: true, ..Self::new(bench) }
    }

    /// Sends a request. A write's value is its cookie, so that all writes differ; zero is the value before all writes.
    pub(crate) fn ask(&mut self, client: usize, command: u16, flags: u16, block: u64, blocks: u64) {
        self.past.step += 1;
        let cookie = self.past.step;
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
        let kind = match command {
            READ => Kind::Read,
            WRITE => Kind::Write(cookie as u32),
            TRIM if self.discards_late => Kind::Discard,
            _ => Kind::Write(0),
        };
        if command != FLUSH {
            self.past.history.ask(cookie, cookie, (block, block + blocks), kind);
        }
        self.asked.insert(cookie, Asked { command, flags, from: cookie, is_answered: false, failed: false });
    }

    pub(crate) fn hear(&mut self, client: usize) {
        let Past { history, verdict, step } = &mut self.past;
        *step += 1;
        for answer in self.peers[client].answers() {
            let asked = self.asked.get_mut(&answer.cookie).expect("nothing is answered that was not asked");
            assert!(!asked.is_answered, "nothing is answered twice");
            (asked.is_answered, asked.failed) = (true, answer.error != 0);
            match asked.command {
                READ => {
                    let read = || answer.bytes().chunks(BLOCK as usize).map(value_of).collect::<Vec<_>>();
                    history.read(answer.cookie, *step, (!asked.failed).then(read).as_deref(), verdict);
                }
                FLUSH if asked.failed => {}
                FLUSH => history.flushed(asked.from, (0, BLOCKS)),
                _ => history.wrote(answer.cookie, *step, (asked.failed, asked.flags & FUA != 0), verdict),
            }
        }
    }

    /// Ends the bench; returns the history so far.
    pub(crate) fn end(self) -> Past {
        self.past
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

pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 2_000, ..ProptestConfig::default() }
}
