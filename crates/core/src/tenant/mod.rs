//! Tenants: clients that share a device in the proportions of their shares.
//!
//! Each stream is a client with a [`Share`]. All tenant policies use one scheduler, which keeps the clients' queues, limits
//! and groups; a policy only decides whose request is next (`order`). Requests are not merged. Flushes are treated like
//! other requests.
//!
//! [`TenantControl`] changes shares while requests are queued, and explains why one waits.

use crate::settings::{Parameter, Settings};

mod control;
mod controller;
mod cost;
mod fair;
mod groups;
mod limit;
mod live;
mod moment;
mod order;
mod pace;
mod readiness;
mod requests;
mod reservations;
mod scheduler;
mod service;
mod share;
mod times;

pub use control::{Elsewhere, Explanation, Rule, TenantControl};
pub use share::{BURST_BYTES_MAX, BURST_MAX, GroupId, RATE_BYTES_MAX, RATE_MAX, Share, ShareError, WEIGHT_MAX};

/// The most clients.
pub const CLIENTS_MAX: u32 = 30_000;

/// The most groups.
pub const GROUPS_MAX: u32 = 2_000;

const _: () = assert!(1 + CLIENTS_MAX + GROUPS_MAX <= fair::NODES_MAX);

pub(crate) use controller::{Controlled, Controller, Lane};
pub(crate) use cost::CostModel;
pub(crate) use fair::{Fair, LEAD_MAX, UNIT};
pub(crate) use moment::Moment;
pub(crate) use order::{Head, Order, RuleState, Size};
pub(crate) use pace::Pace;
pub(crate) use reservations::{LEAD, Reserved};
pub(crate) use scheduler::TenantScheduler;
pub(crate) use service::Service;

/// The capacity for clients and groups, and the cost model, fixed at construction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) clients: u32,
    pub(crate) groups: u32,
    pub(crate) cost: CostModel,
}

impl Capacity {
    /// Reads the parameters that come first in every tenant policy.
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        let [clients, groups, cost] = settings.values();
        // The parameters' ranges make both numbers fit.
        Self { clients: clients as u32, groups: groups as u32, cost: CostModel::from_setting(cost) }
    }

    /// The number of entries in the table of clients, including the shared one.
    pub(crate) const fn entries(&self) -> u32 {
        self.clients + 1
    }

    /// The number of nodes: clients, then groups.
    pub(crate) const fn nodes(&self) -> u32 {
        self.entries() + self.groups
    }
}

/// The most clients: the first parameter of every tenant policy.
pub(crate) const CLIENTS: Parameter = Parameter::count(
    "clients",
    1024,
    1,
    CLIENTS_MAX as u64,
    "clients, fixed at the start; streams beyond them share one",
)
.fixed();

/// The most groups: the second parameter.
pub(crate) const GROUPS: Parameter =
    Parameter::count("groups", 0, 0, GROUPS_MAX as u64, "groups of clients that can be configured, fixed at the start")
        .fixed();

/// The cost model: the third parameter.
pub(crate) const COST: Parameter = Parameter::choice(
    "cost",
    CostModel::NAMES,
    "cost of a request in rates, bursts and turns: one, its 512-byte sectors, or the time it takes the device in units of \
10 us (100,000 a second are all of it), charged by the client's mean so far and corrected at completion; fixed at the start",
);

/// The cost model of a policy that cannot correct a cost.
pub(crate) const KNOWN_COST: Parameter = Parameter::choice(
    "cost",
    CostModel::KNOWN_NAMES,
    "cost of a request in rates, bursts and turns: one, or its 512-byte sectors; fixed at the start",
);
