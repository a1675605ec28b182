//! Latency, bandwidth and requests a second, compared with what the parameters imply.

use super::*;

fn random_reads(name: &str, depth: usize) -> (f64, f64) {
    let mut ssd = build(&preset(name));
    let (units, mut random) = (ssd.sectors() / 8, Random(1));
    closed(&mut ssd, depth, 20_000, || (Operation::Read, random.below(units), 1))
}

#[test]
fn papers_part_reads_25_writes_500_microseconds() {
    let mut ssd = build(&preset("ssd-slc"));
    let (units, mut random, mut now) = (ssd.sectors() / 8, Random(7), 0);
    for _ in 0..2_000 {
        let read = serve(&mut ssd, now, Operation::Read, random.below(units), 1);
        assert_eq!((read.finish.0 - now, read.transfer_nanos), (25_000, 25_000));
        now = read.finish.0;
        let write = serve(&mut ssd, now, Operation::Write, random.below(units), 1);
        assert_eq!((write.finish.0 - now, write.transfer_nanos), (500_000, 500_000));
        now = write.finish.0;
    }
}

#[test]
fn lone_small_read_adds_up_its_steps() {
    // 21.5 + 35.76 -+ 6 + 4096 B at 800 MB/s + 4096 B at 3360 MB/s, and 20 + 50 + 9.1 + 1.3.
    let (_, latency) = random_reads("ssd-970pro", 1);
    assert!(near(latency, 21_500.0 + 35_760.0 + 5_120.0 + 1_219.0, 0.005), "{latency}");
    let (_, latency) = random_reads("ssd-zn540", 1);
    assert!(near(latency, 20_000.0 + 50_000.0 + 9_102.0 + 1_343.0, 0.001), "{latency}");
}

#[test]
fn random_reads_scale_up_to_the_dies() {
    let rates: Vec<f64> = [1, 2, 4, 8, 16, 64, 256].iter().map(|&depth| random_reads("ssd-970pro", depth).0).collect();
    assert!(rates.windows(2).all(|pair| pair[0] < pair[1] * 1.01), "{rates:?}");
    assert!(near(rates[1], 2.0 * rates[0], 0.1), "two seldom meet on one of sixteen dies: {rates:?}");
    // Sixteen dies that sense for 35.76 us each do 447,000 a second; four hundred requests keep nearly all of them busy.
    let most = 16.0 / 35.76e-6;
    assert!(rates[6] < most && rates[6] > 0.85 * most, "{rates:?}");
}

#[test]
fn sequential_bandwidth_is_interfaces_or_channels() {
    let sequential = |spec: &SsdSpec, operation| {
        let mut ssd = build(spec);
        let mut unit = 0;
        let (rate, _) = closed(&mut ssd, 32, 4_000, || {
            unit += 32;
            (operation, unit - 32, 32)
        });
        rate * 131_072.0 / 1e6
    };
    for (name, interface) in [("ssd-970pro", 3360.0), ("ssd-zn540", 3050.0)] {
        let mut spec = preset(name);
        let read = sequential(&spec, Operation::Read);
        assert!(near(read, interface, 0.03), "{name} reads {read} MB/s");
        // With half the channels, the channels are the bottleneck.
        spec.channels = 2;
        spec.dies_per_channel *= 4;
        let channels = 2.0 * if name == "ssd-970pro" { 800.0 } else { 450.0 };
        let read = sequential(&spec, Operation::Read);
        assert!(near(read, channels, 0.03), "{name} with two channels reads {read} MB/s");
    }
    // Written: 16 dies of 32 KiB in 185 us; 32 dies of 96 KiB in 561 us would be more than the interface takes.
    let write = sequential(&preset("ssd-970pro"), Operation::Write);
    assert!(near(write, 16.0 * 32.768 / 0.185, 0.05), "{write}");
    let write = sequential(&preset("ssd-zn540"), Operation::Write);
    assert!(near(write, 3050.0, 0.06), "{write}");
    let write = sequential(&preset("ssd-slc"), Operation::Write);
    assert!(near(write, 20.0 * 4.096 / 0.5, 0.02), "{write}");
}

#[test]
fn buffered_write_is_acknowledged_before_its_program() {
    let mut ssd = build(&preset("ssd-970pro"));
    for units in [1, 8, 32] {
        let write = serve(&mut ssd, 0, Operation::Write, 0, units);
        let alone = 4_000 + 460 * u64::from(units) + u64::from(units) * 4096 * 1000 / 3360;
        assert!(write.finish.0.abs_diff(alone) <= 16 && write.queue_nanos == 0, "{units}: {write:?}");
        ssd = build(&preset("ssd-970pro"));
    }
}

#[test]
fn random_writes_run_at_program_rate() {
    let mut ssd = build(&preset("ssd-970pro"));
    let (units, mut random) = (ssd.sectors() / 8, Random(3));
    let (rate, _) = closed(&mut ssd, 32, 100_000, || (Operation::Write, random.below(units), 1));
    assert!(near(rate, 16.0 * 8.0 / 185e-6, 0.03), "{rate}");
    assert_eq!(ssd.counts.copied_units, 0);
}

fn duration(text: &str) -> ioweir_config::Duration {
    text.parse().expect("a duration")
}

#[test]
fn serial_stage_bounds_commands_a_second() {
    let mut spec = preset("ssd-970pro");
    spec.serial = Some(super::super::SsdSerial { read: duration("24us"), write: duration("8us") });
    for depth in [32, 58] {
        let mut ssd = build(&spec);
        let (units, mut random) = (ssd.sectors() / 8, Random(1));
        let (rate, latency) = closed(&mut ssd, depth, 20_000, || (Operation::Read, random.below(units), 1));
        assert!(near(rate, 1.0 / 24e-6, 0.01), "{rate}");
        assert!(near(latency, depth as f64 * 24_000.0, 0.01), "{latency}");
    }
}

#[test]
fn sleeping_drive_wakes_once_for_all() {
    let mut spec = preset("ssd-970pro");
    let alone = |spec: &SsdSpec, unit| serve(&mut build(spec), 0, Operation::Read, unit, 1).finish.0;
    let (near, far) = (alone(&spec, 0), alone(&spec, 8));
    spec.wake = Some(super::super::SsdWake { idle: duration("10ms"), takes: duration("900us") });
    let mut ssd = build(&spec);
    let first = serve(&mut ssd, 50_000_000, Operation::Read, 0, 1);
    assert_eq!((first.finish.0, first.queue_nanos), (50_900_000 + near, 900_000));
    let second = serve(&mut ssd, 50_300_000, Operation::Read, 8, 1);
    assert!(
        second.finish.0 - far - 50_900_000 < 2_000,
        "it waits for the same waking, and for the interface: {second:?}"
    );
    let soon = first.finish.0.max(second.finish.0) + 9_999_999;
    assert_eq!(serve(&mut ssd, soon, Operation::Read, 0, 1).finish.0, soon + near, "still awake");
    let late = soon + near + 10_000_000;
    assert_eq!(serve(&mut ssd, late, Operation::Read, 0, 1).finish.0, late + 900_000 + near, "asleep again");
}

#[test]
fn a_datasheet_gives_a_drive_with_its_numbers() {
    let text = "[flash_datasheet]\ncapacity = \"3840GB\"\nread_latency = \"75us\"\nwrite_latency = \"15us\"\nread_iops = \
                \"1M/s\"\nwrite_iops = \"200k/s\"\nread_rate = \"6800MB/s\"\nwrite_rate = \"4000MB/s\"\n";
    let sheet = match DeviceSpec::parse("mine.toml", text) {
        Ok(DeviceSpec::FlashDatasheet(sheet)) => sheet,
        other => panic!("{other:?}"),
    };
    let spec = sheet.expand().expect("a drive");
    let run = |depth, operation, units: u32, random: bool| {
        let mut ssd = build(&spec);
        let (places, mut chosen, mut next) = (ssd.sectors() / 8 / u64::from(units), Random(5), 0);
        closed(&mut ssd, depth, 30_000, || {
            next += 1;
            (operation, (if random { chosen.below(places) } else { next }) * u64::from(units), units)
        })
    };
    assert!(near(run(1, Operation::Read, 1, true).1, 75_000.0, 0.01));
    assert!(near(run(1, Operation::Write, 1, true).1, 15_000.0, 0.01));
    assert!(near(run(512, Operation::Read, 1, true).0, 1e6, 0.02));
    assert!(near(run(64, Operation::Write, 1, true).0, 2e5, 0.02));
    assert!(near(run(32, Operation::Read, 64, false).0 * 262_144.0, 6.8e9, 0.03));
    assert!(near(run(32, Operation::Write, 64, false).0 * 262_144.0, 4e9, 0.05));
    let slow = text.replace("\"75us\"", "\"1us\"");
    let refused = DeviceSpec::parse("mine.toml", &slow).expect_err("refused").to_string();
    assert!(refused.starts_with("mine.toml:3:16: flash_datasheet.read_latency: 1us is less"), "{refused}");
}

#[test]
fn planes_and_shots_program_together() {
    for (more, units) in [("", 4), ("planes_per_die = 2", 8), ("pages_per_program = 4", 16)] {
        let mut ssd = small(more);
        // One round over the four dies, in parallel.
        let write = serve(&mut ssd, 0, Operation::Write, 0, 4 * units);
        assert_eq!(write.finish, Nanos(500_000), "{more}");
        let more = serve(&mut ssd, 1_000_000, Operation::Write, 0, 4 * units + 1);
        assert_eq!(more.finish, Nanos(2_000_000), "the last program waits for its die");
    }
}

#[test]
fn request_waits_for_its_slowest_page() {
    let mut ssd = small("channel_rate = \"1TB/s\"\ninterface_rate = \"1TB/s\"");
    for unit in 0..16 {
        serve(&mut ssd, unit * 1_000_000, Operation::Write, unit * 4, 4);
    }
    // Four pages on four dies are read in parallel; of eight, two are on each die.
    let four = serve(&mut ssd, 100_000_000, Operation::Read, 0, 16);
    assert!((50_000..50_200).contains(&parts(&four)), "{four:?}");
    let eight = serve(&mut ssd, 200_000_000, Operation::Read, 0, 32);
    assert!((100_000..100_200).contains(&parts(&eight)), "{eight:?}");
    assert!(eight.queue_nanos >= 50_000, "for the other page of the die");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_parts_add_up_whatever_is_asked(
        more in prop::sample::select(vec!["", "suspend = \"5us\"", "write_buffer = \"64KiB\"", "state = \"steady\""]),
        requests in prop::collection::vec((0_usize..4, 0_u64..131_072, 0_u32..300, 0_u64..300_000, 0_u8..32), 1..150),
    ) {
        let text = if more.starts_with("state") { SMALL.replace("state = \"fresh\"", more) } else { format!("{SMALL}{more}\n") };
        let mut ssd = build(&spec(&text));
        let mut now = 0;
        for (operation, sector, sectors, pause, flags) in requests {
            now += pause;
            let sectors = sectors.min(u32::try_from(ssd.sectors() - sector).expect("small"));
            let mut with = Flags::NONE;
            if flags & 1 > 0 { with = with.with(Flags::FUA); }
            if flags & 2 > 0 { with = with.with(Flags::PREFLUSH); }
            let service = ssd.serve(Nanos(now), &request(Operation::ALL[operation], sector, sectors, with));
            prop_assert_eq!(service.finish.0 - now, parts(&service));
            prop_assert_eq!((service.seek_nanos, service.rotation_nanos, service.movements), (0, 0, 0));
        }
        ssd.map.check();
    }
}
