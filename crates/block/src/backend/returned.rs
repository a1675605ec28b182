//! The list in which threads return completed items to the engine, with a descriptor that is readable while the list is not
//! empty.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// Items that were returned and not taken yet.
#[derive(Debug)]
pub(super) struct Returned<T> {
    list: Mutex<Vec<T>>,
    wake: OwnedFd,
}

impl<T> Returned<T> {
    /// An empty list.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { list: Mutex::default(), wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)? })
    }

    /// Returns an item, from any thread. Only the first item of a list wakes the engine.
    pub(super) fn put(&self, item: T) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(item);
        if list.len() == 1 {
            // Written while the list is locked: if it were written after the list was taken, the descriptor would be
            // readable with an empty list. A full counter is readable, too.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Appends all items to `items`.
    pub(super) fn take(&self, items: &mut Vec<T>) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if !list.is_empty() {
            items.append(&mut list);
            // The first item of the list has written to it.
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
    }
}

impl<T> AsFd for Returned<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(returned: &Returned<u32>) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(returned, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready == 1)
    }

    #[test]
    fn the_descriptor_is_readable_exactly_while_results_wait() {
        let returned = Returned::new().expect("descriptors");
        let mut taken = Vec::new();
        for _ in 0..2 {
            assert!(!is_readable(&returned));
            returned.put(1);
            returned.put(2);
            assert!(is_readable(&returned));
            returned.take(&mut taken);
        }
        returned.take(&mut taken);
        assert_eq!((taken, is_readable(&returned)), (vec![1, 2, 1, 2], false));
    }
}
