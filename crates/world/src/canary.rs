//! Worlds in which a promise is broken on purpose: a checker that does not notice is a defect.

use super::promise::Promise;

ioweir_core::named! {
    /// A defect that is put into a world, outside of the server.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Canary {
        /// The disk answers writes that it never makes.
        LostWrites = "lost-writes",
        /// The disk answers flushes that make nothing durable.
        LyingFlushes = "lying-flushes",
        /// The answers to clients hide that flushes and writes fail after a failed flush.
        HiddenFailure = "hidden-failure",
        /// The checker expects a lower limit than the server has.
        OtherLimit = "other-limit",
        /// The checker expects other weights than the server has.
        OtherWeights = "other-weights",
        /// The checker expects larger reservations than the server has.
        OtherReservations = "other-reservations",
        /// The checker sees a clock of reservations that stands still.
        StoppedClock = "stopped-clock",
        /// The server scrubs less often than the checker expects.
        OtherPeriod = "other-period",
        /// The server takes services for no idle classes, and the checker does.
        OtherIdleDepth = "other-idle-depth",
        /// Clients get errors of a tier that only holds copies.
        HeardCopies = "heard-copies",
        /// Exports that were removed are still shown to clients.
        ShownExport = "shown-export",
        /// A volume that is added does not read as zeroes.
        UnwipedVolume = "unwiped-volume",
        /// Changes of the table of volumes are not durable.
        LostVolume = "lost-volume",
        /// The disk swallows reads.
        SwallowedReads = "swallowed-reads",
        /// While the engine of one device stands still, those of others do.
        SharedStall = "shared-stall",
        /// A client forgets an answer.
        ForgottenAnswer = "forgotten-answer",
        /// A client gets an answer a second time.
        SecondAnswer = "second-answer",
    }
}

impl Canary {
    /// The promise that the canary breaks.
    #[must_use]
    pub const fn breaks(self) -> Promise {
        match self {
            Self::LostWrites | Self::UnwipedVolume => Promise::Linearisable,
            Self::LyingFlushes | Self::LostVolume => Promise::Durable,
            Self::HiddenFailure => Promise::FailedStays,
            Self::OtherLimit | Self::OtherWeights | Self::OtherReservations | Self::StoppedClock => Promise::Shares,
            Self::OtherPeriod | Self::OtherIdleDepth => Promise::Services,
            Self::SwallowedReads | Self::SharedStall => Promise::Waits,
            Self::ForgottenAnswer => Promise::Metrics,
            Self::SecondAnswer | Self::HeardCopies | Self::ShownExport => Promise::Protocol,
        }
    }
}
