//! The tables of keys that policies of plans and govern files have in common: a pool, a budget of cores, a forecast and a service. Keys
//! that only one of the two has are beside it ([`crate::plan::policy`], [`crate::govern`]).

use std::collections::BTreeMap;

use ioweir_config::{ByteRate, Complaint, Duration, Rate, Size, keys, unknown};
use ioweir_core::background::{Pool, SERVICES, Service, ServiceRow};

use crate::forecast::{Calendar, ForecasterChoice};
use crate::hours::{self, Hours};

/// The most bins of a plan.
pub const BINS_MAX: usize = 10_000;
pub(crate) const RATE_MAX: u32 = 100_000_000;
const TURNS_MAX: u32 = 1_000_000;

keys! {
    /// The pool of blocks.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PoolTerms {
        /// its size
        size: Size = required,
        /// the space used at the start, without what background work will free
        used: Size = (Size(0)),
        /// the block size, which is the unit of allocation
        block: Size = (Size(4096)),
        /// free space, in percent, that no plan goes below if any can
        floor_percent: f64 = (5.0),
        /// free space, in percent, below which the operator is warned
        alarm_percent: f64 = (10.0),
    }
}

keys! {
    /// The cores that foreground and background share.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CoreTerms {
        /// their number
        count: u32 = required,
        /// requests a second that a core serves at a good latency
        foreground_iops: u32 = required,
    }
}

keys! {
    /// The forecast of the load.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ForecastTerms {
        /// the method with its settings: `ioweir doc forecaster` lists them
        method: String = ("hedge".into()),
        /// the quantile of the load that the plan must withstand, from 0.5 to 0.999
        quantile: f64 = (0.95),
        /// the length of a plan
        horizon: Duration = (Duration::from_seconds(7 * 86_400)),
        /// the length of a bin, a whole part of a day
        bin: Duration = (Duration::from_seconds(600)),
        /// local time minus UTC, in hours: days begin at local midnight
        utc_offset_hours: f64 = (0.0),
        /// the time zone by its IANA name, such as Europe/Berlin, in place of an offset; times in the series are UTC then
        time_zone: Option<String> = absent,
    }
}

keys! {
    /// The terms of a service; where a key says nothing else, its default is that of `ioweir doc service`.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct ServiceTerms {
        /// what there is to do, as a size
        owed: Option<Size> = absent,
        /// how often that is; for snapshots, the time between two of them, and for a scrub, how often everything is read
        every: Option<Duration> = absent,
        /// how long what is owed may wait, from when it may begin
        deadline: Option<Duration> = absent,
        /// how long it must wait before, as a snapshot is kept
        retention: Option<Duration> = absent,
        /// the share, in percent, of what is written or unmapped that becomes its debt; where it is left out, a plan takes all of it, and a
        /// governor takes what its worker and `owed` say
        share_percent: Option<f64> = absent,
        /// its turns in a round of all services
        priority: Option<u32> = absent,
        /// the hours of the day, on the local clock, in which alone it may run, such as ["22:00-06:00"]; any where absent
        hours: Vec<Hours> = absent,
        /// the hours of the day in which it must not run, such as ["08:00-18:00"]
        quiet: Vec<Hours> = absent,
        /// the most bytes of its debt that are paid in a second, whatever cores there are
        bytes_per_second_max: Option<ByteRate> = absent,
        /// the most operations that it does in a second, whatever cores there are
        iops_max: Option<Rate> = absent,
    }
}

impl Default for ForecastTerms {
    fn default() -> Self {
        ioweir_config::defaults()
    }
}

impl ForecastTerms {
    /// The forecaster.
    ///
    /// # Errors
    /// [`Complaint`] if there is no such method.
    pub fn forecaster(&self) -> Result<ForecasterChoice, Complaint> {
        let choice: Result<_, ioweir_config::ChoiceError> = self.method.parse();
        choice.map_err(|error| Complaint::new("forecast.method", error.problem, error.hint))
    }

    /// The local clock.
    ///
    /// # Errors
    /// [`Complaint`] if there is no such time zone, or an offset beside one.
    pub fn calendar(&self) -> Result<Calendar, Complaint> {
        let Self { utc_offset_hours, time_zone, .. } = self;
        let utc_offset_seconds = (utc_offset_hours * 3600.0) as i32;
        let Some(zone) = time_zone else { return Ok(Calendar { utc_offset_seconds, ..Calendar::default() }) };
        if utc_offset_seconds != 0 {
            let hint = "leave out utc_offset_hours: the zone knows its offset";
            return Err(Complaint::new("forecast.time_zone", "both an offset and a time zone are named", hint));
        }
        Calendar::of_zone(zone).map_err(|error| {
            Complaint::new("forecast.time_zone", error.problem, format!("expected {}", error.expected))
        })
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`Complaint`] about the first key that is wrong.
    pub fn check(&self) -> Result<(), Complaint> {
        let wrong = |key: &str, problem: &str| Err(Complaint::new(key, problem, ""));
        if !(0.5..=0.999).contains(&self.quantile) {
            return wrong("forecast.quantile", &format!("{} is out of range; expected 0.5 to 0.999", self.quantile));
        }
        if !(-14.0..=14.0).contains(&self.utc_offset_hours) {
            return wrong("forecast.utc_offset_hours", "expected -14 to 14");
        }
        const DAY_NANOS: u64 = 86_400_000_000_000;
        let bin = self.bin.nanos().0;
        if !(1_000_000_000..=DAY_NANOS).contains(&bin)
            || !DAY_NANOS.is_multiple_of(bin)
            || !bin.is_multiple_of(1_000_000_000)
        {
            return wrong("forecast.bin", "a bin is a whole part of a day, such as 10m or 1h");
        }
        let bins = self.horizon.nanos().0 / bin;
        if bins == 0 || bins > BINS_MAX as u64 {
            return wrong("forecast.horizon", &format!("{bins} bins; expected 1 to {BINS_MAX}"));
        }
        self.forecaster()?;
        self.calendar().map(|_| ())
    }
}

impl PoolTerms {
    /// The pool at the start.
    #[must_use]
    pub fn pool(&self) -> Pool {
        let blocks = self.size.0 / self.block.0.max(1);
        let part = |percent: f64| (u128::from(blocks) * u128::from(per_mille(percent)) / 1000) as u64;
        Pool {
            blocks,
            used_blocks: self.used.0.div_ceil(self.block.0.max(1)),
            floor_blocks: part(self.floor_percent),
            alarm_blocks: part(self.alarm_percent),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`Complaint`] about the first key that is wrong.
    pub fn check(&self) -> Result<(), Complaint> {
        let wrong = |key: &str, problem: &str| Err(Complaint::new(key, problem, ""));
        if !(512..=1 << 30).contains(&self.block.0) {
            return wrong("pool.block", "a block is 512B to 1GiB");
        }
        if self.size.0 < self.block.0 {
            return wrong("pool.size", "the pool holds not even one block");
        }
        if self.used.0 > self.size.0 {
            return wrong("pool.used", &format!("{} are more than the pool's {}", self.used, self.size));
        }
        for (key, value) in [("pool.floor_percent", self.floor_percent), ("pool.alarm_percent", self.alarm_percent)] {
            percentage(key, value)?;
        }
        if self.alarm_percent < self.floor_percent {
            return wrong("pool.alarm_percent", "the alarm comes after the floor; expected at least the floor");
        }
        Ok(())
    }
}

impl CoreTerms {
    /// Checks every value; there may be so many cores.
    ///
    /// # Errors
    /// [`Complaint`] about the first key that is wrong.
    pub fn check(&self, count_max: u32) -> Result<(), Complaint> {
        check_count("cores.count", self.count, count_max)?;
        check_count("cores.foreground_iops", self.foreground_iops, RATE_MAX)
    }
}

impl ServiceTerms {
    /// Checks the terms by themselves; the table is that of `row`, and `bin` the length of a bin.
    ///
    /// # Errors
    /// [`Complaint`] about the first key that is wrong.
    pub fn check(&self, row: &ServiceRow, bin: Duration) -> Result<(), Complaint> {
        let key = |name: &str| format!("service.{}.{name}", row.name);
        let named = if self.hours.is_empty() { "quiet" } else { "hours" };
        hours::check(&key(named), &self.hours, &self.quiet, (bin.nanos().0 / 1_000_000_000) as u32)?;
        if let Some(share) = self.share_percent {
            percentage(&key("share_percent"), share)?;
        }
        if self.priority.is_some_and(|priority| !(1..=TURNS_MAX).contains(&priority)) {
            return Err(Complaint::new(key("priority"), format!("out of range; expected 1 to {TURNS_MAX}"), ""));
        }
        check_rate(row, "bytes_per_second_max", self.bytes_per_second_max.map(|rate| rate.0))?;
        check_rate(row, "iops_max", self.iops_max.map(|rate| rate.0))
    }
}

/// Checks a count, of which there is at least one.
pub(crate) fn check_count(key: &str, value: u32, most: u32) -> Result<(), Complaint> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(Complaint::new(key, format!("{value} is out of range; expected 1 to {most}"), ""))
}

/// Checks a percentage.
pub(crate) fn percentage(key: &str, percent: f64) -> Result<(), Complaint> {
    if (0.0..=100.0).contains(&percent) {
        return Ok(());
    }
    Err(Complaint::new(key, format!("{percent} is no percentage; expected 0 to 100"), ""))
}

pub(crate) fn check_rate(row: &ServiceRow, name: &str, rate: Option<u64>) -> Result<(), Complaint> {
    if rate != Some(0) {
        return Ok(());
    }
    let hint = "leave the service out if it is not to run";
    Err(Complaint::new(format!("service.{}.{name}", row.name), "a rate of nothing; expected more than zero", hint))
}

/// The services that have a table, in the order of [`SERVICES`].
pub(crate) fn services<T>(tables: &BTreeMap<String, T>) -> impl Iterator<Item = (Service, &T)> {
    SERVICES.iter().filter_map(|row| Some((row.service, tables.get(row.name)?)))
}

/// Checks that each table is named after a service.
pub(crate) fn check_names<T>(tables: &BTreeMap<String, T>) -> Result<(), Complaint> {
    let names: Vec<_> = SERVICES.iter().map(|row| row.name).collect();
    let wrong = tables.keys().find(|name| Service::find(name).is_none());
    wrong.map_or(Ok(()), |name| {
        let error = unknown("service", name, &names, "`ioweir doc service` lists them");
        Err(Complaint::new(format!("service.{name}"), error.problem, error.hint))
    })
}

/// Converts a percentage, which was checked, to thousandths.
pub(crate) fn per_mille(percent: f64) -> u32 {
    (percent.clamp(0.0, 100.0) * 10.0).round() as u32
}
