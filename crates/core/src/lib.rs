//! Policies that decide the order in which storage requests are served, and the driver that runs them, without any I/O.
//!
//! # The contract
//!
//! A scheduler is a state machine. It has no clock, no thread, no device and no randomness of its own: its caller reports
//! events with their times, and asks what to do.
//!
//! - [`Scheduler::submit`]`(now, request)` queues a request and returns its [`Tag`], or refuses it ([`Refused`]).
//! - [`Scheduler::poll`]`(now)` returns [`Step::Dispatch`]: send this to the device; [`Step::WaitUntil`]: nothing to do
//!   before this time, for this [`Reason`]; or [`Step::Idle`]: nothing is queued.
//! - [`Scheduler::complete`]`(now, tag)` reports that the device has completed a dispatch.
//! - [`Scheduler::cancel`]`(now, tag)` takes back a queued request.
//! - [`policy::Policy::place`] declares, before the first request, what is on the fast device already.
//!
//! [`driver::Driver`] makes these calls for the simulator and the server: it splits requests, holds back refused ones, walks
//! merged requests and accounts for waiting. Without it, the loop is this:
//!
//! ```
//! use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Request, Scheduler, Step, StreamId, policy};
//!
//! let row = policy::find("clook").expect("it is in the table");
//! let mut scheduler = row.build(QueueLimits::DEFAULT, &row.defaults());
//! let mut now = Nanos(0);
//! for sector in [800, 80, 400, 88] {
//!     let (operation, flags, stream) = (Operation::Read, Flags::NONE, StreamId(0));
//!     let request = Request { operation, flags, stream, sector, sectors: 8 };
//!     scheduler.submit(now, request).expect("the queue has room");
//! }
//!
//! // A device that holds one request at a time and takes 5 ms for each.
//! let mut served = Vec::new();
//! loop {
//!     match scheduler.poll(now) {
//!         Step::Dispatch(dispatch) => {
//!             now = now.after(Nanos(5_000_000));
//!             served.push((dispatch.sector, dispatch.sectors));
//!             scheduler.complete(now, dispatch.tag);
//!         }
//!         Step::WaitUntil(time, _reason) => now = time,
//!         Step::Idle => break,
//!     }
//! }
//! // One sweep upwards; the request at 88 was merged with the one at 80.
//! assert_eq!(served, [(80, 16), (400, 8), (800, 8)]);
//! ```
//!
//! **The run loop.** After submitting, completing or cancelling, and when the time of the last `WaitUntil` has come, the
//! caller polls until the answer is not a dispatch. Several submissions and completions may share one moment and one round
//! of polling (a list of requests unplugged at once), but that round must happen before time moves on. While the device is
//! at its queue depth the answer is known, and a caller may skip the poll.
//!
//! **Time.** [`Nanos`] since an origin of the caller's choice. `now` never goes back: asserted. Everything due before `now`
//! happens first, in the order in which it was due, however late the call comes.
//!
//! **Waiting.** Every queued request waits for exactly one [`Reason`] at any moment; [`Scheduler::waiting`] counts them.
//! The integral of the counts over time is, reason by reason, all the time that requests spent queued.
//!
//! **Tags.** A tag is a slot and a generation. Slots are dense, so a caller can keep its own data about a request in an
//! array. A merged request is dispatched and completed under one tag, and [`Scheduler::next_member`] walks the tags of its
//! members; completing it frees them all. A tag is completed exactly once: asserted.
//!
//! **Limits.** All memory is allocated at construction, from [`QueueLimits`]. A full queue refuses a request and hands it
//! back unchanged; the driver holds it back and tries again after a completion. Nothing grows, nothing is dropped.
//!
//! **Order.** Ties go to the request submitted first; between clients of a tenant policy, to the client that came first.
//! Nothing depends on addresses, hashes or map order. The same calls give the same answers, in every process and on every
//! machine; a policy that draws at random holds its own seeded generator. Decisions use integers only.
//!
//! # Modules
//!
//! [`policy`] has the table of policies. Block-layer policies are elevators: they order requests over one request queue
//! (limits, merging, flushes, tags), and share `elevator` and `queue`. Policies between tenants are orders of clients over
//! the scheduler of [`tenant`] (shares, rate limits, groups, tags). A `pair` is an order of tenants above an elevator.
//! `part` has what several elevators are made of (sorted queues with a FIFO, think times, seeks), and `structure` the slab,
//! list, tree, heap and index of fixed capacity that everything is built from. [`cores`] decides which queue a server's
//! worker serves and for how long, [`external`] takes policies from outside, [`fleet`] apportions a share over many servers,
//! [`background`] decides when debt of background services is paid, and [`random`] has numbers of a seed.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

#[macro_use]
mod named;

pub mod background;
pub mod cores;
pub mod driver;
mod elevator;
pub mod external;
pub mod fleet;
mod pair;
mod part;
pub mod policy;
mod priority;
mod queue;
pub mod random;
mod request;
mod scheduler;
mod settings;
mod structure;
pub mod tenant;
mod time;
mod window;

pub use priority::{Priority, PriorityClass};
pub use queue::QueueLimits;
pub use request::{Direction, Flags, Operation, Request, SECTOR_BYTES, StreamId, Tag};
pub use scheduler::{CancelError, Dispatch, Reason, Refused, RefusedCause, Room, Scheduler, Step, Tier, Waiting};
pub use structure::Slab;
pub use time::Nanos;
