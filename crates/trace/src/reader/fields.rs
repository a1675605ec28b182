//! Parses the columns of a line: numbers, durations and words.

use ioweir_core::Operation;

use crate::reader::number::{Fault, Faulty, field, field32, quote};

/// The start and end of a column in its line.
pub(crate) type Span = (usize, usize);

/// The most columns of a line with a heading.
const COLUMNS_MAX: usize = 256;

/// The bytes of a column.
#[inline]
pub(crate) fn text(line: &[u8], span: Span) -> &[u8] {
    &line[span.0..span.1]
}

/// A whole number in decimal digits.
#[inline]
pub(crate) fn whole(line: &[u8], span: Span, what: &str) -> Faulty<u64> {
    field(line, span.0, span.1, what)
}

/// A span without the blanks around it.
pub(crate) fn trimmed(line: &[u8], (mut start, mut end): Span) -> Span {
    while start < end && line[start].is_ascii_whitespace() {
        start += 1;
    }
    while end > start && line[end - 1].is_ascii_whitespace() {
        end -= 1;
    }
    (start, end)
}

/// The words from `at` on, up to the end of the line.
pub(crate) fn word_spans(line: &[u8], mut at: usize) -> impl Iterator<Item = Span> {
    std::iter::from_fn(move || {
        while at < line.len() && line[at].is_ascii_whitespace() {
            at += 1;
        }
        let start = at;
        while at < line.len() && !line[at].is_ascii_whitespace() {
            at += 1;
        }
        (at > start).then_some((start, at))
    })
}

#[cold]
pub(crate) fn wrong_count(line: &[u8], count: usize, expected: &str) -> Box<Fault> {
    Fault::new(line.len(), format!("the line has {count} columns")).expected(expected)
}

/// The operation named by a word.
#[inline]
pub(crate) fn choice(line: &[u8], span: Span, what: &str, known: &[(&str, Operation)]) -> Faulty<Operation> {
    let found = text(line, span);
    match known.iter().find(|(word, _)| word.as_bytes() == found) {
        Some((_, operation)) => Ok(*operation),
        None => Err(unknown(found, span.0, what, known)),
    }
}

#[cold]
fn unknown(found: &[u8], at: usize, what: &str, known: &[(&str, Operation)]) -> Box<Fault> {
    let problem =
        if found.is_empty() { format!("{what} is missing") } else { format!("{what} {} is not known", quote(found)) };
    Fault::new(at, problem).expected(words(known))
}

/// The known words, with their operations if the words are numbers.
pub(crate) fn words(known: &[(&str, Operation)]) -> String {
    let numbers = known.iter().any(|(word, _)| word.bytes().all(|byte| byte.is_ascii_digit()));
    let word = |(word, operation): &(&str, Operation)| match numbers {
        true => format!("{word} for a {}", operation.name()),
        false => (*word).to_owned(),
    };
    known.iter().map(word).collect::<Vec<_>>().join(" or ")
}

/// A process as `Name ( number)`; the number is -1 if it is not known.
pub(crate) fn process_of(line: &[u8], span: Span) -> Faulty<(u32, Span)> {
    let bytes = text(line, span);
    let open = bytes.iter().rposition(|&byte| byte == b'(');
    let (Some(open), Some(b')')) = (open, bytes.last()) else {
        return Err(Fault::new(span.0, format!("process {} is not known", quote(bytes))).expected("Name ( PID)"));
    };
    let command = trimmed(line, (span.0, span.0 + open));
    let number = trimmed(line, (span.0 + open + 1, span.1 - 1));
    if text(line, number) == b"-1" {
        return Ok((u32::MAX, command));
    }
    Ok((field32(line, number.0, number.1, "PID")?, command))
}

/// A whole number in hexadecimal, with or without `0x`.
pub(crate) fn hexadecimal(line: &[u8], span: Span, what: &str) -> Faulty<u64> {
    let bytes = text(line, span);
    let digits = bytes.strip_prefix(b"0x").or_else(|| bytes.strip_prefix(b"0X")).unwrap_or(bytes);
    // `from_str_radix` would accept a sign as well.
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let parsed = std::str::from_utf8(digits).ok().filter(|_| valid).map(|text| u64::from_str_radix(text, 16));
    match parsed {
        Some(Ok(value)) => Ok(value),
        _ => Err(no_hexadecimal(bytes, span.0, what)),
    }
}

#[cold]
fn no_hexadecimal(bytes: &[u8], at: usize, what: &str) -> Box<Fault> {
    Fault::new(at, format!("{what} {} is not a hexadecimal number of 64 bits", quote(bytes)))
        .expected(format!("{what} in hexadecimal digits, such as 0x1f00"))
}

/// The unit of a number with decimals, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl Unit {
    pub(crate) const fn decimals(self) -> usize {
        match self {
            Self::Seconds => 9,
            Self::Milliseconds => 6,
            Self::Microseconds => 3,
            Self::Nanoseconds => 0,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        }
    }
}

/// A duration with or without decimals, in nanoseconds; fractions of a nanosecond are dropped.
#[inline]
pub(crate) fn duration(line: &[u8], span: Span, unit: Unit, what: &str) -> Faulty<u64> {
    let bytes = text(line, span);
    match fixed(bytes, unit.decimals()) {
        Some(Some(nanos)) => Ok(nanos),
        Some(None) => Err(too_large(bytes, span.0, what)),
        None => Err(no_duration(bytes, span.0, unit, what)),
    }
}

/// A decimal number times ten to the power of `decimals`: `None` if it is no number, `Some(None)` if it is too large.
fn fixed(bytes: &[u8], decimals: usize) -> Option<Option<u64>> {
    let point = bytes.iter().position(|&byte| byte == b'.').unwrap_or(bytes.len());
    let (whole, fraction) = (&bytes[..point], bytes.get(point + 1..).unwrap_or_default());
    if whole.is_empty() || point + 1 == bytes.len() {
        return None;
    }
    let mut value = Some(0_u64);
    let digits = whole.iter().chain(fraction.iter().take(decimals));
    for &byte in digits.chain(std::iter::repeat_n(&b'0', decimals.saturating_sub(fraction.len()))) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.and_then(|value| value.checked_mul(10)?.checked_add(u64::from(digit)));
    }
    if fraction.iter().any(|byte| !byte.is_ascii_digit()) {
        return None;
    }
    Some(value)
}

#[cold]
fn too_large(bytes: &[u8], at: usize, what: &str) -> Box<Fault> {
    Fault::new(at, format!("{what} {} does not fit 64 bits of nanoseconds", quote(bytes)))
}

#[cold]
fn no_duration(bytes: &[u8], at: usize, unit: Unit, what: &str) -> Box<Fault> {
    let shown = quote(bytes);
    let problem = match bytes {
        [] => format!("{what} is missing"),
        [b'-', ..] => format!("negative {what} {shown}"),
        _ => format!("{what} {shown} is not a number of {}", unit.name()),
    };
    Fault::new(at, problem).expected(format!("{what} as {} in decimal digits, such as 12.5", unit.name()))
}

/// Columns between separators. A separator in double quotes does not separate, and quotes around a column are removed.
pub(crate) fn split_quoted(line: &[u8], separator: u8, spans: &mut Vec<Span>) -> Faulty<()> {
    spans.clear();
    let (mut start, mut quoted) = (0, false);
    for at in 0..=line.len() {
        match line.get(at) {
            Some(b'"') => quoted = !quoted,
            Some(&byte) if byte != separator || quoted => {}
            _ => {
                let (from, to) = trimmed(line, (start, at));
                let bare = to >= from + 2 && line[from] == b'"' && line[to - 1] == b'"';
                spans.push(if bare { (from + 1, to - 1) } else { (from, to) });
                start = at + 1;
            }
        }
        if spans.len() > COLUMNS_MAX {
            return Err(Fault::new(at, format!("the line has more than {COLUMNS_MAX} columns")));
        }
    }
    if quoted { Err(Fault::new(line.len(), "a quote is not closed")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nanos(text: &str, unit: Unit) -> Option<u64> {
        duration(text.as_bytes(), (0, text.len()), unit, "time").ok()
    }

    #[test]
    fn durations_are_whole_numbers_of_nanoseconds() {
        assert_eq!(nanos("12.000345", Unit::Seconds), Some(12_000_345_000));
        assert_eq!(nanos("4757.708232", Unit::Microseconds), Some(4_757_708));
        assert_eq!(nanos("0.25", Unit::Milliseconds), Some(250_000));
        assert_eq!(nanos("7", Unit::Nanoseconds), Some(7));
        assert_eq!(nanos("7.9", Unit::Nanoseconds), Some(7));
        for bad in ["", ".", "1.", ".5", "-1", "1e3", "1.x", "1.0000000000x", "99999999999999999999"] {
            assert_eq!(nanos(bad, Unit::Seconds), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn duration_in_seconds_agrees_with_other_readers(text in "[0-9]{1,12}[.][0-9]{1,9}") {
            let other = crate::reader::number::seconds(text.as_bytes(), 0, text.len(), "time").ok();
            prop_assert_eq!(nanos(&text, Unit::Seconds), other);
        }

        #[test]
        fn no_line_is_too_strange_to_be_cut(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = process_of(&line, (0, line.len()));
            let _ = split_quoted(&line, b',', &mut Vec::new());
            let _ = hexadecimal(&line, (0, line.len()), "");
            let _ = nanos(&String::from_utf8_lossy(&line), Unit::Milliseconds);
        }
    }

    #[test]
    fn a_separator_in_quotes_is_none() {
        let mut spans = Vec::new();
        let line = b"a, \"b, c\" ,\"\",d";
        split_quoted(line, b',', &mut spans).expect("quotes are closed");
        let found: Vec<&[u8]> = spans.iter().map(|span| text(line, *span)).collect();
        assert_eq!(found, [&b"a"[..], b"b, c", b"", b"d"]);
        assert!(split_quoted(b"a,\"b", b',', &mut spans).is_err());
    }

    #[test]
    fn hexadecimal_takes_digits_only() {
        let parse = |text: &[u8]| hexadecimal(text, (0, text.len()), "x").ok();
        assert_eq!(parse(b"0x1F"), Some(31));
        assert_eq!(parse(b"ffffffffffffffff"), Some(u64::MAX));
        for bad in [&b""[..], b"0x", b"+1", b"0x1g", b"10000000000000000"] {
            assert_eq!(parse(bad), None);
        }
    }
}
