//! Live control of the shared scheduler: shares that come, change and go while requests are queued.

use super::control::{Explanation, Rule, TenantControl};
use super::limit::Limit;
use super::order::Order;
use super::scheduler::{OTHERS, TenantScheduler};
use super::slab::State;
use super::{GroupId, Share, ShareError};
use crate::structure::NONE;
use crate::{Nanos, Reason, StreamId, Tag};

impl<P: Order> TenantScheduler<P> {
    fn find(&self, stream: StreamId) -> Option<u32> {
        self.by_stream.find(u64::from(stream.0), |_| true)
    }

    /// What all others have reserved, where `asked_per_second` more fits beside it.
    fn reserve(&self, held_per_second: u64, asked_per_second: u64) -> Result<u64, ShareError> {
        let (capacity_per_second, reserved_per_second) =
            (self.capacity_per_second, self.reserved_per_second - held_per_second);
        let fits = asked_per_second == 0
            || capacity_per_second == 0
            || reserved_per_second.saturating_add(asked_per_second) <= capacity_per_second;
        if fits {
            Ok(reserved_per_second)
        } else {
            Err(ShareError::Infeasible { asked_per_second, reserved_per_second, capacity_per_second })
        }
    }

    /// Gives a client another share, whatever it is doing.
    fn replace(&mut self, now: Nanos, client: u32, share: Share) {
        let length = self.clients[client as usize].fifo.length;
        if length > 0 {
            self.deactivate(now, client, length);
        }
        self.entitle(now, client, share);
        if length > 0 {
            self.activate(now, client);
        }
    }

    /// A place for a client that is to be configured: its own, or a free one.
    fn place_to_configure(&mut self, now: Nanos, stream: StreamId) -> Result<u32, ShareError> {
        if let Some(place) = self.find(stream) {
            return Ok(place);
        }
        let place = self.free_place().ok_or(ShareError::ClientsFull { capacity: self.client_count() - 1 })?;
        self.occupy(now, place, stream);
        Ok(place)
    }
}

impl<P: Order> TenantControl for TenantScheduler<P> {
    fn configure(&mut self, now: Nanos, client: StreamId, share: Share) -> Result<(), ShareError> {
        self.step_to(now);
        share.check()?;
        if let Some(group) = share.group
            && (group.0 >= self.groups.count() || !self.groups.group(group.0).is_configured)
        {
            return Err(ShareError::UnknownGroup(group));
        }
        let held = self.find(client).map_or(0, |place| self.shares[place as usize].reservation_per_second);
        let others = self.reserve(held, share.reservation_per_second)?;
        // A newcomer is judged by the worst cost seen of anybody: its own place is not known yet.
        self.order.admit(self.find(client), &share)?;
        let place = self.place_to_configure(now, client)?;
        if self.is_idle(place) {
            self.idle_links.remove(&mut self.idle, place);
        }
        self.reserved_per_second = others + share.reservation_per_second;
        self.clients[place as usize].is_configured = true;
        self.replace(now, place, share);
        Ok(())
    }

    fn configure_group(&mut self, now: Nanos, group: GroupId, share: Share) -> Result<(), ShareError> {
        self.step_to(now);
        share.check()?;
        if share.group.is_some() {
            return Err(ShareError::Nested);
        }
        if group.0 >= self.groups.count() {
            return Err(ShareError::GroupsFull { capacity: self.groups.count() });
        }
        let node = self.client_count() + group.0;
        let of = *self.groups.group(group.0);
        let others = self.reserve(of.share.reservation_per_second, share.reservation_per_second)?;
        self.order.admit(of.is_configured.then_some(node), &share)?;
        self.reserved_per_second = others + share.reservation_per_second;
        self.suspend_group(group.0);
        if !of.is_configured {
            self.order.forget(node);
            self.node_limits[node as usize] = Limit::NONE;
        }
        self.node_limits[node as usize].configure(now, &share);
        self.order.entitle(now, node, &share);
        let of = self.groups.group_mut(group.0);
        (of.share, of.is_configured) = (share, true);
        self.resume_group(now, group.0);
        Ok(())
    }

    fn remove(&mut self, now: Nanos, client: StreamId) -> Result<(), ShareError> {
        self.step_to(now);
        let place = self.find(client).filter(|&place| self.clients[place as usize].is_configured);
        let place = place.ok_or(ShareError::UnknownClient(client))?;
        self.reserved_per_second -= self.shares[place as usize].reservation_per_second;
        self.clients[place as usize].is_configured = false;
        let share = self.order.default_share();
        self.replace(now, place, share);
        self.rest(place);
        Ok(())
    }

    fn set_capacity(&mut self, now: Nanos, capacity_per_second: u64) -> Result<(), ShareError> {
        self.step_to(now);
        let reserved_per_second = self.reserved_per_second;
        if capacity_per_second != 0 && reserved_per_second > capacity_per_second {
            return Err(ShareError::Infeasible { asked_per_second: 0, reserved_per_second, capacity_per_second });
        }
        self.capacity_per_second = capacity_per_second;
        Ok(())
    }

    fn share(&self, client: StreamId) -> Share {
        self.find(client).map_or(self.order.default_share(), |place| self.shares[place as usize])
    }

    fn reason(&self, client: StreamId) -> Reason {
        let place = self.find(client).unwrap_or(OTHERS);
        let of = &self.clients[place as usize];
        if of.is_parked || (of.group != NONE && self.groups.group(of.group).is_parked) {
            return Reason::Throttled;
        }
        if P::RANKS
            && let Some(first) = self.order.peek(self.now)
            && self.first_client(first) != Some(place)
        {
            return Reason::Ordering;
        }
        self.full()
    }

    fn explain(&self, now: Nanos, tag: Tag) -> Option<Explanation> {
        let slot = self.slab.slot(tag).filter(|&slot| self.slab.entry(slot).state == State::Queued)?;
        let client = self.slab.entry(slot).client;
        let of = &self.clients[client as usize];
        let node = self.node(client);
        let ahead = self.slab.ahead(slot, &of.fifo);
        let group_is_parked = of.group != NONE && self.groups.group(of.group).is_parked;
        let first = self.order.peek(now);
        let stream = |client: u32| (client != OTHERS).then(|| self.clients[client as usize].stream);
        let held = if of.is_parked { Some(client) } else { group_is_parked.then_some(node) };
        let eligible = held.map_or(now, |node| self.node_limits[node as usize].eligible());
        let mut told = Explanation {
            rule: Rule::Device,
            reason: Reason::DeviceFull,
            ahead,
            own: 0,
            clock: 0,
            first: first.and_then(|node| self.first_client(node)).and_then(stream),
            first_tag: 0,
            eligible,
        };
        let window = self.order.window(self.limits().depth);
        if held.is_some() {
            told.rule = match (of.is_parked, held.is_some_and(|node| self.node_limits[node as usize].is_for_bytes())) {
                (true, false) => Rule::Limit,
                (true, true) => Rule::ByteLimit,
                (false, false) => Rule::GroupLimit,
                (false, true) => Rule::GroupByteLimit,
            };
            (told.reason, told.own, told.clock) = (Reason::Throttled, eligible.0, now.0);
        } else if let Some(first) = first.filter(|&first| first != node) {
            let standing = self.order.stand(now, node, first);
            (told.rule, told.own) = (standing.rule, standing.own);
            (told.clock, told.first_tag) = (standing.clock, standing.first_tag);
            told.reason = if P::RANKS { Reason::Ordering } else { Reason::DeviceFull };
        } else if ahead > 0 {
            told.rule = Rule::OwnQueue;
        } else if of.group != NONE && self.groups.first(of.group) != Some(client) {
            let first = self.groups.first(of.group).unwrap_or(client);
            (told.rule, told.first, told.reason) = (Rule::Group, stream(first), Reason::Ordering);
            (told.own, told.clock, told.first_tag) = self.groups.stand(of.group, client, first);
        } else if window <= self.in_flight && window < self.limits().depth {
            (told.rule, told.reason) = (Rule::Window, Reason::Throttled);
            (told.own, told.clock) = (u64::from(window), u64::from(self.in_flight));
        }
        Some(told)
    }
}
