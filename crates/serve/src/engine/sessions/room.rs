//! Memory for the data of requests in flight: shared by the clients of a device, with a little guaranteed to each.

use crate::buffer::{Buffer, Pool};

/// Data that a client may have in flight however much the others hold.
const GUARANTEED_BYTES: u64 = 1 << 20;

/// The buffers of a device, and how many bytes of them are in use. Each connection keeps its own share of that number.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) pool: Pool,
    pub(super) bytes: u64,
    bytes_max: u64,
}

impl Room {
    pub(super) const fn new(pool: Pool, bytes_max: u64) -> Self {
        Self { pool, bytes: 0, bytes_max }
    }

    /// Lets a client that holds `held` bytes hold more: up to the guarantee always, beyond it up to half of the memory and
    /// while all clients together stay within it.
    pub(super) const fn take(&mut self, held: &mut u64, bytes: u64) -> bool {
        let more = *held + bytes;
        let is_shared = more <= self.bytes_max / 2 && self.bytes + bytes <= self.bytes_max;
        let has_room = more <= GUARANTEED_BYTES || is_shared;
        if has_room {
            *held = more;
            self.bytes += bytes;
        }
        has_room
    }

    pub(super) const fn release(&mut self, held: &mut u64, bytes: u64) {
        *held -= bytes;
        self.bytes -= bytes;
    }

    /// Takes a buffer back, and returns what it counted for.
    pub(super) fn give_back(&mut self, buffer: Buffer) -> u64 {
        let charge = self.pool.charge(buffer.capacity());
        self.pool.give(buffer);
        charge
    }
}
