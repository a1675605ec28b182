//! The rules that the array keeps.

use ioweir_core::{Flags, Request};

use super::super::DeviceSpec;
use super::*;

fn array(text: &str) -> Box<dyn Device> {
    DeviceSpec::parse("array.toml", text).expect(text).build(1).expect("an array")
}

fn serve(array: &mut dyn Device, now: u64, operation: Operation, sector: u64) -> Service {
    let request = Request { operation, flags: Flags::NONE, stream: StreamId(0), sector, sectors: 8 };
    array.serve(Nanos(now), &Dispatch::alone(&request))
}

const CONSTANT: &str = "[tiered]\ncapacity = \"1GB\"\n[tiered.fast]\nread = \"constant 1ms\"\nwrite = \"constant 3ms\"\n\
                        [tiered.slow]\nread = \"constant 10ms\"\ndepth = 2\n";
const MAP: &str = "[[tiered.placement.map]]\nfrom = \"0B\"\nto = \"4KiB\"\n[[tiered.placement.map]]\nfrom = \"8KiB\"\nto = \"16KiB\"\n";

#[test]
fn each_tier_has_its_own_queue_and_depth() {
    let mut array = array(&format!("{CONSTANT}{MAP}"));
    let mut at = |operation, sector| {
        let service = serve(&mut *array, 0, operation, sector);
        (service.tier, service.finish.0 / 1_000_000, service.queue_nanos / 1_000_000)
    };
    assert_eq!(at(Operation::Read, 0), (Tier::Fast, 1, 0));
    assert_eq!(at(Operation::Write, 16), (Tier::Fast, 4, 1));
    assert_eq!(at(Operation::Read, 8), (Tier::Base, 10, 0));
    assert_eq!(at(Operation::Read, 100), (Tier::Base, 10, 0));
    assert_eq!(at(Operation::Read, 100), (Tier::Base, 20, 10));
    // Half of the request lies in the fast tier.
    assert_eq!(at(Operation::Read, 4), (Tier::Base, 20, 10));
    assert_eq!(at(Operation::Read, 24), (Tier::Fast, 5, 4));
}

#[test]
fn serial_array_serves_one_at_a_time() {
    let mut array = array(&format!(
        "{}{MAP}",
        CONSTANT.replace("depth = 2", "").replacen("capacity", "serial = true\ncapacity", 1)
    ));
    let finishes: Vec<u64> =
        [0, 100, 0, 100].map(|sector| serve(&mut *array, 0, Operation::Read, sector).finish.0 / 1_000_000).to_vec();
    assert_eq!(finishes, [1, 11, 12, 22]);
}

#[test]
fn hit_ratio_follows_the_stream() {
    let mut array = array(&CONSTANT.replacen("[tiered]", "[tiered]\nplacement = { hit_ratio = 0.25 }", 1));
    let mut hits = |change: Option<f64>| {
        if let Some(ratio) = change.and_then(Ratio::new) {
            array.set_hit_ratio(StreamId(0), ratio);
        }
        (0..10_000).filter(|_| serve(&mut *array, 0, Operation::Read, 0).tier == Tier::Fast).count()
    };
    assert!((2_400..2_600).contains(&hits(None)));
    assert!((8_900..9_100).contains(&hits(Some(0.9))));
    assert_eq!(hits(Some(0.0)), 0);
    assert_eq!(hits(Some(1.0)), 10_000);
}

#[test]
fn exponential_tiers_keep_their_means() {
    let text = "[tiered]\ncapacity = \"1GB\"\nplacement = { hit_ratio = 1 }\n[tiered.fast]\nread = \"exponential 200us\"\nwrite = \
                \"exponential 600us\"\n[tiered.slow]\nread = \"exponential 10ms\"\n";
    let mut array = array(text);
    for (operation, mean) in [(Operation::Read, 200_000.0), (Operation::Write, 600_000.0)] {
        let sum: u64 = (0..50_000).map(|_| serve(&mut *array, 0, operation, 0).transfer_nanos).sum();
        assert!((sum as f64 / 50_000.0 / mean - 1.0).abs() < 0.02, "{sum}");
    }
}

#[test]
fn a_cache_serves_what_it_has_seen() {
    for kind in ["lru", "arc"] {
        let cache = format!("[tiered]\nplacement = {{ {kind} = {{ capacity = \"64KiB\", block = \"8KiB\" }} }}");
        let mut array = array(&CONSTANT.replacen("[tiered]", &cache, 1));
        // 8 sectors from sector 12 touch two blocks.
        let tiers = [0, 8, 12, 12, 32].map(|sector| serve(&mut *array, 0, Operation::Read, sector).tier);
        assert_eq!(tiers, [Tier::Base, Tier::Fast, Tier::Base, Tier::Fast, Tier::Base], "{kind}");
    }
}

#[test]
fn tier_may_be_a_drive_model() {
    let text = "[tiered]\ncapacity = \"100TB\"\nplacement = { hit_ratio = 0.5 }\n[tiered.fast]\nmodel = \"ssd-970pro\"\n[tiered.slow]\n\
                model = \"hdd\"\n";
    let mut array = array(text);
    let mut means = [0; 2];
    for number in 0..1_000_u64 {
        let service = serve(&mut *array, number * 100_000_000, Operation::Read, number * 190_000_000 % (1 << 37));
        means[service.tier as usize] += service.transfer_nanos + service.seek_nanos + service.rotation_nanos;
    }
    assert!(means[Tier::Base as usize] > 20 * means[Tier::Fast as usize], "{means:?}");
}

#[test]
fn invalid_tiered_array_is_named_with_place() {
    let error =
        |from: &str, to: &str| DeviceSpec::parse("a.toml", &CONSTANT.replacen(from, to, 1)).expect_err(to).to_string();
    assert_eq!(error("depth = 2", "depth = 0"), "a.toml:8:9: tiered.slow.depth: is 0\n\nhint: give 1 to 4096");
    assert!(error("read = \"constant 1ms\"", "read = \"1ms\"").contains("a.toml:4:8: `1ms` is not a service time"));
    assert!(error("read = \"constant 10ms\"", "").contains("tiered.slow: has no service time"));
    assert!(error("read = \"constant 10ms\"", "model = \"tiered\"").contains("beside a write time or a depth"));
    assert!(error("depth = 2", "model = \"hdd\"").contains("stands beside service times"));
    assert!(error("capacity = \"1GB\"", "capacity = \"1B\"").contains("less than a sector"));
    let cache = "capacity = \"1GB\"\nplacement = { lru = { capacity = \"1MiB\", block = \"5B\" } }";
    assert!(error("capacity = \"1GB\"", cache).contains("a.toml:3:"));
    let loops = "[tiered]\ncapacity = \"1GB\"\n[tiered.fast]\nmodel = \"tiered\"\n[tiered.slow]\nmodel = \"hdd\"\n";
    assert!(DeviceSpec::parse("a.toml", loops).is_err());
}

#[test]
fn the_resolved_form_reads_back_as_itself() {
    for text in [CONSTANT.to_owned(), format!("{CONSTANT}{MAP}")] {
        let spec = DeviceSpec::parse("a.toml", &text).expect("an array");
        let again = DeviceSpec::parse("b.toml", &spec.to_toml()).expect("written by itself");
        assert_eq!(again, spec.resolved());
        assert_eq!(again.to_toml(), spec.to_toml());
    }
}
