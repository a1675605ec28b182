//! The simulated world: the same seed gives the same bytes, nothing is broken, and each canary is found.

use ioweir_serve::world::{Canary, Plan, Promise, run, shrink};

/// Seeds that each run of the tests plays.
const SEEDS: std::ops::Range<u64> = 1..25;

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in SEEDS.step_by(5) {
        let (first, second) = (run(&Plan::new(seed), true), run(&Plan::new(seed), true));
        let differs = first.log.lines().zip(second.log.lines()).find(|(first, second)| first != second);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!((first.digest, &first.verdict), (second.digest, &second.verdict), "seed {seed}");
        assert_eq!(run(&Plan::new(seed), false).digest, first.digest, "whether it is written down is of no matter");
    }
    assert_ne!(run(&Plan::new(1), false).digest, run(&Plan::new(2), false).digest);
}

#[test]
fn the_promises_hold_and_each_is_checked() {
    let mut checks = [0; Promise::ALL.len()];
    for seed in SEEDS {
        let outcome = run(&Plan::new(seed), false);
        assert_eq!(outcome.verdict.broken, None, "seed {seed}");
        checks.iter_mut().zip(outcome.verdict.checks).for_each(|(sum, more)| *sum += more);
    }
    for (promise, checks) in Promise::ALL.iter().zip(checks) {
        assert!(checks > 0, "{} is never checked", promise.name());
    }
}

#[test]
fn each_canary_is_found_by_the_checker_of_its_promise() {
    for &canary in Canary::ALL {
        let broken = (1..400).find_map(|seed| {
            let plan = Plan { canary: Some(canary), ..Plan::new(seed) };
            // In some worlds another checker is the first to notice: a lost write may be found after a crash.
            let broken = run(&plan, false).verdict.broken.filter(|broken| broken.promise == canary.breaks());
            broken.map(|broken| (plan, broken))
        });
        let (plan, broken) = broken.unwrap_or_else(|| panic!("{} is not found", canary.name()));
        assert_eq!(broken.promise, canary.breaks(), "{}: {}", canary.name(), broken.what);
        let (shorter, _) = shrink::shrink(&plan, broken.promise, 30);
        let again = run(&shorter, false).verdict.broken.map(|broken| broken.promise);
        assert_eq!(again, Some(broken.promise), "{}: what is shorter breaks it, too", canary.name());
        assert!(shorter.steps.len() <= plan.steps.len());
    }
}
