//! The thread of an engine: it opens the device, waits for the exports, and serves.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

use ioweir_core::Nanos;

use super::{Engines, Inner, service_plans};
use crate::backend::{self, Shape, Volumes};
use crate::buffer::Pool;
use crate::capture::Capture;
use crate::engine::{Command, Engine, Handle, Settings, Timeouts, Turn};
use crate::error::{ServeError, failed};
use crate::executor::{Clock as _, MachineClock};
use crate::exports::Places;
use crate::log::DeviceLog;
use crate::nbd;
use crate::spec::Spec;
use crate::stopper::Stopper;

/// The result of an engine's thread.
pub(super) type Ended = Result<(), ServeError>;

pub(super) fn joined(thread: JoinHandle<Ended>) -> Ended {
    thread.join().unwrap_or_else(|_| Err(ServeError("a thread has panicked".into())))
}

/// Ends an engine while the server continues, and waits for it.
pub(super) fn end(handle: &Handle, leaves: &AtomicBool, thread: JoinHandle<Ended>) -> Ended {
    leaves.store(true, Ordering::SeqCst);
    handle.send(Command::Stop(None));
    joined(thread)
}

/// An engine whose device is open. Dropped before it is kept, the engine ends and its device is closed.
pub struct Opened {
    pub(super) facts: Facts,
    pub(super) thread: Thread,
}

/// The facts that an engine reports about its device once that is open.
pub struct Facts {
    /// Sends commands to the engine.
    pub handle: Handle,
    /// The length of the device, its parts and its blocks.
    pub shape: Shape,
    /// A description of the device, for people.
    pub description: String,
    /// The table of the device's volumes, if it has one.
    pub volumes: Option<Volumes>,
}

impl From<Facts> for Opened {
    /// An engine that runs on a stage.
    fn from(facts: Facts) -> Self {
        let thread = Thread { join: None, exports: None, begun: channel().1, leaves: Arc::default(), handle: None };
        Self { facts, thread }
    }
}

impl Opened {
    /// The places on the device that exports can show.
    pub fn places(&self) -> Places {
        let Facts { shape, volumes, .. } = &self.facts;
        let volumes = volumes.as_ref().map(|volumes| volumes.places().clone()).unwrap_or_default();
        Places { shape: shape.clone(), volumes }
    }

    /// A handle for commands to the engine, which it carries out once it serves.
    pub fn handle(&self) -> Handle {
        self.facts.handle.clone()
    }

    /// A description of the device.
    pub(crate) fn description(&self) -> &str {
        &self.facts.description
    }
}

/// The thread of an engine that is not kept yet. Dropping this ends the thread, and waits for its end.
pub(super) struct Thread {
    pub(super) join: Option<JoinHandle<Ended>>,
    exports: Option<Sender<Arc<[nbd::Export]>>>,
    begun: Receiver<Ended>,
    pub(super) leaves: Arc<AtomicBool>,
    /// The engine's handle, known once its device is open.
    handle: Option<Handle>,
}

impl Thread {
    /// Lets the engine serve; returns an error if it cannot.
    pub(super) fn begin(&self, exports: &Arc<[nbd::Export]>) -> Ended {
        if let Some(sender) = &self.exports {
            // A thread that has ended meanwhile is noticed below.
            let _ = sender.send(Arc::clone(exports));
        }
        self.begun.recv().unwrap_or_else(|_| Err(ServeError("a device's thread ended while it started".into())))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.exports.take());
        let Some(thread) = self.join.take() else { return };
        // The engine has served no client, and the reason for its end was reported before.
        let _ = match &self.handle {
            Some(handle) => end(handle, &self.leaves, thread),
            None => joined(thread),
        };
    }
}

/// The thread of an engine that opens its device.
pub(super) struct Starting {
    thread: Thread,
    facts: Receiver<Result<Facts, ServeError>>,
}

impl Starting {
    pub(super) fn new(
        engines: &Engines,
        spec: &Spec,
        number: usize,
        capture: Option<Capture>,
    ) -> Result<Self, ServeError> {
        let Inner { workers, clock, log, stopper, .. } = &*engines.0;
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

    pub(super) fn wait_until_open(mut self) -> Result<Opened, ServeError> {
        let ended = |_| Err(ServeError("a device's thread ended while it started".into()));
        let facts = self.facts.recv().unwrap_or_else(ended)?;
        self.thread.handle = Some(facts.handle.clone());
        Ok(Opened { facts, thread: self.thread })
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
