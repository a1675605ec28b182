//! Rules of shares of an upstream's time while its speed changes, and of a learnt depth. The test sets the number of answers and the time.

use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, StreamId};

use super::sham::Sham;
use crate::bench::{Bench, Peer};
use crate::client::*;

/// Two clients of weights 3 and 1 that keep 64 requests outstanding each.
struct Stage {
    sham: Sham,
    bench: Bench,
    peers: [Peer; 2],
    cookie: u64,
    /// The upstream's time that each peer has used.
    spent: [Nanos; 2],
    _folder: tempfile::TempDir,
}

impl Stage {
    fn new(keys: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sham = Sham::new(folder.path());
        let mut bench = Bench::new(&sham.keys(&format!("connections = 1\nmerge = false\n{keys}")));
        bench.entitle(StreamId(0), Share::weighted(300));
        bench.entitle(StreamId(1), Share::weighted(100));
        let peers = [bench.connect(0, false), bench.connect(1, false)];
        sham.set(|manner| manner.reads_left = Some(0));
        let mut stage = Self { sham, bench, peers, cookie: 0, spent: [Nanos::ZERO; 2], _folder: folder };
        for number in 0..2 {
            (0..64).for_each(|_| stage.ask(number));
        }
        stage
    }

    fn ask(&mut self, number: usize) {
        self.cookie += 1;
        self.peers[number].expect(self.cookie, 512);
        self.peers[number].send(&request(READ, 0, self.cookie, self.cookie % 64 * 8192, 512));
    }

    /// Waits until the upstream has as many requests as it may; returns their number.
    fn fill(&mut self) -> u64 {
        for _ in 0..100_000 {
            let report = self.bench.report();
            // A dispatch is sent at once, except at the beginning, when a flush comes first.
            let has_begun = self.sham.manner().asked.iter().any(|asked| asked.0 == READ);
            if report.device.inflight >= report.device.depth && has_begun {
                return report.device.inflight.into();
            }
            self.bench.engine.wait(Nanos::from_millis(1)).unwrap();
        }
        panic!("the upstream never gets what it may have");
    }

    /// After this time the server reads the upstream's answers: this many requests, each of which took this long.
    fn look(&mut self, span: Nanos, count: u64, each: Nanos) {
        let count = self.fill().min(count);
        self.sham.answer(count);
        self.bench.now = self.bench.now.after(span);
        self.bench.turn();
        let mut answered = 0;
        for number in 0..2 {
            for answer in self.peers[number].answers() {
                assert_eq!(answer.error, 0);
                answered += 1;
                self.spent[number] = self.spent[number].after(each);
                self.ask(number);
            }
        }
        assert_eq!(answered, count, "everything is seen at once");
    }
}

#[test]
fn shares_hold_while_an_upstreams_speed_changes() {
    const SLOW: Nanos = Nanos::from_millis(1);
    const FAST: Nanos = Nanos(100_000);
    let part = |depth: u64, at_once: u64| {
        let mut stage = Stage::new(&format!("scheduler = \"sfq:cost=device-time\"\ndepth = {depth}"));
        for _ in 0..12 {
            (0..40).for_each(|_| stage.look(SLOW, 1, SLOW));
            (0..400 / at_once).for_each(|_| stage.look(Nanos(FAST.0 * at_once), at_once, FAST));
        }
        stage.spent[0].as_seconds() / (stage.spent[0].as_seconds() + stage.spent[1].as_seconds())
    };
    for (depth, at_once) in [(1, 1), (16, 1), (16, 5), (16, 16)] {
        let part = part(depth, at_once);
        assert!((0.7125..=0.7875).contains(&part), "three quarters of {depth}, {at_once} at once, are {part:.3}");
    }
}

#[test]
fn the_depth_of_an_upstream_is_learnt() {
    let mut stage = Stage::new("scheduler = \"sfq\"");
    // The upstream serves eight requests at a time.
    for look in 0..1200 {
        stage.look(Nanos::from_millis(1), 8, Nanos::from_millis(1));
        let depth = stage.bench.report().device.depth;
        assert!(look < 600 || (4..=16).contains(&depth), "{depth} after {look} times eight requests");
    }
}
