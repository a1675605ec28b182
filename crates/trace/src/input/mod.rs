//! The bytes of a trace: files, pipes and memory, unpacked as they are read.
//!
//! Compression is recognised by the first bytes, never by the file name. Whatever a compressed file claims, at most one
//! chunk of it is unpacked at a time. Compression that is known but not supported is named in the error.

mod chunks;
mod pipe;

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;

pub use chunks::Chunks;
use pipe::Pipe;
pub(crate) use pipe::is_standard_input;

use crate::{Position, TraceError};

/// The number of bytes read from a file at once.
const CHUNK_BYTES: usize = 1 << 20;
/// The number of unpacked bytes from which a format may be recognised.
pub const HEAD_BYTES: usize = 1 << 16;
/// The most memory for unpacking xz: enough for its highest level, whose dictionary is 64 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 80 << 10;
/// The length of the heading of a file in a zip archive, before its name.
const ZIP_HEADING_BYTES: usize = 30;
/// The number of bytes that identify a compression.
const MAGIC_BYTES: usize = 6;
/// Endings of file names that only name the compression.
pub(crate) const PACKED_ENDINGS: [&str; 5] = [".gz", ".zst", ".zstd", ".bz2", ".xz"];

/// One file of a trace, standard input, or bytes in memory.
#[derive(Clone, Debug)]
pub struct Input {
    name: String,
    data: Data,
}

#[derive(Clone, Debug)]
pub(crate) enum Data {
    File(PathBuf),
    Memory(Bytes),
    Pipe(Arc<Pipe>),
}

impl Input {
    /// A file, which is opened when it is read; `-` is standard input. The content of a pipe is kept so that it can be read
    /// again: up to 256 MiB in memory and up to 8 GiB in a temporary file. A longer pipe can be read only once.
    #[must_use]
    pub fn from_path(path: &Path) -> Self {
        let name = if is_standard_input(path) { "stdin".to_owned() } else { path.display().to_string() };
        let file = if is_standard_input(path) { pipe::redirected_file() } else { None };
        let data = match (file, pipe::of_path(path)) {
            (Some(file), _) => Data::File(file),
            (None, Some(pipe)) => Data::Pipe(pipe),
            (None, None) => Data::File(path.to_path_buf()),
        };
        Self { name, data }
    }

    /// Bytes in memory, with a name for errors and volumes.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), data: Data::Memory(Bytes::from(bytes)) }
    }

    /// A stream that can be read only once, such as a socket; it is kept in the same way as a pipe by [`Self::from_path`].
    pub fn from_reader(name: impl Into<String>, stream: impl Read + Send + 'static) -> Self {
        Self { name: name.into(), data: Data::Pipe(Pipe::over(Box::new(stream))) }
    }

    /// Announces that the next reading is the last, so that no more of a pipe need be kept.
    pub(crate) fn read_once(&self) {
        if let Data::Pipe(pipe) = &self.data {
            pipe.read_once();
        }
    }

    /// The name as the user gave it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of a volume that is this file: the last part of its path, without the ending of a compressor.
    pub fn volume_name(&self) -> String {
        let base = self.name.rsplit('/').next().unwrap_or(&self.name);
        let stem = PACKED_ENDINGS.iter().find_map(|ending| base.strip_suffix(ending)).unwrap_or(base);
        if stem.is_empty() { self.name.clone() } else { stem.to_owned() }
    }

    /// The data in a form that can be read from any position: a pipe is read into memory.
    #[cfg(feature = "parquet")]
    pub(crate) fn seekable(&self) -> Result<Data, TraceError> {
        match &self.data {
            Data::Pipe(pipe) => pipe.whole().map(Data::Memory).map_err(|error| self.broken(&error)),
            data => Ok(data.clone()),
        }
    }

    /// The content as it is stored, compressed or not.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn stored(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match &self.data {
            Data::File(path) => {
                if path.is_dir() {
                    return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory, not a trace"));
                }
                Box::new(File::open(path)?)
            }
            Data::Memory(bytes) => Box::new(Cursor::new(bytes.clone())),
            Data::Pipe(pipe) => Box::new(pipe.reader()),
        })
    }

    fn unpack(&self) -> io::Result<Box<dyn Read + Send>> {
        let mut magic = [0; MAGIC_BYTES];
        let length = fill(&mut self.stored()?, &mut magic)?;
        let buffered = || io::Result::Ok(BufReader::with_capacity(CHUNK_BYTES, self.stored()?));
        Ok(match packing(&magic[..length]) {
            Packing::Plain => self.stored()?,
            Packing::Gzip => Box::new(MultiGzDecoder::new(buffered()?)),
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(buffered()?)?),
            #[cfg(feature = "bzip2")]
            Packing::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(buffered()?)),
            #[cfg(not(feature = "bzip2"))]
            Packing::Bzip2 => return Err(without_feature("bzip2")),
            #[cfg(feature = "xz")]
            Packing::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(buffered()?, true, XZ_MEMORY_KIB_MAX)),
            #[cfg(not(feature = "xz"))]
            Packing::Xz => return Err(without_feature("xz")),
            Packing::Zip => return Err(io::Error::new(io::ErrorKind::Unsupported, self.zip_archive()?)),
            Packing::Unread(name) => {
                let problem = format!("it is packed with {name}, which is not unpacked here");
                return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
            }
        })
    }

    /// The kind of a zip archive: each file in it has a heading with flags, whose lowest bit says that it is encrypted.
    fn zip_archive(&self) -> io::Result<String> {
        let mut head = vec![0; HEAD_BYTES];
        let length = fill(&mut self.stored()?, &mut head)?;
        let starts = memchr::memmem::find_iter(&head[..length], b"PK\x03\x04");
        let files: Vec<&[u8]> = starts.map(|at| &head[at..length]).collect();
        let Some(first) = files.first() else { return Ok("it is an empty zip archive".to_owned()) };
        let name = first.get(26..ZIP_HEADING_BYTES).and_then(|sizes| {
            first.get(ZIP_HEADING_BYTES..ZIP_HEADING_BYTES + usize::from(sizes[0]) + (usize::from(sizes[1]) << 8))
        });
        let name = name.map_or_else(String::new, |name| format!("; its first file is `{}`", name.escape_ascii()));
        let is_encrypted = files.iter().any(|file| file.get(6).is_some_and(|flags| flags & 1 == 1));
        let kind =
            if is_encrypted { "an encrypted zip archive" } else { "packed with zip, which is not unpacked here" };
        Ok(format!("it is {kind}{name}"))
    }

    /// The unpacked content from its beginning.
    ///
    /// # Errors
    /// If the file cannot be opened or unpacked.
    pub fn open(&self) -> Result<Chunks, TraceError> {
        if let Data::Memory(bytes) = &self.data
            && matches!(packing(&bytes[..bytes.len().min(MAGIC_BYTES)]), Packing::Plain)
        {
            return Ok(Chunks::of_bytes(bytes.clone()));
        }
        self.unpack().map(Chunks::new).map_err(|error| self.broken(&error))
    }

    /// The first [`HEAD_BYTES`] of the unpacked content, or all if it is shorter.
    ///
    /// # Errors
    /// If the file cannot be read or unpacked.
    pub fn head(&self) -> Result<Vec<u8>, TraceError> {
        let mut head = vec![0; HEAD_BYTES];
        let mut stream = self.unpack().map_err(|error| self.broken(&error))?;
        let length = fill(&mut stream, &mut head).map_err(|error| {
            let broken = self.broken(&error);
            // The bytes that were unpacked before the end show a tar archive.
            let is_tar = broken.problem == CUT_SHORT && head[257..262] == *b"ustar";
            if is_tar { TraceError { problem: format!("is a tar archive and {CUT_SHORT}"), ..broken } } else { broken }
        })?;
        head.truncate(length);
        Ok(head)
    }

    pub(crate) fn broken(&self, error: &io::Error) -> TraceError {
        unreadable(&self.name, Position::File, error)
    }
}

#[cfg(not(all(feature = "bzip2", feature = "xz")))]
fn without_feature(name: &str) -> io::Error {
    let problem = format!("it is packed with {name}, and this build of ioweir-trace lacks the feature `{name}`");
    io::Error::new(io::ErrorKind::Unsupported, problem)
}

/// The problem of a packed file that ends too early.
const CUT_SHORT: &str = "is cut short: the packed data end too early";

/// The error for a file that cannot be read or unpacked.
#[cold]
pub fn unreadable(file: &str, position: Position, error: &io::Error) -> TraceError {
    if error.kind() == io::ErrorKind::OutOfMemory {
        let mebibytes = XZ_MEMORY_KIB_MAX >> 10;
        return TraceError::new(file, position, format!("unpacking it takes more than {mebibytes} MiB of memory"))
            .hint("unpack it first, or pack it with a dictionary of at most 64 MiB, as `xz -9` does");
    }
    let failure = TraceError::new(file, position, format!("cannot be read: {}", ioweir_config::plain(error)));
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory => failure,
        io::ErrorKind::FileTooLarge => failure.hint("write it to a file first"),
        io::ErrorKind::Unsupported => failure.hint("unpack it first, or fetch it again if it should hold a trace"),
        // A file that the system refuses to read is not damaged.
        _ if error.raw_os_error().is_some() => failure,
        io::ErrorKind::UnexpectedEof => TraceError { problem: CUT_SHORT.to_owned(), ..failure }
            .expected("the whole of the packed file")
            .hint("fetch or pack it again; `zcat`, `zstdcat` or `xzcat FILE > PART` unpacks what is there"),
        _ => failure
            .hint("if the file is compressed it may be cut short or damaged: test it with `gzip -t` or `zstd -t`"),
    }
}

enum Packing {
    Plain,
    Gzip,
    Zstd,
    Bzip2,
    Xz,
    Zip,
    Unread(&'static str),
}

fn packing(magic: &[u8]) -> Packing {
    match magic {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        // A frame of data, or a skippable frame before it.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => Packing::Bzip2,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::Xz,
        [0x04, 0x22, 0x4d, 0x18, ..] => Packing::Unread("lz4"),
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Packing::Zip,
        [b'R', b'a', b'r', b'!', ..] => Packing::Unread("rar"),
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
