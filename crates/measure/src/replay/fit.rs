//! The requests of a trace that a device can be given: in one address space, on its sectors, and only such as are allowed.

use ioweir_core::{Nanos, Operation};
use ioweir_trace::{Names, Position, Record, TraceError, TraceSource};
use serde::Serialize;

use ioweir_lab::run::Fold;

/// The largest request that is replayed.
const LENGTH_MAX: u64 = 64 << 20;

/// The limits that a device and its user set to the requests of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// The size of the device.
    pub size_bytes: u64,
    /// The number of bytes of which offsets and lengths must be multiples.
    pub alignment_bytes: u64,
    /// Whether the device may be written.
    pub may_write: bool,
    /// Leave out all requests except reads.
    pub reads_only: bool,
    /// Move requests past the end to the remainder of their address.
    pub fold: bool,
    /// The most requests.
    pub requests: Option<u64>,
    /// The latest arrival.
    pub until: Option<Nanos>,
}

/// The changes to a trace's requests, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Requests that are replayed.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Writes that were left out.
    pub writes_left_out: u64,
    /// Flushes and discards that were left out.
    pub others_left_out: u64,
    /// Requests without length, which no device can be asked for.
    pub empty_left_out: u64,
    /// Requests that were moved because they lie past the end.
    pub folded: u64,
    /// Requests that were made longer, to whole sectors of the device.
    pub widened: u64,
    /// The byte after the highest one of any request, before folding.
    pub end_bytes: u64,
}

/// A trace with its requests adapted to a device.
pub struct Fitted<'a> {
    source: Box<dyn TraceSource + 'a>,
    name: String,
    fit: Fit,
    left: Left,
    number: u64,
    volume: Option<u32>,
    is_over: bool,
}

impl<'a> Fitted<'a> {
    /// The requests of a trace of this name that suit the device.
    #[must_use]
    pub fn new(source: Box<dyn TraceSource + 'a>, name: impl Into<String>, fit: Fit) -> Self {
        Self { source, name: name.into(), fit, left: Left::default(), number: 0, volume: None, is_over: false }
    }

    /// The changes so far.
    #[must_use]
    pub const fn left(&self) -> &Left {
        &self.left
    }

    /// Reads all of it, and says what would be done. What follows the last request that is replayed is read too, as far as it can
    /// be: the remarks are about the whole trace.
    ///
    /// # Errors
    /// The first request that cannot be replayed.
    pub fn check(&mut self) -> Result<Left, TraceError> {
        let mut batch = Vec::new();
        loop {
            self.read_batch(&mut batch)?;
            if batch.is_empty() {
                break;
            }
        }
        while self.source.read_batch(&mut batch).is_ok() && !batch.is_empty() {}
        if self.left.requests == 0 {
            let error = TraceError::new(&*self.name, Position::File, "nothing of it is replayed");
            return Err(if self.left.writes_left_out > 0 {
                error
                    .expected("a trace with reads")
                    .hint("--scratch FILE replays its writes too, into a file made for it")
            } else {
                error.expected("a trace with reads or writes")
            });
        }
        Ok(self.left.clone())
    }

    #[cold]
    fn error(&self, problem: String) -> TraceError {
        TraceError::new(&*self.name, Position::File, format!("request {}: {problem}", self.number))
    }

    /// The request as the device takes it; `None` if it is left out.
    fn fitted(&mut self, record: &Record) -> Result<Option<Record>, TraceError> {
        self.number += 1;
        if *self.volume.get_or_insert(record.volume) != record.volume {
            return Err(self
                .error("the trace holds several address spaces".into())
                .expected("one address space, as a device has")
                .hint("choose one with --volume; `ioweir trace info` lists them"));
        }
        if record.operation != Operation::Read && (self.fit.reads_only || !self.fit.may_write) {
            return self.not_allowed(record);
        }
        if record.operation == Operation::Flush {
            return Ok(Some(*record));
        }
        if record.length_bytes == 0 {
            self.left.empty_left_out += 1;
            return Ok(None);
        }
        self.placed(record).map(Some)
    }

    fn not_allowed(&mut self, record: &Record) -> Result<Option<Record>, TraceError> {
        if !self.fit.reads_only {
            return Err(self
                .error(format!("the trace has a {}, and the device may not be written", record.operation.name()))
                .expected("reads alone")
                .hint(
                    "--reads-only leaves all else out, --scratch FILE replays it into a file made for it, and --write DEVICE \
                     lets it destroy what the device holds",
                ));
        }
        match record.operation {
            Operation::Write => self.left.writes_left_out += 1,
            _ => self.left.others_left_out += 1,
        }
        Ok(None)
    }

    /// The request on whole sectors of the device, within its end.
    fn placed(&mut self, record: &Record) -> Result<Record, TraceError> {
        let Fit { alignment_bytes, size_bytes, fold, .. } = self.fit;
        let step = alignment_bytes.max(1);
        let end = record.offset_bytes.saturating_add(record.length_bytes);
        self.left.end_bytes = self.left.end_bytes.max(end);
        let mut offset = record.offset_bytes / step * step;
        let mut length = end.div_ceil(step).saturating_mul(step).saturating_sub(offset);
        self.left.widened += u64::from(length != record.length_bytes);
        let size = size_bytes / step * step;
        if length > size {
            return Err(self
                .error(format!("has {length} bytes, and all of the device {size_bytes}"))
                .expected("a device as large as the traced one"));
        }
        if length > LENGTH_MAX && record.operation != Operation::Discard {
            return Err(self.error(format!("{length} bytes in one request")).expected(format!("at most {LENGTH_MAX}")));
        }
        if offset.saturating_add(length) > size && !fold {
            return Err(self
                .error(format!("ends at byte {end}, past the end of the device at {size_bytes}"))
                .expected("a device as large as the traced one")
                .hint("--fold moves such requests to the remainder of their address"));
        }
        if fold && let Some((folded, kept)) = Fold::onto(size).place(offset, length) {
            (offset, length) = (folded / step * step, kept);
            self.left.folded += 1;
        }
        Ok(Record { offset_bytes: offset, length_bytes: length, ..*record })
    }
}

impl TraceSource for Fitted<'_> {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        let mut read = Vec::new();
        while batch.is_empty() && !self.is_over {
            self.source.read_batch(&mut read)?;
            self.is_over = read.is_empty();
            for record in &read {
                let is_late = self.fit.until.is_some_and(|until| record.time > until);
                if is_late || self.fit.requests.is_some_and(|most| self.left.requests >= most) {
                    self.is_over = true;
                    break;
                }
                if let Some(record) = self.fitted(record)? {
                    self.left.requests += 1;
                    self.left.bytes = self.left.bytes.saturating_add(record.length_bytes);
                    // One address space, whatever number it has in the trace.
                    batch.push(Record { volume: 0, ..record });
                }
            }
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        self.source.names()
    }

    fn inner(&self) -> Option<&dyn TraceSource> {
        Some(&*self.source)
    }
}
