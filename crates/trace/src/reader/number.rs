//! Parses numbers in the bytes of a line or record, and reports errors.

pub(crate) mod endian;

use crate::Position;
use crate::TraceError;

/// An error in one unit of input; the reader adds file and position.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The offset in bytes from the start of the line or record.
    pub(crate) at: usize,
    pub(crate) problem: String,
    pub(crate) expected: String,
    pub(crate) hint: String,
}

/// The error is boxed, so that the usual result is small.
pub(crate) type Faulty<T> = Result<T, Box<Fault>>;

impl Fault {
    #[cold]
    pub(crate) fn new(at: usize, problem: impl Into<String>) -> Box<Self> {
        Box::new(Self { at, problem: problem.into(), expected: String::new(), hint: String::new() })
    }

    pub(crate) fn expected(mut self: Box<Self>, expected: impl Into<String>) -> Box<Self> {
        self.expected = expected.into();
        self
    }

    pub(crate) fn hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint = hint.into();
        self
    }

    pub(crate) fn shifted(mut self: Box<Self>, bytes: usize) -> Box<Self> {
        self.at += bytes;
        self
    }

    pub(crate) fn placed(self, file: &str, position: Position) -> TraceError {
        TraceError::new(file, position, self.problem).expected(self.expected).hint(self.hint)
    }
}

/// Quotes input for a message: short, and on one line.
pub(crate) fn quote(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 40;
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let more = if bytes.len() > SHOWN_BYTES { "..." } else { "" };
    format!("`{}{more}`", shown.escape_ascii())
}

/// Parses digits only: at least one, at most 64 bits.
#[inline]
pub(crate) fn digits(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    let mut value: u64 = 0;
    if bytes.len() < 20 {
        // Nineteen digits always fit.
        for &byte in bytes {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    for &byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Parses the number in `line[start..end]`, which the format calls `what`.
#[inline]
pub(crate) fn field(line: &[u8], start: usize, end: usize, what: &str) -> Faulty<u64> {
    match digits(&line[start..end]) {
        Some(value) => Ok(value),
        None => Err(no_number(&line[start..end], what).shifted(start)),
    }
}

/// As [`field`], for a number that must fit 32 bits.
#[inline]
pub(crate) fn field32(line: &[u8], start: usize, end: usize, what: &str) -> Faulty<u32> {
    let value = field(line, start, end, what)?;
    u32::try_from(value).map_err(|_| Fault::new(start, format!("{what} {value} does not fit 32 bits")))
}

#[cold]
fn no_number(bytes: &[u8], what: &str) -> Box<Fault> {
    let all_digits = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let shown = quote(bytes);
    let fault = if bytes.is_empty() {
        Fault::new(0, format!("{what} is missing"))
    } else if all_digits(bytes) {
        Fault::new(0, format!("{what} {shown} does not fit 64 bits"))
    } else if bytes[0] == b'-' && all_digits(&bytes[1..]) {
        Fault::new(0, format!("negative {what} {shown}"))
    } else {
        Fault::new(0, format!("{what} {shown} is not a number"))
    };
    fault.expected(format!("{what} as a whole number in decimal digits"))
}

/// The power of ten by which a fraction with this number of digits is multiplied to give nanoseconds.
const FRACTION_NANOS: [u64; 10] =
    [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/// Parses seconds with up to nine decimals, as nanoseconds.
#[inline]
pub(crate) fn seconds(line: &[u8], start: usize, end: usize, what: &str) -> Faulty<u64> {
    let bytes = &line[start..end];
    let point = bytes.iter().position(|&byte| byte == b'.').unwrap_or(bytes.len());
    let whole = digits(&bytes[..point]);
    let (fraction, decimals) = match bytes.get(point + 1..) {
        Some(decimals) if decimals.len() <= 9 => (digits(decimals), decimals.len()),
        Some(_) => (None, 0),
        None => (Some(0), 0),
    };
    match (whole, fraction) {
        (Some(whole), Some(fraction)) => whole
            .checked_mul(1_000_000_000)
            .and_then(|nanos| nanos.checked_add(fraction * FRACTION_NANOS[decimals]))
            .ok_or_else(|| Fault::new(start, format!("{what} {} does not fit 64 bits of nanoseconds", quote(bytes)))),
        _ => Err(no_seconds(bytes, what).shifted(start)),
    }
}

#[cold]
fn no_seconds(bytes: &[u8], what: &str) -> Box<Fault> {
    let shown = quote(bytes);
    let problem = match bytes {
        [] => format!("{what} is missing"),
        [b'-', ..] => format!("negative {what} {shown}"),
        _ => format!("{what} {shown} is not a number of seconds"),
    };
    Fault::new(0, problem).expected(format!("{what} as seconds with at most nine decimals, such as 12.000345"))
}

/// The first byte and the length of an extent in sectors.
#[inline]
pub(crate) fn sector_extent(sector: u64, sectors: u64, at: usize) -> Faulty<(u64, u64)> {
    const SECTOR_BYTES: u64 = ioweir_core::SECTOR_BYTES;
    match (sector.checked_mul(SECTOR_BYTES), sectors.checked_mul(SECTOR_BYTES)) {
        (Some(offset), Some(length)) if offset.checked_add(length).is_some() => Ok((offset, length)),
        _ => Err(Fault::new(at, format!("sector {sector} + {sectors} ends beyond 2^64 bytes"))
            .expected("an extent that ends within 2^64 bytes")),
    }
}

/// Checks an extent in bytes.
#[inline]
pub(crate) fn byte_extent(offset: u64, length: u64, at: usize) -> Faulty<(u64, u64)> {
    if offset.checked_add(length).is_some() {
        Ok((offset, length))
    } else {
        Err(Fault::new(at, format!("offset {offset} + length {length} ends beyond 2^64 bytes"))
            .expected("an extent that ends within 2^64 bytes"))
    }
}

/// A time in a unit of `unit_nanos`, as nanoseconds.
#[inline]
pub(crate) fn scaled(value: u64, unit_nanos: u64, at: usize, what: &str) -> Faulty<u64> {
    value.checked_mul(unit_nanos).ok_or_else(|| {
        Fault::new(at, format!("{what} {value} (units of {unit_nanos} ns) does not fit 64 bits of nanoseconds"))
    })
}

const EIGHT_BYTES: usize = 8;

/// The eight bytes at `at`, the first in the lowest byte; zeros replace bytes past the end.
#[inline(always)]
pub(crate) fn word(line: &[u8], at: usize) -> u64 {
    if let Some(chunk) = line.get(at..).and_then(<[u8]>::first_chunk) {
        return u64::from_le_bytes(*chunk);
    }
    match line.last_chunk::<EIGHT_BYTES>() {
        Some(last) => {
            let before = u32::try_from(at + EIGHT_BYTES - line.len()).unwrap_or(u32::MAX);
            u64::from_le_bytes(*last).checked_shr(before.saturating_mul(8)).unwrap_or(0)
        }
        None => line.iter().skip(at).rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// The number of digits at the beginning of `word` (little-endian).
#[inline]
const fn leading_digits(word: u64) -> usize {
    // A digit is 0x30 to 0x39: without 0x30, adding six must leave the upper half of the byte zero. A carry only affects
    // bytes after the first one that is no digit.
    let rest = word ^ 0x3030_3030_3030_3030;
    let others = (rest.wrapping_add(0x0606_0606_0606_0606) | rest) & 0xf0f0_f0f0_f0f0_f0f0;
    (others.trailing_zeros() / 8) as usize
}

/// The number of eight digits, the first in the lowest byte: combines pairs, then fours, then all.
#[inline]
const fn eight_digits(word: u64) -> u64 {
    let pairs = (word & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(10 << 8 | 1) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(100 << 16 | 1) >> 16;
    (fours & 0x0000_ffff_0000_ffff).wrapping_mul(10_000 << 32 | 1) >> 32
}

/// Appends the first `count` digits of `word`, at most seven, to `value`.
#[inline(always)]
const fn continued(value: u64, word: u64, count: usize) -> u64 {
    // Zeros come before the digits. It shifts in two steps, since a shift by 64 is not allowed.
    value.wrapping_mul(TENS[count]).wrapping_add(eight_digits(word << (56 - 8 * count) << 8))
}

/// Byte `count` of a word, at most the eighth.
#[inline(always)]
const fn byte_at(word: u64, count: usize) -> u8 {
    (word >> (8 * count)).to_le_bytes()[0]
}

/// Parses the digits at `at`, which moves to their end; also returns the next byte, zero at the end of the line. `None` if
/// there are no digits or more than nineteen: such a line is read again by the careful reader, which reports what is wrong.
// Called several times for each line: without inlining, each call costs a tenth of the speed.
#[inline(always)]
pub(crate) fn scan(line: &[u8], at: &mut usize) -> Option<(u64, u8)> {
    let first = word(line, *at);
    let count = leading_digits(first);
    if count < EIGHT_BYTES {
        *at += count;
        return (count > 0).then(|| (continued(0, first, count), byte_at(first, count)));
    }
    let second = word(line, *at + EIGHT_BYTES);
    let count = leading_digits(second);
    if count < EIGHT_BYTES {
        *at += EIGHT_BYTES + count;
        return Some((continued(eight_digits(first), second, count), byte_at(second, count)));
    }
    let third = word(line, *at + 2 * EIGHT_BYTES);
    let count = leading_digits(third);
    // Nineteen digits fit 64 bits.
    if count > 3 {
        return None;
    }
    *at += 2 * EIGHT_BYTES + count;
    let high = eight_digits(first) * TENS[EIGHT_BYTES] + eight_digits(second);
    Some((continued(high, third, count), byte_at(third, count)))
}

/// Parses the digits at `at`, and skips the byte that must follow.
#[inline(always)]
pub(crate) fn scan_to(line: &[u8], at: &mut usize, follows: u8) -> Option<u64> {
    let (value, next) = scan(line, at)?;
    *at += 1;
    (next == follows).then_some(value)
}

/// Parses a number with or without decimals at `at`, times ten to the power of `decimals`, which is at most nine; also
/// returns the next byte. Further decimals are dropped, or refused if it must be `exact`.
#[inline(always)]
pub(crate) fn scan_fixed(line: &[u8], at: &mut usize, decimals: usize, exact: bool) -> Option<(u64, u8)> {
    let (whole, next) = scan(line, at)?;
    let whole = whole.checked_mul(TENS[decimals.min(9)])?;
    if next != b'.' {
        return Some((whole, next));
    }
    *at += 1;
    let start = *at;
    let (fraction, next) = scan(line, at)?;
    let digits = *at - start;
    let fraction = match decimals.checked_sub(digits) {
        Some(missing) => fraction * TENS[missing],
        None if exact => return None,
        None => fraction / TENS[digits - decimals],
    };
    Some((whole.checked_add(fraction)?, next))
}

/// The powers of ten that fit 64 bits.
const TENS: [u64; 20] = {
    let mut tens = [1; 20];
    let mut place = 1;
    while place < tens.len() {
        tens[place] = tens[place - 1] * 10;
        place += 1;
    }
    tens
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn scanned_numbers_are_parsed_numbers(number in any::<u64>(), shift in 0_u32..64, tail in "[^0-9]{0,12}") {
            let number = number >> shift;
            let text = format!("{number}{tail}");
            let mut at = 0;
            let digits_count = number.to_string().len();
            prop_assert_eq!(digits(&text.as_bytes()[..digits_count]), Some(number));
            let scanned = scan(text.as_bytes(), &mut at);
            let next = tail.bytes().next().unwrap_or(0);
            prop_assert_eq!(scanned, (digits_count <= 19).then_some((number, next)));
            if scanned.is_some() {
                prop_assert_eq!(at, digits_count);
            }
        }

        #[test]
        fn whatever_scans_as_seconds_parses_as_the_same(text in "[0-9]{0,21}[.]?[0-9]{0,11}[,x]?") {
            let mut at = 0;
            if let Some((nanos, _)) = scan_fixed(text.as_bytes(), &mut at, 9, true) {
                prop_assert_eq!(seconds(text.as_bytes(), 0, at, "time").ok(), Some(nanos));
            }
        }

        #[test]
        fn bytes_that_are_no_digits_end_a_number(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
            let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let mut at = 0;
            let scanned = scan(&bytes, &mut at).map(|(number, _)| number);
            prop_assert_eq!(scanned, if count > 19 { None } else { digits(&bytes[..count]) });
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_none() {
        assert_eq!(digits(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(digits(b"18446744073709551616"), None);
        assert_eq!(digits(b""), None);
        assert_eq!(digits(b"+1"), None);
    }
}
