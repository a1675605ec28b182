//! Queue settings of a device that are changed for a while, and restored in any case.
//!
//! Before the first change a note with the old values is written to disk and flushed. It is removed when they are restored: at the end, on
//! an error, on Ctrl-C. A note that is left belongs to a process that was killed, and [`restore_left`] acts on it.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::identity::choices;
use super::system::{Number, System, line, names};
use super::{Identity, RealError};

/// The old values of a device's settings, and the process that changes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    device: String,
    number: String,
    /// The identity of the boot, because settings end with it.
    boot: String,
    pid: u32,
    /// When the process began, because process numbers are reused.
    began: String,
    /// Keys and values, in the order in which they are restored.
    before: Vec<(String, String)>,
}

/// Changed settings of one device, until it is dropped.
#[derive(Debug)]
pub struct Settings {
    queue: PathBuf,
    path: PathBuf,
    note: Note,
    is_restored: bool,
}

/// The folder of notes: `/var/lib/ioweir` for root, else the user's folder for state.
#[must_use]
pub fn state_folder() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/var/lib/ioweir".into();
    }
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    state.or_else(home).unwrap_or_else(std::env::temp_dir).join("ioweir")
}

/// The value of a setting: the choice in brackets, if it lists choices.
fn value(queue: &Path, key: &str) -> Option<String> {
    line(&queue.join(key)).map(|text| choices(&text).0.unwrap_or(text))
}

/// The time at which a process began, in the kernel's ticks.
fn began(system: &System, pid: u32) -> Option<String> {
    let stat = fs::read_to_string(system.proc.join(pid.to_string()).join("stat")).ok()?;
    // The command is in parentheses and may contain blanks; the time is the twentieth field after it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

fn boot(system: &System) -> String {
    line(&system.proc.join("sys/kernel/random/boot_id")).unwrap_or_default()
}

/// Whether a key may be set: a file of the queue's folder or of `iosched` in it.
fn is_key(key: &str) -> bool {
    let name = key.strip_prefix("iosched/").unwrap_or(key);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn put(queue: &Path, key: &str, new: &str) -> Result<(), RealError> {
    let path = queue.join(key);
    let written =
        OpenOptions::new().write(true).truncate(true).open(&path).and_then(|mut file| file.write_all(new.as_bytes()));
    written.map_err(|error| {
        let hint = if error.kind() == std::io::ErrorKind::PermissionDenied { "only root changes settings" } else { "" };
        RealError::refused(&path, &format!("`{new}` is refused"), &error).hint(hint)
    })
}

impl Settings {
    /// Writes a note of the present values of `keys` of a device's queue to a file in `folder`. Nothing is changed yet.
    ///
    /// # Errors
    /// If there is no such key, another process changes the device, or the note cannot be written.
    pub fn begin(system: &System, folder: &Path, identity: &Identity, keys: &[&str]) -> Result<Self, RealError> {
        let queue = identity.folder(system).map(|device| device.join("queue")).filter(|queue| queue.is_dir());
        let queue = queue.ok_or_else(|| RealError::new(format!("{} has no settings in sysfs", identity.name)))?;
        if rustix::fs::access(queue.join("scheduler"), rustix::fs::Access::WRITE_OK) == Err(rustix::io::Errno::ACCESS) {
            return Err(RealError::new(format!("the settings of {} may not be changed", identity.name))
                .hint("only root changes settings; without --scheduler and --set none is changed"));
        }
        let iosched = names(&queue.join("iosched")).into_iter().map(|key| format!("iosched/{key}"));
        let plain = keys.iter().filter(|key| !key.starts_with("iosched/")).map(|key| (*key).to_owned());
        // A change of scheduler resets the number of requests and the scheduler's parameters, so these are set after it.
        let mut order: Vec<String> = plain.filter(|key| key != "scheduler" && key != "nr_requests").collect();
        order.extend(["scheduler".into(), "nr_requests".into()]);
        order.extend(iosched);
        if let Some(unknown) = keys.iter().find(|key| !is_key(key) || !key.contains('/') && !queue.join(key).is_file())
        {
            let known = names(&queue).into_iter().filter(|name| queue.join(name).is_file()).collect::<Vec<_>>();
            return Err(RealError::new(format!("{} has no setting `{unknown}`", identity.name))
                .expected(format!("one of {}", known.join(", "))));
        }
        let before = order.into_iter().filter_map(|key| value(&queue, &key).map(|value| (key, value))).collect();
        let pid = std::process::id();
        let note = Note {
            device: identity.name.clone(),
            number: identity.number.clone(),
            boot: boot(system),
            pid,
            began: began(system, pid).unwrap_or_default(),
            before,
        };
        let path = folder.join(format!("settings-{}.json", identity.name.replace(['/', '!'], "-")));
        write_note(&path, &note)?;
        Ok(Self { queue, path, note, is_restored: false })
    }

    /// Changes one setting.
    ///
    /// # Errors
    /// If the kernel refuses it or does not keep it.
    pub fn set(&mut self, key: &str, new: &str) -> Result<(), RealError> {
        let missing = || {
            let known = names(&self.queue.join("iosched")).join(", ");
            let known = if known.is_empty() { "none: this scheduler has no settings".into() } else { known };
            RealError::new(format!("{} has no setting `{key}` now", self.note.device)).expected(known)
        };
        if !is_key(key) || !self.queue.join(key).is_file() {
            return Err(missing());
        }
        put(&self.queue, key, new)?;
        let kept = value(&self.queue, key).unwrap_or_default();
        if key == "scheduler" && kept != new {
            return Err(RealError::new(format!("{} kept scheduler `{kept}` instead of `{new}`", self.note.device)));
        }
        Ok(())
    }

    /// Restores the values before the first change, after which more changes can be made.
    pub fn reset(&mut self) -> Result<(), RealError> {
        restore_note(&self.queue, &self.note)
    }

    /// Restores all settings now, and reports the ones that could not be restored.
    ///
    /// # Errors
    /// If the kernel refuses an old value. The note is kept then.
    pub fn restore(mut self) -> Result<(), RealError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), RealError> {
        if self.is_restored {
            return Ok(());
        }
        self.is_restored = true;
        restore_note(&self.queue, &self.note)?;
        remove(&self.path)
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // If this fails, the note is kept, and the next start tries again and reports it.
        let _ = self.put_back();
    }
}

fn restore_note(queue: &Path, note: &Note) -> Result<(), RealError> {
    for (key, old) in &note.before {
        if value(queue, key).as_ref() != Some(old) {
            put(queue, key, old)?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), RealError> {
    fs::remove_file(path).map_err(|error| RealError::refused(path, "cannot be removed", &error))
}

/// Writes the note so that it survives a crash, unless there is one.
fn write_note(path: &Path, note: &Note) -> Result<(), RealError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let failed = |error: std::io::Error| {
        RealError::refused(path, "the old settings cannot be noted", &error)
            .hint("without a note they could not be restored after a crash: --state names another folder")
    };
    fs::create_dir_all(folder).map_err(failed)?;
    let written = path.with_extension(format!("new-{}", note.pid));
    let text = serde_json::to_string_pretty(note).map_err(|error| failed(error.into()))?;
    let mut file = File::create(&written).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    // Creating a link fails if there is a note already, which a rename would replace.
    let linked = fs::hard_link(&written, path);
    fs::remove_file(&written).map_err(failed)?;
    match linked {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let problem = format!("another process changes the settings of {}", note.device);
            Err(RealError::of(path, problem).expected("one at a time"))
        }
        linked => linked.and_then(|()| File::open(folder)?.sync_all()).map_err(failed),
    }
}

/// Restores the settings that killed processes have left changed, and returns a line for each device. Settings that a running process has
/// changed are left alone.
#[must_use]
pub fn restore_left(system: &System, folder: &Path) -> Vec<String> {
    let notes = names(folder).into_iter().filter(|name| name.starts_with("settings-") && name.ends_with(".json"));
    notes.filter_map(|name| restore_one(system, &folder.join(name))).collect()
}

fn restore_one(system: &System, path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let Ok(note) = serde_json::from_str::<Note>(&text) else {
        return Some(format!("{}: is no note of settings, and was left alone", path.display()));
    };
    if began(system, note.pid).is_some_and(|began| began == note.began) && note.boot == boot(system) {
        return None;
    }
    let restored = if note.boot == boot(system) {
        let folder = Number::parse(&note.number).and_then(|number| system.folder(number));
        match folder.filter(|folder| folder.file_name().is_some_and(|name| *name == *note.device)) {
            Some(folder) => restore_note(&folder.join("queue"), &note).map(|()| "were restored"),
            None => Ok("are gone with it"),
        }
    } else {
        Ok("are gone with the last boot")
    };
    Some(match restored.and_then(|what| remove(path).map(|()| what)) {
        Ok(what) => format!("the settings of {} that process {} had changed {what}", note.device, note.pid),
        Err(error) => {
            format!("the settings of {} that process {} had changed are not restored: {error}", note.device, note.pid)
        }
    })
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
