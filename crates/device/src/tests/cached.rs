//! Tests of a drive's own buffer. The disk is small enough to follow by hand: one surface, 100 sectors of 0.1 ms on a track, 2 ms from a
//! track to the next, 1 ms to seek there, no overhead, and 5.12 us for each sector at the interface.

use ioweir_config::{Duration, Ratio, Size};
use proptest::prelude::*;

use super::*;

const SECTOR: u64 = 100_000;
const REVOLUTION: u64 = 10_000_000;

/// The example disk with a buffer of two segments of 64 sectors, as changed by `change`.
fn cached(change: impl FnOnce(&mut CacheSpec)) -> Box<dyn Device> {
    let Ok(DeviceSpec::Hdd(mut spec)) = DeviceSpec::load("tiny") else { panic!("a disk") };
    let text = "segments = 2\nsegment_size = \"32KiB\"\nread_ahead = \"segment\"\nwrite = \"all\"\nwrite_segments = 1\n\
                read_written = true\nhit_overhead = { read_after_read = \"50us\", write_after_read = \"50us\" }";
    let mut cache: CacheSpec = toml::from_str(text).expect("a buffer");
    change(&mut cache);
    spec.cache = Some(cache);
    DeviceSpec::Hdd(spec).build(3).expect("a disk")
}

struct Drive(Box<dyn Device>, Nanos);

impl Drive {
    fn new(change: impl FnOnce(&mut CacheSpec)) -> Self {
        Self(cached(change), Nanos::ZERO)
    }

    fn serve(&mut self, operation: Operation, sector: u64, sectors: u32) -> Service {
        let service = self.0.serve(self.1, &dispatch(operation, sector, sectors));
        self.1 = service.finish;
        service
    }

    fn read(&mut self, sector: u64, sectors: u32) -> Service {
        self.serve(Operation::Read, sector, sectors)
    }

    fn write(&mut self, sector: u64, sectors: u32) -> Service {
        self.serve(Operation::Write, sector, sectors)
    }

    fn think(&mut self, nanos: u64) {
        self.1 = self.1.after(Nanos(nanos));
    }
}

fn total(service: &Service) -> u64 {
    service.overhead_nanos + service.queue_nanos + service.seek_nanos + service.rotation_nanos + service.transfer_nanos
}

/// Whether it was answered without the head, by the command and the interface.
fn is_hit(service: &Service, sectors: u64) -> bool {
    service.queue_nanos + service.seek_nanos == 0
        && service.rotation_nanos == 0
        && service.transfer_nanos == 5_120 * sectors
}

#[test]
fn what_was_read_ahead_costs_command_and_interface() {
    let mut drive = Drive::new(|_| {});
    let miss = drive.read(0, 8);
    assert_eq!(miss.transfer_nanos, 8 * SECTOR + 5_120, "the last sector passes the interface after the others");
    drive.think(REVOLUTION);
    let next = drive.read(8, 8);
    assert_eq!((next.overhead_nanos, next.transfer_nanos), (50_000, 8 * 5_120));
    assert!(is_hit(&drive.read(20, 32), 32), "as far as the segment goes");
    assert!(drive.read(4, 8).seek_nanos + drive.read(4, 8).rotation_nanos == 0, "kept from a new reading");
}

#[test]
fn head_reads_on_until_a_command_comes() {
    let mut drive = Drive::new(|_| {});
    drive.read(0, 8);
    drive.think(10 * SECTOR);
    drive.read(5000, 8);
    assert!(is_hit(&drive.read(8, 10), 10), "ten sectors have passed");
    assert!(!is_hit(&drive.read(8, 12), 12), "two more had not");
}

#[test]
fn read_within_read_ahead_waits_for_rest() {
    let mut drive = Drive::new(|_| {});
    drive.read(0, 8);
    drive.think(5 * SECTOR);
    let along = drive.read(8, 32);
    // 5.12 us of interface time have passed since the eighth sector.
    assert_eq!(total(&along), 27 * SECTOR - 5_120 + 5_120);
    assert_eq!(along.rotation_nanos, 0);
}

#[test]
fn partial_hit_does_not_spare_the_way() {
    let mut drive = Drive::new(|cache| cache.read_ahead = ReadAhead::None);
    drive.read(0, 8);
    drive.think(3 * SECTOR);
    let partial = drive.read(4, 8);
    // The head is three and a bit sectors beyond the eighth: it takes nearly a revolution to come round, then four sectors.
    assert_eq!(partial.rotation_nanos, REVOLUTION - 3 * SECTOR - 5_120);
    assert_eq!(partial.transfer_nanos, 4 * SECTOR + 5_120);
}

#[test]
fn read_ahead_ends_where_it_is_told_to() {
    let reach = |change: fn(&mut CacheSpec)| {
        let mut drive = Drive::new(change);
        drive.read(50, 2);
        drive.think(10 * REVOLUTION);
        // Reads one sector after another, as long as they are in the buffer.
        (52..300).take_while(|&sector| is_hit(&drive.read(sector, 1), 1)).last().map_or(52, |last| last + 1)
    };
    assert_eq!(reach(|cache| cache.read_ahead = ReadAhead::None), 52);
    assert_eq!(reach(|cache| cache.read_ahead = ReadAhead::Track), 100);
    assert_eq!(reach(|cache| cache.read_ahead = ReadAhead::Segment), 116);
    assert_eq!(reach(|cache| cache.keep_requested = true), 114);
    assert_eq!(reach(|cache| cache.read_ahead_most = Some(Size(512 * 5))), 57);
    let large = |cache: &mut CacheSpec| cache.segment_size = Size(512 * 500);
    let next_track = |cache: &mut CacheSpec| {
        cache.segment_size = Size(512 * 500);
        cache.read_ahead = ReadAhead::NextTrack;
    };
    assert_eq!((reach(large), reach(next_track)), (300, 200));
}

#[test]
fn fourth_scheme_reads_to_the_tracks_end() {
    let reach = |sector: u64, sectors: u32| {
        let mut drive = Drive::new(|cache| {
            cache.segment_size = Size(512 * 500);
            cache.read_ahead = ReadAhead::TrackOrNext;
        });
        drive.read(sector, sectors);
        drive.think(10 * REVOLUTION);
        let next = sector + u64::from(sectors);
        (next..400).take_while(|&sector| is_hit(&drive.read(sector, 1), 1)).last().map_or(next, |last| last + 1)
    };
    assert_eq!((reach(50, 2), reach(98, 4), reach(0, 100)), (100, 300, 300));
}

#[test]
fn read_crosses_the_interface_from_its_mark() {
    let transfer = |mark: f64| {
        let mark = Ratio::new(mark).expect("a share");
        Drive::new(|cache| cache.read_water_mark = mark).read(0, 8).transfer_nanos
    };
    let as_it_arrives = 8 * SECTOR + 5_120;
    // The interface is faster than the head: only the last sectors are late for it.
    assert_eq!([0.0, 0.5].map(transfer), [as_it_arrives; 2]);
    assert_eq!(transfer(0.98), 784_000 + 8 * 5_120);
    assert_eq!(transfer(1.0), Drive::new(|cache| cache.store_and_forward = true).read(0, 8).transfer_nanos);
}

#[test]
fn full_buffer_resumes_at_its_water_mark() {
    let waits = |mark: f64| {
        let mark = Ratio::new(mark).expect("a share");
        let mut drive = Drive::new(|cache| cache.write_water_mark = mark);
        let waits = (0..400).filter(|number| drive.write(number * 8, 8).queue_nanos > SECTOR).count();
        (waits, drive.1)
    };
    let [(each, one), (half, other), (rarely, _)] = [1.0, 0.5, 0.0].map(waits);
    assert!(each > 300 && half < each / 3 && rarely < half, "{each}, {half}, {rarely}");
    assert!(one.0.abs_diff(other.0) < 2 * REVOLUTION, "the head sets the pace of both: {one:?}, {other:?}");
}

#[test]
fn idle_head_reads_on_behind_a_hit() {
    for (after_hit, is_there) in [(true, true), (false, false)] {
        let mut drive = Drive::new(|cache| {
            cache.read_ahead_after_hit = after_hit;
            cache.read_ahead_most = Some(Size(512 * 16));
        });
        drive.read(0, 8);
        drive.think(2 * REVOLUTION);
        assert!(is_hit(&drive.read(16, 8), 8));
        drive.think(3 * REVOLUTION);
        assert_eq!(is_hit(&drive.read(24, 8), 8), is_there);
    }
}

#[test]
fn least_read_ahead_happens_whoever_waits() {
    let mut drive = Drive::new(|cache| cache.read_ahead_least = Size(512 * 16));
    drive.read(0, 8);
    let far = drive.read(5000, 8);
    assert!(far.queue_nanos > 15 * SECTOR, "{far:?}");
    assert!(is_hit(&drive.read(8, 16), 16));
}

#[test]
fn sectors_passing_first_are_kept_if_told() {
    for (before, is_there) in [(true, true), (false, false)] {
        let mut drive = Drive::new(|cache| {
            cache.read_before = before;
            cache.keep_requested = true;
        });
        let miss = drive.read(60, 4);
        let passed = (miss.rotation_nanos / SECTOR).min(60);
        assert!(passed > 2, "the seed leaves some: {passed}");
        drive.think(1);
        assert_eq!(is_hit(&drive.read(60 - passed, 2), 2), is_there);
    }
}

#[test]
fn head_within_the_extent_begins_there() {
    for (zero_latency, most) in [(true, REVOLUTION), (false, 2 * REVOLUTION)] {
        let mut drive = Drive::new(|cache| {
            cache.zero_latency_reads = zero_latency;
            cache.zero_latency_writes = zero_latency;
            cache.write = WriteCache::None;
            cache.segment_size = Size(512 * 100);
            cache.read_ahead = ReadAhead::None;
        });
        let mut longest = 0;
        for step in 0..40 {
            drive.think(step * 333_333);
            let service = if step % 2 == 0 { drive.read(5_000, 90) } else { drive.write(1_000, 90) };
            longest = longest.max(service.rotation_nanos + service.transfer_nanos);
        }
        assert!(longest <= most + 5_120 && longest > most - REVOLUTION / 4, "{longest}");
    }
}

#[test]
fn buffered_write_completes_before_the_head_moves() {
    let mut drive = Drive::new(|_| {});
    let write = drive.write(5_000, 8);
    assert_eq!(total(&write), 50_000 + 8 * 5_120);
    let read = drive.read(100, 8);
    // Seek, wait and transfer of the write, less the time that has passed, then the way back.
    assert!(read.queue_nanos > 5_000_000, "{read:?}");
    assert!(is_hit(&drive.read(5_000, 8), 8), "written data answers reads");
    let mut idle = Drive::new(|cache| cache.read_written = false);
    idle.write(5_000, 8);
    idle.think(5 * REVOLUTION);
    assert!(!is_hit(&idle.read(5_000, 8), 8), "where it is told to");
}

#[test]
fn writes_wait_where_all_segments_are_unwritten() {
    let elapsed = |segments: u32| {
        let mut drive = Drive::new(|cache| {
            cache.segments = 4;
            cache.write_segments = segments;
        });
        for number in 0..3 {
            drive.write(3_000 * number, 8);
        }
        drive.1.0
    };
    assert!(elapsed(3) < 300_000, "all three find room: {}", elapsed(3));
    assert!(elapsed(1) > 5_000_000, "two wait for the platters: {}", elapsed(1));
}

#[test]
fn only_contiguous_writes_stream_on() {
    let mut drive = Drive::new(|cache| cache.write = WriteCache::Contiguous);
    assert!(drive.write(0, 8).transfer_nanos >= 8 * SECTOR);
    assert!(drive.write(8, 8).rotation_nanos > 0, "the head was done with the first");
    let mut all = Drive::new(|cache| cache.segment_size = Size(512 * 200));
    let mut before = 0;
    for number in 0..20 {
        before = all.1.0;
        all.write(number * 8, 8);
    }
    assert!(all.1.0 - before < SECTOR, "the buffer takes what the head has yet to write");
    let flush = all.serve(Operation::Flush, 0, 0);
    let elapsed = flush.finish.0;
    assert!(elapsed > 160 * SECTOR && elapsed < 160 * SECTOR + 3 * REVOLUTION, "no revolution is lost: {elapsed}");
}

#[test]
fn sequential_writer_slows_to_the_head() {
    let mut drive = Drive::new(|_| {});
    for number in 0..500 {
        drive.write(number * 8, 8);
    }
    // 4000 sectors on 40 tracks, less the 64 that the buffer still holds.
    let least = 39 * (REVOLUTION + 20 * SECTOR);
    assert!(drive.1.0 > least && drive.1.0 < least + 2 * REVOLUTION, "{}", drive.1);
}

#[test]
fn forced_writes_and_flushes_wait_for_the_platters() {
    let mut drive = Drive::new(|_| {});
    drive.write(5_000, 8);
    assert!(drive.serve(Operation::Flush, 0, 0).queue_nanos > 1_000_000);
    assert_eq!(drive.serve(Operation::Flush, 0, 0).queue_nanos, 0, "nothing is left to write");
    let mut forced = dispatch(Operation::Write, 5_008, 8);
    forced.flags = Flags::FUA;
    let now = drive.1;
    assert!(drive.0.serve(now, &forced).transfer_nanos >= 8 * SECTOR);
}

#[test]
fn write_invalidates_older_copies() {
    let mut drive = Drive::new(|cache| {
        cache.write = WriteCache::None;
        cache.read_written = false;
    });
    drive.read(0, 8);
    drive.think(REVOLUTION);
    drive.write(16, 8);
    assert!(is_hit(&drive.read(8, 8), 8), "in front of it");
    assert!(!is_hit(&drive.read(16, 8), 8));
}

#[test]
fn data_that_is_first_gathered_passes_after_it() {
    let transfer = |gathers: bool| Drive::new(|cache| cache.store_and_forward = gathers).read(0, 8).transfer_nanos;
    assert_eq!((transfer(false), transfer(true)), (8 * SECTOR + 5_120, 8 * (SECTOR + 5_120)));
}

#[test]
fn read_may_cost_at_its_end() {
    let mut drive = Drive::new(|cache| cache.read_completion = Duration::new(Nanos(11_000)));
    drive.read(0, 8);
    drive.think(REVOLUTION);
    assert_eq!(drive.read(8, 8).overhead_nanos, 61_000);
    assert_eq!(drive.write(8, 8).overhead_nanos, 50_000);
}

#[test]
fn invalid_buffer_is_refused_by_its_key() {
    let text = |cache: &str| {
        let tiny = PRESETS.iter().find(|preset| preset.name == "tiny").map_or("", |preset| preset.parameters);
        format!("{tiny}\n[hdd.cache]\nsegments = 2\nsegment_size = \"32KiB\"\n{cache}")
    };
    for (cache, problem) in [
        ("write = \"all\"", "hdd.cache.write_segments: is 0"),
        ("write_segments = 3", "hdd.cache.write_segments: is 3 of 2"),
        ("read_ahead_most = \"33KiB\"", "hdd.cache.read_ahead_most: 33KiB do not fit"),
        ("read_ahead_least = \"33KiB\"", "hdd.cache.read_ahead_least: 33KiB do not fit"),
        ("read_completion = \"5s\"", "hdd.cache.read_completion: 5s is longer"),
        ("hit_overhead = { read_after_read = \"5s\" }", "hdd.cache.hit_overhead.read_after_read: 5s"),
        (
            "store_and_forward = true\nread_water_mark = 0.5",
            "hdd.cache.read_water_mark: is set beside store_and_forward",
        ),
        ("write = \"some\"", "unknown variant `some`"),
    ] {
        let complaint = DeviceSpec::parse("my.toml", &text(cache)).expect_err(cache).to_string();
        assert!(complaint.contains(problem), "{complaint}");
    }
    let both = text("").replace("surfaces = 1", "surfaces = 1\nread_ahead = \"1MiB\"");
    let complaint = DeviceSpec::parse("my.toml", &both).expect_err("both").to_string();
    assert!(complaint.starts_with("my.toml:4:14: hdd.read_ahead: is set, but"), "{complaint}");
    let none = text("").replace("segments = 2", "segments = 0");
    assert!(DeviceSpec::parse("my.toml", &none).expect_err("none").to_string().contains("hdd.cache.segments: is 0"));
}

prop_compose! {
    fn any_cache()(
        segments in 1_u32..5,
        sectors in 1_u64..300,
        ahead in 0_usize..5,
        write in 0_usize..3,
        most in 0_u64..300,
        least in 0_u64..300,
        marks in (0_u32..=1_000_000, 0_u32..=1_000_000),
        flags: [bool; 9],
    ) -> CacheSpec {
        CacheSpec {
            segments,
            segment_size: Size(sectors * 512),
            read_ahead: [
                ReadAhead::None,
                ReadAhead::Track,
                ReadAhead::NextTrack,
                ReadAhead::TrackOrNext,
                ReadAhead::Segment,
            ][ahead],
            read_ahead_begins_after: u32::from(most % 5 == 0),
            read_ahead_most: (most > 0).then_some(Size(most.min(sectors) * 512)),
            read_ahead_least: Size(least.min(sectors) * 512),
            keep_requested: flags[0],
            read_ahead_after_hit: flags[1],
            read_before: flags[2],
            write: [WriteCache::None, WriteCache::Contiguous, WriteCache::All][write],
            write_segments: 1 + u32::from(flags[3] && segments > 1),
            read_written: flags[4],
            read_ahead_before_write: flags[5],
            zero_latency_reads: flags[6],
            zero_latency_writes: flags[7],
            store_and_forward: flags[8],
            read_water_mark: Ratio::of_millionths(if flags[8] { 0 } else { marks.0 }),
            write_water_mark: Ratio::of_millionths(marks.1),
            hit_overhead: Overhead { read_after_write: Duration::new(Nanos(7_000)), ..Overhead::default() },
            read_completion: Duration::new(Nanos(11_000)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn buffered_parts_add_up_and_flush_writes_all(
        cache in any_cache(),
        requests in prop::collection::vec((0_u8..4, 0_u64..10_000, 0_u32..400, 0_u64..30_000_000, 0_u8..4), 1..120),
    ) {
        let mut device = cached(|spec| *spec = cache);
        let (mut now, mut before, mut next) = (Nanos::ZERO, Nanos::ZERO, 0);
        for (operation, sector, sectors, pause, follow) in requests {
            let sector = match follow { 0 => sector, 1 => (next + 5) % 10_000, _ => next };
            let sectors = sectors.min(u32::try_from(10_000 - sector).expect("small"));
            next = (sector + u64::from(sectors)) % 10_000;
            now = now.after(Nanos(pause));
            let start = now.max(before);
            let next = dispatch(Operation::ALL[operation as usize], sector, sectors);
            prop_assert_eq!(device.positioning_nanos(now, &next), device.positioning_nanos(now, &next));
            let service = device.serve(now, &next);
            prop_assert_eq!(service.finish.0 - start.0, total(&service));
            prop_assert!(total(&service) >= u64::from(sectors) * 5_120 || operation >= 2, "the interface passes all");
            before = service.finish;
        }
        let flushed = device.serve(before, &dispatch(Operation::Flush, 0, 0)).finish;
        let again = device.serve(flushed, &dispatch(Operation::Flush, 0, 0));
        prop_assert_eq!(again.queue_nanos, 0);
    }
}
