//! The operator of a world, which changes the server by the same controller as `ioweir ctl`.
//!
//! The controller waits for engines, so it has a thread of its own. The thread runs only while the world waits for it, so that events have
//! one order, and the same seed gives the same.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ioweir_core::Nanos;

use ioweir_serve::capture::Capture;
use ioweir_serve::control::Controller;
use ioweir_serve::nbd::Export;
use ioweir_serve::parts::{Facts, Host, Opened, Run};
use ioweir_serve::server::ServeError;
use ioweir_serve::spec::Spec;

/// A change that an operator makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Set(Vec<String>),
    AddExport(String, Vec<String>),
    /// The flag says whether its clients may have the rest of their answers.
    RemoveExport(String, bool),
    AddDevice(String, Vec<String>),
    ResizeDevice(String, u64),
    RemoveDevice(String),
    /// Adds a volume to the device.
    AddVolume(String, String, u64),
    ResizeVolume(String, String, u64),
    RemoveVolume(String, String),
}

impl Wanted {
    fn ask(&self, controller: &Controller) -> Result<Vec<String>, String> {
        match self {
            Self::Set(assignments) => controller.set(assignments),
            Self::AddExport(name, keys) => controller.add_export(name, keys),
            Self::RemoveExport(name, drains) => controller.remove_export(name, *drains),
            Self::AddDevice(name, keys) => controller.add_device(name, keys),
            Self::ResizeDevice(name, bytes) => controller.resize_device(name, ioweir_config::Size(*bytes)),
            Self::RemoveDevice(name) => controller.remove_device(name),
            Self::AddVolume(device, name, bytes) => controller.add_volume(device, name, *bytes),
            Self::ResizeVolume(device, name, bytes) => controller.resize_volume(device, name, *bytes),
            Self::RemoveVolume(device, name) => controller.remove_volume(device, name),
        }
    }

    /// The volume that the change may shrink or remove.
    pub(super) fn takes(&self) -> Option<&str> {
        match self {
            Self::ResizeVolume(_, name, _) | Self::RemoveVolume(_, name) => Some(name),
            _ => None,
        }
    }

    /// Whether the change is one of the table of volumes.
    pub(super) const fn is_of_volumes(&self) -> bool {
        matches!(self, Self::AddVolume(..) | Self::ResizeVolume(..) | Self::RemoveVolume(..))
    }
}

/// A request of the controller's thread to the world.
pub(super) enum Asked {
    /// The time.
    Time,
    /// To run on, until something has happened that the controller may wait for.
    GoOn,
    /// To open the devices of a spec from this number on.
    Open(Box<Spec>, Range<usize>),
    /// To let the engine of an opened device serve these exports.
    Begin(usize, Arc<[Export]>),
    /// To end the engine of a device.
    End(usize),
    /// The operator is done, with this result.
    Done(Result<Vec<String>, String>),
}

/// An answer of the world.
pub(super) enum Told {
    Time(Nanos),
    Opened(Vec<Result<Facts, ServeError>>),
    Done(Result<(), String>),
}

/// The world, as the controller's thread knows it.
struct Line(Mutex<(Sender<Asked>, Receiver<Told>)>);

impl Line {
    /// The answer of the world; `None` once the server is gone.
    fn ask(&self, what: Asked) -> Option<Told> {
        let (asked, told) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.send(what).ok()?;
        told.recv().ok()
    }

    fn time(&self, what: Asked) -> Option<Nanos> {
        match self.ask(what) {
            Some(Told::Time(now)) => Some(now),
            _ => None,
        }
    }

    fn do_it(&self, what: Asked) -> Result<(), ServeError> {
        match self.ask(what) {
            Some(Told::Done(result)) => result.map_err(ServeError),
            _ => Err(gone()),
        }
    }
}

fn gone() -> ServeError {
    ServeError("the server is gone".into())
}

/// The world as the place where engines run. A thread that waits for an engine lets the world run meanwhile.
pub(super) struct Stage(Arc<Line>);

impl Stage {
    /// The engine of an opened device, as the server knows it.
    pub(super) fn opened(&self, facts: Facts, device: usize) -> Opened {
        Opened::new(facts, Box::new(Place { line: Arc::clone(&self.0), device }))
    }
}

impl Host for Stage {
    fn open(&self, spec: &Spec, devices: Range<usize>, _capture: Option<Capture>) -> Vec<Result<Opened, ServeError>> {
        let Some(Told::Opened(opened)) = self.0.ask(Asked::Open(Box::new(spec.clone()), devices.clone())) else {
            return devices.map(|_| Err(gone())).collect();
        };
        opened.into_iter().zip(devices).map(|(facts, device)| Ok(self.opened(facts?, device))).collect()
    }

    fn now(&self) -> Nanos {
        // If the server is gone, the wait that follows reports that.
        self.0.time(Asked::Time).unwrap_or(Nanos::ZERO)
    }

    fn wait(
        &self,
        until: Nanos,
        receive: &mut dyn FnMut(Duration) -> Result<(), RecvTimeoutError>,
    ) -> Result<(), RecvTimeoutError> {
        loop {
            let received = receive(Duration::ZERO);
            if received != Err(RecvTimeoutError::Timeout) {
                return received;
            }
            if self.0.time(Asked::GoOn).ok_or(RecvTimeoutError::Disconnected)? > until {
                return Err(RecvTimeoutError::Timeout);
            }
        }
    }
}

/// The engine of a device in the world.
struct Place {
    line: Arc<Line>,
    device: usize,
}

impl Run for Place {
    fn begin(&self, exports: &Arc<[Export]>) -> Result<(), ServeError> {
        self.line.do_it(Asked::Begin(self.device, Arc::clone(exports)))
    }

    fn end(self: Box<Self>) -> Result<(), ServeError> {
        self.line.do_it(Asked::End(self.device))
    }

    fn wait(self: Box<Self>) -> Result<(), ServeError> {
        self.end()
    }
}

/// The operator, as the world knows it. Dropping it ends its change, because there is no server any more.
pub(super) struct Operator {
    asked: Receiver<Asked>,
    told: Option<Sender<Told>>,
    done: Sender<Asked>,
    thread: Option<JoinHandle<()>>,
    /// The change that the operator is making.
    pub(super) wanted: Option<Wanted>,
    /// The device whose engine it waits for to end.
    pub(super) ending: Option<usize>,
}

impl Operator {
    /// An operator without a change, and the stage for the engines.
    pub(super) fn new() -> (Self, Stage) {
        let (done, asked) = channel();
        let (told, hear) = channel();
        let stage = Stage(Arc::new(Line(Mutex::new((done.clone(), hear)))));
        (Self { asked, told: Some(told), done, thread: None, wanted: None, ending: None }, stage)
    }

    /// Begins a change, while none is under way.
    pub(super) fn begin(&mut self, controller: &Controller, wanted: Wanted) {
        let (controller, done, its) = (controller.clone(), self.done.clone(), wanted.clone());
        self.wanted = Some(wanted);
        self.thread = Some(std::thread::spawn(move || {
            let ended = catch_unwind(AssertUnwindSafe(|| its.ask(&controller)));
            // This fails if the world is over.
            let _ = done.send(Asked::Done(ended.unwrap_or_else(|_| Err("the controller has panicked".into()))));
        }));
    }

    /// Answers the operator's question.
    pub(super) fn tell(&self, what: Told) {
        let _ = self.told.as_ref().map(|told| told.send(what));
    }

    /// Lets the operator run until its next question.
    pub(super) fn hear(&mut self) -> Asked {
        let asked = self.asked.recv().unwrap_or(Asked::Done(Err("the operator is gone".into())));
        if matches!(asked, Asked::Done(_)) {
            self.finish();
        }
        asked
    }

    fn finish(&mut self) {
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        drop(self.told.take());
        self.finish();
    }
}
