//! The planner decides how many cores to promise to background work, and when, so that space and deadlines hold and the
//! foreground loses as little as possible.
//!
//! The method is that of section VI B of the paper: play the forecast; where free space would run out, spread enough
//! background work over an earlier interval, and play again until it fits. The paper spreads it evenly, and leaves the length
//! of the interval open. Here it is the shortest that suffices, and within it the work is as late as it can be: a plan is made
//! anew in each bin, so the later work is forced upon the foreground, the more certain the need is, and the less waits
//! meanwhile. A core that the foreground hardly uses is taken before that, if requests wait less for it. The priorities are, in order,
//! the floor of the pool, deadlines, and the foreground.
//!
//! **Why it finds a plan if one exists.** Putting all cores on the debt that frees the most space per unit of work frees the
//! most space possible by every moment: if this does not hold the floor, nothing does. Deadline work is postponed as far as
//! the remaining cores allow (`State::require`), which leaves the most cores for freeing space at every earlier moment. So
//! [`Schedule::all_out`] holds floor and deadlines if any schedule does, and the search below ends there at the latest. One
//! case is not covered: debts of different density, of which the densest become payable late, together with a deadline that
//! takes all the time there is. Then deadline work must be done at once on the right number of cores until the right moment,
//! and the planner tries a few combinations of both.
//!
//! A schedule found in this way works as soon as there are cores. It then learns to rest: [`rest`] moves the work
//! to the quietest bins that floor, alarm and deadlines allow.

use ioweir_core::Nanos;
use ioweir_core::background::{Directive, SERVICES_COUNT, Service};

use super::horizon::Horizon;
use super::rest;
use super::schedule::{BinCourse, GIVEN_UP, Schedule};
use super::system::System;

/// The result of the search.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The schedule.
    pub schedule: Schedule,
    /// The same with all work done as soon as there are cores for it.
    pub at_once: Schedule,
    /// Its outcome at the forecast load.
    pub course: Vec<BinCourse>,
    /// Bins at whose end no schedule can hold the floor.
    pub below_floor: Vec<usize>,
    /// Services whose deadlines were given up, because no schedule meets them or the floor comes first.
    pub gave_up: Vec<Service>,
    /// The services whose debts are due within hours of becoming payable.
    pub urgent: [bool; SERVICES_COUNT],
    /// The number of times that the horizon was played.
    pub plays: u32,
}

impl Solution {
    /// What the executor is asked for in a bin that begins at `from`.
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

/// The most plays before the search falls back to the schedule that is certain to hold.
const PLAYS_MAX: u32 = 1200;

/// How often resting is tried, each time with more bins in which work is done at once.
const REST_TRIES: usize = 4;

/// The most exchanges of cores that are tried.
const EXCHANGES_MAX: usize = 16;

/// The number of moments tried for the beginning and the end of doing deadline work at once, for each number of cores.
const PROMPT_TRIES: usize = 8;

/// A breach of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Breach {
    /// Its first bin.
    first: usize,
    /// The worst bin of the stretch that begins there.
    worst: usize,
    is_deadline: bool,
}

struct Search<'a> {
    horizon: &'a Horizon<'a>,
    schedule: Schedule,
    /// Bins that are exempt from the floor, because no schedule can hold it there.
    is_exempt: Vec<bool>,
    below_floor: Vec<usize>,
    gave_up: Vec<Service>,
    course: Vec<BinCourse>,
    plays: u32,
}

/// Finds a schedule for the bins of a horizon.
#[must_use]
pub fn solve(horizon: &Horizon<'_>) -> Solution {
    let schedule = Schedule::idle_only(horizon.system(), horizon.bins());
    let mut search = Search {
        horizon,
        schedule,
        is_exempt: vec![false; horizon.bins()],
        below_floor: Vec::new(),
        gave_up: Vec::new(),
        course: Vec::new(),
        plays: 0,
    };
    search.run();
    let at_once = search.schedule.clone();
    search.rest();
    search.keep_for_room();
    let Search { schedule, course, below_floor, gave_up, plays, .. } = search;
    let mut urgent = [false; SERVICES_COUNT];
    horizon.urgent(&schedule).into_iter().for_each(|service| urgent[service as usize] = true);
    Solution { schedule, at_once, course, below_floor, gave_up, urgent, plays }
}

impl Search<'_> {
    fn run(&mut self) {
        self.play();
        let mut is_all_out = false;
        while let Some(breach) = self.first_breach(self.horizon.bins()) {
            if self.plays > PLAYS_MAX && !is_all_out {
                self.all_out(self.horizon.bins());
                is_all_out = true;
            } else if is_all_out || !self.mend(breach) {
                self.give_way(breach);
            }
            self.play();
        }
        self.exchange();
        self.trim();
    }

    /// Exchanges cores that are taken from the foreground: the first one of a stretch for one before it that the foreground hardly uses,
    /// where as much room is freed and requests wait less. The search takes as many cores of one bin as of the next; but the last one
    /// that the foreground uses may serve few requests.
    fn exchange(&mut self) {
        let waiting = |course: &[BinCourse]| course.iter().map(|bin| u128::from(bin.queued_requests)).sum::<u128>();
        let mut tries = 0;
        for bin in 0..self.horizon.bins() {
            let Some(reserve) = self.with_hardly_used(bin) else { continue };
            let Some(taken) = self.first_taken_after(bin) else { continue };
            if tries == EXCHANGES_MAX {
                return;
            }
            tries += 1;
            let before = (self.schedule.reserve_cores.clone(), self.course.clone());
            self.schedule.reserve_cores[bin] = reserve;
            // What waits longer takes no core of those in between.
            for between in bin + 1..taken {
                self.schedule.reserve_cores[between] =
                    self.schedule.reserve_cores[between].max(self.offered_cores(between));
            }
            self.schedule.reserve_cores[taken] -= 1;
            if !self.holds(self.horizon.bins() - 1) || waiting(&self.course) >= waiting(&before.1) {
                (self.schedule.reserve_cores, self.course) = before;
            }
        }
    }

    /// The cores to reserve in a bin so that the last one that the foreground uses is among them, if it uses that for less than half of
    /// its time.
    fn with_hardly_used(&self, bin: usize) -> Option<u32> {
        let System { cores, core_requests, .. } = *self.horizon.system();
        let before = bin.checked_sub(1).map(|bin| self.course[bin].queued_requests);
        let queued = before.unwrap_or(self.horizon.ledger().queued_requests);
        let part = self.horizon.demand[bin].requests.saturating_add(queued) % core_requests.max(1);
        let BinCourse { wanted_cores, foreground_cores, .. } = self.course[bin];
        let has_all = wanted_cores == u64::from(foreground_cores);
        let is_hardly_used = 0 < part && part < core_requests / 2;
        (self.schedule.pressing[bin] && has_all && is_hardly_used).then(|| cores - foreground_cores + 1)
    }

    /// The first bin after one, in the same stretch, in which a core is taken that the foreground wants.
    fn first_taken_after(&self, bin: usize) -> Option<usize> {
        let cores = u64::from(self.horizon.system().cores);
        let is_taken = |bin: &usize| {
            let BinCourse { wanted_cores, foreground_cores, .. } = self.course[*bin];
            self.schedule.reserve_cores[*bin] > 0 && u64::from(foreground_cores) < wanted_cores.min(cores)
        };
        (bin + 1..self.horizon.bins()).take_while(|bin| self.schedule.pressing[*bin]).find(is_taken)
    }

    fn play(&mut self) {
        self.plays += 1;
        let mut course = std::mem::take(&mut self.course);
        self.horizon.play_into(&self.schedule, self.horizon.bins(), &mut course);
        self.course = course;
    }

    /// Whether the schedule keeps floor and deadlines up to and including bin `last`.
    fn holds(&mut self, last: usize) -> bool {
        self.plays += 1;
        let mut course = std::mem::take(&mut self.course);
        self.horizon.play_into(&self.schedule, last + 1, &mut course);
        self.course = course;
        self.first_breach(last + 1).is_none()
    }

    fn missing_blocks(&self, bin: usize) -> u64 {
        let pool = &self.horizon.ledger().pool;
        self.course[bin].used_blocks.saturating_add(pool.floor_blocks).saturating_sub(pool.blocks)
    }

    /// The first breach within the first `bins` bins.
    fn first_breach(&self, bins: usize) -> Option<Breach> {
        let late = |bin: usize| self.course[bin].missed_blocks > 0;
        let low = |bin: usize| !self.is_exempt[bin] && self.missing_blocks(bin) > 0;
        let first = (0..bins).find(|bin| late(*bin) || low(*bin))?;
        if !low(first) {
            return Some(Breach { first, worst: first, is_deadline: true });
        }
        let stretch = (first..bins).take_while(|bin| low(*bin));
        let worst = stretch.max_by_key(|bin| (self.missing_blocks(*bin), usize::MAX - bin)).unwrap_or(first);
        Some(Breach { first, worst, is_deadline: false })
    }

    /// The bin after the last one, up to `bin`, at whose end background work had idle cores: work before that bin does not
    /// help.
    fn busy_since(&self, bin: usize) -> usize {
        let idle = |bin: &usize| self.course[*bin].background_cores < self.offered_cores(*bin);
        (0..=bin).rev().find(idle).map_or(0, |idle| (idle + 1).min(bin))
    }

    /// Cores that the background could have used in a bin.
    fn offered_cores(&self, bin: usize) -> u32 {
        self.horizon.system().cores - self.course[bin].foreground_cores
    }

    /// Tries to repair a breach. For space: by order alone, then over the shortest earlier interval that suffices, because
    /// the forecast load may not come. For deadlines: over all the busy time before it, because a rebuild should finish
    /// early. Then over all time before it, then over all time.
    fn mend(&mut self, breach: Breach) -> bool {
        let last = if breach.is_deadline { breach.first } else { breach.worst };
        let since = self.busy_since(last);
        let end = self.horizon.bins();
        let before = self.schedule.clone();
        if !breach.is_deadline && self.raise_late(since, last) {
            return true;
        }
        self.schedule.clone_from(&before);
        for (from, to) in [(since, last + 1), (0, last + 1), (0, end)] {
            if self.raise(from, to, last) {
                return true;
            }
            self.schedule.clone_from(&before);
        }
        self.horizon.has_mixed_densities() && self.prompt(last)
    }

    /// Tries to do deadline work at once for a time, on all cores, half or a quarter of them. If space can only be freed late,
    /// by the densest debt, deadlines may fit only before that, beside or after the space that is needed early.
    fn prompt(&mut self, last: usize) -> bool {
        let before = self.schedule.clone();
        let cores = self.horizon.system().cores;
        let step = (last + 1).div_ceil(PROMPT_TRIES);
        let edges = || (0..last).step_by(step).chain([last + 1]);
        let windows = || edges().flat_map(|from| edges().filter(move |to| *to > from).map(move |to| from..to));
        for prompt_cores in [cores, cores.div_ceil(2), cores.div_ceil(4)] {
            for prompt in windows() {
                self.schedule.prompt_cores[prompt].fill(prompt_cores);
                if self.raise(0, self.horizon.bins(), last) {
                    return true;
                }
                self.schedule.clone_from(&before);
            }
        }
        if self.prompt_where_room_allows() && self.raise(0, self.horizon.bins(), last) {
            return true;
        }
        self.schedule.clone_from(&before);
        false
    }

    /// Does as much deadline work at once, bin after bin, as leaves a way to hold the floor from there on; whether there is one.
    fn prompt_where_room_allows(&mut self) -> bool {
        let (bins, cores) = (self.horizon.bins(), self.horizon.system().cores);
        let before = self.schedule.reserve_cores.clone();
        self.all_out(bins);
        (self.schedule.is_in_time, self.schedule.prompt_cores) = (false, vec![0; bins]);
        let step = bins.div_ceil(PROMPT_TRIES);
        let mut holds = true;
        for from in (0..bins).step_by(step) {
            let holds_floor = |search: &mut Self, level: u32| {
                search.schedule.prompt_cores[from..(from + step).min(bins)].fill(level);
                search.play();
                (0..bins).all(|bin| search.is_exempt[bin] || search.missing_blocks(bin) == 0)
            };
            holds &= holds_floor(self, 0);
            let (mut low, mut high) = (0, cores);
            while holds && low < high {
                let middle = high - (high - low) / 2;
                if holds_floor(self, middle) { low = middle } else { high = middle - 1 }
            }
            holds_floor(self, low);
        }
        (self.schedule.is_in_time, self.schedule.reserve_cores) = (true, before);
        holds
    }

    /// Whether floor and deadlines hold up to and including bin `last`, with at least `level` cores from `from` to `to` and
    /// otherwise `before`.
    fn holds_with(&mut self, level: u32, (from, to): (usize, usize), before: &[u32], last: usize) -> bool {
        self.schedule.reserve_cores.copy_from_slice(before);
        for reserve in &mut self.schedule.reserve_cores[from..to] {
            *reserve = level.max(*reserve);
        }
        self.holds(last)
    }

    /// Puts work into the shortest time up to bin `last`, but not before `since`, in which at most half of the
    /// cores suffice, or all of them if half are too few.
    fn raise_late(&mut self, since: usize, last: usize) -> bool {
        let before = self.schedule.reserve_cores.clone();
        let cores = self.horizon.system().cores;
        self.schedule.pressing[since..=last].fill(true);
        if self.holds(last) {
            return true;
        }
        for most in [cores.div_ceil(2), cores] {
            if !self.holds_with(most, (since, last + 1), &before, last) {
                continue;
            }
            // Finds the latest start that suffices: an earlier one always does, too.
            let (mut low, mut high) = (since, last);
            while low < high {
                let middle = high - (high - low) / 2;
                if self.holds_with(most, (middle, last + 1), &before, last) { low = middle } else { high = middle - 1 }
            }
            return self.latest_levels((low, last + 1), &before, last, most);
        }
        false
    }

    /// Work as late as possible in a window in which `most` cores suffice: in its first half only what the second one cannot
    /// do, and so on in the second half.
    fn latest_levels(&mut self, (from, to): (usize, usize), before: &[u32], last: usize, most: u32) -> bool {
        let middle = from + (to - from) / 2;
        if middle == from {
            return self.least_level((from, to), before, last, most);
        }
        let mut after = before.to_vec();
        after[middle..to].iter_mut().for_each(|cores| *cores = most.max(*cores));
        if !self.least_level((from, middle), &after, last, most) {
            return false;
        }
        after[from..middle].copy_from_slice(&self.schedule.reserve_cores[from..middle]);
        after[middle..to].copy_from_slice(&before[middle..to]);
        self.latest_levels((middle, to), &after, last, most)
    }

    /// The fewest cores, the same in all bins from `from` to `to`, with which floor and deadlines hold up to and including
    /// bin `last`.
    fn raise(&mut self, from: usize, to: usize, last: usize) -> bool {
        let before = self.schedule.reserve_cores.clone();
        self.schedule.pressing[from..to].fill(true);
        let cores = self.horizon.system().cores;
        self.holds_with(cores, (from, to), &before, last) && self.least_level((from, to), &before, last, cores)
    }

    /// Lowers a sufficient level as long as it stays sufficient.
    fn least_level(&mut self, window: (usize, usize), before: &[u32], last: usize, most: u32) -> bool {
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.holds_with(middle, window, before, last) { high = middle } else { low = middle + 1 }
        }
        self.holds_with(high, window, before, last)
    }

    /// Puts all cores to background work in the first `bins` bins.
    fn all_out(&mut self, bins: usize) {
        self.schedule.reserve_cores[..bins].fill(self.horizon.system().cores);
        self.schedule.pressing[..bins].fill(true);
    }

    /// The result of a schedule with all cores at background work, without keeping it: the blocks that are missing in each bin,
    /// and the blocks of all deadlines that it misses.
    fn at_most(&mut self) -> (Vec<u64>, u64) {
        let kept = self.schedule.clone();
        self.all_out(self.horizon.bins());
        self.play();
        self.schedule = kept;
        let missed = self.course.iter().map(|bin| bin.missed_blocks).fold(0, u64::saturating_add);
        ((0..self.horizon.bins()).map(|bin| self.missing_blocks(bin)).collect(), missed)
    }

    /// Gives up what cannot be kept: a deadline that every schedule misses or that conflicts with the floor, for the earliest
    /// time that can be kept; or else the floor, for bins in which all cores together cannot hold it.
    fn give_way(&mut self, breach: Breach) {
        let Breach { first, worst, is_deadline } = breach;
        let (with_deadlines, _) = self.at_most();
        let late_bins = self.schedule.late_bins;
        self.schedule.late_bins = [GIVEN_UP; SERVICES_COUNT];
        let (without, _) = self.at_most();
        self.schedule.late_bins = late_bins;
        let stands_in_the_way = is_deadline || with_deadlines[first..=worst] != without[first..=worst];
        let dearest = self.horizon.most_due(&self.schedule, worst).filter(|_| stands_in_the_way);
        if let Some(service) = dearest {
            let late_bins = self.earliest(service, first, &without);
            self.schedule.late_bins[service as usize] = late_bins;
            if !self.gave_up.contains(&service) {
                self.gave_up.push(service);
            }
            return;
        }
        self.all_out(worst + 1);
        // So that the search ends, one bin is exempt in any case.
        let is_held = without[first..=worst].iter().all(|missing| *missing == 0);
        for (bin, missing) in without.iter().enumerate().take(worst + 1).skip(first) {
            self.is_exempt[bin] |= *missing > 0 || (is_held && bin == first);
            if *missing > 0 {
                self.below_floor.push(bin);
            }
        }
    }

    /// The fewest bins by which the deadlines of a service must be late so that all cores together keep them, with no more
    /// missing than `without` any deadline; [`GIVEN_UP`] if that is not within the horizon, or was tried before.
    fn earliest(&mut self, service: Service, first: usize, without: &[u64]) -> usize {
        let before = self.schedule.late_bins[service as usize];
        let most = self.horizon.bins() - 1 - first;
        let mut fits = |late_bins: usize| {
            self.schedule.late_bins[service as usize] = late_bins;
            let (missing, missed) = self.at_most();
            missed == 0 && missing.iter().zip(without).all(|(with, without)| with <= without)
        };
        let found = if before == 0 && most > 0 && fits(most) {
            let (mut low, mut high) = (1, most);
            while low < high {
                let middle = low + (high - low) / 2;
                if fits(middle) { high = middle } else { low = middle + 1 }
            }
            high
        } else {
            GIVEN_UP
        };
        self.schedule.late_bins[service as usize] = before;
        found
    }

    /// Moves work to the quietest bins that floor, alarm, deadlines and patience allow. Where playing it shows that they do
    /// not hold, the bins up to there keep what was planned at once.
    fn rest(&mut self) {
        let before = (self.schedule.clone(), self.course.clone());
        let mut keep_until = 0;
        for _ in 0..REST_TRIES {
            let limits = rest::limits(self.horizon, &before.0, &before.1, keep_until);
            for (bin, limit) in limits.into_iter().enumerate() {
                self.schedule.limit_cores[bin] = limit.cores;
                self.schedule.limit_work[bin] = limit.work;
                self.schedule.limit_roomless[bin] = limit.roomless;
            }
            self.play();
            match self.first_breach(self.horizon.bins()) {
                None => return self.trim(),
                Some(breach) => keep_until = breach.worst + 1,
            }
        }
        (self.schedule, self.course) = before;
    }

    /// Where room is pressed for, keeps what those that give some back turn out to leave from the others, which do what they do at this
    /// load. At this load nothing changes.
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
