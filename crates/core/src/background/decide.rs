//! How the executor decides: how much background work gets, which debt is paid next, and why the rest waits.

use super::contract::{Bucket, Directive, Hold, Resource, Step};
use super::executor::Executor;
use super::{DebtQueue, PoolState, SERVICES_COUNT, Service, ServiceSettings, Slice, Watermark, time_to_clear};
use crate::Nanos;

impl Executor {
    /// Tells a slice to pause or to end, where that is due.
    pub(super) fn interrupt(&mut self) -> Option<Step> {
        let (now, grace) = (self.now, self.settings.grace);
        if grace == Nanos::NEVER || !self.slots.is_any_running() {
            return None;
        }
        if let Some(tag) = self.slots.end_late(now, grace) {
            return Some(Step::End(tag));
        }
        if let Some(tag) = self.slots.pause_late(now, grace) {
            return Some(Step::Pause(tag));
        }
        if let Some(tag) = self.slots.pause_last(now, |service| !self.is_open[service as usize]) {
            return Some(Step::Pause(tag));
        }
        let urgent = Service::ALL.map(|service| self.urgency(service).is_some() || self.runs_urgently(service));
        let granted = [self.granted_units(), self.open_to_all()];
        self.slots.pause_beyond(now, granted, |service| !urgent[service as usize]).map(Step::Pause)
    }

    /// Whether a slice that runs cannot wait: one that took all that is owed leaves nothing in the queue that would say so.
    fn runs_urgently(&self, service: Service) -> bool {
        if !self.settings.forces {
            return false;
        }
        let mut due = self.slots.running().filter(|slice| slice.service == service && slice.due_at != Nanos::NEVER);
        due.any(|slice| self.urgent_from(&self.queued(service, self.slots.blocks(service), slice.due_at)) <= self.now)
    }

    /// Ends what urgent services are held for, where that is less than they need now: a deadline goes before the budget.
    pub(super) fn release_urgent(&mut self) {
        for service in Service::ALL {
            if let Some(needed) = self.urgency(service) {
                self.slots.release_below(service, needed);
            }
        }
    }

    pub(super) fn is_payable(&self, service: Service) -> bool {
        self.queues[service as usize].oldest().is_some_and(|batch| batch.payable_at <= self.now)
    }

    /// Whether a slice of this service may start, as far as the service goes.
    fn is_ready(&self, service: Service) -> bool {
        let is_alone = match self.settings.resource {
            Resource::Cores(_) => true,
            Resource::DeviceTime => !self.slots.has(service, self.now),
        };
        let is_open = self.is_open[service as usize];
        is_open && is_alone && self.is_payable(service) && self.paced_until[service as usize] <= self.now
    }

    /// The units that the background may use now. Units beyond those that are open to all are for urgent debt alone.
    #[must_use]
    pub fn granted_units(&self) -> u32 {
        match self.settings.bucket {
            Bucket::Fixed { .. } => self.open_to_all(),
            Bucket::Planned => self.open_to_all().max(self.overdue()),
        }
    }

    /// The units that debt may use which is not urgent.
    fn open_to_all(&self) -> u32 {
        let reserved = self.reserved_units();
        match self.settings.bucket {
            Bucket::Fixed { harvests: false, .. } => reserved,
            Bucket::Fixed { .. } => reserved.max(self.spare),
            Bucket::Planned => reserved.max(self.opening.of(self.spare).min(self.directive.limit_units)),
        }
    }

    /// The units that the background may use whatever the foreground wants, besides those that urgent debt needs.
    pub(super) fn reserved_units(&self) -> u32 {
        let units = self.settings.resource.units();
        match self.settings.bucket {
            Bucket::Fixed { watermark, .. } => watermark.units(self.tied_blocks(), self.pool.blocks, units),
            Bucket::Planned => self.directive.reserve_units.min(units).max(self.rescue()),
        }
    }

    /// Units beyond the plan when the pool is below its floor; all of them from half the floor downwards.
    fn rescue(&self) -> u32 {
        match self.pool.state() {
            PoolState::Roomy | PoolState::Alarm => 0,
            PoolState::BelowFloor | PoolState::Full => {
                let steep = Watermark { low_per_mille: 0, high_per_mille: 500 };
                let units = self.settings.resource.units();
                steep.units(self.pool.below_floor_blocks(), self.pool.floor_blocks, units)
            }
        }
    }

    /// Units beyond the plan when debt is nearly due: enough to pay every batch in time, whichever of them is due first for
    /// the work before it. It begins a slice before half of the resource would just be enough.
    fn overdue(&self) -> u32 {
        Service::ALL
            .into_iter()
            .filter_map(|service| self.urgency(service))
            .fold(0, u32::saturating_add)
            .min(self.settings.resource.units())
    }

    /// Units that a service needs to pay every payable batch in time, if one of them is urgent and may take them from the foreground.
    pub(super) fn urgency(&self, service: Service) -> Option<u32> {
        if !self.settings.forces || !self.is_open[service as usize] {
            return None;
        }
        let needed = |queued: Queued| queued.alone.0.div_ceil(self.span_until(queued.due_at).0.max(1));
        let is_urgent = |queued: &Queued| self.urgent_from(queued) <= self.now;
        let most = self.queued_before_due(service).filter(is_urgent).map(needed).max()?;
        Some(u32::try_from(most).unwrap_or(u32::MAX).min(self.settings.resource.units()))
    }

    /// How long debt that is due at a time may take. The work should end a slice before, as the executor acts once a slice; but a last
    /// slice may use all the time that is left.
    fn span_until(&self, due_at: Nanos) -> Nanos {
        let (slice, left) = (self.settings.slice, due_at.since(self.now));
        left.since(slice).max(left.min(slice))
    }

    /// The time needed for each payable batch of a service that has a deadline, including all batches that are paid before it.
    fn queued_before_due(&self, service: Service) -> impl Iterator<Item = Queued> {
        let now = self.now;
        // Running blocks count until they are completed.
        let mut blocks = self.slots.blocks(service);
        let payable = self.queues[service as usize].batches().take_while(move |batch| batch.payable_at <= now);
        let due = payable.filter_map(move |batch| {
            blocks = blocks.saturating_add(batch.blocks);
            (batch.due_at != Nanos::NEVER).then_some((blocks, batch.due_at))
        });
        due.map(move |(blocks, due_at)| self.queued(service, blocks, due_at))
    }

    fn queued(&self, service: Service, blocks: u64, due_at: Nanos) -> Queued {
        let settings = &self.settings.services[service as usize];
        let alone = Nanos(self.unit_nanos(settings, blocks));
        Queued { alone, paced: settings.pace(blocks), due_at }
    }

    /// When queued work becomes urgent: a slice before half of the resource, or the rate of its service, would just be enough.
    fn urgent_from(&self, queued: &Queued) -> Nanos {
        let half = u64::from(self.settings.resource.units().div_ceil(2));
        let needed = queued.alone.0.div_ceil(half).max(queued.paced.0);
        Nanos(queued.due_at.0.saturating_sub(needed.saturating_add(self.settings.slice.0)))
    }

    /// Why no more of the payable debt runs.
    pub(super) fn hold(&self) -> Hold {
        let (granted, used) = (self.granted_units(), self.slots.used_units(self.now));
        // Units reserved for urgent debt are not available to other debt, so only the units open to all count here.
        let granted = if granted > used { self.open_to_all() } else { granted };
        if granted > used {
            let is_paced = |service| self.is_payable(service) && self.paced_until[service as usize] > self.now;
            let is_held = self.directive.limit_work != u64::MAX || self.directive.pressing;
            return match Service::ALL.into_iter().any(is_paced) {
                // A service that is ready and does not run has no work in the plan for now.
                _ if is_held && Service::ALL.into_iter().any(|service| self.is_ready(service)) => Hold::Plan,
                true => Hold::Rate,
                false => Hold::Running,
            };
        }
        if granted > 0 && used > 0 {
            return if self.slots.is_any_running() { Hold::Running } else { Hold::Budget };
        }
        match (self.settings.bucket, self.calming) {
            (Bucket::Fixed { .. }, _) => Hold::Watermark,
            (Bucket::Planned, _) if self.directive.limit_units == 0 => Hold::Plan,
            (Bucket::Planned, _) if self.spare > 0 => Hold::Objective,
            (Bucket::Planned, Some(_)) => Hold::Calm,
            (Bucket::Planned, None) => Hold::Foreground,
        }
    }

    /// Why the debt of a service waits; `None` if there is none that does.
    #[must_use]
    pub fn waits(&self, service: Service) -> Option<Hold> {
        if self.queues[service as usize].blocks() == 0 {
            None
        } else if !self.is_payable(service) {
            Some(Hold::Retention)
        } else if !self.is_open[service as usize] {
            Some(Hold::Hours)
        } else if self.paced_until[service as usize] > self.now {
            Some(Hold::Rate)
        } else {
            Some(self.hold())
        }
    }

    /// When the answer may change without a call.
    pub(super) fn wake(&self) -> Nanos {
        let later = |time: &Nanos| *time > self.now;
        let payable = self.queues.iter().filter_map(DebtQueue::oldest).map(|batch| batch.payable_at);
        let directives = self.directives.iter().map(|directive| directive.from);
        let calm = self.calming.map(|(since, _)| since.after(self.settings.calm));
        let queued = Service::ALL.into_iter().flat_map(|service| self.queued_before_due(service));
        let pressing = queued.map(|queued| self.urgent_from(&queued));
        let outgrown = self.slots.held(self.now).flat_map(|(service, units)| {
            self.queued_before_due(service).map(move |queued| {
                // The span is too short for these units from then on.
                let span = queued.alone.0 / u64::from(units.max(1));
                let spare = if span > self.settings.slice.0 { self.settings.slice.0 } else { 0 };
                let from = queued.due_at.0.saturating_sub(span.saturating_add(spare));
                Nanos(from + 1).max(self.urgent_from(&queued))
            })
        });
        let paced = Service::ALL.into_iter().filter(|service| self.is_payable(*service));
        let paced = paced.map(|service| self.paced_until[service as usize]);
        let slices = self.slots.changes(self.settings.grace);
        let all = payable.chain(directives).chain(calm).chain(pressing).chain(outgrown).chain(paced).chain(slices);
        all.filter(later).min().unwrap_or(Nanos::NEVER)
    }

    /// The service of the next slice, its most blocks, and its most units. Urgent debt goes first; other debt gets the units that are open
    /// to all.
    pub(super) fn choose(&mut self) -> Option<(Service, u64, u32)> {
        let used = self.slots.used_units(self.now);
        let urgent =
            Service::ALL.into_iter().filter(|service| self.is_ready(*service) && self.urgency(*service).is_some());
        if self.settings.bucket == Bucket::Planned
            && let Some(first) = urgent.min_by_key(|service| self.due_at(*service))
        {
            return Some((first, u64::MAX, self.granted_units().saturating_sub(used)));
        }
        let free = self.open_to_all().saturating_sub(used);
        let (service, most) = if free > 0 { self.choose_for_all() } else { None }?;
        Some((service, most, free))
    }

    /// The next service without urgent debt, and its most blocks. If space is short, the service that frees the most space; then services
    /// with planned blocks, and then leftovers, both round robin.
    fn choose_for_all(&mut self) -> Option<(Service, u64)> {
        let ready: [bool; SERVICES_COUNT] = Service::ALL.map(|service| self.is_ready(service));
        let is_ready = |service: &Service| ready[*service as usize];
        if self.settings.bucket != Bucket::Planned {
            return self.turns.next(|service| is_ready(&service)).map(|service| (service, u64::MAX));
        }
        if self.directive.pressing || self.pool.state() >= PoolState::BelowFloor {
            let settings = &self.settings.services;
            let may = |service: &Service| {
                settings[*service as usize].reclaims() && is_ready(service) && self.within_limit(*service, 0) > 0
            };
            let denser = |best: Service, other: Service| {
                if settings[other as usize].is_denser(&settings[best as usize]) { other } else { best }
            };
            if let Some(densest) = Service::ALL.into_iter().filter(may).reduce(denser) {
                return Some((densest, self.within_limit(densest, 0)));
            }
        }
        let planned = self.directive.pay_blocks;
        let is_planned = |service: Service| is_ready(&service) && planned[service as usize] > 0;
        let of_plan = Service::ALL.map(|service| if is_planned(service) { self.within_limit(service, 0) } else { 0 });
        if let Some(next) = self.turns.next(|service| of_plan[service as usize] > 0) {
            // The slice is limited to the planned blocks, unless the service may also use leftovers.
            let is_all = !self.directive.is_limited(next) && self.may_have_leftovers(next);
            let planned = if is_all { u64::MAX } else { planned[next as usize] };
            return Some((next, of_plan[next as usize].min(planned)));
        }
        let kept = self.kept_work();
        let most = Service::ALL.map(|service| self.within_limit(service, kept));
        let may = |service: Service| {
            is_ready(&service) && self.may_have_leftovers(service) && self.is_worth_it(service, most[service as usize])
        };
        let may: [bool; SERVICES_COUNT] = Service::ALL.map(may);
        let mut next = self.turns.next(|service| may[service as usize])?;
        if self.due_at(next) < Nanos::NEVER {
            // The turn of a service with a deadline goes to the earliest one, so early work never replaces work that is due sooner.
            let all = Service::ALL.into_iter().filter(|service| may[*service as usize]);
            next = all.min_by_key(|service| self.due_at(*service)).unwrap_or(next);
        }
        Some((next, most[next as usize]))
    }

    /// Whether a service may use work that the plan assigns to no service. Where room is short, only services that give room back may: the
    /// others would do crumbs with it.
    fn may_have_leftovers(&self, service: Service) -> bool {
        let Directive { pressing, urgent, .. } = &self.directive;
        !pressing || urgent[service as usize] || self.settings.services[service as usize].reclaims()
    }

    /// When the oldest debt of a service is due.
    fn due_at(&self, service: Service) -> Nanos {
        self.queues[service as usize].oldest().map_or(Nanos::NEVER, |batch| batch.due_at)
    }

    /// The planned work of services that cannot have it now, which others must leave.
    fn kept_work(&self) -> u64 {
        let kept = |service: Service| {
            let planned = self.directive.pay_blocks[service as usize];
            if planned == 0 || !self.directive.is_limited(service) {
                return 0;
            }
            self.planned_work(service, planned.min(self.queues[service as usize].payable(self.now)))
        };
        Service::ALL.into_iter().map(kept).fold(0, u64::saturating_add)
    }

    /// The most blocks of a service within the plan's limit, if `kept` work is kept for others.
    fn within_limit(&self, service: Service, kept: u64) -> u64 {
        match self.directive.is_limited(service) {
            true => self.directive.limit_work.saturating_sub(kept) / self.planned_work(service, 1).max(1),
            false => u64::MAX,
        }
    }

    /// The work of blocks as the plan counted it: that a block turns out to cost more or less makes the bin no shorter or longer.
    pub(super) fn planned_work(&self, service: Service, blocks: u64) -> u64 {
        blocks.saturating_mul(u64::from(self.planned_costs[service as usize]))
    }

    /// Whether `most` blocks are at least as much work as one block of the service with the dearest blocks. Less than that is left in
    /// nearly every bin, as plans count blocks.
    fn is_worth_it(&self, service: Service, most: u64) -> bool {
        let cost = |service: Service| self.planned_work(service, 1);
        let owing = Service::ALL.into_iter().filter(|service| self.queues[*service as usize].blocks() > 0);
        let work = u128::from(most) * u128::from(cost(service));
        work > 0 && work >= owing.map(|service| u128::from(cost(service))).max().unwrap_or(0)
    }

    /// The time that one unit needs for blocks of a service.
    fn unit_nanos(&self, service: &ServiceSettings, blocks: u64) -> u64 {
        time_to_clear(service.work(blocks), self.settings.operation, 1).0
    }

    /// The units of a slice, and the most blocks that it pays.
    fn size(&self, service: &ServiceSettings, most: u64, free: u32) -> (u32, u64) {
        let units = match self.settings.resource {
            Resource::Cores(_) => 1,
            // At most the units that the service's rate needs.
            Resource::DeviceTime => match service.block_nanos_min.0 {
                0 => free,
                least => {
                    let needed = self.unit_nanos(service, 1).div_ceil(least).max(1);
                    u32::try_from(needed).unwrap_or(u32::MAX).min(free)
                }
            },
        };
        let work = u128::from(self.settings.slice.0) * 1000 * u128::from(units) / u128::from(self.settings.operation.0);
        let blocks = service.blocks(u64::try_from(work).unwrap_or(u64::MAX));
        let in_pace = self.settings.slice.0.checked_div(service.block_nanos_min.0).unwrap_or(u64::MAX);
        let (blocks, item) = (blocks.min(in_pace).min(most), u64::from(service.item_blocks.max(1)));
        (units, (blocks - blocks % item).max(item))
    }

    pub(super) fn start(&mut self, service: Service, most: u64, free: u32) -> Option<Slice> {
        let settings = self.settings.services[service as usize];
        let (units, most) = self.size(&settings, most, free);
        let (blocks, due_at) = self.queues[service as usize].pay(self.now, most);
        let unit_nanos = self.unit_nanos(&settings, blocks).div_ceil(u64::from(units));
        let ends_at = self.now.after(Nanos(unit_nanos).max(settings.pace(blocks)));
        let started_at = self.now;
        let slice =
            self.slots.start(started_at, |tag| Slice { tag, service, units, blocks, due_at, started_at, ends_at })?;
        let paced = &mut self.paced_until[service as usize];
        *paced = (*paced).max(self.now).after(settings.pace(blocks));
        self.directive.spend(service, blocks, self.planned_work(service, blocks));
        Some(slice)
    }
}

/// The time that a batch needs, including all batches paid before it.
#[derive(Clone, Copy)]
pub(super) struct Queued {
    /// The time that one unit needs.
    alone: Nanos,
    /// The time that the service's rate needs.
    paced: Nanos,
    due_at: Nanos,
}
