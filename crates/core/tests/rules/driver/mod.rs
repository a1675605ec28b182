//! A disk with a scheduler in front, told as a story: requests have names, and the first letter is the process.

#![allow(dead_code, reason = "each test file uses a part of it")]

use ioweir_core::policy::{self, Policy};
use ioweir_core::{Flags, Nanos, Operation, Priority, QueueLimits, Request, Scheduler, Step, StreamId, Tag};

pub(crate) struct Disk {
    pub(crate) scheduler: Policy,
    pub(crate) now: Nanos,
    /// The priority of requests that are submitted from now on.
    pub(crate) priority: Priority,
    /// How long the disk takes for a request.
    pub(crate) service: Nanos,
    /// Where the last dispatch began, and how often it began elsewhere than the one before.
    pub(crate) sector: u64,
    pub(crate) moves: u64,
    names: Vec<String>,
    flight: Vec<Tag>,
}

impl Disk {
    pub(crate) fn new(policy: &str, parameters: &[(&str, u64)]) -> Self {
        Self::with_limits(policy, parameters, QueueLimits { merge: false, ..QueueLimits::DEFAULT })
    }

    pub(crate) fn with_limits(policy: &str, parameters: &[(&str, u64)], limits: QueueLimits) -> Self {
        let row = policy::find(policy).expect("a policy of the table");
        let mut settings = row.defaults();
        for &(name, value) in parameters {
            row.set(&mut settings, name, value).expect("a parameter of the policy");
        }
        Self::of(row.build(limits, &settings), limits)
    }

    pub(crate) fn of(scheduler: Policy, limits: QueueLimits) -> Self {
        Self {
            scheduler,
            now: Nanos::ZERO,
            priority: Priority::NONE,
            service: Nanos::from_millis(1),
            sector: u64::MAX,
            moves: 0,
            names: vec![String::new(); limits.members as usize],
            flight: vec![],
        }
    }

    /// Submits a request; returns whether the queue had room.
    pub(crate) fn submit(&mut self, name: &str, operation: Operation, flags: Flags, sector: u64, sectors: u32) -> bool {
        let stream = StreamId(u32::from(name.as_bytes()[0]));
        let flags = flags.at(self.priority);
        let tag = self.scheduler.submit(self.now, Request { operation, flags, stream, sector, sectors });
        if let Ok(tag) = tag {
            self.names[tag.index()] = name.to_string();
        }
        tag.is_ok()
    }

    pub(crate) fn read(&mut self, name: &str, sector: u64) -> bool {
        self.submit(name, Operation::Read, Flags::NONE, sector, 8)
    }

    pub(crate) fn write(&mut self, name: &str, sector: u64) -> bool {
        self.submit(name, Operation::Write, Flags::NONE, sector, 8)
    }

    pub(crate) fn pass(&mut self, span: Nanos) {
        self.now = self.now.after(span);
    }

    /// Polls the scheduler, and counts a dispatch.
    pub(crate) fn step(&mut self) -> Step {
        let step = self.scheduler.poll(self.now);
        if let Step::Dispatch(dispatch) = step {
            self.flight.push(dispatch.tag);
            self.moves += u64::from(dispatch.sector != self.sector);
            self.sector = dispatch.sector;
        }
        step
    }

    /// A step in words: the members of a dispatch, or for how long the scheduler waits and why.
    fn tell(&self, step: Step) -> String {
        match step {
            Step::Dispatch(dispatch) => {
                let mut members = vec![];
                let mut tag = Some(dispatch.tag);
                while let Some(member) = tag {
                    members.push(self.names[member.index()].clone());
                    tag = self.scheduler.next_member(member);
                }
                members.join("+")
            }
            Step::WaitUntil(Nanos::NEVER, reason) => format!("({})", reason.name()),
            Step::WaitUntil(time, reason) => {
                assert!(time > self.now, "waits until {time}, and it is {}", self.now);
                format!("({} {} us)", reason.name(), time.since(self.now).0 / 1_000)
            }
            Step::Idle => String::new(),
        }
    }

    pub(crate) fn poll(&mut self) -> String {
        let step = self.step();
        self.tell(step)
    }

    /// Completes the oldest request in the disk.
    pub(crate) fn complete(&mut self) {
        let tag = self.flight.remove(0);
        self.scheduler.complete(self.now, tag);
    }

    /// Polls until the answer is not a dispatch; how many there were, and that answer.
    pub(crate) fn fill(&mut self) -> (usize, String) {
        let before = self.flight.len();
        loop {
            let flight = self.flight.len();
            let answer = self.poll();
            if self.flight.len() == flight {
                return (flight - before, answer);
            }
        }
    }

    /// Polls until a request is dispatched, letting time pass where the scheduler waits, and serves it.
    pub(crate) fn serve(&mut self) -> String {
        loop {
            let step = self.step();
            match step {
                Step::Dispatch(_) => {
                    let served = self.tell(step);
                    self.pass(self.service);
                    self.complete();
                    return served;
                }
                Step::WaitUntil(time, _) => {
                    assert!(time > self.now && time < Nanos::NEVER, "waits for nothing at {}", self.now);
                    self.now = time;
                }
                Step::Idle => return String::new(),
            }
        }
    }

    pub(crate) fn serve_all(&mut self) -> String {
        let mut order = vec![];
        loop {
            match self.serve() {
                served if served.is_empty() => return order.join(" "),
                served => order.push(served),
            }
        }
    }
}
