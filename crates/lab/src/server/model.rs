//! A server spec in the units of the event loop: nanoseconds, bytes, and probabilities in 2^32 parts.

use ioweir_core::cores::Kind;
use ioweir_device::BankSpec;

use super::random::{Chance, Stream};
use super::spec::{CostSpec, OperationKind, OperationSpec, PlatformSpec, WorkCost, WorkloadSpec};
use crate::sim::varying::Varying;
use crate::sim::{Serial, TurnCosts};

/// The number of steps in the table of arrival rates over a swing.
const SWING_STEPS: usize = 256;

/// The phase of a request whose cost is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A client request, from its arrival on.
    First {
        kind: Kind,
        /// Whether the request leaves the fast path.
        slow: bool,
    },
    /// After a wait for a disk.
    Restart,
    /// After a wait for a lock, memory or the log: the request resumes.
    Resumed,
    Prefetch,
    /// An operation of a consistency point.
    Flush,
    /// An operation of the server itself, before its disk read and after it.
    BackEndFirst,
    BackEnd,
}

/// Processor time in nanoseconds: fixed and varying parts, each independent of the size and for each KiB.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    base: u64,
    kib: u64,
}

impl Cost {
    fn new(cost: WorkCost) -> Self {
        Self { base: cost.base.nanos().0, kib: cost.per_kib.nanos().0 }
    }

    fn mean(self, bytes: u32) -> u64 {
        self.base + self.kib * u64::from(bytes >> 10)
    }
}

/// An operation of the workload.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) name: String,
    /// The upper end of the operation's range in 2^32.
    upper: u64,
    pub(super) kind: Kind,
    sizes: Vec<(u64, u32)>,
    pub(super) sequential: bool,
    misses: Vec<Chance>,
    single_block: Chance,
    pub(super) locks: bool,
    deadline: Option<(Chance, u64)>,
}

/// The largest request that may lie in one block.
pub(super) const BLOCK_BYTES: u32 = 4096;

/// The most disk waits of one request, which bounds chains of misses.
const MISSES_MAX: u8 = 32;

impl Operation {
    pub(super) fn bytes(&self, stream: &mut Stream) -> u32 {
        match self.sizes.as_slice() {
            [] => 0,
            [(_, bytes)] => *bytes,
            sizes => {
                let drawn = stream.next() >> 32;
                sizes.iter().find(|(upper, _)| drawn < *upper).map_or(0, |(_, bytes)| *bytes)
            }
        }
    }

    /// Whether a read of this size lies in one block. Nothing is drawn where none does.
    pub(super) fn is_single_block(&self, bytes: u32, stream: &mut Stream) -> bool {
        self.kind == Kind::Read
            && bytes <= BLOCK_BYTES
            && self.single_block != Chance::default()
            && stream.happens(self.single_block)
    }

    /// The promised response time, if any.
    pub(super) fn deadline(&self, stream: &mut Stream) -> Option<u64> {
        self.deadline.filter(|(chance, _)| stream.happens(*chance)).map(|(_, within)| within)
    }

    /// The number of successive blocks of the request that are missing in memory.
    pub(super) fn misses(&self, stream: &mut Stream) -> u8 {
        let Some(last) = self.misses.last() else { return 0 };
        let mut count = 0;
        while count < MISSES_MAX && stream.happens(*self.misses.get(usize::from(count)).unwrap_or(last)) {
            count += 1;
        }
        count
    }
}

/// A flash cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flash {
    pub(super) hits: Chance,
    pub(super) access: u64,
    pub(super) kib: u64,
}

/// Long requests: how many client requests and prefetches are long, and the range of their further time.
#[derive(Clone, Copy, Debug)]
struct Tail {
    clients: Chance,
    prefetches: Chance,
    from: u64,
    to: u64,
}

impl Tail {
    /// The further time of a phase.
    fn draw(&self, phase: Phase, stream: &mut Stream) -> u64 {
        let chance = match phase {
            Phase::First { .. } => self.clients,
            Phase::Prefetch => self.prefetches,
            _ => return 0,
        };
        if !stream.happens(chance) {
            return 0;
        }
        let span = u32::try_from(self.to - self.from).unwrap_or(u32::MAX);
        self.from + u64::from(stream.below(span.saturating_add(1)))
    }

    fn mean_nanos(&self, chance: Chance) -> f64 {
        chance.share() * (self.from + self.to) as f64 / 2.0
    }
}

/// Operations of the server itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackEnd {
    /// The time from one to the next.
    pub(super) gap: u64,
    pub(super) regions: u32,
    pub(super) within: u64,
    cost: Cost,
}

/// The compiled model that the event loop runs.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) workers: u32,
    pub(super) requests: u32,
    pub(super) turns: TurnCosts,
    pub(super) network: u64,
    pub(super) disks: BankSpec,
    pub(super) flash: Option<Flash>,
    pub(super) read_buffers: u64,
    pub(super) nvram: u64,
    pub(super) log_record: u64,
    pub(super) flush_interval: u64,
    pub(super) flush_operations: u32,
    pub(super) prefetch_bytes: u32,
    pub(super) objects: u32,
    pub(super) back_end: Option<BackEnd>,
    tail: Option<Tail>,
    pub(super) operations: Vec<Operation>,
    first: [Cost; Kind::ALL.len()],
    restart: Cost,
    prefetch: Cost,
    flush: Cost,
    slow: u64,
    /// The varying part of a cost, in 1/65,536.
    spread: u64,
    varying: Varying,
    /// The mean time between arrivals in 1/256 ns, over a swing.
    gaps: Box<[u64]>,
    swing_step: u64,
}

impl Model {
    pub(super) fn new(
        platform: &PlatformSpec,
        workload: &WorkloadSpec,
        costs: &CostSpec,
        rate: f64,
        requests: u32,
    ) -> Self {
        let flash = platform.flash_cache.as_ref().map(|flash| Flash {
            hits: Chance::new(flash.hits_percent / 100.0),
            access: flash.access.nanos().0,
            kib: flash.per_kib.nanos().0,
        });
        let amplitude = costs.swing.amplitude_percent / 100.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time between arrivals")]
        let gap = |step: usize| {
            // A triangle: up from the mean, down through it, and up to it again.
            let quarters = (step as f64 + 0.5) / SWING_STEPS as f64 * 4.0;
            let height = if quarters < 1.0 {
                quarters
            } else if quarters < 3.0 {
                2.0 - quarters
            } else {
                quarters - 4.0
            };
            (256e9 / (rate * (1.0 + amplitude * height))).round() as u64
        };
        Self {
            workers: platform.workers(),
            requests,
            turns: TurnCosts {
                each: costs.turn.nanos().0,
                switch: 0,
                expiry: costs.expiry.nanos().0,
                serial: costs.serial.map(Serial::from),
            },
            network: costs.network.nanos().0,
            disks: platform.disks.bank(),
            flash,
            read_buffers: platform.read_buffers.0,
            nvram: log_bytes(platform, costs),
            log_record: costs.flush.log_record.0,
            flush_interval: costs.flush.interval.nanos().0,
            flush_operations: costs.flush.operations,
            prefetch_bytes: u32::try_from(costs.prefetch.bytes.0).unwrap_or(u32::MAX),
            objects: workload.objects,
            back_end: costs.back_end.as_ref().map(|back_end| BackEnd {
                gap: (costs.flush.interval.nanos().0 / u64::from(back_end.operations)).max(1),
                regions: back_end.regions,
                within: back_end.within.nanos().0,
                cost: Cost::new(back_end.cost),
            }),
            tail: costs.tail.as_ref().map(|tail| Tail {
                clients: Chance::new(tail.clients_percent / 100.0),
                prefetches: Chance::new(tail.prefetches_percent / 100.0),
                from: tail.from.nanos().0,
                to: tail.to.nanos().0,
            }),
            operations: operations(&workload.operations),
            first: [costs.read, costs.write, costs.attributes].map(Cost::new),
            restart: Cost::new(costs.restart),
            prefetch: Cost::new(costs.prefetch.cost),
            flush: Cost::new(costs.flush.cost),
            slow: costs.slow_path.nanos().0,
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 65536")]
            spread: (costs.spread_percent / 100.0 * 65_536.0).round() as u64,
            varying: Varying::new(costs.distribution),
            gaps: (0..SWING_STEPS).map(gap).collect(),
            swing_step: (costs.swing.period.nanos().0 / SWING_STEPS as u64).max(1),
        }
    }

    /// The mean time between arrivals at `now`, in 1/256 ns.
    pub(super) fn gap(&self, now: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "below the number of steps")]
        let step = ((now / self.swing_step) % SWING_STEPS as u64) as usize;
        self.gaps[step]
    }

    /// Draws an operation by the shares, and returns its number.
    pub(super) fn operation(&self, stream: &mut Stream) -> u8 {
        let drawn = stream.next() >> 32;
        let last = self.operations.len() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "a workload has 64 operations at most")]
        let number = self.operations.iter().position(|operation| drawn < operation.upper).unwrap_or(last) as u8;
        number
    }

    /// The processor time of a phase, in nanoseconds.
    pub(super) fn cost(&self, phase: Phase, bytes: u32, stream: &mut Stream) -> u32 {
        let mean = match phase {
            Phase::First { kind, slow } => self.first[kind as usize].mean(bytes) + if slow { self.slow } else { 0 },
            Phase::Restart => self.restart.mean(bytes),
            Phase::Resumed => self.slow,
            Phase::Prefetch => self.prefetch.mean(bytes),
            Phase::Flush => self.flush.mean(bytes),
            Phase::BackEndFirst => self.slow,
            Phase::BackEnd => self.back_end.map_or(0, |back_end| back_end.cost.mean(bytes)),
        };
        let varies = (mean * self.spread) >> 16;
        let long = self.tail.map_or(0, |tail| tail.draw(phase, stream));
        let drawn = mean - varies + self.varying.draw(stream.next(), varies) + long;
        u32::try_from(drawn.max(1)).unwrap_or(u32::MAX)
    }

    /// Requests per second that the workers can serve if they do nothing else.
    pub(super) fn capacity(&self) -> f64 {
        let mut lower = 0;
        let mut nanos = 0.0;
        for operation in &self.operations {
            let share = (operation.upper - lower) as f64 / 4_294_967_296.0;
            lower = operation.upper;
            nanos += share * self.operation_nanos(operation);
        }
        let concurrent = self.turns.serial.map_or(1.0, |serial| 1.0 - serial.length as f64 / serial.window as f64);
        f64::from(self.workers) * concurrent * 1e9 / nanos.max(1.0)
    }

    /// The mean processor time of an operation, including the internal work that it causes.
    fn operation_nanos(&self, operation: &Operation) -> f64 {
        let bytes = mean(&operation.sizes);
        let cost = |cost: Cost| cost.base as f64 + cost.kib as f64 * bytes / 1024.0;
        let mut restarts = 0.0;
        let mut chance = 1.0;
        let last = operation.misses.last().copied().unwrap_or_default();
        for number in 0..usize::from(MISSES_MAX) {
            chance *= operation.misses.get(number).copied().unwrap_or(last).share();
            restarts += chance;
        }
        let slow = operation.misses.first().map_or(0.0, |first| first.share()) * self.slow as f64;
        let tail = |chance: fn(&Tail) -> Chance| self.tail.map_or(0.0, |tail| tail.mean_nanos(chance(&tail)));
        let own = match operation.kind {
            Kind::Read if operation.sequential => {
                let prefetch = self.prefetch.mean(self.prefetch_bytes) as f64 + tail(|tail| tail.prefetches);
                prefetch * bytes / f64::from(self.prefetch_bytes)
            }
            Kind::Write => self.flush.kib as f64 * (bytes + self.log_record as f64) / 1024.0,
            _ => 0.0,
        };
        tail(|tail| tail.clients)
            + cost(self.first[operation.kind as usize])
            + slow
            + restarts * cost(self.restart)
            + own
    }

    /// Mean cost of a return from a disk.
    pub(super) fn restart_mean(&self, bytes: u32) -> u64 {
        self.restart.mean(bytes)
    }
}

/// The size of the log that the model has.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a percentage of a size")]
pub(super) fn log_bytes(platform: &PlatformSpec, costs: &CostSpec) -> u64 {
    (platform.nvram.0 as f64 * costs.flush.log_percent / 100.0) as u64
}

/// The mean of sizes, given the upper ends of their ranges in 2^32.
fn mean(sizes: &[(u64, u32)]) -> f64 {
    let mut lower = 0;
    let mut sum = 0.0;
    for &(upper, bytes) in sizes {
        sum += (upper - lower) as f64 / 4_294_967_296.0 * f64::from(bytes);
        lower = upper;
    }
    sum
}

fn operations(specs: &[OperationSpec]) -> Vec<Operation> {
    let uppers = uppers(&specs.iter().map(|spec| spec.share).collect::<Vec<_>>());
    let operation = |(spec, upper): (&OperationSpec, u64)| {
        let sizes = uppers_of(&spec.sizes);
        Operation {
            name: spec.name.clone(),
            upper,
            kind: match spec.kind {
                OperationKind::Read => Kind::Read,
                OperationKind::Write => Kind::Write,
                OperationKind::Attributes => Kind::Other,
            },
            sizes,
            sequential: spec.sequential,
            single_block: Chance::new(spec.single_block_percent / 100.0),
            misses: spec.misses_percent.iter().map(|percent| Chance::new(percent / 100.0)).collect(),
            locks: spec.locks,
            deadline: spec.deadline.map(|promise| (Chance::new(promise.percent / 100.0), promise.within.nanos().0)),
        }
    };
    specs.iter().zip(uppers).map(operation).collect()
}

fn uppers_of(sizes: &[(ioweir_config::Size, f64)]) -> Vec<(u64, u32)> {
    let uppers = uppers(&sizes.iter().map(|(_, share)| *share).collect::<Vec<_>>());
    sizes.iter().zip(uppers).map(|((bytes, _), upper)| (upper, u32::try_from(bytes.0).unwrap_or(u32::MAX))).collect()
}

/// The upper ends of the ranges in 2^32 that belong to shares.
fn uppers(shares: &[f64]) -> Vec<u64> {
    let sum: f64 = shares.iter().sum();
    let mut upper = 0.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2^32")]
    let next = |share: &f64| {
        upper += share / sum;
        (upper * 4_294_967_296.0).round() as u64
    };
    shares.iter().map(next).collect()
}
