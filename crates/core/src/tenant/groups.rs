//! Inside a group: which of its clients is next?
//!
//! A group is served like a client. What it gets its clients share by their weights, start-time fair: the smallest
//! virtual start goes first, and a client that comes back starts at the later of its own start and the group's clock.

use alloc::boxed::Box;
use alloc::vec;

use super::Share;
use super::fair::{UNIT, later};
use crate::structure::{Root, Tree};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) share: Share,
    pub(crate) is_configured: bool,
    /// Held back by its limit.
    pub(crate) is_parked: bool,
    /// Requests of those of its clients that no limit of their own holds back.
    pub(crate) requests: u32,
    /// These clients, by their starts.
    ready: Root,
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    start: u64,
    per_unit: u64,
    /// In which group it is ready, if it is.
    is_ready: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Groups {
    groups: Box<[Group]>,
    members: Box<[Member]>,
    tree: Tree,
    /// The client that is looked at next for a start that has fallen behind.
    hand: u32,
}

impl Groups {
    pub(crate) fn new(groups: u32, clients: u32) -> Self {
        let group = Group {
            share: Share::DEFAULT,
            is_configured: false,
            is_parked: false,
            requests: 0,
            ready: Root::EMPTY,
            clock: 0,
        };
        // Without groups nobody is in one.
        let clients = if groups == 0 { 0 } else { clients };
        let member = Member { start: 0, per_unit: UNIT, is_ready: false };
        Self {
            groups: vec![group; groups as usize].into_boxed_slice(),
            members: vec![member; clients as usize].into_boxed_slice(),
            tree: Tree::new(clients),
            hand: 0,
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.groups.len() as u32 // made from a u32
    }

    pub(crate) fn group(&self, group: u32) -> &Group {
        &self.groups[group as usize]
    }

    pub(crate) fn group_mut(&mut self, group: u32) -> &mut Group {
        &mut self.groups[group as usize]
    }

    /// A client, which is not ready, comes into a group.
    pub(crate) fn admit(&mut self, group: u32, client: u32, weight: u32) {
        let clock = self.groups[group as usize].clock;
        self.members[client as usize] = Member { start: clock, per_unit: UNIT / u64::from(weight), is_ready: false };
    }

    /// The ready client that is next.
    pub(crate) fn first(&self, group: u32) -> Option<u32> {
        self.tree.first(self.group(group).ready)
    }

    /// The start of a client, the group's clock, the start of the first.
    pub(crate) fn stand(&self, group: u32, client: u32, first: u32) -> (u64, u64, u64) {
        let start = |client: u32| self.members[client as usize].start;
        (start(client), self.group(group).clock, start(first))
    }

    pub(crate) fn enter(&mut self, group: u32, client: u32) {
        let of = &mut self.groups[group as usize];
        let member = &mut self.members[client as usize];
        member.start = later(member.start, of.clock);
        member.is_ready = true;
        self.tree.insert(&mut of.ready, client, member.start, u64::from(client));
    }

    pub(crate) fn leave(&mut self, group: u32, client: u32) {
        self.members[client as usize].is_ready = false;
        self.tree.remove(&mut self.groups[group as usize].ready, client);
    }

    /// The first client is charged; it stays where it `is_ready` for more.
    pub(crate) fn charge(&mut self, group: u32, client: u32, cost: u32, is_ready: bool) {
        self.leave(group, client);
        let of = &mut self.groups[group as usize];
        let member = &mut self.members[client as usize];
        of.clock = later(of.clock, member.start);
        member.start = member.start.wrapping_add(member.per_unit * u64::from(cost));
        if is_ready {
            self.enter(group, client);
        }
    }

    /// Once for each dispatch to a member: keeps starts of those who do not ask from falling half a circle behind.
    pub(crate) fn tend(&mut self, group_of: impl Fn(u32) -> Option<u32>) {
        let client = self.hand;
        self.hand = if client + 1 < self.members.len() as u32 { client + 1 } else { 0 };
        let member = &mut self.members[client as usize];
        if let (false, Some(group)) = (member.is_ready, group_of(client)) {
            member.start = later(member.start, self.groups[group as usize].clock);
        }
    }
}
