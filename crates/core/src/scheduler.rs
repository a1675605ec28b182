//! The trait that every scheduler implements, its answers, and the reasons for waiting.

use crate::{Flags, Nanos, Operation, Request, StreamId, Tag};

/// Why a request waits. Reports and metrics add up waiting time by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The device is at its queue depth, and this request's turn has come or it needs none.
    DeviceFull,
    /// Another stream, direction or batch is being served first.
    Ordering,
    /// The device is kept idle: the stream served last is expected to continue nearby.
    Anticipating,
    /// The stream's requests are staged until they are dispatched together.
    Staging,
    /// A rate limit is reached.
    Throttled,
    /// A share of a period is used up.
    Budget,
    /// The scheduler's queue is full, and the request is held back.
    QueueFull,
}

impl Reason {
    /// The number of reasons.
    pub const COUNT: usize = 7;

    /// All of them, in the order of the discriminants.
    pub const ALL: [Self; Self::COUNT] = [
        Self::DeviceFull,
        Self::Ordering,
        Self::Anticipating,
        Self::Staging,
        Self::Throttled,
        Self::Budget,
        Self::QueueFull,
    ];

    /// The name used in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeviceFull => "device_full",
            Self::Ordering => "ordering",
            Self::Anticipating => "anticipating",
            Self::Staging => "staging",
            Self::Throttled => "throttled",
            Self::Budget => "budget",
            Self::QueueFull => "queue_full",
        }
    }

    /// Its meaning in words.
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
    /// All of `requests` wait for one reason.
    #[must_use]
    pub const fn all(reason: Reason, requests: u32) -> Self {
        let mut counts = [0; Reason::COUNT];
        counts[reason as usize] = requests;
        Self(counts)
    }

    /// Of `total`, `of` wait for `reason` and all others for `rest`.
    #[must_use]
    pub const fn split(total: u32, reason: Reason, of: u32, rest: Reason) -> Self {
        let mut counts = [0; Reason::COUNT];
        counts[rest as usize] += total.saturating_sub(of);
        counts[reason as usize] += of;
        Self(counts)
    }

    /// How many wait for `reason`.
    #[must_use]
    pub const fn count(&self, reason: Reason) -> u32 {
        self.0[reason as usize]
    }
}

/// The device that a dispatch goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Tier {
    /// The device whose sectors are addressed.
    #[default]
    Base,
    /// The faster device that a policy places some of them on.
    Fast,
}

impl Tier {
    /// Both, in the order of the discriminants.
    pub const ALL: [Self; 2] = [Self::Base, Self::Fast];

    /// The name used in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Fast => "fast",
        }
    }
}

/// What goes to the device: a submitted request, or several that were merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The handle to complete it with. It is the tag of one of the members.
    pub tag: Tag,
    /// What it does.
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

    /// A request that no scheduler holds, for trying a device by itself. Its tag names nothing.
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
    /// Nothing to do before this time, or before the next call that changes something; [`Nanos::NEVER`] leaves only the
    /// latter.
    WaitUntil(Nanos, Reason),
    /// Nothing is queued.
    Idle,
}

/// A request that was refused; it is handed back unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was submitted.
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
    /// It lies on two devices: the driver splits it after this many sectors, and submits the sub-requests in order.
    Split(u32),
    /// Its client is at its limit, and has a share whose requests are refused then: it would be accepted at this time.
    AtLimit(Nanos),
}

/// Why a request could not be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelError {
    /// The tag names no request.
    Unknown,
    /// It is in flight.
    Dispatched,
    /// It was merged, and is dispatched with the others.
    Merged,
}

/// What a client has of the queue of a scheduler that gives each client room of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The client. Streams for which there is no place in the table share one.
    pub client: u32,
    /// Zero while it has less than what is kept free for it, and nothing that it submits is [`RefusedCause::Full`]. Above
    /// that, its requests in proportion to its weight: who has least is to have the room that is left.
    pub fill: u64,
}

/// A policy on one device. The documentation of the crate says in which order the calls come and what they promise.
pub trait Scheduler {
    /// Queues a request, or refuses it.
    ///
    /// # Errors
    /// [`Refused`] with the cause; nothing has changed then.
    fn submit(&mut self, now: Nanos, request: Request) -> Result<Tag, Refused>;

    /// Decides what to do now. To be called after every other call until it answers with something other than a dispatch.
    #[must_use]
    fn poll(&mut self, now: Nanos) -> Step;

    /// Whether it decides better with [`Scheduler::poll_weighed`].
    fn weighs(&self) -> bool {
        false
    }

    /// As [`Scheduler::poll`], for a caller that knows its device: `weigh` gives the time in nanoseconds that the device
    /// would need before data moves, were this request begun now.
    #[must_use]
    fn poll_weighed(&mut self, now: Nanos, _weigh: &dyn Fn(&Request) -> u64) -> Step {
        self.poll(now)
    }

    /// The device has completed a dispatch. Frees the tags of all its members.
    fn complete(&mut self, now: Nanos, tag: Tag);

    /// Takes back a request that is queued and not merged.
    ///
    /// # Errors
    /// [`CancelError`] says why it stays; nothing has changed then.
    fn cancel(&mut self, now: Nanos, tag: Tag) -> Result<Request, CancelError>;

    /// The member after `tag` in its merged request; from the tag of a dispatch on, this walks all members.
    fn next_member(&self, tag: Tag) -> Option<Tag>;

    /// Tags have slots below this.
    fn slots(&self) -> u32;

    /// What the client of a stream has of the queue; `None` where all streams share its room.
    fn room(&self, _stream: StreamId) -> Option<Room> {
        None
    }

    /// The number of submitted requests that are queued.
    fn queued(&self) -> u32;

    /// Counts them by what they wait for; the counts add up to [`Scheduler::queued`].
    fn waiting(&self) -> Waiting;

    /// The one reason for which all queued requests of a stream wait, where the scheduler tells streams apart.
    fn reason(&self, _stream: StreamId) -> Option<Reason> {
        None
    }

    /// By how much time all reservations have fallen behind, from the start: [`TenantControl::reservations_behind`].
    ///
    /// [`TenantControl::reservations_behind`]: crate::tenant::TenantControl::reservations_behind
    fn reservations_behind(&self) -> Nanos {
        Nanos::ZERO
    }
}
