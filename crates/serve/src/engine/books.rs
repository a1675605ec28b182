//! What does each class have waiting at this moment, for which reason, and since when? Called at every step of a request.
//!
//! The rule is the simulator's: between two moments at which something happens, everybody who is queued waits for the reason
//! that the scheduler gave after the first of them. Tenant policies give one for each class. Block policies know no classes:
//! what their queue waits for is divided among the classes by the requests that they have queued.

use std::fmt;

use ioweir_core::policy::Policy;
use ioweir_core::tenant::Explanation;
use ioweir_core::{Nanos, Operation, Reason, Scheduler as _, Waiting};

use super::tally::Tally;
use super::{Engine, Live, Part};
use crate::backend::Checksums;
use crate::nbd::NbdError;

/// Up to so many classes that wait, reasons are looked at after every turn. With more, each may take a microsecond from one
/// look to the next, so that looking takes a percent of the time however many there are.
const CLASSES_LOOKED_AT: usize = 8;

/// Somebody asks what an engine does.
pub struct Question {
    /// A clean tally, to go on with.
    pub tally: Box<Tally>,
    /// What takes the answer, in the engine's thread: it must not wait.
    pub reply: Box<dyn FnOnce(Report) + Send>,
}

impl fmt::Debug for Question {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Question")
    }
}

/// What an engine does.
#[derive(Debug)]
pub struct Report {
    /// When it was asked.
    pub now: Nanos,
    /// What it has done since it was last asked.
    pub tally: Box<Tally>,
    /// How things stand, by class. Classes that were never there are missing at the end.
    pub classes: Vec<Standing>,
    /// Units with the backend.
    pub inflight: u32,
    /// What the device has checked since the server began, where it does.
    pub checksums: Option<Checksums>,
}

/// How things stand with a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// Its clients.
    pub connections: u32,
    /// Its requests, or parts of long ones, that were dispatched.
    pub inflight: u32,
    /// Those that were not.
    pub queued: u32,
    /// The length of these.
    pub queued_bytes: u64,
    /// For how long the oldest of them has waited, and why it still does.
    pub oldest: Option<(Nanos, Because)>,
}

/// Why a request waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Because {
    /// As the scheduler explains it.
    Explained(Explanation),
    /// A block policy only counts: this is what most of those who are queued wait for.
    Counted(Reason),
}

/// What its requests wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    For(Reason),
    /// As everybody in the queue does, by numbers.
    Mixed,
}

#[derive(Clone, Debug, Default)]
struct Book {
    connections: u32,
    inflight: u32,
    /// With the scheduler.
    queued: u32,
    /// Outside of it, which is full.
    held: u32,
    queued_bytes: u64,
    is_listed: bool,
    /// Until when waiting is counted.
    until: Nanos,
    /// Waiting that is counted, and not told of its reason yet: nanoseconds times requests.
    unexplained: u64,
    wait: Option<Wait>,
}

/// The engine's books.
#[derive(Default)]
pub(super) struct Books {
    pub(super) tally: Box<Tally>,
    books: Vec<Book>,
    /// Classes with something waiting, or with waiting that is not explained.
    listed: Vec<u32>,
    look_at: Nanos,
    mix: Waiting,
}

impl Books {
    fn of(&mut self, class: u32) -> &mut Book {
        if self.books.len() <= class as usize {
            self.books.resize(class as usize + 1, Book::default());
        }
        &mut self.books[class as usize]
    }

    pub(super) fn connected(&mut self, class: u32) {
        self.of(class).connections += 1;
        self.tally.of(class);
    }

    pub(super) fn disconnected(&mut self, class: u32) {
        self.of(class).connections -= 1;
    }

    /// A part is there, and comes to the scheduler, or to wait for it.
    pub(super) fn arrived(&mut self, now: Nanos, part: &Part, is_held: bool) {
        self.count_wait(now, part.class);
        let book = self.of(part.class);
        book.queued_bytes += u64::from(part.length);
        if is_held {
            book.held += 1;
        } else {
            book.queued += 1;
        }
        if !std::mem::replace(&mut book.is_listed, true) {
            book.wait = None;
            self.listed.push(part.class);
        }
    }

    /// What was held comes to the scheduler.
    pub(super) fn let_in(&mut self, now: Nanos, class: u32) {
        self.count_wait(now, class);
        let book = self.of(class);
        book.held -= 1;
        book.queued += 1;
    }

    /// A part is taken back before it was dispatched.
    pub(super) fn withdrawn(&mut self, now: Nanos, part: &Part) {
        self.count_wait(now, part.class);
        let book = self.of(part.class);
        book.queued_bytes -= u64::from(part.length);
        if part.tag.is_some() {
            book.queued -= 1;
        } else {
            book.held -= 1;
        }
    }

    pub(super) fn dispatched(&mut self, now: Nanos, part: &mut Part) {
        self.count_wait(now, part.class);
        let book = self.of(part.class);
        book.queued_bytes -= u64::from(part.length);
        book.queued -= 1;
        book.inflight += 1;
        part.dispatched = Some(now);
        let queue = now.since(part.arrived);
        self.tally.of(part.class).counts.operations[part.operation as usize].queue.record(queue);
    }

    pub(super) fn completed(&mut self, now: Nanos, part: &Part) {
        let dispatched = part.dispatched.unwrap_or(now);
        self.of(part.class).inflight -= 1;
        let operation = &mut self.tally.of(part.class).counts.operations[part.operation as usize];
        operation.service.record(now.since(dispatched));
    }

    pub(super) fn answered(&mut self, now: Nanos, live: &Live) {
        // What is only asked about a device is no request to it.
        let Some(operation) = live.operation else { return };
        let tally = self.tally.of(live.class);
        // What has no length is answered as it comes.
        let span = now.since(live.arrived.unwrap_or(now));
        tally.latency.saturating_record(span.0);
        let operation = &mut tally.counts.operations[operation as usize];
        operation.request.record(span);
        operation.requests += 1;
        match live.error {
            None => operation.bytes += live.length,
            Some(_) => operation.errors += 1,
        }
    }

    pub(super) fn refused(&mut self, class: u32, error: NbdError) {
        self.tally.of(class).counts.refused[error.place()] += 1;
    }

    /// Adds up the waiting of a class until now; its reason is told later.
    #[inline]
    fn count_wait(&mut self, now: Nanos, class: u32) {
        let book = self.of(class);
        let span = now.since(book.until).0;
        if span == 0 {
            return;
        }
        book.until = now;
        book.unexplained += span * u64::from(book.queued);
        if book.held > 0 {
            let held = span * u64::from(book.held);
            self.tally.of(class).counts.wait_nanos[Reason::QueueFull as usize] += held;
        }
    }

    /// Explains the waiting so far, and looks what it is for from now on. To be called when all that happens at this moment
    /// has happened.
    #[inline]
    pub(super) fn look(&mut self, now: Nanos, scheduler: &Policy) {
        if !self.listed.is_empty() && now >= self.look_at {
            self.look_at_all(now, scheduler);
        }
    }

    pub(super) fn look_at_all(&mut self, now: Nanos, scheduler: &Policy) {
        let mut listed = std::mem::take(&mut self.listed);
        let tenants = scheduler.tenants();
        let wait_of =
            |class: u32| tenants.map_or(Wait::Mixed, |tenants| Wait::For(tenants.reason(ioweir_core::StreamId(class))));
        let mix = if tenants.is_some() { Waiting::default() } else { scheduler.waiting() };
        if self.mix == Waiting::default() {
            self.mix = mix;
        }
        listed.retain(|&class| {
            self.count_wait(now, class);
            let book = self.of(class);
            let unexplained = std::mem::take(&mut book.unexplained);
            let is_waiting = book.queued + book.held > 0;
            book.is_listed = is_waiting;
            let wait = is_waiting.then(|| wait_of(class));
            let until_now = std::mem::replace(&mut book.wait, wait).or(wait);
            if unexplained > 0 {
                let until_now = until_now.unwrap_or_else(|| wait_of(class));
                self.explain(class, unexplained, until_now);
            }
            is_waiting
        });
        self.mix = mix;
        let pause = if listed.len() <= CLASSES_LOOKED_AT { 0 } else { listed.len() as u64 * 1_000 };
        self.look_at = now.after(Nanos(pause));
        self.listed = listed;
    }

    fn explain(&mut self, class: u32, unexplained: u64, wait: Wait) {
        let mix = self.mix;
        let waits = &mut self.tally.of(class).counts.wait_nanos;
        match wait {
            Wait::For(reason) => waits[reason as usize] += unexplained,
            Wait::Mixed => {
                let all: u128 = mix.0.iter().map(|&count| u128::from(count)).sum();
                let mut left = unexplained;
                let mut most = Reason::DeviceFull;
                for reason in Reason::ALL {
                    if mix.count(reason) > mix.count(most) {
                        most = reason;
                    }
                    let part = u128::from(unexplained) * u128::from(mix.count(reason)) / all.max(1);
                    // A part of what is there.
                    waits[reason as usize] += part as u64;
                    left -= part as u64;
                }
                waits[most as usize] += left;
            }
        }
    }
}

impl Engine {
    /// Says what was done since it was last asked, and how things stand.
    pub(super) fn report(&mut self, question: Question) {
        self.books.look_at_all(self.now, &self.scheduler);
        let books = &mut self.books;
        let tally = std::mem::replace(&mut books.tally, question.tally);
        let standing = |book: &Book| Standing {
            connections: book.connections,
            inflight: book.inflight,
            queued: book.queued + book.held,
            queued_bytes: book.queued_bytes,
            oldest: None,
        };
        let mut classes: Vec<Standing> = books.books.iter().map(standing).collect();
        let mut oldest: Vec<Option<&Part>> = vec![None; classes.len()];
        let queued = self.parts.iter().flatten().filter(|part| part.dispatched.is_none());
        for part in queued.chain(self.held.iter().flatten()) {
            let of = &mut oldest[part.class as usize];
            if of.is_none_or(|other| part.arrived < other.arrived) {
                *of = Some(part);
            }
        }
        for (standing, part) in classes.iter_mut().zip(oldest) {
            standing.oldest = part.map(|part| (self.now.since(part.arrived), self.because(part)));
        }
        let inflight = self.units.len() as u32; // at most the depth of a device
        let checksums = self.backend.checksums();
        (question.reply)(Report { now: self.now, tally, classes, inflight, checksums });
    }

    fn because(&self, part: &Part) -> Because {
        let Some(tag) = part.tag else { return Because::Counted(Reason::QueueFull) };
        if let Some(told) = self.scheduler.tenants().and_then(|tenants| tenants.explain(self.now, tag)) {
            return Because::Explained(told);
        }
        let waiting = self.scheduler.waiting();
        let most = Reason::ALL.into_iter().max_by_key(|&reason| waiting.count(reason));
        Because::Counted(most.unwrap_or(Reason::DeviceFull))
    }
}

/// What a command of a client is to the scheduler.
pub(super) const fn operation_of(command: crate::nbd::Command) -> Option<Operation> {
    use crate::nbd::Command;
    match command {
        Command::Read => Some(Operation::Read),
        Command::Write => Some(Operation::Write),
        Command::Flush => Some(Operation::Flush),
        Command::Trim | Command::WriteZeroes => Some(Operation::Discard),
        _ => None,
    }
}
