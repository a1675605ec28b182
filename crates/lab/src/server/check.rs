//! Validates platforms, workloads and costs. An error names the wrong key and the accepted range.

use super::spec::{BackEndSpec, CostSpec, DiskSpec, OperationSpec, PlatformSpec, TailSpec, WorkCost, WorkloadSpec};
use ioweir_config::Complaint;
use ioweir_config::{Duration, Size};
use ioweir_core::Nanos;

const WORKERS_MAX: u32 = 64;
const DISKS_MAX: u32 = 1024;
const OBJECTS_MAX: u32 = 1 << 24;
const OPERATIONS_MAX: usize = 64;
const FLUSH_OPERATIONS_MAX: u32 = 20_000;
/// The longest time of one step.
const STEP_MAX_NANOS: u64 = 1_000_000_000;
/// The largest request.
const REQUEST_BYTES_MAX: u64 = 16 << 20;

fn wrong<T>(key: impl Into<String>, problem: impl Into<String>, hint: impl Into<String>) -> Result<T, Complaint> {
    Err(Complaint::new(key, problem, hint))
}

fn range<T: PartialOrd + std::fmt::Display>(key: &str, value: T, min: T, max: T) -> Result<(), Complaint> {
    Complaint::unless_within(key, value, [min, max])
}

fn count(key: &str, value: u64, min: u64, max: u64) -> Result<(), Complaint> {
    range(key, value, min, max)
}

fn size(key: &str, value: Size, min: u64, max: u64) -> Result<(), Complaint> {
    range(key, value, Size(min), Size(max))
}

fn span(key: &str, value: Duration, min_nanos: u64, max_nanos: u64) -> Result<(), Complaint> {
    range(key, value, Duration::new(Nanos(min_nanos)), Duration::new(Nanos(max_nanos)))
}

fn percent(key: &str, value: f64) -> Result<(), Complaint> {
    if (0.0..=100.0).contains(&value) {
        return Ok(());
    }
    wrong(key, format!("{value} is no percentage"), "from 0 to 100")
}

fn step(key: &str, time: Duration) -> Result<(), Complaint> {
    span(key, time, 0, STEP_MAX_NANOS)
}

fn cost(key: &str, cost: WorkCost) -> Result<(), Complaint> {
    step(&format!("{key}.base"), cost.base)?;
    if cost.per_kib.nanos().0 <= 1_000_000 {
        return Ok(());
    }
    wrong(format!("{key}.per_kib"), format!("{} is too long", cost.per_kib), "at most 1ms")
}

/// Checks that shares are numbers, none below zero, and not all zero.
fn shares(key: impl Fn(usize) -> String, shares: impl Iterator<Item = f64> + Clone) -> Result<(), Complaint> {
    for (at, share) in shares.clone().enumerate() {
        if !(0.0..1e9).contains(&share) {
            return wrong(key(at), format!("{share} is no share"), "a number above 0, beside the shares of the others");
        }
    }
    if shares.sum::<f64>() > 0.0 { Ok(()) } else { wrong(key(0), "all shares are 0", "at least one above 0") }
}

impl PlatformSpec {
    pub(super) fn check(&self) -> Result<(), Complaint> {
        count("cores", self.cores.into(), 1, u64::from(WORKERS_MAX) + 1)?;
        let workers = self.workers();
        if workers > self.cores {
            let problem = format!("{workers} workers on {} cores", self.cores);
            return wrong(
                "workers",
                problem,
                "at most one worker a core; leave it out for one less than there are cores",
            );
        }
        if workers == 0 {
            return wrong("workers", "no workers", "at least one; a machine of one core needs `workers = 1`");
        }
        count("workers", workers.into(), 1, WORKERS_MAX.into())?;
        size("nvram", self.nvram, 1 << 20, 1 << 44)?;
        size("read_buffers", self.read_buffers, REQUEST_BYTES_MAX, 1 << 44)?;
        span("response_max", self.response_max, 1_000, 60_000_000_000)?;
        let DiskSpec { count: disks, access, access_random, per_kib, stripe } = &self.disks;
        count("disks.count", (*disks).into(), 1, DISKS_MAX.into())?;
        count("disks.stripe", (*stripe).into(), 1, (*disks).into())?;
        for (key, time) in [("access", access), ("access_random", access_random), ("per_kib", per_kib)] {
            step(&format!("disks.{key}"), *time)?;
        }
        let Some(flash) = &self.flash_cache else { return Ok(()) };
        percent("flash_cache.hits_percent", flash.hits_percent)?;
        step("flash_cache.access", flash.access)?;
        step("flash_cache.per_kib", flash.per_kib)
    }
}

impl WorkloadSpec {
    pub(super) fn check(&self) -> Result<(), Complaint> {
        count("objects", self.objects.into(), 1, OBJECTS_MAX.into())?;
        count("operation", self.operations.len() as u64, 1, OPERATIONS_MAX as u64)?;
        shares(|at| format!("operation[{at}].share"), self.operations.iter().map(|operation| operation.share))?;
        self.operations.iter().enumerate().try_for_each(|(at, operation)| operation.check(&format!("operation[{at}]")))
    }
}

impl OperationSpec {
    fn check(&self, key: &str) -> Result<(), Complaint> {
        let sizes = format!("{key}.sizes");
        if !self.sizes.is_empty() {
            shares(|_| sizes.clone(), self.sizes.iter().map(|(_, share)| *share))?;
        }
        if let Some((size, _)) = self.sizes.iter().find(|(size, _)| !(1..=REQUEST_BYTES_MAX).contains(&size.0)) {
            return wrong(sizes, format!("{size} is out of range"), "from 1B to 16MiB");
        }
        for share in &self.misses_percent {
            percent(&format!("{key}.misses_percent"), *share)?;
        }
        if self.misses_percent.last() == Some(&100.0) {
            let hint = "the last entry repeats, so that such a request would never be done; end the list with a 0";
            return wrong(format!("{key}.misses_percent"), "the last entry is 100", hint);
        }
        percent(&format!("{key}.single_block_percent"), self.single_block_percent)?;
        self.deadline.map_or(Ok(()), |within| span(&format!("{key}.deadline"), within, 1, 60_000_000_000))
    }
}

impl CostSpec {
    pub(super) fn check(&self) -> Result<(), Complaint> {
        for (key, time) in
            [("turn", self.turn), ("expiry", self.expiry), ("slow_path", self.slow_path), ("network", self.network)]
        {
            step(key, time)?;
        }
        let costs = [
            ("read", self.read),
            ("write", self.write),
            ("attributes", self.attributes),
            ("restart", self.restart),
            ("prefetch.cost", self.prefetch.cost),
            ("flush.cost", self.flush.cost),
        ];
        costs.into_iter().try_for_each(|(key, work)| cost(key, work))?;
        for (key, first) in [("read", self.read), ("attributes", self.attributes)] {
            if self.restart.base > first.base || self.restart.per_kib > first.per_kib && key == "read" {
                let problem = format!("takes longer than {key}, of which it is a part");
                return wrong("restart", problem, format!("at most what {key} has"));
            }
        }
        percent("spread_percent", self.spread_percent)?;
        self.distribution.check("distribution")?;
        self.tail.iter().try_for_each(TailSpec::check)?;
        self.back_end.iter().try_for_each(BackEndSpec::check)?;
        self.serial.iter().try_for_each(|serial| serial.check("serial"))?;
        size("prefetch.bytes", self.prefetch.bytes, 4096, REQUEST_BYTES_MAX)?;
        span("flush.interval", self.flush.interval, 1_000_000, 3_600_000_000_000)?;
        count("flush.operations", self.flush.operations.into(), 1, FLUSH_OPERATIONS_MAX.into())?;
        if !(1.0..=100.0).contains(&self.flush.log_percent) {
            return wrong("flush.log_percent", format!("{} is out of range", self.flush.log_percent), "from 1 to 100");
        }
        size("flush.log_record", self.flush.log_record, 1, 1 << 20)?;
        span("swing.period", self.swing.period, 1_000_000, 3_600_000_000_000)?;
        if (0.0..100.0).contains(&self.swing.amplitude_percent) {
            return Ok(());
        }
        let problem = format!("{} is out of range", self.swing.amplitude_percent);
        wrong("swing.amplitude_percent", problem, "from 0 to below 100")
    }
}

impl TailSpec {
    fn check(&self) -> Result<(), Complaint> {
        percent("tail.clients_percent", self.clients_percent)?;
        step("tail.to", self.to)?;
        range("tail.from", self.from, Duration::new(Nanos::ZERO), self.to)
    }
}

impl BackEndSpec {
    fn check(&self) -> Result<(), Complaint> {
        count("back_end.operations", self.operations.into(), 1, FLUSH_OPERATIONS_MAX.into())?;
        cost("back_end.cost", self.cost)?;
        count("back_end.regions", self.regions.into(), 1, OBJECTS_MAX.into())?;
        step("back_end.within", self.within)
    }
}
