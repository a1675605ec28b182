//! Replies that a client has not accepted yet: heads and data, sent with one system call for each wake-up.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::buffer::Buffer;
use crate::stream::Stream;
use crate::tls::Session;

/// The most slices that one call sends.
const SLICES: usize = 128;

/// Heads that are sent are dropped together, once they have this many bytes.
const HEADS_SENT_MAX: usize = 64 << 10;

#[derive(Debug)]
enum Item {
    /// This many bytes of `heads`.
    Head(usize),
    Data(Buffer),
}

/// Replies that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Heads, one after another; those of replies without data are adjacent and sent as one piece.
    heads: Vec<u8>,
    heads_sent: usize,
    items: VecDeque<Item>,
    /// The number of bytes of the first item that were sent.
    sent: usize,
    /// The number of bytes that were ever sent.
    bytes_sent: u64,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) const fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    /// The bytes of heads that are not sent.
    pub(super) const fn head_bytes(&self) -> usize {
        self.heads.len() - self.heads_sent
    }

    /// The memory for heads.
    pub(super) const fn capacity(&self) -> usize {
        self.heads.capacity()
    }

    /// Adds the head of a reply.
    pub(super) fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.heads_sent >= HEADS_SENT_MAX {
            self.heads.drain(..std::mem::take(&mut self.heads_sent));
        }
        let before = self.heads.len();
        write(&mut self.heads);
        let length = self.heads.len() - before;
        match self.items.back_mut() {
            Some(Item::Head(last)) => *last += length,
            _ => self.items.push_back(Item::Head(length)),
        }
    }

    /// Adds data after the last head.
    pub(super) fn put_data(&mut self, buffer: Buffer) {
        if !buffer.is_empty() {
            self.items.push_back(Item::Data(buffer));
        }
    }

    /// Sends as much as the client accepts, and returns the buffers that were sent.
    pub(super) fn send(
        &mut self,
        to: &Stream,
        mut session: Option<&mut Session>,
        mut give: impl FnMut(Buffer),
    ) -> rustix::io::Result<()> {
        while !self.items.is_empty() {
            let (offered, sent) = self.send_slices(to, session.as_deref_mut())?;
            self.advance(sent, &mut give);
            // A TLS session accepts less in one call than a socket does.
            if sent < offered && session.is_none() {
                return Err(rustix::io::Errno::AGAIN);
            }
        }
        self.heads.clear();
        self.heads_sent = 0;
        session.map_or(Ok(()), |session| session.flush(to.descriptor()?))
    }

    fn send_slices(&self, to: &Stream, session: Option<&mut Session>) -> rustix::io::Result<(usize, usize)> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let (mut head, mut skip, mut offered) = (self.heads_sent, self.sent, 0);
        let mut used = 0;
        for (slice, item) in slices.iter_mut().zip(&self.items) {
            let bytes = match item {
                Item::Head(length) => {
                    // Bytes of the first item that were sent are in `sent`, not in `heads_sent`.
                    let bytes = &self.heads[head..head + length];
                    head += length;
                    bytes
                }
                Item::Data(buffer) => buffer.bytes(),
            };
            *slice = IoSlice::new(&bytes[skip..]);
            offered += bytes.len() - skip;
            skip = 0;
            used += 1;
        }
        let sent = match session {
            None => to.write(&slices[..used])?,
            Some(session) => session.send(to.descriptor()?, &slices[..used])?,
        };
        Ok((offered, sent))
    }

    fn advance(&mut self, mut sent: usize, give: &mut impl FnMut(Buffer)) {
        self.bytes_sent += sent as u64;
        while let Some(item) = self.items.front() {
            let length = match item {
                Item::Head(length) => *length,
                Item::Data(buffer) => buffer.len(),
            };
            if sent < length - self.sent {
                self.sent += sent;
                return;
            }
            sent -= length - self.sent;
            self.sent = 0;
            match self.items.pop_front() {
                Some(Item::Head(length)) => self.heads_sent += length,
                Some(Item::Data(buffer)) => give(buffer),
                None => {}
            }
        }
    }

    /// Drops everything that was not sent, and returns the buffers.
    pub(super) fn clear(&mut self, mut give: impl FnMut(Buffer)) {
        for item in self.items.drain(..) {
            if let Item::Data(buffer) = item {
                give(buffer);
            }
        }
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn sent_heads_free_their_memory_while_others_wait() -> std::io::Result<()> {
        let (mut ours, theirs) = UnixStream::pair()?;
        theirs.set_nonblocking(true)?;
        let stream = Stream::from(OwnedFd::from(theirs));
        let mut outbox = Outbox::default();
        let mut heard = 0;
        for round in 0_u32..4_000 {
            while outbox.head_bytes() < 64 << 10 {
                outbox.put(|out| out.extend_from_slice(&[round as u8; 1024]));
                outbox.put_data(Buffer::with_capacity(1));
            }
            // The reader never catches up.
            let _ = outbox.send(&stream, None, drop);
            heard += ours.read(&mut [0; 4096])?;
            // The socket has room for the first of it.
            assert!(round < 100 || !outbox.is_empty());
            assert!(outbox.capacity() <= 512 << 10, "{} bytes after {round}", outbox.capacity());
        }
        assert!(heard > 10 << 20);
        Ok(())
    }
}
