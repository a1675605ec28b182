//! The verb `record`: the requests of a device of this machine as a trace.

use std::io::BufWriter;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use ioweir_block::real::{Identity, RealError, Stop, System, state_folder};
use ioweir_config::{Size, format_bytes, format_count, shown};
use ioweir_core::{Nanos, Reason, Tier};
use ioweir_lab::document::{Block, Column, Document, Table};
use ioweir_measure::record::{self, Options, RecordError, Summary};
use ioweir_trace::tracefs::Recorded;
use ioweir_trace::{self as trace, Format, Names, Record, RunNames, Served, Target, TraceError, TraceSink};
use serde_json::{Value, json};

use crate::arguments::RecordArguments;
use crate::failure::Failure;
use crate::output::{self, Outputs};
use crate::trace as verb;

/// Records a device, and reports the result.
pub(crate) fn act(arguments: &RecordArguments) -> Result<(), Failure> {
    let system = System::default();
    let path = Path::new(&arguments.device);
    let identity = Identity::of(&system, system.device_of(path)?)?;
    let options = Options {
        span: verb::time("--for", &arguments.span)?,
        event: arguments.event.parse()?,
        buffer_kib: arguments.buffer.parse::<Size>()?.0.div_ceil(1024).clamp(16, 1 << 20),
    };
    let format = verb::target_format(None, &arguments.target)?;
    let outputs = Outputs::new(&arguments.output, &[&arguments.target], &[])?;
    let tracefs = record::find_tracefs(&system)?;
    super::undo_left(&system, &state_folder());
    let stop = Stop::on_signals().map_err(|error| Failure::Running(format!("signals: {error}")))?;
    let mut summary = None;
    let take = |file: &Path, name: &str| -> Result<(), Failure> {
        let mut file = Writing::begin(file, name, &identity)?;
        let mut sink = |records: &[Recorded], names: &Names| file.add(records, names);
        let done = record::record(&system, &tracefs, &identity, &options, &stop, &mut sink)?;
        if done.requests == 0 {
            let problem = format!(
                "{}: no request came in {:.1} s\n  expected: a device that something uses meanwhile\n\nhint: --for records longer",
                identity.name, done.seconds
            );
            return Err(Failure::Running(problem));
        }
        file.finish(&about(&system, &identity, &options, &done))?;
        summary = Some(done);
        Ok(())
    };
    write(&arguments.target, format, take)?;
    let Some(summary) = summary else { return Ok(()) };
    outputs.write(&document(arguments, &system, &identity, &summary)?)
}

/// Takes the records into a Parquet file, and converts it if another format is wanted.
fn write(name: &str, format: &Format, take: impl FnOnce(&Path, &str) -> Result<(), Failure>) -> Result<(), Failure> {
    let failed = |error| Failure::unwritable(name, &error);
    // The file has no name, so that nothing is left of it however the program ends.
    let temporary = tempfile::tempfile_in(output::folder_of(Path::new(name))).map_err(failed)?;
    let source = [PathBuf::from(format!("/proc/self/fd/{}", temporary.as_raw_fd()))];
    take(&source[0], name)?;
    if format.name == "parquet" {
        return output::write_file(name, |file| {
            std::io::copy(&mut temporary.try_clone().and_then(rewound).map_err(failed)?, file).map_err(failed)?;
            Ok(())
        });
    }
    verb::write(&mut *trace::open(&source, &trace::ReadOptions::default())?, name, format)
}

fn rewound(mut file: std::fs::File) -> std::io::Result<std::fs::File> {
    std::io::Seek::rewind(&mut file)?;
    Ok(file)
}

/// A file that records are written to, with times from zero.
struct Writing {
    sink: Box<dyn TraceSink>,
    first: Option<Nanos>,
    names: Names,
}

impl Writing {
    fn begin(path: &Path, name: &str, identity: &Identity) -> Result<Self, Failure> {
        let file = std::fs::File::create(path).map_err(|error| Failure::unwritable(name, &error))?;
        let mut sink = trace::request_file(Target::new(name, Box::new(BufWriter::new(file))))
            .map_err(|error| Failure::Running(error.to_string()))?;
        sink.begin_run(RunNames {
            scheduler: identity.scheduler.clone().unwrap_or_default(),
            device: identity.name.clone(),
            classes: vec![identity.name.clone()],
            about: json!({ "scheduler": identity.scheduler, "device": identity.name, "recorded": true }).to_string(),
        });
        Ok(Self { sink, first: None, names: Names::default() })
    }

    fn add(&mut self, records: &[Recorded], names: &Names) -> Result<(), TraceError> {
        for Recorded { record, issued } in records {
            let first = *self.first.get_or_insert(record.time);
            let time = record.time.since(first);
            let served = issued.zip(record.latency).map(|(issued, latency)| Served {
                class: 0,
                submitted: time,
                dispatched: issued.since(first),
                completed: time.after(latency),
                // The kernel does not say why a request waited.
                wait_nanos: [0; Reason::COUNT],
                cores_nanos: 0,
                tier: Tier::Base,
            });
            self.sink.write_served(&Record { time, ..*record }, served, names)?;
        }
        if self.names != *names {
            self.names.clone_from(names);
        }
        Ok(())
    }

    fn finish(mut self, about: &Value) -> Result<(), Failure> {
        self.sink.describe(&about.to_string());
        let epoch = self.first.map(|first| record::epoch_of_zero() + i128::from(first.0));
        self.sink.finish(&self.names, epoch).map_err(|error| Failure::Running(error.to_string()))
    }
}

/// The description of a recording, which the trace keeps.
fn about(system: &System, identity: &Identity, options: &Options, summary: &Summary) -> Value {
    let kernel = std::fs::read_to_string(system.proc.join("sys/kernel/osrelease")).unwrap_or_default();
    json!({
        "recorded_by": format!("ioweir {}", env!("CARGO_PKG_VERSION")),
        "kernel": kernel.trim(),
        "event": options.event.name(),
        "device": identity,
        "recording": summary,
    })
}

fn document(
    arguments: &RecordArguments,
    system: &System,
    identity: &Identity,
    summary: &Summary,
) -> Result<Document, Failure> {
    let data = json!({ "device": identity, "recording": summary, "file": arguments.target });
    let title = format!("{} for {:.1} s", identity.name, summary.seconds);
    let mut document = Document::new("ioweir record", title, &data)?;
    document.headline = format!(
        "{} requests of {} are in {}.",
        format_count(summary.requests),
        identity.name,
        shown(&arguments.target)
    );
    document.push(Block::Facts(facts(summary)));
    let mut text = |line: String| document.text(line);
    if let Some(partition) = &identity.partition {
        text(format!("{} is the whole disk of {partition}, and was recorded whole.", identity.name));
    }
    if summary.events_lost > 0 {
        text(format!("{} events were lost: take a larger --buffer.", format_count(summary.events_lost)));
    }
    let folder = output::folder_of(Path::new(&arguments.target));
    let own = system.device_of(folder).ok().and_then(|number| Identity::of(system, number).ok());
    if own.is_some_and(|own| own.name == identity.name) {
        text(format!("The file lies on {} itself: writing it is among what was recorded.", identity.name));
    }
    if identity.depth.is_none() {
        text(format!("{} has no queue of requests: the times of issues are not known.", identity.name));
    }
    document.push(groups(summary));
    document.records = records(summary);
    Ok(document)
}

fn facts(summary: &Summary) -> Vec<(String, String)> {
    let count = format_count;
    let by_statistics = summary.issued_by_statistics.map_or_else(|| "unknown".into(), count);
    let per_second = summary.read_bytes_per_second.round() as u64;
    [
        ("requests", format!("{}, {} of them completed", count(summary.requests), count(summary.requests_completed))),
        ("sent to the device", format!("{} by the events, {by_statistics} by diskstats", count(summary.issued))),
        (
            "events",
            format!(
                "{}, {} lost, {} unusable",
                count(summary.events),
                count(summary.events_lost),
                count(summary.events_unusable)
            ),
        ),
        (
            "own load",
            format!("{:.1} % of a core, {} of events a second", summary.cores * 100.0, format_bytes(per_second)),
        ),
        ("own requests", count(summary.requests_own)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// The most control groups that are shown; the file has all.
const GROUPS_SHOWN: usize = 10;

fn groups(summary: &Summary) -> Table {
    let columns = [Column::text("control group"), Column::count("requests"), Column::count("processes")];
    let mut table = Table::new("", columns).caption(
        "As each process said when its first request was read. Writes that the kernel has put off are those of its own workers.",
    );
    for group in summary.control_groups.iter().take(GROUPS_SHOWN) {
        let path = group.path.as_deref().unwrap_or("unknown: the process had ended");
        table.row([path.into(), group.requests.into(), (group.streams.len() as u64).into()]);
    }
    table
}

fn records(summary: &Summary) -> Table {
    let columns = ["requests", "requests_completed", "issued", "events", "events_lost"].map(Column::count);
    let mut table = Table::new("", columns);
    let row = [summary.requests, summary.requests_completed, summary.issued, summary.events, summary.events_lost];
    table.row(row.map(Into::into));
    table
}

impl From<RealError> for Failure {
    fn from(error: RealError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        Self::Running(error.to_string())
    }
}
