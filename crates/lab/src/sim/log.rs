//! The write log of a storage server, and the consistency points that empty it.
//!
//! The log has two halves. Writes go to one of them. When it is full, or on a timer, a consistency point (CP) freezes it,
//! and writes go to the other half. The frozen half is free again when the CP completes. If the second half fills before
//! that, writes wait.

use std::collections::VecDeque;

use ioweir_core::cores::Log;
use ioweir_core::{Flags, Nanos, Operation, Priority, SECTOR_BYTES, StreamId};
use ioweir_trace::Record;

/// The log and the consistency point that empties it.
#[derive(Clone, Debug)]
pub(crate) struct NvLog {
    half: u64,
    /// Bytes in the half that takes writes.
    filling: u64,
    /// Bytes that the running CP writes.
    frozen: u64,
    /// The number of operations of the running CP: total and remaining.
    operations: u32,
    left: u32,
    /// The highest fill of the log, in bytes.
    pub(crate) filled_max: u64,
    /// The number of CPs that have begun.
    pub(crate) points: u64,
    /// Bytes taken so far.
    logged: u64,
}

impl NvLog {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { half: bytes / 2, filling: 0, frozen: 0, operations: 0, left: 0, filled_max: 0, points: 0, logged: 0 }
    }

    /// Adds a write of `bytes` if there is room, and returns whether it did.
    pub(crate) fn append(&mut self, bytes: u64) -> bool {
        if self.filling + bytes > self.half {
            return false;
        }
        self.filling += bytes;
        self.logged += bytes;
        self.filled_max = self.filled_max.max(self.filling + self.frozen);
        true
    }

    /// Whether a CP is running.
    pub(crate) fn is_flushing(&self) -> bool {
        self.left > 0
    }

    /// Begins a CP of `operations` and returns the bytes that it writes.
    pub(crate) fn begin(&mut self, operations: u32) -> u64 {
        debug_assert!(!self.is_flushing(), "one consistency point at a time");
        self.frozen = std::mem::take(&mut self.filling);
        (self.operations, self.left) = (operations, operations);
        self.points += 1;
        self.frozen
    }

    /// Completes one operation of the CP and returns whether it was the last.
    pub(crate) fn operation_done(&mut self) -> bool {
        self.left -= 1;
        if self.left == 0 {
            self.frozen = 0;
        }
        self.left == 0
    }

    /// The state of the log as the policy sees it.
    pub(crate) fn state(&self) -> Log {
        Log {
            logged_bytes: self.logged,
            room_bytes: self.half - self.filling,
            flushing_bytes: if self.is_flushing() { self.frozen.max(1) } else { 0 },
            points: self.points,
        }
    }
}

/// The write log of a machine, and how its consistency points write it to the devices.
#[derive(Clone, Debug)]
pub struct MachineLog {
    /// The size of both halves together.
    pub bytes: u64,
    /// Bytes that the log takes for each write beside its data.
    pub record_bytes: u64,
    /// The longest time from a point, or from the first write after it, to the next point.
    pub interval: Nanos,
    /// The client as which points write.
    pub stream: StreamId,
    pub priority: Priority,
    /// The length of a write of a point, or the greatest.
    pub write_bytes: u64,
    /// The number of writes of a point, among which its data are divided, if it is always the same.
    pub writes: Option<u32>,
    /// The place of the first write.
    pub first_byte: u64,
    /// The number of writes after which points begin again at the first place; above zero.
    pub places: u64,
}

/// The figures of a log at the end of a run, from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnded {
    pub bytes: u64,
    /// The highest fill.
    pub filled_max_bytes: u64,
    /// Consistency points that have begun.
    pub points: u64,
    /// Writes of points that devices have completed.
    pub writes: u64,
}

/// The log of a running machine: its contents, the writes that wait for room, and the writes that a point has not sent yet.
#[derive(Clone, Debug)]
pub(super) struct Points {
    spec: MachineLog,
    log: NvLog,
    /// Requests that wait for room, in the order in which they asked.
    waiting: VecDeque<u32>,
    /// When the running or the last point began.
    begun: Nanos,
    /// When the next point begins at the latest; [`Nanos::NEVER`] while nothing is in the half that takes writes.
    due: Nanos,
    /// Whether a point became due while another was running.
    is_late: bool,
    /// Writes of the running point that have not been sent to the cores, and their length.
    unsent: u32,
    length_bytes: u64,
    /// The place of the next write.
    place: u64,
    completed: u64,
}

impl Points {
    pub(super) fn new(spec: MachineLog) -> Self {
        Self {
            log: NvLog::new(spec.bytes),
            spec,
            waiting: VecDeque::new(),
            begun: Nanos::ZERO,
            due: Nanos::NEVER,
            is_late: false,
            unsent: 0,
            length_bytes: 0,
            place: 0,
            completed: 0,
        }
    }

    /// The state of the log, for the schedule of the cores.
    pub(super) fn state(&self) -> Log {
        self.log.state()
    }

    /// When a point is due.
    pub(super) fn due(&self) -> Nanos {
        self.due
    }

    /// Whether a request of a client is answered once it is in the log. A write that does not fit into half of the log goes to its
    /// device; so do reads and discards. A flush finds everything that was answered in the log.
    pub(super) fn takes(&self, record: &Record) -> bool {
        match record.operation {
            Operation::Write => self.size(record.length_bytes) <= self.spec.bytes / 2,
            Operation::Flush => true,
            Operation::Read | Operation::Discard => false,
        }
    }

    fn size(&self, bytes: u64) -> u64 {
        bytes.saturating_add(self.spec.record_bytes)
    }

    /// Puts a write into the log, and begins a consistency point if its half is full; returns whether there was room. Otherwise
    /// the request waits.
    pub(super) fn append(&mut self, now: Nanos, request: u32, record: &Record) -> bool {
        if record.operation != Operation::Write {
            return true;
        }
        let size = self.size(record.length_bytes);
        if !self.log.append(size) {
            if self.log.is_flushing() {
                self.waiting.push_back(request);
                return false;
            }
            self.begin(now);
            self.log.append(size);
        }
        if self.due == Nanos::NEVER && !self.is_late {
            self.due = self.begun.after(self.spec.interval).max(now);
        }
        true
    }

    fn begin(&mut self, now: Nanos) {
        let writes = self.spec.writes.map_or(self.log.filling.div_ceil(self.spec.write_bytes).max(1), u64::from);
        self.unsent = u32::try_from(writes).unwrap_or(u32::MAX);
        self.length_bytes = match self.spec.writes {
            // Writes are whole sectors.
            Some(writes) => self.log.filling.div_ceil(u64::from(writes)).next_multiple_of(SECTOR_BYTES),
            None => self.spec.write_bytes,
        };
        self.log.begin(self.unsent);
        (self.begun, self.due, self.is_late) = (now, Nanos::NEVER, false);
    }

    /// Begins the point that is due. While another is running, it begins when that one ends.
    pub(super) fn begin_due(&mut self, now: Nanos) {
        if self.due > now {
            return;
        }
        if self.log.is_flushing() {
            (self.due, self.is_late) = (Nanos::NEVER, true);
        } else {
            self.begin(now);
        }
    }

    /// The next write of the running point.
    pub(super) fn next_write(&mut self, now: Nanos) -> Option<Record> {
        self.unsent = self.unsent.checked_sub(1)?;
        let MachineLog { stream, priority, write_bytes, first_byte, places, .. } = self.spec;
        let offset_bytes = first_byte + self.place * write_bytes;
        self.place = (self.place + 1) % places;
        Some(Record {
            time: now,
            offset_bytes,
            length_bytes: self.length_bytes,
            operation: Operation::Write,
            flags: Flags::NONE,
            stream,
            volume: 0,
            priority,
            latency: None,
        })
    }

    /// A device has completed a write of the running point. After the last one, returns the requests that may try again.
    pub(super) fn write_done(&mut self, now: Nanos) -> VecDeque<u32> {
        self.completed += 1;
        if !self.log.operation_done() {
            return VecDeque::new();
        }
        if self.is_late || !self.waiting.is_empty() {
            self.begin(now);
        }
        std::mem::take(&mut self.waiting)
    }

    pub(super) fn ended(&self) -> LogEnded {
        let NvLog { filled_max: filled_max_bytes, points, .. } = self.log;
        LogEnded { bytes: self.spec.bytes, filled_max_bytes, points, writes: self.completed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_log_refuses_until_an_operation_ends() {
        let mut log = NvLog::new(200);
        assert!(log.append(60) && log.append(40) && !log.append(1));
        assert_eq!((log.begin(2), log.is_flushing()), (100, true));
        assert!(log.append(100) && !log.append(1));
        let full = Log { logged_bytes: 200, room_bytes: 0, flushing_bytes: 100, points: 1 };
        assert_eq!((log.filled_max, log.state()), (200, full));
        assert!(!log.operation_done() && log.state() == full);
        assert!(log.operation_done() && log.state() == Log { flushing_bytes: 0, ..full });
        assert!(!log.append(1), "the other half takes writes only once a point has begun");
    }

    #[test]
    fn writes_that_fit_and_flushes_are_logged() {
        let spec = MachineLog {
            bytes: 1000,
            record_bytes: 100,
            interval: Nanos(1),
            stream: StreamId(0),
            priority: Priority::NONE,
            write_bytes: 100,
            writes: None,
            first_byte: 0,
            places: 3,
        };
        let mut points = Points::new(spec);
        let record = points.clone();
        let of = |operation, length_bytes| {
            let write = Points { unsent: 1, ..record.clone() }.next_write(Nanos::ZERO).expect("one is unsent");
            Record { operation, length_bytes, ..write }
        };
        let takes = |operation, bytes| record.takes(&of(operation, bytes));
        assert!(takes(Operation::Write, 400) && !takes(Operation::Write, 401) && !takes(Operation::Write, u64::MAX));
        assert!(takes(Operation::Flush, 0) && !takes(Operation::Read, 1) && !takes(Operation::Discard, 1));
        // Points write side by side, and begin again after the last place.
        points.unsent = 4;
        let places: Vec<u64> =
            std::iter::from_fn(|| points.next_write(Nanos::ZERO)).map(|write| write.offset_bytes).collect();
        assert_eq!(places, [0, 100, 200, 0]);
    }
}
