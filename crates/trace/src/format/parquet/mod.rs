//! This project's own trace format: Parquet, which any columnar tool reads.
//!
//! It holds everything in [`crate::Record`] and [`crate::Names`], and the epoch. It can be read and written with the feature
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
    detect: |head| head.starts_with(b"PAR1"),
    #[cfg(feature = "parquet")]
    open: rows::open,
    #[cfg(not(feature = "parquet"))]
    open: absent,
    #[cfg(feature = "parquet")]
    write: Some(Writer { open: writing::open, holds: Holds::ALL }),
    #[cfg(not(feature = "parquet"))]
    write: None,
    ..Format::UNSAID
};

/// The columns after those of a [`crate::Record`], and their meaning.
pub const REQUEST_COLUMNS: [(&str, &str); 16] = [
    ("run", "index into the runs in the file's metadata: a scheduler on a device under a load, with a seed"),
    ("scheduler", "the scheduler of the run"),
    ("device", "the device of the run"),
    ("class", "the class of clients; the trace, in a comparison"),
    ("submitted_nanos", "when the scheduler took the request, or the part of it that was served last"),
    ("dispatched_nanos", "when that went to the device"),
    ("completed_nanos", "when it was done"),
    ("wait_device_full_nanos", "time before the dispatch, by what it waited for: `ioweir doc reason`"),
    ("wait_ordering_nanos", "as above"),
    ("wait_anticipating_nanos", "as above"),
    ("wait_staging_nanos", "as above"),
    ("wait_throttled_nanos", "as above"),
    ("wait_budget_nanos", "as above"),
    ("wait_queue_full_nanos", "as above; before submitted_nanos"),
    ("cores_nanos", "of the time from dispatched_nanos to completed_nanos: for a worker, and with one"),
    ("tier", "where the scheduler sent it: 0 the device, or the slow one of two; 1 the fast one"),
];

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
