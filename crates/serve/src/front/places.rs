//! Places for clients: of the server as a whole, from one peer, and of one class.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::engine::Permit;
use crate::log::EventKind;
use crate::spec::{Class, Identity};

/// The number of clients, those that still negotiate included.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permits(Arc<AtomicU32>);

impl Permits {
    pub(crate) fn taken(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where a client comes from: an address, or a user of this machine.
type Origin = (Option<IpAddr>, Option<u32>);

/// The counts of clients.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) all: Permits,
    /// By origin that has clients.
    peers: BTreeMap<Origin, Arc<AtomicU32>>,
    /// By class.
    classes: Vec<Arc<AtomicU32>>,
}

impl Places {
    pub(super) fn new(classes: &[Class]) -> Self {
        let classes = classes.iter().map(|_| Arc::default()).collect();
        Self { all: Permits::default(), peers: BTreeMap::new(), classes }
    }

    /// A permit for a client, unless there are as many of all, or of its origin, as there may be.
    pub(super) fn admit(
        &mut self,
        client: &Identity,
        (most, most_per_peer): (u32, u32),
        wake: &Arc<OwnedFd>,
    ) -> Result<Permit, EventKind> {
        let origin = (client.address.map(|address| address.to_canonical()), client.process.map(|(user, _)| user));
        // Those that only this table holds have no clients.
        self.peers.retain(|_, count| Arc::strong_count(count) > 1);
        let mut permit = Permit::new(Arc::clone(wake));
        if !permit.join(self.peers.entry(origin).or_default(), most_per_peer) {
            return Err(EventKind::PeerFull);
        }
        if permit.join(&self.all.0, most) { Ok(permit) } else { Err(EventKind::ServerFull) }
    }

    /// Counts a client with those of its class, unless there are as many as there may be.
    pub(super) fn join_class(&self, permit: &mut Permit, number: usize, class: &Class) -> bool {
        permit.join(&self.classes[number], class.connections_max.unwrap_or(u32::MAX))
    }
}
