//! The places of the chunks of a striped array, and the reads and writes that a write to a row with parity causes.

use std::ops::Range;

/// Chunks on each member in turn; with parity, one chunk of each row is that of the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Striping {
    chunk_sectors: u64,
    members: u64,
    has_parity: bool,
}

/// The parts of members, by number: sectors of the member, at most one range of each.
pub(super) type Parts = Vec<(usize, Range<u64>)>;

/// The reads and writes on members that one write to the array causes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Update {
    /// The reads, which come first and are needed for the new parity; a member may have two ranges, of two rows.
    pub(super) reads: Parts,
    /// The writes that follow.
    pub(super) writes: Parts,
}

impl Striping {
    pub(super) fn new(chunk_sectors: u64, members: u64, has_parity: bool) -> Self {
        Self { chunk_sectors: chunk_sectors.max(1), members: members.max(1 + u64::from(has_parity)), has_parity }
    }

    /// The members that hold data in each row.
    pub(super) fn data_members(&self) -> u64 {
        self.members - u64::from(self.has_parity)
    }

    /// The number of a member's sectors that form whole chunks.
    pub(super) fn whole_chunks(&self, sectors: u64) -> u64 {
        sectors / self.chunk_sectors * self.chunk_sectors
    }

    /// The sectors of data in a row.
    fn row_sectors(&self) -> u64 {
        self.chunk_sectors * self.data_members()
    }

    /// The member with the parity of a row: the last one in the first row, then the one before it.
    fn parity_member(&self, row: u64) -> u64 {
        self.members - 1 - row % self.members
    }

    /// The member with a chunk of a row: those after the parity, around.
    fn data_member(&self, row: u64, chunk: u64) -> u64 {
        if self.has_parity { (self.parity_member(row) + 1 + chunk) % self.members } else { chunk }
    }

    /// The chunks of a row of which the sectors from `first` to before `end` are a part: its number and that part.
    fn touched(&self, row: u64, first: u64, end: u64) -> impl Iterator<Item = (u64, Range<u64>)> {
        let (chunk_sectors, row_first) = (self.chunk_sectors, row * self.row_sectors());
        (0..self.data_members()).filter_map(move |chunk| {
            let begin = row_first + chunk * chunk_sectors;
            let part = first.max(begin)..end.min(begin + chunk_sectors);
            (part.start < part.end).then(|| (chunk, part.start - begin..part.end - begin))
        })
    }

    /// A part of a row's chunk, in sectors of its member.
    fn on_member(&self, row: u64, part: &Range<u64>) -> Range<u64> {
        row * self.chunk_sectors + part.start..row * self.chunk_sectors + part.end
    }

    /// The sectors of each member that hold the array's sectors from `first` to before `end`. Parity in between is included: a drive reads
    /// across it.
    pub(super) fn parts(&self, first: u64, end: u64) -> Parts {
        let mut parts = Parts::new();
        if first < end {
            let (row_first, row_last) = (first / self.row_sectors(), (end - 1) / self.row_sectors());
            // Every member has data in one of any two rows, so its first and last sector are in these.
            for row in edges(row_first, row_last) {
                for (chunk, part) in self.touched(row, first, end) {
                    extend(&mut parts, self.data_member(row, chunk), self.on_member(row, &part));
                }
            }
        }
        parts
    }

    /// The reads and writes by which an array with parity writes the sectors from `first` to before `end`.
    pub(super) fn update(&self, first: u64, end: u64) -> Update {
        let mut update = Update::default();
        if first >= end {
            return update;
        }
        let (row_first, row_last) = (first / self.row_sectors(), (end - 1) / self.row_sectors());
        for row in edges(row_first, row_last) {
            let touched: Vec<_> = self.touched(row, first, end).collect();
            let changed = touched.iter().fold(self.chunk_sectors..0, |changed, (_, part)| {
                changed.start.min(part.start)..changed.end.max(part.end)
            });
            let covered: u64 = touched.iter().map(|(_, part)| part.end - part.start).sum();
            if covered < self.row_sectors() {
                self.read_for_parity(row, &touched, &changed, &mut update.reads);
            }
            for (chunk, part) in &touched {
                extend(&mut update.writes, self.data_member(row, *chunk), self.on_member(row, part));
            }
            extend(&mut update.writes, self.parity_member(row), self.on_member(row, &changed));
        }
        update
    }

    /// Old data and parity of what changes, or what stays of the row beside it, whichever are fewer reads.
    fn read_for_parity(&self, row: u64, touched: &[(u64, Range<u64>)], changed: &Range<u64>, reads: &mut Parts) {
        let stays = |chunk: u64| {
            let part = touched.iter().find(|(number, _)| *number == chunk).map(|(_, part)| part);
            match part {
                Some(part) if part == changed => None,
                Some(part) if part.start == changed.start => Some(part.end..changed.end),
                Some(part) if part.end == changed.end => Some(changed.start..part.start),
                Some(_) | None => Some(changed.clone()),
            }
        };
        let rest: Vec<_> = (0..self.data_members()).filter_map(|chunk| Some((chunk, stays(chunk)?))).collect();
        let (data, with_parity) = if rest.len() <= touched.len() { (&rest[..], false) } else { (touched, true) };
        for (chunk, part) in data {
            push(reads, self.data_member(row, *chunk), self.on_member(row, part));
        }
        if with_parity {
            push(reads, self.parity_member(row), self.on_member(row, changed));
        }
    }
}

/// The first two and the last two of a row of numbers.
fn edges(first: u64, last: u64) -> impl Iterator<Item = u64> {
    let second = (first + 1).min(last);
    let head = first..=second;
    let tail = last.saturating_sub(1).max(second + 1)..=last;
    head.chain(tail)
}

fn push(parts: &mut Parts, member: u64, range: Range<u64>) {
    parts.push((usize::try_from(member).unwrap_or(usize::MAX), range));
}

/// Extends the range of a member.
fn extend(parts: &mut Parts, member: u64, range: Range<u64>) {
    match parts.iter_mut().find(|(number, _)| *number as u64 == member) {
        Some((_, known)) => *known = known.start.min(range.start)..known.end.max(range.end),
        None => push(parts, member, range),
    }
}
