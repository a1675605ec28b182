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
    /// The number of devices that were opened.
    opened: Arc<AtomicU64>,
}

impl Host for Silent {
    fn open(&self, _spec: &Spec, devices: Range<usize>, _: Option<Capture>) -> Vec<Result<Opened, ServeError>> {
        self.opened.fetch_add(devices.len() as u64, Ordering::Relaxed);
        devices.map(|_| Ok(opened().0)).collect()
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

/// An engine of a device of 1 MiB, with the commands that it receives.
fn opened() -> (Opened, Receiver<Command>) {
    let (handle, commands) = Handle::new().unwrap();
    let shape = Shape { size_bytes: 1 << 20, ..Shape::default() };
    let facts = Facts { handle, shape, description: String::new(), volumes: None };
    (Opened::new(facts, Box::new(Idle)), commands)
}

/// A controller of two devices, of which the second one cannot be opened. The engine of the first one answers so many times.
fn controller(answers: u64) -> (Controller, Arc<Tunables>, Arc<AtomicU64>) {
    let device = |name: &str| format!("[[device]]\nname = \"{name}\"\nbackend = \"memory\"\nsize = \"1MiB\"\n");
    let export = |name: &str, device: &str| format!("[[export]]\nname = \"{name}\"\ndevice = \"{device}\"\n");
    let text = [device("d"), device("e"), export("a", "d"), export("b", "d"), export("c", "e")].concat();
    let spec = Spec::parse("a.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let (first, commands) = opened();
    let all = vec![first, Opened::failed("no such file".into()).unwrap()];
    let places: Vec<Places> = all.iter().map(Opened::places).collect();
    let handles: Vec<Handle> = all.iter().map(Opened::handle).collect();
    let exports = Exports::of(&spec, &places).unwrap();
    let tunables = Arc::new(Tunables::new(&spec.server, None, Catalog::new(&spec, exports, &handles)));
    let (seconds, answers_left, commands) = (AtomicU64::new(0), AtomicU64::new(answers), Mutex::new(commands));
    let opened = Arc::new(AtomicU64::new(0));
    let engines = Engines::new(Box::new(Silent { seconds, answers_left, commands, opened: Arc::clone(&opened) }));
    engines.keep(all);
    let parts = (engines, places);
    let controller = Controller::new(spec, parts, Arc::clone(&tunables), Log::default(), MachineClock::new());
    (controller, tunables, opened)
}

#[test]
fn exports_that_cannot_be_removed_are_shown_again() {
    // The engine stands still from the beginning, or once it has said that the export has no clients.
    for answers in 0..3 {
        let (controller, tunables, _) = controller(answers);
        let refusal = controller.remove_export("b", false).unwrap_err();
        assert!(refusal.contains("does not answer"), "{refusal}");
        assert_eq!(tunables.catalog().exports.absent, [2], "{answers} answers: it is shown as before");
    }
    let (controller, tunables, _) = controller(3);
    assert_eq!(controller.remove_export("b", false), Ok(vec!["export.b is removed".to_string()]));
    assert_eq!(tunables.catalog().exports.absent, [1, 2]);
}

#[test]
fn devices_beside_silent_ones_can_be_opened_later() {
    let (controller, tunables, opened) = controller(0);
    for tries in 1..3 {
        let refusal = controller.reopen("e").unwrap_err();
        assert!(refusal.contains("device d does not answer"), "{refusal}");
        assert_eq!((opened.load(Ordering::Relaxed), &tunables.catalog().exports.absent[..]), (tries, &[2][..]));
    }
}
