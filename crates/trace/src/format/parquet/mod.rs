//! This project's own form of a trace: Parquet, which any tool for columns reads.
//!
//! It holds all that [`crate::Record`] and [`crate::Names`] hold, and the epoch. Readable and writable with the feature
//! `parquet`; without it, such a file is recognised and refused.

#[cfg(feature = "parquet")]
mod footer;
#[cfg(feature = "parquet")]
pub(crate) mod rows;

use crate::Format;
#[cfg(feature = "parquet")]
use crate::writer::{Writer, losses::Holds, parquet as writing};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "parquet",
    title: "ioweir's own columns in Parquet",
    doc: "\
One row a request, in the order of time; lossless, and the quickest to read again.

| column | type | meaning |
|---|---|---|
| time_nanos | UINT_64 | nanoseconds since the first request |
| offset_bytes, length_bytes | UINT_64 | extent in bytes |
| operation | UINT_8 | 0 read, 1 write, 2 discard, 3 flush |
| flags | UINT_8 | sum of 1 synchronous, 2 read-ahead, 4 metadata, 8 durable (FUA), 16 flush before (PREFLUSH) |
| stream, volume | UINT_32 | index into the names |
| latency_nanos | UINT_64, optional | submission to completion |

Key-value metadata of the file: `ioweir.trace.version` (1), `ioweir.trace.streams` and `ioweir.trace.volumes` (JSON arrays of
names), and where known `ioweir.trace.epoch_unix_nanos` (decimal, wall clock at time zero). Compressed with zstd inside: the
file itself must not be compressed again.",
    window_records: 0,
    ambiguous: false,
    detect: |head| head.starts_with(b"PAR1"),
    #[cfg(feature = "parquet")]
    open: rows::open,
    #[cfg(not(feature = "parquet"))]
    open: absent,
    #[cfg(feature = "parquet")]
    write: Some(Writer { open: writing::open, holds: Holds::ALL }),
    #[cfg(not(feature = "parquet"))]
    write: None,

};

#[cfg(not(feature = "parquet"))]
fn absent(
    inputs: Vec<crate::Input>,
    _: &crate::ReadOptions,
) -> Result<Box<dyn crate::reader::RawSource>, crate::TraceError> {
    let name = inputs.first().map_or("", crate::Input::name);
    let problem = "it is Parquet, which this build does not read";
    Err(crate::TraceError::new(name, crate::Position::File, problem)
        .hint("build ioweir-trace with the feature `parquet`"))
}
