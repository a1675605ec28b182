//! A growing table of values by slot; slots are reused.

/// Values by slot.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.entries[slot as usize] = Some(value);
            return slot;
        }
        self.entries.push(Some(value));
        // The limits on connections and requests bound it far below 2^32.
        (self.entries.len() - 1) as u32
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let taken = self.entries.get_mut(slot as usize)?.take();
        if taken.is_some() {
            self.free.push(slot);
        }
        taken
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.entries.get(slot as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.entries).filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)))
    }
}
