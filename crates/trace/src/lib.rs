#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod completeness;
mod cut;
mod doubted;
mod error;
mod event;
mod format;
mod group;
mod info;
mod input;
mod merged;
mod reader;
mod repeated;
mod table;
pub mod tracefs;
mod waits;
mod writer;

pub use completeness::Completeness;
pub use cut::{Cut, CutSource, cut};
pub use doubted::Doubted;
pub use error::{Position, TraceError};
pub use event::Event;
pub use format::parquet::REQUEST_COLUMNS;
pub use format::{FORMATS, Format, FormatError, ReadOptions, format, named, no_pointer, open, open_inputs, recognise};
pub use group::{TraceGroup, group};
pub use info::{Info, Sizes, Stream, Times, info};
pub use input::{Chunks, HEAD_BYTES, Input, unreadable};
pub use merged::{Alignment, Merged};
pub use repeated::{Repeat, Repeated};
pub use waits::{WaitClocks, WaitStart};
pub use writer::losses::{Clock, Holds, Loss};
pub use writer::requests::{RunNames, Served, request_file};
pub use writer::{Converted, Target, TraceSink, WriteFn, Writer, convert};

use ioweir_core::{Flags, Nanos, Operation, Priority, StreamId};

/// The most records that a reader returns at once.
pub const BATCH_RECORDS: usize = 4096;

/// One request: every format is read into this form and written from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was submitted, counted from the first record of the trace.
    pub time: Nanos,
    /// The first byte. Sectors of other formats are converted to bytes; in some formats requests are not aligned to sectors.
    pub offset_bytes: u64,
    /// The length; zero for flushes, and allowed for data in some formats.
    pub length_bytes: u64,
    /// Read, write, flush or discard.
    pub operation: Operation,
    /// The submitter's flags, as far as the trace has them.
    pub flags: Flags,
    /// The priority of the request, if the format holds priorities.
    pub priority: Priority,
    /// The stream that submitted it: an index into [`Names::streams`].
    pub stream: StreamId,
    /// The address space: an index into [`Names::volumes`].
    pub volume: u32,
    /// How long the traced device took from submission to completion, if the format holds that.
    pub latency: Option<Nanos>,
}

impl Record {
    /// A request without flags or process; its stream is its volume.
    const fn plain(time: Nanos, extent: (u64, u64), operation: Operation, volume: u32) -> Self {
        let (offset_bytes, length_bytes) = match operation {
            Operation::Flush => (0, 0),
            _ => extent,
        };
        let (flags, priority, stream) = (Flags::NONE, Priority::NONE, StreamId(volume));
        Self { time, offset_bytes, length_bytes, operation, flags, priority, stream, volume, latency: None }
    }
}

/// The names for the numbers in the records. It grows while a trace is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Name of each stream (process id and command, client, or the like), in order of appearance.
    pub streams: Vec<String>,
    /// Name of each address space (device, volume, file), in order of appearance.
    pub volumes: Vec<String>,
}

impl Names {
    /// The names for a file that is one volume and one stream.
    fn of_file(input: &Input) -> Self {
        let name = input.volume_name();
        Self { streams: vec![name.clone()], volumes: vec![name] }
    }
}

/// A trace being read.
pub trait TraceSource: Send {
    /// Replaces the content of `batch` with the next records, at most [`BATCH_RECORDS`]. An empty batch means the end.
    ///
    /// # Errors
    /// At the first input that does not follow the format.
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError>;

    /// The names that have occurred so far.
    fn names(&self) -> &Names;

    /// The source that this one changes, if it is a layer over another: whatever a layer does not answer itself is that
    /// source's answer.
    fn inner(&self) -> Option<&dyn TraceSource> {
        None
    }

    /// The wall-clock time of the first record in nanoseconds since 1970-01-01 UTC, if the format has it and a record has
    /// been read.
    fn epoch_unix_nanos(&self) -> Option<i128> {
        self.inner()?.epoch_unix_nanos()
    }

    /// The trace's description as a whole, as a JSON object: where and how it was recorded.
    fn description(&self) -> Option<&str> {
        self.inner()?.description()
    }

    /// The number of input units that were skipped because they could not be read; zero unless reading leniently.
    fn skipped(&self) -> u64 {
        self.inner().map_or(0, |inner| inner.skipped())
    }

    /// The number of records whose addresses were moved so that they lie on a device; zero for a source that moves none.
    fn folded(&self) -> u64 {
        self.inner().map_or(0, |inner| inner.folded())
    }

    /// The gaps of the capture, which are known after it has been read to its end.
    fn completeness(&self) -> Completeness {
        self.inner().map_or_else(Completeness::default, |inner| inner.completeness())
    }

    /// A sentence for each thing that makes the figures of the trace doubtful, after it has been read to its end.
    fn remarks(&self) -> Vec<String> {
        self.inner().map_or_else(|| self.completeness().remarks(), |inner| inner.remarks())
    }
}
