//! The weights of `io.cost`: a tree of clients and groups, in which active clients lend out what they do not use.
//!
//! A client's *active* weight is its own while it is active; its *inuse* weight is what it has left after lending. A part of the device is
//! the product of weights over sums along the path from the root, in 65,536ths.

use alloc::boxed::Box;
use alloc::vec;

use super::model::WHOLE;
use crate::structure::{Links, List, NONE};

#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    /// The configured weight, times 65,536.
    pub(super) own: u64,
    pub(super) active: u64,
    pub(super) inuse: u64,
    last_inuse: u64,
    pub(super) parent: u32,
    children_active: u64,
    children_inuse: u64,
    /// Whether a client is active.
    pub(super) is_active: bool,
    /// How far its virtual time was behind when its weight was set last.
    pub(super) saved_margin: i64,
    /// While lending is computed: the part of those who lend at or below it, before and after; its own parts; the sum of weights below.
    lending: u64,
    pub(super) after: u64,
    part: u64,
    part_after: u64,
    adjusted: u64,
}

/// `of * part / whole`, rounded up.
fn portion(of: u64, part: u64, whole: u64) -> u64 {
    let portion = (u128::from(of) * u128::from(part)).div_ceil(u128::from(whole.max(1)));
    u64::try_from(portion).unwrap_or(u64::MAX)
}

#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: Box<[Weight]>,
    root: u32,
    /// The active clients, and those of them that lend.
    pub(super) active: List,
    pub(super) active_links: Links,
    lenders: List,
    lender_links: Links,
}

impl Tree {
    /// A tree of clients and groups, all of them below the root.
    pub(super) fn new(nodes: u32) -> Self {
        let root = nodes;
        let weight = Weight {
            own: WHOLE,
            active: 0,
            inuse: 0,
            last_inuse: 0,
            parent: root,
            children_active: 0,
            children_inuse: 0,
            is_active: false,
            saved_margin: 0,
            lending: 0,
            after: 0,
            part: 0,
            part_after: 0,
            adjusted: 0,
        };
        Self {
            nodes: vec![weight; nodes as usize + 1].into_boxed_slice(),
            root,
            active: List::EMPTY,
            active_links: Links::new(nodes),
            lenders: List::EMPTY,
            lender_links: Links::new(nodes + 1),
        }
    }

    pub(super) fn of(&self, node: u32) -> &Weight {
        &self.nodes[node as usize]
    }

    fn of_mut(&mut self, node: u32) -> &mut Weight {
        &mut self.nodes[node as usize]
    }

    /// The group of a client, and the client; the client alone if it has no group.
    fn path(&self, client: u32) -> impl Iterator<Item = u32> + use<> {
        let parent = self.of(client).parent;
        [parent, client].into_iter().skip(usize::from(parent == self.root))
    }

    /// The parts of the device that a client has by its active and its inuse weight.
    pub(super) fn parts(&self, client: u32) -> (u64, u64) {
        let (mut active, mut inuse) = (WHOLE, WHOLE);
        for node in self.path(client) {
            let (of, parent) = (self.of(node), self.of(self.of(node).parent));
            if parent.children_active != 0 && parent.children_inuse != 0 {
                active = active * of.active / parent.children_active.max(of.active);
                inuse = inuse * of.inuse / parent.children_inuse.max(of.inuse);
            }
        }
        (active.max(1), inuse.max(1))
    }

    /// The part that a client would have if it lent nothing.
    pub(super) fn part_max(&self, client: u32) -> u64 {
        let (mut part, mut inuse, mut node) = (WHOLE, self.of(client).active, client);
        while node != self.root {
            let (of, parent) = (self.of(node), self.of(self.of(node).parent));
            let sum = parent.children_inuse + inuse - of.inuse;
            part = part * inuse / sum.max(1);
            inuse = portion(parent.active, sum, parent.children_active);
            node = of.parent;
        }
        part.max(1)
    }

    /// Sets a client's weights, and those of its group; with a margin, saves how far the client is behind.
    pub(super) fn set(&mut self, client: u32, active: u64, inuse: u64, margin: Option<i64>) {
        let (mut active, mut inuse) = (active, inuse.max(1).min(active));
        let of = self.of_mut(client);
        of.last_inuse = of.inuse;
        of.saved_margin = margin.unwrap_or(of.saved_margin);
        let mut node = client;
        while node != self.root && (self.of(node).active, self.of(node).inuse) != (active, inuse) {
            let of = self.of_mut(node);
            let (before_active, before_inuse) = (of.active, of.inuse);
            (of.active, of.inuse) = (active, inuse);
            node = of.parent;
            let parent = self.of_mut(node);
            parent.children_active = parent.children_active + active - before_active;
            parent.children_inuse = parent.children_inuse + inuse - before_inuse;
            active = if parent.children_active == 0 { 0 } else { parent.own };
            inuse = portion(active, parent.children_inuse, parent.children_active);
        }
    }

    /// A client becomes active.
    pub(super) fn activate(&mut self, client: u32, margin: i64) {
        self.of_mut(client).is_active = true;
        self.active_links.push_back(&mut self.active, client);
        let of = self.of(client);
        let inuse = if of.last_inuse == 0 { of.own } else { of.last_inuse };
        self.set(client, of.own, inuse, Some(margin));
    }

    /// A client is no longer active.
    pub(super) fn deactivate(&mut self, client: u32) {
        self.of_mut(client).is_active = false;
        self.active_links.remove(&mut self.active, client);
        self.set(client, 0, 0, None);
    }

    /// Sets the configured weight and the parent of a node, whether or not it is active.
    pub(super) fn configure(&mut self, node: u32, weight: u64, parent: u32, margin: i64) {
        let parent = if parent == NONE { self.root } else { parent };
        let was_active = self.of(node).is_active;
        if was_active {
            self.deactivate(node);
        }
        let of = self.of_mut(node);
        (of.own, of.parent, of.last_inuse) = (weight * WHOLE, parent, 0);
        if was_active {
            self.activate(node, margin);
        }
        // A group's weight counts from now on for what is active below it.
        let of = *self.of(node);
        if of.children_active > 0 {
            let inuse = portion(of.own, of.children_inuse, of.children_active);
            self.set(node, of.own, inuse, None);
        }
    }

    /// A debtor's inuse weight is one; it gets its last one back.
    pub(super) fn restore(&mut self, client: u32) {
        let of = self.of(client);
        self.set(client, of.active, of.last_inuse, None);
    }

    /// Notes that a client lends: it keeps this part of the device.
    pub(super) fn lend(&mut self, client: u32, after: u64) {
        let part = self.parts(client).0;
        let of = self.of_mut(client);
        (of.lending, of.after) = (part, after);
        self.lender_links.push_back(&mut self.lenders, client);
    }

    /// Sets the inuse weights of those who lend; `margin` gives how far a client is behind.
    pub(super) fn transfer(&mut self, is_wanted: bool, is_debtor: impl Fn(u32) -> bool, margin: impl Fn(u32) -> i64) {
        let mut lenders = core::mem::replace(&mut self.lenders, List::EMPTY);
        if is_wanted && !lenders.is_empty() {
            self.scale_down(&lenders);
            if let Some(gamma) = self.sum_up(&lenders) {
                self.adjust(&lenders, gamma);
                let mut client = lenders.head();
                while client != NONE {
                    let of = *self.of(client);
                    let parent = self.of(of.parent);
                    let inuse = portion(parent.adjusted, of.after, parent.part_after);
                    if !is_debtor(client) {
                        self.set(client, of.active, inuse, Some(margin(client)));
                    }
                    client = self.lender_links.next(client);
                }
            }
        }
        while self.lender_links.pop_front(&mut lenders).is_some() {}
    }

    /// Keeps the parts after lending below the whole: those that are above their own shrink.
    fn scale_down(&mut self, lenders: &List) {
        let (mut sum, mut above) = (0, 0);
        self.each(lenders, |of| {
            sum += of.after;
            above += if of.after > of.lending { of.after } else { 0 };
        });
        if sum >= WHOLE {
            let target = above.saturating_sub(sum - WHOLE + 1);
            self.each(lenders, |of| {
                if target > 0 && of.after > of.lending {
                    of.after = of.after * target / above;
                }
            });
        }
    }

    fn each(&mut self, list: &List, mut act: impl FnMut(&mut Weight)) {
        let mut node = list.head();
        while node != NONE {
            act(&mut self.nodes[node as usize]);
            node = self.lender_links.next(node);
        }
    }

    /// Adds up what is lent below each group and the root; returns the factor, in 65,536ths, by which those who do not lend grow.
    fn sum_up(&mut self, lenders: &List) -> Option<u64> {
        let root = self.root;
        let mut client = lenders.head();
        while client != NONE {
            let parent = self.of(client).parent;
            for node in [parent, root] {
                let of = self.of_mut(node);
                (of.lending, of.after) = (0, 0);
            }
            client = self.lender_links.next(client);
        }
        let mut client = lenders.head();
        while client != NONE {
            let of = *self.of(client);
            for node in [of.parent, root].into_iter().skip(usize::from(of.parent == root)) {
                let parent = self.of_mut(node);
                parent.lending += of.lending;
                parent.after += of.after;
            }
            client = self.lender_links.next(client);
        }
        self.of_mut(root).part = WHOLE;
        let mut client = lenders.head();
        while client != NONE {
            let group = self.of(client).parent;
            for node in [root, group] {
                if node != root {
                    let (of, above) = (self.of(node), self.of(root));
                    let part = portion(WHOLE, of.active, above.children_active);
                    self.of_mut(node).part = part;
                }
                let of = self.of_mut(node);
                of.lending = of.lending.min(of.part);
                of.after = of.after.min(of.lending.saturating_sub(1));
                if of.part <= 1 || of.lending <= 1 || of.after == 0 {
                    return None;
                }
            }
            client = self.lender_links.next(client);
        }
        let of = self.of(root);
        Some(portion(WHOLE - of.after, WHOLE, WHOLE - of.lending.min(WHOLE - 1)))
    }

    /// Computes, for the root and the groups, their part after lending and the sum of weights below them.
    fn adjust(&mut self, lenders: &List, gamma: u64) {
        let root = self.root;
        let of = self.of_mut(root);
        of.part_after = WHOLE;
        of.adjusted = portion(of.children_active, WHOLE - of.lending, WHOLE - of.after);
        let above = *of;
        let mut client = lenders.head();
        while client != NONE {
            let group = self.of(client).parent;
            if group != root {
                let of = self.of_mut(group);
                of.part_after = portion(gamma, of.part - of.lending, WHOLE) + of.after;
                let inuse = portion(above.adjusted, of.part_after, WHOLE);
                let lent = portion(of.children_active, of.lending, of.part);
                let before = portion(of.active, of.lending, of.part);
                let after = portion(inuse, of.after, of.part_after);
                of.adjusted = of.children_active - lent + portion(lent, after, before);
            }
            client = self.lender_links.next(client);
        }
    }
}
