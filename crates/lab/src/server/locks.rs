//! Object locks: their owners, and the order of waiters.

/// No request.
const NONE: u32 = u32::MAX;

/// One lock for each object; waiters get it first come, first served.
pub(super) struct Locks {
    /// The slot that owns each lock.
    holders: Box<[u32]>,
    /// The first and the last slot that wait for each lock.
    waiting: Box<[(u32, u32)]>,
    /// The next waiter after each slot.
    next: Box<[u32]>,
}

impl Locks {
    pub(super) fn new(objects: u32, slots: u32) -> Self {
        Self {
            holders: vec![NONE; objects as usize].into(),
            waiting: vec![(NONE, NONE); objects as usize].into(),
            next: vec![NONE; slots as usize].into(),
        }
    }

    /// Takes the lock of `object` for `slot`, or queues `slot` if another slot owns it.
    pub(super) fn acquire(&mut self, object: u32, slot: u32) -> bool {
        let holder = &mut self.holders[object as usize];
        if *holder == NONE || *holder == slot {
            *holder = slot;
            return true;
        }
        self.next[slot as usize] = NONE;
        let (first, last) = &mut self.waiting[object as usize];
        if *last == NONE {
            *first = slot
        } else {
            self.next[*last as usize] = slot
        }
        *last = slot;
        false
    }

    /// Releases the lock and returns its next owner.
    pub(super) fn release(&mut self, object: u32) -> Option<u32> {
        let (first, last) = &mut self.waiting[object as usize];
        let next = *first;
        self.holders[object as usize] = next;
        if next == NONE {
            return None;
        }
        *first = self.next[next as usize];
        if *first == NONE {
            *last = NONE;
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_granted_in_request_order() {
        let mut locks = Locks::new(2, 8);
        assert!(locks.acquire(0, 5) && locks.acquire(1, 6) && locks.acquire(0, 5));
        assert!(!locks.acquire(0, 1) && !locks.acquire(0, 7) && !locks.acquire(0, 2));
        assert_eq!(locks.release(0), Some(1));
        assert!(!locks.acquire(0, 3));
        assert_eq!([7, 2, 3].map(|_| locks.release(0)), [Some(7), Some(2), Some(3)]);
        assert_eq!(locks.release(0), None);
        assert!(locks.acquire(0, 4));
    }
}
