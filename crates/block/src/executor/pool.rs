//! The pool: the items, the schedule that orders them, and the loop of its workers.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use ioweir_core::cores::{Cores, Counts, Log, Queue, Run, Turn, Work};
use ioweir_core::{Nanos, Tag};

use super::clock::Clock;
use super::item::{Item, Progress, Slice, Wait};
use super::locks::Locks;

/// An item that was not accepted, returned.
pub struct Refused {
    /// The item.
    pub item: Box<dyn Item>,
    /// Why it was not accepted.
    pub cause: RefusedCause,
}

impl fmt::Debug for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Refused").field("cause", &self.cause).finish_non_exhaustive()
    }
}

/// Why an item was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedCause {
    /// There is no room: submit again once an item is done.
    #[error("the executor is full")]
    Full,
    /// The executor accepts no more items.
    #[error("the executor is shutting down")]
    Closed,
}

/// The counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Items that are done.
    pub done: u64,
    /// Items that ended in a panic.
    pub panicked: u64,
    /// Workers that panicked, which is a defect of the executor.
    pub workers_lost: u32,
    /// The counters of the schedule, in the order of [`Queue::ALL`].
    pub queues: [Counts; Queue::COUNT],
}

impl State {
    /// Whether all items are done and none can arrive.
    fn is_over(&self) -> bool {
        self.is_closed && self.live == 0 && self.coming.is_empty()
    }
}

/// Items, the schedule that orders them, and what they wait for. Each thread runs [`Pool::work`].
pub struct Pool<C> {
    state: Mutex<State>,
    /// Notified when an item is queued, when the first timer becomes earlier, and at the end.
    changed: Condvar,
    clock: C,
    workers: u32,
    requests: u32,
    /// Called by a worker at the start of each turn.
    turn: Option<TurnHook>,
}

/// Called at the start of each turn; the flag says whether the worker's queue has changed.
type TurnHook = Box<dyn Fn(bool) + Send + Sync>;

/// The state that the mutex guards.
struct State {
    cores: Cores,
    places: Box<[Place]>,
    /// The time, the order of asking, and the slot of items that wait for a time.
    timers: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    timers_set: u64,
    /// Items that arrive later.
    coming: BinaryHeap<Coming>,
    locks: Locks,
    counted: Counted,
    /// Items that were accepted and are not done.
    live: u32,
    /// Workers that sleep.
    idle: u32,
    is_closed: bool,
    is_stopped: bool,
}

/// An item that arrives later.
struct Coming {
    time: Nanos,
    sequence: u64,
    work: Work,
    item: Box<dyn Item>,
}

impl Coming {
    /// The earliest item is the greatest, as a heap requires.
    fn key(&self) -> Reverse<(Nanos, u64)> {
        Reverse((self.time, self.sequence))
    }
}

impl PartialEq for Coming {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Coming {}

impl PartialOrd for Coming {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Coming {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// The item in a slot of the schedule.
#[derive(Default)]
struct Place {
    tag: Option<Tag>,
    /// `None` while it runs.
    item: Option<Box<dyn Item>>,
    /// The event that a suspended item waits for.
    wait: Option<Wait>,
    /// The lock that the item holds or has asked for.
    lock: Option<u32>,
    /// Whether a signal was sent before the item waited for one.
    is_signalled: bool,
}

/// A pool as its items and signals see it, independent of its clock.
pub(super) trait Control: Send + Sync {
    fn now(&self) -> Nanos;
    fn used(&self) -> Nanos;
    fn lock(&self, tag: Tag, lock: u32) -> bool;
    fn unlock(&self, tag: Tag);
    fn signal(&self, tag: Tag);
}

impl<C> fmt::Debug for Pool<C> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Pool").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl<C: Clock> Pool<C> {
    /// Makes a pool without threads, with as many workers as `cores` was made for and this number of locks.
    pub fn new(cores: Cores, locks: u32, clock: C) -> Self {
        let (workers, requests) = (cores.workers(), cores.requests());
        let state = State {
            cores,
            places: (0..requests).map(|_| Place::default()).collect(),
            timers: BinaryHeap::with_capacity(requests as usize),
            timers_set: 0,
            coming: BinaryHeap::with_capacity(requests as usize),
            locks: Locks::new(locks),
            counted: Counted::default(),
            live: 0,
            idle: 0,
            is_closed: false,
            is_stopped: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), clock, workers, requests, turn: None }
    }

    /// Sets a hook that workers call at the start of each turn, with whether the queue has changed; it can add the cost of a
    /// switch.
    #[must_use]
    pub fn with_turn_hook(self, hook: impl Fn(bool) + Send + Sync + 'static) -> Self {
        Self { turn: Some(Box::new(hook)), ..self }
    }

    /// The number of workers.
    #[must_use]
    pub const fn workers(&self) -> u32 {
        self.workers
    }

    /// Accepts an item, or returns it.
    ///
    /// # Errors
    /// [`Refused`] contains the item and the reason.
    pub fn submit(&self, work: Work, item: Box<dyn Item>) -> Result<(), Refused> {
        let mut state = self.lock_state();
        if state.is_closed {
            return Err(Refused { item, cause: RefusedCause::Closed });
        }
        let now = self.clock.now();
        let refused = self.place(&mut state, now, work, item).err();
        refused.map_or(Ok(()), |item| Err(Refused { item, cause: RefusedCause::Full }))
    }

    /// Accepts an item that arrives at `time`, or as soon as there is room after it. As many items can be expected as
    /// accepted.
    ///
    /// # Errors
    /// As [`Pool::submit`].
    pub fn submit_at(&self, time: Nanos, work: Work, item: Box<dyn Item>) -> Result<(), Refused> {
        let mut state = self.lock_state();
        if state.is_closed {
            return Err(Refused { item, cause: RefusedCause::Closed });
        }
        if state.coming.len() == state.places.len() {
            return Err(Refused { item, cause: RefusedCause::Full });
        }
        let sequence = state.timers_set;
        state.timers_set += 1;
        state.coming.push(Coming { time, sequence, work, item });
        // A worker that sleeps until a later time must wake earlier.
        self.wake_one(&state);
        Ok(())
    }

    /// Gives an item a slot, or returns it.
    fn place(&self, state: &mut State, now: Nanos, work: Work, item: Box<dyn Item>) -> Result<(), Box<dyn Item>> {
        let Ok(tag) = state.cores.submit(now, work) else { return Err(item) };
        state.places[tag.index()] = Place { tag: Some(tag), item: Some(item), ..Place::default() };
        state.live += 1;
        self.wake_one(state);
        Ok(())
    }

    /// The counters of the pool.
    #[must_use]
    pub fn counted(&self) -> Counted {
        let state = self.lock_state();
        Counted { queues: state.cores.counts(), ..state.counted }
    }

    /// Accepts nothing more; workers end once all items are done.
    pub fn close(&self) {
        self.lock_state().is_closed = true;
        self.clock.wake(&self.changed, true);
    }

    /// Accepts nothing more; workers end after the item that they run. Returns all items that are not running.
    pub fn stop(&self) -> Vec<Box<dyn Item>> {
        let mut state = self.lock_state();
        (state.is_closed, state.is_stopped) = (true, true);
        self.clock.wake(&self.changed, true);
        let coming = std::mem::take(&mut state.coming).into_sorted_vec();
        let coming = coming.into_iter().rev().map(|coming| coming.item);
        state.places.iter_mut().filter_map(|place| place.item.take()).chain(coming).collect()
    }

    /// The loop of a worker, until the pool is closed and all items are done, or the pool is stopped.
    pub fn work(self: &Arc<Self>, worker: u32) {
        let weak = Arc::downgrade(self);
        let mut state = self.lock_state();
        while !state.is_stopped {
            let now = self.clock.now();
            self.catch_up(&mut state, now);
            state = match state.cores.next(now, worker, Log::default()) {
                Turn::Serve { switched, .. } => self.serve(state, &weak, worker, switched),
                Turn::Idle if state.is_over() => break,
                Turn::Idle => self.sleep(state),
            };
        }
        self.clock.wake(&self.changed, true);
    }

    /// A turn: takes items from the worker's queue while its slice lasts.
    fn serve<'pool>(
        &'pool self,
        mut state: MutexGuard<'pool, State>,
        weak: &Weak<Self>,
        worker: u32,
        switched: bool,
    ) -> MutexGuard<'pool, State> {
        if let Some(turn) = &self.turn {
            drop(state);
            turn(switched);
            state = self.lock_state();
        }
        while !state.is_stopped {
            let now = self.clock.now();
            self.catch_up(&mut state, now);
            let Some(run) = state.cores.take(now, worker) else { break };
            let item = state.places[run.tag.index()].item.take();
            // Only `stop` removes items from their slots, and no item runs after it.
            let Some(mut item) = item else { break };
            drop(state);
            let (progress, used) = self.run(item.as_mut(), run, weak);
            if progress.is_none_or(|progress| progress == Progress::Done) {
                // The item is dropped before the report and without the mutex, because the drop may submit, signal or panic.
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(item)));
                state = self.lock_state();
                self.end(&mut state, worker, run.tag, used, progress.is_some() && dropped.is_ok());
            } else {
                state = self.lock_state();
                state.places[run.tag.index()].item = Some(item);
                self.go_on(&mut state, worker, run.tag, used, progress);
            }
        }
        state
    }

    /// Runs an item; returns its progress, unless it panicked, and the CPU time that it used.
    fn run(&self, item: &mut dyn Item, run: Run, weak: &Weak<Self>) -> (Option<Progress>, Nanos) {
        let began = self.clock.used();
        let signal: Weak<dyn Control> = weak.clone();
        let slice = Slice { control: self, signal, tag: run.tag, end: began.after(run.allowance) };
        let progress = catch_unwind(AssertUnwindSafe(|| item.run(&slice))).ok();
        (progress, self.clock.used().since(began))
    }

    /// Ends an item that is done or panicked.
    fn end(&self, state: &mut State, worker: u32, tag: Tag, used: Nanos, is_done: bool) {
        let now = self.clock.now();
        self.leave_lock(state, tag, now);
        state.cores.finished(now, worker, tag, used);
        state.places[tag.index()] = Place::default();
        state.live -= 1;
        if is_done {
            state.counted.done += 1
        } else {
            state.counted.panicked += 1
        }
        if state.is_over() {
            self.clock.wake(&self.changed, true);
        }
    }

    /// Queues an item that is not done, or lets it wait.
    fn go_on(&self, state: &mut State, worker: u32, tag: Tag, used: Nanos, progress: Option<Progress>) {
        let now = self.clock.now();
        let Some(Progress::Wait(wait)) = progress else {
            state.cores.preempted(now, worker, tag, used);
            self.wake_one(state);
            return;
        };
        state.cores.suspended(now, worker, tag, used);
        let place = &mut state.places[tag.index()];
        place.wait = Some(wait);
        let is_over = match wait {
            Wait::Until(time) => {
                // A worker that sleeps until a later time must wake earlier.
                if state.timers.peek().is_none_or(|Reverse((first, ..))| time < *first) {
                    self.wake_one(state);
                }
                state.timers.push(Reverse((time, state.timers_set, tag.index())));
                state.timers_set += 1;
                false
            }
            Wait::Lock => place.lock.is_none_or(|lock| state.locks.is_held_by(lock, tag)),
            Wait::Signal => std::mem::take(&mut place.is_signalled),
        };
        if is_over {
            self.restart(state, tag, now);
        }
    }

    fn restart(&self, state: &mut State, tag: Tag, now: Nanos) {
        state.places[tag.index()].wait = None;
        state.cores.restarted(now, tag);
        self.wake_one(state);
    }

    fn catch_up(&self, state: &mut State, now: Nanos) {
        while let Some(Reverse((_, _, at))) = state.timers.peek().filter(|Reverse((time, ..))| *time <= now) {
            let tag = state.places[*at].tag;
            state.timers.pop();
            // A timer is set only while its item waits for it.
            if let Some(tag) = tag {
                self.restart(state, tag, now);
            }
        }
        while state.coming.peek().is_some_and(|first| first.time <= now) && state.live < self.requests {
            let Some(Coming { work, item, .. }) = state.coming.pop() else { break };
            // This succeeds, because the room was checked.
            let _ = self.place(state, now, work, item);
        }
    }

    /// Releases the lock that `tag` holds or waits for; the next item continues if it waited only for that.
    fn leave_lock(&self, state: &mut State, tag: Tag, now: Nanos) {
        let Some(lock) = state.places[tag.index()].lock.take() else { return };
        let next = state.locks.leave(lock, tag);
        if let Some(next) = next.filter(|next| state.places[next.index()].wait == Some(Wait::Lock)) {
            self.restart(state, next, now);
        }
    }

    fn sleep<'pool>(&'pool self, mut state: MutexGuard<'pool, State>) -> MutexGuard<'pool, State> {
        let timer = state.timers.peek().map(|Reverse((time, ..))| *time);
        let coming = state.coming.peek().map(|coming| coming.time);
        let until = [timer, coming].into_iter().flatten().min();
        state.idle += 1;
        let mut state = self.clock.sleep(&self.changed, state, until);
        state.idle -= 1;
        state
    }

    /// Wakes workers, because an item was queued or the first timer has changed.
    fn wake_one(&self, state: &State) {
        // If workers are reserved for queues, not every idle one can serve the queued item.
        if state.idle > 0 {
            self.clock.wake(&self.changed, state.cores.reserves_workers());
        }
    }

    /// Items never panic while the mutex is held. An assertion of the schedule would poison it, and its message is the
    /// better one.
    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note_lost_worker(&self) {
        self.lock_state().counted.workers_lost += 1;
    }
}

impl<C: Clock> Control for Pool<C> {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn used(&self) -> Nanos {
        self.clock.used()
    }

    fn lock(&self, tag: Tag, lock: u32) -> bool {
        let mut state = self.lock_state();
        let State { places, locks, .. } = &mut *state;
        let place = &mut places[tag.index()];
        if place.lock == Some(lock) && locks.is_held_by(lock, tag) {
            return true;
        }
        let misuse = if !locks.has(lock) {
            Some("there is no such lock")
        } else if place.lock.is_some() {
            Some("an item holds, or waits for, one lock at most")
        } else {
            None
        };
        if let Some(misuse) = misuse {
            drop(state);
            panic!("lock {lock}: {misuse}");
        }
        place.lock = Some(lock);
        locks.take(lock, tag)
    }

    fn unlock(&self, tag: Tag) {
        let mut state = self.lock_state();
        let now = self.clock.now();
        self.leave_lock(&mut state, tag, now);
    }

    fn signal(&self, tag: Tag) {
        let mut state = self.lock_state();
        let place = &mut state.places[tag.index()];
        if place.tag != Some(tag) {
            return;
        }
        if place.wait == Some(Wait::Signal) {
            let now = self.clock.now();
            self.restart(&mut state, tag, now);
        } else {
            place.is_signalled = true;
        }
    }
}
