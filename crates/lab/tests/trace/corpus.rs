//! The fuzzer's corpus, replayed on stable: what once failed does not fail again.

#[path = "../../../../fuzz/drive_trace.rs"]
mod drive_trace;

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

#[test]
fn every_format_has_a_place_in_the_corpus() {
    for format in ioweir_lab::trace::FORMATS {
        assert!(drive_trace::FORMATS.contains(&format.name), "{}", format.name);
    }
}

/// Writes the seeds: `cargo test -p ioweir-lab --test trace -- --ignored seeds`.
#[test]
#[ignore = "writes into the repository"]
fn seeds_are_the_samples() {
    let folder = repository().join("fuzz/corpus/trace");
    std::fs::create_dir_all(&folder).unwrap();
    for (number, (name, bytes)) in samples().into_iter().enumerate() {
        let place = drive_trace::FORMATS.iter().position(|known| *known == name).unwrap();
        let seed = [&[u8::try_from(place).unwrap()], &bytes[..]].concat();
        std::fs::write(folder.join(format!("{name}-{number}")), seed).unwrap();
    }
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, HADOOP.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    std::fs::write(folder.join("any-gzip"), [&[0_u8][..], &gzip].concat()).unwrap();
    let zstd = zstd::stream::encode_all(MSR.as_bytes(), 1).unwrap();
    std::fs::write(folder.join("any-zstd"), [&[0_u8][..], &zstd].concat()).unwrap();
}
