//! What is served, from what, to whom? The file that `ioweir serve` reads, resolved: every default filled in.
//!
//! [`Spec::parse`] reads it, [`Spec::to_toml`] prints it; the names of the keys are the fields' names.

mod amount;
mod backends;
mod raw;

use std::path::PathBuf;

use ioweir_core::tenant::Share;
use serde::Serialize;

pub use amount::{Schedule, Scheduler, Size, Span};
pub use backends::{BACKENDS, Backend, BackendRow, Faults, FileIo};
use ioweir_lab::spec::SpecError;

/// A server: where it listens, what it serves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spec {
    /// The server as a whole.
    pub server: Server,
    /// The devices, each with a scheduler of its own.
    pub device: Vec<Device>,
    /// What clients can ask for by name.
    pub export: Vec<Export>,
}

/// Where and how clients are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Server {
    /// `unix:PATH` or `tcp:ADDRESS:PORT`. Sockets handed over by systemd take the place of these.
    pub listen: Vec<Listen>,
    /// Clients at once, those that still negotiate included; more are closed at once.
    pub connections_max: u32,
    /// How long a client may take until it has agreed on an export.
    pub handshake_timeout: Span,
    /// How long a client may leave a request half sent, or an answer unread, before it is cut off.
    pub stall_timeout: Span,
    /// How long requests that have begun may take to finish once the server is told to stop.
    pub shutdown_timeout: Span,
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
    pub scheduler: Scheduler,
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
    pub schedule: Schedule,
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
    /// What its clients together are entitled to; none where the scheduler knows no shares.
    #[serde(flatten)]
    pub share: Option<ExportShare>,
}

/// What an export is entitled to, for schedulers that tell tenants apart. Rates and bursts count requests, or sectors of
/// 512 bytes where the scheduler's `cost` is `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExportShare {
    /// Its part of the device against the weights of other exports.
    pub weight: u32,
    /// It is served at least so often a second while it asks for it; zero: nothing is reserved.
    pub reservation_per_second: u64,
    /// It is served at most so often a second; zero: no limit.
    pub limit_per_second: u64,
    /// How much may come at once above the limit.
    pub burst: u64,
    /// The latency that it is to have, where the scheduler keeps one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Span>,
}

impl ExportShare {
    /// As the scheduler takes it.
    #[must_use]
    pub fn as_share(&self) -> Share {
        Share {
            reservation_per_second: self.reservation_per_second,
            limit_per_second: self.limit_per_second,
            burst: self.burst,
            latency: self.latency.map_or(ioweir_core::Nanos::NEVER, |latency| latency.0),
            ..Share::weighted(self.weight)
        }
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
