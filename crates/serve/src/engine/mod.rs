//! The engine of one device: receives its clients' requests, lets the scheduler order them, and has the backend carry them
//! out.
//!
//! A request passes through four components, each of which owns its state: `sessions` receive and decode it and send the
//! replies; `admission` keeps its sub-requests in the scheduler; `dispatch` gives the scheduler's dispatches to the backend;
//! `accounts` counts. Requests of the server itself come from `services`, and go the same way. [`Engine::turn`] connects them: it selects what has happened (a completion, a command, a ready
//! socket), and applies the result to the next component. Only one thing happens at a time, so there is nothing to lock.
//! Time is an argument: only [`Engine::wait`] and the thread around it use a clock.
//!
//! # Order and durability
//!
//! - The scheduler decides the order of requests, even of overlapping requests of one client: NBD leaves it to the server
//!   until it has answered. Every request that arrives after an answer sees the effect of the answered request.
//! - A flush is carried out after every write that was answered before the flush arrived, on any connection, because such
//!   writes have left the backend. So `CAN_MULTI_CONN` holds.
//! - A dispatch with a FUA request is written durably as a whole.
//! - When a connection breaks, its queued requests are withdrawn; those that the backend has end unanswered.

mod accounts;
mod admission;
mod command;
mod commanded;
mod dispatch;
mod hang;
mod pause;
mod services;
mod sessions;
#[cfg(test)]
mod tests;
mod wipe;

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use ioweir_core::tenant::{Share, ShareError};
use ioweir_core::{Nanos, Priority, StreamId, Tier};
use rustix::event::epoll;

use crate::backend::checked::WorkerPool;
use crate::backend::{Action, Backend, Checksums, Outcome, Task, Tiers, UpstreamStatus, Verifier};
use crate::buffer::Pool;
use crate::log::{DeviceLog, EventKind, Peer};
use crate::nbd::{Export, NbdError};
use crate::spec::{self, Holder};
use crate::stream::Poller;

use accounts::Accounts;
pub use accounts::{
    ClassCounters, ClassCounts, Counters, DURATION_BOUNDS, DeviceReport, Durations, LAYERS, OperationCounters, Report,
    Served,
};
use admission::{Admission, SubRequest};
pub use admission::{Call, ClassState, Observer, Stage, WaitCause};
pub use command::{Change, Command, Handle, Layout, Question, Refusal, Timeouts};
pub use dispatch::Failure;
use dispatch::{Completed, Dispatcher};
use hang::Hang;
use pause::Pause;
pub use services::{Rates, ServiceOrder, ServicePlan, ServiceReport, ServiceWait, Shelf};
use services::{Services, is_own};
pub use sessions::{Client, ClientAccount, Mode, Permit, Transport};
use sessions::{Event, Sessions};
use wipe::Wipe;

/// The epoll tokens of descriptors that are not connections.
const TOKEN_WAKE: u64 = u64::MAX;
const TOKEN_BACKEND: u64 = u64::MAX - 1;

/// The message about a device with a failed flush.
pub(crate) const FAILED: &str = "a flush has failed: what was written before may be gone. Writes and flushes fail until it is \
                                 opened again (ioweir ctl SERVER device reopen DEVICE)";

/// The next action of the thread that runs an engine, after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is nothing to do before this time, unless a descriptor becomes ready.
    WaitUntil(Nanos),
    /// The engine has stopped after a command.
    Stopped,
    /// The engine should stop, but its device has not completed its operations. Dropping the engine would wait for them.
    Hung,
}

/// The configuration of an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Every export of the server.
    pub exports: Arc<[Export]>,
    /// The scheduler and its limits.
    pub device: spec::Device,
    /// Workers that devices share, needed if a device without its own is opened again.
    pub workers: Option<Arc<WorkerPool>>,
    /// How long clients may take.
    pub timeouts: Timeouts,
    /// The priority of each class of clients of the server; their numbers are below the length.
    pub priorities: Vec<Priority>,
    /// The classes of this device.
    pub own_classes: Vec<StreamId>,
    /// The services of this device.
    pub services: Vec<ServicePlan>,
    /// The time since 1970 when the engine's time was zero.
    pub epoch: Nanos,
    /// The engine's time.
    pub now: Nanos,
    /// The log for events.
    pub log: DeviceLog,
}

/// The stage of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    No,
    /// Until this time, clients get the replies to their requests.
    Closing(Nanos),
    /// All clients have left; what they wrote is being flushed.
    Flushing,
    Done,
}

/// One device with its scheduler and its clients.
pub struct Engine {
    sessions: Sessions,
    services: Services,
    admission: Admission,
    dispatcher: Dispatcher,
    accounts: Accounts,
    log: DeviceLog,
    commands: Receiver<Command>,
    handle: Handle,
    /// The spec of the backend.
    device: spec::Device,
    workers: Option<Arc<WorkerPool>>,
    ready: Vec<epoll::Event>,
    now: Nanos,
    classes: u32,
    own_classes: Vec<StreamId>,
    /// The numbers of exports that no client can open.
    absent: Vec<usize>,
    shutdown_timeout: Nanos,
    stopping: Stopping,
    /// A change that was tried, and waits for its verdict.
    prepared: Option<Box<Change>>,
    /// The pause for a snapshot, while one is taken.
    pause: Option<Pause>,
    /// Ranges to be wiped, in order.
    wipes: VecDeque<Wipe>,
    /// The time at which the engine ends even if its device has not completed its operations.
    gives_up: Nanos,
    hang: Hang,
    /// Whether the device had operations when the engine was asked to stop, and has completed none since.
    is_stuck: bool,
}

impl Engine {
    /// Makes an engine of an open backend that uses the buffers of `pool`.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn new(settings: Settings, backend: Box<dyn Backend>, pool: Pool) -> io::Result<Self> {
        let Settings { exports, device, workers, timeouts, priorities, own_classes, services, epoch, now, log } =
            settings;
        let classes = priorities.len() as u32; // a server has thousands at most
        let (handle, commands) = Handle::new()?;
        let poller = Poller::new()?;
        poller.add_descriptor(&handle.wake, TOKEN_WAKE, epoll::EventFlags::IN)?;
        watch_all(&poller, backend.descriptors())?;
        let services = Services::new(services, &*backend, (epoch, now), device.request_bytes_max.0)?;
        watch_all(&poller, services.descriptors())?;
        let mut sessions = Sessions::new(exports, &device, pool, poller);
        sessions.set_timeouts(timeouts);
        let mut accounts = Accounts::default();
        services.classes().for_each(|class| accounts.connected(class));
        let mut engine = Self {
            sessions,
            services,
            admission: Admission::new(
                &device,
                backend.tiers().and_then(Tiers::placement).unwrap_or_default(),
                priorities,
            ),
            dispatcher: Dispatcher::new(backend),
            accounts,
            log,
            commands,
            handle,
            device,
            workers,
            ready: Vec::with_capacity(256),
            now,
            classes,
            own_classes,
            absent: Vec::new(),
            shutdown_timeout: timeouts.shutdown,
            stopping: Stopping::No,
            prepared: None,
            pause: None,
            wipes: VecDeque::new(),
            gives_up: Nanos::NEVER,
            hang: Hang::default(),
            is_stuck: false,
        };
        engine.divide_room();
        engine.report_remarks();
        Ok(engine)
    }

    /// A handle to send it commands.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Sets the exports and the shares of classes, before the first client connects.
    ///
    /// # Errors
    /// If a share is not feasible.
    pub fn configure(&mut self, exports: Arc<[Export]>, shares: &[(Holder, Share)]) -> Result<(), ShareError> {
        self.sessions.set_exports(exports);
        self.admission.set_shares(self.now, shares).map_err(|refusal| refusal.error)?;
        self.divide_room();
        Ok(())
    }

    /// Divides the memory for data among the classes of the device by their weights.
    fn divide_room(&mut self) {
        let mut weights = vec![0; self.classes as usize];
        let tenants = self.admission.driver().scheduler().tenants();
        for class in &self.own_classes {
            weights[class.0 as usize] = tenants.map_or(1, |tenants| tenants.share(*class).weight);
        }
        self.sessions.divide_room(&weights);
    }

    /// Shows every call of the scheduler to an observer; set before the first client connects.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.admission.observe(observer);
    }

    /// Logs the backend's messages.
    fn report_remarks(&mut self) {
        for (kind, what) in self.dispatcher.backend_mut().remarks() {
            self.log.report(self.now, kind.into(), &what);
        }
    }

    /// The failure of the device, if it has failed.
    #[must_use]
    pub const fn failure(&self) -> Option<Failure> {
        self.dispatcher.failure()
    }

    /// The blocks whose checksums the device has checked, if it keeps checksums.
    #[must_use]
    pub fn checksums(&self) -> Option<Checksums> {
        self.dispatcher.backend().verifier().map(Verifier::counts)
    }

    /// The state of the device's upstream, if it has one.
    #[must_use]
    pub fn upstream(&self) -> Option<UpstreamStatus> {
        self.dispatcher.backend().upstream()
    }

    /// The number of its clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.sessions.connections()
    }

    /// The number of unanswered requests.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.sessions.requests()
    }

    /// Bytes of buffers in use.
    #[must_use]
    pub const fn buffered_bytes(&self) -> u64 {
        self.sessions.buffered_bytes()
    }

    /// The memory that connections take beside buffers: for requests that are not decoded, and for the heads of replies.
    #[must_use]
    pub fn connection_bytes(&self) -> usize {
        self.sessions.connection_bytes()
    }

    /// Bytes of buffers that are kept for later.
    #[must_use]
    pub const fn free_bytes(&self) -> u64 {
        self.sessions.free_bytes()
    }

    /// Adds a client.
    pub fn connect(&mut self, client: Client) {
        self.accounts.connected(client.class);
        self.sessions.connect(client);
        self.apply_events();
    }

    /// Waits until a descriptor becomes ready, at most for `span`.
    ///
    /// # Errors
    /// If the system refuses to wait.
    pub fn wait(&mut self, span: Nanos) -> io::Result<()> {
        // If the backend itself has waited, no time is left to wait for clients.
        let span = if self.dispatcher.backend_mut().rest(span)? { Nanos::ZERO } else { span };
        self.ready.clear();
        self.sessions.poller().wait(&mut self.ready, span)
    }

    /// Whether a descriptor was ready when it last waited.
    #[must_use]
    pub const fn is_woken(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Does everything that can be done at `now`, which never goes back.
    ///
    /// # Errors
    /// If the backend has failed as a whole.
    pub fn turn(&mut self, now: Nanos) -> io::Result<Turn> {
        self.now = now;
        let backend = self.dispatcher.backend();
        self.sessions.begin_turn(now, [false, true].map(|keep| backend.writes_zeroes(keep)));
        let driver = self.admission.driver();
        self.services.begin_turn(now, |class| driver.class(class).in_flight > 0);
        // Completions come before arrivals of the same moment, as in the simulator.
        let mut has_completed = self.complete()?;
        for at in 0..self.ready.len() {
            let (token, flags) = (self.ready[at].data.u64(), self.ready[at].flags);
            match token {
                TOKEN_WAKE => self.handle_commands(),
                TOKEN_BACKEND => {}
                token => self.sessions.serve_socket(token, flags),
            }
            self.apply_events();
        }
        self.ready.clear();
        self.sessions.check_stalls();
        if matches!(self.stopping, Stopping::Closing(until) if now >= until) {
            self.sessions.hang_up_all();
        }
        self.sessions.continue_ranges();
        let has_failed = self.dispatcher.failure().is_some();
        let clients = self.sessions.requests();
        self.services.ask(self.dispatcher.backend_mut(), has_failed, clients);
        self.apply_events();
        self.services.reserve(&mut self.admission);
        loop {
            self.work(has_completed)?;
            self.sessions.send_all();
            self.apply_events();
            if !self.sessions.can_resume() {
                break;
            }
            has_completed = false;
        }
        self.services.end_turn(self.sessions.requests());
        self.continue_stopping()?;
        self.report_remarks();
        if self.stopping == Stopping::Done {
            return Ok(Turn::Stopped);
        }
        if now >= self.gives_up || self.is_hung() {
            return Ok(Turn::Hung);
        }
        self.admission.settle(now);
        let hang_due = self.look_for_hang();
        // During a pause the scheduler is not polled, so the time at which it asked to be polled may be past.
        let admission_due = if self.pause.is_some() { self.pause_due() } else { self.admission.due() };
        let mut next = admission_due.min(self.dispatcher.backend().due()).min(self.sessions.due());
        next = next.min(self.services.due()).min(self.gives_up).min(hang_due);
        if let Stopping::Closing(until) = self.stopping
            && until > now
        {
            next = next.min(until);
        }
        Ok(Turn::WaitUntil(next))
    }

    /// Decodes, dispatches and completes until nothing more can be done.
    fn work(&mut self, mut has_completed: bool) -> io::Result<()> {
        loop {
            has_completed |= self.complete()?;
            self.sessions.resume_decoding();
            self.apply_events();
            self.tend_pause();
            self.tend_wipes();
            while self.pause.is_none()
                && let Some((dispatch, members)) = self.admission.poll(self.now, &mut self.accounts)
            {
                self.dispatcher.begin(self.now, dispatch, members, self.sessions.pool());
            }
            if !self.dispatcher.submit()? && !has_completed {
                return Ok(());
            }
            has_completed = false;
        }
    }

    /// Applies the events of clients.
    fn apply_events(&mut self) {
        let Self { sessions, services, admission, dispatcher, accounts, now, log, .. } = self;
        loop {
            while let Some(sub_request) = admission.next_rejected() {
                finish(sessions, services, sub_request, Err(NbdError::Invalid));
            }
            let Some(event) = sessions.next_event().or_else(|| services.next_event()) else { return };
            match event {
                Event::Arrived(sub_request) => {
                    if is_own(&sub_request) {
                        services.count_cost(&sub_request, admission.expected_cost(&sub_request));
                    }
                    admission.arrive(*now, sub_request, &mut |first, at| cut(sessions, services, first, at));
                }
                Event::Query(query) => dispatcher.query(*now, query),
                Event::Answered(answered) => accounts.answered(*now, &answered),
                Event::Refused(class, error) => accounts.refused(class, error),
                Event::Remarkable(kind, class, peer, what) => {
                    log.report_client(*now, kind, class, (peer, None), &what);
                }
                Event::Gone(connection) => {
                    for sub_request in admission.withdraw(*now, connection) {
                        finish(sessions, services, sub_request, Err(NbdError::ShuttingDown));
                    }
                    // Withdrawn requests leave room in the scheduler.
                    admission.retry(*now, &mut |first, at| cut(sessions, services, first, at));
                }
            }
        }
    }

    /// Applies the backend's completions, and admits what waited for them; returns whether there were any.
    fn complete(&mut self) -> io::Result<bool> {
        let had_failed = self.dispatcher.failure().is_some();
        let Self { sessions, services, admission, dispatcher, accounts, now, log, .. } = self;
        let has_completed = dispatcher.collect(*now)?;
        if !had_failed && dispatcher.failure().is_some() {
            log.report(*now, EventKind::DeviceFailed, FAILED);
        }
        if !has_completed {
            return Ok(false);
        }
        self.is_stuck = false;
        let (mut flushed, mut wiped) = (None, None);
        while let Some(completed) = dispatcher.next_completed() {
            match completed {
                Completed::SubRequest(sub_request, result, cores) => {
                    let is_own = is_own(&sub_request);
                    let result = if is_own { result } else { result.and_then(Outcome::for_client) };
                    if let (Err(error), false) = (&result, is_own) {
                        report_failure(log, *now, &sub_request, sessions.peer(sub_request.connection), *error);
                    }
                    accounts.completed(*now, &sub_request, cores);
                    if is_own && result.is_ok() && sub_request.action == Action::Serve(Task::Relocate(Tier::Fast)) {
                        admission.placed(sub_request.offset, sub_request.length);
                    }
                    admission.reached(*now, sub_request.number, Stage::Completed(cores));
                    finish(sessions, services, sub_request, result);
                }
                Completed::Dispatch(dispatch) => admission.complete(*now, &dispatch),
                Completed::Query(service, result) => services.finish_query(service, result, dispatcher.backend()),
                // Only one piece of a wipe is under way at a time.
                Completed::Wipe(result) => wiped = Some(result),
                Completed::LastFlush => self.stopping = Stopping::Done,
                Completed::FlushForPause(is_done) => flushed = Some(is_done),
            }
        }
        dispatcher.begin_deferred(*now, sessions.pool());
        admission.retry(*now, &mut |first, at| cut(sessions, services, first, at));
        self.apply_events();
        if let Some(result) = wiped {
            self.wiped(result);
        }
        if let Some(is_done) = flushed {
            self.flushed_for_pause(is_done);
        }
        Ok(true)
    }

    /// Whether the device hangs, so that it gets no time for the last flush: it has had the time of its clients, and has not completed a
    /// single read or write of those in flight before. A working device may need that long for a flush or a discard, so they do not count.
    fn is_hung(&self) -> bool {
        let is_over = matches!(self.stopping, Stopping::Closing(until) if self.now >= until);
        is_over && self.is_stuck && self.dispatcher.moves_data_only()
    }

    /// Flushes once all clients have left; the backend may still have their last writes.
    fn continue_stopping(&mut self) -> io::Result<()> {
        let is_closed = self.sessions.connections() == 0 && self.dispatcher.in_flight() == 0;
        if matches!(self.stopping, Stopping::Closing(_)) && is_closed {
            self.stopping = Stopping::Flushing;
            self.dispatcher.flush_last(self.now);
            self.work(false)?;
        }
        Ok(())
    }
}

/// Ends a sub-request of a client or a service.
fn finish(
    sessions: &mut Sessions,
    services: &mut Services,
    mut sub_request: SubRequest,
    result: Result<Outcome, NbdError>,
) {
    if !is_own(&sub_request) {
        return sessions.finish(sub_request, result);
    }
    if let Some(buffer) = sub_request.buffer.take() {
        sessions.pool().give(buffer);
    }
    services.finish(&sub_request, result);
}

/// Cuts a sub-request of a client or a service in two, and returns the second part.
fn cut(sessions: &mut Sessions, services: &mut Services, first: &mut SubRequest, at: u64) -> SubRequest {
    if is_own(first) { services.cut(first, at) } else { sessions.cut(first, at) }
}

/// Logs a failed operation, unless the client asked for something impossible.
#[cold]
fn report_failure(log: &DeviceLog, now: Nanos, sub_request: &SubRequest, peer: Option<Peer>, error: NbdError) {
    if matches!(error, NbdError::InputOutput | NbdError::NoSpace | NbdError::OutOfMemory) {
        let SubRequest { length, offset, class, .. } = *sub_request;
        let what = format!("{} of {length} bytes at {offset} failed", sub_request.operation().name());
        log.report_client(now, EventKind::OperationFailed, StreamId(class), (peer, Some(error)), &what);
    }
}

/// Has descriptors of the backend or of services wake the engine.
fn watch_all(poller: &Poller, descriptors: Vec<BorrowedFd<'_>>) -> io::Result<()> {
    for descriptor in descriptors {
        // Edge-triggered: every turn polls the backend, which need not read the descriptor that woke the engine.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        match poller.add_descriptor(descriptor, TOKEN_BACKEND, flags) {
            // The descriptor may be watched already.
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
