//! Arrays of a fast and a slow tier.
//!
//! Each tier has a queue of its own and serves a number of requests at once, in the order of their arrival. As with every
//! device here this is a closed form: a request begins when the first server of its tier becomes free.

mod cache;
mod spec;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioweir_core::{Dispatch, Nanos, Operation, SECTOR_BYTES, StreamId, Tier};

pub use spec::{CacheSize, Extent, Placement, TierSpec, TieredSpec};

use self::cache::BlockCache;
use super::quantity::ServiceTime;
use super::{Device, Model, Service};
use crate::random::Random;
use ioweir_config::Complaint;
use ioweir_config::Ratio;

/// The numbers of the random sources.
const PLACEMENT_DRAWS: u64 = 0;
const SERVICE_DRAWS: [u64; 2] = [1, 2];

/// The array.
pub struct TieredArray {
    sectors: u64,
    serial: bool,
    placed: Placed,
    /// The hit ratio of each stream that has its own.
    hit_ratios: Vec<Option<Ratio>>,
    draws: Random,
    /// Tiers, indexed by [`Tier`].
    tiers: [ServedTier; 2],
}

/// How the tier of a request is found.
enum Placed {
    HitRatio(Ratio),
    /// The first and last sector of each part in the fast tier, in order.
    Map(Vec<(u64, u64)>),
    Cache {
        cache: BlockCache,
        block_sectors: u64,
    },
}

enum ServedTier {
    Timed(Timed),
    Model(Box<dyn Device>),
}

/// A tier with service times of its own, drawn for each request.
struct Timed {
    read: ServiceTime,
    write: ServiceTime,
    draws: Random,
    free: Servers,
}

/// When each of the servers is free; a single one needs no search.
enum Servers {
    One(u64),
    Several(BinaryHeap<Reverse<u64>>),
}

impl Servers {
    fn new(depth: u32) -> Self {
        if depth == 1 { Self::One(0) } else { Self::Several((0..depth).map(|_| Reverse(0)).collect()) }
    }

    /// Occupies the server that is free first, from `now` on, for `nanos`; returns when it begins.
    fn take(&mut self, now: u64, nanos: u64) -> u64 {
        match self {
            Self::One(free) => {
                let start = now.max(*free);
                *free = start.saturating_add(nanos);
                start
            }
            Self::Several(servers) => {
                let Some(mut first) = servers.peek_mut() else { return now };
                let start = now.max(first.0);
                *first = Reverse(start.saturating_add(nanos));
                start
            }
        }
    }
}

impl Timed {
    fn nanos(&mut self, operation: Operation) -> u64 {
        let time = if operation == Operation::Read { self.read } else { self.write };
        match time {
            ServiceTime::Constant(span) => span.nanos().0,
            ServiceTime::Exponential(mean) => self.draws.exponential(mean.nanos().0),
        }
    }

    fn serve(&mut self, now: Nanos, operation: Operation) -> Service {
        let nanos = self.nanos(operation);
        let start = self.free.take(now.0, nanos);
        Service {
            finish: Nanos(start.saturating_add(nanos)),
            transfer_nanos: nanos,
            queue_nanos: start - now.0,
            ..Service::default()
        }
    }

    /// As [`Timed::serve`], by the only server of both tiers.
    fn serve_after(&mut self, now: Nanos, operation: Operation, before: &mut Servers) -> Service {
        std::mem::swap(&mut self.free, before);
        let service = self.serve(now, operation);
        std::mem::swap(&mut self.free, before);
        service
    }
}

impl Model for TieredSpec {
    fn check(&self) -> Result<(), Complaint> {
        self.check()
    }

    fn resolved(&self) -> Self {
        self.resolved()
    }

    fn rotates(&self) -> bool {
        let model = self.slow.model.as_ref().and_then(|model| model.spec("").ok());
        model.is_none_or(|model| model.rotates())
    }

    /// That of the wider tier: which tier a request needs is not known before.
    fn serves_at_once(&self) -> u32 {
        let tier = |tier: &TierSpec| match &tier.model {
            Some(model) => model.spec("").map_or(1, |model| model.serves_at_once()),
            None => tier.depth,
        };
        if self.serial { 1 } else { tier(&self.slow).max(tier(&self.fast)) }
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Device>, Complaint> {
        Ok(Box::new(TieredArray::new(self, seed)?))
    }
}

impl TieredArray {
    pub(super) fn new(spec: &TieredSpec, seed: u64) -> Result<Self, Complaint> {
        spec.check()?;
        let tier = |tier: &TierSpec, number: usize| match (&tier.model, tier.read) {
            (Some(model), _) => model.spec("tiered")?.build_model(seed).map(ServedTier::Model),
            (None, Some(read)) => Ok(ServedTier::Timed(Timed {
                read,
                write: tier.write.unwrap_or(read),
                draws: Random::stream(seed, SERVICE_DRAWS[number]),
                free: Servers::new(tier.depth),
            })),
            (None, None) => Err(Complaint::new("tiered", "a tier has no service time", "")),
        };
        let placed = match &spec.placement {
            Placement::HitRatio(ratio) => Placed::HitRatio(*ratio),
            Placement::Map(extents) => {
                let sectors = |extent: &Extent| (extent.from.0 / SECTOR_BYTES, extent.to.0 / SECTOR_BYTES);
                Placed::Map(extents.iter().map(sectors).collect())
            }
            Placement::Lru(size) => Placed::cache(BlockCache::lru(size.blocks()), *size),
            Placement::Arc(size) => Placed::cache(BlockCache::arc(size.blocks()), *size),
        };
        Ok(Self {
            sectors: spec.capacity.0 / SECTOR_BYTES,
            serial: spec.serial,
            placed,
            hit_ratios: Vec::new(),
            draws: Random::stream(seed, PLACEMENT_DRAWS),
            tiers: [tier(&spec.slow, Tier::Base as usize)?, tier(&spec.fast, Tier::Fast as usize)?],
        })
    }

    fn is_fast(&mut self, dispatch: &Dispatch) -> bool {
        let end = dispatch.sector + u64::from(dispatch.sectors);
        match &mut self.placed {
            Placed::HitRatio(usual) => {
                let own = self.hit_ratios.get(dispatch.stream.0 as usize).copied().flatten();
                self.draws.chance(own.unwrap_or(*usual))
            }
            Placed::Map(extents) => {
                let after = extents.partition_point(|extent| extent.0 <= dispatch.sector);
                after > 0 && end <= extents[after - 1].1
            }
            Placed::Cache { cache, block_sectors } => {
                let first = dispatch.sector / *block_sectors;
                let last = end.saturating_sub(1).max(dispatch.sector) / *block_sectors;
                // Every block is used, even after one that is missing.
                let missing = (first..=last).filter(|block| !cache.take(*block)).count();
                missing == 0
            }
        }
    }
}

impl Placed {
    fn cache(cache: BlockCache, size: CacheSize) -> Self {
        Self::Cache { cache, block_sectors: size.block.0 / SECTOR_BYTES }
    }
}

impl Device for TieredArray {
    fn serve(&mut self, now: Nanos, dispatch: &Dispatch) -> Service {
        let tier = if self.is_fast(dispatch) { Tier::Fast } else { Tier::Base };
        let [slow, fast] = &mut self.tiers;
        let service = match (tier, slow, fast) {
            (Tier::Fast, ServedTier::Timed(slow), ServedTier::Timed(fast)) if self.serial => {
                fast.serve_after(now, dispatch.operation, &mut slow.free)
            }
            (Tier::Base, ServedTier::Timed(timed), _) | (Tier::Fast, _, ServedTier::Timed(timed)) => {
                timed.serve(now, dispatch.operation)
            }
            (Tier::Base, ServedTier::Model(model), _) | (Tier::Fast, _, ServedTier::Model(model)) => {
                let room = model.sectors().saturating_sub(u64::from(dispatch.sectors)).max(1);
                model.serve(now, &Dispatch { sector: dispatch.sector % room, ..*dispatch }).counted_from(now)
            }
        };
        Service { tier, ..service }
    }

    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn set_hit_ratio(&mut self, stream: StreamId, ratio: Ratio) {
        let number = stream.0 as usize;
        if self.hit_ratios.len() <= number {
            self.hit_ratios.resize(number + 1, None);
        }
        self.hit_ratios[number] = Some(ratio);
    }
}
