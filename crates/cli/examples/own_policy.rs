//! An elevator of one's own, raced against those of Linux: the program of the book's guide "Write a policy".

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use ioweir_config::register_policy;
use ioweir_core::external::{ElevatorFactory, ExternalElevator, Maker, Next};
use ioweir_core::policy::{PolicyRow, Settings};
use ioweir_core::{Nanos, QueueLimits, Request};
use ioweir_lab::compare::{Comparison, document, run};
use ioweir_lab::run::Silent;

/// A queued request.
#[derive(Clone, Copy, Debug)]
struct Queued {
    slot: u32,
    sector: u64,
    arrived: Nanos,
}

/// The nearest request, or the oldest once it is 50 ms old.
#[derive(Clone, Debug, Default)]
struct NearestInTime {
    queued: Vec<Queued>,
    head: u64,
}

impl ExternalElevator for NearestInTime {
    fn submit(&mut self, now: Nanos, slot: u32, request: &Request) {
        self.queued.push(Queued { slot, sector: request.sector, arrived: now });
    }

    fn remove(&mut self, slot: u32) {
        self.queued.retain(|queued| queued.slot != slot);
    }

    fn poll(&mut self, now: Nanos) -> Next {
        let oldest = self.queued.iter().min_by_key(|queued| queued.arrived);
        let late = oldest.filter(|queued| now.since(queued.arrived) > Nanos(50_000_000));
        let nearest = || self.queued.iter().min_by_key(|queued| queued.sector.abs_diff(self.head));
        let Some(next) = late.or_else(nearest).copied() else { return Next::WaitUntil(Nanos::NEVER) };
        self.remove(next.slot);
        Next::Take(next.slot)
    }

    fn complete(&mut self, _now: Nanos, _slot: u32, request: &Request) {
        self.head = request.sector + u64::from(request.sectors);
    }

    fn boxed(&self) -> Box<dyn ExternalElevator> {
        Box::new(self.clone())
    }
}

#[derive(Debug)]
struct Factory;

impl ElevatorFactory for Factory {
    fn make(&self, _limits: &QueueLimits, _settings: &Settings) -> Box<dyn ExternalElevator> {
        Box::new(NearestInTime::default())
    }
}

static ROW: PolicyRow =
    PolicyRow::external("nearest-in-time", "the nearest, or the oldest at 50 ms", Maker::Elevator(&Factory));

fn main() -> Result<(), Box<dyn Error>> {
    register_policy(&ROW)?;
    let comparison = Comparison::parse(
        "the race",
        r#"
        traces = ["traces/fio/mix.iolog.gz"]
        schedulers = ["none", "mq-deadline", "sptf", "nearest-in-time"]
        loads = ["closed:4"]
        "#,
    )?;
    let report = run(&comparison, &ioweir::origin("own_policy"), &Silent)?;
    print!("{}", document(&report, None)?.to_terminal(false));
    Ok(())
}
