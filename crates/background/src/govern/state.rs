//! The state of a governor that is kept over a restart.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::sample::OpenBin;
use super::status::{BinRecord, PlannedBin, ServiceCount};
use crate::plan::LoadForecaster;

/// The version of a kept state.
pub(super) const VERSION: u32 = 3;
/// The oldest version that is read: directives had no limits of work.
pub(super) const VERSION_WITHOUT_LIMITS: u32 = 2;

/// The governor's state beside its spec. It is written as JSON, for example; the same state makes the same decisions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub(super) version: u32,
    /// The parts of the spec that the rest depends on.
    pub(super) about: String,
    pub(super) known: Known,
    pub(super) forecaster: LoadForecaster,
    /// The executor of core, as words.
    pub(super) executor: Vec<u64>,
}

/// The state beside forecaster and executor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    /// The latest time.
    pub(super) now_nanos: u64,
    /// When the open bin begins.
    pub(super) bin_nanos: u64,
    pub(super) open: OpenBin,
    /// Samples above the objective in the open bin, and bytes paid in it.
    pub(super) open_above: u64,
    pub(super) open_paid: BTreeMap<String, u64>,
    /// Of what was expected of the work of whole bins, the part that it did, in thousandths: the device does several requests at once, and
    /// workers may not.
    #[serde(default)]
    pub(super) worked_per_mille: Option<u32>,
    /// Whether short requests would leave some of a debt that is nearly due.
    #[serde(default)]
    pub(super) is_behind: bool,
    /// When the last sample came.
    pub(super) sampled_nanos: Option<u64>,
    pub(super) counts: BTreeMap<String, ServiceCount>,
    /// Samples with a latency, those above the objective, and those among them beside background work.
    pub(super) samples: u64,
    pub(super) above: u64,
    pub(super) above_beside: u64,
    /// The last latency that was measured.
    pub(super) latency_nanos: Option<u64>,
    /// Bins that are over, oldest first.
    pub(super) past: Vec<BinRecord>,
    /// The plan: the open bin, and those after it.
    pub(super) ahead: Vec<PlannedBin>,
    /// Limits and promises that cannot be kept, and the reasons why the forecast is trusted less than usual.
    pub(super) notes: Vec<String>,
}

/// Why a kept state cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kept state cannot be used: {problem}\n  expected: {expected}")]
pub struct StateError {
    pub problem: String,
    /// The values that are accepted.
    pub expected: String,
}

impl StateError {
    pub(super) fn new(problem: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { problem: problem.into(), expected: expected.into() }
    }
}
