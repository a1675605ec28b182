//! Rules of simulated worlds: the same seed gives the same bytes, no promise is broken, and each canary is found.

use ioweir_core::Nanos;
use ioweir_serve::nbd::Replies;
use ioweir_world::client::Flood;
use ioweir_world::disk::Trouble;
use ioweir_world::{Act, Backing, Canary, Clock, End, Order, Plan, Promise, Step, run, shrink};

/// The seeds of every run of the tests.
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

/// Whether a world has the part that a canary breaks.
fn has_it(canary: Canary, plan: &Plan) -> bool {
    match canary {
        Canary::OtherReservations | Canary::StoppedClock => plan.spec.contains("reservation"),
        Canary::OtherIdleDepth => plan.spec.contains("idle_depth"),
        Canary::OtherPeriod => plan.spec.contains("scrub"),
        Canary::HeardCopies => matches!(plan.backing, Backing::Cached | Backing::CheckedCopies),
        Canary::UnwipedVolume | Canary::LostVolume => plan.extra.as_ref().is_some_and(|extra| extra.has_volumes),
        Canary::SharedStall => {
            plan.extra.is_some()
                && plan.steps.iter().any(|step| matches!(step.act, Act::Stall(1, span) if span.0 > 60_000_000_000))
        }
        _ => true,
    }
}

#[test]
fn each_canary_is_found_by_its_promises_checker() {
    for canary in Canary::ALL {
        let plans = (1..).map(Plan::new).filter(|plan| has_it(canary, plan)).take(400);
        let broken = { plans }.find_map(|plan| {
            let plan = Plan { canary: Some(canary), ..plan };
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

/// A world with a device that a scrub reads completely in a quarter of an hour.
fn scrubbed(backing: Backing, steps: Vec<Step>) -> Plan {
    let is_one = |plan: &Plan| plan.backing == backing && plan.spec.contains("every = \"900s\"");
    let plan = (1..).map(Plan::new).find(is_one).expect("there is one among all seeds");
    Plan { steps, ..plan }
}

const fn after(seconds: u64, act: Act) -> Step {
    Step { after: Nanos::from_seconds(seconds), act }
}

#[test]
fn healed_copies_reach_no_reader_however_many() {
    let flood = |reads| Flood { count: 150, depth: 8, reads, sectors: 0, thinks: Nanos::ZERO };
    let mut steps = Vec::new();
    for client in 1..5 {
        steps.push(after(0, Act::Connect(client, 0, Replies::Simple)));
        steps.push(after(0, Act::Flood(client, flood(100))));
    }
    for trouble in [
        Trouble { rot_per_million: 500_000, ..Trouble::default() },
        Trouble { lost_per_million: 500_000, ..Trouble::default() },
    ] {
        steps.push(after(1, Act::Trouble(1, trouble)));
        steps.extend((1..5).map(|client| after(0, Act::Flood(client, flood(90)))));
    }
    steps.push(after(10, Act::Rest));
    let outcome = run(&scrubbed(Backing::CheckedCopies, steps), false);
    assert_eq!(outcome.verdict.broken, None);
    assert!(outcome.operations.1 > 100, "{:?}", outcome.operations);
}

#[test]
fn scrubs_continue_where_devices_answer_at_once() {
    // The scrub knows the blocks of the fast tier and the gaps between parts without asking, so no answer wakes an idle server.
    for backing in [Backing::Placed, Backing::Joined] {
        let outcome = run(&scrubbed(backing, vec![after(4_000, Act::Rest)]), false);
        assert_eq!(outcome.verdict.broken, None, "{}", backing.name());
    }
}

#[test]
fn clocks_put_back_during_a_scrub_delay_none() {
    // The second pass is slow, so that the server dies meanwhile; the next server continues it.
    let slowly = Order::Service(599 << 8);
    let plan = scrubbed(
        Backing::Disk,
        vec![
            after(890, Act::Order(slowly)),
            after(20, Act::SetClock(Clock::Back, Nanos::from_seconds(3_000_000))),
            after(1, Act::End(End::Killed, Nanos::ZERO)),
            after(4_000, Act::Rest),
        ],
    );
    let outcome = run(&plan, false);
    assert_eq!(outcome.verdict.broken, None);
    assert!(outcome.verdict.checks[Promise::Services as usize] > 20, "{:?}", outcome.verdict.checks);
}

/// The longest read of a device while the engine of another one stands still for 1.5 s, with or without a change that both have to make.
fn longest_read_beside_a_stall(changes: bool, canary: Option<Canary>) -> Nanos {
    let is_simple = |plan: &Plan| {
        plan.backing == Backing::Disk
            && plan.extra.as_ref().is_some_and(|extra| !extra.has_volumes)
            && !plan.spec.contains("limit =")
    };
    let plan = (1..).map(Plan::new).find(is_simple).expect("there is one among all seeds");
    let flood = Flood { count: 4_000, depth: 4, reads: 100, sectors: 8, thinks: Nanos::ZERO };
    let mut steps = vec![
        after(0, Act::Order(Order::Extra(0))),
        after(1, Act::Connect(0, 0, Replies::Simple)),
        after(0, Act::Flood(0, flood)),
        after(0, Act::Stall(1, Nanos::from_millis(1_500))),
    ];
    if changes {
        // This order sets a timeout of the server.
        steps.push(after(0, Act::Order(Order::Change(3 << 40))));
    }
    steps.push(after(2, Act::Rest));
    let service = (Nanos::from_millis(1), Nanos::from_millis(2));
    let outcome = run(&Plan { steps, service, canary, short_per_million: 0, ..plan }, true);
    assert_eq!(outcome.verdict.broken, None);
    let done = outcome.log.lines().find(|line| line.contains("Set(") && line.contains("): Ok("));
    assert_eq!(done.is_some(), changes, "{done:?}");
    if canary.is_none() {
        let stalled = outcome.log.lines().skip_while(|line| !line.contains(" stall "));
        let waiting = stalled.take_while(|line| !line.contains("Set("));
        assert!(waiting.filter(|line| line.contains(" answer ")).count() > 100, "the change waits, and reads do not");
    }
    outcome.longest_reads[0]
}

#[test]
fn changes_wait_for_stalled_engines_without_others() {
    let (without, with) = (longest_read_beside_a_stall(false, None), longest_read_beside_a_stall(true, None));
    assert!(with.0 * 10 <= without.0 * 12, "{with} with a change, {without} without");
    let shared = longest_read_beside_a_stall(true, Some(Canary::SharedStall));
    assert!(shared >= Nanos::from_millis(1_400), "{shared} where all engines stand still");
}

#[test]
fn exports_that_stay_keep_their_clients() {
    let is_simple = |plan: &Plan| plan.backing == Backing::Disk && plan.extra.is_some();
    let plan = (1..).map(Plan::new).find(is_simple).expect("there is one among all seeds");
    // Both orders remove the export of the client, the first one with its client. Each engine stands still at another time.
    for order in [0, 513] {
        let steps = vec![
            after(0, Act::Connect(3, 2, Replies::Simple)),
            after(0, Act::Order(Order::Extra(0))),
            after(1, Act::Stall(1, Nanos::from_millis(1_500))),
            after(0, Act::Order(Order::Export(order))),
            after(0, Act::Stall(0, Nanos::from_seconds(100))),
            after(1, Act::Rest),
        ];
        let outcome = run(&Plan { steps, short_per_million: 0, ..plan.clone() }, true);
        assert_eq!(outcome.verdict.broken, None);
        let refused = outcome.log.lines().any(|line| line.contains(" RemoveExport(") && line.contains("): Err("));
        assert!(refused, "{}", outcome.log);
    }
}

#[test]
fn operators_add_grow_and_remove_devices_exports_volumes() {
    let mut left = vec![
        "Set",
        "AddExport",
        "RemoveExport",
        "AddDevice",
        "ResizeDevice",
        "RemoveDevice",
        "AddVolume",
        "ResizeVolume",
        "RemoveVolume",
    ];
    for plan in (1..400).map(Plan::new).filter(|plan| plan.extra.is_some()) {
        let outcome = run(&plan, true);
        assert_eq!(outcome.verdict.broken, None, "seed {}", plan.seed);
        let is_done = |wanted: &str| {
            let (asked, done) = (format!(" {wanted}("), "): Ok(");
            outcome.log.lines().any(|line| line.contains(&asked) && line.contains(done))
        };
        left.retain(|wanted| !is_done(wanted));
        if left.is_empty() {
            return;
        }
    }
    panic!("{left:?} is never done");
}
