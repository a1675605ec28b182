//! The kernel's counts of a disk: `/proc/diskstats`, and `/proc/pressure/io` where the kernel has it.

use std::fs;

use super::{Reading, Source, SourceError, span};
use crate::clock::Moment;
use crate::spec::SourceKeys;
use ioweir_block::real::{Stat, System};

/// A disk of this machine, or of a made-up file system.
#[derive(Debug)]
pub struct Disk {
    system: System,
    name: String,
    worker_request_bytes: u64,
    last: Option<(Moment, Stat, Option<u64>)>,
}

impl Disk {
    /// The disk of checked keys.
    #[must_use]
    pub fn new(keys: &SourceKeys, system: System) -> Self {
        let name = keys.disk.clone().unwrap_or_default();
        // A device may be named by its path.
        let name = name.strip_prefix("/dev/").unwrap_or(&name).to_owned();
        Self { system, name, worker_request_bytes: keys.worker_request.0, last: None }
    }
}

impl Source for Disk {
    fn name(&self) -> String {
        format!("disk {}", self.name)
    }

    fn read(&mut self, now: Moment) -> Result<Reading, SourceError> {
        let stat = Stat::of(&self.system, &self.name);
        let pressure = fs::read_to_string(self.system.proc.join("pressure/io")).ok();
        let Some(stat) = stat else {
            self.last = None;
            return Err(SourceError(format!("/proc/diskstats has no disk `{}`", self.name)));
        };
        let stalled = pressure.as_deref().and_then(stalled_micros);
        let last = self.last.replace((now, stat, stalled));
        let Some((before, stat_before, stalled_before)) = last else {
            return Err(SourceError("the first look: nothing to compare with yet".into()));
        };
        let seconds = span(before, now)?;
        let done = stat.since(&stat_before).ok_or_else(|| SourceError("the kernel's counts have gone back".into()))?;
        let stalled = stalled.zip(stalled_before).and_then(|(now, before)| now.checked_sub(before));
        let rate = |count: u64| Some(count as f64 / seconds);
        let finished = done.reads + done.writes;
        let share = |part: f64| part.clamp(0.0, 1.0);
        Ok(Reading {
            requests: rate(done.requests()),
            bytes: rate((done.read_sectors + done.written_sectors).saturating_mul(512)),
            written_bytes: rate(done.written_sectors.saturating_mul(512)),
            discarded_bytes: rate(done.discarded_sectors.saturating_mul(512)),
            unique: None,
            busy: Some(share(done.busy_millis as f64 / 1e3 / seconds)),
            background_busy: None,
            // The kernel has no quantiles: this is a mean.
            latency_seconds: (finished > 0)
                .then(|| (done.read_millis + done.write_millis) as f64 / 1e3 / finished as f64),
            stalled: stalled.map(|micros| share(micros as f64 / 1e6 / seconds)),
        })
    }

    fn worker_request_bytes(&self) -> Option<u64> {
        Some(self.worker_request_bytes)
    }
}

/// The time that some process was stalled, from the text of `/proc/pressure/io`.
fn stalled_micros(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split_whitespace().find_map(|word| word.strip_prefix("total=")?.parse().ok())
}
