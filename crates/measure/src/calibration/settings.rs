//! Settings of other systems for a device, computed by running its model: Linux's io.cost, systemd's hwdb, Ceph, Seastar.
//!
//! The model is loaded at depth 32 with one kind of requests at a time. Where a write burst is faster than what the device
//! sustains, the settings take the sustained figure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioweir_config::{SchedulerChoice, format_count};
use ioweir_core::{Dispatch, Flags, Nanos, Operation, Request, SECTOR_BYTES, StreamId};
use ioweir_device::random::Random;
use ioweir_device::{CommandQueue, Device, DeviceSpec, SsdState};
use serde::Serialize;

use ioweir_lab::document::Document;
use ioweir_lab::run::RunError;

/// Requests outstanding.
pub const DEPTH: usize = 32;
/// Requests of one measurement of a disk and of flash, of which the second half counts.
const REQUESTS: [u64; 2] = [4_000, 40_000];
/// Sectors of a small and of a large request: 4 KiB, and 128 KiB.
const SMALL: u32 = 8;
const LARGE: u32 = 256;
/// The share of requests that are at most as slow as the latencies of io.cost.qos.
const PERCENT: usize = 95;
/// Random reads of the model and of probes that differ by more than this factor are not those of one device. Probes begin 32 reads
/// together, and wait for the slowest of them, so that a good model is up to twice as fast.
const APART_MAX: f64 = 4.0;
/// Figures contradict each other from this factor on, of a disk and of flash: scattered reads of flash may use more dies than reads in
/// a row, whose pages lie side by side.
const INCONSISTENT_FACTORS: [f64; 2] = [1.5, 3.0];

/// Rates and latencies of a device under one kind of requests at a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// Bytes a second of sequential reads of 128 KiB.
    pub read_bytes_per_second: u64,
    /// Sequential reads of 4 KiB a second.
    pub read_sequential_per_second: u64,
    /// Random reads of 4 KiB a second.
    pub read_random_per_second: u64,
    /// Bytes a second of sequential writes of 128 KiB, sustained.
    pub write_bytes_per_second: u64,
    /// Sequential writes of 4 KiB a second, sustained.
    pub write_sequential_per_second: u64,
    /// Random writes of 4 KiB a second, sustained.
    pub write_random_per_second: u64,
    /// Random writes of 4 KiB a second at the beginning of a burst.
    pub write_burst_per_second: u64,
    /// 95 % of random reads are at most this slow.
    pub read_p95_micros: u64,
    /// 95 % of random writes are at most this slow.
    pub write_p95_micros: u64,
    /// Whether the device has to seek.
    pub rotates: bool,
}

/// Runs the model of a device.
///
/// # Errors
/// If it cannot be built.
pub fn settings(spec: &DeviceSpec) -> Result<Settings, RunError> {
    let rotates = spec.rotates();
    // Flash that was never overwritten has no garbage to collect.
    let sustained = match spec {
        DeviceSpec::Ssd(ssd) => DeviceSpec::Ssd(ioweir_device::SsdSpec { state: SsdState::Steady, ..ssd.clone() }),
        other => other.clone(),
    };
    let run = |spec: &DeviceSpec, operation, sectors, is_random| -> Result<Loaded, RunError> {
        let mut device = spec.build(0)?;
        let is_serial = rotates && spec.serves_at_once() == 1;
        Ok(saturate(&mut *device, operation, sectors, is_random, REQUESTS[usize::from(!rotates)], is_serial))
    };
    let (read, write) = (Operation::Read, Operation::Write);
    let random_read = run(spec, read, SMALL, true)?;
    let random_write = run(&sustained, write, SMALL, true)?;
    let bytes = |loaded: Loaded| loaded.per_second * u64::from(LARGE) * SECTOR_BYTES;
    Ok(Settings {
        read_bytes_per_second: bytes(run(spec, read, LARGE, false)?),
        read_sequential_per_second: run(spec, read, SMALL, false)?.per_second,
        read_random_per_second: random_read.per_second,
        write_bytes_per_second: bytes(run(&sustained, write, LARGE, false)?),
        write_sequential_per_second: run(&sustained, write, SMALL, false)?.per_second,
        write_random_per_second: random_write.per_second,
        write_burst_per_second: run(spec, write, SMALL, true)?.burst_per_second,
        read_p95_micros: random_read.p95_nanos / 1_000,
        write_p95_micros: random_write.p95_nanos / 1_000,
        rotates,
    })
}

/// The results of loading the model with one kind of requests.
struct Loaded {
    per_second: u64,
    /// Over the first requests, as many as are outstanding.
    burst_per_second: u64,
    p95_nanos: u64,
}

/// Keeps requests of one kind outstanding. A device with one arm is given one at a time, in its own order.
fn saturate(
    device: &mut dyn Device,
    operation: Operation,
    sectors: u32,
    is_random: bool,
    count: u64,
    is_serial: bool,
) -> Loaded {
    let mut random = Random::new(1);
    let places = (device.sectors() / u64::from(sectors)).max(1);
    let mut number = 0;
    let mut next = || {
        number += 1;
        let place = if is_random { random.below(places) } else { number % places };
        let sector = place * u64::from(sectors);
        Dispatch::alone(&Request { operation, flags: Flags::NONE, stream: StreamId(0), sector, sectors })
    };
    let mut done: Vec<(u64, u64)> = Vec::new();
    if is_serial {
        let mut queue = CommandQueue::new(device.command_order());
        (0..DEPTH).for_each(|_| queue.push(next(), 0));
        let mut now_nanos = 0;
        for _ in 0..count {
            let Some((dispatch, arrival_nanos)) = queue.pop(Nanos(now_nanos), device) else { break };
            now_nanos = device.serve(Nanos(now_nanos), &dispatch).finish.0;
            done.push((now_nanos, now_nanos - arrival_nanos));
            queue.push(next(), now_nanos);
        }
    } else {
        let mut finishes: BinaryHeap<Reverse<u64>> = (0..DEPTH).map(|_| Reverse(0)).collect();
        for _ in 0..count {
            let Some(Reverse(now_nanos)) = finishes.pop() else { break };
            let finish_nanos = device.serve(Nanos(now_nanos), &next()).finish.0;
            done.push((finish_nanos, finish_nanos - now_nanos));
            finishes.push(Reverse(finish_nanos));
        }
        done.sort_unstable();
    }
    let later = done.get(done.len() / 2..).unwrap_or_default();
    let mut latencies: Vec<u64> = later.iter().map(|(_, latency)| *latency).collect();
    latencies.sort_unstable();
    let p95_nanos = latencies.get(latencies.len() * PERCENT / 100).copied().unwrap_or(0);
    Loaded { per_second: rate(later), burst_per_second: rate(done.get(..2 * DEPTH).unwrap_or_default()), p95_nanos }
}

/// Completions a second from the first to the last of these.
fn rate(done: &[(u64, u64)]) -> u64 {
    let span = done.last().map_or(0, |last| last.0) - done.first().map_or(0, |first| first.0);
    let between = done.len().saturating_sub(1) as u128;
    u64::try_from(between * 1_000_000_000 / u128::from(span.max(1))).unwrap_or(u64::MAX)
}

impl Settings {
    /// The coefficients of Linux's `io.cost.model`.
    const fn coefficients(&self) -> [(&'static str, u64); 6] {
        [
            ("rbps", self.read_bytes_per_second),
            ("rseqiops", self.read_sequential_per_second),
            ("rrandiops", self.read_random_per_second),
            ("wbps", self.write_bytes_per_second),
            ("wseqiops", self.write_sequential_per_second),
            ("wrandiops", self.write_random_per_second),
        ]
    }

    /// The figures in the form of Linux's `io.cost.model`.
    fn cost_model(&self) -> String {
        self.coefficients().map(|(name, value)| format!("{name}={value}")).join(" ")
    }

    /// `io-cost` with these coefficients in place of those that are 0, the kernel's own.
    pub(crate) fn priced(&self, choice: &SchedulerChoice) -> SchedulerChoice {
        let mut priced = *choice;
        for (name, value) in self.coefficients() {
            if choice.row.get(&choice.settings, name) == Some(0) {
                // A rate beyond the parameter's range would be that of no device.
                let _ = priced.row.set(&mut priced.settings, name, value);
            }
        }
        priced
    }

    fn cost_qos(&self) -> String {
        format!(
            "rpct={PERCENT}.00 rlat={} wpct={PERCENT}.00 wlat={} min=50.00 max=100.00",
            self.read_p95_micros, self.write_p95_micros
        )
    }

    /// The figures as a scheduler of ioweir, which does with them what Linux does.
    fn cost_scheduler(&self) -> String {
        format!(
            "io-cost:{}:rpct={PERCENT}:rlat={}us:wpct={PERCENT}:wlat={}us:min=50:max=100",
            self.cost_model().replace(' ', ":"),
            self.read_p95_micros,
            self.write_p95_micros
        )
    }

    /// A warning if these figures contradict the rate of random reads that probes measured.
    pub(super) fn contradiction(&self, measured_per_second: f64) -> Option<String> {
        let modelled = self.read_random_per_second;
        let factor = modelled as f64 / measured_per_second.max(1.0);
        (!(1.0 / APART_MAX..=APART_MAX).contains(&factor)).then(|| {
            format!(
                "the model does {} random reads a second, and the probes had {}. A device that \
                 is busy with other work while it is probed looks like that; probe it again when it is at rest.",
                format_count(modelled),
                format_count(measured_per_second as u64)
            )
        })
    }

    /// The first contradiction among these figures: no device serves scattered requests faster than those in a row, or
    /// fewer bytes a second in large requests than in small ones.
    pub(super) fn inconsistency(&self) -> Option<String> {
        let bytes = |per_second: u64| per_second.saturating_mul(u64::from(SMALL) * SECTOR_BYTES);
        let pairs = [
            ("random reads", self.read_random_per_second, "sequential reads", self.read_sequential_per_second),
            ("random writes", self.write_random_per_second, "sequential writes", self.write_sequential_per_second),
            (
                "bytes of small reads",
                bytes(self.read_sequential_per_second),
                "bytes of large ones",
                self.read_bytes_per_second,
            ),
            (
                "bytes of small writes",
                bytes(self.write_sequential_per_second),
                "bytes of large ones",
                self.write_bytes_per_second,
            ),
        ];
        let factor = INCONSISTENT_FACTORS[usize::from(!self.rotates)];
        let wrong = |(_, more, _, less): &(&str, u64, &str, u64)| *more as f64 > *less as f64 * factor;
        pairs.into_iter().find(wrong).map(|(what, more, than, less)| {
            let (more, less) = (format_count(more), format_count(less));
            format!("they contradict each other: the model does {more} {what} a second and {less} {than}.")
        })
    }

    /// Adds the lines for each system.
    pub(super) fn push(&self, document: &mut Document, saw_writes: bool) {
        let disk = if self.rotates { "hdd" } else { "ssd" };
        document.heading("Settings of other systems");
        document.text(format!(
            "Computed by the model, at {DEPTH} requests outstanding of one kind at a time; writes are sustained. A burst of random \
             writes reaches {} a second, sustained are {}.",
            format_count(self.write_burst_per_second),
            format_count(self.write_random_per_second)
        ));
        if !saw_writes {
            document.text(
                "The fit saw no writes: what stands here of writes is of the device that it began with, and not of this one, but for \
                 what is said to be set by probes that write.",
            );
        }
        let lines = [
            ("io.cost.model (MAJ:MIN first)", format!("ctrl=user model=linear {}", self.cost_model())),
            ("io.cost.qos (latencies in us; a place to begin from)", format!("enable=1 ctrl=user {}", self.cost_qos())),
            ("the same as a scheduler, to try before", self.cost_scheduler()),
            (
                "systemd hwdb (name and firmware of your device)",
                format!(
                    "block:*:name:NAME:fwversion:FIRMWARE:* IOCOST_SOLUTIONS=isolation IOCOST_MODEL_ISOLATION={} \
                     IOCOST_QOS_ISOLATION={}",
                    self.cost_model(),
                    self.cost_qos()
                ),
            ),
            (
                "Ceph (random writes of 4 KiB)",
                format!("ceph config set osd.N osd_mclock_max_capacity_iops_{disk} {}", self.write_random_per_second),
            ),
            (
                "Ceph (sequential, bytes a second)",
                format!(
                    "ceph config set osd.N osd_mclock_max_sequential_bandwidth_{disk} {}",
                    self.read_bytes_per_second.min(self.write_bytes_per_second)
                ),
            ),
            (
                "Seastar, io_properties.yaml",
                format!(
                    "disks: [{{ mountpoint: /PATH, read_iops: {}, read_bandwidth: {}, write_iops: {}, write_bandwidth: {} }}]",
                    self.read_random_per_second,
                    self.read_bytes_per_second,
                    self.write_random_per_second,
                    self.write_bytes_per_second
                ),
            ),
        ];
        let facts = lines.into_iter().map(|(name, line)| (name.to_owned(), line)).collect();
        document.blocks.push(ioweir_lab::document::Block::Facts(facts));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    /// Of a flash drive, which takes seconds to fill.
    static FLASH: LazyLock<Settings> = LazyLock::new(|| settings(&DeviceSpec::load("ssd-970pro").unwrap()).unwrap());

    #[test]
    fn disk_at_depth_32_serves_as_mechanics_allow() {
        let disk = settings(&DeviceSpec::load("hdd").unwrap()).unwrap();
        // The preset states 100 MB/s outside; an access takes a seek of 8.5 ms and half a revolution, in the order of arrival.
        assert!((80_000_000..=110_000_000).contains(&disk.read_bytes_per_second), "{disk:?}");
        assert!((74..=82).contains(&disk.read_random_per_second), "{disk:?}");
        assert!(disk.rotates && disk.read_p95_micros > 100_000, "{disk:?}");
        let scheduler: ioweir_config::SchedulerChoice = disk.cost_scheduler().parse().expect("a scheduler");
        assert_eq!(scheduler.row.name, "io-cost");
    }

    #[test]
    fn arrays_serve_all_their_disks_at_once() {
        let text = "[tiered]\ncapacity = \"1TB\"\nplacement = { hit_ratio = 1 }\nfast = { depth = 8, read = \"constant 8ms\" }\n\
                    slow = { read = \"constant 8ms\" }\n";
        let own = settings(&DeviceSpec::parse("a.toml", text).unwrap()).unwrap();
        assert!((990..=1_010).contains(&own.read_random_per_second), "{own:?}");
        let disks = "[array]\nmember = \"hdd\"\nmembers = 4\nlayout = \"stripe\"\nchunk = \"64KiB\"\n";
        let own = settings(&DeviceSpec::parse("a.toml", disks).unwrap()).unwrap();
        assert!((200..=400).contains(&own.read_random_per_second), "{own:?}");
    }

    #[test]
    fn sustained_flash_writes_are_slower_than_bursts() {
        let flash = &*FLASH;
        assert!(flash.write_random_per_second < flash.write_burst_per_second, "{flash:?}");
        assert!(flash.read_random_per_second > 100_000 && !flash.rotates, "{flash:?}");
    }

    #[test]
    fn settings_contradicted_by_probes_are_flagged() {
        let flash = &*FLASH;
        let reads = flash.read_random_per_second as f64;
        assert!([0.3, 0.5, 1.0, 2.0].iter().all(|part| flash.contradiction(reads * part).is_none()));
        for part in [0.2, 5.0] {
            let said = flash.contradiction(reads * part).expect("it is far off");
            assert!(said.starts_with("the model does") && said.contains("probe it again"), "{part}: {said}");
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_found() {
        assert_eq!(FLASH.inconsistency(), None, "{:?}", *FLASH);
        let few = if std::env::var_os("IOWEIR_THOROUGH").is_some() { 5 } else { 2 };
        for preset in ["hdd", "hdd-20tb", "hdd-15k", "ssd-990pro", "ssd-qlc"].into_iter().take(few) {
            let own = settings(&DeviceSpec::load(preset).unwrap()).unwrap();
            assert_eq!(own.inconsistency(), None, "{preset}: {own:?}");
        }
        let flash = &*FLASH;
        let wrong = Settings { read_random_per_second: flash.read_sequential_per_second * 4, ..flash.clone() };
        assert!(wrong.inconsistency().is_some_and(|said| said.contains("random reads")));
        let wrong = Settings { write_bytes_per_second: flash.write_sequential_per_second * 8, ..flash.clone() };
        assert!(wrong.inconsistency().is_some_and(|said| said.contains("bytes of small writes")));
    }
}
