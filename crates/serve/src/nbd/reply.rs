//! Writes the replies to requests.
//!
//! Data is not copied: only the heads that are sent before it are written here.

use super::NbdError;
use super::protocol::{
    CHUNK_BLOCK_STATUS, CHUNK_BLOCK_STATUS_EXTENDED, CHUNK_DONE, CHUNK_ERROR, CHUNK_NONE, CHUNK_OFFSET_DATA,
    CHUNK_OFFSET_HOLE, MAGIC_EXTENDED_REPLY, MAGIC_SIMPLE_REPLY, MAGIC_STRUCTURED_REPLY,
};
use super::request::Command;

/// The form of replies that a client negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// One head, then all data.
    #[default]
    Simple,
    /// Chunks, unless the reply only says that the request is done.
    Structured,
    /// Always chunks, with lengths of 64 bits in replies and requests.
    Extended,
}

impl Replies {
    /// Whether data comes in chunks.
    #[must_use]
    pub const fn has_chunks(self) -> bool {
        !matches!(self, Self::Simple)
    }
}

pub use ioweir_block::Extent;

/// The reply to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The form of the reply.
    pub replies: Replies,
    /// The command of the request.
    pub command: Command,
    /// The client's handle of the request.
    pub cookie: u64,
    /// The offset of the request.
    pub offset: u64,
}

impl Reply {
    fn put_simple(&self, out: &mut Vec<u8>, error: u32) {
        let mut head = [0; 16];
        head[..4].copy_from_slice(&MAGIC_SIMPLE_REPLY.to_be_bytes());
        head[4..8].copy_from_slice(&error.to_be_bytes());
        head[8..].copy_from_slice(&self.cookie.to_be_bytes());
        out.extend_from_slice(&head);
    }

    fn put_chunk(&self, out: &mut Vec<u8>, kind: u16, last: bool, length: u32) {
        let is_extended = self.replies == Replies::Extended;
        let mut head = [0; 32];
        let magic = if is_extended { MAGIC_EXTENDED_REPLY } else { MAGIC_STRUCTURED_REPLY };
        head[..4].copy_from_slice(&magic.to_be_bytes());
        head[4..6].copy_from_slice(&(if last { CHUNK_DONE } else { 0 }).to_be_bytes());
        head[6..8].copy_from_slice(&kind.to_be_bytes());
        head[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        if is_extended {
            head[16..24].copy_from_slice(&self.offset.to_be_bytes());
            head[24..].copy_from_slice(&u64::from(length).to_be_bytes());
            out.extend_from_slice(&head);
        } else {
            head[16..20].copy_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&head[..20]);
        }
    }

    /// Writes the end of the reply: the request is done, or has failed.
    pub fn put_end(&self, out: &mut Vec<u8>, error: Option<NbdError>) {
        let in_chunks = match self.replies {
            Replies::Simple => false,
            Replies::Structured => matches!(self.command, Command::Read | Command::BlockStatus),
            Replies::Extended => true,
        };
        match error {
            _ if !in_chunks => self.put_simple(out, error.map_or(0, NbdError::code)),
            None => self.put_chunk(out, CHUNK_NONE, true, 0),
            Some(error) => {
                self.put_chunk(out, CHUNK_ERROR, true, 6);
                out.extend_from_slice(&error.code().to_be_bytes());
                out.extend_from_slice(&0_u16.to_be_bytes());
            }
        }
    }

    /// Writes the head for `length` bytes of data that were read at `offset`. A simple reply has all data, from the
    /// request's offset.
    pub fn put_data(&self, out: &mut Vec<u8>, last: bool, offset: u64, length: u32) {
        if !self.replies.has_chunks() {
            return self.put_simple(out, 0);
        }
        self.put_chunk(out, CHUNK_OFFSET_DATA, last, length.saturating_add(8));
        out.extend_from_slice(&offset.to_be_bytes());
    }

    /// Writes a chunk that replaces `length` zeroes. Not for simple replies.
    pub fn put_hole(&self, out: &mut Vec<u8>, last: bool, offset: u64, length: u32) {
        self.put_chunk(out, CHUNK_OFFSET_HOLE, last, 12);
        out.extend_from_slice(&offset.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
    }

    /// Writes the extents of a metadata context; there is at least one. Not for simple replies.
    pub fn put_extents(&self, out: &mut Vec<u8>, last: bool, context: u32, extents: &[Extent]) {
        let count = u32::try_from(extents.len()).unwrap_or(0);
        if self.replies == Replies::Extended {
            self.put_chunk(out, CHUNK_BLOCK_STATUS_EXTENDED, last, 8 + 16 * count);
            out.extend_from_slice(&context.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
            for extent in extents {
                out.extend_from_slice(&extent.length.to_be_bytes());
                out.extend_from_slice(&u64::from(extent.state).to_be_bytes());
            }
            return;
        }
        self.put_chunk(out, CHUNK_BLOCK_STATUS, last, 4 + 8 * count);
        out.extend_from_slice(&context.to_be_bytes());
        for extent in extents {
            // A client that asks in 32 bits never asks for more.
            out.extend_from_slice(&u32::try_from(extent.length).unwrap_or(u32::MAX).to_be_bytes());
            out.extend_from_slice(&extent.state.to_be_bytes());
        }
    }
}
