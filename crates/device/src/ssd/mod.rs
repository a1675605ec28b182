//! Solid-state drives: a page-mapped translation layer over dies and channels.
//!
//! Every die, every channel and each direction of the interface has a calendar of its reservations; a request finds its
//! times there at once, without an event for each flash command. Counted from `now`:
//!
//! ```text
//! read   firmware, die senses the page, channel, interface (from the first chunk on)
//! write  firmware, room in the write buffer, interface, done; later channel, program on the die
//! ```
//!
//! The pages of a request lie on different dies and are served in parallel, as are requests. Reads are served from the write
//! buffer while their data is still there, and cost no flash operation if the unit was never written. A write without a
//! buffer, a forced write and a flush wait for their programs, which are padded, except in a drive whose buffer survives a
//! loss of power. Before all that, a command waits until a sleeping drive is awake, and passes the serial stage. A unit that is written in part is read first. A read waits for the operation of its die, or suspends it.
//!
//! Units go to flash in the order of their arrival, one program to each die in turn, and to all channels first. When a die
//! has few free blocks, it copies units out of the block with the most invalid ones, in step with the host's writes to the
//! die, so that it gains as many units as the host uses; then it erases the block. All of this happens on the same die and
//! channel.
//!
//! Not modelled: collection while the drive is idle, wear, bad blocks, read disturb and retries, an SLC cache, misses in the
//! map cache, heat. Nor does a suspended program free its part of the buffer later.

mod buffer;
mod clock;
mod datasheet;
mod fill;
mod map;
mod sparse;
mod spec;
#[cfg(test)]
mod tests;
mod times;
mod victims;
mod write;

use std::collections::VecDeque;

use ioweir_core::{Dispatch, Nanos, Operation};

use super::divider::Divider;
use super::{Device, Model, Service};
use buffer::Buffer;
use clock::Calendar;
pub use datasheet::FlashDatasheet;
use fill::Fill;
use ioweir_config::Complaint;
use map::{Map, Run};
use spec::Shape;
pub use spec::{SsdOverhead, SsdSerial, SsdSpec, SsdState, SsdWake};
use times::{Moves, Times};
use write::OldRuns;

/// Gaps remembered for a die or channel, and for the interface.
const GAPS_MAX: usize = 16;
const INTERFACE_GAPS_MAX: usize = 128;
/// The most programs of a die that are remembered while they may not have ended.
const PROGRAMS_MAX: usize = 1024;

/// Counts of flash operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashCounts {
    /// Units covered by host writes.
    pub written_units: u64,
    /// Units among them that were overwritten in the buffer before they were programmed.
    pub coalesced_units: u64,
    /// Units of padding in programs that could not wait to be filled.
    pub padded_units: u64,
    /// Units that garbage collection copied.
    pub copied_units: u64,
    /// Blocks erased; all planes of a die count as one.
    pub erased_blocks: u64,
}

impl FlashCounts {
    /// The sum of the counts of two drives.
    #[must_use]
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            written_units: self.written_units + other.written_units,
            coalesced_units: self.coalesced_units + other.coalesced_units,
            padded_units: self.padded_units + other.padded_units,
            copied_units: self.copied_units + other.copied_units,
            erased_blocks: self.erased_blocks + other.erased_blocks,
        }
    }

    /// Write amplification: units programmed for each unit that left the buffer; `None` before the first one.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let programmed = self.written_units - self.coalesced_units;
        let all = programmed + self.padded_units + self.copied_units;
        (programmed > 0).then(|| all as f64 / programmed as f64)
    }
}

/// A program that is running or scheduled.
#[derive(Clone, Copy, Debug)]
struct Program {
    /// The program's first location divided by the units of a program.
    number: u32,
    end_nanos: u64,
}

#[derive(Clone, Debug)]
struct Die {
    channel: u32,
    calendar: Calendar,
    /// When the last read has been sensed; a read that suspends waits only for that.
    read_free_nanos: u64,
    /// The programs, in the order in which they were sent.
    programs: VecDeque<Program>,
    /// When the last of the programs ends.
    programmed_nanos: u64,
    /// Copies that garbage collection still owes for the host's writes, times the victim's invalid units.
    owed: u64,
    /// The page from which the die last copied.
    copied_page: u32,
    /// When the data it has read so far is in the controller.
    copied_nanos: u64,
}

/// The program that is being filled.
#[derive(Clone, Copy, Debug, Default)]
struct Filling {
    die: u32,
    number: u32,
    units: u32,
    /// When the data of these units is in the controller.
    ready_nanos: u64,
}

/// The last wait of a request, and its time on an idle drive.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    finish_nanos: u64,
    own_nanos: u64,
}

impl Course {
    fn until(&mut self, finish_nanos: u64, own_nanos: u64) {
        if finish_nanos >= self.finish_nanos {
            *self = Self { finish_nanos, own_nanos };
        }
    }
}

/// When commands may begin.
#[derive(Clone, Debug, Default)]
struct Gate {
    /// The idle time after which the drive sleeps, and the time that it needs to wake up.
    sleep: Option<(u64, u64)>,
    /// When the last command so far has ended.
    idle_nanos: u64,
    /// From when on the drive is awake.
    awake_nanos: u64,
    /// When the serial stage is free.
    free_nanos: u64,
}

impl Gate {
    /// When a command that arrives at `now_nanos` enters the serial stage.
    fn enter(&mut self, now_nanos: u64) -> u64 {
        if let Some((idle_nanos, wake_nanos)) = self.sleep
            && now_nanos >= self.idle_nanos.saturating_add(idle_nanos)
        {
            self.awake_nanos = now_nanos.saturating_add(wake_nanos);
        }
        now_nanos.max(self.awake_nanos).max(self.free_nanos)
    }
}

/// A solid-state drive.
#[derive(Clone, Debug)]
pub struct Ssd {
    shape: Shape,
    times: Times,
    /// Sectors of a unit.
    by_unit: Divider,
    by_program: Divider,
    by_page: Divider,
    map: Map,
    dies: Vec<Die>,
    channels: Vec<Calendar>,
    to_host: Calendar,
    from_host: Calendar,
    gate: Gate,
    /// The die of the host's next program, if it has room.
    next_die: u32,
    filling: Filling,
    buffer: Buffer,
    /// When all programs have ended.
    drained_nanos: u64,
    protected: bool,
    counts: FlashCounts,
    /// The old locations of the units of the present write.
    old: OldRuns,
    /// The runs of the present read, kept to reuse their memory.
    runs: Vec<Run>,
}

impl Model for SsdSpec {
    fn check(&self) -> Result<(), Complaint> {
        self.lay_out().map(drop)
    }

    fn resolved(&self) -> Self {
        self.resolved()
    }

    fn serves_at_once(&self) -> u32 {
        self.channels.saturating_mul(self.dies_per_channel)
    }

    fn switched_on(&self) -> Vec<String> {
        match (self.write_buffer.0, self.power_loss_protection) {
            (0, _) => Vec::new(),
            (_, false) => vec![format!("write buffer of {}", self.write_buffer)],
            (_, true) => vec![format!("protected write buffer of {}", self.write_buffer)],
        }
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Device>, Complaint> {
        Ok(Box::new(Ssd::new(self, seed)?))
    }
}

impl Ssd {
    /// Makes the drive of `spec`; `seed` sets the content of a steady one.
    pub(super) fn new(spec: &SsdSpec, seed: u64) -> Result<Self, Complaint> {
        let shape = spec.lay_out()?;
        let spec = spec.resolved();
        let times = Times::new(&spec, &shape);
        let least_sense = times.sense.min(times.sense_one) - times.spread;
        let die = |channel| Die {
            channel,
            calendar: Calendar::new(least_sense, GAPS_MAX),
            read_free_nanos: 0,
            programs: VecDeque::new(),
            programmed_nanos: 0,
            owed: 0,
            copied_page: u32::MAX,
            copied_nanos: 0,
        };
        let channel = Calendar::new(times.channel.nanos(times.unit_bytes), GAPS_MAX);
        let interface = Calendar::new(times.interface.nanos(times.unit_bytes), INTERFACE_GAPS_MAX);
        Ok(Self {
            map: Map::new(&shape, Fill::new(&shape, spec.state, seed)),
            dies: (0..shape.dies).map(|number| die(number % shape.channels)).collect(),
            channels: vec![channel; shape.channels as usize],
            to_host: interface.clone(),
            from_host: interface,
            gate: Gate { sleep: spec.wake.map(|wake| (wake.idle.nanos().0, wake.takes.nanos().0)), ..Gate::default() },
            next_die: 0,
            filling: Filling::default(),
            buffer: Buffer::new(u32::try_from(spec.write_buffer.0 / times.unit_bytes).unwrap_or(u32::MAX)),
            drained_nanos: 0,
            protected: spec.power_loss_protection,
            counts: FlashCounts::default(),
            old: OldRuns::default(),
            runs: Vec::new(),
            by_unit: Divider::new(u64::from(shape.unit_sectors)),
            by_program: Divider::new(u64::from(shape.program_units)),
            by_page: Divider::new(u64::from(shape.page_units)),
            times,
            shape,
        })
    }

    /// The memory that its state takes, in bytes. At the start this is about thirty bytes for each block, and four more in a
    /// steady drive. A unit that was written, copied or discarded takes 5 to 7 bytes together with its neighbours, and up to
    /// 116 alone; each location on flash takes four more when its block is first written. Reading takes none.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let gaps = (self.dies.len() + self.channels.len()) * GAPS_MAX + 2 * INTERFACE_GAPS_MAX;
        let programs: usize = self.dies.iter().map(|die| die.programs.capacity()).sum();
        let dies = self.dies.len() * size_of::<Die>() + programs * size_of::<Program>();
        self.map.state_bytes() + gaps * size_of::<(u64, u64)>() + dies + self.buffer.state_bytes()
    }

    /// The units that a request touches: the first, and the one after the last.
    fn units(&self, dispatch: &Dispatch) -> (u32, u32) {
        let end = dispatch.sector.saturating_add(u64::from(dispatch.sectors));
        debug_assert!(
            dispatch.sectors == 0 || end <= self.shape.sectors,
            "the simulator refuses requests past the end"
        );
        let (end, begin) = (end.min(self.shape.sectors), dispatch.sector.min(self.shape.sectors));
        let narrow = |value: u64| u32::try_from(value).unwrap_or(self.shape.units);
        let last = |(quotient, rest): (u64, u64)| quotient + u64::from(rest > 0);
        if begin >= end {
            (0, 0)
        } else {
            (narrow(self.by_unit.divide(begin).0), narrow(last(self.by_unit.divide(end))))
        }
    }

    /// The units that a discard covers entirely; the last one counts as such if the drive ends in it.
    fn whole_units(&self, dispatch: &Dispatch) -> (u32, u32) {
        let unit = u64::from(self.shape.unit_sectors);
        let end = dispatch.sector.saturating_add(u64::from(dispatch.sectors)).min(self.shape.sectors);
        let first = dispatch.sector.div_ceil(unit).min(u64::from(self.shape.units));
        let last = if end == self.shape.sectors { u64::from(self.shape.units) } else { end / unit };
        let narrow = |value: u64| u32::try_from(value).unwrap_or(self.shape.units);
        (narrow(first), narrow(last))
    }

    /// The program of a location, and the number of the location within it.
    #[inline]
    fn program_of(&self, place: u32) -> (u32, u32) {
        map::split(&self.by_program, place)
    }

    /// When the program of a location ends, if it has not ended by `now_nanos`: `u64::MAX` while it waits to be filled.
    #[inline]
    fn pending(&self, now_nanos: u64, die: u32, place: u32) -> Option<u64> {
        let number = self.program_of(place).0;
        if self.filling.units > 0 && number == self.filling.number {
            return Some(u64::MAX);
        }
        let die = &self.dies[die as usize];
        if die.programmed_nanos <= now_nanos {
            return None;
        }
        let found = die.programs.iter().rev().find(|program| program.number == number);
        found.map(|program| program.end_nanos).filter(|&end| end > now_nanos)
    }

    /// Senses a page of a die; returns when that begins.
    #[inline]
    fn sense(&mut self, now_nanos: u64, ready_nanos: u64, die: u32, sense_nanos: u64) -> u64 {
        let die = &mut self.dies[die as usize];
        let Some(suspend_nanos) = self.times.suspend else {
            return die.calendar.reserve(now_nanos, ready_nanos, sense_nanos);
        };
        let mut start = ready_nanos.max(die.read_free_nanos);
        if start < die.calendar.free_nanos() {
            start = start.saturating_add(suspend_nanos);
            die.calendar.delay(suspend_nanos.saturating_add(sense_nanos));
        } else {
            die.calendar.reserve(now_nanos, start, sense_nanos);
        }
        die.read_free_nanos = start.saturating_add(sense_nanos);
        start
    }

    /// Reads units that are next to each other in one page.
    #[inline]
    fn read_page(&mut self, now_nanos: u64, ready_nanos: u64, (die, page): (u32, u32), units: u32) -> Course {
        let times = &self.times;
        let base_nanos = if units == 1 { times.sense_one } else { times.sense };
        let is_odd = page % 2 == 1;
        let sense_nanos = if is_odd { base_nanos + times.spread } else { base_nanos - times.spread };
        let Moves { channel_nanos, lead_nanos, interface_nanos } =
            if units == self.shape.page_units { times.page } else { times.moves(units) };
        let start = self.sense(now_nanos, ready_nanos, die, sense_nanos);
        let sensed = start.saturating_add(sense_nanos);
        let bus = &mut self.channels[self.dies[die as usize].channel as usize];
        let moving = bus.reserve(now_nanos, sensed, channel_nanos);
        let passing = self.to_host.reserve(now_nanos, moving.saturating_add(lead_nanos), interface_nanos);
        let own_nanos = sense_nanos + lead_nanos + interface_nanos;
        Course { finish_nanos: passing.saturating_add(interface_nanos), own_nanos }
    }

    fn read(&mut self, now_nanos: u64, first: u32, end: u32) -> Service {
        let overhead_nanos = if end - first == 1 { self.times.read_one } else { self.times.read };
        let ready_nanos = now_nanos.saturating_add(overhead_nanos);
        let mut course = Course { finish_nanos: ready_nanos, own_nanos: 0 };
        // Units that need no flash, and cross the interface in one piece.
        let mut at_hand = 0_u32;
        let mut runs = std::mem::take(&mut self.runs);
        self.map.runs(first, end, &mut runs);
        for mut run in runs.iter().copied() {
            while run.units > 0 {
                let Some(place) = run.place() else {
                    at_hand += run.units;
                    break;
                };
                let (die, slot) = self.map.die_and_slot(place);
                // Units of one page, which are of one program.
                let (page, within) = map::split(&self.by_page, slot);
                let units = run.units.min(self.shape.page_units - within);
                run.pass(units);
                let pending = self.pending(now_nanos, die, place);
                if pending.is_some() && self.buffer.is_there() {
                    at_hand += units;
                    continue;
                }
                let ready_nanos = ready_nanos.max(pending.unwrap_or(0));
                let page = self.read_page(now_nanos, ready_nanos, (die, page), units);
                course.until(page.finish_nanos, page.own_nanos);
            }
        }
        self.runs = runs;
        if at_hand > 0 {
            let pass_nanos = self.times.interface.nanos(u64::from(at_hand) * self.times.unit_bytes);
            let passing = self.to_host.reserve(now_nanos, ready_nanos, pass_nanos);
            course.until(passing.saturating_add(pass_nanos), pass_nanos);
        }
        service(now_nanos, overhead_nanos, course)
    }
}

/// The service of a request: time that is neither firmware nor the request's own work was spent waiting for others.
fn service(now_nanos: u64, overhead_nanos: u64, course: Course) -> Service {
    let all_nanos = course.finish_nanos - now_nanos;
    let overhead_nanos = overhead_nanos.min(all_nanos);
    let transfer_nanos = course.own_nanos.min(all_nanos - overhead_nanos);
    let queue_nanos = all_nanos - overhead_nanos - transfer_nanos;
    Service { finish: Nanos(course.finish_nanos), overhead_nanos, transfer_nanos, queue_nanos, ..Service::default() }
}

impl Device for Ssd {
    fn serve(&mut self, now: Nanos, dispatch: &Dispatch) -> Service {
        let entered_nanos = self.gate.enter(now.0);
        let is_read = dispatch.operation == Operation::Read;
        let serial_nanos = if is_read { self.times.serial_read } else { self.times.serial_write };
        let begin_nanos = entered_nanos.saturating_add(serial_nanos);
        self.gate.free_nanos = begin_nanos;
        let service = match dispatch.operation {
            Operation::Read => {
                let (first, end) = self.units(dispatch);
                self.read(begin_nanos, first, end)
            }
            Operation::Write => self.write(begin_nanos, dispatch),
            Operation::Discard => self.discard(begin_nanos, dispatch),
            Operation::Flush => self.flush(begin_nanos),
        };
        self.gate.idle_nanos = self.gate.idle_nanos.max(service.finish.0);
        Service {
            overhead_nanos: service.overhead_nanos + serial_nanos,
            queue_nanos: service.queue_nanos + (entered_nanos - now.0),
            ..service
        }
    }

    fn sectors(&self) -> u64 {
        self.shape.sectors
    }

    fn flash(&self) -> Option<FlashCounts> {
        Some(self.counts)
    }
}
