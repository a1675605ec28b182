//! The CSV of Tencent's cloud block store: `Timestamp,Offset,Size,IOType,VolumeID`.

use ioweir_core::{Nanos, Operation, SECTOR_BYTES};

use crate::reader::RawSource;
use crate::reader::fields::{choice, columns, text, whole};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::Volumes;
use crate::reader::number::{Fault, Faulty, byte_extent, scaled};
use crate::reader::order::WINDOW_RECORDS;
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

const SECOND_NANOS: u64 = 1_000_000_000;

macro_rules! doc {
    ($offset:literal, $other:literal) => {
        concat!(
            "\
No header. One request a line: `Timestamp,Offset,Size,IOType,VolumeID`.

| column | unit | meaning |
|---|---|---|
| Timestamp | Unix seconds | when the request was issued; kept as the epoch |
| Offset | ",
            $offset,
            " | first byte |
| Size | sectors of 512 bytes | length |
| IOType | | 0 is a read, 1 a write |
| VolumeID | | becomes the volume; thousands are interleaved |

Times are whole seconds: the requests of one second have the same time, and nothing tells how they lay within it. Do not read
latencies or queues from such a trace. Each volume is one stream. Requests may be out of order by up to 4096 records. ",
            $other
        )
    };
}

/// The row of the files as Tencent released them.
pub(crate) const SECTORS: Format = Format {
    name: "tencent-csv",
    title: "Tencent CBS, offsets in sectors, as released",
    doc: doc!(
        "sectors of 512 bytes",
        "There is a copy with offsets in bytes, `tencent-csv-bytes`; the content does not tell, so the format must be named."
    ),
    window_records: WINDOW_RECORDS,
    ambiguous: true,
    detect,
    open: |inputs, options| open(inputs, options, &SECTORS, SECTOR_BYTES),
    write: None,
};

/// The row of the copy in cacheMon's collection.
pub(crate) const BYTES: Format = Format {
    name: "tencent-csv-bytes",
    title: "Tencent CBS, offsets in bytes, as in cacheMon's collection",
    doc: doc!(
        "bytes",
        "As released, offsets are sectors, `tencent-csv`; the content does not tell, so the format must be named."
    ),
    window_records: WINDOW_RECORDS,
    ambiguous: true,
    detect,
    open: |inputs, options| open(inputs, options, &BYTES, 1),
    write: None,
};

const EXPECTED: &str = "Timestamp,Offset,Size,IOType,VolumeID";
const TYPES: &[(&str, Operation)] = &[("0", Operation::Read), ("1", Operation::Write)];

fn detect(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    columns::<5>(line, b',', EXPECTED).is_ok_and(|[time, offset, size, kind, volume]| {
        [time, offset, size, volume].into_iter().all(|span| whole(line, span, "").is_ok())
            && choice(line, kind, "", TYPES).is_ok()
    })
}

fn open(
    inputs: Vec<Input>,
    options: &ReadOptions,
    format: &Format,
    offset_unit_bytes: u64,
) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, format)?;
    let lines = Lines { offset_unit_bytes, volumes: Volumes::default() };
    Ok(Box::new(LineSource::open(&input, lines, options.order(format.window_records), options.lenient)?))
}

struct Lines {
    offset_unit_bytes: u64,
    volumes: Volumes,
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let [time, offset, size, kind, volume] = columns(line, b',', EXPECTED)?;
        let nanos = scaled(whole(line, time, "Timestamp")?, SECOND_NANOS, time.0, "Timestamp")?;
        let bytes = |span, unit: u64, what| {
            let value = whole(line, span, what)?;
            let product = value.checked_mul(unit);
            product.ok_or_else(|| Fault::new(span.0, format!("{what} {value} lies beyond 2^64 bytes")))
        };
        let extent = byte_extent(
            bytes(offset, self.offset_unit_bytes, "Offset")?,
            bytes(size, SECTOR_BYTES, "Size")?,
            offset.0,
        )?;
        let operation = choice(line, kind, "IOType", TYPES)?;
        whole(line, volume, "VolumeID")?;
        let volume = text(line, volume);
        let volume = self.volumes.with_stream(volume, names, || String::from_utf8_lossy(volume).into_owned())?;
        Ok(Some(Record::plain(Nanos(nanos), extent, operation, volume)))
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        Some(0)
    }
}
