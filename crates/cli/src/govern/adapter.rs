//! The lab's governor, as the loop of the server's crate calls it.

use ioweir_background::govern::{self, Governor, Sample};
use ioweir_core::Nanos;
use ioweir_core::background::{Service, SliceTag};
use ioweir_govern::overseer::{Governor as Governs, Slice, Step};
use ioweir_govern::source::Reading;
use ioweir_govern::status::{GovernorStatus, ServiceStatus, Status, WorkerStatus};
use ioweir_lab::document::{Column, Document, Form, Format, Table};
use serde_json::Value;

/// How fast the governor's time passes: in a rehearsal each second counts as several, of time, of load and of work alike. Rates and
/// latencies are what they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    speed: u64,
    /// When both times were the same.
    origin: Nanos,
}

impl Pace {
    pub(super) const fn new(speed: u64, origin: Nanos) -> Self {
        Self { speed, origin }
    }

    pub(super) fn governor_time(self, now: Nanos) -> Nanos {
        self.origin.after(self.longer(now.since(self.origin)))
    }

    fn machine_time(self, until: Nanos) -> Nanos {
        if until == Nanos::NEVER {
            until
        } else {
            self.origin.after(Nanos(until.since(self.origin).0.div_ceil(self.speed)))
        }
    }

    const fn longer(self, span: Nanos) -> Nanos {
        Nanos(span.0.saturating_mul(self.speed))
    }
}

/// The lab's governor.
pub(super) struct Adapter {
    governor: Governor,
    by_requests: bool,
    pace: Pace,
}

impl Adapter {
    pub(super) fn new(governor: Governor, pace: Pace) -> Self {
        let by_requests = governor.spec().cores.is_some();
        Self { governor, by_requests, pace }
    }

    pub(super) const fn governor(&self) -> &Governor {
        &self.governor
    }
}

/// The sample of a time, if the reading says how much of the shared resource the foreground takes. A latency alone makes no sample: it
/// would make old news of the load look fresh.
pub(super) fn sample_of(reading: &Reading, span: Nanos, by_requests: bool) -> Option<Sample> {
    let whole = |rate: Option<f64>| (rate.unwrap_or(0.0).max(0.0) * span.as_seconds()).round() as u64;
    let share = |share: f64| Nanos((share.clamp(0.0, 1.0) * span.0 as f64) as u64);
    let load = if by_requests { reading.requests } else { reading.busy };
    load?;
    let written_bytes = whole(reading.written_bytes);
    Some(Sample {
        span,
        requests: whole(reading.requests),
        written_bytes,
        new_bytes: new_bytes(written_bytes, reading.written_bytes.and(reading.unique)),
        unmapped_bytes: whole(reading.discarded_bytes),
        busy: share(reading.busy.unwrap_or(0.0)),
        background_busy: reading.background_busy.map(share),
        latency: reading.latency_seconds.map(|seconds| Nanos((seconds * 1e9) as u64)),
    })
}

/// The bytes written that are new, if their share is known.
pub(super) fn new_bytes(written_bytes: u64, share: Option<f64>) -> Option<u64> {
    share.map(|share| (share.clamp(0.0, 1.0) * written_bytes as f64).round() as u64)
}

impl Governs for Adapter {
    fn sample(&mut self, now: Nanos, span: Nanos, reading: &Reading) {
        if let Some(sample) = sample_of(reading, self.pace.longer(span), self.by_requests) {
            self.governor.sample(self.pace.governor_time(now), &sample);
        }
    }

    fn poll(&mut self, now: Nanos) -> Step {
        match self.governor.poll(self.pace.governor_time(now)) {
            govern::Step::Run(slice) => {
                let govern::Slice { tag, service, bytes_per_second, reservation_bytes_per_second, .. } = slice;
                let is_idle_class = self.governor.spec().is_idle_class();
                let bytes = slice.bytes.div_ceil(self.pace.speed);
                let device_time = Nanos(slice.device_time.0.div_ceil(self.pace.speed));
                Step::Run(Slice {
                    tag,
                    service,
                    bytes,
                    bytes_per_second,
                    is_idle_class,
                    is_behind: slice.is_behind,
                    reservation_bytes_per_second,
                    device_time,
                })
            }
            govern::Step::Pause(tag) => Step::Pause(tag),
            govern::Step::End(tag) => Step::End(tag),
            govern::Step::WaitUntil(until, _) | govern::Step::Idle(until) => {
                Step::WaitUntil(self.pace.machine_time(until))
            }
        }
    }

    fn complete(&mut self, now: Nanos, tag: SliceTag, paid_bytes: u64, took: Nanos) {
        let paid_bytes = paid_bytes.saturating_mul(self.pace.speed);
        self.governor.complete(self.pace.governor_time(now), tag, paid_bytes, self.pace.longer(took));
    }

    fn owes(&mut self, now: Nanos, service: Service, bytes: u64) {
        self.governor.owes(self.pace.governor_time(now), service, bytes.saturating_mul(self.pace.speed));
    }

    fn set_back(&mut self, now: Nanos) {
        self.governor.set_back(self.pace.governor_time(now));
    }

    fn status(&self, now: Nanos) -> GovernorStatus {
        let status = self.governor.status(self.pace.governor_time(now));
        let share = |per_mille: u32| f64::from(per_mille) / 1000.0;
        let service = |of: govern::ServiceStatus| ServiceStatus {
            name: of.service.to_owned(),
            owed_bytes: of.owed_bytes,
            due_unix_seconds: of.due_unix_seconds,
            slack_seconds: of.slack_seconds,
            paid_bytes: of.count.paid_bytes,
            late_bytes: of.count.late_bytes,
            device_seconds: Nanos(of.count.device_nanos).as_seconds(),
            bytes_per_device_second: of.bytes_per_device_second,
            waits: of.waits.map(str::to_owned),
        };
        GovernorStatus {
            now_unix_seconds: status.now_unix_seconds,
            is_stale: status.is_stale,
            granted_share: share(status.granted_per_mille),
            running_share: share(status.running_per_mille),
            open_share: share(status.open_per_mille),
            objective_seconds: status.latency_max_seconds,
            samples: status.samples,
            samples_above: status.samples_above,
            samples_above_beside_background: status.samples_above_beside_background,
            forecast_error_share: status.forecast.error_percent.map(|percent| percent / 100.0),
            forecast_covered_share: status.forecast.covered_percent.map(|percent| percent / 100.0),
            notes: status.notes,
            services: status.services.into_iter().map(service).collect(),
        }
    }

    fn page(&self, now: Nanos, status: &Status) -> String {
        let written = govern::document(&self.governor, self.pace.governor_time(now)).and_then(|mut document| {
            add(&mut document, status);
            let html = Form::from_file_name("page.html").map(|form| form.render(&document)).transpose()?;
            Ok(String::from_utf8_lossy(&html.unwrap_or_default()).into_owned())
        });
        // A defect of the program; the metrics are there all the same.
        written.unwrap_or_else(|error| error.to_string())
    }

    fn state(&self) -> Value {
        // JSON can write all states: they consist of strings, numbers, lists and tables.
        serde_json::to_value(self.governor.state()).unwrap_or_default()
    }
}

/// Adds workers and sources to a page.
fn add(document: &mut Document, status: &Status) {
    let words = |name: &str| Column::text(name).format(Format::Own);
    let columns = [
        Column::text("worker"),
        words("now"),
        Column::bytes("done"),
        Column::bytes("left"),
        Column::count("overruns"),
        Column::count("failures"),
        words("found"),
        words("problem"),
    ];
    let mut workers = Table::new("Workers", columns);
    for worker in &status.workers {
        workers.row([
            worker.name.clone().into(),
            if worker.is_running { "runs" } else { "rests" }.into(),
            worker.paid_bytes.into(),
            worker.owed_bytes.into(),
            worker.overruns.into(),
            worker.failures.into(),
            worker.note.clone().into(),
            problem(worker).into(),
        ]);
    }
    document.push(workers);
    let mut sources = Table::new("Sources", [Column::text("source"), words("problem")]);
    for (name, problem) in &status.sources {
        sources.row([name.clone().into(), problem.clone().unwrap_or_default().into()]);
    }
    document.push(sources);
}

/// The problems of a worker, in words.
fn problem(worker: &WorkerStatus) -> String {
    let unreserved = worker.unreserved.as_ref().map(|why| format!("without its reservation: {why}"));
    worker.problem.clone().into_iter().chain(unreserved).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRUB: &str = "slice = \"2m\"\ncalm = \"5m\"\nstale = \"5m\"\ngrace = \"5m\"\n[forecast]\nbin = \"10m\"\n\
                         [service.scrub]\nowed = \"60GiB\"\ndeadline = \"8h\"\n";

    /// The decisions of a governor over so many minutes of its own, with a look each minute: all as if time passed at the usual speed.
    fn decisions(speed: u64) -> Vec<String> {
        let origin = Nanos::from_seconds(1_767_225_600);
        let spec = govern::GovernSpec::parse("govern.toml", SCRUB).expect("a spec");
        let governor = Governor::new(&spec, origin).expect("a governor");
        let mut adapter = Adapter::new(governor, Pace::new(speed, origin));
        let span = Nanos::from_seconds(60 / speed);
        let (mut now, mut all, mut running) = (origin, Vec::new(), None);
        for minute in 0..240_u64 {
            now = now.after(span);
            // An hour of load, an hour of rest.
            let busy = if minute / 60 % 2 == 0 { 0.95 } else { 0.05 };
            adapter.sample(now, span, &Reading { busy: Some(busy), background_busy: Some(0.0), ..Reading::default() });
            if let Some(Slice { tag, bytes, .. }) = running.take() {
                adapter.complete(now, tag, bytes, span);
            }
            loop {
                match adapter.poll(now) {
                    Step::Run(slice) => {
                        all.push(format!("{minute}: {} MiB", (slice.bytes * speed) >> 20));
                        running = Some(slice);
                    }
                    Step::WaitUntil(until) => {
                        all.push(format!("{minute}: {} s", until.since(now).0.saturating_mul(speed) / 1_000_000_000));
                        break;
                    }
                    Step::Pause(tag) | Step::End(tag) => {
                        running = None;
                        adapter.complete(now, tag, 0, span);
                    }
                }
            }
        }
        all
    }

    #[test]
    fn rehearsal_decides_as_the_days_it_replaces() {
        let real = decisions(1);
        assert!(real.iter().any(|line| line.ends_with("MiB")), "{real:?}");
        assert_eq!(decisions(60), real);
    }
}
