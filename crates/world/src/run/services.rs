//! The services of the device, and the checks of their promises.

use std::sync::mpsc::channel;

use ioweir_config::Duration;
use ioweir_core::{Nanos, StreamId};

use super::super::canary::Canary;
use super::super::plan::Backing;
use super::super::promise::Promise;
use super::World;
use ioweir_serve::engine::{Command, Rates, ServiceOrder, ServicePlan};
use ioweir_serve::parts::service_plans;
use ioweir_serve::spec::{self, ClassKind, ServiceKind, Spec};

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
            ServicePlan { spec, state: Some(self.shelf.clone()), ..plan }
        };
        service_plans(spec, device).into_iter().map(its).collect()
    }

    /// The services as the server is told of them: as they are, but for a canary.
    pub(super) fn told(&self, mut services: Vec<ServicePlan>) -> Vec<ServicePlan> {
        if self.plan.canary == Some(Canary::OtherIdleDepth) {
            services.iter_mut().for_each(|plan| plan.spec.idle_depth = None);
        }
        services
    }

    /// The class and the period of the scrub of all data. Ranges whose discards are still to be carried out are not read.
    pub(super) fn scrub(&self, plans: &[ServicePlan]) -> Option<(u32, Nanos)> {
        let scrub = plans.iter().find(|plan| plan.spec.kind == ServiceKind::Scrub);
        let scrub = scrub.filter(|_| self.plan.backing != Backing::Late)?;
        let told = if self.plan.canary == Some(Canary::OtherPeriod) { 3 } else { 1 };
        Some((scrub.class.0, Nanos(scrub.spec.every?.nanos().0 / told)))
    }

    /// Gives an operator's order to a service.
    pub(super) fn order_service(&mut self, draw: u64) {
        let Some(up) = &mut self.up else { return };
        let classes = (0..).map(StreamId).zip(up.spec.classes());
        let services = classes.filter(|(_, class)| class.kind == ClassKind::Service && class.device == 0);
        let services: Vec<StreamId> = services.map(|(number, _)| number).collect();
        let Some(service) = draw.checked_rem(services.len() as u64) else { return };
        let span = Nanos::from_seconds(1 + (draw >> 8) % 600);
        let order = match (draw >> 4) % 4 {
            0 | 1 => {
                let request = (draw >> 40).is_multiple_of(2).then_some(4096);
                ServiceOrder::Run(span, Rates { most: Some(256 << ((draw >> 32) % 6)), request, ..Rates::default() })
            }
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

    /// Checks that at rest no client of a removed export is connected.
    pub(super) fn check_removed(&mut self) {
        let Some(up) = &self.up else { return };
        let catalog = up.tunables.catalog();
        for (number, client) in self.clients.iter().enumerate() {
            let is_over = client.line.is_none() || !catalog.exports.absent.contains(&client.export);
            self.verdict.check(Promise::Waits, is_over, || format!("client {number} of a removed export is not ended"));
        }
    }

    /// Takes the verdict of the checker of the scrub.
    pub(super) fn look_at_passes(&mut self) {
        if let Some(seen) = self.main().map(|main| main.passes.look(self.now)) {
            self.verdict.add(seen);
        }
    }
}
