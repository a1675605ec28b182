//! What is a device made of that has two tiers, and does that make sense?

use std::ops::Range;
use std::path::PathBuf;

use ioweir_config::Complaint;
use ioweir_config::SchedulerChoice;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::backends::{Backend, BackendRow};
use super::raw::{RawBackend, find_row, number, resolve_backend};

/// One of two tiers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tier {
    /// What it is made of; not of tiers again.
    #[serde(flatten)]
    pub backend: Backend,
    /// Operations that it holds at once. The device's `depth` is by default that of the slow tier, where data is placed, or
    /// of both together, where it is cached.
    pub depth: u32,
}

/// What a fast tier is used for where the scheduler does not place data on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// Copies of what is read again and again.
    Read,
}

/// The keys of a device that has tiers.
#[derive(Debug)]
pub(super) struct RawTiers {
    pub(super) slow: Option<Spanned<RawBackend>>,
    pub(super) fast: Option<Spanned<RawBackend>>,
    pub(super) map: Option<Spanned<PathBuf>>,
    pub(super) cache: Option<Spanned<Cache>>,
}

/// Whether a policy places data, and where the spec says which policy it is.
pub(super) struct Placing {
    pub(super) choice: SchedulerChoice,
    pub(super) range: Range<usize>,
}

impl RawTiers {
    /// The tiers, put together; `at` is the place of the device.
    pub(super) fn resolve(self, placing: &Placing, at: Range<usize>) -> Result<Backend, Complaint> {
        let Self { slow, fast, map, cache } = self;
        let missing = |key| Complaint::at(at.clone(), format!("backend tiered needs the key `{key}`"));
        let (slow, fast) = (slow.ok_or_else(|| missing("slow"))?, fast.ok_or_else(|| missing("fast"))?);
        let fast_range = fast.span();
        let (slow, fast) = (resolve_tier(slow)?, resolve_tier(fast)?);
        let scheduler = placing.choice;
        if matches!(fast.backend, Backend::Null { .. }) {
            let problem = "the fast tier is of backend null, which forgets what is written to it";
            return Err(Complaint::at(fast_range, problem).expected("a backend that keeps what is written"));
        }
        match (&cache, &map, scheduler.row.places) {
            (Some(cache), _, true) => {
                let problem = format!("cache: scheduler {scheduler} places data on the fast tier itself");
                Err(Complaint::at(cache.span(), problem).expected("no cache, or a scheduler of one device"))
            }
            (Some(_), Some(map), false) => {
                let problem = "map: a read cache is empty after a restart, and keeps none";
                Err(Complaint::at(map.span(), problem))
            }
            (None, _, false) => {
                let range = if placing.range.is_empty() { at } else { placing.range.clone() };
                let problem = format!("scheduler {scheduler} places nothing on the fast tier, which would not be used");
                Err(Complaint::at(range, problem)
                    .expected("cache = \"read\", or a scheduler that places data, such as bid-hybrid"))
            }
            (None, map, true) => {
                check_map(map.as_ref(), &slow, &fast, at, fast_range)?;
                let map = map.as_ref().map(|map| map.get_ref().clone());
                Ok(Backend::Tiered { cache: None, map, slow: slow.into(), fast: fast.into() })
            }
            (Some(cache), None, false) => {
                let cache = Some(*cache.get_ref());
                Ok(Backend::Tiered { cache, map: None, slow: slow.into(), fast: fast.into() })
            }
        }
    }
}

/// A map has to live exactly as long as what it tells of.
fn check_map(
    map: Option<&Spanned<PathBuf>>,
    slow: &Tier,
    fast: &Tier,
    at: Range<usize>,
    fast_range: Range<usize>,
) -> Result<(), Complaint> {
    let outlives = |tier: &Tier| matches!(tier.backend, Backend::File { .. });
    let name = |tier: &Tier| tier.backend.name();
    if outlives(slow) != outlives(fast) {
        let problem = format!(
            "slow is of backend {}, fast of {}: one outlives the server, and one does not",
            name(slow),
            name(fast)
        );
        return Err(Complaint::at(fast_range, problem).expected("two tiers that both do, or both do not"));
    }
    match map {
        None if outlives(slow) => Err(Complaint::at(at, "backend tiered needs the key `map`")
            .expected("a file that says where blocks lie, kept with the tiers")),
        Some(map) if !outlives(slow) => {
            let problem = format!("map: what it tells of is gone with the server, as backend {} is", name(slow));
            Err(Complaint::at(map.span(), problem).expected("no map: it is kept in memory"))
        }
        _ => Ok(()),
    }
}

fn resolve_tier(raw: Spanned<RawBackend>) -> Result<Tier, Complaint> {
    let range = raw.span();
    let raw = raw.into_inner();
    let row = find_row(&raw.backend)?;
    if row.name == "tiered" {
        return Err(
            Complaint::at(raw.backend.span(), "a tier has no tiers itself").expected("such as file or emulated")
        );
    }
    let depth = number(raw.depth.as_ref(), "depth", row.depth, 1, 1024)?;
    Ok(Tier { backend: resolve_backend(raw, row, range)?, depth })
}

/// Every file that a device names, with its place in the spec.
pub(super) fn paths_in(own: &RawBackend, tiers: &RawTiers) -> Vec<Spanned<PathBuf>> {
    let of_tiers = [&tiers.slow, &tiers.fast].into_iter().flatten().filter_map(|tier| tier.get_ref().path.as_ref());
    own.path.iter().chain(of_tiers).chain(&tiers.map).cloned().collect()
}

/// Refuses a file that is named twice: nobody would see to it that what overlaps does not meet.
pub(super) fn check_paths(paths: &[Spanned<PathBuf>], taken: &[PathBuf]) -> Result<(), Complaint> {
    for (number, path) in paths.iter().enumerate() {
        let is_taken =
            taken.contains(path.get_ref()) || paths[..number].iter().any(|other| other.get_ref() == path.get_ref());
        if is_taken {
            let problem = format!("file {} is used already", path.get_ref().display());
            return Err(Complaint::at(path.span(), problem).expected("a file of its own for each device, tier and map"));
        }
    }
    Ok(())
}

impl Backend {
    /// Operations that a device of this holds at once unless the spec says otherwise.
    pub(super) fn depth(&self, row: &BackendRow) -> u32 {
        match self {
            Self::Tiered { slow, cache: None, .. } => slow.depth,
            Self::Tiered { slow, fast, cache: Some(_), .. } => slow.depth.saturating_add(fast.depth).min(1024),
            _ => row.depth,
        }
    }

    /// Every file that it uses.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::File { path, .. } => vec![path.clone()],
            Self::Tiered { slow, fast, map, .. } => {
                let tiers = [slow, fast].into_iter().flat_map(|tier| tier.backend.paths());
                tiers.chain(map.clone()).collect()
            }
            _ => Vec::new(),
        }
    }
}
