//! Validation of a device model: replays measured requests and compares response times.
//!
//! The measure is the *demerit* of Ruemmler and Wilkes (1994): the root mean square of the horizontal distance between the
//! two cumulative distributions, which is a time. It does not compare single requests, which no model of this kind can
//! predict, and errors of different requests can cancel in it: so it is also computed for each class of requests
//! ([`Classes`]).
//!
//! There are three kinds of load. In a *closed* one each request follows a think time after the completion of the one before,
//! in the model's time: the kind in which disks are measured. In another the requests *arrive* when they did, and wait for
//! one another in the model's own queue. Probes keep several requests in the device: there each is *released* by a completion
//! of the model, of the same number as was seen before it. So is each request of a sender with so many places ([`Load::of`]).

mod blend;
mod load;
mod pairs;
mod table;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioweir_core::{Dispatch, Flags, Nanos, Operation, Request, SECTOR_BYTES, StreamId};
use serde::Serialize;

use super::calibration::ClassError;
use super::queue::{CommandOrder, CommandQueue};
use super::{Device, Service};
pub use blend::blended;
use ioweir_config::Duration;
use load::releases;
pub use load::{Load, depth_max};
pub use pairs::pairs;
pub use table::tabled;

/// Requests that begin within this part of the disk from the end of the one before are near.
const NEAR_PART: u64 = 64;
/// The longest request that is small.
const SMALL_SECTORS: u32 = 16;

/// A request with the response time that the device had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Read, write, flush or discard.
    pub operation: Operation,
    /// First sector.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// When it was submitted.
    pub arrival_nanos: u64,
    /// Response time of the device.
    pub response_nanos: u64,
}

impl Measured {
    fn completion_nanos(&self) -> u64 {
        self.arrival_nanos.saturating_add(self.response_nanos)
    }

    fn dispatch(&self) -> Dispatch {
        let Self { operation, sector, sectors, .. } = *self;
        Dispatch::alone(&Request { operation, flags: Flags::NONE, stream: StreamId(0), sector, sectors })
    }
}

/// Why requests cannot be replayed on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request {number} ends {} past the end of the device", ioweir_config::Size(sectors_past.saturating_mul(SECTOR_BYTES)))]
pub struct PastEnd {
    /// The request, counted from 1.
    pub number: usize,
    /// The number of sectors beyond the end of the device.
    pub sectors_past: u64,
}

/// Sends the requests to the model, and returns the model's service of each, in their order. The service's finish is in the model's time;
/// the response time is `response_nanos`.
///
/// # Errors
/// The first request that does not lie on the device.
pub fn replay(device: &mut dyn Device, requests: &[Measured], load: Load) -> Result<Vec<Replayed>, PastEnd> {
    for (number, measured) in requests.iter().enumerate() {
        let end = measured.sector.saturating_add(u64::from(measured.sectors));
        if end > device.sectors() {
            return Err(PastEnd { number: number + 1, sectors_past: end - device.sectors() });
        }
    }
    Ok(match (load, device.command_order()) {
        (Load::Closed, _) => replay_closed(device, requests),
        (Load::Released, order) => replay_released(device, requests, order),
        (Load::Arrivals, CommandOrder::Fifo) => requests.iter().map(|request| Replayed::at(device, request)).collect(),
        (Load::Arrivals, order) => replay_queued(device, requests, order),
    })
}

/// A request as the model served it.
#[derive(Clone, Copy, Debug)]
pub struct Replayed {
    /// When it was sent.
    pub arrival_nanos: u64,
    /// The service by the model.
    pub service: Service,
}

impl Replayed {
    fn at(device: &mut dyn Device, request: &Measured) -> Self {
        let arrival_nanos = request.arrival_nanos;
        Self { arrival_nanos, service: device.serve(Nanos(arrival_nanos), &request.dispatch()) }
    }

    /// From arrival to completion.
    #[must_use]
    pub fn response_nanos(&self) -> u64 {
        self.service.finish.0.saturating_sub(self.arrival_nanos)
    }
}

fn replay_closed(device: &mut dyn Device, requests: &[Measured]) -> Vec<Replayed> {
    let mut replayed = Vec::with_capacity(requests.len());
    let mut now_nanos: u64 = 0;
    for (number, measured) in requests.iter().enumerate() {
        let service = device.serve(Nanos(now_nanos), &measured.dispatch());
        replayed.push(Replayed { arrival_nanos: now_nanos, service });
        let next = requests.get(number + 1).map_or(0, |next| next.arrival_nanos);
        now_nanos = service.finish.0.saturating_add(next.saturating_sub(measured.completion_nanos()));
    }
    replayed
}

/// The model's completions, in their order.
struct Completions {
    queue: Option<CommandQueue<usize>>,
    /// When a device that serves one request at a time is free.
    free_nanos: u64,
    flying: BinaryHeap<Reverse<u64>>,
    /// How many there were, and the time of the last.
    count: usize,
    last_nanos: u64,
}

impl Completions {
    /// Serves until so many are complete, or nothing more can be.
    fn advance(&mut self, count: usize, device: &mut dyn Device, serve: &mut dyn FnMut(usize, Service)) {
        while self.count < count {
            if self.flying.is_empty() {
                self.begin(device, serve);
            }
            let Some(Reverse(finish)) = self.flying.pop() else { return };
            (self.count, self.last_nanos) = (self.count + 1, finish);
        }
    }

    /// Begins the next command of a device that chooses the order.
    fn begin(&mut self, device: &mut dyn Device, serve: &mut dyn FnMut(usize, Service)) {
        let Some((dispatch, number)) = self.queue.as_mut().and_then(|queue| queue.pop(Nanos(self.free_nanos), device))
        else {
            return;
        };
        let service = device.serve(Nanos(self.free_nanos), &dispatch);
        self.free_nanos = service.finish.0;
        self.flying.push(Reverse(service.finish.0));
        serve(number, service);
    }
}

fn replay_released(device: &mut dyn Device, requests: &[Measured], order: CommandOrder) -> Vec<Replayed> {
    let queue = (order != CommandOrder::Fifo).then(|| CommandQueue::new(order));
    let mut done = Completions { queue, free_nanos: 0, flying: BinaryHeap::new(), count: 0, last_nanos: 0 };
    let mut replayed = vec![Replayed { arrival_nanos: 0, service: Service::default() }; requests.len()];
    let mut arrival_nanos = 0;
    for (number, (measured, (before, think_nanos))) in requests.iter().zip(releases(requests)).enumerate() {
        let mut serve = |number: usize, service| {
            if let Some(place) = replayed.get_mut(number) {
                place.service = service;
            }
        };
        done.advance(before, device, &mut serve);
        arrival_nanos = done.last_nanos.saturating_add(think_nanos).max(arrival_nanos);
        match done.queue {
            None => {
                let service = device.serve(Nanos(arrival_nanos), &measured.dispatch());
                done.flying.push(Reverse(service.finish.0));
                serve(number, service);
            }
            Some(_) => {
                // Requests that wait do not wait for one that comes later.
                if done.flying.is_empty() && done.free_nanos < arrival_nanos {
                    done.begin(device, &mut serve);
                }
                if done.flying.is_empty() {
                    done.free_nanos = done.free_nanos.max(arrival_nanos);
                }
                if let Some(queue) = &mut done.queue {
                    queue.push(measured.dispatch(), number);
                }
                if done.flying.is_empty() {
                    done.begin(device, &mut serve);
                }
            }
        }
        if let Some(place) = replayed.get_mut(number) {
            place.arrival_nanos = arrival_nanos;
        }
    }
    let mut serve = |number: usize, service| {
        if let Some(place) = replayed.get_mut(number) {
            place.service = service;
        }
    };
    done.advance(requests.len(), device, &mut serve);
    replayed
}

/// Sends the requests to a device that chooses among those it holds, one at a time.
fn replay_queued(device: &mut dyn Device, requests: &[Measured], order: CommandOrder) -> Vec<Replayed> {
    let mut queue = CommandQueue::new(order);
    let mut replayed = vec![Replayed { arrival_nanos: 0, service: Service::default() }; requests.len()];
    let mut waiting = requests.iter().enumerate().peekable();
    let mut free_nanos = 0;
    loop {
        let first = waiting.peek().map(|(_, request)| request.arrival_nanos);
        let now_nanos = match (first, queue.is_empty()) {
            (None, true) => return replayed,
            (Some(first), true) => first.max(free_nanos),
            (_, false) => free_nanos,
        };
        while let Some((number, request)) = waiting.next_if(|(_, request)| request.arrival_nanos <= now_nanos) {
            queue.push(request.dispatch(), number);
        }
        let Some((dispatch, number)) = queue.pop(Nanos(now_nanos), device) else { continue };
        let service = device.serve(Nanos(now_nanos), &dispatch);
        free_nanos = service.finish.0;
        if let (Some(place), Some(request)) = (replayed.get_mut(number), requests.get(number)) {
            *place = Replayed { arrival_nanos: request.arrival_nanos, service };
        }
    }
}

/// A summary of response times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Mean.
    pub mean_nanos: f64,
    /// Standard deviation.
    pub deviation_nanos: f64,
    /// The median: half of the times are at most this.
    pub p50_nanos: u64,
    /// 95 % of the times are at most this.
    pub p95_nanos: u64,
    /// 99 % of the times are at most this.
    pub p99_nanos: u64,
}

impl Distribution {
    /// Summarizes sorted times.
    #[must_use]
    pub fn of(sorted: &[u64]) -> Self {
        let count = sorted.len().max(1) as f64;
        let mean_nanos = mean(sorted);
        let squares: f64 = sorted.iter().map(|&time| (time as f64 - mean_nanos).powi(2)).sum();
        let quantile = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(rank).copied().unwrap_or(0)
        };
        Self {
            mean_nanos,
            deviation_nanos: (squares / count).sqrt(),
            p50_nanos: quantile(50),
            p95_nanos: quantile(95),
            p99_nanos: quantile(99),
        }
    }
}

/// The mean; zero of nothing.
pub(crate) fn mean(times: &[u64]) -> f64 {
    times.iter().map(|&time| time as f64).sum::<f64>() / times.len().max(1) as f64
}

/// The root mean square of the horizontal distance between the distributions of two sets of times, in their unit. The sets
/// need neither be sorted nor of the same size; the result is zero if one is empty.
#[must_use]
pub fn demerit(one: &[u64], other: &[u64]) -> f64 {
    let sorted = |times: &[u64]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    sorted_demerit(&sorted(one), &sorted(other))
}

/// As [`demerit`], of sorted times.
pub(crate) fn sorted_demerit(one: &[u64], other: &[u64]) -> f64 {
    let count = one.len().max(other.len());
    if one.is_empty() || other.is_empty() {
        return 0.0;
    }
    // The value in the middle of each of `count` equal steps up the distribution.
    let at = |times: &[u64], step: usize| times[(2 * step + 1) * times.len() / (2 * count)] as f64;
    let squares: f64 = (0..count).map(|step| (at(one, step) - at(other, step)).powi(2)).sum();
    (squares / count as f64).sqrt()
}

/// Finds the class of one request after the other, of those that follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Sorter {
    near_sectors: u64,
    /// Where the request before ended.
    end: u64,
}

impl Sorter {
    /// For requests to a device of so many sectors.
    #[must_use]
    pub const fn new(device_sectors: u64) -> Self {
        Self { near_sectors: device_sectors / NEAR_PART, end: u64::MAX }
    }

    /// The index of the next request's class in [`Classes::NAMES`].
    pub fn class(&mut self, operation: Operation, sector: u64, sectors: u64) -> u8 {
        let place = match sector.abs_diff(self.end) {
            0 => 0,
            distance if distance <= self.near_sectors => 2,
            _ => 4,
        };
        let size = u8::from(sectors > u64::from(SMALL_SECTORS));
        let number = match operation {
            Operation::Read => place + size,
            Operation::Write => 6 + place + size,
            Operation::Discard => 12,
            Operation::Flush => return 13,
        };
        self.end = sector.saturating_add(sectors);
        number
    }
}

/// The class of each request: what it does, where it begins, and how long it is.
///
/// A request is *sequential* if it begins where the one before ended, *near* if within a sixty-fourth of the device from
/// there, and else *far*; it is *small* up to 8 KiB.
#[derive(Clone, Debug)]
pub struct Classes {
    /// The index of each request's class in [`Classes::NAMES`].
    numbers: Vec<u8>,
}

impl Classes {
    /// The names of the classes.
    pub const NAMES: [&'static str; 14] = [
        "read sequential, small",
        "read sequential, large",
        "read near, small",
        "read near, large",
        "read far, small",
        "read far, large",
        "write sequential, small",
        "write sequential, large",
        "write near, small",
        "write near, large",
        "write far, small",
        "write far, large",
        "discard",
        "flush",
    ];

    /// Sorts requests to a device of so many sectors.
    #[must_use]
    pub fn new(requests: &[Measured], device_sectors: u64) -> Self {
        let mut sorter = Sorter::new(device_sectors);
        let number = |request: &Measured| sorter.class(request.operation, request.sector, request.sectors.into());
        Self { numbers: requests.iter().map(number).collect() }
    }

    /// Whether the request at this place reads or writes; `None` of others.
    fn operation(&self, at: usize) -> Option<Operation> {
        match self.numbers.get(at)? {
            0..=5 => Some(Operation::Read),
            6..=11 => Some(Operation::Write),
            _ => None,
        }
    }

    /// The values of each class, of values in the order of the requests.
    #[must_use]
    pub fn split(&self, values: &[u64]) -> Vec<Vec<u64>> {
        let mut split = vec![Vec::new(); Self::NAMES.len()];
        for (number, value) in self.numbers.iter().zip(values) {
            if let Some(class) = split.get_mut(usize::from(*number)) {
                class.push(*value);
            }
        }
        split
    }
}

/// Measured and modelled response times of the same requests.
#[derive(Clone, Debug)]
pub struct Validation {
    /// Measured response times, in the order of the requests.
    pub measured_nanos: Vec<u64>,
    /// Modelled response times, likewise.
    pub modelled_nanos: Vec<u64>,
    classes: Classes,
    /// Whether other requests were in the device when each came.
    is_beside: Vec<bool>,
}

/// The names of the classes by the queue: what a request does, and whether others were in the device when it came.
const QUEUE_NAMES: [(&str, Operation, bool); 4] = [
    ("read, alone", Operation::Read, false),
    ("read, beside others", Operation::Read, true),
    ("write, alone", Operation::Write, false),
    ("write, beside others", Operation::Write, true),
];

impl Validation {
    /// Replays measured requests.
    ///
    /// # Errors
    /// As [`replay`].
    pub fn new(device: &mut dyn Device, requests: &[Measured], load: Load) -> Result<Self, PastEnd> {
        let sectors = device.sectors();
        let replayed = replay(device, requests, load)?;
        Ok(Self {
            measured_nanos: requests.iter().map(|request| request.response_nanos).collect(),
            modelled_nanos: replayed.iter().map(Replayed::response_nanos).collect(),
            classes: Classes::new(requests, sectors),
            is_beside: load::depths_of(requests).into_iter().map(|depth| depth > 1).collect(),
        })
    }

    /// The earlier and the later half of the requests.
    #[must_use]
    pub fn halves(&self) -> [Self; 2] {
        let middle = self.measured_nanos.len() / 2;
        [0..middle, middle..self.measured_nanos.len()].map(|part| Self {
            measured_nanos: self.measured_nanos[part.clone()].to_vec(),
            modelled_nanos: self.modelled_nanos[part.clone()].to_vec(),
            classes: Classes { numbers: self.classes.numbers[part.clone()].to_vec() },
            is_beside: self.is_beside[part].to_vec(),
        })
    }

    /// The demerit over all requests.
    #[must_use]
    pub fn demerit_nanos(&self) -> f64 {
        demerit(&self.measured_nanos, &self.modelled_nanos)
    }

    /// The name of a request's class.
    #[must_use]
    pub fn class_name(&self, number: usize) -> &'static str {
        let class = self.classes.numbers.get(number).copied().unwrap_or(0);
        Classes::NAMES.get(usize::from(class)).copied().unwrap_or_default()
    }

    /// The measured and the modelled times of all requests and of every class that has some, sorted, with its name.
    #[must_use]
    pub fn by_class(&self) -> Vec<(&'static str, [Vec<u64>; 2])> {
        let split = self.classes.split(&self.measured_nanos).into_iter().zip(self.classes.split(&self.modelled_nanos));
        let all = [self.measured_nanos.clone(), self.modelled_nanos.clone()];
        let classes = Classes::NAMES.into_iter().zip(split.map(|(measured, modelled)| [measured, modelled]));
        let some = std::iter::once((ClassError::ALL, all)).chain(classes).filter(|(_, times)| !times[0].is_empty());
        some.map(sorted).collect()
    }

    /// As [`Self::by_class`], of reads and writes by whether other requests were in the device when they came. Empty if none was.
    /// A device that serves one request at a time is told from one that serves several by these alone.
    fn by_queue(&self) -> Vec<(&'static str, [Vec<u64>; 2])> {
        if !self.is_beside.contains(&true) {
            return Vec::new();
        }
        let of = |(name, operation, is_beside): (&'static str, Operation, bool)| {
            let is_own = |at: &usize| {
                self.is_beside.get(*at) == Some(&is_beside) && self.classes.operation(*at) == Some(operation)
            };
            let times = [&self.measured_nanos, &self.modelled_nanos];
            let own = |times: &Vec<u64>| (0..times.len()).filter(is_own).map(|at| times[at]).collect::<Vec<u64>>();
            (name, times.map(own))
        };
        QUEUE_NAMES.into_iter().map(of).filter(|(_, times)| !times[0].is_empty()).map(sorted).collect()
    }

    /// The error over all requests, and of every class that has some, by place and by queue.
    #[must_use]
    pub fn errors(&self) -> Vec<ClassError> {
        self.errors_beside(None, None)
    }

    /// As [`Self::errors`]. `halves` are other measured requests of the same device with their classes, whose distance from these says how
    /// far the device is from itself. The errors of another prediction of the same requests, that of a table, stand beside these.
    #[must_use]
    pub fn errors_beside(&self, halves: Option<&Self>, tabled_nanos: Option<&[u64]>) -> Vec<ClassError> {
        let tables = tabled_nanos.map(|tabled| Self { modelled_nanos: tabled.to_vec(), ..self.clone() }.errors());
        let tables = tables.unwrap_or_default();
        let both = |validation: &Self| [validation.by_class(), validation.by_queue()].concat();
        let others = halves.map(both).unwrap_or_default();
        let error = |(name, [measured, modelled]): (&'static str, [Vec<u64>; 2])| {
            let other = others.iter().find(|(other, _)| *other == name);
            ClassError {
                name: name.into(),
                requests: measured.len() as u64,
                measured_mean: span(mean(&measured)),
                modelled_mean: span(mean(&modelled)),
                demerit: span(sorted_demerit(&measured, &modelled)),
                halves: other.map(|(_, [other, _])| span(sorted_demerit(&measured, other))),
                table: tables.iter().find(|table| table.name == name).map(|table| table.demerit),
            }
        };
        both(self).into_iter().map(error).collect()
    }
}

/// A class with its times sorted.
fn sorted((name, mut times): (&'static str, [Vec<u64>; 2])) -> (&'static str, [Vec<u64>; 2]) {
    times.iter_mut().for_each(|times| times.sort_unstable());
    (name, times)
}

/// Whole nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of requests are not negative")]
fn span(nanos: f64) -> Duration {
    Duration::new(Nanos(nanos.round() as u64))
}
