//! The policy file of an operator: pool, cores, load, forecast, services and their terms.

use std::collections::BTreeMap;

use ioweir_core::Nanos;
use ioweir_core::background::{Pool, SERVICES, SERVICES_COUNT, Service, Source};
use serde::{Deserialize, Serialize};

use super::system::{System, Terms};
use crate::forecast::{Calendar, ForecasterChoice};
use crate::series::Kind;
use ioweir_config::unknown;
use ioweir_config::{ByteRate, Duration, Rate, Size, shown};
use ioweir_config::{Complaint, SpecError};

/// The most bins of a plan.
pub const BINS_MAX: usize = 10_000;
const CORES_MAX: u32 = 1 << 16;
const RATE_MAX: u32 = 100_000_000;

/// Hints for errors of the TOML reader.
const HINTS: &[(&str, &str)] = &[
    ("unknown field", KEYS_HINT),
    ("missing field", KEYS_HINT),
    ("with a unit", "sizes and durations are text with a unit: \"40TiB\", \"1h\""),
];
const KEYS_HINT: &str = "`ioweir doc service` lists the services; examples/vdi/policy.toml has every key of the rest";

/// A policy file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The pool.
    pub pool: PoolTerms,
    /// The cores.
    pub cores: CoreTerms,
    /// The meaning of the numbers in the series.
    #[serde(default)]
    pub load: LoadTerms,
    /// The forecast.
    #[serde(default)]
    pub forecast: ForecastTerms,
    /// The services in use, by name.
    #[serde(default)]
    pub service: BTreeMap<String, ServiceTerms>,
}

/// The pool of blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolTerms {
    /// The size of the pool.
    pub size: Size,
    /// The space used at the start, without debt.
    #[serde(default)]
    pub used: Size,
    /// The block size, which is the unit of allocation.
    #[serde(default = "default_block")]
    pub block: Size,
    /// The floor of free space.
    #[serde(default = "default_floor")]
    pub floor_percent: f64,
    /// Free space below which the operator is warned.
    #[serde(default = "default_alarm")]
    pub alarm_percent: f64,
}

/// The cores of both domains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreTerms {
    /// Number of cores, N in the paper.
    pub count: u32,
    /// Requests per second that a core serves with a good latency, CIOPS in the paper.
    pub foreground_iops: u32,
    /// Background operations per second of a core.
    pub background_operations: u32,
}

/// The meaning of the numbers in the series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadTerms {
    /// The unit of a value: `requests`, or a size such as `1KiB` for columns of KiB per second.
    pub unit: String,
    /// The meaning of a sample.
    pub samples: Kind,
    /// The column of all requests, if reads and writes are not separate.
    pub total: Option<String>,
    /// Column of reads.
    pub read: Option<String>,
    /// Column of writes.
    pub write: Option<String>,
    /// Column of unmaps.
    pub unmap: Option<String>,
    /// Factor applied to every value.
    pub scale: f64,
    /// The share of writes in the total.
    pub write_percent: f64,
    /// The share of written blocks that are new, u in the paper. A trace is counted instead.
    pub unique_percent: f64,
    /// The column of that share, from 0 to 1, where it is measured; it is forecast as the load is.
    pub unique: Option<String>,
    /// The amount of metadata per unmapped data, DMD in the paper.
    pub metadata_percent: f64,
    /// Size of a request.
    pub request: Size,
}

impl Default for LoadTerms {
    fn default() -> Self {
        Self {
            unit: "requests".into(),
            samples: Kind::Mean,
            total: None,
            read: None,
            write: None,
            unmap: None,
            scale: 1.0,
            write_percent: 30.0,
            unique_percent: 5.0,
            unique: None,
            metadata_percent: 3.0,
            request: Size(4096),
        }
    }
}

/// The forecast of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ForecastTerms {
    /// The method with its settings.
    pub method: String,
    /// The quantile of the load that the plan must withstand.
    pub quantile: f64,
    /// Length of the plan.
    pub horizon: Duration,
    /// Length of a bin.
    pub bin: Duration,
    /// Local time minus UTC, in hours: days begin at local midnight.
    pub utc_offset_hours: f64,
    /// The time zone by its IANA name, instead of an offset; times in the series are UTC then.
    pub time_zone: Option<String>,
}

impl Default for ForecastTerms {
    fn default() -> Self {
        Self {
            method: "hedge".into(),
            quantile: 0.95,
            horizon: Duration::from_seconds(7 * 86_400),
            bin: Duration::from_seconds(600),
            utc_offset_hours: 0.0,
            time_zone: None,
        }
    }
}

/// The terms of a service; defaults are those of `ioweir doc service`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceTerms {
    /// Interval between snapshots, or the period of recurring work.
    pub every: Option<Duration>,
    /// How long a snapshot is kept.
    pub retention: Option<Duration>,
    /// How long its debt may wait.
    pub deadline: Option<Duration>,
    /// The share of its source's count that becomes its debt.
    pub share_percent: Option<f64>,
    /// One-time debt, as a size.
    pub owed: Option<Size>,
    /// When the one-time debt begins, counted from the start of the plan.
    pub owed_at: Option<Duration>,
    /// Operations per thousand blocks.
    pub cost_per_mille: Option<u32>,
    /// Pool blocks held by a thousand blocks of debt.
    pub tied_per_mille: Option<u32>,
    /// Turns in a round.
    pub priority: Option<u32>,
    /// The most bytes of its debt that are paid in a second, whatever cores there are.
    pub bytes_per_second_max: Option<ByteRate>,
    /// The most operations that it does in a second, whatever cores there are.
    pub iops_max: Option<Rate>,
}

const fn default_block() -> Size {
    Size(4096)
}
const fn default_floor() -> f64 {
    5.0
}
const fn default_alarm() -> f64 {
    10.0
}

/// Converts a percentage, which was checked, to thousandths.
fn per_mille(percent: f64) -> u32 {
    (percent.clamp(0.0, 100.0) * 10.0).round() as u32
}

impl ForecastTerms {
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
            if !(0.0..=100.0).contains(&value) {
                return wrong(key, &format!("{value} is no percentage; expected 0 to 100"));
            }
        }
        if self.alarm_percent < self.floor_percent {
            return wrong("pool.alarm_percent", "the alarm comes after the floor; expected at least the floor");
        }
        Ok(())
    }
}

impl Policy {
    /// Reads a policy file's text; `file` is its name for errors.
    ///
    /// # Errors
    /// [`SpecError`] with the position of the first invalid key.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        let policy: Self =
            toml::from_str(text).map_err(|error| Complaint::of_toml(&error, HINTS).in_file(file, Some(text)))?;
        policy.check().map_err(|complaint| complaint.in_file(file, Some(text)))?;
        Ok(policy)
    }

    /// Every key as TOML, which [`Policy::parse`] reads.
    #[must_use]
    pub fn to_toml(&self) -> String {
        ioweir_lab::spec::to_toml(self)
    }

    /// The length of a bin in seconds.
    #[must_use]
    pub const fn bin_seconds(&self) -> u32 {
        (self.forecast.bin.nanos().0 / 1_000_000_000) as u32
    }

    /// The number of bins of a plan.
    #[must_use]
    pub const fn bins(&self) -> usize {
        (self.forecast.horizon.nanos().0 / self.forecast.bin.nanos().0) as usize
    }

    /// Makes the forecaster.
    ///
    /// # Errors
    /// [`SpecError`] if there is no such method.
    pub fn forecaster(&self) -> Result<ForecasterChoice, ioweir_config::ChoiceError> {
        self.forecast.method.parse()
    }

    /// The pool at the start.
    #[must_use]
    pub fn pool(&self) -> Pool {
        self.pool.pool()
    }

    /// The system to plan for.
    #[must_use]
    pub fn system(&self) -> System {
        let seconds = u64::from(self.bin_seconds());
        let mut services = [const { None }; SERVICES_COUNT];
        for row in &SERVICES {
            if let Some(terms) = self.service.get(row.name) {
                services[row.service as usize] = Some(self.terms(row.service, terms));
            }
        }
        System {
            bin: self.forecast.bin.nanos(),
            cores: self.cores.count,
            core_requests: u64::from(self.cores.foreground_iops) * seconds,
            core_work: u64::from(self.cores.background_operations) * seconds * 1000,
            services,
            resident_cores: 0,
        }
    }

    fn terms(&self, service: Service, given: &ServiceTerms) -> Terms {
        let row = service.row();
        let mut settings = row.defaults();
        settings.cost_per_mille = given.cost_per_mille.unwrap_or(settings.cost_per_mille);
        settings.tied_per_mille = given.tied_per_mille.unwrap_or(settings.tied_per_mille);
        settings.priority = given.priority.unwrap_or(settings.priority);
        settings.retention = given.retention.map_or(Nanos::ZERO, Duration::nanos);
        let every = given.every.map_or(Nanos::ZERO, Duration::nanos);
        // The period of a scrub is also its deadline, unless another is given.
        let period = if row.source == Source::Stored { given.every } else { None };
        if let Some(deadline) = given.deadline.or(period) {
            settings.deadline = deadline.nanos();
        }
        let every = if row.source == Source::Stored && every == Nanos::ZERO { settings.deadline } else { every };
        let at = given.owed_at.map_or(Nanos::ZERO, Duration::nanos);
        let owed = given.owed.map(|size| (at, size.0.div_ceil(self.pool.block.0)));
        let share_per_mille = per_mille(given.share_percent.unwrap_or(100.0));
        let seconds = u64::from(self.bin_seconds());
        let by_bytes = given.bytes_per_second_max.map(|rate| rate.0.saturating_mul(seconds) / self.pool.block.0);
        let by_operations =
            given.iops_max.map(|rate| settings.blocks(rate.0.saturating_mul(seconds).saturating_mul(1000)));
        let bin_blocks_max = by_bytes.into_iter().chain(by_operations).min().unwrap_or(u64::MAX);
        Terms { settings, share_per_mille, every, owed: owed.into_iter().collect(), bin_blocks_max }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`Complaint`] about the first key that is wrong.
    pub fn check(&self) -> Result<(), Complaint> {
        self.check_numbers()?;
        self.forecast.check()?;
        fn wrong(key: impl Into<String>, problem: String, hint: impl Into<String>) -> Complaint {
            Complaint::new(key, problem, hint)
        }
        if let Err(error) = self.forecaster() {
            return Err(wrong("forecast.method", error.problem, error.hint));
        }
        if self.load.unit != "requests" && self.load.unit.parse::<Size>().map_or(0, |size| size.0) == 0 {
            let problem = format!("`{}` is neither `requests` nor a size", shown(&self.load.unit));
            return Err(wrong("load.unit", problem, "columns of KB a second have the unit \"1kB\""));
        }
        let names: Vec<_> = SERVICES.iter().map(|row| row.name).collect();
        for (name, terms) in &self.service {
            let Some(service) = Service::find(name) else {
                let error = unknown("service", name, &names, "`ioweir doc service` lists them");
                return Err(wrong(format!("service.{name}"), error.problem, error.hint));
            };
            check_service(service, terms, self.forecast.bin)?;
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), Complaint> {
        self.pool.check()?;
        let Self { cores, load, .. } = self;
        let wrong = |key: &str, problem: &str| Err(Complaint::new(key, problem, ""));
        let percents = [
            ("load.write_percent", load.write_percent),
            ("load.unique_percent", load.unique_percent),
            ("load.metadata_percent", load.metadata_percent),
        ];
        for (key, value) in percents {
            if !(0.0..=100.0).contains(&value) {
                return wrong(key, &format!("{value} is no percentage; expected 0 to 100"));
            }
        }
        let counts = [
            ("cores.count", cores.count, CORES_MAX),
            ("cores.foreground_iops", cores.foreground_iops, RATE_MAX),
            ("cores.background_operations", cores.background_operations, RATE_MAX),
        ];
        for (key, value, most) in counts {
            if !(1..=most).contains(&value) {
                return wrong(key, &format!("{value} is out of range; expected 1 to {most}"));
            }
        }
        if !(load.scale > 0.0 && load.scale <= 1e12) {
            return wrong("load.scale", &format!("{} is out of range; expected more than 0, at most 1e12", load.scale));
        }
        if load.request.0 == 0 {
            return wrong("load.request", "a request of no size");
        }
        Ok(())
    }
}

fn check_service(service: Service, terms: &ServiceTerms, bin: Duration) -> Result<(), Complaint> {
    let row = service.row();
    let wrong = |key: &str, problem: String, hint: &str| {
        Err(Complaint::new(format!("service.{}.{key}", row.name), problem, hint))
    };
    if terms.share_percent.is_some_and(|share| !(0.0..=100.0).contains(&share)) {
        return wrong("share_percent", "no percentage; expected 0 to 100".into(), "");
    }
    for (key, value, least) in [
        ("cost_per_mille", terms.cost_per_mille, 1),
        ("tied_per_mille", terms.tied_per_mille, 0),
        ("priority", terms.priority, 1),
    ] {
        if value.is_some_and(|value| !(least..=1_000_000).contains(&value)) {
            return wrong(key, format!("out of range; expected {least} to 1000000"), "");
        }
    }
    let rates = [
        ("bytes_per_second_max", terms.bytes_per_second_max.map(|rate| rate.0)),
        ("iops_max", terms.iops_max.map(|rate| rate.0)),
    ];
    if let Some((key, _)) = rates.into_iter().find(|(_, rate)| *rate == Some(0)) {
        return wrong(
            key,
            "a rate of nothing; expected more than zero".into(),
            "leave the service out if it is not to run",
        );
    }
    if terms.deadline.is_some() && row.deadline_seconds == 0 {
        let hint = "only services that give no room back have deadlines: rebuild, flush, replication, scrub";
        return wrong("deadline", format!("{} has no deadline", row.name), hint);
    }
    if terms.deadline.is_some_and(|deadline| deadline.nanos() == Nanos::ZERO) {
        return wrong("deadline", "a deadline of no time; expected a duration above zero".into(), "");
    }
    if terms.every.is_some_and(|every| every.nanos() == Nanos::ZERO) {
        return wrong(
            "every",
            "a period of no time; expected a duration above zero".into(),
            "leave it out if there is none",
        );
    }
    if row.source == Source::Stored && terms.every.is_some_and(|every| every.nanos() < bin.nanos()) {
        return wrong("every", format!("shorter than a bin of {bin}"), "everything is read once in each period");
    }
    if terms.tied_per_mille.is_some_and(|tied| tied > 0) && row.deadline_seconds > 0 {
        return wrong("tied_per_mille", "what has a deadline gives no room back here; expected 0".into(), "");
    }
    if row.source == Source::Named && terms.owed.is_none() {
        let hint = "say how much, and from when on: owed = \"2TiB\", owed_at = \"1d\"";
        return Err(Complaint::new(format!("service.{}", row.name), "it owes nothing; expected `owed`", hint));
    }
    Ok(())
}
