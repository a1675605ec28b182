//! Policies from outside the table run as those in it, and a run can be stopped.

use std::collections::VecDeque;
use std::sync::Once;

use ioweir_config::register_policy;
use ioweir_core::external::{ElevatorFactory, ExternalElevator, ExternalOrder, First, Maker, Next, OrderFactory};
use ioweir_core::policy::{PolicyRow, Settings};
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, QueueLimits, Request};
use ioweir_lab::compare::{self, Comparison};
use ioweir_lab::experiment::{self, Experiment};
use ioweir_lab::run::{Origin, Progress, RunError, Silent};
use ioweir_lab::sim::{Failure, Outcome};

/// First come, first served; dispatches nothing once it has dispatched this many.
#[derive(Clone, Debug)]
struct InTurn {
    queue: VecDeque<u32>,
    left: u64,
}

impl ExternalElevator for InTurn {
    fn submit(&mut self, _now: Nanos, slot: u32, _request: &Request) {
        self.queue.push_back(slot);
    }

    fn remove(&mut self, slot: u32) {
        self.queue.retain(|held| *held != slot);
    }

    fn poll(&mut self, _now: Nanos) -> Next {
        if self.left == 0 {
            return Next::WaitUntil(Nanos::NEVER);
        }
        self.left -= 1;
        self.queue.pop_front().map_or(Next::WaitUntil(Nanos::NEVER), Next::Take)
    }

    fn boxed(&self) -> Box<dyn ExternalElevator> {
        Box::new(self.clone())
    }
}

#[derive(Debug)]
struct Elevators(u64);

impl ElevatorFactory for Elevators {
    fn make(&self, _limits: &QueueLimits, _settings: &Settings) -> Box<dyn ExternalElevator> {
        Box::new(InTurn { queue: VecDeque::new(), left: self.0 })
    }
}

/// The tenant whose first request is the oldest.
#[derive(Clone, Debug, Default)]
struct Oldest(Vec<(u64, u32)>);

impl ExternalOrder for Oldest {
    fn set_share(&mut self, _now: Nanos, _tenant: u32, _share: &Share) {}

    fn activate(&mut self, _now: Nanos, tenant: u32, first: First) {
        self.deactivate(tenant);
        self.0.push((first.sequence, tenant));
    }

    fn deactivate(&mut self, tenant: u32) {
        self.0.retain(|(_, active)| *active != tenant);
    }

    fn poll(&mut self, _now: Nanos) -> Option<u32> {
        self.0.iter().min().map(|(_, tenant)| *tenant)
    }

    fn served(&mut self, _now: Nanos, _tenant: u32, _first: First) {}

    fn boxed(&self) -> Box<dyn ExternalOrder> {
        Box::new(self.clone())
    }
}

#[derive(Debug)]
struct Orders;

impl OrderFactory for Orders {
    fn make(&self, _tenants: u32, _settings: &Settings) -> Box<dyn ExternalOrder> {
        Box::<Oldest>::default()
    }
}

static IN_TURN: PolicyRow = PolicyRow::external("in-turn", "as noop", Maker::Elevator(&Elevators(u64::MAX)));
static STALLS: PolicyRow = PolicyRow::external("stalls", "never again", Maker::Elevator(&Elevators(3)));
static OLDEST: PolicyRow = PolicyRow::external("oldest", "as fifo", Maker::Order(&Orders));

fn registered() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for row in [&IN_TURN, &STALLS, &OLDEST] {
            register_policy(row).expect("the name is free");
        }
    });
}

fn origin() -> Origin {
    Origin { version: "1".into(), commit: "unknown".into(), command: String::new() }
}

fn comparison(schedulers: &[&str]) -> Comparison {
    registered();
    Comparison {
        traces: vec!["mix:grep".into()],
        schedulers: schedulers.iter().map(|name| name.parse().expect("a scheduler")).collect(),
        loads: vec!["x50".parse().expect("a load")],
        ..Comparison::default()
    }
}

/// The outcomes under two names, which they do not have any more.
fn alike(mut left: Outcome, mut right: Outcome) {
    left.scheduler.clear();
    right.scheduler.clear();
    assert_eq!(format!("{left:?}"), format!("{right:?}"));
}

#[test]
fn external_noop_gives_its_numbers() {
    for (own, built_in) in [("in-turn", "noop"), ("sfq+in-turn:window=16", "sfq+noop:window=16")] {
        let report = compare::run(&comparison(&[own, built_in]), &origin(), &Silent).expect("it runs");
        let [left, right] = <[Outcome; 2]>::try_from(report.outcomes).expect("two runs");
        assert!(left.all.requests > 1000);
        alike(left, right);
    }
}

#[test]
fn external_fifo_order_gives_its_numbers() {
    registered();
    for below in ["", "+mq-deadline"] {
        let text = format!(
            "duration = \"2s\"\ndepth = 4\ndevice = \"hdd\"\nschedulers = [\"oldest{below}\", \"fifo{below}\"]\n\
             [[class]]\nname = \"a\"\nbacklog = 4\n[[class]]\nname = \"b\"\nrate = \"50/s\"\nlimit = \"40/s\"\nburst = 1\n"
        );
        let experiment = Experiment::parse("test", &text).expect("an experiment");
        let report = experiment::run(&experiment, &origin(), &Silent).expect("it runs");
        let [own, built_in] = [0, 1].map(|at| format!("{:?}", report.summaries[at]));
        assert_eq!(own.replace("oldest", "fifo"), built_in, "below: {below}");
    }
}

#[test]
fn scheduler_that_keeps_requests_is_an_error() {
    let error = compare::run(&comparison(&["stalls"]), &origin(), &Silent).expect_err("requests are left");
    assert!(matches!(&error, RunError::Run { failure, .. } if matches!(**failure, Failure::Stuck { .. })), "{error}");
}

/// Wants everything stopped.
struct Impatient;

impl Progress for Impatient {
    fn is_stopped(&self) -> bool {
        true
    }
}

#[test]
fn a_run_that_is_stopped_says_so() {
    let error = compare::run(&comparison(&["noop"]), &origin(), &Impatient).expect_err("it is stopped");
    assert_eq!(error, RunError::Stopped);
}
