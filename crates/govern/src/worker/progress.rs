//! Reads how far a worker is from what its `progress` command prints.

use ioweir_config::Size;
use regex_lite::Regex;

use super::{Progress, WorkerError};
use crate::process::last_line;
use crate::spec::WorkerKeys;

/// The patterns of a worker.
#[derive(Clone, Debug)]
pub struct Patterns {
    amount: Option<Regex>,
    finished: Option<Regex>,
    failed: Option<Regex>,
    unit_bytes: u64,
    size_bytes: Option<u64>,
}

impl Patterns {
    /// The patterns of these keys.
    ///
    /// # Errors
    /// If one is no regular expression; those of a checked spec are.
    pub fn new(keys: &WorkerKeys) -> Result<Self, WorkerError> {
        let regex = |pattern: &Option<String>| {
            pattern.as_deref().map(Regex::new).transpose().map_err(|error| WorkerError(error.to_string()))
        };
        Ok(Self {
            amount: regex(&keys.pattern)?,
            finished: regex(&keys.finished)?,
            failed: regex(&keys.failed)?,
            unit_bytes: keys.pattern_unit.0,
            size_bytes: keys.size.map(|size| size.0),
        })
    }

    /// Reads a program's output. Amounts that are absent, or make no sense, are unknown.
    ///
    /// # Errors
    /// If the output says that the work has failed.
    pub fn read(&self, text: &str) -> Result<Progress, WorkerError> {
        if self.failed.as_ref().is_some_and(|failed| failed.is_match(text)) {
            return Err(WorkerError(format!("it has failed: {}", last_line(text))));
        }
        let is_finished = self.finished.as_ref().is_some_and(|finished| finished.is_match(text));
        let (done_bytes, total) = self.amounts(text).unwrap_or_default();
        let owed_bytes = done_bytes.zip(total).map(|(done, total)| total.saturating_sub(done));
        Ok(Progress { done_bytes, owed_bytes, is_finished, ..Progress::default() })
    }

    fn amounts(&self, text: &str) -> Option<(Option<u64>, Option<u64>)> {
        let found = self.amount.as_ref()?.captures(text)?;
        let group = |name: &str| found.name(name).and_then(|group| self.bytes(group.as_str()));
        let total = group("total").or(self.size_bytes);
        let percent = found.name("percent").and_then(|group| group.as_str().parse::<f64>().ok());
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
        let part = percent.zip(total).map(|(percent, total)| (total as f64 * percent / 100.0) as u64);
        Some((group("done").or(part), total))
    }

    /// An amount with a unit, or a number of the unit of these patterns.
    fn bytes(&self, text: &str) -> Option<u64> {
        let text = text.trim();
        match text.parse::<u64>() {
            Ok(number) => number.checked_mul(self.unit_bytes),
            Err(_) => text.parse::<Size>().ok().map(|size| size.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(keys: &str) -> Patterns {
        Patterns::new(&toml::from_str(keys).unwrap()).unwrap()
    }

    fn amounts(patterns: &Patterns, text: &str) -> (Option<u64>, Option<u64>) {
        let progress = patterns.read(text).unwrap();
        (progress.done_bytes, progress.owed_bytes)
    }

    #[test]
    fn amounts_use_their_own_or_patterns_unit() {
        let zpool = patterns("pattern = '(?<done>\\S+) scanned.*, \\S+ issued.*, (?<total>\\S+) total'");
        let text = "  scan: scrub in progress\n\t1.5G scanned at 100M/s, 1G issued at 90M/s, 2G total\n";
        assert_eq!(amounts(&zpool, text), (Some(3 << 29), Some(1 << 29)));
        let md = patterns("pattern = '(?<done>\\d+) / (?<total>\\d+)'\npattern_unit = '512B'");
        assert_eq!(amounts(&md, "1024 / 4096\n"), (Some(512 << 10), Some(3072 * 512)));
        assert_eq!(amounts(&md, "none\n"), (None, None));
        let percent = patterns("pattern = '(?<percent>[0-9.]+)%'\nsize = '1000B'");
        assert_eq!(amounts(&percent, "at 12.5% now"), (Some(125), Some(875)));
    }

    #[test]
    fn what_makes_no_sense_is_not_known() {
        let percent = patterns("pattern = '(?<percent>\\S+)%'\nsize = '1000B'");
        for odd in ["120%", "-1%", "NaN%", "inf%", "x%", "%", ""] {
            assert_eq!(amounts(&percent, odd).0, None, "{odd}");
        }
        let done = patterns("pattern = 'done (?<done>\\S+)'\npattern_unit = '1GiB'");
        for odd in ["done -1", "done 99999999999999999999", "done 18446744073709551615", "done x", "done"] {
            assert_eq!(amounts(&done, odd).0, None, "{odd}");
        }
    }

    #[test]
    fn failed_and_finished_work_is_recognized() {
        let unit = patterns("finished = 'ActiveState=inactive'\nfailed = 'ActiveState=failed'");
        assert!(unit.read("ActiveState=inactive").unwrap().is_finished);
        assert!(!unit.read("ActiveState=active").unwrap().is_finished);
        assert_eq!(unit.read("ActiveState=failed"), Err(WorkerError("it has failed: ActiveState=failed".into())));
    }
}
