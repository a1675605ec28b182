//! Checks every run against laws that hold for any queueing system. Both sides of each law are counted independently, in whole
//! nanoseconds, in every run: a few additions per event.
//!
//! - **Little's law**: the number of requests in the server, integrated over time, equals the sum of their response times.
//! - **Utilisation law**: worker time is busy time plus idle time.
//! - **Work conservation**: no worker idles while more requests are queued than workers are taking up turns.

/// A broken law, which is a defect of the simulator, not an error of its user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulation broke {law}: {detail}")]
pub struct Violation {
    /// The law that is broken.
    pub law: &'static str,
    /// The counts.
    pub detail: String,
}

/// The counts for the laws.
#[derive(Debug, Default)]
pub(super) struct Laws {
    /// The number of client requests in the server, and its integral over time.
    inside: u32,
    inside_nanos: u128,
    /// The sum of the arrival times of requests in the server, and of the response times of those that have left.
    arrivals: u128,
    responses: u128,
    /// The number of idle workers, integrated over time.
    idle_nanos: u128,
    /// The number of moments at which a worker idled although requests were queued.
    lazy: u64,
}

/// Totals at the end of a run, counted independently by the event loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) now: u64,
    pub(super) workers: u32,
    /// Busy time of workers up to the end.
    pub(super) busy_nanos: u64,
    pub(super) clients: u32,
}

impl Laws {
    /// Adds a span of time in which so many workers were idle.
    pub(super) fn step(&mut self, span: u64, idle: u32) {
        self.inside_nanos += u128::from(self.inside) * u128::from(span);
        self.idle_nanos += u128::from(idle) * u128::from(span);
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

    /// Checks work conservation after an event, from the idle workers, the queued requests and the workers that will take one.
    pub(super) fn settled(&mut self, idle: u32, queued: impl FnOnce() -> u32, turning: u32) {
        if idle > 0 && queued() > turning {
            self.lazy += 1;
        }
    }

    pub(super) fn check(&self, end: End) -> Result<(), Violation> {
        let violation = |law, detail| Err(Violation { law, detail });
        let left = u128::from(end.now) * u128::from(self.inside) - self.arrivals;
        if self.inside != end.clients || self.inside_nanos != self.responses + left {
            let detail =
                format!("{} request-ns inside, {} request-ns of stays", self.inside_nanos, self.responses + left);
            return violation("Little's law", detail);
        }
        let time = u128::from(end.now) * u128::from(end.workers);
        if time != self.idle_nanos + u128::from(end.busy_nanos) {
            let detail = format!("{time} worker-ns, {} busy and {} idle", end.busy_nanos, self.idle_nanos);
            return violation("the utilisation law", detail);
        }
        if self.lazy > 0 {
            return violation("work conservation", format!("{} moments with an idle worker and a queue", self.lazy));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request from 10 to 30 on one of two workers, which is busy for 20.
    fn counted() -> (Laws, End) {
        let mut laws = Laws::default();
        laws.step(10, 2);
        laws.arrived(10);
        laws.step(20, 1);
        laws.left(30, 10);
        laws.step(10, 2);
        (laws, End { now: 40, workers: 2, busy_nanos: 20, clients: 0 })
    }

    #[test]
    fn numbers_that_agree_pass() {
        let (laws, end) = counted();
        assert_eq!(laws.check(end), Ok(()));
    }

    #[test]
    fn each_law_is_seen_when_it_is_broken() {
        let broken = |change: fn(&mut Laws, &mut End)| {
            let (mut laws, mut end) = counted();
            change(&mut laws, &mut end);
            laws.check(end).expect_err("a law is broken").law
        };
        assert_eq!(broken(|laws, _| laws.responses += 1), "Little's law");
        assert_eq!(broken(|_, end| end.clients = 1), "Little's law");
        assert_eq!(broken(|_, end| end.busy_nanos += 1), "the utilisation law");
        assert_eq!(broken(|laws, _| laws.settled(1, || 3, 2)), "work conservation");
    }
}
