//! The overseer carries out a governor's decisions: it hands slices to workers, counts the bytes that they pay, and gives the governor the
//! readings of the foreground.
//!
//! It is a state machine without a clock, threads or files: [`super::run`] gives it the time, the readings of sources and the answers of
//! workers, and passes on its orders. Whatever a worker does, its slice is completed exactly once.

use std::collections::BTreeMap;

use ioweir_core::Nanos;
use ioweir_core::background::{Service, SliceTag};
use serde_json::Value;

use super::clock::Moment;
use super::hand::{Order, Report};
use super::source::Reading;
use super::status::{GovernorStatus, Status, WorkerStatus};
use super::worker::{Position, Progress, Task};

/// How long a worker that failed is left alone, at first; twice as long after each further failure.
const BACK_OFF: Nanos = Nanos::from_seconds(10);
/// The longest time that a worker is left alone.
const BACK_OFF_MAX: Nanos = Nanos::from_seconds(3600);
/// The most steps that are taken at once.
const STEPS_MAX: usize = 256;

/// A piece of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The handle by which the slice is completed.
    pub tag: SliceTag,
    /// The service that does the work.
    pub service: Service,
    /// The bytes of debt that the slice pays.
    pub bytes: u64,
    /// How fast, for a worker that can be given a rate.
    pub bytes_per_second: u64,
    /// Whether the worker yields to the foreground by itself, so that it needs no rate.
    pub is_idle_class: bool,
    /// Whether its requests may be longer than usual, because the work is nearly due and would be late.
    pub is_behind: bool,
    /// How much of that it is to get even if the foreground wants all of the device.
    pub reservation_bytes_per_second: u64,
    /// The device's time that this takes, as far as is known.
    pub device_time: Nanos,
}

/// The governor's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Run this, and ask again.
    Run(Slice),
    /// Pause this slice, complete it with what it has paid, and ask again.
    Pause(SliceTag),
    /// End this slice by any means, and complete it: it was to pause and did not.
    End(SliceTag),
    /// The governor has nothing to do before this time or the next call, whichever is first.
    WaitUntil(Nanos),
}

/// A governor decides when background work runs, and how much of it. Times are those of the wall clock, and never go back.
pub trait Governor {
    /// Takes the foreground's readings of the last `span`; absent amounts are unknown.
    fn sample(&mut self, now: Nanos, span: Nanos, reading: &Reading);

    /// The next step.
    fn poll(&mut self, now: Nanos) -> Step;

    /// Completes a slice, with the bytes that it paid and the device's time that it took.
    fn complete(&mut self, now: Nanos, tag: SliceTag, paid_bytes: u64, took: Nanos);

    /// Takes a service's whole debt, as its worker reports it, including the bytes that its slice has paid so far.
    fn owes(&mut self, now: Nanos, service: Service, bytes: u64);

    /// Goes on at an earlier time; no slice is open then.
    fn set_back(&mut self, now: Nanos);

    /// The status for people and monitors.
    fn status(&self, now: Nanos) -> GovernorStatus;

    /// The status as a page for people.
    fn page(&self, now: Nanos, status: &Status) -> String;

    /// The state that the next governor goes on with.
    fn state(&self) -> Value;
}

/// How a worker is employed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Employment {
    /// The worker's name, which is that of its service.
    pub name: String,
    /// The service whose debt the worker pays.
    pub service: Service,
    /// How often an order is said again, because it has a lease.
    pub renews: Option<Nanos>,
    /// Whether each order is one part of the work, and is said again when it is done.
    pub works_in_parts: bool,
    /// How long the worker may take to answer an order.
    pub patience: Nanos,
    /// Whether it is held to the rate of its slice.
    pub keeps_rate: bool,
}

/// A slice that is open.
#[derive(Clone, Copy, Debug)]
struct Open {
    slice: Slice,
    began: Nanos,
    paid_bytes: u64,
    /// The device's time that its worker had taken when it began.
    device: Option<Nanos>,
    wish: Wish,
}

impl Open {
    /// The device's time of a worker that is held to a rate and does not report that time: its share of the time that has passed. A worker
    /// near its rate, or beyond it, was held by the rate and not by the device, which may be faster than assumed. So a sixteenth less is
    /// counted than was assumed, which lets a rate that was once too low rise again.
    fn took_at_rate(&self, elapsed: Nanos) -> Nanos {
        let passed = u128::from(elapsed.0);
        let rate = u128::from(self.slice.bytes_per_second.max(1));
        let at_rate = u128::from(self.paid_bytes) * 1_000_000_000 / rate;
        let counted = if at_rate >= passed / 8 * 7 { at_rate / 16 * 15 } else { passed };
        let whole = u128::from(self.slice.bytes.max(1)) * 1_000_000_000 / rate;
        let took = u128::from(self.slice.device_time.0).saturating_mul(counted) / whole.max(1);
        Nanos(u64::try_from(took).unwrap_or(u64::MAX))
    }
}

/// The governor's wish for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Run,
    Pause,
    End,
}

/// The last order to a worker.
#[derive(Clone, Debug)]
struct Told {
    order: Order,
    at: Nanos,
    /// Since when no order has been answered.
    silent_since: Nanos,
    answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    None,
    Done,
    Failed,
}

/// A worker, as the overseer knows it.
#[derive(Debug)]
struct Post {
    employment: Employment,
    open: Option<Open>,
    told: Option<Told>,
    /// Whether it did not pause, and has to be ended.
    must_end: bool,
    serial: u64,
    position: Position,
    done_bytes: Option<u64>,
    device: Option<Nanos>,
    /// How long slices ran that have paid nothing, since the last that did.
    unpaid: Nanos,
    looked: Option<Nanos>,
    held_until: Nanos,
    failed_in_row: u32,
    status: WorkerStatus,
}

/// The overseer's orders and messages.
#[derive(Debug, Default)]
pub struct Actions {
    /// Orders, each with the number of the worker and its own.
    pub orders: Vec<(usize, u64, Order)>,
    /// The events, in words.
    pub events: Vec<String>,
}

#[derive(Debug)]
pub struct Overseer {
    posts: Vec<Post>,
    /// The last reading of the foreground.
    seen: Reading,
}

impl Overseer {
    /// An overseer of these workers, each where it was left.
    #[must_use]
    pub fn new(workers: Vec<(Employment, Position)>) -> Self {
        let post = |(employment, position): (Employment, Position)| Post {
            // Work that goes on elsewhere is somewhere.
            done_bytes: (employment.works_in_parts || !position.is_begun).then_some(position.offset_bytes),
            status: WorkerStatus { name: employment.name.clone(), ..WorkerStatus::default() },
            employment,
            open: None,
            told: None,
            must_end: false,
            serial: 0,
            position,
            device: None,
            unpaid: Nanos::ZERO,
            looked: None,
            held_until: Nanos::ZERO,
            failed_in_row: 0,
        };
        Self { posts: workers.into_iter().map(post).collect(), seen: Reading::default() }
    }

    #[must_use]
    pub fn status(&self) -> Vec<WorkerStatus> {
        let of = |post: &Post| WorkerStatus { is_running: post.is_running(), ..post.status.clone() };
        self.posts.iter().map(of).collect()
    }

    /// The last reading of the foreground.
    #[must_use]
    pub const fn seen(&self) -> &Reading {
        &self.seen
    }

    /// Where each worker is, by name.
    #[must_use]
    pub fn positions(&self) -> BTreeMap<String, Position> {
        self.posts.iter().map(|post| (post.employment.name.clone(), post.position)).collect()
    }

    /// Goes back to an earlier time of the governor, which forgets its slices; their workers rest unless there are others.
    pub fn set_back(&mut self, now: Nanos, governor: &mut dyn Governor) {
        self.posts.iter_mut().for_each(|post| post.open = None);
        governor.set_back(now);
    }

    /// The bytes that workers do in a second, together: `None` if one of them runs and does not report its rate.
    #[must_use]
    pub fn workers_bytes(&self) -> Option<f64> {
        self.posts
            .iter()
            .filter(|post| post.is_busy())
            .try_fold(0.0, |sum, post| Some(sum + post.status.bytes_per_second?))
    }

    /// Takes a reading of the foreground.
    pub fn see(&mut self, now: Nanos, span: Nanos, reading: Reading, governor: &mut dyn Governor) {
        self.seen = reading;
        governor.sample(now, span, &reading);
    }

    /// Takes a worker's answer. `now` is the governor's time.
    pub fn hear(
        &mut self,
        moment: Moment,
        now: Nanos,
        report: Report,
        governor: &mut dyn Governor,
        actions: &mut Actions,
    ) {
        let Some(post) = self.posts.get_mut(report.worker) else { return };
        post.position = report.position;
        let mut failure = None;
        if let Some((serial, result)) = report.answer
            && serial == post.serial
        {
            failure = result.err();
            post.answered(failure.is_none());
        }
        match report.progress {
            Ok(progress) => {
                let why = progress.unreserved.as_ref().filter(|why| post.status.unreserved.as_ref() != Some(why));
                let said = why.map(|why| format!("{}: runs without its reservation: {why}", post.employment.name));
                actions.events.extend(said);
                post.count(moment.steady, &progress, now, governor);
            }
            Err(error) => failure = failure.or(Some(error)),
        }
        match failure {
            Some(error) => post.fail(moment.steady, now, error.0, governor, actions),
            None => post.recover(actions),
        }
        post.close_stopped(moment.steady, now, governor);
    }

    /// Asks the governor what to do, and says what follows from it. Returns when to ask again, in the governor's time.
    pub fn turn(&mut self, moment: Moment, now: Nanos, governor: &mut dyn Governor, actions: &mut Actions) -> Nanos {
        let mut wake = Nanos::NEVER;
        for _ in 0..STEPS_MAX {
            match governor.poll(now) {
                Step::Run(slice) => self.open(moment.steady, now, slice, governor),
                Step::Pause(tag) => self.wish(tag, Wish::Pause),
                Step::End(tag) => self.overran(tag, actions),
                Step::WaitUntil(until) => {
                    wake = until;
                    break;
                }
            }
            for post in &mut self.posts {
                post.close_stopped(moment.steady, now, governor);
            }
        }
        for (number, post) in self.posts.iter_mut().enumerate() {
            if let Some(order) = post.order(moment.steady) {
                post.serial += 1;
                let unanswered = post.told.as_ref().filter(|told| told.answer == Answer::None);
                let silent_since = unanswered.map_or(moment.steady, |told| told.silent_since);
                actions.orders.push((number, post.serial, order.clone()));
                post.told = Some(Told { order, at: moment.steady, silent_since, answer: Answer::None });
            }
            post.complain(moment.steady, actions);
        }
        wake
    }

    fn open(&mut self, steady: Nanos, now: Nanos, slice: Slice, governor: &mut dyn Governor) {
        let post = self.posts.iter_mut().find(|post| post.employment.service == slice.service);
        match post {
            Some(post) if post.open.is_none() => {
                post.open = Some(Open { slice, began: steady, paid_bytes: 0, device: post.device, wish: Wish::Run });
            }
            // One slice at a time; a service without a worker is refused when the file is read.
            _ => governor.complete(now, slice.tag, 0, Nanos::ZERO),
        }
    }

    fn post_of(&mut self, tag: SliceTag) -> Option<&mut Post> {
        self.posts.iter_mut().find(|post| post.open.is_some_and(|open| open.slice.tag == tag))
    }

    fn wish(&mut self, tag: SliceTag, wish: Wish) {
        if let Some(open) = self.post_of(tag).and_then(|post| post.open.as_mut()) {
            open.wish = wish;
        }
    }

    fn overran(&mut self, tag: SliceTag, actions: &mut Actions) {
        self.wish(tag, Wish::End);
        if let Some(post) = self.post_of(tag) {
            post.status.overruns += 1;
            actions.events.push(format!("{}: did not pause in time, and is ended", post.employment.name));
        }
    }
}

impl Post {
    /// Whether it has a slice that it may work on.
    fn is_running(&self) -> bool {
        self.open.is_some_and(|open| open.wish == Wish::Run)
    }

    /// Whether the worker may be at work.
    fn is_busy(&self) -> bool {
        self.told.as_ref().is_some_and(|told| told.answer != Answer::Done || matches!(told.order, Order::Run(_)))
    }

    /// Whether the worker is known to rest.
    fn has_stopped(&self) -> bool {
        self.told.as_ref().is_none_or(|told| told.answer == Answer::Done && !matches!(told.order, Order::Run(_)))
    }

    /// Whether the worker was told to run, and has answered.
    fn has_begun(&self) -> bool {
        self.told.as_ref().is_some_and(|told| told.answer == Answer::Done && matches!(told.order, Order::Run(_)))
    }

    fn answered(&mut self, is_done: bool) {
        let Some(told) = &mut self.told else { return };
        told.answer = if is_done { Answer::Done } else { Answer::Failed };
        match (&told.order, is_done) {
            (Order::Pause, false) => self.must_end = true,
            (Order::End, true) => self.must_end = false,
            _ => {}
        }
    }

    /// Counts the worker's progress since it was last asked.
    fn count(&mut self, steady: Nanos, progress: &Progress, now: Nanos, governor: &mut dyn Governor) {
        if let Some(done) = progress.done_bytes {
            let more = match self.done_bytes {
                // The work was begun anew.
                Some(before) if done < before => done,
                Some(before) => done - before,
                None => 0,
            };
            let seconds = self.looked.map(|looked| steady.since(looked).as_seconds()).filter(|seconds| *seconds > 0.0);
            self.status.bytes_per_second = seconds.map(|seconds| more as f64 / seconds);
            self.status.paid_bytes += more;
            self.done_bytes = Some(done);
            if let Some(open) = &mut self.open {
                open.paid_bytes += more;
            }
        } else {
            self.status.bytes_per_second = None;
        }
        self.status.unreserved.clone_from(&progress.unreserved);
        self.looked = Some(steady);
        self.device = progress.device.or(self.device);
        self.status.owed_bytes = progress.owed_bytes;
        self.status.note.clone_from(&progress.note);
        let service = self.employment.service;
        if progress.is_finished && self.has_begun() {
            self.close(steady, now, governor);
            governor.owes(now, service, 0);
            return;
        }
        if let Some(owed) = progress.owed_bytes {
            governor.owes(now, service, owed.saturating_add(self.open.map_or(0, |open| open.paid_bytes)));
        }
        if self.open.is_some_and(|open| open.paid_bytes >= open.slice.bytes) {
            self.close(steady, now, governor);
        }
    }

    /// Completes the worker's slice.
    fn close(&mut self, steady: Nanos, now: Nanos, governor: &mut dyn Governor) {
        let Some(open) = self.open.take() else { return };
        let elapsed = steady.since(open.began);
        let took = match (self.device, open.device) {
            (Some(device), Some(before)) => device.since(before),
            // Progress that is seen in steps is paid in the slices before it, too.
            _ if self.employment.keeps_rate && open.paid_bytes == 0 => {
                self.unpaid = self.unpaid.after(elapsed);
                Nanos::ZERO
            }
            _ if self.employment.keeps_rate => open.took_at_rate(elapsed.after(std::mem::take(&mut self.unpaid))),
            // A worker that does not report the device's time has had the device all the time.
            _ => elapsed,
        };
        governor.complete(now, open.slice.tag, open.paid_bytes, took);
    }

    /// Completes the slice of a worker that was to stop, and has.
    fn close_stopped(&mut self, steady: Nanos, now: Nanos, governor: &mut dyn Governor) {
        if self.open.is_some_and(|open| open.wish != Wish::Run) && self.has_stopped() {
            self.close(steady, now, governor);
        }
    }

    fn fail(&mut self, steady: Nanos, now: Nanos, problem: String, governor: &mut dyn Governor, actions: &mut Actions) {
        self.status.failures += 1;
        self.failed_in_row = self.failed_in_row.saturating_add(1);
        let doubled = BACK_OFF.0.saturating_mul(1 << self.failed_in_row.saturating_sub(1).min(16));
        self.held_until = steady.after(Nanos(doubled).min(BACK_OFF_MAX));
        if self.status.problem.as_ref() != Some(&problem) {
            actions.events.push(format!("{}: {problem}", self.employment.name));
        }
        self.status.problem = Some(problem);
        // A worker that failed to begin has nothing to stop; one that fails to stop keeps its slice until it does.
        if self.told.as_ref().is_none_or(|told| matches!(told.order, Order::Run(_))) {
            self.close(steady, now, governor);
        }
    }

    fn recover(&mut self, actions: &mut Actions) {
        if self.status.problem.is_some() && self.has_begun() {
            actions.events.push(format!("{}: runs again", self.employment.name));
            (self.status.problem, self.failed_in_row) = (None, 0);
        }
    }

    /// The order to give now, if any.
    fn order(&self, steady: Nanos) -> Option<Order> {
        let wanted = match &self.open {
            _ if self.must_end => Order::End,
            Some(Open { wish: Wish::End, .. }) => Order::End,
            Some(open @ Open { wish: Wish::Run, .. }) if steady >= self.held_until => Order::Run(task(open)),
            _ => Order::Pause,
        };
        let Some(told) = &self.told else { return Some(wanted) };
        let is_due = self.employment.renews.is_some_and(|renews| steady.since(told.at) >= renews);
        let is_same = match (&told.order, &wanted) {
            (Order::Run(before), Order::Run(after)) => before.has_rates_of(after),
            (before, after) => before == after,
        };
        let has_more = self.employment.works_in_parts && matches!(wanted, Order::Run(_));
        let is_again = match told.answer {
            // The thread has the last order; another one waits behind it.
            Answer::None => false,
            Answer::Done => is_due || has_more,
            Answer::Failed => steady >= self.held_until,
        };
        if is_same && !is_again { None } else { Some(wanted) }
    }

    /// Says that an order has not been answered in time, once.
    fn complain(&mut self, steady: Nanos, actions: &mut Actions) {
        let Some(Told { silent_since, answer: Answer::None, .. }) = &self.told else { return };
        let problem = "its worker does not answer";
        if steady.since(*silent_since) > self.employment.patience && self.status.problem.as_deref() != Some(problem) {
            actions.events.push(format!("{}: {problem}", self.employment.name));
            self.status.problem = Some(problem.into());
        }
    }
}

/// The task of a slice.
fn task(open: &Open) -> Task {
    let bytes = open.slice.bytes.saturating_sub(open.paid_bytes).max(1);
    let Slice { bytes_per_second, reservation_bytes_per_second: reserved, is_idle_class, is_behind, .. } = open.slice;
    Task {
        bytes,
        bytes_per_second_max: (!is_idle_class).then_some(bytes_per_second),
        reservation_bytes_per_second: (reserved > 0).then_some(reserved),
        is_behind,
    }
}
