//! Which queue does a worker of a storage server take its next requests from, and for how long?
//!
//! A storage server has a pool of workers, one a core, and more requests than workers. Three queues stand before them: HQ
//! (high), LQ (low) and MQ (maintenance: what is critical to the server itself). What is decided here is where a request
//! queues ([`Dispatch`]), which queue a free worker serves (the selector, by the weights of a [`Schedule`]) and for how
//! long ([`SliceRule`]). These parts combine freely; a [`ScheduleRow`] is a combination with a name.
//!
//! # The contract
//!
//! As everywhere in this crate: no clock, no threads; a *driver* (the simulator, or a pool of real threads) says what
//! happens and when, and asks what to do. `now` never goes back.
//!
//! 1. [`CoreScheduler::submit`]`(now, work)` takes a request in and gives it a [`Tag`], or hands it back: it is full.
//! 2. A worker that is free asks [`CoreScheduler::next`]`(now, worker, log)`. [`Turn::Serve`] names a queue and a slice;
//!    [`Turn::Idle`] says that nothing is queued: ask again once something is. Going from one queue to another may cost the
//!    worker time: that is the driver's to know, and is not part of the slice.
//! 3. In its turn the worker asks [`CoreScheduler::take`]`(now, worker)`, and runs the request it gets for at most the
//!    allowance. `None` ends the turn: the slice is used up (it runs from the first `take`), or other workers have emptied
//!    the queue. A request that was begun is not cut at the end of the turn: it may use a whole slice of its own, so that a
//!    short request is not preempted for having begun late. A turn lasts less than two slices.
//! 4. The worker reports what happened, with the CPU time since `take`: [`CoreScheduler::finished`];
//!    [`CoreScheduler::suspended`], it waits for a disk, a lock or memory; or [`CoreScheduler::preempted`], it used up its
//!    allowance, and queues again. Then it asks for the next request, as in 3, or, after `None`, as in 2.
//! 5. Once what a suspended request waits for is there, the driver says [`CoreScheduler::restarted`]: it queues again.
//!
//! **Waking.** After `submit`, `restarted` and `preempted` one more request is queued: a driver wakes one idle worker then.
//!
//! **Limits.** All memory is taken at construction. A request has its place from `submit` to `finished`, suspended or not.
//!
//! **Waiting.** A request that is in and not with a worker waits for one [`Wait`] at any moment.
//!
//! **Nothing starves.** A queue of weight w that is not empty, among non-empty queues of weight W in all, is passed over for at
//! most 16 W / w turns in a row, and one more for each other queue that is as late. LQ and MQ are first come, first served: with k
//! older ones a request leaves within k + 1 such rounds. In HQ those with a deadline go before those without; a server promises
//! deadlines only to so many as it can keep them for.
//!
//! **Chance.** The selector draws from a generator that is held here and seeded at construction: same calls, same answers.

mod dispatch;
mod learning;
mod queues;
mod schedule;
mod scheduler;
mod selector;
mod slice;
mod work;

pub use dispatch::{DISPATCHES, Dispatch};
pub use queues::{Counts, Queue};
pub use schedule::{SCHEDULES, Schedule, ScheduleRow, find};
pub use scheduler::{Cores, CoresError, CoresLimits};
pub use slice::{Maintenance, SliceRule};
pub use work::{Kind, Log, Run, Source, Turn, Wait, Work};

use crate::{Nanos, Tag};

/// Who decides for a pool of workers. The module's head says in which order the calls come and what they promise.
pub trait CoreScheduler {
    /// Takes a request in, or hands it back where there is no room.
    ///
    /// # Errors
    /// The request itself; nothing has changed then. There is room again after a request has finished.
    fn submit(&mut self, now: Nanos, work: Work) -> Result<Tag, Work>;

    /// A free worker asks which queue to serve, and for how long. `log` says how the server's write log stands.
    #[must_use]
    fn next(&mut self, now: Nanos, worker: u32, log: Log) -> Turn;

    /// The next request of the worker's turn; `None` ends the turn.
    #[must_use]
    fn take(&mut self, now: Nanos, worker: u32) -> Option<Run>;

    /// The request is done, after `used` CPU time since it was taken. Frees its tag.
    fn finished(&mut self, now: Nanos, worker: u32, tag: Tag, used: Nanos);

    /// The request waits for something that is not a core.
    fn suspended(&mut self, now: Nanos, worker: u32, tag: Tag, used: Nanos);

    /// The request has used up its allowance, and queues again.
    fn preempted(&mut self, now: Nanos, worker: u32, tag: Tag, used: Nanos);

    /// What a suspended request waited for is there: it queues again.
    fn restarted(&mut self, now: Nanos, tag: Tag);

    /// How many requests are in each queue, in the order of [`Queue::ALL`].
    fn depths(&self) -> [u32; Queue::COUNT];

    /// How many requests wait for what; with those that run, all that are in.
    fn waiting(&self) -> [u32; Wait::COUNT];

    /// What has happened in each queue so far, in the order of [`Queue::ALL`].
    fn counts(&self) -> [Counts; Queue::COUNT];
}
