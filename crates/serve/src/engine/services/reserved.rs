//! The reservation that a lease gives a service. The lease states a rate in bytes; while it holds, the service's class gets a reservation
//! in the unit that the scheduler counts.
//!
//! The cost of a byte is estimated from the service's latest requests. A reservation that turns out too small is raised at once; one that
//! is too large is lowered when it exceeds the need by a third.

use ioweir_core::tenant::{RATE_MAX, Share, ShareError};
use ioweir_core::{Nanos, StreamId};

use super::{Service, Services, remarkable};
use crate::engine::admission::{Admission, SubRequest};
use crate::log::EventKind;
use crate::spec::Holder;

/// The number of requests after which earlier ones count half.
const REQUESTS_MAX: u32 = 32;

/// The reservation of a service by its lease.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    /// The share that the class has without a lease, and the reservation in effect in its place.
    instead: Option<(Share, u64)>,
    /// Whether the lease's reservation cannot be kept any more, which is logged once.
    is_lost: bool,
    /// The last requests, their bytes and their cost.
    requests: u32,
    bytes: u64,
    cost: u64,
}

impl Reserved {
    /// The reservation that is in effect because of a lease.
    pub(super) fn in_effect(&self) -> Option<u64> {
        self.instead.map(|(_, per_second)| per_second)
    }

    /// Counts a request.
    fn count(&mut self, bytes: u64, cost: u64) {
        if self.requests == REQUESTS_MAX {
            (self.requests, self.bytes, self.cost) = (REQUESTS_MAX / 2, self.bytes / 2, self.cost / 2);
        }
        self.requests += 1;
        self.bytes += bytes;
        self.cost += cost;
    }

    /// Converts a rate in bytes to one of cost. Until a request was seen, one of `length_max` is assumed to cost one.
    fn cost_of(&self, bytes_per_second: u64, length_max: u64) -> u64 {
        let (bytes, cost) = if self.bytes > 0 { (self.bytes, self.cost.max(1)) } else { (length_max.max(1), 1) };
        let per_second = (u128::from(bytes_per_second) * u128::from(cost)).div_ceil(u128::from(bytes));
        u64::try_from(per_second).unwrap_or(u64::MAX).clamp(1, RATE_MAX)
    }
}

impl Services {
    /// Counts what a request of a service costs.
    pub(in crate::engine) fn count_cost(&mut self, sub_request: &SubRequest, cost: u64) {
        let its = self.list.iter_mut().find(|service| service.class == StreamId(sub_request.class));
        if let Some(service) = its {
            service.reserved.count(u64::from(sub_request.length), cost);
        }
    }

    /// Takes note that the shares of these classes have changed.
    pub(in crate::engine) fn shares_changed(&mut self, shares: &[(Holder, Share)]) {
        let changed = |service: &&mut Service| shares.iter().any(|(holder, _)| *holder == Holder::Class(service.class));
        self.list.iter_mut().filter(changed).for_each(|service| service.reserved.instead = None);
    }

    /// Sets the reservations of services by their leases, and ends them with the leases. A reservation that is not possible any more, as in
    /// a group, is dropped and logged.
    pub(in crate::engine) fn reserve(&mut self, admission: &mut Admission) {
        let (now, length_max) = (self.now, self.request_bytes_max);
        for service in &mut self.list {
            let error = service.reserve(now, admission, length_max, false).err();
            let was_lost = std::mem::replace(&mut service.reserved.is_lost, error.is_some());
            if let Some(error) = error.filter(|_| !was_lost) {
                let what = format!("the reservation of its lease cannot be kept any more: {error}");
                self.events.push_back(remarkable(EventKind::ReservationLost, service.class, what));
            }
        }
    }
}

impl Service {
    /// Sets the reservation of the service's class by its lease: exactly for a new lease, and else approximately.
    ///
    /// # Errors
    /// Why the reservation is not possible; then nothing has changed.
    pub(super) fn reserve(
        &mut self,
        now: Nanos,
        admission: &mut Admission,
        length_max: u64,
        is_new: bool,
    ) -> Result<(), ShareError> {
        let wanted = self.lease.and_then(|lease| lease.rates.reserved);
        if wanted.is_none() && self.reserved.instead.is_none() {
            return Ok(());
        }
        let Some(present) = admission.share(self.class) else { return Ok(()) };
        let base = self.reserved.instead.map_or(present, |(base, _)| base);
        let per_second = wanted.map(|rate| {
            let most = if base.limit_per_second > 0 { base.limit_per_second } else { RATE_MAX };
            self.reserved.cost_of(rate, length_max).min(most).max(base.reservation_per_second)
        });
        let is_near = |per_second: u64| {
            let near = per_second..=per_second + per_second / 3;
            !is_new && self.reserved.in_effect().is_some_and(|in_effect| near.contains(&in_effect))
        };
        if per_second.is_some_and(is_near) {
            return Ok(());
        }
        let reservation_per_second = per_second.unwrap_or(base.reservation_per_second);
        let share = Share { reservation_per_second, ..base };
        if share != present {
            admission.configure(now, self.class, share)?;
        }
        self.reserved.instead = per_second.map(|per_second| (base, per_second));
        Ok(())
    }
}
