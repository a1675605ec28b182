//! Rules for machines: cores above several devices, and background work.

use ioweir_lab::experiment::{Experiment, Which, document, explain, run, run_observed};
use ioweir_lab::run::{Origin, Silent};
use ioweir_lab::sim::{Checker, ClassOutcome, Outcome};

use crate::experiment::{ARRAY, busy, schedulers};
use crate::sample::is_thorough;

fn parse(text: &str) -> Experiment {
    Experiment::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn origin() -> Origin {
    Origin { version: "test".into(), commit: "test".into(), command: "test".into() }
}

fn outcome(text: &str) -> Outcome {
    let report = run(&parse(text), &origin(), &Silent).expect("it runs");
    report.summaries[0].cells[0].clone()
}

/// The experiment with its device as the only one of several.
fn as_machine(text: &str) -> String {
    text.replace("[device.tiered]", "[[device]]\nname = \"only\"\n[device.model.tiered]")
}

#[test]
fn machine_of_one_device_equals_device() {
    for scheduler in schedulers() {
        let text = busy(scheduler);
        let (alone, machine) = (outcome(&text), outcome(&as_machine(&text)));
        let without = |class: &ClassOutcome| ClassOutcome { layers: None, ..class.clone() };
        let classes: Vec<ClassOutcome> = machine.classes.iter().map(without).collect();
        assert_eq!(classes, alone.classes, "{scheduler}");
        let numbers = |outcome: &Outcome| {
            let Outcome { wait_nanos, dispatches, merged_requests, jain_millionths, conserving_millionths, .. } =
                *outcome;
            let times = (outcome.completion, outcome.busy, outcome.span, outcome.reservations_behind);
            (wait_nanos, dispatches, merged_requests, jain_millionths, conserving_millionths, times)
        };
        assert_eq!(numbers(&machine), numbers(&alone), "{scheduler}");
        assert_eq!(machine.requests_simulated, alone.requests_simulated, "{scheduler}");
        let latency = |class: &ClassOutcome| class.layers.map(|times| times.sum_nanos());
        for class in &machine.classes {
            assert_eq!(latency(class), Some(class.latency_sum_nanos), "{scheduler}: {}", class.name);
        }
    }
}

/// Two disks under cores that are nearly busy, with background work beside two classes.
fn machine(scheduler: &str, cores: &str, background: &str) -> String {
    format!(
        "duration = \"4s\"\nschedulers = [\"{scheduler}\"]\ndepth = 4\n[cores]\nworkers = 2\n{cores}\n\
         [[device]]\nname = \"disks\"\nmodel = \"hdd\"\ncount = 2\nstripe = \"64KiB\"\n\
         [[device]]\nname = \"flash\"\nmodel = \"ssd-970pro\"\nscheduler = \"noop\"\n\
         [[class]]\nname = \"desktop\"\nclients = 3\nrate = \"60/s\"\nread_ratio = 0.5\ndevice = \"disks\"\n\
         [[class]]\nname = \"database\"\nbacklog = 2\nsize = \"8KiB\"\ndevice = \"flash\"\nto = \"2s\"\n\
         [[class]]\nname = \"scrub\"\nbacklog = 1\nsize = \"64KiB\"\nsequential = 1.0\ndevice = \"disks\"\n\
         [class.background]\n{background}\n"
    )
}

const COSTS: &str = "read = \"100us\"\nwrite = \"80us\"\nper_kib = \"2us\"\ncompletion = \"10us\"\nturn = \"1us\"";

#[test]
fn times_by_layer_add_up_to_latency() {
    for scheduler in schedulers() {
        for cores in [
            "schedule = \"baseline\"",
            COSTS,
            "completion = \"20us\"",
            "schedule = \"combo\"\nread = \"500us\"",
            "schedule = \"shinjuku:quantum=50us\"\nread = \"500us\"\nexpiry = \"22us\"\nserial = { window = \"2ms\", length = \"300us\" }",
        ] {
            let mut checker = Checker::new(1024, 4);
            let mut text = machine(scheduler, cores, "debt = \"8MiB\"\npace = \"always\"");
            if !is_thorough() {
                text = text.replace("duration = \"4s\"", "duration = \"1s\"").replace("to = \"2s\"", "to = \"100ms\"");
            }
            let (outcome, ended) = run_observed(&parse(&text), &mut checker).expect(scheduler);
            checker.conclude_served(outcome.requests_simulated);
            assert_eq!((ended.unfinished, ended.skipped), (0, 0), "{scheduler}");
        }
    }
}

#[test]
fn requests_wait_for_cores_only_if_busy() {
    let text = |workers: u32| {
        format!(
            "duration = \"1s\"\nschedulers = [\"fifo\"]\n[device.null]\ncapacity = \"1GB\"\nservice = \"10us\"\n[cores]\nworkers = \
             {workers}\nread = \"100us\"\n[[class]]\nname = \"a\"\nrate = \"15k/s\"\narrivals = \"constant\"\n"
        )
    };
    let class = |outcome: &Outcome| outcome.classes[0].layers.expect("a machine");
    let (one, two) = (outcome(&text(1)), outcome(&text(2)));
    assert!(class(&one).core_wait_nanos() > 1_000_000 * one.classes[0].requests, "15,000 a second need 1.5 cores");
    assert_eq!(class(&two).core_wait_nanos(), 0);
    assert_eq!(class(&two).core_run_nanos(), 100_000 * two.classes[0].requests);
    let busy = |outcome: &Outcome| outcome.cores.expect("cores").busy.0 as f64 / 1e9;
    assert!(busy(&one) > 0.999 && (busy(&two) - 1.5).abs() < 0.01, "{} {}", busy(&one), busy(&two));
}

/// One worker that can do 10,000 requests a second, and two classes under this load, with these further keys of the cores and of class b.
fn busy_worker(load: &str, cores: &str, of_b: &str) -> Outcome {
    outcome(&format!(
        "duration = \"1s\"\nschedulers = [\"fifo\"]\n[device.null]\ncapacity = \"1GB\"\nservice = \"10us\"\n[cores]\nworkers = 1\n\
         read = \"100us\"\n{cores}\n[[class]]\nname = \"a\"\n{load}\n[[class]]\nname = \"b\"\n{load}\n{of_b}\n"
    ))
}

#[test]
fn requests_with_deadlines_go_first() {
    let waits = |of_b: &str| {
        let outcome = busy_worker("rate = \"4800/s\"", "", of_b);
        ["a", "b"].map(|name| {
            let class = outcome.class(name).expect("named");
            class.layers.expect("a machine").core_wait_nanos() / class.requests
        })
    };
    let (without, with) = (waits(""), waits("deadline = \"5ms\""));
    assert!(without[1].abs_diff(without[0]) * 10 < without[0], "{without:?}");
    assert!(with[1] * 3 < without[1] && with[0] > without[0], "{with:?} for {without:?}");
}

#[test]
fn expired_slices_and_serial_windows_cost_time() {
    let answered = |cores: &str| {
        let outcome = busy_worker("backlog = 16", cores, "");
        outcome.classes.iter().map(|class| class.requests).sum::<u64>()
    };
    // A hundred microseconds for each request; every twelfth ends a slice of 1.2 ms, and costs 24 us more.
    let slices = "schedule = \"all-to-hq:all-weights=yes\"\n";
    let whole = answered(slices);
    assert!(whole.abs_diff(10_000) < 50, "{whole}");
    let expired = answered(&format!("{slices}expiry = \"24us\""));
    assert!(expired.abs_diff(10_000 * 1_200 / 1_224) < 60, "{expired}");
    // A request that has begun is not held up: at the end of a serial window of 500 us, the worker has stood still for less.
    let held = answered(&format!("{slices}serial = {{ window = \"2ms\", length = \"500us\" }}"));
    assert!((7_500..7_600).contains(&held), "{held}");
}

#[test]
fn every_turn_costs_its_time() {
    // A request comes every 250 us and finds the worker idle, so that each has a turn of its own.
    let class = |cores: &str| {
        let outcome = busy_worker("rate = \"2k/s\"\narrivals = \"constant\"", cores, "from = \"250us\"");
        let times = outcome.classes[0].layers.expect("a machine");
        (times.core_wait_nanos() / outcome.classes[0].requests, outcome.cores.expect("cores").busy.0 / 3_998)
    };
    assert_eq!(class("schedule = \"all-to-hq\""), (0, 100_000));
    assert_eq!(class("schedule = \"all-to-hq\"\nturn_each = \"30us\""), (30_000, 130_000));
}

#[test]
fn deadline_needs_cores() {
    let text = "duration = \"1s\"\nschedulers = [\"fifo\"]\ndevice = \"hdd\"\n[[class]]\nname = \"a\"\nrate = \"1/s\"\ndeadline = \"5ms\"\n";
    let error = Experiment::parse("test.toml", text).expect_err("nobody reads it").to_string();
    assert!(error.contains("there is no [cores]"), "{error}");
    let serial = format!("{text}[cores]\nworkers = 1\nserial = {{ window = \"2ms\", length = \"2ms\" }}\n");
    let error = Experiment::parse("test.toml", &serial).expect_err("nothing would run").to_string();
    assert!(error.contains("cores.serial.length"), "{error}");
}

#[test]
fn overloaded_cores_read_no_further() {
    let text = "duration = \"1s\"\nschedulers = [\"fifo\"]\n[device.null]\ncapacity = \"1GB\"\n[cores]\nworkers = 1\nread = \
                \"1ms\"\n[[class]]\nname = \"a\"\nrate = \"500k/s\"\n";
    let mut checker = Checker::new(1024, 32);
    let (outcome, ended) = run_observed(&parse(text), &mut checker).expect("it runs");
    checker.conclude_served(outcome.requests_simulated);
    assert_eq!(ended.unfinished, 0);
    assert!(outcome.requests_simulated < 80_000, "{} of 500,000 are in memory", outcome.requests_simulated);
}

#[test]
fn idle_background_yields_and_ends_in_time() {
    let scrub = |background: &str| {
        let outcome = outcome(&machine("fifo", COSTS, background));
        let desktop = outcome.class("desktop").expect("named").layers.expect("a machine").background_nanos;
        let debt = outcome.class("scrub").and_then(|class| class.debt).expect("it owes");
        (desktop, debt.left_bytes, debt.late_bytes)
    };
    let always = scrub("debt = \"20MiB\"\npace = \"always\"");
    let idle = scrub("debt = \"20MiB\"\ndeadline = \"3500ms\"");
    assert_eq!((always.1, always.2), (0, 0));
    assert_eq!((idle.1, idle.2), (0, 0), "the deadline is kept");
    assert!(idle.0 < always.0, "{} {}", idle.0, always.0);
    let late = scrub("debt = \"2GiB\"\ndeadline = \"1s\"");
    assert!(late.1 > 0 && late.2 > 1 << 30, "what cannot be done in time is late: {late:?}");
}

#[test]
fn watermark_background_stops_at_low_mark() {
    let outcome = outcome(&machine("fifo", "", "debt = \"10MiB\"\npace = \"watermark\"\nlow = 0.4\nhigh = 0.5"));
    let debt = outcome.class("scrub").and_then(|class| class.debt).expect("it owes");
    assert_eq!((debt.owed_bytes, debt.left_bytes), (10 << 20, 4 << 20));
}

#[test]
fn request_story_walks_through_all_layers() {
    let text = machine("sfq+deadline", COSTS, "debt = \"100MiB\"\npace = \"always\"");
    let story = explain(&parse(&text), &Which::Slowest("desktop".into())).expect("it runs");
    for words in [
        "for a core and was executed for",
        "before the device",
        "went to disks ",
        "worked for the background",
        "done at",
    ] {
        assert!(story.contains(words), "{words}: {story}");
    }
    assert!(explain(&parse(&text), &Which::Slowest("database".into())).is_ok_and(|story| story.contains("under noop")));
}

#[test]
fn machine_report_has_layers_devices_and_debts() {
    let report = run(&parse(&machine("sfq", COSTS, "debt = \"10MiB\"")), &origin(), &Silent).expect("it runs");
    let document = document(&report).expect("a document");
    let text = document.to_terminal(false);
    for title in ["Time by layer", "Background work", "Devices", "cores busy"] {
        assert!(text.contains(title), "{title}: {text}");
    }
}

#[test]
fn impossible_machine_is_refused_with_place() {
    let good = machine("sfq", COSTS, "debt = \"10MiB\"");
    let _ = parse(&good);
    for (from, to, place, problem) in [
        ("device = \"flash\"", "device = \"flahs\"", ":30:10:", "unknown device `flahs`"),
        ("device = \"flash\"\n", "", "", "which device serves it is not said"),
        ("name = \"flash\"\nmodel", "name = \"disks\"\nmodel", "", "that of another device"),
        ("count = 2", "count = 0", "", "is 0"),
        ("count = 2", "count = 300", "", "is 300"),
        ("stripe = \"64KiB\"", "stripe = \"100B\"", "", "is 100B"),
        ("stripe = \"64KiB\"", "stripe = \"32KiB\"", "", "64KiB does not divide the stripe of `disks`"),
        (
            "depth = 4",
            "depth = 4\nqueue_requests = 4000000\nseeds = [1]",
            "",
            "the queues of 3 devices would hold 12000000",
        ),
        ("workers = 2", "workers = 0", "", "is 0"),
        ("workers = 2", "workers = 2\nspeed = 1", "", "unknown field `speed`"),
        ("debt = \"10MiB\"", "debt = \"64KiB\"", "", "less than a request for each of 2 devices"),
        ("debt = \"10MiB\"", "debt = \"10MiB\"\nlow = 0.2", "", "has no effect at this pace"),
        ("debt = \"10MiB\"", "debt = \"10MiB\"\npace = \"watermark\"\nlow = 0.6", "", "is 0.6, and high is 0.5"),
        ("backlog = 1\n", "rate = \"5/s\"\n", "", "its debt alone says"),
        ("backlog = 1\n", "backlog = 1\nclients = 5\n", "", "is 5: each device has one client"),
    ] {
        assert!(good.contains(from), "{from}");
        let error = Experiment::parse("test.toml", &good.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(problem) && error.contains(place) && error.starts_with("test.toml:"), "{to}: {error}");
    }
    let one = format!(
        "duration = \"1s\"\nschedulers = [\"fifo\"]\n{ARRAY}[[class]]\nname = \"a\"\nrate = \"1/s\"\ndevice = \"x\"\n"
    );
    let error = Experiment::parse("test.toml", &one).expect_err("one device").to_string();
    assert!(error.contains("there is one device, without a name"), "{error}");
}
