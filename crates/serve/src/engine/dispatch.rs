//! What happens to what the scheduler dispatches, and how is it answered?

use ioweir_core::{Dispatch, Nanos, Operation, SECTOR_BYTES, Scheduler as _, Step, Tag};

use super::{Call, Engine, Part, Run, Stopping, Unit};
use crate::backend::{Action, Done, Io, Outcome, part_of};
use crate::buffer::{ALIGNMENT_BYTES, Buffer, Buffers};
use crate::nbd::protocol::{COMMAND_DF, COMMAND_FAST_ZERO, COMMAND_FUA, COMMAND_NO_HOLE, COMMAND_REQUEST_ONE};
use crate::nbd::reply::{Extent, Reply};
use crate::nbd::{Command, NbdError};

const SECTORS_PER_BLOCK: u64 = ALIGNMENT_BYTES as u64 / SECTOR_BYTES;

impl Unit {
    fn new(dispatch: Dispatch) -> Self {
        let end = (dispatch.sector + u64::from(dispatch.sectors)).div_ceil(SECTORS_PER_BLOCK);
        let writes = matches!(dispatch.operation, Operation::Write | Operation::Discard);
        Self { dispatch, blocks: (dispatch.sector / SECTORS_PER_BLOCK, end), writes, runs_left: 0 }
    }

    const fn conflicts(&self, other: &Self) -> bool {
        (self.writes || other.writes) && self.blocks.0 < other.blocks.1 && other.blocks.0 < self.blocks.1
    }
}

impl Engine {
    /// Asks the scheduler until it waits.
    pub(super) fn drain(&mut self) {
        loop {
            let step = self.scheduler.poll(self.now);
            self.called(&Call::Poll(step));
            match step {
                Step::Dispatch(dispatch) => {
                    self.note_dispatch(&dispatch);
                    let unit = Unit::new(dispatch);
                    let conflicts = self.conflicts(&unit, self.deferred.len());
                    let unit = self.units.insert(unit);
                    if conflicts { self.deferred.push_back(unit) } else { self.begin(unit) }
                }
                Step::WaitUntil(time, _) => {
                    self.timer = time;
                    return;
                }
                Step::Idle => {
                    self.timer = Nanos::NEVER;
                    return;
                }
            }
        }
    }

    fn note_dispatch(&mut self, dispatch: &Dispatch) {
        let mut tag = Some(dispatch.tag);
        while let Some(member) = tag {
            if let Some(part) = self.parts.get_mut(member.index()).and_then(Option::as_mut) {
                self.books.dispatched(self.now, part);
            }
            tag = if dispatch.members == 1 { None } else { self.scheduler.next_member(member) };
        }
    }

    /// Whether a unit overlaps one that is with the backend, or one of the first `ahead` that wait to be.
    fn conflicts(&self, unit: &Unit, ahead: usize) -> bool {
        let waiting = self.deferred.iter().take(ahead);
        self.busy.iter().chain(waiting).filter_map(|&other| self.units.get(other)).any(|other| unit.conflicts(other))
    }

    /// Begins what no longer overlaps anything, in the order in which it was dispatched.
    pub(super) fn begin_deferred(&mut self) {
        let mut at = 0;
        while let Some(&unit) = self.deferred.get(at) {
            if self.units.get(unit).is_some_and(|unit| self.conflicts(unit, at)) {
                at += 1;
            } else {
                self.deferred.remove(at);
                self.begin(unit);
            }
        }
    }

    fn begin(&mut self, unit: u32) {
        let Some(&Unit { dispatch, .. }) = self.units.get(unit) else { return };
        self.busy.push(unit);
        if dispatch.members == 1 {
            self.set_runs(unit, 1);
            return self.begin_one(unit, &dispatch);
        }
        let mut tags: Vec<Tag> =
            std::iter::successors(Some(dispatch.tag), |&tag| self.scheduler.next_member(tag)).collect();
        tags.sort_by_key(|tag| self.part(*tag).map_or(0, |part| part.offset));
        // What is adjacent in sectors may have a gap in bytes.
        let mut runs: Vec<Vec<Tag>> = Vec::new();
        let mut end = None;
        for tag in tags {
            let Some(part) = self.part(tag) else { continue };
            let (offset, next) = (part.offset, part.offset + u64::from(part.length));
            match runs.last_mut() {
                Some(run) if end == Some(offset) => run.push(tag),
                _ => runs.push(vec![tag]),
            }
            end = Some(next);
        }
        self.set_runs(unit, runs.len() as u32);
        for tags in runs {
            self.begin_run(unit, &dispatch, tags);
        }
    }

    pub(super) fn start(&mut self, io: Io) {
        self.has_begun = true;
        self.backend.start(self.now, io);
    }

    fn set_runs(&mut self, unit: u32, runs: u32) {
        if let Some(unit) = self.units.get_mut(unit) {
            unit.runs_left = runs;
        }
    }

    fn part(&self, tag: Tag) -> Option<&Part> {
        self.parts.get(tag.index())?.as_ref()
    }

    fn begin_one(&mut self, unit: u32, dispatch: &Dispatch) {
        let id = self.runs.insert(Run::One(unit, dispatch.tag));
        let Some((action, durable, buffer)) = self.prepare(dispatch.tag) else { return };
        let Some(part) = self.part(dispatch.tag) else { return };
        let (offset, length) = (part.offset, u64::from(part.length));
        let buffers = buffer.map_or(Buffers::None, Buffers::One);
        self.start(Io { id, action, offset, length, durable, dispatch: Some(*dispatch), buffers });
    }

    fn begin_run(&mut self, unit: u32, dispatch: &Dispatch, tags: Vec<Tag>) {
        let offset = tags.first().and_then(|&tag| self.part(tag)).map_or(0, |part| part.offset);
        let (mut buffers, mut length, mut durable, mut action) = (Vec::new(), 0, false, Action::Read);
        for &tag in &tags {
            let Some((its, is_durable, buffer)) = self.prepare(tag) else { continue };
            action = its;
            durable |= is_durable;
            length += buffer.as_ref().map_or(0, |buffer| buffer.len() as u64);
            buffers.extend(buffer);
        }
        let id = self.runs.insert(Run::Many(unit, tags));
        // The model sees a unit that has gaps as several commands.
        let sector = offset / SECTOR_BYTES;
        let sectors = ((offset + length).div_ceil(SECTOR_BYTES) - sector) as u32;
        let dispatch = Some(Dispatch { sector, sectors, ..*dispatch });
        let buffers = Buffers::Many(buffers);
        self.start(Io { id, action, offset, length, durable, dispatch, buffers });
    }

    /// What to do for a part, whether durably, and its data.
    fn prepare(&mut self, tag: Tag) -> Option<(Action, bool, Option<Buffer>)> {
        let part = self.parts.get_mut(tag.index())?.as_mut()?;
        let live = self.lives.get(part.live)?;
        let durable = live.flags & COMMAND_FUA != 0;
        let zero = Action::Zero { keep: live.flags & COMMAND_NO_HOLE != 0, fast: live.flags & COMMAND_FAST_ZERO != 0 };
        Some(match live.command {
            Command::Read => (Action::Read, false, Some(self.pool.take(part.length as usize))),
            Command::Write => (Action::Write, durable, part.buffer.take()),
            Command::WriteZeroes => (zero, durable, None),
            Command::Trim => (Action::Trim, durable, None),
            _ => (Action::Flush, false, None),
        })
    }

    /// The backend has finished something.
    pub(super) fn finish(&mut self, done: Done) {
        let Done { id, buffers, result } = done;
        match self.runs.remove(id) {
            Some(Run::One(unit, tag)) => {
                let buffer = if let Buffers::One(buffer) = buffers { Some(buffer) } else { None };
                if let Some(part) = self.parts[tag.index()].take() {
                    let result = part_of(&result, part.offset, u64::from(part.length));
                    self.books.completed(self.now, &part);
                    self.finish_part(part, buffer, result);
                }
                self.finish_run(unit);
            }
            Some(Run::Many(unit, tags)) => {
                let mut buffers = if let Buffers::Many(buffers) = buffers { buffers } else { Vec::new() }.into_iter();
                for tag in tags {
                    if let Some(part) = self.parts[tag.index()].take() {
                        let result = part_of(&result, part.offset, u64::from(part.length));
                        self.books.completed(self.now, &part);
                        self.finish_part(part, buffers.next(), result);
                    }
                }
                self.finish_run(unit);
            }
            Some(Run::Beside(live)) => self.finish_beside(live, result),
            Some(Run::Last) => {
                // What could not be made durable is not vouched for.
                if result.is_ok() {
                    self.backend.finish();
                }
                self.stopping = Stopping::Done;
            }
            None => self.pool.give_all(buffers),
        }
    }

    fn finish_run(&mut self, number: u32) {
        let Some(unit) = self.units.get_mut(number) else { return };
        unit.runs_left -= 1;
        if unit.runs_left == 0 {
            let tag = unit.dispatch.tag;
            self.units.remove(number);
            self.busy.retain(|&busy| busy != number);
            self.scheduler.complete(self.now, tag);
            self.called(&Call::Complete(tag));
        }
    }

    /// A part is done: what was read is sent, or kept until the rest is there.
    pub(super) fn finish_part(&mut self, part: Part, buffer: Option<Buffer>, result: Result<Outcome, NbdError>) {
        let Part { live: number, offset, length, buffer: unwritten, .. } = part;
        let Some(live) = self.lives.get_mut(number) else { return };
        let (slot, is_read) = (live.connection, live.command == Command::Read);
        if let Err(error) = result {
            live.error.get_or_insert(error);
        }
        let (has_failed, goes_on) = (live.error.is_some(), live.range_left > 0);
        let charge = if is_read { length as usize } else { 0 };
        let is_heard =
            self.connections.get(slot).is_some_and(|connection| connection.mode != super::connection::Mode::Gone);
        match buffer.or(unwritten) {
            Some(buffer) if is_read && is_heard && !has_failed => {
                self.answer_read(number, offset, buffer, result == Ok(Outcome::Hole));
            }
            Some(buffer) => {
                let charge = self.pool.charge(buffer.capacity());
                self.pool.give(buffer);
                self.release(slot, charge);
            }
            // A read that never began was charged all the same.
            None if charge > 0 => {
                let charge = self.pool.charge(charge);
                self.release(slot, charge);
            }
            None => {}
        }
        if goes_on && is_heard {
            self.hold_range(number);
        }
        self.end_part(number);
    }

    /// Sends a piece of what was asked for, or keeps it until the rest is there.
    fn answer_read(&mut self, number: u32, offset: u64, mut buffer: Buffer, is_hole: bool) {
        let Some(live) = self.lives.get_mut(number) else { return };
        let Some(connection) = self.connections.get_mut(live.connection) else { return };
        let (slot, reply) = (live.connection, live.reply(connection.agreed));
        if reply.replies.has_chunks() && !(live.is_split && live.flags & COMMAND_DF != 0) {
            let (is_last, length) = (live.parts_left == 1, buffer.len() as u32);
            if is_hole {
                connection.outbox.put(|out| reply.put_hole(out, is_last, offset, length));
                let charge = self.pool.charge(buffer.capacity());
                self.pool.give(buffer);
                self.release(slot, charge);
            } else {
                connection.outbox.put(|out| reply.put_data(out, is_last, offset, length));
                connection.outbox.put_data(buffer);
            }
            return;
        }
        if is_hole {
            buffer.bytes_mut().fill(0);
        }
        live.gathered.push((offset, buffer));
    }

    /// One part less; after the last the request is answered.
    pub(super) fn end_part(&mut self, number: u32) {
        let Some(live) = self.lives.get_mut(number) else { return };
        live.parts_left -= 1;
        if live.parts_left > 0 {
            return;
        }
        let Some(mut live) = self.lives.remove(number) else { return };
        let slot = live.connection;
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.in_flight -= 1;
        let reply = live.reply(connection.agreed);
        let gathered = std::mem::take(&mut live.gathered);
        let is_heard = connection.mode != super::connection::Mode::Gone;
        if is_heard {
            self.books.answered(self.now, &live);
        }
        match (live.command, live.error) {
            _ if !is_heard => self.drop_gathered(slot, gathered),
            (Command::Read, None) if live.length > 0 => self.answer_gathered(slot, reply, live.length, gathered),
            (_, error) => {
                connection.outbox.put(|out| reply.put_end(out, error));
                self.drop_gathered(slot, gathered);
            }
        }
        self.mark_dirty(slot);
        self.resume(slot);
    }

    fn answer_gathered(&mut self, slot: u32, reply: Reply, length: u64, mut gathered: Vec<(u64, Buffer)>) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if gathered.is_empty() {
            // Its pieces have been sent as they came.
            return;
        }
        gathered.sort_by_key(|(offset, _)| *offset);
        // A read is no longer than any request with data.
        connection.outbox.put(|out| reply.put_data(out, true, reply.offset, length as u32));
        for (_, buffer) in gathered {
            connection.outbox.put_data(buffer);
        }
    }

    fn drop_gathered(&mut self, slot: u32, gathered: Vec<(u64, Buffer)>) {
        for (_, buffer) in gathered {
            let charge = self.pool.charge(buffer.capacity());
            self.pool.give(buffer);
            self.release(slot, charge);
        }
    }

    fn finish_beside(&mut self, number: u32, result: Result<Outcome, NbdError>) {
        let Some(live) = self.lives.get_mut(number) else { return };
        let (slot, flags, length) = (live.connection, live.flags, live.length);
        if live.command == Command::Cache {
            // A hint that is not taken does no harm.
            return self.end_part(number);
        }
        let Some(live) = self.lives.remove(number) else { return };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.in_flight -= 1;
        let reply = live.reply(connection.agreed);
        match result {
            // What is put into the box of somebody who is gone would keep his place for ever.
            _ if connection.mode == super::connection::Mode::Gone => {}
            Ok(Outcome::Extents(mut extents)) if !extents.is_empty() => {
                if flags & COMMAND_REQUEST_ONE != 0 {
                    extents.truncate(1);
                }
                connection.outbox.put(|out| reply.put_extents(out, &extents));
            }
            Ok(_) => {
                let whole = [Extent { length, state: 0 }];
                connection.outbox.put(|out| reply.put_extents(out, &whole));
            }
            Err(error) => connection.outbox.put(|out| reply.put_end(out, Some(error))),
        }
        self.mark_dirty(slot);
        self.resume(slot);
    }

    /// What clients wrote is to outlive a server that was told to stop.
    pub(super) fn flush_at_end(&mut self) {
        let id = self.runs.insert(Run::Last);
        let io = Io {
            id,
            action: Action::Flush,
            offset: 0,
            length: 0,
            durable: false,
            dispatch: None,
            buffers: Buffers::None,
        };
        self.start(io);
    }
}
