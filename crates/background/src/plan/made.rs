//! A finished plan: which debt is paid when and by how many cores, the free space, and what cannot be kept.

use ioweir_core::Nanos;
use ioweir_core::background::{DebtQueue, Pool, SERVICES_COUNT, Service};
use serde::Serialize;

use super::horizon::Horizon;
use super::lint::{Finding, lint};
use super::load::Outlook;
use super::planner::solve;
use super::queueing::servers_needed;
use super::schedule::{BinCourse, Schedule};
use super::system::{Ledger, System};
use crate::forecast::Calendar;

/// The accepted share of misses for deadlines shorter than a bin.
const LATE_SHARE: f64 = 0.01;

/// A value at the low quantile, at the expected load, and at the high quantile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Likely {
    /// At the low quantile of the load.
    pub low: u64,
    /// At the expected load.
    pub expected: u64,
    /// At the high quantile of the load.
    pub high: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanBin {
    /// When it begins.
    pub start_unix_seconds: i64,
    /// Foreground requests a second.
    pub foreground_iops: Likely,
    /// Cores that the foreground wants at the expected load.
    pub foreground_cores_wanted: u64,
    /// Cores that the foreground has at the expected load.
    pub foreground_cores: u32,
    /// Cores reserved for the background, whatever the foreground wants.
    pub reserved_cores: u32,
    /// Cores that do background work at the expected load.
    pub background_cores: u32,
    /// The share of capacity that the reserve leaves to the foreground, the paper's CFF; 1 means all of it.
    pub capacity_forecast_factor: f64,
    /// Whether freeing space comes before deadlines.
    pub pressing: bool,
    /// Blocks of debt paid at the expected load, by service.
    pub paid_blocks: Vec<(&'static str, u64)>,
    /// Blocks free at the end of the bin. `low` is at the high quantile of the load.
    pub free_blocks: Likely,
    /// Requests that wait at the end of the bin, at the expected load and at the high quantile.
    pub queued_requests: Likely,
    /// Blocks of debt past their deadline at the end of the bin, at the high quantile.
    pub late_blocks: u64,
}

/// An interval in which the debt of a service is paid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window {
    pub service: &'static str,
    /// When it begins.
    pub start_unix_seconds: i64,
    /// When it ends.
    pub end_unix_seconds: i64,
    /// Blocks paid.
    pub blocks: u64,
    /// The highest rate, in blocks per second.
    pub blocks_per_second_max: u64,
}

/// The balance of a service at the expected load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sheet {
    pub service: &'static str,
    /// Blocks owed at the start.
    pub opening_blocks: u64,
    /// New debt in blocks.
    pub incurred_blocks: u64,
    pub paid_blocks: u64,
    /// Blocks owed at the end.
    pub closing_blocks: u64,
    /// The most blocks owed at the end of a bin: the size of its bucket, as far as the plan lets it grow.
    pub bucket_blocks: u64,
    /// Space freed by paying, in blocks.
    pub reclaimed_blocks: u64,
    /// The work in core hours.
    pub core_hours: f64,
    /// Whether the plan keeps its deadline at the high quantile; `None` without a deadline.
    pub deadline_kept: Option<bool>,
    /// By how much the deadline is missed at the high quantile; `None` if it is kept, or not paid within the plan.
    pub deadline_late_seconds: Option<u64>,
}

/// A plan. It is immutable: a new plan replaces it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// When it begins.
    pub start_unix_seconds: i64,
    /// Local time minus UTC at the start.
    pub utc_offset_seconds: i64,
    /// The local clock, to display times.
    #[serde(skip)]
    pub calendar: Calendar,
    /// Length of a bin.
    pub bin_seconds: u64,
    /// Cores of both domains.
    pub cores: u32,
    /// Resident background cores for deadlines shorter than a bin, sized by M/M/c.
    pub resident_cores: u32,
    /// Size of a block.
    pub block_bytes: u64,
    /// The size of the pool in blocks.
    pub pool_blocks: u64,
    /// The floor of free blocks.
    pub floor_blocks: u64,
    /// The number of free blocks below which the operator is warned.
    pub alarm_blocks: u64,
    /// The plan holds for loads up to this quantile of the forecast.
    pub quantile: f64,
    /// The number of days of history that the forecast is based on.
    pub history_days: usize,
    pub bins: Vec<PlanBin>,
    /// Intervals in which debt is paid.
    pub windows: Vec<Window>,
    /// The balance of each service.
    pub balance: Vec<Sheet>,
    /// Findings, the worst first.
    pub findings: Vec<Finding>,
    /// The background cores that a foreground request meets on average, at the expected load.
    pub cores_met: f64,
    /// The background cores that a foreground request would meet if all work were done as soon as there are cores for it.
    pub cores_met_at_once: f64,
    /// The number of times that the search played the horizon.
    pub plays: u32,
}

/// The parameters of a plan besides the outlook.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// When the first bin begins.
    pub start_unix_seconds: i64,
    /// Size of a block.
    pub block_bytes: u64,
    /// Quantile of the outlook.
    pub quantile: f64,
    /// The local clock.
    pub calendar: &'a Calendar,
}

/// Makes a plan: a pure function of its arguments.
#[must_use]
pub fn plan(system: &System, ledger: &Ledger, outlook: &Outlook, setting: Setting<'_>) -> Plan {
    let system = &System { resident_cores: resident_cores(system, outlook), ..system.clone() };
    let busy = outlook.busy();
    let solution = solve(&Horizon::new(system, ledger, &outlook.high).with_busy(&busy));
    let likely = solve(&Horizon::new(system, ledger, &outlook.expected).with_busy(&busy));
    // Rest is safe at the high load; cores are promised only as far as the expected load needs them.
    let promised = |schedule: &Schedule| Schedule {
        reserve_cores: likely.schedule.reserve_cores.clone(),
        pressing: likely.schedule.pressing.clone(),
        ..schedule.clone()
    };
    let (schedule, all_at_once) = (&promised(&solution.schedule), &promised(&solution.at_once));
    let bins = outlook.expected.len();
    let played = |demand, schedule| Horizon::new(system, ledger, demand).play(schedule, bins);
    let expected = played(&outlook.expected, schedule);
    let at_once = played(&outlook.expected, all_at_once);
    let (low, high) = (played(&outlook.low, schedule), solution.course);
    let (cores_met, cores_met_at_once) = (cores_met(&busy, &expected), cores_met(&busy, &at_once));
    let paths = Paths { outlook, schedule, low, expected, high };
    let made: Vec<PlanBin> = (0..bins).map(|bin| plan_bin(system, &ledger.pool, &paths, setting, bin)).collect();
    let windows = windows(system, setting, &paths.expected);
    let balance = balance(system, ledger, &paths);
    let Pool { blocks, floor_blocks, alarm_blocks, .. } = ledger.pool;
    let mut plan = Plan {
        start_unix_seconds: setting.start_unix_seconds,
        utc_offset_seconds: setting.calendar.offset_seconds(setting.start_unix_seconds),
        calendar: setting.calendar.clone(),
        bin_seconds: system.bin.0 / 1_000_000_000,
        cores: system.cores,
        resident_cores: system.resident_cores,
        block_bytes: setting.block_bytes,
        pool_blocks: blocks,
        floor_blocks,
        alarm_blocks,
        quantile: setting.quantile,
        history_days: outlook.history_days,
        bins: made,
        windows,
        balance,
        findings: Vec::new(),
        cores_met,
        cores_met_at_once,
        plays: solution.plays,
    };
    plan.findings = lint(&plan, system, ledger);
    plan
}

struct Paths<'a> {
    outlook: &'a Outlook,
    schedule: &'a Schedule,
    low: Vec<BinCourse>,
    expected: Vec<BinCourse>,
    high: Vec<BinCourse>,
}

/// The background cores that a request meets, if so many requests come in each bin.
fn cores_met(busy: &[u64], course: &[BinCourse]) -> f64 {
    let met = |(busy, bin): (&u64, &BinCourse)| *busy as f64 * f64::from(bin.background_cores);
    let requests: f64 = busy.iter().map(|busy| *busy as f64).sum();
    if requests > 0.0 { busy.iter().zip(course).map(met).sum::<f64>() / requests } else { 0.0 }
}

/// Cores for deadlines shorter than a bin: the M/M/c size at the high load of the busiest single bin.
fn resident_cores(system: &System, outlook: &Outlook) -> u32 {
    let seconds = system.bin.as_seconds();
    let core_rate = system.core_work as f64 / seconds;
    let needed = |(service, terms): (Service, &super::system::Terms)| {
        let deadline = terms.settings.deadline;
        if deadline >= system.bin || service.row().source == ioweir_core::background::Source::Named {
            return 0;
        }
        let share = f64::from(terms.share_per_mille) / 1000.0;
        let item = f64::from(terms.settings.item_blocks.max(1));
        let written = outlook.written_high.iter().copied().max().unwrap_or(0) as f64;
        let service_seconds = item * f64::from(terms.settings.cost_per_mille) / core_rate;
        let arrivals = written * share / item / seconds;
        servers_needed(arrivals, service_seconds, deadline.as_seconds(), LATE_SHARE, system.cores)
    };
    system.run().map(needed).fold(0, u32::saturating_add).min(system.cores)
}

fn plan_bin(system: &System, pool: &Pool, paths: &Paths<'_>, setting: Setting<'_>, bin: usize) -> PlanBin {
    let Paths { outlook, schedule, .. } = paths;
    let seconds = (system.bin.0 / 1_000_000_000).max(1);
    let (low, high) = outlook.requests_band.get(bin).copied().unwrap_or_default();
    let expected = &paths.expected[bin];
    let free = |course: &BinCourse| pool.blocks.saturating_sub(course.used_blocks);
    let reserved_cores = schedule.reserve_cores[bin];
    let left = u64::from(system.cores - reserved_cores.min(system.cores));
    let wanted = expected.wanted_cores.min(u64::from(system.cores));
    PlanBin {
        start_unix_seconds: setting.start_unix_seconds + (bin as u64 * seconds) as i64,
        foreground_iops: Likely {
            low: low / seconds,
            expected: outlook.expected[bin].requests / seconds,
            high: high / seconds,
        },
        foreground_cores_wanted: expected.wanted_cores,
        foreground_cores: expected.foreground_cores,
        reserved_cores,
        background_cores: expected.background_cores,
        capacity_forecast_factor: if wanted > left { left as f64 / wanted as f64 } else { 1.0 },
        pressing: schedule.pressing[bin],
        paid_blocks: system
            .run()
            .map(|(service, _)| (service.name(), expected.paid_blocks[service as usize]))
            .collect(),
        free_blocks: Likely { low: free(&paths.high[bin]), expected: free(expected), high: free(&paths.low[bin]) },
        queued_requests: Likely {
            low: paths.low[bin].queued_requests,
            expected: expected.queued_requests,
            high: paths.high[bin].queued_requests,
        },
        late_blocks: paths.high[bin].late_blocks,
    }
}

/// Windows that together pay less than this part of their service's work are left out: they are not worth a start of the worker.
const CRUMBS: u64 = 100;

/// Intervals in which a service is paid, with pauses of at most half an hour, without crumbs.
fn windows(system: &System, setting: Setting<'_>, course: &[BinCourse]) -> Vec<Window> {
    let seconds = (system.bin.0 / 1_000_000_000).max(1);
    let pause = (1_800 / seconds) as usize;
    let start = |bin: usize| setting.start_unix_seconds + (bin as u64 * seconds) as i64;
    let mut windows = Vec::new();
    for (service, _) in system.run() {
        let paid = |bin: &usize| course[*bin].paid_blocks[service as usize];
        let mut bins = (0..course.len()).filter(|bin| paid(bin) > 0).peekable();
        let mut of_service: Vec<Window> = Vec::new();
        while let Some(first) = bins.next() {
            let (mut last, mut blocks, mut most) = (first, paid(&first), paid(&first));
            while let Some(next) = bins.next_if(|next| *next <= last + 1 + pause) {
                (last, blocks, most) = (next, blocks + paid(&next), most.max(paid(&next)));
            }
            of_service.push(Window {
                service: service.name(),
                start_unix_seconds: start(first),
                end_unix_seconds: start(last + 1),
                blocks,
                blocks_per_second_max: most.div_ceil(seconds),
            });
        }
        windows.extend(without_crumbs(of_service));
    }
    windows
}

/// Leaves out the smallest windows of a service, as long as next to nothing is left out.
fn without_crumbs(windows: Vec<Window>) -> Vec<Window> {
    let mut sizes: Vec<u64> = windows.iter().map(|window| window.blocks).collect();
    sizes.sort_unstable();
    let mut spare = sizes.iter().fold(0_u64, |sum, blocks| sum.saturating_add(*blocks)) / CRUMBS;
    let is_crumb = |blocks: &&u64| spare.checked_sub(**blocks).map(|left| spare = left).is_some();
    let crumbs = sizes.iter().take_while(is_crumb).count();
    let least = sizes.get(crumbs).copied().unwrap_or(0);
    windows.into_iter().filter(|window| window.blocks >= least).collect()
}

fn balance(system: &System, ledger: &Ledger, paths: &Paths<'_>) -> Vec<Sheet> {
    let horizon = Horizon::new(system, ledger, &paths.outlook.expected);
    let high = Horizon::new(system, ledger, &paths.outlook.high);
    let buckets = buckets(system, ledger, paths);
    let bin_hours = system.bin.as_seconds() / 3600.0;
    let sheet = |(service, terms): (Service, &super::system::Terms)| {
        let at = service as usize;
        let paid = paths.expected.iter().map(|course| course.paid_blocks[at]).fold(0, u64::saturating_add);
        let (opening, incurred) = (ledger.queues[at].blocks(), horizon.incurred_blocks(service));
        let late = high.late_bins(&paths.high, service);
        let is_kept = || late.is_none();
        Sheet {
            service: service.name(),
            opening_blocks: opening,
            incurred_blocks: incurred,
            paid_blocks: paid,
            closing_blocks: opening.saturating_add(incurred).saturating_sub(paid),
            bucket_blocks: buckets[at],
            reclaimed_blocks: terms.settings.tied(paid),
            core_hours: terms.settings.work(paid) as f64 / system.core_work.max(1) as f64 * bin_hours,
            deadline_kept: (terms.settings.deadline != Nanos::NEVER).then(is_kept),
            deadline_late_seconds: late
                .flatten()
                .map(|bins| (system.bin.0 / 1_000_000_000).saturating_mul(bins as u64)),
        }
    };
    system.run().map(sheet).collect()
}

/// The most blocks that each service owes at the end of a bin.
fn buckets(system: &System, ledger: &Ledger, paths: &Paths<'_>) -> [u64; SERVICES_COUNT] {
    let mut owed = ledger.queues.each_ref().map(DebtQueue::blocks);
    let mut most = owed;
    for (at, (demand, course)) in paths.outlook.expected.iter().zip(&paths.expected).enumerate() {
        for (service, batch) in system.debts(ledger.bin + at, demand, ledger.pool.used_blocks) {
            owed[service as usize] = owed[service as usize].saturating_add(batch.blocks);
        }
        for ((owed, paid), most) in owed.iter_mut().zip(course.paid_blocks).zip(&mut most) {
            *owed = owed.saturating_sub(paid);
            *most = (*most).max(*owed);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(blocks: &[u64]) -> Vec<u64> {
        let window = |(at, blocks): (usize, &u64)| Window {
            service: "scrub",
            start_unix_seconds: at as i64 * 7200,
            end_unix_seconds: at as i64 * 7200 + 3600,
            blocks: *blocks,
            blocks_per_second_max: *blocks,
        };
        without_crumbs(blocks.iter().enumerate().map(window).collect()).iter().map(|window| window.blocks).collect()
    }

    #[test]
    fn crumbs_are_no_windows_but_many_small_are() {
        assert_eq!(kept(&[1, 5000, 3, 4000]), [5000, 4000]);
        let many: Vec<u64> = std::iter::once(1000).chain(std::iter::repeat_n(9, 200)).collect();
        let blocks: u64 = kept(&many).iter().sum();
        assert!(blocks * 100 >= many.iter().sum::<u64>() * 99, "{blocks}");
        assert_eq!(kept(&[]), [0_u64; 0]);
    }
}
