//! The connections of clients, and the wait for them: sockets of the system, or those of a simulated [`world`](crate::world).

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::world::wire::{End, Line};

/// Where the bytes of a client come from, or where those for it go. It does not block.
#[derive(Debug)]
pub enum Stream {
    /// A descriptor of the system.
    Descriptor(OwnedFd),
    /// A simulated socket.
    World(End),
}

impl From<OwnedFd> for Stream {
    fn from(descriptor: OwnedFd) -> Self {
        Self::Descriptor(descriptor)
    }
}

impl From<End> for Stream {
    fn from(end: End) -> Self {
        Self::World(end)
    }
}

impl Stream {
    /// The descriptor, which TLS needs.
    ///
    /// # Errors
    /// If it is simulated.
    pub(crate) fn descriptor(&self) -> Result<BorrowedFd<'_>, Errno> {
        match self {
            Self::Descriptor(descriptor) => Ok(descriptor.as_fd()),
            Self::World(_) => Err(Errno::NOSYS),
        }
    }

    /// Reads into the slices. Zero is the end.
    ///
    /// # Errors
    /// `AGAIN` if there is nothing yet.
    pub(crate) fn read(&self, slices: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        match self {
            Self::Descriptor(descriptor) => rustix::io::retry_on_intr(|| rustix::io::readv(descriptor, slices)),
            Self::World(end) => end.read(slices),
        }
    }

    /// Writes what it accepts of the slices.
    ///
    /// # Errors
    /// `AGAIN` if it accepts nothing now.
    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        match self {
            Self::Descriptor(descriptor) => rustix::io::retry_on_intr(|| rustix::io::writev(descriptor, slices)),
            Self::World(end) => end.write(slices),
        }
    }
}

/// A simulated socket that is waited for.
#[derive(Debug)]
struct Watched {
    line: Line,
    token: u64,
    interest: EventFlags,
}

/// Waits for descriptors and streams, each known by a token.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    /// None but in a simulated world.
    simulated: Vec<Watched>,
}

impl Poller {
    /// A poller that waits for nothing yet.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, simulated: Vec::new() })
    }

    /// The descriptor that is readable while something has happened.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Waits for these events of a descriptor, too.
    pub(crate) fn add_descriptor(&self, descriptor: impl AsFd, token: u64, events: EventFlags) -> Result<(), Errno> {
        epoll::add(&self.epoll, descriptor, EventData::new_u64(token), events)
    }

    /// Waits no longer for a descriptor.
    pub(crate) fn delete_descriptor(&self, descriptor: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, descriptor)
    }

    /// Waits for these events of a stream, too.
    pub(crate) fn add(&mut self, stream: &Stream, token: u64, events: EventFlags) -> Result<(), Errno> {
        match stream {
            Stream::Descriptor(descriptor) => self.add_descriptor(descriptor, token, events),
            Stream::World(end) => {
                self.simulated.push(Watched { line: end.line(), token, interest: events });
                Ok(())
            }
        }
    }

    /// Waits for other events of a stream.
    pub(crate) fn modify(&mut self, stream: &Stream, token: u64, events: EventFlags) -> Result<(), Errno> {
        match stream {
            Stream::Descriptor(descriptor) => epoll::modify(&self.epoll, descriptor, EventData::new_u64(token), events),
            Stream::World(end) => {
                let watched = self.simulated.iter_mut().find(|watched| end.is_of(&watched.line));
                watched.map(|watched| (watched.token, watched.interest) = (token, events)).ok_or(Errno::NOENT)
            }
        }
    }

    /// Waits no longer for a stream.
    pub(crate) fn delete(&mut self, stream: &Stream) -> Result<(), Errno> {
        match stream {
            Stream::Descriptor(descriptor) => epoll::delete(&self.epoll, descriptor),
            Stream::World(end) => {
                self.simulated.retain(|watched| !end.is_of(&watched.line));
                Ok(())
            }
        }
    }

    /// Waits until something happens, at most until the timeout, and appends what has. Simulated sockets are only looked at.
    pub(crate) fn wait(&mut self, ready: &mut Vec<epoll::Event>, timeout: Option<&Timespec>) -> Result<(), Errno> {
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(ready), timeout)?;
        if !self.simulated.is_empty() {
            self.simulated.retain(|watched| watched.line.is_open());
            ready.extend(self.simulated.iter().filter_map(|Watched { line, token, interest }| {
                // As with epoll, the end of a connection is always reported.
                let flags = line.flags() & (*interest | EventFlags::HUP | EventFlags::ERR);
                (!flags.is_empty()).then(|| epoll::Event { flags, data: EventData::new_u64(*token) })
            }));
        }
        Ok(())
    }
}
