//! Changes of the exports and volumes of a running server: they are added, removed and resized.
//!
//! An export is taken away in steps, so that no client can be on its way to it. First the engines and the thread that accepts clients
//! refuse to open it. Then the controller asks whether it has clients, and changes something only after that. If it has clients, the change
//! is refused and the export is opened again; or the export is drained, which a removal may ask for.

use std::ops::Range;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use ioweir_config::{format_bytes, from_table, shown, unknown};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::{Controller, Running};
use crate::backend::Volumes;
use crate::engine::{self, ClientAccount, Layout};
use crate::engines::Opened;
use crate::exports::{Catalog, Exports, Places};
use crate::spec::{Export, Spec};

/// A volume, as `ioweir ctl` lists it.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct VolumeState {
    /// The name of the volume.
    pub name: String,
    /// The volume's offset on the device.
    pub offset_bytes: u64,
    /// The length of the volume.
    pub size_bytes: u64,
    /// The exports that show it.
    pub exports: Vec<String>,
}

/// The state that must be durable before a client can see a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    /// The state after the change.
    Make,
    /// The state before the change, which is undone although some of it may have become durable.
    Undo,
}

/// A new spec, with the places of its devices that exports can show.
pub(super) struct Target {
    pub(super) spec: Spec,
    pub(super) places: Vec<Places>,
    /// The engines of devices that the running spec does not have.
    pub(super) came: Vec<Opened>,
    /// Whether removed exports may have clients, which get the rest of their answers.
    pub(super) drains: bool,
}

impl Controller {
    pub(super) fn places(&self) -> MutexGuard<'_, Vec<Places>> {
        // The places are changed in one step, so that a panic leaves them whole.
        self.0.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A spec together with the places of exports on the present devices and on the new ones.
    pub(super) fn target(&self, spec: Spec, came: Vec<Opened>, drains: bool) -> Target {
        let mut places = self.places().clone();
        places.extend(came.iter().map(Opened::places));
        Target { spec, places, came, drains }
    }

    /// Changes the running server; `commit` makes durable what has to be before a client sees it. An export that was taken away and cannot
    /// be restored durably stays hidden: writes to it could be lost at the next start.
    pub(super) fn become_target(
        &self,
        running: &mut Running,
        target: Target,
        commit: impl FnMut(Commit) -> Result<(), String>,
    ) -> Result<(), String> {
        let Target { spec, places, came, drains } = target;
        let exports = Exports::of(&spec, &places)?;
        // New engines begin with all exports; `show_exports` sends them to the others.
        let engines = &self.0.engines;
        engines.begin(came, &exports.list).map_err(|error| error.to_string())?;
        let changed = self.show_exports(running, (&spec, &places), exports, drains, commit);
        if changed.is_err() {
            engines.take_back(running.spec.device.len());
        }
        changed
    }

    /// Shows the exports of the new spec to engines and clients.
    fn show_exports(
        &self,
        running: &Running,
        (spec, places): (&Spec, &[Places]),
        exports: Exports,
        drains: bool,
        mut commit: impl FnMut(Commit) -> Result<(), String>,
    ) -> Result<(), String> {
        let before = self.0.tunables.catalog();
        let lost = lost(&before.exports, &exports);
        if !lost.is_empty() {
            let mut hidden = before.exports.clone();
            hidden.absent.extend(&lost);
            self.show(running, hidden);
            let refusal = match self.clients_of(|number| lost.contains(&number)) {
                Ok(clients) if drains || clients.is_empty() => None,
                Ok(clients) => Some(still_connected(&running.spec, &clients)),
                Err(problem) => Some(problem),
            };
            if let Some(problem) = refusal {
                self.show(running, before.exports.clone());
                return Err(problem);
            }
        }
        let changed = commit(Commit::Make).and_then(|()| {
            let must_tell = before.exports.list != exports.list || before.exports.absent != exports.absent;
            self.tell_engines(&running.spec, spec, must_tell.then_some(&exports))
        });
        if let Err(problem) = changed {
            let is_undone = commit(Commit::Undo);
            if let (Err(unsure), false) = (&is_undone, lost.is_empty()) {
                return Err(format!(
                    "{problem}\n\nhint: no client can open what it shows until that can be written: {unsure}"
                ));
            }
            if !lost.is_empty() {
                self.show(running, before.exports.clone());
            }
            return Err(problem);
        }
        for number in lost {
            self.0.engines.send_all(|| engine::Command::DrainExport(number));
        }
        self.0.tunables.lock().catalog = Arc::new(Catalog::new(spec, exports, &self.0.engines.handles()));
        *self.places() = places.to_vec();
        Ok(())
    }

    /// Shows these exports of the running spec to clients that come from now on. Every engine can do that, so none is asked: an engine that
    /// stands still does it before it takes a client that has seen them.
    fn show(&self, running: &Running, exports: Exports) {
        let spec = &running.spec;
        for (_, engine, (change, _, verdict)) in self.proposals(spec, spec, Some(&exports)) {
            // The receiver is a part of the change.
            let _ = verdict.send(());
            engine.send(engine::Command::Change(Box::new(change)));
        }
        self.0.tunables.lock().catalog = Arc::new(Catalog::new(spec, exports, &self.0.engines.handles()));
    }

    /// The clients of some exports.
    ///
    /// # Errors
    /// If an engine does not answer, because it may have some. An engine that has ended has none.
    fn clients_of(&self, is_meant: impl Fn(usize) -> bool) -> Result<Vec<ClientAccount>, String> {
        let mut clients = Vec::new();
        for answer in self.ask_each(engine::Command::Clients) {
            match answer {
                Ok(its) => clients.extend(its.into_iter().filter(|client| is_meant(client.export))),
                Err(RecvTimeoutError::Disconnected) => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(
                        "a device does not answer: it is shutting down or overloaded, and may have clients".into()
                    );
                }
            }
        }
        Ok(clients)
    }

    /// The exports and classes that the engine of a device has to know.
    pub(super) fn layout(spec: &Spec, device: usize, exports: &Exports) -> Layout {
        Layout {
            exports: Arc::clone(&exports.list),
            absent: exports.absent.clone(),
            class_names: spec.classes().into_iter().map(|class| class.name).collect(),
            own_classes: spec.classes_of(device),
        }
    }

    /// Adds an export with these keys, such as `device=d` and `weight=300`. Returns what has changed.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn add_export(&self, name: &str, keys: &[String]) -> Result<Vec<String>, String> {
        self.assign(false, |spec| with_export(spec, name, keys))
    }

    /// Removes an export. If it has clients, that is refused; with `drains` they get the rest of their answers. Returns what
    /// has changed.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn remove_export(&self, name: &str, drains: bool) -> Result<Vec<String>, String> {
        self.assign(drains, |spec| {
            let found = spec.present_exports().find(|(_, export)| export.name == name).map(|(number, _)| number);
            let number = found.ok_or_else(|| unknown_export(spec, name))?;
            let mut changed = spec.clone();
            changed.export[number].is_removed = true;
            changed.checked().map_err(|complaint| format!("export {}: {}", shown(name), complaint.problem()))
        })
    }

    /// The volumes of a device, by name.
    ///
    /// # Errors
    /// If the device has no table of volumes.
    pub fn list_volumes(&self, device: &str) -> Result<Vec<VolumeState>, String> {
        let (number, _) = self.volumes_of(device)?;
        let (spec, _) = self.running();
        let places = self.places()[number].volumes.clone();
        let state = |(name, place): (String, Range<u64>)| VolumeState {
            exports: showing(&spec, number, &name).map(|(_, export)| export.name.clone()).collect(),
            name,
            offset_bytes: place.start,
            size_bytes: place.end - place.start,
        };
        Ok(places.into_iter().map(state).collect())
    }

    /// Adds a volume, which reads as zeroes. Returns what has changed.
    ///
    /// # Errors
    /// If there is no room for it, or it cannot be created.
    pub fn add_volume(&self, device: &str, name: &str, bytes: u64) -> Result<Vec<String>, String> {
        let (number, volumes) = self.volumes_of(device)?;
        let mut volumes = lock(&volumes);
        let place = volumes.find_room(name, bytes)?;
        self.wipe(number, place.clone())?;
        let words = format!("volume {name}: {} at {}", format_bytes(bytes), format_bytes(place.start));
        self.change_place((number, &mut volumes), name, Some(place))?;
        self.report(Ok(vec![format!("device {device}: {words}")]))
    }

    /// Gives a volume another length, in place. An added range reads as zeroes. Returns what has changed.
    ///
    /// # Errors
    /// If there is no room for it, or connected clients still know its former length.
    pub fn resize_volume(&self, device: &str, name: &str, bytes: u64) -> Result<Vec<String>, String> {
        let (number, volumes) = self.volumes_of(device)?;
        let mut volumes = lock(&volumes);
        let before = volumes.place(name)?;
        let place = volumes.resized(name, bytes)?;
        if place.end > before.end {
            self.wipe(number, before.end..place.end)?;
        }
        let words = format!("volume {name}: {} -> {}", format_bytes(before.end - before.start), format_bytes(bytes));
        self.change_place((number, &mut volumes), name, Some(place))?;
        self.report(Ok(vec![format!("device {device}: {words}")]))
    }

    /// Removes a volume and frees its place. Returns what has changed.
    ///
    /// # Errors
    /// If clients of an export that shows it are connected.
    pub fn remove_volume(&self, device: &str, name: &str) -> Result<Vec<String>, String> {
        let (number, volumes) = self.volumes_of(device)?;
        let mut volumes = lock(&volumes);
        volumes.place(name)?;
        self.change_place((number, &mut volumes), name, None)?;
        let words = format!("volume {name}: removed");
        self.report(Ok(vec![format!("device {device}: {words}")]))
    }

    /// The number of a device and its volumes.
    fn volumes_of(&self, device: &str) -> Result<(usize, Arc<std::sync::Mutex<Volumes>>), String> {
        let (spec, _) = self.running();
        let (number, _) = spec.device_named(device).ok_or_else(|| unknown_device(&spec, device))?;
        let volumes = self.0.engines.volumes(number).ok_or_else(|| {
            let hint = "add `volumes = \"FILE\"` to it, and start the server again";
            format!("device {}: has no volumes\n\nhint: {hint}", shown(device))
        })?;
        Ok((number, volumes))
    }

    /// Whether clients still get answers from a removed export of the device for which `is_meant` holds.
    pub(super) fn is_ending(
        &self,
        spec: &Spec,
        device: usize,
        is_meant: impl Fn(&Export) -> bool,
    ) -> Result<bool, String> {
        let ends = |number: usize| {
            let export = spec.export.get(number).filter(|export| export.is_removed);
            export.is_some_and(|export| spec.device_of(export) == device && is_meant(export))
        };
        Ok(!self.clients_of(ends)?.is_empty())
    }

    /// Zeroes a range of a device that belongs to no volume.
    fn wipe(&self, device: usize, range: Range<u64>) -> Result<(), String> {
        let catalog = self.0.tunables.catalog();
        let overlaps = |export: usize| {
            let its = catalog.exports.list.get(export);
            its.is_some_and(|its| its.offset_bytes < range.end && range.start < its.offset_bytes + its.size_bytes)
        };
        let (spec, _) = self.running();
        let on_device = |export: usize| spec.export.get(export).is_some_and(|its| spec.device_of(its) == device);
        if !self.clients_of(|export| on_device(export) && overlaps(export))?.is_empty() {
            return Err("clients of an export that was removed still get answers there: try again".into());
        }
        let answer = self.0.engines.ask(device, |answer| engine::Command::Wipe(range, answer));
        // Waits as long as the device takes; the end of the engine ends the wait, too.
        self.0.engines.hear(answer, Duration::MAX).unwrap_or_else(|_| Err("the server ends".into()))
    }

    /// Changes the place of a volume of a device, and with it the exports that show it.
    fn change_place(
        &self,
        (device, volumes): (usize, &mut Volumes),
        name: &str,
        place: Option<Range<u64>>,
    ) -> Result<(), String> {
        // The lock keeps exports from being removed meanwhile.
        let mut running = self.lock();
        let before = volumes.places().get(name).cloned();
        let is_left = |before: &Range<u64>| place.as_ref().is_some_and(|place| place.end >= before.end);
        let takes = before.as_ref().is_some_and(|before| !is_left(before));
        // Clients of an export that was removed may still have requests on the volume that it showed.
        if takes && self.is_ending(&running.spec, device, |export| export.volume.as_deref() == Some(name))? {
            return Err(format!(
                "volume {name}: clients of an export that was removed still get answers from it: try again"
            ));
        }
        let mut target = self.target((*running.spec).clone(), Vec::new(), false);
        let mut places = volumes.places().clone();
        places.remove(name);
        places.extend(place.clone().map(|place| (name.to_string(), place)));
        target.places[device].volumes = places;
        let changed = self.become_target(&mut running, target, |commit| match (commit, &place) {
            (Commit::Make, Some(place)) => volumes.keep(name, place.clone()),
            (Commit::Make, None) => volumes.remove(name),
            (Commit::Undo, _) => volumes.restore(name, before.clone()),
        });
        if changed.is_err() && takes && !volumes.is_sure() {
            // A volume whose removal could not be undone durably stays hidden.
            self.places()[device].volumes.remove(name);
        }
        changed
    }
}

fn lock(volumes: &std::sync::Mutex<Volumes>) -> MutexGuard<'_, Volumes> {
    // A panic leaves the table as it was, or marks it as unsure (`is_sure`).
    volumes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The exports that show a volume of a device.
fn showing<'a>(spec: &'a Spec, device: usize, volume: &'a str) -> impl Iterator<Item = (usize, &'a Export)> {
    spec.present_exports()
        .filter(move |(_, export)| spec.device_of(export) == device && export.volume.as_deref() == Some(volume))
}

/// The numbers of exports that lose all or a part of their range.
fn lost(before: &Exports, after: &Exports) -> Vec<usize> {
    let keeps = |number: usize| {
        let (old, new) = (before.list.get(number)?, after.list.get(number)?);
        let is_longer = old.offset_bytes == new.offset_bytes && old.size_bytes <= new.size_bytes;
        (is_longer && old.read_only == new.read_only && !after.absent.contains(&number)).then_some(())
    };
    let is_lost = |number: &usize| !before.absent.contains(number) && keeps(*number).is_none();
    (0..before.list.len()).filter(is_lost).collect()
}

fn still_connected(spec: &Spec, clients: &[ClientAccount]) -> String {
    let mut names: Vec<String> = clients
        .iter()
        .filter_map(|client| spec.export.get(client.export))
        .map(|export| format!("export {}", shown(&export.name)))
        .collect();
    names.sort();
    names.dedup();
    let (count, are) =
        if clients.len() == 1 { ("1 client".into(), "is") } else { (format!("{} clients", clients.len()), "are") };
    let hint = "`ioweir ctl SERVER clients` lists them, `kick` ends one, `export remove NAME --drain` lets them have the rest of \
                their answers";
    format!("{}: {count} {are} connected, and what it shows would be taken away\n\nhint: {hint}", names.join(", "))
}

fn unknown_export(spec: &Spec, name: &str) -> String {
    let names: Vec<&str> = spec.present_exports().map(|(_, export)| export.name.as_str()).collect();
    unknown("export", name, &names, "").to_string()
}

pub(super) fn unknown_device(spec: &Spec, name: &str) -> String {
    let names: Vec<&str> = spec.present_devices().map(|(_, device)| device.name.as_str()).collect();
    unknown("device", name, &names, "").to_string()
}

/// A table with this name and these keys, such as `weight=300`.
pub(super) fn table_of(name: &str, keys: &[String]) -> Result<Table, String> {
    let mut table = Table::new();
    table.insert("name".into(), Value::String(name.into()));
    for key in keys {
        let Some((key, value)) = key.split_once('=') else {
            return Err(format!("{}: not a key\n  expected: KEY=VALUE, such as device=d or weight=300", shown(key)));
        };
        let value = value.parse::<Value>().unwrap_or_else(|_| Value::String(value.into()));
        if table.insert(key.into(), value).is_some() {
            return Err(format!("{}: given twice", shown(key)));
        }
    }
    Ok(table)
}

/// The spec with one more export.
fn with_export(spec: &Spec, name: &str, keys: &[String]) -> Result<Spec, String> {
    let table = table_of(name, keys)?;
    let of = |problem: &str| format!("export {}: {problem}", shown(name));
    let export: Export = from_table(&table).map_err(|error| of(error.message()))?;
    let mut changed = spec.clone();
    if spec.present_exports().any(|(_, other)| other.name == name) {
        return Err(of("there is one of this name already"));
    }
    // An export that was removed and comes back keeps its number and its counters.
    let is_same = |other: &Export| {
        other.is_removed && other.lost_device.is_none() && other.name == name && other.device == export.device
    };
    match changed.export.iter().position(is_same) {
        Some(number) => changed.export[number] = export,
        None => changed.export.push(export),
    }
    changed.checked().map_err(|complaint| of(&complaint.problem()))
}

/// The spec of a file, numbered as the running spec. Exports and devices that the file lacks are marked as removed, and new ones come last.
///
/// # Errors
/// If devices or exports are in another order: the first export is that of clients that name none.
pub(super) fn aligned(running: &Spec, file: Spec) -> Result<Spec, String> {
    let mut left = file.export.clone();
    let mut places = Vec::new();
    let mut export = Vec::new();
    for old in &running.export {
        let is_there = running.present_exports().any(|(_, other)| other.name == old.name);
        let can_come = !is_there && old.lost_device.is_none();
        let is_back = |new: &Export| !old.is_removed || (can_come && new.device == old.device);
        match left.iter().position(|new| new.name == old.name && is_back(new)) {
            Some(place) => {
                if !old.is_removed {
                    places.push(file.export.iter().position(|new| new.name == old.name));
                }
                export.push(left.remove(place));
            }
            None => export.push(Export { is_removed: true, ..old.clone() }),
        }
    }
    if !places.is_sorted() {
        return Err("the order of the tables `export` does not change while the server runs".into());
    }
    export.append(&mut left);
    let parts = running.parts.clone();
    let device = super::devices::aligned(running, file.device);
    let aligned = Spec { device, export, parts, exports_at_start: running.exports_at_start, ..file };
    aligned.checked().map_err(|complaint| complaint.problem().to_string())
}
