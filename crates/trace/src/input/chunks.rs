//! A window of bytes over a stream, so that a parser works on slices and copies nothing.

use std::io::{self, Read};

use bytes::Bytes;

use super::{CHUNK_BYTES, fill};

/// A stream and the window over it.
pub struct Chunks {
    stream: Box<dyn Read + Send>,
    held: Held,
    start: usize,
    end: usize,
    offset_bytes: u64,
    ended: bool,
}

/// The source of the window.
enum Held {
    /// A part of the stream.
    Part(Vec<u8>),
    /// The whole stream, which was in memory before.
    All(Bytes),
}

impl Chunks {
    pub(super) fn new(stream: Box<dyn Read + Send>) -> Self {
        Self { stream, held: Held::Part(Vec::new()), start: 0, end: 0, offset_bytes: 0, ended: false }
    }

    /// Makes a window over bytes in memory, which are not copied.
    pub(super) fn of_bytes(bytes: Bytes) -> Self {
        let (stream, end) = (Box::new(io::empty()), bytes.len());
        Self { stream, held: Held::All(bytes), start: 0, end, offset_bytes: 0, ended: true }
    }

    /// The bytes that were read and have not been consumed.
    #[must_use]
    pub fn available(&self) -> &[u8] {
        match &self.held {
            Held::Part(bytes) => &bytes[self.start..self.end],
            Held::All(bytes) => &bytes[self.start..self.end],
        }
    }

    /// The position of [`Self::available`] in the stream.
    pub(crate) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Moves the start of the window.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset_bytes += count as u64;
    }

    /// Reads more after the available bytes; `false` at the end of the stream. The caller must have consumed all but the
    /// last, incomplete unit: a window that is full with one unit counts as the end, too.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub fn more(&mut self) -> io::Result<bool> {
        let Held::Part(bytes) = &mut self.held else { return Ok(false) };
        if self.ended {
            return Ok(false);
        }
        // The rest of an incomplete unit moves to the front: less than a unit for each chunk.
        bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        bytes.resize(CHUNK_BYTES, 0);
        let count = fill(&mut *self.stream, &mut bytes[self.end..])?;
        self.end += count;
        self.ended = count == 0;
        Ok(count > 0)
    }

    /// Reads until at least `count` bytes are available; `false` if the stream ends before that.
    pub(crate) fn need(&mut self, count: usize) -> io::Result<bool> {
        while self.end - self.start < count {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
