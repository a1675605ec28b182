use ioweir_device::standing::Calibrated;
use ioweir_device::{DeviceFile, Standing, Verdict};
use tempfile::TempDir;

use super::advice::Advice;
use super::figures::{Score, scores};
use super::loads::Loads;
use super::{QosSpec, ScorecardSpec};
use ioweir_lab::document::Origin;
use ioweir_lab::run::Silent;

/// A device that serves eight requests at once, a thousand a second, with a folder for its file.
fn device() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("eight.toml");
    let text = "[tiered]\ncapacity = \"1TB\"\nplacement = { hit_ratio = 1.0 }\n\
                fast = { depth = 8, read = \"exponential 8ms\", write = \"exponential 8ms\" }\nslow = { read = \"exponential 10ms\" }\n";
    std::fs::write(&path, text).unwrap();
    let name = path.display().to_string();
    (folder, name)
}

fn spec(device: &str, schedulers: &[&str]) -> ScorecardSpec {
    ScorecardSpec {
        device: device.into(),
        schedulers: schedulers.iter().map(|name| name.parse().expect("a scheduler")).collect(),
        span: Some("6s".parse().expect("a time")),
        seeds: vec![1, 2],
        ..ScorecardSpec::default()
    }
}

fn scored(spec: &ScorecardSpec) -> (DeviceFile, Loads, Vec<Score>) {
    let file = DeviceFile::load(&spec.device).unwrap();
    let loads = spec.loads(&file).unwrap();
    let (scores, _) = scores(&loads, spec.slowdown, &Silent).unwrap();
    (file, loads, scores)
}

fn advised(spec: &ScorecardSpec) -> (Vec<Score>, Advice) {
    let (file, loads, scores) = scored(spec);
    let standing = Standing::of(&spec.device, &file);
    let advice = Advice::new(&loads, &scores, spec.slowdown, &standing, &file);
    (scores, advice)
}

#[test]
fn policies_that_cannot_protect_are_seen_failing() {
    let (_folder, device) = device();
    let (scores, advice) = advised(&spec(&device, &["none", "sfq:depth=8"]));
    let protects: Vec<(&str, bool)> =
        scores.iter().map(|score| (score.scheduler.as_str(), score.protects().is_some())).collect();
    assert_eq!(protects, [("fifo", false), ("none", false), ("sfq:depth=8", true)], "{scores:#?}");
    assert!(advice.text.starts_with("For protection take sfq:depth=8 with "), "{}", advice.text);
    let short = ScorecardSpec { span: Some("1s".parse().expect("a time")), ..spec(&device, &["none"]) };
    let (_, advice) = advised(&short);
    assert!(advice.text.starts_with("None of them protects: "), "{}", advice.text);
}

#[test]
fn scores_tell_policies_apart_by_their_purpose() {
    let (_folder, device) = device();
    let (_, _, scores) = scored(&spec(&device, &["io-max", "sfq:depth=8"]));
    let [none, limits, shares] = &scores[..] else { panic!("three schedulers: {scores:#?}") };
    // Limits are kept while nobody else is there; shares lend what is not used.
    assert!((0.5..0.7).contains(&limits.work_conservation.mean), "{:?}", limits.work_conservation);
    assert!(shares.work_conservation.mean > 0.98, "{:?}", shares.work_conservation);
    let unequal = |score: &Score| score.fairness[1].jain.mean;
    assert!(unequal(none) < 0.85 && unequal(shares) > 0.99 && unequal(limits) > 0.95, "{scores:#?}");
    assert!(none.wake.to_share_seconds.is_none() && shares.wake.to_share_seconds.is_some(), "{scores:#?}");
    assert!(none.starvation.longest_seconds.mean < shares.starvation.longest_seconds.mean, "{scores:#?}");
    assert!(scores.iter().all(|score| score.starvation.all_served));
    assert_eq!((none.throughput_alone.mean, none.latency_alone.mean), (1.0, 1.0));
}

#[test]
fn a_device_outside_its_family_gets_no_advice() {
    let (_folder, device) = device();
    let outside = Calibrated {
        source: ioweir_device::calibration::Source::Trace,
        name: "seen.parquet".into(),
        judged: ioweir_device::calibration::Part::HeldOut,
        error_share: Some(2.0),
        verdict: Verdict::Outside,
        range: ioweir_device::calibration::Range::default(),
    };
    let spec = spec(&device, &["sfq:depth=8"]);
    let file = DeviceFile::load(&device).unwrap();
    let advice = Advice::new(&spec.loads(&file).unwrap(), &[], spec.slowdown, &Standing::Calibrated(outside), &file);
    assert!(advice.choices.is_empty() && advice.text.starts_with("There is no recommendation: "), "{}", advice.text);
}

#[test]
fn same_scorecard_gives_same_bytes() {
    let (_folder, device) = device();
    let spec =
        ScorecardSpec { span: Some("1s".parse().expect("a time")), seeds: vec![1], ..spec(&device, &["io-cost"]) };
    assert_eq!(ScorecardSpec::parse("a.toml", &spec.to_toml()).unwrap(), spec);
    let origin = Origin { version: "0".into(), commit: "c".into(), command: spec.command() };
    let [one, other] = [(); 2].map(|()| spec.run(&origin, &Silent).unwrap().to_terminal(false));
    assert_eq!(one, other);
    assert!(one.contains("not searched for this device"), "{one}");
    let set = ScorecardSpec { schedulers: vec!["io-cost:max=80".parse().expect("a scheduler")], ..spec };
    let set = set.run(&origin, &Silent).unwrap().to_terminal(false);
    assert!(!set.contains("not searched for this device"), "{set}");
    // Without coefficients of its own, io-cost has those of the device.
    assert!(one.contains("io-cost:") && one.contains("rrandiops="), "{one}");
}

#[test]
fn searched_qos_holds_on_load_kept_aside() {
    let (_folder, device) = device();
    let spec = |p99: &str, span: &str| QosSpec {
        device: device.clone(),
        p99: Some(p99.parse().expect("a time")),
        span: Some(span.parse().expect("a time")),
        seeds: vec![1],
        ..QosSpec::default()
    };
    let origin = Origin { version: "0".into(), commit: "c".into(), command: String::new() };
    let run = |spec: &QosSpec| spec.run(&origin, &Silent).unwrap().to_terminal(false);
    let found = run(&spec("70ms", "4s"));
    assert!(found.contains("Set enable=1 ctrl=user rpct="), "{found}");
    assert!(found.contains("undo: the quality"), "{found}");
    // No setting makes a device faster than it is.
    let none = run(&spec("5ms", "1s"));
    assert!(none.contains("keeps a p99 of 5ms: the lowest is"), "{none}");
}
