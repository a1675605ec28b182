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

/// A request that comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) key: Key,
    pub(crate) length_bytes: u64,
    /// How many records came before it, by which it is found in the window.
    pub(crate) number: u64,
    /// Whether a second completion without a length may follow that of its data, as it does after the flush of a write.
    pub(crate) may_end_twice: bool,
}

/// A request that has completed: its key, its number, and the time of its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) key: Key,
    pub(crate) number: u64,
    pub(crate) at_nanos: u64,
}

/// An older request for the same bytes that had not completed when a newer one came.
#[derive(Clone, Copy, Debug)]
struct Twin {
    time_nanos: u64,
    number: u64,
}

/// A request that has not completed. Within a lane no two of them overlap.
#[derive(Clone, Copy, Debug)]
struct Open {
    end_bytes: u64,
    remaining_bytes: u64,
    time_nanos: u64,
    number: u64,
    may_end_twice: bool,
    twin: Option<Twin>,
}

/// A request that has completed, still waits in the window, and may have to be corrected.
#[derive(Clone, Copy, Debug)]
struct Done {
    end_bytes: u64,
    at_nanos: u64,
    number: u64,
    twin: Option<Twin>,
}

/// The records that wait for their completion, or for a correction of it.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    /// By lane and offset.
    open: BTreeMap<(u64, u64), Open>,
    done: BTreeMap<Key, Done>,
    finished: Vec<Finished>,
    emptied: Vec<u64>,
    /// Whether the trace has completions at all.
    pub(crate) has_completions: bool,
    /// Requests that a newer one for the same bytes has retired.
    pub(crate) superseded: u64,
    /// Completions of data that no open request had asked for.
    pub(crate) unmatched: u64,
}

impl Latencies {
    pub(crate) fn add(&mut self, request: &Request) {
        let Request { key: (lane, start, time_nanos), length_bytes, number, may_end_twice } = *request;
        if length_bytes == 0 {
            return;
        }
        let end_bytes = start.saturating_add(length_bytes);
        let mut twin = None;
        self.emptied.clear();
        // The requests of a lane do not overlap, so their ends are in the order of their offsets.
        let before_end = self.open.range((lane, 0)..(lane, end_bytes)).rev();
        for ((_, offset), open) in before_end.take_while(|(_, open)| open.end_bytes > start) {
            self.emptied.push(*offset);
            if *offset == start && open.end_bytes == end_bytes && open.remaining_bytes == length_bytes {
                twin = Some(Twin { time_nanos: open.time_nanos, number: open.number });
            }
        }
        for offset in &self.emptied {
            self.open.remove(&(lane, *offset));
        }
        self.superseded += self.emptied.len() as u64;
        let open = Open { end_bytes, remaining_bytes: length_bytes, time_nanos, number, may_end_twice, twin };
        self.open.insert((lane, start), open);
    }

    /// Whether a request has not completed.
    pub(crate) fn is_open(&self, (lane, offset, time_nanos): Key) -> bool {
        self.open.get(&(lane, offset)).is_some_and(|open| open.time_nanos == time_nanos)
    }

    /// Forgets a request that leaves the window, and returns whether it had not completed.
    pub(crate) fn remove(&mut self, key: Key) -> bool {
        if !self.done.is_empty() {
            self.done.remove(&key);
        }
        self.is_open(key) && self.open.remove(&(key.0, key.1)).is_some()
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
    pub(crate) fn complete(&mut self, done: &Completion) -> &[Finished] {
        self.finished.clear();
        self.has_completions = true;
        let Completion { offset_bytes: start, length_bytes, time_nanos: now, .. } = *done;
        let lane = lane(done.volume, done.operation);
        if length_bytes == 0 {
            let last = self.done.range_mut((lane, start, 0)..=(lane, start, now)).next_back();
            if let Some((key, done)) = last {
                done.at_nanos = now;
                self.finished.push(Finished { key: *key, number: done.number, at_nanos: now });
            }
            return &self.finished;
        }
        let end = start.saturating_add(length_bytes);
        if !self.cover(lane, (start, end), now) && !self.complete_twin((lane, start, now), end) {
            self.unmatched += 1;
        }
        &self.finished
    }

    /// Takes completed bytes off the open requests that they belong to, and returns whether there was one.
    fn cover(&mut self, lane: u64, (start, end): (u64, u64), now: u64) -> bool {
        let mut covered = false;
        self.emptied.clear();
        let before_end = self.open.range_mut((lane, 0)..(lane, end)).rev();
        for ((_, offset), open) in before_end.take_while(|(_, open)| open.end_bytes > start) {
            if open.time_nanos > now {
                continue;
            }
            covered = true;
            let overlap = open.end_bytes.min(end) - (*offset).max(start);
            open.remaining_bytes = open.remaining_bytes.saturating_sub(overlap);
            if open.remaining_bytes == 0 {
                self.emptied.push(*offset);
            }
        }
        while let Some(offset) = self.emptied.pop() {
            let Some(open) = self.open.remove(&(lane, offset)) else { continue };
            let Open { end_bytes, number, .. } = open;
            let key = (lane, offset, open.time_nanos);
            // A completion belongs to either of two requests for the same bytes only if it covers exactly these bytes.
            let twin = open.twin.filter(|_| offset == start && end_bytes == end);
            if open.may_end_twice || twin.is_some() {
                self.done.insert(key, Done { end_bytes, at_nanos: now, number, twin });
            }
            self.finished.push(Finished { key, number, at_nanos: now });
        }
        covered
    }

    /// A second completion of the same bytes: both of two requests for them have completed, the older one first.
    fn complete_twin(&mut self, (lane, start, now): Key, end: u64) -> bool {
        let last = self.done.range_mut((lane, start, 0)..=(lane, start, now)).next_back();
        let Some((key, done)) = last.filter(|(_, done)| done.end_bytes == end) else { return false };
        let Some(twin) = done.twin.take() else { return false };
        let older = (lane, start, twin.time_nanos);
        self.finished.push(Finished { key: older, number: twin.number, at_nanos: done.at_nanos });
        self.finished.push(Finished { key: *key, number: done.number, at_nanos: now });
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

    fn add(latencies: &mut Latencies, key: Key, length_bytes: u64) {
        latencies.add(&Request { key, length_bytes, number: key.2, may_end_twice: true });
    }

    fn three() -> Latencies {
        let mut latencies = Latencies::default();
        add(&mut latencies, read(0, 0, 1), 4096);
        add(&mut latencies, read(0, 4096, 2), 4096);
        add(&mut latencies, read(1, 0, 3), 4096);
        latencies
    }

    fn keys(finished: &[Finished]) -> Vec<(u64, u64)> {
        finished.iter().map(|finished| (finished.key.2, finished.at_nanos)).collect()
    }

    #[test]
    fn merged_request_completes_all_members() {
        assert_eq!(keys(three().complete(&done(0, 8192))), [(1, 100), (2, 100)]);
    }

    #[test]
    fn split_request_completes_with_its_last_part() {
        let mut latencies = three();
        add(&mut latencies, read(0, 8192, 4), 8192);
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
        add(&mut latencies, read(0, 0, 101), 4096);
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
        add(&mut latencies, read(0, 0, 50), 8192);
        assert_eq!(keys(latencies.complete(&done(0, 8192))), [(50, 100)]);
        assert_eq!(latencies.superseded, 2);
    }

    #[test]
    fn two_completions_of_same_bytes_end_both() {
        let mut latencies = three();
        add(&mut latencies, read(0, 0, 50), 4096);
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
