//! Fair queueing among the clients of a group, by start tags.
//!
//! A group is served like a client, and its clients divide its service by weight.

use alloc::boxed::Box;
use alloc::vec;

use super::Share;
use super::fair::UNIT;
use crate::structure::{Root, Tree, later};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) share: Share,
    pub(crate) is_configured: bool,
    /// Whether its limit holds it back.
    pub(crate) is_throttled: bool,
    /// The number of requests of its active clients.
    pub(crate) requests: u32,
    /// The group's active clients, sorted by start tag.
    active: Root,
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    start: u64,
    per_unit: u64,
    is_active: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Groups {
    groups: Box<[Group]>,
    members: Box<[Member]>,
    tree: Tree,
    /// The client whose start is checked next.
    hand: u32,
}

impl Groups {
    pub(crate) fn new(groups: u32, clients: u32) -> Self {
        let group = Group {
            share: Share::DEFAULT,
            is_configured: false,
            is_throttled: false,
            requests: 0,
            active: Root::EMPTY,
            clock: 0,
        };
        let clients = if groups == 0 { 0 } else { clients };
        let member = Member { start: 0, per_unit: UNIT, is_active: false };
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

    /// Adds a client, which is not active, to a group.
    pub(crate) fn add(&mut self, group: u32, client: u32, weight: u32) {
        let clock = self.groups[group as usize].clock;
        self.members[client as usize] = Member { start: clock, per_unit: UNIT / u64::from(weight), is_active: false };
    }

    /// The active client whose turn is next.
    pub(crate) fn first(&self, group: u32) -> Option<u32> {
        self.tree.first(self.group(group).active)
    }

    /// The start tag of a client, the group's clock, and the start tag of the first client.
    pub(crate) fn tags(&self, group: u32, client: u32, first: u32) -> (u64, u64, u64) {
        let start = |client: u32| self.members[client as usize].start;
        (start(client), self.group(group).clock, start(first))
    }

    pub(crate) fn activate(&mut self, group: u32, client: u32) {
        let of = &mut self.groups[group as usize];
        let member = &mut self.members[client as usize];
        member.start = later(member.start, of.clock);
        member.is_active = true;
        self.tree.insert(&mut of.active, client, member.start, u64::from(client));
    }

    pub(crate) fn deactivate(&mut self, group: u32, client: u32) {
        self.members[client as usize].is_active = false;
        self.tree.remove(&mut self.groups[group as usize].active, client);
    }

    /// Charges the first client, which stays active if it has more requests.
    pub(crate) fn charge(&mut self, group: u32, client: u32, cost: u32, is_active: bool) {
        self.deactivate(group, client);
        let of = &mut self.groups[group as usize];
        let member = &mut self.members[client as usize];
        of.clock = later(of.clock, member.start);
        member.start = member.start.wrapping_add(member.per_unit * u64::from(cost));
        if is_active {
            self.activate(group, client);
        }
    }

    /// Charges a client more, or less if `by` is negative.
    pub(crate) fn correct(&mut self, group: u32, client: u32, by: i32) {
        let is_active = self.members[client as usize].is_active;
        if is_active {
            self.deactivate(group, client);
        }
        let member = &mut self.members[client as usize];
        let span = member.per_unit * u64::from(by.unsigned_abs());
        member.start = if by < 0 { member.start.wrapping_sub(span) } else { member.start.wrapping_add(span) };
        if is_active {
            self.activate(group, client);
        }
    }

    /// Keeps the start tags of inactive clients within half a circle of the clock. Called once for each dispatch.
    pub(crate) fn rebase(&mut self, group_of: impl Fn(u32) -> Option<u32>) {
        let client = self.hand;
        self.hand = if client + 1 < self.members.len() as u32 { client + 1 } else { 0 };
        let member = &mut self.members[client as usize];
        if let (false, Some(group)) = (member.is_active, group_of(client)) {
            member.start = later(member.start, self.groups[group as usize].clock);
        }
    }
}
