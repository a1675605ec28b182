//! The cost of a request, and the ways to count it.

use crate::{Nanos, Operation, Request, SECTOR_BYTES};

/// The largest cost of one request: 16 MiB in sectors, or 327 ms of the device. It bounds how far one dispatch moves a tag.
pub(crate) const COST_MAX: u32 = (1 << 15) - 1;

/// A way to count cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CostModel {
    /// One for each request.
    Requests,
    /// One for each sector. A discard or a flush costs what the device moves in the time that it takes ([`Dataless`]).
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
            Self::Sectors => match request.operation {
                Operation::Read | Operation::Write => Some(request.sectors.clamp(1, COST_MAX)),
                Operation::Discard | Operation::Flush => None,
            },
            Self::DeviceTime => None,
        }
    }
}

/// The weight of the newest request in a mean, as a power of two.
const MEAN_SHIFT: u32 = 3;

/// The cost of discards and flushes in sectors, learnt at their completion: as many sectors as requests with data, at their mean pace
/// of that time, move between its dispatch and its completion. The first discard or flush begins it: until then requests
/// with data are not timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dataless {
    /// Mean costs of discards and of flushes, times 2^[`MEAN_SHIFT`]; zero if none has been seen.
    sectors: [u64; 2],
    /// The mean time and length of requests with data, both times 2^[`MEAN_SHIFT`]; zero if none has been seen.
    data_nanos: u64,
    data_sectors: u64,
}

impl Dataless {
    pub(crate) const UNKNOWN: Self = Self { sectors: [0; 2], data_nanos: 0, data_sectors: 0 };

    /// The longest time that counts: 17 seconds.
    const NANOS_MAX: u64 = 1 << 34;

    /// A cost counts at most 16 times the mean, the first one at most 16 times the mean length of requests with data. A client whose
    /// flush met an outage of the device does not pay for the outage; where flushes are slow, the mean follows within a few of them.
    const OUTLIER_SHIFT: u32 = 4;

    /// The expected cost of a discard or flush; at least one.
    pub(crate) fn cost(&self, operation: Operation) -> u32 {
        let sectors = self.sectors[usize::from(operation == Operation::Flush)] >> MEAN_SHIFT;
        sectors.clamp(1, u64::from(COST_MAX)) as u32
    }

    /// Learns from a request that the device had for this time.
    pub(crate) fn learn(&mut self, request: &Request, time: Nanos) {
        let nanos = time.0.clamp(1, Self::NANOS_MAX);
        match request.operation {
            Operation::Read | Operation::Write => {
                let is_new = self.data_nanos == 0;
                for (mean, newest) in [(&mut self.data_nanos, nanos), (&mut self.data_sectors, request.sectors.into())]
                {
                    *mean = if is_new { newest << MEAN_SHIFT } else { *mean - (*mean >> MEAN_SHIFT) + newest };
                }
            }
            Operation::Discard | Operation::Flush => {
                // A time is below 2^34, and a length below 2^35: the sectors of a dispatch times 2^3.
                let moved = u128::from(nanos) * u128::from(self.data_sectors);
                let Some(moved) = moved.checked_div(u128::from(self.data_nanos)) else { return };
                let newest = moved.clamp(1, u128::from(COST_MAX)) as u64;
                let mean = &mut self.sectors[usize::from(request.operation == Operation::Flush)];
                *mean = match *mean {
                    0 => newest.min(self.data_sectors >> MEAN_SHIFT << Self::OUTLIER_SHIFT).max(1) << MEAN_SHIFT,
                    known => {
                        let most = known >> MEAN_SHIFT << Self::OUTLIER_SHIFT;
                        known - (known >> MEAN_SHIFT) + newest.min(most.max(1))
                    }
                };
            }
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
