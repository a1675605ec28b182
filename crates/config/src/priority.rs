//! I/O priorities as users write them: `realtime:0`, `best-effort:7`, `idle`.

use std::fmt;
use std::str::FromStr;

use ioweir_core::{Priority, PriorityClass};

use crate::{UnitError, as_text, shown};

/// How urgent requests are; the default level is 4, as for ionice.
///
/// ```
/// use ioweir_config::IoPriority;
/// use ioweir_core::{Priority, PriorityClass};
/// let urgent = Priority::new(PriorityClass::Realtime, 0).unwrap();
/// assert_eq!("realtime:0".parse(), Ok(IoPriority(urgent)));
/// assert_eq!("best-effort".parse(), Ok(IoPriority(Priority::USUAL)));
/// assert_eq!("idle".parse::<IoPriority>()?.to_string(), "idle");
/// # Ok::<(), ioweir_config::UnitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoPriority(pub Priority);

as_text!(IoPriority => "text, such as \"best-effort:0\"");

const CLASSES: [(&str, PriorityClass); 2] =
    [("realtime", PriorityClass::Realtime), ("best-effort", PriorityClass::BestEffort)];
const IDLE: &str = "idle";
const EXPECTED: &str = "realtime or best-effort, with a level from 0 (the most urgent) to 7 after a colon, or idle";

impl fmt::Display for IoPriority {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match CLASSES.iter().find(|(_, class)| *class == self.0.class()) {
            Some((name, _)) => write!(out, "{name}:{}", self.0.level()),
            None => out.write_str(IDLE),
        }
    }
}

impl FromStr for IoPriority {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (name, level) = text.split_once(':').unwrap_or((text, "4"));
        let level = level.parse().ok().filter(|_| level.len() == 1);
        let class = CLASSES.iter().find(|(known, _)| *known == name).map(|(_, class)| *class);
        let known = match class.zip(level) {
            _ if text == IDLE => Priority::new(PriorityClass::Idle, 0),
            Some((class, level)) => Priority::new(class, level),
            None => None,
        };
        known
            .map(Self)
            .ok_or_else(|| UnitError { problem: format!("`{}` is no I/O priority", shown(text)), expected: EXPECTED })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_priority_reads_back_others_are_refused() {
        for name in ["realtime", "best-effort"] {
            for level in 0..8 {
                let text = format!("{name}:{level}");
                let read: IoPriority = text.parse().unwrap();
                assert_eq!((read.to_string(), read.0.level()), (text, level));
            }
        }
        for wrong in
            ["", "none", "realtime:8", "realtime:", "realtime:+4", "idle:0", "rt:0", "Realtime:0", "best-effort:04"]
        {
            let error = wrong.parse::<IoPriority>().unwrap_err().to_string();
            assert!(error.contains("` is no I/O priority") && error.contains("or idle"), "{error}");
        }
    }
}
