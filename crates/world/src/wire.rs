//! A simulated socket: two lines of bytes between a client and the server. A seed decides how many bytes each call moves.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::random::Random;
use ioweir_serve::stream::{Socket, Stream};

/// The most bytes of unread replies that a socket holds.
const ROOM_BYTES: usize = 200 << 10;
/// The most bytes that a short call moves.
const SHORT_BYTES_MAX: u64 = 700;

#[derive(Debug)]
struct Wire {
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// The client sends no more, but reads.
    is_half_closed: bool,
    /// The client has reset the connection.
    is_reset: bool,
    /// The server has closed its end.
    is_closed: bool,
    random: Random,
    short_per_million: u32,
}

impl Wire {
    /// The part of `bytes` that one call moves.
    fn share(&mut self, bytes: usize) -> usize {
        if self.random.of_million(self.short_per_million) {
            bytes.min(1 + self.random.below(SHORT_BYTES_MAX) as usize)
        } else {
            bytes
        }
    }
}

/// A simulated socket, as both ends and those who wait for it know it.
#[derive(Clone, Debug)]
pub struct Line(Arc<Mutex<Wire>>);

/// The server's end, which closes the socket when it is dropped.
#[derive(Debug)]
struct End(Line);

impl Line {
    /// A socket whose calls are short this often.
    pub(super) fn new(random: Random, short_per_million: u32) -> Self {
        Self(Arc::new(Mutex::new(Wire {
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            is_half_closed: false,
            is_reset: false,
            is_closed: false,
            random,
            short_per_million,
        })))
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end for the server.
    pub(super) fn stream(&self) -> Stream {
        Stream::Socket(Arc::new(End(self.clone())))
    }

    /// Whether the server has it open.
    pub(crate) fn is_open(&self) -> bool {
        !self.wire().is_closed
    }

    /// The client sends bytes; they are lost if the server has closed it.
    pub(super) fn send(&self, bytes: &[u8]) {
        let mut wire = self.wire();
        if !wire.is_closed {
            wire.to_server.extend(bytes);
        }
    }

    /// The client sends no more.
    pub(super) fn half_close(&self) {
        self.wire().is_half_closed = true;
    }

    /// The client resets the connection, and loses unread bytes.
    pub(super) fn reset(&self) {
        let mut wire = self.wire();
        wire.is_reset = true;
        wire.to_client.clear();
    }

    /// Whether there are bytes that the client has not read.
    pub(super) fn has_unheard(&self) -> bool {
        let wire = self.wire();
        !wire.to_client.is_empty() || wire.is_closed
    }

    /// The client reads all present bytes.
    pub(super) fn hear(&self, into: &mut Vec<u8>) {
        let mut wire = self.wire();
        let (first, second) = wire.to_client.as_slices();
        into.extend_from_slice(first);
        into.extend_from_slice(second);
        wire.to_client.clear();
    }
}

impl Socket for End {
    fn read(&self, slices: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        let mut wire = self.0.wire();
        if wire.is_reset {
            return Err(Errno::CONNRESET);
        }
        if wire.to_server.is_empty() {
            return if wire.is_half_closed { Ok(0) } else { Err(Errno::AGAIN) };
        }
        let asked = slices.iter().map(|slice| slice.len()).sum::<usize>().min(wire.to_server.len());
        let (share, mut done) = (wire.share(asked), 0);
        for slice in slices {
            let taken = slice.len().min(share - done);
            let (first, second) = wire.to_server.as_slices();
            let from_first = taken.min(first.len());
            slice[..from_first].copy_from_slice(&first[..from_first]);
            slice[from_first..taken].copy_from_slice(&second[..taken - from_first]);
            wire.to_server.drain(..taken);
            done += taken;
        }
        Ok(done)
    }

    fn write(&self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut wire = self.0.wire();
        if wire.is_reset {
            return Err(Errno::PIPE);
        }
        let room = ROOM_BYTES.saturating_sub(wire.to_client.len());
        let offered = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if room == 0 && offered > 0 {
            return Err(Errno::AGAIN);
        }
        let (share, mut done) = (wire.share(offered.min(room)), 0);
        for slice in slices {
            let taken = slice.len().min(share - done);
            wire.to_client.extend(&slice[..taken]);
            done += taken;
        }
        Ok(done)
    }

    fn flags(&self) -> EventFlags {
        let wire = self.0.wire();
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, !wire.to_server.is_empty() || wire.is_half_closed || wire.is_reset);
        flags.set(EventFlags::OUT, wire.to_client.len() < ROOM_BYTES || wire.is_reset);
        flags.set(EventFlags::HUP, wire.is_reset);
        flags
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.wire().is_closed = true;
    }
}
