//! What is served, from what, to whom? The file that `ioweir serve` reads, resolved: every default filled in.
//!
//! [`Spec::parse`] reads it, [`Spec::to_toml`] prints it; the names of the keys are the fields' names.

mod backends;
mod classes;
mod listen;
mod raw;
mod share;
mod tiers;

use std::path::PathBuf;

use serde::Serialize;

pub use backends::{BACKENDS, Backend, BackendRow, Faults, FileIo};
pub use classes::{Class, ClassKind, Holder, class_of};
use ioweir_config::{Duration, ScheduleChoice, SchedulerChoice, Size, SpecError};
pub use share::{ClassShare, SHARE_KEYS};
pub use tiers::{Cache, Tier};

/// A server: where it listens, what it serves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spec {
    /// The file it was read from, as it was named.
    #[serde(skip)]
    pub file: String,
    /// The server as a whole.
    pub server: Server,
    /// The devices, each with a scheduler of its own.
    pub device: Vec<Device>,
    /// Groups of classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group: Vec<Group>,
    /// What clients can ask for by name.
    pub export: Vec<Export>,
    /// Clients that are told apart within an export.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenant: Vec<Tenant>,
}

/// Where and how clients are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Server {
    /// `unix:PATH` or `tcp:ADDRESS:PORT`. Sockets handed over by systemd take the place of these.
    pub listen: Vec<Listen>,
    /// Clients at once, those that still negotiate included; more are closed at once.
    pub connections_max: u32,
    /// How long a client may take until it has agreed on an export.
    pub handshake_timeout: Duration,
    /// How long a client may leave a request half sent, or an answer unread, before it is cut off.
    pub stall_timeout: Duration,
    /// How long requests that have begun may take to finish once the server is told to stop.
    pub shutdown_timeout: Duration,
    /// What connections are made secret with, where they can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The unix socket that `ioweir ctl` talks to; only the user that the server runs as may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<Listen>,
    /// Where the live page, the state and the metrics can be had by HTTP: a unix socket, or a port of this machine only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<Listen>,
}

/// Certificates, in PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tls {
    /// The server's certificate, and behind it those between it and one that clients trust.
    pub certificate: PathBuf,
    /// The key to it.
    pub key: PathBuf,
    /// Who may sign the certificates of clients: each has to show one. Absent: clients show none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<PathBuf>,
    /// Whether a client that does not ask for encryption is told nothing.
    pub required: bool,
}

/// A place to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A unix socket of this path.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(std::net::SocketAddr),
}

/// Something that holds bytes, and the scheduler in front of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Device {
    /// The name that exports use.
    pub name: String,
    /// What it is made of.
    #[serde(flatten)]
    pub backend: Backend,
    /// Policy, in the form `name[:parameter=value...]`.
    pub scheduler: SchedulerChoice,
    /// Units that the backend holds at once. The rest waits in the scheduler, or no policy could act.
    pub depth: u32,
    /// Requests that the scheduler holds in each direction.
    pub queue_requests: u32,
    /// Longer requests are split, and adjacent ones merged up to this.
    pub request_bytes_max: Size,
    /// Whether adjacent requests are merged.
    pub merge: bool,
    /// Bytes of data on their way that all clients together may hold.
    pub buffer_bytes_max: Size,
    /// Whether what is read is checked against checksums of what was written. They take 1 MiB of memory for each GiB that is
    /// written; those of a file are kept beside it, in `PATH.checksums`, while no server runs.
    pub checksums: bool,
    /// Who computes them; there where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<Workers>,
}

/// Worker threads, and the schedule that says which of them serves whom.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Workers {
    /// Schedule of cores, in the form `name[:parameter=value...]`.
    pub schedule: ScheduleChoice,
    /// How many; one less than the machine has cores, and at least one, where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
}

/// A device under a name, with what its clients are entitled to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Export {
    /// The name that clients ask for. A client that gives none gets the first export.
    pub name: String,
    /// What people are told of it.
    pub description: String,
    /// The device it shows, all of it.
    pub device: String,
    /// Whether writes are refused.
    pub read_only: bool,
    /// The group that its own class belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What its clients that are no tenants are together entitled to; none where the scheduler knows no shares.
    #[serde(flatten)]
    pub share: Option<ClassShare>,
}

/// Classes that share what they get: served as one against others, and among themselves by their weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The name that exports and tenants use.
    pub name: String,
    /// The device whose scheduler knows it.
    pub device: String,
    /// What its classes together are entitled to.
    #[serde(flatten)]
    pub share: ClassShare,
}

/// Clients of an export that are told by their certificate, with what they are entitled to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tenant {
    /// A name of its own, also among exports.
    pub name: String,
    /// The export that its clients use.
    pub export: String,
    /// The common name, or a DNS name, of their certificates.
    pub certificate: String,
    /// The group that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What its clients together are entitled to; none where the scheduler knows no shares.
    #[serde(flatten)]
    pub share: Option<ClassShare>,
}

impl Device {
    /// Whether its scheduler tells classes apart by what they are entitled to.
    #[must_use]
    pub fn knows_shares(&self) -> bool {
        // Every tenant policy has places for groups, and no other has.
        self.scheduler.row.get(&self.scheduler.settings, "groups").is_some()
    }
}

impl Spec {
    /// Reads a spec; `file` is only for the errors.
    ///
    /// # Errors
    /// [`SpecError`]: what is wrong, where, and what it should be.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        raw::parse(file, text)
    }

    /// The spec with every key; [`Spec::parse`] reads it back.
    #[must_use]
    pub fn to_toml(&self) -> String {
        // Strings, numbers, switches and tables of them: all that TOML can write.
        toml::to_string(self).unwrap_or_else(|error| format!("# cannot be written: {error}\n"))
    }

    /// Whether a TOML text is a server's rather than some other file of this program.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("server") || table.contains_key("export"))
    }
}
