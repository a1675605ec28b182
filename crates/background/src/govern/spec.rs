//! The spec of a governor: the device or the cores, the objective, the forecast, and the services with their terms.

use std::collections::BTreeMap;

use ioweir_config::{ByteRate, Complaint, Duration, Key, KeySet as _, Size, keys};
use ioweir_core::Nanos;
use ioweir_core::background::{
    Bucket, Pool, Resource, SERVICES, SERVICES_COUNT, Service, ServiceSettings, Settings, Source, Watermark,
};

use crate::forecast::Calendar;
use crate::hours::open_bins;
use crate::plan::{System, Terms};
use crate::terms::{
    CoreTerms, ForecastTerms, PoolTerms, ServiceTerms, check_names, check_rate, per_mille, percentage, services,
};

/// On a device, a background operation is a millisecond of its time: a second of a thousandth.
const DEVICE_OPERATION: Nanos = Nanos::from_seconds(1);
/// The most directives that the executor is given: after them the last one stays in effect.
const DIRECTIVES_MAX: usize = 144;
const CORES_MAX: u32 = 1 << 12;
const BATCHES_MAX: usize = 1 << 12;
/// With a pool: the share of blocks written that are new, until it is measured; as a policy of plans assumes without saying.
const UNIQUE_SHARE: f64 = 0.05;
/// The size of a block without a pool.
const BLOCK: Size = Size(1 << 20);

keys! {
    /// A governor's spec: one device, or the cores of one machine.
    #[derive(Clone, Debug, PartialEq)]
    pub struct GovernSpec {
        /// how long a slice of background work is
        slice: Duration = (Duration::from_seconds(10)),
        /// how much longer than expected a slice may run before it is paused, and after that before it is ended
        grace: Duration = (Duration::from_seconds(10)),
        /// how long what the foreground gave up stays idle before background work uses it
        calm: Duration = (Duration::from_seconds(10)),
        /// what is kept free for bursts, in percent of the device's time or of the cores; 10 if absent, and nothing beside an idle class
        headroom_percent: Option<f64> = absent,
        /// of a device: whether workers themselves yield to the foreground, so that they need no rate: services of a block server, which
        /// are told to start requests only while clients have none, or programs that the kernel lets wait. If absent, it is so where all
        /// workers are services of a block server
        idle_class: Option<bool> = absent,
        /// of a device: whether debt that is nearly due takes time from the foreground; otherwise it may be late, which is said as soon as
        /// it is seen
        force: bool = (false),
        /// after how long without a sample the foreground is taken to want everything
        stale: Duration = (Duration::from_seconds(15)),
        /// what the foreground is not to feel: [objective]
        objective: Option<ObjectiveSpec> = absent,
        /// the cores, if they are what is shared: [cores]; else it is the time of a device
        cores: Option<CoreTerms> = absent,
        /// the pool of blocks, if room is to be planned: [pool]
        pool: Option<PoolTerms> = absent,
        /// the percentage of what is written that is new, the same in all bins; where absent it is measured by sources and forecast, and
        /// until then taken to be 5 with a pool and 0 without one
        unique_percent: Option<f64> = absent,
        /// paying by the amount of debt alone, without a plan: [watermark]
        watermark: Option<WatermarkSpec> = absent,
        /// the forecast of the load: [forecast]
        forecast: ForecastTerms = (ForecastTerms::default()),
        /// the services, each in a table of its kind: [service.scrub]
        service: BTreeMap<String, ServiceSpec> = absent,
    }
}

keys! {
    /// The latency that the foreground must keep.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ObjectiveSpec {
        /// the most that a request may take, at the quantile
        latency_max: Duration = required,
        /// the quantile of the latency that is measured
        quantile: f64 = (0.99),
    }
}

keys! {
    /// Paying by the amount of debt alone.
    #[derive(Clone, Debug, PartialEq)]
    pub struct WatermarkSpec {
        /// debt in percent of the pool at which paying begins
        low_percent: f64 = required,
        /// debt in percent of the pool at which it takes everything
        high_percent: f64 = required,
        /// whether what is idle is used below that
        harvests: bool = (false),
    }
}

keys! {
    /// The terms of a service.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct ServiceSpec {
        /// bytes of its debt that a second of the device's time, or of a core, pays, until that is learnt
        expected_rate: Option<ByteRate> = absent,
        ..shared: ServiceTerms,
    }
}

impl Default for GovernSpec {
    fn default() -> Self {
        ioweir_config::defaults()
    }
}

/// Every key of a governor's spec, by table.
#[must_use]
pub fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    vec![
        ("", GovernSpec::keys()),
        ("[objective]", ObjectiveSpec::keys()),
        ("[cores]", CoreTerms::keys()),
        ("[pool]", PoolTerms::keys()),
        ("[watermark]", WatermarkSpec::keys()),
        ("[forecast]", ForecastTerms::keys()),
        ("[service.KIND]", ServiceSpec::keys()),
    ]
}

/// The share that is kept free for bursts where workers do not yield by themselves.
const HEADROOM_PERCENT: f64 = 10.0;
const EXPECTED_RATE: ByteRate = ByteRate(100_000_000);
const HINTS: &[(&str, &str)] = &[("with a unit", "sizes and durations are text with a unit: \"40TiB\", \"1h\"")];

ioweir_lab::spec_file!(GovernSpec, HINTS, check);

impl GovernSpec {
    /// The length of a bin.
    #[must_use]
    pub const fn bin(&self) -> Nanos {
        self.forecast.bin.nanos()
    }

    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.pool.as_ref().map_or(BLOCK, |pool| pool.block).0.max(1)
    }

    /// The services in use with their terms, in the order of the table.
    pub fn services(&self) -> impl Iterator<Item = (Service, &ServiceSpec)> {
        services(&self.service)
    }

    pub(super) fn resource(&self) -> Resource {
        self.cores.as_ref().map_or(Resource::DeviceTime, |cores| Resource::Cores(cores.count))
    }

    /// The time of an operation on one unit. A core's is a millisecond, as a device's is.
    fn operation(&self) -> Nanos {
        if self.cores.is_some() { Nanos::from_millis(1) } else { DEVICE_OPERATION }
    }

    /// Whether an idle class can be asked for: only the time of a device is shared, and neither cores nor room.
    #[must_use]
    pub const fn takes_idle_class(&self) -> bool {
        self.cores.is_none() && self.pool.is_none() && self.watermark.is_none()
    }

    /// Whether workers themselves yield to the foreground.
    #[must_use]
    pub fn is_idle_class(&self) -> bool {
        self.takes_idle_class() && self.idle_class.unwrap_or(true)
    }

    /// The share of the device, or of the cores, that is kept free for bursts, in percent.
    fn headroom(&self) -> f64 {
        self.headroom_percent.unwrap_or(if self.is_idle_class() { 0.0 } else { HEADROOM_PERCENT })
    }

    pub(super) fn headroom_units(&self) -> u32 {
        (f64::from(self.resource().units()) * self.headroom() / 100.0).ceil() as u32
    }

    /// The foreground's work that a unit does in a bin: requests for cores, microseconds for a device.
    pub(super) fn unit_requests(&self) -> u64 {
        let requests = match &self.cores {
            Some(cores) => u64::from(cores.foreground_iops).saturating_mul(self.bin().0 / 1_000_000_000),
            None => self.bin().0 / 1_000_000,
        };
        requests.max(1)
    }

    /// Whether a service may run, for each bin of a day; empty if it always may.
    pub(super) fn open_bins(&self, terms: &ServiceSpec) -> Vec<bool> {
        open_bins(&terms.shared.hours, &terms.shared.quiet, (self.bin().0 / 1_000_000_000) as u32)
    }

    pub(super) fn calendar(&self) -> Result<Calendar, Complaint> {
        self.forecast.calendar()
    }

    /// Whether writes or unmaps become debt.
    pub(super) fn is_fed(service: Service, terms: &ServiceSpec) -> bool {
        terms.shared.share_percent.is_some() && !matches!(service.row().source, Source::Named | Source::Stored)
    }

    /// Whether written and unmapped blocks matter to this governor.
    pub(super) fn counts_blocks(&self) -> bool {
        self.pool.is_some() || self.services().any(|(service, terms)| Self::is_fed(service, terms))
    }

    /// The assumed share of new blocks, until it is measured.
    pub(super) const fn unique_before(&self) -> f64 {
        if self.pool.is_some() { UNIQUE_SHARE } else { 0.0 }
    }

    pub(super) fn pool(&self) -> Pool {
        match &self.pool {
            Some(pool) => pool.pool(),
            None => Pool { blocks: u64::MAX / 4, used_blocks: 0, floor_blocks: 0, alarm_blocks: 0 },
        }
    }

    fn settings_of(&self, service: Service, terms: &ServiceSpec) -> ServiceSettings {
        let row = service.row().defaults();
        let block = u128::from(self.block_bytes());
        let rate = u128::from(terms.expected_rate.unwrap_or(EXPECTED_RATE).0.max(1));
        // Microseconds for a block: an operation is a millisecond.
        let cost = (block * 1_000_000).div_ceil(rate).clamp(1, u128::from(u32::MAX));
        let by_bytes =
            terms.shared.bytes_per_second_max.map(|most| (block * 1_000_000_000).div_ceil(u128::from(most.0.max(1))));
        // A block takes so many operations, as in a plan.
        let by_count = terms
            .shared
            .iops_max
            .map(|most| (u128::from(row.cost_per_mille) * 1_000_000).div_ceil(u128::from(most.0.max(1))));
        let block_nanos_min = by_bytes.into_iter().chain(by_count).max().unwrap_or(0);
        ServiceSettings {
            item_blocks: 1,
            cost_per_mille: cost as u32,
            // Without a pool no room is planned, and everything may have a deadline.
            tied_per_mille: if self.pool.is_some() { row.tied_per_mille } else { 0 },
            priority: terms.shared.priority.unwrap_or(row.priority),
            deadline: terms.shared.deadline.map_or(Nanos::NEVER, Duration::nanos),
            retention: terms.shared.retention.map_or(Nanos::ZERO, Duration::nanos),
            block_nanos_min: Nanos(u64::try_from(block_nanos_min).unwrap_or(u64::MAX)),
        }
    }

    pub(super) fn settings(&self) -> Settings {
        let mut services = SERVICES.each_ref().map(|row| row.defaults());
        for (service, terms) in self.services() {
            services[service as usize] = self.settings_of(service, terms);
        }
        let resource = self.resource();
        let bucket = self.watermark.as_ref().map_or(Bucket::Planned, |mark| Bucket::Fixed {
            watermark: Watermark {
                low_per_mille: per_mille(mark.low_percent),
                high_per_mille: per_mille(mark.high_percent),
            },
            harvests: mark.harvests,
        });
        Settings {
            resource,
            operation: self.operation(),
            slice: self.slice.nanos(),
            grace: self.grace.nanos(),
            headroom_units: self.headroom_units(),
            calm: self.calm.nanos(),
            forces: self.force || !self.takes_idle_class(),
            bucket,
            pool: self.pool(),
            services,
            batches_max: BATCHES_MAX,
            directives_max: DIRECTIVES_MAX,
        }
    }

    /// The system to plan for, with the costs that `settings` knows; `owed` are the debts of each service that will come, and
    /// when.
    pub(super) fn system(
        &self,
        settings: impl Fn(Service) -> ServiceSettings,
        owed: impl Fn(Service) -> Vec<(Nanos, u64)>,
    ) -> System {
        let (bin, resource) = (self.bin(), self.resource());
        let mut services = [const { None }; SERVICES_COUNT];
        for (service, terms) in self.services() {
            let share = if Self::is_fed(service, terms) { terms.shared.share_percent.unwrap_or(0.0) } else { 0.0 };
            let settings = settings(service);
            services[service as usize] = Some(Terms {
                settings,
                share_per_mille: per_mille(share),
                every: if share > 0.0 { terms.shared.every.map_or(Nanos::ZERO, Duration::nanos) } else { Nanos::ZERO },
                owed: owed(service),
                bin_blocks_max: bin.0.checked_div(settings.block_nanos_min.0).unwrap_or(u64::MAX),
                open: self.open_bins(terms),
            });
        }
        let unit_nanos = bin.0;
        let core_work = u128::from(unit_nanos) * 1000 / u128::from(self.operation().0.max(1));
        System {
            bin,
            // Cores kept free for bursts are not planned.
            cores: resource.units().saturating_sub(self.headroom_units()).max(1),
            core_requests: self.unit_requests(),
            core_work: u64::try_from(core_work).unwrap_or(u64::MAX),
            services,
            resident_cores: 0,
            day_bin: 0,
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`Complaint`] about the first key that is wrong.
    pub fn check(&self) -> Result<(), Complaint> {
        self.forecast.check()?;
        if let Some(pool) = &self.pool {
            pool.check()?;
        }
        for (key, span) in [("slice", self.slice), ("grace", self.grace), ("stale", self.stale)] {
            if span.nanos() < Nanos::from_millis(100) || span.nanos() > self.bin() {
                return Err(Complaint::expecting(
                    key,
                    format!("{span} is out of range"),
                    "100ms to the length of a bin",
                ));
            }
        }
        percentage("headroom_percent", self.headroom())?;
        if self.headroom_percent.is_some() && self.is_idle_class() {
            let problem = "workers that yield by themselves are given all that the foreground leaves";
            return Err(Complaint::new(
                "headroom_percent",
                problem,
                "leave it out, or give them a rate: idle_class = false",
            ));
        }
        for (key, is_given) in [("idle_class", self.idle_class == Some(true)), ("force", self.force)] {
            if is_given && !self.takes_idle_class() {
                let problem = "it is for one device, without [cores], [pool] and [watermark]";
                return Err(Complaint::new(key, problem, "leave it out"));
            }
        }
        self.check_unique()?;
        if let Some(objective) = &self.objective {
            if objective.latency_max.nanos() == Nanos::ZERO {
                return Err(Complaint::new("objective.latency_max", "no request takes no time", ""));
            }
            if !(0.5..1.0).contains(&objective.quantile) {
                return Err(Complaint::expecting("objective.quantile", "out of range", "0.5 to less than 1"));
            }
        }
        if let Some(cores) = &self.cores {
            cores.check(CORES_MAX)?;
        }
        if let Some(mark) = &self.watermark {
            if self.pool.is_none() {
                return Err(Complaint::new("watermark", "it is a share of a pool, and there is no [pool]", ""));
            }
            if !(0.0..=mark.high_percent).contains(&mark.low_percent) || mark.high_percent > 100.0 {
                return Err(Complaint::expecting(
                    "watermark",
                    "out of order",
                    "0 <= low_percent <= high_percent <= 100",
                ));
            }
        }
        if self.service.is_empty() {
            return Err(Complaint::new(
                "service",
                "there is nothing to govern",
                "name a service, such as [service.scrub]",
            ));
        }
        check_names(&self.service)?;
        self.services().try_for_each(|(service, terms)| self.check_service(service, terms))
    }

    fn check_unique(&self) -> Result<(), Complaint> {
        let Some(percent) = self.unique_percent else { return Ok(()) };
        percentage("unique_percent", percent)?;
        if !self.counts_blocks() {
            let hint = "it is for a [pool], and for services with share_percent";
            return Err(Complaint::new("unique_percent", "nothing depends on what is written", hint));
        }
        Ok(())
    }

    fn check_service(&self, service: Service, terms: &ServiceSpec) -> Result<(), Complaint> {
        let row = service.row();
        let key = |name: &str| format!("service.{}.{name}", row.name);
        terms.shared.check(row, self.forecast.bin)?;
        check_rate(row, "expected_rate", terms.expected_rate.map(|rate| rate.0))?;
        for (name, span) in [("every", terms.shared.every), ("deadline", terms.shared.deadline)] {
            if span.is_some_and(|span| span.nanos() < self.bin()) {
                return Err(Complaint::new(key(name), format!("shorter than a bin of {}", self.forecast.bin), ""));
            }
        }
        if terms.shared.share_percent.is_some() && matches!(row.source, Source::Named | Source::Stored) {
            let hint = "say how much there is each time: owed = \"100GiB\"";
            return Err(Complaint::new(key("share_percent"), format!("{} is not fed by writes", row.name), hint));
        }
        if self.pool.is_some() && terms.shared.deadline.is_some() && row.tied_per_mille > 0 {
            let hint = "with a [pool], what frees room is planned by room; leave one of the two out";
            return Err(Complaint::new(key("deadline"), format!("{} has no deadline", row.name), hint));
        }
        if let Some(deadline) = terms.shared.deadline.filter(|_| Self::is_fed(service, terms)) {
            // The deadline counts from the begin of the first of these bins, or from the end of the retention.
            let bins = terms.shared.every.map_or(0, |every| every.nanos().0 / self.bin().0).max(1);
            let counted = Nanos(self.bin().0.saturating_mul(bins));
            let retention = terms.shared.retention.map_or(Nanos::ZERO, Duration::nanos);
            let least = counted.after(self.slice.nanos()).since(retention);
            if deadline.nanos() < least {
                let [counted, least] = [counted, least].map(Duration::new);
                let problem = format!("what is written is counted after {counted}, and would be late at once");
                return Err(Complaint::expecting(
                    key("deadline"),
                    problem,
                    format!("{least} or more, or shorter bins"),
                ));
            }
        }
        if terms.shared.every.is_some() && terms.shared.owed.is_none() && !Self::is_fed(service, terms) {
            return Err(Complaint::new(key("every"), "it is not said what is owed each time", "owed = \"100GiB\""));
        }
        Ok(())
    }
}
