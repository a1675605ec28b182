//! Pipes: input that can be read only once, such as standard input, named pipes and terminals.
//!
//! Recognising a format reads the head, and a comparison reads the whole trace once for every run. So the bytes of a pipe
//! are kept, first in memory and then in a temporary file, and every further reading starts from the kept bytes. If a pipe
//! is too long even for that, or is known to be read once, only the first reader gets all of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::fill;

/// The most bytes of a pipe, compressed or not, that are kept in memory.
pub(crate) const MEMORY_BYTES_MAX: u64 = 256 << 20;
/// The most bytes of a pipe that are kept at all; those that do not fit in memory are in a temporary file.
pub(crate) const KEPT_BYTES_MAX: u64 = 8 << 30;
/// The size of the pieces that are kept.
const PIECE_BYTES: usize = 1 << 16;
/// The bytes kept of a pipe that is read once: compression and format are recognised from them.
const HEAD_BYTES_MAX: u64 = 4 * PIECE_BYTES as u64;
/// The name of standard input on the command line.
const STANDARD_INPUT: &str = "-";

/// A pipe, with the bytes that were read from it.
pub(crate) struct Pipe {
    state: Mutex<State>,
}

struct State {
    source: Source,
    memory_bytes_max: u64,
    kept_bytes_max: u64,
    once: bool,
    /// Whole pieces, except the last.
    kept: Vec<Bytes>,
    /// The file with the bytes beyond those in memory.
    file: Option<File>,
    /// Why not all of it is kept, if that is so.
    lost: Option<String>,
    read_bytes: u64,
    ended: bool,
}

enum Source {
    /// A file that is opened when the first byte is needed: opening a named pipe waits for its writer.
    Path(PathBuf),
    Open(Box<dyn Read + Send>),
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Pipe").finish_non_exhaustive()
    }
}

/// The pipe at a path, if it is one. A process can read a pipe only once, so all inputs that name it share it.
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

/// Whether the path is `-`, standard input.
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

/// The file that standard input was redirected from: it can be read as often as any file.
pub(super) fn redirected_file() -> Option<PathBuf> {
    let path = Path::new("/dev/stdin");
    // On other systems, opening this path shares the position of the file with standard input.
    (cfg!(target_os = "linux") && fs::metadata(path).is_ok_and(|data| data.is_file())).then(|| path.to_path_buf())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Readers do not panic; even if one did, the kept bytes would be intact.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pipe {
    fn new(source: Source) -> Self {
        Self::keeping(source, MEMORY_BYTES_MAX, KEPT_BYTES_MAX)
    }

    fn keeping(source: Source, memory_bytes_max: u64, kept_bytes_max: u64) -> Self {
        let (once, kept, file, lost) = (false, Vec::new(), None, None);
        let state =
            State { source, memory_bytes_max, kept_bytes_max, once, kept, file, lost, read_bytes: 0, ended: false };
        Self { state: Mutex::new(state) }
    }

    pub(super) fn over(stream: Box<dyn Read + Send>) -> Arc<Self> {
        Arc::new(Self::new(Source::Open(stream)))
    }

    /// A reader from the first byte.
    pub(super) fn reader(self: &Arc<Self>) -> PipeReader {
        PipeReader { pipe: Arc::clone(self), next: 0, position_bytes: 0, piece: Bytes::new() }
    }

    /// Keeps no more than the head: the next reader reads the pipe to its end, once.
    pub(super) fn read_once(&self) {
        locked(&self.state).once = true;
    }

    /// The whole content, for formats that are read from their end.
    #[cfg(feature = "parquet")]
    pub(super) fn whole(self: &Arc<Self>) -> io::Result<Bytes> {
        let mut bytes = Vec::new();
        self.reader().take(MEMORY_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MEMORY_BYTES_MAX {
            let mebibytes = MEMORY_BYTES_MAX >> 20;
            return Err(too_long(&format!(
                "a pipe of more than {mebibytes} MiB, and this format is read from its end"
            )));
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
        if self.lost.is_none()
            && let Err(why) = self.keep(&piece)
        {
            // A pipe that cannot be read again as a whole is not worth its memory.
            (self.lost, self.kept, self.file) = (Some(why), Vec::new(), None);
        }
        Ok(piece)
    }

    /// Keeps a piece for later readings; the error says why it cannot be kept.
    fn keep(&mut self, piece: &Bytes) -> Result<(), String> {
        if self.once && self.read_bytes > HEAD_BYTES_MAX {
            return Err("it was to be read once".to_owned());
        }
        if self.read_bytes > self.kept_bytes_max {
            return Err(format!("it is longer than the {} GiB that are kept of a pipe", self.kept_bytes_max >> 30));
        }
        if self.read_bytes <= self.memory_bytes_max {
            self.kept.push(piece.clone());
            return Ok(());
        }
        let file = match self.file.take() {
            Some(file) => Ok(file),
            None => tempfile::tempfile(),
        };
        let written =
            file.and_then(|mut file| file.seek(SeekFrom::End(0)).and_then(|_| file.write_all(piece)).map(|()| file));
        let folder = std::env::temp_dir();
        self.file = Some(written.map_err(|error| format!("{} has no room to keep it: {error}", folder.display()))?);
        Ok(())
    }

    /// Reads piece `number`, which is at `position_bytes`, once more.
    fn read_again(&mut self, number: usize, position_bytes: u64) -> io::Result<Bytes> {
        if let Some(why) = &self.lost {
            return Err(too_long(&format!("a pipe that is read more than once, and {why}")));
        }
        if let Some(piece) = self.kept.get(number) {
            return Ok(piece.clone());
        }
        let memory_bytes = self.kept.len() as u64 * PIECE_BYTES as u64;
        let length = usize::try_from(self.read_bytes - position_bytes).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let mut piece = vec![0; length];
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(position_bytes - memory_bytes))?;
            file.read_exact(&mut piece)?;
        }
        Ok(Bytes::from(piece))
    }
}

fn too_long(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is {what}"))
}

/// One reading of a pipe.
pub(super) struct PipeReader {
    pipe: Arc<Pipe>,
    /// The number of the next piece.
    next: usize,
    position_bytes: u64,
    /// The rest of the piece that is being read.
    piece: Bytes,
}

impl Read for PipeReader {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            let mut state = locked(&self.pipe.state);
            self.piece = match self.position_bytes == state.read_bytes {
                true => state.read_on()?,
                false => state.read_again(self.next, self.position_bytes)?,
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
    fn kept_pipe_is_read_repeatedly() {
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
    fn pipe_overflows_memory_into_a_file() {
        let content: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let source = Source::Open(Box::new(io::Cursor::new(content.clone())));
        let pipe = Arc::new(Pipe::keeping(source, 3 * PIECE_BYTES as u64, 1 << 30));
        let mut behind = pipe.reader();
        behind.read_exact(&mut [0; 100]).unwrap();
        for _ in 0..2 {
            let mut all = Vec::new();
            pipe.reader().read_to_end(&mut all).unwrap();
            assert!(all == content);
        }
        assert_eq!(locked(&pipe.state).kept.len(), 3);
        let mut rest = Vec::new();
        behind.read_to_end(&mut rest).unwrap();
        assert!(rest == content[100..]);
    }

    #[test]
    fn long_pipe_is_read_to_end_once() {
        let length = 10 * PIECE_BYTES as u64;
        for once in [false, true] {
            let source = Source::Open(Box::new(io::repeat(7).take(length)));
            let pipe = Arc::new(Pipe::keeping(source, PIECE_BYTES as u64, length - 1));
            let mut behind = pipe.reader();
            behind.read_exact(&mut [0; 100]).unwrap();
            if once {
                pipe.read_once();
            }
            assert_eq!(io::copy(&mut pipe.reader(), &mut io::sink()).unwrap(), length);
            assert_eq!(io::copy(&mut behind, &mut io::sink()).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
            assert!(pipe.reader().read(&mut [0; 1]).is_err());
        }
    }
}
