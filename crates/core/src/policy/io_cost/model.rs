//! The cost model of `io.cost`, its parameters, and what follows from them.

use crate::settings::Settings;
use crate::{Operation, Request};

/// Virtual time of a second, a microsecond and a nanosecond at a rate of one.
pub(super) const SECOND: u64 = 1 << 37;
pub(super) const MICRO: u64 = SECOND / 1_000_000;
const NANO: u64 = SECOND / 1_000_000_000;

/// A whole, in the kernel's hierarchical weights.
pub(super) const WHOLE: u64 = 1 << 16;

/// Parts of a million, in which the kernel counts percentiles and rates.
pub(super) const MILLION: u64 = 1_000_000;

/// The largest cost that is counted: 12 days of a device.
const COST_MAX: u64 = 1 << 57;

const PAGE_BYTES: u64 = 4_096;
const PAGE_SECTORS_SHIFT: u32 = 3;
/// A request further than this from the end of the one before, in pages, is random.
const RANDOM_PAGES: u64 = 4_096;

/// The cost of a direction's requests, in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Costs {
    pub(super) page: u64,
    pub(super) sequential: u64,
    pub(super) random: u64,
}

impl Costs {
    /// From bytes, sequential and random requests a second.
    pub(super) const fn new([bytes, sequential, random]: [u64; 3]) -> Self {
        let page = SECOND.div_ceil(bytes.div_ceil(PAGE_BYTES));
        Self {
            page,
            sequential: SECOND.div_ceil(sequential).saturating_sub(page),
            random: SECOND.div_ceil(random).saturating_sub(page),
        }
    }

    /// The part of a request's cost that its size alone causes, in nanoseconds.
    pub(super) fn size_nanos(&self, sectors: u32) -> u64 {
        self.page.saturating_mul(u64::from(sectors >> PAGE_SECTORS_SHIFT)) / NANO
    }
}

/// A device's coefficients, and its latencies and limits of the rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile {
    /// Bytes, sequential and random requests a second, for reads and writes.
    pub(super) coefficients: [[u64; 3]; 2],
    pub(super) latency_micros: u64,
    /// The kernel moves on to the next profile at this rate, or back at that one, in percent.
    fast: u64,
    slow: u64,
}

/// The kernel's profiles: a disk, a drive that takes one request, a drive, a fast drive.
pub(super) const PROFILES: [Profile; 4] = [
    Profile {
        coefficients: [[174_019_176, 41_708, 370], [178_075_866, 42_705, 378]],
        latency_micros: 250_000,
        fast: 0,
        slow: 0,
    },
    Profile {
        coefficients: [[245_855_193, 61_575, 6_946], [141_365_009, 33_716, 26_796]],
        latency_micros: 25_000,
        fast: 0,
        slow: 0,
    },
    Profile {
        coefficients: [[488_636_629, 8_932, 8_518], [427_891_549, 28_755, 21_940]],
        latency_micros: 25_000,
        fast: 500,
        slow: 0,
    },
    Profile {
        coefficients: [[3_102_524_156, 724_816, 778_122], [1_742_780_862, 425_702, 443_193]],
        latency_micros: 5_000,
        fast: 0,
        slow: 10,
    },
];

const DISK: usize = 0;
const ONE_AT_A_TIME: usize = 1;
const USUAL: usize = 2;

/// The time for which a rate has to last before the profile changes.
const PROFILE_MICROS: u64 = 10_000_000;

/// The parameters that follow from settings and profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    given: [[u64; 3]; 2],
    given_micros: [u64; 2],
    /// Whether a parameter was given, so that the profile stays.
    is_fixed: bool,
    /// Percent of the rate; zero is the profile's.
    bounds: [u64; 2],
    profile: usize,
    /// Since when the rate calls for another profile.
    since_micros: Option<u64>,
    pub(super) costs: [Costs; 2],
    /// The part of requests that may take longer than the latency, in millionths; a million turns the latency off.
    pub(super) missed_max: [u64; 2],
    pub(super) latency_micros: [u64; 2],
    pub(super) rate_min: u64,
    pub(super) rate_max: u64,
    pub(super) period_micros: u64,
}

impl Model {
    /// From the policy's settings: the coefficients, percentiles, latencies, bounds of the rate, and whether it is a disk.
    pub(super) fn new(settings: &Settings, depth: u32) -> Self {
        let [_, _, _, _, disk, min, max, read_percent, read_nanos, write_percent, write_nanos, a, b, c, d, e, f] =
            settings.values();
        let given = [[a, b, c], [d, e, f]];
        let given_micros = [read_nanos / 1_000, write_nanos / 1_000];
        let profile = match (disk, depth) {
            (1, _) => DISK,
            (_, 1) => ONE_AT_A_TIME,
            _ => USUAL,
        };
        let is_fixed = given != [[0; 3]; 2]
            || given_micros != [0; 2]
            || [read_percent, write_percent] != [0; 2]
            || (min, max) != (1, 10_000);
        let mut model = Self {
            given,
            given_micros,
            is_fixed,
            bounds: [min, max],
            profile,
            since_micros: None,
            costs: [Costs::new([1; 3]); 2],
            missed_max: [read_percent, write_percent].map(|percent| MILLION - percent * 10_000),
            latency_micros: [0; 2],
            rate_min: 0,
            rate_max: 0,
            period_micros: 0,
        };
        model.derive();
        model
    }

    fn derive(&mut self) {
        let profile = PROFILES[self.profile];
        let or = |given: u64, usual| if given == 0 { usual } else { given };
        for direction in 0..2 {
            let (given, usual) = (self.given[direction], profile.coefficients[direction]);
            self.costs[direction] = Costs::new([0, 1, 2].map(|at: usize| or(given[at], usual[at])));
            self.latency_micros[direction] = or(self.given_micros[direction], profile.latency_micros);
        }
        [self.rate_min, self.rate_max] = self.bounds.map(|percent| (percent * 10_000 * MICRO).div_ceil(MILLION));
        self.period_micros = period_micros(self.missed_max.map(|missed| MILLION - missed), self.latency_micros);
    }

    /// Goes to another profile if the rate has called for it long enough; returns whether it did.
    pub(super) fn follow(&mut self, rate: u64, now_micros: u64) -> bool {
        let Profile { fast, slow, .. } = PROFILES[self.profile];
        let percent = rate * 100 / MICRO;
        let next = match (fast > 0 && percent >= fast, slow > 0 && percent <= slow) {
            (true, _) => self.profile + 1,
            (_, true) => self.profile - 1,
            _ => self.profile,
        };
        if self.is_fixed || next == self.profile {
            self.since_micros = None;
            return false;
        }
        let since = *self.since_micros.get_or_insert(now_micros);
        if now_micros.saturating_sub(since) < PROFILE_MICROS {
            return false;
        }
        (self.profile, self.since_micros) = (next, None);
        self.derive();
        true
    }

    /// The cost of a request of whose group the last one ended at `cursor`; zero if it is free.
    pub(super) fn cost(&self, request: &Request, cursor: u64) -> u64 {
        let is_free = request.sectors == 0 || !matches!(request.operation, Operation::Read | Operation::Write);
        if is_free {
            return 0;
        }
        let costs = &self.costs[request.operation.direction() as usize];
        let pages = u64::from(request.sectors >> PAGE_SECTORS_SHIFT).max(1);
        let is_random = cursor != 0 && request.sector.abs_diff(cursor) >> PAGE_SECTORS_SHIFT > RANDOM_PAGES;
        let base = if is_random { costs.random } else { costs.sequential };
        base.saturating_add(pages.saturating_mul(costs.page)).min(COST_MAX)
    }
}

/// The length of a period: a multiple of the longer latency, the larger the lower its percentile is.
pub(super) fn period_micros(percentiles: [u64; 2], latencies_micros: [u64; 2]) -> u64 {
    let longer = usize::from(latencies_micros[0] < latencies_micros[1]);
    let multiple = match percentiles[longer] {
        0 => 2,
        percentile => ((MILLION - percentile) / 50_000).max(2),
    };
    (multiple * latencies_micros[longer]).clamp(1_000, 1_000_000)
}

/// A cost as what a group with this weight pays for it.
pub(super) fn scaled(cost: u64, weight: u64) -> u64 {
    let scaled = (u128::from(cost) * u128::from(WHOLE)).div_ceil(u128::from(weight.max(1)));
    u64::try_from(scaled).unwrap_or(COST_MAX).min(COST_MAX)
}

/// The reverse of [`scaled`].
pub(super) fn unscaled(paid: u64, weight: u64) -> u64 {
    u64::try_from((u128::from(paid) * u128::from(weight)).div_ceil(u128::from(WHOLE))).unwrap_or(COST_MAX)
}

/// How far a virtual time is after another.
pub(super) const fn ahead(time: u64, of: u64) -> i64 {
    time.wrapping_sub(of).cast_signed()
}

/// How the device has done in a period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulse {
    /// Percent of the period for which requests waited for the device to take them, summed over requests.
    pub(super) wait_percent: u64,
    /// Requests that took longer than the latency, by direction, in millionths.
    pub(super) missed: [u64; 2],
    /// Whether a group could have used more.
    pub(super) is_short: bool,
    /// Whether a group has had requests in flight for longer than a period.
    pub(super) is_lagging: bool,
}

const WAIT_PERCENT_MAX: u64 = 5;
const BUSY_MAX: i32 = 1_000;

/// The busy level after a period.
pub(super) fn busy_level(busy: i32, pulse: &Pulse, missed_max: [u64; 2]) -> i32 {
    let within = |part: u64| (0..2).all(|direction| pulse.missed[direction] <= missed_max[direction] * part / 100);
    let busy = if pulse.wait_percent > WAIT_PERCENT_MAX || !within(100) {
        busy.max(0) + 1
    } else if pulse.wait_percent <= WAIT_PERCENT_MAX * 75 / 100 && within(75) && pulse.is_short {
        busy.min(0) - i32::from(!pulse.is_lagging)
    } else {
        0
    };
    busy.clamp(-BUSY_MAX, BUSY_MAX)
}

/// The base rate after a period.
pub(super) fn next_rate(rate: u64, busy: i32, is_lagging: bool, min: u64, max: u64) -> u64 {
    if busy == 0 || (busy < 0 && is_lagging) {
        return rate;
    }
    if rate < min {
        return (rate * 104 / 100).min(min);
    }
    if rate > max {
        return (rate * 96 / 100).max(max);
    }
    let percent = match busy.unsigned_abs() {
        0..=3 => 0,
        4..=19 => 1,
        20..=35 => 2,
        36..=43 => 4,
        44..=51 => 8,
        _ => 16,
    };
    let percent = if busy > 0 { 100 - percent } else { 100 + percent };
    (rate * percent).div_ceil(100).clamp(min, max)
}

/// The delay, in microseconds, of a group that is ahead of the device by this percentage of a period.
pub(super) fn delay_micros(over_percent: i64) -> u64 {
    const LEAST: i64 = 250;
    const MOST: i64 = 250_000;
    let delay = match over_percent {
        ..=500 => 0,
        25_000.. => MOST,
        over => LEAST + (MOST - LEAST) * (over - 500) / (25_000 - 500),
    };
    delay.unsigned_abs()
}

/// The rest of a delay after a time: it halves each second.
pub(super) fn decayed(delay: u64, micros: u64) -> u64 {
    delay.checked_shr(u32::try_from(micros / MILLION).unwrap_or(u32::MAX)).unwrap_or(0)
}

/// Debts after a span in which the device was used for this part of the time, and what of the span is left over: half for each 100 ms.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forgiveness {
    since_micros: u64,
    rest_micros: u64,
    used_micros: u64,
}

impl Forgiveness {
    /// Begins anew: nobody is in debt.
    pub(super) fn reset(&mut self, now_micros: u64) {
        *self = Self { since_micros: now_micros, rest_micros: 0, used_micros: 0 };
    }

    /// Counts a period's use; returns by how many halves debts are forgiven.
    pub(super) fn forgive(&mut self, now_micros: u64, used_micros: u64) -> u32 {
        const CYCLE: u64 = 100_000;
        self.used_micros += used_micros;
        let span = now_micros.saturating_sub(self.since_micros);
        if span < CYCLE {
            return 0;
        }
        let is_busy = 100 * self.used_micros / span > 50;
        (self.since_micros, self.used_micros) = (now_micros, 0);
        let whole = if is_busy { 0 } else { span + self.rest_micros };
        self.rest_micros = whole % CYCLE;
        u32::try_from(whole / CYCLE).unwrap_or(u32::MAX)
    }
}
