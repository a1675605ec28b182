//! Rules of the spec file: the smallest one works, everything is printed with defaults, and errors have their place.

use crate::certificates::Files;
use ioweir_config::{IoPriority, KeySet as _, SchedulerChoice, ShareKeys};
use ioweir_core::policy::{Limits, POLICIES};
use ioweir_core::tenant::GroupId;
use ioweir_core::{Priority, StreamId};
use ioweir_serve::spec::{Backend, Holder, Spec, class_of};

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
fn the_smallest_spec_gets_defaults_and_reads_back() {
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
fn wrong_workers_are_said_with_their_place() {
    let wrong = |from: &str, to: &str| Spec::parse("s.toml", &SMALLEST.replace(from, to)).unwrap_err().to_string();
    for (from, to, beginning) in [
        ("[[export]]", "[device.cores]\nworkers = 2\n[[export]]", "s.toml:8:1: cores: the device has no checksums"),
        (
            "[[export]]",
            "checksums = true\ncores = { schedule = \"quats\" }\n[[export]]",
            "s.toml:9:22: unknown schedule `quats`: did you mean `qats`?\n  expected: one of baseline, rs-to-hq",
        ),
        ("[[export]]", "[cores]\nworkers = 2\n[[export]]", "s.toml:8:1: cores: no device would use these workers"),
        (
            "[[export]]",
            "checksums = true\n[cores]\nworkers = 300\n[[export]]",
            "s.toml:10:11: workers: 300 is out of range\n  expected: 1 to 256",
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
}

#[test]
fn devices_share_cores_unless_they_have_their_own() {
    let device = |name: &str, keys: &str| {
        format!("[[device]]\nname = \"{name}\"\nbackend = \"null\"\nsize = \"1GiB\"\n{keys}\n")
    };
    let own = "checksums = true\n[device.cores]\nschedule = \"sord\"";
    let devices = [device("a", "checksums = true"), device("b", own), device("c", "")].concat();
    let text =
        format!("[cores]\nschedule = \"qats\"\nworkers = 2\n{devices}[[export]]\nname = \"a\"\ndevice = \"a\"\n");
    let spec = Spec::parse("s.toml", &text).unwrap();
    let schedules: Vec<Option<String>> = spec
        .device
        .iter()
        .map(|device| spec.workers_of(device).map(|workers| workers.schedule.row.name.to_string()))
        .collect();
    assert_eq!(schedules, [Some("qats".into()), Some("sord".into()), None]);
    assert_eq!(Spec::parse("s.toml", &spec.to_toml()).unwrap(), spec, "{}", spec.to_toml());
    // Without the table, each device has its own workers.
    let text = text.replace("[cores]\nschedule = \"qats\"\nworkers = 2\n", "");
    let spec = Spec::parse("s.toml", &text).unwrap();
    assert!(spec.device[0].cores.is_some() && !spec.device[0].shares_cores());
}

#[test]
fn limits_in_bytes_are_sizes_and_read_back() {
    let limits = "limit_bytes = \"10MiB/s\"\nburst_bytes = \"1MiB\"";
    let spec = Spec::parse("s.toml", &SMALLEST.replace("weight = 100", limits)).unwrap();
    let share = spec.export[0].share.share(100);
    assert_eq!((share.limit_bytes_per_second, share.burst_bytes, share.limit_per_second), (10 << 20, 1 << 20, 0));
    let printed = spec.to_toml();
    assert!(printed.contains(limits), "{printed}");
    assert_eq!(Spec::parse("s.toml", &printed).unwrap(), spec);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let wrong = |from: &str, to: &str| Spec::parse("s.toml", &SMALLEST.replace(from, to)).unwrap_err().to_string();
    for (from, to, beginning) in [
        (
            "\"sfq\"",
            "\"deadlin\"",
            "s.toml:7:13: unknown scheduler `deadlin`: did you mean `deadline`?\n  expected: one of ",
        ),
        ("\"file\"", "\"fil\"", "s.toml:5:11: unknown backend `fil`\n  expected: one of null, memory, file"),
        ("device = \"d\"", "device = \"e\"", "s.toml:10:10: unknown device `e`\n  expected: one of d"),
        ("path =", "pat =", "s.toml:6:1: unknown field `pat`"),
        ("path = \"disk.img\"", "", "s.toml:3:1: backend file needs the key `path`"),
        ("path =", "model = \"hdd\"\npath =", "s.toml:6:9: backend file takes no key `model`"),
        (
            "unix:/run",
            "unux:/run",
            "s.toml:2:11: `unux:/run/ioweir.sock` is not a place to listen at; expected \"unix:",
        ),
        ("unix:/run/ioweir.sock", "tcp:localhost", "s.toml:2:11: `tcp:localhost` is not an address with a port"),
        ("weight = 100", "weight = 0", "s.toml:11:10: weight: 0 is out of range\n  expected: 1 to 10000"),
        (
            "weight = 100",
            "weight = -1",
            "s.toml:11:10: weight: invalid value: integer `-1`, expected a whole number without quotes",
        ),
        (
            "weight = 100",
            "limit_bytes = 10",
            "s.toml:11:15: limit_bytes: invalid type: integer `10`, expected text with a unit",
        ),
        ("weight = 100", "limit_bytes = \"10\"", "s.toml:11:15: `10` is not a rate\n  expected: a rate with a unit"),
        (
            "weight = 100",
            "burst_bytes = \"1MiB\"",
            "s.toml:11:15: burst_bytes: without limit_bytes this would change nothing",
        ),
        (
            "weight = 100",
            "limit_bytes = \"2TiB/s\"",
            "s.toml:11:15: 2199023255552 bytes/s are more than 1099511627776 bytes/s",
        ),
        ("\"sfq\"", "\"noop\"", "s.toml:11:10: weight: scheduler noop knows no shares"),
        (
            "weight = 100",
            "reservation = \"4/s\"",
            "s.toml:11:15: reservation: scheduler sfq keeps no reservations, so that this would change nothing",
        ),
        ("scheduler", "size = \"4\"\nscheduler", "s.toml:7:8: size `4` has no unit"),
        (
            "[[export]]",
            "[[device]]\nname = \"d\"\nbackend = \"null\"\nsize = \"1k\"\n[[export]]",
            "s.toml:9:8: device name `d`",
        ),
        ("name = \"a\"", "name = \"a", "s.toml:9:10: "),
    ] {
        let error = wrong(from, to);
        assert!(error.starts_with(beginning), "{beginning}\n--- is not the beginning of ---\n{error}");
    }
    assert!(wrong("\"sfq\"", "\"bid-hybrid\"").contains("places data on a second device"));
    assert!(Spec::parse("s.toml", "").unwrap_err().to_string().starts_with("s.toml: there is nothing to serve"));
}

const CLASSES: &str = r#"[server]
listen = ["unix:/run/ioweir.sock"]
control = "unix:/run/ioweir.control"
watch = "tcp:127.0.0.1:9090"
[[device]]
name = "d"
backend = "null"
size = "1GiB"
scheduler = "mclock"
[[group]]
name = "g"
device = "d"
weight = 7
[[export]]
name = "a"
device = "d"
group = "g"
weight = 2
[[export]]
name = "b"
device = "d"
[[tenant]]
name = "t"
export = "b"
certificate = "t.example"
limit = "50/s"
"#;

/// [`CLASSES`], and behind it what tenants need.
fn classes_with_tls() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let table = Files::new(folder.path()).table("clients = \"FOLDER/ca.pem\"");
    (folder, format!("{CLASSES}{table}"))
}

#[test]
fn classes_are_exports_then_tenants_told_by_certificate() {
    let (_folder, text) = classes_with_tls();
    let spec = Spec::parse("s.toml", &text).unwrap();
    // The scheduler has room for the groups of the spec.
    assert!(spec.to_toml().contains("scheduler = \"mclock:groups=1\""), "{}", spec.to_toml());
    assert_eq!(Spec::parse("s.toml", &spec.to_toml()).unwrap(), spec);
    let classes = spec.classes();
    let names: Vec<_> = classes.iter().map(|class| (class.name.as_str(), class.kind.name(), class.export)).collect();
    assert_eq!(names, [("a", "export", Some(0)), ("b", "export", Some(1)), ("t", "tenant", Some(1))]);
    let of = |export, names: &[&str]| {
        class_of(&classes, export, &names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>())
    };
    assert_eq!([of(0, &[]), of(1, &[]), of(1, &["x", "t.example"]), of(0, &["t.example"])], [0, 1, 2, 0]);
    assert_eq!(of(1, &["*.example", "*"]), 1, "a wildcard in a certificate is no other name");
    let told = spec.entitlements(0);
    assert_eq!((told.len(), told[0].0, told[0].1.weight), (4, Holder::Group(GroupId(0)), 7));
    assert_eq!((told[1].0, told[1].1.group), (Holder::Class(StreamId(0)), Some(GroupId(0))));
    assert_eq!((told[3].1.group, told[3].1.limit_per_second), (None, 50));
}

#[test]
fn certificates_of_two_tenants_are_the_firsts() {
    let (_folder, text) = classes_with_tls();
    let more = "[[tenant]]\nname = \"u\"\nexport = \"b\"\ncertificate = \"u.example\"\n";
    let classes =
        Spec::parse("s.toml", &text.replace("[server.tls]", &format!("{more}[server.tls]"))).unwrap().classes();
    for names in [["t.example", "u.example"], ["u.example", "t.example"]] {
        assert_eq!(classes[class_of(&classes, 1, &names.map(String::from))].name, "t");
    }
}

#[test]
fn a_share_key_is_read_or_refused() {
    let names: Vec<&str> = ShareKeys::keys().iter().map(|key| key.name).filter(|name| *name != "group").collect();
    let pairs = ["sfq+deadline", "sfq+deadline:window=adaptive", "fifo+bfq", "mclock+cfq"].map(String::from);
    let alone = POLICIES.iter().filter(|row| !row.places).map(|row| row.name.to_string());
    for scheduler in alone.chain(pairs) {
        let choice: SchedulerChoice = scheduler.parse().unwrap();
        let reads = choice.reads();
        for name in names.iter().copied().chain(["priority"]) {
            let (value, is_read) = match name {
                "weight" => ("7", reads.weight),
                "reservation" => ("\"5/s\"", reads.reservation),
                "latency" => ("\"10ms\"", reads.latency),
                "burst" => ("9", reads.burst),
                "limit" => ("\"50/s\"", choice.row.limits == Limits::Both),
                "limit_bytes" => ("\"1MiB/s\"", choice.row.limits == Limits::Both),
                "riops" | "wiops" => ("\"50/s\"", choice.row.limits == Limits::Directions),
                "rbps" | "wbps" => ("\"1MiB/s\"", choice.row.limits == Limits::Directions),
                // Without a limit in bytes.
                "burst_bytes" => ("\"1MiB\"", false),
                "priority" => ("\"idle\"", reads.priority),
                _ => panic!("say who reads {name}"),
            };
            let key = format!("{name} = {value}");
            let parse = |keys: &str| {
                let text = SMALLEST.replace("\"sfq\"", &format!("\"{scheduler}\"")).replace("weight = 100", keys);
                Spec::parse("s.toml", &text)
            };
            match parse(&key) {
                Ok(spec) => {
                    assert!(is_read, "{scheduler} ignores {name}");
                    assert_eq!(Spec::parse("s.toml", &spec.to_toml()).unwrap(), spec);
                }
                Err(error) => {
                    let error = error.to_string();
                    let is_limit = ["limit", "limit_bytes", "riops", "wiops", "rbps", "wbps"].contains(&name);
                    let says_why = error.contains("would change nothing")
                        || is_limit && error.contains("the scheduler does not keep this limit");
                    assert!(!is_read && says_why, "{scheduler}: {error}");
                    assert!(error.starts_with(&format!("s.toml:11:{}: {name}: ", name.len() + 4)), "{error}");
                }
            }
            let has_iops = name.ends_with("iops") && choice.row.knows_shares;
            if let (Err(error), true) = (parse(&format!("weight = 100\n{key}")), has_iops) {
                assert!(error.to_string().starts_with(&format!("s.toml:12:9: {name}: ")), "{error}");
            }
            if name == "burst" {
                let keeps = choice.row.limits == Limits::Both;
                assert_eq!(parse("limit = \"50/s\"\nburst = 9").is_ok(), keeps, "{scheduler}");
            }
        }
    }
}

#[test]
fn every_order_reads_weights_within_a_group() {
    let group = "[[group]]\nname = \"g\"\ndevice = \"d\"\n";
    for row in POLICIES.iter().filter(|row| row.knows_shares) {
        let text = SMALLEST.replace("\"sfq\"", &format!("\"{}\"", row.name));
        let text = format!("{}group = \"g\"\n{group}", text.replace("weight = 100", "weight = 7"));
        assert!(Spec::parse("s.toml", &text).is_ok(), "{}", row.name);
    }
}

#[test]
fn a_wildcard_for_certificates_is_refused() {
    let (_folder, text) = classes_with_tls();
    for (from, to, place) in [
        ("\"t.example\"", "\"*.example\"", "s.toml:25:15: "),
        ("name = \"b\"", "name = \"b\"\nallow = [\"certificate:*.example\"]", "s.toml:22:9: "),
    ] {
        let text = text.replace("name = \"a\"", "name = \"a\"\nallow = [\"anyone\"]").replacen(from, to, 1);
        let text = if to.contains("allow") { text } else { text.replace("allow = [\"anyone\"]\n", "") };
        let error = Spec::parse("s.toml", &text).unwrap_err().to_string();
        assert!(error.starts_with(place) && error.contains("letter by letter"), "{error}");
    }
}

#[test]
fn tenants_inherit_the_priority_of_their_export() {
    let (_folder, text) = classes_with_tls();
    let text = text.replace("\"mclock\"", "\"mclock+bfq\"");
    let of = |export: &str, tenant: &str| {
        let text = text.replace("name = \"b\"", &format!("name = \"b\"\n{export}"));
        let spec = Spec::parse("s.toml", &text.replace("name = \"t\"", &format!("name = \"t\"\n{tenant}"))).unwrap();
        assert_eq!(Spec::parse("s.toml", &spec.to_toml()).unwrap(), spec);
        spec.priorities()
    };
    let [idle, first] = ["idle", "realtime:0"].map(|text| text.parse::<IoPriority>().unwrap().0);
    let none = Priority::NONE;
    assert_eq!(of("", ""), [none, none, none]);
    assert_eq!(of("priority = \"idle\"", ""), [none, idle, idle]);
    assert_eq!(of("priority = \"idle\"", "priority = \"realtime:0\""), [none, idle, first]);
    let wrong =
        Spec::parse("s.toml", &SMALLEST.replace("weight = 100", "priority = \"be:0\"")).unwrap_err().to_string();
    assert!(wrong.starts_with("s.toml:11:12: ") && wrong.contains("be:0"), "{wrong}");
}

#[test]
fn errors_in_classes_are_reported_with_their_place() {
    let (_folder, text) = classes_with_tls();
    let wrong = |from: &str, to: &str| Spec::parse("s.toml", &text.replacen(from, to, 1)).unwrap_err().to_string();
    for (from, to, beginning) in [
        ("group = \"g\"", "group = \"h\"", "s.toml:17:9: unknown group of device d `h`\n  expected: one of g"),
        ("\"mclock\"", "\"noop\"", "s.toml:11:8: group: scheduler noop knows no shares"),
        ("weight = 2", "reservation = \"2/s\"", "s.toml:18:15: 2/s cannot be reserved for a client in a group"),
        (
            "limit = \"50/s\"",
            "limit = \"3/s\"\nreservation = \"4/s\"",
            "s.toml:27:15: the limit, 3/s, is below the reservation",
        ),
        ("name = \"t\"", "name = \"a\"", "s.toml:23:8: tenant name `a` is empty, or taken"),
        ("export = \"b\"", "export = \"c\"", "s.toml:24:10: unknown export `c`"),
        ("\"t.example\"", "\"\"", "s.toml:25:15: certificate `` is empty"),
        ("certificate = \"t.example\"", "", "s.toml:22:1: missing field `certificate`"),
        ("clients =", "# clients =", "s.toml:25:15: certificate: no client is asked for one"),
        ("\"mclock\"", "\"mclock:clients=2\"", "s.toml:23:8: there are places for 2 clients"),
        (
            "unix:/run/ioweir.control",
            "tcp:127.0.0.1:1",
            "s.toml:3:11: control: tcp:127.0.0.1:1 can be reached by others",
        ),
        ("127.0.0.1:9090", "192.0.2.1:9090", "s.toml:4:9: watch: tcp:192.0.2.1:9090 can be reached by others"),
    ] {
        let error = wrong(from, to);
        assert!(error.starts_with(beginning), "{beginning}\n--- is not the beginning of ---\n{error}");
    }
}

#[test]
fn memory_without_room_per_client_is_refused() {
    let spec = |clients: u32, device: &str| {
        let head = format!("[server]\nconnections_max = {clients}\n");
        let text = SMALLEST.replace("[server]\n", &head).replace("[[export]]", &format!("{device}\n[[export]]"));
        Spec::parse("s.toml", &text).map_err(|error| error.to_string())
    };
    assert!(spec(256, "").is_ok());
    let error = spec(257, "").unwrap_err();
    let expected = "s.toml:4:1: buffer_bytes_max: a quarter of 256MiB, divided among connections_max = 257 clients, is 255 KiB \
                    for each, less than one part of a request\n  expected: at least 257MiB";
    assert!(error.starts_with(expected), "{error}");
    // The hint works.
    assert!(
        error.contains("buffer_bytes_max = \"257MiB\", connections_max = 256, or request_bytes_max = \"252KiB\""),
        "{error}"
    );
    assert!(spec(257, "buffer_bytes_max = \"257MiB\"").is_ok() && spec(257, "request_bytes_max = \"252KiB\"").is_ok());
    assert!(spec(4096, "buffer_bytes_max = \"256MiB\"\nrequest_bytes_max = \"16KiB\"").is_ok());
    // Buffers have few sizes: 13 KiB for each client is room for one of 4 KiB, and less than that for none.
    let error = spec(10_000, "buffer_bytes_max = \"512MiB\"\nrequest_bytes_max = \"8KiB\"").unwrap_err();
    assert!(error.contains("connections_max = 8192, or request_bytes_max = \"4KiB\""), "{error}");
    assert!(spec(10_000, "buffer_bytes_max = \"512MiB\"\nrequest_bytes_max = \"4KiB\"").is_ok());
    let error = spec(16_384, "buffer_bytes_max = \"192MiB\"\nrequest_bytes_max = \"4KiB\"").unwrap_err();
    assert!(!error.contains("request_bytes_max ="), "{error}");
}

#[test]
fn the_example_that_packages_install_can_be_served() {
    let spec = Spec::parse("example.toml", include_str!("../../../../packaging/example.toml")).unwrap();
    let said = ioweir_serve::server::check(&spec);
    assert!(said.is_ok(), "{said:?}");
}
