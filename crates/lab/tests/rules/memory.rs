//! Rules for reads that are answered from the memory of a machine, and for reads ahead.

use ioweir_lab::experiment::{Experiment, Which, explain, run_observed};
use ioweir_lab::sim::Checker;

use crate::experiment::schedulers;
use crate::log::{outcome, parse};

/// One worker, a device that takes 2 ms, and a read of 4 KiB every 10 ms from 10 ms on.
fn steady(of_class: &str, rest: &str) -> String {
    format!(
        "duration = \"1s\"\ninterval = \"1s\"\nschedulers = [\"fifo\"]\n[device.null]\ncapacity = \"1GB\"\n\
         service = \"2ms\"\n[cores]\nworkers = 1\nread = \"600us\"\ncompletion = \"400us\"\nper_kib = \"25us\"\n\
         [[class]]\nname = \"a\"\nrate = \"100/s\"\narrivals = \"constant\"\n{of_class}\n{rest}\n"
    )
}

#[test]
fn read_in_memory_visits_no_device() {
    let found = outcome(&steady("misses = 0.0", ""));
    let class = &found.classes[0];
    assert_eq!((class.requests, class.latency_sum_nanos, found.dispatches), (99, 99 * 1_100_000, 0));
    let writes = outcome(&steady("misses = 0.0\nread_ratio = 0.0", ""));
    assert_eq!((writes.classes[0].requests, writes.dispatches), (99, 99));
}

#[test]
fn certain_miss_is_as_without_key() {
    assert_eq!(outcome(&steady("misses = 1.0", "")), outcome(&steady("", "")));
}

#[test]
fn every_schedule_finds_same_misses() {
    let dispatches = |schedule: &str, scheduler: &str| {
        let text = busy(scheduler, schedule).replace("misses = 0.4", "misses = 0.3");
        let outcome = outcome(&text.replace("backlog = 4", "rate = \"500/s\""));
        (outcome.class("reader").expect("named").requests, outcome.class("reader").expect("named").dispatched)
    };
    let first = dispatches("baseline", "fifo");
    assert_eq!(
        [("combo", "fifo"), ("adaptive", "fifo")].map(|(schedule, other)| dispatches(schedule, other)),
        [first; 2]
    );
    let (requests, missed) = (first.0 as f64, first.1 as f64);
    assert!((missed - 0.3 * requests).abs() < 4.0 * (requests * 0.21).sqrt(), "{first:?}");
}

const AHEAD: &str = "[read_ahead]\nclass = \"ahead\"\nbase = \"100us\"\nper_kib = \"1us\"\n[[class]]\nname = \"ahead\"\nsize = \"64KiB\"\n";

#[test]
fn reading_on_reads_ahead_by_size() {
    let plain = outcome(&steady("sequential = 1.0", ""));
    // 99 reads of 4 KiB come to a multiple of 64 KiB six times.
    let ahead = outcome(&steady("sequential = 1.0", AHEAD));
    let class = ahead.class("ahead").expect("named");
    assert_eq!((class.requests, class.bytes), (6, 6 * 65_536));
    // A read ahead waits behind its reader for the worker, which runs it for 164 us, and goes to the device before the reader is back.
    let [busy, before] = [&ahead, &plain].map(|outcome| outcome.cores.expect("cores").busy.0);
    assert_eq!(busy - before, 6 * 164_000);
    let random = "[[class]]\nname = \"b\"\nrate = \"50/s\"\n";
    assert_eq!(
        outcome(&steady("sequential = 1.0", &format!("{AHEAD}{random}"))).class("ahead").expect("named").requests,
        6
    );
}

#[test]
fn reading_ahead_ends_with_device() {
    let text = steady("sequential = 1.0", AHEAD).replace("1GB", "128KiB");
    // The 16th read is followed by the second half; the 32nd by nothing.
    let text = text.replace("duration = \"1s\"\ninterval = \"1s\"", "duration = \"325ms\"\ninterval = \"325ms\"");
    assert_eq!(outcome(&text).class("ahead").expect("named").requests, 1);
}

/// Two disks under two workers, a log and a memory, with readers beside writers.
fn busy(scheduler: &str, schedule: &str) -> String {
    format!(
        "duration = \"2s\"\nschedulers = [\"{scheduler}\"]\ndepth = 4\n[cores]\nworkers = 2\nschedule = \"{schedule}\"\n\
         read = \"50us\"\nwrite = \"80us\"\nper_kib = \"2us\"\ncompletion = \"10us\"\nturn = \"1us\"\nexpiry = \"22us\"\n\
         [log]\nsize = \"512KiB\"\ninterval = \"300ms\"\nclass = \"point\"\nbase = \"30us\"\nper_kib = \"1us\"\n\
         [read_ahead]\nclass = \"ahead\"\nbase = \"30us\"\n\
         [[device]]\nname = \"disks\"\nmodel = \"bank\"\ncount = 2\nstripe = \"64KiB\"\n\
         [[class]]\nname = \"reader\"\nclients = 3\nbacklog = 4\nread_ratio = 0.8\nsequential = 0.7\nmisses = 0.4\n\
         [[class]]\nname = \"point\"\nsize = \"16KiB\"\nregion = {{ from = \"1GiB\", to = \"2GiB\" }}\n\
         [[class]]\nname = \"ahead\"\nsize = \"16KiB\"\n"
    )
}

#[test]
fn times_with_memory_add_up_to_latency() {
    for scheduler in schedulers() {
        for schedule in ["baseline", "adaptive"] {
            let mut checker = Checker::new(1024, 4);
            let (outcome, ended) = run_observed(&parse(&busy(scheduler, schedule)), &mut checker).expect(scheduler);
            checker.conclude_served(outcome.requests_simulated);
            assert_eq!((ended.unfinished, ended.skipped), (0, 0), "{scheduler} {schedule}");
            assert!(outcome.class("ahead").expect("named").requests > 100, "{scheduler} {schedule}");
        }
    }
}

#[test]
fn story_tells_of_memory() {
    let story = explain(&parse(&steady("misses = 0.0", "")), &Which::Request(7)).expect("it runs");
    assert!(story.contains("after it arrived, from memory\n") && !story.contains("went to"), "{story}");
}

/// Background work, before the class that reads ahead.
const PAID: &str =
    "[[class]]\nname = \"b\"\nbacklog = 1\nmisses = 0.5\nbackground = { debt = \"1MiB\" }\n[[class]]\nname = \"ahead\"";

#[test]
fn senseless_memory_is_refused_with_place() {
    let whole = steady("sequential = 1.0\nmisses = 0.5", AHEAD);
    for (from, to, at) in [
        ("class = \"ahead\"", "class = \"head\"", "read_ahead.class"),
        ("name = \"ahead\"\n", "name = \"ahead\"\nrate = \"5/s\"\n", "class[1].rate"),
        ("name = \"ahead\"\n", "name = \"ahead\"\nmisses = 0.5\n", "class[1].misses"),
        ("name = \"ahead\"\n", "name = \"ahead\"\nregion = { from = \"0B\", to = \"1MiB\" }\n", "class[1].region"),
        ("sequential = 1.0", "", "no class reads sequentially on the device of `ahead`"),
        ("read = \"600us\"\ncompletion = \"400us\"", "", "class[0].misses: reads would be answered at once"),
        ("[[class]]\nname = \"ahead\"", PAID, "class[1].misses: background work is done on its device"),
    ] {
        assert!(whole.contains(from), "{from}");
        let error = Experiment::parse("my.toml", &whole.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(at), "{to}: {error}");
    }
    let cores = "[cores]\nworkers = 1\nread = \"600us\"\ncompletion = \"400us\"\nper_kib = \"25us\"\n";
    let error = Experiment::parse("my.toml", &whole.replace(cores, "")).expect_err("nobody reads ahead").to_string();
    assert!(error.contains("read_ahead: there are no cores"), "{error}");
}
