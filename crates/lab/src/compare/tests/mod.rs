//! The document of a comparison states its results, for any names and any size.

mod advice;
mod fixture;
mod gated;
mod reasons;

use super::section::sections;
use super::*;
use ioweir_core::{Nanos, Operation};

use crate::document::{FORMS, Form, HTML_BYTES_MAX};
use crate::sim::HeadPoint;
use fixture::{report, report_of};

fn rendered(report: &Report, suffix: &str) -> String {
    let form = Form::from_file_name(&format!("a.{suffix}")).unwrap();
    String::from_utf8(form.render(&document(report, None).unwrap()).unwrap()).unwrap()
}

fn terminal(report: &Report, reference: Option<&str>) -> String {
    document(report, reference).unwrap().to_terminal(false)
}

#[test]
fn terminal_reads_as_drawn() {
    insta::assert_snapshot!(terminal(&report(), None));
}

#[test]
fn closed_load_reports_all_outstanding_requests() {
    let mut report = report();
    for outcome in &mut report.outcomes {
        outcome.load = "closed:32".into();
        outcome.stream_names = (0..57).map(|stream| format!("job {stream}")).collect();
    }
    report.outcomes.truncate(3);
    let text = terminal(&report, None);
    assert!(text.contains("57 streams keep 32 outstanding each, 1,824 in all"), "{text}");
}

#[test]
fn relative_completion_follows_the_reference() {
    let text = terminal(&report(), Some("cfq:quantum=2"));
    let cfq = text.lines().find(|line| line.starts_with("cfq:quantum=2 ") && line.contains(" x")).unwrap();
    assert!(cfq.contains("x1.00"), "{cfq}");
}

#[test]
fn json_reads_as_documented() {
    insta::assert_snapshot!(rendered(&report(), "json"));
}

#[test]
fn csv_has_a_row_a_result() {
    let text = rendered(&report(), "csv");
    insta::assert_snapshot!(text);
    let mut lines = text.lines();
    let columns = lines.next().unwrap().split(',').count();
    assert!(lines.clone().count() == 6 && lines.all(|line| line.split(',').count() == columns));
}

#[test]
fn markdown_reads_as_drawn() {
    insta::assert_snapshot!(rendered(&report(), "md"));
}

#[test]
fn several_seeds_make_one_row_with_intervals() {
    let mut report = report_of(200, 50);
    let mut again = report.outcomes.clone();
    for outcome in &mut again {
        outcome.seed += 1;
        outcome.completion = Nanos(outcome.completion.0 * 11 / 10);
    }
    report.outcomes.append(&mut again);
    let text = terminal(&report, None);
    assert_eq!(text.lines().filter(|line| line.starts_with("sptf ") && line.contains(" ± ")).count(), 2, "{text}");
    assert!(text.contains(" ± ") && text.contains("means of 2 seeds"), "{text}");
}

#[test]
fn an_empty_run_has_no_quantiles() {
    let mut empty = report_of(0, 0);
    empty.outcomes.truncate(1);
    let value: serde_json::Value = serde_json::from_str(&rendered(&empty, "json")).unwrap();
    let result = &value["results"][0];
    assert!(result["latency_p99_seconds"].is_null() && result["throughput_bytes_per_second"].is_null());
    assert_eq!(result["latency_samples"], 0);
    for form in FORMS {
        assert!(!form.render(&document(&empty, None).unwrap()).unwrap().is_empty());
    }
    assert!(terminal(&empty, None).contains("The trace holds no requests."));
}

#[test]
fn the_headline_does_not_oversell() {
    let mut report = report();
    let slowest = report.outcomes[0].completion;
    for (index, outcome) in report.outcomes.iter_mut().enumerate() {
        outcome.completion = Nanos(slowest.0 - index as u64);
        outcome.busy = Nanos(slowest.0 / 5);
    }
    insta::assert_snapshot!(headline::headline(&sections(&report, None)[0]), @"Completion hardly depends on the scheduler: all 3 finish within 0.1 % of each other. The device is busy 20 % of the time, so the pauses of the trace set the pace; busy time says more. Mean latency depends on it: 2.25 ms with bid-hdd, 8.30 ms with noop.");
}

#[test]
fn eight_large_results_stay_below_the_limit() {
    let page = rendered(&report_of(100_000, 100_000), "html");
    assert!(page.len() < HTML_BYTES_MAX, "{} bytes", page.len());
    assert!(page.contains("of 800,000 points are drawn"));
}

#[test]
fn many_results_are_thinned_evenly() {
    let mut many = report_of(200, 5_000);
    let eight = many.outcomes.clone();
    for load in 2..12 {
        let more = eight.iter().cloned().map(|mut outcome| {
            outcome.load = format!("x{load}");
            outcome
        });
        many.outcomes.extend(more);
    }
    let page = rendered(&many, "html");
    assert!(page.len() < HTML_BYTES_MAX, "{} bytes", page.len());
    assert!(page.contains("All comparisons") && page.contains("points are drawn"));
    assert_eq!(page.matches("aria-label=\"Latency of ").count(), 2 * 2 * 11);
}

#[test]
fn the_same_report_gives_the_same_bytes() {
    for form in FORMS {
        let bytes = || form.render(&document(&report(), None).unwrap()).unwrap();
        assert_eq!(bytes(), bytes());
    }
}

#[test]
fn magnified_window_holds_few_points_of_every_run() {
    let way = |step_micros: u64| -> Vec<HeadPoint> {
        let point = |index: u64| HeadPoint {
            time: Nanos::from_micros(index * step_micros),
            track: 1,
            operation: Operation::Read,
        };
        (0..50_000).map(point).collect()
    };
    let (fast, slow) = (way(10), way(30));
    let (start, end) = magnified(&[&fast, &slow], &slow, 400).unwrap();
    assert!(start < end);
    assert!(within(&fast, start, end).len() <= 400 && within(&slow, start, end).len() <= 400);
    assert_eq!(magnified(&[&fast[..100]], &fast[..100], 400), None);
}
