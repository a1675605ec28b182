//! How is a request answered?
//!
//! Data is not copied: what is written here stands before it.

use super::error::NbdError;
use super::protocol::{
    CHUNK_BLOCK_STATUS, CHUNK_DONE, CHUNK_ERROR, CHUNK_NONE, CHUNK_OFFSET_DATA, CHUNK_OFFSET_HOLE,
    CONTEXT_ALLOCATION_ID, MAGIC_SIMPLE_REPLY, MAGIC_STRUCTURED_REPLY,
};

/// A stretch of an export in the answer to block status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How long it is.
    pub length: u32,
    /// `STATE_HOLE`, `STATE_ZERO`.
    pub state: u32,
}

/// Writes a simple reply; where it answers a read, the data follows.
pub fn put_simple(out: &mut Vec<u8>, cookie: u64, error: Option<NbdError>) {
    let mut reply = [0; 16];
    reply[..4].copy_from_slice(&MAGIC_SIMPLE_REPLY.to_be_bytes());
    reply[4..8].copy_from_slice(&error.map_or(0, NbdError::code).to_be_bytes());
    reply[8..].copy_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&reply);
}

fn put_chunk(out: &mut Vec<u8>, cookie: u64, kind: u16, last: bool, length: u32) {
    let mut chunk = [0; 20];
    chunk[..4].copy_from_slice(&MAGIC_STRUCTURED_REPLY.to_be_bytes());
    chunk[4..6].copy_from_slice(&(if last { CHUNK_DONE } else { 0 }).to_be_bytes());
    chunk[6..8].copy_from_slice(&kind.to_be_bytes());
    chunk[8..16].copy_from_slice(&cookie.to_be_bytes());
    chunk[16..].copy_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&chunk);
}

/// Writes a chunk that says nothing but that it is the last.
pub fn put_done(out: &mut Vec<u8>, cookie: u64) {
    put_chunk(out, cookie, CHUNK_NONE, true, 0);
}

/// Writes what stands before `length` bytes of data.
pub fn put_data(out: &mut Vec<u8>, cookie: u64, last: bool, offset: u64, length: u32) {
    put_chunk(out, cookie, CHUNK_OFFSET_DATA, last, length.saturating_add(8));
    out.extend_from_slice(&offset.to_be_bytes());
}

/// Writes a chunk that stands for `length` zeroes.
pub fn put_hole(out: &mut Vec<u8>, cookie: u64, last: bool, offset: u64, length: u32) {
    put_chunk(out, cookie, CHUNK_OFFSET_HOLE, last, 12);
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
}

/// Writes that a request failed.
pub fn put_error(out: &mut Vec<u8>, cookie: u64, error: NbdError) {
    put_chunk(out, cookie, CHUNK_ERROR, true, 6);
    out.extend_from_slice(&error.code().to_be_bytes());
    out.extend_from_slice(&0_u16.to_be_bytes());
}

/// Writes the extents of `base:allocation`; there is at least one.
pub fn put_extents(out: &mut Vec<u8>, cookie: u64, extents: &[Extent]) {
    let length = 4 + 8 * u32::try_from(extents.len()).unwrap_or(0);
    put_chunk(out, cookie, CHUNK_BLOCK_STATUS, true, length);
    out.extend_from_slice(&CONTEXT_ALLOCATION_ID.to_be_bytes());
    for extent in extents {
        out.extend_from_slice(&extent.length.to_be_bytes());
        out.extend_from_slice(&extent.state.to_be_bytes());
    }
}
