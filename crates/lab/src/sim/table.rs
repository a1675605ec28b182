//! The requests of a machine, and what holds them back in the server before they begin: late work of the server itself, locks, a full
//! log, too little memory.

use ioweir_core::cores::{Kind, Log, Source, Work};
use ioweir_core::{Nanos, Operation, Slab};
use ioweir_device::random::Random;
use ioweir_trace::Record;

use super::buffers::Buffers;
use super::cores::{CoreRequests, CoreWork, Way, Workers};
use super::locks::{Gates, Locks, Piece, Pieces};
use super::log::Points;
use super::{ClassCosts, Clients, LayerTimes, MachineCores, Misses, ReadAhead, Route};

/// Draws of clients are numbered from here on; those of devices and of classes are below.
const FIRST_DRAWS: u64 = 1 << 32;
/// Places for requests at first; there are more when they are needed.
const FIRST_SLOTS: u32 = 1024;

/// A request in the machine.
#[derive(Clone, Copy)]
pub(super) struct InMachine {
    pub(super) record: Record,
    pub(super) number: u64,
    pub(super) arrival: Nanos,
    pub(super) class: u32,
    /// Whether it continues where its client's last one ended.
    pub(super) is_sequential: bool,
    /// Whether nothing in the server holds it back any more.
    pub(super) has_begun: bool,
    pub(super) way: Way,
    pub(super) work: CoreWork,
    pub(super) times: LayerTimes,
    /// Set once it is refused: when it would be accepted.
    pub(super) retry: Option<Nanos>,
    /// Whether it has memory for what it reads.
    pub(super) has_buffers: bool,
    /// The number of times that its device has completed it.
    pub(super) completed: u8,
    /// The seed of its processor times between two visits of its device.
    pub(super) seed: u64,
    /// Which object it locks, where that is drawn.
    pub(super) drawn: u32,
}

/// The requests of a machine, and what they find in the server before their devices.
pub(super) struct Table {
    pub(super) requests: Slab<InMachine>,
    /// The route of each class.
    pub(super) routes: Vec<Route>,
    pub(super) is_background: Vec<bool>,
    pub(super) deadlines: Vec<Option<Nanos>>,
    /// Of classes: their costs, and their shares of misses; empty without cores.
    pub(super) costs: Vec<ClassCosts>,
    pub(super) misses: Vec<Misses>,
    /// The draws of each client; empty if nothing is drawn.
    pub(super) draws: Vec<Random>,
    pub(super) log: Option<Points>,
    pub(super) read_ahead: Option<ReadAhead>,
    pub(super) locks: Option<Locks>,
    pub(super) gates: Option<Gates>,
    /// The number of objects of which each request draws one; zero if none is drawn.
    pub(super) objects: u32,
    pub(super) buffers: Option<Buffers>,
    /// Requests of the server itself that are in the machine: writes of consistency points, and reads ahead.
    pub(super) own_live: u64,
    pub(super) own_completed: u64,
    /// Where the last request of each client ended.
    pub(super) ends: Vec<u64>,
}

impl Table {
    pub(super) fn new(
        routes: Vec<Route>,
        is_background: Vec<bool>,
        deadlines: Vec<Option<Nanos>>,
        clients: usize,
    ) -> Self {
        Self {
            requests: Slab::new(0, || unreachable!("it begins empty")),
            routes,
            is_background,
            deadlines,
            costs: Vec::new(),
            misses: Vec::new(),
            draws: Vec::new(),
            log: None,
            read_ahead: None,
            locks: None,
            gates: None,
            objects: 0,
            buffers: None,
            own_live: 0,
            own_completed: 0,
            ends: vec![u64::MAX; clients],
        }
    }

    pub(super) fn insert(&mut self, request: InMachine) -> u32 {
        if !self.requests.has_room() {
            let capacity = self.requests.capacity().max(FIRST_SLOTS / 2).saturating_mul(2);
            self.requests.grow(capacity, || request);
        }
        self.requests.insert(request).expect("it has grown")
    }

    /// The part of a table for a machine with cores.
    pub(super) fn fill(&mut self, cores: MachineCores, clients: usize) -> Workers {
        let MachineCores {
            scheduler,
            workers,
            turns,
            costs,
            misses,
            seed,
            log,
            read_ahead,
            locks,
            own_work,
            read_buffers,
            slow_path,
        } = cores;
        let pieces = [locks.as_ref().map(|locks| locks.objects), own_work.as_ref().map(|own| own.regions)];
        self.objects = pieces.into_iter().flatten().find_map(Pieces::drawn).unwrap_or(0);
        let draws =
            self.objects > 0 || misses.iter().any(Misses::draws) || costs.iter().any(|costs| costs.variation.is_some());
        if draws {
            self.draws = (0..clients as u64).map(|client| Random::stream(seed, FIRST_DRAWS + client)).collect();
        }
        (self.costs, self.misses, self.log, self.read_ahead) = (costs, misses, log.map(Points::new), read_ahead);
        (self.locks, self.gates) = (locks.map(Locks::new), own_work.map(Gates::new));
        self.buffers = read_buffers.map(Buffers::new);
        Workers::new(scheduler, workers, turns, slow_path)
    }

    /// The way of a client's request.
    pub(super) fn way(&mut self, record: &Record, clients: &Clients) -> Way {
        let client = || clients.client(record.stream);
        let class = || clients.class(client());
        if let Some(log) = &self.log
            && log.takes(record)
            && !self.is_background[class()]
        {
            return Way::ToLog;
        }
        if !self.draws.is_empty() && record.operation == Operation::Read {
            return self.misses[class()].way(&mut self.draws[client()]);
        }
        Way::ONCE
    }

    /// A device has completed a request. If the request needs it again, returns the processor time until then.
    pub(super) fn misses_again(&mut self, request: u32) -> Option<Nanos> {
        let InMachine { record, class, way, completed, seed, retry, .. } = &mut self.requests[request];
        let Way::Device { further } = way else { return None };
        if *further == 0 || retry.is_some() {
            return None;
        }
        (*further, *completed) = (*further - 1, *completed + 1);
        let mut draws = Random::stream(*seed, u64::from(*completed));
        Some(self.costs[*class as usize].of(record, (false, false), Some(&mut draws)).1)
    }

    /// Takes memory for what a request reads, if it needs any; otherwise it waits.
    pub(super) fn takes_buffers(&mut self, request: u32) -> bool {
        let Some(buffers) = &mut self.buffers else { return true };
        let InMachine { way, record, has_buffers, .. } = &mut self.requests[request];
        let needs = matches!(way, Way::Device { .. }) && record.operation == Operation::Read;
        if !needs || *has_buffers {
            return true;
        }
        *has_buffers = buffers.take(request, record.length_bytes);
        *has_buffers
    }

    /// Returns the memory of a request that leaves the machine, and the requests that have theirs now.
    pub(super) fn frees_buffers(&mut self, request: u32) -> Vec<u32> {
        let (InMachine { record, has_buffers: true, .. }, Some(buffers)) = (&self.requests[request], &mut self.buffers)
        else {
            return Vec::new();
        };
        let granted = buffers.free(record.length_bytes);
        for next in &granted {
            self.requests[*next].has_buffers = true;
        }
        granted
    }

    /// Where on its devices a request has its next data.
    pub(super) fn offset_bytes(&self, request: u32) -> u64 {
        let InMachine { record, class, completed, .. } = &self.requests[request];
        match self.misses.get(*class as usize) {
            Some(misses) if *completed > 0 => misses.offset_bytes(record, *completed),
            _ => record.offset_bytes,
        }
    }

    pub(super) fn is_background(&self, request: u32) -> bool {
        self.is_background[self.requests[request].class as usize]
    }

    fn piece(&self, request: u32, pieces: Pieces) -> Piece {
        let InMachine { class, record, drawn, .. } = &self.requests[request];
        pieces.of((self.routes[*class as usize].devices.start, record.offset_bytes), *drawn)
    }

    /// The lock that a request has or waits for.
    pub(super) fn lock_of(&self, request: u32) -> Option<Piece> {
        let spec = &self.locks.as_ref()?.spec;
        spec.is_locking[self.requests[request].class as usize].then(|| self.piece(request, spec.objects))
    }

    /// Whether the requests of a class are the server's own work, for which writes wait.
    pub(super) fn is_own_work(&self, class: usize) -> bool {
        self.gates.as_ref().is_some_and(|gates| gates.spec.class == class)
    }

    /// The region in which a request is own work, or would wait for it.
    pub(super) fn region_of(&self, request: u32) -> Option<Piece> {
        self.gates.as_ref().map(|gates| self.piece(request, gates.spec.regions))
    }

    /// Whether a write of a client goes on although there is work of the server itself in its region.
    fn passes_gate(&mut self, now: Nanos, request: u32) -> bool {
        let InMachine { way, record, .. } = &self.requests[request];
        let is_clients = !way.is_of_server() && !self.is_background(request);
        if record.operation != Operation::Write || !is_clients {
            return true;
        }
        let Some(region) = self.region_of(request) else { return true };
        if self.gates.as_ref().is_none_or(|gates| !gates.are_closed(region, now)) {
            return true;
        }
        // A request that has its lock has passed: own work may wait for the same lock.
        let has_passed = self
            .lock_of(request)
            .is_some_and(|object| self.locks.as_ref().is_some_and(|locks| locks.is_held(object, request)));
        if let Some(gates) = self.gates.as_mut().filter(|_| !has_passed) {
            gates.hold_back(region, request);
        }
        has_passed
    }

    fn takes_lock(&mut self, request: u32) -> bool {
        let Some(object) = self.lock_of(request) else { return true };
        self.locks.as_mut().is_none_or(|locks| locks.acquire(object, request))
    }

    /// Puts a request into the write log if that is its way; returns false if it has to wait for room.
    fn enters_log(&mut self, now: Nanos, request: u32) -> bool {
        let InMachine { way, record, .. } = &mut self.requests[request];
        if *way != Way::ToLog {
            return true;
        }
        let has_room = self.log.as_mut().is_none_or(|log| log.append(now, request, record));
        if has_room {
            *way = Way::Logged;
        }
        has_room
    }
}

impl CoreRequests for Table {
    fn work(&mut self, request: u32) -> (&mut CoreWork, &mut LayerTimes) {
        let InMachine { work, times, .. } = &mut self.requests[request];
        (work, times)
    }

    fn asked(&self, request: u32) -> Work {
        let InMachine { record, arrival, class, is_sequential, way, .. } = &self.requests[request];
        let (bytes, sequential) = (u32::try_from(record.length_bytes).unwrap_or(u32::MAX), *is_sequential);
        let source = match *way {
            Way::Point => Source::Critical,
            Way::Ahead => Source::Background,
            _ if self.is_background(request) => Source::Background,
            _ => Source::Client,
        };
        let deadline = self.deadlines[*class as usize].map(|deadline| arrival.after(deadline));
        let kind = match record.operation {
            Operation::Read => Kind::Read,
            Operation::Write => Kind::Write,
            Operation::Flush | Operation::Discard => Kind::Other,
        };
        Work { kind, source, bytes, sequential, deadline }
    }

    fn log(&self) -> Log {
        self.log.as_ref().map_or_else(Log::default, Points::state)
    }

    fn may_run(&mut self, now: Nanos, request: u32) -> bool {
        if self.requests[request].has_begun {
            return true;
        }
        let may_run = self.passes_gate(now, request) && self.takes_lock(request) && self.enters_log(now, request);
        self.requests[request].has_begun = may_run;
        may_run
    }
}
