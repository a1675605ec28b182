//! A pass over a device reads all written data once in each period.
//!
//! Written data is everything that the device reports as allocated, and in its holes every block with a checksum: data that has become a
//! hole is damage, too. The bytes to be read are counted first, by queries alone.
//!
//! Everything before the durable position was read. The pass reads at most [`SLICE_BYTES`] beyond it, and so repeats no more than that
//! after a restart, and skips nothing.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use ioweir_core::Nanos;

use super::progress::{Keeper, Progress};
use super::{Duty, Found, Next, Piece, ServiceReport, ServiceWait, Shelf};
use crate::backend::{Action, BLOCK_BYTES, Backend};
use crate::log::EventKind;
use crate::nbd::NbdError;
use crate::nbd::protocol::STATE_HOLE;
use crate::nbd::reply::Extent;
use crate::spec;

/// The most bytes that are read beyond the durable position.
pub(super) const SLICE_BYTES: u64 = 32 << 20;
/// A pass becomes due once in this time, unless the spec says otherwise.
const EVERY: Nanos = Nanos::from_seconds(7 * 24 * 3600);
/// The most queries that count the bytes to be read; everything after the last of them counts as written.
const MEASURES_MAX: u32 = 4096;

/// The purpose of a query for extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To count the bytes to be read from this offset on.
    Measure(u64),
    /// To find the ranges to be read from the position on.
    Read,
}

/// The pass that is under way.
#[derive(Debug)]
struct Run {
    /// The offset from which bytes are still to be counted; `None` once all are.
    measuring: Option<u64>,
    measures: u32,
    /// The bytes that are to be read.
    left_bytes: u64,
    /// The offset before which every piece is in `ranges`, open, or done.
    position: u64,
    ranges: VecDeque<Range<u64>>,
    /// Open pieces whose requests are still to be made.
    again: VecDeque<Piece>,
    /// The pieces that have not ended, by offset, each with the bytes of all pieces before it since the server began.
    open: BTreeMap<u64, u64>,
    /// The bytes of all pieces so far.
    begun_bytes: u64,
    /// The part of `begun_bytes` that lies before the durable position.
    kept_bytes: u64,
    asked: Option<Purpose>,
}

/// The duty of a service that reads the whole device from time to time.
pub(super) struct Pass {
    every: Nanos,
    deadline: Option<Nanos>,
    size_bytes: u64,
    progress: Progress,
    keeper: Keeper,
    /// The bytes that are behind the durable position once the commit in progress ends.
    keeping: Option<u64>,
    run: Option<Run>,
    is_late: bool,
    could_keep: bool,
}

impl Pass {
    /// Continues from the saved state, or becomes due at once.
    ///
    /// # Errors
    /// If the system has no threads left.
    pub(super) fn open(
        spec: &spec::Service,
        state: Option<Arc<dyn Shelf>>,
        size_bytes: u64,
        wall: Nanos,
    ) -> io::Result<(Self, Option<String>)> {
        let (keeper, found, remark) = Keeper::open(state, size_bytes)?;
        let mut progress = found.unwrap_or_else(|| Progress::begin(size_bytes, wall.0));
        let every = every(spec);
        // A clock that was put back must put off neither the next pass, nor the one after a pass that is under way.
        let latest = if progress.position_bytes.is_some() { wall } else { wall.after(every) };
        progress.due_nanos = progress.due_nanos.min(latest.0);
        let deadline = spec.deadline.map(|deadline| deadline.nanos());
        let mut pass = Self {
            every,
            deadline,
            size_bytes,
            progress,
            keeper,
            keeping: None,
            run: None,
            is_late: false,
            could_keep: true,
        };
        if let Some(position) = progress.position_bytes {
            pass.begin(position);
        }
        Ok((pass, remark))
    }

    fn begin(&mut self, position: u64) {
        self.run = Some(Run {
            measuring: Some(position),
            measures: 0,
            left_bytes: 0,
            position,
            ranges: VecDeque::new(),
            again: VecDeque::new(),
            open: BTreeMap::new(),
            begun_bytes: 0,
            kept_bytes: 0,
            asked: None,
        });
    }

    /// Makes the position durable, unless that is under way.
    fn keep(&mut self) {
        let Some(run) = &self.run else { return };
        let (position, bytes) = run.frontier();
        if self.keeper.is_busy() || self.progress.position_bytes == Some(position) {
            return;
        }
        self.progress.position_bytes = Some(position);
        if self.keeper.keep(self.progress) {
            self.keeping = Some(bytes);
        } else if let Some(run) = &mut self.run {
            run.kept_bytes = bytes;
        }
    }

    fn heed_keeper(&mut self) -> Found {
        let mut found = Found::new();
        while let Some(kept) = self.keeper.finished() {
            if let (Some(bytes), Some(run)) = (self.keeping.take(), &mut self.run) {
                // If the progress cannot be saved, the pass continues, and a restart repeats more.
                run.kept_bytes = bytes;
            }
            if let Err(error) = kept
                && std::mem::take(&mut self.could_keep)
            {
                let what = format!("its progress cannot be kept ({}): a restart would repeat more", error.name());
                found.push((EventKind::DeviceRemark, what));
            }
            self.could_keep |= kept.is_ok();
        }
        found
    }

    /// Ends the pass if everything was read.
    fn end_if_done(&mut self, wall: Nanos) -> Found {
        let is_done = self.run.as_ref().is_some_and(|run| run.is_done(self.size_bytes));
        if !is_done {
            return Found::new();
        }
        self.run = None;
        self.keeping = None;
        let due = Nanos(self.progress.due_nanos);
        // Missed passes are not repeated.
        let periods = wall.since(due).0 / self.every.0.max(1) + 1;
        self.progress.due_nanos = due.0.saturating_add(self.every.0.saturating_mul(periods));
        self.progress.position_bytes = None;
        self.progress.finished_nanos = Some(wall.0);
        self.is_late = false;
        self.keeper.keep(self.progress);
        vec![(EventKind::ServiceFinished, "everything that was written has been read".into())]
    }
}

fn every(spec: &spec::Service) -> Nanos {
    spec.every.map_or(EVERY, |every| every.nanos())
}

impl Run {
    /// The offset before which everything was read, and the bytes of all pieces before it.
    fn frontier(&self) -> (u64, u64) {
        let next = self.ranges.front().map_or(self.position, |range| range.start);
        match self.open.first_key_value() {
            Some((&offset, &before)) if offset < next => (offset, before),
            _ => (next, self.begun_bytes),
        }
    }

    fn is_done(&self, size_bytes: u64) -> bool {
        self.measuring.is_none() && self.position >= size_bytes && self.ranges.is_empty() && self.open.is_empty()
    }

    /// Begins the next piece, at most this long.
    fn next_piece(&mut self, length_max: u64) -> Option<Piece> {
        let range = self.ranges.front_mut()?;
        let offset = range.start;
        // Pieces are cut at multiples of the longest request, as requests of clients are.
        let end = range.end.min((offset / length_max + 1) * length_max);
        range.start = end;
        if range.is_empty() {
            self.ranges.pop_front();
        }
        self.open.insert(offset, self.begun_bytes);
        self.begun_bytes += end - offset;
        Some(Piece { action: Action::Read, offset, length: end - offset })
    }
}

fn bytes_of(ranges: &VecDeque<Range<u64>>) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// The ranges of extents from an offset on that are to be read.
fn written(from: u64, extents: &[Extent], backend: &dyn Backend) -> (u64, VecDeque<Range<u64>>) {
    let mut ranges: VecDeque<Range<u64>> = VecDeque::new();
    let mut add = |range: Range<u64>| match ranges.back_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push_back(range),
    };
    let mut at = from;
    for extent in extents {
        let end = at + extent.length;
        if extent.state & STATE_HOLE == 0 {
            add(at..end);
            at = end;
            continue;
        }
        while at < end {
            let known = backend.verifier().and_then(|its| its.known(at)).filter(|known| known.start < end);
            let Some(known) = known else { break };
            let until = known.end.min(end);
            add(known.start.max(at)..until);
            at = until;
        }
        at = end;
    }
    (at, ranges)
}

impl Duty for Pass {
    fn set(&mut self, spec: &spec::Service) {
        let every = every(spec);
        if self.run.is_none() && every != self.every {
            let due = Nanos(self.progress.due_nanos).since(self.every);
            self.progress.due_nanos = due.after(every).0;
        }
        self.every = every;
        self.deadline = spec.deadline.map(|deadline| deadline.nanos());
    }

    fn look(&mut self, wall: Nanos, _backend: &dyn Backend) -> Found {
        let mut found = self.heed_keeper();
        found.extend(self.end_if_done(wall));
        let due = Nanos(self.progress.due_nanos);
        if self.run.is_none() && due <= wall {
            self.begin(0);
            self.progress.position_bytes = Some(0);
            self.keeper.keep(self.progress);
        }
        let is_late = self.run.is_some() && self.deadline.is_some_and(|deadline| due.after(deadline) < wall);
        if is_late && !std::mem::replace(&mut self.is_late, true) {
            found.push((EventKind::ServiceLate, "its deadline has passed, and it is not done".into()));
        }
        found
    }

    fn query(&mut self) -> Option<(u64, u64)> {
        let size_bytes = self.size_bytes;
        let run = self.run.as_mut().filter(|run| run.asked.is_none())?;
        let (from, purpose) = match run.measuring {
            Some(at) if at >= size_bytes || run.measures == MEASURES_MAX => {
                run.left_bytes += size_bytes - at.min(size_bytes);
                run.measuring = None;
                return self.query();
            }
            Some(at) => (at, Purpose::Measure(at)),
            None if run.ranges.is_empty() && run.position < size_bytes => (run.position, Purpose::Read),
            None => return None,
        };
        run.asked = Some(purpose);
        Some((from, size_bytes - from))
    }

    fn learn(&mut self, extents: &[Extent], backend: &dyn Backend) {
        let size_bytes = self.size_bytes;
        let Some(run) = &mut self.run else { return };
        let Some(purpose) = run.asked.take() else { return };
        let from = if let Purpose::Measure(at) = purpose { at } else { run.position };
        let (mut end, mut ranges) = written(from, extents, backend);
        if end <= from {
            // The device does not say what was written, so everything counts as written.
            (end, ranges) = (size_bytes, std::iter::once(from..size_bytes).collect());
        }
        if purpose == Purpose::Read {
            run.position = end;
            run.ranges = ranges;
        } else {
            run.measures += 1;
            run.measuring = Some(end);
            run.left_bytes += bytes_of(&ranges);
        }
    }

    fn grown(&mut self, size_bytes: u64) {
        let before = std::mem::replace(&mut self.size_bytes, size_bytes);
        self.progress.device_bytes = size_bytes;
        match &mut self.run {
            // The added bytes are counted, too. The position is saved with the new length from the next time on: a restart before that
            // begins the pass anew.
            Some(run) => _ = run.measuring.get_or_insert(before),
            None => _ = self.keeper.keep(self.progress),
        }
    }

    fn next(&mut self, _backend: &mut dyn Backend, length_max: u64) -> Next {
        let Some(run) = &mut self.run else { return Next::Wait(ServiceWait::NothingOwed) };
        if let Some(piece) = run.again.pop_front() {
            return Next::Request(piece);
        }
        if run.begun_bytes + length_max > run.kept_bytes + SLICE_BYTES {
            self.keep();
            return Next::Wait(ServiceWait::Saves);
        }
        match run.next_piece(length_max) {
            Some(piece) => Next::Request(piece),
            None if run.asked.is_some() => Next::Wait(ServiceWait::Measures),
            None => Next::Wait(ServiceWait::Nothing),
        }
    }

    fn put_back(&mut self, piece: Piece) {
        if let Some(run) = &mut self.run {
            run.again.push_front(piece);
        }
    }

    fn ended(&mut self, piece: Piece, damaged: &[u64], error: Option<NbdError>, report: &mut ServiceReport) -> Found {
        let mut found = Found::new();
        let Some(run) = &mut self.run else { return found };
        let Piece { offset, length, .. } = piece;
        let place = |what: &str| format!("the {length} bytes at {offset} {what}");
        match error {
            Some(error) => {
                report.found.failed_bytes += length;
                found.push((EventKind::ServiceDamage, place(&format!("cannot be read ({})", error.name()))));
            }
            None => {
                let bytes: u64 = damaged.iter().map(|&block| block_bytes(block, self.size_bytes)).sum();
                report.found.damaged_bytes += bytes;
                if bytes > 0 {
                    let what = format!("{bytes} bytes within {}", place("differ from what was written there"));
                    found.push((EventKind::ServiceDamage, what));
                }
            }
        }
        report.done_bytes += length;
        run.left_bytes = run.left_bytes.saturating_sub(length);
        run.open.remove(&offset);
        if run.frontier().1 >= run.kept_bytes + SLICE_BYTES / 2 {
            self.keep();
        }
        found
    }

    fn pause(&mut self) {
        self.keep();
    }

    fn owed_bytes(&self, _backend: &dyn Backend) -> u64 {
        let Some(run) = &self.run else { return 0 };
        let unmeasured = run.measuring.map_or(0, |at| self.size_bytes - at.min(self.size_bytes));
        // Ranges that were written since they were counted are found when they are to be read.
        run.left_bytes.max(bytes_of(&run.ranges)) + unmeasured
    }

    fn due(&self) -> Option<Nanos> {
        Some(Nanos(self.progress.due_nanos))
    }

    fn finished(&self) -> Option<Nanos> {
        self.progress.finished_nanos.map(Nanos)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.keeper.descriptor()
    }
}

/// The length of a block; the last one may be shorter.
fn block_bytes(block: u64, size_bytes: u64) -> u64 {
    ((block + 1) * BLOCK_BYTES).min(size_bytes) - block * BLOCK_BYTES
}
