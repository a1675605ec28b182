//! One queue of a disk: takes requests from its ring in guest memory, and puts their answers there.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use virtio_queue::{Queue, QueueOwnedT as _, QueueT as _};
use vm_memory::GuestAddress;

use super::chain::{BadChain, Chain, Table, read_chain};
use super::inflight::{InFlight, InFlightQueue};
use super::memory::Memory;

/// The bytes of a ring of answers without its entries, and those of an entry.
const USED_BYTES: u64 = 6;
const USED_ENTRY_BYTES: u64 = 8;

/// The error for a ring that does not lie in the guest's memory.
pub(super) const OUTSIDE: &str = "a ring lies outside of the guest's memory";

/// A ring, as its monitor describes it.
#[derive(Debug)]
pub(super) struct RingPlan {
    pub(super) number: u16,
    pub(super) queue: Queue,
    /// Readable when the guest has offered requests.
    pub(super) kick: OwnedFd,
    /// The memory of requests in flight, if the monitor keeps one.
    pub(super) inflight: Option<InFlight>,
    pub(super) call: Option<OwnedFd>,
    pub(super) is_enabled: bool,
}

/// A ring that is served.
#[derive(Debug)]
pub(super) struct Ring {
    queue: Queue,
    kick: OwnedFd,
    inflight: Option<InFlightQueue>,
    /// The descriptor that notifies the guest of answers, if it wants notifications.
    pub(super) call: Option<OwnedFd>,
    pub(super) is_enabled: bool,
    /// Whether no more requests are taken from the ring.
    pub(super) is_stopping: bool,
    /// Requests that a server has left unanswered, which come first.
    left: VecDeque<u16>,
    /// Requests that were taken and not answered, by their first descriptor.
    taken: Vec<bool>,
    pub(super) in_flight: u32,
    /// Whether there are answers of which the guest was not notified.
    pub(super) has_answers: bool,
}

impl Ring {
    pub(super) fn start(plan: RingPlan, memory: &Memory) -> Result<Self, String> {
        let RingPlan { number, mut queue, kick, inflight, call, is_enabled } = plan;
        if !queue.is_valid(memory.table()) {
            return Err(OUTSIDE.into());
        }
        let used = queue.used_idx(memory.table(), Ordering::Acquire).map_err(|error| error.to_string())?.0;
        queue.set_next_used(used);
        let started = inflight.map(|inflight| inflight.queue(number, queue.size(), used)).transpose();
        let (inflight, left) = started.map_err(|error| error.to_string())?.unzip();
        let left = left.unwrap_or_default().heads;
        if inflight.is_some() {
            // Every request that was taken from the ring is either answered or in `left`.
            queue.set_next_avail(used.wrapping_add(left.len() as u16)); // no more than the queue has
        }
        let taken = vec![false; usize::from(queue.size())];
        let (is_stopping, in_flight, has_answers) = (false, 0, false);
        Ok(Self { queue, kick, inflight, call, is_enabled, is_stopping, left, taken, in_flight, has_answers })
    }

    /// Whether the ring lies in this memory.
    pub(super) fn lies_in(&self, memory: &Memory) -> bool {
        self.queue.is_valid(memory.table())
    }

    pub(super) fn kick(&self) -> BorrowedFd<'_> {
        self.kick.as_fd()
    }

    pub(super) fn into_kick(self) -> OwnedFd {
        self.kick
    }

    /// The index of the next request.
    pub(super) fn base(&self) -> u16 {
        self.queue.next_avail()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.inflight.as_ref().is_some_and(InFlightQueue::is_lost)
    }

    /// Whether the guest offers requests.
    pub(super) fn has_more(&self, memory: &Memory) -> bool {
        let offered = self.queue.avail_idx(memory.table(), Ordering::Acquire);
        self.is_open() && (!self.left.is_empty() || offered.is_ok_and(|index| index.0 != self.queue.next_avail()))
    }

    const fn is_open(&self) -> bool {
        self.is_enabled && !self.is_stopping
    }

    /// The next request, with its first descriptor.
    pub(super) fn next(&mut self, memory: &Memory) -> Result<Option<(u16, Chain)>, BadChain> {
        if !self.is_open() {
            return Ok(None);
        }
        let Some(head) = self.next_head(memory)? else { return Ok(None) };
        let taken = self.taken.get_mut(usize::from(head)).ok_or(BadChain::Index)?;
        if std::mem::replace(taken, true) {
            return Err(BadChain::Offer);
        }
        if let Some(inflight) = &mut self.inflight {
            inflight.note(head);
        }
        let table = Table { address: GuestAddress(self.queue.desc_table()), size: self.queue.size() };
        let chain = read_chain(memory.table(), table, head)?;
        self.in_flight += 1;
        Ok(Some((head, chain)))
    }

    fn next_head(&mut self, memory: &Memory) -> Result<Option<u16>, BadChain> {
        if let Some(head) = self.left.pop_front() {
            return Ok(Some(head));
        }
        for _ in 0..2 {
            let mut offered = self.queue.iter(memory.table()).map_err(|_| BadChain::Offer)?;
            if let Some(chain) = offered.next() {
                return Ok(Some(chain.head_index()));
            }
            // From now on the guest notifies the device of the next request, unless it has offered one meanwhile.
            let has_more = self.queue.enable_notification(memory.table()).map_err(|_| BadChain::Address)?;
            self.note_used(memory);
            if !has_more {
                return Ok(None);
            }
        }
        // The guest offers a request that cannot be read.
        Err(BadChain::Offer)
    }

    /// Puts an answer in the ring. `written` is the number of bytes that were written to the guest.
    pub(super) fn answer(&mut self, memory: &Memory, head: u16, written: u32) -> Result<(), BadChain> {
        if let Some(inflight) = &self.inflight {
            inflight.answering(head);
        }
        self.queue.add_used(memory.table(), head, written).map_err(|_| BadChain::Address)?;
        self.note_used(memory);
        if let Some(inflight) = &self.inflight {
            inflight.answered(head, self.queue.next_used());
        }
        self.taken[usize::from(head)] = false;
        self.in_flight -= 1;
        self.has_answers = true;
        Ok(())
    }

    /// Logs that the ring of answers was written to. All of it is logged, because it is short.
    fn note_used(&self, memory: &Memory) {
        let length = USED_BYTES + USED_ENTRY_BYTES * u64::from(self.queue.size());
        memory.note(GuestAddress(self.queue.used_ring()), length);
    }

    /// Notifies the guest, whether there are answers or not. A server that was killed, or a connection that has ended, may have put an
    /// answer in the ring without a notification, for which the guest would wait for ever.
    pub(super) fn notify(&self) {
        if let Some(call) = &self.call {
            // A full counter notifies the guest, too.
            let _ = rustix::io::write(call, &1_u64.to_ne_bytes());
        }
    }

    /// Notifies the guest of answers, if it asks for notifications.
    pub(super) fn signal(&mut self, memory: &Memory) -> Result<(), BadChain> {
        if std::mem::take(&mut self.has_answers)
            && self.queue.needs_notification(memory.table()).map_err(|_| BadChain::Address)?
        {
            self.notify();
        }
        Ok(())
    }
}
