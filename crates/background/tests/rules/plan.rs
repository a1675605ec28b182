//! Plans against brute force on small cases, and hand-worked ones.

use ioweir_background::plan::{Ahead, Demand, Horizon, Ledger, Solution, System, Terms, bound, decide, solve};
use ioweir_core::Nanos;
use ioweir_core::background::{Batch, DebtQueue, Pool, SERVICES_COUNT, Service};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const BIN: Nanos = Nanos::from_seconds(600);

/// Services whose blocks cost one operation each; a core does one operation and serves one request in a bin.
fn system(cores: u32, services: &[(Service, u32)]) -> System {
    let mut terms: [Option<Terms>; SERVICES_COUNT] = [const { None }; SERVICES_COUNT];
    for (service, tied_per_mille) in services {
        let mut settings = service.row().defaults();
        (settings.cost_per_mille, settings.tied_per_mille) = (1000, *tied_per_mille);
        terms[*service as usize] = Some(Terms {
            settings,
            share_per_mille: 1000,
            every: Nanos::ZERO,
            owed: vec![],
            bin_blocks_max: u64::MAX,
            open: vec![],
        });
    }
    System { bin: BIN, cores, core_requests: 1, core_work: 1000, services: terms, resident_cores: 0, day_bin: 0 }
}

/// A small problem: the debts that arise in each bin for each service, and the foreground's demand.
#[derive(Clone, Debug)]
struct Small {
    cores: u32,
    /// For each bin: requests, blocks written for good, and debts (dense, thin, with a deadline).
    bins: Vec<(u64, u64, [u64; 3])>,
    /// Bins from the rise of a debt until it is due, its own included.
    deadline_bins: u64,
    free: u64,
    floor: u64,
}

const KINDS: [(Service, u32); 3] =
    [(Service::VolumeDelete, 3000), (Service::DeepCompression, 1000), (Service::Rebuild, 0)];

fn small() -> impl Strategy<Value = Small> {
    let debts = (0..4_u64, 0..3_u64, 0..3_u64).prop_map(|(dense, thin, due)| [dense, thin, due]);
    let bin = (0..4_u64, 0..6_u64, debts);
    (1..3_u32, prop::collection::vec(bin, 1..5), 1..4_u64, 0..12_u64, 0..4_u64)
        .prop_map(|(cores, bins, deadline_bins, free, floor)| Small { cores, bins, deadline_bins, free, floor })
}

impl Small {
    fn system(&self) -> System {
        let mut system = system(self.cores, &KINDS);
        for (kind, (service, _)) in KINDS.iter().enumerate() {
            let Some(terms) = &mut system.services[*service as usize] else { continue };
            let owed =
                self.bins.iter().enumerate().map(|(bin, (_, _, debts))| (Nanos(BIN.0 * bin as u64), debts[kind]));
            // Only the named debts count: brute force knows no writes that leave debts.
            (terms.owed, terms.share_per_mille) = (owed.collect(), 0);
            if *service == Service::Rebuild {
                terms.settings.deadline = Nanos(BIN.0 * self.deadline_bins);
            }
        }
        system
    }

    fn pool(&self) -> Pool {
        Pool { blocks: 100, used_blocks: 100 - self.free, floor_blocks: self.floor, alarm_blocks: self.floor }
    }

    fn demand(&self) -> Vec<Demand> {
        let demand = |bin: &(u64, u64, _)| Demand {
            requests: bin.0,
            written_blocks: bin.1,
            new_blocks: bin.1,
            unmapped_blocks: 0,
        };
        self.bins.iter().map(demand).collect()
    }

    fn missing(&self, used: u64) -> u64 {
        (used + self.floor).saturating_sub(100)
    }
}

/// The results of brute force: the least used at the end of each bin over all plans, and whether some plan keeps everything.
struct Truth {
    least_used: Vec<u64>,
    keeps_floor: bool,
    keeps_all: bool,
    meets_deadlines: bool,
    /// The fewest bins that end with waiting requests, and the fewest delayed requests, over the plans that keep everything.
    least_violated: usize,
    least_delayed: u64,
}

/// Tries every way of giving cores to debts in every bin.
fn brute(small: &Small) -> Truth {
    let mut truth = Truth {
        least_used: vec![u64::MAX; small.bins.len()],
        keeps_floor: false,
        keeps_all: false,
        meets_deadlines: false,
        least_violated: usize::MAX,
        least_delayed: u64::MAX,
    };
    let foreground = Foreground { queued: 0, violated: 0, delayed: 0 };
    let start = Moment { bin: 0, owed: [0; 3], used: 100 - small.free, kept: [true, true], foreground };
    walk(small, start, &mut [0; 8], &mut truth);
    truth
}

/// How far one way of giving cores has come, and whether it has kept the floor and the deadlines.
#[derive(Clone, Copy)]
struct Moment {
    bin: usize,
    owed: [u64; 3],
    used: u64,
    kept: [bool; 2],
    foreground: Foreground,
}

#[derive(Clone, Copy)]
struct Foreground {
    queued: u64,
    violated: usize,
    delayed: u64,
}

impl Foreground {
    /// The next bin, in which `requests` come and `cores` serve one each.
    fn next(self, requests: u64, cores: u64) -> Self {
        let queued = (self.queued + requests).saturating_sub(cores);
        let delayed = self.delayed + requests.saturating_sub(cores);
        Self { queued, violated: self.violated + usize::from(queued > 0), delayed }
    }
}

fn walk(small: &Small, moment: Moment, paid_due: &mut [u64; 8], truth: &mut Truth) {
    let Moment { bin, owed, used, kept: [floor, deadlines], foreground } = moment;
    if bin == small.bins.len() {
        truth.keeps_floor |= floor;
        truth.meets_deadlines |= deadlines;
        truth.keeps_all |= floor && deadlines;
        if floor && deadlines {
            truth.least_violated = truth.least_violated.min(foreground.violated);
            truth.least_delayed = truth.least_delayed.min(foreground.delayed);
        }
        return;
    }
    let (requests, written, debts) = small.bins[bin];
    let owed = [0, 1, 2].map(|kind| owed[kind] + debts[kind]);
    let cores = u64::from(small.cores);
    for dense in 0..=cores.min(owed[0]) {
        for thin in 0..=(cores - dense).min(owed[1]) {
            for due in 0..=(cores - dense - thin).min(owed[2]) {
                let used = (used + written).saturating_sub(3 * dense).saturating_sub(thin);
                truth.least_used[bin] = truth.least_used[bin].min(used);
                paid_due[bin] = due;
                let paid: u64 = paid_due[..=bin].iter().sum();
                // Debts whose last bin is this one, by their age.
                let last = (bin as u64 + 1).saturating_sub(small.deadline_bins) as usize;
                let must: u64 = small.bins[..=bin]
                    .iter()
                    .take(if bin as u64 + 1 >= small.deadline_bins { last + 1 } else { 0 })
                    .map(|bin| bin.2[2])
                    .sum();
                let kept = [floor && small.missing(used) == 0, deadlines && paid >= must];
                let owed = [owed[0] - dense, owed[1] - thin, owed[2] - due];
                let foreground = foreground.next(requests, cores - dense - thin - due);
                walk(small, Moment { bin: bin + 1, owed, used, kept, foreground }, paid_due, truth);
            }
        }
    }
}

fn solve_small(small: &Small) -> Solution {
    let system = small.system();
    let ledger = Ledger::new(small.pool());
    let demand = small.demand();
    solve(&Horizon::new(&system, &ledger, &demand))
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(18),
        failure_persistence: None,
        ..ProptestConfig::with_cases(20_000)
    })]

    #[test]
    fn a_plan_holds_the_floor_until_nothing_can(small in small()) {
        let truth = brute(&small);
        let solution = solve_small(&small);
        let mut is_conceded = false;
        for (bin, course) in solution.course.iter().enumerate() {
            prop_assert!(course.foreground_cores + course.background_cores <= small.cores, "bin {bin}: {course:?}");
            let missing = small.missing(course.used_blocks);
            is_conceded |= small.missing(truth.least_used[bin]) > 0;
            prop_assert!(missing == 0 || is_conceded, "bin {bin}: {missing} blocks are missing\n{solution:?}");
            prop_assert_eq!(missing > 0, solution.below_floor.contains(&bin));
        }
        let late = solution.course.iter().any(|course| course.late_blocks > 0);
        if !truth.meets_deadlines {
            prop_assert!(late && !solution.gave_up.is_empty(), "a deadline cannot be met, and the plan says so\n{solution:?}");
        }
        prop_assert!(!late || !solution.gave_up.is_empty(), "what is late was given up\n{solution:?}");
        let are_alike = (0..2).any(|kind| small.bins.iter().all(|bin| bin.2[kind] == 0));
        prop_assert!(!(truth.keeps_all && are_alike && late), "every deadline can be met\n{solution:?}");
        prop_assert!(!truth.keeps_floor || solution.below_floor.is_empty());
    }

    #[test]
    fn no_schedule_harms_less_than_the_bound(small in small()) {
        let truth = brute(&small);
        let least = bound(&small.system(), &Ledger::new(small.pool()), &small.demand());
        prop_assert!(least.violated_bins <= truth.least_violated, "{least:?}, {} bins", truth.least_violated);
        prop_assert!(least.delayed_requests <= truth.least_delayed, "{least:?}, {} requests", truth.least_delayed);
    }
}

#[test]
fn foreground_is_not_cut_without_need() {
    // In the second bin nothing holds the floor, and in the third it would take the core that a request wants.
    let bins = vec![(0, 0, [0, 0, 0]), (1, 8, [4, 0, 0]), (1, 0, [0, 0, 0])];
    let small = Small { cores: 1, bins, deadline_bins: 3, free: 5, floor: 2 };
    let solution = solve_small(&small);
    assert_eq!(solution.schedule.reserve_cores, [0, 0, 0]);
    assert_eq!(solution.below_floor, [1, 2]);
}

#[test]
fn a_scenario_is_averted_at_the_last_moment() {
    // Forty blocks that a bin of four cores frees, and the pool is short of them at the end of the third bin.
    let (system, mut demand) = day_of(&[(Service::VolumeDelete, 40, 0)]);
    demand.truncate(3);
    demand.fill(Demand { requests: 4, written_blocks: 0, new_blocks: 0, unmapped_blocks: 0 });
    let calm = demand.clone();
    demand[2].new_blocks = 40;
    let ledger = |used_blocks| Ledger::new(Pool { blocks: 1000, used_blocks, floor_blocks: 100, alarm_blocks: 100 });
    let decided = |used_blocks: u64, scenarios: Vec<Vec<Demand>>| {
        let ahead = Ahead { scenarios, ..Ahead::known(&calm) };
        decide(&system, &ledger(used_blocks), &ahead, Nanos::ZERO).reserve_units
    };
    assert_eq!(decided(900, vec![calm.clone(), demand.clone()]), 0, "the third bin suffices");
    assert_eq!(decided(900, vec![calm.clone(), demand[2..].to_vec()]), 4, "it is the third bin");
    assert_eq!(decided(890, vec![calm.clone(), demand[2..].to_vec()]), 3, "thirty blocks suffice");
    assert_eq!(decided(901, vec![calm.clone()]), 1, "a pool below its floor is brought above it");
    assert_eq!(decided(950, vec![calm.clone()]), 0, "nothing holds the floor");
}

#[test]
fn missed_room_and_deadline_are_both_reported() {
    // Two operations are due in a bin that has one, and writes take the room; a core works on.
    let bins = vec![(1, 2, [0, 0, 0]), (2, 4, [0, 0, 2]), (0, 1, [0, 0, 0])];
    let small = Small { cores: 1, bins, deadline_bins: 1, free: 7, floor: 2 };
    let solution = solve_small(&small);
    assert_eq!(
        (solution.below_floor.as_slice(), solution.gave_up.as_slice()),
        (&[1, 2][..], &[Service::Rebuild][..]),
        "{solution:?}"
    );
}

#[test]
fn ten_volumes_owe_ten_hours_of_writes() {
    let mut system = system(64, &[(Service::SnapshotDelete, 1000)]);
    if let Some(terms) = &mut system.services[Service::SnapshotDelete as usize] {
        terms.settings.retention = Nanos::from_seconds(3600);
        terms.every = Nanos::from_seconds(3600);
    }
    let mut queue = DebtQueue::new(8);
    // Ten like volumes: the system writes ten times what one does.
    for (bin, written) in [120_u64, 80, 0, 400, 37, 363, 999].into_iter().enumerate() {
        let demand = Demand { requests: 0, written_blocks: 10 * written, new_blocks: 10 * written, unmapped_blocks: 0 };
        system.debts(bin, &demand, 0).for_each(|(_, batch)| queue.incur(batch));
    }
    let batches: Vec<Batch> = queue.batches().copied().collect();
    let at =
        |hours: u64, blocks: u64| Batch { payable_at: Nanos::from_seconds(3600 * hours), due_at: Nanos::NEVER, blocks };
    assert_eq!(batches, [at(1, 10_000), at(2, 9_990)]);
}

/// A day of ten-minute bins for a system of four cores that do ten operations a bin each.
fn day_of(services: &[(Service, u64, u64)]) -> (System, Vec<Demand>) {
    let run: Vec<(Service, u32)> =
        services.iter().map(|(service, _, _)| (*service, service.row().tied_per_mille)).collect();
    let mut system = system(4, &run);
    system.core_work = 10_000;
    for (service, owed, deadline_bins) in services {
        let Some(terms) = &mut system.services[*service as usize] else { continue };
        terms.owed = if *owed > 0 { vec![(Nanos::ZERO, *owed)] } else { vec![] };
        if *deadline_bins > 0 {
            terms.settings.deadline = Nanos(BIN.0 * deadline_bins);
        }
    }
    (system, vec![Demand::default(); 144])
}

fn roomy() -> Pool {
    Pool { blocks: 1_000_000, used_blocks: 0, floor_blocks: 50_000, alarm_blocks: 100_000 }
}

#[test]
fn early_work_does_not_replace_due_work() {
    // The rebuild is done early in idle time; each bin's ten blocks to flush are due in their bin all the same.
    let (system, mut demand) = day_of(&[(Service::Flush, 0, 1), (Service::Rebuild, 1000, 144)]);
    // In the second half of the day the foreground wants all cores.
    demand[..72].fill(Demand { requests: 0, written_blocks: 10, new_blocks: 10, unmapped_blocks: 0 });
    demand[72..].fill(Demand { requests: 40, written_blocks: 10, new_blocks: 10, unmapped_blocks: 0 });
    let ledger = Ledger::new(roomy());
    let solution = solve(&Horizon::new(&system, &ledger, &demand));
    assert!(solution.gave_up.is_empty(), "{:?}", solution.gave_up);
    for course in &solution.course {
        assert_eq!((course.paid_blocks[Service::Flush as usize], course.late_blocks), (10, 0));
    }
    let rebuilt: u64 = solution.course.iter().map(|course| course.paid_blocks[Service::Rebuild as usize]).sum();
    assert_eq!(rebuilt, 1000);
}

#[test]
fn rebuild_takes_foreground_cores_at_last_moment() {
    let (system, mut demand) = day_of(&[(Service::Rebuild, 1440, 144)]);
    // The foreground wants all four cores all day.
    demand.fill(Demand { requests: 4, written_blocks: 0, new_blocks: 0, unmapped_blocks: 0 });
    let ledger = Ledger::new(roomy());
    let solution = solve(&Horizon::new(&system, &ledger, &demand));
    assert!(solution.course.iter().all(|course| course.late_blocks == 0));
    assert_eq!(solution.schedule.reserve_cores, [vec![0; 108], vec![4; 36]].concat());
}

#[test]
fn impossible_rebuild_is_given_up() {
    let (system, mut demand) = day_of(&[(Service::Rebuild, 144 * 40 + 1, 144)]);
    demand.fill(Demand { requests: 4, written_blocks: 0, new_blocks: 0, unmapped_blocks: 0 });
    let ledger = Ledger::new(roomy());
    let solution = solve(&Horizon::new(&system, &ledger, &demand));
    assert_eq!(solution.gave_up, [Service::Rebuild]);
    assert_eq!(solution.schedule.reserve_cores, vec![0; 144]);
}

#[test]
fn device_limit_makes_rebuild_start_early() {
    // The foreground wants no core until the second half of the day; the rebuild needs all of its bins at ten blocks each.
    let (mut system, mut demand) = day_of(&[(Service::Rebuild, 1400, 144), (Service::Analytics, 100, 0)]);
    if let Some(terms) = &mut system.services[Service::Rebuild as usize] {
        terms.bin_blocks_max = 10;
    }
    demand[..72].fill(Demand { requests: 4, written_blocks: 0, new_blocks: 0, unmapped_blocks: 0 });
    let ledger = Ledger::new(roomy());
    let solution = solve(&Horizon::new(&system, &ledger, &demand));
    let paid: Vec<u64> = solution.course.iter().map(|course| course.paid_blocks[Service::Rebuild as usize]).collect();
    assert!(solution.gave_up.is_empty() && paid.iter().all(|paid| *paid <= 10), "{paid:?}");
    assert_eq!(paid.iter().sum::<u64>(), 1400);
    // Where the device gives too little, the deadline is given up.
    if let Some(terms) = &mut system.services[Service::Rebuild as usize] {
        (terms.settings.deadline, terms.owed) = (Nanos(BIN.0 * 100), vec![(Nanos::ZERO, 1200)]);
    }
    let ledger = Ledger::new(roomy());
    let solution = solve(&Horizon::new(&system, &ledger, &demand));
    assert_eq!(solution.gave_up, [Service::Rebuild]);
}

#[test]
fn twelve_services_share_idle_cores_without_starving() {
    let all: Vec<(Service, u64, u64)> = Service::ALL.map(|service| (service, 20, 0)).to_vec();
    let (system, demand) = day_of(&all);
    let ledger = Ledger::new(roomy());
    let solution = solve(&Horizon::new(&system, &ledger, &demand));
    // A bin has room for forty operations: the first pays urgent debt, in the second every service has a turn, and after six all debt is
    // paid.
    let due_at_once = [Service::Flush as usize, Service::Replication as usize];
    assert!(due_at_once.iter().all(|at| solution.course[0].paid_blocks[*at] == 20));
    let second = solution.course[1].paid_blocks;
    let others = |at: &usize| !due_at_once.contains(at) && *at != Service::Scrub as usize;
    assert!((0..12).filter(others).all(|at| second[at] > 0), "{second:?}");
    let paid: u64 = solution.course[..6].iter().flat_map(|course| course.paid_blocks).sum();
    assert_eq!(paid, 240);
    assert!(solution.course.iter().all(|course| course.background_cores <= 4 && course.late_blocks == 0));
}

#[test]
fn full_pool_is_emptied_with_all_cores() {
    let (system, mut demand) = day_of(&[(Service::VolumeDelete, 400, 0)]);
    demand.fill(Demand { requests: 4, written_blocks: 0, new_blocks: 0, unmapped_blocks: 0 });
    let pool = Pool { blocks: 1000, used_blocks: 1000, floor_blocks: 100, alarm_blocks: 200 };
    let ledger = Ledger::new(pool);
    let solution = solve(&Horizon::new(&system, &ledger, &demand));
    // Forty blocks a bin: the third bin is the first that can end above the floor, and does.
    assert_eq!(solution.below_floor, [0, 1]);
    assert_eq!(solution.course[..3].iter().map(|course| course.used_blocks).collect::<Vec<_>>(), [980, 940, 900]);
}
