//! Round robin among the services.

use super::{SERVICES_COUNT, Service};

/// Round robin: a queue with payable debt pays as many items as its priority says, then it is the next queue's turn.
///
/// A queue with debt waits for at most as many items as the priorities of all others add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    priorities: [u32; SERVICES_COUNT],
    current: usize,
    left: u32,
}

impl Turns {
    /// A priority of zero counts as one: every service gets a turn.
    #[must_use]
    pub fn new(priorities: [u32; SERVICES_COUNT]) -> Self {
        let priorities = priorities.map(|priority| priority.max(1));
        Self { priorities, current: 0, left: priorities[0] }
    }

    /// The service that pays the next item, among those that are `ready`.
    pub fn next(&mut self, ready: impl Fn(Service) -> bool) -> Option<Service> {
        // One round over all services, and the current one a second time: its turn may have been used up.
        for _ in 0..=SERVICES_COUNT {
            let service = Service::ALL[self.current];
            if self.left > 0 && ready(service) {
                self.left -= 1;
                return Some(service);
            }
            self.current = (self.current + 1) % SERVICES_COUNT;
            self.left = self.priorities[self.current];
        }
        None
    }

    pub(super) fn words(&mut self, exchange: &mut impl FnMut(u64) -> u64) -> Option<()> {
        self.current = usize::try_from(exchange(self.current as u64)).ok().filter(|at| *at < SERVICES_COUNT)?;
        self.left = u32::try_from(exchange(u64::from(self.left))).ok()?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn priorities() -> [u32; SERVICES_COUNT] {
        let mut priorities = [0; SERVICES_COUNT];
        priorities[Service::SnapshotDelete as usize] = 3;
        priorities[Service::Rebuild as usize] = 2;
        priorities
    }

    #[test]
    fn each_queue_pays_its_priority_in_a_turn() {
        let mut turns = Turns::new(priorities());
        let ready = |service| matches!(service, Service::SnapshotDelete | Service::Rebuild | Service::Analytics);
        let order: Vec<_> = (0..8).filter_map(|_| turns.next(ready)).collect();
        use Service::{Analytics, Rebuild, SnapshotDelete};
        let round = [SnapshotDelete, SnapshotDelete, SnapshotDelete, Rebuild, Rebuild, Analytics];
        assert_eq!(order, [&round[..], &[SnapshotDelete, SnapshotDelete]].concat());
    }

    #[test]
    fn lone_queue_is_served_without_pause() {
        let mut turns = Turns::new(priorities());
        for _ in 0..20 {
            assert_eq!(turns.next(|service| service == Service::Scrub), Some(Service::Scrub));
        }
        assert_eq!(turns.next(|_| false), None);
    }

    #[test]
    fn all_twelve_get_their_turn_within_a_round() {
        let mut turns = Turns::new([2; SERVICES_COUNT]);
        let mut served = [0; SERVICES_COUNT];
        for _ in 0..2 * SERVICES_COUNT {
            if let Some(service) = turns.next(|_| true) {
                served[service as usize] += 1;
            }
        }
        assert_eq!(served, [2; SERVICES_COUNT]);
    }
}
