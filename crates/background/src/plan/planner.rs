//! The planner decides how many cores to promise to background work, and when, so that space and deadlines hold and the
//! foreground loses as little as possible.
//!
//! The paper plays the forecast and, where free space would run out, spreads background work over an earlier interval
//! (section VI B). Here work waits instead until the last responsible moment: a core taken from the foreground costs it the
//! same requests whenever it is taken, and as a plan is made anew in each bin, a danger that a later bin can still avert may
//! never come. The priorities are, in order, the floor of the pool, deadlines, and the foreground.
//!
//! **Feasibility.** Putting all cores on the debt that frees the most space per unit of work frees the most space possible by
//! every moment: if this does not hold the floor, nothing does. Deadline work is postponed as far as the remaining cores allow
//! (`State::require`), which leaves the most cores for freeing space at every earlier moment. So a plan of all cores holds
//! floor and deadlines if any schedule does, except where debts free different amounts of space for their work and the densest
//! of them becomes payable late: there a deadline may be given up that a cleverer order would have kept.
//!
//! **What all cores cannot hold is conceded.** A deadline that even all cores miss, or that conflicts with the floor, is given
//! up and reported. From the first bin on in which nothing holds the floor, the foreground is not cut for the floor.
//!
//! [`solve`] plans a whole path of load; [`decide`] decides the next bin from many paths. Both leave idle cores to background
//! work and then let it rest ([`rest`]): work moves to the quietest bins that floor, alarm and deadlines allow.

use ioweir_core::Nanos;
use ioweir_core::background::{Directive, SERVICES_COUNT, Service};

use super::horizon::Horizon;
use super::load::Ahead;
use super::rest;
use super::schedule::{BinCourse, Schedule};
use super::system::{Ledger, System};

/// The schedule for a path of load.
#[derive(Clone, Debug)]
pub struct Solution {
    pub schedule: Schedule,
    /// The schedule in which all work is done as soon as there are cores for it.
    pub at_once: Schedule,
    /// The outcome of `schedule` at the load that was planned for.
    pub course: Vec<BinCourse>,
    /// Bins that end below the floor: nothing holds it in the first of them.
    pub below_floor: Vec<usize>,
    /// Services whose deadlines were given up, because no schedule meets them or the floor comes first.
    pub gave_up: Vec<Service>,
    /// The services whose debts are due within hours of becoming payable.
    pub urgent: [bool; SERVICES_COUNT],
    /// The number of times that the horizon was played.
    pub plays: u32,
}

impl Solution {
    /// The directives to the executor for a bin that begins at `from`.
    #[must_use]
    pub fn directive(&self, bin: usize, from: Nanos) -> Directive {
        Directive {
            from,
            reserve_units: self.schedule.reserve_cores[bin],
            limit_units: self.schedule.limit_cores[bin],
            limit_work: self.schedule.limit_work[bin],
            urgent: self.urgent,
            pressing: self.schedule.pressing[bin],
            pay_blocks: self.course[bin].paid_blocks,
        }
    }
}

/// The most plays before the search uses all cores in all bins that are left.
const PLAYS_MAX: u32 = 1200;

/// How often resting is tried, each time with more bins in which work is done at once.
const REST_TRIES: usize = 4;

struct Search<'a> {
    horizon: &'a Horizon<'a>,
    schedule: Schedule,
    /// Bins that are exempt from the floor.
    is_exempt: Vec<bool>,
    /// Whether nothing holds the floor from some bin on.
    is_conceded: bool,
    gave_up: Vec<Service>,
    course: Vec<BinCourse>,
    plays: u32,
}

/// Finds a schedule for the bins of a horizon.
#[must_use]
pub fn solve(horizon: &Horizon<'_>) -> Solution {
    let mut search = Search::new(horizon);
    search.run();
    let at_once = search.schedule.clone();
    search.rest();
    search.keep_for_room();
    let below_floor = (0..horizon.bins()).filter(|bin| search.missing_blocks(*bin) > 0).collect();
    let Search { schedule, course, gave_up, plays, .. } = search;
    let mut urgent = [false; SERVICES_COUNT];
    horizon.urgent(&schedule).into_iter().for_each(|service| urgent[service as usize] = true);
    Solution { schedule, at_once, course, below_floor, gave_up, urgent, plays }
}

/// Decides the next bin, with recourse: all cores of the bins after it can still be used.
///
/// Each scenario asks for the fewest cores now with which all cores from the next bin on still hold the floor and the deadlines; the most
/// that any of them asks for is reserved, which is nearly always nothing. A scenario in which even all cores from now on do not hold
/// the floor asks for nothing, because nothing averts it; below the floor the executor takes cores by itself. Background work rests in
/// the bin only if idle cores alone suffice in every scenario afterwards.
#[must_use]
pub fn decide(system: &System, ledger: &Ledger, ahead: &Ahead, from: Nanos) -> Directive {
    let solution = solve(&Horizon::new(system, ledger, &ahead.demand).with_busy(&ahead.busy));
    let mut directive = solution.directive(0, from);
    directive.reserve_units = system.resident_cores.min(system.cores);
    directive.pressing = false;
    let limit = solution.schedule.limit_of(0);
    let bins = bins_ahead(system, ahead.demand.len());
    for scenario in &ahead.scenarios {
        let horizon = Horizon::new(system, ledger, &scenario[..bins.min(scenario.len())]);
        let mut search = Search::new(&horizon);
        // With the rest of the plan, and idle cores alone afterwards.
        search.schedule.set_limit(0, limit);
        search.play();
        if search.first_breach(horizon.bins()).is_none() {
            continue;
        }
        (directive.limit_units, directive.limit_work, directive.pressing) = (system.cores, u64::MAX, true);
        search = Search::new(&horizon);
        directive.reserve_units = directive.reserve_units.max(search.cores_now());
    }
    directive
}

/// How many bins a scenario needs: a danger further away than a day can still be averted tomorrow, unless it is that of a deadline.
fn bins_ahead(system: &System, bins: usize) -> usize {
    const DAY: Nanos = Nanos::from_seconds(86_400);
    let is_far = |deadline: Nanos| DAY < deadline && deadline < Nanos::NEVER;
    let is_any_far = system.run().any(|(_, terms)| is_far(terms.settings.deadline));
    if is_any_far { bins } else { bins.min(system.bin_of(DAY)) }
}

impl<'a> Search<'a> {
    fn new(horizon: &'a Horizon<'a>) -> Self {
        let schedule = Schedule::idle_only(horizon.system(), horizon.bins());
        let is_exempt = vec![false; horizon.bins()];
        let (gave_up, course) = (Vec::new(), Vec::new());
        Self { horizon, schedule, is_exempt, is_conceded: false, gave_up, course, plays: 0 }
    }

    fn run(&mut self) {
        self.play();
        if self.first_breach(self.horizon.bins()).is_some() {
            self.concede();
            self.play();
        }
        while let Some(bin) = self.first_breach(self.horizon.bins()) {
            if self.plays > PLAYS_MAX {
                self.work_on_all(0, self.horizon.bins());
                self.play();
                break;
            }
            if !self.mend(bin) && !self.give_up_due(bin) {
                self.is_exempt[bin] = true;
            }
            self.play();
        }
        self.trim();
    }

    /// The fewest cores in the first bin with which all cores from the second bin on hold what all cores hold; no more than are
    /// resident where even all cores do not hold the floor to the end.
    fn cores_now(&mut self) -> u32 {
        let (bins, cores) = (self.horizon.bins(), self.horizon.system().cores);
        let least = self.schedule.reserve_cores[0];
        self.concede();
        if self.is_conceded {
            return least;
        }
        self.work_on_all(0, bins);
        let holds = |search: &mut Self, reserve: u32| {
            search.schedule.reserve_cores[0] = reserve;
            search.holds(bins - 1)
        };
        if holds(self, least) {
            return least;
        }
        let (mut low, mut high) = (least + 1, cores.max(least + 1));
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(self, middle) { high = middle } else { low = middle + 1 }
        }
        high.min(cores)
    }

    fn play(&mut self) {
        self.play_until(self.horizon.bins());
    }

    fn play_until(&mut self, bins: usize) {
        self.plays += 1;
        let mut course = std::mem::take(&mut self.course);
        self.horizon.play_into(&self.schedule, bins, &mut course);
        self.course = course;
    }

    /// Whether the schedule keeps floor and deadlines up to and including bin `last`.
    fn holds(&mut self, last: usize) -> bool {
        self.play_until(last + 1);
        self.first_breach(last + 1).is_none()
    }

    fn missing_blocks(&self, bin: usize) -> u64 {
        let pool = &self.horizon.ledger().pool;
        self.course[bin].used_blocks.saturating_add(pool.floor_blocks).saturating_sub(pool.blocks)
    }

    /// The first of the first `bins` bins that ends below the floor or with a deadline missed.
    fn first_breach(&self, bins: usize) -> Option<usize> {
        (0..bins).find(|bin| self.is_breach(*bin))
    }

    fn is_breach(&self, bin: usize) -> bool {
        self.course[bin].missed_blocks > 0 || !self.is_exempt[bin] && self.missing_blocks(bin) > 0
    }

    /// Puts all cores to background work from bin `from` up to, but not including, `to`.
    fn work_on_all(&mut self, from: usize, to: usize) {
        self.schedule.reserve_cores[from..to].fill(self.horizon.system().cores);
        self.schedule.pressing[from..to].fill(true);
    }

    /// Plays all cores at background work in all bins, without keeping it: the blocks missing in each bin.
    fn at_most(&mut self) -> Vec<u64> {
        let kept = self.schedule.clone();
        self.work_on_all(0, self.horizon.bins());
        self.play();
        self.schedule = kept;
        (0..self.horizon.bins()).map(|bin| self.missing_blocks(bin)).collect()
    }

    /// Concedes what all cores together cannot hold: first deadlines, of the services with the most work due; then the floor,
    /// from the first bin on in which nothing holds it. A pool that begins below its floor is brought above it first.
    fn concede(&mut self) {
        let kept = std::mem::replace(&mut self.schedule.gave_up, [true; SERVICES_COUNT]);
        let without_deadlines = self.at_most();
        self.schedule.gave_up = kept;
        loop {
            let missing = self.at_most();
            let is_in_the_way =
                |bin: &usize| self.course[*bin].missed_blocks > 0 || missing[*bin] > without_deadlines[*bin];
            let Some(bin) = (0..missing.len()).find(is_in_the_way) else { break };
            if !self.give_up_due(bin) {
                break;
            }
        }
        let pool = &self.horizon.ledger().pool;
        let begins_below = pool.used_blocks.saturating_add(pool.floor_blocks) > pool.blocks;
        for (bin, missing) in without_deadlines.iter().enumerate() {
            let is_low = *missing > 0;
            let is_first_stretch = begins_below && without_deadlines[..=bin].iter().all(|missing| *missing > 0);
            self.is_conceded |= is_low && !is_first_stretch;
            self.is_exempt[bin] = self.is_conceded || is_low;
        }
    }

    /// Gives up the deadlines of the service with the most work due by the end of a bin, or else by the end of the horizon; whether
    /// there is one.
    fn give_up_due(&mut self, bin: usize) -> bool {
        let due_by = |bin| self.horizon.most_due(&self.schedule, bin);
        let Some(service) = due_by(bin).or_else(|| due_by(self.horizon.bins() - 1)) else { return false };
        self.schedule.gave_up[service as usize] = true;
        self.gave_up.push(service);
        true
    }

    /// Repairs a breach in bin `last`, if that is possible: by order alone, or with all cores from the latest bin on from which they
    /// suffice, and in that bin with the fewest that do.
    fn mend(&mut self, last: usize) -> bool {
        let before = self.schedule.clone();
        self.schedule.pressing[..=last].fill(true);
        if self.holds(last) {
            return true;
        }
        let bins = self.horizon.bins();
        let starts_at = |search: &mut Self, from: usize, to: usize| {
            search.schedule.reserve_cores.clone_from(&before.reserve_cores);
            search.schedule.pressing.clone_from(&before.pressing);
            search.work_on_all(from, to);
            search.holds(last)
        };
        // Deadlines after the bin may need all cores there, so that this one's are free for space.
        let Some(to) = [last + 1, bins].into_iter().find(|to| starts_at(self, 0, *to)) else {
            self.schedule = before;
            return false;
        };
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = high - (high - low) / 2;
            if starts_at(self, middle, to) { low = middle } else { high = middle - 1 }
        }
        starts_at(self, low, to);
        let (mut least, mut most) = (before.reserve_cores[low], self.horizon.system().cores);
        while least < most {
            let middle = least + (most - least) / 2;
            self.schedule.reserve_cores[low] = middle;
            if self.holds(last) { most = middle } else { least = middle + 1 }
        }
        self.schedule.reserve_cores[low] = most;
        true
    }

    /// Moves work to the quietest bins that floor, alarm, deadlines and patience allow. Where playing it shows that they do
    /// not hold, the bins up to there keep what was planned at once.
    fn rest(&mut self) {
        let before = (self.schedule.clone(), self.course.clone());
        let mut keep_until = 0;
        for _ in 0..REST_TRIES {
            let limits = rest::limits(self.horizon, &before.0, &before.1, keep_until);
            for (bin, limit) in limits.into_iter().enumerate() {
                self.schedule.set_limit(bin, limit);
            }
            self.play();
            match self.first_breach(self.horizon.bins()) {
                None => return self.trim(),
                Some(breach) => keep_until = breach + 1,
            }
        }
        (self.schedule, self.course) = before;
    }

    /// Where room is short, reserves the work that services which give room back may leave over: the other services do only what they do at
    /// the planned load. At that load nothing changes.
    fn keep_for_room(&mut self) {
        let roomless = self.horizon.roomless(&self.schedule);
        for (bin, limit) in self.schedule.limit_roomless.iter_mut().enumerate() {
            if self.schedule.pressing[bin] {
                *limit = self.horizon.work(&self.course[bin], &roomless);
            }
        }
    }

    /// Returns unused reserves to the foreground.
    fn trim(&mut self) {
        let before = (self.schedule.clone(), self.course.clone());
        let resident = self.horizon.system().resident_cores;
        for (reserve, bin) in self.schedule.reserve_cores.iter_mut().zip(&self.course) {
            *reserve = (*reserve).min(bin.background_cores.max(resident));
        }
        if self.schedule.reserve_cores == before.0.reserve_cores {
            return;
        }
        let low = |search: &Self| (0..search.horizon.bins()).map(|bin| search.missing_blocks(bin)).max();
        let worst = low(self);
        self.play();
        if self.first_breach(self.horizon.bins()).is_some() || low(self) > worst {
            (self.schedule, self.course) = before;
        }
    }
}
