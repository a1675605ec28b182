use ioweir_config::Duration;
use ioweir_device::standing::Calibrated;
use ioweir_device::{DeviceFile, Standing, Verdict};
use tempfile::TempDir;

use super::advice::Advice;
use super::figures::{Score, scores};
use super::loads::Loads;
use super::qos::{OTHERS, WEIGHT};
use super::spec::{BASELINE, named};
use super::{QosSpec, ScorecardSpec};
use crate::calibration::settings;
use ioweir_lab::document::{Form, Origin};
use ioweir_lab::experiment::{Experiment, run};
use ioweir_lab::run::Silent;
use ioweir_lab::sim::Outcome;

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
    let (loads, _) = spec.loads(&file, &Silent).unwrap();
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
    let advice =
        Advice::new(&spec.loads(&file, &Silent).unwrap().0, &[], spec.slowdown, &Standing::Calibrated(outside), &file);
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
    assert!(one.contains("searched for a p99 of ") && one.contains("Again: `ioweir advise qos "), "{one}");
    let set = ScorecardSpec { schedulers: vec!["io-cost:max=80".parse().expect("a scheduler")], ..spec };
    let set = set.run(&origin, &Silent).unwrap().to_terminal(false);
    assert!(!set.contains("Again: `ioweir advise qos "), "{set}");
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

#[test]
fn searched_qos_keeps_its_p99_under_unseen_loads() {
    let (_folder, device) = device();
    let file = DeviceFile::load(&device).unwrap();
    let p99: Duration = "70ms".parse().expect("a time");
    let spec = QosSpec {
        model: settings(&file.spec).unwrap().priced(&QosSpec::default().model),
        device,
        p99: Some(p99),
        span: Some("4s".parse().expect("a time")),
        seeds: vec![1],
        ..QosSpec::default()
    };
    let searched = spec.searched(&file, &Silent).unwrap();
    let seeds = [9_001, 9_002, 9_003];
    let none = named(&[BASELINE]);
    let loads = Loads::new(&spec.device, spec.depth.of(&file.spec), none.clone(), &seeds, spec.span).unwrap();
    let loads = loads.with([vec![searched.scheduler], none].concat(), &seeds);
    for load in OTHERS {
        let ran = loads.beside((spec.weight, 0.05), (WEIGHT, load), &Silent).unwrap();
        let kept = |cell: &Outcome| cell.class("protected").unwrap().latency_p99_nanos <= p99.nanos().0;
        assert!(ran.summaries[0].cells.iter().all(kept), "{}: {load:?}", searched.text);
        assert!(!ran.summaries[1].cells.iter().any(kept), "kept without control: {load:?}");
    }
}

/// The results of a scorecard's tests as a file of measurements.
fn as_measured(loads: &Loads, tests: &[(String, String)]) -> serde_json::Value {
    let mut rows = Vec::new();
    let mut titles = serde_json::Map::new();
    for (_, toml) in tests {
        let experiment = Experiment::parse("a.toml", toml).unwrap();
        titles.insert(experiment.title.clone(), toml.clone().into());
        let summaries = run(&experiment, &origin(), &Silent).unwrap().summaries;
        for (summary, cell) in
            summaries.iter().flat_map(|summary| summary.cells.iter().map(move |cell| (summary, cell)))
        {
            let classes = cell.classes.iter().map(|class| {
                let waits =
                    if class.name == "humble" { cell.span.0.saturating_sub(class.latency_sum_nanos) } else { 0 };
                let of = serde_json::json!({
                    "requests": class.requests,
                    "latency_sum_nanos": class.latency_sum_nanos,
                    "latency_p99_nanos": class.latency_p99_nanos,
                    "latency_max_nanos": class.latency_max_nanos.max(waits),
                    "steps": class.steps.iter().map(|step| step.requests).collect::<Vec<_>>(),
                });
                (class.name.clone(), of)
            });
            rows.push(serde_json::json!({
                "test": experiment.title,
                "scheduler": summary.scheduler,
                "jain": f64::from(cell.jain_millionths) / 1e6,
                "classes": classes.collect::<serde_json::Map<_, _>>(),
            }));
        }
    }
    serde_json::json!({
        "machine": "a machine", "shared": "alone", "versions": { "ioweir": "0" }, "load_average_before": [0.5],
        "load_average_after": [0.25], "tests": titles, "rows": rows, "parameters": loads.depth,
    })
}

fn origin() -> Origin {
    Origin { version: "0".into(), commit: "c".into(), command: String::new() }
}

#[test]
fn measured_figures_are_computed_as_simulated() {
    let (folder, device) = device();
    let span = Some("1s".parse().expect("a time"));
    let mut spec = ScorecardSpec { span, seeds: vec![1], ..spec(&device, &["sfq:depth=8"]) };
    let file = DeviceFile::load(&device).unwrap();
    let (loads, _) = spec.loads(&file, &Silent).unwrap();
    let (simulated, tests) = scores(&loads, spec.slowdown, &Silent).unwrap();
    let mut whole = as_measured(&loads, &tests);
    let path = folder.path().join("measured.json");
    spec.measured = Some(path.display().to_string());
    std::fs::write(&path, whole.to_string()).unwrap();
    let document = spec.run(&origin(), &Silent).unwrap();
    let json = Form::from_file_name("a.json").unwrap();
    let data: serde_json::Value = serde_json::from_slice(&json.render(&document).unwrap()).unwrap();
    assert_eq!(data["measured"]["schedulers"], serde_json::to_value(&simulated).unwrap());
    let near = |of: &serde_json::Value| of["near"] == of["of"] && of["of"].as_u64() > Some(1);
    let agreement = data["measured"]["agreement"].as_array().unwrap();
    assert!(agreement.len() == 9 && agreement.iter().all(near), "{agreement:#?}");
    // A figure that differs is seen, and where.
    let rows = whole["rows"].as_array_mut().unwrap();
    let row = rows.iter_mut().find(|row| row["test"] == "a busy tenant beside a preferred one that is silent").unwrap();
    row["classes"]["busy"]["requests"] = 1.into();
    std::fs::write(&path, whole.to_string()).unwrap();
    let text = spec.run(&origin(), &Silent).unwrap().to_terminal(false);
    assert!(text.contains("sfq:depth=8, silent") && text.contains("Measured on a server: "), "{text}");
    // Measurements of other tests are refused.
    let refused = |spec: &ScorecardSpec| spec.run(&origin(), &Silent).unwrap_err().to_string();
    let longer = ScorecardSpec { span: Some("2s".parse().expect("a time")), ..spec.clone() };
    assert!(refused(&longer).contains("as this spec has it, was not measured"), "{}", refused(&longer));
    std::fs::write(&path, "{").unwrap();
    assert!(refused(&spec).contains("measured.json:1:1: EOF"), "{}", refused(&spec));
}
