//! The trait that every scheduler implements, its answers, and the reasons for waiting.

use crate::{Flags, Nanos, Operation, Request, StreamId, Tag};

named! {
    /// Why a request waits. Reports and metrics add up waiting time by reason.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum Reason {
        /// The device is at its queue depth, and this request is next, or needs no turn.
        DeviceFull = "device_full",
        /// Another stream, direction or batch is being served first.
        Ordering = "ordering",
        /// The device is kept idle: the stream served last is expected to continue nearby.
        Anticipating = "anticipating",
        /// The stream's requests are staged until they are dispatched together.
        Staging = "staging",
        /// A rate limit is reached.
        Throttled = "throttled",
        /// A share of a period is used up.
        Budget = "budget",
        /// The scheduler's queue is full, and the request is held back.
        QueueFull = "queue_full",
    }
}

impl Reason {
    /// The reason in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::DeviceFull => "the device holds as many requests as it may, and it is this one's turn",
            Self::Ordering => "another stream, direction or batch is being served first",
            Self::Anticipating => "the device idles on purpose: the stream just served is expected to ask again nearby",
            Self::Staging => "the stream's requests are gathered until they leave together",
            Self::Throttled => "a rate limit is reached",
            Self::Budget => "a share of a period is used up",
            Self::QueueFull => "the scheduler's queue is full: the submitter is held back",
        }
    }
}

/// Submitted requests that wait now, counted by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting(pub [u32; Reason::COUNT]);

impl Waiting {
    /// All of `requests` wait for the same reason.
    #[must_use]
    pub const fn all(reason: Reason, requests: u32) -> Self {
        let mut counts = [0; Reason::COUNT];
        counts[reason as usize] = requests;
        Self(counts)
    }

    /// Of `total` requests, `of` wait for `reason` and all others for `rest`.
    #[must_use]
    pub const fn split(total: u32, reason: Reason, of: u32, rest: Reason) -> Self {
        let mut counts = [0; Reason::COUNT];
        counts[rest as usize] += total.saturating_sub(of);
        counts[reason as usize] += of;
        Self(counts)
    }

    /// The number of requests that wait for `reason`.
    #[must_use]
    pub const fn count(&self, reason: Reason) -> u32 {
        self.0[reason as usize]
    }
}

named! {
    /// The device that a dispatch goes to.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum Tier {
        /// The device whose sectors requests address.
        #[default]
        Base = "base",
        /// The faster device on which a policy places some of those sectors.
        Fast = "fast",
    }
}

/// A request on its way to the device: one submitted request, or several that were merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The handle by which the dispatch is completed: the tag of one of the members.
    pub tag: Tag,
    /// Read, write, flush or discard.
    pub operation: Operation,
    /// Flags of the first member.
    pub flags: Flags,
    /// Stream of the first member.
    pub stream: StreamId,
    /// First sector.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// The number of submitted requests that it carries.
    pub members: u32,
    /// The device that it goes to; [`Tier::Base`] unless the policy places data.
    pub tier: Tier,
}

impl Dispatch {
    /// A placeholder for tables of dispatches.
    pub const NOTHING: Self = Self::alone(&Request::NOTHING);

    /// A dispatch of a request that no scheduler holds, to test a device by itself. Its tag names nothing.
    #[must_use]
    pub const fn alone(request: &Request) -> Self {
        Self {
            tag: Tag { slot: u32::MAX, generation: 0 },
            operation: request.operation,
            flags: request.flags,
            stream: request.stream,
            sector: request.sector,
            sectors: request.sectors,
            members: 1,
            tier: Tier::Base,
        }
    }
}

/// The answer to [`Scheduler::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this to the device now, and poll again.
    Dispatch(Dispatch),
    /// The scheduler has nothing to do before this time or the next call that changes something, whichever is first; with [`Nanos::NEVER`],
    /// only a call changes that.
    WaitUntil(Nanos, Reason),
    /// The queue is empty.
    Idle,
}

/// A request that was refused; it is handed back unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The request that was submitted.
    pub request: Request,
    /// Why it was refused.
    pub cause: RefusedCause,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedCause {
    /// The queue is at its limit for this direction: submit again after a completion.
    Full,
    /// Larger than the queue takes: the driver splits it first.
    TooLarge,
    /// The request lies on two devices: the driver splits it after this many sectors, and submits the sub-requests in order.
    Split(u32),
    /// The client is at its limit, and its share says that requests are refused then. The request would be accepted at this time.
    AtLimit(Nanos),
}

/// Why a request could not be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelError {
    /// The tag names no request.
    Unknown,
    /// The request is in flight.
    Dispatched,
    /// The request was merged, and is dispatched with the other members.
    Merged,
}

/// How much of the queue a client has, in a scheduler that gives each client room of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The client. Streams that find no place in the table share one.
    pub client: u32,
    /// Zero while the client has less than its own room; as long as that lasts, its requests are never [`RefusedCause::Full`]. Above it,
    /// the number of its requests divided by its weight: the client with the least should get the remaining room.
    pub fill: u64,
    /// By direction, whether the queue is full: requests of a client with any fill are refused.
    pub is_full: [bool; 2],
}

/// A policy on one device. The crate's documentation gives the order of the calls and what they promise.
pub trait Scheduler {
    /// Queues a request, or refuses it.
    ///
    /// # Errors
    /// [`Refused`] with the cause; nothing has changed then.
    fn submit(&mut self, now: Nanos, request: Request) -> Result<Tag, Refused>;

    /// Decides what to do now. Call it after every other call, until it returns something other than a dispatch.
    #[must_use]
    fn poll(&mut self, now: Nanos) -> Step;

    /// Whether the scheduler decides better with [`Scheduler::poll_weighed`].
    fn weighs(&self) -> bool {
        false
    }

    /// As [`Scheduler::poll`], for a caller that knows its device: `weigh` gives the time in nanoseconds that the device
    /// would need before data moves, if this request were begun now.
    #[must_use]
    fn poll_weighed(&mut self, now: Nanos, _weigh: &dyn Fn(&Request) -> u64) -> Step {
        self.poll(now)
    }

    /// The device has completed a dispatch. Frees the tags of all its members.
    fn complete(&mut self, now: Nanos, tag: Tag);

    /// Takes back a request that is queued and not merged.
    ///
    /// # Errors
    /// [`CancelError`] says why it cannot be cancelled; nothing has changed then.
    fn cancel(&mut self, now: Nanos, tag: Tag) -> Result<Request, CancelError>;

    /// The member after `tag` in its merged request. Starting from the tag of a dispatch, this walks all members.
    fn next_member(&self, tag: Tag) -> Option<Tag>;

    /// The number of slots: every tag's slot is below this.
    fn slots(&self) -> u32;

    /// How much of the queue the client of a stream has; `None` if all streams share its room.
    fn room(&self, _stream: StreamId) -> Option<Room> {
        None
    }

    /// The number of submitted requests that are queued.
    fn queued(&self) -> u32;

    /// Counts queued requests by the reason for which they wait; the counts add up to [`Scheduler::queued`].
    fn waiting(&self) -> Waiting;

    /// The one reason for which all queued requests of a stream wait, if the scheduler distinguishes streams.
    fn reason(&self, _stream: StreamId) -> Option<Reason> {
        None
    }

    /// The time by which all reservations have fallen behind since the start: [`TenantControl::reservations_behind`].
    ///
    /// [`TenantControl::reservations_behind`]: crate::tenant::TenantControl::reservations_behind
    fn reservations_behind(&self) -> Nanos {
        Nanos::ZERO
    }
}
