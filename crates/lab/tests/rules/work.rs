//! Rules for the work of a machine's cores: locks, own work that gates writes, costs that vary, and rates that swing.

use ioweir_lab::experiment::{Experiment, Which, explain, run_observed};
use ioweir_lab::sim::{Checker, ClassOutcome};

use crate::experiment::schedulers;
use crate::log::{outcome, parse};

/// Two workers, a device, and a read of 4 KiB every 10 ms from 10 ms on.
fn steady(duration: &str, service: &str, of_class: &str, rest: &str) -> String {
    format!(
        "duration = \"{duration}\"\ninterval = \"{duration}\"\nschedulers = [\"fifo\"]\n[device.null]\ncapacity = \"1GB\"\n\
         service = \"{service}\"\n[cores]\nworkers = 2\nread = \"600us\"\nwrite = \"600us\"\ncompletion = \"400us\"\n\
         [[class]]\nname = \"a\"\nrate = \"100/s\"\narrivals = \"constant\"\n{of_class}\n{rest}\n"
    )
}

fn first(text: &str) -> ClassOutcome {
    outcome(text).classes[0].clone()
}

#[test]
fn lock_is_held_until_answer() {
    // The first read has the lock from 10 to 36 ms. The second waits from 20 ms for it, and is answered at 62 ms.
    let class = first(&steady("70ms", "25ms", "locks = true", "[locks]\nobject = \"1GB\""));
    let times = class.layers.expect("a machine");
    assert_eq!((class.requests, class.latency_sum_nanos, times.lock_nanos()), (2, 68_000_000, 16_000_000));
    assert_eq!(times.core_run_nanos(), 2_000_000);
}

#[test]
fn lock_of_other_object_is_free() {
    let waited = |from: &str, to: &str| {
        let other = format!(
            "[locks]\nobject = \"1MiB\"\n[[class]]\nname = \"b\"\nrate = \"100/s\"\narrivals = \"constant\"\nlocks = true\n\
             region = {{ from = \"{from}\", to = \"{to}\" }}"
        );
        let own = "locks = true\nregion = { from = \"0B\", to = \"1MiB\" }";
        let outcome = outcome(&steady("1s", "2ms", own, &other));
        outcome.classes.iter().map(|class| class.layers.expect("a machine").lock_nanos()).sum::<u64>()
    };
    // Where they share an object, one of each pair waits for the 3 ms of the other.
    assert_eq!((waited("1MiB", "2MiB"), waited("0B", "1MiB")), (0, 99 * 3_000_000));
}

#[test]
fn late_own_work_gates_writes_of_region() {
    let waited = |region: &str| {
        let own = format!(
            "[own_work]\nclass = \"own\"\nregion = \"1MiB\"\nwithin = \"15ms\"\n[[class]]\nname = \"own\"\nrate = \"10/s\"\n\
             arrivals = \"constant\"\nregion = {region}\ncost = {{ read = \"30ms\" }}"
        );
        let of_class = "read_ratio = 0.0\nregion = { from = \"0B\", to = \"1MiB\" }";
        first(&steady("150ms", "4ms", of_class, &own)).layers.expect("a machine").own_work_nanos()
    };
    // Own work comes at 100 ms, is late at 115, and done at 134.4: the writes of 120 and 130 ms wait for it.
    assert_eq!(waited("{ from = \"0B\", to = \"1MiB\" }"), 14_400_000 + 4_400_000);
    assert_eq!(waited("{ from = \"1MiB\", to = \"2MiB\" }"), 0);
}

#[test]
fn drawn_objects_are_locked_at_any_address() {
    let waited = |objects: u32| {
        let locks = format!("[locks]\nobjects = {objects}");
        first(&steady("70ms", "25ms", "locks = true", &locks)).layers.expect("a machine").lock_nanos()
    };
    // One object is as one that is as large as the device; of a thousand, no two requests draw the same.
    assert_eq!([1, 1_000].map(waited), [16_000_000, 0]);
}

#[test]
fn drawn_regions_gate_writes_at_any_address() {
    let waited = |objects: &str| {
        let own = format!(
            "{objects}[own_work]\nclass = \"own\"\nregions = 4\nwithin = \"15ms\"\n[[class]]\nname = \"own\"\nrate = \"10/s\"\n\
             arrivals = \"constant\"\ncost = {{ read = \"30ms\" }}"
        );
        let class = first(&steady("20s", "4ms", "read_ratio = 0.0\nlocks = true", &own));
        class.layers.expect("a machine").own_work_nanos()
    };
    // As in one region, 18.8 ms for each of 199, if one in four does not find another region.
    for objects in ["[locks]\nobjects = 4\n", "[locks]\nobjects = 4000\n", "[locks]\nobject = \"4KiB\"\n"] {
        let share = waited(objects) as f64 / (199.0 * 18_800_000.0);
        assert!((share - 0.25).abs() < 0.06, "{objects}: {share}");
    }
}

#[test]
fn returns_and_busy_time_are_of_measured_part() {
    let text = steady("1s", "2ms", "", "").replace("interval = \"1s\"", "warm_up = \"500ms\"\ninterval = \"500ms\"");
    let outcome = outcome(&text);
    let class = &outcome.classes[0];
    // A millisecond for each; the one that arrives at the end of the warm-up is measured.
    assert_eq!((class.requests, class.returns.requests), (50, [0, 50, 0, 0]));
    assert_eq!(outcome.cores.expect("cores").busy.0, 50 * 1_000_000);
    let direct = first(&steady("1s", "2ms", "misses = 1.0\ndirect = 1.0", ""));
    assert_eq!(direct.returns.requests, [99, 0, 0, 0]);
    let again = first(&steady("1s", "2ms", "misses = [1.0, 1.0, 1.0, 1.0]", ""));
    assert_eq!(again.returns.requests, [0, 0, 0, 98]);
}

#[test]
fn consistency_points_have_no_tail() {
    let runs = |tail: &str| {
        let log = "[log]\nsize = \"16KiB\"\nclass = \"point\"\nbase = \"30us\"\n[[class]]\nname = \"point\"";
        let text = steady("1s", "2ms", "read_ratio = 0.0", log).replace("[cores]\n", &format!("[cores]\n{tail}"));
        outcome(&text).classes.iter().map(|class| class.layers.expect("a machine").core_run_nanos()).collect::<Vec<_>>()
    };
    let (plain, long) = (runs(""), runs("tail = { share = 1.0, from = \"2ms\", to = \"2ms\" }\n"));
    assert_eq!((plain[0], long[0]), (99 * 1_000_000, 99 * 3_000_000));
    assert!(plain[1] > 0 && plain[1] == long[1], "{plain:?} {long:?}");
}

#[test]
fn costs_of_class_replace_those_of_cores() {
    let class = first(&steady("1s", "2ms", "cost = { read = \"1ms\", per_kib = \"10us\" }", ""));
    assert_eq!((class.requests, class.latency_sum_nanos), (99, 99 * 3_440_000));
    let long = "cost = { tail = { share = 1.0, from = \"2ms\", to = \"2ms\" } }";
    assert_eq!(first(&steady("1s", "2ms", long, "")).latency_sum_nanos, 99 * 5_000_000);
}

#[test]
fn every_schedule_does_same_work() {
    let work = |schedule: &str, spread: &str| {
        let text = busy("fifo", schedule).replace("backlog = 4", "rate = \"300/s\"").replace("spread = 0.5", spread);
        let class = outcome(&text).class("writer").expect("named").clone();
        (class.requests, class.layers.expect("a machine").core_run_nanos())
    };
    let varied = work("baseline", "spread = 0.5");
    assert_eq!(["combo", "adaptive"].map(|schedule| work(schedule, "spread = 0.5")), [varied; 2]);
    let mean = |(requests, nanos): (u64, u64)| nanos as f64 / requests as f64;
    let ratio = mean(varied) / mean(work("baseline", "spread = 0.0"));
    assert!((1e-9..0.1).contains(&(ratio - 1.0).abs()), "{ratio}");
}

#[test]
fn rate_swings_about_its_mean() {
    let text = steady("4s", "1us", "swing = { amplitude = 0.8, period = \"4s\" }", "")
        .replace("interval = \"4s\"", "interval = \"1s\"")
        .replace("rate = \"100/s\"\narrivals = \"constant\"", "rate = \"1k/s\"");
    // The mean of each quarter is 1 + 0.8 / 2 or 1 - 0.8 / 2 of a thousand.
    for (step, expected) in first(&text).steps.iter().zip([1400.0, 1400.0, 600.0, 600.0]) {
        assert!((step.requests as f64 - expected).abs() < 5.0 * f64::sqrt(expected), "{expected}: {}", step.requests);
    }
}

/// Two banks of disks under two workers, with a log, locks, own work and a memory.
fn busy(scheduler: &str, schedule: &str) -> String {
    format!(
        "duration = \"2s\"\nschedulers = [\"{scheduler}\"]\ndepth = 4\n[cores]\nworkers = 2\nschedule = \"{schedule}\"\n\
         read = \"50us\"\nwrite = \"80us\"\nper_kib = \"2us\"\ncompletion = \"10us\"\nturn = \"1us\"\nexpiry = \"22us\"\n\
         slow_path = \"12us\"\nread_buffers = \"6KiB\"\nspread = 0.5\ntail = {{ share = 0.01, from = \"1ms\", to = \"2ms\" }}\n\
         [log]\nsize = \"512KiB\"\ninterval = \"300ms\"\nclass = \"point\"\nbase = \"30us\"\nper_kib = \"1us\"\n\
         [locks]\nobject = \"1MiB\"\n[own_work]\nclass = \"own\"\nregion = \"2MiB\"\nwithin = \"2ms\"\n\
         [[device]]\nname = \"disks\"\nmodel = \"bank\"\ncount = 2\nstripe = \"64KiB\"\n\
         [[class]]\nname = \"writer\"\nclients = 3\nbacklog = 4\nread_ratio = 0.5\nlocks = true\nmisses = [0.4, 0.5]\ndirect = 0.2\n\
         region = {{ from = \"0B\", to = \"8MiB\" }}\n\
         [[class]]\nname = \"point\"\nsize = \"16KiB\"\nregion = {{ from = \"1GiB\", to = \"2GiB\" }}\n\
         [[class]]\nname = \"own\"\nrate = \"100/s\"\nregion = {{ from = \"0B\", to = \"8MiB\" }}\ncost = {{ completion = \"150us\" }}\n\
         swing = {{ amplitude = 0.5, period = \"1s\" }}\n"
    )
}

#[test]
fn times_with_locks_add_up_to_latency() {
    for scheduler in schedulers() {
        for schedule in ["baseline", "adaptive"] {
            let mut checker = Checker::new(1024, 4);
            // Own work waits for locks, too.
            let text = busy(scheduler, schedule).replace("name = \"own\"", "name = \"own\"\nlocks = true");
            let (outcome, ended) = run_observed(&parse(&text), &mut checker).expect(scheduler);
            checker.conclude_served(outcome.requests_simulated);
            assert_eq!((ended.unfinished, ended.skipped), (0, 0), "{scheduler} {schedule}");
            let times = outcome.class("writer").expect("named").layers.expect("a machine");
            assert!(
                times.lock_nanos() > 0 && times.own_work_nanos() > 0 && times.memory_nanos() > 0,
                "{scheduler} {schedule}: {times:?}"
            );
        }
    }
}

#[test]
fn senseless_work_is_refused_with_place() {
    let whole = busy("fifo", "baseline");
    for (from, to, at) in [
        ("object = \"1MiB\"", "object = \"0B\"", "locks.object"),
        ("[locks]\nobject = \"1MiB\"\n", "", "class[0].locks: what is locked is not said"),
        ("locks = true\n", "", "locks: no class locks anything"),
        ("object = \"1MiB\"", "objects = 0", "locks.objects: is 0"),
        ("object = \"1MiB\"", "", "locks.object: neither a size nor a number"),
        ("region = \"2MiB\"", "region = \"2MiB\"\nregions = 4", "own_work.regions: is given beside region"),
        ("class = \"own\"", "class = \"point\"", "own_work.class"),
        ("region = \"2MiB\"", "region = \"0B\"", "own_work.region"),
        ("read_ratio = 0.5", "read_ratio = 1.0", "so that nothing could wait"),
        ("cost = { completion = \"150us\" }", "misses = 0.5", "class[2].misses"),
        ("size = \"16KiB\"\n", "size = \"16KiB\"\ncost = { read = \"1us\" }\n", "class[1].cost"),
        ("to = \"2ms\" }", "to = \"2us\" }", "cores.tail.to"),
        ("spread = 0.5\n", "spread = 0.5\ndistribution = { pareto = 1.0 }\n", "cores.distribution.pareto"),
        ("amplitude = 0.5", "amplitude = 1.0", "class[2].swing.amplitude"),
        ("period = \"1s\"", "period = \"1us\"", "class[2].swing.period"),
        ("rate = \"100/s\"", "backlog = 1", "class[2].swing.period"),
        ("misses = [0.4, 0.5]", "misses = []", "class[0].misses: are 0"),
        (
            "misses = [0.4, 0.5]\n",
            "cost = { write = \"0s\", completion = \"0s\" }\n",
            "writes of `writer` would be answered at once",
        ),
    ] {
        assert!(whole.contains(from), "{from}");
        let error = Experiment::parse("my.toml", &whole.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(at), "{to}: {error}");
    }
}

#[test]
fn read_waits_as_often_as_it_misses() {
    // 0.6 ms before the device, three times 2 ms there, and 0.4 ms after each.
    let class = first(&steady("1s", "2ms", "misses = [1.0, 1.0, 1.0]", ""));
    assert_eq!((class.requests, class.latency_sum_nanos), (99, 99 * 7_800_000));
    assert_eq!(class.layers.expect("a machine").core_run_nanos(), 99 * 1_800_000);
    let free = steady("1s", "2ms", "misses = [1.0, 1.0, 1.0]", "").replace("completion = \"400us\"", "");
    assert_eq!(first(&free).latency_sum_nanos, 99 * 6_600_000);
    // Half of the reads miss, a fifth of these again, and half of those once more: 0.65 times on average.
    let class = first(&steady("60s", "2ms", "misses = [0.5, 0.2, 0.5]", ""));
    let mean = class.latency_sum_nanos as f64 / class.requests as f64;
    let waits = (mean - 600_000.0 - 0.5 * 400_000.0) / 2_400_000.0;
    assert!((waits - 0.65).abs() < 0.03, "{waits}");
}

#[test]
fn story_tells_of_reads_that_miss_again() {
    let own = steady("1s", "2ms", "misses = [1.0, 1.0]", "");
    let story = explain(&parse(&own), &Which::Request(0)).expect("it runs");
    for words in [
        "missed in memory 2 times: 2.00 ms of its time in the scheduler and the device was before the last",
        "and was there for 2.00 ms",
        "5.40 ms after it arrived",
    ] {
        assert!(story.contains(words), "{words}: {story}");
    }
}

#[test]
fn device_answers_direct_reads() {
    let class = first(&steady("1s", "2ms", "misses = 1.0\ndirect = 1.0", ""));
    assert_eq!((class.requests, class.latency_sum_nanos), (99, 99 * 2_600_000));
    let half = first(&steady("10s", "2ms", "misses = [1.0, 1.0]\ndirect = 0.5", ""));
    // A direct read takes 2.6 ms, another misses twice and takes 5.4 ms.
    let mean = half.latency_sum_nanos as f64 / half.requests as f64;
    assert!((mean / 4_000_000.0 - 1.0).abs() < 0.05, "{mean}");
}

#[test]
fn waiting_requests_take_slow_path() {
    let slow = |of_class: &str, rest: &str| {
        let text = steady("70ms", "1ms", of_class, rest).replace("[cores]\n", "[cores]\nslow_path = \"3ms\"\n");
        let class = first(&text);
        (class.requests, class.latency_sum_nanos)
    };
    // A read takes 0.6 ms and 3 ms before the device, 1 ms there and 0.4 ms after it.
    assert_eq!(slow("", ""), (6, 6 * 5_000_000));
    assert_eq!(slow("misses = 0.0", ""), (6, 6 * 1_000_000));
    let locked = slow("locks = true\nmisses = 0.0\ncost = { read = \"15ms\" }", "[locks]\nobject = \"1GB\"");
    // From 10 to 25.4 ms, and from 25.4 to 43.8, and from 43.8 to 62.2 ms.
    assert_eq!(locked, (3, 15_400_000 + 23_800_000 + 32_200_000));
}

#[test]
fn reads_wait_for_memory_in_their_order() {
    let class = |buffers: &str| {
        let text = steady("70ms", "1ms", "cost = { completion = \"15ms\" }", "");
        first(&text.replace("[cores]\n", &format!("[cores]\nread_buffers = \"{buffers}\"\n")))
    };
    let times = |class: &ClassOutcome| class.layers.expect("a machine").memory_nanos();
    let ample = class("8KiB");
    assert_eq!((ample.requests, ample.latency_sum_nanos, times(&ample)), (5, 5 * 16_600_000, 0));
    // The first read has the memory from 10.6 to 26.6 ms, the second until 42.6 ms, the third until 58.6 ms.
    let scarce = class("4KiB");
    assert_eq!((scarce.requests, scarce.latency_sum_nanos), (3, 16_600_000 + 22_600_000 + 28_600_000));
    assert_eq!(times(&scarce), 6_000_000 + 12_000_000);
}
