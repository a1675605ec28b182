//! The gate before recommendations, and the requests that count for the goal.

use serde_json::Value;

use crate::compare::{Comparison, Goal, document, run};
use crate::document::Form;
use crate::run::{Origin, Silent};

fn json(comparison: &Comparison) -> (Value, String) {
    let origin = Origin { version: "1".into(), commit: "unknown".into(), command: String::new() };
    let document = document(&run(comparison, &origin, &Silent).expect("it runs"), None).expect("a document");
    let form = Form::from_file_name("a.json").expect("a form");
    let json = serde_json::from_slice(&form.render(&document).expect("JSON")).expect("JSON");
    (json, document.to_terminal(false))
}

#[test]
fn a_preset_that_the_trace_contradicts_recommends_nothing() {
    let file = |cpu: u32| format!("{}/../../traces/oltp/oltp.blktrace.{cpu}.gz", env!("CARGO_MANIFEST_DIR"));
    for load in ["recorded", "closed:4"] {
        let comparison = Comparison {
            traces: vec![file(0), file(1)],
            loads: vec![load.parse().expect("a load")],
            schedulers: ["none", "mq-deadline"].map(|name| name.parse().expect("it")).into(),
            ..Comparison::default()
        };
        let (json, text) = json(&comparison);
        let advice = &json["advice"][0];
        assert_eq!(advice["decision"], "calibrate", "{advice}");
        assert!(advice["scheduler"].is_null() && advice["command"].is_null(), "{advice}");
        assert!(!text.contains("echo "), "{text}");
        assert!(text.contains("No recommendation") && text.contains("Calibrate first: ioweir calibrate "), "{text}");
        assert!(text.contains("Hadoop node"), "the preset is described: {text}");
        assert_eq!(json["standings"][0]["kind"], "assumed");
    }
}

/// With `of` the requests are looked at before the runs, and without it by the first run.
#[test]
fn evidence_is_alike_before_runs_and_from_one() {
    let file = |cpu: u32| format!("{}/../../traces/oltp/oltp.blktrace.{cpu}.gz", env!("CARGO_MANIFEST_DIR"));
    let plain = Comparison {
        traces: vec![file(0), file(1)],
        schedulers: ["none", "mq-deadline"].map(|name| name.parse().expect("it")).into(),
        ..Comparison::default()
    };
    let [mut from_run, mut before] = [None, Some("all".into())].map(|of| json(&Comparison { of, ..plain.clone() }).0);
    for of_one in [&mut from_run, &mut before] {
        of_one["meta"].take();
    }
    assert_eq!(from_run, before);
}

/// A database at the usual priority beside a scrub of the idle class.
fn scrubbed() -> (tempfile::TempDir, Comparison) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lines = vec!["# tracer: nop".to_owned()];
    let (mut db, mut scrub) = (0_u64, 210_000_000_u64);
    for tick in 0..400_u64 {
        let micros = 10_000_000 + tick * 25_000;
        let line = |name: &str, micros: u64, bytes: u64, sector: u64, class: &str| {
            let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
            let sectors = bytes / 512;
            format!(
                "{name} [000] ..... {seconds}.{rest:06}: block_rq_insert: 8,0 R {bytes} () {sector} + {sectors} {class}"
            )
        };
        if tick % 2 == 0 {
            for number in 0..6 {
                lines.push(line("scrub-777", micros + number, 262_144, scrub, "idle,0,7 [scrub]"));
                scrub += 512;
            }
        }
        db = (db + 77_777_777) % 150_000_000;
        lines.push(line("db-501", micros + 20, 8_192, db / 16 * 16, "be,0,4 [db]"));
    }
    let path = folder.path().join("scrub.ftrace");
    std::fs::write(&path, lines.join("\n") + "\n").expect("a file");
    let mut comparison = Comparison {
        traces: vec![path.display().to_string()],
        schedulers: ["none", "mq-deadline", "bfq"].map(|name| name.parse().expect("it")).into(),
        goal: Goal::ReadP99,
        ..Comparison::default()
    };
    comparison.placing.reading.event = ioweir_trace::Event::Insert;
    (folder, comparison)
}

#[test]
fn idle_class_requests_count_only_when_asked() {
    let (_folder, plain) = scrubbed();
    let best = |comparison: &Comparison| json(comparison).0["advice"][0].clone();
    let foreground = best(&plain);
    assert_eq!(foreground["scheduler"], "mq-deadline", "{foreground}");
    assert_eq!(foreground["of"], "requests that are not of the idle class");
    for name in ["db", "501", "501 db", "be"] {
        let of_db = best(&Comparison { of: Some(name.into()), ..plain.clone() });
        assert_eq!(of_db["scheduler"], "mq-deadline", "{name}: {of_db}");
    }
    let scrub = best(&Comparison { of: Some("idle".into()), ..plain.clone() });
    assert_eq!(scrub["scheduler"], "none", "{scrub}");
    assert!(best(&Comparison { of: Some("all".into()), ..plain.clone() })["of"].is_null());
    let origin = Origin { version: "1".into(), commit: "unknown".into(), command: String::new() };
    let error = run(&Comparison { of: Some("dbb".into()), ..plain }, &origin, &Silent).expect_err("no such stream");
    assert!(error.to_string().contains("`dbb`") && error.to_string().contains("501 db"), "{error}");
}

#[test]
fn each_stream_has_its_own_advice() {
    let (_folder, plain) = scrubbed();
    let (json, text) = json(&Comparison { by_stream: true, ..plain });
    let of = |name: &str| {
        let all = json["advice"].as_array().expect("a list");
        all.iter().find(|advice| advice["of"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
    };
    assert_eq!(of("501 db")["scheduler"], "mq-deadline");
    assert_eq!(of("777 scrub")["scheduler"], "none");
    assert!(text.contains("The best for each stream"), "{text}");
}
