//! A server under a load as a machine: the experiment that `ioweir simulate` would read, as text.
//!
//! Each operation is a class for every size that it has. A read from memory costs a machine its `read` and its `completion`, and the
//! server what it costs before a wait: so `read` is the difference here, and `slow_path` the rest. Attribute requests are reads of a sector.

use std::fmt::Write as _;

use ioweir_config::{Duration, ScheduleChoice, Size};
use ioweir_core::{Nanos, SECTOR_BYTES};

use super::server::{Server, ServerLoad};
use super::spec::{CostSpec, OperationKind, OperationSpec, PlatformSpec, WorkCost, WorkloadSpec};

/// The largest request that may lie in one block.
const BLOCK_BYTES: u64 = 4096;
/// The most disk waits of one request, which bounds chains of misses.
const MISSES_MAX: usize = 32;
/// Fewer requests than one in a hundred million miss so often that it can be left out.
const NEVER: f64 = 1e-8;

/// The requests of an operation that have the same size.
pub(super) struct Part<'a> {
    /// The number of the operation in the workload.
    pub(super) operation: usize,
    pub(super) spec: &'a OperationSpec,
    /// The share of all requests.
    share: f64,
    bytes: u64,
}

/// The classes of clients of a workload.
pub(super) fn parts(workload: &WorkloadSpec) -> Vec<Part<'_>> {
    let all: f64 = workload.operations.iter().map(|operation| operation.share).sum();
    let mut parts = Vec::new();
    for (operation, spec) in workload.operations.iter().enumerate() {
        let sizes = if spec.sizes.is_empty() { &[(Size(0), 1.0)][..] } else { &spec.sizes };
        let of_sizes: f64 = sizes.iter().map(|(_, share)| share).sum();
        let part = |(size, share): &(Size, f64)| Part {
            operation,
            spec,
            share: spec.share / all * share / of_sizes,
            bytes: size.0,
        };
        parts.extend(sizes.iter().map(part));
    }
    parts
}

impl Part<'_> {
    /// The share of the requests that miss in memory, of those the share that misses again, and so on.
    fn misses(&self) -> Vec<f64> {
        let given: Vec<f64> = self.spec.misses_percent.iter().map(|percent| percent / 100.0).collect();
        let last = given.last().copied().unwrap_or_default();
        let mut chance = 1.0;
        let shares = given.into_iter().chain(std::iter::repeat(last)).take(MISSES_MAX);
        let misses = shares.take_while(|share| {
            let is_likely = chance > NEVER;
            chance *= share;
            is_likely
        });
        misses.collect()
    }

    /// The processor time until the request is answered or waits, after a wait, and the further time of a consistency point or of reading
    /// ahead.
    fn nanos(&self, costs: &CostSpec) -> [f64; 3] {
        let first = match self.spec.kind {
            OperationKind::Read => costs.read,
            OperationKind::Write => costs.write,
            OperationKind::Attributes => costs.attributes,
        };
        let bytes = self.bytes as f64;
        let later = match self.spec.kind {
            OperationKind::Read if self.spec.sequential => {
                nanos(costs.prefetch.cost, costs.prefetch.bytes.0 as f64) * bytes / costs.prefetch.bytes.0 as f64
            }
            OperationKind::Write => {
                costs.flush.cost.per_kib.nanos().0 as f64 * (bytes + costs.flush.log_record.0 as f64) / 1024.0
            }
            _ => 0.0,
        };
        [nanos(first, bytes), nanos(costs.restart, bytes), later]
    }

    /// The mean processor time of a request, with the work that it makes for the server.
    pub(super) fn mean_nanos(&self, costs: &CostSpec) -> f64 {
        let [first, again, later] = self.nanos(costs);
        let tail = costs
            .tail
            .as_ref()
            .map_or(0.0, |tail| tail.clients_percent / 100.0 * (tail.from.nanos().0 + tail.to.nanos().0) as f64 / 2.0);
        let (mut chance, mut waits) = (1.0, 0.0);
        let misses = self.misses();
        for share in &misses {
            chance *= share;
            waits += chance;
        }
        let slow = misses.first().copied().unwrap_or_default() * costs.slow_path.nanos().0 as f64;
        self.share * (first + tail + slow + waits * again + later)
    }

    /// The class of these requests, of which so many arrive in a second.
    fn class(&self, number: usize, per_second: u64, costs: &CostSpec) -> String {
        let CostSpec { swing, slow_path, .. } = costs;
        let [first, again, _] = self.nanos(costs).map(|nanos| nanos.round() as u64);
        let time = |nanos: u64| Duration::new(Nanos(nanos));
        let mut out = format!(
            "[[class]]\nname = \"{number}\"\nrate = \"{per_second}/s\"\nsize = \"{}B\"\nlocks = {}\n\
             swing = {{ amplitude = {:?}, period = \"{}\" }}\n",
            self.bytes.next_multiple_of(SECTOR_BYTES).max(SECTOR_BYTES),
            self.spec.locks,
            swing.amplitude_percent / 100.0,
            swing.period,
        );
        if self.spec.sequential {
            out += "sequential = 1.0\n";
        }
        if let Some(within) = self.spec.deadline {
            let _ = writeln!(out, "deadline = \"{within}\"");
        }
        if self.spec.kind == OperationKind::Write {
            let _ = writeln!(out, "read_ratio = 0.0\ncost = {{ write = \"{}\", per_kib = \"0s\" }}", time(first));
            return out;
        }
        let _ = writeln!(
            out,
            "misses = {:?}\ncost = {{ read = \"{}\", completion = \"{}\", slow_path = \"{}\", per_kib = \"0s\" }}",
            if self.misses().is_empty() { vec![0.0] } else { self.misses() },
            time(first.saturating_sub(again)),
            time(again),
            time(slow_path.nanos().0 + again.min(first)),
        );
        if self.spec.kind == OperationKind::Read && self.bytes <= BLOCK_BYTES {
            let _ = writeln!(out, "direct = {:?}", self.spec.single_block_percent / 100.0);
        }
        out
    }
}

fn nanos(cost: WorkCost, bytes: f64) -> f64 {
    cost.base.nanos().0 as f64 + cost.per_kib.nanos().0 as f64 * bytes / 1024.0
}

/// The size of the log that the model has.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a percentage of a size")]
pub(super) fn log_bytes(platform: &PlatformSpec, costs: &CostSpec) -> u64 {
    (platform.nvram.0 as f64 * costs.flush.log_percent / 100.0) as u64
}

/// The machine of a server, under a schedule and a load.
pub(super) fn machine(server: &Server, schedule: &ScheduleChoice, load: &ServerLoad) -> String {
    let Server { platform, workload, costs } = server;
    let (disks, swing) = (&platform.disks, server.swing());
    let swings = |count: u32| Duration::new(Nanos(swing.0.saturating_mul(u64::from(count))));
    let mut out = format!(
        "duration = \"{}\"\nwarm_up = \"{}\"\ninterval = \"{}\"\nschedulers = [\"none\"]\nseeds = [{}]\ndepth = 4096\n\
         [device.bank]\ncapacity = \"1TB\"\ndisks = {}\naccess = \"{}\"\naccess_random = \"{}\"\nper_kib = \"{}\"\nstripe = {}\n",
        swings(load.warm_up.saturating_add(load.measured)),
        swings(load.warm_up),
        swings(1),
        load.seed,
        disks.count,
        disks.access,
        disks.access_random,
        disks.per_kib,
        disks.stripe
    );
    if let Some(flash) = &platform.flash_cache {
        let hits = flash.hits_percent / 100.0;
        let _ = writeln!(
            out,
            "cache = {{ hits = {hits:?}, access = \"{}\", per_kib = \"{}\" }}",
            flash.access, flash.per_kib
        );
    }
    cores(&mut out, server, schedule);
    let parts = parts(workload);
    let has = |wanted: fn(&OperationSpec) -> bool| workload.operations.iter().any(wanted);
    let writes = has(|operation| operation.kind == OperationKind::Write);
    let ahead = has(|operation| operation.kind == OperationKind::Read && operation.sequential);
    if has(|operation| operation.locks) {
        let _ = writeln!(out, "[locks]\nobjects = {}", workload.objects);
    }
    if writes {
        log(&mut out, platform, costs);
    }
    if ahead {
        let cost = costs.prefetch.cost;
        let _ = writeln!(
            out,
            "[read_ahead]\nclass = \"ahead\"\nbase = \"{}\"\nper_kib = \"{}\"\n[[class]]\nname = \"ahead\"\nsize = \"{}B\"",
            cost.base,
            cost.per_kib,
            costs.prefetch.bytes.0.next_multiple_of(SECTOR_BYTES)
        );
    }
    if let Some(own) = costs.back_end.as_ref().filter(|_| writes) {
        let per_second = f64::from(own.operations) * 1e9 / costs.flush.interval.nanos().0 as f64;
        let completion = Nanos(nanos(own.cost, BLOCK_BYTES as f64) as u64);
        let _ = writeln!(
            out,
            "[own_work]\nclass = \"own\"\nregions = {}\nwithin = \"{}\"\n[[class]]\nname = \"own\"\nrate = \"{:.0}/s\"\n\
             arrivals = \"constant\"\ncost = {{ read = \"0s\", completion = \"{}\", per_kib = \"0s\", \
             tail = {{ share = 0.0, from = \"0s\", to = \"0s\" }} }}",
            own.regions,
            own.within,
            per_second.max(1.0),
            Duration::new(completion),
        );
    }
    // Rates are whole numbers, and add up to the load.
    let (mut exact, mut given) = (0.0, 0);
    for (number, part) in parts.iter().enumerate() {
        exact += load.requests_per_second * part.share;
        let per_second = (exact.round() as u64).saturating_sub(given);
        given += per_second;
        out += &part.class(number, per_second, costs);
    }
    out
}

fn cores(out: &mut String, server: &Server, schedule: &ScheduleChoice) {
    let Server { platform, costs, .. } = server;
    let distribution =
        toml::Value::try_from(costs.distribution).map_or_else(|_| String::new(), |value| value.to_string());
    let _ = writeln!(
        out,
        "[cores]\nworkers = {}\nschedule = \"{schedule}\"\nturn_each = \"{}\"\nexpiry = \"{}\"\nslow_path = \"{}\"\n\
         spread = {:?}\ndistribution = {distribution}\nread_buffers = \"{}\"",
        platform.workers(),
        costs.turn,
        costs.expiry,
        costs.slow_path,
        costs.spread_percent / 100.0,
        platform.read_buffers
    );
    if let Some(serial) = costs.serial {
        let _ = writeln!(out, "serial = {{ window = \"{}\", length = \"{}\" }}", serial.window, serial.length);
    }
    if let Some(tail) = &costs.tail {
        let share = tail.clients_percent / 100.0;
        let _ = writeln!(out, "tail = {{ share = {share:?}, from = \"{}\", to = \"{}\" }}", tail.from, tail.to);
    }
}

fn log(out: &mut String, platform: &PlatformSpec, costs: &CostSpec) {
    let flush = &costs.flush;
    let bytes = log_bytes(platform, costs);
    let _ = writeln!(
        out,
        "[log]\nclass = \"point\"\nsize = \"{bytes}B\"\nrecord = \"{}\"\ninterval = \"{}\"\nwrites = {}\nbase = \"{}\"\n\
         per_kib = \"{}\"\n[[class]]\nname = \"point\"\nsize = \"{}B\"",
        flush.log_record,
        flush.interval,
        flush.operations,
        flush.cost.base,
        flush.cost.per_kib,
        (bytes / 2).div_ceil(flush.operations.into()).next_multiple_of(SECTOR_BYTES).max(SECTOR_BYTES),
    );
}
