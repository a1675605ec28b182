//! Reasons add up: for every scheduler, goal and load the parts of an account are the goal's value, and the parts that a reason names
//! make up most of the difference that it explains.

use std::sync::LazyLock;

use ioweir_core::policy::POLICIES;

use crate::compare::advice::{advice, compared};
use crate::compare::reason::Difference;
use crate::compare::section::sections;
use crate::compare::{Comparison, Goal, Report, run};
use crate::run::{Origin, Silent};
use ioweir_device::Standing;

static REPORTS: LazyLock<Vec<Report>> = LazyLock::new(|| {
    let file = |name: &str| format!("{}/../../traces/{name}", env!("CARGO_MANIFEST_DIR"));
    let report = |trace: &str, device: &str, load: &str| {
        let mut comparison = Comparison {
            traces: vec![trace.into()],
            devices: device.to_owned().into(),
            loads: vec![load.parse().expect("a load")],
            schedulers: POLICIES.iter().filter(|row| !row.places).map(|row| row.name.parse().expect("it")).collect(),
            // Figures by stream need the accounts of every run.
            by_stream: true,
            ..Comparison::default()
        };
        comparison.placing.fold = true;
        let origin = Origin { version: "1".into(), commit: "unknown".into(), command: String::new() };
        run(&comparison, &origin, &Silent).expect("it runs")
    };
    vec![
        report("mix:grep", "hdd", "x50"),
        report("mix:grep", "ssd-970pro", "closed:8"),
        report("mix:grep", "hdd-20tb", "closed:8"),
        report(&file("hadoop/hdd-emul/grep.insert.csv.zst"), "hdd", "recorded"),
        report(&file("fio/mix.iolog.gz"), "hdd-15k", "x4"),
        report(&file("fio/mix.iolog.gz"), "tiered", "closed:2+1ms"),
    ]
});

/// For every goal, the two schedulers that the sentence is about are those that its reason compares, and the reason makes up most of
/// their difference.
#[test]
fn advice_names_the_schedulers_that_its_reason_compares() {
    for mut report in REPORTS.clone() {
        report.grounds.iter_mut().for_each(|ground| ground.standing = Standing::Measured);
        for section in sections(&report, None) {
            let by_goal = Goal::ALL.map(|goal| section.by(goal));
            for section in by_goal.iter().flat_map(|all| [vec![all.clone()], all.by_stream()].concat()) {
                let Some([best, other]) = compared(&section) else { continue };
                let advice = advice(&section).expect("two schedulers are compared");
                let name = format!("{} on {}, {}, {:?}", section.trace, section.device, section.goal, section.of);
                let margin = format!("less than {}", other.scheduler);
                assert!(
                    advice.text.contains(best.scheduler) && advice.text.contains(&margin),
                    "{name}: {}",
                    advice.text
                );
                let json = serde_json::to_value(&advice).expect("JSON");
                assert_eq!(json["scheduler"], **best.scheduler, "{name}");
                let because = &json["because"];
                assert_eq!(because["other"], **other.scheduler, "{name}: {because}");
                assert!(advice.text.contains(&format!("against {}: ", other.scheduler)), "{name}: {}", advice.text);
                let causes = because["causes"].as_array().expect("causes");
                let share: f64 = causes.iter().filter_map(|cause| cause["share"].as_f64()).sum();
                assert!((0.75 - 1e-9..=1.25 + 1e-9).contains(&share), "{name}: {share}");
            }
        }
    }
}

#[test]
fn reasons_make_up_the_difference_of_every_pair() {
    for report in &*REPORTS {
        for section in sections(report, None) {
            for goal in Goal::ALL {
                let section = section.by(goal);
                let said = |row: &super::super::section::Row<'_>| {
                    let parts = row.parts(goal, Some(0)).expect("every run has an account");
                    (parts, section.value(row).expect("a value"))
                };
                for row in &section.rows {
                    let (parts, value) = said(row);
                    let sum: f64 = parts.iter().sum();
                    let name = format!("{} on {}, {goal}", row.scheduler, section.device);
                    assert!((sum - value).abs() <= value * 1e-6, "{name}: {sum} s are not {value} s: {parts:?}");
                    assert!(parts.iter().all(|part| *part >= 0.0), "{name}: {parts:?}");
                    let of_run = goal.parts_of_run(row.run());
                    assert!(of_run.is_none_or(|of_run| of_run == parts), "{name}: {of_run:?} are not {parts:?}");
                }
                for best in &section.rows {
                    for other in &section.rows {
                        let ((ours, value), (theirs, more)) = (said(best), said(other));
                        let Some(difference) = Difference::new(&ours, (other.scheduler, &theirs)) else {
                            assert!(more <= value * (1.0 + 1e-6), "{} {}", best.scheduler, other.scheduler);
                            continue;
                        };
                        assert_eq!(&difference.other, other.scheduler);
                        assert!((difference.saved_seconds - (more - value)).abs() <= more * 1e-6);
                        let share: f64 = difference.causes.iter().map(|cause| cause.share).sum();
                        assert!((0.75 - 1e-9..=1.25 + 1e-9).contains(&share), "{share}: {difference:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn loss_beside_larger_saving_is_named() {
    let (mut ours, mut theirs) = ([0.0; crate::sim::PARTS.len()], [0.0; crate::sim::PARTS.len()]);
    (theirs[1], theirs[9], ours[9]) = (5.0, 1.0, 4.0);
    let difference = Difference::new(&ours, ("none", &theirs)).expect("it saves 2 s");
    let shares: Vec<f64> = difference.causes.iter().map(|cause| cause.share).collect();
    assert_eq!(shares, [2.5, -1.5]);
    let text = difference.text();
    assert_eq!(
        text,
        "it saves 2.00 s against none: 5.00 s of waiting while others are served (250 %) and 3.00 s more of seeks (-150 %)"
    );
    assert_eq!(Difference::new(&theirs, ("none", &ours)), None, "it saves nothing");
}
