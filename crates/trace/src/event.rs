//! The kinds of block-layer events; the user chooses which of them become records.

use std::fmt;
use std::str::FromStr;

use ioweir_config::{ChoiceError, unknown};

ioweir_core::named! {
    /// A kind of event of a block-layer trace.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Event {
        /// `Q`: the request as submitted, before merging and splitting.
        #[default]
        Queue = "queue",
        /// `I`: the request as it was put into the scheduler, after merging and splitting. Not every request passes through it.
        Insert = "insert",
        /// `D`: the request as it was sent to the device, in the order that the traced scheduler chose.
        Issue = "issue",
        /// `C`: the request as the device completed it, for captures that hold nothing else: neither the arrival nor the
        /// process is known.
        Complete = "complete",
    }
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Event {
    type Err = ChoiceError;

    fn from_str(name: &str) -> Result<Self, ChoiceError> {
        let names = Self::ALL.map(Self::name);
        let found = Self::ALL.into_iter().find(|event| event.name() == name);
        found.ok_or_else(|| unknown("kind of event", name, &names, ""))
    }
}

ioweir_config::as_text!(Event => "a kind of event, such as \"queue\"");
