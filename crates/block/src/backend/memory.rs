//! Memory as a device, and a null device, which measure the cost of the server itself.

use std::io;

use ioweir_config::format_bytes;
use ioweir_core::Nanos;

use super::store::Store;
use super::{Action, Backend, Done, Io, Outcome};
use crate::NbdError;
use crate::buffer::Buffers;
use crate::{Extent, STATE_HOLE, STATE_ZERO};

/// Memory; without a store, reads return zeroes and writes are dropped.
#[derive(Debug)]
pub struct Memory {
    store: Option<Store>,
    size_bytes: u64,
    done: Vec<Done>,
}

impl Memory {
    /// Memory of this size.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        Self { store: Some(Store::new(size_bytes)), size_bytes, done: Vec::new() }
    }

    /// A null device of this size.
    #[must_use]
    pub const fn null(size_bytes: u64) -> Self {
        Self { store: None, size_bytes, done: Vec::new() }
    }
}

/// Carries out an operation on a store.
pub(super) fn perform(store: &mut Store, io: &mut Io) -> Result<Outcome, NbdError> {
    let Io { action, offset, length, .. } = *io;
    match action {
        Action::Read if store.is_hole(offset, length) => return Ok(Outcome::Hole),
        Action::Read => each(&mut io.buffers, offset, |at, bytes| store.read(at, bytes)),
        Action::Write => each(&mut io.buffers, offset, |at, bytes| store.write(at, bytes)),
        Action::Trim => store.zero(offset, length, false),
        Action::Zero { keep, .. } => store.zero(offset, length, keep),
        Action::Extents => return Ok(Outcome::Extents(store.extents(offset, length))),
        Action::Flush | Action::Cache => {}
        Action::Serve(_) => return Err(NbdError::NotSupported),
    }
    Ok(Outcome::Plain)
}

/// Each buffer with its offset on the device.
pub(super) fn each(buffers: &mut Buffers, offset: u64, mut act: impl FnMut(u64, &mut [u8])) {
    let mut at = offset;
    for buffer in buffers.as_mut_slice() {
        act(at, buffer.bytes_mut());
        at += buffer.len() as u64;
    }
}

/// Carries out an operation without a store.
fn forget(io: &mut Io) -> Result<Outcome, NbdError> {
    match io.action {
        // The buffer may contain another client's bytes.
        Action::Read => io.buffers.clear(),
        Action::Extents => {
            return Ok(Outcome::Extents(vec![Extent { length: io.length, state: STATE_HOLE | STATE_ZERO }]));
        }
        Action::Serve(_) => return Err(NbdError::NotSupported),
        _ => {}
    }
    Ok(Outcome::Plain)
}

impl Backend for Memory {
    fn start(&mut self, _now: Nanos, mut io: Io) {
        let result = match &mut self.store {
            Some(store) => perform(store, &mut io),
            None => forget(&mut io),
        };
        self.done.push(Done::new(io.id, io.buffers, result));
    }

    fn collect(&mut self, _now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        done.append(&mut self.done);
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn writes_zeroes(&self, keep: bool) -> bool {
        keep && self.store.is_some()
    }

    fn describe(&self) -> String {
        let kind = if self.store.is_some() { "memory" } else { "null" };
        format!("{kind}, {}", format_bytes(self.size_bytes))
    }
}
