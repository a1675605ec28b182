//! Live control of a tenant policy: shares, reservations, and why a request waits.

use core::fmt;

use super::{GroupId, Share, ShareError};
use crate::{Nanos, Operation, Reason, StreamId, Tag};

/// Live control of a tenant policy. Every call is one step of the scheduler, as [`crate::Scheduler::submit`] is: poll after
/// it.
pub trait TenantControl {
    /// Sets or changes the share of a client. Its queued requests stay queued.
    ///
    /// # Errors
    /// [`ShareError`] says what is wrong, with the arithmetic; nothing has changed then.
    fn configure(&mut self, now: Nanos, client: StreamId, share: Share) -> Result<(), ShareError>;

    /// Sets or changes the share of a group. Clients name their group in their own shares.
    ///
    /// # Errors
    /// As [`TenantControl::configure`].
    fn configure_group(&mut self, now: Nanos, group: GroupId, share: Share) -> Result<(), ShareError>;

    /// Removes a client's share: its queued and later requests are served with the default share.
    ///
    /// # Errors
    /// [`ShareError::UnknownClient`].
    fn remove(&mut self, now: Nanos, client: StreamId) -> Result<(), ShareError>;

    /// Sets the device's capacity in units of cost a second, which reservations are checked against. Zero means unknown:
    /// every reservation is accepted.
    ///
    /// # Errors
    /// [`ShareError::Infeasible`] if more has been reserved already.
    fn set_capacity(&mut self, now: Nanos, capacity_per_second: u64) -> Result<(), ShareError>;

    /// Counts the service that a client got on other servers since the last call: its tags move as if it had been served here. Returns
    /// whether the policy has such tags, and the client has an entry of its own and no group; if not, nothing has changed.
    fn served_elsewhere(&mut self, now: Nanos, client: StreamId, elsewhere: Elsewhere) -> bool;

    /// Whether the policy has such tags.
    fn counts_elsewhere(&self) -> bool;

    /// A share without the limits that the policy does not keep, which [`TenantControl::configure`] refuses.
    fn kept(&self, share: Share) -> Share;

    /// The share of a client: the configured one, or the default.
    fn share(&self, client: StreamId) -> Share;

    /// The cost that a request of a client would have now, in the unit of reservations and limits.
    fn expected_cost(&self, client: StreamId, operation: Operation, sectors: u32) -> u32;

    /// The time by which all reservations together have fallen behind since the start: zero unless they were ever broken. If
    /// this grows by b in a span d, an active client with a reservation of r has got at least r (d - b).
    fn reservations_behind(&self) -> Nanos;

    /// The reason for which all queued requests of a client wait. [`crate::Scheduler::waiting`] counts those of all clients.
    fn reason(&self, client: StreamId) -> Reason;

    /// Explains why a queued request waits; `None` if the tag names no queued request. It is meant for people: it counts the
    /// requests before this one in its client's queue one by one.
    fn explain(&self, now: Nanos, tag: Tag) -> Option<Explanation>;
}

/// A client's service on other servers, in units of cost: dmClock's delta and rho, tag by tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// The service that moves the tag of the client's weight: delta, all service elsewhere.
    pub by_weight: u64,
    /// The service that moves the tag of the client's reservation: rho, the service elsewhere because of the reservation. Zero where the
    /// reservation here is a part of the whole.
    pub by_reservation: u64,
    /// The service that moves the tag of the client's limit: delta again. Zero where the limit here is a part of the whole.
    pub by_limit: u64,
}

/// The rule by which a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Older requests of the same client go first.
    OwnQueue,
    /// The client is at its limit. `own` is when it is eligible again.
    Limit,
    /// The client is at its limit in bytes, which holds it longest.
    ByteLimit,
    /// The group is at its limit. `own` is when it is eligible again.
    GroupLimit,
    /// The group is at its limit in bytes, which holds it longest.
    GroupByteLimit,
    /// The group is next, and another client of the group has an earlier virtual start.
    Group,
    /// Clients go in the order of submission of their oldest requests. Tags are sequence numbers.
    Arrival,
    /// The smallest virtual start goes first.
    VirtualStart,
    /// The smallest virtual finish goes first.
    VirtualFinish,
    /// Clients take turns. Tags are what remains of their quanta.
    Turn,
    /// A client that is due by its reservation goes first. Tags are times in nanoseconds.
    Reservation,
    /// The earliest deadline goes first. Tags are times in nanoseconds.
    Deadline,
    /// A client that has had less than its floor goes first. Tags are virtual times in dispatches.
    Floor,
    /// The smallest reward tag goes first.
    Reward,
    /// `io-cost`: the client's virtual time is ahead of the device's. Tags are virtual times, 2^37 a second.
    VirtualTime,
    /// `io-latency`: as many of the client's requests are in flight as its depth allows. Tags are the depth and the requests in flight.
    QueueDepth,
    /// A policy from outside has chosen another client. Tags are sequence numbers.
    External,
    /// The order has released the request, and the elevator serves others first. Tags are the number of dispatches since its release, and
    /// the number of requests in the elevator.
    Elevator,
    /// The request is next, and the device is full.
    Device,
    /// The request is next, and the policy's window is full. Tags are the numbers of requests allowed and in flight.
    Window,
}

impl Rule {
    /// The rule in words, to complete "it waited because ...".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::OwnQueue => "older requests of the same client go first",
            Self::Limit => "the client is at its limit",
            Self::ByteLimit => "the client is at its limit in bytes",
            Self::GroupLimit => "the client's group is at its limit",
            Self::GroupByteLimit => "the client's group is at its limit in bytes",
            Self::Group => "its group is next, and another client of it goes first",
            Self::Arrival => "requests that came earlier go first",
            Self::VirtualStart => "a client with an earlier virtual start goes first",
            Self::VirtualFinish => "a client with an earlier virtual finish goes first",
            Self::Turn => "it is another client's turn",
            Self::Reservation => "a client behind its reservation goes first",
            Self::Deadline => "a request with an earlier deadline goes first",
            Self::Floor => "a client that has had less than its floor goes first",
            Self::Reward => "a client whose requests have cost less, for its weight, goes first",
            Self::VirtualTime => "the client has used its part of the device's time so far",
            Self::QueueDepth => {
                "the client's queue depth is used up, which is cut while another client misses its latency"
            }
            Self::External => "the policy has chosen another client",
            Self::Elevator => "it is in the elevator, which serves others first",
            Self::Device => "it is next, and the device is full",
            Self::Window => "it is next, and the window that keeps the latency is full",
        }
    }
}

/// Why a queued request waits, at the time of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The rule.
    pub rule: Rule,
    /// The reason as which the request's waiting is counted.
    pub reason: Reason,
    /// The number of older queued requests of the same client.
    pub ahead: u32,
    /// The client's tag, in the unit of the rule.
    pub own: u64,
    /// The rule's clock: virtual time, or `now`.
    pub clock: u64,
    /// The client that goes first.
    pub first: Option<StreamId>,
    /// The tag of that client.
    pub first_tag: u64,
    /// When the limits allow it; a time up to `now` means at once.
    pub eligible: Nanos,
}

impl fmt::Display for Explanation {
    /// Writes a sentence without its full stop.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.rule.words())?;
        match self.rule {
            Rule::OwnQueue => write!(out, ": {} of them", self.ahead),
            Rule::Limit | Rule::ByteLimit | Rule::GroupLimit | Rule::GroupByteLimit => {
                write!(out, " until {}", self.eligible)
            }
            Rule::Elevator => write!(out, ": {} dispatches so far, {} requests there", self.own, self.clock),
            Rule::Device => Ok(()),
            Rule::Window => write!(out, ": {} in flight of {}", self.clock, self.own),
            _ => {
                if let Some(StreamId(first)) = self.first {
                    write!(out, ": client {first} at {}, this one at {}", self.first_tag, self.own)?;
                }
                write!(out, "; the clock stands at {}", self.clock)
            }
        }
    }
}
