//! How people write amounts, names and files: sizes, durations, policies with their settings, and errors with their place.

#![forbid(unsafe_code)]

mod amount;
mod choice;
mod error;
mod format;
mod text;

pub use amount::{
    AMOUNT_EXAMPLES, AmountExample, AmountKind, ByteRate, Duration, Rate, Ratio, Size, UnitError, parse_decimal,
};
pub use choice::{
    Choice, ChoiceError, Choosable, ScheduleChoice, SchedulerChoice, format_range, format_value, unknown,
};
pub use error::{Complaint, SpecError};
pub use format::{format_bytes, format_count, format_decimals, format_nanos, shown};
