//! The engines of a server, by the number of their device. Each has a thread, which is started here when the server starts or a device is
//! added, and ended here when the device is removed.
//!
//! A device keeps its number: the row of a removed one stays. An engine begins in two steps, so that several begin together or none does:
//! its thread opens the device, and serves once it gets the exports.

mod thread;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ioweir_core::{Nanos, StreamId};

use crate::backend::Volumes;
use crate::backend::checked::WorkerPool;
use crate::capture::Capture;
use crate::engine::{Command, Handle, ServicePlan, Shelf};
use crate::error::ServeError;
use crate::executor::{Clock as _, MachineClock};
use crate::log::Log;
use crate::nbd;
use crate::spec::{ClassKind, Service, Spec};
use crate::stopper::Stopper;

use thread::{Ended, Starting, end, joined};
pub use thread::{Facts, Opened};

/// The place of engines without threads: a simulated world, in which a caller that waits for an engine lets the engines run.
pub trait Stage: Send + Sync {
    /// Lets the engines run for a while; returns the time, or `None` once there is no server any more.
    fn go_on(&self) -> Option<Nanos>;

    /// Opens devices as `Engines::open` does.
    fn open(&self, spec: &Spec) -> Result<Vec<Opened>, ServeError>;

    /// Begins all opened engines as `Engines::begin` does.
    fn begin(&self, exports: &Arc<[nbd::Export]>) -> Result<(), ServeError>;

    /// Ends the engine of a device as `Engines::remove` does.
    fn end(&self, device: usize) -> Result<(), ServeError>;
}

/// The engines of a server; clones refer to the same ones.
#[derive(Clone)]
pub struct Engines(Arc<Inner>);

struct Inner {
    /// The workers that devices share.
    workers: Option<Arc<WorkerPool>>,
    clock: MachineClock,
    log: Log,
    /// The stopper of the server, set before the first engine serves.
    stopper: Arc<OnceLock<Stopper>>,
    /// The stage of engines without threads.
    stage: Option<Box<dyn Stage>>,
    rows: Mutex<Rows>,
    /// Wakes threads that wait for a change of the rows.
    changed: Condvar,
}

#[derive(Default)]
struct Rows {
    all: Vec<Row>,
    /// Whether the server is shutting down, so that devices are no longer added or removed.
    is_closed: bool,
    /// The number of removed devices whose engines are still ending.
    leaving: usize,
}

/// An engine that serves, or has served.
struct Row {
    handle: Handle,
    size_bytes: u64,
    description: String,
    volumes: Option<Arc<Mutex<Volumes>>>,
    /// The engine's thread, until another thread waits for its end.
    thread: Option<JoinHandle<Ended>>,
    leaves: Arc<AtomicBool>,
    is_removed: bool,
}

impl Row {
    fn new(mut opened: Opened) -> Self {
        let Facts { handle, shape, description, volumes, .. } = opened.facts;
        Self {
            handle,
            size_bytes: shape.size_bytes,
            description,
            volumes: volumes.map(|volumes| Arc::new(Mutex::new(volumes))),
            thread: opened.thread.join.take(),
            leaves: Arc::clone(&opened.thread.leaves),
            is_removed: false,
        }
    }
}

/// The facts about a device that the watch shows.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) size_bytes: u64,
    pub(crate) description: String,
}

impl fmt::Debug for Engines {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Engines").field("devices", &self.rows().all.len()).finish_non_exhaustive()
    }
}

impl Engines {
    /// A server without engines yet.
    pub(crate) fn new(workers: Option<Arc<WorkerPool>>, clock: MachineClock, log: Log) -> Self {
        let (stopper, rows, changed) = (Arc::default(), Mutex::default(), Condvar::new());
        Self(Arc::new(Inner { workers, clock, log, stopper, stage: None, rows, changed }))
    }

    /// Engines that run on a stage instead of on threads.
    pub fn on(stage: Box<dyn Stage>, log: Log) -> Self {
        let (stopper, rows, changed) = (Arc::default(), Mutex::default(), Condvar::new());
        let stage = Some(stage);
        Self(Arc::new(Inner { workers: None, clock: MachineClock::new(), log, stopper, stage, rows, changed }))
    }

    /// Waits for answers of engines, for this long altogether.
    pub(crate) fn hear_all<T>(
        &self,
        answers: Vec<Receiver<T>>,
        patience: Duration,
    ) -> Vec<Result<T, RecvTimeoutError>> {
        let span = Nanos(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
        let Some(stage) = &self.0.stage else {
            let until = self.0.clock.now().after(span);
            let left = || Duration::from_nanos(until.since(self.0.clock.now()).0);
            return answers.into_iter().map(|answer| answer.recv_timeout(left())).collect();
        };
        let mut until = None;
        let mut hear = |answer: Receiver<T>| loop {
            match answer.try_recv() {
                Ok(answer) => return Ok(answer),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {}
            }
            let now = stage.go_on().ok_or(RecvTimeoutError::Disconnected)?;
            if now > *until.get_or_insert(now.after(span)) {
                return Err(RecvTimeoutError::Timeout);
            }
        };
        answers.into_iter().map(&mut hear).collect()
    }

    /// Waits for the answer of an engine, for this long.
    pub(crate) fn hear<T>(&self, answer: Receiver<T>, patience: Duration) -> Result<T, RecvTimeoutError> {
        self.hear_all(vec![answer], patience).pop().unwrap_or(Err(RecvTimeoutError::Disconnected))
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        // The rows are changed in one step, so that a panic leaves them whole.
        self.0.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the devices of a spec that have no engine yet, all or none; they do not serve before [`Engines::begin`].
    ///
    /// # Errors
    /// If one cannot be opened. All are closed then.
    pub(crate) fn open(&self, spec: &Spec, capture: Option<Capture>) -> Result<Vec<Opened>, ServeError> {
        if let Some(stage) = &self.0.stage {
            return stage.open(spec);
        }
        let mut capture = capture;
        let known = self.rows().all.len();
        let starting = (known..spec.device.len()).map(|number| Starting::new(self, spec, number, capture.take()));
        let starting: Vec<Starting> = starting.collect::<Result<_, _>>()?;
        starting.into_iter().map(Starting::wait_until_open).collect()
    }

    /// Lets opened engines serve under the next numbers, all or none.
    ///
    /// # Errors
    /// If one cannot, or the server is shutting down. All of them end then.
    pub(crate) fn begin(&self, opened: Vec<Opened>, exports: &Arc<[nbd::Export]>) -> Result<(), ServeError> {
        match &self.0.stage {
            Some(stage) => stage.begin(exports)?,
            None => opened.iter().try_for_each(|opened| opened.thread.begin(exports))?,
        }
        let mut rows = self.rows();
        if rows.is_closed {
            return Err(ServeError("the server ends".into()));
        }
        rows.all.extend(opened.into_iter().map(Row::new));
        Ok(())
    }

    /// Keeps engines that serve already, on a stage.
    pub fn keep(&self, opened: Vec<Opened>) {
        self.rows().all.extend(opened.into_iter().map(Row::new));
    }

    /// Sets the stopper that ends the server when a device has failed as a whole. Must be called before the first engine begins.
    pub(crate) fn stop_with(&self, stopper: Stopper) {
        // There is one front, and so one stopper.
        let _ = self.0.stopper.set(stopper);
    }

    /// The engine of every device, those that were removed included: they ignore commands.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.rows().all.iter().map(|row| row.handle.clone()).collect()
    }

    /// The engines of devices that were not removed, with their numbers.
    pub(crate) fn present(&self) -> Vec<(usize, Handle)> {
        let rows = self.rows();
        let present = rows.all.iter().enumerate().filter(|(_, row)| !row.is_removed);
        present.map(|(number, row)| (number, row.handle.clone())).collect()
    }

    /// Sends a command to every engine.
    pub(crate) fn send_all(&self, command: impl Fn() -> Command) {
        self.rows().all.iter().for_each(|row| row.handle.send(command()));
    }

    /// Sends a command to the engine of a device. It is ignored if there is no such engine, or it has ended.
    pub(crate) fn send(&self, device: usize, command: Command) {
        if let Some(row) = self.rows().all.get(device) {
            row.handle.send(command);
        }
    }

    /// The facts about each device that the watch shows.
    pub(crate) fn watched(&self) -> Vec<Watched> {
        let watched = |row: &Row| Watched { size_bytes: row.size_bytes, description: row.description.clone() };
        self.rows().all.iter().map(watched).collect()
    }

    /// The table of a device's volumes, if it has one.
    pub(crate) fn volumes(&self, device: usize) -> Option<Arc<Mutex<Volumes>>> {
        self.rows().all.get(device)?.volumes.clone()
    }

    /// Takes note of a device's new length, which is also new room for its volumes.
    pub(crate) fn has_grown(&self, device: usize, size_bytes: u64, description: String) {
        let mut rows = self.rows();
        let Some(row) = rows.all.get_mut(device) else { return };
        (row.size_bytes, row.description) = (size_bytes, description);
        let volumes = row.volumes.clone();
        drop(rows);
        if let Some(volumes) = volumes {
            volumes.lock().unwrap_or_else(PoisonError::into_inner).has_grown(size_bytes);
        }
    }

    /// Ends the engines from this number on, which have begun and are not known to any client yet.
    pub(crate) fn take_back(&self, from: usize) {
        let rows: Vec<Row> = {
            let mut rows = self.rows();
            let from = from.min(rows.all.len());
            rows.all.drain(from..).collect()
        };
        for (mut row, number) in rows.into_iter().zip(from..) {
            // The result of the engine's end does not matter, because it has served no client.
            let _ = row.thread.take().map(|thread| end(&row.handle, &row.leaves, thread));
            let _ = self.0.stage.as_ref().map(|stage| stage.end(number));
        }
    }

    /// Ends the engine of a removed device once it has answered its clients' requests, and waits for that.
    ///
    /// # Errors
    /// If a last flush has failed, or the device does not complete its operations.
    pub(crate) fn remove(&self, device: usize) -> Result<(), ServeError> {
        let mut rows = self.rows();
        let Some(row) = rows.all.get_mut(device) else { return Ok(()) };
        row.is_removed = true;
        row.volumes = None;
        if let Some(stage) = &self.0.stage {
            drop(rows);
            return stage.end(device);
        }
        // Without a thread here, the server is shutting down and waits for the engine itself.
        let Some(thread) = row.thread.take() else { return Ok(()) };
        let (handle, leaves) = (row.handle.clone(), Arc::clone(&row.leaves));
        rows.leaving += 1;
        drop(rows);
        let ended = end(&handle, &leaves, thread);
        self.rows().leaving -= 1;
        self.0.changed.notify_all();
        ended
    }

    /// From now on no device is added or removed: the server is shutting down.
    pub(crate) fn close(&self) {
        self.rows().is_closed = true;
        self.0.changed.notify_all();
    }

    /// Waits until the server ends, and then for the end of every engine.
    ///
    /// # Errors
    /// If a device has failed as a whole.
    pub(crate) fn wait(&self) -> Result<(), ServeError> {
        let wait = |rows| self.0.changed.wait(rows).unwrap_or_else(PoisonError::into_inner);
        let mut rows = self.rows();
        while !rows.is_closed {
            rows = wait(rows);
        }
        while let Some(thread) = rows.all.iter_mut().find_map(|row| row.thread.take()) {
            drop(rows);
            joined(thread)?;
            rows = self.rows();
        }
        while rows.leaving > 0 {
            rows = wait(rows);
        }
        Ok(())
    }
}

/// The services of a device, in the order of their names, as the spec has them.
pub fn service_plans(spec: &Spec, number: usize) -> Vec<ServicePlan> {
    let device = &spec.device[number];
    let classes = || (0..).map(StreamId).zip(spec.classes()).filter(|(_, class)| class.kind == ClassKind::Service);
    let plan = |(name, service): (&String, &Service)| {
        let (class, _) = classes().find(|(_, class)| class.name == *name)?;
        let state = service.state_path(name, device).map(|path| Arc::new(path) as Arc<dyn Shelf>);
        Some(ServicePlan { class, spec: service.clone(), state })
    };
    spec.services_of(device).filter_map(plan).collect()
}
