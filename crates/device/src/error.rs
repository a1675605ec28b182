//! Hints for errors of the TOML reader in device files.

use ioweir_config::Complaint;

use crate::KINDS;

const SHOW: &str = "`ioweir show` prints a preset with every parameter there is";
const HINTS: &[(&str, &str)] = &[
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

/// Converts an error of the TOML reader.
pub(super) fn from_toml(error: &toml::de::Error) -> Complaint {
    let message = error.message();
    let kinds: Vec<String> = KINDS.iter().map(|kind| table_name(kind)).collect();
    let listed = |before: &str, after: &str, between: &str| {
        kinds.iter().map(|kind| format!("{before}{kind}{after}")).collect::<Vec<_>>().join(between)
    };
    let begin = format!("begin it with one of {}", listed("[", "]", ", "));
    if !message.contains("wanted exactly 1 element") {
        let unknown = format!("expected one of {}", listed("`", "`", ", "));
        let hints: Vec<(&str, &str)> = [(&*unknown, &*begin)].into_iter().chain(HINTS.iter().copied()).collect();
        return Complaint::of_toml(error, &hints);
    }
    let found = if message.contains("more than 1") { "several" } else { "none" };
    let problem = format!("a device file holds one device, this one holds {found}");
    Complaint::at(error.span().unwrap_or_default(), problem).hint(begin)
}

/// The table of a model in a file: its name in the code, with `_` between words.
pub(super) fn table_name(kind: &str) -> String {
    let mut name = String::new();
    for letter in kind.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::table_name;
    use crate::{DeviceSpec, KINDS};

    #[test]
    fn unknown_model_lists_the_known_ones() {
        for text in ["[disk]\n", "", "[null]\n[hdd]\n"] {
            let error = DeviceSpec::parse("own.toml", text).unwrap_err().to_string();
            let hint = error.split("hint: ").nth(1).unwrap_or_default();
            assert!(KINDS.iter().all(|kind| hint.contains(&format!("[{}]", table_name(kind)))), "{error}");
        }
    }
}
