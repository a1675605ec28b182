//! Checks that the metadata at the end of a Parquet file can be read in finite time.
//!
//! The Parquet library trusts the lengths of lists that it skips: 330 bytes that claim lists of 2^31 booleans, which take no
//! bytes, keep it busy for seconds each. So this module first walks the structure (Thrift's compact encoding), in time
//! linear in its length; its meaning is left to the library.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use crate::input::Data;

const MAGIC: &[u8; 4] = b"PAR1";
/// The length of the metadata and the magic number.
const TAIL_BYTES: u64 = 8;
/// The metadata holds the names: a million of 256 bytes fit.
const METADATA_BYTES_MAX: u64 = 512 << 20;
const DEPTH_MAX: u32 = 32;

/// Checks that the metadata exists and is finite.
pub(crate) fn check(data: &Data) -> io::Result<Result<(), String>> {
    match data {
        Data::Memory(bytes) => check_stream(&mut io::Cursor::new(bytes)),
        Data::File(path) => check_stream(&mut File::open(path)?),
        Data::Pipe(_) => Err(io::ErrorKind::NotSeekable.into()),
    }
}

fn check_stream<S: Read + Seek>(stream: &mut S) -> io::Result<Result<(), String>> {
    let size = stream.seek(SeekFrom::End(0))?;
    let Some(tail_start) = size.checked_sub(TAIL_BYTES).filter(|start| *start >= MAGIC.len() as u64) else {
        return Ok(Err(format!("{size} bytes are too few")));
    };
    let mut tail = [0; 8];
    stream.seek(SeekFrom::Start(tail_start))?;
    stream.read_exact(&mut tail)?;
    let [a, b, c, d, magic @ ..] = tail;
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    if magic != *MAGIC {
        return Ok(Err("the file does not end with its magic number".to_owned()));
    }
    let Some(start) = tail_start.checked_sub(length).filter(|_| length <= METADATA_BYTES_MAX) else {
        return Ok(Err(format!("the metadata claims {length} bytes")));
    };
    stream.seek(SeekFrom::Start(start))?;
    let mut metadata = Vec::new();
    stream.take(length).read_to_end(&mut metadata)?;
    let walked = Walk { rest: &metadata }.fields(DEPTH_MAX);
    Ok(walked.ok_or_else(|| "the metadata contradicts itself".to_owned()))
}

struct Walk<'a> {
    rest: &'a [u8],
}

impl Walk<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn skip(&mut self, count: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn fields(&mut self, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            if head >> 4 == 0 {
                self.number()?;
            }
            // The value of a boolean field is in its header.
            if !matches!(head & 15, 1 | 2) {
                self.value(head & 15, depth)?;
            }
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            3 => self.skip(1),
            4..=6 => self.number().map(|_| ()),
            7 => self.skip(8),
            8 => {
                let length = self.number()?;
                self.skip(length)
            }
            9 | 10 => self.list(depth.checked_sub(1)?),
            12 => self.fields(depth),
            // Maps and other types do not occur, and the length of a list of booleans cannot be trusted: it takes no bytes.
            _ => None,
        }
    }

    fn list(&mut self, depth: u32) -> Option<()> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.number()? } else { u64::from(head >> 4) };
        // Every element takes at least one byte, so this ends with the input.
        (0..count).try_for_each(|_| self.value(head & 15, depth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_claiming_too_much_are_refused() {
        // Lists of 2^31 - 1 booleans and of as many bytes are refused; a list of one byte is accepted.
        for (kind, accepted) in [(1, false), (3, false)] {
            let bytes = [0x19, 0xf0 | kind, 0xff, 0xff, 0xff, 0xff, 0x07, 0];
            assert_eq!(Walk { rest: &bytes }.fields(DEPTH_MAX).is_some(), accepted);
        }
        assert!(Walk { rest: &[0x19, 0x13, 9, 0] }.fields(DEPTH_MAX).is_some());
    }

    #[test]
    fn nesting_has_an_end() {
        assert!(Walk { rest: &[0x1c; 100] }.fields(DEPTH_MAX).is_none());
    }
}
