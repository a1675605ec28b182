//! What a spec says of mirrors.

use ioweir_serve::spec::{Backend, Spec};

const MIRROR: &str = r#"[[device]]
name = "d"
backend = "mirror"
region = "64KiB"
[[device.leg]]
backend = "file"
path = "one"
depth = 4
[[device.leg]]
backend = "file"
path = "two"
[service.resync]
kind = "resync"
device = "d"
[[export]]
name = "a"
device = "d"
"#;

#[test]
fn a_spec_of_a_mirror_reads_back_and_has_the_depth_of_its_shallowest_leg() {
    let spec = Spec::parse("s.toml", MIRROR).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(Spec::parse("s.toml", &spec.to_toml()).unwrap(), spec, "{}", spec.to_toml());
    assert_eq!(spec.device[0].depth, 4);
    let Backend::Mirror { ref leg, .. } = spec.device[0].backend else { panic!("{spec:?}") };
    assert_eq!(leg.len(), 2);
}

#[test]
fn what_makes_no_sense_about_mirrors_is_said_with_its_place() {
    let one = "[[device.leg]]\nbackend = \"file\"\npath = \"two\"\n";
    let ninth = "[[device.leg]]\nbackend = \"memory\"\nsize = \"1MiB\"\n".repeat(8);
    for (from, to, beginning) in [
        (one, "", "s.toml:5:1: leg: a mirror of 1 has none that another one could replace"),
        (one, &ninth, "s.toml:5:1: leg: 9 are too many"),
        ("\"64KiB\"", "\"65KiB\"", "s.toml:4:10: region is not a power of two"),
        ("\"64KiB\"", "\"2KiB\"", "s.toml:4:10: region: 2KiB is out of range"),
        ("\"two\"", "\"one\"", "s.toml:11:8: file one is used already"),
        (
            "backend = \"file\"\npath = \"two\"",
            "backend = \"null\"\nsize = \"1MiB\"",
            "s.toml:10:11: a leg is of backend null",
        ),
        (
            "backend = \"file\"\npath = \"two\"",
            "backend = \"mirror\"",
            "s.toml:10:11: backend mirror is no part of another device",
        ),
        ("path = \"two\"", "path = \"two\"\nmodel = \"hdd\"", "s.toml:12:9: backend file takes no key `model`"),
        ("region = \"64KiB\"", "path = \"x\"", "s.toml:4:8: backend mirror takes no key `path`"),
        ("kind = \"resync\"", "kind = \"scrub\"\nstate = \"x\"", "s.toml:3:11: nothing would copy to a leg"),
        ("\"mirror\"\n", "\"memory\"\nsize = \"1MiB\"\n", "s.toml:6:1: backend memory takes no key `leg`"),
    ] {
        assert!(MIRROR.contains(from), "{from}");
        let error = Spec::parse("s.toml", &MIRROR.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with(beginning), "{beginning}\n--- is not the beginning of ---\n{error}");
    }
}

#[test]
fn the_example_is_a_mirror_of_two_files() {
    let spec = Spec::parse("mirror.toml", include_str!("../../../../../examples/mirror.toml"));
    let spec = spec.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(spec.device[0].backend.name(), "mirror");
}
