//! Which reservations the device has time for, at the worst mean cost seen of each client.

use alloc::boxed::Box;
use alloc::vec;

use crate::Nanos;
use crate::settings::SECOND;
use crate::tenant::{Share, ShareError};

#[derive(Clone, Copy, Debug)]
struct Node {
    reservation_per_second: u64,
    /// The largest mean cost of its requests; the largest of all nodes until its own is known.
    nanos: u64,
    /// Whether `nanos` was measured for this node.
    is_known: bool,
}

impl Node {
    /// The device time that its reservation needs in a second.
    fn needed_nanos(&self) -> u128 {
        u128::from(self.reservation_per_second) * u128::from(self.nanos)
    }
}

#[derive(Clone, Debug)]
pub(super) struct WorstCosts {
    nodes: Box<[Node]>,
    /// The largest mean cost of any node.
    nanos: u64,
    /// The device time that all reservations need in a second, at the worst costs.
    needed_nanos: u128,
    /// The device time that there is in a second: costs add up to responses, of which a second has one for each request in flight.
    available_nanos: u64,
}

impl WorstCosts {
    pub(super) fn new(nodes: u32, depth: u32) -> Self {
        let node = Node { reservation_per_second: 0, nanos: 0, is_known: false };
        Self {
            nodes: vec![node; nodes as usize].into_boxed_slice(),
            nanos: 0,
            needed_nanos: 0,
            available_nanos: SECOND * u64::from(depth),
        }
    }

    /// Whether a mean cost is to be recorded.
    #[inline(always)]
    pub(super) fn is_exceeded(&self, node: u32, nanos: u64) -> bool {
        let of = &self.nodes[node as usize];
        nanos > of.nanos || !of.is_known
    }

    /// Records that a client's mean is larger than ever before.
    #[inline(never)]
    pub(super) fn record(&mut self, node: u32, nanos: u64) {
        self.nanos = self.nanos.max(nanos);
        self.change(node, |of| (of.nanos, of.is_known) = (nanos, true));
    }

    pub(super) fn set_reservation(&mut self, node: u32, per_second: u64) {
        let worst = self.nanos;
        self.change(node, |of| {
            of.reservation_per_second = per_second;
            if !of.is_known {
                of.nanos = worst;
            }
        });
    }

    fn change(&mut self, node: u32, change: impl FnOnce(&mut Node)) {
        let of = &mut self.nodes[node as usize];
        self.needed_nanos -= of.needed_nanos();
        change(of);
        self.needed_nanos += of.needed_nanos();
    }

    pub(super) fn forget(&mut self, node: u32) {
        self.nodes[node as usize].is_known = false;
    }

    /// Whether the device has time for the reservation in a share, beside those of all other nodes.
    pub(super) fn admit(&self, node: Option<u32>, share: &Share) -> Result<(), ShareError> {
        let of = node.map(|node| &self.nodes[node as usize]);
        let cost = of.filter(|of| of.is_known).map_or(self.nanos, |of| of.nanos);
        let others = self.needed_nanos - of.map_or(0, Node::needed_nanos);
        let asked = u128::from(share.reservation_per_second) * u128::from(cost);
        if asked == 0 || others + asked <= u128::from(self.available_nanos) {
            return Ok(());
        }
        Err(ShareError::InfeasibleTime {
            asked_per_second: share.reservation_per_second,
            cost: Nanos(cost),
            reserved: Nanos(u64::try_from(others).unwrap_or(u64::MAX)),
            available: Nanos(self.available_nanos),
        })
    }
}
