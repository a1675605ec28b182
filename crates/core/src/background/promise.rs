//! The units that background work gets even if the foreground wants all of them.

use super::Service;
use super::contract::Bucket;
use super::executor::Executor;

impl Executor {
    /// The units of a service's slices that it keeps even if the foreground wants them: the units that its urgent debt needs, or else its
    /// part of the reserved units that urgent debt does not need.
    #[must_use]
    pub fn promised_units(&self, service: Service) -> u32 {
        let held = |of: &dyn Fn(Service) -> bool| -> u32 {
            self.slots.running().filter(|slice| of(slice.service)).map(|slice| slice.units).sum()
        };
        let own = held(&|other| other == service);
        let is_planned = self.settings.bucket == Bucket::Planned;
        let needed = |service: Service| if is_planned { self.urgency(service) } else { None };
        if let Some(needed) = needed(service) {
            return needed.min(own);
        }
        let urgent = Service::ALL.into_iter().filter_map(needed).fold(0, u32::saturating_add);
        let left = self.reserved_units().saturating_sub(urgent);
        let all = held(&|other| needed(other).is_none());
        // A part of `own`, which is a `u32`.
        (u64::from(left.min(all)) * u64::from(own)).checked_div(u64::from(all)).unwrap_or(0) as u32
    }
}
