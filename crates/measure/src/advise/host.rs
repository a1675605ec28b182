//! The commands to type on a host: to note its settings, to apply the advice, to keep it, to verify it and to undo it.

use ioweir_config::format_value;
use serde::Serialize;

use super::space::{Candidate, KNOBS, Setting, Setup};
use super::spec::{AdviseSpec, Bound};
use ioweir_lab::compare::Goal;
use ioweir_lab::document::quoted;
use ioweir_lab::run::MIX_PREFIX;

/// Where settings are kept over a boot.
const RULES: &str = "/etc/udev/rules.d/61-ioweir.rules";
const KEEP: &str = "keep, in /etc/udev/rules.d/61-ioweir.rules";

/// A step with the line to type for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Step {
    pub(super) step: &'static str,
    pub(super) line: String,
}

/// A file below `/sys/block/DEVICE`, with the value before and after.
struct File {
    name: String,
    value: String,
    before: String,
}

/// The files that differ between two candidates, in the order in which they must be written: a new scheduler takes its
/// parameters and the queue's length after it.
fn files(candidate: &Candidate, leave: &Candidate, base: &Setup) -> Vec<File> {
    let mut files = Vec::new();
    let knob = |name: &str| {
        let at = KNOBS.iter().find(|knob| knob.name == name)?;
        let value = |of: &Candidate| of.set().find(|(knob, _)| knob.name == name).map(|(_, value)| value);
        let (new, before) = (value(candidate), value(leave));
        let Setting::File(file, unit) = at.setting else { return None };
        let text = |value: Option<u64>| (value.unwrap_or_else(|| at.default(base)) / unit).to_string();
        (new != before).then(|| File { name: file.into(), value: text(new), before: text(before) })
    };
    files.extend(["drive_queue_depth", "request_bytes_max"].into_iter().filter_map(knob));
    let (Some(name), before) = (candidate.linux(), leave.linux()) else { return files };
    if Some(name) != before {
        let before = before.unwrap_or("none").to_owned();
        files.push(File { name: "queue/scheduler".into(), value: name.into(), before });
    }
    let is_same = candidate.family() == leave.family();
    for ((file, parameter, value), before) in
        candidate.linux_files().zip(leave.linux_files().map(Some).chain(std::iter::repeat(None)))
    {
        // A scheduler begins with its defaults when it is set.
        let was = before.filter(|_| is_same).map_or(parameter.default, |(_, _, value)| value);
        if value != was {
            let text = |value: u64| (value / file.unit).to_string();
            files.push(File { name: format!("queue/iosched/{}", file.name), value: text(value), before: text(was) });
        }
    }
    files.extend(knob("queue_requests"));
    files
}

/// The lines for a candidate that differs from the present settings.
pub(super) fn steps(candidate: &Candidate, leave: &Candidate, base: &Setup, spec: &AdviseSpec) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut step = |step: &'static str, line: String| steps.push(Step { step, line });
    let folder = format!("/sys/block/{}", spec.host_device);
    if candidate.linux().is_none() {
        step("only with ioweir serve", format!("in [[device]] of its spec: scheduler = \"{}\"", candidate.scheduler));
        step("apply", "ioweir serve SPEC".into());
    }
    let files = files(candidate, leave, base);
    if !files.is_empty() {
        let names: Vec<String> = files.iter().map(|file| format!("{folder}/{}", file.name)).collect();
        step("note what is set", format!("grep . {}", names.join(" ")));
    }
    files.iter().for_each(|file| step("apply", format!("echo {} > {folder}/{}", file.value, file.name)));
    for (knob, value) in candidate.set() {
        let text = format_value(knob.unit(), value);
        match knob.setting {
            Setting::File(..) => {}
            Setting::Command(command) => step("apply", format!("{command} {value} /dev/{}", spec.host_device)),
            Setting::Array(key) => step("apply", format!("on the array: {key} = \"{text}\"")),
        }
    }
    if !files.is_empty() {
        let attributes: Vec<String> =
            files.iter().map(|file| format!("ATTR{{{}}}=\"{}\"", file.name, file.value)).collect();
        step(KEEP, format!("ACTION==\"add|change\", KERNEL==\"{}\", {}", spec.host_device, attributes.join(", ")));
    }
    let groups = group_lines(candidate, spec);
    groups.iter().for_each(|(line, _)| step("in each cgroup that shares the device", line.clone()));
    if let (Some(name), Some(before)) = (candidate.linux(), leave.linux()) {
        replays((candidate, name), (leave, before), spec).into_iter().for_each(|line| step("verify", line));
    }
    for file in files.iter().rev() {
        // Parameters of a scheduler vanish with the scheduler.
        let has_gone = file.name.starts_with("queue/iosched/") && candidate.family() != leave.family();
        if !has_gone {
            step("undo", format!("echo {} > {folder}/{}", file.before, file.name));
        }
    }
    for (knob, _) in candidate.set() {
        let before = knob.default(base);
        match knob.setting {
            Setting::File(..) => {}
            Setting::Command(command) => step("undo", format!("{command} {before} /dev/{}", spec.host_device)),
            Setting::Array(key) => {
                step("undo", format!("on the array: {key} = \"{}\"", format_value(knob.unit(), before)));
            }
        }
    }
    if !files.is_empty() {
        step("undo", format!("rm {RULES}"));
    }
    groups.into_iter().for_each(|(_, undo)| step("undo, in each cgroup", undo));
    steps
}

/// Lines of cgroup v2 with those that undo them: equal weights, as by default, if an order of tenants is the best; a target if a bound was
/// asked for.
fn group_lines(candidate: &Candidate, spec: &AdviseSpec) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    if candidate.scheduler.below.is_some() {
        let line = "echo default 100 > /sys/fs/cgroup/GROUP/io.weight".to_owned();
        lines.push((line.clone(), line));
    }
    if let Some(Bound { goal: Goal::ReadP99 | Goal::Mean, most }) = spec.bound {
        let line = |target: &str| format!("echo \"MAJOR:MINOR target={target}\" > /sys/fs/cgroup/GROUP/io.latency");
        lines.push((line(&most.nanos().0.div_ceil(1_000).to_string()), line("max")));
    }
    lines
}

/// The real replays that compare both, each with its settings, and with the model's prediction. Generated traffic is written to a file
/// first.
fn replays(candidate: (&Candidate, &str), leave: (&Candidate, &str), spec: &AdviseSpec) -> Vec<String> {
    let under = |(one, name): (&Candidate, &str)| {
        let own = one.linux_files().filter(|(_, parameter, value)| *value != parameter.default);
        let own = own.map(|(file, _, value)| (file.name, value / file.unit));
        let queues = one.set().filter_map(|(knob, value)| match knob.setting {
            Setting::File(file, unit) => Some((file.strip_prefix("queue/")?, value / unit)),
            Setting::Command(_) | Setting::Array(_) => None,
        });
        own.chain(queues).fold(name.to_owned(), |text, (key, value)| format!("{text}:{key}={value}"))
    };
    let (host, leave, candidate) = (&spec.host_device, under(leave), under(candidate));
    let names = if leave == candidate { leave } else { format!("{leave},{candidate}") };
    let line = |traces: &str| {
        let device = quoted(&spec.device);
        format!("ioweir replay {traces} /dev/{host} --reads-only --repeat 5 --scheduler {names} --device {device}")
    };
    let (mixes, files): (Vec<&String>, Vec<&String>) =
        spec.traces.iter().partition(|trace| trace.starts_with(MIX_PREFIX));
    let mut lines = match &files[..] {
        [] if mixes.is_empty() => vec![line("TRACE")],
        [] => Vec::new(),
        files => vec![line(&files.iter().map(|file| quoted(file)).collect::<Vec<_>>().join(" "))],
    };
    for mix in mixes.iter().filter_map(|name| name.strip_prefix(MIX_PREFIX)) {
        let file = quoted(&format!("{mix}.parquet"));
        lines.push(format!("ioweir trace generate {} {file}", quoted(mix)));
        lines.push(line(&file));
    }
    lines
}
