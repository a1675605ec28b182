//! Bitmaps of the devices of a running server: begun, frozen, cleared, merged, removed and listed.
//!
//! A change that takes effect at a moment pauses the device for a new layer of marks, and is made durable after that: until
//! then the bitmaps are as before, and include the new layer.

use std::sync::Arc;
use std::sync::mpsc::channel;

use ioweir_config::shown;
use ioweir_core::Nanos;
use serde::{Deserialize, Serialize};

use super::exports::Commit;
use super::{Controller, PATIENCE};
use crate::backend::Bitmaps;
use crate::backend::bitmaps::{BitmapChange, is_recording, layers_of};
use crate::engine::{self, Handle};

/// A bitmap, as `ioweir ctl` lists it.
#[derive(Debug, Serialize, Deserialize)]
pub struct BitmapState {
    /// Its name.
    pub name: String,
    /// Whether it records, or is frozen.
    pub records: bool,
    /// What it has marked.
    pub marked_bytes: u64,
    /// What a mark is for.
    pub region_bytes: u64,
}

/// What becomes of a bitmap: one of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BitmapVerb {
    /// It records from now on.
    Add,
    /// What it has recorded becomes another of this name, and it records anew.
    Freeze(String),
    /// It forgets what it has recorded.
    Clear,
    /// What it has recorded counts for the one of this name, and it is gone.
    Merge(String),
    /// It is gone.
    Remove,
}

impl BitmapVerb {
    fn change(&self, name: &str) -> BitmapChange {
        let name = name.to_string();
        match self {
            Self::Add => BitmapChange::Add(name),
            Self::Freeze(into) => BitmapChange::Freeze(name, into.clone()),
            Self::Clear => BitmapChange::Clear(name),
            Self::Merge(into) => BitmapChange::Merge(name, into.clone()),
            Self::Remove => BitmapChange::Remove(name),
        }
    }

    fn words(&self, name: &str) -> String {
        match self {
            Self::Add => format!("bitmap {name}: records from now on"),
            Self::Freeze(into) => format!("bitmap {name}: frozen as {into}, and records anew"),
            Self::Clear => format!("bitmap {name}: cleared, and records anew"),
            Self::Merge(into) => format!("bitmap {name}: merged into {into}"),
            Self::Remove => format!("bitmap {name}: removed"),
        }
    }
}

/// The number of a layer that is later than all, to try whether a change can be made.
const SOME_LAYER: u64 = u64::MAX - 1;

impl Controller {
    /// The bitmaps of a device, with its number and engine.
    fn bitmaps_of(&self, device: &str) -> Result<(Arc<Bitmaps>, usize, Handle), String> {
        let engine = self.engine_of(device)?;
        let (spec, _) = self.running();
        let number = spec.device_named(device).map_or(0, |(number, _)| number);
        let (sender, answer) = channel();
        engine.send(engine::Command::Bitmaps(sender));
        let bitmaps = answer.recv_timeout(PATIENCE).map_err(|_| "it does not answer".to_string()).and_then(|bitmaps| {
            let hint = "add [device.bitmaps] below it, and start the server again";
            bitmaps.ok_or_else(|| format!("has no bitmaps\n\nhint: {hint}"))
        });
        let bitmaps = bitmaps.map_err(|problem| format!("device {}: {problem}", shown(device)))?;
        Ok((bitmaps, number, engine))
    }

    /// The bitmaps of a device that there are, by name.
    ///
    /// # Errors
    /// If it has none, or they cannot be read.
    pub fn list_bitmaps(&self, device: &str) -> Result<Vec<BitmapState>, String> {
        let (bitmaps, number, _) = self.bitmaps_of(device)?;
        let all = bitmaps.list()?;
        let size_bytes = self.places()[number].shape.size_bytes;
        let marked = bitmaps.marked_bytes(&all, size_bytes)?;
        let state = |(bitmap, marked_bytes): (crate::nbd::Bitmap, u64)| BitmapState {
            records: is_recording(&bitmap),
            name: bitmap.name,
            marked_bytes,
            region_bytes: bitmaps.region_bytes(),
        };
        Ok(all.into_iter().zip(marked).map(state).collect())
    }

    /// Changes a bitmap of a device; returns what has become of it, in words.
    ///
    /// # Errors
    /// Why it is as before, in words.
    pub fn change_bitmap(&self, device: &str, name: &str, verb: &BitmapVerb) -> Result<String, String> {
        let (bitmaps, number, engine) = self.bitmaps_of(device)?;
        let (change, words) = (verb.change(name), verb.words(name));
        let changed = {
            let _alone = bitmaps.lock();
            bitmaps.changed(&change, SOME_LAYER).and_then(|_| {
                let layer = if change.needs_layer() { layer_at_rest(&engine, self.bitmap_pause(number))? } else { 0 };
                self.keep_bitmaps(&bitmaps, number, &change, layer)
            })
        };
        changed.map_err(|problem| format!("device {}: {problem}", shown(device)))?;
        self.report(Ok(vec![format!("device {device}: {words}")]))?;
        Ok(words)
    }

    fn bitmap_pause(&self, number: usize) -> Nanos {
        let (spec, _) = self.running();
        let keys = spec.device.get(number).and_then(|device| device.bitmaps.as_ref());
        keys.map_or(Nanos::ZERO, |keys| keys.pause_max.nanos())
    }

    /// Whether a bitmap of a device could be frozen as another.
    pub(super) fn check_freeze(&self, device: &str, name: &str, into: &str) -> Result<(), String> {
        let (bitmaps, ..) = self.bitmaps_of(device)?;
        let change = BitmapChange::Freeze(name.into(), into.into());
        bitmaps.changed(&change, SOME_LAYER).map(drop).map_err(|problem| format!("device {}: {problem}", shown(device)))
    }

    /// Freezes a bitmap at the moment at which this layer began.
    pub(super) fn freeze_at(&self, device: &str, name: &str, into: &str, layer: u64) -> Result<(), String> {
        let (bitmaps, number, _) = self.bitmaps_of(device)?;
        let _alone = bitmaps.lock();
        self.keep_bitmaps(&bitmaps, number, &BitmapChange::Freeze(name.into(), into.into()), layer)
    }

    /// Makes a change durable, and then seen. What it does not need any more is forgotten last.
    fn keep_bitmaps(&self, bitmaps: &Bitmaps, number: usize, change: &BitmapChange, layer: u64) -> Result<(), String> {
        let (before, after) = (bitmaps.list()?, bitmaps.changed(change, layer)?);
        let layers = layers_of(&after);
        let mut running = self.lock();
        let mut target = self.target((*running.spec).clone(), Vec::new(), false);
        target.places[number].bitmaps = after.clone().into();
        self.become_target(&mut running, target, |commit| match commit {
            Commit::Make => bitmaps.keep(&after),
            Commit::Undo => bitmaps.keep(&before),
        })?;
        self.0.engines.send(number, engine::Command::KeepLayers(layers));
        Ok(())
    }
}

/// Begins a layer while nothing is with a device; returns its number.
fn layer_at_rest(engine: &Handle, pause_max: Nanos) -> Result<u64, String> {
    let no_answer = |_| "it does not answer".to_string();
    let patience = PATIENCE + std::time::Duration::from_nanos(pause_max.0);
    let (ready, hear) = channel();
    engine.send(engine::Command::Pause(pause_max, ready));
    hear.recv_timeout(patience).map_err(no_answer).flatten()?;
    let layer = layer_in_pause(engine, patience);
    let (resumed, _) = channel();
    engine.send(engine::Command::Resume(resumed));
    layer
}

/// Begins a layer in a pause that there is already.
pub(super) fn layer_in_pause(engine: &Handle, patience: std::time::Duration) -> Result<u64, String> {
    let (sender, layer) = channel();
    engine.send(engine::Command::BeginLayer(sender));
    layer.recv_timeout(patience).map_err(|_| "it does not answer".to_string()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use redb::backends::InMemoryBackend;

    fn in_memory() -> Bitmaps {
        let open = || redb::Builder::new().create_with_backend(InMemoryBackend::new());
        Bitmaps::opened_by(Box::new(open), 4096).unwrap()
    }

    #[test]
    fn layers_are_shared_and_no_longer_than_they_are_needed() {
        let bitmaps = in_memory();
        let make = |change: BitmapChange, layer| {
            let after = bitmaps.changed(&change, layer)?;
            bitmaps.keep(&after)?;
            Ok::<_, String>(after.into_iter().map(|its| (its.name, its.number, its.layers)).collect::<Vec<_>>())
        };
        let name = String::from;
        let (a, b) = (|| name("a"), || name("b"));
        assert_eq!(make(BitmapChange::Add(a()), 1), Ok(vec![(a(), 1, 1..u64::MAX)]));
        assert_eq!(make(BitmapChange::Freeze(a(), b()), 2), Ok(vec![(a(), 1, 2..u64::MAX), (b(), 2, 1..2)]));
        // A backup that has failed: what was frozen counts again.
        assert_eq!(make(BitmapChange::Merge(b(), a()), 0), Ok(vec![(a(), 1, 1..u64::MAX)]));
        assert_eq!(make(BitmapChange::Clear(a()), 3), Ok(vec![(a(), 1, 3..u64::MAX)]));
        // No number is given twice.
        assert_eq!(make(BitmapChange::Add(b()), 4), Ok(vec![(a(), 1, 3..u64::MAX), (b(), 3, 4..u64::MAX)]));
        let refused = |change, words: &str| {
            let problem = bitmaps.changed(&change, 9).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        };
        refused(BitmapChange::Add(b()), "there is a bitmap b already");
        refused(BitmapChange::Add(name("a b")), "is no name of a bitmap");
        refused(BitmapChange::Remove(name("c")), "unknown bitmap `c`");
        refused(BitmapChange::Merge(a(), a()), "into itself");
        assert_eq!(make(BitmapChange::Freeze(a(), name("c")), 5).map(|all| all.len()), Ok(3));
        refused(BitmapChange::Freeze(name("c"), name("d")), "is frozen, and records nothing");
        refused(BitmapChange::Clear(name("c")), "is frozen, and records nothing");
    }

    #[test]
    fn a_file_that_is_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let path: &Path = &folder.path().join("bitmaps");
        std::fs::write(path, [7; 8192]).unwrap_or_else(|error| panic!("{error}"));
        assert!(Bitmaps::open(path, 4096).is_err());
    }
}
