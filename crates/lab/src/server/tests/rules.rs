//! Rules that hold in every run.

use ioweir_core::cores::SCHEDULES;

use super::*;
use ioweir_config::Size;

#[test]
fn every_schedule_keeps_laws_on_every_platform() {
    for platform in PLATFORMS {
        for workload in WORKLOADS {
            let server = server(platform.name, workload.name);
            let half = load(server.capacity() / 2.0, 60);
            for schedule in SCHEDULES.iter().map(|row| row.name).chain([ORACLE]) {
                let outcome = run(&server, schedule, &ServerLoad { warm_up: Nanos::from_millis(10), ..half });
                assert!(outcome.all.time.len() > 100, "{schedule} on {}", platform.name);
                assert!(!outcome.saturated, "{schedule} on {} under {}", platform.name, workload.name);
            }
        }
    }
}

#[test]
fn seed_determines_the_outcome() {
    let server = server("low-end", "vdi");
    let shown = |seed| format!("{:?}", run(&server, "combo", &ServerLoad { seed, ..load(20_000.0, 300) }));
    assert_eq!(shown(1), shown(1));
    assert_ne!(shown(1), shown(2));
}

#[test]
fn every_schedule_sees_the_same_requests() {
    let server = server("mid-range", "spc-1");
    let seen = |schedule| {
        let outcome = run(&server, schedule, &load(50_000.0, 300));
        outcome.offered_per_second.to_bits()
    };
    assert_eq!(seen("baseline"), seen("combo"));
    assert_eq!(seen("baseline"), seen(ORACLE));
}

#[test]
fn restart_counts_are_those_of_table_2() {
    let table = [
        ("spc-1", [80.67, 18.38, 0.95, 0.007]),
        ("database", [89.94, 6.47, 2.64, 0.96]),
        ("swbuild", [86.18, 3.45, 1.69, 8.68]),
        ("vda", [92.19, 4.58, 1.65, 1.58]),
        ("vdi", [88.54, 5.73, 4.41, 1.32]),
    ];
    for (workload, shares) in table {
        let server = server("mid-range", workload);
        let outcome = run(&server, "baseline", &load(server.capacity() * 0.5, 2_000));
        for (seen, expected) in outcome.restart_percent().into_iter().zip(shares) {
            let tolerance = f64::max(expected / 10.0, 0.35);
            assert!((seen - expected).abs() < tolerance, "{workload}: {:?}", outcome.restart_percent());
        }
        assert!(outcome.returns.disk > outcome.returns.lock);
    }
}

#[test]
fn log_never_overruns_and_writes_wait() {
    let platform = PlatformSpec { nvram: Size(8 << 20), ..PlatformSpec::load("low-end").expect("a preset") };
    let workload = WorkloadSpec::load("vda").expect("a preset");
    let mut costs = CostSpec::usual().expect("they make sense");
    costs.flush.operations = 20;
    let server = Server::new(platform, workload, costs).expect("it makes sense");
    for schedule in ["baseline", "combo", "adaptive"] {
        let outcome = run(&server, schedule, &load(10_000.0, 1_000));
        assert!(outcome.log_fill_max > 0.9 && outcome.log_fill_max <= 1.0, "{schedule}: {}", outcome.log_fill_max);
        assert!(outcome.returns.log > 100, "{schedule}: {:?}", outcome.returns);
        assert!(outcome.consistency_points > 10);
    }
}

#[test]
fn reads_wait_for_memory_where_there_is_little() {
    let mut platform = PlatformSpec::load("mid-range").expect("a preset");
    (platform.read_buffers, platform.flash_cache) = (Size(16 << 20), None);
    platform.disks.access = ioweir_config::Duration::new(Nanos(50_000_000));
    let workload = WorkloadSpec::load("vda").expect("a preset");
    let server = Server::new(platform, workload, CostSpec::usual().expect("they make sense")).expect("it makes sense");
    let outcome = run(&server, "baseline", &load(server.capacity() * 0.8, 500));
    assert!(outcome.returns.memory > 10, "{:?}", outcome.returns);
}

#[test]
fn few_objects_make_requests_wait_for_locks() {
    let workload = WorkloadSpec { objects: 20, ..WorkloadSpec::load("spc-1").expect("a preset") };
    let platform = PlatformSpec::load("mid-range").expect("a preset");
    let server = Server::new(platform, workload, CostSpec::usual().expect("they make sense")).expect("it makes sense");
    let outcome = run(&server, "baseline", &load(60_000.0, 300));
    assert!(outcome.returns.lock > 1_000, "{:?}", outcome.returns);
}

#[test]
fn saturating_load_is_reported_with_backlog() {
    let server = server("low-end", "spc-1");
    for factor in [1.5, 10.0, 1_000.0] {
        let outcome = run(&server, "baseline", &load(server.capacity() * factor, 3_600_000 / 2));
        assert!(outcome.saturated);
        assert!(outcome.backlog > BACKLOG_MAX / 2, "{}", outcome.backlog);
        assert!(outcome.simulated < 1_000_000, "{} requests were simulated", outcome.simulated);
    }
}

#[test]
fn no_static_schedule_beats_the_oracle_under_pressure() {
    let server = server("mid-range", "spc-1");
    let pressed = load(server.capacity() * 0.93, 1_400);
    let mean = |schedule| run(&server, schedule, &pressed).mean_seconds().expect("requests were answered");
    let oracle = mean(ORACLE);
    for schedule in ["baseline", "sord", "qats", "combo", "np-to-hq"] {
        assert!(oracle <= mean(schedule), "{schedule}");
    }
}

#[test]
fn peak_is_highest_steady_load_within_limit() {
    let server = server("low-end", "spc-1");
    let length = RunLength { warm_up: 2, measured: 8 };
    let baseline = "baseline".parse().expect("a schedule");
    let peak = peak(&server, &baseline, RunLength { measured: 4, ..length }, length, 2).expect("it is found");
    assert!(peak > 0.8 * server.capacity() && peak < 1.02 * server.capacity(), "{peak} of {}", server.capacity());
    let runs = |rate| repeated(&server, &baseline, length, rate, 2).expect("it runs");
    let mean = |runs: &[ServerOutcome]| {
        runs.iter().map(|run| run.mean_seconds().expect("requests were answered")).sum::<f64>() / runs.len() as f64
    };
    let (at, above) = (runs(peak), runs(peak * 1.02));
    let is_accepted = |runs: &[ServerOutcome]| stationarity(runs, 0.03).is_steady && mean(runs) <= 0.03;
    assert!(is_accepted(&at), "{} {:?}", mean(&at), stationarity(&at, 0.03));
    assert!(!is_accepted(&above), "{} {:?}", mean(&above), stationarity(&above, 0.03));
}

#[test]
fn load_above_capacity_is_soon_unsteady() {
    let server = server("low-end", "spc-1");
    let length = RunLength { warm_up: 1, measured: 6 };
    let runs = |share: f64| {
        let baseline = "baseline".parse().expect("a schedule");
        repeated(&server, &baseline, length, server.capacity() * share, 2).expect("it runs")
    };
    let (light, heavy) = (runs(0.6), runs(1.03));
    assert_eq!(light[0].batches.len(), 6);
    let steady = |runs: &[ServerOutcome]| stationarity(runs, server.limit_seconds());
    assert!(steady(&light).is_steady, "{:?}", steady(&light));
    assert!(heavy.iter().all(|run| !run.saturated), "its backlog is still small");
    assert!(!steady(&heavy).is_steady, "{:?}", steady(&heavy));
}
