//! Observers of a run, and the checker that holds every run to its invariants.

use std::collections::BTreeMap;

use ioweir_core::{Dispatch, Nanos, Operation, QueueLimits, Tag};

use super::LayerTimes;
use ioweir_device::Service;
use ioweir_trace::Record;

/// An observer of a run under a scheduler `S`. Calls come in the order of simulated time.
pub trait Observer<S> {
    /// Whether it does anything with the calls; work that only serves them is left out otherwise.
    const WATCHES: bool = true;

    /// The calls that follow are of the device of this number, in a machine that may have several. Arrivals and answers are of
    /// the machine.
    fn device(&mut self, _device: usize) {}
    /// The record with this number (from zero) has arrived.
    fn arrived(&mut self, _number: u64, _record: &Record, _arrival: Nanos) {}
    /// The scheduler has taken a sub-request of it.
    fn submitted(&mut self, _number: u64, _tag: Tag, _sector: u64, _sectors: u32) {}
    /// A dispatch goes to the device.
    fn dispatched(&mut self, _now: Nanos, _dispatch: &Dispatch, _members: &[Tag]) {}
    /// The device knows when it will serve a dispatch, and how: at once; if it chooses among its commands, when it
    /// begins.
    fn started(&mut self, _now: Nanos, _dispatch: &Dispatch, _service: &Service) {}
    /// The device has completed a dispatch.
    fn completed(&mut self, _now: Nanos, _dispatch: &Dispatch) {}
    /// The scheduler has refused a sub-request of it, its client being at its limit; with the last one the record ends.
    fn refused(&mut self, _number: u64, _sectors: u32, _last: bool, _now: Nanos) {}
    /// A machine answers the record from its write log or from its memory; it goes to no device.
    fn without_device(&mut self, _number: u64) {}
    /// The record of a machine misses again in memory: it goes to its device once more, for as much data. So far, it took this time by layer.
    fn missed_again(&mut self, _number: u64, _times: &LayerTimes) {}
    /// A machine has answered the record, which took this time by layer. A call to [`Self::finished`] follows.
    fn answered(&mut self, _number: u64, _now: Nanos, _times: &LayerTimes) {}
    /// The record is done.
    fn finished(&mut self, _number: u64, _now: Nanos) {}
    /// All that happens at this moment has happened.
    fn settled(&mut self, _now: Nanos, _scheduler: &S) {}
}

/// The observer that does nothing and costs nothing.
pub struct Unobserved;

impl<S> Observer<S> for Unobserved {
    const WATCHES: bool = false;
}

/// A sub-request of a record that the scheduler holds.
#[derive(Clone, Copy, Debug)]
struct SubRequest {
    number: u64,
    sector: u64,
    sectors: u32,
}

/// Checks the invariants that hold for every scheduler, device and load; panics if one does not.
///
/// Every record is served exactly once, over exactly its extent; a dispatch is exactly the union of its members, of one
/// operation, contiguous and within the largest size; time never goes back; a device holds at most its queue depth; and the
/// time that sub-requests wait plus the time in the device is the sum of what each of them took. In a machine, the times of a
/// request by layer add up to its latency.
pub struct Checker {
    request_sectors_max: u32,
    /// The device of the calls that follow.
    device: usize,
    /// Dispatches that each tier of a device may hold, and holds.
    depth: [u32; 2],
    in_flight: BTreeMap<(usize, usize), u32>,
    now: Nanos,
    live: BTreeMap<u64, Record>,
    unserved_sectors: BTreeMap<u64, u64>,
    sub_requests: BTreeMap<(usize, usize), (SubRequest, Nanos)>,
    submitted_at: BTreeMap<u64, Nanos>,
    dispatched_members: BTreeMap<(usize, usize), Vec<Tag>>,
    /// Sum over sub-requests of the time from arrival to completion.
    total_nanos: u128,
    device_nanos: u128,
    dispatched_at: BTreeMap<(usize, usize), Nanos>,
    finished: u64,
    refused: u64,
    arrived: u64,
}

impl Checker {
    /// A checker for a queue of these limits; a fast device has the usual depth.
    #[must_use]
    pub fn new(request_sectors_max: u32, depth: u32) -> Self {
        Self {
            request_sectors_max,
            depth: [depth, QueueLimits::DEFAULT.fast_depth],
            device: 0,
            in_flight: BTreeMap::new(),
            now: Nanos::ZERO,
            live: BTreeMap::new(),
            unserved_sectors: BTreeMap::new(),
            sub_requests: BTreeMap::new(),
            submitted_at: BTreeMap::new(),
            dispatched_members: BTreeMap::new(),
            total_nanos: 0,
            device_nanos: 0,
            dispatched_at: BTreeMap::new(),
            finished: 0,
            refused: 0,
            arrived: 0,
        }
    }

    /// Checks the sums of a finished run against its outcome.
    ///
    /// # Panics
    /// If a sum differs.
    pub fn conclude(&self, outcome: &super::Outcome) {
        self.conclude_served(outcome.all.requests);
        let waited: u128 = outcome.wait_nanos.iter().sum();
        assert_eq!(waited + self.device_nanos, self.total_nanos, "waiting and service add up to latency");
        assert!(outcome.busy <= outcome.completion, "the device works no longer than the run takes");
    }

    /// The part of [`Checker::conclude`] that needs no more than the number of records that were done.
    ///
    /// # Panics
    /// Where something does not hold.
    pub fn conclude_served(&self, requests: u64) {
        assert!(self.live.is_empty() && self.sub_requests.is_empty(), "{} records were never served", self.live.len());
        assert_eq!(self.finished + self.refused, self.arrived, "every record is served once, or refused");
        assert_eq!(self.finished, requests, "every record is counted once");
    }

    fn key(&self, tag: Tag) -> (usize, usize) {
        (self.device, tag.index())
    }

    fn step_to(&mut self, now: Nanos) {
        assert!(now >= self.now, "time goes back from {} to {now}", self.now);
        self.now = now;
    }
}

impl<S> Observer<S> for Checker {
    fn device(&mut self, device: usize) {
        self.device = device;
    }

    fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        assert_eq!(number, self.arrived, "records arrive in order");
        self.arrived += 1;
        self.live.insert(number, *record);
        self.unserved_sectors.insert(number, super::records::sectors_of(record));
        self.submitted_at.insert(number, arrival);
    }

    fn submitted(&mut self, number: u64, tag: Tag, sector: u64, sectors: u32) {
        let arrival = self.submitted_at[&number];
        let before = self.sub_requests.insert(self.key(tag), (SubRequest { number, sector, sectors }, arrival));
        assert!(before.is_none(), "a tag is given to one sub-request at a time");
    }

    fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, members: &[Tag]) {
        self.step_to(now);
        let tier = dispatch.tier as usize;
        let in_flight = self.in_flight.entry((self.device, tier)).or_default();
        *in_flight += 1;
        assert!(*in_flight <= self.depth[tier], "a device holds no more than its depth");
        assert_eq!(members.len(), dispatch.members as usize, "a dispatch knows its members");
        let mut extents: Vec<SubRequest> = members.iter().map(|tag| self.sub_requests[&self.key(*tag)].0).collect();
        extents.sort_unstable_by_key(|part| part.sector);
        let mut end = dispatch.sector;
        for part in &extents {
            let record = &self.live[&part.number];
            assert_eq!(record.operation, dispatch.operation, "merging does not cross operations");
            assert!(part.sector == end, "a dispatch is its members, end to end");
            end += u64::from(part.sectors);
        }
        assert_eq!(end, dispatch.sector + u64::from(dispatch.sectors), "a dispatch covers its members and no more");
        let is_capped = dispatch.operation != Operation::Discard;
        assert!(!is_capped || dispatch.sectors <= self.request_sectors_max, "a dispatch stays within the largest size");
        let carries_flush = members.iter().any(|tag| {
            let flags = self.live[&self.sub_requests[&self.key(*tag)].0.number].flags;
            flags.has(ioweir_core::Flags::FUA.with(ioweir_core::Flags::PREFLUSH))
        });
        assert!(members.len() == 1 || !carries_flush, "nothing merges with a flush");
        self.dispatched_members.insert(self.key(dispatch.tag), members.to_vec());
        self.dispatched_at.insert(self.key(dispatch.tag), now);
    }

    fn started(&mut self, now: Nanos, dispatch: &Dispatch, service: &Service) {
        self.step_to(now);
        assert!(self.dispatched_at.contains_key(&self.key(dispatch.tag)), "a device begins what it was given");
        assert!(service.finish >= now, "a device does not finish before it starts");
    }

    fn completed(&mut self, now: Nanos, dispatch: &Dispatch) {
        self.step_to(now);
        let key = self.key(dispatch.tag);
        *self.in_flight.get_mut(&(self.device, dispatch.tier as usize)).expect("dispatched before") -= 1;
        let members = self.dispatched_members.remove(&key).expect("completed once");
        let dispatched_at = self.dispatched_at.remove(&key).expect("dispatched before");
        for tag in members {
            let (part, arrival) = self.sub_requests.remove(&self.key(tag)).expect("a sub-request is completed once");
            self.total_nanos += u128::from(now.since(arrival).0);
            self.device_nanos += u128::from(now.since(dispatched_at).0);
            *self.unserved_sectors.get_mut(&part.number).expect("alive") -= u64::from(part.sectors);
        }
    }

    fn refused(&mut self, number: u64, sectors: u32, last: bool, now: Nanos) {
        self.step_to(now);
        *self.unserved_sectors.get_mut(&number).expect("alive") -= u64::from(sectors);
        if last {
            self.refused += 1;
            self.live.remove(&number);
            self.unserved_sectors.remove(&number);
            self.submitted_at.remove(&number);
        }
    }

    fn without_device(&mut self, number: u64) {
        let sectors = self.unserved_sectors.insert(number, 0);
        let whole = super::records::sectors_of(&self.live[&number]);
        assert_eq!(sectors, Some(whole), "no device has served any of it");
    }

    fn missed_again(&mut self, number: u64, _times: &LayerTimes) {
        let whole = super::records::sectors_of(&self.live[&number]);
        assert_eq!(self.unserved_sectors.insert(number, whole), Some(0), "the device has served what it was asked");
    }

    fn answered(&mut self, number: u64, now: Nanos, times: &LayerTimes) {
        let latency = now.since(self.submitted_at[&number]).0;
        assert_eq!(times.sum_nanos(), latency, "the times of all layers add up to the latency");
        assert!(times.background_nanos <= latency, "background work is a part of it");
    }

    fn finished(&mut self, number: u64, now: Nanos) {
        self.step_to(now);
        self.finished += 1;
        assert!(self.live.remove(&number).is_some(), "a record is finished once");
        assert_eq!(self.unserved_sectors.remove(&number), Some(0), "a record is served over all of its extent");
        self.submitted_at.remove(&number);
    }
}
