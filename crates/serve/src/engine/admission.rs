//! Admission of sub-requests, from their arrival until the scheduler dispatches them. This is the server's side of the driver, which keeps
//! sub-requests in the scheduler, or holds them back while the scheduler is full.

use ioweir_core::driver::{Caller, Capacity, ClientRequest, Driver, Finished};
use ioweir_core::policy::Policy;
use ioweir_core::tenant::{Elsewhere, Explanation, Share, ShareError};
use ioweir_core::{
    CancelError, Dispatch, Flags, Nanos, Operation, Priority, QueueLimits, Reason, RefusedCause, Request, SECTOR_BYTES,
    Scheduler as _, Step, StreamId, Tag, Tier,
};

use super::accounts::Accounts;
use super::command::Refusal;
use crate::backend::{Action, BLOCK_BYTES, FastTier};
use crate::buffer::Buffer;
use crate::depth::LearntDepth;
use crate::slots::Slots;
use crate::spec::{self, Holder};

/// The number of sub-requests that can be held back before more memory is allocated.
const HELD_BACK: u32 = 256;

/// A call of the scheduler, with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A request that was accepted, and its tag. A refused request changes nothing.
    Submit(Request, Tag),
    /// The next step.
    Poll(Step),
    /// A share that applies from now on.
    Configure(Holder, Share),
    /// The service that a client received on other servers of the fleet.
    Elsewhere(StreamId, Elsewhere),
    /// A dispatch that has finished.
    Complete(Tag),
    /// A request that was withdrawn, or why it was not.
    Cancel(Tag, Result<(), CancelError>),
}

/// Sees every call of the scheduler, in order. The same calls to a scheduler that was built in the same way give the same
/// answers.
pub trait Observer: Send {
    /// Reports that this call was made at this time.
    fn called(&mut self, now: Nanos, call: &Call);

    /// Reports what has become of a sub-request, by its number in the order of arrival.
    fn reached(&mut self, _now: Nanos, _number: u64, _stage: Stage) {}

    /// Reports that all calls of this moment were made: the reasons for waiting that the scheduler gives now apply to the time that
    /// follows.
    fn settled(&mut self, _now: Nanos, _scheduler: &Policy) {}
}

/// A step in the life of a sub-request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The sub-request has arrived.
    Arrived,
    /// The scheduler has accepted the sub-request: all of it, or the rest after a split.
    Submitted(Request),
    /// The sub-request was sent to the device of this tier.
    Dispatched(Tier),
    /// The device has completed the sub-request. Workers held it, or it waited for them, for this part of its time since the dispatch.
    Completed(Nanos),
    /// The sub-request was cancelled or refused.
    Withdrawn,
}

/// A part of a client's request, as the scheduler sees it: the whole request, or a piece of a long one.
#[derive(Debug)]
pub(super) struct SubRequest {
    /// The position in the order of arrival, set on arrival.
    pub(super) number: u64,
    /// The client's request, by its slot in the sessions.
    pub(super) request: u32,
    /// The client, by its slot in the sessions.
    pub(super) connection: u32,
    pub(super) class: u32,
    pub(super) action: Action,
    /// The operation that the scheduler sees.
    pub(super) scheduled: Operation,
    pub(super) fua: bool,
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) arrived: Nanos,
    /// The scheduler's tag, while the scheduler holds the sub-request.
    pub(super) tag: Option<Tag>,
    pub(super) dispatched: Option<Nanos>,
    /// The data of a write, or of a completed read.
    pub(super) buffer: Option<Buffer>,
}

impl SubRequest {
    pub(super) fn operation(&self) -> Operation {
        self.action.operation()
    }

    /// The request as the scheduler sees it, in whole sectors. FUA does not let a request bypass the scheduler, as it does in Linux:
    /// otherwise a client that sets it on every request would not be scheduled at all.
    fn core_request(&self, priority: Priority) -> ClientRequest {
        // The offset of a flush names a part of the device, and is no place on it.
        let offset = if self.action == Action::Flush { 0 } else { self.offset };
        // A query counts as a read of the block where its range begins: it moves none of the data.
        let (offset, length) = if self.action.queries() {
            (offset / BLOCK_BYTES * BLOCK_BYTES, BLOCK_BYTES)
        } else {
            (offset, u64::from(self.length))
        };
        let sector = offset / SECTOR_BYTES;
        let end = (offset + length).div_ceil(SECTOR_BYTES);
        ClientRequest {
            operation: self.scheduled,
            flags: if self.fua { Flags::SYNC } else { Flags::NONE }.at(priority),
            stream: StreamId(self.class),
            sector,
            sectors: end - sector,
        }
    }
}

/// The sub-requests of a dispatch.
#[derive(Debug)]
pub(super) enum Members {
    One(SubRequest),
    /// Sub-requests that were merged.
    Many(Vec<SubRequest>),
}

/// Cuts a sub-request in two at a byte within it, and returns the second part.
pub(super) type Cut<'a> = &'a mut dyn FnMut(&mut SubRequest, u64) -> SubRequest;

/// The requests of a class that are queued and in flight. A long request counts as its sub-requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassState {
    /// The number of its clients.
    pub connections: u32,
    /// The number of clients whose next request waits until the class has less data in flight.
    pub connections_waiting: u32,
    /// The data of its requests in flight, and of replies that its clients have not read.
    pub buffered_bytes: u64,
    /// The number of dispatched requests.
    pub inflight: u32,
    /// The number of requests that are not dispatched.
    pub queued: u32,
    /// The total length of the queued requests.
    pub queued_bytes: u64,
    /// How long the oldest queued request has waited, and why it waits now.
    pub oldest: Option<(Nanos, WaitCause)>,
}

/// Why a request waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WaitCause {
    /// The scheduler's explanation.
    Explained(Explanation),
    /// The most frequent reason in the queue of a block policy, which explains no single request.
    Counted(Reason),
}

/// Receives the driver's reports while it submits.
struct Submission<'a> {
    now: Nanos,
    sub_requests: &'a mut Slots<SubRequest>,
    rejected: &'a mut Vec<SubRequest>,
    observer: &'a mut Option<Box<dyn Observer>>,
    arrived: &'a mut u64,
    cut: Cut<'a>,
}

impl Submission<'_> {
    fn reached(&mut self, number: u64, stage: Stage) {
        if let Some(observer) = self.observer {
            observer.reached(self.now, number, stage);
        }
    }

    /// Gives a sub-request that has arrived its number.
    fn number(&mut self) -> u64 {
        *self.arrived += 1;
        self.reached(*self.arrived, Stage::Arrived);
        *self.arrived
    }
}

impl Caller for Submission<'_> {
    fn submitted(&mut self, _request: u32, handle: u32, tag: Tag, request: &Request) {
        let Some(sub_request) = self.sub_requests.get_mut(handle) else { return };
        sub_request.tag = Some(tag);
        if let Some(observer) = self.observer {
            observer.called(self.now, &Call::Submit(*request, tag));
            observer.reached(self.now, sub_request.number, Stage::Submitted(*request));
        }
    }

    fn split(&mut self, _request: u32, handle: u32, rest: &Request) -> u32 {
        let at = rest.sector * SECTOR_BYTES;
        let rest = self.sub_requests.get_mut(handle).map(|first| (self.cut)(first, at));
        let Some(rest) = rest else { return handle };
        let number = self.number();
        self.sub_requests.insert(SubRequest { number, ..rest })
    }

    /// The driver refuses only requests that are too large, because no class of a server has a limit on queued requests.
    fn refused(&mut self, finished: Finished, _request: &Request, _cause: RefusedCause) {
        if let Some(sub_request) = self.sub_requests.remove(finished.handle) {
            self.reached(sub_request.number, Stage::Withdrawn);
            self.rejected.push(sub_request);
        }
    }
}

/// A scheduler with the sub-requests that wait in it and in front of it.
pub(super) struct Admission {
    driver: Driver<Policy>,
    /// The priority of each class.
    priorities: Vec<Priority>,
    /// Sub-requests that are not dispatched, by the driver's handle.
    sub_requests: Slots<SubRequest>,
    /// Sub-requests that the scheduler never accepts.
    rejected: Vec<SubRequest>,
    observer: Option<Box<dyn Observer>>,
    /// The number of sub-requests that have arrived.
    arrived: u64,
    /// Dispatches that the devices have, and the most that they can take.
    in_flight: u32,
    in_flight_max: u32,
    /// The longest request that the scheduler takes.
    sectors_max: u32,
    /// The present limit of dispatches in flight, if it is learnt.
    learnt: Option<LearntDepth>,
    /// When to poll the scheduler again without an event.
    due: Nanos,
}

impl Admission {
    pub(super) fn new(device: &spec::Device, fast: FastTier, priorities: Vec<Priority>) -> Self {
        let classes = priorities.len() as u32; // a server has thousands at most
        let limits = QueueLimits {
            members: device.queue_requests.saturating_mul(2),
            // The spec bounds a request to far less than 4 GiB.
            request_sectors_max: (device.request_bytes_max.0 / SECTOR_BYTES) as u32,
            merge: device.merge,
            depth: device.depth,
            fast_depth: fast.depth,
            fast_sectors: fast.sectors,
            fast_block_sectors: fast.block_sectors,
            ..QueueLimits::with_requests(device.queue_requests)
        };
        let mut scheduler = device.scheduler.build(limits);
        for extent in fast.placed {
            // A policy without room for more extents assumes that the rest is on the slow device; the backend finds the data anyway.
            scheduler.place(extent.start, extent.end);
        }
        Self {
            driver: Driver::new(scheduler, &limits, Capacity { held: HELD_BACK, classes }),
            priorities,
            sub_requests: Slots::default(),
            rejected: Vec::new(),
            observer: None,
            arrived: 0,
            in_flight: 0,
            in_flight_max: limits.depth.saturating_add(limits.fast_depth),
            sectors_max: limits.request_sectors_max,
            learnt: device.depth_stated.is_none().then(|| LearntDepth::new(limits.depth)),
            due: Nanos::NEVER,
        }
    }

    /// A service has moved a range to the fast tier.
    pub(super) fn placed(&mut self, offset: u64, length: u32) {
        let end = offset + u64::from(length);
        // A policy without room for more extents assumes that the range is on the slow device.
        self.driver.scheduler_mut().place(offset / SECTOR_BYTES, end / SECTOR_BYTES);
    }

    /// Sets the priority of each class for requests that arrive from now on.
    pub(super) fn set_priorities(&mut self, priorities: Vec<Priority>) {
        self.priorities = priorities;
    }

    pub(super) fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    pub(super) fn called(&mut self, now: Nanos, call: &Call) {
        if let Some(observer) = &mut self.observer {
            observer.called(now, call);
        }
    }

    pub(super) fn reached(&mut self, now: Nanos, number: u64, stage: Stage) {
        if let Some(observer) = &mut self.observer {
            observer.reached(now, number, stage);
        }
    }

    /// The most dispatches that the device may have at present, if that is learnt.
    pub(super) fn learnt_depth(&self) -> Option<u32> {
        self.learnt.as_ref().map(LearntDepth::limit)
    }

    /// All calls of this moment were made.
    pub(super) fn settle(&mut self, now: Nanos) {
        if let Some(learnt) = &mut self.learnt {
            learnt.settled(now, self.in_flight);
        }
        self.driver.settle(now);
        if let Some(observer) = &mut self.observer {
            observer.settled(now, self.driver.scheduler());
        }
    }

    pub(super) const fn due(&self) -> Nanos {
        self.due
    }

    pub(super) const fn driver(&mut self) -> &mut Driver<Policy> {
        &mut self.driver
    }

    /// A sub-request that the scheduler never accepts, to be answered with an error.
    pub(super) fn next_rejected(&mut self) -> Option<SubRequest> {
        self.rejected.pop()
    }

    /// Gives a sub-request to the scheduler, or holds it back.
    pub(super) fn arrive(&mut self, now: Nanos, sub_request: SubRequest, cut: Cut<'_>) {
        let priority = self.priorities.get(sub_request.class as usize).copied().unwrap_or_default();
        let whole = sub_request.core_request(priority);
        let Self { driver, sub_requests, rejected, observer, arrived, .. } = self;
        let mut submission = Submission { now, sub_requests, rejected, observer, arrived, cut };
        let number = submission.number();
        let handle = submission.sub_requests.insert(SubRequest { number, ..sub_request });
        let request = loop {
            match driver.open() {
                Some(request) => break request,
                None => driver.grow(),
            }
        };
        // The number of sub-requests is bounded, because the data that clients may have in flight is.
        while driver.submit(now, request, handle, whole, &mut submission).is_err() {
            driver.grow();
        }
    }

    /// Gives the scheduler the sub-requests that were held back, as far as it has room now.
    pub(super) fn retry(&mut self, now: Nanos, cut: Cut<'_>) {
        let Self { driver, sub_requests, rejected, observer, arrived, .. } = self;
        driver.retry(now, &mut Submission { now, sub_requests, rejected, observer, arrived, cut });
    }

    /// The next dispatch of the scheduler, with its sub-requests. As in the simulator, the scheduler is not polled while the
    /// devices are full: a pair would release requests earlier.
    pub(super) fn poll(&mut self, now: Nanos, accounts: &mut Accounts) -> Option<(Dispatch, Members)> {
        if self.in_flight >= self.learnt_depth().unwrap_or(self.in_flight_max) {
            self.due = Nanos::NEVER;
            return None;
        }
        let step = self.driver.poll(now);
        self.called(now, &Call::Poll(step));
        let dispatch = match step {
            Step::Dispatch(dispatch) => dispatch,
            Step::WaitUntil(time, _) => {
                self.due = time;
                return None;
            }
            Step::Idle => {
                self.due = Nanos::NEVER;
                return None;
            }
        };
        self.in_flight += 1;
        let Self { driver, sub_requests, observer, .. } = self;
        let mut members = driver.members(&dispatch).filter_map(|(_, member)| {
            let mut sub_request = sub_requests.remove(member.handle)?;
            accounts.dispatched(now, &mut sub_request);
            if let Some(observer) = observer {
                observer.reached(now, sub_request.number, Stage::Dispatched(dispatch.tier));
            }
            Some(sub_request)
        });
        let first = if dispatch.members == 1 { members.next() } else { None };
        let members = first.map_or_else(|| Members::Many(members.collect()), Members::One);
        Some((dispatch, members))
    }

    /// Handles a dispatch that the backend has completed.
    pub(super) fn complete(&mut self, now: Nanos, dispatch: &Dispatch) {
        self.in_flight -= 1;
        if let Some(learnt) = &mut self.learnt {
            learnt.completed();
        }
        self.driver.complete(now, dispatch, |_| {});
        self.called(now, &Call::Complete(dispatch.tag));
    }

    /// Takes back the sub-requests of a connection that are neither dispatched nor merged.
    pub(super) fn withdraw(&mut self, now: Nanos, connection: u32) -> Vec<SubRequest> {
        let its = self.sub_requests.iter().filter(|(_, sub_request)| sub_request.connection == connection);
        let its: Vec<_> = its.map(|(handle, sub_request)| (handle, sub_request.tag)).collect();
        let mut withdrawn = Vec::new();
        for (handle, tag) in its {
            let is_withdrawn = match tag {
                None => self.driver.withdraw(now, |_, other| other == handle).is_some(),
                Some(tag) => {
                    let cancelled = self.driver.cancel(now, tag).map(drop);
                    self.called(now, &Call::Cancel(tag, cancelled));
                    cancelled.is_ok()
                }
            };
            let Some(sub_request) = is_withdrawn.then(|| self.sub_requests.remove(handle)).flatten() else { continue };
            self.reached(now, sub_request.number, Stage::Withdrawn);
            withdrawn.push(sub_request);
        }
        withdrawn
    }

    /// The requests that are not dispatched in full, as pairs of connection and request, without repetition and in order.
    pub(super) fn waiting(&self) -> Vec<(u32, u32)> {
        let its = self.sub_requests.iter().map(|(_, sub_request)| (sub_request.connection, sub_request.request));
        let mut waiting: Vec<_> = its.collect();
        waiting.sort_unstable();
        waiting.dedup();
        waiting
    }

    /// Sets shares one after another, up to the first one that is not feasible.
    pub(super) fn set_shares(&mut self, now: Nanos, shares: &[(Holder, Share)]) -> Result<(), Refusal> {
        // A scheduler without shares ignores them.
        let Some(control) = self.driver.scheduler_mut().tenants_mut() else { return Ok(()) };
        shares.iter().try_for_each(|&(holder, share)| {
            holder.configure(control, now, share).map_err(|error: ShareError| Refusal { holder, error })
        })
    }

    /// The share of a class, if the scheduler has shares.
    pub(super) fn share(&self, class: StreamId) -> Option<Share> {
        self.driver.scheduler().tenants().map(|control| control.share(class))
    }

    /// Sets the share of a class that has requests.
    pub(super) fn configure(&mut self, now: Nanos, class: StreamId, share: Share) -> Result<(), ShareError> {
        // Up to now, requests have waited for reasons that the old share gave.
        self.driver.settle_all(now);
        if let Some(control) = self.driver.scheduler_mut().tenants_mut() {
            control.configure(now, class, share)?;
        }
        self.called(now, &Call::Configure(Holder::Class(class), share));
        Ok(())
    }

    /// The cost of a sub-request that comes now, in the unit of reservations; zero if the scheduler has no shares.
    pub(super) fn expected_cost(&self, sub_request: &SubRequest) -> u64 {
        let Some(control) = self.driver.scheduler().tenants() else { return 0 };
        let ClientRequest { operation, stream, sectors, .. } = sub_request.core_request(Priority::NONE);
        // Discards are not split.
        let most = if operation == Operation::Discard { u32::MAX } else { self.sectors_max.max(1) };
        let most = u64::from(most);
        let cost = |sectors: u64| u64::from(control.expected_cost(stream, operation, sectors as u32)); // at most `most`
        let rest = sectors % most;
        sectors / most * cost(most) + if rest > 0 || sectors == 0 { cost(rest) } else { 0 }
    }

    /// Takes into account the service that a client received on other servers of the fleet.
    pub(super) fn served_elsewhere(&mut self, now: Nanos, class: StreamId, elsewhere: Elsewhere) {
        let counts = self.driver.scheduler_mut().tenants_mut();
        if counts.is_some_and(|control| control.served_elsewhere(now, class, elsewhere)) {
            self.called(now, &Call::Elsewhere(class, elsewhere));
        }
    }

    /// The requests of each class that are queued and in flight, with how long and why its oldest sub-request has waited.
    pub(super) fn classes(&self, now: Nanos, count: u32) -> Vec<ClassState> {
        let state = |class| {
            let state = self.driver.class(StreamId(class));
            ClassState { inflight: state.in_flight, queued: state.queued + state.held, ..ClassState::default() }
        };
        let mut classes: Vec<ClassState> = (0..count).map(state).collect();
        let mut oldest: Vec<Option<&SubRequest>> = vec![None; classes.len()];
        for (_, sub_request) in self.sub_requests.iter() {
            let number = sub_request.class as usize;
            let (Some(class), Some(oldest)) = (classes.get_mut(number), oldest.get_mut(number)) else { continue };
            class.queued_bytes += u64::from(sub_request.length);
            if oldest.is_none_or(|other| sub_request.arrived < other.arrived) {
                *oldest = Some(sub_request);
            }
        }
        for (class, oldest) in classes.iter_mut().zip(oldest) {
            class.oldest = oldest.map(|oldest| (now.since(oldest.arrived), self.cause(now, oldest.tag)));
        }
        classes
    }

    fn cause(&self, now: Nanos, tag: Option<Tag>) -> WaitCause {
        let Some(tag) = tag else { return WaitCause::Counted(Reason::QueueFull) };
        let scheduler = self.driver.scheduler();
        if let Some(explanation) = scheduler.tenants().and_then(|tenants| tenants.explain(now, tag)) {
            return WaitCause::Explained(explanation);
        }
        let waiting = scheduler.waiting();
        let most = Reason::ALL.into_iter().max_by_key(|&reason| waiting.count(reason));
        WaitCause::Counted(most.unwrap_or(Reason::DeviceFull))
    }
}
