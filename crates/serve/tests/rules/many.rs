//! Rules of five hundred equal exports of one device: each client that asks is served alike, and idle ones delay nobody.

use crate::bench::{Bench, Peer};
use crate::client::*;
use ioweir_core::policy::{POLICIES, PolicyRow};
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, StreamId};

const EXPORTS: usize = 500;
const BYTES: u32 = 512;

/// A device that completes requests at once, and one that takes its time.
const DEVICES: [&str; 2] = [
    "backend = \"null\"\nsize = \"64MiB\"\ndepth = 32",
    "backend = \"emulated\"\nmodel = \"ssd-970pro\"\nsize = \"64MiB\"\ndepth = 32",
];

/// The policies between tenants.
fn rows() -> impl Iterator<Item = &'static PolicyRow> {
    POLICIES.iter().filter(|row| row.knows_shares)
}

/// Clients in a closed loop, each on an export of its own.
struct Clients {
    bench: Bench,
    peers: Vec<Peer>,
    answered: Vec<u64>,
    cookie: u64,
    seed: u64,
    takes_time: bool,
}

impl Clients {
    fn new(device: &str, scheduler: &str) -> Self {
        let mut bench = Bench::with_exports(&format!("{device}\nscheduler = \"{scheduler}\""), EXPORTS);
        bench.clients_max(EXPORTS as u32);
        for class in 0..EXPORTS as u32 {
            bench.entitle(StreamId(class), Share::DEFAULT);
        }
        let peers = (0..EXPORTS).map(|export| bench.connect(export, false)).collect();
        Self { bench, peers, answered: vec![0; EXPORTS], cookie: 0, seed: 7, takes_time: device == DEVICES[1] }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) % below
    }

    fn ask(&mut self, client: usize) {
        self.cookie += 1;
        let offset = self.random(65_536) * 512;
        self.peers[client].expect(self.cookie, BYTES as usize);
        self.peers[client].send(&request(READ, 0, self.cookie, offset, BYTES));
    }

    /// A client reads its answers, and sends as many requests.
    fn look(&mut self, client: usize) {
        let answers = self.peers[client].answers().len();
        self.answered[client] += answers as u64;
        (0..answers).for_each(|_| self.ask(client));
    }

    /// Runs the engine for a time. It turns at most every ten microseconds, as on a busy machine.
    fn turn_for(&mut self, span: Nanos) {
        let end = self.bench.now.after(span);
        while self.bench.now < end {
            let due = self.bench.turn().max(self.bench.now.after(Nanos(10_000)));
            self.bench.now = due.min(end).max(self.bench.now);
        }
    }

    /// Lets clients look, in an order that differs each time, until each has had about so many answers more. Where the device takes its
    /// time, up to half of them do not look each time, as on a busy machine.
    fn run(&mut self, answers: u64) {
        let goal = self.answered.iter().sum::<u64>() + answers * EXPORTS as u64;
        while self.answered.iter().sum::<u64>() < goal {
            self.turn_for(Nanos::from_millis(1));
            let (first, step) = (self.random(500) as usize, [1, 3, 7, 499][self.random(4) as usize]);
            let late = if self.takes_time { self.random(250) as usize } else { 0 };
            for at in 0..EXPORTS - late {
                self.look((first + at * step) % EXPORTS);
            }
        }
    }
}

fn jain(counts: &[u64]) -> f64 {
    let sum: u64 = counts.iter().sum();
    let squares: u64 = counts.iter().map(|count| count * count).sum();
    (sum * sum) as f64 / (counts.len() as u64 * squares) as f64
}

#[test]
fn five_hundred_busy_exports_are_served_alike() {
    let mut worst = 1.0_f64;
    for row in rows() {
        for device in DEVICES {
            for backlog in [2, 8] {
                let mut clients = Clients::new(device, row.name);
                (0..EXPORTS * backlog).for_each(|number| clients.ask(number % EXPORTS));
                clients.run(10);
                clients.answered.fill(0);
                clients.run(80);
                let counts = &clients.answered;
                let (mean, least) = (counts.iter().sum::<u64>() / EXPORTS as u64, counts.iter().min().unwrap());
                worst = worst.min(jain(counts));
                assert!(
                    jain(counts) >= 0.99 && least * 2 >= mean,
                    "{}, {backlog} requests each: Jain {:.4}, least {least} of {mean}\n{device}",
                    row.name,
                    jain(counts)
                );
            }
        }
    }
    println!("500 exports: the least of Jain's indices is {worst:.4}");
}

/// The answers in a tenth of a second to a client with four requests outstanding, after so many others have asked once.
fn answers_beside_idle(scheduler: &str, others: usize) -> u64 {
    let mut clients = Clients::new(DEVICES[1], scheduler);
    (1..=others).for_each(|client| clients.ask(client));
    clients.turn_for(Nanos::from_seconds(20));
    (1..=others)
        .for_each(|client| assert_eq!(clients.peers[client].answers().len(), 1, "{scheduler}: client {client}"));
    (0..4).for_each(|_| clients.ask(0));
    for _ in 0..10_000 {
        clients.turn_for(Nanos(10_000));
        clients.look(0);
    }
    clients.answered[0]
}

#[test]
fn a_busy_export_among_idle_keeps_rate() {
    let pairs = ["sfq+mq-deadline", "reward+bfq", "mclock+kyber", "wfq+none"];
    for scheduler in rows().map(|row| row.name).chain(pairs) {
        let (alone, beside) = (answers_beside_idle(scheduler, 0), answers_beside_idle(scheduler, EXPORTS - 1));
        assert!(beside * 100 >= alone * 99, "{scheduler}: {beside} answers beside idle exports, {alone} alone");
    }
}
