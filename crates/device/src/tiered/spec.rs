//! The parameters of a tiered array, and their check.

use serde::{Deserialize, Serialize};

use super::super::check::fail;
use super::super::quantity::ServiceTime;
use super::super::{DeviceSpec, ModelChoice};
use ioweir_config::Complaint;
use ioweir_config::Ratio;
use ioweir_config::{Duration, Size, keys};

const SECTOR_BYTES: u64 = ioweir_core::SECTOR_BYTES;
/// The most requests in service at once in one tier.
const DEPTH_MAX: u32 = 4096;
/// The longest mean service time.
const SERVICE_MAX: Duration = Duration::from_seconds(3600);
/// The most blocks of a cache; each takes about fifty bytes.
const BLOCKS_MAX: u64 = 1 << 24;
const EXTENTS_MAX: usize = 1 << 16;

keys! {
    /// A fast and a slow tier in one address space, each with its own queue, served in parallel.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TieredSpec {
        /// the size that the host sees
        capacity: Size = required,
        /// whether only one request is in service at a time over both tiers, as in the worked examples of papers
        serial: bool = (false),
        /// which requests the fast tier serves: { hit_ratio = 0.5 } draws them, and a class may have a ratio of its own; { map =
        /// [...] } takes those within parts of the address space; { lru = ... } and { arc = ... } those whose blocks are cached
        placement: Placement = (Placement::default()),
        /// the fast tier
        fast: TierSpec = required,
        /// the slow tier
        slow: TierSpec = required,
    }
}

/// Which requests the fast tier serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Placement {
    /// A share of all requests, drawn at random. A class of a simulation may have its own hit ratio, which replaces this one
    /// and may change with time.
    HitRatio(Ratio),
    /// Requests that lie entirely within these parts of the address space.
    Map(Vec<Extent>),
    /// Requests whose blocks are in a cache with least recently used replacement.
    Lru(CacheSize),
    /// Requests whose blocks are in a cache with adaptive replacement (Megiddo and Modha, FAST 2003).
    Arc(CacheSize),
}

impl Default for Placement {
    fn default() -> Self {
        Self::HitRatio(Ratio::ZERO)
    }
}

keys! {
    /// A part of the address space.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Extent {
        /// the first byte
        from: Size = required,
        /// the byte after the last
        to: Size = required,
    }
}

keys! {
    /// The size of a cache. A miss is served by the slow tier and then cached, which takes no time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CacheSize {
        /// its capacity
        capacity: Size = required,
        /// the unit of replacement
        block: Size = required,
    }
}

keys! {
    /// A tier: service times of its own, or the model of a drive.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TierSpec {
        /// requests in service at once; a model has its own number
        depth: u32 = (1),
        /// the service time of a read: "exponential 10ms" or "constant 50us"
        read: Option<ServiceTime> = absent,
        /// the service time of other requests; as a read if absent
        write: Option<ServiceTime> = absent,
        /// the drive that serves this tier, instead of service times: the name of a preset, or a device as in such a file;
        /// addresses beyond its end wrap around
        model: Option<ModelChoice> = absent,
    }
}

impl TieredSpec {
    pub(in super::super) fn check(&self) -> Result<(), Complaint> {
        if self.capacity.0 < SECTOR_BYTES {
            let problem = format!("{} is less than a sector", self.capacity);
            return fail("tiered.capacity", problem, "give at least 512B");
        }
        self.fast.check("tiered.fast", self.serial)?;
        self.slow.check("tiered.slow", self.serial)?;
        match &self.placement {
            Placement::HitRatio(_) => Ok(()),
            Placement::Map(extents) => check_map(extents),
            Placement::Lru(size) => size.check("tiered.placement.lru"),
            Placement::Arc(size) => size.check("tiered.placement.arc"),
        }
    }

    pub(in super::super) fn resolved(&self) -> Self {
        Self { fast: self.fast.resolved(), slow: self.slow.resolved(), ..self.clone() }
    }
}

fn check_map(extents: &[Extent]) -> Result<(), Complaint> {
    if extents.len() > EXTENTS_MAX {
        let problem = format!("{} parts", extents.len());
        return fail("tiered.placement.map", problem, format!("give at most {EXTENTS_MAX}"));
    }
    let mut end = 0;
    for (number, extent) in extents.iter().enumerate() {
        let key = || format!("tiered.placement.map[{number}]");
        if extent.from >= extent.to || extent.from.0 < end {
            let problem = format!("from {} to {} is not behind what stands before it", extent.from, extent.to);
            return fail(key(), problem, "list the parts in order, none within another");
        }
        if !extent.from.0.is_multiple_of(SECTOR_BYTES) || !extent.to.0.is_multiple_of(SECTOR_BYTES) {
            return fail(key(), "does not begin or end between sectors", "give multiples of 512B");
        }
        end = extent.to.0;
    }
    Ok(())
}

impl CacheSize {
    fn check(self, key: &str) -> Result<(), Complaint> {
        if self.block.0 < SECTOR_BYTES || !self.block.0.is_multiple_of(SECTOR_BYTES) {
            let problem = format!("{} is not a number of whole sectors", self.block);
            return fail(format!("{key}.block"), problem, "give a multiple of 512B, such as \"64KiB\"");
        }
        let blocks = self.blocks();
        if !(1..=BLOCKS_MAX).contains(&blocks) {
            let problem = format!("{} are {blocks} blocks of {}", self.capacity, self.block);
            return fail(format!("{key}.capacity"), problem, format!("give 1 to {BLOCKS_MAX} blocks"));
        }
        Ok(())
    }

    pub(super) fn blocks(self) -> u64 {
        self.capacity.0 / self.block.0
    }
}

impl TierSpec {
    fn check(&self, key: &str, serial: bool) -> Result<(), Complaint> {
        let complain = |part: &str, problem: &str, hint: &str| {
            let part = if part.is_empty() { key.to_owned() } else { format!("{key}.{part}") };
            fail(part, problem, hint)
        };
        match (&self.model, self.read) {
            (Some(_), Some(_)) => return complain("model", "stands beside service times", "give one of the two"),
            (None, None) => {
                return complain("", "has no service time", "give read = \"exponential 200us\", or model = \"hdd\"");
            }
            (Some(_), None) if self.write.is_some() || self.depth != 1 => {
                return complain("model", "stands beside a write time or a depth", "a model has its own");
            }
            (Some(_), None) if serial => {
                return complain("model", "is not served one at a time with the other tier", "give service times");
            }
            _ => {}
        }
        if let Some(model) = &self.model {
            let drive = model.spec(&format!("{key}.model"))?;
            if matches!(*drive, DeviceSpec::Tiered(_)) {
                return complain("model", "is a tiered array itself", "give a drive, or an [array] of drives");
            }
        }
        if !(1..=DEPTH_MAX).contains(&self.depth) {
            return complain("depth", &format!("is {}", self.depth), &format!("give 1 to {DEPTH_MAX}"));
        }
        for (part, time) in [("read", self.read), ("write", self.write)] {
            if time.is_some_and(|time| time.mean() > SERVICE_MAX) {
                return complain(part, "is longer than an hour", "give a shorter time");
            }
        }
        Ok(())
    }

    fn resolved(&self) -> Self {
        Self { write: self.write.or(self.read), ..self.clone() }
    }
}
