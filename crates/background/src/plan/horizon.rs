//! The debts and the demand of the bins ahead, as a schedule is played over them.

use std::borrow::Cow;

use ioweir_core::Nanos;
use ioweir_core::background::Service;

use super::owing::{Owing, in_pace};
use super::schedule::{BinCourse, Schedule};
use super::system::{Demand, Ledger, System};

/// The debts and demand of the bins ahead, prepared for playing.
#[derive(Clone, Debug)]
pub struct Horizon<'a> {
    pub(super) system: &'a System,
    pub(super) ledger: &'a Ledger,
    pub(super) demand: &'a [Demand],
    /// Requests of the foreground in each bin that would feel background work there.
    pub(super) busy: Cow<'a, [u64]>,
    /// The services in use: their rows in the table, and their debts.
    pub(super) owing: Vec<Owing>,
    /// Blocks that each bin takes from the pool.
    pub(super) taken: Vec<u64>,
}

impl<'a> Horizon<'a> {
    /// Prepares the debts at the start of `ledger`'s bin, and those that `demand` will add.
    #[must_use]
    pub fn new(system: &'a System, ledger: &'a Ledger, demand: &'a [Demand]) -> Self {
        let bins = demand.len();
        let first = ledger.bin;
        let mut taken: Vec<u64> = demand.iter().map(|demand| demand.new_blocks).collect();
        // The amount stored when a scrub begins is not known exactly, so the current amount is used.
        let stored = ledger.pool.used_blocks;
        let mut owing = Vec::new();
        for (service, terms) in system.run() {
            let settings = &terms.settings;
            let has_deadline = settings.deadline != Nanos::NEVER;
            let mut payable = vec![0_u64; bins];
            let mut due = if has_deadline { vec![0_u64; bins] } else { Vec::new() };
            let mut due_later = 0_u64;
            let mut add = |batch: &ioweir_core::background::Batch| {
                let at = system.bin_of(batch.payable_at).saturating_sub(first);
                if let Some(payable) = payable.get_mut(at) {
                    *payable = payable.saturating_add(batch.blocks);
                }
                // Due in the last bin that ends before the deadline, but not before the batch's own bin.
                let due_bin = system.bin_of(batch.due_at).saturating_sub(1).max(system.bin_of(batch.payable_at));
                if batch.due_at == Nanos::NEVER {
                    return;
                }
                let due_bin = due_bin.saturating_sub(first);
                match due.get_mut(due_bin) {
                    Some(due) => *due = due.saturating_add(batch.blocks),
                    None if at < bins => {
                        let (part, all) = ((bins - at) as u128, (due_bin + 1 - at) as u128);
                        due_later = due_later.saturating_add((u128::from(batch.blocks) * part / all) as u64);
                    }
                    None => {}
                }
            };
            ledger.queues[service as usize].batches().for_each(&mut add);
            let mut incurred = 0_u64;
            for (at, demand) in demand.iter().enumerate() {
                let Some(batch) = system.incurred(terms, service.row().source, first + at, demand, stored) else {
                    continue;
                };
                add(&batch);
                incurred = incurred.saturating_add(batch.blocks);
                if service.row().takes_room {
                    taken[at] = taken[at].saturating_add(settings.tied(batch.blocks));
                }
            }
            let mut sum = 0_u64;
            for due in &mut due {
                sum = sum.saturating_add(*due);
                *due = sum;
            }
            let blocks_max: Vec<u64> = (0..bins).map(|at| system.blocks_max(terms, first + at)).collect();
            let due_in_pace = in_pace(&due, &payable, &blocks_max);
            owing.push(Owing {
                service,
                blocks_max,
                due_in_pace,
                cost: u64::from(settings.cost_per_mille.max(1)),
                tied_per_mille: u64::from(settings.tied_per_mille),
                priority: u64::from(settings.priority.max(1)),
                has_deadline,
                deadline: settings.deadline,
                incurred,
                payable,
                due,
                due_later,
            });
        }
        let busy = demand.iter().map(|demand| demand.requests).collect();
        Self { system, ledger, demand, busy, owing, taken }
    }

    /// Sets how many requests would feel background work in each bin, if that is not the demand that is planned for. A quantile of sums is
    /// higher in the first bins than in later ones, only because they are the first.
    #[must_use]
    pub fn with_busy(mut self, busy: &'a [u64]) -> Self {
        if busy.len() == self.bins() {
            self.busy = Cow::Borrowed(busy);
        }
        self
    }

    /// Requests of the foreground that would feel background work in a bin.
    #[must_use]
    pub fn busy(&self, bin: usize) -> u64 {
        self.busy.get(bin).copied().unwrap_or(0)
    }

    /// The services whose debts are due sooner after becoming payable than others wait, the most urgent first.
    pub(super) fn urgent(&self, schedule: &Schedule) -> Vec<Service> {
        let mut urgent: Vec<&Owing> = self.owing.iter().filter(|owing| owing.is_urgent(schedule)).collect();
        urgent.sort_by_key(|owing| owing.deadline);
        urgent.into_iter().map(|owing| owing.service).collect()
    }

    pub(super) fn owing_of<'b>(&'b self, services: &'b [Service]) -> impl Iterator<Item = &'b Owing> {
        self.owing.iter().filter(|owing| services.contains(&owing.service))
    }

    /// Whether one of some services may run in a bin.
    pub(super) fn is_open(&self, services: &[Service], bin: usize) -> bool {
        self.owing_of(services).any(|owing| owing.blocks_max[bin] > 0)
    }

    /// The services that can wait and give no room back.
    pub(super) fn roomless(&self, schedule: &Schedule) -> Vec<Service> {
        let is_one = |owing: &&Owing| owing.tied_per_mille == 0 && !owing.is_urgent(schedule);
        self.owing.iter().filter(is_one).map(|owing| owing.service).collect()
    }

    /// The work for some services in a bin that was played.
    pub(super) fn work(&self, course: &BinCourse, services: &[Service]) -> u64 {
        let work = |owing: &Owing| course.paid_blocks[owing.service as usize].saturating_mul(owing.cost);
        self.owing_of(services).map(work).fold(0, u64::saturating_add)
    }

    /// The number of bins.
    #[must_use]
    pub const fn bins(&self) -> usize {
        self.demand.len()
    }

    /// The system to plan for.
    #[must_use]
    pub const fn system(&self) -> &System {
        self.system
    }

    /// The ledger at the start.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        self.ledger
    }

    /// New debt of a service, in blocks.
    #[must_use]
    pub fn incurred_blocks(&self, service: Service) -> u64 {
        self.owing.iter().find(|owing| owing.service == service).map_or(0, |owing| owing.incurred)
    }

    /// Total blocks of a service that are due by the end of a bin.
    #[must_use]
    pub fn due_blocks(&self, service: Service, bin: usize) -> u64 {
        let owing = self.owing.iter().find(|owing| owing.service == service);
        owing.and_then(|owing| owing.due.get(bin)).copied().unwrap_or(0)
    }

    /// The most bins by which a service pays later than its deadline in a course: `None` if it pays in time, and `Some(None)` if it does
    /// not pay before the horizon ends.
    #[must_use]
    pub fn late_bins(&self, course: &[BinCourse], service: Service) -> Option<Option<usize>> {
        let mut sum = 0_u64;
        let paid: Vec<u64> = course
            .iter()
            .map(|bin| {
                sum = sum.saturating_add(bin.paid_blocks[service as usize]);
                sum
            })
            .collect();
        let late = |bin: usize| {
            let due = self.due_blocks(service, bin);
            (due > paid[bin]).then(|| paid[bin..].iter().position(|paid| *paid >= due))
        };
        (0..paid.len()).filter_map(late).reduce(|most, bins| Some(most?.max(bins?)))
    }

    /// The service with the most work due by the end of a bin, among those whose deadlines a schedule works toward.
    #[must_use]
    pub fn most_due(&self, schedule: &Schedule, bin: usize) -> Option<Service> {
        let work = |owing: &Owing| owing.due_by(schedule, bin).saturating_mul(owing.cost);
        let heeded = self.owing.iter().filter(|owing| owing.is_heeded(schedule) && work(owing) > 0);
        heeded.max_by_key(|owing| work(owing)).map(|owing| owing.service)
    }
}
