//! The fleet of this server: the parts of shares that its classes have, and what it sees of the other servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use ioweir_core::fleet::Sight;
use ioweir_core::tenant::Share;

use super::Controller;
use crate::spec::{ClassPart, Spec};

/// The state of the fleet as this server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetStatus {
    /// Whether this server sees the others.
    pub sight: Sight,
    /// The number of servers in the newest round, this one included.
    pub servers: u32,
    /// How often an exchange with etcd has failed.
    pub failures: u64,
    /// The reason why exchanges fail at present, if they do.
    pub problem: Option<String>,
    /// The service that the tenant of each class has received on all servers, in units of cost, by class.
    pub served: BTreeMap<u32, u64>,
    /// The members of tenants, by class.
    pub classes: BTreeMap<u32, FleetClass>,
}

impl Default for FleetStatus {
    fn default() -> Self {
        let (served, classes) = (BTreeMap::new(), BTreeMap::new());
        Self { sight: Sight::Alone, servers: 1, failures: 0, problem: None, served, classes }
    }
}

/// A class that is a member of a tenant of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetClass {
    /// The class's share on this server.
    pub here: Share,
    /// The tenant's share on all servers together.
    pub all: Share,
    /// The service that the tenant has received on all servers, in units of cost.
    pub served_in_all: u64,
}

impl Controller {
    /// Gives classes these parts of their shares in the spec, on every device or on none.
    ///
    /// # Errors
    /// What is wrong, in words; the parts are then unchanged.
    pub fn apportion(&self, parts: BTreeMap<u32, ClassPart>, status: FleetStatus) -> Result<(), String> {
        let mut running = self.lock();
        let told = if running.spec.parts == parts {
            Ok(())
        } else {
            let spec = Spec { parts, ..(*running.spec).clone() };
            let told = self.tell_engines(&running.spec, &spec, None);
            if told.is_ok() {
                running.spec = Arc::new(spec);
            }
            told
        };
        running.fleet = Some(status);
        told
    }

    /// The state of this server's fleet, if it belongs to one.
    #[must_use]
    pub fn fleet(&self) -> Option<FleetStatus> {
        self.lock().fleet.clone()
    }
}
