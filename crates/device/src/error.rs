//! What does an error of the TOML reader mean to somebody who writes a device file?

use ioweir_config::Complaint;

/// An error of the TOML reader.
pub(super) fn from_toml(error: &toml::de::Error) -> Complaint {
    let message = error.message();
    let has = |part: &str| message.contains(part);
    let (problem, hint) = if has("wanted exactly 1 element") {
        let found = if has("more than 1") { "several" } else { "none" };
        (
            format!("a device file holds one device, this one holds {found}"),
            "begin it with [hdd], [ssd], [tiered] or [null]",
        )
    } else if has("expected one of `hdd`, `null`, `ssd`, `tiered`") {
        (message.to_owned(), "a device file holds one device: begin it with [hdd], [ssd], [tiered] or [null]")
    } else if has("expected one of `table`, `hpl`, `datasheet`") {
        (message.to_owned(), "a seek curve is [hdd.seek.table], [hdd.seek.hpl] or [hdd.seek.datasheet]")
    } else if has("expected `conventional` or `serpentine`") {
        (message.to_owned(), "write layout = \"conventional\" or layout = { serpentine = { bundle_cylinders = 65 } }")
    } else if has("`hit_ratio`, `map`, `lru`, `arc`") {
        (
            message.to_owned(),
            "write placement = { hit_ratio = 0.5 } or placement = { lru = { capacity = \"10GiB\", block = \"64KiB\" } }",
        )
    } else if has("expected one of `fresh`, `filled`, `steady`") {
        (message.to_owned(), "a drive begins fresh, filled or steady")
    } else if has("unknown field") || has("unexpected keys") || has("missing field") {
        (message.to_owned(), "`ioweir show` prints a preset with every parameter there is")
    } else if has("with a unit") {
        let hint =
            "durations, sizes, rates and skews are text with a unit: \"8.5ms\", \"250GB\", \"300MB/s\", \"97sectors\"";
        (message.to_owned(), hint)
    } else {
        (message.to_owned(), "")
    };
    Complaint::of_toml(error).told(problem).hint(hint)
}
