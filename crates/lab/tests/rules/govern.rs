//! The governor: what it plans, when it yields, what a restart changes (nothing), and that deadlines are kept.

#![allow(clippy::unwrap_used, reason = "tests: a failure is to stop the test")]

use std::collections::BTreeMap;

use ioweir_core::Nanos;
use ioweir_lab::govern::{GovernSpec, Governor, Hold, Sample, Service, Slice, SliceTag, State, Step};

const SECOND: Nanos = Nanos::from_seconds(1);
/// Monday, 2026-03-02 00:00 UTC.
const MONDAY: Nanos = Nanos::from_seconds(1_772_409_600);

fn hours(hours: u64) -> Nanos {
    Nanos::from_seconds(3600 * hours)
}

/// A device with workers that do as they are told: `rate` bytes a second of its time. Each step is ten seconds.
struct Bench {
    governor: Governor,
    now: Nanos,
    rate: u64,
    running: BTreeMap<usize, (Slice, Nanos)>,
    /// How far beyond a slice's end a worker goes on, and ignores what it is told.
    hangs: bool,
    /// What was done: when, and what.
    log: Vec<(Nanos, String)>,
}

const STEP: Nanos = Nanos::from_seconds(10);

impl Bench {
    fn new(spec: &str) -> Self {
        let spec = GovernSpec::parse("govern.toml", spec).unwrap();
        let governor = Governor::new(&spec, MONDAY).unwrap();
        Self { governor, now: MONDAY, rate: 200_000_000, running: BTreeMap::new(), hangs: false, log: Vec::new() }
    }

    /// One step with a foreground that keeps the device busy for so many thousandths.
    fn step(&mut self, busy_per_mille: u64, latency: Option<Nanos>) {
        let sample = Sample {
            span: STEP,
            requests: busy_per_mille,
            busy: Nanos(STEP.0 / 1000 * busy_per_mille),
            background_busy: Some(Nanos::ZERO),
            latency,
            ..Sample::default()
        };
        self.now = self.now.after(STEP);
        if !self.hangs {
            let over: Vec<(Slice, Nanos)> =
                self.running.values().filter(|(slice, _)| slice.ends_at <= self.now).copied().collect();
            over.into_iter().for_each(|(slice, since)| self.complete(slice, since));
        }
        self.governor.sample(self.now, &sample);
        self.drain();
    }

    fn complete(&mut self, slice: Slice, since: Nanos) {
        let part = u128::from(self.now.since(since).0.min(slice.ends_at.since(since).0));
        let whole = u128::from(slice.ends_at.since(since).0.max(1));
        let bytes = (u128::from(slice.bytes) * part / whole) as u64;
        let took = Nanos((u128::from(bytes) * 1_000_000_000 / u128::from(self.rate)) as u64);
        self.running.remove(&slice.tag.place());
        assert!(self.governor.complete(self.now, slice.tag, bytes, took));
        self.log.push((self.now, format!("{} {bytes}", slice.service.name())));
    }

    fn drain(&mut self) -> Step {
        loop {
            match self.governor.poll(self.now) {
                Step::Run(slice) => {
                    self.log.push((self.now, format!("run {slice:?}")));
                    self.running.insert(slice.tag.place(), (slice, self.now));
                }
                Step::Pause(tag) => self.told("pause", tag),
                Step::End(tag) => self.told("end", tag),
                step => return step,
            }
        }
    }

    fn told(&mut self, what: &str, tag: SliceTag) {
        self.log.push((self.now, what.to_owned()));
        if !self.hangs
            && let Some((slice, since)) = self.running.get(&tag.place()).copied()
        {
            self.complete(slice, since);
        }
    }

    fn owed(&self) -> u64 {
        self.governor.status(self.now).services[0].owed_bytes
    }

    /// Runs for some hours, busy from eight to eighteen.
    fn days(&mut self, count: u64, idle: u64, busy: u64) {
        let end = self.now.after(hours(count));
        while self.now < end {
            let hour = self.now.0 / 3_600_000_000_000 % 24;
            self.step(if (8..18).contains(&hour) { busy } else { idle }, Some(Nanos::from_millis(5)));
        }
    }
}

const SCRUB: &str = "[objective]\nlatency_max = \"20ms\"\n[service.scrub]\nowed = \"1TiB\"\nevery = \"7d\"\ndeadline = \"2d\"\n\
    [forecast]\nbin = \"1h\"\nhorizon = \"3d\"\n";

#[test]
fn a_scrub_is_done_in_time_in_the_quiet_hours_and_its_cost_is_learnt() {
    let mut bench = Bench::new(SCRUB);
    bench.days(24, 100, 800);
    let at_night = bench.log.len();
    bench.days(24, 100, 800);
    assert_eq!(bench.owed(), 0, "{:?}", bench.governor.status(bench.now));
    assert!(at_night > 0);
    let service = &bench.governor.status(bench.now).services[0];
    assert_eq!(service.count.late_bytes, 0);
    assert!((190_000_000..210_000_000).contains(&service.bytes_per_device_second), "{service:?}");
}

#[test]
fn what_is_felt_pauses_a_slice_at_once_and_calm_lets_it_go_on() {
    let mut bench = Bench::new(SCRUB);
    for _ in 0..6 {
        bench.step(100, Some(Nanos::from_millis(5)));
    }
    assert_eq!(bench.running.len(), 1);
    bench.step(100, Some(Nanos::from_millis(50)));
    assert!(bench.log.iter().any(|(_, what)| what == "pause"));
    for _ in 0..12 {
        bench.step(100, Some(Nanos::from_millis(50)));
    }
    assert!(bench.running.is_empty());
    assert!(matches!(bench.drain(), Step::WaitUntil(_, Hold::Objective)), "{:?}", bench.governor.status(bench.now));
    assert!(bench.governor.status(bench.now).samples_above_beside_background > 0);
    for _ in 0..24 {
        bench.step(100, Some(Nanos::from_millis(5)));
    }
    assert_eq!(bench.running.len(), 1);
}

#[test]
fn a_worker_that_hangs_is_paused_then_ended_then_reported() {
    let mut bench = Bench::new(SCRUB);
    bench.step(100, None);
    bench.step(100, None);
    assert_eq!(bench.running.len(), 1);
    bench.hangs = true;
    for _ in 0..8 {
        bench.step(100, None);
    }
    let told: Vec<&str> =
        bench.log.iter().map(|(_, what)| what.as_str()).filter(|what| matches!(*what, "pause" | "end")).collect();
    assert_eq!(told, ["pause", "end"]);
    assert_eq!(bench.governor.status(bench.now).services[0].count.overruns, 1);
    // Its service gets no other slice until it answers.
    assert_eq!(bench.running.len(), 1);
}

#[test]
fn without_samples_nothing_but_deadlines_gets_time() {
    let mut bench = Bench::new(SCRUB);
    assert!(matches!(bench.drain(), Step::WaitUntil(_, Hold::Foreground)));
    bench.step(100, None);
    bench.step(100, None);
    assert_eq!(bench.running.len(), 1);
    bench.now = bench.now.after(Nanos::from_seconds(60));
    let (slice, since) = bench.running[&0];
    bench.complete(slice, since);
    assert!(matches!(bench.drain(), Step::WaitUntil(_, Hold::Foreground)));
    assert!(bench.governor.status(bench.now).is_stale);
    bench.now = bench.now.after(hours(47));
    let _ = bench.drain();
    assert_eq!(bench.running.len(), 1, "the deadline is an hour away");
}

/// What two governors do is the same, though one is restarted from its state now and then.
#[test]
fn a_governor_that_is_restarted_at_any_time_decides_as_one_that_is_not() {
    let (mut one, mut other) = (Bench::new(SCRUB), Bench::new(SCRUB));
    for turn in 0..9000_u64 {
        let busy = turn * 7919 % 900;
        let latency = (turn % 3 > 0).then(|| Nanos::from_millis(turn * 31 % 24));
        for bench in [&mut one, &mut other] {
            bench.hangs = turn % 500 > 480;
            bench.step(busy, latency);
        }
        if turn % 97 == 0 {
            let text = serde_json::to_string(&other.governor.state()).unwrap();
            let state: State = serde_json::from_str(&text).unwrap();
            let spec = other.governor.spec().clone();
            other.governor = Governor::resume(&spec, other.now, state).unwrap();
        }
    }
    assert!(one.log.len() > 100);
    assert_eq!(one.log, other.log);
    assert_eq!(one.governor.status(one.now), other.governor.status(other.now));
    assert_eq!(one.governor.ahead(), other.governor.ahead());
    let _ = SECOND;
    let _ = Service::Scrub;
}
