//! Sources of load: the foreground's demand on a device, measured once a second.
//!
//! A source gives a reading, or the reason why nothing is known. It never fills in: a counter that goes back, a value that is no number, a
//! time that is not now and an answer that does not come all count as no value. [`merged`] combines the readings of several sources.

mod disk;
#[cfg(feature = "prometheus")]
mod prometheus;
mod server;

use std::fmt;

use ioweir_core::Nanos;
use serde::Serialize;

pub use disk::Disk;
#[cfg(feature = "prometheus")]
pub use prometheus::{Prometheus, read_instant, read_range};
pub use server::Server;

use super::clock::Moment;
use super::spec::{SourceKeys, SourceKind};
use ioweir_block::real::System;

/// The longest time that a reading may be of. An older reading says nothing about now.
pub const SPAN_MAX: Nanos = Nanos::from_seconds(10);

/// A reading of a device over the last second or so. Amounts are per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Reading {
    pub requests: Option<f64>,
    /// Bytes read and written.
    pub bytes: Option<f64>,
    pub written_bytes: Option<f64>,
    pub discarded_bytes: Option<f64>,
    /// The share of the bytes written that are new: they overwrite nothing.
    pub unique: Option<f64>,
    /// The share of time that the device was busy, with whatever work.
    pub busy: Option<f64>,
    /// The part of it that was background work, if the source can tell.
    pub background_busy: Option<f64>,
    /// The latency that the source has: a quantile, or a mean where it counts no better.
    pub latency_seconds: Option<f64>,
    /// The share of time that some process waited for a device.
    pub stalled: Option<f64>,
}

/// Rates of the past, in bins; `None` for a bin of which nothing is known. A list is empty where the source does not know any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// When the first bin begins.
    pub start_unix_seconds: i64,
    /// The length of a bin.
    pub bin_seconds: u32,
    /// Requests a second.
    pub requests: Vec<Option<f64>>,
    /// Bytes written a second.
    pub written_bytes: Vec<Option<f64>>,
    /// Bytes discarded a second.
    pub discarded_bytes: Vec<Option<f64>>,
    /// The share of the bytes written that are new.
    pub unique: Vec<Option<f64>>,
    /// The share of time that the device was busy.
    pub busy: Vec<Option<f64>>,
}

/// Why nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError(pub String);

impl fmt::Display for SourceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for SourceError {}

/// Where load is measured.
pub trait Source: Send {
    /// The source's name, in a few words.
    fn name(&self) -> String;

    /// The reading since the last call; the first call only begins.
    ///
    /// # Errors
    /// The reason why nothing is known.
    fn read(&mut self, now: Moment) -> Result<Reading, SourceError>;

    /// The past in bins, up to now, as far as the source knows it.
    ///
    /// # Errors
    /// The reason why nothing is known.
    fn past(&mut self, now: Moment, bin_seconds: u32) -> Result<Option<Past>, SourceError> {
        let _ = (now, bin_seconds);
        Ok(None)
    }

    /// The length of a worker's requests, if the source's readings include the work of workers.
    fn worker_request_bytes(&self) -> Option<u64> {
        None
    }
}

/// The source of checked keys; a file of rates is none, because it says nothing about now.
///
/// # Errors
/// If a file that the keys name cannot be read.
pub fn open(keys: &SourceKeys, system: &System) -> Result<Option<Box<dyn Source>>, SourceError> {
    Ok(match keys.kind {
        SourceKind::Disk => Some(Box::new(Disk::new(keys, system.clone()))),
        SourceKind::Server => Some(Box::new(Server::new(keys)?)),
        #[cfg(feature = "prometheus")]
        SourceKind::Prometheus => Some(Box::new(Prometheus::new(keys)?)),
        #[cfg(not(feature = "prometheus"))]
        SourceKind::Prometheus => {
            let problem = "this build cannot ask Prometheus\n  expected: a build with the feature `prometheus`";
            return Err(SourceError(problem.into()));
        }
        SourceKind::Series => None,
    })
}

/// The readings of all sources together: each amount comes from the first source that knows it.
#[must_use]
pub fn merged<'a>(readings: impl Iterator<Item = &'a Reading>) -> Reading {
    readings.fold(Reading::default(), |all, one| Reading {
        requests: all.requests.or(one.requests),
        bytes: all.bytes.or(one.bytes),
        written_bytes: all.written_bytes.or(one.written_bytes),
        discarded_bytes: all.discarded_bytes.or(one.discarded_bytes),
        unique: all.unique.or(one.unique),
        // The two are of one source, or the part is not of the whole.
        background_busy: if all.busy.is_some() { all.background_busy } else { one.background_busy },
        busy: all.busy.or(one.busy),
        latency_seconds: all.latency_seconds.or(one.latency_seconds),
        stalled: all.stalled.or(one.stalled),
    })
}

impl Reading {
    /// Subtracts the work of workers: `bytes` a second in requests of `request_bytes`. Where that is unknown, the foreground's requests are
    /// unknown, too.
    #[must_use]
    pub fn without_workers(self, bytes: Option<f64>, request_bytes: u64) -> Self {
        let less = |all: Option<f64>, part: f64| Some((all? - part).max(0.0));
        match bytes {
            Some(bytes) => Self {
                requests: less(self.requests, bytes / request_bytes.max(1) as f64),
                bytes: less(self.bytes, bytes),
                ..self
            },
            None => Self { requests: None, bytes: None, written_bytes: None, discarded_bytes: None, ..self },
        }
    }
}

/// The time between two readings, if it is short enough to say something about now.
fn span(before: Moment, now: Moment) -> Result<f64, SourceError> {
    let span = now.steady.since(before.steady);
    if span > SPAN_MAX {
        return Err(SourceError(format!("nobody looked for {} s", span.0 / 1_000_000_000)));
    }
    if span == Nanos::ZERO {
        return Err(SourceError("no time has passed".into()));
    }
    Ok(span.as_seconds())
}
