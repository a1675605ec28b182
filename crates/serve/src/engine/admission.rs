//! Sub-requests from when a client asks until the scheduler dispatches them: in the scheduler, or held back in front of it
//! while it is full.

use std::collections::VecDeque;

use ioweir_core::policy::Policy;
use ioweir_core::tenant::{Share, ShareError};
use ioweir_core::{
    CancelError, Direction, Dispatch, Flags, Nanos, Operation, QueueLimits, Reason, Refused, RefusedCause, Request,
    SECTOR_BYTES, Scheduler as _, Step, StreamId, Tag,
};

use super::accounts::{Accounts, WaitCause};
use super::command::Refusal;
use crate::backend::{Action, FastTier};
use crate::buffer::Buffer;
use crate::spec::{self, Holder};

/// A call of the scheduler, with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A request, and its tag where it was taken.
    Submit(Request, Result<Tag, Refused>),
    /// The next step.
    Poll(Step),
    /// A share that is in force from now on.
    Configure(Holder, Share),
    /// A dispatch that has finished.
    Complete(Tag),
    /// A request that was withdrawn, or why it was not.
    Cancel(Tag, Result<Request, CancelError>),
}

/// Sees every call of the scheduler, in order. The same calls of a scheduler that was built in the same way give the same
/// answers.
pub trait Observer: Send {
    /// This was called at this time.
    fn called(&mut self, now: Nanos, call: &Call);
}

/// What the scheduler sees of a client's request: all of it, or a part of a long one.
#[derive(Debug)]
pub(super) struct SubRequest {
    /// The client's request, by its slot in the sessions.
    pub(super) request: u32,
    /// The client, by its slot in the sessions.
    pub(super) connection: u32,
    pub(super) class: u32,
    pub(super) action: Action,
    pub(super) fua: bool,
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) arrived: Nanos,
    pub(super) dispatched: Option<Nanos>,
    /// The data of a write, and of a read that is done.
    pub(super) buffer: Option<Buffer>,
}

impl SubRequest {
    pub(super) fn operation(&self) -> Operation {
        self.action.operation().unwrap_or(Operation::Read)
    }

    fn direction(&self) -> usize {
        self.operation().direction() as usize
    }

    /// The scheduler's view of it, in whole sectors. FUA does not let a request pass the scheduler, as it does in Linux: a
    /// client that sets it on everything would not be scheduled at all.
    fn core_request(&self) -> Request {
        let sector = self.offset / SECTOR_BYTES;
        let end = (self.offset + u64::from(self.length)).div_ceil(SECTOR_BYTES);
        Request {
            operation: self.operation(),
            flags: if self.fua { Flags::SYNC } else { Flags::NONE },
            stream: StreamId(self.class),
            sector,
            // A sub-request is shorter than 4 GiB.
            sectors: (end - sector) as u32,
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

/// Cuts a sub-request in two at a byte within it, and returns the second.
pub(super) type Cut<'a> = &'a mut dyn FnMut(&mut SubRequest, u64) -> SubRequest;

/// A scheduler with the sub-requests that wait in it and in front of it.
pub(super) struct Admission {
    scheduler: Policy,
    observer: Option<Box<dyn Observer>>,
    /// The queued sub-requests, by slot of their tags.
    queued: Vec<Option<(Tag, SubRequest)>>,
    /// Sub-requests that the scheduler has no room for, by direction, first come, first served.
    held_back: [VecDeque<SubRequest>; 2],
    /// Sub-requests that no scheduler takes: they are too large.
    rejected: Vec<SubRequest>,
    /// When to poll the scheduler again though nothing has happened.
    due: Nanos,
}

impl Admission {
    pub(super) fn new(device: &spec::Device, fast: FastTier) -> Self {
        let limits = QueueLimits {
            members: device.queue_requests.saturating_mul(2),
            // A spec bounds it to far less than 4 GiB.
            request_sectors_max: (device.request_bytes_max.0 / SECTOR_BYTES) as u32,
            merge: device.merge,
            depth: device.depth,
            fast_depth: fast.depth,
            fast_sectors: fast.sectors,
            fast_block_sectors: fast.block_sectors,
            ..QueueLimits::with_requests(device.queue_requests)
        };
        let mut scheduler = device.scheduler.row.build(limits, &device.scheduler.settings);
        for extent in fast.placed {
            // A policy that holds no more extents takes the rest to be on the slow device; the backend finds them.
            scheduler.place(extent.start, extent.end);
        }
        Self {
            scheduler,
            observer: None,
            queued: (0..limits.members).map(|_| None).collect(),
            held_back: Default::default(),
            rejected: Vec::new(),
            due: Nanos::NEVER,
        }
    }

    pub(super) fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    pub(super) const fn scheduler(&self) -> &Policy {
        &self.scheduler
    }

    /// Puts a scheduler back as it was when it was cloned; nothing else may have happened since.
    pub(super) fn restore(&mut self, before: Policy) {
        self.scheduler = before;
    }

    pub(super) const fn due(&self) -> Nanos {
        self.due
    }

    pub(super) fn called(&mut self, now: Nanos, call: &Call) {
        if let Some(observer) = &mut self.observer {
            observer.called(now, call);
        }
    }

    /// A sub-request that is too large for any scheduler, to be answered with an error.
    pub(super) fn next_rejected(&mut self) -> Option<SubRequest> {
        self.rejected.pop()
    }

    /// Gives a sub-request to the scheduler, or holds it back.
    pub(super) fn arrive(&mut self, now: Nanos, sub_request: SubRequest, accounts: &mut Accounts, cut: Cut<'_>) {
        accounts.arrived(now, &sub_request);
        let direction = sub_request.direction();
        let is_first = self.held_back[direction].is_empty();
        self.held_back[direction].push_back(sub_request);
        if is_first {
            self.submit_held_back(now, direction, accounts, cut);
        }
    }

    /// Gives the scheduler what was held back, as far as it has room now.
    pub(super) fn retry(&mut self, now: Nanos, accounts: &mut Accounts, cut: Cut<'_>) {
        for direction in Direction::ALL {
            self.submit_held_back(now, direction as usize, accounts, cut);
        }
    }

    fn submit_held_back(&mut self, now: Nanos, direction: usize, accounts: &mut Accounts, cut: Cut<'_>) {
        while let Some(mut sub_request) = self.held_back[direction].pop_front() {
            let request = sub_request.core_request();
            let submitted = self.scheduler.submit(now, request);
            self.called(now, &Call::Submit(request, submitted));
            match submitted.map_err(|refused| refused.cause) {
                Ok(tag) => {
                    accounts.submitted(now, sub_request.class);
                    self.queued[tag.index()] = Some((tag, sub_request));
                }
                Err(RefusedCause::Full) => return self.held_back[direction].push_front(sub_request),
                Err(RefusedCause::Split(sectors)) => {
                    // It lies on two devices.
                    accounts.withdrawn(now, &sub_request, false);
                    let rest = cut(&mut sub_request, (request.sector + u64::from(sectors)) * SECTOR_BYTES);
                    accounts.arrived(now, &sub_request);
                    accounts.arrived(now, &rest);
                    self.held_back[direction].push_front(rest);
                    self.held_back[direction].push_front(sub_request);
                }
                // No class of a server is refused at its limit.
                Err(RefusedCause::TooLarge | RefusedCause::AtLimit(_)) => {
                    accounts.withdrawn(now, &sub_request, false);
                    self.rejected.push(sub_request);
                }
            }
        }
    }

    /// The next dispatch of the scheduler, with its sub-requests.
    pub(super) fn poll(&mut self, now: Nanos, accounts: &mut Accounts) -> Option<(Dispatch, Members)> {
        let step = self.scheduler.poll(now);
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
        let mut take = |tag: Tag| {
            let (_, mut sub_request) = self.queued[tag.index()].take()?;
            accounts.dispatched(now, &mut sub_request);
            Some(sub_request)
        };
        let members = match dispatch.members {
            1 => take(dispatch.tag).map(Members::One),
            _ => {
                let tags = std::iter::successors(Some(dispatch.tag), |&tag| self.scheduler.next_member(tag));
                Some(Members::Many(tags.filter_map(take).collect()))
            }
        };
        // A scheduler dispatches only what it was given.
        Some((dispatch, members.unwrap_or_else(|| Members::Many(Vec::new()))))
    }

    pub(super) fn complete(&mut self, now: Nanos, tag: Tag) {
        self.scheduler.complete(now, tag);
        self.called(now, &Call::Complete(tag));
    }

    /// Takes back the sub-requests of a connection that are not dispatched or merged.
    pub(super) fn withdraw(&mut self, now: Nanos, connection: u32, accounts: &mut Accounts) -> Vec<SubRequest> {
        let mut withdrawn = Vec::new();
        for held_back in &mut self.held_back {
            let (its, others): (Vec<_>, _) =
                std::mem::take(held_back).into_iter().partition(|sub_request| sub_request.connection == connection);
            *held_back = others.into();
            its.iter().for_each(|sub_request| accounts.withdrawn(now, sub_request, false));
            withdrawn.extend(its);
        }
        let queued = self.queued.iter().flatten().filter(|(_, sub_request)| sub_request.connection == connection);
        let tags: Vec<Tag> = queued.map(|(tag, _)| *tag).collect();
        for tag in tags {
            let cancelled = self.scheduler.cancel(now, tag);
            self.called(now, &Call::Cancel(tag, cancelled));
            if cancelled.is_ok()
                && let Some((_, sub_request)) = self.queued[tag.index()].take()
            {
                accounts.withdrawn(now, &sub_request, true);
                withdrawn.push(sub_request);
            }
        }
        withdrawn
    }

    /// Sets shares one after the other, up to the first that is not feasible.
    pub(super) fn set_shares(&mut self, now: Nanos, shares: &[(Holder, Share)]) -> Result<(), Refusal> {
        // A scheduler without shares is given none.
        let Some(control) = self.scheduler.tenants_mut() else { return Ok(()) };
        shares.iter().try_for_each(|&(holder, share)| {
            holder.configure(control, now, share).map_err(|error: ShareError| Refusal { holder, error })
        })
    }

    /// The oldest sub-request of each class that waits: for how long it has, and for what it still does.
    pub(super) fn oldest(&self, now: Nanos, classes: usize) -> Vec<Option<(Nanos, WaitCause)>> {
        let mut oldest: Vec<Option<(Option<Tag>, &SubRequest)>> = vec![None; classes];
        let queued = self.queued.iter().flatten().map(|(tag, sub_request)| (Some(*tag), sub_request));
        let held_back = self.held_back.iter().flatten().map(|sub_request| (None, sub_request));
        for (tag, sub_request) in queued.chain(held_back) {
            let of_class = &mut oldest[sub_request.class as usize];
            if of_class.is_none_or(|(_, other)| sub_request.arrived < other.arrived) {
                *of_class = Some((tag, sub_request));
            }
        }
        let waits =
            |(tag, sub_request): (Option<Tag>, &SubRequest)| (now.since(sub_request.arrived), self.cause(now, tag));
        oldest.into_iter().map(|oldest| oldest.map(waits)).collect()
    }

    fn cause(&self, now: Nanos, tag: Option<Tag>) -> WaitCause {
        let Some(tag) = tag else { return WaitCause::Counted(Reason::QueueFull) };
        if let Some(explanation) = self.scheduler.tenants().and_then(|tenants| tenants.explain(now, tag)) {
            return WaitCause::Explained(explanation);
        }
        let waiting = self.scheduler.waiting();
        let most = Reason::ALL.into_iter().max_by_key(|&reason| waiting.count(reason));
        WaitCause::Counted(most.unwrap_or(Reason::DeviceFull))
    }
}
