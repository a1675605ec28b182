//! The schedulers that Linux has or had, and the baseline they are measured against, each told as a story.

use crate::driver::Disk;
use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Reason, Scheduler, Step};

#[test]
fn clook_restarts_at_the_lowest_sector() {
    let mut disk = Disk::new("clook", &[]);
    disk.read("a", 200);
    assert_eq!(disk.serve(), "a");
    for (name, sector) in [("b", 100), ("c", 300), ("d", 250)] {
        disk.read(name, sector);
    }
    assert_eq!(disk.serve(), "d");
    disk.write("e", 270);
    disk.write("f", 240);
    disk.read("g", 250);
    assert_eq!(disk.serve_all(), "e c b f g");
}

#[test]
fn clook_leaves_a_block_that_is_rewritten() {
    let mut disk = Disk::new("clook", &[]);
    for (name, sector) in [("h1", 200), ("h2", 200), ("h3", 204), ("r1", 100), ("r2", 208), ("r3", 300)] {
        disk.write(name, sector);
    }
    // One h a sweep: the others begin before the end of its transfer, at 208.
    assert_eq!(disk.serve_all(), "r1 h1 r2 r3 h2 h3");
}

#[test]
fn clook_serves_the_oldest_of_those_that_overlap() {
    let mut disk = Disk::new("clook", &[]);
    for (name, sector) in [("a", 100), ("v", 103), ("n", 100), ("b", 300)] {
        disk.read(name, sector);
    }
    assert_eq!(disk.serve(), "a");
    assert_eq!(disk.serve(), "b");
    disk.read("m", 96);
    // Without that, m and n would carry the head past v, in this sweep and in every later one.
    assert_eq!(disk.serve_all(), "v n m");
}

#[test]
fn clook_keeps_a_units_place_in_the_sweep() {
    let mut disk = Disk::with_limits("clook", &[], QueueLimits::DEFAULT);
    disk.read("a", 200);
    disk.read("b", 212);
    assert_eq!(disk.serve(), "a");
    // Joined with c, b would begin before the head, at 204, and wait for the next sweep. b and d stay ahead.
    disk.read("c", 204);
    disk.read("d", 220);
    assert_eq!(disk.serve_all(), "b+d c");
}

#[test]
fn mq_deadline_serves_writes_after_two_read_batches() {
    let mut disk = Disk::new("mq-deadline", &[("fifo-batch", 2)]);
    for (number, sector) in [(1, 50), (2, 10), (3, 20), (4, 40), (5, 30), (6, 60)] {
        disk.read(&format!("r{number}"), sector);
    }
    for (number, sector) in [(1, 15), (2, 5), (3, 25)] {
        disk.write(&format!("w{number}"), sector);
    }
    for (number, sector) in [(7, 70), (8, 80)] {
        disk.read(&format!("r{number}"), sector);
    }
    // The first batch is not chosen, it goes on from the beginning of the disk; after two chosen ones writes have theirs,
    // and the reads go on above 60, where they were.
    assert_eq!(disk.serve_all(), "r2 r3 r5 r4 r1 r6 w2 w1 r7 r8 w3");
}

#[test]
fn mq_deadline_resumes_each_direction_unlike_deadline() {
    for (policy, order) in [("mq-deadline", "r1 w1 r3 r2"), ("deadline", "r1 w1 r2 r3")] {
        let mut disk = Disk::new(policy, &[("fifo-batch", 1), ("writes-starved", 0)]);
        disk.read("r1", 100);
        let mut served = vec![disk.serve()];
        disk.write("w1", 500);
        served.push(disk.serve());
        disk.read("r2", 50);
        disk.read("r3", 200);
        served.push(disk.serve_all());
        assert_eq!(served.join(" "), order, "{policy}");
    }
}

#[test]
fn mq_deadline_begins_batch_at_expired_request() {
    let mut disk = Disk::new("mq-deadline", &[("fifo-batch", 4)]);
    disk.service = Nanos::from_millis(100);
    disk.read("r1", 500);
    assert_eq!(disk.serve(), "r1");
    disk.read("old", 10);
    for number in 2..10 {
        disk.read(&format!("r{number}"), 500 + number * 10);
    }
    // `old` expires while r5 is served: the batch that runs is finished, and the next one begins with it.
    assert_eq!(disk.serve_all(), "r2 r3 r4 r5 r6 r7 r8 old r9");
}

#[test]
fn mq_deadline_leaves_front_merges_out_where_told() {
    for (front_merges, order) in [(1, "b+a"), (0, "a b")] {
        let mut disk = Disk::with_limits("mq-deadline", &[("front-merges", front_merges)], QueueLimits::DEFAULT);
        disk.read("b", 108);
        disk.read("a", 100);
        assert_eq!(disk.serve_all(), order);
    }
}

#[test]
fn kyber_takes_turns_between_reads_and_writes() {
    let mut disk = Disk::new("kyber", &[]);
    for number in 0..20 {
        disk.read("r", number * 1_000);
        disk.write("w", number * 1_000 + 500);
    }
    let order = disk.serve_all().replace(' ', "");
    let batches: Vec<usize> = order.as_bytes().chunk_by(|left, right| left == right).map(<[u8]>::len).collect();
    assert_eq!(batches, [16, 8, 4, 12], "reads, writes, the last reads, and all the writes that are left");
}

/// Twenty reads and twenty writes at a time, until there were 500 of each; each takes as long as told.
fn serve_kyber(disk: &mut Disk, read: Nanos, write: Nanos) {
    for _ in 0..25 {
        (0..20).for_each(|number| assert!(disk.read("r", number * 1_000)));
        assert_eq!(disk.fill().0, 20);
        disk.pass(read);
        (0..20).for_each(|_| disk.complete());
        (0..20).for_each(|number| assert!(disk.write("w", number * 1_000)));
        assert_eq!(disk.fill().0, 20);
        disk.pass(write);
        (0..20).for_each(|_| disk.complete());
    }
}

#[test]
fn kyber_takes_depth_from_writes_for_reads() {
    for (read_millis, tokens) in [(1, 128), (3, 64)] {
        let mut disk = Disk::with_limits("kyber", &[], QueueLimits { depth: 512, ..QueueLimits::with_requests(256) });
        serve_kyber(&mut disk, Nanos::from_millis(read_millis), Nanos::from_millis(4));
        // Let the time of the next look pass.
        disk.pass(Nanos::from_millis(100));
        (0..200).for_each(|number| assert!(disk.write("w", number * 1_000)));
        let (dispatched, answer) = disk.fill();
        assert_eq!(dispatched, tokens, "reads took {read_millis} ms");
        assert_eq!(answer, "(throttled)");
        assert_eq!(disk.scheduler.waiting().count(Reason::Throttled), 200 - tokens as u32);
        disk.complete();
        assert_eq!(disk.fill().0, 1, "a completion gives its token back");
    }
}

#[test]
fn kyber_never_takes_the_last_token() {
    let mut disk = Disk::with_limits("kyber", &[], QueueLimits { depth: 512, ..QueueLimits::with_requests(256) });
    for _ in 0..60 {
        // Reads miss their target by far, and writes are well within theirs: they lose three quarters each time.
        for (name, operation, millis) in [("r", Operation::Read, 200), ("w", Operation::Write, 1)] {
            (0..5).for_each(|number| assert!(disk.submit(name, operation, Flags::NONE, number * 1_000, 8)));
            while disk.scheduler.queued() > 0 {
                let dispatched = disk.fill().0;
                assert!(dispatched > 0, "{name} has no token left");
                disk.pass(Nanos::from_millis(millis));
                (0..dispatched).for_each(|_| disk.complete());
            }
        }
    }
    (0..5).for_each(|number| assert!(disk.write("w", number)));
    assert_eq!(disk.fill().0, 1);
}

/// Process a has read sector 1000, and b waits far away.
fn anticipating() -> Disk {
    let mut disk = Disk::new("anticipatory", &[]);
    disk.read("a1", 1_000);
    disk.read("b1", 900_000);
    assert_eq!(disk.serve(), "a1");
    assert_eq!(disk.poll(), "(anticipating 6000 us)");
    assert_eq!(disk.scheduler.waiting().count(Reason::Anticipating), 1);
    disk
}

#[test]
fn anticipatory_idles_for_the_reader_just_served() {
    let mut disk = anticipating();
    disk.pass(Nanos::from_millis(1));
    disk.read("a2", 1_008);
    assert_eq!(disk.serve(), "a2");
    assert_eq!(disk.poll(), "(anticipating 6000 us)");
    disk.pass(Nanos::from_millis(6));
    assert_eq!(disk.poll(), "b1", "a stays silent");
}

#[test]
fn anticipatory_takes_a_close_request_of_another_process() {
    let mut disk = anticipating();
    disk.read("c1", 500_000);
    assert_eq!(disk.poll(), "(anticipating 6000 us)", "no better than b");
    disk.read("d1", 1_500);
    assert_eq!(disk.poll(), "d1");
}

#[test]
fn anticipatory_skips_a_process_that_thinks_longer() {
    let mut disk = anticipating();
    disk.pass(Nanos::from_millis(10));
    disk.read("a2", 1_008);
    assert_eq!(disk.serve_all(), "a2 b1", "a2 is near");
    disk.pass(Nanos::from_millis(10));
    disk.read("a3", 900_100);
    assert_eq!(disk.serve(), "a3");
    disk.read("b2", 1_000);
    assert_eq!(disk.poll(), "b2", "a is known to think for 10 ms");
}

#[test]
fn anticipatory_breaks_off_for_an_expired_request() {
    let mut disk = Disk::new("anticipatory", &[("antic-expire", 1_000_000_000)]);
    disk.read("a1", 1_000);
    disk.read("b1", 900_000);
    assert_eq!(disk.serve(), "a1");
    assert_eq!(disk.poll(), "(anticipating 124000 us)");
    disk.pass(Nanos::from_millis(124));
    assert_eq!(disk.poll(), "b1");
}

#[test]
fn anticipatory_serves_write_batches_while_readers_think() {
    let mut disk = Disk::new("anticipatory", &[("antic-expire", 0), ("read-batch-expire", 3_000_000)]);
    for number in 0..6 {
        disk.read(&format!("r{number}"), number * 100);
        disk.write(&format!("w{number}"), 50_000 + number * 100);
    }
    // The batch of reads is timed from its first completion on; the writes have theirs, and finish within it.
    assert_eq!(disk.serve_all(), "r0 r1 r2 r3 w0 w1 w2 w3 w4 w5 r4 r5");
}

/// Runs of the same process in the order of service.
fn runs(order: &str) -> Vec<(char, usize)> {
    let letters: Vec<char> = order.split(' ').filter_map(|name| name.chars().next()).collect();
    letters.chunk_by(|left, right| left == right).map(|run| (run[0], run.len())).collect()
}

#[test]
fn bfq_serves_each_process_for_a_budget() {
    let mut disk = Disk::new("bfq", &[("max-budget", 256 * 512), ("low-latency", 0)]);
    for number in 0..60 {
        disk.read("a", number * 8);
        disk.read("b", 100_000 + number * 8);
    }
    // A new queue begins with two thirds of the largest budget: 21 requests of 8 sectors. Who uses it up gets more.
    let expected = [('a', 21), ('b', 21), ('a', 32), ('b', 32), ('a', 7), ('b', 7)];
    assert_eq!(runs(&disk.serve_all()), expected);
}

#[test]
fn bfq_idles_for_a_reader_that_ran_dry() {
    let mut disk = Disk::new("bfq", &[("low-latency", 0)]);
    disk.read("a1", 0);
    disk.read("b1", 900_000);
    assert_eq!(disk.serve(), "a1");
    assert_eq!(disk.poll(), "(anticipating 8000 us)");
    assert_eq!(disk.scheduler.waiting().count(Reason::Anticipating), 1);
    disk.pass(Nanos::from_millis(2));
    disk.read("a2", 8);
    assert_eq!(disk.serve_all(), "a2 b1", "a has asked in time; then it stays silent, and b has its turn");
}

#[test]
fn bfq_newcomer_preempts_unawaited_requests() {
    let mut disk = Disk::new("bfq", &[]);
    for number in 0..40 {
        disk.write("w", number * 8);
    }
    assert_eq!(runs(&[disk.serve(), disk.serve()].join(" ")), [('w', 2)]);
    disk.read("r1", 900_000);
    assert_eq!(disk.serve(), "r1");
    assert_eq!(disk.poll(), "(anticipating 20000 us)", "an interactive process is waited for longer");
    disk.pass(Nanos::from_millis(15));
    disk.read("r2", 500_000);
    assert_eq!(disk.serve(), "r2");
    disk.pass(Nanos::from_millis(20));
    assert_eq!(disk.poll(), "w");
}

#[test]
fn bfq_raises_nobody_in_a_large_burst() {
    // The disk idles for a raised queue, and for no other while some are raised.
    for (processes, next) in [(7, "(anticipating 8000 us)"), (8, "b")] {
        let mut disk = Disk::new("bfq", &[]);
        disk.write("w", 0);
        for process in ["a", "b", "c", "d", "e", "f", "g", "h"].iter().take(processes) {
            disk.read(process, 500);
        }
        assert_eq!(disk.serve(), "a");
        assert_eq!(disk.poll(), next, "{processes} at once");
    }
}

#[test]
fn bfq_serves_others_while_idling_in_vain() {
    let mut disk = Disk::new("bfq", &[]);
    disk.write("w", 0);
    for process in ["a", "b", "c"] {
        disk.read(process, 500);
    }
    assert_eq!(disk.serve(), "a");
    assert_eq!(disk.poll(), "(anticipating 8000 us)", "it idles for 20 ms, and for the first 8 nothing else goes");
    disk.pass(Nanos::from_millis(8));
    assert_eq!((disk.serve(), disk.serve()), ("b".into(), "c".into()), "raised as a is; w is not");
}

/// A device on which bfq never idles for the sake of throughput.
const FLASH: QueueLimits = QueueLimits { merge: false, rotational: false, depth: 4, ..QueueLimits::DEFAULT };

#[test]
fn bfq_kernel_rules_merge_young_queues() {
    for (rules, made, age, order) in [
        (0, 0, 601, "a2 a3 b2 b3"),
        (1, 0, 600, "a2 a3 b2 b3"),
        (1, 0, 601, "a2 b2 a3 b3"),
        (1, 180, 601, "a2 b2 a3 b3"),
        (1, 181, 601, "a2 a3 b2 b3"),
    ] {
        let mut disk = Disk::with_limits("bfq", &[("rules", rules), ("low-latency", 0)], FLASH);
        disk.read("a1", 0);
        disk.now = Nanos::from_millis(made);
        disk.read("b1", 500);
        assert_eq!(disk.serve_all(), "a1 b1");
        disk.now = Nanos::from_millis(made + age);
        for (name, sector) in [("a2", 1_000), ("a3", 3_000), ("b2", 2_000), ("b3", 4_000)] {
            disk.read(name, sector);
        }
        assert_eq!(disk.serve_all(), order, "rules {rules}, made {made} ms apart, {age} ms later");
    }
}

#[test]
fn bfq_kernel_rules_merge_requests_in_shared_queues() {
    let mut disk = Disk::with_limits("bfq", &[("rules", 1), ("low-latency", 0)], QueueLimits { merge: true, ..FLASH });
    // When they share a queue, the next request that comes is the first one that is merged.
    for served in ["a b", "b a", "a+b"] {
        disk.read("a", 1_000);
        disk.read("b", 1_008);
        assert_eq!(disk.serve_all(), served);
        disk.pass(Nanos::from_millis(700));
    }
}

#[test]
fn bfq_kernel_rules_let_newcomers_in_unless_idling() {
    for (rules, next) in [(0, "a2"), (1, "b1")] {
        let mut disk = Disk::with_limits("bfq", &[("rules", rules), ("low-latency", 0)], FLASH);
        for (name, sector) in [("a1", 0), ("a2", 1_000), ("a3", 2_000)] {
            disk.read(name, sector);
        }
        assert_eq!(disk.serve(), "a1");
        disk.read("b1", 9_000);
        // Both may get as much: that it was asked later is no reason to be served later.
        assert_eq!(disk.serve(), next, "rules {rules}");
    }
}

#[test]
fn bfq_kernel_rules_begin_low_after_a_raise() {
    for (rules, expected) in [(0, 32), (1, 8)] {
        let parameters = [("rules", rules), ("max-budget", 256 * 512), ("interactive-time", 4_000_000)];
        let mut disk = Disk::with_limits("bfq", &parameters, FLASH);
        for number in 0..80 {
            disk.read("a", number * 8);
            disk.read("b", 100_000 + number * 8);
        }
        let lengths: Vec<usize> = runs(&disk.serve_all()).iter().map(|run| run.1).collect();
        assert_eq!(lengths[..4], [2; 4], "raised: two requests a turn");
        assert_eq!(lengths[4..6], [expected; 2], "rules {rules}: {lengths:?}");
    }
}

/// A sequential and a seeking reader who always have something queued; answers with the time that each got.
fn share_the_disk(policy: &str, parameters: &[(&str, u64)]) -> [Nanos; 2] {
    let mut disk = Disk::new(policy, parameters);
    let mut sectors = [0, 1];
    let mut submit = |disk: &mut Disk, process: usize| {
        assert!(disk.submit(["q", "s"][process], Operation::Read, Flags::NONE, sectors[process], 64));
        sectors[process] = if process == 0 { sectors[0] + 64 } else { sectors[1] * 48_271 % 99_999_989 };
    };
    (0..32).for_each(|number| submit(&mut disk, number % 2));
    let mut times = [Nanos::ZERO; 2];
    while disk.now < Nanos::from_seconds(20) {
        let Step::Dispatch(dispatch) = disk.step() else { panic!("both always have something queued") };
        let process = usize::from(dispatch.stream.0 == u32::from(b's'));
        let service = Nanos::from_millis([1, 10][process]);
        times[process] = times[process].after(service);
        disk.pass(service);
        disk.complete();
        submit(&mut disk, process);
    }
    times
}

#[test]
fn bfq_charges_a_seeking_process_for_its_time() {
    let [sequential, seeking] = share_the_disk("bfq", &[("low-latency", 0)]);
    let share = seeking.0 * 100 / (sequential.0 + seeking.0);
    assert!((40..=60).contains(&share), "the seeking process had the disk for {share} % of the time");
}
