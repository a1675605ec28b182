//! A bound: what no schedule that holds floor and deadlines can take less of from the foreground, even one that knows the load.
//!
//! Work on idle cores costs the foreground nothing, and doing it early never hurts. Where all that could be done on idle cores by the
//! end of a bin is less than the pool's floor and the deadlines need by then, the rest takes cores that the foreground wants, each the
//! requests that it would have served. From the first bin on in which all cores together are too few for both, nothing is forced, as
//! planners concede there, too. Requests wait at the end of a bin in which all cores together cannot have done both the needed work and
//! everything that the foreground wanted by then. All debt that holds room counts as the debt that frees the most for its work, rates of services are
//! left out, and cores can be divided: so it is a bound for any system, and the optimum where debts are alike. A test compares it with
//! a linear program.

use super::horizon::Horizon;
use super::replay::Replayed;
use super::system::{Demand, Ledger, System};

/// The loss that every schedule inflicts on the foreground.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Bins at whose end requests wait in every schedule.
    pub violated_bins: usize,
    /// Requests beyond the capacity of the cores that the foreground has in their bin.
    pub delayed_requests: u64,
}

impl Bound {
    /// The bound as percentages: of the replayed bins, and of the replayed requests.
    #[must_use]
    pub fn percent_of(&self, replayed: &Replayed) -> (f64, f64) {
        let violated = 100.0 * self.violated_bins as f64 / replayed.course.len().max(1) as f64;
        (violated, 100.0 * self.delayed_requests as f64 / replayed.requests.max(1) as f64)
    }
}

/// The bound for a load, from the state of `ledger` on.
#[must_use]
pub fn bound(system: &System, ledger: &Ledger, actual: &[Demand]) -> Bound {
    let horizon = Horizon::new(system, ledger, actual);
    let core_requests = u128::from(system.core_requests.max(1));
    let all_requests = core_requests * u128::from(system.cores);
    let core_work = u128::from(system.core_work.max(1));
    let work = horizon.necessary();
    let (mut bound, mut queued) = (Bound::default(), u128::from(ledger.queued_requests));
    let (mut done, mut forced, mut is_held) = (0, 0, true);
    // The demand of the foreground, and the most that all cores do of that and of background work, both as work.
    let work_of = |requests: u128| requests * core_work / core_requests;
    let (mut wanted, mut worked) = (work_of(queued), 0);
    for (bin, demand) in actual.iter().enumerate() {
        let requests = u128::from(demand.requests);
        queued = (queued + requests).saturating_sub(all_requests);
        bound.delayed_requests += u64::try_from(requests.saturating_sub(all_requests)).unwrap_or(u64::MAX);
        let idle = all_requests.saturating_sub(requests) * core_work / core_requests;
        done = work.payable[bin].min(done + idle);
        let most = work.payable[bin].min((bin as u128 + 1) * u128::from(system.cores) * core_work);
        is_held &= work.needed[bin] <= most;
        wanted += work_of(requests);
        worked = (worked + u128::from(system.cores) * core_work).min(wanted + work.payable[bin]);
        bound.violated_bins += usize::from(queued > 0 || is_held && wanted + work.needed[bin] > worked);
        if is_held {
            let missing = work.needed[bin].saturating_sub(done);
            (done, forced) = (done + missing, forced + missing);
        }
    }
    let taken = forced * core_requests / core_work;
    bound.delayed_requests = bound.delayed_requests.saturating_add(u64::try_from(taken).unwrap_or(u64::MAX));
    bound
}
