//! Limits the number of clients: in the whole server, from one peer, and in one class.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::engine::Permit;
use crate::log::EventKind;
use crate::spec::{Class, Identity};

/// The number of clients, including those that still negotiate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permits(Arc<AtomicU32>);

impl Permits {
    pub(crate) fn taken(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The origin of a client: an address, or a user of this machine.
type Origin = (Option<IpAddr>, Option<u32>);

/// The counts of clients.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) all: Permits,
    /// The number of clients by origin, for origins that have clients.
    peers: BTreeMap<Origin, Arc<AtomicU32>>,
    /// The number of clients by class.
    classes: Vec<Arc<AtomicU32>>,
}

impl Places {
    /// A permit for a client; `None` if the server or its origin has the most that it may have.
    pub(super) fn admit(
        &mut self,
        client: &Identity,
        (most, most_per_peer): (u32, u32),
        wake: &Arc<OwnedFd>,
    ) -> Result<Permit, EventKind> {
        let origin = (client.address.map(|address| address.to_canonical()), client.process.map(|(user, _)| user));
        // Counts that only this table refers to have no clients.
        self.peers.retain(|_, count| Arc::strong_count(count) > 1);
        let mut permit = Permit::new(Arc::clone(wake));
        if !permit.join(self.peers.entry(origin).or_default(), most_per_peer) {
            return Err(EventKind::PeerFull);
        }
        if permit.join(&self.all.0, most) { Ok(permit) } else { Err(EventKind::ServerFull) }
    }

    /// Counts a client in its class, unless the class has the most that it may have.
    pub(super) fn join_class(&mut self, permit: &mut Permit, number: usize, class: &Class) -> bool {
        if self.classes.len() <= number {
            self.classes.resize_with(number + 1, Arc::default);
        }
        permit.join(&self.classes[number], class.connections_max.unwrap_or(u32::MAX))
    }
}
