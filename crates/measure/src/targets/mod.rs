//! Admits tenants with latency targets to a tiered array before it serves them. A promise is kept by `pclock`, a depth, the placement of the
//! tenants' data and limits of all others, or it is refused with the constraint that prevents it.
//!
//! The tenants are the classes of an experiment. A class with `latency` is promised that its p99 is at most that, at its `rate`. Tenants are
//! admitted in the order of the file, each beside those that were admitted before it and beside all classes without a promise.

mod document;
mod rule;
#[cfg(test)]
mod tests;

use ioweir_config::{Flag, FlagForm, Size, keys, read_spec, shown};
use ioweir_device::{DeviceSpec, Placement, TieredSpec};
use ioweir_lab::document::{Document, Origin};
use ioweir_lab::experiment::{ClassSpec, DeviceChoice, Experiment};
use ioweir_lab::run::{Progress, RunError};
use ioweir_lab::spec;

/// The reservation of a tenant, in its rates: less was not judged, and leaves requests outside of the arrival curve.
const RESERVED_MIN: f64 = 1.2;

keys! {
    /// Everything that determines an admission: the same value gives the same bytes. `ioweir advise targets` builds it from its flags.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TargetsSpec {
        /// experiment (TOML) with the tiered array, and the tenants as classes
        experiment: String = (String::new()),
        /// size of the fast tier, in which the data of the tenants are placed: "100GiB"
        fast: Option<Size> = absent => Flag::new("fast", "SIZE", FlagForm::Text).under("The array").always_shown(),
    }
}

impl Default for TargetsSpec {
    fn default() -> Self {
        ioweir_config::defaults()
    }
}

impl TargetsSpec {
    /// The command that does the admission again.
    #[must_use]
    pub fn command(&self) -> String {
        spec::command("advise targets", std::slice::from_ref(&self.experiment), self)
    }

    /// Admits the tenants, simulates the setting, and makes the document. It depends only on the spec, the origin, and the experiment with the
    /// files that it names.
    ///
    /// # Errors
    /// [`RunError`] if a value or the experiment is invalid, or a run fails.
    pub fn run(&self, origin: &Origin, progress: &dyn Progress) -> Result<Document, RunError> {
        let experiment = Experiment::parse(&shown(&self.experiment), &read_spec(&self.experiment)?)?;
        let (tiered, fast) = self.check(&experiment).map_err(|(problem, expected)| {
            RunError::Value(format!("{}: {problem}\n  expected: {expected}", shown(&self.experiment)))
        })?;
        let tenants = rule::Tenants::new(&experiment, tiered, fast.0, progress);
        let found = tenants.admit()?;
        Ok(document::document(self, origin, &experiment.judgement()?, &tenants, &found)?)
    }

    /// The array, and the size of its fast tier; or what is wrong, and what was expected.
    fn check<'a>(&self, experiment: &'a Experiment) -> Result<(&'a TieredSpec, Size), (String, String)> {
        let wrong = |problem: &str, expected: &str| Err((problem.to_owned(), expected.to_owned()));
        if !experiment.sweep.is_empty() {
            return wrong("has a [sweep]", "one experiment");
        }
        if experiment.cores.is_some() {
            return wrong("has [cores], for which this rule was not judged", "tenants and an array");
        }
        let tiered = match &experiment.device {
            DeviceChoice::One(device) => match device.inline() {
                Some(DeviceSpec::Tiered(tiered)) if matches!(tiered.placement, Placement::HitRatio(_)) => tiered,
                _ => {
                    return wrong(
                        "its device does not draw which requests a fast tier serves",
                        "[device.tiered] with placement = { hit_ratio = 0.0 }",
                    );
                }
            },
            DeviceChoice::Several(_) => return wrong("has several devices", "one device; ask for each by itself"),
        };
        if [&tiered.fast, &tiered.slow].iter().any(|tier| tier.model.is_some()) {
            return wrong(
                "a tier is a model of a drive, for which this rule was not judged",
                "tiers with service times, read = \"exponential 10ms\"",
            );
        }
        if !matches!(&experiment.schedulers[..], [scheduler] if scheduler.to_string() == "pclock") {
            return wrong(
                "its schedulers are not pclock alone",
                "schedulers = [\"pclock\"], for which this rule was judged",
            );
        }
        if experiment.classes.iter().all(|class| class.share.latency.is_none()) {
            return wrong("no class has a target", "latency = \"10ms\" in a [[class]], which its p99 is to keep");
        }
        for class in &experiment.classes {
            class_problem(class)
                .map_or(Ok(()), |(problem, expected)| Err((format!("class {}: {problem}", class.name), expected)))?;
        }
        let Some(fast) = self.fast else {
            return wrong("nothing says how large the fast tier is", "its size, such as --fast 100GiB");
        };
        Ok((tiered, fast))
    }
}

/// The problem of a class that the rule does not cover, and what was expected.
fn class_problem(class: &ClassSpec) -> Option<(String, String)> {
    if class.hit_ratio.is_some() {
        return Some((
            "`hit_ratio` is given".into(),
            "none: how much of its data is placed is what is searched for".into(),
        ));
    }
    let rate = match (class.share.latency, class.share.reservation) {
        (None, None) => return None,
        (None, Some(_)) => {
            return Some(("a reservation without `latency`".into(), "both, or neither: a promise is a p99".into()));
        }
        (Some(_), _) => class.rate,
    };
    let Some(rate) = rate.filter(|_| class.swing.is_none() && class.phases.is_empty()) else {
        return Some(("a target without a constant `rate`".into(), "rate = \"500/s\", of its open loop".into()));
    };
    let reserved = class.share.reservation.map_or(0.0, |reserved| reserved.0 as f64) * f64::from(class.clients);
    let needed = RESERVED_MIN * rate.0 as f64;
    (reserved < needed).then(|| {
        let each = (needed / f64::from(class.clients)).ceil();
        (
            "its reservation is less than 1.2 times its rate".into(),
            format!("reservation = \"{each}/s\" or more, for each client"),
        )
    })
}
