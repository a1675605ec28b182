//! Policies from outside this crate: an elevator or an order of tenants behind a trait object, in a row like any other's.
//!
//! [`ExternalElevator`] runs on the request queue that all elevators share, [`ExternalOrder`] on the scheduler that all
//! tenant policies share. So limits, merging, tags, shares and pairs work as for the built-in policies, and what comes from
//! outside only chooses. [`PolicyRow::external`](crate::policy::PolicyRow::external) makes the row.
//!
//! ```
//! use ioweir_core::external::{ElevatorFactory, ExternalElevator, Maker, Next};
//! use ioweir_core::policy::{PolicyRow, Settings};
//! use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Request, Scheduler, Step, StreamId};
//!
//! /// Serves the newest request first.
//! #[derive(Clone, Debug, Default)]
//! struct Newest(Vec<u32>);
//!
//! impl ExternalElevator for Newest {
//!     fn submit(&mut self, _now: Nanos, slot: u32, _request: &Request) {
//!         self.0.push(slot);
//!     }
//!     fn remove(&mut self, slot: u32) {
//!         self.0.retain(|held| *held != slot);
//!     }
//!     fn poll(&mut self, _now: Nanos) -> Next {
//!         self.0.pop().map_or(Next::WaitUntil(Nanos::NEVER), Next::Take)
//!     }
//!     fn boxed(&self) -> Box<dyn ExternalElevator> {
//!         Box::new(self.clone())
//!     }
//! }
//!
//! #[derive(Debug)]
//! struct Factory;
//!
//! impl ElevatorFactory for Factory {
//!     fn make(&self, _limits: &QueueLimits, _settings: &Settings) -> Box<dyn ExternalElevator> {
//!         Box::new(Newest::default())
//!     }
//! }
//!
//! static ROW: PolicyRow = PolicyRow::external("newest", "the newest request first", Maker::Elevator(&Factory));
//! let mut policy = ROW.build(QueueLimits { depth: 1, ..QueueLimits::DEFAULT }, &ROW.defaults());
//! for sector in [0, 800] {
//!     let (operation, flags, stream) = (Operation::Read, Flags::NONE, StreamId(0));
//!     policy.submit(Nanos::ZERO, Request { operation, flags, stream, sector, sectors: 8 }).expect("there is room");
//! }
//! assert!(matches!(policy.poll(Nanos::ZERO), Step::Dispatch(first) if first.sector == 800));
//! ```

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use core::fmt::Debug;

use crate::elevator::{self, Elevator};
use crate::policy::Settings;
use crate::queue::{Edge, RequestQueue};
use crate::tenant::{self, Head, Order, Rule, RuleState, Share};
use crate::{Nanos, QueueLimits, Reason, Request, Waiting};

/// The factory of an external policy's schedulers.
#[derive(Clone, Copy, Debug)]
pub enum Maker {
    /// An elevator: it chooses among requests.
    Elevator(&'static dyn ElevatorFactory),
    /// An order: it chooses among tenants.
    Order(&'static dyn OrderFactory),
}

impl Maker {
    /// A string that changes whenever the code of the policy does, such as a hash of it.
    ///
    /// # Errors
    /// The reason why there is none, in words about the policy.
    pub fn code(&self) -> Result<String, String> {
        match self {
            Self::Elevator(factory) => factory.code(),
            Self::Order(factory) => factory.code(),
        }
    }
}

/// Makes elevators, one for each run.
pub trait ElevatorFactory: Debug + Sync {
    /// As [`Maker::code`]; empty where the code is known by the version of the program.
    ///
    /// # Errors
    /// As [`Maker::code`].
    fn code(&self) -> Result<String, String> {
        Ok(String::new())
    }

    /// An elevator without requests, for a queue of these limits.
    fn make(&self, limits: &QueueLimits, settings: &Settings) -> Box<dyn ExternalElevator>;
}

/// Makes orders, one for each run.
pub trait OrderFactory: Debug + Sync {
    /// As [`Maker::code`]; empty where the code is known by the version of the program.
    ///
    /// # Errors
    /// As [`Maker::code`].
    fn code(&self) -> Result<String, String> {
        Ok(String::new())
    }

    /// An order without tenants, for this many, whose numbers are below that.
    fn make(&self, tenants: u32, settings: &Settings) -> Box<dyn ExternalOrder>;
}

/// An elevator's answer to the question for its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Dispatch the request in this slot, which the elevator no longer holds.
    Take(u32),
    /// Dispatch no request before this time, or before something changes.
    WaitUntil(Nanos),
}

/// An elevator from outside. It knows queued requests by their slots. Every slot that is submitted is later taken by
/// [`ExternalElevator::poll`] or removed, once.
pub trait ExternalElevator: Debug + Send {
    /// A request has been queued in `slot`.
    fn submit(&mut self, now: Nanos, slot: u32, request: &Request);

    /// The request in `slot` has grown by a merge, and is `request` from now on.
    fn merged(&mut self, _slot: u32, _request: &Request) {}

    /// The request in `slot` is withdrawn, or merged into another slot's.
    fn remove(&mut self, slot: u32);

    /// Chooses the next request. Called only while the device has room and at least one is queued.
    fn poll(&mut self, now: Nanos) -> Next;

    /// The device has completed the request that was taken from `slot`.
    fn complete(&mut self, _now: Nanos, _slot: u32, _request: &Request) {}

    /// Whether `request` may be merged with the one in `slot`, which it adjoins.
    fn may_merge(&self, _slot: u32, _request: &Request) -> bool {
        true
    }

    /// A copy in the same state.
    fn boxed(&self) -> Box<dyn ExternalElevator>;
}

/// The oldest request of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// The request's cost, in the unit of the policy's `cost`.
    pub cost: u32,
    /// When it arrived.
    pub arrived: Nanos,
    /// The request's number in the order of submission.
    pub sequence: u64,
}

impl From<&Head> for First {
    fn from(head: &Head) -> Self {
        Self { cost: head.cost, arrived: head.arrived, sequence: head.sequence }
    }
}

/// An order of tenants from outside. A tenant is a number; it is *active* while it has a request that no limit holds back.
pub trait ExternalOrder: Debug + Send {
    /// Sets the share of a tenant that is not active.
    fn set_share(&mut self, now: Nanos, tenant: u32, share: &Share);

    /// `first` is now the first request of a tenant, which becomes active if it was not.
    fn activate(&mut self, now: Nanos, tenant: u32, first: First);

    /// A tenant is no longer active.
    fn deactivate(&mut self, tenant: u32);

    /// The active tenant that is next, if the device has room. Asked again before anything else happens, it is the same one.
    fn poll(&mut self, now: Nanos) -> Option<u32>;

    /// The tenant that [`ExternalOrder::poll`] answered was served: this was its first request.
    fn served(&mut self, now: Nanos, tenant: u32, first: First);

    /// A copy in the same state.
    fn boxed(&self) -> Box<dyn ExternalOrder>;
}

/// The elevator that stands for one from outside.
#[derive(Debug)]
pub(crate) struct Outside {
    elevator: Box<dyn ExternalElevator>,
    /// Whether each slot is the elevator's to take.
    held: Box<[bool]>,
    waits: bool,
}

impl Outside {
    pub(crate) fn new(elevator: Box<dyn ExternalElevator>, limits: &QueueLimits) -> Self {
        Self { elevator, held: vec![false; limits.slots() as usize].into_boxed_slice(), waits: false }
    }

    fn release(&mut self, slot: u32) {
        let held = self.held.get_mut(slot as usize).is_some_and(core::mem::take);
        assert!(held, "an external elevator takes only what it holds: slot {slot}");
    }
}

impl Clone for Outside {
    fn clone(&self) -> Self {
        Self { elevator: self.elevator.boxed(), held: self.held.clone(), waits: self.waits }
    }
}

impl Elevator for Outside {
    fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        self.held[slot as usize] = true;
        self.waits = false;
        self.elevator.submit(now, slot, &queue.entry(slot).request());
    }

    fn request_merged(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, _edge: Edge) {
        self.elevator.merged(slot, &queue.entry(slot).request());
    }

    fn requests_merged(&mut self, queue: &RequestQueue, slot: u32, _members: u32) {
        self.elevator.merged(slot, &queue.entry(slot).request());
    }

    fn remove(&mut self, _queue: &RequestQueue, slot: u32) {
        self.release(slot);
        self.elevator.remove(slot);
    }

    fn next(&mut self, _queue: &RequestQueue, now: Nanos) -> elevator::Next {
        let next = self.elevator.poll(now);
        self.waits = matches!(next, Next::WaitUntil(_));
        match next {
            Next::Take(slot) => {
                self.release(slot);
                elevator::Next::Take(slot)
            }
            Next::WaitUntil(time) => elevator::Next::WaitUntil(time, Reason::Anticipating),
        }
    }

    fn completed(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        self.elevator.complete(now, slot, &queue.entry(slot).request());
    }

    fn may_merge(&self, _queue: &RequestQueue, slot: u32, request: &Request) -> bool {
        self.elevator.may_merge(slot, request)
    }

    fn waiting(&self, queued: u32) -> Waiting {
        Waiting::all(if self.waits { Reason::Anticipating } else { Reason::DeviceFull }, queued)
    }
}

/// The order that stands for one from outside.
#[derive(Debug)]
pub(crate) struct OutsideOrder {
    order: Box<dyn ExternalOrder>,
    /// The first request of each active tenant.
    first: Box<[Option<First>]>,
    /// The tenant that is next, until something changes. An explanation asks for it without changing anything.
    chosen: Option<u32>,
}

impl OutsideOrder {
    pub(crate) fn new(order: Box<dyn ExternalOrder>, size: &tenant::Size) -> Self {
        Self { order, first: vec![None; size.nodes as usize].into_boxed_slice(), chosen: None }
    }
}

impl Clone for OutsideOrder {
    fn clone(&self) -> Self {
        Self { order: self.order.boxed(), first: self.first.clone(), chosen: self.chosen }
    }
}

impl Order for OutsideOrder {
    fn set_share(&mut self, now: Nanos, node: u32, share: &Share) {
        self.order.set_share(now, node, share);
    }

    fn activate(&mut self, now: Nanos, node: u32, head: &Head) {
        self.chosen = None;
        self.first[node as usize] = Some(head.into());
        self.order.activate(now, node, head.into());
    }

    fn head_changed(&mut self, now: Nanos, node: u32, head: &Head) {
        self.activate(now, node, head);
    }

    fn deactivate(&mut self, node: u32) {
        self.chosen = None;
        self.first[node as usize] = None;
        self.order.deactivate(node);
    }

    fn next(&mut self, now: Nanos) -> Option<u32> {
        if self.chosen.is_none() {
            self.chosen = self.order.poll(now);
            let is_active = |node: u32| self.first.get(node as usize).is_some_and(Option::is_some);
            assert!(self.chosen.is_none_or(is_active), "an external order chooses an active tenant: {:?}", self.chosen);
        }
        self.chosen
    }

    fn peek(&self, _now: Nanos) -> Option<u32> {
        // Until it was asked, the tenant that has waited longest stands for its choice in explanations.
        let oldest = || {
            let active = self.first.iter().zip(0..).filter_map(|(first, node)| Some(((*first)?.sequence, node)));
            active.min().map(|(_, node)| node)
        };
        self.chosen.or_else(oldest)
    }

    fn dispatched(&mut self, now: Nanos, node: u32, taken: &Head, next: Option<&Head>) {
        self.order.served(now, node, taken.into());
        match next {
            Some(head) => self.activate(now, node, head),
            None => self.deactivate(node),
        }
    }

    fn explain(&self, _now: Nanos, node: u32, first: u32) -> RuleState {
        let sequence = |node: u32| self.first[node as usize].map_or(0, |first| first.sequence);
        RuleState { rule: Rule::External, own: sequence(node), clock: 0, first_tag: sequence(first) }
    }
}
