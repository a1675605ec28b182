//! The write log: free space, and when a consistency point begins.
//!
//! The log has two halves. Writes go to one of them. When it is full, or on a timer, a consistency point (CP) freezes it,
//! and writes go to the other half. The frozen half is free again when the CP completes. If the second half fills before
//! that, writes wait.

use ioweir_core::cores::Log;

/// The log and the consistency point that empties it.
#[derive(Debug)]
pub(super) struct NvLog {
    half: u64,
    /// Bytes in the half that takes writes.
    filling: u64,
    /// Bytes that the running CP writes.
    frozen: u64,
    /// The number of operations of the running CP: total and remaining.
    operations: u32,
    left: u32,
    /// The highest fill of the log, in bytes.
    pub(super) filled_max: u64,
    /// The number of CPs that have begun.
    pub(super) points: u64,
    /// Bytes taken so far.
    logged: u64,
}

impl NvLog {
    pub(super) fn new(bytes: u64) -> Self {
        Self { half: bytes / 2, filling: 0, frozen: 0, operations: 0, left: 0, filled_max: 0, points: 0, logged: 0 }
    }

    /// Adds a write of `bytes` if there is room, and returns whether it did.
    pub(super) fn append(&mut self, bytes: u64) -> bool {
        if self.filling + bytes > self.half {
            return false;
        }
        self.filling += bytes;
        self.logged += bytes;
        self.filled_max = self.filled_max.max(self.filling + self.frozen);
        true
    }

    /// Whether a CP is running.
    pub(super) fn is_flushing(&self) -> bool {
        self.left > 0
    }

    /// Begins a CP of `operations` and returns the bytes that it writes.
    pub(super) fn begin(&mut self, operations: u32) -> u64 {
        debug_assert!(!self.is_flushing(), "one consistency point at a time");
        self.frozen = std::mem::take(&mut self.filling);
        (self.operations, self.left) = (operations, operations);
        self.points += 1;
        self.frozen
    }

    /// Completes one operation of the CP and returns whether it was the last.
    pub(super) fn operation_done(&mut self) -> bool {
        self.left -= 1;
        if self.left == 0 {
            self.frozen = 0;
        }
        self.left == 0
    }

    /// The state of the log as the policy sees it.
    pub(super) fn state(&self) -> Log {
        Log {
            logged_bytes: self.logged,
            room_bytes: self.half - self.filling,
            flushing_bytes: if self.is_flushing() { self.frozen.max(1) } else { 0 },
            points: self.points,
        }
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
}
