//! Rules that hold in every run.

use ioweir_config::Size;
use ioweir_core::cores::SCHEDULES;

use super::*;

#[test]
fn every_schedule_serves_every_platform() {
    for platform in PLATFORMS {
        for workload in WORKLOADS {
            let server = server(platform.name, workload.name);
            let half = ServerLoad { warm_up: 0, ..load(server.capacity() / 4.0, 1) };
            for schedule in SCHEDULES {
                let outcome = run(&server, schedule.name, &half);
                let expected = half.requests_per_second / 10.0;
                let answered = outcome.all.answered() as f64;
                let name = format!("{} on {} under {}", schedule.name, platform.name, workload.name);
                assert!((answered / expected - 1.0).abs() < 0.1, "{name}: {answered}, not {expected}");
                assert!(!outcome.saturated, "{name}");
            }
        }
    }
}

#[test]
fn seed_determines_the_outcome() {
    let server = server("low-end", "vdi");
    let shown = |seed| format!("{:?}", run(&server, "combo", &ServerLoad { seed, ..load(20_000.0, 3) }));
    assert_eq!(shown(1), shown(1));
    assert_ne!(shown(1), shown(2));
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
        let seen = run(&server, "baseline", &load(server.capacity() * 0.5, 15)).restart_percent();
        for (seen_share, expected) in seen.into_iter().zip(shares) {
            let tolerance = f64::max(expected / 10.0, 0.35);
            assert!((seen_share - expected).abs() < tolerance, "{workload}: {seen:?}");
        }
    }
}

#[test]
fn log_never_overruns_and_writes_wait() {
    let platform = PlatformSpec { nvram: Size(8 << 20), ..PlatformSpec::load("low-end").expect("a preset") };
    let mut costs = costs();
    costs.flush.operations = 20;
    let server = Server::new(platform, WorkloadSpec::load("vda").expect("a preset"), costs).expect("it makes sense");
    for schedule in ["baseline", "combo", "adaptive"] {
        let outcome = run(&server, schedule, &load(10_000.0, 5));
        assert!(outcome.log_fill_max > 0.9 && outcome.log_fill_max <= 1.0, "{schedule}: {}", outcome.log_fill_max);
        assert!(outcome.returns.log > 100, "{schedule}: {:?}", outcome.returns);
        assert!(outcome.points > 10);
    }
}

#[test]
fn saturating_load_is_reported() {
    let server = server("low-end", "spc-1");
    let steady = |factor: f64| {
        let outcome = run(&server, "baseline", &load(server.capacity() * factor, 6));
        (outcome.saturated, stationarity(&[outcome], server.limit_seconds()).is_steady)
    };
    assert_eq!([0.7, 1.2, 20.0].map(steady), [(false, true), (false, false), (true, false)]);
}

/// Erlang's C: the share of arrivals that wait.
fn erlang_c(servers: u32, offered: f64) -> f64 {
    let blocked =
        (1..=servers).fold(1.0, |blocked, server| offered * blocked / (f64::from(server) + offered * blocked));
    let utilisation = offered / f64::from(servers);
    blocked / (1.0 - utilisation * (1.0 - blocked))
}

#[test]
fn pool_with_one_queue_is_m_m_c() {
    // Costs without turns, network, swings or consistency points: service times are exponential.
    let text = r#"
        turn = "0us"
        slow_path = "0us"
        spread_percent = 100.0
        network = "0us"
        read = { base = "100us" }
        write = { base = "50us" }
        attributes = { base = "50us" }
        restart = { base = "50us" }
        prefetch = { bytes = "1MiB", cost = { base = "0us" } }
        flush = { interval = "1000s", operations = 1, log_record = "1B", cost = { base = "0us" } }
        swing = { amplitude_percent = 0.0, period = "1s" }
    "#;
    let costs = CostSpec::parse("bare", text).expect("they make sense");
    let text = "objects = 1\n[[operation]]\nname = \"read\"\nshare = 1.0\nkind = \"read\"\n";
    let workload = WorkloadSpec::parse("reads", text).expect("it makes sense");
    for (workers, utilisation) in [(1, 0.6), (4, 0.8), (11, 0.9)] {
        let platform = PlatformSpec { workers: Some(workers), ..PlatformSpec::load("mid-range").expect("a preset") };
        let server = Server::new(platform, workload.clone(), costs.clone()).expect("it makes sense");
        let (service, rate) = (100e-6, utilisation * f64::from(workers) / 100e-6);
        assert!((server.capacity() * utilisation / rate - 1.0).abs() < 1e-9);
        let outcome = run(&server, "all-to-hq:window=1s", &load(rate, (700_000.0 / rate) as u32));
        let wait =
            erlang_c(workers, utilisation * f64::from(workers)) * service / (f64::from(workers) * (1.0 - utilisation));
        let mean = outcome.mean_seconds().expect("requests were answered");
        let name = format!("M/M/{workers}: {mean}, in closed form {}", service + wait);
        assert!((mean / (service + wait) - 1.0).abs() < 0.02, "{name}");
        assert!((outcome.utilisation / utilisation - 1.0).abs() < 0.01, "{}", outcome.utilisation);
    }
}
