//! Scheduling of the workers of a storage server: which queue a worker serves, and for how long.
//!
//! A storage server has a pool of workers, one for each core, and more requests than workers. Requests wait in three queues:
//! HQ (high), LQ (low) and MQ (maintenance: work that is critical to the server itself). This module makes three decisions,
//! and their rules combine freely: the queue of a request and its place there ([`Dispatch`], [`Order`]), the queue that a free
//! worker serves (the selector, by the weights of a [`Schedule`], or a pace that the write log sets; [`Sharing`]), and the length
//! of its turn ([`SliceRule`]). A [`ScheduleRow`] is a named combination.
//! Source: Zhou et al., Empirical Evaluation and Enhancement of Enterprise Storage System Request Scheduling, ACM TOS 14(2),
//! 2018.
//!
//! # The contract
//!
//! As everywhere in this crate, there is no clock and no thread: a *driver* (the simulator, or a pool of real threads)
//! reports events with their times, and asks for decisions. `now` never goes back.
//!
//! 1. [`Cores::submit`]`(now, work)` accepts a request and returns its [`Tag`](crate::Tag), or hands it back when there is no
//!    room.
//! 2. A free worker calls [`Cores::next`]`(now, worker, log)`. [`Turn::Serve`] names a queue and a slice;
//!    [`Turn::Idle`] means that no request is queued for this worker: call again once one is. Changing queues may cost the worker time; the
//!    driver accounts for that, and it is not part of the slice.
//! 3. In its turn the worker calls [`Cores::take`]`(now, worker)`, and runs the request it gets for at most the
//!    allowance. `None` ends the turn: the slice, which begins with the first `take`, is used up, or other workers have
//!    emptied the queue, or another queue's turn is due. A request is not interrupted at the end of the turn: it may use a whole
//!    slice of its own, or the quantum of the schedule, so that a short request is not preempted for having begun late. A turn
//!    therefore lasts less than a slice and an allowance.
//! 4. The worker reports the outcome and the CPU time since `take`: [`Cores::finished`];
//!    [`Cores::suspended`], if the request waits for a disk, a lock or memory; or [`Cores::preempted`], if
//!    it used up its allowance and is queued again. Then the worker calls `take` as in 3 or, after `None`, `next` as in 2.
//! 5. When a suspended request can continue, the driver calls [`Cores::restarted`]: it is queued again.
//!
//! **Waking.** `submit`, `restarted` and `preempted` each queue one more request; a driver then wakes one idle worker. Where
//! workers are reserved ([`Cores::reserves_workers`]) it wakes the others, too, until one is given a turn.
//!
//! **Limits.** All memory is allocated at construction. A request keeps its slot from `submit` to `finished`, suspended or
//! not.
//!
//! **Waiting.** A request that no worker runs has exactly one [`Wait`] at any moment.
//!
//! **No starvation.** Let a non-empty queue have weight w, and all non-empty queues together weight W. The queue is passed
//! over for at most 16 W / w turns in a row, and one more for each other queue that is as late; turns of workers that are
//! reserved for HQ do not count. LQ and MQ are first come, first served: with k older requests, a request leaves within k + 1
//! such rounds. In HQ, requests with a deadline go before those without; a server promises deadlines only to as many requests as
//! it can serve in time. Where attained service
//! counts ([`Order::Attained`]) a request is overtaken only by those that come within 200 times the CPU time that it needs, 10 s at most,
//! after it, or, with a deadline, within 30 ms more.
//!
//! **Randomness.** The selector draws from a generator that is part of the state and seeded at construction: the same calls
//! give the same answers.

mod attained;
mod dispatch;
mod learning;
mod pacing;
mod queues;
mod schedule;
mod scheduler;
mod selector;
mod slice;
mod work;

pub use dispatch::Dispatch;
pub use queues::{Counts, Queue};
pub use schedule::{Order, SCHEDULES, Schedule, ScheduleRow, Sharing, find};
pub use scheduler::{Cores, CoresError, CoresLimits};
pub use slice::{Maintenance, SliceRule};
pub use work::{Kind, Log, Run, Source, Turn, Wait, Work};
