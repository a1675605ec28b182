//! Changes of a running server: assignments to keys of its spec, or a reload of its file, all or nothing.
//!
//! A change is first made to the spec, with the same checks as a file. Then the engines get the differences, and either all of them make
//! the change or none does ([`crate::engine::Change`]). Exports and devices can be added and removed (`exports`, `devices`); a change of
//! tenants or addresses is refused.

mod assignment;
mod client;
mod clients;
mod command;
mod devices;
mod difference;
mod exports;
mod fleet;
mod machines;
mod snapshots;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ioweir_config::{read_spec, shown, unknown};
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, StreamId};

use crate::engine::{self, Change, Handle, Refusal, Timeouts};
use crate::engines::Engines;
use crate::executor::{Clock as _, MachineClock};
use crate::exports::{Catalog, Exports, Places};
use crate::log::{Event, EventKind, Log};
use crate::spec::{ClassKind, Holder, Server, Spec};
use crate::stopper::Stopper;
use crate::tls;

pub use assignment::assign;
pub use client::{AskError, ask};
pub(crate) use client::{send, understand};
pub use clients::{CallerState, ClientState, Clients, ProcessState};
pub use command::{
    Command, DeviceCommand, DeviceName, ExportCommand, LINE_BYTES_MAX, PauseLease, Release, RunLease, ServiceCommand,
    SnapshotCommand, VolumeCommand,
};
pub use difference::differences;
pub use exports::VolumeState;
use exports::{aligned, unknown_device};
pub use fleet::{FleetClass, FleetStatus};
pub use snapshots::SnapshotState;
pub(crate) use snapshots::SnapshotTimer;

/// The number of changes that are remembered.
const CHANGES_MAX: usize = 100;
/// How long all engines together may take to report whether they can make a change.
const PATIENCE: Duration = Duration::from_secs(2);
/// The version of the schema of the answers of a server. It increases when a key is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Settings that can change for the thread that accepts clients.
#[doc(hidden)]
#[derive(Debug)]
pub struct Tunables(Mutex<Tuned>);

/// The present settings.
#[derive(Debug)]
pub(crate) struct Tuned {
    pub(crate) server: Server,
    /// The certificates for connections from now on, if there are any.
    tls: Option<tls::Server>,
    /// The exports that connections from now on can open.
    catalog: Arc<Catalog>,
}

impl Tunables {
    /// The settings of a spec's `[server]` table.
    #[must_use]
    pub fn new(server: &Server, tls: Option<tls::Server>, catalog: Catalog) -> Self {
        Self(Mutex::new(Tuned { server: server.clone(), tls, catalog: Arc::new(catalog) }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Tuned> {
        // Each value is set in one step, so that all are whole even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tls(&self) -> Option<tls::Server> {
        self.lock().tls.clone()
    }

    /// The exports that connections from now on can open.
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.lock().catalog)
    }
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// When it was made, counted from the start of the server.
    pub at: Nanos,
    /// The key of the spec, with its old and new value.
    pub what: String,
}

/// Changes a running server, from any thread.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Held while the spec changes. Opening and ending devices takes time, in which readers of the spec need not wait.
    changing: Mutex<()>,
    running: Mutex<Running>,
    engines: Engines,
    /// The places on each device that exports can show.
    places: Mutex<Vec<Places>>,
    tunables: Arc<Tunables>,
    /// The thread that accepts clients, if there is one: it makes sockets for virtual machines.
    front: OnceLock<Stopper>,
    log: Log,
    clock: MachineClock,
}

#[derive(Debug)]
struct Running {
    spec: Arc<Spec>,
    changes: VecDeque<Changed>,
    /// Keys that were assigned since the file was read, with their paths.
    assigned: BTreeSet<String>,
    /// The state of the fleet, if the server belongs to one.
    fleet: Option<FleetStatus>,
}

impl Controller {
    /// A controller of these engines, whose devices have these places.
    #[doc(hidden)]
    #[must_use]
    pub fn new(
        spec: Spec,
        (engines, places): (Engines, Vec<Places>),
        tunables: Arc<Tunables>,
        log: Log,
        clock: MachineClock,
    ) -> Self {
        let (changing, places) = (Mutex::default(), Mutex::new(places));
        let running = Mutex::new(Running {
            spec: Arc::new(spec),
            changes: VecDeque::new(),
            assigned: BTreeSet::new(),
            fleet: None,
        });
        let front = OnceLock::new();
        Self(Arc::new(Inner { changing, running, engines, places, tunables, front, log, clock }))
    }

    /// Names the thread that accepts clients, of which there is one.
    pub(crate) fn set_front(&self, front: Stopper) {
        // The cell is empty: only this sets it, before operators can ask for a change.
        let _ = self.0.front.set(front);
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        // The guarded state is changed in one step, so it is consistent even after a panic.
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present spec, and the last changes, oldest first.
    #[must_use]
    pub fn running(&self) -> (Arc<Spec>, Vec<Changed>) {
        let running = self.lock();
        (Arc::clone(&running.spec), running.changes.iter().cloned().collect())
    }

    /// The present spec as the text of a file. Reading the file gives the same spec.
    ///
    /// # Errors
    /// If it cannot be written as text.
    pub fn saved(&self) -> Result<String, String> {
        let (spec, _) = self.running();
        let text = toml::to_string(&spec.as_file()).map_err(|error| format!("the spec cannot be written: {error}"))?;
        let head = "written by `ioweir ctl save` from the running server, with its changes; the comments of";
        Ok(format!("# {head} {} are lost\n\n{text}", shown(&spec.file)))
    }

    /// Makes all of these assignments, such as `export.gold.weight=300`, or none. Returns what has changed.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn set(&self, assignments: &[String]) -> Result<Vec<String>, String> {
        self.assign(false, |spec| assign(spec, assignments))
    }

    /// Makes a change that is not in the file, remembers its keys, and logs it.
    fn assign(&self, drains: bool, make: impl FnOnce(&Spec) -> Result<Spec, String>) -> Result<Vec<String>, String> {
        let changed = self.change(drains, make);
        let keys = changed.iter().flatten().map(|change| key_of(change).to_string());
        self.lock().assigned.extend(keys);
        self.report(changed)
    }

    /// Reads the spec's file and its certificates again and applies them, all or nothing. Returns what has changed, and
    /// which assignments this undoes.
    ///
    /// # Errors
    /// As [`Controller::set`].
    pub fn reload(&self) -> Result<Vec<String>, String> {
        let mut certificates = None;
        let changed = self.change(false, |running| {
            let read = read_spec(&running.file).and_then(|text| Spec::parse(&running.file, &text));
            let spec = aligned(running, read.map_err(|error| error.to_string())?)?;
            certificates =
                spec.server.tls.as_ref().map(tls::Server::load).transpose().map_err(|error| error.to_string())?;
            Ok(spec)
        });
        let changed = changed.map(|mut changes| {
            self.0.tunables.lock().tls = certificates;
            let assigned = std::mem::take(&mut self.lock().assigned);
            for change in changes.iter_mut().filter(|change| assigned.contains(key_of(change))) {
                change.push_str(", which takes back an assignment");
            }
            changes
        });
        self.report(changed)
    }

    /// Logs the result of a change.
    fn report(&self, changed: Result<Vec<String>, String>) -> Result<Vec<String>, String> {
        let log = |kind, what: &str| self.0.log.report(self.0.clock.now(), &Event::new(kind, what));
        match &changed {
            Ok(changes) if changes.is_empty() => log(EventKind::SpecChanged, "nothing has changed"),
            Ok(changes) => changes.iter().for_each(|change| log(EventKind::SpecChanged, change)),
            Err(error) => {
                let words: Vec<_> = error.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
                log(EventKind::ChangeRefused, &format!("nothing has changed: {}", words.join("; ")));
            }
        }
        changed
    }

    /// Waits for the answer of an engine.
    fn hear<T>(&self, answer: Receiver<T>, patience: Duration) -> Result<T, String> {
        self.0.engines.hear(answer, patience).map_err(|_| "it does not answer".to_string())
    }

    /// The engine of a device.
    fn engine_of(&self, device: &str) -> Result<Handle, String> {
        let (spec, _) = self.running();
        let engine = spec.device_named(device).and_then(|(number, _)| self.0.engines.handles().into_iter().nth(number));
        engine.ok_or_else(|| unknown_device(&spec, device))
    }

    /// Opens a device, or its failed parts, again after a failure; returns a description of it.
    ///
    /// # Errors
    /// Why the device stays as it is, in words.
    pub fn reopen(&self, device: &str) -> Result<String, String> {
        let (spec, _) = self.running();
        let (number, _) = spec.device_named(device).ok_or_else(|| unknown_device(&spec, device))?;
        if self.0.engines.trouble(number).is_some() {
            return self.open_again(number);
        }
        let answer = self.engine_of(device)?.ask(engine::Command::Reopen);
        let answer = self.hear(answer, PATIENCE).flatten();
        answer.map_err(|problem| format!("device {}: {problem}", shown(device)))
    }

    /// Gives an order to a service; returns a description of what it does now.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn order(&self, command: &ServiceCommand) -> Result<String, String> {
        let (order, words) = command.order()?;
        let (spec, _) = self.running();
        let classes = spec.classes().into_iter().enumerate();
        let mut services = classes.filter(|(_, class)| class.kind == ClassKind::Service);
        let Some((number, class)) = services.find(|(_, class)| class.name == command.name) else {
            let names: Vec<&str> = spec.service.keys().map(String::as_str).collect();
            let error = unknown("service", &command.name, &names, "add [service.NAME] to the spec, and start it again");
            return Err(error.to_string());
        };
        // The number of a class is small, because a spec has at most a few megabytes.
        let its = StreamId(number as u32);
        let answer = self.0.engines.ask(class.device, |answer| engine::Command::Service(its, order, answer));
        match self.hear(answer, PATIENCE) {
            Ok(Ok(())) => Ok(words),
            Ok(Err(problem)) => Err(format!("service {}: {problem}", shown(&command.name))),
            Err(_) => Err(format!("service {}: its device does not answer", shown(&command.name))),
        }
    }

    fn change(&self, drains: bool, make: impl FnOnce(&Spec) -> Result<Spec, String>) -> Result<Vec<String>, String> {
        // The lock guards no state, so that a panic while it was held does no harm.
        let _alone = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, _) = self.running();
        let mut spec = make(&before)?;
        let mut what = differences(&before, &spec)?;
        if what.is_empty() {
            return Ok(what);
        }
        let (came, lost) = (self.open_devices(&before, &spec)?, self.lost_devices(&before, &spec)?);
        let grown = self.grow_devices(&before, &spec)?;
        let sockets = self.bind_machines(&before, &spec)?;
        let mut running = self.lock();
        // Only the parts of a fleet can have changed in the running spec meanwhile.
        spec.parts.clone_from(&running.spec.parts);
        let mut target = self.target(spec.clone(), came, drains);
        for (device, size_bytes) in grown {
            target.places[device].shape.size_bytes = size_bytes;
        }
        self.become_target(&mut running, target, |_| Ok(()))?;
        sockets.open();
        self.close_machines(&before, &spec);
        self.0.tunables.lock().server = spec.server.clone();
        running.spec = Arc::new(spec);
        let at = self.0.clock.now();
        for what in &what {
            running.changes.push_back(Changed { at, what: what.clone() });
        }
        let too_many = running.changes.len().saturating_sub(CHANGES_MAX);
        running.changes.drain(..too_many);
        drop(running);
        // No client can reach the removed devices any more, so an error of their engines' end does not undo the change.
        let ends = lost.into_iter().filter_map(|device| self.0.engines.remove(device).err());
        what.extend(ends.map(|error| error.to_string()));
        Ok(what)
    }

    /// The changes of every engine concerned, with the numbers of their devices.
    fn proposals(&self, old: &Spec, new: &Spec, exports: Option<&Exports>) -> Vec<(usize, Handle, Proposal)> {
        // An engine of a device that is not in the old spec has begun with the new spec.
        let engines = self.0.engines.present().into_iter().take_while(|(device, _)| *device < old.device.len());
        let proposal = |(device, engine)| Some((device, engine, change_of(old, new, device, exports)?));
        engines.filter_map(proposal).collect()
    }

    /// Lets every engine concerned try the change; then all of them make it, or none does. They serve meanwhile.
    fn tell_engines(&self, old: &Spec, new: &Spec, exports: Option<&Exports>) -> Result<(), String> {
        let (mut asked, mut answers) = (Vec::new(), Vec::new());
        for (device, engine, (change, hear, verdict)) in self.proposals(old, new, exports) {
            engine.send(engine::Command::Change(Box::new(change)));
            asked.push((device, engine, verdict));
            answers.push(hear);
        }
        let answers = self.0.engines.hear_all(answers, PATIENCE);
        for ((device, ..), answer) in asked.iter().zip(answers) {
            let name = &new.device[*device].name;
            match answer {
                Ok(Ok(())) => {}
                // No engine gets a verdict, so each stays as it is.
                Ok(Err(Refusal { holder, error })) => {
                    return Err(format!("{}: device {name}: {error}", name_of(new, *device, holder)));
                }
                Err(_) => return Err(format!("device {name} does not answer: it is shutting down or overloaded")),
            }
        }
        for (_, engine, verdict) in asked {
            // An engine that has ended in the meantime keeps nothing.
            let _ = verdict.send(());
            engine.send(engine::Command::Verdict);
        }
        Ok(())
    }
}

/// A change, the receiver of the engine's verdict on whether it is feasible, and the sender that tells the engine to make it.
#[doc(hidden)]
pub type Proposal = (Change, Receiver<Result<(), Refusal>>, Sender<()>);

/// The changes that the engine of a device has to make for a new spec, if there are any.
#[doc(hidden)]
#[must_use]
pub fn change_of(old: &Spec, new: &Spec, device: usize, exports: Option<&Exports>) -> Option<Proposal> {
    let priorities = new.priorities();
    let is_for_all =
        old.server != new.server || old.priorities() != priorities || old.service != new.service || exports.is_some();
    let shares = changed_shares(&old.entitlements(device), &new.entitlements(device));
    if shares.is_empty() && !is_for_all {
        return None;
    }
    let (prepared, hear) = channel();
    let (verdict, wait) = channel();
    let services = new.services_of(&new.device[device]).map(|(_, service)| service.clone()).collect();
    let timeouts = Timeouts::new(&new.server);
    let exports = exports.map(|exports| Controller::layout(new, device, exports));
    Some((Change { shares, priorities, timeouts, services, exports, prepared, verdict: wait }, hear, verdict))
}

/// The shares to configure, in an order in which every step is feasible if the result is: reservations that become smaller come first.
fn changed_shares(old: &[(Holder, Share)], new: &[(Holder, Share)]) -> Vec<(Holder, Share)> {
    let before = |holder: Holder| old.iter().find(|(other, _)| *other == holder).map(|(_, share)| *share);
    let changed = new.iter().filter(|(holder, share)| before(*holder) != Some(*share));
    let mut changed: Vec<_> = changed.copied().collect();
    changed.sort_by_key(|(holder, share)| {
        before(*holder).is_none_or(|before| share.reservation_per_second > before.reservation_per_second)
    });
    changed
}

/// The path of the key in a change. Names may contain spaces; after the key comes an arrow between spaces.
fn key_of(change: &str) -> &str {
    // An export or device is added or removed as a whole.
    if let Some(export) = change.strip_suffix(" is added").or_else(|| change.strip_suffix(" is removed")) {
        return export;
    }
    let before = change.split(" -> ").next().unwrap_or_default();
    before.rsplit_once(' ').map_or(before, |(key, _)| key)
}

fn name_of(spec: &Spec, device: usize, holder: Holder) -> String {
    match holder {
        Holder::Class(class) => {
            let class = spec.classes().into_iter().nth(class.0 as usize);
            class.map_or_else(String::new, |class| format!("{}.{}", class.kind.name(), class.name))
        }
        Holder::Group(group) => {
            let mut its = spec.group.iter().filter(|group| group.device == spec.device[device].name);
            its.nth(group.0 as usize).map_or_else(String::new, |group| format!("group.{}", group.name))
        }
    }
}
