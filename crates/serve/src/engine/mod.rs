//! What does one device do all day? Its thread takes requests in, asks the scheduler, and hands on what comes back.
//!
//! One turn of [`Engine::turn`]: what the backend has finished is completed, requests that came in are submitted, the
//! scheduler is polled until it waits, what it dispatched is begun as one batch, and the replies to each client are sent
//! in one call. Only one thing happens at a time, so there is nothing to lock. Time is an argument: [`Engine::wait`] and
//! the thread around it are all that knows of a clock.
//!
//! # Order and durability
//!
//! - The order of requests is the scheduler's, also between requests of one client that overlap: NBD lets a server choose
//!   until it has answered. What was answered is seen by every request that comes after the answer.
//! - No two operations that overlap are with the backend at the same time, unless both read: a dispatch that overlaps one
//!   that is still on its way (rounded to 4 KiB) waits for it. Every block therefore changes at one moment.
//! - A flush is carried out after every write that was answered before it came, on whichever connection, because those
//!   have left the backend. So `CAN_MULTI_CONN` holds.
//! - FUA does not let a request pass the scheduler by, as it does in Linux: whoever set it on everything would not be
//!   scheduled at all. The unit that carries it is written durably as a whole.
//! - A connection that breaks takes its requests along that are still queued; those with the backend end unanswered.

mod admit;
mod books;
mod change;
mod connection;
mod dispatch;
mod observe;
mod outbox;
mod service;
mod tally;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use ioweir_core::policy::Policy;
use ioweir_core::tenant::{Share, ShareError};
use ioweir_core::{Dispatch, Nanos, Operation, QueueLimits, SECTOR_BYTES, Tag};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use crate::backend::{Backend, Checksums, Done};
use crate::buffer::{Buffer, Pool};
use crate::nbd::reply::Reply;
use crate::nbd::{Agreed, Command, Export, NbdError};
use crate::slots::Slots;
use crate::spec::{self, Holder};

use books::Books;
pub use books::{Because, Question, Report, Standing};
pub use change::{Change, Refusal};
use connection::Connection;
pub use connection::{Client, Seat};
pub use observe::{Call, Observer};
pub use tally::{ClassCounts, ClassTally, DURATION_BOUNDS, Durations, OperationTally, Tally};

/// What epoll says of something that is no connection.
const TOKEN_WAKE: u64 = u64::MAX;
const TOKEN_BACKEND: u64 = u64::MAX - 1;
/// Set where a connection's answers go elsewhere than its requests come from.
const TOKEN_OUTPUT: u64 = 1 << 32;

/// What an engine is told from outside.
#[derive(Debug)]
pub enum Order {
    /// Here is a client.
    Serve(Box<Client>),
    /// Others are entitled to something else from now on, if everybody concerned can do it.
    Change(Box<Change>),
    /// What have you done, and how do things stand?
    Report(Question),
    /// Finish what has begun, and stop.
    Stop,
}

/// The way to talk to an engine from another thread.
#[derive(Clone, Debug)]
pub struct Handle {
    orders: Sender<Order>,
    wake: Arc<OwnedFd>,
}

impl Handle {
    /// Gives an order. An engine that has ended hears nothing.
    pub fn give(&self, order: Order) {
        if self.orders.send(order).is_ok() {
            // A full counter is a woken engine.
            let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        }
    }
}

/// How an engine goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing to do before this time, unless something becomes readable.
    WaitUntil(Nanos),
    /// It was told to stop, and has.
    Stopped,
}

/// What an engine has to know of its device and its server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Every export of the server.
    pub exports: Arc<[Export]>,
    /// The scheduler and its limits.
    pub device: spec::Device,
    /// How long a client may leave something half done.
    pub stall_timeout: Nanos,
    /// How long requests may take to finish once it is told to stop.
    pub shutdown_timeout: Nanos,
}

/// A request that was taken in and not answered.
#[derive(Debug)]
struct Live {
    connection: u32,
    class: u32,
    command: Command,
    /// What it is to the scheduler; none where it passes that by.
    operation: Option<Operation>,
    flags: u16,
    cookie: u64,
    offset: u64,
    length: u64,
    /// What is still to come of a range that is trimmed or zeroed.
    range_left: u64,
    /// When it was there, with the data of its first part.
    arrived: Option<Nanos>,
    /// Parts on their way, and one more while data is still coming in.
    parts_left: u32,
    is_split: bool,
    error: Option<NbdError>,
    /// What was read of a reply that is sent as a whole.
    gathered: Vec<(u64, Buffer)>,
}

impl Live {
    const fn reply(&self, agreed: Agreed) -> Reply {
        Reply { replies: agreed.replies, command: self.command, cookie: self.cookie, offset: self.offset }
    }
}

/// What the scheduler sees of a request, or of a part of a long one.
#[derive(Debug)]
struct Part {
    live: u32,
    class: u32,
    operation: Operation,
    arrived: Nanos,
    dispatched: Option<Nanos>,
    offset: u64,
    length: u32,
    /// The data of a write.
    buffer: Option<Buffer>,
    tag: Option<Tag>,
}

/// What the scheduler has dispatched.
#[derive(Debug)]
struct Unit {
    dispatch: Dispatch,
    /// First and last-but-one block of 4 KiB.
    blocks: (u64, u64),
    writes: bool,
    runs_left: u32,
}

/// One operation of the backend.
#[derive(Debug)]
enum Run {
    /// A unit that is one request.
    One(u32, Tag),
    /// Requests of a unit that lie one behind the other.
    Many(u32, Vec<Tag>),
    /// A request that did not pass the scheduler.
    Beside(u32),
    /// The last flush before the end.
    Last,
}

/// Where a stop stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    No,
    /// Connections are let go, at the latest at this time.
    Closing(Nanos),
    /// All are gone; what they wrote is flushed.
    Flushing,
    Done,
}

/// One device with its scheduler and its clients.
pub struct Engine {
    settings: Settings,
    scheduler: Policy,
    observer: Option<Box<dyn Observer>>,
    remarks: Option<Sender<String>>,
    books: Books,
    backend: Box<dyn Backend>,
    pool: Pool,
    buffer_bytes: u64,
    connections: Slots<Connection>,
    lives: Slots<Live>,
    /// By slot of the tag.
    parts: Vec<Option<Part>>,
    /// What finds no room in the scheduler, by direction, first come first served.
    held: [VecDeque<Part>; 2],
    units: Slots<Unit>,
    runs: Slots<Run>,
    /// Units with the backend.
    busy: Vec<u32>,
    /// Units that wait for one that they overlap.
    deferred: VecDeque<u32>,
    done: Vec<Done>,
    /// Connections with something to send.
    dirty: Vec<u32>,
    /// Connections that may go on with what was read from them.
    resumable: Vec<u32>,
    /// Connections that wait until others hold less data.
    starved: Vec<u32>,
    /// Requests whose range goes on with the next turn.
    ranges: Vec<u32>,
    /// Whether something was begun since the backend was last asked.
    has_begun: bool,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    orders: Receiver<Order>,
    handle: Handle,
    now: Nanos,
    timer: Nanos,
    stall_check: Nanos,
    stopping: Stopping,
}

impl Engine {
    /// An engine over an open backend, whose buffers are those of `pool`.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new(settings: Settings, backend: Box<dyn Backend>, pool: Pool) -> io::Result<Self> {
        let device = &settings.device;
        let fast = backend.fast_tier().unwrap_or_default();
        let limits = QueueLimits {
            members: device.queue_requests.saturating_mul(2),
            // Bounded by what a spec takes.
            unit_sectors_max: (device.request_bytes_max.0 / SECTOR_BYTES) as u32,
            merge: device.merge,
            depth: device.depth,
            fast_depth: fast.depth,
            fast_sectors: fast.sectors,
            fast_block_sectors: fast.block_sectors,
            ..QueueLimits::with_units(device.queue_requests)
        };
        let mut scheduler = device.scheduler.row.build(limits, &device.scheduler.settings);
        for extent in fast.placed {
            // Where the policy holds no more extents it takes the rest for the slow device's; the backend knows better.
            scheduler.place(extent.start, extent.end);
        }
        let (sender, orders) = channel();
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(TOKEN_WAKE), epoll::EventFlags::IN)?;
        for descriptor in backend.descriptors() {
            // Told once: a backend is asked in every turn, and need not read what has woken us.
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&epoll, descriptor, epoll::EventData::new_u64(TOKEN_BACKEND), flags)?;
        }
        let slots = device.queue_requests.saturating_mul(2) as usize;
        Ok(Self {
            scheduler,
            observer: None,
            remarks: None,
            books: Books::default(),
            backend,
            pool,
            buffer_bytes: 0,
            connections: Slots::default(),
            lives: Slots::default(),
            parts: (0..slots).map(|_| None).collect(),
            held: Default::default(),
            units: Slots::default(),
            runs: Slots::default(),
            busy: Vec::new(),
            deferred: VecDeque::new(),
            done: Vec::new(),
            dirty: Vec::new(),
            resumable: Vec::new(),
            starved: Vec::new(),
            ranges: Vec::new(),
            has_begun: false,
            epoll,
            events: Vec::with_capacity(256),
            orders,
            handle: Handle { orders: sender, wake },
            now: Nanos::ZERO,
            timer: Nanos::NEVER,
            stall_check: Nanos::NEVER,
            stopping: Stopping::No,
            settings,
        })
    }

    /// The way to talk to it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Says what there is to serve, and what which class is entitled to. To be called before the first client comes.
    ///
    /// # Errors
    /// A share that cannot be had.
    pub fn show(&mut self, exports: Arc<[Export]>, shares: &[(Holder, Share)]) -> Result<(), ShareError> {
        self.settings.exports = exports;
        self.entitle(shares).map_err(|refusal| refusal.error)
    }

    /// Lets somebody see what the scheduler is told and asked. To be called before the first client comes.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// Has somebody told what people should know of its device.
    pub fn tell(&mut self, remarks: Sender<String>) {
        self.remarks = Some(remarks);
        self.hand_on_remarks();
    }

    fn hand_on_remarks(&mut self) {
        if let Some(listener) = &self.remarks {
            let name = &self.settings.device.name;
            for remark in self.backend.remarks() {
                // Nobody has to listen.
                let _ = listener.send(format!("device {name}: {remark}"));
            }
        }
    }

    /// What its device has checked, where it does.
    #[must_use]
    pub fn checksums(&self) -> Option<Checksums> {
        self.backend.checksums()
    }

    fn called(&mut self, call: &Call) {
        if let Some(observer) = &mut self.observer {
            observer.called(self.now, call);
        }
    }

    /// Clients that it serves.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.connections.len()
    }

    /// Requests that were taken in and not answered.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.lives.len()
    }

    /// Bytes of data on their way.
    #[must_use]
    pub const fn buffered_bytes(&self) -> u64 {
        self.buffer_bytes
    }

    /// Waits until something becomes readable, at most for `span`.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn wait(&mut self, span: Nanos) -> io::Result<()> {
        // After a rest it is looked at clients, and not waited for them.
        let span = if self.backend.rest(span)? { Nanos::ZERO } else { span };
        let seconds = (span.0 / 1_000_000_000).cast_signed();
        let timeout = (span != Nanos::NEVER)
            .then_some(Timespec { tv_sec: seconds, tv_nsec: (span.0 % 1_000_000_000).cast_signed() });
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(rustix::io::Errno::NOSYS) => {
                Err(io::Error::other("epoll_pwait2 is missing: Linux 5.11 or later is needed"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Does all there is to do at `now`, which never goes back.
    ///
    /// # Errors
    /// The backend cannot be talked to any more.
    pub fn turn(&mut self, now: Nanos) -> io::Result<Turn> {
        self.now = now;
        // What is finished comes before what arrives at the same moment, as in the simulator.
        if self.complete()? {
            self.has_begun = true;
        }
        let mut events = std::mem::take(&mut self.events);
        for event in &events {
            match event.data.u64() {
                TOKEN_WAKE => self.hear_orders(),
                TOKEN_BACKEND => {}
                token => self.serve_socket((token & (TOKEN_OUTPUT - 1)) as u32, event.flags),
            }
        }
        events.clear();
        self.events = events;
        self.check_stalls();
        self.check_stopping();
        self.go_on_with_ranges();
        loop {
            self.work()?;
            self.send_all();
            if self.resumable.is_empty() {
                break;
            }
        }
        self.go_on_stopping()?;
        if self.stopping == Stopping::Done {
            return Ok(Turn::Stopped);
        }
        self.books.look(self.now, &self.scheduler);
        let mut next = self.timer.min(self.backend.due()).min(self.stall_check);
        if let Stopping::Closing(until) = self.stopping
            && until > self.now
        {
            next = next.min(until);
        }
        if !self.ranges.is_empty() {
            next = self.now;
        }
        Ok(Turn::WaitUntil(next))
    }

    /// Completes, submits, polls and begins until nothing more comes of it.
    fn work(&mut self) -> io::Result<()> {
        loop {
            let is_news = self.complete()?;
            while let Some(slot) = self.resumable.pop() {
                self.digest(slot);
            }
            self.drain();
            self.backend.submit()?;
            if !std::mem::take(&mut self.has_begun) && !is_news {
                return Ok(());
            }
        }
    }

    /// Completes what the backend has finished, and lets those in who waited for that; answers whether there was anything.
    fn complete(&mut self) -> io::Result<bool> {
        let mut done = std::mem::take(&mut self.done);
        self.backend.collect(self.now, &mut done)?;
        let is_news = !done.is_empty();
        for done in done.drain(..) {
            self.finish(done);
        }
        self.done = done;
        if is_news {
            self.begin_deferred();
            self.submit_held();
            self.hand_on_remarks();
        }
        Ok(is_news)
    }

    fn hear_orders(&mut self) {
        let mut count = [0; 8];
        // Nothing to read is nothing to do.
        let _ = rustix::io::read(&*self.handle.wake, &mut count);
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Serve(client) if self.stopping == Stopping::No => self.connect(*client),
                Order::Serve(_) => {}
                Order::Change(change) => self.change(*change),
                Order::Report(question) => self.report(question),
                Order::Stop => self.begin_stopping(),
            }
        }
    }

    fn begin_stopping(&mut self) {
        if self.stopping == Stopping::No {
            self.stopping = Stopping::Closing(self.now.after(self.settings.shutdown_timeout));
            let slots: Vec<u32> = self.connections.iter().map(|(slot, _)| slot).collect();
            for slot in slots {
                self.let_go(slot);
            }
        }
    }

    /// Whoever is not done when time is up is let down.
    fn check_stopping(&mut self) {
        if let Stopping::Closing(until) = self.stopping
            && self.now >= until
        {
            let slots: Vec<u32> = self.connections.iter().map(|(slot, _)| slot).collect();
            for slot in slots {
                self.abandon(slot);
            }
        }
    }

    /// Flushes once all are gone; writes of those who left early may still be with the backend.
    fn go_on_stopping(&mut self) -> io::Result<()> {
        if matches!(self.stopping, Stopping::Closing(_)) && self.connections.len() == 0 && self.units.len() == 0 {
            self.stopping = Stopping::Flushing;
            self.flush_at_end();
            self.backend.submit()?;
            return self.work();
        }
        Ok(())
    }
}
