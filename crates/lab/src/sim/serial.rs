//! Windows of serial execution: of each window of time, the last part is serial, and workers begin no request.

use ioweir_config::{Complaint, Duration};
use ioweir_core::Nanos;
use serde::{Deserialize, Serialize};

/// The shortest and the longest window.
const WINDOW_NANOS: [u64; 2] = [1_000, 1_000_000_000];

/// The alternation of concurrent and serial execution, as a specification has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SerialSpec {
    pub window: Duration,
    /// The serial part of the window.
    pub length: Duration,
}

impl SerialSpec {
    /// Checks the windows; `key` is the place of their table.
    pub(crate) fn check(&self, key: &str) -> Result<(), Complaint> {
        let within = |name: &str, value: Duration, range: [u64; 2]| {
            Complaint::unless_within(format!("{key}.{name}"), value, range.map(|nanos| Duration::new(Nanos(nanos))))
        };
        within("window", self.window, WINDOW_NANOS)?;
        within("length", self.length, [1, self.window.nanos().0 / 2])
    }
}

/// Windows of time that end with a part in which the server executes serially.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serial {
    /// The length of a window; above zero.
    pub window: u64,
    /// The length of the serial part of it.
    pub length: u64,
}

impl From<SerialSpec> for Serial {
    fn from(spec: SerialSpec) -> Self {
        Self { window: spec.window.nanos().0, length: spec.length.nanos().0 }
    }
}

impl Serial {
    /// The end of the serial part that is running now.
    pub(super) fn until(self, now: u64) -> Option<u64> {
        let at = now % self.window;
        (at >= self.window - self.length).then(|| now - at + self.window)
    }
}
