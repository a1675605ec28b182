//! The memory of a server: reads that are answered from it, and reads ahead of those that a client will ask for.

use ioweir_config::Ratio;
use ioweir_core::{Flags, Nanos, Operation, Priority, StreamId};
use ioweir_device::random::Random;
use ioweir_trace::Record;

/// Draws of clients are numbered from here on; those of devices and of classes are below.
const FIRST_DRAWS: u64 = 1 << 32;

/// The chances that data are in memory.
#[derive(Clone, Debug)]
pub struct MachineMemory {
    /// Of the reads of each class, the share whose data are not in memory; all of them where `None`.
    misses: Vec<Option<Ratio>>,
    /// A source for each client, with one draw for each of its reads: every schedule finds the same reads in memory.
    draws: Vec<Random>,
}

impl MachineMemory {
    /// The memory for so many clients in classes with these shares of misses; `None` if no class has one.
    #[must_use]
    pub fn new(misses: Vec<Option<Ratio>>, clients: usize, seed: u64) -> Option<Self> {
        let draws = |_| (0..clients as u64).map(|client| Random::stream(seed, FIRST_DRAWS + client)).collect();
        let draws = misses.iter().flatten().next().map(draws)?;
        Some(Self { misses, draws })
    }

    /// Whether the next read of a client finds its data.
    pub(super) fn holds(&mut self, class: usize, client: usize) -> bool {
        self.misses[class].is_some_and(|misses| !self.draws[client].chance(misses))
    }
}

/// Reads ahead of clients that read on.
#[derive(Clone, Debug)]
pub struct ReadAhead {
    /// The client as which the server reads ahead.
    pub stream: StreamId,
    pub priority: Priority,
    /// The length of a read ahead; above zero.
    pub bytes: u64,
    /// The size of the devices that serve it.
    pub end_byte: u64,
    /// Whether it reads ahead of each class.
    pub is_ahead_of: Vec<bool>,
}

impl ReadAhead {
    /// The read ahead that follows from a read of a class which continues its client's last one: when that comes to a multiple of
    /// `bytes`, as many from there on.
    pub(super) fn follow(&self, now: Nanos, class: usize, record: &Record) -> Option<Record> {
        let (first, end) = (record.offset_bytes, record.offset_bytes.saturating_add(record.length_bytes));
        let offset_bytes = end - end % self.bytes;
        let is_due = self.is_ahead_of[class] && record.operation == Operation::Read && offset_bytes > first;
        if !is_due || offset_bytes.saturating_add(self.bytes) > self.end_byte {
            return None;
        }
        Some(Record {
            time: now,
            offset_bytes,
            length_bytes: self.bytes,
            operation: Operation::Read,
            flags: Flags::NONE,
            stream: self.stream,
            volume: 0,
            priority: self.priority,
            latency: None,
        })
    }
}
