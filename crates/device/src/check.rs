//! Checks of parameters, shared by the models.

use ioweir_config::{Complaint, Duration};

use super::quantity::SpindleSpeed;

/// The longest time of one step of a device.
const STEP_MAX: Duration = Duration::from_seconds(4);

/// Makes an error at a key.
pub(super) fn fail<T>(
    key: impl Into<String>,
    problem: impl Into<String>,
    hint: impl Into<String>,
) -> Result<T, Complaint> {
    Err(Complaint::new(key, problem, hint))
}

/// Checks that the numbers of one table are within their bounds.
pub(super) fn numbers(table: &str, numbers: &[(&str, u32, u32, u32)]) -> Result<(), Complaint> {
    match numbers.iter().find(|(_, value, least, most)| !(least..=most).contains(&value)) {
        Some((key, value, least, most)) => {
            fail(format!("{table}.{key}"), format!("is {value}"), format!("give a number from {least} to {most}"))
        }
        None => Ok(()),
    }
}

/// Checks the speed of a spindle in one table.
pub(super) fn spindle(table: &str, speed: SpindleSpeed) -> Result<(), Complaint> {
    if (600.0..=100_000.0).contains(&speed.per_minute()) {
        return Ok(());
    }
    fail(format!("{table}.revolutions_per_minute"), format!("is {speed}"), "give a number from 600 to 100000")
}

/// Checks the times of single steps in one table.
pub(super) fn times(table: &str, times: &[(&str, Duration)]) -> Result<(), Complaint> {
    match times.iter().find(|(_, time)| *time > STEP_MAX) {
        Some((key, time)) => fail(format!("{table}.{key}"), format!("{time} is longer than 4 s"), "check the unit"),
        None => Ok(()),
    }
}
