//! A connection to an upstream: its socket, the bytes that are not sent yet, and the bytes that were received.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};

use ioweir_core::Nanos;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::nbd::client::{Answers, Encryption, Handshake, Step, Terms};
use crate::stream::Stream;
use crate::tls::{self, Session};

/// The number of bytes read from a socket in one call.
const CHUNK_BYTES: usize = 256 << 10;
const _: () = assert!(CHUNK_BYTES >= tls::RECEIVED_BYTES_MAX, "a chunk holds what one call can decrypt");

/// A connection.
pub(super) struct Link {
    pub(super) stream: Stream,
    session: Option<Box<Session>>,
    /// The certificates for a connection that is to be encrypted.
    tls: Option<tls::Client>,
    /// `None` once an export is agreed on.
    handshake: Option<Handshake>,
    pub(super) answers: Answers,
    /// The handshake's bytes that are not sent yet.
    words: Vec<u8>,
    /// Requests that are not sent in full, and the bytes of the first that are.
    pub(super) queue: VecDeque<u32>,
    pub(super) sent_bytes: usize,
    /// Requests that are not answered.
    pub(super) in_flight: u32,
    pub(super) chunk: Box<[u8]>,
    /// The number of changes that had been answered, on any connection, when this one was agreed on: it vouches for later ones.
    pub(super) since: u64,
    pub(super) terms: Option<Terms>,
    /// The time at which the connection is given up unless an export is agreed on.
    pub(super) deadline: Nanos,
    pub(super) interest: EventFlags,
}

/// The result of reading from a connection.
pub(super) enum Received {
    Bytes(usize),
    Nothing,
}

impl Link {
    pub(super) fn new(stream: Stream, export: &str, tls: Option<&tls::Client>, deadline: Nanos) -> Self {
        let encryption = if tls.is_some() { Encryption::First } else { Encryption::None };
        Self {
            stream,
            session: None,
            tls: tls.cloned(),
            handshake: Some(Handshake::new(export, encryption)),
            answers: Answers::new(crate::nbd::Replies::Simple, None),
            words: Vec::new(),
            queue: VecDeque::new(),
            sent_bytes: 0,
            in_flight: 0,
            chunk: vec![0; CHUNK_BYTES].into(),
            since: 0,
            terms: None,
            deadline,
            interest: EventFlags::IN,
        }
    }

    pub(super) const fn is_ready(&self) -> bool {
        self.terms.is_some()
    }

    /// Reads from the socket into the chunk.
    pub(super) fn receive(&mut self) -> Result<Received, String> {
        let slices = &mut [IoSliceMut::new(&mut self.chunk)];
        let read = match &mut self.session {
            None => self.stream.read(slices),
            Some(session) => self.stream.descriptor().and_then(|socket| session.receive(socket, socket, slices)),
        };
        match read {
            Ok(0) => Err("it has closed the connection".into()),
            Ok(read) => Ok(Received::Bytes(read)),
            Err(Errno::AGAIN) => Ok(Received::Nothing),
            Err(error) => Err(self.problem(error)),
        }
    }

    fn problem(&self, error: Errno) -> String {
        match self.session.as_ref().and_then(|session| session.failure()) {
            Some(failure) => format!("TLS: {failure}"),
            None => format!("the connection has failed: {}", std::io::Error::from(error)),
        }
    }

    /// Feeds this many bytes of the chunk to the handshake; returns how many of them it has used.
    pub(super) fn negotiate(&mut self, length: usize) -> Result<usize, String> {
        let mut taken = 0;
        while let Some(handshake) = &mut self.handshake {
            let mut input = &self.chunk[taken..length];
            let step = handshake.feed(&mut input, &mut self.words).map_err(|error| error.to_string())?;
            taken = length - input.len();
            match step {
                Step::More => break,
                Step::StartTls => {
                    let Some(client) = &self.tls else { return Err("it encrypts without being asked to".into()) };
                    self.stream.descriptor().map_err(|_| "a simulated connection is not encrypted")?;
                    let session = Session::with_upstream(client).map_err(|_| "TLS cannot begin")?;
                    self.session = Some(Box::new(session));
                    handshake.encrypted(&mut self.words);
                }
                Step::Agreed(terms) => {
                    self.answers = Answers::new(terms.replies, terms.allocation);
                    self.terms = Some(terms);
                    self.handshake = None;
                }
            }
        }
        Ok(taken)
    }

    /// Sends pending bytes of the handshake, and records of TLS.
    pub(super) fn send_words(&mut self) -> Result<(), String> {
        while !self.words.is_empty() {
            match self.write(&[]) {
                Ok(sent) => drop(self.words.drain(..sent)),
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(self.problem(error)),
            }
        }
        if let Some(session) = &mut self.session
            && session.has_unsent()
        {
            match self.stream.descriptor().and_then(|socket| session.flush(socket)) {
                Ok(()) | Err(Errno::AGAIN) => {}
                Err(error) => return Err(self.problem(error)),
            }
        }
        Ok(())
    }

    /// Writes slices, or the words of the handshake if there are none.
    fn write(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let words = [IoSlice::new(&self.words)];
        let slices = if slices.is_empty() { &words } else { slices };
        match &mut self.session {
            None => self.stream.write(slices),
            Some(session) => self.stream.descriptor().and_then(|socket| session.send(socket, slices)),
        }
    }

    /// Sends slices as far as the socket accepts them.
    pub(super) fn send(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, String> {
        match self.write(slices) {
            Ok(sent) => Ok(sent),
            Err(Errno::AGAIN) => Ok(0),
            Err(error) => Err(self.problem(error)),
        }
    }

    /// The events that the connection waits for.
    pub(super) fn wanted(&self) -> EventFlags {
        let has_unsent = self.session.as_ref().is_some_and(|session| session.has_unsent());
        let is_blocked = !self.words.is_empty() || !self.queue.is_empty() || has_unsent;
        if is_blocked { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
    }

    /// Sends the farewell, as far as the socket accepts it.
    pub(super) fn close(&mut self, farewell: &[u8]) {
        // An upstream that does not listen needs no farewell.
        let _ = self.write(&[IoSlice::new(farewell)]);
        if let (Some(session), Ok(socket)) = (&mut self.session, self.stream.descriptor()) {
            session.close(socket);
        }
    }
}
