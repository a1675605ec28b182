//! The identity that binds a fast tier to its map.

use super::super::parts::{BLOCK_BYTES, perform_alone};
use super::super::{Action, Backend, Io, Outcome};
use crate::buffer::{Buffer, Buffers};

/// The first bytes of a fast tier; its identity follows.
const MAGIC: &[u8; 16] = b"ioweir fast tier";

/// Checks that a fast tier has the identity of its ledger; a new one is given it.
pub(super) fn introduce(fast: &mut dyn Backend, identity: u64, is_unused: bool) -> Result<(), String> {
    let io = |action, buffer: Buffer| {
        let (durable, buffers) = (action == Action::Write, Buffers::One(buffer));
        Io { action, length: BLOCK_BYTES, durable, buffers, ..Io::without_data(0) }
    };
    let mut perform = |io: Io| {
        let done = perform_alone(fast, io).map_err(|error| format!("cannot be used: {error}"))?;
        done.result.map(|outcome| (outcome, done.buffers)).map_err(|error| format!("cannot be used: {error:?}"))
    };
    let empty = || Buffer::with_capacity(BLOCK_BYTES as usize);
    let mut head = match perform(io(Action::Read, empty()))? {
        (Outcome::Plain, Buffers::One(buffer)) => buffer,
        _ => empty(),
    };
    let (magic, rest) = head.bytes_mut().split_at_mut(MAGIC.len());
    let Some(name) = rest.get_mut(..size_of::<u64>()) else { return Ok(()) };
    if magic == MAGIC {
        if *name == identity.to_le_bytes() {
            return Ok(());
        }
        return Err(
            "belongs to another map, or its map was lost; to begin anew, losing what lies there, empty it".into()
        );
    }
    if magic.iter().any(|&byte| byte != 0) {
        return Err("holds something else; expected an empty one, or the one that belongs to the map".into());
    }
    if !is_unused {
        return Err("is empty, and its map says that blocks lie there; expected the one that belongs to the map".into());
    }
    magic.copy_from_slice(MAGIC);
    name.copy_from_slice(&identity.to_le_bytes());
    perform(io(Action::Write, head)).map(drop)
}
