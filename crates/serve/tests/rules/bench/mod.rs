//! A bench for tests: an engine without its thread, with clients on socket pairs and time that the test sets.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, Priority, StreamId};
use ioweir_serve::backend::{self, Backend};
use ioweir_serve::buffer::Pool;
use ioweir_serve::engine::{
    Change, Client, Command, Counters, Engine, Question, Report, ServiceOrder, ServicePlan, ServiceReport, Settings,
    Shelf, Timeouts, Turn,
};
use ioweir_serve::log::{DeviceLog, EventKind, Log, Peer as PeerName};
use ioweir_serve::nbd::protocol::CONTEXT_ALLOCATION_ID;
use ioweir_serve::nbd::{Agreed, Contexts, Export, Replies};
use ioweir_serve::spec::{Device, Holder, Service, Spec};

/// The device of a spec with these keys.
pub(crate) fn device(keys: &str) -> Device {
    let text = format!("[[device]]\nname = \"d\"\n{keys}\n[[export]]\nname = \"a\"\ndevice = \"d\"\n");
    let mut spec = Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
    spec.device.remove(0)
}

/// The default timeouts of a server whose spec sets none.
pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    stall: Nanos::from_seconds(30),
    idle: Nanos::NEVER,
    reading_bytes_per_second: 16 << 10,
    shutdown: Nanos::from_seconds(10),
    clients_max: 64,
};

/// The exports of a bench, and whether they are read only.
const EXPORTS: [(&str, bool); 3] = [("a", false), ("b", false), ("c", true)];

/// The time since 1970 at which the engine's clock is zero.
pub(crate) const EPOCH: Nanos = Nanos::from_seconds(1_700_000_000);

/// An engine, and the clock that it sees.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    log: Log,
    /// The name of the device in the log.
    pub(crate) name: String,
    exports: Arc<[Export]>,
    pub(crate) now: Nanos,
    pub(crate) stopped: bool,
    pub(crate) hung: bool,
}

impl Bench {
    pub(crate) fn new(keys: &str) -> Self {
        Self::with_priorities(keys, [Priority::NONE; 3])
    }

    /// A bench with so many equal exports of its whole device.
    pub(crate) fn with_exports(keys: &str, count: usize) -> Self {
        let device = device(keys);
        let mut pool = Pool::new(device.request_bytes_max.0 as usize);
        let backend = backend::open(&device, pool.registered(), None).unwrap_or_else(|error| panic!("{error}"));
        let names: Vec<String> = (0..count).map(|number| format!("export {number}")).collect();
        let exports: Vec<_> = names.iter().map(|name| (name.as_str(), false)).collect();
        Self::made(device, backend, pool, (&exports, vec![Priority::NONE; count], Vec::new()))
    }

    /// A bench with these priorities of its classes.
    pub(crate) fn with_priorities(keys: &str, priorities: [Priority; 3]) -> Self {
        let device = device(keys);
        let mut pool = Pool::new(device.request_bytes_max.0 as usize);
        let backend = backend::open(&device, pool.registered(), None).unwrap_or_else(|error| panic!("{error}"));
        Self::of(device, backend, pool, priorities)
    }

    pub(crate) fn over(device: Device, backend: Box<dyn Backend>, pool: Pool) -> Self {
        Self::of(device, backend, pool, [Priority::NONE; 3])
    }

    /// A bench with services, the first of which is the fourth class.
    pub(crate) fn with_services(
        device: Device,
        backend: Box<dyn Backend>,
        services: impl IntoIterator<Item = (Service, Option<PathBuf>)>,
    ) -> Self {
        let plan = |(number, (spec, state)): (u32, (Service, Option<PathBuf>))| {
            let state = state.map(|path| Arc::new(path) as Arc<dyn Shelf>);
            ServicePlan { class: StreamId(number), spec, state }
        };
        let services = (3..).zip(services).map(plan).collect();
        let pool = Pool::new(device.request_bytes_max.0 as usize);
        Self::made(device, backend, pool, (&EXPORTS, vec![Priority::NONE; 3], services))
    }

    fn of(device: Device, backend: Box<dyn Backend>, pool: Pool, priorities: [Priority; 3]) -> Self {
        Self::made(device, backend, pool, (&EXPORTS, priorities.to_vec(), Vec::new()))
    }

    fn made(
        device: Device,
        backend: Box<dyn Backend>,
        pool: Pool,
        (exports, mut priorities, services): (&[(&str, bool)], Vec<Priority>, Vec<ServicePlan>),
    ) -> Self {
        let size_bytes = backend.size_bytes();
        let export = |&(name, read_only): &(&str, bool)| Export {
            name: name.into(),
            offset_bytes: 0,
            description: String::new(),
            size_bytes,
            read_only,
            block_bytes_min: 1,
            block_bytes_preferred: 4096,
            trims: true,
        };
        let class_names = exports.iter().map(|(name, _)| *name).chain(["service"]).map(String::from).collect();
        let exports: Arc<[Export]> = exports.iter().map(export).collect();
        // The last class is for a service.
        priorities.push(Priority::NONE);
        static BENCHES: AtomicU32 = AtomicU32::new(0);
        let name = format!("bench {}", BENCHES.fetch_add(1, Ordering::Relaxed));
        let log = Log::default();
        let settings = Settings {
            exports: exports.clone(),
            device,
            workers: None,
            timeouts: TIMEOUTS,
            own_classes: (0..priorities.len() as u32).map(StreamId).collect(),
            priorities,
            services,
            epoch: EPOCH,
            now: Nanos::ZERO,
            log: DeviceLog { log: log.clone(), device: name.clone(), classes: class_names },
        };
        let engine = Engine::new(settings, backend, pool).expect("descriptors");
        Self { engine, log, name, exports, now: Nanos::ZERO, stopped: false, hung: false }
    }

    /// The engine's counters since the last report, and its state.
    pub(crate) fn report(&mut self) -> Report {
        let (sender, answer) = channel();
        let reply = Box::new(move |report: Report| sender.send(report).expect("somebody listens"));
        let question = Question { counters: Box::<Counters>::default(), reply };
        self.engine.handle().send(Command::Report(question));
        self.turn();
        answer.recv().expect("it reports")
    }

    /// The reports of the device's services, in their order.
    pub(crate) fn services(&mut self) -> Vec<ServiceReport> {
        self.report().device.services
    }

    /// Gives an order to the service of a class.
    pub(crate) fn order(&mut self, class: u32, order: ServiceOrder) {
        let (sender, answer) = channel();
        self.engine.handle().send(Command::Service(StreamId(class), order, sender));
        self.turn();
        answer.recv().expect("it answers").expect("there is such a service");
    }

    /// Runs turns until `is_over` is true, at most this many; time jumps to the next due event.
    pub(crate) fn turn_until(&mut self, turns_max: u32, mut is_over: impl FnMut(&mut Self) -> bool) {
        for _ in 0..turns_max {
            if is_over(self) {
                return;
            }
            let due = self.turn();
            if due == Nanos::NEVER || due > self.now.after(Nanos::from_seconds(20)) {
                // Threads and the kernel take their time.
                self.engine.wait(Nanos::from_millis(1)).expect("can be waited for");
            } else {
                self.now = self.now.max(due);
            }
        }
        panic!("it is not over after {turns_max} turns");
    }

    /// Events of a kind, written or not.
    pub(crate) fn count(&self, kind: EventKind) -> u64 {
        self.log.counts().find(|(its, _)| *its == kind).map_or(0, |(_, count)| count)
    }

    /// Gives a class, which may be an export's number, another share.
    pub(crate) fn entitle(&mut self, class: StreamId, share: Share) {
        self.engine.configure(self.exports.clone(), &[(Holder::Class(class), share)]).expect("it can be had");
    }

    /// Changes shares while the engine serves, as the controller does; a change that is `kept` gets its verdict.
    pub(crate) fn change(&mut self, shares: Vec<(Holder, Share)>, services: Vec<Service>, is_kept: bool) {
        self.change_all(shares, services, TIMEOUTS, is_kept);
    }

    /// Lets it have so many clients, among whom its memory is divided.
    pub(crate) fn clients_max(&mut self, clients_max: u32) {
        self.change_all(Vec::new(), Vec::new(), Timeouts { clients_max, ..TIMEOUTS }, true);
    }

    fn change_all(&mut self, shares: Vec<(Holder, Share)>, services: Vec<Service>, timeouts: Timeouts, is_kept: bool) {
        let (prepared, hear) = channel();
        let (verdict, wait) = channel();
        let priorities = vec![Priority::NONE; 4];
        let change = Change { shares, priorities, timeouts, services, exports: None, prepared, verdict: wait };
        if is_kept {
            verdict.send(()).expect("it listens");
        }
        drop(verdict);
        self.engine.handle().send(Command::Change(Box::new(change)));
        self.turn();
        hear.recv().expect("it answers").expect("it can be had");
    }

    pub(crate) fn connect(&mut self, export: usize, structured: bool) -> Peer {
        self.connect_for(export, if structured { Replies::Structured } else { Replies::Simple })
    }

    pub(crate) fn connect_for(&mut self, export: usize, replies: Replies) -> Peer {
        let contexts = if replies.has_chunks() { Contexts::of(&[CONTEXT_ALLOCATION_ID]) } else { Contexts::NONE };
        self.connect_as(Agreed { export, replies, contexts })
    }

    /// A client with structured replies that has selected these contexts.
    pub(crate) fn connect_with(&mut self, export: usize, contexts: Contexts) -> Peer {
        self.connect_as(Agreed { export, replies: Replies::Structured, contexts })
    }

    fn connect_as(&mut self, agreed: Agreed) -> Peer {
        let Agreed { export, replies, .. } = agreed;
        let (ours, theirs) = UnixStream::pair().expect("descriptors");
        ours.set_nonblocking(true).expect("a socket");
        theirs.set_nonblocking(true).expect("a socket");
        let class = StreamId(export as u32);
        self.engine.connect(Client {
            input: OwnedFd::from(theirs).into(),
            output: None,
            session: None,
            rings: None,
            agreed,
            class,
            number: 1,
            peer: PeerName::Unknown,
            identity: <_>::default(),
            leftover: vec![],
            unsent: vec![],
            permit: None,
        });
        Peer { socket: ours, replies, heard: Vec::new(), reads: VecDeque::new(), is_closed: false }
    }

    /// Runs one turn with the events at hand, in which time advances by a nanosecond.
    pub(crate) fn turn(&mut self) -> Nanos {
        self.now = self.now.after(Nanos(1));
        self.engine.wait(Nanos::ZERO).expect("can be waited for");
        match self.engine.turn(self.now).expect("the backend works") {
            Turn::WaitUntil(until) => until,
            Turn::Hung => {
                self.hung = true;
                Nanos::NEVER
            }
            Turn::Stopped => {
                self.stopped = true;
                Nanos::NEVER
            }
        }
    }

    /// Runs turns until no request is in flight; time jumps to the next due event.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            let due = self.turn();
            if self.engine.requests() == 0 {
                return;
            }
            if due == Nanos::NEVER || due > self.now.after(Nanos::from_seconds(20)) {
                // Threads and the kernel take their time.
                self.engine.wait(Nanos::from_millis(1)).expect("can be waited for");
            } else {
                self.now = self.now.max(due);
            }
        }
        panic!("requests are left over: {}", self.engine.requests());
    }
}

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) cookie: u64,
    pub(crate) error: u32,
    /// Pieces of data by offset; for simple replies from offset zero on.
    pub(crate) data: Vec<(u64, Vec<u8>)>,
    /// The extents of the last context.
    pub(crate) extents: Vec<(u64, u32)>,
    /// The contexts of all received extents.
    pub(crate) contexts: Vec<u32>,
}

impl Answer {
    /// The data put together.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut pieces = self.data.clone();
        pieces.sort();
        pieces.into_iter().flat_map(|(_, bytes)| bytes).collect()
    }
}

/// A client's end.
pub(crate) struct Peer {
    pub(crate) socket: UnixStream,
    replies: Replies,
    heard: Vec<u8>,
    /// The lengths of reads with simple replies, by cookie; and chunks that have been received.
    reads: VecDeque<Expected>,
    pub(crate) is_closed: bool,
}

struct Expected {
    cookie: u64,
    length: usize,
    answer: Answer,
}

/// The connection is shut down at once: closing alone has no effect while a child process that another test is
/// starting holds a copy of the descriptor.
impl Drop for Peer {
    fn drop(&mut self) {
        // The server may have hung up first.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Peer {
    /// Sends bytes, all of which fit the socket.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the socket takes it");
    }

    /// Sends bytes that do not fit the socket; `turn` makes room.
    pub(crate) fn send_long(&mut self, mut bytes: &[u8], mut turn: impl FnMut()) {
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => turn(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Sets the length of a read's data, which a simple reply does not state.
    pub(crate) fn expect(&mut self, cookie: u64, length: usize) {
        let answer = Answer { cookie, error: 0, data: Vec::new(), extents: Vec::new(), contexts: Vec::new() };
        self.reads.push_back(Expected { cookie, length, answer });
    }

    /// Whether a part of an answer was received and its rest was not.
    pub(crate) fn hears_on(&self) -> bool {
        !self.heard.is_empty()
    }

    /// The answers received since the last call.
    pub(crate) fn answers(&mut self) -> Vec<Answer> {
        let mut piece = [0; 65536];
        loop {
            match self.socket.read(&mut piece) {
                Ok(0) => {
                    self.is_closed = true;
                    break;
                }
                Ok(read) => self.heard.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.is_closed = true;
                    break;
                }
            }
        }
        let mut answers = Vec::new();
        while let Some(answer) = self.next_answer() {
            answers.extend(answer);
        }
        answers
    }

    fn number(&self, at: usize, bytes: usize) -> u64 {
        self.heard[at..at + bytes].iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// The next answer; `None` if it is incomplete, `Some(None)` for a chunk that is not the last.
    fn next_answer(&mut self) -> Option<Option<Answer>> {
        if self.heard.len() < 16 {
            return None;
        }
        match self.number(0, 4) {
            0x6744_6698 => {
                let (error, cookie) = (self.number(4, 4) as u32, self.number(8, 8));
                let place = self.reads.iter().position(|read| read.cookie == cookie);
                let length = place.map_or(0, |place| if error == 0 { self.reads[place].length } else { 0 });
                if self.heard.len() < 16 + length {
                    return None;
                }
                place.map(|place| self.reads.remove(place));
                let data = if length > 0 { vec![(0, self.heard[16..16 + length].to_vec())] } else { vec![] };
                self.heard.drain(..16 + length);
                Some(Some(Answer { cookie, error, data, extents: vec![], contexts: vec![] }))
            }
            0x668e_33ef => self.next_chunk(20),
            0x6e8a_278c => self.next_chunk(32),
            other => panic!("no reply begins with {other:x}"),
        }
    }

    fn next_chunk(&mut self, head: usize) -> Option<Option<Answer>> {
        let wanted = match self.replies {
            Replies::Simple => panic!("chunks are only for those who asked for them"),
            Replies::Structured => 20,
            Replies::Extended => 32,
        };
        assert_eq!(head, wanted, "chunks are as they were asked for");
        if self.heard.len() < head {
            return None;
        }
        let length = if head == 20 { self.number(16, 4) } else { self.number(24, 8) } as usize;
        if self.heard.len() < head + length {
            return None;
        }
        let (is_last, kind, cookie) = (self.number(4, 2) == 1, self.number(6, 2), self.number(8, 8));
        let place = self.reads.iter().position(|read| read.cookie == cookie).unwrap_or_else(|| {
            self.expect(cookie, 0);
            self.reads.len() - 1
        });
        let body = self.heard[head..head + length].to_vec();
        self.heard.drain(..head + length);
        let long = |at: usize| u64::from_be_bytes(body[at..at + 8].try_into().expect("eight bytes"));
        let short = |at: usize| u32::from_be_bytes(body[at..at + 4].try_into().expect("four bytes"));
        let answer = &mut self.reads[place].answer;
        match kind {
            0 => assert!(is_last && body.is_empty()),
            1 => answer.data.push((long(0), body[8..].to_vec())),
            2 => answer.data.push((long(0), vec![0; short(8) as usize])),
            5 => {
                answer.contexts.push(short(0));
                let extent = |at: usize| (u64::from(short(4 + 8 * at)), short(8 + 8 * at));
                answer.extents = (0..(body.len() - 4) / 8).map(extent).collect();
            }
            6 => {
                assert_eq!(u64::from(short(4)) * 16 + 8, body.len() as u64);
                answer.extents =
                    (0..short(4) as usize).map(|at| (long(8 + 16 * at), long(16 + 16 * at) as u32)).collect();
            }
            0x8001 => answer.error = short(0),
            other => panic!("no chunk is a {other:x}"),
        }
        if !is_last {
            return Some(None);
        }
        self.reads.remove(place).map(|read| Some(read.answer))
    }
}
