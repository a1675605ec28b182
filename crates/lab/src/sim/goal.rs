//! Goals: the quantity by which runs are ranked, with its name in files and on the command line.

use std::fmt;
use std::str::FromStr;

use ioweir_config::{ChoiceError, unknown};
use ioweir_core::Operation;

use super::numbers as n;
use super::{Outcome, Tally};

/// The quantity by which schedulers are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// The time from the first arrival to the last completion.
    #[default]
    Completion,
    /// The mean latency of all requests.
    Mean,
    /// The 99 % quantile of the latency of reads.
    ReadP99,
    /// The time that the device works; with a fast device, that of both together. The rest of the time is available to other loads.
    Busy,
}

impl Goal {
    pub const ALL: [Self; 4] = [Self::Completion, Self::Mean, Self::ReadP99, Self::Busy];

    /// The name in files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completion => "completion",
            Self::Mean => "mean",
            Self::ReadP99 => "read-p99",
            Self::Busy => "busy",
        }
    }

    /// The goal's value for a run, in seconds; `None` if the run had no such requests.
    #[must_use]
    pub fn of_run(self, run: &Outcome) -> Option<f64> {
        match self {
            Self::Completion => Some(run.completion.as_seconds()),
            Self::Busy => Some(n::busy(run)),
            Self::Mean => n::latency_mean(&run.all),
            Self::ReadP99 => n::quantile(&run.by_operation[Operation::Read as usize].latency, 0.99),
        }
    }

    /// The goal's value for some of the requests of a run, in seconds; `None` if there are none, or if it is no matter of requests.
    #[must_use]
    pub fn of_tally(self, tally: &Tally) -> Option<f64> {
        match self {
            _ if tally.requests == 0 => None,
            Self::Completion => Some(tally.completion.as_seconds()),
            Self::Busy => None,
            Self::Mean => n::ratio(n::seconds(tally.latency_sum_nanos), tally.requests as f64),
            Self::ReadP99 => n::quantile(&tally.reads, 0.99),
        }
    }

    /// The goal as the subject of a sentence.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Completion => "completion",
            Self::Mean => "mean latency",
            Self::ReadP99 => "the p99 of reads",
            Self::Busy => "the device's working time",
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Goal {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let found = Self::ALL.into_iter().find(|goal| goal.name() == text);
        found.ok_or_else(|| unknown("goal", text, &Self::ALL.map(Self::name), ""))
    }
}

ioweir_config::as_text!(Goal => "a goal, such as \"read-p99\"");
