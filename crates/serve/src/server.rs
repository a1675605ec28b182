//! The server as a whole: a thread for each device, one that accepts clients, and one for the watch.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

use ioweir_config::shown;
use ioweir_core::Nanos;
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::backend::{self, Shape};
use crate::capture::Capture;
use crate::confine;
use crate::control::{Controller, SnapshotTimer, Tunables};
use crate::engines::{Engines, Opened, Threads};
pub use crate::error::ServeError;
use crate::error::failed;
use crate::executor::{Clock as _, MachineClock};
use crate::exports::{Catalog, Exports, Places};
use crate::front::{self, Front, Listener, Permits, Plan, Stopper};
use crate::log::{Event, EventKind, Log};
use crate::manager;
use crate::spec::{Device, Listen, Spec};
use crate::tls;
use crate::watch::{self, Watch};

/// The source of a server's clients.
#[derive(Debug)]
pub enum Entrance {
    /// Sockets; if the list is empty, those of the spec.
    Listeners(Vec<Listener>),
    /// Sockets that another server has handed over. Missing ones of the spec are created, and others are closed.
    TakenOver(Vec<Listener>),
    /// One client on these descriptors; the server ends with it.
    Single(OwnedFd, OwnedFd),
}

/// The devices that a server needs to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// All of them.
    All,
    /// One at least: the others are left out of service.
    Some,
}

/// A running server.
///
/// ```
/// use std::io::Read as _;
/// use std::net::TcpStream;
///
/// use ioweir_serve::server::{Entrance, Server};
/// use ioweir_serve::spec::Spec;
///
/// let text = r#"
///     [server]
///     listen = ["tcp:127.0.0.1:0"]
///
///     [[device]]
///     name = "scratch"
///     backend = "memory"
///     size = "16MiB"
///     scheduler = "sfq"
///
///     [[export]]
///     name = "disk"
///     device = "scratch"
/// "#;
/// let spec = Spec::parse("scratch.toml", text).expect("a spec");
/// let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).expect("a free port");
///
/// // An NBD client connects, and is greeted.
/// let address = server.addresses()[0].strip_prefix("tcp:").expect("a TCP address");
/// let mut greeting = [0; 8];
/// TcpStream::connect(address).and_then(|mut client| client.read_exact(&mut greeting)).expect("a greeting");
/// assert_eq!(&greeting, b"NBDMAGIC");
///
/// server.stopper().stop();
/// server.wait().expect("a clean end");
/// ```
#[derive(Debug)]
pub struct Server {
    stopper: Stopper,
    front: JoinHandle<io::Result<()>>,
    controller: Controller,
    watch: Option<Watch>,
    snapshots: Option<SnapshotTimer>,
    #[cfg(feature = "fleet")]
    fleet: Option<crate::fleet::Fleet>,
    watched_at: Option<String>,
    engines: Engines,
    addresses: Vec<String>,
    machine_addresses: Vec<String>,
    devices: Vec<String>,
}

impl Server {
    /// Opens the devices, listens, and serves; devices that cannot be opened are left out of service while there is one that can,
    /// until they are opened again ([`Controller::reopen`]). With `signals`, SIGTERM and SIGINT end it as [`Stopper::stop`] does. A
    /// capture records the requests that the device's scheduler accepts.
    ///
    /// # Errors
    /// If no device can be opened, an address cannot be used, or several devices would be captured.
    pub fn start(spec: &Spec, entrance: Entrance, signals: bool, capture: Option<Capture>) -> Result<Self, ServeError> {
        Self::start_with(spec, entrance, Strictness::Some, signals, capture)
    }

    /// As [`Server::start`], on as many devices as `strictness` says. A single client, and a capture, need the device.
    ///
    /// # Errors
    /// If not enough devices can be opened, an address cannot be used, or several devices would be captured.
    pub fn start_with(
        spec: &Spec,
        entrance: Entrance,
        strictness: Strictness,
        signals: bool,
        capture: Option<Capture>,
    ) -> Result<Self, ServeError> {
        let clock = MachineClock::new();
        if capture.is_some() && spec.device.len() != 1 {
            return Err(ServeError("a capture is of one device, and the spec has several".into()));
        }
        let (listeners, single) = enter(spec, entrance)?;
        let (addresses, machine_addresses) = (names_of(&listeners, false), names_of(&listeners, true));
        let log = Log::default();
        // The confinement comes before there are threads, and before anything but the sockets is open.
        give_up(spec, &log, clock.now())?;
        // Where clients can connect, operators can, too; the control socket answers once devices are open.
        let watched = bind_watch(spec)?;
        warn_of_strangers(spec, &listeners, &log, clock.now());
        let workers = backend::shared_workers(spec).map_err(ServeError)?;
        let threads_stopper = Arc::new(OnceLock::new());
        let threads = Threads { workers, clock, log: log.clone(), stopper: Arc::clone(&threads_stopper) };
        let engines = Engines::new(Box::new(threads));
        let opened = if strictness == Strictness::All || capture.is_some() || single.is_some() {
            engines.open(spec, capture)?
        } else {
            engines.open_some(spec)?
        };
        warn_of_unopened(spec, &opened, &log, clock.now());
        let places: Vec<Places> = opened.iter().map(Opened::places).collect();
        let exports = Exports::of(spec, &places).map_err(ServeError)?;
        warn_of_absent(spec, &exports, &places, &log, clock.now());
        let tls = spec.server.tls.as_ref().map(tls::Server::load).transpose();
        let tls = tls.map_err(|error| ServeError(error.to_string()))?;
        let devices = opened.iter().map(|opened| opened.description().to_string()).collect();
        let handles: Vec<_> = opened.iter().map(Opened::handle).collect();
        let list = Arc::clone(&exports.list);
        let tunables = Arc::new(Tunables::new(&spec.server, tls, Catalog::new(spec, exports, &handles)));
        let front = Front::new(Plan {
            listeners,
            engines: engines.clone(),
            signals: signals.then(catch_signals).transpose().map_err(|error| failed("signals", &error))?,
            tunables: Arc::clone(&tunables),
            log: log.clone(),
            clock,
            single,
        });
        let front = front.map_err(|error| failed("epoll", &error))?;
        let stopper = front.stopper();
        // The cell is empty: it is set only here, before the first engine begins.
        let _ = threads_stopper.set(stopper.clone());
        engines.begin(opened, &list)?;
        let controller = Controller::new(spec.clone(), (engines.clone(), places), tunables, log.clone(), clock);
        controller.set_front(stopper.clone());
        #[cfg(feature = "fleet")]
        let fleet = crate::fleet::Fleet::start(&controller, engines.clone(), log.clone(), clock).map_err(ServeError)?;
        let (watch, watched_at) =
            start_watch(watched, (&controller, &engines), (front.permits(), stopper.clone(), log), clock)?;
        let snapshots = SnapshotTimer::start(controller.clone());
        let snapshots = snapshots.map_err(|error| failed("no thread can be started", &error))?;
        let front = Builder::new().name("ioweir-front".into()).spawn(move || front.run());
        Ok(Self {
            stopper,
            controller,
            watch,
            snapshots,
            #[cfg(feature = "fleet")]
            fleet,
            watched_at,
            front: front.map_err(|error| failed("no thread can be started", &error))?,
            engines,
            addresses,
            machine_addresses,
            devices,
        })
    }

    /// The addresses of the server: `unix:PATH` or `tcp:ADDRESS:PORT`.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// The addresses for virtual machines, in the order of their exports: `unix:PATH`.
    #[must_use]
    pub fn machine_addresses(&self) -> &[String] {
        &self.machine_addresses
    }

    /// A description of each device, in the order of the spec.
    #[must_use]
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// The address of the watch over HTTP, if there is one: `unix:PATH` or `tcp:ADDRESS:PORT`.
    #[must_use]
    pub fn watched_at(&self) -> Option<&str> {
        self.watched_at.as_deref()
    }

    /// A controller, which changes the running server.
    #[must_use]
    pub fn controller(&self) -> Controller {
        self.controller.clone()
    }

    /// A stopper, which ends the server from any thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits until the server ends.
    ///
    /// # Errors
    /// If a device has failed as a whole.
    pub fn wait(self) -> Result<(), ServeError> {
        self.engines.wait()?;
        // The thread that accepts clients has stopped the engines, and may wait for another stop while they drain.
        self.stopper.stop();
        let panicked = |_| ServeError("a thread has panicked".into());
        let front = self.front.join().map_err(panicked)?.map_err(|error| failed("epoll", &error));
        drop(self.snapshots);
        #[cfg(feature = "fleet")]
        drop(self.fleet);
        drop(self.watch);
        front
    }
}

/// Gives up the privileges that the spec names, and logs the result.
fn give_up(spec: &Spec, log: &Log, now: Nanos) -> Result<(), ServeError> {
    for its in confine::confine(spec).map_err(ServeError)? {
        let kind = if its.is_on { EventKind::Confined } else { EventKind::NotConfined };
        log.report(now, &Event::new(kind, &format!("{}: {}", its.what, its.words)));
    }
    Ok(())
}

/// The addresses for virtual machines, or for all other clients.
fn names_of(listeners: &[Listener], machines: bool) -> Vec<String> {
    let its = listeners.iter().filter(|listener| listener.is_for_machines() == machines);
    its.map(|listener| listener.name().to_string()).collect()
}

/// Logs an error for each device that cannot be opened.
fn warn_of_unopened(spec: &Spec, opened: &[Opened], log: &Log, now: Nanos) {
    for (device, trouble) in spec.device.iter().zip(opened).filter_map(|(device, its)| Some((device, its.trouble()?))) {
        let what = format!(
            "{}: nobody can open its exports until `ioweir ctl SERVER device reopen {}`",
            shown(trouble),
            shown(&device.name)
        );
        log.report(now, &Event { device: Some(&device.name), ..Event::new(EventKind::DeviceUnopened, &what) });
    }
}

/// Logs a warning for each export whose volume is not there.
fn warn_of_absent(spec: &Spec, exports: &Exports, places: &[Places], log: &Log, now: Nanos) {
    for export in exports.absent.iter().filter_map(|number| spec.export.get(*number)) {
        let is_open = places.get(spec.device_of(export)).is_some_and(|places| places.is_open);
        let Some(volume) = export.volume.as_deref().filter(|_| is_open) else { continue };
        let what =
            format!("export {}: no client can open it: there is no volume {}", shown(&export.name), shown(volume));
        log.report(now, &Event { device: Some(&export.device), ..Event::new(EventKind::VolumeMissing, &what) });
    }
}

/// Logs a warning if other machines can connect without encryption.
fn warn_of_strangers(spec: &Spec, listeners: &[Listener], log: &Log, now: Nanos) {
    if spec.server.tls.is_some() {
        return;
    }
    for listener in listeners.iter().filter(|listener| listener.is_open_to_others()) {
        let what = format!(
            "{}: other machines can connect, and without [server.tls] anyone on the way reads and changes the data",
            listener.name()
        );
        log.report(now, &Event::new(EventKind::Unencrypted, &what));
    }
}

/// Checks a spec as far as possible without serving: that devices can be opened, and that exports lie within them. Nothing is created or
/// locked. Returns a description of each upstream with the features that it lacks.
///
/// # Errors
/// The first problem that would keep a server from starting.
pub fn check(spec: &Spec) -> Result<Vec<String>, ServeError> {
    let check = |device: &Device| {
        backend::check(device).map_err(|error| ServeError(format!("device {}: {error}", device.name)))
    };
    front::group_of(&spec.server).map_err(ServeError)?;
    confine::user_of(&spec.server).map_err(ServeError)?;
    let checked: Result<Vec<_>, _> = spec.device.iter().map(check).collect();
    let checked = checked?;
    // A table of volumes is not read: missing volumes may be added while the server runs.
    let places = |shape: &Shape| Places { shape: shape.clone(), volumes: BTreeMap::new(), is_open: true };
    let places: Vec<_> = checked.iter().map(|(shape, _)| places(shape)).collect();
    Exports::of(spec, &places).map_err(ServeError)?;
    let said = spec.device.iter().zip(checked);
    Ok(said
        .flat_map(|(device, (_, said))| said.into_iter().map(|what| format!("device {}: {what}", device.name)))
        .collect())
}

/// Checks resources that no other server may use, in addition to [`check`]: addresses to listen at, which are those of the spec unless
/// others are given, and files. A running server occupies them. With `is_given`, the sockets come from another process.
///
/// # Errors
/// The first problem that would keep a server from starting, in the words of its error.
pub fn check_free(spec: &Spec, listen: &[Listen], is_given: bool) -> Result<(), ServeError> {
    let listen = if listen.is_empty() && !is_given { &spec.server.listen[..] } else { listen };
    let exports = spec.present_exports().filter_map(|(_, export)| Some((Some(export), export.vhost.as_ref()?)));
    let of_clients: Vec<_> = listen.iter().map(|place| (None, place)).chain(exports).collect();
    if of_clients.is_empty() && !is_given {
        return Err(no_address());
    }
    let own = [&spec.server.watch, &spec.server.control].into_iter().flatten().map(|place| (None, place));
    let mut seen = Vec::new();
    for (export, place) in of_clients.into_iter().chain(own) {
        let is_any_port = matches!(place, Listen::Tcp(address) if address.port() == 0);
        let checked = if seen.contains(&place) && !is_any_port {
            Err(format!("{place}: cannot listen: {}", io::Error::from(Errno::ADDRINUSE)))
        } else {
            Listener::check(place)
        };
        checked.map_err(|error| match export {
            Some(export) => ServeError(format!("export {}: {error}", shown(&export.name))),
            None => ServeError(error),
        })?;
        seen.push(place);
    }
    let is_free = |device: &Device| {
        backend::check_free(device).map_err(|error| ServeError(format!("device {}: {error}", device.name)))
    };
    spec.device.iter().try_for_each(is_free)
}

fn no_address() -> ServeError {
    ServeError("the spec has no address to listen at: set `listen` under [server]".into())
}

type Entered = (Vec<Listener>, Option<(OwnedFd, OwnedFd)>);

/// The sockets to listen at, or the descriptors of the only client.
fn enter(spec: &Spec, entrance: Entrance) -> Result<Entered, ServeError> {
    let mut listeners = match entrance {
        Entrance::Single(input, output) => return Ok((Vec::new(), Some((input, output)))),
        Entrance::Listeners(listeners) if !listeners.is_empty() => listeners,
        Entrance::Listeners(_) => bind_all(spec, Vec::new())?,
        Entrance::TakenOver(taken) => bind_all(spec, taken)?,
    };
    for (number, export) in spec.present_exports() {
        let Some(place) = &export.vhost else { continue };
        let bound = Listener::bind_for_clients(place, &spec.server);
        let bound = bound.map_err(|error| ServeError(format!("export {}: {error}", shown(&export.name))))?;
        listeners.push(bound.of_export(number));
    }
    if listeners.is_empty() {
        return Err(no_address());
    }
    Ok((listeners, None))
}

/// The sockets of a spec, and those from a service manager; sockets that were taken over are not created again.
fn bind_all(spec: &Spec, taken: Vec<Listener>) -> Result<Vec<Listener>, ServeError> {
    let (mut taken, mut listeners): (Vec<_>, Vec<_>) = taken.into_iter().partition(Listener::has_address);
    for listen in &spec.server.listen {
        let place = taken.iter().position(|listener| listener.is_at(listen));
        let listener = match place {
            Some(place) => taken.swap_remove(place),
            None => Listener::bind_for_clients(listen, &spec.server).map_err(ServeError)?,
        };
        listeners.push(listener);
    }
    Ok(listeners)
}

/// The sockets of the page and of the control, where the spec has them.
fn bind_watch(spec: &Spec) -> Result<(Option<Listener>, Option<Listener>), ServeError> {
    let watch = spec.server.watch.as_ref().map(Listener::bind).transpose().map_err(ServeError)?;
    let control = spec.server.control.as_ref().map(Listener::bind_private).transpose().map_err(ServeError)?;
    Ok((watch, control))
}

/// Starts the thread of the watch, if it has a socket or the service manager asks for one.
fn start_watch(
    (watch, control): (Option<Listener>, Option<Listener>),
    (controller, engines): (&Controller, &Engines),
    (permits, stopper, log): (Permits, Stopper, Log),
    clock: MachineClock,
) -> Result<(Option<Watch>, Option<String>), ServeError> {
    if watch.is_none() && control.is_none() && !manager::is_watching() {
        return Ok((None, None));
    }
    let watched_at = watch.as_ref().map(|listener| listener.name().to_string());
    let plan = watch::Plan {
        controller: controller.clone(),
        engines: engines.clone(),
        permits,
        stopper,
        log,
        clock,
        watch,
        control,
    };
    let watch = Watch::start(plan).map_err(|error| failed("the watch cannot be started", &error))?;
    Ok((Some(watch), watched_at))
}

fn catch_signals() -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGTERM, write.try_clone()?)?;
    signal_hook::low_level::pipe::register(SIGINT, write)?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn unencrypted_sockets_in_reach_of_others_cause_warnings() {
        let text = "[server]\nlisten = [\"unix:s\"]\n[[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"1MiB\"\n\
                    [[export]]\nname = \"a\"\ndevice = \"d\"\n";
        let spec = Spec::parse("test", text).unwrap_or_else(|error| panic!("{error}"));
        for (address, warnings) in [("0.0.0.0:0", 1), ("127.0.0.1:0", 0)] {
            // The warning depends on the address alone. No client connects to this socket.
            let socket = UdpSocket::bind(address).unwrap_or_else(|error| panic!("{error}"));
            let listener = Listener::taken(socket.into(), "tcp:somewhere");
            let log = Log::default();
            warn_of_strangers(&spec, &[listener], &log, Nanos::ZERO);
            let counted: u64 =
                log.counts().filter(|(kind, _)| *kind == EventKind::Unencrypted).map(|(_, count)| count).sum();
            assert_eq!(counted, warnings, "{address}");
        }
    }
}
