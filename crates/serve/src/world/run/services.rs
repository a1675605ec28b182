//! The services of the device, and whether they do what they promise.

use std::sync::Arc;
use std::sync::mpsc::channel;

use ioweir_config::Duration;
use ioweir_core::{Nanos, StreamId};

use super::super::canary::Canary;
use super::super::devices::LEG_HEAD_BYTES;
use super::super::plan::Backing;
use super::super::promise::Promise;
use super::World;
use crate::backend::LegState;
use crate::engine::{Command, Rates, ServiceOrder, ServicePlan, ServiceWait, Shelf};
use crate::engines::service_plans;
use crate::spec::{self, ClassKind, ServiceKind, Spec};

/// How often each sector is read in between, so that each of two copies was read at least once.
const READS_OF_COPIES: u32 = 3;

impl World {
    /// The services of the device.
    pub(super) fn services(&self, spec: &Spec, device: usize) -> Vec<ServicePlan> {
        let told = if self.plan.canary == Some(Canary::OtherPeriod) { 3 } else { 1 };
        let its = |plan: ServicePlan| {
            if plan.spec.kind != ServiceKind::Scrub {
                return plan;
            }
            let every = plan.spec.every.map(|every| Duration::new(Nanos(every.nanos().0 * told)));
            let spec = spec::Service { every, ..plan.spec };
            ServicePlan { spec, state: Some(Shelf::World(Arc::clone(&self.shelf))), ..plan }
        };
        service_plans(spec, device).into_iter().map(its).collect()
    }

    /// The class and the period of the scrub that reads everything. Discards that are still to be carried out are not read.
    pub(super) fn scrub(&self, plans: &[ServicePlan]) -> Option<(u32, Nanos)> {
        let scrub = plans.iter().find(|plan| plan.spec.kind == ServiceKind::Scrub);
        let scrub = scrub.filter(|_| self.plan.backing != Backing::Late)?;
        let told = if self.plan.canary == Some(Canary::OtherPeriod) { 3 } else { 1 };
        Some((scrub.class.0, Nanos(scrub.spec.every?.nanos().0 / told)))
    }

    /// An operator tells a service what to do.
    pub(super) fn order_service(&mut self, draw: u64) {
        let Some(up) = &mut self.up else { return };
        let classes = (0..).map(StreamId).zip(up.spec.classes());
        let services = classes.filter(|(_, class)| class.kind == ClassKind::Service && class.device == 0);
        let services: Vec<StreamId> = services.map(|(number, _)| number).collect();
        let Some(service) = draw.checked_rem(services.len() as u64) else { return };
        let span = Nanos::from_seconds(1 + (draw >> 8) % 600);
        let order = match (draw >> 4) % 4 {
            0 | 1 => ServiceOrder::Run(span, Rates { most: Some(256 << ((draw >> 32) % 6)), reserved: None }),
            2 => ServiceOrder::Pause(span),
            _ => ServiceOrder::Release,
        };
        if order != ServiceOrder::Release {
            self.rested = self.rested.after(span);
        }
        if let Some(main) = up.side(0) {
            main.handle.send(Command::Service(services[service as usize], order, channel().0));
        }
        self.stirred = true;
    }

    /// At rest, clients of exports that were removed have been ended.
    pub(super) fn check_removed(&mut self) {
        let Some(up) = &self.up else { return };
        let catalog = up.tunables.catalog();
        for (number, client) in self.clients.iter().enumerate() {
            let is_over = client.line.is_none() || !catalog.exports.absent.contains(&client.export);
            self.verdict.check(Promise::Waits, is_over, || format!("client {number} of a removed export is not ended"));
        }
    }

    /// Takes what the watch over the scrub has seen.
    pub(super) fn look_at_passes(&mut self) {
        if let Some(seen) = self.main().map(|main| main.passes.look(self.now)) {
            self.verdict.add(seen);
        }
    }

    /// Once a scrub has read everything since something went wrong on one of two copies, they are the same. Nothing of clients is in
    /// flight.
    pub(super) fn check_copies(&mut self) {
        let Some(main) = self.main().filter(|_| self.plan.backing == Backing::CheckedMirror) else { return };
        let scrub = main.services.iter().find(|service| Some(service.class) == main.passes.class());
        let is_over = scrub.is_some_and(|scrub| scrub.wait == ServiceWait::NothingOwed && scrub.owed_bytes == 0)
            && main.passes.least_reads() >= READS_OF_COPIES;
        let are_in_sync = main
            .mirror
            .as_ref()
            .is_some_and(|mirror| mirror.legs.iter().all(|leg| leg.state == LegState::InSync && leg.owed_bytes == 0));
        // What a leg lacks, a scrub does not read.
        self.counts_anew |= !are_in_sync;
        if !is_over || !are_in_sync || self.rotten.count_ones() > 1 {
            return;
        }
        if self.plan.canary == Some(Canary::UnscrubbedCopy) {
            self.devices.disks[1].media().flip(LEG_HEAD_BYTES + self.random.below(4096), 0);
        }
        let data = |disk: usize| self.devices.disks[disk].media().contents().split_off(LEG_HEAD_BYTES as usize);
        let (one, other) = (data(0), data(1));
        let differs = one.chunks(512).zip(other.chunks(512)).position(|(one, other)| one != other);
        self.verdict.check(Promise::Services, differs.is_none(), || {
            format!("sector {} differs between the copies after a scrub", differs.unwrap_or_default())
        });
        // Nothing is left of it, so that clients get no errors from now on.
        (self.rotten, self.is_rotten, self.is_faulty, self.legs_differ) = (0, false, false, false);
    }
}
