//! Outcomes as a simulator would produce them, made by arithmetic.

use ioweir_core::{Nanos, Operation, Reason};

use ioweir_device::Standing;

use crate::compare::{Comparison, Ground, Meta, Report};
use crate::gate::Evidence;
use crate::run::TraceMeta;
use crate::sim::{Class, HeadPoint, Latencies, Outcome, ServiceSums, Throughput};

const TRACKS: u64 = 60_000;

/// The performance of a made-up scheduler.
struct Character {
    name: &'static str,
    completion_millis: u64,
    latency_micros: u64,
    jump: u64,
}

const CHARACTERS: [Character; 8] = [
    Character { name: "noop", completion_millis: 61_200, latency_micros: 8_300, jump: 9 },
    Character { name: "cfq:quantum=2", completion_millis: 74_900, latency_micros: 6_100, jump: 21 },
    Character { name: "bid-hdd", completion_millis: 43_750, latency_micros: 2_250, jump: 2 },
    Character { name: "deadline", completion_millis: 52_000, latency_micros: 7_400, jump: 5 },
    Character { name: "anticipatory", completion_millis: 49_100, latency_micros: 5_900, jump: 4 },
    Character { name: "clook", completion_millis: 41_900, latency_micros: 12_000, jump: 1 },
    Character { name: "sptf", completion_millis: 40_300, latency_micros: 3_400, jump: 6 },
    Character { name: "bfq", completion_millis: 66_000, latency_micros: 4_000, jump: 14 },
];

/// Three schedulers on one trace under two loads.
pub(crate) fn report() -> Report {
    let mut report = report_of(2_000, 300);
    report.outcomes.truncate(3);
    let mut faster = report.outcomes.clone();
    for outcome in &mut faster {
        outcome.load = "x10".into();
        outcome.completion = Nanos(outcome.completion.0 / 4);
        outcome.busy = Nanos(outcome.busy.0.min(outcome.completion.0));
        outcome.skipped = 2;
    }
    report.outcomes.append(&mut faster);
    report
}

/// Eight schedulers on one trace, with this number of requests and of points in the head's path.
pub(crate) fn report_of(requests: u64, points: u64) -> Report {
    let spec = Comparison { traces: vec!["grep.blktrace.0".into()], seeds: 7.into(), ..Comparison::default() };
    Report {
        meta: Meta {
            version: "0.1.0".into(),
            commit: "0123456789ab".into(),
            spec_sha256: "5e".repeat(32),
            spec,
            traces: vec![TraceMeta {
                name: "grep".into(),
                format: "blktrace".into(),
                files: vec![("grep.blktrace.0".into(), "ab".repeat(32))],
            }],
            device_toml: "name = \"hdd\"\ncapacity = \"500 GiB\"\n".into(),
            devices: Vec::new(),
            fast_device_toml: None,
            command: "ioweir compare grep.blktrace.0 --scheduler noop,cfq:quantum=2,bid-hdd --seeds 7".into(),
        },
        outcomes: CHARACTERS.iter().map(|character| outcome(character, requests, points)).collect(),
        accounts: Vec::new(),
        grounds: vec![Ground {
            trace: "grep".into(),
            volume: String::new(),
            device: "hdd".into(),
            standing: Standing::Measured,
            evidence: Evidence::default(),
            span_seconds: None,
            of: None,
            streams: Vec::new(),
        }],
    }
}

fn class(character: &Character, requests: u64, bytes: u64, factor: u64) -> Class {
    let mut latency = Latencies::default();
    let mut sum = 0;
    for index in 0..requests {
        // A long tail: one in a hundred requests takes twenty times as long, and one in a thousand two hundred times.
        let tail = if index % 1000 == 999 {
            200
        } else if index % 100 == 99 {
            20
        } else {
            1
        };
        let nanos = character.latency_micros * (300 + index * 7 % 1400) * factor * tail;
        latency.record(nanos);
        sum += u128::from(nanos);
    }
    // The mean is that of the character, whatever the tail.
    let mean = u128::from(character.latency_micros) * 1_000;
    let latency_sum_nanos = if requests > 0 { mean * u128::from(requests) } else { sum };
    Class { requests, bytes, latency, latency_sum_nanos }
}

fn outcome(character: &Character, requests: u64, points: u64) -> Outcome {
    let (reads, writes) = (requests * 3 / 4, requests / 4);
    let mut all = class(character, reads, reads * 65_536, 1);
    let write = class(character, writes, writes * 262_144, 6);
    let read = all.clone();
    all.latency.add(&write.latency);
    all.requests += writes;
    all.bytes += write.bytes;
    all.latency_sum_nanos += write.latency_sum_nanos;
    let completion = Nanos::from_millis(if requests > 0 { character.completion_millis } else { 0 });
    let busy = u128::from(completion.0) * 92 / 100;
    let mut wait_nanos = [0; Reason::COUNT];
    wait_nanos[Reason::DeviceFull as usize] = all.latency_sum_nanos / 2;
    wait_nanos[Reason::Ordering as usize] = all.latency_sum_nanos / 4;
    if character.name == "bid-hdd" {
        wait_nanos[Reason::Staging as usize] = all.latency_sum_nanos / 8;
    }
    Outcome {
        trace: "grep".into(),
        scheduler: character.name.into(),
        device: "hdd".into(),
        load: "recorded".into(),
        depth: 1,
        service_time: read.latency.clone(),
        by_operation: [read, write, class(character, 0, 0, 1), class(character, 0, 0, 1)],
        dispatches: requests - requests / 10,
        merged_requests: requests / 10,
        completion,
        busy: Nanos(u64::try_from(busy).unwrap()),
        service: ServiceSums {
            overhead_nanos: busy / 20,
            seek_nanos: busy * u128::from(character.jump) / 40,
            rotation_nanos: busy / 5,
            transfer_nanos: busy / 4,
            queue_nanos: 0,
        },
        seeks: requests / 2 * character.jump / 10,
        seek_distance_tracks: requests * character.jump * 300,
        seek_distance_squares: u128::from(requests * character.jump * 300) * 900,
        tracks: TRACKS,
        wait_nanos,
        throughput: throughput(character, if requests > 0 { 600 } else { 0 }, completion),
        head: head(character, points, completion),
        all,
        ..Outcome::default()
    }
}

fn throughput(character: &Character, buckets: u64, completion: Nanos) -> Throughput {
    let wave = |index: u64, factor: u64| (index * factor * character.jump) % 97 * 60_000;
    Throughput {
        bucket: Nanos(completion.0.div_ceil(buckets.max(1))),
        read_bytes: (0..buckets).map(|index| wave(index, 3) * u64::from(index % 150 < 110)).collect(),
        write_bytes: (0..buckets).map(|index| wave(index, 5) / 3).collect(),
    }
}

/// A few regions of the disk, which the head visits in turn, the more often the higher the character's jump.
fn head(character: &Character, points: u64, completion: Nanos) -> Vec<HeadPoint> {
    let regions = [4_000, 17_000, 31_500, 52_000];
    let turn = (400 / character.jump).max(1);
    let point = |index: u64| {
        let region = regions[usize::try_from(index / turn % 4).unwrap()];
        HeadPoint {
            time: Nanos(completion.0 / points * index),
            track: u32::try_from(region + index * 7_919 % (150 * character.jump + 40)).unwrap(),
            operation: if index % 4 == 3 { Operation::Write } else { Operation::Read },
        }
    };
    (0..points).map(point).collect()
}
