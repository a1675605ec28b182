//! The loads of blkreplay: a text about the load, then one request a line.

use std::collections::BTreeSet;

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::fields::{Unit, columns, duration, text, whole};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::number::{Fault, Faulty, quote, sector_extent};
use crate::reader::order::WINDOW_RECORDS;
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "blkreplay",
    title: "blkreplay .load",
    doc: "\
A text about the load, a line `start ; sector; length ; op ; ...`, then one request a line:
`time ; sector ; sectors ; op ; delay ; duration`.

| column | unit | meaning |
|---|---|---|
| time | seconds, nine decimals | time |
| sector, sectors | 512 bytes | extent |
| op | | by its first letter: `R` or `W`; `RA` is a read |
| delay | seconds | how late a replay sent it; not kept |
| duration | seconds | how long a replay took: becomes the latency unless it is zero, as in a load that was not replayed |

The text in front can come once more in the middle of a file: exactly the lines that stood there are passed over, and any other
line that is no request is an error. Some loads hold many requests twice, as they were traced. The file is one volume and one
stream. Requests may be out of order by up to 4096 records.",
    window_records: WINDOW_RECORDS,
    ambiguous: false,
    detect,
    open,
    write: None,
};

const EXPECTED: &str = "time ; sector ; sectors ; op ; delay ; duration";
/// The most bytes of the text in front.
const TEXT_BYTES_MAX: usize = 1 << 16;

fn heading(line: &[u8]) -> bool {
    line.strip_prefix(b"start ;").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"sector"))
}

fn detect(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n');
    lines.clone().next().is_some_and(|line| request(line.trim_ascii_end()).is_ok()) || lines.any(heading)
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines { file: Some(input.volume_name()), text: BTreeSet::new(), text_bytes: 0, started: false };
    Ok(Box::new(LineSource::open(&input, format, options.order(FORMAT.window_records), options.lenient)?))
}

struct Lines {
    /// The name of the volume, until it is told.
    file: Option<String>,
    /// The lines in front of the first request.
    text: BTreeSet<Vec<u8>>,
    text_bytes: usize,
    started: bool,
}

fn request(line: &[u8]) -> Faulty<Record> {
    let [time, sector, sectors, kind, delay, taken] = columns(line, b';', EXPECTED)?;
    let nanos = duration(line, time, Unit::Seconds, "time")?;
    let count = whole(line, sectors, "number of sectors")?;
    let extent = sector_extent(whole(line, sector, "sector")?, count, sector.0)?;
    let operation = match text(line, kind) {
        [b'R', ..] => Operation::Read,
        [b'W', ..] => Operation::Write,
        other => {
            return Err(Fault::new(kind.0, format!("op {} is not known", quote(other))).expected("R or W"));
        }
    };
    duration(line, delay, Unit::Seconds, "delay")?;
    let taken = duration(line, taken, Unit::Seconds, "duration")?;
    let latency = (taken > 0).then_some(Nanos(taken));
    Ok(Record { latency, ..Record::plain(Nanos(nanos), extent, operation, 0) })
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let parsed = request(line);
        match parsed {
            Ok(record) => {
                if let Some(name) = self.file.take() {
                    names.streams.push(name.clone());
                    names.volumes.push(name);
                }
                self.started = true;
                Ok(Some(record))
            }
            Err(_) if heading(line) => {
                self.started = true;
                Ok(None)
            }
            Err(_) if !self.started => {
                self.text_bytes += line.len() + 1;
                if self.text_bytes > TEXT_BYTES_MAX {
                    return Err(Fault::new(0, "no request and no heading in the first 64 KiB").expected(EXPECTED));
                }
                self.text.insert(line.to_vec());
                Ok(None)
            }
            Err(_) if self.text.contains(line) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}
