//! Reads and writes dates. Every date that a person types or a file holds is read here; the calendar is `jiff`'s.

use std::str::FromStr;

use ioweir_core::Nanos;
use jiff::civil::Date;
use jiff::tz::TimeZoneDatabase;

use crate::{Duration, UnitError};

const SECOND_NANOS: i128 = 1_000_000_000;
const EPOCH: Date = Date::constant(1970, 1, 1);
const DAY_SECONDS: i64 = 86_400;

/// A time, and how far its clock is from UTC if the text says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Nanoseconds since 1970-01-01 UTC, or on the clock of the text if it has no offset.
    pub unix_nanos: i128,
    /// By how much the clock of the text is ahead of UTC.
    pub offset_seconds: Option<i32>,
}

impl Moment {
    /// Whole seconds since 1970-01-01.
    #[must_use]
    pub const fn unix_seconds(self) -> i64 {
        self.unix_nanos.div_euclid(SECOND_NANOS) as i64
    }
}

/// Which of the first two numbers of a date such as `03/02/2026` is the month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// No date tells, so that the month is taken as first.
    #[default]
    Assumed,
    /// `03/31/2026`
    MonthFirst,
    /// `31/03/2026`
    DayFirst,
}

impl DateOrder {
    /// The order of the dates in texts of one file: one that can have only one order tells that of all.
    pub fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut order = Self::MonthFirst;
        for text in texts {
            let Some((first, second)) = text.split([' ', 'T']).find_map(two_numbers) else { continue };
            if first > 12 {
                return Self::DayFirst;
            }
            if second > 12 || is_half(text.split_whitespace().next_back().unwrap_or_default()) {
                return Self::MonthFirst;
            }
            order = Self::Assumed;
        }
        order
    }
}

/// The first two numbers of a date whose month may be either.
fn two_numbers(word: &str) -> Option<(i16, i16)> {
    let parts = Parts::of(word)?;
    let is_date = [DateOrder::MonthFirst, DateOrder::DayFirst].iter().any(|order| parts.date(*order).is_some());
    (is_date && !parts.is_year_first() && parts.mark != '.').then_some(())?;
    Some((number(parts.words[0])?, number(parts.words[1])?))
}

/// A time as people type it: since a beginning, or as a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// `90s`, `1h30m`
    After(Nanos),
    /// `2026-03-02 10:00`, with or without an offset
    At(Moment),
}

impl FromStr for When {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match clear_moment(text) {
            Some(moment) => Ok(Self::At(moment)),
            None => Ok(Self::After(text.parse::<Duration>()?.nanos())),
        }
    }
}

/// A date split at its marks.
struct Parts<'a> {
    words: [&'a str; 3],
    mark: char,
}

impl<'a> Parts<'a> {
    fn of(word: &'a str) -> Option<Self> {
        let mark = word.chars().find(|character| !character.is_ascii_digit())?;
        if !"-/.".contains(mark) {
            return None;
        }
        let mut parts = word.split(mark);
        let words = [parts.next()?, parts.next()?, parts.next()?];
        parts.next().is_none().then_some(Self { words, mark })
    }

    fn is_year_first(&self) -> bool {
        self.words[0].len() == 4
    }

    fn date(&self, order: DateOrder) -> Option<Date> {
        let [first, second, third] = self.words;
        if self.is_year_first() {
            return date_of(year(first)?, number(second)?, number(third)?);
        }
        if let Some(month) = month(second) {
            return date_of(year(third)?, month, number(first)?);
        }
        if third.len() < 4 && (first.len() < 2 || second.len() < 2) {
            // `1.2.3` is rather a version or an address.
            return None;
        }
        let (first, second) = (number(first)?, number(second)?);
        let is_day_first = self.mark == '.' || order == DateOrder::DayFirst;
        let (month, day) = if is_day_first { (second, first) } else { (first, second) };
        date_of(year(third)?, month, day)
    }
}

fn date_of(year: i16, month: i16, day: i16) -> Option<Date> {
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// A number of one or two digits.
fn number(text: &str) -> Option<i16> {
    ((1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// A year of four digits, or the last two of one of this century.
fn year(text: &str) -> Option<i16> {
    match text.len() {
        4 if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        2 => number(text).map(|year| year + 2000),
        _ => None,
    }
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The month of this English name, or of its first three letters.
fn month(name: &str) -> Option<i16> {
    name.starts_with(|first: char| first.is_ascii_alphabetic()).then_some(())?;
    let name = name.to_ascii_lowercase();
    let place = MONTHS.iter().position(|known| *known == name || name.len() == 3 && known.starts_with(&name))?;
    i16::try_from(place + 1).ok()
}

fn is_weekday(word: &str) -> bool {
    const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let name = word.to_ascii_lowercase();
    DAYS.iter().any(|known| *known == name || name.len() == 3 && known.starts_with(&name))
}

fn is_half(word: &str) -> bool {
    ["AM", "PM"].iter().any(|half| word.eq_ignore_ascii_case(half))
}

/// Reads a date, with or without a time of day and a zone, in any of the forms that tools print: `2026-03-02T01:00:00.5+01:00`,
/// `2026/03/02 01:00 UTC`, `03/02/2026 01:00:00 AM`, `02.03.2026 01:00`, `02-Mar-2026 01:00:00`, `02/Mar/2026:01:00:00 +0000`,
/// `Mon Mar  2 01:00:00 CET 2026`,
/// `Mon, 02 Mar 2026 01:00:00 +0100`, `2026-03-02T01:00:00[Europe/Berlin]`. `None` if it is none of them, or no day of the calendar.
#[must_use]
pub fn moment(text: &str, order: DateOrder) -> Option<Moment> {
    const BYTES_MAX: usize = 80;
    let text = text.trim();
    if !(8..=BYTES_MAX).contains(&text.len()) || !text.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    let (text, place) = match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        Some((text, place)) => (text, Some(place)),
        None => (text, None),
    };
    let mut read = Read::default();
    for word in text.split_whitespace() {
        if word.starts_with('(') {
            // The name of the zone, after its offset.
            break;
        }
        read.word(word.strip_suffix(',').unwrap_or(word), order)?;
    }
    read.moment(place)
}

/// As [`moment`], of a date that can be read in one way only: not `03/02/2026`.
#[must_use]
pub fn clear_moment(text: &str) -> Option<Moment> {
    let order = DateOrder::of(std::iter::once(text));
    (order != DateOrder::Assumed).then(|| moment(text, order))?
}

/// The parts of a date that have been read.
#[derive(Default)]
struct Read {
    date: Option<Date>,
    day: Option<i16>,
    month: Option<i16>,
    year: Option<i16>,
    clock_nanos: Option<i64>,
    is_afternoon: Option<bool>,
    offset_seconds: Option<i32>,
}

impl Read {
    /// `None` if the word belongs to no date.
    fn word(&mut self, word: &str, order: DateOrder) -> Option<()> {
        if let Some(month) = month(word) {
            return put(&mut self.month, month);
        }
        if is_half(word) {
            return put(&mut self.is_afternoon, word.eq_ignore_ascii_case("PM"));
        }
        if word.contains(':') && !word.starts_with(['+', '-']) {
            let (before, clock) = word.split_at(self.clock_start(word)?);
            if !before.is_empty() {
                put(&mut self.date, Parts::of(&before[..before.len() - 1])?.date(order)?)?;
            }
            let end = clock.find(|part: char| !(part.is_ascii_digit() || ":.,".contains(part))).unwrap_or(clock.len());
            put(&mut self.clock_nanos, clock_nanos(&clock[..end])?)?;
            let rest = &clock[end..];
            return if rest.is_empty() { Some(()) } else { self.rest(rest) };
        }
        if let Some(parts) = Parts::of(word) {
            return put(&mut self.date, parts.date(order)?);
        }
        if let Some(number) = number(word) {
            return put(&mut self.day, number);
        }
        if word.len() == 4
            && let Some(year) = year(word)
        {
            return put(&mut self.year, year);
        }
        if is_weekday(word) { Some(()) } else { self.rest(word) }
    }

    /// Where the time of day begins in a word that may hold the date before it.
    fn clock_start(&self, word: &str) -> Option<usize> {
        let first = word.find(':')?;
        let before = &word[..first];
        if Parts::of(before).is_some_and(|parts| parts.date(DateOrder::DayFirst).is_some()) {
            // `02/Mar/2026:01:00:00`
            return Some(first + 1);
        }
        Some(before.rfind(['T', 't', ' ', ':']).map_or(0, |place| place + 1))
    }

    /// A half of the day or a zone.
    fn rest(&mut self, word: &str) -> Option<()> {
        if is_half(word) {
            return put(&mut self.is_afternoon, word.eq_ignore_ascii_case("PM"));
        }
        self.clock_nanos?;
        put(&mut self.offset_seconds, offset_seconds(word)?)
    }

    fn moment(self, place: Option<&str>) -> Option<Moment> {
        let date = match (self.date, self.year, self.month, self.day) {
            (Some(date), None, None, None) => date,
            (None, Some(year), Some(month), Some(day)) => date_of(year, month, day)?,
            _ => return None,
        };
        let mut clock_nanos = i128::from(self.clock_nanos.unwrap_or(0));
        if let Some(is_afternoon) = self.is_afternoon {
            let noon = 12 * 3600 * SECOND_NANOS;
            if self.clock_nanos.is_none() || clock_nanos >= 13 * 3600 * SECOND_NANOS {
                return None;
            }
            clock_nanos = clock_nanos % noon + if is_afternoon { noon } else { 0 };
        }
        let local = i128::from(days_of(date) * DAY_SECONDS) * SECOND_NANOS + clock_nanos;
        let offset_seconds = match (self.offset_seconds, place) {
            (None, Some(place)) => Some(offset_in(place, local)?),
            (offset, _) => offset,
        };
        let unix_nanos = local - i128::from(offset_seconds.unwrap_or(0)) * SECOND_NANOS;
        Some(Moment { unix_nanos, offset_seconds })
    }
}

/// Notes a part of a date, which has each only once.
fn put<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// Local time minus UTC in a zone of the IANA database.
fn offset_in(name: &str, local_nanos: i128) -> Option<i32> {
    let zone = TimeZoneDatabase::bundled().get(name).ok()?;
    let local = jiff::Timestamp::from_nanosecond(local_nanos).ok()?;
    let clock = jiff::tz::Offset::UTC.to_datetime(local);
    let moment = zone.to_ambiguous_timestamp(clock).compatible().ok()?;
    Some(zone.to_offset(moment).seconds())
}

/// Reads a time of day, as nanoseconds since midnight: `12:00`, `12:00:00`, `12:00:00.5`.
#[must_use]
pub fn clock_nanos(text: &str) -> Option<i64> {
    let mut parts = text.trim().split(':');
    let (hours, minutes) = (number(parts.next()?)?, number(parts.next()?)?);
    let (seconds, fraction) = match parts.next() {
        None => (0, ""),
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once(['.', ',']).unwrap_or((seconds, ""));
            (number(whole)?, fraction)
        }
    };
    let is_fraction = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = fraction.get(..9).unwrap_or(fraction);
    if parts.next().is_some() || hours > 23 || minutes > 59 || seconds > 60 || !is_fraction {
        return None;
    }
    let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
    Some((i64::from(hours) * 3600 + i64::from(minutes) * 60 + i64::from(seconds)) * 1_000_000_000 + nanos)
}

/// Names of zones that stand for one offset, in minutes.
const ZONES: [(&str, i32); 20] = [
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
    ("CDT", -300),
    ("MST", -420),
    ("PDT", -420),
    ("PST", -480),
];

/// Local time minus UTC: a name such as `Z` or `CEST`, `+HH`, `+HH:MM`, `-HHMM`, `GMT+0100`.
fn offset_seconds(text: &str) -> Option<i32> {
    if let Some((_, minutes)) = ZONES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)) {
        return Some(minutes * 60);
    }
    let text = text.strip_prefix("GMT").or_else(|| text.strip_prefix("UTC")).unwrap_or(text);
    let (sign, digits) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(digits), _) => (1, digits),
        (_, Some(digits)) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) => (number(hours)?, number(minutes)?),
        None if digits.len() == 4 => (number(digits.get(..2)?)?, number(digits.get(2..)?)?),
        None => (number(digits)?, 0),
    };
    (hours <= 18 && minutes < 60).then_some(sign * (i32::from(hours) * 60 + i32::from(minutes)) * 60)
}

/// Local time minus UTC as it is written behind a time: `+01:00`.
#[must_use]
pub fn format_offset(seconds: i64) -> String {
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs() / 60);
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Days since 1970-01-01.
fn days_of(date: Date) -> i64 {
    date.duration_since(EPOCH).as_secs() / DAY_SECONDS
}

/// The day, counted from 1970-01-01, of a date such as `2016-12-26`.
#[must_use]
pub fn day_of(text: &str) -> Option<i64> {
    let parts = Parts::of(text).filter(|parts| parts.is_year_first() && parts.mark != '.' && text.len() == 10)?;
    parts.date(DateOrder::Assumed).map(days_of)
}

/// The date of a day counted from 1970-01-01; at most the last of the year 9999.
fn date(day: i64) -> Date {
    EPOCH.saturating_add(jiff::SignedDuration::from_secs(day.saturating_mul(DAY_SECONDS)))
}

/// A day, counted from 1970-01-01, as a date: `2016-12-26`.
#[must_use]
pub fn format_day(day: i64) -> String {
    date(day).to_string()
}

/// Seconds since 1970-01-01 as a date and a time: `2016-02-24 07:00`.
#[must_use]
pub fn format_moment(unix_seconds: i64) -> String {
    let seconds = unix_seconds.rem_euclid(DAY_SECONDS);
    format!("{} {:02}:{:02}", format_day(unix_seconds.div_euclid(DAY_SECONDS)), seconds / 3600, seconds / 60 % 60)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<(i64, Option<i32>)> {
        moment(text, DateOrder::MonthFirst).map(|moment| (moment.unix_seconds(), moment.offset_seconds))
    }

    #[test]
    fn every_form_of_date_is_the_same() {
        for (text, ahead) in [
            ("2013-06-30 22:03:24", None),
            ("2013/06/30 22:03:24.5", None),
            ("2013-06-30 10:03:24 PM", None),
            ("2013-06-30T22:03:24Z", Some(0)),
            ("2013-06-30 22:03:24 UTC", Some(0)),
            ("2013-07-01T00:03:24+02:00", Some(7200)),
            ("2013-07-01 00:03:24,5 +0200", Some(7200)),
            ("2013-06-30T18:03:24-04", Some(-14_400)),
            ("2013-07-01 00:03:24 CEST", Some(7200)),
            ("2013-07-01T00:03:24[Europe/Berlin]", Some(7200)),
            ("2013-07-01T00:03:24+02:00[Europe/Berlin]", Some(7200)),
            ("06/30/2013 22:03:24.123", None),
            ("06/30/13 10:03:24 PM", None),
            ("6/30/2013 22:03:24", None),
            ("30.06.2013 22:03:24", None),
            ("30-Jun-2013 22:03:24", None),
            ("30 Jun 2013 22:03:24", None),
            ("June 30, 2013, 10:03:24 PM", None),
            ("Sun Jun 30 22:03:24 2013", None),
            ("Sun Jun 30 22:03:24 UTC 2013", Some(0)),
            ("Mon, 01 Jul 2013 00:03:24 +0200", Some(7200)),
            ("Mon Jul 01 2013 00:03:24 GMT+0200 (Central European Summer Time)", Some(7200)),
        ] {
            assert_eq!(read(text), Some((1_372_629_804, ahead)), "{text}");
        }
        assert_eq!(read("1970-01-02"), Some((86_400, None)));
        assert_eq!(read("1969-12-31"), Some((-86_400, None)));
        assert_eq!(read("2016-02-24 12:00 AM"), read("2016-02-24"));
        let half = moment("2013-06-30 22:03:24.5", DateOrder::Assumed).map(|moment| moment.unix_nanos);
        assert_eq!(half, Some(1_372_629_804_500_000_000));
        assert_eq!(clock_nanos("01:00:00.000000001"), Some(3_600_000_000_001));
    }

    #[test]
    fn no_other_text_is_a_date() {
        for text in [
            "",
            "x",
            "2013-13-01",
            "2013-02-29",
            "2013-06-30 25:00",
            "1e300",
            "nan",
            "-",
            "10.0.0.7:9100",
            "1.2.3",
            "2013-06-30T22:03:24+99",
            "2013-06-30 22:03:24 XYZ",
            "2013-06-30 13:00 PM",
            "13-6-30",
            "sda 2013-06-30",
            "2013-06-30 2013-06-30",
            "Jun 2013 10:00:00",
            "2013-06-30[Europe/Bärlin]",
            "20130630",
            "1.523.796",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn one_clear_date_tells_the_order_of_all() {
        let of = |texts: &[&str]| DateOrder::of(texts.iter().copied());
        assert_eq!(of(&["03/02/2026 00:00", "03/13/2026"]), DateOrder::MonthFirst);
        assert_eq!(of(&["03/02/2026 00:00", "13/03/2026"]), DateOrder::DayFirst);
        assert_eq!(of(&["03/02/2026 01:00:00 AM"]), DateOrder::MonthFirst);
        assert_eq!(of(&["Linux 6.8 (host) 03/02/26 (4 CPU)"]), DateOrder::Assumed);
        assert_eq!(of(&["2026-03-02", "02.03.2026"]), DateOrder::MonthFirst);
        let day_first = moment("03/02/2026", DateOrder::DayFirst).map(Moment::unix_seconds);
        assert_eq!(day_first.map(|seconds| format_day(seconds / 86_400)), Some("2026-02-03".to_owned()));
    }

    #[test]
    fn typed_time_is_a_duration_or_a_date() {
        assert_eq!("90s".parse(), Ok(When::After(Nanos(90_000_000_000))));
        assert!(matches!("1970-01-02T00:00Z".parse(), Ok(When::At(moment)) if moment.unix_seconds() == 86_400));
        for text in ["1970-13-02", "03/02/2026", "soon"] {
            assert!(text.parse::<When>().is_err(), "{text}");
        }
    }

    #[test]
    fn dates_count_there_and_back() {
        for day in (-700_000..2_900_000).step_by(97) {
            assert_eq!(day_of(&format_day(day)), (day >= -719_528).then_some(day));
        }
        assert_eq!(
            (format_moment(1_456_297_200), format_offset(-19_800)),
            ("2016-02-24 07:00".into(), "-05:30".into())
        );
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[0-9:.,TZ+/é\\[\\] AaPpMJunSt-]{0,40}", day: i64) {
            let _ = (moment(&text, DateOrder::Assumed), clock_nanos(&text), format_moment(day));
        }
    }
}
