//! The checker of idle classes: a service with an `idle_depth` starts nothing while clients have more requests with the scheduler or the
//! device.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioweir_core::Nanos;
use ioweir_core::policy::Policy;

use super::promise::{Promise, Verdict};
use ioweir_serve::engine::{Call, Observer, Stage};

#[derive(Debug, Default)]
struct Watch {
    /// The `idle_depth` of each class that has one.
    idle: BTreeMap<u32, u32>,
    /// The classes of services, which are no clients.
    services: Vec<u32>,
    /// The class of each sub-request that is with the scheduler or the device, by number.
    open: BTreeMap<u64, u32>,
    verdict: Verdict,
}

/// Watches the idle classes of an engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Idle(Arc<Mutex<Watch>>);

impl Idle {
    /// A checker for services, each with its class and `idle_depth`.
    pub(super) fn new(services: impl Iterator<Item = (u32, Option<u32>)>) -> Self {
        let services: Vec<_> = services.collect();
        let idle = services.iter().filter_map(|(class, depth)| Some((*class, (*depth)?))).collect();
        let services = services.iter().map(|(class, _)| *class).collect();
        Self(Arc::new(Mutex::new(Watch { idle, services, ..Watch::default() })))
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the verdict since the last call.
    pub(super) fn take(&self) -> Verdict {
        std::mem::take(&mut self.watch().verdict)
    }
}

impl Watch {
    fn dispatched(&mut self, now: Nanos, number: u64) {
        let Some((class, depth)) =
            self.open.get(&number).and_then(|class| self.idle.get(class).map(|depth| (*class, *depth)))
        else {
            return;
        };
        let clients = self.open.values().filter(|class| !self.services.contains(class)).count();
        self.verdict.check(Promise::Services, clients <= depth as usize, || {
            format!(
                "class {class} started a request at {now} beside {clients} of clients, and its idle_depth is {depth}"
            )
        });
    }
}

impl Observer for Idle {
    fn called(&mut self, _now: Nanos, _call: &Call) {}

    fn reached(&mut self, now: Nanos, number: u64, stage: Stage) {
        let mut watch = self.watch();
        match stage {
            Stage::Submitted(request) => drop(watch.open.insert(number, request.stream.0)),
            Stage::Dispatched(_) => watch.dispatched(now, number),
            Stage::Completed(_) | Stage::Withdrawn => drop(watch.open.remove(&number)),
            Stage::Arrived => {}
        }
    }

    fn settled(&mut self, _now: Nanos, _scheduler: &Policy) {}
}
