//! The duty of a service that pays a debt of the backend: discards to be carried out, blocks on the wrong tier.

use std::ops::Range;

use ioweir_core::Nanos;

use super::{Duty, Found, Next, Piece, ServiceReport, ServiceWait};
use crate::backend::{Action, Backend, Task};
use crate::log::EventKind;
use crate::nbd::NbdError;

/// How long a debt rests after a request that failed.
const AGAIN_AFTER: Nanos = Nanos::from_seconds(1);

/// Pays a debt range by range, from the beginning of the device to its end and again. The backend keeps the debt durably, so that a restart
/// continues it.
pub(super) struct Debt {
    /// The kinds of owed work; each is done before the ones after it.
    tasks: &'static [Task],
    /// The most bytes of a request; where absent, the most of any request with data.
    length_max: Option<u64>,
    /// The offset from which the next range is looked for.
    cursor: u64,
    /// The bytes in flight of each of the tasks, which are still owed.
    pending_bytes: Vec<u64>,
    wall: Nanos,
    /// The time to try again after a failure.
    again: Nanos,
    /// When the debt last rose from zero, and when it was last paid in full.
    since: Option<Nanos>,
    finished: Option<Nanos>,
}

impl Debt {
    pub(super) fn new(tasks: &'static [Task], length_max: Option<u64>) -> Self {
        Self {
            tasks,
            length_max,
            cursor: 0,
            pending_bytes: vec![0; tasks.len()],
            wall: Nanos::ZERO,
            again: Nanos::ZERO,
            since: None,
            finished: None,
        }
    }

    /// A range that is not in flight of the first task that owes one, at or after an offset.
    fn next_range(&self, backend: &mut dyn Backend, from: u64, length_max: u64) -> Option<(Task, Range<u64>)> {
        self.tasks.iter().zip(&self.pending_bytes).find_map(|(&task, pending)| {
            let length_max = match *pending {
                0 => length_max,
                pending => length_max.min(backend.owed_bytes(task).saturating_sub(pending)),
            };
            if length_max == 0 {
                return None;
            }
            Some((task, backend.next_owed(task, from, length_max)?))
        })
    }

    fn is_in_flight(&self) -> bool {
        self.pending_bytes.iter().any(|pending| *pending > 0)
    }

    /// The bytes in flight of a piece's task.
    fn pending(&mut self, piece: Piece) -> Option<&mut u64> {
        let number = self.tasks.iter().position(|task| piece.action == Action::Serve(*task))?;
        self.pending_bytes.get_mut(number)
    }
}

impl Duty for Debt {
    fn look(&mut self, wall: Nanos, backend: &dyn Backend) -> Found {
        self.wall = wall;
        let owes = self.is_in_flight() || self.owed_bytes(backend) > 0;
        if owes {
            self.since.get_or_insert(wall);
        } else if self.since.take().is_some() {
            self.finished = Some(wall);
        }
        Found::new()
    }

    fn next(&mut self, backend: &mut dyn Backend, length_max: u64) -> Next {
        if self.again > self.wall {
            return Next::Later(self.again.since(self.wall));
        }
        let length_max = self.length_max.unwrap_or(length_max);
        let mut found = self.next_range(backend, self.cursor, length_max);
        // Ranges in flight are still owed, so the search starts again at the beginning only when there are none.
        if found.is_none() && self.cursor > 0 && !self.is_in_flight() {
            found = self.next_range(backend, 0, length_max);
        }
        let Some((task, range)) = found else {
            let wait = if self.is_in_flight() { ServiceWait::Nothing } else { ServiceWait::NothingOwed };
            return Next::Wait(wait);
        };
        self.cursor = range.end;
        let (offset, length) = (range.start, range.end - range.start);
        let piece = Piece { action: Action::Serve(task), offset, length };
        if let Some(pending) = self.pending(piece) {
            *pending += length;
        }
        Next::Request(piece)
    }

    fn put_back(&mut self, piece: Piece) {
        if let Some(pending) = self.pending(piece) {
            *pending -= piece.length;
        }
        self.cursor = self.cursor.min(piece.offset);
    }

    fn ended(&mut self, piece: Piece, _damaged: &[u64], error: Option<NbdError>, report: &mut ServiceReport) -> Found {
        if let Some(pending) = self.pending(piece) {
            *pending -= piece.length;
        }
        let Piece { offset, length, .. } = piece;
        report.done_bytes += length;
        let Some(error) = error else { return Found::new() };
        report.found.failed_bytes += length;
        self.again = self.wall.after(AGAIN_AFTER);
        vec![(
            EventKind::OperationFailed,
            format!("its work on the {length} bytes at {offset} failed: {}", error.name()),
        )]
    }

    fn owed_bytes(&self, backend: &dyn Backend) -> u64 {
        self.tasks.iter().map(|&task| backend.owed_bytes(task)).sum()
    }

    fn due(&self) -> Option<Nanos> {
        self.since
    }

    fn finished(&self) -> Option<Nanos> {
        self.finished
    }
}
