//! Requests as workers see them, and the answers that workers get.

use crate::cores::Queue;
use crate::{Nanos, Tag};

named! {
    /// The kind of a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum Kind {
        /// Reads data.
        Read = "read",
        /// Changes data; acknowledged once it is in the log.
        Write = "write",
        /// Anything else, such as an attribute lookup.
        Other = "other",
    }
}

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Source {
    /// A client's request, for which the client waits.
    Client,
    /// The server's own work that can wait, such as prefetching.
    Background,
    /// The server's own work that must not wait for long, such as a consistency point that frees the log.
    Critical,
}

/// A request as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The kind of operation.
    pub kind: Kind,
    /// Where it comes from.
    pub source: Source,
    /// The bytes that it moves; 0 if none.
    pub bytes: u32,
    /// Whether it continues an earlier request.
    pub sequential: bool,
    /// When it should be finished; `None` means best effort.
    pub deadline: Option<Nanos>,
}

impl Work {
    /// The content of a free slot.
    pub(super) const NOTHING: Self =
        Self { kind: Kind::Other, source: Source::Client, bytes: 0, sequential: false, deadline: None };
}

/// The state of the server's write log. One part takes writes while a consistency point empties the other. Without a log, all
/// of it is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Bytes logged so far, in all.
    pub logged_bytes: u64,
    /// Bytes that the part that takes writes has room for.
    pub room_bytes: u64,
    /// Bytes that the running consistency point writes; 0 if none is running.
    pub flushing_bytes: u64,
    /// Consistency points that have begun so far.
    pub points: u64,
}

/// The answer to a free worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Take requests from this queue.
    Serve {
        /// The queue to serve.
        queue: Queue,
        /// The length of the turn, counted from its first request.
        slice: Nanos,
        /// Whether the worker served another queue before, or none at all.
        switched: bool,
    },
    /// No request is queued.
    Idle,
}

/// A request to run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The request.
    pub tag: Tag,
    /// The CPU time after which the request is preempted.
    pub allowance: Nanos,
}

named! {
    /// The reason why a request is not running on any worker.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum Wait {
        /// Workers serve the request's queue, and others in that queue go first.
        Order = "order",
        /// No worker serves the request's queue now.
        Turn = "turn",
        /// The request is suspended until a disk, a lock or memory is available.
        Resource = "resource",
    }
}
