//! Hours of the day in which a service may or must not run.

use std::fmt;
use std::str::FromStr;

use ioweir_config::Complaint;

const DAY_MINUTES: u32 = 24 * 60;

/// A span of the day on the local clock, in minutes from midnight; it may pass midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    from: u32,
    to: u32,
}

ioweir_config::as_text!(Hours => "hours such as \"22:00-06:00\"");

impl Hours {
    /// Whether the span contains a minute of the day.
    #[must_use]
    pub const fn contains(self, minute: u32) -> bool {
        if self.from < self.to {
            self.from <= minute && minute < self.to
        } else {
            self.from <= minute || minute < self.to
        }
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(out, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

impl FromStr for Hours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let minute = |text: &str| {
            let (hour, minute) = text.trim().split_once(':')?;
            let two = |text: &str| text.parse::<u32>().ok().filter(|_| text.len() == 2);
            let (hour, minute) = (two(hour)?, two(minute)?);
            (minute < 60 && hour * 60 + minute <= DAY_MINUTES).then_some(hour * 60 + minute)
        };
        let span = text.split_once('-').and_then(|(from, to)| Some((minute(from)?, minute(to)?)));
        match span {
            Some((from, to)) if from != to && from < DAY_MINUTES => Ok(Self { from, to }),
            _ => Err(format!("{} are no hours; expected \"22:00-06:00\", for example", ioweir_config::shown(text))),
        }
    }
}

/// Whether a service with these keys may run in a minute of the day.
pub(crate) fn is_open(hours: &[Hours], quiet: &[Hours], minute: u32) -> bool {
    let among = |all: &[Hours]| all.iter().any(|hours| hours.contains(minute % DAY_MINUTES));
    (hours.is_empty() || among(hours)) && !among(quiet)
}

/// Whether each bin of the day is open as a whole, in bins of some minutes; empty if all are.
pub(crate) fn open_bins(hours: &[Hours], quiet: &[Hours], bin_seconds: u32) -> Vec<bool> {
    if hours.is_empty() && quiet.is_empty() {
        return Vec::new();
    }
    let bins = DAY_MINUTES * 60 / bin_seconds.max(1);
    let is_bin_open = |bin: u32| {
        let (first, last) = (bin * bin_seconds / 60, ((bin + 1) * bin_seconds - 1) / 60);
        (first..=last).all(|minute| is_open(hours, quiet, minute))
    };
    (0..bins).map(is_bin_open).collect()
}

/// Checks that some bin is open.
pub(crate) fn check(key: &str, hours: &[Hours], quiet: &[Hours], bin_seconds: u32) -> Result<(), Complaint> {
    let open = open_bins(hours, quiet, bin_seconds);
    if open.is_empty() || open.contains(&true) {
        return Ok(());
    }
    let problem = "with these hours it never runs for as long as a bin";
    Err(Complaint::new(key, problem, "allow more hours, or make [forecast] bin shorter"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_pass_midnight_and_are_printed_back() {
        let night: Hours = "22:00-06:00".parse().unwrap();
        let open: Vec<u32> = (0..24).filter(|hour| night.contains(hour * 60)).collect();
        assert_eq!(open, [0, 1, 2, 3, 4, 5, 22, 23]);
        for text in ["22:00-06:00", "08:30-24:00", "00:00-24:00"] {
            assert_eq!(text.parse::<Hours>().unwrap().to_string(), text);
        }
        for wrong in ["", "8-18", "08:00", "25:00-26:00", "08:00-08:00", "08:61-09:00", "24:00-06:00"] {
            assert!(wrong.parse::<Hours>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn bins_are_open_as_a_whole() {
        let of = |text: &str| vec![text.parse::<Hours>().unwrap()];
        let open = open_bins(&of("22:30-06:00"), &of("02:00-03:00"), 3600);
        let open: Vec<usize> = (0..24).filter(|bin| open[*bin]).collect();
        assert_eq!(open, [0, 1, 3, 4, 5, 23]);
        assert!(check("a", &of("22:30-23:00"), &[], 3600).is_err());
    }
}
