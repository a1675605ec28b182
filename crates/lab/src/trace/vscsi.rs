//! The fixed binary records of VMware's vscsiStats, versions 1 and 2.

use ioweir_core::{Flags, Nanos, Operation, StreamId};

use super::input::{Chunks, unreadable};
use super::number::{Fault, Faulty, byte_extent, scaled};
use super::order::Order;
use super::source::RawSource;
use super::{BATCH_RECORDS, Format, Input, Names, Position, ReadOptions, Record, TraceError};

const MICROSECOND_NANOS: u64 = 1_000;

/// The row of the table.
pub(super) const FORMAT: Format = Format {
    name: "vscsi",
    title: "VMware vscsiStats, versions 1 and 2",
    doc: "\
Little-endian records without a file header, 32 bytes in version 1 and 40 in version 2; which it is, is told by the version
field of the first two records.

| field | unit | becomes |
|---|---|---|
| cmd | SCSI operation code | READ (6, 10, 12, 16), WRITE (same), SYNCHRONIZE CACHE (10, 16), UNMAP and WRITE SAME (10, 16) with it as discard |
| len | bytes | length |
| lbn | 512 bytes | offset |
| ts | microseconds since an arbitrary start, not Unix | time |
| rt (version 2) | not stated | nothing |

The file is one volume and one stream. Other commands are errors; read leniently to leave them out.",
    window_records: 0,
    detect: |head| Version::of(head).is_some(),
    open,
    write: None,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    const fn record_bytes(self) -> usize {
        match self {
            Self::One => 32,
            Self::Two => 40,
        }
    }

    /// Two records in a row must say so; one where there is only one.
    fn of(head: &[u8]) -> Option<Self> {
        [Self::Two, Self::One].into_iter().find(|version| {
            let mut records = head.chunks_exact(version.record_bytes()).take(2).peekable();
            records.peek().is_some() && records.all(|bytes| version.fits(&Fields::of(bytes, *version)))
        })
    }

    fn fits(self, fields: &Fields) -> bool {
        let number = match self {
            Self::One => 1,
            Self::Two => 2,
        };
        fields.version >> 8 == number && operation(fields.command).is_some()
    }
}

struct Fields {
    command: u16,
    version: u16,
    length: u32,
    block: u64,
    time: u64,
}

impl Fields {
    #[inline]
    fn of(bytes: &[u8], version: Version) -> Self {
        let byte = |at: usize| u64::from(bytes.get(at).copied().unwrap_or_default());
        let number = |at: usize, count: usize| (0..count).fold(0, |sum, place| sum | byte(at + place) << (8 * place));
        let [command, kind, length, block, time] = match version {
            Version::One => [12, 14, 4, 16, 24],
            Version::Two => [0, 2, 8, 16, 24],
        };
        // The widths are those of the fields: nothing is cut off.
        #[allow(clippy::cast_possible_truncation)]
        Self {
            command: number(command, 2) as u16,
            version: number(kind, 2) as u16,
            length: number(length, 4) as u32,
            block: number(block, 8),
            time: number(time, 8),
        }
    }
}

const fn operation(command: u16) -> Option<Operation> {
    Some(match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Operation::Read,
        0x0a | 0x2a | 0xaa | 0x8a => Operation::Write,
        0x35 | 0x91 => Operation::Flush,
        0x42 | 0x41 | 0x93 => Operation::Discard,
        _ => return None,
    })
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = super::single(inputs, &FORMAT)?;
    let head = input.head()?;
    let version = Version::of(&head);
    if version.is_none() && head.len() >= Version::One.record_bytes() {
        return Err(TraceError::new(
            input.name(),
            Position::Binary { record: 1, offset_bytes: 0 },
            "not a vscsi record",
        )
        .expected("a version field of 1 (32-byte records) or 2 (40-byte records) and a read or write command"));
    }
    let name = input.volume_name();
    Ok(Box::new(Records {
        file: input.name().to_owned(),
        chunks: input.open()?,
        version: version.unwrap_or(Version::One),
        record: 0,
        order: options.order(FORMAT.window_records),
        names: Names { streams: vec![name.clone()], volumes: vec![name] },
        lenient: options.lenient,
        skipped: 0,
    }))
}

struct Records {
    file: String,
    chunks: Chunks,
    version: Version,
    record: u64,
    order: Order,
    names: Names,
    lenient: bool,
    skipped: u64,
}

impl Records {
    fn record(&self, bytes: &[u8]) -> Faulty<Record> {
        let fields = Fields::of(bytes, self.version);
        if !self.version.fits(&fields) {
            let problem = format!("version {:#06x} with command {:#04x}", fields.version, fields.command);
            return Err(
                Fault::new(0, problem).expected("the version of the first record, and a command that reads or writes")
            );
        }
        let operation = operation(fields.command).unwrap_or(Operation::Read);
        let time = Nanos(scaled(fields.time, MICROSECOND_NANOS, 0, "time")?);
        let offset = scaled(fields.block, ioweir_core::SECTOR_BYTES, 0, "block")?;
        let (offset_bytes, length_bytes) = match operation {
            Operation::Flush => (0, 0),
            _ => byte_extent(offset, u64::from(fields.length), 0)?,
        };
        let (flags, stream) = (Flags::NONE, StreamId(0));
        Ok(Record { time, offset_bytes, length_bytes, operation, flags, stream, volume: 0, latency: None })
    }

    fn position(&self) -> Position {
        Position::Binary { record: self.record.max(1), offset_bytes: self.chunks.offset_bytes() }
    }
}

impl RawSource for Records {
    fn read_raw(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        let size = self.version.record_bytes();
        while batch.len() < BATCH_RECORDS {
            let whole = self.chunks.need(size).map_err(|error| unreadable(&self.file, self.position(), &error))?;
            let available = self.chunks.available();
            let left = available.len();
            if !whole && left == 0 {
                break;
            }
            self.record += 1;
            let read = match available.get(..size) {
                Some(bytes) => self.record(bytes).and_then(|record| self.order.push(record, batch)),
                None => Err(Fault::new(0, format!("the record is cut short: {left} bytes are left"))
                    .expected(format!("{size} bytes"))),
            };
            if let Err(fault) = read {
                if !self.lenient {
                    return Err(fault.placed(&self.file, self.position()));
                }
                self.skipped += 1;
            }
            self.chunks.consume(size.min(left));
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        None
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn nothing_found(&self) -> TraceError {
        let problem = if self.record == 0 { "the file is empty" } else { "holds no requests" };
        TraceError::new(&*self.file, Position::File, problem).expected("a trace")
    }
}
