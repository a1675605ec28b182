//! Reads HP's SRT traces, version 1.3: a text header, then big-endian records.

use ioweir_core::{Flags, Nanos, Operation, SECTOR_BYTES, StreamId};

use crate::input::{Chunks, unreadable};
use crate::reader::RawSource;
use crate::reader::names::Volumes;
use crate::reader::number::endian::big;
use crate::reader::number::{Fault, Faulty, byte_extent};
use crate::reader::order::WINDOW_RECORDS;
use crate::reader::units::{Decoder, Units};
use crate::{Format, Input, Names, Position, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "hp-srt",
    title: "HP SRT 1.3",
    doc: include_str!("docs/hp-srt.md"),
    window_records: WINDOW_RECORDS,
    detect: |head| head.starts_with(MAGIC),
    open,
    ..Format::UNSAID
};

const MAGIC: &[u8] = b"$$TR_IOREC-1.3";
const FORM_FEED: u8 = 0x0c;
const HEADER_BYTES_MAX: u64 = 1 << 20;
const RECORD_BYTES: usize = 56;
/// The lower half of the second word.
const IO_RECORD: u64 = 1;
const FLAG_READ: u64 = 1;
const FLAG_SYNC: u64 = 0x0100_0000;
const MICROSECOND_NANOS: u64 = 1_000;
const SECOND_NANOS: u64 = 1_000_000_000;

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let mut chunks = input.open()?;
    pass_header(&mut chunks, input.name())?;
    let order = options.order(FORMAT.window_records);
    let format = Records { volumes: Volumes::default() };
    Ok(Box::new(Units::over(chunks, input.name(), format, Names::default(), order, options.lenient)))
}

/// Moves past the form feed; for an empty file, the reader reports the error.
fn pass_header(chunks: &mut Chunks, file: &str) -> Result<(), TraceError> {
    let failed = |error: &std::io::Error| unreadable(file, Position::File, error);
    let here = |offset_bytes| Position::Binary { record: 1, offset_bytes };
    if chunks.need(MAGIC.len()).map_err(|error| failed(&error))? && !chunks.available().starts_with(MAGIC) {
        return Err(TraceError::new(file, here(0), "the header is missing").expected("`$$TR_IOREC-1.3`"));
    }
    loop {
        let available = chunks.available();
        let found = memchr::memchr(FORM_FEED, available);
        let drop = found.map_or(available.len(), |place| place + 1);
        chunks.consume(drop);
        if found.is_some() {
            return Ok(());
        }
        let more = chunks.more().map_err(|error| failed(&error))?;
        if !more && chunks.offset_bytes() == 0 {
            return Ok(());
        }
        if !more || chunks.offset_bytes() > HEADER_BYTES_MAX {
            return Err(TraceError::new(file, here(chunks.offset_bytes()), "the header does not end")
                .expected("a form feed (0x0c) after a header of at most 1 MiB"));
        }
    }
}

struct Records {
    volumes: Volumes,
}

impl Decoder for Records {
    fn unit_bytes(&self) -> Option<usize> {
        Some(RECORD_BYTES)
    }

    fn unit(&mut self, bytes: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let word = |place: usize| big::<4>(bytes, 4 * place);
        if word(0) != RECORD_BYTES as u64 {
            return Err(Fault::new(0, format!("a record of {} bytes", word(0))).expected("56 bytes"));
        }
        if word(1) & 0xffff != IO_RECORD {
            return Ok(None);
        }
        let time = Nanos(word(2) * SECOND_NANOS + word(3) * MICROSECOND_NANOS);
        let latency = Some(Nanos(word(5) * MICROSECOND_NANOS));
        let extent = byte_extent(word(7) * SECTOR_BYTES, word(6), 28)?;
        let (device, flags) = (word(8) >> 8 & 0xff, word(11));
        let operation = if flags & FLAG_READ != 0 { Operation::Read } else { Operation::Write };
        let volume = self.volumes.with_stream(&device.to_be_bytes(), names, || format!("disk{device}"))?;
        let flags = if flags & FLAG_SYNC != 0 { Flags::SYNC } else { Flags::NONE };
        let stream = StreamId(volume);
        Ok(Some(Record { flags, stream, latency, ..Record::plain(time, extent, operation, volume) }))
    }
}
