//! Finds the latencies of requests whose completion is an event of its own.
//!
//! A completion belongs to a request on the same device, in the same direction, whose bytes it covers. Where that leaves a
//! doubt the request gets no latency: a newer request for the same bytes retires an older one that is still open, and a
//! hole in the capture retires all that are open.
//!
//! Completions come after the record that they complete, so a latency can be filled in only while the record still waits in
//! the window of [`crate::reader::order::Order`]. A request that is outstanding for longer than the window gets no latency.
//! This bounds the memory for any trace.

use std::collections::BTreeMap;

use ioweir_core::Operation;

/// The completion of a request, or of a part of it: requests are merged and split on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) volume: u32,
    pub(crate) operation: Operation,
    pub(crate) offset_bytes: u64,
    /// Zero for the end of a write whose data completed earlier and is now durable.
    pub(crate) length_bytes: u64,
    pub(crate) time_nanos: u64,
}

/// Lane, offset and time, which identify a waiting record. A lane is one direction of one volume.
pub(crate) type Key = (u64, u64, u64);

/// The key of a request.
pub(crate) fn key_of(volume: u32, operation: Operation, offset_bytes: u64, time_nanos: u64) -> Key {
    (lane(volume, operation), offset_bytes, time_nanos)
}

fn lane(volume: u32, operation: Operation) -> u64 {
    u64::from(volume) << 2 | operation as u64
}

/// A request that has not completed. Within a lane no two of them overlap.
#[derive(Clone, Copy, Debug)]
struct Open {
    end_bytes: u64,
    remaining_bytes: u64,
    /// When an older request for exactly these bytes arrived, if it had not completed.
    twin_nanos: Option<u64>,
}

/// A request that has completed and still waits in the window.
#[derive(Clone, Copy, Debug)]
struct Done {
    end_bytes: u64,
    at_nanos: u64,
    twin_nanos: Option<u64>,
}

/// The records that wait for their completion, or for a correction of it.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    open: BTreeMap<Key, Open>,
    done: BTreeMap<Key, Done>,
    longest_bytes: u64,
    finished: Vec<(Key, u64)>,
    emptied: Vec<Key>,
    /// Requests that a newer one for the same bytes has retired.
    pub(crate) superseded: u64,
    /// Completions of data that no open request had asked for.
    pub(crate) unmatched: u64,
}

impl Latencies {
    pub(crate) fn add(&mut self, key: Key, length_bytes: u64) {
        if length_bytes == 0 {
            return;
        }
        self.longest_bytes = self.longest_bytes.max(length_bytes);
        let end_bytes = key.1.saturating_add(length_bytes);
        let mut twin_nanos = None;
        self.emptied.clear();
        for (other, open) in self.open.range(self.near(key.0, key.1, end_bytes)) {
            if open.end_bytes > key.1 {
                self.emptied.push(*other);
                if other.1 == key.1 && open.end_bytes == end_bytes && open.remaining_bytes == length_bytes {
                    twin_nanos = Some(other.2);
                }
            }
        }
        for other in &self.emptied {
            self.open.remove(other);
        }
        self.superseded += self.emptied.len() as u64;
        self.open.insert(key, Open { end_bytes, remaining_bytes: length_bytes, twin_nanos });
    }

    /// The keys at which a request that overlaps these bytes can begin.
    fn near(&self, lane: u64, start: u64, end: u64) -> std::ops::Range<Key> {
        (lane, start.saturating_sub(self.longest_bytes), 0)..(lane, end, 0)
    }

    /// Forgets a request that leaves the window, and returns whether it had not completed.
    pub(crate) fn remove(&mut self, key: Key) -> bool {
        self.done.remove(&key);
        self.open.remove(&key).is_some()
    }

    /// The number of requests that have not completed.
    pub(crate) fn open(&self) -> u64 {
        self.open.len() as u64
    }

    /// Retires every open request, and returns how many there were: events are missing here.
    pub(crate) fn retire(&mut self) -> u64 {
        let retired = self.open.len() as u64;
        self.open.clear();
        self.done.clear();
        retired
    }

    /// The records whose last byte this completes, each with the time of its completion.
    pub(crate) fn complete(&mut self, done: &Completion) -> &[(Key, u64)] {
        self.finished.clear();
        let Completion { offset_bytes: start, length_bytes, time_nanos: now, .. } = *done;
        let lane = lane(done.volume, done.operation);
        if length_bytes == 0 {
            let last = self.done.range_mut((lane, start, 0)..=(lane, start, now)).next_back();
            if let Some((key, done)) = last {
                done.at_nanos = now;
                self.finished.push((*key, now));
            }
            return &self.finished;
        }
        let end = start.saturating_add(length_bytes);
        let mut covered = false;
        self.emptied.clear();
        let near = self.near(lane, start, end);
        for (key, open) in self.open.range_mut(near) {
            if open.end_bytes <= start || key.2 > now {
                continue;
            }
            covered = true;
            let overlap = open.end_bytes.min(end) - key.1.max(start);
            open.remaining_bytes = open.remaining_bytes.saturating_sub(overlap);
            if open.remaining_bytes == 0 {
                self.emptied.push(*key);
            }
        }
        for key in &self.emptied {
            if let Some(Open { end_bytes, twin_nanos, .. }) = self.open.remove(key) {
                // A completion belongs to either of two requests for the same bytes only if it covers exactly these bytes.
                let twin_nanos = twin_nanos.filter(|_| key.1 == start && end_bytes == end);
                self.done.insert(*key, Done { end_bytes, at_nanos: now, twin_nanos });
                self.finished.push((*key, now));
            }
        }
        if !covered && !self.complete_twin((lane, start, now), end) {
            self.unmatched += 1;
        }
        &self.finished
    }

    /// A second completion of the same bytes: both of two requests for them have completed, the older one first.
    fn complete_twin(&mut self, (lane, start, now): Key, end: u64) -> bool {
        let last = self.done.range_mut((lane, start, 0)..=(lane, start, now)).next_back();
        let Some((key, done)) = last.filter(|(_, done)| done.end_bytes == end) else { return false };
        let Some(twin) = done.twin_nanos.take() else { return false };
        self.finished.push(((lane, start, twin), done.at_nanos));
        self.finished.push((*key, now));
        done.at_nanos = now;
        self.superseded = self.superseded.saturating_sub(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Operation = Operation::Read;

    fn done(offset_bytes: u64, length_bytes: u64) -> Completion {
        Completion { volume: 0, operation: READ, offset_bytes, length_bytes, time_nanos: 100 }
    }

    fn read(volume: u32, offset_bytes: u64, time_nanos: u64) -> Key {
        key_of(volume, READ, offset_bytes, time_nanos)
    }

    fn three() -> Latencies {
        let mut latencies = Latencies::default();
        latencies.add(read(0, 0, 1), 4096);
        latencies.add(read(0, 4096, 2), 4096);
        latencies.add(read(1, 0, 3), 4096);
        latencies
    }

    fn keys(finished: &[(Key, u64)]) -> Vec<(u64, u64)> {
        finished.iter().map(|(key, at)| (key.2, *at)).collect()
    }

    #[test]
    fn merged_request_completes_all_members() {
        assert_eq!(keys(three().complete(&done(0, 8192))), [(1, 100), (2, 100)]);
    }

    #[test]
    fn split_request_completes_with_its_last_part() {
        let mut latencies = three();
        latencies.add(read(0, 8192, 4), 8192);
        assert_eq!(keys(latencies.complete(&done(12_288, 4096))), []);
        assert_eq!(keys(latencies.complete(&done(4096, 8192))), [(2, 100), (4, 100)]);
    }

    #[test]
    fn completion_without_length_corrects_the_last() {
        let mut latencies = three();
        assert_eq!(keys(latencies.complete(&done(0, 0))), []);
        latencies.complete(&done(0, 4096));
        assert_eq!(keys(latencies.complete(&done(0, 0))), [(1, 100)]);
    }

    #[test]
    fn earlier_completion_is_not_its_own() {
        let mut latencies = Latencies::default();
        latencies.add(read(0, 0, 101), 4096);
        assert_eq!(keys(latencies.complete(&done(0, 4096))), []);
    }

    #[test]
    fn a_completion_ends_only_requests_of_its_direction() {
        let mut latencies = three();
        let write = Completion { operation: Operation::Write, ..done(0, 4096) };
        assert_eq!(keys(latencies.complete(&write)), []);
        assert_eq!(latencies.unmatched, 1);
    }

    #[test]
    fn newer_request_retires_older_of_same_bytes() {
        let mut latencies = three();
        latencies.add(read(0, 0, 50), 8192);
        assert_eq!(keys(latencies.complete(&done(0, 8192))), [(50, 100)]);
        assert_eq!(latencies.superseded, 2);
    }

    #[test]
    fn two_completions_of_same_bytes_end_both() {
        let mut latencies = three();
        latencies.add(read(0, 0, 50), 4096);
        assert_eq!(keys(latencies.complete(&done(0, 4096))), [(50, 100)]);
        let second = Completion { time_nanos: 110, ..done(0, 4096) };
        assert_eq!(keys(latencies.complete(&second)), [(1, 100), (50, 110)]);
        assert_eq!((latencies.superseded, latencies.unmatched), (0, 0));
    }

    #[test]
    fn a_hole_retires_every_open_request() {
        let mut latencies = three();
        assert_eq!(latencies.retire(), 3);
        assert_eq!(keys(latencies.complete(&done(0, 8192))), []);
        assert_eq!(latencies.unmatched, 1);
    }
}
