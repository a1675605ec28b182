//! Captures: every request that a scheduler accepts is written to a trace by a separate thread.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use ioweir_core::{Nanos, Priority, SECTOR_BYTES};
use ioweir_trace::{BATCH_RECORDS, Names, Record, Target, TraceError, TraceSink, Writer};

use crate::engine::{Call, Observer};

/// The most batches that may wait for the disk. A slower disk delays the engine: no request is lost.
const BATCHES_WAITING: usize = 64;

/// The engine's end of a capture.
#[derive(Debug)]
pub struct Capture {
    batches: SyncSender<Vec<Record>>,
    batch: Vec<Record>,
    first: Option<Nanos>,
}

/// The thread that writes a capture.
#[derive(Debug)]
pub struct CaptureWriter {
    thread: JoinHandle<Result<u64, TraceError>>,
}

impl Capture {
    /// Begins a trace. Streams are the classes of clients; times count from the first request.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn begin(target: Target, writer: Writer, names: Names) -> io::Result<(Self, CaptureWriter)> {
        let (batches, written) = sync_channel(BATCHES_WAITING);
        let write = move || {
            let sink = (writer.open)(target)?;
            write_all(sink, &written, &names)
        };
        let thread = Builder::new().name("ioweir-capture".into()).spawn(write)?;
        Ok((Self { batches, batch: Vec::new(), first: None }, CaptureWriter { thread }))
    }

    fn send_batch(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_RECORDS));
        // A writer that has failed reports that at the end; clients are served nevertheless.
        let _ = self.batches.send(batch);
    }
}

fn write_all(mut sink: Box<dyn TraceSink>, batches: &Receiver<Vec<Record>>, names: &Names) -> Result<u64, TraceError> {
    let mut records = 0;
    sink.start(None);
    while let Ok(batch) = batches.recv() {
        records += batch.len() as u64;
        sink.write_batch(&batch, names)?;
    }
    sink.finish(names, None)?;
    Ok(records)
}

impl Observer for Capture {
    fn called(&mut self, now: Nanos, call: &Call) {
        let Call::Submit(request, _) = call else { return };
        let first = *self.first.get_or_insert(now);
        self.batch.push(Record {
            time: now.since(first),
            offset_bytes: request.sector * SECTOR_BYTES,
            length_bytes: u64::from(request.sectors) * SECTOR_BYTES,
            operation: request.operation,
            flags: request.flags.at(Priority::NONE),
            stream: request.stream,
            volume: 0,
            priority: request.flags.priority(),
            latency: None,
        });
        if self.batch.len() == BATCH_RECORDS {
            self.send_batch();
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
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
