//! The watch: a thread beside the data path that collects the engines' counters, and serves the live page, the state as JSON, metrics for
//! Prometheus, and `ioweir ctl`.
//!
//! Engines are asked once a second and on demand, at most ten times a second. An answer exchanges counters, so nothing here delays a
//! request. `record` adds the counters up; `state` and `metrics` present them; `http` and `socket` give access to them.
//!
//! The sockets have no authentication, so they are for this machine only. HTTP changes nothing.

pub mod http;
pub mod metrics;
mod record;
pub mod schema;
mod service;
mod socket;
mod state;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ioweir_config::format_nanos;
use ioweir_core::Nanos;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};

use crate::control::Controller;
use crate::engine::{Command, Counters, Question, Report};
use crate::engines::Engines;
use crate::executor::{Clock as _, MachineClock};
use crate::front::{Listener, Permits};
use crate::log::Log;
use crate::manager;
use crate::spec::{Device, Spec};
use crate::stopper::Stopper;
use crate::thread::OwnedThread;
use record::{DeviceRecord, Record};

pub use record::{HISTORY_SECONDS, Second};
pub use service::ServiceState;
pub use state::{
    ChangeState, ChecksumState, ClassState, Column, DeviceState, FailureState, FleetState, GroupState, QueueState,
    SCHEMA_VERSION, SecondState, State, TotalState,
};

/// The commit that the program was built from, if it is set.
static COMMIT: OnceLock<&'static str> = OnceLock::new();

/// Sets the commit that the program was built from. Only the first call has an effect.
pub fn set_commit(commit: &'static str) {
    let _ = COMMIT.set(commit);
}

/// The shortest time between two questions to an engine on demand.
const FRESH: Nanos = Nanos::from_millis(100);
/// An engine that has not answered for this long counts as hung.
const SILENCE_MAX: Nanos = Nanos::from_seconds(5);
/// How long a client waits for the reports of the engines. Later reports count for the next client.
const PATIENCE: Duration = Duration::from_millis(200);

/// The parts of a server that a watch needs to start.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) controller: Controller,
    pub(crate) engines: Engines,
    pub(crate) permits: Permits,
    pub(crate) stopper: Stopper,
    pub(crate) log: Log,
    pub(crate) clock: MachineClock,
    /// The socket for HTTP.
    pub(crate) watch: Option<Listener>,
    /// The socket for `ioweir ctl`.
    pub(crate) control: Option<Listener>,
}

/// The state that the tasks of the thread share.
struct Shared {
    controller: Controller,
    engines: Engines,
    permits: Permits,
    stopper: Stopper,
    log: Log,
    clock: MachineClock,
    record: Mutex<Record>,
    /// The exchange with each engine.
    links: Mutex<Vec<Link>>,
    reports: UnboundedSender<(usize, Report)>,
    /// Changes with each report.
    reported: watch::Sender<()>,
}

/// The exchange of counters with an engine.
#[derive(Default)]
struct Link {
    /// Counters at zero, for the next question.
    spare: Option<Box<Counters>>,
    asked: Option<Nanos>,
    is_awaited: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave the guarded state half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Asks every engine that has answered the last question, unless it was asked less than `fresh` ago.
    fn ask(&self, fresh: Nanos) {
        let now = self.clock.now();
        let engines = self.engines.present();
        let mut links = lock(&self.links);
        let most = engines.last().map_or(0, |(number, _)| number + 1).max(links.len());
        links.resize_with(most, Link::default);
        // A removed device sends no report any more.
        let is_present = |number: usize| engines.iter().any(|(its, _)| *its == number);
        links
            .iter_mut()
            .enumerate()
            .filter(|(number, _)| !is_present(*number))
            .for_each(|(_, its)| its.is_awaited = false);
        for (number, engine) in engines {
            let link = &mut links[number];
            if link.is_awaited || link.asked.is_some_and(|asked| now < asked.after(fresh)) {
                continue;
            }
            (link.asked, link.is_awaited) = (Some(now), true);
            let reports = self.reports.clone();
            let reply = move |report| {
                // A watch that has ended needs no report.
                let _ = reports.send((number, report));
            };
            let question = Question { counters: link.spare.take().unwrap_or_default(), reply: Box::new(reply) };
            engine.send(Command::Report(question));
        }
    }

    /// Adds an engine's answer.
    fn receive(&self, number: usize, report: Report) {
        let (spec, _) = self.controller.running();
        let counters = {
            let mut record = lock(&self.record);
            record.fit(&spec);
            record.add(number, report)
        };
        let mut links = lock(&self.links);
        if let Some(link) = links.get_mut(number) {
            (link.is_awaited, link.spare) = (false, Some(counters));
        }
        drop(links);
        self.reported.send_replace(());
    }

    /// Waits a limited time until all engines have answered.
    async fn wait(&self) {
        let mut reported = self.reported.subscribe();
        let all = async {
            while lock(&self.links).iter().any(|link| link.is_awaited) {
                if reported.changed().await.is_err() {
                    return;
                }
            }
        };
        // An engine that has not answered in time is shown in its last state.
        let _ = tokio::time::timeout(PATIENCE, all).await;
    }

    /// Brings the record up to date for a client.
    async fn refresh(&self) {
        self.ask(FRESH);
        self.wait().await;
    }

    /// Ends each second of the record.
    async fn keep_time(&self) {
        let is_guarded = manager::is_watching();
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
            if is_guarded && self.silent().is_empty() {
                manager::say_alive();
            }
        }
    }

    /// The devices whose engine has not answered for [`SILENCE_MAX`].
    fn silent(&self) -> Vec<usize> {
        let now = self.clock.now();
        let is_silent = |link: &Link| link.is_awaited && link.asked.is_some_and(|asked| now > asked.after(SILENCE_MAX));
        let links = lock(&self.links);
        (0..links.len()).filter(|&number| is_silent(&links[number])).collect()
    }

    /// The problems of the server, one on each line; empty if it has none.
    async fn troubles(&self) -> String {
        self.refresh().await;
        let (spec, _) = self.controller.running();
        let silent = self.silent();
        let mut record = lock(&self.record);
        record.fit(&spec);
        record.see_devices(&self.engines.watched());
        troubles(&spec, &record, &silent)
    }

    async fn state(&self) -> State {
        self.refresh().await;
        let (spec, changes) = self.controller.running();
        let mut record = lock(&self.record);
        record.fit(&spec);
        record.see_fleet(self.controller.fleet());
        let watched = self.engines.watched();
        record.see_devices(&watched);
        let now = self.clock.now();
        State::new(&spec, &changes, &watched, &record, (self.permits.taken(), now))
    }

    async fn metrics(&self) -> String {
        self.refresh().await;
        let (spec, _) = self.controller.running();
        let mut record = lock(&self.record);
        record.fit(&spec);
        record.see_fleet(self.controller.fleet());
        record.see_devices(&self.engines.watched());
        metrics::text(&spec, &record, self.permits.taken(), &self.log)
    }
}

const SECOND: u64 = 1_000_000_000;

/// The problems of the devices, one on each line; the engines of the `silent` devices do not answer.
fn troubles(spec: &Spec, record: &Record, silent: &[usize]) -> String {
    let problem = |number: usize| {
        let DeviceRecord { report, trouble, .. } = record.devices.get(number)?;
        if trouble.is_some() {
            return Some("it cannot be opened; the log and the state say why".into());
        }
        let held = format_nanos(report.oldest_operation.unwrap_or_default());
        if report.failure.is_some() {
            Some("a flush has failed, and it has to be opened again".into())
        } else if silent.contains(&number) {
            Some("its engine does not answer".into())
        } else {
            report.hangs.then(|| format!("it has had an operation for {held}"))
        }
    };
    let line = |(number, device): (usize, &Device)| Some(format!("device {}: {}\n", device.name, problem(number)?));
    spec.present_devices().filter_map(line).collect()
}

/// A running watch. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Dropped first, which ends the thread.
    _end: oneshot::Sender<()>,
    _thread: OwnedThread,
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
            let listeners = (plan.watch, plan.control);
            let (reports, mut received) = unbounded_channel();
            let shared = Arc::new(Shared {
                record: Mutex::new(Record::new(&plan.controller.running().0)),
                links: Mutex::default(),
                controller: plan.controller,
                engines: plan.engines,
                permits: plan.permits,
                stopper: plan.stopper,
                log: plan.log,
                clock: plan.clock,
                reports,
                reported: watch::Sender::new(()),
            });
            runtime.block_on(async {
                let receiving = Arc::clone(&shared);
                tokio::spawn(async move {
                    while let Some((number, report)) = received.recv().await {
                        receiving.receive(number, report);
                    }
                });
                let keeping = Arc::clone(&shared);
                tokio::spawn(async move { keeping.keep_time().await });
                if let Some(watch) = watch {
                    tokio::spawn(watch.serve(http::routes(Arc::clone(&shared))));
                }
                if let Some(control) = control {
                    tokio::spawn(control.serve(Arc::clone(&shared)));
                }
                // Dropping the sender ends the watch, too.
                let _ = ended.await;
            });
            // Dropping the listeners removes their socket files. A server that takes over creates its own once the connections below have
            // ended.
            drop(listeners);
            // Answers in progress are dropped with their connections.
            runtime.shutdown_timeout(Duration::from_secs(1));
        };
        Ok(Self { _end: end, _thread: OwnedThread::start("ioweir-watch", work)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Failure;

    #[test]
    fn failed_hanging_and_silent_devices_are_named() {
        let devices =
            ["a", "b"].map(|name| format!("[[device]]\nname = \"{name}\"\nbackend = \"memory\"\nsize = \"1MiB\"\n"));
        let text = format!("{}[[export]]\nname = \"export\"\ndevice = \"a\"\n", devices.concat());
        let spec = Spec::parse("spec.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let mut record = Record::new(&spec);
        assert_eq!(troubles(&spec, &record, &[]), "");
        record.devices[0].report.hangs = true;
        record.devices[0].report.oldest_operation = Some(Nanos::from_seconds(45));
        record.devices[1].report.failure = Some(Failure { at: Nanos::ZERO, is_closed: false });
        let failed = "device b: a flush has failed, and it has to be opened again\n";
        assert_eq!(troubles(&spec, &record, &[]), format!("device a: it has had an operation for 45.0 s\n{failed}"));
        assert_eq!(troubles(&spec, &record, &[0]), format!("device a: its engine does not answer\n{failed}"));
        record.devices[0].trouble = Some("no such file".into());
        let unopened = "device a: it cannot be opened; the log and the state say why\n";
        assert_eq!(troubles(&spec, &record, &[]), format!("{unopened}{failed}"));
    }
}
