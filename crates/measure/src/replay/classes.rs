//! Mean latencies by class of requests, measured and simulated.
//!
//! Where a request begins is told from the end of the one before it in its own stream: every load keeps the order of a stream, so
//! that the same requests have the same classes on the real device and on the model.

use std::collections::HashMap;

use ioweir_core::{Nanos, SECTOR_BYTES};
use ioweir_device::validate::{Classes, Sorter};
use ioweir_trace::Record;

use ioweir_lab::sim::Observer;

/// The requests of a class, and the sum of their latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSum {
    /// Requests that were carried out.
    pub requests: u64,
    /// The sum of the times from arrival to completion.
    pub latency_sum_nanos: u128,
}

/// The sums of a run, by class in the order of [`Classes::NAMES`].
pub type ClassSums = [ClassSum; Classes::NAMES.len()];

/// Sorts the requests of a run by class while it goes on.
#[derive(Clone, Debug)]
pub struct ByClass {
    sorter: Sorter,
    streams: HashMap<u32, Sorter>,
    /// Requests that have arrived and are not answered: class and arrival.
    open: HashMap<u64, (u8, Nanos)>,
    sums: ClassSums,
}

impl ByClass {
    /// For requests to a device of this size.
    #[must_use]
    pub fn new(device_bytes: u64) -> Self {
        let sorter = Sorter::new(device_bytes / SECTOR_BYTES);
        Self { sorter, streams: HashMap::new(), open: HashMap::new(), sums: ClassSums::default() }
    }

    /// The request with this number has arrived.
    pub fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        let sorter = self.streams.entry(record.stream.0).or_insert(self.sorter);
        let (sector, sectors) = (record.offset_bytes / SECTOR_BYTES, record.length_bytes.div_ceil(SECTOR_BYTES));
        self.open.insert(number, (sorter.class(record.operation, sector, sectors), arrival));
    }

    /// The request with this number is answered, at a time if it was carried out.
    pub fn answered(&mut self, number: u64, completed: Option<Nanos>) {
        let Some((class, arrival)) = self.open.remove(&number) else { return };
        if let (Some(completed), Some(sum)) = (completed, self.sums.get_mut(usize::from(class))) {
            sum.requests += 1;
            sum.latency_sum_nanos += u128::from(completed.since(arrival).0);
        }
    }

    #[must_use]
    pub const fn sums(&self) -> &ClassSums {
        &self.sums
    }
}

impl<S> Observer<S> for ByClass {
    fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        Self::arrived(self, number, record, arrival);
    }

    fn finished(&mut self, number: u64, now: Nanos) {
        self.answered(number, Some(now));
    }
}
