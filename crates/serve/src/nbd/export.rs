//! Exports as the protocol describes them.

use super::protocol::{
    CONTEXT_ALLOCATION, CONTEXT_ALLOCATION_ID, CONTEXTS_MAX, EXPORT_CAN_MULTI_CONN, EXPORT_HAS_FLAGS, EXPORT_READ_ONLY,
    EXPORT_SEND_CACHE, EXPORT_SEND_DF, EXPORT_SEND_FAST_ZERO, EXPORT_SEND_FLUSH, EXPORT_SEND_FUA, EXPORT_SEND_TRIM,
    EXPORT_SEND_WRITE_ZEROES,
};

/// The metadata contexts that a client has selected, by their numbers on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contexts([u32; CONTEXTS_MAX]);

impl Contexts {
    /// No context.
    pub const NONE: Self = Self([0; CONTEXTS_MAX]);

    /// Adds a context, if it is missing and there is room; returns whether it is among them now.
    pub fn add(&mut self, number: u32) -> bool {
        let is_there = self.0.contains(&number);
        let place = self.0.iter_mut().find(|place| **place == 0 && !is_there);
        place.map(|place| *place = number).is_some() || is_there
    }

    /// The contexts with these numbers, without the zeroes.
    #[must_use]
    pub fn of(numbers: &[u32]) -> Self {
        let mut contexts = Self::NONE;
        numbers.iter().for_each(|number| _ = contexts.add(*number));
        contexts
    }

    /// The context that follows the given one, or the first.
    #[must_use]
    pub fn after(&self, other: Option<u32>) -> Option<u32> {
        let begin =
            other.map_or(0, |other| self.0.iter().position(|its| *its == other).map_or(CONTEXTS_MAX, |at| at + 1));
        self.0.get(begin).copied().filter(|number| *number > 0)
    }
}

/// A device, or a slice of one, that a client can use by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The name; a client that gives none gets the first export.
    pub name: String,
    /// A description for people; may be empty.
    pub description: String,
    /// The export's offset on the device.
    pub offset_bytes: u64,
    /// The export's size.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Offsets and lengths of requests are multiples of this.
    pub block_bytes_min: u32,
    /// The block size that suits the device.
    pub block_bytes_preferred: u32,
    /// Whether ranges that are not needed any more can be given back.
    pub trims: bool,
}

impl Export {
    pub(super) fn contexts(&self) -> impl Iterator<Item = (u32, String)> {
        std::iter::once((CONTEXT_ALLOCATION_ID, CONTEXT_ALLOCATION.to_string()))
    }

    /// The transmission flags for a connection, with replies in chunks or in one piece.
    #[must_use]
    pub const fn flags(&self, chunks: bool) -> u16 {
        let mut flags = EXPORT_HAS_FLAGS | EXPORT_SEND_FLUSH | EXPORT_SEND_FUA | EXPORT_CAN_MULTI_CONN;
        flags |= EXPORT_SEND_CACHE;
        flags |= if self.read_only { EXPORT_READ_ONLY } else { EXPORT_SEND_WRITE_ZEROES | EXPORT_SEND_FAST_ZERO };
        if self.trims && !self.read_only {
            flags |= EXPORT_SEND_TRIM;
        }
        if chunks { flags | EXPORT_SEND_DF } else { flags }
    }
}
