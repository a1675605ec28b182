//! Captures: a thread of its own writes every request that a scheduler accepts to a trace, with its class, its times at each layer and its
//! reasons for waiting, where the format has columns for them.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use ioweir_core::policy::Policy;
use ioweir_core::{Nanos, Priority, Reason, Request, SECTOR_BYTES, Tier};
use ioweir_trace::{BATCH_RECORDS, Names, Record, RunNames, Served, TraceError, TraceSink, WaitClocks, WaitStart};
use serde_json::json;

use crate::engine::{Call, Observer, Stage};
use crate::spec::Device;

/// The most batches that may wait for the disk. A slower disk delays the engine: no request is lost.
const BATCHES_WAITING: usize = 16;

/// The most requests that are kept until an earlier one is answered, so that they are written in the order of arrival. An earlier request
/// that keeps more of them waiting is written without its result.
const ROWS_MAX: usize = 1 << 16;

type Batch = Vec<(Record, Option<Served>)>;

/// The engine's end of a capture.
#[derive(Debug)]
pub struct Capture {
    batches: SyncSender<Batch>,
    batch: Batch,
    clocks: WaitClocks,
    /// When the first request arrived.
    origin: Option<Nanos>,
    /// The requests that are not written, in the order of arrival, and the number of the first.
    rows: VecDeque<Row>,
    first: u64,
}

/// A request that is not written.
#[derive(Debug)]
struct Row {
    arrived: Nanos,
    /// The request as the scheduler has accepted it.
    record: Option<Record>,
    start: WaitStart,
    /// The times of its service, from its dispatch on.
    served: Option<Served>,
    is_over: bool,
}

/// The thread that writes a capture.
#[derive(Debug)]
pub struct CaptureWriter {
    thread: JoinHandle<Result<u64, TraceError>>,
}

impl Capture {
    /// Begins a trace of a device, in a file that `open` opens. Streams are the classes of clients; times count from the first
    /// request.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn begin(
        open: impl FnOnce() -> Result<Box<dyn TraceSink>, TraceError> + Send + 'static,
        names: Names,
        device: &Device,
    ) -> io::Result<(Self, CaptureWriter)> {
        let (batches, written) = sync_channel(BATCHES_WAITING);
        let scheduler = device.scheduler.to_string();
        let about = json!({ "scheduler": scheduler, "device": device.name, "depth": device.depth }).to_string();
        let run = RunNames { scheduler, device: device.name.clone(), classes: names.streams.clone(), about };
        let write = move || write_all(open()?, run, &written, &names);
        let thread = Builder::new().name("ioweir-capture".into()).spawn(write)?;
        let capture = Self {
            batches,
            batch: Vec::new(),
            clocks: WaitClocks::new(device.knows_shares()),
            origin: None,
            rows: VecDeque::new(),
            first: 0,
        };
        Ok((capture, CaptureWriter { thread }))
    }

    /// The request of this number, unless it is written already or from before the capture.
    fn row(&mut self, number: u64) -> Option<&mut Row> {
        self.rows.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn submitted(&mut self, number: u64, request: &Request) {
        let origin = self.origin.unwrap_or_default();
        if self.row(number).is_none() {
            return;
        }
        let start = self.clocks.begin(request.stream);
        let Some(row) = self.row(number) else { return };
        row.start = start;
        row.record = Some(Record {
            time: row.arrived.since(origin),
            offset_bytes: request.sector * SECTOR_BYTES,
            length_bytes: u64::from(request.sectors) * SECTOR_BYTES,
            operation: request.operation,
            flags: request.flags.at(Priority::NONE),
            stream: request.stream,
            volume: 0,
            priority: request.flags.priority(),
            latency: None,
        });
    }

    fn dispatched(&mut self, now: Nanos, number: u64, tier: Tier) {
        let origin = self.origin.unwrap_or_default();
        let Some(&mut Row { arrived, record: Some(record), start, .. }) = self.row(number) else { return };
        let mut wait_nanos = self.clocks.end(record.stream, &start);
        wait_nanos[Reason::QueueFull as usize] += start.at().since(arrived).0;
        let (submitted, dispatched) = (start.at().since(origin), now.since(origin));
        let class = record.stream.0;
        let served = Served { class, submitted, dispatched, completed: dispatched, wait_nanos, cores_nanos: 0, tier };
        if let Some(row) = self.row(number) {
            row.served = Some(served);
        }
    }

    fn completed(&mut self, now: Nanos, number: u64, cores: Nanos) {
        let completed = now.since(self.origin.unwrap_or_default());
        let Some(row) = self.row(number) else { return };
        if let (Some(record), Some(served)) = (&mut row.record, &mut row.served) {
            record.latency = Some(now.since(row.arrived));
            served.completed = completed;
            served.cores_nanos = cores.0.min(completed.since(served.dispatched).0);
        }
        row.is_over = true;
    }

    /// Writes a request without its result, because it was withdrawn or has taken too long.
    fn gave_up(&mut self, number: u64) {
        let Some(row) = self.row(number) else { return };
        let waited = row.record.filter(|_| row.served.take().is_none()).map(|record| (record.stream, row.start));
        row.is_over = true;
        if let Some((stream, start)) = waited {
            let _ = self.clocks.end(stream, &start);
        }
    }

    /// Writes the requests before the first one that is not answered.
    fn write_rows(&mut self) {
        if self.rows.len() > ROWS_MAX {
            self.gave_up(self.first);
        }
        while let Some(row) = self.rows.pop_front_if(|row| row.is_over) {
            self.first += 1;
            self.batch.extend(row.record.map(|record| (record, row.served)));
            if self.batch.len() >= BATCH_RECORDS {
                self.send_batch();
            }
        }
    }

    fn send_batch(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_RECORDS));
        // A writer that has failed reports that at the end; clients are served nevertheless.
        let _ = self.batches.send(batch);
    }
}

fn write_all(
    mut sink: Box<dyn TraceSink>,
    run: RunNames,
    batches: &Receiver<Batch>,
    names: &Names,
) -> Result<u64, TraceError> {
    let mut records = 0;
    sink.start(None);
    sink.begin_run(run);
    while let Ok(batch) = batches.recv() {
        records += batch.len() as u64;
        batch.into_iter().try_for_each(|(record, served)| sink.write_served(&record, served, names))?;
    }
    sink.finish(names, None)?;
    Ok(records)
}

impl Observer for Capture {
    fn called(&mut self, _now: Nanos, _call: &Call) {}

    fn reached(&mut self, now: Nanos, number: u64, stage: Stage) {
        self.clocks.step_to(now);
        match stage {
            Stage::Arrived => {
                self.origin.get_or_insert(now);
                // An engine numbers requests without a gap; the first may have arrived before this capture began.
                self.first = if self.rows.is_empty() { number } else { self.first };
                let start = WaitStart::default();
                self.rows.push_back(Row { arrived: now, record: None, start, served: None, is_over: false });
            }
            Stage::Submitted(request) => self.submitted(number, &request),
            Stage::Dispatched(tier) => self.dispatched(now, number, tier),
            Stage::Completed(cores) => self.completed(now, number, cores),
            Stage::Withdrawn => self.gave_up(number),
        }
        self.write_rows();
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        self.clocks.step_to(now);
        self.clocks.settle(scheduler);
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        for number in self.first..self.first + self.rows.len() as u64 {
            self.gave_up(number);
        }
        self.write_rows();
        if !self.batch.is_empty() {
            self.send_batch();
        }
    }
}

impl CaptureWriter {
    /// Waits until everything is written, after the engine has ended; returns the number of requests.
    ///
    /// # Errors
    /// If the trace could not be written.
    pub fn wait(self) -> Result<u64, String> {
        let written = self.thread.join().map_err(|_| "the thread that writes the capture has panicked".to_string())?;
        written.map_err(|error| error.to_string())
    }
}
