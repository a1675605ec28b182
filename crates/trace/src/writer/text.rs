//! Writes any text format: a heading, the text of each record, and what ends the file.

use ioweir_core::SECTOR_BYTES;

use crate::writer::{Target, TraceSink};
use crate::{Names, Position, Record, TraceError};

/// The text of one format. Its errors say what it cannot hold; the sink completes them.
pub(crate) trait Text: Send {
    /// The name of the format, for errors.
    const NAME: &'static str;
    /// The first line, with its end.
    const HEADING: &'static str = "";

    /// Takes the wall-clock time of the first request; called before any record.
    fn start(&mut self, _epoch_unix_nanos: Option<i128>) {}

    /// The text of a record.
    fn record(&mut self, record: &Record, names: &Names) -> Result<String, TraceError>;

    /// The text after the last record.
    fn end(&mut self, _names: &Names) -> Result<String, TraceError> {
        Ok(String::new())
    }
}

/// The error for a property that a format cannot hold.
#[cold]
pub(crate) fn refused(what: impl Into<String>) -> TraceError {
    TraceError::new("", Position::File, what)
}

/// The first sector and the number of sectors of a record, for formats that hold only whole sectors.
pub(crate) fn whole_sectors(record: &Record) -> Result<(u64, u64), TraceError> {
    let (offset, length) = (record.offset_bytes, record.length_bytes);
    if offset.is_multiple_of(SECTOR_BYTES) && length.is_multiple_of(SECTOR_BYTES) {
        return Ok((offset / SECTOR_BYTES, length / SECTOR_BYTES));
    }
    Err(refused(format!("offset {offset} + length {length} bytes: not whole sectors")).hint("write parquet"))
}

/// Whole seconds, and the nanoseconds beyond them.
pub(crate) const fn seconds_and_nanos(record: &Record) -> (u64, u64) {
    (record.time.0 / 1_000_000_000, record.time.0 % 1_000_000_000)
}

/// The name of a volume; empty if it has none.
pub(crate) fn volume_name(volume: u32, names: &Names) -> &str {
    names.volumes.get(volume as usize).map_or("", String::as_str)
}

/// Writes a [`Text`].
pub(crate) struct TextSink<T> {
    target: Target,
    text: T,
    started: bool,
}

impl<T: Text + 'static> TextSink<T> {
    pub(crate) fn open(target: Target, text: T) -> Result<Box<dyn TraceSink>, TraceError> {
        Ok(Box::new(Self { target, text, started: false }))
    }

    fn write(&mut self, text: Result<String, TraceError>) -> Result<(), TraceError> {
        let text = text.map_err(|error| {
            let whole = self.target.error(format!("{} cannot hold {}", T::NAME, error.problem));
            whole.expected(error.expected).hint(error.hint)
        })?;
        if !std::mem::replace(&mut self.started, true) {
            self.target.write_all(T::HEADING.as_bytes())?;
        }
        self.target.write_all(text.as_bytes())
    }
}

impl<T: Text + 'static> TraceSink for TextSink<T> {
    fn start(&mut self, epoch_unix_nanos: Option<i128>) {
        self.text.start(epoch_unix_nanos);
    }

    fn write_batch(&mut self, batch: &[Record], names: &Names) -> Result<(), TraceError> {
        for record in batch {
            let text = self.text.record(record, names);
            self.write(text)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, names: &Names, _: Option<i128>) -> Result<(), TraceError> {
        let text = self.text.end(names);
        self.write(text)?;
        self.target.flush()
    }
}
