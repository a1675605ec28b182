//! An export of another NBD server as a device: an upstream, over one or several connections, without a thread.
//!
//! The engine's operations become requests, which wait in one line until a connection takes them. When a connection breaks, its unanswered
//! requests return to the line, another connection is made, and they are sent again.
//!
//! # Which requests may be sent again
//!
//! - Unanswered requests: reads, and changes, because the engine has no other operation in flight where something changes. A change that
//!   the upstream had made already is thus made again before anything else happens there.
//! - Answered changes that may be lost. An upstream may die with changes that it had answered and not flushed. They are *kept* in memory
//!   until a flush covers them, and sent again, before anything else, when no connection vouches for them.
//!
//! # The effect of a flush
//!
//! Changes are numbered as they are answered. A connection *vouches* for all changes that were answered, on any connection, since it was
//! agreed on: as long as it exists, the upstream has not died. A flush that it answers covers the changes that had been answered when the
//! flush was sent, if all changes from before the connection were covered already. While one such connection is left, nothing is lost, and
//! it gets the flushes. When the last one breaks, the kept changes are sent again. If none are kept (`unflushed_max = "0B"`), or they
//! cannot be written any more, the changes are *lost*: every further flush fails, which fails the device, until it is opened again.

mod answered;
mod flight;
mod flow;
mod kept;
mod link;
mod open;
mod reach;
mod status;

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use ioweir_core::Nanos;
use rustix::event::epoll::{self, EventFlags};

use super::{Action, Backend, Done, EXTENTS_MAX, Io, Outcome, Remark, RemarkKind, UpstreamStatus};
use crate::nbd::client::{Asked, Terms, put_request};
use crate::nbd::reply::Extent;
use crate::nbd::{Command, NbdError};
use crate::slots::Slots;
use crate::stream::Poller;
use crate::tls;

use flight::{Flight, Op, Payload, Purpose};
use kept::Kept;
use link::{Link, Received};
pub use open::UpstreamPlan;
pub use reach::Reach;

/// The first pause before another try to connect; each failure doubles it.
const PAUSE_FIRST: Nanos = Nanos::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Nanos = Nanos::from_seconds(10);
/// The most requests that one call of a socket sends.
const BATCH: usize = 64;

/// An upstream.
pub struct Upstream {
    plan: UpstreamPlan,
    tls: Option<tls::Client>,
    reach: Box<dyn Reach>,
    poller: Poller,
    ready: Vec<epoll::Event>,
    /// The terms of the first connection, with which all others have to agree.
    terms: Terms,
    links: Vec<Option<Link>>,
    ops: Slots<Op>,
    flights: Slots<Flight>,
    /// Requests that no connection has, in order.
    waiting: VecDeque<u32>,
    serial: u32,
    /// Changes that were answered, and how many of the first of them are durable.
    answered: u64,
    covered: u64,
    /// How often the last connection that vouched has ended.
    deaths: u64,
    kept: Kept,
    /// Whether the kept changes have to be sent again, and the number of requests that do so now.
    repeats: bool,
    repeating: u32,
    /// Whether a flush that covers the kept changes is under way.
    flushes: bool,
    /// Why a change that was answered is lost.
    lost: Option<String>,
    /// The time since which there is no connection.
    down_since: Option<Nanos>,
    /// Whether the upstream has been away for longer than requests wait.
    is_given_up: bool,
    retry_at: Nanos,
    pause: Nanos,
    /// Why the last try to connect failed.
    problem: Option<String>,
    reconnects: u64,
    done: Vec<Done>,
    remarks: Vec<Remark>,
    now: Nanos,
}

impl Upstream {
    fn remark(&mut self, kind: RemarkKind, what: &str) {
        self.remarks.push((kind, format!("upstream {}: {what}", self.plan.name)));
    }

    fn ready_links(&self) -> impl Iterator<Item = (usize, &Link)> {
        let links = self.links.iter().enumerate().filter_map(|(number, link)| Some((number, link.as_ref()?)));
        links.filter(|(_, link)| link.is_ready())
    }

    /// Does everything that can be done now.
    fn advance(&mut self, now: Nanos) -> io::Result<()> {
        self.now = now;
        self.reach.tend(now);
        self.connect();
        loop {
            self.repeat_kept();
            self.assign();
            self.send();
            self.ready.clear();
            self.poller.wait(&mut self.ready, Nanos::ZERO)?;
            let mut has_moved = false;
            for at in 0..self.ready.len() {
                let number = self.ready[at].data.u64() as usize;
                let flags = self.ready[at].flags;
                let is_writable = flags.contains(EventFlags::OUT);
                has_moved |= self.hear(number) || is_writable;
            }
            if !has_moved {
                break;
            }
        }
        self.check_limits();
        Ok(())
    }

    /// Begins a connection, if one is missing and it is time.
    fn connect(&mut self) {
        let is_connecting = self.links.iter().flatten().any(|link| !link.is_ready());
        let Some(number) = self.links.iter().position(Option::is_none) else { return };
        if is_connecting || self.now < self.retry_at {
            return;
        }
        let deadline = self.now.after(self.plan.timeout);
        let connected = self.reach.connect(self.now).and_then(|stream| {
            let link = Link::new(stream, &self.plan.export, self.tls.as_ref(), deadline);
            let added = self.poller.add(&link.stream, number as u64, link.interest);
            added.map(|()| link).map_err(|error| format!("it cannot be waited for: {}", io::Error::from(error)))
        });
        match connected {
            Ok(link) => self.links[number] = Some(link),
            Err(problem) => self.not_connected(problem),
        }
    }

    /// Takes note that a try to connect has failed.
    fn not_connected(&mut self, problem: String) {
        self.retry_at = self.now.after(self.pause);
        self.pause = Nanos(self.pause.0 * 2).min(PAUSE_MAX);
        // A reason is logged once, until there is another.
        if self.problem.as_ref() != Some(&problem) {
            self.remark(RemarkKind::UpstreamRefused, &problem);
        }
        self.problem = Some(problem);
    }

    /// Reads from a connection; returns whether there was anything.
    fn hear(&mut self, number: usize) -> bool {
        let mut has_heard = false;
        loop {
            let Some(link) = self.links.get_mut(number).and_then(Option::as_mut) else { return has_heard };
            let understood = match link.receive() {
                Ok(Received::Nothing) => return has_heard,
                Ok(Received::Bytes(length)) => self.understand(number, length),
                Err(problem) => Err(problem),
            };
            has_heard = true;
            if let Err(problem) = understood {
                self.break_link(number, &problem);
                return true;
            }
        }
    }

    /// Applies the received bytes.
    fn understand(&mut self, number: usize, length: usize) -> Result<(), String> {
        let mut from = 0;
        let Some(link) = &mut self.links[number] else { return Ok(()) };
        if !link.is_ready() {
            from = link.negotiate(length)?;
            if let Some(terms) = link.terms {
                self.agreed(number, terms)?;
            }
        }
        let Some(link) = &mut self.links[number] else { return Ok(()) };
        if !link.is_ready() {
            return Ok(());
        }
        // The chunk is taken out, so that everything else can be used meanwhile.
        let chunk = std::mem::take(&mut link.chunk);
        let mut answers = link.answers.clone();
        let mut input = &chunk[from..length];
        let result = loop {
            let flights = &self.flights;
            let find = |cookie| flight::find(flights, cookie, number);
            match answers.next(&mut input, find) {
                Ok(None) => break Ok(()),
                Ok(Some(answer)) => {
                    if let Err(problem) = self.apply(answer) {
                        break Err(problem);
                    }
                }
                Err(problem) => break Err(problem.to_string()),
            }
        };
        if let Some(link) = &mut self.links[number] {
            (link.chunk, link.answers) = (chunk, answers);
        }
        result
    }

    /// Takes the terms of a connection, which have to be those of the first one.
    fn agreed(&mut self, number: usize, terms: Terms) -> Result<(), String> {
        if self.terms.size_bytes == 0 {
            open::check(&self.plan, &terms)?;
            self.terms = terms;
            if !terms.is_shared() {
                self.links.truncate(1);
            }
            if terms.flushes() {
                // Data that an earlier server wrote without a flush can be read now, and must not vanish with the upstream later. So it is
                // made durable before anything else is asked.
                self.repeating += 1;
                self.ask(Purpose::Repeat, flight::FLUSH, 0, Payload::None);
            }
        } else {
            open::compare(&self.terms, &terms)?;
        }
        if let Some(link) = &mut self.links[number] {
            link.since = self.answered;
        }
        self.problem = None;
        if self.down_since.take().is_some() {
            self.is_given_up = false;
            self.reconnects += 1;
            self.remark(RemarkKind::UpstreamBack, "connected again");
        }
        Ok(())
    }

    /// Puts all requests of an operation into the line.
    fn ask_all(&mut self, number: u32) {
        let Some(op) = self.ops.get_mut(number) else { return };
        let Io { action, offset, length, durable, .. } = op.io;
        let (command, flags, payload) = flight::request_of(&self.terms, action, durable);
        let pieces: Vec<_> = flight::pieces(&self.terms, action, offset, length).collect();
        (op.left, op.begun) = (pieces.len() as u32, None);
        for (offset, length) in pieces {
            self.ask(Purpose::Io(number), Asked { command, offset, length }, flags, payload.clone());
        }
    }

    /// Puts a request into the line.
    fn ask(&mut self, purpose: Purpose, asked: Asked, flags: u16, payload: Payload) {
        let slot = self.flights.insert(Flight::new(purpose, asked, flags, payload));
        self.waiting.push_back(slot);
    }

    /// A connection has ended: its unanswered requests are sent again on another one.
    fn break_link(&mut self, number: usize, why: &str) {
        let Some(link) = self.links[number].take() else { return };
        // Removal fails only if the socket is closed already; else it is closed soon.
        let _ = self.poller.delete(&link.stream);
        if !link.is_ready() || link.terms.is_some_and(|terms| open::compare(&self.terms, &terms).is_err()) {
            return self.not_connected(why.into());
        }
        let its: Vec<u32> =
            self.flights.iter().filter(|(_, its)| its.link == Some(number)).map(|(slot, _)| slot).collect();
        for slot in its.into_iter().rev() {
            if let Some(flight) = self.flights.get_mut(slot) {
                flight.start_again();
            }
            self.waiting.push_front(slot);
        }
        self.retry_at = self.now.after(self.pause);
        self.pause = Nanos(self.pause.0 * 2).min(PAUSE_MAX);
        self.problem = Some(why.into());
        if self.ready_links().next().is_none() {
            self.down_since.get_or_insert(self.now);
        }
        self.remark(RemarkKind::UpstreamBroken, why);
        if !self.ready_links().any(|(_, link)| link.since <= self.covered) {
            self.nobody_vouches();
        }
    }
}

impl Backend for Upstream {
    fn start(&mut self, now: Nanos, io: Io) {
        self.now = now;
        let Io { id, action, length, .. } = io;
        let terms = self.terms;
        let at_once = match action {
            _ if self.is_given_up => Some(Err(NbdError::InputOutput)),
            Action::Flush if self.lost.is_some() => Some(Err(NbdError::InputOutput)),
            // Without flushes, every answered change is durable.
            Action::Flush if !terms.flushes() => Some(Ok(Outcome::Plain)),
            // Discards and read-aheads are hints, which an upstream need not support.
            Action::Trim if !terms.trims() => Some(Ok(Outcome::Plain)),
            Action::Cache if !terms.caches() => Some(Ok(Outcome::Plain)),
            Action::Extents if terms.allocation.is_none() => {
                Some(Ok(Outcome::Extents(vec![Extent { length, state: 0 }])))
            }
            Action::Zero { fast: true, .. } if !terms.zeroes() || !terms.zeroes_fast() => {
                Some(Err(NbdError::NotSupported))
            }
            Action::Serve(_) => Some(Err(NbdError::NotSupported)),
            _ => None,
        };
        if let Some(result) = at_once {
            return self.done.push(Done::new(id, io.buffers, result));
        }
        let number = self.ops.insert(Op::new(io));
        self.ask_all(number);
    }

    fn submit(&mut self) -> io::Result<()> {
        self.assign();
        self.send();
        Ok(())
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        self.advance(now)?;
        done.append(&mut self.done);
        Ok(())
    }

    fn due(&self) -> Nanos {
        let connecting = self.links.iter().flatten().filter(|link| !link.is_ready()).map(|link| link.deadline).min();
        let is_missing = self.links.iter().any(Option::is_none);
        let retry_at = connecting.or(is_missing.then_some(self.retry_at)).unwrap_or(Nanos::NEVER);
        let gives_up = self.down_since.filter(|_| !self.is_given_up);
        let gives_up = gives_up.map_or(Nanos::NEVER, |since| since.after(self.plan.reconnect_limit));
        retry_at.min(gives_up).min(self.reach.due())
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.poller.descriptor()]
    }

    fn size_bytes(&self) -> u64 {
        self.terms.size_bytes
    }

    fn block_bytes_min(&self) -> u32 {
        self.terms.blocks.min
    }

    fn trims(&self) -> bool {
        self.terms.trims()
    }

    /// An upstream that does not claim to be fast at zeroes may write them, and so may one that is to keep the space.
    fn writes_zeroes(&self, keep: bool) -> bool {
        keep || !self.terms.zeroes() || !self.terms.zeroes_fast()
    }

    fn describe(&self) -> String {
        status::describe(&self.plan, &self.terms, self.links.len())
    }

    fn remarks(&mut self) -> Vec<Remark> {
        std::mem::take(&mut self.remarks)
    }

    fn upstream(&self) -> Option<UpstreamStatus> {
        Some(UpstreamStatus {
            name: self.plan.name.clone(),
            connections: self.ready_links().count() as u32, // 16 at most
            reconnects: self.reconnects,
            down_seconds: self.down_since.map(|since| self.now.since(since).as_seconds()),
            kept_bytes: self.kept.bytes(),
            has_lost: self.lost.is_some(),
            problem: self.problem.clone(),
        })
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        for link in self.links.iter_mut().flatten() {
            if let Some(terms) = link.terms
                && link.queue.is_empty()
            {
                let mut farewell = Vec::new();
                let leave = Asked { command: Command::Disconnect, offset: 0, length: 0 };
                put_request(&mut farewell, terms.replies, 0, 0, &leave);
                link.close(&farewell);
            }
        }
    }
}
