//! The loop of a governor: the time, the threads of sources and workers, the state file, and the order of the end.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use ioweir_core::Nanos;

use super::clock::{Clocks, Course, Moment, Timeline};
use super::hand::{Eye, Hand, PERIOD, Report, Seen};
use super::overseer::{Actions, Employment, Governor, Overseer};
use super::source::{Reading, Source, SourceError, merged};
use super::spec::{WorkerKeys, WorkerKind};
use super::status::Status;
use super::store::{Kept, Store};
use super::view::View;
use super::worker::{self, Position};
use ioweir_block::executor::{Clock as _, MachineClock};
use ioweir_block::real::Stop;
use ioweir_serve::manager;

/// The longest age of a reading that is used.
const FRESH: Nanos = Nanos::from_seconds(5);
/// The longest time until the loop looks whether it is to stop.
const LOOK: Nanos = Nanos::from_millis(100);
/// How often the state is saved.
const SAVE: Nanos = Nanos::from_seconds(60);
/// How long the end waits for workers to be back at their defaults. Those that are not get there by their leases.
const END_SPAN: Nanos = Nanos::from_seconds(5);

/// The parts of a governor's loop.
pub struct Plan {
    /// Where load is measured.
    pub sources: Vec<Box<dyn Source>>,
    /// The workers: for which service, how, and where they were left.
    pub workers: Vec<(Employment, WorkerKeys, Position)>,
    /// Where the state is kept; nowhere where absent.
    pub store: Option<Store>,
    /// For how long it runs; until it is stopped where absent.
    pub span: Option<Nanos>,
    /// The page that shows what the governor does, if there is one.
    pub view: Option<View>,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Plan").field("workers", &self.workers).field("store", &self.store).finish_non_exhaustive()
    }
}

/// A worker as its keys and its service employ it.
#[must_use]
pub fn employment(name: &str, service: ioweir_core::background::Service, keys: &WorkerKeys) -> Employment {
    let is_server = keys.kind == WorkerKind::Server;
    Employment {
        name: name.to_owned(),
        service,
        renews: is_server.then(|| Nanos(keys.lease.nanos().0 / 3)),
        works_in_parts: !keys.step.is_empty(),
        patience: worker::patience(keys),
        keeps_rate: keys.rate.is_some(),
    }
}

/// Runs until it is told to stop, or its time is over. Then every service is back at its default.
///
/// # Errors
/// If a worker or a thread cannot be started, or the state cannot be written at the end.
pub fn run(plan: Plan, governor: &mut dyn Governor, stop: &Stop, say: &mut dyn FnMut(&str)) -> Result<(), String> {
    let clocks = Clocks::new();
    let begin = clocks.now();
    let Plan { sources, workers, store, span, view } = plan;
    let failed = |what: &str, error: std::io::Error| format!("{what}: no thread can be started: {error}");
    let (reports, received) = channel();
    let mut hands = Vec::new();
    let mut posts = Vec::new();
    for (number, (employment, keys, position)) in workers.into_iter().enumerate() {
        let name = employment.name.clone();
        let worker = worker::open(&name, &keys, position).map_err(|error| format!("worker {name}: {error}"))?;
        hands.push(Hand::start(number, worker, reports.clone()).map_err(|error| failed(&name, error))?);
        posts.push((employment, position));
    }
    let eyes: Result<Vec<Watched>, String> = sources.into_iter().map(|source| Watched::start(source, clocks)).collect();
    let mut state = State {
        overseer: Overseer::new(posts),
        eyes: eyes?,
        timeline: Timeline::new(begin),
        sampled: begin.steady,
        saved: begin.steady,
        store,
        view,
    };
    manager::say_ready();
    let end = span.map(|span| begin.steady.after(span));
    while !stop.is_set() && end.is_none_or(|end| clocks.now().steady < end) {
        let wait = state.turn(clocks.now(), governor, &hands, say);
        state.listen(&clocks, wait, &received, governor, say);
    }
    state.end(governor, hands, say)
}

/// A source with its thread.
struct Watched {
    name: String,
    worker_request_bytes: Option<u64>,
    eye: Eye,
    /// The last reading, with its time.
    last: Option<Seen>,
    problem: Option<String>,
}

impl Watched {
    fn start(source: Box<dyn Source>, clocks: Clocks) -> Result<Self, String> {
        let (name, worker_request_bytes) = (source.name(), source.worker_request_bytes());
        let eye = Eye::start(source, clocks).map_err(|error| format!("{name}: no thread can be started: {error}"))?;
        Ok(Self { name, worker_request_bytes, eye, last: None, problem: None })
    }

    /// The source's reading, unless it is too old.
    fn look(&mut self, now: Nanos, say: &mut dyn FnMut(&str)) -> Option<Reading> {
        self.last = self.eye.take().or(self.last.take());
        let is_fresh = |seen: &&Seen| now.since(seen.0.steady) <= FRESH;
        let seen = match self.last.as_ref().filter(is_fresh) {
            Some((_, seen)) => seen.clone(),
            None => Err(SourceError("does not answer".into())),
        };
        let problem = seen.as_ref().err().map(ToString::to_string);
        if problem != self.problem {
            match &problem {
                Some(problem) => say(&format!("{}: {problem}", self.name)),
                None => say(&format!("{}: is seen", self.name)),
            }
            self.problem = problem;
        }
        seen.ok()
    }
}

/// The state of the loop.
struct State {
    overseer: Overseer,
    eyes: Vec<Watched>,
    timeline: Timeline,
    sampled: Nanos,
    saved: Nanos,
    store: Option<Store>,
    view: Option<View>,
}

impl State {
    /// Does everything that is due; returns how long nothing will be due.
    fn turn(
        &mut self,
        moment: Moment,
        governor: &mut dyn Governor,
        hands: &[Hand],
        say: &mut dyn FnMut(&str),
    ) -> Nanos {
        self.keep_time(moment, governor, say);
        let now = self.timeline.now();
        let mut actions = Actions::default();
        if moment.steady.since(self.sampled) >= PERIOD {
            let span = moment.steady.since(self.sampled);
            self.sampled = moment.steady;
            let reading = self.look(moment.steady, say);
            self.overseer.see(now, span, reading, governor);
            manager::say_alive();
        }
        let wake = self.overseer.turn(moment, now, governor, &mut actions);
        act(actions, hands, say);
        if moment.steady.since(self.saved) >= SAVE {
            self.saved = moment.steady;
            if let Err(problem) = self.save(governor) {
                say(&problem);
            }
        }
        if let Some(view) = &mut self.view {
            let sources = self.eyes.iter().map(|eye| (eye.name.clone(), eye.problem.clone())).collect();
            let (workers, foreground) = (self.overseer.status(), *self.overseer.seen());
            view.show(moment.steady, || {
                let status = Status { governor: governor.status(now), workers, foreground, sources };
                let page = governor.page(now, &status);
                (status, page)
            });
        }
        let sample = self.sampled.after(PERIOD).since(moment.steady);
        wake.since(now).min(sample).min(LOOK)
    }

    /// Hears workers for a while.
    fn listen(
        &mut self,
        clocks: &Clocks,
        wait: Nanos,
        received: &Receiver<Report>,
        governor: &mut dyn Governor,
        say: &mut dyn FnMut(&str),
    ) {
        // A wait of nothing would be a busy loop where a governor asks for it.
        let wait = Duration::from_nanos(wait.max(Nanos::from_millis(1)).0);
        let report = match received.recv_timeout(wait) {
            Ok(report) => report,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        };
        let moment = clocks.now();
        self.keep_time(moment, governor, say);
        let mut actions = Actions::default();
        self.overseer.hear(moment, self.timeline.now(), report, governor, &mut actions);
        actions.events.iter().for_each(|event| say(event));
    }

    fn keep_time(&mut self, moment: Moment, governor: &mut dyn Governor, say: &mut dyn FnMut(&str)) {
        let seconds = |span: Nanos| span.0 / 1_000_000_000;
        match self.timeline.advance(moment) {
            Course::On => {}
            Course::Ahead(span) => say(&format!("the clock went on by {} s at once", seconds(span))),
            Course::Back(span) => {
                say(&format!(
                    "the clock was put back by {} s; time stands still until it has caught up",
                    seconds(span)
                ));
            }
            Course::FarBack(span) => {
                say(&format!(
                    "the clock was put back by {} s; what was measured since then is forgotten",
                    seconds(span)
                ));
                self.overseer.set_back(self.timeline.now(), governor);
            }
        }
    }

    /// The readings of the foreground by all sources together.
    fn look(&mut self, now: Nanos, say: &mut dyn FnMut(&str)) -> Reading {
        let workers = self.overseer.workers_bytes();
        let mut readings = Vec::new();
        for eye in &mut self.eyes {
            if let Some(reading) = eye.look(now, say) {
                readings.push(match eye.worker_request_bytes {
                    Some(request) => reading.without_workers(workers, request),
                    None => reading,
                });
            }
        }
        merged(readings.iter())
    }

    fn save(&self, governor: &mut dyn Governor) -> Result<(), String> {
        let Some(store) = &self.store else { return Ok(()) };
        let saved_unix_seconds = (self.timeline.now().0 / 1_000_000_000).cast_signed();
        let workers: BTreeMap<String, Position> = self.overseer.positions();
        store.save(&Kept { saved_unix_seconds, governor: governor.state(), workers })
    }

    fn end(self, governor: &mut dyn Governor, hands: Vec<Hand>, say: &mut dyn FnMut(&str)) -> Result<(), String> {
        hands.iter().for_each(Hand::release);
        let saved = self.save(governor);
        let clock = MachineClock::new();
        let end = clock.now().after(END_SPAN);
        for (hand, status) in hands.iter().zip(self.overseer.status()) {
            match hand.released(&clock, end) {
                Some(Ok(())) => {}
                Some(Err(problem)) => say(&format!("{}: {problem}", status.name)),
                None => say(&format!("{}: does not answer; its lease brings it back to its default", status.name)),
            }
        }
        saved
    }
}

fn act(actions: Actions, hands: &[Hand], say: &mut dyn FnMut(&str)) {
    actions.events.iter().for_each(|event| say(event));
    for (number, serial, order) in actions.orders {
        if let Some(hand) = hands.get(number) {
            hand.tell(serial, order);
        }
    }
}
