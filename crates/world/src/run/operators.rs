//! Changes of an operator through the controller: exports, a device and its volumes are added, grow and are removed while clients are
//! connected.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::super::canary::Canary;
use super::super::operator::{Asked, Told, Wanted};
use super::super::plan::{Backing, DEVICES, EXPORTS, PLACE_BYTES, SECTORS, SLICE_FROM, VOLUME_SECTORS_MAX};
use super::super::promise::Promise;
use super::World;
use super::servers::{Side, Up};
use ioweir_serve::engine::{Command, Turn};
use ioweir_serve::nbd::Export;
use ioweir_serve::parts::Facts;
use ioweir_serve::server::ServeError;
use ioweir_serve::spec::Spec;

/// The volumes of a device by name, as their table should have them.
type Places = BTreeMap<String, Range<u64>>;

/// The checker's knowledge of the volumes.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    pub(super) places: Places,
    /// Changes of unknown result, one of which may be in the table.
    unsure: Vec<Wanted>,
    /// Whether the table could not be written since the last change that was made.
    is_failing: bool,
}

/// The sector in the history for a byte of a device with volumes.
const fn sector_of(byte: u64) -> u64 {
    byte / PLACE_BYTES * VOLUME_SECTORS_MAX + byte % PLACE_BYTES / 512
}

/// The sectors of a place.
const fn sectors_of(place: &Range<u64>) -> (u64, u64) {
    (sector_of(place.start), sector_of(place.start) + (place.end - place.start) / 512)
}

impl Volumes {
    /// The sectors of a volume.
    pub(super) fn sectors(&self, name: &str) -> Option<(u64, u64)> {
        self.places.get(name).map(sectors_of)
    }
}

/// Whether no two volumes overlap.
fn are_apart(places: &Places) -> bool {
    let mut sorted: Vec<&Range<u64>> = places.values().collect();
    sorted.sort_by_key(|place| place.start);
    sorted.windows(2).all(|two| two[0].end <= two[1].start)
}

/// Whether a change of volumes turns `before` into `after`.
fn makes(wanted: &Wanted, before: &Places, after: &Places) -> bool {
    let mut made = before.clone();
    match wanted {
        Wanted::AddVolume(_, name, bytes) => {
            let Some(place) = after.get(name).filter(|place| place.end - place.start == *bytes) else { return false };
            made.insert(name.clone(), place.clone()).is_none() && made == *after
        }
        Wanted::ResizeVolume(_, name, bytes) => {
            made.get_mut(name).map(|place| place.end = place.start + bytes).is_some() && made == *after
        }
        Wanted::RemoveVolume(_, name) => made.remove(name).is_some() && made == *after,
        _ => false,
    }
}

impl World {
    /// Lets the operator begin a change, unless one is under way.
    pub(super) fn want(&mut self, wanted: Wanted, draw: u64) {
        let Some(up) = self.up.as_mut().filter(|up| up.operator.wanted.is_none()) else { return };
        if wanted.is_of_volumes() {
            self.volumes.unsure.push(wanted.clone());
            if (draw >> 40).is_multiple_of(5) {
                self.volumes.is_failing = true;
                if let Some(table) = self.devices.table() {
                    table.fail(1 + (draw >> 44) as u32 % 4, (draw >> 48).is_multiple_of(2));
                }
            }
        }
        up.saves = !(draw >> 50).is_multiple_of(4);
        up.operator.begin(&up.controller, wanted);
        self.listen();
    }

    /// Lets the operator continue, if it may.
    pub(super) fn attend(&mut self) {
        let Some(up) = self.up.as_mut().filter(|up| up.operator.wanted.is_some()) else { return };
        let ending = up.operator.ending;
        if ending.and_then(|device| up.side(device)).is_some_and(|side| side.ended.is_none()) {
            return;
        }
        let told = ending.map_or(Told::Time(self.now), |device| Told::Done(self.end_of(device)));
        let Some(up) = &mut self.up else { return };
        up.operator.ending = None;
        up.operator.tell(told);
        self.listen();
    }

    /// Answers the operator's questions, until it waits or is done.
    fn listen(&mut self) {
        while let Some(up) = &mut self.up {
            let told = match up.operator.hear() {
                Asked::GoOn => return,
                Asked::Done(result) => return self.operated(result),
                Asked::End(device) => {
                    up.operator.ending = Some(device);
                    if let Some(side) = up.side(device) {
                        side.handle.send(Command::Stop(None));
                        return;
                    }
                    return self.attend();
                }
                Asked::Time => Told::Time(self.now),
                Asked::Open(spec, devices) => Told::Opened(self.open_coming(&spec, devices)),
                Asked::Begin(device, exports) => Told::Done(self.begin_coming(device, &exports)),
            };
            if let Some(up) = &self.up {
                up.operator.tell(told);
            }
        }
    }

    /// Opens devices of a spec.
    fn open_coming(&mut self, spec: &Spec, devices: Range<usize>) -> Vec<Result<Facts, ServeError>> {
        self.up.iter_mut().for_each(|up| up.coming.clear());
        let open = |number| {
            let (side, facts) = self.open_side(spec, number).map_err(ServeError)?;
            if let Some(up) = &mut self.up {
                up.coming.push_back((side, spec.clone()));
            }
            Ok(facts)
        };
        devices.map(open).collect()
    }

    /// Lets the engine of an opened device serve.
    fn begin_coming(&mut self, device: usize, exports: &Arc<[Export]>) -> Result<(), String> {
        let up = self.up.as_mut().ok_or("the server is gone")?;
        let (mut side, spec) = up.coming.pop_front().ok_or("the device is not open")?;
        Self::configure(&mut side, &spec, device, exports)?;
        up.sides.push(Some(side));
        Ok(())
    }

    /// The engine of a removed device has ended, so all answered writes are durable.
    fn end_of(&mut self, device: usize) -> Result<(), String> {
        let Some(Side { history, engine, ended, .. }) = self.up.as_mut().and_then(|up| up.sides[device].take()) else {
            return Ok(());
        };
        let is_clean = ended == Some(Turn::Stopped) && engine.failure().is_none();
        drop(engine);
        self.hear();
        self.ticks += 1;
        self.histories[history].settle(self.ticks, &mut self.verdict);
        if !is_clean {
            return Err("it has not ended well".into());
        }
        self.histories[history].flushed(self.ticks, (0, SECTORS));
        Ok(())
    }

    /// Takes the result of the operator's change.
    fn operated(&mut self, result: Result<Vec<String>, String>) {
        let Some(up) = &mut self.up else { return };
        let Some(wanted) = up.operator.wanted.take() else { return };
        up.spec = up.controller.running().0;
        up.coming.clear();
        up.sides.truncate(up.spec.device.len());
        let classes = up.spec.classes();
        for (device, side) in up.sides.iter_mut().enumerate() {
            side.iter_mut().for_each(|side| side.tally.know(&classes, device));
        }
        if let Some(table) = self.devices.table() {
            table.fail(0, false);
        }
        let is_done = result.is_ok();
        if let (Ok(saved), true, true) = (up.controller.saved(), is_done, up.saves) {
            self.saved = saved;
        }
        self.note("operator", u64::from(is_done), 0);
        self.tell_log(|| format!("{wanted:?}: {result:?}"));
        match (&wanted, &result) {
            (Wanted::RemoveDevice(name), Ok(changes)) => {
                // A second line is an error of the device's end.
                self.verdict.check(Promise::Durable, changes.len() == 1, || format!("device {name} goes: {changes:?}"));
            }
            (Wanted::AddDevice(..), Ok(_)) => self.look_at_volumes(Promise::Durable),
            _ if wanted.is_of_volumes() => self.changed_volumes(&wanted, is_done),
            _ => {}
        }
        if is_done {
            self.check_taken(&wanted);
        }
    }

    /// The volumes that the server reports.
    fn found(&self) -> Option<Places> {
        let listed = self.up.as_ref()?.controller.list_volumes(DEVICES[1]).ok()?;
        let place = |volume: ioweir_serve::control::VolumeState| {
            (volume.name, volume.offset_bytes..volume.offset_bytes + volume.size_bytes)
        };
        Some(listed.into_iter().map(place).collect())
    }

    /// Checks a change of volumes that was made, or refused.
    fn changed_volumes(&mut self, wanted: &Wanted, is_done: bool) {
        let Some(found) = self.found() else { return };
        let before = &self.volumes.places;
        let fits = if is_done {
            makes(wanted, before, &found) && are_apart(&found)
        } else {
            // A volume whose removal failed may stay hidden until the table was written.
            let mut all = found.clone();
            let taken = self.volumes.unsure.iter().filter_map(Wanted::takes).filter(|_| self.volumes.is_failing);
            all.extend(taken.filter_map(|name| Some((name.to_string(), before.get(name)?.clone()))));
            all == *before
        };
        self.verdict.check(Promise::Protocol, fits, || {
            format!("{wanted:?} was done: {is_done}, and makes {found:?} of {before:?}")
        });
        if is_done {
            self.volumes.unsure.clear();
            self.volumes.is_failing = false;
            self.take_volumes(found);
        }
        if let (Some(Canary::UnwipedVolume), Wanted::AddVolume(_, name, _), true) = (self.plan.canary, wanted, is_done)
            && let (Some(place), Some(disk)) = (self.volumes.places.get(name), self.devices.extra_disk())
        {
            disk.media().flip(place.start + 8, 0);
        }
    }

    /// Checks a table of volumes that was opened: it is as it was left, or has a change of unknown result.
    pub(super) fn look_at_volumes(&mut self, promise: Promise) {
        let Some(found) = self.found().filter(|_| !self.is_broken()) else { return };
        let Volumes { places, unsure, .. } = &self.volumes;
        let fits = found == *places || unsure.iter().any(|wanted| makes(wanted, places, &found));
        self.verdict.check(promise, fits, || {
            format!("the table of volumes has {found:?} instead of {places:?}, or that after one of {unsure:?}")
        });
        self.volumes.unsure.clear();
        self.take_volumes(found);
    }

    /// Takes over the present volumes. A range that a volume has got reads as zeroes.
    fn take_volumes(&mut self, found: Places) {
        self.ticks += 1;
        for (name, place) in &found {
            let kept = self.volumes.places.get(name).filter(|before| before.start == place.start);
            let begin = kept.map_or(place.start, |before| before.end.min(place.end));
            let (first, end) = sectors_of(place);
            let first = first + (begin - place.start) / 512;
            if first < end {
                self.histories[1].zero(self.ticks, (first, end), &mut self.verdict);
            }
        }
        self.volumes.places = found;
    }

    /// Checks that nothing was taken from a connected client.
    fn check_taken(&mut self, wanted: &Wanted) {
        let (name, left) = match wanted {
            Wanted::RemoveExport(name, false) | Wanted::RemoveVolume(_, name) => (name, 0),
            Wanted::ResizeVolume(_, name, bytes) => (name, bytes / 512),
            _ => return,
        };
        let Some(up) = &self.up else { return };
        let catalog = up.tunables.catalog();
        for (number, client) in self.clients.iter().enumerate() {
            let is_open = client.line.as_ref().is_some_and(super::super::wire::Line::is_open);
            let is_its = is_open && catalog.exports.list[client.export].name == *name;
            let (base, end) = client.shown;
            self.verdict.check(Promise::Protocol, !is_its || end - base <= left, || {
                format!("{wanted:?} takes something from client {number}, which is connected")
            });
        }
    }

    /// Adds or removes an export that shows the same range as another one.
    pub(super) fn change_exports(&mut self, draw: u64) {
        let Some(up) = self.up.as_ref().filter(|up| up.operator.wanted.is_none()) else { return };
        let name = EXPORTS[2 + (draw % 3) as usize];
        if up.has_export(name) {
            return self.want(Wanted::RemoveExport(name.into(), (draw >> 9).is_multiple_of(2)), draw);
        }
        let mut keys = vec![format!("device={}", DEVICES[0])];
        if name == "slice" {
            keys.push(format!("offset={}B", SLICE_FROM * 512));
        }
        if name == "read" {
            keys.push("read_only=true".into());
        }
        if self.plan.backing == Backing::Joined {
            keys.push(format!("part={}", if name == "slice" { "x" } else { "y" }));
        }
        if up.spec.device[0].scheduler.reads().weight {
            keys.push(format!("weight={}", 1 + (draw >> 10) % 100));
        }
        self.want(Wanted::AddExport(name.into(), keys), draw);
    }

    /// Changes the device that is added and removed, or its exports and volumes.
    pub(super) fn change_extra(&mut self, draw: u64) {
        let (Some(up), Some(extra), Some(disk)) = (&self.up, &self.plan.extra, self.devices.extra_disk()) else {
            return;
        };
        if up.operator.wanted.is_some() {
            return;
        }
        let device = || DEVICES[1].to_string();
        let length = disk.length_bytes();
        let Some((_, its)) = up.spec.device_named(DEVICES[1]) else {
            let size = format!("size={length}B");
            let wanted = Wanted::AddDevice(device(), extra.keys.iter().cloned().chain([size]).collect());
            return self.want(wanted, draw);
        };
        let (name, grown) = if extra.has_volumes {
            (EXPORTS[6 + (draw >> 8) as usize % 3], extra.bytes_max())
        } else {
            (EXPORTS[5], (length + 4096 * (1 + (draw >> 16) % 4)).min(extra.bytes_max()))
        };
        let bytes = 4096 * (1 + (draw >> 20) % (VOLUME_SECTORS_MAX / 8));
        let (has_export, has_volume) = (up.has_export(name), self.volumes.places.contains_key(name));
        let add_export = || {
            let mut keys = vec![format!("device={}", DEVICES[1])];
            if extra.has_volumes {
                keys.push(format!("volume={name}"));
            }
            if its.scheduler.reads().weight {
                keys.push(format!("weight={}", 1 + (draw >> 10) % 100));
            }
            Wanted::AddExport(name.into(), keys)
        };
        let wanted = match draw % 12 {
            0..=4 if extra.has_volumes && !has_volume => Wanted::AddVolume(device(), name.into(), bytes),
            0..=7 if !has_export => add_export(),
            0..=3 if extra.has_volumes => Wanted::ResizeVolume(device(), name.into(), bytes),
            4 | 5 if extra.has_volumes => Wanted::RemoveVolume(device(), name.into()),
            0..=7 if grown > length => Wanted::ResizeDevice(device(), grown),
            8 | 9 => Wanted::RemoveExport(name.into(), (draw >> 9).is_multiple_of(2)),
            10 if grown > length => Wanted::ResizeDevice(device(), grown),
            _ => Wanted::RemoveDevice(device()),
        };
        self.want(wanted, draw);
    }
}

impl Up {
    fn has_export(&self, name: &str) -> bool {
        self.spec.present_exports().any(|(_, export)| export.name == name)
    }
}
