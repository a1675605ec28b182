//! Probes of emulated devices, whose truth is known, in virtual time.

use std::io::Write as _;

use super::*;
use ioweir_block::backend::Faults;
use ioweir_block::backend::{Emulated, Faulty, Media};
use ioweir_config::Size;
use ioweir_core::Nanos;
use ioweir_device::DeviceSpec;

const SPAN: Nanos = Nanos::from_millis(300_000);

fn probe(model: &str, size: Option<u64>, span: Nanos) -> (Probed, Facts) {
    let backend = Emulated::open(model, size, 0).expect("a model");
    let size = ioweir_block::backend::Backend::size_bytes(&backend);
    let mut ring = Ring::in_virtual_time(Box::new(backend));
    let probed = run(&mut ring, &mut Plan::new(size, 1), span, &mut |_, _| {}).expect("it answers");
    let facts = Facts::of(&probed);
    (probed, facts)
}

/// A buffer of eight segments of 256 KiB, filled after every read.
const BUFFER: &str = "segments = 8\nsegment_size = \"256KiB\"\nread_ahead = \"segment\"";

/// Probes a disk whose heads change in half a millisecond.
fn probe_disk(rpm: &str, zoning: &str, overhead: u32, surfaces: u32, single: &str) -> (Probed, Facts) {
    probe_buffered(rpm, zoning, overhead, &format!("surfaces = {surfaces}"), single, BUFFER)
}

fn probe_buffered(
    rpm: &str,
    zoning: &str,
    overhead: u32,
    surfaces: &str,
    single: &str,
    buffer: &str,
) -> (Probed, Facts) {
    let mut file = tempfile::NamedTempFile::with_suffix(".toml").expect("a file");
    write!(
        file,
        "[hdd]\ncapacity = \"80GB\"\nrevolutions_per_minute = {rpm}\n{surfaces}\nsurface_skew = \"0.6ms\"\n\
         cylinder_skew = \"1ms\"\nhead_switch = \"0.5ms\"\ninterface_rate = \"300MB/s\"\n[hdd.zoning]\n\
         outer_sectors_per_track = {zoning}\n[hdd.overhead]\nread_after_read = \"{overhead}us\"\n[hdd.cache]\n\
         {buffer}\nwrite_segments = 1\n[hdd.seek.datasheet]\nsingle = \"{single}\"\naverage = \"8ms\"\nfull = \"16ms\"\n"
    )
    .expect("it is written");
    probe(&file.path().display().to_string(), None, SPAN)
}

/// The buffer that probes find.
fn buffer(buffer: &str) -> Buffer {
    let (_, facts) = probe_buffered("7200", "1776\ninner = 0.6", 120, "surfaces = 3", "0.8ms", buffer);
    facts.buffer.expect("a buffer")
}

#[test]
fn buffer_segments_and_filling_are_found() {
    for (segments, begins, kib, keeps) in
        [(1, 0, 64, false), (2, 3, 131, true), (7, 1, 2048, false), (16, 2, 512, true), (33, 0, 200, false)]
    {
        let found = buffer(&format!(
            "segments = {segments}\nsegment_size = \"{kib}KiB\"\nread_ahead = \"segment\"\n\
             read_ahead_begins_after = {begins}\nkeep_requested = {keeps}"
        ));
        assert_eq!(found.begins_after, Some((begins, begins)));
        assert_eq!((found.segments, found.keeps), (Some(segments), keeps));
        let Ahead { until, segment: (low, high) } = found.ahead.expect("it ends");
        assert_eq!(until, "segment", "{found:?}");
        assert!((low..=high).contains(&(kib << 10)) && (high - low < 4096 || kib == 2048), "{found:?} of {kib} KiB");
    }
    let most = buffer("segments = 300\nsegment_size = \"256KiB\"\nread_ahead = \"segment\"");
    assert_eq!(most.segments, Some(64), "more are not counted");
}

#[test]
fn what_ends_a_read_ahead_is_found() {
    // A track has 888 KiB.
    for (until, kib, is_full) in [("track", 2048, false), ("next_track", 2048, false), ("track", 512, true)] {
        let found = buffer(&format!("segments = 4\nsegment_size = \"{kib}KiB\"\nread_ahead = \"{until}\""));
        let Ahead { until: found, segment: (low, high) } = found.ahead.expect("it ends");
        assert_eq!(found, until);
        assert!((low..=high).contains(&(kib << 10)) && (high < u64::MAX) == is_full, "{until}: {low} to {high}");
    }
    let none = buffer("segments = 4\nsegment_size = \"256KiB\"\nread_ahead = \"none\"");
    assert_eq!((none.begins_after, none.segments, none.ahead), (None, None, None));
    assert_eq!(none.of_disk()[0].1, ioweir_device::parameter::Amount::Word("none".into()));
}

#[test]
fn the_segments_of_presets_are_found() {
    for (preset, segments) in [("barracuda", 3), ("cheetah-9lp", 3), ("hp-c3323a", 2), ("hdd", 1)] {
        let (_, facts) = probe(preset, None, SPAN);
        let found = facts.buffer.expect("a buffer");
        assert_eq!((found.begins_after, found.segments), (Some((0, 0)), Some(segments)), "{preset}: {found:?}");
    }
    let (_, facts) = probe("atlas-10k", None, SPAN);
    assert_eq!(facts.buffer, None, "it reads what lies before a read, too, so that its revolution does not show");
}

#[test]
fn reads_two_at_once_tell_arms_apart() {
    let stripe = "[array]\nmembers = 4\nmember = \"barracuda\"\nlayout = \"stripe\"\nchunk = \"64KiB\"\n";
    let mirror = "[array]\nmembers = 2\nmember = \"hdd\"\nlayout = \"mirror\"\n";
    let queued = DeviceSpec::load("hdd").expect("a preset").to_toml().replace("\"fifo\"", "\"sptf\"");
    assert!(queued.contains("\"sptf\""), "{queued}");
    for (device, has_several) in [(queued.as_str(), false), (stripe, true), (mirror, true)] {
        let mut file = tempfile::NamedTempFile::with_suffix(".toml").expect("a file");
        file.write_all(device.as_bytes()).expect("it is written");
        let (_, facts) = probe(&file.path().display().to_string(), None, SPAN);
        let pairs = facts.pairs().expect("both depths were measured");
        assert_eq!(pairs.is_beside(), has_several, "{device}: {pairs:?}");
    }
}

#[test]
fn large_buffer_does_not_answer_for_arm() {
    let accesses = |segments: u32| {
        let buffer = format!("segments = {segments}\nsegment_size = \"4MiB\"\nread_ahead = \"segment\"");
        let (probed, facts) = probe_buffered("7200", "1776\ninner = 0.6", 120, "surfaces = 3", "0.8ms", &buffer);
        probed.groups(&facts).accesses.into_iter().flatten().collect::<Vec<f64>>()
    };
    let (few, many) = (accesses(2), accesses(64));
    assert_eq!(few.len(), many.len());
    let off = few.iter().zip(&many).map(|(few, many)| (few / many - 1.0).abs());
    assert!(off.fold(0.0, f64::max) < 0.01, "{few:?} {many:?}");
}

#[test]
fn two_to_sixteen_surfaces_are_found() {
    for (surfaces, single) in [(2, "0.8ms"), (5, "0.53ms"), (8, "1.2ms"), (16, "0.7ms")] {
        let (_, facts) = probe_disk("7200", "1776\ninner = 0.6", 120, surfaces, single);
        assert_eq!(facts.surfaces, Some(surfaces.into()), "a cylinder in {single}");
    }
    for (surfaces, single) in [(1, "0.8ms"), (17, "0.8ms")] {
        let (_, facts) = probe_disk("7200", "1776\ninner = 0.6", 120, surfaces, single);
        assert_eq!(facts.surfaces, None, "{surfaces} surfaces, a cylinder in {single}");
    }
}

#[test]
fn serpentine_tracks_show_no_surfaces() {
    // Nearly all neighbouring tracks are on one surface, a cylinder apart.
    let zoning = "1776\ninner = 0.6\n[hdd.layout.serpentine]\nbundle_cylinders = 200";
    let (_, facts) = probe_disk("7200", zoning, 120, 4, "0.8ms");
    assert_eq!(facts.surfaces, None);
    assert!(facts.command_nanos.is_some() && facts.skew_nanos.is_some(), "all else is found");
}

#[test]
fn revolution_tracks_and_command_are_found() {
    for (rpm, outer, inner, overhead) in
        [(7200, 1776, 0.6, 120), (5400, 2400, 0.5, 300), (15_000, 900, 0.7, 50), (10_025, 701, 0.8, 700)]
    {
        let (probed, facts) = probe_disk(&format!("{rpm}"), &format!("{outer}\ninner = {inner}"), overhead, 3, "0.8ms");
        let within = |value: f64, truth: f64| (value / truth - 1.0).abs() < 0.01;
        let found = facts.revolutions_per_minute().expect("a revolution");
        assert!(within(found, f64::from(rpm)), "{found} instead of {rpm}");
        let tracks: Vec<f64> = facts.places.iter().filter_map(|place| place.sectors_per_track).collect();
        assert_eq!(tracks.len(), 64);
        assert!(within(tracks[0], f64::from(outer)), "{tracks:?} instead of {outer}");
        assert!(within(tracks[63], f64::from(outer) * inner), "{tracks:?} instead of {outer} * {inner}");
        assert!(probed.cut.is_empty() && probed.failed == 0, "{:?}", probed.cut);
        let command = facts.command_nanos.expect("the threshold of a command");
        let sector_nanos = 60e9 / f64::from(rpm) / f64::from(outer);
        assert!((command - f64::from(overhead) * 1e3).abs() < sector_nanos, "{command} instead of {overhead} us");
        assert_eq!(facts.surfaces, Some(3));
        assert_eq!(facts.zones.map(|zones| zones.count), Some(16), "{:?}", facts.zones);
    }
}

#[test]
fn flash_gets_no_probes_of_disks() {
    let (probed, facts) = probe("ssd-970pro", None, SPAN);
    assert!(!facts.rotates && facts.revolution_nanos.is_none());
    assert!(probed.answers.iter().all(|answers| answers.name != "seeks"));
    assert_eq!(facts.places.len(), 16);
}

/// A flash drive that sleeps after one time, and takes another one to wake up.
fn sleeping(idle: &str, takes: &str) -> Facts {
    let mut file = tempfile::NamedTempFile::with_suffix(".toml").expect("a file");
    let drive = ioweir_device::DeviceSpec::load("ssd-970pro").expect("a preset").to_toml();
    write!(file, "{drive}\n[ssd.wake]\nidle = \"{idle}\"\ntakes = \"{takes}\"\n").expect("it is written");
    probe(&file.path().display().to_string(), None, SPAN).1
}

#[test]
fn sleeping_drive_is_found_by_rests() {
    for (idle, takes) in [(3.0, 400.0), (50.0, 900.0), (700.0, 2_500.0)] {
        let facts = sleeping(&format!("{idle}ms"), &format!("{takes}us"));
        let wake = facts.wake.expect("it wakes up");
        assert!((wake.idle_nanos / 1e6 / idle - 1.0).abs() < 0.01, "{wake:?} instead of {idle} ms");
        assert!((wake.takes_nanos / 1e3 / takes - 1.0).abs() < 0.05, "{wake:?} instead of {takes} us");
        assert_eq!(facts.of_flash(true).len(), 2);
    }
    let (_, facts) = probe("ssd-970pro", None, SPAN);
    assert_eq!(facts.wake.map(|wake| wake.takes_nanos), Some(0.0), "it does not sleep");
    let longer = sleeping("4s", "1ms");
    assert_eq!(longer.wake.map(|wake| wake.takes_nanos), Some(0.0), "nobody waits for that");
    let (_, disk) = probe("hdd", None, SPAN);
    assert_eq!(disk.wake, None, "a disk is not asked");
}

/// A flash drive whose pieces, pages, dies and channels are these.
fn striped(
    page: u64,
    planes: u64,
    channels: u64,
    dies_per_channel: u64,
    more: &str,
) -> Option<(Layout, Vec<Completed>)> {
    let mut file = tempfile::NamedTempFile::with_suffix(".toml").expect("a file");
    write!(
        file,
        "[ssd]\ncapacity = \"64GB\"\nover_provisioning_per_mille = 70\nchannels = {channels}\n\
         dies_per_channel = {dies_per_channel}\nplanes_per_die = {planes}\npage = \"{page}KiB\"\npages_per_block = 64\n\
         read = \"50us\"\nprogram = \"500us\"\nerase = \"1ms\"\nchannel_rate = \"600MB/s\"\n\
         interface_rate = \"3GB/s\"\nwrite_buffer = \"4MiB\"\n{more}\n[ssd.overhead]\nread = \"30us\"\n"
    )
    .expect("it is written");
    let (probed, facts) = probe(&file.path().display().to_string(), None, SPAN);
    Some((facts.layout?.0, probed.to("8 at once on one die").to_vec()))
}

#[test]
fn strides_of_dies_and_channels_are_found() {
    for (page, planes, channels, dies_per_channel) in
        [(16, 1, 8, 2), (4, 1, 4, 4), (16, 2, 5, 3), (8, 3, 11, 1), (32, 4, 12, 4), (4, 4, 2, 8), (64, 1, 16, 8)]
    {
        let (layout, one_die) = striped(page, planes, channels, dies_per_channel, "").expect("a layout");
        let dies = channels * dies_per_channel;
        let truth = Layout { piece_bytes: (page * planes) << 10, page_bytes: page << 10, dies, channels };
        assert_eq!(layout, truth);
        // One sense after the other, however many dies there are.
        let (first, last) = (&one_die[0], &one_die[one_die.len() - 1]);
        let each = last.completed.since(first.submitted).0 as f64 / one_die.len() as f64;
        assert!((each / 50e3 - 1.0).abs() < 0.05, "{each}");
    }
    for more in ["read_spread = \"8us\"", "serial = { read = \"20us\" }"] {
        let (layout, _) = striped(16, 2, 6, 4, more).expect("a layout");
        assert_eq!((layout.piece_bytes, layout.page_bytes, layout.dies, layout.channels), (32 << 10, 16 << 10, 24, 6));
    }
    let fresh = striped(16, 2, 6, 4, "state = \"fresh\"");
    assert_eq!(fresh, None, "what was never written lies on no die");
    assert_eq!(striped(16, 2, 6, 4, "state = \"steady\""), None, "what was written at random has no stride");
    assert_eq!(striped(16, 1, 1, 1, ""), None, "all of one die waits");
}

#[test]
fn plan_stays_within_time_and_requests() {
    let span = Nanos::from_millis(10_000);
    let (probed, _) = probe("hdd", None, span);
    assert!(probed.took < Nanos::from_millis(10_200), "{:?}", probed.took);
    assert!(!probed.cut.is_empty() && !probed.to(HELD_OUT).is_empty(), "{:?}", probed.cut);
    let (requests, bytes) = Plan::new(1 << 40, 1).most();
    assert!(requests < 15_000 && bytes < 1 << 30, "{requests} {bytes}");
    let (whole, _) = probe("hdd", Some(BYTES_MIN), SPAN);
    assert_eq!(whole.failed, 0, "nothing is read past the end of the smallest device");
}

/// Probes a device in memory that does what `faults` say.
fn probe_faulty(faults: Faults) -> Result<(Probed, Facts), Halt> {
    let mut ring = Ring::in_virtual_time(Box::new(Faulty::new(Media::new(BYTES_MIN), faults)));
    let probed = run(&mut ring, &mut Plan::new(BYTES_MIN, 1), SPAN, &mut |_, _| {})?;
    let facts = Facts::of(&probed);
    Ok((probed, facts))
}

#[test]
fn device_failing_reads_is_probed_by_others() {
    let some = Faults { errors_per_million: 100_000, seed: 7, ..Faults::default() };
    let (probed, _) = probe_faulty(some).expect("it goes on");
    let answered: usize = probed.answers.iter().map(|answers| answers.reads.len()).sum();
    assert!(probed.failed > 0 && answered as u64 > probed.failed, "{} of {answered}", probed.failed);
    assert_eq!(probed.groups(&Facts::of(&probed)).of.len(), probed.measured().0.len());
    let (probed, facts) = probe_faulty(Faults { errors_per_million: 1_000_000, ..some }).expect("it goes on");
    assert_eq!((probed.measured(), facts), ((Vec::new(), Vec::new()), Facts::default()));
}

#[test]
fn unreadable_place_is_skipped_by_probes() {
    let bad = Faults { bad_from: Size(0), bad_length: Size(1 << 20), ..Faults::default() };
    let (probed, _) = probe_faulty(bad).expect("it goes on");
    let answered: Vec<&Completed> = probed.answers.iter().flat_map(|answers| &answers.reads).collect();
    assert!(probed.failed > 0 && answered.iter().all(|read| read.offset >= 1 << 20), "{}", probed.failed);
    let (whole, _) = probe_faulty(Faults::default()).expect("it answers");
    let all = whole.answers.iter().flat_map(|answers| &answers.reads);
    let elsewhere = all.filter(|read| read.offset >= 1 << 20).count();
    assert_eq!(answered.len(), elsewhere, "no other read has failed");
}

#[test]
fn claimed_rotation_is_checked_by_answers() {
    for (model, rotates) in [("hdd", true), ("ssd-970pro", false)] {
        let (_, facts) = probe(model, None, SPAN);
        assert_eq!(facts.contradiction(Some(rotates)), None, "{model}");
        assert_eq!(facts.contradiction(None), None, "{model}: it says nothing");
        assert!(facts.contradiction(Some(!rotates)).is_some_and(|words| words.contains("rotate")), "{model}");
    }
}

#[test]
fn stall_is_slow_endless_is_an_error() {
    let stall = |stall: &str| Faults {
        stalls_per_million: 500,
        stall: stall.parse().expect("a time"),
        seed: 7,
        ..Faults::default()
    };
    let (probed, _) = probe_faulty(stall("5s")).expect("it answers in the end");
    let slow =
        probed.answers.iter().flat_map(|answers| &answers.reads).filter(|read| read.latency().0 >= 5_000_000_000);
    assert!(slow.count() > 0 && probed.cut.is_empty());
    assert!(matches!(probe_faulty(stall("100s")), Err(Halt::Stalled { .. })));
}

#[test]
fn slow_device_without_rotation_is_recognized() {
    let slow = Faults { stalls_per_million: 1_000_000, stall: "2ms".parse().expect("a time"), ..Faults::default() };
    let (_, facts) = probe_faulty(slow).expect("it answers");
    assert!(facts.rotates && facts.revolution_nanos.is_none(), "{facts:?}");
    assert!(facts.of_disk(false).is_empty());
    assert!(facts.in_words()[0].1.contains("does not wait for a place"), "{:?}", facts.in_words());
}

#[test]
fn sequential_reads_and_seeks_are_own_groups() {
    let (probed, facts) = probe("hdd", None, SPAN);
    let (requests, groups) = (probed.measured().0, probed.groups(&facts));
    assert_eq!(requests.len(), groups.of.len());
    let of = |name: &str| {
        let begin: usize =
            probed.answers.iter().take_while(|answers| answers.name != name).map(|answers| answers.reads.len()).sum();
        let its: std::collections::BTreeSet<usize> =
            groups.of[begin..begin + probed.to(name).len()].iter().copied().collect();
        its.len()
    };
    // Each distance that is clear, and the first reads of all pairs; each place, and the first reads of all.
    let distances = groups.accesses.iter().flatten().count();
    assert!(distances >= 16, "{distances} of 17");
    assert_eq!([plan::SEQUENTIAL, seeks::SEEKS, plan::RANDOM, "4 KiB to 1 MiB"].map(of), [65, distances + 1, 1, 9]);
}
