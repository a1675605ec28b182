//! How people write amounts, names and files: sizes, durations, policies with their settings, and errors with their place.

#![forbid(unsafe_code)]

mod choice;
mod error;
mod text;
mod units;

pub use choice::{
    Choice, ChoiceError, Choosable, ScheduleChoice, SchedulerChoice, format_range, format_value, unknown,
};
pub use error::{Complaint, SpecError};
pub use units::{
    Ratio, UnitError, exact_bytes, exact_duration, format_bytes, format_count, format_decimals, format_nanos,
    parse_bytes, parse_duration, shown,
};
