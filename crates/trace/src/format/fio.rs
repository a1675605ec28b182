//! Reads the I/O logs that fio writes and replays, versions 1, 2 and 3.

use ioweir_core::{Nanos, Operation};

use super::one_file;
use crate::reader::RawSource;
use crate::reader::names::Volumes;
use crate::reader::number::{Fault, Faulty, byte_extent, digits, field, quote, scaled, scan, scan_to};
use crate::reader::units::Decoder;
use crate::{Completeness, Format, Input, Names, ReadOptions, Record, TraceError};

const MICROSECOND_NANOS: u64 = 1_000;
/// Actions on a file that are no requests; the last four are those of the engines for files, with an offset and a length.
const FILE_ACTIONS: [&[u8]; 7] = [b"add", b"open", b"close", b"unlink", b"stat", b"mkdir", b"rmdir"];
/// The shortest wait that fio itself keeps.
const WAIT_MICROSECONDS_MIN: u64 = 100;

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "fio-iolog",
    title: "fio I/O log, versions 1, 2 and 3",
    doc: include_str!("docs/fio-iolog.md"),
    detect,
    open,
    write: Some(crate::writer::fio::WRITER),
    ..Format::UNSAID
};

fn detect(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    head.starts_with(b"fio version ") || version_1(line.strip_suffix(b"\r").unwrap_or(line)).is_ok()
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    one_file(inputs, &FORMAT, options, options.order(FORMAT.window_records), |input| {
        let (volume_name, volumes) = (input.volume_name(), Volumes::default());
        (Lines { version: None, now_micros: 0, volume_name, volumes, passed_over: 0 }, Names::default())
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
    Three,
}

struct Lines {
    version: Option<Version>,
    now_micros: u64,
    volume_name: String,
    volumes: Volumes,
    passed_over: u64,
}

impl Decoder for Lines {
    #[inline]
    fn unit(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let version = match self.version {
            Some(version) => version,
            None => match first_line(line)? {
                Version::One => *self.version.insert(Version::One),
                version => {
                    self.version = Some(version);
                    return Ok(None);
                }
            },
        };
        if version == Version::Three
            && let Some(record) = self.fast(line)
        {
            return Ok(Some(record));
        }
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        match version {
            Version::One => {
                let (operation, offset, length) = version_1(line)?;
                let action = Action { file: b"", operation, offset, length };
                self.request(&action, names).map(Some)
            }
            Version::Two => self.action(line, 0, names),
            Version::Three => {
                let start = line.iter().position(|&byte| byte != b' ').unwrap_or(0);
                let end = start + line[start..].iter().position(|&byte| byte == b' ').unwrap_or(line.len() - start);
                self.now_micros = field(line, start, end, "time")?;
                self.action(line, (end + 1).min(line.len()), names)
            }
        }
    }

    fn completeness(&self) -> Completeness {
        Completeness { lines_passed_over: self.passed_over, ..Completeness::default() }
    }
}

struct Action<'a> {
    file: &'a [u8],
    operation: Operation,
    offset: u64,
    length: u64,
}

impl Lines {
    /// Reads, in one pass, a request of version 3 to the same file as the previous one; `None` for anything else.
    #[inline]
    fn fast(&mut self, line: &[u8]) -> Option<Record> {
        let mut at = 0;
        let micros = scan_to(line, &mut at, b' ')?;
        let (volume, length) = self.volumes.again(&line[at..], b' ')?;
        at += length;
        let (operation, length) = match line.get(at..)? {
            [b'r', b'e', b'a', b'd', b' ', ..] => (Operation::Read, 5),
            [b'w', b'r', b'i', b't', b'e', b' ', ..] => (Operation::Write, 6),
            _ => return None,
        };
        at += length;
        let offset_bytes = scan_to(line, &mut at, b' ')?;
        let (length_bytes, _) = scan(line, &mut at)?;
        let extent = (offset_bytes, length_bytes);
        offset_bytes.checked_add(length_bytes)?;
        let time = Nanos(micros.checked_mul(MICROSECOND_NANOS)?);
        if at != line.len() {
            return None;
        }
        self.now_micros = micros;
        Some(Record::plain(time, extent, operation, volume))
    }

    /// Reads `file action [offset length]`, from `start`. The file's name may contain spaces, so the line is read from its
    /// end.
    fn action(&mut self, line: &[u8], start: usize, names: &mut Names) -> Faulty<Option<Record>> {
        let (last_start, last_end) = last_word(line, start, line.len());
        let last = &line[last_start..last_end];
        if FILE_ACTIONS.contains(&last) {
            return Ok(None);
        }
        if let Some(operation @ Operation::Flush) = operation(last) {
            let file = line[start..last_start].trim_ascii();
            return self.request(&Action { file, operation, offset: 0, length: 0 }, names).map(Some);
        }
        let (offset_start, offset_end) = last_word(line, start, last_start);
        let (kind_start, kind_end) = last_word(line, start, offset_start);
        let kind = &line[kind_start..kind_end];
        let wait = kind == b"wait";
        if FILE_ACTIONS.contains(&kind) {
            return Ok(None);
        }
        let Some(operation) = operation(kind).or(wait.then_some(Operation::Flush)) else {
            return Err(unknown(line, start, kind_start, kind));
        };
        let offset = field(line, offset_start, offset_end, "offset")?;
        let length = field(line, last_start, last_end, "length")?;
        if wait {
            if self.version == Some(Version::Three) {
                // fio ignores it too: the times say when.
                self.passed_over += 1;
                return Ok(None);
            }
            if offset >= WAIT_MICROSECONDS_MIN {
                let sum = self.now_micros.checked_add(offset);
                self.now_micros = sum.ok_or_else(|| Fault::new(offset_start, "the waits do not fit 64 bits"))?;
            }
            return Ok(None);
        }
        byte_extent(offset, length, offset_start)?;
        let file = line[start..kind_start].trim_ascii();
        self.request(&Action { file, operation, offset, length }, names).map(Some)
    }

    #[inline]
    fn request(&mut self, action: &Action<'_>, names: &mut Names) -> Faulty<Record> {
        let volume = self.volumes.with_stream(action.file, names, || {
            if action.file.is_empty() {
                self.volume_name.clone()
            } else {
                String::from_utf8_lossy(action.file).into_owned()
            }
        })?;
        let time = Nanos(scaled(self.now_micros, MICROSECOND_NANOS, 0, "time")?);
        Ok(Record::plain(time, (action.offset, action.length), action.operation, volume))
    }
}

fn operation(word: &[u8]) -> Option<Operation> {
    Some(match word {
        b"read" => Operation::Read,
        b"write" => Operation::Write,
        b"trim" => Operation::Discard,
        b"sync" | b"datasync" | b"syncfs" | b"sync_file_range" => Operation::Flush,
        _ => return None,
    })
}

/// Start and end of the last word in `line[start..end]`.
#[inline]
fn last_word(line: &[u8], start: usize, end: usize) -> (usize, usize) {
    let mut last = end;
    while last > start && line[last - 1] == b' ' {
        last -= 1;
    }
    let mut first = last;
    while first > start && line[first - 1] != b' ' {
        first -= 1;
    }
    (first, last)
}

#[cold]
fn first_line(line: &[u8]) -> Faulty<Version> {
    match line.strip_prefix(b"fio version ".as_slice()) {
        Some(b"2 iolog") => Ok(Version::Two),
        Some(b"3 iolog") => Ok(Version::Three),
        Some(other) => {
            Err(Fault::new(12, format!("version {} is not known", quote(other))).expected("`2 iolog` or `3 iolog`"))
        }
        None => Ok(Version::One),
    }
}

/// `rw, offset, length`
fn version_1(line: &[u8]) -> Faulty<(Operation, u64, u64)> {
    let mut columns = line.split(|&byte| byte == b',');
    let mut next = || columns.next().map(<[u8]>::trim_ascii);
    let (Some(direction), Some(offset), Some(length), None) = (next(), next(), next(), next()) else {
        return Err(Fault::new(0, "not a line of version 1").expected("`rw, offset, length` with rw 0 or 1"));
    };
    let operation = match direction {
        b"0" => Operation::Read,
        b"1" => Operation::Write,
        other => return Err(Fault::new(0, format!("rw {} is not known", quote(other))).expected("0 or 1")),
    };
    let at = direction.len() + 1;
    let (Some(offset), Some(length)) = (digits(offset), digits(length)) else {
        return Err(Fault::new(at, "offset or length is not a number that fits 64 bits").expected("bytes, in decimal"));
    };
    byte_extent(offset, length, at).map(|(offset, length)| (operation, offset, length))
}

#[cold]
fn unknown(line: &[u8], start: usize, at: usize, kind: &[u8]) -> Box<Fault> {
    let words = line[start..].split(|&byte| byte == b' ').filter(|word| !word.is_empty()).count();
    let fault = if words < 4 {
        Fault::new(line.len(), "the line ends too early")
    } else {
        Fault::new(at, format!("action {} is not known", quote(kind)))
    };
    fault.expected("`file action [offset length]` with read, write, trim, sync, datasync, wait, add, open or close")
}
