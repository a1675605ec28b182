//! Accepts clients and virtual machines, where there is room for them.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

use ioweir_core::{Nanos, StreamId};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Resource, getrlimit};

use super::caller::{Caller, Ending, identify, keep_alive};
use super::listen::Listener;
use super::{Front, TOKEN_LISTENER, TOKEN_OUTPUT};
use crate::engine::{Client, Command, Permit};
use crate::executor::Clock as _;
use crate::exports::Catalog;
use crate::log::{Event, EventKind, Peer};
use crate::nbd::{self, Negotiation};
use crate::spec::{Identity, Server, class_of};
use crate::vhost;

/// How long no client is accepted when descriptors are short.
const LISTENING_PAUSE: Nanos = Nanos::from_millis(100);
/// How long a shortage of descriptors lasts before it is logged again.
const PAUSE_SAID_AGAIN: Nanos = Nanos::from_seconds(60);
/// Descriptors that clients must leave free, or a quarter of all if that is less: for operators' connections, and for files that are opened
/// again.
const SPARE_DESCRIPTORS: u64 = 64;
/// How long a client may negotiate before it can lose its place to a new client of a full server.
const UNDISTURBED: Nanos = Nanos::from_seconds(1);

impl Front {
    pub(super) fn accept(&mut self, number: u32) {
        loop {
            // After a handover the sockets belong to the other process, and so do the clients that wait on them.
            let Some(listener) = self.listeners.get(number).filter(|_| self.successor.is_none()) else { return };
            if !self.has_spare_descriptors() {
                return self.pause_listening();
            }
            match accept_with(&listener.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    // This fails for a unix socket, which has no such option.
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

    /// Whether there are spare descriptors left after accepting a client.
    fn has_spare_descriptors(&self) -> bool {
        let Some(most) = getrlimit(Resource::Nofile).current else { return true };
        // The new descriptor is the lowest that is free, so all before it are in use.
        let lowest = rustix::io::fcntl_dupfd_cloexec(&self.wake, 0);
        lowest.is_ok_and(|free| u64::from(free.as_raw_fd().unsigned_abs()) + SPARE_DESCRIPTORS.min(most / 4) < most)
    }

    pub(super) fn watch_listeners(&self, flags: EventFlags) {
        self.listeners.iter().for_each(|(slot, _)| self.watch_listener(slot, flags));
    }

    pub(super) fn watch_listener(&self, slot: u32, flags: EventFlags) {
        let Some(listener) = self.listeners.get(slot) else { return };
        // The listener was watched before, so this takes no memory and cannot fail.
        let _ = self.poller.modify_descriptor(&listener.socket, TOKEN_LISTENER | u64::from(slot), flags);
    }

    /// Takes a socket on, and waits for these events of it.
    pub(super) fn listen(&mut self, listener: Listener, flags: EventFlags) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&listener.socket, true)?;
        let slot = self.listeners.insert(listener);
        let Some(listener) = self.listeners.get(slot) else { return Ok(()) };
        let watched = self.poller.add_descriptor(&listener.socket, TOKEN_LISTENER | u64::from(slot), flags);
        if watched.is_err() {
            self.listeners.remove(slot);
        }
        Ok(watched?)
    }

    /// A permit for a client. If the server is full, a client that has negotiated for long loses its permit to the new one.
    fn admit(&mut self, client: &Identity, peer: Peer) -> Option<Permit> {
        let Server { connections_max, connections_per_peer_max, .. } = self.tunables.lock().server;
        let most = (connections_max, connections_per_peer_max.unwrap_or(u32::MAX));
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
        admitted.map_err(|kind| self.report(kind, Some(peer), "the server has the most clients that it takes")).ok()
    }

    /// Greets a client, if the server accepts one more.
    pub(super) fn welcome(&mut self, input: OwnedFd, output: Option<OwnedFd>) {
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
        let until = began.after(self.tunables.lock().server.handshake_timeout.nanos());
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
        let mut watched = self.poller.add_descriptor(&caller.input, data, EventFlags::IN);
        if let Some(output) = &caller.output {
            watched = watched.and(self.poller.add_descriptor(output, data | TOKEN_OUTPUT, EventFlags::empty()));
        }
        if watched.is_err() {
            self.callers.remove(slot);
        } else {
            self.talk(slot);
        }
    }

    /// Connects the monitor of a virtual machine to its export. The monitor has no identity but the one that the system knows.
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

    /// Counts a client in its class; `None` if the class has the most clients that it may have.
    pub(super) fn join_class(
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
        let what = "the class has the most clients that it may have";
        let class = Some(catalog.classes[class].name.as_str());
        let event = Event { class, peer: Some(peer), ..Event::new(EventKind::ClassFull, what) };
        self.log.report(self.clock.now(), &event);
        None
    }
}
