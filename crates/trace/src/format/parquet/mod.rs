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
    doc: include_str!("../docs/parquet.md"),
    table: None,
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
