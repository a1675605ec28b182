//! Costs in device time: estimated when a request is submitted, and corrected when it completes.
//!
//! The estimate is a running mean for each client and operation; for a client not seen before, that of all clients. At
//! completion the exact difference goes to whatever was charged: a fraction of a unit is kept for the client's next request.
//! A request costs its service time as observed by [`Service`], so a tenant of random reads pays for its seeks. Requests that
//! complete at one moment divide it ([`Moment`]), as nobody can see which of them took it.

use alloc::boxed::Box;
use alloc::vec;

use super::cost::COST_MAX;
use super::moment::Moment;
use super::service::Service;
use crate::{Nanos, Operation};

/// Nanoseconds of a unit of cost.
const UNIT_NANOS: u64 = 10_000;

/// The weight of the newest time in a mean, as a power of two.
const MEAN_SHIFT: u32 = 3;

const OPERATIONS: usize = Operation::ALL.len();

#[derive(Clone, Copy, Debug)]
struct Client {
    /// Mean times in nanoseconds; zero means none seen.
    means: [u32; OPERATIONS],
    /// The part of its times that has not been charged yet, in nanoseconds.
    carried: u32,
}

impl Client {
    const NEW: Self = Self { means: [0; OPERATIONS], carried: 0 };
}

#[derive(Clone, Debug)]
pub(crate) struct Times {
    service: Service,
    moment: Moment,
    clients: Box<[Client]>,
    /// The means over all clients.
    means: [u32; OPERATIONS],
}

impl Times {
    pub(crate) fn new(clients: u32, slots: u32) -> Self {
        Self {
            service: Service::new(slots),
            moment: Moment::NEW,
            clients: vec![Client::NEW; clients as usize].into_boxed_slice(),
            means: [0; OPERATIONS],
        }
    }

    /// The device has received a request, or a merged one.
    pub(crate) fn dispatched(&mut self, now: Nanos, slot: u32) {
        self.service.dispatched(now, slot);
    }

    /// The device has completed it; returns the time that it is charged for.
    pub(crate) fn completed(&mut self, now: Nanos, slot: u32) -> Nanos {
        let took = self.service.completed(now, slot);
        self.moment.divide(now, took)
    }

    /// Resets an entry that belongs to a new client.
    pub(crate) fn forget(&mut self, client: u32) {
        self.clients[client as usize] = Client::NEW;
    }

    /// The expected cost of a request; at least one unit.
    pub(crate) fn estimate(&self, client: u32, operation: Operation) -> u32 {
        let own = self.clients[client as usize].means[operation as usize];
        let mean = if own == 0 { self.means[operation as usize] } else { own };
        (mean / UNIT_NANOS as u32).clamp(1, COST_MAX)
    }

    /// Records the time that a request has cost; returns the charge for it, in units.
    pub(crate) fn learn(&mut self, client: u32, operation: Operation, cost: Nanos) -> u32 {
        let nanos = cost.0.min(u64::from(COST_MAX) * UNIT_NANOS) as u32; // less than 2^32
        let of = &mut self.clients[client as usize];
        for mean in [&mut of.means[operation as usize], &mut self.means[operation as usize]] {
            *mean = if *mean == 0 { nanos } else { *mean - (*mean >> MEAN_SHIFT) + (nanos >> MEAN_SHIFT) };
        }
        self.charge(client, cost)
    }

    /// Converts a time of a client to units, at most the largest cost.
    pub(crate) fn charge(&mut self, client: u32, time: Nanos) -> u32 {
        let of = &mut self.clients[client as usize];
        let nanos = time.0.saturating_add(u64::from(of.carried));
        let units = (nanos / UNIT_NANOS).min(u64::from(COST_MAX));
        of.carried = (nanos % UNIT_NANOS) as u32; // less than a unit
        units as u32 // at most `COST_MAX`
    }
}
