//! Tests of specs: each kind reads back as it is written, and other texts are refused.

#[path = "../../../../fuzz/drive_specs.rs"]
mod drive_specs;

/// The fuzzer's corpus, replayed on stable, as it is and damaged as a fuzzer would.
#[test]
fn corpus_specs_read_back() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/specs");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut kinds = std::collections::BTreeSet::new();
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        kinds.insert(bytes[0]);
        assert!(drive_specs::drive(&bytes), "{}", file.display());
        let mut random = ioweir_device::random::Random::new(23);
        for _ in 0..100 {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(4) {
                let place = 1 + random.below(damaged.len() as u64 - 1) as usize;
                damaged[place] = random.below(128) as u8;
            }
            drive_specs::drive(&damaged);
        }
    }
    assert_eq!(kinds.len(), drive_specs::READERS.len(), "there is one of each kind");
}
