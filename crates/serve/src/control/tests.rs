//! Tests of a controller whose engines do not answer, or stop to.

#![allow(clippy::unwrap_used, reason = "a failure is to stop the test")]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ioweir_core::Nanos;

use super::{Controller, Tunables};
use crate::backend::Shape;
use crate::capture::Capture;
use crate::engine::{Command, Handle};
use crate::engines::{Engines, Facts, Host, Opened, Run};
use crate::error::ServeError;
use crate::executor::MachineClock;
use crate::exports::{Catalog, Exports, Places};
use crate::log::Log;
use crate::nbd::Export;
use crate::spec::Spec;

/// An engine without clients that answers so many times and then stands still, while seconds pass.
struct Silent {
    seconds: AtomicU64,
    answers_left: AtomicU64,
    commands: Mutex<Receiver<Command>>,
}

impl Host for Silent {
    fn open(&self, _spec: &Spec, _devices: Range<usize>, _: Option<Capture>) -> Vec<Result<Opened, ServeError>> {
        Vec::new()
    }

    fn now(&self) -> Nanos {
        Nanos::from_seconds(self.seconds.load(Ordering::Relaxed))
    }

    fn wait(
        &self,
        until: Nanos,
        receive: &mut dyn FnMut(Duration) -> Result<(), RecvTimeoutError>,
    ) -> Result<(), RecvTimeoutError> {
        let left = self.answers_left.load(Ordering::Relaxed);
        if left > 0 {
            self.answers_left.store(left - 1, Ordering::Relaxed);
            for command in self.commands.lock().unwrap().try_iter() {
                match command {
                    // Where nobody asks whether the change can be made, nobody hears the answer.
                    Command::Change(change) => drop(change.prepared.send(Ok(()))),
                    Command::Clients(answer) => answer.send(Vec::new()).unwrap(),
                    _ => {}
                }
            }
            return receive(Duration::ZERO);
        }
        while self.now() < until {
            self.seconds.fetch_add(1, Ordering::Relaxed);
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

/// Asks for the removal of export `b`, of a device whose engine answers so many times, and returns the result and the hidden exports.
fn remove_export_from(answers: u64) -> (Result<Vec<String>, String>, Vec<usize>) {
    let text = "[[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"1MiB\"\n\
                [[export]]\nname = \"a\"\ndevice = \"d\"\n[[export]]\nname = \"b\"\ndevice = \"d\"\n";
    let spec = Spec::parse("a.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let (handle, commands) = Handle::new().unwrap();
    let shape = Shape { size_bytes: 1 << 20, ..Shape::default() };
    let facts = Facts { handle, shape, description: String::new(), volumes: None };
    let opened = vec![Opened::new(facts, Box::new(Idle))];
    let places: Vec<Places> = opened.iter().map(Opened::places).collect();
    let handles: Vec<Handle> = opened.iter().map(Opened::handle).collect();
    let exports = Exports::of(&spec, &places).unwrap();
    let tunables = Arc::new(Tunables::new(&spec.server, None, Catalog::new(&spec, exports, &handles)));
    let (seconds, answers_left) = (AtomicU64::new(0), AtomicU64::new(answers));
    let engines = Engines::new(Box::new(Silent { seconds, answers_left, commands: Mutex::new(commands) }));
    engines.keep(opened);
    let parts = (engines, places);
    let controller = Controller::new(spec, parts, Arc::clone(&tunables), Log::default(), MachineClock::new());
    let removed = controller.remove_export("b", false);
    (removed, tunables.catalog().exports.absent.clone())
}

#[test]
fn exports_that_cannot_be_removed_are_shown_again() {
    // The engine stands still from the beginning, or once it has said that the export has no clients.
    for answers in 0..2 {
        let (removed, absent) = remove_export_from(answers);
        let refusal = removed.unwrap_err();
        assert!(refusal.contains("does not answer"), "{refusal}");
        assert!(absent.is_empty(), "{answers} answers: it is shown as before");
    }
    let (removed, absent) = remove_export_from(2);
    assert_eq!((removed, absent), (Ok(vec!["export.b is removed".to_string()]), vec![1]));
}
