//! Replays a plan on recorded load, bin by bin; the scheduler under test sees only the past.

use ioweir_core::background::{SERVICES_COUNT, Watermark};

use super::horizon::{BinCourse, GIVEN_UP, Horizon, Schedule};
use super::load::Ahead;
use super::planner::solve;
use super::system::{Demand, Ledger, System};

/// The scheduler that a replay drives.
pub enum Decider<'a> {
    /// Decides by the amount of debt alone. With `harvests`, it also uses idle foreground cores.
    Watermark {
        /// The debt at which payment begins, and at which it takes all cores.
        watermark: Watermark,
        /// Whether idle cores are used below the watermark.
        harvests: bool,
    },
    /// The planner, with a function from the bin to the expected load from that bin on.
    Planner(&'a mut dyn FnMut(usize) -> Ahead),
}

/// The outcome of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Each bin.
    pub course: Vec<BinCourse>,
    /// Cores reserved for the background in each bin.
    pub reserve_cores: Vec<u32>,
    /// The number of requests that arrived.
    pub requests: u64,
    /// Requests that arrived beyond the capacity of the foreground's cores in their bin.
    pub delayed_requests: u64,
    /// Bins in which not every request was served.
    pub violated_bins: usize,
    /// Bins that ended below the pool's floor.
    pub below_floor_bins: usize,
    /// Bins that ended with more blocks than the pool has.
    pub overrun_bins: usize,
    /// Bins that ended with debt past its deadline.
    pub late_bins: usize,
    /// The fewest free blocks; zero if the pool overran.
    pub free_blocks_min: u64,
    /// The highest debt that holds space.
    pub tied_blocks_max: u64,
}

impl Replayed {
    /// The share of bins in which not every request was served, in percent.
    #[must_use]
    pub fn violated_percent(&self) -> f64 {
        100.0 * self.violated_bins as f64 / self.course.len().max(1) as f64
    }

    /// The share of requests that had to be queued, in percent.
    #[must_use]
    pub fn delayed_percent(&self) -> f64 {
        100.0 * self.delayed_requests as f64 / self.requests.max(1) as f64
    }
}

/// Replays the recorded load.
#[must_use]
pub fn replay(system: &System, mut ledger: Ledger, actual: &[Demand], decider: &mut Decider<'_>) -> Replayed {
    let mut done = Replayed { free_blocks_min: ledger.pool.free_blocks(), ..Replayed::default() };
    for (bin, demand) in actual.iter().enumerate() {
        let (course, reserve) = match decider {
            Decider::Watermark { watermark, harvests } => {
                let reserve = watermark.units(ledger.tied_blocks(system), ledger.pool.blocks, system.cores);
                let schedule = Schedule {
                    reserve_cores: vec![reserve],
                    harvests: *harvests,
                    late_bins: [GIVEN_UP; SERVICES_COUNT],
                    ..Schedule::idle_only(system, 1)
                };
                let course = Horizon::new(system, &ledger, std::slice::from_ref(demand)).play(&schedule, 1);
                (course[0], reserve)
            }
            Decider::Planner(forecast) => {
                let mut ahead = forecast(bin);
                if ahead.demand.is_empty() {
                    ahead = Ahead::known(std::slice::from_ref(demand));
                }
                let schedule = solve(&Horizon::new(system, &ledger, &ahead.demand).with_busy(&ahead.busy)).schedule;
                // The decision is made; now play the recorded bin.
                ahead.demand[0] = *demand;
                let course = Horizon::new(system, &ledger, &ahead.demand).play(&schedule, 1);
                (course[0], schedule.reserve_cores[0])
            }
        };
        ledger.incur(system, demand);
        ledger.pay(system, &course.paid_blocks);
        ledger.queued_requests = course.queued_requests;
        ledger.bin += 1;
        done.count(system, &ledger, demand, course, reserve);
    }
    done
}

impl Replayed {
    fn count(&mut self, system: &System, ledger: &Ledger, demand: &Demand, course: BinCourse, reserve: u32) {
        let pool = &ledger.pool;
        self.requests = self.requests.saturating_add(demand.requests);
        self.delayed_requests = self.delayed_requests.saturating_add(course.delayed_requests);
        self.violated_bins += usize::from(course.queued_requests > 0);
        self.below_floor_bins += usize::from(pool.below_floor_blocks() > 0);
        self.overrun_bins += usize::from(pool.overrun_blocks() > 0);
        self.late_bins += usize::from(course.late_blocks > 0);
        self.free_blocks_min = self.free_blocks_min.min(pool.free_blocks());
        self.tied_blocks_max = self.tied_blocks_max.max(ledger.tied_blocks(system));
        self.course.push(course);
        self.reserve_cores.push(reserve);
    }
}
