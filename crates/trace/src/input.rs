//! Where do the bytes of a trace come from, and how are they unpacked?
//!
//! Compression is recognised by the first bytes, never by the file name. Whatever the compressed file claims, at most one
//! chunk of it is unpacked at a time. Packings that are known but not read are named in the error.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;

use crate::{Position, TraceError};

/// How much is read from a file at once.
const CHUNK_BYTES: usize = 1 << 20;
/// How much of the unpacked content a format may look at to recognise itself.
pub const HEAD_BYTES: usize = 1 << 16;
/// What unpacking xz may hold: enough for its highest level, whose dictionary is 64 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 80 << 10;
/// Endings of file names that only say how the content is packed.
pub(crate) const PACKED_ENDINGS: [&str; 5] = [".gz", ".zst", ".zstd", ".bz2", ".xz"];

/// One file of a trace, or the same in memory.
#[derive(Clone, Debug)]
pub struct Input {
    name: String,
    data: Data,
}

#[derive(Clone, Debug)]
pub(crate) enum Data {
    File(PathBuf),
    Memory(Bytes),
}

impl Input {
    /// A file; it is opened when it is read.
    #[must_use]
    pub fn from_path(path: &Path) -> Self {
        Self { name: path.display().to_string(), data: Data::File(path.to_path_buf()) }
    }

    /// Bytes in memory, under a name for errors and volumes.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), data: Data::Memory(Bytes::from(bytes)) }
    }

    /// The name as the user gave it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a volume of this file is called: the last part of its name without the ending of a compressor.
    pub fn volume_name(&self) -> String {
        let base = self.name.rsplit('/').next().unwrap_or(&self.name);
        let stem = PACKED_ENDINGS.iter().find_map(|ending| base.strip_suffix(ending)).unwrap_or(base);
        if stem.is_empty() { self.name.clone() } else { stem.to_owned() }
    }

    pub(crate) fn data(&self) -> &Data {
        &self.data
    }

    fn raw(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match &self.data {
            Data::File(path) => {
                if path.is_dir() {
                    return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory, not a trace"));
                }
                Box::new(File::open(path)?)
            }
            Data::Memory(bytes) => Box::new(Cursor::new(bytes.clone())),
        })
    }

    fn unpack(&self) -> io::Result<Box<dyn Read + Send>> {
        let mut magic = [0; 6];
        let length = fill(&mut self.raw()?, &mut magic)?;
        let buffered = || io::Result::Ok(BufReader::with_capacity(CHUNK_BYTES, self.raw()?));
        Ok(match packing(&magic[..length]) {
            Packing::Plain => self.raw()?,
            Packing::Gzip => Box::new(MultiGzDecoder::new(buffered()?)),
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(buffered()?)?),
            Packing::Bzip2 => Box::new(MultiBzDecoder::new(buffered()?)),
            Packing::Xz => Box::new(XzReader::new_mem_limit(buffered()?, true, XZ_MEMORY_KIB_MAX)),
            Packing::Unread(name) => {
                let problem = format!("it is packed with {name}, which is not unpacked here");
                return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
            }
        })
    }

    /// The unpacked content from its start.
    ///
    /// # Errors
    /// [`TraceError`] where the file cannot be opened or unpacked.
    pub fn open(&self) -> Result<Chunks, TraceError> {
        let stream = self.unpack().map_err(|error| self.broken(&error))?;
        Ok(Chunks { stream, bytes: Vec::new(), start: 0, end: 0, offset_bytes: 0, ended: false })
    }

    /// The first [`HEAD_BYTES`] of the unpacked content, fewer where it is shorter.
    ///
    /// # Errors
    /// [`TraceError`] where the file cannot be read or unpacked.
    pub fn head(&self) -> Result<Vec<u8>, TraceError> {
        let mut head = vec![0; HEAD_BYTES];
        let mut stream = self.unpack().map_err(|error| self.broken(&error))?;
        let length = fill(&mut stream, &mut head).map_err(|error| self.broken(&error))?;
        head.truncate(length);
        Ok(head)
    }

    pub(crate) fn broken(&self, error: &io::Error) -> TraceError {
        unreadable(&self.name, Position::File, error)
    }
}

/// An error of the file or of its compression.
#[cold]
pub fn unreadable(file: &str, position: Position, error: &io::Error) -> TraceError {
    if error.kind() == io::ErrorKind::OutOfMemory {
        let mebibytes = XZ_MEMORY_KIB_MAX >> 10;
        return TraceError::new(file, position, format!("unpacking it takes more than {mebibytes} MiB of memory"))
            .hint("unpack it first, or pack it with a dictionary of at most 64 MiB, as `xz -9` does");
    }
    let told = TraceError::new(file, position, format!("cannot be read: {error}"));
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory => told,
        io::ErrorKind::Unsupported => told.hint("unpack it first; gzip, zstd, bzip2 and xz are read as they are"),
        _ => told.hint("if the file is compressed it may be cut short or damaged: test it with `gzip -t` or `zstd -t`"),
    }
}

enum Packing {
    Plain,
    Gzip,
    Zstd,
    Bzip2,
    Xz,
    Unread(&'static str),
}

fn packing(magic: &[u8]) -> Packing {
    match magic {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        // A frame of data, or a frame to be skipped that stands before it.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41] => Packing::Bzip2,
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Packing::Xz,
        [0x04, 0x22, 0x4d, 0x18, ..] => Packing::Unread("lz4"),
        [b'P', b'K', 3, 4, ..] => Packing::Unread("zip"),
        [b'7', b'z', 0xbc, 0xaf, ..] => Packing::Unread("7z"),
        [0x1f, 0x9d, ..] => Packing::Unread("compress"),
        _ => Packing::Plain,
    }
}

/// Reads until `target` is full or the stream ends.
fn fill(stream: &mut dyn Read, target: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < target.len() {
        match stream.read(&mut target[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// A stream as a window of bytes that moves over it, so that a parser works on slices and copies nothing.
pub struct Chunks {
    stream: Box<dyn Read + Send>,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    offset_bytes: u64,
    ended: bool,
}

impl Chunks {
    /// What has been read and not consumed.
    #[must_use]
    pub fn available(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Where [`Self::available`] starts in the stream.
    pub(crate) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Moves the start of the window.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset_bytes += count as u64;
    }

    /// Reads more behind what is available; `false` at the end of the stream. The caller must have consumed all but the
    /// last, incomplete unit: a window already full of one unit is the end as well.
    ///
    /// # Errors
    /// [`io::Error`] where the stream cannot be read.
    pub fn more(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        // What is left of an incomplete unit moves to the front: less than a unit a chunk.
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        self.bytes.resize(CHUNK_BYTES, 0);
        let count = fill(&mut *self.stream, &mut self.bytes[self.end..])?;
        self.end += count;
        self.ended = count == 0;
        Ok(count > 0)
    }

    /// Reads until at least `count` bytes are available; `false` where the stream ends before.
    pub(crate) fn need(&mut self, count: usize) -> io::Result<bool> {
        while self.end - self.start < count {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
