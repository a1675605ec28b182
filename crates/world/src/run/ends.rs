//! The rest and the end of a server.

use ioweir_core::Nanos;

use super::super::plan::{Backing, End, SECTORS};
use super::super::promise::Promise;
use super::servers::Up;
use super::{PATIENCE, REST_MAX, World};
use ioweir_serve::engine::{Command, Turn};

impl World {
    /// Lets every request be answered, and checks that all counters agree.
    pub(super) fn rest(&mut self) {
        if self.up.is_none() {
            return;
        }
        self.devices.calm();
        self.look_at_passes();
        if let Some(canary) = self.plan.canary {
            self.mislead(canary);
        }
        for client in &mut self.clients {
            client.flood = None;
            client.deaf_until = client.deaf_until.min(self.now);
        }
        let until = self.now.after(REST_MAX);
        while self.now < until && !self.is_broken() && !self.is_at_rest() {
            self.run_until(self.now.after(Nanos::from_seconds(1)));
        }
        if self.is_broken() {
            return;
        }
        let requests = self.requests();
        let outstanding: usize = self.clients.iter().map(|client| client.outstanding.len()).sum();
        self.verdict.check(Promise::Waits, requests == 0 && outstanding == 0, || {
            let left = self.clients.iter().flat_map(|client| client.outstanding.values());
            let left: Vec<_> = left.map(|asked| (asked.ask, asked.is_valid, asked.first, asked.sectors)).collect();
            format!("{outstanding} requests are not answered at rest, and the server has {requests}: {left:?}")
        });
        if self.is_broken() {
            return;
        }
        self.histories.iter_mut().for_each(|its| its.settle(self.ticks, &mut self.verdict));
        self.end_stalls();
        self.ask_report();
        self.settle();
        self.note("rest", self.outcome.requests, 0);
        for side in self.up.iter().flat_map(Up::sides) {
            let buffered = side.engine.buffered_bytes();
            self.verdict
                .check(Promise::Waits, buffered == 0, || format!("{buffered} bytes of buffers are in use at rest"));
            side.tally.check(&mut self.verdict);
        }
        self.check_removed();
        let upstream = self.main().and_then(|main| main.engine.upstream());
        let has_lost = upstream.is_some_and(|upstream| upstream.has_lost);
        if self.failed_at.is_some() || self.has_failed() || has_lost {
            // The operator restarts the server, and data that the system could not write is gone.
            self.stop(End::Power, Nanos::from_seconds(1));
        }
        self.has_trouble = self.plan.backing.has_checksums() && self.is_rotten;
        self.is_faulty = self.has_trouble;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.main().is_some_and(|main| main.engine.failure().is_some())
    }

    fn requests(&self) -> usize {
        self.up.iter().flat_map(Up::sides).map(|side| side.engine.requests()).sum()
    }

    pub(super) fn is_at_rest(&self) -> bool {
        let is_busy = self.up.as_ref().is_some_and(|up| up.operator.wanted.is_some());
        !is_busy
            && self.requests() == 0
            && self.clients.iter().all(|client| client.outstanding.is_empty() && !client.is_spoilt)
    }

    /// The server ends, and another one starts.
    pub(super) fn stop(&mut self, end: End, pause: Nanos) {
        self.note("end", end as u64, 0);
        self.end_stalls();
        self.look_at_passes();
        let mut loses = end == End::Power;
        match end {
            End::Stopped => loses = self.stop_well(None, Nanos::from_seconds(100)),
            End::HandedOver => loses = self.stop_well(Some(REST_MAX), REST_MAX.after(PATIENCE)),
            End::Power | End::Killed => {}
        }
        // A server that was only killed would read data that no flush makes durable.
        loses |= self.devices.have_lost();
        if self.is_broken() {
            return;
        }
        self.outcome.ends[end as usize] += 1;
        for number in 0..self.clients.len() {
            if self.clients[number].line.is_some() {
                self.leave_behind(number);
            }
        }
        self.ticks += 1;
        // A map that was not made durable ends with the process.
        let forgets = loses || self.plan.backing == Backing::Placed;
        for (history, loses) in self.histories.iter_mut().zip([forgets, loses]) {
            history.crash(self.ticks, loses, &mut self.verdict);
        }
        (self.loses, self.is_cut) = (forgets, loses);
        self.devices.turn_off(loses);
        // This ends its operator's change, too.
        self.up = None;
        self.devices.turn_on();
        (self.failed_at, self.is_stopping) = (None, false);
        self.has_trouble = self.is_rotten;
        self.is_faulty = self.is_rotten;
        self.now = self.now.after(pause);
        if !self.is_broken() {
            self.start();
        }
        (self.has_trouble, self.is_faulty) = (false, false);
    }

    /// Asks the server to stop within a time, or that of its spec; returns whether answered writes may be lost after it.
    pub(super) fn stop_well(&mut self, within: Option<Nanos>, patience: Nanos) -> bool {
        let Some(up) = &mut self.up else { return false };
        up.sides().for_each(|side| side.handle.send(Command::Stop(within)));
        self.is_stopping = true;
        let until = self.now.after(patience);
        let runs = |world: &Self| world.up.iter().flat_map(Up::sides).any(|side| side.ended.is_none());
        while runs(self) && self.now < until && !self.is_broken() {
            self.run_until(self.now.after(Nanos::from_millis(100)));
        }
        self.verdict.check(Promise::Waits, !runs(self), || "the server does not stop".into());
        // All answered writes are durable, whatever happens to the disks.
        self.ticks += 1;
        for side in self.up.iter().flat_map(Up::sides) {
            if side.ended == Some(Turn::Stopped) && side.engine.failure().is_none() {
                self.histories[side.history].flushed(self.ticks, (0, SECTORS));
            }
        }
        self.loses = true;
        true
    }
}
