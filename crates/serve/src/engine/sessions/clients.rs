//! Lists the clients of a device, and ends one of them.

use ioweir_core::{Nanos, StreamId};

use super::Sessions;
use super::connection::{Connection, Mode};
use crate::log::{EventKind, Peer};
use crate::spec::Identity;

/// A client that has agreed on an export, with what it has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAccount {
    /// A number that no other client of the server has or had.
    pub number: u64,
    /// The number of its export in the spec.
    pub export: usize,
    /// The class that the client belongs to.
    pub class: StreamId,
    /// How its requests come.
    pub transport: Transport,
    /// The client, as the system knows it.
    pub peer: Peer,
    /// The names by which the client was admitted.
    pub identity: Identity,
    /// When the client had agreed on the export.
    pub since: Nanos,
    /// The stage of its connection.
    pub mode: Mode,
    /// The client's answered requests, counted as its class counts them.
    pub requests: u64,
    /// Bytes of the requests that were answered without an error.
    pub bytes: u64,
    /// The client's requests that are not answered yet.
    pub outstanding: u32,
    /// Unanswered requests that the scheduler has not dispatched in full.
    pub waiting: u32,
}

/// How the requests of a client come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Over a socket, in the NBD protocol.
    Nbd,
    /// In the rings of a virtual machine.
    Vhost,
}

impl Transport {
    /// The name in the list of clients.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nbd => "nbd",
            Self::Vhost => "vhost-user",
        }
    }
}

impl Mode {
    /// The name in the list of clients.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Draining => "ending",
            Self::Gone => "gone",
        }
    }
}

impl ClientAccount {
    fn new(connection: &Connection, waiting: u32) -> Self {
        Self {
            number: connection.number,
            export: connection.agreed.export,
            class: connection.class,
            transport: if connection.rings.is_some() { Transport::Vhost } else { Transport::Nbd },
            peer: connection.peer,
            identity: connection.identity.clone(),
            since: connection.since,
            mode: connection.mode,
            requests: connection.done.0,
            bytes: connection.done.1,
            outstanding: connection.in_flight,
            waiting,
        }
    }
}

impl Sessions {
    /// Every client; `waiting` says how many requests of the connection in a slot wait.
    pub(in super::super) fn clients(&self, waiting: impl Fn(u32) -> u32) -> Vec<ClientAccount> {
        self.connections.iter().map(|(slot, connection)| ClientAccount::new(connection, waiting(slot))).collect()
    }

    /// Ends the client of a number, and returns its account from before that; `None` if it has no such client.
    pub(in super::super) fn kick(&mut self, number: u64, waiting: impl Fn(u32) -> u32) -> Option<ClientAccount> {
        let (slot, connection) = self.connections.iter().find(|(_, connection)| connection.number == number)?;
        let account = ClientAccount::new(connection, waiting(slot));
        if account.mode != Mode::Gone {
            self.remark(slot, EventKind::ClientKicked, "ended by `ioweir ctl kick`");
            self.hang_up(slot);
        }
        Some(account)
    }
}
