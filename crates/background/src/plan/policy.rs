//! The policy file of an operator: pool, cores, load, forecast, services and their terms.

use std::collections::BTreeMap;

use ioweir_config::{Complaint, Duration, Key, KeySet as _, Size, keys, shown};
use ioweir_core::Nanos;
use ioweir_core::background::{Pool, SERVICES_COUNT, Service, ServiceRow, Source};

use super::system::{System, Terms};
use crate::hours::open_bins;
use crate::series::Kind;
use crate::terms::{self, CoreTerms, ForecastTerms, PoolTerms, RATE_MAX, ServiceTerms, per_mille};

const CORES_MAX: u32 = 1 << 16;

/// Hints for errors of the TOML reader.
const HINTS: &[(&str, &str)] = &[
    ("unknown field", KEYS_HINT),
    ("missing field", KEYS_HINT),
    ("with a unit", "sizes and durations are text with a unit: \"40TiB\", \"1h\""),
];
const KEYS_HINT: &str = "`ioweir doc plan` lists the keys";

keys! {
    /// A policy file.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Policy {
        /// the pool of blocks: [pool]
        pool: PoolTerms = required,
        /// the cores: [cores]
        cores: PolicyCores = required,
        /// the meaning of the numbers in the series: [load]
        load: LoadTerms = (LoadTerms::default()),
        /// the forecast of the load: [forecast]
        forecast: ForecastTerms = (ForecastTerms::default()),
        /// the services in use, each in a table of its name: [service.scrub]
        service: BTreeMap<String, PolicyService> = absent,
    }
}

keys! {
    /// The cores of both domains.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PolicyCores {
        /// background operations a second of a core
        background_operations: u32 = required,
        ..shared: CoreTerms,
    }
}

keys! {
    /// The meaning of the numbers in the series.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LoadTerms {
        /// the unit of a value: "requests", or a size such as "1KiB" for columns of KiB a second
        unit: String = ("requests".into()),
        /// the meaning of a sample: "mean", "sum", or "counter" for one that only grows
        samples: Kind = (Kind::Mean),
        /// the column of all requests, if reads and writes are not separate
        total: Option<String> = absent,
        /// the column of reads
        read: Option<String> = absent,
        /// the column of writes
        write: Option<String> = absent,
        /// the column of unmaps
        unmap: Option<String> = absent,
        /// a factor applied to every value
        scale: f64 = (1.0),
        /// the share of writes in the total
        write_percent: f64 = (30.0),
        /// the share of written blocks that are new, u in the paper; a trace is counted instead
        unique_percent: f64 = (5.0),
        /// the column of that share, from 0 to 1, where it is measured; it is forecast as the load is
        unique: Option<String> = absent,
        /// the amount of metadata for what is unmapped, DMD in the paper
        metadata_percent: f64 = (3.0),
        /// the size of a request
        request: Size = (Size(4096)),
    }
}

impl Default for LoadTerms {
    fn default() -> Self {
        ioweir_config::defaults()
    }
}

keys! {
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct PolicyService {
        /// when what is owed once begins to be, counted from the start of the plan
        owed_at: Option<Duration> = absent,
        /// operations for a thousand blocks
        cost_per_mille: Option<u32> = absent,
        /// blocks of the pool that a thousand blocks of its debt hold until they are paid
        tied_per_mille: Option<u32> = absent,
        ..shared: ServiceTerms,
    }
}

/// Every key of a policy file, by table.
#[must_use]
pub fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    vec![
        ("", Policy::keys()),
        ("[pool]", PoolTerms::keys()),
        ("[cores]", PolicyCores::keys()),
        ("[load]", LoadTerms::keys()),
        ("[forecast]", ForecastTerms::keys()),
        ("[service.NAME]", PolicyService::keys()),
    ]
}

ioweir_lab::spec_file!(Policy, HINTS, check);

impl Policy {
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
        for (service, terms) in terms::services(&self.service) {
            services[service as usize] = Some(self.terms(service, terms));
        }
        System {
            bin: self.forecast.bin.nanos(),
            cores: self.cores.shared.count,
            core_requests: u64::from(self.cores.shared.foreground_iops) * seconds,
            core_work: u64::from(self.cores.background_operations) * seconds * 1000,
            services,
            resident_cores: 0,
            day_bin: 0,
        }
    }

    fn terms(&self, service: Service, given: &PolicyService) -> Terms {
        let row = service.row();
        let shared = &given.shared;
        let mut settings = row.defaults();
        settings.cost_per_mille = given.cost_per_mille.unwrap_or(settings.cost_per_mille);
        settings.tied_per_mille = given.tied_per_mille.unwrap_or(settings.tied_per_mille);
        settings.priority = shared.priority.unwrap_or(settings.priority);
        settings.retention = shared.retention.map_or(Nanos::ZERO, Duration::nanos);
        let every = shared.every.map_or(Nanos::ZERO, Duration::nanos);
        // The period of a scrub is also its deadline, unless another is given.
        let period = if row.source == Source::Stored { shared.every } else { None };
        if let Some(deadline) = shared.deadline.or(period) {
            settings.deadline = deadline.nanos();
        }
        let every = if row.source == Source::Stored && every == Nanos::ZERO { settings.deadline } else { every };
        let at = given.owed_at.map_or(Nanos::ZERO, Duration::nanos);
        let owed = shared.owed.map(|size| (at, size.0.div_ceil(self.pool.block.0)));
        let share_per_mille = per_mille(shared.share_percent.unwrap_or(100.0));
        let seconds = u64::from(self.bin_seconds());
        let by_bytes = shared.bytes_per_second_max.map(|rate| rate.0.saturating_mul(seconds) / self.pool.block.0);
        let by_operations =
            shared.iops_max.map(|rate| settings.blocks(rate.0.saturating_mul(seconds).saturating_mul(1000)));
        let bin_blocks_max = by_bytes.into_iter().chain(by_operations).min().unwrap_or(u64::MAX);
        let open = open_bins(&shared.hours, &shared.quiet, self.bin_seconds());
        Terms { settings, share_per_mille, every, owed: owed.into_iter().collect(), bin_blocks_max, open }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`Complaint`] about the first key that is wrong.
    pub fn check(&self) -> Result<(), Complaint> {
        self.check_numbers()?;
        self.forecast.check()?;
        if self.load.unit != "requests" && self.load.unit.parse::<Size>().map_or(0, |size| size.0) == 0 {
            let problem = format!("`{}` is neither `requests` nor a size", shown(&self.load.unit));
            return Err(Complaint::new("load.unit", problem, "columns of KB a second have the unit \"1kB\""));
        }
        terms::check_names(&self.service)?;
        terms::services(&self.service)
            .try_for_each(|(service, terms)| check_service(service.row(), terms, self.forecast.bin))
    }

    fn check_numbers(&self) -> Result<(), Complaint> {
        self.pool.check()?;
        self.cores.shared.check(CORES_MAX)?;
        terms::check_count("cores.background_operations", self.cores.background_operations, RATE_MAX)?;
        let Self { load, .. } = self;
        let wrong = |key: &str, problem: &str| Err(Complaint::new(key, problem, ""));
        terms::percentage("load.write_percent", load.write_percent)?;
        terms::percentage("load.unique_percent", load.unique_percent)?;
        terms::percentage("load.metadata_percent", load.metadata_percent)?;
        if !(load.scale > 0.0 && load.scale <= 1e12) {
            return wrong("load.scale", &format!("{} is out of range; expected more than 0, at most 1e12", load.scale));
        }
        if load.request.0 == 0 {
            return wrong("load.request", "a request of no size");
        }
        Ok(())
    }
}

fn check_service(row: &ServiceRow, terms: &PolicyService, bin: Duration) -> Result<(), Complaint> {
    let wrong = |key: &str, problem: String, hint: &str| {
        Err(Complaint::new(format!("service.{}.{key}", row.name), problem, hint))
    };
    let shared = &terms.shared;
    shared.check(row, bin)?;
    for (key, value, least) in
        [("cost_per_mille", terms.cost_per_mille, 1), ("tied_per_mille", terms.tied_per_mille, 0)]
    {
        if value.is_some_and(|value| !(least..=1_000_000).contains(&value)) {
            return wrong(key, format!("out of range; expected {least} to 1000000"), "");
        }
    }
    if shared.deadline.is_some() && row.deadline_seconds == 0 {
        let hint = "only services that give no room back have deadlines: rebuild, flush, replication, scrub";
        return wrong("deadline", format!("{} has no deadline", row.name), hint);
    }
    if shared.deadline.is_some_and(|deadline| deadline.nanos() == Nanos::ZERO) {
        return wrong("deadline", "a deadline of no time; expected a duration above zero".into(), "");
    }
    if shared.every.is_some_and(|every| every.nanos() == Nanos::ZERO) {
        return wrong(
            "every",
            "a period of no time; expected a duration above zero".into(),
            "leave it out if there is none",
        );
    }
    if row.source == Source::Stored && shared.every.is_some_and(|every| every.nanos() < bin.nanos()) {
        return wrong("every", format!("shorter than a bin of {bin}"), "everything is read once in each period");
    }
    if terms.tied_per_mille.is_some_and(|tied| tied > 0) && row.deadline_seconds > 0 {
        return wrong("tied_per_mille", "what has a deadline gives no room back here; expected 0".into(), "");
    }
    if row.source == Source::Named && shared.owed.is_none() {
        let hint = "say how much, and from when on: owed = \"2TiB\", owed_at = \"1d\"";
        return Err(Complaint::new(format!("service.{}", row.name), "it owes nothing; expected `owed`", hint));
    }
    Ok(())
}
