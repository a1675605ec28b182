//! Several devices that are served as one, because they share a spindle or a budget of requests: they have one scheduler and one depth.
//!
//! Each part has a range of the device of its own. Between two of them lies a gap, so that no request is merged across parts; a request
//! that does not lie within one part is refused. The order of tenants stands above all parts, an elevator below it sees them one after
//! another, and the depth of the device is the number of requests that all of them have at once.
//!
//! A flush without a length makes durable what was written to the part that holds its offset; one with a length, all parts.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use ioweir_config::format_bytes;
use ioweir_core::{Nanos, Tier};

use super::parts::dispatch_of;
use super::{Action, Backend, Done, Io, Outcome, Remark, UpstreamStatus};
use crate::NbdError;
use crate::buffer::{ALIGNMENT_BYTES, Buffers};
use crate::slots::Slots;
use crate::{Extent, STATE_HOLE, STATE_ZERO};

/// Parts begin at multiples of this, so that the places where requests are cut do not depend on earlier parts.
const PLACE_BYTES: u64 = 4 << 20;

/// The ranges of parts of these lengths.
///
/// # Errors
/// If they are too long together.
pub fn places(lengths: impl IntoIterator<Item = u64>) -> Result<Vec<Range<u64>>, String> {
    let mut begin = 0_u64;
    let mut places = Vec::new();
    for length in lengths {
        let end = begin.checked_add(length).filter(|end| *end < 1 << 62).ok_or("its parts are too long together")?;
        places.push(begin..end);
        begin = (end + ALIGNMENT_BYTES as u64).next_multiple_of(PLACE_BYTES);
    }
    Ok(places)
}

/// A device that is a part of another.
struct Part {
    name: String,
    place: Range<u64>,
    backend: Box<dyn Backend>,
}

/// The owner of an operation of a part.
#[derive(Clone, Copy, Debug)]
enum Flight {
    /// The operation of this number.
    Of(u32),
    /// The flush of all parts, by its slot.
    Flush(u32),
}

/// A flush of all parts.
#[derive(Debug)]
struct Flush {
    id: u32,
    left: usize,
    result: Result<Outcome, NbdError>,
}

/// Several devices, as the head of the module describes.
pub struct Joined {
    parts: Vec<Part>,
    flights: Slots<Flight>,
    flushes: Slots<Flush>,
    done: Vec<Done>,
    from_part: Vec<Done>,
}

impl Joined {
    /// Joins devices, each with the name of the part.
    ///
    /// # Errors
    /// If they are too long together.
    pub fn new(parts: Vec<(String, Box<dyn Backend>)>) -> Result<Self, String> {
        let places = places(parts.iter().map(|(_, backend)| backend.size_bytes()))?;
        let part = |((name, backend), place)| Part { name, place, backend };
        Ok(Self {
            parts: parts.into_iter().zip(places).map(part).collect(),
            flights: Slots::default(),
            flushes: Slots::default(),
            done: Vec::new(),
            from_part: Vec::new(),
        })
    }

    /// The part that holds an offset.
    fn part_at(&self, offset: u64) -> Option<usize> {
        self.parts.iter().position(|part| part.place.contains(&offset))
    }

    /// Starts an operation of a part, whose offset is one on the device.
    fn send(&mut self, now: Nanos, number: usize, flight: Flight, io: Io) {
        let id = self.flights.insert(flight);
        let part = &mut self.parts[number];
        let offset = io.offset.saturating_sub(part.place.start);
        let tier = io.dispatch.map_or(Tier::Base, |dispatch| dispatch.tier);
        let dispatch = dispatch_of(io.dispatch, tier, io.action, offset, io.length);
        part.backend.start(now, Io { id, offset, dispatch, ..io });
    }

    fn start_flush_of_all(&mut self, now: Nanos, io: &Io) {
        let flush = Flush { id: io.id, left: self.parts.len(), result: Ok(Outcome::Plain) };
        let flush = self.flushes.insert(flush);
        for number in 0..self.parts.len() {
            let (offset, dispatch) = (self.parts[number].place.start, io.dispatch);
            self.send(now, number, Flight::Flush(flush), Io { offset, dispatch, ..Io::without_data(0) });
        }
    }

    /// Answers a query about the gap after a part: it is a hole, up to the next part.
    fn answer_in_gap(&mut self, io: Io) {
        let next = self.parts.iter().map(|part| part.place.start).find(|start| *start > io.offset);
        let end = next.unwrap_or(u64::MAX).min(io.offset.saturating_add(io.length));
        let extent = Extent { length: end - io.offset, state: STATE_HOLE | STATE_ZERO };
        self.done.push(Done::new(io.id, io.buffers, Ok(Outcome::Extents(vec![extent]))));
    }

    fn end(&mut self, done: Done) {
        let flush = match self.flights.remove(done.id) {
            Some(Flight::Of(id)) => return self.done.push(Done { id, ..done }),
            Some(Flight::Flush(flush)) => flush,
            None => return,
        };
        let Some(Flush { left, result, .. }) = self.flushes.get_mut(flush) else { return };
        *left -= 1;
        // Lack of space loses nothing, so it counts only if no part has lost something.
        if let Err(error) = done.result
            && (result.is_ok() || *result == Err(NbdError::NoSpace))
        {
            *result = Err(error);
        }
        if *left == 0
            && let Some(Flush { id, result, .. }) = self.flushes.remove(flush)
        {
            self.done.push(Done::new(id, Buffers::None, result));
        }
    }
}

impl Backend for Joined {
    fn start(&mut self, now: Nanos, io: Io) {
        if io.action == Action::Flush && io.length > 0 {
            return self.start_flush_of_all(now, &io);
        }
        let end = io.offset.saturating_add(io.length);
        match self.part_at(io.offset) {
            // A query of extents may be answered for the beginning of its range alone.
            Some(number) if io.action == Action::Extents => {
                let length = end.min(self.parts[number].place.end) - io.offset;
                self.send(now, number, Flight::Of(io.id), Io { length, ..io });
            }
            Some(number) if end <= self.parts[number].place.end => self.send(now, number, Flight::Of(io.id), io),
            None if io.action == Action::Extents => self.answer_in_gap(io),
            _ => self.done.push(Done::new(io.id, io.buffers, Err(NbdError::Invalid))),
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.backend.submit())
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        let mut ended = std::mem::take(&mut self.from_part);
        for part in &mut self.parts {
            part.backend.collect(now, &mut ended)?;
        }
        ended.drain(..).for_each(|done| self.end(done));
        self.from_part = ended;
        done.append(&mut self.done);
        Ok(())
    }

    fn due(&self) -> Nanos {
        let own = if self.done.is_empty() { Nanos::NEVER } else { Nanos::ZERO };
        self.parts.iter().map(|part| part.backend.due()).fold(own, Nanos::min)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.parts.iter().flat_map(|part| part.backend.descriptors()).collect()
    }

    fn block_bytes_min(&self) -> u32 {
        self.parts.iter().map(|part| part.backend.block_bytes_min()).max().unwrap_or(1)
    }

    fn size_bytes(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.place.end)
    }

    fn parts(&self) -> Vec<Range<u64>> {
        self.parts.iter().map(|part| part.place.clone()).collect()
    }

    fn trims(&self) -> bool {
        self.parts.iter().all(|part| part.backend.trims())
    }

    fn writes_zeroes(&self, keep: bool) -> bool {
        self.parts.iter().any(|part| part.backend.writes_zeroes(keep))
    }

    fn upstream(&self) -> Option<UpstreamStatus> {
        UpstreamStatus::of_all(self.parts.iter().map(|part| part.backend.upstream()))
    }

    fn describe(&self) -> String {
        let bytes: u64 = self.parts.iter().map(|part| part.backend.size_bytes()).sum();
        let each = self.parts.iter().map(|part| format!("; {}: {}", part.name, part.backend.describe()));
        format!("{} parts, {}{}", self.parts.len(), format_bytes(bytes), each.collect::<String>())
    }

    fn finish(&mut self) {
        self.parts.iter_mut().for_each(|part| part.backend.finish());
    }

    fn remarks(&mut self) -> Vec<Remark> {
        let of_part = |part: &mut Part| {
            let remarks = part.backend.remarks();
            remarks.into_iter().map(|(kind, what)| (kind, format!("part {}: {what}", part.name))).collect::<Vec<_>>()
        };
        self.parts.iter_mut().flat_map(of_part).collect()
    }
}
