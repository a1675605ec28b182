//! The map of regions in which the legs of a mirror may differ, as it should be and as it is on the legs, and what each leg
//! lacks.
//!
//! A region is *marked* durably before the first write to it begins, and stays so until every leg has durably what was
//! written. A leg *lacks* a marked region if it may not have what another one has: it has to be copied. Pages of the map are
//! written one at a time each; a mark counts only while no write of its page may take it away.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ioweir_core::Nanos;

use super::super::bits::{Bits, PAGE_REGIONS};
use super::super::parts::BLOCK_BYTES;
use super::head::Layout;

/// The map of regions.
#[derive(Debug)]
pub(super) struct Marks {
    layout: Layout,
    /// As it should be.
    wanted: Bits,
    /// What is certainly on every leg.
    durable: Bits,
    /// What each leg lacks, and how many regions that are.
    lacking: Vec<(Bits, u64)>,
    /// Writes in flight, by region.
    writes: BTreeMap<u64, u32>,
    /// When the last write to a region ended, for those that may soon be no longer marked.
    touched: BTreeMap<u64, Nanos>,
    /// The blocks that were copied of regions that are being copied.
    copied: BTreeMap<u64, BTreeSet<u64>>,
    /// Pages that have changed since they were last written.
    changed: BTreeSet<u64>,
    /// Pages that are being written, each with what it says.
    writing: BTreeMap<u64, Vec<u64>>,
}

impl Marks {
    pub(super) fn new(layout: Layout, legs: usize) -> Self {
        let bits = Bits::new(layout.pages());
        Self {
            layout,
            wanted: bits.clone(),
            durable: bits.clone(),
            lacking: vec![(bits, 0); legs],
            writes: BTreeMap::new(),
            touched: BTreeMap::new(),
            copied: BTreeMap::new(),
            changed: BTreeSet::new(),
            writing: BTreeMap::new(),
        }
    }

    /// There is more data, of the same number of pages.
    pub(super) const fn grow(&mut self, layout: Layout) {
        self.layout = layout;
    }

    /// The regions that a range of data touches.
    pub(super) const fn regions(&self, offset: u64, length: u64) -> Range<u64> {
        offset / self.layout.region_bytes..(offset + length).div_ceil(self.layout.region_bytes)
    }

    fn region_range(&self, region: u64) -> Range<u64> {
        let start = region * self.layout.region_bytes;
        start..(start + self.layout.region_bytes).min(self.layout.data_bytes)
    }

    /// Adds the marks of a page that was found on a leg.
    pub(super) fn add_page(&mut self, page: u64, bytes: &[u8]) {
        for (at, byte) in (0..).zip(bytes).filter(|(_, byte)| **byte != 0) {
            for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                let region = page * PAGE_REGIONS + at * 8 + bit;
                if region < self.layout.regions() {
                    self.want(region, true);
                }
            }
        }
    }

    fn want(&mut self, region: u64, value: bool) {
        if self.wanted.set(region, value) {
            self.changed.insert(region / PAGE_REGIONS);
        }
    }

    /// A write to these regions is about to begin. Returns whether all are durably marked, so that it can begin at once.
    pub(super) fn begin(&mut self, regions: Range<u64>) -> bool {
        for region in regions.clone() {
            *self.writes.entry(region).or_default() += 1;
            self.touched.remove(&region);
            self.want(region, true);
        }
        self.are_durable(regions)
    }

    pub(super) fn are_durable(&self, mut regions: Range<u64>) -> bool {
        regions.all(|region| self.durable.get(region))
    }

    /// A write to these regions has ended.
    pub(super) fn end(&mut self, now: Nanos, regions: Range<u64>) {
        for region in regions {
            if let Some(writes) = self.writes.get_mut(&region) {
                *writes -= 1;
                if *writes == 0 {
                    self.writes.remove(&region);
                    self.touch(region, now);
                }
            }
        }
    }

    fn touch(&mut self, region: u64, now: Nanos) {
        if self.lacking.iter().all(|(lacked, _)| !lacked.get(region)) && !self.writes.contains_key(&region) {
            self.touched.insert(region, now);
        }
    }

    /// A leg may not have what another one has of these regions.
    pub(super) fn lack(&mut self, leg: usize, regions: Range<u64>) {
        for region in regions {
            self.want(region, true);
            self.touched.remove(&region);
            self.copied.remove(&region);
            if let Some((lacked, count)) = self.lacking.get_mut(leg) {
                *count += u64::from(lacked.set(region, true));
            }
        }
    }

    /// A leg is out, or was: it may lack whatever is marked.
    pub(super) fn lack_marked(&mut self, leg: usize) {
        let mut from = 0;
        while let Some(region) = self.wanted.next(from) {
            self.lack(leg, region..region + 1);
            from = region + 1;
        }
    }

    /// What a leg has is from now on what all are to have.
    pub(super) fn lack_nothing(&mut self, leg: usize) {
        if let Some(lacking) = self.lacking.get_mut(leg) {
            *lacking = (Bits::new(self.layout.pages()), 0);
        }
    }

    pub(super) fn lacks(&self, leg: usize, mut regions: Range<u64>) -> bool {
        self.lacking.get(leg).is_some_and(|(lacked, count)| *count > 0 && regions.any(|region| lacked.get(region)))
    }

    /// The number of regions that a leg lacks.
    pub(super) fn lacking(&self, leg: usize) -> u64 {
        self.lacking.get(leg).map_or(0, |(_, count)| *count)
    }

    /// The rest, from `from` on, of the first region that one of these legs lacks.
    pub(super) fn next_lacked(&self, legs: impl Iterator<Item = usize>, from: u64) -> Option<Range<u64>> {
        let first = from / self.layout.region_bytes;
        let next = legs.filter_map(|leg| self.lacking.get(leg).filter(|(_, count)| *count > 0)?.0.next(first)).min()?;
        let range = self.region_range(next);
        Some(range.start.max(from)..range.end)
    }

    /// These legs have got a copy of a range.
    pub(super) fn copied(&mut self, now: Nanos, legs: &[usize], offset: u64, length: u64) {
        let blocks = |start: u64, end: u64| start.div_ceil(BLOCK_BYTES)..end.div_ceil(BLOCK_BYTES);
        for region in self.regions(offset, length) {
            let whole = self.region_range(region);
            let (start, end) = (offset.max(whole.start), (offset + length).min(whole.end));
            // A last block that was copied in part does not count, unless the data ends in it.
            let end = if end == whole.end { end } else { end / BLOCK_BYTES * BLOCK_BYTES };
            let copied = self.copied.entry(region).or_default();
            copied.extend(blocks(start, end));
            if copied.len() < blocks(whole.start, whole.end).count() {
                continue;
            }
            self.copied.remove(&region);
            for &leg in legs {
                if let Some((lacked, count)) = self.lacking.get_mut(leg) {
                    *count -= u64::from(lacked.set(region, false));
                }
            }
            self.touch(region, now);
        }
    }

    /// The legs to which is copied are others from now on: regions that were copied in part begin anew.
    pub(super) fn forget_copied(&mut self) {
        self.copied.clear();
    }

    /// When the first of the touched regions was.
    pub(super) fn first_touched(&self) -> Option<Nanos> {
        self.touched.values().min().copied()
    }

    /// The marked regions that every leg has, and that no write has touched since `before`.
    pub(super) fn at_rest(&self, before: Nanos) -> BTreeSet<u64> {
        self.touched.iter().filter(|(_, touched)| **touched <= before).map(|(&region, _)| region).collect()
    }

    /// Takes marks away: every leg has durably what was written to these regions, unless they were touched after `before`.
    pub(super) fn clean(&mut self, regions: &BTreeSet<u64>, before: Nanos) {
        let at_rest = self.at_rest(before);
        for &region in regions.intersection(&at_rest) {
            self.want(region, false);
            self.touched.remove(&region);
        }
    }

    /// Pages that have to be written and are not being written.
    pub(super) fn pages_to_write(&self) -> Vec<u64> {
        self.changed.iter().copied().filter(|page| !self.writing.contains_key(page)).collect()
    }

    /// Begins to write a page: returns what it says. What it takes away counts no longer.
    pub(super) fn begin_page(&mut self, page: u64) -> Vec<u8> {
        let image = self.wanted.page(page).to_vec();
        self.durable.page_mut(page).iter_mut().zip(&image).for_each(|(durable, word)| *durable &= word);
        self.changed.remove(&page);
        let bytes = image.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.writing.insert(page, image);
        bytes
    }

    /// A page is on every leg that there is.
    pub(super) fn end_page(&mut self, page: u64) {
        if let Some(image) = self.writing.remove(&page) {
            self.durable.page_mut(page).iter_mut().zip(image).for_each(|(durable, word)| *durable = word);
        }
    }

    /// A leg came back, whose pages say something else.
    pub(super) fn forget_pages(&mut self) {
        self.durable.clear();
        self.writing.values_mut().for_each(|image| image.fill(0));
        let is_marked = |page: &u64| self.wanted.page(*page).iter().any(|&word| word != 0);
        self.changed = (0..self.layout.pages()).filter(|page| self.changed.contains(page) || is_marked(page)).collect();
    }

    /// Whether every mark can be taken away once everything is durable.
    pub(super) fn are_at_rest(&self) -> bool {
        self.lacking.iter().all(|(_, count)| *count == 0) && self.writes.is_empty() && self.writing.is_empty()
    }

    /// Takes all marks away; returns the pages that had some.
    pub(super) fn clean_all(&mut self) -> Vec<u64> {
        let is_marked = |page: &u64| self.wanted.page(*page).iter().any(|&word| word != 0);
        let pages = (0..self.layout.pages()).filter(|page| self.changed.contains(page) || is_marked(page)).collect();
        *self = Self::new(self.layout, self.lacking.len());
        pages
    }
}
