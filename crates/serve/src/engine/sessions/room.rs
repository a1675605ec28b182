//! The memory for the data of requests in flight. Half of it is divided among the classes of the device by their weights, so
//! that no class can take another's part; the other half is lent to the classes that ask first.

use ioweir_core::StreamId;

use crate::buffer::{Buffer, Pool};

/// The data that a client may always have in flight, however much the others hold.
const GUARANTEED_BYTES: u64 = 1 << 20;

/// The memory of a class.
#[derive(Clone, Copy, Debug, Default)]
struct ClassRoom {
    part: u64,
    held: u64,
}

impl ClassRoom {
    const fn borrowed(self) -> u64 {
        self.held.saturating_sub(self.part)
    }
}

/// The buffers of a device, and the number of bytes of them in use. Each connection keeps its own share of that number.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) pool: Pool,
    pub(super) bytes: u64,
    bytes_max: u64,
    classes: Vec<ClassRoom>,
    /// The bytes that classes hold beyond their parts.
    borrowed: u64,
}

impl Room {
    pub(super) const fn new(pool: Pool, bytes_max: u64) -> Self {
        Self { pool, bytes: 0, bytes_max, classes: Vec::new(), borrowed: 0 }
    }

    /// Divides half of the memory by the weights of classes, in the order of their numbers; classes of other devices have weight zero.
    pub(super) fn divide(&mut self, weights: &[u32]) {
        let all: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        self.classes.resize(self.classes.len().max(weights.len()), ClassRoom::default());
        for (class, &weight) in self.classes.iter_mut().zip(weights) {
            // A weight is at most 10,000, and the memory at most 1 TiB.
            class.part = self.bytes_max / 2 * u64::from(weight) / all.max(1);
        }
        self.borrowed = self.classes.iter().map(|class| class.borrowed()).sum();
    }

    /// The bytes that a class holds.
    pub(super) fn held_by(&self, class: StreamId) -> u64 {
        self.classes.get(class.0 as usize).map_or(0, |class| class.held)
    }

    /// Lets a client that holds `held` bytes hold more: always up to the guarantee; beyond that, within the part of its
    /// class, or while all classes together borrow no more than half of the memory. No client holds more than half.
    pub(super) fn take(&mut self, class: StreamId, held: &mut u64, bytes: u64) -> bool {
        let its = self.classes.get(class.0 as usize).copied().unwrap_or_default();
        let more = ClassRoom { held: its.held + bytes, ..its }.borrowed() - its.borrowed();
        let half = self.bytes_max / 2;
        let has_room =
            *held + bytes <= GUARANTEED_BYTES || (*held + bytes <= half && (more == 0 || self.borrowed + more <= half));
        if has_room {
            self.add(class, held, bytes);
        }
        has_room
    }

    /// Counts bytes that a client holds, whether there is room or not.
    pub(super) fn add(&mut self, class: StreamId, held: &mut u64, bytes: u64) {
        *held += bytes;
        self.bytes += bytes;
        self.change(class, |of_class| of_class + bytes);
    }

    pub(super) fn release(&mut self, class: StreamId, held: &mut u64, bytes: u64) {
        *held -= bytes;
        self.bytes -= bytes;
        self.change(class, |of_class| of_class - bytes);
    }

    fn change(&mut self, class: StreamId, make: impl FnOnce(u64) -> u64) {
        let number = class.0 as usize;
        if self.classes.len() <= number {
            self.classes.resize(number + 1, ClassRoom::default());
        }
        let its = &mut self.classes[number];
        let before = its.borrowed();
        its.held = make(its.held);
        self.borrowed = self.borrowed - before + its.borrowed();
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
        let mut new = 0;
        assert!(room.take(StreamId(1), &mut new, MIB) && !room.take(StreamId(1), &mut new, 1), "what all have");
        room.divide(&[1, 1]);
        assert_eq!((room.bytes, room.borrowed), (201 * MIB, 101 * MIB));
    }
}
