//! Makes advice: reads the trace, searches, judges, and combines the results.

use std::sync::Arc;

use ioweir_core::tenant::GroupId;
use ioweir_core::{Nanos, QueueLimits, SECTOR_BYTES};
use ioweir_device::calibration::{Calibration, Observed};
use ioweir_device::{DeviceFile, DeviceSpec, Standing};
use ioweir_trace::{ReadOptions, Record, TraceError};
use serde_json::Value;

use super::bench::{Bench, CLOSED, LOADS, Measures, RECORDED};
use super::cgroups;
use super::confirm::{Rounds, Verdict};
use super::document::document;
use super::host::{Step, steps};
use super::matter::{Share, shares};
use super::own_error::{ClassError, own_error};
use super::pauses::{Paused, Pauses};
use super::pieces::Pieces;
use super::search::{Search, Searched};
use super::space::{Candidate, Setup};
use super::spec::{ANY_DEVICE, AdviseSpec, Bound, is_device_name};
use ioweir_lab::compare::{Goal, Who, reason_between};
use ioweir_lab::document::{Document, Origin, TraceMeta};
use ioweir_lab::gate::{Evidence, Judgement, Witness, judge};
use ioweir_lab::run::{MIX_PREFIX, Progress, RunError, TraceFiles};
use ioweir_lab::sim::{Accountant, Load, Waits};
use ioweir_lab::spec::arguments;
use ioweir_lab::workload::MIXES;

/// Requests that all streams together keep outstanding in the closed loop, if nothing else is asked for.
const OUTSTANDING: u64 = 16;
/// The most schedulers that are judged as they come, and settings that were found for other schedulers than the best.
const PLAIN_MAX: usize = 6;
const TUNED_MAX: usize = 3;
/// Candidates of the search that are on the front, if they belong there.
const FRONT_MAX: usize = 16;
/// The most requests that a queue may be said to hold.
const QUEUE_REQUESTS_MAX: u32 = 1 << 14;

/// A candidate's place, with its lines.
type Beside = (usize, Vec<Step>);

/// The results that advice is made from.
pub(super) struct Report<'a> {
    pub(super) spec: &'a AdviseSpec,
    pub(super) base: Setup,
    pub(super) loads: [Load; LOADS],
    pub(super) pieces: Pieces,
    pub(super) traces: Vec<TraceMeta>,
    /// Whether traffic was generated, as there was no trace.
    pub(super) is_generated: bool,
    /// Whether the device has a calibration.
    pub(super) is_calibrated: bool,
    pub(super) error: Vec<ClassError>,
    pub(super) searched: Searched,
    pub(super) shares: Vec<Share>,
    pub(super) rounds: Rounds,
    /// The place of what to set; the first is to leave it.
    pub(super) choice: usize,
    pub(super) front: Vec<FrontPoint>,
    pub(super) steps: Vec<Step>,
    /// The best that only the server has beside a choice that Linux has, or the other way round, with its lines.
    pub(super) beside: Option<Beside>,
    /// Why the choice is better.
    pub(super) reason: Option<String>,
    /// The think time of the streams, if the trace shows it.
    pub(super) think: Option<Nanos>,
    /// How the advice depends on the think time.
    pub(super) pauses: Vec<Paused>,
    /// The owners of the requests that count for the goal, if not everybody's.
    pub(super) of: Option<String>,
    /// The standing of the device model, and the decision of the gate.
    pub(super) standing: Standing,
    pub(super) judgement: Judgement,
}

/// A candidate's throughput and p99 of reads in the closed loop, on the half that the search did not see.
pub(super) struct FrontPoint {
    pub(super) candidate: Candidate,
    pub(super) throughput: f64,
    pub(super) read_p99_seconds: f64,
    /// Whether no other has more throughput at no longer a p99, and none that changes less has the same.
    pub(super) is_front: bool,
}

impl AdviseSpec {
    /// Makes the advice. The document depends only on the spec, the origin and the named files.
    ///
    /// # Errors
    /// [`RunError`] if a value or a file is invalid, or a run fails.
    pub fn run(&self, origin: &Origin, progress: &dyn Progress) -> Result<Document, RunError> {
        self.run_on(&self.find()?.0, origin, progress)
    }

    /// Runs on traces that [`AdviseSpec::find`] has found.
    ///
    /// # Errors
    /// As [`AdviseSpec::run`].
    pub fn run_on(
        &self,
        traces: &[TraceFiles],
        origin: &Origin,
        progress: &dyn Progress,
    ) -> Result<Document, RunError> {
        let spec = self.told_by(traces)?;
        Ok(document(&spec.report(traces, progress)?, origin)?)
    }

    /// Completes the spec with the device on which a trace was recorded: its scheduler and its name, where the user named no others.
    fn told_by(&self, files: &[TraceFiles]) -> Result<Self, RunError> {
        let mut spec = self.clone();
        for file in files {
            if let Some(about) = file.description()? {
                spec.hear(&about);
            }
        }
        Ok(spec)
    }

    /// Takes over the description of a trace, a JSON object, where the user named nothing else.
    pub(super) fn hear(&mut self, about: &str) {
        let about: Value = serde_json::from_str(about).unwrap_or_default();
        let said = |key: &str| about.pointer(&format!("/device/{key}")).and_then(Value::as_str);
        if self.recorded_under.is_none() {
            self.recorded_under = said("scheduler").and_then(|name| name.parse().ok());
        }
        if self.host_device == ANY_DEVICE
            && let Some(name) = said("name").filter(|name| is_device_name(name))
        {
            name.clone_into(&mut self.host_device);
        }
    }

    fn queue(&self, device: &DeviceSpec) -> Result<QueueLimits, RunError> {
        let bytes = self.request_bytes_max.0;
        let sectors = u32::try_from(bytes / SECTOR_BYTES).ok().filter(|sectors| (8..=1 << 21).contains(sectors));
        let Some(request_sectors_max) = sectors.filter(|_| bytes.is_multiple_of(SECTOR_BYTES)) else {
            let text = self.request_bytes_max;
            return Err(RunError::Value(format!("largest request {text}\n  expected: whole sectors, 4KiB to 1GiB")));
        };
        if !(1..=QUEUE_REQUESTS_MAX).contains(&self.queue_requests) {
            let problem = format!("queue_requests is {}\n  expected: 1 to {QUEUE_REQUESTS_MAX}", self.queue_requests);
            return Err(RunError::Value(problem));
        }
        let depth = device.queue_depth();
        Ok(QueueLimits { depth, request_sectors_max, ..QueueLimits::with_requests(self.queue_requests) })
    }

    /// The traces to advise on, and the files of folders that are no traces, with the reasons. A folder stands for the traces in it; where
    /// no trace is named, the generated mixes are taken.
    ///
    /// # Errors
    /// [`RunError`] if there is no such trace, or a folder holds none.
    pub fn find(&self) -> Result<(Vec<TraceFiles>, Vec<TraceError>), RunError> {
        let mixes = || MIXES.iter().map(|mix| format!("{MIX_PREFIX}{}", mix.name)).collect();
        let names: Vec<String> = if self.traces.is_empty() { mixes() } else { self.traces.clone() };
        let options = ReadOptions { latency: true, ..self.placing.reading.options()? };
        TraceFiles::find_all(&names, &options, false)
    }

    /// The candidate that changes nothing: the scheduler of the trace, or the one that current Linux chooses for such a device.
    pub(super) fn leave(&self, device: &DeviceSpec) -> Result<Candidate, RunError> {
        let usual = if device.rotates() { "mq-deadline" } else { "none" };
        let choice = self.recorded_under.map_or_else(|| usual.parse(), Ok)?;
        Ok(Candidate::of(choice))
    }

    pub(super) fn report(&self, files: &[TraceFiles], progress: &dyn Progress) -> Result<Report<'_>, RunError> {
        self.check()?;
        let file = DeviceFile::load(&self.device)?;
        let standing = Standing::of(&self.device, &file);
        let DeviceFile { spec: device, calibration } = file;
        let base = Setup { limits: self.queue(&device)?, device };
        let leave = self.leave(&base.device)?;
        let plain: Vec<Candidate> = self.candidates().into_iter().map(Candidate::of).collect();
        let budget = self.budget as usize;
        progress.started(budget + self.runs_of(plain.len().min(PLAIN_MAX) + TUNED_MAX));
        let sectors = base.device.build(self.seed)?.sectors();
        let is_generated = self.traces.is_empty();
        let pieces = Pieces::read(files, (self.seed, sectors, self.placing.fold || is_generated), progress)?;
        let think = pieces.think();
        let loads = self.loads(pieces.streams, think);
        let witness = pieces.witness();
        let who = pieces.who((self.goal, self.of.as_deref()), &witness)?;
        let tenants = self.tenants(&who, &pieces)?;
        let (device_name, lenient) = (self.device.clone(), self.placing.reading.lenient);
        let bench = Bench { base, device_name, loads, lenient, who: &who, tenants, progress };
        let error = own_error(&bench, &pieces, &leave, self.seed)?;
        let search = Search {
            bench: &bench,
            pieces: &pieces,
            goal: self.goal,
            bound: self.bound,
            seed: self.seed,
            budget,
            leave: &leave,
            plain: &plain,
        };
        let searched = search.run()?;
        let mut candidates = finalists(&leave, &plain, &searched);
        candidates.extend(cgroups::ways(self, &bench, &pieces, &leave)?);
        progress.started(searched.runs + self.runs_of(candidates.len()));
        let draw = |seed: u64| drawn(calibration.as_ref(), &bench.base.device, seed);
        let rounds = Rounds::run(&bench, candidates, &pieces.unseen(true), self.seed, self.rounds, &draw)?;
        let outside = calibration.as_ref().map_or_else(Vec::new, |known| known.range.outside(&seen(&pieces)));
        let about = (&witness, pieces.folded, is_generated);
        let judgement = self.judgement(&standing, &bench, (about, files), outside)?;
        let choice = self.choice(&rounds);
        let pauses = Pauses { bench: &bench, think, goal: self.goal, seed: self.seed, rounds: self.rounds };
        let pauses = pauses.run(&rounds.candidates, choice, &pieces.unseen(true), &draw)?;
        let front = front(&bench, &pieces, &rounds.candidates, &searched, self.seed)?;
        let reason = if choice == 0 { None } else { self.reason(&bench, &pieces, &rounds, choice)? };
        let set = Some(choice).filter(|choice| *choice > 0 && judgement.recommends());
        let (steps, beside) = set.map_or_else(Default::default, |at| self.lines(&rounds, at, (&leave, &bench.base)));
        Ok(Report {
            spec: self,
            loads,
            traces: files.iter().map(TraceFiles::meta).collect::<Result<_, TraceError>>()?,
            is_generated,
            is_calibrated: calibration.is_some(),
            error,
            shares: shares(&searched.samples, &plain, &bench.base),
            searched,
            rounds,
            choice,
            front,
            steps,
            beside,
            reason,
            think,
            pauses,
            of: who.words.clone(),
            standing,
            judgement,
            base: bench.base,
            pieces,
        })
    }

    /// The cgroup of each stream; nobody's where no cgroups are tried.
    fn tenants(&self, who: &Who, pieces: &Pieces) -> Result<Arc<Vec<GroupId>>, RunError> {
        if self.cgroups && who.named_streams().is_none() {
            let expected = "--of with the name of a stream, which is to be protected from all others";
            return Err(RunError::Value(format!(
                "cgroups are to be tried, and nobody is named\n  expected: {expected}"
            )));
        }
        Ok(Arc::new(cgroups::tenants(who, pieces)))
    }

    /// The place of the candidate to recommend.
    fn choice(&self, rounds: &Rounds) -> usize {
        match self.bound {
            Some(bound) if self.cgroups => rounds.cheapest(self.goal, bound),
            bound => rounds.choice(self.goal, bound),
        }
    }

    /// The lines for the choice, and for the best on the other side, of Linux's and of the server's.
    fn lines(
        &self,
        rounds: &Rounds,
        choice: usize,
        (leave, base): (&Candidate, &Setup),
    ) -> (Vec<Step>, Option<Beside>) {
        let of = |at: usize| match &rounds.candidates[at] {
            candidate if candidate.cgroups.is_some() => cgroups::lines(candidate, leave, self),
            candidate => steps(candidate, leave, base, self),
        };
        let other = other_side(rounds, choice, (self.goal, self.bound)).filter(|_| self.cgroups);
        (of(choice), other.map(|at| (at, of(at))))
    }

    /// The open load, and a closed loop of so many streams that think so long.
    fn loads(&self, streams: u64, think: Option<Nanos>) -> [Load; LOADS] {
        let usual = u32::try_from(OUTSTANDING.div_ceil(streams.max(1))).unwrap_or(1);
        let outstanding = self.closed.unwrap_or(usual);
        [self.load, Load::Closed { outstanding, pause: think.unwrap_or(Nanos::ZERO) }]
    }

    /// The number of runs that judge so many candidates.
    fn runs_of(&self, candidates: usize) -> usize {
        self.rounds as usize * candidates * LOADS + Pauses::runs(self.rounds, candidates)
    }

    /// Why the choice is better than leaving it, under the load that tells them apart more.
    fn reason(
        &self,
        bench: &Bench<'_>,
        pieces: &Pieces,
        rounds: &Rounds,
        choice: usize,
    ) -> Result<Option<String>, RunError> {
        let change = |load: usize| rounds.under(choice, self.goal, load).mean;
        let load = if change(RECORDED) < change(CLOSED) { RECORDED } else { CLOSED };
        let trace = pieces.unseen(false);
        let account = |at: usize| {
            let job = bench.jobs(&rounds.candidates[at], &trace, self.seed, &bench.base).swap_remove(load);
            let waits = Waits::new(job.clients(), job.scheduler.row.knows_shares);
            let choose = |record: &Record, set: &mut dyn FnMut(usize)| {
                if bench.who.counts(record) {
                    set(0);
                }
            };
            let mut accountant = Accountant::new(waits, 1, choose);
            job.run(false, bench.progress, &mut accountant)?;
            Ok::<_, RunError>(accountant.accounts.swap_remove(0))
        };
        let leave = rounds.candidates[0].to_string();
        let why = reason_between(self.goal, &account(choice)?, (&leave, &account(0)?));
        let load = self.load_name(load, bench);
        Ok((!why.is_empty()).then(|| format!("under {load} {why}")))
    }

    /// The decision of the gate about this device and this trace.
    fn judgement(
        &self,
        standing: &Standing,
        bench: &Bench<'_>,
        ((witness, folded, is_generated), files): ((&Witness, u64, bool), &[TraceFiles]),
        outside: Vec<String>,
    ) -> Result<Judgement, RunError> {
        let files: Vec<String> =
            files.iter().flat_map(|file| file.files().iter().map(|file| file.display().to_string())).collect();
        let source = if files.is_empty() { String::new() } else { arguments(&files, &self.placing.reading) };
        let known = witness.evidence(&bench.base.device, source)?;
        Ok(judge(standing, &Evidence { is_generated, outside, folded, ..known }))
    }

    fn load_name(&self, load: usize, bench: &Bench<'_>) -> String {
        match bench.loads[load] {
            Load::RECORDED => "the recorded load".into(),
            load => load.to_string(),
        }
    }
}

impl Report<'_> {
    /// The goal as the subject of a sentence, with whose requests count.
    pub(super) fn noun(&self, goal: Goal) -> String {
        match &self.of {
            Some(of) if goal != Goal::Busy => format!("{} of {of}", goal.noun()),
            _ => goal.noun().into(),
        }
    }
}

/// A device that explains the calibration nearly as well; the device itself where there is none.
fn drawn(calibration: Option<&Calibration>, device: &DeviceSpec, seed: u64) -> DeviceSpec {
    calibration.map_or_else(|| device.clone(), |calibration| calibration.draw(device, seed))
}

/// The range of the requests that were kept.
fn seen(pieces: &Pieces) -> ioweir_device::calibration::Range {
    let mut observed = Observed::default();
    for record in pieces.records() {
        let Nanos(time) = record.time;
        observed.add(time, record.operation, record.offset_bytes, record.length_bytes);
    }
    observed.range()
}

/// The candidates to judge: leaving it, schedulers with default parameters, the best that was found, and the best of some others.
fn finalists(leave: &Candidate, plain: &[Candidate], searched: &Searched) -> Vec<Candidate> {
    let is_plain = |candidate: &&Candidate| plain.contains(candidate);
    let found = || searched.best.iter().map(|sample| &sample.candidate).filter(|candidate| *candidate != leave);
    let mut chosen: Vec<Candidate> = found().filter(is_plain).take(PLAIN_MAX).cloned().collect();
    let mut families: Vec<String> = Vec::new();
    for candidate in found().filter(|candidate| !is_plain(candidate)) {
        if families.len() < TUNED_MAX && !families.contains(&candidate.family()) {
            families.push(candidate.family());
            chosen.push(candidate.clone());
        }
    }
    // Of equal candidates the one that changes less comes first, whatever the order in which they were found.
    chosen.sort_by_key(|candidate| (candidate.changes(), candidate.to_string()));
    std::iter::once(leave.clone()).chain(chosen).collect()
}

/// The best of what is shown to be better on the other side than the choice, of Linux's and of the server's.
fn other_side(rounds: &Rounds, choice: usize, (goal, bound): (Goal, Option<Bound>)) -> Option<usize> {
    let is_served = |at: usize| rounds.candidates[at].only_served();
    let better = (1..rounds.candidates.len()).filter(|at| rounds.verdict(*at, goal, bound) == Verdict::Better);
    let value = |at: &usize| rounds.over_both(*at, goal).mean;
    better.filter(|at| is_served(*at) != is_served(choice)).min_by(|one, other| value(one).total_cmp(&value(other)))
}

/// Throughput against the p99 of reads in the closed loop; empty if the trace has no reads.
fn front(
    bench: &Bench<'_>,
    pieces: &Pieces,
    judged: &[Candidate],
    searched: &Searched,
    seed: u64,
) -> Result<Vec<FrontPoint>, RunError> {
    let mut candidates: Vec<&Candidate> = judged.iter().collect();
    for sample in searched.best.iter().take(FRONT_MAX) {
        if !candidates.contains(&&sample.candidate) {
            candidates.push(&sample.candidate);
        }
    }
    let measures = bench.measure(&candidates, &pieces.unseen(false), seed)?;
    let numbers = |own: &Measures| Some((own[CLOSED].throughput, own[CLOSED].value(Goal::ReadP99)?));
    let points: Vec<(&Candidate, (f64, f64))> =
        candidates.into_iter().zip(&measures).filter_map(|(candidate, own)| Some((candidate, numbers(own)?))).collect();
    let point = |(at, (candidate, own)): (usize, &(&Candidate, (f64, f64)))| {
        let beats = |other: &(f64, f64)| other.0 >= own.0 && other.1 <= own.1 && other != own;
        // Of equal candidates the one that changes less is shown, and leaving everything comes first.
        let is_before = |(place, (other, _)): (usize, &(&Candidate, (f64, f64)))| {
            (other.changes(), place) < (candidate.changes(), at)
        };
        let hides =
            |other: (usize, &(&Candidate, (f64, f64)))| beats(&other.1.1) || (other.1.1 == *own && is_before(other));
        FrontPoint {
            candidate: (*candidate).clone(),
            throughput: own.0,
            read_p99_seconds: own.1,
            is_front: !points.iter().enumerate().any(hides),
        }
    };
    let mut front: Vec<FrontPoint> = points.iter().enumerate().map(point).collect();
    front.sort_by(|one, other| {
        let lower = one.read_p99_seconds.total_cmp(&other.read_p99_seconds);
        lower
            .then(one.throughput.total_cmp(&other.throughput))
            .then_with(|| one.candidate.to_string().cmp(&other.candidate.to_string()))
    });
    Ok(front)
}
