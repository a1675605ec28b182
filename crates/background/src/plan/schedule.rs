//! A schedule: the decisions for the bins ahead, and the course of a bin under them.

use ioweir_core::Nanos;
use ioweir_core::background::SERVICES_COUNT;

use super::system::System;

/// The decisions for the bins ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Cores reserved for background work in each bin, even if the foreground wants them.
    pub reserve_cores: Vec<u32>,
    /// Bins in which the debt that frees the most space per unit of work goes first.
    pub pressing: Vec<bool>,
    /// The most cores that do background work in each bin; the others rest, even if the foreground leaves them idle.
    pub limit_cores: Vec<u32>,
    /// The most work of each bin, in thousandths of an operation, for services that can wait for more than hours. It does not include debt
    /// that is due in the bin; work that others leave is not added to it.
    pub limit_work: Vec<u64>,
    /// The most work of each bin, in thousandths of an operation, for services among these that give no room back. Where room is short,
    /// work that others leave is not added to it.
    pub limit_roomless: Vec<u64>,
    /// The services, in the order of the table, whose deadlines are not kept: their debt is paid in turn.
    pub gave_up: [bool; SERVICES_COUNT],
}

/// The longest that debt without a deadline waits for a quiet bin. A service is urgent if its debt is due sooner than that.
pub(super) const PATIENCE: Nanos = Nanos::from_seconds(86_400);

/// The most that background work does in a bin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// The most cores for background work.
    pub(super) cores: u32,
    /// The most work of the services that can wait.
    pub(super) work: u64,
    /// The most work of the services that can wait and give no room back.
    pub(super) roomless: u64,
}

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
            gave_up: [false; SERVICES_COUNT],
        }
    }

    pub(super) fn limit_of(&self, bin: usize) -> Limit {
        Limit { cores: self.limit_cores[bin], work: self.limit_work[bin], roomless: self.limit_roomless[bin] }
    }

    pub(super) fn set_limit(&mut self, bin: usize, limit: Limit) {
        (self.limit_cores[bin], self.limit_work[bin], self.limit_roomless[bin]) =
            (limit.cores, limit.work, limit.roomless);
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
    /// The blocks among them whose deadline was not given up.
    pub missed_blocks: u64,
}
