//! Writes, programs and garbage collection.

use ioweir_core::{Dispatch, Flags};

use super::fill::Fill;
use super::map::{Map, Run, Step};
use super::{Course, Filling, PROGRAMS_MAX, Program, Service, Ssd, service};

/// The old locations of the units of a write. They are looked up together, and again where garbage collection has moved any of them since.
#[derive(Clone, Debug, Default)]
pub(super) struct OldRuns {
    runs: Vec<Run>,
    /// Where the map has them, from that of the first unit of the write on.
    leaves: Vec<u32>,
    begin: u32,
    /// The run of the next unit.
    next: usize,
    /// The units that were looked up and are not written yet.
    first: u32,
    end: u32,
    /// Whether any of these units has been moved.
    is_stale: bool,
}

impl OldRuns {
    fn look_up(&mut self, map: &mut Map, first: u32, end: u32) {
        map.make(first, end, &mut self.leaves);
        map.runs_of(&self.leaves, first, end, &mut self.runs);
        map.look_ahead(&self.runs);
        (self.begin, self.next, self.first, self.end, self.is_stale) = (first, 0, first, end, false);
    }

    /// Looks the locations up again if any unit has been moved.
    #[inline]
    fn renew(&mut self, map: &mut Map) {
        if self.is_stale {
            self.look_up(map, self.first, self.end);
        }
    }

    /// The run from the next unit on; `None` after the last.
    #[inline]
    fn next(&self) -> Option<Run> {
        self.runs.get(self.next).copied()
    }

    /// Passes over `units` units that were written.
    #[inline]
    fn pass(&mut self, units: u32) {
        if let Some(run) = self.runs.get_mut(self.next) {
            run.pass(units);
            self.next += usize::from(run.units == 0);
        }
    }

    /// Garbage collection has moved a unit.
    #[inline]
    fn moved(&mut self, unit: u32) {
        self.is_stale |= (self.first..self.end).contains(&unit);
    }
}

impl Ssd {
    pub(super) fn write(&mut self, now_nanos: u64, dispatch: &Dispatch) -> Service {
        let (first, end) = self.units(dispatch);
        let units = u64::from(end - first);
        let overhead_nanos = self.times.write.saturating_add(self.times.write_unit.saturating_mul(units));
        let mut ready_nanos = now_nanos.saturating_add(overhead_nanos);
        if dispatch.flags.has(Flags::PREFLUSH) && !self.protected {
            ready_nanos = ready_nanos.max(self.drain(now_nanos));
        }
        let mut own_nanos = self.times.interface.nanos(units * self.times.unit_bytes);
        for unit in self.partly_covered(dispatch, first, end).into_iter().flatten() {
            let course = self.fetch(now_nanos, ready_nanos, unit);
            ready_nanos = course.finish_nanos;
            own_nanos += course.own_nanos;
        }
        self.buffer.make_room(now_nanos);
        let waits = !self.buffer.is_there() || (dispatch.flags.has(Flags::FUA) && !self.protected);
        let mut done_nanos = ready_nanos;
        self.old.look_up(&mut self.map, first, end);
        let mut unit = first;
        while unit < end {
            let (taken, in_nanos) = self.take_in(now_nanos, ready_nanos, unit, end);
            unit += taken;
            done_nanos = done_nanos.max(in_nanos);
            if self.filling.units == self.shape.program_units || (waits && unit == end) {
                let programmed_nanos = self.program(now_nanos);
                if waits {
                    done_nanos = done_nanos.max(programmed_nanos);
                }
            }
        }
        if waits && units > 0 {
            let moved_units = units.min(u64::from(self.shape.program_units));
            own_nanos += self.times.channel.nanos(moved_units * self.times.unit_bytes) + self.times.program;
        }
        service(now_nanos, overhead_nanos, Course { finish_nanos: done_nanos, own_nanos })
    }

    /// Programs the content of the buffer; returns when all of it is on flash.
    fn drain(&mut self, now_nanos: u64) -> u64 {
        if self.filling.units > 0 {
            self.program(now_nanos);
        }
        self.drained_nanos
    }

    pub(super) fn flush(&mut self, now_nanos: u64) -> Service {
        let overhead_nanos = self.times.command;
        let mut finish_nanos = now_nanos.saturating_add(overhead_nanos);
        if !self.protected {
            finish_nanos = finish_nanos.max(self.drain(now_nanos));
        }
        service(now_nanos, overhead_nanos, Course { finish_nanos, own_nanos: 0 })
    }

    pub(super) fn discard(&mut self, now_nanos: u64, dispatch: &Dispatch) -> Service {
        let (first, end) = self.whole_units(dispatch);
        if first == 0 && end == self.shape.units {
            self.forget();
        } else if !self.map.is_blank() {
            self.map.discard(first, end);
        }
        let finish_nanos = now_nanos.saturating_add(self.times.command);
        service(now_nanos, self.times.command, Course { finish_nanos, own_nanos: 0 })
    }

    /// Discards everything. The blocks count as erased, as if the drive had had the time to do it.
    fn forget(&mut self) {
        self.map = Map::new(&self.shape, Fill::Fresh);
        self.buffer.forget(self.filling.units);
        self.filling = Filling::default();
        self.next_die = 0;
        for die in &mut self.dies {
            die.programs.clear();
            die.owed = 0;
        }
    }

    /// The units at the ends of a write that it covers only in part.
    fn partly_covered(&self, dispatch: &Dispatch, first: u32, end: u32) -> [Option<u32>; 2] {
        if first == end {
            return [None; 2];
        }
        let is_within = |sector| self.by_unit.divide(sector).1 > 0;
        let sector_end = dispatch.sector.saturating_add(u64::from(dispatch.sectors)).min(self.shape.sectors);
        let head = is_within(dispatch.sector);
        let tail = is_within(sector_end) && sector_end < self.shape.sectors;
        [head.then_some(first), (tail && !(head && end - first == 1)).then_some(end - 1)]
    }

    /// Reads a unit into the controller.
    fn fetch(&mut self, now_nanos: u64, ready_nanos: u64, unit: u32) -> Course {
        let at_hand = Course { finish_nanos: ready_nanos, own_nanos: 0 };
        let Some(place) = self.map.place(unit) else { return at_hand };
        let (die, _) = self.map.die_and_slot(place);
        let pending = self.pending(now_nanos, die, place);
        if pending.is_some() && self.buffer.is_there() {
            return at_hand;
        }
        let (sense_nanos, move_nanos) = (self.times.sense_one, self.times.channel.nanos(self.times.unit_bytes));
        let start = self.sense(now_nanos, ready_nanos.max(pending.unwrap_or(0)), die, sense_nanos);
        let sensed = start.saturating_add(sense_nanos);
        let moving = self.channels[self.dies[die as usize].channel as usize].reserve(now_nanos, sensed, move_nanos);
        Course { finish_nanos: moving.saturating_add(move_nanos), own_nanos: sense_nanos + move_nanos }
    }

    /// Adds as many units as still fit to the program that is being filled. Returns their number, and when they are in the
    /// controller.
    fn take_in(&mut self, now_nanos: u64, ready_nanos: u64, first: u32, end: u32) -> (u32, u64) {
        if self.filling.units == 0 {
            self.begin_program(now_nanos, ready_nanos);
        }
        let program_units = self.shape.program_units;
        self.old.renew(&mut self.map);
        // Locations of the program that is being filled are lost to it, and not to a block.
        let may_coalesce = self.filling.units > 0;
        let mut room_nanos = ready_nanos;
        // The units from here on go to flash together.
        let (mut from, mut unit) = (first, first);
        while unit < end && self.filling.units < program_units {
            let Some(run) = self.old.next() else { break };
            let mut taken = run.units.min(program_units - self.filling.units);
            if let Some(place) = run.place() {
                let (number, slot) = if may_coalesce { self.program_of(place) } else { (0, 0) };
                if may_coalesce && number == self.filling.number {
                    taken = run.units.min(program_units - slot);
                    self.counts.coalesced_units += u64::from(taken);
                    room_nanos = room_nanos.max(self.fill(from, unit));
                    from = unit + taken;
                } else {
                    // Only units of one program are lost at a time, since the next program may be the one that is being filled.
                    taken = self.map.lose(place, taken.min(program_units - slot));
                    self.filling.units += taken;
                }
            } else {
                self.filling.units += taken;
            }
            self.old.pass(taken);
            unit += taken;
        }
        self.old.first = unit;
        room_nanos = room_nanos.max(self.fill(from, unit));
        self.counts.written_units += u64::from(unit - first);
        let pass_nanos = self.times.interface.nanos(u64::from(unit - first) * self.times.unit_bytes);
        let passing = self.from_host.reserve(now_nanos, room_nanos, pass_nanos);
        let in_nanos = passing.saturating_add(pass_nanos);
        self.filling.ready_nanos = self.filling.ready_nanos.max(in_nanos);
        (unit - first, in_nanos)
    }

    /// Puts units into the program that is being filled; returns when the buffer has room for them.
    #[inline]
    fn fill(&mut self, first: u32, end: u32) -> u64 {
        if first == end {
            return 0;
        }
        let OldRuns { leaves, begin, .. } = &self.old;
        self.map.write(self.filling.die, (leaves, *begin), first, end - first);
        if self.buffer.is_there() { self.buffer.claim(end - first) } else { 0 }
    }

    /// Chooses the die for the next program, and ensures that it has a block.
    fn begin_program(&mut self, now_nanos: u64, ready_nanos: u64) {
        let mut die = self.next_die;
        for _ in 0..self.shape.dies {
            if self.map.has_room(die) {
                break;
            }
            die = self.die_after(die);
        }
        self.next_die = self.die_after(die);
        if self.map.host_full(die) {
            // One free block is kept for copies, without which no block could be reclaimed.
            while self.map.free_blocks(die) < 2 && self.collect_step(now_nanos, ready_nanos, die) != Step::Nothing {}
            self.map.open_host(die);
        }
        let number = self.program_of(self.map.host_place(die)).0;
        self.filling = Filling { die, number, ..Filling::default() };
    }

    /// The die that is filled after this one.
    #[inline]
    fn die_after(&self, die: u32) -> u32 {
        if die + 1 == self.shape.dies { 0 } else { die + 1 }
    }

    /// Sends the program that is being filled, with padding if it is not full; returns when it ends.
    fn program(&mut self, now_nanos: u64) -> u64 {
        let Filling { die: number, number: program, units, ready_nanos } = std::mem::take(&mut self.filling);
        let padding = self.shape.program_units - units;
        if padding > 0 {
            self.map.pad(number, padding);
            self.counts.padded_units += u64::from(padding);
        }
        let move_nanos = match padding {
            0 => self.times.program_move,
            _ => self.times.channel.nanos(u64::from(units) * self.times.unit_bytes),
        };
        let bus = &mut self.channels[self.dies[number as usize].channel as usize];
        let there_nanos = bus.reserve(now_nanos, ready_nanos, move_nanos).saturating_add(move_nanos);
        let die = &mut self.dies[number as usize];
        let start = die.calendar.reserve(now_nanos, there_nanos, self.times.program);
        let end_nanos = start.saturating_add(self.times.program);
        while die.programs.len() >= PROGRAMS_MAX
            || die.programs.front().is_some_and(|first| first.end_nanos <= now_nanos)
        {
            die.programs.pop_front();
        }
        die.programs.push_back(Program { number: program, end_nanos });
        die.programmed_nanos = die.programmed_nanos.max(end_nanos);
        self.drained_nanos = self.drained_nanos.max(end_nanos);
        if self.buffer.is_there() {
            self.buffer.free_at(end_nanos, units);
        }
        self.collect(now_nanos, there_nanos, number);
        end_nanos
    }

    /// Copies enough, after a program, to keep the balance: if collecting a victim gains `lost` units for `kept` copies,
    /// garbage collection must copy `kept / lost` times as fast as the host writes.
    fn collect(&mut self, now_nanos: u64, ready_nanos: u64, die: u32) {
        if self.map.free_blocks(die) > self.shape.free_blocks_min {
            return;
        }
        let Some((kept, lost)) = self.map.victim(die) else { return };
        let share = u64::from(self.shape.program_units) * u64::from(kept);
        let owed = &mut self.dies[die as usize].owed;
        // The last victim may have needed fewer copies; the remainder is not saved up.
        *owed = (*owed).min(share) + share;
        while kept == 0 || self.dies[die as usize].owed >= u64::from(lost) {
            match self.collect_step(now_nanos, ready_nanos, die) {
                Step::Copied { .. } => self.dies[die as usize].owed -= u64::from(lost),
                Step::Erased | Step::Nothing => return,
            }
        }
    }

    /// One step of garbage collection, charged to the die and its channel.
    fn collect_step(&mut self, now_nanos: u64, ready_nanos: u64, number: u32) -> Step {
        let step = self.map.collect(number);
        let times = &self.times;
        let die = &mut self.dies[number as usize];
        match step {
            Step::Copied { unit, from, to } => {
                self.counts.copied_units += 1;
                self.old.moved(unit);
                let page = from / self.shape.page_units;
                if page != die.copied_page {
                    die.copied_page = page;
                    let start = die.calendar.reserve(now_nanos, ready_nanos, times.sense);
                    die.copied_nanos = die.copied_nanos.max(start.saturating_add(times.sense));
                }
                if (to + 1) % self.shape.program_units == 0 {
                    let move_nanos = times.program_move;
                    let bus = &mut self.channels[die.channel as usize];
                    let out = bus.reserve(now_nanos, die.copied_nanos, move_nanos).saturating_add(move_nanos);
                    let back = bus.reserve(now_nanos, out, move_nanos).saturating_add(move_nanos);
                    die.calendar.reserve(now_nanos, back, times.program);
                }
            }
            Step::Erased => {
                self.counts.erased_blocks += 1;
                die.copied_page = u32::MAX;
                let idle_nanos = die.calendar.free_nanos().max(ready_nanos);
                die.calendar.reserve(now_nanos, idle_nanos, times.erase);
            }
            Step::Nothing => {}
        }
        step
    }
}
