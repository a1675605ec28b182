//! Plays a schedule over the bins ahead and accounts for how many cores the foreground and the background got.
//!
//! The planner (on forecasts), the replay (on recorded load) and the baselines share this step, so there is only one way to
//! account for a bin.

use std::borrow::Cow;
use std::cmp::Ordering;

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
    /// The most cores that do background work in each bin; the others rest, even if the foreground leaves them idle.
    pub limit_cores: Vec<u32>,
    /// The most work of each bin, in thousandths of an operation, for services that can wait for more than hours, beside what is due in
    /// it: what the others leave of the cores of a bin is not theirs.
    pub limit_work: Vec<u64>,
    /// The most work of each bin, of the same, for those that give no room back: what others leave where room is pressed for is not
    /// theirs.
    pub limit_roomless: Vec<u64>,
    /// The cores of each bin that do deadline work at once, before space; beyond them it is postponed as far as possible.
    pub prompt_cores: Vec<u32>,
    /// Whether deadline work is done when it cannot be postponed any further, and not only on the prompt cores.
    pub is_in_time: bool,
    /// Whether background work takes cores that the foreground leaves idle; if not, it gets only its reserve.
    pub harvests: bool,
    /// By how many bins the schedule lets each service be late, in the order of the table. Zero keeps what was promised; with
    /// [`GIVEN_UP`], the service is paid in turn.
    pub late_bins: [usize; SERVICES_COUNT],
}

/// The longest that debt without a deadline waits for a quiet bin. A service is urgent if its debt is due sooner than that.
pub(super) const PATIENCE: Nanos = Nanos::from_seconds(86_400);

/// No time within the horizon can be promised for a service.
pub const GIVEN_UP: usize = usize::MAX;

impl Schedule {
    /// A schedule that uses only idle cores and the resident cores.
    #[must_use]
    pub fn idle_only(system: &System, bins: usize) -> Self {
        let reserve = system.resident_cores.min(system.cores);
        Self {
            reserve_cores: vec![reserve; bins],
            pressing: vec![false; bins],
            limit_cores: vec![system.cores; bins],
            limit_work: vec![u64::MAX; bins],
            limit_roomless: vec![u64::MAX; bins],
            prompt_cores: vec![0; bins],
            is_in_time: true,
            harvests: true,
            late_bins: [0; SERVICES_COUNT],
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
    /// The blocks among them that are later than the schedule lets them be.
    pub missed_blocks: u64,
}

/// The debts and demand of the bins ahead, prepared for playing.
#[derive(Clone, Debug)]
pub struct Horizon<'a> {
    system: &'a System,
    ledger: &'a Ledger,
    demand: &'a [Demand],
    /// Requests of the foreground in each bin that would feel background work there.
    busy: Cow<'a, [u64]>,
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
    /// From becoming payable to being due.
    deadline: Nanos,
    /// New debt in blocks.
    incurred: u64,
    /// The most blocks that are paid in a bin.
    bin_blocks_max: u64,
    /// Blocks that become payable in each bin.
    payable: Vec<u64>,
    /// Blocks due by the end of each bin, cumulative; empty if there is no deadline.
    due: Vec<u64>,
    /// The same, but as early as the most blocks of a bin demand.
    due_in_pace: Vec<u64>,
    /// Of the blocks that are due after the horizon: what an even pace would pay within it.
    due_later: u64,
}

impl Owing {
    /// Blocks that a schedule pays by the end of a bin, cumulative: those that are due, or were, as late as it lets them be.
    fn due_by(&self, schedule: &Schedule, bin: usize) -> u64 {
        let bin = bin.checked_sub(schedule.late_bins[self.service as usize]);
        bin.and_then(|bin| self.due_in_pace.get(bin)).copied().unwrap_or(0)
    }

    fn is_heeded(&self, schedule: &Schedule) -> bool {
        self.has_deadline && schedule.late_bins[self.service as usize] != GIVEN_UP
    }

    fn is_urgent(&self, schedule: &Schedule) -> bool {
        self.is_heeded(schedule) && self.deadline < PATIENCE
    }
}

/// Background work that is possible and necessary by the end of each bin, cumulative, in thousandths of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Envelope {
    /// All that is payable.
    pub(super) payable: Vec<u64>,
    /// What deadlines and patience ask for.
    pub(super) needed: Vec<u64>,
}

/// The room that debts can free and the pool needs, cumulative by bin, in thousandths of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// What a core frees in a bin at most.
    pub(super) core_milliblocks: u128,
    /// What is payable.
    pub(super) payable: Vec<u128>,
    /// What must be freed so that the floor holds.
    pub(super) needed: Vec<u128>,
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
            let due_in_pace = in_pace(&due, &payable, terms.bin_blocks_max);
            owing.push(Owing {
                service,
                bin_blocks_max: terms.bin_blocks_max.max(1),
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

    /// Says how many requests would feel background work in each bin, if that is not the demand that is planned for: a
    /// quantile of sums is higher in the first bins than in those after them, only because they are the first.
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

    /// The services whose debts are due sooner after becoming payable than others wait, those with the least time first.
    pub(super) fn urgent(&self, schedule: &Schedule) -> Vec<Service> {
        let mut urgent: Vec<&Owing> = self.owing.iter().filter(|owing| owing.is_urgent(schedule)).collect();
        urgent.sort_by_key(|owing| owing.deadline);
        urgent.into_iter().map(|owing| owing.service).collect()
    }

    fn owing_of<'b>(&'b self, services: &'b [Service]) -> impl Iterator<Item = &'b Owing> {
        self.owing.iter().filter(|owing| services.contains(&owing.service))
    }

    /// What is payable of some services, and what a schedule must have paid: by deadlines, and for debt without one, when it has
    /// been payable for `patience_bins`.
    pub(super) fn envelope(&self, schedule: &Schedule, services: &[Service], patience_bins: usize) -> Envelope {
        let bins = self.bins();
        let mut envelope = Envelope { payable: vec![0; bins], needed: vec![0; bins] };
        for owing in self.owing_of(services) {
            let (mut blocks, mut possible) = (0_u64, 0_u64);
            for (bin, payable) in owing.payable.iter().enumerate() {
                blocks = blocks.saturating_add(*payable);
                possible = possible.saturating_add(owing.bin_blocks_max).min(blocks);
                let sum = possible.saturating_mul(owing.cost);
                envelope.payable[bin] = envelope.payable[bin].saturating_add(sum);
                if !owing.is_heeded(schedule)
                    && let Some(needed) =
                        (bin + patience_bins).checked_sub(1).and_then(|by| envelope.needed.get_mut(by))
                {
                    *needed = needed.saturating_add(sum);
                }
            }
            if owing.is_heeded(schedule) {
                for (bin, needed) in envelope.needed.iter_mut().enumerate() {
                    let later = if bin + 1 == bins { owing.due_later } else { 0 };
                    let due = owing.due_by(schedule, bin).saturating_add(later);
                    *needed = needed.saturating_add(due.saturating_mul(owing.cost));
                }
            }
        }
        envelope
    }

    /// The room that debts can free and the pool needs, cumulative by bin.
    pub(super) fn room(&self) -> Room {
        let bins = self.bins();
        let pool = &self.ledger.pool;
        let dense = self
            .owing
            .iter()
            .filter(|owing| owing.tied_per_mille > 0)
            .max_by(|left, right| (left.tied_per_mille * right.cost).cmp(&(right.tied_per_mille * left.cost)));
        let core_milliblocks = dense.map_or(0, |dense| {
            u128::from(self.system.core_work) * u128::from(dense.tied_per_mille) / u128::from(dense.cost)
        });
        let mut room = Room { core_milliblocks, payable: vec![0; bins], needed: vec![0; bins] };
        let (mut payable, mut used) = (0_u128, u128::from(pool.used_blocks));
        for bin in 0..bins {
            let debts =
                self.owing.iter().map(|owing| u128::from(owing.payable[bin]) * u128::from(owing.tied_per_mille));
            payable += debts.sum::<u128>();
            used += u128::from(self.taken[bin]);
            let most = u128::from(pool.blocks.saturating_sub(pool.floor_blocks));
            (room.payable[bin], room.needed[bin]) = (payable, used.saturating_sub(most) * 1000);
        }
        room
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

    /// The most work that may wait at the end of each bin so that it holds no more than `spare` blocks of the pool, whichever
    /// debts it consists of, if none waits for longer than `patience_bins`.
    pub(super) fn may_wait(&self, patience_bins: usize, spare: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut dense: Vec<&Owing> = self.owing.iter().filter(|owing| owing.tied_per_mille > 0).collect();
        dense.sort_by(|left, right| denser_first(left, right));
        let mut waiting = vec![0_u64; dense.len()];
        let mut most = Vec::with_capacity(self.bins());
        for bin in 0..self.bins() {
            let (mut spare, mut work) = (u128::from(spare(bin)) * 1000, 0_u128);
            let mut is_all = true;
            for (owing, waiting) in dense.iter().zip(&mut waiting) {
                *waiting = waiting.saturating_add(owing.payable[bin]);
                let paid = bin.checked_sub(patience_bins).map_or(0, |bin| owing.payable[bin]);
                *waiting = waiting.saturating_sub(paid);
                if !is_all {
                    continue;
                }
                let blocks = u128::from(*waiting).min(spare / u128::from(owing.tied_per_mille));
                is_all = blocks == u128::from(*waiting);
                spare -= blocks * u128::from(owing.tied_per_mille);
                work += blocks * u128::from(owing.cost);
            }
            most.push(if is_all { u64::MAX } else { u64::try_from(work).unwrap_or(u64::MAX) });
        }
        most
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
        let work = |owing: &Owing| owing.due_by(schedule, bin).saturating_mul(owing.cost);
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
        let System { cores, core_requests, resident_cores, .. } = *self.system;
        let core_requests = core_requests.max(1);
        let mut queued = self.ledger.queued_requests;
        course.clear();
        let cores_of = schedule.reserve_cores.iter().zip(&schedule.limit_cores);
        course.extend(self.demand.iter().zip(cores_of).map(|(demand, (reserve, limit))| {
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
                background_cores: if schedule.harvests { cores - foreground as u32 } else { (*reserve).min(cores) }
                    .min((*limit).max(resident_cores)),
                queued_requests: queued,
                delayed_requests: delayed,
                ..BinCourse::default()
            }
        }));
    }

    fn play_background(&self, schedule: &Schedule, bins: usize, course: &mut [BinCourse]) {
        let mut state = State::new(self, schedule);
        let mut densest: Vec<usize> = (0..self.owing.len()).filter(|at| self.owing[*at].tied_per_mille > 0).collect();
        densest.sort_by(|left, right| denser_first(&self.owing[*left], &self.owing[*right]));
        for bin in 0..bins.min(self.bins()) {
            let most = u64::from(course[bin].background_cores).saturating_mul(self.system.core_work);
            state.begin(bin, most, self.taken[bin]);
            if !state.is_as_required && schedule.is_in_time {
                state.require(bin, self.system.core_work, course);
            }
            let (required, before) = (state.required[bin], state.deadline_work);
            let prompt = u64::from(schedule.prompt_cores[bin]).saturating_mul(self.system.core_work);
            state.pay_by_deadline(required.max(prompt));
            // Resident cores beyond the limit wait for what is due in a while: they do nothing else.
            let limit = u64::from(schedule.limit_cores[bin]).saturating_mul(self.system.core_work);
            state.work_left = state.work_left.min(limit.saturating_sub(state.used_work));
            state.waiting_left = schedule.limit_work[bin].saturating_sub(state.used_waiting);
            state.roomless_left = schedule.limit_roomless[bin].saturating_sub(state.used_roomless);
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
            course[bin].late_blocks = state.late_blocks(|owing| owing.due.get(bin).copied().unwrap_or(0));
            course[bin].missed_blocks = state.late_blocks(|owing| owing.due_by(schedule, bin));
        }
    }
}

/// When debt must be paid so that it is in time although no bin pays more than `most`: cumulative blocks by bin, as `due`, and
/// never more than are payable by then.
fn in_pace(due: &[u64], payable: &[u64], most: u64) -> Vec<u64> {
    let mut early = due.to_vec();
    for bin in (1..early.len()).rev() {
        early[bin - 1] = early[bin - 1].max(early[bin].saturating_sub(most));
    }
    let mut sum = 0_u64;
    for (early, payable) in early.iter_mut().zip(payable) {
        sum = sum.saturating_add(*payable);
        *early = (*early).min(sum);
    }
    early
}

/// The order of debts by the space that they free for their work. Cross-multiplied to avoid fractions; the order of the table
/// breaks ties.
fn denser_first(left: &Owing, right: &Owing) -> Ordering {
    (right.tied_per_mille * left.cost).cmp(&(left.tied_per_mille * right.cost))
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
    /// The services that can wait for more than hours, and of the work, what is left for them and what they used.
    can_wait: [bool; SERVICES_COUNT],
    waiting_left: u64,
    used_waiting: u64,
    /// The same of those among them that give no room back.
    is_roomless: [bool; SERVICES_COUNT],
    roomless_left: u64,
    used_roomless: u64,
    /// The work of a block of the service that needs the most.
    dearest: u64,
    /// Work done for deadlines within the horizon.
    deadline_work: u64,
    /// The part of it that must be done in each bin, if exactly the required work was done before that.
    required: Vec<u64>,
    is_as_required: bool,
}

impl<'a> State<'a> {
    fn new(horizon: &'a Horizon<'_>, schedule: &'a Schedule) -> Self {
        let (mut can_wait, mut is_roomless) = ([true; SERVICES_COUNT], [false; SERVICES_COUNT]);
        for (at, owing) in horizon.owing.iter().enumerate() {
            can_wait[at] = !owing.is_urgent(schedule);
            is_roomless[at] = can_wait[at] && owing.tied_per_mille == 0;
        }
        Self {
            schedule,
            owing: &horizon.owing,
            can_wait,
            waiting_left: u64::MAX,
            used_waiting: 0,
            is_roomless,
            roomless_left: u64::MAX,
            used_roomless: 0,
            dearest: horizon.owing.iter().map(|owing| owing.cost).max().unwrap_or(0),
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
                    let before = if at == bin { paid } else { owing.due_by(self.schedule, at - 1).max(paid) };
                    let due = owing.due_by(self.schedule, at).max(paid) - before;
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
        (self.waiting_left, self.used_waiting) = (u64::MAX, 0);
        (self.roomless_left, self.used_roomless) = (u64::MAX, 0);
        self.paid_now = [0; SERVICES_COUNT];
        self.used_blocks = self.used_blocks.saturating_add(taken);
        for (at, owing) in self.owing.iter().enumerate() {
            self.payable[at] = self.payable[at].saturating_add(owing.payable[bin]);
        }
    }

    /// The work that is left in the bin for one service.
    fn left_for(&self, at: usize) -> u64 {
        match self.can_wait[at] {
            // What is too little for a block of one is not spent on another in its place: that would be a crumb in every bin.
            true if self.waiting_left < self.dearest => 0,
            true if self.is_roomless[at] => self.work_left.min(self.waiting_left).min(self.roomless_left),
            true => self.work_left.min(self.waiting_left),
            false => self.work_left,
        }
    }

    /// Blocks of one service that may still be paid in the bin.
    fn payable_now(&self, at: usize) -> u64 {
        let owing = &self.owing[at];
        self.payable[at].min(owing.bin_blocks_max.saturating_sub(self.paid_now[owing.service as usize]))
    }

    /// Pays up to `blocks` of one service within the remaining work of the bin.
    fn pay(&mut self, at: usize, blocks: u64) {
        let owing = &self.owing[at];
        let blocks = blocks.min(self.payable_now(at)).min(self.left_for(at) / owing.cost);
        if blocks == 0 {
            return;
        }
        let work = blocks * owing.cost;
        self.work_left -= work;
        self.used_work += work;
        if self.can_wait[at] {
            self.waiting_left -= work;
            self.used_waiting += work;
        }
        if self.is_roomless[at] {
            self.roomless_left -= work;
            self.used_roomless += work;
        }
        self.payable[at] -= blocks;
        let before = self.paid[at];
        self.paid[at] = before.saturating_add(blocks);
        self.paid_now[owing.service as usize] += blocks;
        let tied = (u128::from(blocks) * u128::from(owing.tied_per_mille) / 1000) as u64;
        self.used_blocks = self.used_blocks.saturating_sub(tied);
        if owing.is_heeded(self.schedule) {
            // Debt due beyond the horizon was not required.
            let due = owing.due_by(self.schedule, owing.due.len().saturating_sub(1));
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
            if !owing.is_heeded(self.schedule) || self.payable_now(at) == 0 || owing.cost > self.left_for(at) {
                continue;
            }
            while self.next_due[at] < owing.due.len() && owing.due_by(self.schedule, self.next_due[at]) <= self.paid[at]
            {
                self.next_due[at] += 1;
            }
            if self.next_due[at] < owing.due.len() && first.is_none_or(|(_, due)| self.next_due[at] < due) {
                first = Some((at, self.next_due[at]));
            }
        }
        first.map(|(at, bin)| (at, self.owing[at].due_by(self.schedule, bin)))
    }

    /// Shares the remaining work among all services with debt, by priority, until either is used up. The share of a service
    /// with a deadline goes to the earliest deadline, so early work never replaces work that is due now.
    fn pay_by_turns(&mut self) {
        loop {
            let can = |state: &Self, at: usize| state.payable_now(at) > 0 && state.owing[at].cost <= state.left_for(at);
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

    fn late_blocks(&self, due: impl Fn(&Owing) -> u64) -> u64 {
        let late = |(owing, paid): (&Owing, u64)| due(owing).saturating_sub(paid);
        self.owing.iter().zip(self.paid).map(late).fold(0, u64::saturating_add)
    }
}
