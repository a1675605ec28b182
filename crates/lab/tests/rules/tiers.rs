//! Every report of a run on a tiered device says how much the fast tier served, and a trace is folded only on request.

use ioweir_lab::compare::{Comparison, document, run};
use ioweir_lab::document::json_list;
use ioweir_lab::experiment::{Experiment, run as simulate};
use ioweir_lab::run::{Origin, Silent};
use ioweir_lab::spec::PlacingKeys;
use serde_json::Value;

fn origin() -> Origin {
    Origin { version: "test".into(), commit: "test".into(), command: "test".into() }
}

/// The first result of a comparison of generated traffic on the device of this file, and the page as text.
fn compared(device: &str) -> (Value, String) {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
    std::fs::write(file.path(), device).expect("written");
    let comparison = Comparison {
        traces: vec!["mix:sort".into()],
        schedulers: vec!["none".parse().expect("a scheduler")],
        devices: file.path().display().to_string().into(),
        ..Comparison::default()
    };
    let report = run(&comparison, &origin(), &Silent).expect("it runs");
    let document = document(&report, None).expect("a document");
    let json: Value = serde_json::from_str(&json_list(std::slice::from_ref(&document))).expect("JSON");
    (json["results"][0].clone(), document.to_terminal(false))
}

fn cached(blocks: &str) -> String {
    format!(
        "[tiered]\ncapacity = \"500GB\"\nplacement = {{ lru = {{ capacity = \"{blocks}\", block = \"64KiB\" }} }}\n\
         fast = {{ read = \"constant 100us\" }}\nslow = {{ read = \"constant 8ms\" }}\n"
    )
}

#[test]
fn cache_hits_are_in_every_comparison() {
    let share = |device: &str| compared(device).0["fast_share"].as_f64();
    let (one, many) = (share(&cached("64KiB")).expect("tiered"), share(&cached("64GiB")).expect("tiered"));
    assert!((0.0..=1.0).contains(&one) && one < many && many <= 1.0, "{one} {many}");
    assert!(compared(&cached("64GiB")).1.contains("fast tier"), "a column");
    let never =
        "[tiered]\ncapacity = \"500GB\"\nfast = { read = \"constant 100us\" }\nslow = { read = \"constant 8ms\" }\n";
    assert_eq!(share(never), Some(0.0), "a tier that served nothing");
    assert_eq!(
        share("[null]\ncapacity = \"1TB\"\n").or(share(include_str!("../../../device/src/presets/hdd.toml"))),
        None
    );
}

#[test]
fn oversized_trace_is_folded_on_request() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/hadoop/hdd-emul/grep.insert.csv.zst");
    let comparison = |fold| Comparison {
        traces: vec![trace.into()],
        schedulers: vec!["none".parse().expect("a scheduler")],
        devices: "tiny".to_owned().into(),
        placing: PlacingKeys { fold, ..PlacingKeys::default() },
        ..Comparison::default()
    };
    let error = run(&comparison(false), &origin(), &Silent).expect_err("it does not fit").to_string();
    assert!(error.contains("fold the trace onto this one"), "{error}");
    let compared = run(&comparison(true), &origin(), &Silent).expect("it is folded").outcomes.remove(0);
    assert!(compared.folded > 0 && compared.skipped == 0, "{}", compared.folded);
    let text = |fold: &str| {
        format!(
            "duration = \"40000s\"\ninterval = \"1000s\"\nschedulers = [\"none\"]\ndepth = 1\ndevice = \"tiny\"\n{fold}\n\
             [[class]]\nname = \"trace\"\ntrace = \"{trace}\"\n"
        )
    };
    let simulated = |fold: &str| {
        let experiment = Experiment::parse("test.toml", &text(fold)).expect("an experiment");
        simulate(&experiment, &origin(), &Silent).map(|report| report.summaries[0].cells[0].clone())
    };
    simulated("").expect_err("it does not fit");
    let simulated = simulated("fold = true").expect("it is folded");
    assert_eq!((simulated.folded, simulated.all.requests), (compared.folded, compared.all.requests));
    assert_eq!(simulated.completion, compared.completion);
}
