//! Each part of a server: one with it against the same without it.

use super::*;

/// The usual costs without the parts that are tested here.
fn plain() -> CostSpec {
    CostSpec { tail: None, serial: None, back_end: None, ..costs() }
}

fn server_of(workload: WorkloadSpec, costs: CostSpec) -> Server {
    let platform = PlatformSpec::load("low-end").expect("a preset");
    Server::new(platform, workload, costs).expect("it makes sense")
}

fn spc_1(costs: CostSpec) -> Server {
    server_of(WorkloadSpec::load("spc-1").expect("a preset"), costs)
}

#[test]
fn only_long_requests_are_preempted() {
    let tail = TailSpec { clients_percent: 1.0, from: millis(3), to: millis(5) };
    let (without, with) = (spc_1(plain()), spc_1(CostSpec { tail: Some(tail), ..plain() }));
    let half = load(without.capacity() / 2.0, 10);
    let percent = |outcome: &ServerOutcome| outcome.returns.preempted as f64 * 100.0 / outcome.all.answered() as f64;
    let (without, with) = (run(&without, "baseline", &half), run(&with, "baseline", &half));
    assert!(percent(&without) < 0.1, "{}", percent(&without));
    // Slices are at most 2 ms, and at least 667 us in LQ, where they go on.
    assert!((0.9..8.0).contains(&percent(&with)), "{}", percent(&with));
}

#[test]
fn one_block_reads_wait_for_the_disk_once() {
    let workload = |single_block_percent: f64| {
        let text = format!(
            "objects = 10\n[[operation]]\nname = \"read\"\nshare = 1.0\nkind = \"read\"\nsizes = [[\"4KiB\", 1.0]]\n\
             misses_percent = [50.0, 0.0]\nsingle_block_percent = {single_block_percent:?}\n"
        );
        WorkloadSpec::parse("reads", &text).expect("it makes sense")
    };
    let outcome = |percent: f64| run(&server_of(workload(percent), plain()), "baseline", &load(5_000.0, 20));
    let (never, half, always) = (outcome(0.0), outcome(50.0), outcome(100.0));
    assert!((never.restart_percent()[1] - 50.0).abs() < 2.0, "{:?}", never.restart_percent());
    assert!((half.restart_percent()[1] - 25.0).abs() < 2.0, "{:?}", half.restart_percent());
    assert_eq!(always.returns.requests[1..], [0, 0, 0]);
    let mean = |outcome: &ServerOutcome| outcome.mean_seconds().expect("requests were answered");
    // The restart is saved, the disk is not.
    assert!((0.9..1.1).contains(&(mean(&always) / mean(&never))), "{} {}", mean(&always), mean(&never));
    assert!(always.utilisation < never.utilisation);
}

#[test]
fn workers_stop_in_serial_part_of_window() {
    let serial = |micros| {
        let length = Duration::new(Nanos::from_micros(micros));
        spc_1(CostSpec { serial: Some(crate::sim::SerialSpec { window: millis(2), length }), ..plain() })
    };
    let plain = spc_1(plain());
    assert!((serial(500).capacity() / plain.capacity() - 0.75).abs() < 1e-9);
    let rate = plain.capacity() * 0.6;
    let outcomes = [&plain, &serial(200), &serial(500)].map(|server| run(server, "baseline", &load(rate, 10)));
    let [none, some, more] = outcomes.map(|outcome| outcome.mean_seconds().expect("requests were answered"));
    assert!(none < some && some < more, "{none} {some} {more}");
}

#[test]
fn writes_wait_for_the_servers_late_operations() {
    let gated = |within: u64| {
        let cost = WorkCost { base: Duration::new(Nanos::from_micros(150)), per_kib: Duration::default() };
        let back_end = BackEndSpec { operations: 400, cost, regions: 8, within: millis(within) };
        spc_1(CostSpec { back_end: Some(back_end), ..plain() })
    };
    let (strict, patient) = (gated(0), gated(900));
    let half = load(strict.capacity() / 2.0, 10);
    assert!(run(&strict, "baseline", &half).returns.own_work > 100);
    assert_eq!(run(&patient, "baseline", &half).returns.own_work, 0);
}

#[test]
fn operation_with_deadline_goes_first() {
    let mean = |deadline: &str| {
        let operation = |name: &str, deadline: &str| {
            format!(
                "[[operation]]\nname = \"{name}\"\nshare = 1.0\nkind = \"read\"\nsizes = [[\"4KiB\", 1.0]]\n{deadline}\n"
            )
        };
        let text = format!("objects = 10\n{}{}", operation("one", deadline), operation("other", ""));
        let server = server_of(WorkloadSpec::parse("reads", &text).expect("it makes sense"), plain());
        let outcome = run(&server, "baseline", &load(server.capacity() * 0.9, 10));
        outcome.by_operation[0].1.mean_seconds().expect("requests were answered")
    };
    assert!(mean("deadline = \"1ms\"") < mean("") / 2.0, "{} {}", mean("deadline = \"1ms\""), mean(""));
}

#[test]
fn few_objects_make_requests_wait_for_locks() {
    let returned = |objects: u32| {
        let workload = WorkloadSpec { objects, ..WorkloadSpec::load("spc-1").expect("a preset") };
        100.0 - run(&server_of(workload, plain()), "baseline", &load(15_000.0, 3)).restart_percent()[0]
    };
    assert!(returned(20) > returned(100_000) + 1.0, "{} {}", returned(20), returned(100_000));
}

#[test]
fn reads_wait_for_memory_where_there_is_little() {
    let outcome = |read_buffers: u64| {
        let mut platform = PlatformSpec::load("mid-range").expect("a preset");
        (platform.read_buffers, platform.flash_cache) = (ioweir_config::Size(read_buffers), None);
        platform.disks.access = millis(50);
        let workload = WorkloadSpec::load("vda").expect("a preset");
        let server = Server::new(platform, workload, costs()).expect("it makes sense");
        run(&server, "baseline", &load(server.capacity() * 0.6, 5))
    };
    let [little, much] = [16 << 20, 16 << 30].map(outcome);
    assert!(little.restart_percent()[3] > much.restart_percent()[3] + 0.1, "{:?} {:?}", little.returns, much.returns);
}
