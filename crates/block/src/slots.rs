//! A growing table of values by slot: core's slab, which gets more slots when none is left.

use ioweir_core::Slab;

/// The number of slots at first; each growth doubles it.
const SLOTS_AT_FIRST: u32 = 16;

/// Values by slot; slots are reused.
#[derive(Debug)]
pub struct Slots<T>(Slab<Option<T>>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Slab::new(0, || None))
    }
}

impl<T> Slots<T> {
    /// Puts a value into a free slot, and returns the slot.
    pub fn insert(&mut self, value: T) -> u32 {
        if !self.0.has_room() {
            self.grow();
        }
        let Some(slot) = self.0.take() else { unreachable!("it has grown") };
        self.0[slot] = Some(value);
        slot
    }

    /// The limits on connections and requests keep the number of slots far below 2^31.
    #[cold]
    fn grow(&mut self) {
        self.0.grow((self.0.capacity() * 2).max(SLOTS_AT_FIRST), || None);
    }

    /// Takes the value out of a slot.
    pub fn remove(&mut self, slot: u32) -> Option<T> {
        let taken = if slot < self.0.capacity() { self.0[slot].take() } else { None };
        if taken.is_some() {
            self.0.release(slot);
        }
        taken
    }

    /// The value in a slot.
    #[must_use]
    pub fn get(&self, slot: u32) -> Option<&T> {
        if slot < self.0.capacity() { self.0[slot].as_ref() } else { None }
    }

    /// The value in a slot, to change it.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        if slot < self.0.capacity() { self.0[slot].as_mut() } else { None }
    }

    /// The number of values.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "only the number is ever asked for")]
    pub const fn len(&self) -> usize {
        self.0.len() as usize
    }

    /// The values with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.0.capacity()).filter_map(|slot| Some((slot, self.0[slot].as_ref()?)))
    }
}
