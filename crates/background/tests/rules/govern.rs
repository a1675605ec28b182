//! Tests of the governor: plans, yielding, restarts (which change nothing) and deadlines.

#![allow(clippy::unwrap_used, reason = "tests: a failure is to stop the test")]

#[path = "../../../../fuzz/drive_govern.rs"]
mod drive_govern;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ioweir_background::govern::{GovernSpec, Governor, Hold, Sample, Slice, SliceTag, State, Step, document};
use ioweir_core::Nanos;
use ioweir_core::background::SERVICES_COUNT;
use ioweir_lab::document::Block;

/// Monday, 2026-03-02 00:00 UTC.
const MONDAY: Nanos = Nanos::from_seconds(1_772_409_600);

fn hours(hours: u64) -> Nanos {
    Nanos::from_seconds(3600 * hours)
}

/// A device with workers that do as they are told: `rate` bytes a second of its time. It is looked at once a step.
struct Bench {
    governor: Governor,
    now: Nanos,
    step: Nanos,
    rate: u64,
    /// The part of its work that a slice does, in percent.
    done_percent: u64,
    running: BTreeMap<usize, (Slice, Nanos)>,
    /// How long a worker goes on beyond a slice's end, ignoring orders.
    hangs: bool,
    /// The log of actions, each with its time.
    log: Vec<(Nanos, String)>,
}

const STEP: Nanos = Nanos::from_seconds(10);

impl Bench {
    /// A governor that gives rates, and takes time from the foreground for what is nearly due.
    fn new(spec: &str) -> Self {
        Self::of(&format!("idle_class = false\nforce = true\n{spec}"))
    }

    fn of(spec: &str) -> Self {
        let spec = GovernSpec::parse("govern.toml", spec).unwrap();
        let governor = Governor::new(&spec, MONDAY).unwrap();
        let running = BTreeMap::new();
        Self {
            governor,
            now: MONDAY,
            step: STEP,
            rate: 200_000_000,
            done_percent: 100,
            running,
            hangs: false,
            log: Vec::new(),
        }
    }

    /// One step with a foreground that keeps the device busy for so many thousandths.
    fn step(&mut self, busy_per_mille: u64, latency: Option<Nanos>) {
        let sample = Sample {
            span: self.step,
            requests: busy_per_mille,
            busy: Nanos(self.step.0 / 1000 * busy_per_mille),
            background_busy: Some(Nanos::ZERO),
            latency,
            ..Sample::default()
        };
        self.now = self.now.after(self.step);
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
        let bytes = (u128::from(slice.bytes) * part / whole) as u64 * self.done_percent / 100;
        let took = Nanos((u128::from(bytes) * 1_000_000_000 / u128::from(self.rate)) as u64);
        self.running.remove(&slice.tag.place());
        assert!(self.governor.complete(self.now, slice.tag, bytes, took));
        self.log.push((self.now, format!("{} {bytes}", slice.service.name())));
    }

    fn drain(&mut self) -> Step {
        for _ in 0..100 {
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
        panic!("it goes round: {:?}", &self.log[self.log.len() - 4..]);
    }

    fn told(&mut self, what: &str, tag: SliceTag) {
        self.log.push((self.now, what.to_owned()));
        if !self.hangs
            && let Some((slice, since)) = self.running.get(&tag.place()).copied()
        {
            self.complete(slice, since);
        }
    }

    /// The next slice, which begins within a minute.
    fn begun(&mut self, busy_per_mille: u64) -> (Slice, Nanos) {
        for _ in 0..6 {
            self.step(busy_per_mille, None);
            if let Some((_, begun)) = self.running.pop_first() {
                return begun;
            }
        }
        panic!("nothing begins");
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
fn scrub_ends_in_time_and_teaches_its_cost() {
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
fn felt_latency_pauses_calm_resumes() {
    let mut bench = Bench::new(&format!("slice = \"1m\"\n{SCRUB}"));
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
fn hanging_worker_is_paused_ended_reported() {
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
    // The service gets no other slice until the worker answers.
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

/// Two governors decide the same, though one is restarted from its state now and then.
#[test]
fn restarts_do_not_change_a_governors_decisions() {
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
}

#[test]
fn nothing_in_the_corpus_breaks_the_governor() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/govern");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        drive_govern::drive(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 5);
}

/// A governor after some days of work.
fn midst() -> Bench {
    let mut bench = Bench::new(SCRUB);
    bench.days(30, 100, 700);
    bench
}

#[test]
fn state_of_older_plans_is_read() {
    let bench = midst();
    let mut state = serde_json::to_value(bench.governor.state()).unwrap();
    // The words of limits: for the one directive of a device, which holds, the limit, and whether each service can wait; then the costs of
    // services.
    let limits = 2 * (1 + SERVICES_COUNT) + SERVICES_COUNT;
    state["version"] = 2.into();
    let words = state["executor"].as_array_mut().unwrap();
    words.truncate(words.len() - limits);
    let resume = |state: &serde_json::Value| {
        let state: State = serde_json::from_value(state.clone()).unwrap();
        Governor::resume(bench.governor.spec(), bench.now, state)
    };
    let mut governor = resume(&state).unwrap();
    let now = Nanos(bench.now.0 + bench.governor.spec().bin().0);
    let _ = governor.poll(now);
    assert_eq!(serde_json::to_value(governor.state()).unwrap()["version"], 3);
    state["executor"].as_array_mut().unwrap().pop();
    assert!(resume(&state).is_err(), "a word is missing");
}

#[test]
fn a_damaged_state_is_refused_or_works() {
    let bench = midst();
    let text = serde_json::to_string(&bench.governor.state()).unwrap();
    let places: Vec<usize> = text.match_indices(|letter: char| letter.is_ascii_digit()).map(|(at, _)| at).collect();
    let (mut refused, mut taken) = (0, 0);
    for turn in 0..400 {
        let place = places[turn * 7919 % places.len()];
        let mut damaged = text.clone();
        let digit = (turn % 10).to_string();
        damaged.replace_range(place..=place, if turn % 5 == 0 { "" } else { &digit });
        let Ok(state) = serde_json::from_str::<State>(&damaged) else {
            refused += 1;
            continue;
        };
        match Governor::resume(bench.governor.spec(), bench.now, state) {
            Ok(mut governor) => {
                let _ = (governor.poll(bench.now), governor.status(bench.now));
                taken += 1;
            }
            Err(error) => {
                assert!(!error.problem.is_empty() && !error.expected.is_empty());
                refused += 1;
            }
        }
    }
    assert!(refused > 5 && taken > 5, "both happen: {refused} and {taken}");
}

#[test]
fn foreign_or_future_state_is_refused() {
    let bench = midst();
    let resume = |spec: &str, now| {
        let spec = GovernSpec::parse("govern.toml", spec).unwrap();
        Governor::resume(&spec, now, bench.governor.state()).map(|_| ()).unwrap_err().to_string()
    };
    let other = format!("{SCRUB}[service.unmap]\nshare_percent = 100\n");
    assert!(resume(&other, bench.now).contains("another spec"), "{}", resume(&other, bench.now));
    let before = Nanos(bench.now.0 - hours(2).0);
    assert!(resume(SCRUB, before).contains("7200 s after now"), "{}", resume(SCRUB, before));
    // A clock that is a little behind is no reason to forget.
    let mut governor =
        Governor::resume(bench.governor.spec(), Nanos(bench.now.0 - 1_000_000_000), bench.governor.state()).unwrap();
    let _ = governor.poll(Nanos(bench.now.0 - 1_000_000_000));
}

#[test]
fn jumping_clock_leaves_a_gap_or_stops() {
    let mut bench = midst();
    let owed = bench.owed();
    let then = bench.now;
    // The clock goes back: the governor keeps its time.
    let _ = bench.governor.poll(hours(1));
    bench.governor.sample(hours(1), &Sample { span: STEP, ..Sample::default() });
    assert_eq!((bench.owed(), bench.governor.past().len()), (owed, 30));
    // Ten hours forwards, and a century.
    bench.now = then.after(hours(10));
    bench.step(100, None);
    assert_eq!(bench.governor.past().len(), 40);
    assert_eq!(bench.governor.past()[35].actual_per_mille, None, "a gap is no idle bin");
    bench.now = then.after(hours(24 * 36_500));
    bench.step(100, None);
    assert!(bench.governor.past().len() < 2);
    assert!(bench.governor.status(bench.now).services[0].due_unix_seconds.is_some());
}

#[test]
fn clock_put_back_keeps_debt_and_knowledge() {
    let spec = SCRUB.replace("\"7d\"", "\"2d\"").replace("deadline = \"2d\"", "deadline = \"1d\"");
    let mut bench = Bench::new(&spec);
    bench.days(2 * 24 + 1, 100, 800);
    // The second pass is owed since midnight; then the clock was wrong for five hours.
    let then = bench.now;
    let due = |bench: &Bench| bench.governor.status(bench.now).services[0].clone();
    bench.now = then.after(hours(5));
    bench.step(100, None);
    let before = due(&bench);
    bench.running.clear();
    bench.now = then;
    bench.governor.set_back(then);
    assert!(before.owed_bytes > 0);
    assert_eq!(bench.owed(), before.owed_bytes, "what ran is owed again, and nothing is owed twice");
    assert_eq!(due(&bench).count.paid_bytes, before.count.paid_bytes);
    assert_eq!(bench.governor.past().last().unwrap().start_unix_seconds, (then.0 / 1_000_000_000) as i64 - 3600);
    // The governor plans from what it has learnt, at the right hours.
    let ahead = bench.governor.ahead();
    let at = |hour: usize| ahead[hour].forecast_per_mille[1];
    assert!((80..130).contains(&at(0)) && (700..900).contains(&at(10)), "{} at one, {} at eleven", at(0), at(10));
    // The scrub is done in time, by the clock as it is now.
    bench.days(24, 100, 800);
    let status = due(&bench);
    assert_eq!((status.owed_bytes, status.count.late_bytes), (0, 0), "{status:?}");
    assert!(status.count.paid_bytes > before.count.paid_bytes);
    // Before all that it knows: it has everything to learn.
    bench.running.clear();
    bench.now = Nanos(MONDAY.0 - hours(24 * 365).0);
    bench.governor.set_back(bench.now);
    bench.step(100, None);
    assert!(bench.governor.past().is_empty());
}

#[test]
fn earlier_measurements_are_learnt_without_debt() {
    let day = |hour: u64| if (8..18).contains(&(hour % 24)) { 800 } else { 100 };
    let sample = |hour: u64| {
        let busy = Nanos(hours(1).0 / 1000 * day(hour));
        (MONDAY.after(hours(hour + 1)), Sample { span: hours(1), busy, ..Sample::default() })
    };
    let spec = GovernSpec::parse("govern.toml", SCRUB).unwrap();
    let now = MONDAY.after(hours(14 * 24));
    let mut governor = Governor::new(&spec, now).unwrap();
    governor.recall((0..14 * 24).map(sample));
    let ahead = governor.ahead();
    assert_eq!(ahead.len(), 72);
    let [_, night, _] = ahead[3].forecast_per_mille;
    let [_, noon, _] = ahead[12].forecast_per_mille;
    assert!((80..130).contains(&night) && (700..900).contains(&noon), "{night} at night, {noon} at noon");
    assert!(governor.past().is_empty());
}

#[test]
fn spec_errors_have_their_place() {
    for (spec, place, words) in [
        ("[service.scrub]\nowed = \"1TiB\"\nevery = \"1m\"\n", "3:9", "shorter than a bin of 10m"),
        ("[service.scrub]\nevery = \"7d\"\n", "2:9", "not said what is owed"),
        ("[service.scub]\nowed = \"1TiB\"\n", "1:", "scub"),
        ("slice = \"1ms\"\n[service.scrub]\nowed = \"1TiB\"\n", "1:9", "out of range"),
        ("idle_class = false\nheadroom_percent = 101.0\n[service.scrub]\nowed = \"1TiB\"\n", "2:20", "no percentage"),
        ("headroom_percent = 5.0\n[service.scrub]\nowed = \"1TiB\"\n", "1:20", "idle_class = false"),
        (
            "force = true\n[cores]\ncount = 2\nforeground_iops = 5\n[service.scrub]\nowed = \"1TiB\"\n",
            "1:9",
            "one device",
        ),
        ("[service.scrub]\nowed = \"1TiB\"\nhours = [\"8-18\"]\n", "3:", "22:00-06:00"),
        ("[service.scrub]\nowed = \"1TiB\"\nhours = [\"08:00-08:05\"]\n", "3:9", "as long as a bin"),
        ("watermark = { low_percent = 1, high_percent = 2 }\n[service.scrub]\nowed = \"1GiB\"\n", "1:13", "no [pool]"),
        ("[service.scrub]\nowed = \"1TiB\"\nshare_percent = 5\n", "3:17", "not fed by writes"),
        ("[service.scrub]\nowed = \"1TiB\"\niops_max = \"0/s\"\n", "3:12", "a rate of nothing"),
        ("unique_percent = 101\n[service.scrub]\nowed = \"1TiB\"\n", "1:18", "no percentage"),
        ("unique_percent = 5\n[service.scrub]\nowed = \"1TiB\"\n", "1:18", "nothing depends on what is written"),
        ("[service.flush]\nshare_percent = 5\ndeadline = \"10m\"\n", "3:12", "counted after 10m, and would be late"),
        ("[service.flush]\nshare_percent = 5\ndeadline = \"609s\"\n", "3:12", "610s or more"),
        ("[service.flush]\nshare_percent = 5\nevery = \"1h\"\ndeadline = \"1h\"\n", "4:12", "3610s or more"),
        ("[forecast]\nbin = \"7m\"\n[service.scrub]\nowed = \"1TiB\"\n", "2:7", "whole part of a day"),
        ("", "govern.toml", "nothing to govern"),
    ] {
        let error = GovernSpec::parse("govern.toml", spec).unwrap_err().to_string();
        assert!(error.contains(place) && error.contains(words), "{spec}: {error}");
    }
    let spec = GovernSpec::parse("govern.toml", SCRUB).unwrap();
    assert_eq!(GovernSpec::parse("again.toml", &spec.to_toml()).unwrap(), spec);
}

#[test]
fn written_data_is_due_from_its_bins_begin() {
    let spec = "slice = \"20s\"\n[service.flush]\nshare_percent = 50\nretention = \"5m\"\ndeadline = \"10m\"\n";
    let mut bench = Bench::new(spec);
    let written = Sample { span: STEP, written_bytes: 1 << 20, ..Sample::default() };
    for _ in 0..60 {
        bench.now = bench.now.after(STEP);
        bench.governor.sample(bench.now, &written);
    }
    let flush = &bench.governor.status(bench.now).services[0];
    let due = (MONDAY.0 / 1_000_000_000) as i64 + 15 * 60;
    assert_eq!((flush.owed_bytes, flush.due_unix_seconds), (30 << 20, Some(due)));
    GovernSpec::parse("govern.toml", &spec.replace("5m", "20s")).unwrap();
    GovernSpec::parse("govern.toml", &spec.replace("5m", "19s")).unwrap_err();
}

#[test]
fn initial_debt_is_planned_from_first_bin() {
    let bench = Bench::new(SCRUB);
    let pays: u64 = bench.governor.ahead().iter().flat_map(|bin| &bin.pay_bytes).map(|(_, bytes)| bytes).sum();
    assert!(bench.owed() == 1 << 40 && pays.abs_diff(1 << 40) < 1 << 10, "{pays}");
}

#[test]
fn a_deadline_that_cannot_be_kept_is_said() {
    // At 200 MB/s of an idle device, of which a tenth is kept free, 5 TiB take 8.5 hours.
    let spec = "[service.scrub]\nowed = \"5TiB\"\ndeadline = \"4h\"\nexpected_rate = \"200MB/s\"\n\
                [forecast]\nbin = \"1h\"\nhorizon = \"1d\"\n";
    let notes = |spec: &str| {
        let bench = Bench::new(spec);
        bench.governor.status(bench.now).notes
    };
    let told = |spec: &str| notes(spec).iter().any(|note| note.starts_with("the deadline of scrub cannot be kept"));
    assert!(told(spec) && told(&spec.replace("5TiB", "50TiB")), "{:?}", notes(spec));
    assert!(!notes(&spec.replace("4h", "12h")).iter().any(|note| note.contains("deadline")));
    let slow = notes(&spec.replace("4h", "12h\"\nbytes_per_second_max = \"50MB/s"));
    assert!(slow.iter().any(|note| note.contains("its rate is the limit")), "{slow:?}");
}

#[test]
fn page_shows_forecast_payments_and_debt() {
    let mut bench = Bench::new(SCRUB);
    bench.days(12, 100, 800);
    let page = document(&bench.governor, bench.now).unwrap();
    let chart = |title: &str| {
        let figures =
            page.blocks.iter().filter_map(|block| if let Block::Figure(figure) = block { Some(figure) } else { None });
        let chart = figures.flat_map(|figure| &figure.charts).find(|chart| chart.title == title);
        chart.unwrap_or_else(|| panic!("there is no chart of {title}"))
    };
    let load = chart("Foreground");
    let series = |name: &str| load.series.iter().find(|series| series.name == name).unwrap();
    let (past, ahead) = (bench.governor.past(), bench.governor.ahead());
    assert_eq!((past.len(), series("measured").points.len()), (12, 12));
    let band = &series("forecast").band;
    assert!(band.len() >= ahead.len() && band.iter().all(|(_, low, high)| low <= high), "{band:?}");
    // The chart's sum of gigabytes equals the status.
    let status = &bench.governor.status(bench.now).services[0];
    let until_now: f64 = chart("Paid").series[0].points[..past.len()].iter().map(|(_, paid)| paid).sum();
    let in_bins: u64 = past.iter().flat_map(|bin| &bin.paid_bytes).map(|(_, bytes)| bytes).sum();
    assert!(in_bins > 0 && in_bins <= status.count.paid_bytes, "{in_bins} {status:?}");
    assert!((until_now * 1e9 - in_bins as f64).abs() < 1e6, "{until_now} {in_bins}");
    let owed = chart("Owed").series[0].points[past.len() - 1].1;
    assert!((owed * 1e9 - past[past.len() - 1].owed_bytes[0].1 as f64).abs() < 1e6, "{owed}");
    let text = page.to_terminal(false);
    for part in ["error of the forecast, last day", "what was felt", "slack", "The coming day"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn distant_due_times_have_a_date() {
    for (deadline, due) in [("6d", "Sun 00:00"), ("7d", "Mon 2026-03-09 00:00")] {
        let bench = Bench::new(&format!("[service.scrub]\nowed = \"1GiB\"\ndeadline = \"{deadline}\"\n"));
        let text = document(&bench.governor, bench.now).unwrap().to_terminal(false);
        assert!(text.contains(&format!("1 GiB   {due}   ")), "{due}\n{text}");
    }
}

#[test]
fn cores_and_a_pool_are_governed_too() {
    let spec = GovernSpec::parse(
        "cores.toml",
        "[cores]\ncount = 8\nforeground_iops = 50\n[pool]\nsize = \"100GiB\"\nblock = \"1MiB\"\n[forecast]\nbin = \"10m\"\n\
         horizon = \"1d\"\n[service.snapshot-delete]\nshare_percent = 100\nevery = \"1h\"\nretention = \"1h\"\n",
    )
    .unwrap();
    let mut governor = Governor::new(&spec, MONDAY).unwrap();
    let (mut now, mut running) = (MONDAY, Vec::<Slice>::new());
    for _ in 0..3 * 360 {
        now = now.after(STEP);
        for slice in std::mem::take(&mut running) {
            assert!(governor.complete(now, slice.tag, slice.bytes, STEP));
        }
        governor.sample(now, &Sample { span: STEP, requests: 1000, written_bytes: 100 << 20, ..Sample::default() });
        while let Step::Run(slice) = governor.poll(now) {
            running.push(slice);
        }
        assert!(running.len() <= 6, "two cores serve the foreground: {}", running.len());
    }
    let status = governor.status(now);
    assert!(status.services[0].count.paid_bytes > 0, "{status:?}");
}

#[test]
fn day_is_in_time_despite_lost_looks() {
    // The times are those of a rehearsal at 480 times the speed: a look is a second, and a slice two and a half.
    let mut bench = Bench::new(
        "slice = \"1200s\"\ngrace = \"1200s\"\ncalm = \"600s\"\nstale = \"1200s\"\n[forecast]\nbin = \"1200s\"\n\
         [service.scrub]\nowed = \"200GiB\"\ndeadline = \"84000s\"\n",
    );
    bench.step = Nanos::from_seconds(480);
    let busy = |at: Nanos| if at.0 / 3_600_000_000_000 % 24 < 12 { 500 } else { 30 };
    let span = Nanos::from_seconds(1200);
    let past = (0..7 * 72).map(|bin| Nanos(MONDAY.0 - bin * span.0)).rev();
    bench.governor.recall(past.map(|end| {
        let busy = Nanos(span.0 / 1000 * busy(Nanos(end.0 - span.0)));
        (end, Sample { span, busy, background_busy: Some(Nanos::ZERO), ..Sample::default() })
    }));
    while bench.now < MONDAY.after(Nanos::from_seconds(84_000)) {
        bench.step(busy(bench.now), None);
    }
    let service = &bench.governor.status(bench.now).services[0];
    assert_eq!((service.owed_bytes, service.count.late_bytes), (0, 0), "{service:?}");
}

#[test]
fn bin_measured_below_half_is_a_gap() {
    let spec = GovernSpec::parse("govern.toml", SCRUB).unwrap();
    for (minutes, known) in [(29, false), (31, true), (60, true)] {
        let mut governor = Governor::new(&spec, MONDAY).unwrap();
        let span = Nanos::from_seconds(60);
        for minute in 1..=minutes {
            let sample =
                Sample { span, busy: Nanos(span.0 / 2), background_busy: Some(Nanos::ZERO), ..Sample::default() };
            governor.sample(Nanos(MONDAY.0 + minute * span.0), &sample);
        }
        let _ = governor.poll(MONDAY.after(hours(1)));
        assert_eq!(governor.past()[0].actual_per_mille, known.then_some(500), "{minutes} minutes");
    }
}

#[test]
fn watermark_pays_by_debt_alone_and_reserves() {
    let spec = format!("watermark = {{ low_percent = 10.0, high_percent = 30.0 }}\n{POOL}")
        .replace("30d", "0s")
        .replace("defragmentation", "snapshot-delete");
    let spec = GovernSpec::parse("pool.toml", &spec).unwrap();
    let mut governor = Governor::new(&spec, MONDAY).unwrap();
    let (mut now, mut first) = (MONDAY, None);
    // The foreground wants all cores, and 100 MiB are overwritten each minute.
    while now < MONDAY.after(hours(12)) {
        now = now.after(Nanos::from_seconds(60));
        let span = Nanos::from_seconds(60);
        governor.sample(now, &Sample { span, requests: 60 * 400, written_bytes: 100 << 20, ..Sample::default() });
        let owed = governor.status(now).services[0].owed_bytes;
        match governor.poll(now) {
            Step::Run(slice) => {
                first = first.or(Some((owed, slice)));
                assert!(governor.complete(now, slice.tag, 0, Nanos::ZERO));
            }
            _ => assert!(first.is_none(), "it has begun, and nothing was paid"),
        }
    }
    let (owed, slice) = first.expect("it begins");
    // A tenth of 100 GiB, found at the end of a bin of an hour.
    assert!((10 << 30..17 << 30).contains(&owed), "{owed}");
    assert_eq!(slice.reservation_bytes_per_second, slice.bytes_per_second);
}

const POOL: &str = "[cores]\ncount = 8\nforeground_iops = 50\n[pool]\nsize = \"100GiB\"\nblock = \"1MiB\"\n[forecast]\n\
                    bin = \"1h\"\nhorizon = \"1d\"\nmethod = \"naive-day\"\n[service.defragmentation]\nshare_percent = 100\n\
                    retention = \"30d\"\n";
const HOUR_BYTES: u64 = 1000 << 20;

/// The percentage of each hour's writes that counted as new, judged by the debt that they left. `new` is the measured percentage, or
/// `None` without a measurement.
fn judged(governor: &mut Governor, from: Nanos, hours_judged: u64, new: impl Fn(u64) -> Option<u64>) -> Vec<u64> {
    let owed = |governor: &Governor| governor.status(from).services[0].owed_bytes;
    let mut all = Vec::new();
    for hour in 0..hours_judged {
        let (before, now) = (owed(governor), from.after(hours(hour + 1)));
        let new_bytes = new(hour % 24).map(|percent| HOUR_BYTES / 100 * percent);
        let sample =
            Sample { span: hours(1), requests: 3600, written_bytes: HOUR_BYTES, new_bytes, ..Sample::default() };
        governor.sample(now, &sample);
        let _ = governor.poll(now);
        all.push(100 - (owed(governor) - before) * 100 / HOUR_BYTES);
    }
    all
}

fn assumes(governor: &Governor) -> bool {
    governor.status(MONDAY).notes.iter().any(|note| note.contains("which of the blocks written are new"))
}

#[test]
fn new_block_share_is_measured_else_forecast() {
    let spec = GovernSpec::parse("pool.toml", POOL).unwrap();
    let mut governor = Governor::new(&spec, MONDAY).unwrap();
    assert_eq!(judged(&mut governor, MONDAY, 3, |_| None), [5; 3], "said to be assumed");
    assert!(assumes(&governor));
    let mut governor = Governor::new(&spec, MONDAY).unwrap();
    // Desktops are made at night.
    let share = |hour: u64| if hour < 6 { 90 } else { 10 };
    let measured = judged(&mut governor, MONDAY, 72, |hour| Some(share(hour)));
    assert!(measured.iter().zip(0..).all(|(percent, hour)| *percent == share(hour % 24)), "{measured:?}");
    assert!(!assumes(&governor));
    // A restart changes nothing.
    let state = serde_json::from_value(serde_json::to_value(governor.state()).unwrap()).unwrap();
    let mut governor = Governor::resume(&spec, MONDAY.after(hours(72)), state).unwrap();
    let forecast = judged(&mut governor, MONDAY.after(hours(72)), 24, |_| None);
    for (percent, hour) in forecast.iter().zip(0..) {
        assert!(percent.abs_diff(share(hour)) <= 2, "hour {hour}: {percent} % in {forecast:?}");
    }
}

#[test]
fn stated_new_block_share_overrides_measurements() {
    let spec = GovernSpec::parse("pool.toml", &format!("unique_percent = 40\n{POOL}")).unwrap();
    let mut governor = Governor::new(&spec, MONDAY).unwrap();
    assert_eq!(judged(&mut governor, MONDAY, 30, |_| Some(90)), [40; 30]);
    assert!(!assumes(&governor));
    // The key comes and goes at a restart.
    let now = MONDAY.after(hours(30));
    let measuring = GovernSpec::parse("pool.toml", POOL).unwrap();
    let mut governor = Governor::resume(&measuring, now, governor.state()).unwrap();
    assert_eq!(judged(&mut governor, now, 2, |_| None), [5; 2]);
    assert!(assumes(&governor));
    let now = now.after(hours(2));
    let mut governor = Governor::resume(&spec, now, governor.state()).unwrap();
    assert_eq!(judged(&mut governor, now, 2, |_| Some(90)), [40; 2]);
}

#[test]
fn deadlines_hold_beside_a_busy_sensitive_foreground() {
    let mut bench = Bench::new(
        "[objective]\nlatency_max = \"20ms\"\n[forecast]\nbin = \"1h\"\nhorizon = \"3d\"\n\
         [service.rebuild]\nowed = \"2TiB\"\ndeadline = \"12h\"\n[service.scrub]\nowed = \"4TiB\"\ndeadline = \"1d\"\n",
    );
    for _ in 0..24 * 360 {
        bench.step(1000, Some(Nanos::from_millis(50)));
    }
    for service in &bench.governor.status(bench.now).services {
        assert_eq!((service.owed_bytes, service.count.late_bytes), (0, 0), "{service:?}");
    }
}

#[test]
fn idle_class_runs_beside_any_load() {
    let mut bench = Bench::of(SCRUB);
    for _ in 0..6 {
        bench.step(1000, Some(Nanos::from_millis(5)));
    }
    assert_eq!(bench.running.len(), 1, "it yields by itself");
    let mut all = bench.running.values();
    assert!(all.all(|(slice, _)| slice.reservation_bytes_per_second == 0), "{:?}", bench.running);
}

/// A scrub that is owed at each midnight, governed from an hour of Monday on, after a fortnight of days that are busy from eight to eighteen.
fn after_a_fortnight(owed: &str, hour: u64) -> Bench {
    let keys = "every = \"1d\"\ndeadline = \"1d\"\n[forecast]\nbin = \"1h\"\nhorizon = \"2d\"\n";
    let mut bench = Bench::of(&format!("[service.scrub]\nowed = \"{owed}\"\n{keys}"));
    bench.now = MONDAY.after(hours(hour));
    bench.governor = Governor::new(bench.governor.spec(), bench.now).unwrap();
    let sample = |at: u64| {
        let per_mille = if (8..18).contains(&(at % 24)) { 800 } else { 100 };
        let busy = Nanos(hours(1).0 / 1000 * per_mille);
        let end = Nanos(MONDAY.0 + hours(at + 1).0 - hours(14 * 24).0);
        (end, Sample { span: hours(1), busy, background_busy: Some(Nanos::ZERO), ..Sample::default() })
    };
    bench.governor.recall((0..14 * 24 + hour).map(sample));
    bench
}

/// The hours of a day in which slices of a scrub begin, and what is late at its end, if its slices do this part of their work, in percent.
fn hours_of_a_days_scrub(owed: &str, done_percent: u64) -> (Vec<u64>, u64) {
    let mut bench = after_a_fortnight(owed, 0);
    bench.done_percent = done_percent;
    bench.days(24, 100, 800);
    let runs = bench.log.iter().filter(|(_, what)| what.starts_with("run"));
    let mut hours: Vec<u64> = runs.map(|(at, _)| at.0 / 3_600_000_000_000 % 24).collect();
    hours.dedup();
    (hours, bench.governor.status(bench.now).services[0].count.late_bytes)
}

#[test]
fn work_waits_for_quieter_hours_that_suffice() {
    let (hours, late) = hours_of_a_days_scrub("6TiB", 100);
    assert!(late == 0 && hours.contains(&18) && !hours.iter().any(|hour| (8..18).contains(hour)), "{hours:?}");
    let (hours, late) = hours_of_a_days_scrub("8TiB", 100);
    assert!(late == 0 && hours.contains(&8) && !hours.contains(&12), "{hours:?}");
}

#[test]
fn slow_work_does_not_wait() {
    let (hours, _) = hours_of_a_days_scrub("6TiB", 50);
    assert!(hours.contains(&10), "{hours:?}");
}

#[test]
fn work_of_unknown_speed_does_not_wait() {
    // Quieter hours would suffice at the assumed speed.
    let _ = after_a_fortnight("100GiB", 9).begun(800);
}

#[test]
fn without_force_late_work_waits_and_says_so() {
    let mut bench = Bench::of(&format!("idle_class = false\n{SCRUB}"));
    // Two days of a foreground that wants everything.
    bench.days(48, 1000, 1000);
    assert!(bench.log.is_empty(), "{:?}", bench.log.first());
    let early = Bench::of(&SCRUB.replace("1TiB", "100TiB"));
    let notes = early.governor.status(early.now).notes;
    let told = notes.iter().find(|note| note.starts_with("the deadline of scrub cannot be kept")).unwrap();
    assert!(told.contains("force = true"), "{told}");
}

#[test]
fn services_keep_their_hours() {
    let keys = "hours = [\"22:00-06:00\"]\nquiet = [\"02:00-03:00\"]\ndeadline";
    let mut bench = Bench::of(&SCRUB.replace("1TiB", "3TiB").replace("deadline", keys));
    bench.days(47, 100, 100);
    let runs = bench.log.iter().filter(|(_, what)| what.starts_with("run"));
    let hours: BTreeSet<u64> = runs.map(|(at, _)| at.0 / 3_600_000_000_000 % 24).collect();
    assert_eq!((hours, bench.owed()), ([0, 1, 3, 4, 5].into(), 0), "the first night suffices");
    let planned = bench.governor.ahead().iter().filter(|bin| !bin.pay_bytes.is_empty());
    assert_eq!(planned.count(), 0, "nothing is owed until the week is over");
    // A note says that the work does not fit into its hours.
    let full = Bench::of(&SCRUB.replace("1TiB", "20TiB").replace("deadline", "hours = [\"22:00-06:00\"]\ndeadline"));
    let notes = full.governor.status(full.now).notes;
    assert!(notes.iter().any(|note| note.contains("its hours are the limit")), "{notes:?}");
}

#[test]
fn missed_periods_are_owed_once() {
    let mut bench = Bench::of(SCRUB);
    bench.days(24, 100, 100);
    assert_eq!(bench.owed(), 0);
    bench.now = bench.now.after(hours(24 * 22));
    for _ in 0..5 {
        bench.step(1000, None);
    }
    let owed = bench.owed();
    assert!((1 << 39..=1 << 40).contains(&owed), "the device is the work's, too: {owed}");
}

#[test]
fn parts_of_blocks_add_up() {
    let mut bench = Bench::of(SCRUB);
    let block = bench.governor.spec().block_bytes();
    for _ in 0..2 {
        let (slice, _) = bench.begun(100);
        bench.now = bench.now.after(STEP);
        assert!(bench.governor.complete(bench.now, slice.tag, block / 2, STEP));
    }
    assert_eq!(bench.owed(), (1 << 40) - block);
}

#[test]
fn slice_reserves_only_for_urgent_debt() {
    let mut bench = Bench::new(&SCRUB.replace("1TiB", "100GiB"));
    // The worker is as fast as assumed.
    bench.rate = 100_000_000;
    let owed = bench.owed();
    // Half an hour is left, in which the device could do it in a bit less than two thirds of its time.
    bench.now = MONDAY.after(hours(47)).after(Nanos::from_seconds(1800));
    for busy in [1000, 100] {
        for _ in 0..3 {
            bench.step(busy, None);
        }
        // A slice keeps the rate that it began with: another slice shows the rate that there is now.
        let all: Vec<_> = std::mem::take(&mut bench.running).into_values().collect();
        all.into_iter().for_each(|(slice, _)| assert!(bench.governor.complete(bench.now, slice.tag, 0, Nanos::ZERO)));
        let _ = bench.drain();
        let (slice, _) = *bench.running.values().next().expect("its deadline is near");
        assert!(slice.reservation_bytes_per_second * 1800 >= owed / 100 * 98, "{slice:?}");
        assert!(slice.bytes_per_second >= slice.reservation_bytes_per_second, "{slice:?}");
    }
    let mut bench = Bench::new(&SCRUB.replace("1TiB", "100GiB"));
    bench.days(24 * 6, 100, 300);
    bench.days(25, 100, 300);
    let runs: Vec<_> = bench.log.iter().filter(|(_, what)| what.starts_with("run")).collect();
    let quiet = runs.iter().filter(|(_, what)| what.contains("reservation_bytes_per_second: 0,"));
    assert!(quiet.count() * 2 > runs.len(), "most of it is done while nobody wants the device");
}

#[test]
fn service_stays_within_rate_and_budget() {
    let mut bench = Bench::new(
        "[forecast]\nbin = \"1h\"\nhorizon = \"1d\"\n[service.scrub]\nowed = \"1TiB\"\nbytes_per_second_max = \"20MiB/s\"\n\
         [service.relocation]\nowed = \"1TiB\"\n",
    );
    for _ in 0..720 {
        bench.step(500, None);
    }
    let services = bench.governor.status(bench.now).services;
    let scrub = services.iter().find(|service| service.service == "scrub").unwrap();
    let all: u64 = services.iter().map(|service| service.count.device_nanos).sum();
    let spent = 720 * STEP.0;
    // A slice that ends a moment after a step leaves its place for all of the next one, since this bench asks once a step.
    assert!((10..=20).contains(&((scrub.count.paid_bytes / (spent / 1_000_000_000)) >> 20)), "{scrub:?}");
    // Half of it is the foreground's, and a tenth is kept free.
    assert!((spent / 10 * 2..=spent / 10 * 4).contains(&all), "{all} of {spent}");
}
