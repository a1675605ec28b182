//! One TLS connection over a non-blocking socket.
//!
//! After [`Session::receive`] the caller has all decrypted bytes, and the session holds only the beginning of a record. So
//! epoll reports everything that can be done. Bytes to send are held encrypted, up to a bound, until the socket accepts
//! them.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, Connection, ServerConnection};

use super::{Client, Server};

/// The number of bytes read from a socket in one call.
const READ_BYTES: usize = 64 << 10;
/// The longest record; a part of it may be held until the rest arrives.
const RECORD_BYTES: usize = (16 << 10) + 2048 + 5;
/// Room for everything that one [`Session::receive`] can decrypt.
pub(crate) const RECEIVED_BYTES_MAX: usize = READ_BYTES + RECORD_BYTES;
/// The approximate maximum of encrypted bytes that are held.
const UNSENT_BYTES_MAX: usize = 256 << 10;

/// One connection, from either side.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    encrypted: Box<[u8]>,
    has_ended: bool,
    failure: Option<rustls::Error>,
}

/// A descriptor as a writer.
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
    /// A session before its handshake.
    ///
    /// # Errors
    /// If the configuration cannot be used; it was checked when it was made.
    pub fn new(server: &Server) -> Result<Self, Errno> {
        let connection = ServerConnection::new(Arc::clone(&server.config)).map_err(|_| Errno::PROTO)?;
        Ok(Self::over(connection.into()))
    }

    /// A session with an upstream before its handshake, which [`Session::flush`] begins.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub(crate) fn with_upstream(client: &Client) -> Result<Self, Errno> {
        let connection = ClientConnection::new(Arc::clone(&client.config), client.name.clone());
        connection.map(|connection| Self::over(connection.into())).map_err(|_| Errno::PROTO)
    }

    fn over(mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Self { connection, encrypted: vec![0; READ_BYTES].into(), has_ended: false, failure: None }
    }

    /// Reads from a socket once, and decrypts. The slices together must have room for `RECEIVED_BYTES_MAX`. Returns zero if
    /// the client has ended the session, or the connection.
    ///
    /// # Errors
    /// `AGAIN` if nothing can be decrypted yet; any other error ends the session.
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
                // Bytes after the end of the session are ignored.
                break;
            }
            match self.connection.process_new_packets() {
                Ok(state) => self.has_ended = state.peer_has_closed(),
                Err(error) => {
                    self.failure = Some(error);
                    // Sends the client the alert, as far as its socket accepts it.
                    let _ = self.flush(&to);
                    return Err(Errno::PROTO);
                }
            }
            given += read_plain(&mut self.connection, slices, given)?;
        }
        // The rest is sent when the socket accepts more.
        let _ = self.flush(&to);
        if given == 0 && !self.has_ended { Err(Errno::AGAIN) } else { Ok(given) }
    }

    /// Encrypts bytes and sends as many as the socket accepts; returns how many bytes were encrypted.
    ///
    /// # Errors
    /// `AGAIN` if too much is held already; any other error ends the session.
    pub fn send(&mut self, to: impl AsFd, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        self.flush(to)?;
        self.connection.writer().write_vectored(slices).map_err(|error| errno(&error))
    }

    /// Sends the held bytes.
    ///
    /// # Errors
    /// `AGAIN` if bytes are left; any other error ends the session.
    pub fn flush(&mut self, to: impl AsFd) -> Result<(), Errno> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut Descriptor(&to)).map_err(|error| errno(&error))?;
        }
        Ok(())
    }

    /// The other side's error, if there was one.
    #[must_use]
    pub const fn failure(&self) -> Option<&rustls::Error> {
        self.failure.as_ref()
    }

    /// Whether bytes are held that the socket has not accepted.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.connection.wants_write()
    }

    /// Whether the other side has ended the session.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Announces the end of the session, as far as the socket accepts it.
    pub fn close(&mut self, to: impl AsFd) {
        self.connection.send_close_notify();
        // A client that has left does not need it.
        let _ = self.flush(to);
    }

    /// The names in the client's certificate; none without one.
    #[must_use]
    pub fn client_names(&self) -> Vec<String> {
        let certificate = self.connection.peer_certificates().and_then(<[CertificateDer<'_>]>::first);
        certificate.map_or_else(Vec::new, |certificate| super::names_of(certificate))
    }
}

/// Moves decrypted bytes into the slices, after the first `skipped` bytes.
fn read_plain(connection: &mut Connection, slices: &mut [IoSliceMut<'_>], mut skipped: usize) -> Result<usize, Errno> {
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
