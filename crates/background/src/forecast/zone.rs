//! The calendar: when local days begin, and days that behave like other days.

use ioweir_config::shown;
use serde::{Deserialize, Serialize};

use super::ForecastError;

/// The calendar: the local clock, and days that behave like other days.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calendar {
    /// Local time minus UTC: days begin at local midnight. With changes, before the first of them.
    pub utc_offset_seconds: i32,
    /// Changes of the offset, as daylight saving makes them: when, and the offset from then on; in order of time.
    #[serde(default)]
    pub changes: Vec<(i64, i32)>,
    /// Days, counted from 1970-01-01 on the local clock, that behave like another day of the week (0 is Monday, 6 is
    /// Sunday): a holiday on a Wednesday acts like a Sunday.
    pub acts_like: std::collections::BTreeMap<i64, u8>,
}

/// The time after which no change of an offset is looked up: 2100-01-01.
const CHANGES_UNTIL: i64 = 4_102_444_800;

impl Calendar {
    /// The calendar of a time zone by its IANA name, such as `Europe/Berlin`. The zones are those that the program was built
    /// with, so that the same input gives the same forecast on every machine.
    ///
    /// # Errors
    /// [`ForecastError`] if there is no such zone.
    pub fn of_zone(name: &str) -> Result<Self, ForecastError> {
        let zone = jiff::tz::TimeZoneDatabase::bundled().get(name).map_err(|_| ForecastError {
            problem: format!("`{}` is no time zone", shown(name)),
            expected: "a name of the IANA database, such as Europe/Berlin or America/New_York".into(),
        })?;
        let start = jiff::Timestamp::UNIX_EPOCH;
        let changes = zone.following(start).map(|change| (change.timestamp().as_second(), change.offset().seconds()));
        Ok(Self {
            utc_offset_seconds: zone.to_offset(start).seconds(),
            changes: changes.take_while(|(when, _)| *when < CHANGES_UNTIL).collect(),
            ..Self::default()
        })
    }

    /// Whether its clock is that of UTC.
    #[must_use]
    pub const fn is_of_utc(&self) -> bool {
        self.utc_offset_seconds == 0 && self.changes.is_empty()
    }

    /// Local time minus UTC at a time.
    #[must_use]
    pub fn offset_seconds(&self, unix_seconds: i64) -> i64 {
        let next = self.changes.partition_point(|(when, _)| *when <= unix_seconds);
        let last = next.checked_sub(1).and_then(|last| self.changes.get(last));
        i64::from(last.map_or(self.utc_offset_seconds, |(_, offset)| *offset))
    }

    /// Seconds on the local clock since its 1970-01-01.
    #[must_use]
    pub fn local_seconds(&self, unix_seconds: i64) -> i64 {
        unix_seconds.saturating_add(self.offset_seconds(unix_seconds))
    }

    /// The local day of a time, counted from 1970-01-01.
    #[must_use]
    pub fn day(&self, unix_seconds: i64) -> i64 {
        self.local_seconds(unix_seconds).div_euclid(86_400)
    }

    /// When a local day begins.
    #[must_use]
    pub fn midnight(&self, day: i64) -> i64 {
        let local = day.saturating_mul(86_400);
        // The offset at midnight, found from one that is right but for a change within the day before.
        let near = local.saturating_sub(self.offset_seconds(local));
        local.saturating_sub(self.offset_seconds(near))
    }

    /// The day of the week that a day behaves like: 0 is Monday.
    #[must_use]
    pub fn weekday(&self, day: i64) -> u8 {
        // 1970-01-01 was a Thursday.
        let usual = (day + 3).rem_euclid(7);
        self.acts_like.get(&day).map_or(usual as u8, |weekday| weekday % 7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_changes_its_offset_with_its_clocks() -> Result<(), ForecastError> {
        let berlin = Calendar::of_zone("Europe/Berlin")?;
        // 2024-03-31 01:00 UTC, and 2024-10-27 01:00 UTC.
        let (spring, autumn) = (1_711_846_800, 1_729_990_800);
        assert_eq!(
            [spring - 1, spring, autumn - 1, autumn].map(|at| berlin.offset_seconds(at)),
            [3600, 7200, 7200, 3600]
        );
        let day = berlin.day(spring);
        assert_eq!(berlin.midnight(day + 1) - berlin.midnight(day), 23 * 3600);
        let day = berlin.day(autumn);
        assert_eq!(berlin.midnight(day + 1) - berlin.midnight(day), 25 * 3600);
        let error = Calendar::of_zone("Europe/Bärlin").expect_err("there is none");
        assert!(error.problem.contains("is no time zone"), "{error}");
        Ok(())
    }

    #[test]
    fn without_a_zone_the_offset_stays() {
        let calendar = Calendar { utc_offset_seconds: -3600, ..Calendar::default() };
        assert_eq!((calendar.local_seconds(0), calendar.day(0), calendar.midnight(0)), (-3600, -1, 3600));
    }
}
