//! Probes of emulated devices, whose truth is known, in virtual time.

use std::io::Write as _;

use super::*;
use crate::backend::Emulated;
use ioweir_core::Nanos;

const SPAN: Nanos = Nanos::from_millis(300_000);

fn probe(model: &str, size: Option<u64>, span: Nanos) -> (Probed, Facts) {
    let backend = Emulated::open(model, size, 0).expect("a model");
    let size = crate::backend::Backend::size_bytes(&backend);
    let mut ring = Ring::in_virtual_time(Box::new(backend));
    let probed = run(&mut ring, &mut Plan::new(size, 1), span, &mut |_| {}).expect("it answers");
    let facts = Facts::of(&probed);
    (probed, facts)
}

#[test]
fn the_revolution_and_the_tracks_of_a_disk_are_found_within_a_hundredth() {
    for (rpm, outer, inner) in [(7200, 1776, 0.6), (5400, 2400, 0.5), (15_000, 900, 0.7), (10_025, 700, 0.8)] {
        let mut file = tempfile::NamedTempFile::with_suffix(".toml").expect("a file");
        write!(
            file,
            "[hdd]\ncapacity = \"80GB\"\nrevolutions_per_minute = {rpm}\nsurfaces = 3\nsurface_skew = \"0.6ms\"\n\
             cylinder_skew = \"1ms\"\nhead_switch = \"0.5ms\"\ninterface_rate = \"300MB/s\"\n[hdd.zoning]\n\
             outer_sectors_per_track = {outer}\ninner = {inner}\n[hdd.cache]\nsegments = 8\nsegment_size = \"256KiB\"\n\
             write_segments = 1\nread_ahead = \"segment\"\n[hdd.seek.datasheet]\nsingle = \"0.8ms\"\naverage = \"8ms\"\n\
             full = \"16ms\"\n"
        )
        .expect("it is written");
        let (probed, facts) = probe(&file.path().display().to_string(), None, SPAN);
        let within = |value: f64, truth: f64| (value / truth - 1.0).abs() < 0.01;
        let found = facts.revolutions_per_minute().expect("a revolution");
        assert!(within(found, f64::from(rpm)), "{found} instead of {rpm}");
        let tracks: Vec<f64> = facts.places.iter().filter_map(|place| place.sectors_per_track).collect();
        assert_eq!(tracks.len(), 16);
        assert!(within(tracks[0], f64::from(outer)), "{tracks:?} instead of {outer}");
        assert!(within(tracks[15], f64::from(outer) * inner), "{tracks:?} instead of {outer} * {inner}");
        assert!(probed.cut.is_empty() && probed.failed == 0, "{:?}", probed.cut);
    }
}

#[test]
fn flash_gets_no_probes_of_disks() {
    let (probed, facts) = probe("ssd-970pro", None, SPAN);
    assert!(!facts.rotates && facts.revolution_nanos.is_none());
    assert!(probed.answers.iter().all(|answers| answers.name != "seeks"));
    assert_eq!(facts.places.len(), 16);
}

#[test]
fn a_plan_stays_within_its_time_and_its_requests() {
    let span = Nanos::from_millis(10_000);
    let (probed, _) = probe("hdd", None, span);
    assert!(probed.took < Nanos::from_millis(10_200), "{:?}", probed.took);
    assert!(!probed.cut.is_empty() && !probed.to(HELD_OUT).is_empty(), "{:?}", probed.cut);
    let (requests, bytes) = Plan::new(1 << 40, 1).most();
    assert!(requests < 10_000 && bytes < 1 << 30, "{requests} {bytes}");
    let (whole, _) = probe("hdd", Some(BYTES_MIN), SPAN);
    assert_eq!(whole.failed, 0, "nothing is read past the end of the smallest device");
}
