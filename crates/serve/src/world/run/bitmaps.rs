//! An operator changes bitmaps of the device, as `ioweir ctl SERVER bitmap` does, and a checker looks whether they have marked what
//! has changed.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use ioweir_core::Nanos;

use super::super::canary::Canary;
use super::super::devices::REGION_BYTES;
use super::super::plan::{Backing, SECTORS};
use super::super::promise::Promise;
use super::World;
use crate::backend::Bitmaps;
use crate::backend::bitmaps::{BitmapChange, layers_of};
use crate::engine::Command;
use crate::nbd::Bitmap;

/// The longest pause for a change.
const PAUSE_MAX: Nanos = Nanos::from_seconds(2);
/// The bitmap that records, and the one that is frozen.
const NAMES: [&str; 2] = ["records", "frozen"];

/// What the disk held at the begin and at the end of a span of which a bitmap marks the changes; without an end it goes on. A bitmap
/// into which others were merged has several.
#[derive(Clone, Debug)]
pub(super) struct Span {
    from: Vec<u8>,
    until: Option<Vec<u8>>,
}

fn any_change(draw: u64) -> BitmapChange {
    let [records, frozen] = NAMES.map(str::to_string);
    match draw % 8 {
        0..=2 => BitmapChange::Add(records),
        3 | 4 => BitmapChange::Freeze(records, frozen),
        5 => BitmapChange::Merge(frozen, records),
        6 => BitmapChange::Remove(frozen),
        _ => BitmapChange::Clear(records),
    }
}

impl World {
    /// Has the engine answer a command in a turn.
    fn asked<T>(&mut self, command: impl FnOnce(Sender<T>) -> Command) -> Receiver<T> {
        let (sender, answer) = channel();
        if let Some(main) = self.main() {
            main.handle.send(command(sender));
            self.stirred = true;
            self.turn();
        }
        answer
    }

    fn bitmaps(&mut self) -> Option<(Arc<Bitmaps>, Vec<Bitmap>)> {
        if self.plan.backing != Backing::Marked {
            return None;
        }
        let bitmaps = self.asked(Command::Bitmaps).try_recv().ok().flatten()?;
        match bitmaps.list() {
            Ok(list) => Some((bitmaps, list)),
            Err(problem) => {
                self.broken(Promise::Marked, format!("bitmaps cannot be read: {problem}"));
                None
            }
        }
    }

    /// Makes a change that a draw chooses, if it can be made.
    pub(super) fn change_bitmap(&mut self, draw: u64) {
        let change = any_change(draw);
        let Some((bitmaps, _)) = self.bitmaps() else { return };
        if bitmaps.changed(&change, u64::MAX - 1).is_err() {
            return;
        }
        self.note("bitmap", draw % 8, 0);
        let layer = if change.needs_layer() { self.begin_layer() } else { Some((0, Vec::new())) };
        let Some((layer, content)) = layer else { return };
        let kept = bitmaps.changed(&change, layer).and_then(|after| bitmaps.keep(&after).map(|()| after));
        let after = match kept {
            Ok(after) => after,
            Err(problem) => return self.broken(Promise::Marked, format!("a bitmap cannot be changed: {problem}")),
        };
        self.asked(|_: Sender<()>| Command::KeepLayers(layers_of(&after)));
        let begun = || vec![Span { from: content.clone(), until: None }];
        match change {
            BitmapChange::Add(name) | BitmapChange::Clear(name) => drop(self.bitmaps.insert(name, begun())),
            BitmapChange::Freeze(name, into) => {
                let mut frozen = self.bitmaps.insert(name, begun()).unwrap_or_default();
                frozen.iter_mut().for_each(|span| _ = span.until.get_or_insert_with(|| content.clone()));
                self.bitmaps.insert(into, frozen);
            }
            BitmapChange::Merge(name, into) => {
                let spans = self.bitmaps.remove(&name).unwrap_or_default();
                self.bitmaps.entry(into).or_default().extend(spans);
            }
            BitmapChange::Remove(name) => drop(self.bitmaps.remove(&name)),
        }
    }

    /// Begins a layer while nothing is with the device; returns its number, and what the disk holds then. `None` if the pause is too
    /// short for it.
    fn begin_layer(&mut self) -> Option<(u64, Vec<u8>)> {
        self.excused = self.excused.after(PAUSE_MAX);
        let ready = self.asked(|ready| Command::Pause(PAUSE_MAX, ready));
        let until = self.now.after(PAUSE_MAX);
        let is_ready = loop {
            match ready.try_recv() {
                Ok(answer) => break answer.is_ok(),
                Err(_) if self.now >= until || self.is_broken() => break false,
                Err(_) => self.run_until(self.now.after(Nanos::from_millis(1))),
            }
        };
        let layer = is_ready.then(|| self.asked(Command::BeginLayer).try_recv().ok()?.ok()).flatten();
        let content = self.devices.disks[0].media().contents();
        self.asked(Command::Resume);
        Some((layer?, content))
    }

    /// What differs from what the disk held when a bitmap began is marked in it. Nothing is in flight.
    pub(super) fn check_bitmaps(&mut self) {
        if self.is_broken() || self.bitmaps.is_empty() {
            return;
        }
        let Some((bitmaps, list)) = self.bitmaps() else { return };
        for (name, spans) in self.bitmaps.clone() {
            let its = list.iter().find(|bitmap| bitmap.name == name);
            let unmarked = its.map(|its| bitmaps.unmarked(its, SECTORS * 512));
            let Some(Ok(unmarked)) = unmarked else {
                return self.broken(Promise::Marked, format!("bitmap {name} cannot be read, or is gone"));
            };
            let media = self.devices.disks[0].media();
            if let (Some(Canary::UnmarkedChange), Some(region)) = (self.plan.canary, unmarked.first()) {
                media.flip(region * REGION_BYTES, 0);
            }
            let now = media.contents();
            for (region, span) in unmarked.iter().flat_map(|region| spans.iter().map(move |span| (region, span))) {
                let range = (region * REGION_BYTES) as usize..((region + 1) * REGION_BYTES).min(SECTORS * 512) as usize;
                let is_same = span.until.as_ref().unwrap_or(&now)[range.clone()] == span.from[range];
                self.verdict.check(Promise::Marked, is_same, || {
                    format!("region {region} has changed since bitmap {name} began, and is not marked in it")
                });
            }
        }
    }
}
