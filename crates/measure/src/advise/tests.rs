//! Tests of advice: it never names a candidate that the rounds show to be worse, finds one that is best by far, and changes nothing where
//! it makes no difference.

use std::fmt::Write as _;

use ioweir_core::policy::Policy;
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, Operation};
use ioweir_trace::{Names, Record};
use proptest::prelude::*;
use serde_json::Value;

use super::bench::{Bench, LOADS, Measure, Measures};
use super::cgroups::{Cgroups, Way};
use super::confirm::{Rounds, Verdict};
use super::host::steps;
use super::own_error::own_error;
use super::pieces::Pieces;
use super::space::{Candidate, Setup, dimensions};
use super::spec::{AdviseSpec, Bound};
use ioweir_core::QueueLimits;
use ioweir_device::DeviceSpec;
use ioweir_lab::compare::{Goal, Who};
use ioweir_lab::document::{FORMS, Form};
use ioweir_lab::gate::Witness;
use ioweir_lab::run::{KeptTrace, Origin, Silent, TraceFiles};
use ioweir_lab::sim::{Observer, Outcome};
use ioweir_lab::spec::{PlacingKeys, ReadingKeys};

/// A file of requests: this many, at random places of a disk, by eight processes, `gap` apart.
fn trace(requests: u64, reads_per_cent: u64, gap_micros: u64) -> tempfile::NamedTempFile {
    let mut text = String::from("time_s,pid,comm,op,lba,sectors\n");
    for number in 0..requests {
        let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (place, kind) = (mixed >> 35, (mixed >> 20) % 100);
        let word = if kind < reads_per_cent { "RS" } else { "WS" };
        let micros = number * gap_micros;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}.{:06},{},p,{word},{},8",
            micros / 1_000_000,
            micros % 1_000_000,
            number % 8,
            place % 200_000_000 / 8 * 8
        );
    }
    let file = tempfile::Builder::new().suffix(".csv").tempfile().expect("a temporary file");
    std::fs::write(file.path(), text).expect("written");
    file
}

fn spec(trace: &tempfile::NamedTempFile, device: &str) -> AdviseSpec {
    AdviseSpec {
        traces: vec![trace.path().display().to_string()],
        device: device.into(),
        budget: 40,
        rounds: 6,
        ..AdviseSpec::default()
    }
}

/// Requests as the traced scheduler received them.
fn inserts() -> PlacingKeys {
    let reading = ReadingKeys { event: ioweir_trace::Event::Insert, ..ReadingKeys::default() };
    PlacingKeys { reading, ..PlacingKeys::default() }
}

fn schedulers(names: &[&str]) -> Vec<ioweir_config::SchedulerChoice> {
    names.iter().map(|name| name.parse().expect("a scheduler")).collect()
}

fn origin() -> Origin {
    Origin { version: "1".into(), commit: "unknown".into(), command: String::new() }
}

fn rendered(spec: &AdviseSpec, suffix: &str) -> String {
    let document = spec.run(&origin(), &Silent).expect("advice");
    let form = Form::from_file_name(&format!("a.{suffix}")).expect("a form");
    String::from_utf8(form.render(&document).expect("a document")).expect("text")
}

/// The advice as a reader of the JSON has it, after checks that hold for any.
fn checked(spec: &AdviseSpec) -> Value {
    let json: Value = serde_json::from_str(&rendered(spec, "json")).expect("JSON");
    let rows = json["candidates"].as_array().expect("candidates");
    let both = |row: &Value| row["both"]["mean"].as_f64().expect("a number");
    let better: Vec<&Value> = rows.iter().filter(|row| row["verdict"] == "better").collect();
    assert_eq!(rows[0]["verdict"], "leave-it");
    match json["recommended"].as_str() {
        None => {
            assert!(better.is_empty() && json["steps"].as_array().expect("steps").is_empty(), "{json}");
        }
        Some(name) => {
            let own = better.iter().find(|row| row["candidate"] == name).expect("it is one of the better");
            assert!(better.iter().all(|other| both(own) <= both(other)), "{json}");
            assert!(both(own) <= -0.01 && own["both"]["high"].as_f64() < Some(0.0));
            for load in ["recorded", "closed"] {
                assert!(own[load]["low"].as_f64() <= Some(0.0), "it is not worse under load {load}");
            }
        }
    }
    let wins: u64 = rows.iter().map(|row| row["best_rounds"].as_u64().expect("a count")).sum();
    assert_eq!(Some(wins), json["rounds"].as_u64(), "every round has one that is best");
    json
}

#[test]
fn sorting_wins_on_disks_with_random_reads() {
    let trace = trace(1_600, 100, 2_000);
    let spec = AdviseSpec {
        recorded_under: "none".parse().ok(),
        schedulers: schedulers(&["none", "mq-deadline", "kyber"]),
        closed: Some(8),
        goal: Goal::Mean,
        ..spec(&trace, "hdd")
    };
    let json = checked(&spec);
    let name = json["recommended"].as_str().expect("it is better by far");
    assert!(name.starts_with("mq-deadline"), "{name}");
    let row = json["candidates"].as_array().unwrap().iter().find(|row| row["candidate"] == name).unwrap();
    assert!(row["both"]["mean"].as_f64().unwrap() < -0.2, "{row}");
    let lines: Vec<&str> = json["steps"].as_array().unwrap().iter().filter_map(|step| step["line"].as_str()).collect();
    assert!(lines.contains(&"echo mq-deadline > /sys/block/DEVICE/queue/scheduler"), "{lines:?}");
    assert!(lines.contains(&"echo none > /sys/block/DEVICE/queue/scheduler"), "{lines:?}");
}

#[test]
fn device_without_queue_is_left_alone() {
    let trace = trace(640, 70, 5_000);
    for device in ["null", "ssd-970pro"] {
        for goal in [Goal::Completion, Goal::Mean, Goal::ReadP99] {
            let spec = AdviseSpec {
                schedulers: schedulers(&["none", "mq-deadline"]),
                closed: Some(1),
                goal,
                ..spec(&trace, device)
            };
            let json = checked(&spec);
            assert!(json["recommended"].is_null(), "{device} by {}: {}", goal.name(), json["recommended"]);
        }
    }
}

#[test]
fn advice_depends_on_spec_not_on_order() {
    let trace = trace(800, 60, 4_000);
    let first = AdviseSpec { schedulers: schedulers(&["none", "mq-deadline", "bfq"]), ..spec(&trace, "hdd") };
    let turned = AdviseSpec { schedulers: schedulers(&["bfq", "none", "mq-deadline"]), ..first.clone() };
    let other_seed = AdviseSpec { seed: 1, ..first.clone() };
    for suffix in ["json", "txt", "csv"] {
        let text = rendered(&first, suffix);
        assert_eq!(text, rendered(&first, suffix), "{suffix}");
        assert_eq!(text, rendered(&turned, suffix), "{suffix}: the order");
        assert_ne!(text, rendered(&other_seed, suffix), "{suffix}: the seed");
    }
}

#[test]
fn a_document_of_advice_has_every_form() {
    let trace = trace(640, 70, 4_000);
    let document = spec(&trace, "hdd").run(&origin(), &Silent).expect("advice");
    assert!(!document.headline.is_empty() && document.provenance.is_some());
    for form in FORMS {
        assert!(!form.render(&document).expect("a document").is_empty(), "{}", form.suffix);
    }
}

#[test]
fn devices_are_drawn_where_they_are_calibrated() {
    let trace = trace(640, 100, 20_000);
    let device = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
    let hdd = DeviceSpec::load("hdd").unwrap().to_toml();
    let record = r#"
[calibration]
source = "trace"
name = "own.trace"
sha256 = "00ff"
requests = 1000
version = "0.1.0"
fitted = "first_half"
judged = "second_half"
[calibration.range]
depth_max = 1
[[calibration.parameter]]
key = "hdd.revolutions_per_minute"
value = RATE
low = 3600
high = 15000
drawn = [3600, 15000]
"#;
    let rate = hdd.lines().find_map(|line| line.strip_prefix("revolutions_per_minute = ")).expect("a rate");
    std::fs::write(device.path(), format!("{hdd}{}", record.replace("RATE", rate))).expect("written");
    let advised = |device: &str| checked(&AdviseSpec { goal: Goal::Busy, ..spec(&trace, device) });
    let (drawn, fixed) = (advised(&device.path().display().to_string()), advised("hdd"));
    assert_eq!((&drawn["is_calibrated"], &fixed["is_calibrated"]), (&Value::from(true), &Value::from(false)));
    let busy = |json: &Value| json["candidates"][0]["recorded_seconds"].as_f64();
    assert_ne!(busy(&drawn), busy(&fixed), "another spindle takes another time");
}

#[test]
fn what_is_wrong_with_a_spec_is_said() {
    let trace = trace(320, 50, 1_000);
    let good = spec(&trace, "hdd");
    for (spec, problem) in [
        (AdviseSpec { device: String::new(), ..good.clone() }, "no device is named"),
        (AdviseSpec { budget: 3, ..good.clone() }, "budget is 3\n  expected: 20 to 100000"),
        (AdviseSpec { rounds: 1, ..good.clone() }, "rounds is 1"),
        (AdviseSpec { schedulers: schedulers(&["bid-hybrid"]), ..good.clone() }, "places data on a second device"),
        (AdviseSpec { schedulers: schedulers(&["bfq", "bfq"]), ..good.clone() }, "named twice"),
        (AdviseSpec { schedulers: Vec::new(), ..good.clone() }, "no scheduler is named"),
        (AdviseSpec { host_device: "sda; reboot".into(), ..good.clone() }, "host device `sda; reboot`"),
        (AdviseSpec { closed: Some(0), ..good.clone() }, "0 requests outstanding"),
        (AdviseSpec { load: "closed:3".parse().unwrap(), ..good.clone() }, "the open load is closed:3"),
        (AdviseSpec { device: "tiny".into(), ..good }, "past the end of the device"),
    ] {
        let error = spec.run(&origin(), &Silent).expect_err(problem).to_string();
        assert!(error.contains(problem), "{error}");
    }
    for (text, problem) in [("read-p99", "GOAL=TIME"), ("p99=2ms", "unknown goal `p99`"), ("mean=0s", "no time at all")]
    {
        let error = text.parse::<Bound>().expect_err(text);
        assert!(error.contains(problem), "{error}");
    }
}

/// A run with these seconds as the value of every goal.
fn made(seconds: f64) -> Measure {
    let mut outcome = Outcome {
        completion: Nanos((seconds * 1e9) as u64),
        busy: Nanos((seconds * 1e9) as u64),
        ..Outcome::default()
    };
    outcome.all.requests = 1;
    outcome.all.latency_sum_nanos = (seconds * 1e9) as u128;
    outcome.by_operation[Operation::Read as usize].latency.record((seconds * 1e9) as u64);
    Measure::of(&outcome, None)
}

proptest! {
    #[test]
    fn nothing_is_recommended_that_the_rounds_show_worse(
        levels in proptest::collection::vec((50u32..150, 50u32..150), 2..6),
        noise in proptest::collection::vec(0u32..30, 60),
        bound in proptest::option::of(50u64..150),
    ) {
        let candidates: Vec<Candidate> =
            ["none", "mq-deadline", "kyber", "bfq", "noop", "clook"][..levels.len()].iter()
                .map(|name| Candidate::of(name.parse().expect("a scheduler"))).collect();
        let mut noise = noise.into_iter().cycle();
        let mut number = |level: u32| f64::from(level + noise.next().unwrap_or(0));
        let rounds: Vec<Vec<Measures>> = (0..8)
            .map(|_| levels.iter().map(|(open, closed)| [made(number(*open)), made(number(*closed))]).collect())
            .collect();
        let rounds = Rounds::made(candidates, rounds);
        let bound = bound.map(|seconds| format!("mean={seconds}s").parse::<Bound>().expect("a bound"));
        let goal = Goal::Completion;
        let choice = rounds.choice(goal, bound);
        let better: Vec<usize> =
            (0..levels.len()).filter(|at| rounds.verdict(*at, goal, bound) == Verdict::Better).collect();
        prop_assert_eq!(choice == 0, better.is_empty());
        if choice > 0 {
            let both = rounds.over_both(choice, goal);
            prop_assert!(both.high < 0.0 && both.mean <= -0.01);
            for other in better {
                prop_assert!(both.mean <= rounds.over_both(other, goal).mean);
            }
            for load in 0..LOADS {
                prop_assert!(!rounds.under(choice, goal, load).is_more());
            }
            if let Some(bound) = bound {
                let mean = rounds.mean(choice, |own| own[0].value(Goal::Mean)).expect("every run has one");
                prop_assert!(mean <= bound.most.nanos().as_seconds() * (1.0 + 1e-9));
            }
        }
        prop_assert_eq!(rounds.wins(goal).iter().sum::<usize>(), 8);
    }
}

fn base(device: &str) -> Setup {
    let device = DeviceSpec::load(device).expect("a preset");
    Setup { limits: QueueLimits { depth: device.queue_depth(), ..QueueLimits::DEFAULT }, device }
}

#[test]
fn commands_apply_and_undo_what_was_simulated() {
    let base = base("hdd");
    let spec = AdviseSpec { host_device: "sda".into(), device: "hdd".into(), ..AdviseSpec::default() };
    let candidate = |text: &str| Candidate::of(text.parse().expect("a scheduler"));
    let mut set = candidate("bfq:slice-idle=2ms:low-latency=no");
    let queue = dimensions(&set, &base).into_iter().find(|one| one.name() == "queue_requests").expect("a knob");
    set = queue.with(&set, 256);
    let lines = |one: &Candidate, leave: &Candidate, spec: &AdviseSpec| -> Vec<String> {
        steps(one, leave, &base, spec).into_iter().map(|step| format!("{}: {}", step.step, step.line)).collect()
    };
    assert_eq!(
        lines(&set, &candidate("mq-deadline"), &spec),
        [
            "note what is set: grep . /sys/block/sda/queue/scheduler /sys/block/sda/queue/iosched/slice_idle \
             /sys/block/sda/queue/iosched/low_latency /sys/block/sda/queue/nr_requests",
            "apply: echo bfq > /sys/block/sda/queue/scheduler",
            "apply: echo 2 > /sys/block/sda/queue/iosched/slice_idle",
            "apply: echo 0 > /sys/block/sda/queue/iosched/low_latency",
            "apply: echo 256 > /sys/block/sda/queue/nr_requests",
            "keep, in /etc/udev/rules.d/61-ioweir.rules: ACTION==\"add|change\", KERNEL==\"sda\", \
             ATTR{queue/scheduler}=\"bfq\", ATTR{queue/iosched/slice_idle}=\"2\", \
             ATTR{queue/iosched/low_latency}=\"0\", ATTR{queue/nr_requests}=\"256\"",
            "verify: ioweir replay TRACE /dev/sda --reads-only --repeat 5 --scheduler \
             mq-deadline,bfq:slice_idle=2:low_latency=0:nr_requests=256 --device hdd",
            "undo: echo 128 > /sys/block/sda/queue/nr_requests",
            "undo: echo mq-deadline > /sys/block/sda/queue/scheduler",
            "undo: rm /etc/udev/rules.d/61-ioweir.rules",
        ]
    );
    let generated = AdviseSpec { traces: vec!["mix:grep".into()], ..spec.clone() };
    let verify = lines(&set, &candidate("mq-deadline"), &generated);
    let verify: Vec<&String> = verify.iter().filter(|line| line.starts_with("verify: ")).collect();
    assert_eq!(verify[0], "verify: ioweir trace generate grep grep.parquet");
    assert!(verify[1].starts_with("verify: ioweir replay grep.parquet /dev/sda ") && verify.len() == 2, "{verify:?}");
    // For the same scheduler with another value, the undo command restores the old value.
    let own =
        lines(&candidate("mq-deadline:fifo-batch=1"), &candidate("mq-deadline:fifo-batch=64:read-expire=1s"), &spec);
    assert!(own.contains(&"apply: echo 500 > /sys/block/sda/queue/iosched/read_expire".into()), "{own:#?}");
    assert!(own.contains(&"undo: echo 1000 > /sys/block/sda/queue/iosched/read_expire".into()), "{own:#?}");
    assert!(own.contains(&"undo: echo 64 > /sys/block/sda/queue/iosched/fifo_batch".into()), "{own:#?}");
    let beside = "--scheduler mq-deadline:read_expire=1000:fifo_batch=64,mq-deadline:fifo_batch=1 --device hdd";
    assert!(own.iter().any(|line| line.ends_with(beside)), "a scheduler beside itself: {own:#?}");
    // A policy that Linux lacks is advised with the server only; a pair has weights, and a bound a target.
    let spec = AdviseSpec { bound: "read-p99=20ms".parse().ok(), ..spec };
    let pair = lines(&candidate("sfq+bid-hdd:wait=2ms"), &candidate("none"), &spec);
    assert!(pair[0].ends_with("scheduler = \"sfq+bid-hdd:wait=2ms\""), "{pair:#?}");
    assert!(pair.iter().any(|line| line.contains("io.weight")), "{pair:#?}");
    assert!(pair.iter().any(|line| line.contains("target=20000")), "{pair:#?}");
    let undone = |what: &str| pair.iter().any(|line| line.starts_with("undo") && line.contains(what));
    assert!(undone("io.weight") && undone("target=max"), "{pair:#?}");
    assert!(!pair.iter().any(|line| line.starts_with("verify")), "the kernel cannot replay under it: {pair:#?}");
    assert!(!pair.iter().any(|line| line.contains("/sys/block")), "{pair:#?}");
}

/// Keeps when each record was done.
#[derive(Default)]
struct Latencies {
    arrivals: Vec<Nanos>,
    nanos: Vec<Nanos>,
}

impl Observer<Policy> for Latencies {
    fn arrived(&mut self, _number: u64, _record: &Record, arrival: Nanos) {
        self.arrivals.push(arrival);
        self.nanos.push(Nanos::ZERO);
    }

    fn finished(&mut self, number: u64, now: Nanos) {
        self.nanos[number as usize] = now.since(self.arrivals[number as usize]);
    }
}

#[test]
fn model_has_no_error_on_its_own_trace() {
    let file = trace(640, 60, 9_000);
    let own = spec(&file, "hdd");
    let files = TraceFiles::find(&own.traces, &ioweir_trace::ReadOptions::default()).expect("a trace");
    let who = Who::new((Goal::Mean, None), false, &Witness::default(), &[]).expect("all count");
    let bench = |device: &str| Bench {
        who: &who,
        base: base(device),
        device_name: device.into(),
        loads: [ioweir_lab::sim::Load::RECORDED; LOADS],
        lenient: false,
        tenants: std::sync::Arc::default(),
        progress: &Silent,
    };
    let recorded = Candidate::of("bfq".parse().expect("a scheduler"));
    let read = Pieces::read(&files, (0, u64::MAX >> 9, false), &Silent).expect("enough");
    assert!(own_error(&bench("hdd"), &read, &recorded, 0).expect("a run").is_empty(), "it has no latencies");
    let mut watch = Latencies::default();
    let first = bench("hdd");
    first.jobs(&recorded, &read.all(), 0, &first.base)[0].run(true, &Silent, &mut watch).expect("a run");
    let known = read.records().zip(&watch.nanos).map(|(record, nanos)| Record { latency: Some(*nanos), ..*record });
    let known =
        KeptTrace::new("known".into(), known.collect(), Names { streams: vec![String::new(); 8], volumes: Vec::new() });
    let known =
        Pieces::read(&[TraceFiles::of_records(known, false)], (0, u64::MAX >> 9, false), &Silent).expect("enough");
    let own = own_error(&bench("hdd"), &known, &recorded, 0).expect("a run");
    assert_eq!(own.iter().map(|class| class.class).collect::<Vec<_>>(), ["reads", "writes"]);
    assert!(own.iter().all(|class| class.demerit_seconds == 0.0 && class.demerit_share == Some(0.0)), "{own:?}");
    let other = own_error(&bench("hdd-15k"), &known, &recorded, 0).expect("a run");
    assert!(other.iter().all(|class| class.demerit_share > Some(0.1)), "{other:?}");
}

#[test]
fn recorded_trace_names_its_scheduler_and_device() {
    let about = r#"{"device": {"name": "sdb", "scheduler": "bfq"}, "recording": {}}"#;
    let mut spec = AdviseSpec::default();
    spec.hear(about);
    assert_eq!((spec.recorded_under, &spec.host_device[..]), ("bfq".parse().ok(), "sdb"));
    let mut named =
        AdviseSpec { recorded_under: "kyber".parse().ok(), host_device: "sdc".into(), ..AdviseSpec::default() };
    named.hear(about);
    assert_eq!((named.recorded_under, &named.host_device[..]), ("kyber".parse().ok(), "sdc"));
    let mut odd = AdviseSpec::default();
    for about in ["", "[1]", r#"{"device": {"name": "../sda", "scheduler": "no such"}}"#] {
        odd.hear(about);
    }
    assert_eq!(odd, AdviseSpec::default());
}

/// A database of large distances beside a scrub of the idle class that reads in long rows, as the kernel's events have them.
fn scrubbed() -> tempfile::NamedTempFile {
    let mut text = String::from("# tracer: nop\n");
    let (mut place, mut scrub) = (0_u64, 210_000_000_u64);
    let mut line = |name: &str, micros: u64, bytes: u64, sector: u64, class: &str| {
        let (seconds, rest, sectors) = (micros / 1_000_000, micros % 1_000_000, bytes / 512);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{name} [000] ..... {seconds}.{rest:06}: block_rq_insert: 8,0 R {bytes} () {sector} + {sectors} {class}"
        );
    };
    for tick in 0..400_u64 {
        let micros = 10_000_000 + tick * 25_000;
        for number in 0..if tick % 2 == 0 { 6 } else { 0 } {
            line("scrub-777", micros + number, 262_144, scrub, "idle,0,7 [scrub]");
            scrub += 512;
        }
        place = (place + 77_777_777) % 150_000_000;
        line("db-501", micros + 20, 8_192, place / 16 * 16, "be,0,4 [db]");
    }
    let file = tempfile::Builder::new().suffix(".ftrace").tempfile().expect("a temporary file");
    std::fs::write(file.path(), text).expect("written");
    file
}

#[test]
fn idle_class_counts_only_where_asked() {
    let trace = scrubbed();
    let spec = |of: Option<&str>| AdviseSpec {
        placing: inserts(),
        schedulers: schedulers(&["none", "mq-deadline"]),
        recorded_under: "none".parse().ok(),
        goal: Goal::ReadP99,
        of: of.map(str::to_owned),
        ..spec(&trace, "hdd")
    };
    let seconds = |of: Option<&str>| {
        let json = checked(&spec(of));
        let value = json["candidates"][0]["recorded_seconds"].as_f64().expect("reads");
        (json["of"].as_str().unwrap_or_default().to_owned(), value)
    };
    let (of, foreground) = seconds(None);
    assert_eq!(of, "requests that are not of the idle class");
    assert_eq!(seconds(Some("501 db")).1, foreground, "the database is all that is not idle");
    let (of, all) = seconds(Some("all"));
    assert!(of.is_empty() && all != foreground, "{all} {foreground}");
    assert!(seconds(Some("idle")).1 != foreground);
    let error = spec(Some("dbb")).run(&origin(), &Silent).expect_err("there is no such stream").to_string();
    assert!(error.contains("`dbb`") && error.contains("501 db"), "{error}");
}

#[test]
fn advice_states_its_think_time_and_tries_others() {
    let trace = trace(640, 70, 5_000);
    let json = checked(&AdviseSpec { schedulers: schedulers(&["none", "bfq"]), ..spec(&trace, "hdd") });
    let times = json["think_times"].as_array().expect("a list");
    let seconds: Vec<f64> = times.iter().map(|time| time["think_seconds"].as_f64().expect("a number")).collect();
    assert_eq!(seconds, [0.0, 1e-4, 1e-3, 1e-2]);
    assert!(times.iter().all(|time| time["is_traced"] == false), "the trace has no latencies");
    let text = rendered(&AdviseSpec { schedulers: schedulers(&["none", "bfq"]), ..spec(&trace, "hdd") }, "txt");
    assert!(text.contains("does not show how long its streams think"), "{text}");
}

/// Random reads of one stream as FlashNet writes them: each takes 5 ms, and the next comes so long after it.
fn answered(think_micros: u64) -> tempfile::NamedTempFile {
    let mut text = String::new();
    for number in 0..640_u64 {
        let place = (number * 7_919_777) % 200_000_000 / 8 * 8 * 512;
        let millis = (number * (5_000 + think_micros)) as f64 / 1e3;
        // Writing to a string does not fail.
        let _ = writeln!(text, "{millis:.6},5000.000,1,4096,{place},{millis:.6},4096");
    }
    let file = tempfile::Builder::new().suffix(".csv").tempfile().expect("a temporary file");
    std::fs::write(file.path(), text).expect("written");
    file
}

#[test]
fn closed_loop_thinks_as_traced_streams() {
    for (think_micros, end, said, expected) in
        [(250, "+250us", "250 us", [0.0, 250e-6, 1e-3, 1e-2]), (7_000, "+7ms", "7.00 ms", [0.0, 1e-4, 1e-3, 7e-3])]
    {
        let trace = answered(think_micros);
        let spec = AdviseSpec { schedulers: schedulers(&["none", "bfq"]), ..spec(&trace, "hdd") };
        let json = checked(&spec);
        let times = json["think_times"].as_array().expect("a list");
        let seconds: Vec<f64> = times.iter().map(|time| time["think_seconds"].as_f64().expect("a number")).collect();
        assert_eq!(seconds, expected);
        let traced: Vec<bool> = times.iter().map(|time| time["is_traced"] == true).collect();
        assert_eq!(traced, expected.map(|time| time == think_micros as f64 / 1e6));
        let loads = json["loads"].as_array().expect("a list");
        assert!(loads[1].as_str().is_some_and(|load| load.ends_with(end)), "{loads:?}");
        let text = rendered(&spec, "txt");
        assert!(text.contains(&format!("The trace shows a think time of {said}.")), "{text}");
    }
}

#[test]
fn cgroups_protect_a_stream_from_all_others() {
    let trace = scrubbed();
    let spec = AdviseSpec {
        placing: inserts(),
        schedulers: schedulers(&["none"]),
        recorded_under: "none".parse().ok(),
        goal: Goal::Mean,
        of: Some("db".into()),
        cgroups: true,
        host_device: "sda".into(),
        ..spec(&trace, "hdd")
    };
    let json = checked(&spec);
    let rows = json["candidates"].as_array().expect("a list");
    let named = |way: &str| {
        rows.iter().find(|row| row["candidate"].as_str().is_some_and(|name| name.starts_with(way))).expect(way)
    };
    for way in ["io.max", "io.latency", "io.cost", "bfq weight", "ioweir serve"] {
        assert!(named(way)["scheduler"].is_string() && named(way)["throughput_share"].is_number(), "{way}");
    }
    // A scrub that may do a part of what it does delays the database less, and gets less.
    let limited = named("io.max");
    assert!(limited["both"]["high"].as_f64() < Some(0.0), "{limited}");
    assert!(limited["throughput_share"].as_f64() < Some(0.95), "{limited}");
    assert!(named("ioweir serve")["both"]["mean"].as_f64() < Some(0.0));
    let step = |key: &str, step: &str| json[key].as_array().expect("a list").iter().any(|line| line["step"] == step);
    assert!(step("steps", "apply") || step("steps", "only with ioweir serve"), "{}", json["steps"]);
    assert!(
        step("steps_instead", "apply") || step("steps_instead", "only with ioweir serve"),
        "{}",
        json["steps_instead"]
    );
    let text = rendered(&spec, "txt");
    assert!(text.contains("Ways to protect db") && text.contains("Instead, the "), "{text}");
    let error = AdviseSpec { of: None, ..spec }.run(&origin(), &Silent).expect_err("nobody is protected").to_string();
    assert!(error.contains("--of with the name of a stream"), "{error}");
}

#[test]
fn bound_takes_the_cheapest_way_that_keeps_it() {
    let candidates: Vec<Candidate> =
        ["none", "kyber", "bfq"].iter().map(|name| Candidate::of(name.parse().expect("a scheduler"))).collect();
    let run = |seconds: f64, throughput: f64| {
        let mut measure = made(seconds);
        measure.throughput = throughput;
        [measure; LOADS]
    };
    let rounds = |leave: f64| {
        Rounds::made(candidates.clone(), vec![vec![run(leave, 100.0), run(20.0, 90.0), run(5.0, 50.0)]; 6])
    };
    let bound = |text: &str| text.parse::<Bound>().expect("a bound");
    assert_eq!(rounds(100.0).cheapest(Goal::Mean, bound("mean=25s")), 1, "the one with more throughput");
    assert_eq!(rounds(100.0).cheapest(Goal::Mean, bound("mean=10s")), 2, "the only one that keeps it");
    assert_eq!(rounds(100.0).cheapest(Goal::Mean, bound("mean=1s")), 0, "none keeps it");
    assert_eq!(rounds(24.0).cheapest(Goal::Mean, bound("mean=25s")), 0, "it is kept as it is");
}

#[test]
fn lines_of_cgroups_are_undone() {
    let spec = AdviseSpec { host_device: "sda".into(), device: "hdd".into(), ..AdviseSpec::default() };
    let leave = Candidate::of("mq-deadline".parse().expect("a scheduler"));
    let usual = Share::weighted(100);
    let limited = Share { reads_per_second: 40, writes_per_second: 7, ..usual };
    let target = Share { latency: Nanos(2_500_000), ..usual };
    let lines = |way: Way, scheduler: &str, shares: [Share; 2]| -> Vec<String> {
        let scheduler = scheduler.parse().expect("a scheduler");
        let candidate = Candidate { cgroups: Some(Cgroups { way, shares }), ..Candidate::of(scheduler) };
        let lines = super::cgroups::lines(&candidate, &leave, &spec);
        let changes = lines.into_iter().filter(|step| ["apply", "undo", "only with ioweir serve"].contains(&step.step));
        changes.map(|step| format!("{}: {}", step.step, step.line)).collect()
    };
    assert_eq!(
        lines(Way::Max, "io-max", [usual, limited]),
        [
            "apply: echo \"$DEV riops=40 wiops=7\" > $OTHERS/io.max",
            "undo: echo \"$DEV riops=max wiops=max\" > $OTHERS/io.max"
        ]
    );
    assert_eq!(
        lines(Way::Latency, "io-latency", [target, usual]),
        [
            "apply: echo \"$DEV target=2500\" > $PROTECTED/io.latency",
            "undo: echo \"$DEV target=0\" > $PROTECTED/io.latency"
        ]
    );
    let cost = "io-cost:rbps=9:rseqiops=8:rrandiops=7:wbps=6:wseqiops=5:wrandiops=4:max=90";
    assert_eq!(
        lines(Way::Cost, cost, [Share::weighted(800), usual]),
        [
            "apply: echo \"$DEV ctrl=user model=linear rbps=9 rseqiops=8 rrandiops=7 wbps=6 wseqiops=5 wrandiops=4\" > \
             /sys/fs/cgroup/io.cost.model",
            "apply: echo \"$DEV enable=1 ctrl=user rpct=0.00 wpct=0.00 min=1.00 max=90.00\" > /sys/fs/cgroup/io.cost.qos",
            "apply: echo 800 > $PROTECTED/io.weight",
            "undo: echo 100 > $PROTECTED/io.weight",
            "undo: echo \"$DEV enable=0\" > /sys/fs/cgroup/io.cost.qos",
            "undo: echo \"$DEV ctrl=auto\" > /sys/fs/cgroup/io.cost.model",
        ]
    );
    assert_eq!(
        lines(Way::Bfq, "bfq-groups", [Share::weighted(500), usual]),
        [
            "apply: echo bfq > /sys/block/sda/queue/scheduler",
            "apply: echo 500 > $PROTECTED/io.bfq.weight",
            "undo: echo 100 > $PROTECTED/io.bfq.weight",
            "undo: echo mq-deadline > /sys/block/sda/queue/scheduler",
        ]
    );
    let served = lines(Way::Server, "sfq+mq-deadline", [Share::weighted(800), usual]);
    assert!(served[1].contains("weight = 800") && served.len() == 3, "{served:?}");
}

#[test]
fn every_scheduler_includes_that_for_slow_reads() {
    let spec = AdviseSpec { all: true, ..AdviseSpec::default() };
    assert!(spec.candidates().contains(&"clook-adaptive:goal=read-p99".parse().expect("a scheduler")));
}
