//! Weights of cgroups: each client whose share is configured is a cgroup with one process, and its group, if it has one, is the cgroup
//! above it.
//!
//! A cgroup's queue has the cgroup's weight in place of that of its process's priority. Where cgroups lie in another one, that one's weight
//! is divided among those of them that are busy, by their weights, when a queue of theirs begins a turn or becomes busy. A process
//! outside of any cgroup keeps the weight of its priority, ten for each level as in the kernel.
//!
//! Example: `a` (100) holds `x` and `y` (100 each), beside `b` (300). While all are busy, the queues weigh 50, 50 and 300.

use alloc::boxed::Box;
use alloc::vec;

use super::Bfq;
use crate::priority::Rank;
use crate::structure::{Index, NONE};
use crate::tenant::{Elsewhere, Explanation, GroupId, Share, ShareError, TenantControl};
use crate::{Nanos, Operation, Reason, StreamId, Tag};

/// Parts of a unit of weight, so that the weight of a cgroup can be divided.
const PARTS: u64 = 64;
/// The weight of a level of priority, for a process outside of any cgroup (`BFQ_WEIGHT_CONVERSION_COEFF`).
const LEVEL: u64 = 10;

#[derive(Clone, Copy, Debug)]
struct Client {
    stream: StreamId,
    share: Share,
    is_configured: bool,
}

#[derive(Clone, Copy, Debug)]
struct Above {
    weight: u32,
    is_configured: bool,
    /// The weights of its cgroups that are busy.
    busy: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Groups {
    by_stream: Index,
    clients: Box<[Client]>,
    above: Box<[Above]>,
    /// The number of busy cgroups with processes.
    busy: u32,
}

impl Groups {
    pub(super) fn new(clients: u32, groups: u32) -> Self {
        let client = Client { stream: StreamId(0), share: Share::DEFAULT, is_configured: false };
        let above = Above { weight: 1, is_configured: false, busy: 0 };
        Self {
            by_stream: Index::new(clients),
            clients: vec![client; clients as usize].into_boxed_slice(),
            above: vec![above; groups as usize].into_boxed_slice(),
            busy: 0,
        }
    }

    /// The cgroup of a stream, or `NONE`.
    pub(super) fn find(&self, stream: StreamId) -> u32 {
        self.by_stream.find(u64::from(stream.0), |_| true).unwrap_or(NONE)
    }

    /// The weight of a queue in a cgroup, or of one outside of any whose priority gives it `own`.
    pub(super) fn weight(&self, client: u32, own: u64) -> u64 {
        let Some(Client { share, .. }) = self.clients.get(client as usize) else { return own * LEVEL * PARTS };
        let weight = u64::from(share.weight) * PARTS;
        match share.group {
            None => weight,
            Some(group) => {
                let above = &self.above[group.0 as usize];
                (u64::from(above.weight) * weight / above.busy.max(u64::from(share.weight))).max(1)
            }
        }
    }

    /// Counts a cgroup whose queue becomes busy, or no longer is.
    pub(super) fn count(&mut self, client: u32, is_busy: bool) {
        let Some(Client { share, .. }) = self.clients.get(client as usize) else { return };
        self.busy = if is_busy { self.busy + 1 } else { self.busy - 1 };
        if let Some(group) = share.group {
            let busy = &mut self.above[group.0 as usize].busy;
            *busy = if is_busy { *busy + u64::from(share.weight) } else { *busy - u64::from(share.weight) };
        }
    }

    /// Whether more than one cgroup is busy, the root among them if one of its queues is.
    pub(super) const fn are_several(&self, busy_queues: u32) -> bool {
        self.busy > 1 || (self.busy == 1 && busy_queues > 1)
    }

    fn check(&self, share: &Share) -> Result<(), ShareError> {
        share.check()?;
        if kept(*share) != *share {
            return Err(ShareError::NotKept);
        }
        match share.group {
            Some(group) if self.above.get(group.0 as usize).is_none_or(|above| !above.is_configured) => {
                Err(ShareError::UnknownGroup(group))
            }
            _ => Ok(()),
        }
    }

    /// The entry for a stream, which is a new one if it has none.
    fn entry(&mut self, stream: StreamId) -> Result<u32, ShareError> {
        let known = self.find(stream);
        if known != NONE {
            return Ok(known);
        }
        let capacity = self.clients.len() as u32; // made from a u32
        let free = (0..capacity).find(|client| !self.clients[*client as usize].is_configured);
        let client = free.ok_or(ShareError::ClientsFull { capacity })?;
        self.by_stream.insert(u64::from(stream.0), client);
        self.clients[client as usize].stream = stream;
        Ok(client)
    }
}

/// A share without what the policy does not keep.
fn kept(share: Share) -> Share {
    let Share { reservation_per_second, latency, group, weight, .. } = share;
    Share { reservation_per_second, latency, group, ..Share::weighted(weight) }
}

impl Bfq {
    /// Changes the cgroup of a stream, whose queue may be busy: its new weight is that of its next turn.
    fn regroup(
        &mut self,
        stream: StreamId,
        change: impl FnOnce(&mut Groups) -> Result<u32, ShareError>,
    ) -> Result<(), ShareError> {
        let queue = self.streams.find(stream);
        let busy = queue.filter(|&number| self.queue(number).is_busy);
        if let Some(number) = busy {
            self.discount_busy(number);
        }
        let before = queue.map_or(NONE, |number| self.queue(number).client);
        let result = self.groups.as_mut().map_or(Ok(NONE), |groups| change(groups));
        if let Some(number) = queue {
            let queue = self.queue_mut(number);
            queue.client = *result.as_ref().unwrap_or(&before);
            if queue.client != NONE {
                queue.next_rank = Rank::USUAL;
            }
        }
        if let Some(number) = busy {
            self.count_busy(number);
        }
        result.map(|_| ())
    }
}

impl TenantControl for Bfq {
    fn configure(&mut self, _now: Nanos, stream: StreamId, share: Share) -> Result<(), ShareError> {
        self.regroup(stream, |groups| {
            groups.check(&share)?;
            let client = groups.entry(stream)?;
            let of = &mut groups.clients[client as usize];
            (of.share, of.is_configured) = (share, true);
            Ok(client)
        })
    }

    fn configure_group(&mut self, _now: Nanos, group: GroupId, share: Share) -> Result<(), ShareError> {
        let Some(groups) = &mut self.groups else { return Err(ShareError::GroupsFull { capacity: 0 }) };
        if share.group.is_some() {
            return Err(ShareError::Nested);
        }
        groups.check(&share)?;
        let capacity = groups.above.len() as u32; // made from a u32
        let above = groups.above.get_mut(group.0 as usize).ok_or(ShareError::GroupsFull { capacity })?;
        (above.weight, above.is_configured) = (share.weight, true);
        Ok(())
    }

    fn remove(&mut self, _now: Nanos, stream: StreamId) -> Result<(), ShareError> {
        self.regroup(stream, |groups| {
            let client = groups.find(stream);
            if client == NONE {
                return Err(ShareError::UnknownClient(stream));
            }
            groups.by_stream.remove(u64::from(stream.0), client);
            groups.clients[client as usize].is_configured = false;
            Ok(NONE)
        })
    }

    fn set_capacity(&mut self, _now: Nanos, _capacity_per_second: u64) -> Result<(), ShareError> {
        Ok(())
    }

    fn served_elsewhere(&mut self, _now: Nanos, _client: StreamId, _elsewhere: Elsewhere) -> bool {
        false
    }

    fn counts_elsewhere(&self) -> bool {
        false
    }

    fn kept(&self, share: Share) -> Share {
        kept(share)
    }

    fn share(&self, stream: StreamId) -> Share {
        let known = self.groups.as_ref().and_then(|groups| groups.clients.get(groups.find(stream) as usize));
        known.map_or(Share::DEFAULT, |client| client.share)
    }

    fn expected_cost(&self, _client: StreamId, _operation: Operation, sectors: u32) -> u32 {
        sectors.max(1)
    }

    fn reservations_behind(&self) -> Nanos {
        Nanos::ZERO
    }

    fn reason(&self, stream: StreamId) -> Reason {
        let number = self.streams.find(stream);
        match self.turn {
            Some(turn) if Some(turn.queue) == number => Reason::DeviceFull,
            Some(turn) if turn.idle.is_some() => Reason::Anticipating,
            _ => Reason::Ordering,
        }
    }

    fn explain(&self, _now: Nanos, _tag: Tag) -> Option<Explanation> {
        None
    }
}
