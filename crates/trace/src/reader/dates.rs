//! Parses dates and times of day, as nanoseconds.

const SECOND_NANOS: u64 = 1_000_000_000;

/// The nanoseconds from 1970-01-01 UTC to a date, with or without a time of day and an offset: `2026-03-02 01:00:00.5+01:00`.
/// A date without an offset is taken as UTC. `None` if it is no date, or before 1970.
pub(crate) fn date_nanos(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let (date, rest) = text.split_at_checked(10)?;
    let mut parts = date.split(['-', '/']);
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_since_1970(i64::from(year), i64::from(month), i64::from(day));
    let midnight = u64::try_from(days).ok()?.checked_mul(86_400 * SECOND_NANOS)?;
    let rest = rest.strip_prefix(['T', ' ', 't']).unwrap_or(rest);
    if rest.is_empty() {
        return Some(midnight);
    }
    let end = rest.find(|part: char| !(part.is_ascii_digit() || ":.,".contains(part))).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(end);
    let local = midnight.checked_add(clock_nanos(clock.as_bytes())?)?;
    let offset = offset_seconds(zone.trim())?;
    local.checked_add_signed(-offset * SECOND_NANOS as i64)
}

/// The nanoseconds from midnight to a time of day: `12:00`, `12:00:00`, `12:00:00.5`.
pub(crate) fn clock_nanos(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let mut parts = text.split(':');
    let (hours, minutes) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let (seconds, fraction) = match parts.next() {
        None => (0, ""),
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once(['.', ',']).unwrap_or((seconds, ""));
            (digits(whole, 2)?, fraction)
        }
    };
    let is_fraction = fraction.len() <= 9 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || hours > 23 || minutes > 59 || seconds > 60 || !is_fraction {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
    Some((u64::from(hours) * 3600 + u64::from(minutes) * 60 + u64::from(seconds)) * SECOND_NANOS + nanos)
}

/// Reads a number of exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<u32> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Reads how many seconds local time is ahead of UTC: an empty text, `Z`, `UTC`, `+01:00`, `-0530`, `+01`.
fn offset_seconds(text: &str) -> Option<i64> {
    if text.is_empty() || text.eq_ignore_ascii_case("z") || text.eq_ignore_ascii_case("utc") {
        return Some(0);
    }
    let (sign, rest) = match text.as_bytes()[0] {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let plain: String = rest.chars().filter(|part| *part != ':').collect();
    let hours = i64::from(digits(plain.get(..2)?, 2)?);
    let minutes = match plain.get(2..)? {
        "" => 0,
        minutes => i64::from(digits(minutes, 2)?),
    };
    (hours <= 18 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

/// Days since 1970-01-01 of a date in the Gregorian calendar. Years are counted from March, so that the leap day is last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dates_count_from_1970() {
        for text in [
            "2013-06-30 22:03:24.5",
            "2013/06/30T22:03:24.500Z",
            "2013-07-01 00:03:24.5+02:00",
            "2013-06-30 18:03:24,5-0400",
        ] {
            assert_eq!(date_nanos(text.as_bytes()), Some(1_372_629_804_500_000_000), "{text}");
        }
        assert_eq!(date_nanos(b"1970-01-02"), Some(86_400_000_000_000));
        for text in [
            "",
            "2013-13-01",
            "1969-12-31",
            "2013-06-30 25:00",
            "2013-06-30 22:03:24 XYZ",
            "13-6-30",
            "2013-06-30 1:2:3",
        ] {
            assert_eq!(date_nanos(text.as_bytes()), None, "{text}");
        }
        assert_eq!(clock_nanos(b"01:00:00.000000001"), Some(3_600_000_000_001));
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[0-9:.,TZ+/é -]{0,40}") {
            let _ = (date_nanos(text.as_bytes()), clock_nanos(text.as_bytes()));
        }
    }
}
