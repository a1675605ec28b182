//! The verb `calibrate` of a device: probes it, and fits a model to the answers.

use std::path::Path;

use ioweir_block::real::{Access, Halt, Identity, Ring, Stop, System, Target, state_folder};
use ioweir_config::{Size, format_bytes, format_count, shown};
use ioweir_core::{Nanos, SECTOR_BYTES};
use ioweir_device::parameter::Amount;
use ioweir_device::validate::Measured;
use ioweir_lab::document::quoted;
use ioweir_lab::run::Progress;
use ioweir_measure::calibration::{Calibrated, CalibrationSpec, Kind, Probed, SETTINGS_DEPTH};
use ioweir_measure::probe::{self, BYTES_MIN, Facts, Plan, Written};

use super::scratch;
use crate::arguments::CalibrateArguments;
use crate::failure::Failure;
use crate::{engine, output, trace as verb};

/// How long a device is probed, if nothing else is asked for.
const SPAN: &str = "5min";
/// The longest that a device is probed.
const SPAN_MAX: Nanos = Nanos::from_millis(300_000);
/// The size of the file that is written, if nothing else is asked for.
const WRITE_SIZE: Size = Size(1 << 30);
/// The smallest file that is written.
const WRITE_MIN: u64 = 64 << 20;
/// The most reads in flight.
const DEPTH: u32 = 64;
/// The largest blocks of a device that is probed: the probes read 4 KiB at places that are multiples of that.
const BLOCK_MAX: u64 = 4096;

/// Probes the device and fits a model to it; `None` if the arguments name a trace.
pub(crate) fn act(arguments: &CalibrateArguments, spec: &CalibrationSpec) -> Result<Option<Calibrated>, Failure> {
    if !arguments.is_probe() {
        return check_trace(arguments, spec).map(|()| None);
    }
    let [name] = &spec.trace[..] else {
        return Err(Failure::input("several devices are named", "one device", ""));
    };
    let asked = arguments.span.as_deref().unwrap_or(SPAN);
    let span = verb::time("--for", asked)?;
    if span > SPAN_MAX || span == Nanos::ZERO {
        return Err(Failure::input(format!("--for {} is refused", shown(asked)), "up to 5min", ""));
    }
    let system = System::default();
    // A device under settings that a killed replay has left would be another one, and events cost time.
    super::undo_left(&system, &state_folder());
    let access = Access { write: false, in_use: arguments.in_use };
    let target = Target::open(&system, Path::new(name), access)?;
    check_target(&target)?;
    if let Some(scratch) = &arguments.write {
        check_scratch(&system, scratch, &target)?;
    }
    let stop = Stop::on_signals().map_err(|error| Failure::Running(format!("signals: {error}")))?;
    let mut plan = Plan::new(target.size_bytes(), spec.seed);
    let (requests, bytes) = plan.most();
    output::notice(&format!(
        "ioweir: {}: up to {} reads of {} in {} s at most; nothing is written to it",
        target.describe(),
        format_count(requests),
        format_bytes(bytes),
        span.0.div_ceil(1_000_000_000)
    ));
    let mut ring = Ring::open(&target, DEPTH, stop.clone())?;
    let halted = |halt: Halt| Failure::Running(format!("{}: {halt}", shown(name)));
    let found = engine::watched(arguments.quiet, |progress| {
        probe::run(&mut ring, &mut plan, span, &mut steps(progress)).map_err(halted)
    })?;
    drop(ring);
    let written = write(arguments, spec, span, &stop)?;
    let mut remarks = target.remarks();
    remarks.extend((!found.cut.is_empty()).then(|| format!("there was no time for: {}", found.cut.join(", "))));
    let says_rotational = target.identity().and_then(|identity| identity.rotational);
    let facts = Facts::of(&found);
    remarks.extend(facts.contradiction(says_rotational).map(str::to_owned));
    remarks.extend((found.failed > 0).then(|| format!("the device failed {} reads", format_count(found.failed))));
    remarks.iter().for_each(|remark| output::notice(&format!("ioweir: {remark}")));
    let (spec, mut probed) = probed(spec, name, target.size_bytes(), &found);
    if let Some(written) = written {
        add_written(&spec, &facts, &written, &mut probed);
    }
    let origin = engine::origin(&command(arguments, &spec));
    let fit = |progress: &dyn Progress| spec.run_probed(&probed, &origin, &Stopping { progress, stop: &stop });
    Ok(Some(engine::watched(arguments.quiet, fit)?))
}

/// Refuses a path that is neither a trace nor a device to probe, and flags that are of no use for a trace.
fn check_trace(arguments: &CalibrateArguments, spec: &CalibrationSpec) -> Result<(), Failure> {
    let only =
        [("--for", arguments.span.is_some()), ("--in-use", arguments.in_use), ("--write", arguments.write.is_some())];
    let Some((flag, _)) = only.iter().find(|(_, is_given)| *is_given) else {
        // The kind of a folder need not be named.
        return check_each(spec, Path::is_dir);
    };
    check_each(spec, |path| !path.is_file())?;
    let named = spec.trace.first().map_or_else(|| "no device".into(), |name| format!("{}, a file,", shown(name)));
    Err(Failure::input(
        format!("{flag} is about a device that is probed, and {named} is named"),
        "a block device, or --probe and a file",
        "without --probe a file is read as a trace",
    ))
}

/// Opens each path for which `is_such` holds, so that it is refused in the words for devices.
fn check_each(spec: &CalibrationSpec, is_such: impl Fn(&Path) -> bool) -> Result<(), Failure> {
    for path in spec.trace.iter().map(Path::new).filter(|path| is_such(path)) {
        Target::open(&System::default(), path, Access::default())?;
    }
    Ok(())
}

/// Progress by the probes that are behind a device.
fn steps(progress: &dyn Progress) -> impl FnMut(usize, usize) {
    let mut seen = 0;
    move |behind, all| {
        if seen == 0 {
            progress.started(all);
        }
        (seen..behind).for_each(|_| progress.finished(""));
        seen = behind;
    }
}

/// Refuses a device that the probes do not fit.
fn check_target(target: &Target) -> Result<(), Failure> {
    let name = shown(&target.path().display().to_string());
    if target.size_bytes() < BYTES_MIN {
        let problem = format!("{name} is too small to be probed: {}", format_bytes(target.size_bytes()));
        return Err(Failure::input(problem, &format!("{} or more", format_bytes(BYTES_MIN)), ""));
    }
    if target.alignment_bytes() > BLOCK_MAX {
        let problem = format!("{name} has blocks of {}", format_bytes(target.alignment_bytes()));
        return Err(Failure::input(problem, &format!("blocks of up to {}", format_bytes(BLOCK_MAX)), ""));
    }
    Ok(())
}

/// Refuses a scratch file that is there already or would lie on another device, before minutes are spent on probes.
fn check_scratch(system: &System, name: &str, device: &Target) -> Result<(), Failure> {
    let path = Path::new(name);
    scratch::refuse_existing(path)?;
    let number = system.device_of(output::folder_of(path)).ok().and_then(|number| Identity::of(system, number).ok());
    match (device.identity(), number) {
        (Some(device), Some(file)) if device.number != file.number => {
            let problem = format!("{} lies on another device than the one that is probed", shown(name));
            Err(Failure::input(problem, "a file on a file system of that device", ""))
        }
        (Some(_), Some(_)) => Ok(()),
        _ => {
            output::notice(&format!("ioweir: {}: sysfs does not say whether it lies on the device", shown(name)));
            Ok(())
        }
    }
}

/// Probes by writes into a scratch file on the device, if that is asked for.
fn write(
    arguments: &CalibrateArguments,
    spec: &CalibrationSpec,
    span: Nanos,
    stop: &Stop,
) -> Result<Option<Written>, Failure> {
    let Some(name) = &arguments.write else { return Ok(None) };
    let size = arguments.write_size.unwrap_or(WRITE_SIZE).0.max(WRITE_MIN).next_multiple_of(1 << 20);
    let span = Nanos(span.0 / 2);
    output::notice(&format!(
        "ioweir: {}: a scratch file of {} is made, filled, and written for {} s at most",
        shown(name),
        format_bytes(size),
        span.0.div_ceil(1_000_000_000)
    ));
    let file = scratch::make(&System::default(), Path::new(name), size, stop)?;
    let mut ring = Ring::open(&file, DEPTH, stop.clone())?;
    let halted = |halt: Halt| Failure::Running(format!("{}: {halt}", shown(name)));
    let written = probe::run_writes(&mut ring, size, spec.seed, span).map_err(halted)?;
    if written.failed > 0 {
        let failed = format_count(written.failed);
        output::notice(&format!("ioweir: {}: the device failed {failed} reads and writes", shown(name)));
    }
    Ok(Some(written))
}

/// Turns the results of probes into the input of a fit. The kind of device follows from the probes unless the user named it.
fn probed(spec: &CalibrationSpec, name: &str, size_bytes: u64, found: &probe::Probed) -> (CalibrationSpec, Probed) {
    let facts = Facts::of(found);
    let shows = if facts.revolution_nanos.is_some() { Kind::Disk } else { Kind::Flash };
    let kind = spec.kind.unwrap_or(shows);
    let table = if kind == Kind::Disk { "hdd" } else { "ssd" };
    // A file may end within a sector.
    let size_bytes = size_bytes / SECTOR_BYTES * SECTOR_BYTES;
    let mut known = vec![(format!("{table}.capacity"), Amount::Size(Size(size_bytes)))];
    known.extend(match kind {
        Kind::Disk => facts.of_disk(spec.preset.is_some()),
        Kind::Flash => facts.of_flash(spec.preset.is_some()),
    });
    let enclosed = if kind == Kind::Disk && spec.preset.is_none() { facts.encloses() } else { Vec::new() };
    let (requests, held_out) = found.measured();
    let mut words = facts.in_words();
    words.push((
        "probes".into(),
        format!(
            "{} reads of {} in {:.1} s",
            format_count((requests.len() + held_out.len()) as u64),
            format_bytes(found.bytes),
            found.took.0 as f64 / 1e9
        ),
    ));
    let spec = CalibrationSpec { kind: Some(kind), capacity: Some(Size(size_bytes)), ..spec.clone() };
    let (groups, name) = (found.groups(&facts), name.into());
    let read_random_per_second = facts.rates.iter().find(|(depth, _)| *depth == SETTINGS_DEPTH).map(|(_, rate)| *rate);
    let pairs = facts.pairs();
    (spec, Probed { name, facts: words, known, enclosed, requests, groups, held_out, pairs, read_random_per_second })
}

/// Adds what writes have shown. A flash drive is fitted to some of them as if they had followed all
/// reads, after the rest that they came after.
fn add_written(spec: &CalibrationSpec, facts: &Facts, written: &Written, probed: &mut Probed) {
    probed.facts.extend(written.in_words(facts.revolution_nanos));
    match spec.kind {
        Some(Kind::Flash) => {
            probed.known.extend(written.of_flash(facts));
            let all = probed.requests.iter().chain(&probed.held_out);
            let end_nanos = all.map(|request| request.arrival_nanos + request.response_nanos).max().unwrap_or(0);
            let begin_nanos = written.requests.first().map_or(0, |(request, _)| request.arrival_nanos);
            let first = probed.groups.accesses.len();
            for (request, kind) in &written.requests {
                let arrival_nanos = end_nanos + written.rest_nanos + (request.arrival_nanos - begin_nanos);
                probed.requests.push(Measured { arrival_nanos, ..*request });
                probed.groups.of.push(first + kind);
                probed.groups.accesses.resize((first + kind + 1).max(probed.groups.accesses.len()), None);
            }
        }
        // A preset may have another form of buffer, and keeps its own.
        _ if spec.preset.is_some() => {}
        _ => probed.known.extend(written.of_disk(facts.revolution_nanos)),
    }
}

/// Progress that a signal stops.
struct Stopping<'a> {
    progress: &'a dyn Progress,
    stop: &'a Stop,
}

impl Progress for Stopping<'_> {
    fn started(&self, runs: usize) {
        self.progress.started(runs);
    }

    fn read(&self, records: u64) {
        self.progress.read(records);
    }

    fn finished(&self, scheduler: &str) {
        self.progress.finished(scheduler);
    }

    fn remark(&self, text: &str) {
        self.progress.remark(text);
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_set() || self.progress.is_stopped()
    }
}

/// The command that probes again.
fn command(arguments: &CalibrateArguments, spec: &CalibrationSpec) -> String {
    let mut command = spec.command();
    let flags = [(" --probe", arguments.probe), (" --in-use", arguments.in_use)];
    flags.iter().filter(|(_, is_set)| *is_set).for_each(|(flag, _)| command += flag);
    if let Some(name) = &arguments.write {
        command += &format!(" --write {}", quoted(name));
    }
    if let Some(size) = arguments.write_size {
        command += &format!(" --write-size {size}");
    }
    command + &format!(" --for {}", quoted(arguments.span.as_deref().unwrap_or(SPAN)))
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
