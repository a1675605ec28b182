//! The requests in flight of each queue, in memory that the monitor keeps while the server is away.
//!
//! The order of the writes is that of the specification of vhost-user ("Inflight I/O tracking", split virtqueues): a request is noted
//! before it is carried out, and struck out after its answer is in the ring. A server that comes back thus knows which requests have no
//! answer. The monitor should give the memory back as it was, but may have written anything there.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, SealFlags};
use vm_memory::{Bytes as _, VolatileMemory as _};

use super::memory::Shared;

/// The version of the layout.
const VERSION: u16 = 1;
/// The bytes before the requests of a queue, and those of each request.
const HEAD_BYTES: usize = 16;
const STATE_BYTES: usize = 16;
/// Queues begin at multiples of this.
const ALIGNMENT_BYTES: usize = 64;

// Places in the head of a queue, and in the state of a request.
const AT_VERSION: usize = 8;
const AT_SIZE: usize = 10;
const AT_LAST: usize = 12;
const AT_USED: usize = 14;
const AT_COUNTER: usize = 8;

const fn bytes_of_queue(size: u16) -> usize {
    (HEAD_BYTES + STATE_BYTES * size as usize).next_multiple_of(ALIGNMENT_BYTES)
}

/// The memory of all queues.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    shared: Arc<Shared>,
    queues: u16,
    size: u16,
}

/// The memory of one queue.
#[derive(Debug)]
pub(super) struct InFlightQueue {
    shared: Arc<Shared>,
    at: usize,
    size: u16,
    /// The number of the next request.
    counter: u64,
}

/// The requests that were in flight when the ring was last left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Requests without an answer, in their order.
    pub(super) heads: VecDeque<u16>,
}

impl InFlight {
    /// Memory for queues of this size, and its file.
    pub(super) fn create(queues: u16, size: u16) -> io::Result<(File, u64)> {
        let length = (bytes_of_queue(size) * usize::from(queues)) as u64;
        let file = rustix::fs::memfd_create("ioweir-inflight", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, length)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((file.into(), length))
    }

    /// The memory in a file.
    pub(super) fn map(file: File, offset: u64, length: u64, queues: u16, size: u16) -> io::Result<Self> {
        if (bytes_of_queue(size) * usize::from(queues)) as u64 > length {
            return Err(io::Error::other("the memory for requests in flight is too short"));
        }
        Ok(Self { shared: Arc::new(Shared::map(file, offset, length)?), queues, size })
    }

    /// The memory of a queue, with the requests that were in flight; `used` is the index of answers in its ring.
    pub(super) fn queue(&self, number: u16, size: u16, used: u16) -> io::Result<(InFlightQueue, Left)> {
        if number >= self.queues || size > self.size {
            return Err(io::Error::other("there is no memory for the requests in flight of a queue"));
        }
        let at = bytes_of_queue(self.size) * usize::from(number);
        let mut queue = InFlightQueue { shared: Arc::clone(&self.shared), at, size, counter: 0 };
        if queue.get::<u16>(AT_VERSION) == 0 {
            queue.set(AT_SIZE, size);
            queue.set(AT_USED, used);
            queue.set(AT_VERSION, VERSION);
            return Ok((queue, Left::default()));
        }
        if queue.get::<u16>(AT_VERSION) != VERSION || queue.get::<u16>(AT_SIZE) != size {
            return Err(io::Error::other("the memory for requests in flight is of another queue"));
        }
        queue.cross_out_answered(used);
        let mut heads: Vec<(u64, u16)> = (0..size)
            .filter(|&head| queue.is_noted(head))
            .map(|head| (queue.get(queue.state(head) + AT_COUNTER), head))
            .collect();
        heads.sort_unstable();
        queue.counter = heads.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Ok((queue, Left { heads: heads.into_iter().map(|(_, head)| head).collect() }))
    }
}

impl InFlightQueue {
    fn get<T: vm_memory::AtomicAccess>(&self, place: usize) -> T {
        let region = self.shared.region.as_volatile_slice();
        // The place lies within the mapping and is aligned, so that the load cannot fail.
        region.load(self.at + place, Ordering::SeqCst).unwrap_or_else(|_| T::zeroed())
    }

    fn set<T: vm_memory::AtomicAccess>(&self, place: usize, value: T) {
        let region = self.shared.region.as_volatile_slice();
        // The place lies within the mapping and is aligned, so that the store cannot fail.
        let _ = region.store(value, self.at + place, Ordering::SeqCst);
    }

    const fn state(&self, head: u16) -> usize {
        HEAD_BYTES + STATE_BYTES * head as usize
    }

    fn is_noted(&self, head: u16) -> bool {
        self.get::<u8>(self.state(head)) == 1
    }

    /// Strikes out requests whose answer is in the ring, but was not noted here.
    fn cross_out_answered(&self, used: u16) {
        // Answers are put in the ring one by one, so at most one is not noted.
        if self.get::<u16>(AT_USED) != used {
            let head = self.get::<u16>(AT_LAST);
            if head < self.size {
                self.set::<u8>(self.state(head), 0);
            }
            self.set(AT_USED, used);
        }
    }

    /// Notes a request that is about to be carried out.
    pub(super) fn note(&mut self, head: u16) {
        self.set(self.state(head) + AT_COUNTER, self.counter);
        self.counter = self.counter.wrapping_add(1);
        self.set::<u8>(self.state(head), 1);
    }

    /// Notes that the answer to a request is about to be put in the ring.
    pub(super) fn answering(&self, head: u16) {
        self.set(AT_LAST, head);
    }

    /// Strikes out a request whose answer is in the ring.
    pub(super) fn answered(&self, head: u16, used: u16) {
        self.set::<u8>(self.state(head), 0);
        self.set(AT_USED, used);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.shared.is_lost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(file: &File, length: u64) -> InFlight {
        let file = file.try_clone().unwrap_or_else(|error| panic!("{error}"));
        InFlight::map(file, 0, length, 2, 8).unwrap_or_else(|error| panic!("{error}"))
    }

    fn left(inflight: &InFlight, used: u16) -> (InFlightQueue, Vec<u16>) {
        let (queue, left) = inflight.queue(1, 8, used).unwrap_or_else(|error| panic!("{error}"));
        (queue, left.heads.into())
    }

    #[test]
    fn unanswered_requests_are_kept_in_their_order() {
        let (file, length) = InFlight::create(2, 8).unwrap_or_else(|error| panic!("{error}"));
        let (mut queue, none) = left(&map(&file, length), 100);
        assert!(none.is_empty());
        [5, 2, 7, 0].into_iter().for_each(|head| queue.note(head));
        queue.answering(2);
        queue.answered(2, 101);
        assert_eq!(left(&map(&file, length), 101).1, [5, 7, 0]);
        // The server dies after it has put an answer in the ring: before, and after it has struck the request out.
        queue.answering(7);
        assert_eq!(left(&map(&file, length), 101).1, [5, 7, 0], "it is not in the ring yet");
        let (mut queue, heads) = left(&map(&file, length), 102);
        assert_eq!(heads, [5, 0]);
        // A request of the next server comes after the ones that were left.
        queue.note(1);
        assert_eq!(left(&map(&file, length), 102).1, [5, 0, 1]);
        assert_eq!(map(&file, length).queue(0, 8, 3).map(|(_, left)| left).ok(), Some(Left::default()));
    }

    #[test]
    fn memory_of_another_layout_is_refused() {
        let (file, length) = InFlight::create(2, 8).unwrap_or_else(|error| panic!("{error}"));
        let inflight = map(&file, length);
        left(&inflight, 0);
        for (number, size) in [(2, 8), (1, 16), (1, 4)] {
            assert!(inflight.queue(number, size, 0).is_err(), "queue {number} of {size}");
        }
        // Values that the monitor has changed never lead to a place outside of the memory.
        let (queue, _) = left(&inflight, 0);
        queue.set(AT_LAST, u16::MAX);
        assert!(left(&inflight, 1).1.is_empty());
        queue.set(AT_VERSION, 9_u16);
        assert!(inflight.queue(1, 8, 0).is_err());
        assert!(InFlight::map(file, 0, length - 1, 2, 8).is_err());
    }
}
