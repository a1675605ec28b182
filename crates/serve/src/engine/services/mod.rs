//! The services of a device: background work of the server itself, as tenants beside the clients.
//!
//! A service asks for one range after another. Its requests take the same way as those of clients: admission, scheduler, backend, under its
//! own class, so that its share bounds it and all accounts show it. It has at most `depth` requests at once, and asks for more once in a
//! turn: with a device that completes at once, clients have their turn in between.
//!
//! A lease says whether the service works, for the time that it holds; without one, its `default` does. When a service must stop, requests
//! that the scheduler still holds are withdrawn and made again later.
//!
//! The work of a service is its [`Duty`]. There are two: a [`Pass`] over the device from time to time, and a [`Debt`], which the backend
//! keeps.

mod debt;
mod pass;
mod progress;
mod report;
mod reserved;

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use ioweir_core::{Nanos, StreamId, Tier};

use super::accounts::Answered;
use super::admission::{Admission, SubRequest};
use super::sessions::{Event, Query};
use crate::backend::{Action, Backend, Outcome, Task};
use crate::log::EventKind;
use crate::nbd::NbdError;
use crate::nbd::reply::Extent;
use crate::slots::Slots;
use crate::snapshots::SLICE_BYTES;
use crate::spec::{self, ServiceDefault, ServiceKind};
use debt::Debt;
use pass::Pass;
pub use report::{Rates, ServiceOrder, ServicePlan, ServiceReport, ServiceWait, Shelf};
use reserved::Reserved;

/// The longest request of a service that discards: as long as that of a client.
const TRIM_BYTES_MAX: u64 = 32 << 20;
/// Blocks are moved back to the slow tier before others are moved to the fast one.
const RELOCATIONS: [Task; 2] = [Task::Relocate(Tier::Base), Task::Relocate(Tier::Fast)];
/// The bit that marks the number of a connection as that of a service.
const OWN: u32 = 1 << 31;

/// Whether a sub-request is of a service.
pub(super) const fn is_own(sub_request: &SubRequest) -> bool {
    sub_request.connection & OWN != 0
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    runs: bool,
    until: Nanos,
    rates: Rates,
}

/// A request of a service.
#[derive(Debug)]
struct Asked {
    piece: Piece,
    arrived: Nanos,
    /// Sub-requests that have not ended.
    pending: u32,
    damaged: Vec<u64>,
    error: Option<NbdError>,
    is_withdrawn: bool,
}

/// A range, with the action of the service on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    action: Action,
    offset: u64,
    length: u64,
}

/// The next step of a service.
enum Next {
    Request(Piece),
    Wait(ServiceWait),
    /// Wait until this time, because something has failed and is tried again then.
    Later(Nanos),
}

/// Events to be logged, each with its text.
type Found = Vec<(EventKind, String)>;

/// The work of a kind of service: it finds ranges to work on, and is given their results. Times are since 1970.
trait Duty {
    /// Sets the keys that can change while the server runs.
    fn set(&mut self, _spec: &spec::Service) {}

    /// Takes note of the time, whether the service may work or not.
    fn look(&mut self, _wall: Nanos, _backend: &dyn Backend) -> Found {
        Found::new()
    }

    /// The range whose extents the service needs to know next.
    fn query(&mut self) -> Option<(u64, u64)> {
        None
    }

    /// Takes the answer to the query; it is empty if the query has failed.
    fn learn(&mut self, _extents: &[Extent], _backend: &dyn Backend) {}

    /// The next step of the service.
    fn next(&mut self, backend: &mut dyn Backend, length_max: u64) -> Next;

    /// Takes back a piece that was not done.
    fn put_back(&mut self, piece: Piece);

    /// Takes the result of a piece, and adds it to `report`.
    fn ended(&mut self, piece: Piece, damaged: &[u64], error: Option<NbdError>, report: &mut ServiceReport) -> Found;

    /// The service stops working for now.
    fn pause(&mut self) {}

    /// The device is this long from now on.
    fn grown(&mut self, _size_bytes: u64) {}

    /// The bytes that are still to be done.
    fn owed_bytes(&self, backend: &dyn Backend) -> u64;

    /// When what is owed became due, or becomes due.
    fn due(&self) -> Option<Nanos> {
        None
    }

    /// When it last had nothing left to do.
    fn finished(&self) -> Option<Nanos>;

    /// Becomes readable when something was made durable.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct Service {
    class: StreamId,
    number: u32,
    spec: spec::Service,
    duty: Box<dyn Duty>,
    lease: Option<Lease>,
    asked: Slots<Asked>,
    reserved: Reserved,
    /// The start and the length of the last request, from which the rate counts; another rate counts from there, too.
    paced: (Nanos, u64),
    /// The time of the last turn, for the account of the time in which the device had requests of the service.
    looked: Nanos,
    /// The time in which the device had at least one request of the service.
    held: Nanos,
    report: ServiceReport,
    /// When to look again without an event.
    due: Nanos,
}

/// The services of a device.
pub(super) struct Services {
    list: Vec<Service>,
    /// The time since 1970 when the engine's time was zero.
    epoch: Nanos,
    request_bytes_max: u64,
    events: VecDeque<Event>,
    is_ending: bool,
    now: Nanos,
}

impl Services {
    pub(super) fn new(
        plans: Vec<ServicePlan>,
        backend: &dyn Backend,
        (epoch, now): (Nanos, Nanos),
        request_bytes_max: u64,
    ) -> io::Result<Self> {
        let mut services =
            Self { list: Vec::new(), epoch, request_bytes_max, events: VecDeque::new(), is_ending: false, now };
        for (number, plan) in (0..).zip(plans) {
            let ServicePlan { class, spec, state } = plan;
            let duty: Box<dyn Duty> = match spec.kind {
                ServiceKind::Scrub => {
                    let (pass, remark) = Pass::open(&spec, state, backend.size_bytes(), epoch.after(now))?;
                    services.events.extend(remark.map(|what| remarkable(EventKind::DeviceRemark, class, what)));
                    Box::new(pass)
                }
                ServiceKind::Trim => Box::new(Debt::new(&[Task::Trim], Some(TRIM_BYTES_MAX))),
                ServiceKind::Relocate => Box::new(Debt::new(&RELOCATIONS, None)),
                ServiceKind::SnapshotDelete => Box::new(Debt::new(&[Task::Unsnapshot], Some(SLICE_BYTES))),
            };
            services.list.push(Service {
                class,
                number,
                spec,
                duty,
                lease: None,
                asked: Slots::default(),
                reserved: Reserved::default(),
                paced: (Nanos::ZERO, 0),
                looked: now,
                held: Nanos::ZERO,
                report: ServiceReport { class: class.0, ..ServiceReport::default() },
                due: Nanos::ZERO,
            });
        }
        Ok(services)
    }

    /// The classes of the services.
    pub(super) fn classes(&self) -> impl Iterator<Item = StreamId> {
        self.list.iter().map(|service| service.class)
    }

    /// The descriptors that become readable when something was made durable.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.list.iter().filter_map(|service| service.duty.descriptor()).collect()
    }

    /// The events since the last call, in order.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call again without an event.
    pub(super) fn due(&self) -> Nanos {
        self.list.iter().map(|service| service.due).min().unwrap_or(Nanos::NEVER)
    }

    /// Sets the keys that can change while the server runs.
    pub(super) fn set(&mut self, specs: &[spec::Service]) {
        for (service, spec) in self.list.iter_mut().zip(specs) {
            service.spec = spec.clone();
            service.duty.set(spec);
        }
    }

    /// The device is this long from now on.
    pub(super) fn grown(&mut self, size_bytes: u64) {
        self.list.iter_mut().for_each(|service| service.duty.grown(size_bytes));
    }

    /// Gives an order to the service of this class.
    ///
    /// # Errors
    /// Why the order cannot be carried out; the service then continues as before.
    pub(super) fn order(
        &mut self,
        now: Nanos,
        class: StreamId,
        order: ServiceOrder,
        admission: &mut Admission,
    ) -> Result<(), String> {
        let length_max = self.request_bytes_max;
        let service = self.list.iter_mut().find(|service| service.class == class);
        let service = service.ok_or_else(|| String::from("its device has no such service"))?;
        if let ServiceOrder::Run(_, Rates { request: Some(_), .. }) = order
            && !service.spec.kind.row().has_request_length()
        {
            return Err(format!(
                "a {} has no length of requests to set; leave out --request",
                service.spec.kind.row().name
            ));
        }
        let lease = match order {
            ServiceOrder::Run(span, rates) => Some(Lease { runs: true, until: now.after(span), rates }),
            ServiceOrder::Pause(span) => Some(Lease { runs: false, until: now.after(span), rates: Rates::default() }),
            ServiceOrder::Release => None,
        };
        let before = std::mem::replace(&mut service.lease, lease);
        service.reserve(now, admission, length_max, true).map_err(|error| {
            service.lease = before;
            error.to_string()
        })
    }

    /// Ends all services: they make no more requests.
    pub(super) const fn end(&mut self) {
        self.is_ending = true;
    }

    /// Accounts for the time since the last turn. `holds` returns whether the device has had requests of a class since then.
    pub(super) fn begin_turn(&mut self, now: Nanos, mut holds: impl FnMut(StreamId) -> bool) {
        self.now = now;
        for service in &mut self.list {
            if holds(service.class) {
                service.held = service.held.after(now.since(service.looked));
            }
            service.looked = now;
        }
    }

    /// Lets each service make the requests that it may make now.
    ///
    /// `clients` is the number of requests that clients have waiting or with the device.
    pub(super) fn ask(&mut self, backend: &mut dyn Backend, has_failed: bool, clients: usize) {
        let stopped = if self.is_ending { Some(ServiceWait::Ends) } else { has_failed.then_some(ServiceWait::Failed) };
        let scene = Scene { now: self.now, epoch: self.epoch, length_max: self.request_bytes_max, stopped, clients };
        for service in &mut self.list {
            service.ask(&scene, backend, &mut self.events);
        }
    }

    /// Takes note of how many requests clients have at the end of a turn: services that waited for fewer have another turn.
    pub(super) fn end_turn(&mut self, clients: usize) {
        let waits = |service: &&mut Service| service.report.wait == ServiceWait::Clients && !service.yields_to(clients);
        self.list.iter_mut().filter(waits).for_each(|service| service.due = self.now);
    }

    /// Cuts a sub-request in two at an offset within it, and returns the second part.
    pub(super) fn cut(&mut self, sub_request: &mut SubRequest, at: u64) -> SubRequest {
        let first = (at - sub_request.offset) as u32;
        let rest = sub_request.length - first;
        sub_request.length = first;
        if let Some(asked) = self.asked(sub_request) {
            asked.pending += 1;
        }
        SubRequest { offset: at, length: rest, buffer: None, arrived: self.now, tag: None, ..*sub_request }
    }

    fn asked(&mut self, of: &SubRequest) -> Option<&mut Asked> {
        self.list.get_mut((of.connection & !OWN) as usize)?.asked.get_mut(of.request)
    }

    /// Ends a sub-request that was completed or withdrawn.
    pub(super) fn finish(&mut self, sub_request: &SubRequest, result: Result<Outcome, NbdError>) {
        let Some(asked) = self.asked(sub_request) else { return };
        asked.pending -= 1;
        match result {
            Ok(Outcome::Damaged(mut blocks)) => asked.damaged.append(&mut blocks),
            Ok(_) => {}
            Err(NbdError::ShuttingDown) => asked.is_withdrawn = true,
            Err(error) => asked.error = Some(error),
        }
        if asked.pending > 0 {
            return;
        }
        let (now, number) = (self.now, sub_request.request);
        if let Some(service) = self.list.get_mut((sub_request.connection & !OWN) as usize)
            && let Some(asked) = service.asked.remove(number)
        {
            service.ended(now, asked, &mut self.events);
        }
    }

    /// Takes the answer to a query of a service.
    pub(super) fn finish_query(&mut self, service: u32, result: Result<Outcome, NbdError>, backend: &dyn Backend) {
        let Some(service) = self.list.get_mut(service as usize) else { return };
        let extents = if let Ok(Outcome::Extents(extents)) = result { extents } else { Vec::new() };
        service.duty.learn(&extents, backend);
        // A device may answer within the turn of the query, after the services have had their turn.
        service.due = self.now;
    }

    /// The work that each service has done, and its state.
    pub(super) fn reports(&self, backend: &dyn Backend) -> Vec<ServiceReport> {
        let wall = self.epoch.after(self.now);
        self.list.iter().map(|service| service.report(self.now, wall, backend)).collect()
    }
}

/// Values that all services of a device share in one turn.
struct Scene {
    now: Nanos,
    epoch: Nanos,
    length_max: u64,
    stopped: Option<ServiceWait>,
    /// Requests of clients that wait or are with the device.
    clients: usize,
}

const fn remarkable(kind: EventKind, class: StreamId, what: String) -> Event {
    Event::Remarkable(kind, class, None, what)
}

impl Service {
    /// The reason why the service may not work at all, if there is one.
    fn held(&self, stopped: Option<ServiceWait>) -> Option<ServiceWait> {
        match (stopped, self.lease) {
            (Some(_), _) => stopped,
            (None, Some(Lease { runs, .. })) => (!runs).then_some(ServiceWait::Paused),
            (None, None) => (self.spec.default == ServiceDefault::Rest).then_some(ServiceWait::Rests),
        }
    }

    fn say(&self, found: Found, events: &mut VecDeque<Event>) {
        events.extend(found.into_iter().map(|(kind, what)| remarkable(kind, self.class, what)));
    }

    fn ask(&mut self, scene: &Scene, backend: &mut dyn Backend, events: &mut VecDeque<Event>) {
        let Scene { now, epoch, stopped, clients, .. } = *scene;
        let length_max = self.request_bytes_max().min(scene.length_max);
        if self.lease.is_some_and(|lease| lease.until <= now) {
            self.lease = None;
        }
        let wall = epoch.after(now);
        let found = self.duty.look(wall, backend);
        self.say(found, events);
        let becomes_due =
            self.duty.due().filter(|due| *due > wall).map_or(Nanos::NEVER, |due| now.after(due.since(wall)));
        self.due = self.lease.map_or(Nanos::NEVER, |lease| lease.until).min(becomes_due);
        if stopped.is_none()
            && let Some((offset, length)) = self.duty.query()
        {
            events.push_back(Event::Query(Query { service: self.number, offset, length }));
        }
        let held = self.held(stopped);
        if let Some(held) = held {
            if self.report.wait != held {
                self.duty.pause();
                self.withdraw(events);
            }
            self.report.wait = held;
            return;
        }
        if self.yields_to(clients) {
            if self.report.wait != ServiceWait::Clients {
                self.withdraw(events);
            }
            self.report.wait = ServiceWait::Clients;
            return;
        }
        self.report.wait = ServiceWait::Nothing;
        while self.asked.len() < self.depth() as usize {
            let paced = self.paced_until();
            if paced > now {
                self.report.wait = ServiceWait::Rate;
                self.due = self.due.min(paced);
                return;
            }
            match self.duty.next(backend, length_max) {
                Next::Request(piece) => self.request(now, piece, events),
                Next::Wait(wait) => {
                    self.report.wait = wait;
                    return;
                }
                Next::Later(span) => {
                    self.report.wait = ServiceWait::Fails;
                    self.due = self.due.min(now.after(span));
                    return;
                }
            }
        }
    }

    /// Takes back the requests that the scheduler still holds.
    fn withdraw(&self, events: &mut VecDeque<Event>) {
        if self.asked.len() > 0 {
            events.push_back(Event::Gone(OWN | self.number));
        }
    }

    /// Whether the service starts no request beside so many of clients. A reservation is kept beside any number of them.
    fn yields_to(&self, clients: usize) -> bool {
        let rates = self.lease.map_or(Rates::default(), |lease| lease.rates);
        let depth = rates.idle_depth.or(self.spec.idle_depth).filter(|_| rates.reserved.is_none());
        depth.is_some_and(|depth| clients > depth as usize)
    }

    /// The most requests of it at once: an idle class makes one at a time unless its spec says otherwise.
    fn depth(&self) -> u32 {
        let is_idle_class = self.lease.is_some_and(|lease| lease.rates.idle_depth.is_some());
        if is_idle_class { self.spec.depth.unwrap_or(1) } else { self.spec.depth() }
    }

    /// The longest request, by its spec and its lease.
    fn request_bytes_max(&self) -> u64 {
        let leased = self.lease.and_then(|lease| lease.rates.request);
        leased.into_iter().chain(self.spec.request_bytes_max.map(|most| most.0)).min().unwrap_or(u64::MAX)
    }

    fn rate(&self) -> Option<u64> {
        self.lease.and_then(|lease| lease.rates.most)
    }

    /// The time at which the rate allows the next request.
    fn paced_until(&self) -> Nanos {
        let ((from, bytes), Some(rate)) = (self.paced, self.rate()) else { return Nanos::ZERO };
        // A piece is shorter than 4 GiB, and a rate at least a byte a second.
        let span = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        from.after(Nanos(u64::try_from(span).unwrap_or(u64::MAX)))
    }

    fn request(&mut self, now: Nanos, piece: Piece, events: &mut VecDeque<Event>) {
        let Piece { action, offset, length, .. } = piece;
        let (damaged, error, is_withdrawn) = (Vec::new(), None, false);
        let request = self.asked.insert(Asked { piece, arrived: now, pending: 1, damaged, error, is_withdrawn });
        self.paced = (self.paced_until().max(now), if self.rate().is_some() { length } else { 0 });
        events.push_back(Event::Arrived(SubRequest {
            number: 0,
            request,
            connection: OWN | self.number,
            class: self.class.0,
            action,
            scheduled: action.operation(),
            fua: false,
            offset,
            length: length as u32,
            arrived: now,
            tag: None,
            dispatched: None,
            buffer: None,
        }));
    }

    fn ended(&mut self, now: Nanos, asked: Asked, events: &mut VecDeque<Event>) {
        let Asked { piece, arrived, damaged, error, is_withdrawn, .. } = asked;
        self.due = now;
        if is_withdrawn {
            return self.duty.put_back(piece);
        }
        let (operation, result) = (piece.action.operation(), error.map_or(Ok(piece.length), Err));
        let answered = Answered { class: self.class.0, operation, arrived: Some(arrived), result };
        events.push_back(Event::Answered(answered));
        let found = self.duty.ended(piece, &damaged, error, &mut self.report);
        self.say(found, events);
    }

    fn report(&self, now: Nanos, wall: Nanos, backend: &dyn Backend) -> ServiceReport {
        let owed_bytes = self.duty.owed_bytes(backend);
        let due_since = self.duty.due().filter(|due| owed_bytes > 0 && *due <= wall);
        let deadline = self.spec.deadline.map(|deadline| deadline.nanos());
        let late = deadline.zip(due_since).map_or(Nanos::ZERO, |(deadline, due)| wall.since(due.after(deadline)));
        ServiceReport {
            running: owed_bytes > 0 && self.held(None).is_none(),
            waits_because: self.report.wait.words().into(),
            lease_left_seconds: self.lease.map(|lease| lease.until.since(now).as_seconds()),
            reservation_per_second: self.reserved.in_effect(),
            owed_bytes,
            device_seconds: self.held.as_seconds(),
            last_finished: self.duty.finished().map(Nanos::as_seconds),
            due_since: due_since.map(Nanos::as_seconds),
            late_seconds: late.as_seconds(),
            ..self.report.clone()
        }
    }
}
