//! Rules of limits in bytes, as clients see them: their rate, how long they wait, and the immediate effect of a change.

use std::collections::BTreeMap;

use crate::bench::{Bench, Peer};
use crate::client::*;
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, StreamId};

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

/// A device that completes requests at once; the limit sees requests in parts of 256 KiB.
const NOTHING: &str = "backend = \"null\"\nsize = \"1GiB\"\nscheduler = \"sfq\"";

/// A client that keeps a number of reads of one size in flight.
struct Reader {
    peer: Peer,
    length: u32,
    backlog: usize,
    /// How much later than it is due the engine wakes up, as a real timer does.
    late: Nanos,
    asked: BTreeMap<u64, Nanos>,
    next: u64,
}

impl Reader {
    fn new(bench: &mut Bench, length: u32, backlog: usize) -> Self {
        Self::of(bench, 0, length, backlog)
    }

    /// A client of an export, by its number.
    fn of(bench: &mut Bench, export: usize, length: u32, backlog: usize) -> Self {
        let peer = bench.connect(export, true);
        Self { peer, length, backlog, late: Nanos::ZERO, asked: BTreeMap::new(), next: 0 }
    }

    /// Sends as many requests as may be in flight; returns whether any was missing.
    fn ask(&mut self, now: Nanos) -> bool {
        let is_asking = self.asked.len() < self.backlog;
        while self.asked.len() < self.backlog {
            self.peer.send(&request(READ, 0, self.next, 0, self.length));
            self.asked.insert(self.next, now);
            self.next += 1;
        }
        is_asking
    }

    /// Reads until a time; returns the bytes, and the longest latency of a request.
    fn read_until(&mut self, bench: &mut Bench, end: Nanos) -> (u64, Nanos) {
        let (mut bytes, mut longest) = (0, Nanos::ZERO);
        loop {
            let is_asking = self.ask(bench.now);
            let due = bench.turn();
            let answers = self.peer.answers();
            for answer in &answers {
                let since = self.asked.remove(&answer.cookie).expect("it was asked for");
                assert_eq!((answer.error, answer.bytes().len()), (0, self.length as usize));
                (bytes, longest) = (bytes + u64::from(self.length), longest.max(bench.now.since(since)));
            }
            // Time advances only when no answer is under way.
            if is_asking || !answers.is_empty() || self.peer.hears_on() {
                continue;
            }
            if due >= end {
                bench.now = end;
                return (bytes, longest);
            }
            bench.now = bench.now.max(due).after(self.late);
        }
    }
}

fn limit(bytes_per_second: u32, burst_bytes: u32) -> Share {
    let (limit_bytes_per_second, burst_bytes) = (u64::from(bytes_per_second), u64::from(burst_bytes));
    Share { limit_bytes_per_second, burst_bytes, ..Share::DEFAULT }
}

/// The factor by which tests are longer under `scripts/thorough`.
fn span() -> u64 {
    if std::env::var_os("IOWEIR_THOROUGH").is_some() { 2 } else { 1 }
}

fn is_near(bytes: u64, goal: u64) -> bool {
    bytes.abs_diff(goal) * 100 <= goal
}

#[test]
fn limits_are_reached_exactly_at_any_request_size() {
    for (length, backlog) in [(4 * KIB, 4), (64 * KIB, 1), (64 * KIB, 8), (MIB, 1), (MIB, 8)] {
        let mut bench = Bench::new(NOTHING);
        bench.entitle(StreamId(0), limit(8 * MIB, 0));
        let mut reader = Reader::new(&mut bench, length, backlog);
        // Requests that are outstanding at the end of this phase have been paid for in part.
        let (begun, _) = reader.read_until(&mut bench, Nanos::from_seconds(2));
        let (bytes, longest) = reader.read_until(&mut bench, Nanos::from_seconds(2 + 10 * span()));
        assert!(is_near(bytes, 10 * span() * 8 * u64::from(MIB)), "{length} x {backlog}: {bytes} after {begun}");
        // The time of all requests in flight at 8 MiB a second; a turn takes a nanosecond.
        let allowed =
            Nanos(backlog as u64 * u64::from(length) * 1_000_000_000 / (8 << 20)).after(Nanos::from_millis(1));
        assert!(longest <= allowed, "{length} x {backlog}: one waited {longest}, and {allowed} are allowed");
    }
}

/// Ten seconds of a limit without a burst of its own, at every depth and size, on a machine whose timers are late.
#[test]
fn a_limit_delivers_at_every_depth_and_size() {
    for (depth, length, by_bytes) in [1, 32, 128]
        .into_iter()
        .flat_map(|depth| [4 * KIB, 256 * KIB].map(|length| (depth, length)))
        .flat_map(|(depth, length)| [false, true].map(|by_bytes| (depth, length, by_bytes)))
    {
        let mut bench = Bench::new(NOTHING);
        let per_second = if length == 4 * KIB { 500 } else { 50 };
        let bytes_per_second = u64::from(per_second * length);
        bench.entitle(
            StreamId(0),
            match by_bytes {
                true => Share { limit_bytes_per_second: bytes_per_second, ..Share::DEFAULT },
                false => Share { limit_per_second: per_second.into(), ..Share::DEFAULT },
            },
        );
        let mut reader = Reader::new(&mut bench, length, depth);
        reader.late = Nanos::from_millis(2);
        let (bytes, _) = reader.read_until(&mut bench, Nanos::from_seconds(10));
        let percent = bytes as f64 / (10 * bytes_per_second) as f64 * 100.0;
        assert!(
            (95.0..=102.0).contains(&percent),
            "depth {depth}, {length} bytes, by bytes {by_bytes}: {percent:.1} %"
        );
    }
}

#[test]
fn live_changes_apply_and_pauses_earn_one_burst() {
    for length in [64 * KIB, MIB] {
        let mut bench = Bench::new(NOTHING);
        let mut reader = Reader::new(&mut bench, length, 4);
        for (number, mebibytes) in (1_u64..).zip([8, 64, 2, 16, 4, 32]) {
            bench.entitle(StreamId(0), limit(mebibytes * MIB, 1));
            let end = Nanos::from_seconds(number * 5 * span());
            let (bytes, _) = reader.read_until(&mut bench, end);
            let goal = 5 * span() * u64::from(mebibytes) * u64::from(MIB);
            // A request that spans a change counts where it ends.
            assert!(
                bytes.abs_diff(goal) <= goal / 100 + u64::from(length),
                "{length}, change {number}: {bytes} of {goal}"
            );
        }
        bench.entitle(StreamId(0), limit(8 * MIB, MIB));
        // An answer may be longer than a socket takes at once.
        while !reader.asked.is_empty() {
            bench.settle();
            for answer in reader.peer.answers() {
                reader.asked.remove(&answer.cookie);
            }
        }
        bench.now = bench.now.after(Nanos::from_seconds(3_600));
        let end = bench.now.after(Nanos::from_seconds(1));
        let (bytes, _) = reader.read_until(&mut bench, end);
        let most = u64::from(8 * MIB + MIB + 256 * KIB);
        assert!(bytes >= u64::from(8 * MIB) && bytes <= most, "{length}: {bytes} in the second after an hour");
    }
}

/// The requests that two clients had answered until a time.
fn both_read_until(bench: &mut Bench, readers: &mut [Reader; 2], end: Nanos) -> [u64; 2] {
    let mut counts = [0; 2];
    loop {
        let asking = readers.each_mut().map(|reader| reader.ask(bench.now));
        let due = bench.turn();
        let mut is_moving = asking.contains(&true);
        for (reader, count) in readers.iter_mut().zip(&mut counts) {
            for answer in reader.peer.answers() {
                assert!(answer.error == 0 && reader.asked.remove(&answer.cookie).is_some());
                (*count, is_moving) = (*count + 1, true);
            }
            is_moving |= reader.peer.hears_on();
        }
        if !is_moving && due >= end {
            bench.now = end;
            return counts;
        }
        if !is_moving {
            bench.now = bench.now.max(due);
        }
    }
}

#[test]
fn linux_limits_follow_live_changes() {
    let mut bench = Bench::new(&NOTHING.replace("sfq", "io-max"));
    let mut reader = Reader::new(&mut bench, 4 * KIB, 32);
    for (number, reads_per_second) in (1_u64..).zip([500, 50, 2_000]) {
        bench.entitle(StreamId(0), Share { reads_per_second, ..Share::DEFAULT });
        let (bytes, _) = reader.read_until(&mut bench, Nanos::from_seconds(number * 5));
        let (reads, goal) = (bytes / u64::from(4 * KIB), 5 * reads_per_second);
        // The margin is the requests held under the old limit, and a slice of a tenth of a second.
        assert!(reads.abs_diff(goal) <= goal / 20 + 32, "{reads} reads at {reads_per_second}/s in 5 s");
    }
}

#[test]
fn linux_weights_follow_live_changes() {
    // A model below what the device can do, so that requests wait for their part: a thousand reads a second.
    let scheduler = "io-cost:rbps=1000000000:rseqiops=1000:rrandiops=1000:max=100";
    let mut bench = Bench::new(&NOTHING.replace("sfq", scheduler));
    let mut readers = [0, 1].map(|export| Reader::of(&mut bench, export, 4 * KIB, 32));
    for (number, weights) in (1_u64..).zip([[100, 300], [300, 100], [100, 100]]) {
        for (stream, weight) in (0..).map(StreamId).zip(weights) {
            bench.entitle(stream, Share { weight, ..Share::DEFAULT });
        }
        // The credit of the first moments, and donations, are over after a second.
        both_read_until(&mut bench, &mut readers, Nanos::from_seconds(number * 6 - 5));
        let counts = both_read_until(&mut bench, &mut readers, Nanos::from_seconds(number * 6));
        let share = |values: [u64; 2]| values[0] as f64 / (values[0] + values[1]) as f64;
        let asked = share(weights.map(u64::from));
        assert!((share(counts) - asked).abs() < 0.02, "{weights:?}: {counts:?}");
        assert!((4_700..=5_100).contains(&(counts[0] + counts[1])), "{weights:?}: {counts:?}");
    }
}
