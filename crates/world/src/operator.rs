//! The operator of a world: changes the server by the same controller as `ioweir ctl`.
//!
//! The controller waits for engines, so that it has a thread of its own. That runs only while the world waits for it: what happens has
//! one order, and the same seed gives the same.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use ioweir_core::Nanos;

use ioweir_serve::control::Controller;
use ioweir_serve::nbd::Export;
use ioweir_serve::parts::{Opened, Stage};
use ioweir_serve::server::ServeError;
use ioweir_serve::spec::Spec;

/// A change that an operator makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Set(Vec<String>),
    AddExport(String, Vec<String>),
    /// With whether its clients may have the rest of their answers.
    RemoveExport(String, bool),
    AddDevice(String, Vec<String>),
    ResizeDevice(String, u64),
    RemoveDevice(String),
    /// A volume of the device.
    AddVolume(String, String, u64),
    ResizeVolume(String, String, u64),
    RemoveVolume(String, String),
}

impl Wanted {
    fn ask(&self, controller: &Controller) -> Result<Vec<String>, String> {
        let one = |words: String| vec![words];
        match self {
            Self::Set(assignments) => controller.set(assignments),
            Self::AddExport(name, keys) => controller.add_export(name, keys),
            Self::RemoveExport(name, drains) => controller.remove_export(name, *drains),
            Self::AddDevice(name, keys) => controller.add_device(name, keys),
            Self::ResizeDevice(name, bytes) => controller.resize_device(name, ioweir_config::Size(*bytes)),
            Self::RemoveDevice(name) => controller.remove_device(name),
            Self::AddVolume(device, name, bytes) => controller.add_volume(device, name, *bytes).map(one),
            Self::ResizeVolume(device, name, bytes) => controller.resize_volume(device, name, *bytes).map(one),
            Self::RemoveVolume(device, name) => controller.remove_volume(device, name).map(one),
        }
    }

    /// The volume of which it may take something away.
    pub(super) fn takes(&self) -> Option<&str> {
        match self {
            Self::ResizeVolume(_, name, _) | Self::RemoveVolume(_, name) => Some(name),
            _ => None,
        }
    }

    /// Whether it changes the table of volumes.
    pub(super) const fn is_of_volumes(&self) -> bool {
        matches!(self, Self::AddVolume(..) | Self::ResizeVolume(..) | Self::RemoveVolume(..))
    }
}

/// A question of the controller's thread to the world.
pub(super) enum Asked {
    /// To run on, until something has happened that the controller may wait for.
    GoOn,
    /// To open the devices that the running spec does not have.
    Open(Box<Spec>),
    /// To have the opened devices serve these exports.
    Begin(Arc<[Export]>),
    /// To end the engine of a device.
    End(usize),
    /// The operator is done, with this result.
    Done(Result<Vec<String>, String>),
}

/// An answer of the world.
pub(super) enum Told {
    Time(Nanos),
    Opened(Result<Vec<Opened>, ServeError>),
    Done(Result<(), String>),
}

/// The world, as the controller's thread knows it.
struct Line(Mutex<(Sender<Asked>, Receiver<Told>)>);

impl Line {
    fn ask(&self, what: Asked) -> Option<Told> {
        let (asked, told) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.send(what).ok()?;
        told.recv().ok()
    }

    fn do_it(&self, what: Asked) -> Result<(), String> {
        match self.ask(what) {
            Some(Told::Done(result)) => result,
            _ => Err("the server is gone".into()),
        }
    }
}

impl Stage for Line {
    fn go_on(&self) -> Option<Nanos> {
        match self.ask(Asked::GoOn) {
            Some(Told::Time(now)) => Some(now),
            _ => None,
        }
    }

    fn open(&self, spec: &Spec) -> Result<Vec<Opened>, ServeError> {
        match self.ask(Asked::Open(Box::new(spec.clone()))) {
            Some(Told::Opened(opened)) => opened,
            _ => Err(ServeError("the server is gone".into())),
        }
    }

    fn begin(&self, exports: &Arc<[Export]>) -> Result<(), ServeError> {
        self.do_it(Asked::Begin(Arc::clone(exports))).map_err(ServeError)
    }

    fn end(&self, device: usize) -> Result<(), ServeError> {
        self.do_it(Asked::End(device)).map_err(ServeError)
    }
}

/// The operator, as the world knows it. If it is dropped while it does something, that ends: there is no server any more.
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
    /// An operator who has nothing to do, with the stage for the engines.
    pub(super) fn new() -> (Self, Box<dyn Stage>) {
        let (done, asked) = channel();
        let (told, hear) = channel();
        let line = Line(Mutex::new((done.clone(), hear)));
        (Self { asked, told: Some(told), done, thread: None, wanted: None, ending: None }, Box::new(line))
    }

    /// Begins to do this; nothing is under way.
    pub(super) fn begin(&mut self, controller: &Controller, wanted: Wanted) {
        let (controller, done, its) = (controller.clone(), self.done.clone(), wanted.clone());
        self.wanted = Some(wanted);
        self.thread = Some(std::thread::spawn(move || {
            let ended = catch_unwind(AssertUnwindSafe(|| its.ask(&controller)));
            // A world that is over does not listen.
            let _ = done.send(Asked::Done(ended.unwrap_or_else(|_| Err("the controller has panicked".into()))));
        }));
    }

    /// Answers what it has asked.
    pub(super) fn tell(&self, what: Told) {
        let _ = self.told.as_ref().map(|told| told.send(what));
    }

    /// Lets it go on until it asks for something.
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
