//! The evidence that a trace holds about a device model: the traced latencies beside the model's, its span, and how it leaves the range in
//! which a device was calibrated.

use ioweir_config::SpecError;
use ioweir_core::{Operation, PriorityClass, SECTOR_BYTES};
use ioweir_device::calibration::{Observed, Range};
use ioweir_device::standing::Calibrated;
use ioweir_device::validate::{Load, Measured, demerit, replay};
use ioweir_device::{DeviceSpec, Standing, Verdict};
use ioweir_trace::Record;
use serde::{Deserialize, Serialize};

/// Measured requests that are replayed on the model: enough for every class that matters, and quick.
const MEASURED_MAX: usize = 100_000;
/// The fewest latencies that `calibrate` fits a device to.
const CALIBRATE_MIN: u64 = 200;
/// No disk moves its arm and waits for its platter in less, on average.
const ARM_NANOS_MIN: u64 = 1_000_000;

/// The evidence that a trace holds about a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Whether the requests were generated, as there is no trace.
    pub is_generated: bool,
    /// Requests of the trace.
    pub requests: u64,
    /// Latencies in the trace and on the model: of all requests first, then of reads and of writes. Empty if the trace has none.
    pub pairs: Vec<Pair>,
    /// The span of the trace, and the shortest that the model needed for it at the recorded times, in seconds.
    pub spans: Option<(f64, f64)>,
    /// How the requests leave the range in which the device was calibrated, a clause each.
    pub outside: Vec<String>,
    /// Requests that were folded onto the device.
    pub folded: u64,
    /// Where measurements can come from.
    pub source: Source,
}

/// Latencies of a class of requests, in the trace and on the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    pub class: String,
    /// The number of requests in the class.
    pub requests: u64,
    /// The mean latency in the trace.
    pub measured_seconds: f64,
    /// The mean latency on the model.
    pub modelled_seconds: f64,
    /// The demerit as a share of the mean in the trace.
    pub error_share: f64,
}

/// The trace as a source of measurements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The files, with the flags that say how they are read; empty if there are none.
    pub words: String,
    /// Requests that have a latency.
    pub latencies: u64,
    /// Whether the latencies are too short for a disk's arm.
    pub is_flash: bool,
}

impl Pair {
    /// By what factor the model is wrong in either direction.
    #[must_use]
    pub fn factor(&self) -> f64 {
        let (one, other) = (self.measured_seconds.max(1e-9), self.modelled_seconds.max(1e-9));
        (one / other).max(other / one)
    }
}

impl Evidence {
    /// The class with the largest error, of those with at least so many requests.
    #[must_use]
    pub(super) fn worst(&self, requests_min: u64) -> Option<&Pair> {
        let counted = self.pairs.iter().filter(|pair| pair.requests >= requests_min);
        counted.max_by(|one, other| one.factor().total_cmp(&other.factor()))
    }
}

impl Source {
    /// The command that makes the missing measurement.
    #[must_use]
    pub(super) fn command(&self, standing: &Standing) -> String {
        let outside = matches!(standing, Standing::Calibrated(Calibrated { verdict: Verdict::Outside, .. }));
        match (outside, self.words.as_str()) {
            (true, "") => return "ioweir record /dev/DEVICE -o seen.parquet".into(),
            (true, words) => return format!("ioweir replay {words} /dev/DEVICE --scheduler none,mq-deadline,bfq"),
            (false, _) => {}
        }
        if self.latencies < CALIBRATE_MIN {
            return "ioweir calibrate /dev/DEVICE -o own.toml".into();
        }
        let kind = if self.is_flash { "flash" } else { "disk" };
        format!("ioweir calibrate {} --kind {kind} -o own.toml", self.words)
    }
}

/// Looks at the records of a trace, in their order.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    requests: u64,
    latencies: u64,
    end_nanos: u64,
    observed: Observed,
    /// Requests of the idle class.
    idle: u64,
    /// Requests of each stream, by number.
    by_stream: Vec<u64>,
    measured: Vec<Measured>,
    /// Reads that do not continue the request before, and those of them that no arm could serve.
    jumps: u64,
    quick_jumps: u64,
    next_byte: u64,
}

impl Witness {
    /// Takes the next record into account.
    pub fn add(&mut self, record: &Record) {
        let Record { time, operation, offset_bytes, length_bytes, latency, .. } = *record;
        self.observed.add(time.0, operation, offset_bytes, length_bytes);
        self.idle += u64::from(record.priority.class() == PriorityClass::Idle);
        let stream = record.stream.0 as usize;
        if self.by_stream.len() <= stream {
            self.by_stream.resize(stream + 1, 0);
        }
        self.by_stream[stream] += 1;
        let end_bytes = offset_bytes.saturating_add(length_bytes);
        self.requests += 1;
        let latency_nanos = latency.map_or(0, |latency| latency.0);
        self.end_nanos = self.end_nanos.max(time.0.saturating_add(latency_nanos));
        let jumps = self.next_byte != offset_bytes && operation == Operation::Read;
        self.next_byte = end_bytes;
        if latency.is_none() {
            return;
        }
        self.latencies += 1;
        if jumps {
            self.jumps += 1;
            self.quick_jumps += u64::from(latency_nanos < ARM_NANOS_MIN);
        }
        if self.measured.len() < MEASURED_MAX {
            let sector = offset_bytes / SECTOR_BYTES;
            let sectors = u32::try_from(end_bytes.div_ceil(SECTOR_BYTES) - sector).unwrap_or(u32::MAX);
            let arrival_nanos = time.0;
            self.measured.push(Measured { operation, sector, sectors, arrival_nanos, response_nanos: latency_nanos });
        }
    }

    /// The evidence about a model. `words` are the files with the flags that say how they are read.
    ///
    /// # Errors
    /// [`SpecError`] if the device cannot be built.
    pub fn evidence(&self, device: &DeviceSpec, words: String) -> Result<Evidence, SpecError> {
        let source = Source { words, latencies: self.latencies, is_flash: self.quick_jumps * 2 > self.jumps };
        Ok(Evidence { requests: self.requests, pairs: self.pairs(device)?, source, ..Evidence::default() })
    }

    /// The range of the requests; the depth is not known.
    #[must_use]
    pub fn range(&self) -> Range {
        self.observed.range()
    }

    /// Whether there are requests of the idle class and others.
    #[must_use]
    pub const fn has_idle_beside_others(&self) -> bool {
        self.idle > 0 && self.idle < self.requests
    }

    /// The number of requests of each stream, by its number.
    #[must_use]
    pub fn by_stream(&self) -> &[u64] {
        &self.by_stream
    }

    /// When the last request of the trace was completed, or arrived, in seconds after the first.
    #[must_use]
    pub fn span_seconds(&self) -> f64 {
        self.end_nanos as f64 / 1e9
    }

    /// Latencies in the trace and on the model, which gets the requests as the device got them.
    fn pairs(&self, spec: &DeviceSpec) -> Result<Vec<Pair>, SpecError> {
        let mut device = spec.build(0)?;
        let size = device.sectors();
        let fits = |request: &&Measured| request.sector.saturating_add(request.sectors.into()) <= size;
        let requests: Vec<Measured> = self.measured.iter().filter(fits).copied().collect();
        // The requests are known to fit.
        let Ok(replayed) = replay(&mut *device, &requests, Load::of(&requests)) else { return Ok(Vec::new()) };
        let times: Vec<(Operation, u64, u64)> = requests
            .iter()
            .zip(&replayed)
            .map(|(request, replayed)| (request.operation, request.response_nanos, replayed.response_nanos()))
            .collect();
        let classes: [(&'static str, Option<Operation>); 3] =
            [("requests", None), ("reads", Some(Operation::Read)), ("writes", Some(Operation::Write))];
        Ok(classes.into_iter().filter_map(|(class, operation)| pair(class, operation, &times)).collect())
    }
}

/// The latencies of one class; `None` if it has no requests.
fn pair(class: &'static str, operation: Option<Operation>, times: &[(Operation, u64, u64)]) -> Option<Pair> {
    let own = || times.iter().filter(|(its, ..)| operation.is_none_or(|operation| operation == *its));
    let measured: Vec<u64> = own().map(|time| time.1).collect();
    let modelled: Vec<u64> = own().map(|time| time.2).collect();
    let mean = |times: &[u64]| times.iter().map(|&nanos| nanos as f64).sum::<f64>() / times.len() as f64 / 1e9;
    (!measured.is_empty()).then(|| Pair {
        class: class.into(),
        requests: measured.len() as u64,
        measured_seconds: mean(&measured),
        modelled_seconds: mean(&modelled),
        error_share: demerit(&measured, &modelled) / 1e9 / mean(&measured).max(1e-9),
    })
}
