//! How does a trace get into a file of another format?

use std::io::{self, Write};

use super::{Format, Names, Position, Record, TraceError, TraceSource};

/// Where a trace is written to: a stream and its name for errors.
pub struct Target {
    name: String,
    stream: Box<dyn Write + Send>,
}

impl Target {
    /// A stream that is written in small pieces: give a buffered one.
    pub fn new(name: impl Into<String>, stream: Box<dyn Write + Send>) -> Self {
        Self { name: name.into(), stream }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn error(&self, problem: impl Into<String>) -> TraceError {
        TraceError::new(&*self.name, Position::File, problem)
    }

    pub(super) fn broken(&self, error: &io::Error) -> TraceError {
        self.error(format!("cannot be written: {error}"))
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.stream.write_all(bytes).map_err(|error| self.broken(&error))
    }

    pub(super) fn flush(&mut self) -> Result<(), TraceError> {
        self.stream.flush().map_err(|error| self.broken(&error))
    }

    pub(super) fn into_stream(self) -> Box<dyn Write + Send> {
        self.stream
    }
}

/// A writer of one format.
pub trait TraceSink: Send {
    /// Writes records; `names` holds at least the names they use.
    ///
    /// # Errors
    /// [`TraceError`] for what the format cannot hold, and for a stream that fails.
    fn write_batch(&mut self, batch: &[Record], names: &Names) -> Result<(), TraceError>;

    /// Writes what is known only at the end.
    ///
    /// # Errors
    /// [`TraceError`] for a stream that fails.
    fn finish(self: Box<Self>, names: &Names, epoch_unix_nanos: Option<i128>) -> Result<(), TraceError>;
}

/// Writes all of `source` as `format`; returns the number of records.
///
/// # Errors
/// [`TraceError`] of the source, of the target, and where the format cannot be written or cannot hold a record.
pub fn convert(source: &mut dyn TraceSource, format: &Format, target: Target) -> Result<u64, TraceError> {
    let Some(open) = format.write else {
        let writable: Vec<&str> =
            super::FORMATS.iter().filter(|format| format.write.is_some()).map(|format| format.name).collect();
        return Err(target
            .error(format!("format {} cannot be written", format.name))
            .expected(format!("one of: {}", writable.join(", "))));
    };
    let mut sink = open(target)?;
    let mut batch = Vec::with_capacity(super::BATCH_RECORDS);
    let mut records = 0;
    loop {
        source.read_batch(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        records += batch.len() as u64;
        sink.write_batch(&batch, source.names())?;
    }
    sink.finish(source.names(), source.epoch_unix_nanos())?;
    Ok(records)
}
