//! How is a number read from the bytes of a line, and what is said when it is none?

use super::Position;
use super::TraceError;

/// What is wrong with one unit of input; the reader adds file and position.
#[derive(Debug)]
pub(super) struct Fault {
    /// Bytes from the start of the line or record.
    pub(super) at: usize,
    pub(super) problem: String,
    pub(super) expected: String,
    pub(super) hint: String,
}

/// Boxed, so that the good path returns little.
pub(super) type Faulty<T> = Result<T, Box<Fault>>;

impl Fault {
    #[cold]
    pub(super) fn new(at: usize, problem: impl Into<String>) -> Box<Self> {
        Box::new(Self { at, problem: problem.into(), expected: String::new(), hint: String::new() })
    }

    pub(super) fn expected(mut self: Box<Self>, expected: impl Into<String>) -> Box<Self> {
        self.expected = expected.into();
        self
    }

    pub(super) fn hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint = hint.into();
        self
    }

    pub(super) fn shifted(mut self: Box<Self>, bytes: usize) -> Box<Self> {
        self.at += bytes;
        self
    }

    pub(super) fn placed(self, file: &str, position: Position) -> TraceError {
        TraceError::new(file, position, self.problem).expected(self.expected).hint(self.hint)
    }
}

/// Input in quotes for a message: short, on one line.
pub(super) fn quote(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 40;
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let more = if bytes.len() > SHOWN_BYTES { "..." } else { "" };
    format!("`{}{more}`", shown.escape_ascii())
}

/// Digits only, at least one, at most 64 bits.
#[inline]
pub(super) fn digits(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    let mut value: u64 = 0;
    if bytes.len() < 20 {
        // Nineteen digits fit.
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

/// The number in `line[start..end]`, which the format calls `what`.
#[inline]
pub(super) fn field(line: &[u8], start: usize, end: usize, what: &str) -> Faulty<u64> {
    match digits(&line[start..end]) {
        Some(value) => Ok(value),
        None => Err(no_number(&line[start..end], what).shifted(start)),
    }
}

/// As [`field`], for what must fit 32 bits.
#[inline]
pub(super) fn field32(line: &[u8], start: usize, end: usize, what: &str) -> Faulty<u32> {
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

/// Powers of ten by which a fraction of so many digits is multiplied to give nanoseconds.
const FRACTION_NANOS: [u64; 10] =
    [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/// Seconds with up to nine decimals, as nanoseconds.
#[inline]
pub(super) fn seconds(line: &[u8], start: usize, end: usize, what: &str) -> Faulty<u64> {
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

/// First byte and length of an extent in sectors.
#[inline]
pub(super) fn sector_extent(sector: u64, sectors: u64, at: usize) -> Faulty<(u64, u64)> {
    const SECTOR_BYTES: u64 = ioweir_core::SECTOR_BYTES;
    match (sector.checked_mul(SECTOR_BYTES), sectors.checked_mul(SECTOR_BYTES)) {
        (Some(offset), Some(length)) if offset.checked_add(length).is_some() => Ok((offset, length)),
        _ => Err(Fault::new(at, format!("sector {sector} + {sectors} ends beyond 2^64 bytes"))
            .expected("an extent that ends within 2^64 bytes")),
    }
}

/// The same for bytes.
#[inline]
pub(super) fn byte_extent(offset: u64, length: u64, at: usize) -> Faulty<(u64, u64)> {
    if offset.checked_add(length).is_some() {
        Ok((offset, length))
    } else {
        Err(Fault::new(at, format!("offset {offset} + length {length} ends beyond 2^64 bytes"))
            .expected("an extent that ends within 2^64 bytes"))
    }
}

/// Time in a unit of `unit_nanos`, as nanoseconds.
#[inline]
pub(super) fn scaled(value: u64, unit_nanos: u64, at: usize, what: &str) -> Faulty<u64> {
    value.checked_mul(unit_nanos).ok_or_else(|| {
        Fault::new(at, format!("{what} {value} (units of {unit_nanos} ns) does not fit 64 bits of nanoseconds"))
    })
}
