//! The thread that accepts clients and negotiates with them, so that no handshake delays a request.
//!
//! A client goes to the engine of its device once it has agreed on an export. Until then it has the `handshake_timeout` of
//! the spec, and memory for one answer: the next option is read when the last answer was sent.

mod ask;
mod caller;
mod hand;
mod listen;
mod places;

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ioweir_core::{Nanos, StreamId};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Resource, getrlimit};

use crate::control::Tunables;
use crate::engine::{Client, Command, Permit};
use crate::engines::Engines;
use crate::executor::{Clock as _, MachineClock};
use crate::exports::Catalog;
use crate::log::{Event, EventKind, Log, Peer};
use crate::manager;
use crate::nbd::{self, Negotiation};
use crate::slots::Slots;
use crate::spec::{Identity, class_of};
use crate::vhost;

use ask::Questions;
pub(crate) use ask::{CallerAccount, Offer};
use caller::{Caller, Ending, Pace, identify, keep_alive, tls_failure};
pub use hand::Takeover;
pub(crate) use hand::send_sockets;
pub use listen::Listener;
pub(crate) use listen::group_of;
pub(crate) use places::Permits;
use places::Places;

/// How long no client is accepted when descriptors are short.
const LISTENING_PAUSE: Nanos = Nanos::from_millis(100);
/// How long descriptors have to be short until that is said again.
const PAUSE_SAID_AGAIN: Nanos = Nanos::from_seconds(60);
/// Descriptors that clients leave to others, or a quarter of all if that is less: to those who look after the server, and to
/// files that are opened again.
const SPARE_DESCRIPTORS: u64 = 64;
/// How long a client may negotiate even if another finds no room.
const UNDISTURBED: Nanos = Nanos::from_seconds(1);
const TOKEN_WAKE: u64 = u64::MAX;
const TOKEN_SIGNAL: u64 = u64::MAX - 1;
/// Set in the epoll tokens of listeners.
const TOKEN_LISTENER: u64 = 1 << 33;
const TOKEN_OUTPUT: u64 = 1 << 32;

/// The thread's state.
pub(crate) struct Front {
    listeners: Vec<Listener>,
    callers: Slots<Caller>,
    /// To stop.
    engines: Engines,
    /// When clients are accepted again, if descriptors are short.
    listens_at: Nanos,
    /// When it is said again that descriptors are short.
    pause_said_at: Nanos,
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    /// Readable once a signal has arrived.
    _signals: Option<UnixStream>,
    places: Places,
    /// The number of the last client that came.
    last_number: u64,
    tunables: Arc<Tunables>,
    log: Log,
    clock: MachineClock,
    /// Whether it serves a single client, and ends with it.
    is_single: bool,
    stopper: Stopper,
    /// The process that has the listening sockets from now on.
    successor: Option<u32>,
}

/// The parts of a front.
pub(crate) struct Plan {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) engines: Engines,
    pub(crate) signals: Option<UnixStream>,
    pub(crate) tunables: Arc<Tunables>,
    pub(crate) log: Log,
    pub(crate) clock: MachineClock,
    /// The descriptors of the client, if there is only one.
    pub(crate) single: Option<(OwnedFd, OwnedFd)>,
}

/// Ends a server from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    /// The time in which it is to end, in nanoseconds, or one of the values below.
    within: Arc<AtomicU64>,
    wake: Arc<OwnedFd>,
    asked: Questions,
}

/// The server is not to end.
const SERVES: u64 = u64::MAX;
/// The server is to end once all requests are answered.
const ONCE_ANSWERED: u64 = u64::MAX - 1;
/// The server is to end within the `shutdown_timeout` of its spec.
const AS_IN_SPEC: u64 = 0;

impl Stopper {
    /// Lets the server answer the requests in flight, within the `shutdown_timeout` of its spec, and then end.
    pub fn stop(&self) {
        self.shorten(AS_IN_SPEC);
    }

    /// The same within another time, or without a limit; [`Stopper::stop`] and a shorter limit still have an effect.
    pub fn drain(&self, limit: Option<Nanos>) {
        self.shorten(limit.map_or(ONCE_ANSWERED, |limit| limit.0.clamp(AS_IN_SPEC + 1, ONCE_ANSWERED)));
    }

    fn shorten(&self, within: u64) {
        self.within.fetch_min(within, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        // A full counter wakes the front, too.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

/// However the thread ends, the engines do, too, and nobody waits for an answer.
impl Drop for Front {
    fn drop(&mut self) {
        drop(self.stopper.asked.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.engines.close();
        self.engines.send_all(|| Command::Stop(None));
    }
}

impl Front {
    pub(crate) fn new(plan: Plan) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        epoll::add(&epoll, &wake, EventData::new_u64(TOKEN_WAKE), EventFlags::IN)?;
        if let Some(signals) = &plan.signals {
            epoll::add(&epoll, signals, EventData::new_u64(TOKEN_SIGNAL), EventFlags::IN)?;
        }
        for (number, listener) in (0..).zip(&plan.listeners) {
            rustix::io::ioctl_fionbio(&listener.socket, true)?;
            epoll::add(&epoll, &listener.socket, EventData::new_u64(TOKEN_LISTENER | number), EventFlags::IN)?;
        }
        let places = Places::default();
        let mut front = Self {
            listeners: plan.listeners,
            callers: Slots::default(),
            engines: plan.engines,
            listens_at: Nanos::NEVER,
            pause_said_at: Nanos::ZERO,
            epoll,
            stopper: Stopper {
                within: Arc::new(AtomicU64::new(SERVES)),
                wake: Arc::clone(&wake),
                asked: Arc::new(Mutex::new(Some(Vec::new()))),
            },
            successor: None,
            wake,
            _signals: plan.signals,
            places,
            last_number: 0,
            tunables: plan.tunables,
            log: plan.log,
            clock: plan.clock,
            is_single: plan.single.is_some(),
        };
        if let Some((input, output)) = plan.single {
            rustix::io::ioctl_fionbio(&input, true)?;
            rustix::io::ioctl_fionbio(&output, true)?;
            front.welcome(input, Some(output));
        }
        Ok(front)
    }

    pub(crate) fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// The number of clients.
    pub(crate) fn permits(&self) -> Permits {
        self.places.all.clone()
    }

    /// Serves until it is stopped, and then stops the engines.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(64);
        while self.within() == SERVES && !(self.is_single && self.places.all.taken() == 0) {
            self.turn(&mut events)?;
        }
        match self.successor {
            Some(process) => {
                self.listeners.iter_mut().for_each(Listener::leave_file);
                manager::say_replaced_by(process);
            }
            None => manager::say_stopping(),
        }
        self.listeners.clear();
        self.callers = Slots::default();
        self.engines.close();
        // While the engines drain, a stop may come, or a shorter limit.
        let mut told = SERVES;
        loop {
            let within = self.within();
            if matches!(within, SERVES | AS_IN_SPEC) {
                return Ok(());
            }
            if within < told {
                told = within;
                let within = if within == ONCE_ANSWERED { Nanos::NEVER } else { Nanos(within) };
                self.engines.send_all(|| Command::Stop(Some(within)));
            }
            self.turn(&mut events)?;
        }
    }

    fn within(&self) -> u64 {
        self.stopper.within.load(Ordering::Relaxed)
    }

    /// Waits until something happens, and does what is to be done then.
    fn turn(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        events.clear();
        self.wait(events)?;
        for event in events {
            match event.data.u64() {
                TOKEN_SIGNAL => self.stopper.stop(),
                TOKEN_WAKE => {
                    // If nothing can be read, there is nothing to do.
                    let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
                    self.answer_questions();
                }
                token if token & TOKEN_LISTENER != 0 => self.accept((token & !TOKEN_LISTENER) as usize),
                token => self.talk((token & (TOKEN_OUTPUT - 1)) as u32),
            }
        }
        self.cut_off_slow();
        if self.listens_at <= self.clock.now() {
            self.listens_at = Nanos::NEVER;
            self.watch_listeners(EventFlags::IN);
        }
        Ok(())
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let callers = self.callers.iter().map(|(_, caller)| caller.until).min();
        let until = callers.into_iter().chain(Some(self.listens_at).filter(|at| *at < Nanos::NEVER)).min();
        let span = until.map(|until| until.since(self.clock.now()).0);
        let timeout = span.map(|nanos| Timespec {
            tv_sec: (nanos / 1_000_000_000).cast_signed(),
            tv_nsec: (nanos % 1_000_000_000).cast_signed(),
        });
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&mut self, number: usize) {
        loop {
            // What is handed over is the other process's, and so is whoever waits there.
            let Some(listener) = self.listeners.get(number).filter(|_| self.successor.is_none()) else { return };
            if !self.has_spare_descriptors() {
                return self.pause_listening();
            }
            match accept_with(&listener.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    // A unix socket has no such option.
                    let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
                    let _ = keep_alive(&socket);
                    match listener.export {
                        None => self.welcome(socket, None),
                        Some(export) => self.connect_machine(socket, export),
                    }
                }
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => return self.pause_listening(),
                // No client is waiting, or it has left.
                Err(_) => return,
            }
        }
    }

    /// Stops accepting for a while, because descriptors or memory are short: waiting clients would wake this thread again
    /// and again.
    fn pause_listening(&mut self) {
        let now = self.clock.now();
        if self.pause_said_at <= now {
            self.pause_said_at = now.after(PAUSE_SAID_AGAIN);
            let what = "descriptors or memory are short: clients wait until others have left";
            self.report(EventKind::ListeningPaused, None, what);
        }
        self.listens_at = now.after(LISTENING_PAUSE);
        self.watch_listeners(EventFlags::empty());
    }

    /// Whether a client that is accepted leaves descriptors to others.
    fn has_spare_descriptors(&self) -> bool {
        let Some(most) = getrlimit(Resource::Nofile).current else { return true };
        // The lowest that is free: those before it are taken.
        let lowest = rustix::io::fcntl_dupfd_cloexec(&self.wake, 0);
        lowest.is_ok_and(|free| u64::from(free.as_raw_fd().unsigned_abs()) + SPARE_DESCRIPTORS.min(most / 4) < most)
    }

    fn watch_listeners(&self, flags: EventFlags) {
        for (number, listener) in (0..).zip(&self.listeners) {
            // It was watched before, so this takes no memory.
            let _ = epoll::modify(&self.epoll, &listener.socket, EventData::new_u64(TOKEN_LISTENER | number), flags);
        }
    }

    /// A permit for a client. If the server is full, a client that has negotiated for long loses its permit to the new one.
    fn admit(&mut self, client: &Identity, peer: Peer) -> Option<Permit> {
        let most = (self.tunables.connections_max(), self.tunables.connections_per_peer_max());
        let mut admitted = self.places.admit(client, most, &self.wake);
        if admitted.as_ref().is_err_and(|kind| *kind == EventKind::ServerFull) {
            let longest =
                self.callers.iter().min_by_key(|(_, caller)| caller.began).map(|(slot, its)| (slot, its.began));
            if let Some((slot, began)) = longest
                && began.after(UNDISTURBED) <= self.clock.now()
                && let Some(caller) = self.callers.remove(slot)
            {
                let what = "it still negotiated when another client came, and the server is full";
                self.report(EventKind::NegotiationTimeout, Some(caller.peer), what);
                drop(caller);
                admitted = self.places.admit(client, most, &self.wake);
            }
        }
        admitted.map_err(|kind| self.report(kind, Some(peer), "there are as many clients as there may be")).ok()
    }

    /// Greets a client, if the server accepts one more.
    fn welcome(&mut self, input: OwnedFd, output: Option<OwnedFd>) {
        let (identity, peer) = identify(&input, output.is_some());
        let Some(permit) = self.admit(&identity, peer) else { return };
        let tls = match self.tunables.tls() {
            None => nbd::Tls::None,
            Some(server) if server.required => nbd::Tls::Required,
            Some(_) => nbd::Tls::Offered,
        };
        let catalog = self.tunables.catalog();
        let mut negotiation = Negotiation::new(Arc::clone(&catalog.exports.list), tls);
        negotiation.hide(catalog.hidden_from(&identity));
        let unsent = negotiation.greeting().to_vec();
        let began = self.clock.now();
        let until = began.after(self.tunables.handshake_timeout());
        let (session, ending) = (None, Ending::None);
        let (unread, is_known) = (Vec::new(), false);
        self.last_number += 1;
        let caller = Caller {
            number: self.last_number,
            input,
            output,
            session,
            negotiation,
            identity,
            peer,
            is_known,
            unread,
            unsent,
            began,
            until,
            ending,
            permit,
        };
        let slot = self.callers.insert(caller);
        let Some(caller) = self.callers.get(slot) else { return };
        let data = u64::from(slot);
        let mut watched = epoll::add(&self.epoll, &caller.input, EventData::new_u64(data), EventFlags::IN);
        if let Some(output) = &caller.output {
            let data = EventData::new_u64(data | TOKEN_OUTPUT);
            watched = watched.and(epoll::add(&self.epoll, output, data, EventFlags::empty()));
        }
        if watched.is_err() {
            self.callers.remove(slot);
        } else {
            self.talk(slot);
        }
    }

    /// Connects the monitor of a virtual machine to its export. It has no more to say of itself than the system knows.
    fn connect_machine(&mut self, socket: OwnedFd, export: usize) {
        let (identity, peer) = identify(&socket, false);
        let Some(permit) = self.admit(&identity, peer) else { return };
        let catalog = self.tunables.catalog();
        if catalog.hidden_from(&identity).contains(&export) {
            return self.report(EventKind::MachineRefused, Some(peer), "it may not open the export");
        }
        let Some(engine) = catalog.engines.get(export).cloned() else { return };
        let Some((class, permit)) = self.join_class(&catalog, export, &identity, (permit, peer)) else { return };
        let tunables = Arc::clone(&self.tunables);
        let describe = move || {
            let exports = &tunables.catalog().exports;
            exports.list.get(export).filter(|_| !exports.absent.contains(&export)).cloned()
        };
        self.last_number += 1;
        let (number, agreed) =
            (self.last_number, nbd::Agreed { export, replies: nbd::Replies::Simple, contexts: nbd::Contexts::NONE });
        let began = socket.try_clone().and_then(|input| {
            vhost::begin(socket, (number, engine.clone()), Box::new(describe), |rings| {
                engine.send(Command::Serve(Box::new(Client {
                    input: input.into(),
                    output: None,
                    session: None,
                    rings: Some(Box::new(rings)),
                    agreed,
                    class,
                    number,
                    peer,
                    identity,
                    leftover: Vec::new(),
                    unsent: Vec::new(),
                    permit: Some(permit),
                })));
            })
        });
        if let Err(error) = began {
            self.report(EventKind::MachineRefused, Some(peer), &format!("a virtual machine is not served: {error}"));
        }
    }

    /// Counts a client in its class; `None` if that has as many as it may.
    fn join_class(
        &mut self,
        catalog: &Catalog,
        export: usize,
        identity: &Identity,
        (mut permit, peer): (Permit, Peer),
    ) -> Option<(StreamId, Permit)> {
        let class = class_of(&catalog.classes, export, &identity.certificate);
        if self.places.join_class(&mut permit, class, &catalog.classes[class]) {
            return Some((StreamId(class as u32), permit)); // counted from zero, in a spec of a few megabytes
        }
        let what = "there are as many clients of the class as there may be";
        let class = Some(catalog.classes[class].name.as_str());
        let event = Event { class, peer: Some(peer), ..Event::new(EventKind::ClassFull, what) };
        self.log.report(self.clock.now(), &event);
        None
    }

    /// Continues a negotiation as far as possible without waiting.
    fn talk(&mut self, slot: u32) {
        let Some(caller) = self.callers.get_mut(slot) else { return };
        let catalog = self.tunables.catalog();
        let talked = caller.talk(self.tunables.tls().as_ref(), &catalog);
        if let Some(export) = caller.negotiation.take_refused() {
            let peer = caller.peer;
            self.report_refused(&catalog, export, peer);
        }
        match talked {
            Ok(Pace::Wait { for_output }) => self.watch(slot, for_output),
            Ok(Pace::Ended) => self.hand_over(slot),
            Err(error) => {
                if let Some(caller) = self.callers.remove(slot)
                    && error == Errno::PROTO
                {
                    self.report(EventKind::TlsFailed, Some(caller.peer), &tls_failure(caller.session.as_deref()));
                }
            }
        }
    }

    /// Reports that a client has asked for an export that does not exist for it. A volume that is not there is known.
    fn report_refused(&self, catalog: &Catalog, export: usize, peer: Peer) {
        if catalog.exports.absent.contains(&export) {
            return;
        }
        let class = catalog.exports.list.get(export).map(|export| export.name.as_str());
        let event = Event::new(EventKind::ExportRefused, "a client asks for an export that it may not open");
        self.log.report(self.clock.now(), &Event { class, peer: Some(peer), ..event });
    }

    fn report(&self, kind: EventKind, peer: Option<Peer>, what: &str) {
        self.log.report(self.clock.now(), &Event { peer, ..Event::new(kind, what) });
    }

    fn watch(&mut self, slot: u32, for_output: bool) {
        let Some(caller) = self.callers.get(slot) else { return };
        let (reads, writes) =
            if for_output { (EventFlags::empty(), EventFlags::OUT) } else { (EventFlags::IN, EventFlags::empty()) };
        let data = u64::from(slot);
        let modified = match &caller.output {
            None => epoll::modify(&self.epoll, &caller.input, EventData::new_u64(data), reads | writes),
            Some(output) => {
                let input = epoll::modify(&self.epoll, &caller.input, EventData::new_u64(data), reads);
                input.and(epoll::modify(&self.epoll, output, EventData::new_u64(data | TOKEN_OUTPUT), writes))
            }
        };
        if modified.is_err() {
            self.callers.remove(slot);
        }
    }

    /// Ends a negotiation: the client goes to an engine, or is disconnected.
    fn hand_over(&mut self, slot: u32) {
        let Some(caller) = self.callers.remove(slot) else { return };
        // A closed descriptor leaves epoll by itself; one that stays open must be removed.
        let _ = epoll::delete(&self.epoll, &caller.input);
        if let Some(output) = &caller.output {
            let _ = epoll::delete(&self.epoll, output);
        }
        let Caller { number, input, output, peer, identity, mut session, unread, unsent, ending, permit, .. } = caller;
        let catalog = self.tunables.catalog();
        // An export keeps its number, whatever has come or gone since the client was told of it.
        if let Ending::Agreed(agreed) = ending
            && let Some(engine) = catalog.engines.get(agreed.export)
        {
            let Some((class, permit)) = self.join_class(&catalog, agreed.export, &identity, (permit, peer)) else {
                return;
            };
            let (leftover, permit) = (unread, Some(permit));
            let (input, output) = (input.into(), output.map(Into::into));
            let client = Client {
                input,
                output,
                session,
                rings: None,
                agreed,
                class,
                number,
                peer,
                identity,
                leftover,
                unsent,
                permit,
            };
            engine.send(Command::Serve(Box::new(client)));
        } else if let Some(session) = &mut session {
            session.close(output.as_ref().unwrap_or(&input));
        }
    }

    fn cut_off_slow(&mut self) {
        let now = self.clock.now();
        let slow: Vec<u32> =
            self.callers.iter().filter(|(_, caller)| caller.until <= now).map(|(slot, _)| slot).collect();
        for slot in slow {
            if let Some(caller) = self.callers.remove(slot) {
                let what = "it did not agree on an export within `handshake_timeout`";
                self.report(EventKind::NegotiationTimeout, Some(caller.peer), what);
            }
        }
    }
}
