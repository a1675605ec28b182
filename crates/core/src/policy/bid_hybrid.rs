//! BID-Hybrid: writes of light processes go to a fast device, so that they do not break the bulks on the disk.
//!
//! Bound: as `bid-hdd` on the disk. On the fast device, for each earlier request of its own process, a request waits for at
//! most one request of each other process.
//!
//! Example: the threshold is 64 KiB. A process that has staged five writes of 4 KiB has a packing fraction of 8 sectors, so
//! they go to the fast device. A process that has staged 2 MiB in four requests has 1024, so they stay.

use alloc::boxed::Box;
use alloc::vec;

use super::bid_hdd::{self, BidHdd, within_staging};
use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::elevator::{Elevator, Next, Route};
use crate::part::Streams;
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::structure::{Extents, Links, List, NONE};
use crate::{Nanos, Operation, Reason, Request, SECTOR_BYTES, Tier, Waiting};

/// The most extents in the map; each takes about 60 bytes.
const EXTENTS_MAX: u32 = 1 << 16;

pub(crate) static ROW: Row<()> = Row {
    name: "bid-hybrid",
    summary: "bid-hdd, with the writes of light processes on a fast device",
    source: "Mishra and Somani, Host managed contention avoidance storage solutions for Big Data, Algorithm 3",
    doc: include_str!("bid-hybrid.md"),
    bound: Bound {
        doc: "on the disk as `bid-hdd`; on the fast device, for each earlier request of its own process a request waits for at most one \
of each other process",
        wait: Wait::Within(within_staging),
    },
    reads: Reads::NOTHING,
    linux: None,
    parameters: &[
        bid_hdd::PARAMETERS[0],
        bid_hdd::PARAMETERS[1],
        bid_hdd::PARAMETERS[2],
        bid_hdd::PARAMETERS[3],
        bid_hdd::PARAMETERS[4],
        bid_hdd::PARAMETERS[5],
        bid_hdd::PARAMETERS[6],
        Parameter::bytes(
            "packing-threshold",
            64 << 10,
            0,
            1 << 30,
            "mean size of writes below which they go to the fast device",
        ),
    ],
    form: (),
};

#[derive(Clone, Debug)]
pub(crate) struct BidHybrid {
    disk: BidHdd,
    /// The extents on the fast device, in whole blocks.
    placed: Extents,
    block_sectors: u64,
    threshold_sectors: u64,
    is_fast: Box<[bool]>,
    links: Links,
    streams: Streams,
    /// Requests that wait for the fast device, by stream number.
    queues: Box<[List]>,
    stream_of: Box<[u32]>,
    turn: List,
    turn_links: Links,
    /// Submitted requests that wait for the fast device.
    requests: u32,
}

impl BidHybrid {
    pub(crate) fn new(limits: &QueueLimits, (): (), settings: &Settings) -> Self {
        let slots = limits.slots();
        // Requests outside of the queue may be of as many processes again as those in it.
        let of_processes = limits.requests_per_direction.saturating_mul(2);
        let of_processes = QueueLimits { requests_per_direction: of_processes, ..*limits };
        let places = Streams::places(&of_processes, 0);
        let extents_max = if limits.fast_sectors == 0 { 0 } else { EXTENTS_MAX };
        let [.., threshold_bytes] = settings.values::<8>();
        Self {
            disk: BidHdd::new(limits, (), settings),
            placed: Extents::new(extents_max, limits.fast_sectors),
            block_sectors: u64::from(limits.fast_block_sectors.max(1)),
            threshold_sectors: threshold_bytes / SECTOR_BYTES,
            is_fast: vec![false; slots as usize].into_boxed_slice(),
            links: Links::new(slots),
            streams: Streams::new(&of_processes, 0),
            queues: vec![List::EMPTY; places as usize].into_boxed_slice(),
            stream_of: vec![NONE; slots as usize].into_boxed_slice(),
            turn: List::EMPTY,
            turn_links: Links::new(places),
            requests: 0,
        }
    }

    /// Rounds a range outwards to whole blocks.
    fn whole_blocks(&self, start: u64, end: u64) -> (u64, u64) {
        (start - start % self.block_sectors, end.div_ceil(self.block_sectors).saturating_mul(self.block_sectors))
    }

    /// Queues a request for the fast device.
    fn push_fast(&mut self, queue: &RequestQueue, slot: u32) {
        let entry = queue.entry(slot);
        let queues = &self.queues;
        let found = self.streams.find(entry.stream);
        let is_needed = |number: u32| !queues[number as usize].is_empty();
        let number = found.unwrap_or_else(|| self.streams.add(entry.stream, is_needed));
        if self.queues[number as usize].is_empty() {
            self.turn_links.push_back(&mut self.turn, number);
        }
        self.links.push_back(&mut self.queues[number as usize], slot);
        self.is_fast[slot as usize] = true;
        self.stream_of[slot as usize] = number;
        self.requests += entry.members;
    }

    fn pop_fast(&mut self, queue: &RequestQueue) -> Option<u32> {
        let number = self.turn_links.pop_front(&mut self.turn)?;
        let slot = self.links.pop_front(&mut self.queues[number as usize])?;
        if !self.queues[number as usize].is_empty() {
            self.turn_links.push_back(&mut self.turn, number);
        }
        self.requests -= queue.entry(slot).members;
        self.is_fast[slot as usize] = false;
        Some(slot)
    }

    /// Runs Algorithm 3 on every queue that has been marked since the last call.
    fn place(&mut self, queue: &RequestQueue) {
        while let Some(number) = self.disk.next_unprofiled() {
            let (mut writes, mut sectors) = (0, 0);
            let mut slot = self.disk.first_staged(number);
            while slot != NONE {
                let entry = queue.entry(slot);
                if entry.operation == Operation::Write {
                    writes += 1;
                    sectors += u64::from(entry.sectors);
                }
                slot = self.disk.next_staged(slot);
            }
            // This is sectors / writes < threshold, without a division.
            if sectors >= self.threshold_sectors.saturating_mul(writes) {
                continue;
            }
            let mut slot = self.disk.first_staged(number);
            while slot != NONE {
                let following = self.disk.next_staged(slot);
                let entry = queue.entry(slot);
                let (start, end) = self.whole_blocks(entry.sector, entry.sector_end());
                if entry.operation == Operation::Write && self.placed.insert(start, end) {
                    self.disk.remove(queue, slot);
                    self.push_fast(queue, slot);
                }
                slot = following;
            }
        }
    }
}

impl Elevator for BidHybrid {
    const PLACES: bool = true;

    fn requests_max(&self, limits: &QueueLimits) -> u32 {
        self.disk.requests_max(limits)
    }

    fn has_room(&self, queue: &RequestQueue, request: &Request) -> bool {
        self.disk.has_room(queue, request)
    }

    fn route(&self, request: &Request) -> Route {
        if request.operation == Operation::Discard || request.sectors == 0 {
            return Route::To(Tier::Base);
        }
        let (start, end) = self.whole_blocks(request.sector, request.sector_end());
        let prefix = self.placed.prefix(start, end);
        if prefix.sectors < end - start {
            // The prefix ends at a block boundary, and so within the request.
            Route::Split((start + prefix.sectors - request.sector) as u32)
        } else if prefix.is_in {
            Route::To(Tier::Fast)
        } else {
            Route::To(Tier::Base)
        }
    }

    fn place(&mut self, start: u64, end: u64) -> bool {
        let (start, end) = self.whole_blocks(start, end);
        self.placed.insert(start, end)
    }

    fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let request = queue.entry(slot).request();
        if request.operation == Operation::Discard {
            // An extent that cannot be cut in two stays, and so does a block that is only partly discarded.
            let first = request.sector.div_ceil(self.block_sectors).saturating_mul(self.block_sectors);
            let end = request.sector_end();
            self.placed.remove(first, end - end % self.block_sectors);
        }
        if self.route(&request) == Route::To(Tier::Fast) {
            self.push_fast(queue, slot);
        } else {
            self.disk.insert(queue, now, slot);
        }
    }

    fn request_merged(&mut self, queue: &RequestQueue, now: Nanos, slot: u32, edge: Edge) {
        self.disk.request_merged(queue, now, slot, edge);
    }

    fn requests_merged(&mut self, queue: &RequestQueue, slot: u32, members: u32) {
        self.disk.requests_merged(queue, slot, members);
    }

    fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        if !core::mem::take(&mut self.is_fast[slot as usize]) {
            self.disk.remove(queue, slot);
            return;
        }
        let number = self.stream_of[slot as usize];
        self.links.remove(&mut self.queues[number as usize], slot);
        self.requests -= queue.entry(slot).members;
        if self.queues[number as usize].is_empty() {
            self.turn_links.remove(&mut self.turn, number);
        }
    }

    /// A request that waits for the fast device, or belongs there, is not merged.
    fn may_merge(&self, queue: &RequestQueue, slot: u32, request: &Request) -> bool {
        !self.is_fast[slot as usize]
            && self.route(request) == Route::To(Tier::Base)
            && self.disk.may_merge(queue, slot, request)
    }

    fn advance(&mut self, queue: &RequestQueue, now: Nanos) {
        self.disk.advance(queue, now);
        self.place(queue);
    }

    fn next(&mut self, queue: &RequestQueue, now: Nanos) -> Next {
        self.disk.mark_at(now);
        self.place(queue);
        self.disk.next(queue, now)
    }

    fn next_fast(&mut self, queue: &RequestQueue, now: Nanos) -> Option<u32> {
        self.disk.mark_at(now);
        self.place(queue);
        self.pop_fast(queue)
    }

    fn due(&self) -> Nanos {
        self.disk.due()
    }

    fn waiting(&self, queued: u32) -> Waiting {
        let mut waiting = self.disk.waiting(queued - self.requests);
        waiting.0[Reason::DeviceFull as usize] += self.requests;
        waiting
    }
}
