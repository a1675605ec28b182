//! Runs a world: one thread, one clock, one order of events.

mod acts;
mod answers;
mod asks;
mod bitmaps;
mod ends;
mod services;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use ioweir_core::Nanos;
use ioweir_core::tenant::Share;

use super::canary::Canary;
use super::client::Client;
use super::devices::Devices;
use super::disk::Trouble;
use super::history::History;
use super::passes::Passes;
use super::plan::{CLIENTS, End, Plan, SECTORS};
use super::promise::{Promise, Verdict};
use super::random::Random;
use super::shares::{Both, Shares, Unit};
use super::tally::Tally;
use crate::backend::{MirrorStatus, Shape};
use crate::buffer::Pool;
use crate::engine::{Command, Engine, Handle, Report, ServiceReport, Settings, Timeouts, Turn};
use crate::exports::{Exports, Places};
use crate::log::{DeviceLog, Log};
use crate::nbd::Export;
use crate::spec::{Holder, Spec};
use bitmaps::Span;

/// When the world begins, since 1970.
const EPOCH: Nanos = Nanos::from_seconds(1_700_000_000);
/// What a request may take beside the work before it.
const PATIENCE: Nanos = Nanos::from_seconds(60);
/// Turns of the engine without time going on, after which it is taken to spin.
const TURNS_MAX: u32 = 200_000;
/// How long a world may take to come to rest.
const REST_MAX: Nanos = Nanos::from_seconds(1_200);
const EIO: u32 = 5;
const ENOSPC: u32 = 28;
const ESHUTDOWN: u32 = 108;

/// What a world has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The checks, and what was broken.
    pub verdict: Verdict,
    /// The time that a server was up.
    pub served: Nanos,
    /// Requests that were asked.
    pub requests: u64,
    /// Operations of disks, and faults among them.
    pub operations: (u64, u64),
    /// Servers that ended, in the order of [`End::ALL`].
    pub ends: [u64; End::ALL.len()],
    /// A hash of everything that happened.
    pub digest: u64,
    /// What happened, line by line, if it was asked for.
    pub log: String,
    /// The steps that were taken.
    pub steps: usize,
}

/// A server that is up.
struct Up {
    engine: Engine,
    handle: Handle,
    exports: Arc<[Export]>,
    /// Those that were removed.
    absent: Vec<usize>,
    places: Vec<Places>,
    spec: Spec,
    shares: Shares,
    passes: Passes,
    due: Nanos,
    tally: Tally,
    reports: Vec<Receiver<Report>>,
    /// What the last report has said of services and legs.
    services: Vec<ServiceReport>,
    mirror: Option<MirrorStatus>,
    /// When a pause is ended.
    resume_at: Nanos,
    ended: Option<Turn>,
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
    history: History,
    /// The spans of which each bitmap marks the changes, by name.
    bitmaps: BTreeMap<String, Vec<Span>>,
    verdict: Verdict,
    random: Random,
    /// The number of what was asked or answered last.
    ticks: u64,
    connections: u64,
    /// The time since 1970 when the world's time was zero, as the wall clock says now.
    epoch: Nanos,
    /// What services keep.
    shelf: Arc<Mutex<Vec<u8>>>,
    /// Time that requests may have waited for reasons outside of the server, since the beginning.
    excused: Nanos,
    /// Time that services were told to rest, or to be slow, since the beginning.
    rested: Nanos,
    /// When a flush failed, of the server that is up.
    failed_at: Option<u64>,
    /// Whether anything has gone wrong with a disk since the server came up.
    has_trouble: bool,
    /// Whether any of that may be an error to clients.
    is_faulty: bool,
    /// Whether sectors may hold what nobody wrote there, and the disks where that is so.
    is_rotten: bool,
    rotten: u64,
    /// Whether what went wrong on one of two legs may not have been noticed before the checksums were gone with their server: each start
    /// may find either leg's data, until a scrub has made them the same.
    legs_differ: bool,
    /// Whether reads of copies have to be counted anew, since they may have changed.
    counts_anew: bool,
    /// Whether a start found a sector that had rotted, in a block without a checksum.
    keeps_rot: bool,
    is_stopping: bool,
    /// Reads of sectors after a crash.
    probes: BTreeMap<u64, u64>,
    /// Whether the last server may have lost what was not durable, and whether the disks have.
    loses: bool,
    is_cut: bool,
    outcome: Outcome,
    keeps_log: bool,
    has_misled: bool,
    stirred: bool,
}

/// Runs a plan, and writes down what happens if asked to.
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
            history: History::new(SECTORS),
            bitmaps: BTreeMap::new(),
            verdict: Verdict::default(),
            random,
            ticks: 0,
            connections: 0,
            epoch: EPOCH,
            shelf: Arc::default(),
            excused: Nanos::ZERO,
            rested: Nanos::ZERO,
            failed_at: None,
            has_trouble: false,
            is_faulty: false,
            is_rotten: false,
            legs_differ: false,
            rotten: 0,
            counts_anew: false,
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

    /// Notes what happened.
    fn note(&mut self, what: &str, one: u64, other: u64) {
        for number in [self.now.0, what.len() as u64 ^ u64::from(what.as_bytes()[0]), one, other] {
            self.outcome.digest = (self.outcome.digest ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
        if self.keeps_log {
            use std::fmt::Write as _;
            // Memory takes what is written.
            let _ = writeln!(self.outcome.log, "{} {what} {one} {other}", self.now);
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

    /// Starts a server on the disks as they are.
    fn start(&mut self) {
        let opened = self.open();
        match opened {
            Ok(up) => self.up = Some(up),
            Err(problem) => self.broken(Promise::Durable, format!("the server does not start again: {problem}")),
        }
        self.note("start", 0, 0);
        if !self.is_broken() {
            self.probe();
        }
        self.check_bitmaps();
        if !self.is_broken() && self.plan.backing.has_checksums() {
            self.fill();
        }
        if !self.is_broken() {
            self.devices.calm();
            if let Some(canary) = self.plan.canary {
                self.mislead(canary);
            }
        }
    }

    fn open(&mut self) -> Result<Up, String> {
        let spec = Spec::parse("world", &self.plan.spec).map_err(|error| error.to_string())?;
        let device = spec.device[0].clone();
        let pool = Pool::new(device.request_bytes_max.0 as usize);
        let backend = self.devices.open(&device)?;
        let places = [Places { shape: Shape::of(&*backend), volumes: BTreeMap::new(), bitmaps: Arc::new([]) }];
        let exports = Exports::of(&spec, &places)?.list;
        let classes: Vec<String> = spec.classes().into_iter().map(|class| class.name).collect();
        let services = self.services(&spec);
        let scrub = self.scrub(&services);
        let mut parts = places[0].shape.parts.clone();
        if parts.is_empty() {
            parts.push(0..SECTORS * 512);
        }
        let log = Log::default();
        let settings = Settings {
            exports: Arc::clone(&exports),
            own_classes: spec.classes_of(0),
            device: device.clone(),
            workers: None,
            timeouts: Timeouts::new(&spec.server),
            priorities: spec.priorities(),
            services,
            epoch: self.epoch,
            now: self.now,
            log: DeviceLog { log, device: "d".into(), classes: classes.iter().cloned().collect() },
        };
        let mut engine = Engine::new(settings, backend, pool).map_err(|error| error.to_string())?;
        let entitlements = spec.entitlements(0);
        let shares = self.shares(&spec, classes.len(), &entitlements);
        engine.configure(Arc::clone(&exports), &entitlements).map_err(|error| error.to_string())?;
        let sectors = parts.into_iter().flat_map(|part| part.start / 512..part.end / 512);
        let passes = Passes::new((self.now, self.excused.after(self.rested)), scrub, sectors);
        engine.observe(Box::new(Both(shares.clone(), passes.clone())));
        let (handle, due, reports, resume_at, ended) = (engine.handle(), Nanos::ZERO, Vec::new(), Nanos::NEVER, None);
        let (tally, services, mirror) = (Tally::new(classes.len(), exports.len()), Vec::new(), None);
        let (places, absent) = (places.into(), Vec::new());
        Ok(Up {
            engine,
            handle,
            exports,
            absent,
            places,
            spec,
            shares,
            passes,
            due,
            tally,
            reports,
            services,
            mirror,
            resume_at,
            ended,
        })
    }

    /// The checker of shares.
    fn shares(&self, spec: &Spec, classes: usize, entitlements: &[(Holder, Share)]) -> Shares {
        let device = &spec.device[0];
        let scheduler = device.scheduler.to_string();
        let fair = match scheduler.as_str() {
            _ if device.merge => None,
            "sfq" | "wfq" => Some(Unit::Request),
            "sfq:cost=sectors" => Some(Unit::Sector),
            _ => None,
        };
        // A pair releases before it dispatches.
        let reserves = matches!(scheduler.as_str(), "mclock" | "reward");
        let shares = Shares::new(classes, fair, (!scheduler.contains('+'), reserves));
        if self.plan.canary == Some(Canary::StoppedClock) {
            shares.stop_clock();
        }
        for (holder, share) in entitlements {
            if let Holder::Class(class) = holder {
                let share = match self.plan.canary {
                    Some(Canary::OtherLimit) if share.limit_per_second > 0 => {
                        Share { limit_per_second: share.limit_per_second.div_ceil(4), ..*share }
                    }
                    Some(Canary::OtherWeights) => Share { weight: 1 + class.0 * 90, ..*share },
                    Some(Canary::OtherReservations) if share.reservation_per_second > 0 => {
                        Share { reservation_per_second: share.reservation_per_second * 4, ..*share }
                    }
                    _ => *share,
                };
                shares.expect(self.now, class.0, share);
            }
        }
        shares
    }

    /// Breaks a promise from now on.
    fn mislead(&mut self, canary: Canary) {
        let trouble = match canary {
            Canary::LostWrites => Trouble { lost_per_million: 20_000, ..Trouble::default() },
            Canary::LyingFlushes => Trouble { lies_per_million: 1_000_000, ..Trouble::default() },
            Canary::SwallowedReads => Trouble { swallowed_per_million: 20_000, ..Trouble::default() },
            _ => return,
        };
        self.devices.disks[0].set_trouble(trouble);
    }

    /// Goes on to a time.
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

    /// When something happens next by itself.
    fn next_event(&self) -> Nanos {
        let running = self.up.as_ref().filter(|up| up.ended.is_none());
        let due = running.map_or(Nanos::NEVER, |up| up.due.min(up.resume_at));
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
        for _ in 0..TURNS_MAX {
            self.go_on_asking();
            if !self.turn() || self.is_broken() {
                return;
            }
        }
        self.broken(Promise::Waits, "the engine turns without an end".into());
    }

    /// One turn of the engine, if there is anything to do; returns whether there was.
    fn turn(&mut self) -> bool {
        // Some may have been deaf until now.
        self.hear();
        let Some(up) = &mut self.up else { return false };
        if up.ended.is_some() {
            return false;
        }
        if up.resume_at <= self.now {
            up.resume_at = Nanos::NEVER;
            up.handle.send(Command::Resume(channel().0));
        }
        if let Err(error) = up.engine.wait(Nanos::ZERO) {
            self.broken(Promise::Waits, format!("the engine cannot wait: {error}"));
            return false;
        }
        if !up.engine.is_woken() && up.due > self.now && !self.stirred {
            return false;
        }
        self.stirred = false;
        self.now = self.now.after(Nanos(1));
        up.passes.excuse(self.excused.after(self.rested));
        match up.engine.turn(self.now) {
            Ok(Turn::WaitUntil(due)) => up.due = due,
            Ok(ended) => up.ended = Some(ended),
            Err(error) => self.broken(Promise::Waits, format!("the engine fails: {error}")),
        }
        self.hear();
        self.read_reports();
        if let Some(up) = &self.up {
            self.verdict.add(up.shares.take());
        }
        true
    }

    /// Clients read what has come in.
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
