//! Turns the results of sub-requests into replies.

use super::super::admission::SubRequest;
use super::connection::Mode;
use super::{ClientRequest, Event, Sessions};
use crate::backend::{Action, Outcome};
use crate::buffer::Buffer;
use crate::nbd::protocol::COMMAND_REQUEST_ONE;
use crate::nbd::reply::Extent;
use crate::nbd::{Command, NbdError};

impl Sessions {
    /// Ends a sub-request that was completed or withdrawn. Data that was read is sent, or kept until the rest is there.
    pub(in super::super) fn finish(&mut self, sub_request: SubRequest, result: Result<Outcome, NbdError>) {
        let SubRequest { request: number, action, offset, length, buffer, .. } = sub_request;
        let Some(request) = self.requests.get_mut(number) else { return };
        let slot = request.connection;
        if action.queries() {
            self.answer_query(number, result);
            return self.end_sub_request(number);
        }
        // A failed read-ahead is no error for its client, because it is only a hint.
        if let (Err(error), false) = (&result, action == Action::Cache) {
            request.error.get_or_insert(*error);
        }
        let has_failed = request.error.is_some();
        let is_heard = self.connections.get(slot).is_some_and(|connection| connection.mode != Mode::Gone);
        match buffer {
            Some(buffer) if action == Action::Read && is_heard && !has_failed => {
                self.answer_read(number, offset, buffer, result == Ok(Outcome::Hole));
            }
            Some(buffer) => self.give_back(slot, buffer),
            // Room for a read is taken before it begins.
            None if action == Action::Read => self.release(slot, self.room.pool.charge(length as usize)),
            None => {}
        }
        self.continue_range(number, is_heard && !has_failed);
        self.end_sub_request(number);
    }

    /// Cuts a sub-request in two at an offset within it, and returns the second part.
    pub(in super::super) fn cut(&mut self, sub_request: &mut SubRequest, at: u64) -> SubRequest {
        let first_length = (at - sub_request.offset) as u32;
        let rest_length = sub_request.length - first_length;
        let pool = &mut self.room.pool;
        let (whole, [first, rest]) = (
            pool.charge(sub_request.length as usize),
            [first_length, rest_length].map(|length| pool.charge(length as usize)),
        );
        let mut second =
            SubRequest { offset: at, length: rest_length, buffer: None, arrived: self.now, tag: None, ..*sub_request };
        let mut more = 0;
        if let Some(buffer) = &mut sub_request.buffer {
            let mut copy = pool.take(rest_length as usize);
            copy.bytes_mut().copy_from_slice(&buffer.bytes()[first_length as usize..]);
            buffer.truncate(first_length as usize);
            second.buffer = Some(copy);
            more = rest;
        }
        sub_request.length = first_length;
        if let Some(request) = self.requests.get_mut(sub_request.request) {
            request.pending += 1;
            request.is_split = true;
        }
        // A request that was admitted is not held back again, so its second buffer may exceed what a client may hold.
        if let Some(connection) = self.connections.get_mut(sub_request.connection) {
            if sub_request.action == Action::Read {
                self.room.release(connection.class, &mut connection.held_bytes, whole);
                more = first + rest;
            }
            self.room.add(connection.class, &mut connection.held_bytes, more);
        }
        second
    }

    /// A range continues in the next turn and not before: with a device that completes at once, all other clients would wait
    /// for the whole range.
    fn continue_range(&mut self, number: u32, may: bool) {
        if let Some(request) = self.requests.get_mut(number)
            && may
            && request.range_left > 0
        {
            request.pending += 1;
            self.ranges.push(number);
        }
    }

    /// Continues each range by one sub-request.
    pub(in super::super) fn continue_ranges(&mut self) {
        self.look_at_sated();
        for number in std::mem::take(&mut self.ranges) {
            let slot = self.requests.get(number).map(|request| request.connection);
            let connection = slot.and_then(|slot| self.connections.get(slot));
            if connection.is_some_and(|connection| connection.mode != Mode::Gone) {
                let costs = self.costs;
                self.arrive(number, |request, now| request.next_of_range(number, now, costs));
            }
            self.end_sub_request(number);
        }
    }

    fn give_back(&mut self, slot: u32, buffer: Buffer) {
        let charge = self.room.give_back(buffer);
        self.release(slot, charge);
    }

    /// Sends a piece of a read, or keeps it until the rest is there.
    fn answer_read(&mut self, number: u32, offset: u64, mut buffer: Buffer, is_hole: bool) {
        let Some(request) = self.requests.get_mut(number) else { return };
        let Some(connection) = self.connections.get_mut(request.connection) else { return };
        if !request.sends_chunks() {
            if is_hole {
                buffer.bytes_mut().fill(0);
            }
            if connection.rings.is_some() {
                let (slot, cookie, at) = (request.connection, request.reply.cookie, offset - request.base);
                let at = at - request.reply.offset;
                return self.put_in_guest(slot, (cookie, at), buffer);
            }
            return request.gathered.push((offset, buffer));
        }
        let (reply, slot, offset) = (request.reply, request.connection, offset - request.base);
        let (is_last, length) = (request.pending == 1, buffer.len() as u32);
        if is_hole {
            connection.outbox.put(|out| reply.put_hole(out, is_last, offset, length));
            self.give_back(slot, buffer);
        } else {
            connection.outbox.put(|out| reply.put_data(out, is_last, offset, length));
            connection.outbox.put_data(buffer);
        }
    }

    /// Counts one sub-request less; after the last one, the request is answered.
    pub(super) fn end_sub_request(&mut self, number: u32) {
        let Some(request) = self.requests.get_mut(number) else { return };
        request.pending -= 1;
        if request.pending == 0
            && let Some(request) = self.requests.remove(number)
        {
            self.answer(request);
        }
    }

    fn answer(&mut self, request: ClientRequest) {
        let slot = request.connection;
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.in_flight -= 1;
        connection.queries -= u32::from(request.reply.command == Command::BlockStatus);
        if connection.mode != Mode::Gone {
            let answered = request.answered();
            connection.done = (connection.done.0 + 1, connection.done.1 + answered.result.unwrap_or(0));
            self.events.push_back(Event::Answered(answered));
        }
        let ClientRequest { reply, error, length, mut gathered, .. } = request;
        if connection.rings.is_some() {
            self.finish_in_ring(slot, reply.cookie, error);
            return self.mark_resumable(slot);
        }
        match (reply.command, error) {
            _ if connection.mode == Mode::Gone => {
                gathered.into_iter().for_each(|(_, buffer)| self.give_back(slot, buffer))
            }
            (Command::Read, None) if length > 0 => {
                // If the data was sent in chunks, there are no gathered buffers.
                if !gathered.is_empty() {
                    gathered.sort_by_key(|(offset, _)| *offset);
                    // A read is no longer than the longest request with data.
                    connection.outbox.put(|out| reply.put_data(out, true, reply.offset, length as u32));
                    gathered.into_iter().for_each(|(_, buffer)| connection.outbox.put_data(buffer));
                }
            }
            // The extents were sent before, the last of them marked as the end of the reply.
            (Command::BlockStatus, None) => {}
            (_, error) => {
                connection.outbox.put(|out| reply.put_end(out, error));
                gathered.into_iter().for_each(|(_, buffer)| self.give_back(slot, buffer));
            }
        }
        self.mark_dirty(slot);
        self.mark_resumable(slot);
    }

    /// Answers a query of a client about the device.
    fn answer_query(&mut self, number: u32, result: Result<Outcome, NbdError>) {
        let Some(request) = self.requests.get(number) else { return };
        let (Some(context), length) = (request.context, request.length) else { return };
        let extents = match result {
            Ok(Outcome::Extents(extents)) if !extents.is_empty() => Ok(extents),
            Ok(_) => Ok(vec![Extent { length, state: 0 }]),
            Err(error) => Err(error),
        };
        self.answer_status(number, context, extents);
    }

    /// Asks the device for the block status of a request in a metadata context.
    pub(super) fn ask_status(&mut self, number: u32, context: Option<u32>) {
        let Some(request) = self.requests.get_mut(number) else { return };
        request.context = context;
        if context.is_some() {
            self.arrive(number, |request, now| request.query(number, now));
        }
    }

    /// Answers a request for block status for one metadata context, and begins the query for the next one.
    fn answer_status(&mut self, number: u32, context: u32, extents: Result<Vec<Extent>, NbdError>) {
        let Some(request) = self.requests.get_mut(number) else { return };
        let (slot, reply, flags) = (request.connection, request.reply, request.flags);
        let extents = match extents {
            Ok(extents) => extents,
            Err(error) => {
                request.error = Some(error);
                return;
            }
        };
        // A reply that is never read would keep the connection open.
        let listener = self.connections.get_mut(slot).filter(|connection| connection.mode != Mode::Gone);
        let Some(connection) = listener else { return };
        let next = connection.agreed.contexts.after(Some(context));
        let count = if flags & COMMAND_REQUEST_ONE == 0 { extents.len() } else { 1 };
        connection.outbox.put(|out| reply.put_extents(out, next.is_none(), context, &extents[..count]));
        self.mark_dirty(slot);
        if next.is_some() {
            self.ask_status(number, next);
        }
    }
}
