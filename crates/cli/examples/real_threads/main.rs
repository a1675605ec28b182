//! Schedules of cores on real threads, beside the simulator.
//!
//! The same server (platform, workload, costs: three TOML files) is run by the executor and by the simulator, under the same
//! schedules. Items are real work: they hash until the processor time of their phase is used up, take real locks, and wait on real
//! timers where the simulator has disks.
//!
//! Two clocks. `cpu`: time is the processor time that the workers' threads were given, kept in step with one another, and what they
//! would sleep is skipped: the load of other programs does not count, while everything that the executor costs does. `wall`:
//! the machine's clock; other programs count.
//!
//! What the executor itself costs an item is measured first, with items that do nothing, and taken off what each item hashes: an
//! item then costs what the file says, with all that comes with it.
//!
//!     real_threads FOLDER CLOCK SECONDS REPETITIONS LOAD[,LOAD...] SCHEDULE[,SCHEDULE...]
//!
//! A load is a share of the processor time that there is, turns not counted. Prints a line for each run: clock, load, schedule,
//! repetition or `sim`, requests, mean and 99th percentile of response times in microseconds, and the share of time worked.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an experiment prints, and fails by panicking")]

mod clock;

use std::sync::{Arc, Mutex};

use clock::CpuClock;
use ioweir_block::executor::{Clock, Counted, Executor, Item, MachineClock, Pool, Progress, Slice, Wait};
use ioweir_config::ScheduleChoice;
use ioweir_core::Nanos;
use ioweir_core::cores::{Cores, CoresLimits, Kind, Source, Work};
use ioweir_core::random::SplitMix;
use ioweir_lab::run::Silent;
use ioweir_lab::server::{CostSpec, OperationKind, Part, PlatformSpec, Server, ServerLoad, WorkCost, WorkloadSpec};

/// Draws that are the same for every schedule.
struct Random(SplitMix);

impl Random {
    fn fraction(&mut self) -> f64 {
        self.0.unit()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.fraction()).ln()
    }

    /// An index by shares.
    fn pick(&mut self, shares: impl Iterator<Item = f64> + Clone) -> usize {
        let mut left = self.fraction() * shares.clone().sum::<f64>();
        let mut last = 0;
        for (at, share) in shares.enumerate() {
            last = at;
            if left < share {
                break;
            }
            left -= share;
        }
        last
    }
}

/// A request to run; times are in nanoseconds from the start.
#[derive(Clone)]
struct Planned {
    at: f64,
    work: Work,
    /// Processor time of each phase, and the wait before the next.
    phases: Vec<(f64, f64)>,
    lock: Option<u32>,
}

/// Draws a load from the specs as the simulator does.
struct Plan<'specs> {
    platform: &'specs PlatformSpec,
    workload: &'specs WorkloadSpec,
    costs: &'specs CostSpec,
    random: Random,
}

impl Plan<'_> {
    fn cost(&mut self, cost: WorkCost, bytes: u64, extra: f64) -> f64 {
        let mean = cost.base.nanos().0 as f64 + cost.per_kib.nanos().0 as f64 * (bytes >> 10) as f64 + extra;
        let varies = mean * self.costs.spread_percent / 100.0;
        mean - varies + self.random.exponential(varies)
    }

    fn request(&mut self, at: f64) -> Planned {
        let workload = self.workload;
        let chosen = self.random.pick(workload.operations.iter().map(|operation| operation.share));
        let operation = &workload.operations[chosen];
        let size = self.random.pick(operation.sizes.iter().map(|(_, share)| *share));
        let bytes = operation.sizes.get(size).map_or(0, |(bytes, _)| bytes.0);
        let mut misses = 0;
        while let Some(percent) = operation.misses_percent.get(misses).or(operation.misses_percent.last())
            && misses < 32
            && self.random.fraction() * 100.0 < *percent
        {
            misses += 1;
        }
        let (kind, first) = match operation.kind {
            OperationKind::Read => (Kind::Read, self.costs.read),
            OperationKind::Write => (Kind::Write, self.costs.write),
            OperationKind::Attributes => (Kind::Other, self.costs.attributes),
        };
        let slow = if misses > 0 { self.costs.slow_path.nanos().0 as f64 } else { 0.0 };
        let mut phases = vec![(self.cost(first, bytes, slow), 0.0)];
        let disks = &self.platform.disks;
        for _ in 0..misses {
            let access = disks.access.nanos().0 as f64 + disks.per_kib.nanos().0 as f64 * (bytes >> 10) as f64;
            let wait = access + self.random.exponential(disks.access_random.nanos().0 as f64);
            phases.last_mut().unwrap().1 = wait;
            phases.push((self.cost(self.costs.restart, bytes, 0.0), 0.0));
        }
        let lock = operation.locks.then(|| (self.random.fraction() * f64::from(workload.objects)) as u32);
        let bytes = u32::try_from(bytes).unwrap();
        let work = Work { kind, source: Source::Client, bytes, sequential: operation.sequential, deadline: None };
        Planned { at, work, phases, lock }
    }

    /// A piece of the server's own work on `bytes` bytes.
    fn own(&mut self, at: f64, source: Source, kind: Kind, bytes: u64, cost: WorkCost) -> Planned {
        let phases = vec![(self.cost(cost, bytes, 0.0), 0.0)];
        let work = Work { kind, source, bytes: u32::try_from(bytes).unwrap(), sequential: true, deadline: None };
        Planned { at, work, phases, lock: None }
    }

    /// All requests within `span`.
    fn draw(&mut self, rate: f64, span: f64) -> Vec<Planned> {
        let mut planned = Vec::new();
        let (mut read_on, mut logged) = (0, 0);
        let interval = self.costs.flush.interval.nanos().0 as f64;
        let mut point = interval;
        let mut at = 0.0;
        loop {
            at += self.random.exponential(1e9 / rate);
            if at >= span {
                return planned;
            }
            while at >= point {
                let operations = self.costs.flush.operations;
                for _ in 0..operations {
                    let bytes = logged / u64::from(operations);
                    let cost = self.costs.flush.cost;
                    planned.push(self.own(point, Source::Critical, Kind::Write, bytes, cost));
                }
                (logged, point) = (0, point + interval);
            }
            let request = self.request(at);
            let Work { kind, sequential, bytes, .. } = request.work;
            planned.push(request);
            if kind == Kind::Write {
                logged += u64::from(bytes) + self.costs.flush.log_record.0;
            } else if kind == Kind::Read && sequential {
                read_on += u64::from(bytes);
                let prefetch = self.costs.prefetch.bytes.0;
                if read_on >= prefetch {
                    read_on -= prefetch;
                    let cost = self.costs.prefetch.cost;
                    planned.push(self.own(at, Source::Background, Kind::Read, prefetch, cost));
                }
            }
        }
    }
}

/// Response times of clients' requests: when they came, and how long they took.
type Responses = Arc<Mutex<Vec<(f64, f64)>>>;

struct Request {
    planned: Planned,
    /// When the plan began.
    origin: f64,
    phase: usize,
    /// The rest of the phase's processor time.
    left: f64,
    /// The cost of coming back from the lock.
    resume: f64,
    overhead: f64,
    waits_for_lock: bool,
    responses: Responses,
    /// The result of hashing, which is kept so that hashing is not optimised away.
    hash: u64,
}

/// About a microsecond of work.
fn hash_some(mut hash: u64) -> u64 {
    for _ in 0..400 {
        hash = (hash ^ (hash >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    std::hint::black_box(hash)
}

impl Item for Request {
    fn run(&mut self, slice: &Slice<'_>) -> Progress {
        let began = slice.used().0 as f64;
        if let Some(lock) = self.planned.lock
            && !slice.lock(lock)
        {
            self.waits_for_lock = true;
            return Progress::Wait(Wait::Lock);
        }
        if std::mem::take(&mut self.waits_for_lock) {
            self.left += self.resume;
        }
        let mut used = 0.0;
        while used + self.overhead < self.left {
            if slice.is_over() {
                self.left -= used;
                return Progress::Preempted;
            }
            self.hash = hash_some(self.hash);
            used = slice.used().0 as f64 - began;
        }
        let wait = self.planned.phases[self.phase].1;
        self.phase += 1;
        if let Some(next) = self.planned.phases.get(self.phase) {
            self.left = next.0;
            return Progress::Wait(Wait::Until(slice.now().after(Nanos(wait as u64))));
        }
        if self.planned.work.source == Source::Client {
            let took = slice.now().0 as f64 - self.origin - self.planned.at;
            self.responses.lock().unwrap().push((self.planned.at, took));
        }
        Progress::Done
    }
}

/// The figures of a run.
struct Measured {
    requests: usize,
    mean: f64,
    p99: f64,
    /// Processor time of the workers over the time that there was.
    worked: f64,
}

struct Setting<'plan> {
    choice: &'plan ScheduleChoice,
    workers: u32,
    costs: &'plan CostSpec,
    objects: u32,
    overhead: f64,
}

impl Setting<'_> {
    /// A pool that has everything that is planned still to come, from `origin` on.
    fn pool<C: Clock + Clone>(&self, planned: &[Planned], clock: C, origin: Nanos) -> (Pool<C>, Responses) {
        let room = u32::try_from(planned.len()).unwrap().max(1);
        let limits = CoresLimits { requests: room, workers: self.workers, cores: self.workers, seed: 1 };
        let cores = Cores::new(self.choice.row.schedule(&self.choice.settings), limits).unwrap();
        let turn = self.costs.turn.nanos().0 as f64 - self.overhead.min(self.costs.turn.nanos().0 as f64) / 2.0;
        let hook = clock.clone();
        let pool = Pool::new(cores, self.objects, clock).with_turn_hook(move |_| {
            let began = hook.used();
            let mut hash = began.0;
            while (hook.used().since(began).0 as f64) < turn {
                hash = hash_some(hash);
            }
        });
        let responses = Responses::default();
        for planned in planned {
            let request = Request {
                left: planned.phases[0].0,
                planned: planned.clone(),
                origin: origin.0 as f64,
                phase: 0,
                resume: self.costs.slow_path.nanos().0 as f64,
                overhead: self.overhead,
                waits_for_lock: false,
                responses: Arc::clone(&responses),
                hash: 1,
            };
            let at = origin.after(Nanos(planned.at as u64));
            pool.submit_at(at, planned.work, Box::new(request)).unwrap();
        }
        (pool, responses)
    }

    fn on_cpu_time(&self, planned: &[Planned]) -> (Responses, f64) {
        let clock = CpuClock::new(self.workers);
        let (pool, responses) = self.pool(planned, clock.clone(), Nanos::ZERO);
        pool.close();
        let pool = Arc::new(pool);
        std::thread::scope(|scope| {
            for worker in 0..self.workers {
                let (clock, pool) = (clock.clone(), &pool);
                scope.spawn(move || clock.enter(worker as usize, || pool.work(worker)));
            }
        });
        (responses, self.worked(&pool.counted(), clock.told()))
    }

    fn on_wall_time(&self, planned: &[Planned]) -> (Responses, f64) {
        let clock = MachineClock::new();
        let origin = clock.now().after(Nanos::from_millis(500));
        let (pool, responses) = self.pool(planned, clock, origin);
        let executor = Executor::over(pool).unwrap();
        let counted = executor.shutdown();
        (responses, self.worked(&counted, clock.now().since(origin)))
    }

    /// The share of the workers' time in which they ran items or took up turns.
    fn worked(&self, counted: &Counted, span: Nanos) -> f64 {
        let used: u64 = counted.queues.iter().map(|queue| queue.used_nanos).sum();
        let turns: u64 = counted.queues.iter().map(|queue| queue.turns).sum();
        let sum = used as f64 + turns as f64 * self.costs.turn.nanos().0 as f64;
        sum / (span.0 as f64 * f64::from(self.workers))
    }
}

/// The executor's cost for an item that does nothing: the median of five times twenty thousand.
fn overhead(choice: &ScheduleChoice, costs: &CostSpec) -> f64 {
    let work = Work { kind: Kind::Read, source: Source::Client, bytes: 0, sequential: false, deadline: None };
    let planned: Vec<_> =
        (0..20_000).map(|_| Planned { at: 0.0, work, phases: vec![(0.0, 0.0)], lock: None }).collect();
    let setting = Setting { choice, workers: 1, costs, objects: 0, overhead: 0.0 };
    let mut costs: Vec<f64> = (0..5)
        .map(|_| {
            let (responses, _) = setting.on_cpu_time(&planned);
            let last = responses.lock().unwrap().iter().map(|response| response.1).fold(0.0, f64::max);
            last / planned.len() as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    costs[2]
}

/// The first fifth is not measured.
fn measured((responses, worked): (Responses, f64), span: f64) -> Measured {
    let responses = responses.lock().unwrap();
    let mut times: Vec<f64> = responses.iter().filter(|(at, _)| *at >= span / 5.0).map(|(_, took)| *took).collect();
    times.sort_by(f64::total_cmp);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    Measured { requests: times.len(), mean, p99: times[times.len() * 99 / 100], worked }
}

fn print(clock: &str, load: f64, name: &str, run: &str, measured: &Measured) {
    let Measured { requests, mean, p99, worked } = measured;
    println!("{clock},{load},{name},{run},{requests},{:.1},{:.1},{worked:.3}", mean / 1e3, p99 / 1e3);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, clock, seconds, repetitions, loads, schedules] = arguments.as_slice() else {
        panic!("FOLDER CLOCK SECONDS REPETITIONS LOAD[,LOAD...] SCHEDULE[,SCHEDULE...]");
    };
    let platform = PlatformSpec::load(&format!("{folder}/platform.toml")).unwrap();
    let workload = WorkloadSpec::load(&format!("{folder}/workload.toml")).unwrap();
    let costs = CostSpec::load(&format!("{folder}/costs.toml")).unwrap();
    let workers = platform.workers();
    let span = seconds.parse::<f64>().unwrap() * 1e9;
    let choices: Vec<ScheduleChoice> = schedules.split(',').map(|name| name.parse().unwrap()).collect();
    let overhead = overhead(&choices[0], &costs);
    println!("# the executor's own cost: {:.2} us an item", overhead / 1e3);
    println!("clock,load,schedule,run,requests,mean_us,p99_us,worked");
    for load in loads.split(',').map(|load| load.parse::<f64>().unwrap()) {
        let draw = |rate, seed| {
            Plan { platform: &platform, workload: &workload, costs: &costs, random: Random(SplitMix::new(seed)) }
                .draw(rate, span)
        };
        // The mean cost of a request, with all work that comes with it.
        let sample = draw(10_000.0, 0);
        let sum: f64 = sample.iter().flat_map(|planned| &planned.phases).map(|phase| phase.0).sum();
        let clients = sample.iter().filter(|planned| planned.work.source == Source::Client).count();
        let rate = load * f64::from(workers) * 1e9 / (sum / clients as f64);
        for repetition in 0..repetitions.parse().unwrap() {
            let planned = draw(rate, repetition + 1);
            for choice in &choices {
                let setting = Setting { choice, workers, costs: &costs, objects: workload.objects, overhead };
                let run = if clock == "cpu" { setting.on_cpu_time(&planned) } else { setting.on_wall_time(&planned) };
                print(clock, load, &choice.to_string(), &repetition.to_string(), &measured(run, span));
            }
        }
        let server = Server::new(platform.clone(), workload.clone(), costs.clone()).unwrap();
        for choice in &choices {
            // Swings of a second, which are flat.
            let load_at = ServerLoad { requests_per_second: rate, warm_up: 5, measured: 100, seed: 1 };
            let outcome = server.run(choice, &load_at, &Silent).unwrap();
            let mean = outcome.all.mean_seconds().unwrap() * 1e9;
            let p99 = outcome.all.quantile_seconds(0.99).unwrap() * 1e9;
            let requests = outcome.all.answered() as usize;
            print(
                clock,
                load,
                &choice.to_string(),
                "sim",
                &Measured { requests, mean, p99, worked: outcome.utilisation },
            );
        }
    }
}
