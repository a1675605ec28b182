//! Reads ahead of those that a client will ask for.

use ioweir_core::{Flags, Nanos, Operation, Priority, StreamId};
use ioweir_trace::Record;

/// Reads ahead of clients that read on.
#[derive(Clone, Debug)]
pub struct ReadAhead {
    /// The client as which the server reads ahead.
    pub stream: StreamId,
    pub priority: Priority,
    /// The length of a read ahead; above zero.
    pub bytes: u64,
    /// The size of the devices that serve it.
    pub end_byte: u64,
    /// Whether it reads ahead of each class.
    pub is_ahead_of: Vec<bool>,
}

impl ReadAhead {
    /// The read ahead that follows from a read of a class which continues its client's last one: when that comes to a multiple of
    /// `bytes`, as many from there on.
    pub(super) fn follow(&self, now: Nanos, class: usize, record: &Record) -> Option<Record> {
        let (first, end) = (record.offset_bytes, record.offset_bytes.saturating_add(record.length_bytes));
        let offset_bytes = end - end % self.bytes;
        let is_due = self.is_ahead_of[class] && record.operation == Operation::Read && offset_bytes > first;
        if !is_due || offset_bytes.saturating_add(self.bytes) > self.end_byte {
            return None;
        }
        Some(Record {
            time: now,
            offset_bytes,
            length_bytes: self.bytes,
            operation: Operation::Read,
            flags: Flags::NONE,
            stream: self.stream,
            volume: 0,
            priority: self.priority,
            latency: None,
        })
    }
}
