//! Rules of the overseer: whatever a worker does, its slice is completed once, and a worker that should not run is stopped.

use ioweir_core::Nanos;
use ioweir_core::background::{
    Batch, Bucket, Executor, Pool, Resource, SERVICES_COUNT, Service, ServiceSettings, Settings, SliceTag,
    Step as Decision,
};
use ioweir_govern::hand::{Order, Report};
use ioweir_govern::overseer::{Actions, Employment, Governor, Overseer, Slice, Step};
use ioweir_govern::source::Reading;
use ioweir_govern::status::{GovernorStatus, Status};
use ioweir_govern::worker::{Position, Progress, WorkerError};
use serde_json::Value;

use super::at;

pub(crate) const BLOCK_BYTES: u64 = 4096;
pub(crate) const SLICE: Nanos = Nanos::from_seconds(10);
const GRACE: Nanos = Nanos::from_seconds(5);

/// A governor with core's executor, which gives away all of an idle device, and notes its calls.
pub(crate) struct Simple {
    pub(crate) executor: Executor,
    pub(crate) completed: Vec<(u64, Nanos)>,
    pub(crate) owed: Vec<u64>,
    pub(crate) samples: Vec<Reading>,
    /// The reservation of the slices that are handed out.
    pub(crate) reserved: u64,
}

impl Simple {
    /// A governor that begins at this time of a wall clock and owes this number of blocks of scrub.
    pub(crate) fn new(now: Nanos, owed_blocks: u64) -> Self {
        let services: [ServiceSettings; SERVICES_COUNT] = Service::ALL.map(|service| service.row().defaults());
        let mut executor = Executor::new(Settings {
            resource: Resource::DeviceTime,
            operation: Nanos::from_millis(1),
            slice: SLICE,
            grace: GRACE,
            headroom_units: 0,
            forces: true,
            calm: Nanos::ZERO,
            bucket: Bucket::Planned,
            pool: Pool { blocks: 1 << 20, used_blocks: 0, floor_blocks: 0, alarm_blocks: 0 },
            services,
            batches_max: 16,
            directives_max: 4,
        });
        executor.foreground(now, 0);
        let batch = Batch { payable_at: now, due_at: Nanos::NEVER, blocks: owed_blocks };
        executor.incur(now, Service::Scrub, batch);
        Self { executor, completed: Vec::new(), owed: Vec::new(), samples: Vec::new(), reserved: 0 }
    }
}

impl Governor for Simple {
    fn sample(&mut self, _: Nanos, _: Nanos, reading: &Reading) {
        self.samples.push(*reading);
    }

    fn poll(&mut self, now: Nanos) -> Step {
        match self.executor.poll(now) {
            Decision::Run(slice) => {
                let (tag, service, bytes) = (slice.tag, slice.service, slice.blocks * BLOCK_BYTES);
                let bytes_per_second = bytes * 1000 / (slice.ends_at.since(now).0 / 1_000_000).max(1);
                let reservation_bytes_per_second = self.reserved;
                let device_time = self.executor.expected(&slice);
                Step::Run(Slice {
                    tag,
                    service,
                    bytes,
                    bytes_per_second,
                    is_idle_class: false,
                    is_behind: false,
                    reservation_bytes_per_second,
                    device_time,
                })
            }
            Decision::Pause(tag) => Step::Pause(tag),
            Decision::End(tag) => Step::End(tag),
            Decision::WaitUntil(until, _) => Step::WaitUntil(until),
            Decision::Idle => Step::WaitUntil(Nanos::NEVER),
        }
    }

    fn complete(&mut self, now: Nanos, tag: SliceTag, paid_bytes: u64, took: Nanos) {
        assert!(self.executor.complete(now, tag, paid_bytes / BLOCK_BYTES, took), "a slice is completed once");
        self.completed.push((paid_bytes, took));
    }

    fn owes(&mut self, now: Nanos, service: Service, bytes: u64) {
        let before = self.executor.debt_blocks(service);
        self.executor.forgive(now, service, before.saturating_sub(bytes / BLOCK_BYTES));
        self.owed.push(bytes);
    }

    fn set_back(&mut self, now: Nanos) {
        self.executor.set_back(now);
    }

    fn status(&self, _: Nanos) -> GovernorStatus {
        GovernorStatus::default()
    }

    fn page(&self, _: Nanos, _: &Status) -> String {
        "a page".into()
    }

    fn state(&self) -> Value {
        Value::Null
    }
}

/// An overseer of one worker, and its governor.
struct Case {
    overseer: Overseer,
    governor: Simple,
    events: Vec<String>,
    /// How far the governor's time is behind.
    behind: Nanos,
}

pub(crate) fn scrub(renews: Option<Nanos>, works_in_parts: bool) -> Employment {
    let patience = Nanos::from_seconds(60);
    Employment { name: "scrub".into(), service: Service::Scrub, renews, works_in_parts, patience, keeps_rate: false }
}

impl Case {
    fn new(employment: Employment) -> Self {
        let overseer = Overseer::new(vec![(employment, Position::default())]);
        Self { overseer, governor: Simple::new(at(0).wall, 1 << 40), events: Vec::new(), behind: Nanos::ZERO }
    }

    fn now(&self, second: u64) -> Nanos {
        at(second).wall.since(self.behind)
    }

    /// The orders that follow at a second.
    fn turn(&mut self, second: u64) -> Vec<(u64, Order)> {
        let (now, mut actions) = (self.now(second), Actions::default());
        self.overseer.turn(at(second), now, &mut self.governor, &mut actions);
        self.events.extend(actions.events);
        actions.orders.into_iter().map(|(_, serial, order)| (serial, order)).collect()
    }

    fn hear(&mut self, second: u64, serial: u64, result: Result<(), &str>, done_bytes: Option<u64>) {
        let progress = Progress { done_bytes, ..Progress::default() };
        self.hear_progress(second, Some((serial, result)), Ok(progress));
    }

    fn hear_progress(
        &mut self,
        second: u64,
        answer: Option<(u64, Result<(), &str>)>,
        progress: Result<Progress, WorkerError>,
    ) {
        let answer = answer.map(|(serial, result)| (serial, result.map_err(|error| WorkerError(error.into()))));
        let report = Report { worker: 0, answer, progress, position: Position::default() };
        let (now, mut actions) = (self.now(second), Actions::default());
        self.overseer.hear(at(second), now, report, &mut self.governor, &mut actions);
        self.events.extend(actions.events);
    }

    /// The order to run that follows at a second: its number, and the bytes that it may do.
    fn runs(&mut self, second: u64) -> (u64, u64) {
        match &self.turn(second)[..] {
            [(serial, Order::Run(task))] => (*serial, task.bytes),
            others => panic!("{others:?}"),
        }
    }
}

#[test]
fn completed_slices_report_payment_and_the_next_follows() {
    let mut case = Case::new(scrub(None, false));
    let (serial, bytes) = case.runs(0);
    assert!(case.turn(1).is_empty(), "an order is said once");
    case.hear(1, serial, Ok(()), Some(bytes / 2));
    assert!(case.governor.completed.is_empty());
    case.hear_progress(8, None, Ok(Progress { done_bytes: Some(bytes), ..Progress::default() }));
    assert_eq!(case.governor.completed, [(bytes, Nanos::from_seconds(8))]);
    assert!(case.turn(8).iter().all(|(_, order)| matches!(order, Order::Run(_))));
}

#[test]
fn another_reservation_is_a_new_order_reported_once() {
    let mut case = Case::new(scrub(None, false));
    let (serial, bytes) = case.runs(0);
    case.hear(1, serial, Ok(()), Some(0));
    case.governor.reserved = 7;
    case.hear_progress(9, None, Ok(Progress { done_bytes: Some(bytes), ..Progress::default() }));
    let orders = case.turn(9);
    let [(serial, Order::Run(task))] = orders[..] else { panic!("{orders:?}") };
    assert_eq!(task.reservation_bytes_per_second, Some(7));
    let refused = || Ok(Progress { unreserved: Some("no".into()), ..Progress::default() });
    case.hear_progress(10, Some((serial, Ok(()))), refused());
    case.hear_progress(11, None, refused());
    assert_eq!(case.events, ["scrub: runs without its reservation: no"]);
    assert_eq!(case.overseer.status()[0].unreserved.as_deref(), Some("no"));
}

#[test]
fn device_time_is_reported_or_the_whole_slice() {
    let mut case = Case::new(scrub(None, false));
    let (serial, bytes) = case.runs(0);
    let said = |millis, done| {
        let device = Some(Nanos::from_millis(millis));
        Ok(Progress { device, done_bytes: Some(done), ..Progress::default() })
    };
    case.hear_progress(1, Some((serial, Ok(()))), said(100, 0));
    case.hear_progress(9, None, said(1600, bytes));
    // The first reading came after the slice had begun.
    assert_eq!(case.governor.completed, [(bytes, Nanos::from_seconds(9))]);
    let (serial, bytes_next) = case.runs(9);
    case.hear_progress(15, Some((serial, Ok(()))), said(2600, bytes + bytes_next));
    assert_eq!(case.governor.completed[1], (bytes_next, Nanos::from_seconds(1)));
}

/// The time that is counted for a worker that keeps its rate, in thousandths of what its slice was expected to take. The worker pays `paid`
/// thousandths of the slice in `seconds`, after `unpaid_seconds` in which it paid nothing.
fn counted_of_expected(paid: u64, seconds: u64, unpaid_seconds: u64) -> u64 {
    let mut case = Case::new(Employment { keeps_rate: true, ..scrub(None, false) });
    case.governor.executor.foreground(at(0).wall, 500);
    let (mut serial, _) = case.runs(0);
    case.hear(0, serial, Ok(()), Some(0));
    let pause = |case: &mut Case, second: u64, done: u64| {
        case.governor.executor.foreground(at(second).wall, 1000);
        let (pause, _) = case.turn(second)[0];
        case.hear(second, pause, Ok(()), Some(done));
    };
    if unpaid_seconds > 0 {
        pause(&mut case, unpaid_seconds, 0);
        assert_eq!(case.governor.completed.pop(), Some((0, Nanos::ZERO)));
        case.governor.executor.foreground(at(unpaid_seconds).wall, 500);
        (serial, _) = case.runs(unpaid_seconds);
        case.hear(unpaid_seconds, serial, Ok(()), Some(0));
    }
    let slice = *case.governor.executor.running().next().unwrap();
    let expected = case.governor.executor.expected(&slice);
    assert_eq!(
        (slice.ends_at.since(slice.started_at), expected),
        (SLICE, Nanos(SLICE.0 / 2)),
        "it has half of the device"
    );
    pause(&mut case, unpaid_seconds + seconds, slice.blocks * BLOCK_BYTES / 1000 * paid);
    let [(_, took)] = case.governor.completed[..] else { panic!("{:?}", case.governor.completed) };
    took.0 * 1000 / expected.0
}

#[test]
fn workers_that_keep_their_rate_cost_less() {
    // In four of ten seconds the worker has used four tenths of its slice, of which a bit less is counted.
    assert_eq!(counted_of_expected(400, 4, 0), 375);
    assert_eq!(counted_of_expected(360, 4, 0), 337);
    assert_eq!(counted_of_expected(340, 4, 0), 400);
    assert_eq!(counted_of_expected(100, 4, 0), 400);
    // A worker that exceeds its rate costs no less than at its rate.
    assert_eq!(counted_of_expected(800, 4, 0), 750);
    // A worker whose progress is seen in steps costs the same.
    assert_eq!(counted_of_expected(800, 4, 4), 750);
    assert_eq!(counted_of_expected(400, 4, 4), 800);
}

#[test]
fn foreground_load_pauses_workers_and_completes_their_slices() {
    let mut case = Case::new(scrub(None, false));
    let (serial, bytes) = case.runs(0);
    case.hear(1, serial, Ok(()), Some(0));
    case.governor.executor.foreground(at(2).wall, 1000);
    let orders = case.turn(2);
    let [(pause, Order::Pause)] = orders[..] else { panic!("{orders:?}") };
    assert!(case.governor.completed.is_empty(), "it may still be at work");
    case.hear(3, pause, Ok(()), Some(bytes / 4));
    assert_eq!(case.governor.completed, [(bytes / 4, Nanos::from_seconds(3))]);
    assert!(case.turn(4).is_empty());
}

#[test]
fn workers_that_cannot_pause_are_ended_and_counted() {
    let mut case = Case::new(scrub(None, false));
    let (serial, _) = case.runs(0);
    case.hear(1, serial, Ok(()), Some(0));
    case.governor.executor.foreground(at(2).wall, 1000);
    assert!(matches!(case.turn(2)[..], [(_, Order::Pause)]));
    assert!(case.turn(4).is_empty());
    let orders = case.turn(8);
    let [(end, Order::End)] = orders[..] else { panic!("{orders:?}") };
    assert_eq!(case.events, ["scrub: did not pause in time, and is ended"]);
    assert!(case.governor.completed.is_empty());
    case.hear(9, end, Ok(()), None);
    assert_eq!(case.governor.completed.len(), 1);
    assert_eq!(case.overseer.status()[0].overruns, 1);
}

#[test]
fn failed_pauses_become_ends_tried_until_they_work() {
    let mut case = Case::new(scrub(None, false));
    let (serial, _) = case.runs(0);
    case.hear(1, serial, Ok(()), Some(0));
    case.governor.executor.foreground(at(2).wall, 1000);
    let (pause, _) = case.turn(2)[0];
    case.hear(3, pause, Err("no such pool"), None);
    let orders = case.turn(3);
    let [(end, Order::End)] = orders[..] else { panic!("{orders:?}") };
    case.hear(4, end, Err("no such pool"), None);
    assert!(case.governor.completed.is_empty(), "it may still be at work");
    assert!(case.turn(5).is_empty(), "not at once");
    let orders = case.turn(40);
    let [(end, Order::End)] = orders[..] else { panic!("{orders:?}") };
    case.hear(41, end, Ok(()), None);
    assert_eq!(case.governor.completed.len(), 1);
    assert!(matches!(case.turn(42)[..], [(_, Order::Pause)]));
}

#[test]
fn workers_that_cannot_begin_are_retried_less_often() {
    let mut case = Case::new(scrub(None, false));
    let (mut second, mut tries) = (0, Vec::new());
    while tries.len() < 12 {
        for (serial, order) in case.turn(second) {
            match order {
                Order::Run(_) => {
                    tries.push(second);
                    case.hear(second, serial, Err("no such pool"), None);
                }
                _ => case.hear(second, serial, Ok(()), None),
            }
        }
        second += 1;
    }
    let gaps: Vec<u64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600], "an hour at most");
    assert_eq!(case.events, ["scrub: no such pool"], "said once");
    assert!(case.governor.completed.iter().all(|(paid, _)| *paid == 0));
}

#[test]
fn finished_work_settles_the_debt_and_stops_workers() {
    let mut case = Case::new(scrub(None, false));
    let (serial, bytes) = case.runs(0);
    let finished = Progress { done_bytes: Some(bytes / 2), is_finished: true, ..Progress::default() };
    case.hear_progress(2, Some((serial, Ok(()))), Ok(finished));
    assert_eq!(case.governor.owed, [0]);
    assert_eq!(case.governor.completed.len(), 1);
    assert!(matches!(case.turn(3)[..], [(_, Order::Pause)]));
}

#[test]
fn debt_stated_by_workers_is_reported_with_payments() {
    let mut case = Case::new(scrub(None, false));
    let (serial, bytes) = case.runs(0);
    let owed = |done: u64| Ok(Progress { done_bytes: Some(done), owed_bytes: Some(1 << 30), ..Progress::default() });
    case.hear_progress(1, Some((serial, Ok(()))), owed(0));
    case.hear_progress(2, None, owed(bytes / 2));
    assert_eq!(case.governor.owed, [1 << 30, (1 << 30) + bytes / 2]);
}

#[test]
fn progress_that_goes_back_pays_nothing_twice() {
    let mut case = Case::new(scrub(None, false));
    let (serial, bytes) = case.runs(0);
    case.hear(1, serial, Ok(()), Some(bytes / 2));
    case.hear(2, serial, Ok(()), Some(BLOCK_BYTES));
    assert_eq!(case.overseer.status()[0].paid_bytes, bytes / 2 + BLOCK_BYTES);
}

#[test]
fn orders_with_leases_are_renewed_before_they_end() {
    let mut case = Case::new(scrub(Some(Nanos::from_seconds(3)), false));
    let (serial, _) = case.runs(0);
    case.hear(0, serial, Ok(()), Some(0));
    assert!(case.turn(2).is_empty());
    let (serial, _) = case.runs(3);
    assert!(case.turn(9).is_empty(), "not while the last one is unanswered");
    case.hear(9, serial, Ok(()), Some(0));
    assert!(matches!(case.turn(9)[..], [(_, Order::Run(_))]));
}

#[test]
fn work_in_parts_gets_each_part_in_turn() {
    let mut case = Case::new(scrub(None, true));
    let (serial, bytes) = case.runs(0);
    case.hear(2, serial, Ok(()), Some(bytes / 2));
    let (serial, rest) = case.runs(2);
    assert_eq!(rest, bytes - bytes / 2);
    case.hear(4, serial, Ok(()), Some(bytes));
    assert_eq!(case.governor.completed.len(), 1);
}

#[test]
fn the_work_is_known_if_all_workers_report() {
    let mut case = Case::new(scrub(None, false));
    assert_eq!(case.overseer.workers_bytes(), Some(0.0));
    let (serial, _) = case.runs(0);
    assert_eq!(case.overseer.workers_bytes(), None);
    case.hear(1, serial, Ok(()), Some(0));
    case.hear_progress(2, None, Ok(Progress { done_bytes: Some(5000), ..Progress::default() }));
    assert_eq!(case.overseer.workers_bytes(), Some(5000.0));
    case.hear_progress(3, None, Ok(Progress::default()));
    assert_eq!(case.overseer.workers_bytes(), None);
}

#[test]
fn a_clock_put_back_pays_both_slices_once() {
    let mut case = Case::new(scrub(None, false));
    let (serial, bytes) = case.runs(0);
    case.hear(1, serial, Ok(()), Some(bytes / 4));
    case.behind = Nanos::from_seconds(7200);
    case.overseer.set_back(case.now(2), &mut case.governor);
    assert!(case.turn(2).is_empty(), "it works already");
    case.hear_progress(3, None, Ok(Progress { done_bytes: Some(bytes / 4 + bytes), ..Progress::default() }));
    assert_eq!(case.governor.completed, [(bytes, Nanos::from_seconds(1))]);
}

#[test]
fn a_worker_that_never_answers_is_reported_once() {
    let mut case = Case::new(scrub(None, false));
    case.runs(0);
    for second in [30, 61, 62, 90] {
        case.turn(second);
    }
    let lost: Vec<_> = case.events.iter().filter(|event| event.contains("does not answer")).collect();
    assert_eq!(lost.len(), 1, "{:?}", case.events);
}

proptest::proptest! {
    #[test]
    fn no_order_of_answers_breaks_the_overseer(steps in proptest::collection::vec((0_u8..8, 0_u64..4, 0_u64..1 << 30), 1..200)) {
        let mut case = Case::new(scrub(Some(Nanos::from_seconds(3)), false));
        let (mut second, mut last) = (0, 0);
        for (what, wait, amount) in steps {
            second += wait;
            match what {
                0 | 1 => last = case.turn(second).last().map_or(last, |(serial, _)| *serial),
                2 => case.hear(second, last, Ok(()), Some(amount)),
                3 => case.hear(second, last, Err("no"), None),
                4 => case.hear_progress(second, None, Ok(Progress { done_bytes: Some(amount), ..Progress::default() })),
                5 => case.hear_progress(second, None, Err(WorkerError("no".into()))),
                6 => case.governor.executor.foreground(at(second).wall, (amount % 2) as u32 * 1000),
                _ => {
                    let finished = Progress { is_finished: true, ..Progress::default() };
                    case.hear_progress(second, Some((last, Ok(()))), Ok(finished));
                }
            }
        }
    }
}
