//! Hints for errors of the TOML reader in device files.

use ioweir_config::Complaint;

const BEGIN: &str = "begin it with [hdd], [ssd], [tiered] or [null]";
const SHOW: &str = "`ioweir show` prints a preset with every parameter there is";
const HINTS: &[(&str, &str)] = &[
    ("expected one of `hdd`, `null`, `ssd`, `tiered`", BEGIN),
    (
        "expected one of `table`, `hpl`, `datasheet`",
        "a seek curve is [hdd.seek.table], [hdd.seek.hpl] or [hdd.seek.datasheet]",
    ),
    (
        "expected `conventional` or `serpentine`",
        "write layout = \"conventional\" or layout = { serpentine = { bundle_cylinders = 65 } }",
    ),
    (
        "`hit_ratio`, `map`, `lru`, `arc`",
        "write placement = { hit_ratio = 0.5 } or placement = { lru = { capacity = \"10GiB\", block = \"64KiB\" } }",
    ),
    ("expected one of `fresh`, `filled`, `steady`", "a drive begins fresh, filled or steady"),
    ("unknown field", SHOW),
    ("unexpected keys", SHOW),
    ("missing field", SHOW),
    (
        "with a unit",
        "durations, sizes, rates and skews are text with a unit: \"8.5ms\", \"250GB\", \"300MB/s\", \"97sectors\"",
    ),
];

/// An error of the TOML reader.
pub(super) fn from_toml(error: &toml::de::Error) -> Complaint {
    let message = error.message();
    if !message.contains("wanted exactly 1 element") {
        return Complaint::of_toml(error, HINTS);
    }
    let found = if message.contains("more than 1") { "several" } else { "none" };
    let problem = format!("a device file holds one device, this one holds {found}");
    Complaint::at(error.span().unwrap_or_default(), problem).hint(BEGIN)
}
