//! Parses the times of rows: Unix times or dates.

use ioweir_config::date::{self, DateOrder};

/// Seconds since 1970-01-01, and by how much the clock is ahead of UTC if the cell says so. A number is taken as seconds,
/// milliseconds, microseconds or nanoseconds by its size, since headers are often wrong about it. A time without a zone is read
/// as it is.
pub(super) fn moment(cell: &[u8], order: DateOrder) -> Option<(i64, Option<i32>)> {
    let text = std::str::from_utf8(cell).ok()?.trim();
    if let Some(seconds) = number(text) {
        return Some((seconds, None));
    }
    date::moment(text, order).map(|moment| (moment.unix_seconds(), moment.offset_seconds))
}

fn number(text: &str) -> Option<i64> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    let scale = match value.abs() {
        size if size < 1e11 => 1.0,
        size if size < 1e14 => 1e3,
        size if size < 1e17 => 1e6,
        _ => 1e9,
    };
    let seconds = (value / scale).floor();
    (seconds.abs() < 1e11).then_some(seconds as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_by_size_or_as_dates() {
        let read = |text: &str| moment(text.as_bytes(), DateOrder::Assumed);
        for text in ["1372629804", "1372629804.9", "1372629804000", "1372629804000000", "1372629804000000000"] {
            assert_eq!(read(text), Some((1_372_629_804, None)), "{text}");
        }
        assert_eq!(read("2013-07-01T00:03:24+02:00"), Some((1_372_629_804, Some(7200))));
        for text in ["", "x", "1e300", "nan", "-"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
