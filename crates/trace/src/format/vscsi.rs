//! Reads the fixed-length records of VMware's vscsiStats, versions 1 and 2.

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::number::endian::little;
use crate::reader::number::{Fault, Faulty, byte_extent, scaled};
use crate::reader::units::{Decoder, Units};
use crate::{Format, Input, Names, Position, ReadOptions, Record, TraceError};

const MICROSECOND_NANOS: u64 = 1_000;

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "vscsi",
    title: "VMware vscsiStats, versions 1 and 2",
    doc: include_str!("docs/vscsi.md"),
    detect: |head| Version::of(head).is_some(),
    open,
    ..Format::UNSAID
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

    /// Two consecutive records must show it; or one, if there is only one.
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
        let [command, kind, length, block, time] = match version {
            Version::One => [12, 14, 4, 16, 24],
            Version::Two => [0, 2, 8, 16, 24],
        };
        // The widths are those of the fields, so nothing is cut off.
        #[allow(clippy::cast_possible_truncation)]
        Self {
            command: little::<2>(bytes, command) as u16,
            version: little::<2>(bytes, kind) as u16,
            length: little::<4>(bytes, length) as u32,
            block: little::<8>(bytes, block),
            time: little::<8>(bytes, time),
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
    let input = crate::format::single(inputs, &FORMAT)?;
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
    let (records, names) = (Records { version: version.unwrap_or(Version::One) }, Names::of_file(&input));
    let order = options.order(FORMAT.window_records);
    Ok(Box::new(Units::open(&input, records, names, order, options.lenient)?))
}

struct Records {
    version: Version,
}

impl Decoder for Records {
    fn unit_bytes(&self) -> Option<usize> {
        Some(self.version.record_bytes())
    }

    fn unit(&mut self, bytes: &[u8], _: &mut Names) -> Faulty<Option<Record>> {
        let fields = Fields::of(bytes, self.version);
        let Some(operation) = operation(fields.command).filter(|_| self.version.fits(&fields)) else {
            let problem = format!("version {:#06x} with command {:#04x}", fields.version, fields.command);
            return Err(
                Fault::new(0, problem).expected("the version of the first record, and a command that reads or writes")
            );
        };
        let time = Nanos(scaled(fields.time, MICROSECOND_NANOS, 0, "time")?);
        let offset = scaled(fields.block, ioweir_core::SECTOR_BYTES, 0, "block")?;
        let extent = match operation {
            Operation::Flush => (0, 0),
            _ => byte_extent(offset, u64::from(fields.length), 0)?,
        };
        Ok(Some(Record::plain(time, extent, operation, 0)))
    }
}
