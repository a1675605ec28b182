//! Rules that hold for every scheduler under every experiment, and for experiment files.

#[path = "../../../../fuzz/drive_experiment.rs"]
mod drive_experiment;

use ioweir_core::policy::{Limits, POLICIES};
use ioweir_lab::document::{FORMS, json_list};
use ioweir_lab::experiment::{Experiment, METRICS, Which, document, explain, key_tables, run, run_observed};
use ioweir_lab::run::{Origin, Silent};
use ioweir_lab::sim::Checker;
use proptest::prelude::*;

fn parse(text: &str) -> Experiment {
    Experiment::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn origin() -> Origin {
    Origin { version: "test".into(), commit: "test".into(), command: "test".into() }
}

pub(crate) const ARRAY: &str = "[device.tiered]\ncapacity = \"1GB\"\nplacement = { hit_ratio = 0.5 }\nfast = { depth = 2, read = \"exponential \
                     200us\", write = \"exponential 500us\" }\nslow = { read = \"exponential 2ms\" }\n";

/// Closed and open loops, phases, shares, clients that come, go and pause, and some that are refused.
pub(crate) fn busy(scheduler: &str) -> String {
    let first = scheduler.split([':', '+']).next().and_then(ioweir_core::policy::find);
    let reservation = if first.is_some_and(|row| row.reads.reservation) { "reservation = \"50/s\"\n" } else { "" };
    let limit = match first.map_or(Limits::Both, |row| if row.knows_shares { row.limits } else { Limits::Both }) {
        Limits::Both => "limit = \"100/s\"\nburst = 3\nrefuse_at_limit = true\n",
        Limits::Directions => "riops = \"100/s\"\n",
        Limits::None => "latency = \"5ms\"\n",
    };
    format!(
        "duration = \"3s\"\ninterval = \"1s\"\nschedulers = [\"{scheduler}\"]\ndepth = 4\n{ARRAY}[[group]]\nname = \"g\"\nweight = 2\n\
         [[class]]\nname = \"closed\"\nclients = 3\nbacklog = 4\nread_ratio = 0.5\nhit_ratio = 0.9\ngroup = \"g\"\n\
         [[class.phase]]\nat = \"1s\"\nactive = false\n[[class.phase]]\nat = \"1500ms\"\nactive = true\nweight = 3\nbacklog = 6\n\
         [[class]]\nname = \"open\"\nclients = 2\nrate = \"300/s\"\n{reservation}to = \"2s\"\nsequential = 0.5\nsize = \"16KiB\"\n\
         [[class]]\nname = \"capped\"\nbacklog = 2\n{limit}from = \"500ms\"\n\
         [[class]]\nname = \"even\"\nclients = 2\nrate = \"100/s\"\narrivals = \"constant\"\n[[class.phase]]\nat = \"1s\"\nrate = \"0/s\"\n"
    )
}

const PAIRS: [&str; 4] =
    ["sfq+deadline", "mclock+cfq:window=4", "reward:estimator=service+bid-hdd", "parda+sptf:window=64"];

/// Every policy of one device, and some pairs.
pub(crate) fn schedulers() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().filter(|row| !row.places).map(|row| row.name).chain(PAIRS)
}

#[test]
fn every_experiment_request_is_served_once() {
    for name in schedulers() {
        let mut checker = Checker::new(1024, 4);
        let (cell, ended) = run_observed(&parse(&busy(name)), &mut checker).expect(name);
        checker.conclude_served(cell.requests_simulated);
        assert_eq!((ended.unfinished, ended.skipped), (0, 0), "{name}");
        assert!(cell.requests_simulated > 1_000, "{name} {}", cell.requests_simulated);
    }
}

#[test]
fn closed_loops_pause_before_each_next_request() {
    let with = |class: &str| {
        let device = "[device.tiered]\ncapacity = \"1GB\"\nplacement = { hit_ratio = 1.0 }\nfast = { read = \"constant 1ms\" }\n\
                      slow = { read = \"constant 1ms\" }\n";
        format!("duration = \"5s\"\nschedulers = [\"fifo\"]\n{device}[[class]]\nname = \"c\"\n{class}\n")
    };
    for (pause, requests) in [("0s", 5_000), ("4ms", 1_000)] {
        let text = with(&format!("backlog = 1\npause = \"{pause}\""));
        let cell = run_observed(&parse(&text), &mut Checker::new(1024, 1)).expect("it runs").0;
        assert_eq!(cell.requests_simulated, requests, "{pause}");
    }
    let error = Experiment::parse("test.toml", &with("rate = \"9/s\"\npause = \"4ms\"")).expect_err("an open loop");
    assert!(error.to_string().contains("pause: the class is no closed loop"), "{error}");
}

#[test]
fn seed_determines_an_experiments_bytes() {
    for scheduler in ["wfq", "mclock", "reward", "cfq"] {
        let report = |seed: u64| {
            let experiment = Experiment { seeds: vec![seed], ..parse(&busy(scheduler)) };
            let report = run(&experiment, &origin(), &Silent).expect("it runs");
            let document = document(&report).expect("it is JSON");
            FORMS.iter().map(|form| form.render(&document).expect("it renders")).collect::<Vec<_>>()
        };
        assert_eq!(report(1), report(1));
        assert_ne!(report(1), report(2));
    }
}

#[test]
fn stream_figures_add_up_to_classes() {
    let run = |by_stream| {
        let experiment = Experiment { by_stream, seeds: vec![1, 2], ..parse(&busy("wfq")) };
        run(&experiment, &origin(), &Silent).expect("it runs")
    };
    let report = run(Some(true));
    for cell in &report.summaries[0].cells {
        let of_streams = cell.streams.iter().map(|stream| (stream.requests, stream.bytes));
        let of_classes = cell.classes.iter().map(|class| (class.requests, class.bytes));
        let add = |sum: (u64, u64), (requests, bytes)| (sum.0 + requests, sum.1 + bytes);
        assert_eq!(of_streams.fold((0, 0), add), of_classes.fold((0, 0), add));
        assert_eq!(cell.streams.len(), 8, "a stream for each client");
    }
    let json =
        |report: &_| String::from_utf8(json_list(&[document(report).expect("it is JSON")]).into()).expect("text");
    assert!(json(&report).contains("\"name\": \"closed client 1\""), "{}", json(&report));
    assert!(!json(&run(None)).contains("streams_by_seed"));
}

#[test]
fn littles_law_and_tier_work_hold() {
    let text = format!(
        "duration = \"60s\"\nschedulers = [\"fifo\"]\ndepth = 8\n{ARRAY}[[class]]\nname = \"a\"\nbacklog = 20\n[[class]]\nname = \"b\"\nrate \
         = \"50/s\"\n"
    );
    let report = run(&parse(&text), &origin(), &Silent).expect("it runs");
    let measured = &report.summaries[0].cells[0];
    let span = measured.span.0 as f64;
    // In the system on average: waiting before the device, and in it.
    let waiting: f64 = measured.wait_nanos.iter().map(|nanos| *nanos as f64).sum::<f64>() / span;
    let inside: f64 = measured.classes.iter().map(|class| class.device_sum_nanos as f64).sum::<f64>() / span;
    let rate_times_latency: f64 =
        measured.classes.iter().map(|class| class.latency_sum_nanos as f64).sum::<f64>() / span;
    assert!(
        ((waiting + inside) / rate_times_latency - 1.0).abs() < 0.01,
        "{waiting} + {inside} against {rate_times_latency}"
    );
    // The closed loop alone has twenty in the system.
    let closed = measured.classes[0].latency_sum_nanos as f64 / span;
    assert!((closed - 20.0).abs() < 0.2, "{closed}");
    let slow = measured.tiers.iter().find(|tier| tier.name == "base").expect("the slow tier worked");
    assert_eq!(slow.busy_nanos, slow.service_nanos, "one at a time");
    assert!((slow.service_nanos as f64 / slow.requests as f64 / 2e6 - 1.0).abs() < 0.05);
    assert!(slow.busy_nanos <= measured.span.0);
    let fast = measured.tiers.iter().find(|tier| tier.name == "fast").expect("the fast tier worked");
    assert!(fast.busy_nanos <= fast.service_nanos && fast.service_nanos <= 2 * measured.span.0);
}

#[test]
fn open_loop_below_rate_is_m_m_1() {
    // One server of 1 ms at half of its rate: 2 ms in the system on average.
    let text = "duration = \"200s\"\nschedulers = [\"fifo\"]\ndepth = 1\n[device.tiered]\ncapacity = \"1GB\"\nplacement = { hit_ratio = 1 }\nfast \
                = { read = \"exponential 1ms\" }\nslow = { read = \"exponential 1ms\" }\n[[class]]\nname = \"a\"\nrate = \"500/s\"\n";
    let report = run(&parse(text), &origin(), &Silent).expect("it runs");
    let mean = METRICS.iter().find(|metric| metric.name == "latency_mean").expect("there");
    let figure = report.summaries[0].figure(mean, Some("a")).expect("something was done");
    assert!((figure.mean / 2e-3 - 1.0).abs() < 0.05, "{figure:?}");
}

#[test]
fn work_is_conserved_unless_limited() {
    let with = |limit: &str| {
        let text = format!(
            "duration = \"5s\"\nschedulers = [\"wfq\", \"drr\", \"sfq\", \"reward\", \"token-bucket\", \"mclock\"]\ndepth = \
             2\n{ARRAY}[[class]]\nname = \"a\"\nbacklog = 8\n{limit}[[class]]\nname = \"b\"\nbacklog = 8\n{limit}"
        );
        run(&parse(&text), &origin(), &Silent).expect("it runs")
    };
    let conservation = METRICS.iter().find(|metric| metric.name == "work_conservation").expect("there");
    for summary in with("").summaries {
        assert_eq!(summary.figure(conservation, None).map(|figure| figure.mean), Some(1.0), "{}", summary.scheduler);
    }
    let limited = with("limit = \"20/s\"\n");
    let of = |name: &str| limited.summaries.iter().find(|summary| summary.scheduler == name).expect(name);
    for name in ["token-bucket", "mclock"] {
        let share = of(name).figure(conservation, None).expect("measured").mean;
        assert!(share < 0.5, "{name} {share}");
        let requests: u64 = of(name).cells[0].classes.iter().map(|class| class.requests).sum();
        assert!(requests <= 2 * (5 * 20 + 2), "{name} {requests}");
    }
}

#[test]
fn short_queues_of_busy_devices_conserve_work() {
    let conservation = METRICS.iter().find(|metric| metric.name == "work_conservation").expect("there");
    let text = "duration = \"10s\"\nwarm_up = \"1s\"\nschedulers = [\"sfq:depth=1\", \"sfq:depth=4\", \"io-latency\"]\ndepth = 64\n\
                [device.tiered]\ncapacity = \"1GB\"\nplacement = { hit_ratio = 1 }\nfast = { depth = 4, read = \"exponential 2ms\" }\n\
                slow = { read = \"exponential 2ms\" }\n[[class]]\nname = \"a\"\nrate = \"50/s\"\nlatency = \"20ms\"\n\
                [[class]]\nname = \"b\"\nbacklog = 64\n";
    let report = run(&parse(text), &origin(), &Silent).expect("it runs");
    let shares = report.summaries.iter().map(|summary| summary.figure(conservation, None).expect("measured").mean);
    let shares: Vec<f64> = shares.collect();
    assert!(shares[0] < 0.01 && shares[1] > 0.99 && shares[2] > 0.99, "{shares:?}");
}

#[test]
fn a_full_drive_that_orders_commands_conserves_work() {
    let conservation = METRICS.iter().find(|metric| metric.name == "work_conservation").expect("there");
    for (device, depth) in [("hdd-20tb", 2), ("hdd-20tb", 4), ("hdd", 4), ("ssd-990pro", 4)] {
        let text = format!(
            "duration = \"2s\"\nschedulers = [\"none\"]\ndepth = {depth}\ndevice = \"{device}\"\n[[class]]\nname = \"a\"\nbacklog = 64\n"
        );
        let report = run(&parse(&text), &origin(), &Silent).expect("it runs");
        let figure = report.summaries[0].figure(conservation, None).map(|figure| figure.mean);
        assert_eq!(figure, Some(1.0), "{device} {depth}");
    }
}

#[test]
fn refused_requests_return_and_limit_is_reached() {
    let text = format!(
        "duration = \"10s\"\nschedulers = [\"mclock\"]\ndepth = 4\n{ARRAY}[[class]]\nname = \"a\"\nbacklog = 4\nlimit = \"200/s\"\nburst = \
         4\nrefuse_at_limit = true\nhit_ratio = 1.0\n"
    );
    let report = run(&parse(&text), &origin(), &Silent).expect("it runs");
    let class = &report.summaries[0].cells[0].classes[0];
    assert!((1_950..=2_010).contains(&class.requests), "{}", class.requests);
    assert!(class.refused > 0);
}

/// Bytes a second of the classes of an experiment on an array that does far more.
fn bandwidths(classes: &str) -> Vec<f64> {
    let text = format!(
        "duration = \"21s\"\nwarm_up = \"1s\"\nschedulers = [\"sfq\"]\ndepth = 8\n[device.tiered]\ncapacity = \"8GB\"\nplacement = \
         {{ hit_ratio = 1.0 }}\nfast = {{ depth = 8, read = \"constant 20us\" }}\nslow = {{ read = \"constant 20us\" }}\n{classes}"
    );
    let report = run(&parse(&text), &origin(), &Silent).expect("it runs");
    let bandwidth = METRICS.iter().find(|metric| metric.name == "bytes_per_second").expect("there");
    let names = parse(&text).classes.into_iter().map(|class| class.name);
    names.map(|name| report.summaries[0].figure(bandwidth, Some(&name)).expect("measured").mean).collect()
}

#[test]
fn smaller_of_two_limits_holds_at_any_size() {
    let mib = f64::from(1 << 20);
    // 100 requests a second, or 8 MiB, of which 4K reaches the first and 1M the second.
    for (size, goal) in [("4KiB", 100.0 * 4096.0), ("64KiB", 100.0 * 65536.0), ("1MiB", 8.0 * mib)] {
        let limits = "limit = \"100/s\"\nlimit_bytes = \"8MiB/s\"\n";
        let class = format!("[[class]]\nname = \"a\"\nbacklog = 8\nsize = \"{size}\"\n{limits}");
        let got = bandwidths(&class);
        assert!((got[0] / goal - 1.0).abs() < 0.01, "{size}: {got:?} of {goal}");
        // A group's limit holds its classes together.
        let group = format!("[[group]]\nname = \"g\"\n{limits}");
        let member =
            |name: &str| format!("[[class]]\nname = \"{name}\"\nbacklog = 8\nsize = \"{size}\"\ngroup = \"g\"\n");
        let got = bandwidths(&(group + &member("a") + &member("b")));
        assert!(((got[0] + got[1]) / goal - 1.0).abs() < 0.01, "{size}: {got:?} of {goal} together");
    }
}

#[test]
fn phase_changes_byte_limits_repeatedly() {
    let mib = f64::from(1 << 20);
    let phase = |at: u32, limit: &str| format!("[[class.phase]]\nat = \"{at}s\"\nlimit_bytes = \"{limit}/s\"\n");
    let class =
        "[[class]]\nname = \"a\"\nbacklog = 8\nsize = \"64KiB\"\nlimit_bytes = \"1MiB/s\"\nburst_bytes = \"256KiB\"\n";
    let got = bandwidths(&(class.to_owned() + &phase(6, "32MiB") + &phase(11, "2MiB") + &phase(16, "16MiB")));
    let goal = mib * (1.0 + 32.0 + 2.0 + 16.0) * 5.0 / 20.0;
    assert!((got[0] / goal - 1.0).abs() < 0.01, "{got:?} of {goal}");
}

#[test]
fn phase_changes_a_classs_priority() {
    for scheduler in ["mq-deadline", "bfq", "cfq", "fifo+mq-deadline:window=64"] {
        let text = format!(
            "duration = \"2s\"\nschedulers = [\"{scheduler}\"]\ndepth = 1\n[device.null]\ncapacity = \"1GB\"\nservice = \"1ms\"\n\
             [[class]]\nname = \"a\"\nbacklog = 8\npriority = \"realtime:0\"\n[[class.phase]]\nat = \"1s\"\npriority = \"idle\"\n\
             [[class]]\nname = \"b\"\nbacklog = 8\npriority = \"best-effort:0\"\n"
        );
        let report = run(&parse(&text), &origin(), &Silent).expect("it runs");
        let classes = &report.summaries[0].cells[0].classes;
        let part = |step: usize| {
            let requests = |class: usize| classes[class].steps[step].requests as f64;
            requests(0) / (requests(0) + requests(1))
        };
        assert!(part(0) > 0.9 && part(1) < 0.1, "{scheduler}: {} and {}", part(0), part(1));
    }
}

#[test]
fn device_time_equals_steps_of_serial_requests() {
    for scheduler in ["noop", "sfq", "reward+deadline"] {
        let text = format!(
            "duration = \"2s\"\ninterval = \"250ms\"\nschedulers = [\"{scheduler}\"]\ndepth = 1\n[device.null]\n\
             capacity = \"1GB\"\nservice = \"1700us\"\n[[class]]\nname = \"a\"\nbacklog = 8\n[[class]]\nname = \"b\"\nbacklog = 2\n"
        );
        let report = run(&parse(&text), &origin(), &Silent).expect("it runs");
        let classes = &report.summaries[0].cells[0].classes;
        assert_eq!(classes[0].steps.len(), 8);
        for (one, other) in classes[0].steps.iter().zip(&classes[1].steps) {
            assert_eq!(one.device_nanos + other.device_nanos, 250_000_000, "{scheduler}");
        }
    }
}

#[test]
fn missed_expectation_says_by_how_much() {
    let text = busy("wfq")
        + "[[expect]]\nclass = \"closed\"\nmetric = \"iops\"\nat_least = 1000000\n[[expect]]\nclass = \"closed\"\nmetric = \
           \"latency_p99\"\nat_most = \"1ns\"\n[[expect]]\nclass = \"closed\"\nmetric = \"iops\"\nratio_to = \"open\"\nat_least = 0.001\n";
    let report = run(&parse(&text), &origin(), &Silent).expect("it runs");
    let met: Vec<bool> = report.verdicts.iter().map(|verdict| verdict.met).collect();
    assert_eq!(met, [false, false, true]);
    let words = report.verdicts[0].words();
    assert!(words.starts_with("wfq: iops of closed at least 1000000: it is ") && words.ends_with(" off"), "{words}");
    assert!(report.verdicts[1].words().contains("ms"), "{}", report.verdicts[1].words());
    assert!(document(&report).expect("it is JSON").to_terminal(false).contains("NOT MET"));
}

#[test]
fn every_request_can_be_explained_under_every_scheduler() {
    for name in schedulers() {
        let experiment = parse(&busy(name));
        let story = explain(&experiment, &Which::Slowest("closed".into())).expect(name);
        assert!(story.contains(" of closed client ") && story.contains("  done at "), "{story}");
        assert!(story.contains("  waited for ") && story.contains("dispatched meanwhile"), "{name}: {story}");
        for number in [0, 17, 400] {
            explain(&experiment, &Which::Request(number)).expect(name);
        }
        assert!(explain(&experiment, &Which::Request(u64::MAX)).is_err());
    }
}

#[test]
fn first_scheduler_is_explained_despite_the_second() {
    let text = busy("fifo").replace("schedulers = [\"fifo\"]", "schedulers = [\"fifo\", \"mclock\"]").replacen(
        "rate = \"300/s\"\n",
        "rate = \"300/s\"\nreservation = \"10/s\"\n",
        1,
    );
    let story = explain(&parse(&text), &Which::Slowest("closed".into())).expect("it runs");
    assert!(story.contains("under fifo"), "{story}");
}

#[test]
fn the_parts_of_an_explanation_add_up() {
    let story = explain(&parse(&busy("wfq")), &Which::Slowest("closed".into())).expect("it runs");
    let micros = |text: &str| -> f64 {
        let mut words = text.split_whitespace();
        let number: f64 = words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{text}"));
        number * if words.next() == Some("ms") { 1e3 } else { 1.0 }
    };
    let total = micros(story.split("waited for ").nth(1).expect("it waited"));
    let parts = story.lines().skip_while(|line| !line.contains("waited for")).skip(1);
    let sum: f64 = parts.take_while(|line| line.starts_with("    ")).map(micros).sum();
    assert!((sum / total - 1.0).abs() < 0.02, "{sum} of {total}\n{story}");
}

#[test]
fn repository_examples_read_back() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("examples").map(|entry| entry.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|suffix| suffix == "toml"));
    assert!(files.len() >= 5);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        if !text.contains("[[class]]") {
            continue;
        }
        let experiment = parse(&text);
        let again = parse(&experiment.to_toml());
        assert_eq!(again, experiment, "{}", file.display());
    }
}

/// Every key of machines that excludes none.
const MACHINE: &str = "duration = \"1s\"\nschedulers = [\"fifo\"]\n[cores]\nworkers = 1\nserial = { window = \"2ms\", length = \"1us\" }\n[[device]]\nname = \"d\"\nmodel = \"hdd\"\ndepth = \
                       4\nscheduler = \"noop\"\n[[class]]\nname = \"a\"\nbacklog = 1\ndeadline = \"1s\"\ndevice = \"d\"\n[class.background]\ndebt = \"1MiB\"\ndeadline \
                       = \"1s\"\npace = \"watermark\"\nroom = \"1MiB\"\n";

#[test]
fn key_table_and_keys_agree() {
    // A file with every key; what serde knows and the table does not, or the other way round, shows here.
    let text = busy("mclock")
        .replacen("duration", "title = \"t\"\nseen = { source = \"trace\", name = \"a\", judged = \"second_half\", verdict = \"inside\", range = { depth_max = 8 } }\ngoal = \"mean\"\nof = \"open\"\nwarm_up = \"1s\"\nseeds = [1]\nqueue_requests = 100\nmerge = true\nfold = true\nby_stream = true\ncapacity = \"1M/s\"\nduration", 1)
        .replace("name = \"g\"", "name = \"g\"\nreservation = \"1/s\"\nlimit = \"1k/s\"\nburst = 2\nlatency = \"1s\"\nlimit_bytes = \"1GB/s\"\nburst_bytes = \"1MiB\"")
        .replace("name = \"closed\"", "name = \"closed\"\npause = \"1ms\"\npriority = \"idle\"\nlatency = \"1s\"\nlimit = \"1M/s\"\nlimit_bytes = \"1GB/s\"\nburst_bytes = \"1MiB\"\nregion = { from = \"0B\", to = \"1MB\" }")
        .replace(
            "at = \"1500ms\"",
            "at = \"1500ms\"\npriority = \"realtime:0\"\nread_ratio = 1.0\nhit_ratio = 0.5\nburst = 2\nreservation = \"1/s\"\nlimit = \"1M/s\"\nlimit_bytes = \"1GB/s\"\nburst_bytes = \"1MiB\"\nlatency = \"1s\"",
        )
        .replace("limit_bytes = \"1GB", "rbps = \"1GB/s\"\nwbps = \"1GB/s\"\nriops = \"1M/s\"\nwiops = \"1M/s\"\nlimit_bytes = \"1GB")
        .replace("[\"mclock\"]", "[\"mclock\", \"io-max\"]")
        + "[[expect]]\nclass = \"open\"\nratio_to = \"closed\"\nscheduler = \"mclock\"\nmetric = \"iops\"\nat_least = 0\nat_most = 1\n[sweep]\ndepth \
           = [1]\n";
    let table: toml::Table = parse(&text).to_toml().parse().expect("TOML");
    let mut found = std::collections::BTreeSet::new();
    let mut note = |prefix: &str, table: &toml::Table| {
        found.extend(table.keys().map(|key| if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") }));
    };
    note("", &table);
    // Devices, cores, a log and background work are of another kind of file.
    let seen = "[[device]]\nseen = { source = \"trace\", name = \"a\", judged = \"second_half\", verdict = \"inside\", range = { depth_max = 8 } }";
    let log = "[log]\nsize = \"1MiB\"\nwrites = 128\nclass = \"point\"\n[read_ahead]\nclass = \"ahead\"\n[locks]\nobject = \"1MiB\"\n[own_work]\nclass = \"own\"\n\
               region = \"1MiB\"\nwithin = \"1ms\"\n[cores]\nread = \"1us\"\nwrite = \"1us\"\nread_buffers = \"1MiB\"\ntail = { share = 0.1, from = \"1ms\", to = \"2ms\" }";
    let text = MACHINE.replacen("[[device]]", seen, 1).replacen("[cores]", log, 1);
    let text = format!(
        "{text}[[class]]\nname = \"point\"\ndevice = \"d\"\n[[class]]\nname = \"ahead\"\ndevice = \"d\"\n\
         [[class]]\nname = \"reads\"\ndevice = \"d\"\nbacklog = 1\nsequential = 0.5\nmisses = 0.5\n\
         read_ratio = 0.5\nlocks = true\ncost = {{ read = \"1us\", write = \"1us\", other = \"1us\", per_kib = \"1us\", completion = \"1us\", \
         slow_path = \"1us\", spread = 0.5, distribution = \"exponential\", tail = {{ share = 0.1, from = \"1ms\", to = \"2ms\" }} }}\n\
         [[class]]\nname = \"own\"\ndevice = \"d\"\nrate = \"1/s\"\nswing = {{ amplitude = 0.5, period = \"1s\" }}\n"
    );
    let drawn = text.replace("object = \"1MiB\"", "objects = 4").replace("region = \"1MiB\"", "regions = 4");
    let drawn: toml::Table = parse(&drawn).to_toml().parse().expect("TOML");
    for name in ["locks", "own_work"] {
        note(name, drawn[name].as_table().expect(name));
    }
    let machine: toml::Table = parse(&text).to_toml().parse().expect("TOML");
    note("", &machine);
    for name in ["cores", "log", "read_ahead", "locks", "own_work"] {
        note(name, machine[name].as_table().expect(name));
    }
    note("cores.tail", machine["cores"]["tail"].as_table().expect("a tail"));
    note("class", machine["class"][3].as_table().expect("a class"));
    note("class.cost", machine["class"][3]["cost"].as_table().expect("costs"));
    note("class", machine["class"][4].as_table().expect("a class"));
    note("class.swing", machine["class"][4]["swing"].as_table().expect("a swing"));
    note("device", machine["device"][0].as_table().expect("a device"));
    note("class", machine["class"][0].as_table().expect("a class"));
    note("class.background", machine["class"][0]["background"].as_table().expect("background work"));
    for name in ["class", "group", "expect"] {
        for entry in table[name].as_array().expect(name) {
            note(name, entry.as_table().expect(name));
            for phase in entry.get("phase").and_then(toml::Value::as_array).into_iter().flatten() {
                note("class.phase", phase.as_table().expect("a phase"));
            }
        }
    }
    // The one key that excludes others, and those that are not for groups or phases.
    found.extend(["class.trace", "class.phase.group", "group.group"].map(String::from));
    let path = |table: &str, name| if table.is_empty() { String::from(name) } else { format!("{table}.{name}") };
    let of_table = |(table, keys): (&str, Vec<_>)| {
        let names = keys.iter().map(|key: &ioweir_config::Key| path(table.trim_matches(['[', ']']), key.name));
        names.collect::<Vec<_>>()
    };
    let known: std::collections::BTreeSet<String> = key_tables().into_iter().flat_map(of_table).collect();
    assert_eq!(found, known);
}

/// The driver grows while slots of its requests that were never used are left, and gives out the new ones first.
#[test]
fn overload_beyond_the_queue_is_simulated_whole() {
    let text = "duration = \"500ms\"\ninterval = \"500ms\"\nschedulers = [\"sfq\"]\ndepth = 2\n[device.tiered]\ncapacity = \"1GB\"\n\
                fast = { read = \"constant 20us\" }\nslow = { read = \"constant 20us\" }\n[[class]]\nname = \"open\"\n\
                rate = \"100k/s\"\n[[class]]\nname = \"other\"\nrate = \"1k/s\"\n[[class]]\nname = \"closed\"\nbacklog = 64\n";
    let report = run(&parse(text), &origin(), &Silent).expect("a run");
    assert!(report.summaries[0].cells[0].requests_simulated > 20_000);
}

#[test]
fn a_limit_that_no_scheduler_keeps_is_refused() {
    let with = |scheduler: &str, limit: &str| {
        let text = busy("fifo").replace("limit = \"100/s\"\nburst = 3\nrefuse_at_limit = true\n", limit);
        let text = text.replace("\"fifo\"", &format!("\"{scheduler}\""));
        Experiment::parse("test.toml", &text).map(|_| ()).map_err(|error| error.to_string())
    };
    for (scheduler, limit, keeping) in
        [("wfq", "riops = \"5/s\"\n", "io-max"), ("io-cost", "limit = \"5/s\"\n", "fifo, ")]
    {
        let error = with(scheduler, limit).unwrap_err();
        assert!(error.contains("none of the schedulers keeps limits of this kind"), "{error}");
        assert!(error.contains(&format!("expected: one of {keeping}")), "{error}");
        assert_eq!(with(&format!("{scheduler}\", \"{}", keeping.trim_end_matches(", ")), limit), Ok(()));
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let base = busy("wfq");
    for (from, to, expected) in [
        ("depth = 4", "depht = 4", "test.toml:4:1: unknown field `depht`"),
        ("depth = 4", "depth = 0", "test.toml:4:9: depth: is 0\n  expected: 1 to 4096"),
        (
            "duration = \"3s\"",
            "duration = 3",
            "test.toml:1:12: duration: invalid type: integer `3`, expected text with a unit",
        ),
        ("\"wfq\"", "\"wfk\"", "unknown scheduler `wfk`"),
        ("\"wfq\"", "\"wfq:clients=0\"", "wfq: clients: 0 is out of range"),
        ("backlog = 4", "backlog = 4\npriority = \"idle:3\"", "`idle:3` is no I/O priority"),
        ("backlog = 4", "backlog = 4\nrate = \"1/s\"", "how its requests arrive is not said, or said twice"),
        ("rate = \"300/s\"", "rate = \"300\"", "`300` is not a rate"),
        ("name = \"open\"", "name = \"closed\"", "class[1].name: is empty, or that of another class"),
        ("group = \"g\"", "group = \"h\"", "class[0].group: unknown group `h`"),
        (
            "clients = 3",
            "clients = 3\nlimit = \"0/s\"",
            "test.toml:16:9: class[0].limit: a limit of 0/s would let nothing",
        ),
        (
            "clients = 3",
            "clients = 3\nlimit_bytes = \"0B/s\"",
            "class[0].limit_bytes: a limit of 0/s would let nothing",
        ),
        (
            "clients = 3",
            "clients = 3\nreservation = \"9/s\"",
            "class[0].reservation: 9/s cannot be reserved for a client in a",
        ),
        (
            "rate = \"300/s\"",
            "rate = \"300/s\"\nreservation = \"9/s\"",
            "class[1].reservation: none of the schedulers keeps reservations\n  expected: one of mclock, pclock, reward",
        ),
        ("at = \"1s\"", "at = \"1s\"\nreservation = \"9/s\"", "class[0].phase[0].reservation: none of the"),
        ("weight = 2", "weight = 2\nreservation = \"9/s\"", "group[0].reservation: none of the"),
        ("weight = 2", "weight = 0", "test.toml:12:10: group[0].weight: weight 0 is not between 1 and"),
        ("rate = \"300/s\"", "rate = \"300/s\"\nweight = 10001", "class[1].weight: weight 10001 is not between"),
        (
            "rate = \"300/s\"",
            "rate = \"300/s\"\nlimit = \"2M/s\"\nburst = 2000000000",
            "class[1].burst: a burst of 2000000000 is more than 1000000000",
        ),
        ("from = \"500ms\"", "from = \"3s\"", "class[2].from: the clients would come at 3s, and the run ends at 3s"),
        ("clients = 3", "clients = 3.5", "invalid type: floating point `3.5`, expected a whole number without quotes"),
        ("hit_ratio = 0.9", "hit_ratio = 1.9", "1.9 is not a number from 0 to 1"),
        ("at = \"1500ms\"", "at = \"500ms\"", "class[0].phase[1].at: 500ms is not in order"),
        ("interval = \"1s\"", "interval = \"2s\"", "interval: 3s is not made of steps of 2s"),
        ("placement = { hit_ratio = 0.5 }", "placement = { map = [] }", "the device does not draw its tier"),
        ("depth = 2, ", "depth = 0, ", "tiered.fast.depth: is 0"),
    ] {
        let text = base.replacen(from, to, 1);
        let error = Experiment::parse("test.toml", &text).expect_err(to).to_string();
        assert!(error.contains(expected), "{error}\nin place of\n{expected}");
    }
    for (sweep, expected) in [
        ("\"class.nobody.weight\" = [1]", "there is no `nobody`"),
        ("\"class.closed.hit_ratio\" = [0.5, 2.0]", "class.closed.hit_ratio = 2.0: 2 is not a number from 0 to 1"),
        ("depth = 3", "has no list of values"),
        ("depth = [1, 0]", "depth = 0: depth: is 0"),
    ] {
        let error = Experiment::parse("test.toml", &format!("{base}[sweep]\n{sweep}\n")).expect_err(sweep).to_string();
        assert!(error.starts_with("test.toml:") && error.contains(expected), "{error}\nin place of\n{expected}");
    }
}

#[test]
fn endless_or_invalid_experiment_is_refused() {
    let alone = "duration = \"1s\"\nschedulers = [\"wfq\"]\n[device.null]\ncapacity = \"1GB\"\n[[class]]\nname = \"a\"\nbacklog = 1\n";
    let server = "[[device]]\nname = \"d\"\npath = \"f\"\n[[export]]\nname = \"a\"\ndevice = \"d\"\n";
    for (text, expected) in [
        (alone.into(), "test.toml:7:11: class[0].backlog: a closed loop never ends on a device that takes no time"),
        (
            alone.replace("backlog = 1", "backlog = 1\ngroup = \"g\""),
            "class[0].group: there is no group `g`, nor any other",
        ),
        (server.into(), "the spec of a server, which `ioweir serve` takes"),
    ] {
        let error = Experiment::parse("test.toml", &text).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}\nin place of\n{expected}");
    }
}

/// The fuzzer's corpus, replayed on stable: what once failed does not fail again.
#[test]
fn nothing_in_the_corpus_breaks_the_reader() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/experiment");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a corpus").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let bytes = std::fs::read(&file).expect("readable");
        drive_experiment::drive(&bytes);
        // Damaged as a fuzzer would, from the same place in every run.
        let mut random = ioweir_device::random::Random::new(23);
        for _ in 0..100 {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(4) {
                let place = random.below(damaged.len() as u64) as usize;
                damaged[place] = random.below(128) as u8;
            }
            drive_experiment::drive(&damaged);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// For any classes, no class gets more than there is, and weights are kept where all ask throughout.
    #[test]
    fn weighted_sharing_keeps_to_the_weights(weights in prop::collection::vec(1_u32..8, 2..5), depth in 1_u32..5, seed in 0_u64..1000) {
        let classes: String = weights
            .iter()
            .enumerate()
            .map(|(number, weight)| format!("[[class]]\nname = \"c{number}\"\nbacklog = 12\nweight = {weight}\nhit_ratio = 1.0\n"))
            .collect();
        let text = format!("duration = \"4s\"\nseeds = [{seed}]\nschedulers = [\"wfq\", \"sfq\", \"drr\"]\ndepth = {depth}\n{ARRAY}{classes}");
        let report = run(&parse(&text), &origin(), &Silent).expect("it runs");
        for summary in &report.summaries {
            let classes = &summary.cells[0].classes;
            let gains: Vec<f64> = classes.iter().zip(&weights).map(|(class, weight)| class.requests as f64 / f64::from(*weight)).collect();
            let (low, high) = gains.iter().fold((f64::MAX, 0.0_f64), |(low, high), gain| (low.min(*gain), high.max(*gain)));
            prop_assert!(high - low <= 16.0, "{}: {gains:?}", summary.scheduler);
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(duration|depth|class|sweep|\\[|\\]|=|\"|[a-z0-9. \n]){0,60}") {
        let _ = Experiment::parse("test.toml", &text);
    }
}

/// A database and a backup of the idle class on a disk, under these keys.
fn pair(keys: &str) -> String {
    format!(
        "duration = \"4s\"\nschedulers = [\"none\", \"mq-deadline\"]\ndevice = \"hdd\"\n{keys}[[class]]\nname = \"db\"\nrate = \"30/s\"\n\
         [[class]]\nname = \"backup\"\nbacklog = 8\nsize = \"256KiB\"\nsequential = 1.0\npriority = \"idle\"\n"
    )
}

#[test]
fn goals_are_by_class_and_pass_the_gate() {
    let said = |keys: &str| {
        let report = run(&parse(&pair(keys)), &origin(), &Silent).expect("it runs");
        let document = document(&report).expect("a document");
        let form = FORMS.iter().find(|form| form.suffix == "json").expect("JSON");
        let json: serde_json::Value = serde_json::from_slice(&form.render(&document).expect("JSON")).expect("JSON");
        (json, document.to_terminal(false))
    };
    let (json, text) = said("goal = \"read-p99\"\n");
    let best = json["best"].as_array().expect("a list");
    assert_eq!(best.len(), 1, "the idle class does not count: {best:?}");
    assert_eq!((&best[0]["class"], &best[0]["best"]), (&"db".into(), &serde_json::json!(["mq-deadline"])), "{best:?}");
    assert!(text.contains("By the p99 of reads of db mq-deadline is best"), "{text}");
    assert!(text.contains("Take it with care: the requests are generated"), "{text}");
    assert!(text.contains("as in a Hadoop node (of about 2008)"), "the preset is described: {text}");
    let of = |of: &str| said(&format!("goal = \"mean\"\nof = \"{of}\"\n")).0["best"].clone();
    assert_eq!(of("all").as_array().map(Vec::len), Some(2));
    assert_eq!(of("backup")[0]["class"], "backup");
    assert!(said("").0["best"].is_null(), "nothing is recommended without a goal");
    for (keys, problem) in [
        ("goal = \"busy\"\n", "expected: mean or read-p99"),
        ("of = \"db\"\n", "there is no goal"),
        ("goal = \"mean\"\nof = \"dbb\"\n", "`dbb`"),
    ] {
        let error = Experiment::parse("test.toml", &pair(keys)).expect_err(problem).to_string();
        assert!(error.contains(problem), "{problem}: {error}");
    }
}
