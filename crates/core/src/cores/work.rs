//! What does a worker run, and what is it told?

use crate::cores::Queue;
use crate::{Nanos, Tag};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Reads data.
    Read,
    /// Changes something; it is acknowledged once it is logged.
    Write,
    /// Neither: an attribute lookup, say.
    Other,
}

impl Kind {
    /// Every kind, in the order of the discriminants.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Other];

    /// The name used in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Other => "other",
        }
    }
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Source {
    /// A client waits for it.
    Client,
    /// The server's own work that can wait: prefetching, say.
    Background,
    /// The server's own work that must not wait for long: a consistency point that frees the log.
    Critical,
}

/// What is known of a request when it comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// What it does.
    pub kind: Kind,
    /// Where it comes from.
    pub source: Source,
    /// How much it moves; 0 where nothing.
    pub bytes: u32,
    /// Whether it goes on where an earlier one ended.
    pub sequential: bool,
    /// When it has to be done; `None` is best effort.
    pub deadline: Option<Nanos>,
}

impl Work {
    /// What a place holds before it holds a request.
    pub(super) const NOTHING: Self =
        Self { kind: Kind::Other, source: Source::Client, bytes: 0, sequential: false, deadline: None };
}

/// How the server's write log stands: one part of it takes writes while a consistency point empties the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// How much of the part that takes writes is filled, in thousandths.
    pub filled_per_mille: u16,
    /// How much of the running consistency point is left to do, in thousandths; 0 where none runs.
    pub unflushed_per_mille: u16,
}

impl Log {
    /// By how many thousandths filling is ahead of flushing, 0 to 1000: at the rates so far, a lag above 0 means that the log
    /// is full before it has been emptied.
    #[must_use]
    pub const fn lag_per_mille(self) -> u16 {
        if self.unflushed_per_mille == 0 {
            return 0;
        }
        let lag = self.filled_per_mille.saturating_add(self.unflushed_per_mille).saturating_sub(1000);
        if lag > 1000 { 1000 } else { lag }
    }

    /// How urgently a consistency point needs workers, in thousandths: the lag, times how far the part that takes writes is beyond half
    /// full. Before that there is time, and clients have the workers.
    #[must_use]
    pub const fn urgency_per_mille(self) -> u16 {
        let beyond = self.filled_per_mille.saturating_mul(2).saturating_sub(1000);
        let beyond = if beyond > 1000 { 1000 } else { beyond as u32 };
        (self.lag_per_mille() as u32 * beyond / 1000) as u16
    }
}

/// The answer to a worker that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Take requests from this queue.
    Serve {
        /// Which queue.
        queue: Queue,
        /// For how long, from the first request on.
        slice: Nanos,
        /// Whether the worker served another queue before, or none yet.
        switched: bool,
    },
    /// Nothing is queued.
    Idle,
}

/// A request to run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Which one.
    pub tag: Tag,
    /// The CPU time after which it is preempted, if it is neither done nor suspended then.
    pub allowance: Nanos,
}

/// What a request that no worker runs waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Wait {
    /// Its queue is being served, and others in it go first.
    Order,
    /// No worker serves its queue now.
    Turn,
    /// It is suspended: a disk, a lock or memory.
    Resource,
}

impl Wait {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// All of them, in the order of the discriminants.
    pub const ALL: [Self; Self::COUNT] = [Self::Order, Self::Turn, Self::Resource];

    /// The name used in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Turn => "turn",
            Self::Resource => "resource",
        }
    }
}
