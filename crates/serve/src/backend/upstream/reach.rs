//! The way to an upstream: sockets of the system, or of a simulated world.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use ioweir_core::Nanos;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::super::poll_for;
use crate::executor::{Clock as _, MachineClock};
use crate::spec::{self, Listen};
use crate::stream::Stream;

/// Seconds of silence after which the kernel asks a TCP peer whether it is there, and between its questions.
const KEEPALIVE_SECONDS: u64 = 5;

/// The way to an upstream.
pub trait Reach {
    /// Begins a connection, which does not block.
    ///
    /// # Errors
    /// Why there will be none.
    fn connect(&mut self, now: Nanos) -> Result<Stream, String>;

    /// Lets the other end of a simulated connection do its work.
    fn tend(&mut self, _now: Nanos) {}

    /// The time of the next event at the other end of a simulated connection.
    fn due(&self) -> Nanos {
        Nanos::NEVER
    }

    /// The time while the device is opened, which does not pass for the engine.
    fn now(&mut self) -> Nanos;

    /// Waits a while for a descriptor while a device is opened.
    ///
    /// # Errors
    /// If the system refuses to wait.
    fn wait(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()>;
}

/// Sockets of the system.
pub(super) struct Sockets {
    address: Listen,
    timeout: Nanos,
    clock: MachineClock,
}

impl Sockets {
    pub(super) fn new(spec: &spec::Upstream) -> Self {
        Self { address: spec.address.clone(), timeout: spec.timeout.nanos(), clock: MachineClock::new() }
    }

    fn begin(&self) -> Result<Stream, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let open = |family| rustix::net::socket_with(family, SocketType::STREAM, flags, None);
        let socket = match &self.address {
            Listen::Unix(path) => {
                let socket = open(AddressFamily::UNIX)?;
                rustix::net::connect(&socket, &rustix::net::SocketAddrUnix::new(path)?)?;
                socket
            }
            Listen::Tcp(address) => {
                let socket = open(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                // Keepalive notices a peer that has gone without closing the connection.
                sockopt::set_socket_keepalive(&socket, true)?;
                sockopt::set_tcp_keepidle(&socket, std::time::Duration::from_secs(KEEPALIVE_SECONDS))?;
                sockopt::set_tcp_keepintvl(&socket, std::time::Duration::from_secs(KEEPALIVE_SECONDS))?;
                let millis = u32::try_from(self.timeout.0 / 1_000_000).unwrap_or(u32::MAX);
                sockopt::set_tcp_user_timeout(&socket, millis)?;
                match rustix::net::connect(&socket, address) {
                    Ok(()) | Err(Errno::INPROGRESS) => {}
                    Err(error) => return Err(error),
                }
                socket
            }
        };
        Ok(Stream::Descriptor(socket))
    }
}

impl Reach for Sockets {
    fn connect(&mut self, _now: Nanos) -> Result<Stream, String> {
        self.begin().map_err(|error| format!("cannot connect: {}", io::Error::from(error)))
    }

    fn now(&mut self) -> Nanos {
        self.clock.now()
    }

    fn wait(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        poll_for(&[descriptor.as_fd()], Nanos::from_millis(100))
    }
}
