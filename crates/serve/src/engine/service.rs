//! How does a connection come, speak, stall and go?

use ioweir_core::{Nanos, Scheduler as _};
use rustix::event::epoll::{self, EventFlags};

use super::connection::{Client, Connection, Filling, Mode, Received};
use super::{Call, Engine, TOKEN_OUTPUT};

impl Engine {
    /// Takes a client in. One whose descriptors cannot be waited for is closed.
    pub fn connect(&mut self, client: Client) {
        let class = client.class.0;
        let slot = self.connections.insert(Connection::new(client, self.now));
        self.books.connected(class);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.interest = EventFlags::IN;
        let mut watched =
            epoll::add(&self.epoll, &connection.input, epoll::EventData::new_u64(u64::from(slot)), EventFlags::IN);
        if let Some(output) = &connection.output {
            let token = u64::from(slot) | TOKEN_OUTPUT;
            let data = epoll::EventData::new_u64(token);
            watched = watched.and(epoll::add(&self.epoll, output, data, EventFlags::empty()));
        }
        if watched.is_err() {
            return self.abandon(slot);
        }
        if !connection.outbox.is_empty() {
            self.mark_dirty(slot);
        }
        // Something may have come in already.
        self.digest(slot);
    }

    /// A socket can be read, or written, or has come to its end.
    pub(super) fn serve_socket(&mut self, slot: u32, flags: EventFlags) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let is_writable = flags.contains(EventFlags::OUT);
        connection.is_blocked &= !is_writable;
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            // Where the answers go elsewhere, the end of the requests is not yet that of the client.
            let hung_up = connection.output.is_none() && flags.intersects(EventFlags::HUP | EventFlags::ERR);
            self.read_socket(slot, hung_up);
        }
        if is_writable {
            self.mark_dirty(slot);
        }
    }

    fn read_socket(&mut self, slot: u32, hung_up: bool) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.is_paused() {
            // Nobody reads what it would be answered, or it can wait without waking us.
            return if hung_up { self.abandon(slot) } else { self.update_interest(slot) };
        }
        match connection.receive() {
            Received::Bytes => {
                connection.moved = self.now;
                self.digest(slot);
            }
            Received::Nothing => self.say_more(slot),
            Received::End if hung_up => self.abandon(slot),
            Received::End => self.let_go(slot),
            Received::Broken => self.abandon(slot),
        }
    }

    /// TLS may have something to say though there is no answer.
    fn say_more(&mut self, slot: u32) {
        if self.connections.get(slot).is_some_and(Connection::has_unsent_records) {
            self.mark_dirty(slot);
        }
    }

    /// Takes the requests out of what was read, as far as there is room for them.
    pub(super) fn digest(&mut self, slot: u32) {
        loop {
            let Some(connection) = self.connections.get_mut(slot) else { return };
            if connection.mode != Mode::Open {
                break;
            }
            if connection.incoming.is_some() {
                if !self.fill(slot) {
                    break;
                }
                continue;
            }
            if connection.in_flight >= super::connection::REQUESTS_MAX || connection.outbox.is_overfull() {
                break;
            }
            let request = match connection.waiting.take() {
                Some(request) => request,
                None => match connection.next_request() {
                    Ok(Some(request)) => request,
                    Ok(None) => break,
                    Err(_) => return self.abandon(slot),
                },
            };
            if !self.admit(slot, request) {
                if let Some(connection) = self.connections.get_mut(slot) {
                    connection.waiting = Some(request);
                }
                break;
            }
        }
        if self.connections.get(slot).is_some_and(|its| its.has_ended() && !its.has_unread() && its.waiting.is_none()) {
            // There is no end of the socket's to wake us with.
            return self.let_go(slot);
        }
        self.note_stall(slot);
        self.update_interest(slot);
    }

    /// Takes data of a write in; answers whether to go on.
    fn fill(&mut self, slot: u32) -> bool {
        let bytes_max = self.settings.device.request_bytes_max.0;
        let Some(connection) = self.connections.get_mut(slot) else { return false };
        let Some(incoming) = &mut connection.incoming else { return true };
        if incoming.left == 0 && incoming.part.is_none() {
            let live = connection.incoming.take().and_then(|incoming| incoming.live);
            if let Some(live) = live {
                self.end_part(live);
            }
            return true;
        }
        if incoming.live.is_some() && incoming.part.is_none() {
            let room = bytes_max - incoming.offset % bytes_max;
            let length = room.min(u64::from(incoming.left)) as usize;
            let charge = self.pool.charge(length);
            if !self.take_room(slot, charge) {
                return false;
            }
            let buffer = self.pool.take(length);
            let Some(connection) = self.connections.get_mut(slot) else { return false };
            if let Some(incoming) = &mut connection.incoming {
                incoming.part = Some(Filling { buffer, filled: 0 });
            }
        }
        let Some(connection) = self.connections.get_mut(slot) else { return false };
        connection.fill_from_chunk();
        let is_empty = !connection.has_unread();
        let Some(incoming) = &mut connection.incoming else { return false };
        if let Some(filling) = incoming.part.take_if(|filling| filling.filled == filling.buffer.len()) {
            let (live, offset) = (incoming.live, incoming.offset);
            incoming.offset += filling.filled as u64;
            if let Some(live) = live {
                self.add_written(live, offset, filling.buffer);
            }
            return true;
        }
        incoming.left == 0 || !is_empty
    }

    /// Tells epoll what is worth a wake-up.
    pub(super) fn update_interest(&mut self, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let reads = if connection.is_paused() { EventFlags::empty() } else { EventFlags::IN };
        let writes = if connection.is_blocked { EventFlags::OUT } else { EventFlags::empty() };
        if connection.interest == reads | writes {
            return;
        }
        connection.interest = reads | writes;
        let data = u64::from(slot);
        let told = match &connection.output {
            None => epoll::modify(&self.epoll, &connection.input, epoll::EventData::new_u64(data), reads | writes),
            Some(output) => epoll::modify(&self.epoll, &connection.input, epoll::EventData::new_u64(data), reads)
                .and(epoll::modify(&self.epoll, output, epoll::EventData::new_u64(data | TOKEN_OUTPUT), writes)),
        };
        if told.is_err() {
            self.abandon(slot);
        }
    }

    pub(super) fn mark_dirty(&mut self, slot: u32) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Sends what there is to send, and closes what has come to its end.
    pub(super) fn send_all(&mut self) {
        while let Some(slot) = self.dirty.pop() {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.is_dirty = false;
            if connection.mode == Mode::Gone {
                self.close_if_done(slot);
                continue;
            }
            let (pool, mut released) = (&mut self.pool, 0);
            let sent = connection.send(|buffer| {
                released += pool.charge(buffer.capacity());
                pool.give(buffer);
            });
            connection.is_blocked = sent == Err(rustix::io::Errno::AGAIN);
            if released > 0 || sent.is_ok() {
                connection.moved = self.now;
            }
            self.release(slot, released);
            match sent {
                Ok(()) | Err(rustix::io::Errno::AGAIN) => {
                    self.note_stall(slot);
                    self.update_interest(slot);
                    self.resume(slot);
                    self.close_if_done(slot);
                }
                Err(_) => self.abandon(slot),
            }
        }
    }

    /// A client that was held back may go on: there is less on its way than before.
    pub(super) fn resume(&mut self, slot: u32) {
        if let Some(connection) = self.connections.get(slot)
            && (connection.has_unread() || connection.waiting.is_some())
        {
            self.resumable.push(slot);
        }
    }

    fn note_stall(&mut self, slot: u32) {
        if let Some(connection) = self.connections.get(slot)
            && connection.owes()
        {
            self.stall_check = self.stall_check.min(connection.moved.after(self.settings.stall_timeout));
        }
    }

    /// Cuts off who has left something half done for too long.
    pub(super) fn check_stalls(&mut self) {
        if self.now < self.stall_check {
            return;
        }
        self.stall_check = Nanos::NEVER;
        let timeout = self.settings.stall_timeout;
        let owing = self.connections.iter().filter(|(_, connection)| connection.owes());
        let owing: Vec<_> = owing.map(|(slot, connection)| (slot, connection.moved.after(timeout))).collect();
        for (slot, until) in owing {
            if until <= self.now { self.abandon(slot) } else { self.stall_check = self.stall_check.min(until) }
        }
    }

    /// Reads no more from a client, answers what it has asked, and closes.
    pub(super) fn let_go(&mut self, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.mode == Mode::Open {
            connection.mode = Mode::Draining;
            self.drop_incoming(slot);
        }
        self.update_interest(slot);
        self.mark_dirty(slot);
    }

    /// A write whose data will not come is forgotten.
    fn drop_incoming(&mut self, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.waiting = None;
        let Some(incoming) = connection.incoming.take() else { return };
        if let Some(filling) = incoming.part {
            let charge = self.pool.charge(filling.buffer.capacity());
            self.pool.give(filling.buffer);
            self.release(slot, charge);
        }
        if let Some(live) = incoming.live {
            if let Some(live) = self.lives.get_mut(live) {
                live.error = Some(crate::nbd::NbdError::ShuttingDown);
            }
            self.end_part(live);
        }
    }

    /// Nobody listens any more: takes back what is queued, and forgets what would be sent.
    pub(super) fn abandon(&mut self, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.mode == Mode::Gone {
            return;
        }
        connection.mode = Mode::Gone;
        // Gone from epoll before the descriptor's number can be used again. It may never have been there.
        let _ = epoll::delete(&self.epoll, &connection.input);
        if let Some(output) = &connection.output {
            let _ = epoll::delete(&self.epoll, output);
        }
        let mut released = 0;
        let (mut outbox, pool) = (std::mem::take(&mut connection.outbox), &mut self.pool);
        outbox.clear(|buffer| {
            released += pool.charge(buffer.capacity());
            pool.give(buffer);
        });
        self.release(slot, released);
        self.drop_incoming(slot);
        self.cancel_queued(slot);
        self.mark_dirty(slot);
    }

    fn cancel_queued(&mut self, slot: u32) {
        let lives = &self.lives;
        let is_its = |live: u32| lives.get(live).is_some_and(|live| live.connection == slot);
        let queued: Vec<_> =
            self.parts.iter().flatten().filter(|part| is_its(part.live)).filter_map(|part| part.tag).collect();
        let mut taken_back = Vec::new();
        for held in &mut self.held {
            let (its, others): (Vec<_>, _) = std::mem::take(held).into_iter().partition(|part| is_its(part.live));
            *held = others.into();
            taken_back.extend(its);
        }
        for tag in queued {
            let cancelled = self.scheduler.cancel(self.now, tag);
            self.called(&Call::Cancel(tag, cancelled));
            if cancelled.is_ok()
                && let Some(part) = self.parts[tag.index()].take()
            {
                taken_back.push(part);
            }
        }
        for part in taken_back {
            self.books.withdrawn(self.now, &part);
            self.finish_part(part, None, Err(crate::nbd::NbdError::ShuttingDown));
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
            debug_assert_eq!(connection.held_bytes, 0, "who has nothing on its way holds no buffers");
            self.books.disconnected(connection.class.0);
            if connection.mode == Mode::Draining {
                connection.close();
            }
            self.connections.remove(slot);
        }
    }
}
