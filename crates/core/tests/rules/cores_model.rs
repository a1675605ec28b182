//! Request scheduling against a naive model: lists that are searched and sorted instead of heaps, links and counts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use ioweir_core::cores::{
    Cores, CoresLimits, Dispatch, Kind, Log, Order, Queue, SCHEDULES, Schedule, Sharing, SliceRule, Source, Turn, Wait,
    Work,
};
use ioweir_core::{Nanos, Tag};
use proptest::prelude::*;

const WORKERS: u32 = 3;
const CAPACITY: u32 = 12;

/// A request as the model knows it.
#[derive(Clone, Copy, Debug)]
struct Item {
    work: Work,
    arrival: Nanos,
    returns: u32,
    preempted: bool,
    /// CPU time that it has used, and the most that it was expected to need in all.
    used: u64,
    size: u64,
    /// The time by which HQ orders the request.
    due: Option<Nanos>,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// Queued in this queue, with this sequence number.
    Queued(Queue, u64),
    Running(u32),
    Suspended,
}

/// Kind, size class, sequential, source, how often it came back.
type Kinship = (u8, u32, bool, u8, u32);

fn kinship(item: &Item) -> Kinship {
    let Work { kind, source, bytes, sequential, .. } = item.work;
    let size = (0..6).find(|&size| u64::from(bytes) <= [0, 4, 16, 64, 256, 1024][size] * 1024).unwrap_or(6);
    (kind as u8, size as u32, sequential, source as u8, if item.preempted { 9 } else { item.returns.min(3) })
}

/// A mean over all samples, and over about 64 once there are more.
fn average((nanos, samples): (u64, u64), sample: u64) -> (u64, u64) {
    let samples = (samples + 1).min(64);
    ((nanos * (samples - 1) + sample) / samples, samples)
}

struct Model {
    schedule: Schedule,
    items: BTreeMap<usize, Item>,
    sequence: u64,
    /// The CPU time needed by each kind of request, with the number of samples; and the mean of all kinds.
    needs: BTreeMap<Kinship, (u64, u64)>,
    mean: (u64, u64),
    /// CPU time of short requests and of all: since the last look, and at that.
    counted: (u64, u64),
    demand: (u64, u64),
    /// Queue, slice, begin of each worker's turn.
    turns: [Option<(Queue, Nanos, Option<Nanos>)>; WORKERS as usize],
}

impl Model {
    fn needs(&self, item: &Item) -> u64 {
        self.needs.get(&kinship(item)).map_or(0, |need| need.0)
    }

    /// Learns the CPU time that an item used; `then` is the item as it goes on.
    fn learn(&mut self, item: &Item, used: Nanos, then: Option<&Item>) {
        let sample = used.0 + then.map_or(0, |then| self.needs(then));
        let need = self.needs.entry(kinship(item)).or_default();
        *need = average(*need, sample);
        if item.work.source == Source::Critical {
            return;
        }
        self.mean = average(self.mean, sample);
        let is_short = self.needs(item) <= 2 * self.mean.0;
        self.counted = (self.counted.0 + if is_short { used.0 } else { 0 }, self.counted.1 + used.0);
        if self.counted.1 >= 100_000_000 {
            (self.demand, self.counted) = (self.counted, (0, 0));
        }
    }

    fn queue(&self, item: &Item) -> Queue {
        if item.work.source == Source::Critical {
            return Queue::Maintenance;
        }
        let (is_write, is_back) = (item.work.kind == Kind::Write, item.returns > 0);
        let goes_high = match self.schedule.dispatch {
            Dispatch::Baseline => !is_back,
            Dispatch::RestartedHigh => is_back,
            Dispatch::AllHigh => true,
            Dispatch::AllLow => false,
            Dispatch::WritesHigh => is_write,
            Dispatch::WritesRestartedHigh => is_write || is_back,
            Dispatch::NotPreemptedHigh => !item.preempted,
            Dispatch::SizeOriented => !item.preempted && (is_write || is_back),
            Dispatch::ShortHigh => self.needs(item) <= 2 * self.mean.0,
        };
        if goes_high { Queue::High } else { Queue::Low }
    }

    fn enqueue(&mut self, slot: usize, mut item: Item) {
        item.due = match self.schedule.order {
            Order::Deadline => item.work.deadline,
            Order::Arrival => None,
            // No run of the test has as many requests as it takes until any is delayed far.
            Order::Attained => {
                let promised = item.arrival.0 + 30_000_000;
                let due = item.work.deadline.map_or(promised, |deadline| deadline.0.min(promised));
                item.size = item.size.max(item.used + self.needs(&item));
                Some(Nanos(due + 2 * item.size))
            }
        };
        // A preempted request of a paced flush goes before all others in MQ, the latest one first.
        let is_first = item.work.source == Source::Critical && item.preempted && self.schedule.maintenance.paced;
        let sequence = if is_first { u64::MAX / 2 - self.sequence } else { u64::MAX / 2 + self.sequence };
        item.place = Place::Queued(self.queue(&item), sequence);
        self.sequence += 1;
        self.items.insert(slot, item);
    }

    fn depth(&self, queue: Queue) -> u32 {
        self.items.values().filter(|item| matches!(item.place, Place::Queued(at, _) if at == queue)).count() as u32
    }

    /// The slot that `queue` gives a worker next.
    fn head(&self, queue: Queue, worker: u32) -> Option<usize> {
        let key = |item: &Item| match item.place {
            Place::Queued(at, sequence) if at == queue => {
                let due = item.due.filter(|_| queue == Queue::High);
                let is_own = self.schedule.sharing == Sharing::Stealing && queue == Queue::High && due.is_none();
                let lane = (item.arrival.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as u32 % WORKERS;
                let steps = if is_own { (lane + WORKERS - worker) % WORKERS } else { 0 };
                Some((due.is_none(), due, steps, sequence))
            }
            _ => None,
        };
        let queued = self.items.iter().filter_map(|(&slot, item)| key(item).map(|key| (key, slot)));
        queued.min().map(|(_, slot)| slot)
    }

    fn slice(&self, queue: Queue) -> Nanos {
        let depth = Queue::ALL.map(|queue| u64::from(self.depth(queue)));
        let weight = self.schedule.weights.map(u64::from);
        let at = queue as usize;
        let by_rule = match self.schedule.slices {
            SliceRule::Weighted { window, all_weights } => {
                let sum: u64 = (0..3).filter(|&other| all_weights || depth[other] > 0).map(|other| weight[other]).sum();
                window.0 * weight[at] / sum
            }
            SliceRule::DepthAware { base, cap, priorities } => {
                let product = |at: usize| depth[at] * u64::from(priorities[at]);
                base.0 + cap.0 * product(at) / (product(0) + product(1) + product(2))
            }
        };
        match self.schedule.maintenance.slice {
            Some(slice) if queue == Queue::Maintenance => slice,
            _ => Nanos(by_rule),
        }
    }

    /// The workers of the highest numbers that never serve LQ.
    fn reserved(&self) -> u32 {
        let (short, all) = self.demand;
        if self.schedule.sharing != Sharing::Reserved || short == all {
            return 0;
        }
        let share = short * 1000 / all;
        ((u64::from(WORKERS) * share + 500) / 1000).clamp(1, u64::from(WORKERS) - 1) as u32
    }

    fn waiting(&self) -> [u32; Wait::COUNT] {
        let mut waiting = [0; Wait::COUNT];
        for queue in Queue::ALL {
            let is_served = self.turns.iter().flatten().any(|turn| turn.0 == queue);
            waiting[usize::from(!is_served)] += self.depth(queue);
        }
        waiting[2] = self.items.values().filter(|item| item.place == Place::Suspended).count() as u32;
        waiting
    }
}

#[derive(Clone, Debug)]
enum Call {
    Submit(Work),
    Next(u32),
    Take(u32),
    Finish(u32),
    Suspend(u32),
    Preempt(u32),
    Restart,
}

fn call() -> impl Strategy<Value = Call> {
    let work = (0usize..3, 0usize..4, proptest::option::of(0u64..40), 0usize..5);
    let work = work.prop_map(|(kind, source, deadline, size)| Work {
        kind: Kind::ALL[kind],
        source: [Source::Client, Source::Client, Source::Background, Source::Critical][source],
        bytes: [0, 1, 4096, 4097, 1 << 21][size],
        sequential: size == 4,
        deadline: deadline.map(Nanos::from_millis),
    });
    let worker = 0..WORKERS;
    prop_oneof![
        4 => work.prop_map(Call::Submit),
        2 => worker.clone().prop_map(Call::Next),
        5 => worker.clone().prop_map(Call::Take),
        2 => worker.clone().prop_map(Call::Finish),
        2 => worker.clone().prop_map(Call::Suspend),
        1 => worker.prop_map(Call::Preempt),
        2 => Just(Call::Restart),
    ]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let settings = (any::<bool>(), any::<bool>(), any::<bool>());
    (0..SCHEDULES.len(), settings).prop_map(|(row, (qats, all, is_fixed))| {
        let row = &SCHEDULES[row];
        let mut settings = row.defaults();
        let mq_slice = if is_fixed { 200_000 } else { 0 };
        for (name, value) in [("qats", u64::from(qats)), ("all-weights", u64::from(all)), ("mq-slice", mq_slice)] {
            row.set(&mut settings, name, value).unwrap();
        }
        row.schedule(&settings)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn cores_do_what_a_naive_model_does(
        schedule in schedule(), seed in any::<u64>(), calls in proptest::collection::vec((call(), 0u64..900), 1..250),
    ) {
        let limits = CoresLimits { requests: CAPACITY, workers: WORKERS, cores: 4, seed };
        let mut cores = Cores::new(schedule, limits).unwrap();
        let mut model = Model { schedule, items: BTreeMap::new(), sequence: 0, needs: BTreeMap::new(), mean: (0, 0), counted: (0, 0), demand: (0, 0), turns: [None; WORKERS as usize] };
        let mut tags: [Option<Tag>; CAPACITY as usize] = [None; CAPACITY as usize];
        let mut now = Nanos::ZERO;
        for (call, pause) in calls {
            now = now.after(Nanos::from_micros(pause));
            let running = |model: &Model, worker| {
                model.items.iter().find(|(_, item)| item.place == Place::Running(worker)).map(|(&slot, &item)| (slot, item))
            };
            match call {
                Call::Submit(work) => match cores.submit(now, work) {
                    Ok(tag) => {
                        prop_assert!(!model.items.contains_key(&tag.index()));
                        prop_assert_ne!(tags[tag.index()], Some(tag));
                        tags[tag.index()] = Some(tag);
                                                model.enqueue(tag.index(), Item { work, arrival: now, returns: 0, preempted: false, used: 0, size: 0, due: None, place: Place::Suspended });
                    }
                    Err(back) => {
                        prop_assert_eq!(back, work);
                        prop_assert_eq!(model.items.len(), CAPACITY as usize);
                    }
                },
                Call::Next(worker) => {
                    if running(&model, worker).is_some() { continue; }
                    model.turns[worker as usize] = None;
                    match cores.next(now, worker, Log::default()) {
                        Turn::Serve { queue, slice, .. } => {
                            prop_assert!(model.depth(queue) > 0);
                            prop_assert!(queue != Queue::Low || worker < WORKERS - model.reserved());
                            prop_assert_eq!(slice, model.slice(queue));
                            model.turns[worker as usize] = Some((queue, slice, None));
                        }
                        Turn::Idle => {
                            let is_reserved = worker >= WORKERS - model.reserved();
                            let served = Queue::ALL.into_iter().filter(|&queue| queue != Queue::Low || !is_reserved);
                            prop_assert!(served.into_iter().all(|queue| model.depth(queue) == 0));
                        }
                    }
                }
                Call::Take(worker) => {
                    if running(&model, worker).is_some() { continue; }
                    let mut expected = None;
                    if let Some((queue, slice, began)) = model.turns[worker as usize] {
                        let began = began.unwrap_or(now);
                        let is_in_time = now.0 < began.0 + slice.0;
                        let quantum = model.schedule.quantum.filter(|_| queue != Queue::Maintenance);
                        let allowance = quantum.unwrap_or(slice);
                        expected = model.head(queue, worker).filter(|_| is_in_time).map(|slot| (slot, allowance));
                        model.turns[worker as usize] = expected.map(|_| (queue, slice, Some(began)));
                    }
                    let run = cores.take(now, worker);
                    prop_assert_eq!(run.map(|run| (run.tag.index(), run.allowance)), expected);
                    if let Some((slot, _)) = expected {
                        prop_assert_eq!(run.map(|run| run.tag), tags[slot]);
                        model.items.get_mut(&slot).unwrap().place = Place::Running(worker);
                    }
                }
                Call::Finish(worker) | Call::Suspend(worker) | Call::Preempt(worker) => {
                    let Some((slot, mut item)) = running(&model, worker) else { continue };
                    let (tag, used) = (tags[slot].unwrap(), Nanos(pause * 1_000 + 1));
                    let before = item;
                    item.used += used.0;
                    item.size = item.size.max(item.used);
                    match call {
                        Call::Finish(_) => {
                            cores.finished(now, worker, tag, used);
                            model.learn(&before, used, None);
                            model.items.remove(&slot);
                        }
                        Call::Suspend(_) => {
                            cores.suspended(now, worker, tag, used);
                            item.returns += 1;
                            model.learn(&before, used, Some(&item));
                            item.place = Place::Suspended;
                            model.items.insert(slot, item);
                        }
                        _ => {
                            cores.preempted(now, worker, tag, used);
                            (item.returns, item.preempted) = (item.returns + 1, true);
                            model.learn(&before, used, Some(&item));
                            model.enqueue(slot, item);
                        }
                    }
                }
                Call::Restart => {
                    let suspended = model.items.iter().find(|(_, item)| item.place == Place::Suspended);
                    let Some((slot, item)) = suspended.map(|(&slot, &item)| (slot, item)) else { continue };
                    cores.restarted(now, tags[slot].unwrap());
                    model.enqueue(slot, item);
                }
            }
            prop_assert_eq!(cores.depths(), Queue::ALL.map(|queue| model.depth(queue)));
            prop_assert_eq!(cores.waiting(), model.waiting());
        }
    }
}
