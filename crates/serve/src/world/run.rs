//! Runs a world: one thread, one clock, one order of events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, StreamId};

use super::canary::Canary;
use super::client::{Answer, Ask, Client, Flood, Outstanding};
use super::devices::Devices;
use super::disk::Trouble;
use super::history::{History, Kind};
use super::plan::{Act, Backing, CLIENTS, End, Leave, Order, Plan, SECTORS, SLICE_FROM};
use super::promise::{Promise, Verdict};
use super::random::Random;
use super::shares::{Shares, Unit};
use super::tally::Tally;
use super::wire::Line;
use crate::backend::Shape;
use crate::buffer::Pool;
use crate::control::{assign, change_of};
use crate::engine::{self, Command, Engine, Handle, Question, Report, ServicePlan, Settings, Timeouts, Turn};
use crate::exports::{Exports, Places};
use crate::log::{DeviceLog, Log, Peer};
use crate::nbd::protocol::COMMAND_FUA;
use crate::nbd::{Agreed, Export, Negotiation, Progress, Replies, Tls};
use crate::spec::{self, Holder, Spec};

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
    /// Servers that ended: with the power, killed, or stopped.
    pub ends: [u64; 3],
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
    spec: Spec,
    shares: Shares,
    due: Nanos,
    tally: Tally,
    reports: Vec<Receiver<Report>>,
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
    verdict: Verdict,
    random: Random,
    /// The number of what was asked or answered last.
    ticks: u64,
    connections: u64,
    /// Time that requests may have waited for reasons outside of the server, since the beginning.
    excused: Nanos,
    /// When a flush failed, of the server that is up.
    failed_at: Option<u64>,
    /// Whether anything has gone wrong with a disk since the server came up.
    has_trouble: bool,
    /// Whether sectors may hold what nobody wrote there.
    is_rotten: bool,
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
            verdict: Verdict::default(),
            random,
            ticks: 0,
            connections: 0,
            excused: Nanos::ZERO,
            failed_at: None,
            has_trouble: false,
            is_rotten: false,
            is_stopping: false,
            probes: BTreeMap::new(),
            loses: false,
            is_cut: true,
            outcome: Outcome {
                verdict: Verdict::default(),
                served: Nanos::ZERO,
                requests: 0,
                operations: (0, 0),
                ends: [0; 3],
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
        if !self.is_broken() && self.plan.backing == Backing::Checked {
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
        let places = [Places { shape: Shape::of(&*backend), volumes: BTreeMap::new() }];
        let exports = Exports::of(&spec, &places)?.list;
        let mut priorities = spec.priorities();
        let mut classes: Vec<String> = spec.classes().into_iter().map(|class| class.name).collect();
        let services = self.service().map(|spec| ServicePlan { class: StreamId(4), spec, state: None });
        let services: Vec<_> = services.into_iter().collect();
        if !services.is_empty() {
            priorities.push(<_>::default());
            classes.push("service".into());
        }
        let log = Log::default();
        let settings = Settings {
            exports: Arc::clone(&exports),
            own_classes: (0..classes.len() as u32).map(StreamId).collect(),
            device: device.clone(),
            workers: None,
            timeouts: Timeouts::new(&spec.server),
            priorities,
            services,
            epoch: EPOCH,
            log: DeviceLog { log, device: "d".into(), classes: classes.iter().cloned().collect() },
        };
        let mut engine = Engine::new(settings, backend, pool).map_err(|error| error.to_string())?;
        let entitlements = spec.entitlements(0);
        let shares = self.shares(&spec, classes.len(), &entitlements);
        engine.configure(Arc::clone(&exports), &entitlements).map_err(|error| error.to_string())?;
        engine.observe(Box::new(shares.clone()));
        let (handle, due, reports, resume_at, ended) = (engine.handle(), Nanos::ZERO, Vec::new(), Nanos::NEVER, None);
        let tally = Tally::new(classes.len());
        Ok(Up { engine, handle, exports, spec, shares, due, tally, reports, resume_at, ended })
    }

    /// The service of the device, if there is one to do.
    fn service(&self) -> Option<spec::Service> {
        let (kind, keys) = match self.plan.backing {
            Backing::Mirror => (
                "resync",
                "backend = \"mirror\"\n[[device.leg]]\nbackend = \"memory\"\nsize = \"1MiB\"\n[[device.leg]]\nbackend = \"memory\"\nsize = \"1MiB\"",
            ),
            Backing::Late => ("trim", "backend = \"memory\"\nsize = \"1MiB\""),
            _ => return None,
        };
        let text = format!(
            "[[device]]\nname = \"d\"\n{keys}\n[[export]]\nname = \"a\"\ndevice = \"d\"\n\
            [service.work]\ndevice = \"d\"\nkind = \"{kind}\"\ndefault = \"run\"\n"
        );
        Spec::parse("world", &text).ok()?.service.remove("work")
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
        let shares = Shares::new(classes, fair, !scheduler.contains('+'));
        for (holder, share) in entitlements {
            if let Holder::Class(class) = holder {
                let share = match self.plan.canary {
                    Some(Canary::OtherLimit) if share.limit_per_second > 0 => {
                        Share { limit_per_second: share.limit_per_second.div_ceil(4), ..*share }
                    }
                    Some(Canary::OtherWeights) => Share { weight: 1 + class.0 * 90, ..*share },
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
        match up.engine.turn(self.now) {
            Ok(Turn::WaitUntil(due)) => up.due = due,
            Ok(ended) => up.ended = Some(ended),
            Err(error) => self.broken(Promise::Waits, format!("the engine fails: {error}")),
        }
        self.hear();
        self.read_reports();
        if let Some(up) = &self.up {
            let shares = up.shares.take();
            for (sum, more) in self.verdict.checks.iter_mut().zip(shares.checks) {
                *sum += more;
            }
            if self.verdict.broken.is_none() {
                self.verdict.broken = shares.broken;
            }
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

    /// The connection of a client has ended.
    fn leave_behind(&mut self, number: usize) {
        self.note("left", number as u64, 0);
        for (cookie, asked) in self.clients[number].left() {
            self.history.lose(cookie);
            if let Some(up) = &mut self.up {
                up.tally.lost(self.clients[number].export, &asked);
            }
            if self.probes.remove(&cookie).is_some() {
                self.broken(Promise::Waits, "a client is cut off while it reads after a start".into());
            }
        }
    }

    /// A client is answered.
    fn answered(&mut self, number: usize, answer: Answer) {
        self.ticks += 1;
        let Answer { cookie, asked, mut error, data } = answer;
        self.note("answer", cookie, u64::from(error));
        if self.plan.canary == Some(Canary::HiddenFailure) && self.failed_at.is_some() && error == EIO {
            error = 0;
        }
        self.check_answer(number, &asked, error);
        let until = self.ticks;
        if asked.is_valid && self.forgets() {
            // The canary of counters.
        } else if let Some(up) = &mut self.up {
            up.tally.answered(self.clients[number].export, &asked, error);
        }
        if asked.ask == Ask::Flush && asked.is_valid {
            if error == 0 {
                self.history.flushed(asked.from);
            } else if error == EIO {
                self.failed_at.get_or_insert(until);
            }
        }
        let (history, verdict) = (&mut self.history, &mut self.verdict);
        match asked.ask {
            Ask::Read if asked.is_valid => match read_values(&data, error) {
                Ok(values) => {
                    if let Some(first) = self.probes.remove(&cookie) {
                        self.probed(first, values.as_deref());
                    } else {
                        let values = if self.is_rotten && values.is_some() && self.plan.backing != Backing::Checked {
                            None
                        } else {
                            values
                        };
                        history.read(cookie, until, values.as_deref(), verdict);
                    }
                }
                // Nothing is known of what is there after a start.
                Err(()) if self.is_rotten && self.probes.remove(&cookie).is_some() => {}
                Err(()) => self.broken(Promise::Linearisable, format!("a sector of the read {cookie} is torn")),
            },
            Ask::Write | Ask::Trim | Ask::Zero if asked.is_valid => {
                history.wrote(cookie, until, (error != 0, asked.fua && error == 0), verdict);
            }
            _ => {}
        }
        let client = &mut self.clients[number];
        if let Some(flood) = client.flood {
            client.next_at = self.now.after(flood.thinks);
        }
        if self.plan.canary == Some(Canary::SecondAnswer) && !self.has_misled && cookie > 40 {
            self.has_misled = true;
            let awaited = self.clients[number].outstanding.contains_key(&cookie);
            self.verdict.check(Promise::Protocol, awaited, || format!("an answer with cookie {cookie} comes twice"));
        }
    }

    fn forgets(&mut self) -> bool {
        let forgets = self.plan.canary == Some(Canary::ForgottenAnswer) && !self.has_misled && self.ticks > 60;
        self.has_misled |= forgets;
        forgets
    }

    /// Whether an answer is one that there may be, and comes in time.
    fn check_answer(&mut self, number: usize, asked: &Outstanding, error: u32) {
        let has_failed = self.failed_at.is_some_and(|at| asked.from > at);
        if has_failed && asked.is_valid && (asked.ask.changes() || asked.ask == Ask::Flush) {
            let what =
                || format!("a {:?} of client {number} succeeds although a flush has failed before it", asked.ask);
            self.verdict.check(Promise::FailedStays, error != 0, what);
        }
        let may_fail = self.has_trouble || self.failed_at.is_some();
        let fits = match error {
            0 => asked.is_valid,
            EIO | ENOSPC => !asked.is_valid || may_fail,
            ESHUTDOWN => true,
            _ => !asked.is_valid,
        };
        self.verdict.check(Promise::Protocol, fits, || {
            format!(
                "client {number} is answered with {error}: {:?} of {} sectors at {}",
                asked.ask, asked.sectors, asked.first
            )
        });
        let waited = self.now.since(asked.at).since(self.excused.since(asked.excused));
        self.verdict.check(Promise::Waits, waited <= asked.patience, || {
            format!("client {number} waits {waited} for a {:?}, with patience for {}", asked.ask, asked.patience)
        });
    }

    /// After a start, a sector holds what it may.
    fn probed(&mut self, first: u64, values: Option<&[u32]>) {
        let Some(values) = values else { return };
        let promise = if self.loses { Promise::Durable } else { Promise::Linearisable };
        for (sector, &value) in (first..).zip(values) {
            if self.is_rotten {
                self.history.adopt(self.ticks, sector, value, self.is_cut);
            } else {
                self.history.found(self.ticks, sector, value, (promise, self.is_cut), &mut self.verdict);
            }
        }
    }

    /// Reads everything after a start.
    fn probe(&mut self) {
        self.connect(0, 0, Replies::Structured);
        for first in (0..SECTORS).step_by(8) {
            let cookie = self.send(0, Ask::Read, false, first, 8);
            self.history.read(cookie, self.ticks, None, &mut self.verdict);
            self.probes.insert(cookie, first);
        }
        let until = self.now.after(REST_MAX);
        while !self.probes.is_empty() && self.now < until && !self.is_broken() {
            self.run_until(self.now.after(Nanos::from_millis(10)));
        }
        if !self.is_broken() {
            let left = self.probes.len();
            self.verdict.check(Promise::Waits, left == 0, || "what is there after a start cannot be read".into());
        }
        self.is_rotten = false;
    }

    /// Writes everything, so that every block has a checksum.
    fn fill(&mut self) {
        for first in (0..SECTORS).step_by(8) {
            self.send(0, Ask::Write, false, first, 8);
        }
        let until = self.now.after(REST_MAX);
        while !self.clients[0].outstanding.is_empty() && self.now < until && !self.is_broken() {
            self.run_until(self.now.after(Nanos::from_millis(10)));
        }
    }

    /// A client connects, and negotiates until it has an export.
    fn connect(&mut self, number: usize, export: usize, replies: Replies) {
        if self.clients[number].line.is_some() {
            return;
        }
        let Some(up) = &self.up else { return };
        let name = up.exports[export].name.clone();
        let mut negotiation = Negotiation::new(Arc::clone(&up.exports), Tls::None);
        let (sent, mut out) = (handshake(&name, replies), negotiation.greeting().to_vec());
        let mut pieces = sent.as_slice();
        let agreed = loop {
            let length = (1 + self.random.below(60) as usize).min(pieces.len());
            if length == 0 {
                break None;
            }
            let mut piece = &pieces[..length];
            let progress = negotiation.feed(&mut piece, &mut out);
            pieces = &pieces[length - piece.len()..];
            match progress {
                Progress::More | Progress::Answered => {}
                Progress::Agreed(agreed) => break Some(agreed),
                Progress::StartTls | Progress::Closed => break None,
            }
        };
        let fits = agreed.is_some_and(|agreed| agreed.export == export && agreed.replies == replies);
        self.verdict.check(Promise::Protocol, fits, || format!("export {name} is not agreed on with {replies:?}"));
        let Some(agreed) = agreed else { return };
        self.join(number, agreed);
    }

    /// A client that has agreed on an export goes to the engine.
    fn join(&mut self, number: usize, agreed: Agreed) {
        self.connections += 1;
        self.note("connect", number as u64, agreed.export as u64);
        let line = Line::new(self.random.fork(self.connections), self.plan.short_per_million);
        let client = &mut self.clients[number];
        (client.line, client.export, client.replies) = (Some(line.clone()), agreed.export, agreed.replies);
        self.numbers[number] = self.connections;
        let Some(up) = &mut self.up else { return };
        up.handle.send(Command::Serve(Box::new(engine::Client {
            input: line.end().into(),
            output: None,
            session: None,
            agreed,
            class: StreamId(agreed.export as u32),
            number: self.connections,
            peer: Peer::Unknown,
            identity: <_>::default(),
            leftover: Vec::new(),
            unsent: Vec::new(),
            permit: None,
        })));
        self.stirred = true;
    }

    /// A client asks, whether it makes sense or not; returns the cookie.
    fn send(&mut self, number: usize, ask: Ask, fua: bool, first: u64, sectors: u64) -> u64 {
        self.ticks += 1;
        self.outcome.requests += 1;
        let cookie = self.ticks;
        self.note("ask", cookie, (first << 8 | sectors) << 4 | u64::from(ask.number()));
        let is_read_only = self.clients[number].export == 3;
        let is_valid =
            !(is_read_only && ask.changes() || ask == Ask::Extents && self.clients[number].replies == Replies::Simple);
        let base = self.base(number);
        let outstanding: usize = self.clients.iter().map(|client| client.outstanding.len()).sum();
        let slowest = self.devices.slowest(&self.plan).0 * if self.has_trouble { 100 } else { 1 };
        // Each may have to read and write twice, in as many pieces.
        let patience = PATIENCE.after(Nanos((outstanding as u64 + 64) * slowest * 8));
        let client = &mut self.clients[number];
        let (offset, length) = if ask == Ask::Flush { (0, 0) } else { (first * 512, sectors * 512) };
        let flags = if fua { COMMAND_FUA } else { 0 };
        let mut bytes = client.head(ask.number(), flags, cookie, offset, length);
        if ask == Ask::Write {
            bytes.extend((cookie as u32).to_be_bytes().repeat(length as usize / 4));
        }
        let asked =
            Outstanding::new(ask, (fua, is_valid), (first, sectors), (self.ticks, self.now), (self.excused, patience));
        client.outstanding.insert(cookie, asked);
        if let Some(line) = &client.line {
            line.send(&bytes);
        }
        let range = (base + first, base + first + sectors);
        if is_valid {
            match ask {
                Ask::Read => self.history.ask(cookie, self.ticks, range, Kind::Read),
                Ask::Write => self.history.ask(cookie, self.ticks, range, Kind::Write(cookie as u32)),
                Ask::Trim if self.plan.backing == Backing::Late => {
                    self.history.ask(cookie, self.ticks, range, Kind::Discard);
                }
                Ask::Trim | Ask::Zero => self.history.ask(cookie, self.ticks, range, Kind::Write(0)),
                Ask::Flush | Ask::Extents | Ask::Cache => {}
            }
        }
        cookie
    }

    /// Where the export of a client begins, in sectors.
    fn base(&self, number: usize) -> u64 {
        if self.clients[number].export == 2 { SLICE_FROM } else { 0 }
    }

    /// A client asks, if it may ask more, and the sectors are not crowded.
    fn ask(&mut self, number: usize, ask: Ask, fua: bool, first: u64, sectors: u64) {
        if self.plan.backing == Backing::Checked && matches!(ask, Ask::Trim | Ask::Zero) {
            // Such blocks have no checksums.
            return;
        }
        let client = &self.clients[number];
        if client.line.is_none() || client.is_spoilt || client.outstanding.len() >= 100 {
            return;
        }
        let base = self.base(number);
        let first = first % (SECTORS - base);
        let sectors = sectors.min(SECTORS - base - first).max(u64::from(ask != Ask::Flush));
        if ask != Ask::Flush && !self.history.has_room(base + first, base + first + sectors) {
            return;
        }
        self.send(number, ask, fua, first, sectors);
    }

    /// Clients in a flood ask again.
    fn go_on_asking(&mut self) {
        for number in 0..self.clients.len() {
            while let client = &mut self.clients[number]
                && client.wants_to_ask()
                && client.next_at <= self.now
                && let Some(flood) = &mut client.flood
            {
                flood.count -= 1;
                let Flood { reads, sectors, thinks, .. } = *flood;
                let random = &mut client.random;
                let ask = if random.below(100) < u64::from(reads) { Ask::Read } else { Ask::Write };
                let ask = if random.below(64) == 0 { Ask::Flush } else { ask };
                let length = if sectors == 0 { random.within(1, 25) } else { sectors };
                let first = random.below(SECTORS) / length * length;
                if thinks > Nanos::ZERO {
                    client.next_at = self.now.after(thinks);
                }
                self.ask(number, ask, false, first, if ask == Ask::Flush { 0 } else { length });
            }
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Connect(client, export, replies) => self.connect(client as usize, export, replies),
            Act::Ask(client, ask, fua, first, sectors) => self.ask(client as usize, ask, fua, first, sectors),
            Act::Nonsense(client, draw) => self.ask_nonsense(client as usize, draw),
            Act::Flood(client, flood) => {
                let client = &mut self.clients[client as usize];
                if client.line.is_some() && !client.is_spoilt {
                    (client.flood, client.next_at) = (Some(flood), self.now);
                }
            }
            Act::Deaf(client, span) => {
                let client = &mut self.clients[client as usize];
                if client.line.is_some() {
                    client.deaf_until = self.now.after(span);
                    self.excused = self.excused.after(span);
                }
            }
            Act::Leave(client, how) => self.leave(client as usize, how),
            Act::Order(order) => self.order(order),
            Act::Trouble(disk, trouble) => {
                let until = trouble.hangs_until;
                self.excused = self.excused.after(until);
                let hangs_until = if until > Nanos::ZERO { self.now.after(until) } else { until };
                self.has_trouble = true;
                self.is_rotten |=
                    trouble.rot_per_million + trouble.lost_per_million + trouble.misdirected_per_million > 0;
                self.note("trouble", disk as u64, until.0);
                self.devices.disks[disk].set_trouble(Trouble { hangs_until, ..trouble });
            }
            Act::Jump(span) => {
                self.note("jump", span.0, 0);
                self.excused = self.excused.after(span);
                self.now = self.now.after(span);
            }
            Act::End(end, pause) => self.stop(end, pause),
            Act::Rest => self.rest(),
        }
    }

    /// A client asks for what no server may do.
    fn ask_nonsense(&mut self, number: usize, draw: u64) {
        let client = &self.clients[number];
        if client.line.is_none() || client.is_spoilt || client.outstanding.len() >= 100 {
            return;
        }
        self.ticks += 1;
        let (cookie, size) = (self.ticks, SECTORS * 512);
        self.note("nonsense", cookie, draw % 5);
        let client = &self.clients[number];
        let (command, flags, offset, length) = match draw % 5 {
            0 => (0, 0, size, 512),
            1 => (1, 0, size - 256, 1024),
            2 => (77, 0, 0, 0),
            3 => (3, 0, 512, 4096),
            _ => (4, 1 << 12, 0, 512),
        };
        let mut bytes = client.head(command, flags, cookie, offset, length);
        if command == 1 {
            bytes.resize(bytes.len() + length as usize, 7);
        }
        let ask = match command {
            0 => Ask::Read,
            1 => Ask::Write,
            4 => Ask::Trim,
            _ => Ask::Flush,
        };
        let patience = (self.excused, Nanos::from_seconds(86_400));
        let asked =
            Outstanding::new(ask, (false, false), (offset / 512, length / 512), (self.ticks, self.now), patience);
        let client = &mut self.clients[number];
        client.outstanding.insert(cookie, asked);
        if let Some(line) = &client.line {
            line.send(&bytes);
        }
    }

    fn leave(&mut self, number: usize, how: Leave) {
        let client = &mut self.clients[number];
        let Some(line) = client.line.clone() else { return };
        if client.is_spoilt {
            return;
        }
        client.flood = None;
        client.is_spoilt = true;
        match how {
            Leave::Disconnect => line.send(&client.head(2, 0, 1, 0, 0)),
            Leave::HalfClose => line.half_close(),
            Leave::Reset => line.reset(),
            Leave::HalfARequest => {
                self.ticks += 1;
                let cookie = self.ticks;
                let asked = (self.excused, Nanos::NEVER);
                let asked = Outstanding::new(Ask::Write, (false, false), (0, 8), (cookie, self.now), asked);
                client.outstanding.insert(cookie, asked);
                line.send(&client.head(1, 0, cookie, 0, 4096));
                line.send(&[1; 700]);
            }
            Leave::Garbage => line.send(&[0xaa; 64]),
        }
        self.note("leaves", number as u64, how as u64);
        if how == Leave::Reset {
            self.leave_behind(number);
        }
    }

    fn order(&mut self, order: Order) {
        let Some(up) = &mut self.up else { return };
        match order {
            Order::Change(draw) | Order::Withdrawn(draw) => {
                let (export, weight) = (["a", "b", "slice"][(draw % 3) as usize], 1 + (draw >> 8) % 100);
                let mut assignments = vec![format!("export.{export}.weight={weight}")];
                if export == "b" && (draw >> 32) % 2 == 0 {
                    assignments.push(format!("export.b.limit={}/s", 20 + (draw >> 20) % 1000));
                }
                // A scheduler without shares takes none.
                let Ok(spec) = assign(&up.spec, &assignments) else { return };
                let Some((change, hear, verdict)) = change_of(&up.spec, &spec, 0, None) else { return };
                up.handle.send(Command::Change(Box::new(change)));
                let is_kept = matches!(order, Order::Change(_));
                if is_kept {
                    // The engine waits for the other end in its turn.
                    let _ = verdict.send(());
                }
                drop(verdict);
                self.stirred = true;
                self.turn();
                if let (Some(up), true, Ok(Ok(()))) = (&mut self.up, is_kept, hear.try_recv()) {
                    up.spec = spec;
                }
            }
            Order::Kick(client) => up.handle.send(Command::Kick(self.numbers[client as usize], channel().0)),
            Order::Clients => up.handle.send(Command::Clients(channel().0)),
            Order::Pause(span) => {
                self.excused = self.excused.after(span);
                up.resume_at = self.now.after(Nanos(span.0 / 2));
                up.handle.send(Command::Pause(span, channel().0));
            }
            Order::Reopen => up.handle.send(Command::Reopen(channel().0)),
            Order::Report => self.ask_report(),
        }
        self.note(order.name(), 0, 0);
    }

    fn ask_report(&mut self) {
        let Some(up) = &mut self.up else { return };
        let (sender, receiver) = channel();
        // The world listens as long as it is there.
        let reply = Box::new(move |report| drop(sender.send(report)));
        up.handle.send(Command::Report(Question { counters: Box::default(), reply }));
        up.reports.push(receiver);
        self.stirred = true;
    }

    fn read_reports(&mut self) {
        let Some(up) = &mut self.up else { return };
        up.reports.retain(|receiver| match receiver.try_recv() {
            Ok(report) => {
                up.tally.reported(report);
                false
            }
            Err(_) => true,
        });
    }

    /// Lets everything that was asked be answered, and looks whether all adds up.
    fn rest(&mut self) {
        if self.up.is_none() {
            return;
        }
        self.devices.calm();
        if let Some(canary) = self.plan.canary {
            self.mislead(canary);
        }
        for client in &mut self.clients {
            client.flood = None;
            client.deaf_until = client.deaf_until.min(self.now);
        }
        let until = self.now.after(REST_MAX);
        while self.now < until && !self.is_broken() && !self.is_at_rest() {
            self.run_until(self.now.after(Nanos::from_seconds(1)));
        }
        if self.is_broken() {
            return;
        }
        let requests = self.up.as_ref().map_or(0, |up| up.engine.requests());
        let outstanding: usize = self.clients.iter().map(|client| client.outstanding.len()).sum();
        self.verdict.check(Promise::Waits, requests == 0 && outstanding == 0, || {
            let left = self.clients.iter().flat_map(|client| client.outstanding.values());
            let left: Vec<_> = left.map(|asked| (asked.ask, asked.is_valid, asked.first, asked.sectors)).collect();
            format!("{outstanding} requests are not answered at rest, and the server has {requests}: {left:?}")
        });
        if self.is_broken() {
            return;
        }
        self.history.settle(self.ticks, &mut self.verdict);
        self.ask_report();
        self.settle();
        self.note("rest", self.outcome.requests, 0);
        if let Some(up) = &mut self.up {
            let buffered = up.engine.buffered_bytes();
            self.verdict
                .check(Promise::Waits, buffered == 0, || format!("{buffered} bytes of buffers are in use at rest"));
            let has_service = up.spec.classes().len() < up.tally.classes();
            up.tally.check(has_service, &mut self.verdict);
        }
        if self.failed_at.is_some() || self.has_failed() {
            // Its operator restarts the server; what the system could not write is gone.
            self.stop(End::Power, Nanos::from_seconds(1));
        }
        self.has_trouble = self.plan.backing == Backing::Checked && self.is_rotten;
    }

    fn has_failed(&self) -> bool {
        self.up.as_ref().is_some_and(|up| up.engine.failure().is_some())
    }

    fn is_at_rest(&self) -> bool {
        let requests = self.up.as_ref().map_or(0, |up| up.engine.requests());
        requests == 0 && self.clients.iter().all(|client| client.outstanding.is_empty() && !client.is_spoilt)
    }

    /// The server ends, and another one starts.
    fn stop(&mut self, end: End, pause: Nanos) {
        self.note("end", end as u64, 0);
        let mut loses = end == End::Power;
        if end == End::Stopped {
            loses = self.stop_well();
        }
        // A server that was only killed would find what no flush makes durable.
        loses |= self.devices.have_lost();
        if self.is_broken() {
            return;
        }
        self.outcome.ends[end as usize] += 1;
        for number in 0..self.clients.len() {
            if self.clients[number].line.is_some() {
                self.leave_behind(number);
            }
        }
        self.ticks += 1;
        // A map that was not made durable is gone with the process.
        let forgets = loses || self.plan.backing == Backing::Placed;
        self.history.crash(self.ticks, forgets, &mut self.verdict);
        (self.loses, self.is_cut) = (forgets, loses);
        self.devices.turn_off(loses);
        self.up = None;
        self.devices.turn_on();
        (self.failed_at, self.is_stopping) = (None, false);
        self.has_trouble = self.is_rotten;
        self.now = self.now.after(pause);
        if !self.is_broken() {
            self.start();
        }
        self.has_trouble = false;
    }

    /// Asks the server to stop; returns whether what it had answered may be gone after it.
    fn stop_well(&mut self) -> bool {
        let Some(up) = &mut self.up else { return false };
        up.handle.send(Command::Stop(None));
        self.is_stopping = true;
        let until = self.now.after(Nanos::from_seconds(100));
        while self.up.as_ref().is_some_and(|up| up.ended.is_none()) && self.now < until && !self.is_broken() {
            self.run_until(self.now.after(Nanos::from_millis(100)));
        }
        let ended = self.up.as_ref().and_then(|up| up.ended);
        self.verdict.check(Promise::Waits, ended.is_some(), || "the server does not stop".into());
        let is_clean = ended == Some(Turn::Stopped) && !self.has_failed();
        if is_clean {
            // All that was answered is durable, whatever becomes of the disks.
            self.ticks += 1;
            self.history.flushed(self.ticks);
            self.loses = true;
        }
        true
    }
}

/// The values of the sectors that were read, if they were; an error if one of them is torn.
fn read_values(data: &[u8], error: u32) -> Result<Option<Vec<u32>>, ()> {
    if error != 0 {
        return Ok(None);
    }
    let value = |sector: &[u8]| {
        let is_whole = sector[4..] == sector[..sector.len() - 4];
        is_whole.then(|| u32::from_be_bytes([sector[0], sector[1], sector[2], sector[3]])).ok_or(())
    };
    data.chunks_exact(512).map(value).collect::<Result<Vec<_>, _>>().map(Some)
}

/// What a client sends until it has agreed on an export.
fn handshake(export: &str, replies: Replies) -> Vec<u8> {
    use crate::nbd::protocol::{
        FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, MAGIC_OPTION, OPTION_EXTENDED_HEADERS, OPTION_GO, OPTION_LIST,
        OPTION_SET_META_CONTEXT, OPTION_STRUCTURED_REPLY,
    };
    let mut bytes = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes().to_vec();
    let mut option = |number: u32, data: &[u8]| {
        bytes.extend(MAGIC_OPTION.to_be_bytes());
        bytes.extend(number.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
    };
    option(OPTION_LIST, &[]);
    match replies {
        Replies::Simple => {}
        Replies::Structured => option(OPTION_STRUCTURED_REPLY, &[]),
        Replies::Extended => option(OPTION_EXTENDED_HEADERS, &[]),
    }
    let name = [&(export.len() as u32).to_be_bytes()[..], export.as_bytes()].concat();
    if replies != Replies::Simple {
        let context = b"base:allocation";
        let contexts = [&name[..], &1_u32.to_be_bytes(), &(context.len() as u32).to_be_bytes(), context].concat();
        option(OPTION_SET_META_CONTEXT, &contexts);
    }
    option(OPTION_GO, &[&name[..], &0_u16.to_be_bytes()].concat());
    bytes
}
