//! Devices of two tiers.

use std::path::PathBuf;

use ioweir_config::{Complaint, KeySet as _, SchedulerChoice, keys};
use serde::{Deserialize, Serialize};

use super::backends::{Backend, BackendRow};
use super::check::within;
use super::device::{BackendKeys, check_keys, find_row, resolve_backend};
use super::joined;

/// A tier of a device with two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tier {
    /// The backend of the tier, which is not composed of others.
    #[serde(flatten)]
    pub backend: Backend,
    /// The number of operations that it holds at once. The device's `depth` is by default that of the slow tier if data is
    /// placed, and the sum of both if it is cached.
    pub depth: u32,
}

/// The use of a fast tier on which the scheduler does not place data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// Copies of data that is read again and again.
    Read,
}

keys! {
    /// A tier as the file has it.
    #[derive(Clone, Debug)]
    pub struct TierKeys {
        /// what it is made of; not of tiers or parts again
        backend: String = required,
        /// requests that it holds at once, 1 to 1024
        depth: Option<u32> = absent,
        ..of: BackendKeys,
    }
}

/// The tiers of a device as the file has them.
pub(super) struct Tiers {
    pub(super) slow: TierKeys,
    pub(super) fast: TierKeys,
    pub(super) map: Option<PathBuf>,
    pub(super) cache: Option<Cache>,
}

impl Tiers {
    /// Combines the tiers under a scheduler; `at` is the device.
    pub(super) fn resolve(self, scheduler: SchedulerChoice, at: &str) -> Result<Backend, Complaint> {
        let Self { slow, fast, map, cache } = self;
        let wrong = |key: &str, problem: &str| Complaint::of_value(format!("{at}.{key}"), problem);
        let (slow, fast) = (resolve_tier(slow, &format!("{at}.slow"))?, resolve_tier(fast, &format!("{at}.fast"))?);
        if matches!(fast.backend, Backend::Null { .. }) {
            let problem = "the fast tier is of backend null, which forgets what is written to it";
            return Err(wrong("fast", problem).expected("a backend that keeps what is written"));
        }
        match (cache, &map, scheduler.row.places) {
            (Some(_), _, true) => {
                let problem = format!("cache: scheduler {scheduler} places data on the fast tier itself");
                return Err(wrong("cache", &problem).expected("no cache, or a scheduler of one device"));
            }
            (Some(_), Some(_), false) => {
                return Err(wrong("map", "map: a read cache is empty after a restart, and keeps none"));
            }
            (None, _, false) => {
                let problem = format!("scheduler {scheduler} places nothing on the fast tier, which would not be used");
                let expected = "cache = \"read\", or a scheduler that places data, such as bid-hybrid";
                return Err(wrong("scheduler", &problem).expected(expected));
            }
            (None, map, true) => check_map(map.is_some(), &slow, &fast, at)?,
            (Some(_), None, false) => {}
        }
        Ok(Backend::Tiered { cache, map, slow: slow.into(), fast: fast.into() })
    }
}

/// Checks that a map lives exactly as long as the tiers that it describes.
fn check_map(is_given: bool, slow: &Tier, fast: &Tier, at: &str) -> Result<(), Complaint> {
    let outlives = |tier: &Tier| matches!(tier.backend, Backend::File { .. } | Backend::Nbd(_));
    let name = |tier: &Tier| tier.backend.name();
    if outlives(slow) != outlives(fast) {
        let problem = format!(
            "slow is of backend {}, fast of {}: one outlives the server, and one does not",
            name(slow),
            name(fast)
        );
        let complaint = Complaint::of_value(format!("{at}.fast"), problem);
        return Err(complaint.expected("two tiers that both do, or both do not"));
    }
    match (is_given, outlives(slow)) {
        (false, true) => Err(Complaint::of_value(at, "backend tiered needs the key `map`")
            .expected("a file that says where blocks lie, kept with the tiers")),
        (true, false) => {
            let problem = format!("map: the tiers that it maps are gone with the server, as backend {} is", name(slow));
            Err(Complaint::of_value(format!("{at}.map"), problem).expected("no map: it is kept in memory"))
        }
        _ => Ok(()),
    }
}

/// Makes a backend that is a tier of another.
pub(super) fn resolve_tier(keys: TierKeys, at: &str) -> Result<Tier, Complaint> {
    let row = find_row(&keys.backend, at)?;
    if row.is_made_of_others() {
        let problem = match row.name {
            "tiered" => "a tier has no tiers itself".into(),
            name => format!("backend {name} is no part of another device"),
        };
        return Err(Complaint::of_value(format!("{at}.backend"), problem).expected("such as file or emulated"));
    }
    check_keys(&keys.given(), row, at)?;
    let depth = keys.depth.unwrap_or(row.depth);
    within(&format!("{at}.depth"), depth, 1, 1024)?;
    Ok(Tier { backend: resolve_backend(keys.of, row, at)?, depth })
}

impl Backend {
    /// The number of operations that such a device holds at once by default.
    pub(super) fn depth(&self, row: &BackendRow) -> u32 {
        match self {
            Self::Tiered { slow, cache: None, .. } => slow.depth,
            Self::Tiered { slow, fast, cache: Some(_), .. } => slow.depth.saturating_add(fast.depth).min(1024),
            Self::Joined { part } => joined::depth(part),
            _ => row.depth,
        }
    }

    /// Every file that the tiers use.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let map = if let Self::Tiered { map, .. } = self { map.clone() } else { None };
        self.files().into_iter().chain(map).collect()
    }
}
