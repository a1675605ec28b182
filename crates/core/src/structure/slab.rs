//! A table of reusable slots, each with a generation, so that a stale [`Tag`] is never taken for a new one.

use alloc::boxed::Box;
use core::ops::{Index, IndexMut};

use super::NONE;
use crate::Tag;

/// A table of slots. Only [`Slab::new`] and [`Slab::grow`] allocate; a full slab refuses.
///
/// A free slot keeps its last value, so that a new value may be written field by field where that is cheaper.
///
/// ```
/// use ioweir_core::Slab;
///
/// let mut slab = Slab::new(2, || "");
/// let first = slab.insert("first").expect("there is room for two");
/// let tag = slab.tag(first);
/// assert_eq!(slab.slot(tag), Some(first));
/// slab.release(first);
/// assert_eq!(slab.slot(tag), None);
/// ```
#[derive(Clone, Debug)]
pub struct Slab<T> {
    entries: Box<[Entry<T>]>,
    free: u32,
    length: u32,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    value: T,
    /// Odd while the slot is taken.
    generation: u32,
    next_free: u32,
}

impl<T> Slab<T> {
    /// A slab of `capacity` slots, each with a value made by `blank`. The largest number is not used as a slot.
    #[must_use]
    pub fn new(capacity: u32, mut blank: impl FnMut() -> T) -> Self {
        let entry = |slot| Entry { value: blank(), generation: 0, next_free: following(slot, capacity) };
        Self { entries: (0..capacity).map(entry).collect(), free: if capacity == 0 { NONE } else { 0 }, length: 0 }
    }

    /// Adds slots up to `capacity`. This crate never calls it for a slab whose size a caller has set.
    pub fn grow(&mut self, capacity: u32, mut blank: impl FnMut() -> T) {
        let before = self.capacity();
        if capacity > before {
            let free = core::mem::replace(&mut self.free, before);
            let entry = |slot| Entry { value: blank(), generation: 0, next_free: following(slot, capacity) };
            let entries = core::mem::take(&mut self.entries).into_iter();
            self.entries = entries.chain((before..capacity).map(entry)).collect();
            self.entries[capacity as usize - 1].next_free = free;
        }
    }

    /// The number of slots.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.entries.len() as u32 // made from a u32
    }

    /// The number of taken slots.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.length
    }

    /// Whether no slot is taken.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether a slot is free.
    #[inline]
    #[must_use]
    pub const fn has_room(&self) -> bool {
        // This comparison equals the bounds check of `free`, so that the compiler merges the two.
        (self.free as usize) < self.entries.len()
    }

    /// Takes a free slot, the last one released, with the value that it had then.
    #[inline(always)]
    pub fn take(&mut self) -> Option<u32> {
        let slot = self.free;
        let entry = self.entries.get_mut(slot as usize)?;
        self.free = entry.next_free;
        entry.generation = entry.generation.wrapping_add(1);
        self.length += 1;
        Some(slot)
    }

    /// Puts a value into a free slot; drops the value if there is none.
    #[inline(always)]
    pub fn insert(&mut self, value: T) -> Option<u32> {
        let slot = self.take()?;
        self.entries[slot as usize].value = value;
        Some(slot)
    }

    /// Frees a taken slot.
    #[inline(always)]
    pub fn release(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        debug_assert!(entry.generation & 1 == 1, "a slot is released once");
        entry.generation = entry.generation.wrapping_add(1);
        entry.next_free = self.free;
        self.free = slot;
        self.length -= 1;
    }

    /// The handle of a slot in its present use.
    #[inline]
    #[must_use]
    pub fn tag(&self, slot: u32) -> Tag {
        Tag { slot, generation: self.entries[slot as usize].generation }
    }

    /// The slot of a handle, unless it was released.
    #[inline]
    #[must_use]
    pub fn slot(&self, tag: Tag) -> Option<u32> {
        let entry = self.entries.get(tag.slot as usize)?;
        (entry.generation == tag.generation && tag.generation & 1 == 1).then_some(tag.slot)
    }
}

fn following(slot: u32, capacity: u32) -> u32 {
    if slot + 1 < capacity { slot + 1 } else { NONE }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, slot: u32) -> &T {
        &self.entries[slot as usize].value
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline(always)]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.entries[slot as usize].value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slab_holds_inserted_values_and_refuses_stale_tags(
            steps in proptest::collection::vec((0u8..8, any::<prop::sample::Index>()), 1..300),
        ) {
            let mut slab = Slab::new(3, || 0);
            let mut held: Vec<(Tag, usize)> = Vec::new();
            let mut stale: Vec<Tag> = Vec::new();
            for (number, (step, which)) in steps.into_iter().enumerate() {
                match step {
                    0 if slab.capacity() < 20 => slab.grow(slab.capacity() + 2, || 0),
                    0..5 => match slab.insert(number) {
                        Some(slot) => held.push((slab.tag(slot), number)),
                        None => prop_assert_eq!(held.len() as u32, slab.capacity()),
                    },
                    _ if !held.is_empty() => {
                        let (tag, value) = held.swap_remove(which.index(held.len()));
                        prop_assert_eq!(slab[tag.slot], value);
                        slab.release(tag.slot);
                        stale.push(tag);
                    }
                    _ => {}
                }
                prop_assert_eq!((slab.len() as usize, slab.is_empty()), (held.len(), held.is_empty()));
                prop_assert_eq!(slab.has_room(), slab.len() < slab.capacity());
                prop_assert!(held.iter().all(|&(tag, value)| slab.slot(tag) == Some(tag.slot) && slab[tag.slot] == value));
                prop_assert!(stale.iter().all(|&tag| slab.slot(tag).is_none()));
            }
        }
    }
}
