//! Plays a schedule over the bins ahead and accounts for how many cores the foreground and the background got.
//!
//! The planner (on forecasts), the replay (on recorded load) and the baselines share this step, so there is only one way to
//! account for a bin.

use ioweir_core::background::SERVICES_COUNT;

use super::horizon::Horizon;
use super::owing::{Owing, denser_first};
use super::schedule::{BinCourse, Schedule};
use super::system::System;

impl Horizon<'_> {
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
                background_cores: (cores - foreground as u32).min((*limit).max(resident_cores)),
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
            if !state.is_as_required {
                state.require(bin, self.system.core_work, course);
            }
            let (required, before) = (state.required[bin], state.deadline_work);
            state.pay_by_deadline(required);
            // Resident cores beyond the limit only wait for debt that will be due.
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

/// The debts while bins are played.
struct State<'a> {
    schedule: &'a Schedule,
    /// The bin that is played.
    bin: usize,
    owing: &'a [Owing],
    payable: [u64; SERVICES_COUNT],
    paid: [u64; SERVICES_COUNT],
    paid_now: [u64; SERVICES_COUNT],
    /// The first bin whose due debt a service has not paid.
    next_due: [usize; SERVICES_COUNT],
    used_blocks: u64,
    work_left: u64,
    used_work: u64,
    /// The services that can wait for more than hours; the work left for them, and the work that they used.
    can_wait: [bool; SERVICES_COUNT],
    waiting_left: u64,
    used_waiting: u64,
    /// The services among these that give no room back; the work left for them, and the work that they used.
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
            bin: 0,
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
        self.bin = bin;
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
            // Too little for a block of one service is not spent on another in its place: that would be a crumb in every bin.
            true if self.waiting_left < self.dearest => 0,
            true if self.is_roomless[at] => self.work_left.min(self.waiting_left).min(self.roomless_left),
            true => self.work_left.min(self.waiting_left),
            false => self.work_left,
        }
    }

    /// Blocks of one service that may still be paid in the bin.
    fn payable_now(&self, at: usize) -> u64 {
        let owing = &self.owing[at];
        self.payable[at].min(owing.blocks_max[self.bin].saturating_sub(self.paid_now[owing.service as usize]))
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
