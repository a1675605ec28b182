//! Device files: which are accepted, and the errors of the others.

use proptest::prelude::*;

use super::*;

fn complaint(text: &str) -> String {
    DeviceSpec::parse("my.toml", text).expect_err("refused").to_string()
}

fn tiny_with(old: &str, new: &str) -> String {
    let preset = PRESETS.iter().find(|preset| preset.name == "tiny").expect("tiny");
    assert!(preset.parameters.contains(old), "{old}");
    preset.parameters.replace(old, new)
}

#[test]
fn every_preset_builds_and_survives_writing_and_reading() {
    for preset in PRESETS {
        let spec = DeviceSpec::load(preset.name).unwrap_or_else(|error| panic!("{error}"));
        let written = spec.to_toml();
        let read = DeviceSpec::parse(preset.name, &written).unwrap_or_else(|error| panic!("{error}\n{written}"));
        assert_eq!((&read, read.to_toml()), (&spec.resolved(), written));
        assert!(spec.build(0).is_ok());
    }
}

#[test]
fn the_presets_have_the_sizes_of_the_drives() {
    for (name, sectors, tracks) in [
        ("hdd", 488_397_168, 171_910),
        ("hdd-no-cache", 488_397_168, 171_910),
        ("hdd-15k", 286_749_487, 72_170),
        ("cheetah-9lp", 17_783_240, 6_962),
        ("barracuda", 4_110_000, 5_172),
        ("hdd-20tb", 39_063_650_304, 562_688),
        ("hdd-2x7tb", 2 * 13_672_382_464, 0),
        ("hdd-smr", 27_344_764_928, 595_744),
        ("ssd-990pro", 3_907_029_168, 0),
        ("ssd-qlc", 120_000_000_000, 0),
        ("ssd-slc", 488_397_168, 0),
        ("ssd-970pro", 1_000_215_216, 0),
        ("ssd-zn540", 1_953_525_168, 0),
        ("tiny", 10_000, 100),
    ] {
        let device = device(name);
        assert_eq!((device.sectors(), device.tracks()), (sectors, tracks), "{name}");
    }
}

#[test]
fn cacheless_disk_differs_in_buffer_only() {
    let lines = |name: &str| PRESETS.iter().find(|preset| preset.name == name).map(|preset| preset.parameters.lines());
    let is_of_buffer = |line: &&str| line.starts_with("read_ahead = ") || line.starts_with("write_cache = ");
    let mechanics: Vec<&str> = lines("hdd").expect("a preset").filter(|line| !is_of_buffer(line)).collect();
    assert_eq!(mechanics, lines("hdd-no-cache").expect("a preset").collect::<Vec<_>>());
}

#[test]
fn what_a_preset_has_switched_on_is_said() {
    let words = |name: &str| DeviceSpec::load(name).map(|spec| spec.switched_on().join(", ")).unwrap_or_default();
    assert_eq!(words("hdd"), "read-ahead, write cache");
    assert_eq!(words("hdd-no-cache"), "");
    assert_eq!(words("hdd-15k"), "read-ahead");
    assert_eq!(words("hdd-20tb"), "read-ahead, write cache, command queue");
    assert_eq!(words("hdd-2x7tb"), "read-ahead, write cache");
    assert_eq!(words("hdd-smr"), "read-ahead, zones of 256MiB, written in order");
    assert_eq!(words("ssd-970pro"), "write buffer of 1MiB");
    assert_eq!(words("ssd-qlc"), "protected write buffer of 16MiB");
}

#[test]
fn bad_file_is_refused_with_place_and_hint() {
    let spindle = complaint(&tiny_with("6000", "0"));
    assert!(spindle.starts_with("my.toml:2:26: hdd.revolutions_per_minute: is 0"), "{spindle}");
    assert!(spindle.contains("hint: give a number from 600 to 100000"), "{spindle}");

    let bare = complaint(&tiny_with("\"100MB/s\"", "100"));
    assert!(bare.starts_with("my.toml:6:18: "), "{bare}");
    assert!(bare.contains("with a unit"), "{bare}");

    let unit = complaint(&tiny_with("\"100MB/s\"", "\"100MB\""));
    assert!(unit.contains("`100MB` is not a rate"), "{unit}");

    let unknown = complaint(&tiny_with("surfaces", "sufaces"));
    assert!(unknown.contains("unknown field `sufaces`") && unknown.contains("my.toml:3:1"), "{unknown}");

    let short = complaint(&tiny_with("[99, \"10ms\"]", "[50, \"10ms\"]"));
    assert!(short.contains("covers distances up to 50, the disk has 100 cylinders"), "{short}");

    let skew = complaint(&tiny_with("20sectors", "100sectors"));
    assert!(skew.contains("a whole revolution or more"), "{skew}");

    let zones =
        complaint(&format!("{}\n[[hdd.zone]]\nfirst_cylinder = 0\nsectors_per_track = 9\n", tiny_with("6000", "6000")));
    assert!(zones.contains("hdd.zone[0].first_cylinder: begins at cylinder 0, the next zone at 0"), "{zones}");
    assert!(zones.starts_with("my.toml:12:18"), "{zones}");

    let size = complaint(&tiny_with("surfaces = 1", "surfaces = 1\ncapacity = \"1TB\""));
    assert!(size.contains("hdd.capacity: 1953125000 sectors, but the zones hold only 10000"), "{size}");

    let cylinders = complaint(&tiny_with("cylinders = 100", "cylinders = 4000000000"));
    assert!(cylinders.contains("hdd.cylinders: is 4000000000"), "{cylinders}");
}

#[test]
fn incomplete_or_double_device_is_refused() {
    let points = "points = [[1, \"1ms\"], [99, \"10ms\"]]";
    let datasheet = "[hdd.seek.datasheet]\nsingle = \"1ms\"\naverage = \"9ms\"\nfull = \"10ms\"";
    let models =
        &*KINDS.iter().map(|kind| format!("[{}]", crate::error::table_name(kind))).collect::<Vec<_>>().join(", ");
    for (text, problem, hint) in [
        (String::new(), "my.toml:1:1: a device file holds one device, this one holds none", models),
        (
            tiny_with("6000", "6000") + "\n[null]\ncapacity = \"1GB\"\n",
            "my.toml:1:1: a device file holds one device, this one holds several",
            models,
        ),
        ("[unknown]\na = 1\n".into(), "my.toml:1:2: unknown variant `unknown`", models),
        ("[hdd]\n".into(), "my.toml:1:1: missing field `revolutions_per_minute`", "`ioweir show`"),
        (tiny_with("points", "pints"), "my.toml:9:1: unexpected keys in table: pints", "`ioweir show`"),
        (tiny_with("seek.table", "seek.tab"), "my.toml:8:11: unknown variant `tab`", "[hdd.seek.datasheet]"),
        (tiny_with("surfaces = 1", "surfaces = 1\nlayout = \"spiral\""), "my.toml:4:10: unknown", "serpentine"),
        (tiny_with("[1, \"1ms\"]", "[3, \"1ms\"]"), "my.toml:9:11: hdd.seek.table.points[0]", "1 cylinder"),
        (
            tiny_with(&format!("[hdd.seek.table]\n{points}"), datasheet),
            "my.toml:11:8: hdd.seek.datasheet.full: 10ms does not fit an average of 9ms: the curve would bend the wrong \
             way (it can be 16.000 ms to 25.000 ms)",
            "an arm accelerates",
        ),
        ("[null]\ncapacity = \"1B\"\n".into(), "my.toml:2:12: null.capacity: 1B is less", "at least 512B"),
    ] {
        let complaint = complaint(&text);
        assert!(complaint.starts_with(problem), "{complaint}");
        assert!(complaint.split_once("hint: ").is_some_and(|(_, given)| given.contains(hint)), "{complaint}");
    }
}

#[test]
fn largest_accepted_disk_does_not_overflow() {
    for layout in [
        "\"conventional\"",
        "{ serpentine = { bundle_cylinders = 1048576 } }",
        "{ serpentine = { bundle_cylinders = 7 } }",
    ] {
        let text = format!(
            "[hdd]\nrevolutions_per_minute = 600\nsurfaces = 64\ncylinders = 2097152\nlayout = {layout}\n\
             interface_rate = \"1MB/s\"\nread_ahead = \"1TiB\"\nhead_switch = \"4s\"\n\
             seek = {{ table = {{ points = [[1, \"4s\"], [2097151, \"4s\"]] }} }}\n\
             zone = [{{ first_cylinder = 0, sectors_per_track = 65536 }}]\n"
        );
        let spec = DeviceSpec::parse("large", &text).unwrap_or_else(|error| panic!("{error}"));
        assert!(DeviceSpec::parse("large", &spec.to_toml()).is_ok());
        let mut disk = spec.build(0).expect("a disk");
        assert_eq!(disk.sectors(), 1 << 43);
        let far = disk.serve(Nanos::ZERO, &dispatch(Operation::Read, disk.sectors() - 8, 8));
        let all = disk.serve(far.finish, &dispatch(Operation::Read, 0, u32::MAX));
        let on =
            disk.serve(all.finish.after(Nanos::from_seconds(1)), &dispatch(Operation::Read, u64::from(u32::MAX), 8));
        assert!(far.finish < all.finish && all.finish < on.finish);
    }
}

#[test]
fn unknown_name_lists_the_presets() {
    let error = DeviceSpec::load("hdd-16k").expect_err("no such thing").to_string();
    assert!(error.contains("a preset (hdd, hdd-no-cache, ") && error.contains("or a TOML file"), "{error}");
}

#[test]
fn a_device_file_is_read_from_its_path() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), tiny_with("6000", "7200")).expect("written");
    let path = file.path().to_str().expect("a path");
    assert!(
        matches!(DeviceSpec::load(path), Ok(DeviceSpec::Hdd(hdd)) if hdd.revolutions_per_minute.to_string() == "7200")
    );
    std::fs::write(file.path(), b"\xff\xfe").expect("written");
    assert!(DeviceSpec::load(path).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_reader_panic(text: String, cut in 0_usize..600, put in "[ -~]{0,6}") {
        let _ = DeviceSpec::parse("any", &text);
        let preset = PRESETS.iter().find(|preset| preset.name == "tiny").map_or("", |preset| preset.parameters);
        let at = cut.min(preset.len());
        let _ = DeviceSpec::parse("any", &format!("{}{put}{}", &preset[..at], &preset[at..]));
        let _ = DeviceSpec::parse("any", &preset[..at]);
    }
}

#[test]
fn short_datasheet_gives_its_numbers() {
    let text = "[disk_datasheet]\ncapacity = \"20TB\"\nrevolutions_per_minute = 7200\nseek_average = \"8.5ms\"\n\
                seek_average_write = \"9.5ms\"\nseek_full = \"17ms\"\nrate_outside = \"285MB/s\"\nrate_inside = \"130MB/s\"\n\
                cache = \"256MiB\"\nsurfaces = 20\n";
    let spec = DeviceSpec::parse("mine.toml", text).unwrap_or_else(|error| panic!("{error}"));
    assert!(spec.rotates());
    let mut disk = spec.build(0).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(disk.sectors(), 20_000_000_000_000 / 512);
    let read = |disk: &mut dyn Device, now: Nanos, sector| {
        let flags = Flags::NONE;
        let request = Request { operation: Operation::Read, flags, stream: StreamId(0), sector, sectors: 2048 };
        disk.serve(now, &Dispatch::alone(&request)).finish
    };
    for (first, rate) in [(0, 285.0), (disk.sectors() - 400 * 2048, 130.0)] {
        let mut now = read(&mut *disk, Nanos(3_600_000_000_000), first);
        let begin = now;
        for number in 1..400 {
            now = read(&mut *disk, now, first + number * 2048);
        }
        let measured = 399.0 * 1_048_576.0 / (now.0 - begin.0) as f64 * 1e3;
        assert!((measured / rate - 1.0).abs() < 0.03, "{measured} MB/s, of {rate}");
    }
    let wrong = complaint(&text.replace("\"130MB/s\"", "\"300MB/s\""));
    assert!(wrong.starts_with("my.toml:8:15: disk_datasheet.rate_inside: is 300MB/s"), "{wrong}");
    let bent = complaint(&text.replace("\"17ms\"", "\"90ms\""));
    assert!(bent.contains("gives a disk that cannot be: hdd.seek.datasheet.full"), "{bent}");
}

#[test]
fn spindle_speed_keeps_its_decimals() {
    let text = |speed: &str| {
        PRESETS[0].parameters.replace("revolutions_per_minute = 7200", &format!("revolutions_per_minute = {speed}"))
    };
    let spec = DeviceSpec::parse("my.toml", &text("7200.25")).expect("a disk");
    assert!(spec.to_toml().contains("revolutions_per_minute = 7200.25"), "{}", spec.to_toml());
    assert_eq!(DeviceSpec::parse("my.toml", &text("7200.0")), DeviceSpec::parse("my.toml", &text("7200")));
    let slow = DeviceSpec::parse("my.toml", &text("599.9")).expect_err("too slow").to_string();
    assert!(slow.contains("hdd.revolutions_per_minute: is 599.9") && slow.contains("600 to 100000"), "{slow}");
    assert!(
        DeviceSpec::parse("my.toml", &text("\"fast\"")).expect_err("no number").to_string().contains("such as 7200")
    );
}

#[test]
fn atlas_reads_at_its_mediums_rate() {
    let mut drive = device("atlas-10k");
    let (mut now, reads) = (Nanos::ZERO, 256);
    for read in 0..reads {
        now = drive.serve(now, &dispatch(Operation::Read, read * 256, 256)).finish;
    }
    let megabytes_per_second = (reads * 128 * 1024) as f64 / now.as_seconds() / 1e6;
    assert!((15.0..30.0).contains(&megabytes_per_second), "{megabytes_per_second}");
}
