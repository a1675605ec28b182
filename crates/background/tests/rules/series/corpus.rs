//! The fuzzer's corpus, replayed on stable, and the first inputs of a fuzzer.

#[path = "../../../../../fuzz/drive_series.rs"]
mod drive_series;

use std::path::Path;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::dialects::{EXPORTS, REPORTS};

/// Small tables of each kind that there is in the wild.
fn samples() -> Vec<Vec<u8>> {
    let nab: String = (0..60)
        .map(|hour| format!("2014-07-{:02} {:02}:00:00,{}\n", 1 + hour / 24, hour % 24, hour % 24 + 3))
        .collect();
    let machine: String =
        (0..40).map(|step| format!("{};\t2;\t{}.5;\t0.0\n", 1_372_629_804 + step * 300, step % 7)).collect();
    let drives: String = (0..40)
        .map(|step| format!("{},\"disk{}\",{}.1,80\n", 1_658_149_215 + step / 2 * 15, step % 2, step * 10))
        .collect();
    let dialects = [EXPORTS, REPORTS].concat();
    let mut samples = vec![
        [b"\x08\x00timestamp,value\n", nab.as_bytes()].concat(),
        [b"\x00\x01Timestamp [ms];\tCPU cores;\tread;\twrite\n", machine.as_bytes()].concat(),
        [b"\x04\x02\"ts\",\"disk_id\",\"throughput\",\"latency\"\n", drives.as_bytes()].concat(),
        [b"\x0a\x05time,count\n", &b"0,1\n3600,9\n7200,3\n90000,12\n93600,15\n"[..]].concat(),
    ];
    samples.extend(dialects.iter().map(|(_, _, text, _)| [b"\0\0", text.as_bytes()].concat()));
    samples
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/series")
}

#[test]
fn nothing_in_the_corpus_breaks_a_promise() {
    let mut files: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= samples().len());
    for file in files {
        println!("{}", file.display());
        drive_series::drive(&std::fs::read(file).unwrap());
    }
}

#[test]
fn damaged_tables_break_no_promise() {
    let mut random = Pcg64::seed_from_u64(29);
    let mut below = |limit: usize| usize::try_from(random.next_u64() % limit as u64).unwrap();
    for sample in samples() {
        for _ in 0..150 {
            let mut bytes = sample.clone();
            bytes[0] = u8::try_from(below(32)).unwrap();
            bytes[1] = u8::try_from(below(9)).unwrap();
            for _ in 0..=below(6) {
                let place = 2 + below(bytes.len() - 2);
                // Digits and marks do more harm than noise.
                bytes[place] =
                    if below(2) == 0 { b"0123456789,;-.\n\""[below(16)] } else { u8::try_from(below(256)).unwrap() };
            }
            drive_series::drive(&bytes);
        }
    }
}

/// Writes the seeds: `cargo test -p ioweir-background --test rules series -- --ignored seeds`.
#[test]
#[ignore = "writes into the repository"]
fn seeds_are_the_samples() {
    for (number, sample) in samples().into_iter().enumerate() {
        std::fs::write(folder().join(format!("table-{number}")), sample).unwrap();
    }
}
