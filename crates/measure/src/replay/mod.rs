//! Replays on real devices: requests that suit one, the measurements, and the model's predictions beside them.
//!
//! `device`, which the feature `devices` adds, sends the requests. Its measurements come in through [`Measured`]; a [`Page`] makes the
//! document of them.

mod classes;
#[cfg(feature = "devices")]
pub mod device;
mod document;
mod fit;
mod rows;

use ioweir_config::SchedulerChoice;
use ioweir_core::{Nanos, Operation, QueueLimits};
use ioweir_device::{DeviceSpec, Standing};
use ioweir_trace::{Record, TraceSource};
use serde::Serialize;

use ioweir_lab::run::RunError;
use ioweir_lab::sim::{Class, Latencies, Load, Outcome, Simulation, simulate};

pub use classes::{ByClass, ClassSum, ClassSums};
pub use document::document;
pub use fit::{Fit, Fitted, Left};
pub use rows::Rows;

/// The measurements of one replay under one scheduler.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The scheduler, by the kernel's name.
    pub scheduler: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// From the start to the last completion.
    pub completion: Nanos,
    /// All requests that were carried out.
    pub all: Class,
    /// Reads, and writes.
    pub by_direction: [Class; 2],
    /// From the arrival of a request until it was handed to the kernel.
    pub lateness: Latencies,
    /// Requests that the device failed.
    pub failed: u64,
    /// The first byte of the first that failed.
    pub failed_at: Option<u64>,
    /// The most requests in flight.
    pub in_flight_max: u64,
    /// The requests that were carried out, by class.
    pub by_class: ClassSums,
}

impl Measured {
    /// Counts a request, whose time is that of its arrival.
    pub fn count(&mut self, record: &Record, submitted: Nanos, completed: Nanos, is_done: bool) {
        self.lateness.record(submitted.since(record.time).0);
        if !is_done {
            self.failed += 1;
            self.failed_at.get_or_insert(record.offset_bytes);
            return;
        }
        let latency = completed.since(record.time).0;
        let direction = match record.operation {
            Operation::Read => Some(0),
            Operation::Write => Some(1),
            Operation::Flush | Operation::Discard => None,
        };
        let [reads, writes] = &mut self.by_direction;
        let class = direction.map(|direction| if direction == 0 { reads } else { writes });
        for class in class.into_iter().chain([&mut self.all]) {
            class.requests += 1;
            class.bytes += record.length_bytes;
            class.latency.record(latency);
            class.latency_sum_nanos += u128::from(latency);
        }
    }
}

/// The model that predictions come from, and the queue that it gets.
#[derive(Clone, Debug)]
pub struct Model {
    /// The preset or file.
    pub name: String,
    /// The model's parameters.
    pub spec: DeviceSpec,
    /// Requests that the device holds at once; `None` for the model's own number.
    pub depth: Option<u32>,
    /// Requests that the queue holds in each direction; none for the usual.
    pub queue_requests: Option<u32>,
    /// The largest request.
    pub request_bytes_max: Option<u64>,
}

/// The most requests of a queue in a prediction.
const QUEUE_REQUESTS_MAX: u32 = 1 << 14;

impl Model {
    /// The depth of predictions.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth.unwrap_or_else(|| ioweir_lab::compare::Depth::Device.of(&self.spec))
    }

    fn limits(&self) -> QueueLimits {
        let requests = self.queue_requests.unwrap_or(QueueLimits::DEFAULT.requests_per_direction);
        let limits = QueueLimits::with_requests(requests.clamp(1, QUEUE_REQUESTS_MAX));
        let sectors = self.request_bytes_max.and_then(|bytes| u32::try_from(bytes / ioweir_core::SECTOR_BYTES).ok());
        let request_sectors_max = sectors.filter(|&sectors| sectors > 0).unwrap_or(limits.request_sectors_max);
        QueueLimits { depth: self.depth(), rotational: self.spec.rotates(), request_sectors_max, ..limits }
    }

    /// Simulates a scheduler on the model as `ioweir compare` does, for the same requests under the same load.
    ///
    /// # Errors
    /// If the requests do not fit the model.
    pub fn predict(
        &self,
        scheduler: &SchedulerChoice,
        load: Load,
        source: Box<dyn TraceSource + '_>,
        by_class: &mut ByClass,
    ) -> Result<Outcome, RunError> {
        let mut device = self.spec.build(0)?;
        let limits = self.limits();
        let simulation = Simulation {
            scheduler: scheduler.build(limits),
            limits,
            device: &mut *device,
            fast: None,
            lenient: false,
            until: Nanos::NEVER,
        };
        simulate(simulation, source, load, by_class)
            .map_err(|failure| RunError::Value(format!("the prediction by {}: {failure}", self.name)))
    }
}

/// The prediction for a scheduler.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// The scheduler, by the kernel's name.
    pub scheduler: String,
    /// The outcome of the simulation.
    pub outcome: Outcome,
    /// The predicted requests by class.
    pub by_class: ClassSums,
}

/// The results of a replay, for its document.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub trace: String,
    /// The device, and how it was used.
    pub device: String,
    pub load: String,
    /// Every replay, in the order in which they ran.
    pub measured: Vec<Measured>,
    /// Predictions, if a model was named.
    pub predicted: Vec<Predicted>,
    /// The model, and the depth of its predictions.
    pub model: Option<(String, u32)>,
    /// The standing of the model.
    pub standing: Option<Standing>,
    /// The requests that were left out or moved to suit the device.
    pub left: Left,
    /// Requests that the device holds below its scheduler.
    pub depth: Option<u64>,
    /// Whether arrivals have times of their own, so that lateness means something.
    pub is_open: bool,
    /// Further remarks to read before the numbers are trusted.
    pub remarks: Vec<String>,
}

/// A figure over repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub mean: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

impl Spread {
    /// The spread of values; `None` if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        let sum: f64 = values.iter().sum();
        let (min, max) = values
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), &value| (min.min(value), max.max(value)));
        (count > 0).then(|| Self { mean: sum / count as f64, min, max })
    }
}

#[cfg(test)]
mod tests;
