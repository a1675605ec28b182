//! Runs a world: one thread, one clock, one order of events.

mod acts;
mod answers;
mod asks;
mod ends;
mod operators;
mod servers;
mod services;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;

use ioweir_core::Nanos;

use super::canary::Canary;
use super::client::Client;
use super::devices::Devices;
use super::disk::Trouble;
use super::file::SimulatedFile;
use super::history::History;
use super::kept::Kept;
use super::plan::{CLIENTS, DEVICES, End, Plan, SECTORS};
use super::promise::{Promise, Verdict};
use super::random::Random;
use ioweir_serve::engine::{Command, Turn};
use operators::Volumes;
use servers::{Side, Up};

/// When the world begins, since 1970.
const EPOCH: Nanos = Nanos::from_seconds(1_700_000_000);
/// The longest time of a request beside the work before it.
const PATIENCE: Nanos = Nanos::from_seconds(60);
/// The most turns of the engine at one moment; with more it counts as spinning.
const TURNS_MAX: u32 = 200_000;
/// The longest time between two checks of an operator who waits for an engine.
const LOOKS_EVERY: Nanos = Nanos::from_millis(100);
/// How long a world may take to come to rest.
const REST_MAX: Nanos = Nanos::from_seconds(1_200);
const EIO: u32 = 5;
const ENOSPC: u32 = 28;
const ESHUTDOWN: u32 = 108;

/// The outcome of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The counts of checks, and the first broken promise.
    pub verdict: Verdict,
    /// The time that a server was up.
    pub served: Nanos,
    /// The number of requests.
    pub requests: u64,
    /// Operations of disks, and faults among them.
    pub operations: (u64, u64),
    /// The longest time from a read to its answer, of clients of each device.
    pub longest_reads: [Nanos; DEVICES.len()],
    /// Servers that ended, in the order of [`End::ALL`].
    pub ends: [u64; End::ALL.len()],
    /// A hash of everything that happened.
    pub digest: u64,
    /// The log of all events, line by line, if it was asked for.
    pub log: String,
    /// The steps that were taken.
    pub steps: usize,
}

/// A world.
pub(super) struct World {
    plan: Plan,
    now: Nanos,
    up: Option<Up>,
    devices: Devices,
    clients: Vec<Client>,
    /// The connection of each client, by its number in the server.
    numbers: Vec<u64>,
    /// The histories of sectors, device by device.
    histories: [History; DEVICES.len()],
    /// The volumes of the device that is added and removed.
    volumes: Volumes,
    /// The spec with which the next server starts.
    saved: String,
    verdict: Verdict,
    random: Random,
    /// The number of the last request or answer.
    ticks: u64,
    connections: u64,
    /// The time since 1970 when the world's time was zero, as the wall clock says now.
    epoch: Nanos,
    /// The saved state of services.
    shelf: Arc<Kept>,
    /// Time that requests may have waited for reasons outside of the server, since the beginning.
    excused: Nanos,
    /// Time that requests may have waited for a stalled engine, by the history of its device.
    stalled: [Nanos; DEVICES.len()],
    /// Time that services were told to rest, or to be slow, since the beginning.
    rested: Nanos,
    /// When a flush failed, of the server that is up.
    failed_at: Option<u64>,
    /// Whether a disk has had faults since the server came up.
    has_trouble: bool,
    /// Whether clients may see an error of these faults.
    is_faulty: bool,
    /// Whether sectors may hold data that was not written there.
    is_rotten: bool,
    /// Whether a start found a sector that had rotted, in a block without a checksum.
    keeps_rot: bool,
    is_stopping: bool,
    /// Reads of sectors of a device after a crash.
    probes: BTreeMap<u64, (usize, u64)>,
    /// Whether the last server may have lost data that was not durable, and whether the disks have.
    loses: bool,
    is_cut: bool,
    outcome: Outcome,
    keeps_log: bool,
    has_misled: bool,
    stirred: bool,
}

/// Runs a plan, with a log of all events if `keeps_log` is set.
#[must_use]
pub fn run(plan: &Plan, keeps_log: bool) -> Outcome {
    let mut world = World::new(plan.clone(), keeps_log);
    world.play();
    world.end()
}

impl World {
    fn new(plan: Plan, keeps_log: bool) -> Self {
        let random = Random::new(plan.seed).fork(2);
        let clients = (0..CLIENTS).map(|number| Client::new(random.fork(100 + number))).collect();
        Self {
            devices: Devices::new(&plan),
            now: Nanos::ZERO,
            up: None,
            clients,
            numbers: vec![0; CLIENTS as usize],
            histories: [History::new(SECTORS), History::new(SECTORS)],
            volumes: Volumes::default(),
            saved: plan.spec.clone(),
            verdict: Verdict::default(),
            random,
            ticks: 0,
            connections: 0,
            epoch: EPOCH,
            shelf: Arc::default(),
            excused: Nanos::ZERO,
            stalled: [Nanos::ZERO; DEVICES.len()],
            rested: Nanos::ZERO,
            failed_at: None,
            has_trouble: false,
            is_faulty: false,
            is_rotten: false,
            keeps_rot: false,
            is_stopping: false,
            probes: BTreeMap::new(),
            loses: false,
            is_cut: true,
            outcome: Outcome {
                verdict: Verdict::default(),
                served: Nanos::ZERO,
                requests: 0,
                operations: (0, 0),
                longest_reads: [Nanos::ZERO; DEVICES.len()],
                ends: <_>::default(),
                digest: 0xcbf2_9ce4_8422_2325,
                log: String::new(),
                steps: 0,
            },
            keeps_log,
            has_misled: false,
            stirred: false,
            plan,
        }
    }

    /// Adds an event to the digest and the log.
    fn note(&mut self, what: &str, one: u64, other: u64) {
        for number in [self.now.0, what.len() as u64 ^ u64::from(what.as_bytes()[0]), one, other] {
            self.outcome.digest = (self.outcome.digest ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
        if self.keeps_log {
            use std::fmt::Write as _;
            // Writing to a string cannot fail.
            let _ = writeln!(self.outcome.log, "{} {what} {one} {other}", self.now);
        }
    }

    /// Logs a line that does not count in the digest.
    fn tell_log(&mut self, what: impl FnOnce() -> String) {
        if self.keeps_log {
            use std::fmt::Write as _;
            // Writing to a string cannot fail.
            let _ = writeln!(self.outcome.log, "{} {}", self.now, what());
        }
    }

    fn is_broken(&self) -> bool {
        self.verdict.broken.is_some()
    }

    fn broken(&mut self, promise: Promise, what: String) {
        self.verdict.check(promise, false, || what);
    }

    fn play(&mut self) {
        self.start();
        for at in 0..self.plan.steps.len() {
            let step = self.plan.steps[at];
            self.run_until(self.now.after(step.after));
            if self.is_broken() {
                return;
            }
            self.outcome.steps = at + 1;
            self.act(step.act);
            if self.is_broken() {
                return;
            }
        }
        self.rest();
        if !self.is_broken() {
            self.stop(End::Stopped, Nanos::ZERO);
        }
    }

    fn end(mut self) -> Outcome {
        self.outcome.operations = self.devices.counts();
        self.outcome.verdict = self.verdict;
        self.outcome
    }

    /// Breaks a promise from now on.
    fn mislead(&mut self, canary: Canary) {
        let trouble = match canary {
            Canary::LostWrites => Trouble { lost_per_million: 20_000, ..Trouble::default() },
            Canary::LyingFlushes => Trouble { lies_per_million: 1_000_000, ..Trouble::default() },
            Canary::SwallowedReads => Trouble { swallowed_per_million: 20_000, ..Trouble::default() },
            Canary::LostVolume => return self.devices.table().map_or((), SimulatedFile::lie),
            _ => return,
        };
        self.devices.disks[0].set_trouble(trouble);
    }

    /// Runs until a time.
    fn run_until(&mut self, until: Nanos) {
        let mut turns = 0;
        while !self.is_broken() {
            self.settle();
            let next = self.next_event();
            if next >= until {
                break;
            }
            turns = if next > self.now { 0 } else { turns + 1 };
            if turns > TURNS_MAX {
                return self.broken(Promise::Waits, "the engine turns without an end".into());
            }
            self.go_to(next);
        }
        self.go_to(until);
    }

    fn go_to(&mut self, time: Nanos) {
        if time > self.now {
            if self.up.is_some() {
                self.outcome.served = self.outcome.served.after(time.since(self.now));
            }
            self.now = time;
        }
    }

    /// The time of the next event.
    fn next_event(&self) -> Nanos {
        let due = self.up.as_ref().map_or(Nanos::NEVER, |up| {
            let running = up.sides().filter(|side| side.ended.is_none());
            let wakes = |side: &Side| match self.stalled_until(side) {
                until if until > self.now => until,
                _ => side.due,
            };
            let first = running.map(wakes).fold(up.resume_at, Nanos::min);
            if up.operator.wanted.is_some() { first.min(self.now.after(LOOKS_EVERY)) } else { first }
        });
        let clients = self.clients.iter().filter(|client| client.line.is_some());
        let clients = clients.map(|client| {
            let hears = if client.deaf_until > self.now { client.deaf_until } else { Nanos::NEVER };
            let asks = if client.wants_to_ask() { client.next_at } else { Nanos::NEVER };
            hears.min(asks)
        });
        clients.fold(due, Nanos::min)
    }

    /// Does everything that can be done now.
    fn settle(&mut self) {
        // The operator may have waited for time to pass.
        self.attend();
        for _ in 0..TURNS_MAX {
            self.go_on_asking();
            if !self.turn() || self.is_broken() {
                return;
            }
            self.attend();
        }
        self.broken(Promise::Waits, "the engine turns without an end".into());
    }

    /// Runs one turn of each engine with work; returns whether one had any.
    fn turn(&mut self) -> bool {
        // Some clients may have been deaf until now.
        self.hear();
        let Some(up) = &mut self.up else { return false };
        if up.resume_at <= self.now {
            up.resume_at = Nanos::NEVER;
            if let Some(main) = up.side(0) {
                main.handle.send(Command::Resume(channel().0));
            }
        }
        let (count, is_stirred) = (up.sides.len(), std::mem::take(&mut self.stirred));
        let mut has_turned = false;
        for device in 0..count {
            has_turned |= self.turn_side(device, is_stirred);
        }
        has_turned && !self.is_broken()
    }

    /// When the engine of a device gets a processor again.
    fn stalled_until(&self, side: &Side) -> Nanos {
        if self.plan.canary == Some(Canary::SharedStall) {
            let sides = self.up.iter().flat_map(Up::sides);
            return sides.map(|side| side.stalled_until).fold(Nanos::ZERO, Nanos::max);
        }
        side.stalled_until
    }

    /// The time that requests to a device may have waited for reasons outside of its engine, since the beginning.
    fn excused_of(&self, history: usize) -> Nanos {
        let sides = self.up.iter().flat_map(Up::sides).filter(|side| side.history == history);
        let left = sides.map(|side| side.stalled_until.since(self.now)).fold(Nanos::ZERO, Nanos::max);
        self.excused.after(self.stalled[history].since(left))
    }

    /// Runs one turn of an engine, if it has work; returns whether it had.
    fn turn_side(&mut self, device: usize, is_stirred: bool) -> bool {
        let Some(side) = self.up.as_ref().and_then(|up| up.sides.get(device)?.as_ref()) else { return false };
        if side.ended.is_some() || self.stalled_until(side) > self.now {
            return false;
        }
        let excused = self.excused_of(side.history).after(self.rested);
        let Some(side) = self.up.as_mut().and_then(|up| up.side(device)) else { return false };
        if let Err(error) = side.engine.wait(Nanos::ZERO) {
            self.broken(Promise::Waits, format!("the engine cannot wait: {error}"));
            return false;
        }
        if !side.engine.is_woken() && side.due > self.now && !is_stirred {
            return false;
        }
        self.now = self.now.after(Nanos(1));
        side.passes.excuse(excused);
        match side.engine.turn(self.now) {
            Ok(Turn::WaitUntil(due)) => side.due = due,
            Ok(ended) => side.ended = Some(ended),
            Err(error) => self.broken(Promise::Waits, format!("the engine fails: {error}")),
        }
        self.hear();
        self.read_reports();
        if let Some(side) = self.up.as_mut().and_then(|up| up.side(device)) {
            self.verdict.add(side.shares.take());
            self.verdict.add(side.idle.take());
        }
        true
    }

    /// Lets clients read the received bytes.
    fn hear(&mut self) {
        for number in 0..self.clients.len() {
            let client = &mut self.clients[number];
            if client.deaf_until > self.now || client.line.is_none() {
                continue;
            }
            let mut answers = Vec::new();
            let heard = client.hear(&mut answers);
            let is_over = client.line.as_ref().is_some_and(|line| !line.is_open());
            for answer in answers {
                self.answered(number, answer);
            }
            if let Err(problem) = heard {
                self.broken(Promise::Protocol, format!("client {number} gets {problem}"));
            }
            if is_over {
                self.leave_behind(number);
            }
        }
    }
}
