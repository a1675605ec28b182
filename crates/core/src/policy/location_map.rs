//! Where does a sector live: on the disk where it was addressed, or on the flash device beside it, and where there?
//!
//! Model: the disk's sectors that live on flash are intervals, each with one place there; whatever is in no interval lives
//! on the disk. What flash has free are extents. Both are bounded at construction. A write that belongs on flash gives the
//! sectors of its range that live on the disk a place on flash, taken from the front of the largest free extent, so that
//! what is written in sequence lies in sequence; sectors that live on flash already keep their place, and are overwritten
//! there. A discard gives places back. An interval that continues another one on both devices becomes part of it.
//!
//! Full: where flash has no room, or there is no interval left, a sector stays on the disk, which is always true. A discard
//! in the middle of an interval makes two of it; where there is none left for that, the sectors keep their place, since
//! what they hold does not matter any more. So the map is exact at any time: a sector has one home, and a write finds it.
//! An overwrite that a policy would rather have on the disk goes to flash if that is where its sectors live.
//!
//! Bound: `intervals` intervals, and one more extent than that, since each lies between two intervals' places or at an
//! end. Each step of a call costs the logarithm of that; a call has a step for each piece of its range.
//!
//! Who will ask: bid-hybrid cuts a request into its pieces before the request queue, a queue for each device behind it, as
//! the paper has the filter above the block layer. A dispatch will name its device; a tag is done when its pieces are.
//! The decision of Algorithm 3 falls when a staging queue is marked: `place` for each write of a queue that packs lightly,
//! which then go from the disk's queue to the flash device's.
//!
//! Example: sectors 100 to 108 are placed at 0 to 8 of flash. A write of 104 to 112: 104 to 108 go to flash 4, the rest to
//! the disk, or, if the write belongs on flash, to flash 8, and one interval says so: 100 to 112 at 0.

use alloc::boxed::Box;
use alloc::vec;
use core::cmp::Reverse;

use crate::structure::{Heap, Links, List, Root, Tree};

/// A part of a range with one home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First sector as addressed.
    pub(crate) sector: u64,
    pub(crate) sectors: u64,
    /// Where it begins on flash; `None` where it lives on the disk.
    pub(crate) flash_sector: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    sector: u64,
    sectors: u64,
}

impl Extent {
    const fn end(&self) -> u64 {
        self.sector + self.sectors
    }
}

/// Extents by address, in a bounded number of slots.
#[derive(Clone, Debug)]
struct Extents {
    extents: Box<[Extent]>,
    tree: Tree,
    root: Root,
    free: List,
    free_links: Links,
}

impl Extents {
    fn new(capacity: u32) -> Self {
        let mut free_links = Links::new(capacity);
        let mut free = List::EMPTY;
        (0..capacity).for_each(|slot| free_links.push_back(&mut free, slot));
        Self {
            extents: vec![Extent::default(); capacity as usize].into_boxed_slice(),
            tree: Tree::new(capacity),
            root: Root::EMPTY,
            free,
            free_links,
        }
    }

    fn get(&self, slot: u32) -> Extent {
        self.extents[slot as usize]
    }

    fn add(&mut self, extent: Extent) -> Option<u32> {
        let slot = self.free_links.pop_front(&mut self.free)?;
        self.extents[slot as usize] = extent;
        self.tree.insert(&mut self.root, slot, extent.sector, 0);
        Some(slot)
    }

    fn remove(&mut self, slot: u32) {
        self.tree.remove(&mut self.root, slot);
        self.free_links.push_front(&mut self.free, slot);
    }

    /// Changes an extent without changing the order of extents.
    fn set(&mut self, slot: u32, extent: Extent) {
        if self.get(slot).sector != extent.sector {
            self.tree.remove(&mut self.root, slot);
            self.tree.insert(&mut self.root, slot, extent.sector, 0);
        }
        self.extents[slot as usize] = extent;
    }

    /// The last extent that begins at `sector` or before it.
    fn at_or_before(&self, sector: u64) -> Option<u32> {
        self.tree.before(self.root, sector.saturating_add(1))
    }

    fn at_or_after(&self, sector: u64) -> Option<u32> {
        self.tree.at_or_after(self.root, sector)
    }

    /// The extent that `sector` is in.
    fn around(&self, sector: u64) -> Option<u32> {
        self.at_or_before(sector).filter(|&slot| sector < self.get(slot).end())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LocationMap {
    intervals: Extents,
    /// Where each interval begins on flash.
    places: Box<[u64]>,
    vacant: Extents,
    /// Free extents, the largest first.
    by_size: Heap<Reverse<u64>>,
    vacant_sectors: u64,
}

impl LocationMap {
    /// A map of at most so many intervals onto a flash device of so many sectors.
    pub(crate) fn new(intervals: u32, flash_sectors: u64) -> Self {
        let vacancies = intervals.saturating_add(1);
        let mut map = Self {
            intervals: Extents::new(intervals),
            places: vec![0; intervals as usize].into_boxed_slice(),
            vacant: Extents::new(vacancies),
            by_size: Heap::new(vacancies),
            vacant_sectors: 0,
        };
        map.vacate(Extent { sector: 0, sectors: flash_sectors });
        map
    }

    /// Sectors of flash that hold nothing.
    pub(crate) fn vacant_sectors(&self) -> u64 {
        self.vacant_sectors
    }

    /// The homes of a range, piece by piece in the order of sectors.
    pub(crate) fn pieces(&self, sector: u64, sectors: u64) -> impl Iterator<Item = Piece> + '_ {
        let end = sector.saturating_add(sectors);
        let mut at = sector;
        core::iter::from_fn(move || {
            (at < end).then(|| {
                let piece = self.piece(at, end);
                at += piece.sectors;
                piece
            })
        })
    }

    /// The first piece of a range that is not empty.
    fn piece(&self, sector: u64, end: u64) -> Piece {
        if let Some(slot) = self.intervals.around(sector) {
            let interval = self.intervals.get(slot);
            let flash_sector = self.places[slot as usize] + (sector - interval.sector);
            return Piece { sector, sectors: interval.end().min(end) - sector, flash_sector: Some(flash_sector) };
        }
        let next = self.intervals.at_or_after(sector).map_or(end, |slot| self.intervals.get(slot).sector.min(end));
        Piece { sector, sectors: next - sector, flash_sector: None }
    }

    /// Gives what lives on the disk in a range a place on flash, as far as there is room; answers with how many sectors
    /// stay on the disk.
    pub(crate) fn place(&mut self, sector: u64, sectors: u64) -> u64 {
        let end = sector.saturating_add(sectors);
        let mut at = sector;
        let mut staying = 0;
        while at < end {
            let piece = self.piece(at, end);
            at += match piece.flash_sector {
                Some(_) => piece.sectors,
                None => self.place_some(piece.sector, piece.sectors).unwrap_or_else(|| {
                    staying += piece.sectors;
                    piece.sectors
                }),
            };
        }
        staying
    }

    /// Places the front of a gap between intervals; answers with how much, or `None` where the map is full.
    fn place_some(&mut self, sector: u64, sectors: u64) -> Option<u64> {
        let (Reverse(_), vacancy) = self.by_size.first()?;
        let Extent { sector: place, sectors: room } = self.vacant.get(vacancy);
        let sectors = sectors.min(room);
        let continued = sector
            .checked_sub(1)
            .and_then(|before| self.intervals.around(before))
            .filter(|&slot| self.places[slot as usize] + self.intervals.get(slot).sectors == place);
        match continued {
            Some(slot) => {
                let interval = self.intervals.get(slot);
                self.intervals.set(slot, Extent { sectors: interval.sectors + sectors, ..interval });
            }
            None => {
                let slot = self.intervals.add(Extent { sector, sectors })?;
                self.places[slot as usize] = place;
            }
        }
        self.shrink_vacancy(vacancy, sectors);
        self.join_next(sector);
        Some(sectors)
    }

    fn shrink_vacancy(&mut self, vacancy: u32, sectors: u64) {
        let extent = self.vacant.get(vacancy);
        self.vacant_sectors -= sectors;
        if extent.sectors == sectors {
            self.by_size.remove(vacancy);
            self.vacant.remove(vacancy);
        } else {
            let rest = Extent { sector: extent.sector + sectors, sectors: extent.sectors - sectors };
            self.vacant.set(vacancy, rest);
            self.by_size.set(vacancy, Reverse(rest.sectors), rest.sector);
        }
    }

    /// Joins the interval around `sector` to the next one, where that continues it on both devices.
    fn join_next(&mut self, sector: u64) {
        let Some(slot) = self.intervals.around(sector) else { return };
        let interval = self.intervals.get(slot);
        let Some(next) = self.intervals.around(interval.end()) else { return };
        if self.places[slot as usize] + interval.sectors == self.places[next as usize] {
            let sectors = interval.sectors + self.intervals.get(next).sectors;
            self.intervals.remove(next);
            self.intervals.set(slot, Extent { sectors, ..interval });
        }
    }

    /// What a range holds does not matter any more: it lives on the disk again. Answers with how many sectors keep their
    /// place on flash, because no interval is left to say otherwise.
    pub(crate) fn discard(&mut self, sector: u64, sectors: u64) -> u64 {
        let end = sector.saturating_add(sectors);
        let mut at = sector;
        let mut kept = 0;
        while at < end {
            let piece = self.piece(at, end);
            if piece.flash_sector.is_some() && !self.discard_piece(&piece) {
                kept += piece.sectors;
            }
            at += piece.sectors;
        }
        kept
    }

    /// Takes a piece out of the interval that it is in.
    fn discard_piece(&mut self, piece: &Piece) -> bool {
        let Some(slot) = self.intervals.around(piece.sector) else { return false };
        let interval = self.intervals.get(slot);
        let place = self.places[slot as usize];
        let before = Extent { sector: interval.sector, sectors: piece.sector - interval.sector };
        let piece_end = piece.sector + piece.sectors;
        let after = Extent { sector: piece_end, sectors: interval.end() - piece_end };
        let place_after = place + (piece_end - interval.sector);
        match (before.sectors, after.sectors) {
            (0, 0) => self.intervals.remove(slot),
            (0, _) => {
                self.intervals.set(slot, after);
                self.places[slot as usize] = place_after;
            }
            (_, 0) => self.intervals.set(slot, before),
            (_, _) => {
                let Some(second) = self.intervals.add(after) else { return false };
                self.places[second as usize] = place_after;
                self.intervals.set(slot, before);
            }
        }
        self.vacate(Extent { sector: place + before.sectors, sectors: piece.sectors });
        true
    }

    /// Flash gets an extent back; it joins its neighbours.
    fn vacate(&mut self, mut extent: Extent) {
        self.vacant_sectors += extent.sectors;
        if extent.sectors == 0 {
            return;
        }
        if let Some(next) = self.vacant.around(extent.end()) {
            extent.sectors += self.vacant.get(next).sectors;
            self.forget_vacancy(next);
        }
        if let Some(before) = extent.sector.checked_sub(1).and_then(|before| self.vacant.around(before)) {
            let Extent { sector, sectors } = self.vacant.get(before);
            extent = Extent { sector, sectors: sectors + extent.sectors };
            self.forget_vacancy(before);
        }
        // There is room: vacancies lie between places, and there is one slot more than places.
        if let Some(slot) = self.vacant.add(extent) {
            self.by_size.set(slot, Reverse(extent.sectors), extent.sector);
        }
    }

    fn forget_vacancy(&mut self, slot: u32) {
        self.by_size.remove(slot);
        self.vacant.remove(slot);
    }

    /// How many more intervals can be kept.
    pub(crate) fn intervals_left(&self) -> u32 {
        self.intervals.free.length()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const DISK: usize = 64;
    const FLASH: usize = 40;

    /// Two devices that hold what was last written where, and what the map says of each sector.
    struct Devices {
        map: LocationMap,
        disk: [u32; DISK],
        flash: [u32; FLASH],
        /// What a reader should see; `None` where anything will do.
        truth: [Option<u32>; DISK],
    }

    impl Devices {
        fn new(intervals: u32) -> Self {
            let map = LocationMap::new(intervals, FLASH as u64);
            Self { map, disk: [0; DISK], flash: [0; FLASH], truth: [Some(0); DISK] }
        }

        fn homes(&self) -> Vec<Option<u64>> {
            let pieces = self.map.pieces(0, DISK as u64);
            pieces
                .flat_map(|piece| (0..piece.sectors).map(move |at| piece.flash_sector.map(|first| first + at)))
                .collect()
        }

        fn write(&mut self, sector: u64, sectors: u64, value: u32) {
            let pieces: Vec<Piece> = self.map.pieces(sector, sectors).collect();
            for piece in pieces {
                let (device, first) = match piece.flash_sector {
                    Some(first) => (&mut self.flash[..], first),
                    None => (&mut self.disk[..], piece.sector),
                };
                device[first as usize..(first + piece.sectors) as usize].fill(value);
            }
            self.truth[sector as usize..(sector + sectors) as usize].fill(Some(value));
        }

        fn read(&self, sector: usize) -> u32 {
            match self.homes()[sector] {
                Some(first) => self.flash[first as usize],
                None => self.disk[sector],
            }
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Call {
        /// A write that belongs on flash.
        Place(u64, u64),
        Write(u64, u64),
        Discard(u64, u64),
    }

    fn call() -> impl Strategy<Value = Call> {
        let range =
            (0..DISK as u64, 1u64..17).prop_map(|(sector, sectors)| (sector, sectors.min(DISK as u64 - sector)));
        prop_oneof![
            3 => range.clone().prop_map(|(sector, sectors)| Call::Place(sector, sectors)),
            1 => range.clone().prop_map(|(sector, sectors)| Call::Write(sector, sectors)),
            2 => range.prop_map(|(sector, sectors)| Call::Discard(sector, sectors)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn every_sector_has_one_home_and_holds_what_was_last_written(
            intervals in prop_oneof![1u32..12, Just(40)],
            calls in proptest::collection::vec(call(), 1..80),
        ) {
            let mut devices = Devices::new(intervals);
            for (number, call) in (1..).zip(calls) {
                let before = devices.homes();
                match call {
                    Call::Place(sector, sectors) => {
                        let (vacant, intervals_left) = (devices.map.vacant_sectors(), devices.map.intervals_left());
                        let staying = devices.map.place(sector, sectors);
                        let after = devices.homes();
                        let range = sector as usize..(sector + sectors) as usize;
                        let newly = range.clone().filter(|&at| before[at].is_none() && after[at].is_some()).count() as u64;
                        prop_assert_eq!(after[range].iter().filter(|home| home.is_none()).count() as u64, staying);
                        prop_assert_eq!(devices.map.vacant_sectors(), vacant - newly);
                        let is_tight = vacant < sectors || u64::from(intervals_left) < sectors;
                        prop_assert!(staying == 0 || is_tight, "{staying} stay although there is room");
                        for (at, (before, after)) in before.iter().zip(&after).enumerate() {
                            let may_change = (at as u64) >= sector && (at as u64) < sector + sectors && before.is_none();
                            prop_assert!(before == after || may_change, "sector {at} moved");
                        }
                        devices.write(sector, sectors, number);
                    }
                    Call::Write(sector, sectors) => devices.write(sector, sectors, number),
                    Call::Discard(sector, sectors) => {
                        let could_split = devices.map.intervals_left() > 0;
                        let kept = devices.map.discard(sector, sectors);
                        prop_assert!(kept == 0 || !could_split);
                        let after = devices.homes();
                        let range = sector as usize..(sector + sectors) as usize;
                        prop_assert_eq!(after[range.clone()].iter().flatten().count() as u64, kept);
                        for (at, (before, after)) in before.iter().zip(&after).enumerate() {
                            prop_assert!(before == after || (range.contains(&at) && after.is_none()), "sector {at}");
                        }
                        devices.truth[range].fill(None);
                    }
                }
                let homes: Vec<u64> = devices.homes().into_iter().flatten().collect();
                prop_assert_eq!(homes.iter().collect::<BTreeSet<_>>().len(), homes.len(), "two sectors share a place");
                prop_assert!(homes.iter().all(|&home| home < FLASH as u64));
                prop_assert_eq!(devices.map.vacant_sectors() as usize, FLASH - homes.len());
                for (sector, truth) in devices.truth.iter().enumerate() {
                    prop_assert!(truth.is_none_or(|value| value == devices.read(sector)), "sector {sector}");
                }
            }
        }

        #[test]
        fn pieces_cover_the_range_and_are_as_long_as_can_be(calls in proptest::collection::vec(call(), 1..40)) {
            let mut map = LocationMap::new(8, FLASH as u64);
            for call in calls {
                match call {
                    Call::Place(sector, sectors) | Call::Write(sector, sectors) => drop(map.place(sector, sectors)),
                    Call::Discard(sector, sectors) => drop(map.discard(sector, sectors)),
                }
                let pieces: Vec<Piece> = map.pieces(3, 50).collect();
                prop_assert_eq!(pieces.iter().map(|piece| piece.sectors).sum::<u64>(), 50);
                prop_assert_eq!(pieces[0].sector, 3);
                for pair in pieces.windows(2) {
                    prop_assert_eq!(pair[0].sector + pair[0].sectors, pair[1].sector);
                    let continued = pair[0].flash_sector.map(|first| first + pair[0].sectors);
                    prop_assert_ne!(continued, pair[1].flash_sector, "two pieces that are one");
                }
            }
        }
    }

    #[test]
    fn what_is_written_in_sequence_is_one_interval() {
        let mut map = LocationMap::new(2, 1_000);
        for sector in (100..200).step_by(8) {
            assert_eq!(map.place(sector, 8), 0);
        }
        let pieces: Vec<Piece> = map.pieces(90, 200).collect();
        let homes: Vec<(u64, Option<u64>)> = pieces.iter().map(|piece| (piece.sectors, piece.flash_sector)).collect();
        assert_eq!(homes, [(10, None), (104, Some(0)), (86, None)]);
    }

    #[test]
    fn a_full_map_keeps_the_truth() {
        let mut map = LocationMap::new(1, 1_000);
        assert_eq!(map.place(100, 30), 0);
        assert_eq!(map.place(500, 8), 8, "no interval is left: these stay on the disk");
        assert_eq!(map.discard(110, 10), 10, "no interval is left to split");
        assert_eq!(map.discard(100, 10), 0, "the front can go");
        assert_eq!(map.pieces(100, 30).map(|piece| piece.flash_sector).collect::<Vec<_>>(), [None, Some(10)]);
    }
}
