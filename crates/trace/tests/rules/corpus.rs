//! The fuzzer's corpus, replayed on stable: what once failed does not fail again.

#[path = "../../../../fuzz/drive_trace.rs"]
mod drive_trace;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::support::*;

#[test]
fn nothing_in_the_corpus_breaks_a_reader() {
    let folder = repository().join("fuzz/corpus/trace");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= samples().len());
    for file in files {
        println!("{}", file.display());
        drive_trace::drive(&std::fs::read(file).unwrap());
    }
}

/// The first inputs of a fuzzer, on every run: records read from a damaged trace are still in order and have names.
#[test]
fn damaged_seeds_hold_what_a_reader_promises() {
    let mut random = Pcg64::seed_from_u64(23);
    let mut below = |limit: usize| usize::try_from(random.next_u64() % limit as u64).unwrap();
    for (name, bytes) in samples() {
        for case in 0..400 {
            let selector = drive_trace::selector(name);
            let mut seed = [&selector, &bytes[..]].concat();
            // Every second case is read leniently, so that records follow the damage.
            seed[0] |= if case % 2 == 0 { 1 } else { 0 };
            for _ in 0..=below(4) {
                let place = selector.len() + below(seed.len() - selector.len());
                seed[place] = u8::try_from(below(256)).unwrap();
            }
            drive_trace::drive(&seed);
        }
    }
}

#[test]
fn every_format_has_a_seed_in_the_corpus() {
    let folder = repository().join("fuzz/corpus/trace");
    let seeds: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    for format in ioweir_trace::FORMATS {
        let selector = drive_trace::selector(format.name);
        assert!(seeds.iter().any(|seed| seed.starts_with(&selector)), "{}", format.name);
    }
}

/// Writes the seeds: `cargo test -p ioweir-trace --test rules -- --ignored seeds`.
#[test]
#[ignore = "writes into the repository"]
fn seeds_are_the_samples() {
    let folder = repository().join("fuzz/corpus/trace");
    std::fs::create_dir_all(&folder).unwrap();
    let samples = samples();
    for (place, (name, bytes)) in samples.iter().enumerate() {
        // Counted within the format, so that a new one renames no other's seeds.
        let number = samples[..place].iter().filter(|(other, _)| other == name).count();
        let seed = [&drive_trace::selector(name), &bytes[..]].concat();
        std::fs::write(folder.join(format!("{name}-{number}")), seed).unwrap();
    }
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, HADOOP.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    std::fs::write(folder.join("any-gzip"), [&drive_trace::selector("")[..], &gzip].concat()).unwrap();
    let zstd = zstd::stream::encode_all(MSR.as_bytes(), 1).unwrap();
    std::fs::write(folder.join("any-zstd"), [&drive_trace::selector("")[..], &zstd].concat()).unwrap();
}
