//! Measured requests: those of a trace that says how long each took.

use std::path::{Path, PathBuf};

use ioweir_core::SECTOR_BYTES;
use ioweir_device::validate::Measured;
use ioweir_trace::{self as trace, Doubted, Position, ReadOptions, TraceError, TraceSource as _};

/// The most requests that are held in memory.
const REQUESTS_MAX: usize = 10_000_000;

/// The requests of a trace that have a latency.
#[derive(Clone, Debug, Default)]
pub struct MeasuredTrace {
    /// The requests, in the order of submission.
    pub requests: Vec<Measured>,
    /// Requests without a latency, which are left out.
    pub without_latency: u64,
    /// Lines that lenient reading left out.
    pub skipped: u64,
    /// Sentences about doubtful figures of the trace.
    pub remarks: Vec<String>,
}

impl MeasuredTrace {
    /// Reads the trace that `files` form.
    ///
    /// # Errors
    /// If it cannot be read, or no request of it has a latency.
    pub fn read(files: &[PathBuf], options: &ReadOptions) -> Result<Self, TraceError> {
        let mut source = Doubted::new(trace::open(files, &ReadOptions { latency: true, ..options.clone() })?);
        let name = || files.first().map_or_else(String::new, |file| file.display().to_string());
        let mut measured = Self::default();
        let mut batch = Vec::new();
        loop {
            source.read_batch(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            if measured.requests.len() + batch.len() > REQUESTS_MAX {
                let problem = format!("more than {REQUESTS_MAX} requests");
                return Err(
                    TraceError::new(name(), Position::File, problem).expected("a shorter trace: `ioweir trace cut`")
                );
            }
            for record in &batch {
                let Some(latency) = record.latency else {
                    measured.without_latency += 1;
                    continue;
                };
                let sector = record.offset_bytes / SECTOR_BYTES;
                let end = record.offset_bytes.saturating_add(record.length_bytes).div_ceil(SECTOR_BYTES);
                measured.requests.push(Measured {
                    operation: record.operation,
                    sector,
                    sectors: u32::try_from(end - sector).unwrap_or(u32::MAX),
                    arrival_nanos: record.time.0,
                    response_nanos: latency.0,
                });
            }
        }
        measured.skipped = source.skipped();
        measured.remarks = source.remarks();
        if measured.requests.is_empty() {
            let problem = match source.completeness().warnings().first() {
                Some(why) => format!("no request has a latency: {why}"),
                None => "no request has a latency".to_owned(),
            };
            return Err(TraceError::new(name(), Position::File, problem)
                .expected("a trace whose format holds latencies: `ioweir doc format` says which do")
                .hint("`ioweir record DEVICE -o seen.parquet` records one; `ioweir calibrate /dev/DEVICE` measures the device itself"));
        }
        Ok(measured)
    }

    /// Reads one file in the format that its content shows.
    ///
    /// # Errors
    /// As [`MeasuredTrace::read`].
    pub fn of_file(path: &Path) -> Result<Self, TraceError> {
        Self::read(&[path.to_path_buf()], &ReadOptions::default())
    }
}
