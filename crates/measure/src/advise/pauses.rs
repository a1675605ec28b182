//! How the advice depends on the time that streams think before their next request, which a trace shows only roughly.
//!
//! The finalists run in the closed loop with several think times, on samples of the half that the search did not see. A
//! scheduler that waits for a stream's next request, such as `bfq`, wins or loses by that time alone.

use std::sync::Arc;

use ioweir_core::Nanos;
use ioweir_device::DeviceSpec;
use serde::Serialize;

use super::bench::{Bench, CLOSED, LOADS};
use super::confirm::{Change, Rounds};
use super::space::Candidate;
use ioweir_lab::compare::Goal;
use ioweir_lab::run::{RunError, TraceFiles};
use ioweir_lab::sim::Load;

/// Think times that are tried beside that of the trace: none, that of a program that computes, and of one that talks to others.
const TRIED_NANOS: [u64; 4] = [0, 100_000, 1_000_000, 10_000_000];
/// The rounds that judge the advice are divided by this to get those of each think time.
const PART: u32 = 5;
/// The fewest rounds of a think time.
const ROUNDS_MIN: u32 = 5;

/// The finalists with one think time in the closed loop.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Paused {
    pub(super) think_seconds: f64,
    /// Whether the trace shows this think time.
    pub(super) is_traced: bool,
    /// The candidate with the lowest value, and its change relative to leaving it.
    pub(super) lowest: String,
    pub(super) change: Change,
    /// The change of the advised candidate.
    pub(super) advised: Change,
}

/// The inputs of the runs with other think times.
pub(super) struct Pauses<'a, 'b> {
    pub(super) bench: &'a Bench<'b>,
    pub(super) think: Option<Nanos>,
    pub(super) goal: Goal,
    pub(super) seed: u64,
    /// The rounds that judge the advice, of which these are a part.
    pub(super) rounds: u32,
}

impl Pauses<'_, '_> {
    /// The number of runs for so many candidates.
    pub(super) fn runs(rounds: u32, candidates: usize) -> usize {
        candidates * TRIED_NANOS.len() * (rounds / PART).max(ROUNDS_MIN) as usize
    }

    /// The think times: the trace's own takes the place of the tried one that is nearest to it.
    fn tried(&self) -> [u64; TRIED_NANOS.len()] {
        let mut tried = TRIED_NANOS;
        if let Some(Nanos(think)) = self.think {
            let near = |at: &usize| (tried[*at].max(1).ilog2()).abs_diff(think.max(1).ilog2());
            let nearest = (0..tried.len()).min_by_key(near).unwrap_or(0);
            tried[nearest] = think;
        }
        tried
    }

    pub(super) fn run(
        &self,
        candidates: &[Candidate],
        choice: usize,
        trace: &Arc<TraceFiles>,
        draw: &dyn Fn(u64) -> DeviceSpec,
    ) -> Result<Vec<Paused>, RunError> {
        let Load::Closed { outstanding, .. } = self.bench.loads[CLOSED] else { return Ok(Vec::new()) };
        let rounds = (self.rounds / PART).max(ROUNDS_MIN);
        let mut paused = Vec::new();
        for pair in self.tried().as_chunks::<LOADS>().0 {
            let loads = pair.map(|nanos| Load::Closed { outstanding, pause: Nanos(nanos) });
            let bench = Bench { loads, ..self.bench.clone() };
            let judged = Rounds::run(&bench, candidates.to_vec(), trace, self.seed, rounds, draw)?;
            for (load, think_nanos) in pair.iter().enumerate() {
                let lowest = judged.lowest(self.goal, load);
                paused.push(Paused {
                    think_seconds: *think_nanos as f64 / 1e9,
                    is_traced: self.think == Some(Nanos(*think_nanos)),
                    lowest: judged.label(lowest),
                    change: judged.under(lowest, self.goal, load),
                    advised: judged.under(choice, self.goal, load),
                });
            }
        }
        Ok(paused)
    }
}
