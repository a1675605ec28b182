//! The model's own error on a trace: the recorded scheduler simulated at the recorded times, beside the latencies of the trace.

use std::collections::BTreeMap;

use ioweir_core::policy::Policy;
use ioweir_core::{Nanos, Operation};
use ioweir_device::validate::demerit;
use ioweir_trace::Record;
use serde::Serialize;

use super::bench::{Bench, RECORDED};
use super::pieces::Pieces;
use super::space::Candidate;
use ioweir_lab::run::RunError;
use ioweir_lab::sim::Observer;

/// Latencies of one class of requests, as the trace has them and as they were simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ClassError {
    pub(super) class: &'static str,
    pub(super) requests: usize,
    pub(super) traced_mean_seconds: f64,
    pub(super) simulated_mean_seconds: f64,
    pub(super) traced_p99_seconds: f64,
    pub(super) simulated_p99_seconds: f64,
    /// The root mean square distance of the two distributions.
    pub(super) demerit_seconds: f64,
    /// The demerit divided by the traced mean.
    pub(super) demerit_share: Option<f64>,
}

/// Latencies of requests, as the trace has them and as they are simulated.
#[derive(Default)]
struct Pairs {
    in_flight: BTreeMap<u64, (Nanos, Operation, Nanos)>,
    /// By operation: traced, simulated.
    nanos: [[Vec<u64>; 2]; Operation::ALL.len()],
}

impl Observer<Policy> for Pairs {
    fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        if let Some(traced) = record.latency {
            self.in_flight.insert(number, (arrival, record.operation, traced));
        }
    }

    fn finished(&mut self, number: u64, now: Nanos) {
        if let Some((arrival, operation, traced)) = self.in_flight.remove(&number) {
            let [all_traced, all_simulated] = &mut self.nanos[operation as usize];
            all_traced.push(traced.0);
            all_simulated.push(now.since(arrival).0);
        }
    }
}

/// The error by class; empty if the trace has no latencies.
pub(super) fn own_error(
    bench: &Bench<'_>,
    pieces: &Pieces,
    recorded: &Candidate,
    seed: u64,
) -> Result<Vec<ClassError>, RunError> {
    if pieces.latencies() == 0 {
        return Ok(Vec::new());
    }
    let mut pairs = Pairs::default();
    let jobs = bench.jobs(recorded, &pieces.all(), seed, &bench.base);
    if let Some(job) = jobs.get(RECORDED) {
        job.run(false, bench.progress, &mut pairs)?;
        bench.progress.finished("");
    }
    let classes = [("reads", Operation::Read), ("writes", Operation::Write), ("flushes", Operation::Flush)];
    let of = |(class, operation): (&'static str, Operation)| {
        let [traced, simulated] = &mut pairs.nanos[operation as usize];
        class_error(class, std::mem::take(traced), std::mem::take(simulated))
    };
    Ok(classes.into_iter().filter_map(of).collect())
}

fn class_error(class: &'static str, mut traced: Vec<u64>, mut simulated: Vec<u64>) -> Option<ClassError> {
    traced.sort_unstable();
    simulated.sort_unstable();
    let seconds = |nanos: f64| nanos / 1e9;
    let mean = |nanos: &[u64]| nanos.iter().map(|&nanos| nanos as f64).sum::<f64>() / nanos.len() as f64;
    let p99 = |nanos: &[u64]| nanos.get((nanos.len() * 99).div_ceil(100).saturating_sub(1)).copied();
    let demerit_nanos = demerit(&traced, &simulated);
    Some(ClassError {
        class,
        requests: traced.len(),
        traced_p99_seconds: seconds(p99(&traced)? as f64),
        simulated_p99_seconds: seconds(p99(&simulated)? as f64),
        traced_mean_seconds: seconds(mean(&traced)),
        simulated_mean_seconds: seconds(mean(&simulated)),
        demerit_seconds: seconds(demerit_nanos),
        demerit_share: (mean(&traced) > 0.0).then(|| demerit_nanos / mean(&traced)),
    })
}
