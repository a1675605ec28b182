//! Ending a server from another thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ioweir_core::Nanos;

use super::ask::Questions;

/// Ends a server from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    /// The time within which the server has to end, in nanoseconds, or one of the values below.
    pub(super) within: Arc<AtomicU64>,
    pub(super) wake: Arc<OwnedFd>,
    pub(super) asked: Questions,
}

/// The server is not to end.
pub(super) const SERVES: u64 = u64::MAX;
/// The server is to end once all requests are answered.
pub(super) const ONCE_ANSWERED: u64 = u64::MAX - 1;
/// The server is to end within the `shutdown_timeout` of its spec.
pub(super) const AS_IN_SPEC: u64 = 0;

impl Stopper {
    /// Lets the server answer the requests in flight, within the `shutdown_timeout` of its spec, and then end.
    pub fn stop(&self) {
        self.shorten(AS_IN_SPEC);
    }

    /// Ends the server as [`Stopper::stop`] does, within another time or without a limit; `stop` and shorter limits still have an effect.
    pub fn drain(&self, limit: Option<Nanos>) {
        self.shorten(limit.map_or(ONCE_ANSWERED, |limit| limit.0.clamp(AS_IN_SPEC + 1, ONCE_ANSWERED)));
    }

    fn shorten(&self, within: u64) {
        self.within.fetch_min(within, Ordering::Relaxed);
        self.wake();
    }

    pub(super) fn wake(&self) {
        // A full counter wakes the front, too.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}
