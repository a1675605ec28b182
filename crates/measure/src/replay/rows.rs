//! The requests of replays in the common schema, one run after another, each in the order of arrival.

use std::collections::BTreeMap;

use ioweir_core::{Nanos, Reason, Tier};
use ioweir_trace::{Names, Record, RunNames, Served, TraceError, TraceSink};
use serde_json::json;

/// A file of the requests of replays.
pub struct Rows {
    file: Box<dyn TraceSink>,
    names: Names,
    /// The number of the request that is written next, and those that wait for it.
    next: u64,
    waiting: BTreeMap<u64, (Record, Served)>,
    failure: Option<TraceError>,
}

impl Rows {
    /// The requests that will be in this file; `names` are those of the trace.
    #[must_use]
    pub fn new(file: Box<dyn TraceSink>, names: Names) -> Self {
        let names = Names { volumes: vec!["device".into()], ..names };
        Self { file, names, next: 0, waiting: BTreeMap::new(), failure: None }
    }

    /// Begins a replay.
    pub fn begin(&mut self, (trace, device, load): (&str, &str, &str), scheduler: &str, repetition: u32) {
        let about = json!({
            "trace": trace, "load": load, "scheduler": scheduler, "device": device, "repetition": repetition, "measured": true,
        });
        let (scheduler, device) = (scheduler.to_owned(), device.to_owned());
        self.file.begin_run(RunNames { scheduler, device, classes: vec![trace.to_owned()], about: about.to_string() });
        (self.next, self.waiting) = (0, BTreeMap::new());
    }

    /// Adds a request by its number, with the time of its arrival. One that failed has no latency.
    pub fn add(&mut self, number: u64, record: &Record, submitted: Nanos, completed: Nanos, is_done: bool) {
        let mut wait_nanos = [0; Reason::COUNT];
        if let Some(wait) = wait_nanos.get_mut(Reason::QueueFull as usize) {
            *wait = submitted.since(record.time).0;
        }
        let tier = Tier::Base;
        let served = Served { class: 0, submitted, dispatched: submitted, completed, wait_nanos, cores_nanos: 0, tier };
        let latency = is_done.then(|| completed.since(record.time));
        self.waiting.insert(number, (Record { latency, volume: 0, ..*record }, served));
        while let Some((record, served)) = self.waiting.remove(&self.next) {
            self.next += 1;
            if self.failure.is_none() {
                self.failure = self.file.write_served(&record, Some(served), &self.names).err();
            }
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn finish(self) -> Result<(), TraceError> {
        self.failure.map_or(Ok(()), Err)?;
        self.file.finish(&self.names, None)
    }
}
