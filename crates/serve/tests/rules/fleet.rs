//! Rules of an engine whose server belongs to a fleet.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use ioweir_core::fleet::Sight;
use ioweir_core::{Nanos, StreamId};
use ioweir_serve::engine::{Call, Command, Observer, Served};
use ioweir_serve::fleet::{Answer, Ask, Coordinator, Heard, Own, Snapshot, Store, Turn, own_classes};
use ioweir_serve::spec::Spec;

use crate::bench::{Bench, Peer};
use crate::client::*;

/// A store for a server that is alone in its fleet.
#[derive(Default)]
struct Alone {
    revision: i64,
    round: i64,
    report: Vec<u8>,
}

impl Store for Alone {
    fn grant(&mut self, _seconds: u64) -> Result<i64, String> {
        Ok(1)
    }

    fn renew(&mut self, _lease: i64) -> Result<bool, String> {
        Ok(true)
    }

    fn exchange(&mut self, ask: &Ask<'_>) -> Result<Answer, String> {
        self.revision += 1;
        if ask.begins.is_some() {
            (self.round, self.report) = (self.revision, ask.report.into());
        }
        Ok(Answer { is_done: true, lease: None, round: self.round, revision: self.revision, tenants: None })
    }

    fn snapshot(&mut self, _revision: i64) -> Result<Snapshot, String> {
        let reports = vec![Heard { server: "here".into(), report: self.report.clone() }];
        Ok(Snapshot { reports, records: Vec::new() })
    }

    fn leave(&mut self, _lease: Option<i64>) {}
}

/// The calls of the scheduler, with its answers.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<(Nanos, Call)>>>);

impl Observer for Journal {
    fn called(&mut self, now: Nanos, call: &Call) {
        self.0.lock().unwrap().push((now, *call));
    }
}

const STEP: Nanos = Nanos::from_millis(50);

/// An engine with three clients, of which one is limited and one has a reservation.
struct World {
    bench: Bench,
    peers: Vec<(Peer, u32)>,
    owns: Vec<Own>,
    seed: u64,
}

impl World {
    fn new(policy: &str, spec: &Spec) -> Self {
        let mut bench =
            Bench::new(&format!("backend = \"emulated\"\nmodel = \"tiny\"\nscheduler = \"{policy}\"\ndepth = 2"));
        let owns = own_classes(spec, &[true]);
        for own in &owns {
            bench.entitle(StreamId(own.class), own.share);
        }
        let peers = (0..3).map(|export| (bench.connect(export, true), 0)).collect();
        Self { bench, peers, owns, seed: 7 }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) % below
    }

    /// Clients send more requests, up to eight at once, and time advances to the end of the step.
    fn step(&mut self, end: Nanos) {
        while self.bench.now < end {
            for at in 0..self.peers.len() {
                let answered = self.peers[at].0.answers().len() as u32;
                self.peers[at].1 -= answered;
                if self.peers[at].1 < 8 && self.random(3) > 0 {
                    let (cookie, offset) = (self.random(1 << 40), self.random(64) << 12);
                    self.peers[at].0.expect(cookie, 4096);
                    self.peers[at].0.send(&request(READ, 0, cookie, offset, 4096));
                    self.peers[at].1 += 1;
                }
            }
            let due = self.bench.turn();
            let soon = self.bench.now.after(Nanos::from_millis(2));
            self.bench.now = self.bench.now.max(due.min(soon).min(end));
        }
    }

    /// The service that each class has received, asked for as the thread of a fleet does.
    fn served(&mut self) -> Vec<Served> {
        let (sender, answer) = channel();
        self.bench.engine.handle().send(Command::Served(sender));
        self.bench.turn();
        answer.recv().unwrap()
    }

    /// Applies the result of a period, as the thread of a fleet does.
    fn take(&mut self, turn: &Turn) {
        for own in &self.owns {
            let part = turn.parts.get(&own.class).map_or(own.share, |part| part.of(own.share));
            if part != own.share {
                self.bench.entitle(StreamId(own.class), part);
            }
        }
        if !turn.elsewhere.is_empty() {
            let told = turn.elsewhere.iter().map(|(class, told)| (StreamId(*class), *told)).collect();
            self.bench.engine.handle().send(Command::Elsewhere(told));
        }
    }
}

#[test]
fn engines_alone_in_a_fleet_decide_as_without() {
    for policy in ["mclock", "reward", "sfq+mq-deadline", "wfq"] {
        let reserves = if policy == "mclock" { "reservation = \"30/s\"\n" } else { "" };
        let text = format!(
            "[fleet]\nname = \"f\"\nserver = \"here\"\netcd = [\"http://127.0.0.1:1\"]\nalone = 100\n\
             [[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"1MiB\"\nscheduler = \"{policy}\"\n\
             [[export]]\nname = \"a\"\ndevice = \"d\"\nlimit = \"40/s\"\n\
             [[export]]\nname = \"b\"\ndevice = \"d\"\nweight = 300\n{reserves}\
             [[export]]\nname = \"c\"\ndevice = \"d\"\nweight = 100\n"
        );
        let spec = Spec::parse("fleet.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let mut coordinator = Coordinator::new(spec.fleet.clone().unwrap(), Alone::default());
        let journals = [true, false].map(|is_in_fleet| {
            let journal = Journal::default();
            let mut world = World::new(policy, &spec);
            world.bench.engine.observe(Box::new(journal.clone()));
            let mut sight = None;
            for step in 1..=200 {
                world.step(Nanos(STEP.0 * step));
                if step % 5 > 0 {
                    continue;
                }
                let served = world.served();
                if is_in_fleet {
                    let turn = coordinator.turn(world.bench.now, &world.owns, &served);
                    world.take(&turn);
                    sight = Some((turn.status.sight, turn.parts.len()));
                }
            }
            // The server took part: classes with a limit or a reservation have parts, and it sees all servers of the fleet.
            let took_part = matches!(sight, Some((Sight::Seeing, 1..)));
            assert!(took_part || !is_in_fleet, "{policy}: {sight:?}");
            journal.0.lock().unwrap().clone()
        });
        let [with, without] = journals;
        assert!(with.len() > 2000, "{policy}: {}", with.len());
        let differs = with.iter().zip(&without).position(|(with, without)| with != without);
        assert_eq!((differs, with.len()), (None, without.len()), "{policy}");
    }
}
