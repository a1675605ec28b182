//! Shares of clients and groups, and the errors of shares that cannot be granted.

use core::fmt;

use crate::{Nanos, StreamId};

/// The largest weight.
pub const WEIGHT_MAX: u32 = 10_000;

/// The largest rate in units of cost a second: one a nanosecond.
pub const RATE_MAX: u64 = 1_000_000_000;

/// The largest burst, in units of cost.
pub const BURST_MAX: u64 = 1_000_000_000;

/// The largest rate in bytes a second: 1 TiB.
pub const RATE_BYTES_MAX: u64 = 1 << 40;

/// The largest burst in bytes: 8 GiB.
pub const BURST_BYTES_MAX: u64 = 1 << 33;

/// A group of clients: a number below the capacity for groups given at construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// The share of a client or a group: weight, reservation, limits and latency. All policies use this one type; each uses the
/// fields that it supports.
///
/// Rates and bursts count units of cost: requests, or sectors of 512 bytes if the policy's `cost` is `sectors`. The limit in
/// bytes is independent of it: a client with both limits keeps both.
///
/// ```
/// use ioweir_core::tenant::{Share, TenantControl};
/// use ioweir_core::{Nanos, QueueLimits, StreamId, policy};
///
/// let row = policy::find("mclock").expect("a built-in policy");
/// let mut policy = row.build(QueueLimits::DEFAULT, &row.defaults());
/// let tenants = policy.tenants_mut().expect("a policy between tenants");
/// let share = Share { reservation_per_second: 500, limit_per_second: 2_000, ..Share::weighted(10) };
/// tenants.configure(Nanos::ZERO, StreamId(7), share)?;
/// assert_eq!(tenants.share(StreamId(7)), share);
/// # Ok::<(), ioweir_core::tenant::ShareError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The client's part of the unreserved capacity, in proportion to the weights of the others; from 1 to [`WEIGHT_MAX`]. For a client in
    /// a group, its part of the group's service.
    pub weight: u32,
    /// The rate that it gets at least while it is active; zero means none. It is also the rate of the arrival curve for
    /// which `pclock` keeps the latency. A client in a group reserves through its group.
    pub reservation_per_second: u64,
    /// The rate that it gets at most, not below the reservation; zero means no limit.
    pub limit_per_second: u64,
    /// The units of cost that may go at once after a pause, above the limit and above the rate of the arrival curve. Zero
    /// means what the limit lets through in a tenth of a second, and one for the arrival curve.
    pub burst: u64,
    /// The bytes that it may read and write in a second; zero means no limit.
    pub limit_bytes_per_second: u64,
    /// The bytes that may go at once above that limit after a pause. A request of any size goes while this is not used up;
    /// the next one waits for what it took beyond it. So in any window, less than this plus one request goes above the
    /// limit. Zero means what the limit lets through in a tenth of a second.
    pub burst_bytes: u64,
    /// `io-max`: the bytes that it may read in a second; zero means no limit.
    pub read_bytes_per_second: u64,
    /// `io-max`: the bytes that it may write in a second.
    pub write_bytes_per_second: u64,
    /// `io-max`: the requests that it may read in a second.
    pub reads_per_second: u64,
    /// `io-max`: the requests other than reads that it may send in a second.
    pub writes_per_second: u64,
    /// `pclock`: the longest latency while the client keeps to its arrival curve. `parda`: the latency that the device is
    /// kept at; the smallest of all clients counts. `io-latency`: the client's target. [`Nanos::NEVER`] means none.
    pub latency: Nanos,
    /// The group that it belongs to.
    pub group: Option<GroupId>,
    /// Whether its requests are refused at its limit instead of waiting.
    pub refuses_at_limit: bool,
}

impl Share {
    /// Weight 1 and nothing else: the share of a client that has not been configured.
    pub const DEFAULT: Self = Self {
        weight: 1,
        reservation_per_second: 0,
        limit_per_second: 0,
        burst: 0,
        limit_bytes_per_second: 0,
        burst_bytes: 0,
        read_bytes_per_second: 0,
        write_bytes_per_second: 0,
        reads_per_second: 0,
        writes_per_second: 0,
        latency: Nanos::NEVER,
        group: None,
        refuses_at_limit: false,
    };

    /// A weight and nothing else.
    #[must_use]
    pub const fn weighted(weight: u32) -> Self {
        Self { weight, ..Self::DEFAULT }
    }

    /// The limits of reads and of all else, each in bytes and requests a second; zero means no limit.
    #[must_use]
    pub const fn directions(&self) -> [(u64, u64); 2] {
        [(self.read_bytes_per_second, self.reads_per_second), (self.write_bytes_per_second, self.writes_per_second)]
    }

    /// The units of cost that may go at once above the limit: `burst`, or a tenth of a second's worth of the limit.
    ///
    /// A client that is held at its limit loses nothing as long as it asks again before its bucket is full. With a burst of
    /// one request it would lose the time from each completion to its next request, and all that other clients delay it.
    #[must_use]
    pub const fn limit_burst(&self) -> u64 {
        burst_of(self.limit_per_second, self.burst, BURST_MAX)
    }

    /// The bytes that may go at once above the limit in bytes: `burst_bytes`, or a tenth of a second's worth of that limit.
    #[must_use]
    pub const fn limit_burst_bytes(&self) -> u64 {
        burst_of(self.limit_bytes_per_second, self.burst_bytes, BURST_BYTES_MAX)
    }

    /// Checks everything that does not depend on other shares.
    ///
    /// # Errors
    /// [`ShareError`] says what is wrong.
    pub const fn check(&self) -> Result<(), ShareError> {
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
        let [read, write] = self.directions();
        let (bytes, requests) = (maximum(read.0, write.0), maximum(read.1, write.1));
        if bytes > RATE_BYTES_MAX {
            return Err(ShareError::ByteRate { bytes_per_second: bytes });
        }
        if requests > RATE_MAX {
            return Err(ShareError::Rate { rate_per_second: requests });
        }
        if burst > BURST_MAX {
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

const fn maximum(one: u64, other: u64) -> u64 {
    if one > other { one } else { other }
}

/// The given burst, or a tenth of a second's worth of a limit; at least one, since otherwise no request would ever go.
const fn burst_of(per_second: u64, given: u64, most: u64) -> u64 {
    match (given, per_second / 10) {
        (0, 0) => 1,
        (0, tenth) if tenth > most => most,
        (0, tenth) => tenth,
        (given, _) => given,
    }
}

/// Why a share was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareError {
    /// The weight is zero or above [`WEIGHT_MAX`].
    Weight {
        /// The value given.
        weight: u32,
    },
    /// A rate is above [`RATE_MAX`].
    Rate {
        /// The value given.
        rate_per_second: u64,
    },
    /// The burst is above [`BURST_MAX`].
    Burst {
        /// The value given.
        burst: u64,
    },
    /// The limit in bytes is above [`RATE_BYTES_MAX`].
    ByteRate {
        /// The value given.
        bytes_per_second: u64,
    },
    /// The burst in bytes is above [`BURST_BYTES_MAX`].
    ByteBurst {
        /// The value given.
        bytes: u64,
    },
    /// The limit is below the reservation.
    LimitBelowReservation {
        /// The limit asked for.
        limit_per_second: u64,
        /// The reservation asked for.
        reservation_per_second: u64,
    },
    /// A client in a group cannot have a reservation of its own.
    ReservationInGroup {
        /// The value given.
        reservation_per_second: u64,
    },
    /// The reservations would add up to more than the device's capacity.
    Infeasible {
        /// The value given.
        asked_per_second: u64,
        /// The sum of all other reservations.
        reserved_per_second: u64,
        /// The device's capacity.
        capacity_per_second: u64,
    },
    /// The reservations would need more device time than there is, at the worst mean cost of each client.
    InfeasibleTime {
        /// The value given.
        asked_per_second: u64,
        /// The worst mean cost of its requests.
        cost: Nanos,
        /// The device time in each second that all other reservations need.
        reserved: Nanos,
        /// The device time available in each second.
        available: Nanos,
    },
    /// The table of clients is full: all are configured or have requests.
    ClientsFull {
        /// The capacity for clients.
        capacity: u32,
    },
    /// The group's number is not below the capacity for groups.
    GroupsFull {
        /// The capacity for groups.
        capacity: u32,
    },
    /// The group has not been configured.
    UnknownGroup(GroupId),
    /// The client has not been configured.
    UnknownClient(StreamId),
    /// A group cannot be in a group.
    Nested,
    /// The policy does not keep a limit of the share.
    NotKept,
}

impl fmt::Display for ShareError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Weight { weight } => write!(out, "weight {weight} is not between 1 and {WEIGHT_MAX}"),
            Self::Rate { rate_per_second } => write!(out, "{rate_per_second}/s is more than {RATE_MAX}/s"),
            Self::Burst { burst } => write!(out, "a burst of {burst} is more than {BURST_MAX}"),
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
            Self::NotKept => {
                write!(
                    out,
                    "the scheduler does not keep this limit: rbps, wbps, riops and wiops are for io-max, limit and \
                     limit_bytes for tenant policies that are not Linux's"
                )
            }
            Self::Nested => write!(out, "a group cannot be in a group"),
        }
    }
}

impl core::error::Error for ShareError {}

/// Microseconds, rounded up.
const fn micros(span: Nanos) -> u64 {
    span.0.div_ceil(1_000)
}
