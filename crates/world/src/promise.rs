//! The server's promises: each has a checker, and a canary that breaks it on purpose.

use std::fmt;

/// The promises: name in the output, and meaning.
macro_rules! promises {
    ($($(#[doc = $help:literal])+ $promise:ident = $name:literal;)+) => {
        ioweir_core::named! {
            /// A promise.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            pub enum Promise { $($(#[doc = $help])+ $promise = $name,)+ }
        }

        impl Promise {
            /// The promise as a sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$promise => concat!($($help),+),)+ }
            }
        }
    };
}

promises! {
    /// every sector behaves as if its reads and writes happened one after the other, each between its request and its answer
    Linearisable = "linearisable";
    /// what a flush or a durable write that was answered covers is there after a crash
    Durable = "durable";
    /// after a failed flush nothing is written or flushed until the device is opened again
    FailedStays = "failed-stays-failed";
    /// limits hold in every window, and classes that ask all the time are served by their weights and reservations
    Shares = "shares";
    /// a scrub reads everything once in each period, whatever the clock says, and an idle class starts nothing beside clients
    Services = "services";
    /// every request is answered in time, also while another device's engine stands still, and nothing is left over when nothing is asked
    Waits = "no-endless-wait";
    /// counters agree with what clients have seen, and the parts of durations add up
    Metrics = "metrics";
    /// what is asked is answered once, in the form agreed on, and what makes no sense is refused
    Protocol = "protocol";
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The broken promise.
    pub promise: Promise,
    /// How it was broken, in words.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.promise.name(), self.what)
    }
}

/// The number of checks of each promise, and the first one that was broken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The number of checks, in the order of [`Promise::ALL`].
    pub checks: [u64; Promise::ALL.len()],
    /// The first broken promise.
    pub broken: Option<Broken>,
}

impl Verdict {
    /// Adds a later verdict.
    pub(super) fn add(&mut self, other: Self) {
        self.checks.iter_mut().zip(other.checks).for_each(|(sum, more)| *sum += more);
        if self.broken.is_none() {
            self.broken = other.broken;
        }
    }

    /// Counts a check of a promise, and notes the failure, if it is the first.
    pub(super) fn check(&mut self, promise: Promise, holds: bool, what: impl FnOnce() -> String) {
        self.checks[promise as usize] += 1;
        if !holds && self.broken.is_none() {
            self.broken = Some(Broken { promise, what: what() });
        }
    }
}
