//! Replays a plan on recorded load: core's executor of background work does it slice by slice, and sees only the past.
//!
//! Each bin is divided into steps of a slice's length. At the start of a step the executor is told how many cores the requests of
//! the step, and those that still wait, want; they are served by the cores that background work does not hold.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioweir_core::Nanos;
use ioweir_core::background::{
    Bucket, Executor, Resource, SERVICES, ServiceSettings, Settings, Slice, Step, Watermark,
};

use super::load::Ahead;
use super::planner::decide;
use super::schedule::BinCourse;
use super::system::{Demand, Ledger, System};

/// Steps in a bin.
const STEPS: u64 = 10;
/// The most batches of a service's debt: more than a plan has bins.
const BATCHES_MAX: usize = 1 << 14;

/// The scheduler that a replay drives.
pub enum Decider<'a> {
    /// Decides by the amount of debt alone. With `harvests`, it also uses idle foreground cores.
    Watermark {
        /// The debt at which payment begins, and at which it takes all cores.
        watermark: Watermark,
        /// Whether idle cores are used below the watermark.
        harvests: bool,
    },
    /// The planner, with a function from the bin to the expected load from that bin on.
    Planner(&'a mut dyn FnMut(usize) -> Ahead),
}

/// The outcome of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    pub course: Vec<BinCourse>,
    /// The number of requests that arrived.
    pub requests: u64,
    /// Requests that arrived beyond the capacity of the foreground's cores in their bin.
    pub delayed_requests: u64,
    /// Bins in which not every request was served.
    pub violated_bins: usize,
    /// Bins that ended below the pool's floor.
    pub below_floor_bins: usize,
    /// Bins that ended with more blocks than the pool has.
    pub overrun_bins: usize,
    /// Bins that ended with debt past its deadline.
    pub late_bins: usize,
    /// The fewest free blocks; zero if the pool overran.
    pub free_blocks_min: u64,
    /// The highest debt that holds space.
    pub tied_blocks_max: u64,
}

impl Replayed {
    /// The share of bins in which not every request was served, in percent.
    #[must_use]
    pub fn violated_percent(&self) -> f64 {
        100.0 * self.violated_bins as f64 / self.course.len().max(1) as f64
    }

    /// The share of requests that had to be queued, in percent.
    #[must_use]
    pub fn delayed_percent(&self) -> f64 {
        100.0 * self.delayed_requests as f64 / self.requests.max(1) as f64
    }
}

/// Replays the recorded load from the debts of `ledger` on.
#[must_use]
pub fn replay(system: &System, ledger: Ledger, actual: &[Demand], decider: &mut Decider<'_>) -> Replayed {
    let mut done = Replayed { free_blocks_min: ledger.pool.free_blocks(), ..Replayed::default() };
    let bucket = match decider {
        Decider::Watermark { watermark, harvests } => Bucket::Fixed { watermark: *watermark, harvests: *harvests },
        Decider::Planner(_) => Bucket::Planned,
    };
    let mut player = Player::new(system, &ledger, bucket);
    for (at, demand) in actual.iter().enumerate() {
        if let Decider::Planner(forecast) = decider {
            let mut ahead = forecast(at);
            if ahead.demand.is_empty() {
                ahead = Ahead::known(std::slice::from_ref(demand));
            }
            player.plan(&ahead);
        }
        let course = player.play(demand);
        done.count(&player, demand, course);
    }
    done
}

/// The executor, with the state of the simulated bins.
struct Player<'a> {
    system: &'a System,
    executor: Executor,
    bin: usize,
    queued_requests: u64,
    /// Slices that run, by their end.
    running: BinaryHeap<Reverse<(Nanos, usize)>>,
    slices: Vec<Option<Slice>>,
}

impl<'a> Player<'a> {
    fn new(system: &'a System, ledger: &Ledger, bucket: Bucket) -> Self {
        let mut services = SERVICES.each_ref().map(|row| row.defaults());
        for (service, terms) in system.run() {
            // Where the device gives a service less than the cores could do.
            let block_nanos_min = match terms.bin_blocks_max {
                u64::MAX => Nanos::ZERO,
                most => Nanos(system.bin.0.div_ceil(most.max(1))),
            };
            services[service as usize] = ServiceSettings { block_nanos_min, ..terms.settings };
        }
        let operation = (u128::from(system.bin.0) * 1000).div_ceil(u128::from(system.core_work.max(1)));
        let mut executor = Executor::new(Settings {
            resource: Resource::Cores(system.cores),
            operation: Nanos(u64::try_from(operation).unwrap_or(u64::MAX)),
            slice: Nanos(system.bin.0 / STEPS),
            grace: Nanos::NEVER,
            headroom_units: 0,
            forces: true,
            calm: Nanos::ZERO,
            bucket,
            pool: ledger.pool,
            services,
            batches_max: BATCHES_MAX,
            directives_max: 1,
        });
        let now = system.begins(ledger.bin);
        for (service, _) in system.run() {
            // The pool of the ledger counts what its debts hold.
            ledger.queues[service as usize].batches().for_each(|batch| executor.owe(now, service, *batch));
        }
        let slices = vec![None; system.cores.max(1) as usize];
        let queued_requests = ledger.queued_requests;
        Self { system, executor, bin: ledger.bin, queued_requests, running: BinaryHeap::new(), slices }
    }

    /// Makes the plan anew, and hands the executor its bin.
    fn plan(&mut self, ahead: &Ahead) {
        let ledger = Ledger::of(&self.executor, self.bin, self.queued_requests);
        let from = self.system.begins(self.bin);
        self.executor.adopt(from, &[decide(self.system, &ledger, ahead, from)]);
    }

    /// Plays the next bin.
    fn play(&mut self, demand: &Demand) -> BinCourse {
        let (begins, system) = (self.system.begins(self.bin), self.system);
        for (service, batch) in system.debts(self.bin, demand, self.executor.pool().used_blocks) {
            self.executor.incur(begins, service, batch);
        }
        self.executor.store(begins, demand.new_blocks);
        let mut course = BinCourse::default();
        let mut worked = 0_u128;
        for step in 0..STEPS {
            let part = |all: u64| {
                let until = |steps: u64| u128::from(all) * u128::from(steps) / u128::from(STEPS);
                (until(step + 1) - until(step)) as u64
            };
            let (now, end) = (begins.after(Nanos(system.bin.0 / STEPS * step)), system.begins(self.bin + 1));
            let end = if step + 1 == STEPS { end } else { begins.after(Nanos(system.bin.0 / STEPS * (step + 1))) };
            let (arrived, core_requests) = (part(demand.requests), part(system.core_requests).max(1));
            let wanted = self.queued_requests.saturating_add(arrived);
            let wanted_cores = wanted.div_ceil(core_requests);
            self.executor.open(now, system.open_services(self.bin));
            self.executor.foreground(now, u32::try_from(wanted_cores).unwrap_or(u32::MAX));
            self.start(now);
            let capacity = u64::from(self.executor.foreground_units()).saturating_mul(core_requests);
            self.queued_requests = wanted.saturating_sub(capacity);
            course.delayed_requests = course.delayed_requests.saturating_add(arrived.saturating_sub(capacity));
            course.wanted_cores = course.wanted_cores.max(wanted_cores);
            course.foreground_cores = course
                .foreground_cores
                .max(u32::try_from(wanted_cores).unwrap_or(u32::MAX).min(self.executor.foreground_units()));
            worked += self.work(end, &mut course);
        }
        self.bin += 1;
        let now = system.begins(self.bin);
        course.background_cores = u32::try_from(worked.div_ceil(u128::from(system.bin.0.max(1)))).unwrap_or(u32::MAX);
        course.queued_requests = self.queued_requests;
        course.used_blocks = self.executor.pool().used_blocks;
        let waiting = self.executor.queues().iter().flat_map(|queue| queue.batches());
        let waiting = waiting.filter(|batch| batch.due_at <= now).map(|batch| batch.blocks);
        let running = self.executor.running().filter(|slice| slice.due_at <= now).map(|slice| slice.blocks);
        course.late_blocks = waiting.chain(running).fold(0, u64::saturating_add);
        course.missed_blocks = course.late_blocks;
        course
    }

    /// Starts all slices that may run.
    fn start(&mut self, now: Nanos) {
        while let Step::Run(slice) = self.executor.poll(now) {
            let place = slice.tag.place();
            self.running.push(Reverse((slice.ends_at, place)));
            self.slices[place] = Some(slice);
        }
    }

    /// Completes slices until the end of a step, and starts others; returns the core time of those that ended.
    fn work(&mut self, end: Nanos, course: &mut BinCourse) -> u128 {
        let mut worked = 0_u128;
        while let Some(Reverse((ends_at, place))) = self.running.peek().copied().filter(|next| next.0.0 <= end) {
            self.running.pop();
            let Some(slice) = self.slices[place].take() else { continue };
            let took = ends_at.since(slice.started_at);
            self.executor.complete(ends_at, slice.tag, slice.blocks, took);
            course.paid_blocks[slice.service as usize] += slice.blocks;
            worked += u128::from(took.0);
            // A slice that would begin at the end of the step waits until the foreground's demand there is known.
            if ends_at < end {
                self.start(ends_at);
            }
        }
        worked
    }
}

impl Replayed {
    fn count(&mut self, player: &Player<'_>, demand: &Demand, course: BinCourse) {
        let pool = player.executor.pool();
        self.requests = self.requests.saturating_add(demand.requests);
        self.delayed_requests = self.delayed_requests.saturating_add(course.delayed_requests);
        self.violated_bins += usize::from(course.queued_requests > 0);
        self.below_floor_bins += usize::from(pool.below_floor_blocks() > 0);
        self.overrun_bins += usize::from(pool.overrun_blocks() > 0);
        self.late_bins += usize::from(course.late_blocks > 0);
        self.free_blocks_min = self.free_blocks_min.min(pool.free_blocks());
        self.tied_blocks_max = self.tied_blocks_max.max(player.executor.tied_blocks());
        self.course.push(course);
    }
}
