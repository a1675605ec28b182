//! Shares over several servers: a thread that reports the demand of this server's tenants to the other servers of a fleet, reads their
//! reports, and changes the shares in the engines, as `ioweir ctl set` does.
//!
//! The servers meet in etcd (`etcd`), and nowhere else. `coordinator` does the work of a server in each period, given the time; the rule is
//! in [`ioweir_core::fleet`]. No request waits for any of this: between their turns, engines are asked for counters and given new shares.

mod coordinator;
mod etcd;
mod members;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ioweir_core::tenant::Elsewhere;
use ioweir_core::{Nanos, QueueLimits, StreamId};

use crate::control::Controller;
use crate::engine::{Command, Served};
use crate::engines::Engines;
use crate::executor::{Clock as _, MachineClock};
use crate::log::{Event, EventKind, Log};
use crate::spec::{ClassKind, Spec};
use crate::thread::OwnedThread;

pub use coordinator::{Ask, Coordinator, Heard, Own, Snapshot, Store, Turn};
pub use etcd::Etcd;
pub use wire::{Answer, assignments, read_exchange, read_snapshot};

/// How long all engines together may take to report their service.
const PATIENCE: Duration = Duration::from_millis(200);

/// The thread of a fleet. When this is dropped, the thread ends and its report is revoked.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// Dropped first, which ends the thread.
    _end: Sender<()>,
    _thread: OwnedThread,
}

impl Fleet {
    /// Starts the thread, if the server belongs to a fleet.
    pub(crate) fn start(
        controller: &Controller,
        engines: Engines,
        log: Log,
        clock: MachineClock,
    ) -> Result<Option<Self>, String> {
        let (spec, _) = controller.running();
        let Some(keys) = spec.fleet.clone() else { return Ok(None) };
        let etcd = Etcd::new(&keys)?;
        let counts = counts_elsewhere(&spec);
        let mut link =
            Link { controller: controller.clone(), engines, log, clock, counts, refused: None, served: Vec::new() };
        let (end, ended) = channel();
        let period = Duration::from_nanos(keys.period.nanos().0);
        let work = move || {
            let mut coordinator = Coordinator::new(keys, etcd);
            let mut wait = Duration::ZERO;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let begun = link.clock.now();
                link.turn(&mut coordinator);
                // An exchange that took longer than a period is followed by the next one at once.
                wait = period.saturating_sub(Duration::from_nanos(link.clock.now().since(begun).0));
            }
            coordinator.leave();
        };
        let thread = OwnedThread::start("ioweir-fleet", work);
        let thread = thread.map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(Some(Self { _end: end, _thread: thread }))
    }
}

/// Whether the scheduler of each device takes service on other servers into account.
fn counts_elsewhere(spec: &Spec) -> Vec<bool> {
    let counts = |device: &crate::spec::Device| {
        let scheduler = device.scheduler.build(QueueLimits::with_requests(1));
        scheduler.tenants().is_some_and(|tenants| tenants.counts_elsewhere())
    };
    spec.device.iter().map(counts).collect()
}

/// The classes of a spec that are members of a fleet.
#[must_use]
pub fn own_classes(spec: &Spec, counts: &[bool]) -> Vec<Own> {
    let classes = spec.classes();
    let shares: Vec<_> = (0..spec.device.len()).flat_map(|device| spec.configured(device)).collect();
    let share = |number: u32| {
        let its = |(holder, _): &&(crate::spec::Holder, _)| *holder == crate::spec::Holder::Class(StreamId(number));
        shares.iter().find(its).map(|(_, share)| *share)
    };
    let numbered = (0..).zip(&classes).filter(|(_, class)| !class.is_removed && class.kind != ClassKind::Service);
    numbered
        .filter_map(|(number, class)| {
            let scheduler = &spec.device[class.device].scheduler;
            Some(Own {
                class: number,
                tenant: class.name.clone(),
                share: share(number)?,
                counts_sectors: scheduler.row.get(&scheduler.settings, "cost") == Some(1),
                hears_of_others: counts.get(class.device).copied().unwrap_or(false),
            })
        })
        .collect()
}

/// The connection between a coordinator and the engines of its server.
struct Link {
    controller: Controller,
    engines: Engines,
    log: Log,
    clock: MachineClock,
    counts: Vec<bool>,
    /// The last specs of tenants in etcd that this server has refused, so that it logs them once.
    refused: Option<Vec<u8>>,
    /// The service that each class has received, by the last answers of all engines.
    served: Vec<Served>,
}

impl Link {
    fn turn(&mut self, coordinator: &mut Coordinator<Etcd>) {
        self.ask_engines();
        let (spec, _) = self.controller.running();
        if self.counts.len() < spec.device.len() {
            self.counts = counts_elsewhere(&spec);
        }
        let owns = own_classes(&spec, &self.counts);
        let turn = coordinator.turn(self.clock.now(), &owns, &self.served);
        for (kind, what) in &turn.remarks {
            self.report(*kind, what);
        }
        self.take_specs(&turn, &spec);
        if let Err(problem) = self.controller.apportion(turn.parts, turn.status) {
            self.report(EventKind::FleetRefused, &problem);
        }
        for (device, engine) in self.engines.present() {
            let classes = spec.classes();
            let its = |(class, _): &&(u32, Elsewhere)| classes[*class as usize].device == device;
            let told: Vec<_> =
                turn.elsewhere.iter().filter(its).map(|(class, told)| (StreamId(*class), *told)).collect();
            if !told.is_empty() {
                engine.send(Command::Elsewhere(told));
            }
        }
    }

    /// Adopts the specs of tenants in etcd, for the tenants that this server has: all of them or none.
    fn take_specs(&mut self, turn: &Turn, spec: &Spec) {
        let Some(value) = turn.tenants.as_ref().filter(|value| self.refused.as_ref() != Some(*value)) else { return };
        let made = assignments(value, spec).and_then(|assignments| {
            let is_so = crate::control::assign(spec, &assignments)? == *spec;
            if is_so { Ok(Vec::new()) } else { self.controller.set(&assignments) }
        });
        match made {
            Ok(_) => self.refused = None,
            Err(problem) => {
                self.report(EventKind::FleetRefused, &format!("what etcd says of tenants: {problem}"));
                self.refused = Some(value.clone());
            }
        }
    }

    /// Asks for the service that each class has received since the server began. If an engine does not answer in time, the counts of all
    /// stay as they were, so that the others see no new service.
    fn ask_engines(&mut self) {
        let (sender, answers) = channel();
        let engines = self.engines.present();
        for (_, engine) in &engines {
            engine.send(Command::Served(sender.clone()));
        }
        drop(sender);
        let until = self.clock.now().after(Nanos(PATIENCE.as_nanos() as u64)); // a fifth of a second
        let mut all: Vec<Served> = Vec::new();
        for _ in engines {
            let left = Duration::from_nanos(until.since(self.clock.now()).0);
            let Ok(its) = answers.recv_timeout(left) else { return };
            all.resize(all.len().max(its.len()), Served::default());
            all.iter_mut().zip(its).for_each(|(all, its)| all.add(&its));
        }
        self.served = all;
    }

    fn report(&self, kind: EventKind, what: &str) {
        let words: Vec<_> = what.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        self.log.report(self.clock.now(), &Event::new(kind, &words.join("; ")));
    }
}
