//! The worked example of the BID paper (Table 1): three processes, twelve requests, one order for each policy.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ioweir_core::policy::{self, Policy};
use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Reason, Request, Scheduler, Step, StreamId, Tag};

/// Name, first sector, sectors, operation; the stream is the letter. In the order of submission.
const TABLE: [(&str, u64, u32, Operation); 12] = [
    ("B1", 7125, 40, Operation::Write),
    ("A1", 305, 24, Operation::Read),
    ("A2", 340, 24, Operation::Read),
    ("A3", 370, 24, Operation::Read),
    ("C1", 1600, 4, Operation::Read),
    ("B2", 7165, 40, Operation::Write),
    ("B3", 7205, 40, Operation::Write),
    ("A4", 410, 24, Operation::Read),
    ("A5", 440, 24, Operation::Read),
    ("A6", 470, 24, Operation::Read),
    ("C2", 1670, 4, Operation::Read),
    ("B4", 7245, 40, Operation::Write),
];

fn request(name: &str) -> Request {
    let (_, sector, sectors, operation) = TABLE.into_iter().find(|row| row.0 == name).unwrap();
    let stream = StreamId(u32::from(name.as_bytes()[0]));
    Request { operation, flags: Flags::NONE, stream, sector, sectors }
}

fn names() -> Vec<&'static str> {
    TABLE.map(|row| row.0).to_vec()
}

/// A scheduler, and the names of the requests behind its tags.
struct Driver {
    scheduler: Policy,
    names: Vec<&'static str>,
    now: Nanos,
}

impl Driver {
    fn new(policy: &str, parameters: &[(&str, u64)], merge: bool) -> Self {
        Self::with_limits(policy, parameters, QueueLimits { merge, ..QueueLimits::DEFAULT })
    }

    fn with_limits(policy: &str, parameters: &[(&str, u64)], limits: QueueLimits) -> Self {
        let row = policy::find(policy).unwrap();
        let mut settings = row.defaults();
        for &(name, value) in parameters {
            row.set(&mut settings, name, value).unwrap();
        }
        Self { scheduler: row.build(limits, &settings), names: vec![""; limits.members as usize], now: Nanos::ZERO }
    }

    fn submit(&mut self, name: &'static str) {
        let tag = self.scheduler.submit(self.now, request(name)).unwrap();
        self.names[tag.index()] = name;
    }

    fn submit_all(&mut self, names: &[&'static str]) {
        for name in names {
            self.submit(name);
        }
    }

    /// The names of a dispatch's members.
    fn members(&self, tag: Tag) -> Vec<&'static str> {
        let mut members = vec![];
        let mut tag = Some(tag);
        while let Some(member) = tag {
            members.push(self.names[member.index()]);
            tag = self.scheduler.next_member(member);
        }
        members
    }

    /// Serves one unit in 7 ms; answers with its members, `+` between them.
    fn serve(&mut self) -> String {
        loop {
            match self.scheduler.poll(self.now) {
                Step::Dispatch(dispatch) => {
                    let members = self.members(dispatch.tag);
                    assert_eq!(members.len(), dispatch.members as usize);
                    self.now = self.now.after(Nanos::from_millis(7));
                    self.scheduler.complete(self.now, dispatch.tag);
                    return members.join("+");
                }
                Step::WaitUntil(time, _) => {
                    assert!(time > self.now && time < Nanos::NEVER, "waits for nothing");
                    self.now = time;
                }
                Step::Idle => return String::new(),
            }
        }
    }

    fn serve_all(&mut self) -> String {
        let mut order = vec![];
        loop {
            match self.serve() {
                served if served.is_empty() => return order.join(" "),
                served => order.push(served),
            }
        }
    }
}

#[test]
fn cfq_paper_takes_rounds_of_a_quantum() {
    let mut driver = Driver::new("cfq-paper", &[], false);
    driver.submit_all(&names());
    assert_eq!(driver.serve_all(), "A1 A2 C1 C2 B1 B2 A3 A4 B3 B4 A5 A6");
}

#[test]
fn cfq_paper_keeps_arrivals_for_next_round() {
    let mut driver = Driver::new("cfq-paper", &[], false);
    let without_c2: Vec<_> = names().into_iter().filter(|&name| name != "C2").collect();
    driver.submit_all(&without_c2);
    let first = driver.serve();
    driver.submit("C2");
    assert_eq!(format!("{first} {}", driver.serve_all()), "A1 A2 C1 B1 B2 A3 A4 C2 B3 B4 A5 A6");
}

/// Two processes write, and a round takes `quantum` requests from both together, as it takes from one that reads.
#[test]
fn cfq_paper_puts_all_writers_in_one_queue() {
    let mut driver = Driver::new("cfq-paper", &[], false);
    driver.submit_all(&["B1", "A1", "A2", "A3", "B2", "B3"]);
    let request = Request { stream: StreamId(u32::from(b'D')), sector: 100, ..request("B4") };
    let tag = driver.scheduler.submit(driver.now, request).unwrap();
    driver.names[tag.index()] = "D1";
    // With a queue for each writer the first round would hold `D1`, too; in a queue sorted by sector, `D1` would be in it before `B1`.
    assert_eq!(driver.serve_all(), "A1 A2 B1 B2 D1 A3 B3");
}

#[test]
fn deadline_paper_looks_at_expiry_before_each_request() {
    // Expiry times of Table 1 in ms. Requests that have expired already did so in the order B1 A1 A2 A3 C1. Each request is submitted so
    // that the policy's own 500 ms and 5 s put its expiry there.
    let expiry = [-5, -4, -3, -2, -1, 50, 53, 60, 65, 100, 105, 110];
    let origin_millis = 6000;
    let mut driver = Driver::new("deadline-paper", &[], false);
    let mut submissions: Vec<(i64, &str)> = TABLE
        .iter()
        .zip(expiry)
        .map(|(row, expiry)| {
            let allowed = if row.3 == Operation::Read { 500 } else { 5000 };
            (origin_millis + expiry - allowed, row.0)
        })
        .collect();
    submissions.sort_unstable();
    for (millis, name) in submissions {
        driver.now = Nanos::from_millis(millis.unsigned_abs());
        driver.submit(name);
    }
    driver.now = Nanos::from_millis(origin_millis.unsigned_abs());
    assert_eq!(driver.serve_all(), "B1 A1 A2 A3 C1 A4 A5 A6 B2 B3 C2 B4");
}

#[test]
fn deadline_serves_batches_sorted_reads_first() {
    let mut driver = Driver::new("deadline", &[], false);
    driver.submit_all(&names());
    assert_eq!(driver.serve_all(), "A1 A2 A3 A4 A5 A6 C1 C2 B1 B2 B3 B4");
}

#[test]
fn deadline_serves_writes_after_two_read_batches() {
    let mut driver = Driver::new("deadline", &[("fifo-batch", 2)], false);
    driver.submit_all(&names());
    // After a batch the other way, the next one begins at the oldest request.
    assert_eq!(driver.serve_all(), "A1 A2 A3 A4 B1 B2 C1 C2 A5 A6 B3 B4");
}

#[test]
fn noop_keeps_the_order_of_submission() {
    let mut driver = Driver::new("noop", &[], false);
    driver.submit_all(&names());
    assert_eq!(driver.serve_all(), names().join(" "));
}

#[test]
fn noop_merges_what_is_adjacent() {
    let mut driver = Driver::new("noop", &[], true);
    driver.submit_all(&names());
    assert_eq!(driver.serve_all(), "B1+B2+B3+B4 A1 A2 A3 C1 A4 A5 A6 C2");
}

#[test]
fn noop_does_not_merge_with_dispatched_requests() {
    let mut driver = Driver::new("noop", &[], true);
    driver.submit_all(&["B1", "A1"]);
    let first = driver.serve();
    driver.submit_all(&["B2", "B3"]);
    assert_eq!(format!("{first} {}", driver.serve_all()), "B1 A1 B2+B3");
}

#[test]
fn bid_hdd_dispatches_each_process_together_in_order() {
    let mut driver = Driver::new("bid-hdd", &[], false);
    driver.submit_all(&names());
    // One batch for each process: the default wait, started anew by A6, C2 and B4 in that order.
    assert_eq!(driver.serve_all(), "A1 A2 A3 A4 A5 A6 C1 C2 B1 B2 B3 B4");
}

#[test]
fn bid_hdd_mixes_no_process_into_a_bulk() {
    for turn in 0..TABLE.len() {
        let mut driver = Driver::new("bid-hdd", &[], true);
        let mut order = names();
        order.rotate_left(turn);
        for name in order {
            driver.submit(name);
            driver.now = driver.now.after(Nanos::from_micros(50));
        }
        let order = driver.serve_all();
        let processes: Vec<u8> = order.split(' ').map(|unit| unit.as_bytes()[0]).collect();
        assert_eq!(processes.chunk_by(|left, right| left == right).count(), 3, "{order}");
    }
}

/// Figure 9: the example of Table 1 on two devices, with the requests of process C as writes. Its order on each device.
fn figure_9(parameters: &[(&str, u64)], merge: bool) -> [String; 2] {
    let limits = QueueLimits { fast_sectors: 1 << 20, merge, ..QueueLimits::DEFAULT };
    let mut driver = Driver::with_limits("bid-hybrid", parameters, limits);
    for name in names() {
        let operation = if name.starts_with('C') { Operation::Write } else { request(name).operation };
        let tag = driver.scheduler.submit(driver.now, Request { operation, ..request(name) }).unwrap();
        driver.names[tag.index()] = name;
    }
    let mut order = [vec![], vec![]];
    loop {
        match driver.scheduler.poll(driver.now) {
            Step::Dispatch(dispatch) => {
                order[dispatch.tier as usize].push(driver.members(dispatch.tag).join("+"));
                driver.scheduler.complete(driver.now, dispatch.tag);
            }
            Step::WaitUntil(time, _) => driver.now = time,
            Step::Idle => return order.map(|names| names.join(" ")),
        }
    }
}

#[test]
fn bid_hybrid_stages_the_light_writer_only() {
    let [disk, fast] = figure_9(&[], true);
    assert_eq!(disk, "A1 A2 A3 A4 A5 A6 B1+B2+B3+B4");
    assert_eq!(fast, "C1 C2");
    // Unmerged as the figure draws them, the requests of B are 20 KiB each: bulky where the threshold is lower.
    let [disk, fast] = figure_9(&[("packing-threshold", 8 << 10)], false);
    assert_eq!(disk, "A1 A2 A3 A4 A5 A6 B1 B2 B3 B4");
    assert_eq!(fast, "C1 C2");
}

#[test]
fn cfq_lets_a_process_finish_before_the_next() {
    let mut driver = Driver::new("cfq", &[], false);
    driver.submit_all(&names());
    assert_eq!(driver.serve_all(), "B1 B2 B3 B4 A1 A2 A3 A4 A5 A6 C1 C2");
}

#[test]
fn cfq_lets_a_reader_preempt_the_asynchronous_queue() {
    let mut driver = Driver::new("cfq", &[], false);
    driver.submit_all(&["B1", "B2", "B3", "B4"]);
    let first = driver.serve();
    // A2 is nearer to the head, which stands at 7165; B goes to the end of the line before C comes.
    driver.submit_all(&["A1", "A2", "C1"]);
    assert_eq!(format!("{first} {}", driver.serve_all()), "B1 A2 A1 B2 B3 B4 C1");
}

#[test]
fn cfq_idles_for_a_reader_that_ran_dry() {
    let mut driver = Driver::new("cfq", &[], false);
    driver.submit_all(&["A1", "C1"]);
    assert_eq!(driver.serve(), "A1");
    let Step::WaitUntil(until, Reason::Anticipating) = driver.scheduler.poll(driver.now) else {
        panic!("the disk idles for A");
    };
    assert_eq!(until, driver.now.after(Nanos::from_millis(8)));
    driver.now = driver.now.after(Nanos::from_millis(1));
    driver.submit("A2");
    assert_eq!(driver.serve_all(), "A2 C1");
}
