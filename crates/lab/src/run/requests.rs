//! Per-request records of a run: when each request was submitted, dispatched and completed, and the reasons for its waits.

use std::collections::BTreeMap;

use ioweir_core::policy::Policy;
use ioweir_core::{Dispatch, Nanos, StreamId, Tag};
use ioweir_device::Service;
use ioweir_trace::{Names, Record, RunNames, Served, TraceError, TraceSink};
use serde_json::json;

use super::Job;
use crate::sim::{Clients, Observer, Outcome, Stay, Waits};

/// Hands over a row for every request of a run, in the order of arrival.
struct Recorder<W> {
    write: W,
    clients: Clients,
    waits: Waits,
    /// Requests that wait for an earlier one to be written; none for one that was refused.
    done: BTreeMap<u64, Option<Stay>>,
    /// The request that is written next.
    next: u64,
    failure: Option<TraceError>,
}

impl<W: FnMut(Record, Served) -> Result<(), TraceError>> Recorder<W> {
    fn new(job: &Job, write: W) -> Self {
        let waits = Waits::new(job.clients(), job.scheduler.row.knows_shares);
        Self { write, clients: job.clients(), waits, done: BTreeMap::new(), next: 0, failure: None }
    }

    /// The first error in writing.
    fn into_result(self) -> Result<(), TraceError> {
        self.failure.map_or(Ok(()), Err)
    }

    /// Writes the rows that no earlier one keeps waiting.
    fn write_done(&mut self) {
        self.done.extend(self.waits.done.drain(..).map(|(number, stay)| (number, Some(stay))));
        while let Some(stay) = self.done.remove(&self.next) {
            self.next += 1;
            let Some(stay) = stay else { continue };
            let class = self.clients.class(self.clients.client(stay.record.stream));
            let served = Served {
                class: u32::try_from(class).unwrap_or(u32::MAX),
                submitted: stay.submitted,
                dispatched: stay.dispatched,
                completed: stay.completed,
                wait_nanos: stay.wait_nanos,
                cores_nanos: 0,
                tier: stay.tier,
            };
            let latency = Some(stay.completed.since(stay.arrival));
            let record = Record { time: stay.arrival, latency, volume: 0, ..stay.record };
            if self.failure.is_none() {
                self.failure = (self.write)(record, served).err();
            }
        }
    }
}

impl<W: FnMut(Record, Served) -> Result<(), TraceError>> Observer<Policy> for Recorder<W> {
    fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        self.waits.arrived(number, record, arrival);
    }

    fn submitted(&mut self, number: u64, tag: Tag, sector: u64, sectors: u32) {
        Observer::<Policy>::submitted(&mut self.waits, number, tag, sector, sectors);
    }

    fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, members: &[Tag]) {
        self.waits.dispatched(now, dispatch, members);
    }

    fn started(&mut self, now: Nanos, dispatch: &Dispatch, service: &Service) {
        self.waits.started(now, dispatch, service);
    }

    fn completed(&mut self, now: Nanos, dispatch: &Dispatch) {
        self.waits.completed(now, dispatch);
    }

    fn refused(&mut self, number: u64, sectors: u32, last: bool, now: Nanos) {
        self.waits.refused(number, sectors, last, now);
        if last {
            self.done.insert(number, None);
            self.write_done();
        }
    }

    fn finished(&mut self, number: u64, now: Nanos) {
        self.waits.finished(number, now);
        self.write_done();
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        self.waits.settled(now, scheduler);
    }
}

/// A file of the requests of runs, which are written one after another.
pub struct Requests {
    file: Box<dyn TraceSink>,
    names: Names,
    /// The traces whose streams are in the names, and where they begin.
    traces: BTreeMap<(String, String), u32>,
}

impl Requests {
    /// The requests that will be in this file.
    #[must_use]
    pub fn new(file: Box<dyn TraceSink>) -> Self {
        Self { file, names: Names::default(), traces: BTreeMap::new() }
    }

    /// Runs a job and writes its requests.
    pub(super) fn record(&mut self, job: &Job, progress: &dyn super::Progress) -> Result<Outcome, super::RunError> {
        if matches!(&job.traffic, super::Traffic::Classes(experiment) if experiment.is_machine()) {
            let problem = "requests of an experiment with several devices, cores or background work cannot be written";
            return Err(super::RunError::Value(format!("{problem}\n  expected: one device, and nothing else")));
        }
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
        let (file, names) = (&mut self.file, &self.names);
        let mut recorder = Recorder::new(job, |record: Record, served| {
            let stream = StreamId(record.stream.0.saturating_add(first_stream));
            file.write_served(&Record { stream, ..record }, Some(served), names)
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
        self.file.finish(&self.names, None)
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
    fn waits_and_device_time_equal_latency() {
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
    fn waits_of_whole_requests_equal_the_runs() {
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
