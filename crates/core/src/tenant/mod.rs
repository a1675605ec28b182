//! Tenants: clients that share a device by what they are entitled to.
//!
//! A client is a stream, and has a [`Share`]. The scheduler that all tenant policies have in common keeps the clients'
//! queues, limits, groups and places; a policy only says whose request is next (`order`). Requests of different clients are
//! never merged, nor are those of one: a unit is a request. Flushes are requests like others.
//!
//! [`TenantControl`] changes shares while requests are queued, and explains why one waits.

use crate::policy::Settings;

mod control;
mod cost;
mod fair;
mod groups;
mod limit;
mod live;
mod order;
mod pace;
mod readiness;
mod reservations;
mod scheduler;
mod share;
mod slab;

pub use control::{Explanation, Rule, TenantControl};
pub use share::{BURST_BYTES_MAX, BURST_MAX, GroupId, RATE_BYTES_MAX, RATE_MAX, Share, ShareError, WEIGHT_MAX};

/// Clients that can be told apart.
pub const CLIENTS_MAX: u32 = 30_000;

/// Groups that there can be.
pub const GROUPS_MAX: u32 = 2_000;

const _: () = assert!(1 + CLIENTS_MAX + GROUPS_MAX <= fair::NODES_MAX);

pub(crate) use cost::CostModel;
pub(crate) use fair::{Fair, LEAD_MAX, earlier};
pub(crate) use order::{Head, Order, Size, Standing};
pub(crate) use pace::Pace;
pub(crate) use reservations::Reservations;
pub(crate) use scheduler::TenantScheduler;

/// How many there can be, and how they are charged: what is fixed at construction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) clients: u32,
    pub(crate) groups: u32,
    pub(crate) cost: CostModel,
}

impl Capacity {
    /// From the parameters that all tenant policies begin with.
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        let [clients, groups, cost] = settings.values();
        // Bounded by the parameters.
        Self { clients: clients as u32, groups: groups as u32, cost: CostModel::from_setting(cost) }
    }

    /// Places for clients, the shared one included.
    pub(crate) const fn places(&self) -> u32 {
        self.clients + 1
    }

    /// Numbers of what is ordered: clients, then groups.
    pub(crate) const fn nodes(&self) -> u32 {
        self.places() + self.groups
    }
}
