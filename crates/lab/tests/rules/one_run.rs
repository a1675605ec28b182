//! A comparison and an experiment with one class that is fed by the same trace have the same outcome.

use ioweir_core::policy::POLICIES;
use ioweir_lab::compare::{Comparison, Report, document, run as compare};
use ioweir_lab::document::json_list;
use ioweir_lab::experiment::{Experiment, Figure, run as simulate};
use ioweir_lab::run::{Origin, Silent};
use ioweir_lab::sim::{Class, ClassOutcome, Outcome};

use crate::sample;

fn origin() -> Origin {
    Origin { version: "test".into(), commit: "test".into(), command: "test".into() }
}

fn trace(name: &str) -> String {
    sample::folder().join(name).display().to_string()
}

fn experiment(trace: &str, scheduler: &str, device: &str, depth: u32) -> Outcome {
    let text = format!(
        "duration = \"40000s\"\ninterval = \"1000s\"\nschedulers = [\"{scheduler}\"]\ndepth = {depth}\ndevice = \"{device}\"\n\
         [[class]]\nname = \"trace\"\ntrace = \"{trace}\"\n"
    );
    let experiment = Experiment::parse("test.toml", &text).expect("an experiment");
    let report = simulate(&experiment, &origin(), &Silent).expect("it runs");
    report.summaries.into_iter().flat_map(|summary| summary.cells).next().expect("one run")
}

fn comparison(trace: &str, scheduler: &str, device: &str, depth: u32) -> Outcome {
    let comparison = Comparison {
        traces: vec![trace.into()],
        schedulers: vec![scheduler.parse().expect("a scheduler")],
        devices: device.to_owned().into(),
        depths: depth.into(),
        ..Comparison::default()
    };
    let report = compare(&comparison, &origin(), &Silent).expect("it runs");
    report.outcomes.into_iter().next().expect("one run")
}

/// The figures that both keep: a comparison has series, distributions and names of streams beside them, an experiment has steps.
fn kept_by_both(outcome: Outcome) -> Outcome {
    let sums = |class: Class| Class { latency: Default::default(), ..class };
    let class = |class: ClassOutcome| ClassOutcome { name: String::new(), steps: Vec::new(), ..class };
    Outcome {
        trace: String::new(),
        load: String::new(),
        device: String::new(),
        span: Default::default(),
        all: sums(outcome.all),
        by_operation: outcome.by_operation.map(sums),
        classes: outcome.classes.into_iter().map(class).collect(),
        service_time: Default::default(),
        throughput: Default::default(),
        head: Vec::new(),
        stream_names: Vec::new(),
        ..outcome
    }
}

#[test]
fn experiment_equals_comparison_under_every_elevator() {
    let runs = [("hadoop/hdd-emul/sort.insert.csv.zst", "hdd", 1), ("oltp/oltp.blktrace", "ssd-970pro", 32)];
    for (name, device, depth) in runs {
        let trace = trace(name);
        for row in POLICIES.iter().filter(|row| !row.has_clients() && !row.places) {
            let compared = comparison(&trace, row.name, device, depth);
            let simulated = experiment(&trace, row.name, device, depth);
            assert!(compared.all.requests > 1_000, "{name}");
            assert_eq!(kept_by_both(simulated), kept_by_both(compared), "{name} {}", row.name);
        }
    }
}

#[test]
fn share_policy_sees_clients_and_merges_nothing() {
    for name in ["sfq", "mclock", "reward"] {
        let outcome = experiment(&trace("hadoop/hdd-emul/grep.insert.csv.zst"), name, "hdd", 1);
        assert_eq!(outcome.merged_requests, 0, "{name}");
        assert_eq!(outcome.classes[0].clients, 1);
    }
}

fn several(text: &str) -> Report {
    let comparison = Comparison::parse("test.toml", text).expect("a comparison");
    compare(&comparison, &origin(), &Silent).expect("it runs")
}

#[test]
fn stream_figures_add_up_to_all() {
    let trace = trace("oltp/oltp.blktrace");
    let report = several(&format!("traces = [\"{trace}\"]\nschedulers = [\"cfq\", \"noop\"]\nby_stream = true\n"));
    for outcome in &report.outcomes {
        let streams = &outcome.streams;
        assert!(streams.len() > 1, "the capture has several processes");
        assert_eq!(streams.iter().map(|stream| stream.requests).sum::<u64>(), outcome.all.requests);
        assert_eq!(streams.iter().map(|stream| stream.bytes).sum::<u64>(), outcome.all.bytes);
        let sum: u128 = streams.iter().map(|stream| u128::from(stream.latency_sum_nanos)).sum();
        assert_eq!(sum, outcome.all.latency_sum_nanos);
        assert!(streams.is_sorted_by_key(|stream| std::cmp::Reverse(stream.latency_p99_nanos)), "the slowest first");
        assert!(streams.iter().all(|stream| stream.latency_max_nanos <= outcome.all.latency.max()));
    }
}

#[test]
fn each_device_and_depth_is_a_run() {
    let text = |device: &str, depth: &str| {
        format!("traces = [\"mix:sort\"]\nschedulers = [\"noop\", \"cfq\"]\ndevice = {device}\ndepth = {depth}\n")
    };
    let both = several(&text("[\"hdd\", \"ssd-970pro\"]", "[1, 32]"));
    let settings: Vec<(&str, u32, &str)> =
        both.outcomes.iter().map(|run| (run.device.as_str(), run.depth, run.scheduler.as_str())).collect();
    let expected =
        ["hdd", "ssd-970pro"].map(|device| [1, 32].map(|depth| ["noop", "cfq"].map(|name| (device, depth, name))));
    assert_eq!(settings, expected.concat().concat());
    let alone = several(&text("\"hdd\"", "1"));
    assert_eq!(both.outcomes[..2], alone.outcomes[..]);
    assert!(alone.meta.devices.is_empty() && both.meta.devices.len() == 2);
}

fn json(report: &Report) -> String {
    json_list(&[document(report, None).expect("it is JSON")])
}

#[test]
fn several_seeds_give_an_interval() {
    let trace = trace("hadoop/hdd-emul/grep.insert.csv.zst");
    let text = format!("traces = [\"{trace}\", \"mix:grep\"]\nschedulers = [\"noop\"]\nseeds = [1, 2, 3]\n");
    let report = several(&text);
    let json = json(&report);
    assert_eq!(json, self::json(&several(&text)));
    let summaries = report.over_seeds();
    assert_eq!(summaries.len(), 2, "one for each trace");
    assert_eq!(summaries.iter().map(|summary| summary.are_samples()).collect::<Vec<_>>(), [true, false]);
    for summary in &summaries {
        let seconds: Vec<f64> = summary.cells.iter().map(|run| run.completion.as_seconds()).collect();
        assert_eq!(seconds.len(), 3);
        let figure = Figure::of_samples(&seconds).expect("three runs");
        assert!(figure.half_width.is_some_and(|half| half > 0.0), "{seconds:?}");
    }
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let over_seeds = &value["over_seeds"][0];
    assert_eq!((&over_seeds["scheduler"], &over_seeds["depth"]), (&"noop".into(), &1.into()));
    assert_eq!(over_seeds["completion_seconds"]["seeds"], 3);
    assert!(over_seeds["read"]["latency_p99_seconds"]["half_width"].as_f64().is_some());
    assert_eq!(value["results"][1]["seed"], 2);
}
