//! Two or more devices that hold the same: a mirror, which loses nothing while one of its legs works.
//!
//! What is written goes to every leg, a read to the one that has least to do. A leg with an error is *out*: reads are tried
//! on the others, and the device serves on. It comes back by [`Backend::reopen`], or at the next start; then it is *behind*,
//! until what it lacks was copied to it, in operations of [`Task::Resync`] that somebody has to ask for.
//!
//! # On a leg
//!
//! The [head], the pages of the map of regions ([marks]), the data. Nothing else is kept anywhere, so that each leg alone says
//! what it has:
//!
//! - A region is durably marked on every leg before a write to it begins, and for at least [`CLEAN_AFTER`] after the last one
//!   has ended and all legs were flushed. So after a crash the legs can differ in marked regions only. There the first leg
//!   that has everything counts, and is read; the regions are copied from it to the others.
//! - The head names the *members*: the legs that have everything. Once a leg is out, nothing is answered that it lacks before
//!   the heads of the others have a higher generation without it. So the newest head is right about who has everything, and a
//!   start without one of its members is refused: what is missing may be newer. Only an operator may say that it is lost
//!   (`force_generation`).
//! - A leg that lacks something gets a head without a generation before anything is copied to it: what it has is of no time,
//!   so that it never counts as a member.
//!
//! - It grows in place: its data lies last. First each leg becomes longer; then the new regions are marked, since what legs have there may
//!   differ; then the heads say how much there is, and nothing is answered before. So after a crash it is as long as the newest head says,
//!   and a leg may be longer than that.
//!
//! # Errors
//!
//! What all legs fail alike is the client's error, and no leg is out for it: the first one counts where they may differ now.
//! A flush succeeds if one leg has flushed and all that have not are out. A leg that has not answered for [`HUNG_AFTER`],
//! while another one does, is out, too; it can be opened again when what is with it has ended. If the heads or the map
//! cannot be written on any leg, nothing is written or flushed any more until the device is opened again.
//!
//! Data that is wrong without an error is found by a layer above, which has checksums; it reads the copies one by one, and
//! has the wrong ones written alone ([`Task::Rewrite`]). No region is marked for that: the legs differ before, and after a crash
//! the first of them would be copied over the one that is right.
//!
//! The engine lets no two operations on a block overlap, unless both read, and a copy counts as a write. So a block is the
//! same on all legs whenever nothing is done to it.

mod head;
mod leg;
mod marks;
mod open;
mod operation;
mod status;

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use ioweir_config::format_bytes;
use ioweir_core::{Dispatch, Nanos, Tier};

use super::parts::dispatch_of;
use super::{Action, Backend, Done, Io, Outcome, Remark, Task, UpstreamStatus};
use crate::log::EventKind;
use crate::nbd::NbdError;
use crate::slots::Slots;

use head::{Head, Layout};
use leg::Leg;
pub use leg::LegState;
use marks::Marks;
use operation::Op;
pub use status::{LegStatus, MirrorStatus};

/// How long a region stays marked after the last write to it.
pub const CLEAN_AFTER: Nanos = Nanos::from_seconds(5);

/// A leg that has not answered an operation for so long is out, if another one has everything and answers.
pub const HUNG_AFTER: Nanos = Nanos::from_seconds(30);
/// How often it is looked whether a leg answers.
const LOOK: Nanos = Nanos::from_seconds(1);

/// Opens a leg, again after an error.
pub type OpenLeg = Box<dyn FnMut(usize) -> Result<Box<dyn Backend>, String>>;

/// The size of a new mirror whose shortest leg has this length.
pub(super) fn size_of(leg_bytes: u64, region_bytes: u64) -> Result<u64, String> {
    Layout::of_leg(leg_bytes, region_bytes).map(|layout| layout.data_bytes)
}

/// Whether these are the first bytes of a leg.
pub(super) fn is_leg(bytes: &[u8]) -> bool {
    bytes.starts_with(head::MAGIC)
}

/// How a mirror is opened.
#[derive(Clone, Copy, Debug)]
pub struct MirrorPlan {
    /// The number of legs.
    pub legs: usize,
    /// The size of a region.
    pub region_bytes: u64,
    /// The generation from which to go on without legs that are missing.
    pub force: Option<u64>,
    /// Whether nothing may be written.
    pub read_only: bool,
}

/// The owner of an operation of a leg.
#[derive(Clone, Copy, Debug)]
struct Flight {
    /// None if nobody waits for it any more: the leg has not answered for too long.
    op: Option<u32>,
    leg: usize,
    since: Nanos,
}

/// Several devices that hold the same, as the head of the module describes.
pub struct Mirror {
    legs: Vec<Leg>,
    open: OpenLeg,
    /// What the heads say, or are to say.
    head: Head,
    /// The members that every head of theirs names.
    recorded: u64,
    marks: Marks,
    read_only: bool,
    ops: Slots<Op>,
    flights: Slots<Flight>,
    /// Writes that wait until their regions are marked.
    waiting: Vec<u32>,
    /// Whether the heads have to be written, and whether they are being written.
    heads_due: bool,
    heads_in_flight: bool,
    /// Regions that have to be marked before the heads name them: the device has grown by them.
    grown: Range<u64>,
    /// What is answered once the heads are written.
    held: Vec<Done>,
    /// Whether legs are being flushed to take marks away, or to become members.
    is_cleaning: bool,
    is_joining: bool,
    /// When to look next whether all legs answer.
    look_due: Nanos,
    /// Increases when a leg goes out or comes back.
    epoch: u32,
    /// Why nothing is written or flushed any more.
    trouble: Option<NbdError>,
    /// The dispatch of the last operation: what the mirror does by itself is sent to a model in its form.
    last_dispatch: Option<Dispatch>,
    done: Vec<Done>,
    from_legs: Vec<Done>,
    remarks: Vec<Remark>,
}

impl Mirror {
    /// Opens a mirror; legs that are empty become one.
    ///
    /// # Errors
    /// If legs do not belong together, or none of them is known to have everything.
    pub fn open(plan: MirrorPlan, mut open: OpenLeg) -> Result<Self, String> {
        let legs = (0..plan.legs).map(&mut open).collect();
        let opened = open::open(legs, plan.region_bytes, plan.force, plan.read_only)?;
        let open::Opened { legs, head, marks, is_new } = opened;
        let mut mirror = Self {
            legs,
            open,
            head,
            recorded: head.members,
            marks,
            read_only: plan.read_only,
            ops: Slots::default(),
            flights: Slots::default(),
            waiting: Vec::new(),
            heads_due: false,
            heads_in_flight: false,
            grown: 0..0,
            held: Vec::new(),
            is_cleaning: false,
            is_joining: false,
            look_due: Nanos::ZERO,
            epoch: 0,
            trouble: None,
            last_dispatch: None,
            done: Vec::new(),
            from_legs: Vec::new(),
            remarks: Vec::new(),
        };
        if is_new && !plan.read_only {
            mirror.write_heads_alone()?;
        }
        for number in 0..mirror.legs.len() {
            if let LegState::Out(why) = &mirror.legs[number].state {
                let what = format!("leg {number} is out: {why}");
                mirror.remarks.push((EventKind::LegOut, what));
            }
        }
        Ok(mirror)
    }

    /// Writes the heads of the members before anything else is done.
    fn write_heads_alone(&mut self) -> Result<(), String> {
        for (number, leg) in self.legs.iter_mut().enumerate() {
            if let (LegState::InSync, Some(backend)) = (&leg.state, &mut leg.backend) {
                let head = Head { leg: number as u32, ..self.head };
                leg::write(&mut **backend, 0, |block| head.encode(block))
                    .map_err(|problem| format!("leg {number}: {problem}"))?;
            }
        }
        Ok(())
    }

    const fn layout(&self) -> Layout {
        self.head.layout
    }

    /// The legs in a state, by number.
    fn legs_that(&self, is: impl Fn(&LegState) -> bool) -> Vec<usize> {
        (0..self.legs.len()).filter(|&leg| is(&self.legs[leg].state)).collect()
    }

    fn members(&self) -> Vec<usize> {
        self.legs_that(|state| *state == LegState::InSync)
    }

    /// The legs that get what is written.
    fn present(&self) -> Vec<usize> {
        self.legs_that(|state| !matches!(state, LegState::Out(_)))
    }

    /// Starts an operation of a leg, at an offset of the leg.
    fn send(&mut self, now: Nanos, op: u32, leg: usize, io: Io) {
        let Some(Leg { backend: Some(backend), in_flight, .. }) = self.legs.get_mut(leg) else { return };
        *in_flight += 1;
        let id = self.flights.insert(Flight { op: Some(op), leg, since: now });
        let dispatch = dispatch_of(self.last_dispatch, Tier::Base, io.action, io.offset, io.length);
        let dispatch = dispatch.filter(|_| !matches!(io.action, Action::Cache | Action::Extents));
        backend.start(now, Io { id, dispatch, ..io });
    }

    /// Answers an operation that changes something: not before the heads name who has it.
    fn answer(&mut self, done: Done) {
        match self.trouble {
            Some(error) => self.done.push(Done { result: Err(error), ..done }),
            None if self.heads_due || self.heads_in_flight => self.held.push(done),
            None => self.done.push(done),
        }
    }

    /// Takes a leg out, unless it is the last one that has everything.
    fn take_out(&mut self, leg: usize, why: String) {
        let members = self.members();
        let is_member = members.contains(&leg);
        if self.legs[leg].is_out() || (is_member && members.len() == 1) {
            return;
        }
        self.remarks.push((EventKind::LegOut, format!("leg {leg} is out: {why}")));
        self.legs[leg].state = LegState::Out(why);
        self.epoch += 1;
        self.marks.forget_copied();
        self.marks.lack_marked(leg);
        if is_member {
            self.head.generation += 1;
            self.heads_due = true;
            if let Some(&first) = self.members().first() {
                self.marks.lack_nothing(first);
            }
        }
    }

    /// Goes on without a leg that does not answer, if another one that has everything does.
    fn look_for_silence(&mut self, now: Nanos) {
        if now < self.look_due {
            return;
        }
        self.look_due = now.after(LOOK);
        let mut silent = vec![false; self.legs.len()];
        for (_, flight) in self.flights.iter().filter(|(_, flight)| flight.op.is_some()) {
            silent[flight.leg] |= now.since(flight.since) >= HUNG_AFTER;
        }
        if !self.members().into_iter().any(|leg| !silent[leg]) {
            return;
        }
        for leg in (0..silent.len()).filter(|&leg| silent[leg]) {
            self.take_out(leg, format!("it has not answered for {} s", HUNG_AFTER.0 / 1_000_000_000));
            let left: Vec<u32> = self.flights.iter().filter(|(_, its)| its.leg == leg).map(|(id, _)| id).collect();
            for id in left {
                let op = self.flights.get_mut(id).and_then(|flight| flight.op.take());
                let Some((number, op)) = op.and_then(|number| Some((number, self.ops.get(number)?))) else { continue };
                // What the leg has is its own until it answers.
                let buffers = op.buffers_of(leg);
                self.end_part(now, number, leg, Done::new(id, buffers, Err(NbdError::InputOutput)));
            }
        }
    }

    /// Nothing can be written down any more.
    fn give_up(&mut self) {
        self.trouble = Some(NbdError::InputOutput);
        for done in std::mem::take(&mut self.held) {
            self.answer(done);
        }
        for number in std::mem::take(&mut self.waiting) {
            if let Some(op) = self.ops.remove(number) {
                self.marks.end(Nanos::ZERO, self.marks.regions(op.io.offset, op.io.length));
                self.answer(Done::new(op.io.id, op.io.buffers, Err(NbdError::InputOutput)));
            }
        }
    }

    /// Does what is due beside the operations of the engine.
    fn tend(&mut self, now: Nanos) {
        self.look_for_silence(now);
        if self.trouble.is_some() || self.read_only {
            return;
        }
        if self.marks.are_durable(self.grown.clone()) {
            self.grown = 0..0;
        }
        if self.heads_due && !self.heads_in_flight && self.grown.is_empty() {
            self.start_heads(now);
        }
        for page in self.marks.pages_to_write() {
            self.start_page(now, page);
        }
        if !self.is_cleaning && self.clean_due() <= now {
            self.start_cleaning(now);
        }
        if !self.is_joining && !self.joining().is_empty() {
            self.start_joining(now);
        }
    }

    /// The legs that are behind and lack nothing any more.
    fn joining(&self) -> Vec<usize> {
        let mut behind = self.legs_that(|state| *state == LegState::Behind);
        behind.retain(|&leg| self.marks.lacking(leg) == 0);
        behind
    }

    fn clean_due(&self) -> Nanos {
        self.marks.first_touched().map_or(Nanos::NEVER, |touched| touched.after(CLEAN_AFTER))
    }

    /// Opens a leg that is out.
    fn reopen_leg(&mut self, number: usize) -> Result<String, String> {
        if self.legs[number].in_flight > 0 {
            return Err("operations are still with it: try again when they have ended".into());
        }
        // Two open backends could not use a file at the same time.
        self.legs[number].backend = None;
        let mut backend = (self.open)(number)?;
        let members = self.members().into_iter().fold(0, |all, leg| all | 1 << leg);
        let newest = Head { members, ..self.head };
        let found = open::returned(&mut *backend, number as u32, &newest)?;
        let state = open::admit(&mut *backend, number as u32, found, &newest, &mut self.marks)?;
        self.legs[number] = Leg { backend: Some(backend), state, in_flight: 0 };
        self.epoch += 1;
        self.marks.forget_copied();
        self.marks.forget_pages();
        self.marks.lack_marked(number);
        let owed = format_bytes(self.marks.lacking(number) * self.layout().region_bytes);
        let what = format!("leg {number} is back, and up to {owed} have to be copied to it");
        self.remarks.push((EventKind::LegBack, what.clone()));
        Ok(what)
    }
}

impl Backend for Mirror {
    fn start(&mut self, now: Nanos, io: Io) {
        if io.dispatch.is_some() {
            self.last_dispatch = io.dispatch;
        }
        match io.action {
            Action::Read | Action::Extents => self.start_read(now, io),
            Action::Write | Action::Trim | Action::Zero { .. } => self.start_change(now, io),
            Action::Flush => self.start_flush(now, io),
            Action::Serve(Task::Copy(leg)) => self.start_copy(now, io, leg.into()),
            Action::Serve(Task::Rewrite(leg)) => self.start_rewrite(now, io, leg.into()),
            Action::Serve(Task::Resync) => self.start_resync(now, io),
            Action::Serve(_) => self.done.push(Done::new(io.id, io.buffers, Err(NbdError::NotSupported))),
            // A hint may be ignored.
            Action::Cache => self.done.push(Done::new(io.id, io.buffers, Ok(Outcome::Plain))),
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        self.legs.iter_mut().filter_map(|leg| leg.backend.as_mut()).try_for_each(|backend| backend.submit())
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        loop {
            self.tend(now);
            self.submit()?;
            let mut ended = std::mem::take(&mut self.from_legs);
            for backend in self.legs.iter_mut().filter_map(|leg| leg.backend.as_mut()) {
                backend.collect(now, &mut ended)?;
            }
            let is_over = ended.is_empty();
            for done in ended.drain(..) {
                if let Some(flight) = self.flights.remove(done.id) {
                    self.legs[flight.leg].in_flight -= 1;
                    if let Some(op) = flight.op {
                        self.end_part(now, op, flight.leg, done);
                    }
                }
            }
            self.from_legs = ended;
            if is_over {
                break;
            }
        }
        done.append(&mut self.done);
        Ok(())
    }

    fn due(&self) -> Nanos {
        let own =
            if self.is_cleaning || self.trouble.is_some() || self.read_only { Nanos::NEVER } else { self.clean_due() };
        let look = if self.flights.len() > 0 { self.look_due } else { Nanos::NEVER };
        let legs = self.legs.iter().filter_map(|leg| leg.backend.as_ref()).map(|backend| backend.due());
        legs.fold(own.min(look), Nanos::min)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.legs.iter().filter_map(|leg| leg.backend.as_ref()).flat_map(|backend| backend.descriptors()).collect()
    }

    fn block_bytes_min(&self) -> u32 {
        self.legs
            .iter()
            .filter_map(|leg| leg.backend.as_ref())
            .map(|backend| backend.block_bytes_min())
            .max()
            .unwrap_or(1)
    }

    fn size_bytes(&self) -> u64 {
        self.layout().data_bytes
    }

    fn grow(&mut self, size_bytes: u64) -> Result<(), String> {
        if self.trouble.is_some() || self.read_only {
            return Err("nothing can be written to it".into());
        }
        if let Some(out) = self.legs.iter().position(Leg::is_out) {
            return Err(format!("leg {out} is out: it could not grow with the others"));
        }
        let before = self.layout();
        let layout = before.grown(size_bytes)?;
        let backends = self.legs.iter_mut().enumerate();
        for (number, backend) in backends.filter_map(|(number, leg)| Some((number, leg.backend.as_mut()?))) {
            // One may be as long already, by a growth that did not end.
            if backend.size_bytes() < layout.leg_bytes() {
                backend.grow(layout.leg_bytes()).map_err(|problem| format!("leg {number}: {problem}"))?;
            }
        }
        self.marks.grow(layout);
        self.grown = before.data_bytes / before.region_bytes..layout.regions();
        let first = self.members().first().copied();
        for leg in (0..self.legs.len()).filter(|leg| Some(*leg) != first) {
            self.marks.lack(leg, self.grown.clone());
        }
        self.head = Head { layout, generation: self.head.generation + 1, ..self.head };
        self.heads_due = true;
        Ok(())
    }

    fn upstream(&self) -> Option<UpstreamStatus> {
        UpstreamStatus::of_all(
            self.legs.iter().filter_map(|leg| leg.backend.as_ref()).map(|backend| backend.upstream()),
        )
    }

    fn describe(&self) -> String {
        let legs = self.legs.iter().zip(0..).map(|(leg, number)| match (&leg.state, &leg.backend) {
            (LegState::Out(why), _) => format!("; leg {number} is out: {why}"),
            (state, Some(backend)) => format!("; leg {number} {}: {}", state.words(), backend.describe()),
            (_, None) => String::new(),
        });
        format!("mirror, {}{}", format_bytes(self.size_bytes()), legs.collect::<String>())
    }

    fn finish(&mut self) {
        let is_whole = self.members().len() == self.legs.len();
        if is_whole && self.ops.len() == 0 && self.marks.are_at_rest() && self.trouble.is_none() && !self.read_only {
            for page in self.marks.clean_all() {
                for backend in self.legs.iter_mut().filter_map(|leg| leg.backend.as_mut()) {
                    // A mark that stays costs a copy at the next start.
                    let _ = leg::write(&mut **backend, Layout::page_at(page), |bytes| bytes.fill(0));
                }
            }
        }
        self.legs.iter_mut().filter_map(|leg| leg.backend.as_mut()).for_each(|backend| backend.finish());
    }

    fn remarks(&mut self) -> Vec<Remark> {
        let mut remarks = std::mem::take(&mut self.remarks);
        for (number, leg) in self.legs.iter_mut().enumerate() {
            let its = leg.backend.iter_mut().flat_map(|backend| backend.remarks());
            remarks.extend(its.map(|(kind, what)| (kind, format!("leg {number}: {what}"))));
        }
        remarks
    }

    fn has_failed(&self) -> bool {
        self.trouble.is_some()
    }

    fn reopen(&mut self) -> Option<Result<String, String>> {
        let out = self.legs_that(|state| matches!(state, LegState::Out(_)));
        let reopened: Vec<_> = out
            .into_iter()
            .map(|number| {
                self.reopen_leg(number).map_err(|problem| {
                    self.legs[number].state = LegState::Out(problem.clone());
                    format!("leg {number}: {problem}")
                })
            })
            .collect();
        let is_any_back = reopened.iter().any(Result::is_ok);
        let words = reopened.into_iter().map(|result| result.unwrap_or_else(|problem| problem)).collect::<Vec<_>>();
        let words = words.join("; ");
        if words.is_empty() { None } else { Some(if is_any_back { Ok(words) } else { Err(words) }) }
    }

    fn mirror(&self) -> Option<MirrorStatus> {
        Some(self.status())
    }

    fn copies(&self) -> u8 {
        self.legs.len() as u8 // a mirror has eight at most
    }

    fn owed_bytes(&self, task: Task) -> u64 {
        let lacking = self.present().into_iter().map(|leg| self.marks.lacking(leg)).max().unwrap_or(0);
        if task == Task::Resync { lacking * self.layout().region_bytes } else { 0 }
    }

    fn next_owed(&mut self, task: Task, from: u64, length_max: u64) -> Option<Range<u64>> {
        let range = self.marks.next_lacked(self.present().into_iter(), from).filter(|_| task == Task::Resync)?;
        Some(range.start..range.end.min(range.start + length_max))
    }
}
