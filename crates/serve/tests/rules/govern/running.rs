//! Rules of the governor's loop, with real workers, sources, files and sockets.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use ioweir_block::real::Stop;
use ioweir_core::Nanos;
use ioweir_core::background::Service;
use ioweir_govern::clock::Clocks;
use ioweir_govern::run::{Plan, employment, run};
use ioweir_govern::source::{Reading, Source, SourceError};
use ioweir_govern::status::{GovernorStatus, ServiceStatus, Status};
use ioweir_govern::store::{Found, Store};
use ioweir_govern::view::View;
use ioweir_govern::worker::Position;

use super::overseer::Simple;
use super::{shell, worker_keys};

/// A source with few readings that asks the loop to stop after some of them.
struct Seen(u32, Stop);

impl Source for Seen {
    fn name(&self) -> String {
        "made up".into()
    }

    fn read(&mut self, _: ioweir_govern::clock::Moment) -> Result<Reading, SourceError> {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 {
            self.1.set();
        }
        Ok(Reading { requests: Some(5.0), latency_seconds: Some(0.001), ..Reading::default() })
    }
}

fn plan(folder: &std::path::Path, keys: &str, stop: &Stop) -> Plan {
    let keys = worker_keys(keys);
    let employment = employment("scrub", Service::Scrub, &keys);
    Plan {
        sources: vec![Box::new(Seen(3, stop.clone()))],
        workers: vec![(employment, keys, Position::default())],
        store: Some(Store::new(folder.join("state.json"))),
        span: None,
        view: None,
    }
}

#[test]
fn due_work_runs_in_parts_and_then_rests() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let step = shell(&format!("echo {{offset_bytes}} {{length_bytes}} >> {}", log.display()));
    let stop = Stop::default();
    // The step with the last part ends the run.
    let plan = plan(folder.path(), &format!("step = {step}\nsize = \"8GiB\""), &stop);
    let mut governor = Simple::new(Clocks::new().now().wall, 3 << 15);
    let mut said = Vec::new();
    run(plan, &mut governor, &stop, &mut |line| said.push(line.to_owned())).unwrap();
    let parts = fs::read_to_string(&log).unwrap();
    assert!(parts.starts_with("0 "), "{said:?}");
    assert!(!governor.samples.is_empty());
    let Ok(Found::Kept(kept)) = Store::new(folder.path().join("state.json")).load() else { panic!("no state") };
    assert!(kept.workers["scrub"].offset_bytes > 0);
}

#[test]
fn a_run_serves_page_metrics_and_health_locally() {
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::default();
    let mut plan = plan(folder.path(), "start = [\"true\"]\nend = [\"true\"]", &stop);
    plan.sources.clear();
    let view = View::start(&"tcp:127.0.0.1:0".parse().unwrap()).unwrap();
    let address = view.name().strip_prefix("tcp:").unwrap().to_owned();
    plan.view = Some(view);
    let get = move |path: &str, host: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let asking = std::thread::spawn({
        let stop = stop.clone();
        move || {
            // The metrics are empty until the first turn.
            let metrics = loop {
                let metrics = get("/metrics", "localhost");
                if metrics.contains("ioweir_govern_worker_running") {
                    break metrics;
                }
            };
            let all = (metrics, get("/", "localhost"), get("/health", "localhost"), get("/state", "evil.example"));
            stop.set();
            all
        }
    });
    let mut governor = Simple::new(Clocks::new().now().wall, 1 << 40);
    run(plan, &mut governor, &stop, &mut |_| {}).unwrap();
    let (metrics, page, health, foreign) = asking.join().unwrap();
    assert!(metrics.contains("ioweir_govern_worker_paid_bytes_total{service=\"scrub\"}"), "{metrics}");
    assert!(page.contains("a page") && page.contains("refresh: "), "{page}");
    assert!(health.ends_with("ok\n"), "{health}");
    assert!(foreign.starts_with("HTTP/1.1 403"), "{foreign}");
}

#[test]
fn metrics_cover_debt_slack_forecast_errors_and_violations() {
    let of = |name: &str, slack_seconds| {
        let (owed_bytes, late_bytes) = (4096, 512);
        ServiceStatus { name: name.into(), owed_bytes, late_bytes, slack_seconds, ..ServiceStatus::default() }
    };
    let governor = GovernorStatus {
        samples: 90,
        samples_above: 7,
        samples_above_beside_background: 2,
        forecast_error_share: Some(0.25),
        services: vec![of("scrub", Some(-60)), of("unmap", None)],
        ..GovernorStatus::default()
    };
    let metrics = Status { governor, ..Status::default() }.metrics();
    for line in [
        "ioweir_govern_owed_bytes{service=\"unmap\"} 4096.0",
        "ioweir_govern_late_bytes_total{service=\"scrub\"} 512.0",
        "ioweir_govern_deadline_slack_seconds{service=\"scrub\"} -60.0",
        "ioweir_govern_forecast_error_ratio{} 0.25",
        "ioweir_govern_samples_total{} 90.0",
        "ioweir_govern_violations_total{} 7.0",
        "ioweir_govern_felt_total{} 2.0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    assert!(!metrics.contains("slack_seconds{service=\"unmap\"}"), "it has no deadline\n{metrics}");
}

#[test]
fn a_governor_that_sees_too_little_is_unwell() {
    let governor = |is_stale| GovernorStatus { is_stale, ..GovernorStatus::default() };
    let troubles = |is_stale| Status { governor: governor(is_stale), ..Status::default() }.troubles();
    assert_eq!(troubles(true), "too little is seen of the foreground: only what is nearly due runs\n");
    assert_eq!(troubles(false), "");
}

#[test]
fn bad_workers_and_sources_make_a_run_unwell() {
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::default();
    let mut plan = plan(folder.path(), "start = [\"false\"]\nend = [\"true\"]", &stop);
    plan.sources = vec![Box::new(Blind)];
    let view = View::start(&"tcp:127.0.0.1:0".parse().unwrap()).unwrap();
    let address = view.name().strip_prefix("tcp:").unwrap().to_owned();
    plan.view = Some(view);
    let asking = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let get = |path: &str| {
                let mut stream = TcpStream::connect(&address).unwrap();
                write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer
            };
            // The pages are renewed every few seconds.
            let health = loop {
                let health = get("/health");
                if health.contains("scrub: ") && health.contains("blind: ") {
                    break health;
                }
            };
            let metrics = get("/metrics");
            stop.set();
            (health, metrics)
        }
    });
    let mut governor = Simple::new(Clocks::new().now().wall, 1 << 40);
    run(plan, &mut governor, &stop, &mut |_| {}).unwrap();
    let (health, metrics) = asking.join().unwrap();
    assert!(health.starts_with("HTTP/1.1 503") && health.contains("blind: sees nothing"), "{health}");
    for line in
        ["ioweir_govern_worker_broken{service=\"scrub\"} 1.0", "ioweir_govern_source_lost{source=\"blind\"} 1.0"]
    {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    let failures =
        metrics.lines().find_map(|line| line.strip_prefix("ioweir_govern_worker_failures_total{service=\"scrub\"} "));
    assert!(failures.is_some_and(|count| count != "0.0"), "{metrics}");
}

/// A source without readings.
struct Blind;

impl Source for Blind {
    fn name(&self) -> String {
        "blind".into()
    }

    fn read(&mut self, _: ioweir_govern::clock::Moment) -> Result<Reading, SourceError> {
        Err(SourceError("sees nothing".into()))
    }
}

#[test]
fn no_other_machine_is_shown_anything() {
    for place in ["tcp:0.0.0.0:0", "tcp:[::]:0"] {
        let error = View::start(&place.parse().unwrap()).map(drop).unwrap_err();
        assert!(error.contains("other machines could connect"), "{error}");
    }
}

#[test]
fn a_timed_run_ends_despite_a_hanging_worker() {
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::default();
    let keys = "start = [\"sleep\", \"20\"]\nend = [\"true\"]\nlimit = \"1h\"";
    let mut plan = plan(folder.path(), keys, &stop);
    plan.sources.clear();
    plan.span = Some(Nanos::from_millis(50));
    let mut governor = Simple::new(Clocks::new().now().wall, 1 << 40);
    let mut said = Vec::new();
    run(plan, &mut governor, &stop, &mut |line| said.push(line.to_owned())).unwrap();
    assert!(said.iter().any(|line| line.contains("its lease brings it back")), "{said:?}");
}
