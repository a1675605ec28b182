//! Reads libCacheSim's LCS files: a header of 1024 bytes, which describes the records after it.

use ioweir_core::{Nanos, Operation};

use super::one_file;
use crate::format::oracle::{object_extent, operation};
use crate::reader::RawSource;
use crate::reader::number::endian::little;
use crate::reader::number::{Fault, Faulty};
use crate::reader::units::Decoder;
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

const SECOND_NANOS: u64 = 1_000_000_000;
const MAGIC: u64 = 0x1234_5678_9abc_def0;
const HEADER_BYTES: usize = 1024;
/// Offsets of the fields in the header.
const FORMAT_AT: usize = 8;
const FORMAT_BYTES: usize = 240;
const OBJECT_AT: usize = 248;
const SIZE_AT: usize = 249;
const TIME_AT: usize = 250;
const OPERATION_AT: usize = 253;
const RECORD_BYTES_AT: usize = 1004;
const END_MAGIC_AT: usize = 1016;

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "lcs",
    title: "libCacheSim LCS",
    doc: include_str!("docs/lcs.md"),
    detect: |head| head.starts_with(&MAGIC.to_le_bytes()),
    open,
    ..Format::UNSAID
};

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let order = options.order(FORMAT.window_records);
    one_file(inputs, &FORMAT, options, order, |input| (Records { layout: None }, Names::of_file(input)))
}

/// A number in a record.
#[derive(Clone, Copy, Debug, Default)]
struct Field {
    at: usize,
    bytes: usize,
    signed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    record_bytes: usize,
    time: Field,
    object: Field,
    size: Field,
    operation: Option<Field>,
}

struct Records {
    layout: Option<Layout>,
}

/// The length of a type in bytes, and whether it may be negative; for floating point, only the length applies.
const fn type_bytes(letter: u8) -> Option<(usize, bool)> {
    Some(match letter {
        b'b' | b'c' => (1, true),
        b'B' => (1, false),
        b'h' => (2, true),
        b'H' => (2, false),
        b'i' => (4, true),
        b'I' | b'f' => (4, false),
        b'q' => (8, true),
        b'Q' | b'd' => (8, false),
        _ => return None,
    })
}

fn layout(header: &[u8]) -> Faulty<Layout> {
    if little::<8>(header, 0) != MAGIC || little::<8>(header, END_MAGIC_AT) != MAGIC {
        return Err(Fault::new(0, "the header does not begin and end with the magic number")
            .expected("0x123456789abcdef0 at byte 0 and at byte 1016")
            .hint("a file of another version of LCS has another header"));
    }
    let text = &header[FORMAT_AT..FORMAT_AT + FORMAT_BYTES];
    let length = text.iter().position(|&byte| byte == 0).unwrap_or(FORMAT_BYTES);
    let letters = text[..length].strip_prefix(b"<").ok_or_else(|| {
        Fault::new(FORMAT_AT, "the types of the fields are not little-endian").expected("`<` and a letter a field")
    })?;
    let mut fields = Vec::with_capacity(letters.len());
    let mut record_bytes = 0;
    for &letter in letters {
        let (bytes, signed) = type_bytes(letter).ok_or_else(|| {
            Fault::new(FORMAT_AT, format!("type `{}` is not known", letter.escape_ascii()))
                .expected("one of cbBhHiIqQfd")
        })?;
        let whole = !matches!(letter, b'f' | b'd');
        fields.push((Field { at: record_bytes, bytes, signed }, whole));
        record_bytes += bytes;
    }
    if record_bytes == 0 || little::<4>(header, RECORD_BYTES_AT) != record_bytes as u64 {
        return Err(Fault::new(RECORD_BYTES_AT, "the length of a record is not the sum of its fields")
            .expected(format!("{record_bytes} bytes")));
    }
    let field = |place: usize, what: &str| {
        let number = usize::from(header[place]);
        let found = number.checked_sub(1).and_then(|index| fields.get(index)).filter(|(_, whole)| *whole);
        found.map(|(field, _)| *field).ok_or_else(|| {
            Fault::new(place, format!("the field of the {what} is number {number}"))
                .expected(format!("1 to {}, of a whole number", fields.len()))
        })
    };
    let operation = if header[OPERATION_AT] == 0 { None } else { Some(field(OPERATION_AT, "operation")?) };
    let (time, object, size) = (field(TIME_AT, "time")?, field(OBJECT_AT, "object")?, field(SIZE_AT, "size")?);
    Ok(Layout { record_bytes, time, object, size, operation })
}

fn value(record: &[u8], field: Field, what: &str) -> Faulty<u64> {
    let bytes = record.get(field.at..field.at + field.bytes).unwrap_or_default();
    let negative = field.signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    if negative {
        return Err(Fault::new(0, format!("negative {what}")));
    }
    Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

impl Decoder for Records {
    fn unit_bytes(&self) -> Option<usize> {
        Some(self.layout.map_or(HEADER_BYTES, |layout| layout.record_bytes))
    }

    fn unit(&mut self, bytes: &[u8], _: &mut Names) -> Faulty<Option<Record>> {
        let Some(known) = self.layout else {
            self.layout = Some(layout(bytes)?);
            return Ok(None);
        };
        let seconds = value(bytes, known.time, "time")?;
        let nanos = crate::reader::number::scaled(seconds, SECOND_NANOS, 0, "time")?;
        let extent = object_extent(value(bytes, known.object, "object")?, value(bytes, known.size, "size")?)?;
        let operation = match known.operation {
            None => Operation::Read,
            Some(field) => {
                let number = value(bytes, field, "operation")?;
                operation(number)
                    .ok_or_else(|| Fault::new(0, format!("operation {number} is not known")).expected("0 to 14"))?
            }
        };
        Ok(Some(Record::plain(Nanos(nanos), extent, operation, 0)))
    }
}
