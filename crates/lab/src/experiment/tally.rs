//! What is counted while an experiment runs: by class, step by step of time, and by tier.

use hdrhistogram::Histogram;
use ioweir_core::{Dispatch, Nanos, Operation, Reason, StreamId, Tier, Waiting};

use super::cell::{ClassResult, Measured, Step, TierResult};
use super::spec::Experiment;
use crate::sim::{Finished, Gather, HISTOGRAM_DIGITS};
use ioweir_device::Service;

/// Everything that is counted.
pub(super) struct Tally {
    classes: Vec<ClassTally>,
    /// The class of each client.
    class_of: Vec<u32>,
    /// Requests of each client that were done.
    client_requests: Vec<u64>,
    client_weights: Vec<u32>,
    /// What is measured begins and ends here.
    from: Nanos,
    to: Nanos,
    interval: Nanos,
    /// When the current step ends.
    step_end: Nanos,
    depth: usize,
    tiers: [TierTally; 2],
    wait_nanos: [u64; Reason::COUNT],
    /// Time in which any request waited, and of that, in which the device had room.
    waiting_nanos: u64,
    held_back_nanos: u64,
}

#[derive(Default)]
struct TierTally {
    requests: u64,
    service_nanos: u64,
    busy_nanos: u64,
    /// When all that it was given is done.
    busy_until: Nanos,
}

struct ClassTally {
    name: String,
    clients: u32,
    requests: u64,
    reads: u64,
    bytes: u64,
    latency_sum_nanos: u64,
    dispatched: u64,
    device_sum_nanos: u64,
    fast_requests: u64,
    refused: u64,
    latency: Histogram<u64>,
    step_latency: Histogram<u64>,
    step_sum_nanos: u64,
    steps: Vec<Step>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new(HISTOGRAM_DIGITS).expect("a histogram takes up to five digits")
}

impl ClassTally {
    fn end_step(&mut self, is_measured: bool) {
        let histogram = &mut self.step_latency;
        let quantile = |quantile: f64| histogram.value_at_quantile(quantile);
        let requests = histogram.len();
        self.steps.push(if requests == 0 {
            Step::default()
        } else {
            Step {
                requests,
                mean_nanos: self.step_sum_nanos / requests,
                p50_nanos: quantile(0.5),
                p99_nanos: quantile(0.99),
                p999_nanos: quantile(0.999),
            }
        });
        if is_measured {
            self.latency += &*histogram;
        }
        histogram.reset();
        self.step_sum_nanos = 0;
    }

    fn into_result(self) -> ClassResult {
        let quantile =
            |quantile: f64| if self.latency.is_empty() { 0 } else { self.latency.value_at_quantile(quantile) };
        ClassResult {
            clients: self.clients,
            requests: self.requests,
            reads: self.reads,
            bytes: self.bytes,
            latency_sum_nanos: self.latency_sum_nanos,
            latency_p50_nanos: quantile(0.5),
            latency_p99_nanos: quantile(0.99),
            latency_p999_nanos: quantile(0.999),
            latency_max_nanos: quantile(1.0),
            dispatched: self.dispatched,
            device_sum_nanos: self.device_sum_nanos,
            fast_requests: self.fast_requests,
            refused: self.refused,
            steps: self.steps,
            name: self.name,
        }
    }
}

impl Tally {
    pub(super) fn new(experiment: &Experiment) -> Self {
        let mut class_of = Vec::new();
        let mut client_weights = Vec::new();
        for (number, class) in experiment.classes.iter().enumerate() {
            class_of.extend((0..class.clients).map(|_| number as u32));
            client_weights.extend((0..class.clients).map(|_| class.weight));
        }
        let class = |class: &super::spec::ClassSpec| ClassTally {
            name: class.name.clone(),
            clients: class.clients,
            requests: 0,
            reads: 0,
            bytes: 0,
            latency_sum_nanos: 0,
            dispatched: 0,
            device_sum_nanos: 0,
            fast_requests: 0,
            refused: 0,
            latency: histogram(),
            step_latency: histogram(),
            step_sum_nanos: 0,
            steps: Vec::new(),
        };
        let interval = experiment.interval.nanos();
        Self {
            classes: experiment.classes.iter().map(class).collect(),
            client_requests: vec![0; class_of.len()],
            class_of,
            client_weights,
            from: experiment.warm_up.nanos(),
            to: experiment.duration.nanos(),
            interval,
            step_end: interval,
            depth: experiment.depth as usize,
            tiers: [TierTally::default(), TierTally::default()],
            wait_nanos: [0; Reason::COUNT],
            waiting_nanos: 0,
            held_back_nanos: 0,
        }
    }

    fn measures(&self, now: Nanos) -> bool {
        now >= self.from
    }

    /// How much of the span up to `now` is measured.
    fn measured(&self, now: Nanos, span: Nanos) -> u64 {
        span.0.min(now.since(self.from).0)
    }

    fn class(&mut self, stream: StreamId) -> &mut ClassTally {
        &mut self.classes[self.class_of[stream.0 as usize] as usize]
    }

    fn end_steps(&mut self, now: Nanos) {
        while now >= self.step_end {
            // A step that lies partly in the warm-up counts as a whole, or not: the file's check asks for whole steps.
            let is_measured = self.step_end > self.from;
            for class in &mut self.classes {
                class.end_step(is_measured);
            }
            self.step_end = self.step_end.after(self.interval);
        }
    }

    /// What was counted, once the run is over.
    pub(super) fn into_measured(mut self) -> Measured {
        self.end_steps(self.to);
        let waits = Reason::ALL.iter().map(|reason| (reason.name().to_owned(), self.wait_nanos[*reason as usize]));
        let tier = |tier: Tier| {
            let TierTally { requests, service_nanos, busy_nanos, .. } = self.tiers[tier as usize];
            (requests > 0).then(|| TierResult { name: tier.name().to_owned(), requests, service_nanos, busy_nanos })
        };
        let conserving = match self.waiting_nanos {
            0 => 1.0,
            waiting => 1.0 - self.held_back_nanos as f64 / waiting as f64,
        };
        Measured {
            span_nanos: self.to.since(self.from).0,
            waits: waits.filter(|wait| wait.1 > 0).collect(),
            tiers: Tier::ALL.into_iter().rev().filter_map(tier).collect(),
            jain_millionths: millionths(jain(&self.client_requests, &self.client_weights)),
            conserving_millionths: millionths(conserving),
            classes: self.classes.into_iter().map(ClassTally::into_result).collect(),
        }
    }
}

fn millionths(ratio: f64) -> u32 {
    ioweir_config::Ratio::new(ratio.clamp(0.0, 1.0)).map_or(0, ioweir_config::Ratio::millionths)
}

/// Jain's index of what each client got for its weight: 1 where all got the same, one in their number where one got all.
fn jain(requests: &[u64], weights: &[u32]) -> f64 {
    let gains = || requests.iter().zip(weights).map(|(requests, weight)| *requests as f64 / f64::from(*weight));
    let (sum, squares) = gains().fold((0.0, 0.0), |(sum, squares), gain| (sum + gain, squares + gain * gain));
    if squares == 0.0 { 1.0 } else { sum * sum / (requests.len() as f64 * squares) }
}

impl Gather for Tally {
    fn waited(&mut self, now: Nanos, span: Nanos, waiting: &Waiting, in_device: usize) {
        let measured = self.measured(now, span);
        let mut waits = false;
        for (sum, &count) in self.wait_nanos.iter_mut().zip(&waiting.0) {
            if count > 0 {
                *sum = sum.saturating_add(measured.saturating_mul(u64::from(count)));
                waits = true;
            }
        }
        if waits {
            self.waiting_nanos += measured;
            self.held_back_nanos += if in_device < self.depth { measured } else { 0 };
        }
    }

    fn waited_outside(&mut self, nanos: u128) {
        let sum = &mut self.wait_nanos[Reason::QueueFull as usize];
        *sum = sum.saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX));
    }

    fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, service: &Service) {
        let finish = service.finish;
        let spent = finish.since(now).0.saturating_sub(service.queue_nanos);
        let start = Nanos(finish.0 - spent).max(self.from);
        let (from, to) = (self.from, self.to);
        let tier = &mut self.tiers[service.tier as usize];
        tier.service_nanos += finish.min(to).since(start).0;
        tier.busy_nanos += finish.min(to).since(start.max(tier.busy_until)).0;
        tier.busy_until = tier.busy_until.max(finish);
        if now >= from {
            tier.requests += 1;
            let is_fast = service.tier == Tier::Fast;
            let class = self.class(dispatch.stream);
            class.dispatched += 1;
            class.device_sum_nanos += finish.since(now).0;
            class.fast_requests += u64::from(is_fast);
        }
    }

    fn refused(&mut self, now: Nanos, stream: StreamId) {
        if self.measures(now) {
            self.class(stream).refused += 1;
        }
    }

    fn finished(&mut self, finished: &Finished) {
        let Finished { now, arrival, operation, bytes, stream } = *finished;
        if now >= self.step_end {
            self.end_steps(now);
        }
        let is_measured = self.measures(now);
        let latency = now.since(arrival).0;
        if is_measured {
            self.client_requests[stream.0 as usize] += 1;
        }
        let class = self.class(stream);
        class.step_latency += latency;
        class.step_sum_nanos += latency;
        if is_measured {
            class.requests += 1;
            class.reads += u64::from(operation == Operation::Read);
            class.bytes += bytes;
            class.latency_sum_nanos += latency;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equals_and_one_in_n_for_a_single_winner() {
        assert!((jain(&[5, 5, 5, 5], &[1; 4]) - 1.0).abs() < 1e-12);
        assert!((jain(&[5, 0, 0, 0], &[1; 4]) - 0.25).abs() < 1e-12);
        assert!((jain(&[10, 20], &[1, 2]) - 1.0).abs() < 1e-12);
        assert!((jain(&[], &[]) - 1.0).abs() < 1e-12);
    }
}
