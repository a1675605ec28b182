//! The parameters of arrays of equal drives, and their check.

use serde::{Deserialize, Serialize};

use super::super::check::{fail, numbers};
use super::super::{DeviceSpec, ModelChoice};
use ioweir_config::{Complaint, Size, keys};

const SECTOR_BYTES: u64 = ioweir_core::SECTOR_BYTES;
/// The most drives of an array, those of arrays within it included.
const DRIVES_MAX: u64 = 1024;
/// The largest chunk.
const CHUNK_MAX: Size = Size(1 << 30);

/// How an array places its data on its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrayLayout {
    /// One member after another.
    Concat,
    /// All members hold the same data (RAID 1). A read goes to the member that is free first; where several are free, to the one whose head
    /// is nearest.
    Mirror,
    /// Chunks on each member in turn (RAID 0).
    Stripe,
    /// Chunks on each member in turn, one of each row with the parity of the others, which moves from row to row (RAID 5, left
    /// symmetric).
    Parity,
}

impl ArrayLayout {
    /// The least number of members.
    const fn members_min(self) -> u32 {
        match self {
            Self::Concat | Self::Mirror | Self::Stripe => 2,
            Self::Parity => 3,
        }
    }
}

keys! {
    /// Equal drives behind one address space. A drive serves its part of a request in the order of arrival, whatever its
    /// `command_order`. A dual-actuator disk is a `concat` or `stripe` of two halves.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ArraySpec {
        /// how data lies on the members: concat, mirror (RAID 1), stripe (RAID 0), parity (RAID 5)
        layout: ArrayLayout = required,
        /// the number of drives
        members: u32 = required,
        /// each drive: the name of a preset, or a device as in such a file: [array.member.hdd]; an array of mirrors is one too
        member: ModelChoice = required,
        /// bytes in a row on one member of a stripe or parity array; others have none
        chunk: Option<Size> = absent,
    }
}

impl ArraySpec {
    /// Checks every parameter, and returns the member.
    pub(super) fn checked_member(&self) -> Result<DeviceSpec, Complaint> {
        let most = u32::try_from(DRIVES_MAX).unwrap_or(u32::MAX);
        numbers("array", &[("members", self.members, self.layout.members_min(), most)])?;
        let has_chunks = matches!(self.layout, ArrayLayout::Stripe | ArrayLayout::Parity);
        match self.chunk {
            None if has_chunks => return fail("array.chunk", "is missing", "give such as chunk = \"64KiB\""),
            Some(_) if !has_chunks => {
                return fail("array.chunk", "stands in an array without chunks", "leave it out, or stripe the data");
            }
            Some(chunk) if chunk.0 < SECTOR_BYTES || !chunk.0.is_multiple_of(SECTOR_BYTES) || chunk > CHUNK_MAX => {
                return fail(
                    "array.chunk",
                    format!("is {chunk}"),
                    format!("give a multiple of 512B up to {CHUNK_MAX}"),
                );
            }
            _ => {}
        }
        let member = self.member.spec("array.member")?.into_owned();
        let drives = self.drives();
        if drives > DRIVES_MAX {
            let problem = format!("{drives} drives in all");
            return fail(
                "array.members",
                problem,
                format!("give at most {DRIVES_MAX}, those of arrays within included"),
            );
        }
        Ok(member)
    }

    /// The number of drives, those of arrays within included.
    fn drives(&self) -> u64 {
        let inner = match &self.member {
            ModelChoice::Inline(device) => match &**device {
                DeviceSpec::Array(array) => array.drives(),
                _ => 1,
            },
            ModelChoice::Named(_) => 1,
        };
        inner.saturating_mul(u64::from(self.members))
    }

    /// The sectors of a chunk.
    pub(super) fn chunk_sectors(&self) -> u64 {
        self.chunk.map_or(1, |chunk| (chunk.0 / SECTOR_BYTES).max(1))
    }
}
