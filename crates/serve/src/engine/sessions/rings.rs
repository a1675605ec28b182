//! Clients whose requests come from rings in a guest's memory, which take the place of a socket.

use ioweir_core::Nanos;
use rustix::event::epoll::EventFlags;

use super::{ClientRequest, Sessions, TOKEN_KICK};
use crate::buffer::Buffer;
use crate::nbd::NbdError;
use crate::vhost::{Effect, Order};

impl Sessions {
    /// Carries out an order of a client's monitor. If the client has left, the order is dropped, and its thread gets an error.
    pub(in super::super) fn carry_out(&mut self, client: u64, order: Order) {
        let found = self.connections.iter().find(|(_, connection)| connection.number == client);
        let Some(slot) = found.map(|(slot, _)| slot) else { return };
        let Some(rings) = self.connections.get_mut(slot).and_then(|connection| connection.rings.as_mut()) else {
            return;
        };
        match rings.carry_out(order) {
            Effect::None | Effect::Stopped(_) => {}
            Effect::Look => self.look(slot),
            Effect::Started(number) => {
                // Edge-triggered: each kick wakes the engine, and nothing has to be read.
                let flags = EventFlags::IN | EventFlags::ET;
                let kick = rings.kick(number);
                let token = u64::from(slot) | TOKEN_KICK;
                if kick.is_none_or(|kick| self.poller.add_descriptor(kick, token, flags).is_err()) {
                    return self.break_off(slot, "the kicks of a ring cannot be waited for");
                }
                // A kick may have come before, or there are requests that another server has left.
                self.look(slot);
            }
            Effect::Ended(Some(why)) => self.break_off(slot, &why),
            Effect::Ended(None) => self.hang_up(slot),
        }
    }

    /// Takes the requests that a guest offers.
    pub(super) fn look(&mut self, slot: u32) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.moved = self.now;
            self.decode(slot);
            self.end_stopped(slot);
        }
    }

    /// Notifies a guest of requests that were answered while others were taken. A guest that may take no more in this turn continues in the
    /// next one.
    pub(super) fn end_taking(&mut self, slot: u32) {
        let rings = self.connections.get(slot).and_then(|connection| connection.rings.as_ref());
        if rings.is_some_and(|rings| rings.has_answers()) {
            self.mark_dirty(slot);
        }
        let rings = self.connections.get(slot).and_then(|connection| connection.rings.as_ref());
        if rings.is_some_and(|rings| rings.is_sated(self.turn) && rings.has_more()) && !self.sated.contains(&slot) {
            self.sated.push(slot);
        }
    }

    pub(super) fn look_at_sated(&mut self) {
        std::mem::take(&mut self.sated).into_iter().for_each(|slot| self.decode(slot));
    }

    /// Copies the data of a write from the guest, piece by piece.
    pub(super) fn pull(&mut self, slot: u32, number: u32, mut pieces: impl Iterator<Item = (u64, u32)>) {
        let Some(start) = self.requests.get(number).map(|request| request.base + request.reply.offset) else { return };
        while let Some((offset, length)) = pieces.next() {
            let mut buffer = self.room.pool.take(length as usize);
            let Some(ClientRequest { reply, .. }) = self.requests.get(number) else { return };
            let connection = self.connections.get(slot);
            let rings = connection.and_then(|connection| connection.rings.as_ref());
            let pulled = rings.map_or(Ok(()), |rings| rings.pull(reply.cookie, offset - start, buffer.bytes_mut()));
            match pulled {
                Ok(()) => {
                    let make = |request: &mut ClientRequest, now: Nanos| {
                        request.sub_request(number, now, (offset, length), Some(buffer))
                    };
                    self.arrive(number, make);
                }
                Err(bad) => {
                    // Room was taken for all of it.
                    let rest: u64 = pieces.map(|(_, length)| self.room.pool.charge(length as usize)).sum();
                    let charge = self.room.give_back(buffer);
                    self.release(slot, charge + rest);
                    return self.break_off(slot, &bad.to_string());
                }
            }
        }
    }

    /// Copies data that was read to the guest, `at` bytes from the beginning of the request.
    pub(super) fn put_in_guest(&mut self, slot: u32, (cookie, at): (u64, u64), buffer: Buffer) {
        let rings = self.connections.get(slot).and_then(|connection| connection.rings.as_ref());
        let put = rings.map_or(Ok(()), |rings| rings.put(cookie, at, buffer.bytes()));
        let charge = self.room.give_back(buffer);
        self.release(slot, charge);
        if let Err(bad) = put {
            self.break_off(slot, &bad.to_string());
        }
    }

    /// Answers a request in its ring.
    pub(super) fn finish_in_ring(&mut self, slot: u32, cookie: u64, error: Option<NbdError>) {
        let Some(rings) = self.connections.get_mut(slot).and_then(|connection| connection.rings.as_mut()) else {
            return;
        };
        if let Err(bad) = rings.finish(cookie, error) {
            return self.break_off(slot, &bad.to_string());
        }
        self.mark_dirty(slot);
        self.end_stopped(slot);
    }

    /// Notifies a guest of its answers, and closes the connection if it has ended.
    pub(super) fn signal(&mut self, slot: u32) {
        let Some(rings) = self.connections.get_mut(slot).and_then(|connection| connection.rings.as_mut()) else {
            return;
        };
        if let Err(bad) = rings.signal() {
            return self.break_off(slot, &bad.to_string());
        }
        self.mark_resumable(slot);
        self.close_if_done(slot);
    }

    /// Ends the rings that are to stop and have answered everything.
    fn end_stopped(&mut self, slot: u32) {
        while let Some(rings) = self.connections.get_mut(slot).and_then(|connection| connection.rings.as_mut())
            && let Some(effect) = rings.next_stopped()
        {
            if let Effect::Stopped(kick) = effect {
                // The monitor keeps the descriptor open, so that closing it here would not remove it from the poller. It was added, so this
                // cannot fail.
                let _ = self.poller.delete_descriptor(kick);
            }
        }
    }

    /// Drops the rings of a client, and with them its connection.
    pub(super) fn drop_rings(&mut self, slot: u32) {
        let Some(rings) = self.connections.get_mut(slot).and_then(|connection| connection.rings.take()) else { return };
        for kick in rings.kicks() {
            // The monitor keeps the descriptor open, so that closing it here would not remove it from the poller.
            let _ = self.poller.delete_descriptor(kick);
        }
    }
}
