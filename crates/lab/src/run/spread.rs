//! A trace spread over a device that is larger than its data: the data move apart in pieces, over the whole device.

use ioweir_core::SECTOR_BYTES;
use ioweir_trace::{Names, Position, Record, TraceError, TraceSource};

/// The length of a piece that stays together: a block group of ext4, and two blocks of HDFS. Within it neighbours stay neighbours.
const PIECE_BYTES: u64 = 128 << 20;
/// Pieces begin at a multiple of this, so that aligned addresses stay aligned.
const ALIGNMENT_BYTES: u64 = 1 << 20;

/// The addresses that a trace uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    first_bytes: u64,
    end_bytes: u64,
}

impl Extent {
    /// The extent of all requests of a trace.
    pub(crate) fn of(mut source: Box<dyn TraceSource>) -> Result<Self, TraceError> {
        let (mut first_bytes, mut end_bytes) = (u64::MAX, 0);
        let mut batch = Vec::new();
        loop {
            source.read_batch(&mut batch)?;
            if batch.is_empty() {
                return Ok(Self { first_bytes: first_bytes.min(end_bytes), end_bytes });
            }
            for record in batch.iter().filter(|record| record.length_bytes > 0) {
                first_bytes = first_bytes.min(record.offset_bytes);
                end_bytes = end_bytes.max(record.offset_bytes.saturating_add(record.length_bytes));
            }
        }
    }
}

/// A trace whose data lie all over the device, in the order in which they lay.
pub(crate) struct Spread {
    source: Box<dyn TraceSource>,
    first_bytes: u64,
    /// From the beginning of a piece to that of the next.
    stride_bytes: u64,
}

impl Spread {
    /// Spreads a trace of this name and extent over a device.
    ///
    /// # Errors
    /// [`TraceError`] if the data do not fit on the device.
    pub(crate) fn new(
        source: Box<dyn TraceSource>,
        name: String,
        extent: Extent,
        device_sectors: u64,
    ) -> Result<Self, TraceError> {
        let device_bytes = device_sectors.saturating_mul(SECTOR_BYTES);
        let first_bytes = extent.first_bytes - extent.first_bytes % ALIGNMENT_BYTES;
        let length_bytes = extent.end_bytes - first_bytes;
        if length_bytes > device_bytes {
            let problem = format!("its data lie within {length_bytes} bytes, the device has {device_bytes}");
            return Err(TraceError::new(name, Position::File, problem)
                .expected("a device that is larger than the data, over which they can be spread"));
        }
        // The last piece ends where the data do, and the device with it.
        let moves = length_bytes.div_ceil(PIECE_BYTES).saturating_sub(1);
        let apart_bytes = (device_bytes - length_bytes).checked_div(moves).unwrap_or(0);
        let stride_bytes = PIECE_BYTES + (apart_bytes - apart_bytes % ALIGNMENT_BYTES);
        Ok(Self { source, first_bytes, stride_bytes })
    }

    fn place(&self, offset_bytes: u64) -> u64 {
        let within = offset_bytes.saturating_sub(self.first_bytes);
        (within / PIECE_BYTES).saturating_mul(self.stride_bytes).saturating_add(within % PIECE_BYTES)
    }
}

impl TraceSource for Spread {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        self.source.read_batch(batch)?;
        for record in batch.iter_mut() {
            record.offset_bytes = self.place(record.offset_bytes);
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        self.source.names()
    }

    fn inner(&self) -> Option<&dyn TraceSource> {
        Some(&*self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::traces::KeptTrace;
    use ioweir_core::{Flags, Nanos, Operation, Priority, StreamId};

    const MIB: u64 = 1 << 20;

    fn kept(requests: &[(u64, u64)]) -> KeptTrace {
        let record = |&(offset_bytes, length_bytes): &(u64, u64)| Record {
            time: Nanos::ZERO,
            offset_bytes,
            length_bytes,
            operation: Operation::Read,
            flags: Flags::NONE,
            priority: Priority::NONE,
            stream: StreamId(0),
            volume: 0,
            latency: None,
        };
        KeptTrace::new("trace".into(), requests.iter().map(record).collect(), Names::default())
    }

    fn spread(requests: &[(u64, u64)], device_bytes: u64) -> Result<Vec<u64>, TraceError> {
        let trace = kept(requests);
        let extent = Extent::of(Box::new(trace.source()))?;
        let mut source = Spread::new(Box::new(trace.source()), "trace".into(), extent, device_bytes / SECTOR_BYTES)?;
        let mut batch = Vec::new();
        source.read_batch(&mut batch)?;
        Ok(batch.iter().map(|record| record.offset_bytes).collect())
    }

    #[test]
    fn pieces_spread_and_keep_their_neighbours() {
        // Three pieces on a device of ten: the second lies in the middle, the last one ends with the device.
        let asked = [(0, 4096), (4096, 4096), (128 * MIB, 4096), (384 * MIB - 4096, 4096)];
        let placed = spread(&asked, 1280 * MIB).expect("they fit");
        assert_eq!(placed, [0, 4096, 576 * MIB, 1280 * MIB - 4096]);
    }

    #[test]
    fn spread_data_begin_at_the_devices_start() {
        assert_eq!(spread(&[(77 * MIB + 512, 512)], 10 * MIB), Ok(vec![512]));
    }

    #[test]
    fn oversized_spread_is_an_error() {
        for device in [300 * MIB, 512 * MIB, 513 * MIB + 4096, 250_059_350_016 / 512 * 512] {
            for end in [MIB, 128 * MIB, 129 * MIB, 300 * MIB, 513 * MIB] {
                // Requests of all positions, some across the ends of pieces.
                let asked: Vec<(u64, u64)> =
                    (0..end / MIB).map(|at| (at * MIB, (3 * MIB).min(end - at * MIB))).collect();
                match spread(&asked, device) {
                    Ok(placed) => {
                        assert!(end <= device);
                        let ends = placed.iter().zip(&asked).map(|(at, (_, length))| at + length);
                        assert!(ends.max() <= Some(device), "{end} on {device}");
                        assert!(placed.is_sorted() && placed.windows(2).all(|two| two[0] < two[1]));
                    }
                    Err(error) => assert!(end > device, "{end} on {device}: {error}"),
                }
            }
        }
    }
}
