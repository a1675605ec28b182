//! Locks of items, each with its owner and the items that wait for it.

use std::collections::VecDeque;

use ioweir_core::Tag;

/// All locks of a pool. An item waits for at most one, so there are no more waiters than items.
#[derive(Debug)]
pub(super) struct Locks {
    holders: Box<[Option<Tag>]>,
    waiting: Box<[VecDeque<Tag>]>,
}

impl Locks {
    pub(super) fn new(locks: u32) -> Self {
        Self {
            holders: vec![None; locks as usize].into_boxed_slice(),
            waiting: vec![VecDeque::new(); locks as usize].into_boxed_slice(),
        }
    }

    pub(super) fn has(&self, lock: u32) -> bool {
        (lock as usize) < self.holders.len()
    }

    pub(super) fn is_held_by(&self, lock: u32, tag: Tag) -> bool {
        self.holders[lock as usize] == Some(tag)
    }

    /// Takes the lock, or joins its queue.
    pub(super) fn take(&mut self, lock: u32, tag: Tag) -> bool {
        let holder = &mut self.holders[lock as usize];
        if holder.is_some() {
            self.waiting[lock as usize].push_back(tag);
            return false;
        }
        *holder = Some(tag);
        true
    }

    /// Leaves the lock or its queue; returns the new owner if it has changed.
    pub(super) fn leave(&mut self, lock: u32, tag: Tag) -> Option<Tag> {
        let (holder, waiting) = (&mut self.holders[lock as usize], &mut self.waiting[lock as usize]);
        if *holder != Some(tag) {
            waiting.retain(|other| *other != tag);
            return None;
        }
        *holder = waiting.pop_front();
        *holder
    }
}
