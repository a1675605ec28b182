//! The services of the device, whether they do what they promise, and exports that are removed.

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
use crate::control::change_of;
use crate::engine::{Command, Rates, ServiceOrder, ServicePlan, ServiceWait, Shelf};
use crate::engines::service_plans;
use crate::exports::Exports;
use crate::spec::{self, ServiceKind, Spec};

/// How often each sector is read in between, so that each of two copies was read at least once.
const READS_OF_COPIES: u32 = 3;

impl World {
    /// The services of the device.
    pub(super) fn services(&self, spec: &Spec) -> Vec<ServicePlan> {
        let told = if self.plan.canary == Some(Canary::OtherPeriod) { 3 } else { 1 };
        let its = |plan: ServicePlan| {
            if plan.spec.kind != ServiceKind::Scrub {
                return plan;
            }
            let every = plan.spec.every.map(|every| Duration::new(Nanos(every.nanos().0 * told)));
            let spec = spec::Service { every, ..plan.spec };
            ServicePlan { spec, state: Some(Shelf::World(Arc::clone(&self.shelf))), ..plan }
        };
        service_plans(spec, 0).into_iter().map(its).collect()
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
        let services = up.spec.service.len() as u64;
        let Some(service) = draw.checked_rem(services) else { return };
        let span = Nanos::from_seconds(1 + (draw >> 8) % 600);
        let order = match (draw >> 4) % 4 {
            0 | 1 => ServiceOrder::Run(span, Rates { most: Some(256 << ((draw >> 32) % 6)), reserved: None }),
            2 => ServiceOrder::Pause(span),
            _ => ServiceOrder::Release,
        };
        if order != ServiceOrder::Release {
            self.rested = self.rested.after(span);
        }
        // Services follow the exports of the start.
        let class = StreamId((up.exports.len() as u64 + service) as u32);
        up.handle.send(Command::Service(class, order, channel().0));
        self.stirred = true;
    }

    /// An operator removes an export that shows a part of what another one shows.
    pub(super) fn remove_export(&mut self, draw: u64) {
        let number = 2 + (draw % 2) as usize;
        let Some(up) = self.up.as_mut().filter(|up| !up.absent.contains(&number)) else { return };
        let mut changed = up.spec.clone();
        changed.export[number].is_removed = true;
        let exports = changed.checked().map_err(|complaint| complaint.problem());
        let exports = exports.and_then(|spec| Exports::of(&spec, &up.places).map(|exports| (spec, exports)));
        let (spec, exports) = match exports {
            Ok(made) => made,
            Err(problem) => return self.broken(Promise::Protocol, format!("an export cannot be removed: {problem}")),
        };
        let Some((change, hear, verdict)) = change_of(&up.spec, &spec, 0, Some(&exports)) else { return };
        up.handle.send(Command::Change(Box::new(change)));
        let _ = verdict.send(());
        self.stirred = true;
        self.turn();
        let Some(up) = &mut self.up else { return };
        if hear.try_recv() != Ok(Ok(())) {
            return;
        }
        (up.spec, up.exports, up.absent) = (spec, exports.list, exports.absent);
        up.handle.send(Command::DrainExport(number));
        self.stirred = true;
    }

    /// At rest, clients of exports that were removed have been ended.
    pub(super) fn check_removed(&mut self) {
        let Some(up) = &self.up else { return };
        for (number, client) in self.clients.iter().enumerate() {
            let is_over = client.line.is_none() || !up.absent.contains(&client.export);
            self.verdict.check(Promise::Waits, is_over, || format!("client {number} of a removed export is not ended"));
        }
    }

    /// Takes what the watch over the scrub has seen.
    pub(super) fn look_at_passes(&mut self) {
        if let Some(up) = &self.up {
            self.verdict.add(up.passes.look(self.now));
        }
    }

    /// Once a scrub has read everything since something went wrong on one of two copies, they are the same. Nothing of clients is in
    /// flight.
    pub(super) fn check_copies(&mut self) {
        let Some(up) = self.up.as_ref().filter(|_| self.plan.backing == Backing::CheckedMirror) else { return };
        let scrub = up.services.iter().find(|service| Some(service.class) == up.passes.class());
        let is_over = scrub.is_some_and(|scrub| scrub.wait == ServiceWait::NothingOwed && scrub.owed_bytes == 0)
            && up.passes.least_reads() >= READS_OF_COPIES;
        let are_in_sync = up
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
