//! Figures of some of the requests of a run: their number, their latencies, and when the last of them completed.

use std::collections::BTreeMap;

use ioweir_core::policy::Policy;
use ioweir_core::{Nanos, Operation};
use ioweir_trace::Record;

use super::{Latencies, Observer};

/// The figures of the requests that were chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Requests that were done.
    pub requests: u64,
    pub latency_sum_nanos: u128,
    /// The latencies of the reads among them.
    pub reads: Latencies,
    /// First arrival of the run to the last completion of one of them.
    pub completion: Nanos,
}

impl Tally {
    /// Counts a request that took this long.
    pub(super) fn add(&mut self, operation: Operation, latency_nanos: u64) {
        self.requests += 1;
        self.latency_sum_nanos += u128::from(latency_nanos);
        if operation == Operation::Read {
            self.reads.record(latency_nanos);
        }
    }
}

/// Tallies one set of requests in one run; `counts` says which requests belong to it.
pub struct Teller<C> {
    counts: C,
    first_arrival: Option<Nanos>,
    in_flight: BTreeMap<u64, (Nanos, Operation)>,
    pub tally: Tally,
}

impl<C: Fn(&Record) -> bool> Teller<C> {
    #[must_use]
    pub fn new(counts: C) -> Self {
        Self { counts, first_arrival: None, in_flight: BTreeMap::new(), tally: Tally::default() }
    }
}

impl<C: Fn(&Record) -> bool> Observer<Policy> for Teller<C> {
    fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        self.first_arrival.get_or_insert(arrival);
        if (self.counts)(record) {
            self.in_flight.insert(number, (arrival, record.operation));
        }
    }

    fn refused(&mut self, number: u64, _sectors: u32, last: bool, _now: Nanos) {
        if last {
            self.in_flight.remove(&number);
        }
    }

    fn finished(&mut self, number: u64, now: Nanos) {
        if let Some((arrival, operation)) = self.in_flight.remove(&number) {
            self.tally.add(operation, now.since(arrival).0);
            self.tally.completion = now.since(self.first_arrival.unwrap_or(now));
        }
    }
}
