//! The hand-over of listening sockets to the process that takes this one's place.
//!
//! The sockets go over the control socket as descriptors. From the question on this process accepts no clients: new ones wait in the
//! sockets, which both processes hold, and are accepted by the next one. If the sockets cannot be sent, this process accepts clients again.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::listen::{HANDED_OVER_MAX, Listener};
use crate::control::{AskError, Command, understand};

/// The longest answer, which names all sockets that are handed over.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The room for descriptors in a message.
const ROOM: usize = rustix::cmsg_space!(ScmRights(HANDED_OVER_MAX as usize));

/// Sends a line with the descriptors of listening sockets.
///
/// # Errors
/// If not all of it can be sent at once.
pub(crate) fn send_sockets(socket: BorrowedFd<'_>, line: &[u8], listeners: &[OwnedFd]) -> io::Result<()> {
    let descriptors: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
    let mut room = [MaybeUninit::uninit(); ROOM];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("too many sockets"));
    }
    let sent = sendmsg(socket, &[IoSlice::new(line)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    if sent == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The listening sockets of a server that were taken over. The caller has to wait for that server's end before it opens its devices.
#[derive(Debug)]
pub struct Takeover {
    stream: UnixStream,
    /// The sockets.
    pub listeners: Vec<Listener>,
}

impl Takeover {
    /// Asks the server with this control socket for its listening sockets. It drains from then on, and ends.
    ///
    /// # Errors
    /// If no server answers there, or it keeps them, and why.
    pub fn ask(socket: &Path) -> Result<Self, AskError> {
        let failed = |problem: String| AskError::Unreachable(format!("unix:{}: {problem}", socket.display()));
        let broken = |error: io::Error| failed(error.to_string());
        let stream = crate::control::send(socket, &Command::HandOver {})?;
        let (mut answer, mut descriptors) = (Vec::new(), Vec::new());
        while !answer.ends_with(b"\n") {
            let mut room = [MaybeUninit::uninit(); ROOM];
            let mut control = RecvAncillaryBuffer::new(&mut room);
            let mut bytes = [0; 4096];
            let heard = recvmsg(&stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC);
            let heard = heard.map_err(|error| broken(error.into()))?.bytes;
            if heard == 0 || answer.len() > ANSWER_BYTES_MAX {
                return Err(failed("the server has closed the connection".into()));
            }
            answer.extend_from_slice(&bytes[..heard]);
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    descriptors.extend(rights);
                }
            }
        }
        let answer = understand(&answer)
            .unwrap_or_else(|| Err(failed("the program that answers there is no ioweir server".into())))?;
        let names = answer["listeners"].as_array().into_iter().flatten();
        let names: Vec<&str> = names.filter_map(serde_json::Value::as_str).collect();
        if names.len() != descriptors.len() {
            return Err(failed(format!("{} sockets were named, and {} came", names.len(), descriptors.len())));
        }
        let listeners = names.iter().zip(descriptors).map(|(name, socket)| Listener::taken(socket, name)).collect();
        stream.set_read_timeout(None).map_err(broken)?;
        Ok(Self { stream, listeners })
    }

    /// Waits until the other server has ended, and its devices are free.
    ///
    /// # Errors
    /// If that cannot be found out.
    pub fn wait(self) -> io::Result<Vec<Listener>> {
        // The other server sends nothing more, and its end closes the connection.
        let mut byte = [0];
        loop {
            match io::Read::read(&mut &self.stream, &mut byte) {
                Ok(0) => return Ok(self.listeners),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(self.listeners),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
