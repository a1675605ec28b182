//! Anticipatory scheduling: after a synchronous request the disk idles for the next one of the same process.
//!
//! Bound: while its kind is served, the oldest request of the kind goes first if it has expired; this is checked once in
//! `read-expire` (`write-expire`) and at the start of each batch. With k older requests of its kind, a request is served
//! within k + 1 rounds after its expiry. A round is one batch of the other kind, and `read-expire` or a batch of its own
//! kind, whichever is shorter. A batch ends `read-batch-expire` (`write-batch-expire`) after it began, plus one request of
//! each kind in the device, plus one wait of `antic-expire`.
//!
//! Example: `a` reads sector 1000, and `b` waits to read 900 000. When `a` is served, the disk idles. `a` reads 1008 after
//! 1 ms: it goes first, and the disk idles again. `a` stays silent: after 6 ms `b` is served.

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::part::habits::Mean;
use crate::part::{Sides, Streams, nearest};
use crate::queue::{Edge, Entry, QueueLimits, RequestQueue};
use crate::settings::{HOUR, MILLI};
use crate::structure::NONE;
use crate::{Nanos, Reason, Request, StreamId, Waiting};

/// The longest backward distance (`MAXBACK`).
const BACK_SECTORS_MAX: u64 = 1024 * 1024;
/// A longer think time counts as this (`MAX_THINKTIME`).
const THINK_MAX: u64 = 20 * MILLI;
/// A request this near is close from the start; the distance doubles with each millisecond of waiting.
const CLOSE_SECTORS: u64 = 8192;
/// A single seek counts as at most four times the mean plus this; the second value applies once the mean has many samples.
const SEEK_SLACK_SECTORS: [u64; 2] = [2 * 1024 * 1024, 2 * 1024 * 64];
const SEEK_WEIGHT_FEW: u64 = 60;

const SYNC: usize = 0;
const ASYNC: usize = 1;

pub(crate) static ROW: Row<()> = Row {
    name: "anticipatory",
    summary: "one-way elevator that idles after a read for the same process's next",
    source: "Linux block/as-iosched.c (2.6.0 to 2.6.32), Documentation/block/as-iosched.txt; Iyer and Druschel, SOSP 2001",
    doc: include_str!("anticipatory.md"),
    bound: Bound {
        doc: "with k older requests of its kind, a request is served within k + 1 rounds after its expiry; a round is one batch of \
each kind, and a batch ends one request and one wait of `antic-expire` after its time",
        wait: Wait::Within(|backlog, settings| {
            let [antic, read_expire, write_expire, read_batch, write_batch] = settings.values();
            let round = read_batch + write_batch + 2 * (antic + 2 * backlog.service.0);
            Nanos(read_expire.max(write_expire)).after(Nanos((backlog.older + 2).saturating_mul(round)))
        }),
    },
    reads: Reads::NOTHING,
    linux: None,
    parameters: &[
        Parameter::duration(
            "antic-expire",
            6 * MILLI,
            0,
            HOUR,
            "longest idle time for a process's next request; 0: none",
        ),
        Parameter::duration("read-expire", 125 * MILLI, 0, HOUR, "age from which a synchronous request goes first"),
        Parameter::duration("write-expire", 250 * MILLI, 0, HOUR, "the same for asynchronous requests"),
        Parameter::duration("read-batch-expire", 500 * MILLI, 0, HOUR, "length of a synchronous batch, if others wait"),
        Parameter::duration(
            "write-batch-expire",
            125 * MILLI,
            0,
            HOUR,
            "length of an asynchronous batch, if others wait",
        ),
    ],
    form: (),
};

#[derive(Clone, Copy, Debug)]
struct Process {
    /// The number of the process's queued requests.
    queued: u32,
    in_flight: u32,
    /// When the device last completed all that it had of the process.
    last_completion: Option<Nanos>,
    last_sector_end: u64,
    think: Mean,
    seek: Mean,
}

impl Process {
    const NEW: Self = Self {
        queued: 0,
        in_flight: 0,
        last_completion: None,
        last_sector_end: 0,
        think: Mean::UNKNOWN,
        seek: Mean::UNKNOWN,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anticipation {
    Off,
    /// The request of the process waited for is still in flight.
    ForCompletion,
    /// The awaited process's request has completed; the disk idles until this time for the next one.
    Until(Nanos),
    /// The wait is over: the next request goes, whatever it is.
    Over,
}

#[derive(Clone, Debug)]
pub(crate) struct Anticipatory {
    sides: Sides<true>,
    /// The process of each slot.
    home: Box<[u32]>,
    processes: Box<[Process]>,
    streams: Streams,
    new_processes: [Mean; 2],
    /// The end of the last dispatch of each kind, and the last time that expired requests were checked.
    last_sector: [u64; 2],
    last_check: [Nanos; 2],
    in_flight: u32,
    batch: Batch,
    anticipation: Anticipation,
    /// The process of the last synchronous dispatch; `None` after an asynchronous one.
    last: Option<u32>,
    /// When that dispatch was completed.
    last_finished: Option<Nanos>,
    config: Config,
}

/// The running batch.
#[derive(Clone, Copy, Debug)]
struct Batch {
    side: usize,
    /// When the batch ends; `None` for a synchronous batch before its first completion.
    end: Option<Nanos>,
    /// When the last asynchronous batch began; `None` once the first synchronous completion after it has ended its
    /// measurement.
    write_start: Option<Nanos>,
    writes_left: u64,
    /// The number of writes in an asynchronous batch.
    writes: u64,
    /// Whether no synchronous request waited during the batch, so that its duration says nothing.
    is_untimed: bool,
}

#[derive(Clone, Debug)]
struct Config {
    antic: Nanos,
    expire: [Nanos; 2],
    batch: [Nanos; 2],
}

impl From<&Settings> for Config {
    fn from(settings: &Settings) -> Self {
        let [antic, read_expire, write_expire, read_batch, write_batch] = settings.values();
        Self {
            antic: Nanos(antic),
            expire: [Nanos(read_expire), Nanos(write_expire)],
            batch: [Nanos(read_batch), Nanos(write_batch)],
        }
    }
}

impl Anticipatory {
    pub(crate) fn new(limits: &QueueLimits, (): (), settings: &Settings) -> Self {
        let config = Config::from(settings);
        let writes = (config.batch[ASYNC].0 / (10 * MILLI)).max(2);
        let batch = Batch { side: SYNC, end: None, write_start: None, writes_left: 0, writes, is_untimed: false };
        Self {
            sides: Sides::new(limits, config.expire),
            home: vec![NONE; limits.slots() as usize].into_boxed_slice(),
            processes: vec![Process::NEW; Streams::places(limits, 0) as usize].into_boxed_slice(),
            streams: Streams::new(limits, 0),
            new_processes: [Mean::UNKNOWN; 2],
            last_sector: [0; 2],
            last_check: [Nanos::ZERO; 2],
            in_flight: 0,
            batch,
            anticipation: Anticipation::Off,
            last: None,
            last_finished: None,
            config,
        }
    }

    fn process_of(&mut self, entry: &Entry) -> u32 {
        self.streams.find(entry.stream).unwrap_or_else(|| {
            let Self { streams, processes, last, .. } = self;
            let number = streams.add(entry.stream, |number| {
                let process = &processes[number as usize];
                process.queued > 0 || process.in_flight > 0 || *last == Some(number)
            });
            processes[number as usize] = Process::NEW;
            number
        })
    }

    /// Learns from a synchronous request that is, or counts as, the next one of a process.
    fn learn(&mut self, number: u32, entry: &Entry, now: Nanos) {
        let process = &mut self.processes[number as usize];
        if let Some(completion) = process.last_completion.take()
            && process.queued + process.in_flight == 0
        {
            let think = now.since(completion).0.min(THINK_MAX);
            if process.think.weight() == 0 {
                self.new_processes[0].learn(think);
            }
            process.think.learn(think);
        }
        let slack = SEEK_SLACK_SECTORS[usize::from(process.seek.weight() > SEEK_WEIGHT_FEW)];
        let distance = entry.sector.abs_diff(process.last_sector_end);
        let distance = distance.min(4 * process.seek.value() + slack);
        if process.seek.weight() == 0 {
            self.new_processes[1].learn(distance);
        }
        process.seek.learn(distance);
        process.last_sector_end = entry.sector_end();
    }

    /// The think time and seek distance of a process; those of new processes if it has no history.
    fn habits(&self, process: &Process) -> [u64; 2] {
        let [think, seek] = self.new_processes;
        let known = |own: Mean, others: Mean| if own.weight() == 0 { others.value() } else { own.value() };
        [known(process.think, think), known(process.seek, seek)]
    }

    /// Whether a request is as near as the expected one would be.
    fn is_close(&self, process: &Process, sector: u64, now: Nanos) -> bool {
        let delay = match (self.anticipation, self.last_finished) {
            (Anticipation::Off, _) | (_, None) => 0,
            (_, Some(finished)) => now.since(finished).0 / MILLI,
        };
        if delay > 20 || delay * MILLI > self.config.antic.0 {
            return true;
        }
        let reach = CLOSE_SECTORS << delay;
        let last = self.last_sector[SYNC];
        let is_within = last <= sector.saturating_add(reach / 2) && sector <= last.saturating_add(reach);
        is_within || self.habits(process)[1] > sector.abs_diff(last)
    }

    /// Whether `candidate`, or the history of the process, shows that waiting (any longer) does not pay.
    fn is_not_worth_waiting(&mut self, queue: &RequestQueue, candidate: Option<u32>, now: Nanos) -> bool {
        let Some(last) = self.last else { return true };
        let process = self.processes[last as usize];
        if candidate.is_some_and(|slot| self.home[slot as usize] == last) || process.queued > 0 {
            return true;
        }
        let others_in_flight = process.in_flight > u32::from(self.last_finished.is_none());
        let is_late = self.last_finished.is_some_and(|finished| finished.after(self.config.antic) <= now);
        if others_in_flight || is_late {
            return true;
        }
        let close = candidate.map(|slot| queue.entry(slot));
        if let Some(entry) = close.filter(|entry| entry.is_sync() && self.is_close(&process, entry.sector, now)) {
            self.learn(last, entry, now);
            return true;
        }
        self.habits(&process)[0] > self.config.antic.0
    }

    /// Ends an anticipation that times out before `end`.
    fn stop_before(&mut self, end: Nanos) {
        if matches!(self.anticipation, Anticipation::Until(until) if until < end) {
            self.anticipation = Anticipation::Over;
        }
    }

    /// The request of a kind nearest to the head.
    fn nearest(&self, queue: &RequestQueue, side: usize) -> Option<u32> {
        let from = self.last_sector[side];
        let after = self.sides.at_or_after(side, from).or_else(|| self.sides.first(side));
        match (after, self.sides.before(side, from)) {
            (Some(after), Some(before)) => Some(nearest::nearer(queue, after, before, from, BACK_SECTORS_MAX)),
            (after, before) => after.or(before),
        }
    }

    /// The oldest request of a kind, if it has expired; checked once in each expiry time.
    fn expired(&mut self, side: usize, now: Nanos) -> Option<u32> {
        if now < self.next_check(side) {
            return None;
        }
        self.last_check[side] = now;
        self.sides.expired(side, now)
    }

    fn batch_is_over(&self, now: Nanos) -> bool {
        let in_number = self.batch.side == ASYNC && self.batch.writes_left == 0;
        in_number || self.batch.end.is_some_and(|end| now >= end)
    }

    /// The next request of the running batch, or a wait.
    fn continue_batch(&mut self, queue: &RequestQueue, now: Nanos, others_wait: bool) -> Result<Option<u32>, Next> {
        let side = self.batch.side;
        let candidate = self.nearest(queue, side);
        if let Some(slot) = self.expired(side, now) {
            return Ok(Some(slot));
        }
        if side == SYNC
            && self.config.antic > Nanos::ZERO
            && self.anticipation == Anticipation::Off
            && !self.is_not_worth_waiting(queue, candidate, now)
        {
            self.anticipation = match self.last_finished {
                None => Anticipation::ForCompletion,
                Some(finished) => Anticipation::Until(finished.after(self.config.antic)),
            };
            return Err(self.wait());
        }
        if side == SYNC && candidate.is_some() && !others_wait {
            self.batch.end = Some(now.after(self.config.batch[SYNC]));
        }
        Ok(candidate)
    }

    /// Waits until the anticipation is over, or a request has expired.
    fn wait(&self) -> Next {
        let until = if let Anticipation::Until(until) = self.anticipation { until } else { Nanos::NEVER };
        let oldest = self.sides.oldest(SYNC);
        let expiry = if oldest == NONE { Nanos::NEVER } else { self.sides.expires(oldest) };
        Next::WaitUntil(until.min(expiry.max(self.next_check(SYNC))), Reason::Anticipating)
    }

    /// When expired requests of a kind are checked again.
    fn next_check(&self, side: usize) -> Nanos {
        self.last_check[side].after(self.config.expire[side])
    }

    /// Notes that an asynchronous batch had no competition or ran dry: then its duration says nothing.
    fn note_uncontended(&mut self) {
        if self.batch.side == ASYNC
            && self.sides.is_empty(SYNC)
            && (self.batch.writes_left == 0 || self.sides.is_empty(ASYNC))
        {
            self.batch.is_untimed = true;
        }
    }

    /// Begins a batch at the oldest request of a kind; if the kind changes, waits until the device is empty.
    fn begin(&mut self, side: usize, now: Nanos) -> Result<u32, Next> {
        let changes = side != self.batch.side;
        if changes && self.in_flight > 0 {
            return Err(Next::WaitUntil(Nanos::NEVER, Reason::Ordering));
        }
        self.batch.side = side;
        self.last_check[side] = now;
        self.batch.end = (side == ASYNC).then(|| now.after(self.config.batch[ASYNC]));
        if side == ASYNC {
            self.batch.write_start = Some(now);
            self.batch.writes_left = self.batch.writes;
            self.batch.is_untimed = false;
        }
        Ok(self.sides.oldest(side))
    }

    /// Makes asynchronous batches longer or shorter, by the duration of the last one.
    fn adapt(&mut self, now: Nanos) {
        let Some(start) = self.batch.write_start.take() else { return };
        if self.batch.is_untimed {
            return;
        }
        let (took, meant) = (now.since(start).0, self.config.batch[ASYNC].0);
        let writes = self.batch.writes;
        self.batch.writes = match self.batch.writes_left {
            _ if took > 3 * meant => writes / 2,
            _ if took > meant => writes - 1,
            0 if 3 * took < meant => writes.saturating_mul(2),
            0 if took < meant => writes.saturating_add(1),
            _ => writes,
        }
        .clamp(1, 1 << 20);
    }

    fn choose(&mut self, queue: &RequestQueue, now: Nanos) -> Result<u32, Next> {
        self.stop_before(Nanos(now.0.saturating_add(1)));
        let waits = matches!(self.anticipation, Anticipation::ForCompletion | Anticipation::Until(_));
        let (reads, writes) = (!self.sides.is_empty(SYNC), !self.sides.is_empty(ASYNC));
        if waits {
            // An expired request does not wait for an expected one that may never come.
            return self.expired(SYNC, now).ok_or(self.wait());
        }
        self.note_uncontended();
        let others_wait = if self.batch.side == SYNC { writes } else { reads };
        if !(reads && writes && self.batch_is_over(now))
            && let Some(slot) = self.continue_batch(queue, now, others_wait)?
        {
            return Ok(slot);
        }
        let side = if reads && !(writes && self.batch.side == SYNC) { SYNC } else { ASYNC };
        self.begin(side, now)
    }
}

impl Elevator for Anticipatory {
    const IDLES: bool = true;

    fn idles_for(&self) -> Option<StreamId> {
        self.last.map(|number| self.streams.id(number))
    }

    fn stop_idling(&mut self, _now: Nanos) {
        self.anticipation = Anticipation::Over;
    }

    fn advance(&mut self, _queue: &RequestQueue, now: Nanos) {
        self.stop_before(now);
    }

    fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        self.note_uncontended();
        let entry = queue.entry(slot);
        let number = self.process_of(entry);
        if entry.is_sync() {
            self.learn(number, entry, now);
        }
        self.home[slot as usize] = number;
        self.processes[number as usize].queued += 1;
        self.sides.insert(queue, now, slot);
        let waits = matches!(self.anticipation, Anticipation::ForCompletion | Anticipation::Until(_));
        if waits && self.is_not_worth_waiting(queue, Some(slot), now) {
            self.anticipation = Anticipation::Over;
        }
    }

    fn request_merged(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, edge: Edge) {
        self.sides.request_merged(queue, slot, edge);
    }

    fn requests_merged(&mut self, queue: &RequestQueue, slot: u32, members: u32) {
        self.sides.requests_merged(queue, slot, members);
    }

    fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        self.processes[self.home[slot as usize] as usize].queued -= 1;
        self.sides.remove(queue, slot);
    }

    /// Requests of one kind may be merged, even if they come from different processes.
    fn may_merge(&self, queue: &RequestQueue, slot: u32, request: &Request) -> bool {
        queue.entry(slot).is_sync() == request.is_sync()
    }

    fn next(&mut self, queue: &RequestQueue, now: Nanos) -> Next {
        let slot = match self.choose(queue, now) {
            Ok(slot) if slot != NONE => slot,
            Ok(_) => return Next::WaitUntil(Nanos::NEVER, Reason::Ordering),
            Err(wait) => return wait,
        };
        let entry = queue.entry(slot);
        let number = self.home[slot as usize];
        let side = self.sides.side(entry);
        self.remove(queue, slot);
        self.processes[number as usize].in_flight += 1;
        self.in_flight += 1;
        self.last_sector[side] = entry.sector_end();
        self.anticipation = Anticipation::Off;
        self.last = (side == SYNC).then_some(number);
        self.last_finished = None;
        if side == ASYNC {
            self.batch.writes_left = self.batch.writes_left.saturating_sub(1);
        }
        Next::Take(slot)
    }

    fn completed(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let number = self.home[slot as usize];
        self.in_flight -= 1;
        let process = &mut self.processes[number as usize];
        process.in_flight -= 1;
        if !queue.entry(slot).is_sync() {
            return;
        }
        if process.in_flight == 0 {
            process.last_completion = Some(now);
        }
        if self.batch.side == SYNC && self.batch.end.is_none() {
            self.adapt(now);
            self.batch.end = Some(now.after(self.config.batch[SYNC]));
        }
        if self.last == Some(number) {
            self.last_finished = Some(now);
            if self.anticipation == Anticipation::ForCompletion {
                self.anticipation = Anticipation::Until(now.after(self.config.antic));
            }
        }
    }

    /// While the disk idles, all requests wait for that; otherwise those of the kind being served wait for the device.
    fn waiting(&self, queued: u32) -> Waiting {
        match self.anticipation {
            Anticipation::Until(_) => Waiting::all(Reason::Anticipating, queued),
            _ => self.sides.waiting(self.batch.side, queued),
        }
    }
}
