//! Tests of policies: errors have their place, and no policy or load breaks the planner.

#![allow(clippy::print_stdout, reason = "a test says what it skips")]

#[path = "../../../../fuzz/drive_policy.rs"]
mod drive_policy;

use std::path::{Path, PathBuf};

use ioweir_background::plan::Policy;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = std::fs::read_dir(repository().join("fuzz/corpus/policy")).expect("the corpus is there");
    let mut files: Vec<_> = folder.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}

#[test]
fn nothing_in_the_corpus_breaks_the_planner() {
    let corpus = corpus();
    assert!(corpus.len() >= 8);
    for (path, bytes) in corpus {
        println!("{}", path.display());
        drive_policy::drive(&bytes);
    }
}

/// The first inputs of a fuzzer, on every run: other digits, other loads.
#[test]
fn damaged_policies_and_loads_never_panic() {
    let mut random = Pcg64::seed_from_u64(6);
    let mut below = |limit: usize| usize::try_from(random.next_u64() % limit as u64).expect("small");
    for (_, bytes) in corpus() {
        for _ in 0..60 {
            let mut seed = bytes.clone();
            let digits: Vec<usize> = (0..seed.len()).filter(|at| seed[*at].is_ascii_digit()).collect();
            for _ in 0..=below(4) {
                if let Some(place) = (!digits.is_empty()).then(|| digits[below(digits.len())]) {
                    seed[place] = b'0' + u8::try_from(below(10)).expect("a digit");
                }
                let place = below(seed.len());
                if !seed[place].is_ascii() {
                    seed[place] = u8::try_from(below(256)).expect("a byte");
                }
            }
            drive_policy::drive(&seed);
        }
    }
}

const POLICY: &str = "[pool]\nsize = \"1TiB\"\n[cores]\ncount = 8\nforeground_iops = 100\nbackground_operations = 50\n";

fn told(text: &str) -> String {
    Policy::parse("p.toml", text).expect_err("it is wrong").to_string()
}

#[test]
fn policy_errors_have_their_place() {
    assert!(Policy::parse("p.toml", POLICY).is_ok());
    let with = |more: &str| told(&format!("{POLICY}{more}"));
    assert!(with("[service.scrubb]\n").starts_with("p.toml:7:"), "{}", with("[service.scrubb]\n"));
    assert!(with("[service.scrubb]\n").ends_with("hint: did you mean `scrub`?"));
    assert!(with("[service.rebuild]\n").contains("it owes nothing; expected `owed`"));
    assert!(
        with("[service.snapshot-delete]\ndeadline = \"1h\"\n")
            .starts_with("p.toml:8:12: service.snapshot-delete.deadline")
    );
    let zone = with("[forecast]\ntime_zone = \"Mars/Olympus\"\n");
    assert!(zone.starts_with("p.toml:8:13: forecast.time_zone: `Mars/Olympus` is no time zone"), "{zone}");
    let both = with("[forecast]\ntime_zone = \"Europe/Berlin\"\nutc_offset_hours = 1\n");
    assert!(both.contains("both an offset and a time zone are named"), "{both}");
    let never = with("[service.scrub]\nevery = \"0s\"\n");
    assert!(never.starts_with("p.toml:8:9: service.scrub.every: a period of no time"), "{never}");
    let often = with("[service.scrub]\nevery = \"5m\"\n");
    assert!(often.contains("service.scrub.every: shorter than a bin of 10m"), "{often}");
    let rate = with("[service.scrub]\nbytes_per_second_max = \"0/s\"\n");
    assert!(rate.starts_with("p.toml:8:24: service.scrub.bytes_per_second_max: a rate of nothing"), "{rate}");
    let full = told(&POLICY.replace("[cores]", "used = \"2TiB\"\n[cores]"));
    assert!(full.starts_with("p.toml:3:8: pool.used: 2TiB are more than the pool's 1TiB"), "{full}");
    assert!(with("[service.scrub]\nevery = \"7\"\n").contains("p.toml:8:9: duration `7` has no unit"));
    assert!(with("[forecast]\nbin = \"7m\"\n").starts_with("p.toml:8:7: forecast.bin: a bin is a whole part of a day"));
    assert!(with("[forecast]\nmethod = \"hedg\"\n").ends_with("hint: did you mean `hedge`?"));
    assert!(with("[forecast]\nquantile = nan\n").contains("forecast.quantile: NaN is out of range"));
    assert!(with("[load]\nunit = \"3\"\n").contains("load.unit: `3` is neither `requests` nor a size"));
    assert!(with("[load]\ncolour = \"red\"\n").contains("p.toml:8:1: unknown field `colour`"));
    assert!(told("[pool]\nsize = 7\n").starts_with("p.toml:2:8: "));
    assert!(told(&POLICY.replace("count = 8", "count = 0")).starts_with("p.toml:4:9: cores.count: 0 is out of range"));
}
