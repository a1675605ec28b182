//! Exports as the protocol describes them.

use super::protocol::{
    EXPORT_CAN_MULTI_CONN, EXPORT_HAS_FLAGS, EXPORT_READ_ONLY, EXPORT_SEND_CACHE, EXPORT_SEND_DF,
    EXPORT_SEND_FAST_ZERO, EXPORT_SEND_FLUSH, EXPORT_SEND_FUA, EXPORT_SEND_TRIM, EXPORT_SEND_WRITE_ZEROES,
};

/// A device, or a slice of one, that a client can use by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The name; a client that gives none gets the first export.
    pub name: String,
    /// A description for people; may be empty.
    pub description: String,
    /// Its offset on the device.
    pub offset_bytes: u64,
    /// Its size.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// What offsets and lengths of requests are multiples of.
    pub block_bytes_min: u32,
    /// The block size that suits the device.
    pub block_bytes_preferred: u32,
    /// Whether ranges that are not needed any more can be given back.
    pub trims: bool,
}

impl Export {
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
