//! Tests of a controller whose engines do not answer.

#![allow(clippy::unwrap_used, reason = "a failure is to stop the test")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use ioweir_core::Nanos;

use super::{Controller, Tunables};
use crate::backend::Shape;
use crate::capture::Capture;
use crate::engine::Handle;
use crate::engines::{Engines, Facts, Host, Opened, Run};
use crate::error::ServeError;
use crate::executor::MachineClock;
use crate::exports::{Catalog, Exports, Places};
use crate::log::Log;
use crate::nbd::Export;
use crate::spec::Spec;

/// Engines that make every change and do not answer, while seconds pass.
#[derive(Default)]
struct Silent(AtomicU64);

impl Host for Silent {
    fn open(&self, _spec: &Spec, _devices: Range<usize>, _: Option<Capture>) -> Vec<Result<Opened, ServeError>> {
        Vec::new()
    }

    fn now(&self) -> Nanos {
        Nanos::from_seconds(self.0.load(Ordering::Relaxed))
    }

    fn wait(
        &self,
        until: Nanos,
        receive: &mut dyn FnMut(Duration) -> Result<(), RecvTimeoutError>,
    ) -> Result<(), RecvTimeoutError> {
        while self.now() < until {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        receive(Duration::ZERO)
    }
}

/// An engine that is there until the test ends.
struct Idle;

impl Run for Idle {
    fn begin(&self, _exports: &Arc<[Export]>) -> Result<(), ServeError> {
        Ok(())
    }

    fn end(self: Box<Self>) -> Result<(), ServeError> {
        Ok(())
    }

    fn wait(self: Box<Self>) -> Result<(), ServeError> {
        Ok(())
    }
}

#[test]
fn exports_of_silent_devices_may_have_clients() {
    let text = "[[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"1MiB\"\n\
                [[export]]\nname = \"a\"\ndevice = \"d\"\n[[export]]\nname = \"b\"\ndevice = \"d\"\n";
    let spec = Spec::parse("a.toml", text).unwrap_or_else(|error| panic!("{error}"));
    // The receiver is kept, and no thread listens to it.
    let (handle, _commands) = Handle::new().unwrap();
    let shape = Shape { size_bytes: 1 << 20, ..Shape::default() };
    let facts = Facts { handle, shape, description: String::new(), volumes: None };
    let opened = vec![Opened::new(facts, Box::new(Idle))];
    let places: Vec<Places> = opened.iter().map(Opened::places).collect();
    let handles: Vec<Handle> = opened.iter().map(Opened::handle).collect();
    let exports = Exports::of(&spec, &places).unwrap();
    let tunables = Arc::new(Tunables::new(&spec.server, None, Catalog::new(&spec, exports, &handles)));
    let log = Log::default();
    let engines = Engines::new(Box::new(Silent::default()));
    engines.keep(opened);
    let controller = Controller::new(spec, (engines, places), Arc::clone(&tunables), log, MachineClock::new());
    let refused = controller.remove_export("b", false).unwrap_err();
    assert!(refused.contains("does not answer"), "{refused}");
    assert!(tunables.catalog().exports.absent.is_empty(), "it is shown as before");
}
