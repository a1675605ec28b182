//! The event loop: time, arrivals, completions, and the devices around the driver.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioweir_core::driver::{Capacity, ClientRequest, Driver};
use ioweir_core::{Dispatch, Nanos, QueueLimits, SECTOR_BYTES, Scheduler, Slab, Step, Tag, Tier};

use super::feed::LOOK_AHEAD_RECORDS;
use super::records::{Records, sectors_of};
use super::{Arrivals, Collector, Failure, Observer, Site, Sites};
use ioweir_device::{CommandOrder, CommandQueue, Device};
use ioweir_trace::Record;

/// The inputs of a run, apart from the arrivals.
pub struct Simulation<'a, S> {
    /// The scheduler, fresh.
    pub scheduler: S,
    /// The limits of the scheduler.
    pub limits: QueueLimits,
    /// The device, fresh.
    pub device: &'a mut dyn Device,
    /// A faster device, fresh, for schedulers that place data on one. What is placed there keeps its address, modulo the
    /// size of that device.
    pub fast: Option<&'a mut (dyn Device + 'static)>,
    /// Drop and count what lies past the device's end, instead of stopping.
    pub lenient: bool,
    /// When the run ends at the latest, whatever is in flight then; [`Nanos::NEVER`]: when everything is done.
    pub until: Nanos,
}

/// The end of a run: figures that the collector does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When the last dispatch was completed.
    pub completion: Nanos,
    /// Records dropped because they lie past the device's end.
    pub skipped: u64,
    /// Records that were not done when the run ended.
    pub unfinished: u64,
    /// By how much time reservations have fallen behind.
    pub reservations_behind: Nanos,
}

/// A dispatch in the device; ordered by finish, then by dispatch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    finish: Nanos,
    sequence: u64,
    slot: u32,
}

/// One device with its scheduler: all that happens to the requests that are sent to it.
pub(super) struct Engine<'a, S, O> {
    driver: Driver<S>,
    pub(super) records: Records<'a, S, O>,
    device: &'a mut dyn Device,
    fast: Option<&'a mut (dyn Device + 'static)>,
    until: Nanos,
    now: Nanos,
    timer: Nanos,
    flights: BinaryHeap<Reverse<Flight>>,
    /// The dispatches in flight.
    dispatches: Slab<Dispatch>,
    /// Dispatches that a device that chooses among its commands holds and has not begun, with their slots.
    commands: CommandQueue<u32>,
    chooses: bool,
    /// Dispatches that the base device holds.
    base_flights: u32,
    /// Whether the scheduler asks what the device would need.
    weighs: bool,
    sequence: u64,
    members: Vec<Tag>,
    end: Nanos,
}

/// Runs whatever arrives, and counts it in the collector.
///
/// # Errors
/// [`Failure`] if nothing more can arrive because of an error, or if a record does not fit the device.
pub fn run<S: Scheduler, O: Observer<S>>(
    simulation: Simulation<'_, S>,
    arrivals: &mut impl Arrivals<S>,
    collector: &mut Collector,
    observer: &mut O,
) -> Result<Ended, Failure> {
    let Simulation { scheduler, limits, device, fast, lenient, until } = simulation;
    let simulation = Simulation { scheduler, limits, device: &mut *device, fast, lenient, until };
    let mut engine = Engine::new(simulation, collector, observer);
    engine.run(arrivals)?;
    Ok(engine.ended())
}

impl<S, O> Sites<S> for Engine<'_, S, O>
where
    S: Scheduler,
    O: Observer<S>,
{
    fn devices(&self) -> usize {
        1
    }

    fn site(&mut self, _device: usize) -> Site<'_, S> {
        Site { scheduler: self.driver.scheduler_mut(), device: &mut *self.device }
    }
}

impl<'a, S: Scheduler, O: Observer<S>> Engine<'a, S, O> {
    pub(super) fn new(simulation: Simulation<'a, S>, collector: &'a mut Collector, observer: &'a mut O) -> Self {
        let Simulation { scheduler, limits, device, fast, lenient, until } = simulation;
        let flights = limits.depth + if fast.is_some() { limits.fast_depth } else { 0 };
        let order = device.command_order();
        let weighs = scheduler.weighs();
        Self {
            driver: Driver::new(scheduler, &limits, Capacity { held: LOOK_AHEAD_RECORDS as u32, classes: 0 }),
            records: Records::new(collector, observer, device.sectors(), lenient),
            device,
            fast,
            until,
            now: Nanos::ZERO,
            timer: Nanos::NEVER,
            flights: BinaryHeap::new(),
            dispatches: Slab::new(flights, || Dispatch::NOTHING),
            commands: CommandQueue::new(order),
            chooses: order != CommandOrder::Fifo,
            base_flights: 0,
            weighs,
            sequence: 0,
            members: Vec::new(),
            end: Nanos::ZERO,
        }
    }

    /// How the run ended, as far as this device knows.
    pub(super) fn ended(&self) -> Ended {
        let unfinished = u64::from(self.driver.requests());
        let reservations_behind = self.driver.scheduler().reservations_behind();
        Ended { completion: self.end, skipped: self.records.skipped, unfinished, reservations_behind }
    }

    /// The time at which the device or the scheduler's timer needs a turn.
    pub(super) fn next_time(&self) -> Nanos {
        self.flights.peek().map_or(Nanos::NEVER, |flight| flight.0.finish).min(self.timer)
    }

    /// Lets time pass to `now`, and completes what the device has finished by then. `done` gets the driver's slot and the
    /// stream of each record that is served.
    pub(super) fn advance(&mut self, now: Nanos, done: &mut impl FnMut(u32, u32)) {
        let finish = self.flights.peek().map_or(Nanos::NEVER, |flight| flight.0.finish);
        self.step_to(now);
        if finish <= now {
            self.complete_due(done);
            self.driver.retry(self.now, &mut self.records);
        }
    }

    /// Lets the scheduler dispatch what it may, after everything else of this moment.
    pub(super) fn settle(&mut self) {
        self.drain();
        if self.chooses && self.base_flights == 0 {
            self.start_chosen();
        }
        if O::WATCHES {
            self.records.observer.settled(self.now, self.driver.scheduler());
        }
    }

    fn run(&mut self, arrivals: &mut impl Arrivals<S>) -> Result<(), Failure> {
        loop {
            let arrival = arrivals.next_time(self.now, self.held())?.unwrap_or(Nanos::NEVER);
            let finish = self.flights.peek().map_or(Nanos::NEVER, |flight| flight.0.finish);
            let next = arrival.min(finish).min(self.timer);
            if next == Nanos::NEVER {
                break;
            }
            if next > self.until {
                self.step_to(self.until);
                return Ok(());
            }
            self.step_to(next);
            if finish == next {
                self.complete_due(&mut |_, stream| arrivals.completed(stream, next));
                self.driver.retry(self.now, &mut self.records);
                self.report_refused(arrivals);
            }
            arrivals.act(self.now, self)?;
            while let Some((arrival, record)) = arrivals.next(self.now, self.held())? {
                if self.records.fits(&record)? {
                    self.arrive(&record, arrival);
                } else {
                    arrivals.completed(record.stream.0, self.now);
                }
                self.report_refused(arrivals);
            }
            self.settle();
        }
        match self.driver.waiting_count() {
            0 => Ok(()),
            requests => Err(Failure::Stuck { requests }),
        }
    }

    #[inline]
    fn report_refused(&mut self, arrivals: &mut impl Arrivals<S>) {
        // Hardly ever is anybody refused, and draining nothing costs seventy instructions.
        if self.records.refused.is_empty() {
            return;
        }
        for refused in self.records.refused.drain(..) {
            arrivals.refused(refused.stream, refused.retry, self.now);
        }
    }

    pub(super) fn held(&self) -> usize {
        self.driver.held() as usize
    }

    /// Lets time pass, and charges it to the requests that wait.
    pub(super) fn step_to(&mut self, next: Nanos) {
        let span = next.since(self.now);
        if span > Nanos::ZERO {
            if self.driver.waiting_count() > 0 {
                // A drive that orders its commands holds those that it has not begun as well.
                let in_device = self.flights.len() + self.commands.len();
                self.records.collector.waited(next, span, &self.driver.waiting(), in_device);
            }
            (self.now, self.records.now) = (next, next);
        }
    }

    /// Completes all that the device has finished by now.
    fn complete_due(&mut self, done: &mut impl FnMut(u32, u32)) {
        while let Some(&Reverse(Flight { finish, slot, .. })) = self.flights.peek()
            && finish <= self.now
        {
            self.flights.pop();
            let dispatch = self.dispatches[slot];
            self.dispatches.release(slot);
            self.base_flights -= u32::from(dispatch.tier == Tier::Base);
            self.end = self.now;
            self.records.observer.completed(self.now, &dispatch);
            let bytes = u64::from(dispatch.sectors) * SECTOR_BYTES;
            self.records.collector.moved(self.now, dispatch.operation, bytes);
            self.driver.complete(self.now, &dispatch, |ended| {
                if let Some(stream) = self.records.finish(ended) {
                    done(ended.request, stream);
                }
            });
        }
    }

    /// Hands a record to the driver, and returns its slot there.
    pub(super) fn arrive(&mut self, record: &Record, arrival: Nanos) -> u32 {
        let request = ClientRequest {
            operation: record.operation,
            flags: record.flags.at(record.priority),
            stream: record.stream,
            sector: record.offset_bytes / SECTOR_BYTES,
            sectors: sectors_of(record),
        };
        let slot = loop {
            match self.driver.open() {
                Some(slot) => break slot,
                None => self.driver.grow(),
            }
        };
        self.records.arrive(slot, record, arrival);
        let sub_requests = loop {
            match self.driver.submit(self.now, slot, 0, request, &mut self.records) {
                Ok(sub_requests) => break sub_requests,
                Err(_) => self.driver.grow(),
            }
        };
        // A record that was read late has waited outside since it arrived.
        if arrival < self.now {
            let late = u128::from(self.now.since(arrival).0) * u128::from(sub_requests);
            self.records.collector.waited_outside(late);
        }
        slot
    }

    /// Asks the scheduler until it waits. While the device is full it would only say so.
    fn drain(&mut self) {
        self.timer = Nanos::NEVER;
        while self.dispatches.has_room() {
            match self.poll() {
                Step::Dispatch(dispatch) => self.dispatch(dispatch),
                Step::WaitUntil(time, _) => {
                    assert!(time > self.now, "a scheduler waits for the future");
                    self.timer = time;
                    return;
                }
                Step::Idle => return,
            }
        }
    }

    #[inline]
    fn poll(&mut self) -> Step {
        if self.weighs { self.poll_weighed() } else { self.driver.poll(self.now) }
    }

    #[cold]
    fn poll_weighed(&mut self) -> Step {
        let (now, device) = (self.now, &*self.device);
        self.driver.poll_weighed(now, &|request| device.positioning_nanos(now, &Dispatch::alone(request)))
    }

    /// Gives a dispatch to the device. One that serves in order of arrival says at once when it will be done.
    fn dispatch(&mut self, dispatch: Dispatch) {
        if O::WATCHES {
            self.members.clear();
            self.members.extend(self.driver.members(&dispatch).map(|(tag, _)| tag));
            self.records.observer.dispatched(self.now, &dispatch, &self.members);
        }
        let slot = self.dispatches.insert(dispatch).expect("a scheduler keeps to the device's depth");
        if self.chooses && dispatch.tier == Tier::Base {
            self.commands.push(dispatch, slot);
        } else {
            self.start(&dispatch, slot);
        }
    }

    /// A free device begins what it can begin soonest.
    fn start_chosen(&mut self) {
        if let Some((dispatch, slot)) = self.commands.pop(self.now, &*self.device) {
            self.start(&dispatch, slot);
        }
    }

    fn start(&mut self, dispatch: &Dispatch, slot: u32) {
        let service = match (dispatch.tier, &mut self.fast) {
            (Tier::Fast, Some(fast)) => {
                let room = fast.sectors().saturating_sub(u64::from(dispatch.sectors)).max(1);
                fast.serve(self.now, &Dispatch { sector: dispatch.sector % room, ..*dispatch })
            }
            _ => self.device.serve(self.now, dispatch),
        };
        self.records.collector.dispatched(self.now, dispatch, &service);
        if O::WATCHES {
            self.records.observer.started(self.now, dispatch, &service);
        }
        self.base_flights += u32::from(dispatch.tier == Tier::Base);
        self.sequence += 1;
        self.flights.push(Reverse(Flight { finish: service.finish, sequence: self.sequence, slot }));
    }
}
