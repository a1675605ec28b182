//! What an experiment promises.

use super::*;
use crate::compare::{Origin, Silent};

#[test]
fn probe() {
    let text = std::fs::read_to_string("../../examples/figure-2.toml").unwrap();
    let experiment = Experiment::parse("f", &text).unwrap();
    println!("{}", experiment.to_toml());
    let origin = Origin { version: "t".into(), commit: "t".into(), command: "t".into() };
    let report = run(&experiment, &origin, &Silent, None).unwrap();
    println!("{:#?}", report.summaries[0].cells[0].measured.tiers);
    for metric in METRICS {
        println!(
            "{} {:?} {:?}",
            metric.name,
            report.summaries[0].figure(metric, Some("one")),
            report.summaries[0].figure(metric, None)
        );
    }
}
