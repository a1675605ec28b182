//! Watches the numbers and times of events by processor, and finds out where events are missing.

use std::collections::HashMap;

use crate::Completeness;
use crate::reader::order::Hole;

/// The most pairs of device and processor that are watched.
const WATCHED_MAX: usize = 1 << 16;

/// The last event of a device on a processor.
#[derive(Clone, Copy, Debug)]
struct Last {
    sequence: u64,
    time_nanos: u64,
    remaps: u64,
}

/// The last events of each processor.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    /// By device and processor. Events that bear no device count under device zero.
    last: HashMap<(u64, u32), Last>,
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
        let room = self.last.len() < WATCHED_MAX;
        let now = Last { sequence, time_nanos, remaps };
        let last = match self.last.get_mut(&(device, cpu)) {
            Some(last) => std::mem::replace(last, now),
            None if room => {
                self.last.insert((device, cpu), now);
                return self.begins_late.then_some(Hole { from_nanos: 0, to_nanos: time_nanos });
            }
            None => return None,
        };
        // Numbers that do not grow are those of another capture in the same file.
        let missing = sequence.saturating_sub(last.sequence).saturating_sub(1);
        if missing <= remaps - last.remaps {
            return None;
        }
        self.events_lost += missing;
        Some(Hole { from_nanos: last.time_nanos, to_nanos: time_nanos })
    }

    /// Notes a loss that the tracer has marked, on a processor if it names one. The hole reaches up to the latest event.
    #[cold]
    pub(crate) fn lost(&mut self, cpu: Option<u32>, events: Option<u64>) -> Hole {
        match events {
            Some(events) => self.events_lost = self.events_lost.saturating_add(events),
            None => self.holes_uncounted += 1,
        }
        let Some(cpu) = cpu else { return Hole::ANYWHERE };
        let from_nanos = self.last.get(&(0, cpu)).map_or(0, |last| last.time_nanos);
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
