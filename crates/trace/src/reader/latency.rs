//! Finds the latencies of requests whose completion is an event of its own.
//!
//! Completions come after the record that they complete, so a latency can be filled in only while the record still waits in
//! the window of [`crate::reader::order::Order`]. A request that is outstanding for longer than the window gets no latency.
//! This bounds the memory for any trace.

use std::collections::BTreeMap;

/// The completion of a request, or of a part of it: requests are merged and split on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) volume: u32,
    pub(crate) offset_bytes: u64,
    /// Zero for the end of a write whose data completed earlier and is now durable.
    pub(crate) length_bytes: u64,
    pub(crate) time_nanos: u64,
}

/// Volume, offset and time, which identify a waiting record.
pub(crate) type Key = (u32, u64, u64);

#[derive(Clone, Copy, Debug)]
struct Open {
    end_bytes: u64,
    remaining_bytes: u64,
}

/// The records that wait for their completion, or for a correction of it.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    open: BTreeMap<Key, Open>,
    longest_bytes: u64,
    finished: Vec<Key>,
}

impl Latencies {
    pub(crate) fn add(&mut self, key: Key, length_bytes: u64) {
        if length_bytes > 0 {
            self.longest_bytes = self.longest_bytes.max(length_bytes);
            let end_bytes = key.1.saturating_add(length_bytes);
            self.open.insert(key, Open { end_bytes, remaining_bytes: length_bytes });
        }
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.open.remove(&key);
    }

    /// The records whose last byte this completes.
    pub(crate) fn complete(&mut self, done: &Completion) -> &[Key] {
        self.finished.clear();
        let Completion { volume, offset_bytes: start, length_bytes, .. } = *done;
        if length_bytes == 0 {
            let last = self.open.range((volume, start, 0)..=(volume, start, done.time_nanos)).next_back();
            self.finished.extend(last.filter(|(_, open)| open.remaining_bytes == 0).map(|(key, _)| *key));
            return &self.finished;
        }
        let end = start.saturating_add(length_bytes);
        let first = start.saturating_sub(self.longest_bytes);
        for (key, open) in self.open.range_mut((volume, first, 0)..(volume, end, 0)) {
            if open.remaining_bytes == 0 || open.end_bytes <= start || key.2 > done.time_nanos {
                continue;
            }
            let overlap = open.end_bytes.min(end) - key.1.max(start);
            open.remaining_bytes = open.remaining_bytes.saturating_sub(overlap);
            if open.remaining_bytes == 0 {
                self.finished.push(*key);
            }
        }
        &self.finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(offset_bytes: u64, length_bytes: u64) -> Completion {
        Completion { volume: 0, offset_bytes, length_bytes, time_nanos: 100 }
    }

    fn three() -> Latencies {
        let mut latencies = Latencies::default();
        latencies.add((0, 0, 1), 4096);
        latencies.add((0, 4096, 2), 4096);
        latencies.add((1, 0, 3), 4096);
        latencies
    }

    #[test]
    fn a_merged_request_completes_all_that_it_was_merged_of() {
        assert_eq!(three().complete(&done(0, 8192)), [(0, 0, 1), (0, 4096, 2)]);
    }

    #[test]
    fn a_split_request_is_complete_with_its_last_part() {
        let mut latencies = three();
        latencies.add((0, 8192, 4), 8192);
        assert_eq!(latencies.complete(&done(12_288, 4096)), []);
        assert_eq!(latencies.complete(&done(4096, 8192)), [(0, 4096, 2), (0, 8192, 4)]);
    }

    #[test]
    fn a_completion_without_length_corrects_the_last_that_was_complete() {
        let mut latencies = three();
        assert_eq!(latencies.complete(&done(0, 0)), []);
        latencies.complete(&done(0, 4096));
        assert_eq!(latencies.complete(&done(0, 0)), [(0, 0, 1)]);
    }

    #[test]
    fn a_completion_before_the_request_is_not_its_own() {
        let mut latencies = Latencies::default();
        latencies.add((0, 0, 101), 4096);
        assert_eq!(latencies.complete(&done(0, 4096)), []);
    }
}
