//! Input that can be read only once: standard input, named pipes, terminals.
//!
//! Recognising a format reads the head, and a comparison reads the whole trace once for every run. So everything that
//! comes out of a pipe is kept in memory, up to [`KEPT_BYTES_MAX`], and every further reading starts from what is kept. A
//! longer pipe is no longer kept: it can be read to its end once, by the reader in front.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::fill;

/// The most bytes of a pipe, as it comes (packed or not), that are kept for reading again.
pub(crate) const KEPT_BYTES_MAX: u64 = 256 << 20;
/// The size of the pieces that are kept.
const PIECE_BYTES: usize = 1 << 16;
/// The name of standard input on the command line.
const STANDARD_INPUT: &str = "-";

/// A stream, and what was read of it.
pub(crate) struct Pipe {
    state: Mutex<State>,
}

struct State {
    source: Source,
    /// Whole pieces, but for the last; `None` once there was more than may be kept.
    kept: Option<Vec<Bytes>>,
    read_bytes: u64,
    ended: bool,
}

enum Source {
    /// A file that is opened when the first byte is asked for: opening a named pipe waits for its writer.
    Path(PathBuf),
    Open(Box<dyn Read + Send>),
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Pipe").finish_non_exhaustive()
    }
}

/// The pipe of that path, if it is one. A pipe can be read only once in a process, so that all who name it share it.
pub(super) fn of_path(path: &Path) -> Option<Arc<Pipe>> {
    static PIPES: Mutex<BTreeMap<PathBuf, Arc<Pipe>>> = Mutex::new(BTreeMap::new());
    if !is_pipe(path) {
        return None;
    }
    let standard = is_standard_input(path) || path == Path::new("/dev/stdin");
    let key = if standard { PathBuf::from(STANDARD_INPUT) } else { path.to_path_buf() };
    let mut pipes = locked(&PIPES);
    let source = || if standard { Source::Open(Box::new(io::stdin())) } else { Source::Path(path.to_path_buf()) };
    Some(Arc::clone(pipes.entry(key).or_insert_with(|| Arc::new(Pipe::new(source())))))
}

/// Whether the path is the dash, which means standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path == Path::new(STANDARD_INPUT)
}

#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = fs::metadata(path).map(|data| data.file_type());
    is_standard_input(path) || kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device() || kind.is_socket())
}

#[cfg(not(unix))]
fn is_pipe(path: &Path) -> bool {
    is_standard_input(path)
}

/// A file to which standard input was redirected: it can be read as often as any file.
pub(super) fn redirected_file() -> Option<PathBuf> {
    let path = Path::new("/dev/stdin");
    // Elsewhere, opening this path shares the position of the file with standard input.
    (cfg!(target_os = "linux") && fs::metadata(path).is_ok_and(|data| data.is_file())).then(|| path.to_path_buf())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Readers do not panic; if one did, what was kept is whole all the same.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pipe {
    fn new(source: Source) -> Self {
        Self { state: Mutex::new(State { source, kept: Some(Vec::new()), read_bytes: 0, ended: false }) }
    }

    pub(super) fn over(stream: Box<dyn Read + Send>) -> Arc<Self> {
        Arc::new(Self::new(Source::Open(stream)))
    }

    /// From the first byte.
    pub(super) fn reader(self: &Arc<Self>) -> PipeReader {
        PipeReader { pipe: Arc::clone(self), next: 0, position_bytes: 0, piece: Bytes::new() }
    }

    /// All of it, for formats that are read from their end.
    #[cfg(feature = "parquet")]
    pub(super) fn whole(self: &Arc<Self>) -> io::Result<Bytes> {
        let mut bytes = Vec::new();
        self.reader().take(KEPT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > KEPT_BYTES_MAX {
            return Err(too_long("this format is read from its end"));
        }
        Ok(Bytes::from(bytes))
    }
}

impl State {
    /// The next piece of the stream itself; empty at its end.
    fn read_on(&mut self) -> io::Result<Bytes> {
        if let Source::Path(path) = &self.source {
            self.source = Source::Open(Box::new(File::open(path)?));
        }
        let mut piece = vec![0; PIECE_BYTES];
        let length = match &mut self.source {
            Source::Open(stream) if !self.ended => fill(&mut **stream, &mut piece)?,
            _ => 0,
        };
        piece.truncate(length);
        self.ended = length < PIECE_BYTES;
        self.read_bytes += length as u64;
        let piece = Bytes::from(piece);
        match &mut self.kept {
            Some(kept) if self.read_bytes <= KEPT_BYTES_MAX => kept.push(piece.clone()),
            _ => self.kept = None,
        }
        Ok(piece)
    }
}

fn too_long(why: &str) -> io::Error {
    let mebibytes = KEPT_BYTES_MAX >> 20;
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is a pipe of more than {mebibytes} MiB, and {why}"))
}

/// One reading of a pipe.
pub(super) struct PipeReader {
    pipe: Arc<Pipe>,
    /// The number of the next piece.
    next: usize,
    position_bytes: u64,
    /// What is left of the piece that is being read.
    piece: Bytes,
}

impl Read for PipeReader {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            let mut state = locked(&self.pipe.state);
            self.piece = if self.position_bytes == state.read_bytes {
                state.read_on()?
            } else {
                let kept = state.kept.as_ref().ok_or_else(|| too_long("it is read more than once"))?;
                kept.get(self.next).cloned().unwrap_or_default()
            };
            self.next += 1;
            self.position_bytes += self.piece.len() as u64;
        }
        let count = target.len().min(self.piece.len());
        target[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_read_as_often_as_wanted_while_it_is_kept() {
        let content: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let pipe = Pipe::over(Box::new(io::Cursor::new(content.clone())));
        let mut head = vec![0; 10_000];
        pipe.reader().read_exact(&mut head).unwrap();
        assert_eq!(head, content[..10_000]);
        for _ in 0..2 {
            let mut all = Vec::new();
            pipe.reader().read_to_end(&mut all).unwrap();
            assert!(all == content);
        }
    }

    #[test]
    fn a_longer_pipe_is_read_to_its_end_once() {
        let length = KEPT_BYTES_MAX + (1 << 20);
        let pipe = Pipe::over(Box::new(io::repeat(7).take(length)));
        let mut behind = pipe.reader();
        behind.read_exact(&mut [0; 100]).unwrap();
        assert_eq!(io::copy(&mut pipe.reader(), &mut io::sink()).unwrap(), length);
        assert_eq!(io::copy(&mut behind, &mut io::sink()).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(pipe.reader().read(&mut [0; 1]).is_err());
    }
}
