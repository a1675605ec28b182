//! Reads libCacheSim's oracleGeneral records, which were made for cache studies.

use ioweir_core::{Nanos, Operation, SECTOR_BYTES};

use super::one_file;
use crate::reader::RawSource;
use crate::reader::names::Volumes;
use crate::reader::number::endian::little;
use crate::reader::number::{Fault, Faulty, byte_extent};
use crate::reader::units::Decoder;
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

const SECOND_NANOS: u64 = 1_000_000_000;

/// The row of the records of 24 bytes.
pub(crate) const GENERAL: Format = Format {
    name: "oracle-general",
    title: "libCacheSim oracleGeneral: seconds and objects, no operations",
    doc: include_str!("docs/oracle-general.md"),
    ambiguous: true,
    detect: |head| plausible(head, Kind::General),
    open: |inputs, options| open(inputs, options, &GENERAL, Kind::General),
    ..Format::UNSAID
};

/// The row of the records of 27 bytes.
pub(crate) const OPERATIONS: Format = Format {
    name: "oracle-general-opns",
    title: "libCacheSim oracleGeneralOpNS: as oracleGeneral, with operations",
    doc: include_str!("docs/oracle-general-opns.md"),
    ambiguous: true,
    detect: |head| plausible(head, Kind::Operations),
    open: |inputs, options| open(inputs, options, &OPERATIONS, Kind::Operations),
    ..Format::UNSAID
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    General,
    Operations,
}

impl Kind {
    const fn record_bytes(self) -> usize {
        match self {
            Self::General => 24,
            Self::Operations => 27,
        }
    }
}

/// The operation with libCacheSim's number; `None` for a number that it does not define.
pub(crate) const fn operation(number: u64) -> Option<Operation> {
    match number {
        0..=2 | 12 => Some(Operation::Read),
        9 => Some(Operation::Discard),
        3..=8 | 10 | 11 | 13 | 14 => Some(Operation::Write),
        _ => None,
    }
}

/// Checks that sector numbers fit, times do not decrease, and next accesses are absent or lie ahead.
fn plausible(head: &[u8], kind: Kind) -> bool {
    let size = kind.record_bytes();
    let mut last = 0;
    let mut records = (0_i64..).zip(head.chunks_exact(size)).take(64).peekable();
    records.peek().is_some()
        && records.all(|(number, record)| {
            let time = little::<4>(record, 0);
            let next = little::<8>(record, size - 8).cast_signed();
            let rises = std::mem::replace(&mut last, time) <= time;
            let named = kind == Kind::General || operation(little::<1>(record, 16)).is_some();
            rises && named && (next == -1 || next > number) && little::<8>(record, 4) < 1 << 55
        })
}

fn open(
    inputs: Vec<Input>,
    options: &ReadOptions,
    format: &Format,
    kind: Kind,
) -> Result<Box<dyn RawSource>, TraceError> {
    one_file(inputs, format, options, options.order(format.window_records), |input| {
        let names = if kind == Kind::General { Names::of_file(input) } else { Names::default() };
        (Records { kind, spaces: Volumes::default() }, names)
    })
}

struct Records {
    kind: Kind,
    spaces: Volumes,
}

/// The extent of an object.
pub(crate) fn object_extent(object: u64, size: u64) -> Faulty<(u64, u64)> {
    let offset = object.checked_mul(SECTOR_BYTES).ok_or_else(|| {
        Fault::new(0, format!("object {object} is too large for a sector"))
            .expected("the number of a 512-byte sector")
            .hint("a trace of hashed objects has no places on a disk")
    })?;
    byte_extent(offset, size, 0)
}

impl Decoder for Records {
    fn unit_bytes(&self) -> Option<usize> {
        Some(self.kind.record_bytes())
    }

    fn unit(&mut self, bytes: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let time = Nanos(little::<4>(bytes, 0) * SECOND_NANOS);
        let extent = object_extent(little::<8>(bytes, 4), little::<4>(bytes, 12))?;
        if self.kind == Kind::General {
            return Ok(Some(Record::plain(time, extent, Operation::Read, 0)));
        }
        let number = little::<1>(bytes, 16);
        let Some(operation) = operation(number) else {
            return Err(Fault::new(0, format!("operation {number} is not known")).expected("0 to 14"));
        };
        let space = bytes.get(17..19).unwrap_or_default();
        let volume = self.spaces.with_stream(space, names, || format!("ns{}", little::<2>(bytes, 17)))?;
        Ok(Some(Record::plain(time, extent, operation, volume)))
    }
}
