//! The checker of idle classes: a service whose `idle_depth` is zero starts nothing while clients have requests with the scheduler or the
//! device. A greater depth counts whole requests, of which the checker sees only the parts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioweir_core::Nanos;
use ioweir_core::policy::Policy;

use super::promise::{Promise, Verdict};
use ioweir_serve::engine::{Call, Observer, Stage};

#[derive(Debug, Default)]
struct Watch {
    /// The idle classes.
    idle: Vec<u32>,
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
        let idle = services.iter().filter(|(_, depth)| *depth == Some(0)).map(|(class, _)| *class).collect();
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
        let Some(class) = self.open.get(&number).copied().filter(|class| self.idle.contains(class)) else { return };
        let clients = self.open.values().filter(|class| !self.services.contains(class)).count();
        self.verdict.check(Promise::Services, clients == 0, || {
            format!("class {class} started a request at {now} beside {clients} of clients, and is an idle class")
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
