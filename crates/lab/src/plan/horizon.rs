//! Plays a schedule over the bins ahead and accounts for how many cores the foreground and the background got.
//!
//! The planner (on forecasts), the replay (on recorded load) and the baselines share this step, so there is only one way to
//! account for a bin.

use ioweir_core::Nanos;
use ioweir_core::background::{SERVICES_COUNT, Service};

use super::system::{Demand, Ledger, System};

/// The decisions for the bins ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Cores reserved for background work in each bin, even if the foreground wants them.
    pub reserve_cores: Vec<u32>,
    /// Bins in which the debt that frees the most space per unit of work goes first.
    pub pressing: Vec<bool>,
    /// Before this bin, deadline work comes before space on the prompt cores; after it, deadline work is postponed as far as
    /// possible.
    pub prompt_until: usize,
    /// The cores that do deadline work at once until that bin.
    pub prompt_cores: u32,
    /// Whether background work takes cores that the foreground leaves idle; if not, it gets only its reserve.
    pub harvests: bool,
    /// Services whose deadlines the schedule works toward, in the order of the table; others are paid in turn.
    pub heeds_deadline: [bool; SERVICES_COUNT],
}

impl Schedule {
    /// A schedule that uses only idle cores and the resident cores.
    #[must_use]
    pub fn idle_only(system: &System, bins: usize) -> Self {
        let reserve = system.resident_cores.min(system.cores);
        let (reserve_cores, pressing) = (vec![reserve; bins], vec![false; bins]);
        Self {
            reserve_cores,
            pressing,
            prompt_until: 0,
            prompt_cores: 0,
            harvests: true,
            heeds_deadline: [true; SERVICES_COUNT],
        }
    }

    /// A schedule with as much background work as possible: if it does not suffice, no schedule does.
    #[must_use]
    pub fn all_out(system: &System, bins: usize) -> Self {
        let (reserve_cores, pressing) = (vec![system.cores; bins], vec![true; bins]);
        Self { reserve_cores, pressing, ..Self::idle_only(system, bins) }
    }
}

/// The outcome of a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BinCourse {
    /// Cores that the foreground wanted for arrived and waiting requests; this may exceed the number of cores.
    pub wanted_cores: u64,
    /// Cores that the foreground got.
    pub foreground_cores: u32,
    /// Cores that did background work.
    pub background_cores: u32,
    /// Requests that wait at the end of the bin.
    pub queued_requests: u64,
    /// Arrived requests beyond the capacity of the foreground's cores in the bin, which had to queue.
    pub delayed_requests: u64,
    /// Blocks of debt paid, by service.
    pub paid_blocks: [u64; SERVICES_COUNT],
    /// Blocks used at the end; the excess over the pool did not fit.
    pub used_blocks: u64,
    /// Blocks of debt that are past their deadline at the end.
    pub late_blocks: u64,
    /// The blocks among them whose deadlines the schedule works toward.
    pub missed_blocks: u64,
}

/// The debts and demand of the bins ahead, prepared for playing.
#[derive(Clone, Debug)]
pub struct Horizon<'a> {
    system: &'a System,
    ledger: &'a Ledger,
    demand: &'a [Demand],
    /// The services in use: their rows in the table, and their debts.
    owing: Vec<Owing>,
    /// Blocks that each bin takes from the pool.
    taken: Vec<u64>,
}

/// One service's debts by bin.
#[derive(Clone, Debug)]
struct Owing {
    service: Service,
    cost: u64,
    tied_per_mille: u64,
    priority: u64,
    has_deadline: bool,
    /// New debt in blocks.
    incurred: u64,
    /// Blocks that become payable in each bin.
    payable: Vec<u64>,
    /// Blocks due by the end of each bin, cumulative; empty if there is no deadline.
    due: Vec<u64>,
}

impl Owing {
    const fn is_heeded(&self, schedule: &Schedule) -> bool {
        self.has_deadline && schedule.heeds_deadline[self.service as usize]
    }
}

impl<'a> Horizon<'a> {
    /// Prepares the debts at the start of `ledger`'s bin, and those that `demand` will add.
    #[must_use]
    pub fn new(system: &'a System, ledger: &'a Ledger, demand: &'a [Demand]) -> Self {
        let bins = demand.len();
        let first = ledger.bin;
        let mut taken: Vec<u64> = demand.iter().map(|demand| system.new_blocks(demand)).collect();
        // The amount stored when a scrub begins is not known exactly, so the current amount is used.
        let stored = ledger.pool.used_blocks;
        let mut owing = Vec::new();
        for (service, terms) in system.run() {
            let settings = &terms.settings;
            let has_deadline = settings.deadline != Nanos::NEVER;
            let mut payable = vec![0_u64; bins];
            let mut due = if has_deadline { vec![0_u64; bins] } else { Vec::new() };
            let mut add = |batch: &ioweir_core::background::Batch| {
                let at = system.bin_of(batch.payable_at).saturating_sub(first);
                if let Some(payable) = payable.get_mut(at) {
                    *payable = payable.saturating_add(batch.blocks);
                }
                // Due in the last bin that ends before the deadline, but not before the batch's own bin.
                let due_bin = system.bin_of(batch.due_at).saturating_sub(1).max(system.bin_of(batch.payable_at));
                if let Some(due) = due.get_mut(due_bin.saturating_sub(first)).filter(|_| batch.due_at != Nanos::NEVER) {
                    *due = due.saturating_add(batch.blocks);
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
            owing.push(Owing {
                service,
                cost: u64::from(settings.cost_per_mille.max(1)),
                tied_per_mille: u64::from(settings.tied_per_mille),
                priority: u64::from(settings.priority.max(1)),
                has_deadline,
                incurred,
                payable,
                due,
            });
        }
        Self { system, ledger, demand, owing, taken }
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

    /// Whether debts free different amounts of space for the same work, while some debts have deadlines.
    #[must_use]
    pub fn has_mixed_densities(&self) -> bool {
        let mut dense = self.owing.iter().filter(|owing| owing.tied_per_mille > 0);
        let Some(first) = dense.next() else { return false };
        let differs = |owing: &Owing| owing.tied_per_mille * first.cost != first.tied_per_mille * owing.cost;
        dense.any(differs) && self.owing.iter().any(|owing| owing.has_deadline)
    }

    /// The service with the most work due by the end of a bin, among those whose deadlines a schedule works toward.
    #[must_use]
    pub fn most_due(&self, schedule: &Schedule, bin: usize) -> Option<Service> {
        let work = |owing: &Owing| owing.due.get(bin).copied().unwrap_or(0).saturating_mul(owing.cost);
        let heeded = self.owing.iter().filter(|owing| owing.is_heeded(schedule) && work(owing) > 0);
        heeded.max_by_key(|owing| work(owing)).map(|owing| owing.service)
    }

    /// Plays the first `bins` bins under a schedule.
    #[must_use]
    pub fn play(&self, schedule: &Schedule, bins: usize) -> Vec<BinCourse> {
        let mut course = Vec::new();
        self.play_into(schedule, bins, &mut course);
        course
    }

    /// Plays the first `bins` bins into a list that can be reused.
    pub fn play_into(&self, schedule: &Schedule, bins: usize, course: &mut Vec<BinCourse>) {
        self.play_foreground(schedule, course);
        self.play_background(schedule, bins, course);
    }

    /// Assigns cores: the foreground first, down to the reserve.
    fn play_foreground(&self, schedule: &Schedule, course: &mut Vec<BinCourse>) {
        let System { cores, core_requests, .. } = *self.system;
        let core_requests = core_requests.max(1);
        let mut queued = self.ledger.queued_requests;
        course.clear();
        course.extend(self.demand.iter().zip(&schedule.reserve_cores).map(|(demand, reserve)| {
            let wanted = demand.requests.saturating_add(queued);
            let wanted_cores = wanted.div_ceil(core_requests);
            let most = u64::from(cores.saturating_sub(*reserve));
            let foreground = wanted_cores.min(most);
            let served = wanted.min(foreground.saturating_mul(core_requests));
            let delayed = demand.requests.saturating_sub(most.saturating_mul(core_requests));
            queued = wanted - served;
            BinCourse {
                wanted_cores,
                foreground_cores: foreground as u32,
                // An upper bound until the actual use is known.
                background_cores: if schedule.harvests { cores - foreground as u32 } else { (*reserve).min(cores) },
                queued_requests: queued,
                delayed_requests: delayed,
                ..BinCourse::default()
            }
        }));
    }

    fn play_background(&self, schedule: &Schedule, bins: usize, course: &mut [BinCourse]) {
        let mut state = State::new(self, schedule);
        let mut densest: Vec<usize> = (0..self.owing.len()).filter(|at| self.owing[*at].tied_per_mille > 0).collect();
        // Cross-multiplied to avoid fractions; the order of the table breaks ties.
        densest.sort_by(|left, right| {
            let [left, right] = [left, right].map(|at| &self.owing[*at]);
            (right.tied_per_mille * left.cost).cmp(&(left.tied_per_mille * right.cost))
        });
        for bin in 0..bins.min(self.bins()) {
            let most = u64::from(course[bin].background_cores).saturating_mul(self.system.core_work);
            state.begin(bin, most, self.taken[bin]);
            if !state.is_as_required {
                state.require(bin, self.system.core_work, course);
            }
            let (required, before) = (state.required[bin], state.deadline_work);
            let prompt_cores = if bin < schedule.prompt_until { schedule.prompt_cores } else { 0 };
            state.pay_by_deadline(required.max(u64::from(prompt_cores).saturating_mul(self.system.core_work)));
            if schedule.pressing[bin] {
                for at in &densest {
                    state.pay(*at, u64::MAX);
                }
            }
            state.pay_by_turns();
            state.is_as_required = state.deadline_work - before == required;
            let core_work = self.system.core_work.max(1);
            course[bin].background_cores = state.used_work.div_ceil(core_work) as u32;
            course[bin].paid_blocks = state.paid_now;
            course[bin].used_blocks = state.used_blocks;
            course[bin].late_blocks = state.late_blocks(bin, |_| true);
            course[bin].missed_blocks = state.late_blocks(bin, |owing| owing.is_heeded(schedule));
        }
    }
}

/// The debts while bins are played.
struct State<'a> {
    schedule: &'a Schedule,
    owing: &'a [Owing],
    payable: [u64; SERVICES_COUNT],
    paid: [u64; SERVICES_COUNT],
    paid_now: [u64; SERVICES_COUNT],
    /// The first bin whose due debt a service has not paid.
    next_due: [usize; SERVICES_COUNT],
    used_blocks: u64,
    work_left: u64,
    used_work: u64,
    /// Work done for deadlines within the horizon.
    deadline_work: u64,
    /// The part of it that must be done in each bin, if exactly the required work was done before that.
    required: Vec<u64>,
    is_as_required: bool,
}

impl<'a> State<'a> {
    fn new(horizon: &'a Horizon<'_>, schedule: &'a Schedule) -> Self {
        Self {
            schedule,
            owing: &horizon.owing,
            payable: [0; SERVICES_COUNT],
            paid: [0; SERVICES_COUNT],
            paid_now: [0; SERVICES_COUNT],
            next_due: [0; SERVICES_COUNT],
            used_blocks: horizon.ledger.pool.used_blocks,
            work_left: 0,
            used_work: 0,
            deadline_work: 0,
            required: vec![0; horizon.bins()],
            is_as_required: !horizon.owing.iter().any(|owing| owing.is_heeded(schedule)),
        }
    }

    /// The deadline work required in each bin from `bin` on: the remaining work, postponed as long as the remaining cores
    /// allow, so that space can be freed first. Doing less in any bin misses a deadline.
    fn require(&mut self, bin: usize, core_work: u64, course: &[BinCourse]) {
        let mut carried = 0_u64;
        for at in (bin..self.required.len()).rev() {
            for (owing, paid) in self.owing.iter().zip(self.paid) {
                if owing.is_heeded(self.schedule) {
                    let before = if at == bin { paid } else { owing.due[at - 1].max(paid) };
                    let due = owing.due[at].max(paid) - before;
                    carried = carried.saturating_add(due.saturating_mul(owing.cost));
                }
            }
            let most = u64::from(course[at].background_cores).saturating_mul(core_work);
            self.required[at] = carried.min(most);
            carried -= self.required[at];
        }
    }

    fn begin(&mut self, bin: usize, work: u64, taken: u64) {
        (self.work_left, self.used_work) = (work, 0);
        self.paid_now = [0; SERVICES_COUNT];
        self.used_blocks = self.used_blocks.saturating_add(taken);
        for (at, owing) in self.owing.iter().enumerate() {
            self.payable[at] = self.payable[at].saturating_add(owing.payable[bin]);
        }
    }

    /// Pays up to `blocks` of one service within the remaining work of the bin.
    fn pay(&mut self, at: usize, blocks: u64) {
        let owing = &self.owing[at];
        let blocks = blocks.min(self.payable[at]).min(self.work_left / owing.cost);
        if blocks == 0 {
            return;
        }
        let work = blocks * owing.cost;
        self.work_left -= work;
        self.used_work += work;
        self.payable[at] -= blocks;
        let before = self.paid[at];
        self.paid[at] = before.saturating_add(blocks);
        self.paid_now[owing.service as usize] += blocks;
        let tied = (u128::from(blocks) * u128::from(owing.tied_per_mille) / 1000) as u64;
        self.used_blocks = self.used_blocks.saturating_sub(tied);
        if owing.is_heeded(self.schedule) {
            // Debt due beyond the horizon was not required.
            let due = owing.due.last().copied().unwrap_or(0);
            let counted = self.paid[at].min(due) - before.min(due);
            self.deadline_work = self.deadline_work.saturating_add(counted.saturating_mul(owing.cost));
        }
    }

    /// Does up to `work` of deadline work, earliest deadline first.
    fn pay_by_deadline(&mut self, work: u64) {
        let target = self.deadline_work.saturating_add(work);
        while self.deadline_work < target && self.work_left > 0 {
            let Some((at, due)) = self.first_due() else { break };
            let blocks = (due - self.paid[at]).min((target - self.deadline_work).div_ceil(self.owing[at].cost));
            let before = self.deadline_work;
            self.pay(at, blocks);
            if self.deadline_work == before {
                break;
            }
        }
    }

    /// The payable service whose next debt is due first, and the total of its blocks that are due by then.
    fn first_due(&mut self) -> Option<(usize, u64)> {
        let mut first: Option<(usize, usize)> = None;
        for (at, owing) in self.owing.iter().enumerate() {
            if !owing.is_heeded(self.schedule) || self.payable[at] == 0 || owing.cost > self.work_left {
                continue;
            }
            while owing.due.get(self.next_due[at]).is_some_and(|due| *due <= self.paid[at]) {
                self.next_due[at] += 1;
            }
            if self.next_due[at] < owing.due.len() && first.is_none_or(|(_, due)| self.next_due[at] < due) {
                first = Some((at, self.next_due[at]));
            }
        }
        first.map(|(at, bin)| (at, self.owing[at].due[bin]))
    }

    /// Shares the remaining work among all services with debt, by priority, until either is used up. The share of a service
    /// with a deadline goes to the earliest deadline, so early work never replaces work that is due now.
    fn pay_by_turns(&mut self) {
        loop {
            let can = |state: &Self, at: usize| state.payable[at] > 0 && state.owing[at].cost <= state.work_left;
            let priorities = (0..self.owing.len()).filter(|at| can(self, *at)).map(|at| self.owing[at].priority);
            let all: u64 = priorities.sum();
            if all == 0 {
                return;
            }
            let round = self.work_left;
            for at in 0..self.owing.len() {
                if can(self, at) {
                    let share =
                        (u128::from(round) * u128::from(self.owing[at].priority)).div_ceil(u128::from(all)) as u64;
                    if self.owing[at].is_heeded(self.schedule) && self.first_due().is_some() {
                        self.pay_by_deadline(share.max(1));
                    } else {
                        self.pay(at, (share / self.owing[at].cost).max(1));
                    }
                }
            }
        }
    }

    fn late_blocks(&self, bin: usize, counts: impl Fn(&Owing) -> bool) -> u64 {
        let late = |(at, owing): (usize, &Owing)| owing.due.get(bin).map_or(0, |due| due.saturating_sub(self.paid[at]));
        self.owing.iter().enumerate().filter(|(_, owing)| counts(owing)).map(late).fold(0, u64::saturating_add)
    }
}
