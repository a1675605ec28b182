//! Does every form say the same, survive hostile names, and stay within its limits?

mod fixture;
mod page;

use super::*;
use fixture::{report, report_of};

fn plain() -> View {
    View::default()
}

#[test]
fn terminal_reads_as_drawn() {
    insta::assert_snapshot!(render_terminal(&report(), &plain()).unwrap());
}

#[test]
fn terminal_in_bold_says_the_same() {
    let bold = render_terminal(&report(), &View { colour: true, ..plain() }).unwrap();
    assert!(bold.contains("\u{1b}[1m"));
    let mut text = bold;
    while let Some(start) = text.find('\u{1b}') {
        let end = start + text[start..].find('m').unwrap();
        text.replace_range(start..=end, "");
    }
    assert_eq!(text, render_terminal(&report(), &plain()).unwrap());
}

#[test]
fn relative_completion_follows_the_reference() {
    let view = View { reference: Some("cfq".into()), ..plain() };
    let text = render_terminal(&report(), &view).unwrap();
    let cfq = text.lines().find(|line| line.starts_with("cfq:quantum=2")).unwrap();
    assert!(cfq.contains("x1.00"), "{cfq}");
    let missing = View { reference: Some("bfq".into()), ..plain() };
    assert_eq!(
        render_terminal(&report(), &missing).unwrap_err().to_string(),
        "reference scheduler `bfq` is not compared\n  expected: one of noop, cfq:quantum=2, bid-hdd"
    );
}

#[test]
fn json_reads_as_documented() {
    insta::assert_snapshot!(render_json(&report()).unwrap());
}

#[test]
fn csv_has_a_row_a_result() {
    let text = render_csv(&report());
    insta::assert_snapshot!(text);
    let mut lines = text.lines();
    let columns = lines.next().unwrap().split(',').count();
    assert!(lines.clone().count() == 6 && lines.all(|line| line.split(',').count() == columns));
}

#[test]
fn csv_quotes_what_it_must() {
    let mut report = report();
    report.outcomes.truncate(1);
    report.outcomes[0].trace = "a,\"b\"\nc".into();
    assert!(render_csv(&report).contains("\n\"a,\"\"b\"\"\nc\",recorded,"));
}

#[test]
fn markdown_reads_as_drawn() {
    insta::assert_snapshot!(render_markdown(&report(), &plain()).unwrap());
}

#[test]
fn markup_in_names_stays_text() {
    let mut report = report();
    for outcome in &mut report.outcomes {
        outcome.trace = "a|b*<script>\u{1b}[2J".into();
    }
    let markdown = render_markdown(&report, &plain()).unwrap();
    assert!(markdown.contains("## a\\|b\\*&lt;script&gt;\\\\u{1b}\\[2J on"), "{markdown}");
    let terminal = render_terminal(&report, &plain()).unwrap();
    assert!(!terminal.contains('\u{1b}'));
}

#[test]
fn a_form_is_known_by_its_suffix() {
    assert_eq!(Form::from_file_name("out/Report.HTML"), Some(Form::Html));
    assert_eq!(Form::from_file_name("report.md"), Some(Form::Markdown));
    assert_eq!(Form::from_file_name("json"), None);
    assert_eq!(Form::from_file_name("report.pdf"), None);
}

#[test]
fn an_empty_run_has_no_quantiles() {
    let mut empty = report_of(0, 0);
    empty.outcomes.truncate(1);
    let value: serde_json::Value = serde_json::from_str(&render_json(&empty).unwrap()).unwrap();
    let result = &value["results"][0];
    assert!(result["latency_p99_seconds"].is_null() && result["throughput_bytes_per_second"].is_null());
    assert_eq!(result["latency_samples"], 0);
    for form in FORMS {
        assert!(!render(&empty, form.form, &plain()).unwrap().is_empty());
    }
    assert!(render_terminal(&empty, &plain()).unwrap().contains("The trace holds no requests."));
}

#[test]
fn the_headline_does_not_oversell() {
    let mut report = report();
    let slowest = report.outcomes[0].completion;
    for (index, outcome) in report.outcomes.iter_mut().enumerate() {
        outcome.completion = ioweir_core::Nanos(slowest.0 - index as u64);
        outcome.busy = ioweir_core::Nanos(slowest.0 / 5);
    }
    let sections = sections(&report, &plain()).unwrap();
    insta::assert_snapshot!(headline::headline(&sections[0]), @"Completion hardly depends on the scheduler: all 3 finish within 0.1 % of each other. The device is busy 20 % of the time, so the pauses of the trace set the pace; busy time says more. Mean latency depends on it: 2.25 ms with bid-hdd, 8.30 ms with noop.");
}
