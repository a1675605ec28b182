//! Tests of experiments on servers: the keys of files, and the runs that they give.

use crate::document::Origin;
use crate::run::{Progress, RunError};

use super::*;

const SMALL: &str = r#"
loads = [0.5, 0.8]
warm_up = 1
measured = 1
search_measured = 1
runs_max = 2

[schedules]
main = ["baseline", "combo"]

[[server]]
platform = "low-end"
workload = "spc-1"
schedules = ["main", "qats"]
"#;

fn origin() -> Origin {
    Origin { version: "0".into(), commit: "none".into(), command: "ioweir simulate small.toml".into() }
}

fn report() -> ServerReport {
    let experiment = ServerExperiment::parse("small.toml", SMALL).expect("a valid file");
    experiment.run(&origin(), &Silent).expect("it runs")
}

#[test]
fn file_runs_servers_at_shares_of_peak() {
    let report = report();
    let names: Vec<(&str, f64)> = report.cells.iter().map(|cell| (cell.schedule.as_str(), cell.load)).collect();
    let expected = [("baseline", 0.5), ("baseline", 0.8), ("combo", 0.5), ("combo", 0.8), ("qats", 0.5), ("qats", 0.8)];
    assert_eq!(names, expected);

    let platform = PlatformSpec::load("low-end").expect("a preset");
    let workload = WorkloadSpec::load("spc-1").expect("a preset");
    let server = Server::new(platform, workload, CostSpec::usual().expect("they make sense")).expect("it makes sense");
    let length = RunLength { warm_up: 1, measured: 1 };
    let baseline = "baseline".parse().expect("a schedule");
    let found = peak(&server, &baseline, (length, length), 2, &Silent).expect("a peak");
    assert_eq!(report.peaks[0].requests_per_second.to_bits(), found.to_bits());
    let combo = "combo".parse().expect("a schedule");
    let runs = repeated(&server, &combo, (length, found * 0.8), 2, &Silent).expect("runs");
    let sums = |outcomes: &[ServerOutcome]| outcomes.iter().map(ServerOutcome::mean_seconds).collect::<Vec<_>>();
    assert_eq!(sums(&report.cells[3].runs), sums(&runs));
}

#[test]
fn settings_and_loads_give_way_to_a_schedules_own() {
    let sums = |from: &[(&str, &str)]| {
        let text = from.iter().fold(SMALL.to_string(), |text, (from, to)| text.replace(from, to));
        let experiment = ServerExperiment::parse("small.toml", &text).expect("a valid file");
        let cells = experiment.run(&origin(), &Silent).expect("it runs").cells;
        let sum = |cell: &ServerCell| cell.runs.iter().filter_map(ServerOutcome::mean_seconds).sum::<f64>().to_bits();
        cells.iter().map(|cell| (cell.load.to_bits(), sum(cell))).collect::<Vec<_>>()
    };
    let short = sums(&[
        ("runs_max = 2", "runs_max = 1\nsettings = [\"qats=yes\"]"),
        ("[\"main\", \"qats\"]", "[\"baseline\", \"baseline:qats=no\"]\nloads = [0.8]"),
    ]);
    let long = sums(&[
        ("[0.5, 0.8]", "[0.8]"),
        ("runs_max = 2", "runs_max = 1\npeaks = [\"baseline:qats=yes\"]"),
        ("[\"main\", \"qats\"]", "[\"baseline:qats=yes\", \"baseline\"]"),
    ]);
    assert_eq!(short, long);
    assert_ne!(short[0], short[1]);
}

#[test]
fn file_determines_bytes_and_reads_back() {
    let first = report();
    let (one, other) = (first.document().expect("a document"), report().document().expect("a document"));
    assert_eq!(one.to_terminal(false), other.to_terminal(false));
    assert!(one.headline.contains("low-end under spc-1 answers fastest under "), "{}", one.headline);
    assert_eq!(one.records.rows.len(), first.cells.iter().map(|cell| cell.runs.len()).sum::<usize>());
    let experiment = first.experiment;
    assert_eq!(ServerExperiment::parse("again", &experiment.to_toml()), Ok(experiment));
}

#[test]
fn experiment_file_errors_have_their_place() {
    let refused = |from: &str, to: &str| {
        let text = SMALL.replacen(from, to, 1);
        assert_ne!(text, SMALL);
        ServerExperiment::parse("small.toml", &text).expect_err("a wrong value").to_string()
    };
    for (from, to, expected) in [
        ("[0.5, 0.8]", "[]", "small.toml:2:"),
        ("[0.5, 0.8]", "[0.5, 80]", "80 is out of range"),
        ("measured = 1", "measured = 0", "1 to 1000 swings"),
        ("runs_max = 2", "runs_max = 0", "1 to 100"),
        ("runs_max = 2", "runs_max = 2\nsettings = [\"all-weight=yes\"]", "small.toml:7:"),
        ("platform", "loads = [0.0]\nplatform", "0 is out of range"),
        ("\"qats\"", "\"qat\"", "qats"),
        ("[\"baseline\", \"combo\"]", "\"baseline\"", "a list of schedules"),
        ("[\"main\", \"qats\"]", "[]", "at least one schedule"),
        ("platform", "platfrom", "unknown field `platfrom`"),
        ("loads", "load", "unknown field `load`"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
}

#[test]
fn a_stopped_experiment_ends_with_no_report() {
    struct Stopping;
    impl Progress for Stopping {
        fn is_stopped(&self) -> bool {
            true
        }
    }
    let experiment = ServerExperiment::parse("small.toml", SMALL).expect("a valid file");
    assert!(matches!(experiment.run(&origin(), &Stopping), Err(RunError::Stopped)));
}
