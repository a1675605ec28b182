//! Reasons add up: for every scheduler, goal and load the parts of an account are the goal's value, and the parts that a reason names
//! make up most of the difference that it explains.

use ioweir_core::policy::POLICIES;

use crate::compare::reason::Difference;
use crate::compare::section::sections;
use crate::compare::{Comparison, Goal, Report, run};
use crate::run::{Origin, Silent};

fn reports() -> Vec<Report> {
    let traces = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/hadoop/hdd-emul/grep.insert.csv.zst");
    let report = |trace: &str, device: &str, load: &str| {
        let comparison = Comparison {
            traces: vec![trace.into()],
            devices: device.to_owned().into(),
            loads: vec![load.parse().expect("a load")],
            schedulers: POLICIES.iter().filter(|row| !row.places).map(|row| row.name.parse().expect("it")).collect(),
            // Figures by stream need the accounts of every run.
            by_stream: true,
            ..Comparison::default()
        };
        let origin = Origin { version: "1".into(), commit: "unknown".into(), command: String::new() };
        run(&comparison, &origin, &Silent).expect("it runs")
    };
    let few = |trace: &str, device: &str, load: &str| report(trace, device, load);
    vec![
        few("mix:grep", "hdd", "x50"),
        few("mix:grep", "ssd-970pro", "closed:8"),
        few("mix:grep", "hdd-20tb", "closed:8"),
        few(traces, "hdd", "recorded"),
    ]
}

#[test]
fn reasons_make_up_the_difference_of_every_pair() {
    for report in reports() {
        for section in sections(&report, None) {
            for goal in Goal::ALL {
                let section = section.by(goal);
                let said = |row: &super::super::section::Row<'_>| {
                    let parts = row.parts(goal, 0).expect("every run has an account");
                    (parts, section.value(row).expect("a value"))
                };
                for row in &section.rows {
                    let (parts, value) = said(row);
                    let sum: f64 = parts.iter().sum();
                    let name = format!("{} on {}, {goal}", row.scheduler, section.device);
                    assert!((sum - value).abs() <= value * 1e-6, "{name}: {sum} s are not {value} s: {parts:?}");
                    assert!(parts.iter().all(|part| *part >= 0.0), "{name}: {parts:?}");
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
