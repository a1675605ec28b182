//! Checks of parameters that the models share.

use ioweir_config::{Complaint, Duration};

/// The longest time of one step of a device.
const STEP_MAX: Duration = Duration::from_seconds(4);

/// An error at a key.
pub(super) fn fail<T>(
    key: impl Into<String>,
    problem: impl Into<String>,
    hint: impl Into<String>,
) -> Result<T, Complaint> {
    Err(Complaint::new(key, problem, hint))
}

/// Keys of one table with numbers and their bounds.
pub(super) fn numbers(table: &str, numbers: &[(&str, u32, u32, u32)]) -> Result<(), Complaint> {
    match numbers.iter().find(|(_, value, least, most)| !(least..=most).contains(&value)) {
        Some((key, value, least, most)) => {
            fail(format!("{table}.{key}"), format!("is {value}"), format!("give a number from {least} to {most}"))
        }
        None => Ok(()),
    }
}

/// Keys of one table with times of single steps.
pub(super) fn times(table: &str, times: &[(&str, Duration)]) -> Result<(), Complaint> {
    match times.iter().find(|(_, time)| *time > STEP_MAX) {
        Some((key, time)) => fail(format!("{table}.{key}"), format!("{time} is longer than 4 s"), "check the unit"),
        None => Ok(()),
    }
}
