//! Memory of a server for reads that wait for their devices.

use std::collections::VecDeque;

/// Memory that is free, and the reads that wait for some, first come, first served.
#[derive(Debug)]
pub(super) struct Buffers {
    bytes: u64,
    free: u64,
    /// Requests, and the bytes that they need.
    waiting: VecDeque<(u32, u64)>,
}

impl Buffers {
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, free: bytes, waiting: VecDeque::new() }
    }

    /// Takes memory for a read, or queues it. A read of more than there is takes all.
    pub(super) fn take(&mut self, request: u32, bytes: u64) -> bool {
        let bytes = bytes.min(self.bytes);
        let has_room = self.waiting.is_empty() && bytes <= self.free;
        if has_room {
            self.free -= bytes;
        } else {
            self.waiting.push_back((request, bytes));
        }
        has_room
    }

    /// Takes back the memory of a read, and returns the requests that have theirs now.
    pub(super) fn free(&mut self, bytes: u64) -> Vec<u32> {
        self.free += bytes.min(self.bytes);
        let mut granted = Vec::new();
        while let Some((request, bytes)) = self.waiting.front().copied().filter(|(_, bytes)| *bytes <= self.free) {
            self.waiting.pop_front();
            self.free -= bytes;
            granted.push(request);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_to_reads_in_their_order() {
        let mut buffers = Buffers::new(100);
        assert!(
            buffers.take(1, 60) && !buffers.take(2, 50) && !buffers.take(3, 10),
            "the small one waits for its turn"
        );
        assert_eq!(buffers.free(60), [2, 3]);
        assert!(!buffers.take(4, 1_000), "it needs all");
        assert_eq!((buffers.free(50), buffers.free(10)), (vec![], vec![4]));
        assert!(!buffers.take(5, 1));
        assert_eq!(buffers.free(1_000), [5]);
    }
}
