//! The rings of one client, from which its session takes requests and to which it gives answers.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::mpsc::Sender;

use vm_memory::{Bytes as _, GuestAddress};

use super::chain::{Asked, BadChain, Chain, Segment};
use super::config::{NAME_BYTES, QUEUES_MAX};
use super::memory::Memory;
use super::ring::{OUTSIDE, Ring, RingPlan};
use crate::nbd::{Command, NbdError, Request};
use crate::slots::Slots;

/// The most requests that are taken in one turn of the engine, so that a guest which offers ever more does not keep others waiting.
const TAKEN_MAX: u32 = 256;

/// The status of an answer.
const OK: u8 = 0;
const FAILED: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// An order to the engine, from the thread that talks to a monitor.
#[derive(Debug)]
pub struct Order(pub(super) Wish, pub(super) Answer);

/// The sender for the answer to an order: the index of the next request of a stopped ring, else zero.
pub(super) type Answer = Sender<Result<u16, String>>;

#[derive(Debug)]
pub(super) enum Wish {
    /// Use this memory.
    Memory(Memory),
    /// Serve a ring.
    Start(Box<RingPlan>),
    /// Notify the guest of answers by this descriptor, or not at all.
    Call(u16, Option<OwnedFd>),
    /// Take requests from a ring, or do not.
    Enable(u16, bool),
    /// Take no more requests from a ring; the answer follows once all taken ones are answered.
    Stop(u16),
    /// Disconnect the client, because the monitor has left or for this reason.
    End(Option<String>),
}

/// The session's task after an order.
#[derive(Debug)]
pub(crate) enum Effect {
    /// There is nothing to do.
    None,
    /// Look for requests in the rings.
    Look,
    /// Wait for kicks of the ring of this number.
    Started(usize),
    /// Stop waiting for this descriptor.
    Stopped(OwnedFd),
    /// Disconnect the client, for this reason unless it has left.
    Ended(Option<String>),
}

/// A request that was taken from a ring.
#[derive(Debug)]
struct Ticket {
    ring: u16,
    head: u16,
    data: Vec<Segment>,
    status: GuestAddress,
    is_known: bool,
    /// The bytes that are written to the guest if the request succeeds.
    reads: u32,
}

/// The rings of a client.
#[derive(Debug)]
pub struct Rings {
    name: [u8; NAME_BYTES],
    memory: Option<Memory>,
    rings: Vec<Option<Ring>>,
    tickets: Slots<Ticket>,
    /// Stops that wait for the last answers.
    stops: Vec<(u16, Answer)>,
    /// The ring from which requests are taken first, so that each has its turn.
    first: usize,
    /// The turn of the engine in which requests were last taken, and their number.
    turn: (u64, u32),
    /// The connection to the monitor, which ends with the rings.
    socket: OwnedFd,
}

impl Drop for Rings {
    fn drop(&mut self) {
        // This ends the thread that reads the socket. It fails if the socket is closed already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

impl Rings {
    pub(super) fn new(name: [u8; NAME_BYTES], socket: OwnedFd) -> Self {
        let rings = std::iter::repeat_with(|| None).take(usize::from(QUEUES_MAX)).collect();
        Self { name, memory: None, rings, tickets: Slots::default(), stops: Vec::new(), first: 0, turn: (0, 0), socket }
    }

    /// Carries out an order.
    pub(crate) fn carry_out(&mut self, Order(wish, answer): Order) -> Effect {
        let done = |effect| (Ok(0), effect);
        let failed = |what: &str| (Err(what.to_string()), Effect::Ended(Some(what.to_string())));
        let (result, effect) = match wish {
            Wish::Memory(memory) => {
                let all_lie_in_it = self.rings.iter().flatten().all(|ring| ring.lies_in(&memory));
                self.memory = Some(memory);
                if all_lie_in_it { done(Effect::None) } else { failed(OUTSIDE) }
            }
            Wish::Start(plan) => self.start(*plan),
            Wish::Call(number, call) => {
                if let Some(ring) = self.ring(number) {
                    ring.call = call;
                    ring.notify();
                }
                done(Effect::None)
            }
            Wish::Enable(number, is_enabled) => {
                if let Some(ring) = self.ring(number) {
                    ring.is_enabled = is_enabled;
                }
                done(Effect::Look)
            }
            Wish::Stop(number) => {
                if let Some(ring) = self.ring(number) {
                    ring.is_stopping = true;
                    self.stops.push((number, answer));
                    return Effect::Look;
                }
                done(Effect::None)
            }
            Wish::End(why) => done(Effect::Ended(why)),
        };
        // The thread may have ended meanwhile.
        let _ = answer.send(result);
        effect
    }

    fn ring(&mut self, number: u16) -> Option<&mut Ring> {
        self.rings.get_mut(usize::from(number)).and_then(Option::as_mut)
    }

    fn start(&mut self, plan: RingPlan) -> (Result<u16, String>, Effect) {
        let number = usize::from(plan.number);
        let started = match &self.memory {
            _ if self.rings.get(number).is_none_or(Option::is_some) => Err("the ring is served already".to_string()),
            Some(memory) => Ring::start(plan, memory),
            None => Err("there is no memory yet".to_string()),
        };
        match started {
            Ok(ring) => {
                ring.notify();
                self.rings[number] = Some(ring);
                (Ok(0), Effect::Started(number))
            }
            Err(what) => (Err(what.clone()), Effect::Ended(Some(what))),
        }
    }

    /// Ends a ring that is to stop and has no requests in flight. The caller must then stop waiting for its kick.
    pub(crate) fn next_stopped(&mut self) -> Option<Effect> {
        let is_idle = |(number, _): &(u16, Answer)| {
            self.rings[usize::from(*number)].as_ref().is_none_or(|ring| ring.in_flight == 0)
        };
        let at = self.stops.iter().position(is_idle)?;
        let (number, answer) = self.stops.swap_remove(at);
        let ring = self.rings[usize::from(number)].take();
        // The thread may have ended meanwhile.
        let _ = answer.send(Ok(ring.as_ref().map_or(0, Ring::base)));
        Some(ring.map_or(Effect::None, |ring| Effect::Stopped(ring.into_kick())))
    }

    /// The descriptor that becomes readable when the guest has offered requests in a ring.
    pub(crate) fn kick(&self, number: usize) -> Option<BorrowedFd<'_>> {
        self.rings.get(number).and_then(Option::as_ref).map(Ring::kick)
    }

    /// The descriptors that become readable when the guest has offered requests, of all rings.
    pub(crate) fn kicks(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().flatten().map(Ring::kick)
    }

    /// Whether there are requests that can be taken.
    pub(crate) fn has_more(&self) -> bool {
        let Some(memory) = &self.memory else { return false };
        self.rings.iter().flatten().any(|ring| ring.has_more(memory))
    }

    /// Whether there are answers of which the guest was not notified.
    pub(crate) fn has_answers(&self) -> bool {
        self.rings.iter().flatten().any(|ring| ring.has_answers)
    }

    /// Whether the client has given as many requests as it may in this turn of the engine.
    pub(crate) const fn is_sated(&self, turn: u64) -> bool {
        self.turn.0 == turn && self.turn.1 >= TAKEN_MAX
    }

    /// The next request for the export. Other requests are answered here.
    pub(crate) fn next(&mut self, turn: u64) -> Result<Option<Request>, BadChain> {
        if self.turn.0 != turn {
            self.turn = (turn, 0);
        }
        let Some(memory) = self.memory.clone() else { return Ok(None) };
        if memory.is_lost() || self.rings.iter().flatten().any(Ring::is_lost) {
            return Err(BadChain::Lost);
        }
        let (first, count) = (self.first, self.rings.len());
        for at in (0..count).map(|at| (first + at) % count) {
            while !self.is_sated(turn)
                && let Some(ring) = &mut self.rings[at]
                && let Some((head, chain)) = ring.next(&memory)?
            {
                self.turn.1 += 1;
                if let Some(request) = self.take(&memory, at as u16, head, chain)? {
                    self.first = (at + 1) % count;
                    return Ok(Some(request));
                }
            }
        }
        Ok(None)
    }

    fn take(
        &mut self,
        memory: &Memory,
        ring: u16,
        head: u16,
        Chain { asked, data, status }: Chain,
    ) -> Result<Option<Request>, BadChain> {
        let mut ticket = Ticket { ring, head, data, status, is_known: true, reads: 0 };
        match asked {
            Asked::Of(request) => {
                ticket.is_known = !matches!(request.command, Command::Unknown(_));
                ticket.reads = if request.command == Command::Read { request.length as u32 } else { 0 };
                return Ok(Some(Request { cookie: u64::from(self.tickets.insert(ticket)), ..request }));
            }
            Asked::Name => {
                let length: u32 = ticket.data.iter().map(|(_, length)| length).sum();
                let name = &self.name[..NAME_BYTES.min(length as usize)];
                ticket.reads = name.len() as u32;
                copy(&ticket.data, 0, name.len(), |address, range| memory.write(&self.name[range], address))?;
                self.end(memory, &ticket, OK)?;
            }
            Asked::Nothing => self.end(memory, &ticket, FAILED)?,
        }
        Ok(None)
    }

    /// Reads data of a write, `at` bytes from its beginning.
    pub(crate) fn pull(&self, cookie: u64, at: u64, bytes: &mut [u8]) -> Result<(), BadChain> {
        let (Some(memory), Some(ticket)) = (&self.memory, self.tickets.get(cookie as u32)) else { return Ok(()) };
        copy(&ticket.data, at, bytes.len(), |address, range| memory.table().read_slice(&mut bytes[range], address))
    }

    /// Writes data of a read, `at` bytes from its beginning.
    pub(crate) fn put(&self, cookie: u64, at: u64, bytes: &[u8]) -> Result<(), BadChain> {
        let (Some(memory), Some(ticket)) = (&self.memory, self.tickets.get(cookie as u32)) else { return Ok(()) };
        copy(&ticket.data, at, bytes.len(), |address, range| memory.write(&bytes[range], address))
    }

    /// Answers a request.
    pub(crate) fn finish(&mut self, cookie: u64, error: Option<NbdError>) -> Result<(), BadChain> {
        let Some(ticket) = self.tickets.remove(cookie as u32) else { return Ok(()) };
        let Some(memory) = self.memory.clone() else { return Ok(()) };
        let status = match error {
            None => OK,
            Some(NbdError::NotSupported) => UNSUPPORTED,
            Some(_) if !ticket.is_known => UNSUPPORTED,
            Some(_) => FAILED,
        };
        self.end(&memory, &ticket, status)
    }

    fn end(&mut self, memory: &Memory, ticket: &Ticket, status: u8) -> Result<(), BadChain> {
        memory.write(&[status], ticket.status).map_err(|_| BadChain::Address)?;
        let written = if status == OK { ticket.reads.saturating_add(1) } else { 1 };
        self.ring(ticket.ring).map_or(Ok(()), |ring| ring.answer(memory, ticket.head, written))
    }

    /// Notifies the guest of answers.
    pub(crate) fn signal(&mut self) -> Result<(), BadChain> {
        let Some(memory) = &self.memory else { return Ok(()) };
        if memory.is_lost() {
            return Err(BadChain::Lost);
        }
        self.rings.iter_mut().flatten().try_for_each(|ring| ring.signal(memory))
    }
}

/// Copies `length` bytes, `at` bytes from the beginning of the segments.
fn copy(
    segments: &[Segment],
    at: u64,
    length: usize,
    mut copy: impl FnMut(GuestAddress, std::ops::Range<usize>) -> Result<(), vm_memory::GuestMemoryError>,
) -> Result<(), BadChain> {
    let (mut skip, mut done) = (at, 0);
    for &(address, bytes) in segments {
        let bytes = u64::from(bytes);
        if skip >= bytes {
            skip -= bytes;
            continue;
        }
        let taken = (bytes - skip).min((length - done) as u64) as usize;
        copy(GuestAddress(address.0 + skip), done..done + taken).map_err(|_| BadChain::Address)?;
        (skip, done) = (0, done + taken);
        if done == length {
            break;
        }
    }
    Ok(())
}
