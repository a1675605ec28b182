//! Where sectors lie, and when they pass the head.

use std::collections::BTreeSet;

use ioweir_config::Duration;
use proptest::prelude::*;

use super::super::disk::geometry::{Motion, Skews, Travel, Zone};
use super::super::disk::seek::SeekTable;
use super::super::fit::UNKNOWN_DISK;
use super::*;

fn seek(cylinders: u32) -> SeekTable {
    let points = vec![(1, Duration::new(Nanos(1000))), (cylinders.max(2), Duration::new(Nanos(9000)))];
    match SeekTable::new(&SeekSpec::Table { points }, cylinders) {
        Ok(table) => table,
        Err(error) => panic!("{}", error.problem),
    }
}

fn small(zones: &[(u32, u32, u64)], surfaces: u32, layout: Layout) -> Geometry {
    let mut first = 0;
    let zones: Vec<Zone> = zones
        .iter()
        .map(|&(cylinders, sectors_per_track, spares)| {
            let held = u64::from(cylinders * surfaces * sectors_per_track);
            let skew = Skews { surface_nanos: 300, cylinder_nanos: 1200, turn_nanos: 2500 };
            let sectors = held.saturating_sub(spares).max(1);
            let zone = Zone { cylinder_first: first, cylinders, sectors_per_track, sectors, skew };
            first += cylinders;
            zone
        })
        .collect();
    let seek = seek(first);
    let motion = Motion { seek: &seek, head_switch_nanos: 200, revolution_nanos: 6000 };
    Geometry::new(&zones, surfaces, layout, &motion, zones.iter().map(|zone| zone.sectors).sum())
}

fn layouts() -> impl Strategy<Value = Layout> {
    prop_oneof![
        Just(Layout::Conventional),
        (1_u32..6).prop_map(|bundle_cylinders| Layout::Serpentine { bundle_cylinders }),
    ]
}

proptest! {
    #[test]
    fn every_sector_has_its_own_place(
        zones in prop::collection::vec((1_u32..14, 1_u32..8, 0_u64..9), 1..4),
        surfaces in 1_u32..5,
        layout in layouts(),
    ) {
        let geometry = small(&zones, surfaces, layout);
        let mut places = BTreeSet::new();
        for sector in 0..geometry.sectors() {
            let place = geometry.locate(sector);
            prop_assert!(place.cylinder < geometry.cylinders() && place.head < surfaces);
            prop_assert!(places.insert((place.cylinder, place.head, place.sector)), "{sector} {place:?}");
            prop_assert_eq!(geometry.sector_at(place.cylinder, place.head, place.sector), Some(sector));
        }
    }

    #[test]
    fn stream_and_travel_agree_with_a_walk(
        zones in prop::collection::vec((1_u32..14, 1_u32..8, 0_u64..9), 1..4),
        surfaces in 1_u32..5,
        layout in layouts(),
    ) {
        let geometry = small(&zones, surfaces, layout);
        let mut before = geometry.locate(0);
        let mut walked = Travel::default();
        for sector in 1..geometry.sectors() {
            let place = geometry.locate(sector);
            prop_assert!(place.stream_nanos() >= before.stream_end_nanos());
            if place.track() == before.track() {
                prop_assert_eq!(place.stream_nanos(), before.stream_end_nanos());
                prop_assert_eq!(Some(place), before.along_track(1));
            }
            prop_assert_eq!(geometry.sectors_until(place.stream_nanos()), sector);
            prop_assert_eq!(geometry.sectors_until(place.stream_end_nanos() - 1), sector);
            prop_assert_eq!(geometry.sectors_until(place.stream_end_nanos()), sector + 1);
            walked = walked.plus(Travel::step(u64::from(place.cylinder.abs_diff(before.cylinder))));
            prop_assert_eq!(geometry.travel(place.track()), walked);
            before = place;
        }
    }
}

#[test]
fn bundles_serpentine_over_four_surfaces() {
    let geometry = small(&[(260, 10, 0)], 4, Layout::Serpentine { bundle_cylinders: 65 });
    let track = |number: u64| {
        let place = geometry.locate(number * 10);
        (place.head, place.cylinder)
    };
    // From the published layout of the Cheetah 15K.5: eight runs of 65 tracks, then the next 130 cylinders.
    let begins: Vec<_> = (0..9).map(|run| track(run * 65)).collect();
    assert_eq!(begins, [(0, 0), (1, 64), (2, 0), (3, 64), (3, 65), (2, 129), (1, 65), (0, 129), (0, 130)]);
    assert_eq!((track(64), track(129), track(519)), ((0, 64), (1, 0), (0, 65)));
}

#[test]
fn switch_longer_than_skew_loses_a_revolution() {
    let seek = seek(10);
    let motion = Motion { seek: &seek, head_switch_nanos: 900, revolution_nanos: 6000 };
    let skew = Skews { surface_nanos: 300, cylinder_nanos: 1200, turn_nanos: 2500 };
    assert_eq!(motion.gap(0, true, &skew), 6300);
    assert_eq!(motion.gap(1, true, &skew), 1200);
    assert_eq!(motion.gap(0, false, &skew), 300);
}

#[test]
fn two_numbers_describe_all_zones() {
    let text = "[hdd]\ncapacity = \"1GB\"\nrevolutions_per_minute = 7200\nsurfaces = 2\ninterface_rate = \"100MB/s\"\n\
                head_switch = \"0.5ms\"\nsurface_skew = \"least\"\ncylinder_skew = \"least\"\n[hdd.zoning]\n\
                outer_sectors_per_track = 200\ninner = 0.5\nzones = 3\n\
                [hdd.seek.datasheet]\nsingle = \"1ms\"\naverage = \"8ms\"\nfull = \"18ms\"\n";
    let spec = DeviceSpec::parse("d", text).unwrap();
    let disk = spec.build(1).unwrap();
    // 1,953,125 sectors in three zones of 200, 150 and 100 sectors a track, two tracks a cylinder: 2,171 cylinders each.
    assert_eq!((disk.sectors(), disk.tracks()), (1_953_125, 6_513));
    assert_eq!(DeviceSpec::parse("d", &spec.to_toml()).unwrap().to_toml(), spec.to_toml());
    let DeviceSpec::Hdd(hdd) = &spec else { panic!("a disk") };
    let zones = hdd.with_zones().unwrap().zones;
    assert_eq!(zones.iter().map(|zone| zone.sectors_per_track).collect::<Vec<_>>(), [200, 150, 100]);
    for (old, new, problem) in [
        ("capacity = \"1GB\"\n", "", "hdd.zoning: has no capacity to fill"),
        ("surfaces = 2", "surfaces = 2\ncylinders = 5", "hdd.zoning: is given beside cylinders or zones"),
        ("zones = 3", "zones = 0", "hdd.zoning.zones: is 0"),
        ("sectors_per_track = 200", "sectors_per_track = 0", "hdd.zoning.outer_sectors_per_track: is 0"),
        ("1GB", "15EiB", "hdd.cylinders"),
    ] {
        let error = DeviceSpec::parse("d", &text.replace(old, new)).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn least_skew_loses_no_revolution() {
    let text = |skew: &str| {
        UNKNOWN_DISK.replace(
            "surface_skew = \"least\"\ncylinder_skew = \"least\"",
            &format!("surface_skew = \"{skew}\"\ncylinder_skew = \"{skew}\""),
        )
    };
    let long = |skew: &str| {
        let mut disk = DeviceSpec::parse("d", &text(skew)).unwrap().build(1).unwrap();
        disk.serve(Nanos::ZERO, &dispatch(Operation::Read, 0, 20_000)).transfer_nanos
    };
    // A hundred tracks of 8.3 ms; between two of them a head switch or a seek of 1 ms.
    assert!((930_000_000..960_000_000).contains(&long("least")), "{}", long("least"));
    assert!(long("0sectors") > 1_600_000_000, "without skew every track costs another revolution");
}
