//! Writes traces, and converts them from one format to another.

pub(crate) mod blkparse;
pub(crate) mod fio;
pub(crate) mod hadoop;
pub(crate) mod losses;
pub(crate) mod msr;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod requests;
pub(crate) mod spc;
mod text;

use std::io::{self, Write};

use crate::writer::losses::{Counted, Holds, Loss};
use crate::writer::requests::{RunNames, Served};
use crate::{Format, Names, Position, Record, TraceError, TraceSource};

/// Where a trace is written: a stream, and its name for errors.
pub struct Target {
    name: String,
    stream: Box<dyn Write + Send>,
}

impl Target {
    /// A target that writes to a stream in small pieces, so the stream should be buffered.
    pub fn new(name: impl Into<String>, stream: Box<dyn Write + Send>) -> Self {
        Self { name: name.into(), stream }
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn error(&self, problem: impl Into<String>) -> TraceError {
        TraceError::new(&*self.name, Position::File, problem)
    }

    pub(crate) fn broken(&self, error: &io::Error) -> TraceError {
        self.error(format!("cannot be written: {error}"))
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.stream.write_all(bytes).map_err(|error| self.broken(&error))
    }

    pub(crate) fn flush(&mut self) -> Result<(), TraceError> {
        self.stream.flush().map_err(|error| self.broken(&error))
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn into_stream(self) -> Box<dyn Write + Send> {
        self.stream
    }
}

/// Opens a trace for writing.
pub type WriteFn = fn(Target) -> Result<Box<dyn TraceSink>, TraceError>;

/// The writing half of a format.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    /// Opens a trace for writing.
    pub open: WriteFn,
    /// The properties of requests that the format can hold.
    pub holds: Holds,
}

/// The result of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The number of requests read, including those that the format cannot hold.
    pub records: u64,
    /// The properties of requests that the target does not hold.
    pub losses: Vec<Loss>,
}

/// A writer of one format.
pub trait TraceSink: Send {
    /// Sets the time of the first request, in nanoseconds since 1970-01-01 UTC, if it is known by then; called before any
    /// record.
    fn start(&mut self, _epoch_unix_nanos: Option<i128>) {}

    /// Begins a run, which the requests that follow belong to. Formats without columns for it drop this.
    fn begin_run(&mut self, _run: RunNames) {}

    /// Sets the description of the trace as a whole, a JSON object, at any time before the end. Formats without a place for it drop it.
    fn describe(&mut self, _about: &str) {}

    /// Writes a request of the run that [`TraceSink::begin_run`] began, and how it was served, if it was. Formats without
    /// columns for that write the request alone.
    ///
    /// # Errors
    /// As [`TraceSink::write_batch`].
    fn write_served(&mut self, record: &Record, _served: Option<Served>, names: &Names) -> Result<(), TraceError> {
        self.write_batch(std::slice::from_ref(record), names)
    }

    /// Writes records; `names` holds at least the names that they use.
    ///
    /// # Errors
    /// If the format cannot hold a record, or the stream fails.
    fn write_batch(&mut self, batch: &[Record], names: &Names) -> Result<(), TraceError>;

    /// Writes the parts of a trace that are known only at the end.
    ///
    /// # Errors
    /// If the stream fails.
    fn finish(self: Box<Self>, names: &Names, epoch_unix_nanos: Option<i128>) -> Result<(), TraceError>;
}

/// Writes all of `source` in `format`; returns the number of records, and the properties that the format could not hold.
///
/// ```
/// use ioweir_trace::{Input, ReadOptions, Target, TraceError, convert, format, open_inputs};
///
/// let csv = "time_s,pid,comm,op,lba,sectors\n0.5,7,dd,RA,0,8\n";
/// let mut source = open_inputs(vec![Input::from_bytes("example.csv", csv.into())], &ReadOptions::default())?;
/// let target = Target::new("example.spc", Box::new(std::io::sink()));
/// let converted = convert(&mut *source, format("spc").expect("it is a row"), target)?;
/// assert_eq!(converted.records, 1);
/// assert!(converted.losses.iter().any(|loss| loss.what.starts_with("flags") && loss.requests == 1));
/// # Ok::<(), TraceError>(())
/// ```
///
/// # Errors
/// Errors of the source and of the target; also if the format cannot be written or cannot hold a record.
pub fn convert(source: &mut dyn TraceSource, format: &Format, target: Target) -> Result<Converted, TraceError> {
    let Some(writer) = format.write else {
        let writable: Vec<&str> =
            crate::FORMATS.iter().filter(|format| format.write.is_some()).map(|format| format.name).collect();
        return Err(target
            .error(format!("format {} cannot be written", format.name))
            .expected(format!("one of: {}", writable.join(", "))));
    };
    let mut sink = (writer.open)(target)?;
    let mut counted = Counted::new(writer.holds);
    let mut batch = Vec::with_capacity(crate::BATCH_RECORDS);
    let mut records = 0;
    loop {
        source.read_batch(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        if records == 0 {
            sink.start(source.epoch_unix_nanos());
            counted.start(source.epoch_unix_nanos());
        }
        records += batch.len() as u64;
        counted.count(&batch, source.names());
        sink.write_batch(&batch, source.names())?;
    }
    if let Some(about) = source.description() {
        sink.describe(about);
    }
    sink.finish(source.names(), source.epoch_unix_nanos())?;
    Ok(Converted { records, losses: counted.finish(source.epoch_unix_nanos()) })
}
