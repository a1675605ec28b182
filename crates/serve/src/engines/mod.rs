//! The engines of a server, by the number of their device. Each runs on a [`Host`]: a thread of its own ([`Threads`]), which is
//! started when the server starts or a device is added, and ended when the device is removed.
//!
//! A device keeps its number: the row of a removed one stays. An engine begins in two steps, so that several begin together or none does:
//! it opens the device, and serves once it gets the exports.

mod host;
mod thread;

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ioweir_core::{Nanos, StreamId};

use crate::backend::Volumes;
use crate::capture::Capture;
use crate::engine::{Command, Handle, ServicePlan, Shelf};
use crate::error::ServeError;
use crate::nbd;
use crate::spec::{ClassKind, Service, Spec};

pub use host::{Facts, Host, Opened, Run};
pub(crate) use thread::Threads;

/// The engines of a server; clones refer to the same ones.
#[derive(Clone)]
pub struct Engines(Arc<Inner>);

struct Inner {
    host: Box<dyn Host>,
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
    /// The engine on its host, until a thread waits for its end.
    run: Option<Box<dyn Run>>,
    is_removed: bool,
    /// Why the device is not open, if it is not.
    trouble: Option<String>,
}

impl Row {
    fn new(opened: Opened) -> Self {
        let Facts { handle, shape, description, volumes } = opened.facts;
        Self {
            handle,
            size_bytes: shape.size_bytes,
            description,
            volumes: volumes.map(|volumes| Arc::new(Mutex::new(volumes))),
            run: Some(opened.run),
            is_removed: false,
            trouble: opened.trouble,
        }
    }
}

/// The facts about a device that the watch shows.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) size_bytes: u64,
    pub(crate) description: String,
    /// Why the device is not open, if it is not.
    pub(crate) trouble: Option<String>,
}

impl fmt::Debug for Engines {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Engines").field("devices", &self.rows().all.len()).finish_non_exhaustive()
    }
}

impl Engines {
    /// A server without engines yet, which will run on this host.
    #[must_use]
    pub fn new(host: Box<dyn Host>) -> Self {
        Self(Arc::new(Inner { host, rows: Mutex::default(), changed: Condvar::new() }))
    }

    /// Waits for answers of engines, for this long altogether.
    pub(crate) fn hear_all<T>(
        &self,
        answers: Vec<Receiver<T>>,
        patience: Duration,
    ) -> Vec<Result<T, RecvTimeoutError>> {
        let host = &self.0.host;
        let until = host.now().after(Nanos(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX)));
        let hear = |answer: Receiver<T>| {
            let mut heard = None;
            host.wait(until, &mut |span| answer.recv_timeout(span).map(|answer| heard = Some(answer)))?;
            heard.ok_or(RecvTimeoutError::Timeout)
        };
        answers.into_iter().map(hear).collect()
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
        self.open_each(spec, capture).into_iter().collect()
    }

    /// As [`Engines::open`]; devices that cannot be opened are left out of service if there is one that can.
    ///
    /// # Errors
    /// If none can be opened: why the first cannot.
    pub(crate) fn open_some(&self, spec: &Spec) -> Result<Vec<Opened>, ServeError> {
        let opened = self.open_each(spec, None);
        if opened.iter().all(Result::is_err) {
            return opened.into_iter().collect();
        }
        opened.into_iter().map(|opened| opened.or_else(|error| Opened::failed(error.0))).collect()
    }

    /// Tries once more to open a device that could not be opened; it does not serve before [`Engines::put_back`].
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(crate) fn open_again(&self, spec: &Spec, device: usize) -> Result<Opened, ServeError> {
        let opened = self.0.host.open(spec, device..device + 1, None).pop();
        let opened = opened.unwrap_or_else(|| Err(ServeError("the host has not opened the device".into())));
        if let (Err(error), Some(row)) = (&opened, self.rows().all.get_mut(device)) {
            row.description = format!("cannot be opened: {error}");
            row.trouble = Some(error.0.clone());
        }
        opened
    }

    /// Lets the engine of a device that was opened again serve.
    ///
    /// # Errors
    /// If it cannot, or the server is shutting down. It ends then.
    pub(crate) fn put_back(
        &self,
        device: usize,
        opened: Opened,
        exports: &Arc<[nbd::Export]>,
    ) -> Result<(), ServeError> {
        opened.run.begin(exports)?;
        let mut rows = self.rows();
        if rows.is_closed {
            return Err(ServeError("the server ends".into()));
        }
        if let Some(row) = rows.all.get_mut(device) {
            *row = Row::new(opened);
        }
        Ok(())
    }

    /// Ends the engine of a device that was put back and that no client can reach: the device is as it was before.
    pub(crate) fn leave_out(&self, device: usize, problem: &str) -> Result<(), ServeError> {
        let failed = Row::new(Opened::failed(problem.into())?);
        let row = self.rows().all.get_mut(device).map(|row| std::mem::replace(row, failed));
        row.and_then(|row| row.run).map_or(Ok(()), Run::end)
    }

    /// Why a device is not open, if it is not.
    pub(crate) fn trouble(&self, device: usize) -> Option<String> {
        self.rows().all.get(device)?.trouble.clone()
    }

    fn open_each(&self, spec: &Spec, capture: Option<Capture>) -> Vec<Result<Opened, ServeError>> {
        let known = self.rows().all.len();
        self.0.host.open(spec, known..spec.device.len(), capture)
    }

    /// Lets opened engines serve under the next numbers, all or none.
    ///
    /// # Errors
    /// If one cannot, or the server is shutting down. All of them end then.
    pub(crate) fn begin(&self, opened: Vec<Opened>, exports: &Arc<[nbd::Export]>) -> Result<(), ServeError> {
        opened.iter().try_for_each(|opened| opened.run.begin(exports))?;
        let mut rows = self.rows();
        if rows.is_closed {
            return Err(ServeError("the server ends".into()));
        }
        rows.all.extend(opened.into_iter().map(Row::new));
        Ok(())
    }

    /// Adds engines that serve already.
    pub fn keep(&self, opened: Vec<Opened>) {
        self.rows().all.extend(opened.into_iter().map(Row::new));
    }

    /// The engine of every device, those that were removed included: they ignore commands.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.rows().all.iter().map(|row| row.handle.clone()).collect()
    }

    /// The engines of devices that are open and were not removed, with their numbers.
    pub(crate) fn present(&self) -> Vec<(usize, Handle)> {
        let rows = self.rows();
        let present = rows.all.iter().enumerate().filter(|(_, row)| !row.is_removed && row.trouble.is_none());
        present.map(|(number, row)| (number, row.handle.clone())).collect()
    }

    /// Sends a command to every engine.
    pub(crate) fn send_all(&self, command: impl Fn() -> Command) {
        self.rows().all.iter().for_each(|row| row.handle.send(command()));
    }

    /// Asks the engine of a device. There is no answer if there is no such engine, or it has ended.
    pub(crate) fn ask<T>(&self, device: usize, question: impl FnOnce(Sender<T>) -> Command) -> Receiver<T> {
        self.rows().all.get(device).map_or_else(|| channel().1, |row| row.handle.ask(question))
    }

    /// The facts about each device that the watch shows.
    pub(crate) fn watched(&self) -> Vec<Watched> {
        let watched = |row: &Row| Watched {
            size_bytes: row.size_bytes,
            description: row.description.clone(),
            trouble: row.trouble.clone(),
        };
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
        for run in rows.into_iter().filter_map(|row| row.run) {
            // The result of the engine's end does not matter, because it has served no client.
            let _ = run.end();
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
        // If another thread has taken it, the server is shutting down and waits for the engine itself.
        let Some(run) = row.run.take() else { return Ok(()) };
        rows.leaving += 1;
        drop(rows);
        let ended = run.end();
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
        while let Some(run) = rows.all.iter_mut().find_map(|row| row.run.take()) {
            drop(rows);
            run.wait()?;
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
