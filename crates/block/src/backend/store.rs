//! Sparse memory, in chunks that are allocated when they are first written.

use crate::{Extent, STATE_HOLE, STATE_ZERO};

const CHUNK_BYTES: usize = 64 << 10;

/// The most chunks that one answer about extents covers.
const LOOKED_AT_MAX: usize = 1 << 16;

/// The most extents of one answer.
pub const EXTENTS_MAX: usize = 1024;

/// Sparse memory.
#[derive(Debug)]
pub(super) struct Store {
    chunks: Vec<Option<Box<[u8]>>>,
    size_bytes: u64,
}

impl Store {
    pub(super) fn new(size_bytes: u64) -> Self {
        let chunks = usize::try_from(size_bytes.div_ceil(CHUNK_BYTES as u64)).unwrap_or(0);
        Self { chunks: (0..chunks).map(|_| None).collect(), size_bytes }
    }

    pub(super) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The pieces of a range: chunk, offset in it, length.
    fn pieces(offset: u64, length: u64) -> impl Iterator<Item = (usize, usize, usize)> {
        let mut at = offset;
        let end = offset.saturating_add(length);
        std::iter::from_fn(move || {
            let place = (at % CHUNK_BYTES as u64) as usize;
            let taken = (end - at).min((CHUNK_BYTES - place) as u64) as usize;
            let chunk = (at / CHUNK_BYTES as u64) as usize;
            at += taken as u64;
            (taken > 0).then_some((chunk, place, taken))
        })
    }

    fn chunk(&self, number: usize) -> Option<&[u8]> {
        self.chunks.get(number)?.as_deref()
    }

    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) {
        let mut at = 0;
        for (chunk, place, length) in Self::pieces(offset, bytes.len() as u64) {
            let target = &mut bytes[at..at + length];
            match self.chunk(chunk) {
                Some(chunk) => target.copy_from_slice(&chunk[place..place + length]),
                None => target.fill(0),
            }
            at += length;
        }
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut at = 0;
        for (chunk, place, length) in Self::pieces(offset, bytes.len() as u64) {
            if let Some(chunk) = self.chunks.get_mut(chunk) {
                let chunk = chunk.get_or_insert_with(|| vec![0; CHUNK_BYTES].into());
                chunk[place..place + length].copy_from_slice(&bytes[at..at + length]);
            }
            at += length;
        }
    }

    /// Zeroes a range. Whole chunks are freed unless `keep` is set.
    pub(super) fn zero(&mut self, offset: u64, length: u64, keep: bool) {
        for (chunk, place, length) in Self::pieces(offset, length) {
            let Some(slot) = self.chunks.get_mut(chunk) else { return };
            if length == CHUNK_BYTES && !keep {
                *slot = None;
            } else if keep {
                slot.get_or_insert_with(|| vec![0; CHUNK_BYTES].into())[place..place + length].fill(0);
            } else if let Some(chunk) = slot {
                chunk[place..place + length].fill(0);
            }
        }
    }

    pub(super) fn is_hole(&self, offset: u64, length: u64) -> bool {
        Self::pieces(offset, length).all(|(chunk, ..)| self.chunk(chunk).is_none())
    }

    pub(super) fn extents(&self, offset: u64, length: u64) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        for (chunk, _, length) in Self::pieces(offset, length).take(LOOKED_AT_MAX) {
            let state = if self.chunk(chunk).is_some() { 0 } else { STATE_HOLE | STATE_ZERO };
            let is_full = extents.len() == EXTENTS_MAX;
            match extents.last_mut() {
                Some(last) if last.state == state => last.length += length as u64,
                _ if is_full => break,
                _ => extents.push(Extent { length: length as u64, state }),
            }
        }
        extents
    }
}
