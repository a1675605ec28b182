//! The command queue of a drive, and the order in which it starts commands.
//!
//! A drive with a command queue (NCQ, tagged commands) knows the positions of its head and platters, which no host does. It
//! starts the command that it can begin soonest: shortest positioning time first (SPTF). Without a bound, a command could be
//! passed over for ever; here, a command that was passed over eight times for every command in the queue goes next. In a
//! busy queue each command waits, on average, for as many others as the queue holds, so this is rare. (This is an
//! assumption: drives do not document their order.)
//!
//! A flush is not queued: it waits for the commands before it, and those after it wait for the flush.

use ioweir_core::{Dispatch, Nanos, Operation};
use serde::{Deserialize, Serialize};

use super::Device;

/// The most times that a command is passed over, for every command in the queue.
const PASSED_OVER_MAX: u64 = 8;

/// The order in which a drive serves the commands that it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandOrder {
    /// In the order of arrival.
    #[default]
    Fifo,
    /// The command with the shortest positioning time, unless one was passed over too often.
    Sptf,
}

/// A command in the queue.
#[derive(Clone, Copy, Debug)]
struct Held<T> {
    sequence: u64,
    /// The number of commands that had been taken out before this one came.
    taken: u64,
    dispatch: Dispatch,
    note: T,
}

/// The commands that a drive holds and has not begun, each with a note of its submitter.
#[derive(Clone, Debug)]
pub struct CommandQueue<T> {
    order: CommandOrder,
    held: Vec<Held<T>>,
    sequence: u64,
    taken: u64,
}

impl<T: Copy> CommandQueue<T> {
    /// An empty queue of this order.
    #[must_use]
    pub fn new(order: CommandOrder) -> Self {
        Self { order, held: Vec::new(), sequence: 0, taken: 0 }
    }

    /// Adds a command.
    pub fn push(&mut self, dispatch: Dispatch, note: T) {
        self.sequence += 1;
        self.held.push(Held { sequence: self.sequence, taken: self.taken, dispatch, note });
    }

    /// The number of commands in the queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Removes the command that `device`, which is free now, begins next. Equal commands go in order of arrival.
    pub fn pop(&mut self, now: Nanos, device: &dyn Device) -> Option<(Dispatch, T)> {
        let numbered = || self.held.iter().enumerate();
        let (oldest, first) = numbered().min_by_key(|(_, held)| held.sequence)?;
        let passed_over_max = PASSED_OVER_MAX * self.held.len() as u64;
        let mut next = oldest;
        if self.order == CommandOrder::Sptf && self.held.len() > 1 && self.taken - first.taken < passed_over_max {
            let flush = self.held.iter().filter(|held| held.dispatch.operation == Operation::Flush);
            let barrier = flush.map(|held| held.sequence).min().unwrap_or(u64::MAX);
            let cost = |held: &Held<T>| (device.positioning_nanos(now, &held.dispatch), held.sequence);
            let before = numbered().filter(|(_, held)| held.sequence < barrier);
            next = before.min_by_key(|(_, held)| cost(held)).map_or(oldest, |(number, _)| number);
        }
        self.taken += 1;
        let held = self.held.swap_remove(next);
        Some((held.dispatch, held.note))
    }
}
