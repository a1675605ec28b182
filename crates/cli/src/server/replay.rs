//! The verb `replay`: a trace on a real device, under its schedulers in turn, and the prediction beside it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use ioweir_block::real::{Access, Halt, Identity, Ring, Settings, Stop, System, Target, state_folder};
use ioweir_config::{Size, format_bytes, shown};
use ioweir_core::Nanos;
use ioweir_core::policy::Policy;
use ioweir_device::{DeviceSpec, PRESETS, Standing};
use ioweir_lab::document::{Provenance, TraceMeta, quoted};
use ioweir_lab::run::{Progress, sha256};
use ioweir_lab::sim::{self, Feed, Load, Streams};
use ioweir_lab::spec::PlacingKeys;
use ioweir_measure::replay::device::{Answered, Arrivals, Bounds, ReplayError, replay};
use ioweir_measure::replay::{ByClass, Fit, Fitted, Left, Measured, Model, Page, Predicted, Rows, document};
use ioweir_trace::{self as trace, Doubted, ReadOptions, Record, TraceGroup, TraceSource};

use super::scratch;
use super::under::{self, QUEUE_REQUESTS, REQUEST_KIB_MAX, Under};
use crate::arguments::ReplayArguments;
use crate::failure::Failure;
use crate::output::{self, Outputs};
use crate::{engine, trace as verb, typed};

/// Replays, and writes the page.
pub(crate) fn act(arguments: &ReplayArguments) -> Result<(), Failure> {
    let system = System::default();
    let state = arguments.state.as_ref().map_or_else(state_folder, PathBuf::from);
    super::undo_left(&system, &state);
    let asked = Asked::of(arguments)?;
    let inputs: Vec<&Path> = asked.group.files.iter().map(PathBuf::as_path).collect();
    let requests: Vec<&str> = arguments.requests.as_deref().into_iter().collect();
    let outputs = Outputs::new(&arguments.output, &requests, &inputs)?;
    let model = model(arguments)?;
    let stop = Stop::on_signals().map_err(|error| Failure::Running(format!("signals: {error}")))?;
    if let Some(name) = &arguments.scratch {
        // Settings that are impossible are reported before the file is made and filled.
        let folder = system.device_of(output::folder_of(Path::new(name)));
        let identity = folder.ok().and_then(|number| Identity::of(&system, number).ok());
        asked.settings(&system, &state, identity.as_ref(), name)?;
    }
    let scratch =
        arguments.scratch.as_deref().map(|name| scratch(arguments, &asked, &system, name, &stop)).transpose()?;
    let target = match scratch {
        Some(target) => target,
        None => {
            let access = Access { write: arguments.write.is_some(), in_use: arguments.in_use };
            Target::open(&system, Path::new(&asked.device), access)?
        }
    };
    let fit = Fit {
        size_bytes: target.size_bytes(),
        alignment_bytes: target.alignment_bytes(),
        may_write: target.is_writable(),
        ..asked.fit()?
    };
    let options = ReadOptions { latency: true, ..asked.options.clone() };
    let looked_at = Box::new(Doubted::new(trace::open(&asked.group.files, &options)?));
    let mut fitted = Fitted::new(looked_at, &asked.group.name, fit.clone());
    let left = fitted.check()?;
    engine::tell(&asked.group.name, &fitted.remarks());
    let mut run = Run { asked: &asked, fit, target: &target, stop, page: page(arguments, &asked, &target, left) };
    run.all(arguments, &system, &state)?;
    let mut page = run.page;
    let fit = run.fit;
    if let Some(model) = model {
        predict(&mut page, &asked, &fit, model, target.identity())?;
    }
    let failed: u64 = page.measured.iter().map(|run| run.failed).sum();
    outputs.write(&document(&page, provenance(arguments, &asked, &target)?)?)?;
    match failed {
        0 => Ok(()),
        failed => Err(Failure::Running(format!("{}: the device failed {failed} requests", target.path().display()))),
    }
}

/// The request of the user: the arguments, with every value read.
struct Asked<'a> {
    arguments: &'a ReplayArguments,
    group: TraceGroup,
    options: ReadOptions,
    fold: bool,
    device: String,
    load: Load,
    timeout: Nanos,
    schedulers: Vec<Under>,
    /// Settings of the queue for all of them: key and value.
    set: under::Set,
}

impl<'a> Asked<'a> {
    fn of(arguments: &'a ReplayArguments) -> Result<Self, Failure> {
        let (device, files) = match (&arguments.scratch, arguments.files.split_last()) {
            (None, Some((device, files))) if !files.is_empty() => (device.clone(), files),
            (Some(_), _) => (String::new(), &arguments.files[..]),
            _ => {
                let expected = "the files of one trace, and then the device";
                return Err(Failure::input(
                    "no device is named",
                    expected,
                    "--scratch FILE replays on a file made for it",
                ));
            }
        };
        if arguments.write.as_ref().is_some_and(|write| *write != device) {
            let problem = format!(
                "--write {} is not the device {}",
                shown(arguments.write.as_deref().unwrap_or("")),
                shown(&device)
            );
            return Err(Failure::input(problem, "the same name twice, since what the device holds is destroyed", ""));
        }
        let placing = arguments.placing.set(PlacingKeys::default())?;
        let options = placing.reading.options()?;
        let mut groups = engine::groups(files, &options)?;
        if groups.len() != 1 {
            let names: Vec<_> = groups.iter().map(|group| shown(&group.name)).collect();
            let problem = format!("{} traces are named: {}", groups.len(), names.join(", "));
            return Err(Failure::input(problem, "the files of one trace, and then the device", ""));
        }
        let load = typed::load(&arguments.load)?;
        let timeout = verb::time("--timeout", &arguments.timeout)?;
        let (schedulers, set) = under::of_arguments(&arguments.scheduler, &arguments.set)?;
        Ok(Self {
            arguments,
            group: groups.remove(0),
            options,
            fold: placing.fold,
            device,
            load,
            timeout,
            schedulers,
            set,
        })
    }

    /// The settings of the device, noted before any of them is changed; `None` if none is to be.
    fn settings(
        &self,
        system: &System,
        state: &Path,
        identity: Option<&Identity>,
        name: &str,
    ) -> Result<Option<Settings>, Failure> {
        let asked = &self.schedulers;
        if asked.is_empty() && self.set.is_empty() {
            return Ok(None);
        }
        let without = "without --scheduler and --set it is replayed as it is";
        let Some(identity) = identity else {
            let problem = format!("{}: no block device is under it", shown(name));
            return Err(Failure::input(problem, "one, where settings are asked for", without));
        };
        if !asked.is_empty() && identity.schedulers.is_empty() {
            let problem = format!("{} has no queue of requests, and so no scheduler", identity.name);
            return Err(Failure::input(problem, "a device that has one", without));
        }
        let mut names = asked.iter().map(|under| &under.name);
        if let Some(unknown) = names.find(|name| !identity.schedulers.contains(name)) {
            let problem = format!("{} cannot have scheduler `{}`", identity.name, shown(unknown));
            let expected = format!("one of {}", identity.schedulers.join(", "));
            return Err(Failure::input(problem, &expected, "others may need a module: modprobe bfq"));
        }
        let keys = self.set.iter().chain(asked.iter().flat_map(|under| &under.own)).map(|(key, _)| key.as_str());
        let keys: Vec<&str> = keys.chain((!asked.is_empty()).then_some("scheduler")).collect();
        Ok(Some(Settings::begin(system, state, identity, &keys)?))
    }

    fn source(&self) -> Result<Box<dyn TraceSource>, Failure> {
        Ok(trace::open(&self.group.files, &self.options)?)
    }

    /// The limits of the replay, except those of the device.
    fn fit(&self) -> Result<Fit, Failure> {
        let ReplayArguments { reads_only, limit, span, .. } = self.arguments;
        let until = span.as_deref().map(|span| verb::time("--for", span)).transpose()?;
        Ok(Fit { reads_only: *reads_only, fold: self.fold, requests: *limit, until, ..Fit::default() })
    }

    fn fitted<'t>(&self, fit: &Fit) -> Result<Fitted<'t>, Failure> {
        Ok(Fitted::new(self.source()?, &self.group.name, fit.clone()))
    }
}

/// The largest scratch file that is made without its size being named.
const SCRATCH_BYTES_MAX: u64 = 16 << 30;

fn scratch(
    arguments: &ReplayArguments,
    asked: &Asked<'_>,
    system: &System,
    name: &str,
    stop: &Stop,
) -> Result<Target, Failure> {
    let size = match &arguments.size {
        Some(size) => size.parse::<Size>()?.0,
        None => {
            let whole = Fit { size_bytes: u64::MAX / 2, alignment_bytes: 1, may_write: true, ..asked.fit()? };
            let end = asked.fitted(&whole)?.check()?.end_bytes;
            if end > SCRATCH_BYTES_MAX {
                let problem = format!("the trace needs a scratch file of {}", format_bytes(end));
                return Err(Failure::input(
                    problem,
                    "a size that you name",
                    "--size 4GiB --fold moves requests into a smaller one",
                ));
            }
            end
        }
    };
    let size = size.next_multiple_of(1 << 20);
    output::notice(&format!("ioweir: {}: a scratch file of {} is made and filled", name, format_bytes(size)));
    scratch::make(system, Path::new(name), size, stop)
}

fn model(arguments: &ReplayArguments) -> Result<Option<Model>, Failure> {
    let Some(name) = &arguments.device else { return Ok(None) };
    engine::check_device(name)?;
    let spec = DeviceSpec::load(name).map_err(|error| Failure::Input(error.to_string()))?;
    spec.check().map_err(|error| Failure::Input(error.to_string()))?;
    Ok(Some(Model { name: name.clone(), spec, depth: arguments.depth, queue_requests: None, request_bytes_max: None }))
}

fn page(arguments: &ReplayArguments, asked: &Asked<'_>, target: &Target, left: Left) -> Page {
    let mut remarks = target.remarks();
    remarks.extend((!arguments.set.is_empty()).then(|| format!("Set for the replay: {}.", arguments.set.join(", "))));
    Page {
        trace: asked.group.name.clone(),
        device: target.describe(),
        load: asked.load.to_string(),
        left,
        depth: target.identity().and_then(|identity| identity.depth),
        is_open: matches!(asked.load, Load::Open { .. }),
        remarks,
        ..Page::default()
    }
}

/// The replays of one command.
struct Run<'a> {
    asked: &'a Asked<'a>,
    fit: Fit,
    target: &'a Target,
    stop: Stop,
    page: Page,
}

impl Run<'_> {
    /// Runs every scheduler once, and then all of them again.
    fn all(&mut self, arguments: &ReplayArguments, system: &System, state: &Path) -> Result<(), Failure> {
        let asked = self.asked;
        let named = self.target.path().display().to_string();
        let mut settings = asked.settings(system, state, self.target.identity(), &named)?;
        let now = self.target.identity().and_then(|identity| identity.scheduler.clone());
        let now = now.unwrap_or_else(|| "no scheduler".into());
        let now = [Under::plain(&now)];
        let schedulers = if asked.schedulers.is_empty() { &now[..] } else { &asked.schedulers };
        let done = output::request_sink(arguments.requests.as_deref(), |file| {
            let names = file.is_some().then(|| self.names()).transpose()?;
            let mut rows = file.zip(names).map(|(file, names)| Rows::new(file, names));
            engine::watched(arguments.quiet, |progress| {
                progress.started(schedulers.len() * arguments.repeat as usize);
                for repetition in 1..=arguments.repeat {
                    for under in schedulers {
                        self.set(settings.as_mut(), under)?;
                        self.once(&under.text, repetition, rows.as_mut(), progress)?;
                        progress.finished(&under.text);
                    }
                }
                Ok::<(), Failure>(())
            })?;
            rows.map_or(Ok(()), |rows| rows.finish().map_err(|error| Failure::Running(error.to_string())))
        });
        // Restored before an error is told, so that the message of what could not be restored is not lost.
        let restored = settings.map_or(Ok(()), Settings::restore);
        done.and(restored.map_err(|error| Failure::Running(error.to_string())))
    }

    /// Applies the settings of a run, and none of another run: those on which the scheduler depends before it, those that it resets after
    /// it.
    fn set(&self, settings: Option<&mut Settings>, under: &Under) -> Result<(), Failure> {
        let Some(settings) = settings else { return Ok(()) };
        settings.reset()?;
        let is_after = |key: &str| key == QUEUE_REQUESTS || key.starts_with("iosched/");
        let (after, before): (Vec<_>, Vec<_>) =
            self.asked.set.iter().chain(&under.own).partition(|(key, _)| is_after(key));
        before.into_iter().try_for_each(|(key, value)| settings.set(key, value))?;
        if !self.asked.schedulers.is_empty() {
            settings.set("scheduler", &under.name)?;
        }
        after.into_iter().try_for_each(|(key, value)| settings.set(key, value))?;
        Ok(())
    }

    fn names(&self) -> Result<trace::Names, Failure> {
        let mut source = self.asked.fitted(&self.fit)?;
        let mut batch = Vec::new();
        loop {
            source.read_batch(&mut batch)?;
            if batch.is_empty() {
                return Ok(source.names().clone());
            }
        }
    }

    /// One replay.
    fn once(
        &mut self,
        scheduler: &str,
        repetition: u32,
        mut rows: Option<&mut Rows>,
        progress: &dyn Progress,
    ) -> Result<(), Failure> {
        let bounds = Bounds::default();
        let depth = u32::try_from(bounds.requests).unwrap_or(u32::MAX);
        let mut ring = Ring::open(self.target, depth, self.stop.clone())?.with_stall(self.asked.timeout);
        let by_class = RefCell::new(ByClass::new(self.fit.size_bytes));
        let feed = Feed::new(Box::new(self.asked.fitted(&self.fit)?), self.asked.load, Streams::KEPT);
        let mut fed = Fed { feed, arrived: 0, by_class: &by_class };
        if let Some(rows) = rows.as_deref_mut() {
            rows.begin((&self.page.trace, &self.page.device, &self.page.load), scheduler, repetition);
        }
        let mut measured = Measured { scheduler: scheduler.into(), repetition, ..Measured::default() };
        let mut observe = |answered: &Answered| {
            let Answered { number, ref record, submitted, completed, result } = *answered;
            measured.count(record, submitted, completed, result.is_ok());
            by_class.borrow_mut().answered(number, result.is_ok().then_some(completed));
            if let Some(rows) = rows.as_deref_mut() {
                rows.add(number, record, submitted, completed, result.is_ok());
            }
            progress.read(1);
        };
        let outcome = replay(&mut ring, &mut fed, bounds, &mut observe)?;
        measured.by_class = *by_class.borrow().sums();
        measured.completion = outcome.completion;
        measured.in_flight_max = outcome.in_flight_max as u64;
        if outcome.held_max > 0 {
            let held =
                format!("Up to {} requests waited because {} were in flight.", outcome.held_max, bounds.requests);
            if !self.page.remarks.contains(&held) {
                self.page.remarks.push(held);
            }
        }
        self.page.measured.push(measured);
        Ok(())
    }
}

/// The arrivals of the simulator, for a real device.
struct Fed<'a> {
    feed: Feed<'a>,
    arrived: u64,
    by_class: &'a RefCell<ByClass>,
}

fn of_source(failure: sim::Failure) -> ReplayError {
    ReplayError::Source(failure.to_string())
}

impl Arrivals for Fed<'_> {
    fn next_time(&mut self, now: Nanos, held: usize) -> Result<Option<Nanos>, ReplayError> {
        sim::Arrivals::<Policy>::next_time(&mut self.feed, now, held).map_err(of_source)
    }

    fn next(&mut self, now: Nanos, held: usize) -> Result<Option<(Nanos, Record)>, ReplayError> {
        let next = sim::Arrivals::<Policy>::next(&mut self.feed, now, held).map_err(of_source)?;
        if let Some((arrival, record)) = &next {
            self.by_class.borrow_mut().arrived(self.arrived, record, *arrival);
            self.arrived += 1;
        }
        Ok(next)
    }

    fn completed(&mut self, stream: u32, now: Nanos) {
        sim::Arrivals::<Policy>::completed(&mut self.feed, stream, now);
    }
}

/// Adds the model's prediction for every scheduler that was measured.
fn predict(
    page: &mut Page,
    asked: &Asked<'_>,
    fit: &Fit,
    model: Model,
    identity: Option<&Identity>,
) -> Result<(), Failure> {
    let small = |value: Option<u64>| value.and_then(|value| u32::try_from(value).ok());
    let model = Model {
        depth: model.depth.or(small(identity.and_then(|identity| identity.depth)).map(|depth| depth.min(4096))),
        ..model
    };
    page.standing = Some(Standing::load(&model.name).map_err(|error| Failure::Input(error.to_string()))?);
    let mut names: Vec<String> = Vec::new();
    for measured in &page.measured {
        if !names.contains(&measured.scheduler) {
            names.push(measured.scheduler.clone());
        }
    }
    for name in names {
        let plain = Under::plain(&name);
        let under = asked.schedulers.iter().find(|under| under.text == name).unwrap_or(&plain);
        let Some(scheduler) = under.modelled() else {
            page.remarks.push(format!("{name}, as it is set, has no model here, so nothing is predicted of it."));
            continue;
        };
        let requests = under.queues(QUEUE_REQUESTS, &asked.set).or(identity.and_then(|identity| identity.nr_requests));
        let longest =
            under.queues(REQUEST_KIB_MAX, &asked.set).or(identity.and_then(|identity| identity.max_sectors_kb));
        let model = Model {
            queue_requests: small(requests),
            request_bytes_max: longest.map(|kibibytes| kibibytes << 10),
            ..model.clone()
        };
        let mut by_class = ByClass::new(fit.size_bytes);
        let outcome = model.predict(&scheduler, asked.load, Box::new(asked.fitted(fit)?), &mut by_class)?;
        page.predicted.push(Predicted { scheduler: name, outcome, by_class: *by_class.sums() });
    }
    page.model = Some((model.name.clone(), model.depth()));
    Ok(())
}

fn provenance(arguments: &ReplayArguments, asked: &Asked<'_>, target: &Target) -> Result<Provenance, Failure> {
    let words: Vec<String> = std::env::args().skip(1).map(|word| quoted(&word)).collect();
    let format = trace::recognise(&asked.group.files, &asked.options)?.name.to_owned();
    let hashed = asked.group.files.iter().map(|file| Ok((file.display().to_string(), sha256(file)?)));
    let files = hashed.collect::<std::io::Result<Vec<_>>>();
    let files = files.map_err(|error| Failure::Input(format!("the trace cannot be read again: {error}")))?;
    let identity = serde_json::to_string_pretty(&target.identity()).unwrap_or_default();
    let mut specs = vec![("device as sysfs describes it".to_owned(), identity)];
    if let Some(name) = &arguments.device
        && !PRESETS.iter().any(|preset| preset.name == *name)
    {
        specs.push((format!("model {name}"), std::fs::read_to_string(name).unwrap_or_default()));
    }
    let inputs = vec![TraceMeta { name: asked.group.name.clone(), format, files }];
    Ok(Provenance::new(&engine::origin(&format!("ioweir {}", words.join(" "))), inputs, specs))
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Source(problem) => Self::Input(problem),
            ReplayError::Halted(Halt::Stopped) => Self::Running("stopped by a signal; what was set is restored".into()),
            ReplayError::Halted(halt) => Self::Running(halt.to_string()),
        }
    }
}
