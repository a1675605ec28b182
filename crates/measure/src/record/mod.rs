//! Records the block requests of a device of this machine, by the kernel's events.
//!
//! An [`Instance`] of tracefs keeps the events of one device apart from all other users of tracing. Its binary pages are read as
//! they fill, and become records in [`ioweir_trace::tracefs`]. Nothing of it touches the device.

mod groups;
mod instance;

use std::path::PathBuf;

use ioweir_core::Nanos;
use ioweir_trace::tracefs::{Layout, Recorded, Recording, RecordingCounts};
use ioweir_trace::{Event, Names, TraceError};
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::Serialize;

use ioweir_block::backend::poll_for;
use ioweir_block::real::{Identity, RealError, Stat, Stop, System};

pub use groups::Group;
use groups::Groups;
pub use instance::{Instance, Tracefs};

/// How often the pages are read.
const PERIOD: Nanos = Nanos::from_millis(20);
/// How long an event may take from its time to its place in a page.
const SLACK: Nanos = Nanos::from_millis(1);

/// The options of a recording.
#[derive(Clone, Debug)]
pub struct Options {
    /// For how long.
    pub span: Nanos,
    /// Which event becomes a request.
    pub event: Event,
    /// The kernel's buffer for each processor.
    pub buffer_kib: u64,
}

/// The summary of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// How long it took.
    pub seconds: f64,
    /// Records.
    pub requests: u64,
    /// Requests whose completion was seen.
    pub requests_completed: u64,
    /// Requests of this program itself.
    pub requests_own: u64,
    /// Events that were read.
    pub events: u64,
    /// Events that the kernel dropped because the buffer was full.
    pub events_lost: u64,
    /// Events whose content or order could not be used, and pages that could not be read.
    pub events_unusable: u64,
    /// Requests with data that the device was sent, as counted by the events.
    pub issued: u64,
    /// Requests with data that the device was sent, as counted by its statistics (`diskstats`).
    pub issued_by_statistics: Option<u64>,
    /// Bytes of pages read a second.
    pub read_bytes_per_second: f64,
    /// The share of one core that the recording took.
    pub cores: f64,
    /// The control groups of the processes.
    pub control_groups: Vec<Group>,
}

/// Where the records go.
pub type Sink<'a> = dyn FnMut(&[Recorded], &Names) -> Result<(), TraceError> + 'a;

/// Why a recording failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The kernel's events cannot be had.
    #[error(transparent)]
    Real(#[from] RealError),
    /// The records cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

fn nanos(time: Timespec) -> Nanos {
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    Nanos::from_seconds(part(time.tv_sec)).after(Nanos(part(time.tv_nsec)))
}

/// The kernel's clock of events.
fn now() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// The number to add to the time of an event for nanoseconds since 1970.
#[must_use]
pub fn epoch_of_zero() -> i128 {
    i128::from(nanos(clock_gettime(ClockId::Realtime)).0) - i128::from(now().0)
}

/// Records a device until the time is over or it is asked to stop.
///
/// # Errors
/// If the kernel gives no events, or the sink fails.
pub fn record(
    system: &System,
    tracefs: &Tracefs,
    identity: &Identity,
    options: &Options,
    stop: &Stop,
    sink: &mut Sink<'_>,
) -> Result<Summary, RecordError> {
    let events = if identity.depth.is_some() { Layout::REQUEST_EVENTS } else { Layout::BIO_EVENTS };
    let numbers = identity.numbers(system);
    let mut instance = Instance::begin(tracefs, events, &numbers, options.buffer_kib)?;
    let kernels = numbers.iter().map(|number| (number.major << 20 | number.minor, identity.name.clone())).collect();
    let recording = Recording::new(instance.layout().clone(), kernels, options.event);
    let groups = Groups::new(system.clone());
    let mut run = Run { recording, records: Vec::new(), summary: Summary::default(), groups };
    let before = Stat::of(system, &identity.name);
    let (begin, used) = (now(), clock_gettime(ClockId::ProcessCPUTime));
    instance.enable()?;
    let end = begin.after(options.span);
    while now() < end && !stop.is_set() {
        let span = end.since(now()).min(PERIOD);
        poll_for(&[], span).map_err(|error| RealError::new(format!("waiting fails: {error}")))?;
        run.turn(&mut instance, sink)?;
    }
    instance.disable()?;
    run.turn(&mut instance, sink)?;
    let statistics = before
        .zip(Stat::of(system, &identity.name))
        .map(|(before, after)| after.requests().wrapping_sub(before.requests()));
    let lost = instance.lost();
    let mut summary = run.finish(sink)?;
    let seconds = now().since(begin).as_seconds();
    let used = nanos(clock_gettime(ClockId::ProcessCPUTime)).since(nanos(used));
    summary.seconds = seconds;
    summary.events_lost = summary.events_lost.max(lost);
    summary.issued_by_statistics = statistics;
    summary.read_bytes_per_second /= seconds.max(1e-9);
    summary.cores = used.as_seconds() / seconds.max(1e-9);
    instance.remove()?;
    Ok(summary)
}

/// A recording that runs.
struct Run {
    recording: Recording,
    records: Vec<Recorded>,
    summary: Summary,
    groups: Groups,
}

impl Run {
    /// Reads the pages that there are, and hands over complete requests.
    fn turn(&mut self, instance: &mut Instance, sink: &mut Sink<'_>) -> Result<(), RecordError> {
        // Events before `until` are in the pages: `SLACK` leaves time to those that are being written.
        let until = now().since(SLACK);
        let Self { recording, .. } = self;
        // A damaged page is counted, and the others are used.
        instance.read(&mut |page| {
            let _ = recording.page(page);
        })?;
        self.recording.settle(until, &mut self.records);
        self.hand_over(sink)
    }

    fn hand_over(&mut self, sink: &mut Sink<'_>) -> Result<(), RecordError> {
        let names = self.recording.names();
        self.summary.requests += self.records.len() as u64;
        let done = self.records.iter().filter(|recorded| recorded.record.latency.is_some());
        self.summary.requests_completed += done.count() as u64;
        self.groups.count(&self.records, names);
        sink(&self.records, names)?;
        self.records.clear();
        Ok(())
    }

    fn finish(mut self, sink: &mut Sink<'_>) -> Result<Summary, RecordError> {
        self.recording.finish(&mut self.records);
        self.hand_over(sink)?;
        let &RecordingCounts { bytes, events, lost, gaps, unusable, damaged, issued, completed, .. } =
            self.recording.counts();
        Ok(Summary {
            events,
            // A device without a queue of requests has no issue events; the requests that it completed were sent to it.
            issued: if issued > 0 { issued } else { completed },
            events_lost: lost + gaps,
            events_unusable: unusable + damaged,
            read_bytes_per_second: bytes as f64,
            requests_own: self.groups.requests_own(),
            control_groups: self.groups.into_found(self.recording.names()),
            ..self.summary
        })
    }
}

/// Where tracefs is mounted.
///
/// # Errors
/// If it is nowhere, with what to do.
pub fn find_tracefs(system: &System) -> Result<Tracefs, RealError> {
    let mounts = std::fs::read_to_string(system.proc.join("self/mountinfo")).unwrap_or_default();
    let mounted = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        (right.split(' ').next()? == "tracefs").then(|| left.split(' ').nth(4).map(PathBuf::from))?
    });
    // In debugfs it is mounted at the first look, which the table of mounts does not show before.
    let usual = [system.sys.join("kernel/tracing"), system.sys.join("kernel/debug/tracing")];
    let found = mounted.or_else(|| usual.into_iter().find(|path| path.join("events").is_dir()));
    found.map(Tracefs::new).ok_or_else(|| {
        RealError::new("tracefs is not mounted: the kernel's events cannot be read")
            .hint("as root: mount -t tracefs tracefs /sys/kernel/tracing")
    })
}
