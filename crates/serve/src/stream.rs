//! The connections of clients, and the wait for them.

use std::fmt::Debug;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use ioweir_block::backend::timespec;
use ioweir_core::Nanos;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

/// A connection that is not a socket of the system, such as one that a test makes of two buffers.
pub trait Socket: Debug + Send + Sync {
    /// Reads into the slices; returns the number of bytes, zero at the end.
    ///
    /// # Errors
    /// `AGAIN` if there is nothing yet.
    fn read(&self, slices: &mut [IoSliceMut<'_>]) -> Result<usize, Errno>;

    /// Writes as much of the slices as the socket accepts; returns the number of bytes.
    ///
    /// # Errors
    /// `AGAIN` if it accepts nothing now.
    fn write(&self, slices: &[IoSlice<'_>]) -> Result<usize, Errno>;

    /// The events that epoll would report for the socket now.
    fn flags(&self) -> EventFlags;
}

/// The source of a client's bytes, or the destination of bytes to it. It does not block.
#[derive(Debug)]
pub enum Stream {
    /// A descriptor of the system.
    Descriptor(OwnedFd),
    /// A connection without a descriptor; the stream is its only owner, and closes it by dropping it.
    Socket(Arc<dyn Socket>),
}

impl From<OwnedFd> for Stream {
    fn from(descriptor: OwnedFd) -> Self {
        Self::Descriptor(descriptor)
    }
}

impl Stream {
    /// The descriptor, which TLS needs.
    ///
    /// # Errors
    /// If the connection has none.
    pub(crate) fn descriptor(&self) -> Result<BorrowedFd<'_>, Errno> {
        match self {
            Self::Descriptor(descriptor) => Ok(descriptor.as_fd()),
            Self::Socket(_) => Err(Errno::NOSYS),
        }
    }

    /// Reads into the slices. Zero is the end.
    ///
    /// # Errors
    /// `AGAIN` if there is nothing yet.
    pub(crate) fn read(&self, slices: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        match self {
            Self::Descriptor(descriptor) => rustix::io::retry_on_intr(|| rustix::io::readv(descriptor, slices)),
            Self::Socket(socket) => socket.read(slices),
        }
    }

    /// Writes as much of the slices as the connection accepts.
    ///
    /// # Errors
    /// `AGAIN` if it accepts nothing now.
    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        match self {
            Self::Descriptor(descriptor) => rustix::io::retry_on_intr(|| rustix::io::writev(descriptor, slices)),
            Self::Socket(socket) => socket.write(slices),
        }
    }
}

/// A connection without a descriptor that is waited for, until its stream is dropped.
#[derive(Debug)]
struct Watched {
    socket: Weak<dyn Socket>,
    token: u64,
    interest: EventFlags,
}

impl Watched {
    fn is_of(&self, socket: &Arc<dyn Socket>) -> bool {
        self.socket.ptr_eq(&Arc::downgrade(socket))
    }
}

/// Waits for descriptors and streams, each known by a token.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    /// Connections without descriptors, which only tests and simulated worlds have.
    sockets: Vec<Watched>,
}

impl Poller {
    /// A poller that waits for nothing yet.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, sockets: Vec::new() })
    }

    /// The descriptor that is readable while there are events.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Waits for these events of a descriptor, too.
    pub(crate) fn add_descriptor(&self, descriptor: impl AsFd, token: u64, events: EventFlags) -> Result<(), Errno> {
        epoll::add(&self.epoll, descriptor, EventData::new_u64(token), events)
    }

    /// Waits for other events of a descriptor.
    pub(crate) fn modify_descriptor(&self, descriptor: impl AsFd, token: u64, events: EventFlags) -> Result<(), Errno> {
        epoll::modify(&self.epoll, descriptor, EventData::new_u64(token), events)
    }

    /// Waits no longer for a descriptor.
    pub(crate) fn delete_descriptor(&self, descriptor: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, descriptor)
    }

    /// Waits for these events of a stream, too.
    pub(crate) fn add(&mut self, stream: &Stream, token: u64, events: EventFlags) -> Result<(), Errno> {
        match stream {
            Stream::Descriptor(descriptor) => self.add_descriptor(descriptor, token, events),
            Stream::Socket(socket) => {
                self.sockets.push(Watched { socket: Arc::downgrade(socket), token, interest: events });
                Ok(())
            }
        }
    }

    /// Waits for other events of a stream.
    pub(crate) fn modify(&mut self, stream: &Stream, token: u64, events: EventFlags) -> Result<(), Errno> {
        match stream {
            Stream::Descriptor(descriptor) => self.modify_descriptor(descriptor, token, events),
            Stream::Socket(socket) => {
                let watched = self.sockets.iter_mut().find(|watched| watched.is_of(socket));
                watched.map(|watched| (watched.token, watched.interest) = (token, events)).ok_or(Errno::NOENT)
            }
        }
    }

    /// Waits no longer for a stream.
    pub(crate) fn delete(&mut self, stream: &Stream) -> Result<(), Errno> {
        match stream {
            Stream::Descriptor(descriptor) => self.delete_descriptor(descriptor),
            Stream::Socket(socket) => {
                self.sockets.retain(|watched| !watched.is_of(socket));
                Ok(())
            }
        }
    }

    /// Waits for events, at most for `span`, and appends them. Connections without descriptors are only polled.
    ///
    /// # Errors
    /// If the system refuses to wait.
    pub(crate) fn wait(&mut self, ready: &mut Vec<epoll::Event>, span: Nanos) -> io::Result<()> {
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(ready), Some(&timespec(span))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::NOSYS) => {
                return Err(io::Error::other("epoll_pwait2 is missing: Linux 5.11 or later is needed"));
            }
            Err(error) => return Err(error.into()),
        }
        if !self.sockets.is_empty() {
            self.sockets.retain(|watched| {
                let Some(socket) = watched.socket.upgrade() else { return false };
                // As with epoll, the end of a connection is always reported.
                let flags = socket.flags() & (watched.interest | EventFlags::HUP | EventFlags::ERR);
                if !flags.is_empty() {
                    ready.push(epoll::Event { flags, data: EventData::new_u64(watched.token) });
                }
                true
            });
        }
        Ok(())
    }
}
