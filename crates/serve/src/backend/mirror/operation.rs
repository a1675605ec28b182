//! The operations of a mirror, each of which becomes operations of its legs.

use std::collections::BTreeSet;

use ioweir_core::Nanos;

use super::super::parts::{BLOCK_BYTES, copy_from};
use super::super::{Action, Done, Io, Outcome};
use super::head::{Head, Layout};
use super::{LegState, Mirror};
use crate::buffer::{Buffer, Buffers, Shape};
use crate::log::EventKind;
use crate::nbd::NbdError;

/// What an operation is for.
#[derive(Debug)]
pub(super) enum Purpose {
    /// Read from one leg after another, until one can.
    Read,
    /// Read from one leg.
    Copy,
    /// Written to one leg, where it has something else than the others.
    Rewrite,
    /// Written, zeroed or flushed on all legs, for the engine.
    Change,
    Flush,
    /// Reads what legs lack.
    Fetch,
    /// Writes that to them.
    Fill,
    /// Writes a page of the map.
    Page(u64),
    /// Writes the heads.
    Heads,
    /// Flushes, so that these regions, at rest since then, need no mark.
    Clean(BTreeSet<u64>, Nanos),
    /// Flushes, so that legs can become members.
    Join,
}

/// An operation in flight.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) purpose: Purpose,
    /// The engine's, or the mirror's own.
    pub(super) io: Io,
    /// The legs that it was sent to, and those that have failed.
    sent: Vec<usize>,
    failed: Vec<(usize, NbdError)>,
    left: usize,
    outcome: Outcome,
    /// The engine's buffers, which are with a leg.
    shape: Shape,
    /// When it was sent.
    epoch: u32,
}

impl Op {
    fn new(purpose: Purpose, io: Io) -> Self {
        let (sent, failed) = (Vec::new(), Vec::new());
        Self { purpose, io, sent, failed, left: 0, outcome: Outcome::Plain, shape: Shape::None, epoch: 0 }
    }

    /// Whether the engine's buffers were sent to this leg.
    fn has_buffers(&self, leg: usize) -> bool {
        matches!(self.purpose, Purpose::Read | Purpose::Copy | Purpose::Fetch) || self.sent.last() == Some(&leg)
    }

    /// Buffers in place of those that a leg does not give back.
    pub(super) fn buffers_of(&self, leg: usize) -> Buffers {
        if self.has_buffers(leg) { self.shape.buffers() } else { Buffers::None }
    }

    fn is_done_on(&self, leg: usize) -> bool {
        self.sent.contains(&leg) && self.failed.iter().all(|(failed, _)| *failed != leg)
    }

    fn error(&self) -> NbdError {
        self.failed.first().map_or(NbdError::InputOutput, |(_, error)| *error)
    }
}

fn data_of(io: &Io) -> Buffers {
    if io.buffers.as_slice().is_empty() {
        return Buffers::None;
    }
    let mut buffer = Buffer::with_capacity(io.length as usize);
    copy_from(&io.buffers, 0, buffer.bytes_mut());
    Buffers::One(buffer)
}

impl Mirror {
    /// An operation of a leg on the same data.
    fn on_leg(&self, io: &Io, buffers: Buffers) -> Io {
        let offset = if io.action == Action::Flush { 0 } else { io.offset + self.layout().data_at() };
        Io { action: io.action, offset, length: io.length, durable: io.durable, buffers, ..Io::without_data(0) }
    }

    pub(super) fn start_read(&mut self, now: Nanos, io: Io) {
        let number = self.ops.insert(Op::new(Purpose::Read, io));
        self.read_on(now, number);
    }

    /// The leg to read a range from: of those that have everything and lack nothing of it, the one that has least to do.
    fn source(&self, offset: u64, length: u64, tried: &[usize]) -> Option<usize> {
        let regions = self.marks.regions(offset, length);
        let mut members = self.members();
        members.retain(|leg| !tried.contains(leg));
        let sure = members.iter().copied().filter(|&leg| !self.marks.lacks(leg, regions.clone()));
        sure.min_by_key(|&leg| self.legs[leg].in_flight).or(members.first().copied())
    }

    /// Sends a read to the next leg that can serve it.
    fn read_on(&mut self, now: Nanos, number: u32) {
        let Some(op) = self.ops.get(number) else { return };
        let Some(leg) = self.source(op.io.offset, op.io.length, &op.sent) else { return self.end(now, number) };
        self.read_from(now, number, leg);
    }

    fn read_from(&mut self, now: Nanos, number: u32, leg: usize) {
        let Some(op) = self.ops.get_mut(number) else { return };
        op.sent.push(leg);
        op.shape = op.io.buffers.shape();
        let buffers = std::mem::take(&mut op.io.buffers);
        let Io { action, offset, length, .. } = op.io;
        let action = if action == Action::Extents { action } else { Action::Read };
        let io = self.on_leg(&Io { action, offset, length, ..Io::without_data(0) }, buffers);
        self.send(now, number, leg, io);
    }

    /// Reads what one leg has, for a comparison.
    pub(super) fn start_copy(&mut self, now: Nanos, io: Io, leg: usize) {
        if !self.has_copy(leg, &io) {
            // There is no such copy now.
            return self.done.push(Done::new(io.id, io.buffers, Err(NbdError::NotSupported)));
        }
        let number = self.ops.insert(Op::new(Purpose::Copy, io));
        self.read_from(now, number, leg);
    }

    /// Whether a leg has everything, and a range as it is.
    fn has_copy(&self, leg: usize, io: &Io) -> bool {
        self.members().contains(&leg) && !self.marks.lacks(leg, self.marks.regions(io.offset, io.length))
    }

    /// Writes what the others have to one leg, where it was found to be wrong.
    pub(super) fn start_rewrite(&mut self, now: Nanos, io: Io, leg: usize) {
        let refused = match self.trouble {
            None if self.read_only => Some(NbdError::NotPermitted),
            // It has gone out meanwhile, and gets what it lacks otherwise.
            None if !self.has_copy(leg, &io) => Some(NbdError::NotSupported),
            trouble => trouble,
        };
        if let Some(error) = refused {
            return self.done.push(Done::new(io.id, io.buffers, Err(error)));
        }
        let number = self.ops.insert(Op::new(Purpose::Rewrite, Io { action: Action::Write, ..io }));
        self.send_all(now, number, &[leg]);
    }

    pub(super) fn start_change(&mut self, now: Nanos, mut io: Io) {
        match io.action {
            // It is not known which legs are fast.
            Action::Zero { fast: true, .. } => {
                return self.done.push(Done::new(io.id, io.buffers, Err(NbdError::NotSupported)));
            }
            // Some legs may ignore a trim, and the others not: they would differ.
            Action::Trim => io.action = Action::Zero { keep: false, fast: false },
            _ => {}
        }
        if let Some(error) = self.trouble {
            return self.done.push(Done::new(io.id, io.buffers, Err(error)));
        }
        let is_marked = self.marks.begin(self.marks.regions(io.offset, io.length));
        let number = self.ops.insert(Op::new(Purpose::Change, io));
        if is_marked {
            return self.send_change(now, number);
        }
        self.waiting.push(number);
        self.tend(now);
    }

    /// Sends a write to every leg that is there, each with data of its own.
    fn send_change(&mut self, now: Nanos, number: u32) {
        let present = self.present();
        self.send_all(now, number, &present);
    }

    /// Sends an operation to these legs.
    fn send_all(&mut self, now: Nanos, number: u32, legs: &[usize]) {
        let epoch = self.epoch;
        let Some(op) = self.ops.get_mut(number) else { return };
        (op.sent, op.left, op.epoch) = (legs.to_vec(), legs.len(), epoch);
        let Io { action, offset, length, durable, .. } = op.io;
        let plain = |buffers| Io { action, offset, length, durable, buffers, ..Io::without_data(0) };
        let mut data: Vec<Buffers> = legs.iter().skip(1).map(|_| data_of(&op.io)).collect();
        // The last one gets the engine's own, which need no copy.
        op.shape = op.io.buffers.shape();
        data.push(std::mem::take(&mut op.io.buffers));
        for (&leg, buffers) in legs.iter().zip(data) {
            let io = self.on_leg(&plain(Buffers::None), buffers);
            self.send(now, number, leg, io);
        }
        if legs.is_empty() {
            self.end(now, number);
        }
    }

    pub(super) fn start_flush(&mut self, now: Nanos, io: Io) {
        if let Some(error) = self.trouble {
            return self.done.push(Done::new(io.id, io.buffers, Err(error)));
        }
        let number = self.ops.insert(Op::new(Purpose::Flush, io));
        let members = self.members();
        self.send_all(now, number, &members);
    }

    /// Copies a range to the legs that lack something of it.
    pub(super) fn start_resync(&mut self, now: Nanos, io: Io) {
        let Io { id, offset, length, .. } = io;
        let regions = self.marks.regions(offset, length);
        let is_lacked = self.present().into_iter().any(|leg| self.marks.lacks(leg, regions.clone()));
        if !is_lacked || self.trouble.is_some() {
            let result = self.trouble.map_or(Ok(Outcome::Plain), Err);
            return self.done.push(Done::new(id, io.buffers, result));
        }
        let buffers = Buffers::One(Buffer::with_capacity(length as usize));
        let number = self.ops.insert(Op { epoch: self.epoch, ..Op::new(Purpose::Fetch, Io { buffers, ..io }) });
        self.read_on(now, number);
    }

    fn fill(&mut self, now: Nanos, mut op: Op) {
        let Io { offset, length, .. } = op.io;
        let regions = self.marks.regions(offset, length);
        let mut legs = self.present();
        legs.retain(|&leg| self.marks.lacks(leg, regions.clone()));
        if op.epoch != self.epoch || self.trouble.is_some() {
            legs.clear();
        }
        let is_zero = op.outcome == Outcome::Hole
            || op.io.buffers.as_slice().iter().all(|buffer| buffer.bytes().iter().all(|&byte| byte == 0));
        op.io.action = Action::Write;
        if is_zero {
            (op.io.action, op.io.buffers) = (Action::Zero { keep: false, fast: false }, Buffers::None);
        }
        (op.purpose, op.failed, op.outcome) = (Purpose::Fill, Vec::new(), Outcome::Plain);
        let number = self.ops.insert(op);
        self.send_all(now, number, &legs);
    }

    pub(super) fn start_page(&mut self, now: Nanos, page: u64) {
        let image = self.marks.begin_page(page);
        let number = self.ops.insert(Op::new(Purpose::Page(page), Io::without_data(0)));
        self.write_own(now, number, Layout::page_at(page), &self.present(), |_, bytes| bytes.copy_from_slice(&image));
    }

    pub(super) fn start_heads(&mut self, now: Nanos) {
        (self.heads_due, self.heads_in_flight) = (false, true);
        let members = self.members();
        self.head.members = members.iter().fold(0, |all, leg| all | 1 << leg);
        let number = self.ops.insert(Op::new(Purpose::Heads, Io::without_data(0)));
        let head = self.head;
        self.write_own(now, number, 0, &members, |leg, bytes| Head { leg: leg as u32, ..head }.encode(bytes));
    }

    /// Writes a block of the mirror's own to these legs.
    fn write_own(&mut self, now: Nanos, number: u32, offset: u64, legs: &[usize], fill: impl Fn(usize, &mut [u8])) {
        let epoch = self.epoch;
        let Some(op) = self.ops.get_mut(number) else { return };
        (op.sent, op.left, op.epoch) = (legs.to_vec(), legs.len(), epoch);
        for &leg in legs {
            let mut buffer = Buffer::with_capacity(BLOCK_BYTES as usize);
            fill(leg, buffer.bytes_mut());
            let (action, length, buffers) = (Action::Write, BLOCK_BYTES, Buffers::One(buffer));
            self.send(now, number, leg, Io { action, offset, length, durable: true, buffers, ..Io::without_data(0) });
        }
    }

    pub(super) fn start_cleaning(&mut self, now: Nanos) {
        self.is_cleaning = true;
        let before = Nanos(now.0.saturating_sub(super::CLEAN_AFTER.0));
        let regions = self.marks.at_rest(before);
        let number = self.ops.insert(Op::new(Purpose::Clean(regions, before), Io::without_data(0)));
        let present = self.present();
        self.send_all(now, number, &present);
    }

    pub(super) fn start_joining(&mut self, now: Nanos) {
        self.is_joining = true;
        let legs = self.joining();
        let number = self.ops.insert(Op::new(Purpose::Join, Io::without_data(0)));
        self.send_all(now, number, &legs);
    }

    /// Ends a part of an operation.
    pub(super) fn end_part(&mut self, now: Nanos, number: u32, leg: usize, done: Done) {
        let Some(op) = self.ops.get_mut(number) else { return };
        if op.has_buffers(leg) {
            op.io.buffers = done.buffers;
        }
        let failed = match done.result {
            Ok(outcome) => {
                op.outcome = outcome;
                false
            }
            Err(error) => {
                op.failed.push((leg, error));
                true
            }
        };
        if matches!(op.purpose, Purpose::Read | Purpose::Fetch) {
            return if failed { self.read_on(now, number) } else { self.end(now, number) };
        }
        op.left = op.left.saturating_sub(1);
        if op.left == 0 {
            self.end(now, number);
        }
    }

    /// Every leg has answered.
    fn end(&mut self, now: Nanos, number: u32) {
        let Some(op) = self.ops.remove(number) else { return };
        let has_it = self.members().into_iter().any(|leg| op.is_done_on(leg));
        // Of a copy, the error is for whoever asked; what all members fail is the client's.
        let spares_members = matches!(op.purpose, Purpose::Copy)
            || (!has_it && !matches!(op.purpose, Purpose::Rewrite | Purpose::Fill | Purpose::Join));
        for &(leg, error) in &op.failed {
            if !(spares_members && self.legs[leg].state == LegState::InSync) {
                self.take_out(leg, format!("an operation failed: {}", error.name()));
            }
        }
        let result = |op: &Op| if has_it { Ok(op.outcome.clone()) } else { Err(op.error()) };
        match op.purpose {
            Purpose::Read | Purpose::Copy => {
                let result = result(&op);
                self.done.push(Done::new(op.io.id, op.io.buffers, result));
            }
            Purpose::Fetch if has_it => self.fill(now, op),
            Purpose::Fetch => self.done.push(Done::new(op.io.id, Buffers::None, Err(op.error()))),
            Purpose::Fill => self.end_fill(now, &op),
            Purpose::Rewrite => self.end_rewrite(op),
            Purpose::Change => self.end_change(now, op, has_it),
            Purpose::Flush => {
                if !has_it {
                    self.give_up();
                }
                let result = result(&op);
                self.answer(Done::new(op.io.id, op.io.buffers, result));
            }
            Purpose::Page(page) if has_it => self.end_page(now, page),
            Purpose::Page(_) | Purpose::Clean(..) if !has_it => self.give_up(),
            Purpose::Heads => self.end_heads(has_it),
            Purpose::Clean(regions, before) => {
                self.is_cleaning = false;
                if op.failed.is_empty() && op.epoch == self.epoch {
                    self.marks.clean(&regions, before);
                }
            }
            Purpose::Join => self.end_joining(&op.sent),
            Purpose::Page(_) => {}
        }
    }

    fn end_rewrite(&mut self, op: Op) {
        let regions = self.marks.regions(op.io.offset, op.io.length);
        for leg in op.failed.iter().map(|&(leg, _)| leg).filter(|&leg| self.legs[leg].is_out()).collect::<Vec<_>>() {
            self.marks.lack(leg, regions.clone());
        }
        let result = if op.failed.is_empty() { Ok(Outcome::Plain) } else { Err(op.error()) };
        self.answer(Done::new(op.io.id, op.io.buffers, result));
    }

    fn end_change(&mut self, now: Nanos, op: Op, has_it: bool) {
        let regions = self.marks.regions(op.io.offset, op.io.length);
        self.marks.end(now, regions.clone());
        // Where no member is known to have it, the first one counts.
        let first = if has_it { None } else { self.members().first().copied() };
        for leg in (0..self.legs.len()).filter(|&leg| Some(leg) != first) {
            if !op.is_done_on(leg) || !has_it {
                self.marks.lack(leg, regions.clone());
            }
        }
        let result = if has_it { Ok(op.outcome.clone()) } else { Err(op.error()) };
        self.answer(Done::new(op.io.id, op.io.buffers, result));
    }

    fn end_fill(&mut self, now: Nanos, op: &Op) {
        let is_whole = op.failed.is_empty() && op.epoch == self.epoch && !op.sent.is_empty();
        if is_whole {
            self.marks.copied(now, &op.sent, op.io.offset, op.io.length);
        }
        // Where the legs have changed meanwhile, it is asked for again.
        let result = if op.failed.is_empty() { Ok(Outcome::Plain) } else { Err(op.error()) };
        self.done.push(Done::new(op.io.id, Buffers::None, result));
    }

    fn end_page(&mut self, now: Nanos, page: u64) {
        self.marks.end_page(page);
        for number in std::mem::take(&mut self.waiting) {
            let Some(Op { io, .. }) = self.ops.get(number) else { continue };
            if self.marks.are_durable(self.marks.regions(io.offset, io.length)) {
                self.send_change(now, number);
            } else {
                self.waiting.push(number);
            }
        }
    }

    fn end_heads(&mut self, are_written: bool) {
        self.heads_in_flight = false;
        if !are_written {
            return self.give_up();
        }
        let before = std::mem::replace(&mut self.recorded, self.head.members);
        for leg in self.members().into_iter().filter(|leg| self.head.members & !before & 1 << leg != 0) {
            self.remarks.push((EventKind::LegInSync, format!("leg {leg} is in sync: it has everything again")));
        }
        if !self.heads_due {
            self.done.append(&mut self.held);
        }
    }

    fn end_joining(&mut self, legs: &[usize]) {
        self.is_joining = false;
        let joining = self.joining();
        for &leg in legs.iter().filter(|leg| joining.contains(leg)) {
            self.legs[leg].state = LegState::InSync;
            self.head.generation += 1;
            self.heads_due = true;
        }
    }
}
