//! How does a request of a client become requests of the scheduler?

use ioweir_core::{
    Flags, Operation, RefusedCause, Request as CoreRequest, SECTOR_BYTES, Scheduler as _, StreamId, Tag,
};

use super::books::operation_of;
use super::connection::{GUARANTEED_BYTES, Incoming, Mode};
use super::{Call, Engine, Live, Part, Run};
use crate::backend::{Action, Io};
use crate::buffer::{Buffer, Buffers};
use crate::nbd::protocol::{COMMAND_DF, COMMAND_FUA, REQUEST_BYTES_MAX};
use crate::nbd::reply::Reply;
use crate::nbd::{Command, NbdError, Request};

/// What the scheduler is given at once of a range that is trimmed or zeroed: as much as a request with data can be.
const RANGE_PART_BYTES: u64 = REQUEST_BYTES_MAX as u64;
/// A hint is not taken further than this.
const CACHE_BYTES_MAX: u64 = REQUEST_BYTES_MAX as u64;

impl Engine {
    /// Takes a request in, or answers it at once; false where there is no room for it yet.
    pub(super) fn admit(&mut self, slot: u32, request: Request) -> bool {
        let Some(connection) = self.connections.get(slot) else { return true };
        let agreed = connection.agreed;
        let export = &self.settings.exports[agreed.export];
        let mut checked = request.check(export, agreed.allocation);
        if request.has(COMMAND_DF) && request.command == Command::Read {
            checked = checked.and(if agreed.replies.has_chunks() { Ok(()) } else { Err(NbdError::Invalid) });
        }
        match (request.command, checked) {
            (Command::Disconnect, _) => self.let_go(slot),
            (_, Err(error)) => {
                self.refuse(slot, &request, error);
                if request.payload > 0 {
                    self.expect_data(slot, None, &request);
                }
            }
            (Command::Read, Ok(())) if request.length > 0 => return self.admit_read(slot, &request),
            (Command::Write, Ok(())) if request.length > 0 => {
                let live = self.enlist(slot, &request);
                self.expect_data(slot, Some(live), &request);
            }
            (Command::BlockStatus | Command::Cache, Ok(())) if request.length > 0 => self.pass_by(slot, &request),
            (Command::Flush, Ok(())) => {
                let live = self.enlist(slot, &request);
                self.add_part(live, 0, 0, None);
                self.end_part(live);
            }
            (Command::Trim | Command::WriteZeroes, Ok(())) if request.length > 0 => {
                let live = self.enlist(slot, &request);
                self.add_range_part(live);
                self.end_part(live);
            }
            // Nothing is to be done to nothing.
            _ => {
                let live = self.enlist(slot, &request);
                self.end_part(live);
            }
        }
        true
    }

    fn admit_read(&mut self, slot: u32, request: &Request) -> bool {
        let Request { offset, length, .. } = *request;
        let charge = self.parts_of(offset, length).map(|(_, length)| self.pool.charge(length as usize)).sum();
        if !self.take_room(slot, charge) {
            return false;
        }
        let live = self.enlist(slot, request);
        for (offset, part_length) in self.parts_of(offset, length) {
            if let Some(live) = self.lives.get_mut(live) {
                live.is_split = u64::from(part_length) < length;
            }
            self.add_part(live, offset, part_length, None);
        }
        self.end_part(live);
        true
    }

    /// A range that is trimmed or zeroed goes on with the next turn, and not before: a device that is done at once would
    /// keep everybody waiting until all of it is.
    pub(super) fn hold_range(&mut self, number: u32) {
        if let Some(live) = self.lives.get_mut(number)
            && live.error.is_none()
        {
            live.parts_left += 1;
            self.ranges.push(number);
        }
    }

    /// Goes on with ranges, each by one part.
    pub(super) fn go_on_with_ranges(&mut self) {
        for number in std::mem::take(&mut self.ranges) {
            let live = self.lives.get(number);
            let connection = live.and_then(|live| self.connections.get(live.connection));
            if connection.is_some_and(|connection| connection.mode != Mode::Gone) {
                self.add_range_part(number);
            }
            self.end_part(number);
        }
    }

    /// However long a range is, one part of it is on its way: others get their turn in between, and nothing is kept of what
    /// is still to come but where it begins.
    fn add_range_part(&mut self, number: u32) {
        let Some(live) = self.lives.get_mut(number) else { return };
        let offset = live.offset + (live.length - live.range_left);
        let length = (RANGE_PART_BYTES - offset % RANGE_PART_BYTES).min(live.range_left);
        live.range_left -= length;
        self.add_part(number, offset, length as u32, None);
    }

    /// Cut at multiples of the largest request, so that the parts of what is aligned are aligned.
    fn parts_of(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, u32)> + use<> {
        let bytes_max = self.settings.device.request_bytes_max.0;
        let end = offset + length;
        let mut at = offset;
        std::iter::from_fn(move || {
            let taken = (bytes_max - at % bytes_max).min(end - at);
            let part = (at, taken as u32);
            at += taken;
            (taken > 0).then_some(part)
        })
    }

    /// A request that is on its way from now on. It ends with its last part; until [`Engine::end_part`] is called once more
    /// than parts were added, it goes on.
    fn enlist(&mut self, slot: u32, request: &Request) -> u32 {
        let mut class = 0;
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.in_flight += 1;
            class = connection.class.0;
        }
        let Request { command, flags, cookie, offset, length, .. } = *request;
        let is_range = matches!(command, Command::Trim | Command::WriteZeroes);
        self.lives.insert(Live {
            connection: slot,
            class,
            command,
            operation: operation_of(command),
            flags,
            cookie,
            offset,
            length,
            arrived: None,
            range_left: if is_range { length } else { 0 },
            parts_left: 1,
            is_split: false,
            error: None,
            gathered: Vec::new(),
        })
    }

    fn expect_data(&mut self, slot: u32, live: Option<u32>, request: &Request) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.incoming = Some(Incoming { live, offset: request.offset, left: request.payload, part: None });
        }
    }

    /// A part of a write whose data is there.
    pub(super) fn add_written(&mut self, live: u32, offset: u64, buffer: Buffer) {
        self.add_part(live, offset, buffer.len() as u32, Some(buffer));
    }

    fn add_part(&mut self, number: u32, offset: u64, length: u32, buffer: Option<Buffer>) {
        let Some(live) = self.lives.get_mut(number) else { return };
        live.parts_left += 1;
        live.arrived.get_or_insert(self.now);
        let operation = live.operation.unwrap_or(Operation::Read);
        let (class, arrived) = (live.class, self.now);
        let part =
            Part { live: number, class, operation, arrived, dispatched: None, offset, length, buffer, tag: None };
        let Some(request) = self.core_request(&part) else { return };
        let direction = operation.direction() as usize;
        if !self.held[direction].is_empty() {
            self.books.arrived(self.now, &part, true);
            return self.held[direction].push_back(part);
        }
        match self.submit(request) {
            Ok(tag) => {
                self.books.arrived(self.now, &part, false);
                self.keep(part, tag);
            }
            Err(RefusedCause::Full) => {
                self.books.arrived(self.now, &part, true);
                self.held[direction].push_back(part);
            }
            Err(RefusedCause::Split(sectors)) => {
                self.split(part, request, sectors);
                self.submit_held();
            }
            Err(RefusedCause::TooLarge | RefusedCause::AtLimit(_)) => {
                self.finish_part(part, None, Err(NbdError::Invalid));
            }
        }
    }

    /// What the scheduler is told: whole sectors. FUA is kept from it; see the head of this module's parent.
    fn core_request(&self, part: &Part) -> Option<CoreRequest> {
        let live = self.lives.get(part.live)?;
        let flags = if live.flags & COMMAND_FUA != 0 { Flags::SYNC } else { Flags::NONE };
        let sector = part.offset / SECTOR_BYTES;
        let end = (part.offset + u64::from(part.length)).div_ceil(SECTOR_BYTES);
        // A part is shorter than 4 GiB.
        let (stream, sectors) = (StreamId(part.class), (end - sector) as u32);
        Some(CoreRequest { operation: part.operation, flags, stream, sector, sectors })
    }

    /// No class of a server is refused at its limit: requests wait. What is too large or on two devices cannot be.
    fn submit(&mut self, request: CoreRequest) -> Result<Tag, RefusedCause> {
        let submitted = self.scheduler.submit(self.now, request);
        self.called(&Call::Submit(request, submitted));
        submitted.map_err(|refused| refused.cause)
    }

    fn keep(&mut self, mut part: Part, tag: Tag) {
        part.tag = Some(tag);
        self.parts[tag.index()] = Some(part);
    }

    /// Holds a part that lies on two devices as two, ahead of all that is held.
    fn split(&mut self, mut part: Part, request: CoreRequest, sectors: u32) {
        let rest = self.cut(&mut part, (request.sector + u64::from(sectors)) * SECTOR_BYTES);
        self.books.arrived(self.now, &part, true);
        self.books.arrived(self.now, &rest, true);
        let held = &mut self.held[request.operation.direction() as usize];
        held.push_front(rest);
        held.push_front(part);
    }

    /// Cuts a part that lies on two devices at a place within it, and gives what is behind.
    fn cut(&mut self, part: &mut Part, at: u64) -> Part {
        let length = (at - part.offset) as u32;
        let rest_length = part.length - length;
        let mut rest = Part { offset: at, length: rest_length, buffer: None, arrived: self.now, ..*part };
        let charge = |length: u32| self.pool.charge(length as usize);
        let (mut more, mut less) = (0, 0);
        let Some(live) = self.lives.get_mut(part.live) else { return rest };
        live.parts_left += 1;
        live.is_split = true;
        let slot = live.connection;
        if live.command == Command::Read {
            (more, less) = (charge(length) + charge(rest_length), charge(part.length));
        }
        if let Some(buffer) = &mut part.buffer {
            more = charge(rest_length);
            let mut behind = self.pool.take(rest_length as usize);
            behind.bytes_mut().copy_from_slice(&buffer.bytes()[length as usize..]);
            buffer.truncate(length as usize);
            rest.buffer = Some(behind);
        }
        part.length = length;
        // What was let in is not held back again: the buffer behind a cut may go past what a client may hold, by its size.
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.held_bytes = connection.held_bytes + more - less;
            self.buffer_bytes = self.buffer_bytes + more - less;
        }
        rest
    }

    /// Lets those in that found no room before.
    pub(super) fn submit_held(&mut self) {
        for direction in 0..self.held.len() {
            while let Some(part) = self.held[direction].pop_front() {
                let Some(request) = self.core_request(&part) else { continue };
                match self.submit(request) {
                    Ok(tag) => {
                        self.books.let_in(self.now, part.class);
                        self.keep(part, tag);
                    }
                    Err(RefusedCause::Full) => {
                        self.held[direction].push_front(part);
                        break;
                    }
                    Err(RefusedCause::Split(sectors)) => {
                        self.books.withdrawn(self.now, &part);
                        self.split(part, request, sectors);
                    }
                    Err(RefusedCause::TooLarge | RefusedCause::AtLimit(_)) => {
                        self.books.withdrawn(self.now, &part);
                        self.finish_part(part, None, Err(NbdError::Invalid));
                    }
                }
            }
        }
    }

    /// Begins what asks nothing of the device but to know something, or to prepare.
    fn pass_by(&mut self, slot: u32, request: &Request) {
        let live = self.enlist(slot, request);
        let (action, length) = match request.command {
            Command::Cache => (Action::Cache, request.length.min(CACHE_BYTES_MAX)),
            _ => (Action::Extents, request.length),
        };
        let io = Io {
            id: self.runs.insert(Run::Beside(live)),
            action,
            offset: request.offset,
            length,
            durable: false,
            dispatch: None,
            buffers: Buffers::None,
        };
        self.start(io);
    }

    fn refuse(&mut self, slot: u32, request: &Request, error: NbdError) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        self.books.refused(connection.class.0, error);
        let Request { command, cookie, offset, .. } = *request;
        let reply = Reply { replies: connection.agreed.replies, command, cookie, offset };
        connection.outbox.put(|out| reply.put_end(out, Some(error)));
        self.mark_dirty(slot);
    }

    /// Lets a client hold so much more data: a little always, more as far as all together stay within bounds.
    pub(super) fn take_room(&mut self, slot: u32, bytes: u64) -> bool {
        let Some(connection) = self.connections.get_mut(slot) else { return false };
        let most = self.settings.device.buffer_bytes_max.0;
        let held = connection.held_bytes + bytes;
        let is_shared = held <= most / 2 && self.buffer_bytes + bytes <= most;
        if held > GUARANTEED_BYTES && !is_shared {
            self.starved.push(slot);
            return false;
        }
        connection.held_bytes = held;
        self.buffer_bytes += bytes;
        true
    }

    /// Data has left: those who wait for room may go on.
    pub(super) fn release(&mut self, slot: u32, bytes: u64) {
        if bytes > 0
            && let Some(connection) = self.connections.get_mut(slot)
        {
            connection.held_bytes -= bytes;
            self.buffer_bytes -= bytes;
            self.resumable.append(&mut self.starved);
        }
    }
}
