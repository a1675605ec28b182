//! Doubly linked lists through one pair of link arrays: a slot is in at most one list at a time.

use alloc::boxed::Box;
use alloc::vec;

use super::NONE;

/// The links of all slots.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    links: Box<[Link]>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

/// One list: its ends and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    length: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, length: 0 };

    pub(crate) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The first slot, or `NONE`.
    pub(crate) const fn head(&self) -> u32 {
        self.head
    }

    pub(crate) const fn tail(&self) -> u32 {
        self.tail
    }

    pub(crate) const fn length(&self) -> u32 {
        self.length
    }
}

impl Links {
    pub(crate) fn new(capacity: u32) -> Self {
        Self { links: vec![Link { previous: NONE, next: NONE }; capacity as usize].into_boxed_slice() }
    }

    /// The slot after `slot`, or `NONE`.
    pub(crate) fn next(&self, slot: u32) -> u32 {
        self.links[slot as usize].next
    }

    /// The slot before `slot`, or `NONE`.
    pub(crate) fn previous(&self, slot: u32) -> u32 {
        self.links[slot as usize].previous
    }

    pub(crate) fn push_back(&mut self, list: &mut List, slot: u32) {
        self.links[slot as usize] = Link { previous: list.tail, next: NONE };
        match list.tail {
            NONE => list.head = slot,
            tail => self.links[tail as usize].next = slot,
        }
        list.tail = slot;
        list.length += 1;
    }

    pub(crate) fn push_front(&mut self, list: &mut List, slot: u32) {
        self.links[slot as usize] = Link { previous: NONE, next: list.head };
        match list.head {
            NONE => list.tail = slot,
            head => self.links[head as usize].previous = slot,
        }
        list.head = slot;
        list.length += 1;
    }

    pub(crate) fn remove(&mut self, list: &mut List, slot: u32) {
        let Link { previous, next } = self.links[slot as usize];
        match previous {
            NONE => list.head = next,
            previous => self.links[previous as usize].next = next,
        }
        match next {
            NONE => list.tail = previous,
            next => self.links[next as usize].previous = previous,
        }
        list.length -= 1;
    }

    pub(crate) fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        let head = list.head;
        if head == NONE {
            return None;
        }
        self.remove(list, head);
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_behaves_like_a_deque(steps in proptest::collection::vec((0u8..4, 0u32..16), 1..200)) {
            let mut links = Links::new(16);
            let mut list = List::EMPTY;
            let mut model: VecDeque<u32> = VecDeque::new();
            for (step, slot) in steps {
                match step {
                    0 if !model.contains(&slot) => { links.push_back(&mut list, slot); model.push_back(slot); }
                    1 if !model.contains(&slot) => { links.push_front(&mut list, slot); model.push_front(slot); }
                    2 if model.contains(&slot) => { links.remove(&mut list, slot); model.retain(|&other| other != slot); }
                    3 => prop_assert_eq!(links.pop_front(&mut list), model.pop_front()),
                    _ => {}
                }
                let mut walked = alloc::vec::Vec::new();
                let mut at = list.head();
                while at != NONE { walked.push(at); at = links.next(at); }
                prop_assert_eq!(walked, model.iter().copied().collect::<alloc::vec::Vec<_>>());
                prop_assert_eq!(list.length() as usize, model.len());
                prop_assert_eq!(list.is_empty(), model.is_empty());
            }
        }
    }
}
