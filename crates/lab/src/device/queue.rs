//! Which of the commands that a drive holds is next?
//!
//! A drive with a command queue (NCQ, tagged commands) knows where its head and its platters are, which no host does, and
//! picks the command that it can begin soonest: shortest positioning time first (SPTF). Left alone, that can starve a
//! command for long, so that one which has waited for half a second (an
//! assumption: drives do not say) goes before all others.

use ioweir_core::{Dispatch, Nanos};
use serde::{Deserialize, Serialize};

use super::Device;

/// How long a command is passed over at most.
const AGE_NANOS_MAX: u64 = 500_000_000;

/// In which order a drive serves the commands that it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandOrder {
    /// As they came.
    #[default]
    Fifo,
    /// The one with the shortest positioning time, unless one has waited too long.
    Sptf,
}

/// A command in the queue.
#[derive(Clone, Copy, Debug)]
struct Held<T> {
    arrival: Nanos,
    sequence: u64,
    dispatch: Dispatch,
    note: T,
}

/// The commands that a drive holds and has not begun, each with a note of whoever gave it.
#[derive(Clone, Debug)]
pub struct CommandQueue<T> {
    order: CommandOrder,
    held: Vec<Held<T>>,
    sequence: u64,
}

impl<T: Copy> CommandQueue<T> {
    /// An empty queue of this order.
    #[must_use]
    pub fn new(order: CommandOrder) -> Self {
        Self { order, held: Vec::new(), sequence: 0 }
    }

    /// Takes a command.
    pub fn push(&mut self, now: Nanos, dispatch: Dispatch, note: T) {
        self.sequence += 1;
        self.held.push(Held { arrival: now, sequence: self.sequence, dispatch, note });
    }

    /// Commands held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes out the command that `device`, free now, begins next. Equal ones go in order of arrival.
    pub fn pop(&mut self, now: Nanos, device: &dyn Device) -> Option<(Dispatch, T)> {
        let oldest = self.held.iter().enumerate().min_by_key(|(_, held)| held.sequence)?;
        let (mut next, first) = (oldest.0, oldest.1);
        if self.order == CommandOrder::Sptf && now.since(first.arrival).0 < AGE_NANOS_MAX && self.held.len() > 1 {
            let cost = |held: &Held<T>| (device.positioning_nanos(now, &held.dispatch), held.sequence);
            next = (0..self.held.len()).min_by_key(|&number| cost(&self.held[number]))?;
        }
        let held = self.held.swap_remove(next);
        Some((held.dispatch, held.note))
    }
}
