//! Formats amounts and foreign text for people: rounded, in a suitable unit, and safe to print on a terminal.

use ioweir_core::Nanos;

/// A span of time in a suitable unit, with three significant digits: `1.25 ms`.
#[must_use]
pub fn format_nanos(span: Nanos) -> String {
    let nanos = span.0 as f64;
    let (value, unit) = match span.0 {
        0 => return "0 s".into(),
        1..1_000 => return format!("{} ns", span.0),
        1_000..1_000_000 => (nanos / 1e3, "us"),
        1_000_000..1_000_000_000 => (nanos / 1e6, "ms"),
        _ if nanos < 7_200e9 => (nanos / 1e9, "s"),
        _ => (nanos / 3_600e9, "h"),
    };
    format!("{} {unit}", significant(value))
}

/// Whether two names are the same as people write them: capitals, `-` and `_` make no difference, so that `BFQ`, `mqdeadline`
/// and `slice_idle` are known.
///
/// ```
/// assert!(ioweir_config::is_same_name("mqdeadline", "mq-deadline") && !ioweir_config::is_same_name("cfq", "bfq"));
/// ```
#[must_use]
pub fn is_same_name(left: &str, right: &str) -> bool {
    fold(left).eq(fold(right))
}

fn fold(name: &str) -> impl Iterator<Item = u8> + '_ {
    name.bytes().filter(|byte| !matches!(byte, b'-' | b'_')).map(|byte| byte.to_ascii_lowercase())
}

/// A number of bytes in a suitable binary unit: `512 KiB`.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 {
        format!("{value} {}", UNITS[unit])
    } else {
        format!("{} {}", significant(value), UNITS[unit])
    }
}

/// A whole number with separated thousands: `1,234,567`.
#[must_use]
pub fn format_count(count: u64) -> String {
    group(&count.to_string())
}

/// A number with `decimals` digits after the point and separated thousands.
#[must_use]
pub fn format_decimals(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", group(whole)),
        None => group(&text),
    }
}

/// At least three significant digits; all digits of the whole part.
fn significant(value: f64) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format_decimals(value, decimals)
}

fn group(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let mut out = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Foreign text, made safe to print: control characters are shown instead of being sent to the terminal.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_invisible(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// Characters that reorder or hide the text around them.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_in_suitable_units() {
        assert_eq!(format_nanos(Nanos(999)), "999 ns");
        assert_eq!(format_nanos(Nanos(1_250_000)), "1.25 ms");
        assert_eq!(format_nanos(Nanos::from_seconds(600)), "600 s");
        assert_eq!(format_nanos(Nanos::from_seconds(86_400)), "24.0 h");
        assert_eq!(format_bytes(512), "512 B");
        assert_eq!(format_bytes(524_288), "512 KiB");
        assert_eq!(format_bytes(1_500_000), "1.43 MiB");
        assert_eq!(format_count(1_234_567), "1,234,567");
        assert_eq!(format_decimals(-1234.5, 1), "-1,234.5");
    }

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        assert_eq!(shown("a\u{1b}[2Jb\u{202e}c"), "a\\u{1b}[2Jb\\u{202e}c");
    }
}
