//! Answers of an upstream, and the changes that they confirm, which are kept until a flush covers them.

use super::flight::{self, FLUSH, Payload, Purpose};
use super::kept::Kept;
use super::{Action, Done, EXTENTS_MAX, Io, Outcome, PAUSE_FIRST, RemarkKind, Upstream};
use crate::nbd::client::Answer;
use crate::nbd::{Command, NbdError};

impl Upstream {
    /// Applies a part of an answer.
    pub(super) fn apply(&mut self, answer: Answer<'_>) -> Result<(), String> {
        let (Answer::Data(cookie, ..)
        | Answer::Zeroes(cookie, ..)
        | Answer::Extent(cookie, _)
        | Answer::Error(cookie, _)
        | Answer::Done(cookie)) = answer;
        let slot = flight::slot_of(cookie);
        let Some(flight) = self.flights.get_mut(slot) else { return Ok(()) };
        match answer {
            Answer::Data(_, offset, bytes) => {
                flight.coverage.add(offset, bytes.len() as u64).map_err(|error| error.to_string())?;
                if let Purpose::Io(op) = flight.purpose
                    && let Some(op) = self.ops.get_mut(op)
                {
                    op.fill(offset, bytes);
                }
            }
            Answer::Zeroes(_, offset, length) => {
                flight.coverage.add(offset, length).map_err(|error| error.to_string())?;
                if let Purpose::Io(op) = flight.purpose
                    && let Some(op) = self.ops.get_mut(op)
                {
                    op.zero(offset, length);
                }
            }
            Answer::Extent(_, extent) if flight.extents.len() < EXTENTS_MAX => flight.extents.push(extent),
            Answer::Extent(..) => {}
            // The error breaks the connection, whose requests are then sent again on another one.
            Answer::Error(_, NbdError::ShuttingDown) => return Err("it is about to stop".into()),
            Answer::Error(_, error) => drop(flight.error.get_or_insert(error)),
            Answer::Done(_) => {
                flight.check()?;
                self.pause = PAUSE_FIRST;
                self.landed(slot);
            }
        }
        Ok(())
    }

    /// A request was answered, or has failed without an answer.
    pub(super) fn landed(&mut self, slot: u32) {
        let Some(flight) = self.flights.remove(slot) else { return };
        if let Some(link) = flight.link.and_then(|link| self.links[link].as_mut()) {
            link.in_flight -= 1;
        }
        // Flushes that the upstream has at the same time fail together: it may report the loss of data only in one of them.
        let is_void = flight.asked.command == Command::Flush && self.lost.is_some();
        let error = if is_void { Some(NbdError::InputOutput) } else { flight.error };
        match flight.purpose {
            Purpose::Io(op) => {
                // A flush that failed before any connection had it says nothing about the upstream.
                if flight.asked.command == Command::Flush && flight.link.is_some() {
                    self.flushed(flight.upto, error);
                }
                let Some(its) = self.ops.get_mut(op) else { return };
                its.left -= 1;
                its.begun.get_or_insert(self.deaths);
                its.error = its.error.or(error);
                its.take_extents(flight.extents);
                if its.left == 0 {
                    self.ended(op);
                }
            }
            Purpose::Flush => {
                self.flushes = false;
                self.flushed(flight.upto, error);
            }
            Purpose::Repeat => {
                self.repeating -= 1;
                match error {
                    // The flush after the first connection repeats no change.
                    None if flight.asked.command == Command::Flush => {}
                    None => {
                        self.answered += 1;
                        self.kept.renew(flight.asked.offset, self.answered);
                    }
                    Some(error) => {
                        let what = format!("what it had answered cannot be written again: {}", error.name());
                        self.lose(what);
                    }
                }
            }
        }
    }

    /// A flush was answered that was sent after the first `upto` changes had been answered.
    fn flushed(&mut self, upto: u64, error: Option<NbdError>) {
        match error {
            None => {
                self.covered = self.covered.max(upto);
                self.kept.covered(upto);
            }
            // An upstream may report a failed flush only once and then forget it.
            Some(error) => self.lose(format!("a flush of it has failed: {}", error.name())),
        }
    }

    /// Takes note that changes which were answered are lost for good.
    pub(super) fn lose(&mut self, why: String) {
        if self.lost.is_none() {
            let what = format!("what was answered and not flushed may be lost, and the next flush fails: {why}");
            self.remark(RemarkKind::UpstreamLoss, &what);
            self.lost = Some(why);
            // Kept changes are not repeated after a loss, so none have to be kept.
            self.kept = Kept::default();
        }
    }

    /// All requests of an operation were answered.
    fn ended(&mut self, number: u32) {
        let Some(op) = self.ops.get_mut(number) else { return };
        let Io { action, offset, length, durable, .. } = op.io;
        let changes = matches!(action, Action::Write | Action::Trim | Action::Zero { .. });
        let is_whole = op.begun == Some(self.deaths);
        if changes && op.error.is_none() && !op.is_covering && !is_whole && !self.plan.write_through {
            // Pieces of the change that were answered before the upstream died may be lost.
            return self.ask_all(number);
        }
        if changes && op.error.is_none() && !op.is_covering && !self.plan.write_through {
            if durable && self.terms.has_fua() {
                self.kept.cut(offset, length);
            } else {
                self.answered += 1;
                if self.plan.unflushed_bytes_max > 0 && self.lost.is_none() {
                    for (offset, length) in flight::pieces(&self.terms, action, offset, length) {
                        self.kept.put(self.answered, offset, length, op.change(offset, length));
                    }
                }
                if durable {
                    // The upstream has no FUA, so a flush makes the write durable.
                    op.is_covering = true;
                    op.left = 1;
                    return self.ask(Purpose::Io(number), FLUSH, 0, Payload::None);
                }
            }
        }
        let Some(mut op) = self.ops.remove(number) else { return };
        let result = match op.error {
            // Whether the failed flush has lost data is unknown.
            Some(NbdError::NoSpace) if action == Action::Flush => Err(NbdError::InputOutput),
            Some(error) => Err(error),
            None if action == Action::Extents => Ok(Outcome::Extents(op.extents())),
            None => Ok(Outcome::Plain),
        };
        self.done.push(Done::new(op.io.id, op.io.buffers, result));
    }

    /// No connection is left that vouches for the changes that were answered since the last flush; they may be lost.
    pub(super) fn nobody_vouches(&mut self) {
        let is_any_open = self.answered > self.covered;
        self.deaths += 1;
        self.covered = self.answered;
        if self.plan.unflushed_bytes_max == 0 {
            if is_any_open {
                self.lose("the connections that it had answered on have ended".into());
            }
            return;
        }
        // Waiting repetitions are dropped here, and made again from what is kept.
        let Self { waiting, flights, repeating, .. } = self;
        waiting.retain(|&slot| {
            let repeats = flights.get(slot).is_some_and(|flight| matches!(flight.purpose, Purpose::Repeat));
            if repeats {
                flights.remove(slot);
                *repeating -= 1;
            }
            !repeats
        });
        self.repeats = !self.kept.is_empty();
    }
}
