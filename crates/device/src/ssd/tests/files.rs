//! Device files of drives: which are accepted, and the errors of the others.

use super::*;
use ioweir_config::Size;

fn complaint(old: &str, new: &str) -> String {
    assert!(SMALL.contains(old), "{old}");
    DeviceSpec::parse("my.toml", &SMALL.replace(old, new)).expect_err("refused").to_string()
}

#[test]
fn bad_value_is_refused_with_place_and_hint() {
    for (old, new, problem, hint) in [
        ("channels = 2", "channels = 0", "5:12: ssd.channels: is 0", "from 1 to 4096"),
        ("channels = 2", "channels = 4096", "6:20: ssd.dies_per_channel: is 2", "from 1 to 1"),
        ("= 150", "= 20000", "4:31: ssd.over_provisioning_per_mille: is 20000", "from 0 to 10000"),
        ("\"16KiB\"", "\"10KiB\"", "7:8: ssd.page: 10KiB are not a number of mapping units of 4KiB", "multiple"),
        (
            "pages_per_block = 16",
            "pages_per_block = 1",
            "8:19: ssd.pages_per_block: a die erases 4 units",
            "two programs",
        ),
        (
            "pages_per_block = 16",
            "pages_per_block = 16\npages_per_program = 3",
            "8:19: ssd.pages_per_block: 16 pages",
            "multiple",
        ),
        ("\"64MiB\"", "\"1000B\"", "2:12: ssd.capacity: 1kB are not a number of sectors", "512"),
        ("\"64MiB\"", "\"1000TiB\"", "2:12: ssd.capacity: 1000TiB are 308", "larger mapping unit"),
        ("\"500us\"", "\"500s\"", "10:11: ssd.program: 500s is longer than 4 s", "check the unit"),
        ("\"3ms\"", "\"3ms\"\nchannel_rate = \"1B/s\"", "12:16: ssd.channel_rate: is 1B/s", "or leave it out"),
        ("\"3ms\"", "\"3ms\"\nread_spread = \"51us\"", "12:15: ssd.read_spread: 51us is more than", "at most read"),
        ("\"3ms\"", "\"3ms\"\nwrite_buffer = \"8KiB\"", "12:16: ssd.write_buffer: 8KiB do not hold", "at least 16KiB"),
        ("\"3ms\"", "\"3ms\"\nmapping_unit = \"1000B\"", "12:16: ssd.mapping_unit: is 1kB", "multiple of 512B"),
        ("\"3ms\"", "\"3ms\"\nfree_blocks_min = 1", "12:19: ssd.free_blocks_min: is 1", "from 2 to 1024"),
        (
            "\"3ms\"",
            "\"3ms\"\n[ssd.overhead]\nwrite = \"5s\"",
            "13:9: ssd.overhead.write: 5s is longer",
            "check the unit",
        ),
        ("\"fresh\"", "\"new\"", "3:9: unknown variant `new`", "fresh, filled or steady"),
        ("erase", "eraser", "11:1: unknown field `eraser`: did you mean `erase`?", "`ioweir show` prints a preset"),
        ("\"3ms\"", "3", "11:9: ", "text with a unit"),
    ] {
        let complaint = complaint(old, new);
        assert!(complaint.starts_with(&format!("my.toml:{problem}")), "{complaint}");
        assert!(complaint.split_once("hint: ").is_some_and(|(_, given)| given.contains(hint)), "{complaint}");
    }
}

#[test]
fn defaults_are_worked_out_and_written() {
    let written = DeviceSpec::parse("test", SMALL).expect("a drive").to_toml();
    for line in
        ["mapping_unit = \"4KiB\"", "read_one_unit = \"50us\"", "transfer_chunk = \"4KiB\"", "free_blocks_min = 2"]
    {
        assert!(written.contains(line), "{written}");
    }
    assert!(!written.contains("suspend") && !written.contains("rate"), "{written}");
    assert_eq!(DeviceSpec::parse("test", &written).expect("a drive").to_toml(), written);
}

#[test]
fn flash_is_capacity_and_spare_in_blocks() {
    for (name, units, dies, program_units, block_units) in [
        ("ssd-slc", 61_049_646, 20, 1, 256),
        ("ssd-970pro", 125_026_902, 16, 8, 1024),
        ("ssd-zn540", 244_190_646, 32, 24, 8616),
    ] {
        let spec = preset(name);
        let shape = spec.lay_out().expect("a drive");
        assert_eq!(
            (shape.units, shape.dies, shape.program_units, shape.block_units),
            (units, dies, program_units, block_units)
        );
        let flash = f64::from(shape.blocks()) * f64::from(shape.block_units) / f64::from(shape.units);
        assert!(near(flash, 1.0 + f64::from(spec.over_provisioning_per_mille) / 1000.0, 0.001), "{name}: {flash}");
    }
}

#[test]
fn largest_accepted_drive_works_to_its_end() {
    let mut spec = spec(SMALL);
    spec.capacity = Size(15 << 40);
    (spec.over_provisioning_per_mille, spec.pages_per_block) = (60, 4096);
    for state in [SsdState::Filled, SsdState::Steady] {
        spec.state = state;
        let mut ssd = build(&spec);
        let last = ssd.sectors() / 8 - 4;
        for (number, operation) in (0..).zip(Operation::ALL) {
            let now = number * 10_000_000;
            assert!(serve(&mut ssd, now, operation, last, 4).finish.0 >= now);
        }
        assert_eq!(ssd.map.place(u32::try_from(last).expect("32 bits")), None, "discarded");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_numbers_make_a_drive_panic(
        capacity in 0_u64..1 << 26, spare in 0_u32..3000, counts in prop::collection::vec(0_u32..9, 5),
        page in 0_u64..10, unit in 0_u64..20, buffer in 0_u64..1 << 18,
    ) {
        let mut spec = spec(SMALL);
        (spec.capacity, spec.over_provisioning_per_mille) = (Size(capacity / 512 * 512), spare);
        (spec.channels, spec.dies_per_channel, spec.planes_per_die) = (counts[0], counts[1], counts[2]);
        (spec.pages_per_block, spec.pages_per_program) = (counts[3] * counts[4], counts[4]);
        (spec.mapping_unit, spec.page) = (Size(unit * 512), Size(unit * 512 * page));
        spec.write_buffer = Size(buffer);
        if let Ok(mut ssd) = Ssd::new(&spec, 1) {
            let mut random = Random(capacity);
            for number in 0..300 {
                let sector = random.below(ssd.sectors());
                let sectors = u32::try_from((ssd.sectors() - sector).min(random.below(100))).expect("small");
                let operation = Operation::ALL[random.below(4) as usize];
                ssd.serve(Nanos(number * 10_000), &request(operation, sector, sectors, Flags::NONE));
            }
            ssd.map.check();
        }
    }
}
