//! Decodes bytes into requests, checks them, and makes sub-requests of them.

use ioweir_core::Nanos;

use super::super::admission::SubRequest;
use super::connection::{Connection, Filling, Incoming, Mode};
use super::request::{ClientRequest, pieces};
use super::{Event, Sessions};
use crate::log::EventKind;
use crate::nbd::protocol::COMMAND_DF;
use crate::nbd::reply::Reply;
use crate::nbd::{Command, NbdError, Request};

impl Sessions {
    /// Decodes bytes that connections had to leave undecoded, as far as there is room now.
    pub(in super::super) fn resume_decoding(&mut self) {
        while let Some(slot) = self.resumable.pop() {
            self.decode(slot);
        }
    }

    /// Decodes the requests that were read, as far as there is room for them.
    pub(super) fn decode(&mut self, slot: u32) {
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
            match connection.next_request(self.turn) {
                Ok(Some(request)) => {
                    if !self.accept(slot, &request) {
                        break;
                    }
                }
                Ok(None) => break,
                Err(what) => return self.break_off(slot, &what),
            }
        }
        if self.connections.get(slot).is_some_and(Connection::has_ended) {
            // The socket itself has not ended, so epoll would not report it.
            return self.drain(slot);
        }
        self.end_taking(slot);
        self.note_stall(slot);
        self.update_interest(slot);
    }

    /// Disconnects a client that breaks the protocol.
    pub(super) fn break_off(&mut self, slot: u32, what: &str) {
        self.remark(slot, EventKind::ProtocolError, what);
        self.hang_up(slot);
    }

    /// Accepts a decoded request, or answers it at once; returns false if it must wait for a buffer.
    fn accept(&mut self, slot: u32, request: &Request) -> bool {
        let Some(connection) = self.connections.get_mut(slot) else { return true };
        let Request { command, offset, length, .. } = *request;
        if command == Command::Disconnect {
            self.drain(slot);
            return true;
        }
        let agreed = connection.agreed;
        let export = &self.exports[agreed.export];
        let mut checked = request.check(export, agreed.contexts);
        if request.has(COMMAND_DF) && command == Command::Read && !agreed.replies.has_chunks() {
            checked = checked.and(Err(NbdError::Invalid));
        }
        if let Err(error) = checked {
            self.refuse(slot, request, error);
            return true;
        }
        let (costs, base) = (self.costs, export.offset_bytes);
        let bytes_max = costs.request_bytes_max;
        // The range lies within the export, which lies within the device.
        let offset = base + offset;
        let has_rings = connection.rings.is_some();
        if command == Command::Read || (command == Command::Write && has_rings) {
            let pool = &self.room.pool;
            let charge = pieces(offset, length, bytes_max).map(|(_, length)| pool.charge(length as usize)).sum();
            if !self.room.take(connection.class, &mut connection.held_bytes, charge) {
                connection.waiting = Some(*request);
                self.starved.push(slot);
                return false;
            }
        }
        connection.in_flight += 1;
        connection.queries += u32::from(command == Command::BlockStatus);
        let number = self.requests.insert(ClientRequest::new(slot, connection.class.0, agreed.replies, base, request));
        match command {
            Command::Read => {
                for piece in pieces(offset, length, bytes_max) {
                    self.arrive(number, |request, now| request.sub_request(number, now, piece, None));
                }
            }
            Command::Write if has_rings => self.pull(slot, number, pieces(offset, length, bytes_max)),
            Command::Write if length > 0 => {
                connection.incoming =
                    Some(Incoming { request: Some(number), offset, left: request.payload, filling: None });
                return true;
            }
            Command::Flush => self.arrive(number, |request, now| request.sub_request(number, now, (base, 0), None)),
            Command::Trim | Command::WriteZeroes | Command::Cache if length > 0 => {
                self.arrive(number, |request, now| request.next_of_range(number, now, costs));
            }
            Command::BlockStatus => self.ask_status(number, agreed.contexts.after(None)),
            // A request without a length has no effect.
            _ => {}
        }
        self.end_sub_request(number);
        true
    }

    pub(super) fn arrive(&mut self, number: u32, make: impl FnOnce(&mut ClientRequest, Nanos) -> SubRequest) {
        if let Some(request) = self.requests.get_mut(number) {
            self.events.push_back(Event::Arrived(make(request, self.now)));
        }
    }

    /// Answers a request with an error; data that follows it is dropped.
    fn refuse(&mut self, slot: u32, request: &Request, error: NbdError) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Request { command, cookie, offset, payload, .. } = *request;
        self.events.push_back(Event::Refused(connection.class, error));
        if connection.rings.is_some() {
            return self.finish_in_ring(slot, cookie, Some(error));
        }
        let reply = Reply { replies: connection.agreed.replies, command, cookie, offset };
        connection.outbox.put(|out| reply.put_end(out, Some(error)));
        if payload > 0 {
            connection.incoming = Some(Incoming { request: None, offset, left: payload, filling: None });
        }
        self.mark_dirty(slot);
    }

    /// Moves data of the incoming write to its buffer; returns whether decoding can continue.
    fn fill(&mut self, slot: u32) -> bool {
        let bytes_max = self.costs.request_bytes_max;
        let Some(connection) = self.connections.get_mut(slot) else { return false };
        let Some(incoming) = &mut connection.incoming else { return true };
        if incoming.left == 0 && incoming.filling.is_none() {
            let request = connection.incoming.take().and_then(|incoming| incoming.request);
            if let Some(request) = request {
                self.end_sub_request(request);
            }
            return true;
        }
        if incoming.request.is_some() && incoming.filling.is_none() {
            let length = (bytes_max - incoming.offset % bytes_max).min(u64::from(incoming.left)) as usize;
            let charge = self.room.pool.charge(length);
            if !self.room.take(connection.class, &mut connection.held_bytes, charge) {
                self.starved.push(slot);
                return false;
            }
            incoming.filling = Some(Filling { buffer: self.room.pool.take(length), filled: 0 });
        }
        connection.fill_from_chunk();
        let is_empty = !connection.has_unread();
        let Some(incoming) = &mut connection.incoming else { return false };
        let Some(filling) = incoming.filling.take_if(|filling| filling.filled == filling.buffer.len()) else {
            return incoming.left == 0 || !is_empty;
        };
        let piece = (incoming.offset, filling.filled as u32);
        incoming.offset += filling.filled as u64;
        if let Some(number) = incoming.request {
            self.arrive(number, |request, now| request.sub_request(number, now, piece, Some(filling.buffer)));
        }
        true
    }
}
