//! A scratch file: made for one replay, filled, and gone with the program.

use std::fs::{self, OpenOptions};
use std::path::Path;

use ioweir_block::backend::Action;
use ioweir_block::real::{Access, Halt, Ring, Stop, System, Target};
use ioweir_core::Nanos;

use crate::failure::Failure;

/// How much is written at once, and how many writes are in flight.
const WRITE_BYTES: u64 = 1 << 20;
const WRITES: usize = 8;

fn existing(path: &Path) -> Failure {
    let problem = format!("scratch file {} exists", path.display());
    Failure::input(problem, "a name that is free: the file is made, overwritten and removed", "")
}

/// Refuses a name that is taken, long before the file is made.
pub(super) fn refuse_existing(path: &Path) -> Result<(), Failure> {
    if path.symlink_metadata().is_ok() { Err(existing(path)) } else { Ok(()) }
}

/// Makes a file of this size, a multiple of 1 MiB, and writes all of it: reading unwritten blocks measures nothing. The file loses its name
/// as soon as it is open, so that nothing is left of it however the program ends.
pub(super) fn make(system: &System, path: &Path, size: u64, stop: &Stop) -> Result<Target, Failure> {
    let refused = |error: &std::io::Error| Failure::unwritable(&path.display().to_string(), error);
    let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => existing(path),
        _ => refused(&error),
    })?;
    let opened = file.set_len(size).map_err(|error| refused(&error)).and_then(|()| {
        let access = Access { write: true, in_use: false };
        Ok(Target::open(system, path, access)?)
    });
    fs::remove_file(path).map_err(|error| refused(&error))?;
    let target = opened?;
    let mut ring = Ring::open(&target, WRITES as u32, stop.clone())?;
    let mut done = Vec::new();
    let halted = |halt: Halt| Failure::Running(format!("scratch file {}: {halt}", path.display()));
    let mut at = 0;
    while at < size || ring.in_flight() > 0 {
        while at < size && ring.in_flight() < WRITES {
            ring.start(at / WRITE_BYTES, Action::Write, at, WRITE_BYTES.min(size - at));
            at += WRITE_BYTES;
        }
        ring.wait(Nanos::NEVER, &mut done).map_err(halted)?;
        if done.drain(..).any(|done| done.result.is_err()) {
            return Err(Failure::Running(format!("scratch file {}: a write failed: is it full?", path.display())));
        }
    }
    file.sync_all().map_err(|error| refused(&error))?;
    Ok(target)
}
