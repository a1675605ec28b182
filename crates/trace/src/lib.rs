#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cut;
mod error;
mod event;
mod format;
mod group;
mod info;
mod input;
mod reader;
mod table;
mod writer;

pub use cut::{Cut, CutSource, cut};
pub use error::{Position, TraceError};
pub use event::Event;
pub use format::parquet::REQUEST_COLUMNS;
pub use format::{FORMATS, Format, FormatError, ReadOptions, format, named, open, open_inputs, recognise};
pub use group::{TraceGroup, group};
pub use info::{Info, Sizes, Stream, Times, info};
pub use input::{Chunks, HEAD_BYTES, Input, unreadable};
pub use writer::losses::{Clock, Holds, Loss};
pub use writer::requests::{RequestSink, RunNames, Served, request_file};
pub use writer::{Converted, Target, TraceSink, WriteFn, Writer, convert};

use ioweir_core::{Flags, Nanos, Operation, Priority, StreamId};

/// How many records a reader hands over at once.
pub const BATCH_RECORDS: usize = 4096;

/// One request, as every format is read into and written from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was submitted, since the first record of the trace.
    pub time: Nanos,
    /// First byte. Formats that count sectors are multiplied out; some formats are not aligned to sectors.
    pub offset_bytes: u64,
    /// Length; zero for flushes, and legal in some formats for data.
    pub length_bytes: u64,
    /// What it did.
    pub operation: Operation,
    /// What else the trace says of it.
    pub flags: Flags,
    /// How urgent it was, where the format holds it.
    pub priority: Priority,
    /// Who asked: index into [`Names::streams`].
    pub stream: StreamId,
    /// Which address space: index into [`Names::volumes`].
    pub volume: u32,
    /// How long the traced device took, from submission to completion, where the format holds it.
    pub latency: Option<Nanos>,
}

impl Record {
    /// A request without flags and processes: its volume is its stream as well.
    const fn plain(time: Nanos, extent: (u64, u64), operation: Operation, volume: u32) -> Self {
        let (offset_bytes, length_bytes) = match operation {
            Operation::Flush => (0, 0),
            _ => extent,
        };
        let (flags, priority, stream) = (Flags::NONE, Priority::NONE, StreamId(volume));
        Self { time, offset_bytes, length_bytes, operation, flags, priority, stream, volume, latency: None }
    }
}

/// The names of the numbers in the records. Grows while a trace is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Name of each stream (process id and command, client, or the like), in order of appearance.
    pub streams: Vec<String>,
    /// Name of each address space (device, volume, file), in order of appearance.
    pub volumes: Vec<String>,
}

impl Names {
    /// The names of a file that is one volume and one stream.
    fn of_file(input: &Input) -> Self {
        let name = input.volume_name();
        Self { streams: vec![name.clone()], volumes: vec![name] }
    }
}

/// A trace being read.
pub trait TraceSource: Send {
    /// Replaces the content of `batch` by the next records, at most [`BATCH_RECORDS`]. An empty batch is the end.
    ///
    /// # Errors
    /// [`TraceError`] at the first input that is not what the format says.
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError>;

    /// The names met so far.
    fn names(&self) -> &Names;

    /// Wall-clock time of the first record in nanoseconds since 1970-01-01 UTC, where the format has it and a record
    /// has been read.
    fn epoch_unix_nanos(&self) -> Option<i128> {
        None
    }

    /// Input units skipped because they could not be read; always zero unless reading leniently.
    fn skipped(&self) -> u64 {
        0
    }
}
