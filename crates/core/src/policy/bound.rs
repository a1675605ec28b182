//! How long a policy lets a request wait, as its row states it: in words for people, and as a number for the tests.
//!
//! A bound holds whatever requests other streams send, for requests of one priority and clients of one weight. The tests run one adversary
//! against the bound of every row.

use super::Settings;
use crate::Nanos;

/// The backlog that a request meets when it is submitted: the inputs of a bound on its wait.
#[derive(Clone, Copy, Debug)]
pub struct Backlog {
    /// The number of requests queued before this one.
    pub older: u64,
    /// The most requests that the queue holds.
    pub room: u64,
    /// Other streams that send requests.
    pub streams: u64,
    /// Sectors of the device.
    pub sectors: u64,
    /// Sectors of the shortest request.
    pub request_sectors: u64,
    /// The longest time that the device needs for a request.
    pub service: Nanos,
}

impl Backlog {
    /// The device's time for this many requests.
    #[must_use]
    pub const fn served(&self, requests: u64) -> Nanos {
        Nanos(self.service.0.saturating_mul(requests))
    }
}

/// The longest wait of a request.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// At most this many dispatches go before the request.
    Dispatches(fn(&Backlog, &Settings) -> u64),
    /// The request is dispatched within this time.
    Within(fn(&Backlog, &Settings) -> Nanos),
    /// Other requests can keep it waiting for ever.
    Unbounded,
}

/// A policy's bound on waiting.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The bound in words.
    pub doc: &'static str,
    /// The bound as a number.
    pub wait: Wait,
}

/// The bound of policies that serve requests in the order of arrival.
pub(super) const FIRST_COME: Bound =
    Bound { doc: "a request waits for older ones only", wait: Wait::Dispatches(|backlog, _| backlog.older) };

/// The bound of orders in which a client that returns starts at the clock of the others.
pub(super) const ONE_OF_EACH: Bound = Bound {
    doc: "the oldest request of a client waits for one request of each other client, whatever the weights",
    wait: Wait::Dispatches(|backlog, _| backlog.streams),
};
