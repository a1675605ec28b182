//! Parses times: dates, times of day and epochs in a cell.

/// Seconds since 1970-01-01. A number is taken as seconds, milliseconds, microseconds or nanoseconds by its size, since
/// headers are often wrong about it. Dates are those of ISO 8601; a blank may replace the `T`. A time without a zone is read
/// as it is.
pub(super) fn moment(cell: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(cell).ok()?.trim();
    number(text).or_else(|| date_time(text))
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

fn date_time(text: &str) -> Option<i64> {
    let digits = |from: usize, count: usize| -> Option<i64> {
        let part = text.get(from..from + count)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let mark = |at: usize, marks: &[u8]| text.as_bytes().get(at).is_some_and(|byte| marks.contains(byte));
    if !mark(4, b"-/") || !mark(7, b"-/") {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(5, 2)?, digits(8, 2)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_of_month(year, month) {
        return None;
    }
    let midnight = days_from_civil(year, month, day) * 86_400;
    if text.len() == 10 {
        return Some(midnight);
    }
    if !mark(10, b"T t") || !mark(13, b":") {
        return None;
    }
    let (hour, minute) = (digits(11, 2)?, digits(14, 2)?);
    let (second, mut rest) = if mark(16, b":") { (digits(17, 2)?, text.get(19..)?) } else { (0, text.get(16..)?) };
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        rest = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
    }
    Some(midnight + hour * 3600 + minute * 60 + second - zone_seconds(rest.trim())?)
}

/// By how many seconds the clock of a date is ahead of UTC, if the cell says so: `2026-03-02T01:00:00+01:00`.
pub(super) fn offset_of(cell: &[u8]) -> Option<i32> {
    let text = std::str::from_utf8(cell).ok()?.trim();
    date_time(text)?;
    let rest = text.get(16..)?.trim_start_matches(|part: char| part.is_ascii_digit() || ":.,".contains(part)).trim();
    if rest.is_empty() { None } else { zone_seconds(rest).and_then(|seconds| i32::try_from(seconds).ok()) }
}

/// Names of zones that stand for one offset, in minutes.
const ZONES: [(&str, i64); 18] = [
    ("UTC", 0),
    ("GMT", 0),
    ("Z", 0),
    ("WET", 0),
    ("WEST", 60),
    ("CET", 60),
    ("MET", 60),
    ("CEST", 120),
    ("MEST", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("JST", 540),
    ("KST", 540),
    ("EDT", -240),
    ("EST", -300),
    ("PDT", -420),
    ("PST", -480),
];

/// Local time minus UTC: empty, a name such as `Z` or `CEST`, `+HH`, `+HH:MM`, `+HHMM`.
fn zone_seconds(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    if let Some((_, minutes)) = ZONES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)) {
        return Some(minutes * 60);
    }
    let sign = match text.as_bytes()[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits: String = text[1..].chars().filter(|character| *character != ':').collect();
    if !matches!(digits.len(), 2 | 4) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let hours: i64 = digits[..2].parse().ok()?;
    let minutes: i64 = if digits.len() == 4 { digits[2..].parse().ok()? } else { 0 };
    (hours <= 18 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date in the Gregorian calendar. Years are counted from March, so that the leap day is last.
pub(super) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The year, month and day of a number of days since 1970-01-01.
#[must_use]
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day, counted from 1970-01-01, of a date such as `2016-12-26`.
#[must_use]
pub fn day_of(text: &str) -> Option<i64> {
    if text.len() == 10 { date_time(text).map(|seconds| seconds / 86_400) } else { None }
}

/// A day, counted from 1970-01-01, as a date: `2016-12-26`.
#[must_use]
pub fn format_day(day: i64) -> String {
    let (year, month, day) = civil_from_days(day);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Seconds since 1970-01-01 as a date and a time: `2016-02-24 07:00`.
#[must_use]
pub fn format_moment(unix_seconds: i64) -> String {
    let seconds = unix_seconds.rem_euclid(86_400);
    format!("{} {:02}:{:02}", format_day(unix_seconds.div_euclid(86_400)), seconds / 3600, seconds / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_by_size_or_as_dates() {
        for text in [
            "1372629804",
            "1372629804.9",
            "1372629804000",
            "1372629804000000",
            "1372629804000000000",
            "2013-06-30 22:03:24",
            "2013-06-30T22:03:24Z",
            "2013/06/30 22:03:24.5",
            "2013-07-01T00:03:24+02:00",
            "2013-06-30T18:03:24-0400",
        ] {
            assert_eq!(moment(text.as_bytes()), Some(1_372_629_804), "{text}");
        }
        assert_eq!(moment(b"1970-01-02"), Some(86_400));
        assert_eq!(moment(b"2016-02-24 07:00"), Some(1_456_297_200));
        for text in
            ["", "x", "2013-13-01", "2013-02-29", "2013-06-30 25:00", "1e300", "nan", "2013-06-30T22:03:24+99", "-"]
        {
            assert_eq!(moment(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn date_has_its_stated_offset() {
        assert_eq!(offset_of(b"2026-03-02T00:00:00+01:00"), Some(3600));
        assert_eq!(offset_of(b"2026-03-02 00:00 -0530"), Some(-19_800));
        assert_eq!(offset_of(b"2026-03-02 00:00:00.5 CEST"), Some(7200));
        assert_eq!(offset_of(b"2026-03-02 00:00:00 UTC"), Some(0));
        for text in ["2026-03-02 00:00:00", "1372629804", "2026-03-02", "2026-03-02 00:00:00 XYZ"] {
            assert_eq!(offset_of(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn dates_count_there_and_back() {
        for day in -800_000..800_000 {
            let (year, month, date) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, date), day);
        }
        assert_eq!(civil_from_days(0), (1970, 1, 1));
    }
}
