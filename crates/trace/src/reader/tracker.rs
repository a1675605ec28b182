//! Watches the numbers and times of events by processor, and finds out where events are missing.

use std::collections::HashMap;

use crate::Completeness;
use crate::reader::order::Hole;

/// The most pairs of device and processor that are watched.
const WATCHED_MAX: usize = 1 << 16;

/// The number of places that are found again without a look-up.
const RECENT: usize = 32;

/// The last event of a device on a processor.
#[derive(Clone, Copy, Debug)]
struct Last {
    of: (u64, u32),
    sequence: u64,
    time_nanos: u64,
    remaps: u64,
}

/// The last events of each processor.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    last: Vec<Last>,
    /// Places in `last` by device and processor. Events that bear no device count under device zero.
    places: HashMap<(u64, u32), usize>,
    /// The places that were looked up last, by processor.
    recent: [usize; RECENT],
    latest_nanos: u64,
    /// Whether each processor has lost the events before its first.
    begins_late: bool,
    events_lost: u64,
    holes_uncounted: u64,
    lines_passed_over: u64,
}

impl Tracker {
    /// Notes an event, and returns the hole before it if its number does not follow on. `remaps` is how many events of the
    /// same processor have so far been printed under another device than the one that numbered them.
    #[inline]
    pub(crate) fn event(
        &mut self,
        (device, cpu): (u64, u32),
        sequence: u64,
        time_nanos: u64,
        remaps: u64,
    ) -> Option<Hole> {
        self.latest_nanos = self.latest_nanos.max(time_nanos);
        let now = Last { of: (device, cpu), sequence, time_nanos, remaps };
        let recent = self.recent[cpu as usize % RECENT];
        let last = match self.last.get_mut(recent).filter(|last| last.of == now.of) {
            Some(last) => std::mem::replace(last, now),
            None => match self.other(now) {
                Some(last) => last,
                None => return self.begins_late.then_some(Hole { from_nanos: 0, to_nanos: time_nanos }),
            },
        };
        // Numbers that do not grow are those of another capture in the same file.
        let missing = sequence.saturating_sub(last.sequence).saturating_sub(1);
        if missing <= remaps - last.remaps {
            return None;
        }
        self.events_lost += missing;
        Some(Hole { from_nanos: last.time_nanos, to_nanos: time_nanos })
    }

    /// Notes an event of another device or processor than the one before, and returns the event before it there.
    fn other(&mut self, now: Last) -> Option<Last> {
        if let Some(place) = self.places.get(&now.of) {
            self.recent[now.of.1 as usize % RECENT] = *place;
            return self.last.get_mut(*place).map(|last| std::mem::replace(last, now));
        }
        if self.last.len() < WATCHED_MAX {
            self.recent[now.of.1 as usize % RECENT] = self.last.len();
            self.places.insert(now.of, self.last.len());
            self.last.push(now);
        }
        None
    }

    /// Notes a loss that the tracer has marked, on a processor if it names one. The hole reaches up to the latest event.
    #[cold]
    pub(crate) fn lost(&mut self, cpu: Option<u32>, events: Option<u64>) -> Hole {
        match events {
            Some(events) => self.events_lost = self.events_lost.saturating_add(events),
            None => self.holes_uncounted += 1,
        }
        let Some(cpu) = cpu else { return Hole::ANYWHERE };
        let from_nanos = self.places.get(&(0, cpu)).map_or(0, |place| self.last[*place].time_nanos);
        Hole { from_nanos, to_nanos: self.latest_nanos }
    }

    /// Notes that events were lost before the first of each processor.
    #[cold]
    pub(crate) fn lost_before(&mut self, events: u64) {
        self.begins_late = true;
        self.events_lost = self.events_lost.saturating_add(events);
    }

    pub(crate) fn pass_over(&mut self) {
        self.lines_passed_over += 1;
    }

    pub(crate) fn completeness(&self) -> Completeness {
        Completeness {
            events_lost: self.events_lost,
            holes_uncounted: self.holes_uncounted,
            lines_passed_over: self.lines_passed_over,
            ..Completeness::default()
        }
    }
}
