//! The connection of a client that has agreed on an export: its descriptors, bytes that are read but not decoded, and
//! replies that its socket has not accepted yet.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ioweir_core::{Nanos, StreamId};
use rustix::event::epoll::EventFlags;

use super::super::command::Timeouts;
use super::outbox::Outbox;
use crate::backend::EXTENTS_MAX;
use crate::buffer::Buffer;
use crate::log::{EventKind, Peer};
use crate::nbd::{Agreed, BadRequest, Decoder, Event, Request};
use crate::spec::Identity;
use crate::stream::Stream;
use crate::tls::{self, Session};
use crate::vhost::Rings;

/// The number of bytes read from a socket in one call.
const CHUNK_BYTES: usize = 256 << 10;
const _: () = assert!(CHUNK_BYTES >= tls::RECEIVED_BYTES_MAX, "a chunk holds what one call can decrypt");
/// If at least this much data of a write is missing, it is read directly into the write's buffer.
const DIRECT_BYTES_MIN: usize = 16 << 10;
/// If a client has this many bytes of heads of replies unread, extents that it waits for included, no more of its requests are
/// accepted.
const HEADS_MAX: usize = 256 << 10;
/// The longest list of extents in a reply.
const EXTENTS_BYTES_MAX: usize = 16 * EXTENTS_MAX + 64;
/// The most requests that a client may have in flight; more wait in its socket.
const REQUESTS_MAX: u32 = 256;

/// A client after its negotiation, as the front hands it over.
#[derive(Debug)]
pub struct Client {
    /// The stream of requests.
    pub input: Stream,
    /// The stream of replies, if it is not the same.
    pub output: Option<Stream>,
    /// The TLS session, if there is one.
    pub session: Option<Box<Session>>,
    /// The rings of a virtual machine, which carry its requests and answers. All other fields are then about the connection to its monitor,
    /// from which nothing is read.
    pub rings: Option<Box<Rings>>,
    /// The outcome of the negotiation.
    pub agreed: Agreed,
    /// The class that it belongs to.
    pub class: StreamId,
    /// The client's number, from one on: no two clients of a server ever have the same.
    pub number: u64,
    /// The client, as the system knows it.
    pub peer: Peer,
    /// The names by which the client was admitted.
    pub identity: Identity,
    /// Bytes that the client has already sent after the negotiation.
    pub leftover: Vec<u8>,
    /// Bytes of the negotiation's last answer that have not been sent yet.
    pub unsent: Vec<u8>,
    /// The client's permit, if the number of clients is limited.
    pub permit: Option<Permit>,
}

/// Permission to be a client, counted with others; returned when dropped.
#[derive(Debug)]
pub struct Permit {
    counts: Vec<Arc<AtomicU32>>,
    /// Becomes readable when a permit is returned.
    wake: Arc<OwnedFd>,
}

impl Permit {
    /// A permit of a client that is not counted yet; `wake` becomes readable when the permit is returned.
    #[must_use]
    pub const fn new(wake: Arc<OwnedFd>) -> Self {
        Self { counts: Vec::new(), wake }
    }

    /// Counts the client with others, unless `most` are counted already.
    #[must_use]
    pub fn join(&mut self, others: &Arc<AtomicU32>, most: u32) -> bool {
        let more = |clients: u32| (clients < most).then_some(clients + 1);
        let has_room = others.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        self.counts.extend(has_room.then(|| Arc::clone(others)));
        has_room
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        for count in &self.counts {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        // A full counter wakes the front, too.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

/// The write whose data is being received.
#[derive(Debug)]
pub(super) struct Incoming {
    /// The request, by its slot; `None` if the write was refused and its data is dropped.
    pub(super) request: Option<u32>,
    /// The offset on the export of the missing data.
    pub(super) offset: u64,
    pub(super) left: u32,
    /// The buffer of the sub-request that is being received.
    pub(super) filling: Option<Filling>,
}

#[derive(Debug)]
pub(super) struct Filling {
    pub(super) buffer: Buffer,
    pub(super) filled: usize,
}

impl Filling {
    fn missing(&mut self) -> &mut [u8] {
        &mut self.buffer.bytes_mut()[self.filled..]
    }
}

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Requests are read.
    Open,
    /// Requests in flight are answered, then the connection is closed (NBD's soft disconnect).
    Draining,
    /// The client no longer listens (NBD's hard disconnect).
    Gone,
}

/// The outcome of one read from a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    Bytes,
    Nothing,
    End,
    Broken,
}

/// A client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) input: Stream,
    pub(super) output: Option<Stream>,
    session: Option<Box<Session>>,
    pub(super) rings: Option<Box<Rings>>,
    pub(super) agreed: Agreed,
    /// The stream by which the scheduler knows it.
    pub(super) class: StreamId,
    pub(super) number: u64,
    pub(super) peer: Peer,
    pub(super) identity: Identity,
    /// When the client had agreed on an export.
    pub(super) since: Nanos,
    /// The number of answered requests, and the bytes of those without an error.
    pub(super) done: (u64, u64),
    pub(super) mode: Mode,
    decoder: Decoder,
    chunk: Box<[u8]>,
    /// The range of bytes in the chunk that have not been decoded yet.
    unread: (usize, usize),
    pub(super) incoming: Option<Incoming>,
    /// A decoded request that waits for a buffer.
    pub(super) waiting: Option<Request>,
    /// The number of unanswered requests.
    pub(super) in_flight: u32,
    /// How many of them ask for block status.
    pub(super) queries: u32,
    /// The client's part of [`super::Room::bytes`].
    pub(super) held_bytes: u64,
    pub(super) outbox: Outbox,
    /// The events that epoll reports.
    pub(super) interest: EventFlags,
    /// Whether the socket accepts no more for now.
    pub(super) is_blocked: bool,
    /// Since when its socket accepts less than there is to send, and how many bytes had been sent by then.
    slow_since: Option<(Nanos, u64)>,
    /// Whether it is in the list of connections with something to send.
    pub(super) is_dirty: bool,
    /// When bytes last came in or went out.
    pub(super) moved: Nanos,
    _permit: Option<Permit>,
}

impl Connection {
    pub(super) fn new(client: Client, now: Nanos) -> Self {
        let chunk_bytes = if client.rings.is_some() { 0 } else { CHUNK_BYTES };
        let mut chunk = vec![0; chunk_bytes.max(client.leftover.len())];
        chunk[..client.leftover.len()].copy_from_slice(&client.leftover);
        let mut outbox = Outbox::default();
        if !client.unsent.is_empty() {
            outbox.put(|out| out.extend_from_slice(&client.unsent));
        }
        Self {
            input: client.input,
            output: client.output,
            session: client.session,
            rings: client.rings,
            agreed: client.agreed,
            class: client.class,
            number: client.number,
            peer: client.peer,
            identity: client.identity,
            since: now,
            done: (0, 0),
            mode: Mode::Open,
            decoder: Decoder::new(client.agreed.replies),
            chunk: chunk.into(),
            unread: (0, client.leftover.len()),
            incoming: None,
            waiting: None,
            in_flight: 0,
            queries: 0,
            held_bytes: 0,
            outbox,
            interest: EventFlags::empty(),
            is_blocked: false,
            slow_since: None,
            is_dirty: false,
            moved: now,
            _permit: client.permit,
        }
    }

    /// Sends the outbox as far as the client accepts it, and returns the buffers that were sent.
    pub(super) fn send(&mut self, give: impl FnMut(Buffer)) -> rustix::io::Result<()> {
        let output = self.output.as_ref().unwrap_or(&self.input);
        self.outbox.send(output, self.session.as_deref_mut(), give)
    }

    /// Whether everything was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.outbox.is_empty() && !self.has_unsent_records()
    }

    /// Whether TLS has records to send, with or without replies.
    pub(super) fn has_unsent_records(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.has_unsent())
    }

    /// Whether the client has ended its TLS session and everything before that was decoded.
    pub(super) fn has_ended(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.has_ended()) && !self.has_undecoded()
    }

    /// The client's TLS error, if there was one.
    pub(super) fn tls_failure(&self) -> Option<String> {
        self.session.as_ref().and_then(|session| session.failure()).map(|failure| format!("TLS: {failure}"))
    }

    /// Announces the end of a TLS session.
    pub(super) fn close(&mut self) {
        if let Some(session) = &mut self.session
            && let Ok(output) = self.output.as_ref().unwrap_or(&self.input).descriptor()
        {
            session.close(output);
        }
    }

    pub(super) const fn has_unread(&self) -> bool {
        self.unread.0 < self.unread.1
    }

    /// Whether there is something to decode without reading from the socket.
    pub(super) fn has_undecoded(&self) -> bool {
        self.has_unread() || self.waiting.is_some() || self.rings.as_ref().is_some_and(|rings| rings.has_more())
    }

    /// Whether it has as many requests in flight, or replies unread, as it may.
    fn is_full(&self) -> bool {
        let extents = self.queries as usize * EXTENTS_BYTES_MAX;
        self.in_flight >= REQUESTS_MAX || self.outbox.head_bytes() + extents > HEADS_MAX
    }

    /// The memory for its requests and the heads of its replies.
    pub(super) fn own_bytes(&self) -> usize {
        self.chunk.len() + self.outbox.capacity()
    }

    /// Whether nothing is read from its socket for now.
    pub(super) fn is_paused(&self) -> bool {
        self.mode != Mode::Open || self.rings.is_some() || self.is_full() || self.has_undecoded()
    }

    /// Whether the client has left something unfinished: a request that it began, or replies that it does not read.
    pub(super) fn owes(&self) -> bool {
        let is_awaited = self.mode == Mode::Open && !self.is_paused() && !self.decoder.is_between_requests();
        self.is_blocked || is_awaited
    }

    /// Notes whether its socket has accepted everything there was to send.
    pub(super) fn note_sent(&mut self, now: Nanos, is_blocked: bool) {
        self.is_blocked = is_blocked;
        self.slow_since = is_blocked.then(|| self.slow_since.unwrap_or((now, self.outbox.bytes_sent())));
    }

    /// Begins another span of reading, if the client has read enough in the one that is over.
    pub(super) fn renew(&mut self, now: Nanos, timeouts: &Timeouts) {
        if let Some((since, sent)) = self.slow_since
            && since.after(timeouts.stall) <= now
        {
            let wanted = u128::from(timeouts.reading_bytes_per_second) * u128::from(now.since(since).0) / 1_000_000_000;
            if u128::from(self.outbox.bytes_sent() - sent) >= wanted {
                self.slow_since = Some((now, self.outbox.bytes_sent()));
            }
        }
    }

    /// The time at which the client is disconnected unless bytes move before, and the reason.
    pub(super) fn limit(&self, timeouts: &Timeouts) -> Option<(Nanos, EventKind)> {
        let slow = self.slow_since.map(|(since, _)| since.after(timeouts.stall));
        if let Some(until) = slow.filter(|until| *until < self.moved.after(timeouts.stall)) {
            return Some((until, EventKind::ClientSlow));
        }
        if self.owes() {
            return Some((self.moved.after(timeouts.stall), EventKind::ClientStalled));
        }
        let is_idle = self.mode == Mode::Open && self.in_flight == 0 && timeouts.idle < Nanos::NEVER;
        is_idle.then(|| (self.moved.after(timeouts.idle), EventKind::ClientIdle))
    }

    /// The next decoded request, if the client may have one more in flight.
    ///
    /// # Errors
    /// How the client has broken the protocol, in words.
    pub(super) fn next_request(&mut self, turn: u64) -> Result<Option<Request>, String> {
        if self.is_full() {
            return Ok(None);
        }
        if let Some(request) = self.waiting.take() {
            return Ok(Some(request));
        }
        if let Some(rings) = &mut self.rings {
            return rings.next(turn).map_err(|bad| bad.to_string());
        }
        let mut input = &self.chunk[self.unread.0..self.unread.1];
        let event = self.decoder.next(&mut input).map_err(|BadRequest| "what it sent is no request")?;
        self.unread.0 = self.unread.1 - input.len();
        Ok(match event {
            Some(Event::Request(request)) => Some(request),
            // The data of a write is taken from the chunk before the decoder is called for the next request.
            Some(Event::Payload(_)) | None => None,
        })
    }

    /// Moves data of the incoming write from the chunk to its buffer.
    pub(super) fn fill_from_chunk(&mut self) {
        let Some(incoming) = &mut self.incoming else { return };
        let unread = &self.chunk[self.unread.0..self.unread.1];
        let taken = match &mut incoming.filling {
            Some(filling) => {
                let target = filling.missing();
                let taken = target.len().min(unread.len());
                target[..taken].copy_from_slice(&unread[..taken]);
                filling.filled += taken;
                taken
            }
            None if incoming.request.is_none() => unread.len().min(incoming.left as usize),
            None => 0,
        };
        incoming.left -= taken as u32;
        self.decoder.skip_payload(taken);
        self.unread.0 += taken;
    }

    /// Reads from the socket: missing data directly into its buffer, everything else into the chunk.
    pub(super) fn receive(&mut self) -> Received {
        if self.has_unread() {
            return Received::Nothing;
        }
        let filling = self.incoming.as_mut().and_then(|incoming| incoming.filling.as_mut());
        let target = filling.map_or(&mut [][..], Filling::missing);
        let direct = if target.len() >= DIRECT_BYTES_MIN { target.len() } else { 0 };
        let mut slices = [IoSliceMut::new(&mut target[..direct]), IoSliceMut::new(&mut self.chunk)];
        let slices = if direct > 0 { &mut slices[..] } else { &mut slices[1..] };
        let read = match &mut self.session {
            None => self.input.read(slices),
            Some(session) => {
                let output = self.output.as_ref().unwrap_or(&self.input).descriptor();
                self.input.descriptor().and_then(|input| session.receive(input, output?, slices))
            }
        };
        let read = match read {
            Ok(0) => return Received::End,
            Ok(read) => read,
            Err(rustix::io::Errno::AGAIN) => return Received::Nothing,
            Err(_) => return Received::Broken,
        };
        let direct = direct.min(read);
        if let Some(Incoming { filling: Some(filling), left, .. }) = &mut self.incoming {
            filling.filled += direct;
            *left -= direct as u32;
            self.decoder.skip_payload(direct);
        }
        self.unread = (0, read - direct);
        Received::Bytes
    }
}
