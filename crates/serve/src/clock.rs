//! What time is it? The one place that asks.

use std::time::Instant;

use ioweir_core::Nanos;

/// Time since a server began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the crate that has a clock has it here")]
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
