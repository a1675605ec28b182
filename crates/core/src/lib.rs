//! The policies of ioweir: in which order are storage requests served, and what does each of them wait for?
//!
//! # The contract
//!
//! A scheduler is a state machine. It has no clock, no thread, no device and no randomness of its own: a *driver* (the
//! simulator, or a server) tells it what happened and when, and asks what to do.
//!
//! - [`Scheduler::submit`]`(now, request)` takes a request in and gives it a [`Tag`], or hands it back ([`Refused`]).
//! - [`Scheduler::poll`]`(now)` answers [`Step::Dispatch`]: send this to the device; [`Step::WaitUntil`]: nothing to do
//!   before this time, and for this [`Reason`]; or [`Step::Idle`]: nothing is queued.
//! - [`Scheduler::complete`]`(now, tag)` says that the device has finished a dispatch.
//! - [`Scheduler::cancel`]`(now, tag)` takes back a request that is queued.
//! - [`policy::Policy::place`] says, before the first request, what lies on the fast device already.
//!
//! **The run loop.** After submitting, completing or cancelling, and when the time of the last `WaitUntil` has come, the
//! driver polls until the answer is not a dispatch. Several submissions and completions may share one moment and one
//! round of polling (a list of requests unplugged at once); none may be left unpolled when time moves on. While the device
//! holds its depth the answer is known, and a driver may leave the question out.
//!
//! **Time.** [`Nanos`] since an origin of the driver's choice. `now` never goes back: asserted. What was due before `now`
//! happens before what the call brings, in the order in which it was due, however late the driver looks.
//!
//! **Waiting.** Every queued request waits for exactly one [`Reason`] at any moment; [`Scheduler::waiting`] counts them.
//! A driver that adds up counts times time gets, reason by reason, all the time that requests spent queued.
//!
//! **Tags.** A tag is a slot and a generation. Slots are dense, so a driver keeps what it knows of a request in an array.
//! A unit that was merged from several requests is dispatched and completed under one tag, and
//! [`Scheduler::next_member`] walks the tags it carries; completing it frees them all. A tag is completed exactly once:
//! asserted.
//!
//! **Limits.** All memory is taken at construction, from [`QueueLimits`]. A full queue hands the request back unchanged;
//! the driver holds its submitter and tries again after a completion. Nothing grows, nothing is dropped.
//!
//! **Order.** Equal keys are decided by the order of submission; between clients of a tenant policy, by which of them came
//! first. Nothing depends on addresses, hashes or map order. The
//! same calls give the same answers, in every process and on every machine; a policy that draws at random holds its own
//! seeded generator. Decisions use integers only.
//!
//! # What is where
//!
//! [`policy`] has the table of policies. The block layer's policies are elevators (order) behind one request queue
//! (limits, merging, flushes, tags): what they share stands once, in `elevator` and `queue`. The policies between tenants
//! are orders of clients behind one scheduler of [`tenant`] (shares, rate limits, groups, tags). `part` has what several of
//! them order by (sorted queues with a FIFO, think times, seeks), `structure` the fixed-capacity list, tree, heap and
//! index that all of it is built from. [`cores`] decides which queue a server's worker serves and for how long, and
//! [`background`] when debt of background services is paid.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod background;
pub mod cores;
pub mod driver;
mod elevator;
mod part;
pub mod policy;
mod queue;
mod request;
mod scheduler;
mod settings;
mod structure;
pub mod tenant;
mod time;

pub use queue::QueueLimits;
pub use request::{Direction, Flags, Operation, Request, SECTOR_BYTES, StreamId, Tag};
pub use scheduler::{CancelError, Dispatch, Reason, Refused, RefusedCause, Scheduler, Step, Tier, Waiting};
pub use structure::Slab;
pub use time::Nanos;
