//! The system to plan for: cores, a pool, services and their terms, and current debts, in whole numbers.

use ioweir_core::Nanos;
use ioweir_core::background::{
    Batch, DebtQueue, Pool, SERVICES_COUNT, Service, ServiceSettings, Source, overwrite_debt,
};

/// Terms on which a service is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Cost, room and deadline.
    pub settings: ServiceSettings,
    /// Of a thousand blocks that its source counts, how many are its business.
    pub share_per_mille: u32,
    /// How often it begins anew: the time between two snapshots, the period of a scrub. Zero: at any time.
    pub every: Nanos,
    /// Blocks owed once, and when, since the start of the plan.
    pub owed: Vec<(Nanos, u64)>,
}

/// What does the work, and on which terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Length of a bin.
    pub bin: Nanos,
    /// Cores for foreground and background together: N.
    pub cores: u32,
    /// Foreground requests that a core serves in a bin: CIOPS times the bin's seconds.
    pub core_requests: u64,
    /// Background work that a core does in a bin, in thousandths of an operation.
    pub core_work: u64,
    /// Of a thousand blocks written, how many were never written before: u.
    pub unique_per_mille: u32,
    /// The services in the order of the table; those that are not run are absent.
    pub services: [Option<Terms>; SERVICES_COUNT],
    /// Cores that stay with the background in every bin, for services whose deadline is shorter than a bin.
    pub resident_cores: u32,
}

/// What the foreground does in a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Requests that arrive.
    pub requests: u64,
    /// Blocks written.
    pub written_blocks: u64,
    /// Blocks unmapped, metadata included.
    pub unmapped_blocks: u64,
}

impl System {
    /// The services that are run, in the order of the table.
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

    /// New blocks in a bin, which nothing gives back.
    #[must_use]
    pub const fn new_blocks(&self, demand: &Demand) -> u64 {
        demand.written_blocks - overwrite_debt(demand.written_blocks, self.unique_per_mille)
    }

    /// What a service comes to owe in a bin; `used_blocks` are stored when it begins.
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
            Source::Overwrites => share(overwrite_debt(demand.written_blocks, self.unique_per_mille)),
            Source::Unmaps => share(demand.unmapped_blocks),
            Source::Stored if bin.is_multiple_of(every_bins.max(1)) => share(used_blocks),
            Source::Stored | Source::Named => 0,
        };
        let once = terms.owed.iter().filter(|(at, _)| self.bin_of(*at) == bin).map(|(_, blocks)| *blocks);
        let blocks = once.fold(sourced, u64::saturating_add);
        // A snapshot is taken at the start of each window, and holds what is written over until it goes.
        let taken = if every_bins > 1 && source != Source::Stored { bin - bin % every_bins } else { bin };
        let payable_at = begins.max(self.begins(taken).after(terms.settings.retention));
        let due_at = match terms.settings.deadline {
            Nanos::NEVER => Nanos::NEVER,
            deadline => payable_at.after(deadline),
        };
        (blocks > 0).then_some(Batch { payable_at, due_at, blocks })
    }
}

/// Where things stand at the beginning of a bin: the pool, the debts, the requests that wait.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// The bin, counted from the start of the plan.
    pub bin: usize,
    /// The pool.
    pub pool: Pool,
    /// The debts, in the order of the table.
    pub queues: [DebtQueue; SERVICES_COUNT],
    /// Foreground requests that came before and have not been served.
    pub queued_requests: u64,
}

impl Ledger {
    /// Batches that a queue tells apart: more than a plan has bins.
    const BATCHES_MAX: usize = 1 << 14;

    /// The first bin, with no debt; the queues of services that are not run take no memory.
    #[must_use]
    pub fn new(system: &System, pool: Pool) -> Self {
        let queues = std::array::from_fn(|service| {
            DebtQueue::new(if system.services[service].is_some() { Self::BATCHES_MAX } else { 1 })
        });
        Self { bin: 0, pool, queues, queued_requests: 0 }
    }

    /// Debt that ties up room, in blocks of the pool.
    #[must_use]
    pub fn tied_blocks(&self, system: &System) -> u64 {
        let tied = |(service, terms): (Service, &Terms)| terms.settings.tied(self.queues[service as usize].blocks());
        system.run().map(tied).fold(0, u64::saturating_add)
    }

    /// What a bin's foreground leaves behind: room taken, debts incurred.
    pub fn incur(&mut self, system: &System, demand: &Demand) {
        let stored = self.pool.used_blocks;
        for (service, terms) in system.run() {
            if let Some(batch) = system.incurred(terms, service.row().source, self.bin, demand, stored) {
                if service.row().takes_room {
                    self.pool.take(terms.settings.tied(batch.blocks));
                }
                self.queues[service as usize].incur(batch);
            }
        }
        self.pool.take(system.new_blocks(demand));
    }

    /// Pays so many blocks of each service that are payable before the bin ends.
    pub fn pay(&mut self, system: &System, paid: &[u64; SERVICES_COUNT]) {
        let now = Nanos(system.begins(self.bin + 1).0.saturating_sub(1));
        for (service, terms) in system.run() {
            let mut left = paid[service as usize];
            while left > 0 {
                let (blocks, _) = self.queues[service as usize].pay(now, left);
                if blocks == 0 {
                    break;
                }
                left -= blocks;
            }
            self.pool.give_back(terms.settings.tied(paid[service as usize] - left));
        }
    }
}
