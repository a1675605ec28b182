//! What is known of a client that has agreed on an export?

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ioweir_core::{Nanos, StreamId};
use rustix::event::epoll::EventFlags;

use super::outbox::Outbox;
use crate::buffer::Buffer;
use crate::nbd::{Agreed, Decoder, Request};
use crate::tls::{self, Session};

/// What is read from a socket at once.
const CHUNK_BYTES: usize = 256 << 10;
const _: () = assert!(CHUNK_BYTES >= tls::RECEIVED_BYTES_MAX, "what is decrypted at once finds room");
/// Data of which this much is missing is read straight to where it belongs.
const STRAIGHT_BYTES: usize = 16 << 10;
/// Requests that a client may have on their way; more wait in its socket.
pub(super) const REQUESTS_MAX: u32 = 256;
/// Data that a client may have on its way whatever the others hold.
pub(super) const GUARANTEED_BYTES: u64 = 1 << 20;

/// A client after its negotiation, as the front hands it over.
#[derive(Debug)]
pub struct Client {
    /// Where requests come from. Not blocking.
    pub input: OwnedFd,
    /// Where replies go, where that is something else.
    pub output: Option<OwnedFd>,
    /// What makes it secret, where it is.
    pub session: Option<Box<Session>>,
    /// What was agreed upon.
    pub agreed: Agreed,
    /// The class that it belongs to.
    pub class: StreamId,
    /// What it has sent already.
    pub leftover: Vec<u8>,
    /// Bytes of the last answer of the negotiation that were not sent yet.
    pub unsent: Vec<u8>,
    /// Its place among those that the server takes, where somebody counts them.
    pub seat: Option<Seat>,
}

/// A place for a client; free again when this is dropped.
#[derive(Debug)]
pub struct Seat {
    taken: Arc<AtomicU32>,
    /// What becomes readable when a place becomes free.
    wake: Arc<OwnedFd>,
}

impl Seat {
    /// Takes a place, unless `most` are taken.
    #[must_use]
    pub fn take(taken: &Arc<AtomicU32>, most: u32, wake: &Arc<OwnedFd>) -> Option<Self> {
        let more = |seats: u32| (seats < most).then_some(seats + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self { taken: Arc::clone(taken), wake: Arc::clone(wake) })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
        // A full counter is a woken front.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

/// The write whose data is coming in.
#[derive(Debug)]
pub(super) struct Incoming {
    /// None: the write was refused, and its data is dropped.
    pub(super) live: Option<u32>,
    /// Where the data that is missing belongs.
    pub(super) offset: u64,
    pub(super) left: u32,
    /// The part that is being filled.
    pub(super) part: Option<Filling>,
}

#[derive(Debug)]
pub(super) struct Filling {
    pub(super) buffer: Buffer,
    pub(super) filled: usize,
}

/// How a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Requests are read.
    Open,
    /// What was asked is answered, and then it is closed.
    Draining,
    /// Nobody listens any more.
    Gone,
}

/// How much came in.
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
    pub(super) input: OwnedFd,
    pub(super) output: Option<OwnedFd>,
    session: Option<Box<Session>>,
    pub(super) agreed: Agreed,
    /// What the scheduler tells it by.
    pub(super) class: StreamId,
    pub(super) mode: Mode,
    pub(super) decoder: Decoder,
    chunk: Box<[u8]>,
    /// What of the chunk was not looked at yet.
    unread: (usize, usize),
    pub(super) incoming: Option<Incoming>,
    /// A request that finds no room yet.
    pub(super) waiting: Option<Request>,
    pub(super) in_flight: u32,
    pub(super) held_bytes: u64,
    pub(super) outbox: Outbox,
    /// What epoll was told to look for.
    pub(super) interest: EventFlags,
    /// The socket takes no more just now.
    pub(super) is_blocked: bool,
    /// In the list of those with something to send.
    pub(super) is_dirty: bool,
    /// When something last came in or went out.
    pub(super) moved: Nanos,
    _seat: Option<Seat>,
}

impl Connection {
    pub(super) fn new(client: Client, now: Nanos) -> Self {
        let mut chunk = vec![0; CHUNK_BYTES.max(client.leftover.len())];
        chunk[..client.leftover.len()].copy_from_slice(&client.leftover);
        let mut outbox = Outbox::default();
        if !client.unsent.is_empty() {
            outbox.put(|out| out.extend_from_slice(&client.unsent));
        }
        Self {
            input: client.input,
            output: client.output,
            session: client.session,
            agreed: client.agreed,
            class: client.class,
            mode: Mode::Open,
            decoder: Decoder::new(client.agreed.replies),
            chunk: chunk.into(),
            unread: (0, client.leftover.len()),
            incoming: None,
            waiting: None,
            in_flight: 0,
            held_bytes: 0,
            outbox,
            interest: EventFlags::empty(),
            is_blocked: false,
            is_dirty: false,
            moved: now,
            _seat: client.seat,
        }
    }

    /// Sends what is in the outbox as far as the client takes it, and hands back the buffers that were sent.
    pub(super) fn send(&mut self, give: impl FnMut(Buffer)) -> rustix::io::Result<()> {
        let output = self.output.as_ref().unwrap_or(&self.input);
        self.outbox.send(output, self.session.as_deref_mut(), give)
    }

    /// Whether nothing is left to be sent.
    pub(super) fn is_sent(&self) -> bool {
        self.outbox.is_empty() && !self.has_unsent_records()
    }

    /// Whether TLS has something to say, answers or not.
    pub(super) fn has_unsent_records(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.has_unsent())
    }

    /// Whether it has said, by means of TLS, that nothing more will come.
    pub(super) fn has_ended(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.has_ended())
    }

    /// Says that nothing more will come, where there is a way to say it.
    pub(super) fn close(&mut self) {
        if let Some(session) = &mut self.session {
            session.close(self.output.as_ref().unwrap_or(&self.input));
        }
    }

    pub(super) const fn has_unread(&self) -> bool {
        self.unread.0 < self.unread.1
    }

    /// Whether no more requests are taken from it for now.
    pub(super) fn is_paused(&self) -> bool {
        self.mode != Mode::Open
            || self.waiting.is_some()
            || self.in_flight >= REQUESTS_MAX
            || self.outbox.is_overfull()
            || self.has_unread()
    }

    /// Whether it has left something half done, so that it can be too slow.
    pub(super) fn owes(&self) -> bool {
        let is_awaited = self.mode == Mode::Open && !self.is_paused() && !self.decoder.is_between_requests();
        self.is_blocked || is_awaited
    }

    /// The next request in what was read.
    pub(super) fn next_request(&mut self) -> Result<Option<Request>, crate::nbd::BadRequest> {
        let mut input = &self.chunk[self.unread.0..self.unread.1];
        let found = self.decoder.next(&mut input)?;
        self.unread.0 = self.unread.1 - input.len();
        Ok(match found {
            Some(crate::nbd::Event::Request(request)) => Some(request),
            // Data is taken by whoever knows where it belongs before the decoder is asked for the next request.
            Some(crate::nbd::Event::Payload(_)) | None => None,
        })
    }

    /// Moves data of the write that is coming in from what was read to where it belongs.
    pub(super) fn fill_from_chunk(&mut self) {
        let Some(incoming) = &mut self.incoming else { return };
        let unread = &self.chunk[self.unread.0..self.unread.1];
        let taken = match &mut incoming.part {
            Some(filling) => {
                let target = &mut filling.buffer.bytes_mut()[filling.filled..];
                let taken = target.len().min(unread.len());
                target[..taken].copy_from_slice(&unread[..taken]);
                filling.filled += taken;
                taken
            }
            None if incoming.live.is_none() => unread.len().min(incoming.left as usize),
            None => 0,
        };
        incoming.left -= taken as u32;
        self.decoder.skip_payload(taken);
        self.unread.0 += taken;
    }

    /// Reads what the socket has: data straight to where it belongs, and what follows into the chunk.
    pub(super) fn receive(&mut self) -> Received {
        if self.has_unread() {
            return Received::Nothing;
        }
        let mut straight = 0;
        let filling = self.incoming.as_mut().and_then(|incoming| incoming.part.as_mut());
        let read = match filling {
            Some(filling) if filling.buffer.len() - filling.filled >= STRAIGHT_BYTES => {
                let target = &mut filling.buffer.bytes_mut()[filling.filled..];
                straight = target.len();
                let mut slices = [IoSliceMut::new(target), IoSliceMut::new(&mut self.chunk)];
                match &mut self.session {
                    None => rustix::io::retry_on_intr(|| rustix::io::readv(&self.input, &mut slices)),
                    Some(session) => {
                        session.receive(&self.input, self.output.as_ref().unwrap_or(&self.input), &mut slices)
                    }
                }
            }
            _ => match &mut self.session {
                None => rustix::io::retry_on_intr(|| rustix::io::read(&self.input, &mut *self.chunk)),
                Some(session) => {
                    let output = self.output.as_ref().unwrap_or(&self.input);
                    session.receive(&self.input, output, &mut [IoSliceMut::new(&mut self.chunk)])
                }
            },
        };
        let read = match read {
            Ok(0) => return Received::End,
            Ok(read) => read,
            Err(rustix::io::Errno::AGAIN) => return Received::Nothing,
            Err(_) => return Received::Broken,
        };
        let straight = straight.min(read);
        if let Some(incoming) = &mut self.incoming
            && let Some(filling) = &mut incoming.part
            && straight > 0
        {
            filling.filled += straight;
            incoming.left -= straight as u32;
            self.decoder.skip_payload(straight);
        }
        self.unread = (0, read - straight);
        Received::Bytes
    }
}
