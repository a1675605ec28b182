//! The accounts of a device by class of clients: counters of what was done, and reports of them with what is queued now and
//! why. For what requests have waited is accounted for by the driver.

use ioweir_core::driver::Driver;
use ioweir_core::policy::Policy;
use ioweir_core::tenant::Explanation;
use ioweir_core::{Nanos, Operation, Reason, StreamId};

use super::admission::SubRequest;
use super::counters::Counters;
use crate::backend::Checksums;
use crate::nbd::NbdError;

/// What an engine has done and does.
#[derive(Debug)]
pub struct Report {
    /// When it was made.
    pub now: Nanos,
    /// What was done since the last report.
    pub counters: Box<Counters>,
    /// What is queued and in flight, by class. Classes that never had a client are missing at the end.
    pub classes: Vec<ClassState>,
    /// Dispatches in flight.
    pub inflight: u32,
    /// What the device has checked since the server began, where it keeps checksums.
    pub checksums: Option<Checksums>,
}

/// What a class has queued and in flight. Long requests count as their sub-requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassState {
    /// Its clients.
    pub connections: u32,
    /// Requests that were dispatched.
    pub inflight: u32,
    /// Requests that were not.
    pub queued: u32,
    /// The length of the queued requests.
    pub queued_bytes: u64,
    /// For how long the oldest queued request has waited, and why it still does.
    pub oldest: Option<(Nanos, WaitCause)>,
}

/// Why a request waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WaitCause {
    /// As the scheduler explains it.
    Explained(Explanation),
    /// The most frequent reason in the queue of a block policy, which explains no single request.
    Counted(Reason),
}

/// A request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) class: u32,
    pub(super) operation: Operation,
    /// When it was complete; none where it had no effect and was answered at once.
    pub(super) arrived: Option<Nanos>,
    /// Its length; none where it was answered with an error.
    pub(super) bytes: Option<u64>,
}

/// The counters of all classes of a device.
#[derive(Default)]
pub(super) struct Accounts(Box<Counters>);

impl Accounts {
    /// Makes room for a class, so that no request of it has to.
    pub(super) fn connected(&mut self, class: StreamId) {
        self.0.of(class.0);
    }

    pub(super) fn dispatched(&mut self, now: Nanos, sub_request: &mut SubRequest) {
        sub_request.dispatched = Some(now);
        let queue = now.since(sub_request.arrived);
        self.0.of(sub_request.class).of(sub_request.operation()).queue.record(queue);
    }

    pub(super) fn completed(&mut self, now: Nanos, sub_request: &SubRequest) {
        let service = now.since(sub_request.dispatched.unwrap_or(now));
        self.0.of(sub_request.class).of(sub_request.operation()).service.record(service);
    }

    pub(super) fn answered(&mut self, now: Nanos, answered: &Answered) {
        let counters = self.0.of(answered.class);
        let latency = now.since(answered.arrived.unwrap_or(now));
        counters.latency.saturating_record(latency.0);
        let operation = counters.of(answered.operation);
        operation.request.record(latency);
        operation.requests += 1;
        match answered.bytes {
            Some(bytes) => operation.bytes += bytes,
            None => operation.errors += 1,
        }
    }

    pub(super) fn refused(&mut self, class: StreamId, error: NbdError) {
        self.0.of(class.0).counts.refused[error.index()] += 1;
    }

    /// What was counted since the last exchange, with the waiting that the driver has accounted for, for zeroed counters.
    pub(super) fn exchange(&mut self, zeroed: Box<Counters>, driver: &mut Driver<Policy>) -> Box<Counters> {
        let mut counters = std::mem::replace(&mut self.0, zeroed);
        for (class, counters) in counters.iter_mut() {
            let waits = driver.take_wait_nanos(StreamId(class));
            counters.counts.wait_nanos.iter_mut().zip(waits).for_each(|(wait, more)| *wait += more);
        }
        counters
    }
}
