//! The thread of an engine: it opens the device, waits for the exports, and serves.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ioweir_core::Nanos;

use super::host::{Facts, Host, Opened, Run};
use super::service_plans;
use crate::backend::checked::WorkerPool;
use crate::backend::{self, Shape, Volumes};
use crate::buffer::Pool;
use crate::capture::Capture;
use crate::engine::{Command, Engine, Handle, Settings, Timeouts, Turn};
use crate::error::{ServeError, failed};
use crate::executor::{Clock as _, MachineClock};
use crate::log::{DeviceLog, Log};
use crate::nbd;
use crate::spec::Spec;
use crate::stopper::Stopper;

type Ended = Result<(), ServeError>;

fn joined(thread: JoinHandle<Ended>) -> Ended {
    thread.join().unwrap_or_else(|_| Err(ServeError("a thread has panicked".into())))
}

/// Runs each engine on a thread of its own.
pub(crate) struct Threads {
    /// The workers that devices share.
    pub(crate) workers: Option<Arc<WorkerPool>>,
    pub(crate) clock: MachineClock,
    pub(crate) log: Log,
    /// Ends the server when a device has failed as a whole. It is set before the first engine begins.
    pub(crate) stopper: Arc<OnceLock<Stopper>>,
}

impl Host for Threads {
    fn open(
        &self,
        spec: &Spec,
        devices: Range<usize>,
        mut capture: Option<Capture>,
    ) -> Vec<Result<Opened, ServeError>> {
        // All threads start before the first is waited for, so that devices open at the same time.
        let starting: Vec<_> = devices.map(|number| Starting::new(self, spec, number, capture.take())).collect();
        starting.into_iter().map(|starting| starting.and_then(Starting::wait_until_open)).collect()
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn wait(
        &self,
        until: Nanos,
        receive: &mut dyn FnMut(Duration) -> Result<(), RecvTimeoutError>,
    ) -> Result<(), RecvTimeoutError> {
        receive(Duration::from_nanos(until.since(self.clock.now()).0))
    }
}

/// The thread of an engine.
struct Thread {
    /// Present until the end of the thread is waited for.
    join: Option<JoinHandle<Ended>>,
    /// Absent once the thread has to end.
    exports: Option<Sender<Arc<[nbd::Export]>>>,
    begun: Receiver<Ended>,
    /// Whether the server continues after the end of this engine.
    leaves: Arc<AtomicBool>,
    /// Known once its device is open.
    handle: Option<Handle>,
}

impl Thread {
    fn stop(&mut self) -> Ended {
        // A thread that still waits for exports ends when their sender is dropped.
        self.exports = None;
        let Some(thread) = self.join.take() else { return Ok(()) };
        if let Some(handle) = &self.handle {
            self.leaves.store(true, Ordering::SeqCst);
            handle.send(Command::Stop(None));
        }
        joined(thread)
    }
}

impl Run for Thread {
    fn begin(&self, exports: &Arc<[nbd::Export]>) -> Ended {
        // If the thread has ended meanwhile, the last line reports that.
        let _ = self.exports.as_ref().map(|sender| sender.send(Arc::clone(exports)));
        self.begun.recv().unwrap_or_else(|_| Err(ServeError("a device's thread ended while it started".into())))
    }

    fn end(mut self: Box<Self>) -> Ended {
        self.stop()
    }

    fn wait(mut self: Box<Self>) -> Ended {
        self.join.take().map_or(Ok(()), joined)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // The engine has served no client, and the reason for its end was reported before.
        let _ = self.stop();
    }
}

/// The thread of an engine that opens its device.
struct Starting {
    thread: Thread,
    facts: Receiver<Result<Facts, ServeError>>,
}

impl Starting {
    fn new(threads: &Threads, spec: &Spec, number: usize, capture: Option<Capture>) -> Result<Self, ServeError> {
        let Threads { workers, clock, log, stopper } = threads;
        let device = &spec.device[number];
        let (sender, facts) = channel();
        let (exports, exports_sent) = channel();
        let (begins, begun) = channel();
        let classes: Arc<[String]> = spec.classes().into_iter().map(|class| class.name).collect();
        let settings = Settings {
            exports: Arc::new([]),
            device: device.clone(),
            workers: workers.clone(),
            timeouts: Timeouts::new(&spec.server),
            priorities: spec.priorities(),
            own_classes: spec.classes_of(number),
            services: service_plans(spec, number),
            epoch: clock.epoch(),
            now: clock.now(),
            log: DeviceLog { log: log.clone(), device: device.name.clone(), classes },
        };
        let entitlements = spec.entitlements(number);
        let leaves = Arc::new(AtomicBool::new(false));
        let (name, clock) = (device.name.clone(), *clock);
        let (stopper, its) = (Arc::clone(stopper), Arc::clone(&leaves));
        let work = move || {
            let mut engine = match open(settings, &sender) {
                Ok(engine) => engine,
                Err(error) => {
                    // The thread that opens the device reads the error, unless it has ended.
                    let _ = sender.send(Err(error.clone()));
                    return Err(error);
                }
            };
            let Ok(exports) = exports_sent.recv() else { return Ok(()) };
            if let Some(capture) = capture {
                engine.observe(Box::new(capture));
            }
            let configured = engine.configure(exports, &entitlements);
            let configured = configured.map_err(|error| ServeError(format!("device {name}: {error}")));
            // The thread that starts the engine reads the result, unless it has ended.
            let _ = begins.send(configured.clone());
            match configured {
                Ok(()) => Guard { stopper, leaves: its, is_well: false }.watch(|| run(&name, engine, clock)),
                Err(_) => configured,
            }
        };
        let thread = Builder::new().name(format!("ioweir-{}", device.name)).spawn(work);
        let join = thread.map_err(|error| failed("no thread can be started", &error))?;
        let thread = Thread { join: Some(join), exports: Some(exports), begun, leaves, handle: None };
        Ok(Self { thread, facts })
    }

    fn wait_until_open(mut self) -> Result<Opened, ServeError> {
        let ended = |_| Err(ServeError("a device's thread ended while it started".into()));
        let facts = self.facts.recv().unwrap_or_else(ended)?;
        self.thread.handle = Some(facts.handle.clone());
        Ok(Opened::new(facts, Box::new(self.thread)))
    }
}

/// Ends the server if an engine fails or panics while it serves, unless its device has been removed. A server whose device was
/// stopped may still drain others.
struct Guard {
    stopper: Arc<OnceLock<Stopper>>,
    leaves: Arc<AtomicBool>,
    is_well: bool,
}

impl Guard {
    fn watch(mut self, serve: impl FnOnce() -> Ended) -> Ended {
        let ended = serve();
        self.is_well = ended.is_ok();
        ended
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_well
            && !self.leaves.load(Ordering::SeqCst)
            && let Some(stopper) = self.stopper.get()
        {
            stopper.stop();
        }
    }
}

/// Opens a device with its volumes, and sends the facts about it.
fn open(settings: Settings, sender: &Sender<Result<Facts, ServeError>>) -> Result<Engine, ServeError> {
    let name = settings.device.name.clone();
    let mut pool = Pool::new(settings.device.request_bytes_max.0 as usize);
    let backend = backend::open(&settings.device, pool.registered(), settings.workers.as_ref());
    let backend = backend.map_err(|error| ServeError(format!("device {name}: {error}")))?;
    let (shape, description) = (Shape::of(&*backend), backend.describe());
    let volumes = settings.device.volumes.as_ref().map(|path| Volumes::open(path, shape.size_bytes)).transpose();
    let volumes = volumes.map_err(|error| ServeError(format!("device {name}: {error}")))?;
    let engine = Engine::new(settings, backend, pool).map_err(|error| failed(&format!("device {name}"), &error))?;
    // The thread that opens the device reads the facts, unless it has ended.
    let _ = sender.send(Ok(Facts { handle: engine.handle(), shape, description, volumes }));
    Ok(engine)
}

fn run(name: &str, mut engine: Engine, clock: MachineClock) -> Result<(), ServeError> {
    let broken = |error: io::Error| failed("a device has failed", &error);
    loop {
        let now = clock.now();
        match engine.turn(now).map_err(broken)? {
            Turn::Stopped if engine.failure().is_some() => {
                return Err(ServeError(format!("device {name}: what was written may be gone: a flush has failed")));
            }
            Turn::Stopped => return Ok(()),
            Turn::Hung => {
                // Dropping the engine would wait for the device, too.
                std::mem::forget(engine);
                return Err(ServeError(format!(
                    "device {name}: does not complete its operations: what was not flushed may be gone"
                )));
            }
            Turn::WaitUntil(until) => {
                let span = if until == Nanos::NEVER { until } else { until.since(clock.now()) };
                engine.wait(span).map_err(broken)?;
            }
        }
    }
}
