//! Compares what tenants got with what one server for all would give them.

use super::ROUND_TICKS;
use super::load::rounds;

/// The part of what he is entitled to at which a tenant that has moved has arrived.
const ARRIVED: f64 = 0.95;

pub(super) struct Tally {
    /// The tenant's service in the round so far, and its due service, in units times ticks.
    round: Vec<(u64, u64, u64)>,
    entitled: f64,
    missed: f64,
    beyond: f64,
    ticks: u64,
    /// The largest part of his limit that a tenant got over a round, and rounds of tenants in which it was over by 1 %.
    worst: f64,
    over: u64,
    counted: u64,
    /// When each tenant that moved had arrived, in ticks, by tenant; `None` until then.
    arrived: Vec<Option<Option<u64>>>,
}

impl Tally {
    pub(super) fn new(tenants: usize) -> Self {
        Self {
            round: vec![(0, 0, 0); tenants],
            entitled: 0.0,
            missed: 0.0,
            beyond: 0.0,
            ticks: 0,
            worst: 0.0,
            over: 0,
            counted: 0,
            arrived: vec![None; tenants],
        }
    }

    /// Adds one tick of a tenant: the units served, the units offered, and the tenant's limit.
    pub(super) fn count(&mut self, tenant: usize, (got, offered, limit): (u64, u64, u64), _tick: u64) {
        let of = &mut self.round[tenant];
        *of = (of.0 + got, of.1 + offered.min(limit), limit);
    }

    /// Follows a tenant that moved `since` ticks ago, until it has its part on the new server.
    pub(super) fn follow(&mut self, tenant: usize, (got, offered, limit): (u64, u64, u64), since: u64) {
        let of = self.arrived[tenant].get_or_insert(None);
        if of.is_none() && got as f64 >= ARRIVED * offered.min(limit) as f64 {
            *of = Some(since);
        }
    }

    pub(super) fn end_tick(&mut self) {
        self.ticks += 1;
        if !self.ticks.is_multiple_of(ROUND_TICKS) {
            return;
        }
        for of in &mut self.round {
            let (got, entitled, limit) = *of;
            self.entitled += entitled as f64;
            self.missed += entitled.saturating_sub(got) as f64;
            self.beyond += got.saturating_sub(entitled) as f64;
            let part = got as f64 / (limit * ROUND_TICKS) as f64;
            self.worst = self.worst.max(part);
            self.over += u64::from(part > 1.01);
            self.counted += 1;
            *of = (0, 0, limit);
        }
    }

    pub(super) fn json(&self, name: &str) -> String {
        let moved: Vec<Option<u64>> = self.arrived.iter().copied().flatten().collect();
        let mut times: Vec<u64> = moved.iter().copied().flatten().collect();
        times.sort_unstable();
        let at = |part: f64| times.get(((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1)));
        let quantile = |part| at(part).map_or("null".into(), |&ticks| format!("{:.2}", rounds(ticks)));
        format!(
            "{{\"scheme\":\"{name}\",\"missed\":{:.4},\"beyond\":{:.4},\"largest_part_of_a_limit\":{:.3},\
             \"rounds_over_a_limit\":{:.5},\"moved_tenants\":{},\"never_arrived\":{},\"rounds_to_arrive_p50\":{},\
             \"rounds_to_arrive_p99\":{},\"rounds_to_arrive_max\":{}}}",
            self.missed / self.entitled,
            self.beyond / self.entitled,
            self.worst,
            self.over as f64 / self.counted.max(1) as f64,
            moved.len(),
            moved.len() - times.len(),
            quantile(0.5),
            quantile(0.99),
            quantile(1.0),
        )
    }
}
