//! The spec of a server, which `ioweir serve` reads: its exports, their devices, and the clients that may open them. All defaults are
//! filled in.
//!
//! [`Spec::parse`] reads a spec, [`Spec::to_toml`] prints it; the names of the keys are the fields' names.

mod access;
mod backends;
mod check;
mod classes;
mod device;
mod fleet;
mod growth;
mod joined;
mod listen;
mod read;
mod services;
mod snapshots;
mod tiers;
mod upstream;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use access::{Allowed, Identity};
pub use backends::{BACKENDS, Backend, BackendRow, Faults, FileIo};
pub(crate) use check::client_bytes;
pub use classes::{Class, ClassKind, Holder, class_of};
pub(crate) use device::DeviceKeys;
pub use fleet::{ClassPart, Fleet};
pub use ioweir_block::backend::checked::WorkerKeys as Workers;
use ioweir_config::{
    ByteRate, Duration, IoPriority, Key, KeySet as _, SchedulerChoice, ShareKeys, Size, SpecError, keys,
};
pub use joined::Part;
use joined::PartKeys;
pub use services::{Late, SERVICES, Service, ServiceDefault, ServiceKind, ServiceRow};
pub use snapshots::Snapshots;
pub use tiers::{Cache, Tier};
pub use upstream::{Upstream, UpstreamTls};

/// The spec of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spec {
    /// The file that it was read from, as the user named it.
    #[serde(skip)]
    pub file: String,
    /// The server as a whole.
    pub server: Server,
    /// The workers of all devices that keep checksums and have none of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<Workers>,
    /// The devices, each with a scheduler of its own.
    pub device: Vec<Device>,
    /// Groups of classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group: Vec<Group>,
    /// The exports, which clients ask for by name.
    pub export: Vec<Export>,
    /// Tenants: clients that are distinguished within an export.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenant: Vec<Tenant>,
    /// Background work of the server itself, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub service: BTreeMap<String, Service>,
    /// The fleet that the server belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Fleet>,
    /// The present parts of shares of classes on this server, by number, in a fleet.
    #[serde(skip)]
    pub parts: BTreeMap<u32, ClassPart>,
    /// The number of exports at the start of the server; exports that were added later have later classes.
    #[serde(skip)]
    pub exports_at_start: usize,
}

keys! {
    /// The server's sockets, limits on clients, and confinement.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Server {
        /// where clients connect: unix:PATH or tcp:ADDRESS:PORT, one or more; sockets handed over by systemd take their place, and
        /// `--stdin` serves one client on the standard streams
        listen: Vec<Listen> = (Vec::new()),
        /// who may connect to the unix sockets that the server makes for clients, in octal, such as "0660"; where absent, what the
        /// umask leaves, or "0660" beside `socket_group`
        socket_mode: Option<SocketMode> = absent,
        /// the group of these sockets, a name in /etc/group or a number; the server's own where absent
        socket_group: Option<String> = absent,
        /// clients at once, those that still negotiate included, 1 to 16384; more are closed at once, but for one that
        /// comes while another has negotiated for more than a second, which is closed in its place
        connections_max: u32 = (64),
        /// clients at once from one address, or of one user of this machine, 1 to 16384; if absent, only the limits of the server and the class hold
        connections_per_peer_max: Option<u32> = absent,
        /// how long a client may take until it has agreed on an export
        handshake_timeout: Duration = (Duration::from_seconds(10)),
        /// how long a client may leave a request half sent, or an answer unread, before it is cut off
        stall_timeout: Duration = (Duration::from_seconds(30)),
        /// how fast a client has to read while it leaves replies unread, over `stall_timeout`, or it is cut off: what it does not
        /// read is in memory
        reading_rate_min: ByteRate = (ByteRate(16 << 10)),
        /// how long a client may be idle before it is disconnected; without this key, for ever
        idle_timeout: Option<Duration> = absent,
        /// how long requests in flight may take to finish once the server is asked to stop. After twice this time the server ends without a
        /// device that still has operations, and after this time without one that has completed no read or write since
        shutdown_timeout: Duration = (Duration::from_seconds(10)),
        /// the user that the server becomes once it listens, before it opens its devices, which that user has to be able to: a name in
        /// /etc/passwd or a number; the server has to be started as root then
        user: Option<String> = absent,
        /// whether the server gives up privileges once it listens, as far as the kernel can enforce that: all files but those that the spec
        /// names and the folders they are in (Landlock), and system calls that it never makes (seccomp). The state and the log say which
        /// confinement is in effect
        confine: bool = (false),
        /// certificates: [server.tls]; without them connections are not encrypted
        tls: Option<Tls> = absent,
        /// what is logged, and how: [server.log]
        log: Option<Log> = absent,
        /// the unix socket that `ioweir ctl` and `ioweir top` talk to; only the user that the server runs as may
        control: Option<Listen> = absent,
        /// the live page (/), the state as JSON (/state) and metrics for Prometheus (/metrics): unix:PATH, or tcp:127.0.0.1:PORT:
        /// it has no authentication
        watch: Option<Listen> = absent,
    }
}

keys! {
    /// Certificates, in PEM files.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Tls {
        /// the server's certificate, followed by those between it and one that clients trust
        certificate: PathBuf = required,
        /// its private key
        key: PathBuf = required,
        /// the authority that signs the certificates of clients: each must show one; if absent, clients show none
        clients: Option<PathBuf> = absent,
        /// whether clients that do not ask for encryption are refused
        required: bool = (true),
    }
}

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text lines.
    #[default]
    Text,
    /// JSON objects, one on each line.
    Json,
    /// Lines as the journal of systemd reads them from a service's standard error.
    Journald,
}

/// The least severe events that are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Events that need attention: a device has failed.
    Error,
    /// Events that may need attention.
    Warn,
    /// All events.
    #[default]
    Info,
}

keys! {
    /// The log, on standard error.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Log {
        /// text, json, or journald: text with the level as the journal of systemd reads it, and without the time
        format: LogFormat = (LogFormat::Text),
        /// the least grave events that are written: error, warn or info; all are counted in metrics
        level: LogLevel = (LogLevel::Info),
    }
}

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A unix socket of this path.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(std::net::SocketAddr),
}

/// The permissions of a unix socket: who may write to it may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(pub u32);

/// A backend and its scheduler.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Device {
    /// The name that exports use.
    pub name: String,
    /// Whether it was removed while the server ran: it keeps its number, so that others keep theirs.
    #[serde(skip)]
    pub is_removed: bool,
    /// Whether all its exports refuse writes, so that its file need not be writable.
    #[serde(skip)]
    pub read_only: bool,
    /// Whether a service carries out discards later.
    #[serde(skip)]
    pub late: Option<Late>,
    /// The aims of the service that moves blocks between its tiers, if there is one.
    #[serde(skip)]
    pub relocates: Option<crate::backend::Relocates>,
    /// The storage of the device.
    #[serde(flatten)]
    pub backend: Backend,
    /// Policy, in the form `name[:parameter=value...]`.
    pub scheduler: SchedulerChoice,
    /// The number of operations that the backend holds at once, or the most if it is learnt. The rest wait in the scheduler, where
    /// the policy can act.
    #[serde(skip)]
    pub depth: u32,
    /// The depth that the spec states, unless it is learnt.
    #[serde(rename = "depth", skip_serializing_if = "Option::is_none")]
    pub depth_stated: Option<u32>,
    /// Requests that the scheduler holds in each direction.
    pub queue_requests: u32,
    /// The longest request: longer ones are split, and adjacent ones are merged up to this.
    pub request_bytes_max: Size,
    /// Whether adjacent requests are merged.
    pub merge: bool,
    /// The bytes of data in flight that all clients together may hold; half of it is divided by the weights of their
    /// classes.
    pub buffer_bytes_max: Size,
    /// Whether reads are checked against checksums of what was written. These take 1 MiB of memory for each GiB that is
    /// written; those of a file are kept beside it, in `PATH.checksums`, while no server runs.
    pub checksums: bool,
    /// Workers of the device that compute its checksums; where absent, the workers that devices share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<Workers>,
    /// The folder and the schedule of the snapshots of the device's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<Snapshots>,
    /// The file with the table of its volumes, which exports show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<PathBuf>,
}

keys! {
    /// A device under a name, with the share of its clients that are no tenants; a share is filled in where the device's
    /// scheduler knows shares, and empty elsewhere.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Export {
        /// the name that clients ask for; one that gives none gets the first export
        name: String = required,
        /// a line about it, for clients that list exports
        description: String = (String::new()),
        /// the device that it shows, all of it or a slice
        device: String = required,
        /// where the slice begins, a multiple of 4KiB; the beginning of the device if absent
        offset: Option<Size> = absent,
        /// `joined`: the part of the device that it shows; `offset` counts from its beginning
        part: Option<String> = absent,
        /// the volume of the device that it shows, if the device has a table of `volumes`; while there is no such volume, no client can
        /// open the export. `offset` counts from its beginning
        volume: Option<String> = absent,
        /// its length; to the end of the device, part or volume if absent
        size: Option<Size> = absent,
        /// whether writes are refused
        read_only: bool = (false),
        /// where monitors of virtual machines connect to it as a disk (vhost-user-blk): unix:PATH; as each shares the memory of its
        /// guest, `allow` may name users and groups, no certificates. Without this key, clients come over NBD alone
        vhost: Option<Listen> = absent,
        /// who may open and list it, one or more of "certificate:NAME", "uid:NUMBER", "gid:NUMBER" (processes on a unix socket),
        /// "address:RANGE" and "anyone"; once one export says so, all have to. A certificate's names are its common name and its
        /// DNS names: one of them is enough, and each is compared letter by letter
        allow: Vec<Allowed> = (Vec::new()),
        /// clients of the class at once, 1 to 16384; if absent, only the limit of the server holds
        connections_max: Option<u32> = absent,
        /// I/O priority of its requests, "realtime:0" to "realtime:7", "best-effort:0" to "best-effort:7" or "idle"; `mq-deadline`,
        /// `bfq` and `cfq` use it, alone or below an order of tenants; other schedulers refuse it. Where absent, they take
        /// best-effort:4
        priority: Option<IoPriority> = absent,
        ..share: ShareKeys,
    } with {
        /// Whether it was removed while the server ran: it keeps its number, so that others keep theirs.
        is_removed: bool,
        /// The number of the export's device, if that was removed, too: a new device may have its name.
        lost_device: Option<usize>,
    }
}

keys! {
    /// Classes that divide one share: served as one against others, and among themselves by their weights.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Group {
        /// the name that exports and tenants use
        name: String = required,
        /// the device whose scheduler knows it
        device: String = required,
        ..share: ShareKeys,
    }
}

keys! {
    /// Clients of an export that are recognised by their certificate, with their share.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Tenant {
        /// a name of its own, also among exports
        name: String = required,
        /// the export that its clients use
        export: String = required,
        /// the common name, or a DNS name, of their certificates; one that bears the names of several tenants of the export is of
        /// the first of them in the file
        certificate: String = required,
        /// clients of the class at once, 1 to 16384; if absent, only the limit of the server holds
        connections_max: Option<u32> = absent,
        /// I/O priority of its requests, as that of an export, which it takes the place of; the export's if absent
        priority: Option<IoPriority> = absent,
        ..share: ShareKeys,
    }
}

/// Every key of a server's spec, by table.
#[must_use]
pub fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    vec![
        ("[server]", Server::keys()),
        ("[server.tls]", Tls::keys()),
        ("[server.log]", Log::keys()),
        ("[cores]", Workers::keys()),
        ("[[device]]", DeviceKeys::keys()),
        ("[device.cores]", Workers::keys()),
        ("[[device.part]]", PartKeys::keys()),
        ("[device.faults]", Faults::keys()),
        ("[device.tls]", UpstreamTls::keys()),
        ("[device.snapshots]", Snapshots::keys()),
        ("[[export]]", Export::keys()),
        ("[[tenant]]", Tenant::keys()),
        ("[[group]]", Group::keys()),
        ("[service.NAME]", Service::keys()),
        ("[fleet]", Fleet::keys()),
    ]
}

impl Export {
    /// The number of the part of its device that the export shows, if it shows one.
    #[must_use]
    pub fn part_of(&self, device: &Device) -> Option<usize> {
        match &device.backend {
            Backend::Joined { part } => part.iter().position(|part| Some(&part.name) == self.part.as_ref()),
            _ => None,
        }
    }
}

impl Device {
    /// Whether its scheduler treats classes by their shares.
    #[must_use]
    pub fn knows_shares(&self) -> bool {
        self.scheduler.row.knows_shares
    }

    /// Every file that the device uses.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.backend.paths().into_iter().chain(self.volumes.clone()).collect()
    }

    /// Whether its checksums are computed by the workers of `[cores]`.
    #[must_use]
    pub const fn shares_cores(&self) -> bool {
        self.checksums && self.cores.is_none()
    }
}

impl Spec {
    /// The exports that were not removed, with their numbers.
    pub fn present_exports(&self) -> impl Iterator<Item = (usize, &Export)> {
        self.export.iter().enumerate().filter(|(_, export)| !export.is_removed)
    }

    /// The devices that were not removed, with their numbers.
    pub fn present_devices(&self) -> impl Iterator<Item = (usize, &Device)> {
        self.device.iter().enumerate().filter(|(_, device)| !device.is_removed)
    }

    /// The device of this name, with its number.
    #[must_use]
    pub fn device_named(&self, name: &str) -> Option<(usize, &Device)> {
        self.present_devices().find(|(_, device)| device.name == name)
    }

    /// The sockets of clients: for NBD, and for virtual machines at their exports.
    pub(crate) fn sockets_of_clients(&self) -> impl Iterator<Item = &Listen> {
        self.server.listen.iter().chain(self.present_exports().filter_map(|(_, export)| export.vhost.as_ref()))
    }

    /// The spec as a file has it: without removed exports and devices.
    #[must_use]
    pub(crate) fn as_file(&self) -> Self {
        let export = self.present_exports().map(|(_, export)| export.clone()).collect();
        let device = self.present_devices().map(|(_, device)| device.clone()).collect();
        Self { device, export, ..self.clone() }
    }

    /// The workers that compute a device's checksums, if it keeps any: its own, or those that devices share.
    #[must_use]
    pub fn workers_of<'a>(&'a self, device: &'a Device) -> Option<&'a Workers> {
        device.cores.as_ref().or_else(|| self.cores.as_ref().filter(|_| device.shares_cores()))
    }

    /// The name of the workers that compute a device's checksums: the device's own name, or that of the table `[cores]`.
    #[must_use]
    pub fn pool_of<'a>(&self, device: &'a Device) -> &'a str {
        if device.shares_cores() { "[cores]" } else { &device.name }
    }

    /// Reads a spec; `file` is only for errors.
    ///
    /// ```
    /// let text = "[[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\n\
    ///             [[export]]\nname = \"a\"\ndevice = \"d\"\nlimit = \"500/s\"\n";
    /// let spec = ioweir_serve::spec::Spec::parse("a.toml", text)?;
    /// assert_eq!(spec.export[0].share.limit, Some(ioweir_config::Rate(500)));
    /// # Ok::<(), ioweir_config::SpecError>(())
    /// ```
    ///
    /// # Errors
    /// [`SpecError`]: what is wrong, where, and what was expected.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        read::parse(file, text)
    }

    /// The spec with every key; [`Spec::parse`] reads it back.
    #[must_use]
    pub fn to_toml(&self) -> String {
        // Strings, numbers, switches and tables of these: TOML can write all of them.
        toml::to_string(self).unwrap_or_else(|error| format!("# cannot be written: {error}\n"))
    }

    /// Whether a TOML text is a spec of a server, not another file of this program.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("server") || table.contains_key("export"))
    }
}
