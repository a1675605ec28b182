//! Marks what is changed of a device, for incremental backups, durably and before it is changed.
//!
//! [`Marked`] is a layer between the engine and a device, and outermost: whatever changes the content passes it. Its bitmaps
//! ([`Bitmaps`]) are ranges of layers of marks. The first change of a region in a layer waits until its mark is durable; later
//! ones cost a look at a bit. If a mark cannot be made durable, the change fails and is not made, so that a bitmap may say too
//! much, and never too little, whenever the power fails.
//!
//! A new layer begins while nothing is in flight and everything is durable ([`crate::engine::Command::Pause`]): what was
//! answered before is in the layers before, and what comes later in the new one.
//!
//! One commit is in progress at a time; what comes meanwhile shares the next.
//!
//! What a device grows by counts as changed. Until that is durable, the length that is durable is another one, and so everything
//! would count as changed at the next start.

mod table;

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use ioweir_core::Nanos;

use super::bits::{Bits, PAGE_REGIONS};
use super::{Action, Backend, Done, Io, Outcome, Remark, Task};
use crate::committer::Committer;
use crate::log::EventKind;
use crate::nbd::NbdError;
use crate::nbd::protocol::STATE_DIRTY;
use crate::nbd::reply::Extent;
pub use table::{BitmapChange, Bitmaps, Content, is_recording, layers_of};
use table::{Layers, Pages};

/// The most regions that one answer about changes covers.
const LOOKED_AT_MAX: u64 = 1 << 16;
/// The most extents of one answer.
const EXTENTS_MAX: usize = 1024;

/// The commit in progress.
struct Commit {
    pages: Arc<Pages>,
    waiters: Vec<Io>,
}

/// A device whose changes are marked.
pub struct Marked {
    inner: Box<dyn Backend>,
    bitmaps: Arc<Bitmaps>,
    content: Content,
    region_bytes: u64,
    /// The marks by layer, as they should be; further changes go to the last one.
    layers: Layers,
    newest: u64,
    /// Whether a bitmap records.
    records: bool,
    /// Marks of the newest layer that are certainly durable.
    durable: Bits,
    /// Pages of the newest layer that are not.
    changed: BTreeSet<u64>,
    /// Changes that wait for the next commit.
    waiting: Vec<Io>,
    commit: Option<Commit>,
    /// The length that is durable beside the marks.
    size_bytes: u64,
    /// Whether the last commit has failed: the next one waits for a change.
    has_failed: bool,
    committer: Committer<Arc<Pages>>,
    done: Vec<Done>,
    remarks: Vec<String>,
}

impl Marked {
    /// A layer over a device with its bitmaps.
    ///
    /// # Errors
    /// If the bitmaps cannot be read or written.
    pub fn open(inner: Box<dyn Backend>, bitmaps: Bitmaps, content: Content) -> Result<Self, String> {
        let bitmaps = Arc::new(bitmaps);
        let (mut layers, remark) = bitmaps.load(inner.size_bytes(), &content)?;
        let named = layers_of(&bitmaps.list()?);
        // No layer that a frozen one ends before is begun anew.
        let ends = named.iter().map(|layers| layers.end).filter(|end| *end < u64::MAX);
        let newest = ends.chain(layers.keys().copied()).max().unwrap_or(0);
        let pages = inner.size_bytes().div_ceil(bitmaps.region_bytes()).div_ceil(PAGE_REGIONS);
        let durable = layers.entry(newest).or_insert_with(|| Bits::new(pages)).clone();
        let theirs = Arc::clone(&bitmaps);
        let commit = move |pages: &Arc<Pages>| theirs.mark(pages);
        let committer = Committer::start("ioweir-bitmaps", bitmaps.waits_for_disk(), commit);
        Ok(Self {
            region_bytes: bitmaps.region_bytes(),
            layers,
            newest,
            records: table::records(named.iter()),
            durable,
            changed: BTreeSet::new(),
            waiting: Vec::new(),
            commit: None,
            size_bytes: inner.size_bytes(),
            has_failed: false,
            committer: committer.map_err(|error| format!("bitmaps: {error}"))?,
            done: Vec::new(),
            remarks: remark.into_iter().collect(),
            inner,
            bitmaps,
            content,
        })
    }

    fn regions(&self, io: &Io) -> Range<u64> {
        io.offset / self.region_bytes..(io.offset + io.length).div_ceil(self.region_bytes)
    }

    /// Marks what an operation will change, and begins it when the marks are durable.
    fn change(&mut self, now: Nanos, io: Io) {
        let mut is_durable = true;
        for region in self.regions(&io) {
            if !self.durable.get(region) {
                is_durable = false;
                self.changed.insert(region / PAGE_REGIONS);
                if let Some(newest) = self.layers.get_mut(&self.newest) {
                    newest.set(region, true);
                }
            }
        }
        if is_durable {
            return self.inner.start(now, io);
        }
        self.waiting.push(io);
        self.begin_commit();
    }

    fn begin_commit(&mut self) {
        let has_grown = self.size_bytes < self.inner.size_bytes() && !self.has_failed;
        if self.commit.is_some() || (self.waiting.is_empty() && !has_grown) {
            return;
        }
        let newest = self.layers.get(&self.newest);
        let image = |page: u64| (page, newest.map(|bits| bits.page(page).to_vec()).unwrap_or_default());
        let pages = std::mem::take(&mut self.changed).into_iter().map(image).collect();
        let pages = Arc::new(Pages { layer: self.newest, pages, size_bytes: self.inner.size_bytes() });
        self.committer.commit(Arc::clone(&pages));
        self.commit = Some(Commit { pages, waiters: std::mem::take(&mut self.waiting) });
    }

    fn end_commit(&mut self, now: Nanos, result: Result<(), NbdError>) {
        let Some(Commit { pages, waiters }) = self.commit.take() else { return };
        self.has_failed = result.is_err();
        match result {
            Ok(()) => {
                self.size_bytes = pages.size_bytes;
                for (page, words) in &pages.pages {
                    self.durable.page_mut(*page).iter_mut().zip(words).for_each(|(durable, word)| *durable |= word);
                }
                waiters.into_iter().for_each(|io| self.inner.start(now, io));
            }
            // They may be durable or not.
            Err(error) => {
                self.changed.extend(pages.pages.iter().map(|(page, _)| *page));
                self.done.extend(waiters.into_iter().map(|io| Done::new(io.id, io.buffers, Err(error))));
            }
        }
        self.begin_commit();
    }

    /// What of a range was changed in these layers; it may be only the beginning of the range.
    fn extents(&self, layers: Range<u64>, io: &Io) -> Vec<Extent> {
        let its: Vec<&Bits> = self.layers.range(layers).map(|(_, bits)| bits).collect();
        let (end, regions) = (io.offset + io.length, self.regions(io));
        let mut extents: Vec<Extent> = Vec::new();
        for region in regions.start..regions.end.min(regions.start + LOOKED_AT_MAX) {
            let (from, until) = (region * self.region_bytes, (region + 1) * self.region_bytes);
            let length = until.min(end) - from.max(io.offset);
            let state = if its.iter().any(|bits| bits.get(region)) { STATE_DIRTY } else { 0 };
            let is_full = extents.len() == EXTENTS_MAX;
            match extents.last_mut() {
                Some(last) if last.state == state => last.length += length,
                _ if is_full => break,
                _ => extents.push(Extent { length, state }),
            }
        }
        extents
    }
}

impl Backend for Marked {
    fn inner(&self) -> Option<&dyn Backend> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Backend> {
        Some(&mut *self.inner)
    }

    fn start(&mut self, now: Nanos, io: Io) {
        match io.action {
            Action::Serve(Task::Changes(from, end)) => {
                let extents = Outcome::Extents(self.extents(from..end, &io));
                self.done.push(Done::new(io.id, io.buffers, Ok(extents)));
            }
            Action::Write | Action::Trim | Action::Zero { .. } | Action::Serve(Task::Trim)
                if self.records && io.length > 0 =>
            {
                self.change(now, io);
            }
            _ => self.inner.start(now, io),
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        self.inner.submit()
    }

    fn rest(&mut self, span: Nanos) -> io::Result<bool> {
        self.inner.rest(span)
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        if let Some(result) = self.committer.finished() {
            self.end_commit(now, result);
            self.inner.submit()?;
        }
        done.append(&mut self.done);
        self.inner.collect(now, done)
    }

    fn due(&self) -> Nanos {
        if self.done.is_empty() { self.inner.due() } else { Nanos::ZERO }
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut descriptors = self.inner.descriptors();
        descriptors.push(self.committer.descriptor());
        descriptors
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn grow(&mut self, size_bytes: u64) -> Result<(), String> {
        let pages = self.bitmaps.pages_of(size_bytes)?;
        let before = self.inner.size_bytes();
        self.inner.grow(size_bytes)?;
        self.layers.values_mut().chain([&mut self.durable]).for_each(|bits| bits.grow(pages));
        if self.records
            && let Some(newest) = self.layers.get_mut(&self.newest)
        {
            for region in before / self.region_bytes..size_bytes.div_ceil(self.region_bytes) {
                newest.set(region, true);
                self.changed.insert(region / PAGE_REGIONS);
            }
        }
        self.has_failed = false;
        self.begin_commit();
        Ok(())
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn finish(&mut self) {
        self.inner.finish();
        if let Err(error) = self.bitmaps.end(&self.content) {
            self.remarks.push(format!("the bitmaps cannot be ended: {error}"));
        }
    }

    fn remarks(&mut self) -> Vec<Remark> {
        let own = std::mem::take(&mut self.remarks).into_iter().map(|what| (EventKind::DeviceRemark, what));
        self.inner.remarks().into_iter().chain(own).collect()
    }

    fn bitmaps(&self) -> Option<Arc<Bitmaps>> {
        Some(Arc::clone(&self.bitmaps))
    }

    fn begin_layer(&mut self) -> Result<u64, String> {
        if self.commit.is_some() || !self.waiting.is_empty() || self.size_bytes < self.inner.size_bytes() {
            return Err("changes are in flight".into());
        }
        self.durable.clear();
        self.changed.clear();
        self.newest += 1;
        self.records = true;
        self.layers.insert(self.newest, self.durable.clone());
        Ok(self.newest)
    }

    fn keep_layers(&mut self, layers: &[Range<u64>]) {
        self.records = table::records(layers.iter());
        let newest = self.newest;
        self.layers.retain(|layer, _| *layer == newest || layers.iter().any(|its| its.contains(layer)));
    }
}
