//! Does `cfq`, which simplifies the kernel's scheduler, come to the times of a naive model of the kernel's rules?

mod model;

use ioweir_config::register_policy;
use ioweir_core::external::Maker;
use ioweir_core::policy::PolicyRow;
use ioweir_lab::compare::{self, Comparison};
use ioweir_lab::run::{Origin, Silent};
use ioweir_lab::sim::Outcome;

static MODEL: PolicyRow = PolicyRow::external("cfq-kernel", "the kernel's rules", Maker::Elevator(&model::Factory));

fn mean_nanos(run: &Outcome) -> f64 {
    run.all.latency_sum_nanos as f64 / run.all.requests as f64
}

/// An earlier fill of closed loops looked ahead by 4,096 records, and so let streams starve that come late in the trace. That made both
/// sorts a third slower here: the disk idled for processes whose next request could not come.
#[test]
fn cfq_equals_kernel_rules_on_closed_sorts() {
    register_policy(&MODEL).expect("the name is free");
    for job in ["sort", "terasort"] {
        let comparison = Comparison {
            traces: vec![format!("{}/../../traces/hadoop/loop-ssd/{job}.insert.csv.zst", env!("CARGO_MANIFEST_DIR"))],
            schedulers: ["cfq", "cfq-kernel"].map(|name| name.parse().expect("a scheduler")).into(),
            loads: vec!["closed:32".parse().expect("a load")],
            ..Comparison::default()
        };
        let origin = Origin { version: "1".into(), commit: "unknown".into(), command: String::new() };
        let report = compare::run(&comparison, &origin, &Silent).expect("it runs");
        let [own, model] = <[Outcome; 2]>::try_from(report.outcomes).expect("two runs");
        let completion = own.completion.0 as f64 / model.completion.0 as f64;
        let mean = mean_nanos(&own) / mean_nanos(&model);
        assert!((completion - 1.0).abs() < 0.01, "{job}: completion {completion} of the model's");
        assert!((mean - 1.0).abs() < 0.02, "{job}: mean latency {mean} of the model's");
    }
}
