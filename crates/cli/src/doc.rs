//! The verb `doc`: policies, devices, formats, loads, reasons, generated from the tables that the program runs by.

use std::fmt::Write as _;
use std::sync::LazyLock;

#[cfg(feature = "plan")]
use ioweir_background::forecast::{self, FORECASTERS, ForecasterRow};
use ioweir_config::Choosable as _;
use ioweir_config::{AMOUNT_EXAMPLES, Key, format_range, format_value, shown, unknown};
use ioweir_core::Reason;
#[cfg(feature = "plan")]
use ioweir_core::background::{SERVICES, Service, ServiceRow};
use ioweir_core::cores::{SCHEDULES, ScheduleRow};
use ioweir_core::policy::{PAIR, POLICIES, Parameter, PolicyRow};
use ioweir_device::{DeviceSpec, PRESETS, Preset};
use ioweir_lab::document::FORMS;
use ioweir_lab::experiment::{self, METRICS};
#[cfg(feature = "servers")]
use ioweir_lab::server::{self, COST_SETS, PLATFORMS, ServerPreset, WORKLOADS};
use ioweir_lab::workload::{JobMix, MIXES};
#[cfg(feature = "advise")]
use ioweir_measure::advise::KNOBS;
#[cfg(feature = "serve")]
use ioweir_serve::log::EventKind;
use ioweir_trace as trace;

use crate::arguments::DocArguments;
use crate::failure::Failure;
use crate::layout::{LAYOUTS, Layout};
use crate::output;

/// Columns that explanations are wrapped to, where the terminal is not narrower.
const WIDTH: usize = 100;

/// Columns that a list needs beside its names.
const NAME_ROOM: usize = 44;

/// Other words that people ask for, each with its topic.
const WORDS: [(&str, &str); 12] = [
    ("scheduler", "policy"),
    ("schedulers", "policy"),
    ("elevator", "policy"),
    ("policies", "policy"),
    ("preset", "device"),
    ("disk", "device"),
    ("experiment", "simulate"),
    ("server", "serve"),
    ("spec", "serve"),
    ("wait", "reason"),
    ("size", "units"),
    ("exit", "exit-codes"),
];

/// A topic of `ioweir doc`.
pub(crate) struct Topic {
    name: &'static str,
    pub(crate) summary: &'static str,
    /// The entries with one line each, in the order of their table; empty for a topic that is one text.
    entries: fn() -> Vec<(&'static str, &'static str)>,
    /// The text of the topic, shown above its entries.
    pub(crate) about: &'static str,
    /// The text of one entry; a topic without it shows the entry's line.
    entry: Option<fn(&str) -> Option<String>>,
}

/// The topics, each with its summary.
pub(crate) fn topics() -> impl Iterator<Item = (&'static str, &'static str)> {
    TOPICS.iter().map(|topic| (topic.name, topic.summary))
}

/// A topic and its entries.
#[cfg(all(feature = "plan", feature = "reproduce"))]
pub(crate) fn topic(name: &str) -> Option<(&'static Topic, Vec<(&'static str, &'static str)>)> {
    TOPICS.iter().find(|topic| topic.name == name).map(|topic| (topic, (topic.entries)()))
}

const TOPICS: &[Topic] = &[
    Topic {
        name: "policy",
        summary: "schedulers and their parameters",
        entries: || {
            let policies = POLICIES.iter().map(|row| (row.name, row.summary));
            policies.chain([(PAIR.name, PAIR.summary)]).collect()
        },
        about: "Schedulers. A parameter follows the name: bid-hdd:wait=2ms:history=4. ORDER+ELEVATOR puts an order of tenants \
above an elevator: mclock+bid-hdd:history=4:window=32.",
        entry: Some(|name| match name.split_once('+') {
            Some((order, elevator)) => {
                Some([pair(), PolicyRow::find(order).map(policy)?, PolicyRow::find(elevator).map(policy)?].join("\n"))
            }
            None if name == PAIR.name => Some(pair()),
            None => PolicyRow::find(name).map(policy),
        }),
    },
    Topic {
        name: "cores",
        summary: "schedules of a storage server's cores: which queue a worker serves, and for how long",
        entries: || SCHEDULES.iter().map(|row| (row.name, row.summary)).collect(),
        about: "Schedules of cores. HQ, LQ and MQ are the high, low and maintenance queues. Every schedule has the same \
parameters, so that all parts combine: sord:qats=yes:hq-weight=90 is combo.",
        entry: Some(|name| ScheduleRow::find(name).map(schedule)),
    },
    #[cfg(feature = "plan")]
    Topic {
        name: "service",
        summary: "background services that a plan can run: the cost of their debt, and what paying it frees",
        entries: || SERVICES.iter().map(|row| (row.name, row.summary)).collect(),
        about: "Background services. [service.NAME] in the policy of `ioweir plan` or in a govern file runs one; `ioweir doc plan` and \
`ioweir doc govern` list the terms that it may set.",
        entry: Some(|name| Service::find(name).map(service)),
    },
    Topic {
        name: "device",
        summary: "device presets, and how well they are validated",
        entries: || PRESETS.iter().map(|preset| (preset.name, preset.title)).collect(),
        about: "Device presets. `ioweir show NAME` prints one with every parameter, to start a device file from; \
`ioweir doc device-file` lists the keys of such files.",
        entry: Some(|name| PRESETS.iter().find(|preset| preset.name == name).map(device)),
    },
    Topic {
        name: "device-file",
        summary: "keys of a device file, which --device takes",
        entries: || DEVICE_KEYS.iter().map(|(path, key)| (path.as_str(), key.help)).collect(),
        about: "A device file is TOML and holds one device: [disk_datasheet] or [flash_datasheet] with the numbers of a \
datasheet, an [array] of equal drives, [tiered], or a model with all its parameters, [hdd] or [ssd].",
        entry: Some(|name| key_text(&DEVICE_KEYS, name)),
    },
    #[cfg(feature = "servers")]
    Topic {
        name: "servers",
        summary: "keys of an experiment on servers, which simulate reads",
        entries: || SERVERS_KEYS.iter().map(|(path, key)| (path.as_str(), key.help)).collect(),
        about: "An experiment file with [[server]] tables runs the model of a storage server: schedules of its cores at shares of its \
peak load. examples/server.toml is one to start from.",
        entry: Some(|name| key_text(&SERVERS_KEYS, name)),
    },
    #[cfg(feature = "servers")]
    Topic {
        name: "platform",
        summary: "storage servers whose request scheduling can be simulated",
        entries: || PLATFORMS.iter().map(|preset| (preset.name, preset.title)).collect(),
        about: "Platforms: the hardware of the storage servers whose cores are scheduled, with their parameters. `ioweir simulate` runs an \
experiment that names them, or files of one's own, in [[server]] tables: examples/server.toml is one to start from. A server with the \
models of disks is an experiment with [cores] and [[device]]: examples/storage-box.toml.",
        entry: Some(|name| PLATFORMS.iter().find(|preset| preset.name == name).map(server_part)),
    },
    #[cfg(feature = "servers")]
    Topic {
        name: "workload",
        summary: "workloads of storage servers",
        entries: || WORKLOADS.iter().map(|preset| (preset.name, preset.title)).collect(),
        about: "Workloads of the storage servers whose cores are scheduled, with their parameters: for the key `workload` of a [[server]] table.",
        entry: Some(|name| WORKLOADS.iter().find(|preset| preset.name == name).map(server_part)),
    },
    #[cfg(feature = "servers")]
    Topic {
        name: "costs",
        summary: "what the work of storage servers costs",
        entries: || COST_SETS.iter().map(|preset| (preset.name, preset.title)).collect(),
        about: "Processor times of requests and of the server's own work, and how the load swings: for the key `costs` of a [[server]] table.",
        entry: Some(|name| COST_SETS.iter().find(|preset| preset.name == name).map(server_part)),
    },
    Topic {
        name: "format",
        summary: "trace formats: columns, units, limits",
        entries: || trace::FORMATS.iter().map(|format| (format.name, format.title)).collect(),
        about: "Trace formats. They are recognised by their content, compressed (gzip, zstd, bzip2, xz) or not; where two \
formats look the same, the name must be given with --format.",
        entry: Some(|name| trace::format(name).map(format)),
    },
    Topic {
        name: "mix",
        summary: "jobs whose traffic can be generated",
        entries: || MIXES.iter().map(|mix| (mix.name, mix.title)).collect(),
        about: "Mixes of `ioweir trace generate MIX OUT`: the six Hadoop jobs of the BID paper's Table 2.",
        entry: Some(|name| ioweir_lab::workload::mix(name).map(mix)),
    },
    #[cfg(feature = "plan")]
    Topic {
        name: "forecaster",
        summary: "forecasters of coming days",
        entries: || FORECASTERS.iter().map(|row| (row.name, row.summary)).collect(),
        about: "Forecasters of `ioweir forecast --method`. A setting follows the name: paper:trend=0.8.",
        entry: Some(|name| forecast::find(name).map(forecaster)),
    },
    Topic {
        name: "simulate",
        summary: "keys of an experiment file, which `ioweir simulate` runs",
        entries: || EXPERIMENT_KEYS.iter().map(|(path, key)| (path.as_str(), key.help)).collect(),
        about: "An experiment file is TOML: the keys below, a [[class]] for every class of clients, with a [[class.phase]] for every \
change in time, a [[group]] for clients with a common share, an [[expect]] for each expected result, and a [sweep]. \
A whole server has [cores], a [[device]] for every kind of device, and classes of background work, [class.background]. \
Examples are in examples/. `ioweir show FILE` prints a file with every default.",
        entry: Some(|name| key_text(&EXPERIMENT_KEYS, name)),
    },
    #[cfg(feature = "advise")]
    Topic {
        name: "knob",
        summary: "what `ioweir advise` may set beside schedulers and their parameters",
        entries: || KNOBS.iter().map(|knob| (knob.name, knob.help)).collect(),
        about: "Knobs of `ioweir advise`. Each is tried where the device has it, and named in an advice where it matters.",
        entry: None,
    },
    Topic {
        name: "sweep",
        summary: "keys of a sweep file, which `ioweir sweep` runs",
        entries: || SWEEP_KEYS.iter().map(|(path, key)| (path.as_str(), key.help)).collect(),
        about: "A sweep file is TOML: a comparison or an experiment, and a [sweep] with values for its keys, named as in their \
files; a key in a table is written class.NAME.rate, in quotes. Lists such as schedulers, traces and seeds are swept too. A \
comparison or an experiment is a sweep file by itself. Every combination is a cell.",
        entry: Some(|name| key_text(&SWEEP_KEYS, name)),
    },
    Topic {
        name: "serve",
        summary: "keys of a server's spec, which `ioweir serve` reads",
        entries: || SERVER_KEYS.iter().map(|(path, key)| (path.as_str(), key.help)).collect(),
        about: "A server's spec is TOML: [server], a [[device]] for each store of bytes, an [[export]] for each name that \
clients open, a [[tenant]] or [[group]] for clients with their own shares, and a [service.NAME] for background work of the \
server. `ioweir show FILE` prints a file with every \
default.",
        entry: Some(|name| key_text(&SERVER_KEYS, name)),
    },
    #[cfg(feature = "serve")]
    Topic {
        name: "event",
        summary: "events of a server's log",
        entries: || EventKind::ALL.iter().map(|kind| (kind.name(), kind.help().trim())).collect(),
        about: "Events of a server's log, which are also counted in the metric `ioweir_events_total{kind}`. docs/failure-modes.md says what \
to do about each that tells of trouble.",
        entry: None,
    },
    #[cfg(feature = "plan")]
    Topic {
        name: "plan",
        summary: "keys of a policy file, which `ioweir plan` takes",
        entries: || PLAN_KEYS.iter().map(|(path, key)| (path.as_str(), key.help)).collect(),
        about: "A policy file is TOML: the [pool] and the [cores] that are shared, what the numbers of the series mean in [load], the \
[forecast], and a [service.NAME] for each service with its terms. `ioweir show FILE` prints a file with every default.",
        entry: Some(|name| key_text(&PLAN_KEYS, name)),
    },
    #[cfg(feature = "govern")]
    Topic {
        name: "govern",
        summary: "keys of a govern file, which `ioweir govern` reads",
        entries: || GOVERN_KEYS.iter().map(|(path, key)| (path.as_str(), key.help)).collect(),
        about: "A govern file is TOML: a [[source]] for each place where load is measured, a [service.KIND] for each service with \
what it owes and by when, and a [worker.KIND] that does its work. [pool], [cores], [forecast] and the terms of services mean what they \
mean in a policy of `ioweir plan`. Files to start from are in examples/govern. `ioweir show FILE` prints a file with every default.",
        entry: Some(|name| key_text(&GOVERN_KEYS, name)),
    },
    Topic {
        name: "metric",
        summary: "figures of an experiment, for expectations and reports",
        entries: || METRICS.iter().map(|metric| (metric.name, metric.help)).collect(),
        about: "Figures of an experiment. Times are in seconds in JSON and CSV, and carry a unit in expectations.",
        entry: None,
    },
    Topic {
        name: "load",
        summary: "how a trace's requests arrive",
        entries: || {
            vec![
                ("recorded", "requests arrive at the times of the trace, whether or not earlier ones have completed"),
                ("x10", "the same, ten times as fast; any factor with up to three decimals: x0.5"),
                (
                    "closed:32",
                    "each stream keeps 32 requests outstanding from the start; the trace's times only give the order. \
                     closed:32+100us sends each next one 100 us after a completion, as a process that has to wake up does",
                ),
            ]
        },
        about: "Loads. At recorded times a disk is often idle, and then completion time says little about the scheduler: \
compare busy time and latency, or increase the load. `--load 32` of compare is taken as closed:32, and the command says so; \
a file must say which it means.",
        entry: None,
    },
    Topic {
        name: "reason",
        summary: "what a waiting request waits for",
        entries: || Reason::ALL.iter().map(|reason| (reason.name(), reason.words())).collect(),
        about: "Reasons for waiting. Reports add up the waiting time of all requests by reason; waiting plus the device's service \
times equals the latencies.",
        entry: None,
    },
    Topic {
        name: "requests",
        summary: "columns of the requests that `--requests FILE` writes",
        entries: || trace::REQUEST_COLUMNS.to_vec(),
        about: "A row for every request, as Parquet. The first columns are those of a trace (`ioweir doc format parquet`): \
time_nanos is the arrival, latency_nanos the time from there to the completion, stream an index into the names of the file's \
metadata. The waits add up to dispatched_nanos - time_nanos exactly. A tenant policy reports the reason for each client; an elevator reports how many queued requests \
wait for each reason, and each request gets its part. The file of one run is also a trace.",
        entry: None,
    },
    Topic {
        name: "export",
        summary: "forms in which a document can be written",
        entries: || FORMS.iter().map(|form| (form.suffix, form.summary)).collect(),
        about: "Forms of `--export FILE`, by the file's suffix. A file is written whole or not at all.",
        entry: None,
    },
    Topic {
        name: "json",
        summary: "keys of every JSON output",
        entries: || LAYOUTS.iter().map(|layout| (layout.name, layout.summary)).collect(),
        about: "Keys of JSON outputs. `list[]` is each of a list, `map{}` each value of an object whose keys are names, `key?` is left out \
where it does not apply, and `*` is any other key. A figure is a number, or an object with its mean, the half width of its \
interval and the number of seeds. New keys are added; where one changes its meaning or disappears, schema_version increases.",
        entry: Some(|name| find(name).map(Layout::text)),
    },
    Topic {
        name: "schema",
        summary: "JSON schemas of every JSON output",
        entries: || LAYOUTS.iter().map(|layout| (layout.name, layout.summary)).collect(),
        about: "JSON schemas (2020-12) of JSON outputs, for programs that check what they read: `ioweir doc schema compare > \
compare.schema.json`.",
        entry: Some(|name| find(name).map(Layout::schema)),
    },
    Topic {
        name: "units",
        summary: "how sizes, durations and rates are written",
        entries: || AMOUNT_EXAMPLES.iter().map(|example| (example.text, example.meaning)).collect(),
        about: "Sizes, durations and rates carry a unit, in every file, flag, parameter and control command alike. A bare number is \
refused, because tools disagree about what it means; only zero needs no unit. Results are in SI units: MB/s are 10^6 bytes per \
second.",
        entry: None,
    },
    Topic {
        name: "exit-codes",
        summary: "exit codes of the program",
        entries: || {
            vec![
                ("0", "success; also when the reader of the output closed the pipe"),
                ("1", "a failure while running: for example, a file could not be written"),
                ("2", "usage or bad input: arguments, specs, traces"),
                ("3", "an expectation was not met"),
            ]
        },
        about: "Exit codes.",
        entry: None,
    },
    Topic {
        name: "columns",
        summary: "what the numbers of a comparison mean",
        entries: || {
            vec![
                ("completion", "first arrival to last completion, seconds"),
                ("relative", "completion divided by the reference scheduler's: x0.71 takes 29 % less time"),
                ("busy", "share of that time that the device was working"),
                ("throughput", "bytes asked for, divided by completion; 10^6 bytes a second"),
                ("latency", "arrival to completion of requests as submitted, before merging and splitting"),
                ("seeks", "changes of track, between requests and within them"),
                ("sweeps", "tracks crossed by them, in widths of the disk"),
                ("merged", "submitted requests that were merged into another"),
            ]
        },
        about: "Columns of `ioweir compare`: first those in which schedulers differ. JSON and CSV name them with their units: latency_p99_seconds.",
        entry: None,
    },
];

fn find(name: &str) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.name == name)
}

/// Prints the topics, a topic, or an entry of a topic.
pub(crate) fn act(arguments: &DocArguments) -> Result<(), Failure> {
    if let Some(folder) = &arguments.write {
        #[cfg(all(feature = "plan", feature = "reproduce"))]
        return crate::reference::write(folder);
        #[cfg(not(all(feature = "plan", feature = "reproduce")))]
        return crate::left_out::refused(&format!("pages for {folder}"), "plan,reproduce");
    }
    let Some(name) = &arguments.topic else {
        let topics: Vec<_> = TOPICS.iter().map(|topic| (topic.name, topic.summary)).collect();
        return output::print(format!("Topics of `ioweir doc TOPIC [NAME]`.\n\n{}", list(&topics)).as_bytes());
    };
    let Some(topic) = topic_of(name) else { return searched(name) };
    let entries = (topic.entries)();
    let Some(wanted) = &arguments.name else {
        return output::print(format!("{}\n\n{}", wrap(topic.about, 0), list(&entries)).as_bytes());
    };
    if let Some(text) = topic.entry.and_then(|text| text(wanted)) {
        return output::print(text.as_bytes());
    }
    let found = entries.iter().find(|(name, _)| name == wanted).ok_or_else(|| {
        let names: Vec<_> = entries.iter().map(|entry| entry.0).collect();
        unknown(topic.name, wanted, &names, &format!("`ioweir doc {}` lists them", topic.name))
    })?;
    output::print(list(&[*found]).as_bytes())
}

/// The topic of this name, or of a word for it: plurals and other words will do.
fn topic_of(name: &str) -> Option<&'static Topic> {
    let folded = name.to_lowercase().replace('_', "-");
    let named = WORDS.iter().find(|(word, _)| *word == folded).map_or(&*folded, |(_, topic)| topic);
    let is_meant = |topic: &&Topic| topic.name == named || format!("{}s", topic.name) == named;
    TOPICS.iter().find(is_meant)
}

/// Prints the entries of all topics that have this name, or else the keys of files that lie in a table of this name, or else the entries
/// that speak of it.
fn searched(name: &str) -> Result<(), Failure> {
    let folded = name.to_lowercase().replace('_', "-");
    let among = |is_found: &dyn Fn(&str) -> bool| -> Vec<(&'static Topic, &'static str, &'static str)> {
        let of = |topic: &'static Topic| {
            (topic.entries)()
                .into_iter()
                .filter(|(entry, _)| is_found(entry))
                .map(move |(entry, line)| (topic, entry, line))
        };
        TOPICS.iter().flat_map(of).collect()
    };
    let is_named = |entry: &str| entry.to_lowercase().replace('_', "-") == folded;
    let mut found = among(&is_named);
    if found.is_empty() {
        found = among(&|entry| entry.split(['.', '[', ']']).any(is_named));
    }
    match found[..] {
        [] if !mentions(&folded).is_empty() => {
            let (found, left) = shortened(mentions(&folded));
            let others =
                if left == 0 { String::new() } else { format!("\nand {left} more: `ioweir doc` lists the topics\n") };
            output::print(
                format!("No entry is named `{}`; these speak of it:\n\n{}{others}", shown(name), found).as_bytes(),
            )
        }
        [] => {
            let names: Vec<_> = TOPICS.iter().map(|topic| topic.name).collect();
            let hint = "`ioweir doc` lists the topics; `ioweir doc NAME` finds an entry of any of them by its name";
            Err(unknown("topic or name", name, &names, hint).into())
        }
        [(topic, entry, line)] => {
            let text = topic.entry.and_then(|text| text(entry)).unwrap_or_else(|| list(&[(entry, line)]));
            output::print(text.as_bytes())
        }
        _ => output::print(format!("`{}` is in several places:\n\n{}", shown(name), commands(&found)).as_bytes()),
    }
}

/// An entry of a topic with its line.
type Found = (&'static Topic, &'static str, &'static str);

/// The commands that print entries, each with the entry's line.
fn commands(found: &[Found]) -> String {
    let lines: Vec<(String, &str)> =
        found.iter().map(|(topic, entry, line)| (format!("ioweir doc {} {entry}", topic.name), *line)).collect();
    let lines: Vec<(&str, &str)> = lines.iter().map(|(command, line)| (command.as_str(), *line)).collect();
    list(&lines)
}

/// The entries with the word in their name or line, those with it in their name first.
fn mentions(word: &str) -> Vec<Found> {
    let has = |text: &str| text.to_lowercase().split(|each: char| !each.is_alphanumeric()).any(|each| each == word);
    let of = |topic: &'static Topic| (topic.entries)().into_iter().map(move |(entry, line)| (topic, entry, line));
    let (mut named, others): (Vec<Found>, Vec<Found>) = TOPICS
        .iter()
        .flat_map(of)
        .filter(|(_, entry, line)| has(entry) || has(line))
        .partition(|(_, entry, _)| has(entry));
    named.extend(others);
    named
}

/// The commands of as many entries as a screen holds, and how many are left.
fn shortened(mut found: Vec<Found>) -> (String, usize) {
    const ENTRIES_MAX: usize = 12;
    let left = found.len().saturating_sub(ENTRIES_MAX);
    found.truncate(ENTRIES_MAX);
    (commands(&found), left)
}

/// Names and lines side by side, the lines wrapped.
pub(crate) fn list(entries: &[(&str, &str)]) -> String {
    let width = entries.iter().map(|entry| entry.0.len()).max().unwrap_or(0);
    let mut out = String::new();
    // Names that leave too little room on a narrow terminal have their lines below them.
    if output::screen().width.is_some_and(|all| width + NAME_ROOM > all) {
        for (name, line) in entries {
            let _ = writeln!(out, "  {name}\n      {}", wrap(line, 6));
        }
        return out;
    }
    for (name, line) in entries {
        // Writing to a string does not fail.
        let _ = writeln!(out, "  {name:width$}  {}", wrap(line, width + 4));
    }
    out
}

/// Breaks `text` into lines; all but the first begin with `indent` blanks.
fn wrap(text: &str, indent: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    let width = output::screen().width.map_or(WIDTH, |width| width.min(WIDTH));
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// A name and what it is, wrapped.
fn titled(name: &str, title: &str) -> String {
    wrap(&format!("{name}: {title}"), 0)
}

fn pair() -> String {
    format!("{}\n\n{}\n{}", titled(PAIR.name, PAIR.summary), wrap(PAIR.doc, 0), parameters(PAIR.parameters))
}

fn policy(row: &PolicyRow) -> String {
    let mut out = format!("{}\n\n{}\n\n", titled(row.name, row.summary), wrap(row.doc, 0));
    // Writing to a string does not fail.
    let _ = writeln!(out, "Source: {}", wrap(row.source, 8));
    let _ = writeln!(out, "Bound on waiting: {}", wrap(row.bound.doc, 18));
    if let Some(linux) = row.linux {
        let _ = writeln!(out, "Linux: echo {linux} > /sys/block/DEVICE/queue/scheduler");
    }
    out += &parameters(row.parameters);
    if let Some(first) = row.parameters.first() {
        let _ = writeln!(
            out,
            "\nExample: --scheduler {}:{}={}",
            row.name,
            first.name,
            format_value(first.unit, first.default)
        );
    }
    out
}

/// A platform or a workload.
#[cfg(feature = "servers")]
fn server_part(preset: &ServerPreset) -> String {
    let mut out = format!("{}\n\nWhere the numbers come from:\n", titled(preset.name, preset.title));
    for source in preset.sources {
        // Writing to a string does not fail.
        let _ = writeln!(out, "  - {}", wrap(source, 4));
    }
    out + "\nParameters:\n\n" + preset.parameters
}

fn schedule(row: &ScheduleRow) -> String {
    let mut out = format!("{}\n\n{}\n\n", titled(row.name, row.summary), wrap(row.doc, 0));
    // Writing to a string does not fail.
    let _ = writeln!(out, "Source: {}", wrap(&format!("{}, {}", row.source, row.section), 8));
    out + &parameters(row.parameters)
}

#[cfg(feature = "plan")]
fn service(service: Service) -> String {
    let row = service.row();
    let mut out = format!("{}\n\n{}\n\n", titled(row.name, row.summary), wrap(row.doc, 0));
    for (name, value) in service_terms(row) {
        // Writing to a string does not fail.
        let _ = writeln!(out, "  {name:18}  {value}");
    }
    out
}

/// The debt, cost and yield of a service, in words.
#[cfg(feature = "plan")]
pub(crate) fn service_terms(row: &ServiceRow) -> Vec<(&'static str, String)> {
    let deadline = match row.deadline_seconds {
        0 => "none".into(),
        seconds => ioweir_config::Duration::from_seconds(u64::from(seconds)).to_string(),
    };
    let room = match (row.tied_per_mille, row.takes_room) {
        (0, _) => "none".into(),
        (tied, true) => format!("{tied} of 1000 blocks, taken when the debt is incurred"),
        (tied, false) => format!("{tied} of 1000 blocks, taken before"),
    };
    vec![
        ("debt", row.source.name().into()),
        ("cost", format!("{} operations for 1000 blocks", row.cost_per_mille)),
        ("room given back", room),
        ("item", format!("{} blocks", row.item_blocks)),
        ("priority", row.priority.to_string()),
        ("deadline", deadline),
    ]
}

/// The parameters, a line each.
fn parameters(parameters: &[Parameter]) -> String {
    if parameters.is_empty() {
        return "\nIt has no parameters.\n".into();
    }
    let mut out = "\nParameters:\n".to_owned();
    let width = parameters.iter().map(|parameter| parameter.name.len()).max().unwrap_or(0);
    for parameter in parameters {
        let range = format!(
            "{} [default: {}; {}]",
            parameter.help,
            format_value(parameter.unit, parameter.default),
            format_range(parameter)
        );
        // Writing to a string does not fail.
        let _ = writeln!(out, "  {:width$}  {}", parameter.name, wrap(&range, width + 4));
    }
    out
}

#[cfg(feature = "plan")]
fn forecaster(row: &ForecasterRow) -> String {
    let mut out = format!("{}\n\n{}\n\n", titled(row.name, row.summary), wrap(row.doc, 0));
    // Writing to a string does not fail.
    let _ = writeln!(out, "Source: {}", wrap(row.source, 8));
    let width = row.settings.iter().map(|setting| setting.name.len()).max().unwrap_or(0);
    out += if row.settings.is_empty() { "\nIt has no settings.\n" } else { "\nSettings:\n" };
    for setting in row.settings {
        let range = format!("{} [default: {}; {} to {}]", setting.help, setting.default, setting.min, setting.max);
        let _ = writeln!(out, "  {:width$}  {}", setting.name, wrap(&range, width + 4));
    }
    out
}

/// Keys of a file with their paths in it.
type Keys = LazyLock<Vec<(String, Key)>>;

static DEVICE_KEYS: Keys = LazyLock::new(|| key_paths(ioweir_device::key_tables()));
static EXPERIMENT_KEYS: Keys = LazyLock::new(|| key_paths(experiment::key_tables()));
#[cfg(feature = "servers")]
static SERVERS_KEYS: Keys = LazyLock::new(|| key_paths(server::key_tables()));
static SWEEP_KEYS: Keys = LazyLock::new(|| key_paths(crate::sweep::key_tables()));
#[cfg(feature = "plan")]
static PLAN_KEYS: Keys = LazyLock::new(|| key_paths(ioweir_background::plan::policy::key_tables()));
#[cfg(feature = "govern")]
static GOVERN_KEYS: Keys = LazyLock::new(|| key_paths(crate::govern::key_tables()));
static SERVER_KEYS: Keys = LazyLock::new(|| key_paths(crate::server::key_tables()));

fn key_paths(tables: Vec<(&str, Vec<Key>)>) -> Vec<(String, Key)> {
    let path = |table: &str, key: Key| {
        let table = table.trim_matches(['[', ']']);
        (if table.is_empty() { key.name.to_owned() } else { format!("{table}.{}", key.name) }, key)
    };
    tables.into_iter().flat_map(|(table, keys)| keys.into_iter().map(move |key| path(table, key))).collect()
}

fn key_text(keys: &Keys, wanted: &str) -> Option<String> {
    let (path, key) = keys.iter().find(|(path, _)| path == wanted)?;
    let default = match (key.default)() {
        None => "none: it must be given".to_owned(),
        Some(text) if text.is_empty() => "absent".to_owned(),
        Some(text) => text,
    };
    Some(format!("{path}: {}\n\nDefault: {default}\n", wrap(key.help, path.len() + 2)))
}

/// The features of a preset beyond reading and writing where it is told.
pub(crate) fn switched_on(preset: &Preset) -> String {
    let words = DeviceSpec::load(preset.name).map(|spec| spec.switched_on()).unwrap_or_default();
    if words.is_empty() { "nothing".into() } else { words.join(", ") }
}

fn device(preset: &Preset) -> String {
    let mut out = format!(
        "{}\n\nStatus: {}\nSwitched on: {}\n\nWhere the numbers come from:\n",
        titled(preset.name, preset.title),
        preset.status.name(),
        switched_on(preset)
    );
    for source in preset.sources {
        // Writing to a string does not fail.
        let _ = writeln!(out, "  - {}", wrap(source, 4));
    }
    let _ = writeln!(out, "\nParameters: ioweir show {}", preset.name);
    out
}

fn format(format: &trace::Format) -> String {
    let writable = if format.write.is_some() { "read and written" } else { "read only" };
    format!("{}: {} ({writable})\n\n{}\n", format.name, format.title, format.doc())
}

fn mix(mix: &JobMix) -> String {
    let mut out = format!("{}: {}\n\n{}\n\n", mix.name, mix.title, wrap(mix.doc, 0));
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "Requests of the capture: {}; readers at once: {}; reads that go on: {:.1} %",
        mix.requests,
        mix.readers,
        f64::from(mix.read_sequential_per_mille) / 10.0
    );
    out
}
