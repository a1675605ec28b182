//! The mean cost of each client's last requests.

use alloc::boxed::Box;
use alloc::vec;

/// The most that one request counts: 2.1 seconds.
pub(super) const NANOS_MAX: u64 = 1 << 31;

#[derive(Clone, Copy, Debug)]
struct Ring {
    sum: u64,
    /// The position of the next cost, and the number of costs.
    at: u32,
    count: u32,
}

/// A ring of the last costs for each node, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Means {
    costs: Box<[u32]>,
    rings: Box<[Ring]>,
    /// The number of costs remembered for each node.
    length: u32,
}

impl Means {
    pub(super) fn new(nodes: u32, length: u32) -> Self {
        let ring = Ring { sum: 0, at: 0, count: 0 };
        Self {
            costs: vec![0; nodes as usize * length as usize].into_boxed_slice(),
            rings: vec![ring; nodes as usize].into_boxed_slice(),
            length,
        }
    }

    pub(super) fn forget(&mut self, node: u32) {
        self.rings[node as usize] = Ring { sum: 0, at: 0, count: 0 };
    }

    /// Replaces the oldest cost; returns the mean.
    pub(super) fn add(&mut self, node: u32, nanos: u64) -> u64 {
        let nanos = nanos.min(NANOS_MAX) as u32; // as `NANOS_MAX` is
        let ring = &mut self.rings[node as usize];
        let cost = &mut self.costs[(node * self.length + ring.at) as usize];
        if ring.count == self.length {
            ring.sum -= u64::from(*cost);
        } else {
            ring.count += 1;
        }
        *cost = nanos;
        ring.sum += u64::from(nanos);
        ring.at = if ring.at + 1 == self.length { 0 } else { ring.at + 1 };
        ring.sum / u64::from(ring.count)
    }

    /// The mean, if any cost is known.
    pub(super) fn mean(&self, node: u32) -> Option<u64> {
        let ring = &self.rings[node as usize];
        ring.sum.checked_div(u64::from(ring.count))
    }

    /// Whether the mean is taken over a full ring.
    pub(super) fn is_full(&self, node: u32) -> bool {
        self.rings[node as usize].count == self.length
    }
}
