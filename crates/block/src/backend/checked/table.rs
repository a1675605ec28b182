//! The table of known checksums by block.
//!
//! Each block of 4 KiB takes four bytes, and a bit that says whether they are known, in chunks for 4 MiB that are allocated
//! with their first known block: about 1 MiB of memory for each GiB that was written.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::ops::Range;

use crate::buffer::ALIGNMENT_BYTES;

/// The length of a block. The last block of a device may be shorter.
pub const BLOCK_BYTES: u64 = ALIGNMENT_BYTES as u64;

const CHUNK_BLOCKS: u64 = 1024;
const WORD_BITS: u64 = 64;
const WORDS: usize = (CHUNK_BLOCKS / WORD_BITS) as usize;

/// A chunk in a file: its number, its bits, its checksums.
const RECORD_BYTES: usize = 8 + WORDS * 8 + CHUNK_BLOCKS as usize * 4;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Chunk {
    known: [u64; WORDS],
    /// The checksums; zero for a block whose checksum is unknown.
    sums: [u32; CHUNK_BLOCKS as usize],
}

impl Chunk {
    const EMPTY: Self = Self { known: [0; WORDS], sums: [0; CHUNK_BLOCKS as usize] };

    const fn knows(&self, at: u64) -> bool {
        self.known[(at / WORD_BITS) as usize] >> (at % WORD_BITS) & 1 == 1
    }

    fn set(&mut self, at: u64, sum: Option<u32>) {
        let (word, bit) = ((at / WORD_BITS) as usize, 1 << (at % WORD_BITS));
        if sum.is_some() {
            self.known[word] |= bit
        } else {
            self.known[word] &= !bit
        }
        self.sums[at as usize] = sum.unwrap_or(0);
    }

    fn count(&self) -> u64 {
        self.known.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// The checksums of a device, by block number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    size_bytes: u64,
    known: u64,
    chunks: BTreeMap<u64, Box<Chunk>>,
}

impl Table {
    /// A table without checksums, for a device of this size.
    #[must_use]
    pub const fn new(size_bytes: u64) -> Self {
        Self { size_bytes, known: 0, chunks: BTreeMap::new() }
    }

    /// The number of blocks of the device.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.size_bytes.div_ceil(BLOCK_BYTES)
    }

    /// Makes the device longer; the checksums of the added range are unknown.
    pub(super) const fn grow(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
    }

    /// The end of a block.
    #[must_use]
    pub fn end_of(&self, block: u64) -> u64 {
        ((block + 1) * BLOCK_BYTES).min(self.size_bytes)
    }

    /// The checksum of a block, if it is known.
    #[must_use]
    pub fn get(&self, block: u64) -> Option<u32> {
        let chunk = self.chunks.get(&(block / CHUNK_BLOCKS))?;
        let at = block % CHUNK_BLOCKS;
        chunk.knows(at).then(|| chunk.sums[at as usize])
    }

    /// The number of blocks whose checksum is known.
    #[must_use]
    pub const fn known(&self) -> u64 {
        self.known
    }

    /// Whether the checksum of any block of a range is known.
    #[must_use]
    pub fn knows_any(&self, blocks: Range<u64>) -> bool {
        pieces(blocks).any(|(number, range)| {
            self.chunks.get(&number).is_some_and(|chunk| range.clone().any(|at| chunk.knows(at)))
        })
    }

    /// The next blocks in a row, at or after one, whose checksums are known: not beyond their chunk.
    #[must_use]
    pub fn next_known(&self, from: u64) -> Option<Range<u64>> {
        self.chunks.range(from / CHUNK_BLOCKS..).find_map(|(number, chunk)| {
            let base = number * CHUNK_BLOCKS;
            let start = (from.saturating_sub(base)..CHUNK_BLOCKS).find(|&at| chunk.knows(at))?;
            let end = (start..CHUNK_BLOCKS).find(|&at| !chunk.knows(at)).unwrap_or(CHUNK_BLOCKS);
            Some(base + start..base + end)
        })
    }

    /// Sets the checksums of blocks; those past the end of the device have none.
    pub fn set(&mut self, blocks: Range<u64>, mut sum: impl FnMut(u64) -> u32) {
        for (number, range) in pieces(blocks.start..blocks.end.min(self.blocks())) {
            let chunk = self.chunks.entry(number).or_insert_with(|| Box::new(Chunk::EMPTY));
            self.known -= chunk.count();
            for at in range {
                chunk.set(at, Some(sum(number * CHUNK_BLOCKS + at)));
            }
            self.known += chunk.count();
        }
    }

    /// Forgets the checksums of blocks.
    pub fn forget(&mut self, blocks: Range<u64>) {
        for (number, range) in pieces(blocks) {
            let Some(chunk) = self.chunks.get_mut(&number) else { continue };
            self.known -= chunk.count();
            range.for_each(|at| chunk.set(at, None));
            let count = chunk.count();
            self.known += count;
            if count == 0 {
                self.chunks.remove(&number);
            }
        }
    }

    /// Writes the chunks, in the order of their numbers.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&(self.chunks.len() as u64).to_le_bytes())?;
        for (number, chunk) in &self.chunks {
            let mut record = Vec::with_capacity(RECORD_BYTES);
            record.extend(number.to_le_bytes());
            record.extend(chunk.known.iter().flat_map(|word| word.to_le_bytes()));
            record.extend(chunk.sums.iter().flat_map(|sum| sum.to_le_bytes()));
            out.write_all(&record)?;
        }
        Ok(())
    }

    /// Reads the output of [`Table::write`] for a device of this size. Memory is bounded by the length of the input and by
    /// the size of the device.
    pub(super) fn read(size_bytes: u64, input: &mut impl Read) -> io::Result<Self> {
        let mut table = Self::new(size_bytes);
        let chunks_max = table.blocks().div_ceil(CHUNK_BLOCKS);
        let count = read_u64(input)?;
        let mut next = 0;
        let mut record = [0; RECORD_BYTES];
        for _ in 0..count {
            input.read_exact(&mut record)?;
            let (number, rest) = record.split_at(8);
            let (known, sums) = rest.split_at(WORDS * 8);
            let number = u64::from_le_bytes(number.try_into().unwrap_or_default());
            if number < next || number >= chunks_max {
                return Err(damaged("it has blocks past the end of the device, or twice the same"));
            }
            next = number + 1;
            let mut chunk = Box::new(Chunk::EMPTY);
            for (word, bytes) in chunk.known.iter_mut().zip(known.chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            }
            for (sum, bytes) in chunk.sums.iter_mut().zip(sums.chunks_exact(4)) {
                *sum = u32::from_le_bytes(bytes.try_into().unwrap_or_default());
            }
            let here = table.blocks() - number * CHUNK_BLOCKS;
            let beyond = (here.min(CHUNK_BLOCKS)..CHUNK_BLOCKS).any(|at| chunk.knows(at));
            let unknown = (0..CHUNK_BLOCKS).any(|at| !chunk.knows(at) && chunk.sums[at as usize] != 0);
            if beyond || unknown || chunk.count() == 0 {
                return Err(damaged("it has checksums of blocks past the end of the device"));
            }
            table.known += chunk.count();
            table.chunks.insert(number, chunk);
        }
        Ok(table)
    }
}

/// The chunks of a range, with the indices in each.
fn pieces(blocks: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
    let mut at = blocks.start;
    std::iter::from_fn(move || {
        let (number, from) = (at / CHUNK_BLOCKS, at % CHUNK_BLOCKS);
        let count = (CHUNK_BLOCKS - from).min(blocks.end.saturating_sub(at));
        at += count;
        (count > 0).then_some((number, from..from + count))
    })
}

pub(super) fn read_u64(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

pub(super) fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
