//! Counts of the answers that clients got, class by class, to compare with the counters of the server.

use ioweir_core::Operation;

use super::client::{Ask, Outstanding};
use super::promise::{Promise, Verdict};
use ioweir_serve::engine::{ClassCounts, ClassState, OperationCounters, Report};
use ioweir_serve::spec::{Class, ClassKind};

/// The answers that clients of a class have got.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    answered: u64,
    errors: u64,
    bytes: u64,
    /// Requests that were never answered, and their bytes: the server may have counted them.
    lost: u64,
    lost_bytes: u64,
}

/// The tally of a server since it began.
#[derive(Debug, Default)]
pub(super) struct Tally {
    seen: Vec<[Seen; Operation::ALL.len()]>,
    refused: u64,
    lost_refused: u64,
    counted: Vec<ClassCounts>,
    latencies: Vec<u64>,
    last: Vec<ClassState>,
    inflight: u32,
    /// The classes that are services of the device.
    services: Vec<bool>,
}

const fn operation_of(ask: Ask) -> Operation {
    match ask {
        Ask::Read | Ask::Extents | Ask::Cache => Operation::Read,
        Ask::Write => Operation::Write,
        Ask::Flush => Operation::Flush,
        Ask::Trim | Ask::Zero => Operation::Discard,
    }
}

impl Tally {
    /// The tally for the engine of a device in a server with these classes.
    pub(super) fn new(classes: &[Class], device: usize) -> Self {
        let mut tally = Self::default();
        tally.know(classes, device);
        tally
    }

    /// Takes over the server's present classes, which are the earlier ones and perhaps more.
    pub(super) fn know(&mut self, classes: &[Class], device: usize) {
        let is_service = |class: &Class| class.kind == ClassKind::Service && class.device == device;
        self.services = classes.iter().map(is_service).collect();
        self.seen.resize(classes.len(), <_>::default());
        self.counted.resize(classes.len(), ClassCounts::default());
        self.latencies.resize(classes.len(), 0);
    }

    /// A client of a class was answered.
    pub(super) fn answered(&mut self, class: usize, asked: &Outstanding, error: u32) {
        if !asked.is_valid {
            self.refused += 1;
            return;
        }
        let operation = operation_of(asked.ask);
        let seen = &mut self.seen[class][operation as usize];
        seen.answered += 1;
        if error == 0 {
            seen.bytes += bytes_of(asked);
        } else {
            seen.errors += 1;
        }
    }

    /// A client of a class will not be answered.
    pub(super) fn lost(&mut self, class: usize, asked: &Outstanding) {
        if !asked.is_valid {
            self.lost_refused += 1;
            return;
        }
        let operation = operation_of(asked.ask);
        let seen = &mut self.seen[class][operation as usize];
        seen.lost += 1;
        seen.lost_bytes += bytes_of(asked);
    }

    /// Takes the server's report since the last one.
    pub(super) fn reported(&mut self, report: Report) {
        for (class, (counted, latency)) in self.counted.iter_mut().zip(&mut self.latencies).enumerate() {
            if let Some(counters) = report.counters.get(class) {
                counted.add(&counters.counts);
                *latency += counters.latency.len();
            }
        }
        (self.last, self.inflight) = (report.classes, report.device.inflight);
    }

    /// Compares the counters, while no request is in flight.
    pub(super) fn check(&self, verdict: &mut Verdict) {
        let is_own = |class: usize| !self.services[class];
        let has_service = self.services.contains(&true);
        for (class, counted) in self.counted.iter().enumerate() {
            for operation in Operation::ALL {
                let (seen, its) = (self.seen[class][operation as usize], &counted.operations[operation as usize]);
                let name = operation.name();
                if is_own(class) {
                    compare_answers((class, name), seen, its, verdict);
                }
                verdict.check(Promise::Metrics, its.cores_nanos <= its.service.sum_nanos, || {
                    format!("class {class} waited longer for workers than for the device for {name}")
                });
            }
            // A service works even while clients rest.
            let in_flight = self.last.get(class).map_or(0, |state| u64::from(state.inflight));
            let times = |of: fn(&OperationCounters) -> u64| counted.operations.iter().map(of).sum::<u64>();
            let (queued, served) = (times(|of| of.queue.count()), times(|of| of.service.count()));
            verdict.check(Promise::Metrics, queued == served + in_flight, || {
                format!(
                    "class {class} has {queued} times in the queue and {served} in the device, and {in_flight} requests in flight"
                )
            });
            if is_own(class) {
                let requests: u64 = counted.operations.iter().map(|of| of.requests).sum();
                verdict.check(Promise::Metrics, self.latencies[class] == requests, || {
                    format!("class {class} has {} latencies of {requests} answers", self.latencies[class])
                });
            }
            // Requests that were withdrawn waited too, and are in no duration of the queue.
            let waited: u64 = counted.wait_nanos.iter().sum();
            let queued: u64 = counted.operations.iter().map(|of| of.queue.sum_nanos).sum();
            let has_lost = !is_own(class) || self.seen[class].iter().any(|seen| seen.lost > 0);
            let fits = if has_lost { waited >= queued } else { waited == queued };
            verdict.check(Promise::Metrics, fits, || {
                format!("class {class} waited {waited} ns by reason and {queued} ns in the queue")
            });
        }
        let refused: u64 = self.counted.iter().flat_map(|counted| counted.refused).sum();
        verdict.check(Promise::Metrics, (self.refused..=self.refused + self.lost_refused).contains(&refused), || {
            format!(
                "{} requests were refused, {} may have been, and {refused} are counted",
                self.refused, self.lost_refused
            )
        });
        let own = self.last.iter().zip(&self.services).filter(|(_, is_service)| !**is_service);
        let left: u32 = own.map(|(class, _)| class.inflight + class.queued).sum();
        verdict.check(Promise::Metrics, left == 0 && (has_service || self.inflight == 0), || {
            format!("{left} requests are reported to wait and {} to be in flight at rest", self.inflight)
        });
    }
}

/// Compares the answers of an operation that clients of a class got with the server's counters.
fn compare_answers((class, name): (usize, &str), seen: Seen, its: &OperationCounters, verdict: &mut Verdict) {
    let most = seen.answered + seen.lost;
    verdict.check(Promise::Metrics, (seen.answered..=most).contains(&its.requests), || {
        format!("class {class} has seen {seen:?} of {name}, and the server has counted {} answers", its.requests)
    });
    let most = seen.bytes + seen.lost_bytes;
    verdict.check(Promise::Metrics, (seen.bytes..=most).contains(&its.bytes), || {
        format!("class {class} has seen {seen:?} of {name}, and the server has counted {} bytes", its.bytes)
    });
    let most = seen.errors + seen.lost;
    verdict.check(Promise::Metrics, (seen.errors..=most).contains(&its.errors()), || {
        format!("class {class} has seen {seen:?} of {name}, and the server has counted {} errors", its.errors())
    });
    verdict.check(Promise::Metrics, its.request.count() == its.requests, || {
        format!("class {class} has {} durations of {} answers to {name}", its.request.count(), its.requests)
    });
}

const fn bytes_of(asked: &Outstanding) -> u64 {
    if matches!(asked.ask, Ask::Flush | Ask::Extents) { 0 } else { asked.sectors * 512 }
}
