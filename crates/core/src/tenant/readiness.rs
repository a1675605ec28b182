//! Who is in the order, and who is held back by a limit?
//!
//! A client with requests is in, as itself or through its group, or it is parked until its limit lets it go on. Whoever
//! comes in, goes out or has another head is told to the order here, and nowhere else.

use super::order::Order;
use super::scheduler::{Client, NOT_PARKED, TenantScheduler};
use crate::Nanos;
use crate::structure::NONE;

/// Clients that come back from their limits in one poll.
const MATURE_MAX: u32 = 16;

impl<P: Order> TenantScheduler<P> {
    /// A client that has requests comes in, unless its limit holds it back.
    pub(crate) fn activate(&mut self, now: Nanos, client: u32) {
        let is_limited = self.clients[client as usize].is_limited;
        if is_limited && self.node_limits[client as usize].eligible() > now {
            self.clients[client as usize].is_parked = true;
            self.park(client);
            self.throttled += self.clients[client as usize].fifo.length;
        } else {
            self.enter(now, client);
        }
    }

    pub(crate) fn park(&mut self, node: u32) {
        self.parked.set(node, self.node_limits[node as usize].eligible().0.min(NOT_PARKED - 1));
    }

    pub(crate) fn enter(&mut self, now: Nanos, client: u32) {
        let Client { group, fifo, .. } = self.clients[client as usize];
        if group == NONE {
            if let Some(head) = self.slab.head(&fifo) {
                self.order.enter(now, client, &head);
            }
            return;
        }
        let before = self.groups.first(group);
        self.groups.enter(group, client);
        self.count_group(group, fifo.length);
        if self.groups.group(group).is_parked {
            return;
        }
        if before.is_none() {
            self.resume_group(now, group);
        } else {
            self.change_group(now, group, before);
        }
    }

    /// A request has come to the end of a client's queue.
    #[inline]
    pub(crate) fn joined(&mut self, now: Nanos, client: u32) {
        if self.clients[client as usize].refuses {
            self.count_queued(client);
        }
        if self.clients[client as usize].fifo.length == 1 {
            self.activate(now, client);
        } else {
            self.count(client, true);
        }
    }

    /// One that is refused at its limit has one more queued.
    #[inline(never)]
    fn count_queued(&mut self, client: u32) {
        let load = self.slab.entry(self.clients[client as usize].fifo.tail).load();
        self.node_limits[client as usize].queued.add(load);
    }

    /// Takes a group out of the order before it changes.
    pub(crate) fn suspend_group(&mut self, group: u32) {
        let node = self.client_count() + group;
        let of = self.groups.group_mut(group);
        if core::mem::replace(&mut of.is_parked, false) {
            self.throttled -= of.requests;
            self.parked.set(node, NOT_PARKED);
        } else if self.groups.first(group).is_some() {
            self.order.leave(node);
        }
    }

    /// Puts it back, unless its limit holds it back.
    pub(crate) fn resume_group(&mut self, now: Nanos, group: u32) {
        let node = self.client_count() + group;
        if self.groups.first(group).is_none() {
            return;
        }
        if self.node_limits[node as usize].eligible() > now {
            let of = self.groups.group_mut(group);
            of.is_parked = true;
            self.throttled += of.requests;
            self.park(node);
        } else {
            self.enter_group(now, group);
        }
    }

    /// A group has its first ready client.
    pub(crate) fn enter_group(&mut self, now: Nanos, group: u32) {
        let node = self.client_count() + group;
        let first = self.groups.first(group).and_then(|client| self.head_of(client));
        let Some(head) = first.filter(|_| !self.groups.group(group).is_parked) else { return };
        self.order.enter(now, node, &head);
    }

    pub(crate) fn change_group(&mut self, now: Nanos, group: u32, before: Option<u32>) {
        let first = self.groups.first(group);
        if first == before || self.groups.group(group).is_parked {
            return;
        }
        if let Some(head) = first.and_then(|client| self.head_of(client)) {
            self.order.change(now, self.client_count() + group, &head);
        }
    }

    pub(crate) fn count_group(&mut self, group: u32, more: u32) {
        let group = self.groups.group_mut(group);
        group.requests += more;
        if group.is_parked {
            self.throttled += more;
        }
    }

    pub(crate) fn discount_group(&mut self, group: u32, fewer: u32) {
        let group = self.groups.group_mut(group);
        group.requests -= fewer;
        if group.is_parked {
            self.throttled -= fewer;
        }
    }

    /// The reverse of [`Self::activate`]: a client whose queue had `length` is no longer in, nor held back.
    pub(crate) fn deactivate(&mut self, now: Nanos, client: u32, length: u32) {
        let Client { group, is_parked, .. } = self.clients[client as usize];
        if is_parked {
            self.clients[client as usize].is_parked = false;
            self.parked.set(client, NOT_PARKED);
            self.throttled -= length;
            return;
        }
        if group == NONE {
            self.order.leave(client);
            return;
        }
        let before = self.groups.first(group);
        self.groups.leave(group, client);
        self.discount_group(group, length);
        if self.groups.first(group).is_some() {
            self.change_group(now, group, before);
        } else if !self.groups.group(group).is_parked {
            self.order.leave(self.client_count() + group);
        }
    }

    /// Lets those back in whose limits have ended.
    pub(crate) fn mature(&mut self, now: Nanos) {
        for _ in 0..MATURE_MAX {
            if self.parked.min() > now.0 {
                return;
            }
            let node = self.parked.first();
            self.parked.set(node, NOT_PARKED);
            if let Some(group) = node.checked_sub(self.client_count()) {
                let of = self.groups.group_mut(group);
                of.is_parked = false;
                self.throttled -= of.requests;
                self.enter_group(now, group);
            } else {
                let client = &mut self.clients[node as usize];
                client.is_parked = false;
                self.throttled -= client.fifo.length;
                self.enter(now, node);
            }
        }
    }

    /// One more waits in this client's queue, or one fewer.
    #[inline]
    pub(crate) fn count(&mut self, client: u32, is_more: bool) {
        let Client { group, is_parked, .. } = self.clients[client as usize];
        match (is_parked, group, is_more) {
            (true, _, true) => self.throttled += 1,
            (true, _, false) => self.throttled -= 1,
            (false, NONE, _) => {}
            (false, group, true) => self.count_group(group, 1),
            (false, group, false) => self.discount_group(group, 1),
        }
    }

    /// The head of a client's queue is another than it was.
    pub(crate) fn changed(&mut self, now: Nanos, client: u32) {
        let Client { group, is_parked, .. } = self.clients[client as usize];
        let is_group_first = group != NONE && self.groups.first(group) == Some(client);
        let is_seen = !is_parked && (group == NONE || is_group_first && !self.groups.group(group).is_parked);
        if let (true, Some(head)) = (is_seen, self.head_of(client)) {
            self.order.change(now, self.node(client), &head);
        }
    }

    /// Takes a queued request out of its queue.
    pub(crate) fn withdraw(&mut self, now: Nanos, slot: u32) {
        let client = self.slab.entry(slot).client;
        let fifo = &mut self.clients[client as usize].fifo;
        let (was_head, length) = (fifo.head == slot, fifo.length);
        self.slab.remove(slot, fifo);
        if self.clients[client as usize].refuses {
            self.node_limits[client as usize].queued.subtract(self.slab.entry(slot).load());
        }
        if length == 1 {
            self.deactivate(now, client, 1);
        } else {
            self.count(client, false);
            if was_head {
                self.changed(now, client);
            }
        }
    }
}
