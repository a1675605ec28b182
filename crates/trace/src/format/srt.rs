//! HP's SRT traces, version 1.3: a text header, then big-endian records.

use ioweir_core::{Flags, Nanos, Operation, SECTOR_BYTES, StreamId};

use crate::input::{Chunks, unreadable};
use crate::reader::RawSource;
use crate::reader::binary::{BinaryFormat, BinarySource, big};
use crate::reader::names::Volumes;
use crate::reader::number::{Fault, Faulty, byte_extent};
use crate::reader::order::WINDOW_RECORDS;
use crate::{Format, Input, Names, Position, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "hp-srt",
    title: "HP SRT 1.3",
    doc: "\
A text header from `$$TR_IOREC-1.3` to a form feed, then records of 4-byte big-endian numbers, 56 bytes each.

| field | unit | becomes |
|---|---|---|
| seconds, microseconds | since the trace began | time: when the request was queued |
| stop | microseconds since it was queued | latency |
| bytes | bytes | length |
| sector | 512 bytes | offset |
| device | its second-lowest byte | volume, as `disk0` |
| flags | lowest bit | 1 is a read; bit 24 is set where somebody waited for it (SYNC) |

Records that are no requests are left out. Drivers, cylinders and queue lengths are not kept. Each volume is one stream. The
date in the header has no time zone: there is no epoch. Requests may be out of order by up to 4096 records.",
    window_records: WINDOW_RECORDS,
    ambiguous: false,
    detect: |head| head.starts_with(MAGIC),
    open,
    write: None,
};

const MAGIC: &[u8] = b"$$TR_IOREC-1.3";
const FORM_FEED: u8 = 0x0c;
const HEADER_BYTES_MAX: u64 = 1 << 20;
const RECORD_BYTES: usize = 56;
/// Lower half of the second word.
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
    Ok(Box::new(BinarySource::over(chunks, input.name(), format, Names::default(), order, options.lenient)))
}

/// Moves behind the form feed; an empty file is left to say so itself.
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
                .expected("a form feed (0x0c) behind a header of at most 1 MiB"));
        }
    }
}

struct Records {
    volumes: Volumes,
}

impl BinaryFormat for Records {
    fn unit_bytes(&self) -> usize {
        RECORD_BYTES
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
