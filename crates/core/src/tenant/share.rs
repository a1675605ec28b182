//! What is a client entitled to, and what is wrong with a share that cannot be had?

use core::fmt;

use crate::{Nanos, StreamId};

/// The largest weight.
pub const WEIGHT_MAX: u32 = 10_000;

/// The largest rate, in cost units a second: one a nanosecond.
pub const RATE_MAX: u64 = 1_000_000_000;

/// The largest burst, in cost units.
pub const BURST_MAX: u64 = 1_000_000_000;

/// The largest rate in bytes: 1 TiB a second.
pub const RATE_BYTES_MAX: u64 = 1 << 40;

/// The largest burst in bytes: 8 GiB.
pub const BURST_BYTES_MAX: u64 = 1 << 33;

/// A group of clients: a number below the capacity for groups given at construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// What one client, or a group of clients, is entitled to. One type for every policy; each uses what it knows of.
///
/// Rates and bursts count cost units: requests, or sectors of 512 bytes where the policy's `cost` is `sectors`. A limit in
/// bytes is one beside it, whatever the cost units are: a client with both is held to the smaller of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its part of what nobody has reserved, against the weights of others; 1 to [`WEIGHT_MAX`]. Of a client in a group:
    /// its part of what the group gets.
    pub weight: u32,
    /// Served at least so often a second while it asks for it; zero: nothing is reserved. It is also the rate of the
    /// arrival curve that `pclock` keeps the latency for. A client in a group reserves through its group.
    pub reservation_per_second: u64,
    /// Served at most so often a second; zero: no limit. At least the reservation.
    pub limit_per_second: u64,
    /// How much may come at once: above the limit after a pause, and above the arrival curve. At least 1.
    pub burst: u64,
    /// At most so many bytes of data are read and written a second; zero: no limit.
    pub limit_bytes_per_second: u64,
    /// How many bytes may go at once above that limit after a pause. A request goes whenever this is not used up, however
    /// large it is, and what it takes beyond it the next one waits for: in any window, less than this and one request go
    /// above the limit. Zero: one request.
    pub burst_bytes: u64,
    /// `pclock`: the longest latency while it keeps to its arrival curve. `parda`: the latency the array is held at, for
    /// which the smallest of all clients' counts. [`Nanos::NEVER`]: none asked for.
    pub latency: Nanos,
    /// The group it belongs to.
    pub group: Option<GroupId>,
    /// At its limit a client's requests are refused where this is set, and wait otherwise.
    pub refuses_at_limit: bool,
}

impl Share {
    /// Weight 1 and nothing else: what a client has of whom nothing was said.
    pub const DEFAULT: Self = Self {
        weight: 1,
        reservation_per_second: 0,
        limit_per_second: 0,
        burst: 1,
        limit_bytes_per_second: 0,
        burst_bytes: 0,
        latency: Nanos::NEVER,
        group: None,
        refuses_at_limit: false,
    };

    /// A weight and nothing else.
    #[must_use]
    pub const fn weighted(weight: u32) -> Self {
        Self { weight, ..Self::DEFAULT }
    }

    /// What is wrong with it whoever else there is.
    pub(crate) const fn check(&self) -> Result<(), ShareError> {
        let Self { weight, reservation_per_second, limit_per_second, burst, .. } = *self;
        let Self { limit_bytes_per_second, burst_bytes, .. } = *self;
        if weight == 0 || weight > WEIGHT_MAX {
            return Err(ShareError::Weight { weight });
        }
        if reservation_per_second > RATE_MAX || limit_per_second > RATE_MAX {
            let is_limit = limit_per_second > RATE_MAX;
            return Err(ShareError::Rate {
                rate_per_second: if is_limit { limit_per_second } else { reservation_per_second },
            });
        }
        if burst == 0 || burst > BURST_MAX {
            return Err(ShareError::Burst { burst });
        }
        if limit_bytes_per_second > RATE_BYTES_MAX {
            return Err(ShareError::ByteRate { bytes_per_second: limit_bytes_per_second });
        }
        if burst_bytes > BURST_BYTES_MAX {
            return Err(ShareError::ByteBurst { bytes: burst_bytes });
        }
        if limit_per_second != 0 && limit_per_second < reservation_per_second {
            return Err(ShareError::LimitBelowReservation { limit_per_second, reservation_per_second });
        }
        if self.group.is_some() && reservation_per_second != 0 {
            return Err(ShareError::ReservationInGroup { reservation_per_second });
        }
        Ok(())
    }
}

/// Why a share was not accepted. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareError {
    /// The weight is zero or above [`WEIGHT_MAX`].
    Weight {
        /// What was asked.
        weight: u32,
    },
    /// A rate is above [`RATE_MAX`].
    Rate {
        /// What was asked.
        rate_per_second: u64,
    },
    /// The burst is zero or above [`BURST_MAX`].
    Burst {
        /// What was asked.
        burst: u64,
    },
    /// The limit in bytes is above [`RATE_BYTES_MAX`].
    ByteRate {
        /// What was asked.
        bytes_per_second: u64,
    },
    /// The burst in bytes is above [`BURST_BYTES_MAX`].
    ByteBurst {
        /// What was asked.
        bytes: u64,
    },
    /// The limit would keep the client from what it has reserved.
    LimitBelowReservation {
        /// The limit asked for.
        limit_per_second: u64,
        /// The reservation asked for.
        reservation_per_second: u64,
    },
    /// A client in a group cannot reserve for itself.
    ReservationInGroup {
        /// What was asked.
        reservation_per_second: u64,
    },
    /// The reservations would add up to more than the device was said to do.
    Infeasible {
        /// What was asked.
        asked_per_second: u64,
        /// What all others have reserved.
        reserved_per_second: u64,
        /// What the device was said to do.
        capacity_per_second: u64,
    },
    /// The reservations would need more of the device's time than there is, at the worst mean cost seen of each client.
    InfeasibleTime {
        /// What was asked.
        asked_per_second: u64,
        /// What one request of it costs, at worst.
        cost: Nanos,
        /// What all others' reservations need of each second.
        reserved: Nanos,
        /// What there is of each second.
        available: Nanos,
    },
    /// There is no place for another client: all of them are configured, or hold requests.
    ClientsFull {
        /// How many clients there are places for.
        capacity: u32,
    },
    /// The group's number is not below the capacity for groups.
    GroupsFull {
        /// How many groups there are places for.
        capacity: u32,
    },
    /// The group has not been configured.
    UnknownGroup(GroupId),
    /// The client has not been configured.
    UnknownClient(StreamId),
    /// A group is not in a group.
    Nested,
}

impl fmt::Display for ShareError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Weight { weight } => write!(out, "weight {weight} is not between 1 and {WEIGHT_MAX}"),
            Self::Rate { rate_per_second } => write!(out, "{rate_per_second}/s is more than {RATE_MAX}/s"),
            Self::Burst { burst } => write!(out, "a burst of {burst} is not between 1 and {BURST_MAX}"),
            Self::ByteRate { bytes_per_second } => {
                write!(out, "{bytes_per_second} bytes/s are more than {RATE_BYTES_MAX} bytes/s")
            }
            Self::ByteBurst { bytes } => {
                write!(out, "a burst of {bytes} bytes is more than {BURST_BYTES_MAX} bytes")
            }
            Self::LimitBelowReservation { limit_per_second, reservation_per_second } => {
                write!(out, "the limit, {limit_per_second}/s, is below the reservation, {reservation_per_second}/s")
            }
            Self::ReservationInGroup { reservation_per_second } => write!(
                out,
                "{reservation_per_second}/s cannot be reserved for a client in a group: reserve it for the group"
            ),
            Self::Infeasible { asked_per_second, reserved_per_second, capacity_per_second } => write!(
                out,
                "{asked_per_second}/s cannot be reserved: {reserved_per_second}/s are reserved already, together {}/s, \
                 and the device does {capacity_per_second}/s; at most {}/s are left",
                reserved_per_second.saturating_add(asked_per_second),
                capacity_per_second.saturating_sub(reserved_per_second)
            ),
            Self::InfeasibleTime { asked_per_second, cost, reserved, available } => write!(
                out,
                "{asked_per_second}/s cannot be reserved: at {} us each, the worst seen, they need {} us of the device \
                 a second; others' reservations need {} us, and there are {} us",
                micros(cost),
                micros(Nanos(cost.0.saturating_mul(asked_per_second))),
                micros(reserved),
                micros(available)
            ),
            Self::ClientsFull { capacity } => {
                write!(out, "there are places for {capacity} clients, and all are taken")
            }
            Self::GroupsFull { capacity } => {
                write!(out, "there are places for {capacity} groups: their numbers are below {capacity}")
            }
            Self::UnknownGroup(GroupId(group)) => write!(out, "group {group} has not been configured"),
            Self::UnknownClient(StreamId(client)) => write!(out, "client {client} has not been configured"),
            Self::Nested => write!(out, "a group cannot be in a group"),
        }
    }
}

impl core::error::Error for ShareError {}

/// Microseconds, rounded up.
const fn micros(span: Nanos) -> u64 {
    span.0.div_ceil(1_000)
}
