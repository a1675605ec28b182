//! The connections of clients that have agreed on an export: receives and decodes their requests, and sends the replies.
//!
//! Requests come out as [`Event`]s; results come in through [`Sessions::finish`]. Memory is bounded for each client: it may
//! have a number of requests in flight, hold a part of the buffers ([`Room`]), and have a number of bytes of replies unread.
//! Beyond that, its requests wait in its socket.

mod answer;
mod clients;
mod connection;
mod decode;
mod outbox;
mod request;
mod rings;
mod room;

use std::collections::VecDeque;
use std::sync::Arc;

use ioweir_core::{Nanos, StreamId};
use rustix::event::epoll::EventFlags;

use super::accounts::Answered;
use super::admission::SubRequest;
use super::command::Timeouts;
use crate::buffer::Pool;
use crate::log::{EventKind, Peer};
use crate::nbd::{Export, NbdError};
use crate::slots::Slots;
use crate::spec;
use crate::stream::Poller;
pub use clients::{ClientAccount, Transport};
pub use connection::{Client, Mode, Permit};
use connection::{Connection, Received};
use request::{ClientRequest, Costs};
use room::Room;

/// Set in an epoll token if a connection's replies go to another descriptor than its requests come from.
pub(super) const TOKEN_OUTPUT: u64 = 1 << 32;
/// Set in an epoll token if a guest may have offered requests in a ring.
const TOKEN_KICK: u64 = 1 << 33;

/// Events for the rest of the engine.
#[derive(Debug)]
pub(super) enum Event {
    /// A sub-request for the scheduler.
    Arrived(SubRequest),
    /// A query of a service: it does not pass the scheduler.
    Query(Query),
    /// A request was answered.
    Answered(Answered),
    /// A request of this class was refused on arrival.
    Refused(StreamId, NbdError),
    /// A connection broke: its queued sub-requests are to be withdrawn.
    Gone(u32),
    /// A client of a class, or a service, did something that should be logged.
    Remarkable(EventKind, StreamId, Option<Peer>, String),
}

/// A service's query for the extents of a range, which does not pass the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Query {
    /// The number of the service.
    pub(super) service: u32,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The clients of a device.
#[derive(Debug)]
pub(super) struct Sessions {
    exports: Arc<[Export]>,
    costs: Costs,
    timeouts: Timeouts,
    poller: Poller,
    now: Nanos,
    connections: Slots<Connection>,
    requests: Slots<ClientRequest>,
    room: Room,
    events: VecDeque<Event>,
    /// Connections with something to send.
    dirty: Vec<u32>,
    /// Connections whose undecoded bytes may be decoded now.
    resumable: Vec<u32>,
    /// Connections that wait until others hold fewer buffers.
    starved: Vec<u32>,
    /// Requests whose range continues in the next turn.
    ranges: Vec<u32>,
    /// Connections with rings that have taken as many requests in this turn as they may.
    sated: Vec<u32>,
    /// The number of this turn.
    turn: u64,
    /// The earliest time when a client may be found stalled.
    stall_check: Nanos,
}

impl Sessions {
    pub(super) fn new(exports: Arc<[Export]>, device: &spec::Device, pool: Pool, poller: Poller) -> Self {
        Self {
            exports,
            costs: Costs { request_bytes_max: device.request_bytes_max.0, zeroes_are_written: [true; 2] },
            timeouts: Timeouts {
                stall: Nanos::NEVER,
                idle: Nanos::NEVER,
                reading_bytes_per_second: 0,
                shutdown: Nanos::NEVER,
                clients_max: 1,
            },
            poller,
            now: Nanos::ZERO,
            connections: Slots::default(),
            requests: Slots::default(),
            room: Room::new(pool, device.buffer_bytes_max.0),
            events: VecDeque::new(),
            dirty: Vec::new(),
            resumable: Vec::new(),
            starved: Vec::new(),
            ranges: Vec::new(),
            sated: Vec::new(),
            turn: 0,
            stall_check: Nanos::NEVER,
        }
    }

    /// The poller that waits for the sockets of clients, and for all other events that wake the engine.
    pub(super) const fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    pub(super) fn set_exports(&mut self, exports: Arc<[Export]>) {
        self.exports = exports;
    }

    /// Sets how long a client may leave something unfinished or send no request; the next check applies it. The memory must be
    /// divided again.
    pub(super) fn set_timeouts(&mut self, timeouts: Timeouts) {
        self.timeouts = timeouts;
        self.stall_check = self.now;
        let clients = self.connections.iter().map(|(_, connection)| (connection.class, connection.held_bytes));
        self.room.set_clients(timeouts.clients_max, clients);
    }

    /// Sets the time of everything that follows, and whether the device writes zeroes: as holes, and where it keeps the space.
    pub(super) const fn begin_turn(&mut self, now: Nanos, zeroes_are_written: [bool; 2]) {
        self.now = now;
        self.turn += 1;
        self.costs.zeroes_are_written = zeroes_are_written;
    }

    /// The events since the last call, in order.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// The class of each connection.
    pub(super) fn classes(&self) -> impl Iterator<Item = StreamId> {
        self.connections.iter().map(|(_, connection)| connection.class)
    }

    /// The number of unanswered requests.
    pub(super) fn requests(&self) -> usize {
        self.requests.len()
    }

    pub(super) const fn buffered_bytes(&self) -> u64 {
        self.room.bytes
    }

    /// The memory that connections take beside buffers.
    pub(super) fn connection_bytes(&self) -> usize {
        self.connections.iter().map(|(_, connection)| connection.own_bytes()).sum()
    }

    /// The bytes of buffers that are kept for later.
    pub(super) const fn free_bytes(&self) -> u64 {
        self.room.pool.free_bytes()
    }

    /// The buffers, for data that is read.
    pub(super) const fn pool(&mut self) -> &mut Pool {
        &mut self.room.pool
    }

    pub(super) const fn can_resume(&self) -> bool {
        !self.resumable.is_empty()
    }

    /// When to call again without a ready socket.
    pub(super) fn due(&self) -> Nanos {
        if self.ranges.is_empty() && self.sated.is_empty() { self.stall_check } else { self.now }
    }

    /// Adds a client. It is closed if epoll refuses its descriptors.
    pub(super) fn connect(&mut self, client: Client) {
        let mut connection = Connection::new(client, self.now);
        connection.interest = if connection.rings.is_some() { EventFlags::empty() } else { EventFlags::IN };
        let interest = connection.interest;
        let has_replies = !connection.outbox.is_empty();
        let slot = self.connections.insert(connection);
        let Some(connection) = self.connections.get(slot) else { return };
        let token = u64::from(slot);
        let mut watched = self.poller.add(&connection.input, token, interest);
        if let Some(output) = &connection.output {
            watched = watched.and(self.poller.add(output, token | TOKEN_OUTPUT, EventFlags::empty()));
        }
        if watched.is_err() {
            return self.hang_up(slot);
        }
        if has_replies {
            self.mark_dirty(slot);
        }
        // Requests may have come with the end of the negotiation.
        self.decode(slot);
    }

    /// Serves a socket that epoll found ready.
    pub(super) fn serve_socket(&mut self, token: u64, flags: EventFlags) {
        let slot = (token & (TOKEN_OUTPUT - 1)) as u32;
        if token & TOKEN_KICK != 0 {
            return self.look(slot);
        }
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let is_writable = flags.contains(EventFlags::OUT);
        connection.is_blocked &= !is_writable;
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            // With a second descriptor for replies, the end of the requests is not the end of the client.
            let has_hung_up = connection.output.is_none() && flags.intersects(EventFlags::HUP | EventFlags::ERR);
            self.receive(slot, has_hung_up);
        }
        if is_writable {
            self.mark_dirty(slot);
        }
    }

    fn receive(&mut self, slot: u32, has_hung_up: bool) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.is_paused() {
            return if has_hung_up { self.hang_up(slot) } else { self.update_interest(slot) };
        }
        match connection.receive() {
            Received::Bytes => {
                connection.moved = self.now;
                self.decode(slot);
            }
            Received::Nothing if connection.has_unsent_records() => self.mark_dirty(slot),
            Received::Nothing => {}
            Received::End if has_hung_up => self.hang_up(slot),
            Received::End => self.drain(slot),
            Received::Broken => {
                if let Some(what) = connection.tls_failure() {
                    self.remark(slot, EventKind::TlsFailed, what);
                }
                self.hang_up(slot);
            }
        }
    }

    /// Logs an event of a client.
    fn remark(&mut self, slot: u32, kind: EventKind, what: impl Into<String>) {
        if let Some(Connection { class, peer, .. }) = self.connections.get(slot) {
            self.events.push_back(Event::Remarkable(kind, *class, Some(*peer), what.into()));
        }
    }

    /// The client of a connection.
    pub(super) fn peer(&self, slot: u32) -> Option<Peer> {
        self.connections.get(slot).map(|connection| connection.peer)
    }

    /// Sets the events that should wake the engine.
    fn update_interest(&mut self, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let reads = if connection.is_paused() { EventFlags::empty() } else { EventFlags::IN };
        let writes = if connection.is_blocked { EventFlags::OUT } else { EventFlags::empty() };
        if connection.interest == reads | writes {
            return;
        }
        connection.interest = reads | writes;
        let (token, poller) = (u64::from(slot), &mut self.poller);
        let modified = match &connection.output {
            None => poller.modify(&connection.input, token, reads | writes),
            Some(output) => poller
                .modify(&connection.input, token, reads)
                .and_then(|()| poller.modify(output, token | TOKEN_OUTPUT, writes)),
        };
        if modified.is_err() {
            self.hang_up(slot);
        }
    }

    fn mark_dirty(&mut self, slot: u32) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Sends all pending replies, and closes connections that have ended.
    pub(super) fn send_all(&mut self) {
        while let Some(slot) = self.dirty.pop() {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.is_dirty = false;
            if connection.mode == Mode::Gone {
                self.close_if_done(slot);
                continue;
            }
            if connection.rings.is_some() {
                self.signal(slot);
                continue;
            }
            let (room, mut released) = (&mut self.room, 0);
            let sent = connection.send(|buffer| released += room.give_back(buffer));
            connection.note_sent(self.now, sent == Err(rustix::io::Errno::AGAIN));
            if released > 0 || sent.is_ok() {
                connection.moved = self.now;
            }
            self.release(slot, released);
            match sent {
                Ok(()) | Err(rustix::io::Errno::AGAIN) => {
                    self.note_stall(slot);
                    self.update_interest(slot);
                    self.mark_resumable(slot);
                    self.close_if_done(slot);
                }
                Err(_) => self.hang_up(slot),
            }
        }
    }

    /// A client that had to wait may continue, because it has less in flight than before.
    fn mark_resumable(&mut self, slot: u32) {
        if self.connections.get(slot).is_some_and(Connection::has_undecoded) {
            self.resumable.push(slot);
        }
    }

    /// Data of a client has been released, so clients that wait for room may continue.
    fn release(&mut self, slot: u32, bytes: u64) {
        if bytes > 0
            && let Some(connection) = self.connections.get_mut(slot)
        {
            self.room.release(connection.class, &mut connection.held_bytes, bytes);
            self.resumable.append(&mut self.starved);
        }
    }

    fn note_stall(&mut self, slot: u32) {
        if let Some((until, _)) = self.connections.get(slot).and_then(|connection| connection.limit(&self.timeouts)) {
            self.stall_check = self.stall_check.min(until);
        }
    }

    /// Disconnects clients that have left something unfinished, or sent no request, for too long.
    pub(super) fn check_stalls(&mut self) {
        if self.now < self.stall_check {
            return;
        }
        self.stall_check = Nanos::NEVER;
        for slot in self.slots() {
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.renew(self.now, &self.timeouts);
            }
        }
        let limits = self.connections.iter().map(|(slot, connection)| (slot, connection.limit(&self.timeouts)));
        let limits: Vec<_> = limits.filter_map(|(slot, limit)| Some((slot, limit?))).collect();
        for (slot, (until, kind)) in limits {
            if until <= self.now {
                let what = match kind {
                    EventKind::ClientIdle => "it asked for nothing for `idle_timeout`",
                    EventKind::ClientSlow => {
                        "it read its replies more slowly than `reading_rate_min` for `stall_timeout`"
                    }
                    _ => "it left a request half sent, or replies unread, for `stall_timeout`",
                };
                self.remark(slot, kind, what);
                self.hang_up(slot);
            } else {
                self.stall_check = self.stall_check.min(until);
            }
        }
    }

    /// Accepts no more requests of any client, and disconnects each when it has its replies.
    pub(super) fn drain_all(&mut self) {
        self.slots().into_iter().for_each(|slot| self.drain(slot));
    }

    /// Lets the clients of this export finish their requests, then disconnects them.
    pub(super) fn drain_export(&mut self, export: usize) {
        let its = self.connections.iter().filter(|(_, connection)| connection.agreed.export == export);
        let its: Vec<u32> = its.map(|(slot, _)| slot).collect();
        its.into_iter().for_each(|slot| self.drain(slot));
    }

    /// Disconnects all clients.
    pub(super) fn hang_up_all(&mut self) {
        self.slots().into_iter().for_each(|slot| self.hang_up(slot));
    }

    fn slots(&self) -> Vec<u32> {
        self.connections.iter().map(|(slot, _)| slot).collect()
    }

    /// Divides the memory among classes by their weights.
    pub(super) fn divide_room(&mut self, weights: &[u32]) {
        self.room.divide(weights);
        self.resumable.append(&mut self.starved);
    }

    /// The bytes that a class holds, and the number of its clients that wait until they may hold more.
    pub(super) fn room_of(&self, class: StreamId) -> (u64, u32) {
        let starved = self.starved.iter().filter_map(|&slot| self.connections.get(slot));
        let waiting = starved.filter(|connection| connection.class == class).count() as u32; // connections_max is a u32
        (self.room.held_by(class), waiting)
    }

    /// Reads no more from a client, answers its requests, and closes the connection.
    fn drain(&mut self, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.mode == Mode::Open {
            connection.mode = Mode::Draining;
            self.drop_incoming(slot);
        }
        self.update_interest(slot);
        self.mark_dirty(slot);
    }

    /// Disconnects a client at once: withdraws its queued sub-requests, and drops its replies.
    fn hang_up(&mut self, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.mode == Mode::Gone {
            return;
        }
        connection.mode = Mode::Gone;
        self.stop_watching(slot);
        self.drop_rings(slot);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let (room, mut released) = (&mut self.room, 0);
        std::mem::take(&mut connection.outbox).clear(|buffer| released += room.give_back(buffer));
        self.release(slot, released);
        self.drop_incoming(slot);
        // The connection's slot stays taken until the last of its requests has ended; the event waits for that.
        if self.connections.get(slot).is_some_and(|connection| connection.in_flight > 0) {
            self.events.push_back(Event::Gone(slot));
        }
        self.mark_dirty(slot);
    }

    /// Ends a write whose data will not come.
    fn drop_incoming(&mut self, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.waiting = None;
        let Some(incoming) = connection.incoming.take() else { return };
        if let Some(filling) = incoming.filling {
            let charge = self.room.give_back(filling.buffer);
            self.release(slot, charge);
        }
        if let Some(number) = incoming.request {
            if let Some(request) = self.requests.get_mut(number) {
                request.error = Some(NbdError::ShuttingDown);
            }
            self.end_sub_request(number);
        }
    }

    fn close_if_done(&mut self, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let is_done = match connection.mode {
            Mode::Open => false,
            Mode::Draining => connection.in_flight == 0 && connection.is_sent(),
            Mode::Gone => connection.in_flight == 0,
        };
        if is_done {
            debug_assert_eq!(connection.held_bytes, 0, "a client without requests holds no buffers");
            // A client that has hung up is not watched any more.
            if connection.mode == Mode::Draining {
                connection.close();
                self.stop_watching(slot);
                self.drop_rings(slot);
            }
            self.connections.remove(slot);
        }
    }

    /// Stops waiting for a client's sockets. Dropping them is not enough where others hold them open, as the thread of a monitor does: an event
    /// of the ended connection would be taken for one of the next client in the same slot.
    fn stop_watching(&mut self, slot: u32) {
        let Some(connection) = self.connections.get(slot) else { return };
        // An error means that a socket is not watched (any more), which is what is wanted.
        let _ = self.poller.delete(&connection.input);
        if let Some(output) = &connection.output {
            let _ = self.poller.delete(output);
        }
    }
}
