//! A replay on an emulated device, in virtual time, is what the simulator says of the same requests.

use ioweir_core::policy::{self, Policy};
use ioweir_core::{Nanos, Operation, QueueLimits};
use ioweir_device::DeviceSpec;
use ioweir_lab::replay::{Fit, Fitted, Measured};
use ioweir_lab::sim::{self, Feed, Load, Simulation, Streams, Unobserved, simulate};
use ioweir_lab::workload::{JobGenerator, mix};
use ioweir_serve::backend::{Emulated, Faulty, Media};
use ioweir_serve::nbd::NbdError;
use ioweir_serve::real::{Halt, Ring};
use ioweir_serve::replay::{Answered, Arrivals, Bounds, ReplayError, Replayed, replay};
use ioweir_serve::spec::Faults;
use ioweir_trace::{Record, TraceSource};

struct Fed<'a>(Feed<'a>);

impl Arrivals for Fed<'_> {
    fn next_time(&mut self, now: Nanos, held: usize) -> Result<Option<Nanos>, ReplayError> {
        Ok(sim::Arrivals::<Policy>::next_time(&mut self.0, now, held).unwrap())
    }

    fn next(&mut self, now: Nanos, held: usize) -> Result<Option<(Nanos, Record)>, ReplayError> {
        Ok(sim::Arrivals::<Policy>::next(&mut self.0, now, held).unwrap())
    }

    fn completed(&mut self, stream: u32, now: Nanos) {
        sim::Arrivals::<Policy>::completed(&mut self.0, stream, now);
    }
}

/// The reads of generated traffic.
fn reads(requests: u64) -> Box<dyn TraceSource> {
    let source = Box::new(JobGenerator::new(mix("grep").unwrap(), requests, None, 0));
    let fit = Fit { size_bytes: 1 << 40, alignment_bytes: 512, reads_only: true, fold: true, ..Fit::default() };
    Box::new(Fitted::new(source, "grep", fit))
}

fn replayed(
    ring: &mut Ring,
    load: Load,
    bounds: Bounds,
    requests: u64,
) -> (Vec<Answered>, Result<Replayed, ReplayError>) {
    let mut answered = Vec::new();
    let mut fed = Fed(Feed::new(reads(requests), load, Streams::KEPT));
    let outcome = replay(ring, &mut fed, bounds, &mut |one| answered.push(*one));
    (answered, outcome)
}

fn emulated() -> Ring {
    Ring::in_virtual_time(Box::new(Emulated::open("hdd", None, 0).unwrap()))
}

#[test]
fn a_replay_on_a_device_without_a_scheduler_is_what_noop_does_in_the_simulator() {
    for load in ["recorded", "x3", "closed:1", "closed:4"] {
        let load: Load = load.parse().unwrap();
        let (answered, outcome) = replayed(&mut emulated(), load, Bounds::default(), 2_000);
        let outcome = outcome.unwrap();
        let mut measured = Measured::default();
        for one in &answered {
            measured.count(&one.record, one.submitted, one.completed, one.result.is_ok());
        }
        let mut disk = DeviceSpec::load("hdd").unwrap().build(0).unwrap();
        let row = policy::find("noop").unwrap();
        let limits = QueueLimits {
            depth: 4096,
            merge: false,
            request_sectors_max: 1 << 17,
            ..QueueLimits::with_requests(1 << 13)
        };
        let scheduler = row.build(limits, &row.defaults());
        let simulation =
            Simulation { scheduler, limits, device: &mut *disk, fast: None, lenient: false, until: Nanos::NEVER };
        let simulated = simulate(simulation, reads(2_000), load, &mut Unobserved).unwrap();
        assert_eq!(measured.all, simulated.all, "{load}");
        assert_eq!(outcome.completion, simulated.completion, "{load}");
        assert_eq!(measured.by_direction[0], simulated.by_operation[Operation::Read as usize], "{load}");
        assert_eq!(measured.lateness.max(), 0, "{load}: in virtual time nothing is late");
    }
}

#[test]
fn what_is_in_flight_stays_within_bounds_and_the_rest_waits() {
    let bounds = Bounds { requests: 3, bytes: 1 << 20 };
    let load: Load = "x1000".parse().unwrap();
    let (answered, outcome) = replayed(&mut emulated(), load, bounds, 500);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.in_flight_max, 3);
    assert!(outcome.held_max > 3, "{outcome:?}");
    let (all, _) = replayed(&mut emulated(), load, Bounds::default(), 500);
    assert_eq!(answered.len(), all.len(), "none is lost");
    let late = answered.iter().filter(|one| one.submitted > one.record.time).count();
    assert!(late > 0, "latencies count from the arrival, not from the submission");
}

#[test]
fn a_failing_device_gives_every_request_an_answer_and_a_stalled_one_an_error() {
    let faulty = |faults| Ring::in_virtual_time(Box::new(Faulty::new(Media::new(1 << 20), faults)));
    let faults = Faults { errors_per_million: 300_000, seed: 7, ..Faults::default() };
    let load: Load = "closed:2".parse().unwrap();
    let small = |ring: &mut Ring| {
        let source = Box::new(JobGenerator::new(mix("grep").unwrap(), 300, None, 0));
        let fit = Fit { size_bytes: 1 << 20, alignment_bytes: 512, reads_only: true, fold: true, ..Fit::default() };
        let mut answered = Vec::new();
        let mut fed = Fed(Feed::new(Box::new(Fitted::new(source, "grep", fit)), load, Streams::KEPT));
        let outcome = replay(ring, &mut fed, Bounds::default(), &mut |one| answered.push(*one));
        (answered, outcome)
    };
    let (answered, outcome) = small(&mut faulty(faults));
    assert!(outcome.is_ok());
    let failed = answered.iter().filter(|one| one.result == Err(NbdError::InputOutput)).count();
    assert!(failed > 0 && failed < answered.len(), "{failed} of {}", answered.len());
    let stalls = Faults { stalls_per_million: 10_000, stall: "100s".parse().unwrap(), seed: 7, ..Faults::default() };
    let (_, outcome) = small(&mut faulty(stalls));
    assert!(matches!(outcome, Err(ReplayError::Halted(Halt::Stalled { .. }))), "{outcome:?}");
}
