//! What does the server do, second by second? A thread beside the data path that asks the engines, and answers whoever
//! wants to know: a live page, a state in JSON, metrics for Prometheus, and the socket of `ioweir ctl`.
//!
//! Engines are asked once a second, and when somebody looks, but no more than ten times a second: an answer is an exchange
//! of what was counted, so that nothing here ever holds up a request. What is counted is added up in `record`; `state`
//! and `metrics` are what people and monitors see of it; `http` and `socket` are the ways to it.
//!
//! Whoever can reach the places it listens at is let in, so these are this machine's only. HTTP changes nothing.

mod http;
mod metrics;
mod record;
mod socket;
mod state;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ioweir_core::Nanos;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};

use crate::control::Controller;
use crate::engine::{Command, Counters, Handle, Question, Report};
use crate::executor::{Clock as _, MachineClock};
use crate::front::{Listener, Seats};
use record::Record;

pub use record::{HISTORY_SECONDS, Second};
pub use state::State;

/// The commit that the program was built from, where the program says so.
static COMMIT: OnceLock<&'static str> = OnceLock::new();

/// Says which commit the program was built from; the first to say so is believed.
pub fn set_commit(commit: &'static str) {
    // Who comes second is not believed.
    let _ = COMMIT.set(commit);
}

/// Between two questions to an engine because somebody looks.
const FRESH: Nanos = Nanos::from_millis(100);
/// How long an answer may take that somebody waits for. What comes later is counted later.
const PATIENCE: Duration = Duration::from_millis(200);

/// A device, as those who watch see it.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) handle: Handle,
    pub(crate) size_bytes: u64,
    pub(crate) description: String,
}

/// What a watch is made of.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) controller: Controller,
    pub(crate) devices: Vec<Watched>,
    pub(crate) seats: Seats,
    pub(crate) clock: MachineClock,
    /// Where HTTP is answered.
    pub(crate) watch: Option<Listener>,
    /// Where `ioweir ctl` is answered.
    pub(crate) control: Option<Listener>,
}

/// What the tasks of the thread share.
struct Shared {
    controller: Controller,
    devices: Vec<Watched>,
    seats: Seats,
    clock: MachineClock,
    record: Mutex<Record>,
    /// What is between this thread and each engine.
    links: Mutex<Vec<Link>>,
    reports: UnboundedSender<(usize, Report)>,
    /// Changes whenever a report was taken in.
    heard: watch::Sender<()>,
}

/// What is between the watch and an engine.
#[derive(Default)]
struct Link {
    /// A clean tally to give it, while it has not got it.
    spare: Option<Box<Counters>>,
    asked: Option<Nanos>,
    is_waited_for: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here panics half way through a change that others could see.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Asks every engine that has answered the last time, unless that is only just ago.
    fn ask(&self, fresh: Nanos) {
        let now = self.clock.now();
        for (number, link) in lock(&self.links).iter_mut().enumerate() {
            if link.is_waited_for || link.asked.is_some_and(|asked| now < asked.after(fresh)) {
                continue;
            }
            (link.asked, link.is_waited_for) = (Some(now), true);
            let reports = self.reports.clone();
            let reply = move |report| {
                // Who does not listen any more has ended.
                let _ = reports.send((number, report));
            };
            let question = Question { counters: link.spare.take().unwrap_or_default(), reply: Box::new(reply) };
            self.devices[number].handle.send(Command::Report(question));
        }
    }

    /// Takes in what an engine has answered.
    fn hear(&self, number: usize, report: Report) {
        let tally = lock(&self.record).take_in(number, report);
        let mut links = lock(&self.links);
        links[number].is_waited_for = false;
        links[number].spare = Some(tally);
        drop(links);
        self.heard.send_replace(());
    }

    /// Waits until all who were asked have answered, for a while.
    async fn wait(&self) {
        let mut heard = self.heard.subscribe();
        let all = async {
            while lock(&self.links).iter().any(|link| link.is_waited_for) {
                if heard.changed().await.is_err() {
                    return;
                }
            }
        };
        // Who has not answered by then is told of as it was.
        let _ = tokio::time::timeout(PATIENCE, all).await;
    }

    /// Asks for what somebody wants to see now.
    async fn refresh(&self) {
        self.ask(FRESH);
        self.wait().await;
    }

    /// Ends a second whenever one is over.
    async fn keep_time(&self) {
        loop {
            let now = self.clock.now();
            let next = (now.0 / SECOND + 1) * SECOND;
            tokio::time::sleep(Duration::from_nanos(next - now.0)).await;
            let now = self.clock.now();
            if now.0 < next {
                continue;
            }
            self.ask(Nanos::ZERO);
            self.wait().await;
            lock(&self.record).end_second(now.0 / SECOND - 1);
        }
    }

    async fn state(&self) -> State {
        self.refresh().await;
        let (spec, changes) = self.controller.running();
        let now = self.clock.now();
        State::new(&spec, &changes, &self.devices, &lock(&self.record), (self.seats.taken(), now))
    }

    async fn metrics(&self) -> String {
        self.refresh().await;
        let (spec, _) = self.controller.running();
        metrics::text(&spec, &lock(&self.record), self.seats.taken())
    }
}

const SECOND: u64 = 1_000_000_000;

/// A running watch. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts the thread.
    pub(crate) fn start(plan: Plan) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel();
        let entered = runtime.enter();
        let watch = plan.watch.as_ref().map(http::Socket::new).transpose()?;
        let control = plan.control.as_ref().map(socket::Socket::new).transpose()?;
        drop(entered);
        let work = move || {
            // Their names in the file system are removed at the end.
            let _listeners = (plan.watch, plan.control);
            let (reports, mut heard) = unbounded_channel();
            let shared = Arc::new(Shared {
                record: Mutex::new(Record::new(&plan.controller.running().0)),
                links: Mutex::new(plan.devices.iter().map(|_| Link::default()).collect()),
                controller: plan.controller,
                devices: plan.devices,
                seats: plan.seats,
                clock: plan.clock,
                reports,
                heard: watch::Sender::new(()),
            });
            runtime.block_on(async {
                let hearing = Arc::clone(&shared);
                tokio::spawn(async move {
                    while let Some((number, report)) = heard.recv().await {
                        hearing.hear(number, report);
                    }
                });
                let keeping = Arc::clone(&shared);
                tokio::spawn(async move { keeping.keep_time().await });
                if let Some(watch) = watch {
                    tokio::spawn(watch.serve(Arc::clone(&shared)));
                }
                if let Some(control) = control {
                    tokio::spawn(control.serve(Arc::clone(&shared)));
                }
                // An end that nobody can tell of any more is one.
                let _ = ended.await;
            });
            // What is under way is dropped with its connections.
            runtime.shutdown_timeout(Duration::from_secs(1));
        };
        let thread = Builder::new().name("ioweir-watch".into()).spawn(work)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // One that has panicked has ended, too.
            let _ = thread.join();
        }
    }
}
