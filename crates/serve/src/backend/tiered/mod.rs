//! A disk and a faster device as one: by placement ([`Placed`]) or with a read cache ([`Cached`]).
//!
//! The export is as long as the slow tier, and a byte has the same address there. The fast tier is an array of slots of one
//! block, 4 KiB. The engine lets no two operations on a block overlap, unless both read, so a block's location changes at one
//! moment and nothing here needs a lock. The scheduler orders requests; this decides which operations on which tier they
//! become.
//!
//! # Placement
//!
//! A scheduler that places data names the device of each dispatch. Blocks that it writes to the fast device move there: each
//! gets a slot (if it is written in part, the rest is read from the slow tier first). Reads, and writes to blocks that have a
//! slot, follow the [map](map::Map) whatever the dispatch says. Whole blocks that are trimmed or zeroed return to the slow
//! tier. Nothing else moves back, as with `bid-hybrid`: once slots are used up, writes stay on the slow tier.
//!
//! The map is durable in a [ledger](ledger::Ledger), a redb table of block and slot, from which the policy's own map is made at
//! the start ([`Backend::fast_tier`]). After a loss of power at any moment, everything that was acknowledged as durable is
//! there, and every other block is old or new, because
//!
//! - a change of the map is committed after the data that it leads to was flushed: an entry of a slot after that slot, and the
//!   removal of an entry after the slow tier;
//! - a slot that was given up is used again only after a commit that began later, so that no durable entry leads to data of
//!   another block; and a block that has a slot is not written on the slow tier;
//! - a flush, and a durable write to a block whose location is not committed, are answered after these flushes and a commit
//!   that began after they arrived. A durable write to a committed location needs none.
//!
//! That is one *sync*: flushes of the tiers that need one, then one transaction for all changes, then the answers to all that
//! waited. One is in flight at a time; operations that arrive meanwhile share the next. The ledger's thread makes the
//! transaction and wakes the engine. Without flushes from clients a sync begins a second after the first change, and when
//! all free slots wait for one.
//!
//! Slot zero holds the identity that the ledger has, too: a map and a fast tier that do not match are refused, because blocks
//! would be lost.
//!
//! # Read cache
//!
//! The slow tier holds everything; slots hold clean copies of blocks, with the directory in memory: after a restart the cache is
//! empty, so it is never stale. A write, trim or zero removes its blocks from the cache before it begins. A block is admitted
//! when it is read a second time while it is still remembered; as many blocks are remembered as there are slots, each until
//! one with the same index in a table is read. It gets a free slot, or that of a block that was not read since the clock's
//! hand passed it last. Bytes that are being written to the cache are bounded; beyond that nothing is admitted. An error of
//! the fast tier is a miss.

mod cached;
mod directory;
mod identity;
mod ledger;
mod map;
mod operation;
mod pair;
mod placed;

use std::io;
use std::ops::Range;

use ioweir_core::Nanos;
use rustix::event::{PollFd, PollFlags};

use super::{Backend, Done, Io};
use crate::buffer::ALIGNMENT_BYTES;

pub use cached::Cached;
pub use ledger::Ledger;
pub use placed::Placed;

/// A block, and a slot for one.
const BLOCK_BYTES: u64 = ALIGNMENT_BYTES as u64;

/// The faster of two tiers, as a scheduler that places data needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FastTier {
    /// Operations in flight at most.
    pub depth: u32,
    /// Sectors that can be placed there.
    pub sectors: u64,
    /// Sectors that are placed together.
    pub block_sectors: u32,
    /// The ranges that are placed there, in sectors.
    pub placed: Vec<Range<u64>>,
}

/// The slots of a fast tier of this size, the first one included; an error where there is none for data.
fn slots_of(size_bytes: u64) -> Result<u32, String> {
    match u32::try_from(size_bytes / BLOCK_BYTES) {
        Ok(slots) if slots >= 2 => Ok(slots),
        Ok(_) => Err("the fast tier is too small: it takes at least 8KiB".into()),
        Err(_) => Err("the fast tier is too large: it takes less than 16TiB".into()),
    }
}

/// Carries out one operation and waits for it, where nothing else is in flight.
fn perform_alone(backend: &mut dyn Backend, io: Io) -> io::Result<Done> {
    let (mut now, mut done) = (Nanos::ZERO, Vec::new());
    backend.start(now, io);
    loop {
        backend.submit()?;
        backend.collect(now, &mut done)?;
        if let Some(done) = done.pop() {
            return Ok(done);
        }
        let due = backend.due();
        if due == Nanos::NEVER {
            let descriptors = backend.descriptors();
            let mut watched: Vec<_> =
                descriptors.iter().map(|descriptor| PollFd::new(descriptor, PollFlags::IN)).collect();
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut watched, None))?;
        } else {
            now = now.max(due);
        }
    }
}
