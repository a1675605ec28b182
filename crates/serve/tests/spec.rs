//! The spec file: the smallest works as it is, everything is printed with defaults, and what is wrong is said with its place.

use ioweir_serve::spec::{Backend, Spec};

const SMALLEST: &str = r#"[server]
listen = ["unix:/run/ioweir.sock"]
[[device]]
name = "d"
backend = "file"
path = "disk.img"
scheduler = "sfq"
[[export]]
name = "a"
device = "d"
weight = 100
"#;

#[test]
fn the_smallest_spec_gets_every_default_and_reads_back() {
    let spec = Spec::parse("s.toml", SMALLEST).unwrap();
    let printed = spec.to_toml();
    for line in
        ["connections_max = 64", "depth = 32", "request_bytes_max = \"256KiB\"", "direct = true", "io = \"auto\""]
    {
        assert!(printed.contains(line), "{printed}");
    }
    assert_eq!(Spec::parse("s.toml", &printed).unwrap(), spec);
    assert_eq!(Spec::parse("s.toml", &printed).unwrap().to_toml(), printed);
}

#[test]
fn every_backend_reads_back() {
    for device in [
        "backend = \"null\"\nsize = \"1GiB\"",
        "backend = \"memory\"\nsize = \"64MiB\"\nscheduler = \"bid-hdd:wait=4ms\"\ndepth = 3\nmerge = false",
        "backend = \"emulated\"\nmodel = \"hdd\"\nseed = 3",
        "backend = \"null\"\nsize = \"1GiB\"\nchecksums = true",
        "backend = \"null\"\nsize = \"1GiB\"\nchecksums = true\n[device.cores]\nschedule = \"qats:base=500us\"\nworkers = 2",
        "backend = \"faulty\"\nsize = \"1MiB\"\n[device.faults]\nseed = 7\nerrors_per_million = 10\nstall = \"2ms\"",
    ] {
        let text = format!("[[device]]\nname = \"d\"\n{device}\n[[export]]\nname = \"a\"\ndevice = \"d\"\n");
        let spec = Spec::parse("s.toml", &text).unwrap();
        assert_eq!(Spec::parse("s.toml", &spec.to_toml()).unwrap(), spec, "{}", spec.to_toml());
    }
    let spec = Spec::parse("s.toml", SMALLEST).unwrap();
    assert!(matches!(spec.device[0].backend, Backend::File { threads: 4, size: None, .. }));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let wrong = |from: &str, to: &str| Spec::parse("s.toml", &SMALLEST.replace(from, to)).unwrap_err().to_string();
    for (from, to, beginning) in [
        ("\"sfq\"", "\"deadlin\"", "s.toml:7:13: unknown scheduler `deadlin`\n  expected: one of "),
        ("\"file\"", "\"fil\"", "s.toml:5:11: unknown backend `fil`\n  expected: one of null, memory, file"),
        ("device = \"d\"", "device = \"e\"", "s.toml:10:10: unknown device `e`\n  expected: one of d"),
        ("path =", "pat =", "s.toml:6:1: unknown field `pat`"),
        ("path = \"disk.img\"", "", "s.toml:3:1: backend file needs the key `path`"),
        ("path =", "model = \"hdd\"\npath =", "s.toml:6:9: backend file takes no key `model`"),
        (
            "unix:/run",
            "unux:/run",
            "s.toml:2:10: `unux:/run/ioweir.sock` is not a place to listen at; expected \"unix:",
        ),
        ("unix:/run/ioweir.sock", "tcp:localhost", "s.toml:2:10: `tcp:localhost` is not an address with a port"),
        ("weight = 100", "weight = 0", "s.toml:11:10: weight: 0 is out of range\n  expected: 1 to 10000"),
        ("weight = 100", "weight = -1", "s.toml:11:10: invalid value: integer `-1`, expected u32"),
        ("\"sfq\"", "\"noop\"", "s.toml:11:10: weight: scheduler noop knows no shares"),
        (
            "weight = 100",
            "limit_per_second = 3\nreservation_per_second = 4",
            "s.toml:12:26: the limit, 3/s, is below the reservation",
        ),
        ("scheduler", "size = \"4\"\nscheduler", "s.toml:7:8: size `4` has no unit"),
        (
            "[[export]]",
            "[[device]]\nname = \"d\"\nbackend = \"null\"\nsize = \"1k\"\n[[export]]",
            "s.toml:9:8: device name `d`",
        ),
        ("name = \"a\"", "name = \"a", "s.toml:9:10: "),
        ("[[export]]", "[device.cores]\nworkers = 2\n[[export]]", "s.toml:8:1: cores: the device has no checksums"),
        (
            "[[export]]",
            "checksums = true\ncores = { schedule = \"quats\" }\n[[export]]",
            "s.toml:9:22: unknown schedule `quats`\n  expected: one of baseline, rs-to-hq",
        ),
        (
            "[[export]]",
            "checksums = true\ncores = { workers = 0 }\n[[export]]",
            "s.toml:9:21: workers: 0 is out of range\n  expected: 1 to 256",
        ),
    ] {
        let error = wrong(from, to);
        assert!(error.starts_with(beginning), "{beginning}\n--- is not the beginning of ---\n{error}");
    }
    assert!(wrong("\"sfq\"", "\"bid-hybrid\"").contains("places data on a second device"));
    assert!(Spec::parse("s.toml", "").unwrap_err().to_string().starts_with("s.toml: there is nothing to serve"));
}
