//! Worlds in which a promise is broken on purpose: a checker that does not notice is a defect.

use super::promise::Promise;

/// A defect that is put into a world, outside of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// The disk answers writes that it never makes.
    LostWrites,
    /// The disk answers flushes that make nothing durable.
    LyingFlushes,
    /// The answers to clients hide that flushes and writes fail after a failed flush.
    HiddenFailure,
    /// The checker expects a lower limit than the server has.
    OtherLimit,
    /// The checker expects other weights than the server has.
    OtherWeights,
    /// The checker expects larger reservations than the server has.
    OtherReservations,
    /// The checker sees a clock of reservations that stands still.
    StoppedClock,
    /// The server scrubs less often than the checker expects.
    OtherPeriod,
    /// The server takes services for no idle classes, and the checker does.
    OtherIdleDepth,
    /// Clients get errors of a tier that only holds copies.
    HeardCopies,
    /// Exports that were removed are still shown to clients.
    ShownExport,
    /// A volume that is added does not read as zeroes.
    UnwipedVolume,
    /// Changes of the table of volumes are not durable.
    LostVolume,
    /// The disk swallows reads.
    SwallowedReads,
    /// While the engine of one device stands still, those of others do.
    SharedStall,
    /// A client forgets an answer.
    ForgottenAnswer,
    /// A client gets an answer a second time.
    SecondAnswer,
}

impl Canary {
    /// Every canary.
    pub const ALL: &'static [Self] = &[
        Self::LostWrites,
        Self::LyingFlushes,
        Self::HiddenFailure,
        Self::OtherLimit,
        Self::OtherWeights,
        Self::OtherReservations,
        Self::StoppedClock,
        Self::OtherPeriod,
        Self::OtherIdleDepth,
        Self::HeardCopies,
        Self::ShownExport,
        Self::UnwipedVolume,
        Self::LostVolume,
        Self::SwallowedReads,
        Self::SharedStall,
        Self::ForgottenAnswer,
        Self::SecondAnswer,
    ];

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

    /// The canary's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LostWrites => "lost-writes",
            Self::LyingFlushes => "lying-flushes",
            Self::HiddenFailure => "hidden-failure",
            Self::OtherLimit => "other-limit",
            Self::OtherWeights => "other-weights",
            Self::OtherReservations => "other-reservations",
            Self::StoppedClock => "stopped-clock",
            Self::OtherPeriod => "other-period",
            Self::OtherIdleDepth => "other-idle-depth",
            Self::HeardCopies => "heard-copies",
            Self::ShownExport => "shown-export",
            Self::UnwipedVolume => "unwiped-volume",
            Self::LostVolume => "lost-volume",
            Self::SwallowedReads => "swallowed-reads",
            Self::SharedStall => "shared-stall",
            Self::ForgottenAnswer => "forgotten-answer",
            Self::SecondAnswer => "second-answer",
        }
    }
}
