//! Calibration: a device model fitted to a trace with latencies or to probes, with its error on the part that the fit did not see.

mod document;
mod probed;
mod settings;
mod spec;
mod units;

use ioweir_config::{SpecError, to_table};
use ioweir_core::{Operation, SECTOR_BYTES};
use ioweir_device::calibration::{ClassError, Pairs, Parameter, Part, Range, Source};
use ioweir_device::fit::table::{DISK, DISK_QUEUED, DISK_TRACED, FLASH, Row, Values};
use ioweir_device::fit::{Effort, Ensemble, Fit, Groups, Point, UNKNOWN_DISK, evolve, start};
use ioweir_device::parameter::{self, Amount};
use ioweir_device::validate::{Load, Measured, Validation, blended, pairs, tabled};
use ioweir_device::{Calibration, DeviceFile, DeviceSpec, Verdict};
use rayon::prelude::*;

use crate::validation::{MeasuredTrace, range_of};
use ioweir_config::{Duration, Size};
use ioweir_lab::document::Provenance;
use ioweir_lab::run::{Origin, Progress, RunError, fold_measured, meta_of};

pub use probed::Probed;
pub use settings::{DEPTH as SETTINGS_DEPTH, Settings, settings};
pub use spec::{CalibrationSpec, Kind};

/// The fewest requests: the two halves of fewer say nothing about each other.
const REQUESTS_MIN: usize = 200;
/// The fewest requests after a pause that show whether a drive sleeps meanwhile.
const PAUSES_MIN: usize = 25;
/// After how long a flash drive sleeps, and the time that it takes to wake.
const WAKE_IDLE: &str = "ssd.wake.idle";
const WAKE_TAKES: &str = "ssd.wake.takes";
/// How the intervals of parameters are found, for the record.
const INTERVALS: &str = "ensemble: the values of independent searches, 90 % for one more";

/// The ends of a parameter's interval; words and switches have none.
type Ends = Option<(f64, f64)>;

/// The fit of all other parameters than those that came first, of a device with these.
type Beside<'a> = fn(&Fit<'a>, &DeviceSpec) -> Option<Fit<'a>>;

/// Measured requests: those to which a device is fitted, and those by which it is judged.
struct Given<'a> {
    source: Source,
    name: &'a str,
    sha256: String,
    load: Load,
    fitted: (Part, &'a [Measured]),
    /// The groups of the fitted requests, if they come from probes.
    groups: Option<&'a Groups>,
    judged: (Part, &'a [Measured]),
    range: Range,
    /// The times of reads two at once and one at a time, which tell several arms from one.
    pairs: Option<Pairs>,
    /// The parameters that are searched.
    rows: Vec<Row>,
}

/// The result of a fit beside the device.
struct Fitted {
    unseen: Validation,
    searched: Vec<Ends>,
    evaluations: usize,
}

/// A calibrated device.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The device and its record.
    pub file: DeviceFile,
    /// Response times of the half that the fit did not see.
    unseen: Validation,
    /// The least and the greatest value that was looked at, of each parameter of the record.
    searched: Vec<Ends>,
    evaluations: usize,
    without_latency: u64,
    folded: u64,
    /// The page's remark on reads of one unit, which a trace does not show.
    of_units: Option<String>,
    /// Sentences about doubtful figures of the trace.
    remarks: Vec<String>,
    /// Facts that the probes measure directly.
    facts: Vec<(String, String)>,
    /// The random reads a second that probes measured.
    read_random_per_second: Option<f64>,
    provenance: Provenance,
}

impl Kind {
    const fn rows(self) -> &'static [Row] {
        match self {
            Self::Disk => DISK,
            Self::Flash => FLASH,
        }
    }

    /// Parameters that a fit to a trace needs in addition.
    const fn rows_traced(self) -> &'static [Row] {
        match self {
            Self::Disk => DISK_TRACED,
            Self::Flash => &[],
        }
    }
}

impl CalibrationSpec {
    /// Fits the device.
    ///
    /// # Errors
    /// If the trace or the start cannot be read, or do not fit together.
    pub fn run(&self, origin: &Origin, progress: &dyn Progress) -> Result<Calibrated, RunError> {
        // A file that is no trace is reported before a missing kind of device: its argument may have been meant to be a device, whose kind
        // is seen.
        let (files, options) = (self.files()?, self.options()?);
        let kind = self.known_kind()?;
        let mut trace = MeasuredTrace::read(&files, &options)?;
        let name = self.trace.first().cloned().unwrap_or_default();
        let failed = |problem: String, hint: &str| RunError::from(SpecError::of_file(&name, problem, hint));
        if trace.requests.len() < REQUESTS_MIN {
            let problem = format!("{} requests are too few to fit a device to", trace.requests.len());
            return Err(failed(problem, "give at least 200"));
        }
        let end = trace.requests.iter().map(|request| request.sector + u64::from(request.sectors)).max().unwrap_or(0);
        let start = self.start(kind, end)?;
        let folded = if self.placing.fold { fold_measured(&mut trace.requests, start.build(0)?.sectors()) } else { 0 };
        let (known, unseen) = trace.requests.split_at(trace.requests.len() / 2);
        let (start, of_reads, of_units) = units::open(start, self.preset.as_deref(), known);
        let range = range_of(&trace.requests);
        // One request at a time leaves nothing to choose among.
        let is_queued = kind == Kind::Disk && range.depth_max.is_some_and(|depth| depth > 1);
        let queued = if is_queued { DISK_QUEUED } else { &[] };
        let rows = kind.rows().iter().chain(kind.rows_traced()).chain(queued).chain(of_reads);
        let meta = meta_of(name.clone(), &files, &options)?;
        let given = Given {
            source: Source::Trace,
            name: &name,
            sha256: meta.sha256(),
            load: Load::of(&trace.requests),
            fitted: (Part::FirstHalf, known),
            groups: None,
            judged: (Part::SecondHalf, unseen),
            range,
            pairs: pairs(&trace.requests, start.build(0)?.sectors()),
            rows: rows.filter(|row| is_shown(row.key, known)).copied().collect(),
        };
        let pause_nanos = pause_nanos(known);
        let rows = given.rows.iter().filter_map(|row| awoken(reaching(*row, &start), pause_nanos)).collect();
        let given = Given { rows, ..given };
        let (file, fit) = self.fit(&given, &start, origin, progress)?;
        let provenance = Provenance::new(origin, vec![meta], vec![("The device".into(), file.to_toml())]);
        let remarks = trace.remarks;
        remarks.iter().for_each(|remark| progress.remark(&format!("{name}: {remark}")));
        let without_latency = trace.without_latency;
        Ok(Calibrated { without_latency, folded, of_units, remarks, ..fit.calibrated(file, provenance) })
    }

    /// Fits a device that begins as `start` to the given requests, and judges it.
    fn fit(
        &self,
        given: &Given<'_>,
        start: &DeviceSpec,
        origin: &Origin,
        progress: &dyn Progress,
    ) -> Result<(DeviceFile, Fitted), RunError> {
        let failed = |problem: String, hint: &str| RunError::from(SpecError::of_file(given.name, problem, hint));
        let ((fitted, known), (judged, unseen)) = (given.fitted, given.judged);
        let ends = known.iter().chain(unseen).map(|request| request.sector + u64::from(request.sectors));
        let (end, sectors) = (ends.max().unwrap_or(0), start.build(0)?.sectors());
        if end > sectors {
            let past = Size(end.saturating_mul(SECTOR_BYTES));
            let problem = format!("requests reach {past}, the device ends at {}", Size(sectors * SECTOR_BYTES));
            return Err(failed(problem, "give the size of the device with --capacity"));
        }
        let fit =
            Fit::new(start, &given.rows, known, given.load).map_err(|complaint| complaint.in_file("device", None))?;
        let fit = fit.grouped(given.groups);
        let (ensemble, evaluations) = self.search(&fit, progress)?;
        let spec = ensemble.best().and_then(|best| fit.device(&best.genes));
        let spec = spec.ok_or_else(|| failed("no device fits".into(), "give a --preset to begin from"))?;
        let judge = |requests: &[Measured]| {
            let result = Validation::new(&mut *spec.build(0)?, requests, given.load);
            result.map_err(|error| failed(error.to_string(), ""))
        };
        let (seen_result, unseen_result) = (judge(known)?, judge(unseen)?);
        // The difference between probes of one kind and the mix of another says nothing about how far a device is from itself.
        let halves = (given.source == Source::Trace).then_some(&seen_result);
        // Probes and the mix that judges them are of different classes, which no table of the one says of the other.
        let tabled = halves.map(|_| tabled(known, unseen, sectors));
        let blends = halves.map_or_else(Vec::new, |seen| {
            let [choice, last] = unseen_result.halves();
            blended(seen, &choice, &last)
        });
        let file = DeviceFile {
            calibration: Some(Calibration {
                source: given.source,
                // The path on this machine is of no use elsewhere; the hash identifies the trace.
                name: given.name.rsplit('/').next().unwrap_or(given.name).into(),
                sha256: given.sha256.clone(),
                requests: (known.len() + unseen.len()) as u64,
                version: origin.version.clone(),
                fitted,
                judged,
                intervals: INTERVALS.into(),
                range: given.range.clone(),
                pairs: given.pairs.filter(|_| matches!(spec, DeviceSpec::Hdd(_))),
                classes: unseen_result.errors_beside(halves, tabled.as_deref()),
                blends,
                parameters: parameters(&fit, &spec, &ensemble)?,
            }),
            spec,
        };
        let searched = fit.rows().iter().map(|row| Some((row.amount(0.0).number()?, row.amount(1.0).number()?)));
        Ok((file, Fitted { unseen: unseen_result, searched: searched.collect(), evaluations }))
    }

    /// The device where the fit begins. A disk of unknown size ends with the trace, whose last sector is `end`.
    fn start(&self, kind: Kind, end: u64) -> Result<DeviceSpec, RunError> {
        let named = self.preset.as_deref();
        let spec = match (kind, named) {
            (_, Some(name)) => DeviceSpec::load(name)?,
            (Kind::Disk, None) => DeviceSpec::parse("device", UNKNOWN_DISK)?,
            (Kind::Flash, None) => DeviceSpec::load("ssd-970pro")?,
        };
        let size = match named {
            Some(_) => self.capacity,
            // A flash drive that nobody has named is one of a usual size, or as large as the trace needs it.
            None => self.capacity.or_else(|| {
                (kind == Kind::Disk || end > spec.build(0).map_or(0, |own| own.sectors()))
                    .then_some(Size(end.saturating_mul(SECTOR_BYTES)))
            }),
        };
        let begins = start(&spec, size).map_err(|complaint| complaint.in_file("device", None))?;
        let spec = match (kind, begins) {
            (Kind::Disk, Some(spec @ DeviceSpec::Hdd(_))) | (Kind::Flash, Some(spec @ DeviceSpec::Ssd(_))) => spec,
            (_, begins) => {
                let is = match begins {
                    Some(DeviceSpec::Hdd(_)) => "its preset is a disk: --kind disk, or none",
                    Some(_) => "its preset is a flash drive: --kind flash, or none",
                    None => "it is no single drive: --preset takes the preset or the file of one",
                };
                return Err(SpecError::of_file(named.unwrap_or_default(), "is another kind of device", is).into());
            }
        };
        let mut device = to_table(&spec).map_err(|problem| SpecError::of_file("device", problem, ""))?;
        if kind == Kind::Flash && parameter::get(&device, WAKE_IDLE).is_none() {
            // A drive that may turn out to sleep.
            parameter::set(&mut device, WAKE_IDLE, &Amount::Time(Duration::from_seconds(1)));
            parameter::set(&mut device, WAKE_TAKES, &Amount::Time(Duration::default()));
        }
        if let Some(speed) = self.rpm {
            parameter::set(&mut device, "hdd.revolutions_per_minute", &speed.amount());
        }
        Ok(DeviceSpec::parse("device", &device.to_string())?)
    }

    /// Searches several times, each from candidates and with a seed of its own. The last number is how many candidates there were.
    fn search(&self, fit: &Fit<'_>, progress: &dyn Progress) -> Result<(Ensemble, usize), RunError> {
        let Effort { generations, population, seed } = self.effort();
        let stages = Stages::new(fit, generations);
        progress.started(stages.generations() * self.searches as usize);
        let search = |number: u32| {
            // The first search of a seed is none of another.
            let seed = seed.wrapping_mul(u64::from(self.searches)).wrapping_add(u64::from(number));
            stages.run(fit, Effort { seed, ..self.effort() }, progress)
        };
        let searches = (0..self.searches).map(search).collect::<Result<Vec<Vec<Point>>, RunError>>()?;
        // The first generation of a search is drawn from four times as many.
        let each = population * (stages.generations() + 4 * stages.searches());
        Ok((Ensemble::new(searches), each * self.searches as usize))
    }
}

/// The parts of a search. Candidates are independent runs, side by side. Some parameters come first, by what shows nothing else. Where
/// probes show what accesses take, that is the arm: what other groups show of it is hidden by waits for a place, which a small
/// error turns into a revolution. Where a flash drive was written, too, it is what reads show.
struct Stages<'a> {
    first: Option<(Fit<'a>, Beside<'a>)>,
    /// Generations of the first stage, and of the rest or of all.
    generations: [usize; 2],
}

impl<'a> Stages<'a> {
    fn new(fit: &Fit<'a>, generations: usize) -> Self {
        // An arm has few parameters, and so have writes.
        let few = generations.div_ceil(2);
        let arm = fit.of_arm().map(|arm| (arm, Fit::beside_arm as Beside<'a>, [few, generations]));
        let first = arm.or_else(|| Some((fit.of_reads()?, Fit::beside_reads, [generations, few])));
        match first {
            Some((first, beside, generations)) => Self { first: Some((first, beside)), generations },
            None => Self { first: None, generations: [0, generations] },
        }
    }

    fn generations(&self) -> usize {
        self.generations.iter().sum()
    }

    fn searches(&self) -> usize {
        1 + usize::from(self.first.is_some())
    }

    /// The points of one search of all parameters, the best first.
    fn run(&self, fit: &Fit<'a>, effort: Effort, progress: &dyn Progress) -> Result<Vec<Point>, RunError> {
        let evolved = |fit: &Fit<'_>, generations: usize| {
            let mut watch = |_, _| {
                progress.finished("");
                !progress.is_stopped()
            };
            let effort = Effort { generations, ..effort };
            let found = evolve(fit.rows().len(), effort, &|points| costs(fit, points), &mut watch);
            if progress.is_stopped() { Err(RunError::Stopped) } else { Ok(found) }
        };
        let [generations_of_first, generations_of_rest] = self.generations;
        let Some((first, beside)) = &self.first else { return evolved(fit, generations_of_rest) };
        let point = evolved(first, generations_of_first)?.swap_remove(0);
        let beside = first.device(&point.genes).and_then(|device| beside(fit, &device));
        let beside = beside.ok_or_else(|| SpecError::of_file("device", "no such device fits", ""))?;
        let rest = evolved(&beside, generations_of_rest)?;
        let genes: Vec<Vec<f64>> = rest.iter().map(|rest| fit.genes_of([(&beside, rest), (first, &point)])).collect();
        let mut points: Vec<Point> =
            costs(fit, &genes).into_iter().zip(genes).map(|(cost, genes)| Point { genes, cost }).collect();
        points.sort_by(|one, other| one.cost.total_cmp(&other.cost));
        Ok(points)
    }
}

/// Whether requests show a parameter. Reads say nothing about those of writes, nor do both about commands that move no data; these stay as
/// the start has them.
fn is_shown(key: &str, requests: &[Measured]) -> bool {
    let has = |operations: &[Operation]| requests.iter().any(|request| operations.contains(&request.operation));
    match key {
        "ssd.overhead.command" => has(&[Operation::Flush, Operation::Discard]),
        key if key == "ssd.program" || key.contains("write") => has(&[Operation::Write]),
        _ => true,
    }
}

/// The pause that so many requests came after, at least, as few of a kind show nothing.
fn pause_nanos(requests: &[Measured]) -> u64 {
    let mut idle_from = 0;
    let mut pauses: Vec<u64> = Vec::with_capacity(requests.len());
    for request in requests {
        pauses.push(request.arrival_nanos.saturating_sub(idle_from));
        idle_from = idle_from.max(request.arrival_nanos.saturating_add(request.response_nanos));
    }
    pauses.sort_unstable_by_key(|pause| std::cmp::Reverse(*pause));
    pauses.get(PAUSES_MIN - 1).copied().unwrap_or(0)
}

/// The parameter with values that such pauses show; `None` if they show none. A drive that sleeps after a longer pause than nearly all
/// costs a fit nothing, and the next trace milliseconds.
fn awoken(row: Row, pause_nanos: u64) -> Option<Row> {
    if ![WAKE_IDLE, WAKE_TAKES].contains(&row.key) {
        return Some(row);
    }
    let idle = FLASH.iter().find(|row| row.key == WAKE_IDLE)?;
    let Values::Ratios(least, most, unit) = idle.values else { return Some(row) };
    let most = most.min(pause_nanos as f64);
    let values = if row.key == WAKE_IDLE { Values::Ratios(least, most, unit) } else { row.values };
    (most > least).then_some(Row { values, ..row })
}

/// The parameter with values around that of the start: tracks of today's disks are longer than those of the disks that the usual
/// values are of.
fn reaching(row: Row, start: &DeviceSpec) -> Row {
    let (DeviceSpec::Hdd(disk), Values::Ratios(low, high, unit)) = (start, row.values) else { return row };
    match &disk.zoning {
        Some(zoning) if row.key == "hdd.zoning.outer_sectors_per_track" => {
            let own = f64::from(zoning.outer_sectors_per_track);
            Row { values: Values::Ratios(low, high.max(own * 2.0), unit), ..row }
        }
        _ => row,
    }
}

/// The costs of candidates, computed in parallel.
fn costs(fit: &Fit<'_>, points: &[Vec<f64>]) -> Vec<f64> {
    points.par_iter().map(|genes| fit.cost(genes)).collect()
}

/// The fitted parameters in the form of the record.
fn parameters(fit: &Fit<'_>, spec: &DeviceSpec, ensemble: &Ensemble) -> Result<Vec<Parameter>, RunError> {
    let device = to_table(&spec.resolved()).map_err(|problem| SpecError::of_file("device", problem, ""))?;
    let intervals = fit.intervals(ensemble, &|points| costs(fit, points));
    let members: Vec<Vec<Amount>> = ensemble.members().into_iter().map(|member| fit.amounts(member)).collect();
    let rows = fit.rows().iter().zip(&intervals).enumerate();
    let parameter = |(at, (row, interval)): (usize, (&Row, &Ends))| {
        let value = parameter::get(&device, row.key)?;
        let [low, high] = match interval {
            Some((low, high)) => [low, high].map(|end| Some(value.with_number(*end))),
            None => [None, None],
        };
        let written =
            |amount: &Amount| amount.number().map_or_else(|| amount.clone(), |number| value.with_number(number));
        let drawn = members.iter().filter_map(|member| member.get(at).map(written)).collect();
        Some(Parameter { key: row.key.into(), value, low, high, drawn })
    };
    Ok(rows.filter_map(parameter).collect())
}

impl Fitted {
    fn calibrated(self, file: DeviceFile, provenance: Provenance) -> Calibrated {
        let Self { unseen, searched, evaluations } = self;
        let (without_latency, folded, of_units, facts) = (0, 0, None, Vec::new());
        Calibrated {
            file,
            unseen,
            searched,
            evaluations,
            without_latency,
            folded,
            of_units,
            remarks: Vec::new(),
            facts,
            read_random_per_second: None,
            provenance,
        }
    }
}

impl Calibrated {
    /// Whether the device is one that this kind of model can describe, and why not.
    #[must_use]
    pub fn verdict(&self) -> (Verdict, Vec<String>) {
        self.file.calibration.as_ref().map_or((Verdict::Outside, Vec::new()), Calibration::verdict)
    }

    /// The errors by class of the calibration record.
    #[must_use]
    pub fn record(&self) -> &[ClassError] {
        self.file.calibration.as_ref().map_or(&[], |calibration| &calibration.classes)
    }
}
