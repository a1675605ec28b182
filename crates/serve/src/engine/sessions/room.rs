//! The memory for the data of requests in flight. A part of it is divided evenly among the clients that there may be, so that
//! each has its minimum. Half of the rest is divided among the classes of the device by their weights, so that no class can
//! take another's part; the other half is lent to the classes that ask first.

use ioweir_core::StreamId;

use crate::buffer::{Buffer, Pool};
use crate::spec::client_bytes;

/// The memory of a class.
#[derive(Clone, Copy, Debug, Default)]
struct ClassRoom {
    part: u64,
    held: u64,
    /// The bytes that its clients hold beyond their minimum.
    excess: u64,
}

impl ClassRoom {
    const fn borrowed(self) -> u64 {
        self.excess.saturating_sub(self.part)
    }
}

/// The buffers of a device, and the number of bytes of them in use. Each connection keeps its own share of that number.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) pool: Pool,
    pub(super) bytes: u64,
    bytes_max: u64,
    /// The minimum of each client.
    client_bytes: u64,
    /// The memory that is not set aside for clients.
    shared: u64,
    classes: Vec<ClassRoom>,
    /// The bytes that classes hold beyond their parts.
    borrowed: u64,
}

impl Room {
    /// The memory for a single client.
    pub(super) const fn new(pool: Pool, bytes_max: u64) -> Self {
        Self { pool, bytes: 0, bytes_max, client_bytes: 0, shared: bytes_max, classes: Vec::new(), borrowed: 0 }
    }

    /// Sets aside a minimum for each of so many clients, of which some hold bytes already. The parts of classes must be divided
    /// again.
    pub(super) fn set_clients(&mut self, clients_max: u32, clients: impl Iterator<Item = (StreamId, u64)>) {
        self.client_bytes = client_bytes(self.bytes_max, clients_max);
        self.shared = self.bytes_max - self.client_bytes * u64::from(clients_max);
        self.classes.iter_mut().for_each(|class| class.excess = 0);
        for (class, held) in clients {
            let excess = self.excess_of(held);
            self.class_mut(class).excess += excess;
        }
    }

    /// Divides half of the memory by the weights of classes, in the order of their numbers; classes of other devices have weight zero.
    pub(super) fn divide(&mut self, weights: &[u32]) {
        let all: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        self.classes.resize(self.classes.len().max(weights.len()), ClassRoom::default());
        for (class, &weight) in self.classes.iter_mut().zip(weights) {
            // A weight is at most 10,000, and the memory at most 1 TiB.
            class.part = self.shared / 2 * u64::from(weight) / all.max(1);
        }
        self.borrowed = self.classes.iter().map(|class| class.borrowed()).sum();
    }

    /// The bytes that a class holds.
    pub(super) fn held_by(&self, class: StreamId) -> u64 {
        self.classes.get(class.0 as usize).map_or(0, |class| class.held)
    }

    const fn excess_of(&self, held: u64) -> u64 {
        held.saturating_sub(self.client_bytes)
    }

    /// Lets a client that holds `held` bytes hold more: always up to its minimum; beyond that, within the part of its class,
    /// or while all classes together borrow no more than half of what is shared. No client holds more than half of the memory,
    /// and all together no more than there is.
    pub(super) fn take(&mut self, class: StreamId, held: &mut u64, bytes: u64) -> bool {
        let its = self.classes.get(class.0 as usize).copied().unwrap_or_default();
        let excess = its.excess + self.excess_of(*held + bytes) - self.excess_of(*held);
        let more = ClassRoom { excess, ..its }.borrowed() - its.borrowed();
        let may_borrow = more == 0 || self.borrowed + more <= self.shared / 2;
        let has_room = *held + bytes <= self.client_bytes || (*held + bytes <= self.bytes_max / 2 && may_borrow);
        // More clients than the spec says, as after a change of it, get no more memory.
        let has_room = has_room && self.bytes + bytes <= self.bytes_max;
        if has_room {
            self.add(class, held, bytes);
        }
        has_room
    }

    /// Counts bytes that a client holds, whether there is room or not.
    pub(super) fn add(&mut self, class: StreamId, held: &mut u64, bytes: u64) {
        self.bytes += bytes;
        self.change(class, held, *held + bytes);
        // Buffers that nobody uses count, too.
        let left = self.bytes_max.saturating_sub(self.bytes);
        if self.pool.free_bytes() > left {
            self.pool.shrink(left);
        }
    }

    pub(super) fn release(&mut self, class: StreamId, held: &mut u64, bytes: u64) {
        self.bytes -= bytes;
        self.change(class, held, *held - bytes);
    }

    fn class_mut(&mut self, class: StreamId) -> &mut ClassRoom {
        let number = class.0 as usize;
        if self.classes.len() <= number {
            self.classes.resize(number + 1, ClassRoom::default());
        }
        &mut self.classes[number]
    }

    /// Changes the number of bytes that a client holds.
    fn change(&mut self, class: StreamId, held: &mut u64, after: u64) {
        let (before, excess, more) = (*held, self.excess_of(*held), self.excess_of(after));
        *held = after;
        let its = self.class_mut(class);
        let borrowed = its.borrowed();
        its.held = its.held + after - before;
        its.excess = its.excess + more - excess;
        let borrows = its.borrowed();
        self.borrowed = self.borrowed - borrowed + borrows;
    }

    /// Takes a buffer back, and returns the number of bytes that it counted as.
    pub(super) fn give_back(&mut self, buffer: Buffer) -> u64 {
        let charge = self.pool.charge(buffer.capacity());
        self.pool.give(buffer);
        charge
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    #[test]
    fn classes_share_half_the_room_and_own_half() {
        let mut room = Room::new(Pool::new(4096), 200 * MIB);
        room.divide(&[3, 1]);
        let (mut greedy, mut second, mut heavy) = (0, 0, 0);
        assert!(room.take(StreamId(1), &mut greedy, 100 * MIB));
        assert!(!room.take(StreamId(1), &mut greedy, 1), "no client has more than half");
        assert!(room.take(StreamId(1), &mut second, 25 * MIB), "its part is 25 MiB, and 100 MiB are there to borrow");
        assert!(!room.take(StreamId(1), &mut second, 1));
        assert!(room.take(StreamId(0), &mut heavy, 75 * MIB));
        assert!(!room.take(StreamId(0), &mut heavy, 1), "all that can be borrowed is");
        room.release(StreamId(1), &mut second, 20 * MIB);
        assert!(room.take(StreamId(0), &mut heavy, 20 * MIB));
        room.divide(&[1, 1]);
        assert_eq!((room.bytes, room.borrowed), (200 * MIB, 100 * MIB));
    }

    #[test]
    fn ten_thousand_clients_get_minimums_within_bounds() {
        let (bytes_max, clients_max) = (256 * MIB, 10_000);
        let mut room = Room::new(Pool::new(4096), bytes_max);
        room.set_clients(clients_max, std::iter::empty());
        room.divide(&[7, 1]);
        let minimum = client_bytes(bytes_max, clients_max);
        assert!(minimum >= 6 * KIB && minimum * 10_000 <= bytes_max / 4);
        let mut held = vec![0; 10_000];
        let class = |number: usize| StreamId((number % 2) as u32);
        // Clients that come first take what they can get.
        for (number, held) in held.iter_mut().enumerate().take(5_000) {
            while room.take(class(number), held, 4 * KIB) {}
        }
        for (number, held) in held.iter_mut().enumerate().skip(5_000) {
            assert!(room.take(class(number), held, minimum), "client {number}");
        }
        assert_eq!((room.bytes, room.bytes <= bytes_max), (held.iter().sum(), true));
        // If the number of clients changes, their minimum does; the bytes that they hold stay counted.
        let clients = || held.iter().enumerate().map(|(number, held)| (class(number), *held));
        room.set_clients(100, clients());
        room.divide(&[7, 1]);
        let excess = |only: u32| -> u64 {
            let its = clients().filter(|(class, _)| class.0 == only);
            its.map(|(_, held)| held.saturating_sub(client_bytes(bytes_max, 100))).sum()
        };
        assert_eq!([room.classes[0].excess, room.classes[1].excess], [excess(0), excess(1)]);
        for (number, held) in held.iter_mut().enumerate() {
            let all = *held;
            room.release(class(number), held, all);
        }
        assert_eq!((room.bytes, room.borrowed, room.classes[0].excess + room.classes[1].excess), (0, 0, 0));
    }
}
