//! The checker of scrubs, which must read all data once in each period, whatever clocks show.
//!
//! A pass is due a period after the one before, or after the start of a server at the latest. So while a server is up, no sector goes
//! unread for longer than a period and the time of a pass, for which there is [`PATIENCE`] in addition to the time that the world excuses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioweir_core::policy::Policy;
use ioweir_core::{Nanos, Operation};

use super::promise::{Promise, Verdict};
use ioweir_serve::engine::{Call, Observer, Stage};

/// The longest time of a pass.
const PATIENCE: Nanos = Nanos::from_seconds(300);

#[derive(Debug, Default)]
struct Watch {
    /// The class of the scrub, and its period, if there is one to watch.
    scrub: Option<(u32, Nanos)>,
    /// The time for which the scrub may have had to wait, since the beginning of the world.
    excused: Nanos,
    /// When each sector of the device was last read, or the server began, without the excused time.
    sectors: BTreeMap<u64, Nanos>,
    /// The sectors of each request of the scrub, by number.
    asked: BTreeMap<u64, Range<u64>>,
    verdict: Verdict,
}

/// Watches the scrub of an engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Passes(Arc<Mutex<Watch>>);

impl Passes {
    /// A checker for the scrub of this class and period, which reads these sectors, from now on.
    pub(super) fn new(
        (now, excused): (Nanos, Nanos),
        scrub: Option<(u32, Nanos)>,
        sectors: impl Iterator<Item = u64>,
    ) -> Self {
        let began = now.since(excused);
        let sectors = sectors.map(|sector| (sector, began)).collect();
        Self(Arc::new(Mutex::new(Watch { scrub, excused, sectors, ..Watch::default() })))
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn excuse(&self, excused: Nanos) {
        self.watch().excused = excused;
    }

    /// Checks all sectors, and returns the checks since the last call.
    pub(super) fn look(&self, now: Nanos) -> Verdict {
        let mut watch = self.watch();
        let oldest = watch.sectors.iter().min_by_key(|(_, last)| **last).map(|(sector, _)| *sector);
        if let Some(sector) = oldest {
            watch.check(now, sector..sector + 1);
        }
        std::mem::take(&mut watch.verdict)
    }
}

impl Watch {
    fn check(&mut self, now: Nanos, sectors: Range<u64>) {
        let (Some((_, every)), now) = (self.scrub, now.since(self.excused)) else { return };
        let oldest = self.sectors.range(sectors).min_by_key(|(_, last)| **last);
        let Some((&sector, &last)) = oldest else { return };
        self.verdict.check(Promise::Services, now.since(last) <= every.after(PATIENCE), || {
            format!("sector {sector} was not scrubbed for {}, though everything is to be in {every}", now.since(last))
        });
    }
}

impl Observer for Passes {
    fn called(&mut self, _now: Nanos, _call: &Call) {}

    fn reached(&mut self, now: Nanos, number: u64, stage: Stage) {
        let mut watch = self.watch();
        let Some((class, _)) = watch.scrub else { return };
        match stage {
            Stage::Submitted(request) if request.stream.0 == class && request.operation == Operation::Read => {
                watch.asked.insert(number, request.sector..request.sector + u64::from(request.sectors));
            }
            Stage::Completed(_) => {
                let Some(sectors) = watch.asked.remove(&number) else { return };
                watch.check(now, sectors.clone());
                let now = now.since(watch.excused);
                watch.sectors.range_mut(sectors).for_each(|(_, last)| *last = now.max(*last));
            }
            Stage::Withdrawn => drop(watch.asked.remove(&number)),
            Stage::Arrived | Stage::Submitted(_) | Stage::Dispatched(_) => {}
        }
    }

    fn settled(&mut self, _now: Nanos, _scheduler: &Policy) {}
}
