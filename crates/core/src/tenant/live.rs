//! Live control of the tenant scheduler: shares are added, changed and removed while requests are queued.

use super::control::{Elsewhere, Explanation, Rule, TenantControl};
use super::limit::{Limit, Load};
use super::order::Order;
use super::requests::State;
use super::scheduler::{OTHERS, TenantScheduler};
use super::{GroupId, Share, ShareError};
use crate::structure::NONE;
use crate::{Nanos, Operation, Reason, Request, StreamId, Tag};

impl<P: Order> TenantScheduler<P> {
    /// Whether a share is one that the policy keeps.
    fn check(&self, share: Share) -> Result<(), ShareError> {
        share.check()?;
        if self.kept(share) == share { Ok(()) } else { Err(ShareError::NotKept) }
    }

    fn find(&self, stream: StreamId) -> Option<u32> {
        self.by_stream.find(u64::from(stream.0), |_| true)
    }

    /// The sum of all other reservations, if `asked_per_second` fits in the capacity beside it.
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

    /// Changes what decides when a client is served, whatever its state.
    fn change(&mut self, now: Nanos, client: u32, change: impl FnOnce(&mut Self)) {
        let length = self.clients[client as usize].fifo.length;
        if length > 0 {
            self.deactivate(now, client, length);
        }
        change(self);
        if length > 0 {
            self.activate_or_throttle(now, client);
        }
    }

    /// The client to configure for a stream: its existing one, or a new one.
    fn client_to_configure(&mut self, now: Nanos, stream: StreamId) -> Result<u32, ShareError> {
        if let Some(client) = self.find(stream) {
            return Ok(client);
        }
        let client = self.free_client().ok_or(ShareError::ClientsFull { capacity: self.client_count() - 1 })?;
        self.assign(now, client, stream);
        Ok(client)
    }
}

impl<P: Order> TenantControl for TenantScheduler<P> {
    fn configure(&mut self, now: Nanos, stream: StreamId, share: Share) -> Result<(), ShareError> {
        self.step_to(now);
        self.check(share)?;
        if let Some(group) = share.group
            && (group.0 >= self.groups.count() || !self.groups.group(group.0).is_configured)
        {
            return Err(ShareError::UnknownGroup(group));
        }
        let held = self.find(stream).map_or(0, |client| self.shares[client as usize].reservation_per_second);
        let others = self.reserve(held, share.reservation_per_second)?;
        // A new client has no number yet, and is checked with the worst cost of all clients.
        self.order.admit(self.find(stream), &share)?;
        let client = self.client_to_configure(now, stream)?;
        if self.is_idle(client) {
            self.idle_links.remove(&mut self.idle, client);
        }
        self.reserved_per_second = others + share.reservation_per_second;
        self.clients[client as usize].is_configured = true;
        self.change(now, client, |scheduler| scheduler.set_share(now, client, share));
        Ok(())
    }

    fn configure_group(&mut self, now: Nanos, group: GroupId, share: Share) -> Result<(), ShareError> {
        self.step_to(now);
        self.check(share)?;
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
        self.deactivate_group(group.0);
        if !of.is_configured {
            self.order.forget(node);
            self.node_limits[node as usize] = Limit::NONE;
        }
        self.node_limits[node as usize].configure(now, &share);
        self.order.set_share(now, node, &share);
        let of = self.groups.group_mut(group.0);
        (of.share, of.is_configured) = (share, true);
        self.activate_or_throttle_group(now, group.0);
        Ok(())
    }

    fn remove(&mut self, now: Nanos, stream: StreamId) -> Result<(), ShareError> {
        self.step_to(now);
        let client = self.find(stream).filter(|&client| self.clients[client as usize].is_configured);
        let client = client.ok_or(ShareError::UnknownClient(stream))?;
        self.reserved_per_second -= self.shares[client as usize].reservation_per_second;
        self.clients[client as usize].is_configured = false;
        let share = self.order.default_share();
        self.change(now, client, |scheduler| scheduler.set_share(now, client, share));
        self.release_if_idle(client);
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

    fn served_elsewhere(&mut self, now: Nanos, stream: StreamId, elsewhere: Elsewhere) -> bool {
        self.step_to(now);
        let own = self.find(stream).filter(|&client| self.clients[client as usize].group == NONE);
        let Some(client) = own.filter(|_| P::COUNTS_ELSEWHERE) else { return false };
        self.order.served_elsewhere(now, client, &elsewhere);
        if elsewhere.by_limit > 0 && self.clients[client as usize].is_limited {
            let load = Load { cost: elsewhere.by_limit, bytes: 0 };
            self.change(now, client, |scheduler| scheduler.node_limits[client as usize].take(now, load));
        }
        true
    }

    fn counts_elsewhere(&self) -> bool {
        P::COUNTS_ELSEWHERE
    }

    fn kept(&self, share: Share) -> Share {
        let Share { limit_per_second, burst, limit_bytes_per_second, burst_bytes, .. } = share;
        let none = Share { group: share.group, latency: share.latency, ..Share::weighted(share.weight) };
        let none = Share { reservation_per_second: share.reservation_per_second, ..none };
        if P::LIMITS_DIRECTIONS {
            let Share { read_bytes_per_second, write_bytes_per_second, reads_per_second, writes_per_second, .. } =
                share;
            return Share {
                read_bytes_per_second,
                write_bytes_per_second,
                reads_per_second,
                writes_per_second,
                ..none
            };
        }
        if P::CONTROLS {
            return none;
        }
        let refuses_at_limit = share.refuses_at_limit;
        Share { limit_per_second, burst, limit_bytes_per_second, burst_bytes, refuses_at_limit, ..none }
    }

    fn share(&self, stream: StreamId) -> Share {
        self.find(stream).map_or(self.order.default_share(), |client| self.shares[client as usize])
    }

    fn expected_cost(&self, stream: StreamId, operation: Operation, sectors: u32) -> u32 {
        let request = Request { operation, stream, sectors, ..Request::NOTHING };
        self.cost.cost(&request).unwrap_or_else(|| self.estimate(self.known_client(stream), &request))
    }

    fn reservations_behind(&self) -> Nanos {
        self.order.behind()
    }

    fn reason(&self, stream: StreamId) -> Reason {
        let client = self.find(stream).unwrap_or(OTHERS);
        let of = &self.clients[client as usize];
        if of.is_throttled || self.order.holds(client) || (of.group != NONE && self.groups.group(of.group).is_throttled)
        {
            return Reason::Throttled;
        }
        if P::RANKS
            && let Some(first) = self.order.peek(self.now)
            && self.first_client(first) != Some(client)
        {
            return Reason::Ordering;
        }
        self.ready_reason()
    }

    fn explain(&self, now: Nanos, tag: Tag) -> Option<Explanation> {
        let slot = self.requests.slot(tag).filter(|&slot| self.requests.entry(slot).state == State::Queued)?;
        let client = self.requests.entry(slot).client;
        let of = &self.clients[client as usize];
        let node = self.node(client);
        let ahead = self.requests.ahead(slot, &of.fifo);
        let group_is_throttled = of.group != NONE && self.groups.group(of.group).is_throttled;
        let first = self.order.peek(now);
        let stream = |client: u32| (client != OTHERS).then(|| self.clients[client as usize].stream);
        let held = if of.is_throttled { Some(client) } else { group_is_throttled.then_some(node) };
        let eligible = held.map_or(now, |node| self.node_limits[node as usize].eligible());
        let mut explanation = Explanation {
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
            explanation.rule =
                match (of.is_throttled, held.is_some_and(|node| self.node_limits[node as usize].is_for_bytes())) {
                    (true, false) => Rule::Limit,
                    (true, true) => Rule::ByteLimit,
                    (false, false) => Rule::GroupLimit,
                    (false, true) => Rule::GroupByteLimit,
                };
            (explanation.reason, explanation.own, explanation.clock) = (Reason::Throttled, eligible.0, now.0);
        } else if P::CONTROLS && self.order.holds(client) {
            let state = self.order.explain(now, node, node);
            (explanation.rule, explanation.own, explanation.clock) = (state.rule, state.own, state.clock);
            (explanation.reason, explanation.first) = (Reason::Throttled, None);
            explanation.eligible = self.order.due();
        } else if P::CONTROLS {
            // The controller has let the request pass, or an earlier one of the same client, and the device is full.
        } else if let Some(first) = first.filter(|&first| first != node) {
            let state = self.order.explain(now, node, first);
            (explanation.rule, explanation.own) = (state.rule, state.own);
            (explanation.clock, explanation.first_tag) = (state.clock, state.first_tag);
            explanation.reason = if P::RANKS { Reason::Ordering } else { Reason::DeviceFull };
        } else if ahead > 0 {
            explanation.rule = Rule::OwnQueue;
        } else if of.group != NONE && self.groups.first(of.group) != Some(client) {
            let first = self.groups.first(of.group).unwrap_or(client);
            (explanation.rule, explanation.first, explanation.reason) = (Rule::Group, stream(first), Reason::Ordering);
            (explanation.own, explanation.clock, explanation.first_tag) = self.groups.tags(of.group, client, first);
        } else if window <= self.in_flight && window < self.limits().depth {
            (explanation.rule, explanation.reason) = (Rule::Window, Reason::Throttled);
            (explanation.own, explanation.clock) = (u64::from(window), u64::from(self.in_flight));
        }
        Some(explanation)
    }
}
