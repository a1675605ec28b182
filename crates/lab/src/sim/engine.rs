//! The event loop: time, arrivals, completions, and the requests held back by a full queue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ioweir_core::{
    Direction, Dispatch, Nanos, Operation, QueueLimits, Reason, Refused, RefusedCause, Request, SECTOR_BYTES,
    Scheduler, Step, StreamId, Tag, Tier,
};

use super::{Arrivals, Failure, Finished, Gather, Observer, Site};
use ioweir_device::{CommandOrder, CommandQueue, Device};
use ioweir_trace::Record;

/// What determines a run, apart from the arrivals.
pub struct Simulation<'a, S> {
    /// The scheduler, fresh.
    pub scheduler: S,
    /// Its limits.
    pub limits: QueueLimits,
    /// The device, fresh.
    pub device: &'a mut dyn Device,
    /// A faster device, fresh, for schedulers that place data on one. What is placed there keeps its address, modulo the
    /// size of that device.
    pub fast: Option<&'a mut (dyn Device + 'static)>,
    /// Drop and count what lies past the device's end, instead of stopping.
    pub lenient: bool,
    /// When the run ends at the latest, whatever is under way then; [`Nanos::NEVER`]: when everything is done.
    pub until: Nanos,
}

/// What a run leaves behind beside what was gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When the last unit was completed.
    pub completion: Nanos,
    /// Records dropped because they lie past the device's end.
    pub skipped: u64,
    /// Records that were not done when the run ended.
    pub unfinished: u64,
}

/// Sectors that a record covers: partly covered ones count whole, and a flush covers none.
pub(super) fn sectors_of(record: &Record) -> u64 {
    if record.length_bytes == 0 {
        return 0;
    }
    let end = record.offset_bytes.saturating_add(record.length_bytes).div_ceil(SECTOR_BYTES);
    end - record.offset_bytes / SECTOR_BYTES
}

/// A record that is on its way.
#[derive(Clone, Copy)]
struct Live {
    number: u64,
    arrival: Nanos,
    bytes: u64,
    operation: Operation,
    stream: u32,
    /// Parts that have not completed.
    parts: u32,
}

/// A part of a record that waits outside a full queue.
#[derive(Clone, Copy)]
struct Held {
    live: u32,
    request: Request,
}

/// A unit in the device; ordered by finish, then by dispatch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    finish: Nanos,
    sequence: u64,
    slot: u32,
}

struct Engine<'a, S, G, O> {
    scheduler: S,
    limits: QueueLimits,
    device: &'a mut dyn Device,
    fast: Option<&'a mut (dyn Device + 'static)>,
    observer: &'a mut O,
    gather: &'a mut G,
    lenient: bool,
    until: Nanos,
    now: Nanos,
    timer: Nanos,
    flights: BinaryHeap<Reverse<Flight>>,
    /// The dispatches in flight, by flight slot.
    dispatches: Vec<Option<Dispatch>>,
    free_flights: Vec<u32>,
    /// What a device that chooses among its commands holds and has not begun, with flight slots.
    commands: CommandQueue<u32>,
    chooses: bool,
    /// Units that the base device holds.
    base_flights: u32,
    /// Whether the scheduler asks what the device would need.
    weighs: bool,
    sequence: u64,
    live: Vec<Live>,
    free_live: Vec<u32>,
    /// Which live record each tag belongs to.
    live_of_tag: Vec<u32>,
    /// Held back, by direction, first come first served.
    held: [VecDeque<Held>; 2],
    numbers: u64,
    skipped: u64,
    volume: Option<u32>,
    members: Vec<Tag>,
    completed_streams: Vec<u32>,
    /// Whose requests were refused, and when they would be taken.
    refused_streams: Vec<(u32, Nanos)>,
    /// In which directions units have completed at this moment.
    freed: [bool; 2],
    end: Nanos,
}

/// Runs whatever arrives, and gathers whatever is to be kept of it.
///
/// # Errors
/// [`Failure`] where nothing more can arrive because of an error, or where a record does not fit the device.
pub fn run<S: Scheduler, G: Gather, O: Observer<S>>(
    simulation: Simulation<'_, S>,
    arrivals: &mut impl Arrivals<S>,
    gather: &mut G,
    observer: &mut O,
) -> Result<Ended, Failure> {
    let Simulation { scheduler, limits, device, fast, lenient, until } = simulation;
    let flights = limits.depth + if fast.is_some() { limits.fast_depth } else { 0 };
    let order = device.command_order();
    let weighs = scheduler.weighs();
    let slots = limits.members.max(limits.requests_per_direction.saturating_mul(2)).max(1) as usize;
    let mut engine = Engine {
        scheduler,
        limits,
        device,
        fast,
        observer,
        gather,
        lenient,
        until,
        now: Nanos::ZERO,
        timer: Nanos::NEVER,
        flights: BinaryHeap::new(),
        dispatches: vec![None; flights as usize],
        free_flights: (0..flights).rev().collect(),
        commands: CommandQueue::new(order),
        chooses: order != CommandOrder::Fifo,
        base_flights: 0,
        weighs,
        sequence: 0,
        live: Vec::new(),
        free_live: Vec::new(),
        live_of_tag: vec![0; slots],
        held: [VecDeque::new(), VecDeque::new()],
        numbers: 0,
        skipped: 0,
        volume: None,
        members: Vec::new(),
        completed_streams: Vec::new(),
        refused_streams: Vec::new(),
        freed: [false; 2],
        end: Nanos::ZERO,
    };
    engine.run(arrivals)?;
    let unfinished = engine.live.len() - engine.free_live.len();
    Ok(Ended { completion: engine.end, skipped: engine.skipped, unfinished: unfinished as u64 })
}

impl<S: Scheduler, G: Gather, O: Observer<S>> Engine<'_, S, G, O> {
    fn run(&mut self, arrivals: &mut impl Arrivals<S>) -> Result<(), Failure> {
        loop {
            let arrival = arrivals.next_time(self.now, self.held_count())?.unwrap_or(Nanos::NEVER);
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
                self.complete_due();
                for stream in self.completed_streams.drain(..) {
                    arrivals.completed(stream, self.now);
                }
                self.retry_held();
                self.tell_refused(arrivals);
            }
            let mut site = Site { scheduler: &mut self.scheduler, device: &mut *self.device };
            arrivals.act(self.now, &mut site)?;
            while let Some((arrival, record)) = arrivals.next(self.now, self.held_count())? {
                if !self.arrive(&record, arrival)? {
                    arrivals.completed(record.stream.0, self.now);
                }
                self.tell_refused(arrivals);
            }
            self.drain();
            if self.chooses && self.base_flights == 0 {
                self.start_chosen();
            }
            if O::WATCHES {
                self.observer.settled(self.now, &self.scheduler);
            }
        }
        assert!(self.held_count() == 0 && self.scheduler.queued() == 0, "a run ends when nothing waits");
        Ok(())
    }

    fn tell_refused(&mut self, arrivals: &mut impl Arrivals<S>) {
        for (stream, retry) in self.refused_streams.drain(..) {
            arrivals.refused(stream, retry, self.now);
        }
    }

    fn held_count(&self) -> usize {
        self.held[0].len() + self.held[1].len()
    }

    /// Lets time pass, and charges it to those who wait.
    fn step_to(&mut self, next: Nanos) {
        let span = next.since(self.now);
        if span > Nanos::ZERO {
            self.gather.passed(next, span, self.flights.len());
            let held = self.held_count();
            if self.scheduler.queued() > 0 || held > 0 {
                let mut waiting = self.scheduler.waiting();
                waiting.0[Reason::QueueFull as usize] += u32::try_from(held).unwrap_or(u32::MAX);
                self.gather.waited(next, span, &waiting, self.flights.len());
            }
            self.now = next;
        }
    }

    /// Completes all that the device has finished by now.
    fn complete_due(&mut self) {
        while let Some(&Reverse(flight)) = self.flights.peek()
            && flight.finish <= self.now
        {
            self.flights.pop();
            self.free_flights.push(flight.slot);
            if let Some(dispatch) = self.dispatches[flight.slot as usize].take() {
                self.base_flights -= u32::from(dispatch.tier == Tier::Base);
                self.complete(&dispatch);
            }
        }
    }

    fn complete(&mut self, dispatch: &Dispatch) {
        self.end = self.now;
        self.observer.completed(self.now, dispatch);
        self.gather.moved(self.now, dispatch.operation, u64::from(dispatch.sectors) * SECTOR_BYTES);
        let mut member = Some(dispatch.tag);
        while let Some(tag) = member {
            self.finish_part(self.live_of_tag[tag.index()]);
            member = self.scheduler.next_member(tag);
        }
        self.scheduler.complete(self.now, dispatch.tag);
        self.freed[dispatch.operation.direction() as usize] = true;
    }

    fn finish_part(&mut self, number: u32) {
        let live = &mut self.live[number as usize];
        live.parts -= 1;
        if live.parts == 0 {
            let Live { number: record, arrival, bytes, operation, stream, .. } = *live;
            self.gather.finished(&Finished { now: self.now, arrival, operation, bytes, stream: StreamId(stream) });
            self.observer.finished(record, self.now);
            self.completed_streams.push(stream);
            self.free_live.push(number);
        }
    }

    /// Lets those in who were held back, as far as there is room now. Where nothing has completed there is no room, and
    /// nothing to merge with that was not there before.
    fn retry_held(&mut self) {
        for direction in Direction::ALL {
            if !std::mem::take(&mut self.freed[direction as usize]) {
                continue;
            }
            self.submit_held(direction);
        }
    }

    fn submit_held(&mut self, direction: Direction) {
        while let Some(held) = self.held[direction as usize].pop_front() {
            match self.submit(held) {
                Ok(()) => {}
                Err(RefusedCause::Split(sectors)) => self.split(held, sectors),
                Err(RefusedCause::AtLimit(retry)) => self.refuse(held, retry),
                Err(RefusedCause::Full | RefusedCause::TooLarge) => {
                    self.held[direction as usize].push_front(held);
                    return;
                }
            }
        }
    }

    fn submit(&mut self, held: Held) -> Result<(), RefusedCause> {
        match self.scheduler.submit(self.now, held.request) {
            Ok(tag) => {
                self.live_of_tag[tag.index()] = held.live;
                let number = self.live[held.live as usize].number;
                self.observer.submitted(number, tag, held.request.sector, held.request.sectors);
                Ok(())
            }
            Err(Refused { cause, .. }) => Err(cause),
        }
    }

    /// Puts a request that lies on two devices back as two, in its place at the head of those held back.
    fn split(&mut self, held: Held, sectors: u32) {
        let Request { sector, sectors: whole, operation, .. } = held.request;
        let live = &mut self.live[held.live as usize];
        live.parts += 1;
        // From now on one more waits; that it has waited until now is charged here.
        self.gather.waited_outside(u128::from(self.now.since(live.arrival).0));
        let rest = Request { sector: sector + u64::from(sectors), sectors: whole - sectors, ..held.request };
        let queue = &mut self.held[operation.direction() as usize];
        queue.push_front(Held { request: rest, ..held });
        queue.push_front(Held { request: Request { sectors, ..held.request }, ..held });
    }

    /// Takes a record in: splits it where it is larger than the queue takes, and holds back what finds no room. Answers
    /// whether it was taken.
    fn arrive(&mut self, record: &Record, arrival: Nanos) -> Result<bool, Failure> {
        let number = self.numbers;
        let sectors = sectors_of(record);
        let sector = record.offset_bytes / SECTOR_BYTES;
        if !self.fits(record, sector, sectors)? {
            self.skipped += 1;
            return Ok(false);
        }
        self.numbers += 1;
        self.observer.arrived(number, record, arrival);
        // A discard is one command whatever its length; its extent is cut to what a request can say.
        let whole = matches!(record.operation, Operation::Discard);
        let part_max = if whole { u64::from(u32::MAX) } else { u64::from(self.limits.request_sectors_max) };
        let parts = sectors.div_ceil(part_max).max(1);
        let live = self.enlist(Live {
            number,
            arrival,
            bytes: record.length_bytes,
            operation: record.operation,
            stream: record.stream.0,
            parts: u32::try_from(parts).unwrap_or(u32::MAX),
        });
        // A record that was read late has waited outside since it arrived.
        if arrival < self.now {
            let late = u128::from(self.now.since(arrival).0) * u128::from(parts);
            self.gather.waited_outside(late);
        }
        let mut at = 0;
        for _ in 0..parts {
            let length = (sectors - at).min(part_max);
            let request = Request {
                operation: record.operation,
                flags: record.flags,
                stream: record.stream,
                sector: sector + at,
                sectors: u32::try_from(length).unwrap_or(u32::MAX),
            };
            at += length;
            self.offer(Held { live, request });
        }
        Ok(true)
    }

    /// Submits a part that has arrived, or holds it back.
    fn offer(&mut self, held: Held) {
        let direction = held.request.operation.direction();
        if !self.held[direction as usize].is_empty() {
            self.held[direction as usize].push_back(held);
            return;
        }
        match self.submit(held) {
            Ok(()) => {}
            Err(RefusedCause::Split(sectors)) => {
                self.split(held, sectors);
                self.submit_held(direction);
            }
            Err(RefusedCause::AtLimit(retry)) => self.refuse(held, retry),
            Err(RefusedCause::Full | RefusedCause::TooLarge) => self.held[direction as usize].push_back(held),
        }
    }

    /// Lets go of a part that was refused. A record of which other parts were taken is done when these are.
    fn refuse(&mut self, held: Held, retry: Nanos) {
        let live = &mut self.live[held.live as usize];
        live.parts -= 1;
        let Live { number, parts, stream, .. } = *live;
        self.observer.refused(number, held.request.sectors, parts == 0, self.now);
        if parts == 0 {
            self.gather.refused(self.now, StreamId(stream));
            self.refused_streams.push((stream, retry));
            self.free_live.push(held.live);
        }
    }

    fn enlist(&mut self, live: Live) -> u32 {
        if let Some(slot) = self.free_live.pop() {
            self.live[slot as usize] = live;
            return slot;
        }
        self.live.push(live);
        u32::try_from(self.live.len() - 1).expect("live records are bounded by queue and look-ahead")
    }

    /// Whether a record fits the run: one address space, and within the device.
    fn fits(&mut self, record: &Record, sector: u64, sectors: u64) -> Result<bool, Failure> {
        let number = self.numbers + self.skipped + 1;
        if *self.volume.get_or_insert(record.volume) != record.volume {
            return Err(Failure::Record {
                number,
                problem: "the trace goes on in another address space".into(),
                expected: "one address space, since one device is simulated".into(),
                hint: "choose one with --volume; `ioweir trace info` lists them".into(),
            });
        }
        let capacity = self.device.sectors();
        let end = sector.saturating_add(sectors);
        if end <= capacity || self.lenient {
            return Ok(end <= capacity);
        }
        Err(Failure::Record {
            number,
            problem: format!("sectors {sector} to {end} lie past the end of the device"),
            expected: format!("nothing past sector {capacity}"),
            hint: "take a larger device with --device, or skip such records with --lenient".into(),
        })
    }

    /// Asks the scheduler until it waits. While the device is full it would only say so.
    fn drain(&mut self) {
        self.timer = Nanos::NEVER;
        while !self.free_flights.is_empty() {
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

    fn poll(&mut self) -> Step {
        if !self.weighs {
            return self.scheduler.poll(self.now);
        }
        let (now, device) = (self.now, &*self.device);
        self.scheduler.poll_weighed(now, &|request| device.positioning_nanos(now, &Dispatch::alone(request)))
    }

    /// Gives a unit to the device. One that serves in order of arrival says at once when it will be done.
    fn dispatch(&mut self, dispatch: Dispatch) {
        if O::WATCHES {
            self.members.clear();
            let mut member = Some(dispatch.tag);
            while let Some(tag) = member {
                self.members.push(tag);
                member = self.scheduler.next_member(tag);
            }
            self.observer.dispatched(self.now, &dispatch, &self.members);
        }
        let slot = self.free_flights.pop().expect("a scheduler keeps to the device's depth");
        self.dispatches[slot as usize] = Some(dispatch);
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
        self.gather.dispatched(self.now, dispatch, &service);
        if O::WATCHES {
            self.observer.started(self.now, dispatch, &service);
        }
        self.base_flights += u32::from(dispatch.tier == Tier::Base);
        self.sequence += 1;
        self.flights.push(Reverse(Flight { finish: service.finish, sequence: self.sequence, slot }));
    }
}
