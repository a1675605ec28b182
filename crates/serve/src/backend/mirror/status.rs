//! What a mirror says of itself to people and programs.

use super::{LegState, Mirror};

/// A leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegStatus {
    /// Its state.
    pub state: LegState,
    /// Bytes that may have to be copied to it, in whole regions.
    pub owed_bytes: u64,
}

/// A mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorStatus {
    /// Increases when the legs that have everything change.
    pub generation: u64,
    /// The legs, by number.
    pub legs: Vec<LegStatus>,
}

impl LegState {
    /// What it is, in words.
    #[must_use]
    pub const fn words(&self) -> &'static str {
        match self {
            Self::InSync => "in sync",
            Self::Behind => "behind",
            Self::Out(_) => "out",
        }
    }
}

impl Mirror {
    pub(super) fn status(&self) -> MirrorStatus {
        let region_bytes = self.layout().region_bytes;
        let leg = |number: usize| LegStatus {
            state: match &self.legs[number].state {
                // Not before that is known to whoever opens them next.
                LegState::InSync if self.recorded >> number & 1 == 0 => LegState::Behind,
                state => state.clone(),
            },
            owed_bytes: self.marks.lacking(number) * region_bytes,
        };
        MirrorStatus { generation: self.head.generation, legs: (0..self.legs.len()).map(leg).collect() }
    }
}
