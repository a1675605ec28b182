//! Generated jobs: the same seed gives the same requests for ever, and they look like the capture that they were made after.

use std::path::Path;

use ioweir_core::Operation;
use ioweir_lab::workload::{JobGenerator, JobMix, MIXES, mix};
use ioweir_trace::{self as trace, Info, Input, ReadOptions, Record, TraceSource};

fn records_of(path: &Path) -> Vec<Record> {
    let inputs = vec![Input::from_path(path)];
    let mut source = trace::open_inputs(inputs, &ReadOptions::default()).unwrap();
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.read_batch(&mut batch).unwrap();
        if batch.is_empty() {
            return records;
        }
        records.extend_from_slice(&batch);
    }
}

fn info_of(mix: &'static JobMix, seed: u64) -> Info {
    trace::info(&mut JobGenerator::new(mix, mix.requests, None, seed)).unwrap()
}

/// FNV-1a over time, place, length, operation and stream of 2000 requests.
fn fingerprint(mix: &'static JobMix) -> u64 {
    let mut source = JobGenerator::new(mix, 2_000, None, 7);
    let (mut hash, mut batch) = (0xcbf2_9ce4_8422_2325_u64, Vec::new());
    source.read_batch(&mut batch).unwrap();
    assert_eq!(batch.len(), 2_000);
    for record in &batch {
        let fields = [
            record.time.0,
            record.offset_bytes,
            record.length_bytes,
            record.operation as u64,
            u64::from(record.stream.0),
            u64::from(record.flags.bits()),
        ];
        for byte in fields.iter().flat_map(|field| field.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

/// If one of these changes, every trace generated from its mix does: say so in the change log.
const FINGERPRINTS: [(&str, u64); 6] = [
    ("grep", 0xe5cb_a14a_d287_0af1),
    ("randomtextwriter", 0xd8ed_f877_0af2_95ae),
    ("sort", 0xc836_5c42_d9f1_9089),
    ("terasort", 0xaa19_d302_e2b9_7ef7),
    ("wordcount", 0x6819_2423_d633_1d03),
    ("wordstandarddeviation", 0x39b0_38bc_555e_e34f),
];

#[test]
fn seed_determines_generated_requests() {
    let found: Vec<_> = MIXES.iter().map(|mix| (mix.name, fingerprint(mix))).collect();
    assert_eq!(found, FINGERPRINTS);
}

#[test]
fn generated_jobs_look_like_their_captures() {
    for mix in MIXES {
        let generated = info_of(mix, 1);
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../../traces/hadoop/hdd-emul/{}.insert.csv.zst", mix.name));
        let captured = records_of(&path);
        let reads = captured.iter().filter(|record| record.operation == Operation::Read);
        let (reads, all) = (reads.count() as f64, captured.len() as f64);
        let share = generated.read_requests as f64 / generated.requests as f64;
        println!(
            "{}: reads {share:.3} of {:.3}, {:.1} MB read, {:.1} MB written, {:.0} s, sequential {:?}",
            mix.name,
            reads / all,
            generated.read_bytes as f64 / 1e6,
            generated.write_bytes as f64 / 1e6,
            generated.span_seconds,
            generated.read_sequential_in_stream_ratio,
        );
        assert_eq!(generated.requests, captured.len() as u64, "{}", mix.name);
        assert!((share - reads / all).abs() < 0.1, "{}: {share}", mix.name);
        let bytes = |operation| -> u64 {
            captured.iter().filter(|record| record.operation == operation).map(|record| record.length_bytes).sum()
        };
        let near = |found: u64, expected: u64| {
            found as f64 > 0.75 * expected as f64 && (found as f64) < 1.25 * expected as f64
        };
        let span = captured.last().map_or(0.0, |record| record.time.as_seconds());
        assert!((generated.span_seconds / span - 1.0).abs() < 0.25, "{}", mix.name);
        if mix.bulk.is_some() {
            assert!(near(generated.write_bytes, bytes(Operation::Write)), "{}", mix.name);
        }
        if mix.read_sectors.len() > 1 {
            assert!(near(generated.read_bytes, bytes(Operation::Read)), "{}", mix.name);
        }
    }
}

#[test]
fn seeds_readers_and_lengths_are_choices() {
    let mix = mix("grep").unwrap();
    assert_ne!(info_of(mix, 1), info_of(mix, 2));
    let wide = trace::info(&mut JobGenerator::new(mix, 30_000, Some(40), 1)).unwrap();
    assert_eq!((wide.requests, wide.streams), (30_000, 42));
    let end = mix.sectors * 512;
    assert!(wide.highest_offset_bytes <= end);
    let none = trace::info(&mut JobGenerator::new(mix, 50, Some(0), 1)).unwrap();
    assert_eq!(none.read_requests, 0);
}
