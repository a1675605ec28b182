//! Shrinks a plan that breaks a promise, as long as it breaks the same one.

use super::plan::Plan;
use super::promise::Promise;
use super::run::run;

/// Removes the steps that do not matter, as far as they are found in `runs` runs. Returns the shorter plan and the number of runs.
#[must_use]
pub fn shrink(plan: &Plan, promise: Promise, runs: u32) -> (Plan, u32) {
    let breaks = |plan: &Plan| run(plan, false).verdict.broken.is_some_and(|broken| broken.promise == promise);
    let mut best = plan.clone();
    // The promise may break in the time before the next step, so that step is kept.
    best.steps.truncate(run(plan, false).steps + 1);
    let (mut used, mut length) = (1, best.steps.len().div_ceil(2));
    while length > 0 && used < runs {
        let (mut at, mut was_shorter) = (0, false);
        while at < best.steps.len() && used < runs {
            let mut shorter = best.clone();
            shorter.steps.drain(at..(at + length).min(best.steps.len()));
            used += 1;
            if breaks(&shorter) {
                (best, was_shorter) = (shorter, true);
            } else {
                at += length;
            }
        }
        if length == 1 && !was_shorter {
            break;
        }
        length = if length > 1 { length.div_ceil(2).min(length - 1) } else { 1 };
    }
    (best, used)
}
