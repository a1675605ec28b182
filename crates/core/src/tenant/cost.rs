//! The cost of a request, and the ways to count it.

use crate::{Operation, Request, SECTOR_BYTES};

/// The largest cost of one request: 16 MiB in sectors, or 327 ms of the device. It bounds how far one dispatch moves a tag.
pub(crate) const COST_MAX: u32 = (1 << 15) - 1;

/// A way to count cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CostModel {
    /// One for each request.
    Requests,
    /// One for each sector; one for a discard or a flush.
    Sectors,
    /// The device's time, in units of 10 us: estimated at first, and corrected at completion ([`super::times`]).
    DeviceTime,
}

impl CostModel {
    /// The names of the parameter's values, in the order of their numbers.
    pub(crate) const NAMES: &'static [&'static str] = &["requests", "sectors", "device-time"];

    /// The names for policies that do not correct a cost.
    pub(crate) const KNOWN_NAMES: &'static [&'static str] = &["requests", "sectors"];

    pub(crate) const fn from_setting(value: u64) -> Self {
        match value {
            0 => Self::Requests,
            1 => Self::Sectors,
            _ => Self::DeviceTime,
        }
    }

    /// The largest cost of a request of at most `sectors_max`.
    pub(crate) fn max(self, sectors_max: u32) -> u32 {
        match self {
            Self::Requests => 1,
            Self::Sectors => sectors_max.clamp(1, COST_MAX),
            Self::DeviceTime => COST_MAX,
        }
    }

    /// The cost of a request, if it is known before the device has served it.
    #[inline(always)]
    pub(crate) fn cost(self, request: &Request) -> Option<u32> {
        match self {
            Self::Requests => Some(1),
            Self::Sectors => Some(match request.operation {
                Operation::Read | Operation::Write => request.sectors.clamp(1, COST_MAX),
                Operation::Discard | Operation::Flush => 1,
            }),
            Self::DeviceTime => None,
        }
    }
}

/// The bytes of data that a request moves.
#[inline(always)]
pub(crate) const fn bytes(operation: Operation, sectors: u32) -> u64 {
    match operation {
        Operation::Read | Operation::Write => sectors as u64 * SECTOR_BYTES,
        Operation::Discard | Operation::Flush => 0,
    }
}
