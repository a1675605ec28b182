//! The thread that accepts clients and negotiates with them, so that no handshake delays a request.
//!
//! A client goes to the engine of its device once it has agreed on an export. Until then it has the `handshake_timeout` of
//! the spec, and memory for one answer: the next option is read when the last answer was sent.

mod accept;
mod ask;
mod caller;
mod hand;
mod listen;
mod places;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ioweir_core::Nanos;
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::control::Tunables;
use crate::engine::{Client, Command};
use crate::engines::Engines;
use crate::executor::{Clock as _, MachineClock};
use crate::exports::Catalog;
use crate::log::{Event, EventKind, Log, Peer};
use crate::manager;
use crate::slots::Slots;
pub use crate::stopper::Stopper;
use crate::stopper::{AS_IN_SPEC, ONCE_ANSWERED, SERVES};
use crate::stream::Poller;

use caller::{Caller, Ending, Pace, tls_failure};
pub use hand::Takeover;
pub(crate) use hand::send_sockets;
pub use listen::Listener;
pub(crate) use listen::group_of;
pub(crate) use places::Permits;
use places::Places;

const TOKEN_WAKE: u64 = u64::MAX;
const TOKEN_SIGNAL: u64 = u64::MAX - 1;
/// Set in the epoll tokens of listeners.
const TOKEN_LISTENER: u64 = 1 << 33;
const TOKEN_OUTPUT: u64 = 1 << 32;

/// The thread's state.
pub(crate) struct Front {
    listeners: Slots<Listener>,
    callers: Slots<Caller>,
    /// The engines, which end with the front.
    engines: Engines,
    /// When clients are accepted again, if descriptors are short.
    listens_at: Nanos,
    /// When a shortage of descriptors is logged again.
    pause_said_at: Nanos,
    poller: Poller,
    wake: Arc<OwnedFd>,
    /// Becomes readable when a signal arrives.
    _signals: Option<UnixStream>,
    places: Places,
    /// The number of the last client that connected.
    last_number: u64,
    tunables: Arc<Tunables>,
    log: Log,
    clock: MachineClock,
    /// Whether the server serves a single client, and ends with it.
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

/// When the front's thread ends for any reason, the engines end, too, and questions to the front fail.
impl Drop for Front {
    fn drop(&mut self) {
        drop(self.stopper.asked.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.engines.close();
        self.engines.send_all(|| Command::Stop(None));
    }
}

impl Front {
    pub(crate) fn new(plan: Plan) -> io::Result<Self> {
        let poller = Poller::new()?;
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        poller.add_descriptor(&wake, TOKEN_WAKE, EventFlags::IN)?;
        if let Some(signals) = &plan.signals {
            poller.add_descriptor(signals, TOKEN_SIGNAL, EventFlags::IN)?;
        }
        let places = Places::default();
        let mut front = Self {
            listeners: Slots::default(),
            callers: Slots::default(),
            engines: plan.engines,
            listens_at: Nanos::NEVER,
            pause_said_at: Nanos::ZERO,
            poller,
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
        for listener in plan.listeners {
            front.listen(listener, EventFlags::IN)?;
        }
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
                for slot in self.listeners.iter().map(|(slot, _)| slot).collect::<Vec<_>>() {
                    self.listeners.get_mut(slot).into_iter().for_each(Listener::leave_file);
                }
                manager::say_replaced_by(process);
            }
            None => manager::say_stopping(),
        }
        self.listeners = Slots::default();
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

    /// Waits for an event, and handles it.
    fn turn(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        events.clear();
        let callers = self.callers.iter().map(|(_, caller)| caller.until).min();
        let until = callers.into_iter().chain([self.listens_at]).min().unwrap_or(Nanos::NEVER);
        self.poller.wait(events, until.since(self.clock.now()))?;
        for event in events {
            match event.data.u64() {
                TOKEN_SIGNAL => self.stopper.stop(),
                TOKEN_WAKE => {
                    // The descriptor only wakes the thread, so an error here does no harm.
                    let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
                    self.answer_questions();
                }
                token if token & TOKEN_LISTENER != 0 => self.accept((token & !TOKEN_LISTENER) as u32),
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

    /// Logs that a client has asked for an export that it cannot open, unless the export's volume is missing, which is logged already.
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
            None => self.poller.modify_descriptor(&caller.input, data, reads | writes),
            Some(output) => {
                let input = self.poller.modify_descriptor(&caller.input, data, reads);
                input.and(self.poller.modify_descriptor(output, data | TOKEN_OUTPUT, writes))
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
        let _ = self.poller.delete_descriptor(&caller.input);
        if let Some(output) = &caller.output {
            let _ = self.poller.delete_descriptor(output);
        }
        let Caller { number, input, output, peer, identity, mut session, unread, unsent, ending, permit, .. } = caller;
        let catalog = self.tunables.catalog();
        // An export keeps its number while others are added or removed during the negotiation.
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
