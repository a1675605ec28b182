//! Rules for the write log of a machine and the consistency points that empty it.

use ioweir_lab::experiment::{Experiment, Which, explain, run, run_observed};
use ioweir_lab::run::{Origin, Silent};
use ioweir_lab::sim::{Checker, Outcome};

use crate::experiment::schedulers;

pub(crate) fn parse(text: &str) -> Experiment {
    Experiment::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn outcome(text: &str) -> Outcome {
    let origin = Origin { version: "test".into(), commit: "test".into(), command: "test".into() };
    run(&parse(text), &origin, &Silent).expect("it runs").summaries[0].cells[0].clone()
}

/// One worker, a device that takes 25 ms, and a write of 4 KiB every 10 ms from 10 ms on.
fn steady(log: &str, duration: &str) -> String {
    format!(
        "duration = \"{duration}\"\ninterval = \"{duration}\"\nschedulers = [\"fifo\"]\n[device.null]\ncapacity = \"1GB\"\n\
         service = \"25ms\"\n[cores]\nworkers = 1\nwrite = \"600us\"\ncompletion = \"400us\"\n[log]\nclass = \"point\"\n{log}\n\
         [[class]]\nname = \"a\"\nrate = \"100/s\"\narrivals = \"constant\"\nread_ratio = 0.0\n[[class]]\nname = \"point\"\n"
    )
}

#[test]
fn logged_write_waits_for_no_device() {
    let outcome = outcome(&steady("size = \"1MiB\"", "1s"));
    assert_eq!((outcome.classes[0].requests, outcome.classes[0].latency_sum_nanos), (99, 99 * 1_000_000));
    assert_eq!((outcome.dispatches, outcome.log.expect("a log").points), (0, 0));
}

#[test]
fn full_log_waits_for_point() {
    // Writes come at 10, 20, 30 and 40 ms. The second finds its half full and begins a point, whose write goes to the device at
    // 21 ms, behind that of the client at the worker, and is done at 46 ms. The third waits until then; the fourth still waits.
    let outcome = outcome(&steady("size = \"8KiB\"", "50ms"));
    let class = &outcome.classes[0];
    let times = class.layers.expect("a machine");
    assert_eq!((class.requests, class.latency_sum_nanos), (3, 19_000_000));
    assert_eq!((times.log_room_nanos(), times.core_wait_nanos(), times.core_run_nanos()), (16_000_000, 0, 3_000_000));
    let log = outcome.log.expect("a log");
    assert_eq!((log.points, log.writes, log.filled_max_bytes), (2, 1, 8192));
}

#[test]
fn timer_begins_point_of_half_full_log() {
    // Points begin at 105 and 210 ms, with ten and eleven writes in the log, and the device writes each at once.
    let text = steady("size = \"1MiB\"\ninterval = \"105ms\"", "250ms");
    let outcome = outcome(&text.replace("name = \"point\"\n", "name = \"point\"\nsize = \"64KiB\"\n"));
    let log = outcome.log.expect("a log");
    assert_eq!((log.points, log.writes), (2, 2));
    assert_eq!(outcome.classes[1].bytes, 2 * 65_536);
}

#[test]
fn record_takes_room_beside_data() {
    let filled = |log: &str| outcome(&steady(log, "50ms")).log.expect("a log").filled_max_bytes;
    assert_eq!(filled("size = \"1MiB\""), 4 * 4096);
    assert_eq!(filled("size = \"1MiB\"\nrecord = \"100B\""), 4 * 4196);
}

#[test]
fn write_beyond_half_of_log_goes_to_device() {
    let text = steady("size = \"16KiB\"", "50ms").replace("read_ratio = 0.0", "read_ratio = 0.0\nsize = \"64KiB\"");
    let outcome = outcome(&text);
    assert_eq!((outcome.log.expect("a log").points, outcome.dispatches > 0), (0, true));
}

/// Two disks under two workers and a small log, with readers beside writers.
fn busy(scheduler: &str, schedule: &str, of_point: &str) -> String {
    format!(
        "duration = \"2s\"\nschedulers = [\"{scheduler}\"]\ndepth = 4\n[cores]\nworkers = 2\nschedule = \"{schedule}\"\n\
         read = \"50us\"\nwrite = \"80us\"\nper_kib = \"2us\"\ncompletion = \"10us\"\nturn = \"1us\"\nexpiry = \"22us\"\n\
         [log]\nsize = \"512KiB\"\nrecord = \"256B\"\ninterval = \"300ms\"\nclass = \"point\"\nbase = \"30us\"\nper_kib = \"1us\"\n\
         [[device]]\nname = \"disks\"\nmodel = \"hdd\"\ncount = 2\nstripe = \"64KiB\"\n\
         [[class]]\nname = \"writer\"\nclients = 3\nbacklog = 4\nread_ratio = 0.2\n\
         [[class]]\nname = \"reader\"\nrate = \"50/s\"\nsize = \"8KiB\"\n\
         [[class]]\nname = \"point\"\nsize = \"16KiB\"\nregion = {{ from = \"1GiB\", to = \"2GiB\" }}\n{of_point}\n"
    )
}

#[test]
fn times_with_log_add_up_to_latency() {
    for scheduler in schedulers() {
        for schedule in ["baseline", "combo", "adaptive"] {
            let mut checker = Checker::new(1024, 4);
            let (outcome, ended) = run_observed(&parse(&busy(scheduler, schedule, "")), &mut checker).expect(scheduler);
            checker.conclude_served(outcome.requests_simulated);
            assert_eq!((ended.unfinished, ended.skipped), (0, 0), "{scheduler} {schedule}");
            let log = outcome.log.expect("a log");
            assert!(log.points > 2 && log.filled_max_bytes <= log.bytes, "{scheduler} {schedule}: {log:?}");
        }
    }
}

#[test]
fn share_of_points_holds_back_writers() {
    let written = |of_point: &str| {
        let outcome = outcome(&busy("mclock", "baseline", of_point));
        let [writer, point] = ["writer", "point"].map(|name| outcome.class(name).expect("named").clone());
        (point.bytes, writer.layers.expect("a machine").log_room_nanos() / writer.requests)
    };
    // Each of the two disks keeps the limit anew.
    let (free, limited) = (written(""), written("limit = \"5/s\""));
    assert!(limited.0 <= 16_384 * 22 && free.0 > 2 * limited.0, "{free:?} {limited:?}");
    assert!(limited.1 > 2 * free.1, "{free:?} {limited:?}");
}

#[test]
fn story_tells_of_wait_for_log() {
    let text = busy("fifo", "baseline", "").replace("read_ratio = 0.2", "read_ratio = 0.0");
    let story = explain(&parse(&text), &Which::Slowest("writer".into())).expect("it runs");
    for words in ["for room in the write log", "in the write log\n"] {
        assert!(story.contains(words), "{words}: {story}");
    }
    assert!(!story.contains("went to"), "{story}");
}

#[test]
fn senseless_log_is_refused_with_place() {
    let whole = busy("fifo", "baseline", "");
    for (from, to, at) in [
        ("class = \"point\"", "class = \"pont\"", "log.class"),
        ("name = \"point\"\n", "name = \"point\"\nrate = \"5/s\"\n", "class[2].rate"),
        ("name = \"point\"\n", "name = \"point\"\nsequential = 0.5\n", "class[2].sequential"),
        ("size = \"512KiB\"", "size = \"16KiB\"", "log.size"),
        ("interval = \"300ms\"", "interval = \"0s\"", "log.interval"),
        ("interval = \"300ms\"", "writes = 0", "log.writes: is 0"),
        ("interval = \"300ms\"", "writes = 15", "log.writes: half of 512KiB is more than 15 writes of 16KiB"),
        (
            "write = \"80us\"\nper_kib = \"2us\"\ncompletion = \"10us\"",
            "",
            "writes of `writer` would be answered at once",
        ),
    ] {
        assert!(whole.contains(from), "{from}");
        let error = Experiment::parse("my.toml", &whole.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(at), "{to}: {error}");
    }
    let cores = "[cores]\nworkers = 1\nwrite = \"600us\"\ncompletion = \"400us\"\n";
    let without = steady("size = \"1MiB\"", "1s").replace(cores, "");
    let error = Experiment::parse("my.toml", &without).expect_err("nobody fills it").to_string();
    assert!(error.contains("there are no cores"), "{error}");
}

#[test]
fn point_divides_log_among_its_writes() {
    // The point of 105 ms writes ten writes of 4 KiB, that of 210 ms eleven, each by four writes.
    let text = steady("size = \"1MiB\"\ninterval = \"105ms\"\nwrites = 4\nper_kib = \"10us\"", "400ms");
    let outcome = outcome(
        &text
            .replace("service = \"25ms\"", "service = \"1ms\"")
            .replace("name = \"point\"\n", "name = \"point\"\nsize = \"128KiB\"\n"),
    );
    let log = outcome.log.expect("a log");
    assert_eq!((log.points, log.writes), (3, 12));
    // The third point has ten again.
    let bytes = 4 * (10_240 + 11_264 + 10_240);
    assert_eq!(outcome.classes[1].bytes, bytes);
    let times = outcome.classes[1].layers.expect("a machine");
    assert_eq!(times.core_run_nanos(), bytes / 1024 * 10_000);
}
