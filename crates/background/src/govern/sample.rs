//! Measurements of a device, or of the cores, over a short time.

use ioweir_core::Nanos;

/// The measurements since the sample before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The time since the sample before.
    pub span: Nanos,
    /// Requests of the foreground.
    pub requests: u64,
    /// Bytes that the foreground wrote.
    pub written_bytes: u64,
    /// Bytes that the foreground unmapped.
    pub unmapped_bytes: u64,
    /// The bytes written that overwrite nothing; `None` if the source does not know.
    pub new_bytes: Option<u64>,
    /// For how long the device was busy, with whatever work.
    pub busy: Nanos,
    /// The part of that time that was background work, if the source knows it; else the part that the running slices hold is assumed.
    pub background_busy: Option<Nanos>,
    /// The foreground's latency at the objective's quantile; `None` if it had no request, or the source knows no latency.
    pub latency: Option<Nanos>,
}

/// The bin that is being measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct OpenBin {
    /// The measured part of the bin.
    pub(super) measured_nanos: u64,
    /// The foreground's work: requests for cores, nanoseconds for a device.
    pub(super) foreground: u64,
    pub(super) written_bytes: u64,
    pub(super) unmapped_bytes: u64,
    /// The bytes written of which it is known how many are new, and those that are.
    #[serde(default)]
    pub(super) judged_bytes: u64,
    #[serde(default)]
    pub(super) new_bytes: u64,
}

impl OpenBin {
    pub(super) fn add(&mut self, sample: &Sample, foreground: u64) {
        self.measured_nanos = self.measured_nanos.saturating_add(sample.span.0);
        self.foreground = self.foreground.saturating_add(foreground);
        self.written_bytes = self.written_bytes.saturating_add(sample.written_bytes);
        self.unmapped_bytes = self.unmapped_bytes.saturating_add(sample.unmapped_bytes);
        if let Some(new_bytes) = sample.new_bytes {
            self.judged_bytes = self.judged_bytes.saturating_add(sample.written_bytes);
            self.new_bytes = self.new_bytes.saturating_add(new_bytes.min(sample.written_bytes));
        }
    }

    /// The share of new bytes among those written; `None` if it is known for less than half of them.
    pub(super) fn unique(&self) -> Option<f64> {
        let is_known = self.judged_bytes > 0 && self.judged_bytes >= self.written_bytes / 2;
        is_known.then(|| self.new_bytes as f64 / self.judged_bytes as f64)
    }

    /// A sum as a rate a second; `None` if less than half of the bin was measured.
    pub(super) fn rate(&self, bin: Nanos, sum: u64) -> Option<f64> {
        let is_known = self.measured_nanos > 0 && self.measured_nanos >= bin.0 / 2;
        is_known.then(|| sum as f64 * 1e9 / self.measured_nanos as f64)
    }
}
