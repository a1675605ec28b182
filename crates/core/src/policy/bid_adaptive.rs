//! Serves reads in bulks and writes in bulks, in an order and at lengths that follow from the load.
//!
//! A decision is made only where the head has to seek anyway: a bulk whose next request is near continues, up to twice its
//! length. The work of a request is its sectors plus a seek.
//!
//! - Writes are *light* if they recently made up less than `light` percent of the reads' work, and less than half of the
//!   reads' work is queued for them. Light writes are served first, all at once: that costs reads little, and waiting costs
//!   writes much.
//! - Otherwise reads go first, and pass waiting writes `passes` times, each time with a whole bulk: a process waits for a
//!   read, and each write costs less the more of them gather.
//! - If nearly all requests are small, seeks are most of the work, and two sweeps cost twice as much as one. Reads and
//!   writes then go up together, as with C-LOOK, and a bulk is only the stretch between two decisions.
//!
//! Bound: a bulk has at most `2 * bulk` requests, and a direction with waiting requests is passed over at most `passes`
//! times in a row. A request is overdue after `age` bulks of its direction have begun; while the oldest of a direction is
//! overdue, each bulk of that direction begins with it. So with U requests in a direction, each of them is served within
//! `(age + U) * (passes + 1) * 2 * bulk` dispatches, whatever arrives meanwhile. (When two requests merge, the members of
//! one continue in the position of the other.)
//!
//! Example: `bulk` is 2; there are four reads, r1 to r4 upwards and far apart, and a write w above them. If there were few
//! writes so far, the order is r1 r2 w r3 r4; if there was as much work in writes as in reads, it is r1 r2 r3 r4 w.

use alloc::boxed::Box;
use alloc::vec;

use super::{Parameter, Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::part::Sides;
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::{Direction, Nanos, Reason, Waiting};

const READ: usize = Direction::Read as usize;
const WRITE: usize = Direction::Write as usize;

/// The cost of a seek, in sectors that could be transferred in that time; at a smaller gap, no decision is made.
const SEEK_SECTORS: u64 = 1024;

/// After this many requests, the measured load counts half.
const MEMORY_REQUESTS: u64 = 1024;

/// Requests of at most this many sectors are small: the seek takes longer than the transfer.
const SMALL_SECTORS: u32 = 64;

/// Work of writes assumed at the start, so that the first few requests do not make writes light.
const PRIOR_WORK: u64 = 8 * SEEK_SECTORS;

static PARAMETERS: &[Parameter] = &[
    Parameter::count("bulk", 80, 1, 1 << 20, "requests of a bulk, after which the next one is chosen at the next seek"),
    Parameter::count("passes", 4, 1, 1 << 20, "bulks of the other direction that may pass waiting requests"),
    Parameter::count("age", 16, 1, 1 << 20, "bulks of its direction after which a request is overdue"),
    Parameter::count("light", 33, 0, 10_000, "percent of the reads' recent work below which writes go first"),
];

pub(crate) static ROW: Row<()> = Row {
    name: "bid-adaptive",
    summary: "bulks of reads and of writes, whose order and turns follow from the load",
    source: "this project; bulks after Mishra and Somani, Host managed contention avoidance storage solutions for Big Data",
    doc: "Requests are gathered by direction and leave in bulks of `bulk` requests, upward by sector, each direction from its last \
position. The direction of the next bulk is decided where the head has to seek anyhow. Writes that were less than `light` \
percent of the reads' work of the last one to two thousand requests, and have less than half of it queued, go first: a \
journal's few writes cost readers little. Otherwise reads go first, and pass waiting writes at most `passes` times: then \
bulky writes gather. If more than three in four of the requests served recently had at most 64 sectors, both directions go \
up together, as with C-LOOK, and a bulk is the stretch between two decisions. A request that has seen `age` bulks of its \
direction begin is served at the beginning of the next. With U requests queued in a direction, each is served within \
(`age` + U) x (`passes` + 1) x 2 x `bulk` dispatches. In, of BID-HDD: bulks in sector order, reads that do not wait for \
bulky writes, a bound by age. Left out: queues for each process, which cost seeks if processes share files; timers; idling \
for a request that may come. Aim: completion within 2 % of the best other scheduler at every load, and mean latencies of \
figures 18 and 19 within 5 % of the best Linux scheduler. Measured by `experiments/bid/adaptive-cells`, on the `hdd` device: \
x10, x50, closed:2 and closed:32, queues of 128 and 256, six Hadoop jobs on two disks and an OLTP server: all 104 completion \
times hold, and all latencies of the jobs at x50. (With other seeds the 34 reads of the text writer on the second disk take up \
to 1.16 at x50.) Not within it: `sptf`, which knows the rotational positions and is up to 13 % faster; and some latencies at \
the other loads, where one direction is faster by making the other slower. Those are, at most: reads in closed:2, sort and \
terasort, 1.51 of the best (the anticipatory scheduler idles for them, and takes 5 to 6 % longer), reads in closed:32 1.29, \
writes in closed:32 1.26, both sort; writes of word count in x10 1.23. `passes` moves along that edge: in sort at closed:32 \
reads and writes are 1.36 and 0.99 of the best with 1, 1.01 and 1.17 with 2, 0.88 and 1.26 with 4. The purpose of each part: \
with `light=0` the writes of word count take 2.70 of the best at x50, with `passes=2` the reads of sort 1.17. The defaults \
were chosen on these traces, on a plateau (`bulk` 64 to 112, `passes` 4 to 6, `light` 33 to 40 and `age` from 8 on change no \
verdict), but with `light=28` the writes of one job take 1.37: expect less elsewhere.",
    linux: None,
    parameters: PARAMETERS,
    form: (),
};

#[derive(Clone, Debug)]
pub(crate) struct BidAdaptive {
    sides: Sides,
    /// The work of each queued request.
    work_by_slot: Box<[u64]>,
    /// The number of bulks that its direction had begun when a request arrived.
    bulks_before: Box<[u64]>,
    /// Queued work, by direction.
    queued: [u64; 2],
    /// Work that arrived recently, by direction.
    recent: [u64; 2],
    /// Requests since `recent` was halved.
    recent_requests: u64,
    /// Requests served recently, and the number of small ones among them; halved with `recent`.
    recent_served: u64,
    recent_small: u64,
    /// Whether the running bulk takes both directions, and its position.
    together: bool,
    head: u64,
    /// Bulks begun so far.
    bulks: [u64; 2],
    /// Where a direction continues: the end of its last request.
    position: [u64; 2],
    /// The direction of the running bulk.
    side: usize,
    /// Requests served in the running bulk; none is running at first.
    served: u64,
    /// Bulks of the other direction since the last one of this direction.
    passed: [u64; 2],
    bulk: u64,
    passes: u64,
    age: u64,
    light_percent: u64,
}

impl BidAdaptive {
    pub(crate) fn new(limits: &QueueLimits, (): (), settings: &Settings) -> Self {
        let slots = limits.slots() as usize;
        let [bulk, passes, age, light_percent] = settings.values();
        Self {
            sides: Sides::new(limits, [Nanos::NEVER; 2]),
            work_by_slot: vec![0; slots].into_boxed_slice(),
            bulks_before: vec![0; slots].into_boxed_slice(),
            queued: [0; 2],
            recent: [0, PRIOR_WORK],
            recent_requests: 0,
            recent_served: 0,
            recent_small: 0,
            together: false,
            head: 0,
            bulks: [0; 2],
            position: [0; 2],
            side: READ,
            served: u64::MAX,
            passed: [0; 2],
            bulk,
            passes,
            age,
            light_percent,
        }
    }

    /// Sets the work of a queued request.
    fn weigh(&mut self, side: usize, slot: u32, work: u64) {
        let before = core::mem::replace(&mut self.work_by_slot[slot as usize], work);
        self.queued[side] = self.queued[side] + work - before;
    }

    fn forget(&mut self, queue: &RequestQueue, slot: u32) {
        self.weigh(self.sides.side(queue.entry(slot)), slot, 0);
        self.sides.remove(queue, slot);
    }

    /// Whether writes have been little work recently, and are now: a burst shows in the queue before it shows in the mean.
    fn writes_are_light(&self) -> bool {
        self.recent[WRITE] * 100 < self.recent[READ] * self.light_percent && 2 * self.queued[WRITE] < self.queued[READ]
    }

    /// The request at which a direction continues.
    fn onward(&self, side: usize) -> Option<u32> {
        self.sides.at_or_after(side, self.position[side])
    }

    /// Whether more than three in four of the requests served recently were small.
    fn is_seek_bound(&self) -> bool {
        self.recent_served >= MEMORY_REQUESTS / 8 && 4 * self.recent_small > 3 * self.recent_served
    }

    /// The next request upward of either direction; at the end of the disk, the lowest.
    fn upward(&self, queue: &RequestQueue) -> Option<u32> {
        let lower = |left: Option<u32>, right: Option<u32>| {
            let ahead = left.into_iter().chain(right);
            ahead.min_by_key(|&slot| (queue.entry(slot).sector, queue.entry(slot).sequence))
        };
        lower(self.sides.at_or_after(READ, self.head), self.sides.at_or_after(WRITE, self.head))
            .or_else(|| lower(self.sides.first(READ), self.sides.first(WRITE)))
    }

    /// The next request of the running bulk, unless the bulk is over.
    fn continued(&self, queue: &RequestQueue) -> Option<u32> {
        if self.together {
            return self.upward(queue).filter(|_| self.served < 2 * self.bulk);
        }
        let own = self.onward(self.side).filter(|_| self.served < 2 * self.bulk)?;
        let is_near = queue.entry(own).sector < self.position[self.side].saturating_add(SEEK_SECTORS);
        (self.served < self.bulk || is_near).then_some(own)
    }

    /// The direction of the next bulk, with requests queued.
    fn choose_side(&mut self) -> usize {
        if self.sides.is_empty(READ) || self.sides.is_empty(WRITE) {
            self.passed = [0; 2];
            return if self.sides.is_empty(READ) { WRITE } else { READ };
        }
        let preferred = if self.writes_are_light() { WRITE } else { READ };
        let is_starved = self.passed[1 - preferred] >= self.passes;
        let side = if is_starved { 1 - preferred } else { preferred };
        self.passed[side] = 0;
        self.passed[1 - side] += 1;
        side
    }

    /// The other direction, if it has requests.
    fn other_side(&mut self) -> usize {
        self.passed = [0; 2];
        if self.sides.is_empty(1 - self.side) { self.side } else { 1 - self.side }
    }

    /// The first request of the next bulk: the oldest if that is overdue, otherwise the next from the direction's position.
    fn begin(&mut self, queue: &RequestQueue) -> Option<u32> {
        self.together = self.is_seek_bound();
        let side = if self.together { self.other_side() } else { self.choose_side() };
        self.side = side;
        self.served = 0;
        self.bulks[side] += 1;
        let oldest = self.sides.oldest(side);
        let bulks_before = self.bulks_before.get(oldest as usize)?;
        if self.bulks[side] - bulks_before > self.age {
            return Some(oldest);
        }
        if self.together {
            return self.upward(queue);
        }
        // At the end of the disk, reads go back to the lowest request, so that one sweep serves them all. Few streams write,
        // and each of them writes upwards: so for writes, the oldest stream goes first.
        let again = if side == READ { self.sides.first(side) } else { Some(oldest) };
        self.onward(side).or(again)
    }
}

impl Elevator for BidAdaptive {
    fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
        let side = entry.operation.direction() as usize;
        self.sides.insert(queue, now, slot);
        self.bulks_before[slot as usize] = self.bulks[side];
        let work = SEEK_SECTORS + u64::from(entry.sectors);
        self.weigh(side, slot, work);
        self.recent[side] += work;
        self.recent_requests += 1;
        if self.recent_requests == MEMORY_REQUESTS {
            self.recent_requests = 0;
            self.recent = self.recent.map(|work| work / 2);
            self.recent_served /= 2;
            self.recent_small /= 2;
        }
    }

    fn request_merged(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, edge: Edge) {
        let entry = queue.entry(slot);
        let side = entry.operation.direction() as usize;
        self.sides.request_merged(queue, slot, edge);
        let work = SEEK_SECTORS + u64::from(entry.sectors);
        self.recent[side] += work - self.work_by_slot[slot as usize];
        self.weigh(side, slot, work);
    }

    fn requests_merged(&mut self, queue: &RequestQueue, slot: u32, members: u32) {
        let entry = queue.entry(slot);
        let side = entry.operation.direction() as usize;
        self.sides.requests_merged(queue, slot, members);
        self.weigh(side, slot, SEEK_SECTORS + u64::from(entry.sectors));
    }

    fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        self.forget(queue, slot);
    }

    fn next(&mut self, queue: &RequestQueue, _now: Nanos) -> Next {
        let Some(slot) = self.continued(queue).or_else(|| self.begin(queue)) else {
            return Next::WaitUntil(Nanos::NEVER, Reason::Ordering);
        };
        let entry = queue.entry(slot);
        let side = entry.operation.direction() as usize;
        self.served += 1;
        self.position[side] = entry.sector_end();
        // The head is where a request begins, so that overlapping requests do not carry it past one that waits.
        self.head = entry.sector;
        self.recent_served += 1;
        self.recent_small += u64::from(entry.sectors <= SMALL_SECTORS);
        self.forget(queue, slot);
        Next::Take(slot)
    }

    fn waiting(&self, queued: u32) -> Waiting {
        if self.together {
            return Waiting::all(Reason::DeviceFull, queued);
        }
        self.sides.waiting(self.side, queued)
    }
}
