//! A disk and a faster device as one backend, either by placement ([`Placed`]) or with a read cache ([`Cached`]).
//!
//! The export is as long as the slow tier, and a byte has the same address on both. The fast tier is an array of slots of
//! one block, 4 KiB. The engine lets no two operations on a block overlap, unless both read, so a block's location changes
//! at one moment and no locks are needed here. The scheduler orders requests; this module decides which operations on which
//! tier they become.
//!
//! # Placement
//!
//! A scheduler that places data names the device of each dispatch. Blocks that it writes to the fast device move there: each
//! gets a slot (if only a part of it is written, the rest is read from the slow tier first). Reads, and writes to blocks
//! that have a slot, follow the map whatever the dispatch says. Whole blocks that are trimmed or zeroed return
//! to the slow tier. Once all slots are used, writes stay on the slow tier, as with `bid-hybrid`. Nothing else moves, unless a
//! service has it moved (`relocation`).
//!
//! The map is durable in a [ledger](ledger::Ledger), a redb table of blocks and slots, from which the policy's own map is
//! made at the start ([`Tiers::placement`](super::Tiers::placement)). After a loss of power at any moment, everything that was acknowledged as
//! durable is there, and every other block has its old or its new content, because
//!
//! - a change of the map is committed after the data that it refers to was flushed: the entry of a slot after that slot, and
//!   the removal of an entry after the slow tier;
//! - a slot that was given up is reused only after a commit that began later, so that no durable entry refers to another
//!   block's data; and a block that has a slot is not written on the slow tier;
//! - a flush, and a durable write to a block whose location is not committed, are answered after these flushes and a commit
//!   that began after they arrived. A durable write to a committed location needs neither.
//!
//! This is one *sync*: flushes of the tiers that need one, then one transaction for all changes, then the answers to all
//! operations that waited. One sync is in flight at a time; operations that arrive meanwhile share the next. The ledger's
//! thread makes the transaction and wakes the engine. Without flushes from clients, a sync begins a second after the first
//! change, or when all free slots wait for one.
//!
//! Slot zero, and an attribute of a file that is the slow tier, hold an identity and a generation that the ledger also has: a map
//! and tiers that do not match, or are not of the same day, are refused, because blocks would be lost (`identity`).
//!
//! # Read cache
//!
//! The slow tier holds everything; slots hold clean copies of blocks, and the directory is in memory: after a restart the
//! cache is empty, so it is never stale. A write, trim or zero removes its blocks from the cache before it begins. A block
//! is admitted when it is read a second time while it is still remembered. As many blocks are remembered as there are slots,
//! each until a block with the same index in the table is read. An admitted block gets a free slot, or the slot of a block
//! that was not read since the clock's hand last passed it. The number of bytes being written to the cache is bounded;
//! beyond that, no block is admitted. An error of the fast tier is a miss.

mod cached;
mod directory;
mod heat;
mod identity;
mod ledger;
mod map;
mod operation;
mod pair;
mod placed;
mod relocation;
mod step;

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts::BLOCK_BYTES;

pub use cached::Cached;
pub use identity::refuse_slow_tier;
pub use ledger::Ledger;
pub use placed::Placed;
pub use relocation::Relocates;

/// The faster of two tiers, as a scheduler that places data sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FastTier {
    /// The most operations in flight.
    pub depth: u32,
    /// Sectors that can be placed there.
    pub sectors: u64,
    /// Sectors that are placed together.
    pub block_sectors: u32,
    /// The ranges on the fast tier, in sectors.
    pub placed: Vec<Range<u64>>,
}

/// The tiers of a device, and what they have served since it was opened, for clients or to move blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct TierStatus {
    /// Bytes of the blocks on the fast tier: placed there, or copies.
    pub held_bytes: u64,
    /// Bytes that the fast tier has room for.
    pub room_bytes: u64,
    /// Bytes read from the fast tier.
    pub fast_read_bytes: u64,
    /// Bytes written to the fast tier.
    pub fast_written_bytes: u64,
    /// Bytes read from the slow tier.
    pub slow_read_bytes: u64,
    /// Bytes written to the slow tier.
    pub slow_written_bytes: u64,
}

/// The number of slots of a fast tier of this size, including the first one; an error if there is none for data.
fn slots_of(size_bytes: u64) -> Result<u32, String> {
    match u32::try_from(size_bytes / BLOCK_BYTES) {
        Ok(slots) if slots >= 2 => Ok(slots),
        Ok(_) => Err("the fast tier is too small: it takes at least 8KiB".into()),
        Err(_) => Err("the fast tier is too large: it takes less than 16TiB".into()),
    }
}
