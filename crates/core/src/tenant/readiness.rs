//! Decides which clients are active, and which ones a limit throttles.
//!
//! A client with queued requests is either active, by itself or through its group, or throttled until its limit lets it
//! continue. All calls that inform the order of an activation, a deactivation or a changed head are here.

use super::order::Order;
use super::scheduler::{Client, NOT_THROTTLED, TenantScheduler};
use crate::Nanos;
use crate::structure::NONE;

/// The most throttled clients that become active in one poll.
const UNTHROTTLE_MAX: u32 = 16;

impl<P: Order> TenantScheduler<P> {
    /// Activates a client with queued requests, unless its limit throttles it.
    pub(crate) fn activate_or_throttle(&mut self, now: Nanos, client: u32) {
        let is_limited = self.clients[client as usize].is_limited;
        if is_limited && self.node_limits[client as usize].eligible() > now {
            self.clients[client as usize].is_throttled = true;
            self.throttle(client);
            self.throttled += self.clients[client as usize].fifo.length;
        } else {
            self.activate(now, client);
        }
    }

    pub(crate) fn throttle(&mut self, node: u32) {
        self.eligible_at.set(node, self.node_limits[node as usize].eligible().0.min(NOT_THROTTLED - 1));
    }

    pub(crate) fn activate(&mut self, now: Nanos, client: u32) {
        let Client { group, fifo, .. } = self.clients[client as usize];
        if group == NONE {
            if let Some(head) = self.requests.head(&fifo) {
                self.order.activate(now, client, &head);
            }
            return;
        }
        let before = self.groups.first(group);
        self.groups.activate(group, client);
        self.count_group(group, fifo.length);
        if self.groups.group(group).is_throttled {
            return;
        }
        if before.is_none() {
            self.activate_or_throttle_group(now, group);
        } else {
            self.group_head_changed(now, group, before);
        }
    }

    /// Handles a request that was put at the end of a client's queue.
    #[inline]
    pub(crate) fn request_queued(&mut self, now: Nanos, client: u32) {
        if self.clients[client as usize].refuses {
            self.count_queued(client);
        }
        if self.clients[client as usize].fifo.length == 1 {
            self.activate_or_throttle(now, client);
        } else {
            self.count(client, true);
        }
    }

    /// Counts the newest request of a client that is refused at its limit.
    #[inline(never)]
    fn count_queued(&mut self, client: u32) {
        let load = self.requests.entry(self.clients[client as usize].fifo.tail).load();
        self.node_limits[client as usize].queued.add(load);
    }

    /// Deactivates a group before it changes.
    pub(crate) fn deactivate_group(&mut self, group: u32) {
        let node = self.client_count() + group;
        let of = self.groups.group_mut(group);
        if core::mem::replace(&mut of.is_throttled, false) {
            self.throttled -= of.requests;
            self.eligible_at.set(node, NOT_THROTTLED);
        } else if self.groups.first(group).is_some() {
            self.order.deactivate(node);
        }
    }

    /// Activates a group with requests, unless its limit throttles it.
    pub(crate) fn activate_or_throttle_group(&mut self, now: Nanos, group: u32) {
        let node = self.client_count() + group;
        if self.groups.first(group).is_none() {
            return;
        }
        if self.node_limits[node as usize].eligible() > now {
            let of = self.groups.group_mut(group);
            of.is_throttled = true;
            self.throttled += of.requests;
            self.throttle(node);
        } else {
            self.activate_group(now, group);
        }
    }

    /// Activates a group by its first active client.
    pub(crate) fn activate_group(&mut self, now: Nanos, group: u32) {
        let node = self.client_count() + group;
        let first = self.groups.first(group).and_then(|client| self.head_of(client));
        let Some(head) = first.filter(|_| !self.groups.group(group).is_throttled) else { return };
        self.order.activate(now, node, &head);
    }

    pub(crate) fn group_head_changed(&mut self, now: Nanos, group: u32, before: Option<u32>) {
        let first = self.groups.first(group);
        if first == before || self.groups.group(group).is_throttled {
            return;
        }
        if let Some(head) = first.and_then(|client| self.head_of(client)) {
            self.order.head_changed(now, self.client_count() + group, &head);
        }
    }

    pub(crate) fn count_group(&mut self, group: u32, more: u32) {
        let group = self.groups.group_mut(group);
        group.requests += more;
        if group.is_throttled {
            self.throttled += more;
        }
    }

    pub(crate) fn discount_group(&mut self, group: u32, fewer: u32) {
        let group = self.groups.group_mut(group);
        group.requests -= fewer;
        if group.is_throttled {
            self.throttled -= fewer;
        }
    }

    /// The reverse of [`Self::activate_or_throttle`], for a client whose queue had `length` requests.
    pub(crate) fn deactivate(&mut self, now: Nanos, client: u32, length: u32) {
        let Client { group, is_throttled, .. } = self.clients[client as usize];
        if is_throttled {
            self.clients[client as usize].is_throttled = false;
            self.eligible_at.set(client, NOT_THROTTLED);
            self.throttled -= length;
            return;
        }
        if group == NONE {
            self.order.deactivate(client);
            return;
        }
        let before = self.groups.first(group);
        self.groups.deactivate(group, client);
        self.discount_group(group, length);
        if self.groups.first(group).is_some() {
            self.group_head_changed(now, group, before);
        } else if !self.groups.group(group).is_throttled {
            self.order.deactivate(self.client_count() + group);
        }
    }

    /// Activates throttled nodes that have become eligible.
    pub(crate) fn unthrottle_due(&mut self, now: Nanos) {
        for _ in 0..UNTHROTTLE_MAX {
            if self.eligible_at.min() > now.0 {
                return;
            }
            let node = self.eligible_at.first();
            self.eligible_at.set(node, NOT_THROTTLED);
            if let Some(group) = node.checked_sub(self.client_count()) {
                let of = self.groups.group_mut(group);
                of.is_throttled = false;
                self.throttled -= of.requests;
                self.activate_group(now, group);
            } else {
                let client = &mut self.clients[node as usize];
                client.is_throttled = false;
                self.throttled -= client.fifo.length;
                self.activate(now, node);
            }
        }
    }

    /// Counts one request more in a client's queue, or one fewer.
    #[inline]
    pub(crate) fn count(&mut self, client: u32, is_more: bool) {
        let Client { group, is_throttled, .. } = self.clients[client as usize];
        match (is_throttled, group, is_more) {
            (true, _, true) => self.throttled += 1,
            (true, _, false) => self.throttled -= 1,
            (false, NONE, _) => {}
            (false, group, true) => self.count_group(group, 1),
            (false, group, false) => self.discount_group(group, 1),
        }
    }

    /// Handles a change of the head of a client's queue.
    pub(crate) fn client_head_changed(&mut self, now: Nanos, client: u32) {
        let Client { group, is_throttled, .. } = self.clients[client as usize];
        let is_group_first = group != NONE && self.groups.first(group) == Some(client);
        let is_seen = !is_throttled && (group == NONE || is_group_first && !self.groups.group(group).is_throttled);
        if let (true, Some(head)) = (is_seen, self.head_of(client)) {
            self.order.head_changed(now, self.node(client), &head);
        }
    }

    /// Removes a queued request from its queue.
    pub(crate) fn withdraw(&mut self, now: Nanos, slot: u32) {
        let client = self.requests.entry(slot).client;
        let fifo = &mut self.clients[client as usize].fifo;
        let (was_head, length) = (fifo.head == slot, fifo.length);
        self.requests.remove(slot, fifo);
        if P::CONTROLS {
            self.order.withdrawn(now, slot);
        }
        if self.clients[client as usize].refuses {
            self.node_limits[client as usize].queued.subtract(self.requests.entry(slot).load());
        }
        if length == 1 {
            self.deactivate(now, client, 1);
        } else {
            self.count(client, false);
            if was_head {
                self.client_head_changed(now, client);
            }
        }
    }
}
