//! The cells of a sweep: each resolved when it is asked for, and the plan, which has the names of all in order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use ioweir_config::{Complaint, from_table};
use ioweir_core::policy::PolicyRow;
use ioweir_trace::ReadOptions;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use toml::Value;

use super::spec::{Axis, CELLS_MAX, Kind, Sweep, place};
use crate::compare::{Comparison, Depth, Found, Goal, Ground, Grounds, Who};
use crate::experiment::{Experiment, assign, jobs};
use crate::gate::{Judgement, Witness};
use crate::run::{Job, Origin, RunError, Silent, TraceFiles, TraceMeta, Traffic};
use crate::sim::Load;
use ioweir_device::{DeviceSpec, Standing};

/// The name of a cell: the beginning of a SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(u64);

impl std::fmt::Display for Name {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Only hexadecimal digits are accepted: `from_str_radix` would accept a sign, too.
        let is_name = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = if is_name { u64::from_str_radix(text, 16).ok() } else { None };
        number.map(Self).ok_or_else(|| format!("{text:?} is no name of a cell"))
    }
}

/// Where a cell is in its sweep, and its name. With the sweep this is all that another process needs to run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The point, in order.
    pub point: usize,
    /// The run at this point, in order.
    pub run: usize,
    pub name: Name,
}

/// A sweep whose cells are resolved when they are asked for.
#[derive(Debug)]
pub struct Cells {
    pub(super) sweep: Sweep,
    pub(super) origin: Origin,
    /// The traces found under names, which points share.
    found: Mutex<BTreeMap<String, Found>>,
    /// Traces with the hashes of their files.
    metas: Mutex<BTreeMap<(String, Vec<PathBuf>), TraceMeta>>,
    /// Strings that change with the code of policies from outside, by the policy's name.
    codes: Mutex<BTreeMap<&'static str, String>>,
    /// Traces that have been looked at, by name and volume.
    looks: Mutex<BTreeMap<(String, String), Arc<Look>>>,
    /// The pairs of a trace and a device that cells have, by their names.
    pairs: Mutex<BTreeMap<[String; 3], Pair>>,
    /// The point that was asked for last: the next cell is often at the same.
    last: Mutex<Option<(usize, Arc<Resolved>)>>,
}

/// A trace that has been looked at, with the names of its streams.
#[derive(Debug)]
struct Look {
    witness: Witness,
    streams: Vec<String>,
}

/// A trace and a device that cells bring together.
#[derive(Clone, Debug)]
struct Pair {
    trace: Arc<TraceFiles>,
    device: (Arc<DeviceSpec>, String),
    comparison: Comparison,
    depth_max: u32,
    is_recorded: bool,
}

/// A sweep with every cell resolved and named: nothing in it can be unknown any more.
#[derive(Debug)]
pub struct Plan {
    pub(super) resolved: Cells,
    /// The names of all cells, in order.
    pub(super) names: Vec<Name>,
    /// For each point, the number of its first cell.
    firsts: Vec<usize>,
}

impl Plan {
    /// Resolves every point, and names its cells.
    ///
    /// # Errors
    /// [`RunError`] for the first point that cannot be; with the place in the file where it is the fault of one value.
    pub fn new(sweep: Sweep, origin: &Origin) -> Result<Self, RunError> {
        let cells = Cells::new(sweep, origin);
        let named: Vec<Result<Vec<Name>, RunError>> =
            (0..cells.sweep.points()).into_par_iter().map(|point| cells.names_at(point)).collect();
        let (mut names, mut firsts) = (Vec::new(), Vec::new());
        for (point, found) in named.into_iter().enumerate() {
            firsts.push(names.len());
            names.extend(found.map_err(|error| cells.blamed(point, error))?);
            if names.len() > CELLS_MAX {
                let problem = "stands for too many cells".to_owned();
                let complaint = Complaint::of_all(problem).expected(format!("at most {CELLS_MAX}"));
                return Err(cells.sweep.complain(&complaint).into());
            }
        }
        let mut sorted = names.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let problem = format!("two cells are the same: {}", twice[0]);
            let complaint = Complaint::of_all(problem).expected("values that make a difference");
            return Err(cells.sweep.complain(&complaint).into());
        }
        Ok(Self { resolved: cells, names, firsts })
    }

    /// How many cells there are.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.names.len()
    }

    /// The sweep's cells, which are resolved on demand.
    #[must_use]
    pub fn resolved(&self) -> &Cells {
        &self.resolved
    }

    /// Where each of these cells is, which are given by number.
    pub(super) fn places(&self, cells: impl Iterator<Item = usize>) -> Vec<Place> {
        let place = |cell: usize| {
            let point = self.firsts.partition_point(|first| *first <= cell).saturating_sub(1);
            Place { point, run: cell - self.firsts[point], name: self.names[cell] }
        };
        cells.map(place).collect()
    }
}

impl Cells {
    /// The cells of a sweep. Nothing is looked up yet.
    #[must_use]
    pub fn new(sweep: Sweep, origin: &Origin) -> Self {
        let origin = origin.clone();
        let (found, metas, codes, looks, pairs, last) = Default::default();
        Self { sweep, origin, found, metas, codes, looks, pairs, last }
    }

    /// The whole sweep as TOML, from which another process makes the same cells.
    #[must_use]
    pub fn to_toml(&self) -> String {
        self.sweep.to_toml()
    }

    /// Remarks for the user before the sweep runs, a line each.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notices: Vec<String> =
            self.sweep.left_out.iter().map(|what| format!("left out of the sweep: {what}")).collect();
        let errors = found.values().flat_map(|(_, left_out)| left_out).map(ToString::to_string);
        let lines = errors.map(|error| format!("left out: {}", error.lines().next().unwrap_or_default()));
        notices.extend(lines);
        notices.dedup();
        notices
    }

    /// The traces that were hashed so far, in the order of their names.
    #[must_use]
    pub fn traces(&self) -> Vec<TraceMeta> {
        self.metas.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The first of these cells that has another name here, because an input of it differs.
    ///
    /// # Errors
    /// [`RunError`] if a cell cannot be resolved, as when a trace is missing.
    pub fn first_other(&self, places: &[Place]) -> Result<Option<Place>, RunError> {
        for place in places {
            let resolved = self.at(place.point)?;
            let job = resolved.jobs.get(place.run);
            let name = job.map(|job| self.name(job, resolved.comparison.as_ref())).transpose()?;
            if name != Some(place.name) {
                return Ok(Some(*place));
            }
        }
        Ok(None)
    }

    pub(super) fn at(&self, point: usize) -> Result<Arc<Resolved>, RunError> {
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, resolved)) = last().as_ref().filter(|(number, _)| *number == point) {
            return Ok(Arc::clone(resolved));
        }
        if point >= self.sweep.points() {
            return Err(RunError::Value(format!("the sweep has no point {point}")));
        }
        let resolved = Arc::new(self.resolved(&self.sweep.lists, &self.sweep.at(point))?);
        *last() = Some((point, Arc::clone(&resolved)));
        Ok(resolved)
    }

    /// The base with these lists and values in it.
    fn resolved(&self, lists: &[Axis], set: &[(&str, &Value)]) -> Result<Resolved, RunError> {
        let mut table = self.sweep.base.clone();
        table.extend(lists.iter().map(|list| (list.key.clone(), Value::Array(list.values.clone()))));
        for (key, value) in set {
            assign(&mut table, key, value).map_err(|complaint| RunError::Value(complaint.problem()))?;
        }
        let wrong = |error: toml::de::Error| RunError::Value(error.message().trim_end().to_owned());
        match self.sweep.kind {
            Kind::Experiment => {
                let experiment: Experiment = from_table(&table).map_err(wrong)?;
                Ok(Resolved { jobs: jobs(&experiment)?, comparison: None })
            }
            Kind::Comparison => {
                let comparison: Comparison = from_table(&table).map_err(wrong)?;
                let jobs = comparison.plan_on(|find| self.find(&comparison, find))?.jobs();
                Ok(Resolved { jobs, comparison: Some(comparison) })
            }
        }
    }

    /// The traces of a comparison, which are looked for once, because a folder or a list of volumes may be long.
    fn find(&self, comparison: &Comparison, find: &dyn Fn() -> Result<Found, RunError>) -> Result<Found, RunError> {
        let Comparison { traces, placing, seeds, .. } = comparison;
        let key = format!("{:?}", (traces, &placing.reading, seeds.0.len() > 1));
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = found.get(&key) {
            return Ok(found.clone());
        }
        let new = find()?;
        found.insert(key, new.clone());
        Ok(new)
    }

    fn names_at(&self, point: usize) -> Result<Vec<Name>, RunError> {
        let resolved = self.resolved(&self.sweep.lists, &self.sweep.at(point))?;
        resolved.comparison.iter().for_each(|comparison| self.pair(comparison, &resolved.jobs));
        resolved.jobs.iter().map(|job| self.name(job, resolved.comparison.as_ref())).collect()
    }

    /// Remembers which traces meet which devices.
    fn pair(&self, comparison: &Comparison, jobs: &[Job]) {
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        for job in jobs {
            let Traffic::Trace(trace, load) = &job.traffic else { continue };
            let key = [trace.name(), trace.volume().to_owned(), job.device_name.clone()];
            let pair = pairs.entry(key).or_insert_with(|| Pair {
                trace: Arc::clone(trace),
                device: (Arc::clone(&job.device), job.device_name.clone()),
                comparison: comparison.clone(),
                depth_max: 0,
                is_recorded: false,
            });
            pair.depth_max = pair.depth_max.max(job.limits.depth);
            pair.is_recorded |= *load == Load::RECORDED;
        }
    }

    /// The goal by which the best is chosen: that of the comparison, if it is one of all.
    pub(super) fn goal(&self) -> Goal {
        let goal = self.sweep.base.get("goal").and_then(Value::as_str);
        goal.and_then(|goal| goal.parse().ok()).unwrap_or_default()
    }

    /// The ground of recommendations for each pair of a trace and a device that the named cells have.
    ///
    /// # Errors
    /// [`RunError`] if a trace cannot be read.
    pub(super) fn grounds(&self) -> Result<Vec<Ground>, RunError> {
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let ground = |pair: &Pair| {
            let Pair { trace, device, comparison, depth_max, is_recorded } = pair;
            let look = self.look(trace)?;
            let who = Who::new((comparison.goal, comparison.of.as_deref()), false, &look.witness, &look.streams)?;
            let grounds = Grounds { comparison, trace, witness: &look.witness, who: &who };
            grounds.of(device, &Standing::load(&device.1)?, Some(*depth_max), *is_recorded)
        };
        pairs.values().map(ground).collect()
    }

    /// The decision of the gate on the devices of an experiment, as it is at the first point.
    pub(super) fn judgement(&self) -> Result<Option<Judgement>, RunError> {
        match self.at(0)?.jobs.first().map(|job| &job.traffic) {
            Some(Traffic::Classes(experiment)) => experiment.judgement().map(Some),
            _ => Ok(None),
        }
    }

    /// The requests of a trace that count for the goal.
    pub(super) fn who(&self, trace: &TraceFiles, comparison: &Comparison) -> Result<Who, RunError> {
        let look = self.look(trace)?;
        // A goal that is chosen later may be that of some of the requests.
        Who::new((Goal::Completion, comparison.of.as_deref()), false, &look.witness, &look.streams)
    }

    /// Looks at a trace, which is read once.
    fn look(&self, trace: &TraceFiles) -> Result<Arc<Look>, RunError> {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (trace.name(), trace.volume().to_owned());
        if let Some(look) = looks.get(&key) {
            return Ok(Arc::clone(look));
        }
        let (witness, streams) = trace.witness(&Silent)?;
        let look = Arc::new(Look { witness, streams });
        looks.insert(key, Arc::clone(&look));
        Ok(look)
    }

    /// The hash of everything that the run depends on.
    fn name(&self, job: &Job, comparison: Option<&Comparison>) -> Result<Name, RunError> {
        let mut hash = Sha256::new();
        hash.update(format!("{}\n{}\n", self.origin.version, self.origin.commit));
        for row in [Some(job.scheduler.row), job.scheduler.below.map(|below| below.row)].into_iter().flatten() {
            hash.update(self.code(row)?);
        }
        match (&job.traffic, comparison) {
            (Traffic::Classes(experiment), _) => {
                let alone = Experiment {
                    title: String::new(),
                    goal: None,
                    of: None,
                    schedulers: vec![job.scheduler],
                    seeds: vec![job.seed],
                    ..(**experiment).clone()
                };
                hash.update(alone.to_toml());
                let names: Vec<String> = experiment.classes.iter().filter_map(|class| class.trace.clone()).collect();
                for trace in TraceFiles::find(&names, &ReadOptions::default())? {
                    self.hash_trace(&mut hash, &trace)?;
                }
            }
            (Traffic::Trace(trace, load), comparison) => {
                let mut alone = Comparison {
                    traces: vec![trace.name()],
                    devices: job.device_name.clone().into(),
                    schedulers: vec![job.scheduler],
                    loads: vec![*load],
                    depths: Depth::Of(job.limits.depth).into(),
                    seeds: job.seed.into(),
                    goal: Goal::Completion,
                    ..comparison.cloned().unwrap_or_default()
                };
                alone.placing.reading.volume = Some(trace.volume().to_owned());
                hash.update(format!("{}resampled = {}\n", alone.to_toml(), trace.is_resampled()));
                // Columns of a format may stand in a file.
                let format = alone.placing.reading.format.as_ref().and_then(|format| std::fs::read(format).ok());
                hash.update(format.unwrap_or_default());
                hash.update(job.device.to_toml());
                hash.update(job.fast.as_ref().map_or_else(String::new, |(device, _)| device.to_toml()));
                self.hash_trace(&mut hash, trace)?;
            }
        }
        let digest = hash.finalize();
        Ok(Name(digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))))
    }

    /// The string that changes with the code of a policy from outside; it is asked for once.
    fn code(&self, row: &'static PolicyRow) -> Result<String, RunError> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = codes.get(row.name) {
            return Ok(code.clone());
        }
        let code = row.code().map_err(|problem| {
            let expected = "a policy of which a changed one can be told, so that no part of another is taken for its";
            RunError::Value(format!("policy `{}`: {problem}\n  expected: {expected}", row.name))
        })?;
        codes.insert(row.name, code.clone());
        Ok(code)
    }

    /// Adds the content of a trace, which is read once.
    fn hash_trace(&self, hash: &mut Sha256, trace: &TraceFiles) -> Result<(), RunError> {
        let mut metas = self.metas.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (trace.name(), trace.files().to_vec());
        let meta = match metas.get(&key) {
            Some(meta) => meta,
            None => {
                let meta = trace.meta()?;
                metas.entry(key).or_insert(meta)
            }
        };
        for (name, file) in &meta.files {
            hash.update(format!("{name} {file}\n"));
        }
        Ok(())
    }

    /// An error of a point with the place of the value without which there is none; or else of all values together.
    fn blamed(&self, point: usize, error: RunError) -> RunError {
        let (sweep, set) = (&self.sweep, self.sweep.at(point));
        let about = |place: String, words: String, error: &RunError| {
            let text = error.to_string();
            let (problem, hint) = text.split_once("\n\nhint: ").unwrap_or((&text, ""));
            let problem = if words.is_empty() { problem.to_owned() } else { format!("{words}: {problem}") };
            let complaint =
                if place.is_empty() { Complaint::of_all(problem) } else { Complaint::of_value(place, problem) };
            RunError::Spec(sweep.complain(&complaint.hint(hint)))
        };
        if self.resolved(&[], &[]).is_err_and(|alone| alone == error) {
            return if matches!(error, RunError::Value(_)) {
                about(String::new(), String::new(), &error)
            } else {
                error
            };
        }
        for (number, list) in sweep.lists.iter().enumerate() {
            let mut lists = sweep.lists.clone();
            lists.remove(number);
            let others_do = self.resolved(&lists, &set).is_ok();
            let with = |value: &Value| {
                let alone = Axis { key: list.key.clone(), values: vec![value.clone()] };
                self.resolved(&[&lists[..], &[alone]].concat(), &set).err()
            };
            let tried: Vec<Option<RunError>> = list.values.iter().take(TRIED_MAX).map(with).collect();
            let one_does = tried.iter().any(Option::is_none);
            let wrong = tried.iter().enumerate().find_map(|(at, error)| Some((at, error.as_ref()?)));
            if let Some((at, error)) = wrong.filter(|_| others_do || one_does) {
                let words = format!("{} = {}", list.key, list.values[at]);
                return about(format!("{}[{at}]", place(&list.key)), words, error);
            }
        }
        for (number, (key, value)) in set.iter().enumerate() {
            let mut others = set.clone();
            others.remove(number);
            if self.resolved(&sweep.lists, &others).is_ok() {
                let values = &sweep.axes[number].values;
                let at = values.iter().position(|other| other == *value).unwrap_or(0);
                return about(format!("{}[{at}]", place(key)), format!("{key} = {value}"), &error);
            }
        }
        let words: Vec<String> = set.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        about("sweep".into(), words.join(", "), &error)
    }
}

/// Values of a list that are tried one by one to find the one that is wrong.
const TRIED_MAX: usize = 100;

/// A point of the sweep with every name looked up.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) jobs: Vec<Job>,
    /// The comparison that the runs belong to.
    pub(super) comparison: Option<Comparison>,
}
