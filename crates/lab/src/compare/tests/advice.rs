//! For every goal and device, the advice names the scheduler of current Linux that the table beside it shows as best.

use ioweir_core::{Nanos, Operation};
use proptest::prelude::*;
use serde_json::Value;

use super::fixture::report_of;
use crate::compare::{Comparison, Goal, Report, document, run};
use crate::document::Form;
use crate::run::{Origin, Silent};
use crate::sim::Latencies;

/// Linux's names of the schedulers in these tests.
const LINUX: [(&str, &str); 5] =
    [("none", "none"), ("noop", "none"), ("mq-deadline", "mq-deadline"), ("kyber", "kyber"), ("bfq", "bfq")];

fn linux(scheduler: &str) -> Option<&'static str> {
    LINUX.into_iter().find(|(name, _)| *name == scheduler.split(':').next().unwrap()).map(|(_, word)| word)
}

fn json(report: &Report) -> Value {
    let form = Form::from_file_name("a.json").unwrap();
    serde_json::from_slice(&form.render(&document(report, None).unwrap()).unwrap()).unwrap()
}

/// The goal's value in a result, as a reader of the JSON finds it.
fn number(goal: Goal, result: &Value) -> f64 {
    let value = match goal {
        Goal::Completion => &result["completion_seconds"],
        Goal::Mean => &result["latency_mean_seconds"],
        Goal::ReadP99 => &result["read"]["latency_p99_seconds"],
        Goal::Busy => &result["busy_seconds"],
    };
    value.as_f64().unwrap_or(f64::INFINITY)
}

/// Checks the advice of a report with one section, and returns it.
fn checked(report: &Report) -> Option<Value> {
    let goal = report.meta.spec.goal;
    let json = json(report);
    let results = json["results"].as_array().unwrap();
    let host: Vec<&Value> =
        results.iter().filter(|result| linux(result["scheduler"].as_str().unwrap()).is_some()).collect();
    let advice = json["advice"].as_array().unwrap().first()?.clone();
    assert_eq!(advice["goal"], goal.name());
    let text = advice["text"].as_str().unwrap();
    let Some(named) = advice["scheduler"].as_str() else {
        assert!(advice["command"].is_null() && !text.contains("echo"), "{text}");
        return Some(advice);
    };
    let command = format!("echo {} > /sys/block/DEVICE/queue/scheduler", linux(named).unwrap());
    assert_eq!(advice["command"], command.as_str());
    assert!(text.contains(&command) && text.contains(named), "{text}");
    let its = number(goal, results.iter().find(|result| result["scheduler"] == named).unwrap());
    let others = if host.len() > 1 { host } else { results.iter().collect() };
    for other in others {
        assert!(its <= number(goal, other), "{named} is worse than {}: {text}", other["scheduler"]);
    }
    Some(advice)
}

fn text(report: &Report) -> String {
    checked(report).unwrap()["text"].as_str().unwrap().to_owned()
}

const NAMES: [&str; 8] =
    ["none", "mq-deadline", "kyber", "bfq:slice-idle=2ms", "noop", "bid-hdd", "cfq", "sfq+deadline"];

/// A report of these schedulers with the given completions, mean latencies and p99s of reads, in milliseconds.
fn made(goal: Goal, rows: &[(&str, u64, u64, u64)]) -> Report {
    let mut report = report_of(200, 0);
    report.meta.spec.goal = goal;
    report.outcomes.truncate(rows.len());
    for (outcome, &(scheduler, completion, mean, p99)) in report.outcomes.iter_mut().zip(rows) {
        outcome.scheduler = scheduler.into();
        outcome.completion = Nanos::from_millis(completion);
        if goal == Goal::Busy {
            outcome.busy = Nanos::from_millis(completion.min(mean));
        }
        outcome.all.latency_sum_nanos = u128::from(mean) * 1_000_000 * u128::from(outcome.all.requests);
        let mut latency = Latencies::default();
        latency.record(p99 * 1_000_000);
        outcome.by_operation[Operation::Read as usize].latency = latency;
    }
    report
}

proptest! {
    #[test]
    fn it_never_names_what_the_table_shows_worse(
        names in proptest::sample::subsequence(NAMES.to_vec(), 1..=NAMES.len()),
        numbers in proptest::collection::vec((1u64..5_000, 1u64..5_000, 1u64..5_000), NAMES.len()),
        goal in 0..Goal::ALL.len(),
    ) {
        let rows: Vec<_> = names.into_iter().zip(numbers).map(|(name, (a, b, c))| (name, a, b, c)).collect();
        let has = rows.len() > 1 && rows.iter().any(|row| linux(row.0).is_some());
        prop_assert_eq!(checked(&made(Goal::ALL[goal], &rows)).is_some(), has);
    }
}

#[test]
fn tie_is_broken_by_another_goal() {
    let rows = [("none", 1000, 90, 10), ("kyber", 1001, 30, 10)];
    let said = text(&made(Goal::Completion, &rows));
    assert!(said.contains("keep the one that is set; --goal mean tells them apart"), "{said}");
    assert!(text(&made(Goal::Mean, &rows)).starts_with("Of what today's Linux has, kyber is best by mean latency"));
}

#[test]
fn scheduler_without_kin_is_named_only_first() {
    let said = text(&made(Goal::Completion, &[("none", 2000, 9, 9), ("bid-hdd", 1000, 9, 9)]));
    assert!(said.contains("today's Linux has only none; mq-deadline, kyber and bfq"), "{said}");
    let said = text(&made(Goal::Completion, &[("none", 500, 9, 9), ("bid-hdd", 1000, 9, 9)]));
    assert!(
        said.contains("none is best by completion: 500 ms, 50 % less than bid-hdd, because it saves 500 ms"),
        "{said}"
    );
    assert!(checked(&made(Goal::Completion, &[("cfq", 500, 9, 9), ("bid-hdd", 1000, 9, 9)])).is_none());
}

#[test]
fn equal_results_are_not_called_better() {
    let said = text(&made(Goal::Completion, &[("none", 500, 9, 9), ("clook", 500, 9, 9), ("bid-hdd", 1000, 9, 9)]));
    assert!(
        said.contains("none and clook tie by completion, at 500 ms, 50 % less than bid-hdd, because it saves 500 ms"),
        "{said}"
    );
    let said = text(&made(Goal::Completion, &[("none", 500, 9, 9), ("bid-hdd", 500, 9, 9)]));
    assert_eq!(said, "By completion these do not differ, so none does as well as any.");
    let report = made(Goal::Completion, &[("none", 500, 9, 9), ("kyber", 500, 9, 9)]);
    assert!(text(&report).contains("today's Linux do not differ, so keep the one that is set"));
    assert!(document(&report, None).unwrap().headline.contains("it is the same with all 2."));
}

#[test]
fn every_goal_has_advice_on_every_device() {
    // A disk, flash, tiers, an array, and a disk from its datasheet.
    for device in ["hdd", "ssd-970pro", "tiered", "hdd-2x7tb", "hdd-20tb"] {
        for goal in Goal::ALL {
            let comparison = Comparison {
                traces: vec!["mix:grep".into()],
                devices: device.to_owned().into(),
                loads: vec!["closed:8".parse().unwrap()],
                goal,
                ..Comparison::default()
            };
            let origin = Origin { version: "1".into(), commit: "unknown".into(), command: String::new() };
            let said = text(&run(&comparison, &origin, &Silent).unwrap());
            assert!(said.contains(", because ") || said.contains("keep the one that is set"), "{device}: {said}");
        }
    }
}

#[test]
fn bfq_idles_less_on_flash() {
    let comparison = Comparison {
        traces: vec![concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/hadoop/hdd-emul/grep.insert.csv.zst").into()],
        devices: "ssd-slc".to_owned().into(),
        schedulers: ["none", "bfq", "bfq:rotational=yes"].map(|name| name.parse().unwrap()).into(),
        ..Comparison::default()
    };
    let origin = Origin { version: "1".into(), commit: "unknown".into(), command: String::new() };
    let report = json(&run(&comparison, &origin, &Silent).unwrap());
    let mean = |at: usize| number(Goal::Mean, &report["results"][at]);
    let [none, bfq, rotational] = [0, 1, 2].map(mean);
    assert!(bfq < 5.0 * none && bfq * 1.5 < rotational, "{none} s, {bfq} s, {rotational} s");
    assert_eq!(report["results"][0]["depth"], 32, "as many as suit flash");
}

#[test]
fn busy_time_goal_is_explained_by_work() {
    let said = text(&made(Goal::Busy, &[("none", 1000, 900, 9), ("kyber", 2000, 500, 9)]));
    assert!(
        said.starts_with("Of what today's Linux has, kyber is best by the device's working time: 500 ms"),
        "{said}"
    );
    assert!(!said.contains("idle"), "{said}");
    // By completion, the other scheduler is the best.
    let said = text(&made(Goal::Completion, &[("none", 1000, 900, 9), ("kyber", 2000, 500, 9)]));
    assert!(said.starts_with("Of what today's Linux has, none is best by completion"), "{said}");
}
