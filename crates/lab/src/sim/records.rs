//! The records in flight: the driver's caller, which tells the observer and the collector of them.

use std::marker::PhantomData;

use ioweir_core::driver::{Caller, Finished as Ended};
use ioweir_core::{Nanos, Operation, RefusedCause, Request, SECTOR_BYTES, StreamId, Tag};
use ioweir_trace::Record;

use super::{Collector, Failure, Finished, Observer};

/// A record that has arrived and is not done.
#[derive(Clone, Copy)]
pub(super) struct InFlight {
    number: u64,
    arrival: Nanos,
    bytes: u64,
    operation: Operation,
    stream: u32,
}

/// A record that was refused, its client being at its limit.
#[derive(Clone, Copy)]
pub(super) struct Refused {
    /// The driver's slot of the request.
    pub(super) slot: u32,
    pub(super) stream: u32,
    /// When the request would be accepted.
    pub(super) retry: Nanos,
}

/// The state of all records in a run, by the driver's slots of requests.
pub(super) struct Records<'a, S, O> {
    pub(super) observer: &'a mut O,
    pub(super) collector: &'a mut Collector,
    pub(super) now: Nanos,
    in_flight: Vec<InFlight>,
    arrived: u64,
    pub(super) skipped: u64,
    volume: Option<u32>,
    /// Sectors of the device.
    capacity: u64,
    /// Whether records past the device's end are skipped.
    is_lenient: bool,
    /// Records that were refused since the engine looked last.
    pub(super) refused: Vec<Refused>,
    scheduler: PhantomData<fn(S)>,
}

/// Sectors that a record covers: partly covered ones count whole, and a flush covers none.
pub(super) fn sectors_of(record: &Record) -> u64 {
    if record.length_bytes == 0 {
        return 0;
    }
    let end = record.offset_bytes.saturating_add(record.length_bytes).div_ceil(SECTOR_BYTES);
    end - record.offset_bytes / SECTOR_BYTES
}

impl<'a, S, O: Observer<S>> Records<'a, S, O> {
    pub(super) fn new(collector: &'a mut Collector, observer: &'a mut O, capacity: u64, is_lenient: bool) -> Self {
        Self {
            observer,
            collector,
            now: Nanos::ZERO,
            in_flight: Vec::new(),
            arrived: 0,
            skipped: 0,
            volume: None,
            capacity,
            is_lenient,
            refused: Vec::new(),
            scheduler: PhantomData,
        }
    }

    /// A record has arrived, and is the driver's request in this slot.
    pub(super) fn arrive(&mut self, request: u32, record: &Record, arrival: Nanos) {
        let number = self.arrived;
        self.arrived += 1;
        self.observer.arrived(number, record, arrival);
        let (bytes, operation, stream) = (record.length_bytes, record.operation, record.stream.0);
        let in_flight = InFlight { number, arrival, bytes, operation, stream };
        let place = request as usize;
        match self.in_flight.get_mut(place) {
            Some(known) => *known = in_flight,
            // A driver that has grown gives out its new slots before older ones that were never used.
            None => self.in_flight.resize(place + 1, in_flight),
        }
    }

    /// A sub-request has been served; answers with the stream whose record is done with it.
    #[inline]
    pub(super) fn finish(&mut self, ended: Ended) -> Option<u32> {
        if !ended.is_last {
            return None;
        }
        let InFlight { number, arrival, bytes, operation, stream } = self.in_flight[ended.request as usize];
        self.collector.finished(&Finished { now: self.now, arrival, operation, bytes, stream: StreamId(stream) });
        self.observer.finished(number, self.now);
        Some(stream)
    }

    /// Whether a record fits the run: one address space, and within the device. What does not is skipped if that is
    /// allowed.
    #[inline]
    pub(super) fn fits(&mut self, record: &Record) -> Result<bool, Failure> {
        let end = (record.offset_bytes / SECTOR_BYTES).saturating_add(sectors_of(record));
        if *self.volume.get_or_insert(record.volume) == record.volume && end <= self.capacity {
            return Ok(true);
        }
        self.skip(record, end).map(|()| false)
    }

    /// Checks that a record fits; nothing is skipped.
    pub(super) fn fits_exactly(&mut self, record: &Record) -> Result<(), Failure> {
        self.is_lenient = false;
        self.fits(record).map(|_| ())
    }

    #[cold]
    fn skip(&mut self, record: &Record, end: u64) -> Result<(), Failure> {
        let number = self.arrived + self.skipped + 1;
        if self.volume != Some(record.volume) {
            return Err(Failure::Record {
                number,
                problem: "the trace continues in another address space".into(),
                expected: "one address space, since one device is simulated".into(),
                hint: "choose one with --volume; `ioweir trace info` lists them".into(),
            });
        }
        if self.is_lenient {
            self.skipped += 1;
            return Ok(());
        }
        Err(Failure::Record {
            number,
            problem: format!("sectors {} to {end} lie past the end of the device", record.offset_bytes / SECTOR_BYTES),
            expected: format!("nothing past sector {}", self.capacity),
            hint:
                "take a larger device with --device, fold them onto this one with --fold, or skip them with --lenient"
                    .into(),
        })
    }
}

impl<S, O: Observer<S>> Caller for Records<'_, S, O> {
    #[inline]
    fn submitted(&mut self, request: u32, _handle: u32, tag: Tag, sub_request: &Request) {
        let number = self.in_flight[request as usize].number;
        self.observer.submitted(number, tag, sub_request.sector, sub_request.sectors);
    }

    fn split(&mut self, request: u32, handle: u32, _rest: &Request) -> u32 {
        // From now on one more waits; that it has waited until now is charged here.
        let arrival = self.in_flight[request as usize].arrival;
        self.collector.waited_outside(u128::from(self.now.since(arrival).0));
        handle
    }

    /// A record of which other sub-requests were taken is done when these are.
    fn refused(&mut self, ended: Ended, sub_request: &Request, cause: RefusedCause) {
        let InFlight { number, stream, .. } = self.in_flight[ended.request as usize];
        self.observer.refused(number, sub_request.sectors, ended.is_last, self.now);
        if ended.is_last {
            let retry = if let RefusedCause::AtLimit(retry) = cause { retry } else { self.now };
            self.collector.refused(self.now, StreamId(stream));
            self.refused.push(Refused { slot: ended.request, stream, retry });
        }
    }
}
