//! How do bytes become secret and plain again, between a socket that does not block and whoever holds it?
//!
//! After [`Session::receive`] nothing that could be read is left inside: what was decrypted is with the caller, and what is
//! held is the beginning of a record. So epoll tells of everything that can be done. What is to be sent is held in
//! encrypted form, up to a bound, until the socket takes it.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustls::ServerConnection;
use rustls::pki_types::CertificateDer;

use super::Server;

/// What is read from a socket at once.
const READ_BYTES: usize = 64 << 10;
/// The longest record that there is: what may be held of one when the rest of it comes.
const RECORD_BYTES: usize = (16 << 10) + 2048 + 5;
/// Room for everything that one [`Session::receive`] can decrypt.
pub(crate) const RECEIVED_BYTES_MAX: usize = READ_BYTES + RECORD_BYTES;
/// What is held in encrypted form, about.
const UNSENT_BYTES_MAX: usize = 256 << 10;

/// One connection, from the server's side.
#[derive(Debug)]
pub struct Session {
    connection: ServerConnection,
    encrypted: Box<[u8]>,
    has_ended: bool,
}

/// A descriptor as what a library writes to.
struct Descriptor<'a, T>(&'a T);

impl<T: AsFd> Write for Descriptor<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::write(self.0, bytes))?)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::writev(self.0, slices))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::PROTO)
}

impl Session {
    /// A session that waits for the client to begin.
    ///
    /// # Errors
    /// The configuration cannot be used, which was checked when it was made.
    pub fn new(server: &Server) -> Result<Self, Errno> {
        let connection = ServerConnection::new(Arc::clone(&server.config)).map_err(|_| Errno::PROTO)?;
        let mut session = Self { connection, encrypted: vec![0; READ_BYTES].into(), has_ended: false };
        session.connection.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(session)
    }

    /// Reads from a socket, once, and gives what can be decrypted; the slices together are to have room for
    /// `RECEIVED_BYTES_MAX`. No bytes: the client has said that it ends, or just ended.
    ///
    /// # Errors
    /// `AGAIN` where there is nothing to give yet, anything else where it is over.
    pub fn receive(&mut self, from: impl AsFd, to: impl AsFd, slices: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        if self.has_ended {
            return Ok(0);
        }
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&from, &mut *self.encrypted))?;
        let mut given = 0;
        let mut unread = &self.encrypted[..read];
        self.has_ended = unread.is_empty();
        while !unread.is_empty() {
            if self.connection.read_tls(&mut unread).map_err(|error| errno(&error))? == 0 {
                // What comes behind its end is nothing.
                break;
            }
            match self.connection.process_new_packets() {
                Ok(state) => self.has_ended = state.peer_has_closed(),
                Err(_) => {
                    // The client is told why, as far as its socket takes it.
                    let _ = self.flush(&to);
                    return Err(Errno::PROTO);
                }
            }
            given += read_plain(&mut self.connection, slices, given)?;
        }
        // Where this is not all, it is sent when the socket takes more.
        let _ = self.flush(&to);
        if given == 0 && !self.has_ended { Err(Errno::AGAIN) } else { Ok(given) }
    }

    /// Takes bytes to be sent, and sends as much as the socket takes; answers how many were taken.
    ///
    /// # Errors
    /// `AGAIN` where so much is held already that no more is taken, anything else where it is over.
    pub fn send(&mut self, to: impl AsFd, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        self.flush(to)?;
        self.connection.writer().write_vectored(slices).map_err(|error| errno(&error))
    }

    /// Sends what is held.
    ///
    /// # Errors
    /// `AGAIN` where something is left, anything else where it is over.
    pub fn flush(&mut self, to: impl AsFd) -> Result<(), Errno> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut Descriptor(&to)).map_err(|error| errno(&error))?;
        }
        Ok(())
    }

    /// Whether something is held that the socket did not take.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.connection.wants_write()
    }

    /// Whether the client has come to its end.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Says that nothing more will come, as far as the socket takes it.
    pub fn close(&mut self, to: impl AsFd) {
        self.connection.send_close_notify();
        // Whoever is gone does not hear it.
        let _ = self.flush(to);
    }

    /// What the client's certificate calls it; nothing where it has shown none, or not yet.
    #[must_use]
    pub fn client_names(&self) -> Vec<String> {
        let certificate = self.connection.peer_certificates().and_then(<[CertificateDer<'_>]>::first);
        certificate.map_or_else(Vec::new, |certificate| super::names_of(certificate))
    }
}

/// Moves what was decrypted into the slices, behind the first `skipped` bytes of them.
fn read_plain(
    connection: &mut ServerConnection,
    slices: &mut [IoSliceMut<'_>],
    mut skipped: usize,
) -> Result<usize, Errno> {
    let (mut reader, mut given) = (connection.reader(), 0);
    for slice in slices {
        let from = skipped.min(slice.len());
        skipped -= from;
        let mut room = &mut slice[from..];
        while !room.is_empty() {
            match reader.read(room) {
                Ok(0) => return Ok(given),
                Ok(read) => {
                    given += read;
                    room = &mut room[read..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(given),
                Err(error) => return Err(errno(&error)),
            }
        }
    }
    Ok(given)
}
