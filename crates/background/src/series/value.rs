//! Parses values: numbers, numbers with the unit of a rate as a dashboard exports them, and the words for no value.

/// What stands for "not known". Infinity is what a division by zero exports: no more a value than NaN is.
const MISSING: [&str; 12] =
    ["nan", "na", "n/a", "null", "none", "-", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"];

/// Units of rates of things that are counted; a thousand of them may be `K`, as in `1.2K io/s`.
const COUNTED: [&str; 10] = ["io/s", "iops", "ops/s", "ops", "req/s", "reqps", "rd/s", "wr/s", "c/s", "p/s"];
const THOUSANDS: [(&str, f64); 5] = [("", 1.0), ("k", 1e3), ("m", 1e6), ("b", 1e9), ("t", 1e12)];
/// Units of rates of bytes.
const BYTES: [(&str, f64); 9] = [
    ("b/s", 1.0),
    ("kb/s", 1e3),
    ("mb/s", 1e6),
    ("gb/s", 1e9),
    ("tb/s", 1e12),
    ("kib/s", 1024.0),
    ("mib/s", 1_048_576.0),
    ("gib/s", 1_073_741_824.0),
    ("tib/s", 1_099_511_627_776.0),
];

/// Whether a cell says that its value is not known.
pub(super) fn is_missing(text: &[u8]) -> bool {
    text.is_empty() || MISSING.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
}

/// The number in a cell, in units of one: `223`, `223 io/s`, `1.2K io/s`, `3.5 MiB/s`.
pub(super) fn number(text: &[u8], delimiter: u8) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return None;
    }
    plain(text, delimiter).or_else(|| {
        let end = text.find(|character: char| !(character.is_ascii_digit() || "+-.,".contains(character)))?;
        let (value, unit) = text.split_at(end);
        Some(plain(value, delimiter)? * factor(unit)?)
    })
}

fn plain(text: &str, delimiter: u8) -> Option<f64> {
    text.parse().ok().or_else(|| {
        // A decimal comma, if commas do not separate columns.
        if delimiter == b',' { None } else { text.replacen(',', ".", 1).parse().ok() }
    })
}

/// How many of one a unit is.
fn factor(unit: &str) -> Option<f64> {
    let unit = unit.trim().to_ascii_lowercase();
    if let Some((_, factor)) = BYTES.iter().find(|(name, _)| *name == unit) {
        return Some(*factor);
    }
    let prefix = COUNTED.iter().find_map(|name| unit.strip_suffix(name))?.trim_end();
    THOUSANDS.iter().find(|(name, _)| *name == prefix).map(|(_, factor)| *factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_with_its_unit_is_a_number_and_a_name_with_a_digit_is_not() {
        let cases = [
            ("223 io/s", 223.0),
            ("1.2K io/s", 1200.0),
            ("1.5 kio/s", 1500.0),
            ("2 M ops/s", 2e6),
            ("3.5 MiB/s", 3_670_016.0),
            ("-4 kB/s", -4000.0),
            ("7", 7.0),
            ("1e3", 1000.0),
        ];
        for (text, value) in cases {
            assert_eq!(number(text.as_bytes(), b','), Some(value), "{text}");
        }
        for text in ["2 nvme0n1", "10.0.0.7:9100", "3 x io/s", "io/s", "5 %", "1.2.3 io/s"] {
            assert_eq!(number(text.as_bytes(), b','), None, "{text}");
        }
        assert_eq!(number(b"4,5 io/s", b';'), Some(4.5));
    }
}
