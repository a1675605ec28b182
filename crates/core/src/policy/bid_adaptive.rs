//! bid-adaptive draft
use alloc::boxed::Box;
use alloc::vec;

use super::{Parameter, Row, Settings, Unit};
use crate::elevator::{Elevator, Next};
use crate::part::Sides;
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::structure::NONE;
use crate::{Direction, Nanos, Reason, Waiting};

const fn count(name: &'static str, default: u64) -> Parameter {
    Parameter { name, unit: Unit::Count, default, min: 0, max: 1 << 40, help: "x" }
}

static PARAMETERS: &[Parameter] = &[
    count("bulk", 64),
    count("age", 8),
    count("prior", 16384),
    count("window", 2048),
    count("near", 4096),
    count("tw", 5),
    count("queued", 50),
    count("ratio", 33),
];

pub(crate) static ROW: Row<()> = Row {
    name: "bid-adaptive",
    summary: "bulks of one direction in sector order, the shorter one first",
    source: "ioweir",
    doc: "draft",
    linux: None,
    parameters: PARAMETERS,
    form: (),
};

#[derive(Clone, Debug)]
pub(crate) struct BidAdaptive {
    sides: Sides,
    weights: Box<[u64]>,
    born: Box<[u64]>,
    work: [u64; 2],
    recent: [u64; 2],
    samples: u64,
    bulks: [u64; 2],
    position: [u64; 2],
    head_sector: u64,
    direction: Direction,
    batched: u64,
    passed: [u64; 2],
    p: [u64; 8],
}

impl BidAdaptive {
    pub(crate) fn new(limits: &QueueLimits, (): (), settings: &Settings) -> Self {
        let slots = limits.slots() as usize;
        Self {
            sides: Sides::new(limits),
            weights: vec![0; slots].into_boxed_slice(),
            born: vec![0; slots].into_boxed_slice(),
            work: [0; 2],
            recent: [0, settings.values::<8>()[2]],
            samples: 0,
            bulks: [0; 2],
            position: [0; 2],
            head_sector: 0,
            direction: Direction::Read,
            batched: 0,
            passed: [0; 2],
            p: settings.values(),
        }
    }

    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.p = settings.values();
    }

    fn weigh(&mut self, side: usize, slot: u32, weight: u64) {
        if weight > 0 {
            self.recent[side] += weight.saturating_sub(self.weights[slot as usize]);
        }
        let old = core::mem::replace(&mut self.weights[slot as usize], weight);
        self.work[side] = self.work[side] + weight - old;
    }

    fn forget(&mut self, queue: &RequestQueue, slot: u32) {
        let entry = queue.entry(slot);
        let side = entry.operation.direction() as usize;
        self.weigh(side, slot, 0);
        self.sides.remove(side, slot, entry.members);
    }

    fn onward(&self, side: usize) -> Option<u32> {
        self.sides.at_or_after(side, self.position[side])
    }

    fn choose_side(&mut self) -> Option<usize> {
        let [reads, writes] = [0, 1].map(|side| !self.sides.is_empty(side));
        if !reads || !writes {
            self.passed = [0; 2];
            return if reads { Some(0) } else if writes { Some(1) } else { None };
        }
        let ratio = self.p[7]; let passes = 4;
        let shorter = usize::from(self.recent[1] * 100 < self.recent[0] * ratio && self.work[1] * 100 < self.work[0] * self.p[6]);
        let side = if self.passed[1 - shorter] >= passes { 1 - shorter } else { shorter };
        self.passed[side] = 0;
        self.passed[1 - side] += 1;
        Some(side)
    }

    fn along(&self, queue: &RequestQueue, side: usize, own: u32) -> Option<u32> {
        let [_, _, _, _, near, tw, _, _] = self.p;
        let other = 1 - side;
        let mode = if other == 1 { tw } else { 0 };
        let allowed = match mode % 4 { 0 => false, 1 => self.recent[other] * 100 < self.recent[side] * self.p[7], 3 => self.work[other] < self.work[side] && self.recent[other] * 100 < self.recent[side] * self.p[7], _ => true };
        let next = queue.entry(own).sector;
        if !allowed || next < self.head_sector + near {
            return None;
        }
        let found = self.sides.at_or_after(other, self.head_sector)?;
        (queue.entry(found).sector < next).then_some(found)
    }

    fn choose(&mut self, queue: &RequestQueue) -> Option<u32> {
        let [bulk, _, _, _, near, ..] = self.p; let age = self.p[1];
        let side = self.direction as usize;
        if self.batched < 2 * bulk
            && let Some(own) = self.onward(side)
            && (self.batched < bulk || queue.entry(own).sector < self.position[side] + near)
        {
            return Some(self.along(queue, side, own).unwrap_or(own));
        }
        let side = self.choose_side()?;
        self.direction = if side == 0 { Direction::Read } else { Direction::Write };
        self.batched = 0;
        self.bulks[side] += 1;
        let oldest = self.sides.oldest(side);
        let overdue = (oldest != NONE && self.bulks[side] - self.born[oldest as usize] > age).then_some(oldest);
        overdue.or_else(|| self.onward(side)).or_else(|| if self.p[5] >= 4 && oldest != NONE { Some(oldest) } else { self.sides.first(side) })
    }
}

impl Elevator for BidAdaptive {
    fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
        let side = entry.operation.direction() as usize;
        self.sides.insert(side, now, slot, entry);
        self.born[slot as usize] = self.bulks[side];
        self.samples += 1;
        if self.samples > self.p[3] {
            self.samples = self.p[3] / 2;
            self.recent = self.recent.map(|work| work / 2);
        }
        self.weigh(side, slot, 1024 + u64::from(entry.sectors));
    }

    fn grown(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, edge: Edge) {
        let entry = queue.entry(slot);
        let side = entry.operation.direction() as usize;
        self.sides.grown(side, slot, entry, edge);
        self.weigh(side, slot, 1024 + u64::from(entry.sectors));
    }

    fn absorbed(&mut self, queue: &RequestQueue, slot: u32, members: u32) {
        let entry = queue.entry(slot);
        let side = entry.operation.direction() as usize;
        self.sides.absorbed(side, members);
        self.weigh(side, slot, 1024 + u64::from(entry.sectors));
    }

    fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        self.forget(queue, slot);
    }

    fn next(&mut self, queue: &RequestQueue, _now: Nanos) -> Next {
        let Some(slot) = self.choose(queue) else {
            return Next::WaitUntil(Nanos::NEVER, Reason::Ordering);
        };
        let entry = queue.entry(slot);
        let side = entry.operation.direction() as usize;
        self.batched += 1;
        self.head_sector = entry.sector_end();
        self.position[side] = entry.sector_end();
        self.forget(queue, slot);
        Next::Take(slot)
    }

    fn waiting(&self, queued: u32) -> Waiting {
        self.sides.waiting(self.direction as usize, queued)
    }
}
