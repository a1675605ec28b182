//! Tests of calibration records: which are accepted, how they are written back, and draws from them.

use ioweir_config::{Ratio, Size};
use ioweir_core::Operation;
use proptest::prelude::*;

use super::*;
use crate::PRESETS;

const RECORD: &str = r#"
[calibration]
source = "trace"
name = "tiny.trace"
sha256 = "00ff"
requests = 1000
version = "0.1.0"
fitted = "first_half"
judged = "second_half"
intervals = "profile"

[calibration.range]
read_size = ["4KiB", "64KiB"]
depth_max = 1
sequential = [0.1, 0.5]
rate = ["10/s", "200/s"]

[[calibration.class]]
name = "all"
requests = 500
measured_mean = "5ms"
modelled_mean = "5.1ms"
demerit = "0.2ms"
halves = "0.1ms"

[[calibration.parameter]]
key = "hdd.interface_rate"
value = "100MB/s"
low = "90MB/s"
high = "110MB/s"
drawn = ["90MB/s", "95MB/s", "110MB/s"]

[[calibration.parameter]]
key = "hdd.revolutions_per_minute"
value = 6000
low = 5990
high = 6010
drawn = [5990, 6000, 6010]

[[calibration.parameter]]
key = "hdd.zone[0].sectors_per_track"
value = 100
drawn = [100, 100, 100]
"#;

fn tiny() -> &'static str {
    PRESETS.iter().find(|preset| preset.name == "tiny").expect("tiny").parameters
}

fn file(record: &str) -> Result<DeviceFile, String> {
    DeviceFile::parse("own.toml", &format!("{}{record}", tiny())).map_err(|error| error.to_string())
}

#[test]
fn device_is_equal_with_and_without_record() {
    let read = file(RECORD).unwrap();
    assert_eq!(read.spec, DeviceSpec::load("tiny").unwrap());
    let record = read.calibration.as_ref().expect("a record");
    assert_eq!(record.overall().map(|class| class.requests), Some(500));
    assert_eq!(record.parameters[0].interval(), Some((9e7, 1.1e8)));
    let again = DeviceFile::parse("own.toml", &read.to_toml()).unwrap();
    assert_eq!((again.calibration, again.spec), (read.calibration.clone(), read.spec.resolved()));
    let before = DeviceFile::parse("own.toml", &format!("{RECORD}{}", tiny())).unwrap();
    assert_eq!(before, read, "the record may stand before the device");
    assert_eq!(DeviceFile::load("tiny").unwrap().calibration, None);
}

#[test]
fn wrong_record_is_refused_with_place_and_hint() {
    for (old, new, at, problem) in [
        ("requests = 1000", "requets = 1000", "requets = 1000", "unknown field `requets`"),
        ("source = \"trace\"", "source = \"guess\"", "source =", "unknown variant `guess`"),
        ("\"90MB/s\"", "\"101MB/s\"", "low =", "parameter[0].low: 100MB/s does not lie in its interval"),
        ("\"90MB/s\"", "\"90ms\"", "low =", "parameter[0].low: is not of the kind of 100MB/s"),
        ("low = 5990", "", "[[calibration.parameter]]", "one end of the interval is missing"),
        ("value = 6000", "value = 6001", "value = 6001", "is 6000 in the device and 6001 here"),
        ("hdd.interface_rate", "hdd.rate", "key = \"hdd.rate\"", "the device has no parameter `hdd.rate`"),
        ("drawn = [5990, 6000,", "drawn = [", "drawn = [\"90MB", "different numbers of values"),
        ("[5990, 6000,", "[\"1ms\", 6000,", "drawn =", "drawn: is not of the kind of 6000"),
        ("\"4KiB\", \"64KiB\"", "\"64KiB\", \"4KiB\"", "read_size", "calibration.range.read_size: ends before"),
        ("hdd.revolutions_per_minute", "hdd.interface_rate", "value = 6000", "hdd.interface_rate is 100MB/s"),
    ] {
        assert!(RECORD.contains(old), "{old}");
        let record = RECORD.replacen(old, new, 1);
        let complaint = file(&record).unwrap_err();
        assert!(complaint.contains(problem), "{complaint}");
        let line = complaint.strip_prefix("own.toml:").and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
        let text = format!("{}{record}", tiny());
        let line = line.and_then(|line| text.lines().nth(line - 1)).unwrap_or_else(|| panic!("{complaint}"));
        assert!(line.starts_with(at), "{line}: {complaint}");
    }
}

#[test]
fn draws_are_devices_that_were_found_together() {
    let DeviceFile { spec, calibration } = file(RECORD).unwrap();
    let calibration = calibration.unwrap();
    let mut drawn = Vec::new();
    for seed in 0..50 {
        let device = calibration.draw(&spec, seed);
        assert_eq!(device, calibration.draw(&spec, seed));
        let DeviceSpec::Hdd(hdd) = device else { panic!("a disk") };
        assert_eq!(hdd.zones[0].sectors_per_track, 100);
        drawn.push((hdd.interface_rate.0 / 1_000_000, hdd.revolutions_per_minute.per_minute() as u64));
    }
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn, [(90, 5990), (95, 6000), (110, 6010)], "never the value of one beside that of another");
    let plain = Calibration { parameters: Vec::new(), ..calibration };
    assert_eq!(plain.draw(&spec, 7), spec);
}

#[test]
fn drawn_values_change_defaults_made_of_them() {
    let record = file(RECORD).unwrap().calibration.unwrap();
    let amount = |text: &str| toml::Value::from(text).try_into::<Amount>().unwrap();
    let disk = DeviceSpec::parse("disk", crate::fit::UNKNOWN_DISK).unwrap();
    let flash = DeviceSpec::load("ssd-970pro").unwrap().to_toml();
    let flash: Vec<&str> = flash.lines().filter(|line| !line.starts_with("read_one_unit")).collect();
    let flash = DeviceSpec::parse("flash", &flash.join("\n")).unwrap();
    for (spec, key, default, drawn) in [
        (&disk, "hdd.cache.read_ahead_most", "hdd.cache.segment_size", "64KiB"),
        (&disk, "hdd.turn_skew", "hdd.cylinder_skew", "0.25rev"),
        (&flash, "ssd.read_one_unit", "ssd.read", "70us"),
        (&flash, "ssd.overhead.read_one_unit", "ssd.overhead.read", "3us"),
    ] {
        let value = parameter::get(&to_table(&spec.resolved()).unwrap(), default).unwrap();
        let own = |key: &str, drawn: &str| Parameter {
            key: key.into(),
            value: value.clone(),
            low: None,
            high: None,
            drawn: vec![amount(drawn)],
        };
        let of = |parameters: Vec<Parameter>| {
            let device = Calibration { parameters, ..record.clone() }.draw(spec, 1);
            let table = to_table(&device.resolved()).unwrap();
            [key, default].map(|key| parameter::get(&table, key).unwrap())
        };
        assert_eq!(of(vec![own(default, drawn)]), [amount(drawn), amount(drawn)], "{key}");
        let both = [own(key, drawn), own(default, &value.to_string())];
        assert_eq!(of(both.to_vec()), [amount(drawn), value.clone()], "{key}");
    }
}

#[test]
fn what_lies_outside_of_the_range_is_said() {
    let seen = file(RECORD).unwrap().calibration.unwrap().range;
    assert_eq!(seen.outside(&seen), Vec::<String>::new());
    let given = Range {
        read_size: Some(Span { low: Size(512), high: Size(65_536) }),
        write_size: Some(Span { low: Size(4096), high: Size(4096) }),
        depth_max: Some(32),
        sequential: Some(Span { low: Ratio::ZERO, high: Ratio::ONE }),
        rate: Some(Span { low: ioweir_config::Rate(1), high: ioweir_config::Rate(1000) }),
    };
    assert_eq!(
        seen.outside(&given),
        [
            "reads of 512B to 64KiB, seen were 4KiB to 64KiB",
            "writes, of which none were seen",
            "32 requests at once, seen were 1",
            "0 to 100 % sequential requests, seen were 10 to 50 %",
            "up to 1k/s, seen were up to 200/s",
        ]
    );
    assert!(given.outside(&Range::default()).is_empty(), "what a trace does not say lies nowhere");
}

#[test]
fn range_leaves_out_the_rarest_lengths() {
    let mut observed = Observed::default();
    for number in 0..512 {
        let length = if number % 256 == 0 { 1 << 20 } else { 4096 };
        // The second half is sequential.
        let offset = if number < 256 { number * 100_000 } else { (1 << 30) + (number - 256) * 4096 };
        observed.add(number * 1_000_000, Operation::Read, offset, length);
        observed.add(number * 1_000_000, Operation::Flush, 0, 0);
    }
    let range = observed.range();
    assert_eq!(range.read_size, Some(Span { low: Size(4096), high: Size(4096) }));
    assert_eq!((range.write_size, range.depth_max), (None, None));
    let shares = range.sequential.unwrap();
    assert!(shares.low == Ratio::ZERO && shares.high.value() > 0.98, "{shares:?}");
    assert_eq!(range.rate.map(|rate| rate.low), Some(ioweir_config::Rate(1000)));
    assert_eq!(Observed::default().range(), Range::default());
}

proptest! {
    #[test]
    fn no_record_makes_the_reader_panic(cut in 0_usize..1200, put in "[ -~]{0,8}") {
        let at = cut.min(RECORD.len());
        let _ = file(&format!("{}{put}{}", &RECORD[..at], &RECORD[at..]));
        let _ = file(&RECORD[..at]);
    }
}
