//! Per-request records of a run: when each request was submitted, dispatched and completed, and what it waited for.
//!
//! A request that is split is described by the part that is served last, so that its waits and its time in the device add up to
//! its latency exactly. Waits are read off clocks, one for each reason: a clock of a client runs while the policy says that the
//! client waits for that reason; where the policy knows no clients, there is one set of clocks for all, each of which runs at
//! the share of the queued requests that wait for its reason.

use std::collections::BTreeMap;

use ioweir_core::policy::Policy;
use ioweir_core::{Dispatch, Nanos, Reason, Scheduler, StreamId, Tag};
use ioweir_trace::{Names, Record, RequestSink, RunNames, Served, TraceError};
use serde_json::json;

use super::Job;
use crate::sim::{Clients, Observer, Outcome};

/// Clocks count in units of 2^-32 ns.
const FRACTION_BITS: u32 = 32;

type Clocks = [u128; Reason::COUNT];

/// A part of a request that the scheduler holds, or the device.
#[derive(Clone, Copy)]
struct Part {
    number: u64,
    submitted: Nanos,
    dispatched: Nanos,
    /// The clocks at its submission.
    before: Clocks,
    wait_nanos: [u64; Reason::COUNT],
}

/// A request that is not done, or waits for an earlier one to be written.
struct Row {
    record: Record,
    arrival: Nanos,
    /// Of the part that was completed last.
    served: Option<Served>,
    is_done: bool,
}

/// Hands over a row for every request of a run, in the order of arrival.
struct Recorder<W> {
    write: W,
    clients: Clients,
    rows: BTreeMap<u64, Row>,
    /// By tag.
    parts: Vec<Option<Part>>,
    /// Tags that were submitted at this moment.
    fresh: Vec<Tag>,
    members: Vec<Vec<Tag>>,
    now: Nanos,
    clocks: BTreeMap<u32, Clocks>,
    /// Since `now`, the clocks that run, with their speeds in units of 2^-32.
    running: Vec<(u32, usize, u64)>,
    knows_shares: bool,
    /// Parts that wait in the scheduler, by stream.
    waiting: BTreeMap<u32, u32>,
    failure: Option<TraceError>,
}

/// The clocks of all requests, where the policy knows no clients.
const ALL: u32 = 0;

impl<W: FnMut(Record, Served) -> Result<(), TraceError>> Recorder<W> {
    fn new(job: &Job, write: W) -> Self {
        Self {
            write,
            clients: job.clients(),
            rows: BTreeMap::new(),
            parts: Vec::new(),
            fresh: Vec::new(),
            members: Vec::new(),
            now: Nanos::ZERO,
            clocks: BTreeMap::new(),
            running: Vec::new(),
            knows_shares: job.scheduler.row.knows_shares,
            waiting: BTreeMap::new(),
            failure: None,
        }
    }

    /// What could not be written.
    fn into_result(self) -> Result<(), TraceError> {
        self.failure.map_or(Ok(()), Err)
    }

    /// Lets the clocks run up to `now`.
    fn step_to(&mut self, now: Nanos) {
        let span = u128::from(now.since(self.now).0);
        if span > 0 {
            for (clock, reason, speed) in self.running.drain(..) {
                self.clocks.entry(clock).or_default()[reason] += span * u128::from(speed);
            }
            self.now = now;
        }
    }

    fn clock_of(&self, stream: u32) -> u32 {
        if self.knows_shares { stream } else { ALL }
    }

    fn stream(&self, number: u64) -> u32 {
        self.rows.get(&number).map_or(0, |row| row.record.stream.0)
    }

    /// The parts that were submitted at this moment begin to wait.
    fn begin_waiting(&mut self) {
        for tag in std::mem::take(&mut self.fresh) {
            let Some(number) = self.parts[tag.index()].map(|part| part.number) else { continue };
            let stream = self.stream(number);
            let before = self.clocks.get(&self.clock_of(stream)).copied().unwrap_or_default();
            *self.waiting.entry(stream).or_default() += 1;
            if let Some(part) = &mut self.parts[tag.index()] {
                (part.submitted, part.before) = (self.now, before);
            }
        }
    }

    /// What a part has waited for, from its arrival to now.
    fn waits(&self, part: &Part) -> [u64; Reason::COUNT] {
        let row = self.rows.get(&part.number);
        let stream = row.map_or(0, |row| row.record.stream.0);
        let clocks = self.clocks.get(&self.clock_of(stream)).copied().unwrap_or_default();
        let mut waits = [0; Reason::COUNT];
        for (wait, (clock, before)) in waits.iter_mut().zip(clocks.iter().zip(part.before)) {
            *wait = u64::try_from((clock - before) >> FRACTION_BITS).unwrap_or(u64::MAX);
        }
        // Rounding, and what no clock has counted, belong to the reason that counted most.
        let queued = self.now.since(part.submitted).0;
        let counted: u64 = waits.iter().sum();
        let most =
            Reason::ALL.into_iter().max_by_key(|reason| (waits[*reason as usize], Reason::COUNT - *reason as usize));
        let most = most.unwrap_or(Reason::DeviceFull) as usize;
        waits[most] = (waits[most] + queued).saturating_sub(counted);
        let outside = row.map_or(0, |row| part.submitted.since(row.arrival).0);
        waits[Reason::QueueFull as usize] += outside;
        waits
    }

    /// Writes the rows that no earlier one keeps waiting.
    fn write_done(&mut self) {
        while let Some(entry) = self.rows.first_entry().filter(|entry| entry.get().is_done) {
            let Row { record, arrival, served, .. } = entry.remove();
            let Some(served) = served else { continue };
            let latency = Some(served.completed.since(arrival));
            let record = Record { time: arrival, latency, volume: 0, ..record };
            if self.failure.is_none() {
                self.failure = (self.write)(record, served).err();
            }
        }
    }
}

impl<W: FnMut(Record, Served) -> Result<(), TraceError>> Observer<Policy> for Recorder<W> {
    fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        self.rows.insert(number, Row { record: *record, arrival, served: None, is_done: false });
    }

    fn submitted(&mut self, number: u64, tag: Tag, _sector: u64, _sectors: u32) {
        if self.parts.len() <= tag.index() {
            self.parts.resize(tag.index() + 1, None);
            self.members.resize(tag.index() + 1, Vec::new());
        }
        let zero = [0; Reason::COUNT];
        let (submitted, dispatched, before) = (Nanos::ZERO, Nanos::ZERO, [0; Reason::COUNT]);
        self.parts[tag.index()] = Some(Part { number, submitted, dispatched, before, wait_nanos: zero });
        self.fresh.push(tag);
    }

    fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, members: &[Tag]) {
        self.step_to(now);
        self.begin_waiting();
        for tag in members {
            let Some(part) = self.parts[tag.index()] else { continue };
            let wait_nanos = self.waits(&part);
            self.parts[tag.index()] = Some(Part { dispatched: now, wait_nanos, ..part });
            let stream = self.stream(part.number);
            if let Some(waiting) = self.waiting.get_mut(&stream) {
                *waiting -= 1;
                if *waiting == 0 {
                    self.waiting.remove(&stream);
                }
            }
        }
        self.members[dispatch.tag.index()] = members.to_vec();
    }

    fn completed(&mut self, now: Nanos, dispatch: &Dispatch) {
        self.step_to(now);
        for tag in std::mem::take(&mut self.members[dispatch.tag.index()]) {
            let Some(part) = self.parts[tag.index()].take() else { continue };
            let Some(row) = self.rows.get_mut(&part.number) else { continue };
            let class = self.clients.class(self.clients.client(row.record.stream));
            row.served = Some(Served {
                class: u32::try_from(class).unwrap_or(u32::MAX),
                submitted: part.submitted,
                dispatched: part.dispatched,
                completed: now,
                wait_nanos: part.wait_nanos,
            });
        }
    }

    fn refused(&mut self, number: u64, _sectors: u32, last: bool, _now: Nanos) {
        if last {
            self.rows.remove(&number);
            self.write_done();
        }
    }

    fn finished(&mut self, number: u64, _now: Nanos) {
        if let Some(row) = self.rows.get_mut(&number) {
            row.is_done = true;
        }
        self.write_done();
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        self.step_to(now);
        self.begin_waiting();
        self.running.clear();
        match scheduler.tenants() {
            Some(tenants) => {
                let reason = |stream: &u32| tenants.reason(StreamId(*stream)) as usize;
                self.running.extend(self.waiting.keys().map(|stream| (*stream, reason(stream), 1 << FRACTION_BITS)));
            }
            None => {
                let waiting = scheduler.waiting();
                let all = u64::from(scheduler.queued()).max(1);
                let speed = |reason: Reason| (u64::from(waiting.count(reason)) << FRACTION_BITS) / all;
                let speeds = Reason::ALL.into_iter().map(|reason| (ALL, reason as usize, speed(reason)));
                self.running.extend(speeds.filter(|(.., speed)| *speed > 0));
            }
        }
    }
}

/// A file of the requests of runs, which are written one after another.
pub struct Requests {
    file: Box<dyn RequestSink>,
    names: Names,
    /// The traces whose streams are in the names, and where they begin.
    traces: BTreeMap<(String, String), u32>,
}

impl Requests {
    /// The requests that will be in this file.
    #[must_use]
    pub fn new(file: Box<dyn RequestSink>) -> Self {
        Self { file, names: Names::default(), traces: BTreeMap::new() }
    }

    /// Runs a job and writes its requests.
    pub(super) fn record(&mut self, job: &Job, progress: &dyn super::Progress) -> Result<Outcome, super::RunError> {
        let (trace, volume, load) = job.trace_names();
        let key = (trace.clone(), volume.clone());
        let known = self.traces.get(&key).copied();
        let first_stream = known.unwrap_or(u32::try_from(self.names.streams.len()).unwrap_or(u32::MAX));
        let clients = job.clients();
        let classes = clients.classes().iter().map(|class| class.name.clone()).collect();
        let point: serde_json::Map<String, serde_json::Value> =
            job.point.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let scheduler = job.scheduler.to_string();
        let about = json!({
            "trace": trace, "volume": volume, "load": load, "scheduler": scheduler, "device": job.device_name,
            "depth": job.limits.depth, "seed": job.seed, "point": point,
        })
        .to_string();
        self.file.begin_run(RunNames { scheduler, device: job.device_name.clone(), classes, about });
        let file = &mut self.file;
        let mut recorder = Recorder::new(job, |record: Record, served| {
            let stream = StreamId(record.stream.0.saturating_add(first_stream));
            file.write(Record { stream, ..record }, served)
        });
        let (outcome, _) = job.run(false, progress, &mut recorder)?;
        recorder.into_result()?;
        if known.is_none() {
            self.names.streams.extend_from_slice(&outcome.stream_names);
            self.traces.insert(key, first_stream);
        }
        Ok(outcome)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn finish(mut self) -> Result<(), TraceError> {
        self.names.volumes = vec!["device".into()];
        self.file.finish(&self.names)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Silent;
    use super::*;
    use crate::compare::Comparison;
    use ioweir_core::policy::POLICIES;

    fn rows(job: &Job) -> (Outcome, Vec<(Record, Served)>) {
        let mut rows = Vec::new();
        let mut recorder = Recorder::new(job, |record, served| {
            rows.push((record, served));
            Ok(())
        });
        let (outcome, _) = job.run(true, &Silent, &mut recorder).expect("a mix runs");
        recorder.into_result().expect("memory does not fail");
        (outcome, rows)
    }

    #[test]
    fn waits_and_time_in_the_device_add_up_to_the_latency_of_every_request() {
        for row in POLICIES {
            let comparison = Comparison {
                traces: vec!["mix:grep".into()],
                schedulers: vec![row.name.parse().expect("a scheduler")],
                loads: vec!["x50".parse().expect("a load")],
                depths: 4.into(),
                queue_requests: 16,
                ..Comparison::default()
            };
            let jobs = comparison.plan().expect("a plan").jobs();
            let (outcome, rows) = rows(&jobs[0]);
            assert_eq!(rows.len() as u64, outcome.all.requests, "{}", row.name);
            let mut latency_sum = 0;
            for (record, served) in &rows {
                let waited: u64 = served.wait_nanos.iter().sum();
                assert_eq!(record.time.0 + waited, served.dispatched.0, "{}: waits end with the dispatch", row.name);
                let times = [record.time, served.submitted, served.dispatched, served.completed];
                assert!(times.is_sorted(), "{}: {times:?}", row.name);
                assert_eq!(record.latency, Some(served.completed.since(record.time)), "{}", row.name);
                latency_sum += u128::from(served.completed.since(record.time).0);
            }
            assert_eq!(latency_sum, outcome.all.latency_sum_nanos, "{}", row.name);
            assert!(rows.is_sorted_by_key(|(record, _)| record.time), "{}: in the order of arrival", row.name);
        }
    }

    #[test]
    fn waits_of_requests_that_are_not_split_are_those_that_the_run_counts() {
        for name in ["noop", "deadline", "bid-hdd", "sfq"] {
            let comparison = Comparison {
                traces: vec!["mix:grep".into()],
                schedulers: vec![name.parse().expect("a scheduler")],
                loads: vec!["x50".parse().expect("a load")],
                request_bytes_max: ioweir_config::Size(1 << 30),
                ..Comparison::default()
            };
            let jobs = comparison.plan().expect("a plan").jobs();
            let (outcome, rows) = rows(&jobs[0]);
            let own: u128 = rows.iter().flat_map(|(_, served)| served.wait_nanos).map(u128::from).sum();
            assert_eq!(own, outcome.wait_nanos.iter().sum::<u128>(), "{name}");
        }
    }
}
