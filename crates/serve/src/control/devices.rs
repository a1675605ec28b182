//! Adding and removing devices of a running server. A device is opened before engines and clients can see it, and closed after none of them
//! refers to it.
//!
//! A device can be removed only when no export shows it and no client gets answers from it. It keeps its number; a later device of the same
//! name gets another one.

use std::sync::PoisonError;

use ioweir_config::{Complaint, Size, shown};
use toml::Table;

use super::exports::{table_of, unknown_device};
use super::{Controller, PATIENCE};
use crate::confine;
use crate::engine;
use crate::engines::Opened;
use crate::error::ServeError;
use crate::executor::Clock as _;
use crate::exports::Exports;
use crate::log::{Event, EventKind};
use crate::spec::{Device, Spec};

/// The hint of refusals for parts of a device that cannot be added or removed while the server runs.
const STARTED_AGAIN: &str = "change the spec file, and start the server again";

impl Controller {
    /// Adds a device with these keys, such as `backend=file` and `path=/srv/d`. Returns what has changed.
    ///
    /// # Errors
    /// What is wrong, in words: nothing has changed.
    pub fn add_device(&self, name: &str, keys: &[String]) -> Result<Vec<String>, String> {
        self.assign(false, |spec| with_device(spec, name, &table_of(name, keys)?))
    }

    /// Removes a device that no export shows. Returns what has changed, and the error of its end, if there was one.
    ///
    /// # Errors
    /// What is wrong, in words: nothing has changed.
    pub fn remove_device(&self, name: &str) -> Result<Vec<String>, String> {
        self.assign(false, |spec| without_device(spec, name))
    }

    /// Makes a device longer. Returns what has changed.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn resize_device(&self, name: &str, size: Size) -> Result<Vec<String>, String> {
        self.assign(false, |spec| self.with_size(spec, name, size))
    }

    /// The spec with another length of a device.
    fn with_size(&self, spec: &Spec, name: &str, size: Size) -> Result<Spec, String> {
        let of = |problem: String| format!("device {}: {problem}", shown(name));
        let (number, device) = spec.device_named(name).ok_or_else(|| unknown_device(spec, name))?;
        let backend = device.backend.with_length(size.0).map_err(of)?;
        let mut changed = spec.clone();
        changed.device[number].backend = backend;
        changed.checked().map_err(|complaint| of(complaint.problem().to_string()))
    }

    /// Makes devices longer that have a longer length in the new spec; returns their numbers and lengths. If the change fails later, they
    /// stay longer, and no export shows the added range.
    pub(super) fn grow_devices(&self, before: &Spec, after: &Spec) -> Result<Vec<(usize, u64)>, String> {
        let mut grown = Vec::new();
        for (number, device) in before.present_devices() {
            let Some(new) = after.device.get(number).filter(|new| !new.is_removed) else { continue };
            let of = |problem: String| format!("device {}: {problem}", shown(&device.name));
            let Some(size) = device.backend.length_as(&new.backend) else { continue };
            let answer = self.0.engines.ask(number, |answer| engine::Command::Grow(size, answer));
            let description = self.hear(answer, PATIENCE).flatten().map_err(of)?;
            self.0.engines.has_grown(number, size, description);
            grown.push((number, size));
        }
        Ok(grown)
    }

    /// Opens the devices of the new spec that the running one does not have.
    pub(super) fn open_devices(&self, before: &Spec, after: &Spec) -> Result<Vec<Opened>, String> {
        let mut came = after.device.iter().skip(before.device.len());
        came.try_for_each(|device| check_workers(device, after))?;
        self.0.engines.open(after, None).map_err(|error| {
            let is_confined = confine::status().iter().any(|its| its.is_on && its.what != "calls");
            let hint =
                "the server has given up what its spec did not name when it started: other files, or another user's";
            if is_confined { format!("{error}\n\nhint: {hint}. {STARTED_AGAIN}") } else { error.to_string() }
        })
    }

    /// Opens a device that could not be opened before, and shows its exports. Returns a description of it.
    ///
    /// # Errors
    /// Why it cannot be opened, in words. It is as before then.
    pub(super) fn open_again(&self, device: usize) -> Result<String, String> {
        // The lock guards no state, so that a panic while it was held does no harm.
        let _alone = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (spec, _) = self.running();
        let words = |error: ServeError| error.to_string();
        let opened = self.0.engines.open_again(&spec, device).map_err(words)?;
        let description = opened.description().to_string();
        let mut running = self.lock();
        let mut target = self.target((*running.spec).clone(), Vec::new(), false);
        target.places[device] = opened.places();
        let exports = Exports::of(&spec, &target.places)?;
        self.0.engines.put_back(device, opened, &exports.list).map_err(words)?;
        if let Err(problem) = self.become_target(&mut running, target, |_| Ok(())) {
            // Otherwise nobody could open the device again: it would be open, without exports.
            return Err(self.0.engines.leave_out(device, &problem).map_or_else(words, |()| problem));
        }
        drop(running);
        let name = &spec.device[device].name;
        let event = Event { device: Some(name), ..Event::new(EventKind::DeviceOpened, &description) };
        self.0.log.report(self.0.clock.now(), &event);
        Ok(description)
    }

    /// The devices that are missing in the new spec.
    ///
    /// # Errors
    /// If clients still get answers from one: their export was removed while they were connected.
    pub(super) fn lost_devices(&self, before: &Spec, after: &Spec) -> Result<Vec<usize>, String> {
        let is_lost = |number: &usize| after.device.get(*number).is_some_and(|device| device.is_removed);
        let lost: Vec<usize> = before.present_devices().map(|(number, _)| number).filter(is_lost).collect();
        for number in &lost {
            if self.is_ending(before, *number, |_| true)? {
                let name = shown(&before.device[*number].name);
                return Err(format!(
                    "device {name}: clients of an export that was removed still get answers from it: try again"
                ));
            }
        }
        Ok(lost)
    }
}

/// Refuses a device that needs the workers of `[cores]`, which have places only for the devices from the start.
fn check_workers(device: &Device, spec: &Spec) -> Result<(), String> {
    if spec.cores.is_none() || !device.shares_cores() {
        return Ok(());
    }
    let name = shown(&device.name);
    let hint = "give it `cores = {}`, workers of its own";
    Err(format!("device {name}: the workers of [cores] have no room for devices that come later\n\nhint: {hint}"))
}

/// The spec with one more device.
fn with_device(spec: &Spec, name: &str, keys: &Table) -> Result<Spec, String> {
    let of = |problem: &str| format!("device {}: {problem}", shown(name));
    let of_complaint = |complaint: Complaint| match complaint.advice() {
        "" => of(&complaint.problem()),
        hint => of(&format!("{}\n\nhint: {hint}", complaint.problem())),
    };
    let changed = spec.with_device(keys).map_err(of_complaint)?;
    if changed.device.last().is_some_and(|device| device.snapshots.is_some()) {
        let problem = "it needs a service, and services do not come while the server runs";
        return Err(of(&format!("{problem}\n\nhint: {STARTED_AGAIN}")));
    }
    changed.checked().map_err(of_complaint)
}

/// The spec without a device.
fn without_device(spec: &Spec, name: &str) -> Result<Spec, String> {
    let (number, device) = spec.device_named(name).ok_or_else(|| unknown_device(spec, name))?;
    let refused = |what: &str, names: Vec<String>, hint: &str| {
        Err(format!("device {}: {what} {}\n\nhint: {hint}", shown(name), names.join(", ")))
    };
    let exports = spec.present_exports().filter(|(_, export)| spec.device_of(export) == number);
    let exports: Vec<String> = exports.map(|(_, export)| shown(&export.name)).collect();
    if !exports.is_empty() {
        let hint = "`ioweir ctl SERVER export remove NAME` removes an export, `--drain` one that has clients";
        return refused("exports show it:", exports, hint);
    }
    let services: Vec<String> = spec.services_of(device).map(|(name, _)| shown(name)).collect();
    if !services.is_empty() {
        return refused("services work on it and cannot be removed while the server runs:", services, STARTED_AGAIN);
    }
    let groups = spec.group.iter().filter(|group| group.device == name).map(|group| shown(&group.name));
    let groups: Vec<String> = groups.collect();
    if !groups.is_empty() {
        return refused("groups belong to it and cannot be removed while the server runs:", groups, STARTED_AGAIN);
    }
    let mut changed = spec.clone();
    changed.device[number].is_removed = true;
    if spec.cores.is_some() && !changed.present_devices().any(|(_, device)| device.shares_cores()) {
        return refused("no other device uses the workers of", vec!["[cores]".into()], STARTED_AGAIN);
    }
    changed.checked().map_err(|complaint| format!("device {}: {}", shown(name), complaint.problem()))
}

/// The devices of a file, numbered as in the running spec: missing ones are marked as removed, and new ones come last. Their order in the
/// file does not matter.
pub(super) fn aligned(running: &Spec, file: Vec<Device>) -> Vec<Device> {
    let mut left = file;
    let mut device: Vec<Device> = Vec::new();
    for old in &running.device {
        let place = left.iter().position(|new| !old.is_removed && new.name == old.name);
        device.push(match place {
            Some(place) => left.remove(place),
            None => Device { is_removed: true, ..old.clone() },
        });
    }
    device.append(&mut left);
    device
}
