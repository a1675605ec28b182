//! Answers to clients, and the end of their connections.

use super::super::canary::Canary;
use super::super::client::{Answer, Ask, Client, Outstanding};
use super::super::promise::Promise;
use super::{EIO, ENOSPC, ESHUTDOWN, World};

impl World {
    /// The connection of a client has ended.
    pub(super) fn leave_behind(&mut self, number: usize) {
        self.note("left", number as u64, 0);
        for (cookie, asked) in self.clients[number].left() {
            let Client { device, class, history, .. } = self.clients[number];
            self.histories[history].lose(cookie);
            if let Some(side) = self.up.as_mut().and_then(|up| up.side(device)) {
                side.tally.lost(class, &asked);
            }
            if self.probes.remove(&cookie).is_some() {
                self.broken(Promise::Waits, "a client is cut off while it reads after a start".into());
            }
        }
    }

    /// A client is answered.
    pub(super) fn answered(&mut self, number: usize, answer: Answer) {
        self.ticks += 1;
        let Answer { cookie, asked, mut error, data } = answer;
        self.note("answer", cookie, u64::from(error));
        let Client { device, class, history: its, flushes, .. } = self.clients[number];
        if self.plan.canary == Some(Canary::HiddenFailure) && self.failed_at.is_some() && error == EIO {
            error = 0;
        }
        if self.plan.canary == Some(Canary::HeardCopies)
            && its == 0
            && self.has_trouble
            && !self.is_faulty
            && error == 0
        {
            error = EIO;
        }
        self.check_answer(number, &asked, error);
        let until = self.ticks;
        if asked.is_valid && self.forgets() {
            // The canary of counters forgets this answer.
        } else if let Some(side) = self.up.as_mut().and_then(|up| up.side(device)) {
            side.tally.answered(class, &asked, error);
        }
        if asked.ask == Ask::Flush && asked.is_valid {
            if error == 0 {
                self.histories[its].flushed(asked.from, flushes);
            } else if error == EIO && its == 0 {
                self.failed_at.get_or_insert(until);
            }
        }
        let (history, verdict) = (&mut self.histories[its], &mut self.verdict);
        match asked.ask {
            Ask::Read if asked.is_valid => match read_values(&data, error) {
                Ok(values) => {
                    if let Some(first) = self.probes.remove(&cookie) {
                        self.probed(first, values.as_deref());
                    } else {
                        let values =
                            if its == 0 && self.is_rotten && values.is_some() && !self.plan.backing.has_checksums() {
                                None
                            } else {
                                values
                            };
                        history.read(cookie, until, values.as_deref(), verdict);
                    }
                }
                // After a start, the state of a block that was being written is unknown: it has no checksum, so damage in it stays unseen
                // until it is written again.
                Err(()) if its == 0 && self.is_rotten && self.probes.remove(&cookie).is_some() => self.keeps_rot = true,
                Err(()) if its == 0 && self.keeps_rot => drop(self.probes.remove(&cookie)),
                Err(()) => self.broken(Promise::Linearisable, format!("a sector of the read {cookie} is torn")),
            },
            Ask::Write | Ask::Trim | Ask::Zero if asked.is_valid => {
                history.wrote(cookie, until, (error != 0, asked.fua && error == 0), verdict);
            }
            _ => {}
        }
        let client = &mut self.clients[number];
        if let Some(flood) = client.flood {
            client.next_at = self.now.after(flood.thinks);
        }
        if self.plan.canary == Some(Canary::SecondAnswer) && !self.has_misled && cookie > 40 {
            self.has_misled = true;
            let awaited = self.clients[number].outstanding.contains_key(&cookie);
            self.verdict.check(Promise::Protocol, awaited, || format!("an answer with cookie {cookie} comes twice"));
        }
    }

    pub(super) fn forgets(&mut self) -> bool {
        let forgets = self.plan.canary == Some(Canary::ForgottenAnswer) && !self.has_misled && self.ticks > 60;
        self.has_misled |= forgets;
        forgets
    }

    /// Checks that an answer is possible, and comes in time.
    pub(super) fn check_answer(&mut self, number: usize, asked: &Outstanding, error: u32) {
        // Faults of one device do not concern the clients of another.
        let is_main = self.clients[number].history == 0;
        let has_failed = is_main && self.failed_at.is_some_and(|at| asked.from > at);
        if has_failed && asked.is_valid && (asked.ask.changes() || asked.ask == Ask::Flush) {
            let what =
                || format!("a {:?} of client {number} succeeds although a flush has failed before it", asked.ask);
            self.verdict.check(Promise::FailedStays, error != 0, what);
        }
        let may_fail = is_main && (self.is_faulty || self.failed_at.is_some());
        let fits = match error {
            0 => asked.is_valid,
            EIO | ENOSPC => !asked.is_valid || may_fail,
            ESHUTDOWN => true,
            _ => !asked.is_valid,
        };
        self.verdict.check(Promise::Protocol, fits, || {
            format!(
                "client {number} is answered with {error}: {:?} of {} sectors at {}",
                asked.ask, asked.sectors, asked.first
            )
        });
        let history = self.clients[number].history;
        let took = self.now.since(asked.at);
        if asked.ask == Ask::Read {
            let longest = &mut self.outcome.longest_reads[history];
            *longest = took.max(*longest);
        }
        let waited = took.since(self.excused_of(history).since(asked.excused));
        self.verdict.check(Promise::Waits, waited <= asked.patience, || {
            format!("client {number} waits {waited} for a {:?}, with patience for {}", asked.ask, asked.patience)
        });
    }

    /// Checks that a sector has a possible value after a start.
    pub(super) fn probed(&mut self, (its, first): (usize, u64), values: Option<&[u32]>) {
        let Some(values) = values else { return };
        let promise = if self.loses { Promise::Durable } else { Promise::Linearisable };
        for (sector, &value) in (first..).zip(values) {
            if its == 0 && self.is_rotten {
                self.histories[its].adopt(self.ticks, sector, value, self.is_cut);
            } else {
                self.histories[its].found(self.ticks, sector, value, (promise, self.is_cut), &mut self.verdict);
            }
        }
    }
}

/// The values of the sectors, if they were read; an error if one of them is torn.
fn read_values(data: &[u8], error: u32) -> Result<Option<Vec<u32>>, ()> {
    if error != 0 {
        return Ok(None);
    }
    let value = |sector: &[u8]| {
        let is_whole = sector[4..] == sector[..sector.len() - 4];
        is_whole.then(|| u32::from_be_bytes([sector[0], sector[1], sector[2], sector[3]])).ok_or(())
    };
    data.chunks_exact(512).map(value).collect::<Result<Vec<_>, _>>().map(Some)
}
