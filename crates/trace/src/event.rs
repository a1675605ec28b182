//! Which event of the block layer becomes a record, and what is said where none is of that kind?

use crate::{Position, TraceError};

/// The event of a block-layer trace that becomes a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// `Q`: what was asked, before merging and splitting.
    #[default]
    Queue,
    /// `I`: what was put into the scheduler, after merging and splitting. Not every request passes through it.
    Insert,
    /// `D`: what was sent to the device, in the order the traced scheduler chose.
    Issue,
}

impl Event {
    /// Every kind, in the order of a request's life.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Insert, Self::Issue];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Insert => "insert",
            Self::Issue => "issue",
        }
    }
}

/// How many events of each kind went by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventCounts {
    pub(crate) all: u64,
    pub(crate) kinds: [u64; 3],
}

impl EventCounts {
    #[cold]
    pub(crate) fn nothing_found(&self, wanted: Event, file: &str) -> TraceError {
        if self.all == 0 {
            return TraceError::new(file, Position::File, "holds no events").expected("a trace with events");
        }
        let problem = format!("the trace has {} events but none of kind {}", self.all, wanted.name());
        let told = TraceError::new(file, Position::File, problem);
        let other = Event::ALL.iter().find(|kind| self.kinds[**kind as usize] > 0);
        match other.filter(|kind| **kind != wanted) {
            Some(kind) => told.hint(format!("try --event {}", kind.name())),
            None => told.expected("events of kind queue (Q), insert (I) or issue (D)"),
        }
    }
}
