//! The system to plan for: cores, a pool, services and their terms, and current debts, in whole numbers.

use ioweir_core::Nanos;
use ioweir_core::background::{Batch, DebtQueue, Executor, Pool, SERVICES_COUNT, Service, ServiceSettings, Source};

/// The terms of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Cost, space and deadline.
    pub settings: ServiceSettings,
    /// The number of blocks that become debt, of a thousand blocks that the source counts.
    pub share_per_mille: u32,
    /// The period: the interval between snapshots or scrubs. Zero means any time.
    pub every: Nanos,
    /// One-time debts in blocks, each with its time since the start of the plan.
    pub owed: Vec<(Nanos, u64)>,
    /// The most blocks that are paid in a bin, whatever cores there are: the device's limit for this service.
    pub bin_blocks_max: u64,
    /// Whether it may run, for each bin of a day; empty if it always may.
    pub open: Vec<bool>,
}

/// The system to plan for: cores, pool and the terms of services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Length of a bin.
    pub bin: Nanos,
    /// Cores for foreground and background together, N in the paper.
    pub cores: u32,
    /// Foreground requests that a core serves in a bin: CIOPS times the bin's seconds.
    pub core_requests: u64,
    /// Background work that a core does in a bin, in thousandths of an operation.
    pub core_work: u64,
    /// The services in the order of the table; `None` for those not in use.
    pub services: [Option<Terms>; SERVICES_COUNT],
    /// Cores that stay with the background in every bin, for services whose deadline is shorter than a bin.
    pub resident_cores: u32,
    /// The place of bin zero in its day.
    pub day_bin: usize,
}

/// The foreground load of a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Requests that arrive.
    pub requests: u64,
    pub written_blocks: u64,
    /// The blocks written that were never written before, `u` in the paper; no service frees them.
    pub new_blocks: u64,
    /// Blocks unmapped, metadata included.
    pub unmapped_blocks: u64,
}

impl System {
    /// The services in use, in the order of the table.
    pub fn run(&self) -> impl Iterator<Item = (Service, &Terms)> {
        Service::ALL.into_iter().zip(&self.services).filter_map(|(service, terms)| Some((service, terms.as_ref()?)))
    }

    /// When a bin begins.
    #[must_use]
    pub const fn begins(&self, bin: usize) -> Nanos {
        Nanos(self.bin.0.saturating_mul(bin as u64))
    }

    /// The bin that a time lies in.
    #[must_use]
    pub const fn bin_of(&self, time: Nanos) -> usize {
        let bin = if self.bin.0 == 0 { 1 } else { self.bin.0 };
        (time.0 / bin) as usize
    }

    /// The most blocks that a service pays in a bin: none at hours in which it must not run.
    #[must_use]
    pub fn blocks_max(&self, terms: &Terms, bin: usize) -> u64 {
        let at = bin.wrapping_add(self.day_bin).checked_rem(terms.open.len());
        if at.is_none_or(|at| terms.open[at]) { terms.bin_blocks_max.max(1) } else { 0 }
    }

    /// Which services may run in a bin.
    #[must_use]
    pub fn open_services(&self, bin: usize) -> [bool; SERVICES_COUNT] {
        self.services.each_ref().map(|terms| terms.as_ref().is_none_or(|terms| self.blocks_max(terms, bin) > 0))
    }

    /// The new debts of a bin; `used_blocks` are stored at its start.
    pub fn debts(&self, bin: usize, demand: &Demand, used_blocks: u64) -> impl Iterator<Item = (Service, Batch)> {
        self.run().filter_map(move |(service, terms)| {
            let batch = self.incurred(terms, service.row().source, bin, demand, used_blocks)?;
            Some((service, batch))
        })
    }

    /// The new debt of a service in a bin; `used_blocks` are stored at the start of the bin.
    #[must_use]
    pub fn incurred(
        &self,
        terms: &Terms,
        source: Source,
        bin: usize,
        demand: &Demand,
        used_blocks: u64,
    ) -> Option<Batch> {
        let begins = self.begins(bin);
        let every_bins = self.bin_of(terms.every);
        let share = |blocks: u64| (u128::from(blocks) * u128::from(terms.share_per_mille) / 1000) as u64;
        let sourced = match source {
            Source::Writes => share(demand.written_blocks),
            Source::Overwrites => share(demand.written_blocks.saturating_sub(demand.new_blocks)),
            Source::Unmaps => share(demand.unmapped_blocks),
            Source::Stored if bin.is_multiple_of(every_bins.max(1)) => share(used_blocks),
            Source::Stored | Source::Named => 0,
        };
        let once = terms.owed.iter().filter(|(at, _)| self.bin_of(*at) == bin).map(|(_, blocks)| *blocks);
        let blocks = once.fold(sourced, u64::saturating_add);
        // A snapshot is taken at the start of each window and holds overwritten blocks until it is deleted.
        let taken = if every_bins > 1 && source != Source::Stored { bin - bin % every_bins } else { bin };
        let payable_at = begins.max(self.begins(taken).after(terms.settings.retention));
        let due_at = match terms.settings.deadline {
            Nanos::NEVER => Nanos::NEVER,
            deadline => payable_at.after(deadline),
        };
        (blocks > 0).then_some(Batch { payable_at, due_at, blocks })
    }
}

/// The state at the start of a bin: the pool, the debts, the waiting requests.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// The bin, counted from the start of the plan.
    pub bin: usize,
    pub pool: Pool,
    /// The debts, in the order of the table.
    pub queues: [DebtQueue; SERVICES_COUNT],
    /// Earlier foreground requests that still wait.
    pub queued_requests: u64,
}

impl Ledger {
    /// The state at the first bin, without debt.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self { bin: 0, pool, queues: std::array::from_fn(|_| DebtQueue::new(1)), queued_requests: 0 }
    }

    /// The state of an executor at the start of a bin. Blocks that are being paid are owed no more.
    #[must_use]
    pub fn of(executor: &Executor, bin: usize, queued_requests: u64) -> Self {
        let copy = |queue: &DebtQueue| {
            let mut copy = DebtQueue::new(queue.batches().count());
            queue.batches().for_each(|batch| copy.incur(*batch));
            copy
        };
        Self { bin, pool: *executor.pool(), queues: executor.queues().each_ref().map(copy), queued_requests }
    }
}
