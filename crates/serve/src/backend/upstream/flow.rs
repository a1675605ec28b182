//! The flow of requests to connections: their order, and how long they wait.

use std::collections::VecDeque;

use ioweir_config::format_bytes;

use super::flight::{self, FLUSH, Payload, Purpose};
use super::{BATCH, RemarkKind, Upstream};
use crate::nbd::client::Asked;
use crate::nbd::{Command, NbdError};

impl Upstream {
    /// Repeats the kept changes, once there is a connection and no other request is with the upstream.
    pub(super) fn repeat_kept(&mut self) {
        if !self.repeats
            || self.ready_links().next().is_none()
            || self.flights.iter().any(|(_, flight)| flight.link.is_some())
        {
            return;
        }
        self.repeats = false;
        let all: Vec<_> = self.kept.all().collect();
        let what = format!("what it may have lost is written again: {}", format_bytes(self.kept.bytes()));
        self.remark(RemarkKind::UpstreamBack, &what);
        for (offset, length, change) in all {
            let (command, flags, payload) = flight::repeat_of(&self.terms, change);
            self.repeating += 1;
            self.ask(Purpose::Repeat, Asked { command, offset, length }, flags, payload);
        }
    }

    /// Gives waiting requests to connections. Requests wait while kept changes are repeated, and where too much is kept.
    pub(super) fn assign(&mut self) {
        let bytes_max = self.plan.unflushed_bytes_max;
        if bytes_max > 0 && self.kept.bytes() >= bytes_max / 2 && !self.flushes && self.lost.is_none() {
            self.flushes = true;
            self.ask(Purpose::Flush, FLUSH, 0, Payload::None);
        }
        if self.waiting.is_empty() || self.repeats {
            return;
        }
        let is_full = bytes_max > 0 && self.kept.bytes() >= bytes_max && self.lost.is_none();
        let (mut left, mut failed) = (VecDeque::new(), Vec::new());
        let Self { waiting, flights, links, serial, covered, answered, repeating, lost, .. } = self;
        for slot in waiting.drain(..) {
            let Some(flight) = flights.get_mut(slot) else { continue };
            let is_flush = flight.asked.command == Command::Flush;
            if is_flush && lost.is_some() {
                failed.push(slot);
                continue;
            }
            let waits = match flight.purpose {
                Purpose::Repeat => false,
                _ => *repeating > 0 || is_full && flight.asked.command.changes(),
            };
            let ready = links.iter_mut().enumerate().filter_map(|(number, link)| Some((number, link.as_mut()?)));
            let fit = ready.filter(|(_, link)| link.is_ready() && (!is_flush || link.since <= *covered));
            match fit.min_by_key(|(_, link)| link.in_flight).filter(|_| !waits) {
                Some((number, link)) => {
                    *serial = serial.wrapping_add(1);
                    let replies = link.terms.map(|terms| terms.replies).unwrap_or_default();
                    flight.begin(number, slot, *serial, replies, *answered);
                    link.in_flight += 1;
                    link.queue.push_back(slot);
                }
                None => left.push_back(slot),
            }
        }
        self.waiting = left;
        failed.into_iter().for_each(|slot| self.fail(slot));
    }

    /// Fails a request that no connection has.
    fn fail(&mut self, slot: u32) {
        if let Some(flight) = self.flights.get_mut(slot) {
            flight.error = Some(NbdError::InputOutput);
            self.landed(slot);
        }
    }

    /// Sends as much to each connection as it accepts.
    pub(super) fn send(&mut self) {
        for number in 0..self.links.len() {
            if let Err(problem) = self.send_on(number) {
                self.break_link(number, &problem);
            }
        }
    }

    fn send_on(&mut self, number: usize) -> Result<(), String> {
        let Self { links, flights, ops, poller, .. } = self;
        let Some(link) = links.get_mut(number).and_then(Option::as_mut) else { return Ok(()) };
        link.send_words()?;
        while !link.queue.is_empty() {
            let (mut slices, mut offered, mut skipped) = (Vec::new(), 0, link.sent_bytes);
            for flight in link.queue.iter().take(BATCH).filter_map(|slot| flights.get(*slot)) {
                flight.put_slices(ops, skipped, &mut slices);
                offered += flight.bytes() - skipped;
                skipped = 0;
                if slices.len() >= SLICES_MAX {
                    break;
                }
            }
            slices.truncate(SLICES_MAX);
            let sent = link.send(&slices)?;
            link.sent_bytes += sent;
            while let Some(flight) = link.queue.front().and_then(|slot| flights.get(*slot))
                && link.sent_bytes >= flight.bytes()
            {
                link.sent_bytes -= flight.bytes();
                link.queue.pop_front();
            }
            if sent == 0 || sent < offered {
                break;
            }
        }
        let wanted = link.wanted();
        if wanted != link.interest {
            let changed = poller.modify(&link.stream, number as u64, wanted);
            changed.map_err(|error| format!("it cannot be waited for: {error}"))?;
            link.interest = wanted;
        }
        Ok(())
    }

    /// Ends connections and requests that have taken too long.
    pub(super) fn check_limits(&mut self) {
        for number in 0..self.links.len() {
            let is_late = |link: &super::Link| !link.is_ready() && link.deadline <= self.now;
            if self.links[number].as_ref().is_some_and(is_late) {
                self.break_link(number, "it does not agree on an export in time");
            }
        }
        let limit = self.plan.reconnect_limit;
        if self.is_given_up || self.down_since.is_none_or(|since| since.after(limit) > self.now) {
            return;
        }
        self.is_given_up = true;
        let what = format!(
            "no connection for {limit}: waiting requests fail, and it is connected to again as soon as it answers"
        );
        self.remark(RemarkKind::UpstreamGone, &what);
        // Repetitions that wait are dropped below, and made again after the next connection.
        self.repeats |= self.repeating > 0;
        for slot in std::mem::take(&mut self.waiting) {
            match self.flights.get(slot).map(|flight| flight.purpose) {
                Some(Purpose::Repeat) => {
                    self.flights.remove(slot);
                    self.repeating -= 1;
                }
                Some(Purpose::Flush) => {
                    self.flights.remove(slot);
                    self.flushes = false;
                }
                Some(Purpose::Io(_)) => self.fail(slot),
                None => {}
            }
        }
    }
}

/// The most slices of one call.
const SLICES_MAX: usize = 512;
