//! A table of streams with a fixed capacity, for what an elevator remembers of each.
//!
//! A stream keeps its number while the elevator needs it. The number of a stream that is no longer needed goes to a new one,
//! and what was remembered of the old one is forgotten.

use alloc::boxed::Box;
use alloc::vec;

use crate::StreamId;
use crate::queue::QueueLimits;
use crate::structure::Index;

#[derive(Clone, Debug)]
pub(crate) struct Streams {
    by_id: Index,
    ids: Box<[StreamId]>,
    /// The lowest number that a stream gets.
    first: u32,
    /// Numbers from here on have never been used.
    unused: u32,
    /// Where the search for a free number continues.
    hand: u32,
}

impl Streams {
    /// The number of streams that are remembered beyond those with requests.
    const IDLE: u32 = 254;

    /// The length of the table; its first `reserved` numbers are not for streams.
    pub(crate) const fn places(limits: &QueueLimits, reserved: u32) -> u32 {
        // Two more than can be needed at the same time: the stream being served may have no requests, and the new one needs
        // a number.
        limits.requests().saturating_add(2 + Self::IDLE + reserved)
    }

    pub(crate) fn new(limits: &QueueLimits, reserved: u32) -> Self {
        let places = Self::places(limits, reserved);
        Self {
            by_id: Index::new(places),
            ids: vec![StreamId(0); places as usize].into_boxed_slice(),
            first: reserved,
            unused: reserved,
            hand: reserved,
        }
    }

    pub(crate) fn find(&self, id: StreamId) -> Option<u32> {
        self.by_id.find(u64::from(id.0), |_| true)
    }

    /// The stream that has this number, which is in use.
    pub(crate) fn id(&self, number: u32) -> StreamId {
        self.ids[number as usize]
    }

    /// Gives a stream a number that was never used, or that of a stream that is no longer needed.
    pub(crate) fn add(&mut self, id: StreamId, is_needed: impl Fn(u32) -> bool) -> u32 {
        let places = self.ids.len() as u32; // made from a u32
        let number = if self.unused < places {
            self.unused += 1;
            self.unused - 1
        } else {
            // There are more numbers than streams that can be needed at the same time, so the search ends.
            loop {
                self.hand = if self.hand + 1 < places { self.hand + 1 } else { self.first };
                if !is_needed(self.hand) {
                    break;
                }
            }
            self.by_id.remove(u64::from(self.ids[self.hand as usize].0), self.hand);
            self.hand
        };
        self.ids[number as usize] = id;
        self.by_id.insert(u64::from(id.0), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_stream_takes_the_number_of_unneeded_one() {
        let limits = QueueLimits::with_requests(1);
        let mut streams = Streams::new(&limits, 1);
        let places = Streams::places(&limits, 1);
        let numbers: alloc::vec::Vec<u32> = (1..places).map(|id| streams.add(StreamId(id), |_| true)).collect();
        assert_eq!(numbers, (1..places).collect::<alloc::vec::Vec<_>>());
        let number = streams.add(StreamId(9_999), |number| number != 7);
        assert_eq!(number, 7);
        assert_eq!(streams.find(StreamId(9_999)), Some(7));
        assert_eq!(streams.find(StreamId(7)), None);
        assert_eq!(streams.find(StreamId(8)), Some(8));
    }
}
