//! The spec of a plan: the past load, the policy, and the load that came, where that is known.

use std::path::{Path, PathBuf};

use ioweir_config::{Complaint, Flag, FlagForm, SpecError, format_decimals, keys, plain, read_spec, shown};
use ioweir_core::background::Watermark;
use ioweir_trace::{self as trace, Doubted, Input, ReadOptions};

use super::bound::bound;
use super::document::{Actual, document};
use super::load::{Ahead, Load, LoadForecaster, Outlook, outlooks};
use super::made::{Plan, Setting, plan};
use super::policy::Policy;
use super::replay::{Decider, Replayed, replay};
use super::system::{Demand, Ledger, System};
use crate::forecast::Calendar;
use crate::series::{SeriesOptions, read_inputs, series_of_trace};
use ioweir_lab::document::{Document, Origin, Provenance, TraceMeta};
use ioweir_lab::run::{Progress, RunError, sha256, unless_stopped};
use ioweir_lab::spec::{self, Base, OneOrMore, ReadingKeys};

keys! {
    /// Everything that determines a plan: the same value gives the same bytes. `ioweir plan` builds it from its flags and from
    /// `--spec FILE`, and `ioweir show` prints it with every default.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PlanSpec {
        /// past load of the array: tables of rates in order of time, or a block trace
        series: OneOrMore<String> = (OneOrMore::default()),
        /// actual load of the planned time, in the same form: play the plan on it, replanning in each bin
        replay: OneOrMore<String> = (OneOrMore::default()) => Flag::new("replay", "FILE", FlagForm::Repeated),
        /// policy file (TOML): pool, cores, services and their terms; `ioweir doc plan` lists the keys; in a file also the keys
        /// themselves, in tables such as [policy.pool]
        policy: Option<Base<Policy>> = absent => Flag::new("policy", "FILE", FlagForm::Text),
        ..reading: ReadingKeys,
    }
}

impl Default for PlanSpec {
    fn default() -> Self {
        ioweir_config::defaults()
    }
}

ioweir_lab::spec_file!(
    PlanSpec,
    &[
        (
            "unknown field",
            "`ioweir show FILE` prints a plan with every key; `ioweir doc plan` lists those of its policy"
        ),
        ("with a unit", "sizes and durations are text with a unit: \"40TiB\", \"1h\""),
    ],
    check
);

impl PlanSpec {
    fn check(&self) -> Result<(), Complaint> {
        match &self.policy {
            Some(Base::Inline(policy)) => policy.check().map_err(|complaint| complaint.within("policy")),
            _ => Ok(()),
        }
    }

    /// The policy, read from its file where it has one.
    ///
    /// # Errors
    /// [`RunError`] if there is none, or it is invalid.
    pub fn policy(&self) -> Result<Policy, RunError> {
        self.check()?;
        match &self.policy {
            Some(Base::File(name)) => Ok(Policy::parse(name, &read_spec(name)?)?),
            Some(Base::Inline(policy)) => Ok(policy.clone()),
            None => Err(RunError::Value("no policy is named\n  expected: a policy file, or its keys\n\nhint: --policy FILE names one; `ioweir doc plan` lists its keys".into())),
        }
    }

    /// The command that makes the plan again. A policy without a file is called `POLICY.toml`; its keys are in the provenance.
    #[must_use]
    pub fn command(&self) -> String {
        let named = match &self.policy {
            Some(Base::File(name)) => name.clone(),
            Some(Base::Inline(_)) | None => "POLICY.toml".into(),
        };
        let spec = Self { policy: Some(Base::File(named)), ..self.clone() };
        spec::command("plan", &self.series.0, &spec)
    }

    /// Makes the plan, and plays it on the load that came, if a replay is named.
    ///
    /// # Errors
    /// [`RunError`] if a value or a file is invalid, the series do not fit, or the work is stopped.
    pub fn run(&self, origin: &Origin, progress: &dyn Progress) -> Result<Document, RunError> {
        self.make(origin, progress).map(|(_, document)| document)
    }

    /// Makes the plan, and returns it with its document. A run is the plan, and every bin that it is played on.
    ///
    /// # Errors
    /// As [`PlanSpec::run`].
    pub fn make(&self, origin: &Origin, progress: &dyn Progress) -> Result<(Plan, Document), RunError> {
        let policy = self.policy()?;
        progress.started(1 + if self.replay.0.is_empty() { 0 } else { policy.bins() });
        let history = unless_stopped(progress, self.read(&self.series.0, &policy, progress))?;
        let mut notes = history.notes.clone();
        let mut calendar = policy.forecast.calendar()?;
        if let Some(offset) = history.utc_offset_seconds.filter(|_| calendar.is_of_utc()) {
            // A series that says how far its clock is from UTC is counted by that clock, unless another is named.
            calendar.utc_offset_seconds = offset;
        }
        let case = unless_stopped(progress, Case::new(&policy, &calendar, &history, &mut notes))?;
        let made = plan(&case.system, &case.ledger, &case.outlook, case.setting);
        progress.finished("plan");
        let followed = if self.replay.0.is_empty() {
            None
        } else {
            let actual = unless_stopped(progress, self.read(&self.replay.0, &policy, progress))?;
            notes.extend(actual.notes.iter().map(|note| format!("replay: {note}")));
            Some(unless_stopped(progress, case.follow(&made, &actual, &mut notes, progress))?)
        };
        let meta = self.provenance(origin, &policy)?;
        let fixed = followed.as_ref().map(|(demand, _)| {
            let mut decider = Decider::Watermark { watermark: Watermark::PAPER, harvests: false };
            replay(&case.system, case.ledger.clone(), demand, &mut decider)
        });
        let actual = followed.as_ref().zip(fixed.as_ref()).map(|((demand, replayed), fixed)| {
            let bound = bound(&case.system, &case.ledger, demand);
            Actual { demand, replayed, fixed, bound }
        });
        let document = document(&made, actual, &notes, meta)?;
        Ok((made, document))
    }

    /// Reads a series: a block trace where it is of a known format, and else a table.
    fn read(&self, names: &[String], policy: &Policy, progress: &dyn Progress) -> Result<Load, RunError> {
        let Some(first) = names.first() else {
            return Err(RunError::Value("no series is named\n  expected: at least one file".into()));
        };
        let options = ReadOptions { latency: true, ..self.reading.options()? };
        let paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        if options.format.is_some() || trace::recognise(&paths, &options).is_ok() {
            let mut source = Doubted::new(trace::open(&paths, &options)?);
            let counted = series_of_trace(&mut source, policy.bin_seconds(), first, progress)?;
            return Ok(Load::of_trace(&counted, policy));
        }
        let inputs: Vec<Input> = paths.iter().map(|path| Input::from_path(path)).collect();
        let terms = &policy.load;
        let columns = [&terms.total, &terms.read, &terms.write, &terms.unmap].into_iter().flatten().cloned().collect();
        let options =
            SeriesOptions { bin_seconds: Some(policy.bin_seconds()), columns, kind: terms.samples, total: true };
        let series = read_inputs(&inputs, &options)?;
        Load::of_series(&series, policy).map_err(|error| RunError::Value(format!("{first}: {error}")))
    }

    fn provenance(&self, origin: &Origin, policy: &Policy) -> Result<Provenance, RunError> {
        let mut inputs = Vec::new();
        for name in self.series.0.iter().chain(&self.replay.0) {
            let hash = sha256(Path::new(name))
                .map_err(|error| SpecError::of_file(shown(name), format!("cannot be read: {}", plain(&error)), ""))?;
            inputs.push(TraceMeta { name: name.clone(), format: "series".into(), files: vec![(name.clone(), hash)] });
        }
        Ok(Provenance::new(origin, inputs, vec![("The policy".into(), policy.to_toml())]))
    }
}

/// The inputs of a plan.
struct Case<'a> {
    history: &'a Load,
    forecaster: LoadForecaster,
    outlook: Outlook,
    system: System,
    ledger: Ledger,
    setting: Setting<'a>,
}

impl<'a> Case<'a> {
    fn new(
        policy: &Policy,
        calendar: &'a Calendar,
        history: &'a Load,
        notes: &mut Vec<String>,
    ) -> Result<Self, RunError> {
        let (known, all) = history.known_bins();
        if known == 0 {
            let problem = "no bin of the series holds a value\n  expected: a series with values";
            let hint = "a gap is no load of zero: a plan needs at least some bins that are known";
            return Err(RunError::Value(format!("{problem}\n\nhint: {hint}")));
        }
        if known < all {
            let share = 100.0 * (all - known) as f64 / all as f64;
            notes.push(format!("{} of {all} bins are gaps ({} %)", all - known, format_decimals(share, 1)));
        }
        let quantile = policy.forecast.quantile;
        let mut forecaster = LoadForecaster::new(history, &policy.forecast.forecaster()?, quantile, calendar)
            .map_err(|error| RunError::Value(format!("forecast: {error}")))?;
        forecaster.update(history, 0..all);
        forecaster.refit();
        let outlook = forecaster.outlook(policy.bins());
        notes.extend(outlook.degraded.iter().map(|reason| format!("forecast: {reason}")));
        let start_unix_seconds = history.end_unix_seconds();
        let second_of_day = calendar.local_seconds(start_unix_seconds).rem_euclid(86_400);
        let day_bin = (second_of_day / i64::from(policy.bin_seconds())) as usize;
        let system = System { day_bin, ..policy.system() };
        let ledger = Ledger::new(policy.pool());
        let setting = Setting { start_unix_seconds, block_bytes: policy.pool.block.0, quantile, calendar };
        Ok(Self { history, forecaster, outlook, system, ledger, setting })
    }

    /// Plays the plan on the load that came; where that is unknown, on the expected load.
    fn follow(
        &self,
        made: &Plan,
        actual: &Load,
        notes: &mut Vec<String>,
        progress: &dyn Progress,
    ) -> Result<(Vec<Demand>, Replayed), RunError> {
        let bin = i64::from(self.history.bin_seconds);
        let skipped = (made.start_unix_seconds - actual.start_unix_seconds) / bin;
        let from = usize::try_from(skipped).unwrap_or(0);
        let late = usize::try_from(-skipped).unwrap_or(0);
        let bins = made.bins.len();
        if late >= bins || from >= actual.requests.len() {
            let problem = "what came does not overlap with what was planned";
            return Err(RunError::Value(format!(
                "{problem}\n  expected: a series that continues where the first one ends"
            )));
        }
        let reached = bins.min(late + actual.requests.len() - from);
        let known: Vec<_> =
            (0..reached).map(|at| (at + from).checked_sub(late).and_then(|at| actual.demand(at))).collect();
        let gaps = known.iter().filter(|demand| demand.is_none()).count();
        if gaps > 0 || reached < bins {
            notes
                .push(format!("replay: {reached} of {bins} planned bins came, {gaps} of them gaps, taken as expected"));
        }
        let demand: Vec<Demand> =
            known.into_iter().zip(&self.outlook.expected).map(|(known, expected)| known.unwrap_or(*expected)).collect();
        // The forecaster learns the load that came from the first planned bin on.
        let told = Load { start_unix_seconds: made.start_unix_seconds, ..actual.part(from, late, reached) };
        let mut ahead = outlooks(&told, 0, self.forecaster.clone(), bins, self.setting.calendar);
        // After a stop nothing more is forecast, and without a forecast planning is quick.
        let mut expect = |_: usize| {
            if progress.is_stopped() {
                return Ahead::default();
            }
            progress.finished("bin");
            ahead.next().unwrap_or_default()
        };
        let system = System { resident_cores: made.resident_cores, ..self.system.clone() };
        let replayed = replay(&system, self.ledger.clone(), &demand, &mut Decider::Planner(&mut expect));
        Ok((demand, replayed))
    }
}
