//! A replay on an emulated device, in virtual time, gives the simulator's result for the same requests.

use ioweir_block::backend::{Emulated, Faulty, Media};
use ioweir_block::real::{Access, Halt, Ring, Stop, System, Target};
use ioweir_config::Size;
use ioweir_core::policy::{self, Policy};
use ioweir_core::{Nanos, Operation, QueueLimits};
use ioweir_device::DeviceSpec;
use ioweir_lab::sim::{self, Feed, Load, Simulation, Streams, Unobserved, simulate};
use ioweir_lab::workload::{JobGenerator, mix};
use ioweir_measure::replay::device::{Answered, Arrivals, Bounds, ReplayError, Replayed, replay};
use ioweir_measure::replay::{Fit, Fitted, Measured};
use ioweir_serve::nbd::NbdError;
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
fn replay_without_scheduler_equals_simulated_noop() {
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
fn flight_stays_within_bounds() {
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

/// Random reads of generated traffic, moved onto a small device.
fn small_replay(ring: &mut Ring, alignment_bytes: u64) -> (Vec<Answered>, Result<Replayed, ReplayError>) {
    let source = Box::new(JobGenerator::new(mix("grep").unwrap(), 300, None, 0));
    let fit = Fit { size_bytes: SMALL_BYTES, alignment_bytes, reads_only: true, fold: true, ..Fit::default() };
    let mut answered = Vec::new();
    let load = "closed:2".parse().unwrap();
    let mut fed = Fed(Feed::new(Box::new(Fitted::new(source, "grep", fit)), load, Streams::KEPT));
    let outcome = replay(ring, &mut fed, Bounds::default(), &mut |one| answered.push(*one));
    (answered, outcome)
}

const SMALL_BYTES: u64 = 1 << 20;

fn faulty(faults: Faults) -> Ring {
    Ring::in_virtual_time(Box::new(Faulty::new(Media::new(SMALL_BYTES), Faults { seed: 7, ..faults })))
}

#[test]
fn failing_device_answers_every_request() {
    let faults = Faults { errors_per_million: 300_000, ..Faults::default() };
    let (answered, outcome) = small_replay(&mut faulty(faults), 512);
    assert!(outcome.is_ok());
    let failed = answered.iter().filter(|one| one.result == Err(NbdError::InputOutput)).count();
    assert!(failed > 0 && failed < answered.len(), "{failed} of {}", answered.len());
}

#[test]
fn unreadable_place_fails_only_its_requests() {
    let bad = 256 << 10..320 << 10;
    let faults = Faults { bad_from: Size(bad.start), bad_length: Size(bad.end - bad.start), ..Faults::default() };
    let (answered, outcome) = small_replay(&mut faulty(faults), 512);
    assert!(outcome.is_ok());
    let is_there =
        |record: &Record| record.offset_bytes < bad.end && bad.start < record.offset_bytes + record.length_bytes;
    let touched = answered.iter().filter(|one| is_there(&one.record)).count();
    assert!(touched > 0 && touched < answered.len(), "{touched} of {}", answered.len());
    assert!(answered.iter().all(|one| one.result.is_err() == is_there(&one.record)));
}

#[test]
fn stall_is_slow_then_an_error() {
    let stalls =
        |stall: &str| Faults { stalls_per_million: 10_000, stall: stall.parse().unwrap(), ..Faults::default() };
    let (answered, outcome) = small_replay(&mut faulty(stalls("5s")), 512);
    let slow = answered.iter().filter(|one| one.completed.since(one.submitted) >= Nanos::from_seconds(5)).count();
    assert!(slow > 0 && slow < answered.len() / 10, "{slow} of {}", answered.len());
    assert!(answered.iter().all(|one| one.result.is_ok()));
    assert!(outcome.unwrap().completion >= Nanos::from_seconds(5));
    let (_, outcome) = small_replay(&mut faulty(stalls("100s")), 512);
    assert!(matches!(outcome, Err(ReplayError::Halted(Halt::Stalled { .. }))), "{outcome:?}");
    let (_, outcome) = small_replay(&mut faulty(stalls("5s")).with_stall(Nanos::from_seconds(1)), 512);
    assert!(matches!(outcome, Err(ReplayError::Halted(Halt::Stalled { .. }))), "{outcome:?}");
}

#[test]
fn shortened_file_fails_only_reads_past_end() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![7; SMALL_BYTES as usize]).unwrap();
    let target = Target::open(&System::default(), file.path(), Access::default()).unwrap();
    let end = SMALL_BYTES / 2;
    file.as_file().set_len(end).unwrap();
    let mut ring = Ring::open(&target, 16, Stop::default()).unwrap();
    let (answered, outcome) = small_replay(&mut ring, target.alignment_bytes());
    assert!(outcome.is_ok());
    let is_past = |record: &Record| record.offset_bytes + record.length_bytes > end;
    assert!(answered.iter().any(|one| is_past(&one.record)) && !answered.iter().all(|one| is_past(&one.record)));
    assert!(answered.iter().all(|one| one.result.is_err() == is_past(&one.record)), "a short read is no success");
}
