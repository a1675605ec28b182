//! A trace folded onto a device that is smaller than the traced one: addresses begin anew at its end.

use ioweir_core::SECTOR_BYTES;
use ioweir_device::validate::Measured;
use ioweir_trace::{Names, Record, TraceError, TraceSource};

/// Addresses fold at a multiple of this, so that aligned addresses stay aligned.
const ALIGNMENT_BYTES: u64 = 1 << 20;

/// The rule by which every verb folds addresses onto a device.
#[derive(Clone, Copy, Debug)]
pub struct Fold {
    /// Where addresses begin anew.
    end_bytes: u64,
}

impl Fold {
    /// The rule for a device of this size.
    #[must_use]
    pub fn onto(device_bytes: u64) -> Self {
        let whole = device_bytes - device_bytes % ALIGNMENT_BYTES;
        Self { end_bytes: if whole > 0 { whole } else { device_bytes.max(SECTOR_BYTES) } }
    }

    /// Where an extent goes, as offset and length, if it lies past the end: one that lies across the end is moved before it, and
    /// one that is longer than the device is cut.
    #[must_use]
    pub fn place(self, offset_bytes: u64, length_bytes: u64) -> Option<(u64, u64)> {
        if offset_bytes.saturating_add(length_bytes) <= self.end_bytes {
            return None;
        }
        let length_bytes = length_bytes.min(self.end_bytes);
        Some(((offset_bytes % self.end_bytes).min(self.end_bytes - length_bytes), length_bytes))
    }
}

/// A trace whose requests all lie on a device of this size.
pub struct Folded {
    source: Box<dyn TraceSource>,
    fold: Fold,
    folded: u64,
}

impl Folded {
    /// Folds what `source` reads onto a device of this size.
    #[must_use]
    pub fn new(source: Box<dyn TraceSource>, device_bytes: u64) -> Self {
        Self { source, fold: Fold::onto(device_bytes), folded: 0 }
    }
}

/// Folds measured requests onto a device of this size, and says how many were.
pub fn fold_measured(requests: &mut [Measured], device_sectors: u64) -> u64 {
    let fold = Fold::onto(device_sectors.saturating_mul(SECTOR_BYTES));
    let mut folded = 0;
    for request in requests {
        let (offset_bytes, length_bytes) =
            (request.sector.saturating_mul(SECTOR_BYTES), u64::from(request.sectors) * SECTOR_BYTES);
        if let Some((offset_bytes, length_bytes)) = fold.place(offset_bytes, length_bytes) {
            request.sector = offset_bytes / SECTOR_BYTES;
            request.sectors = u32::try_from(length_bytes / SECTOR_BYTES).unwrap_or(u32::MAX);
            folded += 1;
        }
    }
    folded
}

impl TraceSource for Folded {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        self.source.read_batch(batch)?;
        for record in batch.iter_mut() {
            if let Some((offset_bytes, length_bytes)) = self.fold.place(record.offset_bytes, record.length_bytes) {
                *record = Record { offset_bytes, length_bytes, ..*record };
                self.folded += 1;
            }
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        self.source.names()
    }

    fn inner(&self) -> Option<&dyn TraceSource> {
        Some(&*self.source)
    }

    fn folded(&self) -> u64 {
        self.folded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::traces::KeptTrace;
    use ioweir_core::{Flags, Nanos, Operation, Priority, StreamId};

    fn record(offset_bytes: u64, length_bytes: u64) -> Record {
        Record {
            time: Nanos::ZERO,
            offset_bytes,
            length_bytes,
            operation: Operation::Read,
            flags: Flags::NONE,
            priority: Priority::NONE,
            stream: StreamId(0),
            volume: 0,
            latency: None,
        }
    }

    fn folded(records: &[(u64, u64)], device_bytes: u64) -> (Vec<(u64, u64)>, u64) {
        let records = records.iter().map(|&(offset, length)| record(offset, length)).collect();
        let kept = KeptTrace::new("trace".into(), records, Names::default());
        let mut source = Folded::new(Box::new(kept.source()), device_bytes);
        let mut batch = Vec::new();
        source.read_batch(&mut batch).expect("memory does not fail");
        (batch.iter().map(|record| (record.offset_bytes, record.length_bytes)).collect(), source.folded())
    }

    #[test]
    fn addresses_past_the_end_wrap_around() {
        const MIB: u64 = 1 << 20;
        let device = 10 * MIB + 512;
        let asked =
            [(0, 4096), (10 * MIB - 4096, 4096), (10 * MIB, 4096), (25 * MIB + 512, 512), (10 * MIB - 512, 1024)];
        let (placed, count) = folded(&asked, device);
        assert_eq!(placed[..2], asked[..2], "what fits is left alone");
        assert_eq!(placed[2..], [(0, 4096), (5 * MIB + 512, 512), (10 * MIB - 1024, 1024)]);
        assert_eq!(count, 3);
    }

    #[test]
    fn folded_request_of_any_size_fits() {
        for device in [512, 4096, 1 << 20, (1 << 30) + 4096] {
            for offset in [0, 1, 511, 513, device - 1, device, 3 * device + 7, u64::MAX - 5] {
                for length in [0, 1, 512, device, device + 1, u64::MAX] {
                    let (placed, _) = folded(&[(offset, length)], device);
                    assert!(placed[0].0 + placed[0].1 <= device, "{offset} {length} on {device}: {placed:?}");
                }
            }
        }
    }
}
