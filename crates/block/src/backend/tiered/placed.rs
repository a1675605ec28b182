//! A disk and a faster device, for a scheduler that decides which data goes to which.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use ioweir_config::format_bytes;
use ioweir_core::{Nanos, SECTOR_BYTES, Tier};

use super::super::parts::{BLOCK_BYTES, dispatch_of};
use super::super::{Action, Backend, Done, Io, Outcome, Remark, Task, Tiers, UpstreamStatus};
use super::heat::Heat;
use super::identity::bind;
use super::ledger::{Entry, Ledger};
use super::map::{Map, Piece, Place, blocks_of, pieces};
use super::operation::Staged;
use super::pair::{Flight, Pair};
use super::relocation::{Relocates, Relocation};
use super::step::{Moving, Op, Stage};
use super::{FastTier, TierStatus, slots_of};
use crate::Extent;
use crate::NbdError;
use crate::buffer::{Buffer, Buffers};
use crate::committer::Committer;
use crate::slots::Slots;

/// The owner of the flushes of a sync.
const SYNC: u32 = u32::MAX;
/// How long a change waits for a commit if no client flushes.
const COMMIT_AFTER: Nanos = Nanos::from_seconds(1);

/// The sync in flight, which makes changes durable.
#[derive(Debug)]
struct Sync {
    /// Operations that wait for it.
    waiters: Vec<u32>,
    flushes_left: u32,
    result: Result<(), NbdError>,
}

/// Two tiers with placement, as the parent module describes.
pub struct Placed {
    pub(super) pair: Pair,
    pub(super) map: Map,
    /// The moving of blocks in the background, if the spec asks for it.
    pub(super) relocation: Option<Relocation>,
    /// The kept heat, until a relocation uses it.
    heat: Heat,
    committer: Committer<Entry>,
    /// The ledger that commits are written to.
    ledger: Arc<Mutex<Ledger>>,
    name: String,
    /// The identity of the map, which both tiers have, too.
    identity: u64,
    fast_depth: u32,
    slots: u32,
    ops: Slots<Op>,
    sync: Option<Sync>,
    /// Why the last sync failed. With [`NbdError::NoSpace`], the ledger had no room and nothing is lost; until it has room, no block
    /// changes its place. After any other error, answered writes may be lost, and nothing is written or flushed any more.
    trouble: Option<NbdError>,
    /// Operations that wait for the next sync.
    waiting: Vec<u32>,
    /// When a sync begins if no client flushes.
    sync_due: Nanos,
    pub(super) done: Vec<Done>,
}

impl Placed {
    /// Opens two tiers with their ledger; a new ledger and an empty fast tier are bound to each other. The fast tier has at
    /// most `fast_depth` operations in flight.
    ///
    /// # Errors
    /// If tiers and ledger do not match, or cannot be read.
    pub fn open(
        slow: Box<dyn Backend>,
        mut fast: Box<dyn Backend>,
        mut ledger: Ledger,
        fast_depth: u32,
    ) -> Result<Self, String> {
        let (slow_bytes, fast_bytes) = (slow.size_bytes(), fast.size_bytes());
        let slots = slots_of(fast_bytes)?;
        let (facts, entries) = ledger.load(slow_bytes, fast_bytes)?;
        let heat = ledger.heat()?;
        let (name, waits) = (ledger.name().to_string(), ledger.waits_for_disk());
        bind(fast.as_mut(), &mut ledger, &facts, entries.is_empty()).map_err(|problem| format!("{name}: {problem}"))?;
        // An incomplete last block stays on the slow tier.
        let map = Map::new(slots, slow_bytes / BLOCK_BYTES, entries).map_err(|error| format!("{name}: {error}"))?;
        let ledger = Arc::new(Mutex::new(ledger));
        let its = Arc::clone(&ledger);
        let commit = move |entry: &Entry| its.lock().unwrap_or_else(PoisonError::into_inner).commit(entry);
        Ok(Self {
            pair: Pair::new(slow, fast),
            map,
            relocation: None,
            heat: Heat::of_counts(heat),
            committer: Committer::start("ioweir-map", waits, commit)
                .map_err(|error| format!("{name}: no thread for it: {error}"))?,
            ledger,
            name,
            identity: facts.identity,
            fast_depth,
            slots,
            ops: Slots::default(),
            sync: None,
            trouble: None,
            waiting: Vec::new(),
            sync_due: Nanos::NEVER,
            done: Vec::new(),
        })
    }

    /// Moves blocks in the background, as a service says.
    #[must_use]
    pub fn relocating(mut self, relocates: &Relocates) -> Self {
        let blocks = self.pair.slow.size_bytes() / BLOCK_BYTES;
        self.relocation = Some(Relocation::new(self.slots, blocks, relocates, std::mem::take(&mut self.heat)));
        self
    }

    pub(super) fn pieces(&self, start: u64, end: u64, moves: &BTreeMap<u64, u32>) -> Vec<Piece> {
        pieces(start, end, |block| self.map.slot_of(block).or_else(|| moves.get(&block).copied()))
    }

    /// Takes slots for the blocks of a range that have none, while there are free slots.
    pub(super) fn take_slots(&mut self, start: u64, end: u64) -> BTreeMap<u64, u32> {
        let mut moves = BTreeMap::new();
        if self.trouble.is_some() {
            return moves;
        }
        for block in blocks_of(start, end) {
            if self.map.slot_of(block).is_some() || (block + 1) * BLOCK_BYTES > self.pair.slow.size_bytes() {
                continue;
            }
            match self.map.take_slot() {
                Some(slot) => moves.insert(block, slot),
                None if self.map.has_freed() => {
                    // The next commit will free slots.
                    self.sync_due = Nanos::ZERO;
                    return moves;
                }
                None => return moves,
            };
        }
        moves
    }

    fn start_write(&mut self, now: Nanos, io: Io) {
        let (mut start, mut end) = (io.offset, io.offset + io.length);
        let is_placed = io.dispatch.is_some_and(|dispatch| dispatch.tier == Tier::Fast);
        let moves = if is_placed { self.take_slots(start, end) } else { BTreeMap::new() };
        let mut edges = Vec::new();
        for (block, is_edge) in [
            (start / BLOCK_BYTES, !start.is_multiple_of(BLOCK_BYTES)),
            (end / BLOCK_BYTES, !end.is_multiple_of(BLOCK_BYTES)),
        ] {
            if is_edge && moves.contains_key(&block) {
                start = start.min(block * BLOCK_BYTES);
                end = end.max((block + 1) * BLOCK_BYTES);
                if edges.last() != Some(&block) {
                    edges.push(block);
                }
            }
        }
        let pieces = self.pieces(start, end, &moves);
        let mut op = Op { moves, ..Op::new(io, pieces) };
        op.staged.is_direct &= edges.is_empty();
        if edges.is_empty() {
            return self.start_pieces(now, op);
        }
        op.stage = Stage::Edges;
        op.staged.left = edges.len() as u32;
        op.edges = edges.iter().map(|&block| (block, Buffer::default())).collect();
        let dispatch = op.staged.io.dispatch;
        let owner = self.ops.insert(op);
        for (part, block) in (0..).zip(edges) {
            let (offset, length, action) = (block * BLOCK_BYTES, BLOCK_BYTES, Action::Read);
            let dispatch = dispatch_of(dispatch, Tier::Base, action, offset, length);
            let buffers = Buffers::One(Buffer::with_capacity(length as usize));
            let io = Io { action, offset, length, dispatch, buffers, ..Io::without_data(0) };
            self.pair.start(now, Flight { owner, part, tier: Tier::Base }, io);
        }
    }

    /// Returns whole blocks to the slow tier, and zeroes a part of a block in its slot.
    fn start_discard(&mut self, now: Nanos, mut io: Io) {
        let (start, end) = (io.offset, io.offset + io.length);
        let returns = self.map.placed(start.div_ceil(BLOCK_BYTES)..end / BLOCK_BYTES);
        if !returns.is_empty() && io.action == Action::Trim {
            // Data from before the block moved must not reappear, as it could after a trim that the device ignores.
            io.action = Action::Zero { keep: false, fast: false };
        }
        let (mut pieces, mut home) = (Vec::new(), (start, end));
        let edge = |block: u64| {
            let (from, until) = ((block * BLOCK_BYTES).max(start), ((block + 1) * BLOCK_BYTES).min(end));
            let slot = self.map.slot_of(block).filter(|_| until - from < BLOCK_BYTES)?;
            let offset = u64::from(slot) * BLOCK_BYTES + (from - block * BLOCK_BYTES);
            Some(Piece { start: from, end: until, place: Place::Slots(offset) })
        };
        if let Some(piece) = edge(start / BLOCK_BYTES) {
            home.0 = piece.end;
            pieces.push(piece);
        }
        if let Some(piece) = edge((end - 1) / BLOCK_BYTES).filter(|piece| piece.start >= home.0) {
            home.1 = piece.start;
            pieces.push(piece);
        }
        if home.0 < home.1 {
            pieces.push(Piece { start: home.0, end: home.1, place: Place::Home });
        }
        self.start_pieces(now, Op { returns, ..Op::new(io, pieces) });
    }

    pub(super) fn start_pieces(&mut self, now: Nanos, mut op: Op) {
        op.stage = Stage::Pieces;
        let Op { staged, edges, moves, .. } = &mut op;
        staged.left = staged.pieces.len() as u32;
        let buffers: Vec<_> =
            (0..staged.left).map(|part| staged.buffers(part, |staged, piece| staged.compose(piece, edges))).collect();
        // The sync makes writes to new slots durable.
        let (durable, durable_in_slots) = (staged.io.durable, staged.io.durable && moves.is_empty());
        let owner = self.ops.insert(op);
        for (part, buffers) in (0..).zip(buffers) {
            let Some(Op { staged, .. }) = self.ops.get(owner) else { return };
            let is_home = staged.pieces.get(part as usize).is_some_and(|piece| piece.tier() == Tier::Base);
            let durable = if is_home { durable } else { durable_in_slots };
            if let Some((flight, io)) = staged.piece(owner, part, durable, buffers) {
                self.pair.start(now, flight, io);
            }
        }
    }

    fn start_extents(&mut self, now: Nanos, io: Io) {
        let piece = self.map.beginning(io.offset, io.offset + io.length);
        match piece.place {
            Place::Home => self.start_pieces(now, Op::new(io, vec![piece])),
            Place::Slots(_) => {
                let extents = Outcome::Extents(vec![Extent { length: piece.length(), state: 0 }]);
                self.done.push(Done::new(io.id, io.buffers, Ok(extents)));
            }
        }
    }

    /// Ends a part of an operation.
    fn end_part(&mut self, now: Nanos, flight: Flight, done: Done) {
        if flight.owner == SYNC {
            return self.end_flush(now, done.result);
        }
        let Some(op) = self.ops.get_mut(flight.owner) else { return };
        let is_last = if op.stage == Stage::Edges {
            match (done.result, done.buffers, op.edges.get_mut(flight.part as usize)) {
                (Ok(outcome), Buffers::One(mut buffer), Some((_, edge))) => {
                    if outcome == Outcome::Hole {
                        buffer.bytes_mut().fill(0);
                    }
                    *edge = buffer;
                }
                (Ok(_), ..) => {}
                (Err(error), ..) => op.staged.result = Err(error),
            }
            op.staged.left -= 1;
            op.staged.left == 0
        } else {
            op.staged.finish_piece(flight.part, done)
        };
        if is_last {
            self.end_stage(now, flight.owner);
        }
    }

    fn end_stage(&mut self, now: Nanos, number: u32) {
        let Some(mut op) = self.ops.remove(number) else { return };
        if op.staged.result.is_err() {
            // The slots have held no block, so they are free at once.
            op.moves.values().for_each(|&slot| self.map.give_slot(slot));
            return self.finish(op);
        }
        if op.stage == Stage::Edges {
            return self.start_pieces(now, op);
        }
        if let Moving::Reads(to) = op.moving {
            return self.write_moved(now, op, to);
        }
        op.moves.iter().for_each(|(&block, &slot)| self.map.place(block, slot));
        op.returns.iter().for_each(|&block| self.map.unplace(block));
        let Staged { io, .. } = &op.staged;
        if io.durable && !self.map.is_settled(blocks_of(io.offset, op.staged.end())) {
            op.stage = Stage::Sync;
            return self.wait_for_sync(now, op);
        }
        if self.map.has_changes() {
            self.sync_due = self.sync_due.min(now.after(COMMIT_AFTER));
        }
        self.finish(op);
    }

    fn finish(&mut self, mut op: Op) {
        if op.moving != Moving::Not {
            // The engine gave no buffers with the operation.
            op.staged.io.buffers = Buffers::None;
        }
        self.done.push(op.staged.done());
    }

    fn wait_for_sync(&mut self, now: Nanos, mut op: Op) {
        if let Some(error) = self.loss() {
            // The operation began before the sync failed.
            op.staged.result = Err(error);
            return self.finish(op);
        }
        let number = self.ops.insert(op);
        self.waiting.push(number);
        if self.sync.is_none() {
            self.begin_sync(now);
        }
    }

    /// Begins a sync of all changes so far, for all waiting operations.
    fn begin_sync(&mut self, now: Nanos) {
        self.sync_due = Nanos::NEVER;
        let waiters = std::mem::take(&mut self.waiting);
        let asking = || waiters.iter().filter_map(|&waiter| self.ops.get(waiter));
        let is_flush = asking().any(|op| op.staged.io.action == Action::Flush);
        let dispatch = asking().find_map(|op| op.staged.io.dispatch);
        let changes = self.map.begin_commit();
        // On either tier, data is durable before the entry that refers to it.
        let names = changes.values().any(Option::is_some);
        let returns = changes.values().any(Option::is_none);
        let mut tiers = Vec::new();
        tiers.extend((is_flush || returns).then_some(Tier::Base));
        tiers.extend((is_flush || names).then_some(Tier::Fast));
        self.sync = Some(Sync { waiters, flushes_left: tiers.len() as u32, result: Ok(()) });
        for tier in tiers {
            let dispatch = dispatch_of(dispatch, tier, Action::Flush, 0, 0);
            self.pair.start(now, Flight { owner: SYNC, part: 0, tier }, Io { dispatch, ..Io::without_data(0) });
        }
        self.continue_sync(now);
    }

    fn end_flush(&mut self, now: Nanos, result: Result<Outcome, NbdError>) {
        if let Some(sync) = &mut self.sync {
            sync.flushes_left -= 1;
            if let Err(error) = result {
                sync.result = Err(error);
            }
        }
        self.continue_sync(now);
    }

    fn continue_sync(&mut self, now: Nanos) {
        let Some(Sync { flushes_left: 0, result, .. }) = &self.sync else { return };
        match (*result, self.map.committing()) {
            (Ok(()), Some(changes)) => self.committer.commit(Entry::Changes(changes)),
            (result, _) => self.end_sync(now, result),
        }
    }

    /// Whether an operation cannot become durable because a sync has failed.
    fn refusal(&self, io: &Io) -> Option<NbdError> {
        let trouble = self.trouble?;
        let changes = match io.action {
            Action::Write => !self.map.is_settled(blocks_of(io.offset, io.offset + io.length)),
            Action::Trim | Action::Zero { .. } => {
                !self.map.placed(io.offset / BLOCK_BYTES..(io.offset + io.length).div_ceil(BLOCK_BYTES)).is_empty()
            }
            // A flush tries again.
            Action::Flush => false,
            Action::Read | Action::Cache | Action::Extents => return None,
            Action::Serve(_) => true,
        };
        (changes || trouble != NbdError::NoSpace).then_some(trouble)
    }

    /// The error after which answered writes may be lost.
    fn loss(&self) -> Option<NbdError> {
        self.trouble.filter(|trouble| *trouble != NbdError::NoSpace)
    }

    fn end_sync(&mut self, now: Nanos, result: Result<(), NbdError>) {
        self.trouble = result.err();
        self.map.end_commit(result.is_ok());
        let Some(sync) = self.sync.take() else { return };
        for waiter in sync.waiters {
            if let Some(mut op) = self.ops.remove(waiter) {
                if let Err(error) = result {
                    op.staged.result = Err(error);
                }
                self.finish(op);
            }
        }
        if self.map.has_changes() {
            self.sync_due = self.sync_due.min(now.after(COMMIT_AFTER));
        }
        if let Some(error) = self.loss() {
            for waiter in std::mem::take(&mut self.waiting) {
                if let Some(mut op) = self.ops.remove(waiter) {
                    op.staged.result = Err(error);
                    self.finish(op);
                }
            }
        } else if !self.waiting.is_empty() {
            self.begin_sync(now);
        }
    }
}

impl Backend for Placed {
    fn start(&mut self, now: Nanos, io: Io) {
        if let Some(error) = self.refusal(&io) {
            return self.done.push(Done::new(io.id, io.buffers, Err(error)));
        }
        if let (Some(relocation), Action::Read | Action::Write) = (&mut self.relocation, io.action) {
            relocation.heat.touch(blocks_of(io.offset, io.offset + io.length));
        }
        match io.action {
            Action::Read => {
                let pieces = self.pieces(io.offset, io.offset + io.length, &BTreeMap::new());
                self.start_pieces(now, Op::new(io, pieces));
            }
            Action::Write => self.start_write(now, io),
            Action::Trim | Action::Zero { .. } => self.start_discard(now, io),
            Action::Flush => self.wait_for_sync(now, Op { stage: Stage::Sync, ..Op::new(io, Vec::new()) }),
            Action::Extents => self.start_extents(now, io),
            // A hint may be ignored.
            Action::Cache => self.done.push(Done::new(io.id, io.buffers, Ok(Outcome::Plain))),
            Action::Serve(Task::Relocate(to)) if self.relocation.is_some() => self.start_move(now, io, to),
            Action::Serve(_) => self.done.push(Done::new(io.id, io.buffers, Err(NbdError::NotSupported))),
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        self.pair.submit()
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        loop {
            if self.sync.is_none() && self.sync_due <= now && self.loss().is_none() {
                self.begin_sync(now);
            }
            let committed = self.committer.finished();
            if let Some(result) = committed {
                self.end_sync(now, result);
            }
            let ended = self.pair.collect(now)?;
            if ended.is_empty() && committed.is_none() {
                break;
            }
            for (flight, done) in ended {
                self.end_part(now, flight, done);
            }
            self.pair.submit()?;
        }
        done.append(&mut self.done);
        Ok(())
    }

    fn due(&self) -> Nanos {
        let sync_due = if self.sync.is_some() || self.loss().is_some() { Nanos::NEVER } else { self.sync_due };
        self.pair.due().min(sync_due)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut descriptors = self.pair.descriptors();
        descriptors.push(self.committer.descriptor());
        descriptors
    }

    fn block_bytes_min(&self) -> u32 {
        self.pair.slow.block_bytes_min().max(self.pair.fast.block_bytes_min())
    }

    fn size_bytes(&self) -> u64 {
        self.pair.slow.size_bytes()
    }

    fn grow(&mut self, size_bytes: u64) -> Result<(), String> {
        self.pair.check_growth()?;
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let slow = &mut self.pair.slow;
        ledger.growing([slow.size_bytes(), size_bytes], || slow.grow(size_bytes))
    }

    fn trims(&self) -> bool {
        self.pair.slow.trims()
    }

    fn writes_zeroes(&self, keep: bool) -> bool {
        [&self.pair.slow, &self.pair.fast].into_iter().any(|tier| tier.writes_zeroes(keep))
    }

    fn upstream(&self) -> Option<UpstreamStatus> {
        self.pair.upstream()
    }

    fn tiers(&self) -> Option<&dyn Tiers> {
        Some(self)
    }

    fn finish(&mut self) {
        if let Some(relocation) = &self.relocation {
            self.committer.commit(Entry::Heat(relocation.heat.counts()));
            // Without a thread the commit is made here. Counts that cannot be kept have to be learnt again.
            while self.committer.finished().is_some() {}
        }
        self.pair.finish();
    }

    fn remarks(&mut self) -> Vec<Remark> {
        self.pair.remarks()
    }

    fn has_failed(&self) -> bool {
        self.loss().is_some()
    }

    fn owed_bytes(&self, task: Task) -> u64 {
        if let Task::Relocate(to) = task { self.owed_blocks(to) * BLOCK_BYTES } else { 0 }
    }

    fn next_owed(&mut self, task: Task, from: u64, length_max: u64) -> Option<Range<u64>> {
        let Task::Relocate(to) = task else { return None };
        let blocks = self.next_blocks(to, from.div_ceil(BLOCK_BYTES), length_max / BLOCK_BYTES)?;
        Some(blocks.start * BLOCK_BYTES..blocks.end * BLOCK_BYTES)
    }

    fn describe(&self) -> String {
        let placed = format_bytes(self.map.len() as u64 * BLOCK_BYTES);
        format!("tiers with placement, {placed} on the fast one, {}; {}", self.name, self.pair.describe())
    }
}

impl Tiers for Placed {
    fn status(&self) -> TierStatus {
        self.pair.status(u64::from(self.slots) - 1, self.map.len() as u64)
    }

    fn placement(&self) -> Option<FastTier> {
        let block_sectors = BLOCK_BYTES / SECTOR_BYTES;
        let sectors = |block: u64| block * block_sectors;
        Some(FastTier {
            depth: self.fast_depth,
            // The first slot holds the identity.
            sectors: sectors(u64::from(self.slots) - 1),
            block_sectors: block_sectors as u32,
            placed: self.map.extents().into_iter().map(|extent| sectors(extent.start)..sectors(extent.end)).collect(),
        })
    }

    fn identity(&self) -> Option<u64> {
        Some(self.identity)
    }
}
