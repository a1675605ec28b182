//! Presets are valid servers; bad input is refused with its position and a hint.

use super::*;
use crate::run::RunError;

#[test]
fn every_preset_makes_sense() {
    for platform in PLATFORMS {
        assert!(PlatformSpec::load(platform.name).is_ok(), "{}", platform.name);
        assert!(!platform.sources.is_empty());
    }
    for workload in WORKLOADS {
        let spec = WorkloadSpec::load(workload.name).expect(workload.name);
        let sum: f64 = spec.operations.iter().map(|operation| operation.share).sum();
        assert!((sum - 100.0).abs() < 1e-9, "{}: shares in percent make {sum}", workload.name);
    }
    assert!(CostSpec::usual().is_ok());
}

#[test]
fn file_errors_have_their_place() {
    let platform = PLATFORMS[1].parameters;
    let error = |from: &str, to: &str| {
        let text = platform.replace(from, to);
        assert_ne!(text, platform, "{from} is there");
        PlatformSpec::parse("my.toml", &text).expect_err("it is wrong").to_string()
    };
    let cases = [
        error("cores = 12", "cores = 12\nworkers = 13"),
        error("cores = 12", "cores = 1"),
        error("cores = 12", "cores = 0"),
        error("cores = 12", "cores = 12\nworkers = 0"),
        error("nvram = \"4GiB\"", "nvram = \"4\""),
        error("nvram = \"4GiB\"", "nvram = \"0B\""),
        error("hits_percent = 75.0", "hits_percent = 160.0"),
        error("hits_percent = 75.0", "hits_percent = nan"),
        error("count = 281", "count = 0"),
        error("stripe", "stripes"),
    ];
    insta::assert_snapshot!(cases.join("\n---\n"));
}

#[test]
fn a_workload_that_makes_no_sense_is_refused() {
    let error = |text: &str| WorkloadSpec::parse("my.toml", text).expect_err("it is wrong").to_string();
    let operation = |rest: &str| format!("objects = 10\n[[operation]]\nname = \"a\"\nkind = \"read\"\n{rest}\n");
    let cases = [
        error("objects = 10\noperation = []"),
        error("objects = 0\n[[operation]]\nname = \"a\"\nkind = \"read\"\nshare = 1.0"),
        error(&operation("share = -1.0")),
        error(&operation("share = 0.0")),
        error(&operation("share = 1.0\nmisses_percent = [100.0]")),
        error(&operation("share = 1.0\nsizes = [[\"1GiB\", 1.0]]")),
        error(&operation("share = 1.0\ndeadline = \"0s\"")),
        error(&operation("share = 1.0").replace("read", "erase")),
    ];
    insta::assert_snapshot!(cases.join("\n---\n"));
}

#[test]
fn senseless_schedules_and_names_are_refused() {
    let run = |platform: &str, schedule: &str, requests_per_second: f64| {
        let platform = PlatformSpec::load(platform)?;
        let server = Server::new(platform, WorkloadSpec::load("spc-1")?, costs()).map_err(RunError::Spec)?;
        server.run(&schedule.parse().map_err(RunError::Scheduler)?, &load(requests_per_second, 1), &Silent)
    };
    let error = |platform: &str, schedule: &str, requests_per_second: f64| {
        let refused: Result<_, RunError> = run(platform, schedule, requests_per_second);
        refused.expect_err("it is wrong").to_string()
    };
    let cases = [
        error("mid", "baseline", 1e3),
        error("mid-range", "base", 1e3),
        error("mid-range", "baseline:hq-weight=0", 1e3),
        error("mid-range", "baseline:hq-weight=-1", 1e3),
        error("mid-range", "baseline:queue=4", 1e3),
    ];
    insta::assert_snapshot!(cases.join("\n---\n"));
}

#[test]
fn restart_that_is_longer_than_its_request_is_refused() {
    let text = COSTS.replace("[attributes]\nbase = \"71us\"", "[attributes]\nbase = \"62us\"");
    assert_ne!(text, COSTS);
    let error = CostSpec::parse("my.toml", &text).expect_err("it is wrong").to_string();
    assert!(error.contains("restart: takes longer than attributes"), "{error}");
}

#[test]
fn log_too_small_for_a_request_is_refused() {
    let platform =
        PlatformSpec { nvram: ioweir_config::Size(1 << 20), ..PlatformSpec::load("low-end").expect("a preset") };
    let text = "objects = 1\n[[operation]]\nname = \"a\"\nkind = \"write\"\nshare = 1.0\nsizes = [[\"512KiB\", 1.0]]\n";
    let workload = WorkloadSpec::parse("large", text).expect("it makes sense by itself");
    let mut costs = CostSpec::usual().expect("they make sense");
    costs.flush.log_percent = 100.0;
    let error = Server::new(platform, workload, costs).expect_err("it is refused");
    assert_eq!(error.problem, "nvram: half of 1MiB does not hold a request of 524544 bytes");
}

#[test]
fn no_text_makes_a_part_panic() {
    for text in ["", "[[operation]]", "cores = 99999999999999999999", "objects = {}", "\u{0}", "turn = \"-1us\""] {
        assert!(PlatformSpec::parse("x", text).is_err());
        assert!(WorkloadSpec::parse("x", text).is_err());
        assert!(CostSpec::parse("x", text).is_err());
    }
}
