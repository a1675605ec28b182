//! The place where engines run, as the server sees it: threads, or the one thread of a test that moves time itself.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use ioweir_core::Nanos;

use crate::backend::{Shape, Volumes};
use crate::capture::Capture;
use crate::engine::Handle;
use crate::error::{ServeError, failed};
use crate::exports::Places;
use crate::nbd;
use crate::spec::Spec;

/// The place where engines run.
pub trait Host: Send + Sync {
    /// Opens devices of a spec, and returns one result for each, in their order. The capture is for the first of them.
    fn open(&self, spec: &Spec, devices: Range<usize>, capture: Option<Capture>) -> Vec<Result<Opened, ServeError>>;

    /// The time.
    fn now(&self) -> Nanos;

    /// Waits until `receive` has received the answer of an engine, at most until a time. `receive` blocks for as long as it is told.
    ///
    /// # Errors
    /// If there is no answer by then, or the engine has ended.
    fn wait(
        &self,
        until: Nanos,
        receive: &mut dyn FnMut(Duration) -> Result<(), RecvTimeoutError>,
    ) -> Result<(), RecvTimeoutError>;
}

/// An engine on its host. If it is dropped before it has begun, it ends, and its device is closed.
pub trait Run: Send {
    /// Lets the engine serve these exports.
    ///
    /// # Errors
    /// If it cannot serve them.
    fn begin(&self, exports: &Arc<[nbd::Export]>) -> Result<(), ServeError>;

    /// Ends the engine, while the server continues, and waits for that.
    ///
    /// # Errors
    /// If a last flush has failed, or the device does not complete its operations.
    fn end(self: Box<Self>) -> Result<(), ServeError>;

    /// Waits for the engine, which ends with the server.
    ///
    /// # Errors
    /// As [`Run::end`].
    fn wait(self: Box<Self>) -> Result<(), ServeError>;
}

/// An engine whose device is open, or the row of a device that cannot be opened. Dropped before it is kept, the engine ends and
/// its device is closed.
pub struct Opened {
    pub(super) facts: Facts,
    pub(super) run: Box<dyn Run>,
    /// Why the device could not be opened, if it was not.
    pub(super) trouble: Option<String>,
}

/// The run of a device that is not open. Commands to its handle are ignored.
struct Unopened;

impl Run for Unopened {
    fn begin(&self, _exports: &Arc<[nbd::Export]>) -> Result<(), ServeError> {
        Ok(())
    }

    fn end(self: Box<Self>) -> Result<(), ServeError> {
        Ok(())
    }

    fn wait(self: Box<Self>) -> Result<(), ServeError> {
        Ok(())
    }
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

impl Opened {
    /// An engine that is ready to begin, with the facts about its device.
    #[must_use]
    pub fn new(facts: Facts, run: Box<dyn Run>) -> Self {
        Self { facts, run, trouble: None }
    }

    /// The row of a device that cannot be opened.
    pub(crate) fn failed(trouble: String) -> Result<Self, ServeError> {
        let (handle, _) = Handle::new().map_err(|error| failed("no descriptors are left", &error))?;
        let (shape, description) = (Shape::default(), format!("cannot be opened: {trouble}"));
        let facts = Facts { handle, shape, description, volumes: None };
        Ok(Self { facts, run: Box::new(Unopened), trouble: Some(trouble) })
    }

    /// Why the device could not be opened, if it was not.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The places on the device that exports can show.
    pub fn places(&self) -> Places {
        let Facts { shape, volumes, .. } = &self.facts;
        let volumes = volumes.as_ref().map(|volumes| volumes.places().clone()).unwrap_or_default();
        Places { shape: shape.clone(), volumes, is_open: self.trouble.is_none() }
    }

    /// A handle for commands to the engine, which it carries out once it serves.
    pub fn handle(&self) -> Handle {
        self.facts.handle.clone()
    }

    /// A description of its device.
    pub(crate) fn description(&self) -> &str {
        &self.facts.description
    }
}
