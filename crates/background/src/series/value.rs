//! Parses values: numbers, numbers with the unit of a rate as a dashboard exports them, and the words for no value.

/// Words for "not known". Infinity is what a division by zero exports: no more a value than NaN is.
const MISSING: [&str; 12] =
    ["nan", "na", "n/a", "null", "none", "-", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"];

/// Units of rates of things that are counted; a thousand of them may be `K`, as in `1.2K io/s`.
const COUNTED: [&str; 14] =
    ["io/s", "iops", "ops/s", "ops", "req/s", "reqps", "rd/s", "wr/s", "c/s", "p/s", "rps", "wps", "cps", "/s"];
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
    let text = text.trim_ascii();
    text.is_empty() || MISSING.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
}

/// Units of times, in seconds.
const TIMES: [(&str, f64); 10] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("μs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("mins", 60.0),
    ("hour", 3600.0),
    ("hours", 3600.0),
];
/// The suffixes of numbers that a dashboard has shortened, with their factors.
const SHORTENED: [(&str, f64); 10] = [
    ("%", 1.0),
    ("k", 1e3),
    ("K", 1e3),
    ("M", 1e6),
    ("Mil", 1e6),
    ("G", 1e9),
    ("B", 1e9),
    ("Bil", 1e9),
    ("T", 1e12),
    ("Tri", 1e12),
];
/// Units of rates of bits, which only their small `b` tells from those of bytes.
const BITS: [(&str, f64); 8] = [
    ("kb/s", 125.0),
    ("Kb/s", 125.0),
    ("Mb/s", 125e3),
    ("Gb/s", 125e6),
    ("kbit/s", 125.0),
    ("Mbit/s", 125e3),
    ("Gbit/s", 125e6),
    ("bit/s", 0.125),
];

/// The marks in the numbers of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// `1,523.75`, `1523.75`
    Point,
    /// `1.523,75`, `1523,75`
    Comma,
    /// A comma stands before three digits wherever there is one: `1,523` may be either.
    Unclear,
}

impl Marks {
    /// The marks that numbers like `cells` have.
    pub(super) fn of<'a>(cells: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut comma, mut unclear, mut small) = (false, false, false);
        for cell in cells {
            let end = cell.iter().position(|byte| !(byte.is_ascii_digit() || b"+-.,".contains(byte)));
            let number = &cell[..end.unwrap_or(cell.len())];
            let number = number.strip_prefix(b"-").unwrap_or(number);
            let count = |mark: u8| number.iter().filter(|byte| **byte == mark).count();
            let last = number.iter().rposition(|byte| b".,".contains(byte));
            match (count(b','), count(b'.'), last) {
                (0, 0, _) => small |= !number.is_empty() && number.len() <= 3,
                (0, 1, Some(at)) if at > 3 || number.len() - at != 4 => return Self::Point,
                (0, 1, _) => {}
                (1, 0, Some(at)) if at == 0 || at > 3 || number.len() - at != 4 || number[0] == b'0' => comma = true,
                (1, 0, _) => unclear = true,
                (_, 0, _) => return Self::Point,
                (0, ..) => return Self::Comma,
                (.., Some(at)) if number[at] == b'.' => return Self::Point,
                _ => return Self::Comma,
            }
        }
        match (comma, unclear) {
            (true, _) => Self::Comma,
            // Below a thousand nothing separates: those beside it have no decimals.
            (false, true) if !small => Self::Unclear,
            _ => Self::Point,
        }
    }
}

/// The number in a cell, in units of one: `223`, `223 io/s`, `1.2K io/s`, `3.5 MiB/s`, `1,523.75`, `1.52 Mil`.
pub(super) fn number(text: &[u8], marks: Marks) -> Option<f64> {
    number_and_unit(text, marks).map(|(value, _)| value)
}

/// As [`number`], and whether the cell states a unit.
pub(super) fn number_and_unit(text: &[u8], marks: Marks) -> Option<(f64, bool)> {
    let text = std::str::from_utf8(text).ok()?;
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return None;
    }
    if let Some(value) = text.parse().ok().filter(|_| marks != Marks::Comma || !text.contains('.')) {
        return Some((value, false));
    }
    let (value, unit) = text.split_at(end_of_number(text));
    Some((plain(value, marks)? * factor(unit)?, !unit.trim().is_empty()))
}

/// Whether a series is of the column with this heading.
#[must_use]
pub fn is_column(series: &str, heading: &str) -> bool {
    series == heading || unit_of_heading(heading).is_some_and(|(_, shown)| shown == series)
}

/// The unit that a heading ends with, such as `Reads (MiB/s)`: how many of one it is, and the heading with that one for it, as
/// `Reads (B/s)`. `None` if it is one already, or none that is known.
pub(super) fn unit_of_heading(heading: &str) -> Option<(f64, String)> {
    let heading = heading.trim();
    let inside = heading.strip_suffix([')', ']'])?;
    let open = inside.rfind(['(', '['])?;
    let (name, unit) = (&inside[..=open], &inside[open + 1..]);
    let factor = factor(unit).filter(|factor| *factor != 1.0)?;
    let lower = unit.trim().to_ascii_lowercase();
    let is_size = |(known, _): &(&str, f64)| known.strip_suffix("/s") == Some(&lower);
    let is_rate = |(known, _): &(&str, f64)| *known == lower || known.strip_suffix("/s") == lower.strip_suffix('s');
    let one = if TIMES.iter().any(|(known, _)| *known == unit) {
        "s"
    } else if BYTES.iter().any(is_size) {
        "B"
    } else if BITS.iter().any(|(known, _)| *known == unit) || BYTES.iter().any(is_rate) {
        "B/s"
    } else {
        COUNTED.iter().find(|known| lower.ends_with(**known))?
    };
    Some((factor, format!("{name}{one}{}", &heading[inside.len()..])))
}

/// The characters between groups of three digits, besides the mark that is not the decimal one.
const BETWEEN: [char; 5] = [' ', '\'', '_', '\u{a0}', '\u{202f}'];

/// Where the number ends that a text begins with. A blank belongs to it if three digits follow.
fn end_of_number(text: &str) -> usize {
    let three = |rest: &str| rest.len() >= 3 && rest.bytes().take(3).all(|byte| byte.is_ascii_digit());
    let is_part = |(at, character): &(usize, char)| {
        character.is_ascii_digit()
            || "+-.,".contains(*character)
            || BETWEEN.contains(character) && three(&text[at + character.len_utf8()..])
    };
    text.char_indices().find(|place| !is_part(place)).map_or(text.len(), |(at, _)| at)
}

/// A number with or without marks between groups of three digits.
fn plain(text: &str, marks: Marks) -> Option<f64> {
    let (decimal, group) = if marks == Marks::Comma { (',', '.') } else { ('.', ',') };
    let (whole, fraction) = text.split_once(decimal).map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let unsigned = whole.trim_start_matches(['+', '-']);
    let mut groups = unsigned.split(|character| character == group || BETWEEN.contains(&character));
    let first = groups.next()?;
    let mut digits = whole[..whole.len() - unsigned.len()].to_owned() + first;
    let mut grouped = false;
    for part in groups {
        grouped = true;
        if part.len() != 3 {
            return None;
        }
        digits.push_str(part);
    }
    if grouped && !(1..=3).contains(&first.len()) {
        return None;
    }
    fraction.iter().for_each(|fraction| digits.extend([".", fraction]));
    digits.parse().ok()
}

/// How many of one a unit is.
fn factor(unit: &str) -> Option<f64> {
    let unit = unit.trim();
    if unit.is_empty() {
        return Some(1.0);
    }
    for units in [&BITS[..], &SHORTENED, &TIMES] {
        if let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) {
            return Some(*factor);
        }
    }
    let lower = unit.to_ascii_lowercase();
    // Units of bytes, with or without a time: `3 MiB`, `3 MiB/s`, `3 MBs`.
    let bytes = |(name, factor): &(&str, f64)| {
        let size = name.strip_suffix("/s").unwrap_or(name);
        (*name == lower || size == lower || lower.strip_suffix('s') == Some(size)).then_some(*factor)
    };
    if let Some(factor) = BYTES.iter().find_map(bytes) {
        return Some(factor);
    }
    let prefix = COUNTED.iter().find_map(|name| lower.strip_suffix(name))?.trim_end();
    THOUSANDS.iter().find(|(name, _)| *name == prefix).map(|(_, factor)| *factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_with_units_are_numbers() {
        let cases = [
            ("223 io/s", 223.0),
            ("1.2K io/s", 1200.0),
            ("1.5 kio/s", 1500.0),
            ("2 M ops/s", 2e6),
            ("3.5 MiB/s", 3_670_016.0),
            ("-4 kB/s", -4000.0),
            ("7", 7.0),
            ("1e3", 1000.0),
            ("1.52 K", 1520.0),
            ("1.5 Mil", 1.5e6),
            ("3 MiB", 3_145_728.0),
            ("8 Mb/s", 1e6),
            ("8 MB/s", 8e6),
            ("5 ms", 0.005),
            ("5 %", 5.0),
            ("1,523,796,462.709", 1_523_796_462.709),
            ("1 523 796", 1_523_796.0),
            ("1'523.5 io/s", 1523.5),
            ("-1,523", -1523.0),
        ];
        for (text, value) in cases {
            assert_eq!(number(text.as_bytes(), Marks::Point), Some(value), "{text}");
        }
        for text in ["2 nvme0n1", "10.0.0.7:9100", "3 x io/s", "io/s", "1.2.3 io/s", "12,34", "1,23,456", "1234,567"] {
            assert_eq!(number(text.as_bytes(), Marks::Point), None, "{text}");
        }
        assert_eq!(number(b"4,5 io/s", Marks::Comma), Some(4.5));
        assert_eq!(number(b"1.523,5", Marks::Comma), Some(1523.5));
        assert_eq!(number(b"1.523", Marks::Comma), Some(1523.0));
    }

    #[test]
    fn units_of_headings_become_units_of_one() {
        let cases = [
            ("Reads (MiB/s)", 1_048_576.0, "Reads (B/s)"),
            ("sda [kB/s]", 1e3, "sda [B/s]"),
            ("Throughput (Mb/s)", 125e3, "Throughput (B/s)"),
            ("Size (GiB)", 1_073_741_824.0, "Size (B)"),
            ("await (ms)", 1e-3, "await (s)"),
            ("rate (kiops)", 1e3, "rate (iops)"),
            ("Disk read (MBs)", 1e6, "Disk read (B/s)"),
        ];
        for (heading, factor, shown) in cases {
            assert_eq!(unit_of_heading(heading), Some((factor, shown.to_owned())), "{heading}");
        }
        for heading in
            ["reads", "rkB/s", "Reads (B/s)", "IOPS (io/s)", "busy (%)", "PhysicalDisk(_Total)", "await (s)", "()"]
        {
            assert_eq!(unit_of_heading(heading), None, "{heading}");
        }
    }

    #[test]
    fn marks_of_a_table_cover_all_its_numbers() {
        let cases: [(&[&str], Marks); 8] = [
            (&["1,523,796.5"], Marks::Point),
            (&["1,523,796"], Marks::Point),
            (&["1.523.796"], Marks::Comma),
            (&["1.523,5"], Marks::Comma),
            (&["1,523", "0,250"], Marks::Comma),
            (&["1,523", "999"], Marks::Point),
            (&["1,523", "2,750"], Marks::Unclear),
            (&["1.523", "2.750"], Marks::Point),
        ];
        for (cells, marks) in cases {
            assert_eq!(Marks::of(cells.iter().map(|cell| cell.as_bytes())), marks, "{cells:?}");
        }
    }
}
