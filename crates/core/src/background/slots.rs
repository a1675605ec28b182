//! The running slices: the units that they hold, and when they are to stop.

use alloc::boxed::Box;

use super::{SERVICES_COUNT, Service};
use crate::Nanos;

/// The most units that a slice which was read back can hold: their sum is far from the end of its type.
const UNITS_MAX: u32 = 1 << 16;

/// A handle to a running slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SliceTag {
    slot: u32,
    generation: u32,
}

impl SliceTag {
    /// A place below the number of slices that can run at once; no two running slices have the same.
    #[must_use]
    pub const fn place(self) -> usize {
        self.slot as usize
    }
}

/// A piece of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The handle by which the slice is completed.
    pub tag: SliceTag,
    /// The service whose debt the slice pays.
    pub service: Service,
    /// The units of the resource that the slice holds: one core, or a share of the device's time in thousandths.
    pub units: u32,
    /// The number of blocks that the slice pays.
    pub blocks: u64,
    /// When these blocks were due.
    pub due_at: Nanos,
    /// When it started.
    pub started_at: Nanos,
    /// When it is expected to end. A worker that can be given a rate spreads its blocks over the time until then.
    pub ends_at: Nanos,
}

/// The last instruction that the executor gave to a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Pause,
    End,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u32,
    slice: Option<Slice>,
    told: Told,
    told_at: Nanos,
    /// A slice that took more than its share holds its units until its share has made up for it.
    held: Option<(Service, u32, Nanos)>,
}

/// The slices that run.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    /// Units of the slices that run and were not told to end.
    units: u32,
    /// Slices that run, among them those that were told to end.
    running: u32,
    blocks: [u64; SERVICES_COUNT],
    /// Whether units may be held beyond a slice's end.
    holds: bool,
}

impl Slots {
    const FREE: Slot = Slot { generation: 0, slice: None, told: Told::Nothing, told_at: Nanos::ZERO, held: None };

    pub(super) fn new(slots: usize, holds: bool) -> Self {
        let slots = alloc::vec![Self::FREE; slots.max(1)].into_boxed_slice();
        Self { slots, units: 0, running: 0, blocks: [0; SERVICES_COUNT], holds }
    }

    /// Units that are in use: those of slices that run, and those held after slices that took more than their share.
    pub(super) fn used_units(&self, now: Nanos) -> u32 {
        self.units + self.held_units(now)
    }

    pub(super) fn held_units(&self, now: Nanos) -> u32 {
        if !self.holds {
            return 0;
        }
        self.held(now).map(|(_, units)| units).sum()
    }

    /// The services that units are held for, with the units.
    pub(super) fn held(&self, now: Nanos) -> impl Iterator<Item = (Service, u32)> {
        let held = self.slots.iter().filter_map(|slot| slot.held).filter(move |(_, _, until)| *until > now);
        held.map(|(service, units, _)| (service, units))
    }

    pub(super) const fn is_any_running(&self) -> bool {
        self.running > 0
    }

    /// Blocks of a service that are being paid.
    pub(super) const fn blocks(&self, service: Service) -> u64 {
        self.blocks[service as usize]
    }

    /// Whether a slice of this service runs, or still holds units.
    pub(super) fn has(&self, service: Service, now: Nanos) -> bool {
        self.slots.iter().any(|slot| {
            slot.slice.is_some_and(|slice| slice.service == service)
                || slot.held.is_some_and(|(held, _, until)| held == service && until > now)
        })
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &Slice> {
        self.slots.iter().filter_map(|slot| slot.slice.as_ref())
    }

    pub(super) fn has_room(&self, now: Nanos) -> bool {
        (self.running as usize) < self.slots.len() && self.slots.iter().any(|slot| slot.is_free(now))
    }

    /// Starts a slice in the first free place.
    pub(super) fn start(&mut self, now: Nanos, slice: impl FnOnce(SliceTag) -> Slice) -> Option<Slice> {
        let place = self.slots.iter().position(|slot| slot.is_free(now))?;
        let slot = &mut self.slots[place];
        let slice = slice(SliceTag { slot: u32::try_from(place).unwrap_or(u32::MAX), generation: slot.generation });
        *slot = Slot { generation: slot.generation, slice: Some(slice), ..Self::FREE };
        self.units += slice.units;
        self.running += 1;
        self.blocks[slice.service as usize] += slice.blocks;
        Some(slice)
    }

    /// Ends a slice that took `unit_nanos` of one unit's time; `None` if the tag names no running slice.
    pub(super) fn finish(&mut self, tag: SliceTag, unit_nanos: u64) -> Option<Slice> {
        let slot = self.slots.get_mut(tag.slot as usize).filter(|slot| slot.generation == tag.generation)?;
        let slice = slot.slice.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        if self.holds {
            let worth = slice.started_at.after(Nanos(unit_nanos.div_ceil(u64::from(slice.units.max(1)))));
            slot.held = Some((slice.service, slice.units, worth));
        }
        if slot.told != Told::End {
            self.units -= slice.units;
        }
        self.running -= 1;
        self.blocks[slice.service as usize] -= slice.blocks;
        Some(slice)
    }

    /// Frees units that are held after a slice of a service, where they are fewer than these.
    pub(super) fn release_below(&mut self, service: Service, units: u32) {
        let is_below = |held: &(Service, u32, Nanos)| held.0 == service && held.1 < units;
        for slot in self.slots.iter_mut().filter(|slot| slot.held.as_ref().is_some_and(is_below)) {
            slot.held = None;
        }
    }

    /// Tells a slice to pause that has run for longer than expected and a grace.
    pub(super) fn pause_late(&mut self, now: Nanos, grace: Nanos) -> Option<SliceTag> {
        let is_late = |slot: &Slot| slot.active().is_some_and(|slice| now >= slice.ends_at.after(grace));
        self.pause(now, is_late)
    }

    /// Tells the last slice to pause that `may` stop, if the slices that run have twice the units granted: to all slices, or to those
    /// that may stop.
    pub(super) fn pause_beyond(
        &mut self,
        now: Nanos,
        granted: [u32; 2],
        may: impl Fn(Service) -> bool,
    ) -> Option<SliceTag> {
        let of_all: u32 = self.slots.iter().filter_map(Slot::active).map(|slice| slice.units).sum();
        let may_stop = self.slots.iter().filter_map(Slot::active).filter(|slice| may(slice.service));
        let active = [of_all, may_stop.map(|slice| slice.units).sum()];
        let is_beyond = |(granted, active)| active > 0 && u64::from(granted) * 2 <= u64::from(active);
        if !granted.into_iter().zip(active).any(is_beyond) {
            return None;
        }
        self.pause_last(now, may)
    }

    /// Tells the last slice of such a service to pause.
    pub(super) fn pause_last(&mut self, now: Nanos, of: impl Fn(Service) -> bool) -> Option<SliceTag> {
        self.pause(now, |slot| slot.active().is_some_and(|slice| of(slice.service)))
    }

    fn pause(&mut self, now: Nanos, of: impl Fn(&Slot) -> bool) -> Option<SliceTag> {
        let slot = self.slots.iter_mut().rev().find(|slot| of(slot))?;
        (slot.told, slot.told_at) = (Told::Pause, now);
        slot.slice.map(|slice| slice.tag)
    }

    /// Tells a slice to end that was told to pause and did not within a grace. Its units are free from now on.
    pub(super) fn end_late(&mut self, now: Nanos, grace: Nanos) -> Option<SliceTag> {
        let is_late = |slot: &&mut Slot| slot.told == Told::Pause && now >= slot.told_at.after(grace);
        let slot = self.slots.iter_mut().filter(|slot| slot.slice.is_some()).find(is_late)?;
        slot.told = Told::End;
        let slice = slot.slice?;
        self.units -= slice.units;
        Some(slice.tag)
    }

    /// When any of this changes without a call.
    pub(super) fn changes(&self, grace: Nanos) -> impl Iterator<Item = Nanos> {
        let held = self.slots.iter().filter_map(|slot| slot.held).map(|(_, _, until)| until);
        let late = self.slots.iter().filter_map(move |slot| {
            let slice = slot.slice.filter(|_| grace != Nanos::NEVER)?;
            match slot.told {
                Told::Nothing => Some(slice.ends_at.after(grace)),
                Told::Pause => Some(slot.told_at.after(grace)),
                Told::End => None,
            }
        });
        held.chain(late)
    }

    /// The times until which units are held after slices that are over.
    pub(super) fn times_mut(&mut self) -> impl Iterator<Item = &mut Nanos> {
        self.slots.iter_mut().filter_map(|slot| slot.held.as_mut()).map(|(_, _, until)| until)
    }

    pub(super) fn words(&mut self, exchange: &mut impl FnMut(u64) -> u64) -> Option<()> {
        (self.units, self.running, self.blocks) = (0, 0, [0; SERVICES_COUNT]);
        if exchange(self.slots.len() as u64) != self.slots.len() as u64 {
            return None;
        }
        for (place, slot) in self.slots.iter_mut().enumerate() {
            slot.words(u32::try_from(place).ok()?, exchange)?;
            if let Some(slice) = slot.slice {
                if slot.told != Told::End {
                    self.units = self.units.checked_add(slice.units)?;
                }
                self.running += 1;
                let blocks = &mut self.blocks[slice.service as usize];
                *blocks = blocks.checked_add(slice.blocks)?;
            }
        }
        Some(())
    }
}

/// Units of a slice that was read back.
fn units(word: u64) -> Option<u32> {
    u32::try_from(word).ok().filter(|units| *units <= UNITS_MAX)
}

impl Slot {
    fn is_free(&self, now: Nanos) -> bool {
        self.slice.is_none() && self.held.is_none_or(|(_, _, until)| until <= now)
    }

    /// The slice, if it was told neither to pause nor to end.
    fn active(&self) -> Option<&Slice> {
        self.slice.as_ref().filter(|_| self.told == Told::Nothing)
    }

    fn words(&mut self, place: u32, exchange: &mut impl FnMut(u64) -> u64) -> Option<()> {
        let service = |word: u64| Service::ALL.get(usize::try_from(word).ok()?).copied();
        self.generation = u32::try_from(exchange(u64::from(self.generation))).ok()?;
        if exchange(u64::from(self.slice.is_some())) == 1 {
            let tag = SliceTag { slot: place, generation: self.generation };
            let of = self.slice.unwrap_or(Slice {
                tag,
                service: Service::Scrub,
                units: 0,
                blocks: 0,
                due_at: Nanos::NEVER,
                started_at: Nanos::ZERO,
                ends_at: Nanos::ZERO,
            });
            self.slice = Some(Slice {
                tag,
                service: service(exchange(of.service as u64))?,
                units: units(exchange(u64::from(of.units)))?,
                blocks: exchange(of.blocks),
                due_at: Nanos(exchange(of.due_at.0)),
                started_at: Nanos(exchange(of.started_at.0)),
                ends_at: Nanos(exchange(of.ends_at.0)),
            });
            self.told = match exchange(self.told as u64) {
                0 => Told::Nothing,
                1 => Told::Pause,
                2 => Told::End,
                _ => return None,
            };
            self.told_at = Nanos(exchange(self.told_at.0));
        } else {
            self.slice = None;
        }
        if exchange(u64::from(self.held.is_some())) == 1 {
            let (of, units, until) = self.held.unwrap_or((Service::Scrub, 0, Nanos::ZERO));
            let of = service(exchange(of as u64))?;
            self.held = Some((of, self::units(exchange(u64::from(units)))?, Nanos(exchange(until.0))));
        } else {
            self.held = None;
        }
        Some(())
    }
}
