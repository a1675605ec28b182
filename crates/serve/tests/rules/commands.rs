//! Rules of commands: the scheduler orders and charges every command of a client, whether it carries data or not.

use std::sync::{Arc, Mutex};

use crate::bench::{Bench, Peer};
use crate::client::*;
use crate::upstream::Sham;
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, Operation, Request, StreamId};
use ioweir_serve::engine::{Call, Observer};
use ioweir_serve::nbd::Command;

const MIB: u64 = 1 << 20;

const MEMORY: &str = "backend = \"memory\"\nsize = \"64MiB\"\nscheduler = \"sfq\"";

/// The requests that the scheduler has accepted, in order.
#[derive(Clone, Default)]
struct Submitted(Arc<Mutex<Vec<Request>>>);

impl Observer for Submitted {
    fn called(&mut self, _now: Nanos, call: &Call) {
        if let Call::Submit(request, _) = call {
            self.0.lock().expect("no test has panicked").push(*request);
        }
    }
}

/// A request of 4 KiB, or a flush without a range.
fn asked(command: Command, cookie: u64) -> Vec<u8> {
    let length = if command == Command::Flush { 0 } else { 4096 };
    let data = if command == Command::Write { vec![7; 4096] } else { Vec::new() };
    [request(command.number(), 0, cookie, 0, length), data].concat()
}

/// Has a client limited to ten requests a second send each command three times to a device. Every command must reach the
/// scheduler, wait for the limit, and be counted.
fn each_command_is_charged(device: &str) {
    for command in Command::ALL.into_iter().filter(|command| *command != Command::Disconnect) {
        let mut bench = Bench::new(device);
        let submitted = Submitted::default();
        bench.engine.observe(Box::new(submitted.clone()));
        bench.entitle(StreamId(0), Share { limit_per_second: 10, burst: 1, ..Share::DEFAULT });
        let mut peer = bench.connect(0, true);
        for cookie in 0..3 {
            peer.send(&asked(command, cookie));
        }
        for number in 1..=3 {
            let mut answers = Vec::new();
            // An upstream answers from a thread of its own. Its answers take no time of the bench, which the limit counts.
            for _ in 0..10_000 {
                bench.turn();
                answers.extend(peer.answers());
                if !answers.is_empty() {
                    break;
                }
                bench.engine.wait(Nanos::from_millis(1)).unwrap();
            }
            bench.turn();
            answers.extend(peer.answers());
            assert!(answers.iter().all(|answer| answer.error == 0), "{command:?}: {answers:?}");
            assert_eq!(answers.len(), 1, "{command:?}: the limit admits one of them at a time, and this is {number}");
            bench.now = bench.now.after(Nanos::from_millis(100));
        }
        assert_eq!(submitted.0.lock().unwrap().len(), 3, "{command:?}: the scheduler sees each");
        let report = bench.report();
        let counts = &report.counters.get(0).expect("a client").counts;
        let of = |count: fn(&ioweir_serve::engine::OperationCounters) -> u64| -> u64 {
            counts.operations.iter().map(count).sum()
        };
        assert_eq!((of(|its| its.requests), of(|its| its.queue.count())), (3, 3), "{command:?}: each is counted");
    }
}

#[test]
fn every_command_is_scheduled_limited_and_counted() {
    each_command_is_charged(MEMORY);
}

#[test]
fn every_command_to_upstreams_is_scheduled_and_limited() {
    let folder = tempfile::tempdir().unwrap();
    let sham = Sham::new(folder.path());
    each_command_is_charged(&sham.keys("scheduler = \"sfq\""));
}

/// Keeps two requests of 4 MiB outstanding for ten seconds. No limit of these tests admits more than 3,000 of them.
fn flood(bench: &mut Bench, peer: &mut Peer, command: u16, flags: u16) {
    let (end, mut next, mut answered) = (bench.now.after(Nanos::from_seconds(10)), 0, 0);
    while bench.now < end {
        while next < answered + 2 {
            peer.send(&request(command, flags, next, next % 8 * 4 * MIB, 4 << 20));
            next += 1;
        }
        let due = bench.turn();
        let heard = peer.answers();
        assert!(heard.iter().all(|answer| answer.error == 0));
        answered += heard.len() as u64;
        assert!(answered <= 3_000, "command {command} is not limited");
        if heard.is_empty() {
            bench.now = bench.now.max(due.min(end));
        }
    }
}

#[test]
fn bytes_of_every_command_count_against_the_limit() {
    // In memory, zeroes that keep their space are written, and others become holes. A query counts as a read of a block.
    for (command, flags, moves) in [
        (WRITE_ZEROES, NO_HOLE, true),
        (CACHE, 0, true),
        (BLOCK_STATUS, 0, true),
        (WRITE_ZEROES, 0, false),
        (TRIM, 0, false),
    ] {
        let mut bench = Bench::new(MEMORY);
        let submitted = Submitted::default();
        bench.engine.observe(Box::new(submitted.clone()));
        let limit_per_second = if moves { 0 } else { 100 };
        bench.entitle(StreamId(0), Share { limit_bytes_per_second: MIB, limit_per_second, ..Share::DEFAULT });
        let mut peer = bench.connect(0, true);
        flood(&mut bench, &mut peer, command, flags);
        let submitted = submitted.0.lock().unwrap();
        let lengths = || submitted.iter().map(|request| u64::from(request.sectors) * 512);
        let is_discard = |request: &Request| request.operation == Operation::Discard;
        if moves {
            let bytes: u64 = lengths().sum();
            assert!((8 * MIB..=11 * MIB).contains(&bytes), "{command}: {bytes} bytes in ten seconds");
            assert!(lengths().all(|length| length <= 256 << 10), "{command}: split by `request_bytes_max`");
            assert!(!submitted.iter().any(is_discard), "{command}: charged like data");
        } else {
            assert!((900..=1_100).contains(&submitted.len()), "{command}: limited by requests: {}", submitted.len());
            assert!(submitted.iter().all(is_discard), "{command}");
        }
    }
}

#[test]
fn commands_take_no_more_from_others_than_writes() {
    let of_heavy = |command: u16, flags: u16, data: usize| {
        let keys =
            "backend = \"emulated\"\nmodel = \"hdd\"\nsize = \"64MiB\"\nscheduler = \"sfq:cost=sectors\"\ndepth = 2";
        let mut bench = Bench::new(keys);
        bench.entitle(StreamId(0), Share::weighted(1_000));
        bench.entitle(StreamId(1), Share::weighted(1));
        let (mut heavy, mut light) = (bench.connect(0, true), bench.connect(1, true));
        let end = Nanos::from_seconds(20);
        let (mut next, mut answered) = ([0, 0], [0, 0]);
        while bench.now < end {
            while next[0] < answered[0] + 8 {
                heavy.send(&request(READ, 0, next[0], next[0] * 40_961 % 16 * 65_536, 65_536));
                next[0] += 1;
            }
            while next[1] < answered[1] + 4 {
                let head = request(command, flags, next[1], 0, 1 << 20);
                light.send_long(&[head, vec![0; data]].concat(), || _ = bench.turn());
                next[1] += 1;
            }
            let due = bench.turn();
            for (number, peer) in [&mut heavy, &mut light].into_iter().enumerate() {
                answered[number] += peer.answers().len() as u64;
            }
            if !(heavy.hears_on() || next[0] > answered[0] + 8) {
                bench.now = bench.now.max(due.min(end));
            }
        }
        answered[0]
    };
    let beside_writes = of_heavy(WRITE, 0, 1 << 20);
    for (command, flags) in [(WRITE_ZEROES, NO_HOLE), (WRITE_ZEROES, 0), (CACHE, 0), (TRIM, 0), (BLOCK_STATUS, 0)] {
        let beside = of_heavy(command, flags, 0);
        assert!(beside_writes > 100 && beside * 10 >= beside_writes * 9, "{command}: {beside} of {beside_writes}");
    }
}
