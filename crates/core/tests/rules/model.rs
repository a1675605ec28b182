//! Policies against naive models: the same calls, the same order, with lists instead of trees, heaps and indices.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ioweir_core::policy::{self, Policy};
use ioweir_core::{Direction, Flags, Nanos, Operation, QueueLimits, Request, Scheduler, Step, StreamId, Tag};
use proptest::prelude::*;

/// A request as the models know it; the number is the order of submission.
#[derive(Clone, Copy, Debug)]
struct Item {
    number: usize,
    at: Nanos,
    request: Request,
}

/// A naive order of requests.
trait Model {
    fn submit(&mut self, now: Nanos, item: Item);
    /// The number of the next request, or when to ask again.
    fn next(&mut self, now: Nanos) -> Result<usize, Nanos>;
    fn cancel(&mut self, number: usize);
    /// Whether the request must be refused, where the model knows.
    fn refuses(&mut self, _now: Nanos, _request: &Request) -> Option<bool> {
        None
    }
}

#[derive(Default)]
struct NoopModel(Vec<Item>);

impl Model for NoopModel {
    fn submit(&mut self, _now: Nanos, item: Item) {
        self.0.push(item);
    }
    fn next(&mut self, _now: Nanos) -> Result<usize, Nanos> {
        Ok(self.0.remove(0).number)
    }
    fn cancel(&mut self, number: usize) {
        self.0.retain(|item| item.number != number);
    }
}

/// The elevator that goes up from the end of the last transfer and starts again at the bottom.
#[derive(Default)]
struct ClookModel {
    items: Vec<Item>,
    /// The end of the last transfer.
    head: u64,
}

impl Model for ClookModel {
    fn submit(&mut self, _now: Nanos, item: Item) {
        self.items.push(item);
    }
    fn next(&mut self, _now: Nanos) -> Result<usize, Nanos> {
        let key = |item: &Item| (item.request.sector < self.head, item.request.sector, item.number);
        let first = self.items.iter().copied().min_by_key(key).expect("asked only while something is queued");
        let within = first.request.sector..first.request.sector + u64::from(first.request.sectors);
        let begins_within = |item: &&Item| item.number == first.number || within.contains(&item.request.sector);
        let next = *self.items.iter().filter(begins_within).min_by_key(|item| item.number).expect("the first at least");
        self.head = next.request.sector + u64::from(next.request.sectors).max(1);
        self.cancel(next.number);
        Ok(next.number)
    }
    fn cancel(&mut self, number: usize) {
        self.items.retain(|item| item.number != number);
    }
}

/// Linux's deadline: the text of its documentation, on one list.
struct DeadlineModel {
    items: Vec<Item>,
    /// The request at which the batch goes on: chosen when the one before was served.
    next: Option<usize>,
    direction: Direction,
    batched: u64,
    starved: u64,
}

const FIFO_BATCH: u64 = 3;
const WRITES_STARVED: u64 = 2;

impl DeadlineModel {
    fn new() -> Self {
        Self { items: vec![], next: None, direction: Direction::Read, batched: 0, starved: 0 }
    }

    fn side(&self, direction: Direction) -> Vec<Item> {
        self.items.iter().copied().filter(|item| item.request.operation.direction() == direction).collect()
    }

    fn following(&self, direction: Direction) -> Option<Item> {
        self.side(direction).into_iter().find(|item| Some(item.number) == self.next)
    }

    /// The request behind this one in sector order, of the same direction.
    fn behind(&self, item: Item) -> Option<usize> {
        let key = |item: &Item| (item.request.sector, item.number);
        let side = self.side(item.request.operation.direction()).into_iter();
        side.filter(|other| key(other) > key(&item)).min_by_key(key).map(|other| other.number)
    }

    fn expire(direction: Direction) -> Nanos {
        if direction == Direction::Read { Nanos::from_millis(500) } else { Nanos::from_millis(5000) }
    }
}

impl Model for DeadlineModel {
    fn submit(&mut self, _now: Nanos, item: Item) {
        self.items.push(item);
    }

    fn next(&mut self, now: Nanos) -> Result<usize, Nanos> {
        let taken = match self.following(self.direction) {
            Some(item) if self.batched < FIFO_BATCH => item,
            _ => {
                let (reads, writes) = (self.side(Direction::Read), self.side(Direction::Write));
                let pass_writes = writes.is_empty() || self.starved < WRITES_STARVED;
                if !reads.is_empty() && pass_writes {
                    self.starved += u64::from(!writes.is_empty());
                    self.direction = Direction::Read;
                } else {
                    self.starved = 0;
                    self.direction = Direction::Write;
                }
                self.batched = 0;
                let oldest = self.side(self.direction)[0];
                let expired = oldest.at.after(Self::expire(self.direction)) <= now;
                self.following(self.direction).filter(|_| !expired).unwrap_or(oldest)
            }
        };
        self.batched += 1;
        self.next = self.behind(taken);
        self.items.retain(|item| item.number != taken.number);
        Ok(taken.number)
    }

    fn cancel(&mut self, number: usize) {
        if self.next == Some(number) {
            let item = self.items.iter().copied().find(|item| item.number == number);
            self.next = item.and_then(|item| self.behind(item));
        }
        self.items.retain(|item| item.number != number);
    }
}

/// Linux's mq-deadline: each direction keeps the sector of its last dispatch, and nothing else of the order.
struct MqDeadlineModel {
    items: Vec<Item>,
    last_sector: [u64; 2],
    direction: Direction,
    batched: u64,
    starved: u64,
}

impl MqDeadlineModel {
    fn new() -> Self {
        Self { items: vec![], last_sector: [0; 2], direction: Direction::Read, batched: 0, starved: 0 }
    }

    fn side(&self, direction: Direction) -> impl Iterator<Item = Item> {
        self.items.iter().copied().filter(move |item| item.request.operation.direction() == direction)
    }

    fn onward(&self) -> Option<Item> {
        let from = self.last_sector[self.direction as usize];
        let above = self.side(self.direction).filter(|item| item.request.sector >= from);
        above.min_by_key(|item| (item.request.sector, item.number))
    }
}

impl Model for MqDeadlineModel {
    fn submit(&mut self, _now: Nanos, item: Item) {
        self.items.push(item);
    }

    fn next(&mut self, now: Nanos) -> Result<usize, Nanos> {
        let taken = match self.onward() {
            Some(item) if self.batched < FIFO_BATCH => item,
            _ => {
                let reads = self.side(Direction::Read).count();
                let writes = self.side(Direction::Write).count();
                let passes_writes = reads > 0 && writes > 0 && self.starved < WRITES_STARVED;
                self.direction = if writes == 0 || passes_writes { Direction::Read } else { Direction::Write };
                self.starved = match (self.direction, passes_writes) {
                    (Direction::Write, _) => 0,
                    (Direction::Read, passes) => self.starved + u64::from(passes),
                };
                self.batched = 0;
                let oldest = self.side(self.direction).next().expect("asked only while something is queued");
                let expired = oldest.at.after(DeadlineModel::expire(self.direction)) <= now;
                self.onward().filter(|_| !expired).unwrap_or(oldest)
            }
        };
        self.batched += 1;
        self.last_sector[self.direction as usize] = taken.request.sector;
        self.cancel(taken.number);
        Ok(taken.number)
    }

    fn cancel(&mut self, number: usize) {
        self.items.retain(|item| item.number != number);
    }
}

/// BID-HDD: Algorithms 1 and 2 of the paper, on lists.
#[derive(Default)]
struct BidModel {
    open: Vec<Staging>,
    marked: Vec<Staging>,
    outside: Vec<Item>,
    settings: u64,
    /// The limit of the request queue, if staged requests are outside of it.
    limit: Option<usize>,
}

#[derive(Clone)]
struct Staging {
    stream: StreamId,
    items: Vec<Item>,
    newest: Nanos,
    gaps: Vec<u64>,
    deadline: Nanos,
    expiry: (Nanos, u64),
    sorted: bool,
}

const HISTORY: usize = 4;

impl BidModel {
    fn mark_until(&mut self, end: Nanos) {
        while let Some(first) = (0..self.open.len()).min_by_key(|&at| self.open[at].expiry)
            && self.open[first].expiry.0 < end
        {
            let staging = self.open.remove(first);
            self.marked.push(staging);
        }
    }

    fn stage(&mut self, now: Nanos, item: Item, is_new_set: bool) {
        let stream = item.request.stream;
        let at = self.open.iter().position(|staging| staging.stream == stream).unwrap_or_else(|| {
            let deadline = now.after(Nanos::from_millis(5000));
            let empty = (vec![], vec![]);
            let expiry = (now, 0);
            let (items, gaps) = empty;
            self.open.push(Staging { stream, items, newest: now, gaps, deadline, expiry, sorted: false });
            self.open.len() - 1
        });
        let staging = &mut self.open[at];
        let gap = now.since(staging.newest);
        if is_new_set && !staging.items.is_empty() && gap > Nanos::from_micros(100) {
            staging.gaps.push(gap.0);
        }
        staging.newest = now;
        staging.items.push(item);
        if item.request.operation == Operation::Read {
            staging.deadline = staging.deadline.min(now.after(Nanos::from_millis(500)));
        }
        let recent: Vec<u64> = staging.gaps.iter().rev().take(HISTORY).copied().collect();
        let weights: Vec<u64> = (1..=HISTORY as u64).rev().take(recent.len()).collect();
        let weight: u64 = weights.iter().sum();
        let sum: u64 = recent.iter().zip(&weights).map(|(gap, weight)| gap * weight).sum();
        let wait = sum.checked_div(weight).map_or(Nanos::from_millis(6), Nanos);
        staging.expiry = (now.after(wait).min(staging.deadline), self.settings);
        self.settings += 1;
    }
}

impl Model for BidModel {
    fn submit(&mut self, now: Nanos, item: Item) {
        self.mark_until(now);
        if self.marked.iter().any(|staging| staging.stream == item.request.stream) {
            self.outside.push(item);
        } else {
            self.stage(now, item, true);
        }
    }

    fn next(&mut self, now: Nanos) -> Result<usize, Nanos> {
        self.mark_until(Nanos(now.0 + 1));
        let Some(staging) = self.marked.first_mut() else {
            return Err(self.open.iter().map(|staging| staging.expiry.0).min().unwrap_or(Nanos::NEVER));
        };
        if !staging.sorted {
            staging.sorted = true;
            staging.items.sort_by_key(|item| (item.request.sector, item.number));
        }
        let item = staging.items.remove(0);
        if staging.items.is_empty() {
            let stream = self.marked.remove(0).stream;
            let (back, rest) = self.outside.iter().partition::<Vec<Item>, _>(|item| item.request.stream == stream);
            self.outside = rest;
            let newest = back.iter().map(|item| item.at).max();
            for item in back {
                self.stage(now, item, false);
            }
            // The next gap begins where the newest of them came.
            if let Some((staging, newest)) = self.open.last_mut().zip(newest) {
                staging.newest = newest;
            }
        }
        Ok(item.number)
    }

    fn cancel(&mut self, _number: usize) {
        unreachable!("the model of bid-hdd is run without cancelling");
    }

    fn refuses(&mut self, now: Nanos, request: &Request) -> Option<bool> {
        self.mark_until(now);
        let is_like = |item: &&Item| item.request.operation == request.operation;
        self.limit.map(|limit| self.outside.iter().filter(is_like).count() >= limit)
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Submit { stream: u32, sector: u64, write: bool },
    Cancel(usize),
    Wait { micros: u64 },
    Serve,
}

fn call(cancel: bool) -> impl Strategy<Value = Call> {
    let submit = (0u32..4, 0u64..60, any::<bool>());
    prop_oneof![
        6 => submit.prop_map(|(stream, place, write)| Call::Submit { stream, sector: place * 100, write }),
        u32::from(cancel) => (0usize..64).prop_map(Call::Cancel),
        2 => prop_oneof![0u64..300, 0u64..20_000, 0u64..800_000].prop_map(|micros| Call::Wait { micros }),
        5 => Just(Call::Serve),
    ]
}

fn scheduler(name: &str, requests: u32, staging: u64) -> Policy {
    let row = policy::find(name).unwrap();
    let mut settings = row.defaults();
    for (parameter, value) in [("fifo-batch", FIFO_BATCH), ("history", HISTORY as u64), ("staging", staging)] {
        let _ = row.set(&mut settings, parameter, value);
    }
    row.build(QueueLimits { merge: false, ..QueueLimits::with_requests(requests) }, &settings)
}

/// Runs both; the scheduler's dispatches have to be the model's.
fn compare(name: &str, model: impl Model, calls: &[Call]) {
    compare_with(name, scheduler(name, 100, 0), model, calls);
}

fn compare_with(name: &str, mut scheduler: Policy, mut model: impl Model, calls: &[Call]) {
    let mut now = Nanos::ZERO;
    let mut tags: Vec<(Tag, bool)> = vec![];
    let mut number_of_slot = vec![usize::MAX; 100 * 256];
    for &call in calls {
        match call {
            Call::Submit { stream, sector, write } => {
                let operation = if write { Operation::Write } else { Operation::Read };
                let stream = StreamId(stream);
                let request = Request { operation, flags: Flags::NONE, stream, sector, sectors: 8 };
                let answer = scheduler.submit(now, request);
                if let Some(refused) = model.refuses(now, &request) {
                    assert_eq!(answer.is_err(), refused, "{name} at {now}: {request:?}");
                }
                let Ok(tag) = answer else { continue };
                number_of_slot[tag.index()] = tags.len();
                model.submit(now, Item { number: tags.len(), at: now, request });
                tags.push((tag, true));
            }
            Call::Cancel(which) => {
                let live: Vec<usize> = (0..tags.len()).filter(|&number| tags[number].1).collect();
                let Some(&number) = live.get(which % live.len().max(1)) else { continue };
                scheduler.cancel(now, tags[number].0).unwrap();
                model.cancel(number);
                tags[number].1 = false;
            }
            Call::Wait { micros } => now = now.after(Nanos::from_micros(micros)),
            Call::Serve => {
                let expected = tags.iter().any(|tag| tag.1).then(|| model.next(now));
                match (scheduler.poll(now), expected) {
                    (Step::Idle, None) => {}
                    (Step::Dispatch(dispatch), Some(Ok(number))) => {
                        assert_eq!(number_of_slot[dispatch.tag.index()], number, "{name} at {now}");
                        tags[number].1 = false;
                        scheduler.complete(now, dispatch.tag);
                    }
                    (Step::WaitUntil(time, _), Some(Err(expected))) => {
                        assert_eq!(time, expected);
                        now = now.max(if time == Nanos::NEVER { now } else { time });
                    }
                    (step, expected) => panic!("{name} at {now}: {step:?}, and the model {expected:?}"),
                }
            }
        }
        assert_eq!(scheduler.queued() as usize, tags.iter().filter(|tag| tag.1).count());
        assert_eq!(scheduler.waiting().0.iter().sum::<u32>(), scheduler.queued());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn noop_serves_in_the_order_of_submission(calls in proptest::collection::vec(call(true), 1..120)) {
        compare("noop", NoopModel::default(), &calls);
    }

    #[test]
    fn deadline_serves_as_its_documentation_says(calls in proptest::collection::vec(call(true), 1..120)) {
        compare("deadline", DeadlineModel::new(), &calls);
    }

    #[test]
    fn mq_deadline_serves_as_its_documentation_says(calls in proptest::collection::vec(call(true), 1..120)) {
        compare("mq-deadline", MqDeadlineModel::new(), &calls);
    }

    #[test]
    fn clook_serves_upward(calls in proptest::collection::vec(call(true), 1..120)) {
        compare("clook", ClookModel::default(), &calls);
    }

    #[test]
    fn bid_hdd_serves_as_the_paper_says(calls in proptest::collection::vec(call(false), 1..120)) {
        compare("bid-hdd", BidModel::default(), &calls);
    }

    #[test]
    fn bid_hdd_outside_the_queue_counts_staging_only(
        calls in proptest::collection::vec(call(false), 1..120),
    ) {
        let model = BidModel { limit: Some(3), ..BidModel::default() };
        compare_with("bid-hdd:staging=outside", scheduler("bid-hdd", 3, 1), model, &calls);
    }
}
