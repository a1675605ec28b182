//! Waits of a machine's requests for one another: locks of objects, and writes that wait for late work of the server itself.
//!
//! An object, or a region, is a piece of the addresses of a class's devices, to which a request belongs by its first byte; or the object of
//! a request is drawn, whatever its address.

use std::collections::VecDeque;

use ioweir_core::Nanos;

use super::Numbered;

/// A piece of the addresses of devices: the first device, and the number of the piece. What is drawn is of the first device of all.
pub(super) type Piece = (usize, u64);

/// The objects that requests lock, or the regions of own work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// So many bytes of addresses each; above zero.
    OfBytes(u64),
    /// So many in all; above zero. Each request draws one.
    Drawn(u32),
}

impl Pieces {
    /// How many there are, if requests draw them.
    pub(super) fn drawn(self) -> Option<u32> {
        if let Self::Drawn(count) = self { Some(count) } else { None }
    }

    /// The piece of a request, from its place: the first of its devices, and its address; and from what it has drawn.
    pub(super) fn of(self, (device, address): (usize, u64), drawn: u32) -> Piece {
        match self {
            Self::OfBytes(bytes) => (device, address / bytes),
            Self::Drawn(count) => (0, u64::from(drawn % count)),
        }
    }
}

/// Locks of a machine's objects, as an experiment has them.
#[derive(Clone, Debug)]
pub struct MachineLocks {
    pub objects: Pieces,
    /// Whether requests of each class lock their object.
    pub is_locking: Vec<bool>,
}

/// One lock for each object; whoever waits gets it first come, first served.
#[derive(Debug)]
pub(super) struct Locks {
    pub(super) spec: MachineLocks,
    /// The request that holds the lock of each object, and those that wait for it.
    queues: Numbered<Piece, (u32, VecDeque<u32>)>,
}

impl Locks {
    pub(super) fn new(spec: MachineLocks) -> Self {
        Self { spec, queues: Numbered::default() }
    }

    /// Takes a lock for a request, or lets the request wait for it; returns whether the request has it.
    pub(super) fn acquire(&mut self, object: Piece, request: u32) -> bool {
        let (holder, waiting) = self.queues.entry(object).or_insert((request, VecDeque::new()));
        let has_it = *holder == request;
        if !has_it {
            waiting.push_back(request);
        }
        has_it
    }

    /// Whether a request has this lock.
    pub(super) fn is_held(&self, object: Piece, request: u32) -> bool {
        self.queues.get(&object).is_some_and(|(holder, _)| *holder == request)
    }

    /// Releases a lock, and returns the request that has it now.
    pub(super) fn release(&mut self, object: Piece) -> Option<u32> {
        let (holder, waiting) = self.queues.get_mut(&object)?;
        let next = waiting.pop_front();
        match next {
            Some(next) => *holder = next,
            None => drop(self.queues.remove(&object)),
        }
        next
    }
}

/// The server's own work, as an experiment has it.
#[derive(Clone, Debug)]
pub struct OwnWork {
    /// The class whose requests it is.
    pub class: usize,
    pub regions: Pieces,
    /// How long work may last before writes to its region wait for it.
    pub within: Nanos,
}

/// Own work that is not done, by region, and the writes that wait for it.
#[derive(Debug)]
pub(super) struct Gates {
    pub(super) spec: OwnWork,
    regions: Numbered<Piece, Gate>,
}

#[derive(Debug)]
struct Gate {
    /// Requests of own work that are not done.
    pending: u32,
    /// When writes begin to wait for them.
    late: Nanos,
    waiting: Vec<u32>,
}

impl Gates {
    pub(super) fn new(spec: OwnWork) -> Self {
        Self { spec, regions: Numbered::default() }
    }

    /// Own work has arrived.
    pub(super) fn begin(&mut self, region: Piece, now: Nanos) {
        let late = now.after(self.spec.within);
        self.regions.entry(region).or_insert(Gate { pending: 0, late, waiting: Vec::new() }).pending += 1;
    }

    /// Whether writes to a region wait for own work there.
    pub(super) fn are_closed(&self, region: Piece, now: Nanos) -> bool {
        self.regions.get(&region).is_some_and(|gate| gate.late <= now)
    }

    /// Lets a write wait.
    pub(super) fn hold_back(&mut self, region: Piece, request: u32) {
        if let Some(gate) = self.regions.get_mut(&region) {
            gate.waiting.push(request);
        }
    }

    /// Own work is done. After the last of its region, returns the writes that waited, in their order.
    pub(super) fn end(&mut self, region: Piece) -> Vec<u32> {
        let Some(gate) = self.regions.get_mut(&region) else { return Vec::new() };
        gate.pending -= 1;
        if gate.pending > 0 {
            return Vec::new();
        }
        self.regions.remove(&region).map_or(Vec::new(), |gate| gate.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_granted_in_request_order() {
        let mut locks = Locks::new(MachineLocks { objects: Pieces::OfBytes(1), is_locking: Vec::new() });
        let [one, other] = [(0, 0), (0, 1)];
        assert!(locks.acquire(one, 5) && locks.acquire(other, 6) && locks.acquire(one, 5));
        assert!(!locks.acquire(one, 1) && !locks.acquire(one, 7) && !locks.acquire(one, 2));
        assert_eq!(locks.release(one), Some(1));
        assert!(!locks.acquire(one, 3));
        assert_eq!([7, 2, 3].map(|_| locks.release(one)), [Some(7), Some(2), Some(3)]);
        assert_eq!(locks.release(one), None);
        assert!(locks.acquire(one, 4));
    }

    #[test]
    fn writes_wait_for_late_work_only() {
        let mut gates = Gates::new(OwnWork { class: 0, regions: Pieces::OfBytes(1), within: Nanos(100) });
        let [one, other] = [(0, 3), (1, 3)];
        gates.begin(one, Nanos(1_000));
        gates.begin(one, Nanos(1_050));
        assert!(!gates.are_closed(one, Nanos(1_099)), "it is not late yet");
        assert!(!gates.are_closed(other, Nanos(2_000)), "nothing is done there");
        assert!(gates.are_closed(one, Nanos(1_100)));
        [1, 2].into_iter().for_each(|write| gates.hold_back(one, write));
        assert_eq!((gates.end(one), gates.end(one)), (vec![], vec![1, 2]));
        assert!(!gates.are_closed(one, Nanos(9_000)));
    }
}
