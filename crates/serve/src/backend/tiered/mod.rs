//! How do a disk and a faster device serve as one? By placement ([`Placed`]) or as a read cache ([`Cached`]).
//!
//! The export is as long as the slow tier, and a byte has the same address there. The fast tier is a row of slots of one
//! block, 4 KiB, which is also what the engine keeps apart: no two operations on a block meet, unless both read. So a
//! block's place changes at one moment, and nothing here has to lock. The order of requests is the scheduler's; only how
//! many operations one request becomes, and where, is decided here.
//!
//! # Placement
//!
//! A scheduler that places says with each dispatch which device it is for. What it writes to the fast one moves there:
//! each block that is not there yet gets a slot (of a block that is written in part, the rest is read from the slow tier
//! first). All else follows the [map](map::Map), whatever the dispatch says: reads, and writes to what lies in a slot.
//! Whole blocks that are trimmed or zeroed go home. Nothing else moves back, as `bid-hybrid` has it: where slots are used
//! up, writes stay on the slow tier.
//!
//! The map is durable in a [ledger](ledger::Ledger), a redb table of block and slot; the policy's own map is made from it
//! at the start ([`Backend::fast_tier`]). After a loss of power at any moment, what was
//! acknowledged as durable is there, and every other block is old or new, because
//!
//! - a change of the map is committed after the data that it leads to was flushed: a name of a slot after that slot, and
//!   the end of a name after the slow tier;
//! - a slot that was given up is used again only after a commit that began later, so that no durable name leads to data
//!   of another block; and a block that has a slot is not written at home;
//! - a flush, and a durable write to a block whose place is not committed, are answered after these flushes and a commit
//!   that began after they came. A durable write to a settled place needs none.
//!
//! That is one *sync*: flushes of the tiers that need it, then one transaction for all that changed, then the answers of
//! all who waited. One is under way at a time; who comes meanwhile shares the next. The transaction is made by a thread
//! of the ledger, which wakes the engine. Without flushes from clients a sync begins by itself a second after the first
//! change, and when slots have run out of which some wait for one.
//!
//! Map and fast tier belong together: slot zero holds the identity that the ledger keeps, and a pair that does not match
//! is refused, because blocks would be lost.
//!
//! # Read cache
//!
//! The slow tier holds everything; slots hold clean copies of blocks, and a map in memory says of which: after a restart
//! the cache is empty, so that it can never be stale. A write, trim or zero takes its blocks out of the cache before it
//! begins. A block is let in when it is read a second time while it is still remembered; as many blocks are remembered as
//! there are slots, each until one that shares its place in a table is read. It gets a free slot, or that of a block that
//! was not read since the hand of a clock passed it last. What is being written to the cache is bounded; beyond that
//! nothing is let in. An error of the fast tier is a miss.

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

/// The faster of two tiers, as a scheduler that places data has to know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FastTier {
    /// Operations that it is given at once.
    pub depth: u32,
    /// Sectors that can be placed there.
    pub sectors: u64,
    /// Sectors that are placed together.
    pub block_sectors: u32,
    /// What lies there already, in sectors.
    pub placed: Vec<Range<u64>>,
}

/// Slots of a fast tier of this size, the first one included; an error where there is none for data.
fn slots_of(size_bytes: u64) -> Result<u32, String> {
    match u32::try_from(size_bytes / BLOCK_BYTES) {
        Ok(slots) if slots >= 2 => Ok(slots),
        Ok(_) => Err("the fast tier is too small: it takes at least 8KiB".into()),
        Err(_) => Err("the fast tier is too large: it takes less than 16TiB".into()),
    }
}

/// Carries out one operation and waits for it, where nothing else is under way.
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
