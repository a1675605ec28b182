//! Snapshots of the devices of a running server: taken by command or on a schedule, listed and deleted.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ioweir_config::{format_bytes, shown};
use ioweir_core::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Controller, PATIENCE};
use crate::engine;
use crate::executor::Clock as _;
use crate::log::{Event, EventKind};
use crate::snapshots::{OWN, Snapshots, due_in, too_many};
use crate::thread::OwnedThread;

/// The time after which the server tries again to take a snapshot that failed.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A snapshot, as `ioweir ctl` lists it.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct SnapshotState {
    /// The name of the snapshot, which is that of its file.
    pub name: String,
    /// When it was taken, in seconds since 1970.
    pub taken_seconds: i64,
    /// The time since the snapshot was taken.
    pub age_seconds: i64,
    /// The space that its file takes up, most of it shared.
    pub bytes: u64,
}

impl Controller {
    fn wall_seconds(&self) -> i64 {
        let clock = &self.0.clock;
        (clock.epoch().after(clock.now()).0 / 1_000_000_000).cast_signed()
    }

    /// The snapshots of a device.
    fn snapshots_of(&self, device: &str) -> Result<(Arc<Snapshots>, engine::Handle), String> {
        let engine = self.engine_of(device)?;
        let answer = engine.ask(engine::Command::Snapshots).recv_timeout(PATIENCE);
        let snapshots = answer.map_err(|_| format!("device {}: it does not answer", shown(device)))?;
        let snapshots = snapshots.ok_or_else(|| {
            let hint = "add [device.snapshots] below it, and start the server again";
            format!("device {}: takes no snapshots\n\nhint: {hint}", shown(device))
        })?;
        Ok((snapshots, engine))
    }

    /// Takes a snapshot of a device, while its clients wait; returns a description of it.
    ///
    /// # Errors
    /// Why it was not taken, in words.
    pub fn take_snapshot(&self, device: &str, name: Option<&str>) -> Result<String, String> {
        let name = name.map_or_else(|| format!("manual-{}", self.wall_seconds()), String::from);
        let taken = self.try_to_take(device, &name);
        let event = |kind, what: &str| {
            self.0.log.report(self.0.clock.now(), &Event { device: Some(device), ..Event::new(kind, what) });
        };
        match &taken {
            Ok(what) => event(EventKind::SnapshotTaken, what),
            Err(problem) => {
                event(EventKind::SnapshotFailed, &problem.lines().map(str::trim).collect::<Vec<_>>().join(" "))
            }
        }
        taken
    }

    fn try_to_take(&self, device: &str, name: &str) -> Result<String, String> {
        let (snapshots, engine) = self.snapshots_of(device)?;
        let (spec, _) = self.running();
        let keys = spec.device_named(device).and_then(|(_, its)| its.snapshots.as_ref());
        let pause_max = keys.map_or(Nanos::ZERO, |keys| keys.pause_max.nanos());
        let taking = snapshots.begin(name)?;
        let taken =
            clone_at_rest(|| taking.clone_now(), &engine, pause_max).and_then(|paused| Ok((taking.keep()?, paused)));
        match taken {
            Ok((snapshot, paused)) => Ok(format!(
                "snapshot {} shares {}; clients waited for {:.1} ms",
                snapshot.name,
                format_bytes(snapshot.bytes),
                paused.as_seconds() * 1e3
            )),
            Err(problem) => {
                snapshots.give_up(taking);
                // The engine gives new work to its service, here and below.
                engine.send(engine::Command::Look);
                Err(format!("device {}: {problem}", shown(device)))
            }
        }
    }

    /// The existing snapshots of a device, oldest first.
    ///
    /// # Errors
    /// If the spec has no snapshots of it, or its folder cannot be read.
    pub fn list_snapshots(&self, device: &str) -> Result<Vec<SnapshotState>, String> {
        let (snapshots, _) = self.snapshots_of(device)?;
        let now = self.wall_seconds();
        let state = |snapshot: crate::snapshots::Snapshot| SnapshotState {
            name: snapshot.name,
            taken_seconds: snapshot.taken_seconds,
            age_seconds: (now - snapshot.taken_seconds).max(0),
            bytes: snapshot.bytes,
        };
        Ok(snapshots.list()?.into_iter().map(state).collect())
    }

    /// Deletes a snapshot of a device; returns a description of the space that is still to be given back.
    ///
    /// # Errors
    /// If there is no such snapshot, or it cannot be deleted.
    pub fn delete_snapshot(&self, device: &str, name: &str) -> Result<String, String> {
        let (snapshots, engine) = self.snapshots_of(device)?;
        let owed = snapshots.delete(name).map_err(|problem| format!("device {}: {problem}", shown(device)))?;
        engine.send(engine::Command::Look);
        let what = format!("snapshot {} is deleted; up to {} are given back", shown(name), format_bytes(owed));
        let event = Event { device: Some(device), ..Event::new(EventKind::SnapshotDeleted, &what) };
        self.0.log.report(self.0.clock.now(), &event);
        Ok(what)
    }

    /// Takes the snapshots that are due, and deletes the ones beyond the number to keep; returns when to look again.
    fn tend_snapshots(&self) -> Duration {
        let (spec, _) = self.running();
        let mut next = Duration::MAX;
        for (_, device) in spec.present_devices() {
            let Some((every, keep)) = device.snapshots.as_ref().and_then(|keys| Some((keys.every?, keys.keep?))) else {
                continue;
            };
            let tended = self.tend_device(&device.name, every.nanos(), keep as usize);
            next = next.min(tended.unwrap_or(AGAIN_AFTER));
        }
        next
    }

    fn tend_device(&self, device: &str, every: Nanos, keep: usize) -> Result<Duration, String> {
        let (snapshots, _) = self.snapshots_of(device)?;
        let (now, every_seconds) = (self.wall_seconds(), (every.0 / 1_000_000_000).cast_signed());
        let mut due = due_in(&snapshots.list()?, every_seconds, now);
        if due == 0 {
            self.take_snapshot(device, Some(&format!("{OWN}{now}")))?;
            due = every_seconds;
        }
        for name in too_many(&snapshots.list()?, keep, self.wall_seconds()) {
            self.delete_snapshot(device, &name)?;
        }
        Ok(Duration::from_secs(due.unsigned_abs()))
    }
}

/// Clones the device's file during a pause; returns how long clients have waited.
fn clone_at_rest(
    clone_now: impl FnOnce() -> Result<(), String>,
    engine: &engine::Handle,
    pause_max: Nanos,
) -> Result<Nanos, String> {
    let silent = |_| "it does not answer".to_string();
    let patience = PATIENCE + Duration::from_nanos(pause_max.0);
    let is_at_rest = engine.ask(|ready| engine::Command::Pause(pause_max, ready)).recv_timeout(patience);
    is_at_rest.map_err(silent).flatten()?;
    let cloned = clone_now();
    let paused = engine.ask(engine::Command::Resume).recv_timeout(patience).map_err(silent)?;
    cloned?;
    paused.ok_or_else(|| {
        "the clone has taken longer than `pause_max`: clients continued meanwhile, so that it would mix several moments".into()
    })
}

/// The thread that takes scheduled snapshots. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SnapshotTimer {
    /// Dropped first, which ends the thread.
    _stop: Sender<()>,
    _thread: OwnedThread,
}

impl SnapshotTimer {
    /// Starts the thread, if a device of the spec has snapshots taken.
    pub(crate) fn start(controller: Controller) -> std::io::Result<Option<Self>> {
        let is_wanted =
            |device: &crate::spec::Device| device.snapshots.as_ref().is_some_and(|keys| keys.every.is_some());
        if !controller.running().0.device.iter().any(is_wanted) {
            return Ok(None);
        }
        let (stop, stopped) = channel();
        let work = move || {
            while stopped.recv_timeout(controller.tend_snapshots()) == Err(RecvTimeoutError::Timeout) {}
        };
        Ok(Some(Self { _stop: stop, _thread: OwnedThread::start("ioweir-snapshot", work)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Command, Handle};

    /// An engine that pauses at once, and reports at the end how long it has paused.
    fn at_rest(paused: Option<Nanos>) -> Handle {
        let (handle, commands) = Handle::new().unwrap_or_else(|error| panic!("{error}"));
        std::thread::spawn(move || {
            for command in commands {
                let is_heard = match command {
                    Command::Pause(_, ready) => ready.send(Ok(())).is_ok(),
                    Command::Resume(answer) => answer.send(paused).is_ok(),
                    _ => false,
                };
                assert!(is_heard);
            }
        });
        handle
    }

    #[test]
    fn clones_that_outlast_their_pause_are_no_snapshots() {
        let clone = |paused, cloned: Result<(), String>| clone_at_rest(|| cloned, &at_rest(paused), Nanos::ZERO);
        let span = Nanos::from_millis(7);
        assert_eq!(clone(Some(span), Ok(())), Ok(span));
        assert_eq!(clone(Some(span), Err("no room".into())), Err("no room".into()));
        let refused = clone(None, Ok(())).unwrap_err();
        assert!(refused.contains("clients continued meanwhile"), "{refused}");
    }
}
