//! The rule: a promise is admitted if the p99 of service alone is within its target where its data lie, and no tier is utilised beyond a
//! limit by the tenants with promises. What a search over settings adds to it did not pay
//! (`experiments/reward/latency-target`).

use std::cell::RefCell;
use std::collections::BTreeMap;

use ioweir_config::{Rate, Ratio};
use ioweir_device::TieredSpec;
use ioweir_lab::experiment::{ClassSpec, Experiment, METRICS, Summary, run};
use ioweir_lab::run::{Origin, Progress, RunError};

use crate::advise::Within;

/// The part of each tier's capacity up to which promises are admitted: chosen on the first set of cases of the experiment.
const UTILISED_MAX: f64 = 0.7;
/// The part of the slow tier that classes without a promise get together.
const OTHERS: f64 = 0.1;
/// A rate counts as kept from this share on, because arrivals and completions at the ends of a run differ.
const SERVED_MIN: f64 = 0.95;
/// Requests outstanding for each that a tier serves at once, where its capacity is measured.
const SATURATING: u32 = 4;

/// The results of a tenant, in the mean over seeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Got {
    pub(super) class: usize,
    /// None if a run served no request.
    pub(super) p99_seconds: Option<f64>,
    pub(super) per_second: f64,
}

/// The constraint that prevents a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Binding {
    /// The device, with all of the tenant's data in the fast tier and nobody beside it.
    Device,
    /// The room of the fast tier, even if the tenant has all of it.
    Room,
    /// The room of the fast tier that the tenant shares with those that were admitted before.
    RoomBeside,
    /// The requests of the tenants that were admitted before.
    Admitted,
}

/// The reason why a set of tenants cannot all be promised their targets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lack {
    /// The p99 of a class alone exceeds its target.
    Late { class: usize, p99_seconds: f64 },
    /// A tier is utilised to this part, beyond the limit.
    Utilised(f64),
}

/// A refused promise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) class: usize,
    pub(super) binding: Binding,
    pub(super) lack: Lack,
}

/// The result of an admission.
pub(super) struct Found {
    /// The experiment of the setting, with the admitted tenants and those without a promise; none if there is no tenant.
    pub(super) setting: Option<Experiment>,
    /// The bytes of each class of the file that lie in the fast tier.
    pub(super) placed: Vec<u64>,
    pub(super) refused: Vec<Refusal>,
    /// The results of a simulation of the setting, for each of its tenants. The rule does not depend on them.
    pub(super) got: Vec<Got>,
}

/// The tenants of an experiment, and the tiers of its device.
pub(super) struct Tenants<'a> {
    pub(super) experiment: &'a Experiment,
    fast_bytes: u64,
    /// The requests that are served at once: by the device, the fast tier and the slow tier.
    served: [u32; 3],
    /// The size of each class's data.
    pub(super) bytes: Vec<u64>,
    /// The p99 of each class alone, by the part of its data in the fast tier.
    alone: RefCell<BTreeMap<(usize, u64), f64>>,
    /// The rate that each class gets from each tier alone.
    capacities: RefCell<BTreeMap<(usize, bool), f64>>,
    progress: Within<'a>,
}

/// Whether a class is promised anything.
pub(super) fn has_promise(class: &ClassSpec) -> bool {
    class.share.latency.is_some()
}

impl<'a> Tenants<'a> {
    pub(super) fn new(
        experiment: &'a Experiment,
        tiered: &TieredSpec,
        fast_bytes: u64,
        progress: &'a dyn Progress,
    ) -> Self {
        let device = tiered.capacity.0;
        let bytes =
            |class: &ClassSpec| class.region.map_or(device, |region| region.to.0.saturating_sub(region.from.0)).max(1);
        let (fast, slow) = (tiered.fast.depth, tiered.slow.depth);
        let all = if tiered.serial { 1 } else { fast.saturating_add(slow) };
        Self {
            experiment,
            fast_bytes,
            served: [all, fast, slow],
            bytes: experiment.classes.iter().map(bytes).collect(),
            alone: RefCell::default(),
            capacities: RefCell::default(),
            progress: Within::announced(progress),
        }
    }

    pub(super) fn class(&self, class: usize) -> &ClassSpec {
        &self.experiment.classes[class]
    }

    /// Admits the tenants in the order of the file.
    pub(super) fn admit(&self) -> Result<Found, RunError> {
        let (promised, others): (Vec<usize>, Vec<usize>) =
            (0..self.experiment.classes.len()).partition(|class| has_promise(self.class(*class)));
        let (mut admitted, mut refused) = (Vec::new(), Vec::new());
        for class in promised {
            match self.refusal(class, &admitted)? {
                None => admitted.push(class),
                Some(refusal) => refused.push(refusal),
            }
        }
        let set: Vec<usize> = admitted.into_iter().chain(others).collect();
        let placed = self.placed(&set, self.fast_bytes);
        let (setting, got) = match &set[..] {
            [] => (None, Vec::new()),
            set => {
                let setting = self.setting(set, &placed)?;
                let summary = self.ran(&setting)?;
                (Some(setting), set.iter().map(|class| got(&summary, *class, &self.class(*class).name)).collect())
            }
        };
        Ok(Found { setting, placed, refused, got })
    }

    /// Whether a tenant got what it is promised. Independent arrivals of a run are rarely further below their rate than three times the root
    /// of their number.
    pub(super) fn has(&self, got: &Got) -> bool {
        let class = self.class(got.class);
        let target = class.share.latency.map_or(f64::INFINITY, |target| target.nanos().as_seconds());
        let span = self.experiment.duration.nanos().since(self.experiment.warm_up.nanos()).as_seconds();
        let asked = class.rate.map_or(0.0, |rate| rate.0 as f64);
        got.p99_seconds.is_some_and(|p99| p99 <= target)
            && got.per_second >= SERVED_MIN * (asked - 3.0 * (asked / span).sqrt())
    }

    /// Why a promise is refused beside those that were admitted before; none if it is admitted.
    fn refusal(&self, class: usize, admitted: &[usize]) -> Result<Option<Refusal>, RunError> {
        let beside: Vec<usize> = admitted.iter().chain([&class]).copied().collect();
        let steps: [(Binding, &[usize], u64); 4] = [
            (Binding::Device, &[class], u64::MAX),
            (Binding::Room, &[class], self.fast_bytes),
            (Binding::Admitted, &beside, u64::MAX),
            (Binding::RoomBeside, &beside, self.fast_bytes),
        ];
        for (binding, set, fast_bytes) in steps {
            if let Some(lack) = self.lack(set, &self.placed(set, fast_bytes))? {
                return Ok(Some(Refusal { class, binding, lack }));
            }
        }
        Ok(None)
    }

    /// The first thing that tenants with promises lack, with so many bytes of each in the fast tier.
    fn lack(&self, set: &[usize], placed: &[u64]) -> Result<Option<Lack>, RunError> {
        for &class in set {
            let p99_seconds = self.alone(class, placed[class])?;
            if self.class(class).share.latency.is_some_and(|target| p99_seconds > target.nanos().as_seconds()) {
                return Ok(Some(Lack::Late { class, p99_seconds }));
            }
        }
        let utilised = self.utilised(set, placed)?;
        Ok((utilised > UTILISED_MAX).then_some(Lack::Utilised(utilised)))
    }

    /// The bytes of each class in a fast tier of a size, where the data of the smallest targets lie first, and those of tenants without a
    /// target last.
    fn placed(&self, set: &[usize], fast_bytes: u64) -> Vec<u64> {
        let mut placed = vec![0; self.bytes.len()];
        let mut set = set.to_vec();
        set.sort_by_key(|class| (self.class(*class).share.latency.map_or(u64::MAX, |target| target.nanos().0), *class));
        let mut left = fast_bytes;
        for class in set {
            placed[class] = self.bytes[class].min(left);
            left -= placed[class];
        }
        placed
    }

    fn hit_ratio(&self, class: usize, placed: u64) -> f64 {
        (placed as f64 / self.bytes[class] as f64).min(1.0)
    }

    /// The utilisation of the busier tier by tenants with a rate.
    fn utilised(&self, set: &[usize], placed: &[u64]) -> Result<f64, RunError> {
        let mut tiers = [0.0; 2];
        for class in set {
            let (rate, hits) =
                (self.class(*class).rate.map_or(0.0, |rate| rate.0 as f64), self.hit_ratio(*class, placed[*class]));
            for (tier, (is_fast, share)) in tiers.iter_mut().zip([(true, hits), (false, 1.0 - hits)]) {
                if share > 0.0 {
                    *tier += rate * share / self.capacity(*class, is_fast)?;
                }
            }
        }
        Ok(f64::max(tiers[0], tiers[1]))
    }

    /// The p99 of a class whose requests come one at a time and to nobody else's, with so many of its bytes in the fast tier.
    fn alone(&self, class: usize, placed: u64) -> Result<f64, RunError> {
        if let Some(known) = self.alone.borrow().get(&(class, placed)) {
            return Ok(*known);
        }
        let got = self.measured(class, self.hit_ratio(class, placed), 1)?;
        let p99 = got.p99_seconds.unwrap_or(f64::INFINITY);
        self.alone.borrow_mut().insert((class, placed), p99);
        Ok(p99)
    }

    /// The requests of a class that a tier serves in a second if it is never idle.
    fn capacity(&self, class: usize, is_fast: bool) -> Result<f64, RunError> {
        if let Some(known) = self.capacities.borrow().get(&(class, is_fast)) {
            return Ok(*known);
        }
        let [all, fast, slow] = self.served;
        let served = if is_fast { fast } else { slow }.min(all);
        let got = self.measured(class, f64::from(u8::from(is_fast)), served.saturating_mul(SATURATING))?;
        self.capacities.borrow_mut().insert((class, is_fast), got.per_second);
        Ok(got.per_second)
    }

    /// The results of a class that keeps so many requests outstanding, with nobody beside it.
    fn measured(&self, class: usize, hits: f64, outstanding: u32) -> Result<Got, RunError> {
        let its = self.class(class);
        let closed = ClassSpec {
            clients: 1,
            backlog: Some(outstanding),
            rate: None,
            hit_ratio: Ratio::new(hits),
            share: <_>::default(),
            ..its.clone()
        };
        let summary = self.ran(&Experiment { classes: vec![closed], depth: outstanding, ..self.plain() })?;
        Ok(got(&summary, class, &its.name))
    }

    /// The setting for a set of tenants.
    fn setting(&self, set: &[usize], placed: &[u64]) -> Result<Experiment, RunError> {
        let others = set.iter().filter(|class| !has_promise(self.class(**class))).count();
        let mut classes = Vec::new();
        for &class in set {
            let mut its = self.class(class).clone();
            its.hit_ratio = Ratio::new(self.hit_ratio(class, placed[class]));
            if !has_promise(&its) {
                let rate = OTHERS * self.capacity(class, false)? / others as f64 / f64::from(its.clients);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of requests")]
                let limit = (rate.round() as u64).clamp(1, its.share.limit.map_or(u64::MAX, |limit| limit.0.max(1)));
                its.share.limit = Some(Rate(limit));
            }
            classes.push(its);
        }
        Ok(Experiment { classes, depth: self.experiment.depth.min(self.served[0]), ..self.plain() })
    }

    /// The experiment without what judges it.
    fn plain(&self) -> Experiment {
        Experiment { expectations: Vec::new(), goal: None, of: None, ..self.experiment.clone() }
    }

    fn ran(&self, experiment: &Experiment) -> Result<Summary, RunError> {
        let origin = Origin { version: String::new(), commit: String::new(), command: String::new() };
        let mut summaries = run(experiment, &origin, &self.progress)?.summaries;
        Ok(summaries.remove(0))
    }
}

/// The results of a class in the mean over seeds.
fn got(summary: &Summary, class: usize, name: &str) -> Got {
    let mean = |metric: &str| -> Option<f64> {
        let metric = METRICS.iter().find(|known| known.name == metric)?;
        let figures: Option<Vec<f64>> = summary.cells.iter().map(|cell| metric.of(cell, Some(name))).collect();
        figures.map(|figures| figures.iter().sum::<f64>() / figures.len() as f64)
    };
    Got { class, p99_seconds: mean("latency_p99"), per_second: mean("iops").unwrap_or(0.0) }
}
