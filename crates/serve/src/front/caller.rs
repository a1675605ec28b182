//! A client during its negotiation: its sockets, its TLS session, and its identity.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ioweir_core::Nanos;
use rustix::io::Errno;

use crate::engine::Permit;
use crate::exports::Catalog;
use crate::log::Peer;
use crate::nbd::{Agreed, Negotiation, Progress};
use crate::spec::Identity;
use crate::tls;

/// The bytes of a negotiation read in one call; decrypted, they may be more.
const READ_BYTES: usize = 16 << 10;

/// A client during its negotiation.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) number: u64,
    pub(super) input: OwnedFd,
    pub(super) output: Option<OwnedFd>,
    /// The connection's TLS session, once it is encrypted.
    pub(super) session: Option<Box<tls::Session>>,
    pub(super) negotiation: Negotiation,
    pub(super) identity: Identity,
    pub(super) peer: Peer,
    /// Whether the client's certificate has been checked, if it must show one.
    pub(super) is_known: bool,
    pub(super) unread: Vec<u8>,
    pub(super) unsent: Vec<u8>,
    pub(super) began: Nanos,
    pub(super) until: Nanos,
    pub(super) ending: Ending,
    pub(super) permit: Permit,
}

/// The step that follows once the answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    None,
    /// The negotiation continues encrypted.
    StartTls,
    Agreed(Agreed),
    Closed,
}

/// Lets the system notice within two minutes that a client's machine is gone.
pub(super) fn keep_alive(socket: &OwnedFd) -> rustix::io::Result<()> {
    use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
    set_socket_keepalive(socket, true)?;
    set_tcp_keepidle(socket, Duration::from_secs(60))?;
    set_tcp_keepintvl(socket, Duration::from_secs(15))?;
    set_tcp_keepcnt(socket, 4)
}

/// The identity of a client according to the system. A client on the standard streams is a process of the server's own user.
pub(super) fn identify(socket: &OwnedFd, is_single: bool) -> (Identity, Peer) {
    if is_single {
        let process = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        return (Identity { process: Some(process), ..Identity::default() }, Peer::Unknown);
    }
    let address =
        rustix::net::getpeername(socket).ok().flatten().and_then(|address| SocketAddr::try_from(address).ok());
    if let Some(address) = address {
        return (Identity { address: Some(address.ip()), ..Identity::default() }, Peer::Address(address));
    }
    let Ok(process) = rustix::net::sockopt::socket_peercred(socket) else { return <_>::default() };
    let (user, group) = (process.uid.as_raw(), process.gid.as_raw());
    let peer = Peer::Process(process.pid.as_raw_nonzero().get().unsigned_abs(), user);
    (Identity { process: Some((user, group)), ..Identity::default() }, peer)
}

/// The error in a client's TLS, in words.
pub(super) fn tls_failure(session: Option<&tls::Session>) -> String {
    let failure = session.and_then(tls::Session::failure);
    failure.map_or_else(|| "plain bytes follow STARTTLS".into(), |failure| format!("TLS: {failure}"))
}

/// The next step of a negotiation.
pub(super) enum Pace {
    Wait { for_output: bool },
    Ended,
}

impl Caller {
    pub(super) fn talk(&mut self, server: Option<&tls::Server>, catalog: &Catalog) -> Result<Pace, Errno> {
        loop {
            if !self.send()? {
                return Ok(Pace::Wait { for_output: true });
            }
            match self.ending {
                Ending::None => {}
                Ending::StartTls => self.start_tls(server)?,
                Ending::Agreed(_) | Ending::Closed => return Ok(Pace::Ended),
            }
            if self.unread.is_empty() && !self.receive()? {
                // A TLS handshake has answers even if nothing was decrypted.
                return Ok(Pace::Wait { for_output: !self.send()? });
            }
            // Decrypted bytes come after the certificate.
            if let Some(session) = self.session.as_ref().filter(|_| !self.is_known) {
                self.is_known = true;
                self.identity.certificate = session.client_names();
                self.negotiation.hide(catalog.hidden_from(&self.identity));
            }
            let mut input = self.unread.as_slice();
            let progress = self.negotiation.feed(&mut input, &mut self.unsent);
            let left = input.len();
            self.unread.drain(..self.unread.len() - left);
            match progress {
                Progress::More | Progress::Answered => {}
                Progress::StartTls => self.ending = Ending::StartTls,
                Progress::Agreed(agreed) => self.ending = Ending::Agreed(agreed),
                Progress::Closed => self.ending = Ending::Closed,
            }
        }
    }

    /// From now on only encrypted bytes are accepted. Plain bytes that were sent after the option may be an attacker's.
    fn start_tls(&mut self, server: Option<&tls::Server>) -> Result<(), Errno> {
        let Some(server) = server.filter(|_| self.unread.is_empty()) else { return Err(Errno::PROTO) };
        self.session = Some(Box::new(tls::Session::new(server)?));
        self.ending = Ending::None;
        Ok(())
    }

    /// Whether everything was sent.
    fn send(&mut self) -> Result<bool, Errno> {
        let output = self.output.as_ref().unwrap_or(&self.input).as_fd();
        let mut sent = Ok(());
        while sent.is_ok() && !self.unsent.is_empty() {
            let taken = match &mut self.session {
                None => rustix::io::retry_on_intr(|| rustix::io::write(output, &self.unsent)),
                Some(session) => session.send(output, &[IoSlice::new(&self.unsent)]),
            };
            sent = taken.map(|taken| drop(self.unsent.drain(..taken)));
        }
        if let Some(session) = &mut self.session {
            sent = sent.and_then(|()| session.flush(output));
        }
        match sent {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether something was received.
    fn receive(&mut self) -> Result<bool, Errno> {
        let read = match &mut self.session {
            None => {
                self.unread.resize(READ_BYTES, 0);
                rustix::io::retry_on_intr(|| rustix::io::read(&self.input, self.unread.as_mut_slice()))
            }
            Some(session) => {
                self.unread.resize(tls::RECEIVED_BYTES_MAX, 0);
                let output = self.output.as_ref().unwrap_or(&self.input);
                session.receive(&self.input, output, &mut [IoSliceMut::new(&mut self.unread)])
            }
        };
        self.unread.truncate(*read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(Errno::PIPE),
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
