//! The log of a server: failures of devices and clients, and changes, each with its device, class, client and error number.
//! Every event is counted by kind, for the metrics. A few events of each kind a second go to `tracing`, whose subscriber
//! writes them; the next one that does says how many were left out.

use std::fmt;
use std::net::SocketAddr;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ioweir_core::{Nanos, StreamId};
use tracing::Level;

use crate::backend::RemarkKind;
use crate::nbd::NbdError;

/// The most events of a kind that are written in one second; further ones are only counted.
const WRITTEN_PER_SECOND: u32 = 10;

/// The kinds of events: name in metrics and in the log, level, and meaning.
macro_rules! kinds {
    ($($(#[doc = $help:literal])+ $kind:ident = $name:literal, $level:ident;)+) => {
        /// The subject of an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventKind { $($(#[doc = $help])+ $kind,)+ }

        impl EventKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The name in metrics and in the log.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// The meaning, in a sentence.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self { $(Self::$kind => concat!($($help),+),)+ }
            }

            /// The severity of the event.
            #[must_use]
            pub const fn level(self) -> Level {
                match self { $(Self::$kind => Level::$level,)+ }
            }
        }
    };
}

kinds! {
    /// A flush of a device has failed: nothing is written or flushed until it is opened again.
    DeviceFailed = "device_failed", ERROR;
    /// An operation of a device has failed, and its request was answered with the error.
    OperationFailed = "operation_failed", WARN;
    /// A device has had an operation for so long that it seems to hang.
    DeviceHangs = "device_hangs", ERROR;
    /// A device that seemed to hang has completed its old operations.
    DeviceBack = "device_back", INFO;
    /// A backend reports a problem of its own: a block that is not as written, checksums that cannot be kept.
    DeviceRemark = "device_remark", WARN;
    /// A copy of a block was damaged; an undamaged one has answered.
    CopyDamaged = "copy_damaged", WARN;
    /// A device cannot be opened: nobody can open its exports until it is.
    DeviceUnopened = "device_unopened", ERROR;
    /// A device that had failed, or could not be opened, was opened again.
    DeviceOpened = "device_opened", INFO;
    /// A connection to an upstream has ended; its unanswered requests are sent again.
    UpstreamBroken = "upstream_broken", WARN;
    /// An upstream is connected again.
    UpstreamBack = "upstream_back", INFO;
    /// A connection to an upstream cannot be made, or the upstream is not the same as before.
    UpstreamRefused = "upstream_refused", WARN;
    /// An upstream had no connection for so long that requests fail.
    UpstreamGone = "upstream_gone", ERROR;
    /// Changes that an upstream had answered may be lost: the next flush fails.
    UpstreamLoss = "upstream_loss", ERROR;
    /// A snapshot of a device was taken.
    SnapshotTaken = "snapshot_taken", INFO;
    /// A snapshot could not be taken.
    SnapshotFailed = "snapshot_failed", WARN;
    /// A snapshot was deleted, and its space is given back from now on.
    SnapshotDeleted = "snapshot_deleted", INFO;
    /// A client was disconnected, because the server has the most clients that it takes.
    ServerFull = "server_full", WARN;
    /// A client was disconnected, because its address or user has the most clients that it may have.
    PeerFull = "peer_full", WARN;
    /// A client was disconnected, because its class has the most clients that it may have.
    ClassFull = "class_full", WARN;
    /// A client asked for an export that it may not open.
    ExportRefused = "export_refused", WARN;
    /// A virtual machine was closed: it may not open the export of the socket, or the system has no room for it.
    MachineRefused = "machine_refused", WARN;
    /// A client did not agree on an export in time.
    NegotiationTimeout = "negotiation_timeout", WARN;
    /// A client broke the protocol.
    ProtocolError = "protocol_error", WARN;
    /// A client's TLS handshake, or a record of it, was wrong.
    TlsFailed = "tls_failed", WARN;
    /// A client left a request half sent, or replies unread, for too long.
    ClientStalled = "client_stalled", WARN;
    /// A client read its replies too slowly for too long.
    ClientSlow = "client_slow", WARN;
    /// A client asked for nothing for too long.
    ClientIdle = "client_idle", INFO;
    /// The server drains: it accepts no clients, and ends once the connected ones are answered.
    Draining = "draining", INFO;
    /// The listening sockets were handed over to another process: the server drains.
    HandedOver = "handed_over", INFO;
    /// A client was ended by a command.
    ClientKicked = "client_kicked", INFO;
    /// The server accepts no clients for a moment, because descriptors or memory are short.
    ListeningPaused = "listening_paused", WARN;
    /// Other machines can connect, and nothing is encrypted.
    Unencrypted = "unencrypted", WARN;
    /// The server has given up privileges that it does not need.
    Confined = "confined", INFO;
    /// The spec asks the server to give up privileges, and the kernel cannot do that.
    NotConfined = "not_confined", WARN;
    /// The volume of an export does not exist: no client can open the export.
    VolumeMissing = "volume_missing", WARN;
    /// A service found data that is damaged or cannot be read.
    ServiceDamage = "service_damage", WARN;
    /// A service has done all due work.
    ServiceFinished = "service_finished", INFO;
    /// A service has missed its deadline.
    ServiceLate = "service_late", WARN;
    /// The reservation that a service's lease asks for cannot be kept any more, after a change of the service's share.
    ReservationLost = "reservation_lost", WARN;
    /// This server sees the other servers of the fleet.
    FleetSeen = "fleet_seen", INFO;
    /// This server does not see the other servers of the fleet any more.
    FleetLost = "fleet_lost", WARN;
    /// A report or spec that another server, or a person, has written for the fleet cannot be used.
    FleetRefused = "fleet_refused", WARN;
    /// A key of the running spec was changed.
    SpecChanged = "spec_changed", INFO;
    /// A change of the running spec was refused.
    ChangeRefused = "change_refused", WARN;
    /// A thread of the server has found an error in the server itself.
    Panicked = "panicked", ERROR;
}

impl From<RemarkKind> for EventKind {
    fn from(kind: RemarkKind) -> Self {
        match kind {
            RemarkKind::Plain => Self::DeviceRemark,
            RemarkKind::CopyDamaged => Self::CopyDamaged,
            RemarkKind::UpstreamBroken => Self::UpstreamBroken,
            RemarkKind::UpstreamBack => Self::UpstreamBack,
            RemarkKind::UpstreamRefused => Self::UpstreamRefused,
            RemarkKind::UpstreamGone => Self::UpstreamGone,
            RemarkKind::UpstreamLoss => Self::UpstreamLoss,
        }
    }
}

/// A client, as the system identifies it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, connected over a unix socket: the process number and the user number.
    Process(u32, u32),
    /// The address of a TCP connection.
    Address(SocketAddr),
    /// The client's process or address is unknown.
    #[default]
    Unknown,
}

impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(process, user) => write!(out, "process {process} of user {user}"),
            Self::Address(address) => write!(out, "{address}"),
            Self::Unknown => out.write_str("unknown"),
        }
    }
}

/// An event. Fields that do not apply are left out of the log.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The subject of the event.
    pub kind: EventKind,
    /// The device, by its name.
    pub device: Option<&'a str>,
    /// The class, by its name.
    pub class: Option<&'a str>,
    /// The client.
    pub peer: Option<Peer>,
    /// The error number that a request was answered with.
    pub errno: Option<NbdError>,
    /// A description for people.
    pub what: &'a str,
}

impl<'a> Event<'a> {
    /// An event of the server as a whole.
    #[must_use]
    pub const fn new(kind: EventKind, what: &'a str) -> Self {
        Self { kind, device: None, class: None, peer: None, errno: None, what }
    }
}

/// The log of a server, for any thread.
#[derive(Clone, Debug)]
pub struct Log(Arc<[OfKind]>);

/// The events of a kind.
#[derive(Debug, Default)]
struct OfKind {
    count: AtomicU64,
    pace: Mutex<Pace>,
}

/// The events written in the current second.
#[derive(Debug, Default)]
struct Pace {
    second: u64,
    written: u32,
    /// The number of events that were left out since the last one that was written.
    left_out: u64,
}

impl Pace {
    /// Whether an event is written now; if so, returns how many before it were left out.
    fn admit(&mut self, now: Nanos) -> Option<u64> {
        let second = now.0 / 1_000_000_000;
        if second != self.second {
            (self.second, self.written) = (second, 0);
        }
        if self.written == WRITTEN_PER_SECOND {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Default for Log {
    fn default() -> Self {
        Self(EventKind::ALL.iter().map(|_| OfKind::default()).collect())
    }
}

impl Log {
    /// Counts an event, and writes it unless there are too many of its kind.
    pub fn report(&self, now: Nanos, event: &Event<'_>) {
        let of = &self.0[event.kind as usize];
        of.count.fetch_add(1, Ordering::Relaxed);
        let left_out = of.pace.lock().unwrap_or_else(PoisonError::into_inner).admit(now);
        if let Some(left_out) = left_out {
            write(event, left_out);
        }
    }

    /// The number of events of each kind.
    pub fn counts(&self) -> impl Iterator<Item = (EventKind, u64)> {
        EventKind::ALL.iter().zip(&*self.0).map(|(kind, of)| (*kind, of.count.load(Ordering::Relaxed)))
    }
}

/// The log of a device and of the classes of its clients.
#[derive(Clone, Debug, Default)]
pub struct DeviceLog {
    /// The server's log.
    pub log: Log,
    /// The name of the device.
    pub device: String,
    /// The names of the classes, by number.
    pub classes: Arc<[String]>,
}

impl DeviceLog {
    /// Reports an event of the device.
    pub fn report(&self, now: Nanos, kind: EventKind, what: &str) {
        self.log.report(now, &Event { device: Some(&self.device), ..Event::new(kind, what) });
    }

    /// Reports an event of a client of a class, with the error number if there is one.
    pub fn report_client(
        &self,
        now: Nanos,
        kind: EventKind,
        class: StreamId,
        (peer, errno): (Option<Peer>, Option<NbdError>),
        what: &str,
    ) {
        let class = self.classes.get(class.0 as usize).map(String::as_str);
        self.log.report(now, &Event { kind, device: Some(&self.device), class, peer, errno, what });
    }
}

/// Writes a panic as an event of one line: a backtrace would be dozens of lines of another format. For
/// [`std::panic::set_hook`]. It is not counted.
pub fn write_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = panic.payload_as_str().unwrap_or_default().lines().next().unwrap_or_default();
    let what = format!("thread {}: an error in ioweir at {place}: {message}", thread.name().unwrap_or_default());
    write(&Event::new(EventKind::Panicked, &what), 0);
}

fn write(event: &Event<'_>, left_out: u64) {
    let Event { kind, device, class, peer, errno, what } = *event;
    let (event, peer) = (kind.name(), peer.map(tracing::field::display));
    let (errno, error) = (errno.map(NbdError::code), errno.map(NbdError::name));
    let left_out = (left_out > 0).then_some(left_out);
    // `tracing` needs a constant level for each place in the code.
    macro_rules! at {
        ($level:expr) => {
            tracing::event!(target: "ioweir", $level, event, device, class, peer, errno, error, left_out, "{what}")
        };
    }
    match kind.level() {
        Level::ERROR => at!(Level::ERROR),
        Level::WARN => at!(Level::WARN),
        _ => at!(Level::INFO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floods_of_events_are_thinned_and_counted() {
        let mut pace = Pace::default();
        let admitted = |pace: &mut Pace, millis| pace.admit(Nanos::from_millis(millis));
        assert!((0..10).all(|at| admitted(&mut pace, at) == Some(0)));
        assert!((10..40).all(|at| admitted(&mut pace, at).is_none()));
        assert_eq!((admitted(&mut pace, 1000), admitted(&mut pace, 1001)), (Some(30), Some(0)));
    }

    #[test]
    fn every_event_is_counted_under_its_kind() {
        let log = Log::default();
        for _ in 0..25 {
            log.report(Nanos::ZERO, &Event::new(EventKind::TlsFailed, "no"));
        }
        let counts: Vec<_> = log.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [(EventKind::TlsFailed, 25)]);
    }
}
